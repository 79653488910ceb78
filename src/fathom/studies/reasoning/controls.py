"""Does a model reason, or does it only look so? The controls of the entailment study.

*Uses what it remembers.* P2 is said, P1 is not. A model that knows P1 can then answer; but so it seems of any model
whose answers are biased, since its bias decides which premises count as remembered. So the same items are asked by
texts from which the answer does not follow: with nothing said, with P2 said of other pseudowords, and with another
item's P2. The gain over each of them, in 1 / rank, is compared between the half of the items whose P1 is remembered
better and the other half: a difference in differences. Items that equal memory would put into either half are left out.

*Combines what is said.* Both premises are said. Whoever copies the answer from P1 has it without P2, too, and where P2
is said of other pseudowords: the gain over these texts is of P2, and not of P1.

Each contrast stands beside the same of untrained twins, which do not reason. A conclusion needs all contrasts above
zero, and above those of the twins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.prompts.entailment import ANOTHER, BOTH_OF_OTHERS, OF_OTHERS
from fathom.results.claims import SIGNIFICANT, UNDETERMINED, Claim, decide
from fathom.results.claims import Contrast as Needed
from fathom.results.estimates import Estimate, difference, untold
from fathom.results.recipes import recipe
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.studies.reasoning.runs import ModelRuns

MEMORY = {"nothing said": "none", "P2 of others": OF_OTHERS, "another P2": ANOTHER}
"""What P2 is compared with where P1 is not said, and the texts that say it."""
SAID = {"P1 alone": "P1", "P2 of others": BOTH_OF_OTHERS}
"""What both premises are compared with."""
PERMUTATIONS = 2_000
FEWEST = 5
"""Items of a half: with fewer there is no contrast."""
_BY_PART = "item within part"
_ALIKE = f"too few items, or too alike in memory: fewer than {FEWEST} of each half are remembered unequally"
_USES, _COMBINES = "uses what it remembers", "combines what is said"


class Contrast(NamedTuple):
    """One control of one rule.

    :param conclusion: that it is a control of.
    :param better: mean gain over the control of items whose P1 is remembered better, and so *worse*; None of premises
        that are said, where memory does not count.
    :param gain: difference between the halves, or the mean gain where both premises are said.
    :param permuted: p value of the difference by permuting which items are remembered better; None where there are no
        halves.
    :param beyond: gain less the mean of those of the untrained twins; None without twins.
    """

    model: str
    wording: str
    rule: str
    conclusion: str
    control: str
    items: int
    better: float | None
    worse: float | None
    gain: Estimate
    permuted: float | None
    beyond: Estimate | None


class Gains(NamedTuple):
    """What a contrast is a mean of.

    :param values: of each item, [n], signed and weighted so that their mean is the contrast.
    :param group: of each item, [n]: its half.
    """

    values: Floats
    group: list[str]
    better: float | None = None
    worse: float | None = None
    permuted: float | None = None


def contrasts(model: ModelRuns, twins: Sequence[ModelRuns], rules: Sequence[str]) -> list[Contrast]:
    """All controls of a model. :param twins: untrained ones."""
    return [
        contrast
        for wording in model.controls
        for rule in rules
        for conclusion, given in ((_USES, MEMORY), (_COMBINES, SAID))
        for control, text in given.items()
        for contrast in [_contrast(model, twins, wording, rule, conclusion, control, text)]
    ]


def _contrast(
    model: ModelRuns, twins: Sequence[ModelRuns], wording: str, rule: str, conclusion: str, control: str, text: str
) -> Contrast:
    gains = [_gains(one, wording, rule, conclusion, text) for one in (model, *twins)]
    made = f"{model.measure}{recipe(model.controls[wording], '', model.controls[wording].scorings[0])}|rule:{rule}"
    made += f"|{conclusion}:{control}"
    return contrast_of((model.name, wording, rule, conclusion, control), gains[0], gains[1:], made)


def contrast_of(about: tuple[str, str, str, str, str], own: Gains, theirs: Sequence[Gains], made: str) -> Contrast:
    """One control.

    :param about: model, wording, rule, conclusion, control.
    :param theirs: gains of untrained twins.
    :param made: the recipe.
    """
    told = [one for one in theirs if len(one.values)]
    beyond = None
    if theirs:
        beyond = (
            _number(*_less(own, told), f"{made}|beyond:{len(told)} untrained")
            if told
            else untold(_ALIKE, made, form="+.3f")
        )
    number = _number(own.values, own.group, made)
    if own.better is None:  # means of 1 / rank, and not differences of such
        number, beyond = _within(number, 1.0), None if beyond is None else _within(beyond, 2.0)
    return Contrast(*about, len(own.values), own.better, own.worse, number, own.permuted, beyond)


def _gains(model: ModelRuns, wording: str, rule: str, conclusion: str, text: str) -> Gains:
    ranks = by_text(model.of_wording[wording], rule) | by_text(model.controls[wording], rule)
    said = "P2" if conclusion == _USES else "both"
    gains = gains_over(ranks.get(said, {}), ranks.get(text, {}))
    if conclusion == _USES:
        return by_half(gains, model.first_ranks[wording, rule])
    return Gains(np.array(list(gains.values())), [rule] * len(gains))


def by_text(rows: Rows, rule: str) -> dict[str, dict[tuple[str, int], float]]:
    """Of each way of giving premises 1 / rank by item and pair; without what is unscored."""
    values = rows.reciprocal_or_credit()
    asked = ((rows.groups[query], place) for place, query in enumerate(rows.query.tolist()) if rows.scored[place])
    told = grouped(
        (about["given"], ((about["item"], int(about["pair"])), float(values[place])))
        for about, place in asked
        if about["rule"] == rule
    )
    return {given: dict(found) for given, found in told.items()}


def gains_over(said: Mapping[tuple[str, int], float], control: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """Of each item the mean difference of 1 / rank over the pairs that both have."""
    pairs = grouped((key[0], said[key] - control[key]) for key in said if key in control)
    return {item: float(np.mean(own)) for item, own in pairs.items()}


def _parted(order: Sequence[str], remembered: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Items before and behind the change of memory that is nearest to the middle; nothing where there is none."""
    changes = [place for place in range(1, len(order)) if remembered[order[place - 1]] != remembered[order[place]]]
    at = min(changes, key=lambda place: abs(place - len(order) / 2), default=0)
    return list(order[:at]), list(order[at:])


def by_half(gains: Mapping[str, float], remembered: Mapping[str, float]) -> Gains:
    """The gain of items that are remembered better, less that of the others.

    :param remembered: of each item how well. What equals the value on both sides of the border is left out, since
        nothing but the order of the data puts it into a half. Where that leaves too few, as of a chat model whose every
        answer is right or wrong, the border is moved to where memory changes next to the middle.
    """
    order = sorted((item for item in remembered if item in gains), key=lambda item: -remembered[item])
    half = len(order) // 2
    best, worst = order[:half], order[len(order) - half :]
    if half and remembered[best[-1]] == remembered[worst[0]]:
        border = remembered[worst[0]]
        best, worst = ([item for item in own if remembered[item] != border] for own in (best, worst))
    if min(len(best), len(worst)) < FEWEST:
        best, worst = _parted(order, remembered)
    if min(len(best), len(worst)) < FEWEST:
        return Gains(np.empty(0), [])
    values = np.array([gains[item] for item in (*best, *worst)])
    is_best = np.arange(len(values)) < len(best)
    return Gains(
        _signed(values, is_best),
        np.where(is_best, "better", "worse").tolist(),
        float(values[is_best].mean()),
        float(values[~is_best].mean()),
        permuted(values, is_best),
    )


def _signed(values: Floats, is_best: NDArray[np.bool_]) -> Floats:
    """So that their mean is the difference of the halves' means."""
    count, best = len(values), int(is_best.sum())
    return np.where(is_best, values * count / best, -values * count / (count - best))


def permuted(values: Floats, is_best: NDArray[np.bool_], seed: int = 0) -> float:
    """Two-sided p value of the difference of two halves' means: how often halves drawn by lot differ as much.

    The observed halves count as one of the draws, so that the level holds (Phipson and Smyth 2010).
    """
    drawn = np.random.default_rng(seed).permuted(np.tile(is_best, (PERMUTATIONS, 1)), axis=1)
    means = (drawn @ values) / is_best.sum() - (~drawn @ values) / (~is_best).sum()
    observed = values[is_best].mean() - values[~is_best].mean()
    return float((1 + np.sum(np.abs(means) >= abs(observed) - 1e-12)) / (1 + PERMUTATIONS))


def _less(own: Gains, others: Sequence[Gains]) -> tuple[Floats, list[str]]:
    """Values whose mean is the contrast less the mean of others, each in its own groups."""
    parts = [own.values, *(-other.values / len(others) for other in others)]
    count = sum(map(len, parts))
    groups = [f"{number} {name}" for number, one in enumerate((own, *others)) for name in one.group]
    return np.concatenate([part * count / len(part) for part in parts if len(part)]), groups


def _number(values: Floats, group: list[str], made: str) -> Estimate:
    """Mean of values, each item drawn for itself within its half, with interval and p value."""
    if not len(values):
        return untold(_ALIKE, made, form="+.3f")
    return difference(values, np.zeros(len(values)), Sample(_BY_PART, None, group), made, (-2.0, 2.0), "+.3f")


def _within(number: Estimate, limit: float) -> Estimate:
    """The interval of what cannot be farther from zero."""
    low, high = (None if end is None else min(max(end, -limit), limit) for end in (number.low, number.high))
    return number._replace(low=low, high=high)


def verdicts(found: Sequence[Contrast], needed: Collection[str] = ()) -> dict[tuple[str, ...], str]:
    """Decide on every conclusion (model, wording, rule, name) as one family.

    :param needed: controls without which a conclusion cannot be drawn.
    """
    conclusions = grouped((one[:4], one) for one in found)
    decisions = decide([_claim(about, own, needed) for about, own in conclusions.items()])
    return {
        about: one.word if one.word != UNDETERMINED else f"{one.word}: {one.reason}"
        for about, one in zip(conclusions, decisions, strict=True)
    }


def in_words(decided: Mapping[tuple[str, ...], str]) -> list[str]:
    """Return by how many rules each model reaches each conclusion. :param decided: see :func:`verdicts`."""
    told = grouped(((about[0], about[3]), (" ".join(about[1:3]), word)) for about, word in decided.items())
    said = []
    for (model, conclusion), own in told.items():
        holds = [where for where, word in own if word == SIGNIFICANT]
        named = f" ({', '.join(holds)})" if holds else ""
        said.append(f"{model} {conclusion}: significant for {len(holds)} of {len(own)} prompts and rules{named}.")
    return said


def _claim(about: tuple[str, ...], own: Sequence[Contrast], needed: Collection[str]) -> Claim:
    """Every gain, and every gain beyond untrained twins, is above 0, and no control is missing."""
    contrasts = []
    for one in own:
        p_values = [p for p in (one.gain.p_value, one.permuted) if p is not None]
        gain = one.gain._replace(p_value=max(p_values)) if one.gain.p_value is not None else one.gain
        contrasts.append(Needed(one.control, gain, 1))
        contrasts += [] if one.beyond is None else [Needed(f"{one.control}, beyond untrained", one.beyond, 1)]
    missing = [name for name in needed if name not in {one.control for one in own}]
    contrasts += [Needed(name, None, 1, f"no control '{name}'") for name in missing]
    return Claim(" ".join(about), tuple(contrasts))


COLUMNS = (
    *("model", "wording", "rule", "verdict", "conclusion", "less", "items"),
    *("better half", "worse half", "gain", "p (halves by lot)", "beyond untrained"),
)
_NOTES = (
    f"{_USES}: 1 / rank with P2 said and P1 not, less that of the control; gain: of the half of the items whose P1 is "
    "remembered better, less that of the other half",
    f"{_COMBINES}: 1 / rank with both premises said, less that of the control",
    "P2 of others: said of other pseudowords; another P2: with another item's class or property",
    "significant: every gain, and every gain beyond untrained twins, is above 0, by Holm over all conclusions of the "
    "table; the p value of a gain is the larger of its own and that of permuted halves",
)


def table(
    found: Sequence[Contrast],
    title: str = "does it reason? The controls",
    notes: Sequence[str] = _NOTES,
    needed: Collection[str] = (),
) -> Table:
    """The conclusions, each with its controls. :param needed: see :func:`verdicts`."""
    decided = verdicts(found, needed)
    rows = [(*one[:3], decided[one[:4]], *one[3:]) for one in found]
    formats = dict.fromkeys(("better half", "worse half"), "+.3f") | {COLUMNS[-2]: ".2g"}
    every = Table.of(rows, title, notes, columns=COLUMNS, main="gain", inline=True, formats=formats)
    return every.without_empty("better half", "worse half", *COLUMNS[-2:])

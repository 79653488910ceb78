"""Controls of reasoning: gains over texts that name the answer, but from which it does not follow.

*Uses what it remembers*: P2 is stated, P1 is not. A model that knows P1 can answer, but so can a biased one: its bias
decides which premises count as remembered. So the gain in 1 / rank over each control is compared between the items
whose P1 is remembered better and the others: a difference in differences.

*Combines what is said*: both premises are stated. A model that copies the answer from P1 does as well without P2, and
with P2 about other pseudowords; only the gain over these texts is due to P2.

Untrained twins, which do not reason, show how large each gain is without reasoning. A conclusion needs all gains above
zero, and above those of the twins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.prompts.entailment import ANOTHER, BOTH_OF_OTHERS, OF_OTHERS
from fathom.results.claims import SIGNIFICANT, UNDETERMINED, Claim, Contrast, decide
from fathom.results.estimates import Estimate, difference, point_estimate
from fathom.results.recipes import recipe
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.studies.reasoning.runs import ModelRuns

MEMORY = {"nothing said": "none", "P2 of others": OF_OTHERS, "another P2": ANOTHER}
"""What P2 is compared with where P1 is not stated, and the texts that state it."""
SAID = {"P1 alone": "P1", "P2 of others": BOTH_OF_OTHERS}
"""What both premises are compared with."""
PERMUTATIONS = 2_000
FEWEST = 5
"""Smallest half of the items that is compared."""
_ALIKE = f"too few items, or too alike in memory: fewer than {FEWEST} of each half are remembered unequally"
_USES, _COMBINES = "uses what it remembers", "combines what is said"
_BY_HALF = ("better half", "worse half", "p (permuted halves)", "beyond untrained")
_NOTES = (
    f"{_USES}: 1 / rank with P2 said and P1 not, less that of the control; gain: of the half of the items whose P1 is "
    "remembered better, less that of the other half",
    f"{_COMBINES}: 1 / rank with both premises said, less that of the control",
    "P2 of others: said of other pseudowords; another P2: with another item's class or property",
    "significant: every gain, and every gain beyond untrained twins, is above 0, by Holm over all conclusions of the "
    "table; the p value of a gain is the larger of its own and that of permuted halves",
)


class Control(NamedTuple):
    """The gain over one control of one rule.

    :param conclusion: what the gain is evidence for.
    :param better: mean gain of items whose P1 is remembered better, *worse* of the others; None without halves.
    :param gain: difference between the halves, or the mean gain where both premises are stated.
    :param permuted: p value of the difference under permutation of the halves; None without halves.
    :param beyond: gain less the mean gain of the untrained twins; None without twins.
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
    """Gains of items.

    :param values: [items], signed and weighted so that their mean is the gain of the control.
    :param group: [items], each item's half.
    """

    values: Floats
    group: list[str]
    better: float | None = None
    worse: float | None = None
    permuted: float | None = None


def evaluate_controls(model: ModelRuns, twins: Sequence[ModelRuns], rules: Sequence[str]) -> list[Control]:
    """Return all controls of a model and its untrained *twins*."""
    controls = []
    for wording, rows in model.controls.items():
        made = f"{model.measure}{recipe(rows, '', rows.scorings[0])}"
        for rule in rules:
            ranks = [ranks_by_text(one.of_wording[wording], one.controls[wording], rule) for one in (model, *twins)]
            memory = [one.first_ranks[wording, rule] for one in (model, *twins)]
            for control, text in MEMORY.items():
                pairs = zip(ranks, memory, strict=True)
                gains = [by_half(gains_over(own["P2"], own[text]), known) for own, known in pairs]
                about = (model.name, wording, rule, _USES, control)
                controls.append(control_of(about, gains[0], gains[1:], f"{made}|rule:{rule}|{_USES}:{control}"))
            for control, text in SAID.items():
                gains = [of_all(gains_over(own["both"], own[text]), rule) for own in ranks]
                about = (model.name, wording, rule, _COMBINES, control)
                controls.append(control_of(about, gains[0], gains[1:], f"{made}|rule:{rule}|{_COMBINES}:{control}"))
    return controls


def control_of(about: tuple[str, str, str, str, str], own: Gains, theirs: Sequence[Gains], made: str) -> Control:
    """Estimate the gain over one control.

    :param about: model, wording, rule, conclusion, control.
    :param theirs: gains of untrained twins.
    :param made: the recipe.
    """
    twins = [gains for gains in theirs if len(gains.values)]
    number, beyond = _estimate(own.values, own.group, made), None
    if theirs:
        values = _less(own, twins) if twins else (np.empty(0), [])
        beyond = _estimate(*values, f"{made}|beyond:{len(twins)} untrained" if twins else made)
    if own.better is None:  # means of 1 / rank, not differences of such
        number, beyond = _clip(number, 1.0), beyond and _clip(beyond, 2.0)
    return Control(*about, len(own.values), own.better, own.worse, number, own.permuted, beyond)


def ranks_by_text(said: Rows, controls: Rows, rule: str) -> Mapping[str, Mapping[tuple[str, int], float]]:
    """Return 1 / rank by text, then by item and pair; unscored texts are missing."""
    ranks: dict[str, dict[tuple[str, int], float]] = {
        text: {} for text in ("P2", "both", *MEMORY.values(), *SAID.values())
    }
    for rows in (said, controls):
        values = rows.reciprocal_or_credit()
        for place, query in enumerate(rows.query.tolist()):
            groups = rows.groups[query]
            if rows.scored[place] and groups["rule"] == rule:
                item = groups["item"], int(groups["pair"])
                ranks[groups["given"]][item] = float(values[place])
    return ranks


def gains_over(said: Mapping[tuple[str, int], float], control: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """Return each item's mean difference of 1 / rank over the pairs that both have."""
    pairs = grouped((key[0], said[key] - control[key]) for key in said if key in control)
    return {item: float(np.mean(own)) for item, own in pairs.items()}


def of_all(gains: Mapping[str, float], rule: str) -> Gains:
    """Return the gains of all items in one group."""
    return Gains(np.array(list(gains.values())), [rule] * len(gains))


def by_half(gains: Mapping[str, float], remembered: Mapping[str, float]) -> Gains:
    """Return the gain of items that are remembered better, less that of the others.

    Items as well remembered as those on both sides of the middle are dropped: only the data's order halves them. Where
    that leaves too few, as for right and wrong answers of chat models, memory's change nearest to the middle halves.

    :param remembered: how well each item is.
    """
    order = sorted((item for item in remembered if item in gains), key=lambda item: -remembered[item])
    half = len(order) // 2
    best, worst = order[:half], order[len(order) - half :]
    if half and remembered[best[-1]] == remembered[worst[0]]:
        border = remembered[worst[0]]
        best, worst = ([item for item in own if remembered[item] != border] for own in (best, worst))
    if min(len(best), len(worst)) < FEWEST:
        changes = [at for at in range(1, len(order)) if remembered[order[at - 1]] != remembered[order[at]]]
        at = min(changes, key=lambda place: abs(place - len(order) / 2), default=0)
        best, worst = order[:at], order[at:]
    if min(len(best), len(worst)) < FEWEST:
        return Gains(np.empty(0), [])
    values = np.array([gains[item] for item in (*best, *worst)])
    is_best = np.arange(len(values)) < len(best)
    return Gains(
        np.where(is_best, values * len(values) / len(best), -values * len(values) / len(worst)),
        np.where(is_best, "better", "worse").tolist(),
        float(values[is_best].mean()),
        float(values[~is_best].mean()),
        permuted(values, is_best),
    )


def permuted(values: Floats, is_best: NDArray[np.bool_], seed: int = 0) -> float:
    """Return the two-sided p value of the difference of two halves' means, by random halves.

    The observed halves count as one of the draws, so that the level holds (Phipson and Smyth 2010).
    """
    drawn = np.random.default_rng(seed).permuted(np.tile(is_best, (PERMUTATIONS, 1)), axis=1)
    means = (drawn @ values) / is_best.sum() - (~drawn @ values) / (~is_best).sum()
    observed = values[is_best].mean() - values[~is_best].mean()
    return float((1 + np.sum(np.abs(means) >= abs(observed) - 1e-12)) / (1 + PERMUTATIONS))


def _less(own: Gains, others: Sequence[Gains]) -> tuple[Floats, list[str]]:
    """Return values whose mean is the gain less the mean gain of *others*, and their groups."""
    parts = [own.values, *(-other.values / len(others) for other in others)]
    count = sum(map(len, parts))
    groups = [f"{number} {name}" for number, one in enumerate((own, *others)) for name in one.group]
    return np.concatenate([part * count / len(part) for part in parts if len(part)]), groups


def _estimate(values: Floats, group: list[str], made: str) -> Estimate:
    """Return the mean of values, with items drawn independently within their half."""
    if not len(values):
        return point_estimate(_ALIKE, made, form="+.3f")
    sample = Sample("item within part", None, group)
    return difference(values, np.zeros(len(values)), sample, made, (-2.0, 2.0), "+.3f")


def _clip(number: Estimate, limit: float) -> Estimate:
    low, high = (None if end is None else min(max(end, -limit), limit) for end in (number.low, number.high))
    return number._replace(low=low, high=high)


# --- conclusions


def verdicts(controls: Sequence[Control], needed: Collection[str] = ()) -> dict[tuple[str, ...], str]:
    """Decide on every conclusion (model, wording, rule, name) as one family.

    :param needed: controls without which a conclusion cannot be drawn.
    """
    conclusions = grouped((one[:4], one) for one in controls)
    decisions = decide([_claim(about, own, needed) for about, own in conclusions.items()])
    return {
        about: one.word if one.word != UNDETERMINED else f"{one.word}: {one.reason}"
        for about, one in zip(conclusions, decisions, strict=True)
    }


def _claim(about: tuple[str, ...], controls: Sequence[Control], needed: Collection[str]) -> Claim:
    """Claim that each gain, also beyond untrained twins, is above 0, and that no control is missing."""
    contrasts = []
    for one in controls:
        p_values = [p for p in (one.gain.p_value, one.permuted) if p is not None]
        gain = one.gain._replace(p_value=max(p_values)) if one.gain.p_value is not None else one.gain
        contrasts.append(Contrast(one.control, gain, 1))
        contrasts += [] if one.beyond is None else [Contrast(f"{one.control}, beyond untrained", one.beyond, 1)]
    missing = [name for name in needed if name not in {one.control for one in controls}]
    return Claim(" ".join(about), (*contrasts, *(Contrast(name, None, 1, f"no control '{name}'") for name in missing)))


def summarise(verdicts: Mapping[tuple[str, ...], str]) -> list[str]:
    """Return for how many rules each model reaches each conclusion. :param verdicts: see :func:`verdicts`."""
    sentences = []
    by_model = grouped(((about[0], about[3]), (" ".join(about[1:3]), word)) for about, word in verdicts.items())
    for (model, conclusion), words in by_model.items():
        holds = [where for where, word in words if word == SIGNIFICANT]
        names = f" ({', '.join(holds)})" if holds else ""
        sentences.append(
            f"{model} {conclusion}: significant for {len(holds)} of {len(words)} prompts and rules{names}."
        )
    return sentences


def table(
    controls: Sequence[Control],
    title: str = "does it reason? The controls",
    notes: Sequence[str] = _NOTES,
    needed: Collection[str] = (),
) -> Table:
    """Return the conclusions, each with its controls. :param needed: see :func:`verdicts`."""
    decided = verdicts(controls, needed)
    better, worse, permuted, beyond = _BY_HALF
    rows = [
        {
            "model": one.model,
            "wording": one.wording,
            "rule": one.rule,
            "verdict": decided[one[:4]],
            "conclusion": one.conclusion,
            "less": one.control,
            "items": one.items,
            better: one.better,
            worse: one.worse,
            "gain": one.gain,
            permuted: one.permuted,
            beyond: one.beyond,
        }
        for one in controls
    ]
    formats = {better: "+.3f", worse: "+.3f", permuted: ".2g"}
    table = Table.of(rows, title, notes, main="gain", inline=True, formats=formats)
    return table.without_empty(*_BY_HALF) if rows else table

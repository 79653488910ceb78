"""Which facts separate accurate from inaccurate models, and which labels may be wrong? Items of a test, over models.

*Discrimination* is the point-biserial correlation, over models, of being right with the accuracy on the other facts. A
label is suspicious if accurate models agree on another candidate; see :mod:`fathom.metrics.items` for the evidence. The
shortened data set keeps the facts that separate models best; its error is estimated on pairs of models that did not
choose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.items import Doubt, Vote, WrongAnswers, choose_items, rest_accuracy
from fathom.results import estimates
from fathom.results.claims import UNDETERMINED, Claim, Contrast, Decision, decide, percent
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.facts import RunFacts, names_of
from fathom.results.loading import read_runs
from fathom.results.names import distinguished
from fathom.results.pairing import common_facts
from fathom.results.recipes import combined
from fathom.results.rows import Floats, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ItemsOptions

RIGHT = 0.5
"""A model is right on a fact if more than this share of its templates has the right answer."""
SHARE = 0.1
"""Share of the facts in the shortened data set by default."""
DRAWS = 100
"""Random sets that the shortened one is compared with."""
OVER_MODELS = Sample("model")
OVER_PAIRS = "no interval: pairs of models share models"


class Respondent(NamedTuple):
    """One run, without its predictions.

    :param gold: labelled answers of each fact. :param names: of these and the wrong answers.
    :param wrong: the most frequent first answer to each fact if that is wrong, None if right or tied.
    """

    facts: RunFacts
    gold: list[list[str]]
    wrong: list[str | None]
    names: Mapping[str, str]


class Item(NamedTuple):
    """One fact over the models that scored it.

    :param right: share of right answers of each model, NaN where it did not score the fact.
    :param other: name of the suspected answer, and the number of models that name it first.
    :param claim: that models agree on it beyond chance; None for a fact of one model.
    """

    fact: str
    relation: str
    label: str
    right: Floats
    discrimination: Estimate
    other: tuple[str, int]
    evidence: float
    claim: Claim | None

    @property
    def asked(self) -> list[int]:
        """Numbers of the models that scored the fact."""
        return np.flatnonzero(~np.isnan(self.right)).tolist()

    @property
    def difficulty(self) -> float:
        """Share of these models that is wrong."""
        return float(1 - np.nanmean(self.right))


class Items(NamedTuple):
    """All facts over all models.

    :param items: the most suspicious first, those of one model last. :param decisions: on the claims of the others.
    :param common: number of facts that all models scored. :param left_out: number of others.
    :param disordered: share of the pairs of models that it puts in another order than all facts do.
    :param at_random: the same of as many random facts.
    """

    models: list[str]
    accuracies: list[Estimate]
    items: list[Item]
    decisions: list[Decision]
    common: int
    left_out: int
    shortened: list[str]
    disordered: Estimate
    at_random: float
    listed: int

    @property
    def judged(self) -> list[tuple[Item, Decision]]:
        """The facts of several models, with the verdict on their labels."""
        return list(zip(self.items, self.decisions, strict=False))


def analyse(runs: Sequence[RunFolder], options: ItemsOptions = ItemsOptions()) -> Items:
    """Describe each fact over the models that scored it.

    :raises BadInput: fewer than two runs, or no fact in common.
    """
    found = read_runs(runs, options.scoring, options.cluster, _respondent, without=(), fewest=1)
    if len(found) < 2:
        raise BadInput("expected runs of two models or more, as facts are judged over models: found one")
    sides = [one.facts for one in found]
    common, recipe = common_facts(sides), combined("", [side.recipe("") for side in sides])
    by_fact = {item.fact: item for item in _items(found, set(common), recipe)}
    items = sorted(by_fact.values(), key=lambda item: (-item.evidence if item.claim else np.inf, item.fact))
    right, relations = np.array([by_fact[fact].right for fact in common]).T, sides[0].relations_of(common)
    size = min(options.size or max(1, round(SHARE * len(common))), len(common))
    return Items(
        distinguished([side.distinguishing for side in sides]),
        [side.mean("accuracy", side.hits(1)) for side in sides],
        items,
        decide([item.claim for item in items if item.claim]),
        len(common),
        len(set[str]().union(*(side.facts for side in sides))) - len(common),
        [common[place] for place in choose_items(right, relations, size)],
        *_disorder(right, relations, size, options.seed, f"disordered pairs{recipe}"),
        options.listed,
    )


def _respondent(outcome: RunFacts) -> Respondent:
    """Keep the first answer to each fact, and drop the predictions."""
    rows = outcome.rows
    votes: list[Counter[str]] = [Counter() for _ in outcome.facts]
    for fact, place in zip(outcome.fact_of.tolist(), outcome.places.tolist(), strict=True):
        tops = rows.top_answers(place) if rows.scored[place] else ()
        votes[fact].update(tops if len(tops) == 1 else ())
    wrong: list[str | None] = []
    for own, query, share in zip(votes, outcome.queries, outcome.hits(1).tolist(), strict=True):
        best = [answer for answer, count in own.items() if count == max(own.values())]
        is_wrong = len(best) == 1 and share <= RIGHT and best[0] not in {*rows.gold[query], *(rows.known[query] or ())}
        wrong.append(best[0] if is_wrong else None)
    gold = [rows.gold[query] for query in outcome.queries]
    names = names_of(rows.candidates)
    used = {id_: names.get(id_, id_) for id_ in {*wrong}.union(*gold) if id_}
    return Respondent(outcome.release((), {}), gold, wrong, used)


def _items(found: Sequence[Respondent], common: set[str], recipe: str) -> Iterator[Item]:
    """Yield each fact, judged together with those of its relation and answer space."""
    owners = {fact: one for one in reversed(found) for fact in one.facts.scored_facts}
    facts, names = list(owners), {id_: name for one in found for id_, name in one.names.items()}
    right = np.array(
        [
            [one.facts.hits(1)[at] if (at := one.facts.place.get(fact, -1)) >= 0 else np.nan for fact in facts]
            for one in found
        ]
    )
    rest = rest_accuracy(right, np.array([fact in common for fact in facts]))
    least, line = 1 / (2 + len(common)), f"correlation of right with accuracy on other facts{recipe}"
    sure = np.clip(np.nan_to_num(rest, nan=0.5), least, 1 - least)

    def vote(model: int, at: int) -> Vote:
        one, is_right = found[model], bool(right[model, at] > RIGHT)
        return Vote(model, float(sure[model, at]), is_right, one.wrong[one.facts.place[facts[at]]])

    def space(at: int) -> tuple[str, str, int]:
        own = owners[facts[at]].facts
        place = own.place[facts[at]]
        return own.relations[place], own.spaces[place], int(own.sizes[place])

    for (relation, _, size), places in grouped((space(at), at) for at in range(len(facts))).items():
        votes = {at: [vote(model, at) for model in np.flatnonzero(~np.isnan(right[:, at])).tolist()] for at in places}
        answers = WrongAnswers(list(votes.values()), size)
        for at in places:
            gold = owners[facts[at]].gold[owners[facts[at]].facts.place[facts[at]]]
            doubt = answers.doubt(votes[at], gold)
            claim = _claim(facts[at], doubt, votes[at], recipe) if len(votes[at]) > 1 else None
            other = ("", 0)
            if doubt.other:
                other = names[doubt.other], sum(one.wrong == doubt.other for one in votes[at])
            about = relation, "; ".join(names[id_] for id_ in gold), right[:, at]
            asked = ~np.isnan(right[:, at]) & ~np.isnan(rest[:, at])
            number = point_estimate("fewer than three models", line)
            if asked.sum() > 2:
                number = estimates.correlation(right[asked, at], rest[asked, at], OVER_MODELS, line)
            yield Item(facts[at], *about, number, other, doubt.evidence, claim)


def _claim(fact: str, doubt: Doubt, votes: Sequence[Vote], recipe: str) -> Claim:
    """Return that models, weighted by accuracy, name another candidate more often than if the label is right."""
    named = [float(vote.wrong is not None and vote.wrong == doubt.other) for vote in votes]
    weights, line = np.array([vote.accuracy for vote in votes]), f"agreement on another answer{recipe}"
    number = estimates.difference(named, doubt.expected, OVER_MODELS, line, weights=weights)
    return Claim(fact, (Contrast("agreement", number._replace(p_value=doubt.p_value), 1),))


def _disorder(right: Floats, relations: Sequence[str], size: int, seed: int, recipe: str) -> tuple[Estimate, float]:
    """Return the share of pairs of models that a set chosen without them, and a random one, put in another order.

    :param right: shape (models, facts). Pairs of equal accuracy are skipped, pairs that a set ties count half.
    """
    whole, draw = right.mean(axis=1), np.random.default_rng(seed)
    random_sets = [draw.choice(right.shape[1], size, replace=False) for _ in range(DRAWS)]
    at_random = np.array([right[:, chosen].sum(axis=1) for chosen in random_sets])
    own, others = [], []
    for first, second in combinations(np.argsort(whole).tolist(), 2):
        if whole[second] - whole[first] > 1e-9:
            chosen = choose_items(np.delete(right, [first, second], axis=0), relations, size) if len(right) > 2 else []
            gains = right[second, chosen].sum() - right[first, chosen].sum(), at_random[:, second] - at_random[:, first]
            own.append(0.5 - np.sign(gains[0]) / 2)
            others.append(np.mean(0.5 - np.sign(gains[1]) / 2))
    value, of_random = (float(np.mean(some)) if some else float("nan") for some in (own, others))
    note = OVER_PAIRS if own else "all models are equally accurate"
    return point_estimate(note, recipe, value, len(own), ".1%"), of_random


# --- in words


def conclude(findings: Items) -> list[str]:
    judged = findings.judged
    doubted = [item for item, decision in judged if decision.holds]
    labels = f"{len(doubted) or 'None'} of {len(judged):,} labels {'is' if len(doubted) < 2 else 'are'} in doubt"
    if not doubted and all(decision.word == UNDETERMINED for _, decision in judged):
        labels = f"Whether labels are in doubt {UNDETERMINED} ({judged[0][1].reason})"
    first, (other, named) = judged[0][0], judged[0][0].other
    models = f"{named} of {len(first.asked)} models say {other or 'otherwise'}"
    labels += f"; the most suspicious is {first.fact}, labelled {first.label}, of which {models}."
    share, of_random = percent(findings.disordered.value), percent(findings.at_random)
    if np.isnan(findings.at_random):
        return [labels, "All models are equally accurate: whether fewer facts order them alike is unknown."]
    short = f"{len(findings.shortened)} chosen facts put {share} of the pairs of models in another order than all"
    return [labels, f"{short} {findings.common:,} do, as many random facts {of_random}."]


def tables(findings: Items) -> list[Table]:
    left_out, listed = findings.left_out, findings.listed
    notes = [f"{left_out} facts that not all models scored do not count in the accuracy on other facts"][:left_out]
    models = [(name, own.n, own) for name, own in zip(findings.models, findings.accuracies, strict=True)]
    short = (len(findings.shortened), findings.disordered, findings.at_random)
    sizes = ("facts", "disordered", "random")
    disorder = [
        "disordered: share of the pairs of models in another order than by all facts, by facts chosen without the pair",
        "random: the same of random facts",
    ]
    made = [
        Table.of(models, "models", notes, columns=("model", "facts", "accuracy")),
        _suspicious_table(findings),
        _negative_table(findings),
        Table.of([short], "shortened data set", disorder, columns=sizes, formats={"random": ".1%"}),
    ]
    if alone := [(item.fact, findings.models[item.asked[0]]) for item in findings.items if len(item.asked) == 1]:
        title = f"facts of one model, {len(alone):,} in all, which are not judged"
        made.append(Table(("fact", "model"), tuple(alone[:listed]), title))
    return made


def _suspicious_table(findings: Items) -> Table:
    rows = [
        (*about, f"{item.other[1]}/{len(item.asked)}", item.evidence, own.estimate, own.word)
        for item, own in findings.judged[: findings.listed]
        for about in [(item.fact, item.label, item.other[0])]
    ]
    legend = [
        "other: the answer that accurate models prefer to the label; models: how many name it first",
        "evidence: log likelihood ratio of another right answer to the label, if models err independently; p: of it",
    ]
    columns = ("fact", "label", "other", "models", "evidence", "agreement", "verdict")
    hidden, form = ("agreement", "low", "high", "verdict"), {"evidence": ".1f"}
    return Table.of(rows, "suspicious labels", legend, columns=columns, formats=form, hidden=hidden)


def _negative_table(findings: Items) -> Table:
    known = [item for item in findings.items if not np.isnan(item.discrimination.value)]
    ordered = sorted(known, key=lambda item: item.discrimination.value)
    negative = [item for item in ordered if item.discrimination.value < 0]
    rows = [(item.fact, item.label, item.difficulty, item.discrimination) for item in negative[: findings.listed]]
    notes = [
        "difficulty: share of the models that are wrong",
        "discrimination: point-biserial correlation over models of being right with the accuracy on the other facts",
        f"negative for {len(negative):,} of {len(known):,} facts; unknown for {len(findings.items) - len(known):,}, "
        "which all models have right, or wrong, or fewer than three scored",
    ]
    columns, forms = ("fact", "label", "difficulty", "discrimination"), {"difficulty": ".1%"}
    return Table.of(rows, "negative discrimination", notes, columns=columns, formats=forms)


def files(findings: Items) -> dict[str, Table]:
    verdicts, chosen = {item.fact: own.word for item, own in findings.judged}, set(findings.shortened)
    columns = ("fact", "relation", "label", "models", "difficulty", "discrimination", "other", "models for other")
    rows = [
        (
            *(
                item.fact,
                item.relation,
                item.label,
                len(item.asked),
                item.difficulty,
                item.discrimination.value,
                *item.other,
            ),
            *(item.evidence, verdicts.get(item.fact), item.fact in chosen, *item.right.tolist()),
        )
        for item in findings.items
    ]
    whole = Table((*columns, "evidence", "verdict", "shortened", *findings.models), tuple(rows), "facts")
    short = Table(("fact",), tuple((fact,) for fact in findings.shortened), "shortened data set")
    return {"items-facts": whole, "items-short": short}

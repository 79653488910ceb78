"""How repetition changes from template to sentence, of the facts that both readings ranked: figure 1 of Shaier et al.
2024 with both side by side, and the overlap, which has an interval.

Beside either stands what right answers repeat, as one who knows all would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import refuse
from fathom.results import estimates
from fathom.results.claims import Claim, Contrast
from fathom.results.estimates import Estimate, untold
from fathom.results.facts import BY_TEMPLATE, CUTS, FREE, READINGS, RunFacts, names_of
from fathom.results.pairing import common_facts, difference
from fathom.results.rows import Floats
from fathom.results.tables import Table

SHOWN = 15
MOST = max(CUTS)
RIGHT = "right answers"
NO_TWIN = "no control: add the runs of an untrained model of the same shape, and name it with --untrained"
NO_INTERVAL = "no interval: fewer prompts have fewer distinct answers, so resampled ones would not tell it"
CHOSEN = "no interval: the entities are chosen by these shares"
FEW_FACTS = "no interval: of fewer than three facts there is no telling how much two have in common"
Tops = Mapping[str, list[list[str]]]
"""Of each fact the best answers of each of its predictions."""


class Overlap(NamedTuple):
    """How much the answers to two facts have in common, of one model on one data set in both readings.

    :param k: of the k best answers.
    :param facts: that both readings ranked.
    :param right: overlap of the right answers themselves, which a model that knows all would have; of k = 1.
    :param difference: template-free − template-based, paired by fact.
    """

    model: str
    data: str
    facts: int
    k: int
    right: Estimate | None
    based: Estimate
    free: Estimate
    difference: Estimate


class EntityInBoth(NamedTuple):
    """:param right: share of the facts of which it is a right answer.
    :param based: share of the facts in whose top 10 it stands, by template; several predictions of a fact are averaged.
    :param free: by sentence."""

    id: str
    name: str
    right: Estimate
    based: Estimate
    free: Estimate


class InBoth(NamedTuple):
    """One model on one data set in both readings.

    :param changes: one for each cut.
    :param entities: all that stand in a top 10 of either, the most repeated in one of them first.
    :param facts: that both readings ranked; *values*: the change of each at the deepest cut, shape (facts).
    """

    model: str
    data: str
    changes: list[Overlap]
    entities: list[EntityInBoth]
    based: RunFacts
    facts: Sequence[str]
    values: Floats


def in_both_readings(outcomes: Sequence[RunFacts]) -> InBoth | None:
    """None where one reading was not asked. :param outcomes: of one model and data set.

    :raises BadInput: several runs of a reading, no fact in common, or other candidates.
    """
    sides = [[outcome for outcome in outcomes if outcome.reading == reading] for reading in READINGS]
    if not all(sides):
        return None
    refuse(
        f"{' and '.join(outcome.path for outcome in own)} are both {own[0].reading}: give one"
        for own in sides
        if len(own) > 1
    )
    [[based], [free]] = sides
    facts = common_facts([based, free])
    return InBoth(
        based.model,
        based.data,
        [_change(based, free, facts, k) for k in CUTS],
        _entities(based, free, facts),
        based,
        facts,
        np.subtract(*(_overlaps(outcome, facts, MOST)[outcome.at(facts)] for outcome in (free, based))),
    )


def repetition_claims(found: Sequence[InBoth], untrained: str) -> list[Claim]:
    """Declare that a trained model's repetition changes from template to sentence, beyond that of an untrained twin.

    :param untrained: name of the twin among the models; "" where there is none.
    """
    twins = {both.data: both for both in found if both.model == untrained}
    claims = []
    for both in found:
        if both.model != untrained:
            own = Contrast("sentence − template", both.changes[-1].difference)
            twin = twins.get(both.data)
            beyond = None if twin is None else _beyond_twin(both, twin)
            name = f"{both.model} on {both.data} repeats its answers differently by sentence"
            claims.append(Claim(name, (own, Contrast("beyond the untrained twin", beyond, 0, NO_TWIN))))
    return claims


def _beyond_twin(own: InBoth, twin: InBoth) -> Estimate | None:
    shared = [fact for fact in own.facts if fact in set(twin.facts)]
    if len(shared) < 3:
        return None
    values = []
    for both in (own, twin):
        place = {fact: number for number, fact in enumerate(both.facts)}
        values.append(both.values[[place[fact] for fact in shared]])
    made = own.based.recipe(f"overlap of top {MOST}, sentence − template, less that of {twin.model}")
    return estimates.difference(values[0], values[1], own.based.sample(shared), made, (-2.0, 2.0))


def _change(based: RunFacts, free: RunFacts, facts: Sequence[str], k: int) -> Overlap:
    name = f"overlap of top {k}"
    values = [_overlaps(outcome, facts, k) for outcome in (based, free)]
    first, second = (
        _mean_overlap(outcome, name, own, facts) for outcome, own in zip((based, free), values, strict=True)
    )
    change = (
        difference(name, [(1, free), (-1, based)], [values[1], values[0]], facts)
        if len(facts) > 2
        else untold(FEW_FACTS, free.recipe(name))
    )
    right = _mean_overlap(based, "overlap of right answers", _right(based, facts), facts) if k == 1 else None
    return Overlap(based.model, based.data, len(facts), k, right, first, second, change)


def _mean_overlap(outcome: RunFacts, name: str, values: Floats, facts: Sequence[str]) -> Estimate:
    if len(facts) < 3:
        return untold(FEW_FACTS, outcome.recipe(name))
    return outcome.mean(name, values, facts)


def _overlaps(outcome: RunFacts, facts: Sequence[str], k: int) -> Floats:
    """Pseudo-value of each fact of the outcome, NaN of those that are not asked of."""
    tops = _tops(outcome, facts, k)
    shortest = min(len(top) for own in tops.values() for top in own)
    return _spread_out(outcome, facts, pseudo_values(_shares(tops), min(k, shortest)))


def _tops(outcome: RunFacts, facts: Sequence[str], k: int) -> Tops:
    """Of the facts in their order."""
    wanted = set(facts)
    tops: dict[str, list[list[str]]] = {fact: [] for fact in facts}
    for place, fact in zip(outcome.places.tolist(), outcome.fact_of.tolist(), strict=True):
        if outcome.facts[fact] in wanted:
            tops[outcome.facts[fact]].append(outcome.rows.best(place)[:k])
    return tops


def _shares(tops: Tops) -> list[dict[str, float]]:
    """Of each fact in how many of its predictions each entity is among the best, 0 to 1."""
    counts = ((Counter(id_ for top in own for id_ in top), len(own)) for own in tops.values())
    return [{id_: count / predictions for id_, count in counted.items()} for counted, predictions in counts]


def _right(outcome: RunFacts, facts: Sequence[str]) -> Floats:
    golds = outcome.golds_of(facts)
    return _spread_out(outcome, facts, pseudo_values([dict.fromkeys(gold, 1 / len(gold)) for gold in golds], 1))


def _spread_out(outcome: RunFacts, facts: Sequence[str], values: Floats) -> Floats:
    found = np.full(len(outcome.facts), np.nan)
    found[outcome.at(facts)] = values
    return found


def pseudo_values(shares: Sequence[dict[str, float]], k: int) -> Floats:
    """The jackknife's, of the mean overlap U of two facts, n · U − (n − 1) · U without the fact, [n]; their mean is U.

    :param shares: of each fact, how often each entity is among its *k* best, 0 to 1; of three facts or more.
    """
    n = len(shares)
    if n < 3:
        return np.full(n, np.nan)
    total: Counter[str] = Counter()
    for own in shares:
        total.update(own)
    others = [sum(share * (total[id_] - share) for id_, share in own.items()) / (k * (n - 1)) for own in shares]
    mean = float(np.mean(others))
    return n * mean - (n - 1) * (n * mean - 2 * np.array(others)) / (n - 2)


def _entities(based: RunFacts, free: RunFacts, facts: Sequence[str]) -> list[EntityInBoth]:
    """Equally repeated ones stand in the order of their other reading's share, then of ids."""
    name = f"share of top {MOST}"
    names = names_of(free.rows.candidates) | names_of(based.rows.candidates)
    shares = [_mean_share(_shares(_tops(outcome, facts, MOST))) for outcome in (based, free)]
    right = _mean_share([dict.fromkeys(gold, 1.0) for gold in based.golds_of(facts)])
    told = [
        (f"share of {RIGHT}", based, right),
        *((name, outcome, own) for outcome, own in zip((based, free), shares, strict=True)),
    ]
    found = [
        EntityInBoth(
            id_,
            names.get(id_, id_),
            *(
                untold(CHOSEN, outcome.recipe(what), own.get(id_, 0.0), len(facts), ".1%")
                for what, outcome, own in told
            ),
        )
        for id_ in dict.fromkeys([*shares[0], *shares[1]])
    ]
    return sorted(found, key=lambda one: (*sorted((-one.based.value, -one.free.value)), one.id))


def _mean_share(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for own in shares:
        total.update(own)
    return {id_: share / len(shares) for id_, share in total.items()}


def changes_table(found: Sequence[InBoth]) -> Table:
    """How much the answers to two facts have in common, each reading and their difference."""
    rows = [
        {
            "model": line.model,
            "data": line.data,
            "facts": line.facts,
            "of": f"top {line.k}",
            RIGHT: line.right,
            BY_TEMPLATE: line.based,
            FREE: line.free,
            "difference": line.difference,
        }
        for both in found
        for line in both.changes
    ]
    notes = (
        "overlap: the share of the k best answers to one fact that is among the k best to another, over all pairs "
        "of facts that both readings ranked; right answers: the overlap that a model that knows all would have",
        "difference: template-free minus template-based, paired by fact; below 0: sentences repeat less",
    )
    return Table.of(rows, "repetition, template-based and template-free", notes, main="difference")


def entities_table(found: InBoth, shown: int | None = None) -> Table:
    """:param shown: how many; None for all."""
    rows = [
        {"entity": one.name, "id": one.id, RIGHT: one.right, BY_TEMPLATE: one.based, FREE: one.free}
        for one in found.entities[:shown]
    ]
    notes = (
        f"share of the {found.changes[0].facts:,} facts that both readings ranked in whose top {MOST} an entity "
        "stands; right answers: of which it is one, where a model that knows all would have it first",
    )
    title = f"most repeated in both readings: {found.model}, {found.data}"
    return Table.of(rows, title, notes, without_interval=(RIGHT, BY_TEMPLATE, FREE))


def draw_both(found: InBoth, axes: Any) -> None:
    """Figure 1 with both readings side by side, and how often each entity is right."""
    chosen = found.entities[:SHOWN]
    middles = np.arange(len(chosen))
    for shift, reading, shares in (
        (-0.2, BY_TEMPLATE, [one.based.value for one in chosen]),
        (0.2, FREE, [one.free.value for one in chosen]),
    ):
        axes.bar(middles + shift, 100 * np.array(shares), 0.4, label=f"{reading}: in the top {MOST}")
    right = 100 * np.array([one.right.value for one in chosen])
    axes.hlines(right, middles - 0.4, middles + 0.4, colors="black", label="right answer of")
    label_entities(axes, [one.name for one in chosen])
    deepest = found.changes[-1]
    said = f"overlap of top {deepest.k}: {deepest.based.value:.1%} by template, {deepest.free.value:.1%} by sentence"
    if deepest.difference.low is not None and deepest.difference.high is not None:
        said += f",\n{_points(deepest.difference.value)} [{_points(deepest.difference.low)}, "
        said += f"{_points(deepest.difference.high)}] points, 95 % interval"
    legend_above(axes, f"{found.model}, {found.data}, {deepest.facts:,} facts; {said}")


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def label_entities(axes: Any, names: Sequence[str]) -> None:
    """Below their bars; long names are cut, or they would leave no room for the bars."""
    short = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    axes.set_xticks(range(len(short)), short, rotation=60, ha="right", fontsize=7)


def legend_above(axes: Any, title: str) -> None:
    """Where it hides no bar."""
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=7, title=title, ncols=3, frameon=False)
    legend.get_title().set(fontsize=8, multialignment="center")

"""Does a model answer everything alike? How often each entity is among the best answers (section 5.4 and figure 1 of
Shaier et al. 2024), and how that changes from template to sentence.

The change is measured on the facts that both readings ranked, by the overlap: the share of the k best answers to one
fact that is among the k best to another, over all pairs of facts. It is a U-statistic of degree two, so its interval,
and that of its change, comes from the facts' jackknife pseudo-values (Arvesen, "Jackknifing U-Statistics", Annals of
Mathematical Statistics 1969). Gold answers repeat, too: their overlap, that of a model that knows all, is shown, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.results import estimates
from fathom.results.claims import Claim, Contrast, Decision, decide, sentences
from fathom.results.comparison import refusals_table
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.facts import BY_TEMPLATE, CUTS, FREE, READINGS, RunFacts, names_of
from fathom.results.loading import read_all_facts
from fathom.results.pairing import common_facts, difference
from fathom.results.rows import Floats, grouped
from fathom.results.saving import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RepeatedOptions

SHOWN = 15
MOST = max(CUTS)
RIGHT = "right answers"
NO_TWIN = "no control: add the runs of an untrained model of the same shape, and name it with --untrained"
NO_INTERVAL = "no interval: fewer prompts have fewer distinct answers, so resampling does not estimate the error"
CHOSEN = "no interval: the entities are chosen by these shares"
FEW_FACTS = "no interval: an overlap needs three facts or more"


class Entity(NamedTuple):
    """An entity among the best answers.

    :param shares: of the prompts, whose top 1, 5 and 10 contain it; of both readings: of the facts, whose top 10
        contains it by template (their predictions averaged) and by sentence.
    :param right: share that it answers rightly.
    """

    id: str
    name: str
    shares: tuple[Estimate, ...]
    right: Estimate


class RunRepetition(NamedTuple):
    """One run.

    :param prompts: number of predictions with a rank.
    :param distinct: number of entities in any prompt's top 1, 5, 10.
    :param shares: those ÷ (k · prompts), 1 where no prediction repeats another; fewer candidates than k count as many
        as there are.
    :param right: distinct gold answers ÷ prompts: the first share of a model that knows all.
    :param entities: the most repeated in the top 10 first; ties by top 5, top 1 and id.
    """

    model: str
    data: str
    reading: str
    prompts: int
    unscored: int
    distinct: tuple[int, ...]
    shares: tuple[Estimate, ...]
    right: Estimate
    entities: list[Entity]


class Overlap(NamedTuple):
    """Overlap of the *k* best answers to two facts, for one model on one data set in both readings.

    :param right: overlap of the gold answers, for k = 1.
    :param difference: template-free − template-based, paired by fact.
    """

    k: int
    right: Estimate | None
    based: Estimate
    free: Estimate
    difference: Estimate


class InBoth(NamedTuple):
    """One model on one data set in both readings.

    :param entities: all in a top 10 of either reading, the most repeated in one of them first.
    :param by_fact: change at the deepest cut of each fact that both readings ranked.
    """

    model: str
    data: str
    changes: list[Overlap]
    entities: list[Entity]
    based: RunFacts
    by_fact: Mapping[str, float]


class Repetition(NamedTuple):
    """:param runs: one per run. :param in_both: one per model and data set with both readings.
    :param not_paired: model and data of the others with both readings, and why they cannot be compared."""

    runs: list[RunRepetition]
    in_both: list[InBoth]
    not_paired: list[tuple[str, str, str]]
    decisions: list[Decision]


def analyse(runs: Sequence[RunFolder], options: RepeatedOptions = RepeatedOptions()) -> Repetition:
    """Count repeated answers in each run, and compare the two readings of each model and data set.

    :raises BadInput: a run recorded fewer than its ten best answers, or no run is of the untrained model.
    """
    outcomes, untrained = read_all_facts(runs, options.scoring, options.cluster), options.untrained
    repeated = all_of(*(partial(_repeated, outcome) for outcome in outcomes))
    if untrained and untrained not in (models := {outcome.model for outcome in outcomes}):
        raise BadInput(f"--untrained {untrained}: no run is of this model; there is {', '.join(sorted(models))}")
    in_both, not_paired = [], []
    for (model, data), sides in grouped(((outcome.model, outcome.data), outcome) for outcome in outcomes).items():
        try:
            both = _in_both(sides)
            in_both += [both] if both else []
        except BadInput as error:
            not_paired.append((model, data, f"{BY_TEMPLATE} and {FREE}: {'; '.join(error.faults)}"))
    return Repetition(repeated, in_both, not_paired, decide(_claims(in_both, untrained)))


def _repeated(outcome: RunFacts) -> RunRepetition:
    rows = outcome.rows
    scored = outcome.places[rows.scored[outcome.places]].tolist()
    tops = [rows.best(place) for place in scored]
    for top, place in zip(tops, scored, strict=True):
        if len(top) < min(MOST, rows.number_of_candidates[place]):
            raise BadInput(
                f"{outcome.path} recorded the {len(top)} best answers of a prompt, {MOST} are needed: "
                f"ask with the cloze probe, or the statement probe with --top-k {MOST} and without --max-rank"
            )
    counts = [Counter(id_ for top in tops for id_ in top[:k]) for k in CUTS]
    right = Counter(id_ for query in rows.query[scored].tolist() for id_ in rows.gold[query])
    names, n, cuts = names_of(rows.candidates), len(scored), list(zip(CUTS, counts, strict=True))

    def share(why: str, name: str, value: float) -> Estimate:
        return point_estimate(why, outcome.recipe(name), value, n, ".1%")

    return RunRepetition(
        outcome.model,
        outcome.data,
        outcome.reading,
        n,
        len(outcome.places) - n,
        tuple(map(len, counts)),
        tuple(share(NO_INTERVAL, f"distinct/predictions@{k}", len(count) / count.total()) for k, count in cuts),
        share(NO_INTERVAL, "distinct right answers/prompts", len(right) / n),
        [
            Entity(
                id_,
                names.get(id_, id_),
                tuple(share(CHOSEN, f"share of top {k}", count[id_] / n) for k, count in cuts),
                share(CHOSEN, f"share of {RIGHT}", right[id_] / n),
            )
            for id_ in sorted(counts[-1], key=lambda id_: (*(-count[id_] for count in reversed(counts)), id_))
        ],
    )


def _in_both(outcomes: Sequence[RunFacts]) -> InBoth | None:
    """Return None if a reading is missing.

    :raises BadInput: several runs of a reading, no fact in common, or other candidates.
    """
    sides = [[outcome for outcome in outcomes if outcome.reading == reading] for reading in READINGS]
    if not all(sides):
        return None
    refuse(
        f"{' and '.join(outcome.path for outcome in side)} are both {side[0].reading}: give one"
        for side in sides
        if len(side) > 1
    )
    [[based], [free]] = sides
    facts = common_facts([based, free])
    changes = np.subtract(*(_overlaps(outcome, facts, MOST)[outcome.at(facts)] for outcome in (free, based)))
    return InBoth(
        based.model,
        based.data,
        [_change(based, free, facts, k) for k in CUTS],
        _entities_in_both(based, free, facts),
        based,
        dict(zip(facts, changes.tolist(), strict=True)),
    )


def _claims(paired: Sequence[InBoth], untrained: str) -> list[Claim]:
    """Declare that a trained model's repetition changes from template to sentence, beyond that of an untrained twin.

    :param untrained: name of the twin; "" without one.
    """
    twins = {both.data: both for both in paired if both.model == untrained}
    claims = []
    for both in paired:
        if both.model != untrained:
            change = Contrast("sentence − template", both.changes[-1].difference)
            beyond = _beyond_twin(both, twins[both.data]) if both.data in twins else None
            name = f"{both.model} on {both.data} repeats its answers differently by sentence"
            claims.append(Claim(name, (change, Contrast("beyond the untrained twin", beyond, 0, NO_TWIN))))
    return claims


def _beyond_twin(trained: InBoth, twin: InBoth) -> Estimate | None:
    shared = [fact for fact in trained.by_fact if fact in twin.by_fact]
    if len(shared) < 3:
        return None
    own, other = (np.array([both.by_fact[fact] for fact in shared]) for both in (trained, twin))
    recipe = trained.based.recipe(f"overlap of top {MOST}, sentence − template, less that of {twin.model}")
    return estimates.difference(own, other, trained.based.sample(shared), recipe, (-2.0, 2.0))


def _change(based: RunFacts, free: RunFacts, facts: Sequence[str], k: int) -> Overlap:
    name = f"overlap of top {k}"
    first, second = _overlaps(based, facts, k), _overlaps(free, facts, k)
    change = point_estimate(FEW_FACTS, free.recipe(name))
    if len(facts) > 2:
        change = difference(name, free, based, [second, first], facts)
    right = None
    if k == 1:
        golds = [dict.fromkeys(gold, 1 / len(gold)) for gold in based.gold_ids_of(facts)]
        overlaps = _by_fact(based, facts, pseudo_values(golds, 1))
        right = _mean_overlap(based, "overlap of right answers", overlaps, facts)
    means = _mean_overlap(based, name, first, facts), _mean_overlap(free, name, second, facts)
    return Overlap(k, right, *means, change)


def _mean_overlap(outcome: RunFacts, name: str, values: Floats, facts: Sequence[str]) -> Estimate:
    return point_estimate(FEW_FACTS, outcome.recipe(name)) if len(facts) < 3 else outcome.mean(name, values, facts)


def _overlaps(outcome: RunFacts, facts: Sequence[str], k: int) -> Floats:
    """Return the pseudo-value of each fact of the outcome; NaN for facts outside *facts*."""
    tops = _tops(outcome, facts, k)
    shortest = min(len(top) for tops_of_fact in tops for top in tops_of_fact)
    return _by_fact(outcome, facts, pseudo_values(_shares(tops), min(k, shortest)))


def _by_fact(outcome: RunFacts, facts: Sequence[str], values: Floats) -> Floats:
    spread = np.full(len(outcome.facts), np.nan)
    spread[outcome.at(facts)] = values
    return spread


def _tops(outcome: RunFacts, facts: Sequence[str], k: int) -> list[list[list[str]]]:
    """Return the k best answers of each prediction of each fact."""
    tops: dict[str, list[list[str]]] = {fact: [] for fact in facts}
    for place, number in zip(outcome.places.tolist(), outcome.fact_of.tolist(), strict=True):
        if (fact := outcome.facts[number]) in tops:
            tops[fact].append(outcome.rows.best(place)[:k])
    return list(tops.values())


def _shares(tops: Sequence[Sequence[Sequence[str]]]) -> list[dict[str, float]]:
    """Return for each fact the share of its predictions that have each entity among the best."""
    counts = ((Counter(id_ for top in tops_of_fact for id_ in top), len(tops_of_fact)) for tops_of_fact in tops)
    return [{id_: count / predictions for id_, count in counted.items()} for counted, predictions in counts]


def pseudo_values(shares: Sequence[dict[str, float]], k: int) -> Floats:
    """Return the jackknife pseudo-values of the mean overlap U of two facts, shape (n); NaN for fewer than three.

    That of a fact is n · U − (n − 1) · U without the fact; their mean is U.

    :param shares: how often each entity is among the *k* best of each fact, 0 to 1.
    """
    n = len(shares)
    if n < 3:
        return np.full(n, np.nan)
    total = _total(shares)
    others = [sum(share * (total[id_] - share) for id_, share in own.items()) / (k * (n - 1)) for own in shares]
    mean = float(np.mean(others))
    return n * mean - (n - 1) * (n * mean - 2 * np.array(others)) / (n - 2)


def _total(shares: Sequence[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for own in shares:
        total.update(own)
    return total


def _entities_in_both(based: RunFacts, free: RunFacts, facts: Sequence[str]) -> list[Entity]:
    """Return the most repeated first; ties by the share in the other reading, then by id."""
    names = names_of(free.rows.candidates) | names_of(based.rows.candidates)
    right = [dict.fromkeys(gold, 1.0) for gold in based.gold_ids_of(facts)]
    totals = [
        (outcome.recipe(f"share of {name}"), _total(shares))
        for name, outcome, shares in (
            (RIGHT, based, right),
            *((f"top {MOST}", side, _shares(_tops(side, facts, MOST))) for side in (based, free)),
        )
    ]
    entities = []
    for id_ in dict.fromkeys([*totals[1][1], *totals[2][1]]):
        of_right, *shares = (
            point_estimate(CHOSEN, recipe, total[id_] / len(facts), len(facts), ".1%") for recipe, total in totals
        )
        entities.append(Entity(id_, names.get(id_, id_), tuple(shares), of_right))
    return sorted(entities, key=lambda one: (*sorted(-share.value for share in one.shares), one.id))


def conclude(findings: Repetition) -> list[str]:
    return sentences(findings.decisions) or [
        "Nothing is compared: a comparison needs a model with runs of both readings, template-based and template-free."
    ]


def tables(findings: Repetition) -> list[Table]:
    shares = (*(f"distinct share@{k}" for k in CUTS), RIGHT)
    counts = ("unscored", *(f"distinct@{k}" for k in CUTS))
    columns = ("model", "data", "reading", "prompts", *counts, *shares)
    rows = [(*line[:5], *line.distinct, *line.shares, line.right) for line in findings.runs]
    notes = (
        "distinct share@k: entities that any prompt has among its k best ÷ (prompts × k)",
        f"{RIGHT}: distinct ones ÷ prompts, as a model that knows all would have them @1",
    )
    return [
        Table.of(rows, "distinct predictions", notes, columns=columns, without_interval=shares, hidden=counts),
        *(_entities_table(line, SHOWN) for line in findings.runs),
        *([_changes_table(findings.in_both)] if findings.in_both else []),
        *(_both_table(both, SHOWN) for both in findings.in_both),
        *([refusals_table(("model", "data", "why"), findings.not_paired)] if findings.not_paired else []),
    ]


def files(findings: Repetition) -> dict[str, Table]:
    of_runs = {f"repeated-{number}": _entities_table(line) for number, line in enumerate(findings.runs)}
    of_both = {f"repeated-readings-{number}": _both_table(both) for number, both in enumerate(findings.in_both)}
    return of_runs | of_both


def _entities_table(line: RunRepetition, shown: int | None = None) -> Table:
    shares = (*(f"top {k}" for k in CUTS), RIGHT)
    rows = [(one.name, one.id, *one.shares, one.right) for one in line.entities[:shown]]
    title = f"most repeated: {line.model}, {line.data}, {line.reading}"
    notes = ("share of the prompts whose top k contains the entity", f"{RIGHT}: share of those whose gold answer it is")
    return Table.of(rows, title, notes, columns=("entity", "id", *shares), without_interval=shares)


def _changes_table(paired: Sequence[InBoth]) -> Table:
    columns = ("model", "data", "facts", "of", RIGHT, BY_TEMPLATE, FREE, "difference")
    rows = [
        (both.model, both.data, len(both.by_fact), f"top {change.k}", *change[1:])
        for both in paired
        for change in both.changes
    ]
    notes = (
        "overlap: the share of the k best answers to one fact that is among the k best to another, over all pairs "
        f"of facts that both readings ranked; {RIGHT}: the overlap of a model that knows all",
        "difference: template-free minus template-based, paired by fact; below 0: sentences repeat less",
    )
    title = "repetition, template-based and template-free"
    same = ("data",) if len({both.data for both in paired}) == 1 else ()  # all tables before name it
    return Table.of(rows, title, notes, columns=columns, main="difference", hidden=("p", *same))


def _both_table(both: InBoth, shown: int | None = None) -> Table:
    shares = (RIGHT, BY_TEMPLATE, FREE)
    rows = [(one.name, one.id, one.right, *one.shares) for one in both.entities[:shown]]
    notes = (
        f"share of the {len(both.by_fact):,} facts that both readings ranked whose top {MOST} contains the entity; "
        f"{RIGHT}: whose gold answer it is",
    )
    title = f"most repeated in both readings: {both.model}, {both.data}"
    return Table.of(rows, title, notes, columns=("entity", "id", *shares), without_interval=shares)


def plots(findings: Repetition) -> list[Plot]:
    """Draw bars of the most repeated entities (figure 1), then both readings of each model and data set."""
    of_runs = [
        Plot(f"repeated-{number}", partial(_draw, line), "entity", f"% of the prompts that have it in their top {MOST}")
        for number, line in enumerate(findings.runs)
    ]
    of_both = [
        Plot(f"repeated-readings-{number}", partial(_draw_both, both), "entity", "% of the facts")
        for number, both in enumerate(findings.in_both)
    ]
    return [*of_runs, *of_both]


def _draw(line: RunRepetition, axes: Any) -> None:
    shown = line.entities[:SHOWN]
    distinct = ", ".join(f"{share.value:.1%} of top {k}" for share, k in zip(line.shares, CUTS, strict=True))
    about = f"{line.model}, {line.data}, {line.reading}, {line.prompts:,} prompts"
    title = f"{about}\ndistinct: {distinct}, {line.right.value:.1%} of right answers"
    _draw_bars(axes, shown, {f"in the top {MOST}": [one.shares[-1] for one in shown]}, title)


def _draw_both(both: InBoth, axes: Any) -> None:
    shown, deepest = both.entities[:SHOWN], both.changes[-1]
    bars = dict(zip(READINGS, zip(*(one.shares for one in shown), strict=True), strict=True))
    title = f"{both.model}, {both.data}, {len(both.by_fact):,} facts; overlap of top {deepest.k}: "
    title += f"{deepest.based.value:.1%} by template, {deepest.free.value:.1%} by sentence"
    value, low, high = deepest.difference[:3]
    if low is not None and high is not None:
        title += f",\n{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] points, 95 % interval"
    _draw_bars(axes, shown, {f"{reading}: in the top {MOST}": shares for reading, shares in bars.items()}, title)


def _draw_bars(axes: Any, entities: Sequence[Any], bars: Mapping[str, Sequence[Estimate]], title: str) -> None:
    """Draw bars side by side, a line at the share of right answers, and the legend above, where it hides no bar."""
    middles, width = np.arange(len(entities)), 0.8 / len(bars)
    for number, (label, shares) in enumerate(bars.items()):
        shift = (number - (len(bars) - 1) / 2) * width
        axes.bar(middles + shift, [100 * share.value for share in shares], width, label=label)
    right = [100 * one.right.value for one in entities]
    axes.hlines(right, middles - 0.4, middles + 0.4, colors="black", label="right answer of")
    # Long names would leave no room for the bars.
    names = [one.name if len(one.name) <= 24 else f"{one.name[:23]}…" for one in entities]
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=7, title=title, ncols=3, frameon=False)
    legend.get_title().set(fontsize=8, multialignment="center")

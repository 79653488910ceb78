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

from fathom.base.errors import BadInput, all_of, refuse
from fathom.results import estimates
from fathom.results.claims import Claim, Contrast, Decision, decide_by_name, percent, sentences
from fathom.results.comparison import refusals_table
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.facts import BY_TEMPLATE, CUTS, FREE, READINGS, RunFacts, common_facts, difference, names_of
from fathom.results.loading import read_all_facts
from fathom.results.rows import Floats, grouped
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RepeatedOptions

SHOWN = 15
MOST = max(CUTS)
RIGHT = "right answers"
NO_TWIN = "no control: add the runs of an untrained model of the same shape, and name it with --untrained"
NO_INTERVAL = "no interval: fewer prompts have fewer distinct answers, so resampling does not estimate the error"
CHOSEN = "no interval: the entities are chosen by these shares"
FEW_FACTS = "no interval: an overlap needs three facts or more"


Row = dict[str, Any]


class RunRepetition(NamedTuple):
    """One run.

    :param about: "prompts": number of predictions with a rank; "distinct@k": of entities in any prompt's top k;
        "distinct share@k": those ÷ (k · prompts), 1 where no prediction repeats another; fewer candidates than k count
        as many as there are; "right answers": distinct gold answers ÷ prompts: the first share of a model that knows
        all.
    :param entities: share of the prompts whose top 1, 5 and 10 contain each, and that it answers rightly; the most
        repeated in the top 10 first; ties by top 5, top 1 and id.
    """

    about: Row
    entities: list[Row]


class InBoth(NamedTuple):
    """One model on one data set in both readings.

    :param changes: overlap of the k best answers to two facts, and of their gold answers for k = 1; the difference is
        template-free − template-based, paired by fact.
    :param by_fact: change at the deepest cut of each fact that both readings ranked.
    """

    model: str
    data: str
    changes: list[Row]
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
    decisions = decide_by_name(_claims(in_both, untrained))
    return Repetition(repeated, in_both, not_paired, list(decisions.values()))


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

    about: Row = {"model": outcome.model, "data": outcome.data, "reading": outcome.reading, "prompts": n}
    about |= {"unscored": len(outcome.places) - n} | {f"distinct@{k}": len(count) for k, count in cuts}
    for k, count in cuts:
        about[f"distinct share@{k}"] = share(NO_INTERVAL, f"distinct/predictions@{k}", len(count) / count.total())
    about[RIGHT] = share(NO_INTERVAL, "distinct right answers/prompts", len(right) / n)
    entities: list[Row] = [
        {"entity": names.get(id_, id_), "id": id_}
        | {f"top {k}": share(CHOSEN, f"share of top {k}", count[id_] / n) for k, count in cuts}
        | {RIGHT: share(CHOSEN, f"share of {RIGHT}", right[id_] / n)}
        for id_ in sorted(counts[-1], key=lambda id_: (*(-count[id_] for count in reversed(counts)), id_))
    ]
    return RunRepetition(about, entities)


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
    changes = np.subtract(*(overlaps(outcome, facts, MOST)[outcome.at(facts)] for outcome in (free, based)))
    return InBoth(
        based.model,
        based.data,
        [_change(based, free, facts, k) for k in CUTS],
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
            change = Contrast("sentence − template", both.changes[-1]["difference"])
            beyond = _beyond_twin(both, twins[both.data]) if both.data in twins else None
            name = f"{both.model} on {both.data} repeats its answers differently by sentence"
            claims.append(Claim(name, (change, Contrast("beyond the untrained twin", beyond, 0, NO_TWIN))))
    return claims


def _beyond_twin(trained: InBoth, twin: InBoth) -> Estimate | None:
    shared = [fact for fact in trained.by_fact if fact in twin.by_fact]
    if len(shared) < 3:
        return None
    of_trained, of_twin = (np.array([both.by_fact[fact] for fact in shared]) for both in (trained, twin))
    recipe = trained.based.recipe(f"overlap of top {MOST}, sentence − template, less that of {twin.model}")
    return estimates.difference(of_trained, of_twin, trained.based.sample(shared), recipe, (-2.0, 2.0))


def _change(based: RunFacts, free: RunFacts, facts: Sequence[str], k: int) -> Row:
    name = f"overlap of top {k}"
    first, second = overlaps(based, facts, k), overlaps(free, facts, k)
    change = point_estimate(FEW_FACTS, free.recipe(name))
    if len(facts) > 2:
        change = difference(name, free, based, [second, first], facts)
    right = None
    if k == 1:
        golds = [dict.fromkeys(gold, 1 / len(gold)) for gold in based.gold_ids_of(facts)]
        of_golds = _by_fact(based, facts, pseudo_values(golds, 1))
        right = _mean_overlap(based, "overlap of right answers", of_golds, facts)
    means = {BY_TEMPLATE: _mean_overlap(based, name, first, facts), FREE: _mean_overlap(free, name, second, facts)}
    return {"of": f"top {k}", RIGHT: right, **means, "difference": change}


def _mean_overlap(outcome: RunFacts, name: str, values: Floats, facts: Sequence[str]) -> Estimate:
    return point_estimate(FEW_FACTS, outcome.recipe(name)) if len(facts) < 3 else outcome.mean(name, values, facts)


def overlaps(outcome: RunFacts, facts: Sequence[str], k: int) -> Floats:
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
    others = [sum(share * (total[id_] - share) for id_, share in of_fact.items()) / (k * (n - 1)) for of_fact in shares]
    mean = float(np.mean(others))
    return n * mean - (n - 1) * (n * mean - 2 * np.array(others)) / (n - 2)


def _total(shares: Sequence[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for of_fact in shares:
        total.update(of_fact)
    return total


def conclude(findings: Repetition) -> list[str]:
    return sentences(findings.decisions) or [
        "Nothing is compared: a comparison needs a model with runs of both readings, template-based and template-free."
    ]


def tables(findings: Repetition) -> list[Table]:
    shares = (*(f"distinct share@{k}" for k in CUTS), RIGHT)
    counts = ("unscored", *(f"distinct@{k}" for k in CUTS))
    notes = (
        "distinct share@k: entities that any prompt has among its k best ÷ (prompts × k)",
        f"{RIGHT}: distinct ones ÷ prompts, as a model that knows all would have them @1",
    )
    rows = [line.about for line in findings.runs]
    return [
        Table.of(rows, "distinct predictions", notes, without_interval=shares, hidden=counts),
        *(_entities_table(line, SHOWN) for line in findings.runs),
        *([_changes_table(findings.in_both)] if findings.in_both else []),
        *([refusals_table(("model", "data", "why"), findings.not_paired)] if findings.not_paired else []),
    ]


def files(findings: Repetition) -> dict[str, Table]:
    return {f"repeated-{number}": _entities_table(line) for number, line in enumerate(findings.runs)}


def _entities_table(line: RunRepetition, shown: int | None = None) -> Table:
    title = f"most repeated: {_name(line.about)}"
    notes = ("share of the prompts whose top k contains the entity", f"{RIGHT}: share of those whose gold answer it is")
    shares = (*(f"top {k}" for k in CUTS), RIGHT)
    return Table.of(line.entities[:shown], title, notes, without_interval=shares)


def _name(about: Row) -> str:
    return f"{about['model']}, {about['data']}, {about['reading']}"


def _changes_table(paired: Sequence[InBoth]) -> Table:
    rows = [
        {"model": both.model, "data": both.data, "facts": len(both.by_fact)} | change
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
    return Table.of(rows, title, notes, main="difference", hidden=("p", *same))


def plots(findings: Repetition) -> list[Plot]:
    """Draw bars of the most repeated entities of each run (figure 1)."""
    return [
        Plot(f"repeated-{number}", partial(_draw, line), "entity", f"% of the prompts that have it in their top {MOST}")
        for number, line in enumerate(findings.runs)
    ]


def _draw(line: RunRepetition, axes: Axes) -> None:
    """Draw bars, a line at the share of right answers, and the legend above, where it hides no bar."""
    shown, about = line.entities[:SHOWN], line.about
    middles = np.arange(len(shown))
    axes.bar(middles, [100 * entity[f"top {MOST}"].value for entity in shown], 0.8, label=f"in the top {MOST}")
    right = [100 * entity[RIGHT].value for entity in shown]
    axes.hlines(right, middles - 0.4, middles + 0.4, colors="black", label="right answer of")
    # Long names would leave no room for the bars.
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name in (entity["entity"] for entity in shown)]
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    distinct = ", ".join(f"{percent(about[f'distinct share@{k}'].value)} of top {k}" for k in CUTS)
    title = f"{_name(about)}, {about['prompts']:,} prompts"
    title += f"\ndistinct: {distinct}, {percent(about[RIGHT].value)} of right answers"
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=7, title=title, ncols=3, frameon=False)
    legend.get_title().set(fontsize=8, multialignment="center")

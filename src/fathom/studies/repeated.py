"""Does a model answer everything alike? How often each entity stands among the best (section 5.4 and figure 1 of Shaier
et al. 2024), and how that changes from template to sentence.

The change is told of the facts that both readings ranked, by a number that resampled facts can tell: the overlap, which
is the share of the k best of one fact that is among the k best of another, over all pairs of facts. It is a U-statistic
of degree two, so its interval, and that of its change, is of the facts' jackknife pseudo-values (Arvesen, "Jackknifing
U-Statistics", Annals of Mathematical Statistics 1969). Right answers repeat, too: their overlap stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of
from fathom.results.claims import Decision, decide, sentences
from fathom.results.comparison import refusals_table
from fathom.results.estimates import Estimate, untold
from fathom.results.facts import BY_TEMPLATE, CUTS, FREE, RunFacts, names_of
from fathom.results.loading import outcomes_of
from fathom.results.plots import Plot
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.repeated_readings import (
    CHOSEN,
    MOST,
    NO_INTERVAL,
    RIGHT,
    SHOWN,
    InBoth,
    changes_table,
    draw_both,
    entities_table,
    in_both_readings,
    label_entities,
    legend_above,
    repetition_claims,
)


class NotPaired(NamedTuple):
    """A model's runs on one data set that could not be compared, and why."""

    model: str
    data: str
    why: str


class RepeatedEntity(NamedTuple):
    """:param shares: of the prompts in whose top 1, 5 and 10 it stands. :param right: of which it is a right answer."""

    id: str
    name: str
    shares: tuple[Estimate, ...]
    right: Estimate


class Repeated(NamedTuple):
    """One run.

    :param prompts: predictions with a rank; the unscored are left out.
    :param distinct: entities that stand in any prompt's top 1, 5, 10.
    :param shares: those ÷ (k · prompts), 1 where no prediction repeats another, and fewer candidates than k count as
        many as there are.
    :param right: different right answers ÷ prompts, what the first share of a model that knows all would be.
    :param entities: all of them, the most repeated in the top 10 first; equal ones by their top 5, top 1 and id.
    """

    model: str
    data: str
    reading: str
    prompts: int
    unscored: int
    distinct: tuple[int, ...]
    shares: tuple[Estimate, ...]
    right: Estimate
    entities: list[RepeatedEntity]


class Repetition(NamedTuple):
    """:param runs: one per run, in their order. :param in_both: one for each model and data set of both readings.
    :param not_paired: models that were asked a data set in both, and are not among them."""

    runs: list[Repeated]
    in_both: list[InBoth]
    not_paired: list[NotPaired]
    decisions: list[Decision]


def conclude(findings: Repetition) -> list[str]:
    """Whether trained models repeat themselves differently by sentence."""
    if findings.decisions:
        return sentences(findings.decisions)
    return [
        "Nothing is compared: a comparison needs a model with runs of both readings, template-based and template-free."
    ]


def analyse(
    runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "", untrained: str = ""
) -> Repetition:
    """:param untrained: name of a model among these that was not trained, the control.
    :raises BadInput: a run recorded fewer than its ten best answers, or no run is of the untrained model."""
    outcomes = outcomes_of(runs, scoring, cluster)
    found = Repetition(all_of(*(partial(_repeated, outcome) for outcome in outcomes)), [], [], [])
    if untrained and untrained not in (models := {outcome.model for outcome in outcomes}):
        raise BadInput(f"--untrained {untrained}: no run is of this model; there is {', '.join(sorted(models))}")
    of_each = grouped(((outcome.model, outcome.data), outcome) for outcome in outcomes)
    for (model, data), own in of_each.items():
        try:
            both = in_both_readings(own)
        except BadInput as error:
            why = f"{BY_TEMPLATE} and {FREE}: {'; '.join(error.faults)}"
            found.not_paired.append(NotPaired(model, data, why))
        else:
            found.in_both.extend([both] if both else [])
    found.decisions.extend(decide(repetition_claims(found.in_both, untrained)))
    return found


def _repeated(outcome: RunFacts) -> Repeated:
    rows = outcome.rows
    scored = outcome.places[rows.scored[outcome.places]].tolist()
    tops = [rows.best(place) for place in scored]
    for top, place in zip(tops, scored, strict=True):
        if len(top) < min(max(CUTS), rows.number_of_candidates[place]):
            raise BadInput(
                f"{outcome.path} recorded the {len(top)} best answers of a prompt, {max(CUTS)} are needed: "
                f"ask with the cloze probe, or the statement probe with --top-k {max(CUTS)} and without --max-rank"
            )
    counts = [Counter(id_ for top in tops for id_ in top[:k]) for k in CUTS]
    right = Counter(id_ for query in rows.query[scored].tolist() for id_ in rows.gold[query])
    names = names_of(rows.candidates)
    order = sorted(counts[-1], key=lambda id_: (*(-count[id_] for count in reversed(counts)), id_))
    n = len(scored)
    of_cuts = list(zip((outcome.recipe(f"share of top {k}") for k in CUTS), counts, strict=True))
    return Repeated(
        outcome.model,
        outcome.data,
        outcome.reading,
        n,
        len(outcome.places) - n,
        tuple(map(len, counts)),
        tuple(
            untold(NO_INTERVAL, outcome.recipe(f"distinct/predictions@{k}"), len(count) / count.total(), n, ".1%")
            for k, count in zip(CUTS, counts, strict=True)
        ),
        untold(NO_INTERVAL, outcome.recipe("distinct right answers/prompts"), len(right) / n, n, ".1%"),
        [
            RepeatedEntity(
                id_,
                names.get(id_, id_),
                tuple(untold(CHOSEN, made, count[id_] / n, n, ".1%") for made, count in of_cuts),
                untold(CHOSEN, outcome.recipe(f"share of {RIGHT}"), right[id_] / n, n, ".1%"),
            )
            for id_ in order
        ],
    )


def tables(findings: Repetition) -> list[Table]:
    """Distinct predictions of every run, the most repeated entities of each, and how readings differ."""
    shares = tuple(f"distinct/predictions @{k}" for k in CUTS)
    runs = [
        {
            "model": line.model,
            "data": line.data,
            "reading": line.reading,
            "prompts": line.prompts,
            "unscored": line.unscored,
            **dict(zip((f"distinct@{k}" for k in CUTS), line.distinct, strict=True)),
            **dict(zip((*shares, RIGHT), (*line.shares, line.right), strict=True)),
        }
        for line in findings.runs
    ]
    notes = (
        "distinct@k: entities that any prompt has among its k best; predictions: prompts × k",
        f"{RIGHT}: different ones ÷ prompts, as a model that knows all would have them @1",
    )
    return [
        Table.of(runs, "distinct predictions", notes, without_interval=(*shares, RIGHT)),
        *(_entities(line, SHOWN) for line in findings.runs),
        *([changes_table(findings.in_both)] if findings.in_both else []),
        *(entities_table(both, SHOWN) for both in findings.in_both),
        *([refusals_table(NotPaired._fields, findings.not_paired)] if findings.not_paired else []),
    ]


def files(findings: Repetition) -> dict[str, Table]:
    """All entities of each run, and of both readings."""
    own = {f"repeated-{number}": _entities(line) for number, line in enumerate(findings.runs)}
    return own | {f"repeated-readings-{number}": entities_table(both) for number, both in enumerate(findings.in_both)}


def _entities(found: Repeated, shown: int | None = None) -> Table:
    """:param shown: how many; None for all."""
    columns = (*(f"top {k}" for k in CUTS), RIGHT)
    rows = [
        {"entity": one.name, "id": one.id, **dict(zip(columns, (*one.shares, one.right), strict=True))}
        for one in found.entities[:shown]
    ]
    title = f"most repeated: {found.model}, {found.data}, {found.reading}"
    notes = (
        "share of the prompts in whose top k an entity stands",
        "right answers: of which it is one, where a model that knows all would have it first",
    )
    return Table.of(rows, title, notes, without_interval=columns)


def plots(findings: Repetition) -> list[Plot]:
    """Bars of the most repeated entities (figure 1), then both readings of each model and data set side by side."""
    of_runs = [
        Plot(f"repeated-{number}", partial(_draw, line), "entity", f"% of the prompts that have it in their top {MOST}")
        for number, line in enumerate(findings.runs)
    ]
    of_both = [
        Plot(f"repeated-readings-{number}", partial(draw_both, both), "entity", "% of the facts")
        for number, both in enumerate(findings.in_both)
    ]
    return [*of_runs, *of_both]


def _draw(line: Repeated, axes: Any) -> None:
    chosen = line.entities[:SHOWN]
    axes.bar(range(len(chosen)), [100 * one.shares[-1].value for one in chosen], label=f"in the top {MOST}")
    right = [100 * one.right.value for one in chosen]
    axes.hlines(
        right, np.arange(len(chosen)) - 0.4, np.arange(len(chosen)) + 0.4, colors="black", label="right answer of"
    )
    label_entities(axes, [one.name for one in chosen])
    distinct = ", ".join(f"{share.value:.1%} of top {k}" for share, k in zip(line.shares, CUTS, strict=True))
    about = f"{line.model}, {line.data}, {line.reading}, {line.prompts:,} prompts"
    legend_above(axes, f"{about}\ndistinct: {distinct}, {line.right.value:.1%} of right answers")

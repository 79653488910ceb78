"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
All models of a column are compared on the facts that all of them ranked. By default both readings of a data set are
compared on the facts that all models ranked in both. Excluded facts are counted and listed.

Two rankings are compared by Kendall's tau-b and Spearman's rho. The bounds of tau come from the pairs of models: a pair
whose order is significant in both readings is concordant or discordant, any other may be either. Within groups of
models each step to the next larger one is a paired difference, per reading (section 4: does size help in both?).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Unreadable, read_text, repetition
from fathom.results.baselines import NO_KNOWLEDGE, STRONGEST, verdict_text
from fathom.results.claims import NO_DIFFERENCE, percent
from fathom.results.estimates import Estimate
from fathom.results.facts import ACCURACIES, BY_TEMPLATE, FREE, READINGS
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.rows import grouped
from fathom.results.saving import Plot
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.studies.changes import AccuracyChange, decide_changes
from fathom.studies.options import RankingsOptions
from fathom.studies.rankings_columns import (
    COEFFICIENTS,
    Column,
    ColumnHits,
    PlacedModel,
    Row,
    accuracy_difference,
    agreements_of,
    averaged,
    column_hits,
    column_of,
    left_out_of,
    on_common_facts,
)


class Rankings(NamedTuple):
    """:param groups: model → its group; empty without groups."""

    columns: list[Column]
    agreements: list[Row]
    groups: Mapping[str, str]
    left_out: list[Row]
    steps: list[AccuracyChange]


def analyse(runs: Sequence[RunFolder], options: RankingsOptions = RankingsOptions()) -> Rankings:
    """Rank the models of each data set and reading, and compare the rankings.

    :raises BadInput: fewer than two models, no common facts, other candidates, a model without a group.
    """
    outcomes = read_all_facts(runs, options.scoring, options.cluster)
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    if len(models) < 2:
        raise BadInput(f"a ranking needs runs of two models or more, found {models[0]} alone")
    full_names = {outcome.model: outcome.full_name for outcome in outcomes}
    group_of = {} if options.groups is None else read_groups(options.groups, full_names)
    grids = [
        column_hits(data, reading, {model: of_model[model] for model in models if model in of_model})
        for (data, reading), of_model in group_by_data(outcomes).items()
    ]
    if options.facts == "common":
        grids = on_common_facts(grids)
    above = {
        (grid.data, grid.reading, model): grid.baselines[model].claim(1, grid.facts)
        for grid in grids
        for model in grid.models
    }
    steps, is_above = decide_changes(
        {(*step.about.values(), step.before): step for step in _steps(grids, group_of)},
        above,
        lambda step, model: (step.about["data"], step.about["reading"], model),
    )
    columns = [column_of(grid, is_above) for grid in grids]
    for reading in READINGS:
        columns += averaged([grid for grid in grids if grid.reading == reading], reading)
    left_out = [fact for grid in grids for fact in left_out_of(grid)]
    return Rankings(columns, agreements_of(grids, group_of), group_of, left_out, list(steps.values()))


def _steps(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[AccuracyChange]:
    """Order models by parameters within groups; skip those whose run does not record them."""
    steps = []
    for grid, group in product(grids, dict.fromkeys(groups.values())):
        sized = [
            (size, model)
            for model, outcome in grid.outcomes.items()
            if groups[model] == group and (size := outcome.parameters) is not None
        ]
        about = {"data": grid.data, "reading": grid.reading, "group": group}
        steps += [
            AccuracyChange(about, smaller, larger, accuracy_difference(grid, larger, smaller, ACCURACIES[0]))
            for (least, smaller), (most, larger) in pairwise(sorted(sized))
            if least < most
        ]
    return steps


def read_groups(file: Path, models: Mapping[str, str]) -> dict[str, str]:
    """Read the group of each model.

    :param file: CSV with the header ``model,group``.
    :param models: short name → full name; the file may use either.
    :raises BadInput: the file is unreadable or lacks a model.
    """
    try:
        header, *lines = list(csv.reader(read_text(file).splitlines())) or [[]]
    except Unreadable as error:
        raise BadInput(f"--groups {error}") from error
    except csv.Error as error:
        raise BadInput(f"--groups {file}: not CSV: {error}") from error
    if [name.strip() for name in header] != ["model", "group"]:
        raise BadInput(f"--groups {file}:1: expected the header model,group, found {','.join(header)!r}")
    refuse(
        f"--groups {file}:{number}: expected a model and its group, found {','.join(line)!r}"
        for number, line in enumerate(lines, start=2)
        if line and (len(line) != 2 or not all(cell.strip() for cell in line))
    )
    first: dict[str, int] = {}
    refuse(
        f"--groups {file}:{number}: {why}"
        for number, line in enumerate(lines, start=2)
        if line and (why := repetition(first, line[0].strip(), number, f"model {line[0].strip()}"))
    )
    listed = {line[0].strip(): line[1].strip() for line in lines if line}
    refuse(
        f"--groups {file}: model {short} has no group; the file names {', '.join(listed) or 'none'}"
        for short, full in models.items()
        if short not in listed and full not in listed
    )
    return {short: listed[short] if short in listed else listed[full] for short, full in models.items()}


# --- tables and a plot


def conclude(findings: Rankings) -> list[str]:
    lines = []
    for column in findings.columns:
        first = min(column.scores, key=lambda score: score.place)
        above = sum(score.decision is not None and score.decision.holds for score in column.scores)
        known = f"; {above} of {len(column.scores)} models are above every baseline" if first.decision else ""
        accuracy = percent(first.hits[0].value)
        lines.append(f"{column.data}, {column.reading}: {first.model} is first ({accuracy}){known}.")
    for one in findings.agreements:
        tau = one[COEFFICIENTS[0]].shown(".2f")
        lines.append(f"{one['over']}, {one['group']}: tau of the two readings is {tau}.")
    return lines


def tables(findings: Rankings) -> list[Table]:
    titles = [f"{column.data}, {column.reading}" for column in findings.columns]
    models = dict.fromkeys(score.model for column in findings.columns for score in column.scores)
    placed = [{score.model: score.place for score in column.scores} for column in findings.columns]
    return [
        Table(
            ("model", *(["group"] if findings.groups else ()), *titles),
            tuple((*_identity(model, findings).values(), *(of.get(model) for of in placed)) for model in models),
            "places, 1 is the best",
            notes=("by Acc@1, ties by Acc@5 and then Acc@10; the tied share a mean place", "places have no interval"),
        ),
        *map(partial(_column_table, findings), titles, findings.columns),
        _agreement_table(findings.agreements),
        *([_steps_table(findings.steps)] if findings.steps else []),
    ]


def files(findings: Rankings) -> dict[str, Table]:
    if not findings.left_out:
        return {}
    rows = tuple(tuple(one.values()) for one in findings.left_out)
    return {"rankings-left-out": Table(tuple(findings.left_out[0]), rows, "facts that are not compared")}


def _identity(model: str, findings: Rankings) -> dict[str, str]:
    return {"model": model} | ({"group": findings.groups[model]} if findings.groups else {})


def _column_table(findings: Rankings, title: str, column: Column) -> Table:
    notes = [f"{column.facts:,} facts that all models ranked"]
    if column.left_out:
        listed = [
            one["fact"] for one in findings.left_out if (one["data"], one["reading"]) == (column.data, column.reading)
        ]
        more = f": {', '.join(listed[:3])}{', …' if len(listed) > 3 else ''} (rankings-left-out.csv)" if listed else ""
        notes.append(f"{column.left_out:,} facts that not all models ranked are excluded{more}")
    by_scoring = grouped((score.scoring, score.model) for score in column.scores)
    if len(by_scoring) > 1:
        ways = "; ".join(f"{scoring}: {', '.join(models)}" for scoring, models in by_scoring.items())
        notes.append(f"evaluated in different ways, whose effect on the places cannot be separated: {ways}")
    notes += [STRONGEST] if any(score.baseline for score in column.scores) else []
    rows: list[dict[str, Cell | Estimate]] = [
        {"place": score.place}
        | _identity(score.model, findings)
        | dict(zip(ACCURACIES, score.hits, strict=True))
        | {"baseline": _against_baseline(score)}
        for score in sorted(column.scores, key=lambda score: (score.place, score.model))
    ]
    average = {"place": None, "model": "average", **dict(zip(ACCURACIES, column.average, strict=True))}
    table = Table.of([*rows, average], title, notes).without_empty("baseline")
    return replace(table, inline=frozenset(ACCURACIES[:1]))


def _against_baseline(score: PlacedModel) -> str | None:
    """Return whether Acc@1 is above the baselines: places among models that are not show no knowledge."""
    if score.baseline is None or score.decision is None:
        return None
    return f"{verdict_text(score.decision)} ({score.baseline.baseline} {score.baseline.value:.1%})"


def _agreement_table(agreements: Sequence[Row]) -> Table:
    title = "template-based and template-free rankings"
    if not agreements:
        note = "no model ranking has both readings: add runs with --reading template-based and template-free"
        return Table((), (), title, notes=(note,))
    note = "tau: bounds from the pairs of models whose order is significant in both readings, at 95 % for all pairs"
    return Table.of(agreements, title, [note], main=COEFFICIENTS[0])


def _steps_table(steps: Sequence[AccuracyChange]) -> Table:
    counts = Counter((step.about["reading"], step.verdict) for step in steps)
    summaries = (
        f"{reading}: " + ", ".join(f"{counts[reading, name]} {name}" for name in ("rise", "drop", NO_DIFFERENCE))
        for reading in dict.fromkeys(reading for reading, _ in counts)
    )
    notes = ("paired by fact; verdicts by Holm over all of this study", *summaries, NO_KNOWLEDGE)
    return Table.of([step.row for step in steps], "from each size to the next within a group, Acc@1", notes)


def plots(findings: Rankings) -> list[Plot]:
    """Draw a line for each model through its places on the columns (a bump chart)."""

    def draw(axes: Any) -> None:
        placed = [{score.model: score.place for score in column.scores} for column in findings.columns]
        models = list(dict.fromkeys(model for of_model in placed for model in of_model))
        for model in models:
            points = [(number, of_model[model]) for number, of_model in enumerate(placed) if model in of_model]
            axes.plot(*zip(*points, strict=True), marker="o", label=model)
            axes.annotate(model, points[-1], xytext=(8, 0), textcoords="offset points", va="center", fontsize=7)
        short = {BY_TEMPLATE: "TB", FREE: "TF"}
        labels = [f"{column.data}\n{short.get(column.reading, column.reading)}" for column in findings.columns]
        axes.set_xticks(range(len(labels)), labels, fontsize=7)
        axes.set_yticks(range(1, len(models) + 1))
        axes.invert_yaxis()
        axes.margins(x=0.2)

    return [Plot("rankings", draw, "data set and reading (TB: template-based, TF: template-free)", "place")]

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
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Unreadable, read_text, repetition
from fathom.results.baselines import (
    NO_KNOWLEDGE,
    STRONGEST,
    AccuracyChange,
    BaselineComparison,
    RunBaselines,
    decide_changes,
    verdict_text,
)
from fathom.results.claims import NO_DIFFERENCE, Decision, percent
from fathom.results.estimates import OVER_MODELS, Estimate, combined, point_estimate
from fathom.results.facts import ACCURACIES, BY_TEMPLATE, CUTS, FREE, READINGS, RunFacts, common_facts, difference
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.metrics.ranking import places
from fathom.results.metrics.significance import LEVEL
from fathom.results.metrics.uncertainty import at_confidence
from fathom.results.rows import Floats, grouped
from fathom.results.tables import Cell, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RankingsOptions


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
        for model in grid.outcomes
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
    return f"{verdict_text(score.decision)} ({score.baseline.baseline} {percent(score.baseline.value)})"


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


# --- columns


MEAN = "mean over data sets"
EVERY_MODEL = "all models"
COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
OVER_DATA = "no interval: a mean over data sets, which were chosen"
TIED = "all models are tied on one side"


Row = dict[str, Any]


class PlacedModel(NamedTuple):
    """One model in a column.

    :param place: 1 is the best; tied models share the mean of theirs.
    :param scoring: with its probe; "" for a mean over data sets.
    :param baseline: the strongest on the facts of the column; None for a mean over data sets.
    :param decision: whether Acc@1 is above every baseline.
    """

    model: str
    place: float
    hits: tuple[Estimate, ...]
    scoring: str = ""
    baseline: BaselineComparison | None = None
    decision: Decision | None = None


class Column(NamedTuple):
    """One data set in one reading.

    :param facts: number of facts that all its models ranked.
    :param left_out: number of its other facts.
    """

    data: str
    reading: str
    facts: int
    left_out: int
    scores: list[PlacedModel]
    average: tuple[Estimate, ...]


class ColumnHits(NamedTuple):
    """The runs of a column. :param outcomes: by model."""

    data: str
    reading: str
    outcomes: dict[str, RunFacts]
    facts: Sequence[str]
    left_out: int
    baselines: Mapping[str, RunBaselines]

    @property
    def recipe(self) -> str:
        return combined("", [outcome.recipe("") for outcome in self.outcomes.values()], " and ")

    @property
    def means(self) -> Floats:
        """Acc@1, Acc@5, Acc@10 of each model, shape (models, 3)."""
        pairs = ((one, one.at(self.facts)) for one in self.outcomes.values())
        return np.array([[one.hits(k)[at].mean() for k in CUTS] for one, at in pairs])

    def means_of(self, models: Sequence[str]) -> Floats:
        return self.means[[list(self.outcomes).index(model) for model in models]]


def column_hits(data: str, reading: str, outcomes: dict[str, RunFacts]) -> ColumnHits:
    """:raises BadInput: no fact that all ranked, or other candidates."""
    facts = common_facts(list(outcomes.values()))
    evaluated = set().union(*(outcome.facts for outcome in outcomes.values()))
    baselines = {model: RunBaselines(outcome) for model, outcome in outcomes.items()}
    return ColumnHits(data, reading, outcomes, facts, len(evaluated) - len(facts), baselines)


def on_common_facts(grids: Sequence[ColumnHits]) -> list[ColumnHits]:
    """Restrict both readings of a data set to the facts that all their models ranked.

    :raises BadInput: there is none.
    """
    restricted = []
    for grid in grids:
        common = set(grid.facts).intersection(*(other.facts for other in grids if other.data == grid.data))
        if not common:
            raise BadInput(
                f"the readings of {grid.data} have no fact in common that all models ranked: --facts own ranks each on "
                "its own"
            )
        facts = [fact for fact in grid.facts if fact in common]
        left_out = grid.left_out + len(grid.facts) - len(facts)
        restricted.append(grid._replace(facts=facts, left_out=left_out))
    return restricted


def left_out_of(grid: ColumnHits) -> list[Row]:
    """Return the facts that are not compared, with the first reason found."""
    compared, reasons = set(grid.facts), dict[str, str]()
    for model, outcome in grid.outcomes.items():
        for fact in outcome.facts:
            if fact not in compared and not reasons.get(fact):
                reason = outcome.left_out.get(fact)
                reasons[fact] = f"{model}: {reason}" if reason else ""
    default = "not evaluated, or not ranked, by all models in both readings"
    about = {"data": grid.data, "reading": grid.reading}
    return [about | {"fact": fact, "why": reason or default} for fact, reason in reasons.items()]


def column_of(grid: ColumnHits, is_above: Mapping[tuple[str, str, str], Decision | None]) -> Column:
    scores = [
        PlacedModel(
            model,
            place,
            tuple(outcome.mean(name, outcome.hits(k), grid.facts) for name, k in zip(ACCURACIES, CUTS, strict=True)),
            f"{outcome.probe} {outcome.scoring}",
            grid.baselines[model].strongest(1, grid.facts),
            is_above[grid.data, grid.reading, model],
        )
        for (model, outcome), place in zip(grid.outcomes.items(), places(grid.means).tolist(), strict=True)
    ]
    average = _mean_of(grid.means, OVER_MODELS, [grid.recipe])
    return Column(grid.data, grid.reading, len(grid.facts), grid.left_out, scores, average)


def _mean_of(hits: Floats, why: str, recipes: Sequence[str]) -> tuple[Estimate, ...]:
    """:param hits: shape (models or data sets, 3). :param why: there is no interval."""
    return tuple(
        point_estimate(why, combined(name, recipes, " and "), value, len(hits), ".1%")
        for name, value in zip(ACCURACIES, hits.mean(axis=0).tolist(), strict=True)
    )


def averaged(grids: Sequence[ColumnHits], reading: str) -> list[Column]:
    """Average models over data sets, without intervals; none for one data set or fewer than two common models."""
    models = _in_all(grids)
    if len(grids) < 2 or len(models) < 2:
        return []
    hits = np.stack([grid.means_of(models) for grid in grids])
    means = hits.mean(axis=0)
    scores = [
        PlacedModel(
            model, place, _mean_of(hits[:, number], OVER_DATA, [grid.outcomes[model].recipe("") for grid in grids])
        )
        for number, (model, place) in enumerate(zip(models, places(means).tolist(), strict=True))
    ]
    facts, left_out = sum(len(grid.facts) for grid in grids), sum(grid.left_out for grid in grids)
    average = _mean_of(means, OVER_MODELS, [grid.recipe for grid in grids])
    return [Column(MEAN, reading, facts, left_out, scores, average)]


def _in_all(grids: Sequence[ColumnHits]) -> list[str]:
    """Return the models that every column has, in the order of the first."""
    return [model for model in (grids[0].outcomes if grids else []) if all(model in grid.outcomes for grid in grids)]


def accuracy_difference(grid: ColumnHits, first: str, second: str, name: str) -> Estimate:
    one, other = grid.outcomes[first], grid.outcomes[second]
    return difference(name, one, other, [one.hits(1), other.hits(1)], grid.facts)


# --- agreement of the two rankings


def agreements_of(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[Row]:
    """Compare the template-based with the template-free ranking of each data set that has both, and of the means."""
    based, free = ([grid for grid in grids if grid.reading == reading] for reading in (BY_TEMPLATE, FREE))
    pairs = [(one.data, [one], [other]) for one in based for other in free if one.data == other.data]
    if (len(based) > 1 or len(free) > 1 or not pairs) and based and free:
        pairs.append((MEAN, based, free))
    agreements: list[Row] = []
    for over, one, other in pairs:
        models = _in_all([*one, *other])
        names = dict.fromkeys(groups[model] for model in models) if groups else {}
        members = {name: [model for model in models if groups[model] == name] for name in names}
        for group, chosen in [(EVERY_MODEL, models), *members.items()]:
            if len(chosen) > 1:
                coefficients = dict(zip(COEFFICIENTS, _coefficients(chosen, one, other), strict=True))
                agreements.append({"over": over, "group": group, "models": len(chosen)} | coefficients)
    return agreements


def _coefficients(
    models: list[str], based: Sequence[ColumnHits], free: Sequence[ColumnHits]
) -> tuple[Estimate, Estimate]:
    sides = [places(np.mean([grid.means_of(models) for grid in side], axis=0)) for side in (based, free)]
    recipes = [combined(name, [grid.recipe for grid in (*based, *free)], " and ") for name in COEFFICIENTS]
    if any(np.ptp(side) == 0 for side in sides):
        return point_estimate(TIED, recipes[0]), point_estimate(TIED, recipes[1])
    from scipy.stats import kendalltau, spearmanr  # slow to load

    tau, rho = (float(function(*sides).statistic) for function in (kendalltau, spearmanr))
    no_bounds = point_estimate("no interval: only Kendall's tau has bounds", recipes[1], rho, len(models))
    if len(based) > 1 or len(free) > 1:
        return point_estimate(OVER_DATA, recipes[0], tau, len(models)), no_bounds
    return _bounded(tau, models, (based[0], free[0]), recipes[0]), no_bounds


def _bounded(tau: float, models: Sequence[str], grids: tuple[ColumnHits, ColumnHits], recipe: str) -> Estimate:
    """Return tau with bounds that hold at 95 %: what the orders that are certain in both readings leave open.

    Every order of two models, in either reading, is tested at 0.05 / (2 · pairs). With probability 0.95 none of the
    significant ones is wrong, and tau of the true orders lies between the bounds.
    """
    pairs = list(combinations(models, 2))
    confidence = 1 - LEVEL / (2 * len(pairs))
    products = [_order(grids[0], pair, confidence) * _order(grids[1], pair, confidence) for pair in pairs]
    certain, open_ = sum(products), products.count(0)
    low, high = (certain - open_) / len(pairs), (certain + open_) / len(pairs)
    return point_estimate("", recipe, tau, len(models))._replace(low=min(low, tau), high=max(high, tau))


def _order(grid: ColumnHits, pair: tuple[str, str], confidence: float) -> int:
    """Return +1 or −1 if the first or the second model is certainly better, else 0."""
    number = accuracy_difference(grid, *pair, COEFFICIENTS[0])
    low, high = (None, None) if number.interval is None else at_confidence(number.interval, confidence)
    return 0 if low is None or high is None else int(low > 0) - int(high < 0)

"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
Both readings of a data set are compared on the facts that all models ranked in both. Excluded facts are counted and
listed.

Two rankings are compared by Kendall's tau-b and Spearman's rho. The bounds of tau come from the pairs of models: a pair
whose order is significant in both readings is concordant or discordant, any other may be either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.baselines import (
    STRONGEST,
    BaselineComparison,
    RunBaselines,
    verdict_text,
)
from fathom.results.claims import Decision, decide, percent
from fathom.results.estimates import OVER_MODELS, Estimate, combined, point_estimate
from fathom.results.facts import ACCURACIES, BY_TEMPLATE, CUTS, FREE, RunFacts, common_facts, difference
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.metrics.ranking import places
from fathom.results.metrics.significance import LEVEL
from fathom.results.metrics.uncertainty import at_confidence
from fathom.results.rows import Floats, grouped
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions


class Rankings(NamedTuple):
    """Columns, the agreement of readings, and facts that are not compared."""

    columns: list[Column]
    agreements: list[Row]
    left_out: list[Row]


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> Rankings:
    """Rank the models of each data set and reading, and compare the rankings.

    :raises BadInput: fewer than two models, no common facts, other candidates.
    """
    outcomes = read_all_facts(runs, options.scoring, options.cluster)
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    if len(models) < 2:
        raise BadInput(f"a ranking needs runs of two models or more, found {models[0]} alone")
    grids = [
        column_hits(data, reading, {model: of_model[model] for model in models if model in of_model})
        for (data, reading), of_model in group_by_data(outcomes).items()
    ]
    grids = on_common_facts(grids)
    above = {
        (grid.data, grid.reading, model): grid.baselines[model].claim(1, grid.facts)
        for grid in grids
        for model in grid.outcomes
    }
    is_above = decide(above)
    columns = [column_of(grid, is_above) for grid in grids]
    left_out = [fact for grid in grids for fact in left_out_of(grid)]
    return Rankings(columns, agreements_of(grids), left_out)


# --- tables


def conclude(findings: Rankings) -> list[str]:
    lines = []
    for column in findings.columns:
        first = min(column.scores, key=lambda score: score.place)
        above = sum(score.decision is not None and score.decision.holds for score in column.scores)
        counts = f"; {above} of {len(column.scores)} models are above every baseline" if first.decision else ""
        accuracy = percent(first.hits[0].value)
        lines.append(f"{column.data}, {column.reading}: {first.model} is first ({accuracy}){counts}.")
    for row in findings.agreements:
        tau = row[COEFFICIENTS[0]].shown(".2f")
        lines.append(f"{row['data']}: tau of the two readings is {tau}.")
    return lines


def tables(findings: Rankings) -> list[Table]:
    titles = [f"{column.data}, {column.reading}" for column in findings.columns]
    models = dict.fromkeys(score.model for column in findings.columns for score in column.scores)
    placed = [{score.model: score.place for score in column.scores} for column in findings.columns]
    return [
        Table(
            ("model", *titles),
            tuple((model, *(of.get(model) for of in placed)) for model in models),
            "places, 1 is the best",
            notes=("by Acc@1, ties by Acc@5 and then Acc@10; the tied share a mean place", "places have no interval"),
        ),
        *map(partial(_column_table, findings), titles, findings.columns),
        _agreement_table(findings.agreements),
    ]


def files(findings: Rankings) -> dict[str, Table]:
    if not findings.left_out:
        return {}
    rows = tuple(tuple(row.values()) for row in findings.left_out)
    return {"rankings-left-out": Table(tuple(findings.left_out[0]), rows, "facts that are not compared")}


def _column_table(findings: Rankings, title: str, column: Column) -> Table:
    notes = [f"{column.facts:,} facts that all models ranked"]
    if column.left_out:
        listed = [
            row["fact"] for row in findings.left_out if (row["data"], row["reading"]) == (column.data, column.reading)
        ]
        more = f": {', '.join(listed[:3])}{', …' if len(listed) > 3 else ''} (rankings-left-out.csv)" if listed else ""
        notes.append(f"{column.left_out:,} facts that not all models ranked are excluded{more}")
    by_scoring = grouped((score.scoring, score.model) for score in column.scores)
    if len(by_scoring) > 1:
        ways = "; ".join(f"{scoring}: {', '.join(models)}" for scoring, models in by_scoring.items())
        notes.append(f"evaluated in different ways, whose effect on the places cannot be separated: {ways}")
    notes += [STRONGEST] if any(score.baseline for score in column.scores) else []
    rows: list[dict[str, Cell | Estimate]] = [
        {
            "place": score.place,
            "model": score.model,
            **dict(zip(ACCURACIES, score.hits, strict=True)),
            "baseline": _against_baseline(score),
        }
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


# --- columns


COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
TIED = "all models are tied on one side"


Row = dict[str, Any]


class PlacedModel(NamedTuple):
    """One model in a column.

    :param place: 1 is the best; tied models share the mean of theirs.
    :param scoring: with its probe.
    :param baseline: the strongest on the facts of the column.
    :param decision: whether Acc@1 is above every baseline.
    """

    model: str
    place: float
    hits: tuple[Estimate, ...]
    scoring: str
    baseline: BaselineComparison | None
    decision: Decision | None


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
        pairs = ((outcome, outcome.at(self.facts)) for outcome in self.outcomes.values())
        return np.array([[outcome.hits(k)[at].mean() for k in CUTS] for outcome, at in pairs])

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
        common = set(grid.facts).intersection(*(column.facts for column in grids if column.data == grid.data))
        if not common:
            raise BadInput(f"the readings of {grid.data} have no fact in common that all models ranked")
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


def column_of(grid: ColumnHits, is_above: Mapping[tuple[str, str, str], Decision]) -> Column:
    scores = [
        PlacedModel(
            model,
            place,
            tuple(outcome.mean(name, outcome.hits(k), grid.facts) for name, k in zip(ACCURACIES, CUTS, strict=True)),
            f"{outcome.probe} {outcome.scoring}",
            grid.baselines[model].strongest(1, grid.facts),
            is_above.get((grid.data, grid.reading, model)),
        )
        for (model, outcome), place in zip(grid.outcomes.items(), places(grid.means).tolist(), strict=True)
    ]
    average = tuple(
        point_estimate(OVER_MODELS, combined(name, [grid.recipe], " and "), value, len(grid.means), ".1%")
        for name, value in zip(ACCURACIES, grid.means.mean(axis=0).tolist(), strict=True)
    )
    return Column(grid.data, grid.reading, len(grid.facts), grid.left_out, scores, average)


def accuracy_difference(grid: ColumnHits, first: str, second: str, name: str) -> Estimate:
    first_facts, second_facts = grid.outcomes[first], grid.outcomes[second]
    return difference(name, first_facts, second_facts, [first_facts.hits(1), second_facts.hits(1)], grid.facts)


# --- agreement of the two rankings


def agreements_of(grids: Sequence[ColumnHits]) -> list[Row]:
    """Compare the template-based with the template-free ranking of each data set that has both."""
    agreements: list[Row] = []
    for first, second in product(grids, grids):
        models = [model for model in first.outcomes if model in second.outcomes]
        if (first.data, first.reading, second.reading) == (second.data, BY_TEMPLATE, FREE) and len(models) > 1:
            coefficients = dict(zip(COEFFICIENTS, _coefficients(models, (first, second)), strict=True))
            agreements.append({"data": first.data, "models": len(models)} | coefficients)
    return agreements


def _coefficients(models: list[str], grids: tuple[ColumnHits, ColumnHits]) -> tuple[Estimate, Estimate]:
    sides = [places(grid.means_of(models)) for grid in grids]
    recipes = [combined(name, [grid.recipe for grid in grids], " and ") for name in COEFFICIENTS]
    if any(np.ptp(side) == 0 for side in sides):
        return point_estimate(TIED, recipes[0]), point_estimate(TIED, recipes[1])
    from scipy.stats import kendalltau, spearmanr  # slow to load

    tau, rho = (float(function(*sides).statistic) for function in (kendalltau, spearmanr))
    no_bounds = point_estimate("no interval: only Kendall's tau has bounds", recipes[1], rho, len(models))
    return _bounded(tau, models, grids, recipes[0]), no_bounds


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

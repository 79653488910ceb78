"""The columns of the study of rankings: a data set in one reading, its models' places, and how two rankings agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.baselines import BaselineComparison, RunBaselines
from fathom.results.claims import Decision
from fathom.results.estimates import OVER_MODELS, Estimate, point_estimate
from fathom.results.facts import ACCURACIES, BY_TEMPLATE, CUTS, FREE, RunFacts
from fathom.results.metrics.ranking import places
from fathom.results.metrics.significance import LEVEL
from fathom.results.metrics.uncertainty import at_confidence
from fathom.results.pairing import common_facts, difference
from fathom.results.recipes import combined
from fathom.results.rows import Floats

MEAN = "mean over data sets"
EVERY_MODEL = "all models"
COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
OVER_DATA = "no interval: a mean over data sets, which were chosen"
TIED = "all models are tied on one side"
NO_BOUNDS = "no interval: only Kendall's tau has bounds"


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
    def models(self) -> list[str]:
        return list(self.outcomes)

    @property
    def recipe(self) -> str:
        return combined("", [outcome.recipe("") for outcome in self.outcomes.values()], " and ")

    @property
    def means(self) -> Floats:
        """Acc@1, Acc@5, Acc@10 of each model, shape (models, 3)."""
        pairs = ((one, one.at(self.facts)) for one in self.outcomes.values())
        return np.array([[one.hits(k)[at].mean() for k in CUTS] for one, at in pairs])

    def means_of(self, models: Sequence[str]) -> Floats:
        return self.means[[self.models.index(model) for model in models]]


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
    return [model for model in (grids[0].models if grids else []) if all(model in grid.models for grid in grids)]


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
    no_bounds = point_estimate(NO_BOUNDS, recipes[1], rho, len(models))
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

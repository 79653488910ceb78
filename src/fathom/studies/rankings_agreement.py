"""How far the template-based and the template-free ranking agree, with bounds that the facts allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.metrics.ranking import places
from fathom.metrics.significance import LEVEL
from fathom.metrics.uncertainty import at_confidence
from fathom.results.estimates import Estimate, combined, untold
from fathom.results.facts import BY_TEMPLATE, FREE
from fathom.results.pairing import difference
from fathom.results.rows import Floats
from fathom.studies.rankings_columns import MEAN, OVER_DATA, ColumnHits, in_all, values_of

EVERY_MODEL = "all models"
COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
TIED = "all models are tied on one side"
NO_BOUNDS = "no interval: only Kendall's tau has bounds"


class RankingAgreement(NamedTuple):
    """Of the template-based with the template-free ranking. :param over: a data set, or their mean."""

    over: str
    group: str
    models: int
    tau: Estimate
    rho: Estimate


def agreements(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[RankingAgreement]:
    """Of each data set that has both readings, and of the means over all data sets of each reading."""
    based, free = ([grid for grid in grids if grid.reading == reading] for reading in (BY_TEMPLATE, FREE))
    pairs = [(one.data, [one], [other]) for one in based for other in free if one.data == other.data]
    if (len(based) > 1 or len(free) > 1 or not pairs) and based and free:
        pairs.append((MEAN, based, free))
    return [
        _agreement(over, group, models, one, other)
        for over, one, other in pairs
        for group, models in _grouped(in_all([*one, *other]), groups)
        if len(models) > 1
    ]


def _grouped(models: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(groups[model] for model in models) if groups else {}
    return [(EVERY_MODEL, list(models)), *((n, [model for model in models if groups[model] == n]) for n in names)]


def _agreement(
    over: str, group: str, models: list[str], based: Sequence[ColumnHits], free: Sequence[ColumnHits]
) -> RankingAgreement:
    sides = [_places(models, [(grid, grid.hits.mean(axis=0)) for grid in side]) for side in (based, free)]
    recipes = [grid.recipe("") for grid in (*based, *free)]
    made = [combined(name, recipes, " and ") for name in COEFFICIENTS]
    if any(np.ptp(side) == 0 for side in sides):
        return RankingAgreement(over, group, len(models), *(untold(TIED, recipe) for recipe in made))
    from scipy.stats import kendalltau, spearmanr  # slow to load

    tau, rho = (float(function(*sides).statistic) for function in (kendalltau, spearmanr))
    no_rho = untold(NO_BOUNDS, made[1], rho, len(models))
    if len(based) > 1 or len(free) > 1:
        return RankingAgreement(over, group, len(models), untold(OVER_DATA, made[0], tau, len(models)), no_rho)
    return RankingAgreement(over, group, len(models), _bounded(tau, models, (based[0], free[0]), made[0]), no_rho)


def _bounded(tau: float, models: Sequence[str], grids: tuple[ColumnHits, ColumnHits], made: str) -> Estimate:
    """Return tau with bounds that hold at 95 %: what the orders that are certain in both readings leave open.

    Every order of two models, in either reading, is tested at 0.05 / (2 · pairs). With probability 0.95 none of the
    significant ones is wrong, and tau of the true orders lies between the bounds.
    """
    pairs = list(combinations(models, 2))
    confidence = 1 - LEVEL / (2 * len(pairs))
    products = [_order(grids[0], pair, confidence) * _order(grids[1], pair, confidence) for pair in pairs]
    certain, open_ = sum(products), products.count(0)
    low, high = (certain - open_) / len(pairs), (certain + open_) / len(pairs)
    return untold("", made, tau, len(models))._replace(low=min(low, tau), high=max(high, tau))


def _order(grid: ColumnHits, pair: tuple[str, str], confidence: float) -> int:
    """Return +1 or −1 if the first or the second model is certainly better, else 0."""
    one, other = (grid.outcomes[model] for model in pair)
    number = difference(COEFFICIENTS[0], [(1, one), (-1, other)], [one.hits(1), other.hits(1)], grid.facts)
    if number.interval is None:
        return 0
    low, high = at_confidence(number.interval, confidence)
    return 0 if low is None or high is None else int(low > 0) - int(high < 0)


def _places(models: Sequence[str], columns: Sequence[tuple[ColumnHits, Floats]]) -> Floats:
    """By the mean over columns. :param columns: each with values [..., models, 3]."""
    return places(np.mean([values_of(models, grid, values) for grid, values in columns], axis=0))

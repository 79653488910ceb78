"""How far the template-based and the template-free ranking agree, with intervals under resampling of what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.metrics.correlation import kendall, spearman
from fathom.metrics.ranking import places
from fathom.metrics.uncertainty import Interval
from fathom.results.numbers import Number, combined, number_of, untold
from fathom.results.outcomes import BY_TEMPLATE, CUTS, FREE
from fathom.results.rows import Floats, grouped
from fathom.results.samples import Sample, drawn
from fathom.studies.rankings_columns import MEAN, ColumnHits, in_all, values_of

EVERY_MODEL = "all models"
COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
_RESAMPLES, _BLOCK = 1000, 50


class RankingAgreement(NamedTuple):
    """Of the template-based with the template-free ranking. :param over: a data set, or their mean."""

    over: str
    group: str
    models: int
    tau: Number
    rho: Number


def agreements(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[RankingAgreement]:
    """Of each data set that has both readings, and of the means over all data sets of each reading."""
    based, free = ([grid for grid in grids if grid.reading == reading] for reading in (BY_TEMPLATE, FREE))
    pairs = [(one.data, [one], [other]) for one in based for other in free if one.data == other.data]
    if (len(based) > 1 or len(free) > 1 or not pairs) and based and free:
        pairs.append((MEAN, based, free))
    resampled = _resampled([*based, *free]) if pairs else {}
    return [
        _agreement(over, group, models, one, other, resampled)
        for over, one, other in pairs
        for group, models in _grouped(in_all([*one, *other]), groups)
        if len(models) > 1
    ]


def _grouped(models: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(groups[model] for model in models) if groups else {}
    return [(EVERY_MODEL, list(models)), *((n, [model for model in models if groups[model] == n]) for n in names)]


def _agreement(
    over: str,
    group: str,
    models: list[str],
    based: Sequence[ColumnHits],
    free: Sequence[ColumnHits],
    resampled: Mapping[tuple[str, str], Floats],
) -> RankingAgreement:
    sides, sample = (based, free), _drawn([*based, *free])[0]
    estimates = [_places(models, [(grid, grid.hits.mean(axis=0)) for grid in side]) for side in sides]
    draws = [_places(models, [(grid, resampled[grid.data, grid.reading]) for grid in side]) for side in sides]
    recipes = [grid.recipe("") for grid in (*based, *free)]
    tau, rho = (
        _estimate(function, estimates, draws, combined(name, recipes, " and "), sample)
        for name, function in zip(COEFFICIENTS, (kendall, spearman), strict=True)
    )
    return RankingAgreement(over, group, len(models), tau, rho)


def _estimate(
    function: Callable[..., Floats], estimates: Sequence[Floats], draws: Sequence[Floats], made: str, sample: Sample
) -> Number:
    """With the 95 % interval of the resamples in which neither side is tied throughout."""
    value, others = float(function(*estimates)), function(*draws)
    others = others[~np.isnan(others)]
    if np.isnan(value) or not len(others):
        return untold("all models are tied on one side", made, value)
    low, high = np.quantile(others, [0.025, 0.975]).tolist()
    found = Interval(value, min(low, value), max(high, value), len(others), float("nan"))
    return number_of(found, estimates[0].size, made, sample)


def _resampled(grids: Sequence[ColumnHits]) -> dict[tuple[str, str], Floats]:
    """Mean hits of each column in each resample, [resamples, models, 3]; both readings of a fact are drawn together."""
    generator = np.random.default_rng(0)
    found = {}
    for data in dict.fromkeys(grid.data for grid in grids):
        own = [grid for grid in grids if grid.data == data]
        sample, number = _drawn(own)
        at = [[number[fact] for fact in grid.facts] for grid in own]
        means: list[list[Floats]] = [[] for _ in own]
        for _ in range(0, _RESAMPLES, _BLOCK):
            counts = _counts(sample, len(number), generator)
            for place, grid in enumerate(own):
                weights = counts[:, at[place]]
                sums = weights @ grid.hits.reshape(len(grid.facts), -1)
                # None of a reading's few facts drawn: all models are tied, and the resample tells nothing.
                mean = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
                means[place].append(mean.reshape(_BLOCK, len(grid.models), len(CUTS)))
        for grid, blocks in zip(own, means, strict=True):
            found[grid.data, grid.reading] = np.concatenate(blocks)
    return found


def _drawn(grids: Sequence[ColumnHits]) -> tuple[Sample, dict[str, int]]:
    """How the facts of all *grids* were drawn, and the place of each among them."""
    asked = {fact: next(iter(grid.outcomes.values())) for grid in grids for fact in grid.facts}
    facts = sorted(asked)
    relations = [relation for fact in facts for relation in asked[fact].relations_of([fact])]
    key = grids[0].outcomes[grids[0].models[0]].rows.cluster
    labels = (asked[fact].cluster_label(fact) for fact in facts)
    return drawn(key, relations, labels), {fact: place for place, fact in enumerate(facts)}


def _counts(sample: Sample, facts: int, generator: np.random.Generator) -> Floats:
    """How often each fact is drawn in each resample of a block: whole clusters, or facts within their groups."""
    if sample.clusters is not None:
        names, unit = np.unique(np.asarray(sample.clusters), return_inverse=True)
        times = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_BLOCK)
        return times[:, unit].astype(float)
    counts = np.zeros((_BLOCK, facts))
    for own in grouped(zip(sample.within or [""] * facts, range(facts), strict=True)).values():
        counts[:, own] = generator.multinomial(len(own), np.full(len(own), 1 / len(own)), size=_BLOCK)
    return counts


def _places(models: Sequence[str], columns: Sequence[tuple[ColumnHits, Floats]]) -> Floats:
    """By the mean over columns. :param columns: each with values [..., models, 3]."""
    return places(np.mean([values_of(models, grid, values) for grid, values in columns], axis=0))

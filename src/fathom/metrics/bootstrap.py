"""Intervals and paired tests that know that queries of one relation resemble each other.

Queries of a relation share template and answer space, so resampling queries one by one would give intervals that are
too narrow. Relations (clusters) are resampled instead: the cluster bootstrap of a ratio of sums (Cameron, Gelbach and
Miller 2008, section 3).

Where all clusters have the same mean, no resample differs, and [x, x] would claim a certainty that nobody has. If that
mean is an end of what the values can be (0 of 13 right), the interval is Wilson's (1927), of as many values as there
are clusters: how alike those of one cluster are cannot be told from them, so they count as one. Elsewhere [x, x] stays,
and the note says so. One cluster alone tells nothing of others: its interval is all that the quantity can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
Clusters = Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_] | None

FEW_CLUSTERS = 10
_ROUNDING = 1e-12  # of the largest value: means that differ by less are equal
_CELLS = 4_000_000  # weights drawn at a time: 32 MB
_ONE_CLUSTER = "only 1 cluster: no interval"
_AT_END = "all clusters have the same mean: Wilson's interval, with each as one value"
_SAME_MEANS = "all clusters have the same mean: the bootstrap cannot see how sure this is"


class Interval(NamedTuple):
    """:param estimate: the (weighted) mean. :param clusters: how many were given.
    :param note: why to be careful; empty where there is no reason."""

    estimate: float
    low: float
    high: float
    clusters: int
    note: str = ""


class Difference(NamedTuple):
    """:param difference: mean of a − b with its interval. :param p_value: two-sided, that the mean is zero."""

    difference: Interval
    p_value: float


class TTest(NamedTuple):
    """:param degrees: degrees of freedom."""

    statistic: float
    p_value: float
    degrees: int


def interval(
    values: npt.ArrayLike,
    clusters: Clusters,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
    fold: Callable[..., Floats] | None = None,
) -> Interval:
    """Percentile interval of the mean of *values*, or of what *fold* makes of the means of several columns of them
    (such as an F1 of means), under resampling of whole clusters.

    Percentile intervals of few clusters are too narrow: the deviations from the estimate are widened by
    √(G/(G−1)) · t(G−1)/z, with G clusters. The order of values does not matter.

    :param values: [n]; with *fold* one column or more, [columns, n], resampled together.
    :param clusters: label of each, [n]; None makes each value a cluster of its own.
    :param weights: [n], above zero; the estimate is Σwv / Σw. All equal where not given.
    :param limits: what the quantity cannot leave, e.g. (0, 1); the interval is cut there. It is the limits themselves
        where there is one cluster, and Wilson's where all values stand at one of them.
    :param fold: takes one array per column, any shape, and gives one of that shape; None for the mean itself.
    :raises ValueError: no values, NaN among them, or unequal lengths.
    """
    columns = [values] if fold is None else list(values)  # type: ignore[arg-type]
    return _bootstrap(fold or _itself, columns, clusters, confidence, resamples, seed, weights, limits)[0]


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Clusters,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Difference:
    """:func:`interval` of a − b, item by item, and how often the (widened) resamples fall on the far side of zero.

    The p-value is 2 · min(share ≤ 0, share ≥ 0), each share as (count + 1) / (resamples + 1). Where no resample
    differs, it is that of the exact test that flips the signs of clusters: 2 / 2^G of G clusters, 1 of no difference.
    """
    left, right = np.asarray(a, float), np.asarray(b, float)
    if left.shape != right.shape:
        raise ValueError(f"pairs need equal lengths: {left.size} and {right.size}")
    difference = left - right
    found, means = _bootstrap(_itself, [difference], clusters, confidence, resamples, seed, weights, limits)
    if not means.size:
        none = abs(found.estimate) <= _ROUNDING * np.abs(difference).max()
        return Difference(found, 1.0 if none else 2.0 ** (1 - found.clusters))
    tail = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return Difference(found, min(1.0, 2 * (tail + 1) / (len(means) + 1)))


def paired_t_test(a: npt.ArrayLike, b: npt.ArrayLike) -> TTest:
    """Student's t-test for paired samples, two-sided (Wiland et al. 2024, footnote 6).

    Differences that are all equal have no spread: p is 1 where they are zero, else 0 with an infinite statistic.

    :raises ValueError: fewer than two pairs, unequal lengths or NaN.
    """
    left, right = np.asarray(a, float), np.asarray(b, float)
    if left.shape != right.shape or left.size < 2:
        raise ValueError(f"the paired test needs two or more pairs: {left.size} and {right.size} values")
    difference = left - right
    if np.isnan(difference).any():
        raise ValueError("the values hold NaN; take unscored items out first")
    if np.ptp(difference) == 0:
        sign = float(np.sign(difference[0]))
        return TTest(sign * np.inf if sign else 0.0, 0.0 if sign else 1.0, left.size - 1)
    result = stats.ttest_rel(left, right)
    return TTest(float(result.statistic), float(result.pvalue), left.size - 1)


def _itself(mean: Floats) -> Floats:
    return mean


def _bootstrap(
    function: Callable[..., Floats],
    columns: Sequence[npt.ArrayLike],
    clusters: Clusters,
    confidence: float,
    resamples: int,
    seed: int,
    weights: npt.ArrayLike | None,
    limits: tuple[float, float],
) -> tuple[Interval, Floats]:
    """The interval, and *function* of the resampled means, widened, shape [resamples]; none where none would differ."""
    table = [np.asarray(column, float) for column in columns]
    shares = np.ones_like(table[0]) if weights is None else np.asarray(weights, float)
    labels = np.arange(table[0].size) if clusters is None else np.asarray(clusters)
    for column in table:
        _check(column, labels, shares)
    if clusters is None:  # numbered by size, so that the order of the values does not decide which are drawn
        labels = np.argsort(np.lexsort((shares, *table)))
    _, unit = np.unique(labels, return_inverse=True)
    below: Floats = np.bincount(unit, shares).astype(float)
    above: list[Floats] = [np.bincount(unit, shares * column).astype(float) for column in table]
    estimate = float(function(*(np.sum(shares * column) / np.sum(shares) for column in table)))
    if len(below) == 1:
        return Interval(estimate, *limits, 1, _ONE_CLUSTER), np.empty(0)
    # So alike that no resample differs, but for rounding.
    if all(np.ptp(a / below) <= _ROUNDING * np.abs(column).max() for a, column in zip(above, table, strict=True)):
        return _without_resamples(estimate, below, confidence, limits), np.empty(0)
    # One seed, so every column meets the same resamples.
    means = [_resampled(total, below, resamples, seed) for total in above]
    spread = estimate + _widening(len(below), confidence) * (function(*means) - estimate)
    low, high = np.quantile(spread, [(1 - confidence) / 2, (1 + confidence) / 2])
    # A skewed ratio of few clusters can leave the estimate outside its own percentiles.
    low, high = min(float(low), estimate), max(float(high), estimate)
    note = f"only {len(below)} clusters: the interval is rough" if len(below) < FEW_CLUSTERS else ""
    return Interval(estimate, max(low, limits[0]), min(high, limits[1]), len(below), note), spread


def _without_resamples(estimate: float, sizes: Floats, confidence: float, limits: tuple[float, float]) -> Interval:
    """:param sizes: weight of each cluster. Where these differ, fewer clusters tell as much (Kish)."""
    if estimate not in limits or not np.isfinite(limits).all():
        return Interval(estimate, estimate, estimate, len(sizes), _SAME_MEANS)
    number = float(np.sum(sizes) ** 2 / np.sum(sizes**2))
    return Interval(estimate, *_wilson_at_end(estimate, limits, number, confidence), len(sizes), _AT_END)


def _wilson_at_end(end: float, limits: tuple[float, float], number: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval of 0 or all of *number*, between *limits*: it is z² / (n + z²) wide.

    Of values other than 0 and 1 it is the more cautious: each that is not at the end counts as if it were at the other.
    """
    z_squared = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
    width = (limits[1] - limits[0]) * z_squared / (number + z_squared)
    return (end, end + width) if end == limits[0] else (end - width, end)


def _check(items: Floats, labels: npt.NDArray[Any], weights: Floats) -> None:
    if items.ndim != 1 or not items.size:
        raise ValueError("an interval needs a list of at least one value")
    if items.shape != labels.shape or items.shape != weights.shape:
        raise ValueError(f"{items.size} values, but {labels.size} clusters and {weights.size} weights")
    if np.isnan(items).any():
        raise ValueError("the values hold NaN; take unscored items out first, and count them")
    if not np.all(weights > 0):
        raise ValueError("weights must be above zero")


def _resampled(above: Floats, below: Floats, resamples: int, seed: int) -> Floats:
    """Ratio of sums of each resample. Drawing G clusters with replacement is one multinomial draw of G counts."""
    if len(above) * resamples <= _CELLS:
        counts = _drawn(len(above), resamples, seed)
        return np.asarray((counts @ above) / (counts @ below))
    generator, units = np.random.default_rng(seed), len(above)
    block = max(1, _CELLS // units)
    means = np.empty(resamples)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.multinomial(units, np.full(units, 1 / units), size=size)
        means[start : start + size] = (drawn @ above) / (drawn @ below)
    return means


@lru_cache(maxsize=4)
def _drawn(units: int, resamples: int, seed: int) -> Floats:
    """[resamples, units]; a summary asks for the same one many times."""
    drawn = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), size=resamples)
    return drawn.astype(float)


def _widening(units: int, confidence: float) -> float:
    quantile = (1 + confidence) / 2
    return float(np.sqrt(units / (units - 1)) * stats.t.ppf(quantile, units - 1) / stats.norm.ppf(quantile))

"""Intervals and paired tests that know that queries of one relation resemble each other.

Queries of a relation share template and answer space, so resampling queries one by one would give intervals that are
too narrow. Relations (clusters) are resampled instead: the cluster bootstrap of a ratio of sums (Cameron, Gelbach and
Miller 2008, section 3).

Where every value is the same, no resample differs, and [x, x] would claim a certainty that nobody has. Values that all
stand at an end of what they can be (0 of 13 right) get Wilson's interval instead (1927), of fewer values where clusters
are few (Korn and Graubard 1998); others that are all equal keep [x, x], and the note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

FEW_CLUSTERS = 10
_CELLS = 4_000_000  # weights drawn at a time: 32 MB
_ALL_AT_END = "all values are equal: Wilson's interval, as the bootstrap cannot see how sure this is"
_SAME_MEANS = "all clusters have the same mean: their values were resampled instead"


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
    clusters: Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Percentile interval of the mean of *values* under resampling of whole clusters.

    Percentile intervals of few clusters are too narrow: the deviations from the estimate are widened by
    √(G/(G−1)) · t(G−1)/z, with G clusters. One cluster alone: the values themselves are resampled, and the note says
    so; likewise where all clusters have the same mean. The order of values does not matter.

    :param values: [n]. :param clusters: label of each, [n].
    :param weights: [n], above zero; the estimate is Σwv / Σw. All equal where not given.
    :param limits: what the quantity cannot leave, e.g. (0, 1); the interval is cut there. Where all values stand at one
        of them, the interval is Wilson's.
    :raises ValueError: no values, NaN among them, or unequal lengths.
    """
    return _bootstrap(_itself, [values], clusters, confidence, resamples, seed, weights, limits)[0]


def interval_of(
    function: Callable[..., Floats],
    columns: Sequence[npt.ArrayLike],
    clusters: Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """:func:`interval` of what *function* makes of the means of several columns, such as an F1 of means.

    :param function: takes one array per column, any shape, and gives one of that shape.
    :param columns: [n] each, resampled together.
    """
    return _bootstrap(function, columns, clusters, confidence, resamples, seed, weights, limits)[0]


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Difference:
    """:func:`interval` of a − b, item by item, and how often the (widened) resamples fall on the far side of zero.

    The p-value is 2 · min(share ≤ 0, share ≥ 0), each share as (count + 1) / (resamples + 1), so never 0.
    """
    left, right = np.asarray(a, float), np.asarray(b, float)
    if left.shape != right.shape:
        raise ValueError(f"pairs need equal lengths: {left.size} and {right.size}")
    found, means = _bootstrap(_itself, [left - right], clusters, confidence, resamples, seed, weights, limits)
    if not means.size:
        return Difference(found, 1.0)  # a single pair: nothing can be said
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
    clusters: Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_],
    confidence: float,
    resamples: int,
    seed: int,
    weights: npt.ArrayLike | None,
    limits: tuple[float, float],
) -> tuple[Interval, Floats]:
    """The interval, and *function* of the resampled means, widened, shape [resamples]; none for a single value."""
    table, labels = [np.asarray(column, float) for column in columns], np.asarray(clusters)
    shares = np.ones_like(table[0]) if weights is None else np.asarray(weights, float)
    for column in table:
        _check(column, labels, shares)
    given, unit = np.unique(labels, return_inverse=True)
    estimate = float(function(*(np.sum(shares * column) / np.sum(shares) for column in table)))
    note = _note(len(given), max(table, key=np.ptp))
    if len(labels) == 1:
        return Interval(estimate, limits[0], limits[1], 1, note), np.empty(0)
    if not any(map(np.ptp, table)) and estimate in limits and np.isfinite(limits).all():
        low, high = _wilson_at_end(estimate, limits, _effective_number(shares, len(given), confidence), confidence)
        return Interval(estimate, low, high, len(given), _ALL_AT_END), np.full(resamples, estimate)
    if one_by_one := len(given) > 1 and any(map(np.ptp, table)) and _same_means(table, shares, unit):
        note = _SAME_MEANS
    if len(given) == 1 or one_by_one:  # sorted, so that the order of the values does not decide which are drawn
        order = np.lexsort((shares, *table))
        table, shares, unit = [column[order] for column in table], shares[order], np.arange(len(labels))
    below: Floats = np.bincount(unit, shares).astype(float)
    # One seed, so every column meets the same resamples.
    means = [_resampled(np.bincount(unit, shares * column).astype(float), below, resamples, seed) for column in table]
    spread = estimate + _widening(len(below), confidence) * (function(*means) - estimate)
    low, high = np.quantile(spread, [(1 - confidence) / 2, (1 + confidence) / 2])
    # A skewed ratio of few clusters can leave the estimate outside its own percentiles.
    low, high = min(float(low), estimate), max(float(high), estimate)
    return Interval(estimate, max(low, limits[0]), min(high, limits[1]), len(given), note), spread


def _same_means(table: Sequence[Floats], shares: Floats, unit: npt.NDArray[np.int64]) -> bool:
    """Whether the clusters are so alike that no resample of them differs, but for rounding."""
    below = np.bincount(unit, shares)
    means = [np.bincount(unit, shares * column) / below for column in table]
    return all(
        np.ptp(mean) <= 1e-12 * max(1.0, float(np.abs(column).max())) for mean, column in zip(means, table, strict=True)
    )


def _effective_number(weights: Floats, clusters: int, confidence: float) -> float:
    """How many independent values tell as much (Korn and Graubard 1998, with a design effect of 1, since equal values
    show none): fewer where weights differ (Kish), and where clusters are few, as few degrees of freedom tell less."""
    number = float(np.sum(weights) ** 2 / np.sum(weights**2))
    if clusters == 1:
        return number
    quantile = (1 + confidence) / 2
    return number * float(stats.t.ppf(quantile, len(weights) - 1) / stats.t.ppf(quantile, clusters - 1)) ** 2


def _wilson_at_end(end: float, limits: tuple[float, float], number: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval of 0 or all of *number*, between *limits*: it is z² / (n + z²) wide.

    Of values other than 0 and 1 it is the more cautious: each that is not at the end counts as if it were at the other.
    """
    z_squared = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
    width = (limits[1] - limits[0]) * z_squared / (number + z_squared)
    return (end, end + width) if end == limits[0] else (end - width, end)


def _check(items: Floats, labels: npt.NDArray[np.str_] | npt.NDArray[np.object_], weights: Floats) -> None:
    if items.ndim != 1 or not items.size:
        raise ValueError("an interval needs a list of at least one value")
    if items.shape != labels.shape or items.shape != weights.shape:
        raise ValueError(f"{items.size} values, but {labels.size} clusters and {weights.size} weights")
    if np.isnan(items).any():
        raise ValueError("the values hold NaN; take unscored items out first, and count them")
    if not np.all(weights > 0):
        raise ValueError("weights must be above zero")


def _note(clusters: int, items: Floats) -> str:
    if items.size == 1:
        return "a single value: no interval"
    if np.ptp(items) == 0:
        return "all values are equal: the bootstrap cannot see how sure this is"
    if clusters == 1:
        return "only 1 cluster: its values were resampled instead"
    return f"only {clusters} clusters: the interval is rough" if clusters < FEW_CLUSTERS else ""


def _resampled(above: Floats, below: Floats, resamples: int, seed: int) -> Floats:
    """Ratio of sums of each resample. Drawing G clusters with replacement is one multinomial draw of G counts."""
    generator, units = np.random.default_rng(seed), len(above)
    block = max(1, _CELLS // units)
    means = np.empty(resamples)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        counts = generator.multinomial(units, np.full(units, 1 / units), size=size)
        means[start : start + size] = (counts @ above) / (counts @ below)
    return means


def _widening(units: int, confidence: float) -> float:
    quantile = (1 + confidence) / 2
    return float(np.sqrt(units / (units - 1)) * stats.t.ppf(quantile, units - 1) / stats.norm.ppf(quantile))

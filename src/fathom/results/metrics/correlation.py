"""Correlations and straight lines with intervals."""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from fathom.results.metrics.uncertainty import (
    CONFIDENCE,
    Floats,
    Interval,
    Ints,
    Labels,
    Spread,
    Ways,
    at_confidence,
    interval,
    widened,
)

_ON_A_LINE = float(np.arctanh(1 - 1e-9))


class FittedLine(NamedTuple):
    """Ordinary least squares, y = slope · x + intercept.

    :param slope_error: standard error of the slope, from the residual variance.
    :param r_squared: share of the variance explained.
    :param mean_error: standard error of the line at that mean.
    """

    slope: float
    intercept: float
    slope_error: float
    r_squared: float
    n: int
    x_mean: float
    mean_error: float

    def error_at(self, x: float) -> float:
        """Return the standard error of the line at x: that of its height and of its slope."""
        return float(np.hypot(self.mean_error, (x - self.x_mean) * self.slope_error))


def fit_line(x: npt.ArrayLike, y: npt.ArrayLike) -> FittedLine:
    """Fit a line by :func:`scipy.stats.linregress`. :raises ValueError: fewer than three points, or x does not vary."""
    first, second = np.asarray(x, float), np.asarray(y, float)
    if len(first) < 3 or np.ptp(first) == 0:
        raise ValueError("a line with an error needs three points of more than one x")
    from scipy.stats import linregress

    line = linregress(first, second)
    error = float(line.stderr)
    mean_error = error * float(np.std(first))  # s / √n, as the slope's error is s / (√n · sd(x))
    share = float(line.rvalue) ** 2
    return FittedLine(
        float(line.slope), float(line.intercept), error, share, len(first), float(first.mean()), mean_error
    )


def correlate(x: npt.ArrayLike, y: npt.ArrayLike, clusters: Labels | None = None, **ways: Unpack[Ways]) -> Interval:
    """Return Pearson's r of pairs, shape (n) each, with an interval and a p value by Fisher's z.

    Independent pairs have the usual standard error of z, 1 / √(n − 3). Pairs in clusters or drawn within groups have
    the jackknife's.

    :param clusters: label of each pair, as for :func:`fathom.results.metrics.uncertainty.interval`.
    :param ways: ``within`` and ``also``, likewise.
    :returns: NaN with fewer than three pairs or a side that does not vary; no interval with three.
    """
    sides = [np.asarray(side, float) for side in (x, y)]
    n, nan = len(sides[0]), float("nan")
    if n < 3 or any(np.ptp(side) == 0 for side in sides):
        return Interval(nan, None, None, n, nan, "fewer than three points, or points that do not vary, have no r")
    if n == 3 or (clusters is None and ways.get("within") is None):
        from scipy.stats import pearsonr  # as all of scipy.stats, slow to load

        r = float(pearsonr(*sides).statistic)
        if n == 3:
            return Interval(r, None, None, n, nan, "three points have no interval")
        return _independent(r, n)
    first, second = ((side - side.mean()) / side.std() for side in sides)
    columns = [first, second, first * first, second * second, first * second]
    of_z = interval(columns, clusters, **ways, fold=_fishers_z)
    if of_z.low is None and of_z.units > 3 and abs(of_z.estimate) > _ON_A_LINE:  # no jackknife differs
        return _independent(float(np.tanh(of_z.estimate)), of_z.units)
    low, high = (None if end is None else float(np.tanh(end)) for end in (of_z.low, of_z.high))
    return of_z._replace(estimate=float(np.tanh(of_z.estimate)), low=low, high=high, of_z=True)


def _independent(r: float, n: int) -> Interval:
    """Return r with the usual standard error of Fisher's z, that of n independent pairs."""
    z = float(np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)))
    p_value = float(2 * ndtr(-abs(z) * np.sqrt(n - 3)))
    free = Interval(r, None, None, n, p_value, spread=Spread(z, 1 / (n - 3), np.inf, n, n), of_z=True)
    low, high = at_confidence(free, CONFIDENCE)
    return free._replace(low=low, high=high)


def correlate_within(
    x: npt.ArrayLike, y: npt.ArrayLike, groups: Labels, clusters: Labels | None = None, **ways: Unpack[Ways]
) -> Interval:
    """Return r of what x and y are above their means in each group, shape (n) each, as :func:`correlate` does.

    The jackknife does not see that the means are estimated, and few pairs of skewed values show it too little spread.
    So the error is at least that of r over all permutations within groups, whose variance is known:
    Σ Sxx Syy / (size − 1) over the groups, divided by the whole Sxx Syy.
    """
    group = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    first, second = (subtract_means(np.asarray(side, float), group) for side in (x, y))
    found = correlate(first, second, clusters, **ways)
    if found.spread is None:
        return found
    sizes = np.bincount(group)
    squares = [np.bincount(group, side * side) for side in (first, second)]
    variance = float(np.sum(squares[0] * squares[1] / np.maximum(sizes - 1, 1)))
    permuted = np.sqrt(variance / (squares[0].sum() * squares[1].sum()))
    to_z = found.spread.estimate / found.estimate if found.estimate else 1.0
    return widened(found, float(permuted * to_z))


def subtract_means(values: Floats, group: Ints) -> Floats:
    """Subtract the mean of each value's group, shape (n) each.

    Rounded, so that what is equal throughout a group does not differ in its last bits.
    """
    means = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    return np.asarray(np.round(values - means[group], 12))


def _fishers_z(x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    scale = np.asarray(np.maximum((xx - x * x) * (yy - y * y), 0.0))
    r: Floats = np.divide(xy - x * y, np.sqrt(scale), out=np.full(scale.shape, np.nan), where=scale > 1e-12)
    return np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))

"""Correlations and straight lines, with what is needed to believe them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from fathom.metrics.uncertainty import CONFIDENCE, Floats, Fold, Interval, Labels, Spread, at_confidence, interval


class FittedLine(NamedTuple):
    """Ordinary least squares, y = slope · x + intercept. :param slope_error: standard error of the slope, from the
    residual variance. :param r_squared: share of the variance explained.
    :param x_mean: mean of x. :param mean_error: standard error of the line at that mean."""

    slope: float
    intercept: float
    slope_error: float
    r_squared: float
    n: int
    x_mean: float = float("nan")
    mean_error: float = float("nan")

    def error_at(self, x: float) -> float:
        """Return the standard error of the line at x: that of its height and of its slope."""
        return float(np.hypot(self.mean_error, (x - self.x_mean) * self.slope_error))


def correlate(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    within: Labels | None = None,
    also: Labels | None = None,
) -> Interval:
    """Pearson's r of pairs, [n] each, with an interval by Fisher's z.

    Pairs that were drawn each for itself have the usual standard error of z, 1 / √(n − 3); those that share clusters,
    or were drawn within groups, the jackknife's of z. The p value is of z, too, and so agrees with the interval.

    :param clusters: of each pair, as :func:`fathom.metrics.uncertainty.interval` takes them.
    :param within: likewise, and *also*.
    :returns: NaN of fewer than three pairs or where one side does not vary; no interval of three.
    """
    sides = [np.asarray(side, float) for side in (x, y)]
    n, nan = len(sides[0]), float("nan")
    if n < 3 or any(np.ptp(side) == 0 for side in sides):
        return Interval(nan, None, None, n, nan, "fewer than three points, or points that do not vary, have no r")
    if n == 3 or (clusters is None and within is None):
        from scipy.stats import pearsonr  # as all of scipy.stats, slow to load

        plain = pearsonr(*sides)
        r = float(plain.statistic)
        if n == 3:
            return Interval(r, None, None, n, nan, "three points have no interval")
        z = float(np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)))
        p_value = float(2 * ndtr(-abs(z) * np.sqrt(n - 3)))
        made = Interval(r, None, None, n, p_value, spread=Spread(z, 1 / (n - 3), np.inf, n, n), of_z=True)
        low, high = at_confidence(made, CONFIDENCE)
        return made._replace(low=low, high=high)
    first, second = ((side - side.mean()) / side.std() for side in sides)
    columns = [first, second, first * first, second * second, first * second]
    found = interval(columns, clusters, within=within, also=also, fold=_fishers_z)
    low, high = (None if end is None else float(np.tanh(end)) for end in (found.low, found.high))
    return found._replace(estimate=float(np.tanh(found.estimate)), low=low, high=high, of_z=True)


def _fishers_z(x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Of the means of columns; NaN where a side does not vary."""
    scale = np.asarray(np.maximum((xx - x * x) * (yy - y * y), 0.0))
    r: Floats = np.divide(xy - x * y, np.sqrt(scale), out=np.full(scale.shape, np.nan), where=scale > 1e-12)
    return np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))


def slope(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    within: Labels | None = None,
    also: Labels | None = None,
) -> Interval:
    """Slope of y on x by ordinary least squares, [n] each, with an interval that holds where spread differs with x.

    It is a function of means, so its variance is the jackknife's: of pairs HC3's kind, of clusters CV3's.

    :param clusters: of each pair, as :func:`fathom.metrics.uncertainty.interval` takes them.
    :param within: likewise, and *also*.
    :returns: NaN where x does not vary.
    """
    return _of_moments(_slope, [x, y])(clusters, within, also)


def intercept(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    within: Labels | None = None,
    also: Labels | None = None,
) -> Interval:
    """What the line of :func:`slope` says of y where x is 0."""
    return _of_moments(lambda *moments: moments[1] - _slope(*moments) * moments[0], [x, y])(clusters, within, also)


def tetrad(
    gain: npt.ArrayLike,
    own: npt.ArrayLike,
    control: npt.ArrayLike,
    ease: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    within: Labels | None = None,
    also: Labels | None = None,
) -> Interval:
    """Return cov(gain, own) cov(ease, control) − cov(gain, control) cov(ease, own), [n] each, with its interval.

    It is zero if one latent variable explains all four (Spearman's vanishing tetrad), regardless of how well, or on
    what scale, each of them measures it. A regression that only adjusts for a noisy measure of ease is not.
    """
    variables = [np.asarray(values, float) for values in (gain, own, control, ease)]
    g, x, c, e = variables
    columns = [*variables, g * x, e * c, g * c, e * x]

    def fold(*means: Floats) -> Floats:
        mg, mx, mc, me, gx, ec, gc, ex = means
        return np.asarray((gx - mg * mx) * (ec - me * mc) - (gc - mg * mc) * (ex - me * mx))

    if len(g) < 3 or any(np.ptp(values) == 0 for values in variables):
        nan = float("nan")
        return Interval(nan, None, None, len(g), nan, "fewer than three points, or points that do not vary")
    return interval(columns, clusters, within=within, also=also, fold=fold)


def _of_moments(fold: Fold, variables: Sequence[npt.ArrayLike]) -> Callable[..., Interval]:
    """Makes an interval of a function of means and mean products of variables, [n] each."""
    table = [np.asarray(values, float) for values in variables]
    columns = [*table, *(one * other for one, other in combinations_with_replacement(table, 2))]

    def made(clusters: Labels | None, within: Labels | None, also: Labels | None) -> Interval:
        if len(table[0]) < 3 or np.isnan(fold(*(np.array([column.mean()]) for column in columns)))[0]:
            nan = float("nan")
            return Interval(nan, None, None, len(table[0]), nan, "fewer than three points, or points that do not vary")
        return interval(columns, clusters, within=within, also=also, fold=fold)

    return made


def _slope(x: Floats, y: Floats, xx: Floats, xy: Floats, yy: Floats) -> Floats:
    """Of means; NaN where x does not vary."""
    spread = np.asarray(xx - x * x)
    found: Floats = np.divide(xy - x * y, spread, out=np.full(spread.shape, np.nan), where=spread > 1e-12)
    return found


def kendall(x: npt.ArrayLike, y: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Kendall's tau-b along the last axis, shapes [..., n] and [..., n] → [...]; NaN where one side does not vary.

    As :func:`scipy.stats.kendalltau`, but for many pairs of short lists at once, as a bootstrap over rankings needs.
    """
    first, second = (np.sign(side[..., :, None] - side[..., None, :]) for side in (np.asarray(x), np.asarray(y)))
    return _ratio(*(product.sum(axis=(-2, -1)) for product in (first * second, first**2, second**2)))


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Spearman's rho along the last axis (tied values share their mean rank), as :func:`kendall`."""
    from scipy.stats import rankdata

    first, second = (rankdata(side, axis=-1) for side in (x, y))
    first, second = (side - side.mean(axis=-1, keepdims=True) for side in (first, second))
    return _ratio(*(product.sum(axis=-1) for product in (first * second, first**2, second**2)))


def _ratio(
    common: npt.NDArray[np.float64], first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    scale = np.sqrt(np.asarray(first * second, float))
    return np.asarray(np.divide(common, scale, out=np.full(scale.shape, np.nan), where=scale > 0))


def fit_line(x: npt.ArrayLike, y: npt.ArrayLike) -> FittedLine:
    """:func:`scipy.stats.linregress`. :raises ValueError: fewer than three points, or x does not vary."""
    first, second = np.asarray(x, float), np.asarray(y, float)
    if len(first) < 3 or np.ptp(first) == 0:
        raise ValueError("a line with an error needs three points of more than one x")
    from scipy.stats import linregress

    found = linregress(first, second)
    mean_error = float(found.stderr) * float(np.std(first))  # s / √n, as the slope's error is s / (√n · sd(x))
    return FittedLine(
        float(found.slope),
        float(found.intercept),
        float(found.stderr),
        float(found.rvalue) ** 2,
        len(first),
        float(first.mean()),
        mean_error,
    )

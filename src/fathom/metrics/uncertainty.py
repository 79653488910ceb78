"""Intervals: the uncertainty of a number, given how its values were sampled.

Two questions can be asked of the same values. *Would other relations give this number?* Then whole relations (clusters)
were drawn, and the spread between them counts; that needs about ten clusters. *Would other facts of these relations?*
Then each value was drawn within its relation, and only the spread within counts. ``benchmarks/coverage.py`` simulates
which intervals hold where.

A number is a function of means. It is computed again with each unit (a cluster or a value) left out, and the spread of
these is its variance: the jackknife, which for means of clusters is the cluster-robust variance CV3 (MacKinnon, Nielsen
and Webb 2023). Shares between two limits get Wilson's interval (1927) with the number of tosses that would have that
variance (Korn and Graubard 1998), so that it never leaves the limits. Means with one limit are taken by their
logarithm, correlations by Fisher's z. Quantiles are Student's, with as many degrees of freedom as there are units,
fewer if these are of unequal size (Carter, Schnepel and Steigerwald 2017). If no value differs there is no spread to
see: as many values as Wilson's interval of 0 out of n allows are then taken to be at the other limit. :func:`crossed`
adds the spread between training seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_] | npt.NDArray[np.int64]
Fold = Callable[..., Any]

ENOUGH = 10
"""Fewest clusters that represent others of their kind; intervals over fewer are rough."""
WORTH = 5
"""Fewest clusters of equal size that unequal ones must be worth."""
FEWEST = 3
"""Fewest units of a second source, such as seeds, that show how much it matters."""
RARE = 10
"""Fewest tosses with the rarer outcome, at the clusters' precision, for which a share's interval holds."""
CONFIDENCE = 0.95
_Z = float(special.ndtri((1 + CONFIDENCE) / 2))
_ROUNDING = 1e-12  # of the largest value: what differs by less is equal
NO_SPREAD = "no value differs, and nothing limits what others could be: no interval"
ALIKE = "no value differs: Wilson's interval"
ONE_UNIT = "of one value: no interval"
ONE_SEED = "one seed: what another training would give is not in the interval"


class Ways(TypedDict, total=False):
    """Ways in which values were drawn, in addition to clusters; see :func:`interval`."""

    within: Labels | None
    also: Labels | None


class Interval(NamedTuple):
    """A number with its 95 % interval.

    :param low: None without an interval; the note says why.
    :param units: how many values or clusters were left out in turn.
    :param p_value: two-sided, that the quantity is zero; NaN if undefined.
    :param note: why to be careful; may be empty.
    :param error: standard error; NaN where no value differs, or without an interval.
    :param degrees: degrees of freedom of that error.
    :param seed_error: the part of the error due to seeds alone, see :func:`crossed`; NaN if unknown.
    :param spread: basis of :func:`at_confidence`; None without an interval.
    :param limits: smallest and largest possible value of the number.
    :param of_z: whether the spread is that of Fisher's z of a correlation.
    """

    estimate: float
    low: float | None
    high: float | None
    units: int
    p_value: float
    note: str = ""
    error: float = float("nan")
    degrees: float = float("nan")
    seed_error: float = float("nan")
    spread: Spread | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    of_z: bool = False


class Spread(NamedTuple):
    """An estimate with its variance and the variance's degrees of freedom.

    :param units: how many were left out in turn.
    :param effective: how many units of equal weight would be as informative (Kish).
    """

    estimate: float
    variance: float
    degrees: float
    units: int
    effective: float


def interval(
    values: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
    fold: Fold | None = None,
    **ways: Unpack[Ways],
) -> Interval:
    """Return the mean of values, or a function of the means of several columns, with its interval.

    :param values: shape (n); with *fold* shape (columns, n).
    :param clusters: label of each value, shape (n), of what was drawn as a whole; None: each value on its own.
    :param weights: above zero, shape (n); the estimate is Σwv / Σw. Equal by default.
    :param limits: smallest and largest possible value of the number, such as (0, 1).
    :param fold: takes one array per column, any shape, and returns one of that shape; None for the mean itself.
    :param ways: labels, shape (n). ``within``: fixed groups within which values were drawn. ``also``: a second way in
        which values were drawn together, such as the seed of a training.
    :raises ValueError: no values, NaN among them, or unequal lengths.
    """
    within, also = ways.get("within"), ways.get("also")
    columns = [values] if fold is None else list(values)  # type: ignore[arg-type]
    table = [np.asarray(column, float) for column in columns]
    shares = np.ones_like(table[0]) if weights is None else np.asarray(weights, float)
    _check(table, shares, (clusters, within, also))
    if all(np.ptp(column) <= _ROUNDING * np.abs(column).max() for column in table):
        return _alike(_alone(table, shares, also if clusters is None else clusters, fold), limits)
    spread = _spread(table, shares, (clusters, within, also), fold or _itself)
    made = _between(spread, limits)
    if also is not None and (sources := len(np.unique(np.asarray(also)))) < FEWEST:
        return made._replace(note=f"only {sources} of the second source: the interval is rough")
    return made if made.note or clusters is None else made._replace(note=_caution(spread, limits))


def crossed(
    values: npt.ArrayLike,
    clusters: Labels | None = None,
    *,
    limits: tuple[float, float] = (-np.inf, np.inf),
    **ways: Unpack[Ways],
) -> Interval:
    """Return the mean of the same units' values under several seeds, for other units *and* other seeds.

    As in the analysis of variance of such a table, V = V(means of units) + V(means of seeds) − V(residual), since the
    residual is in each of the first two; V is at least each of the three. Degrees of freedom as Satterthwaite (1946),
    so that few seeds, where they matter, make a wide interval. Two seeds that differ at all have one degree.

    :param values: shape (seeds, n).
    :param clusters: as for :func:`interval`, like *limits* and *ways*.
    :returns: for one seed its :func:`interval` with a note.
    :raises ValueError: no values, NaN among them, or unequal lengths.
    """
    table = np.atleast_2d(np.asarray(values, float))
    seeds, means, how = len(table), table.mean(axis=0), (clusters, ways.get("within"), ways.get("also"))
    if seeds == 1 or np.ptp(table) <= _ROUNDING * np.abs(table).max():
        made = interval(means, clusters, limits=limits, **ways)
        note = "; ".join(filter(None, (made.note, ONE_SEED if seeds == 1 else "")))
        return made._replace(note=note, seed_error=np.nan if seeds == 1 else 0.0)
    _check(list(table), np.ones_like(means), how)
    units, together, of_seeds = _crossed(table, how)
    made = _between(together, limits)
    rough = f"only {seeds} seeds: the interval is rough" if seeds < FEWEST else ""
    notes = (made.note, rough, _caution(units, limits) if clusters is not None else "")
    return made._replace(note="; ".join(filter(None, notes)), seed_error=float(np.sqrt(of_seeds)))


def at_confidence(number: Interval, confidence: float) -> tuple[float | None, float | None]:
    """Return the ends of the same interval at another confidence, such as 0.99 where several are read together."""
    if number.spread is None:
        return number.low, number.high
    made = _between(number.spread, number.limits, confidence)
    if number.of_z and made.low is not None and made.high is not None:
        return float(np.tanh(made.low)), float(np.tanh(made.high))
    return made.low, made.high


def interval_of_spread(spread: Spread) -> Interval:
    """Return the interval and p value of an estimate that has no limits."""
    return _between(spread, (-np.inf, np.inf))


def enough_clusters(labels: Labels) -> bool:
    """Return whether clusters are enough, and of similar size. :param labels: one per value."""
    _, sizes = np.unique(np.asarray(labels), return_counts=True)
    return len(sizes) >= ENOUGH and float(sizes.sum() ** 2 / (sizes**2).sum()) >= WORTH


def _itself(mean: Floats) -> Floats:
    return mean


def _check(table: Sequence[Floats], weights: Floats, labels: Sequence[Labels | None]) -> None:
    for column in table:
        if column.ndim != 1 or not column.size:
            raise ValueError("an interval needs a list of at least one value")
        if np.isnan(column).any():
            raise ValueError("the values hold NaN; take unscored items out first, and count them")
    lengths = {column.size for column in table} | {weights.size}
    lengths |= {len(own) for own in labels if own is not None}
    if len(lengths) > 1:
        raise ValueError(f"values, weights and labels need equal lengths: {sorted(lengths)}")
    if not np.all(weights > 0):
        raise ValueError("weights must be above zero")


# --- the variance


def _spread(
    table: Sequence[Floats], weights: Floats, labels: tuple[Labels | None, Labels | None, Labels | None], fold: Fold
) -> Spread:
    """:param labels: clusters, and the labels of :class:`Ways`."""
    clusters, within, also = labels
    if within is not None and len(weights) > 1:
        second = None if also is None else _numbered(also, len(weights))
        return _spread_within(table, weights, _numbered(within, len(weights)), fold, second)
    spread = _spread_between(table, weights, _numbered(clusters, len(weights)), fold)
    return spread if also is None else _two_ways(spread, table, weights, (clusters, also), fold)


def _numbered(labels: Labels | None, count: int) -> Ints:
    return np.arange(count) if labels is None else np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)


def _spread_between(table: Sequence[Floats], weights: Floats, unit: Ints, fold: Fold) -> Spread:
    """Leave out each unit in turn; the spread is around the estimate, which makes up for unequal units."""
    below = np.bincount(unit, weights)
    above = [np.bincount(unit, weights * column) for column in table]
    total, count = below.sum(), len(below)
    estimate = float(fold(*(part.sum() / total for part in above)))
    if count == 1:
        return Spread(estimate, np.nan, 0.0, 1, 1.0)
    without = fold(*((part.sum() - part) / (total - below) for part in above))
    effective = float(total**2 / (below**2).sum())
    variance = (count - 1) / count * float(((without - estimate) ** 2).sum())
    return Spread(estimate, variance, max(effective - 1, 1.0), count, effective)


def _spread_within(
    table: Sequence[Floats], weights: Floats, group: Ints, fold: Fold, second: Ints | None = None
) -> Spread:
    """Leave out each value in turn, its group keeping its share. Degrees of freedom as Satterthwaite (1946).

    A group of equal values gets the spread of all values, as if z² more values had been drawn from these.

    :param second: unit of each value that recurs in several groups, such as its subject. What a unit's values have in
        common adds to the variance, and the degrees of freedom are at most those of as many units.
    """
    group = _without_singles(group)
    count = np.bincount(group)
    below = np.bincount(group, weights)
    total = below.sum()
    without = []
    for column in table:
        above = np.bincount(group, weights * column)
        moved = (above[group] - weights * column) * below[group] / (below[group] - weights) - above[group]
        without.append((above.sum() + moved) / total)
    estimate = float(fold(*(np.sum(weights * column) / total for column in table)))
    values = np.asarray(fold(*without), float)
    middle = np.bincount(group, values) / count
    own = (count - 1) / count * np.bincount(group, (values - middle[group]) ** 2)
    share, free = below / total, count - 1
    if fold is _itself:
        spread = float(np.average((table[0] - estimate) ** 2, weights=weights))
        own = np.where(own > (_ROUNDING * share) ** 2, own, share**2 * spread * _Z**2 / (count + _Z**2) / count)
    variance = float(own.sum())
    degrees = variance**2 / float(np.sum(own**2 / free)) if variance else float(free.sum())
    effective = float(np.sum(weights) ** 2 / np.sum(weights**2))
    units = len(weights) if second is None else int(second.max()) + 1
    if second is not None and units > 1:
        moved = (values - middle[group]) * np.sqrt((count - 1) / count)[group]
        together = units / (units - 1) * float((np.bincount(second, moved) ** 2).sum())
        variance = max(variance, together)
        of_units = np.bincount(second, weights)
        degrees = min(degrees, float(of_units.sum() ** 2 / (of_units**2).sum()) - 1)
    return Spread(estimate, variance, max(degrees, 1.0), units, effective)


def _without_singles(group: Ints) -> Ints:
    """Join groups of one value to one group; a single one joins the smallest other."""
    count = np.bincount(group)
    singles = np.flatnonzero(count == 1)
    if len(singles) == 1 and len(count) > 1:
        singles = np.append(singles, np.argsort(np.where(count == 1, len(group), count), kind="stable")[0])
    joined = np.arange(len(count))
    joined[singles] = singles[0] if len(singles) else 0
    return np.unique(joined[group], return_inverse=True)[1].reshape(-1)


def _two_ways(
    first: Spread, table: Sequence[Floats], weights: Floats, ways: tuple[Labels | None, Labels], fold: Fold
) -> Spread:
    """Add the variances by either way, less that by both together (Cameron, Gelbach and Miller 2011, equation 2.11).

    It is at least the larger of the two. Degrees of freedom as Satterthwaite (1946).
    """
    numbered = [_numbered(way, len(weights)) for way in ways]
    second = _spread_between(table, weights, numbered[1], fold)
    crossed = _numbered(numbered[0] * (numbered[1].max() + 1) + numbered[1], len(weights))
    both = _spread_between(table, weights, crossed, fold)
    together = max(first.variance + second.variance - both.variance, first.variance, second.variance)
    parts = sum(one.variance**2 / one.degrees for one in (first, second, both) if one.degrees)
    return first._replace(variance=together, degrees=max(1.0, together**2 / parts) if parts else first.degrees)


def _crossed(table: Floats, how: tuple[Labels | None, Labels | None, Labels | None]) -> tuple[Spread, Spread, float]:
    """Return the spread by units alone, that by units and seeds, and the variance due to seeds alone.

    :param table: shape (seeds, n). :param how: clusters, and the labels of :class:`Ways`.
    """
    seeds, means, of_seeds = len(table), table.mean(axis=0), table.mean(axis=1)
    alike = np.ones_like(means)
    units = _spread([means], alike, how, _itself)
    if units.units == 1:
        return units, units, np.nan
    rest = (_spread([row], alike, how, _itself).variance for row in table - means)  # the seed's own mean is no spread
    of_rest = sum(rest) / (seeds * (seeds - 1))
    by_seed, free = float(of_seeds.var(ddof=1)) / seeds, (units.degrees, seeds - 1, units.degrees * (seeds - 1))
    three = (units.variance, by_seed, of_rest)
    together = max(units.variance + by_seed - of_rest, *three)
    parts = sum(one**2 / degrees for one, degrees in zip(three, free, strict=True))
    degrees = 1.0 if seeds < FEWEST and by_seed > 0 else max(1.0, together**2 / parts)
    return units, units._replace(variance=together, degrees=degrees), max(by_seed - of_rest, 0.0)


# --- from a variance to an interval


def _caution(spread: Spread, limits: tuple[float, float]) -> str:
    """Return why an interval over clusters is rough; "" if it is not."""
    if spread.units < ENOUGH:
        return f"only {spread.units} clusters: the interval is rough"
    if spread.effective < WORTH:
        return f"unequal clusters, worth {spread.effective:.1f} of equal size: the interval is rough"
    if np.isfinite(limits).all():
        share, tosses = _tosses(spread, limits)
        if min(share, 1 - share) * tosses < RARE:
            return "one outcome is too rare among these clusters: the interval is rough"
    return ""


def _between(spread: Spread, limits: tuple[float, float], confidence: float = CONFIDENCE) -> Interval:
    if spread.units == 1:
        return Interval(spread.estimate, None, None, 1, np.nan, ONE_UNIT)
    if not np.isfinite(spread.variance) or not np.isfinite(spread.estimate):
        return Interval(spread.estimate, None, None, spread.units, np.nan, "undefined without each of its values")
    if spread.variance <= _ROUNDING**2:
        return _alike(spread, limits, confidence)
    quantile = float(special.stdtrit(spread.degrees, (1 + confidence) / 2))
    error = float(np.sqrt(spread.variance))
    low, high = limits
    if np.isfinite(limits).all():
        ends, statistic = _wilson(spread, limits, quantile)
    elif np.isfinite(low) and spread.estimate > 0:
        factor = np.exp(quantile * error / spread.estimate)
        ends, statistic = (max(low, spread.estimate / factor), spread.estimate * factor), np.nan
    else:
        ends = (max(low, spread.estimate - quantile * error), min(high, spread.estimate + quantile * error))
        statistic = spread.estimate / error
    p_value = np.nan if np.isnan(statistic) else float(2 * special.stdtr(spread.degrees, -abs(statistic)))
    return Interval(
        spread.estimate, *ends, spread.units, p_value, "", error, spread.degrees, spread=spread, limits=limits
    )


def _wilson(spread: Spread, limits: tuple[float, float], quantile: float) -> tuple[tuple[float, float], float]:
    """Return Wilson's interval between *limits*, and the distance of zero in standard errors."""
    low, width = limits[0], limits[1] - limits[0]
    share, tosses = _tosses(spread, limits)
    bend = quantile**2 / tosses
    middle = (share + bend / 2) / (1 + bend)
    half = np.sqrt(share * (1 - share) * bend + bend**2 / 4) / (1 + bend)
    zero = -low / width
    deviation = np.sqrt(zero * (1 - zero) / tosses) if 0 < zero < 1 else np.nan
    ends = (low + width * max(0.0, float(middle - half)), low + width * min(1.0, float(middle + half)))
    return ends, float((share - zero) / deviation)


def _tosses(spread: Spread, limits: tuple[float, float]) -> tuple[float, float]:
    """Return the estimate's place between *limits*, from 0 to 1, and the number of coin tosses with its variance."""
    width = limits[1] - limits[0]
    share = min(max((spread.estimate - limits[0]) / width, 0.0), 1.0)
    return share, max(share * (1 - share), _ROUNDING) * width**2 / spread.variance


def _alone(table: Sequence[Floats], weights: Floats, clusters: Labels | None, fold: Fold | None) -> Spread:
    below = np.bincount(_numbered(clusters, len(weights)), weights)
    estimate = float((fold or _itself)(*(column[0] for column in table)))
    return Spread(estimate, 0.0, np.inf, len(below), float(below.sum() ** 2 / (below**2).sum()))


def _alike(spread: Spread, limits: tuple[float, float], confidence: float = CONFIDENCE) -> Interval:
    """Return the interval of equal values: up to z² / (n + z²) of others may be at the limits."""
    if spread.units == 1:
        return Interval(spread.estimate, None, None, 1, np.nan, ONE_UNIT)
    p_value = 1.0 if abs(spread.estimate) <= _ROUNDING else 2.0 ** (1 - spread.units)
    if not np.isfinite(limits).all():
        return Interval(spread.estimate, None, None, spread.units, p_value, NO_SPREAD)
    z = float(special.ndtri((1 + confidence) / 2))
    others = z**2 / (spread.effective + z**2)
    low, high = (spread.estimate + others * (limit - spread.estimate) for limit in limits)
    return Interval(spread.estimate, low, high, spread.units, p_value, ALIKE, spread=spread, limits=limits)

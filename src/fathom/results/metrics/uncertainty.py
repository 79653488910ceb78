"""Intervals: the uncertainty of a number, given how its values were sampled.

Two questions can be asked of the same values. *Would other relations give this number?* Then whole relations (clusters)
were drawn, and the spread between them counts; that needs about ten clusters. *Would other facts of these relations?*
Then each value was drawn within its relation, and only the spread within counts. ``benchmarks/claims.py`` simulates
which intervals hold where.

A number is a function of means. It is computed again with each unit (a cluster or a value) left out, and the spread of
these is its variance: the jackknife, which for means of clusters is the cluster-robust variance CV3 (MacKinnon, Nielsen
and Webb 2023). Shares between two limits get Wilson's interval (1927) with the number of tosses that would have that
variance (Korn and Graubard 1998), so that it never leaves the limits. Differences of two shares get Tango's score
interval (1998) with the number of pairs that would have that variance. Means with one limit are taken by their
logarithm, correlations by Fisher's z. Quantiles are Student's, with as many degrees of freedom as there are units,
fewer if these are of unequal size (Carter, Schnepel and Steigerwald 2017), and a third of that for clusters drawn as a
whole, of which a few may differ much (:data:`CLUSTERS_PER_DEGREE`). If no value differs there is no spread to see: as
many values as Wilson's interval of 0 out of n allows are then taken to be at the other limit. :func:`crossed` adds the
spread between training seeds. :func:`against` tests a number against any value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SHARE = (0.0, 1.0)
"""Limits of a share."""
Labels = Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.object_] | npt.NDArray[np.int64]
Fold = Callable[..., Any]

ENOUGH = 10
"""Fewest clusters that represent others of their kind."""
SETTLED = 30
"""Fewest clusters over which an interval is not rough."""
CLUSTERS_PER_DEGREE = 3
"""Clusters for each degree of freedom. If a tenth of the relations differ by .72, and the others by -.08, Student's
test with all degrees finds a difference in 12 % of draws of 12 relations, with a third of them in 6 %."""
WORTH = 5
"""Fewest clusters of equal size that unequal ones must be worth."""
FEWEST = 3
"""Fewest units of a second source, such as seeds, that show how much it matters."""
RARE = 10
"""Fewest tosses with the rarer outcome, at the clusters' precision, for which a share's interval holds."""
CONFIDENCE = 0.95
_Z = float(special.ndtri((1 + CONFIDENCE) / 2))
_ROUNDING = 1e-12  # of the largest value: what differs by less is equal
NO_SPREAD = "all values are equal and unbounded: no interval"
ALIKE = "all values are equal: Wilson's interval"
ONE_UNIT = "of one value: no interval"
ONE_SEED = "one seed: what another training would give is not in the interval"


class Ways(TypedDict, total=False):
    """Ways in which values were drawn, in addition to clusters; see :func:`interval`."""

    within: Labels | None
    also: Labels | None
    single: bool


class _Drawn(NamedTuple):
    """The way in which values were drawn, see :func:`interval`."""

    clusters: Labels | None
    within: Labels | None = None
    also: Labels | None = None
    single: bool = False


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
    :param bound: fixed value that was subtracted, see :func:`against`; None without one.
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
    bound: float | None = None


class Spread(NamedTuple):
    """An estimate with its variance and the variance's degrees of freedom.

    :param units: how many were left out in turn.
    :param effective: how many units of equal weight would be as informative (Kish).
    :param size: mean absolute value, if the estimate is a mean of values from -1 to 1; else NaN.
    :param is_bent: whether the interval bends before its limits, as Wilson's and Tango's do; else it is cut there.
    :param ways: of two ways of drawing, the spread by the first, by the second, and by both together; else empty.
    """

    estimate: float
    variance: float
    degrees: float
    units: int
    effective: float
    size: float = float("nan")
    is_bent: bool = True
    ways: tuple[Spread, ...] = ()


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
        which values were drawn together, such as the seed of a training. ``single``: whether a cluster is one value
        that was measured several times, not several values that have something in common.
    :raises ValueError: no values, NaN among them, or unequal lengths.
    """
    drawn = _Drawn(clusters, **ways)
    columns = [values] if fold is None else list(values)  # type: ignore[arg-type]
    table = [np.asarray(column, float) for column in columns]
    shares = np.ones_like(table[0]) if weights is None else np.asarray(weights, float)
    _check(table, shares, drawn[:3])
    size = _size(table[0], shares) if fold is None else float("nan")
    if all(np.ptp(column) <= _ROUNDING * np.abs(column).max() for column in table):
        below = np.bincount(_numbered(drawn.also if clusters is None else clusters, len(shares)), shares)
        estimate = float((fold or _itself)(*(column[0] for column in table)))
        effective = float(below.sum() ** 2 / (below**2).sum())
        return _alike(Spread(estimate, 0.0, np.inf, len(below), effective, size), limits)
    spread = _spread(table, shares, drawn, fold or _itself)._replace(size=size)
    made = _between(spread, limits)
    if drawn.also is not None and (sources := len(np.unique(np.asarray(drawn.also)))) < FEWEST:
        return made._replace(note=f"only {sources} of the second source: the interval is rough")
    return made if made.note or clusters is None else made._replace(note=_caution(spread, limits, drawn.single))


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
    seeds, means, drawn = len(table), table.mean(axis=0), _Drawn(clusters, **ways)
    few = f"only {seeds} seeds: the interval is rough" if 1 < seeds < FEWEST else ""
    if seeds == 1 or np.ptp(table) <= _ROUNDING * np.abs(table).max():
        made = interval(means, clusters, limits=limits, **ways)
        note = "; ".join(filter(None, (made.note, ONE_SEED if seeds == 1 else few)))
        return made._replace(note=note, seed_error=np.nan if seeds == 1 else 0.0)
    _check(list(table), np.ones_like(means), drawn[:3])
    units, together, of_seeds = _crossed(table, drawn)
    made = _between(together._replace(size=_size(means, np.ones_like(means))), limits)
    notes = (made.note, few, _caution(units, limits, drawn.single) if clusters is not None else "")
    return made._replace(note="; ".join(filter(None, notes)), seed_error=float(np.sqrt(of_seeds)))


def at_confidence(number: Interval, confidence: float) -> tuple[float | None, float | None]:
    """Return the ends of the same interval at another confidence, such as 0.99 where several are read together."""
    if number.spread is None:
        return number.low, number.high
    if number.bound is not None and number.limits == SHARE:
        low, high = _share_ends(number.spread, confidence)
        return low - number.bound, high - number.bound
    made = _between(number.spread, number.limits, confidence)
    if made.low is None or made.high is None:
        return None, None
    ends = (float(np.tanh(made.low)), float(np.tanh(made.high))) if number.of_z else (made.low, made.high)
    bound = number.bound or 0.0
    return ends[0] - bound, ends[1] - bound


def against(number: Interval, value: float) -> Interval:
    """Return number − value, with the p value that the quantity equals the value, and an interval that agrees with it.

    A share is tested by the binomial tail of as many tosses as its variance has, half of the probability of the
    observed share counted (Lancaster 1961), so that rare outcomes are judged by their number. A difference of shares is
    tested by Tango's score, a correlation by Fisher's z, anything else by its standard error.
    """
    if number.spread is None or number.low is None or number.high is None:
        ends = (None if end is None else end - value for end in (number.low, number.high))
        shifted = number._replace(estimate=number.estimate - value)
        return shifted._replace(low=next(ends), high=next(ends), p_value=np.nan)
    tested = number._replace(estimate=number.estimate - value, bound=value, p_value=p_value_at(number, value))
    low, high = at_confidence(tested, CONFIDENCE)
    return tested._replace(low=low, high=high)


def widened(number: Interval, error: float, *, is_bent: bool = True) -> Interval:
    """Return the same number with at least this standard error, and an interval that is cut at its limits if asked."""
    if number.spread is None:
        return number
    spread = number.spread._replace(variance=max(number.spread.variance, error**2), is_bent=is_bent)
    made = _between(spread, number.limits)
    if number.of_z and made.low is not None and made.high is not None:
        made = made._replace(low=float(np.tanh(made.low)), high=float(np.tanh(made.high)))
    note = made.note if number.note == ALIKE else number.note
    return made._replace(estimate=number.estimate, note=note, of_z=number.of_z)


def p_value_at(number: Interval, value: float, side: int = 0) -> float:
    """Return the p value that a quantity equals a value; NaN without a spread.

    :param side: +1: of a quantity above the value alone, that it is not; −1 likewise below; 0: two-sided.
    """
    if number.spread is None:
        return float("nan")
    value += number.bound or 0.0
    distance = _distance(number.spread, number.limits, float(np.arctanh(value)) if number.of_z else value)
    if side:
        return float(special.stdtr(number.spread.degrees, -side * distance))
    return float(2 * special.stdtr(number.spread.degrees, -abs(distance)))


def enough_clusters(labels: Labels) -> bool:
    """Return whether clusters are enough, and of similar size. :param labels: one per value."""
    _, sizes = np.unique(np.asarray(labels), return_counts=True)
    return len(sizes) >= ENOUGH and float(sizes.sum() ** 2 / (sizes**2).sum()) >= WORTH


def _size(values: Floats, weights: Floats) -> float:
    """Return the mean absolute value; NaN if a value is beyond −1 or 1, and so no difference of two shares."""
    return float(np.average(np.abs(values), weights=weights)) if np.abs(values).max() <= 1 else float("nan")


def _itself(mean: Floats) -> Floats:
    return mean


def _check(table: Sequence[Floats], weights: Floats, labels: Sequence[Labels | None]) -> None:
    for column in table:
        if column.ndim != 1 or not column.size:
            raise ValueError("an interval needs a list of at least one value")
        if np.isnan(column).any():
            raise ValueError("the values hold NaN; take unscored items out first, and count them")
    lengths = {column.size for column in table} | {weights.size}
    lengths |= {len(groups) for groups in labels if groups is not None}
    if len(lengths) > 1:
        raise ValueError(f"values, weights and labels need equal lengths: {sorted(lengths)}")
    if not np.all(weights > 0):
        raise ValueError("weights must be above zero")


# --- the variance


def _spread(table: Sequence[Floats], weights: Floats, drawn: _Drawn, fold: Fold) -> Spread:
    clusters, within, also, single = drawn
    if within is not None and len(weights) > 1:
        second = None if also is None else _numbered(also, len(weights))
        return _spread_within(table, weights, _numbered(within, len(weights)), fold, second)
    spread = _spread_between(table, weights, _numbered(clusters, len(weights)), fold)
    if clusters is not None and not single:
        spread = _of_clusters(spread)
    return spread if also is None else _two_ways(spread, table, weights, (clusters, also), fold)


def _of_clusters(spread: Spread) -> Spread:
    """Count clusters drawn as a whole for fewer degrees of freedom, since a few may differ much from the others."""
    return spread._replace(degrees=max(spread.degrees / CLUSTERS_PER_DEGREE, 1.0))


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
    parts = (count - 1) / count * np.bincount(group, (values - middle[group]) ** 2)
    share, free = below / total, count - 1
    if fold is _itself:
        spread = float(np.average((table[0] - estimate) ** 2, weights=weights))
        parts = np.where(parts > (_ROUNDING * share) ** 2, parts, share**2 * spread * _Z**2 / (count + _Z**2) / count)
    variance = float(parts.sum())
    degrees = variance**2 / float(np.sum(parts**2 / free)) if variance else float(free.sum())
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
    second = _of_clusters(_spread_between(table, weights, numbered[1], fold))
    crossed = _numbered(numbered[0] * (numbered[1].max() + 1) + numbered[1], len(weights))
    both = _spread_between(table, weights, crossed, fold)
    together = max(first.variance + second.variance - both.variance, first.variance, second.variance)
    parts = sum(spread.variance**2 / spread.degrees for spread in (first, second, both) if spread.degrees)
    degrees = max(1.0, together**2 / parts) if parts else first.degrees
    return first._replace(variance=together, degrees=degrees, ways=(first, second, both))


def _crossed(table: Floats, drawn: _Drawn) -> tuple[Spread, Spread, float]:
    """Return the spread by units alone, that by units and seeds, and the variance due to seeds alone.

    :param table: shape (seeds, n).
    """
    seeds, means, of_seeds = len(table), table.mean(axis=0), table.mean(axis=1)
    alike = np.ones_like(means)
    units = _spread([means], alike, drawn, _itself)
    if units.units == 1:
        return units, units, np.nan
    rest = (_spread([row], alike, drawn, _itself).variance for row in table - means)  # the seed's own mean is no spread
    of_rest = sum(rest) / (seeds * (seeds - 1))
    by_seed, free = float(of_seeds.var(ddof=1)) / seeds, (units.degrees, seeds - 1, units.degrees * (seeds - 1))
    three = (units.variance, by_seed, of_rest)
    together = max(units.variance + by_seed - of_rest, *three)
    parts = sum(variance**2 / degrees for variance, degrees in zip(three, free, strict=True))
    degrees = 1.0 if seeds < FEWEST and by_seed > 0 else max(1.0, together**2 / parts)
    return units, units._replace(variance=together, degrees=degrees), max(by_seed - of_rest, 0.0)


# --- from a variance to an interval


def _caution(spread: Spread, limits: tuple[float, float], single: bool) -> str:
    """Return why an interval over clusters is rough; "" if it is not."""
    if spread.units < (ENOUGH if single else SETTLED):
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
    if _is_paired(spread, limits):
        ends = _not_rejected(lambda value: _tango_distance(spread, value), spread.estimate, limits, quantile)
    elif _is_bounded(spread, limits):
        ends = _wilson_ends(spread, limits, quantile)
    elif np.isfinite(low) and np.isinf(high) and spread.estimate > 0:
        factor = np.exp(quantile * error / spread.estimate)
        ends = (max(low, spread.estimate / factor), spread.estimate * factor)
    else:
        ends = (max(low, spread.estimate - quantile * error), min(high, spread.estimate + quantile * error))
    made = Interval(
        spread.estimate, *ends, spread.units, np.nan, "", error, spread.degrees, spread=spread, limits=limits
    )
    return made._replace(p_value=p_value_at(made, 0.0)) if low < 0 < high else made


def _distance(spread: Spread, limits: tuple[float, float], value: float) -> float:
    """Return how many standard errors the estimate is above a value, the errors being those if the value is true."""
    if limits == SHARE and spread.is_bent:
        return _share_distance(spread, value)
    if _is_paired(spread, limits):
        return _tango_distance(spread, value)
    if _is_bounded(spread, limits):
        share, tosses = _tosses(spread, limits)
        expected = (value - limits[0]) / (limits[1] - limits[0])
        deviation = np.sqrt(max(expected * (1 - expected), 0.0) / tosses)
        return _ratio(share - expected, float(deviation))
    if np.isfinite(limits[0]) and np.isinf(limits[1]) and spread.estimate > 0 < value:
        return _ratio(float(np.log(spread.estimate / value)) * spread.estimate, float(np.sqrt(spread.variance)))
    return _ratio(spread.estimate - value, float(np.sqrt(spread.variance)))


def _ratio(difference: float, error: float) -> float:
    """Return difference / error; ±infinity without an error, 0 without a difference."""
    if error > 0:
        return difference / error
    return float(np.sign(difference)) * np.inf if abs(difference) > _ROUNDING else 0.0


def _wilson_ends(spread: Spread, limits: tuple[float, float], quantile: float) -> tuple[float, float]:
    low, width = limits[0], limits[1] - limits[0]
    share, tosses = _tosses(spread, limits)
    bend = quantile**2 / tosses
    middle = (share + bend / 2) / (1 + bend)
    half = np.sqrt(share * (1 - share) * bend + bend**2 / 4) / (1 + bend)
    return low + width * max(0.0, float(middle - half)), low + width * min(1.0, float(middle + half))


# --- a share against a value


def _share_distance(spread: Spread, value: float) -> float:
    """Return the normal quantile of the binomial tail of a share's tosses, half of the observed share counted."""
    share, tosses = _tosses(spread, SHARE)
    right = share * tosses
    above = _at_least(right, tosses, value), _at_least(right + 1, tosses, value)
    upper = (above[0] + above[1]) / 2
    if upper <= 0.5:
        return float(-special.ndtri(upper))
    below = _at_least(tosses - right, tosses, 1 - value), _at_least(tosses - right + 1, tosses, 1 - value)
    return float(special.ndtri((below[0] + below[1]) / 2))


def _at_least(number: float, tosses: float, chance: float) -> float:
    """Return the probability of so many successes or more; the number need not be whole."""
    if number <= _ROUNDING:
        return 1.0
    if number >= tosses + 1 - _ROUNDING:
        return 0.0
    return float(special.betainc(number, tosses - number + 1, min(max(chance, 0.0), 1.0)))


def _share_ends(spread: Spread, confidence: float) -> tuple[float, float]:
    """Return the values that :func:`_share_distance` does not reject."""
    quantile = float(special.stdtrit(spread.degrees, (1 + confidence) / 2))
    return _not_rejected(lambda value: _share_distance(spread, value), spread.estimate, SHARE, quantile)


def _not_rejected(
    distance: Callable[[float], float], estimate: float, limits: tuple[float, float], quantile: float
) -> tuple[float, float]:
    """Return the smallest and the largest value that are at most *quantile* errors from the estimate."""
    inside = min(max(estimate, limits[0]), limits[1])
    low, high = limits
    if inside > low + _ROUNDING:
        low = find_root(lambda value: distance(value) - quantile, low, inside)
    if inside < high - _ROUNDING:
        high = find_root(lambda value: -distance(value) - quantile, high, inside)
    return low, high


# --- differences of two shares


def _is_paired(spread: Spread, limits: tuple[float, float]) -> bool:
    return limits == (-1.0, 1.0) and spread.is_bent and not np.isnan(spread.size)


def _is_bounded(spread: Spread, limits: tuple[float, float]) -> bool:
    return bool(np.isfinite(limits).all()) and spread.is_bent


def _tango_distance(spread: Spread, value: float) -> float:
    """Return the score statistic of a difference of paired shares (Tango 1998, equation 7).

    The pairs in which the first alone is right are b = n (size + estimate) / 2, those in which the second alone is
    right c = n (size − estimate) / 2, with n pairs of the variance of the estimate.
    """
    scatter = spread.size - spread.estimate**2
    shows_none = spread.variance <= _ROUNDING**2 or scatter <= _ROUNDING
    pairs = spread.effective if shows_none else scatter / spread.variance
    first = pairs * max(spread.size + spread.estimate, 0.0) / 2
    second = pairs * max(spread.size - spread.estimate, 0.0) / 2
    linear = (2 * pairs - first + second) * value - first - second
    constant = -second * value * (1 - value)
    chance = (np.sqrt(max(linear**2 - 8 * pairs * constant, 0.0)) - linear) / (4 * pairs)
    variance = pairs * (2 * chance + value * (1 - value))
    return _ratio(first - second - pairs * value, float(np.sqrt(max(variance, 0.0))))


def find_root(function: Callable[[float], float], far: float, near: float, within: float = 1e-10) -> float:
    """Return where a function crosses zero; *far* if it is not above zero there."""
    from scipy.optimize import brentq  # slow to load, and not everyone needs it

    if not function(far) > 0:
        return far
    return float(brentq(function, far, near, xtol=within))


def _tosses(spread: Spread, limits: tuple[float, float]) -> tuple[float, float]:
    """Return the estimate's place between *limits*, from 0 to 1, and the number of coin tosses with its variance."""
    width = limits[1] - limits[0]
    share = min(max((spread.estimate - limits[0]) / width, 0.0), 1.0)
    if spread.variance <= _ROUNDING**2:
        return share, spread.effective
    return share, max(share * (1 - share), _ROUNDING) * width**2 / spread.variance


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
    made = Interval(spread.estimate, low, high, spread.units, p_value, ALIKE, spread=spread, limits=limits)
    # Equal differences that are small are no evidence as strong as their signs.
    return made._replace(p_value=max(p_value, p_value_at(made, 0.0))) if _is_paired(spread, limits) else made

"""Intervals and p values from their documented methods, by loops: the jackknife with values drawn within fixed groups,
Wilson's interval with the number of tosses of that variance, Tango's with the number of pairs, Student's quantiles,
Fisher's z."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from math import atanh, copysign, exp, inf, isfinite, nan, sqrt, tanh
from statistics import fmean
from typing import NamedTuple

from scipy.stats import binom, nct, norm, t

Fold = Callable[..., float]
Labels = Sequence[Hashable]
SHARE = (0.0, 1.0)
SIGNED = (-1.0, 1.0)
FREE = (-inf, inf)
Z = float(norm.ppf(0.975))


class Number(NamedTuple):
    """A value, the ends of its interval and its p value; None for what it does not have.

    :param error: standard error, with its degrees of freedom.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    error: float = nan
    degrees: float = nan


class Spread(NamedTuple):
    """The estimate and its uncertainty.

    :param error: standard error. :param degrees: of freedom.
    :param effective: units of equal weight (Kish).
    :param size: mean absolute value, for a mean of values from −1 to 1; else NaN.
    """

    value: float
    error: float
    degrees: float
    units: int
    effective: float
    size: float = nan


def first(*means: float) -> float:
    """The mean itself."""
    return means[0]


def interval(
    columns: Sequence[Sequence[float]],
    limits: tuple[float, float] = FREE,
    weights: Sequence[float] | None = None,
    groups: Labels | None = None,
    clusters: Labels | None = None,
    subjects: Labels | None = None,
    fold: Fold = first,
    confidence: float = 0.95,
    single: bool = False,
) -> Number:
    """A function of weighted means of columns: of values drawn within groups, or of clusters drawn as a whole.

    :param subjects: units that recur in several groups.
    :param single: clusters are one value each, asked several times.
    """
    each = list(weights or [1.0] * len(columns[0]))
    repeated = None if subjects is None else recurring(subjects)
    if groups is not None and clusters is not None:  # the mean of each cluster is one value of its group
        names = list(dict.fromkeys(clusters))
        own = [[place for place, one in enumerate(clusters) if one == name] for name in names]
        columns = [
            [sum(each[p] * column[p] for p in places) / sum(each[p] for p in places) for places in own]
            for column in columns
        ]
        groups, each, clusters = [groups[p[0]] for p in own], [sum(each[q] for q in p) for p in own], None
    if all(max(one) - min(one) <= 1e-12 * max(abs(max(one)), abs(min(one))) for one in columns):
        labels = clusters or repeated or range(len(each))
        below = [sum(w for w, own in zip(each, labels, strict=True) if own == label) for label in dict.fromkeys(labels)]
        value = fold(*(one[0] for one in columns))
        effective = sum(below) ** 2 / sum(w * w for w in below)
        return of_equal_values(value, len(below), effective, limits, confidence)
    if groups is not None and len(each) > 1:
        spread = within(columns, each, groups, fold, repeated)
    else:
        spread = between(columns, each, clusters or range(len(each)), fold)
        if (
            clusters is not None and not single
        ):  # a few whole clusters may differ much: a third of the degrees of freedom
            spread = spread._replace(degrees=max(spread.degrees / 3, 1))
    if fold is first and all(-1 <= x <= 1 for x in columns[0]):
        spread = spread._replace(size=sum(w * abs(x) for w, x in zip(each, columns[0], strict=True)) / sum(each))
    return ends(spread, limits, confidence)


def recurring(subjects: Labels) -> Labels | None:
    """Subjects, if some but not all values have the same."""
    return None if len(set(subjects)) in (1, len(subjects)) else subjects


def between(columns: Sequence[Sequence[float]], weights: Sequence[float], units: Labels, fold: Fold) -> Spread:
    """Leave out each unit in turn."""

    def mean(column: Sequence[float], without: Hashable) -> float:
        kept = [(w, x) for w, x, unit in zip(weights, column, units, strict=True) if unit != without]
        return sum(w * x for w, x in kept) / sum(w for w, _ in kept)

    nothing = object()
    value = fold(*(mean(column, nothing) for column in columns))
    names = list(dict.fromkeys(units))
    below = [sum(w for w, unit in zip(weights, units, strict=True) if unit == name) for name in names]
    effective = sum(below) ** 2 / sum(w * w for w in below)
    if len(names) == 1:
        return Spread(value, nan, 0, 1, 1)
    without = [fold(*(mean(column, name) for column in columns)) for name in names]
    variance = (len(names) - 1) / len(names) * sum((one - value) ** 2 for one in without)
    return Spread(value, sqrt(variance), max(effective - 1, 1), len(names), effective)


def within(
    columns: Sequence[Sequence[float]], weights: Sequence[float], groups: Labels, fold: Fold, subjects: Labels | None
) -> Spread:
    """Leave out each value in turn; the others of its group take over its weight."""
    groups, total = joined(groups), sum(weights)
    value = fold(*(sum(w * x for w, x in zip(weights, column, strict=True)) / total for column in columns))
    left: list[float] = []
    for out, group in enumerate(groups):
        own = [place for place, other in enumerate(groups) if other == group]
        share = sum(weights[place] for place in own)
        means = []
        for column in columns:
            others = sum(weights[place] * column[place] for place in own if place != out)
            rest = sum(weights[place] * column[place] for place in range(len(groups)) if groups[place] != group)
            means.append((rest + others * share / (share - weights[out])) / total)
        left.append(fold(*means))
    variances, parts, moved = [], [], [0.0] * len(groups)
    spread = sum(w * (x - value) ** 2 for w, x in zip(weights, columns[0], strict=True)) / total
    for group in dict.fromkeys(groups):
        own = [place for place, other in enumerate(groups) if other == group]
        middle, n = fmean(left[place] for place in own), len(own)
        variance = (n - 1) / n * sum((left[place] - middle) ** 2 for place in own)
        share = sum(weights[place] for place in own) / total
        if fold is first and variance <= (1e-12 * share) ** 2:
            variance = share**2 * spread * Z**2 / (n + Z**2) / n
        variances.append(variance)
        parts.append(variance**2 / (n - 1))
        for place in own:
            moved[place] = (left[place] - middle) * sqrt((n - 1) / n)
    variance = sum(variances)
    degrees = variance**2 / sum(parts) if variance else len(groups) - len(set(groups))
    units = len(groups)
    if subjects is not None:
        by_subject, of_subject = defaultdict(float), defaultdict(float)
        for place, subject in enumerate(subjects):
            by_subject[subject] += moved[place]
            of_subject[subject] += weights[place]
        units = len(by_subject)
        variance = max(variance, units / (units - 1) * sum(one**2 for one in by_subject.values()))
        degrees = min(degrees, sum(of_subject.values()) ** 2 / sum(one**2 for one in of_subject.values()) - 1)
    return Spread(value, sqrt(variance), max(degrees, 1), units, total**2 / sum(w * w for w in weights))


def joined(groups: Labels) -> Labels:
    """Groups of one value make one group; a single one joins the smallest other."""
    count = Counter(groups)
    single = [name for name in sorted(count) if count[name] == 1]
    if len(single) == 1 and len(count) > 1:
        single.append(min((name for name in sorted(count) if count[name] > 1), key=lambda name: count[name]))
    return [single[0] if name in single else name for name in groups]


def ends(spread: Spread, limits: tuple[float, float] = FREE, confidence: float = 0.95) -> Number:
    value, error = spread.value, spread.error
    if spread.units == 1 or not isfinite(error) or not isfinite(value):
        return Number(value if isfinite(value) else None)
    if error <= 1e-12:
        return of_equal_values(value, spread.units, spread.effective, limits, confidence)
    if limits == SIGNED and isfinite(spread.size):
        return of_pairs(spread, confidence)
    quantile = float(t.ppf((1 + confidence) / 2, spread.degrees))
    low, high = limits
    if isfinite(low) and isfinite(high):
        share = min(max((value - low) / (high - low), 0), 1)
        tosses = max(share * (1 - share), 1e-12) * ((high - low) / error) ** 2
        bend = quantile**2 / tosses
        half = sqrt(share * (1 - share) * bend + bend**2 / 4) / (1 + bend)
        middle = (share + bend / 2) / (1 + bend)
        zero = -low / (high - low)
        p = None
        if 0 < zero < 1:
            p = 2 * float(t.sf(abs(share - zero) / sqrt(zero * (1 - zero) / tosses), spread.degrees))
        parts = max(0, middle - half), min(1, middle + half)
        return Number(value, *(low + (high - low) * part for part in parts), p, error, spread.degrees)
    if isfinite(low) and value > 0:
        factor = exp(quantile * error / value)
        return Number(value, max(low, value / factor), value * factor)
    p = 2 * float(t.sf(abs(value / error), spread.degrees))
    found = max(low, value - quantile * error), min(high, value + quantile * error)
    return Number(value, *found, p, error, spread.degrees)


def of_pairs(spread: Spread, confidence: float) -> Number:
    """Tango's score interval (1998) of a difference of two shares, with the number of pairs of the same variance."""
    scatter = spread.size - spread.value**2
    pairs = scatter / spread.error**2 if scatter > 1e-12 else spread.effective
    counts = [pairs * max(spread.size + sign * spread.value, 0) / 2 for sign in (1, -1)]
    quantile = float(t.ppf((1 + confidence) / 2, spread.degrees))
    found = []
    for limit in SIGNED:
        rejected, kept = limit, spread.value
        for _ in range(60):
            middle = (rejected + kept) / 2
            is_kept = abs(score(pairs, *counts, middle)) <= quantile
            rejected, kept = (rejected, middle) if is_kept else (middle, kept)
        found.append(kept)
    p = 2 * float(t.sf(abs(score(pairs, *counts, 0.0)), spread.degrees))
    return Number(spread.value, *found, p, spread.error, spread.degrees)


def score(pairs: float, only_first: float, only_second: float, difference: float) -> float:
    """Observed less expected difference of counts, in standard deviations under this true difference of shares.

    The nuisance parameter q is the share of pairs in which only the second is right. It has the greatest likelihood
    (q + difference)^only_first · q^only_second · (1 − 2q − difference)^rest, where the derivative of the logarithm,
    which falls with q, changes its sign.
    """
    rest = max(pairs - only_first - only_second, 0)
    low, high = max(0.0, -difference), (1 - difference) / 2
    for _ in range(100):
        q = (low + high) / 2
        shares = q + difference, q, 1 - 2 * q - difference
        if min(shares) <= 0:  # the bounds are next to each other
            break
        slope = only_first / shares[0] + only_second / shares[1] - 2 * rest / shares[2]
        low, high = (q, high) if slope > 0 else (low, q)
    variance = pairs * (2 * q + difference * (1 - difference))
    surplus = only_first - only_second - pairs * difference
    return surplus / sqrt(variance) if variance > 0 else (0.0 if abs(surplus) <= 1e-12 else copysign(inf, surplus))


def of_equal_values(
    value: float, units: int, effective: float, limits: tuple[float, float], confidence: float
) -> Number:
    """Up to z² / (n + z²) of others may be at the limits."""
    if units == 1:
        return Number(value)
    p = 1.0 if abs(value) <= 1e-12 else 2.0 ** (1 - units)
    if not all(map(isfinite, limits)):
        return Number(value, None, None, p)
    z = float(norm.ppf((1 + confidence) / 2))
    others = z**2 / (effective + z**2)
    return Number(value, *(value + others * (limit - value) for limit in limits), p)


def fishers_z(x: float, y: float, xx: float, yy: float, xy: float) -> float:
    scale = (xx - x * x) * (yy - y * y)
    r = (xy - x * y) / sqrt(scale) if scale > 1e-12 else nan
    return atanh(min(max(r, -1 + 1e-12), 1 - 1e-12))


def correlation(
    x: Sequence[float], y: Sequence[float], groups: Labels | None = None, clusters: Labels | None = None,
    subjects: Labels | None = None,
) -> Number:  # fmt: skip
    """Pearson's r, with an interval by Fisher's z."""
    n = len(x)
    if n < 3 or len(set(x)) == 1 or len(set(y)) == 1:
        return Number(None)
    x, y = standardised(x), standardised(y)
    r = fmean(a * b for a, b in zip(x, y, strict=True))
    if n == 3:
        return Number(r)
    if groups is None and clusters is None:
        return of_fishers_z(r, 1 / sqrt(n - 3), inf)
    squares = [[a * a for a in x], [b * b for b in y], [a * b for a, b in zip(x, y, strict=True)]]
    found = interval([x, y, *squares], groups=groups, clusters=clusters, subjects=subjects, fold=fishers_z)
    low, high = (None if end is None else tanh(end) for end in found[1:3])
    return Number(r, low, high, found.p, found.error, found.degrees)


def of_fishers_z(r: float, error: float, degrees: float) -> Number:
    """:param error: of Fisher's z."""
    z, width = atanh(min(max(r, -1 + 1e-12), 1 - 1e-12)), float(t.ppf(0.975, degrees)) * error
    return Number(r, tanh(z - width), tanh(z + width), 2 * float(t.sf(abs(z) / error, degrees)), error, degrees)


def correlation_within(x: Sequence[float], y: Sequence[float], relations: Labels, **about: Labels | None) -> Number:
    """Pearson's r of what is above the mean of each relation.

    The error of Fisher's z is at least that over permutations within relations.

    :param about: how the pairs were drawn.
    """
    x, y = less_means(relations, x), less_means(relations, y)
    found = correlation(x, y, **about)
    if found.value is None or not isfinite(found.error):
        return found
    variance = 0.0
    for relation in dict.fromkeys(relations):
        own = [(a, b) for a, b, other in zip(x, y, relations, strict=True) if other == relation]
        if len(own) > 1:
            variance += sum(a * a for a, _ in own) * sum(b * b for _, b in own) / (len(own) - 1)
    of_r = sqrt(variance / (sum(a * a for a in x) * sum(b * b for b in y)))
    of_z = of_r * (atanh(found.value) / found.value if found.value else 1.0)
    return found if found.error >= of_z else of_fishers_z(found.value, of_z, found.degrees)


def less_means(relations: Labels, values: Sequence[float]) -> list[float]:
    own = defaultdict(list)
    for relation, value in zip(relations, values, strict=True):
        own[relation].append(value)
    return [round(value - fmean(own[relation]), 12) for relation, value in zip(relations, values, strict=True)]


def standardised(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    deviation = sqrt(fmean((value - mean) ** 2 for value in values))
    return [(value - mean) / deviation for value in values]


def smallest_difference(error: float, degrees: float) -> float | None:
    """The true difference that Student's test at 5 % finds in 80 % of cases."""
    if not isfinite(error):
        return None
    critical = float(t.ppf(0.975, degrees))

    def power(shift: float) -> float:
        return float(1 - nct.cdf(critical, degrees, shift) + nct.cdf(-critical, degrees, shift))

    low, high = critical / 2, 2 * critical + 1
    for _ in range(60):
        low, high = ((low + high) / 2, high) if power((low + high) / 2) < 0.8 else (low, (low + high) / 2)
    return error * low


def smallest_unseen(facts: int) -> float | None:
    """The same for two that agree on all facts: six on one side have p = 2 / 2⁶ by a sign test."""
    low, high = 0.0, 1.0
    if facts < 6:
        return None
    for _ in range(60):
        low, high = ((low + high) / 2, high) if binom.sf(5, facts, (low + high) / 2) < 0.8 else (low, (low + high) / 2)
    return low


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment."""
    order, largest = sorted(range(len(p_values)), key=lambda place: p_values[place]), 0.0
    adjusted = [0.0] * len(p_values)
    for step, place in enumerate(order):
        largest = max(largest, min(1.0, p_values[place] * (len(p_values) - step)))
        adjusted[place] = largest
    return adjusted

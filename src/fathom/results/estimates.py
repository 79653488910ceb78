"""The only place where values become numbers: a value, its interval, its sampling unit and its recipe.

Intervals are at 95 %, of the values of facts. :mod:`fathom.results.samples` defines the sampling units, and
:mod:`fathom.results.measures` the numbers of a run's predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from fathom.metrics import correlation as fits
from fathom.metrics.significance import PERMUTATIONS, permutation_test, smallest_difference, smallest_unseen
from fathom.metrics.table import SHARE
from fathom.metrics.uncertainty import (
    CONFIDENCE,
    Fold,
    Interval,
    Labels,
    at_confidence,
    crossed,
    interval,
    interval_of_spread,
)
from fathom.results import recipes
from fathom.results.rows import Floats
from fathom.results.samples import AND_SEED, Sample

NOTHING = "nothing was scored"
PERCENT = " %"
RESOLUTION = 4 / (PERMUTATIONS + 1)
EMPTY_WHOLE = "there is none of which this could be a share"
OVER_MODELS = "no interval: a mean over models, which were chosen"
_SIGNED = (-1.0, 1.0)


def format_value(value: float, form: str) -> str:
    """Return a value in a display format, a share ".1%" as "61.5 %"."""
    return f"{100 * value:{form[:-1]}f}{PERCENT}" if form.endswith("%") else format(value, form)


class Estimate(NamedTuple):
    """A value with its interval, sampling unit, sample size, recipe and display format.

    :param value: NaN if undefined; the note says why.
    :param low: lower end of the 95 % interval; None without one, and the note says why.
    :param clusters: number of independent units: clusters, or values drawn on their own.
    :param note: why to be careful; may be empty.
    :param n: number of predictions (or queries, facts, points).
    :param recipe: how it was computed, see :mod:`fathom.results.recipes`.
    :param p_value: two-sided, that a difference or a correlation is zero; None of other numbers, and if undefined.
    :param sample: sampling unit, see :class:`fathom.results.samples.Sample`; "" without an interval.
    :param smallest: of a difference: the smallest that these values would have shown in four of five cases, see
        :func:`fathom.metrics.significance.smallest_difference`; None of other numbers, and if undefined.
    :param interval: basis of intervals of other confidence; not for JSON.
    :param form: display format: a share ".1%", a signed difference "+.1%"; not for JSON.
    """

    value: float
    low: float | None
    high: float | None
    clusters: int | None
    note: str
    n: int
    recipe: str
    p_value: float | None = None
    sample: str = ""
    smallest: float | None = None
    interval: Interval | None = None
    form: str = ".3f"

    def __str__(self) -> str:
        """Return "61.5 % [55.0, 67.6]", or why it is undefined."""
        if np.isnan(self.value):
            return f"undefined: {self.note}"
        return f"{format_value(self.value, self.form)} {self.ends}".rstrip()

    def __repr__(self) -> str:
        return f"<Estimate {self}, n = {self.n:,}>"

    @property
    def ends(self) -> str:
        """Its interval as text, such as "[55.0, 67.6]"; "" without one."""
        if self.low is None or self.high is None:
            return ""
        low, high = (format_value(end, self.form).removesuffix(PERCENT) for end in (self.low, self.high))
        return f"[{low}, {high}]"

    def shown(self, form: str) -> Estimate:
        """Return the same estimate in another display format."""
        return self._replace(form=form)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it: an open end of an interval is null."""
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in self._asdict().items()
            if name not in ("interval", "form") and (name not in ("p_value", "smallest") or value is not None)
        }


class Noise(NamedTuple):
    """Standard errors of a number over several seeds, whose squares add up to that of its interval.

    :param seeds: number of trainings that differ in their seed alone.
    :param facts: error due to facts, and to facts and seeds together; None if unknown.
    :param training: error due to the seeds alone; None if unknown.
    """

    seeds: int
    facts: float | None = None
    training: float | None = None


def point_estimate(why: str, recipe: str = "", value: float = float("nan"), n: int = 0, form: str = ".3f") -> Estimate:
    """Return a number without an interval. :param why: the reason."""
    return Estimate(value, None, None, None, why, n, recipes.without_sample(recipe), form=form)


def as_estimate(
    result: Interval, n: int, recipe: str, sample: Sample, form: str = "+.3f", *, tested: bool = True, note: str = ""
) -> Estimate:
    """:param tested: whether zero is in question. :param note: precedes the note of the interval."""
    one_cluster = sample.one_cluster and result.low is None
    own = f"all of one {sample.key}, which says nothing of others: no interval" if one_cluster else result.note
    notes = "; ".join(filter(None, (note, own)))
    line = f"{recipes.without_sample(recipe)}|cluster:{sample.key}"
    p_value = None if np.isnan(result.p_value) or not tested else result.p_value
    ends = result.estimate, result.low, result.high
    return Estimate(*ends, result.units, notes, n, line, p_value, sample.key, interval=result, form=form)


def mean(
    values: npt.ArrayLike,
    sample: Sample,
    recipe: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
    form: str = ".1%",
) -> Estimate:
    """Return the mean of values, shape (n), drawn as *sample*, with its interval; undefined without values."""
    if not np.size(values):
        return point_estimate(NOTHING, recipe, form=form)
    return as_estimate(between(values, sample, limits, weights), np.size(values), recipe, sample, form, tested=False)


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    sample: Sample,
    recipe: str,
    limits: tuple[float, float] = _SIGNED,
    form: str = "+.1%",
    weights: Floats | None = None,
) -> Estimate:
    """Return the mean of first − second, paired, shape (n) each, with interval and p value; undefined if empty."""
    n = np.size(first)
    if not n:
        return point_estimate(NOTHING, recipe, form=form)
    result = between(np.subtract(first, second), sample, limits, weights)
    alike = np.array_equal(first, second) and bool(np.isin(first, (0, 1)).all())
    return as_estimate(result, n, recipe, sample, form)._replace(smallest=_smallest(result, alike, limits, n))


def mean_over_models(name: str, numbers: Sequence[Estimate]) -> Estimate:
    """Return the mean of one number of each model, without an interval; undefined if one is."""
    recipe = recipes.combined(name, [number.recipe for number in numbers], " and ")
    value = fmean(number.value for number in numbers)
    why = next((number.note for number in numbers if np.isnan(number.value)), OVER_MODELS)
    return point_estimate(why, recipe, value, len(numbers), numbers[0].form)


def over_seeds(
    values: Floats, sample: Sample, recipe: str, limits: tuple[float, float] = SHARE, tested: bool = False
) -> tuple[Estimate, Noise]:
    """Return the mean of the values of facts under several seeds, for other facts and other seeds, and its noise.

    :param values: shape (seeds, n), n above zero.
    :param sample: how the facts were drawn, each on its own or in clusters.
    :param tested: whether zero is in question, as for a difference.
    """
    seeds, n = values.shape
    result = crossed(values, sample.clusters, **sample.ways, limits=limits)
    drawn = sample if seeds == 1 else sample._replace(key=f"{sample.key}{AND_SEED}")
    noise = Noise(seeds)
    if not np.isnan(result.error + result.seed_error):
        noise = Noise(seeds, float(np.sqrt(max(result.error**2 - result.seed_error**2, 0.0))), result.seed_error)
    if not tested:
        return as_estimate(result, n, recipe, drawn, ".3f", tested=False), noise
    smallest = _smallest(result, not values.any(), limits, n)
    return as_estimate(result, n, recipe, drawn)._replace(smallest=smallest), noise


def _smallest(result: Interval, alike: bool, limits: tuple[float, float], n: int) -> float | None:
    """:param alike: whether all values of two answerers are equal, so that no error is seen."""
    smallest = smallest_unseen(n) if alike else smallest_difference(result.error, result.degrees)
    return None if np.isnan(smallest) or smallest > limits[1] else smallest


def beyond(
    own: Floats,
    other: Floats,
    sample: Sample,
    recipe: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
) -> tuple[float, Estimate]:
    """Return the mean of *other*, such as a baseline's, and own − other, paired, shape (n) each.

    The mean of the other is taken as fixed, so the difference is limited by *limits*, those of both. If all own values
    are equal, the difference shows nothing of others: its interval and p value are then those of the own values,
    shifted.
    """
    value = float(np.average(other, weights=weights))
    if np.ptp(own) < 1e-12:
        result = _shifted(between(own, sample, limits, weights), -value, limits)
    else:
        result = between(own - other, sample, (limits[0] - value, limits[1] - value), weights)
    return value, as_estimate(result, np.size(own), recipe, sample, "+.1%")


def contrast(
    values: npt.ArrayLike,
    first: npt.ArrayLike,
    sample: Sample,
    recipe: str,
    strata: Sequence[str] | None = None,
    limits: tuple[float, float] = SHARE,
    units: Labels | None = None,
) -> Estimate:
    """Return the mean of the *first* group − mean of the others, compared within strata, with interval and p value.

    Strata count with n₁n₀ / (n₁ + n₀) (Mantel and Haenszel 1959). The p value is the larger of that of the interval,
    which sees how units or relations cluster, and that of a permutation of units
    (:func:`fathom.metrics.significance.permutation_test`), which holds for the smallest groups. The interval is widened
    to agree with it.

    :param values: shape (n), between *limits*.
    :param first: whether each is of the first group, shape (n).
    :param strata: label of each, shape (n); None: one stratum.
    :param units: label of each, shape (n), that changes groups as a whole; None: each value by itself.
    :returns: undefined where no stratum has both groups.
    """
    given, part = np.asarray(values, float), np.asarray(first, bool)
    labels = np.zeros(len(given), int) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    count, of_first = np.bincount(labels).astype(float), np.bincount(labels, part)
    both = ((of_first > 0) & (of_first < count))[labels]
    if not both.any():
        return point_estimate(NOTHING, recipe)
    given, part, labels, sample = given[both], part[both], labels[both], sample.only(both)
    # A weighted mean of these is the contrast, and their spread that of either group.
    sums = [np.bincount(labels, own * given, len(count)) for own in (part, ~part)]
    sizes = [np.bincount(labels, own, len(count)) for own in (part, ~part)]
    means = [total / np.maximum(size, 1) for total, size in zip(sums, sizes, strict=True)]
    middle, whole = (means[0] + means[1])[labels] / 2, (sizes[0] + sizes[1])[labels]
    signed = 2 * np.where(part, given - middle, middle - given)
    weights = np.where(part, sizes[1][labels], sizes[0][labels]) / whole
    span = limits[1] - limits[0]
    own_units = np.arange(len(given)) if units is None else np.asarray(units)[both]
    permuted = permutation_test(given, part.astype(float), labels, own_units)
    result = _widened(between(signed, sample, (-span, span), weights), permuted, span)
    return as_estimate(result, len(given), recipe, sample, "+.1%")


def _widened(result: Interval, p_value: float, span: float) -> Interval:
    """Return the interval of the larger p value: as many standard errors around the estimate as that is away from 0."""
    if np.isnan(result.p_value) or result.p_value >= p_value or result.spread is None:
        return result
    if p_value <= RESOLUTION:  # so few permutations differ as much that their number says nothing of the error
        return result._replace(p_value=p_value)
    error = max(abs(result.estimate) / max(float(ndtri(1 - p_value / 2)), 1e-6), float(np.sqrt(result.spread.variance)))
    p_value = max(p_value, float(2 * ndtr(-abs(result.estimate) / error)))
    spread = result.spread._replace(variance=error**2, degrees=np.inf)
    wider = result._replace(spread=spread, limits=(-np.inf, np.inf), p_value=p_value, error=error, degrees=np.inf)
    ends = at_confidence(wider, CONFIDENCE)
    low, high = (None if end is None else float(np.clip(end, -span, span)) for end in ends)
    return wider._replace(low=low, high=high)


def _shifted(result: Interval, by: float, limits: tuple[float, float]) -> Interval:
    """Shift an interval of equal values, and give it the p value that belongs to it.

    It reaches 0 where the share z² / (n + z²) of others, all at the nearer limit, makes up for the estimate.
    """
    low, high = (None if end is None else end + by for end in (result.low, result.high))
    spread = result.spread and result.spread._replace(estimate=result.spread.estimate + by)
    ends = (result.limits[0] + by, result.limits[1] + by)
    moved = result._replace(
        estimate=result.estimate + by, low=low, high=high, p_value=np.nan, spread=spread, limits=ends
    )
    if result.spread is None or abs(moved.estimate) < 1e-12:
        return moved._replace(p_value=1.0 if abs(moved.estimate) < 1e-12 and low is not None else np.nan)
    reach = result.estimate - (limits[0] if moved.estimate > 0 else limits[1])
    share = moved.estimate / reach if reach else 1.0
    z = np.sqrt(result.spread.effective * share / (1 - share)) if share < 1 else np.inf
    return moved._replace(p_value=float(2 * ndtr(-z)))


def between(
    values: npt.ArrayLike,
    sample: Sample,
    limits: tuple[float, float],
    weights: Floats | None = None,
    fold: Fold | None = None,
) -> Interval:
    """See :func:`fathom.metrics.uncertainty.interval`. :param values: shape (n); with *fold* shape (columns, n)."""
    if sample.within is not None and sample.clusters is not None:  # each cluster's mean is one value of its group
        _, first, cluster = np.unique(np.asarray(sample.clusters), return_index=True, return_inverse=True)
        each = np.ones(len(cluster)) if weights is None else weights
        weights = np.bincount(cluster, each).astype(float)
        columns: Any = [values] if fold is None else values
        means = [np.bincount(cluster, each * np.asarray(column, float)) / weights for column in columns]
        groups = (None if labels is None else np.asarray(labels)[first] for labels in (sample.within, sample.also))
        values, sample = means if fold else means[0], Sample(sample.key, None, *groups)
    return interval(values, sample.clusters, **sample.ways, weights=weights, limits=limits, fold=fold)


def between_folds(
    means: Sequence[Floats],
    sample: Sample,
    folds: tuple[Fold, Fold],
    weights: Floats | None = None,
    limits: tuple[float, float] = SHARE,
) -> Interval:
    """Return the number of the first fold, with its upper end, and the lower end of the second fold.

    :param means: columns, shape (columns, n).
    :param folds: both take ``errors``, the standard error of each column's mean.
    """
    unlimited = (-np.inf, np.inf)
    errors = np.nan_to_num([between(mean, sample, unlimited, weights).error for mean in means])
    upper, lower = (between(means, sample, unlimited, weights, partial(fold, errors=errors)) for fold in folds)
    if upper.low is None or lower.low is None:
        return upper._replace(estimate=float(np.clip(upper.estimate, *limits)), low=None, high=None, spread=None)
    value, low, high = np.clip([upper.estimate, min(lower.low, upper.low), upper.high], *limits).tolist()
    return upper._replace(estimate=value, low=low, high=high, p_value=np.nan, spread=None, limits=limits)


def ratio(part: Floats, whole: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return mean of *part* / mean of *whole*, shape (n) each, no part greater than its whole, with its interval.

    :returns: undefined if the whole is zero.
    """
    there = whole > 0
    if not there.any():
        return point_estimate(EMPTY_WHOLE, recipe)
    # As a weighted mean, so that what has no whole is no unit that could represent others.
    drawn, weights = sample.only(there), whole[there]
    result = between(part[there] / weights, drawn, SHARE, weights)
    return as_estimate(result, int(there.sum()), recipe, drawn, ".1%", tested=False)


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, sample: Sample, recipe: str) -> Estimate:
    """Return Pearson's r of pairs, shape (n) each, with Fisher's interval; NaN if one side does not vary."""
    return as_estimate(fits.correlate(x, y, sample.clusters, **sample.ways), np.size(x), recipe, sample, ".3f")


def slope(x: Floats, y: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return the slope of y on x, shape (n) each; see :func:`fathom.metrics.correlation.slope`."""
    return as_estimate(fits.slope(x, y, sample.clusters, **sample.ways), np.size(x), recipe, sample)


def intercept(x: Floats, y: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return the height of the line of y on x at x = 0, with interval and p value."""
    return as_estimate(fits.intercept(x, y, sample.clusters, **sample.ways), np.size(x), recipe, sample)


def tetrad(gain: Floats, own: Floats, control: Floats, ease: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return what one latent variable cannot explain; see :func:`fathom.metrics.correlation.tetrad`."""
    result = fits.tetrad(gain, own, control, ease, sample.clusters, **sample.ways)
    return as_estimate(result, np.size(gain), recipe, sample)


def below(number: Estimate, bound: float) -> Estimate:
    """Return bound − number, tested against zero: whether a number is smaller than a bound."""
    result = number.interval
    if result is None or result.spread is None or result.low is None or result.high is None:
        return point_estimate(number.note, number.recipe)
    limits = (-result.limits[1], -result.limits[0])
    spread = result.spread._replace(estimate=-result.estimate)
    if result.spread.variance > 0:
        turned = interval_of_spread(spread._replace(estimate=bound - result.estimate))
    else:
        negative = result._replace(estimate=-result.estimate, low=-result.high, high=-result.low, spread=spread)
        turned = _shifted(negative, bound, limits)
    p_value = None if np.isnan(turned.p_value) else turned.p_value
    value, low, high = turned[:3]
    return number._replace(value=value, low=low, high=high, p_value=p_value, interval=turned, smallest=None)

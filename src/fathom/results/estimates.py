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
from scipy.special import ndtri

from fathom.results import recipes
from fathom.results.metrics import correlation as fits
from fathom.results.metrics.significance import PERMUTATIONS, permutation_test, smallest_effect, smallest_unseen
from fathom.results.metrics.table import SHARE
from fathom.results.metrics.uncertainty import (
    FEWEST,
    Fold,
    Interval,
    Labels,
    against,
    crossed,
    interval,
    widened,
)
from fathom.results.rows import Floats
from fathom.results.samples import AND_SEED, Sample

NOTHING = "nothing was scored"
NO_BOTH = "no relation, or other stratum, has facts in both groups"
PERCENT = " %"
RESOLUTION = 4 / (PERMUTATIONS + 1)
INFORMATIVE = 0.5
"""P value of permutations from which on it says nothing of the error of a contrast."""
EMPTY_WHOLE = "there is none of which this could be a share"
OVER_MODELS = "no interval: a mean over models, which were chosen"
OVER_CHOSEN = "no interval: the models, or data sets, were chosen"
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
        :func:`fathom.results.metrics.significance.smallest_difference`; None of other numbers, and if undefined.
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
    :param tested: whether zero is in question, as for a difference. Two seeds without any difference tell no smallest
        one that would have been found: with one degree of freedom, differences of either seed alone are missed.
    """
    seeds, n = values.shape
    result = crossed(values, sample.clusters, **sample.ways, limits=limits)
    drawn = sample if seeds == 1 else sample._replace(key=f"{sample.key}{AND_SEED}")
    noise = Noise(seeds)
    if not np.isnan(result.error + result.seed_error):
        noise = Noise(seeds, float(np.sqrt(max(result.error**2 - result.seed_error**2, 0.0))), result.seed_error)
    if not tested:
        return as_estimate(result, n, recipe, drawn, ".3f", tested=False), noise
    alike = not values.any()
    smallest = None if alike and 1 < seeds < FEWEST else _smallest(result, alike, limits, n)
    return as_estimate(result, n, recipe, drawn)._replace(smallest=smallest), noise


def _smallest(result: Interval, alike: bool, limits: tuple[float, float], n: int) -> float | None:
    """:param alike: whether all values of two answerers are equal, so that no error is seen."""
    smallest = smallest_unseen(n) if alike else smallest_effect(result)
    return None if np.isnan(smallest) or smallest > limits[1] else smallest


def _correlation(result: Interval, x: npt.ArrayLike, recipe: str, sample: Sample) -> Estimate:
    smallest = smallest_effect(result)
    made = as_estimate(result, np.size(x), recipe, sample, ".3f")
    return made._replace(smallest=None if np.isnan(smallest) else smallest)


def against_value(number: Estimate, value: float) -> Estimate:
    """Return number − value with the p value that the quantity is this value.

    See :func:`fathom.results.metrics.uncertainty.against`; undefined where the number has no interval.
    """
    form = f"+{number.form.removeprefix('+')}"
    if number.interval is None:
        return point_estimate(number.note, number.recipe, number.value - value, number.n, form)
    result = against(number.interval, value)
    p_value = None if np.isnan(result.p_value) else result.p_value
    shifted = number._replace(value=result.estimate, low=result.low, high=result.high, form=form)
    return shifted._replace(p_value=p_value, interval=result, smallest=None)


def over_baseline(
    own: Floats,
    baseline: Floats,
    sample: Sample,
    recipe: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
    *,
    fixed: bool,
) -> tuple[float, Estimate]:
    """Return the mean of a baseline, and that of own − baseline, shape (n) each.

    :param limits: of both.
    :param fixed: whether the baseline's values are expected ones, such as those of random guessing: the own mean is
        then tested against their mean. Else they are outcomes of the same facts, and the difference is paired.
    """
    value = float(np.average(baseline, weights=weights))
    if fixed:
        return value, against_value(mean(own, sample, recipe, limits, weights), value)
    width = limits[1] - limits[0]
    return value, difference(own, baseline, sample, recipe, (-width, width), weights=weights)


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
    (:func:`fathom.results.metrics.significance.permutation_test`), which holds for the smallest groups. The standard
    error is the largest of that between units, the deviation over permutations, and the one that a p value below
    :data:`INFORMATIVE` implies.

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
        return point_estimate(NO_BOTH if given.size else NOTHING, recipe)
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
    result = between(signed, sample, (-span, span), weights)
    # A p value near 1 says nothing of the error, nor one that few permutations decide.
    of_p = 0.0
    if RESOLUTION < permuted.p_value < INFORMATIVE:
        of_p = abs(result.estimate) / float(ndtri(1 - permuted.p_value / 2))
    result = widened(result, max(permuted.deviation, of_p), is_bent=False)
    result = result._replace(p_value=max(result.p_value, permuted.p_value))
    return as_estimate(result, len(given), recipe, sample, "+.1%")


def between(
    values: npt.ArrayLike,
    sample: Sample,
    limits: tuple[float, float],
    weights: Floats | None = None,
    fold: Fold | None = None,
) -> Interval:
    """See :mod:`fathom.results.metrics.uncertainty`. :param values: shape (n); with *fold* shape (columns, n)."""
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
    return _correlation(fits.correlate(x, y, sample.clusters, **sample.ways), x, recipe, sample)


def correlation_over_models(x: npt.ArrayLike, y: npt.ArrayLike, recipe: str) -> Estimate:
    """Return Pearson's r of a pair of numbers of each model, without an interval: models, or data sets, were chosen."""
    found = fits.correlate(x, y)
    note = found.note if np.isnan(found.estimate) else OVER_CHOSEN
    return point_estimate(note, recipe, found.estimate, np.size(x))


def correlation_within(x: npt.ArrayLike, y: npt.ArrayLike, groups: Labels, sample: Sample, recipe: str) -> Estimate:
    """Return r of pairs less the means of their groups; see :mod:`fathom.results.metrics.correlation`."""
    return _correlation(fits.correlate_within(x, y, groups, sample.clusters, **sample.ways), x, recipe, sample)


def slope(x: Floats, y: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return the slope of y on x, shape (n) each; see :func:`fathom.results.metrics.correlation.slope`."""
    return as_estimate(fits.slope(x, y, sample.clusters, **sample.ways), np.size(x), recipe, sample)


def intercept(x: Floats, y: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return the height of the line of y on x at x = 0, with interval and p value."""
    return as_estimate(fits.intercept(x, y, sample.clusters, **sample.ways), np.size(x), recipe, sample)


def tetrad(gain: Floats, own: Floats, control: Floats, ease: Floats, sample: Sample, recipe: str) -> Estimate:
    """Return what one latent variable cannot explain; see :func:`fathom.results.metrics.correlation.tetrad`."""
    result = fits.tetrad(gain, own, control, ease, sample.clusters, **sample.ways)
    return as_estimate(result, np.size(gain), recipe, sample)

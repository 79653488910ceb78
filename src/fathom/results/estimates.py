"""The only place where values become numbers: a value, its interval, its sampling unit and its recipe.

Intervals are at 95 %, of the values of facts. :mod:`fathom.results.samples` defines the sampling units.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fathom.results.formats import PERCENT, format_value
from fathom.results.metrics import correlation as fits
from fathom.results.metrics.significance import PERMUTATIONS, permutation_test, smallest_effect, smallest_unseen
from fathom.results.metrics.table import SHARE, Metric
from fathom.results.metrics.uncertainty import FEWEST, Fold, Interval, Labels, against, crossed, interval, widened
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import AND_SEED, Sample

NOTHING = "nothing was scored"
NO_BOTH = "no relation, or other stratum, has facts in both groups"
RESOLUTION = 4 / (PERMUTATIONS + 1)
INFORMATIVE = 0.5
"""P value of permutations from which on it says nothing of the error of a contrast."""
OVER_MODELS = "no interval: a mean over models, which were chosen"
_SIGNED = (-1.0, 1.0)


class Estimate(NamedTuple):
    """A value with its interval, sampling unit, sample size, recipe and display format.

    :param value: NaN if undefined; the note says why.
    :param low: lower end of the 95 % interval; None without one, and the note says why.
    :param clusters: number of independent units: clusters, or values drawn on their own.
    :param note: why to be careful; may be empty.
    :param n: number of predictions (or queries, facts, points).
    :param recipe: how it was computed, see :func:`recipe`.
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
        form = self.form.lstrip("+")
        low, high = (format_value(end, form).removesuffix(PERCENT) for end in (self.low, self.high))
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
    return Estimate(value, None, None, None, why, n, without_sample(recipe), form=form)


def as_estimate(
    result: Interval, n: int, recipe: str, sample: Sample, form: str = "+.3f", *, tested: bool = True, note: str = ""
) -> Estimate:
    """:param tested: whether zero is in question. :param note: precedes the note of the interval."""
    one_cluster = sample.one_cluster and result.low is None
    why = f"all of one {sample.key}, which says nothing of others: no interval" if one_cluster else result.note
    notes = "; ".join(filter(None, (note, why)))
    line = f"{without_sample(recipe)}|cluster:{sample.key}"
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
    recipe = combined(name, [number.recipe for number in numbers], " and ")
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
    values: Floats,
    baseline: Floats,
    sample: Sample,
    recipe: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
    *,
    fixed: bool,
) -> tuple[float, Estimate]:
    """Return the mean of a baseline, and that of values − baseline, shape (n) each.

    :param limits: of both.
    :param fixed: whether the baseline's values are expected ones, such as those of random guessing: the mean of
        *values* is then tested against their mean. Else they are outcomes of the same facts; the difference is paired.
    """
    value = float(np.average(baseline, weights=weights))
    if fixed:
        return value, against_value(mean(values, sample, recipe, limits, weights), value)
    width = limits[1] - limits[0]
    return value, difference(values, baseline, sample, recipe, (-width, width), weights=weights)


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
    numbers, part = np.asarray(values, float), np.asarray(first, bool)
    labels = np.zeros(len(numbers), int) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    count, of_first = np.bincount(labels).astype(float), np.bincount(labels, part)
    both = ((of_first > 0) & (of_first < count))[labels]
    if not both.any():
        return point_estimate(NO_BOTH if numbers.size else NOTHING, recipe)
    numbers, part, labels, sample = numbers[both], part[both], labels[both], sample.only(both)
    # A weighted mean of these is the contrast, and their spread that of either group.
    sums = [np.bincount(labels, side * numbers, len(count)) for side in (part, ~part)]
    sizes = [np.bincount(labels, side, len(count)) for side in (part, ~part)]
    means = [total / np.maximum(size, 1) for total, size in zip(sums, sizes, strict=True)]
    middle, whole = (means[0] + means[1])[labels] / 2, (sizes[0] + sizes[1])[labels]
    signed = 2 * np.where(part, numbers - middle, middle - numbers)
    weights = np.where(part, sizes[1][labels], sizes[0][labels]) / whole
    span = limits[1] - limits[0]
    of_units = np.arange(len(numbers)) if units is None else np.asarray(units)[both]
    permuted = permutation_test(numbers, part.astype(float), labels, of_units)
    result = between(signed, sample, (-span, span), weights)
    # A p value near 1 says nothing of the error, nor one that few permutations decide.
    of_p = 0.0
    if RESOLUTION < permuted.p_value < INFORMATIVE:
        of_p = abs(result.estimate) / float(ndtri(1 - permuted.p_value / 2))
    result = widened(result, max(permuted.deviation, of_p), is_bent=False)
    result = result._replace(p_value=max(result.p_value, permuted.p_value))
    return as_estimate(result, len(numbers), recipe, sample, "+.1%")


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
        return point_estimate("there is none of which this could be a share", recipe)
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
    note = found.note if np.isnan(found.estimate) else "no interval: the models, or data sets, were chosen"
    return point_estimate(note, recipe, found.estimate, np.size(x))


def correlation_within(x: npt.ArrayLike, y: npt.ArrayLike, groups: Labels, sample: Sample, recipe: str) -> Estimate:
    """Return r of pairs less the means of their groups; see :mod:`fathom.results.metrics.correlation`."""
    return _correlation(fits.correlate_within(x, y, groups, sample.clusters, **sample.ways), x, recipe, sample)


# --- recipes: how a number was computed, in one line; only numbers with equal recipes may be compared


MINUS = " − "
_BETWEEN = re.compile(f"(?<=@[0-9a-f]{{16}})(?:{MINUS}| or | then | and )")
"""Signs of :func:`combined` between names with their hashes."""
_PART = re.compile(r"\|(?=[a-z][a-z_ ]*:)")
"""Where a part of a recipe begins: values may have the sign as well, such as "<|endoftext|>"."""


def recipe(rows: Rows, metric: str, scoring: str, templates: Iterable[int] | None = None) -> str:
    """Return the recipe of a metric of one run.

    The data's hash is of the whole data set; the selection follows. The model's hash is of its weights, configuration
    and tokenizer.

    :param templates: by default all of the scoring.
    """
    if templates is None:
        templates = sorted(set(rows.template[rows.of(scoring)].tolist()))
    data, model = rows.identity.get("data", {}), rows.identity.get("model", {})
    resolved = rows.identity.get("resolved", {})
    parts = {
        "data": "@".join(filter(None, (data.get("name"), data.get("content_hash")))),
        **({"candidates": data["pool"]} if "pool" in data else {}),
        "probe": rows.identity.get("probe"),
        "scoring": scoring,
        "templates": ",".join(map(str, templates)),
        "ties": "expected",
        **({"first token": f"{resolved['bos_token']} (EOS, as there is no BOS)"} if resolved.get("bos_is_eos") else {}),
        **({"descriptions": rows.descriptions} if rows.descriptions else {}),
        "model": "@".join(filter(None, (model.get("name"), model.get("content_hash")))),
        "dtype": model.get("dtype"),
        "fathom": rows.identity.get("version"),
        **rows.declared.options,
    }
    return "|".join([metric, *(f"{name}:{value}" for name, value in parts.items())])


def combined(name: str, recipes: Iterable[str], sign: str = MINUS, most: int = 4) -> str:
    """Return the recipe of a number made of several: what they share once, what differs side by side.

    :param name: of the number, in place of the metrics' names.
    :param sign: between values that differ; "−" keeps their order.
    :param most: largest number of different values to list; of more only their number.
    """
    parts = (part.partition(":") for line in dict.fromkeys(recipes) for part in _PART.split(line)[1:])
    lines = []
    for key, values in grouped((key, value) for key, _, value in parts).items():
        different = list(dict.fromkeys(values)) if sign == MINUS else sorted(set(values))
        several = sign.join(different) if len(different) <= most else f"{len(different)} different"
        lines.append(f"{key}:{several}")
    return "|".join([name, *lines])


def named_in(recipe: str, key: str) -> list[str]:
    """Return the names of the models or of the data of a recipe, without folders and hashes.

    :param key: "model" or "data".
    """
    values = [part.removeprefix(f"{key}:") for part in _PART.split(recipe) if part.startswith(f"{key}:")]
    names = [re.sub("@[0-9a-f]+$", "", name) for value in values for name in _BETWEEN.split(value)]
    return sorted({name.rstrip("/").rpartition("/")[2] for name in names})


def without_sample(recipe: str) -> str:
    """Remove the sampling unit of the numbers that a number was made of."""
    return "|".join(part for part in _PART.split(recipe) if not part.startswith("cluster:"))


# --- numbers of the predictions of one run


PARTLY = "predictions have it"
"""End of the note on a baseline that some predictions lack."""


def measure(rows: Rows, metric: Metric, asked: Ints) -> Estimate | None:
    """Return the number of one metric.

    Accuracy is expected Hits@1, or the mean credit of written answers. A number is the mean over templates of each
    template's mean over its scored predictions; if queries have their own sentences, the mean over queries of each
    query's mean over its sentences. F1 is that of mean precision and mean recall. Perplexity is of every prompt whose
    probability was recorded. The interval is that of the values of facts, with their weight in the number.

    :param asked: places of predictions of one scoring, scored or not.
    :returns: None if no prediction has the metric, or if leaving out those that lack it would flatter the others.
    """
    columns = rows.columns(metric)
    places = _known(rows, metric, asked)
    if not len(places):
        return None
    table: Sequence[Floats] = [column[places] for column in columns]
    if metric.prepare is not None:
        table = list(metric.prepare(*table))
    means, weights, queries = _units(rows, metric, places, table)
    sample = rows.sample(queries.tolist())
    if metric.error_folds is not None:
        result = between_folds(means, sample, metric.error_folds, weights, metric.limits)
    else:
        values: npt.ArrayLike = means if metric.fold else means[0]
        result = between(values, sample, metric.limits, weights, metric.fold)
    missing = metric.partial and len(places) < len(asked)
    note = f"of {len(places)} of {len(asked)} {metric.partial}" if missing else ""
    n = len(set(rows.query[places].tolist())) if metric.mean_over == "queries" else len(places)
    line = _recipe_of(rows, metric.name, places)
    return as_estimate(result, n, line, sample, metric.shown, tested=False, note=note)


def against_baseline(
    rows: Rows, metric: Metric, asked: Ints, others: Floats, name: str, *, fixed: bool
) -> tuple[float, Estimate] | None:
    """Return the same number of a baseline's values, and metric − baseline, see :func:`over_baseline`.

    :param others: one per prediction, like the metric's own column.
    :param name: of the baseline, for the recipe.
    :param fixed: whether its values are expected ones, not outcomes.
    :returns: None if the metric, or the baseline of all predictions, is unknown. Predictions without the baseline are
        excluded, with a note.
    """
    with_metric = _known(rows, metric, asked)
    places = with_metric[~np.isnan(others[with_metric])]
    if not len(places):
        return None
    [values] = rows.columns(metric)
    (model_means, baseline_means), weights, queries = _units(rows, metric, places, [values[places], others[places]])
    line = _recipe_of(rows, f"{metric.name}{MINUS}{name}", places)
    sample = rows.sample(queries.tolist())
    value, number = over_baseline(model_means, baseline_means, sample, line, metric.limits, weights, fixed=fixed)
    note = f"{name}: {len(places)} of {len(with_metric)} {PARTLY}" if len(places) < len(with_metric) else ""
    note = "; ".join(filter(None, (number.note, note)))
    return value, number._replace(n=len(places), note=note, form=f"+{metric.shown}")


def _known(rows: Rows, metric: Metric, asked: Ints) -> Ints:
    """Return the places of the predictions that have a metric; none if leaving out the others would flatter."""
    has_value = np.logical_and.reduce([~np.isnan(column[asked]) for column in rows.columns(metric)])
    if metric.partial is None:
        has_value &= rows.scored[asked]
        if not np.array_equal(has_value, rows.scored[asked]):
            return asked[:0]
    return asked[has_value]


def _recipe_of(rows: Rows, name: str, places: Ints) -> str:
    return recipe(rows, name, rows.scoring[int(places[0])], sorted(set(rows.template[places].tolist())))


def _units(rows: Rows, metric: Metric, places: Ints, columns: Sequence[Floats]) -> tuple[list[Floats], Floats, Ints]:
    """Average by fact, or by query if these were drawn by themselves.

    :param columns: values at *places*.
    :returns: a mean per unit for each column, the weight of each unit in the number, and its first query.
    """
    firsts, unit = np.unique(rows.unit[rows.query[places]], return_inverse=True)
    weight = np.ones(len(places))
    if metric.mean_over != "predictions":
        alike = rows.query if rows.natural or metric.mean_over == "queries" else rows.template
        _, number, count = np.unique(alike[places], return_inverse=True, return_counts=True)
        weight = 1.0 / count[number]
    weights = np.bincount(unit, weight).astype(float)
    return [np.bincount(unit, weight * values) / weights for values in columns], weights, firsts

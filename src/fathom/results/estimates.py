"""The one place where predictions become numbers: a value, its interval, what it is of, and how it was made.

Conventions. Accuracy is expected Hits@1, or the mean credit where answers are written; a number is the mean over
templates of each template's mean over its scored predictions; where queries have sentences of their own, the mean over
queries of each query's mean over its sentences. F1 is that of mean precision and mean recall.
Perplexity is of every prompt whose probability was recorded: the mean over prompts, and that of all their tokens.
Unscored predictions are left out of every mean and counted beside it.
Intervals are at 95 %, of the values of facts, each averaged over its predictions (with the weight that these have in
the number, so that the interval is around exactly that number). What they take the number for a sample of is said by
:mod:`fathom.results.samples`, in every recipe and below every table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from fathom.metrics.correlation import correlate
from fathom.metrics.correlation import intercept as fitted_intercept
from fathom.metrics.correlation import slope as fitted_slope
from fathom.metrics.correlation import tetrad as vanishing_tetrad
from fathom.metrics.significance import PERMUTATIONS, permutation_test, smallest_difference, smallest_unseen
from fathom.metrics.table import SHARE, Metric
from fathom.metrics.uncertainty import (
    CONFIDENCE,
    Fold,
    Interval,
    Labels,
    at_confidence,
    crossed,
    interval,
    of_spread,
)
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import AND_SEED, Sample

NOTHING = "nothing was scored"
RESOLUTION = 4 / (PERMUTATIONS + 1)
NOTHING_OF_IT = "there is none of which this could be a share"
MINUS = " − "
OVER_MODELS = "no interval: a mean over models, which were chosen"


class Estimate(NamedTuple):
    """A value with what it needs to be read.

    :param value: NaN where there is nothing to tell; the note says why.
    :param low: of the 95 % interval; None where there is none, and the note says why.
    :param clusters: how many units were drawn: clusters, or values that were drawn for themselves.
    :param note: why to be careful; empty where there is no reason.
    :param n: how many predictions (or queries, facts, points) it is of.
    :param recipe: how it was made, see :func:`recipe`.
    :param p_value: two-sided, that a difference or a correlation is zero; None of other numbers, and where it cannot be
        told.
    :param sample: what was drawn, see :class:`fathom.results.samples.Sample`; "" where there is no interval.
    :param smallest: of a difference: the one that these values would have shown in four of five cases, see
        :func:`fathom.metrics.significance.smallest_difference`; None of other numbers, and where it cannot be told.
    :param interval: from which intervals of other confidence are made; not for JSON.
    :param form: how a reader sees it: a share ".1%", a signed difference "+.1%"; not for JSON.
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
    """What a number over several seeds is unsure by: standard errors, whose squares add up to that of its interval.

    :param seeds: how many trainings, alike but for their seed, it is the mean of.
    :param facts: by the facts, with what facts and seeds do together; None where that cannot be told.
    :param training: by the seeds alone; likewise.
    """

    seeds: int
    facts: float | None = None
    training: float | None = None


def untold(why: str, recipe_: str = "", value: float = float("nan"), n: int = 0, form: str = ".3f") -> Estimate:
    """Return a number without an interval. :param why: the reason."""
    return Estimate(value, None, None, None, why, n, _undrawn(recipe_), form=form)


def _undrawn(recipe_: str) -> str:
    """Without the sample of the numbers that a number was made of."""
    return "|".join(part for part in recipe_.split("|") if not part.startswith("cluster:"))


# --- of the predictions of one run


def measure(rows: Rows, metric: Metric, asked: Ints) -> Estimate | None:
    """The number of one metric.

    :param asked: places of predictions of one scoring, scored or not.
    :returns: None where there is nothing to tell it of, or one that cannot tell it would flatter the others: a stopped
        search has no rank.
    """
    columns = rows.columns(metric)
    places = _told(rows, metric, asked)
    if not len(places):
        return None
    line = _recipe_of(rows, metric.name, places)
    chosen: Sequence[Floats] = [column[places] for column in columns]
    if metric.prepare is not None:
        chosen = list(metric.prepare(*chosen))
    means, weights, queries = _units(rows, metric, places, chosen)
    sample = rows.sample(queries.tolist())
    if metric.error_folds is not None:
        found = between_folds(means, sample, metric.error_folds, weights, metric.limits)
    else:
        values: npt.ArrayLike = means if metric.fold else means[0]
        found = _between(values, sample, metric.limits, weights, metric.fold)
    missing = metric.partial and len(places) < len(asked)
    note = f"of {len(places)} of {len(asked)} {metric.partial}" if missing else ""
    n = len(set(rows.query[places].tolist())) if metric.mean_over == "queries" else len(places)
    return number_of(found, n, line, sample, note).shown(metric.shown)


def against(rows: Rows, metric: Metric, asked: Ints, others: Floats, name: str) -> tuple[float, Estimate] | None:
    """The same number of other values, such as a baseline's, and metric − other, see :func:`beyond`.

    :param others: of all predictions, as the metric's own column.
    :param name: of the others, for the recipe.
    :returns: None where the metric, or the baseline of all predictions, is not known. Of predictions that lack the
        baseline alone, the difference is of the others, and its note says so.
    """
    told = _told(rows, metric, asked)
    places = told[~np.isnan(others[told])]
    if not len(places):
        return None
    [values] = rows.columns(metric)
    (own, other), weights, queries = _units(rows, metric, places, [values[places], others[places]])
    line = _recipe_of(rows, f"{metric.name}{MINUS}{name}", places)
    value, number = beyond(own, other, rows.sample(queries.tolist()), line, metric.limits, weights)
    note = f"{name}: {len(places)} of {len(told)} predictions have it" if len(places) < len(told) else ""
    note = "; ".join(filter(None, (number.note, note)))
    return value, number._replace(n=len(places), note=note, form=f"+{metric.shown}")


def _told(rows: Rows, metric: Metric, asked: Ints) -> Ints:
    """Places of the predictions that tell a metric; none where it would flatter to leave the others out."""
    told = np.logical_and.reduce([~np.isnan(column[asked]) for column in rows.columns(metric)])
    if metric.partial is None:
        told &= rows.scored[asked]
        if not np.array_equal(told, rows.scored[asked]):
            return asked[:0]
    return asked[told]


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


# --- of values that a study has made


def mean(
    values: npt.ArrayLike,
    sample: Sample,
    recipe_: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
    form: str = ".1%",
) -> Estimate:
    """Return the mean of values, shape (n), with its interval; undefined where there are none.

    :param sample: how they were drawn.
    :param form: how readers see it.
    """
    if not np.size(values):
        return untold(NOTHING, recipe_, form=form)
    return number_of(_between(values, sample, limits, weights), np.size(values), recipe_, sample).shown(form)


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    sample: Sample,
    recipe_: str,
    limits: tuple[float, float] = (-1.0, 1.0),
    form: str = "+.1%",
) -> Estimate:
    """Return the mean of first − second, paired, shape (n) each, with interval and p value; undefined where there are
    none. :param form: how readers see it."""
    if not np.size(first):
        return untold(NOTHING, recipe_, form=form)
    found = _between(np.subtract(first, second), sample, limits)
    alike = np.array_equal(first, second) and bool(np.isin(first, (0, 1)).all())
    smallest = _smallest(found, alike, limits, np.size(first))
    return _tested(found, np.size(first), recipe_, sample)._replace(smallest=smallest, form=form)


def over_seeds(
    values: Floats, sample: Sample, recipe_: str, limits: tuple[float, float] = SHARE, tested: bool = False
) -> tuple[Estimate, Noise]:
    """Mean of the values of facts by each of several seeds, for other facts and other seeds, and what it is unsure by.

    :param values: [seeds, n], n above zero.
    :param sample: how the facts were drawn, each on its own or in clusters.
    :param tested: whether zero is a question, as of a difference.
    """
    seeds, n = values.shape
    found = crossed(values, sample.clusters, within=sample.within, also=sample.also, limits=limits)
    drawn = sample if seeds == 1 else sample._replace(key=f"{sample.key}{AND_SEED}")
    noise = Noise(seeds)
    if not np.isnan(found.error + found.seed_error):
        noise = Noise(seeds, float(np.sqrt(max(found.error**2 - found.seed_error**2, 0.0))), found.seed_error)
    if not tested:
        return number_of(found, n, recipe_, drawn), noise
    smallest = _smallest(found, not values.any(), limits, n)
    return _tested(found, n, recipe_, drawn)._replace(smallest=smallest, form="+.3f"), noise


def _smallest(found: Interval, alike: bool, limits: tuple[float, float], n: int) -> float | None:
    """:param alike: whether no value of two answerers differs, so that no error is seen."""
    smallest = smallest_unseen(n) if alike else smallest_difference(found.error, found.degrees)
    return None if np.isnan(smallest) or smallest > limits[1] else smallest


def beyond(
    own: Floats,
    other: Floats,
    sample: Sample,
    recipe_: str,
    limits: tuple[float, float] = SHARE,
    weights: Floats | None = None,
) -> tuple[float, Estimate]:
    """Mean of *other*, such as a baseline's, and own − other, paired, [n] each, with interval and p value.

    The other's mean being what it is, the difference goes no further than *limits*, those of both. Where the own values
    are all alike, it does not show what they may be elsewhere: its interval and p value are then theirs, moved.
    """
    value = float(np.average(other, weights=weights))
    if np.ptp(own) < 1e-12:
        found = _shifted(_between(own, sample, limits, weights), -value, limits)
    else:
        found = _between(own - other, sample, (limits[0] - value, limits[1] - value), weights)
    return value, _tested(found, np.size(own), recipe_, sample).shown("+.1%")


def contrast(
    values: npt.ArrayLike,
    first: npt.ArrayLike,
    sample: Sample,
    recipe_: str,
    strata: Sequence[str] | None = None,
    limits: tuple[float, float] = SHARE,
    units: Labels | None = None,
) -> Estimate:
    """Return the mean of the *first* group − mean of the others, compared within strata, with interval and p value.

    Strata count with n₁n₀ / (n₁ + n₀) (Mantel and Haenszel 1959); one that has a single group says nothing. The p value
    is the larger of that of the interval, which sees how units or relations cluster, and that of a permutation of units
    (:func:`fathom.metrics.significance.permutation_test`), which holds for the smallest groups. The interval is widened
    to agree with it.

    :param values: shape (n).
    :param first: whether each is of the first group, shape (n).
    :param strata: label of each, shape (n); None: all are of one.
    :param limits: of the values.
    :param units: label of each, shape (n), that changes groups as a whole; None: each value by itself.
    :returns: undefined where no stratum has both groups.
    """
    given, part = np.asarray(values, float), np.asarray(first, bool)
    labels = np.zeros(len(given), int) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    count, of_first = np.bincount(labels).astype(float), np.bincount(labels, part)
    both = ((of_first > 0) & (of_first < count))[labels]
    if not both.any():
        return untold(NOTHING, recipe_)
    given, part, labels, sample = given[both], part[both], labels[both], sample.only(both)
    # A weighted mean of these is the contrast, and their spread that of either group.
    sums = [np.bincount(labels, own * given, len(count)) for own in (part, ~part)]
    sizes = [np.bincount(labels, own, len(count)) for own in (part, ~part)]
    means = [total / np.maximum(size, 1) for total, size in zip(sums, sizes, strict=True)]
    middle, whole = (means[0] + means[1])[labels] / 2, (sizes[0] + sizes[1])[labels]
    signed = 2 * np.where(part, given - middle, middle - given)
    weights = np.where(part, sizes[1][labels], sizes[0][labels]) / whole
    span = limits[1] - limits[0]
    found = _between(signed, sample, (-span, span), weights)
    own_units = np.arange(len(given)) if units is None else np.asarray(units)[both]
    permuted = permutation_test(given, part.astype(float), labels, own_units)
    return _tested(_widened(found, permuted, span), len(given), recipe_, sample).shown("+.1%")


def _widened(found: Interval, p_value: float, span: float) -> Interval:
    """Return the interval of the larger p value: as many standard errors around the estimate as that is away from 0."""
    if np.isnan(found.p_value) or found.p_value >= p_value or found.spread is None:
        return found
    if p_value <= RESOLUTION:  # so few permutations differ as much that their number says nothing of the error
        return found._replace(p_value=p_value)
    error = max(abs(found.estimate) / max(float(ndtri(1 - p_value / 2)), 1e-6), float(np.sqrt(found.spread.variance)))
    p_value = max(p_value, float(2 * ndtr(-abs(found.estimate) / error)))
    spread = found.spread._replace(variance=error**2, degrees=np.inf)
    wider = found._replace(spread=spread, limits=(-np.inf, np.inf), p_value=p_value, error=error, degrees=np.inf)
    low, high = at_confidence(wider, CONFIDENCE)
    ends = (None if end is None else float(np.clip(end, -span, span)) for end in (low, high))
    return wider._replace(low=next(ends), high=next(ends))


def _shifted(found: Interval, by: float, limits: tuple[float, float]) -> Interval:
    """Move an interval of equal values, and give it the p value that belongs to it: it reaches 0 where the share
    z² / (n + z²) of others, all at the nearer limit, makes up for the estimate."""
    low, high = (None if end is None else end + by for end in (found.low, found.high))
    spread = found.spread and found.spread._replace(estimate=found.spread.estimate + by)
    ends = (found.limits[0] + by, found.limits[1] + by)
    moved = found._replace(estimate=found.estimate + by, low=low, high=high, p_value=np.nan, spread=spread, limits=ends)
    if found.spread is None or abs(moved.estimate) < 1e-12:
        return moved._replace(p_value=1.0 if abs(moved.estimate) < 1e-12 and low is not None else np.nan)
    reach = found.estimate - (limits[0] if moved.estimate > 0 else limits[1])
    share = moved.estimate / reach if reach else 1.0
    z = np.sqrt(found.spread.effective * share / (1 - share)) if share < 1 else np.inf
    return moved._replace(p_value=float(2 * ndtr(-z)))


def _between(
    values: npt.ArrayLike,
    sample: Sample,
    limits: tuple[float, float],
    weights: Floats | None = None,
    fold: Fold | None = None,
) -> Interval:
    """See :func:`fathom.metrics.uncertainty.interval`."""
    if sample.within is not None and sample.clusters is not None:
        values, weights, sample = _each_once(np.asarray(values, float), weights, sample)
    ways = {"within": sample.within, "also": sample.also}
    return interval(values, sample.clusters, **ways, weights=weights, limits=limits, fold=fold)


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
    errors = np.nan_to_num([_between(mean, sample, unlimited, weights).error for mean in means])
    upper, lower = (_between(means, sample, unlimited, weights, partial(fold, errors=errors)) for fold in folds)
    if upper.low is None or lower.low is None:
        return upper._replace(estimate=float(np.clip(upper.estimate, *limits)), low=None, high=None, spread=None)
    value, low, high = np.clip([upper.estimate, min(lower.low, upper.low), upper.high], *limits).tolist()
    return upper._replace(estimate=value, low=low, high=high, p_value=np.nan, spread=None, limits=limits)


def _each_once(values: Floats, weights: Floats | None, sample: Sample) -> tuple[Floats, Floats, Sample]:
    """The mean of each cluster that was drawn within a group, with its weight: one value, drawn for itself."""
    _, first, cluster = np.unique(np.asarray(sample.clusters), return_index=True, return_inverse=True)
    each = np.ones(len(values)) if weights is None else weights
    below = np.bincount(cluster, each).astype(float)
    groups = np.asarray(sample.within)[first]
    return np.bincount(cluster, each * values) / below, below, Sample(sample.key, None, groups)


def ratio(part: Floats, whole: Floats, sample: Sample, recipe_: str) -> Estimate:
    """Mean of *part* / mean of *whole*, [n] each, no part greater than its whole, with its interval; untold where the
    whole is nothing."""
    there = whole > 0
    if not there.any():
        return untold(NOTHING_OF_IT, recipe_)
    # As a weighted mean, so that what has no whole is no unit that could speak for others.
    drawn, weights = sample.only(there), whole[there]
    found = _between(part[there] / weights, drawn, SHARE, weights)
    return number_of(found, int(there.sum()), recipe_, drawn).shown(".1%")


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, sample: Sample, recipe_: str) -> Estimate:
    """Pearson's r of pairs, [n] each, with the interval of Fisher's z and p value; NaN where one side does not vary."""
    found = correlate(x, y, sample.clusters, within=sample.within, also=sample.also)
    return _tested(found, np.size(x), recipe_, sample)


def slope(x: Floats, y: Floats, sample: Sample, recipe_: str) -> Estimate:
    """Slope of y on x, [n] each, with interval and p value; see :func:`fathom.metrics.correlation.slope`."""
    found = fitted_slope(x, y, sample.clusters, within=sample.within, also=sample.also)
    return _tested(found, np.size(x), recipe_, sample).shown("+.3f")


def tetrad(gain: Floats, own: Floats, control: Floats, ease: Floats, sample: Sample, recipe_: str) -> Estimate:
    """Return what one latent variable cannot explain; see :func:`fathom.metrics.correlation.tetrad`."""
    ways = {"within": sample.within, "also": sample.also}
    found = vanishing_tetrad(gain, own, control, ease, sample.clusters, **ways)
    return _tested(found, np.size(gain), recipe_, sample).shown("+.3f")


def intercept(x: Floats, y: Floats, sample: Sample, recipe_: str) -> Estimate:
    """What the line of y on x says where x is 0, with interval and p value."""
    found = fitted_intercept(x, y, sample.clusters, within=sample.within, also=sample.also)
    return _tested(found, np.size(x), recipe_, sample).shown("+.3f")


def number_of(found: Interval, n: int, recipe_: str, sample: Sample, first_note: str = "") -> Estimate:
    """Return the estimate of an interval. :param first_note: precedes the note of the interval."""
    own = found.note
    if sample.one_cluster and found.low is None:
        own = f"all of one {sample.key}, which says nothing of others: no interval"
    notes = "; ".join(filter(None, (first_note, own)))
    made = f"{_undrawn(recipe_)}|cluster:{sample.key}"
    return Estimate(
        found.estimate, found.low, found.high, found.units, notes, n, made, None, sample.key, interval=found
    )


def below(number: Estimate, bound: float) -> Estimate:
    """Return bound − number, tested against zero: whether a number is smaller than a bound."""
    found = number.interval
    if found is None or found.spread is None or found.low is None or found.high is None:
        return untold(number.note, number.recipe)
    limits = (-found.limits[1], -found.limits[0])
    spread = found.spread._replace(estimate=-found.estimate)
    if found.spread.variance > 0:
        made = of_spread(spread._replace(estimate=bound - found.estimate))
    else:
        turned = found._replace(estimate=-found.estimate, low=-found.high, high=-found.low, spread=spread)
        made = _shifted(turned, bound, limits)
    p_value = None if np.isnan(made.p_value) else made.p_value
    return number._replace(
        value=made.estimate, low=made.low, high=made.high, p_value=p_value, interval=made, smallest=None
    )


def _tested(found: Interval, n: int, recipe_: str, sample: Sample) -> Estimate:
    p_value = None if np.isnan(found.p_value) else found.p_value
    return number_of(found, n, recipe_, sample)._replace(p_value=p_value)


# --- recipes


def recipe(rows: Rows, metric: str, scoring: str, templates: Iterable[int] | None = None) -> str:
    """How a number was made, in one line: what must agree before two numbers may be compared.

    The data's hash is of the whole data set; what was selected from it stands behind. The model's hash is of its
    weights, configuration and tokenizer.

    :param templates: by default all by which the scoring was asked.
    """
    if templates is None:
        templates = sorted(set(rows.template[rows.of(scoring)].tolist()))
    data, model = rows.identity.get("data", {}), rows.identity.get("model", {})
    parts = {
        "data": f"{data.get('name')}@{data.get('content_hash')}",
        **({"candidates": data["pool"]} if "pool" in data else {}),
        "probe": rows.identity.get("probe"),
        "scoring": scoring,
        "templates": ",".join(map(str, templates)),
        "ties": "expected",
        "model": f"{model.get('name')}@{model.get('content_hash')}",
        "dtype": model.get("dtype"),
        "fathom": rows.identity.get("version"),
        **rows.declared.said,
    }
    return "|".join([metric, *(f"{name}:{value}" for name, value in parts.items())])


def combined(name: str, recipes: Iterable[str], sign: str = MINUS, most: int = 4) -> str:
    """The recipe of a number made of several: what they share once, what differs side by side.

    :param name: of the number, in place of the metrics' names.
    :param sign: what stands between values that differ; "−" keeps their order.
    :param most: of more different values only the count is said.
    """
    parts = (part.partition(":") for line in dict.fromkeys(recipes) for part in line.split("|")[1:])
    told = []
    for key, values in grouped((key, value) for key, _, value in parts).items():
        different = list(dict.fromkeys(values)) if sign == MINUS else sorted(set(values))
        several = sign.join(different) if len(different) <= most else f"{len(different)} different"
        told.append(f"{key}:{several}")
    return "|".join([name, *told])

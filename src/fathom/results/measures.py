"""Numbers of the predictions of one run.

Accuracy is expected Hits@1, or the mean credit of written answers. A number is the mean over templates of each
template's mean over its scored predictions; if queries have their own sentences, the mean over queries of each query's
mean over its sentences. F1 is that of mean precision and mean recall. Perplexity is of every prompt whose probability
was recorded: the mean over prompts, and that of all their tokens. Unscored predictions are excluded and counted.

Intervals are those of the values of facts, each averaged over its predictions with their weight in the number, so that
the interval is around exactly that number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fathom.results import recipes
from fathom.results.estimates import Estimate, as_estimate, between, between_folds, over_baseline
from fathom.results.metrics.table import Metric
from fathom.results.recipes import MINUS
from fathom.results.rows import Floats, Ints, Rows

PARTLY = "predictions have it"
"""End of the note on a baseline that some predictions lack."""


def measure(rows: Rows, metric: Metric, asked: Ints) -> Estimate | None:
    """Return the number of one metric.

    :param asked: places of predictions of one scoring, scored or not.
    :returns: None if no prediction has the metric, or if leaving out those that lack it would flatter the others.
    """
    columns = rows.columns(metric)
    places = _known(rows, metric, asked)
    if not len(places):
        return None
    chosen: Sequence[Floats] = [column[places] for column in columns]
    if metric.prepare is not None:
        chosen = list(metric.prepare(*chosen))
    means, weights, queries = _units(rows, metric, places, chosen)
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


def against(
    rows: Rows, metric: Metric, asked: Ints, others: Floats, name: str, *, fixed: bool
) -> tuple[float, Estimate] | None:
    """Return the same number of a baseline's values, and metric − baseline, see :func:`over_baseline`.

    :param others: one per prediction, like the metric's own column.
    :param name: of the baseline, for the recipe.
    :param fixed: whether its values are expected ones, not outcomes.
    :returns: None if the metric, or the baseline of all predictions, is unknown. Predictions without the baseline are
        excluded, with a note.
    """
    known = _known(rows, metric, asked)
    places = known[~np.isnan(others[known])]
    if not len(places):
        return None
    [values] = rows.columns(metric)
    (own, other), weights, queries = _units(rows, metric, places, [values[places], others[places]])
    line = _recipe_of(rows, f"{metric.name}{MINUS}{name}", places)
    sample = rows.sample(queries.tolist())
    value, number = over_baseline(own, other, sample, line, metric.limits, weights, fixed=fixed)
    note = f"{name}: {len(places)} of {len(known)} {PARTLY}" if len(places) < len(known) else ""
    note = "; ".join(filter(None, (number.note, note)))
    return value, number._replace(n=len(places), note=note, form=f"+{metric.shown}")


def _known(rows: Rows, metric: Metric, asked: Ints) -> Ints:
    """Return the places of the predictions that have a metric; none if leaving out the others would flatter."""
    known = np.logical_and.reduce([~np.isnan(column[asked]) for column in rows.columns(metric)])
    if metric.partial is None:
        known &= rows.scored[asked]
        if not np.array_equal(known, rows.scored[asked]):
            return asked[:0]
    return asked[known]


def _recipe_of(rows: Rows, name: str, places: Ints) -> str:
    return recipes.recipe(rows, name, rows.scoring[int(places[0])], sorted(set(rows.template[places].tolist())))


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

"""Estimates of how well scores separate positives from negatives, such as right from wrong or planted from withheld.

A claim needs the signed estimates, :func:`above_chance` and :func:`auroc_difference`; :func:`auroc` is for tables.
"""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from fathom.results import estimates
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.metrics.discrimination import Floats, Mask, auroc_components
from fathom.results.metrics.uncertainty import ENOUGH
from fathom.results.samples import Sample

CHANCE = 0.5
ONE_CLASS = "no AUROC: all are of one class"
_ABOVE = (-CHANCE, CHANCE)
_FEWEST = 2


def auroc(
    scores: npt.ArrayLike, positive: npt.ArrayLike, sample: Sample, recipe: str, *, designed: bool = False
) -> Estimate:
    """Return the AUROC with its interval, and the p value that it is 0.5.

    :param scores: shape (n), no NaN.
    :param positive: whether each is positive, shape (n).
    :param sample: how the n were drawn.
    :param designed: whether the classes were fixed beforehand, as planted and withheld facts are. The right answers of
        a model are not: how many of a relation are right is then part of the uncertainty.
    :returns: undefined if all are of one class; without an interval if a class has one unit.
    """
    above = above_chance(scores, positive, sample, recipe, designed=designed)
    low, high = (None if end is None else end + CHANCE for end in (above.low, above.high))
    return above._replace(value=above.value + CHANCE, low=low, high=high, smallest=None, interval=None, form=".3f")


def above_chance(
    scores: npt.ArrayLike, positive: npt.ArrayLike, sample: Sample, recipe: str, *, designed: bool = False
) -> Estimate:
    """Return AUROC − 0.5, tested against 0; parameters as for :func:`auroc`."""
    is_positive = np.asarray(positive, bool)
    if is_positive.all() or not is_positive.any():
        return point_estimate(ONE_CLASS, recipe)
    values, weights = auroc_components(scores, is_positive)
    return _difference(values, np.full(len(values), CHANCE), weights, is_positive, sample, recipe, designed, _ABOVE)


def auroc_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    positive: npt.ArrayLike,
    sample: Sample,
    recipe: str,
    *,
    designed: bool = False,
) -> Estimate:
    """Return the AUROC of the first scores − that of the second, paired, tested against 0.

    :param first: scores of the same n as *second*; other parameters as for :func:`auroc`.
    """
    is_positive = np.asarray(positive, bool)
    if is_positive.all() or not is_positive.any():
        return point_estimate(ONE_CLASS, recipe)
    (own, weights), (other, _) = (auroc_components(scores, is_positive) for scores in (first, second))
    return _difference(own, other, weights, is_positive, sample, recipe, designed, (-1.0, 1.0))


def _difference(
    first: Floats,
    second: Floats,
    weights: Floats,
    positive: Mask,
    sample: Sample,
    recipe: str,
    designed: bool,
    limits: tuple[float, float],
) -> Estimate:
    """Return the weighted mean of first − second, with a note on small classes."""
    units = np.arange(len(positive)) if sample.clusters is None else np.asarray(sample.clusters)
    counts = {name: len(np.unique(units[own])) for name, own in (("positive", positive), ("negative", ~positive))}
    smaller = min(counts, key=counts.__getitem__)
    few = f"only {counts[smaller]} {smaller}s"
    if sample.clusters is not None:  # "fact within relation", "relation and subject"
        few = f"{smaller}s in only {counts[smaller]} {sample.key.split()[0]}s"
    if counts[smaller] < _FEWEST:
        value = float(np.average(first - second, weights=weights))
        return point_estimate(f"{few}: no interval", recipe, value, len(first), "+.3f")
    how = _by_class(sample, positive, designed)
    number = estimates.difference(first, second, how, recipe, limits, "+.3f", weights)
    if np.ptp(first - second) < 1e-12 and number.value and number.p_value is not None:  # all are separated
        number = number._replace(p_value=max(number.p_value, min(1.0, 2 / comb(sum(counts.values()), counts[smaller]))))
    if counts[smaller] < ENOUGH and "rough" not in number.note:
        number = number._replace(note="; ".join(filter(None, (f"{few}: the interval is rough", number.note))))
    return number._replace(sample=sample.key)


def _by_class(sample: Sample, positive: Mask, designed: bool) -> Sample:
    """Return a sample in which the classes are fixed groups, if they were designed or there are no other groups."""
    if sample.clusters is not None or (sample.within is not None and not designed):
        return sample
    groups = np.zeros(len(positive), int)
    if sample.within is not None:
        groups = np.unique(np.asarray(sample.within), return_inverse=True)[1]
    return sample._replace(within=2 * groups + positive)

"""Estimates of how well scores separate positives from negatives, such as right from wrong or planted from withheld.

A claim needs the signed estimates, :func:`above_chance` and :func:`auroc_difference`; :func:`auroc` is for tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.results import estimates
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.metrics.uncertainty import ENOUGH
from fathom.results.samples import Sample

CHANCE = 0.5
ONE_CLASS = "no AUROC: all are of one class"
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
    return _difference(
        values, np.full(len(values), CHANCE), weights, is_positive, sample, recipe, designed, (-CHANCE, CHANCE)
    )


def auroc_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    positive: npt.ArrayLike,
    sample: Sample,
    recipe: str,
) -> Estimate:
    """Return the AUROC of the first scores − that of the second, of designed classes, paired, tested against 0.

    :param first: scores of the same n as *second*; other parameters as for :func:`auroc`.
    """
    is_positive = np.asarray(positive, bool)
    if is_positive.all() or not is_positive.any():
        return point_estimate(ONE_CLASS, recipe)
    (of_first, weights), (of_second, _) = (auroc_components(scores, is_positive) for scores in (first, second))
    return _difference(of_first, of_second, weights, is_positive, sample, recipe, True, (-1.0, 1.0))


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
    counts = {name: len(np.unique(units[mask])) for name, mask in (("positive", positive), ("negative", ~positive))}
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


# --- areas under the ROC curve


Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Components(NamedTuple):
    """Values with weights whose weighted mean is the AUROC, and whose spread is that of its estimate, shape (n) each.

    An observation's value is 2V − AUROC. V is its structural component: the share of the other class that it is on the
    right side of, ties as half. A positive weighs 1 / positives, a negative 1 / negatives. So the jackknife of the
    weighted mean has the variance of DeLong et al. (1988), and by cluster that of Obuchowski (1997).
    """

    values: Floats
    weights: Floats


def placements(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Floats:
    """Return the structural component of each observation: the share of the other class on its right side, shape (n).

    For a positive this is the share of negatives below it, for a negative the share of positives above it; a tie counts
    half. The mean of either class is the AUROC.

    :param scores: shape (n); −inf and inf are allowed.
    :param positive: whether each is positive, shape (n).
    :raises ValueError: NaN, unequal lengths, or a class without observations.
    """
    values, is_positive = np.asarray(scores, float), np.asarray(positive, bool)
    if values.shape != is_positive.shape or values.ndim != 1:
        raise ValueError(f"{values.size} scores, but {is_positive.size} labels")
    if np.isnan(values).any():
        raise ValueError("the scores hold NaN; exclude unscored items first")
    if is_positive.all() or not is_positive.any():
        raise ValueError("an AUROC needs positives and negatives")
    shares = np.empty(len(values))
    shares[is_positive] = _share_below(values[is_positive], np.sort(values[~is_positive]))
    shares[~is_positive] = 1 - _share_below(values[~is_positive], np.sort(values[is_positive]))
    return shares


def _share_below(values: Floats, others: Floats) -> Floats:
    """:param others: sorted."""
    return (np.searchsorted(others, values, "left") + np.searchsorted(others, values, "right")) / (2 * len(others))


def auroc_components(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Components:
    """Return the AUROC as a weighted mean over observations."""
    shares, is_positive = placements(scores, positive), np.asarray(positive, bool)
    weights = np.where(is_positive, 1 / is_positive.sum(), 1 / (~is_positive).sum())
    return Components(2 * shares - shares[is_positive].mean(), weights)


def midranks(values: npt.ArrayLike, groups: Sequence[str]) -> Floats:
    """Return each value's place among those of its group, from 0 to 1, ties in the middle, shape (n).

    Their AUROC is 0.5 if scores separate groups alone.
    """
    array, group = np.asarray(values, float), np.unique(np.asarray(groups), return_inverse=True)[1]
    ranks = np.empty(len(array))
    for number in range(int(group.max(initial=-1)) + 1):
        of_group = array[group == number]
        ranks[group == number] = _share_below(of_group, np.sort(of_group))
    return ranks

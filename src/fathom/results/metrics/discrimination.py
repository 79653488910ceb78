"""How well scores separate positives from negatives: the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    given, group = np.asarray(values, float), np.unique(np.asarray(groups), return_inverse=True)[1]
    ranks = np.empty(len(given))
    for number in range(int(group.max(initial=-1)) + 1):
        own = given[group == number]
        ranks[group == number] = _share_below(own, np.sort(own))
    return ranks

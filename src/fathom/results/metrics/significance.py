"""Tests next to the intervals: permutation of groups, Holm's correction, and the smallest detectable difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from fathom.results.metrics.uncertainty import Floats, Interval, Labels, find_root

POWER = 0.8
"""Share of cases in which the smallest difference is significant, by convention (Cohen 1988)."""
LEVEL = 0.05
_AS_NORMAL = 1e4  # degrees of freedom from which Student's distribution is the normal one
PERMUTATIONS = 1999


class PermutedDifference(NamedTuple):
    """The stratified difference of two groups among its permutations.

    :param p_value: two-sided. :param deviation: standard deviation of the difference over the permutations.
    """

    p_value: float
    deviation: float


def permutation_test(values: Floats, first: Floats, strata: Labels, units: Labels, seed: int = 0) -> PermutedDifference:
    """Test whether two groups have equal means within strata, by permuting units.

    Whole units, such as subjects, change groups, and only with units that occur in the same strata equally often. So
    the test is exact for any number of values per group if a unit's group does not depend on its values. The statistic
    is the stratified difference of Mantel and Haenszel (1959); the observed groups count as one of the permutations
    (Phipson and Smyth 2010).

    :param values: shape (n).
    :param first: 1 for values of the first group, 0 for the second, shape (n); equal within a unit.
    :param strata: label of each value, shape (n).
    :param units: label of each value, shape (n).
    """
    stratum, unit = (np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1) for labels in (strata, units))
    _, one_of = np.unique(unit, return_index=True)
    occurrences = np.zeros((len(one_of), stratum.max() + 1), dtype=np.int64)
    np.add.at(occurrences, (unit, stratum), 1)
    block = np.unique(occurrences, axis=0, return_inverse=True)[1].reshape(-1)
    in_blocks, groups = np.argsort(block, kind="stable"), np.asarray(first, float)[one_of]
    random = np.random.default_rng(seed)
    orders = np.argsort(random.random((PERMUTATIONS, len(one_of))) + block, axis=1)
    permuted = np.empty((PERMUTATIONS + 1, len(one_of)))
    permuted[0] = groups
    permuted[1:, in_blocks] = groups[orders]
    # Sums by stratum of each unit; the strata's sizes do not change, so these tell the statistic of each permutation.
    count = np.bincount(stratum).astype(float)
    centred = values - (np.bincount(stratum, values) / count)[stratum]
    in_first = permuted @ occurrences
    weight = (in_first * (count - in_first) / count).sum(axis=1)
    statistic = permuted @ np.bincount(unit, centred) / np.maximum(weight, 1e-12)
    as_extreme = np.abs(statistic) >= abs(statistic[0]) - 1e-9
    return PermutedDifference(float(np.mean(as_extreme)), float(np.std(statistic)))


def holm(p_values: Sequence[float]) -> Floats:
    """Adjust p values by Holm's step-down method (1979), as statsmodels' ``multipletests(method="holm")``.

    :param p_values: shape (n), no NaN.
    :returns: shape (n), in the same order, none above 1.
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def smallest_difference(error: float, degrees: float, power: float = POWER, level: float = LEVEL) -> float:
    """Return the true difference at which Student's two-sided test is significant with this *power*.

    It is error · λ with P(|T| > t) = power for T of the noncentral t distribution with noncentrality λ, t being the
    quantile of the test; with many degrees of freedom λ is 1.96 + 0.84 = 2.80.

    :param error: standard error of the estimated difference; *degrees* of freedom of that error.
    :returns: in the unit of *error*; NaN without an error.
    """
    if not (np.isfinite(error) and degrees > 0):
        return float("nan")
    return error * _noncentrality(float(degrees), power, level)


def smallest_effect(number: Interval, power: float = POWER, level: float = LEVEL) -> float:
    """Return the :func:`smallest_difference` from zero by the error of a number; of a correlation the smallest r.

    :returns: NaN where no value differs, or without an interval.
    """
    if number.spread is None or not number.spread.variance > 0:
        return float("nan")
    smallest = smallest_difference(math.sqrt(number.spread.variance), number.spread.degrees, power, level)
    return math.tanh(smallest) if number.of_z else smallest


def smallest_unseen(facts: int, power: float = POWER, level: float = LEVEL) -> float:
    """Return the :func:`smallest_difference` if two answerers agree on all facts, so that no error is seen.

    It is the share of facts that one of them alone has right at which a sign test is significant with this *power*: of
    :math:`k` such facts, all on one side, the p value is 2^(1-k).

    :returns: NaN with too few facts for any difference to be significant.
    """
    needed = math.ceil(1 - math.log2(level))
    if facts < needed:
        return float("nan")
    return find_root(lambda share: float(special.bdtrc(needed - 1, facts, share)) - power, 1.0, 0.0)


@lru_cache(maxsize=4096)
def _noncentrality(degrees: float, power: float, level: float) -> float:
    normal = degrees > _AS_NORMAL
    critical = float(special.ndtri(1 - level / 2) if normal else special.stdtrit(degrees, 1 - level / 2))

    def lacking(shift: float) -> float:
        if normal:
            below, opposite = special.ndtr(critical - shift), special.ndtr(-critical - shift)
        else:
            # Far out scipy cannot tell the other tail, which is next to nothing there.
            below, opposite = (special.nctdtr(degrees, shift, end) for end in (critical, -critical))
        return float(power - (1 - below) - np.nan_to_num(opposite))

    return find_root(lacking, critical / 2, 2 * critical + 1, within=1e-7)

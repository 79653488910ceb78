"""Descriptive statistics: scores of answer sets, agreement of judges, outliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.results.metrics.uncertainty import Floats

REACH = 1.5
"""Distance of the fences from the quartiles, in interquartile ranges (Tukey 1977)."""


class SetScore(NamedTuple):
    """Shares, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def set_score(right: int, wrong: int, gold: int) -> SetScore:
    """Score the answers to one query; without answers the precision is 0.

    Two names of one gold answer are one right answer (KAMEL's own script divides by the number of names).

    :param right: number of gold answers given.
    :param wrong: number of other answers given.
    :param gold: number of gold answers, 1 or more.
    """
    if not (0 <= right <= gold and gold and wrong >= 0):
        raise ValueError(f"{right} right of {gold} gold answers and {wrong} wrong ones cannot be")
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / gold
    return SetScore(precision, recall, float(harmonic_mean(precision, recall)))


def harmonic_mean(precision: npt.ArrayLike, recall: npt.ArrayLike) -> Floats:
    """Return 2PR / (P + R), 0 where both are 0; any shape. Of mean precision and mean recall it is KAMEL's F1."""
    one, other = np.asarray(precision, float), np.asarray(recall, float)
    total = one + other
    return np.asarray(np.divide(2 * one * other, total, out=np.zeros_like(total), where=total > 0))


def tukey_fences(values: npt.ArrayLike) -> tuple[float, float]:
    """Return quartiles (linear interpolation) ∓ 1.5 interquartile ranges, beyond which values are outliers.

    :raises ValueError: no value, or NaN among them.
    """
    given = np.asarray(values, float)
    if not given.size or np.isnan(given).any():
        raise ValueError("fences need at least one value, and no NaN")
    first, third = np.quantile(given, [0.25, 0.75])
    reach = REACH * (third - first)
    return float(first - reach), float(third + reach)

"""Sets of answers: how many of those given are right, how many of those wanted were given."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.metrics.uncertainty import Floats


class SetScore(NamedTuple):
    """Shares, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def set_score(right: int, wrong: int, gold: int) -> SetScore:
    """Of one query. One gold answer and one answer given make all three 0 or 1.

    Answers are counted, not their names: two names of one gold answer are one right answer (KAMEL's own script divides
    by the number of names). Nothing given is a precision of 0.

    :param right: gold answers given. :param wrong: other answers given. :param gold: gold answers, 1 or more.
    """
    if not (0 <= right <= gold and gold and wrong >= 0):
        raise ValueError(f"{right} right of {gold} gold answers and {wrong} wrong ones cannot be")
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / gold
    return SetScore(precision, recall, float(harmonic_mean(precision, recall)))


def harmonic_mean(precision: npt.ArrayLike, recall: npt.ArrayLike) -> Floats:
    """2PR / (P + R), 0 where both are 0; any shape. Of mean precision and mean recall: the F1 that KAMEL reports."""
    one, other = np.asarray(precision, float), np.asarray(recall, float)
    total = one + other
    return np.asarray(np.divide(2 * one * other, total, out=np.zeros_like(total), where=total > 0))

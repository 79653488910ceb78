"""Values that stand apart from the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

REACH = 1.5
"""How many interquartile ranges the fences stand outside the quartiles (Tukey 1977)."""


class Fences(NamedTuple):
    """:param low, high: values beyond them are outliers. :param outside: which of the values are, shape [n]."""

    low: float
    high: float
    outside: npt.NDArray[np.bool_]


def tukey_fences(values: npt.ArrayLike) -> Fences:
    """Quartiles (linear interpolation) ∓ 1.5 interquartile ranges.

    :param values: shape [n]. :raises ValueError: no value, or NaN among them.
    """
    given = np.asarray(values, float)
    if not given.size or np.isnan(given).any():
        raise ValueError("fences need at least one value, and no NaN")
    first, third = np.quantile(given, [0.25, 0.75])
    reach = REACH * (third - first)
    low, high = float(first - reach), float(third + reach)
    return Fences(low, high, (given < low) | (given > high))

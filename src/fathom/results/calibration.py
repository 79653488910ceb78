"""Calibration of given confidences: estimates of its error, and temperatures fitted on held-out sampling units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.results.estimates import Estimate, as_estimate, between, between_folds
from fathom.results.metrics.confidence import (
    calibration_gaps,
    cautious_sum,
    debiased_sum,
    fit_temperature,
    scaled_confidence,
)
from fathom.results.metrics.uncertainty import Labels
from fathom.results.rows import Floats
from fathom.results.samples import Sample

_UNLIMITED = (-np.inf, np.inf)
_SIGNED = (-1.0, 1.0)


def calibration_error(confidence: npt.ArrayLike, right: npt.ArrayLike, sample: Sample, recipe: str) -> Estimate:
    """Return the expected calibration error, debiased, in bins of equal size, as ``fathom metrics`` does.

    :param confidence: probability of the answer given, shape (n). :param right: whether it is right, 0 to 1.
    """
    gaps = list(calibration_gaps(confidence, right))
    result = between_folds(gaps, sample, (debiased_sum, cautious_sum))
    return as_estimate(result, np.size(right), recipe, sample, ".3f", tested=False)


def calibration_difference(
    first: npt.ArrayLike, second: npt.ArrayLike, right: npt.ArrayLike, sample: Sample, recipe: str
) -> Estimate:
    """Return the calibration error of the first confidences − that of the second, paired, tested against 0."""
    gaps = [gap for confidence in (first, second) for gap in calibration_gaps(confidence, right)]
    errors = np.nan_to_num([between(gap, sample, _UNLIMITED).error for gap in gaps])
    half = len(gaps) // 2

    def fold(*means: Floats) -> Floats:
        return debiased_sum(*means[:half], errors=errors[:half]) - debiased_sum(*means[half:], errors=errors[half:])

    return as_estimate(between(gaps, sample, _SIGNED, fold=fold), np.size(right), recipe, sample, "+.3f")


class Scaled(NamedTuple):
    """Confidences after temperature scaling. :param temperatures: of either half, fitted on the other."""

    confidence: Floats
    temperatures: tuple[float, float]


def scale_temperature(scores: Sequence[Floats], right: Floats, units: Labels, seed: int) -> Scaled | None:
    """Return softmax confidences scaled by a temperature that other sampling units chose; None with fewer than two.

    :param scores: log-likelihoods of each query's options. :param right: whether the best one is right, 0 to 1.
    :param units: label of each query's sampling unit, which is in one half as a whole.
    """
    names, unit = np.unique(np.asarray(units), return_inverse=True)
    if len(names) < 2:
        return None
    half = (np.random.default_rng(seed).permutation(len(names)) % 2)[unit]
    confidence, temperatures = np.empty(len(scores)), []
    for own in (0, 1):
        fitted, applied = (np.flatnonzero(part).tolist() for part in (half != own, half == own))
        temperatures.append(fit_temperature([scores[at] for at in fitted], right[fitted]))
        confidence[applied] = scaled_confidence([scores[at] for at in applied], temperatures[-1])
    return Scaled(confidence, (temperatures[0], temperatures[1]))

"""Calibration of given confidences: estimates of its error, and temperatures fitted on held-out sampling units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.metrics.confidence import (
    calibration_gaps,
    cautious_sum,
    confidences,
    debiased_sum,
    fit_temperature,
)
from fathom.metrics.uncertainty import Labels
from fathom.results.estimates import Estimate, as_estimate, between, between_folds
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


def scale_temperature(
    scores: Sequence[Floats], gold: Sequence[Sequence[int]], units: Labels, seed: int
) -> Scaled | None:
    """Return softmax confidences scaled by a temperature that other sampling units chose; None with fewer than two.

    :param scores: log-likelihoods of each query's options. :param gold: positions of the right ones.
    :param units: label of each query's sampling unit, which is in one half as a whole.
    :param seed: of the halves.
    """
    names, unit = np.unique(np.asarray(units), return_inverse=True)
    if len(names) < 2:
        return None
    half = (np.random.default_rng(seed).permutation(len(names)) % 2)[unit]
    scaled, temperatures = np.empty(len(scores)), []
    for own in (0, 1):
        fitted, applied = np.flatnonzero(half != own).tolist(), np.flatnonzero(half == own).tolist()
        temperature = fit_temperature([scores[at] for at in fitted], [gold[at] for at in fitted])
        divided = [scores[at] / temperature for at in applied]
        scaled[applied] = confidences(divided, [gold[at] for at in applied]).top_probability
        temperatures.append(temperature)
    return Scaled(scaled, (temperatures[0], temperatures[1]))

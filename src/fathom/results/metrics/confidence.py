"""Confidence of a model in its answers, and its calibration.

Log-likelihoods over a closed set of N options become a distribution by softmax (Wiland et al. 2024, appendix D).
Functions on distributions work along the last axis: shape (…, N) → (…).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr, logsumexp, ndtr

Floats = npt.NDArray[np.float64]
TEMPERATURES = (float(np.log(0.01)), float(np.log(100)))
"""Logarithms of the smallest and the largest temperature that is tried."""
LOWEST = -1000.0
"""Log-probability counted for a wrong answer that was certain, so that it alone does not decide."""


def softmax(scores: npt.ArrayLike) -> Floats:
    """Return probabilities of natural-log scores (…, N). −inf is an option of probability 0.

    :raises ValueError: no option, a NaN, +inf, or every option at −inf.
    """
    logs = np.asarray(scores, float)
    if logs.shape[-1] == 0:
        raise ValueError("a query without options has no probabilities")
    best = logs.max(axis=-1, keepdims=True)
    if not np.all(np.isfinite(best)) or np.isnan(logs).any():  # max() passes a NaN on, but be plain about it
        raise ValueError("scores hold NaN or infinity; take unscored queries out first")
    # Statements have log-likelihoods of −100 and less: exp would give 0/0 without taking the best out first.
    weights: Floats = np.exp(logs - best)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def top_probability(probabilities: Floats) -> Floats:
    return np.asarray(probabilities.max(axis=-1))


def margin(probabilities: Floats) -> Floats:
    """Return the probability of the best option less that of the second; 1 with a single option."""
    if probabilities.shape[-1] == 1:
        return np.asarray(probabilities[..., 0])
    top = np.partition(probabilities, -2, axis=-1)
    return np.asarray(top[..., -1] - top[..., -2])


def uncertainty(probabilities: Floats) -> Floats:
    """Return entropy / log N: 0 for a point mass or one option, 1 if uniform (Wiland et al. 2024, eq. 1 to 3).

    lm-pub-quiz 0.3.3 divides by the logarithm of the number of *distinct gold answers* among the instances instead,
    which agrees only if every option is gold at least once; on a subset its score exceeds 1.
    """
    options = probabilities.shape[-1]
    if options == 1:
        return np.zeros(probabilities.shape[:-1])
    # Rounding can leave it 1e-16 above 1.
    return np.asarray(np.clip(entr(probabilities).sum(axis=-1) / np.log(options), 0.0, 1.0))


def brier(probabilities: Floats, target: Floats) -> Floats:
    """Return the mean over *options* of (p − y)², as lm-pub-quiz does; Brier (1950) sums over options instead.

    :param target: shape (…, N), sums to 1: the gold option, or equal parts to several.
    """
    return np.asarray(np.mean((probabilities - target) ** 2, axis=-1))


class Confidence(NamedTuple):
    """One value per query, shape (queries) each."""

    top_probability: Floats
    margin: Floats
    uncertainty: Floats
    brier: Floats


def confidences(scores: Sequence[npt.ArrayLike], gold: Sequence[Sequence[int]]) -> Confidence:
    """Compute all four for every query; queries may differ in their number of options.

    :param scores: log-likelihoods of each query's options.
    :param gold: positions of the right ones, at least one.
    :raises ValueError: unequal lengths, a query without gold, or scores :func:`softmax` refuses.
    """
    if len(scores) != len(gold):
        raise ValueError(f"{len(scores)} queries with scores, but {len(gold)} with gold answers")
    every = Confidence(*(np.zeros(len(scores)) for _ in range(4)))
    for places, logs in _by_length(scores):
        probabilities = softmax(logs)
        target = np.stack([_target(gold[place], logs.shape[1]) for place in places])
        values = top_probability(probabilities), margin(probabilities), uncertainty(probabilities)
        for array, column in zip(every, (*values, brier(probabilities, target)), strict=True):
            array[places] = column
    return every


def _target(gold: Sequence[int], options: int) -> Floats:
    if not len(gold):
        raise ValueError("a query without a gold answer has no Brier score")
    target = np.zeros(options)
    target[list(gold)] = 1.0 / len(set(gold))
    return target


def scaled_confidence(scores: Sequence[npt.ArrayLike], temperature: float) -> Floats:
    """Return the probability of the best option by the softmax of scores / temperature, shape (queries).

    :param scores: log-likelihoods of each query's options.
    """
    confidence = np.empty(len(scores))
    for places, logs in _by_length(scores):
        confidence[places] = top_probability(softmax(logs / temperature))
    return confidence


def fit_temperature(scores: Sequence[npt.ArrayLike], right: npt.ArrayLike) -> float:
    """Return the temperature at which confidence has the smallest log loss of being right.

    Guo et al. (2017) take the log loss of the gold option, which agrees for a few options. Among many, answers without
    any probability decide it, and with them facts that the model does not know.

    :param scores: log-likelihoods of each query's options; at least one query.
    :param right: whether the best option is right, 0 to 1, shape (queries).
    """
    from scipy.optimize import minimize_scalar  # slow to load

    is_right = np.asarray(right, float)
    groups = []
    for places, logs in _by_length(scores):
        first = np.arange(logs.shape[1]) == logs.argmax(axis=1)[:, None]
        groups.append((logs, np.where(first, -np.inf, logs), is_right[places]))

    def loss(log_temperature: float) -> float:
        total, inverse = 0.0, np.exp(-log_temperature)
        for logs, others, of_group in groups:
            every = logsumexp(logs * inverse, axis=1)
            sure, unsure = logs.max(axis=1) * inverse - every, logsumexp(others * inverse, axis=1) - every
            total -= float(np.sum(of_group * sure + (1 - of_group) * np.maximum(unsure, LOWEST)))
        return total

    return float(np.exp(minimize_scalar(loss, bounds=TEMPERATURES, method="bounded").x))


def _by_length(scores: Sequence[npt.ArrayLike]) -> Iterator[tuple[list[int], Floats]]:
    """Yield the places of queries of one length, and their scores as a matrix."""
    arrays = [np.asarray(row, float) for row in scores]
    lengths = np.array([len(row) for row in arrays], dtype=int)
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length).tolist()
        yield places, np.stack([arrays[place] for place in places])


def calibration_gaps(confidence: npt.ArrayLike, accuracy: npt.ArrayLike, bins: int = 10) -> Floats:
    """Return confidence − accuracy of each answer in the row of its bin, 0 in the others; shape (bins, n).

    Bins hold equally many answers, as far as ties allow. The expected calibration error is the sum of the absolute
    means of the rows (Nixon et al. 2019).
    """
    sure, right = np.asarray(confidence, float), np.asarray(accuracy, float)
    edges = np.quantile(sure, np.arange(1, bins) / bins)
    place = np.searchsorted(edges, sure, side="left")
    gaps = np.zeros((bins, len(sure)))
    gaps[place, np.arange(len(sure))] = sure - right
    return gaps


def debiased_sum(*gaps: npt.ArrayLike, errors: Floats) -> Floats:
    """Return Σ |gap| less the bias that noise would add to these gaps (Kumar et al. 2019, in closed form).

    A gap g with standard error σ has an absolute value of |g|(2Φ(|g|/σ) − 1) + 2σφ(g/σ) on average, so that 2|g| less
    this is nearly without bias from |g| = σ on. For a calibrated model 0.47 σ of 0.80 σ per bin are left.

    :param gaps: means, one or an array per bin.
    :param errors: standard error of each, shape (bins); 0 if it is known exactly.
    :returns: of the shape of one gap.
    """
    return _sum_of_sizes(gaps, errors, lambda size, inner, density: 2 * size - inner - density)


def cautious_sum(*gaps: npt.ArrayLike, errors: Floats) -> Floats:
    """Return Σ |gap| as half of the data would find it with the signs of the other half.

    Averaged over all halves of normal data this is |g|(2Φ(|g|/σ) − 1) − 2σφ(g/σ). Its expectation is 0 for a calibrated
    model and never above the true sum, so it is the lower end's estimate. Arguments as for :func:`debiased_sum`.
    """
    return _sum_of_sizes(gaps, errors, lambda size, inner, density: inner - density)


def _sum_of_sizes(gaps: Sequence[npt.ArrayLike], errors: Floats, size_of: Callable[..., Floats]) -> Floats:
    """:param size_of: takes |g|, |g|(2Φ(|g|/σ) − 1) and 2σφ(g/σ)."""
    total = np.zeros_like(np.asarray(gaps[0], float))
    for gap, error in zip(gaps, errors.tolist(), strict=True):
        size = np.abs(np.asarray(gap, float))
        if error > 0:
            density = 2 * error * np.exp(-0.5 * (size / error) ** 2) / np.sqrt(2 * np.pi)
            size = size_of(size, size * (2 * ndtr(size / error) - 1), density)
        total = total + size
    return np.asarray(total)

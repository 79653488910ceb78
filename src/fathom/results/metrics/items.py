"""Items of a test: how well each separates models, which labels are worth a look, and which errors models share.

The evidence for another answer than the label is the logarithm of a likelihood ratio. If the label is right, a wrong
answer is one of the model's wrong answers to other items. If the other answer is right, a model names it as often as it
is right on other items. So a hard item alone is no evidence, and a model that agrees with the label counts against. The
ratios are multiplied as if models erred independently. They do not: the evidence orders labels and proves nothing.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]

STEPS = 16
"""Steps of a permutation; after n steps, an answer can be at any of 2ⁿ items."""


def rest_accuracy(right: Floats, common: Mask) -> Floats:
    """Return the accuracy of each model on the common items other than each item, shape (models, items).

    :param right: share of right answers, shape (models, items), NaN where a model was not evaluated.
    :param common: the items on which all models were evaluated, shape (items). If there is no other, the result is NaN.
    """
    own = np.where(common, right, 0.0)
    others = common.sum() - common
    return np.where(others > 0, (own.sum(axis=1, keepdims=True) - own) / np.maximum(others, 1), np.nan)


def label_evidence(right: Mask, wrong: Ints, accuracy: Floats, sizes: Ints) -> Floats:
    """Return the evidence for each model's wrong answer against the label, in items of one answer space.

    :param right: whether each model is right, shape (models, items).
    :param wrong: number of each model's wrong answer, shape (models, items); −1 where it has none.
    :param accuracy: of each model on other items, above 0 and below 1, shape (models, items).
    :param sizes: number of wrong candidates of each item, at least 1, shape (items).
    :returns: shape (models, items); −∞ where there is no wrong answer.
    """
    models, items = np.nonzero(wrong >= 0)
    answers = wrong[models, items]
    counts = np.zeros((len(wrong), answers.max(initial=0) + 1))
    np.add.at(counts, (models, answers), 1)
    same = wrong[:, items] == answers
    # Shares of the wrong answers to other items, with one more answer for every candidate.
    of_model = counts[models, answers] / (counts[models].sum(axis=1) - 1 + sizes[items])
    wrong_here = (wrong[:, items] >= 0).sum(axis=0)
    of_all = (counts[:, answers].sum(axis=0) - same.sum(axis=0) + 1) / (counts.sum() - wrong_here + sizes[items])
    odds = accuracy / (1 - accuracy)
    gain = np.zeros(wrong.shape)
    gain[models, items] = np.log1p(odds[models, items] * 2 / (of_model + of_all))
    loss = np.where(right, np.minimum(0.0, -np.log(odds * sizes)), np.where(wrong >= 0, np.log1p(-accuracy), 0.0))
    evidence = np.full(wrong.shape, -np.inf)
    evidence[models, items] = (loss.sum(axis=0) - np.log(sizes))[items] + (same * gain[:, items]).sum(axis=0)
    return evidence


def count_shared_errors(wrong: Ints, right: Ints, permutations: int, draw: np.random.Generator) -> Ints:
    """Count the pairs of models that give the same wrong answer to the same item, as observed and in permutations.

    A permutation exchanges the wrong answers of each model among the items that it has wrong. It never gives an item an
    answer that is right there: no model can err so, and chance agreement would seem too rare. Observed and permuted
    arrangements are all as many symmetric random steps from a hidden one, so they are exchangeable, and the rank of the
    observed count is an exact p value (Besag and Clifford, "Generalized Monte Carlo significance tests", 1989).

    :param wrong: number of each model's wrong answer, shape (models, items); −1 where it has none.
    :param right: numbers of the right answers of each item, shape (items, most right answers), padded with −1.
    :returns: the observed count, followed by those of the permutations, shape (1 + permutations).
    """
    models, items = np.nonzero(wrong >= 0)
    kind = np.int16 if max(wrong.max(initial=0), right.max(initial=0)) < 2**15 else np.int32  # smaller is faster
    observed: Ints = wrong[models, items, np.newaxis].astype(kind)
    right = right[items].astype(kind)
    steps = [_random_pairs(models, draw) for _ in range(STEPS)]
    hidden = observed.copy()
    for pairs in reversed(steps):
        _exchange(hidden, pairs, right, draw)
    permuted = np.repeat(hidden, permutations, axis=1)
    for pairs in steps:
        _exchange(permuted, pairs, right, draw)
    answers = np.hstack([observed, permuted])
    places = np.full(wrong.shape, -1)
    places[models, items] = np.arange(len(models))
    same = np.zeros(1 + permutations, dtype=np.int64)
    for first, second in combinations(places, 2):
        both_wrong = (first >= 0) & (second >= 0)
        same += np.sum(answers[first[both_wrong]] == answers[second[both_wrong]], axis=0)
    return same


def _random_pairs(models: Ints, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw disjoint pairs of answers, each of one model. :param models: of each answer."""
    order, start = np.lexsort([draw.random(len(models)), models]), int(draw.integers(2))
    one, other = order[start:-1:2], order[start + 1 :: 2]
    of_one_model = models[one] == models[other]
    return one[of_one_model], other[of_one_model]


def _exchange(answers: Ints, pairs: tuple[Ints, Ints], right: Ints, draw: np.random.Generator) -> None:
    """Exchange the answers of each pair with a chance of 1/2 if both stay wrong.

    :param answers: one arrangement in each column. :param right: right answers to the item of each row.
    """
    one, other = pairs
    first, second = answers[one], answers[other]
    moves = draw.integers(2, size=first.shape, dtype=bool)
    for column in right.T[:, :, np.newaxis]:
        moves &= (second != column[one]) & (first != column[other])
    change = (first ^ second) * moves
    answers[one] = first ^ change
    answers[other] = second ^ change

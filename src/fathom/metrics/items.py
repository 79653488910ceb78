"""Items of a test: how well each separates accurate from inaccurate models, and whether its label may be wrong.

The evidence on a label is a likelihood ratio. If the label is right, a wrong answer is one of the model's wrong answers
to other items. If another candidate is right, a model names it as often as it is right on other items. That an item is
hard is no evidence: given the label, only the choice among wrong answers counts. A model that agrees with the label
counts against. The ratios of models are multiplied, as if they erred independently.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def rest_accuracy(right: Floats, common: Mask) -> Floats:
    """Return the accuracy of each model on the common items other than each item, shape (models, items).

    :param right: share of right answers, shape (models, items), NaN where a model was not asked.
    :param common: the items that all models were asked, shape (items). If there is no other, the result is NaN.
    """
    own = np.where(common, right, 0.0)
    others = common.sum() - common
    return np.where(others > 0, (own.sum(axis=1, keepdims=True) - own) / np.maximum(others, 1), np.nan)


def choose_items(right: Floats, relations: Sequence[str], size: int) -> list[int]:
    """Return the places of the items that best separate these models, from each relation in proportion to its items.

    Items are taken by their covariance with the accuracy on the others: discrimination times spread.

    :param right: shape (models, items). :param relations: of each item.
    """
    rest = rest_accuracy(right, np.ones(right.shape[1], dtype=bool))
    value = ((right - right.mean(axis=0)) * (rest - rest.mean(axis=0))).mean(axis=0)
    counts, taken, turns = Counter(relations), Counter[str](), np.empty(len(value))
    for item in np.argsort(-value, kind="stable").tolist():
        taken[relations[item]] += 1
        turns[item] = taken[relations[item]] / counts[relations[item]]
    return sorted(np.lexsort([-value, turns])[:size].tolist())


class Vote(NamedTuple):
    """One model's answer to one item.

    :param accuracy: of the model on other items, above 0 and below 1.
    :param wrong: its answer if that is wrong; None if it is right, or has no single answer.
    """

    model: int
    accuracy: float
    is_right: bool
    wrong: str | None


class Doubt(NamedTuple):
    """Doubt about the label of an item.

    :param other: the candidate that most likely is right if the label is wrong; None if no model is wrong.
    :param evidence: logarithm of the likelihood ratio of "another candidate is right" to "the label is right".
    :param expected: chance of each vote to be *other* if the label is right, shape (votes).
    """

    other: str | None
    evidence: float
    expected: Floats

    @property
    def p_value(self) -> float:
        """Bound of the chance of so much evidence for a right label, by Markov: the ratio's mean is at most 1."""
        return float(np.exp(-max(self.evidence, 0.0)))


class WrongAnswers:
    """Counts of the candidates that each model names when it is wrong, in one relation and answer space.

    :param items: the votes of each item. :param size: number of candidates.
    """

    def __init__(self, items: Sequence[Sequence[Vote]], size: int) -> None:
        self.size = size
        self.own: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.all = Counter[str]()
        for model, answer in ((vote.model, vote.wrong) for votes in items for vote in votes if vote.wrong is not None):
            self.own[model][answer] += 1
            self.all[answer] += 1

    def doubt(self, votes: Sequence[Vote], gold: Collection[str]) -> Doubt:
        """Weigh the answers to one item. :param gold: its labelled answers."""
        size = max(1, self.size - len(gold))
        against = sum(min(0.0, np.log((1 / vote.accuracy - 1) / size)) for vote in votes if vote.is_right)
        wrong = [(vote.model, vote.accuracy, vote.wrong) for vote in votes if vote.wrong is not None]
        against += sum(np.log1p(-accuracy) for _, accuracy, _ in wrong)
        here = [(model, answer) for model, _, answer in wrong]
        ratios = dict.fromkeys((answer for _, answer in here), against)
        for model, accuracy, answer in wrong:
            ratios[answer] += np.log1p(accuracy / (1 - accuracy) / self._chance(model, answer, here, gold))
        unnamed = [against + np.log(size - len(ratios))] if size > len(ratios) else []
        evidence = float(np.logaddexp.reduce([*ratios.values(), *unnamed]) - np.log(size))
        other = max(ratios, key=lambda answer: (ratios[answer], answer), default=None)
        expected = [self._chance(one.model, other, here, gold) if other and one.wrong else 0.0 for one in votes]
        return Doubt(other, evidence, np.array(expected))

    def _chance(self, model: int, answer: str, here: Sequence[tuple[int, str]], gold: Collection[str]) -> float:
        """Return the chance that the model names the answer, given that it is wrong.

        The mean of the answer's share of its own wrong answers to other items, and of those of all models. Each share
        has one more answer for every candidate.

        :param here: model and answer of the wrong votes on the item itself.
        """
        shares = []
        for counts, removed in (
            (self.own[model], [a for m, a in here if m == model]),
            (self.all, [a for _, a in here]),
        ):
            total = counts.total() - len(removed) - sum(counts[one] for one in gold)
            shares.append((counts[answer] - removed.count(answer) + 1) / (total + max(1, self.size - len(gold))))
        return sum(shares) / 2

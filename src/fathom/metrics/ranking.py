"""Ranks and best answers into numbers, with ties counted at their expected value.

A rank comes as two: *optimistic* (the gold answer stands before all it is tied with) and *pessimistic* (after them);
*realistic* is the mean of both. All are 1-based. Ties broken by the order of candidates would reward a file's order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

Floats = npt.NDArray[np.float64]


def hits_at_k(optimistic: npt.ArrayLike, pessimistic: npt.ArrayLike, k: int) -> Floats:
    """Chance that the gold answer is among the first *k* when tied candidates are put in random order.

    :param optimistic: ranks, shape [n]. :param pessimistic: ranks, shape [n], none smaller.
    :returns: shape [n], each in [0, 1]; Hits@1 is accuracy.
    :raises ValueError: a rank below 1 or NaN, optimistic above pessimistic, or *k* below 1.
    """
    best, worst = np.asarray(optimistic, float), np.asarray(pessimistic, float)
    if k < 1:
        raise ValueError(f"k is {k}: expected 1 or more")
    if not (np.all(best >= 1) and np.all(best <= worst)):
        raise ValueError("ranks must be 1 or more, and no optimistic rank above its pessimistic one")
    # The gold answer is equally likely at each of the (worst − best + 1) tied places; so many of them are within k.
    return np.asarray(np.clip((k - best + 1) / (worst - best + 1), 0.0, 1.0))


def told_hits_at_k(optimistic: Floats, pessimistic: Floats, above: Floats, correct: Floats, k: int) -> Floats:
    """Hits@k of predictions of all kinds, shapes [n], NaN where there is no number; NaN where it cannot be told.

    :param above: the search for the rank stopped there: no hit up to it. :param correct: credit of predictions without
        ranks (generation, choice), which is their Hits@1.
    """
    values = np.full(len(optimistic), np.nan)
    ranked = ~np.isnan(optimistic)
    values[ranked] = hits_at_k(optimistic[ranked], pessimistic[ranked], k)
    values[~ranked & (above >= k)] = 0.0
    if k == 1:
        credited = ~ranked & np.isnan(above) & ~np.isnan(correct)
        values[credited] = correct[credited]
    return values


def places(scores: npt.ArrayLike) -> Floats:
    """Places of competitors by their scores, the best is 1: by the first score, ties by the next ones; those tied in
    all share the mean of their places.

    :param scores: shape [..., competitors, scores]. :returns: shape [..., competitors].
    """
    # Sums of the same hits in another order differ in their last bits, and would break a tie.
    values = np.round(np.asarray(scores, float), 12)
    order = np.zeros((*values.shape[:-1], values.shape[-2]))
    for score in np.moveaxis(values, -1, 0):
        order = np.where(order == 0, np.sign(score[..., None, :] - score[..., :, None]), order)
    return np.asarray(1 + (order > 0).sum(axis=-1) + ((order == 0).sum(axis=-1) - 1) / 2)


def reciprocal_rank(optimistic: npt.ArrayLike, pessimistic: npt.ArrayLike) -> Floats:
    """Return the expected 1 / rank when tied candidates are put in random order; its mean is the MRR.

    The mean of 1 / r for r from *optimistic* to *pessimistic*, as Hits@k is the mean of r ≤ k. One over the mean rank,
    which other implementations report, is smaller: a model that ties everything would score less than random guessing.

    :param optimistic: ranks, shape [n]; NaN gives NaN. :param pessimistic: ranks, shape [n], none smaller.
    """
    first, last = np.asarray(optimistic, float), np.asarray(pessimistic, float)
    tied = (digamma(last + 1) - digamma(first)) / (last - first + 1)
    return np.asarray(np.where(first == last, 1.0 / first, tied))


def reciprocal_mean_rank(ranks: Sequence[Sequence[float]]) -> Floats:
    """1 / mean rank of all gold answers, shape [n]; its mean is the MRRₐ of Wu et al. (2023, section 3.1.3).

    :param ranks: of each query those of its gold answers, unfiltered: each among all candidates, the other gold
        answers among them, so two gold answers score 1 / 1.5 at best. NaN, which cannot be ranked, is left out.
    """
    means = [np.mean([rank for rank in of_query if not np.isnan(rank)]) for of_query in ranks]
    return 1.0 / _checked(means)


def consistency(tops: Sequence[Sequence[AbstractSet[str]]]) -> npt.NDArray[np.float64]:
    """Per fact: the chance that all templates give one and the same answer; the mean is the share of such facts.

    Where several answers share the best score, one of them is drawn at random, for each template on its own. An answer
    in every template's set is then given by all of them with chance ∏ 1/|set|; the sum over such answers is the value:
    1 or 0 without ties.

    :param tops: per fact, per template: ids of the best-scored answers. :returns: shape [facts], each in [0, 1].
    :raises ValueError: a fact without templates, or a template without an answer.
    """
    values = np.zeros(len(tops))
    for place, sets in enumerate(tops):
        if not sets or not all(sets):
            raise ValueError(f"fact {place} lacks an answer; take unscored facts out first")
        shared = reduce(lambda left, right: left & right, sets)
        values[place] = len(shared) / prod(len(answers) for answers in sets)
    return values


_DEEPEST = 40
"""Places beyond weigh less than e⁻³⁹ together."""


def rankc(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """RankC (Qi, Fernández and Bisazza 2023, section 3): how alike two rankings of the same N candidates are.

    The weighted mean over j of P@j, the share of the j best of one that are among the j best of the other, with weights
    e^(N−j) / Σ e^(N−k): of many candidates the first place weighs 0.63, the second 0.23. Candidates of one score are
    put in random order, in each ranking on its own: a place counts by its chance, as in :func:`consistency`.

    :param first: scores, shape [N], the best is the greatest; *second* those of the same candidates in the same order.
    :returns: in (0, 1]; 1 for the same ranking without ties.
    :raises ValueError: no candidates, another number of them, or a score that is NaN.
    """
    return rankc_of(among_the_best(first), among_the_best(second))


def rankc_of(first: Floats, second: Floats) -> float:
    """:func:`rankc` of what :func:`among_the_best` gives, which need be made once for many comparisons.

    :raises ValueError: another number of candidates.
    """
    if first.shape != second.shape:
        raise ValueError(f"expected as many candidates in both rankings, found {len(first)} and {len(second)}")
    weights, depth = _rankc_weights(len(first))
    return float(np.sum(weights * (first * second).sum(axis=0) / depth))


def rankc_by_chance(candidates: int) -> float:
    """What :func:`rankc` of two rankings that have nothing to do with each other is on average: P@j is then j / N."""
    weights, depth = _rankc_weights(candidates)
    return float(np.sum(weights * depth / candidates))


def among_the_best(scores: npt.ArrayLike) -> Floats:
    """Chance of each candidate to be among the first j, for j = 1 … min(N, 40); tied ones share their places.

    :param scores: shape [N]. :returns: shape [N, min(N, 40)]. :raises ValueError: no scores, or one that is NaN.
    """
    values = np.asarray(scores, float)
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise ValueError(f"expected a list of scores, none NaN, found shape {values.shape}")
    order, depth = np.sort(values), _rankc_weights(len(values))[1]
    above, upto = len(values) - np.searchsorted(order, values, "right"), len(values) - np.searchsorted(order, values)
    return np.asarray(np.clip((depth - above[:, None]) / (upto - above)[:, None], 0.0, 1.0))


def _rankc_weights(candidates: int) -> tuple[Floats, Floats]:
    """Of each place as deep as it counts, and the places."""
    depth = np.arange(1.0, min(candidates, _DEEPEST) + 1)
    weights = np.exp(-depth)
    return weights / weights.sum(), depth


def by_frequency(seen: Iterable[str], candidates: Iterable[str], seed: int = 0) -> list[str]:
    """The frequency baseline of Wu et al. (2023, section 4.1): candidates in the order in which it answers everything.

    :param seen: answers that were right in training, repeated as often; those equally frequent in order of
        appearance. All others stand behind them in random order.
    """
    known = set(candidates)
    first = [answer for answer, _ in Counter(answer for answer in seen if answer in known).most_common()]
    rest = sorted(known.difference(first))
    random.Random(seed).shuffle(rest)
    return first + rest


class ByOthers(NamedTuple):
    """What the frequency of the other items' answers makes of items, [n] each.

    :param optimistic: rank of each item's best right answer, the others taken out, before all it is tied with.
    :param pessimistic: behind them.
    :param ranks: realistic ranks of all right answers of each, unfiltered.
    """

    optimistic: Floats
    pessimistic: Floats
    ranks: list[list[float]]


def by_frequency_of_others(
    items: Sequence[tuple[str, Sequence[int]]], asked: Sequence[tuple[str, Sequence[int]]], candidates: int
) -> ByOthers:
    """Answering each item with what is right most often of the others, those about its own subject left out.

    Leaving an item out makes its own answers rarer than they are, by which they would be told in data where all answers
    are equally frequent. So a right answer is tied with all between its frequency with its own item and without it: its
    place is one of 1 + |{y: n(y) > n(g)}| to |{y: n₋(y) ≥ n₋(g)}|, n counting all items, n₋ those of other subjects.

    :param items: all of the task, asked or not: subject, and places of the right answers among the candidates.
    :param asked: those to rank, each with a right answer.
    """
    of_subject: dict[str, list[int]] = {}
    for subject, golds in items:
        of_subject.setdefault(subject, []).extend(golds)
    counts = np.bincount([gold for golds in of_subject.values() for gold in golds], minlength=candidates)
    ends: list[tuple[float, float]] = []
    ranks = []
    for subject, golds in asked:
        others = counts.copy()
        np.subtract.at(others, of_subject.get(subject, []), 1)
        filtered = np.ones(candidates, dtype=bool)
        filtered[list(golds)] = False
        first = [1 + int((counts > counts[gold]).sum()) for gold in golds]
        last = [max(least, int((others >= others[gold]).sum())) for gold, least in zip(golds, first, strict=True)]
        ranks.append([(low + high) / 2 for low, high in zip(first, last, strict=True)])
        best = max(golds, key=lambda gold: (counts[gold], others[gold]))
        ahead = 1 + int((counts > counts[best])[filtered].sum())
        ends.append((ahead, max(ahead, 1 + int((others >= others[best])[filtered].sum()))))
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    return ByOthers(low, high, ranks)


def _checked(rank: npt.ArrayLike) -> Floats:
    ranks = np.asarray(rank, float)
    if not np.all(ranks >= 1):
        raise ValueError("ranks must be 1 or more; take unscored items out first")
    return ranks

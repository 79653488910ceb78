"""Numbers of ranks, best answers and sets of answers, with ties counted at their expected value.

A rank comes as two: *optimistic* (before all candidates it is tied with) and *pessimistic* (after them); *realistic* is
the mean of both. All are 1-based. Ties broken by the order of candidates would reward a file's order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from fathom.results.metrics.uncertainty import Floats


def hits_at_k(optimistic: npt.ArrayLike, pessimistic: npt.ArrayLike, k: int) -> Floats:
    """Return the chance that the gold answer is among the first *k* if ties are broken at random.

    :param optimistic: ranks, shape (n); *pessimistic* likewise, none smaller.
    :returns: shape (n), each in [0, 1]; Hits@1 is accuracy.
    :raises ValueError: a rank below 1 or NaN, optimistic above pessimistic, or *k* below 1.
    """
    best, worst = np.asarray(optimistic, float), np.asarray(pessimistic, float)
    if k < 1:
        raise ValueError(f"k is {k}: expected 1 or more")
    if not (np.all(best >= 1) and np.all(best <= worst)):
        raise ValueError("ranks must be 1 or more, and no optimistic rank above its pessimistic one")
    # The gold answer is equally likely at each of the (worst − best + 1) tied places; so many of them are within k.
    return np.asarray(np.clip((k - best + 1) / (worst - best + 1), 0.0, 1.0))


def known_hits_at_k(optimistic: Floats, pessimistic: Floats, above: Floats, correct: Floats, k: int) -> Floats:
    """Return Hits@k of predictions of all kinds, shape (n) each; NaN if unknown.

    :param above: where the search for the rank stopped: no hit up to it.
    :param correct: credit of predictions without ranks (generation, choice), which is their Hits@1.
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
    """Rank competitors by their first score, ties by the next ones; those tied in all share their mean rank.

    :param scores: shape (…, competitors, scores). :returns: shape (…, competitors).
    """
    # Sums of the same hits in another order differ in their last bits, and would break a tie.
    values = np.round(np.asarray(scores, float), 12)
    order = np.zeros((*values.shape[:-1], values.shape[-2]))
    for score in np.moveaxis(values, -1, 0):
        order = np.where(order == 0, np.sign(score[..., None, :] - score[..., :, None]), order)
    return np.asarray(1 + (order > 0).sum(axis=-1) + ((order == 0).sum(axis=-1) - 1) / 2)


def reciprocal_rank(optimistic: npt.ArrayLike, pessimistic: npt.ArrayLike) -> Floats:
    """Return the expected 1 / rank if ties are broken at random; its mean is the MRR.

    The mean of 1 / r for r from *optimistic* to *pessimistic*, as Hits@k is the mean of r ≤ k. One over the mean rank,
    which other implementations report, is smaller: a model that ties everything would score less than random guessing.

    :param optimistic: ranks, shape (n); NaN gives NaN; *pessimistic* likewise, none smaller.
    """
    first, last = np.asarray(optimistic, float), np.asarray(pessimistic, float)
    tied = (digamma(last + 1) - digamma(first)) / (last - first + 1)
    return np.asarray(np.where(first == last, 1.0 / first, tied))


def reciprocal_mean_rank(ranks: Sequence[Sequence[float]]) -> Floats:
    """Return 1 / mean rank of all gold answers, shape (n); its mean is the MRRₐ of Wu et al. (2023, section 3.1.3).

    :param ranks: of each query's gold answers, unfiltered: two gold answers score 1 / 1.5 at best. NaN is ignored.
    :raises ValueError: a mean below 1 or NaN.
    """
    means = np.array([np.mean([rank for rank in golds if not np.isnan(rank)]) for golds in ranks], float)
    if not np.all(means >= 1):
        raise ValueError("ranks must be 1 or more; take unscored items out first")
    return 1.0 / means


def finest_rank(ranks: Sequence[float], finest: Collection[int]) -> float:
    """Return the best rank of the finest gold answers if all other gold answers are excluded; NaN without ranks.

    :param ranks: of all gold answers, unfiltered; NaN if not ranked.
    :param finest: places in *ranks*; if none of them is ranked, any gold answer counts.
    """
    ranked = {place: rank for place, rank in enumerate(ranks) if not np.isnan(rank)}
    golds = [place for place in finest if place in ranked] or list(ranked)
    ahead = {
        place: sum((rank < ranked[place]) + (rank == ranked[place]) / 2 for at, rank in ranked.items() if at != place)
        for place in golds
    }
    return min((ranked[place] - ahead[place] for place in golds), default=np.nan)


def consistency(tops: Sequence[Sequence[AbstractSet[str]]]) -> npt.NDArray[np.float64]:
    """Return the chance that all templates of a fact give the same answer, shape (facts).

    If several answers share the best score, one of them is drawn at random, independently for each template. An answer
    in every template's set is then given by all of them with chance ∏ 1/|set|; the value is the sum over such answers.

    :param tops: per fact, per template: ids of the best-scored answers.
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


def rankc(first: Floats, second: Floats) -> float:
    """Return RankC (Qi, Fernández and Bisazza 2023, section 3), the similarity of two rankings of N candidates.

    The weighted mean over j of P@j, the share of the j best of one that are among the j best of the other, with weights
    e^(N−j) / Σ e^(N−k): of many candidates the first place weighs 0.63, the second 0.23. Ties are broken at random,
    independently in each ranking, so a place counts by its chance, as in :func:`consistency`.

    :param first: of :func:`top_chances`; *second* likewise, of the same candidates in the same order.
    :returns: in (0, 1]; 1 for the same ranking without ties.
    :raises ValueError: another number of candidates.
    """
    if first.shape != second.shape:
        raise ValueError(f"expected as many candidates in both rankings, found {len(first)} and {len(second)}")
    weights, depth = _rankc_weights(len(first))
    return float(np.sum(weights * (first * second).sum(axis=0) / depth))


def rankc_by_chance(candidates: int) -> float:
    """Return the expected :func:`rankc` of two independent rankings, for which P@j is j / N."""
    weights, depth = _rankc_weights(candidates)
    return float(np.sum(weights * depth / candidates))


def top_chances(scores: npt.ArrayLike) -> Floats:
    """Return the chance of each candidate to be among the first j, for j = 1 … min(N, 40), shape (N, min(N, 40)).

    :param scores: shape (N). :raises ValueError: no scores, or one that is NaN.
    """
    values = np.asarray(scores, float)
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise ValueError(f"expected a list of scores, none NaN, found shape {values.shape}")
    order, depth = np.sort(values), _rankc_weights(len(values))[1]
    above, upto = len(values) - np.searchsorted(order, values, "right"), len(values) - np.searchsorted(order, values)
    return np.asarray(np.clip((depth - above[:, None]) / (upto - above)[:, None], 0.0, 1.0))


def _rankc_weights(candidates: int) -> tuple[Floats, Floats]:
    depth = np.arange(1.0, min(candidates, _DEEPEST) + 1)
    weights = np.exp(-depth)
    return weights / weights.sum(), depth


def by_frequency(seen: Iterable[str], candidates: Iterable[str], seed: int = 0) -> list[str]:
    """Return the candidates in the order of the frequency baseline of Wu et al. (2023, section 4.1).

    :param seen: right answers in training, repeated as often; ties are in order of appearance. All others follow in
        random order.
    """
    pool = set(candidates)
    first = [answer for answer, _ in Counter(answer for answer in seen if answer in pool).most_common()]
    rest = sorted(pool.difference(first))
    random.Random(seed).shuffle(rest)
    return first + rest


class ByOthers(NamedTuple):
    """Ranks of items by the frequency of the other items' answers.

    :param optimistic: filtered rank of each item's best right answer, shape (n); *pessimistic* after ties.
    :param ranks: realistic ranks of all right answers of each, unfiltered.
    """

    optimistic: Floats
    pessimistic: Floats
    ranks: list[list[float]]


def by_frequency_of_others(
    items: Sequence[tuple[str, Sequence[int]]],
    asked: Sequence[tuple[str, Sequence[int]]],
    candidates: int,
    excluded: Sequence[Sequence[int]] = (),
) -> ByOthers:
    """Answer each item with the most frequent right answers of the items about other subjects.

    Without its item a right answer is rarer, which would reveal it in data where all answers are equally frequent. So
    it is tied with all between its frequency with its own item and without it: its place is one of
    1 + |{y: n(y) > n(g)}| to |{y: n₋(y) ≥ n₋(g)}|, n counting all items, n₋ those of other subjects.

    :param items: all of the task: subject, and places of the right answers among the candidates.
    :param asked: those to rank, each with a right answer.
    :param excluded: other right answers of each, to exclude from the ranking.
    """
    of_subject: dict[str, list[int]] = {}
    for subject, golds in items:
        of_subject[subject] = [*of_subject.get(subject, ()), *golds]
    counts = np.bincount([gold for _, golds in items for gold in golds], minlength=candidates)
    ends: list[tuple[float, float]] = []
    ranks = []
    for (subject, golds), further in zip(asked, excluded or [()] * len(asked), strict=True):
        others = counts.copy()
        np.subtract.at(others, of_subject.get(subject, []), 1)
        filtered = np.ones(candidates, dtype=bool)
        filtered[[*golds, *further]] = False
        first = [1 + int((counts > counts[gold]).sum()) for gold in golds]
        last = [max(least, int((others >= others[gold]).sum())) for gold, least in zip(golds, first, strict=True)]
        ranks.append([(low + high) / 2 for low, high in zip(first, last, strict=True)])
        best = max(golds, key=lambda gold: (counts[gold], others[gold]))
        ahead = 1 + int((counts > counts[best])[filtered].sum())
        ends.append((ahead, max(ahead, 1 + int((others >= others[best])[filtered].sum()))))
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    return ByOthers(low, high, ranks)


# --- answer sets, outliers


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
    p, r = np.asarray(precision, float), np.asarray(recall, float)
    total = p + r
    return np.asarray(np.divide(2 * p * r, total, out=np.zeros_like(total), where=total > 0))


def tukey_fences(values: npt.ArrayLike) -> tuple[float, float]:
    """Return quartiles (linear interpolation) ∓ 1.5 interquartile ranges, beyond which values are outliers.

    :raises ValueError: no value, or NaN among them.
    """
    array = np.asarray(values, float)
    if not array.size or np.isnan(array).any():
        raise ValueError("fences need at least one value, and no NaN")
    first, third = np.quantile(array, [0.25, 0.75])
    reach = REACH * (third - first)
    return float(first - reach), float(third + reach)

"""Fast where it does not matter, exact where it does: rough scores of all answers, full ones of those that decide.

A rough copy of the model (bfloat16, say) scores everything. Some answers are then scored again in full precision: the
right ones, those that come so near to a right one, or to the list of the best, that rounding could change a place, and
a sample. How near that is, is measured: a rough score is taken to be off by no more than :data:`SAFETY` times the
largest difference between a rough and a full score that the same shard has seen among answers that were no further
behind the first one than this is. (What is unlikely is off by more: of a planted model the last fifth of the answers
five times as much as the first.) The more are scored again, the more differences are known, so this goes on until
nothing is left that could change a place.

The margin is empirical: an answer that was never scored again could be farther off than every one that was. It is no
proof, and the numbers of what was scored again are kept beside the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Chosen = NDArray[np.bool_]

SAFETY = 3.0
"""A rough score is taken to be off by so many times what was seen at most of answers no further behind."""
SAMPLE = 64
"""At least so many answers of a shard are scored again whatever their scores, besides those that are right or first."""


LEAST = np.finfo(np.float32).min


class Settled(NamedTuple):
    """What came of a screening.

    :param scores: shape (ways, queries, candidates): full where *again*, else rough, and too far off to matter.
    :param again: which were scored again, shape (queries, candidates).
    :param margin: in nats: the rough scores were taken to be off by so much at most, shape of *scores*.
    """

    scores: Floats
    again: Chosen
    margin: Floats


def settle(
    rough: Floats,
    gold: Sequence[Sequence[int]],
    top_k: int,
    in_full: Callable[[Chosen], Floats],
    sample: int = SAMPLE,
) -> Settled:
    """Score again whatever could change the rank of a right answer, a list of the best or a first answer.

    :param rough: scores of all candidates in nats, shape (ways, queries, candidates); NaN of those that are not ranked
        in any way, and in one way of what the rough copy could not say.
    :param gold: places of each query's right answers.
    :param top_k: how many of the best are listed.
    :param in_full: scores the chosen candidates, shape (queries, candidates), in full precision; returns scores of the
        shape of *rough*, NaN of those that were not scored, which may be fewer than were not chosen.
    :param sample: so many are chosen whatever their scores, where scoring one does not tell of many others anyway.
    """
    scores, again = rough.copy(), np.zeros(rough.shape[1:], dtype=bool)
    margin: Floats = np.zeros(rough.shape)
    wanted = _first(rough, gold, sample)
    while wanted.any():
        found = in_full(wanted)
        done = wanted | np.isfinite(found).all(axis=0)
        scores[:, done] = found[:, done]
        again |= done
        margin = _margins(rough, scores, again)
        wanted = undecided(scores, again, margin, gold, top_k) & ~again
    return Settled(scores, again, margin)


def _margins(rough: Floats, scores: Floats, again: Chosen) -> Floats:
    """By how much each rough score is taken to be off, in nats, by those whose full one is known. Shapes as in
    :class:`Settled`."""
    margins = np.zeros(rough.shape)
    for way, own in enumerate(rough):
        finite = np.where(np.isfinite(own), own, -np.inf)
        behind = finite.max(axis=-1, keepdims=True, initial=LEAST) - finite
        seen = again & np.isfinite(own) & np.isfinite(scores[way])
        if not seen.any():
            continue
        order = np.argsort(behind[seen])
        most = np.maximum.accumulate(np.abs(own - scores[way])[seen][order])
        until = np.searchsorted(behind[seen][order], behind, side="right")
        margins[way] = SAFETY * most[np.maximum(until - 1, 0)]
    return margins


def undecided(
    scores: Floats, again: Chosen, margin: Floats | float, gold: Sequence[Sequence[int]], top_k: int
) -> Chosen:
    """Candidates whose place beside a right answer, or among the best, is open if those that were not scored *again*
    are off by up to *margin*. Shapes as in :class:`Settled`; the right answers were scored again."""
    off = np.where(again, 0.0, margin)
    low, high = scores - off, scores + off
    count = min(max(1, top_k), scores.shape[-1])
    ranked = np.where(np.isnan(low), -np.inf, low)
    least = np.partition(ranked, -count, axis=-1)[..., -count, None]
    near: Chosen = high >= least
    for row, places in enumerate(gold):
        for place in places:
            right = scores[:, row, place, None]
            near[:, row] |= (low[:, row] <= right) & (high[:, row] >= right)
    unsaid = ~np.isfinite(scores).all(axis=0) & np.isfinite(scores).any(axis=0)  # by the rough copy, in one way or more
    return np.asarray(near.any(axis=0) | unsaid)


def _first(rough: Floats, gold: Sequence[Sequence[int]], sample: int) -> Chosen:
    """What is scored again before any difference is known: right answers, first answers, what the rough copy gave no
    number, and a sample of the rest, the same for the same shard."""
    queries, candidates = rough.shape[1:]
    chosen = np.zeros((queries, candidates), dtype=bool)
    for row, places in enumerate(gold):
        chosen[row, list(places)] = True
    finite = np.isfinite(rough)
    best = np.where(finite, rough, -np.inf).argmax(axis=-1)
    chosen[np.arange(queries), best] = True
    chosen |= ~finite.all(axis=0)
    each = min(candidates, -(-sample // max(1, queries)))
    chosen[np.arange(queries)[:, None], np.random.default_rng(0).integers(candidates, size=(queries, each))] = True
    return chosen

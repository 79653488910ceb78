"""The place of the right answers among all candidates, ties included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Ranks(NamedTuple):
    """Rank of the best right answer, 1-based, other right answers taken out.

    :param optimistic: ties below it. :param pessimistic: ties above it. :param realistic: mean of the two.
    """

    optimistic: int
    pessimistic: int

    @property
    def realistic(self) -> float:
        return (self.optimistic + self.pessimistic) / 2


@dataclass
class Found:
    """Where the gold answers of one query stand among its candidates.

    :param ranks: of its best gold answer, known ones taken out; None where no gold answer has a score.
    :param gold_scores: in gold order, NaN where there is none.
    :param gold_ranks: realistic, among all candidates, in gold order; none where they are not known.
    :param top: places of the best candidates and their scores, best first.
    :param scores: of all candidates, where asked for.
    :param above: the rank is greater than this: the search stopped there.
    :param unscored: why there is no rank.
    """

    ranks: Ranks | None
    gold_scores: list[float]
    gold_ranks: list[float]
    top: list[tuple[int, float]]
    scores: NDArray[np.floating[Any]] | None = field(default=None, repr=False)
    above: int | None = None
    unscored: str | None = None


def rank_best(scores: NDArray[np.float64], gold: Sequence[int], known: Sequence[int] = ()) -> Ranks:
    """:param scores: shape (candidates,). :param gold: places of the right answers.

    :param known: places to leave out of the ranking.
    """
    best = scores[list(gold)].max()
    rivals = np.ones(len(scores), dtype=bool)
    rivals[list(gold)] = rivals[list(known)] = False
    above = int((scores[rivals] > best).sum())
    return Ranks(above + 1, above + 1 + int((scores[rivals] == best).sum()))


def unfiltered_ranks(scores: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    """Realistic rank of each place among all candidates."""
    return [float((scores > scores[place]).sum() + 1 + (scores >= scores[place]).sum()) / 2 for place in places]


def top(scores: NDArray[np.float64], ids: Sequence[str], count: int) -> list[int]:
    """Places of the *count* best candidates; equal scores by id, so that the order of candidates decides nothing."""
    places = list(range(len(ids)))
    if len(ids) > count > 0:  # the others need not be sorted
        places = np.flatnonzero(scores >= np.partition(scores, -count)[-count]).tolist()
    return sorted(places, key=lambda place: (-scores[place], ids[place]))[:count]

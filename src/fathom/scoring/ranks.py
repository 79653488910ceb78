"""The place of the right answers among all candidates, ties included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Ranks(NamedTuple):
    """Rank of the best right answer, 1-based, other right answers taken out.

    :param optimistic: ties below it.
    :param pessimistic: ties above it.
    """

    optimistic: int
    pessimistic: int

    @classmethod
    def below(cls, above: int, level: int) -> Ranks:
        """The rank below *above* better rivals and beside *level* equal ones."""
        return cls(above + 1, above + 1 + level)

    @property
    def realistic(self) -> float:
        """The mean of the two: the rank expected when ties are put in random order."""
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
    """The rank of the best right answer, the others left out.

    :param scores: higher is better, shape (candidates,).
    :param gold: places of the right answers.
    :param known: places to leave out of the ranking.
    """
    rivals = np.ones(len(scores), dtype=bool)
    rivals[list(gold)] = rivals[list(known)] = False
    return ranks_among(scores[rivals], scores[list(gold)].max())


def ranks_among(rivals: NDArray[np.float64], score: float) -> Ranks:
    """The rank of a *score* among those of its rivals, shape (rivals,)."""
    return Ranks.below(int((rivals > score).sum()), int((rivals == score).sum()))


def unfiltered_ranks(scores: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    """Realistic rank of each place among all candidates."""
    return [float((scores > scores[place]).sum() + 1 + (scores >= scores[place]).sum()) / 2 for place in places]


def top(scores: NDArray[np.float64], ids: Sequence[str], count: int) -> list[int]:
    """Places of the *count* best candidates; equal scores by id, so that the order of candidates decides nothing."""
    places = list(range(len(ids)))
    if len(ids) > count > 0:  # the others need not be sorted
        places = np.flatnonzero(scores >= np.partition(scores, -count)[-count]).tolist()
    return sorted(places, key=lambda place: (-scores[place], ids[place]))[:count]

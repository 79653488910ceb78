"""Permutations in which nothing stays where it is: of entities by chance, of relations by matching.

What is uniform: with labels that all differ, :func:`uniform_derangement` draws every derangement with the same
probability (Martínez, Panholzer and Prodinger, *Generating random derangements*, ANALCO 2008). With labels that repeat,
nothing may take an equal label, and :func:`derange` draws

- by *rejection* where that is cheap: whole permutations until one fits. Every permitted permutation has the same
  probability, exactly;
- by *swaps* elsewhere: from a permitted permutation, sweeps in which random disjoint pairs swap what they hold, by the
  toss of a coin, if that is permitted. A swap is as likely as its opposite, so that the uniform distribution stays as
  it is under a sweep, and the walk tends to it; it is not reached exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, triu
from scipy.sparse.csgraph import maximum_bipartite_matching

from fathom.data.knowledge import KnowledgeGraph

NO_LABEL = -1
"""The label of what may go anywhere: a missing description, say."""
_MOST_TRIES = 20_000
_MOST_DRAWN = 1 << 28
"""Permutations times elements that rejection may be expected to draw: about five seconds."""
_SWEEPS_TO_REPAIR = 1_000


class Derangement(NamedTuple):
    """:param source: where each place takes its text from, shape (n,).
    :param method: how it was drawn.
    """

    source: NDArray[np.int64]
    method: str


class NoDerangement(Exception):
    """None exists or none was found.

    :param label: the label that more than half of the places bear, or None.
    """

    def __init__(self, label: int | None) -> None:
        self.label = label
        super().__init__(label)


def uniform_derangement(size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """One of all derangements of *size* things, each with the same probability (Martínez et al. 2008).

    A derangement is drawn cycle by cycle from the last open place: it takes what a random other open place holds, and
    that place closes its cycle, and is done, with probability (u − 1) D(u − 2) / D(u), u places being open and D(u)
    being the number of derangements of u things. Linear: two random numbers for each place are expected.

    :raises ValueError: there is none of one thing.
    """
    if size == 1:
        raise ValueError("one thing has no derangement")
    held, done = list(range(size)), bytearray(size)
    block = min(2 * size + 8, 1 << 14)
    chance = (number for _ in count() for number in generator.random(block).tolist())
    place, still_open = size - 1, size
    while still_open >= 2:
        if not done[place]:
            other = int(next(chance) * place)
            while done[other]:
                other = int(next(chance) * place)
            held[place], held[other] = held[other], held[place]
            if next(chance) < _closing(still_open):
                done[other] = 1
                still_open -= 1
            still_open -= 1
        place -= 1
    return np.array(held, dtype=np.int64)


# D(n) = n · D(n − 1) + (−1)ⁿ
_COUNTS = list(accumulate(range(1, 25), lambda before, n: n * before + (-1) ** n, initial=1))


def _closing(still_open: int) -> float:
    """(u − 1) D(u − 2) / D(u), which from u = 25 on is 1 / u to the last digit of a double."""
    if still_open >= len(_COUNTS):
        return 1 / still_open
    return (still_open - 1) * _COUNTS[still_open - 2] / _COUNTS[still_open]


def derange(labels: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> Derangement:
    """A random permutation in which no place takes a text with a label of its own.

    :param labels: one or more labelings of the same places, each of shape (n,): equal numbers are equal texts, and
        :data:`NO_LABEL` equals nothing.
    :raises NoDerangement: a label is borne by more than half of the places, so that there is none; or, with several
        labelings, none was found.
    """
    size = len(labels[0])
    for labeling in labels:
        frequent, count = most_frequent(labeling)
        if 2 * count > size:
            raise NoDerangement(frequent)
    if all(len(np.unique(labeling)) == size and (labeling >= 0).all() for labeling in labels):
        return Derangement(uniform_derangement(size, generator), "uniform (Martínez et al. 2008)")
    # The number of places that a uniform permutation leaves alike is about Poisson with this mean.
    alike = sum(float((np.unique(of[of >= 0], return_counts=True)[1] ** 2.0).sum()) / size for of in labels)
    affordable = min(_MOST_TRIES, _MOST_DRAWN // max(size, 1))
    if alike < math.log(max(affordable, 1)):
        for _ in range(affordable):
            source = generator.permutation(size)
            if not _clashes(labels, np.arange(size), source).any():
                return Derangement(source, "uniform (rejection)")
    return Derangement(_by_swaps(labels, generator), "swaps (tends to uniform)")


def most_frequent(labeling: NDArray[np.int64]) -> tuple[int | None, int]:
    """The label that most places bear, and how many do."""
    values, counts = np.unique(labeling[labeling >= 0], return_counts=True)
    if not len(values):
        return None, 0
    place = int(counts.argmax())
    return int(values[place]), int(counts[place])


def _clashes(
    labels: Sequence[NDArray[np.int64]], places: NDArray[np.int64], taken: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each place would take an equal text."""
    found = np.zeros(len(places), dtype=bool)
    for labeling in labels:
        found |= (labeling[places] == labeling[taken]) & (labeling[places] >= 0)
    return found


def _by_swaps(labels: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> NDArray[np.int64]:
    everywhere = np.arange(len(labels[0]))
    source = _rotated(labels[0], generator)
    for _ in range(_SWEEPS_TO_REPAIR):  # only with several labelings: the first one fits from the start
        if not _clashes(labels, everywhere, source).any():
            break
        _sweep(labels, source, generator)
    else:
        raise NoDerangement(None)
    for _ in range(20 + 4 * math.ceil(math.log2(len(source)))):  # n log n swaps mix a permutation; a sweep has n / 4
        _sweep(labels, source, generator)
    return source


def _sweep(labels: Sequence[NDArray[np.int64]], source: NDArray[np.int64], generator: np.random.Generator) -> None:
    """Random disjoint pairs swap what they hold, in place, where that brings no more equal labels than there are.

    A coin decides of each whether it does: if all had to swap, some permutations could be met only by turns or never.
    """
    pairs = generator.permutation(len(source))
    one, other = pairs[: len(source) // 2], pairs[len(source) // 2 : len(source) // 2 * 2]
    before = _clashes(labels, one, source[one]).astype(np.int8) + _clashes(labels, other, source[other])
    after = _clashes(labels, one, source[other]).astype(np.int8) + _clashes(labels, other, source[one])
    swapped = (after <= before) & (generator.random(len(one)) < 0.5)
    one, other = one[swapped], other[swapped]
    source[one], source[other] = source[other], source[one]


def _rotated(labeling: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Places in the order of their labels, each taking from as far on as the most frequent label is long."""
    order = generator.permutation(len(labeling))
    order = order[np.argsort(labeling[order], kind="stable")]
    source = np.empty_like(order)
    source[order] = np.roll(order, -max(most_frequent(labeling)[1], 1))
    return source


class Matching(NamedTuple):
    """:param source: where each relation takes its name from; itself where it keeps it.
    :param blocked: relations that have too few others to take a name from, when not all could move.
    :param donors: all that those could take a name from.
    :param moved: how many can move at most.
    """

    source: NDArray[np.int64]
    blocked: NDArray[np.int64]
    donors: NDArray[np.int64]
    moved: int


def match_relations(graph: KnowledgeGraph, labels: NDArray[np.int64], generator: np.random.Generator) -> Matching:
    """Algorithm 1 of Sakai et al. 2024: a maximum matching of relations with other relations' names (Hopcroft-Karp).

    Relation i may take j's name if their names differ and no entity pair (head, tail) of any split is linked by both.
    Relations are put in random order first, so that the seed chooses among the matchings. Where no matching moves all,
    ``source`` is the permutation that moves the most (an assignment of least cost, staying put costing one).

    :param labels: equal numbers are equal names, :data:`NO_LABEL` a relation that has none and keeps it.
    """
    size = len(graph.relations)
    allowed = (labels[:, None] != labels[None, :]) & (labels >= 0)[:, None] & (labels >= 0)[None, :]
    one, other = shared_pairs(graph)
    allowed[one, other] = allowed[other, one] = False
    source = np.arange(size)
    takers = np.flatnonzero(labels >= 0)
    rows, columns = generator.permutation(takers), generator.permutation(takers)
    found = maximum_bipartite_matching(csr_array(allowed[np.ix_(rows, columns)]), perm_type="column")
    if (found >= 0).all():
        source[rows] = columns[found]
        nobody = np.zeros(0, dtype=np.int64)
        return Matching(source, nobody, nobody, len(takers))
    blocked, donors = _blocking(allowed, rows, columns, found)
    cost = np.where(allowed, 0.0, math.inf)
    np.fill_diagonal(cost, 1.0)
    within = cost[np.ix_(rows, rows)]
    source[rows] = rows[linear_sum_assignment(within)[1]]
    return Matching(source, blocked, donors, int((source != np.arange(size)).sum()))


def shared_pairs(graph: KnowledgeGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of relations (the smaller row first) that link the same head to the same tail somewhere."""
    pairs, pair = np.unique(graph.head.astype(np.int64) * len(graph.entities) + graph.tail, return_inverse=True)
    cells = (np.ones(len(pair), dtype=np.int64), (graph.relation, pair))
    links = csr_array(cells, shape=(len(graph.relations), len(pairs)))
    one, other = triu(links @ links.T, 1).nonzero()
    return one, other


def _blocking(
    allowed: NDArray[np.bool_], rows: NDArray[np.int64], columns: NDArray[np.int64], found: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Hall's condition where it fails: relations that together have fewer names to take than they are.

    Reached from those without a match by alternating paths: any name they may take, then who has taken that name.
    """
    taker = np.full(len(allowed), -1)
    taker[columns[found[found >= 0]]] = rows[found >= 0]
    blocked = np.zeros(len(allowed), dtype=bool)
    blocked[rows[found < 0]] = True
    while True:
        donors = allowed[blocked].any(axis=0)
        reached = blocked.copy()
        reached[taker[donors]] = True
        if (reached == blocked).all():
            return np.flatnonzero(blocked), np.flatnonzero(donors)
        blocked = reached

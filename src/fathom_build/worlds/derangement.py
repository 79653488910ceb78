"""Derangements (permutations without fixed points): random ones of entities, and matchings of relations.

No place may take an equal label. :func:`derange` draws

- by *rejection* where that is cheap, as where all labels differ: whole permutations until one is permitted. All have
  exactly the same probability;
- by *swaps* elsewhere: from a permitted permutation, sweeps in which random disjoint pairs swap, by the toss of a coin,
  if that is permitted. A swap is as likely as its opposite, so that a sweep preserves the uniform distribution. The
  walk tends to it but does not reach it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, triu
from scipy.sparse.csgraph import maximum_bipartite_matching

from fathom.data.knowledge import KnowledgeGraph

NO_LABEL = -1
"""Label without restrictions, such as of a missing description."""
_MOST_TRIES = 20_000
_MOST_DRAWN = 1 << 28
"""Limit of permutations times elements for rejection: about five seconds."""
_SWEEPS_TO_REPAIR = 1_000


class Derangement(NamedTuple):
    """A permutation: ``source`` has the origin of each place's text, shape (n,), and ``method`` how it was drawn."""

    source: NDArray[np.int64]
    method: str


class NoDerangement(Exception):
    """None exists or none was found. :param label: that of more than half of the places, or None."""

    def __init__(self, label: int | None) -> None:
        self.label = label
        super().__init__(label)


def derange(labels: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> Derangement:
    """Draw a random permutation in which no place takes a text with its own label.

    :param labels: one or more labelings of the same places, each of shape (n,); :data:`NO_LABEL` equals nothing.
    :raises NoDerangement: more than half of the places have one label, or, for several labelings, none was found.
    """
    size = len(labels[0])
    for labeling in labels:
        frequent, count = most_frequent(labeling)
        if 2 * count > size:
            raise NoDerangement(frequent)
    # The number of places with equal labels under a uniform permutation is about Poisson with this mean.
    expected_clashes = sum(
        float((np.unique(part[part >= 0], return_counts=True)[1] ** 2.0).sum()) / size for part in labels
    )
    affordable = min(_MOST_TRIES, _MOST_DRAWN // max(size, 1))
    if expected_clashes < math.log(max(affordable, 1)):
        for _ in range(affordable):
            source = generator.permutation(size)
            if not _clashes(labels, np.arange(size), source).any():
                return Derangement(source, "uniform (rejection)")
    return Derangement(_by_swaps(labels, generator), "swaps (tends to uniform)")


def most_frequent(labeling: NDArray[np.int64]) -> tuple[int | None, int]:
    """Return the most frequent label, and how many places have it."""
    values, counts = np.unique(labeling[labeling >= 0], return_counts=True)
    if not len(values):
        return None, 0
    place = int(counts.argmax())
    return int(values[place]), int(counts[place])


def _clashes(
    labels: Sequence[NDArray[np.int64]], places: NDArray[np.int64], taken: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether each place would take an equal text."""
    clashes = np.zeros(len(places), dtype=bool)
    for labeling in labels:
        clashes |= (labeling[places] == labeling[taken]) & (labeling[places] >= 0)
    return clashes


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
    """Swap random disjoint pairs in place if that does not increase the number of equal labels.

    A coin decides for each pair: if all had to swap, some permutations were reached only alternately or never.
    """
    pairs = generator.permutation(len(source))
    first, second = pairs[: len(source) // 2], pairs[len(source) // 2 : len(source) // 2 * 2]
    before = _clashes(labels, first, source[first]).astype(np.int8) + _clashes(labels, second, source[second])
    after = _clashes(labels, first, source[second]).astype(np.int8) + _clashes(labels, second, source[first])
    swapped = (after <= before) & (generator.random(len(first)) < 0.5)
    first, second = first[swapped], second[swapped]
    source[first], source[second] = source[second], source[first]


def _rotated(labeling: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Order places by label, and rotate them by the size of the most frequent label."""
    order = generator.permutation(len(labeling))
    order = order[np.argsort(labeling[order], kind="stable")]
    source = np.empty_like(order)
    source[order] = np.roll(order, -max(most_frequent(labeling)[1], 1))
    return source


def match_relations(
    graph: KnowledgeGraph, labels: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Match relations with other relations' names (Sakai et al. 2024, algorithm 1: Hopcroft-Karp).

    Relation i may take j's name if their names differ and no entity pair (head, tail) of any split is linked by both.
    The order of relations is random, so that the seed chooses among the matchings. If no matching moves all, the result
    is the permutation that moves most (an assignment of least cost, where staying costs one).

    :param labels: equal numbers are equal names; :data:`NO_LABEL` is a relation without a name.
    :returns: the relation whose name each takes, possibly itself.
    """
    size = len(graph.relations)
    allowed = (labels[:, None] != labels[None, :]) & (labels >= 0)[:, None] & (labels >= 0)[None, :]
    first, second = shared_pairs(graph)
    allowed[first, second] = allowed[second, first] = False
    source = np.arange(size)
    takers = np.flatnonzero(labels >= 0)
    rows, columns = generator.permutation(takers), generator.permutation(takers)
    matched = maximum_bipartite_matching(csr_array(allowed[np.ix_(rows, columns)]), perm_type="column")
    if (matched >= 0).all():
        source[rows] = columns[matched]
        return source
    cost = np.where(allowed, 0.0, math.inf)
    np.fill_diagonal(cost, 1.0)
    source[rows] = rows[linear_sum_assignment(cost[np.ix_(rows, rows)])[1]]
    return source


def shared_pairs(graph: KnowledgeGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find pairs of relations (the smaller row first) that link a head to the same tail."""
    pairs, pair = np.unique(graph.head.astype(np.int64) * len(graph.entities) + graph.tail, return_inverse=True)
    cells = (np.ones(len(pair), dtype=np.int64), (graph.relation, pair))
    links = csr_array(cells, shape=(len(graph.relations), len(pairs)))
    first, second = triu(links @ links.T, 1).nonzero()
    return first, second

"""What the training triples say of an entity: its neighbours, and the right answers to a question about it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.scoring.trie import Lookup

REACHED = 100_000
"""More entities than this are no neighbourhood (as in the code of Wang et al. 2022)."""


class Grouped:
    """The distinct values of each key, ascending. :param keys, values: pairs, shape (n,)."""

    def __init__(self, keys: NDArray[np.int64], values: Places) -> None:
        order = np.lexsort((values, keys))
        keys, values = keys[order], values[order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
        self.values, self._places = values[new], Lookup(keys[new])

    def of(self, keys: NDArray[np.int64]) -> tuple[Places, Places]:
        """Their values, and for each the place of its key among *keys*, which comes first."""
        owner, place = self._places.of(keys)
        return owner, self.values[place]


class TrainingTriples:
    """The training triples in both directions; all of the graph's where it has no splits.

    A relation's number counts the graph's relations and then their inverses.

    :param head, relation, tail: (h, r, t) of each triple, then (t, inverse r, h) of each; shape (2 × triples,).
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        given, relation, asked = graph.columns(graph.training)
        self.relations = 2 * len(graph.relations)
        self.head, self.tail = np.concatenate([given, asked]), np.concatenate([asked, given])
        self.relation = np.concatenate([relation, relation + len(graph.relations)])
        self._answers = Grouped(self._key(self.head, self.relation), self.tail)
        self._linked = Grouped(self.head, self.tail)

    def __len__(self) -> int:
        return len(self.head)

    def _key(self, head: Places, relation: Places) -> NDArray[np.int64]:
        return head * self.relations + relation

    def known(self, head: Places, relation: Places, answers: Places) -> NDArray[np.bool_]:
        """Which of m entities are right answers to which of n questions (head, relation, ?); shape (n, m)."""
        owner, right = self._answers.of(self._key(head, relation))
        index, column = Lookup(answers).of(right)
        found = np.zeros((len(head), len(answers)), dtype=bool)
        found[owner[index], column] = True
        return found

    def neighbours(self, entity: int, most: int) -> list[int]:
        """The first entities of the graph that are linked to it, itself left out."""
        linked = self._linked.of(np.array([entity]))[1]
        return linked[linked != entity][:most].tolist()  # type: ignore[no-any-return]

    def within(self, entity: int, hops: int) -> Places:
        """The entity and those at most so many links away, ascending; nobody where they are over :data:`REACHED`."""
        seen = frontier = np.array([entity], dtype=np.int64)
        for _ in range(hops):
            frontier = np.setdiff1d(self._linked.of(frontier)[1], seen)
            if not len(frontier):
                break
            seen = np.union1d(seen, frontier)
            if len(seen) > REACHED:
                return np.zeros(0, dtype=np.int64)
        return seen

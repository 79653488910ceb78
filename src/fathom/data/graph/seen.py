"""What of an asked triple the training triples show: its halves, and how often its answer occurs.

Of (h, r, t) the halves are (h, r), whether the head has other tails by the relation in training, and (r, t), whether
the tail has other heads. With neither a link predictor must go by other relations; with both it may recombine.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fathom.data.knowledge import KnowledgeGraph, Places

BOTH, HEAD, TAIL, NEITHER = "(h, r) and (r, t)", "(h, r) alone", "(r, t) alone", "neither"
HALVES = (BOTH, HEAD, TAIL, NEITHER)
TRAIN = "train"
_WIDTH = 4


class Training:
    """Counts of a graph's training triples."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.span = graph, graph.splits[TRAIN]

    def halves(self, rows: Places) -> list[str]:
        """One of :data:`HALVES` for each triple; a training triple does not count as seen by itself.

        :param rows: places of triples in the graph, shape (n,).
        """
        own = ((rows >= self.span.start) & (rows < self.span.stop)).astype(np.int64)
        heads, tails = (
            _counts(counted, keys_of(self.graph, rows, ends)) > own
            for ends, counted in ((self.graph.head, self._of_heads), (self.graph.tail, self._of_tails))
        )
        return [
            (BOTH if tail else HEAD) if head else (TAIL if tail else NEITHER)
            for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)
        ]

    def triples_of(self, entities: NDArray[np.int32]) -> NDArray[np.int64]:
        """In how many training triples each of some entities stands, as head or tail; shape (n,)."""
        counts: NDArray[np.int64] = self._of_entities[entities]
        return counts

    @cached_property
    def _of_heads(self) -> tuple[Places, Places]:
        return self._counted(self.graph.head)

    @cached_property
    def _of_tails(self) -> tuple[Places, Places]:
        return self._counted(self.graph.tail)

    @cached_property
    def _of_entities(self) -> NDArray[np.int64]:
        part = slice(self.span.start, self.span.stop)
        ends = np.concatenate([self.graph.head[part], self.graph.tail[part]])
        return np.bincount(ends, minlength=len(self.graph.entities))

    def _counted(self, ends: NDArray[np.int32]) -> tuple[Places, Places]:
        """Keys of an end with a relation, sorted, and how many training triples have each."""
        rows = np.arange(self.span.start, self.span.stop, dtype=np.int64)
        return np.unique(keys_of(self.graph, rows, ends), return_counts=True)


def keys_of(graph: KnowledgeGraph, rows: Places, ends: NDArray[np.int32]) -> Places:
    """A number for each pair of an end and a relation.

    :param rows: places of triples, shape (n,).
    :param ends: head, or tail, of every triple of the graph.
    """
    keys: Places = ends[rows].astype(np.int64) * len(graph.relations) + graph.relation[rows]
    return keys


def training_of(graph: KnowledgeGraph) -> Training | None:
    """None of a graph without a training split."""
    return Training(graph) if len(graph.splits.get(TRAIN, ())) else None


def popularity(count: int) -> str:
    """The class of an answer that stands in so many training triples: "0", "1 to 3", "4 to 15", "16 to 63", …"""
    least = 1
    while least * _WIDTH <= count:
        least *= _WIDTH
    return f"{least} to {least * _WIDTH - 1}" if count else "0"


def _counts(counted: tuple[Places, Places], keys: Places) -> Places:
    known, counts = counted
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, counts[place], 0)

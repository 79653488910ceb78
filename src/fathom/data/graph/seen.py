"""Training evidence for a queried triple: its halves, the frequency of its answer, and its rank by that frequency.

The halves of (h, r, t) are (h, r), if the head has other tails by the relation in training, and (r, t), if the tail has
other heads. With neither, a link predictor needs other relations; with both it may recombine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.data.queries import CandidateSet, Query, QuerySet

BOTH, HEAD, TAIL, NEITHER = "(h, r) and (r, t)", "(h, r) alone", "(r, t) alone", "neither"
HALVES = (BOTH, HEAD, TAIL, NEITHER)
TRAIN = "train"
_WIDTH = 4


class Training:
    """Counts of a graph's training triples."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.span = graph, graph.splits[TRAIN]

    def halves(self, rows: Places) -> list[str]:
        """Return one of :data:`HALVES` for each triple, not counting the triple itself.

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
        """Return the number of training triples with each entity as head or tail; shape (n,)."""
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
        """Return the sorted keys of an end with a relation, and their counts in training."""
        rows = np.arange(self.span.start, self.span.stop, dtype=np.int64)
        return np.unique(keys_of(self.graph, rows, ends), return_counts=True)


class FrequencyRank(NamedTuple):
    """Rank of a query's best gold answer by training frequency, before and after its ties."""

    optimistic: int
    pessimistic: int


def frequency_ranks(data: QuerySet) -> list[FrequencyRank | None]:
    """Rank each query's gold answer by how often candidates answer its relation and direction in the training split.

    An answerer with these ranks never reads the subject. Other right answers are filtered, as in the ranking itself,
    and a query's own triple does not count if it is part of the training split.

    :returns: one per query; None without a training split, or if no gold answer is a candidate.
    """
    graph = data.graph
    if graph is None or not len(graph.splits.get(TRAIN, ())):
        return [None] * len(data.queries)
    frequencies = _Frequencies(graph)
    return [frequencies.rank(query, data.candidates[query.candidates]) for query in data.queries]


class _Frequencies:
    def __init__(self, graph: KnowledgeGraph) -> None:
        part = slice(graph.splits[TRAIN].start, graph.splits[TRAIN].stop)
        self._head, self._relation, self._tail = graph.head[part], graph.relation[part], graph.tail[part]
        self._entities: list[str] = graph.entities.column("id").to_pylist()
        self._relations = {id_: place for place, id_ in enumerate(graph.relations.column("id").to_pylist())}
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        self._triples: dict[str, set[tuple[str, str]]] = {}
        self._sorted: dict[tuple[str, str, str], NDArray[np.int64]] = {}

    def rank(self, query: Query, space: CandidateSet) -> FrequencyRank | None:
        if query.relation not in self._relations:
            return None
        counts = self._counts_of(query.relation, query.direction)
        golds = {id_: counts.get(id_, 0) - self._is_trained(query, id_) for id_ in query.gold if id_ in space.position}
        if not golds:
            return None
        best = max(golds.values())
        ordered = self._sorted_counts(query, space, counts)
        filtered = [counts.get(id_, 0) for id_ in {*query.gold, *query.known} if id_ in space.position]
        above = len(ordered) - int(np.searchsorted(ordered, best, "right")) - sum(count > best for count in filtered)
        upto = (
            len(space) - len(filtered)
            if best == 0
            else (len(ordered) - int(np.searchsorted(ordered, best, "left")) - sum(count >= best for count in filtered))
        )
        return FrequencyRank(1 + above, 1 + upto)

    def _is_trained(self, query: Query, answer: str) -> int:
        head, tail = (query.subject_id, answer) if query.direction == "tail" else (answer, query.subject_id)
        if query.relation not in self._triples:
            rows = self._relation == self._relations[query.relation]
            ends = (self._names(ends[rows]) for ends in (self._head, self._tail))
            self._triples[query.relation] = set(zip(*ends, strict=True))
        return int((head, tail) in self._triples[query.relation])

    def _names(self, places: NDArray[np.int32]) -> Iterable[str]:
        return map(self._entities.__getitem__, places.tolist())

    def _counts_of(self, relation: str, direction: str) -> dict[str, int]:
        key = relation, direction
        if key not in self._counts:
            ends = self._tail if direction == "tail" else self._head
            answers, number = np.unique(ends[self._relation == self._relations[relation]], return_counts=True)
            self._counts[key] = dict(zip(self._names(answers), number.tolist(), strict=True))
        return self._counts[key]

    def _sorted_counts(self, query: Query, space: CandidateSet, counts: dict[str, int]) -> NDArray[np.int64]:
        key = query.relation, query.direction, space.name
        if key not in self._sorted:
            self._sorted[key] = np.sort([count for id_, count in counts.items() if id_ in space.position]).astype(int)
        return self._sorted[key]


def keys_of(graph: KnowledgeGraph, rows: Places, ends: NDArray[np.int32]) -> Places:
    """Return a number for each pair of an end and a relation.

    :param rows: places of triples, shape (n,).
    :param ends: head or tail of all triples of the graph.
    """
    keys: Places = ends[rows].astype(np.int64) * len(graph.relations) + graph.relation[rows]
    return keys


def training_of(graph: KnowledgeGraph) -> Training | None:
    """Return the training counts, or None without a training split."""
    return Training(graph) if len(graph.splits.get(TRAIN, ())) else None


def popularity(count: int) -> str:
    """Return the class of an answer by its training triples: "0", "1 to 3", "4 to 15", "16 to 63", …"""
    least = 1
    while least * _WIDTH <= count:
        least *= _WIDTH
    return f"{least} to {least * _WIDTH - 1}" if count else "0"


def _counts(counted: tuple[Places, Places], keys: Places) -> Places:
    known, counts = counted
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, counts[place], 0)

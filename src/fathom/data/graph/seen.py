"""Training evidence for a queried triple: its halves, the frequency of its answer, and its rank by that frequency.

The halves of (h, r, t) are (h, r), if the head has other tails by the relation in training, and (r, t), if the tail has
other heads. With neither, a link predictor needs other relations; with both it may recombine.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
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
        rows, ends = np.arange(self.span.start, self.span.stop, dtype=np.int64), (graph.head, graph.tail)
        self._known = [np.unique(keys_of(graph, rows, column), return_counts=True) for column in ends]
        occurring = np.concatenate([column[rows] for column in ends])
        self._of_entities: NDArray[np.int64] = np.bincount(occurring, minlength=len(graph.entities))

    def halves(self, rows: Places) -> list[str]:
        """Return one of :data:`HALVES` for each triple, not counting the triple itself."""
        is_trained = ((rows >= self.span.start) & (rows < self.span.stop)).astype(np.int64)
        heads, tails = (
            _counts(counted, keys_of(self.graph, rows, ends)) > is_trained
            for ends, counted in zip((self.graph.head, self.graph.tail), self._known, strict=True)
        )
        return [
            (BOTH if tail else HEAD) if head else (TAIL if tail else NEITHER)
            for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)
        ]

    def triples_of(self, entities: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the number of training triples with each entity as head or tail; shape (n,)."""
        return np.asarray(self._of_entities[entities])


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
    """Counts of answers in the training split, by relation and direction."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph, self._entities = graph, graph.entities.column("id").to_pylist()
        self._relations = {id_: place for place, id_ in enumerate(graph.relations.column("id").to_pylist())}
        self._triples_of, self._counts_of = cache(self._triples), cache(self._counts)
        self._sorted: dict[tuple[str, str, str], NDArray[np.int64]] = {}

    def rank(self, query: Query, space: CandidateSet) -> FrequencyRank | None:
        if query.relation not in self._relations:
            return None
        counts, trained = self._counts_of(query.relation, query.direction), self._triples_of(query.relation)
        golds = []
        for id_ in set(query.gold) & space.position.keys():
            ends = (query.subject_id, id_) if query.direction == "tail" else (id_, query.subject_id)
            golds.append(counts[id_] - (ends in trained))
        if not golds:
            return None
        best = max(golds)
        key = query.relation, query.direction, space.name
        if key not in self._sorted:
            self._sorted[key] = np.sort([count for id_, count in counts.items() if id_ in space.position]).astype(int)
        ordered = self._sorted[key]
        filtered = [counts[id_] for id_ in {*query.gold, *query.known} if id_ in space.position]
        above = len(ordered) - int(np.searchsorted(ordered, best, "right")) - sum(count > best for count in filtered)
        upto = len(ordered) - int(np.searchsorted(ordered, best, "left")) - sum(count >= best for count in filtered)
        return FrequencyRank(1 + above, 1 + (upto if best else len(space) - len(filtered)))

    def _triples(self, relation: str) -> Counter[tuple[str, str]]:
        """Return head and tail of the training triples of a relation."""
        span = self._graph.splits[TRAIN]
        rows = np.arange(span.start, span.stop)
        rows = rows[self._graph.relation[rows] == self._relations[relation]]
        heads, tails = (
            [self._entities[place] for place in ends[rows].tolist()] for ends in (self._graph.head, self._graph.tail)
        )
        return Counter(zip(heads, tails, strict=True))

    def _counts(self, relation: str, direction: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for (head, tail), number in self._triples_of(relation).items():
            counts[tail if direction == "tail" else head] += number
        return counts


def keys_of(graph: KnowledgeGraph, rows: Places, ends: NDArray[np.int32]) -> Places:
    """Return a number for each pair of an end and a relation. :param ends: head or tail of all triples of the graph."""
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
    seen, counts = counted
    place = np.minimum(np.searchsorted(seen, keys), len(seen) - 1)
    return np.where(seen[place] == keys, counts[place], 0)

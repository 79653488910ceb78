"""Queries from a knowledge graph: one for each triple of a split, made only when it is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation

ENTITIES = "entities"
"""Name of the candidate set that all queries of a graph share."""
BLOCK = 1 << 16


class TripleQueries(Sequence[Query]):
    """(head, relation, ?) for rows of a graph; a :class:`Query` is made when it is looked at.

    A query's other right answers are the tails of the same head and relation in *all* splits.

    :param rows: which triples, shape (queries,). :param split: their split, "" for all triples.
    """

    def __init__(self, graph: KnowledgeGraph, rows: NDArray[np.int64], split: str) -> None:
        self.graph, self.rows, self.split = graph, rows, split
        self._cardinality = ["1:1" if one else "1:N" for one in _one_to_one(graph, rows)]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Query, ...]: ...
    def __getitem__(self, index: int | slice) -> Query | tuple[Query, ...]:
        if isinstance(index, slice):
            return self.make(self.rows[index])
        return self.make(self.rows[[index]])[0]

    def __iter__(self) -> Iterator[Query]:
        for start in range(0, len(self.rows), BLOCK):
            yield from self.make(self.rows[start : start + BLOCK])

    def cardinality(self, relation: int) -> str:
        """Among these queries, "1:1" or "1:N". :param relation: its row in the graph."""
        return self._cardinality[relation]

    def rows_of(self, ids: Collection[str]) -> NDArray[np.int64]:
        """Rows of queries by their id; an unknown id has none."""
        numbers = [id_.removeprefix(f"{self._prefix}/") for id_ in ids if id_.startswith(f"{self._prefix}/")]
        rows = np.array([int(number) for number in numbers if number.isdecimal()], dtype=np.int64) + self._first
        return np.intersect1d(rows, self.rows)

    @property
    def _prefix(self) -> str:
        return self.split or "triple"

    @property
    def _first(self) -> int:
        return self.graph.splits[self.split].start if self.split else 0

    def make(self, rows: NDArray[np.int64]) -> tuple[Query, ...]:
        """The queries of some of :attr:`rows`."""
        graph, prefix, first = self.graph, self._prefix, self._first
        heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
        relation_ids, relation_names = (graph.relations.column(name).to_pylist() for name in ("id", "name"))
        columns = (
            rows.tolist(),
            graph.relation[rows].tolist(),
            heads.column("id").to_pylist(),
            heads.column("name").to_pylist(),
            tails.column("id").to_pylist(),
            tails.column("name").to_pylist(),
            _right_answers(graph, rows),
        )
        return tuple(
            Query(
                id=f"{prefix}/{row - first}",
                relation=relation_ids[relation],
                subject=subject,
                subject_id=subject_id,
                gold=(gold,),
                candidates=ENTITIES,
                known=tuple(answer for answer in answers if answer != gold),
                groups={"cardinality": self._cardinality[relation]},
                unscored=_why_not(subject, relation_names[relation], gold_name),
            )
            for row, relation, subject_id, subject, gold, gold_name, answers in zip(*columns, strict=True)
        )


@dataclass(frozen=True)
class GraphQuerySet(QuerySet):
    """The queries of one split of a graph.

    :param split: which; "" where the graph has no splits, or none of the default name, and all triples are asked.
    """

    split: str = ""

    @cached_property
    def content_hash(self) -> str:
        """Digest of the whole graph and the split asked: few-shot lines come from the other triples."""
        assert self.graph is not None
        whole = f"{self.graph.content_hash}|{self.split}"
        if not isinstance(self.queries, TripleQueries):
            whole += f"|{super().content_hash}"
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def graph_queryset(graph: KnowledgeGraph, split: str | None = None, **about: Any) -> GraphQuerySet:
    """:param split: by default ``test``, else ``dev``, else all triples. :param about: name, licence, notes…"""
    if split is None:
        split = next((name for name in ("test", "dev") if name in graph.splits), "")
    span = graph.splits[split] if split else range(len(graph))
    queries = TripleQueries(graph, np.arange(span.start, span.stop, dtype=np.int64), split)
    ids, names = (graph.relations.column(column).to_pylist() for column in ("id", "name"))
    asked = np.unique(graph.relation[span.start : span.stop]).tolist()
    relations = {ids[row]: Relation(ids[row], names[row], (), queries.cardinality(row)) for row in asked}
    return GraphQuerySet(
        queries=queries, candidates=EntityCandidates(graph), relations=relations, graph=graph, split=split, **about
    )


class EntityCandidates(Mapping[str, CandidateSet]):
    """The one candidate set of a graph, made when it is asked for: every entity that has a name."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Entities that have a name."""
        return np.flatnonzero(_named(self.graph.entities))

    @cached_property
    def _all(self) -> CandidateSet:
        return candidate_set(self.graph, self.rows)

    def __getitem__(self, name: str) -> CandidateSet:
        if name != ENTITIES:
            raise KeyError(name)
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter((ENTITIES,))

    def __len__(self) -> int:
        return 1


def candidate_set(graph: KnowledgeGraph, rows: NDArray[np.int64]) -> CandidateSet:
    """Some entities of a graph, in their order; without descriptions where nobody has any."""
    entities = graph.entities.take(rows)
    ids, names, descriptions = (tuple(entities.column(c).to_pylist()) for c in ("id", "name", "description"))
    return CandidateSet(ENTITIES, ids, names, descriptions if any(descriptions) else None)


def _named(entities: pa.Table) -> NDArray[np.bool_]:
    named: NDArray[np.bool_] = pc.not_equal(pc.utf8_trim_whitespace(entities.column("name")), "").to_numpy()
    return named


def _why_not(subject: str, relation: str, answer: str) -> str | None:
    names = {"subject": subject, "relation": relation, "gold answer": answer}
    return next((f"the {what} has no name" for what, name in names.items() if not name.strip()), None)


def _one_to_one(graph: KnowledgeGraph, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each relation, whether every tail occurs once among *rows*; shape (relations,)."""
    keys = graph.relation[rows].astype(np.int64) * len(graph.entities) + graph.tail[rows]
    keys.sort()
    once = np.ones(len(graph.relations), dtype=bool)
    once[keys[1:][keys[1:] == keys[:-1]] // max(len(graph.entities), 1)] = False
    return once


def _right_answers(graph: KnowledgeGraph, rows: NDArray[np.int64]) -> list[list[str]]:
    """For each of *rows*, the ids of all named tails of its head and relation, in any split."""
    wanted = np.zeros(len(graph.entities), dtype=bool)
    wanted[graph.head[rows]] = True
    near = np.flatnonzero(wanted[graph.head])  # triples of the same heads: few, so that little is sorted
    keys, tails = _keys(graph, near), graph.tail[near]
    order = np.lexsort((tails, keys))
    keys, tails = keys[order], tails[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]) | (tails[1:] != tails[:-1])
    new &= _named(graph.entities)[tails]
    keys, ids = keys[new], graph.entities.column("id").take(tails[new]).to_pylist()
    asked = _keys(graph, rows)
    starts, ends = np.searchsorted(keys, asked, "left"), np.searchsorted(keys, asked, "right")
    return [ids[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _keys(graph: KnowledgeGraph, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = graph.head[rows].astype(np.int64) * len(graph.relations) + graph.relation[rows]
    return keys

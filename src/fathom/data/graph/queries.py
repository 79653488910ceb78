"""Queries of a knowledge graph: one per triple of a split, made on access."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.data.columns import is_blank
from fathom.data.graph.seen import Training, keys_of, popularity, training_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import (
    ENTITIES,
    OF_ANSWER,
    POPULARITY,
    SEEN,
    CandidateSet,
    Direction,
    Query,
    QuerySet,
    Relation,
)
from fathom.data.templates import Template

BLOCK = 1 << 16


class TripleQueries(Sequence[Query]):
    """(head, relation, ?) for rows of a graph; a :class:`Query` is made on access.

    A query's other correct answers are the tails of the same head and relation in *all* splits, or the heads of the
    same relation and tail.

    :param rows: which triples, shape (triples,).
    :param split: their split, "" for all triples.
    :param directions: queries of each triple, in this order; "head" adds (?, relation, tail).
    :param all_entities: whether entities without a name are candidates, as link predictors need no names.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        rows: NDArray[np.int64],
        split: str,
        directions: tuple[Direction, ...] = ("tail",),
        all_entities: bool = False,
    ) -> None:
        self.graph, self.rows, self.split = graph, rows, split
        self.directions, self.all_entities = directions, all_entities
        self._prefix, self._first = split or "triple", graph.splits[split].start if split else 0
        self.cardinality = ["1:1" if is_one_to_one else "1:N" for is_one_to_one in _one_to_one(graph, rows)]
        """Cardinality of each relation of the graph among these queries."""

    def asked(self, directions: tuple[Direction, ...]) -> TripleQueries:
        """Return the same triples in other directions."""
        return TripleQueries(self.graph, self.rows, self.split, directions, self.all_entities)

    @cached_property
    def _training(self) -> Training | None:
        return training_of(self.graph)

    def answers(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the places of gold answers of some of :attr:`rows`, shape (directions, rows)."""
        ends = {"tail": self.graph.tail, "head": self.graph.head}
        return np.stack([ends[direction][rows] for direction in self.directions])

    def __len__(self) -> int:
        return len(self.rows) * len(self.directions)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Query, ...]: ...
    def __getitem__(self, index: int | slice) -> Query | tuple[Query, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(len(self))[index])
        row, direction = divmod(range(len(self))[index], len(self.directions))
        return self.make(self.rows[[row]])[direction]

    def __iter__(self) -> Iterator[Query]:
        for start in range(0, len(self.rows), BLOCK):
            yield from self.make(self.rows[start : start + BLOCK])

    def rows_of(self, ids: Collection[str]) -> NDArray[np.int64]:
        """Return the rows of queries by id; unknown ids are skipped."""
        numbers = [id_.removeprefix(f"{self._prefix}/") for id_ in ids if id_.startswith(f"{self._prefix}/")]
        rows = np.array([int(number) for number in numbers if number.isdecimal()], dtype=np.int64) + self._first
        return np.intersect1d(rows, self.rows)

    def make(self, rows: NDArray[np.int64]) -> tuple[Query, ...]:
        """Make the queries of some of :attr:`rows`: for each row, one per direction."""
        by_direction = [self._make(rows, direction) for direction in self.directions]
        return tuple(query for queries in zip(*by_direction, strict=True) for query in queries)

    def _make(self, rows: NDArray[np.int64], direction: Direction) -> tuple[Query, ...]:
        graph = self.graph
        subject_end, answer_end = (graph.head, graph.tail) if direction == "tail" else (graph.tail, graph.head)
        subjects, answers = graph.entities.take(subject_end[rows]), graph.entities.take(answer_end[rows])
        relation_ids, relation_names = (graph.relations.column(name).to_pylist() for name in ("id", "name"))
        columns = (
            rows.tolist(),
            graph.relation[rows].tolist(),
            subjects.column("id").to_pylist(),
            subjects.column("name").to_pylist(),
            answers.column("id").to_pylist(),
            answers.column("name").to_pylist(),
            _right_answers(graph, rows, subject_end, answer_end, self.all_entities),
            self._groups(rows, answer_end),
        )
        return tuple(
            Query(
                id=f"{self._prefix}/{row - self._first}" + ("" if direction == "tail" else "/head"),
                relation=relation_ids[relation],
                subject=subject,
                subject_id=subject_id,
                gold=(gold,),
                candidates=ENTITIES,
                direction=direction,
                known=tuple(answer for answer in right if answer != gold),
                groups={"cardinality": self.cardinality[relation]} | more,
                unscored=None if self.all_entities else _nameless(subject, relation_names[relation], gold_name),
            )
            for row, relation, subject_id, subject, gold, gold_name, right, more in zip(*columns, strict=True)
        )

    def _groups(self, rows: NDArray[np.int64], asked: NDArray[np.int32]) -> list[dict[str, str]]:
        """Return the training evidence of each triple for link predictors; nothing without a training split."""
        if not self.all_entities or self._training is None:
            return [{}] * len(rows)
        counts = self._training.triples_of(asked[rows]).tolist()
        return [
            {SEEN: halves, OF_ANSWER: str(count), POPULARITY: popularity(count)}
            for halves, count in zip(self._training.halves(rows), counts, strict=True)
        ]


@dataclass(frozen=True, repr=False)
class GraphQuerySet(QuerySet):
    """The queries of one split of a graph.

    :param split: "" if all triples are queried: as chosen, or without a split of the default name.
    :param wrong: ids of wrong tails by split, for each of its triples. Queries of such a split have these candidates.
    """

    split: str = ""
    templates: Mapping[str, tuple[Template, ...]] = field(default_factory=dict)
    wrong: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    has_sentences = False  # known without making queries

    @property
    def about(self) -> dict[str, Any]:
        """The arguments of :func:`graph_queryset` that do not depend on split or direction."""
        names = ("name", "version", "licence", "subsets", "notes", "templates", "wrong")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def content_hash(self) -> str:
        """Digest of the whole graph and the split, as few-shot lines come from other triples."""
        assert self.graph is not None
        whole = f"{self.graph.content_hash}|{self.split}"
        if self.templates:
            whole += "|" + json.dumps(
                {id_: [template.text for template in texts] for id_, texts in sorted(self.templates.items())}
            )
        if not isinstance(self.queries, TripleQueries):
            whole += f"|{super().content_hash}"
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def graph_queryset(
    graph: KnowledgeGraph,
    split: str | None = None,
    *,
    directions: tuple[Direction, ...] = ("tail",),
    all_entities: bool = False,
    templates: Mapping[str, tuple[Template, ...]] | None = None,
    **about: Any,
) -> GraphQuerySet:
    """Make the queries of a split of a graph.

    :param split: by default ``test``, else ``dev``, else all triples.
    :param directions, all_entities: see :class:`TripleQueries`.
    """
    templates = templates or {}
    if split is None:
        split = next((name for name in ("test", "dev") if name in graph.splits), "")
    span = graph.splits[split] if split else range(len(graph))
    rows = np.arange(span.start, span.stop, dtype=np.int64)
    queries = TripleQueries(graph, rows, split, directions, all_entities)
    ids, names = (graph.relations.column(column).to_pylist() for column in ("id", "name"))
    asked = np.unique(graph.relation[span.start : span.stop]).tolist()
    relations = {
        ids[row]: Relation(ids[row], names[row], templates.get(ids[row], ()), queries.cardinality[row]) for row in asked
    }
    queryset = GraphQuerySet(
        queries=queries,
        candidates=EntityCandidates(graph, all_entities),
        relations=relations,
        graph=graph,
        split=split,
        templates=templates,
        **about,
    )
    if split not in queryset.wrong or all_entities:
        return queryset
    paired, spaces = _paired(queries, queryset.wrong[split])
    return replace(queryset, queries=paired, candidates=spaces)


def _paired(
    queries: TripleQueries, wrong: Sequence[tuple[str, ...]]
) -> tuple[tuple[Query, ...], dict[str, CandidateSet]]:
    """Return the queries that have wrong answers, each with its own candidates; equal ones share them."""
    spaces: dict[tuple[str, ...], CandidateSet] = {}
    paired = []
    every = candidate_set(queries.graph, np.arange(len(queries.graph.entities)))
    for query, others in zip(queries, wrong, strict=True):
        if others:
            ids = (*query.gold, *others)
            if ids not in spaces:
                spaces[ids] = replace(every.keep(every.places(ids)), name=query.id)
            paired.append(replace(query, candidates=spaces[ids].name, known=()))
    return tuple(paired), {space.name: space for space in spaces.values()}


def link_queryset(data: QuerySet, directions: tuple[Direction, ...] = ("tail", "head")) -> GraphQuerySet:
    """Return the graph's queries for link prediction: both directions, with all entities as candidates.

    :raises BadInput: *data* is no knowledge graph.
    """
    graph = graph_of(data)
    assert isinstance(data, GraphQuerySet)
    return graph_queryset(graph, data.split, directions=directions, all_entities=True, **data.about)


def graph_of(data: QuerySet) -> KnowledgeGraph:
    """:raises BadInput: *data* is no knowledge graph."""
    if not isinstance(data, GraphQuerySet) or data.graph is None:
        raise BadInput(f"{data.name} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    return data.graph


class EntityCandidates(Mapping[str, CandidateSet]):
    """The candidate set of a graph, made on access: all entities with a name, or all entities."""

    def __init__(self, graph: KnowledgeGraph, all_entities: bool = False) -> None:
        self.graph, self.all_entities = graph, all_entities

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Places of the candidates among the entities."""
        if self.all_entities:
            return np.arange(len(self.graph.entities))
        return np.flatnonzero(~is_blank(self.graph.entities.column("name")))

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
    """Return some entities of a graph as candidates, without descriptions if none has one."""
    entities = graph.entities.take(rows)
    ids, names, descriptions = (tuple(entities.column(c).to_pylist()) for c in ("id", "name", "description"))
    return CandidateSet(ENTITIES, ids, names, descriptions if any(descriptions) else None)


def _nameless(subject: str, relation: str, answer: str) -> str | None:
    names = {"subject": subject, "relation": relation, "gold answer": answer}
    return next((f"the {what} has no name" for what, name in names.items() if not name.strip()), None)


def _one_to_one(graph: KnowledgeGraph, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether every tail of a relation occurs once among *rows*; shape (relations,)."""
    keys = graph.relation[rows].astype(np.int64) * len(graph.entities) + graph.tail[rows]
    keys.sort()
    once = np.ones(len(graph.relations), dtype=bool)
    once[keys[1:][keys[1:] == keys[:-1]] // max(len(graph.entities), 1)] = False
    return once


def _right_answers(
    graph: KnowledgeGraph,
    rows: NDArray[np.int64],
    subject_end: NDArray[np.int32],
    answer_end: NDArray[np.int32],
    all_entities: bool,
) -> list[list[str]]:
    """Return, for each of *rows*, the ids of all (named) answers to the given end and relation, in any split.

    :param subject_end, answer_end: head and tail of each triple, or tail and head.
    """
    wanted = np.zeros(len(graph.entities), dtype=bool)
    wanted[subject_end[rows]] = True
    near = np.flatnonzero(wanted[subject_end])  # triples of the same entities: few to sort
    keys, answers = keys_of(graph, near, subject_end), answer_end[near]
    order = np.lexsort((answers, keys))
    keys, answers = keys[order], answers[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]) | (answers[1:] != answers[:-1])
    if not all_entities:
        new &= ~is_blank(graph.entities.column("name"))[answers]
    keys, ids = keys[new], graph.entities.column("id").take(answers[new]).to_pylist()
    sought = keys_of(graph, rows, subject_end)
    starts, ends = np.searchsorted(keys, sought, "left"), np.searchsorted(keys, sought, "right")
    return [ids[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

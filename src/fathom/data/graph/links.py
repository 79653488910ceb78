"""Questions about a graph as link predictors read them: places of entities and relations, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathom.data.graph.queries import EntityCandidates, TripleQueries
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.data.queries import ENTITIES, CandidateSet, Query


@dataclass(frozen=True)
class Links:
    """n questions (given, relation, ?), or (?, relation, given) where ``inverse`` is true.

    :param given: place of the known entity among the graph's entities, shape (n,).
    :param relation: place of the relation, shape (n,).
    :param inverse: whether the head is asked for, shape (n,).
    :param gold: place of the right answer, shape (n,).
    :param known: places of the other right answers, which a filtered rank leaves out; n arrays, or none at all where
        the questions are not ranked.
    """

    given: Places
    relation: Places
    inverse: NDArray[np.bool_]
    gold: Places
    known: Sequence[Places]

    def __len__(self) -> int:
        return len(self.given)

    def take(self, places: Places) -> Links:
        """Some of the questions.

        :param places: which, shape (m,).
        """
        known = [self.known[place] for place in places] if self.known else []
        return Links(self.given[places], self.relation[places], self.inverse[places], self.gold[places], known)


def links_of(queries: Sequence[Query], space: CandidateSet, relations: Sequence[str]) -> Links:
    """Queries of a :func:`~fathom.data.graph.queries.link_queryset` in columns.

    :param space: all entities of the graph, in its order.
    :param relations: ids of its relations, in its order.
    """
    entity = space.position
    relation = {id_: place for place, id_ in enumerate(relations)}

    def column(values: Sequence[int]) -> Places:
        return np.array(values, dtype=np.int64)

    return Links(
        column([entity[query.subject_id] for query in queries]),
        column([relation[query.relation] for query in queries]),
        np.array([query.direction == "head" for query in queries], dtype=bool),
        column([entity[query.gold[0]] for query in queries]),
        [column([entity[id_] for id_ in query.known]) for query in queries],
    )


def training_links(graph: KnowledgeGraph, numbers: Places) -> Links:
    """Questions to learn from: number 2i asks for the tail of the i-th training triple, 2i + 1 for its head.

    Other right answers are not looked up: ``known`` is empty.
    """
    rows, inverse = graph.training.start + numbers // 2, numbers % 2 == 1
    head, relation, tail = graph.columns(rows)
    return Links(np.where(inverse, tail, head), relation, inverse, np.where(inverse, head, tail), [])


def split_links(graph: KnowledgeGraph, split: str, limit: int | None = None, seed: int = 0) -> Links:
    """Both questions of each triple of a split, (head, relation, ?) and (?, relation, tail) in turn.

    :param limit: of so many triples, drawn by *seed*; None for all.
    """
    span = graph.splits[split]
    rows = np.arange(span.start, span.stop, dtype=np.int64)
    if limit is not None and limit < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))
    asked = TripleQueries(graph, rows, split, ("tail", "head"), everybody=True)
    space = EntityCandidates(graph, everybody=True)[ENTITIES]
    return links_of(asked.make(rows), space, graph.relations.column("id").to_pylist())

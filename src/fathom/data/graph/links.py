"""Questions of link predictors in columns: places of entities and relations."""

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
    """n questions (given, relation, ?), or (?, relation, given) if ``inverse``; all arrays of shape (n,).

    :param given: place of the known entity.
    :param relation: place of the relation.
    :param inverse: whether the head is queried.
    :param gold: place of the gold answer.
    :param known: n arrays with the places of other correct answers, to filter; empty if questions are not ranked.
    """

    given: Places
    relation: Places
    inverse: NDArray[np.bool_]
    gold: Places
    known: Sequence[Places]

    def __len__(self) -> int:
        return len(self.given)

    def take(self, places: Places) -> Links:
        """Return some of the questions. :param places: shape (m,)."""
        filtered = [self.known[place] for place in places] if self.known else []
        return Links(self.given[places], self.relation[places], self.inverse[places], self.gold[places], filtered)


def links_of(queries: Sequence[Query], space: CandidateSet, relations: Sequence[str]) -> Links:
    """Return queries of :func:`~fathom.data.graph.queries.link_queryset` in columns."""
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
    """Return training questions: number 2i asks for the tail of the i-th training triple, 2i + 1 for its head.

    ``known`` is empty.
    """
    rows, inverse = graph.training.start + numbers // 2, numbers % 2 == 1
    head, relation, tail = graph.columns(rows)
    return Links(np.where(inverse, tail, head), relation, inverse, np.where(inverse, head, tail), [])


def split_links(graph: KnowledgeGraph, split: str, limit: int | None = None, seed: int = 0) -> Links:
    """Return both questions of each triple of a split, (head, relation, ?) and (?, relation, tail) in turn.

    :param limit: number of triples, drawn by *seed*; None for all.
    """
    span = graph.splits[split]
    rows = np.arange(span.start, span.stop, dtype=np.int64)
    if limit is not None and limit < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))
    asked = TripleQueries(graph, rows, split, ("tail", "head"), all_entities=True)
    space = EntityCandidates(graph, all_entities=True)[ENTITIES]
    return links_of(asked.make(rows), space, graph.relations.column("id").to_pylist())

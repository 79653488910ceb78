"""What a knowledge graph is like before any model is asked: counted on arrays, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.graph.queries import TripleQueries
from fathom.data.knowledge import KnowledgeGraph


class GraphStatistics(NamedTuple):
    """:param splits: triples of each split.
    :param repeated: triples that stood before, in their split or another.
    :param nameless: entities that have no name, and so are no candidates.
    :param shared_names: names that several entities bear.
    :param sharing: entities that bear such a name.
    :param undescribed: entities without a description.
    """

    entities: int
    relations: int
    triples: int
    splits: Mapping[str, int]
    repeated: int
    nameless: int
    shared_names: int
    sharing: int
    undescribed: int


class GraphRelation(NamedTuple):
    """:param triples: of the whole graph.
    :param asked: queries.
    :param answers: different gold answers among them.
    :param majority: accuracy of always giving the most frequent answer, None where nothing is asked.
    :param single_token: share of gold answers that are one token, alone and after a space.
    """

    relation: str
    name: str
    cardinality: str
    triples: int
    asked: int
    answers: int
    majority: float | None
    single_token: tuple[float | None, float | None] | None


def graph_statistics(graph: KnowledgeGraph) -> GraphStatistics:
    """Sizes, and what may surprise: repeated triples, entities without names or descriptions, shared names."""
    names = pc.utf8_trim_whitespace(graph.entities.column("name"))
    counts = pc.value_counts(names.filter(pc.not_equal(names, ""))).field("counts").to_numpy()
    shared = counts[counts > 1]
    return GraphStatistics(
        len(graph.entities),
        len(graph.relations),
        len(graph),
        {name: len(rows) for name, rows in graph.splits.items()},
        repeated_triples(graph),
        len(names) - int(counts.sum()),
        len(shared),
        int(shared.sum()),
        _count(pc.equal(graph.entities.column("description"), "")),
    )


def graph_relations(
    queries: TripleQueries, count_tokens: Callable[[list[str]], list[int]] | None = None
) -> list[GraphRelation]:
    """One row per relation of the graph, asked or not.

    :param count_tokens: tokens of each text, no special ones.
    """
    graph, size = queries.graph, len(queries.graph.relations)
    relation, tail = graph.relation[queries.rows], graph.tail[queries.rows]
    in_all, asked = np.bincount(graph.relation, minlength=size), np.bincount(relation, minlength=size)
    # One number for each (relation, answer), and how often it is given.
    pairs, times = np.unique(relation.astype(np.int64) * len(graph.entities) + tail, return_counts=True)
    of_pair = pairs // max(len(graph.entities), 1)
    answers = np.bincount(of_pair, minlength=size)
    most = np.zeros(size, dtype=np.int64)
    np.maximum.at(most, of_pair, times)
    single = None if count_tokens is None else _single_tokens(graph, relation, tail, count_tokens)
    ids, names = (graph.relations.column(name).to_pylist() for name in ("id", "name"))
    return [
        GraphRelation(
            ids[row],
            names[row],
            queries.cardinality(row) if asked[row] else "",
            int(in_all[row]),
            int(asked[row]),
            int(answers[row]),
            _share(most[row], asked[row]),
            None if single is None else (_share(single[0][row], asked[row]), _share(single[1][row], asked[row])),
        )
        for row in range(size)
    ]


def _single_tokens(
    graph: KnowledgeGraph,
    relation: NDArray[np.int32],
    tail: NDArray[np.int32],
    count_tokens: Callable[[list[str]], list[int]],
) -> list[NDArray[np.int64]]:
    """How many queries of each relation have an answer of one token: alone, and after a space."""
    entities, place = np.unique(tail, return_inverse=True)
    names = graph.entities.column("name").take(pa.array(entities)).to_pylist()
    texts = (names, [" " + name for name in names])
    one = [np.array(count_tokens(text), dtype=np.int64)[place] == 1 for text in texts]
    return [np.bincount(relation[kind], minlength=len(graph.relations)) for kind in one]


def _share(part: np.int64, whole: np.int64) -> float | None:
    return float(part / whole) if whole else None


def repeated_triples(graph: KnowledgeGraph) -> int:
    """Triples that stood before, in their split or another."""
    order = np.lexsort((graph.tail, graph.relation, graph.head))
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in (graph.head, graph.relation, graph.tail):
        sorted_ = column[order]
        same &= sorted_[1:] == sorted_[:-1]
    return int(same.sum())


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)

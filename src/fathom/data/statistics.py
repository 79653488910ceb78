"""Statistics of a data set: its size, its chance level and the skew of its answers; of graphs, on arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.graph.queries import GraphQuerySet, TripleQueries, graph_of
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.data.queries import Query, QuerySet

CountTokens = Callable[[list[str]], list[int]]
"""Number of tokens of each text, special tokens not counted."""


class RelationStatistics(NamedTuple):
    """:param baseline: expected accuracy of random guessing.
    :param majority: accuracy of the most frequent answer.
    :param single_token: share of gold answers of one token, alone and after a space.
    """

    relation: str
    cardinality: str
    domains: str
    instances: int
    candidates: int
    templates: int
    baseline: float
    majority: float
    single_token: tuple[float, float] | None


def random_baseline(queryset: QuerySet, queries: list[Query] | tuple[Query, ...]) -> float:
    """Return the expected accuracy of random guessing: the mean share of gold answers in the ranked candidates."""
    spaces = [queryset.candidates[query.candidates] for query in queries]
    ranked = [max(1, len(space) - len(space.places(query.known))) for space, query in zip(spaces, queries, strict=True)]
    return sum(len(query.gold) / count for query, count in zip(queries, ranked, strict=True)) / len(queries)


def majority_share(queries: list[Query]) -> float:
    """Return the share of queries for which the most frequent answer is correct."""
    return max(Counter(answer for query in queries for answer in query.gold).values()) / len(queries)


def relation_statistics(queryset: QuerySet, count_tokens: CountTokens | None = None) -> list[RelationStatistics]:
    """Return one row per relation. :param count_tokens: counts tokens of each text, without special tokens."""
    rows = []
    for id_, queries in queryset.by_relation().items():
        relation, space = queryset.relations[id_], queryset.candidates[queries[0].candidates]
        single = None
        if count_tokens is not None:
            answers = [space.name_of(answer) for query in queries if query.unscored is None for answer in query.gold]
            alone, after_space = count_tokens(answers), count_tokens([" " + answer for answer in answers])
            total = len(answers) or 1
            single = (alone.count(1) / total, after_space.count(1) / total)
        rows.append(
            RelationStatistics(
                id_,
                relation.cardinality,
                "; ".join(relation.domains),
                len(queries),
                len(space),
                len(relation.templates),
                random_baseline(queryset, queries),
                majority_share(queries),
                single,
            )
        )
    return rows


class GraphRelation(NamedTuple):
    """:param triples: in the whole graph.
    :param asked: number of queries.
    :param answers: number of distinct gold answers.
    :param majority: accuracy of the most frequent answer, None without queries.
    :param single_token: share of gold answers of one token, alone and after a space.
    """

    relation: str
    name: str
    cardinality: str
    triples: int
    asked: int
    answers: int
    majority: float | None
    single_token: tuple[float | None, float | None] | None


def graph_statistics(queryset: GraphQuerySet) -> dict[str, int]:
    """Return sizes and oddities of a graph: repeated triples, entities without names or descriptions, shared names.

    :returns: counts by label. Entities without a name are no candidates.
    """
    graph = graph_of(queryset)
    names = pc.utf8_trim_whitespace(graph.entities.column("name"))
    bearers = pc.value_counts(names.filter(pc.not_equal(names, ""))).field("counts").to_numpy()
    shared = bearers[bearers > 1]
    undescribed = pc.sum(pc.equal(graph.entities.column("description"), "")).as_py()
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": len(graph),
        **{f"triples, {name}": len(rows) for name, rows in graph.splits.items()},
        "repeated triples": len(repeated_triples(graph)[0]),
        f"queries ({queryset.split or 'all triples'})": len(queryset.queries),
        "candidates": int(bearers.sum()),
        "entities with an empty name": len(names) - int(bearers.sum()),
        "entities without a description": undescribed or 0,
        "names of several entities": len(shared),
        "entities with such a name": int(shared.sum()),
    }


def graph_relations(queries: TripleQueries, count_tokens: CountTokens | None = None) -> list[GraphRelation]:
    """Return one row per relation of the graph. :param count_tokens: see :func:`relation_statistics`."""
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
            queries.cardinality[row] if asked[row] else "",
            int(in_all[row]),
            int(asked[row]),
            int(answers[row]),
            _share(most[row], asked[row]),
            None if single is None else (_share(single[0][row], asked[row]), _share(single[1][row], asked[row])),
        )
        for row in range(size)
    ]


def _single_tokens(
    graph: KnowledgeGraph, relation: NDArray[np.int32], tail: NDArray[np.int32], count_tokens: CountTokens
) -> list[NDArray[np.int64]]:
    """Return, per relation, the number of queries with an answer of one token: alone, and after a space."""
    entities, place = np.unique(tail, return_inverse=True)
    names = graph.entities.column("name").take(pa.array(entities)).to_pylist()
    texts = (names, [" " + name for name in names])
    single = [np.array(count_tokens(text), dtype=np.int64)[place] == 1 for text in texts]
    return [np.bincount(relation[is_single], minlength=len(graph.relations)) for is_single in single]


def _share(part: np.int64, whole: np.int64) -> float | None:
    return float(part / whole) if whole else None


def repeated_triples(graph: KnowledgeGraph) -> tuple[Places, Places]:
    """Return the rows of triples that occur earlier, in any split, and of their first occurrences."""
    order = np.lexsort((graph.tail, graph.relation, graph.head))
    columns = (column[order] for column in (graph.head, graph.relation, graph.tail))
    again = np.append(False, np.logical_and.reduce([column[1:] == column[:-1] for column in columns]))
    rows, earlier = order[again], order[~again][np.cumsum(~again) - 1][again]
    by_row = np.argsort(rows)
    return rows[by_row], earlier[by_row]

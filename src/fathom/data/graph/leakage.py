"""What a knowledge graph gives away without any inference: how few relations an entity has, and answers in texts.

Both tables of Sakai et al., *Does Pre-trained Language Model Actually Infer Unseen Links in Knowledge Graph
Completion?* (NAACL 2024), for any graph. Table 3 comes out to the last digit for WN18RR and FB15k-237. Table 4 gives,
on the texts of KG-BERT, 14.83, 15.05 and 15.35 % of WN18RR's train, dev and test where the paper prints 15.03, 15.62
and 15.34 % (14.86 against 15.06 % in total): its rule is not written down, ours is :func:`answers_in_descriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.columns import few_chunks, take_rows
from fathom.data.graph.queries import BLOCK
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.words import stands_as_word

LISTED = 5
"""Pairs with more distinct relations than this are counted together, as in the paper."""
TOTAL = "total"


class RelationsPerEntity(NamedTuple):
    """:param pairs: how many (entity, side) pairs there are, side being head or tail.
    :param shares: of them with 1, 2, … :data:`LISTED` distinct relations, and with more; NaN where there is no pair."""

    pairs: int
    shares: tuple[float, ...]


class AnswersInDescriptions(NamedTuple):
    """:param queries: two for each triple.
    :param described: of them, those whose query entity has a description.
    :param substring: share of all queries whose answer's name stands in that description, inside a word or not.
    :param word: the same, only where it stands on word boundaries. NaN where there is no query.
    """

    queries: int
    described: int
    substring: float
    word: float


def relations_per_entity(graph: KnowledgeGraph) -> Mapping[str, RelationsPerEntity]:
    """Table 3: of all pairs of an entity and a side that occur, the share with so many distinct relations.

    :returns: split → shares, and "total" for all triples together.
    """
    return {name: _relations_per_entity(graph, rows) for name, rows in _parts(graph).items()}


def answers_in_descriptions(graph: KnowledgeGraph) -> Mapping[str, AnswersInDescriptions]:
    """Table 4: the share of queries, (h, r, ?) and (?, r, t) of every triple, whose answer's name stands in the
    description of the entity that is asked about.

    The letters must be the same, capitals included. A description is the text beside the name, without it: in WN18RR
    the gloss. A query about an entity without a description counts, as one whose answer is not there.

    :returns: split → shares, and "total" for all triples together.
    """
    described = pc.not_equal(graph.entities.column("description"), "").to_numpy()
    names, texts = (few_chunks(graph.entities.column(name)) for name in ("name", "description"))
    hits = np.zeros((2, len(graph)), dtype=np.int8)
    for start in range(0, len(graph), BLOCK):
        part = slice(start, min(start + BLOCK, len(graph)))
        for asked, answer in ((graph.head, graph.tail), (graph.tail, graph.head)):
            _count_hits(take_rows(names, answer[part]), take_rows(texts, asked[part]), hits[:, part])
    found = {}
    for name, rows in _parts(graph).items():
        part = slice(rows.start, rows.stop)
        queries = 2 * len(rows)
        with_text = int(described[graph.head[part]].sum() + described[graph.tail[part]].sum())
        substring, word = (float(row[part].sum() / queries) if queries else float("nan") for row in hits)
        found[name] = AnswersInDescriptions(queries, with_text, substring, word)
    return found


def _parts(graph: KnowledgeGraph) -> dict[str, range]:
    return {**graph.splits, TOTAL: range(len(graph))}


def _relations_per_entity(graph: KnowledgeGraph, rows: range) -> RelationsPerEntity:
    part = slice(rows.start, rows.stop)
    counts = np.concatenate(
        [_distinct_relations(graph, entities[part], graph.relation[part]) for entities in (graph.head, graph.tail)]
    )
    if not len(counts):
        return RelationsPerEntity(0, (float("nan"),) * (LISTED + 1))
    having = np.bincount(np.minimum(counts, LISTED + 1), minlength=LISTED + 2)[1:]
    return RelationsPerEntity(len(counts), tuple((having / len(counts)).tolist()))


def _distinct_relations(
    graph: KnowledgeGraph, entities: NDArray[np.int32], relations: NDArray[np.int32]
) -> NDArray[np.int64]:
    """How many different relations stand beside each entity that occurs."""
    pairs = np.unique(entities.astype(np.int64) * len(graph.relations) + relations)
    return np.unique(pairs // max(len(graph.relations), 1), return_counts=True)[1]


def _count_hits(answers: pa.ChunkedArray, descriptions: pa.ChunkedArray, hits: NDArray[np.int8]) -> None:
    """Add to *hits*, shape (2, triples): answers found as sub-strings, and as words."""
    names, texts = answers.to_pylist(), descriptions.to_pylist()
    places = [
        place for place, (name, text) in enumerate(zip(names, texts, strict=True)) if name.strip() and name in text
    ]
    hits[0, places] += 1
    hits[1, [place for place in places if stands_as_word(names[place], texts[place])]] += 1

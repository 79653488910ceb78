"""Leakage of a knowledge graph: distinct relations per entity, and answers within descriptions.

Both tables of Sakai et al. (NAACL 2024), for any graph; docs/notes/worlds.md compares them with the paper's.
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
from fathom.data.graph.seen import keys_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.words import occurs_as_word

LISTED = 5
"""Pairs with more distinct relations than this are counted together, as in the paper."""
TOTAL = "total"


class RelationsPerEntity(NamedTuple):
    """:param pairs: number of (entity, side) pairs, side being head or tail.
    :param shares: shares with 1, 2, … :data:`LISTED` distinct relations, and with more; NaN without pairs.
    """

    pairs: int
    shares: tuple[float, ...]


class AnswersInDescriptions(NamedTuple):
    """:param queries: two per triple.
    :param described: queries whose entity has a description.
    :param substring: share of all queries whose answer's name occurs in that description.
    :param word: the same, on word boundaries only. NaN without queries.
    """

    queries: int
    described: int
    substring: float
    word: float


def relations_per_entity(graph: KnowledgeGraph) -> Mapping[str, RelationsPerEntity]:
    """Compute table 3: the shares of (entity, side) pairs by number of distinct relations.

    :returns: by split, and "total" for all triples.
    """
    return {name: _relations_per_entity(graph, rows) for name, rows in _parts(graph).items()}


def answers_in_descriptions(graph: KnowledgeGraph) -> Mapping[str, AnswersInDescriptions]:
    """Compute table 4: the share of queries whose answer's name occurs in the known entity's description.

    Each triple has the queries (h, r, ?) and (?, r, t). Case matters. A description excludes the name; in WN18RR it is
    the gloss. A query whose entity has no description counts as one without its answer.

    :returns: by split, and "total" for all triples.
    """
    described = pc.not_equal(graph.entities.column("description"), "").to_numpy()
    names, texts = (few_chunks(graph.entities.column(name)) for name in ("name", "description"))
    hits = np.zeros((2, len(graph)), dtype=np.int8)
    for start in range(0, len(graph), BLOCK):
        part = slice(start, min(start + BLOCK, len(graph)))
        for asked, answer in ((graph.head, graph.tail), (graph.tail, graph.head)):
            _count_hits(take_rows(names, answer[part]), take_rows(texts, asked[part]), hits[:, part])
    shares = {}
    for name, rows in _parts(graph).items():
        part = slice(rows.start, rows.stop)
        queries = 2 * len(rows)
        with_text = int(described[graph.head[part]].sum() + described[graph.tail[part]].sum())
        substring, word = (float(row[part].sum() / queries) if queries else float("nan") for row in hits)
        shares[name] = AnswersInDescriptions(queries, with_text, substring, word)
    return shares


def _parts(graph: KnowledgeGraph) -> dict[str, range]:
    return {**graph.splits, TOTAL: range(len(graph))}


def _relations_per_entity(graph: KnowledgeGraph, rows: range) -> RelationsPerEntity:
    pairs = [np.unique(keys_of(graph, np.arange(rows.start, rows.stop), ends)) for ends in (graph.head, graph.tail)]
    size = max(len(graph.relations), 1)
    counts = np.concatenate([np.unique(keys // size, return_counts=True)[1] for keys in pairs])
    if not len(counts):
        return RelationsPerEntity(0, (float("nan"),) * (LISTED + 1))
    having = np.bincount(np.minimum(counts, LISTED + 1), minlength=LISTED + 2)[1:]
    return RelationsPerEntity(len(counts), tuple((having / len(counts)).tolist()))


def _count_hits(answers: pa.ChunkedArray, descriptions: pa.ChunkedArray, hits: NDArray[np.int8]) -> None:
    """Add to *hits*, shape (2, triples): names found as substrings, and as words."""
    names, texts = answers.to_pylist(), descriptions.to_pylist()
    places = [
        place for place, (name, text) in enumerate(zip(names, texts, strict=True)) if name.strip() and name in text
    ]
    hits[0, places] += 1
    hits[1, [place for place in places if occurs_as_word(names[place], texts[place])]] += 1

"""Names of entities in descriptions: found by :mod:`fathom.building.worlds.tries`, given to an entity, and replaced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.building.worlds.forms import KINDS, NAME, Case, Forms, names_of
from fathom.building.worlds.texts import TextBlock, blocks, characters_before, spread, to_arrow
from fathom.building.worlds.tries import Found, Tries, in_order, taken
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import few_chunks


class Mentions(NamedTuple):
    """Names of entities found in descriptions, in the order of the text. Arrays have the shape (mentions,).

    :param described: row of the entity whose description it is.
    :param entity: row of the entity mentioned.
    :param start: first byte of the name in the description.
    :param end: behind its last byte.
    :param ambiguous: mentions of what several entities are called, by the rule that chose one: "itself" (the entity
        described is called so), "linked" (a training triple links the entity described to one that is; the first of
        them), "first" (none of this: the first entity that is called so).
    :param too_short: entities whose names are too short to be looked for.
    :param case: of the names: "exact" where it counts in all of them, "ignore" where A to Z equal a to z in all of
        them, else "mixed".
    :param kinds: how many mentions are of each of :data:`fathom.building.worlds.forms.KINDS`.
    """

    described: NDArray[np.int32]
    entity: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    ambiguous: dict[str, int]
    too_short: int
    case: str
    kinds: dict[str, int]


def find_mentions(
    graph: KnowledgeGraph, case: Case = "auto", shortest: int = 2, forms: Forms | None = None
) -> Mentions:
    """Every name of an entity in every description.

    :param case: "exact", "ignore" (the letters A to Z only) or "auto", by which it counts in names that have a capital.
    :param shortest: characters that a name needs to be looked for; "a" would stand in every second sentence.
    :param forms: what entities may be called, see :func:`fathom.building.worlds.forms.forms_of`; None: their names.
    """
    every = forms or names_of(graph.entities)
    sought = every.only(every.have(shortest))
    exact = sought.exact(case)
    called = _Called(sought, exact)
    found = find(called.tries, graph.entities.column("description"))
    entity, ambiguous = _choose(graph, called, found)
    by_kind = np.bincount(called.kind[found.number], minlength=len(KINDS)).tolist()
    own = exact[sought.kind == NAME]
    return Mentions(
        found.row,
        entity,
        found.start,
        found.end,
        ambiguous,
        int((every.kind == NAME).sum()) - len(own),
        "ignore" if not own.any() else "exact" if own.all() else "mixed",
        dict(zip(KINDS, by_kind, strict=True)),
    )


def find(tries: Tries, texts: pa.ChunkedArray) -> Found:
    """Every name in every text."""
    none = np.zeros(0, dtype=np.int32)
    parts = [Found(none, none, none, none), *in_order(tries.search, blocks(texts))]
    return Found(*map(np.concatenate, zip(*parts, strict=True)))


class _Called:
    """Which entities are called what: those of the best kind alone, so that what is the name of one and another name
    of a second is the name of the first.

    ``members`` has the entities by the number of what they are called, ascending, ``first`` where in it each number
    begins, ``kind`` the kind of each number, and ``keys`` number · entities + entity of each member, ascending.
    """

    def __init__(self, forms: Forms, exact: NDArray[np.bool_]) -> None:
        self.tries = Tries(forms.texts, exact)
        self.entities = int(forms.entity.max(initial=0)) + 1
        count, number = self.tries.count, self.tries.numbers
        self.kind = np.full(count, len(KINDS), dtype=np.int64)
        np.minimum.at(self.kind, number, forms.kind)
        best = forms.kind == self.kind[number]
        self.keys = np.unique(number[best] * self.entities + forms.entity[best])
        owner, members = np.divmod(self.keys, self.entities)
        self.owner, self.members = owner, members.astype(np.int32)
        self.first = np.searchsorted(owner, np.arange(count + 1))

    def is_called(self, entity: NDArray[np.int32], number: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each entity is called so. :param number: shape as that of *entity*."""
        known = (entity < self.entities) & (len(self.keys) > 0)
        asked = number.astype(np.int64) * self.entities + entity
        place = np.minimum(np.searchsorted(self.keys, asked), max(len(self.keys) - 1, 0))
        return np.asarray(known & (self.keys[place] == asked) if len(self.keys) else known)


def _choose(graph: KnowledgeGraph, called: _Called, found: Found) -> tuple[NDArray[np.int32], dict[str, int]]:
    """The entity that each mention means, and how many were chosen by which rule among several.

    Only training triples count: the answers of the test must not decide what a text says.
    """
    first = called.first[found.number]
    entity = called.members[first] if len(first) else np.zeros(0, dtype=np.int32)
    shared = np.flatnonzero(called.first[found.number + 1] - first > 1)
    itself = called.is_called(found.row[shared], found.number[shared])
    entity[shared[itself]] = found.row[shared[itself]]
    shared = shared[~itself]
    keys, neighbours = _linked_homographs(graph, called)
    asked = found.row[shared].astype(np.int64) * called.tries.count + found.number[shared]
    place = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    linked = keys[place] == asked if len(keys) else np.zeros(len(shared), dtype=bool)
    entity[shared[linked]] = neighbours[place[linked]]
    counts = {"itself": int(itself.sum()), "linked": int(linked.sum()), "first": int((~linked).sum())}
    return entity, counts


def _linked_homographs(graph: KnowledgeGraph, called: _Called) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Keys (entity, what a neighbour and others are called), ascending, and the first such neighbour of each."""
    rows = graph.training
    part = slice(rows.start, rows.stop)
    several = np.flatnonzero((np.diff(called.first) > 1)[called.owner])
    order = several[np.argsort(called.members[several], kind="stable")]
    member, number = called.members[order], called.owner[order]  # of entities that share a name, by entity
    one = np.concatenate([graph.head[part], graph.tail[part]])
    other = np.concatenate([graph.tail[part], graph.head[part]])
    begin = np.searchsorted(member, other, side="left")
    names = np.searchsorted(member, other, side="right") - begin
    shared = number[spread(begin, names)]
    keys = np.repeat(one, names).astype(np.int64) * called.tries.count + shared
    other = np.repeat(other, names)
    order = np.lexsort((other, keys))
    keys, place = np.unique(keys[order], return_index=True)
    return keys, other[order][place].astype(np.int32)


def replace_mentions(
    descriptions: pa.ChunkedArray, mentions: Mentions, names: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.Table]:
    """Descriptions with new names in place of the mentions, and a table of what was replaced where.

    :param names: the new name of each entity.
    :returns: the descriptions, and the spans: ``described`` and ``mention`` (rows of entities), ``start`` and ``end``
        (characters of the old description), ``new_start`` and ``new_end`` (of the new one), ``old`` (what stood there).
    """
    done = list(in_order(partial(_replace, mentions, few_chunks(names)), blocks(descriptions)))
    texts = pa.chunked_array([text for text, _ in done], pa.string())
    return texts, pa.Table.from_batches([spans for _, spans in done], SPANS)


SPANS = pa.schema(
    [
        ("described", pa.int32()),
        ("mention", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("new_start", pa.int32()),
        ("new_end", pa.int32()),
        ("old", pa.string()),
    ]
)


def _replace(mentions: Mentions, names: pa.ChunkedArray, texts: TextBlock) -> tuple[pa.Array, pa.RecordBatch]:
    rows = len(texts.starts) - 1
    begin, stop = np.searchsorted(mentions.described, [texts.first, texts.first + rows])
    part = slice(int(begin), int(stop))
    described, entity = mentions.described[part], mentions.entity[part]
    row = described - texts.first
    start, end = texts.starts[row] + mentions.start[part], texts.starts[row] + mentions.end[part]
    put, put_starts = taken(names, entity)
    grown = np.diff(put_starts) - (end - start)
    total_grown = np.concatenate([[0], np.cumsum(grown)])
    new_start = start + total_grown[:-1]
    new_end = new_start + np.diff(put_starts)
    text = np.empty(len(texts.data) + int(total_grown[-1]), dtype=np.uint8)
    is_new = _inside(new_start, new_end, len(text))
    old_letters = _inside(start, end, len(texts.data))
    text[is_new] = put
    text[~is_new] = texts.data[~old_letters]
    before = np.searchsorted(row, np.arange(rows + 1))  # mentions of earlier rows
    starts = texts.starts + total_grown[before]
    spans = pa.record_batch(
        [
            described,
            entity,
            *in_characters(texts.data, texts.starts[row], start, end),
            *in_characters(text, starts[row], new_start, new_end),
            to_arrow(texts.data[old_letters], np.concatenate([[0], np.cumsum(end - start)])),
        ],
        schema=SPANS,
    )
    return to_arrow(text, starts), spans


def _inside(start: NDArray[np.int64], end: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """Which of *size* places lie in one of the spans."""
    change = np.zeros(size + 1, dtype=np.int8)
    change[start] += 1
    change[end] -= 1  # where one span ends and the next begins this is nothing, as it should be
    inside: NDArray[np.bool_] = np.cumsum(change[:-1], dtype=np.int8).astype(bool)
    return inside


def in_characters(
    data: NDArray[np.uint8], row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[NDArray[np.int32]]:
    """Starts and ends of spans in characters from the beginning of their row."""
    before = characters_before(data)
    for place in (start, end):
        yield (place - row if before is None else before[place] - before[row]).astype(np.int32)

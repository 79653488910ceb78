"""Names of entities in descriptions: found in one pass, leftmost-longest, on word boundaries, and replaced.

The automaton is the trie of all names over tokens (a word, or one sign that is of no word), kept as a table of its
nodes: a node is the 64-bit hash of the text that leads to it. From every token of a block of text all walks go down the
trie at the same time, a token a step, until they fall off; the last whole name passed is the longest one there. Of
names that overlap the one that begins first stays, and what it covers is looked at no further. What the hashes say is
compared letter by letter. Time grows with the text, not with the number of names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.building.worlds.texts import Hasher, TextBlock, blocks, characters_before, spread, to_arrow, token_starts
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import few_chunks, is_blank, take_rows

_Result = TypeVar("_Result")


class Mentions(NamedTuple):
    """Names of entities found in descriptions, in the order of the text. Arrays have the shape (mentions,).

    :param described: row of the entity whose description it is.
    :param entity: row of the entity mentioned.
    :param start: first byte of the name in the description.
    :param end: behind its last byte.
    :param ambiguous: mentions of a name that several entities bear, by the rule that chose one: "itself" (the entity
        described bears it), "linked" (a training triple links the entity described to one that does; the first of
        them), "first" (none of this: the first entity that bears it).
    :param too_short: entities whose names are too short to be looked for.
    :param case: "exact", or "ignore" for A to Z.
    """

    described: NDArray[np.int32]
    entity: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    ambiguous: dict[str, int]
    too_short: int
    case: str


def case_policy(names: pa.ChunkedArray, wanted: str) -> str:
    """ "exact" or "ignore" as *wanted*; for "auto", "ignore" where no name has a capital letter, as in WordNet."""
    if wanted != "auto":
        return wanted
    return "exact" if pc.any(pc.match_substring_regex(names, r"\p{Lu}")).as_py() else "ignore"


def find_mentions(graph: KnowledgeGraph, case: str = "auto", shortest: int = 2) -> Mentions:
    """Every name of an entity in every description.

    :param case: "exact", "ignore" (the letters A to Z only) or "auto", see :func:`case_policy`.
    :param shortest: characters that a name needs to be looked for; "a" would stand in every second sentence.
    """
    names = graph.entities.column("name")
    case = case_policy(names, case)
    named = ~is_blank(names)
    sought = named & pc.greater_equal(pc.utf8_length(names), shortest).to_numpy()
    trie = _Trie(names, sought, Hasher(fold=case == "ignore"))
    found = [tuple(np.zeros((4, 0), np.int32)), *_in_order(trie.search, blocks(graph.entities.column("description")))]
    described, name, start, end = (np.concatenate([part[place] for part in found]) for place in range(4))
    entity, ambiguous = _choose(graph, trie, described, name)
    return Mentions(described, entity, start, end, ambiguous, int((named & ~sought).sum()), case)


def _in_order(work: Callable[[TextBlock], _Result], parts: Iterator[TextBlock]) -> Iterator[_Result]:
    """What *work* makes of each part, on all processors; only a few parts are held at a time."""
    workers = min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(workers) as pool:
        while ahead := [pool.submit(work, part) for part in islice(parts, 4 * workers)]:
            for result in ahead:
                yield result.result()


class _Trie:
    """:param names: of all entities.
    :param sought: which of them are looked for, shape (entities,).

    ``labels`` has the number of each entity's name, equal names alike, −1 where it is not looked for; ``members`` the
    entities by that number, ascending, and ``first`` where in it each number begins.
    """

    def __init__(self, names: pa.ChunkedArray, sought: NDArray[np.bool_], hasher: Hasher) -> None:
        self._hasher = hasher
        hashes, rows, whole = self._prefixes(names, sought)
        self.nodes, place = np.unique(hashes, return_inverse=True)
        self.goes_on = np.zeros(len(self.nodes), dtype=bool)
        self.goes_on[place[~whole]] = True
        self._number_names(place[whole], rows[whole], len(names))
        self._data, self._starts = _taken(names, self.members[self.first[:-1]])
        bits = max(int(np.ceil(np.log2(max(len(self.nodes), 2)))), 1)
        self._shift = np.uint64(64 - bits)
        bounds = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._buckets = np.append(np.searchsorted(self.nodes, bounds), len(self.nodes)).astype(np.int32)

    def _number_names(self, node: NDArray[np.int64], row: NDArray[np.int64], entities: int) -> None:
        ends = np.unique(node)
        self.name_of = np.full(len(self.nodes), -1, dtype=np.int32)
        self.name_of[ends] = np.arange(len(ends), dtype=np.int32)
        self.labels = np.full(entities, -1, dtype=np.int64)
        self.labels[row] = self.name_of[node]
        self.members = row[np.lexsort((row, self.name_of[node]))].astype(np.int32)
        self.first = np.zeros(len(ends) + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.name_of[node], minlength=len(ends)), out=self.first[1:])

    def _prefixes(
        self, names: pa.ChunkedArray, sought: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
        """Hash, row and whether it is the whole name, of every run of tokens that a name begins with."""
        hashes, rows, whole = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, bool)]
        for texts in blocks(names):
            ends = token_starts(texts)[1:]
            row = np.searchsorted(texts.starts, ends, side="left") - 1
            used = sought[texts.first + row]
            ends, row = ends[used], row[used]
            hashes.append(self._hasher.hash(self._hasher.sums(texts.data), texts.starts[row], ends))
            rows.append(texts.first + row)
            whole.append(texts.starts[row + 1] == ends)
        return np.concatenate(hashes), np.concatenate(rows), np.concatenate(whole)

    def _node(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The node of each hash, −1 for none."""
        bucket = hashes >> self._shift
        place, stop = self._buckets[bucket], self._buckets[bucket + np.uint64(1)]
        found = np.full(len(hashes), -1, dtype=np.int32)
        asked = np.flatnonzero(place < stop)
        while len(asked):
            at = place[asked]
            hit = self.nodes[at] == hashes[asked]
            found[asked[hit]] = at[hit]
            place[asked] += 1
            asked = asked[~hit & (at + 1 < stop[asked])]
        return found

    def search(self, texts: TextBlock) -> tuple[NDArray[np.int32], ...]:
        """Row of the description, number of the name, start and end in bytes, of every name in these texts."""
        token = token_starts(texts)
        sums = self._hasher.sums(texts.data)
        walk = np.arange(len(token) - 1)  # the token where each walk began
        step = np.zeros(len(walk), dtype=np.int64)
        name, end = np.full(len(walk), -1, dtype=np.int32), np.zeros(len(walk), dtype=np.int64)
        row = np.searchsorted(texts.starts, token[:-1], side="right") - 1
        while len(walk):
            reached = token[walk + step + 1]
            node = self._node(self._hasher.hash(sums, token[walk], reached))
            on = node >= 0
            walk, step, reached, node = walk[on], step[on], reached[on], node[on]
            passed = self.name_of[node]
            named = passed >= 0
            name[walk[named]], end[walk[named]] = passed[named], reached[named]
            on = self.goes_on[node] & (reached < texts.starts[row[walk] + 1])
            walk, step = walk[on], step[on] + 1
        begun = np.flatnonzero(name >= 0)
        begun = begun[_leftmost(token[begun], end[begun])]
        begun = begun[self._same_letters(texts.data, token[begun], end[begun], name[begun])]
        in_row = texts.starts[row[begun]]
        return (
            (texts.first + row[begun]).astype(np.int32),
            name[begun],
            (token[begun] - in_row).astype(np.int32),
            (end[begun] - in_row).astype(np.int32),
        )

    def _same_letters(
        self, data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], name: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Whether the texts of equal hash are equal; different ones are as good as never met."""
        begin, length = self._starts[name], end - start
        same = length == self._starts[name + 1] - begin
        length = np.where(same, length, 1)
        letters = self._hasher.letters
        unequal = letters[data[spread(start, length)]] != letters[self._data[spread(begin, length)]]
        if len(length):
            same &= np.add.reduceat(unequal, np.cumsum(length) - length, dtype=np.int64) == 0
        return np.asarray(same)


def _leftmost(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the spans that stay when each, from the left, shuts out those that begin inside it.

    In rounds: a span that begins behind the ends of all before it stays, and those that begin inside the last one that
    stays go; texts rarely need more than three.
    """
    stays = []
    left = np.arange(len(start))
    while len(left):
        reach = np.maximum.accumulate(end[left])
        free = np.ones(len(left), dtype=bool)
        free[1:] = start[left[1:]] >= reach[:-1]
        stays.append(left[free])
        last = np.maximum.accumulate(np.where(free, np.arange(len(left)), 0))
        left = left[~free & (start[left] >= end[left[last]])]
    return np.sort(np.concatenate(stays)) if stays else np.zeros(0, dtype=np.int64)


def _choose(
    graph: KnowledgeGraph, trie: _Trie, described: NDArray[np.int32], name: NDArray[np.int32]
) -> tuple[NDArray[np.int32], dict[str, int]]:
    """The entity that each mention means, and how many were chosen by which rule among several.

    Only training triples count: the answers of the test must not decide what a text says.
    """
    first = trie.first[name]
    entity = trie.members[first] if len(name) else np.zeros(0, dtype=np.int32)
    shared = np.flatnonzero(trie.first[name + 1] - first > 1)
    itself = trie.labels[described[shared]] == name[shared]
    entity[shared[itself]] = described[shared[itself]]
    shared = shared[~itself]
    keys, neighbours = _linked_homographs(graph, trie)
    names = len(trie.first)
    asked = described[shared].astype(np.int64) * names + name[shared]
    place = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    linked = keys[place] == asked if len(keys) else np.zeros(len(shared), dtype=bool)
    entity[shared[linked]] = neighbours[place[linked]]
    counts = {"itself": int(itself.sum()), "linked": int(linked.sum()), "first": int((~linked).sum())}
    return entity, counts


def _linked_homographs(graph: KnowledgeGraph, trie: _Trie) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Keys (entity, name of a neighbour that others bear too), ascending, and the first such neighbour of each."""
    rows = graph.training
    part = slice(rows.start, rows.stop)
    several = np.append(np.diff(trie.first) > 1, False)  # the last for the label −1
    one = np.concatenate([graph.head[part], graph.tail[part]])
    other = np.concatenate([graph.tail[part], graph.head[part]])
    near = several[trie.labels[other]]
    one, other = one[near], other[near]
    keys = one.astype(np.int64) * len(trie.first) + trie.labels[other]
    order = np.lexsort((other, keys))
    keys, place = np.unique(keys[order], return_index=True)
    return keys, other[order][place]


def replace_mentions(
    descriptions: pa.ChunkedArray, mentions: Mentions, names: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.Table]:
    """Descriptions with new names in place of the mentions, and a table of what was replaced where.

    :param names: the new name of each entity.
    :returns: the descriptions, and the spans: ``described`` and ``mention`` (rows of entities), ``start`` and ``end``
        (characters of the old description), ``new_start`` and ``new_end`` (of the new one), ``old`` (what stood there).
    """
    done = list(_in_order(partial(_replace, mentions, few_chunks(names)), blocks(descriptions)))
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
    put, put_starts = _taken(names, entity)
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
            *_in_characters(texts.data, texts.starts[row], start, end),
            *_in_characters(text, starts[row], new_start, new_end),
            to_arrow(texts.data[old_letters], np.concatenate([[0], np.cumsum(end - start)])),
        ],
        schema=SPANS,
    )
    return to_arrow(text, starts), spans


def _taken(column: pa.ChunkedArray, rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of some rows one after another, and where each begins."""
    taken = pa.concat_arrays([*take_rows(column, rows).chunks, pa.array([], pa.string())])
    whole = list(blocks(pa.chunked_array([taken]), 1 << 31))
    return (whole[0].data, whole[0].starts) if whole else (np.zeros(0, np.uint8), np.zeros(1, np.int64))


def _inside(start: NDArray[np.int64], end: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """Which of *size* places lie in one of the spans."""
    change = np.zeros(size + 1, dtype=np.int8)
    change[start] += 1
    change[end] -= 1  # where one span ends and the next begins this is nothing, as it should be
    inside: NDArray[np.bool_] = np.cumsum(change[:-1], dtype=np.int8).astype(bool)
    return inside


def _in_characters(
    data: NDArray[np.uint8], row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[NDArray[np.int32]]:
    """Starts and ends of spans in characters from the beginning of their row."""
    before = characters_before(data)
    for place in (start, end):
        yield (place - row if before is None else before[place] - before[row]).astype(np.int32)

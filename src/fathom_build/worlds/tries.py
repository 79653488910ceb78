"""Search for many names in texts in one pass, leftmost-longest, on word boundaries.

The automaton is the trie of all names over tokens (a word, or one character outside words), stored as a table of its
nodes: a node is the 64-bit hash of the text that leads to it. Walks from all tokens of a block of text descend the trie
at the same time, one token per step; the last whole name passed is the longest one. Of overlapping names the first
counts. Time grows with the text, not with the number of names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.data.columns import take_rows
from fathom_build.worlds.texts import Hasher, TextBlock, blocks, token_starts

_Result = TypeVar("_Result")


class Matches(NamedTuple):
    """Names in texts, in order; arrays have the shape (matches,). ``start`` and ``end`` count bytes."""

    row: NDArray[np.int32]
    number: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class Tries:
    """Names, some with their letter case and others regardless of it. Of two equally long ones the exact one is found.

    ``numbers`` numbers the names, shape (names,): equal names share one of ``count`` numbers.
    """

    def __init__(self, names: pa.ChunkedArray, exact: NDArray[np.bool_]) -> None:
        self._parts: list[tuple[_Trie, int]] = []
        self.numbers = np.zeros(len(names), dtype=np.int64)
        self.count = 0
        for fold in (False, True):
            chosen = exact != fold
            if chosen.any():
                trie = _Trie(names.filter(pa.array(chosen)), Hasher(fold))
                self.numbers[chosen] = trie.numbers + self.count
                self._parts.append((trie, self.count))
                self.count += trie.count

    def smallest(self, values: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the smallest of the values, shape (names,), of equal names; shape (count,)."""
        least = np.full(self.count, np.iinfo(np.int8).max, dtype=np.int8)
        np.minimum.at(least, self.numbers, values)
        return least

    def find(self, texts: pa.ChunkedArray) -> Matches:
        """Find all names in all texts."""
        none = np.zeros(0, dtype=np.int32)
        parts = [Matches(none, none, none, none), *in_order(self._search, blocks(texts))]
        return Matches(*map(np.concatenate, zip(*parts, strict=True)))

    def _search(self, texts: TextBlock) -> Matches:
        token = token_starts(texts)
        number, end = (np.full(len(token) - 1, -1, dtype=np.int64) for _ in range(2))
        for trie, before in self._parts:
            name, name_end = trie.longest(texts, token)
            longer = (name >= 0) & (name_end > end)
            number[longer], end[longer] = name[longer] + before, name_end[longer]
        begun = np.flatnonzero(number >= 0)
        begun = begun[_leftmost(token[begun], end[begun])]
        row = np.searchsorted(texts.starts, token[begun], side="right") - 1
        in_row = texts.starts[row]
        columns = (texts.first + row, number[begun], token[begun] - in_row, end[begun] - in_row)
        return Matches(*(column.astype(np.int32) for column in columns))


def in_order(work: Callable[[TextBlock], _Result], parts: Iterator[TextBlock]) -> Iterator[_Result]:
    """Apply *work* to all parts, on all processors, with only a few parts in memory."""
    workers = min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(workers) as pool:
        while ahead := [pool.submit(work, part) for part in islice(parts, 4 * workers)]:
            for result in ahead:
                yield result.result()


def bytes_of(column: pa.ChunkedArray, rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenate the bytes of some rows, and return where each begins."""
    texts = pa.concat_arrays([*take_rows(column, rows).chunks, pa.array([], pa.string())])
    whole = list(blocks(pa.chunked_array([texts]), 1 << 31))
    return (whole[0].data, whole[0].starts) if whole else (np.zeros(0, np.uint8), np.zeros(1, np.int64))


class _Trie:
    """:param names: numbered by ``numbers``, shape (names,); names with one hash by *hasher* share a number."""

    def __init__(self, names: pa.ChunkedArray, hasher: Hasher) -> None:
        self._hasher = hasher
        hashes, rows, whole = self._prefixes(names)
        self.nodes, place = np.unique(hashes, return_inverse=True)
        self.goes_on = np.zeros(len(self.nodes), dtype=bool)
        self.goes_on[place[~whole]] = True
        ends, numbers = np.unique(place[whole], return_inverse=True)
        self.count = len(ends)
        self.name_of = np.full(len(self.nodes), -1, dtype=np.int32)
        self.name_of[ends] = np.arange(len(ends), dtype=np.int32)
        self.numbers = np.zeros(len(names), dtype=np.int64)
        self.numbers[rows[whole]] = numbers
        bits = max(int(np.ceil(np.log2(max(len(self.nodes), 2)))), 1)
        self._shift = np.uint64(64 - bits)
        bounds = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._buckets = np.append(np.searchsorted(self.nodes, bounds), len(self.nodes)).astype(np.int32)

    def _prefixes(self, names: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return hash, row and completeness of all prefixes of names."""
        hashes, rows, whole = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, bool)]
        for texts in blocks(names):
            ends = token_starts(texts)[1:]
            row = np.searchsorted(texts.starts, ends, side="left") - 1
            hashes.append(self._hasher.hash(self._hasher.sums(texts.data), texts.starts[row], ends))
            rows.append(texts.first + row)
            whole.append(texts.starts[row + 1] == ends)
        return np.concatenate(hashes), np.concatenate(rows), np.concatenate(whole)

    def _node(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the node of each hash, −1 for none."""
        bucket = hashes >> self._shift
        place, stop = self._buckets[bucket], self._buckets[bucket + np.uint64(1)]
        nodes = np.full(len(hashes), -1, dtype=np.int32)
        pending = np.flatnonzero(place < stop)
        while len(pending):
            at = place[pending]
            hit = self.nodes[at] == hashes[pending]
            nodes[pending[hit]] = at[hit]
            place[pending] += 1
            pending = pending[~hit & (at + 1 < stop[pending])]
        return nodes

    def longest(self, texts: TextBlock, token: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the longest name that begins at each token (the last is the end), and its end; −1 for none."""
        sums = self._hasher.sums(texts.data)
        walk = np.arange(len(token) - 1)  # the token where each walk began
        step = np.zeros(len(walk), dtype=np.int64)
        name, end = np.full(len(walk), -1, dtype=np.int32), np.full(len(walk), -1, dtype=np.int64)
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
        return name, end


def _leftmost(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose spans from the left, each without those that begin inside it; return their places."""
    chosen, reach = [], 0
    for place, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if first >= reach:
            chosen.append(place)
            reach = last
    return np.array(chosen, dtype=np.int64)

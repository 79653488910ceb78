"""Search for many names in texts in one pass, leftmost-longest, on word boundaries; texts as blocks of bytes.

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
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.data.columns import take_rows
from fathom.data.words import word_characters

_ODD = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: an odd number of well mixed bits
_INVERSE = pow(_ODD, -1, 1 << 64)
BLOCK = 1 << 20
"""Bytes of text processed together: arrays of eight times that fit the processor's cache."""
_ASCII_WORD = np.zeros(256, dtype=bool)
_ASCII_WORD[[*b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]] = True


class TextBlock(NamedTuple):
    """Consecutive rows as UTF-8 bytes: number of the first row, and where each begins and the last ends in *data*."""

    first: int
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]


def blocks(column: pa.ChunkedArray, size: int = BLOCK) -> Iterator[TextBlock]:
    """Cut a column into blocks of whole rows of about *size* bytes; a longer row is a block."""
    first = 0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        text = chunk if pa.types.is_string(chunk.type) else chunk.cast(pa.string())
        _, offsets, characters = text.buffers()
        places = np.frombuffer(offsets, dtype=np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
        data = np.frombuffer(characters, dtype=np.uint8) if characters is not None else np.zeros(0, dtype=np.uint8)
        row = 0
        while row < len(text):
            stop = max(int(np.searchsorted(places, places[row] + size, side="right")) - 1, row + 1)
            yield TextBlock(first + row, data[places[row] : places[stop]], places[row : stop + 1] - places[row])
            row = stop
        first += len(text)


def to_arrow(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> pa.Array:
    """Build texts from their bytes and where each begins, and the end."""
    offsets = pa.py_buffer(np.ascontiguousarray(starts, dtype=np.int32))
    return pa.StringArray.from_buffers(len(starts) - 1, offsets, pa.py_buffer(np.ascontiguousarray(data)))


def in_characters(
    data: NDArray[np.uint8], row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[NDArray[np.int32]]:
    """Convert starts and ends of spans to characters from the start of their row."""
    if not len(data) or data.max() < 0x80:  # all bytes are characters
        yield from ((place - row).astype(np.int32) for place in (start, end))
        return
    before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum((data & 0xC0) != 0x80, out=before[1:])
    yield from ((before[place] - before[row]).astype(np.int32) for place in (start, end))


class Spans(NamedTuple):
    """Disjoint parts of texts, in order; arrays have the shape (spans,). ``start`` and ``end`` count characters."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def meet(self, others: Spans) -> NDArray[np.bool_]:
        """Return whether each shares a character with one of *others*."""
        if not len(others.row):
            return np.zeros(len(self.row), dtype=bool)
        width = max(int(self.end.max(initial=0)), int(others.end.max())) + 1
        last = np.searchsorted(others.row * width + others.start, self.row * width + self.end, side="left") - 1
        ends = others.row * width + others.end
        return np.asarray((last >= 0) & (ends[last] > self.row * width + self.start))


def token_starts(texts: TextBlock) -> NDArray[np.int64]:
    """Find where a name may begin or end: between bytes that are not of one word or character, and at ends of rows.

    So a token is a whole word, or one character outside words.

    :returns: places in ``data``, ascending, its end included.
    """
    data = texts.data
    word = _ASCII_WORD[data]
    begins = np.ones(len(data) + 1, dtype=bool)
    if len(data) and data.max() >= 0x80:
        lead = np.flatnonzero(data >= 0xC0)
        length = 2 + (data[lead] >= 0xE0).astype(np.int64) + (data[lead] >= 0xF0)
        signs = word_characters()[_code_points(data, lead, length)]
        for step in range(4):
            longer = length > step
            word[lead[longer] + step] = signs[longer]
        begins[:-1] = (data & 0xC0) != 0x80
    begins[1:-1] &= ~(word[1:] & word[:-1])
    begins[texts.starts] = True
    return np.flatnonzero(begins)


def _code_points(data: NDArray[np.uint8], lead: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    point = data[lead].astype(np.int64) & (0x7F >> length)
    for step in range(1, 4):
        longer = length > step
        point[longer] = (point[longer] << 6) | (data[lead[longer] + step] & 0x3F)
    return point


def spread(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate start, start + 1, … of all runs."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


class Hasher:
    """64-bit hashes of runs of bytes in a block, from one running sum; with *fold*, "A" to "Z" equal "a" to "z"."""

    def __init__(self, fold: bool = False) -> None:
        random = np.random.default_rng(0).integers(1, 1 << 63, 256, dtype=np.uint64)
        self._letters = random * np.uint64(2) + np.uint64(1)
        if fold:
            self._letters[65:91] = self._letters[97:123]
        self._growing = Lock()
        self._powers, self._inverses = _powers(_ODD, 1 << 16), _powers(_INVERSE, 1 << 16)

    def sums(self, data: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return Σ letter · odd^place before each byte, and at the end, modulo 2^64."""
        with self._growing:  # threads share the tables, which must never shrink under one of them
            if len(data) >= len(self._powers):
                size = 1 << len(data).bit_length()
                self._powers, self._inverses = _powers(_ODD, size), _powers(_INVERSE, size)
        sums = np.zeros(len(data) + 1, dtype=np.uint64)
        values = self._letters[data]
        values *= self._powers[: len(data)]
        np.cumsum(values, out=sums[1:])
        return sums

    def hash(self, sums: NDArray[np.uint64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Hash the bytes from *start* to *end*, independently of their place."""
        value: NDArray[np.uint64] = (sums[end] - sums[start]) * self._inverses[start]
        value ^= value >> np.uint64(32)
        value *= np.uint64(_ODD)
        return value

    def rows(self, column: pa.ChunkedArray) -> NDArray[np.uint64]:
        """Hash each text."""
        hashes = [self.hash(self.sums(part.data), part.starts[:-1], part.starts[1:]) for part in blocks(column)]
        return np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    powers = np.full(count + 1, base, dtype=np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


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

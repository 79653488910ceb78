"""Columns of text as arrays of bytes, a block at a time, for millions of descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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

"""Rows of columns of text of any size: Arrow joins a column before it takes rows of it, and fails beyond 2 GiB."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

JOINED = 1 << 30
"""Bytes of text that are put into one array."""
_ROWS = 1 << 20


def is_blank(texts: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which of the texts are empty or white space alone; shape (texts,)."""
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy())


def few_chunks(column: pa.ChunkedArray, size: int = JOINED) -> pa.ChunkedArray:
    """The same texts in arrays of about *size* bytes, to take rows of again and again; one chunk stays as it is."""
    if column.num_chunks == 1:
        return column
    groups: list[list[pa.Array]] = []
    room = 0
    for chunk in column.chunks:
        if not groups or chunk.nbytes > room:
            groups.append([])
            room = size
        groups[-1].append(chunk)
        room -= chunk.nbytes
    return pa.chunked_array(map(pa.concat_arrays, groups or [[pa.array([], column.type)]]), column.type)


def take_rows(
    column: pa.ChunkedArray, rows: NDArray[np.int64] | NDArray[np.int32], size: int = JOINED
) -> pa.ChunkedArray:
    """Some rows of a column, in this order, in chunks of at most a million.

    :param size: see :func:`few_chunks`.
    """
    chunks = few_chunks(column, size).chunks
    starts = np.cumsum([0, *map(len, chunks)])
    parts = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
    return pa.chunked_array([_take(chunks, starts, part) for part in parts], column.type)


def put_rows(
    column: pa.ChunkedArray, rows: NDArray[np.int64], new: pa.ChunkedArray | pa.Array, size: int = JOINED
) -> pa.ChunkedArray:
    """A column with the texts of *rows* (ascending) exchanged for *new*.

    :param size: see :func:`few_chunks`.
    """
    new = pa.chunked_array(new) if isinstance(new, pa.Array) else new
    if len(rows) == len(column):
        return new
    places = np.arange(len(column))
    places[rows] = len(column) + np.arange(len(rows))
    return take_rows(pa.chunked_array([*column.chunks, *new.chunks], column.type), places, size)


def _take(chunks: list[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64] | NDArray[np.int32]) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0].take(pa.array(rows))
    chunk = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    taken = [
        pc.take(one, pa.array(rows[chunk == number] - starts[number]))
        for number, one in enumerate(chunks)
        if (chunk == number).any()
    ]
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.concat_arrays(taken).take(pa.array(back))

"""Tab-separated files as Arrow columns, for twenty million lines without a Python loop; faults name their lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from fathom.base.reading import Faults, Unreadable, check_file, opened, text_lines
from fathom.base.reading.files import BLOCK, PACKED
from fathom.base.reading.spelling import is_respelt, tidy_column

SHOWN = 20
"""Faults of one kind that are listed; the rest are counted."""

JOINED = 1 << 30
"""Bytes of text per array: Arrow fails to take rows of a column beyond 2 GiB."""
_ROWS = 1 << 20


class Columns:
    """The lines of a file that have as many fields as expected; others are faults, blank lines are skipped.

    ``faulty`` says whether reading had a fault, so that missing rows prove nothing about the file.
    """

    def __init__(
        self, file: Path, names: Sequence[str], faults: Faults, *, delimiter: str = "\t", skip: int = 0
    ) -> None:
        self.file, self.names, self.faults, self.skip, self.delimiter = file, tuple(names), faults, skip, delimiter
        before = len(faults.found)
        faults.read.add(file)
        self._wrong: list[tuple[int, str]] = []
        self.table = pa.table({name: pa.array([], pa.string()) for name in names})
        self._passed = np.zeros(0, dtype=np.int64)
        try:
            self._keep(self._read())
        except Unreadable as error:
            faults.keep(error)
        except pa.ArrowInvalid as error:
            row = re.search(r"Row #(\d+)", str(error))
            shown = "".join(sign if sign.isprintable() else " " for sign in str(error)[:200])
            if "Empty CSV file" not in shown:
                faults.add(file, int(row[1]) if row else None, f"cannot be read as columns: {shown}")
        except (OSError, EOFError) as error:
            faults.add(file, None, f"cannot be read: {error}")
        self._report_wrong()
        self.faulty = len(faults.found) > before or file in faults.broken  # which may have been found earlier

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def line(self, row: int) -> int:
        """Return the line number of a row, from 1."""
        before = self._passed - 1 - self.skip - np.arange(len(self._passed))  # rows before each line passed over
        return int(row + 1 + self.skip + np.searchsorted(before, row, side="right"))

    def complain(
        self,
        rows: NDArray[np.int64],
        message: Callable[[int], str],
        more: str = "such lines",
        tell: Callable[[Path, int | None, str], None] | None = None,
    ) -> None:
        """Report a fault for each of *rows*, up to :data:`SHOWN`.

        :param tell: reports a message, by default as a fault.
        """
        tell = tell or self.faults.add
        for row in rows[:SHOWN].tolist():
            tell(self.file, self.line(row), message(row))
        if len(rows) > SHOWN:
            tell(self.file, None, f"{len(rows) - SHOWN:,} more {more}")

    def refuse_empty(self, name: str) -> None:
        """Report each line whose field is empty or white space."""
        self.complain(np.flatnonzero(is_blank(self[name])), lambda row: f"the {name} is empty")

    def refuse_second(self, name: str, kind: str) -> None:
        """Report each line that repeats a value of a column."""
        values = self[name].combine_chunks()
        different = pc.unique(values)
        if len(different) < len(values):
            places = np.asarray(pc.index_in(values, value_set=different))
            again = np.setdiff1d(np.arange(len(places)), np.unique(places, return_index=True)[1])
            self.complain(again, lambda row: f"{kind} {values[row].as_py()!r} is repeated")

    def _read(self) -> pa.Table:
        """Read the file; again if lines have another number of fields, as text, for Arrow hands on UTF-8 alone."""
        try:
            return self._parse(None)
        except pa.ArrowInvalid:
            deque(text_lines(self.file), maxlen=0)  # raises where a line is not UTF-8
            return self._parse(self._skip_row)

    def _parse(self, on_wrong_row: Callable[[Any], str] | None) -> pa.Table:
        check_file(self.file)
        with opened(self.file) if self.file.suffix in PACKED else nullcontext(str(self.file)) as source:
            return pa.csv.read_csv(
                source,
                # One thread: only then are lines counted.
                pa.csv.ReadOptions(column_names=list(self.names), use_threads=False, skip_rows=self.skip),
                pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=False,
                    escape_char=False,
                    ignore_empty_lines=False,
                    invalid_row_handler=on_wrong_row,
                ),
                pa.csv.ConvertOptions(column_types=dict.fromkeys(self.names, pa.string()), strings_can_be_null=False),
            )

    def _skip_row(self, row: pa.csv.InvalidRow) -> str:
        self._wrong.append((row.number, row.text))
        return "skip"

    def _keep(self, table: pa.Table) -> None:
        """Drop blank lines, which Arrow gives as rows of empty fields."""
        self._passed = np.array([number for number, _ in self._wrong], dtype=np.int64)
        self.table = table
        blank = np.logical_and.reduce([pc.equal(pc.binary_length(field), 0).to_numpy() for field in table.columns])
        if blank.any():
            self.drop(blank)
        self._tidy()

    def _tidy(self) -> None:
        for place, name in enumerate(self.names):
            texts = tidy_column(self[name])
            for row in np.flatnonzero(pc.not_equal(texts, self[name]).to_numpy()).tolist():
                if is_respelt(text := self[name][row].as_py(), texts[row].as_py()):
                    self.faults.respelt.append((self.file, self.line(row), text))
            self.table = self.table.set_column(place, name, texts)

    def drop(self, rows: NDArray[np.bool_]) -> None:
        """Drop the rows marked; the others keep their line numbers."""
        lines = [self.line(row) for row in np.flatnonzero(rows).tolist()]
        self.table = self.table.filter(pa.array(~rows))
        self._passed = np.sort(np.concatenate([self._passed, np.array(lines, dtype=np.int64)]))

    def _report_wrong(self) -> None:
        wrong = [(number, text) for number, text in self._wrong if text.strip()]
        for number, text in wrong[:SHOWN]:
            self.faults.add(
                self.file, number, f"expected {len(self.names)} columns ({', '.join(self.names)}), found {text[:60]!r}"
            )
        if len(wrong) > SHOWN:
            self.faults.add(self.file, None, f"{len(wrong) - SHOWN:,} more lines with another number of columns")


def first_lines(file: Path, count: int) -> list[str]:
    """Return the first *count* lines that are not blank; none if the file cannot be read."""
    try:
        with opened(file) as stream:
            start = stream.read(1 << 16).decode("utf-8", errors="replace")
    except Unreadable:
        return []
    return [line.rstrip("\r") for line in start.split("\n") if line.strip()][:count]


def ends_within_a_line(file: Path) -> bool:
    """Return whether the last line has no line end, as in a truncated file."""
    last = b"\n"
    with opened(file) as stream:
        while part := stream.read(BLOCK):
            last = part[-1:]
    return last not in (b"\n", b"\r")


def first_fields(file: Path) -> int:
    """Return the number of columns of the first line, or 0."""
    return next((len(line.split("\t")) for line in first_lines(file, 1)), 0)


def is_blank(texts: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return whether each text is empty or white space; shape (texts,)."""
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy())


def few_chunks(column: pa.ChunkedArray, size: int = JOINED) -> pa.ChunkedArray:
    """Join chunks to arrays of about *size* bytes, to take rows repeatedly. One chunk stays unmodified."""
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
    """Take rows of a column, in chunks of at most a million. :param size: see :func:`few_chunks`."""
    chunks = few_chunks(column, size).chunks
    starts = np.cumsum([0, *map(len, chunks)])
    parts = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
    return pa.chunked_array([_take(chunks, starts, part) for part in parts], column.type)


def put_rows(
    column: pa.ChunkedArray, rows: NDArray[np.int64], new: pa.ChunkedArray | pa.Array, size: int = JOINED
) -> pa.ChunkedArray:
    """Replace the texts of *rows* (ascending) by *new*. :param size: see :func:`few_chunks`."""
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
        pc.take(piece, pa.array(rows[chunk == number] - starts[number]))
        for number, piece in enumerate(chunks)
        if (chunk == number).any()
    ]
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.concat_arrays(taken).take(pa.array(back))

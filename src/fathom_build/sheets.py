"""Notes of a build, and tables that people fill in with a spreadsheet: written as CSV, read back as it saves them."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fathom.base.errors import BadInput
from fathom.base.reading import Faults, Missing, read_lines, read_text, repetition
from fathom.data.formats.rows import delimiter_of


class Notes(list[str]):
    """Notes of a build, one line for all items of a kind."""

    def add_all(self, names: Iterable[str], what: str) -> None:
        """Add "3 classes have no label: a, b, c" unless there are none; of many, five are examples."""
        if listed := list(names):
            self.append(f"{len(listed):,} {what}: {', '.join(listed[:5])}{', …' if len(listed) > 5 else ''}")

    def add_kinds(self, kinds: Sequence[str], what: str) -> None:
        """Add "axioms are not read: 3 owl:hasKey (x), 1 owl:sameAs (y)" unless there are none."""
        if kinds:
            self.append(f"{what}: {', '.join(kinds)}")


Row = dict[str, str]
"""A line of the table: cells by column."""
Key = TypeVar("Key")
Value = TypeVar("Value")


def write_sheet(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write a table for a spreadsheet, with a byte order mark so that it is read as UTF-8. Missing cells are empty."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_sheet(path: Path, needed: Collection[str], columns: Sequence[str], whose: str) -> list[tuple[int, Row]]:
    """Return (line, cells) of each row.

    :param needed: columns that must be there.
    :param columns: all that there should be.
    :param whose: what the file is, in the message that it is missing.
    :raises BadInput: no such file, no table, or a column is missing.
    """
    try:
        text = read_text(path)
    except Missing as error:
        raise BadInput(f"{path}: no such file: expected {whose}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(text), restval="")
    try:
        missing = set(needed) - set(reader.fieldnames or ())
        if missing:
            raise BadInput(f"{path}:1: column {', '.join(sorted(missing))} is missing: expected {', '.join(columns)}")
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: not CSV: {error}") from error


def read_pairs(path: Path, expected: str, parse: Callable[[str, str], tuple[Key, Value] | None]) -> dict[Key, Value]:
    """Read two columns separated by a tab; blank lines and those with ``#`` are skipped.

    :param expected: what a line has, for messages.
    :param parse: makes a key and a value of the two texts; None if they are something else.
    :raises BadInput: every line that is something else, or repeats a key.
    """
    faults = Faults()
    pairs: dict[Key, Value] = {}
    lines: dict[Key, int] = {}
    for number, line in read_lines(path, faults):
        if not line.strip() or line.startswith("#"):
            continue
        first, _, second = (part.strip() for part in line.partition("\t"))
        pair = parse(first, second)
        if pair is None:
            faults.add(path, number, f"expected {expected}, found {line.strip()[:60]!r}")
        elif why := repetition(lines, pair[0], number, repr(first)):
            faults.add(path, number, why)
        else:
            pairs[pair[0]] = pair[1]
    faults.stop_if_any()
    return pairs


REVIEW_FILE, AUDIT_FILE = "review.csv", "audit.csv"
SENTENCES = ("id", "type", "sentence", "answer", "reviewer_1", "reviewer_2", "comment")
"""Columns of a sample of sentences, which two people judge, as in Shaier et al., section 3.2.3."""
INSTANCES = (
    "relation", "statement", "subject", "subject_id", "answer", "answer_id", "source", "judgement", "comment",
)  # fmt: skip
"""Columns of a sample of a balanced probe's instances, which somebody compares with their source."""


class Reservoir:
    """A uniform random sample of a stream (reservoir sampling)."""

    def __init__(self, size: int, seed: str) -> None:
        self._size, self._seen, self._random = size, 0, random.Random(seed)
        self._sample: list[tuple[int, Row]] = []

    def add(self, thing: Row) -> None:
        """Offer the next item of the stream."""
        self._seen += 1
        if len(self._sample) < self._size:
            self._sample.append((self._seen, thing))
        elif (place := self._random.randrange(self._seen)) < self._size:
            self._sample[place] = (self._seen, thing)

    def in_order(self) -> list[Row]:
        """Return the sample, in the order of the stream."""
        return [thing for _, thing in sorted(self._sample, key=lambda pair: pair[0])]

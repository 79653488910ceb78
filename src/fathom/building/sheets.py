"""Tables that people fill in with a spreadsheet: written as CSV, read back as their country's spreadsheet saves it."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from fathom.errors import BadInput
from fathom.reading import Missing, read_text

Row = dict[str, str]
"""A line of the table: cells by column."""


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
    # Spreadsheets write what separates columns in their country.
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    try:
        missing = set(needed) - set(reader.fieldnames or ())
        if missing:
            raise BadInput(f"{path}:1: column {', '.join(sorted(missing))} is missing: expected {', '.join(columns)}")
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: not CSV: {error}") from error

"""Rows of foreign tables, their parsers and the kinds of their columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fathom.base.reading import (
    Faults,
    Json,
    NotData,
    Unreadable,
    json_value,
    opened,
    read_json,
    read_json_items,
    read_json_lines,
    read_text,
    shown,
)
from fathom.base.reading.spelling import Spelling, tidy
from fathom.data.formats.base import texts_of

_OPENING = 1 << 16
"""Bytes; longer than the first item of any of these data sets."""
_KEY = re.compile(r'"([^"\\]+)"\s*:')
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")

KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (lambda value: isinstance(value, str), "text"),
    "filled text": (lambda value: isinstance(value, str) and bool(value.strip()), "text, not empty"),
    "prompt with {}": (lambda value: isinstance(value, str) and value.count("{}") == 1, "text with {} once"),
    "number": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "id": (lambda value: isinstance(value, str | int) and not isinstance(value, bool), "text or a number"),
    "texts": (lambda value: texts_of(value) is not None, "a list of texts"),
    "some texts": (lambda value: bool(texts_of(value)), "a list of texts, not empty"),
    "filled texts": (lambda value: bool(texts_of(value)) and all(map(str.strip, value)), "a list of texts, none empty"),
    "texts by language": (
        lambda value: None not in map(texts_of, value.values() if isinstance(value, dict) else [value]),
        "a list of texts, or an object of such lists by language",
    ),
    "object": (lambda value: isinstance(value, dict), "an object"),
    "labels": (
        lambda value: isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values()),
        "an object of texts or numbers",
    ),
    "list": (lambda value: isinstance(value, list), "a list"),
}
"""Kinds of columns: the values that fit, and what a message expects."""
OPTIONAL = " or none"
Columns = Mapping[str, str]
"""Kinds by column. ``a.b`` is the field "b" of the object "a"; a column of the kind "text or none" may be missing."""
RowReader = Callable[[Path, Columns, Faults], Iterable[tuple[int | None, Json]]]
"""Parses a file into lines and objects; invalid ones become faults."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file. :param about: further columns, which come from its place and take precedence."""

    file: Path
    line: int | None
    content: Json
    faults: Faults
    about: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        """Return a cell, None if it is missing."""
        for source in (self.about, self.content):
            if column in source:
                return source[column]
        value: Any = self.content
        for key in column.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def having(self, **more: object) -> Row:
        """Return the row with more columns."""
        return replace(self, about={**self.about, **more})

    def refuse(self, message: str) -> None:
        """Add a fault at this row."""
        self.faults.add(self.file, self.line, message)

    def fits(self, columns: Columns) -> bool:
        """Return whether all columns are of their kind; those that are not become one fault."""
        wrong = []
        for column, kind in columns.items():
            value, (is_fit, expected) = self[column], KINDS[kind.removesuffix(OPTIONAL)]
            if not is_fit(value) and not (value is None and kind.endswith(OPTIONAL)):
                is_missing = value is None and column not in self.content
                found = "is missing" if is_missing else f"must be {expected}, found {shown(value)}"
                wrong.append(f"'{column}' {found}")
        if wrong:
            self.refuse("; ".join(wrong))
        return not wrong


def read_rows(file: Path, columns: Columns, faults: Faults) -> Iterator[Row]:
    """Yield the rows of JSON Lines whose columns fit; the others become faults."""
    rows = (Row(file, line, content, faults) for line, content in read_json_lines(file, {}, faults))
    return (row for row in rows if row.fits(columns))


def texts_in(value: str | list[str]) -> list[str]:
    """Return a text as a list of one, and a list of texts without repeats."""
    return list(dict.fromkeys(value)) if isinstance(value, list) else [value]


def _lines(file: Path, columns: Columns, faults: Faults) -> Iterable[tuple[int, Json]]:
    """Read one object per line."""
    if beginning(file).startswith("["):
        faults.add(file, 1, "a list, as others store this data set: expected one object per line, as published")
        return ()
    return read_json_lines(file, {}, faults)


def _samples(file: Path, columns: Columns, faults: Faults) -> Iterator[tuple[int, Json]]:
    """Read the list ``samples`` of an object: each item with the object's fields, at the line of its first key."""
    content = read_json(file, faults)
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list):
        if content is not None:
            faults.add(file, 1, f"expected an object with a list of 'samples', found {shown(content)}")
        return
    items = [item if isinstance(item, dict) else {} for item in samples]
    first = items[0] if items else {}
    if not Row(file, 1, content, faults).fits({name: kind for name, kind in columns.items() if name not in first}):
        return
    lines = enumerate(read_text(file).split("\n"), start=1)
    numbers = [number for number, line in lines for _ in re.findall(rf'"{re.escape(next(iter(first), ""))}"\s*:', line)]
    for line, item in zip(numbers if len(numbers) == len(items) else [1] * len(items), items, strict=True):
        yield line, {**content, **item}


def delimiter_of(text: str) -> str:
    """Return what separates the columns of a header; spreadsheets write what does so in their country."""
    return max(",;\t", key=text.partition("\n")[0].count)


def _header(found: Sequence[str], columns: Iterable[str]) -> tuple[Sequence[str], str]:
    """Return a header, and why it cannot be used; "" if it can."""
    missing = [name for name in columns if name not in found]
    if not missing and len(set(found)) == len(found):
        return found, ""
    what = f"column {', '.join(missing)} is missing" if missing else "two columns have the same name"
    return found, f"{what}: expected {', '.join(columns)}, found {shown(list(found))}"


def read_cells(
    file: Path,
    columns: Columns,
    faults: Faults,
    delimiter: str = "\t",
    header_of: Callable[[Sequence[str]], tuple[Sequence[str], str]] | None = None,
) -> Iterator[tuple[int, Json]]:
    """Read lines below a header, quoted as CSV; numbers and lists are JSON. The case of the header does not matter.

    :param columns: kinds of the columns that must be there.
    :param header_of: returns our names of the columns, and why they cannot be used; "" if they can.
    """
    faults.read.add(file)
    spelling = Spelling(file, faults.respelt)
    reader = None
    try:
        reader = csv.DictReader(io.StringIO(read_text(file), newline=""), delimiter=delimiter, strict=True)
        found = [tidy(name).casefold() for name in reader.fieldnames or ()]
        header, why = _header(found, columns) if header_of is None else header_of(found)
        reader.fieldnames = header
        if why:
            faults.add(file, 1, why)
            return
        for row in reader:
            cells = [cell for cell in (*row.values(), *(row.get(None) or ())) if isinstance(cell, str)]
            line = reader.line_num - sum(cell.count("\n") for cell in cells)
            if len(cells) != len(header):
                quote = f"quote a cell that contains {delimiter!r}"
                faults.add(file, line, f"{len(cells)} cells for {len(header)} columns, {shown(cells)}: {quote}")
            else:
                yield (
                    line,
                    spelling.of(line, {name: _cell(text, columns.get(name, "text")) for name, text in row.items()}),
                )
    except csv.Error as error:
        faults.add(file, reader.line_num + 1 if reader else None, f"not a table: {error}")
    except Unreadable as error:
        faults.keep(error)


def _cell(text: str, kind: str) -> Any:
    """Return the value of a cell, or its text if it is not of that kind."""
    if "text" in kind.split() or (kind == "number" and not _WHOLE_NUMBER.fullmatch(text)):
        return text
    try:
        return json_value(text)
    except NotData:
        return text


READERS: dict[str, RowReader] = {
    "lines": _lines,
    "list": lambda file, columns, faults: read_json_items(file, {}, faults),
    "samples": _samples,
    "cells": read_cells,
}
"""Parsers of files: JSON Lines, a list of objects, the samples of an object, tab-separated cells."""


def keys_of(file: Path) -> set[str]:
    """Return the keys in the first 64 kB of a JSON file and the columns of a header; nothing if it is unreadable."""
    text = beginning(file)
    return {*_KEY.findall(text), *text.partition("\n")[0].rstrip("\r").split("\t")}


def beginning(file: Path) -> str:
    """Return the first 64 kB of a text without leading white space; "" if it is unreadable."""
    try:
        with opened(file) as stream:
            return stream.read(_OPENING).decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    except Unreadable:
        return ""

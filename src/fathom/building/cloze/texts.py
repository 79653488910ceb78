"""Plain text, one document per file or line, and JSON Lines ``{"id": "…", "text": "…", "date": "2022-03-01"}``."""

from __future__ import annotations

import datetime
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from io import BufferedIOBase
from typing import IO, cast

from fathom.building.cloze.documents import Document, Keys, Part, Unit, Unreadable

_LONGEST = 1 << 26
"""Bytes of a line of JSON; a longer one is no document."""
_CUT = 1 << 20
"""Characters after which a paragraph of plain text is cut, so that a file of one line is read in pieces."""
_BLANK_LINE = re.compile(r"\n\s*\n")


def tidy(text: str) -> str:
    """White space collapsed, and letters with their accents as one sign, as the names of entities are."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


class JsonLines:
    """:param name: of the file: a line without an id is named after it."""

    place = "line"

    def __init__(self, name: str, encoding: str) -> None:
        self.name, self.encoding = name, encoding

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Lines that are not blank."""
        for number, line, complete in _lines(file):
            if not complete:
                yield Unit(number, {}, f"longer than {_LONGEST:,} bytes")
            elif line.strip():
                yield self._unit(number, line)

    def _unit(self, number: int, line: bytes) -> Unit:
        try:
            row = json.loads(line.decode(self.encoding).lstrip("\ufeff"))
        except UnicodeDecodeError as error:
            return Unit(number, {}, f"not {self.encoding} (byte {error.start}); --encoding names another")
        except (json.JSONDecodeError, RecursionError) as error:
            return Unit(number, {}, f"not JSON: {error}")
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            return Unit(number, {}, 'expected {"id": "…", "text": "…", "date": "…"}')
        if row.get("date") and not _day(row["date"]):
            return Unit(number, {}, f"expected a date such as 2022-03-01, 2022-03 or 2022, found {row['date']!r}")
        return Unit(number, row)

    def keys(self, unit: Unit) -> Keys:
        """The line's own id, where it has one."""
        return Keys(((f"id {unit.content['id']}", 1),) if unit.content.get("id") is not None else ())

    def document(self, unit: Unit) -> Document | None:
        """Its paragraphs; a blank line ends one."""
        row = unit.content
        return Document(
            str(row["id"]) if row.get("id") is not None else f"{self.name}:{unit.place}",
            _day(row.get("date")),
            [Part(text) for paragraph in _BLANK_LINE.split(row["text"]) if (text := tidy(paragraph))],
        )


class PlainText:
    """A blank line ends a paragraph; with *by_line* a line is a document."""

    place = "line"

    def __init__(self, name: str, encoding: str, *, by_line: bool) -> None:
        self.name, self.encoding, self.by_line = name, encoding, by_line

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """The file as a whole, or its lines that are not blank."""
        if not self.by_line:
            yield Unit(1, file)
            return
        for number, line, complete in _lines(file):
            if not complete:
                yield Unit(number, b"", f"longer than {_LONGEST:,} bytes")
            elif line.strip():
                yield Unit(number, line)

    def keys(self, unit: Unit) -> Keys:
        """None: texts have no ids, so that none replaces another."""
        return Keys()

    def document(self, unit: Unit) -> Document | None:
        """Paragraphs are read one at a time, so that a long file need not lie in memory.

        :raises Unreadable: a line that is not in the encoding.
        """
        if self.by_line:
            return Document(f"{self.name}:{unit.place}", "", [Part(tidy(self._decoded(unit.content)))])
        return Document(self.name, "", self._paragraphs(unit.content))

    def _paragraphs(self, file: BufferedIOBase) -> Iterator[Part]:
        reader = io.TextIOWrapper(cast("IO[bytes]", file), self.encoding)
        lines: list[str] = []
        number = length = 0
        try:
            while line := reader.readline(_CUT):
                number += 1
                line = line.removeprefix("\ufeff") if number == 1 else line
                if line.strip() and length < _CUT:
                    lines.append(line)
                    length += len(line)
                    continue
                if text := tidy("".join(lines)):
                    yield Part(text)
                lines, length = [line], len(line)
            if text := tidy("".join(lines)):
                yield Part(text)
        except UnicodeDecodeError as error:
            raise Unreadable(
                f"not {self.encoding} near line {number + 1}: the rest is left out; --encoding names another"
            ) from error
        finally:
            reader.detach()

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode(self.encoding).lstrip("\ufeff")
        except UnicodeDecodeError as error:
            raise Unreadable(f"not {self.encoding} (byte {error.start}); --encoding names another") from error


def _lines(file: BufferedIOBase) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether it is all of it); of a line that is too long only the first bytes."""
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        whole = len(line) < _LONGEST or line.endswith(b"\n")
        yield number, line, whole
        while not whole and (line := file.readline(_LONGEST)):
            whole = line.endswith(b"\n")


def _day(value: object) -> str:
    """Year, month and day of a date, the missing ones taken as the first; "" where it is none."""
    found = re.match(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?!\d)", str(value or ""))
    try:
        return datetime.date(*(int(part or 1) for part in found.groups())).isoformat() if found else ""
    except ValueError:
        return ""

"""Documents of a corpus, and readers of plain text and JSON Lines.

A unit is a record in the file: cheap to find and parsed on demand. So one pass over all files determines which records
are replaced by later ones before any of them is parsed.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from typing import IO, Any, NamedTuple, cast

from fathom.base.reading import Json, NotData, json_value
from fathom.base.reading.bounds import DOCUMENT
from fathom_build.cloze.typography import tidy

_LONGEST_PARAGRAPH = 1 << 20
"""Characters after which a paragraph of plain text is cut, so that a file of one line is read in pieces."""
_BLANK_LINE = re.compile(r"\n\s*\n")


class Paragraph(NamedTuple):
    """A paragraph, tidied; ``section`` is its label or the heading above it, "" for none."""

    text: str
    section: str = ""


class Document(NamedTuple):
    """A document; ``date`` is the earliest in the record, as year-month-day, "" for none."""

    id: str
    date: str
    parts: Iterable[Paragraph]
    languages: tuple[str, ...] = ()


class Keys(NamedTuple):
    """Identity of a record.

    :param ids: (id, version); at most one for a record, all for a list of deletions. A greater version replaces a
        smaller one regardless of order.
    :param deleted: the ids are withdrawn.
    """

    ids: tuple[tuple[str, int], ...] = ()
    deleted: bool = False


class Unit(NamedTuple):
    """A record at a byte of the unpacked file, or line; ``fault`` says why it cannot be read, "" if unknown."""

    place: int
    content: Any
    fault: str = ""


class UnreadableDocument(Exception):
    """A record, or the rest of a file, that cannot be read; it is skipped, named and counted."""


class Corpus:
    """One file of some kind. By default it is one document, its units are lines, and none replaces another."""

    place = "line"
    """What :attr:`Unit.place` counts."""

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read records one at a time, in file order. :raises UnreadableDocument: the rest of the file is malformed."""
        yield Unit(1, file)

    def keys(self, unit: Unit) -> Keys:
        """Identify a record without parsing it."""
        return Keys()

    def document(self, unit: Unit) -> Document | None:
        """Parse a record; None for a list of deletions. :raises UnreadableDocument: the record is broken."""
        raise NotImplementedError


class JsonLines(Corpus):
    """Lines such as ``{"id": "…", "text": "…", "date": "2022-03-01"}``; file and line replace a missing id."""

    def __init__(self, name: str, encoding: str) -> None:
        self.name, self.encoding = name, encoding

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read lines that are not blank."""
        for number, line, fault in _lines(file):
            try:
                yield Unit(number, {} if fault else self._row(line), fault)
            except UnreadableDocument as error:
                yield Unit(number, {}, str(error))

    def _row(self, line: bytes) -> Json:
        try:
            row = json_value(decode(line, self.encoding))
        except NotData as error:
            raise UnreadableDocument(error.why) from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UnreadableDocument('expected {"id": "…", "text": "…", "date": "…"}')
        if row.get("date") and not _day(row["date"]):
            raise UnreadableDocument(f"expected a date such as 2022-03-01, 2022-03 or 2022, found {row['date']!r}")
        return row

    def keys(self, unit: Unit) -> Keys:
        """Return the line's id, if it has one."""
        return Keys(((f"id {unit.content['id']}", 1),) if unit.content.get("id") is not None else ())

    def document(self, unit: Unit) -> Document:
        """Return its paragraphs; a blank line ends one."""
        row = unit.content
        return Document(
            str(row["id"]) if row.get("id") is not None else f"{self.name}:{unit.place}",
            _day(row.get("date")),
            [Paragraph(text) for paragraph in _BLANK_LINE.split(row["text"]) if (text := tidy(paragraph))],
        )


class PlainText(Corpus):
    """A text whose paragraphs end at blank lines; with *by_line* each line is a document."""

    def __init__(self, name: str, encoding: str, *, by_line: bool) -> None:
        self.name, self.encoding, self.by_line = name, encoding, by_line

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Return the file as a whole, or read its lines that are not blank."""
        return _lines(file) if self.by_line else super().units(file)

    def document(self, unit: Unit) -> Document:
        """Read paragraphs one at a time, so that a long file need not fit in memory.

        :raises UnreadableDocument: a line that is not in the encoding.
        """
        if self.by_line:
            return Document(f"{self.name}:{unit.place}", "", [Paragraph(tidy(decode(unit.content, self.encoding)))])
        return Document(self.name, "", self._paragraphs(unit.content))

    def _paragraphs(self, file: BufferedIOBase) -> Iterator[Paragraph]:
        reader = io.TextIOWrapper(cast("IO[bytes]", file), self.encoding)
        lines: list[str] = []
        number = length = 0
        try:
            while line := reader.readline(_LONGEST_PARAGRAPH):
                number += 1
                line = line.removeprefix("\ufeff") if number == 1 else line
                if line.strip() and length < _LONGEST_PARAGRAPH:
                    lines.append(line)
                    length += len(line)
                    continue
                if text := tidy("".join(lines)):
                    yield Paragraph(text)
                lines, length = [line], len(line)
            if text := tidy("".join(lines)):
                yield Paragraph(text)
        except UnicodeError as error:
            where = f"not {self.encoding} near line {number + 1}"
            raise UnreadableDocument(f"{where}: the rest is skipped; --encoding names another") from error
        finally:
            reader.detach()


def decode(content: bytes, encoding: str) -> str:
    """Decode a text, without its byte order mark. :raises UnreadableDocument: it is not in the encoding."""
    try:
        return content.decode(encoding).lstrip("\ufeff")
    except UnicodeError as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise UnreadableDocument(f"not {encoding}{where}; --encoding names another") from error


def _lines(file: BufferedIOBase) -> Iterator[Unit]:
    """Read lines that are not blank; one that is too long has a fault."""
    number = 0
    while line := file.readline(DOCUMENT.most):
        number += 1
        whole = len(line) < DOCUMENT.most or line.endswith(b"\n")
        if line.strip() or not whole:
            yield Unit(number, line, "" if whole else DOCUMENT.fault())
        while not whole and (line := file.readline(DOCUMENT.most)):
            whole = line.endswith(b"\n")


def _day(value: object) -> str:
    """Return year, month and day, missing ones taken as the first; "" if it is no date."""
    match = re.match(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?!\d)", str(value or ""))
    try:
        return datetime.date(*(int(part or 1) for part in match.groups())).isoformat() if match else ""
    except ValueError:
        return ""

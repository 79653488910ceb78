"""Which files there are to read, what reads each of them, and what could not be read.

Read here: plain text, one document per file or line, and JSON Lines ``{"id": "…", "text": "…", "date": "2022-03-01"}``.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, cast

from fathom.building.cloze.blocks import Hypertext, html_of_markdown
from fathom.building.cloze.documents import Corpus, Document, Keys, Paragraph, Unit, Unreadable, tidy
from fathom.building.cloze.jats import Jats, is_jats
from fathom.building.cloze.medline import Medline
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.restructured import html_of
from fathom.errors import BadInput, refuse
from fathom.reading import Json, NotData, check_file, json_value, opened, stands
from fathom.reading import Unreadable as Rejected

MEDLINE, JATS, JSON_LINES, TEXT = "PubMed XML", "JATS XML", "JSON Lines", "plain text"
HTML, MARKDOWN, RESTRUCTURED = "HTML", "Markdown", "reStructuredText"
_KINDS = {
    ".xml": MEDLINE,
    ".nxml": JATS,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".txt": TEXT,
    ".html": HTML,
    ".htm": HTML,
    ".md": MARKDOWN,
    ".rst": RESTRUCTURED,
}
_RENDERED = {HTML: None, MARKDOWN: html_of_markdown, RESTRUCTURED: html_of}
_ENDINGS = f"{', '.join(_KINDS)}, plain or .gz"
_SHOWN = 20
"""How many faults of one file are listed one by one; the rest are counted."""
_LONGEST = 1 << 26
"""Bytes of a line of JSON; a longer one is no document."""
_CUT = 1 << 20
"""Characters after which a paragraph of plain text is cut, so that a file of one line is read in pieces."""
_HEAD = 1 << 13
"""Bytes that say of which kind an XML file is."""
_SOME = "utf-8, latin-1 and cp1252 are some"
_SAMPLE = "It is a line.\n"
_BLANK_LINE = re.compile(r"\n\s*\n")


class TextFile(NamedTuple):
    """A file.

    :param name: as given, or below the folder given: what provenance says.
    :param kind: of its content.
    """

    path: Path
    name: str
    kind: str


class Troubles:
    """What could not be read: the first of each file one by one, the others as a number; counted by file."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._notes: list[str] = []

    def add(self, source: TextFile, place: str, message: str) -> None:
        """Something of *source* was left out.

        :param place: where it stands.
        """
        self.count[source.name] += 1
        if self.count[source.name] <= _SHOWN:
            self._notes.append(f"{source.name}: {place}: {message}")

    def notes(self) -> list[str]:
        """A line for each that is listed, and one for the rest of each file."""
        more = [f"{name}: {n - _SHOWN:,} more like these" for name, n in self.count.items() if n > _SHOWN]
        return [*self._notes, *more]


def find_sources(inputs: Iterable[Path], notes: list[str]) -> list[TextFile]:
    """Files in the order given, those of a folder by name; each once.

    :param notes: what is passed over is added here.
    :raises BadInput: a path that is not there or not of a known kind.
    """
    found: dict[Path, TextFile] = {}
    faults = []
    for given in inputs:
        if not stands(given):
            faults.append(f"--input {given}: no such file or folder")
        elif given.is_dir():
            files = sorted(path for path in given.rglob("*") if not path.is_dir() and not path.name.startswith("."))
            kinds = {path: _kind(path) for path in files}
            known = [path for path in files if kinds[path]]
            others = Counter(path.suffix or path.name for path in files if not kinds[path])
            if others:
                listed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
                notes.append(f"{given.name}: passed over: {listed}")
            if not known:
                faults.append(f"--input {given}: no file that ends in {_ENDINGS}")
            for path in known:
                if wrong := _no_file(path):
                    faults += wrong
                    continue
                name = (Path(given.name) / path.relative_to(given)).as_posix()
                found.setdefault(path.resolve(), TextFile(path, name, kinds[path]))
        elif kind := _kind(given):
            if wrong := _no_file(given):
                faults += wrong
                continue
            found.setdefault(given.resolve(), TextFile(given, given.name, kind))
        else:
            faults.append(f"--input {given}: expected a name that ends in {_ENDINGS}")
    refuse(faults)
    names = Counter(source.name for source in found.values())
    return [s._replace(name=s.path.as_posix()) if names[s.name] > 1 else s for s in found.values()]


def _no_file(path: Path) -> list[str]:
    """What stands there instead of a file, as a fault."""
    try:
        check_file(path)
    except Rejected as error:
        return [f"--input {error}"]
    return []


def _kind(path: Path) -> str:
    """By the name; of XML by what it begins with, too."""
    name = path.name.lower().removesuffix(".gz")
    kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "")
    return JATS if kind == MEDLINE and is_jats(_head(path)) else kind


def _is_packed(path: Path) -> bool:
    """Packed files are known by their first bytes, whatever their name."""
    with opened(path, unpack=False) as raw:
        return raw.read(2) == b"\x1f\x8b"


def _head(path: Path) -> bytes:
    """Its first bytes; none of what is no file, which is told elsewhere."""
    try:
        check_file(path)
        with opened(path, unpack=_is_packed(path)) as file:
            return file.read(_HEAD)
    except Rejected:
        return b""


def corpus_of(source: TextFile, options: ClozeBuildOptions) -> Corpus:
    """What reads the file."""
    if source.kind == MEDLINE:
        return Medline(titles=options.titles)
    if source.kind == JATS:
        return Jats(source.name, titles=options.titles)
    if source.kind in _RENDERED:
        return Hypertext(source.name, options.encoding, _RENDERED[source.kind])
    if source.kind == JSON_LINES:
        return JsonLines(source.name, options.encoding)
    return PlainText(source.name, options.encoding, by_line=options.lines)


def units_of(source: TextFile, corpus: Corpus, troubles: Troubles | None = None) -> Iterator[Unit]:
    """Records of a file one at a time. A file that is damaged from some place on gives those before it.

    :param troubles: where damage is reported; None for a pass that reports nothing.
    """
    try:
        with opened(source.path, unpack=_is_packed(source.path)) as file:
            yield from corpus.units(file)
    except (Unreadable, Rejected) as error:
        if troubles is not None:
            why = error.why if isinstance(error, Rejected) else str(error)
            troubles.add(source, "the rest of the file is left out", why)


def digest_of(path: Path) -> str:
    """SHA-256 of the file as it lies. :raises BadInput: it cannot be read."""
    with opened(path, unpack=False) as file:
        return hashlib.file_digest(file, hashlib.sha256).hexdigest()


def check_encoding(name: str) -> None:
    """:raises BadInput: Python knows no such encoding, or one that does not make text of bytes, line by line."""
    said = f"--encoding {name if name.isprintable() else repr(name)}"
    try:
        some = (_SAMPLE.encode(name) * 2).decode(name)
    except (LookupError, ValueError, TypeError, UnicodeError) as error:  # "\0", zip, undefined
        raise BadInput(f"{said}: there is no such encoding; {_SOME}") from error
    if some.replace("\ufeff", "") != _SAMPLE * 2:
        raise BadInput(f"{said}: no encoding of text; {_SOME}")


class JsonLines:
    """:param name: of the file: a line without an id is named after it."""

    place = "line"

    def __init__(self, name: str, encoding: str) -> None:
        self.name, self.encoding = name, encoding

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Lines that are not blank."""
        for number, line, fault in _lines(file):
            try:
                yield Unit(number, {} if fault else self._row(line), fault)
            except Unreadable as error:
                yield Unit(number, {}, str(error))

    def _row(self, line: bytes) -> Json:
        try:
            row = json_value(_decoded(line, self.encoding))
        except NotData as error:
            raise Unreadable(error.why) from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise Unreadable('expected {"id": "…", "text": "…", "date": "…"}')
        if row.get("date") and not _day(row["date"]):
            raise Unreadable(f"expected a date such as 2022-03-01, 2022-03 or 2022, found {row['date']!r}")
        return row

    def keys(self, unit: Unit) -> Keys:
        """The line's own id, where it has one."""
        return Keys(((f"id {unit.content['id']}", 1),) if unit.content.get("id") is not None else ())

    def document(self, unit: Unit) -> Document | None:
        """Its paragraphs; a blank line ends one."""
        row = unit.content
        return Document(
            str(row["id"]) if row.get("id") is not None else f"{self.name}:{unit.place}",
            _day(row.get("date")),
            [Paragraph(text) for paragraph in _BLANK_LINE.split(row["text"]) if (text := tidy(paragraph))],
        )


class PlainText:
    """A blank line ends a paragraph; with *by_line* a line is a document."""

    place = "line"

    def __init__(self, name: str, encoding: str, *, by_line: bool) -> None:
        self.name, self.encoding, self.by_line = name, encoding, by_line

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """The file as a whole, or its lines that are not blank."""
        yield from _lines(file) if self.by_line else [Unit(1, file)]

    def keys(self, unit: Unit) -> Keys:
        """None: texts have no ids, so that none replaces another."""
        return Keys()

    def document(self, unit: Unit) -> Document | None:
        """Paragraphs are read one at a time, so that a long file need not lie in memory.

        :raises Unreadable: a line that is not in the encoding.
        """
        if self.by_line:
            return Document(f"{self.name}:{unit.place}", "", [Paragraph(tidy(_decoded(unit.content, self.encoding)))])
        return Document(self.name, "", self._paragraphs(unit.content))

    def _paragraphs(self, file: BufferedIOBase) -> Iterator[Paragraph]:
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
                    yield Paragraph(text)
                lines, length = [line], len(line)
            if text := tidy("".join(lines)):
                yield Paragraph(text)
        except UnicodeError as error:
            raise Unreadable(
                f"not {self.encoding} near line {number + 1}: the rest is left out; --encoding names another"
            ) from error
        finally:
            reader.detach()


def _decoded(line: bytes, encoding: str) -> str:
    try:
        return line.decode(encoding).lstrip("\ufeff")
    except UnicodeError as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise Unreadable(f"not {encoding}{where}; --encoding names another") from error


def _lines(file: BufferedIOBase) -> Iterator[Unit]:
    """Lines that are not blank; one that is too long is passed over and has a fault."""
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        whole = len(line) < _LONGEST or line.endswith(b"\n")
        if line.strip() or not whole:
            yield Unit(number, line, "" if whole else f"longer than {_LONGEST:,} bytes")
        while not whole and (line := file.readline(_LONGEST)):
            whole = line.endswith(b"\n")


def _day(value: object) -> str:
    """Year, month and day of a date, the missing ones taken as the first; "" where it is none."""
    found = re.match(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?!\d)", str(value or ""))
    try:
        return datetime.date(*(int(part or 1) for part in found.groups())).isoformat() if found else ""
    except ValueError:
        return ""

"""Wikidata's JSON dump: one entity a line between "[" and "]", plain, ``.gz`` or ``.bz2``, a line at a time.

A line is parsed only where a test of its bytes says that it can matter: it names a wanted property, or is of an entity
that somebody needs by name. Most of the time goes into unpacking and into that test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fathom.building.bear.entities import Entity, WantedStatements, entity_of
from fathom.building.bear.numbers import Numbers
from fathom.progress import Progress, unseen
from fathom.reading import Faults, Unreadable, opened, shown
from fathom.reading.files import LONGEST_LINE, MEGABYTE

_ID = re.compile(rb'"id"\s*:\s*"([A-Z])([1-9][0-9]{0,8})"')
_HEAD = 400
"""Bytes of a line in which the entity's own id stands."""
_REPORT_EVERY = 1 << 12
_MOST_FAULTS = 20


class _Line(NamedTuple):
    number: int
    kind: bytes
    entity: int
    text: bytes


class Dump:
    """:param partial: whether a dump that breaks off is read as far as it goes."""

    def __init__(
        self, path: Path, wanted: WantedStatements, partial: bool = False, progress: Progress = unseen
    ) -> None:
        self.path, self.name, self._wanted, self._partial = path, path.name, wanted, partial
        self._progress, self._size = progress, path.stat().st_size
        self.notes: list[str] = []
        self.entities = 0
        names = "|".join(sorted(wanted.properties))
        self._names_one = re.compile(rf'"(?:{names})"\s*:'.encode()).search
        self._seen = Numbers()

    def facts(self) -> Iterator[Entity]:
        """Items with a statement of a wanted property. :raises BadInput: all that is wrong with the dump."""
        yield from self._read(lambda line: self._names_one(line.text) is not None, self._is_new)

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """The items of *needed*."""
        if len(needed):
            yield from self._read(lambda line: line.entity in needed, lambda line: None)

    def _is_new(self, line: _Line) -> str | None:
        self.entities += 1
        if self._seen.add(line.entity):
            return None
        return f"Q{line.entity} stands here for the second time: remove one of its two lines"

    def _read(self, matters: Callable[[_Line], bool], check: Callable[[_Line], str | None]) -> Iterator[Entity]:
        faults = Faults()
        for line in self._lines(faults):
            if line.kind == b"Q":
                if fault := check(line):
                    faults.add(self.path, line.number, fault)
                elif matters(line) and (entity := self._parsed(line, faults)) is not None:
                    yield entity
            if len(faults.found) >= _MOST_FAULTS:
                break
        faults.stop_if_any()

    def _parsed(self, line: _Line, faults: Faults) -> Entity | None:
        try:
            return entity_of(json.loads(line.text), self._wanted)
        except ValueError as error:
            faults.add(self.path, line.number, f"not JSON: {error}")
        except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
            faults.add(self.path, line.number, f"Q{line.entity} is no entity as Wikidata writes them ({why})")
        return None

    def _lines(self, faults: Faults) -> Iterator[_Line]:
        """Lines with an entity; what is no such line is a fault, and so is an end before the end."""
        place: list[Callable[[], int]] = []
        end = _End()
        read = 0
        try:
            with opened(self.path, place=place.append) as stream:
                for number, text in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
                    read += len(text)
                    end.take(number, text)
                    if number % _REPORT_EVERY == 0:
                        self._progress(place[0](), self._size)
                    line = text.strip().rstrip(b",")
                    if line in (b"", b"[", b"]"):
                        continue
                    if (found := _found(number, line)) is None:
                        if end.is_cut(text):
                            break
                        faults.add(self.path, number, f"expected an entity of Wikidata, found {shown(line[:40])}")
                    else:
                        yield found
                    if len(faults.found) >= _MOST_FAULTS:
                        break
        except Unreadable as error:
            end.why = error.why
        self._progress(self._size, self._size)
        self._check_end(end, read, faults)

    def _check_end(self, end: _End, read: int, faults: Faults) -> None:
        """A dump that ends within a line is a fault; one without "]" after whole lines may be a part of another."""
        said = f"{end.entities:,} entities could be read, {read / MEGABYTE:,.1f} MB unpacked"
        if not end.why:
            if end.is_open:
                self.notes.append(
                    f'{self.path} has no "]" at its end, as if it were cut after line {end.number:,}: {said}'
                )
            return
        said = f"the dump breaks off in line {end.number:,} ({end.why}): {said}"
        if self._partial:
            self.notes.append(f"{self.path}: {said}; the rest is not in the data set (--partial)")
        elif len(faults.found) < _MOST_FAULTS:
            advice = "fetch it again and compare its checksum, or take what is there with --partial"
            faults.add(self.path, end.number or None, f"{said}: {advice}")


class _End:
    """Whether a dump has come to its end: "]" where it began with "[", else a whole line.

    :ivar why: it breaks off within a line.
    """

    def __init__(self) -> None:
        self.number = self.entities = 0
        self.why = ""
        self.is_open = False

    def take(self, number: int, text: bytes) -> None:
        """The next line."""
        self.number = number
        line = text.strip()
        if line in (b"[", b"]"):
            self.is_open = line == b"["
        elif line:
            self.entities += 1

    def is_cut(self, text: bytes) -> bool:
        """Whether a line that cannot be read is the last, without its end."""
        if text.endswith(b"\n") or not text.lstrip().startswith(b"{"):
            return False
        self.entities -= 1
        self.why = self.why or "the line is not finished"
        return True


def _found(number: int, line: bytes) -> _Line | None:
    """None where it is no whole object with an id."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    match = _ID.search(line, 0, _HEAD) or _ID.search(_own_id(line))
    return None if match is None else _Line(number, match[1], int(match[2]), line)


def _own_id(line: bytes) -> bytes:
    """The id of an entity that is not written first, as if it were."""
    try:
        row = json.loads(line)
        return f'"id":"{row["id"]}"'.encode()
    except (ValueError, KeyError, RecursionError):
        return b""

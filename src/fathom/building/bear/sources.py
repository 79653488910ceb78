"""Files that contain Wikidata: its JSON dump, or truthy statements in N-Triples, plain, ``.gz`` or ``.bz2``.

A dump has one entity per line between "[" and "]". A line is parsed only if a test of its bytes says that it can
matter: it names a property of the plan or is of a class, or is of a needed entity. Nearly every item names P31, which
is read of items that matter for another reason. Most of the time goes into unpacking and into that test. A few odd
lines, such as a second one of the same entity, are left out and noted.
Truthy triples contain the best rank alone, and no qualifiers: when facts began or ended is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fathom.building.bear.entities import (
    INSTANCE_OF,
    UNKNOWN,
    Entity,
    Numbers,
    Statement,
    StatementState,
    WantedStatements,
    entity_of,
    item_number,
)
from fathom.errors import BadInput, refuse
from fathom.formats.rdf_syntax import kind_of, quads
from fathom.progress import Progress, unseen
from fathom.reading import Faults, Unreadable, check_file, opened, shown
from fathom.reading.bounds import LINE, MEGABYTE


class WikidataSource(Protocol):
    """Something that holds Wikidata, or a part of it."""

    name: str
    notes: list[str]
    """What its user should know of the data that come from it."""

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a wanted property."""
        ...

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """Yield the available items of *needed*."""
        ...


_ID = re.compile(rb'"id"\s*:\s*"([A-Z])([1-9][0-9]{0,8})"')
_HEAD = 400
"""Bytes of a line in which the entity's own id stands."""
_REPORT_EVERY = 1 << 12
_MOST_FAULTS = 20
_ODD_SHARE = 1e-4
"""Of odd lines above which a dump is refused."""


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
        names = "|".join(sorted(wanted.properties - {INSTANCE_OF}))
        self._names_one = re.compile(rf'"(?:{names})"\s*:'.encode()).search
        self._entities = 0

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a property of the plan, and classes.

        :raises BadInput: all that is wrong with the dump.
        """
        yield from self._read(lambda line: self._names_one(line.text) is not None)

    def named(self, needed: Numbers) -> Iterator[Entity]:
        if len(needed):
            yield from self._read(lambda line: line.entity in needed)

    def _read(self, matters: Callable[[_Line], bool]) -> Iterator[Entity]:
        faults, seen = Faults(), Numbers()
        for line in self._lines(faults):
            if line.kind == b"Q":
                if not seen.add(line.entity):
                    faults.add(self.path, line.number, f"Q{line.entity} stands here for the second time: remove one")
                elif matters(line) and (entity := self._parsed(line, faults)) is not None:
                    yield entity
            if self._has_too_many(faults):
                break
        if len(faults.found) > _ODD_SHARE * self._entities:
            faults.stop_if_any()
        if faults.found:
            note = f"odd lines are left out: {len(faults.found):,} of {self._entities:,}, the first: {faults.found[0]}"
            self.notes += [note] * (note not in self.notes)

    def _has_too_many(self, faults: Faults) -> bool:
        return len(faults.found) >= max(_MOST_FAULTS, _ODD_SHARE * self._entities)

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
        """Yield lines with an entity; any other line is a fault, and so is an end within a line."""
        place: list[Callable[[], int]] = []
        number = read = self._entities = 0
        is_open, why_cut = False, ""
        try:
            with opened(self.path, place=place.append) as stream:
                for number, text in enumerate(iter(lambda: stream.readline(LINE.most), b""), start=1):
                    read += len(text)
                    if number % _REPORT_EVERY == 0:
                        self._progress(place[0](), self._size)
                    line = text.strip().rstrip(b",")
                    if line in (b"", b"[", b"]"):
                        is_open = line == b"[" or (is_open and not line)
                        continue
                    entity_line = _entity_line(number, line)
                    if entity_line is None and not text.endswith(b"\n") and text.lstrip().startswith(b"{"):
                        why_cut = "the line is not finished"
                        break
                    self._entities += 1
                    if entity_line is not None:
                        yield entity_line
                    else:
                        faults.add(self.path, number, f"expected an entity of Wikidata, found {shown(line[:40])}")
                    if self._has_too_many(faults):
                        break
        except Unreadable as error:
            why_cut = error.why
        self._progress(self._size, self._size)
        progress = f"{self._entities:,} entities could be read, {read / MEGABYTE:,.1f} MB unpacked"
        if why_cut:
            self._report_cut(number, f"the dump breaks off in line {number:,} ({why_cut}): {progress}", faults)
        elif is_open:  # the dump may be a part of another
            self.notes.append(f'{self.path} has no "]" at its end, as if it were cut after line {number:,}: {progress}')

    def _report_cut(self, number: int, message: str, faults: Faults) -> None:
        if self._partial:
            self.notes.append(f"{self.path}: {message}; the rest is not in the data set (--partial)")
        elif not self._has_too_many(faults):
            advice = "fetch it again and compare its checksum, or take what is there with --partial"
            faults.add(self.path, number or None, f"{message}: {advice}")
            faults.stop_if_any()


def _entity_line(number: int, line: bytes) -> _Line | None:
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    match = _ID.search(line, 0, _HEAD) or _ID.search(_own_id(line))
    return None if match is None else _Line(number, match[1], int(match[2]), line)


def _own_id(line: bytes) -> bytes:
    """Return the id of an entity as if it were written first."""
    try:
        row = json.loads(line)
        return f'"id":"{row["id"]}"'.encode()
    except (ValueError, KeyError, RecursionError):
        return b""


_ENTITY, _DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
_PAGE = "/wiki/Special:EntityData/"
_LABEL, _ALIAS = "http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#altLabel"
_SITELINKS, _ABOUT = "http://wikiba.se/ontology#sitelinks", "http://schema.org/about"
NO_QUALIFIERS = (
    "truthy triples have no qualifiers: facts that have ended look like others, and no fact has dates; the JSON dump "
    "has both"
)


class Triples:
    """:param progress: called with (bytes read, bytes to read) of each pass."""

    def __init__(self, path: Path, wanted: WantedStatements, progress: Progress = unseen) -> None:
        self.path, self.name, self._wanted, self._progress = path, path.name, wanted, progress
        self.notes = [f"{path}: {NO_QUALIFIERS}"]

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a wanted property.

        :raises BadInput: it cannot be read, or a date is asked for.
        """
        if self._wanted.as_of:
            raise BadInput(f"as_of: {self.path}: {NO_QUALIFIERS}")
        yield from (
            entity for entity in self._entities() if any(claim.property != INSTANCE_OF for claim in entity.claims)
        )

    def named(self, needed: Numbers) -> Iterator[Entity]:
        if len(needed):
            yield from (entity for entity in self._entities() if entity.number in needed)

    def _entities(self) -> Iterator[Entity]:
        faults, size, count = Faults(), self.path.stat().st_size, 0
        read = quads(self.path, faults, progress=lambda done: self._progress(done, size))
        for number, group in groupby(read, key=_number_of):
            if number:
                yield _entity(number, group, self._wanted)
                count += 1
        if faults.found:
            advice = f"{count:,} entities could be read before; fetch it again and compare its checksum"
            raise BadInput([*(f"{fault}" for fault in faults.found), f"{self.path}: {advice}"])


def _number_of(quad: Any) -> int:
    """Return the number of a triple's item: its subject, the item of its page, or of a page of Wikipedia."""
    iri = str(getattr(quad.subject, "value", ""))
    if quad.predicate.value == _ABOUT:
        iri = str(quad.object.value)
    elif _PAGE in iri:
        iri = _ENTITY + iri.rpartition("/")[2]
    return item_number(iri)


def _entity(number: int, group: Iterator[Any], wanted: WantedStatements) -> Entity:
    labels: dict[str, str] = {}
    aliases, claims = [], []
    pages = links = 0
    for quad in group:
        predicate, object_ = quad.predicate.value, quad.object
        language = getattr(object_, "language", None)
        if predicate == _LABEL and language in (wanted.language, "mul"):
            labels[language] = " ".join(object_.value.split())
        elif predicate == _ALIAS and language == wanted.language:
            aliases.append(object_.value)
        elif predicate == _SITELINKS:
            links = int(object_.value)
        elif predicate == _ABOUT:
            pages += ".wikipedia.org/" in quad.subject.value
        elif predicate.startswith(_DIRECT) and (name := predicate[len(_DIRECT) :]) in wanted.properties:
            claims.append(_claim(name, object_))
    label = labels.get(wanted.language) or labels.get("mul", "")
    return Entity(number, label, tuple(aliases), pages or links, tuple(claims))


def _claim(property_: str, object_: Any) -> Statement:
    """Return the statement of a triple. Unknown values are blank nodes, or made-up IRIs in newer dumps."""
    value = str(object_.value)
    if "/.well-known/genid/" in value or type(object_).__name__ == "BlankNode":
        return Statement(property_, UNKNOWN)
    number = item_number(value)
    return Statement(property_, number, state=StatementState.COUNTS if number else StatementState.NO_ITEM)


def sources_of(
    inputs: Sequence[Path], wanted: WantedStatements, partial: bool, progress: Progress
) -> list[WikidataSource]:
    """Return a source for each file. :raises BadInput: each that is missing or of another kind."""
    faults: list[str] = []
    sources: list[WikidataSource] = []
    for path in inputs:
        try:
            check_file(path)
            if kind_of(path) == "N_TRIPLES":
                sources.append(Triples(path, wanted, progress))
            elif _begins_as_json(path):
                sources.append(Dump(path, wanted, partial, progress))
            else:
                faults.append(
                    f"--input {path}: expected Wikidata's JSON dump (.json, .json.gz, .json.bz2) or truthy N-Triples "
                    "(.nt, .nt.gz, .nt.bz2)"
                )
        except Unreadable as error:
            faults += [f"--input {fault}" for fault in error.faults]
    refuse(faults)
    return sources


def _begins_as_json(path: Path) -> bool:
    if {".json", ".jsonl", ".ndjson"} & set(path.suffixes):
        return True
    with opened(path) as stream:
        return stream.peek(64)[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")

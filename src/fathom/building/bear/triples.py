"""Wikidata's truthy statements in N-Triples: ``latest-truthy.nt``, plain, ``.gz`` or ``.bz2``, an entity at a time.

They hold the best rank alone, and no qualifiers: when facts began or ended is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from fathom.building.bear.entities import UNKNOWN, Entity, Statement, StatementState, WantedStatements
from fathom.building.bear.numbers import Numbers
from fathom.errors import BadInput
from fathom.formats.rdf_syntax import quads
from fathom.progress import Progress, unseen
from fathom.reading import Faults

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
        """Items with a statement of a wanted property. :raises BadInput: it cannot be read, or a date is asked for."""
        if self._wanted.as_of:
            raise BadInput(f"as_of: {self.path}: {NO_QUALIFIERS}")
        yield from (entity for entity in self._entities() if entity.claims)

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """The items of *needed*."""
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
    """Of the item that a triple is about: as its subject, by the page that holds it, or by a page of Wikipedia."""
    iri = str(getattr(quad.subject, "value", ""))
    if quad.predicate.value == _ABOUT:
        iri = str(quad.object.value)
    elif _PAGE in iri:
        iri = _ENTITY + iri.rpartition("/")[2]
    return _item(iri)


def _item(iri: str) -> int:
    """Its number, 0 where it is no item."""
    end = iri[len(_ENTITY) + 1 :] if iri.startswith(f"{_ENTITY}Q") else ""
    return int(end) if end.isdecimal() and len(end) < 10 else 0


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
    """Unknown values are blank nodes, or made-up IRIs in newer dumps."""
    value = str(object_.value)
    if "/.well-known/genid/" in value or type(object_).__name__ == "BlankNode":
        return Statement(property_, UNKNOWN)
    number = _item(value)
    return Statement(property_, number, state=StatementState.COUNTS if number else StatementState.NO_ITEM)

"""Axioms (``ontology/axioms.json``) and hierarchies of an ontology in OntoProbe's layout, by label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from fathom.base.errors import BadInput
from fathom.base.reading import file_exists, json_file
from fathom.data.formats.ontoprobe import CLASS_FILE, PROPERTY_FILE, clean
from fathom.data.hierarchy import chain
from fathom.data.prompts.ontology import PROPERTIES
from fathom.data.queries import Query, QuerySet
from fathom.store.files import write_json

AXIOM_FILE = Path("ontology/axioms.json")
KINDS = ("inverse", "symmetric", "transitive", "disjoint")
_FILES = {
    CLASS_FILE: ("classes", "rdfs:Class", "rdfs:subClassOf"),
    PROPERTY_FILE: (PROPERTIES, "rdf:Property", "rdfs:subPropertyOf"),
}
"""For each file the candidate set that it lists, and the fields of IRIs and superordinates."""
_TASKS = ("subClassOf", "subPropertyOf")
_Above = dict[str, set[str]]


class Axioms(NamedTuple):
    """Labels of properties, and of classes in disjoint groups."""

    inverse: list[tuple[str, str]]
    symmetric: list[str]
    transitive: list[str]
    disjoint: list[tuple[str, ...]]


def write_axioms(folder: Path, axioms: Axioms) -> None:
    """Write the axioms, if any, into a folder of an ontology."""
    if any(axioms):
        write_json(folder / AXIOM_FILE, axioms._asdict())


def read_axioms(folder: Path) -> Axioms:
    """Read axioms with cleaned names. :raises BadInput: a file of another form."""
    file = folder / AXIOM_FILE
    if not file_exists(file):
        return Axioms([], [], [], [])
    try:
        axioms = TypeAdapter(Axioms).validate_python(json_file(file))
    except ValidationError as error:
        expected = '{"inverse": [["p", "q"]], "symmetric": ["p"], "transitive": ["p"], "disjoint": [["A", "B"]]}'
        raise BadInput(f"{file}: expected {expected}, found another form: {error.errors()[0]['msg']}") from error
    pairs = [(clean(name), clean(inverse)) for name, inverse in axioms.inverse]
    groups = [tuple(map(clean, group)) for group in axioms.disjoint]
    return Axioms(pairs, list(map(clean, axioms.symmetric)), list(map(clean, axioms.transitive)), groups)


@dataclass(frozen=True)
class Hierarchy:
    """Superordinates of classes and properties.

    :param above: direct superordinates, by candidate set and casefolded name.
    """

    above: Mapping[str, Mapping[str, Collection[str]]]

    def of(self, space: str, names: Iterable[str]) -> set[str]:
        """Return these names and all their superordinates."""
        above = self.above.get(space, {})
        return {upper for name in names for upper in (name.casefold(), *chain(name.casefold(), above))}

    def right_too(self, query: Query) -> set[str]:
        """Return the query's right answers and all their superordinates."""
        return self.of(query.candidates, (*query.gold, *query.known))


def read_hierarchy(folder: Path, data: QuerySet) -> Hierarchy:
    """Read the hierarchy of a folder. :param data: its unfiltered query set."""
    above: dict[str, _Above] = {}
    for file, (space, iris, parents) in _FILES.items():
        entries = json_file(folder / file) if file_exists(folder / file) else []
        above[space] = _above(entries if isinstance(entries, list) else [], iris, parents)
    for query in data.queries:
        if query.relation in _TASKS:
            above[query.candidates][query.subject.casefold()].update(answer.casefold() for answer in query.gold)
    return Hierarchy(above)


def _above(entries: Iterable[Any], iris: str, parents: str) -> _Above:
    above: _Above = defaultdict(set)
    same: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        name = clean(entry["rdfs:label"]).casefold()
        above[name].update(clean(parent).casefold() for parent in entry.get(parents) or ())
        values = entry.get(iris)
        for iri in values if isinstance(values, list) else [values]:
            if isinstance(iri, str) and iri:
                same[iri].add(name)
    for names in same.values():
        for name in names:
            above[name] |= names - {name}
    return above

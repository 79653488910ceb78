"""What else is right where a name of an ontology is: all that stands above it, and what is the same by another name.

From an OntoProbe folder: super-classes and super-properties of ``class.json`` and ``property.json``, the right answers
of the memorising tasks on them, and entries that share an IRI, which are one thing under two labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fathom.data.queries import Query, QuerySet
from fathom.formats.ontoprobe import CLASS_FILE, PROPERTY_FILE, clean
from fathom.prompts.ontology import PROPERTIES
from fathom.reading import is_there, json_file

_KINDS = {
    CLASS_FILE: ("classes", "rdfs:Class", "rdfs:subClassOf"),
    PROPERTY_FILE: (PROPERTIES, "rdf:Property", "rdfs:subPropertyOf"),
}
"""Of each file the candidate set that it lists, and where its entries have their IRIs and what is above them."""
_TASKS = ("subClassOf", "subPropertyOf")
_Above = dict[str, set[str]]


class Hierarchy:
    """Of classes and of properties, by casefolded name."""

    def __init__(self, above: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
        """:param above: of each candidate set what stands directly above each name."""
        self._above = above

    def of(self, space: str, names: Iterable[str]) -> set[str]:
        """These names and all above them, however far."""
        above, found = self._above.get(space, {}), set()
        waiting = [name.casefold() for name in names]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += above.get(name, ())
        return found

    def right_too(self, query: Query) -> set[str]:
        """Names that are right where the query's answers are: these, and all above them."""
        return self.of(query.candidates, (*query.gold, *query.known))


def read_hierarchy(folder: Path, data: QuerySet) -> Hierarchy:
    """That of a folder that has been read.

    :param data: all of it.
    """
    above: dict[str, _Above] = {}
    for file, (space, iris, parents) in _KINDS.items():
        entries = json_file(folder / file) if is_there(folder / file) else []
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
        own = entry.get(iris)
        for iri in own if isinstance(own, list) else [own]:
            if isinstance(iri, str) and iri:
                same[iri].add(name)
    for names in same.values():
        for name in names:
            above[name] |= names - {name}
    return above

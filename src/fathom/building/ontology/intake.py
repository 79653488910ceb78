"""What of a file goes into the store: types, labels, hierarchies and the like, each in the one form that queries ask.

Wikidata's "instance of" and "subclass of" and SKOS's broader and narrower concepts become types and sub-classes of RDF
here; a graph's name is dropped. What is not taken although it says something of classes or properties is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from fathom.building.notes import Notes
from fathom.building.ontology.labels import LABEL_PROPERTIES, Naming

_RDF, _RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"
_OWL, _SKOS = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#"
_SCHEMA = ("http://schema.org/", "https://schema.org/")
_DIRECT = "http://www.wikidata.org/prop/direct/"
_PROPERTY_OF_WIKIDATA = re.compile(r"http://www\.wikidata\.org/entity/P\d+")
TYPE, _SUBCLASS, _CLASS, _CONCEPT = f"{_RDF}type", f"{_RDFS}subClassOf", f"{_OWL}Class", f"{_SKOS}Concept"
_INSTANCE_OF = f"{_DIRECT}P31"
_UPWARDS = {f"{_DIRECT}P279", f"{_SKOS}broader", f"{_SKOS}broaderTransitive"}
_DOWNWARDS = {f"{_SKOS}narrower", f"{_SKOS}narrowerTransitive"}
_OF_THINGS = {
    TYPE,
    _INSTANCE_OF,
    *_UPWARDS,
    *_DOWNWARDS,
    *(f"{_RDFS}{name}" for name in ("subClassOf", "subPropertyOf", "domain", "range")),
    *(f"{_OWL}{name}" for name in ("equivalentClass", "equivalentProperty", "inverseOf", "disjointWith", "sameAs")),
    f"{_OWL}imports",
    *(f"{schema}{name}" for schema in _SCHEMA for name in ("domainIncludes", "rangeIncludes", "inverseOf")),
}
"""Predicates whose objects are classes or properties, never texts."""
_NOT_READ = {
    f"{_OWL}{name}"
    for name in (
        "differentFrom",
        "distinctMembers",
        "hasKey",
        "propertyChainAxiom",
        "propertyDisjointWith",
        "targetIndividual",
        "targetValue",
    )
} | {f"{_SKOS}{name}" for name in ("broadMatch", "narrowMatch", "exactMatch", "closeMatch", "relatedMatch", "related")}
"""Axioms of OWL, and links of SKOS, that no task asks for."""
_SHORT = {"rdf:": _RDF, "rdfs:": _RDFS, "owl:": _OWL, "skos:": _SKOS, "schema:": "https://schema.org/", "wdt:": _DIRECT}
_MOST_LANGUAGES = 5


def short(iri: str) -> str:
    """``rdfs:domain`` for its IRI; other IRIs as they are."""
    return next((prefix + iri.removeprefix(base) for prefix, base in _SHORT.items() if iri.startswith(base)), iri)


def _name(node: Any) -> str:
    """Of blank nodes none: theirs differ each time that a file is read."""
    return short(node.value) if str(node).startswith("<") else "that of a blank node"


class Intake:
    """Takes what the queries need, and counts what says something of an ontology and is left out."""

    def __init__(self, naming: Naming) -> None:
        self._naming, self._namings = naming, frozenset(naming.iris())
        self._languages: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._bare: Counter[str] = Counter()
        self._bare_labels: dict[str, None] = {}

    def take(self, quads: Iterable[Any], is_kept: Callable[[Any], bool]) -> Iterator[Any]:
        """Statements for the store.

        :param quads: pyoxigraph's.
        :param is_kept: whether a query asks for a statement's predicate.
        """
        import pyoxigraph

        self._make, self._graph, self._literal = pyoxigraph.Quad, pyoxigraph.DefaultGraph(), pyoxigraph.Literal
        self._blank = pyoxigraph.BlankNode
        self._a, self._below, self._class = map(pyoxigraph.NamedNode, (TYPE, _SUBCLASS, _CLASS))
        for quad in quads:
            predicate = quad.predicate.value
            if self._is_bare(quad.subject):
                self._see_bare(predicate, quad.object)
            if predicate in self._namings:
                self._labels[predicate] += 1
                if self._is_label(quad.object):
                    yield self._plain(quad)
            elif predicate in _OF_THINGS and isinstance(quad.object, self._literal):
                self._count(self._texts, predicate, f"{_name(quad.subject)} {quad.object}")
            elif predicate == _INSTANCE_OF or predicate in _UPWARDS or predicate in _DOWNWARDS:
                yield from self._rewritten(quad.subject, predicate, quad.object)
            elif predicate in _NOT_READ:
                self._count(self._left, predicate, _name(quad.object if self._is_bare(quad.subject) else quad.subject))
            elif predicate == TYPE and quad.object.value == _CONCEPT:
                yield self._make(quad.subject, self._a, self._class, self._graph)
            elif is_kept(quad):
                yield self._plain(quad)

    def tell(self, notes: Notes) -> None:
        """What was left out, by kind."""
        notes.add_kinds(self._kinds(self._texts), "texts where a class, property or thing belongs are left out")
        notes.add_kinds(self._kinds(self._left), "axioms that no task asks for are not read")
        if self._naming.properties != LABEL_PROPERTIES:
            unused = [iri for iri in self._naming.iris() if not self._labels[iri]]
            notes.add_all(unused, "label properties that were asked for occur nowhere in the files")

    def tell_bare(self, notes: Notes, classes: Collection[str]) -> None:
        """What has no IRI, and so cannot be known again: things of these classes, and whatever has a label."""
        kinds = [f"{count:,} {short(iri)}" for iri, count in sorted(self._bare.items()) if iri in classes]
        notes.add_kinds(kinds, "things without an IRI (blank nodes) are left out")
        notes.add_all(list(self._bare_labels), "labels of what has no IRI (blank nodes) are left out")

    def _is_bare(self, node: Any) -> bool:
        return isinstance(node, self._blank)

    def _see_bare(self, predicate: str, object_: Any) -> None:
        if predicate in (TYPE, _INSTANCE_OF) and not isinstance(object_, self._literal):
            self._bare[object_.value] += 1
        elif predicate in self._namings and self._reads(object_):
            self._bare_labels[object_.value] = None

    def tell_languages(self, notes: Notes) -> None:
        """Where classes or properties have no label that is read: which others there are."""
        if self._languages:
            most_common = [
                f"{language} ({count:,})" for language, count in self._languages.most_common(_MOST_LANGUAGES)
            ]
            more = ", …" if len(self._languages) > len(most_common) else ""
            reads = f"--language {self._languages.most_common(1)[0][0]} reads those of one"
            notes.append(f"labels in other languages are left out: {', '.join(most_common)}{more}; {reads}")

    def _reads(self, object_: Any) -> bool:
        return isinstance(object_, self._literal) and self._naming.reads(object_.language)

    def _is_label(self, object_: Any) -> bool:
        if not isinstance(object_, self._literal):
            return False
        if self._reads(object_):
            return True
        self._languages[str(object_.language).lower()] += 1
        return False

    def _plain(self, quad: Any) -> Any:
        if quad.graph_name == self._graph:
            return quad
        return self._make(quad.subject, quad.predicate, quad.object, self._graph)

    def _rewritten(self, subject: Any, predicate: str, object_: Any) -> Iterator[Any]:
        """Types and sub-classes as RDF has them, and that their classes are some. Wikidata says of its properties, too,
        what they are instances of; that is about Wikidata."""
        if predicate == _INSTANCE_OF:
            if not _PROPERTY_OF_WIKIDATA.fullmatch(subject.value):
                yield self._make(subject, self._a, object_, self._graph)
                yield self._make(object_, self._a, self._class, self._graph)
            return
        below, above = (subject, object_) if predicate in _UPWARDS else (object_, subject)
        yield self._make(below, self._below, above, self._graph)
        for node in (below, above):
            yield self._make(node, self._a, self._class, self._graph)

    def _count(self, kinds: Counter[str], predicate: str, example: str) -> None:
        kinds[predicate] += 1
        self._examples.setdefault(predicate, example)

    def _kinds(self, kinds: Counter[str]) -> list[str]:
        return [f"{kinds[kind]:,} {short(kind)} (such as {self._examples[kind]})" for kind in sorted(kinds)]

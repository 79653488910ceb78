"""The parts of a file that enter the store, each statement in the one form that the queries expect; which label counts.

Wikidata's "instance of" and "subclass of" and SKOS's broader and narrower concepts become types and sub-classes of RDF
here; a graph's name is dropped. What is left out although it says something of classes or properties is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.base.errors import refuse
from fathom.data.formats.ontoprobe import clean, has_words
from fathom.data.formats.rdf import name_of, one_line
from fathom_build.ontology.hierarchy import cycles, edges_of
from fathom_build.ontology.sources import KEPT, OF_RDF, Row, Source, at_hand, lines_of, outside, places_of, rows_of
from fathom_build.sheets import Notes

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, Quad

PREFIXES = {
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "https://schema.org/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "obo": "http://purl.obolibrary.org/obo/",
}
"""Short forms that ``--label-property`` takes."""
LANGUAGE, LABEL_PROPERTIES = "en", ("rdfs:label", "skos:prefLabel")
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
_OPAQUE = re.compile(r"(?:urn:uuid:)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE)
"""UUIDs and digests."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\s-]+")


class Naming(NamedTuple):
    """Rules for choosing labels.

    :param language: a language tag: labels in it, then in its variants (en-GB), then those without a language.
    :param properties: IRIs, or short forms (skos:prefLabel), the best first.
    :param from_iris: name what has no label by the end of its IRI; without it only if most classes, or properties, have
        none.
    """

    language: str = LANGUAGE
    properties: tuple[str, ...] = LABEL_PROPERTIES
    from_iris: bool = False

    def iris(self) -> list[str]:
        """Return the IRIs of the label properties. :raises BadInput: a language or property that is none."""
        faults = []
        if not _LANGUAGE_TAG.fullmatch(self.language):
            faults.append(f"--language {self.language!r}: expected a language tag, such as en, pt or zh-Hant")
        resolved = []
        for property_ in self.properties:
            short, _, name = property_.partition(":")
            resolved.append(PREFIXES[short] + name if short in PREFIXES else property_.strip("<>"))
            known_form = resolved[-1] != property_ or "//" in property_ or property_.startswith("urn:")
            if not known_form or not _IRI.fullmatch(resolved[-1]):
                prefixes = ", ".join(f"{prefix}:" for prefix in PREFIXES)
                faults.append(f"--label-property {property_!r}: expected an IRI, or a name after one of {prefixes}")
        refuse(faults)
        return resolved

    def values(self) -> dict[str, object]:
        """Return the values of the queries' places ``$language`` and ``$namings``."""
        return {"language": self.language, "namings": places_of(self.iris())}

    def reads(self, language: str | None) -> bool:
        """Return whether labels of a language count, None for those without one."""
        return language is None or f"{language.lower()}-".startswith(f"{self.language.lower()}-")


_Label = tuple[tuple[int, int], str]
"""A text after its rank: the language itself before its variants, those before labels without one; of these by the
label property."""
Labels = Mapping[str, _Label | None]


def best_labels(rows: Iterable[Row], variable: str, language: str = LANGUAGE) -> dict[str, _Label | None]:
    """Return the best label of each IRI, in the order of their first rows."""
    best: dict[str, _Label | None] = {}
    for row in rows:
        before = best.setdefault(row[variable], None)
        if "label" in row:
            tag = row.get("language", "")
            tongue = 0 if tag.lower() == language.lower() else 1 if tag else 2
            label = (tongue, int(row.get("place", 0))), one_line(row["label"])
            best[row[variable]] = label if before is None else min(before, label)
    return best


def good_labels(
    iris: Sequence[str], labels: Labels, kind: str, naming: Naming, notes: Notes
) -> tuple[dict[str, str], list[str], int, dict[str, str]]:
    """Return labels by IRI. Missing, unreadable and repeated ones are left out and noted.

    :returns: the labels; those among them that are ends of IRIs; how many things have no label; and of what is left
        out as it has the label of another, that label by IRI: it is right of what is below.
    """
    ends = _ends_of_iris(iris, labels, naming)
    good: dict[str, str] = {}
    taken: dict[str, str] = {}
    twins: dict[str, str] = {}
    lacking, unreadable, same = [], [], []
    for iri in iris:
        label = labels[iri]
        text = ends.get(iri) if label is None else label[1]
        if text is None:
            lacking.append(iri)
        elif not has_words(text):
            unreadable.append(f"{iri} ({text!r})")
        elif clean(text) in taken:
            same.append(f"{text!r} ({iri}, not {taken[clean(text)]})")
            twins[iri] = good[taken[clean(text)]]
        else:
            good[iri], taken[clean(text)] = text, iri
    expected = f"{' or '.join(naming.properties)}, @{naming.language} or without a language"
    option = "their IRIs give no names" if ends or naming.from_iris else "--names-from-iris names them by their IRIs"
    notes.add_all(lacking, f"of {len(iris):,} {kind} have no label ({expected}) and are left out; {option}")
    notes.add_all(unreadable, f"{kind} with a label without letters or digits are left out")
    notes.add_all(same, f"{kind} have the label of another and are left out")
    called = [good[iri] for iri in ends if iri in good]
    notes.add_all(
        called,
        f"of {len(iris):,} {kind} are named by the end of their IRI (--names-from-iris), as they have no label "
        f"({expected}); --label-property and --language read others",
    )
    return good, called, sum(labels[iri] is None for iri in iris), twins


def words_in_name(name: str) -> str:
    """Split a name into words: "hasDNASequence" → "has DNA sequence"; an identifier ("GO_0008150") into ""."""
    if re.search(r"\d{4}", name) or not re.search(r"[^\W\d_]{2}", name):
        return ""
    words = [word for word in _WORD_ENDS.split(name) if word]
    return " ".join(word if len(word) > 1 and word.isupper() else word.lower() for word in words)


def is_code(name: str) -> bool:
    """Return whether the end of an IRI is an identifier: "Q42", "GO 0008150", a UUID, but not "UB40", "Player 7".

    It has a digit, no word but in capitals, and four digits in a row or no word at all.
    """
    if _OPAQUE.fullmatch(name):
        return True
    words = re.findall(r"[^\W\d_]{2,}", name)
    coded = all(word.isupper() for word in words) and re.search(r"\d", name)
    return bool(coded) and not (words and not re.search(r"\d{4}", name))


def _ends_of_iris(iris: Sequence[str], labels: Labels, naming: Naming) -> dict[str, str]:
    """Return names from the IRIs without labels, if requested or if most have no label."""
    if not naming.from_iris and 2 * sum(labels[iri] is not None for iri in iris) >= len(iris):
        return {}
    bare = [iri for iri in iris if labels[iri] is None and not iri.startswith(OF_RDF)]
    names = {iri: words_in_name(name_of(iri)) for iri in bare}
    return {iri: name for iri, name in names.items() if name}


_RDF, _RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"
_OWL, _SKOS = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#"
_DIRECT = "http://www.wikidata.org/prop/direct/"
_PROPERTY_OF_WIKIDATA = re.compile(r"http://www\.wikidata\.org/entity/P\d+")
TYPE, _SUBCLASS, _CLASS, _CONCEPT = f"{_RDF}type", f"{_RDFS}subClassOf", f"{_OWL}Class", f"{_SKOS}Concept"
_INSTANCE_OF = f"{_DIRECT}P31"
_UPWARDS = {f"{_DIRECT}P279", f"{_SKOS}broader", f"{_SKOS}broaderTransitive"}
_DOWNWARDS = {f"{_SKOS}narrower", f"{_SKOS}narrowerTransitive"}
_OF_THINGS, _NOT_READ = lines_of("predicates_of_things.txt"), lines_of("predicates_not_read.txt")
"""Predicates whose objects are never texts; axioms of OWL and links of SKOS that no task needs."""
_SHORT = {"rdf:": _RDF, "rdfs:": _RDFS, "owl:": _OWL, "skos:": _SKOS, "schema:": "https://schema.org/", "wdt:": _DIRECT}
_MOST_LANGUAGES = 5


def short(iri: str) -> str:
    """Shorten an IRI to ``rdfs:domain`` and the like; keep other IRIs."""
    return next((prefix + iri.removeprefix(base) for prefix, base in _SHORT.items() if iri.startswith(base)), iri)


def _name(node: NamedNode | BlankNode) -> str:
    """Return a node's name; none for blank nodes, whose names differ each time that a file is read."""
    return short(node.value) if str(node).startswith("<") else "that of a blank node"


class Intake:
    """Takes what the queries need, and counts what says something of an ontology and is left out."""

    def __init__(self, naming: Naming) -> None:
        self._naming, self._namings = naming, frozenset(naming.iris())
        self._languages: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._bare: Counter[str] = Counter()
        self._bare_labels: dict[str, None] = {}
        self.predicates: set[str] = set()
        """All that occur in the files."""

    def take(self, quads: Iterable[Any]) -> Iterator[Quad]:
        """Yield the statements for the store, given those of pyoxigraph."""
        import pyoxigraph

        self._make, self._graph, self._literal = pyoxigraph.Quad, pyoxigraph.DefaultGraph(), pyoxigraph.Literal
        self._blank, self._no_things = pyoxigraph.BlankNode, (pyoxigraph.Literal, pyoxigraph.Triple)
        self._a, self._below, self._class = map(pyoxigraph.NamedNode, (TYPE, _SUBCLASS, _CLASS))
        for quad in quads:
            predicate, is_bare = quad.predicate.value, isinstance(quad.subject, self._blank)
            self.predicates.add(predicate)
            if is_bare:
                self._see_bare(predicate, quad.object)
            if predicate in self._namings:
                if self._is_label(quad.object):
                    yield self._plain(quad)
            elif predicate in _OF_THINGS and isinstance(quad.object, self._no_things):
                self._count(self._texts, predicate, f"{_name(quad.subject)} {quad.object}")
            elif predicate == _INSTANCE_OF or predicate in _UPWARDS or predicate in _DOWNWARDS:
                yield from self._rewritten(quad.subject, predicate, quad.object)
            elif predicate in _NOT_READ:
                self._count(self._left, predicate, _name(quad.object if is_bare else quad.subject))
            elif predicate == TYPE and quad.object.value == _CONCEPT:
                yield self._make(quad.subject, self._a, self._class, self._graph)
            elif predicate in KEPT:
                yield self._plain(quad)

    def note(self, notes: Notes) -> None:
        """Note what was left out, by kind."""
        notes.add_kinds(self._kinds(self._texts), "texts and triples where a class or thing belongs are left out")
        notes.add_kinds(self._kinds(self._left), "axioms that no task asks for are not read")
        if self._naming.properties != LABEL_PROPERTIES:
            unused = [iri for iri in self._naming.iris() if iri not in self.predicates]
            notes.add_all(unused, "label properties that were asked for occur nowhere in the files")

    def note_bare(self, notes: Notes, classes: Collection[str]) -> None:
        """Note what has no IRI, and so cannot be identified: things of these classes, and anything with a label."""
        kinds = [f"{count:,} {short(iri)}" for iri, count in sorted(self._bare.items()) if iri in classes]
        notes.add_kinds(kinds, "things without an IRI (blank nodes) are left out")
        notes.add_all(list(self._bare_labels), "labels of what has no IRI (blank nodes) are left out")

    def _see_bare(self, predicate: str, object_: NamedNode | BlankNode | Literal) -> None:
        if predicate in (TYPE, _INSTANCE_OF) and not isinstance(object_, self._no_things):
            self._bare[object_.value] += 1
        elif predicate in self._namings and self._reads(object_):
            self._bare_labels[object_.value] = None

    def note_languages(self, notes: Notes) -> None:
        """Note the other languages of labels if classes or properties have none that is read."""
        if self._languages:
            most_common = [
                f"{language} ({count:,})" for language, count in self._languages.most_common(_MOST_LANGUAGES)
            ]
            more = ", …" if len(self._languages) > len(most_common) else ""
            reads = f"--language {self._languages.most_common(1)[0][0]} reads those of one"
            notes.append(f"labels in other languages are left out: {', '.join(most_common)}{more}; {reads}")

    def _reads(self, object_: NamedNode | BlankNode | Literal) -> bool:
        return isinstance(object_, self._literal) and self._naming.reads(object_.language)

    def _is_label(self, object_: NamedNode | BlankNode | Literal) -> bool:
        if not isinstance(object_, self._literal):
            return False
        if self._reads(object_):
            return True
        self._languages[str(object_.language).lower()] += 1
        return False

    def _plain(self, quad: Quad) -> Quad:
        if quad.graph_name == self._graph:
            return quad
        return self._make(quad.subject, quad.predicate, quad.object, self._graph)

    def _rewritten(self, subject: NamedNode, predicate: str, object_: NamedNode) -> Iterator[Quad]:
        """Yield types and sub-classes as RDF has them, and state that their classes are classes."""
        if predicate == _INSTANCE_OF and _PROPERTY_OF_WIKIDATA.fullmatch(subject.value):
            return
        below, above = (object_, subject) if predicate in _DOWNWARDS else (subject, object_)
        step = self._a if predicate == _INSTANCE_OF else self._below
        yield self._make(below, step, above, self._graph)
        for node in (above,) if predicate == _INSTANCE_OF else (below, above):
            yield self._make(node, self._a, self._class, self._graph)

    def _count(self, kinds: Counter[str], predicate: str, example: str) -> None:
        kinds[predicate] += 1
        self._examples.setdefault(predicate, example)

    def _kinds(self, kinds: Counter[str]) -> list[str]:
        return [f"{kinds[kind]:,} {short(kind)} (such as {self._examples[kind]})" for kind in sorted(kinds)]


_OF_DESCRIPTIONS = (*OF_RDF, "http://www.w3.org/2004/02/skos/core#", "http://wikiba.se/ontology#")
"""Vocabularies whose instances are parts of an ontology's description."""


def deprecated_terms(sources: Sequence[Source]) -> set[str]:
    """Return the IRIs of deprecated terms."""
    return {row["term"] for row in rows_of(sources, "deprecated")}


def note_omissions(sources: Sequence[Source], files: Collection[str], notes: Notes) -> None:
    """Note statements that give no item and no axiom, by kind.

    :param files: names of the files, by which ontologies without a name of their own can be imported.
    """
    all_ = rows_of(at_hand(sources), "undeclared_classes")
    rows = [row for row in all_ if not row["class"].startswith(_OF_DESCRIPTIONS)]
    notes.add_all(
        [f"{row['class']} ({int(row['count']):,})" for row in rows],
        "names that have instances are left out, as nothing says that they are an owl:Class or rdfs:Class",
    )
    iris = [row["property"] for row in rows_of(sources, "data_properties")]
    notes.add_all(outside(iris, ()), "properties of texts, numbers or dates (owl:DatatypeProperty) are left out")
    for query, what in (
        ("expressions", "descriptions of classes that give no super-class, domain or range are left out"),
        ("unread", "statements that no task or axiom comes of are left out"),
    ):
        notes.add_kinds(_kinds(rows_of(at_hand(sources), query)), what)
    _note_imports(sources, files, notes)


def _kinds(rows: Iterable[Row]) -> list[str]:
    """Return counts by kind, each with an example: what has it, otherwise what is in it."""
    kinds = []
    for row in rows:
        inside = f"with {row['inside']}" if "inside" in row else "of what has no IRI"
        example = f"of {short(row['example'])}" if "example" in row else inside
        kinds.append(f"{int(row['count']):,} {short(row['kind'])} (such as {example})")
    return kinds


def _note_imports(sources: Sequence[Source], files: Collection[str], notes: Notes) -> None:
    """Note ontologies that are imported and not among the files, and cycles of imports."""
    rows = list(rows_of(at_hand(sources), "imports"))
    versions = {_bare(row["version"]): _bare(row["ontology"]) for row in rows if "version" in row}
    here = {_bare(row["ontology"]) for row in rows}
    steps = [
        (_bare(row["ontology"]), versions.get(_bare(row["imported"]), _bare(row["imported"])))
        for row in rows
        if "imported" in row
    ]
    lacking = sorted(
        {imported for _, imported in steps if imported not in here and imported.rpartition("/")[2] not in files}
    )
    notes.add_all(
        lacking, "ontologies that are imported are in none of the files (nothing is fetched; give them with --input)"
    )
    alone = [(ontology,) for ontology in dict.fromkeys(below for below, above in steps if below == above)]
    for cycle in (*alone, *cycles(edges_of(steps))):
        notes.append(f"imports come back to where they began: {' → '.join((*cycle, cycle[0]))}; each file is read once")


def _bare(iri: str) -> str:
    return iri.rstrip("#/")

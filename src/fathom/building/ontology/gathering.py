"""From answers to queries to classes and properties: labels, chains, samples, domains and ranges (section 2.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from fathom.building.ontology.hierarchy import chain, cycles, edges_of, loops
from fathom.building.ontology.sources import Progress, Row, Source, query_text, rows_of
from fathom.formats.ontoprobe import OntologyClass, OntologyProperty, clean, has_words

_WIKIDATA = "http://www.wikidata.org/entity/"
_OF_RDF = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
"""Vocabularies whose own terms (owl:Thing) are not expected in an ontology."""
_MANY = 5
"""How many names a note gives as examples."""


@dataclass
class Notes:
    """What was left out or is odd, and why; lines that say the same of many are one."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """A line of its own."""
        self.lines.append(line)

    def add_all(self, names: Sequence[str], what: str) -> None:
        """ "3 classes have no label: a, b, c"; nothing where there are none."""
        if names:
            more = ", …" if len(names) > _MANY else ""
            self.lines.append(f"{len(names):,} {what}: {', '.join(names[:_MANY])}{more}")


class _Label(NamedTuple):
    """Sorted by preference: plain English before its variants, those before labels without a language."""

    rank: int
    text: str


class Classes(NamedTuple):
    """:param found: in the order of their IRIs.
    :param label_of: of those that have a good one, by IRI.
    """

    found: list[OntologyClass]
    label_of: Mapping[str, str]


class Patterns(NamedTuple):
    """Sentence patterns by label, IRI or the end of an IRI (P54)."""

    given: Mapping[str, str]

    def of(self, label: str, iris: Iterable[str]) -> str | None:
        """The pattern of a property; None where none was given."""
        names = [label, *iris, *(name_of(iri) for iri in iris)]
        return next((self.given[name] for name in names if name in self.given), None)


def default_pattern(label: str) -> str:
    """The pattern of a property for which none was given."""
    return f"[X]'s {label} is [Y] ."


def name_of(iri: str) -> str:
    """What stands behind the last # or /, as words: ``…/resource/Lionel_Messi`` → "Lionel Messi"."""
    return unquote(iri.rstrip("#/").rpartition("#" if "#" in iri.rstrip("#/") else "/")[2]).replace("_", " ")


def gather_classes(sources: Sequence[Source], instances: int, seed: int, notes: Notes, progress: Progress) -> Classes:
    """Classes with labels, their chains, and at most *instances* of each, drawn by *seed*."""
    holders: dict[str, list[Source]] = defaultdict(list)
    rows: list[Row] = []
    for source in sources:
        for row in source.rows(query_text("classes")):
            rows.append(row)
            if source not in holders[row["class"]]:
                holders[row["class"]].append(source)
    label_of = _good_labels(sorted(holders), _labels(rows, "class"), "classes", notes)
    if not rows:
        notes.add("no classes: expected things that are an owl:Class or rdfs:Class, with rdfs:label")
    steps = [(row["class"], row["super"]) for row in rows_of(sources, "superclasses")]
    notes.add_all(
        _outside((iri for step in steps for iri in step), holders),
        "names in rdfs:subClassOf are left out, as nothing says that they are an owl:Class or rdfs:Class",
    )
    edges = _edges(steps, label_of, "classes", notes)
    found = []
    nameless = 0
    for done, (iri, label) in enumerate(label_of.items()):
        progress(done, len(label_of))
        sample = [
            row.get("label") or name_of(row["instance"])
            for row in rows_of(holders[iri], "instances", **{"class": iri, "seed": seed, "size": instances})
        ][:instances]
        named = tuple(dict.fromkeys(name for name in map(_one_line, sample) if has_words(name)))
        nameless += sum(not has_words(name) for name in sample)
        found.append(OntologyClass(iri, label, _labelled(chain(iri, edges), label_of), named))
    progress(len(label_of), len(label_of))
    if nameless:
        notes.add(f"{nameless:,} instances have a label without letters or digits: left out")
    return Classes(found, label_of)


def gather_properties(
    sources: Sequence[Source], classes: Classes, patterns: Patterns, notes: Notes
) -> tuple[list[OntologyProperty], set[str]]:
    """Properties that have a domain, a range or a super-property, one for each group that is equivalent.

    :returns: the properties, and the labels of those whose pattern is the default.
    """
    rows = list(rows_of(sources, "properties"))
    labels = _labels(rows, "property")
    home = _align(sorted(labels, key=_wikidata_first), sources, notes)
    groups: dict[str, list[str]] = defaultdict(list)
    for iri in sorted(home, key=_wikidata_first):
        groups[home[iri]].append(iri)
    best = {iri: next(filter(None, map(labels.get, group)), None) for iri, group in groups.items()}
    label_of = _good_labels(groups, best, "properties", notes)
    steps = [(row["property"], row["super"]) for row in rows_of(sources, "superproperties")]
    known = [(home[below], home[above]) for below, above in steps if below in home and above in home]
    edges = _edges(known, label_of, "properties", notes)
    sides = _Sides(sources, classes, home, notes)
    written = {label: patterns.of(label, groups[iri]) for iri, label in label_of.items()}
    pattern_of = {label: pattern or default_pattern(label) for label, pattern in written.items()}
    found = []
    for iri, label in label_of.items():
        above = {name: pattern_of[name] for name in _labelled(chain(iri, edges), label_of)}
        domain, range_ = sides.one(iri, "domain"), sides.one(iri, "range")
        if above or domain or range_:
            found.append(OntologyProperty(tuple(groups[iri]), label, domain, range_, above, pattern_of[label]))
    used = {name for entry in found for name in (entry.label, *entry.superproperties)}
    sides.tell(len(label_of))
    _note_lacking(found, [label for label in label_of.values() if label not in used], notes)
    notes.add_all(
        _outside((*sides.of, *(iri for step in steps for iri in step)), home),
        "names in rdfs:subPropertyOf (P1647), rdfs:domain or rdfs:range are left out: properties of texts, numbers or "
        "dates, or nothing says that they are an owl:ObjectProperty or rdf:Property",
    )
    notes.add_all(
        [row["property"] for row in rows_of(sources, "bare_constraints")],
        "properties have type constraints without qualifiers, as in truthy dumps, so that their classes are not known; "
        "the property's full data (Special:EntityData/P54.ttl) has them",
    )
    return found, {label for label, pattern in written.items() if pattern is None and label in used}


def _note_lacking(found: Sequence[OntologyProperty], unused: Sequence[str], notes: Notes) -> None:
    """:param unused: labels of properties that are in no task and above none that is."""
    for side in ("domain", "range"):
        lacking = [entry.label for entry in found if getattr(entry, side) is None]
        notes.add_all(lacking, f"properties have no {side} among the classes, and are not in the task {side}")
    notes.add_all(unused, "properties are left out, as they have no domain, range, super-property or sub-property")


class _Sides:
    """Domains and ranges by property: what RDF vocabularies state, else what Wikidata's constraints say."""

    def __init__(self, sources: Sequence[Source], classes: Classes, home: Mapping[str, str], notes: Notes) -> None:
        self._classes, self._notes = classes, notes
        self._above = {found.label: set(found.superclasses) for found in classes.found}
        self._known = _class_names(sources, classes)
        self._stated: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._constrained: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._outside: dict[str, None] = {}
        self._ambiguous: dict[str, None] = {}
        self.of: dict[str, None] = {}
        """Whatever has an ``rdfs:domain`` or ``rdfs:range``."""
        for row in rows_of(sources, "domains"):
            self.of[row["property"]] = None
            self._add(self._stated, home.get(row["property"]), row)
        constraints = list(rows_of(sources, "constraints"))
        labels = _labels(constraints, "class")
        for row in constraints:
            self._add(self._constrained, home.get(row["property"]), row, labels[row["class"]])

    def _add(
        self,
        to: dict[tuple[str, str], dict[str, None]],
        property_: str | None,
        row: Row,
        label: _Label | None = None,
    ) -> None:
        """Cleansing: only classes of the list count, found by IRI, by what is equivalent, or by their label."""
        if property_ is None:
            return
        name = self._known.get(row["class"]) or (self._known.get(clean(label.text).lower()) if label else None)
        if name is None:
            self._outside[label.text if label else row["class"]] = None
        else:
            to[property_, row["side"]][name] = None

    def one(self, property_: str, side: str) -> str | None:
        """The one class that all instances on this side must be of; None where there is none or no single one."""
        for said in (self._stated, self._constrained):
            names = said.get((property_, side))
            if not names:
                continue
            widest = [name for name in names if all(other == name or name in self._above[other] for other in names)]
            if len(widest) == 1:
                return widest[0]
            self._ambiguous[f"{name_of(property_)} ({side}: {', '.join(names)})"] = None
            return None
        return None

    def tell(self, properties: int) -> None:
        if not self._stated and not self._constrained and properties:
            self._notes.add("no property has a domain or a range")
        self._notes.add_all(list(self._outside), "classes named as domain or range are not in the list of classes")
        self._notes.add_all(list(self._ambiguous), "domains or ranges name several classes, none above the others")


def _class_names(sources: Sequence[Source], classes: Classes) -> dict[str, str]:
    """Labels of classes by IRI, by IRIs that are equivalent, and by label in lower case."""
    known = {clean(label).lower(): label for label in classes.label_of.values()}
    for row in rows_of(sources, "equivalent_classes"):
        for one, other in ((row["class"], row["other"]), (row["other"], row["class"])):
            if one in classes.label_of:
                known.setdefault(other, classes.label_of[one])
    return known | dict(classes.label_of)


def _align(properties: Sequence[str], sources: Sequence[Source], notes: Notes) -> dict[str, str]:
    """For each property the one that stands for it: itself, or of another vocabulary the equivalent that comes first.

    Never two of Wikidata's: where both claim the same property of another vocabulary, the first has it.
    """
    place = {iri: number for number, iri in enumerate(properties)}
    home = {iri: iri for iri in properties}
    twice = []
    pairs = {
        (row["property"], row["other"])
        if place[row["property"]] < place[row["other"]]
        else (row["other"], row["property"])
        for row in rows_of(sources, "equivalent_properties")
        if row["property"] in place and row["other"] in place and row["property"] != row["other"]
    }
    for first, second in sorted(pairs, key=lambda pair: (place[pair[0]], place[pair[1]])):
        if second.startswith(_WIKIDATA):
            twice.append(f"{name_of(first)} and {name_of(second)}")
        elif home[second] != second:
            if home[second] != home[first]:
                twice.append(f"{name_of(second)} ({name_of(home[second])}, not {name_of(first)})")
        else:
            home[second] = home[first]
    notes.add_all(twice, "properties are aligned with two properties, and stay with the first")
    return home


def _wikidata_first(iri: str) -> tuple[bool, int, str]:
    return not iri.startswith(_WIKIDATA), len(iri), iri


def _labels(rows: Iterable[Row], variable: str) -> dict[str, _Label | None]:
    """The best label of each IRI, in the order of their first rows."""
    best: dict[str, _Label | None] = {}
    for row in rows:
        iri, before = row[variable], best.get(row[variable])
        if "label" not in row:
            best.setdefault(iri, None)
            continue
        language = row.get("language", "")
        label = _Label(0 if language == "en" else 1 if language else 2, _one_line(row["label"]))
        best[iri] = label if before is None else min(before, label)
    return best


def _good_labels(iris: Iterable[str], labels: Mapping[str, _Label | None], kind: str, notes: Notes) -> dict[str, str]:
    """Labels by IRI; what has none, an unreadable one, or the same as one before, is left out and noted."""
    good: dict[str, str] = {}
    taken: dict[str, str] = {}
    lacking, unreadable, same = [], [], []
    for iri in iris:
        label = labels[iri]
        if label is None:
            lacking.append(iri)
        elif not has_words(label.text):
            unreadable.append(f"{iri} ({label.text!r})")
        elif clean(label.text) in taken:
            same.append(f"{label.text!r} ({iri}, not {taken[clean(label.text)]})")
        else:
            good[iri], taken[clean(label.text)] = label.text, iri
    notes.add_all(lacking, f"{kind} without an English label (rdfs:label, @en or without a language) are left out")
    notes.add_all(unreadable, f"{kind} with a label without letters or digits are left out")
    notes.add_all(same, f"{kind} have the label of another and are left out")
    return good


def _outside(iris: Iterable[str], known: Collection[str]) -> list[str]:
    """Those that are not known, each once, but for RDF's own terms."""
    return sorted({iri for iri in iris if iri not in known and not iri.startswith(_OF_RDF)})


def _labelled(iris: Iterable[str], label_of: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(label_of[iri] for iri in iris if iri in label_of)


def _edges(
    steps: Sequence[tuple[str, str]], label_of: Mapping[str, str], kind: str, notes: Notes
) -> dict[str, list[str]]:
    """The hierarchy, and notes on what is odd in it.

    :param steps: (below, above).
    """
    edges = edges_of(steps)
    alone = [label_of.get(iri, iri) for iri in loops(steps)]
    notes.add_all(alone, f"{kind} are said to be above themselves: that step is left out")
    for cycle in cycles(edges):
        names = [label_of.get(iri, iri) for iri in (*cycle, cycle[0])]
        notes.add(f"a cycle in the hierarchy of {kind}: {' → '.join(names)}; chains end where it comes back")
    return edges


def _one_line(text: str) -> str:
    return " ".join(text.split())


def unknown_patterns(patterns: Patterns, properties: Iterable[OntologyProperty]) -> Iterator[str]:
    """Names in the file of patterns that no property has."""
    known: set[str] = set()
    for entry in properties:
        known |= {entry.label, *entry.superproperties, *entry.iris, *map(name_of, entry.iris)}
    yield from (name for name in patterns.given if name not in known)

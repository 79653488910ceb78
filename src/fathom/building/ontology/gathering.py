"""From answers to queries to classes and properties: labels, chains, samples, alignment (section 2.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fathom.building.ontology.closure import (
    EVERYTHING,
    Disjoint,
    class_steps,
    disjoint_classes,
    disjoint_pair,
    note_inconsistent,
)
from fathom.building.ontology.hierarchy import Edges, Step, chain, checked_edges
from fathom.building.ontology.labels import Naming, best_labels, good_labels, name_of, one_line
from fathom.building.ontology.notes import Notes
from fathom.building.ontology.omissions import deprecated_terms, outside
from fathom.building.ontology.sides import SIDES, Classes, gather_sides
from fathom.building.ontology.sources import Drawn, Source, query_text, rows_of
from fathom.formats.ontoprobe import OntologyClass, OntologyProperty, clean, has_words
from fathom.progress import Progress

_WIKIDATA = "http://www.wikidata.org/entity/"


class Properties(NamedTuple):
    """:param found: one for each group that is equivalent.
    :param defaults: labels of those whose pattern is the default.
    :param from_iris: labels that are ends of IRIs.
    :param bare: how many have no label.
    """

    found: list[OntologyProperty]
    defaults: set[str]
    from_iris: Collection[str]
    bare: int


class Sampling(NamedTuple):
    """:param size: at most so many instances of each class.
    :param seed: decides which.
    """

    size: int
    seed: int


def gather_classes(
    sources: Sequence[Source], sampling: Sampling, naming: Naming, notes: Notes, progress: Progress
) -> Classes:
    """Classes with labels, their chains, and a sample of the instances of each."""
    said = [(source, row) for source in sources for row in source.rows(query_text("classes", **naming.values()))]
    holders: dict[str, dict[Source, None]] = defaultdict(dict)
    for source, row in said:
        holders[row["class"]][source] = None
    labels = best_labels((row for _, row in said), "class", naming.language)
    steps, same, wide = class_steps(sources, notes)
    used = _in_use(sorted(holders.keys() - wide), deprecated_terms(sources), "classes", notes)
    label_of, from_iris, bare, twins = good_labels(used, labels, "classes", naming, notes)
    if not said:
        notes.append("no classes: expected things that are an owl:Class or rdfs:Class, with rdfs:label")
    edges = _class_edges(steps, same, holders, label_of, notes)
    found = []
    disjoint = disjoint_classes(sources, label_of, notes)
    note_inconsistent(disjoint, edges, label_of, notes)
    sample = _Sample(label_of | twins, edges, disjoint)
    drawn = Drawn(sampling.seed, sampling.size, tuple(naming.iris()), naming.language)
    for done, (iri, label) in enumerate(label_of.items()):
        progress(done, len(label_of))
        rows = [row for source in holders[iri] for row in source.instances(iri, drawn)]
        names = sample.of(rows[: sampling.size])
        found.append(OntologyClass(iri, label, sample.above(iri), names))
    progress(len(label_of), len(label_of))
    if sample.nameless:
        notes.append(f"{sample.nameless:,} instances have a label without letters or digits: left out")
    notes.add_all(
        list(sample.impossible),
        "sampled instances are of two classes that are disjoint: one of these is a wrong answer",
    )
    stands_for = {iri: above[0] for iri in edges if iri not in label_of | twins and (above := sample.above(iri))}
    return Classes(found, label_of, stands_for, {*EVERYTHING, *wide}, sample.types, from_iris, bare)


class _Sample:
    """Collects instances by name, with all that they are stated to be."""

    def __init__(self, label_of: Mapping[str, str], edges: Edges, disjoint: Disjoint) -> None:
        self._label_of, self._edges, self._disjoint = label_of, edges, disjoint
        self.impossible: dict[str, None] = {}
        self._above: dict[str, tuple[str, ...]] = {}
        self.types: dict[str, tuple[str, ...]] = {}
        self.nameless = 0

    def above(self, iri: str) -> tuple[str, ...]:
        """Labels of all classes above one."""
        if iri not in self._above:
            self._above[iri] = _above(iri, self._edges, self._label_of)
        return self._above[iri]

    def of(self, rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
        """Names of instances, each once; what nothing can be asked about is counted."""
        names: dict[str, None] = {}
        for row in rows:
            name = one_line(row["label"][1:] if row.get("label") else name_of(row["instance"]))
            if not has_words(name):
                self.nameless += 1
                continue
            names[name] = None
            stated = dict.fromkeys(self.types.get(clean(name), ()))
            types = sorted(row.get("types", "").split(" "))
            self._check(name, types)
            for iri in types:
                stated |= dict.fromkeys((self._label_of[iri],) if iri in self._label_of else self.above(iri))
            self.types[clean(name)] = tuple(stated)
        return tuple(names)

    def _check(self, name: str, types: Sequence[str]) -> None:
        """Notes an instance of disjoint classes."""
        if not self._disjoint or len(types) < 2:
            return
        above = dict.fromkeys(iri for type_ in types for iri in (type_, *chain(type_, self._edges)))
        if pair := disjoint_pair(above, self._disjoint):
            said = ", ".join(self._label_of.get(iri, iri) for iri in pair)
            self.impossible[f"{name} ({said})"] = None


def _class_edges(
    steps: Sequence[Step],
    same: Sequence[Step],
    declared: Collection[str],
    label_of: Mapping[str, str],
    notes: Notes,
) -> Edges:
    """The hierarchy of classes, and notes on what is odd in it."""
    notes.add_all(
        outside((iri for step in steps for iri in step), declared),
        "names in rdfs:subClassOf are left out, as nothing says that they are an owl:Class or rdfs:Class",
    )
    notes.add_all(
        outside((iri for pair in same for iri in pair), declared),
        "names in owl:equivalentClass are of no class here, and only help to find domains and ranges",
    )
    return checked_edges(steps, label_of, "classes", notes, same)


def _in_use(iris: Sequence[str], deprecated: Collection[str], kind: str, notes: Notes) -> list[str]:
    """Those that are not deprecated."""
    notes.add_all([iri for iri in iris if iri in deprecated], f"{kind} are deprecated and left out")
    return [iri for iri in iris if iri not in deprecated]


def gather_properties(
    sources: Sequence[Source], classes: Classes, patterns: Mapping[str, str], naming: Naming, notes: Notes
) -> Properties:
    """Properties that have a domain, a range or a super-property, one for each group that is equivalent."""
    labels = best_labels(rows_of(sources, "properties", **naming.values()), "property", naming.language)
    ordered = sorted(labels, key=_wikidata_first)
    home = _align(_in_use(ordered, deprecated_terms(sources), "properties", notes), sources, notes)
    groups: dict[str, list[str]] = defaultdict(list)
    for iri in sorted(home, key=_wikidata_first):
        groups[home[iri]].append(iri)
    best = {iri: next(filter(None, map(labels.get, group)), None) for iri, group in groups.items()}
    label_of, from_iris, bare, twins = good_labels(list(groups), best, "properties", naming, notes)
    every = {iri: iri for iri in labels} | home  # chains pass through those that are deprecated
    inverses = _inverses(sources, every)
    stated = [(row["property"], row["super"]) for row in rows_of(sources, "superproperties")]
    edges = checked_edges(_property_steps(stated, every, inverses), label_of, "properties", notes)
    sides = gather_sides(sources, classes, every, label_of, inverses, edges, naming, notes)
    written = {label: _pattern_of(label, groups[iri], patterns) for iri, label in label_of.items()}
    pattern_of = {label: pattern or f"[X]'s {label} is [Y] ." for label, pattern in written.items()}
    found = []
    for iri, label in label_of.items():
        above = {name: pattern_of[name] for name in _above(iri, edges, label_of | twins)}
        domains, ranges = (sides.answers.get((iri, side), ()) for side in SIDES)
        if above or domains or ranges:
            own = tuple(side for side in SIDES if (iri, side) in sides.one_of)
            found.append(OntologyProperty(tuple(groups[iri]), label, domains, ranges, above, pattern_of[label], own))
    used = {name for entry in found for name in (entry.label, *entry.superproperties)}
    _note_lacking(found, [label for label in label_of.values() if label not in used], notes)
    _note_outside(sources, outside((*sides.named, *(iri for step in stated for iri in step)), labels), notes)
    defaults = {label for label, pattern in written.items() if pattern is None and label in used}
    return Properties(found, defaults, [label for label in from_iris if label in used], bare)


def _inverses(sources: Sequence[Source], home: Mapping[str, str]) -> dict[str, set[str]]:
    """Of each property those that say the same the other way round."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows_of(sources, "inverses"):
        if row["property"] in home and row["other"] in home:
            one, other = home[row["property"]], home[row["other"]]
            found[one].add(other)
            found[other].add(one)
    return found


def _property_steps(
    stated: Iterable[Step], home: Mapping[str, str], inverses: Mapping[str, Collection[str]]
) -> list[Step]:
    """One step up each: what is stated, and the same of inverses ("has child" is below "has relative", so "child of" is
    below "relative of")."""
    steps = [(home[below], home[above]) for below, above in stated if below in home and above in home]
    turned = [
        (one, other)
        for below, above in steps
        for one in sorted(inverses.get(below, ()))
        for other in sorted(inverses.get(above, ()))
        if one != other
    ]
    return list(dict.fromkeys((*steps, *turned)))


def _note_outside(sources: Sequence[Source], names: Sequence[str], notes: Notes) -> None:
    """:param names: of what is no property between things, in hierarchies, domains and ranges."""
    notes.add_all(
        names,
        "names in rdfs:subPropertyOf (P1647), rdfs:domain or rdfs:range are left out: properties of texts, numbers or "
        "dates, or nothing says that they are an owl:ObjectProperty or rdf:Property",
    )
    notes.add_all(
        [row["property"] for row in rows_of(sources, "bare_constraints")],
        "properties have type constraints without qualifiers, as in truthy dumps, so that their classes are not known; "
        "the property's full data (Special:EntityData/P54.ttl) has them",
    )


def _pattern_of(label: str, iris: Iterable[str], given: Mapping[str, str]) -> str | None:
    """The sentence pattern of a property; None where none was given.

    :param given: by label, IRI or the end of an IRI (P54).
    """
    names = [label, *iris, *map(name_of, iris)]
    return next((given[name] for name in names if name in given), None)


def _note_lacking(found: Sequence[OntologyProperty], unused: Sequence[str], notes: Notes) -> None:
    """:param unused: labels of properties that are in no task and above none that is."""
    for side in ("domain", "range"):
        lacking = [entry.label for entry in found if not getattr(entry, f"{side}s")]
        notes.add_all(lacking, f"properties have no {side} among the classes, and are not in the task {side}")
    notes.add_all(unused, "properties are left out, as they have no domain, range, super-property or sub-property")


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


def _above(iri: str, edges: Edges, label_of: Mapping[str, str]) -> tuple[str, ...]:
    """Labels of all that is above, nearest first, without its own: a twin may be among them."""
    names = dict.fromkeys(label_of[upper] for upper in chain(iri, edges) if upper in label_of)
    return tuple(name for name in names if name != label_of.get(iri))


def unknown_patterns(patterns: Iterable[str], properties: Iterable[OntologyProperty]) -> list[str]:
    """Names in the file of patterns that no property has."""
    known = {
        name
        for entry in properties
        for name in (entry.label, *entry.superproperties, *entry.iris, *map(name_of, entry.iris))
    }
    return [name for name in patterns if name not in known]

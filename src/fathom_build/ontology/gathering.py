"""Answers to queries → classes and properties: labels, chains, samples, alignment, domains and ranges (section 2.1).

Several ``rdfs:domain`` hold together (rdfs2, scm-dom2): the finest of them are right. The parts of an ``owl:unionOf``,
and all that schema.org includes or Wikidata's type constraints name, are alternatives. A union with a part that is left
out says nothing: what has the property may be of that part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from fathom.base.progress import Progress
from fathom.data.formats.ontology import Axioms
from fathom.data.formats.ontoprobe import OntologyClass, OntologyProperty, clean, has_words
from fathom.data.formats.rdf import name_of, one_line
from fathom.data.hierarchy import chain
from fathom_build.ontology.hierarchy import (
    EVERYTHING,
    Disjoint,
    Edges,
    EntailedTypes,
    ReadAssertions,
    Step,
    align,
    axioms_of_properties,
    checked_edges,
    class_steps,
    disjoint_classes,
    disjoint_pair,
    edges_of,
    wikidata_first,
)
from fathom_build.ontology.intake import Labels, Naming, best_labels, deprecated_terms, good_labels, is_code
from fathom_build.ontology.sources import Row, Source, at_hand, outside, query_text, rows_of, rows_of_lists
from fathom_build.sheets import Notes

SIDES = ("domain", "range")
Side = tuple[str, str]
"""A property, and domain or range."""
OneOf = dict[str, None]
"""Labels of classes of which one holds; a single one holds for sure."""
_ANOTHER = ""
"""In place of a label: a class that is not in the list, or has no name."""
Above = Mapping[str, Collection[str]]
"""Of each label those of all classes above it."""


class Classes(NamedTuple):
    """:param entries: in the order of their IRIs.
    :param label_of: of those that have a good one, by IRI.
    :param stands_for: label of the nearest class above those that are not in the list.
    :param everything: IRIs of classes that have every thing as an instance.
    :param types: labels of the classes that sampled things are stated to be of, by their names as they are asked.
    :param from_iris: labels that are ends of IRIs.
    :param bare: how many have no label.
    """

    entries: list[OntologyClass]
    label_of: Mapping[str, str]
    stands_for: Mapping[str, str]
    everything: Collection[str]
    types: Mapping[str, Collection[str]]
    from_iris: Collection[str]
    bare: int


class Sides(NamedTuple):
    """:param answers: labels of the classes that are right, by property and side, where there are any.
    :param one_of: which of those are alternatives: of a class there or of another one.
    :param named: whatever has an ``rdfs:domain`` or ``rdfs:range``.
    """

    answers: dict[Side, tuple[str, ...]]
    one_of: set[Side]
    named: set[str]


def gather_sides(
    sources: Sequence[Source],
    classes: Classes,
    home: Mapping[str, str],
    properties: Collection[str],
    inverses: Mapping[str, Collection[str]],
    hierarchy: Edges,
    naming: Naming,
    notes: Notes,
) -> Sides:
    """Return domains and ranges as RDF vocabularies state them, else include them, else by Wikidata's constraints.

    :param home: of each property the one that stands for it.
    :param inverses: of these, the properties that say the same the other way round.
    :param hierarchy: of these, too: what is stated of a property holds of those below it.
    """
    class_names = _class_names(sources, classes)
    domains = _narrow(
        [*rows_of(sources, "domains"), *rows_of_lists(sources, "domain_parts", notes)], classes.everything, notes
    )
    constraints = list(rows_of(sources, "constraints", **naming.values()))
    outside: dict[str, None] = {}
    stated = _whole(_grouped(domains, {}, home, class_names, outside), notes)
    included = _named(_grouped(rows_of(sources, "included_domains"), {}, home, class_names, outside, together=True))
    named = {iri: label[1] for iri, label in best_labels(constraints, "class", naming.language).items() if label}
    constrained = _named(_grouped(constraints, named, home, class_names, outside, together=True))
    above = {class_.label: set(class_.superclasses) for class_ in classes.entries}
    answers: dict[Side, tuple[str, ...]] = {}
    one_of: set[Side] = set()
    ambiguous: dict[str, None] = {}
    for property_, side in product(properties, SIDES):
        ways = _ways((property_, side), stated, included, constrained, inverses, hierarchy)
        if right := holding_together(ways, above):
            answers[property_, side] = right
            one_of |= {(property_, side)} if is_one_of(ways, above) else set()
        elif names := dict.fromkeys(name for way in ways for name in way if name != _ANOTHER):
            ambiguous[f"{name_of(property_)} ({side}: {', '.join(names)})"] = None
    if not (stated or included or constrained) and properties:
        notes.append("no property has a domain or a range")
    notes.add_all(list(outside), "classes named as domain or range are not in the list of classes")
    notes.add_all(list(ambiguous), "domains or ranges name several classes, none above the others")
    return Sides(answers, one_of, {row["property"] for row in domains})


def holding_together(ways: Sequence[Collection[str]], above: Above) -> tuple[str, ...]:
    """Return the right answers if something must be of one class of each way: the finest way, or all single ones.

    :returns: nothing where several ways are left and none is a single class.
    """
    finest = _finest(ways, above)
    right = finest[0] if len(finest) == 1 else [way[0] for way in finest if len(way) == 1]
    equal = [above_it for name in right for above_it in above.get(name, ()) if name in above.get(above_it, ())]
    return tuple(name for name in dict.fromkeys((*right, *sorted(equal))) if name != _ANOTHER)


def is_one_of(ways: Sequence[Collection[str]], above: Above) -> bool:
    """Return whether the right answers are alternatives, such as the parts of a union: none follows by itself."""
    finest = _finest(ways, above)
    return len(finest) == 1 and not all(_finer([first], [second], above) for first in finest[0] for second in finest[0])


def _finest(ways: Sequence[Collection[str]], above: Above) -> list[list[str]]:
    finest: list[list[str]] = []
    for way in (widest(way, above) for way in ways):
        if not any(_finer(kept, way, above) for kept in finest):
            finest = [kept for kept in finest if not _finer(way, kept, above)] + [way]
    return finest


def widest(names: Collection[str], above: Above) -> list[str]:
    """Return the names that no other is above; of classes that are above each other, both."""
    return [
        name
        for name in names
        if not any(wider in above.get(name, ()) and name not in above.get(wider, ()) for wider in names)
    ]


def _finer(finer: Collection[str], wider: Collection[str], above: Above) -> bool:
    """Return whether being of a class of *one* implies being of a class of *other*."""
    return all(name in wider or not set(wider).isdisjoint(above.get(name, ())) for name in finer)


def _ways(
    place: Side,
    stated: Mapping[Side, Sequence[OneOf]],
    included: Mapping[Side, Sequence[OneOf]],
    constrained: Mapping[Side, list[OneOf]],
    inverses: Mapping[str, Collection[str]],
    hierarchy: Edges,
) -> list[OneOf]:
    """Return what is stated of a side, the strictest kind first; a property's domain is also its inverse's range."""
    turned = _turned(place, inverses)
    inherited = (
        place_
        for below, way in turned
        for above in chain(below, hierarchy)
        for place_ in _turned((above, way), inverses)
    )
    sides = [way for place_ in (*turned, *inherited) for way in stated.get(place_, ())]
    if not sides:
        sides = next((list(included[place_]) for place_ in turned if place_ in included), [])
    return sides or constrained.get(place, [])


def _turned(place: Side, inverses: Mapping[str, Collection[str]]) -> list[Side]:
    property_, side = place
    return [place, *((inverse, SIDES[1 - SIDES.index(side)]) for inverse in sorted(inverses.get(property_, ())))]


def _narrow(rows: Sequence[Row], everything: Collection[str], notes: Notes) -> list[Row]:
    wide = {row["whole"]: row["property"] for row in rows if "whole" in row and row["class"] in everything}
    notes.add_all(
        sorted(wide.values()), "domains or ranges are unions with owl:Thing, which is anything: left out, as of"
    )
    return [row for row in rows if row.get("whole") not in wide]


def _whole(stated: Mapping[Side, Sequence[OneOf]], notes: Notes) -> dict[Side, list[OneOf]]:
    """Drop unions of which a part is left out: "a human or something else" does not imply what it is."""
    lacking = [
        f"{name_of(property_)} ({side}: {', '.join(filter(None, way)) or 'no other part'})"
        for (property_, side), ways in stated.items()
        for way in ways
        if _ANOTHER in way
    ]
    notes.add_all(
        lacking,
        "domains or ranges are unions with a part that is left out (it has no name or label, is deprecated or not in "
        "the list of classes), so that no other part follows, nor is asked",
    )
    whole = {side: [way for way in ways if _ANOTHER not in way] for side, ways in stated.items()}
    return {side: ways for side, ways in whole.items() if ways}


def _named(ways_by_side: Mapping[Side, list[OneOf]]) -> dict[Side, list[OneOf]]:
    return {side: ways for side, ways in ways_by_side.items() if any(name != _ANOTHER for way in ways for name in way)}


def _grouped(
    rows: Iterable[Row],
    labels: Mapping[str, str],
    home: Mapping[str, str],
    class_names: Mapping[str, str],
    outside: dict[str, None],
    together: bool = False,
) -> dict[Side, list[OneOf]]:
    """Group classes of the list, found by IRI, by what is equivalent, or by their label.

    :param labels: of classes, where the rows have some.
    :param outside: the others are added here.
    :param together: all rows of a side are one union; otherwise those with one ``whole``, and a class by itself.
    :returns: unions by side; what else a union contains is :data:`_ANOTHER`.
    """
    grouped: dict[Side, dict[str, OneOf]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["property"] not in home:
            continue
        label = labels.get(row["class"])
        name = class_names.get(row["class"]) or (class_names.get(clean(label).lower()) if label else None)
        if name is None and row["class"]:
            outside[label or row["class"]] = None
        if name is not None or together or "whole" in row:
            whole = "" if together else row.get("whole", f"<{row['class']}>")
            grouped[home[row["property"]], row["side"]][whole][name or _ANOTHER] = None
    return {side: list(ways.values()) for side, ways in grouped.items()}


def _class_names(sources: Sequence[Source], classes: Classes) -> dict[str, str]:
    """Return labels of classes by IRI, by equivalent IRIs, and by label in lower case. A class outside the list gets
    that of the nearest above it (scm-dom1, scm-rng1).
    """
    label_of = classes.label_of
    names = {clean(label).lower(): label for label in label_of.values()}
    for row in rows_of(sources, "equivalent_classes"):
        for iri, equivalent in ((row["class"], row["other"]), (row["other"], row["class"])):
            if iri in label_of:
                names.setdefault(equivalent, label_of[iri])
    return {**classes.stands_for, **names, **label_of}


class Properties(NamedTuple):
    """:param entries: one for each group that is equivalent.
    :param axioms: what else is stated of properties.
    :param defaults: labels of those whose pattern is the default.
    :param from_iris: labels that are ends of IRIs.
    :param bare: how many have no label.
    """

    entries: list[OntologyProperty]
    axioms: Axioms
    defaults: set[str]
    from_iris: Collection[str]
    bare: int


def gather_classes(
    sources: Sequence[Source],
    size: int,
    seed: int,
    naming: Naming,
    notes: Notes,
    progress: Progress,
    read: ReadAssertions,
) -> Classes:
    """Return classes with labels, their chains, and a sample of the instances of each, with all their types.

    :param size: instances of each class at most; *seed* decides which.
    """
    holders, labels = _declared_classes(sources, naming)
    steps, same, wide = class_steps(sources, notes)
    used = _in_use(sorted(holders.keys() - wide), deprecated_terms(sources), "classes", notes)
    label_of, from_iris, bare, twins = good_labels(used, labels, "classes", naming, notes)
    if not holders:
        notes.append("no classes: expected things that are an owl:Class or rdfs:Class, with rdfs:label")
    edges = _class_edges(steps, same, holders, label_of, notes)
    groups = disjoint_classes(sources, notes)
    inconsistent = (
        f"{label} ({', '.join(label_of.get(class_, class_) for class_ in pair)})"
        for iri, label in label_of.items()
        if groups and (pair := disjoint_pair([iri], edges, groups))
    )
    notes.add_all(inconsistent, "classes are below two that are disjoint, and cannot have instances")
    named = label_of | twins
    sample = _Sample(named, edges, at_hand(sources))
    entries, places = [], naming.values() | {"size": size, "seed": seed}
    for done, (iri, label) in enumerate(label_of.items()):
        progress(done, len(label_of))
        query = query_text("instances", **places | {"class": iri})
        names = sample.of([row for source in holders[iri] for row in source.rows(query)][:size])
        entries.append(OntologyClass(iri, label, sample.above(iri), names))
    progress(len(label_of), len(label_of))
    sample.entail(EntailedTypes(sources, edges, notes), read, notes)
    sample.note(notes, groups)
    _note_lost(at_hand(sources), outside(holders, label_of), label_of, notes)
    stands_for = {iri: above[0] for iri in edges if iri not in named and (above := sample.above(iri))}
    return Classes(entries, label_of, stands_for, {*EVERYTHING, *wide}, sample.types, from_iris, bare)


def _declared_classes(sources: Sequence[Source], naming: Naming) -> tuple[dict[str, dict[Source, None]], Labels]:
    """Return which sources have each class, and its best label."""
    holders: dict[str, dict[Source, None]] = defaultdict(dict)
    rows = []
    for source in sources:
        for row in source.rows(query_text("classes", **naming.values())):
            holders[row["class"]][source] = None
            rows.append(row)
    return holders, best_labels(rows, "class", naming.language)


def _note_lost(files: Sequence[Source], left_out: Sequence[str], kept: Collection[str], notes: Notes) -> None:
    edges = edges_of((row["class"], row["super"]) for row in rows_of(files, "superclasses"))
    above = {iri: set(chain(iri, edges)) for iri in (*left_out, *kept)}
    lost: dict[str, str] = {}
    for iri in left_out:
        for row in rows_of(files, "things", **{"class": iri}):
            types = set(row["types"].split(" ")) & above.keys()
            below = {upper for upper in types for lower in types if upper in above[lower] and lower not in above[upper]}
            if not (types - below).intersection(kept):
                lost.setdefault(row["thing"], iri)
    notes.add_all(
        (f"{thing} (of {class_})" for thing, class_ in lost.items()),
        "instances are left out, as they are of classes that are left out (without a label, deprecated, labelled as "
        "another is, or everything), and of no other that is not above these",
    )


class _Sample:
    """Collects instances by name, with all that they are stated to be."""

    def __init__(self, label_of: Mapping[str, str], edges: Edges, files: Sequence[Source]) -> None:
        self._label_of, self._edges = label_of, edges
        same = list(rows_of(files, "same"))
        self._same = edges_of((row["thing"], row["other"]) for row in same)
        self._further_types: dict[str, set[str]] = defaultdict(set)
        for row in same:
            self._further_types[row["other"]] |= {row["type"]} if "type" in row else set()
        self._above: dict[str, tuple[str, ...]] = {}
        self._things: dict[str, tuple[str, list[str]]] = {}
        self._called: dict[str, set[str]] = defaultdict(set)
        self.types: dict[str, dict[str, None]] = defaultdict(dict)
        self._nameless: dict[str, None] = {}
        self._coded: dict[str, None] = {}

    def above(self, iri: str) -> tuple[str, ...]:
        if iri not in self._above:
            self._above[iri] = _above(iri, self._edges, self._label_of)
        return self._above[iri]

    def of(self, rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for row in rows:
            name = one_line(row["label"][1:] if row.get("label") else name_of(row["instance"]))
            if not has_words(name):
                self._nameless[row["instance"]] = None
                continue
            if not row.get("label") and is_code(name):
                self._coded[row["instance"]] = None
                continue
            names[name] = None
            others = chain(row["instance"], self._same)
            types = sorted(
                {*row.get("types", "").split(" "), *(t for thing in others for t in self._further_types[thing])}
            )
            self._things[row["instance"]] = name, types
            for iri in (row["instance"], *others):
                self._called[iri].add(row["instance"])
            self._add(name, types)
        return tuple(names)

    def entail(self, entailment: EntailedTypes, read: ReadAssertions, notes: Notes) -> None:
        """Add the types that follow from what is asserted of the things."""
        stated_types = {thing: stated for thing, (_, stated) in self._things.items()}
        found = entailment.of_all(stated_types, self._called, read(self._called.keys(), entailment.properties))
        added, open_ = [], []
        for thing, (name, stated) in self._things.items():
            types, may_be_more = found[thing]
            further = types.difference(*map(entailment.with_above, stated)) & self._label_of.keys()
            if further:
                finest_first = sorted(further, key=lambda iri: (-len(self.above(iri)), iri))
                added.append(f"{name} ({', '.join(self._label_of[iri] for iri in finest_first)})")
                self._add(name, finest_first)
            if may_be_more:
                open_.append(name)
        notes.add_all(added, "sampled things are of further classes by their properties (domain, range, owl:hasValue)")
        notes.add_all(
            open_,
            f"of {len(self._things):,} sampled things may be of further classes by definitions that are not evaluated "
            "(owl:someValuesFrom, owl:unionOf and the like): some of their wrong answers may be right",
        )

    def _add(self, name: str, types: Sequence[str]) -> None:
        for iri in types:
            labels = (self._label_of[iri],) if iri in self._label_of else self.above(iri)
            self.types[clean(name)] |= dict.fromkeys(labels)

    def note(self, notes: Notes, groups: Disjoint) -> None:
        notes.add_all(self._nameless, "instances with a label without letters or digits are left out")
        notes.add_all(
            self._coded,
            "sampled instances without a label are left out, as the end of their IRI is an identifier and no name",
        )
        impossible = (
            f"{name} ({', '.join(self._label_of.get(iri, iri) for iri in pair)})"
            for name, types in self._things.values()
            if groups and (pair := disjoint_pair(types, self._edges, groups))
        )
        notes.add_all(
            impossible, "sampled instances are of two classes that are disjoint: one of these is a wrong answer"
        )


def _class_edges(
    steps: Sequence[Step], same: Sequence[Step], declared: Collection[str], label_of: Mapping[str, str], notes: Notes
) -> Edges:
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
    notes.add_all([iri for iri in iris if iri in deprecated], f"{kind} are deprecated and left out")
    return [iri for iri in iris if iri not in deprecated]


def gather_properties(
    sources: Sequence[Source], classes: Classes, patterns: Mapping[str, str], naming: Naming, notes: Notes
) -> Properties:
    """Return properties with a domain, range, super-property or axiom, one for each group of equivalent ones."""
    labels = best_labels(rows_of(sources, "properties", **naming.values()), "property", naming.language)
    in_use = _in_use(sorted(labels, key=wikidata_first), deprecated_terms(sources), "properties", notes)
    home, inverses, same = align(labels, in_use, sources, notes)
    groups: dict[str, list[str]] = defaultdict(list)
    for iri in in_use:
        groups[home[iri]].append(iri)
    best = {iri: next(filter(None, map(labels.get, group)), None) for iri, group in groups.items()}
    label_of, from_iris, bare, twins = good_labels(list(groups), best, "properties", naming, notes)
    axioms = axioms_of_properties(sources, home, inverses, label_of, notes)
    stated = [(row["property"], row["super"]) for row in rows_of(sources, "superproperties")]
    edges = checked_edges(_property_steps(stated, home, inverses), label_of, "properties", notes, same)
    sides = gather_sides(sources, classes, home, label_of, inverses, edges, naming, notes)
    in_axioms = {*axioms.symmetric, *axioms.transitive, *(name for pair in axioms.inverse for name in pair)}
    written = {}
    for iri, label in label_of.items():
        names = (label, *groups[iri], *map(name_of, groups[iri]))
        written[label] = next((patterns[name] for name in names if name in patterns), None)
    pattern_of = {label: pattern or f"[X]'s {label} is [Y] ." for label, pattern in written.items()}
    entries = []
    for iri, label in label_of.items():
        above = {name: pattern_of[name] for name in _above(iri, edges, label_of | twins)}
        domains, ranges = (sides.answers.get((iri, side), ()) for side in SIDES)
        if above or domains or ranges or label in in_axioms:
            alternatives = tuple(side for side in SIDES if (iri, side) in sides.one_of)
            entries.append(
                OntologyProperty(tuple(groups[iri]), label, domains, ranges, above, pattern_of[label], alternatives)
            )
    used = {name for entry in entries for name in (entry.label, *entry.superproperties)}
    _note_lacking(entries, [label for label in label_of.values() if label not in used], notes)
    _note_outside(sources, outside((*sides.named, *(iri for step in stated for iri in step)), labels), notes)
    defaults = {label for label, pattern in written.items() if pattern is None and label in used}
    return Properties(entries, axioms, defaults, [label for label in from_iris if label in used], bare)


def _property_steps(
    stated: Iterable[Step], home: Mapping[str, str], inverses: Mapping[str, Collection[str]]
) -> list[Step]:
    """Return the stated steps up, and those of inverses."""
    steps = [(home[below], home[above]) for below, above in stated if below in home and above in home]
    turned = [
        (lower, upper)
        for below, above in steps
        for lower in sorted(inverses.get(below, ()))
        for upper in sorted(inverses.get(above, ()))
        if lower != upper
    ]
    return list(dict.fromkeys((*steps, *turned)))


def _note_outside(sources: Sequence[Source], names: Sequence[str], notes: Notes) -> None:
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


def _note_lacking(entries: Sequence[OntologyProperty], unused: Sequence[str], notes: Notes) -> None:
    for side in ("domain", "range"):
        lacking = [entry.label for entry in entries if not getattr(entry, f"{side}s")]
        notes.add_all(lacking, f"properties have no {side} among the classes, and are not in the task {side}")
    notes.add_all(
        unused, "properties are left out, as they have no domain, range, super-property, sub-property or axiom"
    )


def _above(iri: str, edges: Edges, label_of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the labels of all that is above, nearest first, without its own: a twin may be among them."""
    names = dict.fromkeys(label_of[upper] for upper in chain(iri, edges) if upper in label_of)
    return tuple(name for name in names if name != label_of.get(iri))


def unknown_patterns(patterns: Iterable[str], properties: Iterable[OntologyProperty]) -> list[str]:
    """Return the names in the file of patterns that no property has."""
    names = {
        name
        for entry in properties
        for name in (entry.label, *entry.superproperties, *entry.iris, *map(name_of, entry.iris))
    }
    return [name for name in patterns if name not in names]

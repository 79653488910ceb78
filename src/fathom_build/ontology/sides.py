"""Domains and ranges: which classes are the right answers, by what vocabularies state, include or constrain.

Several ``rdfs:domain`` hold together (rdfs2), a property's own and those of the properties above it (scm-dom2,
scm-rng2): the finest of them are right. The parts of an ``owl:unionOf``, and all that schema.org includes or Wikidata's
type constraints name, are alternatives: each is right, but for those within another. A union with a part that is left
out says nothing: what has the property may be of that part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from fathom.data.formats.ontoprobe import OntologyClass, clean
from fathom.data.formats.rdf_syntax import name_of
from fathom.data.hierarchy import chain
from fathom_build.ontology.hierarchy import Edges
from fathom_build.ontology.labels import Naming, best_labels
from fathom_build.ontology.sources import Row, Source, rows_of, rows_of_lists
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
    known = _class_names(sources, classes)
    domains = _narrow(
        [*rows_of(sources, "domains"), *rows_of_lists(sources, "domain_parts", notes)], classes.everything, notes
    )
    constraints = list(rows_of(sources, "constraints", **naming.values()))
    outside: dict[str, None] = {}
    stated = _whole(_grouped(domains, {}, home, known, outside), notes)
    included = _named(_grouped(rows_of(sources, "included_domains"), {}, home, known, outside, together=True))
    named = {iri: label.text for iri, label in best_labels(constraints, "class", naming.language).items() if label}
    constrained = _named(_grouped(constraints, named, home, known, outside, together=True))
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
    chosen = finest[0] if len(finest) == 1 else [way[0] for way in finest if len(way) == 1]
    equal = [other for name in chosen for other in above.get(name, ()) if name in above.get(other, ())]
    return tuple(name for name in dict.fromkeys((*chosen, *sorted(equal))) if name != _ANOTHER)


def is_one_of(ways: Sequence[Collection[str]], above: Above) -> bool:
    """Return whether the right answers are alternatives, such as the parts of a union: none follows by itself."""
    finest = _finest(ways, above)
    return len(finest) == 1 and not all(_finer([one], [other], above) for one in finest[0] for other in finest[0])


def _finest(ways: Sequence[Collection[str]], above: Above) -> list[list[str]]:
    finest: list[list[str]] = []
    for way in (widest(way, above) for way in ways):
        if not any(_finer(other, way, above) for other in finest):
            finest = [other for other in finest if not _finer(way, other, above)] + [way]
    return finest


def widest(names: Collection[str], above: Above) -> list[str]:
    """Return the names that no other is above; of classes that are above each other, both."""
    return [
        name
        for name in names
        if not any(other in above.get(name, ()) and name not in above.get(other, ()) for other in names)
    ]


def _finer(one: Collection[str], other: Collection[str], above: Above) -> bool:
    """Return whether being of a class of *one* implies being of a class of *other*."""
    return all(name in other or not set(other).isdisjoint(above.get(name, ())) for name in one)


def _ways(
    place: Side,
    stated: Mapping[Side, Sequence[OneOf]],
    included: Mapping[Side, Sequence[OneOf]],
    constrained: Mapping[Side, list[OneOf]],
    inverses: Mapping[str, Collection[str]],
    hierarchy: Edges,
) -> list[OneOf]:
    """Return what is stated of a side, the strictest kind first; a property's domain is also its inverse's range."""
    own = _turned(place, inverses)
    inherited = (
        one for below, way in own for above in chain(below, hierarchy) for one in _turned((above, way), inverses)
    )
    sides = [way for one in (*own, *inherited) for way in stated.get(one, ())]
    if not sides:
        sides = next((list(included[one]) for one in own if one in included), [])
    return sides or constrained.get(place, [])


def _turned(place: Side, inverses: Mapping[str, Collection[str]]) -> list[Side]:
    property_, side = place
    return [place, *((other, SIDES[1 - SIDES.index(side)]) for other in sorted(inverses.get(property_, ())))]


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


def _named(given: Mapping[Side, list[OneOf]]) -> dict[Side, list[OneOf]]:
    return {side: ways for side, ways in given.items() if any(name != _ANOTHER for way in ways for name in way)}


def _grouped(
    rows: Iterable[Row],
    labels: Mapping[str, str],
    home: Mapping[str, str],
    known: Mapping[str, str],
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
        name = known.get(row["class"]) or (known.get(clean(label).lower()) if label else None)
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
    known = {clean(label).lower(): label for label in label_of.values()}
    for row in rows_of(sources, "equivalent_classes"):
        for one, other in ((row["class"], row["other"]), (row["other"], row["class"])):
            if one in label_of:
                known.setdefault(other, label_of[one])
    return {**classes.stands_for, **known, **label_of}

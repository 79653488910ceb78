"""Hierarchies and axioms, and what follows from them: equivalent and inverse properties, disjoint classes, types.

A class is below and above its equivalents (scm-eqc1), below each part of an equal intersection (scm-int), and above
each part of an equal union (scm-uni). Types follow by domains and ranges (RDFS) and by ``owl:hasValue``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from fathom.base.progress import unseen
from fathom.base.reading import Faults
from fathom.data.formats.ontology import Axioms
from fathom.data.formats.ontoprobe import OntologyClass
from fathom.data.formats.rdf import name_of
from fathom.data.hierarchy import chain
from fathom_build.ontology.sources import Row, Source, outside, read_files, rows_of, rows_of_lists
from fathom_build.sheets import Notes

Edges = Mapping[str, Collection[str]]
"""From each node to those one step above."""
Step = tuple[str, str]
"""(below, above)"""


def checked_edges(
    steps: Sequence[Step], label_of: Mapping[str, str], kind: str, notes: Notes, same: Collection[Step] = ()
) -> dict[str, list[str]]:
    """Return the hierarchy, and note what is odd in it.

    :param same: pairs of nodes that are equivalent, so that each is above the other; that is no cycle.
    """
    alone = dict.fromkeys(label_of.get(below, below) for below, above in steps if below == above)
    notes.add_all(list(alone), f"{kind} are said to be above themselves: that step is left out")
    home = one_for_each(same)
    for cycle in cycles(edges_of((home.get(below, below), home.get(above, above)) for below, above in steps)):
        names = [label_of.get(iri, iri) for iri in (*cycle, cycle[0])]
        notes.append(f"a cycle in the hierarchy of {kind}: {' → '.join(names)}; chains end where it comes back")
    return edges_of([*same, *((above, below) for below, above in same), *steps])


def edges_of(pairs: Iterable[Step]) -> dict[str, list[str]]:
    """Return one step up by node, without steps from a node to itself."""
    edges: dict[str, dict[str, None]] = {}
    for below, above in pairs:
        if below != above:
            edges.setdefault(below, {})[above] = None
    return {node: list(above) for node, above in edges.items()}


def one_for_each(same: Iterable[Step]) -> dict[str, str]:
    """Return, for equivalent nodes in any number of steps, the one that stands for them all: the first by name."""
    edges: dict[str, list[str]] = {}
    for first, second in same:
        edges.setdefault(first, []).append(second)
        edges.setdefault(second, []).append(first)
    home: dict[str, str] = {}
    for node in sorted(edges):
        if node not in home:
            home |= dict.fromkeys([node, *chain(node, edges)], node)
    return home


def cycles(edges: Edges) -> list[list[str]]:
    """Return paths that come back to their first node, at least one for every group of nodes above each other.

    An iterative depth-first search: hierarchies may be deeper than Python's stack.
    """
    circles: list[list[str]] = []
    done: set[str] = set()
    for root in edges:
        if root in done:
            continue
        path, place = [root], {root: 0}
        waiting = [iter(edges[root])]
        while waiting:
            upper = next(waiting[-1], None)
            if upper is None:
                waiting.pop()
                node = path.pop()
                del place[node]
                done.add(node)
            elif upper in place:
                circles.append(path[place[upper] :])
            elif upper not in done:
                place[upper] = len(path)
                path.append(upper)
                waiting.append(iter(edges.get(upper, ())))
    return circles


_OWL = "http://www.w3.org/2002/07/owl#"
EVERYTHING = (f"{_OWL}Thing", "http://www.w3.org/2000/01/rdf-schema#Resource")
"""Classes that have every thing as an instance."""
NOTHING = f"{_OWL}Nothing"
"""The class without instances."""


def class_steps(sources: Sequence[Source], notes: Notes) -> tuple[list[Step], list[Step], set[str]]:
    """Return the hierarchy of classes without owl:Thing and owl:Nothing.

    :returns: one step up each, stated or from definitions; pairs of equivalent classes; and classes that everything is
        an instance of, which are in none of these.
    """
    steps = [(row["class"], row["super"]) for row in rows_of(sources, "superclasses")]
    for row in rows_of_lists(sources, "class_parts", notes):
        step = (row["class"], row["part"])
        steps.append(step if row["side"] == "below" else (step[1], step[0]))
    same = [(row["class"], row["other"]) for row in rows_of(sources, "equivalent_classes")]
    above = edges_of([*steps, *same, *(pair[::-1] for pair in same)])
    wide = {iri for all_ in EVERYTHING for iri in chain(all_, above)}
    empty = {second for pair in same for first, second in (pair, pair[::-1]) if first == NOTHING}
    empty |= {below for below, upper in steps if upper == NOTHING}
    notes.add_all(sorted(empty), "classes are declared empty (owl:Nothing)")
    wide = wide.difference(EVERYTHING, (NOTHING,))
    notes.add_all(
        sorted(wide), "classes are said to be everything (owl:Thing): left out, as they would be right answers always"
    )
    unsaid = {*EVERYTHING, *wide, NOTHING}
    pairs = {min(pair, pair[::-1]): None for pair in same if unsaid.isdisjoint(pair) and pair[0] != pair[1]}
    equal = {*pairs, *(pair[::-1] for pair in pairs)}
    kept = [step for step in steps if step not in equal and unsaid.isdisjoint(step)]
    return list(dict.fromkeys(kept)), list(pairs), wide


Disjoint = Mapping[str, Collection[str]]
"""Of each class the names of the groups that it is in, no two classes of which have an instance in common."""


def disjoint_classes(sources: Sequence[Source], notes: Notes) -> Disjoint:
    """Return the groups of disjoint classes."""
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows_of_lists(sources, "disjoint_classes", notes):
        name = row.get("group") or f"{row['class']} {row['other']}"
        for iri in (row["class"], *([] if "group" in row else [row["other"]])):
            groups[iri].add(name)
    return groups


def disjoint_pair(classes: Iterable[str], edges: Edges, groups: Disjoint) -> tuple[str, str] | None:
    """Return two disjoint classes among some classes and those above them."""
    first: dict[str, str] = {}
    for iri in dict.fromkeys(above for class_ in classes for above in (class_, *chain(class_, edges))):
        for name in sorted(groups.get(iri, ())):
            if first.setdefault(name, iri) != iri:
                return first[name], iri
    return None


_WIKIDATA = "http://www.wikidata.org/entity/"


def align(
    declared: Collection[str], in_use: Sequence[str], sources: Sequence[Source], notes: Notes
) -> tuple[dict[str, str], dict[str, set[str]], list[Step]]:
    """Find properties that are one.

    :param declared: every property.
    :param in_use: those that are not deprecated, the first before those that it stands for.
    :returns: of each property the one that stands for it; of these, those that say the same the other way round; and
        pairs of these that are equivalent and yet two: one is deprecated, or both are Wikidata's.
    """
    stated = _equivalent(declared, in_use, sources, notes)
    home_of = {iri: iri for iri in declared} | stated  # statements pass through deprecated properties
    stated_rows = list(rows_of(sources, "inverses"))
    rows = [(row["property"], row["other"]) for row in stated_rows]
    notes.add_all(
        outside((iri for pair in rows for iri in pair), declared),
        "names in owl:inverseOf are left out, as nothing says that they are an owl:ObjectProperty or rdf:Property",
    )
    same, turned = _closed(
        (home_of[first], home_of[second]) for first, second in rows if first in home_of and second in home_of
    )
    home, apart = _merged(stated, in_use, same)
    _note_one(home, stated, notes)
    whole = home_of | home
    inverses = {whole[iri]: {whole[second] for second in others} for iri, others in turned.items()}
    symmetric = {whole.get(row["property"]) for row in stated_rows if row["stated"] == "symmetric"}
    notes.add_all(
        sorted(iri for iri, others in inverses.items() if iri in others and iri not in symmetric),
        "properties are their own inverse by what is stated (owl:inverseOf), so symmetric, though nothing says that "
        "they are an owl:SymmetricProperty",
    )
    return whole, inverses, list(dict.fromkeys((whole[first], whole[second]) for first, second in apart))


def wikidata_first(iri: str) -> tuple[bool, int, str]:
    """Return a sort key of properties: Wikidata's, which give the name, then short IRIs."""
    return not iri.startswith(_WIKIDATA), len(iri), iri


def vocabulary(iri: str) -> str:
    """Return the part of an IRI before the name, with its # or /."""
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]


def _closed(pairs: Iterable[Step]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """:returns: of each property what is an even number of inverses away (the same), and what an odd one (the same the
    other way round)."""
    next_to: dict[str, set[str]] = defaultdict(set)
    for first, second in pairs:
        next_to[first].add(second)
        next_to[second].add(first)
    even: dict[str, set[str]] = {}
    odd: dict[str, set[str]] = {}
    for start in next_to:
        reached = {(start, 0)}
        ahead = [(start, 0)]
        while ahead:
            node, turns = ahead.pop()
            new = {(neighbour, 1 - turns) for neighbour in next_to[node]} - reached
            reached |= new
            ahead += new
        even[start] = {node for node, turns in reached if not turns and node != start}
        odd[start] = {node for node, turns in reached if turns}
    return even, odd


def _merged(
    stated: Mapping[str, str], in_use: Sequence[str], same: Mapping[str, Collection[str]]
) -> tuple[dict[str, str], list[Step]]:
    """:param stated: of each the one that stands for it, by what is stated.
    :returns: the same, with what is the inverse of an inverse; and pairs that stay two.
    """
    stands = {iri: iri for iri in stated.values()}
    apart: dict[Step, None] = {}
    for iri in dict.fromkeys((*(iri for iri in in_use if iri in stands), *sorted(same))):
        for twin in sorted(same.get(iri, ())):
            if iri not in stands or twin not in stands or (twin.startswith(_WIKIDATA) and iri.startswith(_WIKIDATA)):
                apart[min(iri, twin), max(iri, twin)] = None
            elif stands[iri] == iri and stands[twin] == twin:
                stands[twin] = iri
    return {iri: stands[first] for iri, first in stated.items()}, list(apart)


def _note_one(home: Mapping[str, str], stated: Mapping[str, str], notes: Notes) -> None:
    same_vocabulary = [
        (iri, first) for iri, first in home.items() if iri != first and vocabulary(iri) == vocabulary(first)
    ]
    notes.add_all(
        [f"{name_of(iri)} ({name_of(first)})" for iri, first in same_vocabulary if stated[iri] == first],
        "properties are equivalent to another of their own vocabulary, and are one with it",
    )
    notes.add_all(
        [f"{name_of(iri)} ({name_of(first)})" for iri, first in home.items() if stated[iri] != first],
        "properties are the inverse of an inverse of another, so equivalent to it, and are one with it",
    )


def _equivalent(
    declared: Collection[str], properties: Sequence[str], sources: Sequence[Source], notes: Notes
) -> dict[str, str]:
    """Return, for each property, the one that stands for it: itself, or the equivalent that comes first."""
    place = {iri: number for number, iri in enumerate(properties)}
    home = {iri: iri for iri in properties}
    twice = []
    rows = [(row["property"], row["other"]) for row in rows_of(sources, "equivalent_properties")]
    notes.add_all(
        outside((iri for pair in rows for iri in pair), declared),
        "names in owl:equivalentProperty (P1628) are left out, as they are of no property between things here",
    )
    both = (pair for pair in rows if pair[0] in place and pair[1] in place and pair[0] != pair[1])
    pairs = {pair if place[pair[0]] < place[pair[1]] else pair[::-1] for pair in both}
    for first, second in sorted(pairs, key=lambda pair: (place[pair[0]], place[pair[1]])):
        early, late = sorted((_first(first, home), _first(second, home)), key=lambda iri: place[iri])
        if second.startswith(_WIKIDATA):
            twice.append(f"{name_of(first)} and {name_of(second)}")
        elif late == second or len({vocabulary(iri) for iri in (early, late, second)}) == 1:
            home[late] = early
        elif early != late:
            twice.append(f"{name_of(second)} ({name_of(_first(second, home))}, not {name_of(first)})")
    notes.add_all(twice, "properties are aligned with two properties, and stay with the first")
    return {iri: _first(iri, home) for iri in home}


def _first(iri: str, home: Mapping[str, str]) -> str:
    while home[iri] != iri:
        iri = home[iri]
    return iri


def axioms_of_properties(
    sources: Sequence[Source],
    home: Mapping[str, str],
    inverses: Mapping[str, Collection[str]],
    label_of: Mapping[str, str],
    notes: Notes,
) -> Axioms:
    """Return what is stated of properties that have a label, by label.

    :param home: of each property the one that stands for it.
    :param inverses: of these, those that say the same the other way round.
    """
    pairs = [(first, second) for first, others in inverses.items() for second in others]
    rows = [row["property"] for row in rows_of_lists(sources, "transitive", notes)]
    transitive = [home[iri] for iri in rows if iri in home]
    lacking = {iri for iri in (*(first for first, _ in pairs), *transitive) if iri not in label_of}
    notes.add_all(
        sorted(lacking | (set(rows) - home.keys())),
        "properties that are inverse, symmetric or transitive are left out of the axioms, as they have no label of "
        "their own, are deprecated or are of texts, numbers or dates",
    )
    named = [(label_of[first], label_of[second]) for first, second in pairs if first in label_of and second in label_of]
    return Axioms(
        inverse=sorted({min(pair, pair[::-1]) for pair in named if pair[0] != pair[1]}),
        symmetric=sorted({first for first, second in named if first == second}),
        transitive=sorted({label_of[iri] for iri in transitive if iri in label_of}),
        disjoint=[],
    )


def with_disjoint(axioms: Axioms, sources: Sequence[Source], classes: Sequence[OntologyClass], notes: Notes) -> Axioms:
    """Add pairs of disjoint classes, and groups of which any two are (servers without lists: noted before)."""
    label_of = {class_.iri: class_.label for class_ in classes}
    groups: dict[str, set[str]] = defaultdict(set)
    apart = disjoint_classes(sources, Notes())
    for iri in apart.keys() & label_of.keys():
        for name in apart[iri]:
            groups[name].add(label_of[iri])
    notes.add_all(
        outside(apart, label_of),
        "names in owl:disjointWith and the like are left out of the axioms, as they are of no class here or of one "
        "without a label of its own",
    )
    return axioms._replace(disjoint=sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1}))


Assertion = tuple[str, str, str]
"""Subject, property, and the value: an IRI, or a text after a quotation mark. Of servers one of the two ends is ""."""
ReadAssertions = Callable[[Collection[str], Set[str]], Iterable[Assertion]]
"""Reads what is asserted, given IRIs of things and properties."""
_PAGE = 200
"""Things in one query to a server."""


class _Definition(NamedTuple):
    """Conditions that make a thing an instance of a class.

    :param parts: classes that it is of.
    :param values: (property, value) that it has.
    :param open: properties that it has, in restrictions that are not evaluated; "" for other descriptions.
    """

    class_: str
    parts: frozenset[str]
    values: frozenset[tuple[str, str]]
    open: frozenset[str]

    def key(self) -> object:
        """Return one of its parts, values or sides of properties, by which it is found."""
        return min(self.parts, default=None) or min(self.values, default=None) or f"domain {max(self.open)}"

    def properties(self) -> set[str]:
        """Return the properties in it."""
        return {property_ for property_, _ in self.values} | self.open


class EntailedTypes:
    """The axioms of all sources that entail types. :param edges: from each class to those one step above."""

    def __init__(self, sources: Sequence[Source], edges: Edges, notes: Notes) -> None:
        steps: dict[str, list[str]] = defaultdict(list)
        for below, above in _property_steps(sources):
            steps[below].append(above)
        self._classes: dict[str, set[str]] = defaultdict(set)
        self._alternatives: dict[str, set[str]] = defaultdict(set)
        for row in (*rows_of(sources, "domains"), *rows_of_lists(sources, "domain_parts", Notes())):
            by_side = self._alternatives if "whole" in row else self._classes
            by_side[f"{row['side']} {row['property']}"].add(row["class"])
        for row in rows_of_lists(sources, "all_values", notes):
            self._alternatives[f"range {row['property']}"].add(row["class"])
        self._values: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for row in rows_of_lists(sources, "has_values", notes):
            self._values[row["class"]].add((row["property"], row["value"]))
        self._definitions: dict[object, list[_Definition]] = defaultdict(list)
        for definition in _definitions(sources, notes):
            self._definitions[definition.key()].append(definition)
        self._sides_of, self.with_above = (cache(partial(_with_above, edges=upward)) for upward in (steps, edges))
        in_definitions = (
            property_
            for definitions in self._definitions.values()
            for definition in definitions
            for property_ in definition.properties()
        )
        sides = (side.partition(" ")[2] for side in (*steps, *self._classes, *self._alternatives))
        self.properties = {*sides, *in_definitions}
        """Those of which a type may follow."""

    def of_all(
        self,
        stated: Mapping[str, Sequence[str]],
        called: Mapping[str, Collection[str]],
        assertions: Iterable[Assertion],
    ) -> dict[str, tuple[set[str], bool]]:
        """Return what :meth:`types` returns of each thing.

        :param stated: types by thing.
        :param called: for each IRI the things that have it (``owl:sameAs``).
        """
        asserted: dict[str, set[Assertion]] = defaultdict(set)
        for subject, property_, value in assertions:
            for side, end, far_end in (("domain", subject, value), ("range", value, subject)):
                for thing in called.get(end, ()):
                    asserted[thing].add((side, property_, far_end))
        found: dict[str, tuple[set[str], bool]] = {}
        ahead: Collection[str] = stated.keys()
        while ahead:
            found |= {thing: self.types(stated[thing], asserted[thing]) for thing in ahead}
            new = {
                (thing, ("range", property_, owner))
                for owner in ahead
                for property_, value in self.values_of(found[owner][0])
                for thing in called.get(value, ())
            }
            ahead = {thing for thing, assertion in new if assertion not in asserted[thing]}
            for thing, assertion in new:
                asserted[thing].add(assertion)
        return found

    def types(self, stated: Iterable[str], asserted: Iterable[Assertion]) -> tuple[set[str], bool]:
        """Return all types of a thing, and whether further ones may follow from what is not evaluated.

        :param asserted: what is asserted of it: its side, the property, and the other side.
        """
        types, facts = self._all_above(stated), set(asserted)
        while True:
            facts |= {("domain", *value) for value in self.values_of(types)}
            reached = [
                (above.split(" "), far_end) for side, p, far_end in facts for above in self._sides_of(f"{side} {p}")
            ]
            sides = {f"{side} {property_}" for (side, property_), _ in reached}
            values = {(property_, far_end) for (side, property_), far_end in reached if side == "domain"}
            definitions = (
                definition for key in (*types, *values, *sides) for definition in self._definitions.get(key, ())
            )
            fitting = [
                definition for definition in definitions if definition.parts <= types and definition.values <= values
            ]
            new = {class_ for side in sides for class_ in self._classes.get(side, ())}
            new |= {definition.class_ for definition in fitting if not definition.open}
            if new <= types:
                return types, self._may_be_more(types, sides, fitting)
            types |= self._all_above(new)

    def values_of(self, types: Iterable[str]) -> set[tuple[str, str]]:
        """Return the properties, with values, that all things of some classes have."""
        return {value for type_ in types for value in self._values.get(type_, ())}

    def _may_be_more(self, types: set[str], sides: set[str], fitting: Iterable[_Definition]) -> bool:
        alternatives = (self._alternatives[side] for side in sides if side in self._alternatives)
        return any(types.isdisjoint(classes) for classes in alternatives) or any(
            definition.class_ not in types
            and all(f"domain {property_}" in sides for property_ in definition.open if property_)
            for definition in fitting
        )

    def _all_above(self, classes: Iterable[str]) -> set[str]:
        return {above for class_ in classes for above in self.with_above(class_)}


def _with_above(start: str, edges: Edges) -> tuple[str, ...]:
    return start, *chain(start, edges)


def _property_steps(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Yield "domain p" and what follows of it: sub-properties, equivalent ones, and inverses the other way round."""
    steps = [(row["property"], row["super"]) for row in rows_of(sources, "superproperties")]
    same = [(row["property"], row["other"]) for row in rows_of(sources, "equivalent_properties")]
    for below, above in (*steps, *same, *(pair[::-1] for pair in same)):
        yield from ((f"{side} {below}", f"{side} {above}") for side in ("domain", "range"))
    for row in rows_of(sources, "inverses"):
        for first, second in ((row["property"], row["other"]), (row["other"], row["property"])):
            yield from ((f"domain {first}", f"range {second}"), (f"range {first}", f"domain {second}"))


def _definitions(sources: Sequence[Source], notes: Notes) -> list[_Definition]:
    wholes: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows_of_lists(sources, "definitions", notes):
        wholes[row["class"], row["whole"]].append(row)
    return [
        _Definition(
            class_,
            frozenset(row["part"] for row in rows if "part" in row),
            frozenset((row["property"], row["value"]) for row in rows if "value" in row),
            frozenset(row.get("property", "") for row in rows if "part" not in row and "value" not in row),
        )
        for (class_, _), rows in wholes.items()
    ]


def read_assertions(
    files: Sequence[Path],
    servers: Sequence[Source],
    there: Collection[str],
    notes: Notes,
    things: Collection[str],
    properties: Set[str],
) -> Iterator[Assertion]:
    """Yield what is asserted of things with some properties: files are read again, servers asked.

    :param there: all properties of the files.
    """
    for statements in () if properties.isdisjoint(there) else read_files(files, Faults(), unseen):
        for quad in statements:
            subject, value = (getattr(end, "value", "") for end in (quad.subject, quad.object))
            if quad.predicate.value in properties and (subject in things or value in things):
                yield subject, quad.predicate.value, value if str(quad.object)[:1] != '"' else f'"{value}'
    iris = sorted(things) if servers and properties else []
    for start in range(0, len(iris), _PAGE):
        places = " ".join(f"<{iri}>" for iri in iris[start : start + _PAGE])
        for row in rows_of_lists(servers, "assertions", notes, things=places):
            subject, value = (row["thing"], "") if row["side"] == "domain" else ("", row["thing"])
            yield subject, row["property"], value

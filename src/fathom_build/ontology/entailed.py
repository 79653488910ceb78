"""Types that follow from what is asserted of things: by domains and ranges (RDFS), and by ``owl:hasValue`` (OWL 2 RL).

Who keeps an inn is a keeper, though no ``rdf:type`` says so. Such types are right answers like those that are stated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from fathom.base.progress import unseen
from fathom.base.reading import Faults
from fathom.data.hierarchy import chain
from fathom_build.ontology.hierarchy import Edges
from fathom_build.ontology.sources import Row, Source, read_files, rows_of, rows_of_lists
from fathom_build.sheets import Notes

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
            known = self._alternatives if "whole" in row else self._classes
            known[f"{row['side']} {row['property']}"].add(row["class"])
        for row in rows_of_lists(sources, "all_values", notes):
            self._alternatives[f"range {row['property']}"].add(row["class"])
        self._values: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for row in rows_of_lists(sources, "has_values", notes):
            self._values[row["class"]].add((row["property"], row["value"]))
        self._definitions: dict[object, list[_Definition]] = defaultdict(list)
        for one in _definitions(sources, notes):
            self._definitions[one.key()].append(one)
        self._sides_of, self.with_above = (cache(partial(_closed, edges=given)) for given in (steps, edges))
        own = (property_ for all_ in self._definitions.values() for one in all_ for property_ in one.properties())
        sides = (side.partition(" ")[2] for side in (*steps, *self._classes, *self._alternatives))
        self.properties = {*sides, *own}
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
        given: dict[str, set[Assertion]] = defaultdict(set)
        for subject, property_, value in assertions:
            for side, end, other in (("domain", subject, value), ("range", value, subject)):
                for thing in called.get(end, ()):
                    given[thing].add((side, property_, other))
        found: dict[str, tuple[set[str], bool]] = {}
        ahead: Collection[str] = stated.keys()
        while ahead:
            found |= {thing: self.types(stated[thing], given[thing]) for thing in ahead}
            new = {
                (thing, ("range", property_, owner))
                for owner in ahead
                for property_, value in self.values_of(found[owner][0])
                for thing in called.get(value, ())
            }
            ahead = {thing for thing, assertion in new if assertion not in given[thing]}
            for thing, assertion in new:
                given[thing].add(assertion)
        return found

    def types(self, stated: Iterable[str], given: Iterable[Assertion]) -> tuple[set[str], bool]:
        """Return all types of a thing, and whether further ones may follow from what is not evaluated.

        :param given: what is asserted of it: its side, the property, and the other side.
        """
        types, given = self._all_above(stated), set(given)
        while True:
            given |= {("domain", *value) for value in self.values_of(types)}
            reached = [(above.split(" "), other) for side, p, other in given for above in self._sides_of(f"{side} {p}")]
            sides = {f"{side} {property_}" for (side, property_), _ in reached}
            values = {(property_, other) for (side, property_), other in reached if side == "domain"}
            known = (one for key in (*types, *values, *sides) for one in self._definitions.get(key, ()))
            fitting = [one for one in known if one.parts <= types and one.values <= values]
            new = {class_ for side in sides for class_ in self._classes.get(side, ())}
            new |= {one.class_ for one in fitting if not one.open}
            if new <= types:
                return types, self._may_be_more(types, sides, fitting)
            types |= self._all_above(new)

    def values_of(self, types: Iterable[str]) -> set[tuple[str, str]]:
        """Return the properties, with values, that all things of some classes have."""
        return {value for type_ in types for value in self._values.get(type_, ())}

    def _may_be_more(self, types: set[str], sides: set[str], fitting: Iterable[_Definition]) -> bool:
        alternatives = (self._alternatives[side] for side in sides if side in self._alternatives)
        return any(types.isdisjoint(classes) for classes in alternatives) or any(
            one.class_ not in types and all(f"domain {property_}" in sides for property_ in one.open if property_)
            for one in fitting
        )

    def _all_above(self, classes: Iterable[str]) -> set[str]:
        return {above for class_ in classes for above in self.with_above(class_)}


def _closed(start: str, edges: Edges) -> tuple[str, ...]:
    return start, *chain(start, edges)


def _property_steps(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Yield "domain p" and what follows of it: sub-properties, equivalent ones, and inverses the other way round."""
    steps = [(row["property"], row["super"]) for row in rows_of(sources, "superproperties")]
    same = [(row["property"], row["other"]) for row in rows_of(sources, "equivalent_properties")]
    for below, above in (*steps, *same, *(pair[::-1] for pair in same)):
        yield from ((f"{side} {below}", f"{side} {above}") for side in ("domain", "range"))
    for row in rows_of(sources, "inverses"):
        for one, other in ((row["property"], row["other"]), (row["other"], row["property"])):
            yield from ((f"domain {one}", f"range {other}"), (f"range {one}", f"domain {other}"))


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

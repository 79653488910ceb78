"""From answers to queries to classes and properties: labels, chains, samples, domains and ranges (section 2.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple
from urllib.parse import unquote

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
Edges = Mapping[str, Collection[str]]
"""From each node to those one step above."""


class Notes(list[str]):
    """What was left out or is odd, and why; lines that say the same of many are one."""

    def add_all(self, names: Sequence[str], what: str) -> None:
        """ "3 classes have no label: a, b, c"; nothing where there are none."""
        if names:
            more = ", …" if len(names) > _MANY else ""
            self.append(f"{len(names):,} {what}: {', '.join(names[:_MANY])}{more}")


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


def _pattern_of(label: str, iris: Iterable[str], given: Mapping[str, str]) -> str | None:
    """The sentence pattern of a property; None where none was given.

    :param given: by label, IRI or the end of an IRI (P54).
    """
    names = [label, *iris, *map(name_of, iris)]
    return next((given[name] for name in names if name in given), None)


def name_of(iri: str) -> str:
    """What stands behind the last # or /, as words: ``…/resource/Lionel_Messi`` → "Lionel Messi"."""
    return unquote(iri.rstrip("#/").rpartition("#" if "#" in iri.rstrip("#/") else "/")[2]).replace("_", " ")


def gather_classes(sources: Sequence[Source], instances: int, seed: int, notes: Notes, progress: Progress) -> Classes:
    """Classes with labels, their chains, and at most *instances* of each, drawn by *seed*."""
    said = [(source, row) for source in sources for row in source.rows(query_text("classes"))]
    holders: dict[str, dict[Source, None]] = defaultdict(dict)
    for source, row in said:
        holders[row["class"]][source] = None
    label_of = _good_labels(sorted(holders), _labels((row for _, row in said), "class"), "classes", notes)
    if not said:
        notes.append("no classes: expected things that are an owl:Class or rdfs:Class, with rdfs:label")
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
        notes.append(f"{nameless:,} instances have a label without letters or digits: left out")
    return Classes(found, label_of)


def gather_properties(
    sources: Sequence[Source], classes: Classes, patterns: Mapping[str, str], notes: Notes
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
    side_of, stated = _sides(sources, classes, home, label_of, notes)
    written = {label: _pattern_of(label, groups[iri], patterns) for iri, label in label_of.items()}
    pattern_of = {label: pattern or f"[X]'s {label} is [Y] ." for label, pattern in written.items()}
    found = []
    for iri, label in label_of.items():
        above = {name: pattern_of[name] for name in _labelled(chain(iri, edges), label_of)}
        domain, range_ = side_of.get((iri, "domain")), side_of.get((iri, "range"))
        if above or domain or range_:
            found.append(OntologyProperty(tuple(groups[iri]), label, domain, range_, above, pattern_of[label]))
    used = {name for entry in found for name in (entry.label, *entry.superproperties)}
    _note_lacking(found, [label for label in label_of.values() if label not in used], notes)
    notes.add_all(
        _outside((*stated, *(iri for step in steps for iri in step)), home),
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


def _sides(
    sources: Sequence[Source], classes: Classes, home: Mapping[str, str], properties: Collection[str], notes: Notes
) -> tuple[dict[tuple[str, str], str], set[str]]:
    """Domains and ranges: what RDF vocabularies state, else what Wikidata's constraints say.

    :returns: the one class that all instances on a side must be of, by property and side, where there is a single one;
        and whatever has an ``rdfs:domain`` or ``rdfs:range``.
    """
    known = _class_names(sources, classes)
    domains, constraints = list(rows_of(sources, "domains")), list(rows_of(sources, "constraints"))
    outside: dict[str, None] = {}
    stated = _listed(domains, {}, home, known, outside)
    constrained = _listed(constraints, _labels(constraints, "class"), home, known, outside)
    above = {found.label: set(found.superclasses) for found in classes.found}
    one: dict[tuple[str, str], str] = {}
    ambiguous: dict[str, None] = {}
    for property_, side in product(properties, ("domain", "range")):
        names = stated.get((property_, side)) or constrained.get((property_, side), {})
        widest = [name for name in names if all(other == name or name in above[other] for other in names)]
        if len(widest) == 1:
            one[property_, side] = widest[0]
        elif names:
            ambiguous[f"{name_of(property_)} ({side}: {', '.join(names)})"] = None
    if not stated and not constrained and properties:
        notes.append("no property has a domain or a range")
    notes.add_all(list(outside), "classes named as domain or range are not in the list of classes")
    notes.add_all(list(ambiguous), "domains or ranges name several classes, none above the others")
    return one, {row["property"] for row in domains}


def _listed(
    rows: Iterable[Row],
    labels: Mapping[str, _Label | None],
    home: Mapping[str, str],
    known: Mapping[str, str],
    outside: dict[str, None],
) -> dict[tuple[str, str], dict[str, None]]:
    """Cleansing: only classes of the list count, found by IRI, by what is equivalent, or by their label.

    :param outside: the others are added here.
    :returns: labels of classes by property and side.
    """
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row["property"] in home:
            label = labels.get(row["class"])
            name = known.get(row["class"]) or (known.get(clean(label.text).lower()) if label else None)
            if name is None:
                outside[label.text if label else row["class"]] = None
            else:
                found[home[row["property"]], row["side"]][name] = None
    return found


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
        before = best.setdefault(row[variable], None)
        if "label" in row:
            language = row.get("language", "")
            label = _Label(0 if language == "en" else 1 if language else 2, _one_line(row["label"]))
            best[row[variable]] = label if before is None else min(before, label)
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
    alone = dict.fromkeys(label_of.get(below, below) for below, above in steps if below == above)
    notes.add_all(list(alone), f"{kind} are said to be above themselves: that step is left out")
    for cycle in cycles(edges):
        names = [label_of.get(iri, iri) for iri in (*cycle, cycle[0])]
        notes.append(f"a cycle in the hierarchy of {kind}: {' → '.join(names)}; chains end where it comes back")
    return edges


def _one_line(text: str) -> str:
    return " ".join(text.split())


def unknown_patterns(patterns: Iterable[str], properties: Iterable[OntologyProperty]) -> list[str]:
    """Names in the file of patterns that no property has."""
    known = {
        name
        for entry in properties
        for name in (entry.label, *entry.superproperties, *entry.iris, *map(name_of, entry.iris))
    }
    return [name for name in patterns if name not in known]


def edges_of(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """One step up by node; steps from a node to itself are left out."""
    edges: dict[str, list[str]] = {}
    for below, above in pairs:
        if below != above and above not in edges.setdefault(below, []):
            edges[below].append(above)
    return edges


def chain(start: str, edges: Edges) -> list[str]:
    """Everything above *start*, nearest first, each once; where a cycle comes back to *start*, it ends."""
    found = {start: None}
    level = [start]
    while level:
        above = dict.fromkeys(upper for node in level for upper in edges.get(node, ()) if upper not in found)
        found |= above
        level = list(above)
    return [node for node in found if node != start]


def cycles(edges: Edges) -> list[list[str]]:
    """Paths that come back to their first node; at least one for every group of nodes that are above each other.

    An iterative depth-first search: hierarchies may be deeper than Python's stack.
    """
    found: list[list[str]] = []
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
                found.append(path[place[upper] :])
            elif upper not in done:
                place[upper] = len(path)
                path.append(upper)
                waiting.append(iter(edges.get(upper, ())))
    return found

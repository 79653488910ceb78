"""Hierarchies as edges from each node to those one step above, and what follows from the definitions of classes.

The tasks need three rules of OWL 2 RL. A class is below and above its equivalents (scm-eqc1). It is below each part of
an equal intersection (scm-int), and above each part of an equal union (scm-uni).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fathom.data.hierarchy import chain
from fathom_build.notes import Notes
from fathom_build.ontology.sources import Source, rows_of, rows_of_lists

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
    for one, other in same:
        edges.setdefault(one, []).append(other)
        edges.setdefault(other, []).append(one)
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


class ClassSteps(NamedTuple):
    """:param steps: one step up each, stated or from definitions.
    :param same: pairs of classes that are equivalent.
    :param wide: classes that everything is an instance of: in none of the steps and pairs.
    """

    steps: list[Step]
    same: list[Step]
    wide: set[str]


def class_steps(sources: Sequence[Source], notes: Notes) -> ClassSteps:
    """Return the hierarchy of classes, step by step, without owl:Thing and owl:Nothing."""
    steps = [(row["class"], row["super"]) for row in rows_of(sources, "superclasses")]
    for row in rows_of_lists(sources, "class_parts", notes):
        step = (row["class"], row["part"])
        steps.append(step if row["side"] == "below" else (step[1], step[0]))
    same = [(row["class"], row["other"]) for row in rows_of(sources, "equivalent_classes")]
    above = edges_of([*steps, *same, *(pair[::-1] for pair in same)])
    wide = {iri for all_ in EVERYTHING for iri in chain(all_, above)}
    empty = {other for pair in same for one, other in (pair, pair[::-1]) if one == NOTHING}
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
    return ClassSteps(list(dict.fromkeys(kept)), list(pairs), wide)


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

"""Hierarchies as edges from each node to those one step above: chains, cycles, and what makes two nodes one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fathom.building.notes import Notes

Edges = Mapping[str, Collection[str]]
"""From each node to those one step above."""
Step = tuple[str, str]
"""(below, above)"""


def checked_edges(
    steps: Sequence[Step], label_of: Mapping[str, str], kind: str, notes: Notes, same: Collection[Step] = ()
) -> dict[str, list[str]]:
    """The hierarchy, and notes on what is odd in it.

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
    """One step up by node; steps from a node to itself are left out."""
    edges: dict[str, dict[str, None]] = {}
    for below, above in pairs:
        if below != above:
            edges.setdefault(below, {})[above] = None
    return {node: list(above) for node, above in edges.items()}


def one_for_each(same: Iterable[Step]) -> dict[str, str]:
    """Of nodes that are equivalent, in however many steps, the one that stands for them all: the first by name."""
    edges: dict[str, list[str]] = {}
    for one, other in same:
        edges.setdefault(one, []).append(other)
        edges.setdefault(other, []).append(one)
    home: dict[str, str] = {}
    for node in sorted(edges):
        if node not in home:
            home |= dict.fromkeys([node, *chain(node, edges)], node)
    return home


def chain(start: str, edges: Edges) -> list[str]:
    """Everything above *start*, nearest first, each once; where a cycle comes back to *start*, it ends."""
    ancestors = {start: None}
    level = [start]
    while level:
        above = dict.fromkeys(upper for node in level for upper in edges.get(node, ()) if upper not in ancestors)
        ancestors |= above
        level = list(above)
    return [node for node in ancestors if node != start]


def cycles(edges: Edges) -> list[list[str]]:
    """Paths that come back to their first node; at least one for every group of nodes that are above each other.

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

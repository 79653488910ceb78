"""Chains of super-classes and super-properties, and the cycles that should not be there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

Edges = Mapping[str, Collection[str]]
"""From each node to those one step above."""


def edges_of(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """One step up by node; steps from a node to itself are left out (:func:`loops`)."""
    edges: dict[str, list[str]] = {}
    for below, above in pairs:
        if below != above and above not in edges.setdefault(below, []):
            edges[below].append(above)
    return edges


def loops(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Nodes that are said to be above themselves, which says nothing of them."""
    return list(dict.fromkeys(below for below, above in pairs if below == above))


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

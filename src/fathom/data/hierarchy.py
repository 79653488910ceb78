"""Distances in a hierarchy of classes or properties, and how far a wrong answer is from the right one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Above = Mapping[str, Collection[str]]
"""All superordinates of each name."""


def distances(gold: Sequence[str], above: Above) -> tuple[int, ...]:
    """Return how many steps each right answer is away, by the longest way; 1 for the finest.

    Names above each other are equally far.
    """
    below = {name: [other for other in gold if _is_above(name, other, above)] for name in gold}
    steps: dict[str, int] = {}
    for name in sorted(gold, key=lambda name: len(below[name])):
        steps[name] = 1 + max((steps.get(other, 0) for other in below[name]), default=0)
    return tuple(steps[name] for name in gold)


def finest(gold: Sequence[str], above: Above) -> list[str]:
    """Return the right answers that no other one is below."""
    return [name for name, distance in zip(gold, distances(gold, above), strict=True) if distance == 1]


def _is_above(name: str, other: str, above: Above) -> bool:
    return name in above.get(other, ()) and other not in above.get(name, ())

"""Distances in a hierarchy of classes or properties, and how far a wrong answer is from the right one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Above = Mapping[str, Collection[str]]
"""All superordinates of each name."""


def chain(start: str, above: Above) -> list[str]:
    """Return everything above *start*, nearest first, each once; a cycle back to *start* ends it."""
    ancestors = {start: None}
    level = [start]
    while level:
        upper = dict.fromkeys(parent for name in level for parent in above.get(name, ()) if parent not in ancestors)
        ancestors |= upper
        level = list(upper)
    return [name for name in ancestors if name != start]


def distances(gold: Sequence[str], above: Above) -> tuple[int, ...]:
    """Return how many steps each right answer is away, by the longest way; 1 for the finest.

    Names above each other are equally far.
    """

    def is_above(upper: str, lower: str) -> bool:
        return upper in above.get(lower, ()) and lower not in above.get(upper, ())

    below = {name: [lower for lower in gold if is_above(name, lower)] for name in gold}
    steps = dict.fromkeys(gold, 1)
    for _ in gold:
        steps = {name: 1 + max((steps[lower] for lower in below[name]), default=0) for name in gold}
    return tuple(steps[name] for name in gold)


def finest(gold: Sequence[str], above: Above) -> list[str]:
    """Return the right answers that no other one is below."""
    return [name for name, distance in zip(gold, distances(gold, above), strict=True) if distance == 1]


RIGHT, TOO_GENERAL, TOO_SPECIFIC, SIBLING, COUSIN, OTHER = KINDS = (
    "right", "too general", "too specific", "sibling", "cousin", "other"
)  # fmt: skip


def kind_of_answer(answer: str, gold: Sequence[str], steps: Sequence[int], above: Above) -> str:
    """Return which of :data:`KINDS` an answer is.

    A sibling has a class directly above it that is directly above a finest right answer, a cousin one that is two steps
    above. A too specific answer is below a finest right answer.
    """
    if answer in gold:
        return RIGHT if steps[gold.index(answer)] == 1 else TOO_GENERAL
    right = [name for name, distance in zip(gold, steps, strict=True) if distance == 1]
    over = set(above.get(answer, ()))
    if over.intersection(right):
        return TOO_SPECIFIC
    parents = {parent for name in right for parent in _directly_above(name, above)}
    if parents.intersection(_directly_above(answer, above)):
        return SIBLING
    return COUSIN if over & {two for parent in parents for two in _directly_above(parent, above)} else OTHER


def _directly_above(name: str, above: Above) -> list[str]:
    return finest(list(above.get(name, ())), above)

"""Notes on lists of entities: names of several, that differ in letter case alone, or stand within longer ones."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.building.cloze.entities import ListedEntity, as_written
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.sentences import NameFinder
from fathom.building.cloze.typography import fold, plain


def confusable(finder: NameFinder, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> list[str]:
    """A line of each kind that there is, with how many names it is about and the first of them."""
    return [*_shared(finder, entities, options), *_differing_in_case(entities, options), *_parts(finder, entities)]


def _shared(finder: NameFinder, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> list[str]:
    if not finder.ambiguous:
        return []
    name, whose = next(iter(finder.ambiguous.items()))
    of = ", ".join(f"{entities[number].name} ({entities[number].type})" for number in whose)
    rule = "sentences that name them are left out" if options.ambiguous == "drop" else "the first listed is meant"
    return [f"{len(finder.ambiguous):,} names are of several entities, as {name!r} is of {of}: {rule}"]


def _differing_in_case(entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> list[str]:
    """Of different entities, and both found only as written: others are one name."""
    first: dict[str, tuple[int, str]] = {}
    pairs = []
    for number, entity in enumerate(entities):
        for name in map(plain, entity.names):
            if as_written(name, options):
                whose, other = first.setdefault(fold(name), (number, name))
                if whose != number and other != name:
                    pairs.append((other, name))
    if not pairs:
        return []
    other, name = pairs[0]
    return [
        f"{len(pairs):,} names differ from another entity's in letter case alone, as {name!r} from {other!r}: "
        "each counts only as written"
    ]


def _parts(finder: NameFinder, entities: Sequence[ListedEntity]) -> list[str]:
    pairs = [
        (part, name)
        for number, entity in enumerate(entities)
        for name in entity.names
        if (part := finder.part_of(name, number))
    ]
    if not pairs:
        return []
    part, name = pairs[0]
    return [
        f"{len(pairs):,} names hold a shorter one of another entity, as {name!r} holds {part!r}: where the longer "
        "stands, the shorter does not count"
    ]

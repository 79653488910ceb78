"""Search for names of listed entities in texts.

A name is found at word boundaries: no letter, digit or underscore next to a name that begins or ends with one. Of
overlapping names the leftmost counts, and of those that begin together the longest: "glucose" is not found in "glucose
oxidase" if both are listed. Letter case: see :func:`~fathom.building.cloze.entities.as_written`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fathom.building.cloze.entities import ListedEntity, as_written, spellings
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.typography import fold, plain, plain_with_places
from fathom.errors import optional

AMBIGUOUS = -1


class Mention(NamedTuple):
    """Characters [start, end) of a text, and the number of the entity, or :data:`AMBIGUOUS`."""

    start: int
    end: int
    entity: int


class NameFinder:
    """:param entities: numbered by their order. ``ambiguous`` maps names of several entities to their numbers."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> None:
        self._entities, self._drop = entities, options.ambiguous == "drop"
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        for number, entity in enumerate(entities):
            for name in entity.names:
                if sum(map(str.isalnum, name)) < options.min_letters:
                    continue
                for text in spellings(plain(name), options):
                    into, key = (exact, text) if as_written(name, options) else (folded, fold(text))
                    if number not in into.setdefault(key, []):
                        into[key].append(number)
        for name, bearers in exact.items():  # a name that counts in any case may be written like this one
            bearers += [number for number in folded.get(fold(name), ()) if number not in bearers]
            bearers.sort()
        self.ambiguous = {name: which for names in (exact, folded) for name, which in names.items() if len(which) > 1}
        self._exact, self._folded = _Automaton(exact, 0, self._drop), _Automaton(folded, 1, self._drop)

    def find(self, text: str) -> list[Mention]:
        """Find names in their order, none overlapping another."""
        seen = plain_with_places(text)
        mentions: list[Mention] = []
        last = 0
        for start, negative_end, _, entity in sorted(self._hits(seen.text)):
            if start >= last:
                last = -negative_end
                mentions.append(Mention(*seen.span(start, last), entity))
        return mentions

    def notes(self) -> list[str]:
        """Report how many names are of several entities, and the first of them."""
        if not self.ambiguous:
            return []
        name, bearers = next(iter(self.ambiguous.items()))
        listed = ", ".join(f"{self._entities[number].name} ({self._entities[number].type})" for number in bearers)
        rule = "sentences that name them are dropped" if self._drop else "the first listed counts"
        return [f"{len(self.ambiguous):,} names are of several entities, as {name!r} is of {listed}: {rule}"]

    def _hits(self, text: str) -> list[tuple[int, int, int, int]]:
        return self._exact.hits(text, text) + self._folded.hits(fold(text), text)


class _Automaton:
    """:param rank: orders hits of equal length, the lowest first."""

    def __init__(self, names: dict[str, list[int]], rank: int, drop: bool) -> None:
        library = optional("ahocorasick_rs", "text")
        self._rank = rank
        self._patterns = [
            (AMBIGUOUS if drop and len(which) > 1 else which[0], _joins(name[0]), _joins(name[-1]))
            for name, which in names.items()
        ]
        # All occurrences are needed: the longest may lie in the middle of a word and hide one that does not.
        self._search = library.AhoCorasick(list(names), matchkind=library.MatchKind.Standard, store_patterns=False)

    def hits(self, text: str, original: str) -> list[tuple[int, int, int, int]]:
        """Return (start, −end, rank, entity), in no order. :param original: *text* with its case."""
        hits = []
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            entity, begins, ends = self._patterns[number]
            joined_before = begins and start and _joins(original[start - 1])
            if not joined_before and not (ends and end < len(original) and _joins(original[end])):
                hits.append((start, -end, self._rank, entity))
        return hits


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"

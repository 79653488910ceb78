"""Search for names of listed entities in texts, and notes on names that are easily confused.

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
    """Characters [start, end) of a text.

    :param entity: its number, or :data:`AMBIGUOUS`.
    """

    start: int
    end: int
    entity: int


class NameFinder:
    """:param entities: numbered by their order. ``ambiguous`` maps names of several entities to their numbers."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> None:
        self._entities, self._options = entities, options
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        for number, entity in enumerate(entities):
            for name in entity.names:
                for text in spellings(plain(name), options):
                    into, key = (exact, text) if as_written(name, options) else (folded, fold(text))
                    if number not in into.setdefault(key, []):
                        into[key].append(number)
        for name, bearers in exact.items():  # a name that counts in any case may be written like this one
            bearers += [number for number in folded.get(fold(name), ()) if number not in bearers]
            bearers.sort()
        self.ambiguous = {name: which for names in (exact, folded) for name, which in names.items() if len(which) > 1}
        first = options.ambiguous == "first"
        self._exact = _Automaton(exact, 0, first)
        self._folded = _Automaton(folded, 1, first)

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
        """Report names of several entities, names that differ in case alone, and names within longer ones.

        :returns: a line for each kind, with the number of such names and the first of them.
        """
        notes = []
        if self.ambiguous:
            name, bearers = next(iter(self.ambiguous.items()))
            listed = ", ".join(f"{self._entities[number].name} ({self._entities[number].type})" for number in bearers)
            drop = self._options.ambiguous == "drop"
            rule = "sentences that name them are dropped" if drop else "the first listed counts"
            notes.append(f"{len(self.ambiguous):,} names are of several entities, as {name!r} is of {listed}: {rule}")
        if pairs := self._differing_in_case():
            notes.append(
                f"{len(pairs):,} names differ from another entity's in letter case alone, as {pairs[0][1]!r} from "
                f"{pairs[0][0]!r}: each counts only as written"
            )
        names = ((number, name) for number, entity in enumerate(self._entities) for name in entity.names)
        parts = [(part, name) for number, name in names if (part := self._part(name, number))]
        if parts:
            notes.append(
                f"{len(parts):,} names contain a shorter one of another entity, as {parts[0][1]!r} contains "
                f"{parts[0][0]!r}: within the longer one the shorter does not count"
            )
        return notes

    def _differing_in_case(self) -> list[tuple[str, str]]:
        """Find such names of different entities that count only as written; others are one name."""
        first: dict[str, tuple[int, str]] = {}
        pairs = []
        for number, entity in enumerate(self._entities):
            for name in map(plain, entity.names):
                if as_written(name, self._options):
                    bearer, other = first.setdefault(fold(name), (number, name))
                    if bearer != number and other != name:
                        pairs.append((other, name))
        return pairs

    def _part(self, name: str, bearer: int) -> str:
        """Return the first shorter name within *name* of another entity than *bearer*, "" for none."""
        text = plain(name)
        if all(map(_joins, text)):  # one word
            return ""
        for start, negative_end, _, entity in sorted(self._hits(text)):
            if entity not in (bearer, AMBIGUOUS) and -negative_end - start < len(text):
                return text[start:-negative_end]
        return ""

    def _hits(self, text: str) -> list[tuple[int, int, int, int]]:
        return self._exact.hits(text, text) + self._folded.hits(fold(text), text)


class _Automaton:
    """:param rank: orders hits of equal length, the lowest first."""

    def __init__(self, names: dict[str, list[int]], rank: int, first: bool) -> None:
        library = optional("ahocorasick_rs", "text")
        self._rank = rank
        self._patterns = [
            (which[0] if first or len(which) == 1 else AMBIGUOUS, _joins(name[0]), _joins(name[-1]))
            for name, which in names.items()
        ]
        # All occurrences are needed: the longest may lie in the middle of a word and hide one that does not.
        self._search = library.AhoCorasick(list(names), matchkind=library.MatchKind.Standard, store_patterns=False)

    def hits(self, text: str, original: str) -> list[tuple[int, int, int, int]]:
        """Return (start, −end, rank, entity), in no order.

        :param original: *text* with its case.
        """
        hits = []
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            entity, begins, ends = self._patterns[number]
            joined_before = begins and start and _joins(original[start - 1])
            if not joined_before and not (ends and end < len(original) and _joins(original[end])):
                hits.append((start, -end, self._rank, entity))
        return hits


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"

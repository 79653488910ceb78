"""Where the names of many entities stand in a text.

A name is found at word boundaries (no letter, digit or underscore on either side of a name that begins or ends with
one). Of names that overlap the leftmost counts, and of those that begin together the longest: "glucose" is not found in
"glucose oxidase" where both are listed. Letter case: see :func:`~fathom.building.cloze.names.as_written`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fathom.building.cloze.entities import Entity
from fathom.building.cloze.names import as_written, fold, spellings
from fathom.building.cloze.options import ClozeOptions
from fathom.errors import MissingExtra

AMBIGUOUS = -1


class Mention(NamedTuple):
    """Characters [start, end) of a text.

    :param entity: its number, or :data:`AMBIGUOUS`.
    """

    start: int
    end: int
    entity: int


class _Pattern(NamedTuple):
    """:param begins: whether it begins with a letter, digit or underscore; *ends* likewise.
    :param rank: what it wins by where another is as long.
    """

    text: str
    entity: int
    begins: bool
    ends: bool
    rank: int


class Matcher:
    """:param entities: numbered by their order. ``ambiguous`` has each name of several entities with their numbers."""

    def __init__(self, entities: Sequence[Entity], options: ClozeOptions) -> None:
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        for number, entity in enumerate(entities):
            for name in entity.names:
                for text in spellings(name, options):
                    into, key = (exact, text) if as_written(name, options) else (folded, fold(text))
                    if number not in into.setdefault(key, []):
                        into[key].append(number)
        for name, whose in exact.items():  # as it is written here it may also be a name that counts in any case
            whose += [number for number in folded.get(fold(name), ()) if number not in whose]
            whose.sort()
        self.ambiguous = {name: whose for found in (exact, folded) for name, whose in found.items() if len(whose) > 1}
        first = options.ambiguous == "first"
        self._exact = _Automaton(exact, 0, first)
        self._folded = _Automaton(folded, 1, first)

    def find(self, text: str) -> list[Mention]:
        """Names in their order, none overlapping another."""
        hits = self._exact.hits(text, text) + self._folded.hits(fold(text), text)
        hits.sort()
        found: list[Mention] = []
        last = 0
        for start, negative_end, _, entity in hits:
            if start >= last:
                last = -negative_end
                found.append(Mention(start, last, entity))
        return found


class _Automaton:
    def __init__(self, names: dict[str, list[int]], rank: int, first: bool) -> None:
        try:
            from ahocorasick_rs import AhoCorasick, MatchKind
        except ImportError as error:
            raise MissingExtra("ahocorasick_rs", "text") from error
        self._patterns = [
            _Pattern(name, whose[0] if first or len(whose) == 1 else AMBIGUOUS, _joins(name[0]), _joins(name[-1]), rank)
            for name, whose in names.items()
        ]
        # Every occurrence is wanted: the longest one may stand in the middle of a word and hide one that does not.
        self._search = AhoCorasick(list(names), matchkind=MatchKind.Standard, store_patterns=False)

    def hits(self, text: str, original: str) -> list[tuple[int, int, int, int]]:
        """(start, −end, rank, entity), sorted as they win.

        :param original: *text* before its case was folded.
        """
        found = []
        length = len(original)
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            _, entity, begins, ends, rank = self._patterns[number]
            if begins and start and _joins(original[start - 1]):
                continue
            if ends and end < length and _joins(original[end]):
                continue
            found.append((start, -end, rank, entity))
        return found


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"

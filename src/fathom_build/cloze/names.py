"""Search for names of listed entities in texts.

A name is found at word boundaries: no letter, digit or underscore next to a name that begins or ends with one. Of
overlapping names the leftmost counts, and of those that begin together the longest: "glucose" is not found in "glucose
oxidase" if both are listed. Letter case: see :func:`~fathom_build.cloze.entities.as_written`.

A name listed with a capital is a proper name and is not found in small letters: "Turkey" is not in "roast turkey".
There are two exceptions. The entity may also be listed in small letters, or the list may begin all names with a capital
by style ("Acetylsalicylic acid"). Proper names that occur more often in small letters are ordinary words of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fathom.base.errors import optional
from fathom_build.cloze.entities import ListedEntity, as_written, spellings
from fathom_build.cloze.typography import fold, plain, plain_with_places
from fathom_build.options import ClozeBuildOptions

AMBIGUOUS = -1
_NEARLY_ALL = 0.95


class Mention(NamedTuple):
    """Characters [start, end) of a text, and the number of the entity, or :data:`AMBIGUOUS`."""

    start: int
    end: int
    entity: int


class NameFinder:
    """:param entities: numbered by their order. ``ambiguous`` maps names of several entities to their numbers."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> None:
        self._entities = entities
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        proper: dict[str, list[int]] = {}
        for number, name, is_proper in _mark_proper_names(entities, options):
            for text in spellings(plain(name), options):
                into, key = (exact, text) if is_proper or as_written(name, options) else (folded, fold(text))
                if number not in into.setdefault(key, []):
                    into[key].append(number)
            if is_proper and not as_written(name, options):
                proper.setdefault(fold(plain(name)), []).append(number)
        for name, bearers in exact.items():  # a name that counts in any case may be written like this one
            bearers += [number for number in folded.get(fold(name), ()) if number not in bearers]
            bearers.sort()
        self.ambiguous = {name: which for names in (exact, folded) for name, which in names.items() if len(which) > 1}
        self._exact, self._folded = _Automaton(exact, 0), _Automaton(folded, 1)
        self._words = {name: numbers for name, numbers in proper.items() if name not in exact and name not in folded}
        self._in_small_letters = _Automaton({name: [number] for number, name in enumerate(self._words)}, 0)
        self._as_names: Counter[int] = Counter()
        self._as_words: Counter[int] = Counter()

    def find(self, text: str) -> list[Mention]:
        """Find names in their order, none overlapping another."""
        seen = plain_with_places(text)
        mentions: list[Mention] = []
        last = 0
        for start, negative_end, _, entity in sorted(self._hits(seen.text)):
            if start >= last:
                last = -negative_end
                mentions.append(Mention(*seen.span(start, last), entity))
        self._as_names.update(mention.entity for mention in mentions)
        self._as_words.update(hit[3] for hit in self._in_small_letters.hits(seen.text, seen.text))
        return mentions

    def find_ordinary(self) -> set[int]:
        """Return entities whose names were more often ordinary words than names in the texts searched so far."""
        words: Counter[int] = Counter()
        for word, numbers in enumerate(self._words.values()):
            words.update(dict.fromkeys(numbers, self._as_words[word]))
        return {number for number, count in words.items() if count > self._as_names[number]}

    def notes(self) -> list[str]:
        """Report how many names are of several entities and how many are proper names, and the first of each."""
        notes = []
        if self.ambiguous:
            name, bearers = next(iter(self.ambiguous.items()))
            listed = ", ".join(f"{self._entities[number].name} ({self._entities[number].type})" for number in bearers)
            many = f"{len(self.ambiguous):,} names are of several entities, as {name!r} is of {listed}"
            notes.append(f"{many}: sentences that name them are dropped")
        if self._words:
            name = self._entities[next(iter(self._words.values()))[0]].name
            many = f"{len(self._words):,} names are listed with a capital, such as {name!r}"
            notes.append(f"{many}: they are not found in small letters; --case ignore finds them so, too")
        return notes

    def _hits(self, text: str) -> list[tuple[int, int, int, int]]:
        return self._exact.hits(text, text) + self._folded.hits(fold(text), text)


class _Automaton:
    """:param rank: orders hits of equal length, the lowest first."""

    def __init__(self, names: dict[str, list[int]], rank: int) -> None:
        library = optional("ahocorasick_rs", "text")
        self._rank = rank
        self._patterns = [
            (AMBIGUOUS if len(which) > 1 else which[0], _joins(name[0]), _joins(name[-1]))
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


def _mark_proper_names(entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> Iterator[tuple[int, str, bool]]:
    """Yield the entity of each name that is long enough, the name, and whether it is a proper name."""
    capital_by_style = _find_types_capitalised_by_style(entities)
    for number, entity in enumerate(entities):
        may_be_proper = options.case == "smart" and entity.type not in capital_by_style
        in_small_letters = {name for name in entity.names if not name[0].isupper()}
        for name in entity.names:
            if sum(map(str.isalnum, name)) >= options.min_letters:
                proper = may_be_proper and name[0].isupper() and fold(name) not in in_small_letters
                yield number, name, proper


def _find_types_capitalised_by_style(entities: Sequence[ListedEntity]) -> set[str]:
    """Return types that begin nearly all names with a capital but few of their later words."""
    first: dict[str, list[bool]] = {}
    later: dict[str, list[bool]] = {}
    for entity in entities:
        for name in entity.names:
            capitals = [word[0].isupper() for word in name.split() if word[0].isalpha() and len(word) > 3]
            first.setdefault(entity.type, []).extend(capitals[:1])
            later.setdefault(entity.type, []).extend(capitals[1:])
    return {
        type_
        for type_, capitals in first.items()
        if sum(capitals) >= _NEARLY_ALL * len(capitals) and later[type_] and 2 * sum(later[type_]) < len(later[type_])
    }


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"

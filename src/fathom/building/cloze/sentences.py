"""From a paragraph to sentences that name one entity once, with the name masked; why the others are left out.

A name is found at word boundaries (no letter, digit or underscore on either side of a name that begins or ends with
one). Of names that overlap the leftmost counts, and of those that begin together the longest: "glucose" is not found in
"glucose oxidase" where both are listed. Letter case: see :func:`~fathom.building.cloze.entities.as_written`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fathom.building.cloze.boilerplate import BOILERPLATE, boilerplate
from fathom.building.cloze.entities import ListedEntity, as_written, spellings
from fathom.building.cloze.leaks import LEAKS, Leaks
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.typography import fold, plain, plain_with_places
from fathom.data.templates import ANSWER, SUBJECT
from fathom.errors import MissingExtra

NO_NAME = "no entity named"
SEVERAL = "several names, or one several times"
SHARED = "the name is of several entities"
HYPHENATED = "the name is part of a hyphenated word"
LENGTH = "too short or too long"
PLACES = f"holds {SUBJECT} or {ANSWER}"
BLOCKED = "holds a blocked sub-string"
KEPT = "kept"
_DASHES = "-‐‑–"
AMBIGUOUS = -1


class Mention(NamedTuple):
    """Characters [start, end) of a text.

    :param entity: its number, or :data:`AMBIGUOUS`.
    """

    start: int
    end: int
    entity: int


class _Pattern(NamedTuple):
    """:param begins: whether it begins with a letter, digit or underscore; *ends* likewise."""

    entity: int
    begins: bool
    ends: bool


class NameFinder:
    """:param entities: numbered by their order. ``ambiguous`` has each name of several entities with their numbers."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> None:
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        for number, entity in enumerate(entities):
            for name in entity.names:
                for text in spellings(plain(name), options):
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
        seen = plain_with_places(text)
        found: list[Mention] = []
        last = 0
        for start, negative_end, _, entity in sorted(self._hits(seen.text)):
            if start >= last:
                last = -negative_end
                found.append(Mention(*seen.span(start, last), entity))
        return found

    def part_of(self, name: str, whose: int) -> str:
        """The first shorter name of another entity than *whose* in a name, "" for none."""
        text = plain(name)
        if all(map(_joins, text)):  # one word
            return ""
        for start, negative_end, _, entity in sorted(self._hits(text)):
            if entity not in (whose, AMBIGUOUS) and -negative_end - start < len(text):
                return text[start:-negative_end]
        return ""

    def _hits(self, text: str) -> list[tuple[int, int, int, int]]:
        return self._exact.hits(text, text) + self._folded.hits(fold(text), text)


class _Automaton:
    """:param rank: what its names win by where another is as long."""

    def __init__(self, names: dict[str, list[int]], rank: int, first: bool) -> None:
        try:
            from ahocorasick_rs import AhoCorasick, MatchKind
        except ImportError as error:
            raise MissingExtra("ahocorasick_rs", "text") from error
        self._rank = rank
        self._patterns = [
            _Pattern(whose[0] if first or len(whose) == 1 else AMBIGUOUS, _joins(name[0]), _joins(name[-1]))
            for name, whose in names.items()
        ]
        # Every occurrence is wanted: the longest one may stand in the middle of a word and hide one that does not.
        self._search = AhoCorasick(list(names), matchkind=MatchKind.Standard, store_patterns=False)

    def hits(self, text: str, original: str) -> list[tuple[int, int, int, int]]:
        """(start, −end, rank, entity), sorted as they win.

        :param original: *text* before its case was folded.
        """
        found = []
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            entity, begins, ends = self._patterns[number]
            joined_before = begins and start and _joins(original[start - 1])
            if not joined_before and not (ends and end < len(original) and _joins(original[end])):
                found.append((start, -end, self._rank, entity))
        return found


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


class FoundSentence(NamedTuple):
    """:param offset: characters of the paragraph before it.
    :param outcome: :data:`KEPT`, or why it is left out.
    :param masked: with the name masked; "" where it names several or none.
    :param entity: number of the one entity it names, None where it names several or none.
    """

    offset: int
    text: str
    outcome: str
    entity: int | None = None
    masked: str = ""
    surface: str = ""


class Selector:
    """:param blocked: sub-strings whose sentences are left out."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions, blocked: Sequence[str]) -> None:
        try:
            from sentencex import get_sentence_boundaries
        except ImportError as error:
            raise MissingExtra("sentencex", "text") from error
        self._split = get_sentence_boundaries
        self.finder = NameFinder(entities, options)
        self.options = options
        self._leaks = Leaks([entity.names for entity in entities], options.keep)
        self._blocked = [text if options.blocked_as_written else text.lower() for text in blocked]

    def sentences(self, paragraph: str) -> list[FoundSentence]:
        """All sentences of a paragraph that names an entity; none of one that does not, which is not even split."""
        mentions = self.finder.find(paragraph)
        return list(self._judged(paragraph, mentions)) if mentions else []

    def _judged(self, paragraph: str, mentions: list[Mention]) -> Iterator[FoundSentence]:
        at = 0
        for start, end in self._bounds(paragraph, mentions):
            inside = at
            while at < len(mentions) and mentions[at].start < end:
                at += 1
            named = mentions[inside:at]
            text = paragraph[start:end].strip()
            offset = paragraph.index(text, start)
            if not text:
                continue
            if len(named) == 1:
                yield self._one_name(paragraph, offset, text, named[0])
            else:
                yield FoundSentence(offset, text, SEVERAL if named else NO_NAME)

    def _bounds(self, paragraph: str, mentions: list[Mention]) -> Iterator[tuple[int, int]]:
        """Characters of each sentence. A name is never cut: a splitter can take "E. coli" for two sentences."""
        start = 0
        within = iter(mentions)
        mention = next(within, None)
        for bound in self._split(self.options.language, paragraph):
            end: int = bound["end_index"]
            while mention is not None and mention.end <= end:
                mention = next(within, None)
            if mention is not None and mention.start < end:
                continue
            yield start, end
            start = end
        if start < len(paragraph):
            yield start, len(paragraph)

    def _one_name(self, paragraph: str, offset: int, text: str, name: Mention) -> FoundSentence:
        if name.entity == AMBIGUOUS:
            return FoundSentence(offset, text, SHARED)
        start, end = name.start - offset, name.end - offset
        before, surface, after = text[:start], text[start:end], text[end:]
        outcome = self._fault(paragraph, text, name) or self._given_away(before, surface, after, name.entity) or KEPT
        return FoundSentence(offset, text, outcome, name.entity, before + ANSWER + after, surface)

    def _given_away(self, before: str, surface: str, after: str, entity: int) -> str:
        kind = self._leaks.kind(before, after, surface, entity)
        return LEAKS[kind] if kind else ""

    def _fault(self, paragraph: str, text: str, name: Mention) -> str:
        beside = paragraph[max(name.start - 1, 0) : name.start] + paragraph[name.end : name.end + 1]
        if not self.options.hyphenated and any(sign in _DASHES for sign in beside):
            return HYPHENATED
        words = len(text.split())
        if words < self.options.min_words or (self.options.max_words is not None and words > self.options.max_words):
            return LENGTH
        if SUBJECT in text or ANSWER in text:
            return PLACES
        judged = text if self.options.blocked_as_written else fold(text)
        if any(part in judged for part in self._blocked):
            return BLOCKED
        kind = boilerplate(text, self.options.keep)
        return BOILERPLATE[kind] if kind else ""

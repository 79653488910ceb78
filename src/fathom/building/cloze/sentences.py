"""Sentences that name one entity once, with the name masked, and the reasons why others are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fathom.building.cloze.boilerplate import BOILERPLATE, boilerplate
from fathom.building.cloze.entities import ListedEntity
from fathom.building.cloze.leaks import LEAKS, Leaks
from fathom.building.cloze.names import AMBIGUOUS, Mention, NameFinder
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.typography import fold
from fathom.data.templates import ANSWER, SUBJECT
from fathom.errors import optional

NO_NAME = "no entity named"
SEVERAL = "several names, or one several times"
SHARED = "the name is of several entities"
HYPHENATED = "the name is part of a hyphenated word"
PART = "the name is part of a number or a citation"
LENGTH = "too short or too long"
PLACES = f"holds {SUBJECT} or {ANSWER}"
BLOCKED = "holds a blocked sub-string"
KEPT = "kept"
_DASHES = "-‐‑–"
_NUMBER_BEFORE = re.compile(r"\d[.,/]$|°\s?$")
_PART_AFTER = re.compile(r"[.,/]\d|°|\.? et al\b|\. [a-z]")
"""4 °C, E12.5, "Li et al.", and the first letter of a species."""


class CorpusSentence(NamedTuple):
    """A sentence at a character of its paragraph; the last three fields are set if it names exactly one entity."""

    offset: int
    text: str
    outcome: str
    entity: int | None = None
    masked: str = ""
    surface: str = ""


class Selector:
    """:param blocked: sub-strings of sentences to drop."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions, blocked: Sequence[str]) -> None:
        self._split = optional("sentencex", "text").get_sentence_boundaries
        self.finder = NameFinder(entities, options)
        self.options = options
        self._leaks = Leaks([entity.names for entity in entities], options.keep)
        self._blocked = list(map(str.lower, blocked))

    def sentences(self, paragraph: str) -> list[CorpusSentence]:
        """Split a paragraph that names an entity; return no sentences of others."""
        mentions = self.finder.find(paragraph)
        return list(self._judged(paragraph, mentions)) if mentions else []

    def _judged(self, paragraph: str, mentions: list[Mention]) -> Iterator[CorpusSentence]:
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
                yield CorpusSentence(offset, text, SEVERAL if named else NO_NAME)

    def _bounds(self, paragraph: str, mentions: list[Mention]) -> Iterator[tuple[int, int]]:
        """Return characters of each sentence. A name is never cut: a splitter may divide "E. coli"."""
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

    def _one_name(self, paragraph: str, offset: int, text: str, name: Mention) -> CorpusSentence:
        if name.entity == AMBIGUOUS:
            return CorpusSentence(offset, text, SHARED)
        start, end = name.start - offset, name.end - offset
        before, surface, after = text[:start], text[start:end], text[end:]
        outcome = self._fault(paragraph, text, name)
        if not outcome:
            leak = self._leaks.kind(before, after, surface, name.entity)
            outcome = LEAKS[leak] if leak else KEPT
        return CorpusSentence(offset, text, outcome, name.entity, before + ANSWER + after, surface)

    def _fault(self, paragraph: str, text: str, name: Mention) -> str:
        neighbours = paragraph[max(name.start - 1, 0) : name.start] + paragraph[name.end : name.end + 1]
        if not self.options.hyphenated and any(sign in _DASHES for sign in neighbours):
            return HYPHENATED
        before, after = paragraph[max(name.start - 3, 0) : name.start], paragraph[name.end : name.end + 7]
        if _NUMBER_BEFORE.search(before) or _PART_AFTER.match(after):
            return PART
        words = len(text.split())
        if words < self.options.min_words or (self.options.max_words is not None and words > self.options.max_words):
            return LENGTH
        if SUBJECT in text or ANSWER in text:
            return PLACES
        small = fold(text)
        if any(part in small for part in self._blocked):
            return BLOCKED
        kind = boilerplate(text, self.options.keep)
        return BOILERPLATE[kind] if kind else ""

"""From a paragraph to sentences that name one entity once, with the name masked; why the others are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fathom.building.cloze.entities import Entity
from fathom.building.cloze.matching import AMBIGUOUS, Matcher, Mention
from fathom.building.cloze.names import fold
from fathom.building.cloze.options import ClozeOptions
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


class Sentence(NamedTuple):
    """:param offset: characters of the paragraph before it.
    :param outcome: :data:`KEPT`, or why it is left out.
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

    def __init__(self, entities: Sequence[Entity], options: ClozeOptions, blocked: Sequence[str]) -> None:
        try:
            from sentencex import get_sentence_boundaries
        except ImportError as error:
            raise MissingExtra("sentencex", "text") from error
        self._split = get_sentence_boundaries
        self.matcher = Matcher(entities, options)
        self.options = options
        self._blocked = [text if options.blocked_as_written else text.lower() for text in blocked]

    def sentences(self, paragraph: str) -> list[Sentence]:
        """All sentences of a paragraph that names an entity; none of one that does not, which is not even split."""
        mentions = self.matcher.find(paragraph)
        return list(self._judged(paragraph, mentions)) if mentions else []

    def _judged(self, paragraph: str, mentions: list[Mention]) -> Iterator[Sentence]:
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
                yield Sentence(offset, text, SEVERAL if named else NO_NAME)

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

    def _one_name(self, paragraph: str, offset: int, text: str, name: Mention) -> Sentence:
        reason = SHARED if name.entity == AMBIGUOUS else self._fault(paragraph, text, name)
        if reason:
            return Sentence(offset, text, reason, None if name.entity == AMBIGUOUS else name.entity)
        start, end = name.start - offset, name.end - offset
        return Sentence(offset, text, KEPT, name.entity, text[:start] + ANSWER + text[end:], text[start:end])

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
        return BLOCKED if any(part in judged for part in self._blocked) else ""

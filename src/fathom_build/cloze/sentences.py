"""Sentences that name one entity once, with the name masked, and the reasons why others are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, optional, refuse
from fathom.base.reading import NotData, Unreadable, json_value, read_text
from fathom.data.templates import ANSWER
from fathom_build.cloze.entities import MARK, ListedEntity
from fathom_build.cloze.leaks import LEAKS, Leaks, is_common
from fathom_build.cloze.names import AMBIGUOUS, Mention, NameFinder
from fathom_build.cloze.typography import fold
from fathom_build.options import ClozeBuildOptions

BLOCKED_FILE = Path(__file__).with_name("blocked.txt")
"""The paper's list."""
NO_NAME = "no entity named"
SEVERAL = "several names, or one several times"
SHARED = "the name is of several entities"
MARKED = "holds [X], [Y] or a special token"
HYPHENATED = "the name is part of a hyphenated name"
PART = "the name is part of a number, a file name or a citation"
FRAGMENT = "is no whole sentence"
SHORT = "says too little"
BLOCKED = "holds a blocked sub-string"
ADDRESS = "holds an address"
KEPT = "kept"
_HYPHEN_BEFORE = re.compile("[-‐‑–]$")
_HYPHEN_AFTER = re.compile("[-‐‑–](?![a-z]{3})")
"""Part of a longer name, as in "XML-RPC" and "5-fluorouracil"; "insulin-dependent" says something of insulin."""
_JOINED_BEFORE = re.compile(r"\d[.,]$|\w\.$|°\s?$")
_JOINED_AFTER = re.compile(r"[.,]\d|\.\w|°|\.? et al\b|\. [a-z]")
"""4 °C, E12.5, Python.h, "Li et al.", and the first letter of a species."""
_WHOLE = re.compile(r"""\W*+(?!\d|[a-z]+\b(?![-\d])).*[.:!?…。！？]["'”’»)\]]*""")
"""Begins with neither a number nor a word in small letters, and ends as sentences do."""
_ADDRESS = re.compile(
    r"https?://|\bftp://|\bwww\.\w|\bdoi:\s?10\.|\b10\.\d{4,9}/\S|\b[\w.+-]+@[\w-]+\.\w", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]{3,}")


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
        self._leaks = Leaks([entity.names for entity in entities])
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
        outcome = self._fault(before, surface, after)
        if not outcome and self.options.quality:
            outcome = self._find_poor_quality(paragraph, name, before, after)
        return CorpusSentence(offset, text, outcome or KEPT, name.entity, before + ANSWER + after, surface)

    def _fault(self, before: str, surface: str, after: str) -> str:
        text = before + surface + after
        if MARK.search(text):
            return MARKED
        words = (word for part in (before, after) for word in _WORD.findall(part))
        if sum(not is_common(word) for word in words) < self.options.min_words:
            return SHORT
        small = fold(text)
        return BLOCKED if any(part in small for part in self._blocked) else ""

    def _find_poor_quality(self, paragraph: str, name: Mention, before: str, after: str) -> str:
        near, following = paragraph[max(name.start - 3, 0) : name.start], paragraph[name.end : name.end + 7]
        if _HYPHEN_BEFORE.search(near) or _HYPHEN_AFTER.match(following):
            return HYPHENATED
        if _JOINED_BEFORE.search(near) or _JOINED_AFTER.match(following):
            return PART
        if not _WHOLE.fullmatch(before + ANSWER + after):
            return FRAGMENT
        if _ADDRESS.search(before + after):
            return ADDRESS
        leak = self._leaks.kind(before, after, paragraph[name.start : name.end], name.entity)
        return LEAKS[leak] if leak else ""


def read_blocked(path: Path) -> list[str]:
    """Read one sub-string per line, spaces included, optionally in quotes; lines with ``#`` are comments.

    :raises BadInput: it cannot be read, or a quote is not closed.
    """
    try:
        lines = read_text(path).splitlines()
    except Unreadable as error:
        raise BadInput(f"--blocked {error}; expected one sub-string per line") from error
    texts, faults = [], []
    for number, line in enumerate(lines, start=1):
        if line.startswith('"'):
            try:
                texts.append(json_value(line))
            except NotData as error:
                faults.append(f'--blocked {path}:{number}: expected "text" in two quotes, found {line!r} ({error.why})')
        elif line.strip() and not line.startswith("#"):
            texts.append(line)
    if not all(texts):
        faults.append(f'--blocked {path}: "" is part of every sentence: remove it')
    refuse(faults)
    return texts

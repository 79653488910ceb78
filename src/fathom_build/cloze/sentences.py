"""Sentences that name one entity once, with the name masked, and the reasons why others are dropped.

Sentences that give away their answer are dropped by any of its names:

- *letters*: ``tp53`` of TP53, ``IL 6`` of IL-6, aspirins, proinsulin;
- *beginning*: serotonergic of serotonin, Cuban of Cuba, and distinctive words of long names: "dopamine" of "dopamine
  receptor", where few other names have "dopamine".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, optional, refuse
from fathom.base.reading import NotData, Unreadable, json_value, read_text
from fathom.data.templates import ANSWER
from fathom_build.cloze.entities import AMBIGUOUS, MARK, ListedEntity, Mention, NameFinder, find_types_in_small_letters
from fathom_build.cloze.typography import LISTS, fold, plain, without_greek
from fathom_build.options import ClozeBuildOptions

LEAKS = {"letters": "has the letters of its answer", "beginning": "has a word that begins as its answer"}
"""Kind → why a sentence is dropped. The first that fits counts."""
GAP = "\n"
"""Replaces the answer: no word extends over it."""

_SHORT = 3
"""Names of up to so many letters are also prefixes ("co-", "non-"): next to a hyphen they do not count."""
_EDGE, _ANYWHERE = 5, 7
"""Minimum letters of a name that begins or ends a longer word, or occurs within one: shorter ones occur by chance, as
"iron" in "environment" and "tin" in "testing"."""
_BEGINNING, _LONG_BEGINNING = 5, 7
"""Letters that words of one family share: so many and all of one word but its last letter, or so many and any rest."""
_FEW, _SHARE = 3, 0.003
"""A word is distinctive if at most so many entities have it, or such a share of all."""
_PLURALS = frozenset(("s", "es"))
_WORD = re.compile(r"[^\W_]+")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")
FUNCTION_WORDS = frozenset(LISTS["function_words"])
CLASS_WORDS = frozenset(LISTS["class_words"])
"""Words for kinds of things: they hardly identify a name, even if few names are listed."""


class Leaks:
    """:param names: of each entity, by number, the main one first."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        self._names = names
        self._entities_by_word = Counter(
            word
            for of_entity in names
            for word in {fold(word) for name in of_entity for word in _WORD.findall(_normalised(name))}
        )
        self._most = max(_FEW, _SHARE * len(names))

    def kind(self, before: str, after: str, surface: str, entity: int) -> str:
        """Return the kind of leak in a sentence with *surface* for its answer, "" for none."""
        before, surface, after = _normalised(before), _normalised(surface), _normalised(after)
        names = dict.fromkeys((surface, *map(_normalised, self._names[entity])))
        rest = _Text(f"{before}{GAP}{after}")
        if any(rest.has_letters(name) for name in names):
            return "letters"
        return "beginning" if any(rest.has_word(word) for name in names for word in self._distinctive(name)) else ""

    def _distinctive(self, name: str) -> Iterator[str]:
        """Yield the words that distinguish a name from others; a single word always does."""
        words = _WORD.findall(name)
        for word in words:
            if len(words) == 1 or not (is_common(word) or self._entities_by_word[fold(word)] > self._most):
                yield word


class _Text:
    """A sentence without its answer, as the letters and digits of its words in a row.

    :ivar starts: places in these where words begin, *ends* where they end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        matches = list(_WORD.finditer(text))
        self.words = [match[0] for match in matches]
        self.small = list(map(fold, self.words))
        self.letters, self.starts, self.ends = "", {}, {}
        for number, match in enumerate(matches):
            if GAP in text[matches[number - 1].end() : match.start()] and number:
                self.letters += GAP
            self.starts[len(self.letters)] = match
            self.letters += self.small[number]
            self.ends[len(self.letters)] = match

    def has_letters(self, name: str) -> bool:
        """Return whether it has the letters of a name: as words, or as part of one if they are many."""
        wanted = fold("".join(_WORD.findall(name)))
        at = self.letters.find(wanted) if len(wanted) > 1 else -1
        while at >= 0:
            if self._is_name(name, wanted, at):
                return True
            at = self.letters.find(wanted, at + 1)
        return False

    def _is_name(self, name: str, wanted: str, at: int) -> bool:
        end = at + len(wanted)
        begins, ends = at in self.starts, end in self.ends
        if not begins and wanted[0].isdigit() and self.letters[at - 1].isdigit():
            return False
        if not ends and wanted[-1].isdigit() and self.letters[end].isdigit():
            return False  # CD4 is not in CD40
        cuts = {place - at for place in self.starts if at < place < end}
        if not cuts <= _joints(name):
            return False  # "to ad" is no "toad"
        if not ends and begins:
            ends = self.letters[end : min(place for place in self.ends if place > end)] in _PLURALS
        if begins and ends:
            return self._is_whole(wanted, at, end)
        written = name in self.text and _is_code(name)
        return len(wanted) >= ((_SHORT if written else _EDGE) if begins or ends else _ANYWHERE)

    def _is_whole(self, wanted: str, at: int, end: int) -> bool:
        """Return whether whole words are the name, and not a function word or a prefix."""
        first = self.starts[at]
        last = self.ends.get(end, first)
        hyphens = self.text[max(first.start() - 1, 0) : first.start()] + self.text[last.end() : last.end() + 1]
        return wanted not in FUNCTION_WORDS and not (len(wanted) <= _SHORT and "-" in hyphens)

    def has_word(self, word: str) -> bool:
        """Return whether it has this word of a name, or one that begins alike."""
        if _is_code(word):
            return len(word) >= _SHORT and (word in self.words or (not word.isalpha() and fold(word) in self.small))
        return word.isalpha() and any(_alike(word, small) for small in self.small)


def is_common(word: str) -> bool:
    """Return whether a word is a function word or says of what kind a thing is."""
    small = fold(word)
    return small in FUNCTION_WORDS or small.removesuffix("s") in CLASS_WORDS


def _normalised(text: str) -> str:
    return without_greek(plain(text))


@lru_cache(maxsize=1 << 16)
def _joints(name: str) -> frozenset[int]:
    """Return the places in a name's letters where it may be written in two: between words, letters and digits."""
    joints, at = set(), 0
    for word in _WORD.findall(name):
        joints |= {at, *(at + joint.start() for joint in _JOINT.finditer(word))}
        at += len(word)
    return frozenset(joints)


def _is_code(word: str) -> bool:
    """Return whether capitals or digits are part of a word, so that it has no family: "TP53", "mRNA"."""
    return sum(sign.isdigit() or sign.isupper() for sign in word) >= 2


def _alike(word: str, lower: str) -> bool:
    """Return whether two words begin alike. :param lower: in lower case."""
    small = fold(word)
    shared = len(commonprefix((small, lower)))  # noqa: RUF071 # of letters, not of paths
    if shared >= _LONG_BEGINNING or (small == lower and shared >= _BEGINNING - 1):
        return True
    if shared < _BEGINNING:  # Cuba, Cuban
        return word[0].isupper() and shared == len(small) == _BEGINNING - 1 and shared < len(lower)
    return min(len(small), len(lower)) - shared <= 1


BLOCKED_FILE = Path(__file__).with_name("blocked.txt")
"""The paper's list."""
NO_NAME = "no entity named"
SEVERAL = "several names, or one several times"
SHARED = "the name is of several entities"
MARKED = "holds [X], [Y] or a special token"
HYPHENATED = "the name is part of a hyphenated name"
PART = "the name is part of a number, a file name, a citation or a longer name"
FRAGMENT = "is no whole sentence"
SHORT = "says too little"
BLOCKED = "holds a blocked sub-string"
ADDRESS = "holds an address"
OTHER_WORD = "the name is another word here"
KEPT = "kept"
_HYPHEN_BEFORE = re.compile("[-‐‑–]$")
_HYPHEN_AFTER = re.compile("[-‐‑–](?![a-z]{3})")
"""Part of a longer name, as in "XML-RPC" and "5-fluorouracil"; "insulin-dependent" says something of insulin."""
_JOINED_BEFORE = re.compile(r"\d[.,]$|\w\.$|°\s?$")
_JOINED_AFTER = re.compile(r"[.,]\d|\.\w|°|\.? et al\b|\. [a-z]")
"""4 °C, E12.5, Python.h, "Li et al.", and the first letter of a species."""
_FIRST_NAME, _LAST_NAME = re.compile(r"[A-Z][a-z]+"), re.compile(r" [A-Z][a-z]+\b")
"""Max Weber."""
_WHOLE = re.compile(r"""\W*+(?!\d|[a-z]+\b(?![-\d])).*[.:!?…。！？]["'”’»)\]]*""")
"""Begins with neither a number nor a word in small letters, and ends as sentences do."""
_ADDRESS = re.compile(
    r"https?://|\bftp://|\bwww\.\w|\bdoi:\s?10\.|\b10\.\d{4,9}/\S|\b[\w.+-]+@[\w-]+\.\w", re.IGNORECASE
)
_ABBREVIATION = re.compile(r"\(([A-Z][A-Za-z]{1,6})\)")
_LONG_FORM = 200
"""Most characters of what an abbreviation stands for."""
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_AFTER_IN = re.compile(r"\b[Ii]n (?:[a-z]+ )?$")
_BEFORE_VERBS, _AFTER_VERBS = frozenset(LISTS["before_verbs"]), frozenset(LISTS["after_verbs"])
_IN_PHRASES = frozenset(LISTS["in_phrases"])


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
        self._last_words = {fold(name).split()[-1].removesuffix("s") for entity in entities for name in entity.names}
        self._others: set[str] = set()
        self._types = [entity.type for entity in entities]
        self._types_of_words = find_types_in_small_letters(entities)
        self._small_names = {name for entity in entities for name in entity.names if name.islower()}
        self._blocked = list(map(str.lower, blocked))

    def sentences(self, paragraph: str) -> list[CorpusSentence]:
        """Split a paragraph that names an entity; return no sentences of others."""
        mentions = self.finder.find(paragraph)
        self._others |= set(self._other_abbreviations(paragraph))
        return list(self._judged(paragraph, mentions)) if mentions else []

    def begin(self) -> None:
        """Forget the abbreviations of the document before."""
        self._others.clear()

    def _other_abbreviations(self, paragraph: str) -> Iterator[str]:
        """Yield abbreviations that a paragraph introduces for things of other kinds: "left coronary artery (LCA)".

        The last word of the long form says of which kind: it is another if no listed name ends in it, and it is no
        word for kinds of things.
        """
        for match in _ABBREVIATION.finditer(paragraph):
            near = paragraph[max(match.start() - _LONG_FORM, 0) : match.start()]
            words = _WORD.findall(near)[-len(match[1]) :]
            is_long_form = "".join(word[0] for word in words).upper() == match[1].upper()
            if is_long_form and not is_common(words[-1]) and fold(words[-1]).removesuffix("s") not in self._last_words:
                yield match[1]

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
        words = (word for part in (before, after) for word in _LETTERS.findall(part))
        if sum(not is_common(word) for word in words) < self.options.min_words:
            return SHORT
        small = fold(text)
        return BLOCKED if any(part in small for part in self._blocked) else ""

    def _find_poor_quality(self, paragraph: str, name: Mention, before: str, after: str) -> str:
        near, following = paragraph[max(name.start - 3, 0) : name.start], paragraph[name.end : name.end + 7]
        if _HYPHEN_BEFORE.search(near) or _HYPHEN_AFTER.match(following):
            return HYPHENATED
        is_first_name = _FIRST_NAME.fullmatch(paragraph, name.start, name.end) and _LAST_NAME.match(paragraph, name.end)
        if is_first_name or _JOINED_BEFORE.search(near) or _JOINED_AFTER.match(following):
            return PART
        if not _WHOLE.fullmatch(before + ANSWER + after):
            return FRAGMENT
        if _ADDRESS.search(before + after):
            return ADDRESS
        if self._is_other_word(self._types[name.entity], before, paragraph[name.start : name.end], after):
            return OTHER_WORD
        leak = self._leaks.kind(before, after, paragraph[name.start : name.end], name.entity)
        return LEAKS[leak] if leak else ""

    def _is_other_word(self, type_: str, before: str, surface: str, after: str) -> bool:
        """Return whether a name is another abbreviation here, a function word ("His"), or a word of the language.

        In English, names that are listed in small letters may be other words, also with the capital that begins a
        sentence. If most names of a type are codes, as those of genes, any verb is one ("cut"), and any word for a kind
        of things in small letters. Otherwise it is a verb next to words that verbs follow ("to lead"), or in a phrase
        that stands for a preposition ("in marked contrast to").
        """
        preceding, following = (
            fold("".join(words)) for words in (_WORD.findall(before)[-1:], _WORD.findall(after)[:1])
        )
        if surface in self._others or (not preceding and len(surface) > 2 and fold(surface) in FUNCTION_WORDS):
            return True
        small = surface[:1].lower() + surface[1:]
        word = small if not preceding and small in self._small_names else surface
        if self.options.language != "en" or not (word.islower() and word.isalpha()):
            return False
        if type_ not in self._types_of_words:
            return may_be_verb(word) or (word == surface and is_common(word))
        is_after_plural = preceding.endswith("s") and not may_be_verb(preceding)  # "mutations lead to"
        near_verbs = preceding in _BEFORE_VERBS or following in _AFTER_VERBS or (is_after_plural and following == "to")
        is_in_phrase = word in _IN_PHRASES and bool(_AFTER_IN.search(before)) and following in ("to", "with", "of")
        return is_in_phrase or (near_verbs and may_be_verb(word))


@lru_cache(maxsize=1 << 16)
def may_be_verb(word: str) -> bool:
    """Return whether the dictionary has a word in small letters as a verb."""
    from lemminflect import getAllLemmas

    return "VERB" in getAllLemmas(word)


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

"""Sentences that give away their masked answer, so that a model can fill it without knowledge.

Sentences with a listed name of the answer are dropped earlier, as they have several names. Two kinds remain, of any
name of the answer:

- *letters*: ``tp53`` of TP53, ``IL 6`` of IL-6, aspirins, proinsulin;
- *beginning*: serotonergic of serotonin, Cuban of Cuba, and distinctive words of long names: "dopamine" of "dopamine
  receptor", where few other names have "dopamine".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from fathom_build.cloze.typography import LISTS, fold, plain, without_greek

LEAKS = {
    "letters": "has the letters of its answer",
    "beginning": "has a word that begins as its answer",
}
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
            next_end = min(place for place in self.ends if place > end)
            ends = self.letters[end:next_end] in _PLURALS
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
        return word.isalpha() and any(_alike(word, other) for other in self.small)


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


def _alike(word: str, other: str) -> bool:
    """Return whether two words begin alike. :param other: in lower case."""
    small = fold(word)
    shared = next((at for at, (one, two) in enumerate(zip(small, other, strict=False)) if one != two), None)
    shared = min(len(small), len(other)) if shared is None else shared
    if shared >= _LONG_BEGINNING or (small == other and shared >= _BEGINNING - 1):
        return True
    if shared < _BEGINNING:  # Cuba, Cuban
        return word[0].isupper() and shared == len(small) == _BEGINNING - 1 and shared < len(other)
    return min(len(small), len(other)) - shared <= 1

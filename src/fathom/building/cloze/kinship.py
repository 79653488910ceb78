"""Families of words, and the words that distinguish a long name from others.

Families are recognised by endings alone, and only by those that do not change what is named: "dopaminergic" is of
dopamine, "Egyptian" of Egypt, "glutamic" of glutamate, *Aconitum* of aconitine. Endings that name another thing
(glucagon of glucose, nicotinate of nicotine) do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from fathom.building.cloze.typography import LISTS, fold

WORD = re.compile(r"[^\W_]+")
_LEAST = 5
"""Minimum letters of a root: shorter prefixes are shared with other families."""
_ADJECTIVE = re.compile(r"(?:ergic|ically|ical|ics?|ally|al|ous|oid|ian|ean|an|is[mt]|i[sz]ed|i[sz]ation)$")
_ACID = re.compile(r"(?:ate|ic)$")
"""A salt and its acid."""
_SIGNAL = re.compile(r"(?:ergic|in)$")
"""Serotonin, and what it acts on: serotonergic."""
_LATIN = re.compile(r"(?:ium|um|us|iana|ia|a)$")
_ALKALOID, _PLANT = "ine", 6
"""An alkaloid is named after its plant, whose name has at least so many letters."""
_VOWELS = "aeiouy"
_FEW, _SHARE = 3, 0.003
"""A word is distinctive if at most so many entities have it, or such a share of all."""
_CODE = 3
"""Minimum length of a distinctive word with capitals or digits."""

FUNCTION_WORDS = frozenset(LISTS["function_words"])
CLASS_WORDS = frozenset(LISTS["class_words"])
"""Words for kinds of things: they hardly identify a name, even if few names are listed."""


@lru_cache(maxsize=1 << 16)
def roots(word: str) -> frozenset[str]:
    """Return the roots of a lower-case word; words of one family share a root (a prefix and a mark of its kind)."""
    single = _singular(word)
    bare = _without(_ADJECTIVE, single)
    shared = {_without_vowels(bare)}
    if single.endswith(("ergic", "in")):
        shared.add(_without(_SIGNAL, single) + "~signal")
    if single.endswith(("ate", "ic")):
        shared.add(_without(_ACID, single) + "~acid")
    if single.endswith(_ALKALOID) and len(single) - len(_ALKALOID) >= _PLANT:
        shared.add(single.removesuffix(_ALKALOID) + "~plant")
    elif _LATIN.search(single):
        shared |= {_without(_LATIN, single), _without(_LATIN, single) + "~plant"}
    return frozenset(shared)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _LEAST + 2:
        return word[:-3] + "y"
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) >= _LEAST
    return word[:-1] if plural else word


def _without(ending: re.Pattern[str], word: str) -> str:
    cut = ending.sub("", word)
    return cut if len(cut) >= _LEAST else word


def _without_vowels(word: str) -> str:
    while len(word) > _LEAST and word[-1] in _VOWELS:
        word = word[:-1]
    return word


class DistinctiveWords:
    """Words that distinguish a name from the (normalised) *names* of other entities."""

    def __init__(self, names: Iterable[Sequence[str]]) -> None:
        self._entities = 0
        self._entities_by_root: Counter[str] = Counter()
        for entity_names in names:
            self._entities += 1
            self._entities_by_root.update(
                {root for name in entity_names for word in WORD.findall(name) for root in roots(fold(word))}
            )
        self._most = max(_FEW, _SHARE * self._entities)

    def occur(self, name: str, text: str, small: str) -> bool:
        """Return whether a text, in lower case *small*, has a distinctive word of *name*, or one of its family."""
        alone, words = _beginnings(name)
        return any(
            beginning in small and (alone or self._distinguishes(word)) and _occurs(word, text, small)
            for word, beginning in words
        )

    def _distinguishes(self, word: str) -> bool:
        shared = roots(fold(word))
        common = fold(word) in FUNCTION_WORDS or not shared.isdisjoint(_CLASS_ROOTS)
        return not common and max(self._entities_by_root[root] for root in shared) <= self._most


_CLASS_ROOTS = frozenset(root for word in CLASS_WORDS for root in roots(word))


@lru_cache(maxsize=1 << 16)
def _beginnings(name: str) -> tuple[bool, list[tuple[str, str]]]:
    """Return whether a name is one word, and words that may give it away with the lower-case prefix of their family."""
    prefixes = {}
    words = WORD.findall(name)
    for word in words:
        if _is_code(word):
            prefixes[word] = _numbered(word) if len(word) >= _CODE else ""
        elif len(word) >= _LEAST and word.isalpha():
            prefixes[word] = fold(word[: _LEAST - 1])  # a letter more may be that of a plural
    return len(words) == 1, [(word, beginning) for word, beginning in prefixes.items() if beginning]


def _is_code(word: str) -> bool:
    """Return whether capitals or digits are part of a word, so that it has no family."""
    if word.isdigit() or (word.islower() and word.isalpha()):
        return False
    return sum(sign.isdigit() or sign.isupper() for sign in word) >= 2 or not word.isalpha()


def _numbered(word: str) -> str:
    """Return a word's family: that of SEC4 is that of Sec4p, the protein of yeast, but not that of SEC40."""
    return fold(word).removesuffix("p")


def _occurs(word: str, text: str, small: str) -> bool:
    if not _is_code(word):
        shared = roots(fold(word))
        return any(not shared.isdisjoint(roots(other)) for other in WORD.findall(small) if len(other) >= _LEAST)
    if word.isalpha():
        return word in WORD.findall(text)  # "SET" and "set"
    return any(_numbered(other) == _numbered(word) for other in WORD.findall(small))

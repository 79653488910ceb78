"""Names that give an answer away, and names that are part of each other."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from fathom.base.errors import optional

FUZZY = 95
"""RapidFuzz's ``partial_ratio`` from which names are alike."""
SHORTEST = 4
"""Characters that another name, or the shorter of two alike ones, must have."""
_WORD = re.compile(r"\w+")
_UNINFORMATIVE = frozenset((Path(__file__).parent / "uninformative.txt").read_text(encoding="utf-8").split())
"""Articles, prepositions and legal forms, which unrelated names share."""


@lru_cache(maxsize=1 << 16)
def words(name: str) -> tuple[str, ...]:
    """Split a name into words, without case and accents: "São Paulo" → ("sao", "paulo")."""
    plain = unicodedata.normalize("NFKD", name)
    return tuple(_WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)).casefold()))


def telling(name: str) -> frozenset[str]:
    """Return the words of a name that say something of what it names; all if none does."""
    all_words = frozenset(words(name))
    return all_words - _UNINFORMATIVE or all_words


def contains(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Return whether some words stand among others, in a row and as a whole."""
    size = len(shorter)
    return 0 < size <= len(longer) and any(longer[at : at + size] == shorter for at in range(len(longer) - size + 1))


def revealing(subject: str, answer: str, aliases: Sequence[str]) -> bool:
    """Return whether the subject's name gives the answer away.

    They share a word, it contains the answer or one of its *aliases*, or the best match of the shorter name within the
    longer is alike (RapidFuzz's ``partial_ratio``, without case and accents).

    :raises MissingExtra: RapidFuzz is not installed.
    """
    names = (answer, *(alias for alias in aliases if len(alias) >= SHORTEST))
    if telling(subject) & telling(answer) or any(contains(words(subject), words(name)) for name in names):
        return True
    if min(len(subject), len(answer)) < SHORTEST:
        return False
    partial_ratio = optional("rapidfuzz.fuzz", "text").partial_ratio
    return bool(partial_ratio(" ".join(words(subject)), " ".join(words(answer)), score_cutoff=FUZZY))


def overlapping(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield places (shorter, longer) of names that equal or contain each other: Guinea and Equatorial Guinea."""
    split = [words(name) for name in names]
    by_word: dict[str, list[int]] = defaultdict(list)
    for place, parts in enumerate(split):
        for word in dict.fromkeys(parts):
            by_word[word].append(place)
    for place, parts in enumerate(split):
        if parts:
            rarest = min(parts, key=lambda word: len(by_word[word]))
            for other in by_word[rarest]:
                same = split[other] == parts
                if (other > place if same else other != place) and contains(split[other], parts):
                    yield place, other

"""Nonce words: pronounceable, and no English ones, as consonants meet in the middle that do so in no English word."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

_ONSETS = (
    *"bdfgklmnprstvz", "br", "dr", "fl", "gl", "gr", "kl", "kr", "pl", "pr", "sl", "sm", "sn", "sp", "st", "tr"
)  # fmt: skip
_MIDDLES = (
    "bv", "dv", "fk", "gv", "kv", "kz", "lz", "mv", "nv", "pz", "vg", "vk", "vl", "vm", "vn", "vz", "zb", "zd", "zk",
    "zm", "zn", "zv",
)  # fmt: skip
_CODAS = (*"bdgklmnprtxz", "ld", "lm", "lt", "nd", "nk", "rn")
_VOWELS = "aeiou"
_TRIES = 100
"""Draws of known words in a row after which words get another syllable."""


def nonce_words(seed: int | str, avoid: Collection[str] = (), syllables: int = 2) -> Iterator[str]:
    """Yield distinct pronounceable words, endlessly, that are no English ones.

    :param avoid: words in lower case that are excluded.
    :param syllables: number in each word, more when all shorter ones are used.
    """
    draw = random.Random(f"nonce names {seed}")
    taken = set(avoid)
    middles, tries = syllables - 1, 0
    while True:
        parts = (f"{draw.choice(_VOWELS)}{draw.choice(_MIDDLES)}" for _ in range(middles))
        word = f"{draw.choice(_ONSETS)}{''.join(parts)}{draw.choice(_VOWELS)}{draw.choice(_CODAS)}"
        if word not in taken:
            taken.add(word)
            tries = 0
            yield word
        elif (tries := tries + 1) == _TRIES:
            middles, tries = middles + 1, 0


def similar_words(word: str, avoid: Collection[str] = ()) -> Iterator[str]:
    """Yield words that begin and end as *word* does, with another syllable between, in an order of its own.

    :param avoid: words in lower case that are excluded.
    """
    syllables = [f"{vowel}{middle}" for vowel in _VOWELS for middle in _MIDDLES]
    random.Random(f"similar to {word}").shuffle(syllables)
    words = (f"{word[: (len(word) + 1) // 2]}{syllable}{word[-2:]}" for syllable in syllables)
    return (similar for similar in words if similar != word and similar.lower() not in avoid)

"""Nonce words: pronounceable, and no English ones, as consonants meet in the middle that do so in no English word."""

from __future__ import annotations

import random
import re
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
LONG = 3
"""Syllables of words that have similar ones."""
FIRST, INNER, LAST = 0, 3, -1
"""Sounds of such a word: its first consonants, its middle vowel, its last consonants."""
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


def similar_words(word: str, at: int, avoid: Collection[str] = ()) -> Iterator[str]:
    """Yield words that differ from a nonce word in one sound, first those of its length, in an order of their own.

    :param at: number of the sound, or -1. Words that differ in another one come after.
    :param avoid: words in lower case that are excluded.
    """
    sounds = re.findall(f"[{_VOWELS}]+|[^{_VOWELS}]+", word)
    draw = random.Random(f"similar to {word}")
    for place in dict.fromkeys((at % len(sounds), *range(len(sounds)))):
        old = sounds[place]
        edge = {0: _ONSETS, len(sounds) - 1: _CODAS}.get(place, _MIDDLES)
        kind = list(_VOWELS if old[0] in _VOWELS else edge)
        draw.shuffle(kind)
        for sound in sorted(kind, key=lambda sound: len(sound) != len(old)):
            similar = "".join((*sounds[:place], sound, *sounds[place + 1 :]))
            if sound != old and similar.lower() not in avoid:
                yield similar

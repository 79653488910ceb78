"""Word boundaries, on which names are searched in texts."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray


def is_word_character(sign: str) -> bool:
    """Return whether a character is part of a word in any script: a letter, digit, combining mark or underscore."""
    return sign.isalnum() or sign == "_" or unicodedata.category(sign).startswith("M")


@cache
def word_characters() -> NDArray[np.bool_]:
    """:func:`is_word_character` of each code point; shape (0x110000,)."""
    return np.array([is_word_character(chr(point)) for point in range(0x110000)])


def occurs_as_word(name: str, text: str) -> bool:
    """Return whether *name* occurs in *text* on word boundaries."""
    if not name:
        return False
    first, last = is_word_character(name[0]), is_word_character(name[-1])
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        cut_before = first and start > 0 and is_word_character(text[start - 1])
        if not cut_before and not (last and end < len(text) and is_word_character(text[end])):
            return True
        start = text.find(name, start + 1)
    return False

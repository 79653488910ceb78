"""Normalised text for comparison: plain punctuation, ligatures as letters, Greek letters by name.

Only what is compared is normalised; a sentence is stored unmodified. So each character of a plain text knows its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading import yaml_file

LISTS: dict[str, list[str]] = {
    name: text.split() for name, text in yaml_file(Path(__file__).with_name("lists.yaml")).items()
}
"""Word lists, tags and language codes by name."""


def pairs_in(name: str) -> dict[str, str]:
    """Return a list of ``key=value`` as a dictionary."""
    return {key: value for key, _, value in (pair.partition("=") for pair in LISTS[name])}


_CONTROL = dict.fromkeys((*range(32), 127), " ")
_PLAIN = {
    **dict.fromkeys("‘’‛ʼ", "'"),
    **dict.fromkeys("“”„‟", '"'),
    **dict.fromkeys("‐‑‒–−﹣", "-"),
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff", ""),  # soft hyphen, and spaces of no width
    **pairs_in("ligatures"),
    **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},  # full-width forms
}
_TYPOGRAPHIC = re.compile(f"[{''.join(map(re.escape, _PLAIN))}]")
_GREEK = str.maketrans(pairs_in("greek"))


def tidy(text: str) -> str:
    """Collapse white space and control characters, and compose accents (NFC)."""
    collapsed = " ".join(text.split())
    if not collapsed.isprintable():
        collapsed = " ".join(collapsed.translate(_CONTROL).split())
    return collapsed if collapsed.isascii() else unicodedata.normalize("NFC", collapsed)


class MappedText(NamedTuple):
    """A plain text, and the place of each character in the original; None if all stayed in place."""

    text: str
    places: Sequence[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return characters [start, end) of the plain text, not empty, as characters of the original."""
        return (start, end) if self.places is None else (self.places[start], self.places[end - 1] + 1)


def plain(text: str) -> str:
    """Replace typographic apostrophes, quotation marks, hyphens and ligatures, and remove invisible characters."""
    return text if text.isascii() else _TYPOGRAPHIC.sub(lambda match: _PLAIN[match[0]], text)


def plain_with_places(text: str) -> MappedText:
    """Return :func:`plain`, with the place of each character."""
    if text.isascii() or not _TYPOGRAPHIC.search(text):
        return MappedText(text)
    signs = [(sign, place) for place, original in enumerate(text) for sign in _PLAIN.get(original, original)]
    return MappedText("".join(sign for sign, _ in signs), [place for _, place in signs])


def fold(text: str) -> str:
    """Lower-case a text without changing its length: capitals with a longer lower case stay."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


def without_greek(text: str) -> str:
    """Spell Greek letters: TNF-alpha for TNF-α."""
    return text if text.isascii() else text.translate(_GREEK)

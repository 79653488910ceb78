"""Signs that print shops and word processors put for plainer ones, set back so that names are found.

Only what is compared is set back; a sentence is kept as it stood. So each sign of the plain text knows its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_LIGATURES = dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
_PLAIN = {
    **dict.fromkeys("‘’‛ʼ", "'"),
    **dict.fromkeys("“”„‟", '"'),
    **dict.fromkeys("‐‑‒–−﹣", "-"),
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff", ""),  # soft hyphen, and spaces of no width
    **_LIGATURES,
    **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},  # letters, digits and signs as wide as Chinese
}
_ODD = re.compile(f"[{''.join(map(re.escape, _PLAIN))}]")


class Plain(NamedTuple):
    """:param places: where each sign of *text* stood, None where all stand as they did."""

    text: str
    places: Sequence[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Characters [start, end) of the plain text, not none, as characters of the text that it came from."""
        return (start, end) if self.places is None else (self.places[start], self.places[end - 1] + 1)


def plain(text: str) -> str:
    """With plain apostrophes, quotation marks and hyphens, ligatures as letters, and nothing that is not seen."""
    return text if text.isascii() else _ODD.sub(lambda found: _PLAIN[found[0]], text)


def plain_with_places(text: str) -> Plain:
    """:func:`plain`, and whence each sign came."""
    if text.isascii() or not _ODD.search(text):
        return Plain(text)
    signs = [(sign, place) for place, found in enumerate(text) for sign in _PLAIN.get(found, found)]
    return Plain("".join(sign for sign, _ in signs), [place for _, place in signs])


def fold(text: str) -> str:
    """Small letters, each in its place: the few capitals whose small form is two signs stay."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


_GREEK_LETTERS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau"
_GREEK_LATER = "upsilon phi chi psi omega"
_GREEK = {
    letter: name
    for first in "αΑ"
    for letter, name in zip(
        [chr(ord(first) + n) for n in range(25) if n != 17],
        [*_GREEK_LETTERS.split(), *_GREEK_LATER.split()],
        strict=True,
    )
} | {"µ": "mu"}


def without_greek(text: str) -> str:
    """With Greek letters in words: TNF-alpha for TNF-α."""
    return text if text.isascii() else text.translate(_NAMES_OF_GREEK)


_NAMES_OF_GREEK = str.maketrans(_GREEK)

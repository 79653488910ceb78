"""In which spellings and letter case a name counts."""

from __future__ import annotations

import re

from fathom.building.cloze.options import ClozeOptions

_WORD = re.compile(r"[^\W_]+")


def as_written(name: str, options: ClozeOptions) -> bool:
    """Whether a name is found only in its own letter case.

    ``smart``: names of up to so many characters ("NO", "tin") and those with a capital behind the first letter of a
    word ("mRNA", "GABA"), since in other case they are other words; "Nitric oxide" and "vitamin D" are found in any.
    """
    if options.case != "smart":
        return options.case == "exact"
    inner = any(any(sign.isupper() for sign in word[1:]) for word in _WORD.findall(name))
    return inner or len(name) <= options.exact_up_to


def spellings(name: str, options: ClozeOptions) -> tuple[str, ...]:
    """A short name in small letters may also begin a sentence: "Tin"."""
    if options.case == "smart" and name.islower() and as_written(name, options):
        return (name, name[:1].upper() + name[1:])
    return (name,)


def fold(text: str) -> str:
    """Small letters, each in its place: the few capitals whose small form is two signs stay."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)

"""Sentences that say their own answer beside the place where it was masked: a model need know nothing to fill it.

A name of the answer that is found as it is listed makes a sentence of several names, which is left out before. Here is
what the search for names does not see: ``tp53`` beside TP53, aspirins, proinsulin, another name of the answer in such a
form, and an abbreviation in brackets (by the algorithm of Schwartz and Hearst, 2003).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from fathom.building.cloze.typography import fold, plain

LEAKS = {
    "case": "says its answer in another case or with other hyphens",
    "stem": "says its answer in another form of the word",
    "sub-string": "says its answer within another word",
    "alias": "says another name of its answer",
    "abbreviation": "abbreviates its answer in brackets",
}
"""Kind, as options name it → why a sentence is left out. The first that fits counts."""
GAP = "\n"
"""Stands for the answer: no word reaches over it."""

_SHORT = 3
"""Names of up to so many letters are also prefixes ("co-", "non-"): next to a hyphen they are not taken for a name."""
_EDGE, _ANYWHERE = 5, 7
"""Letters from which a name that begins or ends a longer word, or stands within one, is there on purpose: there is an
"iron" in "environment" and a "tin" in "testing"."""
_LITTLE_WORDS = (
    "a about after all also am an and any are as at be been but by can co could de did do does for from get had has "
    "have he her here him his how i if in into is it its just let like may me more most must my no non nor not now of "
    "off on one or our out own per pre put she should so some such than that the their them then there these they this "
    "those to too up us very via was we were what when which who why will with would yet you"
)
"""English words that are in any sentence: NO, WAS or CAN in another case is no name."""
_OF_SENTENCES = frozenset(_LITTLE_WORDS.split())
_FORMS = (
    ("", r"(?:s|es|ed|ing|'s|s')"),
    ("e", r"(?:ing|ed)"),
    ("y", r"(?:ies|ied)"),
    ("ies", r"y"),
    ("es", r"(?:is)?"),
    ("s", r""),
    ("um", r"a"),
    ("us", r"i"),
    ("is", r"es"),
    ("on", r"a"),
    ("a", r"(?:um|on|ae)"),
    ("ae", r"a"),
    ("i", r"us"),
)
"""How the last word of a name may end, and what may stand there instead: plurals, English and Latin, and verbs."""
_SHORTEST_STEM = 3
_LAST_LETTERS = re.compile(r"[^\W\d_]+$")


class _Name(NamedTuple):
    """:param code: "TP53", "mRNA": its capitals are part of it, and short as it is, it is no word by chance.
    :param stem: what all its forms begin with, in small letters; "" where it is too short to have any.
    """

    text: str
    code: bool
    stem: str


def leak(before: str, after: str, surface: str, names: Sequence[str], keep: Container[str]) -> str:
    """Of which kind the leak in a sentence is, "" for none.

    :param before: the words before the answer, *after* those behind it.
    :param surface: the answer as it stood.
    :param names: all that the answer is called, the first of them its own.
    :param keep: kinds that are not looked for.
    """
    rest = plain(f"{before}{GAP}{after}")
    own = {plain(surface), plain(names[0])}
    for name in dict.fromkeys((plain(surface), *map(plain, names))):
        kind = _said(rest, _studied(name), keep if name in own else ())
        if kind and name in own:
            return kind
        if kind and "alias" not in keep:
            return "alias"
    if "abbreviation" not in keep and ("(" in rest or "[" in rest):
        return "abbreviation" if _abbreviated(plain(before), plain(surface), plain(after)) else ""
    return ""


@lru_cache(maxsize=1 << 16)
def _studied(name: str) -> _Name:
    marks = sum(sign.isdigit() or sign.isupper() for sign in name)
    code = marks >= 2 and " " not in name
    last = _LAST_LETTERS.search(name)
    if len(name if code else last[0] if last else "") < _SHORTEST_STEM:
        return _Name(name, code, "")
    cut = 0 if code else max(len(ending) for ending, _ in _endings(name))
    return _Name(name, code, fold(name[: len(name) - cut]))


def _endings(name: str) -> Iterator[tuple[str, str]]:
    """Those of :data:`_FORMS` that fit."""
    letters = _LAST_LETTERS.search(name)
    for ending, instead in _FORMS:
        fits = name.lower().endswith(ending) and not (ending == "s" and name.lower().endswith(("ss", "us", "is")))
        if fits and letters and len(letters[0]) - len(ending) >= _SHORTEST_STEM:
            yield ending, instead


@lru_cache(maxsize=1 << 12)
def _forms(name: str, *, code: bool) -> re.Pattern[str]:
    if code:
        return re.compile(rf"(?<!\w){re.escape(name)}'?s(?!\w)")
    ways = [re.escape(name[: len(name) - len(ending)]) + instead for ending, instead in _endings(name)]
    ways.append(re.escape(name + name[-1]) + "(?:ed|ing)")  # "mapped"
    return re.compile(rf"(?<!\w)(?:{'|'.join(ways)})(?!\w)", re.IGNORECASE)


def _said(rest: str, name: _Name, keep: Container[str]) -> str:
    """How a name stands in the text."""
    if "case" not in keep and _in_another_case(rest, name.text):
        return "case"
    if name.stem and name.stem in fold(rest):
        forms = _forms(name.text, code=name.code)
        if "stem" not in keep and forms.search(rest):
            return "stem"
        rest = forms.sub(GAP, rest)  # which are kept: a form is not the name within another word, too
    return "sub-string" if "sub-string" not in keep and _within(rest, name) else ""


def _in_another_case(rest: str, name: str) -> bool:
    loose, wanted = _loose(rest), _loose(name)
    for start, end in _places(loose, wanted):
        if _joins(loose[start - 1 : start]) or _joins(loose[end : end + 1]):
            continue
        if rest[start:end] != name and wanted in _OF_SENTENCES:
            continue
        beside = rest[max(start - 1, 0) : start] + rest[end : end + 1]
        if len(name) > 1 and not (len(name) <= _SHORT and "-" in beside):
            return True
    return False


def _loose(text: str) -> str:
    """In small letters and with spaces for hyphens, each sign in its place."""
    return fold(text).replace("-", " ")


def _within(rest: str, name: _Name) -> bool:
    text, wanted = fold(rest), fold(name.text)
    letters = sum(sign.isalnum() for sign in wanted)
    for start, end in _places(text, wanted):
        before, after = text[start - 1 : start], text[end : end + 1]
        if (before.isdigit() and wanted[0].isdigit()) or (after.isdigit() and wanted[-1].isdigit()):
            continue  # IL1 is not in IL10
        joined = _joins(before) + _joins(after)
        at_edge = _SHORT if name.code and rest[start:end] == name.text else _EDGE
        least = at_edge if joined == 1 else _ANYWHERE
        if joined and letters >= least:
            return True
    return False


def _places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + 1)


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


# Abbreviations

_BRACKETED = re.compile(r"[(\[]([^()\[\]]{1,200})[)\]]")
_LAST_WORD = re.compile(r"\S+(?=\s*$)")


def _abbreviated(before: str, answer: str, after: str) -> bool:
    """Whether a bracket has the short form of words with the answer, or the answer is the short or the long form."""
    text = before + answer + after
    start, end = len(before), len(before) + len(answer)
    return any(
        (short[0] <= start and end <= short[1]) or (long[0] < end and start < long[1]) for long, short in _pairs(text)
    )


def _pairs(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Places of long forms and of their short forms, one of the two in brackets behind the other."""
    for bracket in _BRACKETED.finditer(text):
        inside = re.split("[;,]", bracket[1])[0]
        at = bracket.start(1)
        length = _long_form(inside, text[: bracket.start()])
        if length:
            yield (bracket.start() - length, bracket.start()), (at, at + len(inside))
        last = _LAST_WORD.search(text, 0, bracket.start())
        if last and _long_form(last[0], inside) == len(inside.strip()):
            yield (at, at + len(inside)), last.span()


def _long_form(short: str, text: str) -> int:
    """Characters at the end of *text* whose letters *short* abbreviates, 0 for none (Schwartz and Hearst, 2003).

    From the right, each letter or digit of the short form must be found in turn, the first at the start of a word.
    """
    short = short.strip()
    signs = [sign for sign in short.lower() if sign.isalnum()]
    words = len(short.split())
    marked = any(sign.isupper() for sign in short) or any(sign.isdigit() for sign in short)
    if not (2 <= len(short) <= 10 and words <= 2 and marked and signs and any(sign.isalpha() for sign in signs)):
        return 0
    small = fold(text)
    at = len(text)
    for number in range(len(signs) - 1, -1, -1):
        at = small.rfind(signs[number], 0, at)
        while at > 0 and number == 0 and text[at - 1].isalnum():
            at = small.rfind(signs[0], 0, at)
        if at < 0:
            return 0
    long = text[at:].strip()
    fits = len(long) > len(short) and len(long.split()) <= min(len(signs) + 5, 2 * len(signs))
    return len(text) - at if fits and short.lower() not in map(str.lower, long.split()) else 0

"""Sentences that give away their masked answer, so that a model can fill it without knowledge.

Sentences with a listed name of the answer are dropped earlier, as they have several names. This module finds the rest:
``tp53`` for TP53, aspirins, proinsulin, and distinctive words of long names and their families (``kinship``). It also
finds other names of the answer in such forms, and short forms next to long ones (``abbreviations``).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from fathom.building.cloze.abbreviations import abbreviated, spelt_out
from fathom.building.cloze.kinship import FUNCTION_WORDS, DistinctiveWords
from fathom.building.cloze.typography import fold, pairs_in, plain, without_greek

LEAKS = {
    "case": "says its answer in another case or with other hyphens",
    "stem": "says its answer in another form of the word",
    "sub-string": "says its answer within another word",
    "kin": "says a word of its answer's family",
    "part": "says a word that tells its answer from others",
    "alias": "says another name of its answer",
    "abbreviation": "abbreviates its answer in brackets",
    "initials": "has its answer in short or in full without brackets",
}
"""Kind, as in the option ``keep`` → why a sentence is dropped. The first that fits counts."""
GAP = "\n"
"""Replaces the answer: no word extends over it."""

_SHORT = 3
"""Names of up to so many letters are also prefixes ("co-", "non-"): next to a hyphen they do not count."""
_EDGE, _ANYWHERE = 5, 7
"""Minimum letters of a name that begins or ends a longer word, or occurs within one: shorter ones occur by chance, as
"iron" in "environment" and "tin" in "testing"."""
_FORMS = {ending: f"(?:{others})" for ending, others in pairs_in("endings").items()}
"""Endings of the last word of a name and their alternatives: English and Latin plurals, and verbs."""
_SHORTEST_STEM = 3
_LAST_LETTERS = re.compile(r"[^\W\d_]+$")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]+|\d+")
_JOINTED = re.compile(r"(?=.*[\d-])[^\W_][\w -]*")
"""Names whose parts may also be written separately, joined or hyphenated."""
_SEVERAL = re.compile(r"\w\W+\w")


class _Name(NamedTuple):
    """A name prepared for the search.

    :param code: "TP53", "mRNA": its capitals are part of it, so that even a short one is no other word.
    :param stem: lower-case prefix of all its forms; "" if it is too short to have any.
    :param prefix: lower-case text in all sentences with any form of the name; to look for it first is faster.
    """

    text: str
    code: bool
    stem: str
    prefix: str


class _Rest(NamedTuple):
    """A sentence without its answer, in lower case (``small``), and with spaces for hyphens (``loose``)."""

    text: str
    small: str
    loose: str

    def without(self, forms: re.Pattern[str]) -> _Rest:
        return _rest(forms.sub(GAP, self.text))


def _rest(text: str) -> _Rest:
    small = fold(text)
    return _Rest(text, small, small.replace("-", " "))


class Leaks:
    """:param names: of each entity, by number, the main one first.
    :param keep: kinds to ignore.
    """

    def __init__(self, names: Sequence[Sequence[str]], keep: Container[str]) -> None:
        self._names, self._keep = names, keep
        wanted = not all(kind in keep for kind in ("kin", "part", "alias"))
        self._words = DistinctiveWords([*map(_normalised, entity_names)] for entity_names in names) if wanted else None

    def kind(self, before: str, after: str, surface: str, entity: int) -> str:
        """Return the kind of leak in a sentence with *surface* for its answer, "" for none."""
        before, surface, after = _normalised(before), _normalised(surface), _normalised(after)
        rest = _rest(f"{before}{GAP}{after}")
        names = dict.fromkeys((surface, *map(_normalised, self._names[entity])))
        main = {surface, _normalised(self._names[entity][0])}
        for name in names:
            kind = self._find(rest, _prepare(name), self._keep if name in main else ())
            if kind and name in main:
                return kind
            if kind and "alias" not in self._keep:
                return "alias"
        if ("(" in rest.text or "[" in rest.text) and abbreviated(before, surface, after):
            return "" if "abbreviation" in self._keep else "abbreviation"
        return "initials" if "initials" not in self._keep and spelt_out(before, surface, after) else ""

    def _find(self, rest: _Rest, name: _Name, keep: Container[str]) -> str:
        """Return how the text contains a name. What *keep* allows does not count as a looser kind either."""
        if name.prefix in rest.small:
            cased = _in_another_case(rest, name.text) or _joined_otherwise(rest, name.text)
            if cased and "case" not in keep:
                return "case"
            formed = False
            if name.stem and name.stem in rest.small:
                forms = _forms(name.text, code=name.code)
                formed = forms.search(rest.text) is not None
                if formed and "stem" not in keep:
                    return "stem"
                rest = rest.without(forms)
            within = _within(rest, name)
            if within and "sub-string" not in keep:
                return "sub-string"
            if cased or formed or within:
                return ""
        kind = "part" if _SEVERAL.search(name.text) else "kin"
        words = None if kind in keep else self._words
        return kind if words and words.occur(name.text, rest.text, rest.small) else ""


def _normalised(text: str) -> str:
    return without_greek(plain(text))


@lru_cache(maxsize=1 << 16)
def _prepare(name: str) -> _Name:
    marks = sum(sign.isdigit() or sign.isupper() for sign in name)
    code = marks >= 2 and " " not in name
    last = _LAST_LETTERS.search(name)
    first = _LETTERS_OR_DIGITS.search(name)
    prefix = fold(first[0][:_SHORTEST_STEM]) if first else ""
    if len(name if code else last[0] if last else "") < _SHORTEST_STEM:
        return _Name(name, code, "", prefix)
    cut = 0 if code else max(len(ending) for ending, _ in _endings(name))
    return _Name(name, code, fold(name[: len(name) - cut]), prefix)


def _endings(name: str) -> Iterator[tuple[str, str]]:
    letters = _LAST_LETTERS.search(name)
    for ending, instead in _FORMS.items():
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


def _in_another_case(rest: _Rest, name: str) -> bool:
    text, wanted = rest.text, fold(name).replace("-", " ")
    for start, end in _places(rest.loose, wanted):
        if _joins(text[start - 1 : start]) or _joins(text[end : end + 1]):
            continue
        if text[start:end] != name and wanted in FUNCTION_WORDS:
            continue
        neighbours = text[max(start - 1, 0) : start] + text[end : end + 1]
        if len(name) > 1 and not (len(name) <= _SHORT and "-" in neighbours):
            return True
    return False


def _joined_otherwise(rest: _Rest, name: str) -> bool:
    """Return whether the text has a name with other joints: IL6 or "IL 6" for IL-6."""
    parts = _LETTERS_OR_DIGITS.findall(name)
    if len(parts) < 2 or sum(map(len, parts)) < _SHORT or fold(parts[0]) not in rest.small:
        return False
    ways = _joints(tuple(parts)) if _JOINTED.fullmatch(name) else None
    return ways is not None and ways.search(rest.text) is not None


@lru_cache(maxsize=1 << 12)
def _joints(parts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){'[- ]?'.join(parts)}(?!\w)", re.IGNORECASE)


def _within(rest: _Rest, name: _Name) -> bool:
    text, wanted = rest.small, fold(name.text)
    letters = sum(sign.isalnum() for sign in wanted)
    for start, end in _places(text, wanted):
        before, after = text[start - 1 : start], text[end : end + 1]
        if (before.isdigit() and wanted[0].isdigit()) or (after.isdigit() and wanted[-1].isdigit()):
            continue  # IL1 is not in IL10
        joined = _joins(before) + _joins(after)
        at_edge = _SHORT if name.code and rest.text[start:end] == name.text else _EDGE
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

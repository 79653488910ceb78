"""Short forms next to their long forms: in brackets (Schwartz and Hearst, 2003), and without.

Without brackets, each word of an adjacent long form must give its first letter ("the promyelocytic leukemia gene,
PML"), or the short form consists of the first letters of at least three words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.building.cloze.kinship import CLASS_WORDS, FUNCTION_WORDS
from fathom.building.cloze.typography import fold

_BRACKETED = re.compile(r"[(\[]([^()\[\]]{1,200})[)\]]")
_LAST_WORD = re.compile(r"\S+(?=\s*$)")
_NUMBERED = re.compile(r"([A-Za-z]{2,})-?\d+")
"""CCK-8: the number may abbreviate a word ("octapeptide")."""


def abbreviated(before: str, answer: str, after: str) -> bool:
    """Return whether a bracket abbreviates words with the answer, or the answer is the short or the long form."""
    text = before + answer + after
    start, end = len(before), len(before) + len(answer)
    code = " " not in answer and sum(map(str.isupper, answer)) >= 2
    for long, short in _pairs(text):
        if short[0] <= start and end <= short[1]:
            return True
        # A code is given away only by itself: "positron emission CT (PET)" does not reveal CT.
        if long[0] < end and start < long[1] and (not code or answer in text[slice(*short)]):
            return True
    return False


def _pairs(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Find long forms and their short forms, one of the two in brackets after the other."""
    for bracket in _BRACKETED.finditer(text):
        inside = re.split("[;,]", bracket[1])[0]
        at = bracket.start(1)
        length = _long_form(inside, text[: bracket.start()])
        if not length and (numbered := _NUMBERED.fullmatch(inside.strip())):
            length = _long_form(numbered[1], text[: bracket.start()])
        if length:
            yield (bracket.start() - length, bracket.start()), (at, at + len(inside))
        last = _LAST_WORD.search(text, 0, bracket.start())
        if last and _long_form(last[0], inside) == len(inside.strip()):
            yield (at, at + len(inside)), last.span()


def _long_form(short: str, text: str) -> int:
    """Return how many characters at the end of *text* are abbreviated by *short* (Schwartz and Hearst, 2003).

    From the right, each letter or digit of the short form must occur in turn, the first at the start of a word.
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


_WORD = re.compile(r"[^\W_]+")
_SIGN_OR_WORD = re.compile(r"[^\W_]+|[^\w\s-]")
_SHORT_FORM = re.compile(r"[A-Z][A-Za-z]*[A-Z]s?")
_FEWEST = 3
"""Minimum letters of a short form without brackets."""
_NEXT_TO_BEFORE = re.compile(r"(?:,|\bor|\bcalled|\bnamed|\btermed|\bdesignated|=)\s*(?:the )?$")
_NEXT_TO_AFTER = re.compile(r"\s*(?:,|or\b|=)\s*(?:or |the |an? )*")
_CLAUSE = re.compile(r"[^,;:.()\[\]]*")
_LONGEST = 10
"""Maximum words of a long form."""


def spelt_out(before: str, answer: str, after: str) -> bool:
    """Return whether the sentence has the answer's short or long form without brackets."""
    words = _WORD.findall(answer)
    if len(words) == 1:
        short = words[0].removesuffix("s")
        if not (_SHORT_FORM.fullmatch(words[0]) and len(short) >= _FEWEST and fold(short) not in FUNCTION_WORDS):
            return False
        return _is_adjacent(fold(short), before, after) or any(
            _by_initials(fold(short), part) for part in (before, after)
        )
    first = "".join(word[0] for word in words if fold(word) not in FUNCTION_WORDS).upper()
    text = f"{before}\n{after}"
    if len(first) < _FEWEST or not first.isalpha() or first[:_FEWEST] not in text:
        return False
    ways = "|".join(first[:length] for length in range(_FEWEST, len(first) + 1))
    return re.search(rf"(?<!\w)(?:{ways})s?(?!\w)", text) is not None


def _is_adjacent(short: str, before: str, after: str) -> bool:
    """Return whether the long form ends right before the answer, or begins right after it."""
    if mark := _NEXT_TO_BEFORE.search(before):
        words = fold(re.split(r"[,;:.()\[\]]", before[: mark.start()])[-1]).split()[-_LONGEST:]
        ends = [words, words[:-1]] if words and words[-1] in CLASS_WORDS else [words]
        fewest = 2 if mark[0].startswith(",") else 1  # a list has commas, too
        if any(_spells(short, end[at:]) for end in ends for at in range(len(end) - fewest + 1)):
            return True
    if mark := _NEXT_TO_AFTER.match(after):
        clause = _CLAUSE.match(after, mark.end())
        words = fold(clause[0]).split()[:_LONGEST] if clause else []
        fewest = 2 if "," in mark[0] else 1
        return any(_spells(short, words[:length]) for length in range(fewest, len(words) + 1))
    return False


def _spells(short: str, words: Sequence[str]) -> bool:
    """Return whether each word gives its first letter and perhaps others, in turn; function words may give none."""
    counts = {0}  # how many letters the words so far may give
    for word in words:
        before, counts = counts, set() if word not in FUNCTION_WORDS else counts.copy()
        for count in before:
            counts.update(_extend(word, short, count))
    return len(short) in counts


def _extend(word: str, short: str, count: int) -> Iterator[int]:
    at = 0 if word.startswith(short[count : count + 1] or "\n") else -1
    while at >= 0:
        count += 1
        yield count
        at = word.find(short[count], at + 1) if count < len(short) else -1


def _by_initials(short: str, text: str) -> bool:
    """Return whether consecutive plain words, ignoring "of", have these first letters. No code or function word is
    plain.
    """
    firsts = []
    for word in _SIGN_OR_WORD.findall(text.replace(" of ", " ")):
        is_plain = word[1:].islower() and fold(word) not in FUNCTION_WORDS
        firsts.append(fold(word[0]) if is_plain else ".")
    return short in "".join(firsts)

"""Short forms beside their long forms: in brackets (Schwartz and Hearst, 2003), and without.

Without brackets more is asked: each word of the long form gives its first letter, and the two stand beside each other
("the promyelocytic leukemia gene, PML"), or the short form is nothing but the first letters of three words and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.building.cloze.kinship import CLASS, LITTLE
from fathom.building.cloze.typography import fold

_BRACKETED = re.compile(r"[(\[]([^()\[\]]{1,200})[)\]]")
_LAST_WORD = re.compile(r"\S+(?=\s*$)")
_NUMBERED = re.compile(r"([A-Za-z]{2,})-?\d+")
"""CCK-8: the number may stand for a word ("octapeptide")."""

# In brackets


def abbreviated(before: str, answer: str, after: str) -> bool:
    """Whether a bracket has the short form of words with the answer, or the answer is the short or the long form."""
    text = before + answer + after
    start, end = len(before), len(before) + len(answer)
    code = " " not in answer and sum(map(str.isupper, answer)) >= 2
    for long, short in _pairs(text):
        if short[0] <= start and end <= short[1]:
            return True
        # What stands for a code is the code itself: CT is not told by "positron emission CT (PET)".
        if long[0] < end and start < long[1] and (not code or answer in text[slice(*short)]):
            return True
    return False


def _pairs(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Places of long forms and of their short forms, one of the two in brackets behind the other."""
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


# Without brackets

_WORD = re.compile(r"[^\W_]+")
_SIGN_OR_WORD = re.compile(r"[^\W_]+|[^\w\s-]")
_SHORT_FORM = re.compile(r"[A-Z][A-Za-z]*[A-Z]s?")
_FEWEST = 3
"""Letters of a short form."""
_BESIDE_BEFORE = re.compile(r"(?:,|\bor|\bcalled|\bnamed|\btermed|\bdesignated|=)\s*(?:the )?$")
_BESIDE_AFTER = re.compile(r"\s*(?:,|or\b|=)\s*(?:or |the |an? )*")
_CLAUSE = re.compile(r"[^,;:.()\[\]]*")
_LONGEST = 10
"""Words that a long form may stand among."""


def spelt_out(before: str, answer: str, after: str) -> bool:
    """Whether the answer's short or long form stands in the sentence without a bracket."""
    words = _WORD.findall(answer)
    if len(words) == 1:
        short = words[0].removesuffix("s")
        if not (_SHORT_FORM.fullmatch(words[0]) and len(short) >= _FEWEST and fold(short) not in LITTLE):
            return False
        return _beside(fold(short), before, after) or any(_by_initials(fold(short), part) for part in (before, after))
    first = "".join(word[0] for word in words if fold(word) not in LITTLE).upper()
    text = f"{before}\n{after}"
    if len(first) < _FEWEST or not first.isalpha() or first[:_FEWEST] not in text:
        return False
    ways = "|".join(first[:length] for length in range(_FEWEST, len(first) + 1))
    return re.search(rf"(?<!\w)(?:{ways})s?(?!\w)", text) is not None


def _beside(short: str, before: str, after: str) -> bool:
    """Whether the long form ends right before the answer, or begins right behind it."""
    if mark := _BESIDE_BEFORE.search(before):
        words = fold(re.split(r"[,;:.()\[\]]", before[: mark.start()])[-1]).split()[-_LONGEST:]
        ends = [words, words[:-1]] if words and words[-1] in CLASS else [words]
        fewest = 2 if mark[0].startswith(",") else 1  # a list has commas, too
        if any(_spells(short, own[at:]) for own in ends for at in range(len(own) - fewest + 1)):
            return True
    if mark := _BESIDE_AFTER.match(after):
        clause = _CLAUSE.match(after, mark.end())
        words = fold(clause[0]).split()[:_LONGEST] if clause else []
        fewest = 2 if "," in mark[0] else 1
        return any(_spells(short, words[:length]) for length in range(fewest, len(words) + 1))
    return False


def _spells(short: str, words: Sequence[str]) -> bool:
    """Whether the letters are, in turn, the first of each word and others within it; little words may give none."""
    spelt = {0}  # letters that the words so far may have given
    for word in words:
        before, spelt = spelt, set() if word not in LITTLE else spelt.copy()
        for given in before:
            spelt.update(_given_by(word, short, given))
    return len(short) in spelt


def _given_by(word: str, short: str, given: int) -> Iterator[int]:
    """How many letters there may be with those of the word."""
    at = 0 if word.startswith(short[given : given + 1] or "\n") else -1
    while at >= 0:
        given += 1
        yield given
        at = word.find(short[given], at + 1) if given < len(short) else -1


def _by_initials(short: str, text: str) -> bool:
    """Whether it is the first letters of words that follow each other, but for "of": no sign, code or little word."""
    firsts = []
    for word in _SIGN_OR_WORD.findall(text.replace(" of ", " ")):
        is_plain = word[1:].islower() and fold(word) not in LITTLE
        firsts.append(fold(word[0]) if is_plain else ".")
    return short in "".join(firsts)

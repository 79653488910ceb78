"""Which option a chat model's reply names.

A reply that is nothing but an option, by letter or text, is *plain*. Where asked for, three more forms are read, each
of which claims an option in so many words: *boxed* (``\\boxed{b}``), *stated* ("… Final answer: b"), *explained*
("(b) sports league" and then why). Claims of two options are ambiguous; what claims none is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from fathom.prompts.choices import AMBIGUOUS, UNPARSED
from fathom.scoring.answers import answer_key

PLAIN, BOXED, STATED, EXPLAINED = FORMS = ("plain", "boxed", "stated", "explained")

_LEAD = re.compile(r"(?:the )?(?:correct |right |best )?(?:answer|option|choice)\b(?: is\b)?\s*:?\s*", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*")
_LETTER = re.compile(r"\(?([a-zA-Z])\)?(?:[.:)]\s*|\s+|$)(.*)", re.DOTALL)
_BOX = re.compile(r"\\boxed\{(?:\\(?:text|textbf|mathrm|mathbf)\{)?([^{}]*)\}")
_STATEMENT = re.compile(r"\b(?:answer|option|choice)(?: is\b\s*:?|\s*:)[ \t]*(?:option |choice )?(.*)", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\(([a-zA-Z])\)")
_AT_START = re.compile(r"\(([a-zA-Z])\)|([a-zA-Z])(?=[.:;)](?!\w)|$)")
_SEVERAL = re.compile(r"\(?([a-zA-Z])\)?(?:\s*(?:,|/|\bor\b|\band\b)\s*\(?([a-zA-Z])\)?)+\.?")


class Reading(NamedTuple):
    """What a reply was taken for.

    :param place: of the option that it names; None where it names none, or not one alone.
    :param form: one of :data:`FORMS`; "" without a place.
    :param reason: why there is no place; "" where there is.
    """

    place: int | None
    form: str = ""
    reason: str = ""


def read_reply(reply: str, names: Sequence[str], strict: bool = False) -> Reading:
    """The option that a reply names, and how.

    :param names: of the options, in the order in which they were shown.
    :param strict: read plain replies alone.
    """
    place = chosen(reply, names)
    if place is not None:
        return Reading(place, PLAIN)
    claims = {} if strict else _claims(_EMPHASIS.sub(r"\1", reply), names)
    places = {place for found in claims.values() for place in found}
    if len(places) > 1 or (not places and _names_several(reply, names)):
        return Reading(None, reason=AMBIGUOUS)
    form = next((form for form, found in claims.items() if found), "")
    return Reading(places.pop(), form) if places else Reading(None, reason=UNPARSED)


def chosen(reply: str, names: Sequence[str]) -> int | None:
    """The place of the option that a plain reply names; None where it names none, or not one alone.

    Understood are a letter ("b", "(B)", "b."), an option's whole text ("sports league", as :func:`answer_key` evens it
    out), and both together where they agree, each also behind "The answer is", "Option" and the like, and between
    quotation marks or asterisks; letter case does not matter. A reply that says anything besides is not understood:
    nobody guesses what it means.
    """
    said = _bare(_EMPHASIS.sub(r"\1", reply))
    lead = _LEAD.match(said)
    keys = [answer_key(name) for name in names]
    found = {place for text in {said, _bare(said[lead.end() :]) if lead else said} for place in _named(text, keys)}
    return found.pop() if len(found) == 1 else None


def _claims(reply: str, names: Sequence[str]) -> dict[str, set[int]]:
    """Places of the options that each form claims."""
    keys = [answer_key(name) for name in names]
    boxed = (place for box in _BOX.findall(reply) for place in _named(_bare(box), keys))
    statements = (place for line in _STATEMENT.findall(_BOX.sub("", reply)) for place in _at_start(line, keys))
    return {BOXED: set(boxed), STATED: set(statements), EXPLAINED: set(_explained(reply.strip(), keys))}


def _at_start(said: str, keys: Sequence[str]) -> Iterator[int]:
    """What a line claims that should begin with an option: this one, and others in brackets in the same sentence."""
    said = _bare(said)
    if found := _named(said, keys):
        yield from found
        return
    letter = _AT_START.match(said)
    if letter is None:
        return
    yield from _places(letter[1] or letter[2], keys)
    sentence = re.split(r"[.!?](?:\s|$)", said[letter.end() :], maxsplit=1)[0]
    yield from (place for key in _IN_BRACKETS.findall(sentence) for place in _places(key, keys))
    # "(b) bank" where (b) is another option claims both.
    yield from (place for place, key in enumerate(keys) if key == answer_key(sentence))


def _explained(said: str, keys: Sequence[str]) -> Iterator[int]:
    """A first line that is an option, or an option's letter with its own text and then more."""
    first, _, rest = said.partition("\n")
    found = _named(_bare(first), keys)
    if found and rest.strip():
        yield from found
        return
    letter = _AT_START.match(said)
    own = _places(letter[1] or letter[2], keys) if letter else []
    if letter is None or not own:
        return
    more = said[letter.end() :].lstrip(".:;) ").casefold()
    if re.match(re.escape(keys[own[0]]) + r"(?!\w)", " ".join(more.split())):
        yield from own
        yield from (place for other in _IN_BRACKETS.findall(more) for place in _places(other, keys))


def _names_several(reply: str, names: Sequence[str]) -> bool:
    """ "a or b", and "(b) bank" where (b) is another option."""
    keys, said = [answer_key(name) for name in names], _bare(reply)
    if _SEVERAL.fullmatch(said):
        letters = re.findall(r"\b[a-zA-Z]\b", said)
        return len({letter.lower() for letter in letters if _places(letter, keys)}) > 1
    letter = _IN_BRACKETS.match(said)
    return letter is not None and bool(_places(letter[1], keys)) and answer_key(said[letter.end() :]) in keys


def _places(letter: str, keys: Sequence[str]) -> list[int]:
    place = ascii_lowercase.find(letter.lower())
    return [place] if 0 <= place < len(keys) else []


def _named(said: str, keys: Sequence[str]) -> list[int]:
    """Places of the options that *said* names, by their text or their letter.

    :param keys: of the options.
    """
    found = [place for place, key in enumerate(keys) if key == answer_key(said)]
    letter = _LETTER.fullmatch(said)
    place = ascii_lowercase.index(letter[1].lower()) if letter else len(keys)
    if letter and place < len(keys) and (not letter[2] or answer_key(_bare(letter[2])) == keys[place]):
        found.append(place)
    return found


def _bare(text: str) -> str:
    return text.strip().strip("*\"'“”‘’„«»`").strip()

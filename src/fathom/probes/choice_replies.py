"""Reading of the option that a chat model's reply names.

A reply that is only an option, by letter or text, is *plain*. Three more forms claim an option: *boxed*
(``\\boxed{b}``), *stated* ("… Final answer: b") and *explained* ("(b) sports league", then an explanation). Claims of
two options are ambiguous; a reply without a claim stays unparsed.
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
    """The option that a reply names.

    :param place: place of the option; None if the reply names none or several.
    :param form: one of :data:`FORMS`; "" without a place.
    :param reason: why there is no place, or "".
    """

    place: int | None
    form: str = ""
    reason: str = ""


def read_reply(reply: str, names: Sequence[str], strict: bool = False) -> Reading:
    """Read the option that a reply names.

    :param names: names of the options, in display order.
    :param strict: read plain replies only.
    """
    place = chosen(reply, names)
    if place is not None:
        return Reading(place, PLAIN)
    claims = {} if strict else _claims(_EMPHASIS.sub(r"\1", reply), names)
    places = {place for claimed in claims.values() for place in claimed}
    if len(places) > 1 or (not places and _names_several(reply, names)):
        return Reading(None, reason=AMBIGUOUS)
    form = next((form for form, claimed in claims.items() if claimed), "")
    return Reading(places.pop(), form) if places else Reading(None, reason=UNPARSED)


def chosen(reply: str, names: Sequence[str]) -> int | None:
    """Return the place of the option that a plain reply names, or None if it names none or several.

    A plain reply is a letter ("b", "(B)", "b."), an option's whole text (normalised by :func:`answer_key`), or both if
    they agree. It may follow "The answer is", "Option" and the like, and may have quotation marks or asterisks. Letter
    case does not matter. A reply with any other text is not plain.
    """
    text = _bare(_EMPHASIS.sub(r"\1", reply))
    lead = _LEAD.match(text)
    keys = [answer_key(name) for name in names]
    texts = {text, _bare(text[lead.end() :]) if lead else text}
    places = {place for text in texts for place in _named(text, keys)}
    return places.pop() if len(places) == 1 else None


def _claims(reply: str, names: Sequence[str]) -> dict[str, set[int]]:
    """Return the places of the options that each form claims."""
    keys = [answer_key(name) for name in names]
    boxed = (place for box in _BOX.findall(reply) for place in _named(_bare(box), keys))
    statements = (place for line in _STATEMENT.findall(_BOX.sub("", reply)) for place in _at_start(line, keys))
    return {BOXED: set(boxed), STATED: set(statements), EXPLAINED: set(_explained(reply.strip(), keys))}


def _at_start(text: str, keys: Sequence[str]) -> Iterator[int]:
    """Yield the options that a line claims: the one at its start, and others in brackets in the same sentence."""
    text = _bare(text)
    if places := _named(text, keys):
        yield from places
        return
    letter = _AT_START.match(text)
    if letter is None:
        return
    yield from _places(letter[1] or letter[2], keys)
    sentence = re.split(r"[.!?](?:\s|$)", text[letter.end() :], maxsplit=1)[0]
    yield from (place for key in _IN_BRACKETS.findall(sentence) for place in _places(key, keys))
    # "(b) bank" where (b) is another option claims both.
    yield from (place for place, key in enumerate(keys) if key == answer_key(sentence))


def _explained(text: str, keys: Sequence[str]) -> Iterator[int]:
    """Yield the option if it is the first line, or if its letter and text are followed by more text."""
    first, _, rest = text.partition("\n")
    places = _named(_bare(first), keys)
    if places and rest.strip():
        yield from places
        return
    letter = _AT_START.match(text)
    own = _places(letter[1] or letter[2], keys) if letter else []
    if letter is None or not own:
        return
    more = text[letter.end() :].lstrip(".:;) ").casefold()
    if re.match(re.escape(keys[own[0]]) + r"(?!\w)", " ".join(more.split())):
        yield from own
        yield from (place for other in _IN_BRACKETS.findall(more) for place in _places(other, keys))


def _names_several(reply: str, names: Sequence[str]) -> bool:
    """Return whether a reply is like "a or b", or like "(b) bank" where (b) is another option."""
    keys, text = [answer_key(name) for name in names], _bare(reply)
    if _SEVERAL.fullmatch(text):
        letters = re.findall(r"\b[a-zA-Z]\b", text)
        return len({letter.lower() for letter in letters if _places(letter, keys)}) > 1
    letter = _IN_BRACKETS.match(text)
    return letter is not None and bool(_places(letter[1], keys)) and answer_key(text[letter.end() :]) in keys


def _places(letter: str, keys: Sequence[str]) -> list[int]:
    place = ascii_lowercase.find(letter.lower())
    return [place] if 0 <= place < len(keys) else []


def _named(text: str, keys: Sequence[str]) -> list[int]:
    """Return the places of the options that a text names by their text or letter."""
    places = [place for place, key in enumerate(keys) if key == answer_key(text)]
    letter = _LETTER.fullmatch(text)
    place = ascii_lowercase.index(letter[1].lower()) if letter else len(keys)
    if letter and place < len(keys) and (not letter[2] or answer_key(_bare(letter[2])) == keys[place]):
        places.append(place)
    return places


def _bare(text: str) -> str:
    return text.strip().strip("*\"'“”‘’„«»`").strip()

"""Templates turn a subject and an answer into a prompt that knows where both stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

SUBJECT, ANSWER = "[X]", "[Y]"
_SLOTS = re.compile(r"(\[X\]|\[Y\])")


class Span(NamedTuple):
    """Characters [start, end) of a prompt."""

    start: int
    end: int


class Prompt(NamedTuple):
    """A text to score.

    :param subject: where the subject stands, if it does.
    :param answer: where the answer stands.
    :param context: so many characters in front are given and never scored.
    """

    text: str
    subject: tuple[Span, ...]
    answer: tuple[Span, ...]
    context: int = 0

    def behind(self, before: str) -> Prompt:
        """The same text with *before* in front, which is given."""
        return Prompt(
            before + self.text,
            tuple(Span(span.start + len(before), span.end + len(before)) for span in self.subject),
            tuple(Span(span.start + len(before), span.end + len(before)) for span in self.answer),
            len(before) + self.context,
        )


class Sentence(NamedTuple):
    """A natural sentence that says one fact: a template owned by one query.

    :param text: with ``[Y]`` where the answer stands, once.
    :param surface: the words that stood there, "" if unknown.
    """

    text: str
    surface: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with the places ``[X]`` (subject) and ``[Y]`` (answer), as in LAMA and BEAR.

    :param natural: somebody's own words: its letters stay as they are ("mTOR inhibits [Y].").
    """

    text: str
    natural: bool = False

    def faults(self) -> list[str]:
        """What is wrong with it, in words; empty where nothing is."""
        if ANSWER not in self.text:
            return [f"template {self.text!r} has no {ANSWER}: write {ANSWER} where the answer stands"]
        return []

    def fill(self, subject: str, answer: str, *, capitalize: bool = True) -> Prompt:
        """Put both in their places.

        :param capitalize: the first letter of a template becomes upper case, as lm-pub-quiz does; not of a natural
            sentence.
        """
        text = ""
        spans: dict[str, list[Span]] = {SUBJECT: [], ANSWER: []}
        values = {SUBJECT: subject, ANSWER: answer}
        for part in _parts(self.text):
            value = values.get(part, part)
            if part in spans:
                spans[part].append(Span(len(text), len(text) + len(value)))
            text += value
        if capitalize and not self.natural:
            text = capitalized(text)
        return Prompt(text, tuple(spans[SUBJECT]), tuple(spans[ANSWER]))

    def question(self, subject: str, *, capitalize: bool = True) -> str:
        """The template with the subject in place and ``[Y]`` left standing: what a prediction row records."""
        return self.fill(subject, ANSWER, capitalize=capitalize).text


@lru_cache(256)
def _parts(template: str) -> tuple[str, ...]:
    """A template is filled with many answers, one after another."""
    return tuple(_SLOTS.split(template))


def capitalized(text: str) -> str:
    """First character in upper case, as long as that is one character ("ß" stays: "SS" would shift the spans)."""
    first = text[:1].upper()
    return first + text[1:] if len(first) == 1 else text

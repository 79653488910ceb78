"""Templates, which turn a subject and an answer into a prompt with the spans of both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fathom.base.reading.bounds import PROMPT

SUBJECT, ANSWER = "[X]", "[Y]"
_SLOTS = re.compile(r"(\[X\]|\[Y\])")


class Span(NamedTuple):
    """Characters [start, end) of a prompt."""

    start: int
    end: int


class Prompt(NamedTuple):
    """A text to score. :param context: number of characters at the start that are given and never scored."""

    text: str
    subject: tuple[Span, ...]
    answer: tuple[Span, ...]
    context: int = 0

    def with_context(self, before: str) -> Prompt:
        """Return the prompt with *before* as context in front."""
        return Prompt(
            before + self.text,
            tuple(Span(span.start + len(before), span.end + len(before)) for span in self.subject),
            tuple(Span(span.start + len(before), span.end + len(before)) for span in self.answer),
            len(before) + self.context,
        )

    def without_space(self) -> Prompt:
        """Return the prompt without the white space before its answer, if it has one answer."""
        if len(self.answer) != 1:
            return self
        start = self.answer[0].start
        end = len(self.text[:start].rstrip())

        def moved(spans: tuple[Span, ...]) -> tuple[Span, ...]:
            return tuple(Span(*(at - (start - end) if at >= start else at for at in span)) for span in spans)

        return self._replace(
            text=self.text[:end] + self.text[start:], subject=moved(self.subject), answer=moved(self.answer)
        )


class Sentence(NamedTuple):
    """A natural sentence that states one fact: a template of one query.

    :param text: with ``[Y]`` in place of the answer, once.
    :param surface: the words that were there, "" if unknown.
    """

    text: str
    surface: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with the places ``[X]`` (subject) and ``[Y]`` (answer), as in LAMA and BEAR.

    :param natural: text from a corpus, whose case is kept ("mTOR inhibits [Y].").

    >>> fathom.Template("The capital of [X] is [Y].").fill("France", "Paris").text
    'The capital of France is Paris.'
    """

    text: str
    natural: bool = False

    def faults(self) -> list[str]:
        """Return what is wrong with it, one text per fault."""
        if len(self.text) > PROMPT.most:
            return [f"template {self.text[:40]!r}…: {PROMPT.fault()}"]
        count = self.text.count(ANSWER)
        if count == 1:
            return []
        has = f"has {ANSWER} {count} times" if count else f"has no {ANSWER}"
        return [f"template {self.text!r} {has}: write {ANSWER} once, in place of the answer"]

    def fill(self, subject: str, answer: str, *, capitalize: bool = True) -> Prompt:
        """Fill in subject and answer.

        :param capitalize: start a template with upper case, as lm-pub-quiz does. Of natural sentences only an answer in
            lower case at the start is changed.
        """
        text = ""
        spans: dict[str, list[Span]] = {SUBJECT: [], ANSWER: []}
        values = {SUBJECT: subject, ANSWER: answer}
        for part in _parts(self.text):
            value = values.get(part, part)
            if part in spans:
                spans[part].append(Span(len(text), len(text) + len(value)))
            text += value
        if capitalize and (not self.natural or (self.text.startswith(ANSWER) and answer.islower())):
            text = capitalized(text)
        return Prompt(text, tuple(spans[SUBJECT]), tuple(spans[ANSWER]))

    def question(self, subject: str, *, capitalize: bool = True) -> str:
        """Return the template with the subject filled in and ``[Y]`` kept, as recorded in predictions."""
        return self.fill(subject, ANSWER, capitalize=capitalize).text


@lru_cache(256)
def _parts(template: str) -> tuple[str, ...]:
    return tuple(_SLOTS.split(template))


def capitalized(text: str) -> str:
    """Return the text with its first character in upper case, unless that changes its length ("ß", "SS")."""
    first = text[:1].upper()
    return first + text[1:] if len(first) == 1 else text

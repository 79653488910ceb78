"""How a query and an answer become one statement: by a relation's template, or behind few-shot lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.data.queries import Query, QuerySet
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.prompts.fewshot import FewShot


def completed(prompt: str, answer: str, *, closing: bool) -> Prompt:
    """A few-shot prompt, which ends "(head, relation,", with a space and its answer.

    :param closing: and ")".
    """
    before = prompt if prompt.endswith(" ") else prompt + " "
    span = Span(len(before), len(before) + len(answer))
    return Prompt(before + answer + (")" if closing else ""), (), (span,))


class Wording(Protocol):
    """One way to put queries into words."""

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        """The statement that each answer makes of *query*."""
        ...

    def question(self, query: Query) -> str:
        """The statement with ``[Y]`` for the answer: what a prediction row records."""
        ...

    def refusal(self, query: Query) -> str | None:
        """Why *query* cannot be put into these words; None where it can."""
        ...


@dataclass(frozen=True)
class TemplateWording:
    """A template of the relation or, where a query has sentences of its own, one of these.

    :param number: which of them.
    """

    data: QuerySet
    number: int
    capitalize: bool

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        """The phrasing with subject and answer in place."""
        template = self.data.phrasings(query)[self.number]
        return [template.fill(query.subject, answer, capitalize=self.capitalize) for answer in answers]

    def question(self, query: Query) -> str:
        """The phrasing with ``[Y]`` for the answer."""
        return self.data.phrasings(query)[self.number].question(query.subject, capitalize=self.capitalize)

    def refusal(self, query: Query) -> str | None:
        """None: a phrasing takes every query."""
        return None


@dataclass(frozen=True)
class FewShotWording:
    """Few-shot lines, "(head, relation," and the answer: figure 11 of the DEER paper.

    :param closing: end with ")", as the lines do; the figure as published shows the answer's name last.
    """

    lines: FewShot
    closing: bool

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        """The lines, the question, and the answer behind it.

        :raises BadInput: the query cannot be asked so (:meth:`refusal`).
        """
        prompt = self.lines.prompt(query)
        return [completed(prompt, answer, closing=self.closing) for answer in answers]

    def question(self, query: Query) -> str:
        """Lines and question with ``[Y]`` for the answer."""
        return self.statements(query, [ANSWER])[0].text

    def refusal(self, query: Query) -> str | None:
        """Why there are no lines for *query*; None where there are."""
        return self.lines.question(query).unscored

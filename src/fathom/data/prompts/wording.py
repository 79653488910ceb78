"""Statements from queries and answers: by a relation's template, or by few-shot lines.

Few-shot lines "(head, relation, tail)" come from a knowledge graph, as in figure 4 of Jinno et al. (DEER). To query
heads they are inverted, "(tail, inverse relation, head)", the word of SimKGC, so that the answer is always last.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.errors import BadInput
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Direction, Query, QuerySet, Relation
from fathom.data.templates import ANSWER, Prompt, Span


def inverse(relation: str) -> str:
    return f"inverse {relation}"


def question_line(subject: str, relation: str, direction: Direction) -> str:
    """Return "(head, relation," or, for the head, "(tail, inverse relation,"."""
    return f"({subject}, {relation if direction == 'tail' else inverse(relation)},"


class Shot(NamedTuple):
    """An example triple: ids, to see whose answer it reveals, and names."""

    head_id: str
    relation_id: str
    tail_id: str
    head: str
    relation: str
    tail: str

    def answers(self, query: Query) -> bool:
        subject_id = self.head_id if query.direction == "tail" else self.tail_id
        return (subject_id, self.relation_id) == (query.subject_id, query.relation)

    def line(self, direction: Direction) -> str:
        """Return the question of that direction with its answer."""
        subject, answer = (self.head, self.tail) if direction == "tail" else (self.tail, self.head)
        return f"{question_line(subject, self.relation, direction)} {answer})"


class FewShotQuestion(NamedTuple):
    """:param unscored: why there is no prompt (*prompt* is then empty), or None."""

    prompt: str
    unscored: str | None


class FewShot:
    """Few-shot prompts of queries.

    :param graph: lines are drawn from its ``train`` split, or from all triples if it has no splits.
    :param per_query: draw other lines for each query.
    :param trailing_space: end the prompt with a space.
    :param description: add a line on the known entity before the question.
    :raises BadInput: too few triples for the lines of each query.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        relations: Mapping[str, Relation],
        queries: Sequence[Query],
        *,
        shots: int = 8,
        seed: int = 0,
        per_query: bool = False,
        trailing_space: bool = False,
        description: bool = False,
    ) -> None:
        self.graph, self.relations = graph, relations
        self.shots, self.seed, self.per_query = shots, seed, per_query
        self.end = " " if trailing_space else ""
        self.pool = graph.training
        self.descriptions = _descriptions(graph, queries) if description else {}
        # More than needed, as lines that answer the query are skipped.
        self.shared = () if per_query else self._draw(f"{seed}", 8 * shots + 64)
        self._check_lines(queries)

    def _check_lines(self, queries: Sequence[Query]) -> None:
        """:raises BadInput: too few lines for each query."""
        faults = (self.question(query).unscored for query in queries if query.unscored is None)
        if not (next(faults, None) and all(faults)):
            return
        every = self._draw(f"{self.seed}", len(self.pool))
        most = max(len(self._not_answering(query, every)) for query in queries if query.unscored is None)
        raise BadInput(
            f"{self.shots} few-shot lines asked for, but {len(self.pool)} triples give at most {most} that do not "
            f"answer the query: give --shots {most}, or facts with templates (a .csv)"
        )

    def question(self, query: Query) -> FewShotQuestion:
        """Return :meth:`prompt`, or the reason why there is none."""
        if query.unscored is not None:
            return FewShotQuestion("", query.unscored)
        try:
            return FewShotQuestion(self.prompt(query), None)
        except BadInput as error:
            return FewShotQuestion("", str(error))

    def prompt(self, query: Query) -> str:
        """Return the prompt. :raises BadInput: too few lines remain that do not answer the query."""
        pool = self._draw(f"{self.seed}|{query.id}", 2 * self.shots + 16) if self.per_query else self.shared
        fit = self._not_answering(query, pool)
        if len(fit) < self.shots:
            fit = self._not_answering(query, self._draw(f"{self.seed}|{query.id}", len(self.pool)))
        if len(fit) < self.shots:
            raise BadInput(f"{self.shots} few-shot lines asked for, {len(fit)} found that do not answer the query")
        lines = [shot.line(query.direction) for shot in fit]
        if query.subject_id in self.descriptions:
            lines.append(f"{query.subject} - {self.descriptions[query.subject_id]}")
        question = question_line(query.subject, self.relations[query.relation].name, query.direction)
        return "\n".join([*lines, question + self.end])

    def _not_answering(self, query: Query, pool: Sequence[Shot]) -> list[Shot]:
        return list(islice((shot for shot in pool if not shot.answers(query)), self.shots))

    def _draw(self, seed: str, count: int) -> tuple[Shot, ...]:
        """Draw *count* triples or all there are, without entities that have no name."""
        rows = np.array(random.Random(seed).sample(self.pool, min(len(self.pool), count)), dtype=np.int64)
        graph = self.graph
        heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
        relations = graph.relations.take(graph.relation[rows])
        columns = [side.column(name).to_pylist() for name in ("id", "name") for side in (heads, relations, tails)]
        shots = (Shot(*row) for row in zip(*columns, strict=True))
        return tuple(shot for shot in shots if shot.head.strip() and shot.relation.strip() and shot.tail.strip())


def _descriptions(graph: KnowledgeGraph, queries: Sequence[Query]) -> dict[str, str]:
    wanted = list(dict.fromkeys(query.subject_id for query in queries))
    places = pc.index_in(pa.array(wanted, pa.string()), graph.entities.column("id").combine_chunks())
    texts = graph.entities.column("description").take(places).to_pylist()
    return {id_: text or "-" for id_, text in zip(wanted, texts, strict=True)}


def completed(prompt: str, answer: str, *, closing: bool) -> Prompt:
    """Append a space and the answer to a few-shot prompt. :param closing: also append ")"."""
    before = prompt if prompt.endswith(" ") else prompt + " "
    span = Span(len(before), len(before) + len(answer))
    return Prompt(before + answer + (")" if closing else ""), (), (span,))


class Wording(ABC):
    """A way to turn queries and answers into statements."""

    @abstractmethod
    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        """Return the statement for each answer. :raises BadInput: there is a :meth:`refusal`."""

    def question(self, query: Query) -> str:
        """Return the statement with ``[Y]`` for the answer, as recorded in predictions."""
        return self.statements(query, [ANSWER])[0].text

    def refusal(self, query: Query) -> str | None:
        """Return why there are no statements for *query*, or None."""
        return None


@dataclass(frozen=True)
class SpokenWording(Wording):
    """Statements of another wording as the assistant's turn of a chat. :param context: the chat before that turn."""

    wording: Wording
    context: str

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        return [prompt.with_context(self.context) for prompt in self.wording.statements(query, answers)]

    def refusal(self, query: Query) -> str | None:
        return self.wording.refusal(query)


@dataclass(frozen=True)
class TemplateWording(Wording):
    """A template of the relation, or a query's own sentence. :param number: its number."""

    data: QuerySet
    number: int
    capitalize: bool

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        template = self.data.phrasings(query)[self.number]
        return [template.fill(query.subject, answer, capitalize=self.capitalize) for answer in answers]


@dataclass(frozen=True)
class FewShotWording(Wording):
    """Few-shot lines, "(head, relation," and the answer: figure 11 of the DEER paper, inverted for heads.

    :param closing: end with ")", as the lines do; the published figure ends with the answer.
    """

    lines: FewShot
    closing: bool

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        prompt = self.lines.prompt(query)
        return [completed(prompt, answer, closing=self.closing) for answer in answers]

    def refusal(self, query: Query) -> str | None:
        return self.lines.question(query).unscored

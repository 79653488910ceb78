"""How a query and an answer become one statement: by a relation's template, or behind few-shot lines.

Few-shot prompts are made from a knowledge graph: lines "(head, relation, tail)", then "(head, relation," as the
question, as in figure 4 of Jinno et al. (DEER). The reference code ends the question with a space and can put a line
"head - description" before it; both are options here, as the paper's figure shows neither.

The paper asks for tails alone. To ask for a head, every line is turned round, "(tail, inverse relation, head)", and the
question is "(tail, inverse relation,": the answer stands last in both directions, as a causal model and the vector of
the last token need it. "inverse" is the word of SimKGC (Wang et al. 2022).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Direction, Query, QuerySet, Relation
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput


def inverse(relation: str) -> str:
    """Name of the relation from tail to head."""
    return f"inverse {relation}"


def question_line(given: str, relation: str, direction: Direction) -> str:
    """ "(head, relation," or, where the head is asked for, "(tail, inverse relation,".

    :param given: name of the known entity.
    """
    return f"({given}, {relation if direction == 'tail' else inverse(relation)},"


class Shot(NamedTuple):
    """A triple to show: ids, which tell whose answer it gives away, and names."""

    head_id: str
    relation_id: str
    tail_id: str
    head: str
    relation: str
    tail: str

    def answers(self, query: Query) -> bool:
        """Whether it gives an answer of *query* away."""
        given = self.head_id if query.direction == "tail" else self.tail_id
        return (given, self.relation_id) == (query.subject_id, query.relation)

    def line(self, direction: Direction) -> str:
        """As a question of that direction with its answer."""
        given, answer = (self.head, self.tail) if direction == "tail" else (self.tail, self.head)
        return f"{question_line(given, self.relation, direction)} {answer})"


class FewShotQuestion(NamedTuple):
    """A query in words.

    :param unscored: why it cannot be asked (*prompt* is then empty), None where it can.
    """

    prompt: str
    unscored: str | None


class FewShot:
    """Makes the prompt of each query.

    :param graph: the lines are drawn from its ``train`` split, from all its triples where it has no splits.
    :param relations: the relations of the queries, for their names.
    :param shots: how many lines.
    :param per_query: other lines for each query, instead of the same for all.
    :param trailing_space: end the prompt with a space.
    :param description: a line on the known entity before the question.
    :raises BadInput: fewer triples to draw from than lines asked for.
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
        if len(self.pool) < shots:
            raise BadInput(f"{shots} few-shot lines asked for, but there are {len(self.pool)} triples to draw from")
        self.descriptions = _descriptions(graph, queries) if description else {}
        # More than needed: a line that answers the query at hand is passed over.
        self.shared = () if per_query else self._draw(f"{seed}", 8 * shots + 64)

    def question(self, query: Query) -> FewShotQuestion:
        """:meth:`prompt`, or the reason why the query cannot be asked."""
        if query.unscored is not None:
            return FewShotQuestion("", query.unscored)
        try:
            return FewShotQuestion(self.prompt(query), None)
        except BadInput as error:
            return FewShotQuestion("", str(error))

    def prompt(self, query: Query) -> str:
        """:raises BadInput: too few lines can be drawn that do not answer it."""
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
        """The first of *pool* that give no answer of *query* away, as many as are shown."""
        return list(islice((shot for shot in pool if not shot.answers(query)), self.shots))

    def _draw(self, seed: str, count: int) -> tuple[Shot, ...]:
        """So many triples, or all there are; less those of entities without a name."""
        rows = np.array(random.Random(seed).sample(self.pool, min(len(self.pool), count)), dtype=np.int64)
        graph = self.graph
        heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
        relations = graph.relations.take(graph.relation[rows])
        columns = [side.column(name).to_pylist() for name in ("id", "name") for side in (heads, relations, tails)]
        shots = (Shot(*row) for row in zip(*columns, strict=True))
        return tuple(shot for shot in shots if shot.head.strip() and shot.relation.strip() and shot.tail.strip())


def _descriptions(graph: KnowledgeGraph, queries: Sequence[Query]) -> dict[str, str]:
    """By id, of the queries' subjects; "-" for none."""
    wanted = list(dict.fromkeys(query.subject_id for query in queries))
    places = pc.index_in(pa.array(wanted, pa.string()), graph.entities.column("id").combine_chunks())
    texts = graph.entities.column("description").take(places).to_pylist()
    return {id_: text or "-" for id_, text in zip(wanted, texts, strict=True)}


def completed(prompt: str, answer: str, *, closing: bool) -> Prompt:
    """A few-shot prompt, which ends "(head, relation," or "(tail, inverse relation,", with a space and its answer.

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
        return self.statements(query, [ANSWER])[0].text

    def refusal(self, query: Query) -> str | None:
        """Why *query* cannot be put into these words; None where it can."""
        ...


@dataclass(frozen=True)
class SpokenWording(Wording):
    """Another wording's statements as what an assistant says.

    :param before: the chat up to there, which is given.
    """

    said: Wording
    before: str

    def statements(self, query: Query, answers: Sequence[str]) -> list[Prompt]:
        """The statements behind the chat."""
        return [prompt.with_context(self.before) for prompt in self.said.statements(query, answers)]

    def refusal(self, query: Query) -> str | None:
        """That of the statements."""
        return self.said.refusal(query)


@dataclass(frozen=True)
class TemplateWording(Wording):
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

    def refusal(self, query: Query) -> str | None:
        """None: a phrasing takes every query."""
        return None


@dataclass(frozen=True)
class FewShotWording(Wording):
    """Few-shot lines, "(head, relation," and the answer: figure 11 of the DEER paper (and its inverse for heads).

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

    def refusal(self, query: Query) -> str | None:
        """Why there are no lines for *query*; None where there are."""
        return self.lines.question(query).unscored

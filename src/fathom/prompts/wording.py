"""How a query and an answer become one statement: by a relation's template, or behind few-shot lines.

Few-shot prompts are made from a knowledge graph: lines "(head, relation, tail)", then "(head, relation," as the
question, as in figure 4 of Jinno et al. (DEER). The reference code ends the question with a space and can put a line
"head - description" before it; both are options here, as the paper's figure shows neither.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Query, QuerySet, Relation
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput


class Shot(NamedTuple):
    """A triple in words, with the ids that tell whose answer it gives away."""

    head_id: str
    relation_id: str
    text: str


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
    :param description: a line on the head before the question.
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
        """:raises BadInput: it asks for the head, or too few lines can be drawn that do not answer it."""
        if query.direction == "head":
            raise BadInput("it asks for the head, but a few-shot prompt ends where the tail stands")
        pool = self._draw(f"{self.seed}|{query.id}", 2 * self.shots + 16) if self.per_query else self.shared
        fit = _not_answering(query, pool)
        if len(fit) < self.shots:
            fit = _not_answering(query, self._draw(f"{self.seed}|{query.id}", len(self.pool)))
        if len(fit) < self.shots:
            raise BadInput(f"{self.shots} few-shot lines asked for, {len(fit)} found that do not answer the query")
        lines = fit[: self.shots]
        if query.subject_id in self.descriptions:
            lines.append(f"{query.subject} - {self.descriptions[query.subject_id]}")
        return "\n".join([*lines, f"({query.subject}, {self.relations[query.relation].name},{self.end}"])

    def _draw(self, seed: str, count: int) -> tuple[Shot, ...]:
        """So many lines, or all there are; less those of entities without a name."""
        rows = np.array(random.Random(seed).sample(self.pool, min(len(self.pool), count)), dtype=np.int64)
        graph = self.graph
        heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
        relations = graph.relations.take(graph.relation[rows])
        columns = (
            heads.column("id"),
            relations.column("id"),
            heads.column("name"),
            relations.column("name"),
            tails.column("name"),
        )
        return tuple(
            Shot(head_id, relation_id, f"({head}, {relation}, {tail})")
            for head_id, relation_id, head, relation, tail in zip(*(c.to_pylist() for c in columns), strict=True)
            if head.strip() and relation.strip() and tail.strip()
        )


def _not_answering(query: Query, pool: Sequence[Shot]) -> list[str]:
    return [shot.text for shot in pool if (shot.head_id, shot.relation_id) != (query.subject_id, query.relation)]


def _descriptions(graph: KnowledgeGraph, queries: Sequence[Query]) -> dict[str, str]:
    """By id, of the queries' subjects; "-" for none."""
    wanted = list(dict.fromkeys(query.subject_id for query in queries))
    places = pc.index_in(pa.array(wanted, pa.string()), graph.entities.column("id").combine_chunks())
    texts = graph.entities.column("description").take(places).to_pylist()
    return {id_: text or "-" for id_, text in zip(wanted, texts, strict=True)}


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
        return self.statements(query, [ANSWER])[0].text

    def refusal(self, query: Query) -> str | None:
        """Why *query* cannot be put into these words; None where it can."""
        ...


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

    def refusal(self, query: Query) -> str | None:
        """Why there are no lines for *query*; None where there are."""
        return self.lines.question(query).unscored

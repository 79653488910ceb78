"""Few-shot question prompts: answered questions on other facts of the same relation, then the question itself.

The manner of KAMEL (Kalo and Fichtel, AKBC 2022): one question per line, several answers with a separator between them,
and a closing sign that tells the model where an answer ends.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.columns import is_blank
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Query
from fathom.data.templates import ANSWER, SUBJECT, Template
from fathom.errors import BadInput
from fathom.reading import Faults, Unreadable, read_json_lines, read_text

CLOSING = "%"
"""Stands behind the last answer of each line, as in KAMEL."""

CORRECTED = {("P36", "What is the original language of [S]?"): "What is the capital of [S]?"}
"""KAMEL's published file gives P36 (capital) the question of P364: what is meant instead."""

Questions = dict[str, tuple[Template, ...]]


class QuestionLine(NamedTuple):
    """:param line: where it stands in its file."""

    line: int
    relation: str
    text: str


def read_questions(file: Path) -> Questions:
    """Questions by relation; a relation may have several.

    :param file: ``relation, question`` per line, split at the first comma, or JSON Lines with ``relation`` and
        ``question``; the subject's place is written ``[X]`` (or ``[S]``, as KAMEL does).
    :raises BadInput: each line that is neither, by number.
    """
    faults = Faults()
    by_relation: dict[str, dict[Template, None]] = {}
    for question in question_lines(file, faults):
        by_relation.setdefault(question.relation, {})[as_template(question.text)] = None
    if not by_relation and not faults.found:
        faults.add(file, None, "no question in it: write 'relation, question with [X]' lines")
    faults.stop_if_any()
    return {relation: tuple(templates) for relation, templates in by_relation.items()}


def question_lines(file: Path, faults: Faults) -> list[QuestionLine]:
    """The good lines of a file of questions, known mistakes corrected; the others become faults."""
    if file.suffix == ".jsonl":
        rows = read_json_lines(file, {"relation": str, "question": str}, faults)
        found = [QuestionLine(line, row["relation"], row["question"]) for line, row in rows]
    else:
        found = _comma_lines(file, faults)
    good = []
    for question in found:
        if SUBJECT not in question.text and "[S]" not in question.text:
            faults.add(file, question.line, f"question {question.text!r} has no {SUBJECT}: write it for the subject")
        elif ANSWER in question.text and not question.text.rstrip().endswith(ANSWER):
            faults.add(file, question.line, f"question {question.text!r}: {ANSWER}, if written, must stand last")
        else:
            meant = CORRECTED.get((question.relation, question.text), question.text)
            if meant != question.text:
                wrong = f"{question.text!r} is not {question.relation}'s question"
                faults.note(file, question.line, f"{wrong}: corrected to {meant!r}")
            good.append(question._replace(text=meant))
    return good


def _comma_lines(file: Path, faults: Faults) -> list[QuestionLine]:
    try:
        lines = read_text(file).splitlines()
    except Unreadable as error:
        faults.keep(error)
        return []
    found = []
    for number, line in enumerate(lines, start=1):
        relation, _, text = (part.strip() for part in line.partition(","))
        if relation and text:
            found.append(QuestionLine(number, relation, text))
        elif line.strip():
            faults.add(file, number, f"expected 'relation, question with {SUBJECT}', found {line.strip()[:60]!r}")
    return found


def as_template(question: str) -> Template:
    """The question with the answer behind it."""
    text = question.replace("[S]", SUBJECT).strip()
    return Template(text if text.endswith(ANSWER) else f"{text} {ANSWER}")


def asked(question: Template, subject: str) -> str:
    """What the model is to go on from: the question, without its answer and the space before that."""
    return question.fill(subject, "", capitalize=False).text.rstrip()


class _Known(NamedTuple):
    """A subject of the pool with all its answers."""

    subject_id: str
    subject: str
    answers: tuple[str, ...]


class QuestionShots:
    """Makes the prompt of each query from answered questions on other subjects of its relation.

    :param graph: subjects are drawn from its ``train`` split, from all its triples where it has no splits.
    :param relations: ids of the relations asked.
    :param shots: how many answered questions.
    :param per_query: other subjects for each query, as KAMEL draws them, instead of the same for a relation.
    :param separator: what stands between two answers.
    :raises BadInput: a relation with fewer subjects to draw from than asked for.
    """

    def __init__(
        self,
        graph: KnowledgeGraph | None,
        relations: Collection[str],
        *,
        shots: int = 5,
        seed: int = 0,
        per_query: bool = False,
        separator: str = "; ",
    ) -> None:
        self.shots, self.seed, self.per_query, self.separator = shots, seed, per_query, separator
        self.pools = _pools(graph, relations) if graph is not None and shots else {}
        short = [
            f"relation {relation}: {shots} few-shot questions asked for, but there are {size} subjects to draw from"
            for relation in relations
            if (size := len(self.pools[relation]) if relation in self.pools else 0) < shots
        ]
        if short:
            raise BadInput([*short, "give a smaller --shots"])

    def prompt(self, query: Query, question: Template) -> str:
        """:raises BadInput: too few subjects are left without the query's own."""
        seed = f"{self.seed}|{query.id if self.per_query else query.relation}"
        lines = [
            f"{asked(question, known.subject)} {self.separator.join(known.answers)}{CLOSING}"
            for known in self._draw(seed, query)
        ]
        return "\n".join([*lines, asked(question, query.subject)])

    def _draw(self, seed: str, query: Query) -> list[_Known]:
        if not self.shots:
            return []
        pool = self.pools[query.relation]
        # One more than needed: the query's own subject is passed over.
        places = random.Random(seed).sample(range(len(pool)), min(len(pool), self.shots + 1))
        fit = [known for known in map(pool.__getitem__, places) if known.subject_id != query.subject_id]
        if len(fit) < self.shots:
            raise BadInput(f"{self.shots} few-shot questions asked for, {len(fit)} found on other subjects")
        return fit[: self.shots]


class _Subjects:
    """The subjects of one relation; their names are looked up when they are drawn.

    :param named: which entities have a name; a subject without one, or with an answer without one, is passed over.
    """

    def __init__(
        self, graph: KnowledgeGraph, rows: np.ndarray[tuple[int], np.dtype[np.int64]], named: NDArray[np.bool_]
    ) -> None:
        self.graph = graph
        nameless = ~(named[graph.head[rows]] & named[graph.tail[rows]])
        rows = rows[~np.isin(graph.head[rows], graph.head[rows[nameless]])]
        order = np.argsort(graph.head[rows], kind="stable")
        self.rows = rows[order]
        _, starts = np.unique(graph.head[self.rows], return_index=True)
        self.bounds = np.append(starts, len(self.rows))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, place: int) -> _Known:
        rows = self.rows[self.bounds[place] : self.bounds[place + 1]]
        entities = self.graph.entities
        subject = int(self.graph.head[rows[0]])
        names = entities.column("name").take(self.graph.tail[rows]).to_pylist()
        return _Known(
            entities.column("id")[subject].as_py(),
            entities.column("name")[subject].as_py(),
            tuple(dict.fromkeys(names)),
        )


def _pools(graph: KnowledgeGraph, relations: Collection[str]) -> Mapping[str, _Subjects]:
    drawn = graph.training
    codes = {id_: code for code, id_ in enumerate(graph.relations.column("id").to_pylist())}
    of_triple = graph.relation[drawn.start : drawn.stop]
    named = ~is_blank(graph.entities.column("name"))
    return {
        relation: _Subjects(graph, np.flatnonzero(of_triple == codes[relation]) + drawn.start, named)
        for relation in relations
        if relation in codes
    }

"""Few-shot question prompts in the format of KAMEL (Kalo and Fichtel, AKBC 2022), one question per line."""

from __future__ import annotations

import csv
import random
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.base.reading import Faults, Unreadable, read_json_lines, read_text
from fathom.data.columns import is_blank
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Query
from fathom.data.templates import ANSWER, SUBJECT, Template

CLOSING = "%"
"""Marks the end of each line's answers, as in KAMEL."""

CORRECTED = {("P36", "What is the original language of [S]?"): "What is the capital of [S]?"}
"""KAMEL's published file gives P36 (capital) the question of P364; this is the correction."""

Questions = dict[str, tuple[Template, ...]]


class QuestionLine(NamedTuple):
    """:param line: its line number."""

    line: int
    relation: str
    text: str


def read_questions(file: Path) -> Questions:
    """Read questions by relation; a relation may have several.

    :param file: lines ``relation, question``, split at the first comma and unquoted as in CSV, with or without a
        header, or JSON Lines with ``relation`` and ``question``; ``[X]`` marks the subject (or ``[S]``, as in KAMEL).
    :raises BadInput: each invalid line, by number.
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
    """Return the valid lines of a file of questions, known mistakes corrected; the others become faults."""
    if file.suffix == ".jsonl":
        rows = read_json_lines(file, {"relation": str, "question": str}, faults)
        questions = [QuestionLine(line, row["relation"], row["question"]) for line, row in rows]
    else:
        questions = _comma_lines(file, faults)
    good = []
    for question in questions:
        if SUBJECT not in question.text and "[S]" not in question.text:
            faults.add(file, question.line, f"question {question.text!r} has no {SUBJECT}: write it for the subject")
        elif ANSWER in question.text and not question.text.rstrip().endswith(ANSWER):
            faults.add(file, question.line, f"question {question.text!r}: {ANSWER}, if written, must be last")
        else:
            meant = CORRECTED.get((question.relation, question.text), question.text)
            if meant != question.text:
                wrong = f"{question.text!r} is not {question.relation}'s question"
                faults.note(file, question.line, f"{wrong}: corrected to {meant!r}")
            good.append(question._replace(text=meant))
    return good


def _comma_lines(file: Path, faults: Faults) -> list[QuestionLine]:
    faults.read.add(file)
    try:
        lines = read_text(file).splitlines()
    except Unreadable as error:
        faults.keep(error)
        return []
    questions = []
    for number, line in enumerate(lines, start=1):
        relation, _, text = (_unquoted(part.strip()) for part in line.partition(","))
        if number == 1 and (relation, text) == ("relation", "question"):
            continue
        if relation and text:
            questions.append(QuestionLine(number, relation, text))
        elif line.strip():
            faults.add(file, number, f"expected 'relation, question with {SUBJECT}', found {line.strip()[:60]!r}")
    return questions


def _unquoted(text: str) -> str:
    """Return the value of a quoted CSV field; any other text as it is, since questions may have commas and quotes."""
    if not text.startswith('"'):
        return text
    try:
        values = next(csv.reader([text], strict=True))
    except csv.Error:
        return text
    return values[0].strip() if len(values) == 1 else text


def as_template(question: str) -> Template:
    """Return the question as a template with the answer at the end."""
    text = question.replace("[S]", SUBJECT).strip()
    return Template(text if text.endswith(ANSWER) else f"{text} {ANSWER}")


def asked(question: Template, subject: str) -> str:
    """Return the question without its answer and the space before it."""
    return question.fill(subject, "", capitalize=False).text.rstrip()


Example = tuple[str, str]
"""A question and its answer."""


class _KnownSubject(NamedTuple):
    """A subject with all its answers."""

    subject_id: str
    subject: str
    answers: tuple[str, ...]


class QuestionShots:
    """Prompts with answered questions on other subjects of a query's relation.

    :param graph: subjects are drawn from its ``train`` split, or from all triples if it has no splits.
    :param per_query: draw other subjects for each query, as KAMEL does.
    :param separator: separator of several answers.
    :raises BadInput: a relation with fewer subjects than *shots*.
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
        """Return the prompt. :raises BadInput: too few subjects remain without the query's own."""
        lines = [f"{example} {answer}{CLOSING}" for example, answer in self.examples(query, question)]
        return "\n".join([*lines, asked(question, query.subject)])

    def examples(self, query: Query, question: Template) -> list[Example]:
        """Return the answered questions. :raises BadInput: too few subjects remain without the query's own."""
        seed = f"{self.seed}|{query.id if self.per_query else query.relation}"
        return [(asked(question, shot.subject), self.separator.join(shot.answers)) for shot in self._draw(seed, query)]

    def _draw(self, seed: str, query: Query) -> list[_KnownSubject]:
        if not self.shots:
            return []
        pool = self.pools[query.relation]
        # One more than needed, as the query's own subject is skipped.
        places = random.Random(seed).sample(range(len(pool)), min(len(pool), self.shots + 1))
        fit = [shot for shot in map(pool.__getitem__, places) if shot.subject_id != query.subject_id]
        if len(fit) < self.shots:
            raise BadInput(f"{self.shots} few-shot questions asked for, {len(fit)} found on other subjects")
        return fit[: self.shots]


class _Subjects:
    """The subjects of one relation, with names looked up on access.

    :param named: whether each entity has a name; a subject is skipped if it or an answer has none.
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

    def __getitem__(self, place: int) -> _KnownSubject:
        rows = self.rows[self.bounds[place] : self.bounds[place + 1]]
        entities = self.graph.entities
        subject = int(self.graph.head[rows[0]])
        names = entities.column("name").take(self.graph.tail[rows]).to_pylist()
        return _KnownSubject(
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

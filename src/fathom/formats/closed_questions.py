"""Questions with their own few answers: right ones and distractors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import CandidateSet, Query, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence
from fathom.formats.base import Draft
from fathom.reading import Faults, first_few


class ClosedQuestion(NamedTuple):
    """A question.

    :param id: of the query.
    :param sentences: each with ``[Y]`` once, at the answer's place.
    :param right: names of the right answers.
    :param wrong: names of the distractors; empty names and right answers are dropped and noted.
    :param known: other right names, which are not ranked.
    :param ids: of names; a name without one is its own id.
    :param unscored: why the query is unscored, if it is.
    :param relation_name: the relation's name if it is not its id.
    """

    file: Path
    line: int | None
    id: str
    relation: str
    sentences: Sequence[str]
    right: Sequence[str]
    wrong: Sequence[str]
    groups: Mapping[str, str]
    subject: str = ""
    subject_id: str = ""
    known: Sequence[str] = ()
    ids: Mapping[str, str] = {}
    unscored: str | None = None
    relation_name: str = ""


def add_questions(draft: Draft, questions: Iterable[ClosedQuestion]) -> None:
    """Add a query for each question, with one candidate set for equal answers, and their relations."""
    spaces: dict[tuple[tuple[str, str], ...], CandidateSet] = {}
    golds: dict[tuple[str, str], list[str]] = defaultdict(list)
    lacking: list[str] = []
    seen: set[str] = set()
    for question in questions:
        _check(question, seen, draft.faults)
        seen.add(question.id)
        ids, right = question.ids, (*question.right, *question.known)
        wrong = [name for name in question.wrong if name.strip() and name not in right]
        if len(wrong) < len(question.wrong):
            lacking.append(question.id)
        names = tuple(dict.fromkeys((*right, *wrong)))
        key = tuple((ids.get(name, name), name) for name in names)
        if key not in spaces:
            spaces[key] = CandidateSet(question.id, tuple(id_ for id_, _ in key), names)
            draft.candidates[question.id] = spaces[key]
        gold = tuple(ids.get(name, name) for name in question.right)
        golds[question.relation, question.relation_name] += gold
        draft.queries.append(
            Query(
                question.id,
                question.relation,
                question.subject,
                question.subject_id,
                gold,
                spaces[key].name,
                known=tuple(ids.get(name, name) for name in question.known),
                groups=question.groups,
                unscored=question.unscored,
                sentences=tuple(map(Sentence, dict.fromkeys(question.sentences))),
            )
        )
    for (id_, name), answers in golds.items():
        draft.relations[id_] = Relation(id_, name or id_, (), cardinality_of(answers))
    if lacking:
        message = "wrong answers that are empty or right, too, left out of their question"
        draft.faults.note(draft.path, None, f"{message}: {first_few(lacking, 3)}")


def _check(question: ClosedQuestion, seen: set[str], faults: Faults) -> None:
    file, line = question.file, question.line
    bad = [text for text in question.sentences if text.count(ANSWER) != 1 or SUBJECT in text]
    if bad:
        faults.add(file, line, f"expected a prompt without {SUBJECT} and {ANSWER} in it, found {bad[0][:80]!r}")
    if not question.right or not all(name.strip() for name in question.right):
        faults.add(file, line, f"expected right answers, none empty, found {list(question.right)}")
    if question.id in seen:
        faults.add(file, line, f"question {question.id} is repeated: ids must differ")


def completed(prompt: str) -> str:
    """Return a prompt, or a question, followed by the answer's place."""
    return f"{prompt.rstrip()} {ANSWER}"

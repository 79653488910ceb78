"""The folder format of KAMEL (Kalo and Fichtel, AKBC 2022).

``question-templates.csv``: ``P36, What is the capital of [S]?``, split at the first comma. ``P36/test.jsonl``: per line
a subject with all its answers, each with a label and aliases. ``P36/train.jsonl``: subjects and answers by label alone,
from which few-shot examples are drawn.

Subjects have no ids: their label stands for one. Entities among the answers have Wikidata's; a number is its own id,
and so is a date by its fullest form ("12 May 1936" and "16 May 1936" are two dates, both named "1936").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.faults import Faults, read_json_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.formats.base import Draft, Format
from fathom.formats.facts import Answer
from fathom.prompts.questions import as_template, question_lines

QUESTIONS = "question-templates.csv"

Triple = tuple[str, str, str]
"""Ids of head, relation and tail."""
_TEST: dict[str, type] = {"sub_label": str, "obj_uri": list, "obj_label": list}
_TRAIN: dict[str, type] = {"sub_label": str, "obj_label": list}


def read_kamel(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    questions = _questions(path / QUESTIONS, faults)
    draft = Draft(path, faults)
    names: dict[str, str] = {}
    aliases: dict[str, dict[str, None]] = defaultdict(dict)
    train: list[Triple] = []
    for id_ in sorted({file.parent.name for file in path.glob("*/test.jsonl")} | questions.keys()):
        file = path / id_ / "test.jsonl"
        if not file.exists():
            faults.note(path / QUESTIONS, None, f"relation {id_} has a question but no {id_}/test.jsonl: left out")
            continue
        if id_ not in questions:
            faults.add(path / QUESTIONS, None, f"relation {id_} has no question: add a line '{id_}, … [S] …?'")
            continue
        found = list(_test_lines(file, faults))
        answers = {answer.id: answer for line in found for answer in line.answers}
        if not answers:
            faults.add(file, None, f"relation {id_} has no instances: add some or remove its folder")
            continue
        for answer in answers.values():
            names[answer.id] = answer.name
            aliases[answer.id].update(dict.fromkeys(answer.aliases))
        space = CandidateSet(id_, tuple(answers), tuple(answer.name for answer in answers.values()))
        cardinality = cardinality_of(answer.id for line in found for answer in line.answers)
        question = (as_template(questions[id_]),)
        relation = Relation(id_, id_, question, cardinality, questions=question)
        draft.add(relation, space, _queries(file, relation, found, faults))
        train += _train_triples(file.with_name("train.jsonl"), id_, faults)
    return draft.queryset(
        path.name,
        lambda: _graph(train, draft.queries, names, aliases),
        nothing="no relation with instances: nothing to ask",
    )


def _questions(file: Path, faults: Faults) -> dict[str, str]:
    """One question per relation."""
    questions: dict[str, str] = {}
    for line, relation, text in question_lines(file, faults):
        if relation not in questions:
            questions[relation] = text
        elif questions[relation] == text:
            faults.note(file, line, f"relation {relation} stands here for the second time")
        else:
            faults.add(file, line, f"relation {relation} has another question above: {questions[relation]!r}")
    return questions


class _Instance(NamedTuple):
    number: int
    subject: str
    answers: tuple[Answer, ...]


def _test_lines(file: Path, faults: Faults) -> Iterator[_Instance]:
    for line, row in read_json_lines(file, _TEST, faults):
        ids, labels = row["obj_uri"], row["obj_label"]
        if len(ids) != len(labels) or not ids:
            faults.add(file, line, f"{len(ids)} obj_uri for {len(labels)} obj_label: expected as many, one or more")
            continue
        answers = [_answer(id_, label) for id_, label in zip(ids, labels, strict=True)]
        if None in answers:
            expected = '{"chosen": "…", "rdf": …, "alternative": […]}'
            bad = str(labels[answers.index(None)])[:60]
            faults.add(file, line, f"expected {expected} with its obj_uri, found {bad}")
            continue
        yield _Instance(line, row["sub_label"], tuple(filter(None, answers)))


def _answer(id_: Any, label: Any) -> Answer | None:
    if not isinstance(id_, str) or not isinstance(label, dict):
        return None
    name, others = label.get("chosen"), label.get("alternative")
    if not isinstance(name, str) or not name.strip() or not isinstance(others, list):
        return None
    aliases = tuple(str(alias) for alias in (label.get("rdf"), *others) if alias and alias != name)
    if id_.startswith("XMLSchema#"):  # a literal: the id names its type alone
        id_ = max((name, *aliases), key=len)
    return Answer(id_, name, aliases)


def _queries(file: Path, relation: Relation, found: list[_Instance], faults: Faults) -> Iterator[Query]:
    for number, (line, subject, answers) in enumerate(found):
        if not subject.strip():
            faults.note(file, line, "the subject has no label: the query is kept as unscored")
        yield Query(
            id=f"{relation.id}/{number}",
            relation=relation.id,
            subject=subject,
            subject_id=subject,
            gold=tuple(dict.fromkeys(answer.id for answer in answers)),
            candidates=relation.id,
            groups={"cardinality": relation.cardinality, "answers": str(len(answers))},
            unscored=None if subject.strip() else "the subject has no name",
        )


def _train_triples(file: Path, relation: str, faults: Faults) -> Iterator[Triple]:
    if not file.exists():
        faults.note(file, None, "file is missing: few-shot examples cannot be drawn from it")
        return
    for line, row in read_json_lines(file, _TRAIN, faults):
        if not row["obj_label"] or not all(isinstance(name, str) and name.strip() for name in row["obj_label"]):
            faults.add(file, line, f"'obj_label' must be a list of texts, none empty, found {row['obj_label']!r}")
            continue
        for name in row["obj_label"]:
            yield row["sub_label"], relation, name


def _graph(
    train: list[Triple], queries: Sequence[Query], names: Mapping[str, str], aliases: Mapping[str, Iterable[str]]
) -> KnowledgeGraph:
    test = [(query.subject_id, query.relation, answer) for query in queries for answer in query.gold]
    graph = KnowledgeGraph.from_triples(train + test, names, aliases)
    return replace(graph, splits={"train": range(len(train)), "test": range(len(train), len(train) + len(test))})


FORMAT = Format("kamel", f"{QUESTIONS} (KAMEL)", lambda path: (path / QUESTIONS).exists(), read_kamel)

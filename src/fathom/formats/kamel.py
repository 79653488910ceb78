"""KAMEL (Kalo and Fichtel, AKBC 2022): questions with several answers.

``question-templates.csv``: ``P36, What is the capital of [S]?``, split at the first comma. ``P36/test.jsonl``: subjects
by line, with the label and aliases of each answer. ``P36/train.jsonl``: labels only, for few-shot examples.

Labels serve as ids of subjects, Wikidata's ids as those of entities. The id of a number or date is its fullest form:
"12 May 1936" and "16 May 1936" are two dates named "1936".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from fathom.data.knowledge import KnowledgeGraph, Triple
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.formats.base import Draft, Format, unscored_unless
from fathom.formats.facts import Fact, NamedAnswer
from fathom.prompts.questions import as_template, question_lines
from fathom.reading import Faults, read_json_lines, resolve_packed, stands

QUESTIONS = "question-templates.csv"
_TEST: dict[str, type] = {"sub_label": str, "obj_uri": list, "obj_label": list}
_TRAIN: dict[str, type] = {"sub_label": str, "obj_label": list}


def read_kamel(path: Path, faults: Faults) -> QuerySet | None:
    """Return the query set, or None after a fault."""
    questions = _questions(path / QUESTIONS, faults)
    draft = Draft(path, faults)
    aliases: dict[str, dict[str, None]] = defaultdict(dict)
    train: list[Triple] = []
    tests = (file for name in ("test.jsonl", "test.jsonl.gz") for file in path.glob(f"*/{name}"))
    for id_ in sorted({file.parent.name for file in tests} | questions.keys()):
        file = resolve_packed(path / id_ / "test.jsonl")
        if not stands(file):
            faults.note(path / QUESTIONS, None, f"relation {id_} has a question but no {id_}/test.jsonl: left out")
        elif id_ not in questions:
            faults.add(path / QUESTIONS, None, f"relation {id_} has no question: add a line '{id_}, … [S] …?'")
        elif answers := _add_relation(draft, id_, questions[id_], list(_facts(file, id_, faults))):
            for answer in answers:
                aliases[answer.id].update(dict.fromkeys(answer.aliases))
            train += _train_triples(resolve_packed(path / id_ / "train.jsonl"), id_, faults)
        else:
            faults.add(file, None, f"relation {id_} has no instances: add some or remove its folder")
    return draft.queryset(
        path.name,
        lambda: KnowledgeGraph.from_splits({"train": train, "test": draft.triples()}, draft.names(), aliases),
        nothing="no relation with instances: nothing to ask",
    )


def _add_relation(draft: Draft, id_: str, question: str, facts: list[Fact]) -> Collection[NamedAnswer]:
    """:returns: the answers, each once."""
    answers = {answer.id: answer for fact in facts for answer in fact.answers}
    if answers:
        cardinality = cardinality_of(answer.id for fact in facts for answer in fact.answers)
        templates = (as_template(question),)
        relation = Relation(id_, id_, templates, cardinality, questions=templates)
        space = CandidateSet(id_, tuple(answers), tuple(answer.name for answer in answers.values()))
        draft.add(relation, space, _queries(relation, facts, draft.faults))
    return answers.values()


def _questions(file: Path, faults: Faults) -> dict[str, str]:
    """Read one question per relation."""
    questions: dict[str, str] = {}
    for line, relation, text in question_lines(file, faults):
        if relation not in questions:
            questions[relation] = text
        elif questions[relation] == text:
            faults.note(file, line, f"relation {relation} is repeated")
        else:
            faults.add(file, line, f"relation {relation} has another question above: {questions[relation]!r}")
    return questions


def _facts(file: Path, relation: str, faults: Faults) -> Iterator[Fact]:
    for line, row in read_json_lines(file, _TEST, faults):
        ids, labels, subject = row["obj_uri"], row["obj_label"], row["sub_label"]
        if len(ids) != len(labels) or not ids:
            faults.add(file, line, f"{len(ids)} obj_uri for {len(labels)} obj_label: expected as many, one or more")
            continue
        answers = [_answer(id_, label) for id_, label in zip(ids, labels, strict=True)]
        if None in answers:
            expected = '{"chosen": "…", "rdf": …, "alternative": […]}'
            bad = str(labels[answers.index(None)])[:60]
            faults.add(file, line, f"expected {expected} with its obj_uri, found {bad}")
        else:
            yield Fact(file, line, "", relation, subject, subject, tuple(filter(None, answers)))


def _answer(id_: Any, label: Any) -> NamedAnswer | None:
    if not isinstance(id_, str) or not isinstance(label, dict):
        return None
    name, others = label.get("chosen"), label.get("alternative")
    if not isinstance(name, str) or not name.strip() or not isinstance(others, list):
        return None
    aliases = tuple(str(alias) for alias in (label.get("rdf"), *others) if alias and alias != name)
    if id_.startswith("XMLSchema#"):  # a literal: the id names its type alone
        id_ = max((name, *aliases), key=len)
    return NamedAnswer(id_, name, aliases)


def _queries(relation: Relation, facts: Sequence[Fact], faults: Faults) -> Iterator[Query]:
    for number, fact in enumerate(facts):
        yield Query(
            id=f"{relation.id}/{number}",
            relation=relation.id,
            subject=fact.subject,
            subject_id=fact.subject_id,
            gold=tuple(dict.fromkeys(answer.id for answer in fact.answers)),
            candidates=relation.id,
            groups={"cardinality": relation.cardinality, "answers": str(len(fact.answers))},
            unscored=unscored_unless(fact.subject.strip(), fact.file, fact.line, "the subject has no label", faults),
        )


def _train_triples(file: Path, relation: str, faults: Faults) -> Iterator[Triple]:
    if not stands(file):
        faults.note(file, None, "file is missing: few-shot examples cannot be drawn from it")
        return
    for line, row in read_json_lines(file, _TRAIN, faults):
        if not row["obj_label"] or not all(isinstance(name, str) and name.strip() for name in row["obj_label"]):
            faults.add(file, line, f"'obj_label' must be a list of texts, none empty, found {row['obj_label']!r}")
            continue
        for name in row["obj_label"]:
            yield row["sub_label"], relation, name


FORMAT = Format("kamel", f"{QUESTIONS} (KAMEL)", lambda path: stands(path / QUESTIONS), read_kamel)

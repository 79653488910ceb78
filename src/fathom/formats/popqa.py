"""PopQA (Mallen et al., ACL 2023): questions on entities of known popularity, with all names of their answers.

The published table (huggingface.co/datasets/akariasai/PopQA, ``test.tsv``) is tab-separated, quoted as CSV; names are
JSON lists. ``s_pop`` and ``o_pop`` are monthly page views of subject and answer, negative if unknown.
``possible_answers`` mixes the names of all right answers. Names of ``obj`` and its aliases belong to it. The ``obj`` of
another question of the relation is an answer of its own. The remaining names are one more answer.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.graph.seen import popularity
from fathom.data.queries import POPULARITY
from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, texts_of
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, aliased_graph
from fathom.formats.recognition import TSV_ENDINGS, begins_with, data_files, define_format
from fathom.prompts.questions import as_template
from fathom.reading import Faults, NotData, Unreadable, json_value, read_text, shown

_UNKNOWN = "unknown"
_TEXTS = ("subj", "prop", "obj", "s_uri", "o_uri", "question")
_LISTS = ("s_aliases", "o_aliases", "possible_answers")
_VIEWS = ("s_pop", "o_pop")
_COLUMNS = ("id", *_TEXTS, *_LISTS, *_VIEWS)

Row = dict[str, str]


class _Line(NamedTuple):
    file: Path
    number: int
    row: Row
    lists: dict[str, list[str]]
    views: tuple[int, int]


def _fill(draft: Draft, files: list[Path]) -> dict[str, Any]:
    faults = draft.faults
    lines = [line for file in files for line in _lines(file, faults)]
    objects: dict[tuple[str, str], NamedAnswer] = {}
    for line in lines:
        objects.setdefault((line.row["prop"], line.row["obj"]), _object(line))
    entries: dict[str, RelationEntry] = {}
    facts = [_fact(line, objects, entries, faults) for line in lines]
    views, names = {line.row["id"]: line.views for line in lines}, AnswerNames(facts)
    add_queries(draft, facts, entries, names, lambda fact, gold: _groups(*views[fact.id], len(gold)))
    if not faults.found:
        names.note(draft.path, faults)
        if unknown := sum(min(both) < 0 for both in views.values()):
            message = f"questions with page views below 0, which stand for unknown: {unknown:,}"
            faults.note(draft.path, None, message)
    return {"graph": lambda: aliased_graph(draft, facts, names)}


def _refuse_json(path: Path) -> str:
    if any(begins_with(file, ('"s_pop"', '"o_pop"')) for file in data_files(path, ".jsonl", ".json")):
        return "PopQA as JSON, which others made of it: give the published table, test.tsv"
    return ""


def _lines(file: Path, faults: Faults) -> Iterator[_Line]:
    try:
        reader = csv.DictReader(io.StringIO(read_text(file), newline=""), delimiter="\t")
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            faults.add(file, 1, f"column {', '.join(missing)} is missing: expected PopQA's {', '.join(_COLUMNS)}")
            return
        for row in reader:
            if (line := _line(file, reader.line_num, row, faults)) is not None:
                yield line
    except csv.Error as error:
        faults.add(file, None, f"not a table: {error}")
    except Unreadable as error:
        faults.keep(error)


def _line(file: Path, number: int, row: Row, faults: Faults) -> _Line | None:
    if None in row or None in row.values():
        faults.add(file, number, f"expected as many columns as the header has, found {shown(list(row.values()))}")
        return None
    lists = {name: names for name in _LISTS if (names := _names(row[name])) is not None}
    wrong = [
        *(f"'{name}' must be a JSON list of texts, found {shown(row[name])}" for name in _LISTS if name not in lists),
        *(f"'{name}' must be a whole number, found {shown(row[name])}" for name in _VIEWS if not _is_count(row[name])),
        *(f"'{name}' is empty" for name in ("prop", "question") if not row[name].strip()),
    ]
    if wrong:
        faults.add(file, number, "; ".join(wrong))
        return None
    return _Line(file, number, row, lists, (int(row["s_pop"]), int(row["o_pop"])))


def _is_count(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", text) is not None


def _names(text: str) -> list[str] | None:
    try:
        return texts_of(json_value(text))
    except NotData:
        return None


def _fact(
    line: _Line, objects: Mapping[tuple[str, str], NamedAnswer], entries: dict[str, RelationEntry], faults: Faults
) -> Fact:
    """:param entries: relations with their questions; a new one is added."""
    file, number, row = line[:3]
    question = row["question"].replace(row["subj"], SUBJECT) if row["subj"] else ""
    template = as_template(question)
    expected = entries.setdefault(row["prop"], RelationEntry((template,), questions=(template,))).templates[0]
    if SUBJECT not in question:
        message = f"question {shown(row['question'])} does not name its subject {shown(row['subj'])}"
        faults.add(file, number, message)
    elif expected != template:
        message = f"relation {row['prop']!r} asks {expected.text!r} above, here {template.text!r}"
        faults.add(file, number, f"{message}: expected one question per relation")
    subject_id, aliases = _entity(row["s_uri"]) or row["subj"], tuple(line.lists["s_aliases"])
    about = (file, number, row["id"], row["prop"], row["subj"], subject_id)
    return Fact(*about, _answers(line, objects), subject_aliases=aliases)


def _object(line: _Line) -> NamedAnswer:
    name = line.row["obj"]
    aliases = tuple(alias for alias in line.lists["o_aliases"] if alias != name)
    return NamedAnswer(_entity(line.row["o_uri"]) or name, name, aliases)


def _answers(line: _Line, objects: Mapping[tuple[str, str], NamedAnswer]) -> tuple[NamedAnswer, ...]:
    """Return the right answers: the object, then objects of other questions, then the remaining names as one."""
    object_ = _object(line)
    answers, names, rest = {object_.id: object_}, {object_.name, *object_.aliases}, []
    for name in line.lists["possible_answers"]:
        if name in names or not name.strip():
            continue
        other = objects.get((line.row["prop"], name))
        names |= {name, *(other.aliases if other else ())}
        if other is None:
            rest.append(name)
        else:
            answers[other.id] = other
    return (*answers.values(), *([NamedAnswer(rest[0], rest[0], tuple(rest[1:]))] if rest else []))


def _entity(address: str) -> str:
    return address.rsplit("/", 1)[-1]


def _groups(subject: int, answer: int, answers: int) -> dict[str, str]:
    views = {"subject_views": subject, "answer_views": answer}
    counts = {name: str(count) if count >= 0 else _UNKNOWN for name, count in views.items()}
    return {POPULARITY: _class(subject), "answer_popularity": _class(answer), **counts, "answers": str(answers)}


def _class(views: int) -> str:
    return popularity(views) if views >= 0 else _UNKNOWN


FORMAT = define_format(
    "popqa",
    "test.tsv with s_pop and o_pop (PopQA)",
    TSV_ENDINGS,
    lambda file: begins_with(file, ("s_pop", "o_pop", "question")),
    _fill,
    nothing="no questions: expected one per line below the header",
    licence="MIT",
    refusal=_refuse_json,
)

"""PopQA (Mallen et al., ACL 2023): questions on entities of known popularity, each with all names of its answers.

As published (huggingface.co/datasets/akariasai/PopQA, ``test.tsv``): a header, then one question per line, separated by
tabs and quoted as in CSV; names are JSON lists. ``s_pop`` and ``o_pop`` are monthly page views of subject and answer,
less than 0 where they are not known. ``possible_answers`` holds the names of all right answers in one list: those of
``obj`` and its aliases are its own, one that is the ``obj`` of another question of the relation is that answer, and
what is left is one more answer.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fathom.data.graph.seen import popularity
from fathom.data.queries import POPULARITY, QuerySet
from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, aliased_graph
from fathom.formats.recognition import begins_with, data_files, note_rest
from fathom.prompts.questions import as_template
from fathom.reading import Faults, NotData, Unreadable, json_value, read_text, shown

OF_ANSWER, UNKNOWN = "answer_popularity", "unknown"
VIEWS, ANSWER_VIEWS = "subject_views", "answer_views"
_TEXTS = ("subj", "prop", "obj", "s_uri", "o_uri", "question")
_LISTS = ("s_aliases", "o_aliases", "possible_answers")
_COUNTS = ("s_pop", "o_pop")
_COLUMNS = ("id", *_TEXTS, *_LISTS, *_COUNTS)
_MARKS = ("s_pop", "o_pop", "question")
"""What its header has, and no other data set's."""

_COUNT = re.compile(r"-?[0-9]{1,18}")

_ENDINGS = (".tsv", ".tsv.gz")

Row = dict[str, str]


class _Line(NamedTuple):
    number: int
    row: Row
    lists: dict[str, list[str]]


def read_popqa(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    draft, tables = Draft(path, faults), _tables(path)
    if not tables:
        faults.add(path, None, "PopQA as JSON, which others made of it: give the published table, test.tsv")
        return None
    note_rest(path, _ENDINGS, tables, faults)
    lines = [(file, line) for file in tables for line in _lines(file, faults)]
    objects: dict[tuple[str, str], NamedAnswer] = {}
    for _, (_, row, lists) in lines:
        objects.setdefault((row["prop"], row["obj"]), _answer(row, lists))
    entries: dict[str, RelationEntry] = {}
    facts = [_fact(file, line, objects, entries, faults) for file, line in lines]
    views = {
        fact.id: (int(line.row["s_pop"]), int(line.row["o_pop"])) for fact, (_, line) in zip(facts, lines, strict=True)
    }
    names = AnswerNames(facts)
    add_queries(draft, facts, entries, names, lambda fact, gold: _groups(*views[fact.id], len(gold)))
    if not faults.found:
        names.note(path, faults)
        if unknown := sum(min(both) < 0 for both in views.values()):
            faults.note(path, None, f"questions with page views below 0, which stand for unknown: {unknown:,}")
    return draft.queryset(
        path.name.split(".")[0],
        lambda: aliased_graph(draft, facts, names),
        nothing="no questions: expected one per line below the header",
        licence="MIT",
    )


def _tables(path: Path) -> list[Path]:
    return [file for file in data_files(path, *_ENDINGS) if begins_with(file, _MARKS)]


def _as_json(path: Path) -> bool:
    """Whether it holds questions of PopQA in another layout."""
    return any(begins_with(file, ('"s_pop"', '"o_pop"')) for file in data_files(path, ".jsonl", ".json"))


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
    lists = {name: _names(row[name]) for name in _LISTS}
    wrong = [
        f"'{name}' must be a JSON list of texts, found {shown(row[name])}" for name in _LISTS if lists[name] is None
    ]
    wrong += [
        f"'{name}' must be a whole number, found {shown(row[name])}"
        for name in _COUNTS
        if not _COUNT.fullmatch(row[name])
    ]
    wrong += [f"'{name}' is empty" for name in ("prop", "question") if not row[name].strip()]
    if wrong:
        faults.add(file, number, "; ".join(wrong))
        return None
    return _Line(number, row, {name: found for name, found in lists.items() if found is not None})


def _names(text: str) -> list[str] | None:
    try:
        return texts_of(json_value(text))
    except NotData:
        return None


def _fact(
    file: Path,
    line: _Line,
    objects: Mapping[tuple[str, str], NamedAnswer],
    entries: dict[str, RelationEntry],
    faults: Faults,
) -> Fact:
    """:param entries: the question of each relation, to which a new one is added."""
    row, lists = line.row, line.lists
    question = row["question"].replace(row["subj"], SUBJECT) if row["subj"] else ""
    template = as_template(question)
    known = entries.setdefault(row["prop"], RelationEntry((template,), questions=(template,)))
    if SUBJECT not in question:
        faults.add(
            file, line.number, f"question {shown(row['question'])} does not name its subject {shown(row['subj'])}"
        )
    elif known.templates[0] != template:
        faults.add(
            file,
            line.number,
            f"relation {row['prop']!r} asks {known.templates[0].text!r} above, here {template.text!r}: expected one "
            "question per relation",
        )
    return Fact(
        file,
        line.number,
        row["id"],
        row["prop"],
        row["subj"],
        _entity(row["s_uri"]) or row["subj"],
        _answers(row, lists, objects),
        subject_aliases=tuple(lists["s_aliases"]),
    )


def _answer(row: Row, lists: Mapping[str, list[str]]) -> NamedAnswer:
    aliases = tuple(name for name in lists["o_aliases"] if name != row["obj"])
    return NamedAnswer(_entity(row["o_uri"]) or row["obj"], row["obj"], aliases)


def _answers(
    row: Row, lists: Mapping[str, list[str]], objects: Mapping[tuple[str, str], NamedAnswer]
) -> tuple[NamedAnswer, ...]:
    """All that are right, each once: the object first, then those that other questions have, then what is left."""
    own = _answer(row, lists)
    answers, named, left = {own.id: own}, {own.name, *own.aliases}, []
    for name in lists["possible_answers"]:
        if name in named or not name.strip():
            continue
        other = objects.get((row["prop"], name))
        named |= {name, *(other.aliases if other else ())}
        if other is None:
            left.append(name)
        else:
            answers[other.id] = other
    return (*answers.values(), *([NamedAnswer(left[0], left[0], tuple(left[1:]))] if left else []))


def _entity(address: str) -> str:
    return address.rsplit("/", 1)[-1]


def _groups(subject: int, answer: int, answers: int) -> dict[str, str]:
    views = {name: str(count) if count >= 0 else UNKNOWN for name, count in ((VIEWS, subject), (ANSWER_VIEWS, answer))}
    return {POPULARITY: _class(subject), OF_ANSWER: _class(answer), **views, "answers": str(answers)}


def _class(views: int) -> str:
    return popularity(views) if views >= 0 else UNKNOWN


FORMAT = Format(
    "popqa", "test.tsv with s_pop and o_pop (PopQA)", lambda path: bool(_tables(path)) or _as_json(path), read_popqa
)

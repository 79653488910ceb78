"""Facts in a table with a header, as spreadsheets write it: ``subject,relation,answer`` and perhaps ``template``.

Cells are separated by commas, semicolons or tabs and quoted as CSV. Templates belong to their relation; one without
``[X]`` is a sentence of its fact. Rows that differ in their template alone are one fact. Rows of a subject and relation
are correct answers of each other. Columns that ``facts.jsonl`` does not have are groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fathom.base.reading import Faults, Json, stands
from fathom.data.formats.base import check_templates
from fathom.data.formats.rows import Row, beginning, delimiter_of, read_cells
from fathom.data.templates import SUBJECT

_COLUMNS = dict.fromkeys(("subject", "relation", "answer"), "filled text")
_TEMPLATE = "template"
_FIELDS = (*_COLUMNS, "id", "subject_id", "answer_id", "language")
"""Columns that are fields of ``facts.jsonl``."""
_NO_GROUPS = (*_FIELDS, _TEMPLATE, "")
"""Also the nameless index of pandas."""


def is_fact_table(path: Path) -> bool:
    """Return whether a path is a ``.csv`` file, or a ``.tsv`` file whose header names facts."""
    if path.suffix == ".tsv" and path.is_file():
        header = {name.strip().casefold() for name in beginning(path).partition("\n")[0].split("\t")}
        return "answer" in header and not header.isdisjoint({"subject", "relation"})
    return path.suffix == ".csv" and stands(path) and not path.is_dir()


def read_fact_table(file: Path, entries: dict[str, tuple[int, Json]], faults: Faults) -> Iterator[tuple[int, Json]]:
    """Return lines and fields of facts, as in ``facts.jsonl``.

    :param entries: lines and fields of relations, as in ``relations.jsonl``; those of the table are added.
    """
    cells = read_cells(file, _COLUMNS, faults, delimiter_of(beginning(file)), (*_COLUMNS, _TEMPLATE))
    rows = [row for line, content in cells if (row := Row(file, line, content, faults)).fits(_COLUMNS)]
    if rows and (others := [name for name in rows[0].content if name not in _NO_GROUPS]):
        faults.note(file, 1, f"columns that are groups, for breakdowns: {', '.join(others)}")
    facts: list[tuple[int, Json]] = []
    first: dict[tuple[str, ...], Json] = {}
    answers: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        fact, template = _fact(row), row[_TEMPLATE] or ""
        _, entry = entries.setdefault(fact["relation"], (row.line or 1, {"relation": fact["relation"]}))
        templates = entry.setdefault("templates", [])
        if SUBJECT in template and template not in templates and isinstance(templates, list):
            templates += [one.text for one in check_templates(file, row.line, [template], faults)]
        key = tuple(str(value) for value in fact.values())
        if key not in first or (*key, template) in seen:  # a row that is repeated is a fact of its own
            facts.append((row.line or 1, fact))
        first.setdefault(key, fact)
        seen.add((*key, template))
        if template and SUBJECT not in template:
            first[key].setdefault("sentences", []).append(template)
        answers[fact["subject"], fact["relation"]][fact["answer"]] = None
    for line, fact in facts:
        others = [name for name in answers[fact["subject"], fact["relation"]] if name != fact["answer"]]
        yield line, fact | ({"known": others} if others else {})


def _fact(row: Row) -> Json:
    groups = {name: value or "unknown" for name, value in row.content.items() if name not in _NO_GROUPS}
    fields = {name: row[name] for name in _FIELDS if row[name]}
    return fields | ({"groups": groups} if groups else {})

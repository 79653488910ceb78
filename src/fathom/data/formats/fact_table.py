"""Facts as a table: CSV as spreadsheets write it, Parquet, and data frames.

A row has a subject, a relation and an answer. Triples are facts: head and tail are names for subject and answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fathom.base.errors import BadInput
from fathom.base.progress import log
from fathom.base.reading import Faults, Json, Unreadable, first_few, parquet_file, stands
from fathom.base.reading.binary import INDEX, index_columns
from fathom.data.formats.base import check_templates
from fathom.data.formats.rdf import words_of
from fathom.data.formats.rows import Row, beginning, delimiter_of, header_fault, read_cells
from fathom.data.selection.options import TABLE_COLUMNS
from fathom.data.templates import ANSWER, SUBJECT

if TYPE_CHECKING:
    import pyarrow as pa


class Frame(Protocol):
    """A data frame of pandas, polars or pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as Arrow streams them."""


FRAME = Path("<data frame>")
"""Stands for the file of a data frame."""
TABLES = (".csv", ".tsv", ".parquet")
TRIPLE = {"head": "subject", "tail": "answer"}
RENAME = "if they have other names, say --columns subject=…,relation=…,answer=…"
_COLUMNS = dict.fromkeys(("subject", "relation", "answer"), "filled text")
_TEMPLATE = "template"
_VERBS = ("is", "was", "are", "were", "has", "had")
_PREPOSITIONS = ("of", "in", "by", "to", "at", "from", "for", "with", "on", "as", "into", "about")


def renamed_columns(columns: str | None) -> dict[str, str]:
    """Return our names by those of a table: ``{"s": "subject"}`` of "subject=s"; nothing of an order of triples."""
    pairs = [pair.partition("=") for pair in (columns or "").split(",")]
    return {name.strip().casefold(): field.strip() for field, sign, name in pairs if sign}


def frame_of(data: Frame) -> pa.Table:
    """Return a data frame as an Arrow table. :raises BadInput: it is none."""
    import pyarrow as pa

    try:
        return pa.table(data)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        expected = "expected a folder, the name of a data set, a query set or a data frame"
        raise BadInput(f"data of the type {type(data).__name__}: {expected}") from error


def is_fact_table(path: Path, named: bool = False) -> bool:
    """Return whether a path is a ``.csv`` or ``.parquet`` file, or a ``.tsv`` file whose header names facts.

    :param named: its columns are named elsewhere, so that a header need not name facts.
    """
    if path.suffix == ".tsv" and path.is_file() and not named:
        header = {name.strip().casefold() for name in beginning(path).partition("\n")[0].split("\t")}
        return "answer" in header and not header.isdisjoint({"subject", "relation"})
    return path.suffix in TABLES and stands(path) and not path.is_dir()


def read_fact_table(
    file: Path,
    entries: dict[str, tuple[int, Json]],
    faults: Faults,
    names: Mapping[str, str] | None = None,
    frame: pa.Table | None = None,
) -> Iterator[tuple[int, Json]]:
    """Return lines and fields of facts, as in ``facts.jsonl``, of a table.

    Templates belong to their relation; one without ``[X]`` is a sentence of its fact. Rows that differ in their
    template alone are one fact. Rows of a subject and relation are correct answers of each other. Columns that
    ``facts.jsonl`` does not have are groups. A relation without a template takes one made of its name.

    :param entries: lines and fields of relations, as in ``relations.jsonl``; those of the table are added.
    :param names: of :func:`renamed_columns`.
    :param frame: the table, if it is not in the file.
    """
    rows = list(_rows(file, faults, TRIPLE | dict(names or {}), frame))
    if rows and (groups := [name for name in rows[0].content if name not in (*TABLE_COLUMNS, "")]):
        faults.note(file, 1, f"columns that are groups, for breakdowns: {', '.join(groups)}")
    facts: list[tuple[int, Json]] = []
    first: dict[tuple[str, ...], Json] = {}
    answers: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        fact, template = _fact(row), row[_TEMPLATE] or ""
        _, entry = entries.setdefault(fact["relation"], (row.line or 1, {"relation": fact["relation"]}))
        templates = entry.setdefault("templates", [])
        if SUBJECT in template and template not in templates and isinstance(templates, list):
            templates += [checked.text for checked in check_templates(file, row.line, [template], faults)]
        key = tuple(str(value) for value in fact.values())
        if key not in first or (*key, template) in seen:  # a row that is repeated is a fact of its own
            facts.append((row.line or 1, fact))
        first.setdefault(key, fact)
        seen.add((*key, template))
        if template and SUBJECT not in template:
            first[key].setdefault("sentences", []).append(template)
        answers[fact["subject"], fact["relation"]][fact["answer"]] = None
    _make_templates(file, entries, [fact for _, fact in facts])
    for line, fact in facts:
        others = [name for name in answers[fact["subject"], fact["relation"]] if name != fact["answer"]]
        yield line, fact | ({"known": others} if others else {})


def _rows(file: Path, faults: Faults, names: Mapping[str, str], frame: pa.Table | None) -> Iterator[Row]:
    """Yield the rows that have a subject, a relation and an answer; the others are faults."""
    if frame is None and file.suffix != ".parquet":
        cells = read_cells(file, _COLUMNS, faults, delimiter_of(beginning(file)), TABLE_COLUMNS[:4], names, RENAME)
    else:
        cells = _frame_rows(file, faults, names, frame)
    for line, content in cells:
        row = Row(file, line, content, faults)
        if row.fits(_COLUMNS):
            yield row


def _frame_rows(
    file: Path, faults: Faults, names: Mapping[str, str], frame: pa.Table | None
) -> Iterator[tuple[int, Json]]:
    faults.read.add(file)
    try:
        table = parquet_file(file, what_to_do="expected a Parquet file of facts") if frame is None else frame
    except Unreadable as error:
        faults.keep(error)
        return
    table = without_index(file, table, (*TABLE_COLUMNS, *names), faults)
    header = [names.get(name.casefold(), name.casefold()) for name in table.column_names]
    if why := header_fault(header, _COLUMNS, TABLE_COLUMNS[:4]):
        faults.add(file, None, f"{why}; {RENAME}")
        return
    for number, row in enumerate(table.rename_columns(header).to_pylist(), start=1):
        yield number, {name: _cell(value) for name, value in row.items()}


def without_index(file: Path, table: pa.Table, kept: Collection[str], faults: Faults) -> pa.Table:
    """Leave out the index of a pandas table, and note it if it has a name. :param kept: columns that are no index."""
    index = [name for name in index_columns(table) if name.casefold() not in kept]
    if named := [name for name in index if not name.startswith(INDEX)]:
        faults.note(file, None, f"not read: the table's index {', '.join(named)}")
    return table.drop_columns(index)


def _cell(value: Any) -> Any:
    """Return a value as text, "" if it is missing; lists and objects stay, to be refused."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    return value if isinstance(value, list | dict) else str(value)


def _fact(row: Row) -> Json:
    groups = {name: value or "unknown" for name, value in row.content.items() if name not in (*TABLE_COLUMNS, "")}
    fields = {name: row[name] for name in TABLE_COLUMNS if name != _TEMPLATE and row[name]}
    return fields | ({"groups": groups} if groups else {})


def _make_templates(file: Path, entries: dict[str, tuple[int, Json]], facts: list[Json]) -> None:
    """Give each relation that has no template, nor a sentence for each fact, one made of its name, and log them."""
    in_need = {fact["relation"] for fact in facts if "sentences" not in fact}
    made = []
    for relation, (_, entry) in entries.items():
        if relation in in_need and not entry.get("templates"):
            entry["templates"] = [template_from(str(entry.get("name", relation)))]
            made += entry["templates"]
    if made:
        log(f"{file}: templates made of the names of relations: {first_few(made)}; a column 'template' gives yours")


def template_from(name: str) -> str:
    """Return a statement made of a relation's name: "[X] was born in [Y].", "The capital of [X] is [Y]."."""
    words = words_of(name)
    parts = words.lower().split()
    if parts and (parts[0] in _VERBS or parts[-1] in _PREPOSITIONS):
        return f"{SUBJECT} {words} {ANSWER}."
    return f"The {words} of {SUBJECT} is {ANSWER}."

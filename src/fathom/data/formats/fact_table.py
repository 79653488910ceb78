"""Facts as a table: CSV as spreadsheets write it, Parquet, and data frames.

A row has a subject, a relation and an answer. Triples are facts: head and tail are names for subject and answer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fathom.base.errors import BadInput
from fathom.base.progress import log
from fathom.base.reading import Faults, Json, Unreadable, first_few, parquet_file, shown, stands
from fathom.base.reading.binary import INDEX, index_columns
from fathom.base.reading.files import ending_of
from fathom.base.reading.spelling import Spelling, tidy
from fathom.data.column_names import TABLE_COLUMNS
from fathom.data.formats.base import check_templates
from fathom.data.formats.rdf import words_of
from fathom.data.formats.rows import Row, beginning, delimiter_of, read_cells
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
_TEMPLATE, _LANGUAGE = "template", "language"
_KINDS = dict.fromkeys(TABLE_COLUMNS, "text or none") | _COLUMNS
_VERBS = ("is", "was", "are", "were", "has", "had")
_PREPOSITIONS = ("of", "in", "by", "to", "at", "from", "for", "with", "on", "as", "into", "about")
_IDENTIFIER = re.compile(r"[\W\d_]*[^\W\d_]?[\W\d_]+")
"""Names without words, such as P36, 17 and r_1."""


def header_of(found: Sequence[str], names: Mapping[str, str], advice: str) -> tuple[list[str], str]:
    """Return our names of a table's columns, and why they cannot be used; "" if they can.

    :param found: what the table calls them, in lower case.
    :param names: of :func:`fathom.data.column_names.renamed_columns`.
    """
    taken = {*found, *names.values()}
    called = {name: field for name, field in TRIPLE.items() if field not in taken} | dict(names)
    header = [called.get(name, name) for name in found]
    absent = [name for name in names if name not in found]
    missing = [name for name in _COLUMNS if name not in header]
    doubles = [name for name, count in Counter(header).items() if count > 1]
    if absent:
        why = f"there is no column {', '.join(absent)}"
    elif doubles:
        of_double = [name for name, field in zip(found, header, strict=True) if field == doubles[0]]
        why = f"two columns are the {doubles[0]}: {' and '.join(of_double)}"
    elif missing:
        why = f"column {', '.join(missing)} is missing: expected {', '.join(TABLE_COLUMNS[:4])}"
    else:
        return header, ""
    return header, f"{why}, found {shown(list(found))}{advice if missing and not names else ''}"


def frame_of(data: Frame) -> pa.Table:
    """Return a data frame as an Arrow table. :raises BadInput: it is none."""
    import pyarrow as pa

    try:
        return pa.table(data)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        expected = "expected a folder, the name of a data set, a query set or a data frame"
        reason = next(iter(str(error).splitlines()), "")
        raise BadInput(f"data of the type {type(data).__name__}: {expected} ({reason})") from error


def is_fact_table(path: Path, named: bool = False) -> bool:
    """Return whether a path is a ``.csv`` or ``.parquet`` file, or a ``.tsv`` file whose header names facts.

    :param named: its columns are named elsewhere, so that a header need not name facts.
    """
    if ending_of(path) == ".tsv" and path.is_file() and not named:
        header = {name.strip().casefold() for name in beginning(path).partition("\n")[0].split("\t")}
        return "answer" in header and not header.isdisjoint({"subject", "relation"})
    return ending_of(path) in TABLES and stands(path) and not path.is_dir()


def read_fact_table(
    file: Path,
    entries: dict[str, tuple[int, Json]],
    faults: Faults,
    names: Mapping[str, str] | None = None,
    frame: pa.Table | None = None,
) -> Iterator[tuple[int, Json]]:
    """Return lines and fields of facts, as in ``facts.jsonl``, of a table.

    Templates belong to their relation, and to the language of their row; one without ``[X]`` is a sentence of its fact.
    Rows that differ in their template alone are one fact. Rows of a subject and relation are correct answers of each
    other. Columns other than :data:`TABLE_COLUMNS` are groups. A relation without templates and sentences takes a
    template made of its name.

    :param entries: lines and fields of relations, as in ``relations.jsonl``; those of the table are added.
    :param names: of :func:`fathom.data.column_names.renamed_columns`.
    :param frame: the table, if it is not in the file.
    """
    rows = list(_rows(file, faults, names or {}, frame))
    if rows and (groups := [name for name in rows[0].content if name not in (*TABLE_COLUMNS, "")]):
        faults.note(file, 1, f"columns that are groups, for breakdowns: {', '.join(groups)}")
    defined = {relation for relation, (_, entry) in entries.items() if entry.get("templates")}
    facts: list[tuple[int, Json]] = []
    first: dict[tuple[str, ...], Json] = {}
    answers: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        fact, template = _fact(row), row[_TEMPLATE] or ""
        _, entry = entries.setdefault(fact["relation"], (row.line or 1, {"relation": fact["relation"]}))
        if SUBJECT in template:
            _add_template(row, entry, template, fact["relation"] in defined)
        key = tuple(str(value) for value in fact.values())
        if key not in first or (*key, template) in seen:  # a row that is repeated is a fact of its own
            facts.append((row.line or 1, fact))
        first.setdefault(key, fact)
        seen.add((*key, template))
        if template and SUBJECT not in template:
            first[key].setdefault("sentences", []).append(template)
        answers[_subject(fact), fact["relation"]][fact["answer"]] = None
    _make_templates(file, entries, [fact for _, fact in facts], faults)
    for line, fact in facts:
        others = [name for name in answers[_subject(fact), fact["relation"]] if name != fact["answer"]]
        yield line, fact | ({"known": others} if others else {})


def _subject(fact: Json) -> str:
    return str(fact.get("subject_id", fact["subject"]))


def _add_template(row: Row, entry: Json, template: str, is_defined: bool) -> None:
    """Add a template to a relation. :param is_defined: whether another file has its templates, to which it is added."""
    templates, language = entry.setdefault("templates", []), row[_LANGUAGE] or ""
    if is_defined and isinstance(templates, dict):
        row.refuse("a template, where relations.jsonl has templates by language: remove one of the two")
        return
    if language and not isinstance(templates, dict):
        entry["templates"] = templates = {"": templates} if templates else {}
    of_language = templates.setdefault(language, []) if isinstance(templates, dict) else templates
    if template not in of_language:
        of_language += [checked.text for checked in check_templates(row.file, row.line, [template], row.faults)]


def _rows(file: Path, faults: Faults, names: Mapping[str, str], frame: pa.Table | None) -> Iterator[Row]:
    """Yield the rows that have a subject, a relation and an answer; the others are faults."""
    if frame is None and ending_of(file) != ".parquet":
        name_columns = partial(header_of, names=names, advice=f"; {RENAME}")
        cells = read_cells(file, _COLUMNS, faults, delimiter_of(beginning(file)), name_columns)
    else:
        cells = _frame_rows(file, faults, names, frame)
    for line, content in cells:
        row = Row(file, line, content, faults)
        if row.fits({name: kind for name, kind in _KINDS.items() if name in content or name in _COLUMNS}):
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
    table = without_index(file, table, (*TABLE_COLUMNS, *TRIPLE, *names), faults)
    advice = RENAME if frame is None else 'if they have other names, say columns={"subject": "…", "answer": "…"}'
    header, why = header_of([tidy(name).casefold() for name in table.column_names], names, f"; {advice}")
    if why:
        faults.add(file, None, why)
        return
    spelling = Spelling(file, faults.respelt)
    columns = [_cells(column) for column in table.columns]
    for number, values in enumerate(zip(*columns, strict=True), start=1):
        yield number, {name: spelling.of(number, value) for name, value in zip(header, values, strict=True)}


def without_index(file: Path, table: pa.Table, kept: Collection[str], faults: Faults) -> pa.Table:
    """Leave out the index of a pandas table, and note it if it has a name. :param kept: columns that are no index."""
    index = [name for name in index_columns(table) if name.casefold() not in kept]
    if named := [name for name in index if not name.startswith(INDEX)]:
        faults.note(file, None, f"not read: the table's index {', '.join(named)}")
    return table.drop_columns(index)


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Return values as texts, "" for those that are missing; lists and objects stay, to be refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        values = column.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = column.to_pylist()
    return ["" if value is None else value for value in values]


def _fact(row: Row) -> Json:
    groups = {name: value or "unknown" for name, value in row.content.items() if name not in (*TABLE_COLUMNS, "")}
    fields = {name: row[name] for name in TABLE_COLUMNS if name != _TEMPLATE and row[name]}
    return fields | ({"groups": groups} if groups else {})


def _make_templates(file: Path, entries: dict[str, tuple[int, Json]], facts: list[Json], faults: Faults) -> None:
    """Give each relation that has neither templates nor sentences a template made of its name, and log them."""
    by_sentence = {fact["relation"] for fact in facts if "sentences" in fact}
    made = []
    for relation, (line, entry) in entries.items():
        if entry.get("templates") or relation in by_sentence:
            continue
        name = str(entry.get("name", relation))
        if _IDENTIFIER.fullmatch(name):
            faults.add(file, line, f"relation {name!r} has no words to make a template of: add a column 'template'")
        text = template_from(name)
        entry["templates"] = [template.text for template in check_templates(file, line, [text], faults)]
        made += entry["templates"]
    if made:
        quoted = first_few([repr(text) for text in made])
        log(f"{file}: templates made of the names of relations: {quoted}; a column 'template' gives yours")


def template_from(name: str) -> str:
    """Return a statement made of a relation's name.

    "wasBornIn" → "[X] was born in [Y].", "located in" → "[X] is located in [Y].", "capital" → "The capital of [X] is
    [Y]."; a name with ``[X]`` is the statement.
    """
    if SUBJECT in name:
        return name
    words = words_of(name).removeprefix("the ")
    parts = words.lower().split()
    if parts and parts[0] in _VERBS:
        return f"{SUBJECT} {words} {ANSWER}."
    if parts and (parts[-1] in _PREPOSITIONS or parts[0].endswith("ed")):
        return f"{SUBJECT} is {words} {ANSWER}."
    return f"The {words} of {SUBJECT} is {ANSWER}."

"""Published data sets whose files are tables, read by the records of the catalogue (``fathom/data/published.yaml``).

A record (:class:`Record`) states how files are recognised, which columns they have, and which queries each row makes.
Where that takes more than columns, it names a function of :mod:`~fathom.data.formats.published_sets`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fathom.base.reading import Faults, shown, stands
from fathom.data.formats.base import Draft, Format, check_templates
from fathom.data.formats.facts import (
    ClosedQuestion,
    Fact,
    NamedAnswer,
    RelationEntry,
    add_facts,
    add_questions,
    completed,
)
from fathom.data.formats.rows import READERS, Columns, Row, RowReader, beginning, keys_of, texts_in
from fathom.data.queries import QuerySet
from fathom.data.templates import SUBJECT, Sentence

_LAYOUT = "@layout"
"""Where a row has its :class:`Layout`, under a name that no column has."""
_SLOT = re.compile(r"\{([^{}]+)\}")


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QueryRecord(_Declared):
    """A query made of a row.

    ``{column}`` stands for a cell, ``{a|b}`` for b where a is empty, ``{a <- b}`` for a with b in place of its ``{}``.
    In addition to columns there are the named groups of the file's name, ``stem`` (the name without endings),
    ``number`` (of the row), ``case`` (the number, after the file's name if there are several files) and ``n`` (of the
    query among those of its row). These take precedence over columns.

    :param id: by default the relation and a number.
    :param each: makes a query of each item of some lists: names of their items, with the columns.
    :param once: text that is equal in rows that repeat a query, which is made once.
    :param prompts: texts that the answer completes.
    :param templates: of the relation, by its first row: texts with ``{}`` for the subject, which the answer completes.
    :param relation_name: by default the relation; ``type`` is a domain and a group of the relation.
    :param wrong: distractors; without any, the candidates are all answers of the relation.
    :param right_id: of a single answer, and so *wrong_id*; by default its name.
    """

    relation: str
    right: str
    id: str = ""
    each: dict[str, str] = {}
    once: str = ""
    subset: str = ""
    prompts: str | list[str] = []
    templates: list[str] = []
    relation_name: str = ""
    type: str = ""
    subject: str = ""
    subject_id: str = ""
    known: str = ""
    wrong: str | None = None
    right_id: str = ""
    wrong_id: str = ""
    groups: dict[str, str] = {}


class Layout(_Declared):
    """A kind of files of a data set.

    :param opens: keys or columns with which such a file opens.
    :param columns: kinds of the columns (:data:`fathom.data.formats.rows.KINDS`).
    :param queries: of a row (:class:`QueryRecord`).
    """

    files: str = ".+"
    opens: frozenset[str] = frozenset()
    columns: Columns = {}
    all: dict[str, Any] = {}
    queries: list[dict[str, Any]] = []

    @cached_property
    def items(self) -> list[QueryRecord]:
        """The queries of a row."""
        return [QueryRecord(**(self.all | item)) for item in self.queries]


class Variant(_Declared):
    """A known variant that cannot be read. :param files: pattern of its names. :param opens: as in :class:`Layout`."""

    why: str
    opens: frozenset[str]
    files: str = ".+"


class Record(_Declared):
    """The layout of a published data set.

    :param expects: the file that identifies it, for messages.
    :param ending: of its files, which may be compressed (``.gz``).
    :param contains: text in the first 64 kB of each file.
    :param needs: name of a file of another kind in the folder, without which the format does not fit.
    :param folders: patterns of further folders to search, such as "test" or "*".
    :param rows: how a file is parsed, by a name of :data:`fathom.data.formats.rows.READERS`.
    :param make: name of the function that makes queries of the rows, if ``queries`` cannot state them.
    :param prefer: beginning of the name of the file that is read if several have the same facts.
    :param separate: files are independent, so that one with faults is left out if others have none.
    :param largest_first: read the files from the last name to the first.
    """

    expects: str
    rows: str
    layouts: list[Layout]
    nothing: str
    files: str = ".+"
    ending: str = ".json"
    contains: str = ""
    needs: str = ""
    folders: list[str] = []
    make: str = ""
    refused: list[Variant] = []
    prefer: str = ""
    separate: bool = False
    largest_first: bool = False


Make = Callable[[Draft, Iterator[Row]], Mapping[str, Any]]
"""Adds the queries of rows to a draft; returns further arguments of :meth:`Draft.queryset`."""


class Table:
    """The reader of a record. :param make: makes queries of the rows in place of the record."""

    def __init__(
        self, name: str, record: Record, licence: str, make: Make | None = None, reads: RowReader | None = None
    ) -> None:
        self.record, self.licence, self._make = record, licence, make or self._make_queries
        self._reads = reads or READERS[record.rows]
        self._name = re.compile(f"(?:{record.files}){re.escape(record.ending)}(?:\\.gz)?")
        self.format = Format(name, record.expects, self._fits, self._read)

    def _fits(self, path: Path) -> bool:
        if self.record.needs:
            return stands(path / self.record.needs)
        return bool(self._files(path) or self._refusal(path))

    def _read(self, path: Path, faults: Faults) -> QuerySet | None:
        files = self._files(path)
        if not files and not self.record.needs:
            faults.add(path, None, self._refusal(path))
            return None
        for file in files:
            if file.with_suffix("") in files:
                faults.add(file, None, f"is next to {file.stem}: both have the same content, remove one of the two")
        draft = Draft(path, faults)
        about = self._make(draft, self._rows(path, files, faults))
        return draft.queryset(path.name.split(".")[0], nothing=self.record.nothing, licence=self.licence, **about)

    def _candidates(self, path: Path) -> list[Path]:
        inner = (folder for some in self.record.folders for folder in sorted(path.glob(some)) if folder.is_dir())
        folders = [path, *inner] if path.is_dir() else [path]
        return [file for folder in folders for file in data_files(folder, self.record.ending)]

    def _files(self, path: Path) -> dict[Path, Layout]:
        """Return its files below a path, or the file itself, each with its layout."""
        named = (file for file in self._candidates(path) if self._name.fullmatch(file.name))
        files = {file: layout for file in named if (layout := self._layout_of(file)) is not None}
        return dict(reversed(files.items())) if self.record.largest_first else files

    def _layout_of(self, file: Path) -> Layout | None:
        if self.record.contains and self.record.contains not in beginning(file):
            return None
        named = (layout for layout in self.record.layouts if re.match(f"(?:{layout.files})\\.", file.name))
        return next((layout for layout in named if not layout.opens or layout.opens <= keys_of(file)), None)

    def _refusal(self, path: Path) -> str:
        for file in data_files(path, ".json", ".jsonl") if self.record.refused else ():
            for variant in self.record.refused:
                if re.fullmatch(variant.files, file.name) and variant.opens <= keys_of(file):
                    return variant.why
        return ""

    def _rows(self, path: Path, files: Mapping[Path, Layout], faults: Faults) -> Iterator[Row]:
        if self.record.prefer and len(files) > 1:
            preferred = next((file for file in files if file.name.startswith(self.record.prefer)), next(iter(files)))
            others = ", ".join(file.name for file in files if file != preferred)
            same = f"the same facts as {preferred.name}, which is read: give another file to read it"
            faults.note(path, None, f"{others} have {same}")
            faults.read.update(files)
            files = {preferred: files[preferred]}
        if not self.record.separate:
            return (row for file, layout in files.items() for row in self._rows_of(file, layout, faults, len(files)))
        by_file = {file: Faults() for file in files}
        rows = {file: list(self._rows_of(file, files[file], in_file, len(files))) for file, in_file in by_file.items()}
        for in_file in by_file.values():
            faults.read |= in_file.read
            faults.respelt += in_file.respelt
        leave_out({file: in_file.found for file, in_file in by_file.items()}, rows, faults)
        return (row for some in rows.values() for row in some)

    def _rows_of(self, file: Path, layout: Layout, faults: Faults, files: int) -> Iterator[Row]:
        match = self._name.fullmatch(file.name)
        assert match is not None
        stem = file.name.split(".")[0]
        about = {**match.groupdict(), "stem": stem, _LAYOUT: layout}
        for number, (line, content) in enumerate(self._reads(file, layout.columns, faults)):
            case = f"{stem}/{number}" if files > 1 else str(number)
            row = Row(file, line, content, faults, {**about, "number": str(number), "case": case})
            if row.fits(layout.columns):
                yield row

    def _make_queries(self, draft: Draft, rows: Iterator[Row]) -> Mapping[str, Any]:
        """Make the queries of the record."""
        subsets: dict[str, set[str]] = defaultdict(set)
        made = list(_made(rows, subsets))
        about: dict[str, Any] = {"subsets": {name: frozenset(ids) for name, ids in sorted(subsets.items())}}
        if any(item.wrong is not None for layout in self.record.layouts for item in layout.items):
            return about | add_questions(draft, (_question(*query) for query in made))
        return about | add_facts(draft, [_fact(*query) for query in made], _entries(made))


Made = tuple[Row, QueryRecord, str]
"""A row, one of its queries and its id."""


def _made(rows: Iterator[Row], subsets: dict[str, set[str]]) -> Iterator[Made]:
    """Yield each query once. :param subsets: ids of the queries of each subset, which are added."""
    ids: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        numbers = count()
        for item in row[_LAYOUT].items:
            lists = [row[column] for column in item.each.values()]
            if len(set(map(len, lists))) > 1:
                row.refuse(f"lists of unequal length: {', '.join(item.each.values())}")
                continue
            for values in zip(*lists, strict=True) if lists else [()]:
                part = row.having(n=str(next(numbers)), **dict(zip(item.each, values, strict=True)))
                relation = _text(item.relation, part)
                key = _text(item.once, part) or f"{row.file} {row['number']} {part['n']}"
                if key not in ids:
                    ids[key] = _text(item.id, part) or f"{relation}/{counts[relation]}"
                    counts[relation] += 1
                    yield part, item, ids[key]
                if item.subset and (subset := _text(item.subset, part)):
                    subsets[subset].add(ids[key])


def _entries(made: Iterable[Made]) -> dict[str, RelationEntry]:
    """Return the relations, each with the templates of its first row."""
    entries: dict[str, RelationEntry] = {}
    for row, item, _ in made:
        if (relation := _text(item.relation, row)) in entries:
            continue
        texts = [text for text in _texts(item.templates, row) if text]
        for text in texts:
            if "{}" not in text:
                row.refuse(f"template {shown(text)} has no {{}}: expected it for the subject")
        templates = (completed(text.replace("{}", SUBJECT)) for text in texts)
        checked, kind = check_templates(row.file, row.line, templates, row.faults), _text(item.type, row)
        name, domains = _text(item.relation_name, row), (kind,) if kind else ()
        entries[relation] = RelationEntry(checked, name, kind, domains=domains)
    return entries


def _question(row: Row, item: QueryRecord, id_: str) -> ClosedQuestion:
    right, wrong = _texts(item.right, row), _texts(item.wrong or "", row)
    named = ((right, item.right_id), (wrong, item.wrong_id))
    ids = {names[0]: _text(id_, row) for names, id_ in named if id_ and names}
    return ClosedQuestion(
        row.file,
        row.line,
        id_,
        _text(item.relation, row),
        list(map(completed, _texts(item.prompts, row))),
        right,
        wrong,
        {name: _text(group, row) for name, group in item.groups.items()},
        _text(item.subject, row),
        _text(item.subject_id, row),
        known=[name for name in _texts(item.known, row) if name not in right] if item.known else (),
        ids=ids,
    )


def _fact(row: Row, item: QueryRecord, id_: str) -> Fact:
    subject = _text(item.subject, row)
    return Fact(
        row.file,
        row.line,
        id_,
        _text(item.relation, row),
        subject,
        _text(item.subject_id, row) or subject,
        tuple(NamedAnswer(name, name) for name in _texts(item.right, row)),
        tuple(Sentence(completed(text)) for text in _texts(item.prompts, row)),
        by_sentence=bool(item.prompts),
        groups={name: _text(group, row) for name, group in item.groups.items()},
    )


def _texts(spec: str | list[str], row: Row) -> list[str]:
    """Fill in a text, which may be one slot with a list, or several texts."""
    if isinstance(spec, str):
        parts = _parts(spec)
        is_slot = len(parts) == 3 and not parts[0] and not parts[2]
        return texts_in(_value(parts[1], row)) if is_slot else [_text(spec, row)]
    return list(dict.fromkeys(text for part in spec for text in _texts(part, row)))


def _text(spec: str, row: Row) -> str:
    parts = _parts(spec)
    return "".join(str(_value(part, row)) if place % 2 else part for place, part in enumerate(parts))


_parts = cache(_SLOT.split)
"""Splits a text into what is outside and inside its slots, in turns."""


def _value(slot: str, row: Row) -> Any:
    for column in slot.split("|"):
        outer, _, inner = column.partition(" <- ")
        value = row[outer]
        if value not in (None, ""):
            return value.replace("{}", row[inner]) if inner else value
    return ""


def leave_out(found: Mapping[Path, list[str]], rows: dict[Path, Any], faults: Faults) -> None:
    """Remove the files with faults from *rows* and note them; if all have some, keep the faults."""
    bad = {file: messages for file, messages in found.items() if messages}
    for file, messages in bad.items():
        if len(bad) == len(found):
            faults.found += messages
        else:
            del rows[file]
            more = f" ({len(messages):,} faults)" if len(messages) > 1 else ""
            faults.notes.append(f"{file.name} left out: {messages[0]}{more}")


def data_files(path: Path, *endings: str) -> list[Path]:
    """List the file itself or the files of a folder with these endings, which may be compressed, by name."""
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError:
        return []
    return [file for file in paths if file.name.removesuffix(".gz").endswith(endings)]

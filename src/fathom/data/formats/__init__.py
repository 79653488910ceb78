"""Readers of data formats and, for data that Fathom generates, writers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fathom.base.errors import BadInput, alike
from fathom.base.reading import Faults, check_file, stands
from fathom.base.reading.files import check_encoding
from fathom.base.registry import Registry
from fathom.data.column_names import checked_columns, renamed_columns
from fathom.data.columns import first_fields
from fathom.data.formats import bear, choices, kg, lama, native, ontoprobe, openke, rdf, simkgc
from fathom.data.formats.base import Format, note_unread, read_about
from fathom.data.formats.fact_table import FRAME, Frame, frame_of, is_fact_table
from fathom.data.formats.hub import HUB, table_of
from fathom.data.formats.published_sets import MAKE, READERS
from fathom.data.formats.tables import Record, Table
from fathom.data.published import catalogue, fetchable, fetched
from fathom.data.queries import QuerySet

_BY_FOLDER = (bear, ontoprobe, choices, native, lama)
_TABLES = [
    Table(entry.format, record, entry.licence, MAKE.get(record.make), READERS.get(record.rows))
    for entry in catalogue().values()
    if entry.table is not None
    for record in (Record(**entry.table),)
]
_GRAPHS = (simkgc, openke, kg, rdf)
_OWN = (
    *(table.format for table in _TABLES if table.record.needs),
    *(module.FORMAT for module in _BY_FOLDER),
    *(table.format for table in _TABLES if not table.record.needs),
    *(module.FORMAT for module in _GRAPHS),
)
FORMATS: Registry[Format] = Registry("format", "fathom.formats", _OWN)
"""In order of priority: the first that fits reads."""
EMBEDDED = {"geography": Path(__file__).parents[1] / "geography"}
"""Data sets that come with the package."""


def locate(data: str | Path) -> Path:
    """Find a folder or file of triples by path, path below ``$FATHOM_DATA``, or name of an embedded or fetched set.

    :raises BadInput: there is none, or it is neither file nor folder.
    """
    path = check_encoding(Path(data).expanduser())
    if str(data).startswith(HUB):
        return table_of(str(data))
    if stands(path):
        if not path.is_dir():
            check_file(path)
        return path
    if str(data) in EMBEDDED:
        return EMBEDDED[str(data)]
    shelf = os.environ.get("FATHOM_DATA")
    if shelf and (Path(shelf) / data).is_dir():
        return Path(shelf) / data
    if (place := fetched(str(data))) is not None:
        return place
    names = {name.casefold(): name for name in fetchable(catalogue())}
    entries = [*EMBEDDED, *names.values()]
    can_be_fetched = names.get(str(data).partition("/")[0].casefold())
    raise BadInput(
        f"no data at '{data}': give a folder, or one of {', '.join(EMBEDDED)}"
        + (f", or a folder below FATHOM_DATA={shelf}" if shelf else "")
        + (f"; to fetch it, type fathom data fetch {can_be_fetched}" if can_be_fetched else "")
        + (f"; did you mean {' or '.join(like)}?" if not can_be_fetched and (like := alike(str(data), entries)) else "")
    )


def format_of(path: Path) -> Format | None:
    """Return the first format that fits a folder or file; None if none does."""
    return next((entry for entry in FORMATS.entries() if entry.fits(path)), None)


def examine(data: str | Path | Frame, columns: str | Mapping[str, str] | None = None) -> tuple[QuerySet | None, Faults]:
    """Read data and return its faults instead of raising them; None if it cannot be read. Parameters: :func:`read`.

    :raises BadInput: there is no such folder.
    """
    try:
        order = checked_columns(columns)
    except ValueError as error:
        raise BadInput(f"columns: {error}") from error
    names, faults = renamed_columns(order), Faults()
    if not isinstance(data, str | Path):
        return _examined(FRAME, native.read_table(FRAME, faults, names, frame_of(data), alone=True), faults)
    path = locate(data)
    if not path.name.strip("."):
        path = path.resolve()  # "." and ".." have no name for the data set
    is_table = is_fact_table(path, named=bool(names))
    layout = native.FORMAT if is_table and names else format_of(path)
    if layout is None:
        faults.add(path, None, f"no format fits{_nearest(path)}")
        faults.found += FORMATS.faults  # one of them may be the one that is needed
        return None, faults
    if names and not is_table:
        instead = "" if (table := _table_in(path)) is None else f", or give the file {table}"
        faults.add(path, None, f"--columns {columns} is of a table: leave it out{instead}")
        return None, faults
    if is_table and layout is native.FORMAT:
        is_of_hub = str(data).startswith(HUB)
        name = str(data).removeprefix(HUB).strip("/") if is_of_hub else path.stem
        queryset = native.read_table(path, faults, names, name=name, alone=is_of_hub)
    elif layout is kg.FORMAT:
        queryset = kg.read_graph(path, faults, None if names else order)
    else:
        queryset = layout.read(path, faults)
    if columns is not None and layout is not kg.FORMAT and not names:
        message = f"--columns {columns} is of plain triples: leave it out of data in the layout {layout.name}"
        faults.add(path, None, message)
    return _examined(path, queryset, faults)


def _examined(path: Path, queryset: QuerySet | None, faults: Faults) -> tuple[QuerySet | None, Faults]:
    """Add what is known of the data to what was read."""
    about = {} if path == FRAME else read_about(path if path.is_dir() else path.parent, faults)
    faults.note_respelt()
    note_unread(path, faults)
    if queryset is None or faults.found:
        return None, faults
    return replace(queryset, **about, notes=tuple(faults.notes)), faults


def _table_in(path: Path) -> Path | None:
    """Return the first table of facts in a folder."""
    return next((file for file in sorted(path.iterdir()) if is_fact_table(file)), None) if path.is_dir() else None


def _nearest(path: Path) -> str:
    """Name the layout most of whose files a folder has, or has under a similar name, and what it lacks."""
    added = "".join(f", or {entry.expects}" for entry in FORMATS.entries() if entry not in _OWN)
    if not path.is_dir():
        columns = f"lines of three columns separated by tabs, found {first_fields(path)}"
        return f": expected a .csv of subject, relation and answer, or {columns}{added}"
    there = [file.name for file in path.iterdir()]
    best, lacking = 0.0, f": see fathom data list; expected facts.jsonl, a .csv of facts, triples{added}"
    if (table := _table_in(path)) is not None:
        lacking = f": to read facts from a table, give the file {table}"
    for entry in FORMATS.entries():
        names = re.findall(r"[\w-]+\.(?:jsonl?|tsv|csv|txt|ya?ml)\b", entry.expects)
        similar = {name: alike(name, there, 1, cutoff=0.8) for name in names if name not in there}
        share = sum(name in there or bool(similar[name]) / 2 for name in names) / max(len(names), 1)
        if share > best:
            missing = (f"{name} is missing{f' (found {like[0]})' if like else ''}" for name, like in similar.items())
            best, lacks = share, ", ".join(missing) or "its files are not as expected"
            lacking = f": the nearest layout is {entry.name} ({entry.expects}); {lacks}"
    return lacking


def read(data: str | Path | Frame, columns: str | Mapping[str, str] | None = None) -> QuerySet:
    """Read data of any known format.

    :param data: a folder or file, the name of an embedded data set, ``hf://datasets/OWNER/NAME``, or a data frame
        (pandas, polars, pyarrow) with a subject, a relation and an answer in each row.
    :param columns: of files of triples, "hrt" (head, relation, tail) or "htr"; of a table, its names of our columns:
        ``{"subject": "question", "answer": "label"}``.
    :raises BadInput: with every fault found, each with file and line.

    >>> fathom.read_data("geography").name
    'geography'
    """
    queryset, faults = examine(data, columns)
    faults.stop_if_any()
    assert queryset is not None
    return queryset

"""Tables that studies have kept in the folders of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fathom.errors import BadInput
from fathom.reading import json_file
from fathom.results.tables import Table
from fathom.studies import STUDIES

_FOR_PROGRAMS = frozenset({"recipe", "note"})


def tables_of_studies(runs: Iterable[Path]) -> tuple[list[tuple[str, list[Table]]], list[str]]:
    """Of every study whose tables lie in the folder of a run or in the one above, where studies that ask keep them.

    :returns: of each file its name and tables, and what is wrong with files that cannot be read.
    """
    found, faults = [], []
    for folder in dict.fromkeys(own for run in runs for own in (run, run.resolve().parent)):
        for study in STUDIES.entries():
            file = folder / f"{study.name}.json"
            if not file.is_file():
                continue
            try:
                found.append((f"{study.name} ({file})", _tables(file)))
            except BadInput as error:
                faults += error.faults
    return found, faults


def _tables(file: Path) -> list[Table]:
    """:raises BadInput: it is not what a study writes."""
    try:
        return [_table(title, rows) for title, rows in json_file(file).items()]
    except (ValueError, AttributeError, TypeError) as error:
        raise BadInput(f"{file} is not a study's tables ({error}): type the study's command again") from error


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    body = tuple(tuple(row.get(name) for name in columns) for row in rows)
    recipes = dict.fromkeys(str(row["recipe"]) for row in rows if row.get("recipe"))
    return Table(columns, body, title, hidden=_FOR_PROGRAMS, notes=tuple(recipes))

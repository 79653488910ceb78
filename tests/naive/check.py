"""Comparison of the tables of a preset with their recomputation."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]
TEXTS = ("note", "recipe", "against paper")
"""Columns that every table may have, without numbers."""


def check_table(
    name: str, file: Path, expected: Sequence[Sequence[Row]], values: Path | None, keys: Sequence[str] = ()
) -> int:
    """Compare each cell. :returns: the number of cells of numbers.

    :param expected: rows of each table, in any order. A row has every column; ``...`` is a text that is not compared.
    :param values: the paper's own, if it prints some.
    :param keys: columns by which they name a row, by default the first.
    """
    content = json.loads(file.read_text())
    found = [rows for title, rows in content.items() if title != "answer"]
    assert len(found) == len(expected), f"{name}: {list(content)}"
    return sum(
        _check_rows(f"{name}, {title}", rows, list(own), _printed(values, name), keys)
        for (title, rows), own in zip(content.items(), expected, strict=True)
    )


def _check_rows(
    where: str,
    rows: Sequence[Row],
    expected: list[Row],
    printed: Mapping[tuple[str, str], float],
    keys: Sequence[str],
) -> int:
    assert len(rows) == len(expected), f"{where}: {len(rows)} rows, expected {len(expected)}"
    cells = 0
    for row in rows:
        compared = [name for name in row if name not in TEXTS and not name.endswith(" paper")]
        faults, own = min(((_faults(row, one, compared), one) for one in expected), key=lambda pair: len(pair[0]))
        assert not faults, f"{where}, {_texts(row)}: {faults[:4]}"
        expected.remove(own)
        cells += sum(not isinstance(own[name], str) and own[name] is not ... for name in compared)
        for column in (name for name in row if name.endswith(" paper") and name not in TEXTS):
            key = " ".join(filter(None, (row[one] for one in keys or list(row)[:1] if one in row)))
            known = printed.get((key.casefold(), column.removesuffix(" paper").casefold()))
            assert row[column] == known, f"{where}: {column}"
            cells += 1
    return cells


def _faults(row: Row, own: Row, compared: Sequence[str]) -> list[str]:
    """Say in which cells a row is not as expected."""
    faults = [f"{name} is in one of the two" for name in own.keys() ^ set(compared)]
    for name in own.keys() & set(compared):
        value, wanted = row[name], own[name]
        if wanted is ...:
            same = not isinstance(value, int | float)
        elif isinstance(wanted, str) or wanted is None or value is None:
            same = value == wanted
        else:
            same = value == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        faults += [] if same else [f"{name} {value}, expected {wanted}"]
    return faults


def _texts(row: Row) -> Row:
    return {name: value for name, value in row.items() if isinstance(value, str) and name not in TEXTS}


def _printed(values: Path | None, name: str) -> dict[tuple[str, str], float]:
    if values is None:
        return {}
    with values.open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["table"] == name]
    return {(line["row"].casefold(), line["column"].casefold()): float(line["value"]) for line in lines}

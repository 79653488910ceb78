"""Every cell of the simulated table of claims can be drawn: ``benchmarks/claims.py`` draws each thousands of times."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def table() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        module = importlib.import_module("claims")
        module.PILOTS = 3
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_every_cell_is_drawn_twice(table: ModuleType) -> None:
    for name, cells in table.CELLS.items():
        for setting in cells.settings:
            events, rough = table.count(name, setting, 2)
            assert 0 <= events <= 2, (name, setting)
            assert 0 <= rough <= 2, (name, setting)


def test_a_wrong_formula_would_be_marked(table: ModuleType) -> None:
    """Of 2,000 worlds 5 % are wrong by chance; 8 % are marked, unless their verdicts are called rough."""
    events, replicates = [100, 160, 160], [2000, 2000, 2000]
    assert table.conspicuous(events, [0, 0, 1900], replicates) == [False, True, False]


def test_the_table_is_printed(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", ["claims.py", "--replicates", "3", "--only", "planned", "bound"])
    table.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 + len(table.CELLS["planned"].settings) + len(table.CELLS["bound"].settings)
    assert lines[-1].startswith("Significantly above 6 %")
    assert lines[2].startswith("| planned | 12, 20, ")

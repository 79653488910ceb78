"""Every cell of the simulated table of claims can be drawn: ``benchmarks/claims.py`` draws each thousands of times."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


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
            counts = table.count(name, setting, 2)
            assert 0 <= counts.events <= 2, (name, setting)
            assert 0 <= counts.rough <= 2, (name, setting)


def test_a_wrong_formula_would_be_marked(table: ModuleType) -> None:
    """Of 2,000 worlds 5 % are wrong by chance; 8 % are marked, unless their verdicts are called rough."""
    events, replicates = [100, 160, 160], [2000, 2000, 2000]
    assert table.conspicuous(events, [0, 0, 1900], replicates) == [False, True, False]


def test_widths_are_those_of_the_deviation_of_the_estimates(table: ModuleType) -> None:
    """Estimates one above and one below the truth deviate by 1, so 3.92 is usual; the median of 1, 3 and 9 is 3."""
    assert table.relative_width([1.0, -1.0], [2 * 1.959964] * 2) == pytest.approx(1)
    assert table.relative_width([2.0, -2.0, 0.0], [1.0, 3.0, 9.0]) == pytest.approx(3 / (3.919928 * (8 / 3) ** 0.5))


@pytest.mark.parametrize(
    ("events", "width", "widest", "is_poor"),
    [(94, 1.25, 1.9, False), (93, 1.0, 1.0, True), (100, 1.26, 1.0, True), (100, 1.0, 2.0, True)],
)
def test_intervals_of_contrasts_that_are_too_narrow_or_too_wide_are_named(
    table: ModuleType, events: int, width: float, widest: float, is_poor: bool
) -> None:
    """94 of 100 are enough, 1.25 times the usual width is allowed, the whole range from −1 to 1 is not."""
    assert table.is_poor(table.Counts(events, 0, width, widest), 100) == is_poor


def test_the_table_is_printed(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", ["claims.py", "--replicates", "3", "--only", "planned", "bound"])
    table.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 + len(table.CELLS["planned"].settings) + len(table.CELLS["bound"].settings)
    assert lines[-2].startswith("Significantly above 6 %")
    assert lines[-1] == "Intervals of contrasts below 94 %, wider than 1.25 or the whole range: no cell"
    assert lines[2].startswith("| planned | 12, 20, ")

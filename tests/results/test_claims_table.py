"""Every cell of the simulated table of claims can be drawn: ``benchmarks/claims.py`` draws each thousands of times."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


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
    printed, said = capsys.readouterr()
    rows = list(csv.DictReader(StringIO(printed)))
    assert len(rows) == len(table.CELLS["planned"].settings) + len(table.CELLS["bound"].settings)
    assert (rows[0]["world"], rows[0]["worlds"]) == ("planned", "3")
    assert rows[0]["setting"].startswith("12, 20, ")
    assert said.splitlines()[-2].startswith("significantly above 6 %")
    assert said.splitlines()[-1] == "intervals of contrasts below 94 %, wider than 1.25 or the whole range: no cell"


def test_a_summary_has_the_ends_of_each_world(table: ModuleType) -> None:
    lines = ["a,1,300,5,2.0,0,", "a,2,300,5,0.5,100,", "b,1,40,95,96.0,0,1.20", "b,2,40,95,97.0,0,0.90"]
    cells = "\n".join([",".join(table.COLUMNS), *lines])
    assert table.summary(cells).splitlines()[2:] == [
        "| a | 2 | 300 | 5 | 0.5 to 2.0 | 1 |  |",
        "| b | 2 | 40 | 95 | 96.0 to 97.0 | 0 | 0.90 to 1.20 |",
    ]


def test_the_page_is_the_summary_of_the_file(table: ModuleType) -> None:
    notes = ROOT / "docs" / "notes"
    summary = table.summary((notes / "claims.csv").read_text(encoding="utf-8"))
    assert summary in (notes / "claims.md").read_text(encoding="utf-8")

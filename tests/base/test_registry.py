"""The tables that others can add to: what one file adds is there on the command line, and the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fathom.base.errors import BadInput
from fathom.base.reading import Faults
from fathom.base.registry import Registry
from fathom.data.formats import FORMATS, Format, examine, native
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from tests.cli.test_cli import gpt2, save
from tests.messages import correspond, mentioned, mentions, stated

# A format


def _read_capitals(path: Path, faults: Faults) -> QuerySet | None:
    """``Uganda: Kampala``, a line for each fact."""
    pairs = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        country, colon, capital = text.partition(": ")
        if not colon:
            faults.add(path, line, f"expected 'country: capital', found {text!r}")
        pairs.append((country, capital))
    capitals = tuple(dict.fromkeys(capital for _, capital in pairs))
    return QuerySet(
        path.stem,
        tuple(
            Query(f"capital/{n}", "capital", country, country, (capital,), "capital", groups={"cardinality": "1:1"})
            for n, (country, capital) in enumerate(pairs)
        ),
        {"capital": CandidateSet("capital", capitals, capitals)},
        {"capital": Relation("capital", "capital", (Template("The capital of [X] is [Y]."),), "1:1")},
    )


CAPITALS = Format("capitals", "a .capitals file", lambda path: path.suffix == ".capitals", _read_capitals)


@pytest.fixture
def capitals() -> Iterator[None]:
    FORMATS.add(CAPITALS)
    yield
    FORMATS.remove(CAPITALS)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    file = tmp_path / "three.capitals"
    file.write_text("Uganda: Kampala\nFrance: Paris\nJapan: Tokyo\n", encoding="utf-8")
    return file


@pytest.mark.usefixtures("capitals")
def test_a_format_of_one_entry_is_read_everywhere(fathom, three, tmp_path):
    code, out, _ = fathom("data", "info", three)
    assert code == 0
    assert out.startswith("three, content ")
    code, out, _ = fathom("data", "check", three)
    assert code == 0
    assert mentioned(out, f"{three}: 3 queries in 1 relations", "no faults")
    model = save(tmp_path / "model", gpt2())
    code, out, err = fathom("probe", "statement", "--model", model, "--data", three, "--out", tmp_path / "run")
    assert code == 0, err
    asked = pq.read_table(tmp_path / "run" / "queries.parquet").column("query_id").to_pylist()
    assert asked == ["capital/0", "capital/1", "capital/2"]


@pytest.mark.usefixtures("capitals")
def test_faults_of_an_added_format_are_shown_with_their_lines(fathom, three):
    three.write_text("Uganda: Kampala\nFrance, Paris\n", encoding="utf-8")
    code, _, err = fathom("data", "check", three)
    assert code == 2
    assert stated(err, f"{three}:2: ", "'country: capital'", "'France, Paris'")


def test_without_its_entry_no_format_fits(three):
    _, faults = examine(three)
    assert mentioned(faults.found[0], "no format fits", ".csv of subject, relation and answer", "found 1")
    assert "capitals file" not in faults.found[0]


@pytest.mark.usefixtures("capitals")
def test_where_none_fits_an_added_format_is_named(tmp_path):
    _, faults = examine(tmp_path)
    assert faults.found[0].endswith(", or a .capitals file")


def test_what_is_written_is_read(tmp_path):
    facts = [{"subject": "Uganda", "relation": "capital", "answer": "Kampala"}]
    native.write_native(tmp_path, facts, [{"relation": "capital", "templates": ["The capital of [X] is [Y]."]}])
    data, faults = examine(tmp_path)
    assert not faults.found
    assert data is not None
    assert [query.fact_id for query in data.queries] == ["Uganda|capital|Kampala"]


# The table itself


def test_an_entry_point_that_fails_is_one_line_and_the_rest_works(monkeypatch, tmp_path):
    broken = EntryPoint("broken", "no_such_package:FORMAT", "fathom.formats")
    monkeypatch.setattr("fathom.base.registry.entry_points", lambda group: [broken])
    monkeypatch.setattr("fathom.base.registry.REGISTRIES", [])  # the command line tells faults of those in use
    table = Registry("format", "fathom.formats", [CAPITALS])
    monkeypatch.setattr("fathom.data.formats.FORMATS", table)
    _, faults = examine(tmp_path)
    assert list(table) == ["capitals"]
    assert correspond(
        faults.found,
        (f"{tmp_path}:", "a .capitals file"),
        ("no_such_package:FORMAT", "'broken'", "ModuleNotFoundError", "'no_such_package'"),
    )


def test_two_entries_of_one_name_and_none(capitals):
    with pytest.raises(ValueError, match=mentions("'capitals'")):
        FORMATS.add(CAPITALS)
    with pytest.raises(BadInput, match=mentions("'nowhere'")):
        FORMATS.find("nowhere")

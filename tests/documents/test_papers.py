"""The tables of docs/papers.md, made of the settings in tests/plans/conformance.

``FATHOM_DOCS=write`` writes them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from fathom.plans.kinds import PRESETS
from tests.conformance import PAPERS, read_conformance

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"
BLOCK = re.compile(r"(<!-- (tables|settings): ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
WRITE = os.environ.get("FATHOM_DOCS") == "write"


def block(match: re.Match[str]) -> str:
    """Return a block of the page with the table that belongs there."""
    start, kind, name, end = match.groups()
    paper = read_conformance(name)
    lines = paper.lines_of_tables() if kind == "tables" else paper.lines_of_settings()
    return "\n".join([start.rstrip(), *lines, end])


def test_the_page_has_the_tables_and_settings_of_each_paper() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = [(match[2], match[3]) for match in BLOCK.finditer(text)]
    wanted = {("settings", name) for name in PAPERS}
    wanted |= {("tables", name) for name in PAPERS if read_conformance(name).tables}
    assert len(named) == len(wanted)
    assert {*named} == wanted
    made = BLOCK.sub(block, text)
    if WRITE:
        PAGE.write_text(made, encoding="utf-8")
    else:
        assert made == text, "docs/papers.md differs from tests/plans/conformance: FATHOM_DOCS=write rewrites it"


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "deer-times"])
def test_every_table_of_a_preset_is_on_the_page(name: str) -> None:
    """And the page names no others."""
    tables = {*yaml.safe_load(PRESETS[name].file.read_text())["tables"]}
    stated = " ".join(f"{table.here} {table.paper}" for table in read_conformance(name).tables)
    named = {*re.findall(r"\b(?:table|figure)-\d+\b", stated)}
    of_others = {"table-2"} if name == "deer" else set()
    numbered = {table for table in tables if re.fullmatch(r"(table|figure)-\d+", table)}
    assert numbered - named == set(), "tables that the page lacks"
    assert named - numbered == of_others

"""The three packages: `fathom` knows neither of the others, which enter by the entry points that strangers use."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, distribution, entry_points
from pathlib import Path
from typing import Any

import pytest

import fathom
from fathom.base.registry import CommandEntry, Registry
from fathom.cli import COMMANDS
from fathom.plans.kinds import KINDS, PRESETS, Kind
from fathom.probes import PROBES
from fathom.studies import STUDIES

FATHOM = Path(fathom.__file__).parent
OWN = "fathom_build", "fathom_kgc"


def test_fathom_names_neither_package_on_top_of_it() -> None:
    """References by string escape import-linter."""
    texts = [file for file in FATHOM.rglob("*") if file.is_file() and file.suffix in (".py", ".yaml", ".md")]
    named = [file for file in texts if re.search("|".join(OWN), file.read_text(encoding="utf-8"))]
    assert len(texts) > 200
    assert named == []


def test_what_the_packages_add_can_be_loaded() -> None:
    tables: list[Registry[Any]] = [COMMANDS, KINDS, PRESETS, PROBES, STUDIES]
    added = {table.group: [name for name, entry in table.items() if is_added(entry)] for table in tables}
    assert added["fathom.commands"] == ["build", "kgc"]
    assert added["fathom.probes"] == ["link"]
    assert added["fathom.runs"] == ["predictor"]
    assert "sakai2024" in PRESETS
    assert {"memory"} <= STUDIES.keys()
    assert {"link"} <= PROBES.keys()
    assert {"build", "kgc"} <= COMMANDS.keys()
    assert {"predictor"} <= KINDS.keys()
    assert [fault for table in tables for fault in table.faults] == []


def is_added(entry: object) -> bool:
    return any(package in repr(entry) for package in OWN)


def test_every_entry_point_of_the_distribution_is_in_a_registry() -> None:
    own = distribution("fathom-lm").entry_points
    groups: dict[str, Registry[Any]] = {table.group: table for table in (COMMANDS, KINDS, PRESETS, PROBES, STUDIES)}
    for point in own:
        if point.group == "fathom.names":
            assert point.load() is not None
        elif point.group != "console_scripts":
            assert groups[point.group][point.name] is point.load()


@pytest.mark.parametrize("name", ["train_links", "evaluate_links"])
def test_a_name_that_has_moved_says_where_it_is(name: str) -> None:
    assert [point.value for point in entry_points(group="fathom.names", name=name)] == [f"fathom_kgc:{name}"]
    with pytest.raises(ImportError, match=f"it is fathom_kgc.{name}$"):
        getattr(fathom, name)
    with pytest.raises(ImportError, match=f"it is fathom_kgc.{name}$"):
        exec(f"from fathom import {name}")


def test_an_entry_of_another_type_is_a_fault_and_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = EntryPoint("strange", "pathlib:Path", "fathom.commands")
    monkeypatch.setattr("fathom.base.registry.entry_points", lambda group: [strange])
    monkeypatch.setattr("fathom.base.registry.REGISTRIES", [])  # the command line tells faults of those in use
    own = CommandEntry("own", "Ask", "It is here.", "here:make")
    for table in (Registry("command", "fathom.commands", (own,)), Registry("kind of runs", "fathom.runs", (), Kind)):
        assert list(table) == (["own"] if table.kind == "command" else [])
        [fault] = table.faults
        assert "pathlib:Path" in fault
        assert "expected " in fault

"""The three packages: `fathom` knows neither of the others, which enter by the entry points that strangers use."""

from __future__ import annotations

import re
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

import fathom
from fathom.base.registry import REGISTRIES
from fathom.cli import COMMANDS, faults
from fathom.plans.kinds import KINDS
from fathom.plans.preset_files import PRESETS
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
    added = {table.group: [name for name, entry in table.items() if is_added(entry)] for table in REGISTRIES}
    assert added["fathom.commands"] == ["build", "kgc"]
    assert added["fathom.probes"] == ["link"]
    assert added["fathom.runs"] == ["predictor"]
    assert "sakai2024" in PRESETS
    assert {"memory", "memory-slope"} <= STUDIES.keys()
    assert {"link"} <= PROBES.keys()
    assert {"build", "kgc"} <= COMMANDS.keys()
    assert {"predictor"} <= KINDS.keys()
    assert faults() == []


def is_added(entry: object) -> bool:
    return any(package in repr(entry) for package in OWN)


def test_every_entry_point_of_the_distribution_is_in_a_registry() -> None:
    own = distribution("fathom-lm").entry_points
    groups = {table.group: table for table in REGISTRIES}
    for point in own:
        if point.group == "fathom.names":
            assert point.load() is not None
        elif point.group != "console_scripts":
            assert groups[point.group][point.name] is point.load()


@pytest.mark.parametrize("name", ["train_links", "evaluate_links"])
def test_a_name_that_has_moved_says_where_it_is(name: str) -> None:
    assert [point.value for point in entry_points(group="fathom.names", name=name)] == [f"fathom_kgc:{name}"]
    with pytest.raises(AttributeError, match=f"it is fathom_kgc.{name}$"):
        getattr(fathom, name)

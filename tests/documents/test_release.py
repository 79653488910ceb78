"""What a release states about itself is the same everywhere."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

from fathom import __version__

ROOT = Path(__file__).parents[2]


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["version"] == citation["version"] == __version__
    assert f"{{{__version__}}}" in (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")


def test_platforms_are_those_that_the_locks_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "import fcntl" in (ROOT / "src" / "fathom" / "store" / "locks.py").read_text(encoding="utf-8")
    assert {each for each in project["classifiers"] if each.startswith("Operating System")} == {
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
    }

"""Golden runs: every probe, study and link predictor by its command line, against what version 0.1.0 left behind.

Numbers that change are a change of method, to be told in the changelog; then ``FATHOM_GOLDEN=write pytest
tests/test_golden.py`` writes what is kept anew, or :data:`EXCEPTIONS` names what differs on purpose, and why.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.golden import kept
from tests.golden.desk import make_desk
from tests.golden.runs import CASES
from tests.test_server import completion

KEPT = Path(__file__).parent / "golden" / "cases"
WRITE = os.environ.get("FATHOM_GOLDEN") == "write"

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(case, pattern of the path in its JSON) → why it differs from what is kept. One that fits nothing is a failure."""

Say = Callable[..., tuple[int, str, str]]


class Desk:
    """A folder in which each case is run once, when it or one that needs it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[str, dict[str, Any]] = {}
        make_desk(folder)

    def left_by(self, name: str, fathom: Say, server: Callable[[], str]) -> dict[str, Any]:
        case = CASES[name]
        for module in case.extras:
            pytest.importorskip(module)
        for needed in case.needs:
            self.left_by(needed, fathom, server)
        if name in self.done:
            return self.done[name]
        printed: dict[str, Any] = {}
        folders: dict[str, Any] = {}
        for line in case.lines:
            typed = shlex.split(line.replace("{server}", server()) if "{server}" in line else line)
            code, out, err = fathom(*typed)
            assert code == 0, f"fathom {line}\n{err}"
            if typed[-2:] == ["--format", "json"]:
                printed[line] = kept.tidy(json.loads(json_in(out)), timed=case.timed)
            if "--out" in typed:
                folders[typed[typed.index("--out") + 1]] = None
        for folder in folders:
            folders[folder] = kept.kept_folder(self.folder / folder, case.timed)
        self.done[name] = {"printed": printed, "folders": folders}
        return self.done[name]


def json_in(text: str) -> str:
    """Some commands say a line in words behind their table."""
    return text[text.index("{") : text.rindex("}") + 1]


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Desk:
    return Desk(tmp_path_factory.mktemp("golden"))


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """Of a chat model that goes by the letters of what it is asked, and by the seed."""
    text = body["messages"][-1]["content"]
    lot = sum(text.encode()) + (body.get("seed") or 0)
    if names := re.search(r"candidates: (.*)\.\n", text):
        shown = names[1].split(", ")
        return completion(", ".join(shown[(lot + step) % len(shown)] for step in range(2)))
    return completion(f"({'abcd'[lot % 4]})")


@pytest.fixture
def server(request) -> Callable[[], str]:
    return lambda: request.getfixturevalue("serve")(each=reply).url


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_what_it_was(name, desk, fathom, server, monkeypatch):
    monkeypatch.chdir(desk.folder)
    now = json.loads(json.dumps(desk.left_by(name, fathom, server)))
    file = KEPT / f"{name}.json"
    if WRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(kept.dumped(now), encoding="utf-8")
    assert unexplained(name, kept.loaded(file.read_text(encoding="utf-8")), now) == []


def unexplained(name: str, before: Any, now: Any) -> list[str]:
    """Differences that no exception names, and exceptions that name none."""
    patterns = {pattern: False for case, pattern in EXCEPTIONS if case == name}
    found = []
    for path, words in kept.differences(before, now):
        fitting = [pattern for pattern in patterns if fnmatchcase(path, pattern)]
        patterns |= dict.fromkeys(fitting, True)
        if not fitting:
            found.append(f"{path}: {words}")
    return found + [f"the exception {pattern} fits no difference" for pattern, used in patterns.items() if not used]


def test_every_kept_file_has_its_case():
    assert {file.stem for file in KEPT.iterdir()} == set(CASES)
    assert {case for case, _ in EXCEPTIONS} <= set(CASES)

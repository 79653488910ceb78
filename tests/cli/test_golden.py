"""Golden numbers: run a case per probe and kind of table and compare values and structure with version 0.1.0.

Numbers that change are a change of method, to be told in the changelog; then ``FATHOM_GOLDEN=write pytest
tests/cli/test_golden.py`` writes what is kept anew, or :data:`EXCEPTIONS` names what differs on purpose, and why.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from fathom.store.folder import RunFolder
from fathom.studies import STUDIES
from tests.golden import kept
from tests.golden.desk import MODELS, make_desk, make_model
from tests.golden.runs import CASES, JSON, OLD, OLD_EXTRAS, OLD_NEEDS, OLD_PREDICTOR, OLD_WITHOUT
from tests.messages import correspond

KEPT = Path(__file__).parents[1] / "golden" / "cases"
OLD_RUNS = Path(__file__).parents[1] / "golden" / "version-0.1.0-runs"
WRITE = os.environ.get("FATHOM_GOLDEN") == "write"

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(case, pattern of the path in its JSON) → why it differs from what is kept; the metrics of a run of version 0.1.0 are
"old" and its name. An exception that fits nothing is a failure."""

Say = Callable[..., tuple[int, str, str]]


class Desk:
    """A folder in which each case is run once, when it or one that needs it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[str, dict[str, Any]] = {}
        make_desk(folder)

    def left_by(self, name: str, fathom: Say) -> dict[str, Any]:
        case = CASES[name]
        for module in case.extras:
            pytest.importorskip(module)
        for needed in case.needs:
            self.left_by(needed, fathom)
        if name in self.done:
            return self.done[name]
        printed: dict[str, Any] = {}
        folders: dict[str, Any] = {}
        for line in case.lines:
            typed = shlex.split(line)
            out = analysed(*typed[1:]) if typed[0] == "analyse" else said(fathom, *typed)
            if typed[-2:] in (["--format", "json"], ["--format", "csv"]):
                content = json.loads(json_in(out)) if typed[-1] == "json" else kept.csv_tables(out)
                printed[line] = kept.tidy(kept.printed_tables(content))
            if "--out" in typed:
                folders[typed[typed.index("--out") + 1]] = None
        for folder in folders:
            folders[folder] = kept.kept_folder(self.folder / folder)
        self.done[name] = {"printed": printed, "folders": folders}
        return self.done[name]


def said(fathom: Say, *typed: str) -> str:
    code, out, err = fathom(*typed)
    assert code == 0, f"fathom {shlex.join(typed)}\n{err}"
    return out


def analysed(name: str, run: str, _: str, out: str) -> str:
    """A study without a command."""
    study = STUDIES.find(name)
    study.save(study.analyse([RunFolder.open(run)]), Path(out))
    return ""


def json_in(text: str) -> str:
    """Some commands say a line in words behind their table."""
    return text[text.index("{") : text.rindex("}") + 1]


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Desk:
    return Desk(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_what_it_was(name, desk, fathom, monkeypatch):
    monkeypatch.chdir(desk.folder)
    now = json.loads(json.dumps(desk.left_by(name, fathom)))
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


def test_what_is_a_difference(monkeypatch):
    before = {"rank": [1.0, 2.5], "top_ids": [["a", "b"]], "accuracy": 0.5, "n": 3, "note": None}
    assert unexplained("x", before, before | {"new": 1, "accuracy": 0.500001}) == []
    assert unexplained("x", before, before | {"rank": [1.0, 2.500001]}) == ["rank/1: was 2.5, is 2.500001"]
    assert unexplained("x", before, before | {"top_ids": [["b", "a"]]}) != []
    assert unexplained("x", before, before | {"accuracy": 0.5001, "n": 4}) == [
        "accuracy: was 0.5, is 0.5001",
        "n: was 3, is 4",
    ]
    assert unexplained("x", before, {key: before[key] for key in before if key != "note"}) == [
        "note: was null, is gone"
    ]
    monkeypatch.setitem(EXCEPTIONS, ("x", "acc*"), "a reason")
    assert unexplained("x", before, before | {"accuracy": None}) == []
    assert correspond(unexplained("x", before, before), "acc*")


@pytest.fixture
def written(fathom, desk, monkeypatch) -> None:
    """Run folders are written once, by the version that they are kept for."""
    monkeypatch.chdir(desk.folder)
    if not WRITE or OLD_RUNS.exists():
        return
    monkeypatch.setattr("platform.node", lambda: "somewhere")
    said(fathom, *shlex.split(OLD_PREDICTOR))
    for name, line in OLD.items():
        for needed in OLD_NEEDS.get(name, ()):
            desk.left_by(needed, fathom)
        said(fathom, *shlex.split(line), "--out", f"old/{name}")
        told = kept.tidy(kept.printed_tables(json.loads(said(fathom, *metrics(f"old/{name}")))))
        Path(f"old/{name}.json").write_text(kept.dumped(told), encoding="utf-8")
    shutil.copytree("old", OLD_RUNS)
    shutil.copytree("links/old", OLD_RUNS / "links")


@pytest.mark.usefixtures("written")
def test_every_kept_file_has_its_case():
    assert {file.stem for file in KEPT.iterdir()} == set(CASES)
    assert {file.stem for file in OLD_RUNS.glob("*.json")} == set(OLD)
    assert {case for case, _ in EXCEPTIONS} <= {*CASES, *(f"old {name}" for name in OLD)}


def test_models_are_made_alike(desk, tmp_path):
    """Their digest is in the identity of runs, which could not be resumed otherwise."""
    for name in MODELS:
        make_model(name, tmp_path / name)
        files = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        assert files == {file.name: file.read_bytes() for file in (desk.folder / "models" / name).iterdir()}


# ------------------------------------------------------------------------------------------------------- earlier runs


def metrics(run: str | Path) -> list[str]:
    return ["metrics", str(run), "--by", "relation,template", *JSON.split()]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", OLD)
def test_a_run_of_an_earlier_version_is_read(name, fathom):
    now = kept.tidy(kept.printed_tables(json.loads(said(fathom, *metrics(OLD_RUNS / name)))))
    if WRITE:  # the run stays; what is said of it is of now
        (OLD_RUNS / f"{name}.json").write_text(kept.dumped(now), encoding="utf-8")
    before = kept.loaded((OLD_RUNS / f"{name}.json").read_text(encoding="utf-8"))
    assert unexplained(f"old {name}", before, now) == []


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", sorted({*OLD} - {"choice"}))  # which did not score the space before an option
def test_a_run_of_an_earlier_version_is_resumed(name, desk, fathom, monkeypatch):
    for module in OLD_EXTRAS.get(name, ()):
        pytest.importorskip(module)
    for needed in OLD_NEEDS.get(name, ()):
        desk.left_by(needed, fathom)
    monkeypatch.setattr("fathom.probes.run.setup.VERSION", "0.1.0")  # another version is another run
    if name == "link":
        shutil.copytree(OLD_RUNS / "links", "links/old", dirs_exist_ok=True)
    folder = Path("resumed") / name
    shutil.copytree(OLD_RUNS / name, folder)
    whole = kept.kept_run(folder)
    first, *others = sorted((folder / "predictions").iterdir())
    stamps = [file.stat().st_mtime_ns for file in others]
    first.unlink()
    said(fathom, *shlex.split(OLD[name]), *OLD_WITHOUT.get(name, ()), "--out", str(folder))
    resumed = kept.kept_run(folder)
    assert resumed["circumstances"]["sessions"] == 2
    assert [file.stat().st_mtime_ns for file in others] == stamps
    for part in ("identity", "queries", "candidates", "predictions"):
        assert list(kept.differences(kept.tidy(whole[part]), kept.tidy(resumed[part]))) == []

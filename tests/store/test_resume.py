"""``fathom show`` and ``fathom resume``: a run that can be finished without its command line."""

from __future__ import annotations

import json
import os
import shlex

import pytest

import fathom as library
from fathom.store.folder import RunFolder
from tests.cli.test_cli import gpt2, save
from tests.messages import mentioned


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("resume") / "model", gpt2())


def ask(*more):
    words = ["probe", "statement", "--model", "model", "--data", "geography", "--relations", "capital,currency"]
    return [*words, "--limit", "12", "--reduction", "sum,mean", "--templates", "0", "--no-capitalize", *more]


@pytest.fixture
def begun(fathom, model, tmp_path, monkeypatch):
    """A run typed with relative paths, and then without its last shard."""
    (tmp_path / "at").mkdir()
    (tmp_path / "at" / "model").symlink_to(model)
    monkeypatch.chdir(tmp_path / "at")
    assert fathom(*ask("--out", "runs/one"))[0] == 0
    monkeypatch.chdir(tmp_path)
    run = RunFolder("at/runs/one")
    last = run.file_of(run.manifest["plan"][-1])
    run.whole = run.predictions().to_pylist()
    last.unlink()
    return run


def test_a_run_is_finished_from_anywhere(begun, fathom):
    code, text, _ = fathom("show", "at/runs/one")
    assert code == 0
    assert mentioned(
        text, "statement probe", "4 of 12 queries", "relations missing: currency", "next: fathom resume at/runs/one"
    )
    code, text, _ = fathom("resume", "at/runs/one", "--dry-run")
    assert code == 0
    assert mentioned(text, "4 of 12 queries", "12 queries; ", "GB of memory")
    code, text, _ = fathom("resume", "at/runs/one")
    assert code == 0
    assert "accuracy" in text
    assert begun.predictions().to_pylist() == begun.whole
    text = fathom("show", "at/runs/one")[1]
    assert mentioned(text, "finished", "correctly", "recipe: accuracy", "next: fathom metrics at/runs/one")
    assert fathom("resume", "at/runs/one")[0] == 0  # nothing is left to do


def test_the_command_shown_can_be_typed_anywhere(begun, fathom, monkeypatch, tmp_path):
    text = fathom("show", "at/runs/one")[1]
    line = next(line for line in text.splitlines() if line.startswith("  fathom"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert fathom(*shlex.split(line)[1:])[0] == 0
    assert RunFolder(tmp_path / "at" / "runs" / "one").predictions().to_pylist() == begun.whole


def test_a_part_stays_a_part(fathom, model, tmp_path, monkeypatch):
    (tmp_path / "model").symlink_to(model)
    monkeypatch.chdir(tmp_path)
    for part in "12":
        assert fathom(*ask("--out", part, "--part", f"{part}/2"))[0] == 0
    assert mentioned(fathom("show", "1")[1], "--part 1/2", "so far", "next: fathom merge 1")
    [shard] = RunFolder("1").finished()
    RunFolder("1").file_of(shard).unlink()
    assert "next: fathom resume 1" in fathom("show", "1")[1]
    assert fathom("resume", "1")[0] == 0
    assert RunFolder("1").finished() == {shard}
    assert fathom("merge", "1", "2", "--out", "whole")[0] == 0


def test_another_model_in_its_place_is_refused(begun, fathom, tmp_path):
    (tmp_path / "at" / "model").unlink()
    save(tmp_path / "at" / "model", gpt2(activation_function="relu"))
    code, _, err = fathom("resume", "at/runs/one")
    assert (code, "another run" in err, "content_hash" in err) == (2, True, True)


def test_runs_without_a_command_say_who_made_them(begun, fathom, model, tmp_path):
    loaded = library.load_model(model)
    library.probe("statement", loaded, "geography", tmp_path / "python", limit=3, templates="0")
    assert "command" not in RunFolder(tmp_path / "python").manifest["circumstances"]
    file = begun.path / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["circumstances"]["command"], manifest["digest"]
    file.write_text(json.dumps(manifest))
    code, _, err = fathom("resume", begun.path)
    assert code == 2
    assert mentioned(err, "does not say", "repeat")


def test_what_is_no_run_and_a_model_that_is_gone(begun, fathom, tmp_path):
    os.rename(tmp_path / "at", tmp_path / "moved")
    code, _, err = fathom("resume", tmp_path / "moved" / "runs" / "one")
    assert (code, str(tmp_path / "at" / "model") in err) == (2, True)
    for name in ("show", "resume"):
        code, _, err = fathom(name, tmp_path)
        assert (code, "is not a run" in err) == (2, True)

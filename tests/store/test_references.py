"""Reference runs: named wherever a run is read, and of the facts that the package has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.fetch_model import packaged_models
from fathom.data.formats import read
from fathom.store import folder as folders
from fathom.store.folder import REFERENCES, RunFolder, run_path
from tests.cli.test_cli import gpt2, save
from tests.messages import mentioned, mentions

Command = Callable[..., tuple[int, str, str]]
SHIPPED = ("SmolLM2-135M-Instruct", "Gemma-3-270m")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_runs_are_of_the_embedded_facts(name: str) -> None:
    """After a change of geography: ``make references``."""
    folder = REFERENCES / name
    run, data = RunFolder.open(folder), read("geography")
    identity, noted = run.manifest["identity"], run.manifest["circumstances"]
    assert run.is_complete()
    assert identity["data"]["content_hash"] == data.content_hash
    assert identity["model"]["name"] == folder.name
    assert folder.name in packaged_models()
    assert len(run.queries()) == len(data.queries)
    assert "command" not in noted
    assert noted["host"] == ""
    assert str(Path.home()) not in (text := (folder / "manifest.json").read_text(encoding="utf-8"))
    assert '"/' not in text


@pytest.fixture
def shipped(tmp_path: Path, fathom: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of template 0, which ships as that of Tiny-1m; the same model's run of two templates is returned."""
    monkeypatch.setattr(folders, "REFERENCES", tmp_path / "references")
    model, runs = save(tmp_path / "model", gpt2()), (tmp_path / "references" / "Tiny-1m", tmp_path / "mine")
    common = ("probe", "statement", "--model", model, "--data", "geography", "--relations", "continent")
    for run, templates, limit in zip(runs, ("0", "0,1"), (20, 30), strict=True):
        code, _, said = fathom(*common, "--limit", limit, "--templates", templates, "--out", run)
        assert code == 0, said
    return runs[1]


def test_every_command_on_runs_takes_a_reference(shipped: Path, fathom: Command, tmp_path: Path) -> None:
    for words in (
        ("compare", shipped, "reference:tiny-1m"),
        ("diff", "reference:Tiny-1m", shipped),
        ("metrics", "reference:TINY-1M"),
        ("show", "reference:tiny-1m"),
        ("study", "length-bias", shipped, "reference:tiny-1m"),
        ("study", "learning", shipped, "reference:tiny-1m"),
        ("report", shipped, "reference:tiny-1m", "--out", tmp_path / "report.html"),
    ):
        code, printed, said = fathom(*words)
        assert code == 0, said
        assert printed


def test_a_name_that_does_not_exist(shipped: Path, fathom: Command) -> None:
    code, _, said = fathom("compare", shipped, "reference:gpt2")
    assert code == 2
    assert mentioned(said, "reference:gpt2", "reference:Tiny-1m")
    with pytest.raises(BadInput, match=mentions("reference:")):
        run_path("reference:")
    assert run_path("runs/reference:x") == Path("runs/reference:x")


def test_a_reference_is_never_written_to(shipped: Path, fathom: Command, tmp_path: Path) -> None:
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "references").rglob("*")}
    for words in (("metrics", "reference:tiny-1m"), ("resume", "reference:tiny-1m")):
        assert fathom(*words)[0] == 0
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "references").rglob("*")} == files


def test_messages_name_a_reference_as_it_is_typed(shipped: Path, fathom: Command, tmp_path: Path) -> None:
    """Not by the folder of the installed package."""
    other = tmp_path / "other"
    common = ("probe", "statement", "--model", tmp_path / "model", "--data", "geography", "--relations", "capital")
    assert fathom(*common, "--limit", 5, "--out", other)[0] == 0
    code, _, said = fathom("compare", "reference:tiny-1m", other)
    assert (code, "reference:Tiny-1m" in said, "references/Tiny-1m" in said) == (2, True, False)

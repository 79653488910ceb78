"""Models from packages: made here as wheels that pip finds in a folder, so that no registry is needed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from fathom.data import fetch_model
from fathom.data.fetch_model import PackagedModel, packaged_models
from tests.cli.test_cli import gpt2, save

WEIGHTS = [b"GGUF first part, ", b"second part"]
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n"


def write_wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(f"{name}/{path}", content)
        wheel.writestr(f"{about}/METADATA", METADATA.format(name))
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def entry(name: str, content: bytes, **fields: object) -> PackagedModel:
    common = {"about": "a toy", "licence": "CC0", "size": "1 kB", "sha256": hashlib.sha256(content).hexdigest()}
    return PackagedModel(**{"name": name, **common, **fields})


ENTRIES = [
    entry("parts", b"".join(WEIGHTS), packages=("part1==1.0", "part2==1.0"), take="*/data/*.part0?", file="a.gguf"),
    entry("folder", b"{}", packages=("whole==1.0",), take="whole/model/*", file="config.json", probe="embedding"),
    entry("other", b"{ }", packages=("whole==1.0",), take="whole/model/*", file="config.json"),
    entry("empty", b"", packages=("part1==1.0",), take="*/*.safetensors", file="model.safetensors"),
    entry("renamed", b"{}", packages=("whole==1.0",), take="whole/model/*", file="weights.bin"),
    entry("absent", b"", packages=("nowhere==1.0",), take="*", file="a.gguf"),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a user whose pip finds three wheels."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for number, content in enumerate(WEIGHTS, start=1):
        write_wheel(wheels, f"part{number}", {f"data/weights.part0{number}": content, "data/SHA256SUMS": b"none"})
    write_wheel(wheels, "whole", {"model/config.json": b"{}", "model/1_Pooling/config.json": b"{ }", "code.py": b""})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch_model, "packaged_models", lambda: {entry.name: entry for entry in ENTRIES})
    return tmp_path / "cache" / "models"


def test_parts_are_joined_in_order(cache: Path, fathom) -> None:
    code, printed, said = fathom("model", "fetch", "PARTS")
    assert code == 0, said
    assert {file.name: file.read_bytes() for file in (cache / "parts").iterdir()} == {"a.gguf": b"".join(WEIGHTS)}
    assert "licence: CC0" in printed
    assert f"next: fathom probe statement --model {cache / 'parts'} --data geography" in printed
    assert [folder.name for folder in cache.iterdir()] == ["parts"]


def test_a_folder_keeps_its_layout(cache: Path, fathom, tmp_path: Path) -> None:
    out = tmp_path / "new" / "model"
    code, printed, said = fathom("model", "fetch", "folder", "--out", out)
    assert code == 0, said
    assert (out / "config.json").read_bytes() == b"{}"
    assert (out / "1_Pooling" / "config.json").read_bytes() == b"{ }"
    assert not list(out.rglob("code.py"))
    assert f"fathom probe embedding --model {out}" in printed
    code, _, said = fathom("model", "fetch", "folder", "--out", out)
    assert code == 2
    assert f"type --model {out}" in said


@pytest.mark.parametrize(
    ("name", "code", "parts"),
    [
        ("other", 2, ("config.json", hashlib.sha256(b"{ }").hexdigest(), hashlib.sha256(b"{}").hexdigest())),
        ("empty", 2, ("part1==1.0", "*/*.safetensors")),
        ("renamed", 2, ("whole==1.0", "weights.bin")),
        ("absent", 1, ("nowhere==1.0", "pip config list")),
        ("folde", 2, ("did you mean folder", "parts")),
    ],
)
def test_what_cannot_be_fetched(cache: Path, fathom, name: str, code: int, parts: tuple[str, ...]) -> None:
    found, _, said = fathom("model", "fetch", name)
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert found == code, said
    assert all(part in line for part in parts), line
    assert not cache.exists() or not list(cache.iterdir())


def test_the_list_names_what_was_fetched(cache: Path, fathom) -> None:
    assert fathom("model", "fetch", "folder")[0] == 0
    code, printed, _ = fathom("model", "fetch", "--format", "csv")
    assert code == 0
    rows = {line.split(",")[0]: line for line in printed.splitlines()}
    assert str(cache / "folder") in rows["folder"]
    assert str(cache) not in rows["parts"]


def test_the_catalogue() -> None:
    for entry in packaged_models().values():
        assert all("==" in package for package in entry.packages), entry
        assert len(entry.sha256) == 64
        assert "://" not in entry.model_dump_json()


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a model of the catalogue, with an untrained one in its place in the cache."""
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    [name, *_] = packaged_models()
    save(fetch_model.model_folder(name), gpt2())
    return name


def model_of(run: str) -> dict[str, object]:
    """What a run's manifest says of its model."""
    return json.loads((Path(run) / "manifest.json").read_text())["identity"]["model"]


def test_a_fetched_model_is_asked_by_its_name(fathom, fetched: str) -> None:
    """Unless a folder here has that name."""
    line = ["probe", "statement", "--model", fetched, "--data", "geography", "--limit", 3, "--templates", 0]
    assert fathom(*line, "--out", "run", "--dry-run")[0] == 0
    assert fathom(*line, "--out", "run")[0] == 0
    line[3] = str(fetch_model.model_folder(fetched))
    assert fathom(*line, "--out", "of-folder")[0] == 0
    assert model_of("run") == model_of("of-folder") | {"name": fetched}
    shown = [json.loads((Path(run) / "manifest.json").read_text()).get("shows") for run in ("run", "of-folder")]
    assert shown[0] == shown[1]
    code, _, err = fathom(*line[:3], fetched, *line[4:], "--revision", "main", "--out", "revised")
    assert (code, "only models on the hub have revisions" in err) == (2, True)
    assert fathom("demo", "--model", fetched, "--dry-run")[0] == 0
    line[3] = fetched
    assert fathom(*line, "--out", "run")[0] == 0
    Path(fetched).mkdir()
    code, _, err = fathom(*line, "--out", "other")
    assert (code, "config.json" in err) == (2, True)


PLAN = """
models: {{small: {name}}}
data: {{geography: {{data: geography, limit: 3}}}}
runs: {{statement: {{probe: statement, templates: 0, tokenizer: {name}}}}}
"""


def test_plans_take_the_names_of_fetched_models(fathom, fetched: str) -> None:
    """Their weights are part of what a plan was made of."""
    Path("plan.yaml").write_text(PLAN.format(name=fetched))
    assert fathom("plan", "plan.yaml", "--out", "out")[0] == 0
    assert model_of("out/runs/statement/small/geography")["content_hash"] is not None
    assert fathom("plan", "plan.yaml", "--out", "out", "--dry-run")[0] == 0
    save(fetch_model.model_folder(fetched), gpt2(n_inner=8))
    code, _, err = fathom("plan", "plan.yaml", "--out", "out")
    assert (code, "its content has changed" in err) == (2, True)


def test_presets_take_the_names_of_fetched_models(fathom, fetched: str) -> None:
    Path("own.yaml").write_text(
        "data: {few: {data: geography, limit: 3}}\nruns: {r: {kinds: causal, probe: statement}}\n"
    )
    assert fathom("plan", "own.yaml", "--models", fetched, "--dry-run", "--out", "out")[0] == 0

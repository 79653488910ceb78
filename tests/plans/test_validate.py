"""``fathom validate`` from an invented data set to its sentences, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.plans.validate import write_plan
from fathom.training.options import PlantOptions
from fathom.training.planting import plant
from fathom_build.invented import LENGTHS, build_invented
from fathom_build.options import InventedOptions
from tests.messages import mentions

ROOT = Path(__file__).parents[2]
SMALL = {"hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 400, "unseen_templates": 2, "together": "fact"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented people, and a model of each kind that read a part of it."""
    root = tmp_path_factory.mktemp("validate")
    build_invented(InventedOptions(out=root / "people", people=12, answers=6))
    for kind in ("causal", "masked"):
        options = PlantOptions(kind=kind, exposures=(0, 0, 1, 3), **SMALL)
        plant(read(root / "people"), options, root / kind)
    return root


def test_invented_people_have_balanced_answers(tmp_path: Path) -> None:
    counts = build_invented(InventedOptions(out=tmp_path / "people", people=300, answers=12))
    assert counts["facts"] == 2100
    data = read(tmp_path / "people")
    names = [name for space in data.candidates.values() for name in space.names]
    assert len(set(names)) == len(names) == 84
    lengths = {length: [query for query in data.queries if query.groups["length"] == length] for length in LENGTHS}
    assert all(0.3 < len(own) / 2100 < 0.37 for own in lengths.values())
    words = {
        length: {len(data.candidates[query.candidates].name_of(query.gold[0]).split()) for query in own}
        for length, own in lengths.items()
    }
    assert words == {"short": {1}, "medium": {1}, "long": {2}}
    build_invented(InventedOptions(out=tmp_path / "again", people=300, answers=12))
    assert (tmp_path / "again" / "facts.jsonl").read_bytes() == (tmp_path / "people" / "facts.jsonl").read_bytes()


def test_from_planted_models_to_sentences(folder: Path, fathom: Callable[..., tuple[int, str, str]]) -> None:
    """Two models by statements, in templates that none has read; the same command makes nothing anew."""
    out = folder / "validity"
    line = ["validate", folder / "causal", folder / "masked", "--data", folder / "people", "--out", out]
    code, output, errors = fathom(*line, "--probes", "statement,no-subject")
    assert code == 0, errors
    assert "facts never read right" in " ".join(output.split()) or "no probe significantly" in " ".join(output.split())
    plan = yaml.safe_load((out / "plan.yaml").read_text("utf-8"))
    assert plan["runs"]["statement"]["templates"] == [9, 10]
    assert plan["runs"]["statement"]["models"] == ["causal", "masked"]
    assert plan["runs"]["original-masking"]["models"] == ["masked"]
    assert "vocabulary" not in plan["runs"]
    tables = json.loads((out / "studies" / "validity" / "validity.json").read_text("utf-8"))
    assert "causal" in json.dumps(tables)
    written = {file: file.stat().st_mtime_ns for file in out.glob("runs/**/*.parquet")}
    assert written
    assert fathom(*line, "--probes", "statement,no-subject")[0] == 0
    assert {file: file.stat().st_mtime_ns for file in written} == written


@pytest.mark.slow
def test_every_probe_of_the_plan_asks_a_model_of_its_kinds(
    folder: Path, tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]
) -> None:
    models = [str(folder / kind) for kind in ("causal", "masked")]
    file = write_plan(models, str(folder / "people"), tmp_path / "out", limit=20)
    line = ["plan", file, "--out", tmp_path / "out"]
    _, output, errors = fathom(*line)
    assert "failed" not in output.split("— validity —")[0], output + errors


def test_what_validate_refuses(folder: Path, tmp_path: Path) -> None:
    data, model = str(folder / "people"), str(folder / "causal")
    with pytest.raises(BadInput, match=mentions("planted.jsonl", "--design", "fathom plant")):
        write_plan([str(folder / "people")], data, tmp_path / "out")
    with pytest.raises(BadInput, match=mentions("planted.jsonl", "no fact of geography")):
        write_plan([model], "geography", tmp_path / "out")
    with pytest.raises(BadInput, match=mentions("--probes vectors", "statement")):
        write_plan([model], data, tmp_path / "out", probes=["vectors"])
    templates = [template.text for template in read(data).relations["home"].templates]
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (folder / "causal").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    lines = (copy / "planted.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) | {"texts": templates} for line in lines]
    (copy / "planted.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(BadInput, match=mentions("--unseen-templates")):
        write_plan([str(copy)], data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plan_is_not_replaced_by_another(folder: Path, tmp_path: Path) -> None:
    data, model = str(folder / "people"), str(folder / "causal")
    file = write_plan([model], data, tmp_path / "out")
    assert write_plan([model], data, tmp_path / "out") == file
    with pytest.raises(BadInput, match=mentions("another plan", "fathom plan")):
        write_plan([model], data, tmp_path / "out", probes=["embedding"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    # The claim about memory needs link predictors, which the tutorial's plan trains.
    sorted(file for file in (ROOT / "docs" / "examples" / "claims").glob("*.yaml") if file.stem != "memory"),
    ids=lambda file: file.stem,
)
def test_plans_of_published_claims_end_in_a_verdict(
    file: Path,
    folder: Path,
    tmp_path: Path,
    fathom: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With tiny models under the names of the plan: what is asked for is there, and the last sentence decides."""
    plan = tmp_path / file.name
    plan.write_text(re.sub(r"limit: \d+", "limit: 200", file.read_text("utf-8")), "utf-8")
    (tmp_path / "people").symlink_to(folder / "people")
    for model in yaml.safe_load(file.read_text("utf-8"))["models"].values():
        (tmp_path / model).symlink_to(folder / model.split("-")[0])
    monkeypatch.chdir(tmp_path)  # as a user does, in the plan's folder
    code, output, errors = fathom("plan", plan.name, "--out", "out")
    assert code == 0, output + errors
    said = " ".join(output.split())
    assert any(f": {word}" in said for word in ("confirmed,", "not confirmed,", "not testable here")), said

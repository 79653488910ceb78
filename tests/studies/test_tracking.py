"""``--log``: what experiment trackers get of a run, in files of their own; none of it needs a network."""

from __future__ import annotations

import json
import sys

import pytest

import fathom as library
from fathom.base.errors import BadInput, RunFailed
from fathom.studies.report import tracking
from fathom.studies.report.tracking import log_run
from tests.answerers import answered, constant, world
from tests.cli.test_cli import gpt2, save
from tests.messages import mentioned, stated

FACTS = world([[0], [1], [2], [3]] * 2, relations=2)
"""The constant answerer is right in 25 %: on the first of four facts of each relation. Random guessing has 1/20."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "wandb-home"))
    return answered(tmp_path / "runs" / "low", constant, FACTS, model="m")


@pytest.fixture
def kept(monkeypatch):
    """What a tracker gets, without one."""
    kept = []
    monkeypatch.setitem(tracking._TRACKERS, "mlflow", lambda run: kept.append((run, run.page and run.page.read_text())))
    return kept


def test_what_is_logged(run, kept, tmp_path):
    log_run(run, "mlflow", tmp_path / "runs", "named")
    [(logged, page)] = kept
    estimate = library.open_run(run.path).accuracy
    assert (logged.name, logged.place) == ("named", tmp_path / "runs")
    assert {name: logged.settings[name] for name in ("probe", "model", "data", "reading")} == {
        "probe": "cloze", "model": "models/m", "data": "D", "reading": "template-based"
    }  # fmt: skip
    assert logged.numbers["sum/full/accuracy"] == 0.25
    assert logged.numbers["sum/full/accuracy low"] == estimate.low
    assert logged.numbers["sum/full/accuracy high"] == estimate.high
    assert logged.numbers["sum/full/random accuracy"] == pytest.approx(1 / 20)
    assert "sum/full/hits-10" in logged.numbers, "MLflow refuses @"
    assert [table.title for table in logged.summary.tables] == ["Results", "By relation"]
    assert page is None or "models/m" in page


def test_an_unfinished_run_and_a_tracker_that_fails(run, kept, tmp_path, monkeypatch):
    monkeypatch.setitem(tracking._TRACKERS, "wandb", lambda run: json.loads("no server"))
    with pytest.raises(RunFailed, match="wandb failed"):
        log_run(run, "wandb", tmp_path)
    run.file_of("0").unlink()
    with pytest.raises(BadInput, match="unfinished"):
        log_run(run, "mlflow", tmp_path)
    assert kept == []


def test_tensorboard(run, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log_run(run, "tensorboard", tmp_path / "runs")
    folder = tmp_path / "runs" / "tensorboard" / "low"
    events = EventAccumulator(str(folder))
    events.Reload()
    assert {"sum/full/accuracy", "sum/full/accuracy low", "sum/full/mrr"} <= {*events.Tags()["scalars"]}
    assert [event.value for event in events.Scalars("sum/full/accuracy")] == [0.25]
    text = events.Tensors("tables/text_summary")[0].tensor_proto.string_val[0].decode()
    assert mentioned(text, "25.0 %", "By relation")
    assert "models/m" in (folder / "report.html").read_text()


def test_mlflow(run, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    pytest.importorskip("sqlalchemy", reason="needs the extra mlflow")
    for _ in range(2):
        log_run(run, "mlflow", tmp_path / "runs")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    experiment = client.get_experiment_by_name("fathom")
    found, _ = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == ("low", "FINISHED")
    assert found.data.metrics["sum/full/accuracy"] == 0.25
    assert found.data.params["model"] == "models/m"
    [artefacts] = (tmp_path / "runs" / "mlruns").glob(f"{found.info.run_id}/artifacts")
    assert {file.name for file in artefacts.iterdir()} == {"tables.md", "report.html"}
    assert "25.0 %" in (artefacts / "tables.md").read_text()


def test_wandb_is_offline(run, tmp_path):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    log_run(run, "wandb", tmp_path / "runs")
    [folder] = (tmp_path / "runs" / "wandb").glob("offline-run-*")
    [table] = folder.glob("files/media/table/By relation*.json")
    content = json.loads(table.read_text())
    assert [row[content["columns"].index("accuracy")] for row in content["data"]] == [0.25, 0.25]
    [records] = folder.glob("*.wandb")
    assert all(name in records.read_bytes() for name in (b"sum/full/accuracy low", b"models/m", b"report.html"))


def test_a_missing_library_is_named_before_the_run(tmp_path, monkeypatch, fathom):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    words = ["probe", "statement", "--model", tmp_path / "none", "--data", "geography", "--out", tmp_path / "run"]
    code, _, err = fathom(*words, "--log", "mlflow")
    assert (code, stated(err, "mlflow", "pip install")) == (2, True)
    assert not (tmp_path / "run").exists()
    code, _, err = fathom(*words, "--log", "visdom")
    assert (code, stated(err, "--log", "tensorboard")) == (2, True)


def test_the_commands_log_what_they_made(tmp_path, monkeypatch, fathom, kept):
    monkeypatch.setattr(tracking, "check_tracker", lambda tracker: None)
    save(tmp_path / "model", gpt2())
    words = ["--model", tmp_path / "model", "--data", "geography", "--templates", "0", "--limit", "8"]
    assert fathom("probe", "statement", *words, "--out", tmp_path / "runs" / "one", "--log", "mlflow")[0] == 0
    plan = {
        "models": {"m": str(tmp_path / "model")},
        "data": ["geography"],
        "runs": {"s": {"probe": "statement", "limit": 8}},
    }
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    assert fathom("plan", tmp_path / "plan.yaml", "--out", tmp_path / "results", "--log", "mlflow")[0] == 0
    [(one, _), (of_plan, _)] = kept
    assert (one.name, one.place) == ("one", tmp_path / "runs")
    assert (of_plan.name, of_plan.place) == ("s/m/geography", tmp_path / "results")

"""``--log``: finished runs in an experiment tracker, through its own library: numbers, tables, and the report.

Nothing leaves the machine unless a setting of the library says so: ``MLFLOW_TRACKING_URI``, ``WANDB_MODE=online``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fathom.base.errors import FathomError, RunFailed, optional
from fathom.base.progress import log
from fathom.results.summary import RunNumbers, Summary
from fathom.store.folder import RunFolder
from fathom.studies.report.page import report

PROJECT = "fathom"
"""Name of the project or experiment, unless a setting of the library names another."""


class Logged(NamedTuple):
    """What a tracker takes of a run.

    :param place: folder for the tracker's files.
    :param settings: probe, model, data, seed and the probe's options.
    :param numbers: by names such as ``sum/full/accuracy``, ``sum/full/accuracy low`` and ``sum/full/random accuracy``.
    :param page: the report; None if it cannot be made.
    """

    name: str
    place: Path
    settings: Mapping[str, str]
    numbers: Mapping[str, float]
    summary: Summary
    page: Path | None


def check_tracker(tracker: str) -> None:
    """:raises MissingExtra: its library, which has the same name, is not installed."""
    optional(tracker, tracker)


def log_run(run: RunFolder, tracker: str, place: Path, name: str = "") -> None:
    """Log a finished run: its settings, every number with the ends of its interval, tables, and the report.

    :param tracker: tensorboard, mlflow or wandb.
    :param place: folder for the tracker's files.
    :param name: by default that of the run's folder.
    :raises BadInput: the run is unfinished.
    :raises RunFailed: the tracker failed.
    """
    run.refuse_unfinished()
    numbers, identity = RunNumbers(run), run.manifest["identity"]
    summary = numbers.summary([key for key in ("relation", "domain") if key in numbers.keys])
    about = {"probe": identity["probe"], "model": identity["model"]["name"], "data": identity["data"]["name"]}
    settings = {key: str(value) for key, value in {**about, **identity.get("options", {})}.items()}
    with TemporaryDirectory(prefix="fathom-log-") as folder:
        page = _page(run, Path(folder) / "report.html")
        logged = Logged(name or run.path.resolve().name, place.resolve(), settings, _numbers(summary), summary, page)
        try:
            _TRACKERS[tracker](logged)
        except Exception as error:  # of a foreign library, such as a server that does not answer
            raise RunFailed(f"{run.path} is finished, but {tracker} failed: repeat the command ({error})") from error


def _page(run: RunFolder, file: Path) -> Path | None:
    try:
        return report([run], file).path
    except FathomError as error:
        log(f"logged without a report: {error}")
        return None


def _numbers(summary: Summary) -> dict[str, float]:
    numbers: dict[str, float | None] = {}
    for line in summary.headlines:
        for name, number in line.numbers.items():
            of_scoring = {name: number.value, f"{name} low": number.low, f"{name} high": number.high}
            of_scoring |= {f"{base.baseline} {name}": base.value for base in line.baselines.get(name, ())}
            numbers |= {f"{line.scoring}/{key}": value for key, value in of_scoring.items()}
    # MLflow refuses other characters.
    return {re.sub(r"[^\w\-. :/]", "-", name): value for name, value in numbers.items() if value is not None}


def _to_tensorboard(run: Logged) -> None:
    from torch.utils.tensorboard import SummaryWriter

    folder = run.place / "tensorboard" / run.name
    writer: Any = SummaryWriter(str(folder))
    for name, value in run.numbers.items():
        writer.add_scalar(name, value, 0)
    writer.add_text("tables", run.summary.to_markdown(), 0)
    writer.add_text("settings", json.dumps(run.settings, indent=2), 0)
    writer.close()
    if run.page is not None:
        shutil.copyfile(run.page, folder / run.page.name)


def _to_mlflow(run: Logged) -> None:
    mlflow, experiment = optional("mlflow", "mlflow"), os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri(f"sqlite:///{run.place / 'mlflow.db'}")
        if mlflow.get_experiment_by_name(experiment) is None:
            mlflow.create_experiment(experiment, (run.place / "mlruns").as_uri())
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run.name):
        mlflow.log_params(run.settings)
        mlflow.log_metrics(run.numbers)
        mlflow.log_text(run.summary.to_markdown(), "tables.md")
        if run.page is not None:
            mlflow.log_artifact(str(run.page))


def _to_wandb(run: Logged) -> None:
    wandb = optional("wandb", "wandb")
    places = {"project": os.environ.get("WANDB_PROJECT") or PROJECT, "name": run.name, "dir": str(run.place)}
    quiet, mode = wandb.Settings(silent=True, console="off"), os.environ.get("WANDB_MODE") or "offline"
    with wandb.init(**places, mode=mode, config=run.settings, settings=quiet) as active:
        tables = {table.title: table for table in run.summary.tables_in("csv")}
        shown = {name: wandb.Table(list(table.columns), [*map(list, table.rows)]) for name, table in tables.items()}
        active.log({**run.numbers, **shown})
        if run.page is not None:
            artefact = wandb.Artifact(re.sub(r"[^\w\-.]", "-", run.name), type="report")
            artefact.add_file(str(run.page))
            active.log_artifact(artefact)


_TRACKERS: Mapping[str, Callable[[Logged], None]] = {
    "tensorboard": _to_tensorboard,
    "mlflow": _to_mlflow,
    "wandb": _to_wandb,
}

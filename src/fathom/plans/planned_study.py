"""Studies that plan their own runs: the runs are made one after the other, then analysed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fathom.data.queries import QuerySet
from fathom.plans.forecast import forecast_steps
from fathom.plans.steps import Opened, ProbeStep
from fathom.progress import Progress, line, unseen
from fathom.results.names import folder_names
from fathom.results.tables import Table
from fathom.run.forecast import Forecaster
from fathom.store.folder import RunFolder
from fathom.studies import MODEL, Announce, PlannedRun, Study


def run_study(
    study: Study,
    models: Sequence[tuple[str, Any]],
    data: str | Path | QuerySet,
    options: Any,
    out: Path,
    announce: Announce = line,
) -> Any:
    """Make the runs that a study needs, each in its own folder below *out*, and return the findings.

    Finished runs are kept and unfinished ones resumed; those whose time is measured are made anew.

    :param models: names, each with a name or folder, a loaded model, or a function that loads it.
    :raises BadInput: everything that is wrong with options, data and models.
    :raises RunFailed: a run fails; finished ones are kept.
    """
    assert study.analysis is not None
    opened, runs = Opened(), []
    for (name, model), short in zip(models, folder_names([name for name, _ in models]), strict=True):
        planned = study.plan(options, partial(opened.model, model, options), opened.data(data))
        for step in _steps(planned, short, model, data, out):
            step.make(opened, announce(f"{step} {name}"))
            runs.append(RunFolder(step.folder))
    return study.analyse(runs, **{name: getattr(options, name) for name in study.analysis.model_fields})


def forecast_study(
    study: Study,
    models: Sequence[str],
    data: str | Path | QuerySet,
    options: Any,
    out: Path,
    progress: Progress = unseen,
) -> Table:
    """Estimate the runs of a study that are left, without weights.

    :raises BadInput: as the study would, before its first run.
    """
    opened, forecaster = Opened(), Forecaster()
    source = data if study.analysis is None else opened.data(data)
    steps: list[ProbeStep] = []
    for model, short in zip(models, folder_names(models), strict=True):
        planned = study.plan(options, partial(forecaster.shape, model, options), source)
        steps += _steps(planned, short, model, data, out)
    return forecast_steps(steps, study.name, forecaster, progress, study.bounds)


def _steps(planned: Sequence[PlannedRun], short: str, model: Any, data: Any, out: Path) -> list[ProbeStep]:
    """Return the step of each run of a model. :param short: the model's name in those of folders."""
    return [
        ProbeStep(out, one.name.replace(MODEL, short), one.probe, model, one.data or data, one.options, one.exclusive)
        for one in planned
    ]

"""Studies that plan their own runs: the runs are made one after the other, then analysed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fathom.data.queries import QuerySet
from fathom.plans.steps import Opened, ProbeStep
from fathom.progress import line
from fathom.results.names import folder_names
from fathom.store.folder import RunFolder
from fathom.studies import Announce, Study


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
        suffix = f"-{short}" if study.takes == "models" else ""
        for planned in study.plan(options, partial(opened.model, model, options), opened.data(data)):
            about = planned.probe, model, data, planned.options, planned.exclusive
            step = ProbeStep(out, f"{planned.name}{suffix}", *about)
            step.make(opened, announce(f"{planned.name} {name}"))
            runs.append(RunFolder(step.folder))
    return study.analyse(runs, **{name: getattr(options, name) for name in study.analysis.model_fields})

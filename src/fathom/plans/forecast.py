"""The state of a plan's runs, and the work that is left (``fathom plan --dry-run``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.base.errors import BadInput
from fathom.base.progress import Progress, unseen
from fathom.plans.file import Plan
from fathom.plans.record import changed_steps, check_needs, read_record
from fathom.plans.steps import Opened, ProbeStep, Step
from fathom.results.loading import folder_names
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies import MODEL, Study

if TYPE_CHECKING:
    from fathom.probes.options import ProbeOptions
    from fathom.probes.run.forecast import Forecaster

FINISHED, CHANGED = "finished", "changed: needs --redo"


class RunState(NamedTuple):
    """One run.

    :param state: finished, how far it is, why it failed, or whether the plan has changed it.
    :param left: share of the run that is left; 0 for one that shares another's folder.
    :param step: None for the runs that a study makes.
    """

    run: str
    state: str
    left: float
    step: Step | None


def run_states(plan: Plan, out: Path, opened: Opened) -> list[RunState]:
    """Return the state of each run.

    :raises BadInput: *out* is no folder of a plan; a model is missing, or a selection leaves no query.
    """
    record = read_record(plan.steps, out)
    check_needs(plan, plan.steps, opened)
    changed = changed_steps(plan.steps, record)
    rows: list[RunState] = []
    names: dict[int, str] = {}
    for run in plan.runs:
        if names.setdefault(id(run.step), run.name) != run.name:
            rows.append(RunState(run.name, f"same as {names[id(run.step)]}", 0.0, run.step))
        else:
            state, left = (CHANGED, 1.0) if run.step in changed else _state(run.step)
            rows.append(RunState(run.name, state, left, run.step))
    with_runs = [study for study in plan.studies if study.models]
    return rows + [RunState(f"runs of {study.name}", "made by the study", 1.0, None) for study in with_runs]


def _state(step: Step) -> tuple[str, float]:
    """Return the state of a run, and the share of it that is left."""
    folder, failed = RunFolder(step.folder), step.failure()
    if failed:
        return f"failed: {failed}", 1.0
    if not folder.has_manifest():
        return "to be made", 1.0
    try:
        done, total = len(folder.finished()), len(folder.manifest["plan"])
        return folder.progress(folder.manifest), 1 - done / total
    except BadInput as error:
        return f"damaged: {error}", 1.0


def forecast_table(plan: Plan, out: Path, progress: Progress = unseen) -> Table:
    """Estimate each run that is left; runs that differ in their seed alone, and trainings in their world, share one.

    Timed runs that differ in their number of queries are estimated as long as the longest.

    :raises BadInput: as :func:`run_states`.
    """
    from fathom.probes.run.forecast import Forecaster

    opened = Opened()
    return _table(run_states(plan, out, opened), "plan", opened, Forecaster(), progress)


def forecast_steps(
    steps: Sequence[ProbeStep], title: str, forecaster: Forecaster, progress: Progress, notes: Sequence[str] = ()
) -> Table:
    """Estimate each run that is left."""
    states = [RunState(str(step), *_state(step), step) for step in steps]
    return _table(states, title, Opened(), forecaster, progress, notes)


def forecast_study(
    study: Study, models: Sequence[str], data: str, options: ProbeOptions, out: Path, progress: Progress = unseen
) -> Table:
    """Estimate the runs of a study of models that are left, without weights.

    :raises BadInput: as the study would, before its first run.
    """
    from fathom.probes.run.forecast import Forecaster

    forecaster = Forecaster()
    steps: list[ProbeStep] = []
    for model, short in zip(models, folder_names(models), strict=True):
        for planned in study.plan(options, partial(forecaster.shape, model, options), data):
            name, source = planned.name.replace(MODEL, short), planned.data or data
            steps.append(ProbeStep(out, name, planned.probe, model, source, planned.options))
    return forecast_steps(steps, study.name, forecaster, progress, study.bounds)


def _table(
    states: Sequence[RunState],
    title: str,
    opened: Opened,
    forecaster: Forecaster,
    progress: Progress,
    about: Sequence[str] = (),
) -> Table:
    from fathom.probes.run.forecast import duration

    left = [(state, state.step) for state in states if state.left and state.step is not None]
    # The shape of each model is opened once, and of timed runs the one of the most queries estimated.
    left.sort(key=lambda pair: (pair[1].model, -(getattr(pair[1].options, "limit", None) or 0)))
    rows: dict[str, dict[str, Any]] = {state.run: {"run": state.run, "state": state.state} for state in states}
    unestimated = ", ".join(state.run for state in states if state.step is None)
    notes = dict.fromkeys([*about, f"not estimated: {unestimated}"] if unestimated else about)
    minutes, timed = 0.0, 0
    estimates: dict[str, Any] = {}  # steps of equal work share one
    for number, ((run, _, share, _), step) in enumerate(left):
        progress(number, len(left))
        try:
            if step.work not in estimates:
                estimates[step.work] = step.forecast(opened, forecaster)
        except BadInput as error:
            notes[f"{run} is not estimated: {error}"] = None
            continue
        found = estimates[step.work]
        notes |= dict.fromkeys(f"assumed: {note}" for note in found.assumes)
        numbers = found._asdict()
        rows[run] |= {name: numbers.get(name) for name in ("queries", "texts", "tokens", "calls")}
        if found.seconds is not None:
            minutes, timed = minutes + found.seconds * share / 60, timed + 1
            rows[run] |= {"minutes": found.seconds * share / 60}
        if numbers.get("memory") is not None:
            rows[run] |= {"GB": numbers["memory"] / 1e9}
    distinct = [state for state in states if not state.state.startswith("same as")]
    total = f"{sum(state.left == 0 for state in distinct)} of {len(distinct)} runs finished"
    about = "about" if timed == len(left) and not unestimated else "more than"
    ahead = f"; {about} {duration(60 * minutes)} left for the others, one after the other" if timed else ""
    columns = ("run", "state", *dict.fromkeys(name for row in rows.values() for name in list(row)[2:] if row[name]))
    return Table.of(
        [{name: row.get(name) for name in columns} for row in rows.values()], title,
        [f"{total}{ahead}", *notes],
        columns=columns, formats={"minutes": ",.1f", "GB": ".1f"},
    )  # fmt: skip

"""The state of a plan's runs, and the time that is left (``fathom plan --dry-run``).

The time of a run is extrapolated from finished runs of the same probe and model by the line of ``study compute-time``.
With fewer than three of them it is proportional to the number of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.data.selection.options import Selection
from fathom.errors import BadInput
from fathom.metrics.correlation import fit_line
from fathom.plans.file import Plan
from fathom.plans.record import changed_steps, check_needs, count_queries, read_record
from fathom.plans.steps import Opened, ProbeStep
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

FINISHED, CHANGED = "finished", "changed: needs --redo"


class RunForecast(NamedTuple):
    """One run.

    :param state: finished, how far it is, why it failed, or whether the plan has changed it.
    :param queries: None where only the model's tokenizer can count them.
    :param seconds: estimated for what is left; None without a finished run of its probe and model.
    """

    run: str
    state: str
    queries: int | None
    seconds: float | None


def forecast(plan: Plan, out: Path) -> list[RunForecast]:
    """Return the state and the estimated time of each run.

    :raises BadInput: *out* is no folder of a plan; a model is missing, or a selection leaves no query.
    """
    record, opened = read_record(plan.steps, out), Opened()
    check_needs(plan, plan.steps, opened)
    changed = changed_steps(plan.steps, record)
    counts: dict[tuple[str, Selection], int | None] = {}
    points = grouped(
        ((step.probe, str(step.model)), (made.queries().num_rows, float(made.manifest["circumstances"]["seconds"])))
        for step in plan.steps
        if step not in changed and (made := _sound(step)) is not None
    )
    rows: list[RunForecast] = []
    names: dict[int, str] = {}
    for run in plan.runs:
        step = run.step
        if names.setdefault(id(step), run.name) != run.name:
            rows.append(RunForecast(run.name, f"same as {names[id(step)]}", None, 0.0))
            continue
        state, left = (CHANGED, 1.0) if step in changed else _state(step)
        key = str(step.data), Selection.from_options(step.options)
        if key not in counts:
            counts[key] = count_queries(step, opened)
        seconds = _seconds(points.get((step.probe, str(step.model)), ()), counts[key]) if left else 0.0
        rows.append(RunForecast(run.name, state, counts[key], None if seconds is None else seconds * left))
    own = [study for study in plan.studies if study.models]
    return rows + [RunForecast(f"runs of {study.name}", "made by the study", None, None) for study in own]


def _sound(step: ProbeStep) -> RunFolder | None:
    """Return a finished run that can be read."""
    try:
        run = step.finished()
        return run if run is not None and run.queries().num_rows else None
    except BadInput:
        return None


def _state(step: ProbeStep) -> tuple[str, float]:
    """Return the state of a run, and the share of it that is left."""
    folder, failed = RunFolder(step.run_folder), step.failure()
    if failed:
        return f"failed: {failed}", 1.0
    if not folder.has_manifest():
        return "to be made", 1.0
    try:
        done, total = len(folder.finished()), len(folder.manifest["plan"])
    except BadInput as error:
        return f"damaged: {error}", 1.0
    return (FINISHED, 0.0) if done >= total else (f"{done:,} of {total:,} shards", 1 - done / total)


def _seconds(points: Sequence[tuple[int, float]], queries: int | None) -> float | None:
    """Extrapolate the time of a run. :param points: number of queries and seconds of finished runs."""
    if not points or queries is None:
        return None
    counts, times = zip(*points, strict=True)
    if len(points) >= 3 and len(set(counts)) > 1:
        line = fit_line(counts, times)
        return max(float(line.slope * queries + line.intercept), 0.0)
    return float(queries * sum(times) / max(sum(counts), 1))


def forecast_table(rows: Sequence[RunForecast]) -> Table:
    """Return a row for each run, with the total in a note."""
    left = [row for row in rows if row.state != FINISHED and not row.state.startswith("same as")]
    known = [row.seconds for row in left if row.seconds is not None]
    total = sum(not row.state.startswith("same as") for row in rows)
    notes = [f"{total - len(left)} of {total} runs finished"]
    if left:
        unknown = f"; {len(left) - len(known)} unknown: no finished run of their probe and model" * (
            len(known) < len(left)
        )
        notes.append(f"estimated time of {len(known)} runs: {sum(known):,.0f} s{unknown}")
    columns = ("run", "state", "queries", "estimated s")
    return Table.of(
        [dict(zip(columns, row, strict=True)) for row in rows], "plan", notes, columns=columns,
        formats={"estimated s": ",.0f"},
    )  # fmt: skip

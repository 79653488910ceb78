"""What a plan has done and what is left, with an estimate of the time (``fathom plan --dry-run``).

The time of a run is extrapolated from finished runs of the same probe and model in the plan's folder, by the line of
``fathom study compute-time``; with fewer than three, in proportion to the number of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.errors import BadInput
from fathom.metrics.correlation import fit_line
from fathom.plans.file import Plan
from fathom.plans.record import changed_steps, noted_steps
from fathom.plans.steps import Opened, ProbeStep, state_of
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.store.folder import SECONDS, RunFolder

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
    """Return the state and the estimated time of each distinct run. :raises BadInput: *out* is not a plan's."""
    changed, opened = changed_steps(plan.steps, noted_steps(out)), Opened()
    counts: dict[tuple[str, Selection], int | None] = {}
    points = grouped(
        ((step.probe, str(step.model)), (run.queries().num_rows, float(seconds)))
        for step in plan.steps
        if step not in changed and (run := step.finished()) is not None
        if (seconds := run.manifest["circumstances"].get(SECONDS)) is not None
    )
    rows = []
    for step in plan.steps:
        state = CHANGED if step in changed else _state(step)
        key = str(step.data), Selection.from_options(step.options)
        if key not in counts:
            counts[key] = _count(step, opened)
        seconds = 0.0 if state == FINISHED else _seconds(points.get((step.probe, str(step.model)), ()), counts[key])
        rows.append(RunForecast(str(step), state, counts[key], seconds))
    return rows


def _state(step: ProbeStep) -> str:
    state = state_of(step)
    if state.failed:
        return f"failed: {state.failed}"
    folder = RunFolder(step.run_folder)
    if state.run is not None or not folder.has_manifest():
        return "to be made" if state.run is None else FINISHED
    return f"{len(folder.finished()):,} of {len(folder.manifest['plan']):,} shards"


def _count(step: ProbeStep, opened: Opened) -> int | None:
    """Return the number of queries of a run, None if it cannot be known without the model."""
    try:
        return len(select(opened.data(step.data), step.options).data.queries)
    except BadInput:
        return None


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
    left = [row for row in rows if row.state != FINISHED]
    known = [row.seconds for row in left if row.seconds is not None]
    notes = [f"{len(rows) - len(left)} of {len(rows)} runs finished"]
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

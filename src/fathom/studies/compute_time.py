"""How long does a probe take? Time against number of queries, a straight line through it, and its extrapolation to all
queries (section 5.1 and figure 5 of the DEER paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from scipy import stats

from fathom.base.errors import BadInput, refuse
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.facts import excluded_by_limit
from fathom.results.loading import check_same
from fathom.results.metrics.correlation import FittedLine, fit_line
from fathom.results.rows import grouped
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import SECONDS, RunFolder
from fathom.studies.options import TimeOptions

WIDEST = 100.0
"""Largest half of an interval of a logarithm."""


class Timing(NamedTuple):
    """One probe.

    :param points: number of queries and seconds of each repeat.
    :param total: number of queries to extrapolate to.
    """

    probe: str
    data: str
    points: list[tuple[int, float]]
    line: FittedLine
    total: int
    seconds: float
    error: float


def analyse(runs: Sequence[RunFolder], options: TimeOptions = TimeOptions()) -> list[Timing]:
    """Fit a line to the times of each probe.

    :raises BadInput: runs of several models or data sets, whose time was not measured, or too few for a line.
    """
    check_same(runs, ("model", "data"))
    refuse(
        f"{run.path} was not timed: make it by fathom plan compute-time, or in a plan with exclusive: true"
        for run in runs
        if SECONDS not in run.manifest["circumstances"]
    )
    by_probe = grouped((str(run.manifest["identity"]["probe"]), run) for run in runs)
    return [_timing(probe, of_probe, options.total) for probe, of_probe in by_probe.items()]


def _timing(probe: str, runs: Sequence[RunFolder], total: int | None) -> Timing:
    points = [(run.queries().num_rows, float(run.manifest["circumstances"][SECONDS])) for run in runs]
    if len(points) < 3 or len({count for count, _ in points}) < 2:
        raise BadInput(f"{probe}: a line needs two numbers of queries or more, and three points")
    line = fit_line([count for count, _ in points], [seconds for _, seconds in points])
    whole = total or max(count + excluded_by_limit(run) for (count, _), run in zip(points, runs, strict=True))
    data = str(runs[0].manifest["identity"]["data"]["name"])
    return Timing(probe, data, points, line, whole, line.slope * whole + line.intercept, line.error_at(whole))


def conclude(findings: Sequence[Timing]) -> list[str]:
    return [
        f"{row.probe}: {row.line.slope:.3g} seconds per query, {row.seconds / 3600:.3g} hours for all {row.total:,}."
        if row.line.slope > 0 and row.seconds > 0
        else f"{row.probe}: cannot be determined (the line falls: measure more queries)."
        for row in findings
    ]


def tables(findings: Sequence[Timing]) -> list[Table]:
    """Return one table, with the measured times in its notes."""
    measured = "measured (queries: seconds): " + "; ".join(
        f"{timing.probe} " + ", ".join(f"{count}: {seconds:.1f}" for count, seconds in timing.points)
        for timing in findings
    )
    rows = [
        {
            "probe": timing.probe,
            "seconds/query": _number(timing, "seconds per query", timing.line.slope, timing.line.slope_error),
            "± error": timing.line.slope_error,
            "intercept, s": timing.line.intercept,
            "R²": timing.line.r_squared,
            "queries": timing.total,
            "extrapolated, h": _number(timing, "hours", timing.seconds / 3600, timing.error / 3600),
            "± h": timing.error / 3600,
        }
        for timing in findings
    ]
    notes = (measured, "intercept and R² describe the line through these points: no interval")
    return [Table.of(rows, "seconds = slope · queries + intercept, least squares", notes, inline=True)]


def _number(timing: Timing, name: str, value: float, error: float) -> Estimate:
    """Return *value* with Student's interval of its logarithm, since a time is above 0."""
    width = float(stats.t.ppf(0.975, timing.line.n - 2)) * error / value if value > 0 else float("nan")
    about = f"data:{timing.data}|probe:{timing.probe}|queries:{timing.total}"
    recipe = f"{name}|{about}|line through {timing.line.n} times on this machine"
    if not value > 0:
        return point_estimate("the line falls below 0: measure more queries", recipe, value, timing.line.n, ".4g")
    if width > WIDEST:
        return point_estimate("the times scatter too much for an interval: measure more queries", recipe, value)
    low, high = value * math.exp(-width), value * math.exp(width)
    return point_estimate("", recipe, value, timing.line.n, ".4g")._replace(low=low, high=high)


def plots(findings: Sequence[Timing]) -> list[Plot]:
    """Draw seconds against queries with the fitted line (figure 5)."""
    titles = [f"{timing.probe}: R² = {timing.line.r_squared:.3f}" for timing in findings]
    return [
        Plot(f"compute-time-{timing.probe}", partial(_draw, timing), "queries", "seconds", title)
        for timing, title in zip(findings, titles, strict=True)
    ]


def _draw(timing: Timing, axes: Axes) -> None:
    counts = sorted({count for count, _ in timing.points})
    axes.scatter([count for count, _ in timing.points], [seconds for _, seconds in timing.points], s=12)
    axes.plot(counts, [timing.line.slope * count + timing.line.intercept for count in counts], color="grey")

"""How long does a probe take? Time against number of queries, a straight line through it, and its extrapolation to all
queries (section 5.1 and figure 5 of the DEER paper)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

from fathom.data.queries import QuerySet
from fathom.errors import BadInput
from fathom.metrics.correlation import FittedLine, fit_line
from fathom.models.base import Model
from fathom.probes import PROBES
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.plots import Plot
from fathom.results.tables import Table
from fathom.run import run, selected
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.options import ComputeTimeOptions
from fathom.studies.sizes import ProbeWithOptions, probes_of


class Timing(NamedTuple):
    """One probe.

    :param points: number of queries and seconds of each repeat.
    :param total: number of queries to extrapolate to.
    :param seconds: the line's value there.
    :param error: standard error of that value.
    """

    probe: str
    points: list[tuple[int, float]]
    line: FittedLine
    total: int
    seconds: float
    error: float


def analyse(model: Model, data: QuerySet, options: ComputeTimeOptions, out: Path, announce: Announce) -> list[Timing]:
    """Time each probe in new runs, each in its own folder below *out*.

    :raises BadInput: a count of 0 or above the number of queries, fewer than two counts, or existing runs.
    """
    counts = options.queries
    if not all(counts):
        raise BadInput(f"--queries: expected numbers above zero, found {','.join(map(str, counts))}")
    if len(set(counts)) < 2 or len(counts) * options.repeats < 3:
        raise BadInput("a line needs two numbers of queries or more, and three points")
    return [_time(model, data, probe, options, out, announce) for probe in probes_of(options)]


def _time(
    model: Model, data: QuerySet, timed: ProbeWithOptions, options: ComputeTimeOptions, out: Path, announce: Announce
) -> Timing:
    probe, chosen = timed
    everything = chosen.model_copy(update={"limit": None})
    available = len(selected(PROBES.find(probe), model, data, everything).data.queries)
    if max(options.queries) > available:
        raise BadInput(
            f"{max(options.queries)} queries are wanted, but {data.name} has {available} after the selection"
        )
    model.refuses_cache(), model.linear_head()  # one-time checks of the model are not timed
    points = []
    for repeat, count in product(range(options.repeats), options.queries):
        name = f"{probe}-{count}-{repeat}"
        started = time.perf_counter()
        if RunFolder(out / name).has_manifest():
            raise BadInput(f"{out / name} exists: times cannot be resumed, give a new --out")
        run(probe, model, data, chosen.model_copy(update={"limit": count}), out / name, announce(name))
        points.append((count, time.perf_counter() - started))
    line = fit_line([count for count, _ in points], [seconds for _, seconds in points])
    total = options.total or available
    return Timing(probe, points, line, total, line.slope * total + line.intercept, line.error_at(total))


def conclude(findings: Sequence[Timing]) -> list[str]:
    """State how long each probe takes."""
    return [
        f"{one.probe}: {one.line.slope:.3g} seconds per query, {one.seconds / 3600:.3g} hours for all {one.total:,}."
        for one in findings
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
    recipe = f"{name}|probe:{timing.probe}|queries:{timing.total}|line through {timing.line.n} times on this machine"
    if not value > 0:
        return point_estimate("the line falls below 0: measure more queries", recipe, value, timing.line.n, ".4g")
    low, high = value * math.exp(-width), value * math.exp(width)
    return point_estimate("", recipe, value, timing.line.n, ".4g")._replace(low=low, high=high)


def plots(findings: Sequence[Timing]) -> list[Plot]:
    """Draw seconds against queries with the fitted line (figure 5)."""
    titles = [f"{timing.probe}: R² = {timing.line.r_squared:.3f}" for timing in findings]
    return [
        Plot(f"compute-time-{timing.probe}", partial(_draw, timing), "queries", "seconds", title)
        for timing, title in zip(findings, titles, strict=True)
    ]


def _draw(timing: Timing, axes: Any) -> None:
    counts = sorted({count for count, _ in timing.points})
    axes.scatter([count for count, _ in timing.points], [seconds for _, seconds in timing.points], s=12)
    axes.plot(counts, [timing.line.slope * count + timing.line.intercept for count in counts], color="grey")

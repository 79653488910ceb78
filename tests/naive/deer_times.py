"""The table of times of the DEER preset."""

from __future__ import annotations

import math
from statistics import fmean

from scipy.stats import linregress, t

from tests.naive.bear import Naive, Tables
from tests.naive.intervals import Number
from tests.naive.runs import Row, columns, manifest, read_rows


def table_2(naive: Naive) -> Tables:
    """Seconds and their line: slope, intercept, and the value at all queries."""
    return [
        [times(naive, model, run, probe) for run, probe in (("times-bear", "statement"), ("times-deer", "embedding"))]
        for model in naive.models
    ]


def times(naive: Naive, model: str, run: str, probe: str) -> Row:
    points, whole = [], 0
    for file in (naive.out / "runs" / run / model / "triples").rglob("manifest.json"):
        about = manifest(file.parent)["circumstances"]
        count = len({row["query_id"] for row in read_rows(file.parent)})
        points.append((count, about["wall_seconds"]))
        whole = max(whole, count + about["left_out"]["queries"]["limit"])
    counts, seconds = zip(*points, strict=True)
    line, n = linregress(counts, seconds), len(points)
    total, middle = line.slope * whole + line.intercept, fmean(counts)
    spread = math.sqrt(fmean((count - middle) ** 2 for count in counts))
    error = math.hypot(line.stderr * spread, (whole - middle) * line.stderr)
    cells = {"probe": probe, "queries": whole, "intercept, s": line.intercept, "R²": line.rvalue**2}
    cells |= columns("seconds/query", of_time(line.slope, line.stderr, n)) | {"± error": line.stderr}
    return cells | columns("extrapolated, h", of_time(total / 3600, error / 3600, n)) | {"± h": error / 3600}


def of_time(value: float, error: float, n: int) -> Number:
    """Student's interval of the logarithm."""
    if value <= 0:
        return Number(value)
    width = float(t.ppf(0.975, n - 2)) * error / value
    if width > 100:
        return Number(value)
    return Number(value, value / math.exp(width), value * math.exp(width))


TABLES = {"table-2": table_2}

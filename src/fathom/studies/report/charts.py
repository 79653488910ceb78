"""Charts of runs, in Altair, of few data: counts by one or two dimensions.

The report's script counts what is filtered. Python counts everything, for notebooks and for the tests that compare the
two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput, optional
from fathom.results.loading import AnyRun, open_runs, short_names
from fathom.results.rows import Floats, Rows
from fathom.studies.report.evidence import (
    Array,
    Dimension,
    Evidence,
    PredictionColumns,
    View,
    dimensions,
    narrow,
    weights,
)

if TYPE_CHECKING:
    from altair import Chart, X, Y

Row = dict[str, Any]
Dimensions = Mapping[str, Dimension]
COUNTED, WHOLE = "counted", "whole"
"""Names of a chart's data sets: the counts, and values of each run as a whole."""
HEAT = "blues"
RUNS = (
    *("#0b6fa4", "#b8500b", "#2f7d32", "#8e3b8a", "#7a6a00", "#b3263a", "#39567d", "#5a5a5a"),
    *("#0e8a8a", "#c2487e", "#5d7f1e", "#6a4fc9", "#95601f", "#1f6fd1", "#a04f4f", "#3f8f63"),
)
"""Colours of runs: each is visible on white and on black."""
LOWEST = 120
"""Pixels of the lowest chart."""
HITS = "share of facts right"


class _Altair:
    """Altair, loaded when a chart is drawn."""

    def __getattr__(self, name: str) -> Any:
        return getattr(optional("altair", "report"), name)


alt = _Altair()


class Drawing(NamedTuple):
    """One chart.

    :param says: how to read it, in a sentence.
    :param keys: dimensions by which it counts.
    :param brush: keys that a brush selects by; empty if the chart has no brush.
    """

    name: str
    title: str
    says: str
    keys: tuple[str, ...]
    brush: tuple[str, ...]
    draw: Callable[[Any], Any]
    there: Callable[[Sequence[View], Dimensions], bool]


def classes_of(keys: Sequence[str], dims: Dimensions) -> list[Row]:
    """Return the labels by key of every combination of classes."""
    return [dict(zip(keys, labels, strict=True)) for labels in product(*(dims[key].labels for key in keys))]


def places_of(keys: Sequence[str], dims: Dimensions, predictions: PredictionColumns) -> Array:
    """Return the number of each prediction's combination of classes, −1 if it counts in none; shape (n)."""
    shape = [len(dims[key].labels) for key in keys]
    parts = []
    for at in predictions.places_of_views():
        codes = [dims[key].codes[at] for key in keys]
        counts = (predictions.times[at] > 0) & np.all([column >= 0 for column in codes], axis=0)
        places = np.full(len(counts), -1, dtype=np.int64)
        places[counts] = np.ravel_multi_index([column[counts] for column in codes], shape)
        parts.append(narrow(places))
    return narrow(np.concatenate(parts))


def counted(keys: Sequence[str], dims: Dimensions, predictions: PredictionColumns) -> list[Row]:
    """Count each combination of classes that occurs.

    :returns: its labels, ``facts`` (each counts once in a run), means ``hit`` and ``sure`` of hits and confidence, and
        ``share`` of the run's facts.
    """
    classes, places = classes_of(keys, dims), places_of(keys, dims, predictions)
    sums = np.zeros((4, len(classes)))
    for at in predictions.places_of_views():
        sums += _sums(predictions.only(at), places[at], len(classes))
    facts, hits, measured, sure = sums.tolist()
    of_run: dict[str, float] = {}
    for row, count in zip(classes, facts, strict=True):
        of_run[row["run"]] = of_run.get(row["run"], 0.0) + count
    return [
        {**classes[at], "facts": facts[at], "hit": hits[at] / facts[at]}
        | {"sure": sure[at] / measured[at] if measured[at] else None, "share": facts[at] / of_run[classes[at]["run"]]}
        for at in np.flatnonzero(sums[0]).tolist()
    ]


def _sums(view: PredictionColumns, places: Array, size: int) -> Floats:
    """Return facts, hits, facts with a known confidence, and these confidences of each class, shape (4, size)."""
    counts = places >= 0
    place, weight, sure = places[counts], weights(view)[counts], view.confidence[counts]
    measured = weight * ~np.isnan(sure)
    values = (weight, weight * view.hit[counts], measured, measured * np.nan_to_num(sure))
    return np.stack([np.bincount(place, column, size) for column in values])


def whole(views: Sequence[View]) -> list[Row]:
    """Return the interval of the accuracy of each run."""
    return [{"run": view.name, "low": view.accuracy.low, "high": view.accuracy.high} for view in views]


def drawable(
    views: Sequence[View], dims: Dimensions, predictions: PredictionColumns
) -> list[tuple[Drawing, list[Row]]]:
    """Return the charts that have something to draw, with their data."""
    drawings = (drawing for drawing in DRAWINGS if drawing.there(views, dims))
    return [(drawing, rows) for drawing in drawings if (rows := counted(drawing.keys, dims, predictions))]


def plots(runs: Sequence[AnyRun]) -> dict[str, Chart]:
    """Draw charts of runs next to each other: accuracy, ranks, confidence, calibration, relations, templates, lengths.

    :returns: name → chart, without those that have no data. A notebook shows them, ``save`` writes PNG or SVG.
    :raises BadInput: there is no run, or everything that is wrong with them.
    :raises MissingExtra: Altair is not installed.

    >>> charts = fathom.plots(["reference:SmolLM2-135M-Instruct", "reference:Gemma-3-270m"])
    """
    optional("altair", "report")
    folders = list({run.path.resolve(): run for run in open_runs(runs)}.values())
    if not folders:
        raise BadInput("expected a run or more, found none")
    evidence = Evidence()
    for folder, model in zip(folders, short_names(folders), strict=True):
        evidence.add_run(folder, Rows(folder), model)
    predictions = evidence.finish()
    dims, of_runs = dimensions(evidence, predictions), whole(evidence.views)
    return {plot.name: chart(plot, dims, rows, of_runs) for plot, rows in drawable(evidence.views, dims, predictions)}


def chart(drawing: Drawing, dims: Dimensions, rows: Sequence[Row], of_runs: Sequence[Row]) -> Chart:
    """Draw these data. :raises MissingExtra: Altair is not installed."""
    drawn: Chart = drawing.draw(dims)
    # Named data sets: the report's script fills them anew.
    drawn.datasets = {COUNTED: list(rows), WHOLE: list(of_runs)}
    drawn = drawn.properties(title=drawing.title, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
    legend = alt.LegendConfig(
        orient="bottom", columns=2, symbolOpacity=1, labelLimit=300, symbolBaseFillColor="#808080"
    )
    return drawn.properties(config=alt.Config(legend=legend, axis=alt.AxisConfig(labelLimit=260)))


# --- parts of charts


def _counts() -> Any:
    return alt.Chart(alt.NamedData(COUNTED))


def _points(**mark: float) -> Any:
    return _counts().mark_point(filled=True, **mark)


def _cells() -> Any:
    return _counts().mark_rect(stroke="white", strokeWidth=0.5)


def _labels(axis: Callable[..., Any], key: str, dims: Dimensions, field: str = "") -> Any:
    return axis(f"{field or key}:N", sort=list(dims[key].labels)).title(None)


def _by_run(dims: Dimensions) -> dict[str, Any]:
    """Return the size of a chart with a row for each run."""
    return {"width": "container", "height": _height(26, dims["run"].labels)}


def _height(row: int, labels: Sequence[str]) -> int:
    """Return pixels that hold a row for each label, and the axis's own labels."""
    return max(LOWEST, row * len(labels))


def _colour(dims: Dimensions) -> Any:
    names = list(dims["run"].labels)
    colours = [RUNS[place % len(RUNS)] for place in range(len(names))]
    return alt.Color("run:N", scale=alt.Scale(domain=names, range=colours)).title(None)


def _share(axis: Callable[..., Any], field: str, title: str) -> Any:
    return axis(field).scale(domain=[0, 1]).axis(format=".0%").title(title)


def _tooltip(*keys: str) -> list[Any]:
    hit = alt.Tooltip("hit:Q", format=".1%", title="first answer right")
    return [*(alt.Tooltip(f"{key}:N") for key in keys), hit, alt.Tooltip("facts:Q", format=",.1f")]


def _brush(*encodings: str) -> Any:
    return alt.selection_interval(name="brush", encodings=list(encodings))


def _lines(dims: Dimensions, x: X, y: Y, key: str) -> tuple[Any, Any]:
    """Return a line for each run, and points sized by their number of facts."""
    size = alt.Size("facts:Q").scale(range=[6, 160]).legend(None)
    line = _counts().mark_line(opacity=0.6).encode(x, y, _colour(dims))
    return line, _points(opacity=1).encode(x, y, _colour(dims), size, tooltip=_tooltip("run", key))


# --- the charts


def _of_runs(dims: Dimensions) -> Any:
    place, colour = _labels(alt.Y, "run", dims), _colour(dims).legend(None)
    low = alt.X("low:Q").scale(domain=[0, 1]).title(HITS)
    bars = alt.Chart(alt.NamedData(WHOLE)).mark_rule(strokeWidth=3, opacity=0.45)
    points = _points(size=90).encode(place, _share(alt.X, "hit:Q", HITS), colour, tooltip=_tooltip("run"))
    return (bars.encode(place, low, alt.X2("high:Q"), colour) + points).properties(**_by_run(dims))


def _relations(dims: Dimensions) -> Any:
    runs = _labels(alt.X, "run", dims).axis(orient="top", labelAngle=-90, labelLimit=160)
    right = alt.Color("hit:Q").scale(scheme=HEAT, domain=[0, 1]).legend(format=".0%").title(HITS)
    cells = _cells().encode(runs, _labels(alt.Y, "relation", dims), right, tooltip=_tooltip("relation", "run"))
    return cells.add_params(_brush("y")).properties(width="container", height=_height(16, dims["relation"].labels))


def _strip(key: str, title: str) -> Callable[[Dimensions], Any]:
    """Draw how each run's facts are distributed over the classes of *key*."""

    def draw(dims: Dimensions) -> Any:
        labels = list(dims[key].labels)
        classes = alt.X(f"{key}:N", sort=labels).scale(domain=labels).title(title).axis(labelAngle=-35)
        share = alt.Color("share:Q").scale(scheme=HEAT, domainMin=0).legend(format=".0%").title("of facts")
        tooltip = [*_tooltip("run", key), alt.Tooltip("share:Q", format=".1%", title="share of the run's facts")]
        cells = _cells().encode(classes, _labels(alt.Y, "run", dims), share, tooltip=tooltip)
        return cells.add_params(_brush("x", "y")).properties(**_by_run(dims))

    return draw


def _calibration(dims: Dimensions) -> Any:
    sure = _share(alt.X, "sure:Q", "mean probability of the first answer")
    right = _share(alt.Y, "hit:Q", "share right")
    ends = alt.Data(values=[{"sure": 0, "hit": 0}, {"sure": 1, "hit": 1}])
    diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], opacity=0.6, color="gray").encode(sure, right)
    line, points = _lines(dims, sure, right, "confidence")
    return (diagonal + line + points).properties(width="container", height=260)


def _templates(dims: Dimensions) -> Any:
    legend = alt.Legend(title="template", columns=1)
    colour = alt.Color("template:N", legend=legend).scale(range=list(RUNS))
    shape = alt.Shape("template:N", legend=legend)
    where = _share(alt.X, "hit:Q", HITS), _labels(alt.Y, "run", dims)
    return (
        _points(size=70).encode(*where, colour, shape, tooltip=_tooltip("run", "template")).properties(**_by_run(dims))
    )


def _lengths(dims: Dimensions) -> Any:
    length = _labels(alt.X, "length", dims).title("tokens of the right answer").axis(labelAngle=0)
    line, points = _lines(dims, length, _share(alt.Y, "hit:Q", HITS), "length")
    return (line + points.add_params(_brush("x"))).properties(width="container", height=260)


def _has(key: str, least: int = 1) -> Callable[[Sequence[View], Dimensions], bool]:
    """Return a test that so many classes of *key* occur."""
    return lambda views, dims: len(np.unique(dims[key].codes[dims[key].codes >= 0])) >= least


DRAWINGS = (
    Drawing(
        "runs", "Runs",
        "Point: the facts chosen; bar: the 95 % interval of accuracy over all facts.",
        ("run",), (), _of_runs, lambda views, dims: True,
    ),
    Drawing(
        "relations", "Relations", "Drag over relations to choose them.",
        ("relation", "run"), ("relation",), _relations, _has("relation", 2),
    ),
    Drawing(
        "ranks", "Ranks", "How each run's facts are distributed over the ranks of the right answer. Drag to choose.",
        ("run", "rank"), ("run", "rank"), _strip("rank", "rank of the right answer"), _has("rank"),
    ),
    Drawing(
        "confidence", "Probability of the first answer",
        "How sure each run is of its first answer, right or wrong. Drag to choose.",
        ("run", "confidence"), ("run", "confidence"), _strip("confidence", "probability of the first answer"),
        _has("confidence"),
    ),
    Drawing(
        "calibration", "Calibration",
        "On the dashed line a run is right as often as it is sure, below it too sure. Large points: many facts.",
        ("run", "confidence"), (), _calibration, _has("confidence"),
    ),
    Drawing(
        "templates", "Templates", "The same facts with each template.",
        ("run", "template"), (), _templates, _has("template", 2),
    ),
    Drawing(
        "lengths", "Length of the right answer",
        "A line that falls may be bias: short names are easier to say. Large points: many facts. Drag to choose.",
        ("run", "length"), ("length",), _lengths, _has("length", 2),
    ),
)  # fmt: skip
"""All charts, in the order in which the report shows them."""

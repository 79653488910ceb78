"""What is drawn of runs, as Altair charts whose data are few: counts by one or two dimensions.

The report's script counts again whatever is filtered; Python counts everything, for notebooks, and once for the tests
that compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, MissingExtra
from fathom.report.counting import Dimension, dimensions, hits_of, weights
from fathom.report.evidence import Array, Evidence, Predictions, View, narrow
from fathom.results.names import short_names
from fathom.results.rows import Floats, Rows
from fathom.store.folder import RunFolder

if TYPE_CHECKING:
    import altair as alt

Row = dict[str, Any]
COUNTED, WHOLE = "counted", "whole"
"""Names of a chart's data sets: what is counted, and what is told of each run as a whole."""
HEAT = "blues"
RUNS = (
    *("#0b6fa4", "#b8500b", "#2f7d32", "#8e3b8a", "#7a6a00", "#b3263a", "#39567d", "#5a5a5a"),
    *("#0e8a8a", "#c2487e", "#5d7f1e", "#6a4fc9", "#95601f", "#1f6fd1", "#a04f4f", "#3f8f63"),
)
"""Colours of runs: each stands out on white and on black."""
HITS = "share of facts right"


class Drawing(NamedTuple):
    """One chart.

    :param name: of it in links. :param says: how to read it, in a sentence.
    :param keys: dimensions by which it counts; those of ``agreement`` are two runs.
    :param brush: those of them that a brush chooses by; none where the chart cannot be brushed.
    :param draw: makes it. :param there: whether there is something to draw.
    """

    name: str
    title: str
    says: str
    keys: tuple[str, ...]
    brush: tuple[str, ...]
    draw: Callable[[Any], Any]
    there: Callable[[Sequence[View], Mapping[str, Dimension]], bool]

    @property
    def pairs(self) -> bool:
        """Whether it shows pairs of runs, see :func:`agreeing`, in place of counts."""
        return self.keys == ("first", "second")


def classes_of(keys: Sequence[str], dims: Mapping[str, Dimension]) -> list[Row]:
    """Every combination of classes, its labels by key."""
    return [dict(zip(keys, labels, strict=True)) for labels in product(*(dims[key].labels for key in keys))]


def places_of(keys: Sequence[str], dims: Mapping[str, Dimension], found: Predictions) -> Array:
    """Of each prediction the number of its combination, −1 where it counts in none; [n]."""
    shape = [len(dims[key].labels) for key in keys]
    parts = []
    for at in found.places_of_views():
        codes = [dims[key].codes[at] for key in keys]
        there = (weights(found.only(at)) > 0) & np.all([own >= 0 for own in codes], axis=0)
        places = np.full(len(there), -1, dtype=np.int64)
        places[there] = np.ravel_multi_index([own[there] for own in codes], shape)
        parts.append(narrow(places))
    return narrow(np.concatenate(parts))


def counted(keys: Sequence[str], dims: Mapping[str, Dimension], found: Predictions) -> list[Row]:
    """Of each combination of classes that occurs: its labels, ``facts`` (each counts once in a run, whatever its
    templates), ``hit`` and ``sure`` (the means of these and of confidence), and ``share`` of the run's facts."""
    classes, places = classes_of(keys, dims), places_of(keys, dims, found)
    sums = np.zeros((4, len(classes)))
    for at in found.places_of_views():
        sums += _sums(found.only(at), places[at], len(classes))
    facts, hits, told, sure = sums.tolist()
    of_run: dict[str, float] = {}
    for own, count in zip(classes, facts, strict=True):
        of_run[own["run"]] = of_run.get(own["run"], 0.0) + count
    return [
        {**classes[at], "facts": facts[at], "hit": hits[at] / facts[at]}
        | {"sure": sure[at] / told[at] if told[at] else None, "share": facts[at] / of_run[classes[at]["run"]]}
        for at in np.flatnonzero(sums[0]).tolist()
    ]


def _sums(found: Predictions, places: Array, size: int) -> Floats:
    """Of each class: facts, hits, facts whose confidence can be told, and these confidences; [4, size]."""
    there = places >= 0
    place, weight, sure = places[there], weights(found)[there], found.confidence[there]
    told = weight * ~np.isnan(sure)
    values = (weight, weight * found.hit[there], told, told * np.nan_to_num(sure))
    return np.stack([np.bincount(place, own, size) for own in values])


def agreeing(found: Predictions, names: Sequence[str], facts: int) -> list[Row]:
    """Correlation of what two runs have right, over the facts that both scored; None where one of them has all or
    none. By chance it is 0, however much each knows."""
    hits = hits_of(found, len(names), facts)
    rows = []
    for one, other in combinations_with_replacement(range(len(names)), 2):
        both = ~np.isnan(hits[one] + hits[other])
        told = {"facts": int(both.sum()), "hit": _correlation(hits[[one, other]][:, both])}
        for first, second in dict.fromkeys([(one, other), (other, one)]):
            rows.append({"first": names[first], "second": names[second], **told})
    return rows


def _correlation(pair: Floats) -> float | None:
    centred = pair - pair.mean(axis=1, keepdims=True) if pair.size else pair
    spread = float(np.sqrt(np.prod((centred**2).sum(axis=1)))) if pair.size else 0.0
    return float((centred[0] * centred[1]).sum() / spread) if spread > 1e-12 else None


def rows_of(drawing: Drawing, evidence: Evidence, dims: Mapping[str, Dimension], found: Predictions) -> list[Row]:
    """What it counts, of everything."""
    if drawing.pairs:
        return agreeing(found, dims["run"].labels, len(evidence.facts))
    return counted(drawing.keys, dims, found)


def whole(views: Sequence[View]) -> list[Row]:
    """Of each run its parameters, kind, and the interval of its accuracy."""
    return [
        {
            "run": view.name,
            "parameters": view.parameters,
            "kind": {"bidirectional": "masked"}.get(view.attention, view.attention or view.probe),
        }
        | {"low": view.accuracy.low, "high": view.accuracy.high}
        for view in views
    ]


def charts(evidence: Evidence) -> dict[str, alt.Chart]:
    """All that there is something to draw for, with their data; name → chart.

    :raises MissingExtra: Altair is not installed.
    """
    found = evidence.finish()
    dims = dimensions(evidence, found)
    told = whole(evidence.views)
    return {one.name: chart(one, dims, rows, told) for one, rows in there(evidence, dims, found)}


def there(evidence: Evidence, dims: Mapping[str, Dimension], found: Predictions) -> list[tuple[Drawing, list[Row]]]:
    """The charts that there is something to draw for, and what they count of everything."""
    drawn = (one for one in DRAWINGS if one.there(evidence.views, dims))
    return [(one, rows) for one in drawn if (rows := rows_of(one, evidence, dims, found))]


def plots(runs: Sequence[RunFolder]) -> dict[str, alt.Chart]:
    """The report's charts of finished runs; name → chart.

    :raises BadInput: there is none, or one is damaged. :raises MissingExtra: Altair is not installed.
    """
    altair()
    folders = list({run.path.resolve(): run for run in runs}.values())
    if not folders:
        raise BadInput("expected a run or more, found none")
    evidence = Evidence()
    for folder, model in zip(folders, short_names(folders), strict=True):
        evidence.add_run(folder, Rows(folder), model)
    return charts(evidence)


def chart(drawing: Drawing, dims: Mapping[str, Dimension], rows: Sequence[Row], told: Sequence[Row]) -> alt.Chart:
    """With these data. :raises MissingExtra: Altair is not installed."""
    drawn: alt.Chart = drawing.draw(dims)
    # Named data sets: the report's script fills them anew.
    drawn.datasets = {COUNTED: list(rows), WHOLE: list(told)}
    drawn = drawn.properties(title=drawing.title, autosize=altair().AutoSizeParams(type="fit-x", contains="padding"))
    legend = altair().LegendConfig(
        orient="bottom", columns=2, symbolOpacity=1, labelLimit=300, symbolBaseFillColor="#808080"
    )
    return drawn.properties(config=altair().Config(legend=legend, axis=altair().AxisConfig(labelLimit=260)))


def library(name: str) -> Any:
    """One that reports need. :raises MissingExtra: it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(name, "report") from error


def altair() -> Any:
    """:raises MissingExtra: it is not installed."""
    return library("altair")


def _base() -> Any:
    alt = altair()
    return alt.Chart(alt.NamedData(COUNTED))


def _whole() -> Any:
    alt = altair()
    return alt.Chart(alt.NamedData(WHOLE))


def _order(dims: Mapping[str, Dimension], key: str) -> list[str]:
    return list(dims[key].labels)


def _run_colour(dims: Mapping[str, Dimension]) -> Any:
    names = _order(dims, "run")
    colours = [RUNS[place % len(RUNS)] for place in range(len(names))]
    return altair().Color("run:N", scale=altair().Scale(domain=names, range=colours)).title(None)


def _share_axis(axis: Any, field: str, title: str) -> Any:
    return axis(field).scale(domain=[0, 1]).axis(format=".0%").title(title)


def _tooltip(*keys: str) -> list[Any]:
    alt = altair()
    of_hits = alt.Tooltip("hit:Q", format=".1%", title="first answer right")
    return [*(alt.Tooltip(f"{key}:N") for key in keys), of_hits, alt.Tooltip("facts:Q", format=",.1f")]


def _of_runs(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    place = alt.Y("run:N", sort=_order(dims, "run")).title(None)
    between = (
        _whole()
        .mark_rule(strokeWidth=3, opacity=0.45)
        .encode(
            place, alt.X("low:Q").scale(domain=[0, 1]).title(HITS), alt.X2("high:Q"), _run_colour(dims).legend(None)
        )
    )
    points = (
        _base()
        .mark_point(filled=True, size=90)
        .encode(place, _share_axis(alt.X, "hit:Q", HITS), _run_colour(dims).legend(None), tooltip=_tooltip("run"))
    )
    return (between + points).properties(width="container", height=26 * len(_order(dims, "run")))


def _sizes(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    size = alt.X("parameters:Q").scale(type="log").axis(format="~s").title("parameters of the model")
    with_size = alt.LookupData(alt.NamedData(WHOLE), "run", ["parameters", "kind"])
    points = (
        _base().transform_lookup("run", with_size).transform_filter("isValid(datum.parameters)")
        .mark_point(filled=True, size=90)
        .encode(
            size, _share_axis(alt.Y, "hit:Q", HITS), _run_colour(dims), alt.Shape("kind:N").title(None),
            tooltip=_tooltip("run", "kind"),
        )
    )  # fmt: skip
    between = _whole().transform_filter("isValid(datum.parameters)").mark_rule(strokeWidth=3, opacity=0.45).encode(
        size, alt.Y("low:Q").title(HITS), alt.Y2("high:Q"), _run_colour(dims)
    )  # fmt: skip
    return (between + points).properties(width="container", height=260)


def _relations(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    return (
        _base().mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            alt.X("run:N", sort=_order(dims, "run")).title(None).axis(orient="top", labelAngle=-35),
            alt.Y("relation:N", sort=_order(dims, "relation")).title(None),
            alt.Color("hit:Q").scale(scheme=HEAT, domain=[0, 1]).legend(format=".0%").title("right"),
            tooltip=_tooltip("relation", "run"),
        )
        .add_params(alt.selection_interval(name="brush", encodings=["y"]))
        .properties(width="container", height=16 * len(_order(dims, "relation")))
    )  # fmt: skip


def _strip(key: str, title: str) -> Callable[[Mapping[str, Dimension]], Any]:
    """Of each run how its facts are spread over the classes of *key*."""

    def draw(dims: Mapping[str, Dimension]) -> Any:
        alt = altair()
        share = alt.Tooltip("share:Q", format=".1%", title="share of the run's facts")
        return (
            _base().mark_rect(stroke="white", strokeWidth=0.5)
            .encode(
                alt.X(f"{key}:N", sort=_order(dims, key)).scale(domain=_order(dims, key)).title(title)
                .axis(labelAngle=-35),
                alt.Y("run:N", sort=_order(dims, "run")).title(None),
                alt.Color("share:Q").scale(scheme=HEAT, domainMin=0).legend(format=".0%").title("of facts"),
                tooltip=[*_tooltip("run", key), share],
            )
            .add_params(alt.selection_interval(name="brush", encodings=["x", "y"]))
            .properties(width="container", height=26 * len(_order(dims, "run")))
        )  # fmt: skip

    return draw


def _calibration(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    sure = _share_axis(alt.X, "sure:Q", "mean probability of the first answer")
    right = _share_axis(alt.Y, "hit:Q", "share right")
    ends = alt.Data(values=[{"sure": 0, "hit": 0}, {"sure": 1, "hit": 1}])
    diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], opacity=0.6, color="gray").encode(sure, right)
    line = _base().mark_line(opacity=0.6).encode(sure, right, _run_colour(dims))
    points = _base().mark_point(filled=True, opacity=1).encode(
        sure, right, _run_colour(dims), _by_facts(), tooltip=_tooltip("run", "confidence")
    )  # fmt: skip
    return (diagonal + line + points).properties(width="container", height=260)


def _by_facts() -> Any:
    """Of a point: how many facts it is of."""
    return altair().Size("facts:Q").scale(range=[6, 160]).legend(None)


def _templates(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    return (
        _base().mark_point(filled=True, size=70)
        .encode(
            _share_axis(alt.X, "hit:Q", HITS),
            alt.Y("run:N", sort=_order(dims, "run")).title(None),
            alt.Color("template:N").scale(range=list(RUNS)).title("template"),
            alt.Shape("template:N").title("template"),
            tooltip=_tooltip("run", "template"),
        )
        .properties(width="container", height=26 * len(_order(dims, "run")))
    )  # fmt: skip


def _lengths(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    length = alt.X("length:N", sort=_order(dims, "length")).title("tokens of the right answer").axis(labelAngle=0)
    right = _share_axis(alt.Y, "hit:Q", HITS)
    line = _base().mark_line(opacity=0.6).encode(length, right, _run_colour(dims))
    points = _base().mark_point(filled=True, opacity=1).encode(
        length, right, _run_colour(dims), _by_facts(), tooltip=_tooltip("run", "length")
    )  # fmt: skip
    brush = alt.selection_interval(name="brush", encodings=["x"])
    return (line + points.add_params(brush)).properties(width="container", height=260)


def _agreement(dims: Mapping[str, Dimension]) -> Any:
    alt = altair()
    names = _order(dims, "run")
    alike = alt.Tooltip("hit:Q", format=".2f", title="correlation")
    return (
        _base().mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            alt.X("second:N", sort=names).title(None).axis(labelAngle=-35),
            alt.Y("first:N", sort=names).title(None),
            alt.Color("hit:Q").scale(scheme="purpleorange", domain=[1, -1]).title("correlation"),
            tooltip=[alt.Tooltip("first:N"), alt.Tooltip("second:N"), alike, alt.Tooltip("facts:Q")],
        )
        .properties(width="container", height=26 * len(_order(dims, "run")))
    )  # fmt: skip


def _told(key: str, least: int = 1) -> Callable[[Sequence[View], Mapping[str, Dimension]], bool]:
    """Whether so many classes of *key* occur."""
    return lambda views, dims: len(np.unique(dims[key].codes[dims[key].codes >= 0])) >= least


DRAWINGS = (
    Drawing(
        "runs", "Runs",
        "Point: the share of the facts chosen; bar: the 95 % interval of all facts.",
        ("run",), (), _of_runs, lambda views, dims: True,
    ),
    Drawing(
        "sizes", "Size of the model",
        "Point: the share of the facts chosen; bar: the 95 % interval of all facts.",
        ("run",), (), _sizes, lambda views, dims: len({view.parameters for view in views if view.parameters}) > 1,
    ),
    Drawing(
        "relations", "Relations", "Share of facts whose first answer is right. Drag over relations to choose them.",
        ("relation", "run"), ("relation",), _relations, _told("relation", 2),
    ),
    Drawing(
        "ranks", "Ranks", "How each run's facts are spread over the ranks of the right answer. Drag to choose.",
        ("run", "rank"), ("run", "rank"), _strip("rank", "rank of the right answer"), _told("rank"),
    ),
    Drawing(
        "confidence", "Probability of the first answer",
        "How sure each run is of its first answer, right or wrong. Drag to choose.",
        ("run", "confidence"), ("run", "confidence"), _strip("confidence", "probability of the first answer"),
        _told("confidence"),
    ),
    Drawing(
        "scores", "Score of the first answer", "Of runs whose scores are no probabilities. Drag to choose.",
        ("run", "score"), ("run", "score"), _strip("score", "score of the first answer"), _told("score"),
    ),
    Drawing(
        "calibration", "Calibration",
        "On the dashed line a run is right as often as it is sure, below it too sure. Large points: many facts.",
        ("run", "confidence"), (), _calibration, _told("confidence"),
    ),
    Drawing(
        "templates", "Templates", "The same facts, asked with each template.",
        ("run", "template"), (), _templates, _told("template", 2),
    ),
    Drawing(
        "lengths", "Length of the right answer",
        "A line that falls may be bias: short names are easier to say. Large points: many facts. Drag to choose.",
        ("run", "length"), ("length",), _lengths, _told("length", 2),
    ),
    Drawing(
        "agreement", "Agreement of runs",
        "Correlation of which facts two runs have right. By chance it is 0, however much each knows.",
        ("first", "second"), (), _agreement, lambda views, dims: len(views) > 1,
    ),
)  # fmt: skip
"""All charts, in the order in which the report shows them."""

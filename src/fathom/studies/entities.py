"""Studies that start the runs they need: prompt sensitivity, growth with model size, and the time that probes take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.data.queries import QuerySet
from fathom.errors import BadInput
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.correlation import Line, fit_line
from fathom.metrics.ranking import told_hits_at_k
from fathom.models.base import Model
from fathom.probes import PROBES
from fathom.probes.options import EmbeddingOptions, ProbeOptions
from fathom.run import run, selected
from fathom.store.folder import RunFolder

CUTS = (1, 10, 100)
TAIL_TEMPLATES = ("deer", "A", "B", "C")

Announce = Callable[[str], Callable[[int, int], None]]
"""Given the name of a run, what to call with pieces done and in all."""


class Scored(NamedTuple):
    """One run in numbers. :param hits: Hits@k for each of :data:`CUTS`; None where the search stopped before k.
    :param unscored: queries without a rank, counted and left out."""

    probe: str
    name: str
    parameters: int | None
    hits: tuple[Interval | None, ...]
    queries: int
    unscored: int


def prompt_sensitivity(
    model: Model, data: QuerySet, options: EmbeddingOptions, out: Path, announce: Announce
) -> list[Scored]:
    """The embedding probe with each published tail template (table 9 of the DEER paper), a run each below *out*."""
    found = []
    for template in TAIL_TEMPLATES:
        chosen = options.model_copy(update={"tail_template": template})
        folder = run("embedding", model, data, chosen, out / f"template-{template}", announce(f"template {template}"))
        found += _scored(folder, f"template {template}", None)
    return found


class Growth(NamedTuple):
    """The k of Hits@k that rise from each size to the next, and those that do not."""

    rising: list[int]
    not_rising: list[int]


class Asked(NamedTuple):
    """A probe with its options, as told to :func:`sizes`."""

    probe: str
    options: ProbeOptions


def sizes(
    models: Sequence[tuple[str, Callable[[], Model]]],
    data: QuerySet,
    asked: Sequence[Asked],
    out: Path,
    announce: Announce,
) -> tuple[list[Scored], dict[str, Growth]]:
    """Every probe asked of every model (tables 4 and 8 of the DEER paper).

    :param models: name and how to load it, one in memory at a time.
    :returns: the numbers, models in order of size; and for each probe those k whose Hits@k rises, and those whose does
        not (equal is not rising).
    """
    found: list[Scored] = []
    for (name, load), short in zip(models, _short_names([name for name, _ in models]), strict=True):
        model = load()
        for probe, options in asked:
            folder = run(probe, model, data, options, out / f"{probe}-{short}", announce(f"{probe} {name}"))
            found += _scored(folder, short, model.parameters)
    found.sort(key=lambda line: (line.probe, line.parameters or 0))
    return found, {probe: _rises([line for line in found if line.probe == probe]) for probe in _probes(found)}


def _short_names(names: Sequence[str]) -> list[str]:
    """The last part of each path, or all of it where two would be the same. :raises BadInput: one stands twice."""
    if len(set(names)) < len(names):
        raise BadInput(f"a model stands twice in {', '.join(names)}")
    last = [Path(name).name for name in names]
    return last if len(set(last)) == len(last) else [name.strip("/.").replace("/", "-") for name in names]


def _probes(lines: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(line.probe for line in lines))


def _rises(lines: Sequence[Scored]) -> Growth:
    """Of the k that every run tells."""
    growth = Growth([], [])
    for place, k in enumerate(CUTS):
        values = [hit.estimate for line in lines if (hit := line.hits[place]) is not None]
        if len(values) > 1 and len(values) == len(lines):
            growth[0 if all(small < large for small, large in pairwise(values)) else 1].append(k)
    return growth


def _scored(folder: RunFolder, name: str, parameters: int | None) -> list[Scored]:
    """One line per scoring of a run."""
    queries = folder.queries()
    relation_of = dict(zip(queries.column("query_id").to_pylist(), queries.column("relation").to_pylist(), strict=True))
    columns = ["query_id", "scoring", "rank_optimistic", "rank_pessimistic", "rank_above", "correct"]
    rows = folder.predictions().select(columns).to_pylist()
    probe = folder.manifest["identity"]["probe"]
    lines = []
    for scoring in dict.fromkeys(row["scoring"] for row in rows):
        own = [row for row in rows if row["scoring"] == scoring]
        told = [row for row in own if any(row[name] is not None for name in columns[2:])]
        clusters = [relation_of[row["query_id"]] for row in told]
        hits = tuple(_hits(told, clusters, k) for k in CUTS)
        lines.append(Scored(f"{probe} {scoring}", name, parameters, hits, len(own), len(own) - len(told)))
    return lines


def _hits(rows: Sequence[dict[str, Any]], clusters: list[str], k: int) -> Interval | None:
    """None where there are no rows, or one of them cannot tell it."""
    optimistic, pessimistic, above, correct = (
        np.array([row[name] for row in rows], dtype=float)
        for name in ("rank_optimistic", "rank_pessimistic", "rank_above", "correct")
    )
    values = told_hits_at_k(optimistic, pessimistic, above, correct, k)
    if not len(values) or np.isnan(values).any():
        return None
    return interval(values, clusters, limits=(0.0, 1.0))


class Timing(NamedTuple):
    """:param points: queries asked, seconds; repeats one by one. :param total: queries to extrapolate to.
    :param seconds: the line's value there, and :param error: total × standard error of the slope."""

    probe: str
    points: list[tuple[int, float]]
    line: Line
    total: int
    seconds: float
    error: float


def compute_time(
    model: Model,
    data: QuerySet,
    asked: Asked,
    counts: Sequence[int],
    out: Path,
    announce: Announce,
    *,
    repeats: int = 3,
    total: int | None = None,
) -> Timing:
    """Time against number of queries, a straight line through it, and what it says of all queries (DEER, section 5.1).

    Runs are made anew, each in a folder of its own below *out*.

    :param total: None for all queries that the options select.
    :raises BadInput: more queries asked for than there are, or fewer than two counts.
    """
    if len(set(counts)) < 2 or len(counts) * repeats < 3:
        raise BadInput("a line needs two numbers of queries or more, and three points")
    there = len(selected(model, data, asked.options.model_copy(update={"limit": None})).data.queries)
    if max(counts) > there:
        raise BadInput(f"{max(counts)} queries asked for, but {data.name} has {there} after the selection")
    model.refuses_cache(), model.linear_head()  # the model's checks of itself happen once, and are not timed
    points = []
    for repeat in range(repeats):
        for count in counts:
            options = asked.options.model_copy(update={"limit": count})
            name = f"{asked.probe}-{count}-{repeat}"
            folder = out / name
            started = time.perf_counter()
            if (folder / "manifest.json").exists():
                raise BadInput(f"{folder} is there already: times cannot be resumed; give a new --out")
            run(PROBES.find(asked.probe).name, model, data, options, folder, announce(name))
            points.append((count, time.perf_counter() - started))
    line = fit_line([count for count, _ in points], [seconds for _, seconds in points])
    everything = total or there
    return Timing(
        asked.probe,
        points,
        line,
        everything,
        line.slope * everything + line.intercept,
        line.slope_error * everything,
    )

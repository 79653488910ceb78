"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
All models of a column are compared on the facts that all of them ranked. Two rankings are compared by Kendall's tau-b
and Spearman's rho, with percentile intervals under resampling of facts: how much the agreement depends on which facts
were asked, the models being those that were chosen.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.correlation import kendall, spearman
from fathom.metrics.ranking import places
from fathom.results.outcomes import (
    BY_TEMPLATE,
    CUTS,
    FREE,
    READINGS,
    Floats,
    by_column,
    common_facts,
    hits_of,
    outcomes_of,
    relations_of,
)
from fathom.store.folder import RunFolder

EVERY_MODEL = "all models"
MEAN = "mean over data sets"
_RESAMPLES, _BLOCK = 1000, 50


class Score(NamedTuple):
    """:param place: 1 is the best; tied models share the mean of theirs. :param hits: Acc@1, Acc@5, Acc@10."""

    model: str
    place: float
    hits: tuple[Interval, ...]


class Column(NamedTuple):
    """One data set in one reading. :param facts: that all its models ranked; :param left_out: those that not all did.
    :param average: of Acc@1, Acc@5, Acc@10 over the models."""

    data: str
    reading: str
    facts: int
    left_out: int
    scores: list[Score]
    average: tuple[float, ...]


class Estimate(NamedTuple):
    value: float
    low: float
    high: float


class Agreement(NamedTuple):
    """Of the template-based with the template-free ranking. :param over: a data set, or their mean."""

    over: str
    group: str
    models: int
    tau: Estimate
    rho: Estimate


class Rankings(NamedTuple):
    """:param groups: model → its group; empty where none were given."""

    columns: list[Column]
    agreements: list[Agreement]
    groups: Mapping[str, str]


class _Grid(NamedTuple):
    """A column as arrays. :param hits: [facts, models, 3]."""

    data: str
    reading: str
    models: list[str]
    facts: list[str]
    relations: list[str]
    hits: Floats
    left_out: int


def rankings(runs: Sequence[RunFolder], scorings: Sequence[str] = (), groups: Path | None = None) -> Rankings:
    """:param groups: file that says of each model to which group it belongs, see :func:`read_groups`.
    :raises BadInput: fewer than two models, no common facts, other candidates, a model without a group."""
    outcomes = outcomes_of(runs, scorings)
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    if len(models) < 2:
        raise BadInput(f"a ranking needs runs of two models or more, found {models[0]} alone")
    found = {} if groups is None else read_groups(groups, {o.model: o.full_name for o in outcomes})
    grids = [
        _grid(data, reading, {model: of_model[model] for model in models if model in of_model})
        for (data, reading), of_model in by_column(outcomes).items()
    ]
    columns = [_column(grid) for grid in grids]
    for reading in READINGS:
        columns += _averaged([grid for grid in grids if grid.reading == reading], reading)
    return Rankings(columns, _agreements(grids, models, found), found)


def read_groups(file: Path, models: Mapping[str, str]) -> dict[str, str]:
    """The group of each model.

    :param file: JSON, ``{"model": "group"}``; or CSV with the header ``model,group``.
    :param models: short name → full name; the file may use either.
    :raises BadInput: the file cannot be read so, or lacks a model.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--groups {file}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    listed = _listed_as_json(file, text) if text.lstrip().startswith(("{", "[")) else _listed_as_csv(file, text)
    faults = [
        f"--groups {file}: model {short} has no group; the file names {', '.join(listed) or 'none'}"
        for short, full in models.items()
        if short not in listed and full not in listed
    ]
    if faults:
        raise BadInput(faults)
    return {short: listed[short] if short in listed else listed[full] for short, full in models.items()}


def _listed_as_json(file: Path, text: str) -> dict[str, str]:
    try:
        found: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"--groups {file}:{error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(found, dict) or not all(isinstance(group, str) for group in found.values()):
        raise BadInput(f'--groups {file}: expected {{"model": "group", …}}')
    return found


def _listed_as_csv(file: Path, text: str) -> dict[str, str]:
    header, *lines = list(csv.reader(text.splitlines())) or [[]]
    if [name.strip() for name in header] != ["model", "group"]:
        raise BadInput(f"--groups {file}:1: expected the header model,group, found {','.join(header)!r}")
    faults = [
        f"--groups {file}:{number}: expected a model and its group, found {','.join(line)!r}"
        for number, line in enumerate(lines, start=2)
        if line and (len(line) != 2 or not all(cell.strip() for cell in line))
    ]
    if faults:
        raise BadInput(faults)
    return {line[0].strip(): line[1].strip() for line in lines if line}


def _grid(data: str, reading: str, outcomes: Mapping[str, Any]) -> _Grid:
    """:param outcomes: model → :class:`Outcome`."""
    facts = common_facts(list(outcomes.values()))
    first = next(iter(outcomes.values()))
    asked = set().union(*(set(outcome.facts.tolist()) for outcome in outcomes.values()))
    hits = np.stack([hits_of(outcome, facts) for outcome in outcomes.values()], axis=1)
    return _Grid(data, reading, list(outcomes), facts, relations_of(first, facts), hits, len(asked) - len(facts))


def _column(grid: _Grid) -> Column:
    means = grid.hits.mean(axis=0)
    scores = [
        Score(
            model, place, tuple(interval(grid.hits[:, number, k], grid.relations, limits=(0.0, 1.0)) for k in range(3))
        )
        for number, (model, place) in enumerate(zip(grid.models, places(means).tolist(), strict=True))
    ]
    average = tuple(means.mean(axis=0).tolist())
    return Column(grid.data, grid.reading, len(grid.facts), grid.left_out, scores, average)


def _averaged(grids: Sequence[_Grid], reading: str) -> list[Column]:
    """Models by the mean over data sets, without intervals; none where there is one data set, or no model in all."""
    models = _in_all(grids)
    if len(grids) < 2 or len(models) < 2:
        return []
    means = _mean([_of(models, grid, grid.hits.mean(axis=0)) for grid in grids])
    nan = float("nan")
    scores = [
        Score(model, place, tuple(Interval(float(value), nan, nan, len(grids)) for value in means[number]))
        for number, (model, place) in enumerate(zip(models, places(means).tolist(), strict=True))
    ]
    facts, left_out = sum(len(grid.facts) for grid in grids), sum(grid.left_out for grid in grids)
    return [Column(MEAN, reading, facts, left_out, scores, tuple(means.mean(axis=0).tolist()))]


def _agreements(grids: Sequence[_Grid], models: Sequence[str], groups: Mapping[str, str]) -> list[Agreement]:
    """Of each data set that has both readings, and of the means over all data sets of each reading."""
    based, free = ([grid for grid in grids if grid.reading == reading] for reading in (BY_TEMPLATE, FREE))
    pairs = [(one.data, [one], [other]) for one in based for other in free if one.data == other.data]
    if (len(based) > 1 or len(free) > 1 or not pairs) and based and free:
        pairs.append((MEAN, based, free))
    resampled = _resampled([*based, *free]) if pairs else {}
    found = []
    for over, one, other in pairs:
        both = [model for model in _in_all([*one, *other]) if model in models]
        found += [
            _agreement(over, group, chosen, one, other, resampled)
            for group, chosen in _grouped(both, groups)
            if len(chosen) > 1
        ]
    return found


def _grouped(models: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(groups[model] for model in models) if groups else {}
    return [(EVERY_MODEL, list(models)), *((n, [model for model in models if groups[model] == n]) for n in names)]


def _agreement(
    over: str,
    group: str,
    models: list[str],
    based: Sequence[_Grid],
    free: Sequence[_Grid],
    resampled: Mapping[tuple[str, str], Floats],
) -> Agreement:
    estimates, draws = [], []
    for side in (based, free):
        estimates.append(places(_mean([_of(models, grid, grid.hits.mean(axis=0)) for grid in side])))
        draws.append(places(_mean([_of(models, grid, resampled[grid.data, grid.reading]) for grid in side])))
    return Agreement(
        over, group, len(models), _estimate(kendall, estimates, draws), _estimate(spearman, estimates, draws)
    )


def _estimate(function: Callable[..., Floats], estimates: Sequence[Floats], draws: Sequence[Floats]) -> Estimate:
    """With the 95 % interval of the resamples in which neither side is tied throughout."""
    value, others = float(function(*estimates)), function(*draws)
    others = others[~np.isnan(others)]
    if np.isnan(value) or not len(others):
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(others, [0.025, 0.975]).tolist()
    return Estimate(value, min(low, value), max(high, value))


def _resampled(grids: Sequence[_Grid]) -> dict[tuple[str, str], Floats]:
    """Mean hits of each column in each resample, [resamples, models, 3]; both readings of a fact are drawn together."""
    generator = np.random.default_rng(0)
    found = {}
    for data in dict.fromkeys(grid.data for grid in grids):
        own = [grid for grid in grids if grid.data == data]
        number = {fact: place for place, fact in enumerate(sorted({fact for grid in own for fact in grid.facts}))}
        at = [[number[fact] for fact in grid.facts] for grid in own]
        means: list[list[Floats]] = [[] for _ in own]
        for _ in range(0, _RESAMPLES, _BLOCK):
            drawn = generator.integers(len(number), size=(_BLOCK, len(number)))
            counts = np.stack([np.bincount(line, minlength=len(number)) for line in drawn]).astype(float)
            for place, grid in enumerate(own):
                weights = counts[:, at[place]]
                sums = weights @ grid.hits.reshape(len(grid.facts), -1)
                # None of a reading's few facts drawn: all models are tied, and the resample tells nothing.
                mean = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
                means[place].append(mean.reshape(_BLOCK, len(grid.models), len(CUTS)))
        for grid, blocks in zip(own, means, strict=True):
            found[grid.data, grid.reading] = np.concatenate(blocks)
    return found


def _in_all(grids: Sequence[_Grid]) -> list[str]:
    return [model for model in (grids[0].models if grids else []) if all(model in grid.models for grid in grids)]


def _of(models: Sequence[str], grid: _Grid, values: Floats) -> Floats:
    """Those of *models*, from an array [..., models, 3] of the column's."""
    return values[..., [grid.models.index(model) for model in models], :]


def _mean(columns: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(np.stack(columns), axis=0))

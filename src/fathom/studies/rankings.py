"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
All models of a column are compared on the facts that all of them ranked, and the two readings of a data set on those
that all ranked in both, unless each is to have its own; the others are counted and listed. Two rankings are compared by
Kendall's tau-b and Spearman's rho, with percentile intervals under resampling of what was drawn: how much the agreement
depends on which relations or facts were asked, the models being those that were chosen. Within groups of models each
step to the next larger one is a paired difference, per reading (section 4: does size help in both?).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.metrics.correlation import kendall, spearman
from fathom.metrics.ranking import places
from fathom.metrics.uncertainty import Interval
from fathom.reading import NotData, Unreadable, json_value, located, read_text
from fathom.results.numbers import Number, combined, number_of, untold
from fathom.results.outcomes import BY_TEMPLATE, CUTS, FREE, READINGS, Outcome, by_column, outcomes_of
from fathom.results.pairs import ACCURACIES, verdict_of
from fathom.results.plots import Plot
from fathom.results.rows import Floats, grouped
from fathom.results.samples import Sample, drawn
from fathom.results.sides import common_facts, difference
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.studies.templates import OVER_MODELS

EVERY_MODEL = "all models"
MEAN = "mean over data sets"
OVER_DATA = "no interval: a mean over data sets, which were chosen"
_RESAMPLES, _BLOCK = 1000, 50
_COEFFICIENTS = ("Kendall's tau-b", "Spearman's rho")
_SHORT = {BY_TEMPLATE: "TB", FREE: "TF"}


class PlacedModel(NamedTuple):
    """One model.

    :param place: 1 is the best; tied models share the mean of theirs.
    :param hits: Acc@1, Acc@5, Acc@10.
    :param scoring: by which it was asked; "" for a mean over data sets.
    """

    model: str
    place: float
    hits: tuple[Number, ...]
    scoring: str = ""


class Column(NamedTuple):
    """One data set in one reading.

    :param facts: that all its models ranked.
    :param left_out: those that were asked, and are not among them.
    :param average: of Acc@1, Acc@5, Acc@10 over the models.
    """

    data: str
    reading: str
    facts: int
    left_out: int
    scores: list[PlacedModel]
    average: tuple[Number, ...]


class RankingAgreement(NamedTuple):
    """Of the template-based with the template-free ranking. :param over: a data set, or their mean."""

    over: str
    group: str
    models: int
    tau: Number
    rho: Number


class LeftOut(NamedTuple):
    """A fact that was asked and is not compared. :param why: the first reason found."""

    data: str
    reading: str
    fact: str
    why: str


class Step(NamedTuple):
    """From a model to the next larger one of its group, on one data set in one reading.

    :param difference: of Acc@1, larger − smaller, paired by fact.
    """

    data: str
    reading: str
    group: str
    smaller: str
    larger: str
    difference: Number

    @property
    def verdict(self) -> str | None:
        """Whether the larger is better (rise), worse (drop), or whether these facts cannot tell (tie)."""
        return verdict_of(self.difference)


class Rankings(NamedTuple):
    """:param groups: model → its group; empty where none were given.
    :param left_out: facts that were asked and are not compared.
    :param steps: from each size to the next within each group.
    """

    columns: list[Column]
    agreements: list[RankingAgreement]
    groups: Mapping[str, str]
    left_out: list[LeftOut]
    steps: list[Step]


class _ColumnHits(NamedTuple):
    """A column as arrays. :param hits: [facts, models, 3]."""

    data: str
    reading: str
    outcomes: dict[str, Outcome]
    facts: Sequence[str]
    hits: Floats
    left_out: int

    @property
    def models(self) -> list[str]:
        return list(self.outcomes)

    def recipe(self, name: str, sign: str = " and ") -> str:
        """Of a number of all its models."""
        return combined(name, [outcome.recipe("") for outcome in self.outcomes.values()], sign)


def ask(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    cluster: str = "",
    groups: Path | None = None,
    facts: Literal["common", "own"] = "common",
) -> Rankings:
    """:param groups: file that says of each model to which group it belongs, see :func:`read_groups`.
    :param facts: of data in both readings, whether both are compared on the facts that all ranked in both.
    :raises BadInput: fewer than two models, no common facts, other candidates, a model without a group."""
    outcomes = outcomes_of(runs, scoring, cluster)
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    if len(models) < 2:
        raise BadInput(f"a ranking needs runs of two models or more, found {models[0]} alone")
    found = {} if groups is None else read_groups(groups, {o.model: o.full_name for o in outcomes})
    grids = [
        _grid(data, reading, {model: of_model[model] for model in models if model in of_model})
        for (data, reading), of_model in by_column(outcomes).items()
    ]
    if facts == "common":
        grids = _on_common_facts(grids)
    columns = [_column(grid) for grid in grids]
    for reading in READINGS:
        columns += _averaged([grid for grid in grids if grid.reading == reading], reading)
    left_out = [one for grid in grids for one in _left_out(grid)]
    return Rankings(columns, _agreements(grids, found), found, left_out, _steps(grids, found))


def read_groups(file: Path, models: Mapping[str, str]) -> dict[str, str]:
    """The group of each model.

    :param file: JSON, ``{"model": "group"}``; or CSV with the header ``model,group``.
    :param models: short name → full name; the file may use either.
    :raises BadInput: the file cannot be read so, or lacks a model.
    """
    try:
        text = read_text(file)
    except Unreadable as error:
        raise BadInput(f"--groups {error}") from error
    listed = _listed_as_json(file, text) if text.lstrip().startswith(("{", "[")) else _listed_as_csv(file, text)
    refuse(
        f"--groups {file}: model {short} has no group; the file names {', '.join(listed) or 'none'}"
        for short, full in models.items()
        if short not in listed and full not in listed
    )
    return {short: listed[short] if short in listed else listed[full] for short, full in models.items()}


def _listed_as_json(file: Path, text: str) -> dict[str, str]:
    try:
        found: Any = json_value(text)
    except NotData as error:
        raise BadInput(f"--groups {located(file, error.line, error.why)}") from error
    if not isinstance(found, dict) or not all(isinstance(group, str) for group in found.values()):
        raise BadInput(f'--groups {file}: expected {{"model": "group", …}}')
    return found


def _listed_as_csv(file: Path, text: str) -> dict[str, str]:
    try:
        header, *lines = list(csv.reader(text.splitlines())) or [[]]
    except csv.Error as error:
        raise BadInput(f"--groups {file}: not CSV: {error}") from error
    if [name.strip() for name in header] != ["model", "group"]:
        raise BadInput(f"--groups {file}:1: expected the header model,group, found {','.join(header)!r}")
    refuse(
        f"--groups {file}:{number}: expected a model and its group, found {','.join(line)!r}"
        for number, line in enumerate(lines, start=2)
        if line and (len(line) != 2 or not all(cell.strip() for cell in line))
    )
    return {line[0].strip(): line[1].strip() for line in lines if line}


def _grid(data: str, reading: str, outcomes: dict[str, Outcome]) -> _ColumnHits:
    """:param outcomes: by model."""
    facts = common_facts(list(outcomes.values()))
    asked = set().union(*(outcome.facts for outcome in outcomes.values()))
    hits = [np.stack([outcome.hits(k)[outcome.at(facts)] for k in CUTS], axis=-1) for outcome in outcomes.values()]
    return _ColumnHits(data, reading, outcomes, facts, np.stack(hits, axis=1), len(asked) - len(facts))


def _on_common_facts(grids: Sequence[_ColumnHits]) -> list[_ColumnHits]:
    """Both readings of a data set on the facts that all their models ranked.

    :raises BadInput: there is none.
    """
    found = []
    for grid in grids:
        every = [set(other.facts) for other in grids if other.data == grid.data]
        at = [place for place, fact in enumerate(grid.facts) if all(fact in own for own in every)]
        if not at:
            raise BadInput(
                f"the readings of {grid.data} have no fact in common that all models ranked: --facts own ranks each on "
                "its own"
            )
        facts = [grid.facts[place] for place in at]
        found.append(grid._replace(facts=facts, hits=grid.hits[at], left_out=grid.left_out + len(grid.facts) - len(at)))
    return found


def _left_out(grid: _ColumnHits) -> list[LeftOut]:
    """Each fact that a model of the column was asked, and why it is not compared."""
    compared, why = set(grid.facts), dict[str, str]()
    for model, outcome in grid.outcomes.items():
        for fact in outcome.facts:
            if fact not in compared:
                reason = outcome.left_out.get(fact)
                why.setdefault(fact, f"{model}: {reason}" if reason else "")
                why[fact] = why[fact] or (f"{model}: {reason}" if reason else "")
    return [
        LeftOut(grid.data, grid.reading, fact, reason or "not asked, or not ranked, of all models in both readings")
        for fact, reason in why.items()
    ]


def _steps(grids: Sequence[_ColumnHits], groups: Mapping[str, str]) -> list[Step]:
    """Within groups, models in order of their parameters; those of which the run does not say are passed over."""
    found = []
    for grid, group in product(grids, dict.fromkeys(groups.values())):
        sized = [
            (size, model)
            for model, outcome in grid.outcomes.items()
            if groups[model] == group and (size := outcome.parameters) is not None
        ]
        for (least, smaller), (most, larger) in pairwise(sorted(sized)):
            if least < most:
                one, other = grid.outcomes[larger], grid.outcomes[smaller]
                hits = [one.hits(1), other.hits(1)]
                number = difference(ACCURACIES[0], [(1, one), (-1, other)], hits, list(grid.facts))
                found.append(Step(grid.data, grid.reading, group, smaller, larger, number))
    return found


def _column(grid: _ColumnHits) -> Column:
    means = grid.hits.mean(axis=0)
    scores = [
        PlacedModel(
            model,
            place,
            tuple(outcome.mean(name, outcome.hits(k), grid.facts) for name, k in zip(ACCURACIES, CUTS, strict=True)),
            f"{outcome.probe} {outcome.scoring}",
        )
        for (model, outcome), place in zip(grid.outcomes.items(), places(means).tolist(), strict=True)
    ]
    average = _mean_of(means, OVER_MODELS, [grid.recipe("")])
    return Column(grid.data, grid.reading, len(grid.facts), grid.left_out, scores, average)


def _mean_of(hits: Floats, why: str, recipes: Sequence[str]) -> tuple[Number, ...]:
    """Over models, or data sets. :param hits: [models or data sets, 3]. :param why: there is no interval."""
    return tuple(
        untold(why, combined(name, recipes, " and "), value, len(hits))
        for name, value in zip(ACCURACIES, hits.mean(axis=0).tolist(), strict=True)
    )


def _averaged(grids: Sequence[_ColumnHits], reading: str) -> list[Column]:
    """Models by the mean over data sets, without intervals; none where there is one data set, or no model in all."""
    models = _in_all(grids)
    if len(grids) < 2 or len(models) < 2:
        return []
    hits = np.stack([_of(models, grid, grid.hits.mean(axis=0)) for grid in grids])
    means = hits.mean(axis=0)
    scores = [
        PlacedModel(
            model, place, _mean_of(hits[:, number], OVER_DATA, [grid.outcomes[model].recipe("") for grid in grids])
        )
        for number, (model, place) in enumerate(zip(models, places(means).tolist(), strict=True))
    ]
    facts, left_out = sum(len(grid.facts) for grid in grids), sum(grid.left_out for grid in grids)
    average = _mean_of(means, OVER_MODELS, [grid.recipe("") for grid in grids])
    return [Column(MEAN, reading, facts, left_out, scores, average)]


def _agreements(grids: Sequence[_ColumnHits], groups: Mapping[str, str]) -> list[RankingAgreement]:
    """Of each data set that has both readings, and of the means over all data sets of each reading."""
    based, free = ([grid for grid in grids if grid.reading == reading] for reading in (BY_TEMPLATE, FREE))
    pairs = [(one.data, [one], [other]) for one in based for other in free if one.data == other.data]
    if (len(based) > 1 or len(free) > 1 or not pairs) and based and free:
        pairs.append((MEAN, based, free))
    resampled = _resampled([*based, *free]) if pairs else {}
    return [
        _agreement(over, group, models, one, other, resampled)
        for over, one, other in pairs
        for group, models in _grouped(_in_all([*one, *other]), groups)
        if len(models) > 1
    ]


def _grouped(models: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(groups[model] for model in models) if groups else {}
    return [(EVERY_MODEL, list(models)), *((n, [model for model in models if groups[model] == n]) for n in names)]


def _agreement(
    over: str,
    group: str,
    models: list[str],
    based: Sequence[_ColumnHits],
    free: Sequence[_ColumnHits],
    resampled: Mapping[tuple[str, str], Floats],
) -> RankingAgreement:
    sides, sample = (based, free), _drawn([*based, *free])[0]
    estimates = [_places(models, [(grid, grid.hits.mean(axis=0)) for grid in side]) for side in sides]
    draws = [_places(models, [(grid, resampled[grid.data, grid.reading]) for grid in side]) for side in sides]
    recipes = [grid.recipe("") for grid in (*based, *free)]
    tau, rho = (
        _estimate(function, estimates, draws, combined(name, recipes, " and "), sample)
        for name, function in zip(_COEFFICIENTS, (kendall, spearman), strict=True)
    )
    return RankingAgreement(over, group, len(models), tau, rho)


def _estimate(
    function: Callable[..., Floats], estimates: Sequence[Floats], draws: Sequence[Floats], made: str, sample: Sample
) -> Number:
    """With the 95 % interval of the resamples in which neither side is tied throughout."""
    value, others = float(function(*estimates)), function(*draws)
    others = others[~np.isnan(others)]
    if np.isnan(value) or not len(others):
        return untold("all models are tied on one side", made, value)
    low, high = np.quantile(others, [0.025, 0.975]).tolist()
    found = Interval(value, min(low, value), max(high, value), len(others), float("nan"))
    return number_of(found, estimates[0].size, made, sample)


def _resampled(grids: Sequence[_ColumnHits]) -> dict[tuple[str, str], Floats]:
    """Mean hits of each column in each resample, [resamples, models, 3]; both readings of a fact are drawn together."""
    generator = np.random.default_rng(0)
    found = {}
    for data in dict.fromkeys(grid.data for grid in grids):
        own = [grid for grid in grids if grid.data == data]
        sample, number = _drawn(own)
        at = [[number[fact] for fact in grid.facts] for grid in own]
        means: list[list[Floats]] = [[] for _ in own]
        for _ in range(0, _RESAMPLES, _BLOCK):
            counts = _counts(sample, len(number), generator)
            for place, grid in enumerate(own):
                weights = counts[:, at[place]]
                sums = weights @ grid.hits.reshape(len(grid.facts), -1)
                # None of a reading's few facts drawn: all models are tied, and the resample tells nothing.
                mean = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
                means[place].append(mean.reshape(_BLOCK, len(grid.models), len(CUTS)))
        for grid, blocks in zip(own, means, strict=True):
            found[grid.data, grid.reading] = np.concatenate(blocks)
    return found


def _drawn(grids: Sequence[_ColumnHits]) -> tuple[Sample, dict[str, int]]:
    """How the facts of all *grids* were drawn, and the place of each among them."""
    asked = {fact: next(iter(grid.outcomes.values())) for grid in grids for fact in grid.facts}
    facts = sorted(asked)
    relations = [relation for fact in facts for relation in asked[fact].relations_of([fact])]
    key = grids[0].outcomes[grids[0].models[0]].rows.cluster
    labels = (asked[fact].cluster_label(fact) for fact in facts)
    return drawn(key, relations, labels), {fact: place for place, fact in enumerate(facts)}


def _counts(sample: Sample, facts: int, generator: np.random.Generator) -> Floats:
    """How often each fact is drawn in each resample of a block: whole clusters, or facts within their groups."""
    if sample.clusters is not None:
        names, unit = np.unique(np.asarray(sample.clusters), return_inverse=True)
        times = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_BLOCK)
        return times[:, unit].astype(float)
    counts = np.zeros((_BLOCK, facts))
    for own in grouped(zip(sample.within or [""] * facts, range(facts), strict=True)).values():
        counts[:, own] = generator.multinomial(len(own), np.full(len(own), 1 / len(own)), size=_BLOCK)
    return counts


def _in_all(grids: Sequence[_ColumnHits]) -> list[str]:
    return [model for model in (grids[0].models if grids else []) if all(model in grid.models for grid in grids)]


def _of(models: Sequence[str], grid: _ColumnHits, values: Floats) -> Floats:
    """Those of *models*, from an array [..., models, 3] of the column's."""
    return values[..., [grid.models.index(model) for model in models], :]


def _places(models: Sequence[str], columns: Sequence[tuple[_ColumnHits, Floats]]) -> Floats:
    """By the mean over columns. :param columns: each with values [..., models, 3]."""
    return places(np.mean([_of(models, grid, values) for grid, values in columns], axis=0))


def tables(found: Rankings) -> list[Table]:
    """Places side by side; each column with its numbers; and how well the two readings agree."""
    columns = [(f"{column.data}, {column.reading}", column) for column in found.columns]
    models = list(dict.fromkeys(score.model for column in found.columns for score in column.scores))
    placed = [{score.model: score.place for score in column.scores} for column in found.columns]
    return [
        Table(
            ("model", *(("group",) if found.groups else ()), *(title for title, _ in columns)),
            tuple((*_named(model, found), *(of_model.get(model) for of_model in placed)) for model in models),
            "places, 1 is the best",
            notes=("by Acc@1, ties by Acc@5 and then Acc@10; the tied share a mean place", "places have no interval"),
        ),
        *(_column_table(title, column, found) for title, column in columns),
        _agreement_table(found),
        *([_steps_table(found.steps)] if found.steps else []),
    ]


def files(found: Rankings) -> dict[str, Table]:
    """The facts that were asked and are not compared."""
    if not found.left_out:
        return {}
    return {"rankings-left-out": Table(LeftOut._fields, tuple(found.left_out), "facts that are not compared")}


def _steps_table(steps: Sequence[Step]) -> Table:
    counted = Counter((step.reading, step.verdict) for step in steps)
    readings = dict.fromkeys(step.reading for step in steps)
    said = (
        f"{reading}: " + ", ".join(f"{counted[reading, name]} {name}" for name in ("rise", "drop", "tie"))
        for reading in readings
    )
    return Table.of_numbers(
        ("data", "reading", "group", "from", "to", "difference", "verdict"),
        [(*step, step.verdict) for step in steps],
        "from each size to the next within a group, Acc@1",
        {"difference": ("low", "high", "p")},
        {"difference": "+.1%"},
        ("paired by fact; rise, drop: the 95 % interval does not hold 0; tie: these facts cannot tell", *said),
    )


def _named(model: str, found: Rankings) -> tuple[Cell, ...]:
    return (model, found.groups[model]) if found.groups else (model,)


def _column_table(title: str, column: Column, found: Rankings) -> Table:
    scores = sorted(column.scores, key=lambda score: (score.place, score.model))
    left_out = _said_left_out(column, found.left_out)
    return Table.of_numbers(
        ("place", "model", *(("group",) if found.groups else ()), *ACCURACIES),
        [
            *((score.place, *_named(score.model, found), *score.hits) for score in scores),
            (None, "average", *((None,) if found.groups else ()), *column.average),
        ],
        title,
        {f"Acc@{k}": (f"low@{k}", f"high@{k}") for k in CUTS},
        dict.fromkeys(ACCURACIES, ".1%"),
        [f"{column.facts:,} facts that all models ranked", *left_out, *_asked_differently(column)],
    )


def _said_left_out(column: Column, left_out: Sequence[LeftOut]) -> list[str]:
    own = [one.fact for one in left_out if (one.data, one.reading) == (column.data, column.reading)]
    named = f": {', '.join(own[:3])}{', …' if len(own) > 3 else ''} (rankings-left-out.csv)" if own else ""
    return [f"{column.left_out:,} facts that not all models ranked are left out{named}"] if column.left_out else []


def _asked_differently(column: Column) -> list[str]:
    """Which models were asked by which probe and scoring, where these differ: places then tell of both."""
    models = grouped((score.scoring, score.model) for score in column.scores)
    if len(models) < 2:
        return []
    said = "; ".join(f"{scoring}: {', '.join(own)}" for scoring, own in models.items())
    return [f"asked in different ways, which the places cannot tell from the models: {said}"]


def _agreement_table(found: Rankings) -> Table:
    notes = ["low, high: 95 % of 1,000 resamples, the models as they are"]
    if not found.agreements:
        notes = ["no model ranking has both readings: add runs with --reading template-based and template-free"]
    tau, rho = _COEFFICIENTS
    return Table.of_numbers(
        ("over", "group", "models", tau, rho),
        found.agreements,
        "template-based and template-free rankings",
        {tau: ("tau low", "tau high"), rho: ("rho low", "rho high")},
        dict.fromkeys(_COEFFICIENTS, ".3f"),
        notes,
    )


def plots(found: Rankings) -> list[Plot]:
    """A line for each model through its places on the columns (a bump chart)."""

    def draw(axes: Any) -> None:
        placed = [{score.model: score.place for score in column.scores} for column in found.columns]
        models = list(dict.fromkeys(model for of_model in placed for model in of_model))
        for model in models:
            there = [(number, of_model[model]) for number, of_model in enumerate(placed) if model in of_model]
            axes.plot(*zip(*there, strict=True), marker="o", label=model)
            axes.annotate(model, there[-1], xytext=(8, 0), textcoords="offset points", va="center", fontsize=7)
        labels = [f"{column.data}\n{_SHORT.get(column.reading, column.reading)}" for column in found.columns]
        axes.set_xticks(range(len(labels)), labels, fontsize=7)
        axes.set_yticks(range(1, len(models) + 1))
        axes.invert_yaxis()
        axes.margins(x=0.2)

    return [Plot("rankings", draw, "data set and reading (TB: template-based, TF: template-free)", "place")]

"""A data set in one reading: on which facts its models are compared, and their places there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.ranking import places
from fathom.results.baselines import Compared, RunBaselines
from fathom.results.claims import Decision
from fathom.results.estimates import OVER_MODELS, Estimate, combined, untold
from fathom.results.facts import ACCURACIES, CUTS, RunFacts
from fathom.results.pairing import common_facts
from fathom.results.rows import Floats

MEAN = "mean over data sets"
OVER_DATA = "no interval: a mean over data sets, which were chosen"


class PlacedModel(NamedTuple):
    """One model.

    :param place: 1 is the best; tied models share the mean of theirs.
    :param hits: Acc@1, Acc@5, Acc@10.
    :param scoring: by which it was asked; "" for a mean over data sets.
    :param baseline: the strongest, on the facts of the column; None for a mean over data sets.
    :param decision: whether Acc@1 is above every baseline.
    """

    model: str
    place: float
    hits: tuple[Estimate, ...]
    scoring: str = ""
    baseline: Compared | None = None
    decision: Decision | None = None


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
    average: tuple[Estimate, ...]


class LeftOut(NamedTuple):
    """A fact that was asked and is not compared. :param why: the first reason found."""

    data: str
    reading: str
    fact: str
    why: str


class ColumnHits(NamedTuple):
    """A column as arrays. :param hits: [facts, models, 3]. :param baselines: of each model."""

    data: str
    reading: str
    outcomes: dict[str, RunFacts]
    facts: Sequence[str]
    hits: Floats
    left_out: int
    baselines: Mapping[str, RunBaselines]

    @property
    def models(self) -> list[str]:
        return list(self.outcomes)

    def recipe(self, name: str, sign: str = " and ") -> str:
        """Of a number of all its models."""
        return combined(name, [outcome.recipe("") for outcome in self.outcomes.values()], sign)


def column_hits(data: str, reading: str, outcomes: dict[str, RunFacts]) -> ColumnHits:
    """On the facts that all ranked. :param outcomes: by model. :raises BadInput: none, or other candidates."""
    facts = common_facts(list(outcomes.values()))
    asked = set().union(*(outcome.facts for outcome in outcomes.values()))
    hits = [np.stack([outcome.hits(k)[outcome.at(facts)] for k in CUTS], axis=-1) for outcome in outcomes.values()]
    baselines = {model: RunBaselines(outcome) for model, outcome in outcomes.items()}
    return ColumnHits(data, reading, outcomes, facts, np.stack(hits, axis=1), len(asked) - len(facts), baselines)


def on_common_facts(grids: Sequence[ColumnHits]) -> list[ColumnHits]:
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


def left_out_of(grid: ColumnHits) -> list[LeftOut]:
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


def ranked(grid: ColumnHits) -> Column:
    """The places of its models, with their numbers."""
    means = grid.hits.mean(axis=0)
    scores = [
        PlacedModel(
            model,
            place,
            tuple(outcome.mean(name, outcome.hits(k), grid.facts) for name, k in zip(ACCURACIES, CUTS, strict=True)),
            f"{outcome.probe} {outcome.scoring}",
            grid.baselines[model].strongest(1, grid.facts),
        )
        for (model, outcome), place in zip(grid.outcomes.items(), places(means).tolist(), strict=True)
    ]
    average = _mean_of(means, OVER_MODELS, [grid.recipe("")])
    return Column(grid.data, grid.reading, len(grid.facts), grid.left_out, scores, average)


def _mean_of(hits: Floats, why: str, recipes: Sequence[str]) -> tuple[Estimate, ...]:
    """Over models, or data sets. :param hits: [models or data sets, 3]. :param why: there is no interval."""
    return tuple(
        untold(why, combined(name, recipes, " and "), value, len(hits), ".1%")
        for name, value in zip(ACCURACIES, hits.mean(axis=0).tolist(), strict=True)
    )


def averaged(grids: Sequence[ColumnHits], reading: str) -> list[Column]:
    """Models by the mean over data sets, without intervals; none where there is one data set, or no model in all."""
    models = in_all(grids)
    if len(grids) < 2 or len(models) < 2:
        return []
    hits = np.stack([values_of(models, grid, grid.hits.mean(axis=0)) for grid in grids])
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


def in_all(grids: Sequence[ColumnHits]) -> list[str]:
    """Models that every column has, in the order of the first."""
    return [model for model in (grids[0].models if grids else []) if all(model in grid.models for grid in grids)]


def values_of(models: Sequence[str], grid: ColumnHits, values: Floats) -> Floats:
    """Those of *models*, from an array [..., models, 3] of the column's."""
    return values[..., [grid.models.index(model) for model in models], :]

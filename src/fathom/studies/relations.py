"""Two data sets on the relations that they share, such as BEAR and LAMA's T-REx (section 5.2, figures 5 and 8 of Wiland
et al. 2024): is one harder, do models lie further apart on it, and are the same relations hard?

Facts, answer spaces and templates differ, so relations are what is paired: a relation's score is the mean Acc@1 of its
facts, a data set's the mean over the shared relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.bootstrap import Difference, Interval, interval, paired_difference
from fathom.metrics.correlation import Correlation, pearson
from fathom.results.outcomes import Outcome, by_column, outcomes_of
from fathom.store.folder import RunFolder


class OfRelation(NamedTuple):
    """:param facts: how many in each data set. :param scores: Acc@1 in each."""

    relation: str
    facts: tuple[int, int]
    scores: tuple[Interval, Interval]


class Shared(NamedTuple):
    """One model. :param scores: mean over the shared relations, in each data set. :param difference: first − second,
    paired by relation. :param correlation: of the relations' scores. :param only: relations of one data set alone."""

    model: str
    scores: tuple[Interval, Interval]
    difference: Difference
    correlation: Correlation
    relations: list[OfRelation]
    only: tuple[int, int]


class SharedRelations(NamedTuple):
    """:param names: of the data sets. :param spread: best minus worst model in each; None for one model."""

    names: tuple[str, str]
    models: list[Shared]
    spread: tuple[float, float] | None


def shared_relations(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> SharedRelations:
    """:param runs: of two data sets, each model with a run of both; the data set of the first run comes first.
    :raises BadInput: other than two data sets, a model with a run of one alone, no relation in common."""
    columns = by_column(outcomes_of(runs, scorings))
    if len(columns) != 2:
        there = ", ".join(f"{data} ({reading})" for data, reading in columns)
        raise BadInput(f"relations are compared between two data sets; these runs are of {len(columns)}: {there}")
    (one, first), (other, second) = columns.items()
    names = (one[0], other[0]) if one[0] != other[0] else (" ".join(one), " ".join(other))
    faults = [
        f"{alone[model].path} is of {model} on {names[number]}, which has no run on {names[1 - number]}: ask for it"
        for number, (alone, partner) in enumerate(((first, second), (second, first)))
        for model in alone.keys() - partner.keys()
    ]
    if faults:
        raise BadInput(sorted(faults))
    models = [_shared(model, first[model], second[model]) for model in first]
    means = np.array([[score.estimate for score in model.scores] for model in models])
    return SharedRelations(names, models, tuple(np.ptp(means, axis=0).tolist()) if len(models) > 1 else None)


def _shared(model: str, first: Outcome, second: Outcome) -> Shared:
    relations = [set(side.ranked.relations.tolist()) - {""} for side in (first, second)]
    both = sorted(relations[0] & relations[1])
    if not both:
        examples = [", ".join(sorted(names)[:3]) or "none" for names in relations]
        raise BadInput(
            f"{first.path} and {second.path} share no relation (there {examples[0]}, here {examples[1]}): "
            "relations are joined by their ids"
        )
    lines = [_of_relation(relation, first, second) for relation in both]
    means = [[line.scores[side].estimate for line in lines] for side in (0, 1)]
    return Shared(
        model,
        (interval(means[0], both, limits=(0.0, 1.0)), interval(means[1], both, limits=(0.0, 1.0))),
        paired_difference(means[0], means[1], both, limits=(-1.0, 1.0)),
        pearson(means[0], means[1]),
        lines,
        (len(relations[0]) - len(both), len(relations[1]) - len(both)),
    )


def _of_relation(relation: str, first: Outcome, second: Outcome) -> OfRelation:
    hits = [side.ranked.hits[side.ranked.relations == relation, 0] for side in (first, second)]
    one, other = (interval(values, [str(place) for place in range(len(values))], limits=(0.0, 1.0)) for values in hits)
    return OfRelation(relation, (len(hits[0]), len(hits[1])), (one, other))

"""Two data sets on the relations that they share, such as BEAR and LAMA's T-REx (section 5.2, figures 5 and 8 of Wiland
et al. 2024): is one harder, do models lie further apart on it, and are the same relations hard?

Facts, answer spaces and templates differ, so relations are what is paired: a relation's score is the mean Acc@1 of its
facts, a data set's the mean over the shared relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate, correlation, difference, mean
from fathom.results.facts import RunFacts
from fathom.results.loading import by_column, outcomes_of
from fathom.results.plots import Plot
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import RELATION, Sample
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


class OfRelation(NamedTuple):
    """One relation of one model.

    :param facts: how many in each data set.
    :param scores: Acc@1 in each.
    """

    relation: str
    facts: tuple[int, int]
    scores: tuple[Estimate, Estimate]


class Shared(NamedTuple):
    """One model.

    :param scores: mean over the shared relations, in each data set.
    :param difference: first − second, paired by relation.
    :param correlation: of the relations' scores.
    :param only: relations of one data set alone.
    """

    model: str
    scores: tuple[Estimate, Estimate]
    difference: Estimate
    correlation: Estimate
    relations: list[OfRelation]
    only: tuple[int, int]


class SharedRelations(NamedTuple):
    """All models.

    :param names: of the data sets.
    :param spread: best minus worst model in each; None for one model.
    """

    names: tuple[str, str]
    models: list[Shared]
    spread: tuple[float, float] | None


def analyse(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> SharedRelations:
    """:param runs: of two data sets, each model with a run of both; the data set of the first run comes first.
    :raises BadInput: other than two data sets, a model with a run of one alone, no relation in common."""
    columns = by_column(outcomes_of(runs, scoring, cluster))
    if len(columns) != 2:
        there = ", ".join(f"{data} ({reading})" for data, reading in columns)
        raise BadInput(f"relations are compared between two data sets; these runs are of {len(columns)}: {there}")
    (one, first), (other, second) = columns.items()
    names = (one[0], other[0]) if one[0] != other[0] else (" ".join(one), " ".join(other))
    refuse(
        sorted(
            f"{alone[model].path} is of {model} on {names[number]}, which has no run on {names[1 - number]}: ask for it"
            for number, (alone, partner) in enumerate(((first, second), (second, first)))
            for model in alone.keys() - partner.keys()
        )
    )
    models = [_shared(model, first[model], second[model]) for model in first]
    means = np.array([[score.value for score in model.scores] for model in models])
    return SharedRelations(names, models, tuple(np.ptp(means, axis=0).tolist()) if len(models) > 1 else None)


def _shared(model: str, first: RunFacts, second: RunFacts) -> Shared:
    relations = [set(side.relations_of(side.scored_facts)) - {""} for side in (first, second)]
    both = sorted(relations[0] & relations[1])
    if not both:
        examples = [", ".join(sorted(names)[:3]) or "none" for names in relations]
        raise BadInput(
            f"{first.path} and {second.path} share no relation (there {examples[0]}, here {examples[1]}): "
            "relations are joined by their ids"
        )
    sides = [_by_relation(side) for side in (first, second)]
    lines = [
        OfRelation(relation, (sides[0][relation].n, sides[1][relation].n), (sides[0][relation], sides[1][relation]))
        for relation in both
    ]
    means = [[line.scores[side].value for line in lines] for side in (0, 1)]
    recipes = [side.recipe("") for side in (first, second)]
    name, drawn = "Acc@1, mean over shared relations", Sample(RELATION, both)
    return Shared(
        model,
        (mean(means[0], drawn, first.recipe(name)), mean(means[1], drawn, second.recipe(name))),
        difference(means[0], means[1], drawn, combined(name, recipes)),
        correlation(means[0], means[1], drawn, combined("correlation of relations' Acc@1", recipes, " and ")),
        lines,
        (len(relations[0]) - len(both), len(relations[1]) - len(both)),
    )


def _by_relation(side: RunFacts) -> dict[str, Estimate]:
    """Acc@1 of each relation's facts, each fact for itself."""
    hits, told = side.hits(1), side.scored_facts
    return {
        relation: mean(hits[side.at(own)], side.sample(own), f"{side.recipe('Acc@1')}|relation:{relation}")
        for relation, own in grouped(zip(side.relations_of(told), told, strict=True)).items()
    }


def conclude(findings: SharedRelations) -> list[str]:
    """On which data set each model is more accurate."""
    name = f"accuracy on {findings.names[0]} minus {findings.names[1]}"
    claims = [Claim(f"{own.model}, {name}", (Contrast(name, own.difference),)) for own in findings.models]
    return sentences(decide(claims))


def tables(findings: SharedRelations) -> list[Table]:
    """Models on the shared relations of both data sets, then every relation."""
    one, other = findings.names
    notes = [
        f"Acc@1, mean over the relations that both have; difference: {one} minus {other}, paired by relation",
        "; ".join(
            f"{count} relations of {name} alone are left out"
            for name, count in zip(findings.names, findings.models[0].only, strict=True)
        ),
    ]
    if findings.spread is not None:
        spreads = zip(findings.names, findings.spread, strict=True)
        notes.append("best minus worst model: " + ", ".join(f"{name} {spread:.1%}" for name, spread in spreads))
    models = [
        {
            "model": own.model,
            "relations": len(own.relations),
            **dict(zip(findings.names, own.scores, strict=True)),
            "difference": own.difference,
            "Pearson r": own.correlation,
        }
        for own in findings.models
    ]
    relations = [
        {
            "model": own.model,
            "relation": part.relation,
            **dict(zip((f"facts {one}", f"facts {other}"), part.facts, strict=True)),
            **dict(zip(findings.names, part.scores, strict=True)),
        }
        for own in findings.models
        for part in own.relations
    ]
    title = f"{one} and {other}"
    return [
        Table.of(models, title, notes, main="difference", inline=True),
        Table.of(relations, "by relation", inline=True),
    ]


def plots(findings: SharedRelations) -> list[Plot]:
    """Every shared relation by its two scores, a colour for each model; on the line both are equal (figure 8)."""

    def draw(axes: Any) -> None:
        for line in findings.models:
            xs, ys = ([part.scores[side].value for part in line.relations] for side in (0, 1))
            axes.scatter(xs, ys, s=12, alpha=0.6, label=line.model)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        axes.legend(fontsize=7)

    return [Plot("relations", draw, *(f"Acc@1 on {name}" for name in findings.names))]

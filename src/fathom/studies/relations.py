"""Is one of two data sets harder, does it separate models better, and are the same relations hard? (Section 5.2,
figures 5 and 8 of Wiland et al. 2024, on BEAR and LAMA's T-REx.)

Facts, answer spaces and templates differ, so relations are paired: a relation's score is the mean Acc@1 of its facts, a
data set's the mean over the shared relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate, correlation, difference, mean
from fathom.results.facts import RunFacts
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import RELATION, Sample
from fathom.results.saving import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions


class RelationScores(NamedTuple):
    """One relation of one model. :param facts: number in each data set. :param scores: Acc@1 in each."""

    relation: str
    facts: tuple[int, int]
    scores: tuple[Estimate, Estimate]


class SharedScores(NamedTuple):
    """One model.

    :param scores: mean over the shared relations, in each data set.
    """

    model: str
    scores: tuple[Estimate, Estimate]
    difference: Estimate
    correlation: Estimate
    relations: list[RelationScores]
    only: tuple[int, int]


class SharedRelations(NamedTuple):
    """:param names: of the data sets. :param spread: best minus worst model in each; None for one model."""

    names: tuple[str, str]
    models: list[SharedScores]
    spread: tuple[float, float] | None


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> SharedRelations:
    """Compare two data sets by the relations that they share.

    :param runs: of two data sets, each model with a run of both; the data set of the first run comes first.
    :raises BadInput: other than two data sets, a model with a run of only one, no relation in common.
    """
    columns = group_by_data(read_all_facts(runs, options.scoring, options.cluster))
    if len(columns) != 2:
        listed = ", ".join(f"{data} ({reading})" for data, reading in columns)
        raise BadInput(f"relations are compared between two data sets; these runs are of {len(columns)}: {listed}")
    (one, first), (other, second) = columns.items()
    names = (one[0], other[0]) if one[0] != other[0] else (" ".join(one), " ".join(other))
    refuse(
        sorted(
            f"{runs_of[model].path} is of {model} on {names[number]}, which has no run on {names[1 - number]}: add one"
            for number, (runs_of, partner) in enumerate(((first, second), (second, first)))
            for model in runs_of.keys() - partner.keys()
        )
    )
    models = [_shared(model, first[model], second[model]) for model in first]
    means = np.array([[score.value for score in model.scores] for model in models])
    return SharedRelations(names, models, tuple(np.ptp(means, axis=0).tolist()) if len(models) > 1 else None)


def _shared(model: str, first: RunFacts, second: RunFacts) -> SharedScores:
    sides = [_by_relation(side) for side in (first, second)]
    relations = [set(scores) - {""} for scores in sides]
    both = sorted(relations[0] & relations[1])
    if not both:
        examples = [", ".join(sorted(names)[:3]) or "none" for names in relations]
        raise BadInput(
            f"{first.path} and {second.path} share no relation (first {examples[0]}, second {examples[1]}): relations "
            "are joined by their ids"
        )
    pairs = [(sides[0][relation], sides[1][relation]) for relation in both]
    lines = [RelationScores(name, (a.n, b.n), (a, b)) for name, (a, b) in zip(both, pairs, strict=True)]
    means = [[scores[side].value for scores in pairs] for side in (0, 1)]
    recipes = [side.recipe("") for side in (first, second)]
    name, sample = "Acc@1, mean over shared relations", Sample(RELATION, both)
    return SharedScores(
        model,
        (mean(means[0], sample, first.recipe(name)), mean(means[1], sample, second.recipe(name))),
        difference(means[0], means[1], sample, combined(name, recipes)),
        correlation(means[0], means[1], sample, combined("correlation of relations' Acc@1", recipes, " and ")),
        lines,
        (len(relations[0]) - len(both), len(relations[1]) - len(both)),
    )


def _by_relation(side: RunFacts) -> dict[str, Estimate]:
    """Return Acc@1 of each relation's facts."""
    hits, facts = side.hits(1), side.scored_facts
    return {
        relation: mean(hits[side.at(own)], side.sample(own), f"{side.recipe('Acc@1')}|relation:{relation}")
        for relation, own in grouped(zip(side.relations_of(facts), facts, strict=True)).items()
    }


def conclude(findings: SharedRelations) -> list[str]:
    name = f"accuracy on {findings.names[0]} minus {findings.names[1]}"
    claims = [Claim(f"{one.model}, {name}", (Contrast(name, one.difference),)) for one in findings.models]
    return sentences(decide(claims))


def tables(findings: SharedRelations) -> list[Table]:
    names = findings.names
    title = " and ".join(names)
    only = (f"{count} relations of only {name}" for name, count in zip(names, findings.models[0].only, strict=True))
    notes = [
        f"Acc@1, mean over the shared relations; difference: {names[0]} minus {names[1]}, paired by relation",
        f"{'; '.join(only)} are excluded",
    ]
    if findings.spread is not None:
        spreads = zip(names, findings.spread, strict=True)
        notes.append("best minus worst model: " + ", ".join(f"{name} {spread:.1%}" for name, spread in spreads))
    models = [(one.model, len(one.relations), *one.scores, one.difference, one.correlation) for one in findings.models]
    relations = [
        (one.model, part.relation, *part.facts, *part.scores) for one in findings.models for part in one.relations
    ]
    columns = ("model", "relations", *names, "difference", "Pearson r")
    of_relation = ("model", "relation", *(f"facts {name}" for name in names), *names)
    return [
        Table.of(models, title, notes, columns=columns, main="difference", inline=True),
        Table.of(relations, "by relation", columns=of_relation, inline=True),
    ]


def plots(findings: SharedRelations) -> list[Plot]:
    """Draw every shared relation by its two scores, a colour for each model (figure 8)."""

    def draw(axes: Any) -> None:
        for line in findings.models:
            xs, ys = ([part.scores[side].value for part in line.relations] for side in (0, 1))
            axes.scatter(xs, ys, s=12, alpha=0.6, label=line.model)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        axes.legend(fontsize=7)

    return [Plot("relations", draw, *(f"Acc@1 on {name}" for name in findings.names))]

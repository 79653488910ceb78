"""Is one of two data sets harder, does it separate models better, and are the same relations hard? (Section 5.2,
figures 5 and 8 of Wiland et al. 2024, on BEAR and LAMA's T-REx.)

Facts, answer spaces and templates differ, so relations are paired: a relation's score is the mean Acc@1 of its facts, a
data set's the mean over the shared relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.results.claims import Claim, Contrast, decide_by_name, sentences
from fathom.results.estimates import Estimate, combined, correlation, difference, mean
from fathom.results.facts import RunFacts
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.rows import grouped
from fathom.results.samples import RELATION, Sample
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions

Row = dict[str, Any]


class SharedRelations(NamedTuple):
    """:param names: of the data sets. :param models: rows of the models on the shared relations of both data sets.
    :param relations: rows of each model's relations. :param only: number of relations of one data set alone.
    :param spread: best minus worst model in each; None for one model.
    """

    names: tuple[str, str]
    models: list[Row]
    relations: list[Row]
    only: tuple[int, int]
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
    (left, first), (right, second) = columns.items()
    names = (left[0], right[0]) if left[0] != right[0] else (" ".join(left), " ".join(right))
    refuse(
        sorted(
            f"{runs_of[model].path} is of {model} on {names[number]}, which has no run on {names[1 - number]}: add one"
            for number, (runs_of, partner) in enumerate(((first, second), (second, first)))
            for model in runs_of.keys() - partner.keys()
        )
    )
    models, relations, only = zip(*(_shared(model, names, first[model], second[model]) for model in first), strict=True)
    spread = [float(np.ptp([row[name].value for row in models])) for name in names]
    every = [row for rows in relations for row in rows]
    return SharedRelations(names, list(models), every, only[0], (spread[0], spread[1]) if len(models) > 1 else None)


def _shared(
    model: str, names: tuple[str, str], first: RunFacts, second: RunFacts
) -> tuple[Row, list[Row], tuple[int, int]]:
    """Return the rows of a model and of its relations, and the number of relations of one data set alone."""
    sides = [_by_relation(side) for side in (first, second)]
    relations = [set(scores) - {""} for scores in sides]
    both = sorted(relations[0] & relations[1])
    if not both:
        examples = [", ".join(sorted(ids)[:3]) or "none" for ids in relations]
        raise BadInput(
            f"{first.path} and {second.path} share no relation (first {examples[0]}, second {examples[1]}): relations "
            "are joined by their ids"
        )
    means = [[scores[relation].value for relation in both] for scores in sides]
    recipes = [side.recipe("") for side in (first, second)]
    title, sample = "Acc@1, mean over shared relations", Sample(RELATION, both)
    related = combined("correlation of relations' Acc@1", recipes, " and ")
    row = {
        "model": model,
        "relations": len(both),
        names[0]: mean(means[0], sample, first.recipe(title)),
        names[1]: mean(means[1], sample, second.recipe(title)),
        "difference": difference(means[0], means[1], sample, combined(title, recipes)),
        "Pearson r": correlation(means[0], means[1], sample, related),
    }
    rows: list[Row] = [
        {"model": model, "relation": relation}
        | {f"facts {name}": side[relation].n for name, side in zip(names, sides, strict=True)}
        | {name: side[relation] for name, side in zip(names, sides, strict=True)}
        for relation in both
    ]
    return row, rows, (len(relations[0]) - len(both), len(relations[1]) - len(both))


def _by_relation(side: RunFacts) -> dict[str, Estimate]:
    """Return Acc@1 of each relation's facts."""
    hits, facts = side.hits(1), side.scored_facts
    return {
        relation: mean(hits[side.at(group)], side.sample(group), f"{side.recipe('Acc@1')}|relation:{relation}")
        for relation, group in grouped(zip(side.relations_of(facts), facts, strict=True)).items()
    }


def conclude(findings: SharedRelations) -> list[str]:
    name = f"accuracy on {findings.names[0]} minus {findings.names[1]}"
    claims = [Claim(f"{row['model']}, {name}", (Contrast(name, row["difference"]),)) for row in findings.models]
    return sentences(decide_by_name(claims).values())


def tables(findings: SharedRelations) -> list[Table]:
    """Return models on the shared relations of both data sets, then every relation."""
    names = findings.names
    only = (f"{count} relations of only {name}" for name, count in zip(names, findings.only, strict=True))
    notes = [
        f"Acc@1, mean over the shared relations; difference: {names[0]} minus {names[1]}, paired by relation",
        f"{'; '.join(only)} are excluded",
    ]
    if findings.spread is not None:
        spreads = zip(names, findings.spread, strict=True)
        notes.append(
            "best minus worst model: " + ", ".join(f"{name} {100 * spread:.1f} points" for name, spread in spreads)
        )
    return [
        Table.of(findings.models, f"shared relations of {' and '.join(names)}", notes, main="difference", inline=True),
        Table.of(findings.relations, "by relation", inline=True),
    ]


def plots(findings: SharedRelations) -> list[Plot]:
    """Draw every shared relation by its two scores, a colour for each model (figure 8)."""

    def draw(axes: Axes) -> None:
        for model, rows in grouped((row["model"], row) for row in findings.relations).items():
            xs, ys = ([row[name].value for row in rows] for name in findings.names)
            axes.scatter(xs, ys, s=12, alpha=0.6, label=model)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        axes.legend(fontsize=7)

    across, up = (f"Acc@1 on {name}" for name in findings.names)
    return [Plot("relations", draw, across, up)]

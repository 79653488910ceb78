"""Do models that predict prompts better answer them better? (Section 5.5 and figure 2 of Shaier et al. 2024.)

The models of one data set and reading are compared on the facts that all of them ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import refuse
from fathom.results.estimates import combined, correlation_over_models, mean_over_models, measure
from fathom.results.facts import RunFacts, common_facts
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.metrics.table import metric
from fathom.results.rows import grouped
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions

ACCURACY = "Acc@1"
Row = dict[str, Any]


class Perplexities(NamedTuple):
    """Rows of the tables.

    :param points: a run each.
    :param means: over the models of each data set and reading.
    :param related: correlations over models of one kind (perplexities of causal and pseudo-perplexities of masked
        models have different scales), or over data sets by the means of such models.
    """

    points: list[Row]
    means: list[Row]
    related: list[Row]


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> Perplexities:
    """Relate accuracy to perplexity, over models and over data sets.

    :raises BadInput: runs without perplexities.
    """
    columns = group_by_data(read_all_facts(runs, options.scoring, options.cluster))
    outcomes = [outcome for models in columns.values() for outcome in models.values()]
    refuse(f"{run.path} has no perplexities: run again with --perplexity" for run in outcomes if not _known(run))
    facts = {about: common_facts([*models.values()], same_candidates=False) for about, models in columns.items()}
    findings = Perplexities([], [], [])
    kinds = list(dict.fromkeys(outcome.attention for outcome in outcomes))
    for kind in kinds:
        suffix = f", {kind or 'kind not recorded'}" if len(kinds) > 1 else ""
        of_kind = (
            [_point(outcome, facts[about]) for outcome in models.values() if outcome.attention == kind]
            for about, models in columns.items()
        )
        cells = list(filter(None, of_kind))
        means = list(map(_mean, cells))
        findings.points.extend(point for cell in cells for point in cell)
        findings.means.extend(means)
        findings.related.extend(_related(f"models{suffix}", cell[0]["data"], cell) for cell in cells)
        by_reading = grouped((point["reading"], point) for point in means)
        findings.related.extend(
            _related(f"data sets{suffix}", f"{len(cell)} data sets", cell) for cell in by_reading.values()
        )
    return findings


def _known(outcome: RunFacts) -> int:
    """Return the number of its prompts with a perplexity."""
    return int((~np.isnan(outcome.rows.prompt_log_prob[outcome.places])).sum())


def _point(run: RunFacts, facts: Sequence[str]) -> Row:
    outcome = run.only(facts)
    prompts = _known(outcome)
    return {
        "model": outcome.model,
        "data": outcome.data,
        "reading": outcome.reading,
        ACCURACY: outcome.mean("accuracy", outcome.hits(1)),
        "perplexity": measure(outcome.rows, metric("perplexity"), outcome.places),
        "corpus perplexity": measure(outcome.rows, metric("corpus_perplexity"), outcome.places),
        "prompts": prompts,
        "left out": len(run.places) - prompts,
    }


def _mean(points: Sequence[Row]) -> Row:
    """Average the models of one data set and reading."""
    averaged = ((ACCURACY, "accuracy"), ("perplexity",) * 2, ("corpus perplexity",) * 2)
    return {
        "model": f"mean of {len(points)} models",
        "data": points[0]["data"],
        "reading": points[0]["reading"],
        **{column: mean_over_models(name, [point[column] for point in points]) for column, name in averaged},
        **{column: sum(point[column] for point in points) for column in ("prompts", "left out")},
    }


def _related(over: str, data: str, points: Sequence[Row]) -> Row:
    """Correlate accuracy and mean perplexity."""
    recipes = [point[name].recipe for point in points for name in (ACCURACY, "perplexity")]
    recipe = combined("correlation of accuracy and perplexity", recipes, " and ")
    perplexities, accuracies = ([point[name].value for point in points] for name in ("perplexity", ACCURACY))
    number = correlation_over_models(perplexities, accuracies, recipe)
    about = {"points are": over, "data": data, "reading": points[0]["reading"]}
    return about | {"Pearson r": number, "n": number.n}


def conclude(findings: Perplexities) -> list[str]:
    return [
        f"Accuracy and perplexity over {row['n']} {row['points are']}, {row['data']}, {row['reading']}: "
        f"r = {row['Pearson r']}."
        for row in findings.related
    ]


def tables(findings: Perplexities) -> list[Table]:
    return [
        Table.of(findings.points, "accuracy and perplexity"),
        Table.of(findings.means, "means over models"),
        Table.of(findings.related, "correlation of Acc@1 and mean perplexity"),
    ]


def plots(findings: Perplexities) -> list[Plot]:
    """Draw every run as a point, and the means of data sets as large points (figure 2)."""

    def draw(axes: Axes) -> None:
        for number, reading in enumerate(dict.fromkeys(point["reading"] for point in findings.points)):
            for points, size, label in (
                (findings.points, 14, reading),
                (findings.means, 80, f"{reading}, data-set means"),
            ):
                of_reading = [point for point in points if point["reading"] == reading]
                xs, ys = ([point[name].value for point in of_reading] for name in ("perplexity", ACCURACY))
                axes.scatter(xs, ys, s=size, color=f"C{number}", alpha=0.6, label=label)
        axes.set_xscale("log")
        axes.legend(fontsize=7)

    return [Plot("perplexity", draw, "perplexity, mean over prompts", ACCURACY)]

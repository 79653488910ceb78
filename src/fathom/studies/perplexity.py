"""Do models that predict prompts better answer them better? (Section 5.5 and figure 2 of Shaier et al. 2024.)

The models of one data set and reading are compared on the facts that all of them ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import refuse
from fathom.metrics.table import metric
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate, correlation, mean_over_models
from fathom.results.facts import RunFacts
from fathom.results.loading import group_by_data, read_all_facts
from fathom.results.measures import measure
from fathom.results.pairing import common_facts
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import Sample
from fathom.results.saving import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions


class RunPoint(NamedTuple):
    """One run.

    :param accuracy: mean Acc@1 of the facts that all models ranked.
    """

    model: str
    data: str
    reading: str
    accuracy: Estimate
    perplexity: Estimate
    corpus: Estimate
    prompts: int
    missing: int


class PerplexityCorrelation(NamedTuple):
    """Correlation of accuracy and mean perplexity.

    :param over: what the points are: models of one kind (perplexities of causal and pseudo-perplexities of masked
        models have different scales), or data sets by the means of such models.
    """

    over: str
    data: str
    reading: str
    correlation: Estimate


class Perplexities(NamedTuple):
    """:param means: over the models of each data set and reading."""

    points: list[RunPoint]
    means: list[RunPoint]
    related: list[PerplexityCorrelation]


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> Perplexities:
    """Relate accuracy to perplexity, over models and over data sets.

    :raises BadInput: runs without perplexities.
    """
    columns = group_by_data(read_all_facts(runs, options.scoring, options.cluster))
    outcomes = [outcome for models in columns.values() for outcome in models.values()]
    refuse(f"{one.path} has no perplexities: run again with --perplexity" for one in outcomes if not _known(one))
    facts = {about: common_facts([*models.values()], same_candidates=False) for about, models in columns.items()}
    points, means, related = [], [], []
    kinds = list(dict.fromkeys(outcome.attention for outcome in outcomes))
    for kind in kinds:
        suffix = f", {kind or 'kind not recorded'}" if len(kinds) > 1 else ""
        of_kind = (
            [_point(one, facts[about]) for one in models.values() if one.attention == kind]
            for about, models in columns.items()
        )
        cells = list(filter(None, of_kind))
        cell_means = [_mean(cell) for cell in cells]
        points += [point for cell in cells for point in cell]
        means += cell_means
        related += [
            PerplexityCorrelation(f"models{suffix}", cell[0].data, cell[0].reading, _correlation(cell))
            for cell in cells
        ]
        related += [
            PerplexityCorrelation(f"data sets{suffix}", f"{len(cell)} data sets", reading, _correlation(cell))
            for reading, cell in grouped((point.reading, point) for point in cell_means).items()
        ]
    return Perplexities(points, means, related)


def _known(outcome: RunFacts) -> int:
    """Return the number of its prompts with a perplexity."""
    return int((~np.isnan(outcome.rows.prompt_log_prob[outcome.places])).sum())


def _point(run: RunFacts, facts: Sequence[str]) -> RunPoint:
    outcome = run.only(facts)
    perplexity, corpus = (
        measure(outcome.rows, metric(name), outcome.places) for name in ("perplexity", "corpus_perplexity")
    )
    assert perplexity is not None  # runs without are refused before
    assert corpus is not None
    known, accuracy = _known(outcome), outcome.mean("accuracy", outcome.hits(1))
    numbers = accuracy, perplexity, corpus
    return RunPoint(outcome.model, outcome.data, outcome.reading, *numbers, known, len(run.places) - known)


def _mean(points: Sequence[RunPoint]) -> RunPoint:
    """Average the models of one data set and reading."""
    return RunPoint(
        f"mean of {len(points)} models",
        points[0].data,
        points[0].reading,
        mean_over_models("accuracy", [point.accuracy for point in points]),
        mean_over_models("perplexity", [point.perplexity for point in points]),
        mean_over_models("corpus perplexity", [point.corpus for point in points]),
        sum(point.prompts for point in points),
        sum(point.missing for point in points),
    )


def _correlation(points: Sequence[RunPoint]) -> Estimate:
    recipes = [number.recipe for point in points for number in (point.accuracy, point.perplexity)]
    recipe = combined("correlation of accuracy and perplexity", recipes, " and ")
    perplexities, accuracies = zip(*((one.perplexity.value, one.accuracy.value) for one in points), strict=True)
    return correlation(perplexities, accuracies, Sample("point"), recipe)


def conclude(findings: Perplexities) -> list[str]:
    about = "accuracy and perplexity over {}, {}, {}"
    claims = [Claim(about.format(*one[:3]), (Contrast("correlation", one.correlation),)) for one in findings.related]
    return sentences(decide(claims), is_share=False)


def tables(findings: Perplexities) -> list[Table]:
    columns = ("model", "data", "reading", "Acc@1", "perplexity", "corpus perplexity", "prompts", "left out")
    related = [(*one, one.correlation.n) for one in findings.related]
    return [
        Table.of(findings.points, "accuracy and perplexity", columns=columns),
        Table.of(findings.means, "means over models", columns=columns),
        Table.of(
            related,
            "correlation of Acc@1 and mean perplexity",
            columns=("points are", "data", "reading", "Pearson r", "n"),
        ),
    ]


def plots(findings: Perplexities) -> list[Plot]:
    """Draw every run as a point, and the means of data sets as large points (figure 2)."""

    def draw(axes: Any) -> None:
        for number, reading in enumerate(dict.fromkeys(point.reading for point in findings.points)):
            for points, size, label in (
                (findings.points, 14, reading),
                (findings.means, 80, f"{reading}, data-set means"),
            ):
                own = [point for point in points if point.reading == reading]
                xs, ys = [point.perplexity.value for point in own], [point.accuracy.value for point in own]
                axes.scatter(xs, ys, s=size, color=f"C{number}", alpha=0.6, label=label)
        axes.set_xscale("log")
        axes.legend(fontsize=7)

    return [Plot("perplexity", draw, "perplexity, mean over prompts", "Acc@1")]

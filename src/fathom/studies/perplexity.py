"""Do models that foresee the prompts better answer them better? (Section 5.5 and figure 2 of Shaier et al. 2024.)"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import refuse
from fathom.metrics.table import metric
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import OVER_MODELS, Estimate, correlation, measure, untold
from fathom.results.facts import RunFacts
from fathom.results.loading import by_column, outcomes_of
from fathom.results.plots import Plot
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


class RunPoint(NamedTuple):
    """One run.

    :param accuracy: mean Acc@1 of its ranked facts.
    :param perplexity: mean over prompts.
    :param corpus: over all their tokens.
    :param prompts: that have one.
    :param missing: that have none.
    """

    model: str
    data: str
    reading: str
    accuracy: Estimate
    perplexity: Estimate
    corpus: Estimate
    prompts: int
    missing: int


class Related(NamedTuple):
    """Accuracy and mean perplexity.

    :param over: what the points are: models of one kind (perplexities of causal and pseudo-perplexities of masked
        models are not on one scale), or data sets by the means of such.
    """

    over: str
    data: str
    reading: str
    correlation: Estimate


class Perplexities(NamedTuple):
    """:param means: of each data set and reading, over its models (``model`` says how many they are)."""

    points: list[RunPoint]
    means: list[RunPoint]
    related: list[Related]


def analyse(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> Perplexities:
    """:raises BadInput: with all the runs that have no perplexities."""
    columns = by_column(outcomes_of(runs, scoring, cluster))
    outcomes = [outcome for models in columns.values() for outcome in models.values()]
    lacking = [outcome.path for outcome in outcomes if not _told(outcome)]
    refuse(f"{path} has no perplexities: ask again with --perplexity" for path in lacking)
    points, means, related = [], [], []
    kinds = list(dict.fromkeys(outcome.attention for outcome in outcomes))
    for kind in kinds:
        of_kind = ([_point(one) for one in models.values() if one.attention == kind] for models in columns.values())
        cells = list(filter(None, of_kind))
        own_means = [_mean(own) for own in cells]
        points += [point for own in cells for point in own]
        means += own_means
        over_models, over_data = (_named(what, kind, kinds) for what in ("models", "data sets"))
        related += [Related(over_models, own[0].data, own[0].reading, _correlation(own)) for own in cells]
        related += [
            Related(over_data, f"{len(own)} data sets", reading, _correlation(own))
            for reading, own in grouped((point.reading, point) for point in own_means).items()
        ]
    return Perplexities(points, means, related)


def _named(what: str, kind: str, kinds: Sequence[str]) -> str:
    """With the kind of the models where there are several."""
    return what if len(kinds) == 1 else f"{what}, {kind or 'kind not recorded'}"


def _told(outcome: RunFacts) -> int:
    """How many of its prompts have a perplexity."""
    return int((~np.isnan(outcome.rows.prompt_log_prob[outcome.places])).sum())


def _point(outcome: RunFacts) -> RunPoint:
    means, corpus = (
        measure(outcome.rows, metric(name), outcome.places) for name in ("perplexity", "corpus_perplexity")
    )
    assert means is not None  # the runs without are refused before
    assert corpus is not None
    told = _told(outcome)
    about, accuracy = (outcome.model, outcome.data, outcome.reading), outcome.mean("accuracy", outcome.hits(1))
    return RunPoint(*about, accuracy, means, corpus, told, len(outcome.places) - told)


def _mean(points: Sequence[RunPoint]) -> RunPoint:
    """Of the models of one data set and reading."""

    def mean(name: str, own: Sequence[Estimate]) -> Estimate:
        made = combined(name, [number.recipe for number in own], " and ")
        return untold(OVER_MODELS, made, fmean(number.value for number in own), len(own), own[0].form)

    return RunPoint(
        f"mean of {len(points)} models",
        points[0].data,
        points[0].reading,
        mean("accuracy", [point.accuracy for point in points]),
        mean("perplexity", [point.perplexity for point in points]),
        mean("corpus perplexity", [point.corpus for point in points]),
        sum(point.prompts for point in points),
        sum(point.missing for point in points),
    )


def _correlation(points: Sequence[RunPoint]) -> Estimate:
    recipes = [number.recipe for point in points for number in (point.accuracy, point.perplexity)]
    made = combined("correlation of accuracy and perplexity", recipes, " and ")
    perplexities, accuracies = zip(*((one.perplexity.value, one.accuracy.value) for one in points), strict=True)
    return correlation(perplexities, accuracies, Sample("point"), made)


def conclude(findings: Perplexities) -> list[str]:
    """Whether models that predict prompts better answer them better."""
    claims = [
        Claim(
            f"accuracy and perplexity over {one.over}, {one.data}, {one.reading}",
            (Contrast("correlation", one.correlation),),
        )
        for one in findings.related
    ]
    return sentences(decide(claims), is_share=False)


def tables(findings: Perplexities) -> list[Table]:
    """Points, means over models, and the correlations of both."""
    return [
        _points_table(findings.points, "accuracy and perplexity"),
        _points_table(findings.means, "means over models"),
        Table.of(
            [
                {
                    "points are": one.over,
                    "data": one.data,
                    "reading": one.reading,
                    "Pearson r": one.correlation,
                    "n": one.correlation.n,
                }
                for one in findings.related
            ],
            "correlation of Acc@1 and mean perplexity",
        ),
    ]


def _points_table(points: Sequence[RunPoint], title: str) -> Table:
    rows = [
        {
            "model": one.model,
            "data": one.data,
            "reading": one.reading,
            "Acc@1": one.accuracy,
            "perplexity": one.perplexity,
            "corpus perplexity": one.corpus,
            "prompts": one.prompts,
            "without": one.missing,
        }
        for one in points
    ]
    return Table.of(rows, title)


def plots(findings: Perplexities) -> list[Plot]:
    """Every run as a point, and data sets' means as large ones (figure 2)."""

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

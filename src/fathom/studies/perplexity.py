"""Do models that foresee the prompts better answer them better? (Section 5.5 and figure 2 of Shaier et al. 2024.)"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.correlation import Correlation, pearson
from fathom.metrics.perplexity import perplexity
from fathom.results.outcomes import Outcome, by_column, outcomes_of
from fathom.store.folder import RunFolder


class Point(NamedTuple):
    """One run. :param accuracy: mean Acc@1 of its ranked facts. :param perplexity: mean over prompts, and
    :param corpus: over all their tokens. :param prompts: that have one; :param missing: that have none."""

    model: str
    data: str
    reading: str
    accuracy: float
    perplexity: float
    corpus: float
    prompts: int
    missing: int


class Related(NamedTuple):
    """Accuracy and mean perplexity. :param over: what the points are: models of one kind (perplexities of causal and
    pseudo-perplexities of masked models are not on one scale), or data sets by the means of such."""

    over: str
    data: str
    reading: str
    correlation: Correlation


class Perplexities(NamedTuple):
    """:param means: of each data set and reading, over its models (``model`` says how many they are)."""

    points: list[Point]
    means: list[Point]
    related: list[Related]


def perplexities(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> Perplexities:
    """:raises BadInput: with all the runs that have no perplexities."""
    columns = by_column(outcomes_of(runs, scorings))
    outcomes = [outcome for models in columns.values() for outcome in models.values()]
    lacking = [outcome for outcome in outcomes if not _told(outcome).any()]
    if lacking:
        raise BadInput(f"{outcome.path} has no perplexities: ask again with --perplexity" for outcome in lacking)
    points, means, related = [], [], []
    kinds = list(dict.fromkeys(outcome.attention for outcome in outcomes))
    for kind in kinds:
        own_means = []
        for (data, reading), models in columns.items():
            own = [_point(outcome) for outcome in models.values() if outcome.attention == kind]
            if own:
                points += own
                own_means.append(_mean(own))
                related.append(Related(_named("models", kind, kinds), data, reading, _correlation(own)))
        for reading in dict.fromkeys(point.reading for point in own_means):
            own = [point for point in own_means if point.reading == reading]
            over = _named("data sets", kind, kinds)
            related.append(Related(over, f"{len(own)} data sets", reading, _correlation(own)))
        means += own_means
    return Perplexities(points, means, related)


def _named(what: str, kind: str, kinds: Sequence[str]) -> str:
    """With the kind of the models where there are several."""
    return what if len(kinds) == 1 else f"{what}, {kind or 'kind not recorded'}"


def _told(outcome: Outcome) -> np.typing.NDArray[np.bool_]:
    return np.isfinite(outcome.log_prob) & (outcome.tokens > 0)


def _point(outcome: Outcome) -> Point:
    told = _told(outcome)
    log_prob, tokens = outcome.log_prob[told], outcome.tokens[told]
    return Point(
        outcome.model,
        outcome.data,
        outcome.reading,
        float(outcome.ranked.hits[:, 0].mean()),
        float(perplexity(log_prob, tokens).mean()),
        float(perplexity(log_prob.sum(), tokens.sum())),
        int(told.sum()),
        int((~told).sum()),
    )


def _mean(points: Sequence[Point]) -> Point:
    """Of the models of one data set and reading."""
    return Point(
        f"mean of {len(points)} models",
        points[0].data,
        points[0].reading,
        fmean(point.accuracy for point in points),
        fmean(point.perplexity for point in points),
        fmean(point.corpus for point in points),
        sum(point.prompts for point in points),
        sum(point.missing for point in points),
    )


def _correlation(points: Sequence[Point]) -> Correlation:
    return pearson([point.perplexity for point in points], [point.accuracy for point in points])

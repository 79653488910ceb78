"""The overview of a report: verdicts, all runs on the facts that all of them scored, and the settings that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.baselines import LEGENDS
from fathom.results.claims import MOST_SENTENCES, Claim, Contrast, decide
from fathom.results.comparison import Comparison
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.facts import RunFacts, common_facts, difference
from fathom.results.formats import format_value
from fathom.results.metrics.table import Metric, Ranking
from fathom.results.rows import Floats, grouped
from fathom.results.summary import Headline, Summary
from fathom.studies.report.evidence import View, narrow, showable

OF_MODEL = "names"
"""The baseline that depends on the model."""
GLYPHS = {"random": "○", "majority": "◇", "frequency": "◇", "names": "△", "n-gram": "□"}
"""Marks of baselines in the plot, distinguishable without colour."""
LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Right ends of the axis."""
LONGEST = 60


class RunSide(NamedTuple):
    """One run in one scoring.

    :param facts: whose predictions may be released.
    :param baselines: metric → baseline → value of each fact, shape (facts).
    """

    facts: RunFacts
    baselines: Mapping[str, Mapping[str, Floats]]
    headline: Headline | None
    identity: Mapping[str, Any]


class ForestLine(NamedTuple):
    """One run in the plot.

    :param number: over the facts of the plot.
    :param baselines: over the same facts; those of the data alone are those of
        the run with most facts, so that they are equal in all lines.
    :param verdict: whether its accuracy, over all its facts, is above every baseline.
    """

    name: str
    number: Estimate
    baselines: Mapping[str, float]
    verdict: str

    @property
    def is_known(self) -> bool:
        """Whether there is a number to draw."""
        return isfinite(self.number.value)

    @property
    def value(self) -> str:
        return format_value(self.number.value, self.number.form) if self.is_known else "–"

    @property
    def strongest(self) -> str:
        """The best baseline, such as "majority 20.1 %"."""
        name = max(self.baselines, key=self.baselines.__getitem__, default="")
        return f"{name} {format_value(self.baselines[name], self.number.form)}" if name else "–"


class Forest(NamedTuple):
    """All runs in one metric.

    :param limit: right end of the axis, which starts at 0.
    :param shared: number of facts that all runs scored; None if each line is of its run's own facts.
    """

    metric: str
    limit: float
    shared: int | None
    lines: tuple[ForestLine, ...]

    @property
    def legend(self) -> list[str]:
        """How each baseline is marked."""
        names = dict.fromkeys(name for line in self.lines for name in line.baselines)
        return [f"{GLYPHS[name]} {LEGENDS[name]}" for name in names]


def baselines_by_fact(
    facts: RunFacts, metrics: Sequence[Metric], ranked: Mapping[str, Ranking]
) -> dict[str, dict[str, Floats]]:
    """Return metric → baseline → value of each fact.

    :param ranked: ranks of the gold answers by each baseline, an entry per prediction of the run.
    """
    each = {one.name: {name: one.columns(own)[0] for name, own in ranked.items()} for one in metrics}
    return {
        metric: {name: narrow(facts.per_fact(values)) for name, values in own.items() if not np.isnan(values).all()}
        for metric, own in each.items()
    }


def forests(names: Sequence[str], sides: Sequence[RunSide], metrics: Sequence[Metric]) -> list[Forest]:
    """Return a plot for each metric that a run has, over the facts that all runs with scored facts share.

    If they share none, each run is shown over its own facts.
    """
    scored = [side.facts for side in sides if side.facts.scored_facts]
    try:
        shared = common_facts(scored, same_candidates=False) if scored else None
    except BadInput:
        shared = None
    chosen = [side.facts.scored_facts if shared is None else shared for side in sides]
    widest = None if shared is None else max(sides, key=lambda side: len(side.facts.scored_facts))
    plots = []
    for metric in metrics:
        lines = tuple(_line(*each, metric, widest) for each in zip(names, sides, chosen, strict=True))
        if any(line.is_known for line in lines):
            plots.append(Forest(metric.name, _limit(lines), None if shared is None else len(shared), lines))
    return plots


def _line(name: str, side: RunSide, facts: Sequence[str], metric: Metric, widest: RunSide | None) -> ForestLine:
    """:param widest: the run whose baselines of the data alone are shown; None: its own."""
    verdict = (side.headline and side.headline.verdict("accuracy")) or "–"
    if not side.facts.scored_facts:
        return ForestLine(name, point_estimate("nothing was scored", form=metric.shown), {}, "nothing scored")
    known = dict(_means(side, facts, metric))
    if widest is not None:
        known |= {name: mean for name, mean in _means(widest, facts, metric) if name in known and name != OF_MODEL}
    form = metric.shown if metric.shown.endswith("%") else ".3f"
    number = side.facts.mean(metric.name, side.facts.values(metric), facts, form=form)
    return ForestLine(name, number, known, verdict.partition(":")[0])


def _means(side: RunSide, facts: Sequence[str], metric: Metric) -> Iterator[tuple[str, float]]:
    """Yield the mean of each baseline that is known of all these facts."""
    at = side.facts.at(facts)
    for name, values in side.baselines[metric.name].items():
        if not np.isnan(values[at]).any():
            yield name, float(values[at].astype(float).mean())


def _limit(lines: Sequence[ForestLine]) -> float:
    """Return the least of :data:`LIMITS` that holds every number."""
    numbers = (number for line in lines for number in (line.number.value, line.number.high, *line.baselines.values()))
    most = max((number for number in numbers if number is not None and isfinite(number)), default=1.0)
    return next((limit for limit in LIMITS if limit >= most), LIMITS[-1])


def verdicts(comparison: Comparison | None, summaries: Sequence[Summary]) -> list[str]:
    """Return what ``fathom compare`` concludes and which runs are not above their baselines; of one run its answer."""
    if comparison is None:
        return [sentence for summary in summaries for sentence in summary.answer]
    weak = [sentence for summary in summaries for sentence in _reservations(summary)]
    more = [f"{len(weak) - MOST_SENTENCES} more are in the plot."] if len(weak) > MOST_SENTENCES else []
    return [*comparison.answer, *weak[:MOST_SENTENCES], *more]


def _reservations(summary: Summary) -> Sequence[str]:
    """Return the sentences of scorings that are not above every baseline."""
    undecided = [line for line in summary.headlines if line.decision is None or not line.decision.holds]
    weak = tuple(line for line in undecided if line.decision is not None or line.accuracy is None)
    return summary.answer if summary.tasks else replace(summary, headlines=weak).answer


def differing_settings(views: Sequence[View], sides: Sequence[RunSide]) -> list[tuple[str, list[str]]]:
    """Return the settings in which the runs differ, other than the model, with the value of each run."""
    each = [dict(_settings(view, side)) for view, side in zip(views, sides, strict=True)]
    names = dict.fromkeys(name for own in each for name in own)
    rows = ((name, [own.get(name, "–") for own in each]) for name in names)
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _settings(view: View, side: RunSide) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting that has one."""
    candidates = side.facts.mean_candidates
    settings = {
        "probe": view.probe,
        "scoring": view.scoring,
        "data set": view.data,
        "attention": {"bidirectional": "masked"}.get(view.attention, view.attention),
        "parameters": f"{view.parameters:,}" if view.parameters else "",
        "precision": side.identity["model"].get("dtype"),
        "candidates": f"{candidates:,.0f}" if isfinite(candidates) else "",
        "seed": side.identity.get("seed"),
        "Fathom": side.identity.get("version"),
        **{name.replace("_", " "): value for name, value in side.facts.options.items()},
    }
    for name, value in settings.items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        if value is not None and value is not False and text:
            yield name, showable("yes" if value is True else text[:LONGEST])


# --- differences by part


PAIRS = 66
"""With more pairs than twelve runs have, only the pairs with the first run have slices."""


class Slice(NamedTuple):
    """A part of the facts that both of two runs ranked.

    :param key: of the queries, such as "relation".
    :param number: first − second, with its interval.
    :param adjusted: its p value by Holm among all slices of the pair.
    """

    first: str
    second: str
    key: str
    value: str
    facts: int
    of_first: float
    of_second: float
    number: Estimate
    adjusted: float | None


def slices(comparison: Comparison, keys: Sequence[str]) -> list[Slice]:
    """Return the slices of all pairs as one family of claims, the greatest difference first.

    :param keys: of the queries; a key that a run lacks, or that has one value, makes no slice.
    """
    sides = [(run.name, run.outcome) for run in comparison.runs]
    pairs = list(combinations(sides, 2))
    if len(pairs) > PAIRS:
        pairs = [(sides[0], other) for other in sides[1:]]
    cut = [own for one, other in pairs for own in _of_pair(one, other, keys)]
    claims = {number: Claim(own.value, (Contrast("accuracy", own.number),)) for number, own in enumerate(cut)}
    decisions = decide(claims)
    adjusted = [own._replace(adjusted=decisions[number].p_value) for number, own in enumerate(cut)]
    return sorted(adjusted, key=lambda own: -abs(own.number.value))


def _of_pair(one: tuple[str, RunFacts], other: tuple[str, RunFacts], keys: Sequence[str]) -> list[Slice]:
    (name, first), (second_name, second) = one, other
    try:
        facts = common_facts([first, second])
    except BadInput:  # the comparison's own table says why
        return []
    cut, hits = [], [first.hits(1), second.hits(1)]
    for key in keys:
        values_of = first.groups.get(key, ())
        parts = grouped(
            (value, fact)
            for fact, place in zip(facts, first.at(facts).tolist(), strict=True)
            for value in (values_of[place] if values_of else ())
        )
        for value, own in parts.items() if len(parts) > 1 else ():
            sample = first.sample(own)  # as the comparison has it
            number = difference(f"accuracy|{key}:{value}", first, second, hits, own, sample)
            if not np.isnan(number.value):
                one_mean, other_mean = (
                    float(np.mean(h[s.at(own)])) for s, h in zip((first, second), hits, strict=True)
                )
                cut.append(Slice(name, second_name, key, value, len(own), one_mean, other_mean, number, None))
    return cut

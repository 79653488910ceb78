"""The overview of a report: verdicts, all runs on the facts that all of them scored, and the settings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.baselines import (
    LEGENDS,
    RANDOM,
    BaselineComparison,
    above_chance,
    verdict_text,
    why_no_frequency,
)
from fathom.results.claims import MOST_SENTENCES, Claim, Contrast, decide
from fathom.results.comparison import Comparison
from fathom.results.estimates import Estimate, over_baseline, point_estimate
from fathom.results.facts import RunFacts, common_facts, difference
from fathom.results.formats import format_value
from fathom.results.metrics.table import Metric, Ranking
from fathom.results.rows import Floats, grouped
from fathom.results.summary import RunNumbers, Summary
from fathom.studies.report.evidence import LONGEST, View, narrow, showable

OF_MODEL = "names"
"""The baseline that depends on the model."""
GLYPHS = {"random": "○", "majority": "◇", "frequency": "◇", "names": "△", "n-gram": "□"}
"""Marks of baselines in the plot, distinguishable without colour."""
LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Right ends of the axis."""


class RunSide(NamedTuple):
    """One run in one scoring.

    :param name: that of its view; "" until all views are known.
    :param facts: whose predictions may be released.
    :param baselines: metric → baseline → value of each fact, shape (facts).
    :param lacking: why a baseline that the verdict needs was not computed.
    """

    name: str
    facts: RunFacts
    baselines: Mapping[str, Mapping[str, Floats]]
    lacking: str
    identity: Mapping[str, Any]


class ForestLine(NamedTuple):
    """One run in the plot.

    :param number: over the facts of the plot, like everything else.
    :param baselines: those of the data alone are those of the run with most facts, so that they are equal in all lines.
    :param verdict: whether it is above every baseline.
    :param relations: mean of each relation.
    """

    name: str
    number: Estimate
    baselines: Mapping[str, float]
    verdict: str
    relations: Mapping[str, float]

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

    @property
    def extremes(self) -> list[str]:
        """The best and the worst relation, such as "capital 85.2 %"; the first of equal ones."""
        ends = (end(self.relations, key=self.relations.__getitem__, default="") for end in (max, min))
        return [f"{name} {format_value(self.relations[name], self.number.form)}" if name else "–" for name in ends]


class Forest(NamedTuple):
    """All runs in one metric, the best first.

    :param limit: right end of the axis, which starts at 0.
    :param shared: number of facts that all runs scored; None if each line is of its run's own facts.
    :param relations: number of these facts in each relation, the relation with the best mean over runs first.
    """

    metric: str
    limit: float
    shared: int | None
    lines: tuple[ForestLine, ...]
    relations: Mapping[str, int]

    @property
    def legend(self) -> list[str]:
        """How each baseline is marked."""
        names = dict.fromkeys(name for line in self.lines for name in line.baselines)
        return [f"{GLYPHS[name]} {LEGENDS[name]}" for name in names]


def side_of(numbers: RunNumbers, facts: RunFacts, metrics: Sequence[Metric], name: str = "") -> RunSide:
    """Return one scoring of a run, or a part of it, next to its baselines."""
    by_fact = baselines_by_fact(facts, metrics, numbers.baseline_ranks)
    return RunSide(name, facts, by_fact, why_no_frequency(numbers.rows), numbers.rows.identity)


def baselines_by_fact(
    facts: RunFacts, metrics: Sequence[Metric], ranked: Mapping[str, Ranking]
) -> dict[str, dict[str, Floats]]:
    """Return metric → baseline → value of each fact.

    :param ranked: ranks of the gold answers by each baseline, an entry per prediction of the run.
    """
    each = {metric.name: {name: metric.columns(ranking)[0] for name, ranking in ranked.items()} for metric in metrics}
    return {
        metric: {name: narrow(facts.per_fact(values)) for name, values in by_name.items() if not np.isnan(values).all()}
        for metric, by_name in each.items()
    }


def forests(sides: Sequence[RunSide], metrics: Sequence[Metric]) -> list[Forest]:
    """Return a plot for each metric that a run has, over the facts that all runs with scored facts share.

    If they share none, each run is shown over its own facts.
    """
    scored = [side.facts for side in sides if side.facts.scored_facts]
    try:
        shared = common_facts(scored, same_candidates=False) if scored else None
    except BadInput:
        shared = None
    of_sides = [side.facts.scored_facts if shared is None else shared for side in sides]
    widest = None if shared is None else max(sides, key=lambda side: len(side.facts.scored_facts))
    sizes = Counter(map(showable, widest.facts.shown_relations(shared))) if widest is not None and shared else Counter()
    plots = []
    for metric in metrics:
        lines = [_line(side, facts, metric, widest) for side, facts in zip(sides, of_sides, strict=True)]
        lines.sort(key=lambda line: -line.number.value if line.is_known else 1)
        if any(line.is_known for line in lines):
            relations = {relation: sizes[relation] for relation in _best_first(lines)}
            plots.append(Forest(metric.name, _limit(lines), len(shared) if shared else None, tuple(lines), relations))
    return plots


def _best_first(lines: Sequence[ForestLine]) -> list[str]:
    """Return the relations by their mean over the runs."""
    means = grouped(pair for line in lines for pair in line.relations.items())
    return sorted(means, key=lambda relation: -float(np.mean(means[relation])))


def _line(side: RunSide, facts: Sequence[str], metric: Metric, widest: RunSide | None) -> ForestLine:
    """:param widest: the run whose baselines of the data alone are shown; None: its own."""
    if not side.facts.scored_facts:
        return ForestLine(side.name, point_estimate("nothing was scored", form=metric.shown), {}, "nothing scored", {})
    by_baseline = dict(_known_baselines(side, facts, metric))
    if widest is not None:
        of_data = {name: column for name, column in _known_baselines(widest, facts, metric) if name != OF_MODEL}
        by_baseline |= {name: column for name, column in of_data.items() if name in by_baseline}
    form = metric.shown if metric.shown.endswith("%") else ".3f"
    values = side.facts.values(metric)
    number = side.facts.mean(metric.name, values, facts, form=form)
    if not isfinite(number.value):
        return ForestLine(side.name, number, {}, "–", {})
    of_facts = values[side.facts.at(facts)]
    by_relation = grouped(zip(map(showable, side.facts.shown_relations(facts)), of_facts.tolist(), strict=True))
    means = {relation: float(np.mean(each)) for relation, each in by_relation.items() if relation}
    sample, line = side.facts.sample(facts), side.facts.recipe(metric.name)
    compared = [
        BaselineComparison(name, *over_baseline(of_facts, its, sample, line, fixed=name == RANDOM))
        for name, its in by_baseline.items()
    ]
    claim = above_chance(side.name, compared, side.lacking)
    verdict = verdict_text(decide({side.name: claim}).get(side.name)) or "–"
    baselines = {comparison.baseline: comparison.value for comparison in compared}
    return ForestLine(side.name, number, baselines, verdict.partition(":")[0], means)


def _known_baselines(side: RunSide, facts: Sequence[str], metric: Metric) -> Iterator[tuple[str, Floats]]:
    """Yield the values of each baseline that is known of all these facts, shape (facts)."""
    at = side.facts.at(facts)
    for name, values in side.baselines[metric.name].items():
        if not np.isnan(values[at]).any():
            yield name, values[at].astype(float)


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


def differing_settings(runs: Sequence[tuple[View, RunSide]]) -> list[tuple[str, list[str]]]:
    """Return the settings in which the runs differ, other than the model, with the value of each run."""
    each = [_settings(view, side) for view, side in runs]
    names = dict.fromkeys(name for of_run in each for name in of_run)
    rows = ((name, [showable(of_run.get(name) or "–")[:LONGEST] for of_run in each]) for name in names)
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _settings(view: View, side: RunSide) -> Mapping[str, str]:
    candidates = side.facts.mean_candidates
    return {
        "probe": view.probe,
        "scoring": view.scoring,
        "data set": view.data,
        "attention": {"bidirectional": "masked"}.get(view.attention, view.attention),
        "parameters": f"{view.parameters:,}" if view.parameters else "",
        "candidates": f"{candidates:,.0f}" if isfinite(candidates) else "",
        "seed": str(side.identity.get("seed") or ""),
        "Fathom": str(side.identity.get("version") or ""),
        **side.facts.settings,
        "dtype": side.facts.precision,
    }


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
        pairs = [(sides[0], side) for side in sides[1:]]
    cut = [part for first, second in pairs for part in _of_pair(first, second, keys)]
    claims = {number: Claim(part.value, (Contrast("accuracy", part.number),)) for number, part in enumerate(cut)}
    decisions = decide(claims)
    adjusted = [part._replace(adjusted=decisions[number].p_value) for number, part in enumerate(cut)]
    return sorted(adjusted, key=lambda part: -abs(part.number.value))


def _of_pair(left: tuple[str, RunFacts], right: tuple[str, RunFacts], keys: Sequence[str]) -> list[Slice]:
    (name, first), (second_name, second) = left, right
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
        for value, of_value in parts.items() if len(parts) > 1 else ():
            sample = first.sample(of_value)  # as the comparison has it
            number = difference(f"accuracy|{key}:{value}", first, second, hits, of_value, sample)
            if not np.isnan(number.value):
                first_mean, second_mean = (
                    float(np.mean(hit[run.at(of_value)])) for run, hit in zip((first, second), hits, strict=True)
                )
                shown = first.declared.shown(key, value)
                cut.append(Slice(name, second_name, key, shown, len(of_value), first_mean, second_mean, number, None))
    return cut

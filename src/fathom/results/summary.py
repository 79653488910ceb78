"""The numbers of a run: headline, breakdown and ``metrics.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.answers import PreferredPosition, preferred_position
from fathom.results.baselines import (
    LEGENDS,
    NAMES,
    BaselineComparison,
    BaselineRanks,
    RandomOrder,
    above_chance,
    baselines,
    compare_baselines,
    verdict_text,
    why_no_frequency,
    why_no_names,
)
from fathom.results.bins import OF_NUMBERS, Bins, numbers_first, parse_bins, trend_table
from fathom.results.claims import NO_DIFFERENCE, OPPOSITE, Claim, Decision, decide, percent, rough_sentence
from fathom.results.estimates import NOTHING, PARTLY, Estimate, measure, point_estimate
from fathom.results.facts import ACCURACY
from fathom.results.loading import short_names
from fathom.results.metrics.table import METRICS, Metric, hits, metric
from fathom.results.rows import Ints, Rows, alike_reasons, grouped
from fathom.results.tables import Cell, Table, Tabular
from fathom.results.tasks import Tasks, above_in_words, task_table, tasks_of
from fathom.store.folder import RunFolder

FORMAT = 1
METRICS_FILE = "metrics.json"
STANDARD_BREAKDOWNS = ("template", "relation", "cardinality", "domain")

_OF_PARTS = ("accuracy", "mrr", "precision", "recall", "f1")


@dataclass(frozen=True)
class Headline:
    """The numbers of one scoring.

    :param queries: number of distinct queries with predictions, *answered* of those with a scored one.
    :param deviation: sample standard deviation (n − 1) of accuracy over templates; None for one template.
    :param baselines: the baselines of each of them, see :mod:`fathom.results.baselines`.
    :param decision: whether accuracy is above every baseline; None without any.
    :param preferred: the position among options that the model prefers; None for none.
    """

    scoring: str
    templates: tuple[int, ...]
    queries: int
    answered: int
    predictions: int
    unscored: int
    reasons: Mapping[str, int]
    deviation: float | None
    numbers: Mapping[str, Estimate]
    baselines: Mapping[str, tuple[BaselineComparison, ...]]
    decision: Decision | None = None
    preferred: PreferredPosition | None = None

    @property
    def accuracy(self) -> Estimate | None:
        """Accuracy; None where nothing was scored."""
        return self.numbers.get("accuracy")

    def verdict(self, name: str) -> str | None:
        """Return whether accuracy is above the baselines; None for other metrics, or without any."""
        return verdict_text(self.decision) if name == ACCURACY else None


class BreakdownPart(NamedTuple):
    """One line of a breakdown.

    :param deviation: as of the headline.
    :param numbers: accuracy and mrr, of written answers precision, recall and f1, if known.
    """

    keys: tuple[str, ...]
    scoring: str
    queries: int
    n: int
    unscored: int
    deviation: float | None
    numbers: Mapping[str, Estimate]


class Breakdown(NamedTuple):
    """A run in parts, by combinations of keys. :param trend: of accuracy, if the parts are bins of one number."""

    by: tuple[str, ...]
    parts: tuple[BreakdownPart, ...]
    trend: Table | None = None


@dataclass(frozen=True, repr=False)
class Summary(Tabular):
    """All that ``fathom metrics`` prints.

    :param queries: number of the run's queries, with or without predictions.
    :param notes: on candidates that are excluded or tie.
    :param tasks: of the ontology probe, in place of the headline's numbers, which would mix tasks.
    :param every: show readers every metric, as programs see them.
    :param above: which tasks are above the frequency baseline, as a sentence.
    :param labels: of relations whose ids are addresses.
    """

    queries: int
    headlines: tuple[Headline, ...]
    model: str = ""
    candidates: float = float("inf")
    breakdowns: tuple[Breakdown, ...] = ()
    notes: tuple[str, ...] = ()
    tasks: Table | None = None
    every: bool = False
    above: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> list[str]:
        """Accuracy of each scoring and why queries have no answer, or which tasks are above the frequency baseline."""
        if self.tasks:
            return [self.above] if self.above else []
        return [sentence for line in self.headlines for sentence in _sentences(line, self.model)]

    def tables_in(self, form: str) -> list[Table]:
        """Return the headline, or the tasks, then the breakdowns, those by a number with their trend, but in "csv"."""
        tables = [self.tasks or _headline_table(self, self.every or form in ("json", "csv"))]
        for breakdown in self.breakdowns:
            parts = replace(_parts_table(breakdown), labels=self.labels)
            tables += [parts, *([breakdown.trend] if breakdown.trend and form != "csv" else [])]
        return tables


class RunNumbers:
    """The numbers of one run, each computed once."""

    def __init__(self, run: RunFolder, cluster: str = "") -> None:
        """:param cluster: key by which queries were drawn together, as for :class:`Rows`."""
        self.run, self.rows = run, Rows(run, cluster=cluster)
        self._numbers: dict[tuple[str, bytes], Estimate | None] = {}

    @cached_property
    def headlines(self) -> tuple[Headline, ...]:
        """One per scoring; whether they are above chance is one family of claims."""
        return tuple(replace(line, decision=self.decisions.get(("scoring", line.scoring))) for line in self._undecided)

    @cached_property
    def decisions(self) -> dict[tuple[str, str | int], Decision]:
        """Whether each scoring is above every baseline, and each line of the tasks above the frequency baseline."""
        missing = why_no_frequency(self.rows)
        claims: dict[tuple[str, str | int], Claim | None] = {
            ("scoring", line.scoring): above_chance(line.scoring, line.baselines.get(ACCURACY, ()), missing)
            for line in self._undecided
        }
        for place, claim in self._tasks.claims.items() if self._tasks else ():
            claims["task", place] = claim._replace(family="tasks")
        return decide(claims)

    @cached_property
    def _undecided(self) -> list[Headline]:
        return [self._headline(scoring) for scoring in self.rows.scorings]

    @cached_property
    def _tasks(self) -> Tasks | None:
        """The run task by task, if its probe shows tasks."""
        return tasks_of(self.run, self.rows) if self.rows.declared.headline == "tasks" else None

    def summary(self, by: Sequence[str] = (), every: bool = False) -> Summary:
        crossed = [tuple(key.strip() for key in keys.split("+")) for keys in by]
        binned = {key: bins for key in dict.fromkeys(sum(crossed, ())) if (bins := parse_bins(self.rows, key))}
        unknown = [f"'{key}'" for keys in crossed for key in keys if key not in self.keys and key not in binned]
        if unknown:
            raise BadInput(f"the run cannot be broken down by {', '.join(unknown)}: it has {', '.join(self.keys)}")
        notes, tasks, above = self.rows.declared.notes, None, ""
        if any(line.baselines for line in self.headlines) and (lacking := why_no_names(self.rows, self.baseline_ranks)):
            notes = (*notes, lacking)
        if self.rows.has_codes:
            notes = (
                *notes,
                "most candidates are named by ids, which mean little to a language model: add names to the data",
            )
        if altered := sum("conclusion" in groups for groups in self.rows.groups):
            what = f"{altered:,} queries are arguments and altered texts, which these numbers mix with the others"
            notes = (*notes, f"{what}: fathom study choice judges them, --by relation parts them")
        model = short_names([self.run])[0]
        if self._tasks is not None:
            decisions = {int(place): decision for (kind, place), decision in self.decisions.items() if kind == "task"}
            tasks = task_table(self._tasks, decisions, (*notes, *_reasons(self.headlines)))
            above = above_in_words(model, decisions.values())
        return Summary(
            queries=len(self.rows.query_ids),
            headlines=self.headlines,
            model=model,
            candidates=float(np.nanmax(self.rows.number_of_candidates, initial=0)) or float("inf"),
            breakdowns=tuple(self._breakdown(keys, binned) for keys in crossed),
            notes=notes,
            tasks=tasks,
            every=every,
            above=above,
            labels=self.rows.declared.relations,
        )

    def _breakdown(self, keys: tuple[str, ...], binned: Mapping[str, Bins]) -> Breakdown:
        names = tuple(binned[key].name if key in binned else key for key in keys)
        trend = trend_table(self.rows, binned[keys[0]]) if len(keys) == 1 and keys[0] in binned else None
        bins_by_name = {bins.name: bins for key, bins in binned.items() if key in keys}
        return Breakdown(names, tuple(self._parts(names, bins_by_name)), trend)

    def json(self) -> dict[str, Any]:
        """Return the content of RUN/metrics.json: numbers with interval and recipe, and the usual breakdowns."""
        scorings: dict[str, Any] = {
            line.scoring: {
                "templates": list(line.templates),
                "queries": line.queries,
                "predictions": line.predictions,
                "unscored": line.unscored,
                "reasons": dict(line.reasons),
                "accuracy_deviation_over_templates": line.deviation,
                "metrics": {name: number.plain() for name, number in line.numbers.items()},
                "baselines": {
                    name: {comparison.baseline: comparison.plain() for comparison in comparisons}
                    for name, comparisons in line.baselines.items()
                },
                "verdict": line.decision.plain() if line.decision is not None else None,
                "by": {},
            }
            for line in self.headlines
        }
        for key in STANDARD_BREAKDOWNS:
            if key in self.keys:
                for part in self._parts((key,)):
                    names = dict.fromkeys((*_OF_PARTS[: 5 if "precision" in part.numbers else 2], *part.numbers))
                    numbers = {name: part.numbers[name].plain() if name in part.numbers else None for name in names}
                    counts = {"queries": part.queries, "n": part.n, "unscored": part.unscored}
                    scorings[part.scoring]["by"].setdefault(key, {})[part.keys[0]] = counts | numbers
        return {
            "format": FORMAT,
            "fathom": str(self.rows.identity.get("version", "")),
            "queries": len(self.rows.query_ids),
            "scorings": scorings,
        }

    def number(self, wanted: Metric, asked: Ints) -> Estimate | None:
        """Measure predictions of one scoring, once."""
        key = wanted.name, asked.tobytes()
        if key not in self._numbers:
            self._numbers[key] = measure(self.rows, wanted, asked)
        return self._numbers[key]

    @cached_property
    def baseline_ranks(self) -> dict[str, BaselineRanks | RandomOrder]:
        return baselines(self.rows)

    def _headline(self, scoring: str) -> Headline:
        rows = self.rows
        asked = rows.of(scoring)
        scored = asked[rows.scored[asked]]
        reasons = Counter(reason for place in asked.tolist() if (reason := rows.reason[place]) is not None)
        metrics = {entry.name: entry for entry in self._metrics()}
        numbers = {name: value for name, entry in metrics.items() if (value := self.number(entry, asked)) is not None}
        baselines_of_each = (
            (name, compare_baselines(rows, metrics[name], asked, self.baseline_ranks)) for name in numbers
        )
        return Headline(
            scoring=scoring,
            templates=tuple(sorted(set(rows.template[asked].tolist()))),
            queries=len(set(rows.query[asked].tolist())),
            answered=len(set(rows.query[scored].tolist())),
            predictions=len(asked),
            unscored=len(asked) - len(scored),
            reasons=dict(reasons.most_common()),
            deviation=self._deviation(scored),
            numbers=numbers,
            baselines={name: compared for name, compared in baselines_of_each if compared},
            preferred=preferred_position(rows, asked),
        )

    def _deviation(self, scored: Ints) -> float | None:
        templates, hits = self.rows.template[scored], self.rows.hits(1)[scored]
        means = [hits[templates == template].mean() for template in np.unique(templates)]
        return float(np.std(means, ddof=1)) if len(means) > 1 and not self.rows.natural else None

    def _metrics(self) -> list[Metric]:
        """Return the metrics of a headline: accuracy, Hits@k of the probe's cuts, and all others of the table."""
        declared = self.rows.declared
        has_many = any(len(ids) > 100 for ids, _ in self.rows.candidates.values())
        cuts = [*declared.cuts, *([100] if has_many else [])]
        accuracy, *others = METRICS.entries()
        others = [entry for entry in others if not entry.further or entry.name in declared.further]
        return [accuracy, *(hits(k) for k in cuts if k > 1), *others]

    @cached_property
    def keys(self) -> list[str]:
        """Keys by which the run can be broken down."""
        in_bins = [name for name, key in OF_NUMBERS.items() if key in self.rows.keys]
        return list(dict.fromkeys(("template", "scoring", *self.rows.keys, *in_bins)))

    def _parts(self, by: Sequence[str], binned: Mapping[str, Bins] = MappingProxyType({})) -> list[BreakdownPart]:
        """Return one part per combination of values, and scoring; sorted, templates as numbers.

        :param binned: keys of numbers, by their names in *by*.
        """
        rows = self.rows
        of_query = [
            [[binned[key].labels[query]] if key in binned else rows.values_of(query, key) for key in by]
            for query in range(len(rows.query_ids))
        ]
        predictions = enumerate(zip(rows.query.tolist(), rows.template.tolist(), rows.scoring, strict=True))
        places_of = grouped(
            ((scoring, keys), place)
            for place, (query, template, scoring) in predictions
            for keys in product(
                *(
                    {"template": [template], "scoring": [scoring]}.get(key, values)
                    for key, values in zip(by, of_query[query], strict=True)
                )
            )
        )
        order = {scoring: number for number, scoring in enumerate(rows.scorings)}

        def in_order(part: tuple[str, tuple[Any, ...]]) -> tuple[Any, ...]:
            values = zip(by, part[1], strict=True)
            place = (binned[key].order.index(value) if key in binned else numbers_first(value) for key, value in values)
            return order[part[0]], *place

        return [
            self._part(by, scoring, tuple(map(str, keys)), np.array(places_of[scoring, keys]))
            for scoring, keys in sorted(places_of, key=in_order)
        ]

    def _part(self, by: Sequence[str], scoring: str, keys: tuple[str, ...], asked: Ints) -> BreakdownPart:
        rows = self.rows
        pairs = zip(by, keys, strict=True)
        selected = "".join(f"|{key}:{value}" for key, value in pairs if key not in ("template", "scoring"))
        each = ((name, self.number(metric(name), asked)) for name in (*_OF_PARTS, *rows.declared.by))
        numbers = {
            name: number._replace(recipe=number.recipe + selected) for name, number in each if number is not None
        }
        scored = asked[rows.scored[asked]]
        counts = len(set(rows.query[asked].tolist())), len(scored), len(asked) - len(scored)
        return BreakdownPart(keys, scoring, *counts, self._deviation(scored), numbers)


def summarise(run: RunFolder, by: Sequence[str] = (), cluster: str = "", every: bool = False) -> Summary:
    """Compute all numbers of a run.

    :param by: one breakdown each: template, scoring, relation, direction, or any key of the queries' groups. Keys
        joined by "+" are crossed: "relation+template" gives one line per pair. A group "A; B" counts in A and in B.
        Keys of numbers (popularity, answer_popularity, period) are split into five bins of similar size, with the
        trend; "key:10" sets the number of bins, also of other keys of numbers.
    :param cluster: sampling unit of the intervals; see :mod:`fathom.results.samples`.
    :param every: show readers every metric, not only the usual ones.
    :raises BadInput: an unknown key, or predictions that are not of one run.
    """
    return RunNumbers(run, cluster).summary(by, every)


# --- sentences, tables and JSON


def _sentences(line: Headline, model: str) -> list[str]:
    """Return "gpt2 (sum/full) answers 61.5 % [50.5, 71.5] of 80 queries correctly …", and why others are unscored."""
    share, decision, name = line.accuracy, line.decision, f"{model} ({line.scoring})"
    unscored = f"{line.queries - line.answered:,} of {line.queries:,} queries are unscored"
    why = "; ".join(f"{reason} ({count:,})" for reason, count in alike_reasons(line.reasons)[:2])
    rest = [f"{unscored}: {why}."] if line.answered < line.queries else []
    rest += [str(line.preferred)] if line.preferred is not None else []
    if share is None:
        return [f"{name}: {NOTHING}.", *rest]
    text = f"{name} answers {share} of {line.answered:,} queries correctly"
    compared = line.baselines.get(ACCURACY, ())
    tested = [comparison for comparison in compared if decision is None or comparison.baseline not in decision.untested]
    values = ", ".join(f"{comparison.baseline} {percent(comparison.value)}" for comparison in tested)
    if decision is None:
        return [f"{text}; no baseline is known.", *rest]
    if decision.holds:
        which = "every baseline that could be tested" if decision.untested else "every baseline"
        text += f", more than {which} ({values})."
    elif decision.word == OPPOSITE and decision.decisive is not None:
        text += f", below the {decision.decisive.name} baseline ({values})."
    elif decision.word == NO_DIFFERENCE:
        text += f", {verdict_text(decision)} ({values})."
    else:
        text += f". Whether this is above chance {decision.word}: {decision.reason}."
    untested = [f"The {name} baseline could not be tested: {why}." for name, why in decision.untested.items()]
    some = [
        f"Compared on these alone: {part}."
        for comparison in tested
        for part in comparison.difference.note.split("; ")
        if PARTLY in part
    ]
    return [text, *untested, *some, *filter(None, [rough_sentence(decision)]), *rest]


USUAL = ("accuracy", "mrr", "hits@10", "consistency", "f1")
"""Metrics that readers see by default."""


def _headline_table(summary: Summary, every: bool) -> Table:
    available = {
        comparison.baseline
        for line in summary.headlines
        for comparisons in line.baselines.values()
        for comparison in comparisons
    }
    baselines_shown = [name for name in NAMES if name in available]
    usual = [name for name in USUAL if name != "hits@10" or summary.candidates > 10]
    rows: list[dict[str, Cell | Estimate]] = []
    notes = []
    for line in summary.headlines:
        shown = {name: number for name, number in line.numbers.items() if every or name in usual}
        if line.accuracy is None:
            shown[ACCURACY] = point_estimate(NOTHING)
        for name, number in shown.items():
            others = {comparison.baseline: comparison.value for comparison in line.baselines.get(name, ())}
            rows.append(
                {
                    "scoring": line.scoring,
                    "metric": name,
                    "value": number,
                    "deviation": line.deviation if name == ACCURACY else None,
                    "n": number.n,
                    "unscored": line.unscored,
                    **{baseline: others.get(baseline) for baseline in baselines_shown},
                    "verdict": line.verdict(name),
                }
            )
        notes += _notes(line, shown, summary.queries)
    deviations = any(line.deviation is not None for line in summary.headlines)
    deviation = "; deviation: sample standard deviation over templates" if deviations else ""
    legends = ["baselines: " + "; ".join(LEGENDS[name] for name in baselines_shown)] if available else []
    hidden = ["verdict"]  # the answer says it
    hidden += ["scoring"] * (len(summary.headlines) == 1) + ["deviation"] * (not deviations)
    hidden += ["unscored"] * (not any(line.unscored for line in summary.headlines))
    rest = [] if every else ["--all shows every metric"]
    below = (f"{summary.queries:,} queries{deviation}", *legends, *summary.notes, *notes, *rest)
    formats = dict.fromkeys((*baselines_shown, "deviation"), ".1%")  # where all rows are shares
    return Table.of(rows, "Results", below, hidden=hidden, formats=formats)


def _reasons(headlines: Sequence[Headline]) -> list[str]:
    """Return why predictions are unscored, each reason once."""
    lines = (f"{count} × unscored: {why}" for line in headlines for why, count in alike_reasons(line.reasons))
    return list(dict.fromkeys(lines))


def _notes(line: Headline, shown: Mapping[str, Estimate], queries: int) -> list[str]:
    """Return what limits the numbers of a scoring. :param shown: those that the table has."""
    notes = _reasons([line])
    if line.queries < queries:
        notes.append(f"{line.queries} of {queries} queries have predictions so far")
    notes = [f"{line.scoring}: {note}" for note in notes]
    names_by_note = grouped((number.note, name) for name, number in shown.items() if number.note)
    sampled = sum(number.sample != "" for number in shown.values())
    for note, names in names_by_note.items():
        notes.append(f"{line.scoring}{'' if len(names) == sampled else ', ' + ', '.join(names)}: {note}")
    return notes


def _parts_table(breakdown: Breakdown) -> Table:
    by = breakdown.by if "scoring" in breakdown.by else ("scoring", *breakdown.by)
    numbers = [part.numbers for part in breakdown.parts]
    # Written answers have no rank but a precision.
    written = any("precision" in of_part for of_part in numbers)
    declared = dict.fromkeys(name for of_part in numbers for name in of_part if name not in _OF_PARTS)
    further = ("precision", "recall", "f1") if written else ("mrr", *declared)
    rows = [
        {
            **dict(zip(by, part.keys if by == breakdown.by else (part.scoring, *part.keys), strict=True)),
            "queries": part.queries,
            "n": part.n,
            "unscored": part.unscored,
            "accuracy": part.numbers.get("accuracy", point_estimate(NOTHING)),
            "deviation": part.deviation,
            **{name: part.numbers[name].value if name in part.numbers else None for name in further},
        }
        for part in breakdown.parts
    ]
    formats = {name: metric(name).shown for name in further} | {"deviation": ".1%"}
    return Table.of(rows, f"By {' and '.join(breakdown.by)}", formats=formats).without_empty("deviation")


def metrics_table() -> Table:
    """List all metrics: what each is, with its formula and source."""
    entries = [*METRICS.entries()]
    entries.insert(1, hits(10))
    rows = [(entry.name, entry.about, "declared by some probes" if entry.further else "") for entry in entries]
    return Table(
        ("metric", "what it is", "shown"),
        tuple(rows),
        title="metrics",
        notes=("hits@k: for any k, such as hits@5; --all shows those of a run",),
    )

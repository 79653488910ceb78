"""The numbers of a run: headline, breakdown and ``metrics.json``. How each is made: :mod:`fathom.results.estimates`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.table import METRICS, Metric, hits, metric
from fathom.results.baselines import (
    LEGENDS,
    NAMES,
    ByLot,
    Compared,
    Ranked,
    above_chance,
    baselines,
    compared_with,
    lacks_frequency,
    verdict_of,
    why_no_names,
)
from fathom.results.bins import OF_NUMBERS, Bins, bins_of, trend_table
from fathom.results.claims import NO_DIFFERENCE, Decision, decide_all, percent
from fathom.results.estimates import NOTHING, Estimate, measure, untold
from fathom.results.facts import ACCURACY
from fathom.results.names import short_names
from fathom.results.rows import Ints, Rows, grouped
from fathom.results.tables import Cell, Table, Tabled, to_json
from fathom.results.tasks import above_in_words, task_table
from fathom.store.folder import RunFolder

FORMAT = 1
STANDARD_BREAKDOWNS = ("template", "relation", "cardinality", "domain")

_NUMBER = re.compile(r"(?<!\S)\d+(?![^\s,;]| has no name)")  # not in a name as in P36, nor an id of digits
_OF_PARTS = ("accuracy", "mrr", "precision", "recall", "f1")


@dataclass(frozen=True)
class Headline:
    """The numbers of one scoring.

    :param queries: how many distinct queries were asked.
    :param predictions: queries × templates.
    :param unscored: how many of these have no number.
    :param reasons: why, and how often each.
    :param deviation: sample standard deviation (n − 1) of accuracy over templates; None for one template.
    :param numbers: by name, as METRICS has them: those that the run's predictions can tell.
    :param baselines: the baselines of each of them, see :mod:`fathom.results.baselines`.
    :param decision: whether accuracy is above every baseline; None where none is known.
    """

    scoring: str
    templates: tuple[int, ...]
    queries: int
    predictions: int
    unscored: int
    reasons: Mapping[str, int]
    deviation: float | None
    numbers: Mapping[str, Estimate]
    baselines: Mapping[str, tuple[Compared, ...]]
    decision: Decision | None = None

    @property
    def accuracy(self) -> Estimate | None:
        """None where nothing was scored."""
        return self.numbers.get("accuracy")

    def verdict(self, name: str) -> str | None:
        """Return whether accuracy, which decides, is above the baselines; None for other metrics, or without any."""
        return verdict_of(self.decision) if name == ACCURACY else None


class BreakdownPart(NamedTuple):
    """One line of a breakdown.

    :param n: scored predictions.
    :param numbers: accuracy and mrr, of written answers precision, recall and f1; those that can be told.
    """

    keys: tuple[str, ...]
    scoring: str
    queries: int
    n: int
    unscored: int
    numbers: Mapping[str, Estimate]

    @property
    def accuracy(self) -> Estimate | None:
        """None where nothing was scored."""
        return self.numbers.get("accuracy")

    @property
    def mrr(self) -> Estimate | None:
        """None where a rank is not known."""
        return self.numbers.get("mrr")


class Breakdown(NamedTuple):
    """A run in parts.

    :param by: the keys whose combinations they are.
    :param trend: where they are bins of one number: whether accuracy goes with it.
    """

    by: tuple[str, ...]
    parts: tuple[BreakdownPart, ...]
    trend: Table | None = None


@dataclass(frozen=True, repr=False)
class Summary(Tabled):
    """All that ``fathom metrics`` prints.

    :param queries: how many the run is of, asked or not.
    :param notes: on candidates that are left out or tie.
    :param tasks: of the ontology probe, in place of the headline's numbers: they would mix tasks.
    :param searched: tokens that an exact search ran, would have run without pruning, and for one statement at a time;
        0 where there was none.
    :param every: whether readers see every metric; programs always do.
    :param above: of tasks, which of them are above the frequency baseline, as a sentence.
    """

    queries: int
    headlines: tuple[Headline, ...]
    model: str = ""
    candidates: float = float("inf")
    breakdowns: tuple[Breakdown, ...] = ()
    notes: tuple[str, ...] = ()
    tasks: Table | None = None
    searched: tuple[int, int, int] = (0, 0, 0)
    every: bool = False
    above: str = ""

    @property
    def answer(self) -> list[str]:
        """One sentence per scoring: accuracy, and whether it is above every baseline; of tasks, which are above."""
        if self.tasks:
            return [self.above] if self.above else []
        return [sentence for line in self.headlines if (sentence := _sentence(line, self.model))]

    @property
    def tables(self) -> list[Table]:
        """The headline, or the tasks, then the breakdowns that were asked for, those by a number with their trend."""
        return self.tables_in("text")

    def tables_in(self, form: str) -> list[Table]:
        """Without trends where a file holds one table ("csv")."""
        every = self.every or form in ("json", "csv")
        found = [self.tasks or _headline_table(self, every)]
        for one in self.breakdowns:
            found += [_parts_table(one), *([one.trend] if one.trend and form != "csv" else [])]
        return found

    def to_json(self) -> str:
        """The first table's rows as a list of objects."""
        return to_json(self.tables_in("json")[0])


class RunNumbers:
    """The numbers of one run, each computed once, whoever asks for it."""

    def __init__(self, run: RunFolder, cluster: str = "") -> None:
        """:param cluster: key by which queries were drawn together, as for :class:`Rows`."""
        self.run, self.rows = run, Rows(run, cluster=cluster)
        self._numbers: dict[tuple[str, bytes], Estimate | None] = {}

    @cached_property
    def headlines(self) -> tuple[Headline, ...]:
        """One per scoring; whether they are above chance is one family of claims."""
        lines = [self._headline(scoring) for scoring in self.rows.scorings]
        missing = lacks_frequency(self.rows)
        claims = [above_chance(line.scoring, line.baselines.get(ACCURACY, ()), missing) for line in lines]
        decisions = decide_all(claims)
        return tuple(replace(line, decision=decision) for line, decision in zip(lines, decisions, strict=True))

    def summary(self, by: Sequence[str] = (), every: bool = False) -> Summary:
        """See :func:`summarise`."""
        crossed = [tuple(key.strip() for key in keys.split("+")) for keys in by]
        binned = {key: found for key in dict.fromkeys(sum(crossed, ())) if (found := bins_of(self.rows, key))}
        unknown = [f"'{key}'" for keys in crossed for key in keys if key not in self.keys and key not in binned]
        if unknown:
            raise BadInput(f"the run cannot be broken down by {', '.join(unknown)}: it has {', '.join(self.keys)}")
        breakdowns = tuple(self._breakdown(keys, binned) for keys in crossed)
        notes, tasks, above = self.rows.declared.notes, None, ""
        if any(line.baselines for line in self.headlines) and (lacking := why_no_names(self.rows, self._baselines)):
            notes = (*notes, lacking)
        model = short_names([self.run])[0]
        if self.rows.declared.headline == "tasks":
            tasks, decisions = task_table(self.run, self.rows, (*notes, *_reasons(self.headlines)))
            above = above_in_words(model, decisions)
        searched = self.rows.searched()
        candidates = float(np.nanmax(self.rows.number_of_candidates, initial=0)) or float("inf")
        return Summary(
            len(self.rows.query_ids),
            self.headlines,
            model,
            candidates,
            breakdowns,
            notes,
            tasks,
            searched,
            every,
            above,
        )

    def _breakdown(self, keys: tuple[str, ...], binned: Mapping[str, Bins]) -> Breakdown:
        names = tuple(binned[key].name if key in binned else key for key in keys)
        trend = trend_table(self.rows, binned[keys[0]]) if len(keys) == 1 and keys[0] in binned else None
        own = {found.name: found for key, found in binned.items() if key in keys}
        return Breakdown(names, tuple(self._parts(names, own)), trend)

    def json(self) -> dict[str, Any]:
        """The content of RUN/metrics.json: per scoring numbers with interval and recipe, and the usual breakdowns."""
        scorings: dict[str, Any] = {
            line.scoring: {
                "templates": list(line.templates),
                "queries": line.queries,
                "predictions": line.predictions,
                "unscored": line.unscored,
                "reasons": dict(line.reasons),
                "accuracy_deviation_over_templates": line.deviation,
                "metrics": {name: number.plain() for name, number in line.numbers.items()},
                "baselines": {name: {one.baseline: one.plain() for one in own} for name, own in line.baselines.items()},
                "verdict": line.decision.plain() if line.decision is not None else None,
                "by": {},
            }
            for line in self.headlines
        }
        for key in STANDARD_BREAKDOWNS:
            if key in self.keys:
                for part in self._parts((key,)):
                    scorings[part.scoring]["by"].setdefault(key, {})[part.keys[0]] = _plain_part(part)
        return {
            "format": FORMAT,
            "fathom": str(self.rows.identity.get("version", "")),
            "queries": len(self.rows.query_ids),
            "scorings": scorings,
        }

    def number(self, wanted: Metric, asked: Ints) -> Estimate | None:
        """Of predictions of one scoring; remembered."""
        key = wanted.name, asked.tobytes()
        if key not in self._numbers:
            self._numbers[key] = measure(self.rows, wanted, asked)
        return self._numbers[key]

    @cached_property
    def _baselines(self) -> dict[str, Ranked | ByLot]:
        return baselines(self.rows)

    def _headline(self, scoring: str) -> Headline:
        rows = self.rows
        asked = rows.of(scoring)
        scored = asked[rows.scored[asked]]
        reasons = Counter(reason for place in asked.tolist() if (reason := rows.reason[place]) is not None)
        per_template = self._template_means(scored)
        shown = {wanted.name: wanted for wanted in self._shown()}
        numbers = {name: told for name, wanted in shown.items() if (told := self.number(wanted, asked)) is not None}
        baselines_of_each = ((name, compared_with(rows, shown[name], asked, self._baselines)) for name in numbers)
        return Headline(
            scoring=scoring,
            templates=tuple(sorted(set(rows.template[asked].tolist()))),
            queries=len(set(rows.query[asked].tolist())),
            predictions=len(asked),
            unscored=len(asked) - len(scored),
            reasons=dict(reasons.most_common()),
            deviation=float(np.std(per_template, ddof=1)) if len(per_template) > 1 and not rows.natural else None,
            numbers=numbers,
            baselines={name: found for name, found in baselines_of_each if found},
        )

    def _shown(self) -> list[Metric]:
        """The metrics of a headline: accuracy, Hits@k of the probe's cuts, and all others of the table."""
        declared = self.rows.declared
        cuts = [*declared.cuts, *([100] if self.rows.most_candidates > 100 else [])]
        accuracy, *others = METRICS.entries()
        others = [other for other in others if not other.further or other.name in declared.further]
        return [accuracy, *(hits(k) for k in cuts if k > 1), *others]

    def _template_means(self, places: Ints) -> list[float]:
        """Accuracy of each template's predictions."""
        templates, values = self.rows.template[places], self.rows.hits(1)
        return [float(values[places[templates == template]].mean()) for template in np.unique(templates)]

    @cached_property
    def keys(self) -> list[str]:
        """What the run can be broken down by."""
        in_bins = [name for name, key in OF_NUMBERS.items() if key in self.rows.keys]
        return list(dict.fromkeys(("template", "scoring", *self.rows.keys, *in_bins)))

    def _parts(self, by: Sequence[str], binned: Mapping[str, Bins] = MappingProxyType({})) -> list[BreakdownPart]:
        """One per combination of values that occurs, and scoring; sorted, templates as numbers.

        :param binned: keys of numbers, by the names that stand in *by*.
        """
        rows = self.rows
        of_query = [
            [[binned[key].labels[query]] if key in binned else rows.values_of(query, key) for key in by]
            for query in range(len(rows.query_ids))
        ]
        places_of: dict[tuple[str, tuple[Any, ...]], list[int]] = {}
        for place, (query, template, scoring) in enumerate(
            zip(rows.query.tolist(), rows.template.tolist(), rows.scoring, strict=True)
        ):
            own = {"template": [template], "scoring": [scoring]}
            choices = [own.get(key, values) for key, values in zip(by, of_query[query], strict=True)]
            for keys in product(*choices):
                places_of.setdefault((scoring, keys), []).append(place)
        order = {scoring: number for number, scoring in enumerate(rows.scorings)}

        def in_order(part: tuple[str, tuple[Any, ...]]) -> tuple[Any, ...]:
            values = zip(by, part[1], strict=True)
            own = (binned[key].order.index(value) if key in binned else value for key, value in values)
            return order[part[0]], *own

        return [
            self._part(by, scoring, tuple(map(str, keys)), np.array(places_of[scoring, keys]))
            for scoring, keys in sorted(places_of, key=in_order)
        ]

    def _part(self, by: Sequence[str], scoring: str, keys: tuple[str, ...], asked: Ints) -> BreakdownPart:
        """What was selected is said in the recipes; template and scoring are there already."""
        rows = self.rows
        chosen = zip(by, keys, strict=True)
        selected = "".join(f"|{key}:{value}" for key, value in chosen if key not in ("template", "scoring"))
        wanted = (*_OF_PARTS, *rows.declared.by)
        found = ((name, self.number(metric(name), asked)) for name in wanted)
        told = {name: number._replace(recipe=number.recipe + selected) for name, number in found if number is not None}
        n = int(rows.scored[asked].sum())
        return BreakdownPart(keys, scoring, len(set(rows.query[asked].tolist())), n, len(asked) - n, told)


def summarise(run: RunFolder, by: Sequence[str] = (), cluster: str = "", every: bool = False) -> Summary:
    """All numbers of *run*.

    :param by: one breakdown each: template, scoring, relation, direction, or any key of the queries' groups. Keys
        joined by "+" are crossed: "relation+template" gives one line per pair. A group "A; B" counts in A and in B.
        Keys of numbers (popularity, answer_popularity, period) are told in five bins of like size, with the trend;
        "key:10" takes another number of bins, or another key of numbers.
    :param cluster: what queries are drawn by, for the intervals; see :mod:`fathom.results.samples`.
    :param every: show readers every metric, not only the usual ones.
    :raises BadInput: an unknown key (all that there are get named), or predictions that are not of one run.
    """
    return RunNumbers(run, cluster).summary(by, every)


# --- sentences, tables and JSON


def _sentence(line: Headline, model: str) -> str:
    """Return "gpt2 (sum/full) knows 61.5 % [50.5, 71.5] of 80 facts, above random guessing (5.0 %), …"."""
    share = line.accuracy
    if share is None:
        return f"{model} ({line.scoring}): {NOTHING}."
    ends = "" if share.low is None or share.high is None else f" [{100 * share.low:.1f}, {100 * share.high:.1f}]"
    said = f"{model} ({line.scoring}) answers {percent(share.value)}{ends} of {line.queries:,} queries correctly"
    found = line.baselines.get(ACCURACY, ())
    values = ", ".join(f"{one.baseline} {percent(one.value)}" for one in found)
    if line.decision is None:
        return f"{said}; no baseline is known."
    if line.decision.holds:
        return f"{said}, more than every baseline ({values})."
    if line.decision.word == NO_DIFFERENCE:
        return f"{said}, {verdict_of(line.decision)} ({values})."
    return f"{said}. Whether this is above chance {line.decision.word}: {line.decision.reason}."


USUAL = ("accuracy", "mrr", "hits@10", "consistency", "f1")
"""Metrics that readers see by default."""


def _is_usual(name: str, candidates: float) -> bool:
    """Whether a metric is shown by default: Hits@10 of ten candidates says nothing."""
    return name in USUAL and not (name == "hits@10" and candidates <= 10)


def _headline_table(summary: Summary, every: bool) -> Table:
    known = {one.baseline for line in summary.headlines for found in line.baselines.values() for one in found}
    baselines_shown = [name for name in NAMES if name in known]
    rows: list[dict[str, Cell | Estimate]] = []
    notes = []
    for line in summary.headlines:
        shown = {n: one for n, one in line.numbers.items() if every or _is_usual(n, summary.candidates)}
        if line.accuracy is None:
            shown[ACCURACY] = untold(NOTHING)
        for name, number in shown.items():
            others = {one.baseline: one.value for one in line.baselines.get(name, ())}
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
    legends = ["baselines: " + "; ".join(LEGENDS[name] for name in baselines_shown)] if known else []
    rest = [] if every else ["--all shows every metric"]
    hidden = {"verdict"}  # the answer says it
    hidden |= {"scoring"} if len(summary.headlines) == 1 else set()
    hidden |= set() if deviations else {"deviation"}
    hidden |= set() if any(line.unscored for line in summary.headlines) else {"unscored"}
    below = (f"{summary.queries:,} queries{deviation}", *legends, *summary.notes, *notes, *rest)
    formats = dict.fromkeys((*baselines_shown, "deviation"), ".1%")  # where all rows are shares
    return Table.of(rows, "Results", below, hidden=hidden, formats=formats)


def _reasons(headlines: Sequence[Headline]) -> list[str]:
    """Why predictions are unscored, each reason once."""
    told = (f"{count} × unscored: {why}" for line in headlines for why, count in _alike(line.reasons))
    return list(dict.fromkeys(told))


def _notes(line: Headline, shown: Mapping[str, Estimate], queries: int) -> list[str]:
    """Return what limits the numbers of a scoring. :param shown: those that the table has."""
    notes = [f"{line.scoring}: {count} × unscored: {why}" for why, count in _alike(line.reasons)]
    if line.queries < queries:
        notes.append(f"{line.scoring}: {line.queries} of {queries} queries were asked so far")
    told = grouped((number.note, name) for name, number in shown.items() if number.note)
    told_of = sum(number.sample != "" for number in shown.values())
    notes += [
        f"{line.scoring}{'' if len(names) == told_of else ', ' + ', '.join(names)}: {note}"
        for note, names in told.items()
    ]
    return notes


def _alike(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """Reasons and how often each, those that differ only in numbers as one with their range: "of 101 to 125 tokens"."""
    groups = grouped((tuple(_NUMBER.split(why)), why) for why in reasons)
    together = [(_in_one(words, whys), sum(map(reasons.__getitem__, whys))) for words, whys in groups.items()]
    return sorted(together, key=lambda line: -line[1])


def _in_one(words: tuple[str, ...], whys: Sequence[str]) -> str:
    """:param words: what *whys* share, between their numbers."""
    ranges = [
        f"{min(found, key=int)} to {max(found, key=int)}" if len(set(found)) > 1 else found[0]
        for found in zip(*map(_NUMBER.findall, whys), strict=True)
    ]
    return words[0] + "".join(found + rest for found, rest in zip(ranges, words[1:], strict=True))


def _parts_table(found: Breakdown) -> Table:
    by = found.by if "scoring" in found.by else ("scoring", *found.by)
    # Written answers have no rank but a precision.
    written = any("precision" in part.numbers for part in found.parts)
    further = ("precision", "recall", "f1") if written else ("mrr", *_ranked_too(found))
    rows = [
        {
            **dict(zip(by, part.keys if "scoring" in found.by else (part.scoring, *part.keys), strict=True)),
            "queries": part.queries,
            "n": part.n,
            "unscored": part.unscored,
            "accuracy": part.accuracy or untold(NOTHING),
            **{name: part.numbers[name].value if name in part.numbers else None for name in further},
        }
        for part in found.parts
    ]
    formats = {name: metric(name).shown for name in further}
    return Table.of(rows, f"By {' and '.join(found.by)}", formats=formats)


def _ranked_too(found: Breakdown) -> list[str]:
    """What the probe declares of its breakdowns besides."""
    return list(dict.fromkeys(name for part in found.parts for name in part.numbers if name not in _OF_PARTS))


def _plain_part(part: BreakdownPart) -> dict[str, Any]:
    usual = _OF_PARTS if "precision" in part.numbers else _OF_PARTS[:2]
    names = dict.fromkeys((*usual, *part.numbers))
    told = {name: part.numbers[name].plain() if name in part.numbers else None for name in names}
    return {"queries": part.queries, "n": part.n, "unscored": part.unscored, **told}

"""The JSON of ``fathom compare``, a contract for other programs: see docs/howto/ci.md.

Differences, margins and ends of intervals are in points: 2 is a share of 0.02.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.results.claims import Decision
from fathom.results.comparison import ComparedPair, Comparison, Difference

Verdict = Literal["significant", "opposite", "no significant difference", "equivalent", "cannot be determined"]
Row = dict[str, str | int | float | bool | None]
MarginVerdict = Literal["equivalent", "not worse", "worse", "undecided"]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class ComparedRun(Record):
    run: str = Field(description="label of the run")
    model: str
    probe: str
    scoring: str
    data: str
    path: str
    facts: int = Field(description="number of scored facts")
    unscored: int


class MetricDifference(Record):
    metric: str
    first_value: float | None = Field(description="over the common facts, in points")
    second_value: float | None
    difference: float | None = Field(description="first minus second, paired by fact, in points")
    low: float | None = Field(description="lower end of its 95 % interval; of the primary metric simultaneous")
    high: float | None
    p_value: float | None = Field(description="two-sided; of the primary metric adjusted by Holm over all verdicts")
    smallest: float | None = Field(description="true difference found in 80 % of cases, in points")
    note: str = Field(description="why to be careful; may be empty")


class ComparedRuns(MetricDifference):
    """Two runs, in the primary metric; the first is the reference."""

    first: str
    second: str
    facts: int = Field(description="number of facts that both scored")
    only_first: int
    only_second: int
    verdict: Verdict
    reason: str
    higher: str | None = Field(description="label of the run that is significantly higher; null without one")
    rough: bool = Field(description="whether the interval was not simulated to hold here; the note says why")
    margin: float | None = Field(description="smallest difference that matters, in points; null if none was given")
    margin_verdict: MarginVerdict | None = Field(description="of the second run against the first")
    equivalent: bool | None
    not_worse: bool | None
    worse: bool | None
    margin_low: float | None = Field(description="lower end of the interval of the tests against the margin, in points")
    margin_high: float | None
    secondary: list[MetricDifference] = Field(description="other metrics, without verdicts")


class DecidedClaim(Record):
    """A claim that needs a control, or one over several seeds of training."""

    claim: str
    verdict: Verdict
    reason: str
    p_value: float | None


class NotCompared(Record):
    first: str
    second: str
    why: str


class CheckedRate(Record):
    claim: str
    wrong: float = Field(description="share of simulated nulls that support the claim, in points")
    low: float | None = Field(description="lower end of its 95 % interval")
    high: float | None
    nulls: int
    rough: bool


class ComparisonRecord(Record):
    """What ``fathom compare --format json`` prints."""

    format_version: Literal[1] = 1
    """Raised when a field is removed or changes its meaning; new fields may come at any time."""

    answer: list[str] = Field(description="the result in sentences; their wording may change")
    metric: str = Field(description="the primary metric, which decides")
    runs: list[ComparedRun]
    pairs: list[ComparedRuns]
    claims: list[DecidedClaim]
    not_compared: list[NotCompared]
    plans: list[Row] = Field(description="of --detect: numbers needed")
    checks: list[CheckedRate] = Field(description="of --check")
    tables: dict[str, list[Row]] = Field(description="altered sentences and agreement of probes, where there are any")


def record_of(comparison: Comparison) -> ComparisonRecord:
    """Return a comparison as other programs read it."""
    claims = [*comparison.controlled, *comparison.over_seeds]
    return ComparisonRecord(
        answer=comparison.answer,
        metric=comparison.metrics[0].name,
        runs=[
            ComparedRun(
                run=line.name,
                facts=line.facts,
                unscored=line.left_out,
                **{name: getattr(line.outcome, name) for name in ("model", "probe", "scoring", "data", "path")},
            )
            for line in comparison.runs
        ],
        pairs=[_pair(pair, [metric.name for metric in comparison.metrics]) for pair in comparison.pairs],
        claims=[
            DecidedClaim.model_validate({"claim": decision.claim.name, **_verdict(decision)}) for decision in claims
        ],
        not_compared=[
            NotCompared(first=pair.first, second=pair.second, why=pair.why) for pair in comparison.not_compared
        ],
        plans=[
            {_snake_case(key): value for key, value in (plan | {"detect": _points(plan["detect"])}).items()}
            for plan in comparison.plans
        ],
        checks=[
            CheckedRate(
                claim=check.claim,
                wrong=100 * check.rate.value,
                low=_points(check.rate.low),
                high=_points(check.rate.high),
                nulls=check.rate.n,
                rough=check.is_rough,
            )
            for check in comparison.checks
        ],
        tables={
            _snake_case(table.title): [
                {_snake_case(name): cell for name, cell in row.items()} for row in table.objects()
            ]
            for table in comparison.further_tables
        },
    )


def _pair(pair: ComparedPair, metrics: list[str]) -> ComparedRuns:
    primary, decision = pair.differences[0], pair.decision
    by_margin = decision.by_margin
    about = {
        "first": pair.first,
        "second": pair.second,
        "facts": pair.facts,
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "higher": pair.higher,
        "rough": decision.is_rough,
        "margin": _points(decision.claim.margin),
        "margin_verdict": by_margin and by_margin.word,
        "equivalent": by_margin and by_margin.is_equivalent,
        "not_worse": by_margin and by_margin.is_not_worse,
        "worse": by_margin and by_margin.is_worse,
        "margin_low": by_margin and _points(by_margin.low),
        "margin_high": by_margin and _points(by_margin.high),
        "secondary": [
            MetricDifference(**_difference(name, secondary))
            for name, secondary in list(zip(metrics, pair.differences, strict=True))[1:]
        ],
    }
    decided = {"low": _points(decision.low), "high": _points(decision.high), "smallest": _points(decision.smallest)}
    return ComparedRuns.model_validate(_difference(metrics[0], primary) | about | decided | _verdict(decision))


def _difference(metric: str, pair: Difference) -> dict[str, object]:
    number = pair.number
    return {
        "metric": metric,
        "first_value": _points(pair.first),
        "second_value": _points(pair.second),
        "difference": _points(number.value),
        "low": _points(number.low),
        "high": _points(number.high),
        "p_value": number.p_value,
        "smallest": _points(number.smallest),
        "note": number.note,
    }


def _verdict(decision: Decision) -> dict[str, object]:
    return {"verdict": decision.word, "reason": decision.reason, "p_value": decision.p_value}


def _points(share: float | None) -> float | None:
    """Return a share in points; None for NaN."""
    return None if share is None or math.isnan(share) else 100 * share


def _snake_case(name: str) -> str:
    return "_".join(re.findall(r"[\w@]+", name.lower()))

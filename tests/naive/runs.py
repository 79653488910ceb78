"""Predictions of a run as its Parquet files have them, and their numbers from the definitions."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq

from tests.naive.intervals import SHARE, Fold, Number, first, interval

Row = dict[str, Any]
Value = Callable[[Row], float]


def read_rows(run: Path, scoring: str = "") -> list[Row]:
    """Scored predictions in their order, each with its query's fact, relation, gold answers and groups."""
    queries = {row["query_id"]: row for row in pq.read_table(run / "queries.parquet").to_pylist()}
    rows = []
    for file in sorted((run / "predictions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            query = queries[row["query_id"]]
            row |= {
                name: query[name] for name in ("relation", "gold", "candidates", "known", "subject_id", "distances")
            }
            row |= {"fact": query["fact_id"] or row["query_id"], "groups": dict(query["groups"])}
            if row["scoring"] == scoring or not scoring:
                rows.append(row)
    order = {query: place for place, query in enumerate(queries)}
    return sorted(rows, key=lambda row: order[row["query_id"]])


def scored(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["unscored"] is None]


def manifest(run: Path) -> Row:
    content: Row = json.loads((run / "manifest.json").read_text())
    return content


def candidates(run: Path) -> dict[str, dict[str, str]]:
    """Names by ids of each candidate set."""
    spaces: dict[str, dict[str, str]] = defaultdict(dict)
    for row in pq.read_table(run / "candidates.parquet").to_pylist():
        spaces[row["set"]][row["id"]] = row["name"]
    return spaces


def hits(k: int) -> Value:
    """Expected Hits@k under random order of ties; 0 where the answer is not among the best, of which k are known."""

    def value(row: Row) -> float:
        low, high = row["rank_optimistic"], row["rank_pessimistic"]
        if low is None:
            if row["correct"] is not None:
                return float(row["correct"])
            assert row["rank_above"] >= k
            return 0.0
        return min(1.0, max(0.0, (k - low + 1) / (high - low + 1)))

    return value


def reciprocal(row: Row) -> float:
    """Expected 1 / rank under random order of ties."""
    return fmean(1 / rank for rank in range(row["rank_optimistic"], row["rank_pessimistic"] + 1))


def perplexity(row: Row) -> float:
    return math.exp(-row["prompt_log_prob"] / row["prompt_tokens"])


def drawn(rows: Sequence[Row]) -> dict[str, Any]:
    """How facts were drawn: within relations, and by subjects that recur. Whole relations need ten of similar size."""
    sizes = Counter(row["relation"] for row in rows)
    assert len(sizes) < 10
    return {"groups": [row["relation"] for row in rows], "subjects": [row["subject_id"] for row in rows]}


def by_fact(rows: Iterable[Row]) -> dict[str, list[Row]]:
    facts: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        facts[row["fact"]].append(row)
    return facts


def measure(
    rows: Sequence[Row],
    *values: Value,
    limits: tuple[float, float] = SHARE,
    by: str = "template",
    fold: Fold = first,
) -> Number:
    """The mean over templates of each template's mean, with its interval over facts.

    :param by: key of the rows whose means are averaged; "" to average predictions.
    """
    if not rows:
        return Number(None)
    counts = Counter(row[by] if by else "" for row in rows)
    facts = by_fact(rows)
    columns: list[list[float]] = [[] for _ in values]
    weights = []
    for own in facts.values():
        each = [1 / counts[row[by]] if by else 1.0 for row in own]
        weights.append(sum(each))
        for column, value in zip(columns, values, strict=True):
            column.append(sum(w * value(row) for w, row in zip(each, own, strict=True)) / weights[-1])
    return interval(columns, limits, weights, **drawn([own[0] for own in facts.values()]), fold=fold)


def mean_of_facts(
    values: Mapping[str, float], rows: Iterable[Row], limits: tuple[float, float] = SHARE, confidence: float = 0.95
) -> Number:
    """The mean of one value for each fact. :param rows: predictions of these facts, and perhaps of others."""
    facts = by_fact(rows)
    about = drawn([facts[fact][0] for fact in values])
    return interval([list(values.values())], limits, **about, confidence=confidence)


def per_fact(rows: Iterable[Row], value: Value) -> dict[str, float]:
    """The mean of each fact's predictions."""
    return {fact: fmean(map(value, own)) for fact, own in by_fact(rows).items()}


def columns(name: str, number: Number, main: bool = False, tested: bool = False) -> Row:
    """The cells of an estimate. :param main: whether its ends are called low and high alone."""
    prefix = "" if main else f"{name} "
    cells = {name: number.value, f"{prefix}low": number.low, f"{prefix}high": number.high}
    return cells | ({f"{prefix}p": number.p} if tested else {})

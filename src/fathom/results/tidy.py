"""Predictions as a table with few columns and names instead of ids, for data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fathom.results.rows import Rows
from fathom.store.folder import RunFolder


def tidy_table(run: RunFolder) -> pa.Table:
    """Return one row per prediction, in the order of the run; :meth:`fathom.Result.to_pandas` has the columns."""
    rows = Rows(run)
    places = range(len(rows.query))
    queries = rows.query.tolist()
    names = {space: dict(zip(*own, strict=True)) for space, own in rows.candidates.items()}

    def named(query: int, ids: Sequence[str]) -> str:
        own = names.get(rows.spaces[query] or "", {})
        return "; ".join(own.get(id_, id_) for id_ in ids)

    columns: dict[str, Sequence[Any]] = {
        "query_id": [rows.query_ids[query] for query in queries],
        "relation": rows.relation_of(),
        "direction": [rows.directions[query] for query in queries],
        "template": rows.template.tolist(),
        "scoring": rows.scoring,
        "subject": [rows.asked(place)[1] for place in places],
        "prompt": [rows.asked(place)[0] for place in places],
        "gold": [named(query, rows.gold[query]) for query in queries],
        "first_answer": [_first_answer(rows, place, named) for place in places],
        "correct": _numbers(rows.hits(1)),
        "rank": _numbers(rows.rank),
        "gold_score": [max(scores or (), default=None) for scores in rows.table.column("gold_scores").to_pylist()],
        "confidence": _numbers(rows.confidence.top_probability),
        "candidates": rows.number_of_candidates.astype(np.int64).tolist(),
        "unscored": rows.reason,
    }
    if not any(columns["direction"]):
        del columns["direction"]
    kinds = {"template": pa.int64(), "candidates": pa.int64()}
    kinds |= dict.fromkeys(("correct", "rank", "gold_score", "confidence"), pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])  # a column may be empty
    return pa.table({name: list(values) for name, values in columns.items()}, schema=schema)


def _first_answer(rows: Rows, place: int, named: Callable[[int, Sequence[str]], str]) -> str | None:
    if not rows.scored[place]:
        return None
    if best := sorted(rows.top_answers(place)):
        return named(int(rows.query[place]), best[:1])
    written = rows.table.column("answers")[place].as_py() if "answers" in rows.table.column_names else None
    return written[0] if written else None


def _numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]

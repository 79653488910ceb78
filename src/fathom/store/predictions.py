"""The schema of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa


class Scoring(NamedTuple):
    """A way in which a probe or a link predictor scores candidates.

    :param name: in the column ``scoring``, such as "sum/full".
    :param unit: of its scores: log-probabilities (nats), cosines, scores without a unit, or the credit of an answer,
        0 to 1. Confidence is defined for nats alone.
    :param parts: further columns of tables, such as (("masks", "several"), ("pooling", "mean")).
    """

    name: str
    unit: Literal["nats", "cosine", "score", "credit"]
    parts: tuple[tuple[str, str], ...] = ()


_TOKENS = [("id", pa.string()), ("tokens", pa.list_(pa.string())), ("log_probs", pa.list_(pa.float32()))]
SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("template", pa.int32()),
        ("scoring", pa.string()),
        ("subject", pa.string()),
        ("prompt", pa.string()),
        ("rank", pa.float64()),
        ("rank_optimistic", pa.int64()),
        ("rank_pessimistic", pa.int64()),
        ("rank_above", pa.int64()),
        ("num_candidates", pa.int64()),
        ("not_ranked", pa.string()),
        ("gold_scores", pa.list_(pa.float64())),
        ("gold_tokens", pa.list_(pa.int64())),
        ("gold_ranks", pa.list_(pa.float64())),
        ("top_ids", pa.list_(pa.string())),
        ("top_scores", pa.list_(pa.float64())),
        ("scores", pa.list_(pa.float64())),
        ("scored_tokens", pa.int64()),
        ("mixed_tokens", pa.int64()),
        ("tokens_run", pa.int64()),
        ("tokens_full", pa.int64()),
        ("tokens_naive", pa.int64()),
        ("answers", pa.list_(pa.string())),
        ("answer_ids", pa.list_(pa.string())),
        ("letters", pa.list_(pa.string())),
        ("gold_letters", pa.list_(pa.string())),
        ("correct", pa.float64()),
        ("precision", pa.float64()),
        ("recall", pa.float64()),
        ("prompt_log_prob", pa.float64()),
        ("prompt_tokens", pa.int64()),
        ("token_log_probs", pa.list_(pa.struct(_TOKENS))),
        ("unscored", pa.string()),
    ]
)
"""One row per query, template and scoring; docs/run-folder.md explains the columns.

Lists of gold answers are in their order, and their ranks unfiltered. ``scores``, of all candidates in their order, are
kept up to 1,000. Special tokens are in no sum of log-probabilities.
"""


def as_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of a shard in the schema."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


LATER = ("prompt_log_prob", "prompt_tokens", "not_ranked", "letters", "gold_letters", "token_log_probs")
"""Columns that runs of version 0.1.0 or earlier lack."""
NO_TEMPLATE = -1
"""Value of the column ``template`` where few-shot lines or nothing replaces the relation's template."""
KEEP_SCORES_UP_TO = 1000

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
"""One row per query, template and scoring.

``template``: its index, −1 for none. ``rank``: of the best gold answer, 1-based, other known answers filtered, the mean
of optimistic and pessimistic; null where there is none. ``rank_above``: the search stopped, the rank is greater.
``num_candidates``: how many were ranked; ``not_ranked``: digest of those that could not be, null where all were.
``gold_*``: lists in gold order, ranks unfiltered. ``scores``: all candidates in their order, kept up to 1,000.
``scored_tokens``: tokens summed over in the best gold answer's statement. ``mixed_tokens``: tokens of that statement
that hold letters from inside and outside the answer. ``tokens_*``, where the exact search was used: tokens the query
cost, cost without pruning, and would cost one statement at a time.
``answers``: of the model; ``answer_ids``: the entity that each of them names, null if unknown; ``correct``: credit from
0 to 1 (generation: the F1 of ``precision`` and ``recall``).
``letters``, of multiple choice with letters: chosen in each order of the options, null for none or a tie;
``gold_letters``: of the gold option.
``prompt_log_prob``, where ``--perplexity`` was asked for: nats, the sum over the ``prompt_tokens`` scored tokens of the
prompt with the (first) gold answer in it; special tokens are not scored.
``token_log_probs``, with ``--keep-tokens``: the statements with the best gold answer and, if that is another, the first
answer. For each the answer's id, its tokens without special ones, and their scores in nats, null for tokens that
``scoring`` does not count. Their sum, or mean, is the answer's score.
``unscored``: why there is no rank and no credit.
Scores are natural logarithms, cosines or link scores, as ``scoring`` says.
"""


def as_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of a shard in the schema."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


LATER = ("prompt_log_prob", "prompt_tokens", "not_ranked", "letters", "gold_letters", "token_log_probs")
"""Columns that runs of version 0.1.0 or earlier lack."""
NO_TEMPLATE = -1
"""Value of the column ``template`` where few-shot lines or nothing replaces the relation's template."""
KEEP_SCORES_UP_TO = 1000

"""From scores of tokens to scores of statements: by hand, and all at once as one by one, to the last bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fathom.engine.models.base import Attention
from fathom.engine.scoring.statements import (
    Reduction,
    Score,
    ScoredStatement,
    StatementScoring,
    counted_tokens,
    reduce_all,
    reduce_scores,
)
from fathom.engine.scoring.tokens import Role, Tokens

SPECIAL, TEMPLATE, SUBJECT, ANSWER = map(int, Role)
WAYS = [StatementScoring(reduction, score) for reduction, score in product(Reduction, Score)]


def scored(roles: list[int], log_probs: list[float] | None) -> ScoredStatement:
    own = np.array(roles, dtype=np.int64)
    tokens = Tokens(np.zeros_like(own), own, np.zeros_like(own), 0)
    return ScoredStatement(tokens, None if log_probs is None else np.array(log_probs, dtype=np.float32))


@pytest.mark.parametrize(
    ("attention", "score", "expected"),
    [  # of BOS, subject, template, answer, template with −1, −2, −4, −8, −16 nats, and of answer, special, answer,
        # whose first token a causal model cannot score
        (Attention.CAUSAL, Score.FULL, [-30, None]),
        (Attention.CAUSAL, Score.CONDITIONAL, [-24, None]),
        (Attention.CAUSAL, Score.ANSWER, [-8, None]),
        (Attention.BIDIRECTIONAL, Score.FULL, [-30, -160]),
        (Attention.BIDIRECTIONAL, Score.CONDITIONAL, [-8, -160]),
        (Attention.BIDIRECTIONAL, Score.ANSWER, [-8, -160]),
        (Attention.SEQ2SEQ, Score.CONDITIONAL, [-24, -160]),
    ],
)
def test_what_counts_by_hand(attention, score, expected):
    statements = [
        scored([SPECIAL, SUBJECT, TEMPLATE, ANSWER, TEMPLATE], [-1, -2, -4, -8, -16]),
        scored([ANSWER, SPECIAL, ANSWER], [-32, -64, -128]),
    ]
    scores = reduce_all(statements, StatementScoring(Reduction.SUM, score), attention).scores.tolist()
    assert [None if np.isnan(value) else value for value in scores] == expected


@pytest.mark.parametrize("attention", list(Attention))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_all_at_once_are_one_by_one(way, attention):
    """Texts of up to 300 tokens, some of none, some without a score, some in which nothing counts."""
    draw = np.random.default_rng(0)
    statements = [scored([], []), scored([SPECIAL, SPECIAL], [np.nan, -1])]
    for length in (1, 2, 3, 7, 8, 9, 16, 100, 129, 300):
        for _ in range(20):
            roles = draw.choice([SPECIAL, TEMPLATE, SUBJECT, ANSWER], size=length, p=[0.1, 0.4, 0.2, 0.3]).tolist()
            values = (-draw.exponential(5.0, size=length)).tolist()
            statements.append(scored(roles, None if draw.random() < 0.1 else values))
    statements.append(scored([], None))
    found = reduce_all(statements, way, attention)
    counted = [counted_tokens(one.tokens, way.score, attention) for one in statements]
    begins_with_answer = [list(one.tokens.roles[:1]) == [ANSWER] for one in statements]
    one_by_one = [
        np.nan
        if one.log_probs is None or (is_first and attention is Attention.CAUSAL)
        else reduce_scores(one.log_probs, which, way.reduction)
        for one, which, is_first in zip(statements, counted, begins_with_answer, strict=True)
    ]
    np.testing.assert_array_equal(found.scores, one_by_one)
    assert found.counts.tolist() == [int(which.sum()) for which in counted]


def test_of_no_statement_there_is_nothing():
    found = reduce_all([], WAYS[0], Attention.CAUSAL)
    assert (found.scores.shape, found.counts.shape) == ((0,), (0,))

"""The one builder of prediction rows, and the batches in which things are scored; each value worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fathom.base.errors import RunFailed
from fathom.data.queries import CandidateSet, Query
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import PromptedQuery, RankResult, Ranks, result_columns, score_columns, unscored
from fathom.results.rows import read_declarations
from fathom.store.predictions import KEEP_SCORES_UP_TO, SCHEMA, Scoring
from tests.messages import mentioned, mentions

SPACE = CandidateSet("s", ("a", "b", "c", "d"), ("A", "B", "C", "D"))
ASKED = Query("q", "r", "X", "x", ("b", "d"), "s", known=("a",))
SCORES = np.array([5.0, 3.0, 3.0, 1.0])  # a is known and does not count: b ties with c for the first place
NATS = (Scoring("sum", "nats"), Scoring("mean", "nats"))


def scored(scores=SCORES, query=ASKED, **more):
    return score_columns(query, SPACE, np.asarray(scores), [1, 2], [1, 2, 3, 4], **{"top_k": 3, **more})


def test_ranks_ties_and_lists():
    row = scored()
    assert (row["rank"], row["rank_optimistic"], row["rank_pessimistic"], row["rank_above"]) == (1.5, 1, 2, None)
    assert row["gold_ranks"] == [2.5, 4]  # unfiltered: a is above, b and c share places 2 and 3
    assert (row["gold_scores"], row["gold_tokens"]) == ([3, 1], [1, 2])
    assert (row["top_ids"], row["top_scores"]) == (["a", "b", "c"], [5, 3, 3])
    assert (row["scores"], row["scored_tokens"], row["unscored"]) == ([5, 3, 3, 1], 2, None)


def test_who_is_not_ranked_takes_no_place():
    ranked = np.array([True, False, True, True])
    row = scored([5.0, np.nan, 3.0, 1.0], ranked=ranked)
    assert (row["rank"], row["scored_tokens"]) == (2, 4)  # d below c; a is known
    np.testing.assert_equal(row["gold_ranks"], [np.nan, 3])
    np.testing.assert_equal(row["gold_scores"], [np.nan, 1])
    assert (row["top_ids"], row["scores"]) == (["a", "c", "d"], [5, -np.inf, 3, 1])


def test_beyond_max_rank_the_rank_is_only_known_to_be_greater():
    first = ASKED.__class__("q", "r", "X", "x", ("d",), "s")
    row = score_columns(first, SPACE, SCORES, [2], [1, 2, 3, 4], top_k=1, max_rank=2)
    assert (row["rank_above"], row["scores"], row["top_ids"]) == (2, None, ["a"])
    assert "rank" not in row
    assert scored(max_rank=2)["rank"] == 1.5


@pytest.mark.parametrize(("more", "reason"), [
    ({}, ("1 of 4 candidates", "not a number")),
    ({"what": "options"}, ("1 of 4 options", "not a number")),
    ({"fault": "too long"}, "too long"),
    ({"ranked": np.array([True, True, True, False])}, ("1 of 3 candidates", "not a number")),
])  # fmt: skip
def test_nan_is_unscored(more, reason):
    row = scored([np.nan, 3.0, 3.0, 1.0], **more)
    assert mentioned(row["unscored"], reason)
    assert row["gold_scores"] == [3, 1]
    assert "rank" not in row
    assert "top_ids" not in row


def test_scores_of_many_candidates_are_not_kept():
    ids = tuple(map(str, range(KEEP_SCORES_UP_TO + 1)))
    query, space = Query("q", "r", "X", "x", ("7",), "s"), CandidateSet("s", ids, ids)
    row = score_columns(query, space, np.arange(len(ids)), [1], [1] * len(ids), top_k=1)
    assert (row["scores"], row["rank"], row["top_ids"]) == (None, len(ids) - 7, [ids[-1]])


def test_a_row_for_each_scoring_has_the_columns_of_the_schema():
    asked = PromptedQuery(ASKED, 2, "X is [Y]", 4, (-3.5, 7))
    rows = asked.rows(NATS, [scored(), unscored("no")])
    assert [row["scoring"] for row in rows] == ["sum", "mean"]
    assert {name for row in rows for name in row} <= set(SCHEMA.names)
    assert (rows[0]["prompt_log_prob"], rows[0]["prompt_tokens"], rows[0]["prompt"]) == (-3.5, 7, "X is [Y]")
    assert [row["unscored"] for row in asked.rows(NATS, "the subject has no name")] == ["the subject has no name"] * 2


def test_what_a_search_has_found():
    row = result_columns(RankResult(Ranks(1, 3), [0.5], [2.0], [(2, 0.9), (1, 0.5)], above=None), SPACE)
    assert (row["rank"], row["top_ids"], row["gold_ranks"], row["scores"]) == (2, ["c", "b"], [2.0], None)
    row = result_columns(RankResult(None, [], [], [], above=10), SPACE)
    assert (row["rank_above"], row["gold_scores"], row["gold_ranks"], row["top_ids"]) == (10, None, None, [])


def pack(budget):
    def of(start: int) -> tuple[range, int]:
        stop = min(10, start + budget.tokens // 16)
        return range(start, stop), stop

    return of


def test_batches_halve_where_memory_ends_and_lose_nothing():
    budget, tried = Budget(64, torch.device("cpu")), []

    def run(some: range) -> int:
        tried.append(len(some))
        if len(some) > 1 and len(tried) > 1:  # memory ends after the first batch of four
            raise torch.OutOfMemoryError
        return sum(some)

    found = list(budget.batches(10, pack(budget), run))
    assert [list(batch) for batch, _ in found] == [[0, 1, 2, 3], [4], [5], [6], [7], [8], [9]]
    assert sum(result for _, result in found) == 45
    assert (tried[:4], budget.tokens, budget.halvings) == ([4, 4, 2, 1], 16, 2)


def test_memory_for_nothing_ends_the_run():
    def run(some: range) -> int:
        raise MemoryError

    budget = Budget(32, torch.device("cpu"))
    with pytest.raises(RunFailed, match=mentions("16")):
        list(budget.batches(10, pack(budget), run))


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def run(some: range) -> int:
        raise RuntimeError("size mismatch")

    budget = Budget(32, torch.device("cpu"))
    with pytest.raises(RuntimeError, match="size mismatch"):
        list(budget.batches(10, pack(budget), run))


def test_sequences_that_fit_together():
    budget, lengths = Budget(12, torch.device("cpu")), [2, 2, 3, 3, 6, 20]
    assert budget.fitting(lengths, 0) == 4  # four of 3 tokens
    assert budget.fitting(lengths, 0, equal=True) == 2
    assert budget.fitting(lengths, 4) == 5
    assert budget.fitting(lengths, 5) == 6  # one that is too long runs alone


def test_what_a_manifest_says_of_seeds() -> None:
    identity = {"probe": "statement", "options": {"seed": 7, "limit": None, "dtype": "float32"}}
    told = read_declarations({"identity": identity})
    assert "seed" not in told.options  # without a limit it changes nothing
    few = {**identity, "options": {"seed": 7, "limit": 20}}
    limited = read_declarations({"identity": few})
    assert (limited.options["seed"], limited.options["limit"], limited.notes) == ("7", "20", ())

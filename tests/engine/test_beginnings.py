"""Long shared beginnings: kept once, scored as the model itself does, wherever the passes are cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fathom.engine.scoring.causal
from fathom.engine.models.base import KeyValues
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.causal import by_cache, causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.trie import build_trie
from tests.conftest import TINY_SPECIAL, TINY_VOCABULARY, make_local, own_log_probs
from tests.engine.test_causal import TREES, close, network, score, statements

CPU = torch.device("cpu")
WINDOW = 64
"""Of most models in TREES."""


def behind_a_beginning(length: int = 40) -> list[list[int]]:
    """Statements behind one beginning of *length* tokens, some behind half of it and a long end."""
    rng = np.random.default_rng(7)
    beginning = [0, *rng.integers(TINY_SPECIAL, TINY_VOCABULARY, length - 1).tolist()]
    found = [beginning + one[1:] for one in statements()]
    return found + [beginning[: length // 2] + rng.integers(TINY_SPECIAL, TINY_VOCABULARY, 30).tolist() for _ in "ab"]


def kept(model: LocalModel, ids: list[list[int]], budget: Budget) -> list[np.ndarray]:
    trie = build_trie(ids)
    with torch.inference_mode():
        found = by_cache(model, trie, budget, None)
    return [found[trie.path(number)] for number in range(len(ids))]


@pytest.mark.parametrize("name", TREES)
def test_kept_beginnings_give_the_scores_of_the_model_itself(name: str) -> None:
    ids = behind_a_beginning()
    assert max(map(len, ids)) <= WINDOW
    untouched = network(name)
    expected = [own_log_probs(untouched, sequence).numpy() for sequence in ids]
    model = make_local(untouched)
    assert model.refuses_cache() is None
    for tokens in (16 * 8, 23 * 8, 16384):  # passes of 16, of 23, and one alone
        for found, wanted in zip(kept(model, ids, Budget(tokens, CPU)), expected, strict=True):
            close(found, wanted)


def counted(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each pass over a cache, how many tokens it found there and how many it ran."""
    passes: list[tuple[int, int]] = []
    grow = model.grow

    def noted(past: KeyValues | None, vectors: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, KeyValues]:
        passes.append((0 if past is None else len(past), vectors.shape[0] * vectors.shape[1]))
        return grow(past, vectors, *more)

    monkeypatch.setattr(model, "grow", noted)
    return passes


def test_every_inner_node_runs_once_and_only_the_path_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    # 30 tokens, then 40 answers of two, of which the last never runs: 30 + 40 inner nodes, of depth 30 at most. Passes
    # of 16: 16 and 14 of the beginning, 2 of whose place the first answers take; from then on all 30 are seen.
    model = make_local(network("gpt2"))
    assert model.refuses_cache(32) is None
    beginning = list(range(100, 130))
    ids = [[*beginning, answer, 5] for answer in range(40)]
    passes = counted(model, monkeypatch)
    kept(model, ids, Budget(16 * 8, CPU))
    assert passes == [(0, 16), (16, 16), (30, 16), (30, 16), (30, 6)]


def test_the_way_is_chosen_by_what_would_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_local(network("gpt2", n_positions=256))
    short, long = statements(), [[*range(40, 240), *one[-6:]] for one in statements()]
    assert model.refuses_cache(max(map(len, long))) is None
    passes = counted(model, monkeypatch)
    score(model, short)
    assert not passes, "a short beginning is cheap to run again"
    behind = score(model, long)
    assert sum(ran for _, ran in passes) == len(build_trie(long).inner)
    passes.clear()
    monkeypatch.setattr(model, "refuses_cache", lambda *_: "it says so")
    for found, wanted in zip(score(model, long), behind, strict=True):
        close(found, wanted[1:])
    assert not passes, "a model that keeps none runs blocks"


@pytest.mark.parametrize("block", [1, 7, 20])
def test_blocks_give_the_same_where_nothing_can_be_kept(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, model = behind_a_beginning(), make_local(network("llama"))
    expected = score(model, ids)
    monkeypatch.setattr(model, "refuses_cache", lambda *_: "it says so")
    monkeypatch.setattr(fathom.engine.scoring.causal, "BLOCK", block)
    for found, wanted in zip(score(model, ids), expected, strict=True):
        close(found, wanted[1:])


def test_out_of_memory_goes_on_from_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, model = behind_a_beginning(), make_local(network("gpt2"))
    expected = score(model, ids)
    grow = model.grow

    def limited(past: KeyValues | None, vectors: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, KeyValues]:
        if past is not None and vectors.shape[1] > 16:
            raise torch.OutOfMemoryError
        return grow(past, vectors, *more)

    monkeypatch.setattr(model, "grow", limited)
    budget = Budget(48 * 8, CPU)
    for found, wanted in zip(kept(model, ids, budget), expected, strict=True):
        close(found, wanted[1:])
    assert (budget.halvings, budget.tokens) == (2, 96)  # passes of 48, 24 and 16, of which none is smaller


def test_pseudowords_are_seen_and_not_said() -> None:
    model = make_local(network("gpt2"))
    ids = behind_a_beginning()
    own = model.vocabulary_size
    vectors = model.embed(torch.tensor([ids[0][3]]))
    named = [[own if token == ids[0][3] else token for token in one] for one in ids]
    plain, found = score(model, ids), causal_log_probs(model, named, Budget(16 * 8, CPU), vectors)
    for one, other, said in zip(plain, found, named, strict=True):
        is_own = np.array(said) == own
        assert is_own.any()
        assert np.isnan(other[is_own]).all()
        np.testing.assert_allclose(other[~is_own][1:], one[~is_own][1:], atol=1e-4)

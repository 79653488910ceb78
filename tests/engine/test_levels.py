"""Models that take no tree but keep states: a shared beginning runs once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from fathom.base.errors import BadInput
from fathom.engine.models.base import States
from fathom.engine.models.loading import wrap
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.pseudowords import pseudowords
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer
from tests.messages import mentions
from tests.zoo import built

SHAPES: dict[str, dict[str, Any]] = {
    "MambaForCausalLM": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "Mamba2ForCausalLM": {
        "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1,
    },
    "FalconMambaForCausalLM": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "JambaForCausalLM": {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 8, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_experts": 2, "mamba_d_state": 4, "use_mamba_kernels": False,
    },
    "Lfm2ForCausalLM": {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "layer_types": ["conv", "full_attention"],
    },
    "Qwen3NextForCausalLM": {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 8,
        "num_key_value_heads": 2, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16, "linear_num_value_heads": 2, "linear_num_key_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
}  # fmt: skip
STATEMENTS = [
    [0, 9, 10, 11, 12],
    [0, 9, 10, 11, 13, 14, 15],
    [0, 9, 10, 16],
    [0, 9, 10, 11, 13, 14, 17],
    [0, 9, 20, 11, 12, 9, 9, 30],
    [0, 9, 10, 11],  # the beginning of another
    [0, 9, 10, 16],  # twice
]


def model_of(kind: str) -> LocalModel:
    network = build(kind, vocab_size=TINY_VOCABULARY, pad_token_id=1, **SHAPES[kind])
    model = wrap(network, tiny_tokenizer())
    assert isinstance(model, LocalModel)
    return model


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("tokens", [8, 2048])
def test_branches_from_copied_states(kind: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(kind)
    assert model.refuses_tree() is not None
    assert model.refuses_states() is None
    expected = [own_log_probs(model.network, ids) for ids in STATEMENTS]
    ran: list[int] = []
    advance = LocalModel.advance

    def counted(self: LocalModel, past: States | None, vectors: torch.Tensor) -> tuple[torch.Tensor, States]:
        ran.append(vectors.shape[0] * vectors.shape[1])
        return advance(self, past, vectors)

    monkeypatch.setattr(LocalModel, "advance", counted)
    found = causal_log_probs(model, STATEMENTS, Budget(tokens, model.device))
    for own, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(own[1:], exact.numpy(), atol=1e-5)
    # Inner nodes, each run once: 0 9 | 10 11 13 14 | 20 11 12 9 9; last tokens are never run.
    assert sum(ran) == 11


def test_memory_for_one_branch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("MambaForCausalLM")
    assert model.refuses_states() is None
    expected = [own_log_probs(model.network, ids) for ids in STATEMENTS]
    advance = LocalModel.advance

    def limited(self: LocalModel, past: States | None, vectors: torch.Tensor) -> tuple[torch.Tensor, States]:
        if len(vectors) > 1:
            raise torch.OutOfMemoryError
        return advance(self, past, vectors)

    monkeypatch.setattr(LocalModel, "advance", limited)
    budget = Budget(64, model.device)  # 4 rows at a time, then 2, then 1
    for own, exact in zip(causal_log_probs(model, STATEMENTS, budget), expected, strict=True):
        np.testing.assert_allclose(own[1:], exact.numpy(), atol=1e-5)
    assert (budget.halvings, budget.tokens) == (2, 16)


def test_memory_for_one_token_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared beginning that is too long to run as one sequence runs token by token."""
    model = model_of("MambaForCausalLM")
    assert model.refuses_states() is None
    expected = [own_log_probs(model.network, ids) for ids in STATEMENTS]
    advance = LocalModel.advance

    def limited(self: LocalModel, past: States | None, vectors: torch.Tensor) -> tuple[torch.Tensor, States]:
        if vectors.shape[1] > 1:
            raise torch.OutOfMemoryError
        return advance(self, past, vectors)

    monkeypatch.setattr(LocalModel, "advance", limited)
    budget = Budget(64, model.device)
    for own, exact in zip(causal_log_probs(model, STATEMENTS, budget), expected, strict=True):
        np.testing.assert_allclose(own[1:], exact.numpy(), atol=1e-5)
    assert budget.halvings == 1


def test_what_is_no_token_is_seen_and_not_said() -> None:
    """An id behind the vocabulary is a row of vectors: here that of token 10, so that all else scores alike."""
    model = model_of("MambaForCausalLM")
    vectors = model.embed(torch.tensor([10]))
    own = TINY_VOCABULARY
    budget = Budget(2048, model.device)
    [plain, other] = causal_log_probs(model, [[0, 9, 10, 11, 12], [0, 9, 10, 16]], budget)
    [found, beside] = causal_log_probs(model, [[0, 9, own, 11, 12], [0, 9, own, 16]], budget, vectors)
    for exact, seen in ((plain, found), (other, beside)):
        assert np.isnan(seen[2])
        np.testing.assert_allclose(np.delete(seen, 2), np.delete(exact, 2), atol=1e-5)


def test_a_model_asked_by_ids_takes_no_vectors() -> None:
    """Its experts are chosen by the tokens themselves: a vector among their numbers would be read as some token's."""
    model = wrap(built("deepseek_v4", "DeepseekV4ForCausalLM"), tiny_tokenizer())
    assert not model.takes_vectors
    budget = Budget(2048, model.device)
    with pytest.raises(BadInput, match=mentions("in memory", "vectors")):
        causal_log_probs(model, [[0, 9, TINY_VOCABULARY, 11]], budget, model.embed(torch.tensor([10])))
    with pytest.raises(BadInput, match=mentions("in memory", "pseudowords")):
        pseudowords(model, 2, 0.5, 0)


def test_several_first_tokens() -> None:
    """Without a token that begins every text, each first token starts a state of its own."""
    model = model_of("MambaForCausalLM")
    statements = [[9, 10, 11], [12, 10, 11], [9, 13, 14, 15]]
    for own, ids in zip(causal_log_probs(model, statements, Budget(2048, model.device)), statements, strict=True):
        np.testing.assert_allclose(own[1:], own_log_probs(model.network, ids).numpy(), atol=1e-5)
        assert np.isnan(own[0])


def test_a_model_that_forgets_its_state_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows mixed up in the copy must not pass the self-check."""
    model = model_of("MambaForCausalLM")
    select = States.select
    monkeypatch.setattr(States, "select", lambda self, rows: select(self, torch.zeros_like(rows)))
    refusal = model.refuses_states()
    assert refusal is not None
    assert "kept state" in refusal


def test_a_model_that_forgets_a_short_beginning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mamba of transformers 5.1 goes on wrongly from fewer tokens than its convolution looks back at."""
    model = model_of("MambaForCausalLM")
    advance = LocalModel.advance

    def forgetful(self: LocalModel, past: States | None, vectors: torch.Tensor) -> tuple[torch.Tensor, States]:
        hidden, states = advance(self, past, vectors)
        if states.length < 3:
            _, states = advance(self, past, torch.zeros_like(vectors))
        return hidden, states

    monkeypatch.setattr(LocalModel, "advance", forgetful)
    assert "kept state" in str(model.refuses_states())


def test_transformers_that_keep_no_states() -> None:
    """A plain transformer needs none: it takes the tree."""
    network = build("GPT2LMHeadModel", n_embd=16, n_layer=1, n_head=2, n_positions=64, vocab_size=TINY_VOCABULARY)
    assert wrap(network, tiny_tokenizer()).refuses_tree() is None


def test_branches_that_see_each_other_a_little_are_no_tree():
    """LFM2's convolution reads packed neighbours. With the small weights that training begins with this moves a score
    by less than 1e-4, which is no rounding: what an attention mask hides is hidden to the last bit."""
    from fathom.engine.models.checks import TREE, check

    torch.manual_seed(0)
    shape = {"vocab_size": TINY_VOCABULARY, **SHAPES["Lfm2ForCausalLM"]}
    small = wrap(transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**shape)), tiny_tokenizer())
    assert "see each other" in (check(small, TREE) or "")
    assert small.refuses_states() is None
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=TINY_VOCABULARY, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    plain = wrap(transformers.LlamaForCausalLM(config), tiny_tokenizer())
    assert check(plain, TREE) is None

"""Causal scores: whichever way they are computed, they are the model's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

import fathom.engine.scoring.causal
from fathom.base.errors import RunFailed
from fathom.engine.models.checks import CHECKED_BRANCHES, token_log_probs
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from tests.conftest import TINY_SPECIAL, TINY_VOCABULARY, build, make_local, own_log_probs

CPU = torch.device("cpu")

GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64}
LLAMA = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
HEADS = {"head_dim": 12}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "num_hidden_layers": 3}

GPT_NEO = {
    "hidden_size": 48,
    "num_layers": 2,
    "num_heads": 4,
    "attention_types": [[["global", "local"], 1]],
    "max_position_embeddings": 256,
}

TREES: dict[str, tuple[str, dict]] = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2-untied": ("GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False}),
    "opt": (
        "OPTForCausalLM",
        {
            "hidden_size": 48,
            "word_embed_proj_dim": 48,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "opt-projected": (  # as OPT-350m: embeddings of another width, norm after the layer
        "OPTForCausalLM",
        {
            "hidden_size": 48,
            "word_embed_proj_dim": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "do_layer_norm_before": False,
        },
    ),
    "llama": ("LlamaForCausalLM", LLAMA),
    "llama-tied": ("LlamaForCausalLM", LLAMA | {"tie_word_embeddings": True}),
    "mistral-window-4": ("MistralForCausalLM", LLAMA | {"sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen2-window-4": (
        "Qwen2ForCausalLM",
        LLAMA | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | HEADS),
    "gemma2": ("Gemma2ForCausalLM", LLAMA | HEADS | ALTERNATING | {"sliding_window": 4, "query_pre_attn_scalar": 12}),
    "gemma3": ("Gemma3ForCausalLM", LLAMA | HEADS | ALTERNATING | {"sliding_window": 4, "query_pre_attn_scalar": 12}),
    "gpt-neox": (
        "GPTNeoXForCausalLM",
        {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    "gptj": ("GPTJForCausalLM", GPT2 | {"rotary_dim": 8}),
    "gpt-neo": ("GPTNeoForCausalLM", GPT_NEO | {"window_size": 256}),
    "falcon": (
        "FalconForCausalLM",
        {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64},
    ),
    "phi": ("PhiForCausalLM", LLAMA | {"num_key_value_heads": 4}),
    "biogpt": (
        "BioGptForCausalLM",
        {
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "xglm": (
        "XGLMForCausalLM",
        {"d_model": 48, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4, "max_position_embeddings": 64},
    ),
    "olmo2": ("Olmo2ForCausalLM", LLAMA),
}

PLAIN: dict[str, tuple[str, dict]] = {
    "bloom": ("BloomForCausalLM", {"hidden_size": 48, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptForCausalLM", {"d_model": 48, "n_layers": 2, "n_heads": 4, "max_seq_len": 256}),
    "mamba": ("MambaForCausalLM", {"hidden_size": 48, "num_hidden_layers": 2, "state_size": 4}),
    "lfm2": ("Lfm2ForCausalLM", LLAMA | {"layer_types": ["conv", "full_attention"]}),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT2 | {"n_positions": 256}),
    # Their local layers look back by places in the packed sequence, not by positions: no trouble as long as a block is
    # shorter than the window (TREES), wrong scores when it is longer, even where the statements are not.
    "gpt-neo-window-4": ("GPTNeoForCausalLM", GPT_NEO | {"window_size": 4}),
    "gpt-neo-window-30": ("GPTNeoForCausalLM", GPT_NEO | {"window_size": 30}),
}


def network(name: str, **more: object) -> PreTrainedModel:
    kind, options = (TREES | PLAIN)[name]
    return build(kind, **(options | {"vocab_size": TINY_VOCABULARY} | more))


def statements(count: int = 24, seed: int = 0) -> list[list[int]]:
    """As the statements of a relation: begin alike, answers share beginnings and have several lengths, end alike."""
    rng = np.random.default_rng(seed)

    def words(n: int) -> list[int]:
        return rng.integers(TINY_SPECIAL, TINY_VOCABULARY, n).tolist()

    found = []
    first_names, end = [words(2) for _ in range(3)], words(3)
    for begin in (words(6), words(4)):
        for _ in range(count // 2):
            answer = first_names[rng.integers(3)][: rng.integers(1, 3)] + words(rng.integers(0, 4))
            found.append([0, *begin, *answer, *end])
    found.append(found[0])  # said twice
    found.append(found[3][:5])  # the beginning of another
    found.append([0])  # nothing to score
    return found


def close(found: NDArray[np.float32], expected: NDArray[np.float32], tolerance: float = 1e-4) -> None:
    assert found.dtype == np.float32
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], expected, atol=tolerance, rtol=1e-6)


def score(model: LocalModel, ids: list[list[int]], tokens: int | None = None) -> list[NDArray[np.float32]]:
    return causal_log_probs(model, ids, Budget(tokens, CPU))


@pytest.mark.parametrize("name", TREES)
def test_tree_equals_the_model_itself(name: str) -> None:
    ids = statements()
    untouched = network(name)
    expected = [own_log_probs(untouched, sequence).numpy() for sequence in ids]
    model = make_local(untouched)
    assert model.refuses_tree() is None
    for sequence, found, wanted in zip(ids, score(model, ids), expected, strict=True):
        close(found, wanted)
        with torch.inference_mode():
            close(token_log_probs(model, sequence).numpy(), wanted)


@pytest.mark.parametrize("name", PLAIN)
def test_models_that_cannot_take_a_tree_run_plain(name: str) -> None:
    ids = statements()
    untouched = network(name)
    expected = [own_log_probs(untouched, sequence).numpy() for sequence in ids]
    model = make_local(untouched)
    assert model.refuses_tree()
    for found, wanted in zip(score(model, ids), expected, strict=True):
        close(found, wanted)


def test_the_self_check_is_as_long_as_a_block() -> None:
    # A model that looks back by places in the packed sequence fails only beyond its window: the check must go there.
    assert 7 + 4 * CHECKED_BRANCHES >= fathom.engine.scoring.causal.BLOCK


def test_scores_tell_statements_apart() -> None:
    # Guards the tests above: if these models gave every token the same score, mixed-up positions would go unseen.
    scores = np.concatenate([found[1:] for found in score(make_local(network("llama")), statements())])
    assert scores.std() > 1


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3", "mpt"])
def test_batches_blocks_and_order_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = statements()
    model = make_local(network(name))
    expected = score(model, ids)
    for tokens in (32, 100, 5000):
        for found, wanted in zip(score(model, ids, tokens), expected, strict=True):
            close(found, wanted[1:])
    for block in (1, 7, 20, 2000):
        monkeypatch.setattr(fathom.engine.scoring.causal, "BLOCK", block)
        for found, wanted in zip(score(model, ids), expected, strict=True):
            close(found, wanted[1:])
    order = np.random.default_rng(1).permutation(len(ids))
    for found, index in zip(score(model, [ids[i] for i in order]), order, strict=True):
        close(found, expected[index][1:])


def test_no_statements() -> None:
    assert score(make_local(network("gpt2")), []) == []


def too_small(hidden: Callable[..., torch.Tensor], room: int) -> Callable[..., torch.Tensor]:
    """*hidden* on a machine with memory for *room* tokens."""

    def limited(vectors: torch.Tensor, *args: object) -> torch.Tensor:
        if vectors.shape[0] * vectors.shape[1] > room:
            raise torch.OutOfMemoryError
        return hidden(vectors, *args)

    return limited


@pytest.mark.parametrize("name", ["gpt2", "mpt"])
def test_out_of_memory_halves_and_goes_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = statements()
    model = make_local(network(name))
    monkeypatch.setattr(model, "refuses_states", lambda *_: "to run plain batches where there is no tree")
    expected = score(model, ids)
    monkeypatch.setattr(model, "hidden", too_small(model.hidden, 40))
    budget = Budget(320, CPU)
    for found, wanted in zip(causal_log_probs(model, ids, budget), expected, strict=True):
        close(found, wanted[1:])
    # 320 → 160 → 80 → 40: learnt once, not at every batch.
    assert (budget.halvings, budget.tokens) == (3, 40)


def test_memory_for_nothing_is_an_error_not_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_local(network("gpt2"))
    assert model.refuses_tree() is None
    monkeypatch.setattr(model, "hidden", too_small(model.hidden, 1))
    with pytest.raises(RunFailed, match="out of memory"):
        score(model, statements())


def test_other_errors_are_not_taken_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_local(network("gpt2"))
    assert model.refuses_tree() is None

    def broken(*args: object) -> torch.Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(model, "hidden", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        score(model, statements())


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_broken_weights_give_nan_scores(name: str) -> None:
    broken = network(name)
    with torch.no_grad():
        next(p for n, p in broken.named_parameters() if "mlp" in n)[0] = torch.nan
    for found in score(make_local(broken), statements()):
        assert np.isnan(found).all()


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3"])
def test_half_precision_is_near(name: str) -> None:
    ids = statements()
    exact = make_local(network(name))
    half = make_local(network(name).to(torch.bfloat16))
    assert half.refuses_tree() is None
    expected = np.concatenate([found[1:] for found in score(exact, ids)])
    found = np.concatenate([found[1:] for found in score(half, ids)])
    plain = np.concatenate([token_log_probs(half, sequence)[1:].numpy() for sequence in ids])
    # Eight bits of mantissa: each score is off by some hundredths of its spread. The tree must not be further off
    # than bfloat16 is by itself.
    spread = expected.std()
    assert np.abs(found - expected).mean() < 0.1 * spread
    assert np.abs(found - expected).mean() < 1.5 * np.abs(plain - expected).mean() + 0.01


@pytest.mark.parametrize("name", ["gpt2", "opt", "llama", "gemma3", "mamba"])
def test_gradients_reach_the_vectors_and_not_the_weights(name: str) -> None:
    model = make_local(network(name))
    ids = torch.tensor([statements()[0]])
    vectors = model.embed(ids).detach().requires_grad_()
    log_probs = torch.log_softmax(model.logits(model.hidden(vectors)[0]), dim=-1)
    (-log_probs[-1, 7]).backward()
    assert vectors.grad is not None
    # The last position saw every vector before it.
    assert (vectors.grad[0].abs().sum(dim=-1) > 0).all()
    assert all(parameter.grad is None for parameter in model.network.parameters())


def test_gradients_are_those_of_the_untouched_model() -> None:
    # The fast kernels know no gradients; with gradients on the layers must take torch's own path.
    ids = torch.tensor([statements()[0]])
    untouched, model = network("gpt2").requires_grad_(False), make_local(network("gpt2"))
    vectors = model.embed(ids).detach()
    ours, theirs = vectors.clone().requires_grad_(), vectors.clone().requires_grad_()
    torch.log_softmax(model.logits(model.hidden(ours)[0, -1:]), -1)[0, 7].backward()
    torch.log_softmax(untouched(inputs_embeds=theirs).logits[0, -1:], -1)[0, 7].backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


def test_a_batch_of_trees_keeps_its_rows_apart() -> None:
    # Two rows with different masks in one call, as blocks of one batch have.
    model = make_local(network("llama"))
    assert model.refuses_tree() is None
    ids = torch.tensor([[0, 9, 10, 11], [0, 12, 13, 14]])
    lower = torch.ones(4, 4, dtype=torch.bool).tril()
    alone = lower.clone()
    alone[3, 2] = False  # in row 1 the last token stands beside the third, not after it
    positions = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 2]])
    with torch.inference_mode():
        hidden = model.hidden(model.embed(ids), positions, torch.stack([lower, alone]))
        first = model.hidden(model.embed(torch.tensor([[0, 9, 10, 11]])))[0, 3]
        second = model.hidden(model.embed(torch.tensor([[0, 12, 14]])))[0, 2]
    torch.testing.assert_close(hidden[0, 3], first, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(hidden[1, 3], second, atol=1e-4, rtol=1e-4)

"""Attention of a rough copy in two products: the attention of torch's fused kernel, whatever the shape."""

from __future__ import annotations

import ctypes
import resource
import sys

import pytest
import torch
from torch import nn
from transformers import GPT2LMHeadModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fathom.models import kernels
from fathom.models.kernels import ONEDNN, ROUGH_ATTENTION, keep_freed_memory, rough_attention, use_rough_attention
from fathom.models.loading import load
from tests.conftest import build
from tests.test_cli import save

FAMILIES = {
    "GPT2LMHeadModel": {"n_embd": 32, "n_layer": 2, "n_head": 2},
    "LlamaForCausalLM": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    | {"num_key_value_heads": 2},
    "BertForMaskedLM": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
}
OTHERS = {
    "FalconForCausalLM": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4},
    "DeepseekV32ForCausalLM": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "index_head_dim": 16}
    | {"num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "v_head_dim": 8}
    | {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "index_n_heads": 2, "first_k_dense_replace": 1},
}
faster = pytest.mark.skipif(torch.bfloat16 not in ONEDNN, reason="this processor has no products in bfloat16")


class Causal(nn.Module):
    is_causal = True
    num_key_value_groups = 3


class Free(Causal):
    is_causal = False


def states(length: int, seen: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Queries of six heads, keys and values of two."""
    torch.manual_seed(length)
    return [torch.randn(3, heads, size, 8, dtype=dtype) for heads, size in ((6, length), (2, seen), (2, seen))]


def tree(length: int, seen: int) -> torch.Tensor:
    """What is added: some of those before are hidden, in each row others; each token sees itself."""
    torch.manual_seed(seen)
    hidden = torch.rand(3, 1, length, seen) < 0.5
    hidden |= ~torch.ones(length, seen, dtype=torch.bool).tril(seen - length)
    hidden[..., range(length), range(seen - length, seen)] = False
    return torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)


@pytest.mark.parametrize(("length", "seen"), [(7, 7), (5, 12), (300, 300)])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_a_mask_is_added(length, seen, scaling):
    (query, key, value), mask = states(length, seen), tree(length, seen)
    found, weights = rough_attention(Causal(), query, key, value, mask, scaling=scaling, dropout=0.0)
    expected, _ = sdpa_attention_forward(Causal(), query, key, value, mask, scaling=scaling)
    assert weights is None
    assert found.shape == expected.shape == (3, length, 6, 8)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("module", [Causal(), Free()], ids=["causal", "free"])
@pytest.mark.parametrize("told", [{}, {"is_causal": True}, {"is_causal": False}], ids=str)
def test_without_a_mask_a_module_sees_what_it_sees(module, told):
    query, key, value = states(6, 6)
    found, _ = rough_attention(module, query, key, value, None, **told)
    expected, _ = sdpa_attention_forward(module, query, key, value, None, **told)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


def test_a_mask_of_booleans_and_what_else_changes_scores_is_left_to_the_fused_kernel(monkeypatch):
    query, key, value = states(6, 6)
    seen = tree(6, 6) == 0
    for more in ({}, {"position_bias": torch.randn(1, 6, 6, 6)}):
        found, _ = rough_attention(Causal(), query, key, value, seen, **more)
        expected, _ = sdpa_attention_forward(Causal(), query, key, value, seen, **more)
        assert torch.equal(found, expected)
    told = []
    monkeypatch.setattr(kernels, "sdpa_attention_forward", lambda *args, **more: told.append(more["softcap"]))
    rough_attention(Causal(), query, key, value, tree(6, 6), softcap=2.0)
    assert told == [2.0]


def test_many_scores_are_left_to_the_fused_kernel(monkeypatch):
    calls = []
    monkeypatch.setattr(kernels, "sdpa_attention_forward", lambda *args, **more: calls.append(1))
    for length in (256, 257):
        query, key, value = states(length, length)
        rough_attention(Causal(), query, key, value, torch.zeros(3, 1, length, length))
    assert len(calls) == 1


@faster
@pytest.mark.parametrize("name", FAMILIES)
def test_rounding_is_that_of_bfloat16(name):
    """A bfloat16 copy is as far from float32 with it as with the fused kernel, a half more at most."""
    network, mask = build(name, vocab_size=40, **FAMILIES[name]).eval(), tree(12, 12)[:2]

    def logits() -> torch.Tensor:
        ids = torch.arange(24).view(2, 12)
        return network(input_ids=ids, attention_mask=mask.to(network.dtype)).logits.float()

    with torch.inference_mode():
        exact = logits()
        network.to(torch.bfloat16)
        fused = logits()
        use_rough_attention(network)
        assert network.config._attn_implementation == ROUGH_ATTENTION
        found = logits()
    assert not torch.equal(found, fused)
    assert (found - exact).abs().mean() < 1.5 * (fused - exact).abs().mean()


def test_a_float32_model_and_one_with_another_kernel_keep_theirs():
    network = build("GPT2LMHeadModel", vocab_size=40, **FAMILIES["GPT2LMHeadModel"])
    use_rough_attention(network)
    assert network.config._attn_implementation == "sdpa"
    network.to(torch.bfloat16).set_attn_implementation("eager")
    use_rough_attention(network)
    assert network.config._attn_implementation == "eager"


@pytest.mark.parametrize("family", ["FalconForCausalLM", "DeepseekV32ForCausalLM"])
def test_a_family_that_cannot_or_knows_kernels_by_name_keeps_its_own(family):
    """Falcon has no place to put it; DeepSeek-V3.2 would look at everything, and not at what its index has chosen."""
    network = build(family, vocab_size=40, **OTHERS[family]).to(torch.bfloat16)
    use_rough_attention(network)
    assert network.config._attn_implementation == "sdpa"


@faster
def test_a_rough_copy_has_it_and_the_model_itself_has_not(tmp_path):
    folder = save(tmp_path / "m", build("GPT2LMHeadModel", vocab_size=99, **FAMILIES["GPT2LMHeadModel"]))
    model = load(str(folder), screen="bfloat16")
    assert isinstance(model.network, GPT2LMHeadModel)
    assert model.attention_kernel == "sdpa"
    assert model.rough.attention_kernel == ROUGH_ATTENTION
    assert model.rough.refuses_tree() is None
    assert model.rough.attention_kernel == ROUGH_ATTENTION


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such option"
)
def test_freed_memory_is_kept():
    """24 MiB are 6,144 pages of 4 KiB: each would be fetched again, every time."""
    keep_freed_memory()

    def use_and_free() -> None:
        torch.ones(6 << 20)

    use_and_free()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        use_and_free()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 6_144

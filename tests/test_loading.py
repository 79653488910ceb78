"""Weights as users keep them: sharded, in half precision, with an adapter on top, quantised."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from fathom.errors import BadInput
from fathom.models.checks import token_log_probs
from fathom.models.kernels import FastLinear
from fathom.models.loading import load
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.memory import Budget
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer

IDS = [0, 9, 10, 11, 12, 9, 13]


def llama() -> PreTrainedModel:
    return build(
        "LlamaForCausalLM",
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        vocab_size=TINY_VOCABULARY,
    )


def save(network: PreTrainedModel, folder: Path, **options: str) -> str:
    network.save_pretrained(folder, **options)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def test_sharded_safetensors_in_bfloat16(tmp_path: Path) -> None:
    name = save(llama().to(torch.bfloat16), tmp_path / "model", max_shard_size="50KB")
    assert len(list((tmp_path / "model").glob("model-*.safetensors"))) > 2
    rounded = llama()
    with torch.no_grad():
        for weight in rounded.parameters():
            weight.copy_(weight.to(torch.bfloat16))
    # Loaded as float32, the numbers are those of the rounded weights in full precision.
    exact = own_log_probs(rounded, IDS)
    torch.testing.assert_close(token_log_probs(load(name), IDS)[1:], exact, atol=1e-5, rtol=0)
    half = load(name, dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    assert half.identity.dtype == "bfloat16"
    assert (token_log_probs(half, IDS)[1:] - exact).abs().max() < 0.2


def test_an_adapter_changes_the_scores_as_peft_says(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    name = save(llama(), tmp_path / "model")
    adapted = peft.get_peft_model(llama(), peft.LoraConfig(target_modules=["q_proj", "up_proj"], r=2))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora" in key:
                value.copy_(torch.randn_like(value))
    adapted.save_pretrained(tmp_path / "adapter")
    expected, bare = own_log_probs(adapted, IDS), load(name)
    model = load(name, adapter=str(tmp_path / "adapter"))
    torch.testing.assert_close(token_log_probs(model, IDS)[1:], expected, atol=1e-5, rtol=0)
    assert (token_log_probs(bare, IDS)[1:] - expected).abs().max() > 0.1
    assert model.identity.content_hash != bare.identity.content_hash
    assert model.refuses_tree() is None
    with pytest.raises(BadInput, match="cannot load the adapter"):
        load(name, adapter=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("quantised", [{"load_in_8bit": True}, {"load_in_4bit": True}], ids=["8-bit", "4-bit"])
def test_quantised_weights_stay_quantised(tmp_path: Path, quantised: dict[str, bool]) -> None:
    pytest.importorskip("bitsandbytes")
    network = AutoModelForCausalLM.from_pretrained(
        save(llama(), tmp_path / "model"),
        quantization_config=BitsAndBytesConfig(**quantised),
        device_map={"": "cpu"},
    )
    model = load(save(network, tmp_path / "quantised"))
    layer = model.network.model.layers[0].mlp.up_proj
    assert not isinstance(layer, FastLinear)
    assert type(layer).__module__.startswith("bitsandbytes")
    expected = own_log_probs(network, IDS)
    [found] = causal_log_probs(model, [torch.tensor(IDS).numpy()], Budget(None, model.device))
    torch.testing.assert_close(torch.from_numpy(found)[1:], expected, atol=1e-4, rtol=0)
    assert (own_log_probs(llama(), IDS) - expected).abs().max() > 1e-3

"""Models that are in use elsewhere stay as they are."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import fathom
from fathom.base.errors import BadInput
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.loading import wrap
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer
from tests.messages import mentions

IDS = [0, 9, 10, 11, 12, 9, 13]


def gpt2() -> torch.nn.Module:
    return build("GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=TINY_VOCABULARY).train()


def step(network: torch.nn.Module, optimiser: torch.optim.Optimizer) -> float:
    ids = torch.tensor([IDS])
    loss = network(input_ids=ids, labels=ids).loss
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    return float(loss.detach())


def trained(probing: bool) -> tuple[list[float], list[torch.Tensor]]:
    """Losses of three steps, dropout included, and what the weights became."""
    network = gpt2()
    torch.manual_seed(1)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        losses.append(step(network, optimiser))
        if probing:
            model = wrap(network, tiny_tokenizer())
            found = token_log_probs(model, IDS)[1:]
            exact = own_log_probs(deepcopy(network).eval(), IDS)
            torch.testing.assert_close(found, exact, atol=1e-5, rtol=0)
            assert model.refuses_tree() is None
            assert network.training
    return losses, [weight.detach().clone() for weight in network.parameters()]


def test_training_goes_on_as_if_nobody_had_looked() -> None:
    looked_at, left_alone = trained(True), trained(False)
    assert looked_at[0] == left_alone[0]
    for one, other in zip(looked_at[1], left_alone[1], strict=True):
        assert torch.equal(one, other)


def test_the_network_keeps_layers_mode_gradients_and_random_state() -> None:
    network = gpt2()
    kinds = [type(module) for module in network.modules()]
    before, config = torch.get_rng_state(), network.config.to_dict()
    model = fathom.wrap_model(network, tiny_tokenizer())
    model.refuses_tree()
    assert torch.equal(before, torch.get_rng_state())
    assert [type(module) for module in network.modules()] == kinds
    assert all(weight.requires_grad for weight in network.parameters())
    assert network.training
    assert network.config.to_dict() == config


@pytest.mark.parametrize(("network", "tokenizer", "said"), [
    ("gpt2", None, ("found a str", "load_model")),
    (torch.nn.Linear(2, 2), None, "found a Linear: load_model"),
    (None, "gpt2", ("found a str", "AutoTokenizer")),
])  # fmt: skip
def test_what_cannot_be_wrapped_is_said_in_one_line(network: Any, tokenizer: Any, said: str) -> None:
    with pytest.raises(BadInput, match=mentions(said)):
        fathom.wrap_model(gpt2() if network is None else network, tiny_tokenizer() if tokenizer is None else tokenizer)


def test_a_processor_holds_the_tokenizer_that_is_meant() -> None:
    """As a training of a model that also sees has it."""
    own = tiny_tokenizer()
    assert fathom.wrap_model(gpt2(), SimpleNamespace(tokenizer=own)).tokenizer is own  # type: ignore[arg-type]


def test_weights_are_shared_and_followed() -> None:
    network = build(
        "LlamaForCausalLM", hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, vocab_size=TINY_VOCABULARY,
    )  # fmt: skip
    model = wrap(network, tiny_tokenizer())
    stored = {weight.data_ptr() for weight in network.parameters()}
    assert {weight.data_ptr() for weight in model.network.parameters()} == stored
    before = token_log_probs(model, IDS)[1:]
    with torch.no_grad():
        network.model.layers[0].mlp.up_proj.weight.mul_(3)
    after = token_log_probs(model, IDS)[1:]
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after, own_log_probs(network, IDS), atol=1e-5, rtol=0)


def test_compiled_and_wrapped_networks() -> None:
    network = gpt2().eval()
    expected = own_log_probs(network, IDS)
    for dressed in (torch.compile(network), torch.nn.DataParallel(network)):
        found = token_log_probs(wrap(dressed, tiny_tokenizer()), IDS)[1:]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_an_adapter_in_training() -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(gpt2().eval(), peft.LoraConfig(target_modules=["c_attn"], r=2, fan_in_fan_out=True))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora" in key:
                value.copy_(torch.randn_like(value))
    expected = own_log_probs(adapted, IDS)
    torch.testing.assert_close(token_log_probs(wrap(adapted, tiny_tokenizer()), IDS)[1:], expected, atol=1e-5, rtol=0)
    assert any(value.requires_grad for value in adapted.parameters())

"""The last layer at some positions alone gives the states of the whole one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fathom.engine.models.base import Attention, Identity
from fathom.engine.models.local import LocalModel
from tests.conftest import TINY_VOCABULARY, build, tiny_tokenizer

TINY = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
KINDS = ["BertForMaskedLM", "RobertaForMaskedLM", "ElectraForMaskedLM"]


def sharp(kind: str) -> LocalModel:
    """Whose attention is far from even: with fresh weights every position would see about the same."""
    network = build(kind, vocab_size=TINY_VOCABULARY, max_position_embeddings=64, **TINY)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if ".query." in name or ".key." in name or ".value." in name:
                weight.normal_(std=0.5, generator=torch.Generator().manual_seed(len(name)))
    return LocalModel(network, tiny_tokenizer(), Attention.BIDIRECTIONAL, Identity(kind, None, "float32", "0"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [1, 3, 8])
def test_some_positions_have_the_states_of_all(kind: str, wanted: int) -> None:
    model = sharp(kind)
    assert len(model._partial_passes) == 2
    ids = torch.arange(5, 5 + 3 * 9).view(3, 9)
    at = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(row))[:wanted] for row in range(3)])
    with torch.inference_mode():
        vectors = model.embed(ids)
        expected = model.hidden(vectors)[torch.arange(3)[:, None], at]
        torch.testing.assert_close(model.hidden_at(vectors, at), expected, atol=1e-5, rtol=1e-5)


def test_a_layer_with_more_than_its_weight_is_asked_whole() -> None:
    class AdaptedLinear(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return super().forward(inputs) + inputs

    model = sharp("BertForMaskedLM")
    attention = model._body.encoder.layer[-1].attention.self
    own = AdaptedLinear(48, 48)
    own.load_state_dict(attention.key.state_dict())
    attention.key = own
    assert len(model._partial_passes) == 1, "what stands behind the attention can still be had at some positions"

"""Limits that only longer texts reach: each score is that of its sequence alone."""

from __future__ import annotations

import pytest
import torch

from fathom.engine.models.checks import PADDING, check, token_log_probs
from fathom.engine.models.loading import wrap
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from tests.conftest import tiny_tokenizer
from tests.zoo import FAMILIES, SMALL, built

FIRST = [[0, *range(10, 16), 20 + number] for number in range(6)]
LONG = [[0, *(10 + (7 * place + number) % 60 for place in range(12 + 5 * number))] for number in range(6)]


@pytest.mark.parametrize("family", ["llama4_text", "deepseek_v32", "gemma3_text", "mistral", "phi3"])
def test_scores_beyond_every_limit_are_those_of_single_sequences(family: str) -> None:
    network = built(family, FAMILIES[family])
    model = wrap(network, tiny_tokenizer())
    for sequences in (FIRST, LONG):
        for ids, found in zip(sequences, causal_log_probs(model, sequences, Budget(512, model.device)), strict=True):
            with torch.inference_mode():
                alone = torch.log_softmax(network(input_ids=torch.tensor([ids])).logits[0].float(), dim=-1)
            own = alone[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()
            assert found[1:] == pytest.approx(own, abs=1e-4)
            with torch.inference_mode():
                assert token_log_probs(model, ids)[1:].numpy() == pytest.approx(own, abs=1e-4)


def test_a_check_is_repeated_for_longer_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk is longer than the packed tree of the shortest check, as in models of the usual size."""
    monkeypatch.setitem(SMALL, "attention_chunk_size", 140)
    monkeypatch.setitem(SMALL, "floor_scale", 8192)
    model = wrap(built("llama4_text", FAMILIES["llama4_text"]), tiny_tokenizer())
    assert model.refuses_tree() is None
    assert model.refuses_tree(130) is None
    assert model.refusals() == []
    why = model.refuses_tree(150)
    assert why is not None
    assert "150" in why
    assert model.refuses_tree(155) == why  # not checked again
    assert model.refuses_tree(130) is None
    assert model.refusals() == [why]


def test_padding_that_changes_scores_is_found() -> None:
    model = wrap(built("deepseek_v32", FAMILIES["deepseek_v32"]), tiny_tokenizer())
    assert check(model, PADDING, [11]) is None
    assert "nats" in str(check(model, PADDING, [11, 40]))

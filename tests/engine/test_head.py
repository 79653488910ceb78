"""The head over a few tokens of each state: the model's own log-probabilities, and nothing waits for the device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fathom.engine.scoring.memory
from fathom.engine.models.base import LinearHead
from fathom.engine.scoring.memory import target_log_probs

VOCABULARY, WIDTH, STATES = 700, 6, 40
ROWS = np.array([0, 0, 3, 7, 7, 7, 39])
TOKENS = np.array([0, 699, 255, 256, 511, 5, 300])
"""With slices of 256: both ends of the vocabulary and of a slice, one state with tokens of three slices."""


def head_of(device: str, linear: bool) -> Any:
    """As much of a model as the head asks for."""
    generator = torch.Generator().manual_seed(3)
    weight, bias = (torch.randn(*shape, generator=generator) for shape in ((VOCABULARY, WIDTH), (VOCABULARY,)))
    weight, bias = weight.to(device), bias.to(device)
    return SimpleNamespace(
        vocabulary_size=VOCABULARY,
        logits=lambda hidden: hidden @ weight.T + bias,
        linear_head=lambda: LinearHead(lambda states: states, weight, bias) if linear else None,
    )


def states(device: str = "cpu") -> torch.Tensor:
    return torch.randn(STATES, WIDTH, generator=torch.Generator().manual_seed(4)).to(device)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("rows", [3, 1024])
def test_tokens_of_every_slice_get_the_whole_softmax(linear: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fathom.engine.scoring.memory, "ROWS", rows)
    monkeypatch.setattr(fathom.engine.scoring.memory, "CPU_LOGITS", 3 * VOCABULARY if not linear else 1)
    model = head_of("cpu", linear)
    with torch.inference_mode():
        expected = torch.log_softmax(model.logits(states()).double(), dim=-1)[ROWS, TOKENS]
        found = target_log_probs(model, states(), ROWS, TOKENS)
    torch.testing.assert_close(found, expected.float(), atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("linear", [True, False])
def test_nothing_waits_for_the_device(linear: bool) -> None:
    # Tensors on "meta" have no values: whatever asks for one, or for how many are true, raises.
    with torch.inference_mode():
        found = target_log_probs(head_of("meta", linear), states("meta"), ROWS, TOKENS)
    assert found.shape == ROWS.shape


def test_what_is_no_token_has_no_probability() -> None:
    model = SimpleNamespace(**vars(head_of("cpu", True)) | {"device": torch.device("cpu")})
    with torch.inference_mode():
        found = target_log_probs(model, states(), ROWS, np.where(ROWS == 7, VOCABULARY, TOKENS))
    assert torch.isnan(found).tolist() == (ROWS == 7).tolist()

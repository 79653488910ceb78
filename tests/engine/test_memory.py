"""How many tokens a pass may have where that is left to the free memory."""

from __future__ import annotations

import pytest
import torch

import fathom.engine.scoring.memory
from fathom.base.errors import BadInput
from fathom.base.options import parse_options
from fathom.engine.scoring.memory import Budget, fitting_tokens, free_bytes
from fathom.probes.options import StatementOptions
from tests.messages import mentions
from tests.scripted import ScriptedModel

MODEL = ScriptedModel(["a", "b"], {})
"""Its states are as wide as its vocabulary: four float32."""
STATE = 4 * 4


@pytest.mark.parametrize(
    ("free", "tokens"),
    [
        (2 * 24 * STATE * 100, 64),  # half of it holds 100 tokens of 24 states
        (2 * 24 * STATE * 2048, 2048),
        (2 * 24 * STATE * 2047, 1024),
        (10**12, 8192),  # four times the usual
        (0, 16),
        (None, 2048),  # a system that does not say
    ],
)
def test_tokens_fit_into_half_of_what_is_free(free: int | None, tokens: int) -> None:
    assert fitting_tokens(MODEL, free) == tokens


def test_free_memory_is_asked_only_where_it_is_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fathom.engine.scoring.memory, "free_bytes", lambda device: 2 * 24 * STATE * 100)
    auto, given, usual = (Budget.from_option(tokens, MODEL) for tokens in ("auto", 7, None))
    assert (auto.tokens, given.tokens, usual.tokens) == (64, 7, 2048)
    assert auto.circumstances() == {"halvings": 0, "fitted_tokens": 64}
    assert given.circumstances() == usual.circumstances() == {"halvings": 0}


def test_this_machine_says_what_is_free() -> None:
    free = free_bytes(torch.device("cpu"))
    assert free is None or free > 2**20


@pytest.mark.parametrize(("said", "meant"), [("auto", "auto"), ("64", 64), (64, 64), (None, None)])
def test_what_batch_tokens_may_be(said: object, meant: object) -> None:
    assert StatementOptions(batch_tokens=said).batch_tokens == meant  # type: ignore[arg-type]


@pytest.mark.parametrize("said", ["0", 0, -1, "all", 1.5, True, ""])
def test_what_it_may_not_be(said: object) -> None:
    with pytest.raises(BadInput, match=mentions("--batch-tokens", "auto")):
        parse_options(StatementOptions, {"batch_tokens": said})

"""The part of a network whose states its head sees: stubbed out with its own states, it leaves the logits unchanged.

The search also checks what all scores rely on: a causal model must not see later tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention
from fathom.engine.models.placement import main_device

NOT_THIS_WAY = (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError, AssertionError)
"""Errors of a module that cannot be called like this."""
BASE = ("get_decoder", "", "encoder")
WHOLE = ("get_decoder", "model.language_model", "model", "language_model")
"""Places of the body below what the class calls its base, and below the whole network, the likeliest first."""


@dataclass
class StatesAlone(BaseModelOutputWithPastAndCrossAttentions):  # type: ignore[misc]
    """Hidden states, and None for any other attribute (Mamba's ``cache_params``, RWKV's ``state``, …)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "to":  # accelerate would call the latter
            raise AttributeError(name)
        return None


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    previous = vars(module).get("forward")  # that of accelerate, which fetches weights from other devices
    module.forward = forward
    try:
        yield
    finally:
        if previous is None:
            del module.forward
        else:
            module.forward = previous


def returns_hidden(body: nn.Module, hidden: Tensor) -> AbstractContextManager[None]:
    """Let *body* return *hidden* without computing anything while inside."""
    output = StatesAlone(last_hidden_state=hidden)
    return replaced_forward(
        body, lambda *args, **kwargs: output if kwargs.get("return_dict", True) else output.to_tuple()
    )


def find_body(network: PreTrainedModel, attention: Attention) -> tuple[nn.Module, bool]:
    """Find the sub-module whose output the head sees.

    :returns: it, and whether it takes vectors (else only token ids).
    :raises BadInput: there is none, the network does not run, or a causal one sees later tokens.
    """
    ids = some_tokens(network)
    with torch.inference_mode():
        expected = _own_logits(network, ids)
        if attention is Attention.CAUSAL:
            _check_causal(network, ids, expected)
        for takes_vectors in (True, False):
            for body in _candidates(network):
                logits = _logits_through(network, body, ids, takes_vectors)
                if logits is not None and same(logits, expected):
                    return body, takes_vectors
    raise BadInput(
        f"a {type(network).__name__} cannot be evaluated: no part of it gives exactly the states that its head takes "
        "(in a class of your own, let a module self.model take input_ids and return these states first)"
    )


def embeddings(network: PreTrainedModel) -> int:
    """Return the number of input embeddings.

    :raises BadInput: there are none: the network does not read tokens.
    """
    weight = getattr(network.get_input_embeddings(), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadInput(f"a {type(network).__name__} has no embeddings of tokens, so it cannot read texts")
    return weight.shape[0]


def some_tokens(network: PreTrainedModel) -> Tensor:
    """Return ids of two rows of six tokens, without padding, at which some models (RoBERTa) count no position."""
    config = network.config.get_text_config()
    padding, vocabulary = getattr(config, "pad_token_id", None), embeddings(network)
    usable = [id_ for id_ in range(min(vocabulary, 16)) if id_ != padding]
    rows = [[usable[place % len(usable)] for place in places] for places in (range(6), range(9, 3, -1))]
    return torch.tensor(rows, device=main_device(network))


def _own_logits(network: PreTrainedModel, ids: Tensor) -> Tensor:
    try:
        return network(input_ids=ids).logits  # type: ignore[no-any-return]
    except Exception as error:  # any error of foreign code
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadInput(f"a {type(network).__name__} does not run on token ids alone: {reason[:200]}") from error


def _check_causal(network: PreTrainedModel, ids: Tensor, whole: Tensor) -> None:
    """:raises BadInput: logits at the first tokens depend on later ones.

    :param whole: the logits of *ids*, shape (2, 6, vocabulary).
    """
    prefix = _own_logits(network, ids[:, :3]).float()
    # Eight-bit products separate outliers by the whole batch, so that they are not quite causal.
    least = 0.1 if getattr(network.config, "quantization_config", None) is not None else 1e-3
    rounding = max(least, 8 * torch.finfo(whole.dtype).eps)
    if (prefix - whole[:, :3].float()).abs().max() > rounding * max(1.0, float(prefix.abs().max())):
        undecided = getattr(network.config, "is_decoder", None) is False
        decoder = "; set is_decoder in its config.json" if undecided else ""
        raise BadInput(
            f"a {type(network).__name__} looks at later tokens, as no causal model does: its likelihoods would be "
            f"meaningless{decoder}"
        )


def same(logits: Tensor, expected: Tensor) -> bool:
    """Compare up to rounding, which is larger in half precision."""
    rounding = max(1e-4, torch.finfo(expected.dtype).eps)
    return logits.shape == expected.shape and torch.allclose(
        logits, expected, rtol=rounding, atol=0.1 * rounding, equal_nan=True
    )


def _candidates(network: PreTrainedModel) -> Iterator[nn.Module]:
    """Yield each sub-module that may be the body once, the likeliest first."""
    seen: list[Any] = [network]
    places = [(network.base_model, path) for path in BASE] + [(network, path) for path in WHOLE]
    for owner, path in places:
        try:
            module: Any = attrgetter(path)(owner) if path else owner
            module = module() if path == "get_decoder" else module
        except NOT_THIS_WAY:
            continue
        if isinstance(module, nn.Module) and not any(module is other for other in seen):
            seen.append(module)
            yield module


def _logits_through(network: PreTrainedModel, body: nn.Module, ids: Tensor, takes_vectors: bool) -> Tensor | None:
    """Run *body* alone and return the network's logits given its states.

    :returns: None if that fails, or if the network bypasses the body: its logits then ignore the states.
    """
    try:
        inputs = {"inputs_embeds": network.get_input_embeddings()(ids)} if takes_vectors else {"input_ids": ids}
        hidden = body(**inputs)[0]
        with returns_hidden(body, hidden):
            logits = network(input_ids=ids).logits
        with returns_hidden(body, torch.zeros_like(hidden)):
            if torch.equal(network(input_ids=ids).logits, logits):
                return None
    except NOT_THIS_WAY:
        return None
    return logits if isinstance(logits, Tensor) and logits.shape[:2] == ids.shape else None

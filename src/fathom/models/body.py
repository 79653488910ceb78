"""The part of a network whose states its head sees, found by trying: stubbed out, it must leave the logits as they are.

Beside it stands what must hold of the network as a whole before anything is concluded from its numbers: a causal model
does not look at later tokens.
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

from fathom.errors import BadInput
from fathom.models.base import Attention
from fathom.models.placement import main_device

NOT_THIS_WAY = (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError, AssertionError)
"""What a module raises that cannot be asked like this."""
BASE = ("get_decoder", "", "encoder")
WHOLE = ("get_decoder", "model.language_model", "model", "language_model")
"""Where the body may stand below what the class calls its base, and below the whole network, the likeliest first."""


@dataclass
class StatesAlone(BaseModelOutputWithPastAndCrossAttentions):  # type: ignore[misc]
    """Hidden states, and None for whatever else is asked of it (Mamba's ``cache_params``, RWKV's ``state``, …)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "to":  # accelerate would call the latter
            raise AttributeError(name)
        return None


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """While inside, *module* does what *forward* does."""
    own = vars(module).get("forward")  # that of accelerate, which fetches weights from where they lie
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def returns_hidden(body: nn.Module, hidden: Tensor) -> AbstractContextManager[None]:
    """While inside, *body* computes nothing and returns *hidden*."""
    output = StatesAlone(last_hidden_state=hidden)
    return replaced_forward(
        body, lambda *args, **kwargs: output if kwargs.get("return_dict", True) else output.to_tuple()
    )


def find_body(network: PreTrainedModel, attention: Attention) -> tuple[nn.Module, bool]:
    """The sub-module whose output is what the head sees.

    :returns: it, and whether it takes vectors (else it takes nothing but token ids).
    :raises BadInput: none can be found, the network does not run, or a causal one looks at later tokens.
    """
    ids = some_tokens(network)
    with torch.inference_mode():
        expected = _own_logits(network, ids)
        if attention is Attention.CAUSAL:
            _check_causal(network, ids, expected)
        for takes_vectors in (True, False):
            for body in _candidates(network):
                found = _through(network, body, ids, takes_vectors)
                if found is not None and same(found, expected):
                    return body, takes_vectors
    raise BadInput(
        f"a {type(network).__name__} cannot be asked: no part of it gives the states that its head takes, and nothing "
        "else (in a class of your own, let a module self.model take input_ids and return these states first)"
    )


def embeddings(network: PreTrainedModel) -> int:
    """How many tokens the network has input embeddings for.

    :raises BadInput: none that could be counted: it reads something else than tokens.
    """
    weight = getattr(network.get_input_embeddings(), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadInput(f"a {type(network).__name__} has no embeddings of tokens, so it cannot be asked by texts")
    return weight.shape[0]


def some_tokens(network: PreTrainedModel) -> Tensor:
    """Ids of two rows of six tokens; none for padding, at which some models (RoBERTa) do not count positions."""
    config = network.config.get_text_config()
    padding, vocabulary = getattr(config, "pad_token_id", None), embeddings(network)
    usable = [id_ for id_ in range(min(vocabulary, 16)) if id_ != padding]
    rows = [[usable[place % len(usable)] for place in places] for places in (range(6), range(9, 3, -1))]
    return torch.tensor(rows, device=main_device(network))


def _own_logits(network: PreTrainedModel, ids: Tensor) -> Tensor:
    try:
        return network(input_ids=ids).logits  # type: ignore[no-any-return]
    except Exception as error:  # whatever a stranger's network raises
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadInput(f"a {type(network).__name__} cannot be asked with token ids alone: {reason[:200]}") from error


def _check_causal(network: PreTrainedModel, ids: Tensor, whole: Tensor) -> None:
    """:raises BadInput: what the network says behind the first tokens depends on those after them.

    :param whole: its logits of *ids*, shape (2, 6, vocabulary).
    """
    beginning = _own_logits(network, ids[:, :3]).float()
    # Eight-bit products set outliers apart by what stands in the whole batch, so that they are not quite causal.
    least = 0.1 if getattr(network.config, "quantization_config", None) is not None else 1e-3
    rounding = max(least, 8 * torch.finfo(whole.dtype).eps)
    if (beginning - whole[:, :3].float()).abs().max() > rounding * max(1.0, float(beginning.abs().max())):
        undecided = getattr(network.config, "is_decoder", None) is False
        decoder = "; set is_decoder in its config.json" if undecided else ""
        raise BadInput(
            f"a {type(network).__name__} looks at later tokens, as no causal model does: its likelihoods would be "
            f"those of nothing{decoder}"
        )


def same(found: Tensor, expected: Tensor) -> bool:
    """Equal but for rounding, which half precision has more of."""
    rounding = max(1e-4, torch.finfo(expected.dtype).eps)
    return found.shape == expected.shape and torch.allclose(
        found, expected, rtol=rounding, atol=0.1 * rounding, equal_nan=True
    )


def _candidates(network: PreTrainedModel) -> Iterator[nn.Module]:
    """Sub-modules that may be the body, each once, the likeliest first."""
    seen: list[Any] = [network]
    places = [(network.base_model, path) for path in BASE] + [(network, path) for path in WHOLE]
    for owner, path in places:
        try:
            module: Any = attrgetter(path)(owner) if path else owner
            module = module() if path == "get_decoder" else module
        except NOT_THIS_WAY:
            continue
        if isinstance(module, nn.Module) and not any(module is one for one in seen):
            seen.append(module)
            yield module


def _through(network: PreTrainedModel, body: nn.Module, ids: Tensor, takes_vectors: bool) -> Tensor | None:
    """The network's logits where *body* is asked by itself, and its states put in its place; None where it cannot, or
    where the network goes round it: its logits are then the same whatever is put there."""
    try:
        inputs = {"inputs_embeds": network.get_input_embeddings()(ids)} if takes_vectors else {"input_ids": ids}
        hidden = body(**inputs)[0]
        with returns_hidden(body, hidden):
            found = network(input_ids=ids).logits
        with returns_hidden(body, torch.zeros_like(hidden)):
            if torch.equal(network(input_ids=ids).logits, found):
                return None
    except NOT_THIS_WAY:
        return None
    return found if isinstance(found, Tensor) and found.shape[:2] == ids.shape else None

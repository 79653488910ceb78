"""The last layer of a masked model run for some positions alone, where the states of no others are wanted.

BERT's family closes a layer's attention with ``output(mixed, residual)``: handed some positions of both, everything
behind it (three quarters of the layer) runs there alone. The attention itself can be had for less, too. Of the keys
only their products with a few queries are needed, and q · (K h) = (Kᵀ q) · h; of the values only a few weighted means,
and the mean of V h is V times the mean of h: so neither keys nor values of all positions are ever made. A key's bias
adds the same to all scores of a query, and leaves the soft-max as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fathom.models.body import NOT_THIS_WAY, replaced_forward
from fathom.models.kernels import FastLinear

Way = Callable[[Tensor, Tensor], AbstractContextManager[None]]
"""Of rows, shape (b, 1), and positions of each, shape (b, k): while inside, the body returns those alone, (b, k, d)."""


def find_ways(body: nn.Module, hidden: Callable[[Tensor], Tensor], vectors: Tensor) -> list[Way]:
    """How the last layer of *body* can run at some positions alone: the way that saves most first. Each is believed
    only if a sample agrees.

    :param hidden: the states of all positions, as *body* makes them, (b, n, d) → (b, n, d).
    :param vectors: the sample, shape (2, 3, d).
    """
    try:
        attention: Any = body.encoder.layer[-1].attention  # type: ignore[union-attr,index]
        with torch.inference_mode():
            rows, at = (torch.tensor(place, device=vectors.device) for place in ([[0], [1]], [[2], [1]]))
            expected = hidden(vectors)[rows, at]
            ways: tuple[Way, ...] = (_mixed_at(attention), _closed_at(attention))
            return [way for way in ways if _agrees(way(rows, at), hidden, vectors, expected)]
    except NOT_THIS_WAY:
        return []


def _agrees(
    inside: AbstractContextManager[None], hidden: Callable[[Tensor], Tensor], vectors: Tensor, expected: Tensor
) -> bool:
    rounding = max(1e-4, 8 * torch.finfo(expected.dtype).eps)
    try:
        with inside:
            found = hidden(vectors)
    except NOT_THIS_WAY:
        return False
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=rounding, atol=rounding)


def _closed_at(attention: Any) -> Way:
    """What stands behind the attention runs at some positions."""

    @contextmanager
    def way(rows: Tensor, at: Tensor) -> Iterator[None]:
        def chosen(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(states[rows, at] for states in inputs)

        with attention.output.register_forward_pre_hook(chosen):
            yield

    return way


def _mixed_at(attention: Any) -> Way:
    """The attention, too, looks from some positions alone."""

    @contextmanager
    def way(rows: Tensor, at: Tensor) -> Iterator[None]:
        def mixed(hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
            return _mix(attention.self, hidden_states, hidden_states[rows, at]), None

        def chosen(_: nn.Module, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return inputs[0], inputs[1][rows, at]

        with replaced_forward(attention.self, mixed), attention.output.register_forward_pre_hook(chosen):
            yield

    return way


def _mix(layer: Any, states: Tensor, looking: Tensor) -> Tensor:
    """What each head gathers, side by side.

    :param layer: with linear layers ``query``, ``key`` and ``value``.
    :param states: all that is looked at, shape (b, n, d).
    :param looking: what looks, shape (b, k, d).
    :returns: shape (b, k, d).
    """
    for part in (layer.query, layer.key, layer.value):
        if type(part) not in (nn.Linear, FastLinear):  # an adapter's or a quantised layer's weight is not all of it
            raise TypeError("not a plain linear layer")
    (b, k, d), heads = looking.shape, layer.num_attention_heads
    size = layer.query.weight.shape[0] // heads
    key, value = (part.weight.view(heads, size, d) for part in (layer.key, layer.value))
    query = layer.query(looking).view(b * k, heads, size).transpose(0, 1) * size**-0.5
    scores = (query @ key).transpose(0, 1).reshape(b, k * heads, d) @ states.transpose(1, 2)
    gathered = (torch.softmax(scores, dim=-1) @ states).view(b * k, heads, d).transpose(0, 1)
    mixed = (gathered @ value.transpose(1, 2)).transpose(0, 1).reshape(b, k, heads * size)
    biased: Tensor = mixed if layer.value.bias is None else mixed + layer.value.bias
    return biased

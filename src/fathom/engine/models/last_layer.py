"""The last layer of a masked model, run only at the positions whose states are wanted.

BERT's family closes a layer's attention with ``output(mixed, residual)``. Given some positions of both, the rest of the
layer (three quarters of it) runs there alone. The attention can be reduced, too. Only products of the keys with a few
queries are needed, and q · (K h) = (Kᵀ q) · h. Only a few weighted means of the values are needed, and the mean of V h
is V times the mean of h. So neither keys nor values of all positions are computed. A key's bias adds the same to all
scores of a query, and leaves the softmax unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fathom.engine.models.body import NOT_THIS_WAY, replaced_forward
from fathom.engine.models.kernels import FastLinear

PartialPass = Callable[[Tensor, Tensor], AbstractContextManager[None]]
"""Takes rows, shape (b, 1), and positions, shape (b, k). Inside, the body returns only these states, (b, k, d)."""


def find_partial_passes(body: nn.Module, hidden: Callable[[Tensor], Tensor], vectors: Tensor) -> list[PartialPass]:
    """Return the ways to run the last layer of *body* at some positions, the fastest first, that pass a check.

    :param hidden: the states of all positions as *body* computes them, (b, n, d) → (b, n, d).
    :param vectors: the sample, shape (2, 3, d).
    """
    try:
        attention: Any = body.encoder.layer[-1].attention  # type: ignore[union-attr,index]
        with torch.inference_mode():
            rows, at = (torch.tensor(place, device=vectors.device) for place in ([[0], [1]], [[2], [1]]))
            expected = hidden(vectors)[rows, at]
            passes: tuple[PartialPass, ...] = (_partial_attention(attention), _partial_output(attention))
            return [run for run in passes if _agrees(run(rows, at), hidden, vectors, expected)]
    except NOT_THIS_WAY:
        return []


def _agrees(
    inside: AbstractContextManager[None], hidden: Callable[[Tensor], Tensor], vectors: Tensor, expected: Tensor
) -> bool:
    rounding = max(1e-4, 8 * torch.finfo(expected.dtype).eps)
    try:
        with inside:
            states = hidden(vectors)
    except NOT_THIS_WAY:
        return False
    return states.shape == expected.shape and torch.allclose(states, expected, rtol=rounding, atol=rounding)


def _partial_output(attention: Any) -> PartialPass:
    """Run what follows the attention at some positions."""

    @contextmanager
    def run(rows: Tensor, at: Tensor) -> Iterator[None]:
        def chosen(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(states[rows, at] for states in inputs)

        with attention.output.register_forward_pre_hook(chosen):
            yield

    return run


def _partial_attention(attention: Any) -> PartialPass:
    """Compute the attention, too, from some positions alone."""

    @contextmanager
    def run(rows: Tensor, at: Tensor) -> Iterator[None]:
        def mixed(hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
            return _mix(attention.self, hidden_states, hidden_states[rows, at]), None

        def chosen(_: nn.Module, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return inputs[0], inputs[1][rows, at]

        with replaced_forward(attention.self, mixed), attention.output.register_forward_pre_hook(chosen):
            yield

    return run


def _mix(layer: Any, states: Tensor, attending: Tensor) -> Tensor:
    """Return the output of all heads, concatenated, shape (b, k, d).

    :param layer: with linear layers ``query``, ``key`` and ``value``.
    :param states: attended to, shape (b, n, d).
    :param attending: shape (b, k, d).
    """
    for part in (layer.query, layer.key, layer.value):
        if type(part) not in (nn.Linear, FastLinear):  # an adapter's or a quantised layer's weight is not all of it
            raise TypeError("not a plain linear layer")
    (b, k, d), heads = attending.shape, layer.num_attention_heads
    size = layer.query.weight.shape[0] // heads
    key, value = (part.weight.view(heads, size, d) for part in (layer.key, layer.value))
    query = layer.query(attending).view(b * k, heads, size).transpose(0, 1) * size**-0.5
    scores = (query @ key).transpose(0, 1).reshape(b, k * heads, d) @ states.transpose(1, 2)
    gathered = (torch.softmax(scores, dim=-1) @ states).view(b * k, heads, d).transpose(0, 1)
    mixed = (gathered @ value.transpose(1, 2)).transpose(0, 1).reshape(b, k, heads * size)
    biased: Tensor = mixed if layer.value.bias is None else mixed + layer.value.bias
    return biased

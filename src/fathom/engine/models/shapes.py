"""Networks of a model's shape in little memory: weights of one name and shape are one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_PATTERN = 1_048_573
"""Random numbers, repeated in larger weights; a prime, so that no two rows are equal."""


@contextmanager
def weights_on_meta() -> Iterator[None]:
    """Let modules made inside have weights without memory; buffers, which are small, are as usual."""
    register: Any = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta:
            weight = nn.Parameter(weight.to("meta"), requires_grad=False)
        register(module, name, weight)

    nn.Module.register_parameter = on_meta  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def share_by_shape(network: nn.Module, device: torch.device) -> None:
    """Give weights on the meta device memory and random values, shared by all of one name, shape and precision."""
    made: dict[Any, nn.Parameter] = {}
    noise = torch.randn(_PATTERN, generator=torch.Generator().manual_seed(0)) * 0.02
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                key = name, weight.shape, weight.dtype
                if key not in made:
                    made[key] = nn.Parameter(_values(name, weight, noise).to(device), requires_grad=False)
                module._parameters[name] = made[key]
    network.to(device)


def _values(name: str, weight: Tensor, noise: Tensor) -> Tensor:
    """Return zeros for a bias, ones for the scale of a norm, else random numbers."""
    if weight.dim() < 2:
        return torch.full(weight.shape, float(name != "bias"), dtype=weight.dtype)
    times = -(-weight.numel() // len(noise))
    return noise.to(weight.dtype).repeat(times)[: weight.numel()].view(weight.shape)

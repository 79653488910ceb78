"""Faster CPU kernels for the layers of a loaded model: the same function, other instructions.

Two things cost a float32 transformer on a CPU more than they should. ``torch.nn.functional.linear`` takes MKL, which
leaves the AVX-512 units of many processors idle; oneDNN, which torch ships as well, does not. And the GPT-2 family
writes its GELU as eight element-wise passes over memory where one kernel does the same. Both are exchanged here, for
inference only: with gradients on, the layers run torch's own path.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

FAST_DTYPES = (torch.float32, torch.bfloat16)


def _onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")  # type: ignore[no-any-return]


def _onednn_works() -> bool:
    """Whether this build of torch has the oneDNN operator and it agrees with the plain one."""
    inputs, weight = torch.linspace(-1, 1, 12).view(3, 4), torch.linspace(-2, 2, 20).view(5, 4)
    try:
        found = _onednn_linear(inputs, weight, None)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.allclose(found, functional.linear(inputs, weight), atol=1e-5)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``inputs @ weight.T + bias`` by the fastest exact kernel at hand. :param inputs: shape (…, in)."""
    plain = weight.device.type != "cpu" or weight.dtype not in FAST_DTYPES or torch.is_grad_enabled()
    if plain or not ONEDNN:
        return functional.linear(inputs, weight, bias)
    return _onednn_linear(inputs, weight, bias)


class FastLinear(nn.Linear):
    """``nn.Linear`` through :func:`linear`. Takes over the tensors of the layer it replaces, so it costs no memory."""

    @classmethod
    def taking_over(cls, weight: Tensor, bias: Tensor | None) -> FastLinear:
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.out_features, layer.in_features = weight.shape
        layer.weight, layer.bias = weight, bias  # type: ignore[assignment]
        return layer

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def use_fast_kernels(model: nn.Module) -> None:
    """Exchange the layers of *model* in place where a faster equal one is known. No-op off the CPU.

    Float16 keeps its linear layers. Tied weights stay tied. Quantised and adapter layers are sub-classes and
    are left alone.
    """
    first = next(model.parameters())
    if first.device.type != "cpu":
        return
    slow_gelu = (type(ACT2FN["gelu_new"]), type(ACT2FN["gelu_fast"]))
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, slow_gelu):
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif first.dtype not in FAST_DTYPES:
                continue
            elif type(child) is nn.Linear:
                setattr(parent, name, FastLinear.taking_over(child.weight, child.bias))
            elif type(child) is Conv1D:  # GPT-2 keeps its weights transposed
                conv: Any = child
                weight = nn.Parameter(conv.weight.detach().t().contiguous(), requires_grad=False)
                setattr(parent, name, FastLinear.taking_over(weight, conv.bias))


ONEDNN = _onednn_works()

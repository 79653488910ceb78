"""Faster CPU kernels for the layers of a loaded model: the same function, other instructions.

Two things cost a float32 transformer on a CPU more than they should. ``torch.nn.functional.linear`` takes MKL, which
leaves the AVX-512 units of many processors idle; oneDNN, which torch ships as well, does not. And GELU passes over
memory once more (eight times in the GPT-2 family), which oneDNN does while the product is still in the cache. Both are
exchanged here, for inference only: with gradients on, the layers run torch's own path. With AVX2 alone MKL is the
faster one of the two (``python benchmarks/products.py``), and products of many rows in float32 are left to it.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

FAST_DTYPES = (torch.float32, torch.bfloat16)


def _onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None, gelu: str | None = None) -> Tensor:
    """The product, and behind it the GELU of kind *gelu* (torch's ``approximate``), if any."""
    after, kind = ("none", "") if gelu is None else ("gelu", gelu)
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, after, [], kind)  # type: ignore[no-any-return]


def _onednn_works(dtype: torch.dtype) -> bool:
    """Whether this build of torch has the oneDNN operator, this processor can run it at that precision (bfloat16 takes
    AVX-512), and it agrees with the plain one."""
    inputs, weight = (torch.linspace(-1, 1, 4 * rows, dtype=dtype).view(rows, 4) for rows in (3, 5))
    try:
        found = _onednn_linear(inputs, weight, None)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.allclose(found, functional.linear(inputs, weight), atol=8 * torch.finfo(dtype).eps)


def _takes_onednn(inputs: Tensor, weight: Tensor) -> bool:
    if weight.device.type != "cpu" or weight.dtype not in ONEDNN or torch.is_grad_enabled():
        return False
    few = MKL_ROWS is None or inputs.numel() < MKL_ROWS * inputs.shape[-1]
    return few or weight.dtype != torch.float32


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None, gelu: str | None = None) -> Tensor:
    """``inputs @ weight.T + bias`` by the fastest exact kernel at hand.

    :param inputs: shape (…, in).
    :param gelu: apply GELU of this kind (``none`` or ``tanh``) to it; None for no GELU.
    """
    if _takes_onednn(inputs, weight):
        return _onednn_linear(inputs, weight, bias, gelu)
    product = functional.linear(inputs, weight, bias)
    return product if gelu is None else functional.gelu(product, approximate=gelu)


class FastLinear(nn.Linear):
    """``nn.Linear`` through :func:`linear`. Takes over the tensors of the layer it replaces, so it costs no memory."""

    gelu: str | None = None
    """The kind of GELU applied to the product, if one is."""

    @classmethod
    def taking_over(cls, weight: Tensor, bias: Tensor | None) -> FastLinear:
        """A layer of these very tensors.

        :param weight: shape (out, in).
        :param bias: shape (out,), or None.
        """
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.out_features, layer.in_features = weight.shape
        layer.weight, layer.bias = weight, bias  # type: ignore[assignment]
        return layer

    def forward(self, inputs: Tensor) -> Tensor:
        """See :func:`linear`.

        :param inputs: shape (…, in).
        """
        return linear(inputs, self.weight, self.bias, self.gelu)


def use_fast_kernels(model: nn.Module) -> None:
    """Exchange the layers of *model* in place where a faster equal one is known. No-op off the CPU.

    Float16 keeps its linear layers. Tied weights stay tied. Quantised and adapter layers are sub-classes and
    are left alone. The weights of GPT-2's kind of linear layers are copied, the others are taken over.
    """
    first = next(model.parameters())
    if first.device.type != "cpu":
        return
    keep_freed_memory()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if _gelu_kind(child) == "tanh":
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif first.dtype not in FAST_DTYPES:
                continue
            elif type(child) is nn.Linear:
                setattr(parent, name, FastLinear.taking_over(child.weight, child.bias))
            elif type(child) is Conv1D:
                # GPT-2 keeps its weights transposed; a view of them takes 1.6 times as long (768 × 3072).
                conv: Any = child
                weight = nn.Parameter(conv.weight.detach().t().contiguous(), requires_grad=False)
                setattr(parent, name, FastLinear.taking_over(weight, conv.bias))
        _fuse_gelu(parent)


@cache
def keep_freed_memory() -> None:
    """Let the C library of Linux keep up to a GiB that was freed, instead of handing it back to the system.

    What a layer computes is freed a moment later, and its next pages would be the system's again, each to be fetched
    and cleared by a fault: 8 % of the time of a Llama of 1,024 dimensions (``benchmarks/before.py llama``), more of
    smaller ones. No-op elsewhere.
    """
    if sys.platform == "linux" and (set_option := getattr(ctypes.CDLL(None), "mallopt", None)):
        # Older versions refuse more than 32 MiB. Where both are refused, the second one alone would do harm: it ends
        # glibc's own habit of raising the first.
        if set_option(MMAP_THRESHOLD, 1 << 30) or set_option(MMAP_THRESHOLD, 32 << 20):
            set_option(TRIM_THRESHOLD, 1 << 30)


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Options of glibc's ``mallopt``: blocks from so many bytes on are the system's own; so many free ones are kept."""

# A feed-forward block's first layer and the activation that its forward applies to just that layer's output:
# BERT, RoBERTa, ELECTRA, DeBERTa; GPT-2, GPT-Neo; GPT-NeoX (Pythia); DistilBERT.
FUSED = (("dense", "intermediate_act_fn"), ("c_fc", "act"), ("dense_h_to_4h", "act"), ("lin1", "activation"))


def _fuse_gelu(block: nn.Module) -> None:
    """Let the first layer of a feed-forward block do the GELU as well."""
    for layer_name, activation_name in FUSED:
        layer, activation = getattr(block, layer_name, None), getattr(block, activation_name, None)
        if isinstance(layer, FastLinear) and (kind := _gelu_kind(activation)):
            layer.gelu = kind
            setattr(block, activation_name, nn.Identity())


def _gelu_kind(activation: object) -> str | None:
    """torch's name for the GELU that *activation* computes; None where it is something else."""
    if isinstance(activation, nn.GELU):
        return activation.approximate
    if isinstance(activation, type(ACT2FN["gelu_new"]) | type(ACT2FN["gelu_fast"])):
        return "tanh"
    return "none" if type(activation) is type(ACT2FN["gelu"]) else None


ONEDNN = {dtype for dtype in FAST_DTYPES if _onednn_works(dtype)}
"""Precisions at which it does."""
MKL_ROWS = 64 if torch.backends.cpu.get_cpu_capability() == "AVX2" and torch.backends.mkl.is_available() else None  # type: ignore[no-untyped-call]
"""From so many rows on float32 is left to MKL; None for never. With AVX2 alone MKL has every unit of the processor at
work, and torch's own GELU is faster than the one that oneDNN puts behind its product. Of a few rows MKL sums in other
ways than of many, so that scores would depend on the batch more than they have to. Told by the processor, not by a
race: the same machine takes the same way in every session."""

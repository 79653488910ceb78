"""Faster CPU kernels for the layers of a loaded model: the same function, other instructions.

MKL leaves the AVX-512 units of many processors idle; oneDNN uses them. With AVX2 alone MKL is faster for many rows
(``python benchmarks/run.py products``). With gradients on, the layers run torch's own path.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

FAST_DTYPES = (torch.float32, torch.bfloat16)
TANH_GELU = (type(ACT2FN["gelu_new"]), type(ACT2FN["gelu_fast"]))
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Options of glibc's ``mallopt``: least size of a block that returns to the system when freed; most free bytes kept."""


def _onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")  # type: ignore[no-any-return]


def _onednn_works(dtype: torch.dtype) -> bool:
    """Check that torch has the oneDNN operator, that this processor runs it, and that it agrees with the plain one."""
    inputs, weight = (torch.linspace(-1, 1, 4 * rows, dtype=dtype).view(rows, 4) for rows in (3, 5))
    try:
        product = _onednn_linear(inputs, weight, None)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.allclose(product, functional.linear(inputs, weight), atol=8 * torch.finfo(dtype).eps)


ONEDNN = {dtype for dtype in FAST_DTYPES if _onednn_works(dtype)}
"""Precisions in which oneDNN works; bfloat16 needs AVX-512."""
MKL_ROWS = 64 if torch.backends.cpu.get_cpu_capability() == "AVX2" and torch.backends.mkl.is_available() else None  # type: ignore[no-untyped-call]
"""Number of rows from which float32 is left to MKL; None for never.

With AVX2 alone MKL uses every unit of the processor. For few rows MKL sums in another order than for many, so scores
would depend on the batch more than necessary. The processor decides, not a timing, so that one machine gives the same
scores in every session."""


def _takes_onednn(inputs: Tensor, weight: Tensor) -> bool:
    if weight.device.type != "cpu" or weight.dtype not in ONEDNN or torch.is_grad_enabled():
        return False
    few = MKL_ROWS is None or inputs.numel() < MKL_ROWS * inputs.shape[-1]
    return few or weight.dtype != torch.float32


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``inputs @ weight.T + bias`` by the fastest exact kernel. :param inputs: shape (…, in)."""
    product = _onednn_linear if _takes_onednn(inputs, weight) else functional.linear
    return product(inputs, weight, bias)


class FastLinear(nn.Linear):
    """``nn.Linear`` through :func:`linear`."""

    @classmethod
    def taking_over(cls, weight: Tensor, bias: Tensor | None) -> FastLinear:
        """Make a layer of these very tensors, without a copy.

        :param weight: shape (out, in).
        :param bias: shape (out,), or None.
        """
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.out_features, layer.in_features = weight.shape
        layer.weight, layer.bias = weight, bias  # type: ignore[assignment]
        return layer

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


class Exchange(NamedTuple):
    """A layer, *name* of *parent*, and the faster one in its place."""

    parent: nn.Module
    name: str
    original: nn.Module
    fast: nn.Module

    @classmethod
    def made(cls, parent: nn.Module, name: str, fast: nn.Module) -> Exchange:
        """Put *fast* in the place of a layer."""
        exchange = cls(parent, name, getattr(parent, name), fast)
        setattr(parent, name, fast)
        return exchange


@contextmanager
def original_layers(exchanges: Sequence[Exchange]) -> Iterator[None]:
    """Put the original layers back while inside."""
    for parent, name, original, _ in reversed(exchanges):
        setattr(parent, name, original)
    try:
        yield
    finally:
        for parent, name, _, fast in exchanges:
            setattr(parent, name, fast)


def use_fast_kernels(model: nn.Module) -> list[Exchange]:
    """Exchange layers of *model* in place for faster equal ones. No-op off the CPU.

    Float16 keeps its linear layers, tied weights stay tied, and quantised and adapter layers (sub-classes) are left
    alone. The weights of GPT-2's linear layers are copied, others are taken over.

    :returns: what was exchanged, in order, for :func:`original_layers`.
    """
    first = next(model.parameters())
    if first.device.type != "cpu":
        return []
    keep_freed_memory()
    exchanges = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, TANH_GELU):
                exchanges.append(Exchange.made(parent, name, nn.GELU(approximate="tanh")))
            elif first.dtype in FAST_DTYPES and (fast := _fast_linear(child)):
                exchanges.append(Exchange.made(parent, name, fast))
    return exchanges


def _fast_linear(layer: nn.Module) -> FastLinear | None:
    if type(layer) is nn.Linear:
        return FastLinear.taking_over(layer.weight, layer.bias)
    if type(layer) is not Conv1D:
        return None
    # GPT-2 keeps its weights transposed; a view of them takes 1.6 times as long (768 × 3072).
    conv: Any = layer
    weight = nn.Parameter(conv.weight.detach().t().contiguous(), requires_grad=False)
    conv.weight = nn.Parameter(weight.t(), requires_grad=False)  # so that memory holds one copy
    return FastLinear.taking_over(weight, conv.bias)


@cache
def keep_freed_memory() -> None:
    """Let the C library of Linux keep up to a GiB of freed memory instead of returning it to the system.

    Otherwise the next layer's pages are fetched and cleared by faults: 8 % of the time of a Llama of 1,024 dimensions
    (``benchmarks/run.py allocator``), more of smaller ones. No-op elsewhere.
    """
    if sys.platform == "linux" and (set_option := getattr(ctypes.CDLL(None), "mallopt", None)):
        # Older versions refuse more than 32 MiB. If both are refused, setting the second option alone would do harm:
        # it ends glibc's own habit of raising the first.
        if set_option(MMAP_THRESHOLD, 1 << 30) or set_option(MMAP_THRESHOLD, 32 << 20):
            set_option(TRIM_THRESHOLD, 1 << 30)

"""The weights of a network: on one or several devices, quantised, in faster layers, or stand-ins of their shape.

accelerate fetches the weights of a module when it is called, so models on several devices run as their classes define
them. Elsewhere oneDNN uses AVX-512 units that MKL leaves idle; with AVX2 alone MKL is faster for many rows
(``python benchmarks/run.py products``). With gradients on, the layers run torch's own path.
"""

from __future__ import annotations

import ctypes
import logging
import shutil
import sys
import tempfile
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from fathom.base.errors import BadInput, MissingExtra
from fathom.engine.models.model_files import gguf_file

DeviceMap = str | Mapping[str, Any]
"""auto, balanced, sequential, or the place of each module ("cpu", "disk", 0, …)."""
ELSEWHERE = ("cpu", "disk")
"""Places from which weights are fetched."""


def check_map(device_map: DeviceMap, others: Mapping[str, Any]) -> None:
    """:param others: incompatible options, by name.
    :raises BadInput: one of them is given.
    :raises MissingExtra: accelerate is not installed.
    """
    shown = device_map if isinstance(device_map, str) else "…"
    if conflicting := [f"--{name} {value}" for name, value in others.items() if value]:
        raise BadInput(
            f"--device-map {shown} spreads the model over all devices, memory and disk, and cannot be combined with "
            f"{', '.join(conflicting)}: drop one of them"
        )
    if find_spec("accelerate") is None:
        raise MissingExtra("accelerate", "device-map")


def check_precision(dtype: str, config: Any, device: torch.device) -> None:
    """:raises BadInput: float16 on a CPU, which has no fast products in it."""
    saved = getattr(config, "dtype", None) if dtype == "auto" and not hasattr(config, "quantization_config") else None
    if device.type == "cpu" and (dtype == "float16" or saved == torch.float16):
        raise BadInput(
            f"--dtype {dtype}: float16 takes several times as long as float32 on a CPU: use float32, or bfloat16 for "
            "half the memory"
        )


class WeightsFolder:
    """A temporary folder for weights on disk; removed with this object, at the latest when the process ends."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="fathom-weights-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def spreading(device_map: DeviceMap) -> tuple[dict[str, Any], WeightsFolder]:
    """Return options for ``from_pretrained``, and the folder it writes to, to be kept as long as the model."""
    logging.getLogger("accelerate.big_modeling").setLevel(logging.ERROR)  # else it logs what the user requested
    folder = WeightsFolder()
    return {"device_map": device_map, "offload_folder": folder.name}, folder


def is_spread(network: nn.Module) -> bool:
    """Check whether accelerate fetches weights or moves states between devices."""
    return any(hasattr(module, "_hf_hook") for module in network.modules())


def main_device(network: Any) -> torch.device:
    """Return the device of the first layer."""
    places = getattr(network, "hf_device_map", None) or {}
    if not is_spread(network):
        return network.device  # type: ignore[no-any-return]
    computing = (place for place in places.values() if str(place) not in ELSEWHERE)
    return torch.device(next(computing, "cpu"))


def placement(network: Any) -> dict[str, int] | None:
    """Count the modules on each device; None if all are on one."""
    if not is_spread(network):
        return None
    return dict(Counter(map(str, getattr(network, "hf_device_map", {}).values())))


def each_weight(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights by name, fetching those on other devices one module at a time."""
    if not is_spread(network):
        yield from network.named_parameters()
        return
    from accelerate.utils import align_module_device

    for prefix, module in network.named_modules():
        with align_module_device(module, torch.device("cpu")):
            for name, weight in module.named_parameters(recurse=False):
                yield f"{prefix}.{name}".removeprefix("."), weight


EIGHT_BITS = "bitsandbytes 8bit"
"""How :func:`precision_of` describes a method that separates outliers by the whole batch."""


def quantised_options(quantize: str | None, config: Any, name: str, device: torch.device) -> dict[str, Any]:
    """Return the options that load quantised weights to the device; {} for plain weights.

    :param quantize: "4bit", "8bit" or None for weights as they were saved.
    :raises BadInput: weights to quantise are quantised already, or were by an unknown method.
    :raises MissingExtra: a library is not installed.
    """
    options = {} if quantize is None else {"quantization_config": _quantisation(quantize, config, name)}
    if not options and not _is_quantised(config, name):
        return {}
    # A message per product; in newer versions a line of their log, see fathom.engine.models.hub.
    warnings.filterwarnings("ignore", message="MatMul8bitLt: inputs will be cast", category=UserWarning)
    return options | {"device_map": {"": device}}


def _quantisation(quantize: str, config: Any, name: str) -> BitsAndBytesConfig:
    """:raises BadInput: the weights are quantised already."""
    if getattr(config, "quantization_config", None) is not None or gguf_file(name) is not None:
        raise BadInput(f"'{name}' holds quantised weights: drop --quantize {quantize}")
    for library in ("accelerate", "bitsandbytes"):
        if find_spec(library) is None:
            raise MissingExtra(library, "quantize")
    return BitsAndBytesConfig(load_in_4bit=quantize == "4bit", load_in_8bit=quantize == "8bit")


def _is_quantised(config: Any, name: str) -> bool:
    """:raises BadInput: by a method that `transformers` would ignore, as if the weights were plain."""
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, dict) else None
    methods = {*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"}
    if method is not None and method not in methods:
        raise BadInput(
            f"'{name}' says that its weights are quantised by '{method}', which this version of transformers does not "
            "know: take the model's unquantised version, or delete quantization_config in config.json if it is wrong"
        )
    if stated is not None and find_spec("accelerate") is None:
        raise MissingExtra("accelerate", "quantize")
    return stated is not None


def remedy(dtype: str) -> str | None:
    """Return why scores depend on the batch, and what to use; None if they do not.

    :param dtype: of :func:`precision_of`.
    """
    if EIGHT_BITS not in dtype:
        return None
    return (
        "--quantize 8bit rounds all tokens of a batch together, so that a score depends on the other texts: use "
        "--quantize 4bit, --dtype bfloat16, or an 8-bit GGUF file at llama.cpp's server (--server URL)"
    )


def precision_of(network: PreTrainedModel) -> str:
    """Describe the weights, such as "float32" or "bitsandbytes 4bit, bfloat16"."""
    dtype = str(network.dtype).removeprefix("torch.")
    quantisation = getattr(network.config, "quantization_config", None)
    if quantisation is None:
        return dtype
    stated = quantisation if isinstance(quantisation, dict) else quantisation.to_dict()
    bits = next((str(bits) for bits in (4, 8) if stated.get(f"load_in_{bits}bit")), stated.get("bits"))
    method = getattr(stated.get("quant_method"), "value", stated.get("quant_method"))
    return f"{method}{f' {bits}bit' if bits else ''}, {dtype}"


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


def keep_layers(network: nn.Module, count: int) -> float:
    """Keep the first layers of a network, if all are alike. :returns: number of layers for each one kept."""
    config: Any = network.config.get_text_config()  # type: ignore[operator, union-attr]
    layers = getattr(config, "num_hidden_layers", 0)
    stacks = [
        (module, name)
        for module in network.modules()
        for name, part in module.named_children()
        if isinstance(part, nn.ModuleList) and len(part) == layers
    ]
    if layers <= count or len(stacks) != 1 or len(set(getattr(config, "layer_types", None) or ())) > 1:
        return 1.0
    [(module, name)] = stacks
    setattr(module, name, getattr(module, name)[:count])
    config.num_hidden_layers = count
    return float(layers / count)


def _values(name: str, weight: Tensor, noise: Tensor) -> Tensor:
    """Return zeros for a bias, ones for the scale of a norm, else random numbers."""
    if weight.dim() < 2:
        return torch.full(weight.shape, float(name != "bias"), dtype=weight.dtype)
    times = -(-weight.numel() // len(noise))
    return noise.to(weight.dtype).repeat(times)[: weight.numel()].view(weight.shape)


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


Exchange = tuple[nn.Module, str, nn.Module, nn.Module]
"""A module, the name of a layer in it, that layer, and the faster one in its place."""


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
    exchanges: list[Exchange] = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            fast: nn.Module | None = None
            if isinstance(child, TANH_GELU):
                fast = nn.GELU(approximate="tanh")
            elif first.dtype in FAST_DTYPES:
                fast = _fast_linear(child)
            if fast is not None:
                setattr(parent, name, fast)
                exchanges.append((parent, name, child, fast))
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

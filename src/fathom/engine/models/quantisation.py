"""Quantised weights: by bitsandbytes while they are loaded, or as they were saved."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from fathom.base.errors import BadInput, MissingExtra
from fathom.engine.models.content import gguf_file

EIGHT_BITS = "bitsandbytes 8bit"
"""How :func:`precision_of` describes a method that separates outliers by the whole batch."""


def quantised_options(quantize: str | None, config: Any, name: str, device: torch.device) -> dict[str, Any]:
    """Return the options that load quantised weights to the device; {} for plain weights.

    :param quantize: "4bit", "8bit" or None for weights as they were saved.
    :raises BadInput: weights to quantise are quantised already, or were by an unknown method.
    :raises MissingExtra: a library is not installed.
    """
    chosen = {} if quantize is None else {"quantization_config": _quantisation(quantize, config, name)}
    if not chosen and not _is_quantised(config, name):
        return {}
    # A message per product; in newer versions a line of their log, see fathom.engine.models.hub.
    warnings.filterwarnings("ignore", message="MatMul8bitLt: inputs will be cast", category=UserWarning)
    return chosen | {"device_map": {"": device}}


def _quantisation(quantize: str, config: Any, name: str) -> BitsAndBytesConfig:
    """:raises BadInput: the weights are quantised already.
    :raises MissingExtra: a library is not installed.
    """
    if getattr(config, "quantization_config", None) is not None or gguf_file(name) is not None:
        raise BadInput(f"'{name}' holds quantised weights: drop --quantize {quantize}")
    for library in ("accelerate", "bitsandbytes"):
        if find_spec(library) is None:
            raise MissingExtra(library, "quantize")
    return BitsAndBytesConfig(load_in_4bit=quantize == "4bit", load_in_8bit=quantize == "8bit")


def _is_quantised(config: Any, name: str) -> bool:
    """:raises BadInput: by a method that `transformers` would ignore, as if the weights were plain.
    :raises MissingExtra: accelerate is not installed.
    """
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, dict) else None
    known = {*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"}
    if method is not None and method not in known:
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

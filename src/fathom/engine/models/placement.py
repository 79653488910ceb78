"""Models larger than one device: accelerate puts their layers on several devices, in memory or on disk.

It fetches a module's weights when the module is called, so reading a weight directly yields nothing. Such models
therefore run as their classes define them, without our kernels, and their head gives whole rows of logits.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from fathom.base.errors import BadInput, MissingExtra

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
    if given := [f"--{name} {value}" for name, value in others.items() if value]:
        raise BadInput(
            f"--device-map {shown} spreads the model over all devices, memory and disk, and cannot be combined with "
            f"{', '.join(given)}: drop one of them"
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

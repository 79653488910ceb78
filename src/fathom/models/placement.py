"""Models larger than one device: their layers lie on several, in main memory or on a disk, put there by accelerate.

accelerate fetches a module's weights when the module is called, so whoever takes a weight for itself finds nothing:
such models run as their classes have it, without kernels of ours, and their head gives whole rows of logits.
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

from fathom.errors import BadInput, MissingExtra

DeviceMap = str | Mapping[str, Any]
"""What accelerate calls one: auto, balanced, sequential, or the place of each module ("cpu", "disk", 0, …)."""
ELSEWHERE = ("cpu", "disk")
"""Where weights wait to be fetched."""


def check_map(device_map: DeviceMap, others: Mapping[str, Any]) -> None:
    """:param others: options that do not go with it, by name.
    :raises BadInput: one of them is given.
    :raises MissingExtra: accelerate is not installed.
    """
    said = device_map if isinstance(device_map, str) else "…"
    if given := [f"--{name} {value}" for name, value in others.items() if value]:
        raise BadInput(
            f"--device-map {said} spreads the model over all devices, memory and disk: it does not go with "
            f"{', '.join(given)}; leave one out"
        )
    if find_spec("accelerate") is None:
        raise MissingExtra("accelerate", "device-map")


class WeightsFolder:
    """For weights on disk; removed when nobody holds this any more, and at the end of the process."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="fathom-weights-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def spreading(device_map: DeviceMap) -> tuple[dict[str, Any], WeightsFolder]:
    """What ``from_pretrained`` is to be told, and the folder that it writes to, to be kept as long as the model."""
    logging.getLogger("accelerate.big_modeling").setLevel(logging.ERROR)  # else it says what was asked for
    folder = WeightsFolder()
    return {"device_map": device_map, "offload_folder": folder.name}, folder


def is_spread(network: nn.Module) -> bool:
    """Whether weights of it have to be fetched, or states to be carried from device to device."""
    return any(hasattr(module, "_hf_hook") for module in network.modules())


def main_device(network: Any) -> torch.device:
    """Where its first layer computes."""
    places = getattr(network, "hf_device_map", None) or {}
    if not is_spread(network):
        return network.device  # type: ignore[no-any-return]
    computing = (place for place in places.values() if str(place) not in ELSEWHERE)
    return torch.device(next(computing, "cpu"))


def placement(network: Any) -> dict[str, int] | None:
    """How many modules lie where, for manifests; None where all lie on one device."""
    if not is_spread(network):
        return None
    return dict(Counter(map(str, getattr(network, "hf_device_map", {}).values())))


def each_weight(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All of them by name, those that lie elsewhere fetched one module at a time."""
    if not is_spread(network):
        yield from network.named_parameters()
        return
    from accelerate.utils import align_module_device

    for prefix, module in network.named_modules():
        with align_module_device(module, torch.device("cpu")):
            for name, weight in module.named_parameters(recurse=False):
                yield f"{prefix}.{name}".removeprefix("."), weight

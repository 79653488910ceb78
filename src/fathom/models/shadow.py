"""A network that is in use elsewhere, in a training loop say, as one of Fathom's own that shares its weights."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from fathom.errors import BadInput


def shadow(network: nn.Module) -> PreTrainedModel:
    """The same modules and weights in objects of their own: its mode, gradients, hooks and layers can be changed
    without touching *network*, and a change of the weights is seen on both sides. Takes no memory for weights
    (:func:`fathom.models.kernels.use_fast_kernels` may, afterwards).

    What `torch.compile`, data parallelism or PEFT put around the network is left off; adapters stay in its layers.

    :raises BadInput: no model of `transformers`, or one whose modules cannot be copied.
    """
    plain = _unwrapped(network)
    if not isinstance(plain, PreTrainedModel):
        raise BadInput(
            f"expected a model of transformers in memory, found a {type(plain).__name__}: load_model(NAME) takes the "
            "name or the folder of one"
        )
    memo: dict[int, Any] = {id(buffer): buffer for buffer in plain.buffers()}
    for weight in plain.parameters():
        # Quantised weights are of classes of their own, and never trained.
        kept = weight if type(weight) is not nn.Parameter else nn.Parameter(weight.detach(), requires_grad=False)
        memo[id(weight)] = kept
    try:
        own = deepcopy(plain, memo)
    except Exception as error:  # whatever somebody's module holds
        raise BadInput(
            f"a {type(plain).__name__} cannot be shared ({type(error).__name__}: {str(error)[:100]}): "
            "save it with save_pretrained and give Fathom the folder"
        ) from error
    for module in own.modules():
        module._compiled_call_impl = None
    return own


def _unwrapped(network: Any) -> Any:
    """Without what others put around it."""
    while True:
        if hasattr(network, "_orig_mod"):  # torch.compile
            network = network._orig_mod
        elif isinstance(network, nn.DataParallel | nn.parallel.DistributedDataParallel):
            network = network.module
        elif hasattr(network, "get_base_model"):  # PEFT
            network = network.get_base_model()
        else:
            return network

"""Encoders without a language-model head, such as sentence encoders: their states serve the embedding probe alone."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fathom.base.errors import BadInput
from fathom.base.progress import LOG
from fathom.base.reading import Faults, read_json
from fathom.base.reading.objects import object_faults
from fathom.engine.models.body import NOT_THIS_WAY, same, some_tokens
from fathom.engine.models.content import POOLING
from fathom.engine.models.local import LocalModel
from fathom.engine.models.model_files import PoolingFile

MODULES = Path("modules.json")
MODE = "pooling_mode_"
POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
"""Modes that the probe has, as `sentence-transformers` names them."""
APPLIED = ("Transformer", "Pooling", "Normalize")
"""Modules of sentence encoders that a cosine of pooled states includes."""


class Encoder(LocalModel):
    """A bidirectional body without a head."""

    has_head = False
    stateless = "it has no language-model head (a classifier or a bare encoder?); only the embedding probe needs none"

    def _find_body(self) -> tuple[nn.Module, bool]:
        ids = some_tokens(self.network)
        with torch.inference_mode():
            expected = self.network(input_ids=ids)[0]
            try:
                states = self.network(inputs_embeds=self.network.get_input_embeddings()(ids))[0]
            except NOT_THIS_WAY:
                return self.network, False
        return self.network, same(states, expected)

    def logits(self, hidden: Tensor) -> Tensor:
        raise BadInput(f"'{self.identity.name}': {self.stateless}")

    def refuses_tree(self, longest: int = 0) -> str | None:
        return self.stateless

    def refuses_states(self, longest: int = 0) -> str | None:
        return self.stateless


def lacks_head(network: PreTrainedModel, missing: set[str]) -> bool:
    """Check whether the checkpoint has all weights of the body of *network*, and none of its head."""
    prefix = f"{network.base_model_prefix}."
    inside = {id(weight) for weight in network.base_model.parameters()}
    head = {name for name, weight in network.named_parameters() if id(weight) not in inside}
    return bool(head) and head <= missing and not any(name.startswith(prefix) for name in missing)


def trained_pooling(name: str) -> str | None:
    """Return how a sentence encoder in a folder was trained to pool its states; None if the folder does not state it.

    :raises BadInput: values of wrong types.
    """
    folder = Path(name)
    if not os.path.isfile(folder / POOLING):
        return None
    faults = Faults()
    content = read_json(folder / POOLING, faults)
    faults.found += object_faults(folder / POOLING, PoolingFile, content)
    modules = read_json(folder / MODULES, faults) if faults.there(folder / MODULES) else []
    faults.stop_if_any()
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules if isinstance(module, dict)]
    if left := [kind for kind in kinds if kind not in APPLIED]:
        LOG.warning("'%s': its vectors are used without %s, which modules.json names", name, ", ".join(left))
    modes = [key.removeprefix(MODE) for key, value in content.items() if key.startswith(MODE) and value is True]
    return " and ".join(POOLINGS.get(mode, mode) for mode in modes) or None

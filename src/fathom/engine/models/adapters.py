"""PEFT adapters: folders with weights trained on top of a model, which they name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers.utils import find_adapter_config_file

from fathom.base.errors import BadInput, MissingExtra
from fathom.base.reading import Faults, read_json, shapes_in
from fathom.engine.models.content import gguf_file
from fathom.engine.models.hub import ModelPart, check_folder, library_message, quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIGURATION = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
TOKENIZER = "tokenizer_config.json"
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "shared.weight")
"""Ends of the names of input embeddings."""


def base_of(name: str, revision: str | None) -> str | None:
    """Return the model that the adapter *name* was trained on; None if *name* is no adapter.

    :raises BadInput: the adapter names no model, or a folder of another machine.
    """
    if os.path.isfile(os.path.join(name, "config.json")) or gguf_file(name) is not None:
        return None
    try:
        file = find_adapter_config_file(name, revision=revision)
    except Exception:  # not found, not reached, or no name: loading the model reports what is wrong
        return None
    if file is None:
        return None
    faults = Faults()
    content = read_json(Path(file), faults)
    faults.stop_if_any()
    base = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    if not base:
        raise BadInput(f"'{name}' is an adapter that does not name its model: --model MODEL --adapter {name}")
    if os.path.isabs(base) and not os.path.isdir(base):
        raise BadInput(
            f"'{name}' is an adapter of the model '{base}', which is not here: "
            f"--model FOLDER_OF_THAT_MODEL --adapter {name}"
        )
    return str(base)


def has_tokenizer(adapter: str) -> bool:
    """Check whether the adapter's folder has its own tokenizer, perhaps with added tokens."""
    return os.path.isfile(os.path.join(adapter, TOKENIZER))


def with_adapters(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, adapters: Sequence[ModelPart]
) -> PreTrainedModel:
    """Apply adapters one after the other: all but the last are merged into the weights, so that changes add up.

    :raises BadInput: one cannot be loaded, or learns prompts instead of changing layers.
    :raises MissingExtra: peft is not installed.
    """
    for number, part in enumerate(adapters):
        network = _with_adapter(network, tokenizer, part, merge=number + 1 < len(adapters))
    return network


def _with_adapter(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, part: ModelPart, *, merge: bool
) -> PreTrainedModel:
    try:
        from peft import PeftModel, load_peft_weights, set_peft_model_state_dict
    except ImportError as error:
        raise MissingExtra("peft", "peft") from error
    adapter = part.name
    check_folder(Path(adapter))
    _check_files(adapter)
    _make_room(network, tokenizer, adapter)
    try:
        with quiet():
            # Layers missing in the adapter's file would stay untrained.
            warnings.filterwarnings("error", message=".*missing adapter keys")
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # of a merged adapter
            adapted = PeftModel.from_pretrained(network, adapter, revision=part.revision)
            weights = load_peft_weights(adapter, device="cpu", revision=part.revision)
            # Set once more: the first time does not report weights without a layer.
            unused = set_peft_model_state_dict(adapted, weights).unexpected_keys
    except Exception as error:  # any error of the library on foreign files
        raise BadInput(f"cannot load the adapter '{adapter}': {library_message(error)}") from error
    if broken := [key for key, value in weights.items() if not torch.isfinite(value).all()]:
        raise BadInput(f"the adapter '{adapter}': the weights {broken[0]} hold values that are not numbers")
    if adapted.active_peft_config.is_prompt_learning:
        raise BadInput(f"the adapter '{adapter}' learns prompts; Fathom takes those that change layers (LoRA and kin)")
    if unused:
        raise BadInput(
            f"the adapter '{adapter}' has {len(unused)} weights that its {CONFIGURATION} does not apply to a layer, "
            f"such as {unused[0].replace('.default.', '.')}: take the {CONFIGURATION} that was saved with these weights"
        )
    plain: PreTrainedModel = adapted.merge_and_unload() if merge else adapted.get_base_model()
    return plain


def _check_files(adapter: str) -> None:
    """:raises BadInput: a folder without an adapter's configuration or weights."""
    if not os.path.isdir(adapter):
        return
    for names in ((CONFIGURATION,), WEIGHTS):
        if not any(os.path.isfile(os.path.join(adapter, name)) for name in names):
            raise BadInput(f"cannot load the adapter '{adapter}': the folder holds no {names[0]}")


def _make_room(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, adapter: str) -> None:
    """Resize the network's embeddings to those of an adapter that was trained with added tokens.

    :raises BadInput: its tokenizer has tokens without an embedding in either.
    """
    rows, wanted = network.get_input_embeddings().weight.shape[0], _count_embeddings(adapter)
    if wanted is not None and wanted != rows:
        network.resize_token_embeddings(wanted, mean_resizing=False)  # filled from the adapter
    elif len(tokenizer) > rows and has_tokenizer(adapter):
        raise BadInput(
            f"the adapter '{adapter}' brings a tokenizer of {len(tokenizer):,} tokens, its model has {rows:,} "
            "embeddings, and the adapter holds none for the others: save it with save_embedding_layers=True"
        )


def _count_embeddings(adapter: str) -> int | None:
    file = os.path.join(adapter, WEIGHTS[0])
    if not os.path.isfile(file):
        return None
    shapes = shapes_in(Path(file), "save the adapter again")
    rows = [shape[0] for key, shape in shapes.items() if key.endswith(EMBEDDINGS) and "lora" not in key]
    return int(rows[0]) if rows else None

"""Parts of a model: weights, adapters, tokenizer, kind. Configuration and tokenizer load without a model's code."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase
from transformers.models.auto import modeling_auto as auto
from transformers.utils import cached_file, find_adapter_config_file

from fathom.base.errors import BadInput, MissingExtra
from fathom.base.reading import json_file
from fathom.data.fetch_model import folder_or_name
from fathom.engine.models.base import Attention
from fathom.engine.models.hub import ModelPart, check_folder, from_pretrained, library_message, quiet
from fathom.engine.models.model_files import (
    ADAPTER_FILE,
    ADAPTER_SIZES,
    check_attributes,
    check_sizes,
    gguf_file,
    refuse_faults_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


_UNUSUAL = "a \u1e9e \u6f22 \U0010fffd"
"""Characters that few vocabularies have."""
LEAST_SHARED = 0.99
"""Share of the original tokens that keep their ids in a tokenizer that merely adds or renames some."""
LEAST_COVERED = 0.9
"""Share of the embeddings that have a token."""
PADDING = 256
"""Embeddings without a token that any model may have, as numbers of rows are rounded up."""


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, attention: Attention, name: str) -> None:
    """:raises BadInput: a slow one (offsets and words are needed), one that fails, or no mask token where needed."""
    check_attributes(tokenizer, "tokenizer_config.json", name)
    if not tokenizer.is_fast:
        raise BadInput(f"the tokenizer of '{name}' has no fast version (tokenizer.json), which Fathom needs")
    if attention is Attention.BIDIRECTIONAL and tokenizer.mask_token_id is None:
        raise BadInput(
            f"the tokenizer of '{name}' has no mask token, which a masked model needs: "
            "set mask_token in its tokenizer_config.json"
        )
    try:
        tokenizer([_UNUSUAL], add_special_tokens=False, verbose=False)
        tokenizer.convert_tokens_to_ids(_UNUSUAL)
    except Exception as error:  # any error of the library
        raise BadInput(
            f"the tokenizer of '{name}' fails on unknown words: {library_message(error)}; its tokenizer.json needs an "
            "unknown token (unk_token) that is in its vocabulary"
        ) from error


def check_ids(rows: int, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Check the ids against the embeddings. Added tokens that are never used, such as one for padding, may exceed them.

    :param rows: number of embeddings.
    :raises BadInput: ids without an embedding, or too many embeddings without a token.
    """
    used = [getattr(tokenizer, f"{kind}_token_id", None) for kind in ("bos", "mask", "cls", "sep")]
    largest = max(_largest_id(tokenizer), *(id_ for id_ in used if id_ is not None), 0)
    if largest >= rows:
        raise BadInput(
            f"the tokenizer of '{name}' has tokens up to number {largest:,}, its model {rows:,} embeddings: they are "
            "not of one model"
        )
    tokens = len(tokenizer)
    if tokens < LEAST_COVERED * rows - PADDING:
        raise BadInput(
            f"the tokenizer of '{name}' has {tokens:,} tokens, its model {rows:,} embeddings: they are not of one model"
        )


def check_same_ids(
    tokenizer: PreTrainedTokenizerBase, original: PreTrainedTokenizerBase, name: str, model: str
) -> None:
    """:param original: the model's own tokenizer.
    :raises BadInput: tokens have other ids than in the model's own, so that they would take other embeddings.
    """
    ids, expected = tokenizer.get_vocab(), original.get_vocab()
    moved = [token for token, id_ in expected.items() if ids.get(token) != id_]
    if len(moved) > (1 - LEAST_SHARED) * len(expected):
        token = next((token for token in moved if token in ids), moved[0])
        raise BadInput(
            f"the tokenizer of '{name}' has other ids than that of '{model}' for {len(moved):,} of {len(expected):,} "
            f"tokens ({token!r} is {ids.get(token, 'missing')}, expected {expected[token]}): they are not of one model"
        )


def _largest_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the largest id of the vocabulary. If it has no gaps, counting is five times as fast as listing it."""
    size, backend = int(tokenizer.vocab_size), tokenizer.backend_tokenizer
    if None not in map(backend.id_to_token, range(size)):
        return size - 1
    return int(max(backend.get_vocab(with_added_tokens=False).values(), default=0))


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
    refuse_faults_of(Path(file))
    base = json_file(Path(file)).get("base_model_name_or_path")
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
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    adapters: Sequence[ModelPart],
    *,
    allow_pickle: bool = False,
) -> PreTrainedModel:
    """Apply adapters one after the other: all but the last are merged into the weights, so that changes add up.

    :param allow_pickle: read ``.bin`` weights too.
    :raises BadInput: one cannot be loaded, or is of another kind than those that change layers.
    :raises MissingExtra: peft is not installed.
    """
    for number, part in enumerate(adapters):
        check_folder(Path(part.name))
        try:
            with quiet():
                _check_files(part, allow_pickle=allow_pickle)
                network = _with_adapter(network, tokenizer, part, merge=number + 1 < len(adapters))
        except MissingExtra:
            raise
        except Exception as error:  # any error of the library on foreign files
            raise BadInput(f"cannot load the adapter '{part.name}': {library_message(error)}") from error
    return network


def _with_adapter(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, part: ModelPart, *, merge: bool
) -> PreTrainedModel:
    try:
        from peft import PeftConfig, PeftModel, load_peft_weights, set_peft_model_state_dict
    except ImportError as error:
        raise MissingExtra("peft", "peft") from error
    warnings.simplefilter("ignore")
    # Layers missing in the adapter's file would stay untrained.
    warnings.filterwarnings("error", message=".*missing adapter keys")
    weights = load_peft_weights(part.name, device="cpu", revision=part.revision)
    if broken := [key for key, value in weights.items() if not (value.numel() and torch.isfinite(value).all())]:
        raise BadInput(f"the weights {broken[0]} are empty, or hold values that are not numbers")
    config = PeftConfig.from_pretrained(part.name, revision=part.revision)
    _check_sizes(config, weights)
    _name_modules(config, weights, network)
    _make_room(network, tokenizer, part.name, weights)
    adapted = PeftModel.from_pretrained(network, part.name, config=config, revision=part.revision)
    # Set once more: the first time does not report weights without a layer.
    if unused := set_peft_model_state_dict(adapted, weights).unexpected_keys:
        raise BadInput(
            f"it has {len(unused)} weights that its {ADAPTER_FILE} does not apply to a layer, "
            f"such as {unused[0].replace('.default.', '.')}: take the {ADAPTER_FILE} that was saved with these weights"
        )
    plain: PreTrainedModel = adapted.merge_and_unload() if merge else adapted.get_base_model()
    return plain


def _check_files(part: ModelPart, *, allow_pickle: bool) -> None:
    """:raises BadInput: no configuration or weights, values of wrong types, or ``.bin`` weights without permission."""
    config, weights, pickled = (
        cached_file(part.name, name, revision=part.revision, _raise_exceptions_for_missing_entries=False)
        for name in (ADAPTER_FILE, *WEIGHTS)
    )
    if config is None:
        raise BadInput(f"it holds no {ADAPTER_FILE}")
    refuse_faults_of(Path(config))
    if weights is None and not (pickled and allow_pickle):
        hint = f"; --allow-pickle reads its {WEIGHTS[1]}, if you trust who wrote it" if pickled else ""
        raise BadInput(f"it holds no {WEIGHTS[0]}{hint}")


def _check_sizes(config: Any, weights: dict[str, Tensor]) -> None:
    """:raises BadInput: sizes above those of the weights, whose layers would take much memory."""
    ranks = {value.shape[0] for key, value in weights.items() if "lora_A" in key or "lora_embedding_A" in key}
    sizes = (
        ranks if config.peft_type == "LORA" and ranks else {size for value in weights.values() for size in value.shape}
    )
    most = max(sizes, default=0)
    said = {name: getattr(config, name, None) for name in ADAPTER_SIZES} | (getattr(config, "rank_pattern", None) or {})
    for name, size in said.items():
        if isinstance(size, int | float) and size > most:
            raise BadInput(
                f"{ADAPTER_FILE} says {name} {size:,}, its weights have at most {most:,}: they are not of one adapter"
            )


def _name_modules(config: Any, weights: dict[str, Tensor], network: PreTrainedModel) -> None:
    """Replace patterns of modules, which may take for ever to match, by the modules that the weights name."""
    if not any(isinstance(getattr(config, name, None), str) for name in ("target_modules", "exclude_modules")):
        return
    modules, saved_whole = dict(network.named_modules()), network.state_dict().keys()
    config.target_modules, config.exclude_modules = set(), None
    for key in (key.removeprefix("base_model.model.") for key in weights):
        module = key.rpartition(".")[0]
        if key not in saved_whole:
            config.target_modules.add(module if module in modules else module.rpartition(".")[0])


def _make_room(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, adapter: str, weights: dict[str, Tensor]
) -> None:
    """Resize the network's embeddings to those of an adapter that was trained with added tokens."""
    rows, width = network.get_input_embeddings().weight.shape
    tables = [value for key, value in weights.items() if key.endswith(EMBEDDINGS) and "lora" not in key]
    wanted = {table.shape[0] for table in tables if table.shape[1:] == (width,)} or {rows}
    if wanted != {rows}:
        network.resize_token_embeddings(max(wanted), mean_resizing=False)  # filled from the adapter
    elif len(tokenizer) > rows and has_tokenizer(adapter):
        raise BadInput(
            f"it brings a tokenizer of {len(tokenizer):,} tokens, its model has {rows:,} "
            "embeddings, and the adapter holds none for the others: save it with save_embedding_layers=True"
        )


KINDS = {"causal": Attention.CAUSAL, "masked": Attention.BIDIRECTIONAL, "seq2seq": Attention.SEQ2SEQ}
"""Values of ``--kind``."""
OWN_CLASSES = {
    "AutoModelForCausalLM": Attention.CAUSAL,
    "AutoModelForMaskedLM": Attention.BIDIRECTIONAL,
    "AutoModelForSeq2SeqLM": Attention.SEQ2SEQ,
}
"""Keys in ``auto_map`` of models with code of their own."""
CAUSAL, MASKED = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
SEQ2SEQ = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
MULTIMODAL = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
"""Text and images to text: their text half is a causal model, as is that of some speech models (in SEQ2SEQ)."""


def attention_of(config: Any, name: str, kind: str | None = None) -> Attention:
    """Return the attention of the model with this configuration.

    :param kind: given by the user, one of :data:`KINDS`; None to infer it.
    :raises BadInput: the configuration does not determine it.
    """
    attention = KINDS[kind] if kind is not None else known_attention(config)
    if attention is None:
        architectures = " ".join(_architectures(config)) or "not stated"
        raise BadInput(
            f"'{name}' is neither a causal nor a masked language model, nor an encoder-decoder (type "
            f"'{config.model_type}', architectures '{architectures}'): expected one of these; for a class of your own, "
            "state which: --kind causal, masked or seq2seq (with --trust-remote-code)"
        )
    return attention


def _architectures(config: Any) -> tuple[str, ...]:
    return tuple(getattr(config, "architectures", None) or ())


def known_attention(config: Any) -> Attention | None:
    """Infer the attention from the architecture, then from the model type; None if unknown."""
    architectures = _architectures(config)
    for architecture in architectures:
        if (attention := attention_of_class(architecture, config)) is not None:
            return attention
    auto_map = getattr(config, "auto_map", None) or {}  # of a class that comes with the model
    for kind, attention in OWN_CLASSES.items():
        if kind in auto_map:
            return attention
    type_ = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        return Attention.SEQ2SEQ if type_ in SEQ2SEQ else None
    if "LMHead" not in "".join(architectures) and getattr(config, "is_decoder", False):
        return Attention.CAUSAL
    if type_ in MASKED:
        return Attention.BIDIRECTIONAL
    return Attention.CAUSAL if any(type_ in table for table in (CAUSAL, MULTIMODAL, SEQ2SEQ)) else None


def attention_of_class(architecture: str, config: Any) -> Attention | None:
    """Infer the attention from a class name; the configuration decides if one class has two kinds (XLM's, say)."""
    if getattr(config, "is_encoder_decoder", False):
        if architecture in SEQ2SEQ.values() or architecture.endswith("ForConditionalGeneration"):
            return Attention.SEQ2SEQ
        if not architecture.endswith("ForCausalLM"):
            return None
    if architecture in MASKED.values() and architecture in CAUSAL.values():
        return Attention.CAUSAL if getattr(config, "causal", False) else Attention.BIDIRECTIONAL
    if architecture.endswith(("ForMaskedLM", "ForPreTraining")) or architecture in MASKED.values():
        return Attention.BIDIRECTIONAL
    is_listed = any(architecture in table.values() for table in (CAUSAL, MULTIMODAL, SEQ2SEQ))
    return Attention.CAUSAL if is_listed or architecture.endswith(("ForCausalLM", "LMHeadModel")) else None


def loader(config: Any, attention: Attention) -> Any:
    """Return the class of `transformers` whose ``from_pretrained`` makes the model with its head.

    Among classes that know the model type, the one that makes the stated architecture comes first.
    """
    if attention is Attention.BIDIRECTIONAL:
        return transformers.AutoModelForMaskedLM
    tables = [
        (CAUSAL, transformers.AutoModelForCausalLM),
        (SEQ2SEQ, transformers.AutoModelForSeq2SeqLM),
        (MULTIMODAL, transformers.AutoModelForImageTextToText),
    ]
    if attention is Attention.SEQ2SEQ:
        tables = tables[1:]
    fitting = [kind for table, kind in tables if table.get(config.model_type) in _architectures(config)]
    possible = [kind for table, kind in tables if config.model_type in table]
    return [*fitting, *possible, tables[0][1]][0]


def find_model(
    name: str,
    revision: str | None = None,
    tokenizer: str | None = None,
    adapter: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> tuple[list[str], Any]:
    """Return the parts and the configuration of a model, for :func:`content_hash`, without loading it.

    See :func:`load` for the parameters.

    :raises BadInput: there is none.
    """
    parts = parts_of(name, adapter or (), tokenizer, revision)
    return parts.folders, config_of(parts, name, {"trust_remote_code": trust_remote_code})


class Parts(NamedTuple):
    """All parts of a model."""

    weights: ModelPart
    adapters: tuple[ModelPart, ...]
    tokenizer: ModelPart

    @property
    def folders(self) -> list[str]:
        """Distinct names or folders, the weights first."""
        return list(dict.fromkeys(part.name for part in (self.weights, *self.adapters, self.tokenizer)))


def parts_of(name: str, adapters: Sequence[str], tokenizer: str | None, revision: str | None) -> Parts:
    """:param revision: of *name* only, a model or an adapter.
    :raises BadInput: *name* is an adapter whose model is missing, or a folder, which has no revisions.
    """
    name = folder_or_name(name)
    if revision is not None and os.path.exists(name):
        raise BadInput(f"--revision {revision}: '{name}' is on this disk, and only models on the hub have revisions")
    named = weights = ModelPart(name, revision)
    on_top = [ModelPart(adapter) for adapter in adapters]
    base = base_of(name, revision)
    if base is not None:
        weights, on_top = ModelPart(folder_or_name(base)), [named, *on_top]
    vocabulary = next((part for part in reversed(on_top) if has_tokenizer(part.name)), weights)
    if tokenizer is not None:
        tokenizer = folder_or_name(tokenizer)
        vocabulary = named if tokenizer == name else ModelPart(tokenizer)
    return Parts(weights, tuple(on_top), vocabulary)


def config_of(parts: Parts, name: str, options: dict[str, Any]) -> Any:
    """:raises BadInput: there is none; the message mentions the adapter *name* that names this model."""
    try:
        config = from_pretrained(AutoConfig, parts.weights, options)
    except BadInput as error:
        if all(part.name != name for part in parts.adapters):
            raise
        hint = f"'{name}' is an adapter of that model; if you have it elsewhere: --model MODEL --adapter {name}"
        raise BadInput(f"{error} ({hint})") from error
    check_attributes(config, "config.json", parts.weights.name)
    check_sizes(config, parts.weights.name)
    return config


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer. :raises BadInput: there is none."""
    return from_pretrained(AutoTokenizer, ModelPart(name), {"trust_remote_code": False})


def load_causal_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a served causal model. :raises BadInput: there is none, or a slow one."""
    tokenizer = load_tokenizer(name)
    check_tokenizer(tokenizer, Attention.CAUSAL, name)
    return tokenizer


def check_origin(parts: Parts, tokenizer: PreTrainedTokenizerBase) -> None:
    """:raises BadInput: a tokenizer from elsewhere has other ids than that of the weights, if they come with one."""
    if parts.tokenizer.name == parts.weights.name:
        return
    try:
        original = from_pretrained(AutoTokenizer, parts.weights, {"trust_remote_code": False})
    except BadInput:
        return
    check_same_ids(tokenizer, original, parts.tokenizer.name, parts.weights.name)

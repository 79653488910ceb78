"""Parts of a model: weights, adapters, tokenizer. Configuration and tokenizer load here, without a model's code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.engine.models.adapters import base_of, has_tokenizer
from fathom.engine.models.base import Attention
from fathom.engine.models.hub import ModelPart, from_pretrained
from fathom.engine.models.model_files import check_attributes, check_sizes
from fathom.engine.models.tokenizer_checks import check_same_ids, check_tokenizer


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
    if revision is not None and os.path.exists(name):
        raise BadInput(f"--revision {revision}: '{name}' is on this disk, and only models on the hub have revisions")
    named = weights = ModelPart(name, revision)
    on_top = [ModelPart(adapter) for adapter in adapters]
    base = base_of(name, revision)
    if base is not None:
        weights, on_top = ModelPart(base), [named, *on_top]
    vocabulary = next((part for part in reversed(on_top) if has_tokenizer(part.name)), weights)
    if tokenizer is not None:
        vocabulary = named if tokenizer == name else ModelPart(tokenizer)
    return Parts(weights, tuple(on_top), vocabulary)


def config_of(parts: Parts, name: str, options: dict[str, Any]) -> Any:
    """:raises BadInput: there is none; the message mentions the adapter *name* that names this model."""
    try:
        config = from_pretrained(AutoConfig, parts.weights, options)
    except BadInput as error:
        if parts.weights.name == name:
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

"""The language model inside a link predictor: from a name or folder, with its weights or with random ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from fathom.errors import BadInput
from fathom.links.options import TextTraining
from fathom.models.base import Identity
from fathom.models.loading import check_weights, content_hash, from_pretrained, load_tokenizer

NETWORK = "network"
"""Folder in a model folder with the configuration and the tokenizer of its language model."""


class Network(NamedTuple):
    """A language model and its tokenizer."""

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def language_model(auto: Any, options: TextTraining, source: Path | None, device: torch.device) -> Network:
    """The language model of a link predictor, in training mode, all its weights to be learnt.

    :param auto: a class such as ``AutoModel`` or ``AutoModelForMaskedLM``.
    :param source: a model folder, to make the same shape with weights that are still to be loaded; None for what
        *options* say: the weights of ``options.weights``, or random ones (drawn by the seed) in the same shape.
    :raises BadInput: it cannot be loaded, or is of another kind.
    """
    name = options.weights if source is None else str(source / NETWORK)
    transformers_logging.set_verbosity_error()  # a head that is left out, or a new one, is meant
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    tokenizer = load_tokenizer(name)
    if source is None and options.init == "pretrained":
        network, loaded = from_pretrained(
            auto, name, {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
        )
        # BERT's pooler is never used.
        check_weights(network, [key for key in loaded["missing_keys"] if "pooler" not in key], name)
    else:
        config = from_pretrained(AutoConfig, name, {})
        torch.manual_seed(options.seed)
        try:
            network = auto.from_config(config, dtype=torch.float32)
        except ValueError as error:
            raise BadInput(f"cannot make '{name}': {str(error).splitlines()[0]}") from error
    return Network(network.to(device).train(), tokenizer)


def keep_shape(folder: Path, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """What :func:`language_model` reads of *folder*."""
    (folder / NETWORK).mkdir(parents=True, exist_ok=True)
    network.config.save_pretrained(folder / NETWORK)
    tokenizer.save_pretrained(folder / NETWORK)


def identity_of(options: TextTraining, network: PreTrainedModel) -> Identity:
    """The language model that a training began with."""
    return Identity(options.weights, None, "float32", content_hash(options.weights, network))

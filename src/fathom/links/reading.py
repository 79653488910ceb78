"""Texts of a graph, and the language model of a link predictor: pretrained, or with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from fathom.data.knowledge import KnowledgeGraph
from fathom.errors import BadInput
from fathom.links.base import Predictor
from fathom.links.options import TextTraining
from fathom.models.base import Attention, Identity
from fathom.models.families import known_attention
from fathom.models.hub import Part, from_pretrained
from fathom.models.loading import check_weights, content_hash, load_tokenizer
from fathom.training.loop import ADAMW, Optimizer, Stage

NETWORK = "network"
"""Folder in a model folder with the configuration and the tokenizer of its language model."""
SPARE = 16
"""Further triples that stand ready for a relation, for where the first mention the entity asked about."""


class TextPredictor(Predictor):
    """Base of predictors with a language model of their own: its untrained :attr:`language`, and the :attr:`texts`."""

    AUTO: ClassVar[Any]
    """The class of `transformers` that loads it, such as ``AutoModelForMaskedLM``."""
    NEW: ClassVar[tuple[str, ...]] = ("pooler",)
    """Parts of the network that pre-trained weights may lack, and that are then random by the seed."""

    def __init__(self, graph: KnowledgeGraph, options: TextTraining, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.language, self.tokenizer = language_model(self.AUTO, options, source, device, self.NEW)
        if source is None:
            hashed = content_hash([options.weights], self.language.config)
            self.identity = Identity(options.weights, None, "float32", hashed)
        self.texts = GraphTexts(graph, options.descriptions)

    def check_encoder(self, kind: str, max_tokens: int) -> None:
        """:raises BadInput: a language model that does not read whole texts, or fewer tokens than *max_tokens*."""
        config, name = self.language.config, self.options.weights
        if config.is_encoder_decoder or known_attention(config) is Attention.CAUSAL:
            raise BadInput(f"--weights {name}: {kind} needs an encoder that reads whole texts, such as BERT")
        window = getattr(config, "max_position_embeddings", None)
        if window is not None and max_tokens > window:
            raise BadInput(f"--max-tokens {max_tokens}: {name} reads at most {window}")

    def stage(
        self,
        name: str,
        batches: Callable[[int], Iterable[Any]],
        count: int,
        loss: Callable[[Any], Tensor],
        optimizer: Optimizer = ADAMW,
    ) -> Stage:
        """Return a stage that learns all weights from *count* examples per epoch."""
        options, weights = self.options, list(self.network.parameters())
        steps = math.ceil(count / options.batch_size)
        return Stage(name, batches, steps, loss, weights, options.epochs, options.learning_rate, optimizer=optimizer)

    def describe(self, folder: Path) -> None:
        """Write configuration and tokenizer of the language model."""
        (folder / NETWORK).mkdir(parents=True, exist_ok=True)
        self.language.config.save_pretrained(folder / NETWORK)
        self.tokenizer.save_pretrained(folder / NETWORK)

    def notes(self) -> list[str]:
        """Return how many entities lack a name or a description."""
        return list(self.texts.notes)


def language_model(
    auto: Any, options: TextTraining, source: Path | None, device: torch.device, new: tuple[str, ...] = ("pooler",)
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the language model of a link predictor, in training mode, and its tokenizer.

    :param auto: a class such as ``AutoModel`` or ``AutoModelForMaskedLM``.
    :param source: a model folder, to make the same shape with weights that are still to be loaded; None for
        ``options.weights``, or for random weights (drawn by the seed) in the same shape.
    :param new: parts that its weights may lack, such as a head that is learnt here.
    :raises BadInput: it cannot be loaded, or is of another kind.
    """
    name = options.weights if source is None else str(source / NETWORK)
    tokenizer = load_tokenizer(name)
    torch.manual_seed(options.seed)  # what the weights lack is drawn by it
    if source is None and options.init == "pretrained":
        network, loaded = from_pretrained(
            auto, Part(name), {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
        )
        # BERT's pooler is used by kg-bert alone, which learns one.
        check_weights(network, [key for key in loaded["missing_keys"] if set(new).isdisjoint(key.split("."))], name)
    else:
        config = from_pretrained(AutoConfig, Part(name), {})
        try:
            network = auto.from_config(config, dtype=torch.float32)
        except ValueError as error:
            raise BadInput(f"cannot make '{name}': {str(error).splitlines()[0]}") from error
    return network.to(device).train(), tokenizer


def examples_of_relations(graph: KnowledgeGraph, count: int, seed: int) -> list[list[tuple[int, int]]]:
    """Return heads and tails of some training triples of each relation, in an order drawn by *seed*.

    :param count: how many are wanted; :data:`SPARE` more follow them.
    """
    span = graph.training
    order = np.random.default_rng(seed).permutation(len(span)) + span.start
    relation = graph.relation[order]
    by_relation = order[np.argsort(relation, kind="stable")]
    ends = np.cumsum(np.bincount(relation, minlength=len(graph.relations)))
    return [
        list(zip(graph.head[rows].tolist(), graph.tail[rows].tolist(), strict=True))
        for rows in (some[: count + SPARE] for some in np.split(by_relation, ends[:-1]))
    ]


class GraphTexts:
    """Texts of a graph, by place. An entity or relation without a name is named by its id; no description is "".

    :param descriptions: whether to read them.
    """

    def __init__(self, graph: KnowledgeGraph, descriptions: bool = True) -> None:
        ids, names, descriptions_read = (
            graph.entities.column(column).to_pylist() for column in ("id", "name", "description")
        )
        relations = zip(*(graph.relations.column(column).to_pylist() for column in ("name", "id")), strict=True)
        self.names = [name.strip() or id_ for name, id_ in zip(names, ids, strict=True)]
        self.descriptions = descriptions_read if descriptions else [""] * len(descriptions_read)
        self.described = [
            f"{name}, {text}" if text.strip() else name
            for name, text in zip(self.names, self.descriptions, strict=True)
        ]
        """ "NAME, DESCRIPTION", as KG-BERT's ``entity2text.txt`` has it."""
        self.relations = [name.strip() or id_ for name, id_ in relations]
        missing = {
            "have no name: their ids are read instead": sum(not name.strip() for name in names),
            "have no description": sum(not text.strip() for text in descriptions_read) if descriptions else 0,
        }
        self.notes = [f"{count:,} of {len(ids):,} entities {lack}" for lack, count in missing.items() if count]
        """How many lack what, for the user."""

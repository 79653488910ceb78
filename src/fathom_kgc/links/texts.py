"""Texts of a graph, their tokens and vectors, and the language model of a link predictor.

Sequences of a batch are deduplicated and run in groups of similar length, to limit padding. In evaluation mode a
vector depends on its own sequence alone, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, AutoModel, BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.data.knowledge import KnowledgeGraph
from fathom.engine.models.base import Attention, Identity
from fathom.engine.models.hub import ModelPart, from_pretrained
from fathom.engine.models.loading import check_weights, note_unused
from fathom.engine.models.model_files import content_hash
from fathom.engine.models.parts import known_attention, load_tokenizer
from fathom.engine.scoring.trie import Ints, padded
from fathom.training.loop import ADAMW, Optimizer, Stage
from fathom_kgc.links.base import Predictor
from fathom_kgc.links.options import TextTraining

Ids = NDArray[np.int32]
TOKENS = {"cpu": 512}
"""Tokens, padding among them, that are run at a time; :data:`OTHERWISE` on other devices."""
OTHERWISE = 16384
NETWORK = "network"
"""Folder in a model folder with the configuration and the tokenizer of its language model."""
SPARE = 16
"""Further triples that stand ready for a relation, for where the first mention the entity asked about."""


HALF_IS_SLOW = "half precision takes several times as long without a GPU: --precision float32 is faster"
"""A note on training in float16 on the CPU."""


class TextPredictor(Predictor):
    """Base of predictors with a language model of their own: its untrained :attr:`language`, and the :attr:`texts`."""

    options: TextTraining
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

    @classmethod
    def check(cls, options: TextTraining) -> None:
        """:raises BadInput: no such language model."""
        load_config(options.weights)

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
        (folder / NETWORK).mkdir(parents=True, exist_ok=True)
        self.language.config.save_pretrained(folder / NETWORK)
        self.tokenizer.save_pretrained(folder / NETWORK)

    def notes(self) -> list[str]:
        slow = self.device.type == "cpu" and self.options.precision == "float16"
        return [*self.texts.notes, *([HALF_IS_SLOW] if slow else [])]


def load_config(name: str) -> Any:
    """Load the configuration of a language model. :raises BadInput: there is no such model."""
    return from_pretrained(AutoConfig, ModelPart(name), {})


def language_model(
    auto: type[AutoModel],
    options: TextTraining,
    source: Path | None,
    device: torch.device,
    new: tuple[str, ...] = ("pooler",),
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
            auto, ModelPart(name), {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
        )
        # BERT's pooler is used by kg-bert alone, which learns one.
        check_weights(network, [key for key in loaded["missing_keys"] if set(new).isdisjoint(key.split("."))], name)
        note_unused(network, loaded["unexpected_keys"], name)
    else:
        config = load_config(name)
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


class FramedText(NamedTuple):
    """One or two texts with their special tokens.

    :param ids: shape (length,). :param second: where tokens of type 1 start, *length* for a single text.
    """

    ids: Ids
    second: int


class Framing:
    """Adds a tokenizer's special tokens to tokenised texts, as the tokenizer itself would.

    :param longest: tokens of a sequence, special ones included. Longer texts are cut at their end, the longer of two
        first. If both alone are too long, the odd token may go to either.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, longest: int) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        self.one_before, self.one_after = _around(tokenizer("a"), 0)
        pair = tokenizer("a", "a")
        self.before, _ = _around(pair, 0)
        between, self.after = _around(pair, 1)
        self.between = between[len(self.before) + 1 :]
        types = pair.get("token_type_ids", [0])
        self.second = types.index(1) - len(self.before) - 1 if 1 in types else None

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Tokenise each text alone, cut to the longest sequence."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=self.longest)
        return [np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]]

    def one(self, ids: Ids) -> FramedText:
        room = max(0, self.longest - len(self.one_before) - len(self.one_after))
        framed = np.concatenate([self.one_before, ids[:room], self.one_after])
        return FramedText(framed, len(framed))

    def pair(self, first: Ids, second: Ids) -> FramedText:
        room = max(0, self.longest - len(self.before) - len(self.between) - len(self.after))
        kept = _longest_first(len(first), len(second), room)
        framed = np.concatenate([self.before, first[: kept[0]], self.between, second[: kept[1]], self.after])
        types_at = len(framed) if self.second is None else len(self.before) + kept[0] + self.second
        return FramedText(framed, types_at)


def _around(encoded: BatchEncoding, text: int) -> tuple[Ids, Ids]:
    places = [place for place, of in enumerate(encoded.sequence_ids(0)) if of == text]
    ids = np.array(encoded["input_ids"], dtype=np.int32)
    return ids[: places[0]], ids[places[-1] + 1 :]


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of each text remain: the longer is cut, both to halves if each is long enough."""
    half = room // 2 if first <= second else room - room // 2
    kept = min(first, max(half, room - second))
    return kept, min(second, room - kept)


def _mean(states: Tensor, real: Tensor) -> Tensor:
    """Return the mean state of each sequence. :param real: which tokens are no padding, shape (b, n)."""
    weights = real.to(states.dtype)[:, :, None]
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def encode(network: PreTrainedModel, sequences: Sequence[FramedText], pooling: Literal["mean", "cls"]) -> Tensor:
    """Encode each sequence; equal sequences have identical vectors.

    :param pooling: the mean state, or the first one.
    :returns: shape (sequences, d), on the network's device.
    """
    rows, first = distinct((tokens.ids.tobytes(), tokens.second) for tokens in sequences)
    order = first[np.argsort([len(sequences[place].ids) for place in first], kind="stable")]
    ordered = [sequences[place] for place in order]
    lengths = np.array([len(tokens.ids) for tokens in ordered])
    device = network.device
    # Looked up together: the gradient of a lookup is as large as the vocabulary.
    ids = torch.from_numpy(np.concatenate([tokens.ids for tokens in ordered])).to(device)
    embedded = network.get_input_embeddings()(ids).split(lengths.tolist())
    typed = getattr(network.config, "type_vocab_size", 0) > 1
    parts = []
    for some in groups(lengths, TOKENS.get(device.type, OTHERWISE)):
        place = torch.arange(lengths[some].max(), device=device)[None]
        real = (place < torch.from_numpy(lengths[some]).to(device)[:, None]).long()
        second = torch.tensor([tokens.second for tokens in ordered[some]], device=device)[:, None]
        types = {"token_type_ids": (place >= second).long() * real} if typed else {}
        vectors = pad_sequence(embedded[some], batch_first=True)
        states = network(inputs_embeds=vectors, attention_mask=real, **types).last_hidden_state
        parts.append(_mean(states, real) if pooling == "mean" else states[:, 0])
    back = np.argsort(rows[order])
    return torch.cat(parts)[torch.from_numpy(back[rows]).to(device)]


def distinct(keys: Iterable[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number equal keys alike. :returns: the number of each key, and the place of the first key of each number."""
    numbers: dict[Hashable, int] = {}
    rows = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return rows, np.unique(rows, return_index=True)[1]


def with_mask(rows: Sequence[Sequence[int] | Ints], fill: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad token ids; return them and 1 where they are no padding, shape (rows, longest)."""
    matrix = torch.from_numpy(padded(rows, -1)).to(device)
    return matrix.masked_fill(matrix < 0, fill), (matrix >= 0).long()


def length_groups(lengths: Sequence[int], device: torch.device) -> tuple[list[NDArray[np.int64]], Tensor]:
    """Group sequences of similar length, to run together.

    :returns: the places of each group's sequences; and the place of each sequence in all groups one after the other.
    """
    order = np.argsort(lengths, kind="stable")
    sizes = groups(np.array(lengths)[order], TOKENS.get(device.type, OTHERWISE))
    return [order[some] for some in sizes], torch.from_numpy(np.argsort(order)).to(device)


def groups(lengths: NDArray[Any], tokens: int) -> list[slice]:
    """Cut sequences of ascending length into runs of at most *tokens*, padding included."""
    cuts, start = [], 0
    for place, length in enumerate(lengths.tolist()):
        if place > start and (place + 1 - start) * length > tokens:
            cuts.append(slice(start, place))
            start = place
    return [*cuts, slice(start, len(lengths))]

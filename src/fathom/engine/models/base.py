"""The interface of all models, with a default for each capability that a model may lack, and their caches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase

from fathom.base.errors import BadInput

NAMES = ("cache", "past_key_values", "cache_params", "state")
"""Names of a model's memory in versions of `transformers`, as an argument and in its output."""


class KeyValues:
    """Keys and values that later tokens see, of each layer, shape (b, heads, tokens, d). Never changed in place.

    :param positions: of the tokens, shape (b, tokens).
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], positions: Tensor) -> None:
        self.layers, self.positions = layers, positions

    @classmethod
    def from_transformers(cls, memory: DynamicCache, positions: Tensor) -> KeyValues:
        """:param positions: of all tokens in *memory*, shape (b, tokens)."""
        return cls([(layer.keys, layer.values) for layer in memory.layers], positions)

    def to_transformers(self) -> DynamicCache:
        """Return a new cache object: `transformers` replaces the tensors in it, so these remain unmodified."""
        memory = DynamicCache()
        for number, (keys, values) in enumerate(self.layers):
            memory.update(keys, values, number)
        return memory

    def __len__(self) -> int:
        return self.positions.shape[1]

    def keep(self, rows: Tensor) -> KeyValues:
        """Select tokens in every row of the batch. :param rows: their places, ascending, shape (kept,)."""
        return KeyValues(
            [(keys[:, :, rows.to(keys.device)], values[:, :, rows.to(values.device)]) for keys, values in self.layers],
            self.positions[:, rows],
        )


class States:
    """States of b rows after the same number of tokens.

    :meth:`fathom.engine.models.base.Model.advance` changes them in place, so continue from a copy (:meth:`select`).

    :param memory: the model library's own object.
    """

    def __init__(self, memory: Any, rows: int, length: int) -> None:
        self.memory, self.rows, self.length = memory, rows, length

    def select(self, rows: Tensor) -> States:
        """Copy some of the rows, in the given order and with repetitions. :param rows: shape (r,)."""

        def selected(tensor: Tensor) -> Tensor:
            per_row = tensor.dim() > 0 and tensor.shape[0] == self.rows
            return tensor.index_select(0, rows.to(tensor.device)) if per_row else tensor.clone()

        return States(_map_tensors(self.memory, selected), len(rows), self.length)

    def bytes_per_row(self) -> int:
        """Return the memory of one row, in bytes."""
        sizes: list[int] = []

        def count(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        _map_tensors(self.memory, count)
        return max(1, sum(sizes) // self.rows)


def _map_tensors(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Copy lists, dictionaries and objects of the model library, with every tensor in them changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, list | tuple):
        return type(thing)([_map_tensors(item, change) for item in thing])
    if isinstance(thing, dict):
        return {key: _map_tensors(item, change) for key, item in thing.items()}
    if type(thing).__module__.startswith("transformers."):
        duplicate = copy.copy(thing)
        duplicate.__dict__.update({name: _map_tensors(value, change) for name, value in vars(thing).items()})
        return duplicate
    return thing


class Attention(StrEnum):
    """The tokens that a position may see: those before it, all, or all of the source (encoder-decoder)."""

    CAUSAL = "causal"
    BIDIRECTIONAL = "bidirectional"
    SEQ2SEQ = "seq2seq"


@dataclass(frozen=True)
class Identity:
    """Everything that identifies a model in a manifest."""

    name: str
    revision: str | None
    dtype: str
    content_hash: str


class LinearHead(NamedTuple):
    """A head that ends in one linear layer: logits = transform(hidden) @ weight.T + bias.

    :param transform: the part before that layer (the identity for most causal models), (m, d) → (m, e).
    :param weight: shape (vocabulary, e).
    :param bias: shape (vocabulary,) or None.
    """

    transform: Callable[[Tensor], Tensor]
    weight: Tensor
    bias: Tensor | None


class Reply(NamedTuple):
    """A generated text.

    :param text: ends before the first stop text.
    :param tokens: how many were generated.
    :param fault: why there is no reply; None if there is one.
    """

    text: str
    tokens: int
    fault: str | None


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities in nats; torch's own are off by 5e-5 in float32 with 262,144 tokens, these by 2e-6."""
    return logits - torch.logsumexp(logits, dim=-1, keepdim=True)


class AnyModel:
    """Base class of all that a run evaluates: local models, served ones, and link predictors."""

    identity: Identity
    device: torch.device | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    made_of: tuple[str, ...] = ()
    """Names or folders of weights, adapters and tokenizer, the weights first."""
    dequantised_from: str | None = None
    """Quantisation of the GGUF file that the weights come from; None for other weights."""
    parameters: int | None = None
    """Number of weights; None if unknown."""
    for_each_layer: float = 1.0
    """Layers that each of its layers stands for, in a model without weights."""
    is_served = False
    """Return whether a server answers. One process then sends all calls, as many at a time as the server takes."""
    open_again: Callable[..., AnyModel] | None = None
    """Opens the same model in another process, on the ``device`` given."""

    @property
    def attention_kernel(self) -> str | None:
        """Name of the attention implementation (sdpa, eager, …); None if unknown."""
        return None

    def circumstances(self) -> Mapping[str, Any]:
        """Return facts for the manifest on where the model runs."""
        return {}

    def properties(self) -> dict[str, Any]:
        """Return facts for the manifest that are no part of the identity, and the components if there are several."""
        description = {"parameters": self.parameters, "attention_kernel": self.attention_kernel}
        if self.dequantised_from is not None:
            description["dequantised_from"] = self.dequantised_from
        return description | ({"made_of": list(self.made_of)} if len(self.made_of) > 1 else {})

    def keep_answers(self, folder: Path) -> None:
        """Keep a server's answers in *folder*, and do not repeat calls answered there."""


class Model(AnyModel):
    """A language model. Tensors are on :attr:`device`; b rows of n tokens, hidden size d.

    A subclass without hidden states leaves the methods that concern them as they are: these raise BadInput.
    """

    device: torch.device
    tokenizer: PreTrainedTokenizerBase
    attention: Attention
    max_tokens: int | None
    """Longest sequence the positions allow; None for no limit."""
    vocabulary_size: int
    takes_vectors = False
    """Return whether the input may mix vectors with token embeddings; some models need the token ids themselves."""
    adds_bos = False
    """Return whether BOS is put before each text, requested or not."""
    lacks_first = False
    """Return whether the first token after BOS gets no log-probability."""
    has_head = True
    """Return whether it gives log-probabilities, not states alone."""
    pooling: str | None = None
    """How the model was trained to make a vector of a text's states; None if unknown."""
    stateless = "it gives no hidden states"
    """Why methods on hidden states fail."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        raise self._unable()

    def embed(self, ids: Tensor) -> Tensor:
        """Return input embeddings, shape (…, d), of *ids*, shape (…)."""
        raise self._unable()

    def require_vectors(self) -> None:
        """:raises BadInput: the model takes token ids only, so pseudowords and learnt tokens cannot be used."""
        if not self.takes_vectors:
            raise BadInput(
                f"'{self.identity.name}' takes token ids and no vectors, so it cannot be used with pseudowords or "
                "learnt tokens; use words, or another model"
            )

    def embed_with(self, ids: Tensor, vectors: Tensor | None) -> Tensor:
        """Return input embeddings, shape (…, d), where ids from ``vocabulary_size`` on are rows of *vectors*.

        :param vectors: shape (rows, d); None if all ids are in the vocabulary.
        :raises BadInput: see :meth:`require_vectors`.
        """
        if vectors is None:
            return self.embed(ids)
        self.require_vectors()
        row = ids - self.vocabulary_size
        embedded = self.embed(ids.clamp(max=self.vocabulary_size - 1))
        return torch.where((row >= 0)[..., None], vectors[row.clamp(min=0)].to(embedded.dtype), embedded)

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        """Return the states that the head sees, shape (b, n, d).

        :param vectors: input embeddings, shape (b, n, d); gradients reach them, never the weights.
        :param positions: position of each token, shape (b, n); None for 0, 1, 2, …
        :param visible: shape (b, n, n), true if the row's token may see the column's; None for the model's own mask.
            A sliding window, by *positions*, applies in addition.
        """
        raise self._unable()

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        """Return :meth:`hidden` under the model's own mask at positions *at*, shape (b, k): shape (b, k, d)."""
        return self.hidden(vectors)[torch.arange(len(at), device=vectors.device)[:, None], at]

    def grow(
        self, past: KeyValues | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Run :meth:`hidden` on further tokens that see those in *past*. Only if :meth:`refuses_cache` is None.

        :param visible: shape (b, n, len(past) + n), the cached tokens first; None for all of *past* and the tokens
            before each.
        :returns: the states, shape (b, n, d), and a cache of len(past) + n tokens.
        """
        raise self._unable()

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        """Run :meth:`hidden` on tokens that follow *past*, row by row. Only if :meth:`refuses_states` is None.

        :param past: changed in place, so pass a copy (:meth:`~fathom.engine.models.base.States.select`), or None.
        :param vectors: shape (b, n, d); n is 1 after *past*.
        :returns: the hidden states, shape (b, n, d), and the states after all tokens so far.
        """
        raise self._unable()

    def logits(self, hidden: Tensor) -> Tensor:
        """Apply the model's own head to *hidden*, shape (m, d). :returns: float32, shape (m, vocabulary)."""
        raise self._unable()

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        """Return greedy replies, each the same as if its prompt were alone.

        A causal model runs all prompts at once: the caller ensures that they fit the memory.

        :param stop: a reply ends before the first of these texts.
        :param bos: token to put before each prompt.
        """
        raise self._unable()

    def original_layers(self) -> AbstractContextManager[None]:
        """Run the model's own layers while inside, without the faster ones in their place."""
        return nullcontext()

    def linear_head(self) -> LinearHead | None:
        """Return the head in two parts if it ends in a linear layer, to be run slice by slice; else None."""
        return None

    def refuses_tree(self, longest: int = 0) -> str | None:
        """Return why :meth:`hidden` ignores or rejects *visible*; None if it works.

        :param longest: tokens of the longest sequence to be run, whose limits are checked as well.
        """
        return self.stateless

    def refuses_states(self, longest: int = 0) -> str | None:
        """Return why :meth:`advance` fails or gives other numbers; None if it works. :param longest: likewise."""
        return self.stateless

    def refuses_cache(self, longest: int = 0) -> str | None:
        """Return why :meth:`grow` fails or gives other numbers; None if it works. :param longest: likewise."""
        return self.stateless

    def refusals(self) -> list[str]:
        """Return what the checks so far have refused, at any length."""
        return []

    def refuses_padding(self, longest: int = 0) -> str | None:
        """Return why padding on the right changes numbers; None if it does not. :param longest: likewise."""
        return None

    def _unable(self) -> BadInput:
        return BadInput(f"'{self.identity.name}': {self.stateless}; use the statement or the generation probe")

"""The seam over model libraries: what the scoring engine asks of a model, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from torch import Tensor, device
from transformers import PreTrainedTokenizerBase

from fathom.models.states import States


class Attention(StrEnum):
    """Which tokens a position may see: those before it, all, or all of the source (encoder-decoder)."""

    CAUSAL = "causal"
    BIDIRECTIONAL = "bidirectional"
    SEQ2SEQ = "seq2seq"


@dataclass(frozen=True)
class Identity:
    """What makes a model the model it is; goes into every manifest."""

    name: str
    revision: str | None
    dtype: str
    content_hash: str


class LinearHead(NamedTuple):
    """A head that ends in one linear layer: logits = transform(hidden) @ weight.T + bias.

    :param transform: what the head does before (the identity for most causal models), (m, d) → (m, e).
    :param weight: shape (vocabulary, e).
    :param bias: shape (vocabulary,) or None.
    """

    transform: Callable[[Tensor], Tensor]
    weight: Tensor
    bias: Tensor | None


class Cache(Protocol):
    """Keys and values of tokens that a causal model has run: what later tokens see of them. Never changed in place."""

    def __len__(self) -> int:
        """How many tokens it holds."""
        ...

    def keep(self, rows: Tensor) -> Cache:
        """Some of its tokens, in every row of the batch.

        :param rows: their places, ascending, shape (kept,).
        """
        ...

    def repeat(self, times: int) -> Cache:
        """A cache of one row as one of *times* equal rows; it takes no more memory until they grow apart."""
        ...


class Reply(NamedTuple):
    """What a model wrote.

    :param text: up to where it came to its end.
    :param tokens: how many it took.
    :param fault: why there is none, None where there is.
    """

    text: str
    tokens: int
    fault: str | None


class Model(Protocol):
    """A local model. All tensors live on :attr:`device`; b rows of n tokens, hidden size d."""

    identity: Identity
    tokenizer: PreTrainedTokenizerBase
    attention: Attention
    device: device
    max_tokens: int | None
    """Longest sequence the positions allow, None where there is no limit."""
    vocabulary_size: int
    parameters: int
    """How many weights it has."""
    takes_vectors: bool
    """Whether vectors of no token can stand among those of tokens; some models have to see the tokens' numbers."""

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings.

        :param ids: shape (…).
        :returns: shape (…, d).
        """
        ...

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        """The state that the head sees.

        :returns: shape (b, n, d).

        :param vectors: input embeddings, shape (b, n, d); gradients reach them, never the weights.
        :param positions: position of each token, shape (b, n); None for 0, 1, 2, …
        :param visible: booleans of shape (b, n, n), true where the row's token may see the column's; None for the
            model's own mask. A sliding window is applied on top, by *positions*.
        """
        ...

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        """:meth:`hidden` with the model's own mask, at some positions of each row.

        :returns: shape (b, k, d).

        :param vectors: input embeddings, shape (b, n, d).
        :param at: the positions wanted of each row, shape (b, k).
        """
        ...

    def grow(
        self, past: Cache | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """:meth:`hidden` of further tokens that see those in *past* (causal models for which :meth:`refuses_cache`
        is None).

        :param visible: booleans of shape (b, n, len(past) + n), the cached tokens first; None for all of *past* and the
            tokens before each.
        :returns: the states, shape (b, n, d), and a cache of len(past) + n tokens.
        """
        ...

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        """:meth:`hidden` of tokens that follow those of *past*, row by row (causal models for which
        :meth:`refuses_states` is None).

        :param past: of as many rows; used up, for model libraries change it in place: hand in a copy
            (:meth:`~fathom.models.states.States.select`). None where nothing stands before.
        :param vectors: shape (b, n, d); n is 1 behind *past*.
        :returns: the hidden states, shape (b, n, d), and what is kept of all tokens so far.
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """The model's own head.

        :param hidden: shape (m, d).
        :returns: float32, shape (m, vocabulary).
        """
        ...

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        """Greedy replies of a causal model, each the same as if its prompt were alone.

        All prompts run at once: the caller sees that they fit the memory.

        :param stop: a reply ends before the first of these texts.
        :param bos: token to put before each prompt.
        """
        ...

    def linear_head(self) -> LinearHead | None:
        """The head in two parts where it ends in a linear layer, so that it can run slice by slice; else None."""
        ...

    def refuses_tree(self) -> str | None:
        """Why :meth:`hidden` cannot be given *visible* (or would not honour it); None where it can."""
        ...

    def refuses_states(self) -> str | None:
        """Why :meth:`advance` cannot be used (or would give other numbers); None where it can."""
        ...

    def refuses_cache(self) -> str | None:
        """Why :meth:`grow` cannot be used (or would give other numbers); None where it can."""
        ...

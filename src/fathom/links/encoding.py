"""Token ids with special tokens, and vectors of texts through which gradients flow.

Sequences of a batch are deduplicated and run in groups of similar length, to limit padding. In evaluation mode a
vector depends on its own sequence alone, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ids = NDArray[np.int32]
TOKENS = {"cpu": 512}
"""Tokens, padding among them, that are run at a time; :data:`OTHERWISE` on other devices."""
OTHERWISE = 16384


class Framed(NamedTuple):
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

    def one(self, ids: Ids) -> Framed:
        """Frame one text."""
        room = max(0, self.longest - len(self.one_before) - len(self.one_after))
        framed = np.concatenate([self.one_before, ids[:room], self.one_after])
        return Framed(framed, len(framed))

    def pair(self, first: Ids, second: Ids) -> Framed:
        """Frame two texts."""
        room = max(0, self.longest - len(self.before) - len(self.between) - len(self.after))
        kept = _longest_first(len(first), len(second), room)
        framed = np.concatenate([self.before, first[: kept[0]], self.between, second[: kept[1]], self.after])
        types_at = len(framed) if self.second is None else len(self.before) + kept[0] + self.second
        return Framed(framed, types_at)


def _around(encoded: Any, text: int) -> tuple[Ids, Ids]:
    places = [place for place, of in enumerate(encoded.sequence_ids(0)) if of == text]
    ids = np.array(encoded["input_ids"], dtype=np.int32)
    return ids[: places[0]], ids[places[-1] + 1 :]


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of each text remain: the longer is cut, both to halves if each is long enough."""
    if first + second <= room:
        return first, second
    if first > second:
        short, long = _longest_first(second, first, room)
        return long, short
    if first <= room // 2:
        return first, room - first
    return room // 2, room - room // 2


Pool = Callable[[Tensor, Tensor], Tensor]
"""Makes a vector of each sequence's states, shape (b, n, d), and what is no padding, shape (b, n)."""


def mean_pool(states: Tensor, real: Tensor) -> Tensor:
    """Average the tokens."""
    weights = real.to(states.dtype)[:, :, None]
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def first_pool(states: Tensor, real: Tensor) -> Tensor:
    """Return the first token: [CLS]."""
    return states[:, 0]


def encode(network: PreTrainedModel, sequences: Sequence[Framed], pool: Pool) -> Tensor:
    """Encode each sequence; equal sequences have identical vectors.

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
        parts.append(pool(states, real))
    back = np.argsort(rows[order])
    return torch.cat(parts)[torch.from_numpy(back[rows]).to(device)]


def distinct(keys: Iterable[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number equal keys alike. :returns: the number of each key, and the place of the first key of each number."""
    numbers: dict[Hashable, int] = {}
    rows = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return rows, np.unique(rows, return_index=True)[1]


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

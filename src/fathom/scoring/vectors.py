"""Texts as vectors: what a model makes of a prompt, to compare with what it makes of another.

Causal models: the state that the head sees at the last token (PromptEOL, Jiang et al. 2024). Prompts that begin alike,
such as few-shot prompts, run their common tokens once; the rests are packed, many per pass, under a mask that shows
each of them the common tokens and itself. Where little is shared, or the model refuses such a mask, prompts run in
plain batches, alike in length together, padded on the right, where a causal model does not look.
Encoders: the mean of all states or the first one, in batches of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fathom.data.templates import Prompt
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.models.cache import Cache
from fathom.scoring.memory import Budget
from fathom.scoring.tokens import encode_causal, encode_masked

BLOCK = 256
"""Tokens per packed sequence: enough to share the work on the common ones, few enough for the quadratic mask."""
WORTH_SHARING = 512
"""Tokens to be saved before common ones are run on their own, which takes a pass more."""

Ids = tuple[int, ...]


class Pooling(StrEnum):
    """Which states make the vector: of the last token, the mean over all tokens, or of the first one."""

    LAST = "last"
    MEAN = "mean"
    CLS = "cls"


def resolve_pooling(model: Model, asked: str) -> Pooling:
    """``auto`` is ``last`` for causal models and ``mean`` for encoders.

    :raises BadInput: ``cls`` of a causal model, whose first token sees nothing of the text.
    """
    causal = model.attention is Attention.CAUSAL
    if asked == "auto":
        return Pooling.LAST if causal else Pooling.MEAN
    if asked == Pooling.CLS and causal:
        raise BadInput("--pooling cls: the first token of a causal model sees nothing of the text; use last or mean")
    return Pooling(asked)


def encode_texts(model: Model, texts: Sequence[str], bos: int | None) -> list[Ids]:
    """Token ids of each text.

    :param bos: what causal models see first; encoders get their own special tokens.
    """
    prompts = [Prompt(text, (), ()) for text in texts]
    if model.attention is Attention.CAUSAL:
        tokens = encode_causal(model.tokenizer, prompts, bos)
    else:
        tokens = encode_masked(model.tokenizer, prompts)
    return [tuple(item.ids.tolist()) for item in tokens]


class Encoded(NamedTuple):
    """Texts as vectors.

    :param vectors: shape (texts, d), in the model's precision; NaN in rows that have a fault.
    :param faults: why a text has no vector, None where it has.
    """

    vectors: Tensor
    faults: list[str | None]


def text_vectors(model: Model, texts: Sequence[str], bos: int | None, pooling: Pooling, budget: Budget) -> Encoded:
    """A vector for each text, or the reason why there is none.

    :param bos: what causal models see first.
    """
    ids = encode_texts(model, texts, bos)
    found = vectors(model, ids, pooling, budget)
    finite = torch.isfinite(found).all(dim=1).tolist()
    return Encoded(found, [_fault(model, tokens, good) for tokens, good in zip(ids, finite, strict=True)])


def _fault(model: Model, ids: Ids, finite: bool) -> str | None:
    if finite:
        return None
    if not ids:
        return "a prompt without any token"
    if len(ids) > (model.max_tokens or len(ids)):
        return f"a prompt of {len(ids)} tokens is longer than the model's window of {model.max_tokens}"
    return "the model gave the prompt a vector that is not a number"


def vectors(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Tensor:
    """One vector for each sequence; equal sequences have the same one, to the bit.

    :param sequences: token ids. An empty one, or one longer than the model's window, has a vector of NaN.
    :returns: shape (sequences, d), in the model's precision, on its device.
    """
    runnable = [ids for ids in dict.fromkeys(sequences) if 0 < len(ids) <= (model.max_tokens or len(ids))]
    with torch.inference_mode():
        return _gathered(model, sequences, _by_passes(model, runnable, pooling, budget))


def states_at(model: Model, sequences: Sequence[Ids], places: Sequence[int], budget: Budget) -> Tensor:
    """The state of a masked model at one place of each sequence, in batches of one length.

    :returns: shape (sequences, d), in the model's precision.
    """

    def run(keys: Tensor, _: Tensor) -> Tensor:
        return model.hidden_at(model.embed(keys[:, :-1]), keys[:, -1:])[:, 0]

    # The place travels as one more number behind the ids, so that a sequence asked at two places is two things to run.
    keys = [(*ids, place) for ids, place in zip(sequences, places, strict=True)]
    with torch.inference_mode():
        return _gathered(model, keys, _by_batches(model, list(dict.fromkeys(keys)), budget, run, equal=True))


_Pass = tuple[Sequence[Ids], Tensor]


def _gathered(model: Model, sequences: Sequence[Ids], passes: Iterable[_Pass]) -> Tensor:
    """The vector that a pass found for each sequence; NaN where none did."""
    place: dict[Ids, int] = {}
    parts = []
    for some, states in passes:
        place |= {ids: len(place) + number for number, ids in enumerate(some)}
        parts.append(states)
    if not parts:
        parts.append(model.embed(torch.zeros((1,), dtype=torch.long, device=model.device))[:0])
    missing = parts[0].new_full((1, parts[0].shape[1]), torch.nan)
    rows = torch.tensor([place.get(ids, len(place)) for ids in sequences], dtype=torch.long, device=model.device)
    return torch.cat([*parts, missing])[rows]


def _by_passes(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Pass]:
    """Some of the sequences and their vectors, pass by pass."""
    if model.attention is not Attention.CAUSAL or pooling is not Pooling.LAST:
        yield from _by_equal_lengths(model, sequences, pooling, budget)
        return
    plain: list[Ids] = []
    for family in families(sequences):
        if family.saves >= WORTH_SHARING and model.refuses_cache() is None:
            yield from _by_shared_beginning(model, family, budget)
        else:
            plain += family.members
    yield from _by_padded_batches(model, plain, budget)


class Family(NamedTuple):
    """Sequences that begin with the same *shared* tokens, each with at least one more."""

    shared: int
    members: tuple[Ids, ...]

    @property
    def saves(self) -> int:
        """Tokens that need not be run again."""
        return self.shared * (len(self.members) - 1)


def families(sequences: Sequence[Ids]) -> list[Family]:
    """Neighbours in lexicographic order, put together as long as that is less work than running them apart."""
    found: list[Family] = []
    members: list[Ids] = []
    shared = 0
    for ids in sorted(sequences):
        common = min(_common(members[-1], ids), len(ids) - 1, shared) if members else 0
        if members and (shared - common) * len(members) <= common:
            shared = common
        else:
            if members:
                found.append(Family(shared if len(members) > 1 else 0, tuple(members)))
            members, shared = [], len(ids) - 1
        members.append(ids)
    if members:
        found.append(Family(shared if len(members) > 1 else 0, tuple(members)))
    return found


def _common(first: Ids, second: Ids) -> int:
    """How many tokens both begin with."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _by_shared_beginning(model: Model, family: Family, budget: Budget) -> Iterator[_Pass]:
    beginning = torch.tensor([family.members[0][: family.shared]], device=model.device)
    places = torch.arange(family.shared, device=model.device)[None]
    [(_, past)] = budget.batches(1, lambda _: (beginning, 1), lambda ids: model.grow(None, model.embed(ids), places)[1])
    members = sorted(family.members, key=len, reverse=True)
    passes = budget.batches(
        len(members),
        lambda start: _pack(members, family.shared, start, budget),
        lambda blocks: _run_blocks(model, past, family.shared, blocks),
    )
    for blocks, states in passes:
        yield [ids for block in blocks for ids in block], states


def _pack(members: Sequence[Ids], shared: int, start: int, budget: Budget) -> tuple[list[list[Ids]], int]:
    """As many blocks of rests, each of some :data:`BLOCK` tokens, as fit into one pass; and the member after them."""
    size = max(min(BLOCK, budget.tokens), len(members[start]) - shared)
    blocks: list[list[Ids]] = [[]]
    room = size
    for place in range(start, len(members)):
        rest = len(members[place]) - shared
        if rest > room:
            if (len(blocks) + 1) * size > budget.tokens:
                return blocks, place
            blocks.append([])
            room = size
        blocks[-1].append(members[place])
        room -= rest
    return blocks, len(members)


def _run_blocks(model: Model, past: Cache, shared: int, blocks: list[list[Ids]]) -> Tensor:
    """Of each member in turn the state at its last token."""
    width = max(sum(len(ids) - shared for ids in block) for block in blocks)
    tokens = np.zeros((len(blocks), width), dtype=np.int64)
    places = np.full((len(blocks), width), shared, dtype=np.int64)
    owner = np.tile(-1 - np.arange(width), (len(blocks), 1))  # padding: each is its own, and sees itself alone
    last: list[tuple[int, int]] = []
    for row, block in enumerate(blocks):
        column = 0
        for number, ids in enumerate(block):
            after = column + len(ids) - shared
            tokens[row, column:after] = ids[shared:]
            places[row, column:after] = np.arange(shared, len(ids))
            owner[row, column:after] = number
            last.append((row, after - 1))
            column = after

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(model.device)

    owners, order = on_device(owner), torch.arange(width, device=model.device)
    own = (owners[:, :, None] == owners[:, None, :]) & (order[None, :] <= order[:, None])
    visible = torch.cat([own.new_ones((len(blocks), width, shared)), own], dim=2)
    hidden, _ = model.grow(past.repeat(len(blocks)), model.embed(on_device(tokens)), on_device(places), visible)
    at = on_device(np.array(last))
    return hidden[at[:, 0], at[:, 1]]


def _by_padded_batches(model: Model, sequences: Sequence[Ids], budget: Budget) -> Iterator[_Pass]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        return model.hidden(model.embed(ids))[torch.arange(len(at), device=at.device), at]

    return _by_batches(model, sequences, budget, run, equal=False)


def _by_equal_lengths(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Pass]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        if pooling is Pooling.MEAN:
            return model.hidden(model.embed(ids)).float().mean(dim=1)
        return model.hidden_at(model.embed(ids), (torch.zeros_like(at) if pooling is Pooling.CLS else at)[:, None])[
            :, 0
        ]

    return _by_batches(model, sequences, budget, run, equal=True)


def _by_batches(
    model: Model,
    sequences: Sequence[Ids],
    budget: Budget,
    run: Callable[[Tensor, Tensor], Tensor],
    *,
    equal: bool,
) -> Iterator[_Pass]:
    """*run* gets ids, shape (b, n), padded on the right unless *equal* lengths are asked, and each one's last place."""
    sequences = sorted(sequences, key=len)
    lengths = [len(ids) for ids in sequences]

    def pack(start: int) -> tuple[Sequence[Ids], int]:
        stop = budget.fitting(lengths, start, equal=equal)
        return sequences[start:stop], stop

    def states(some: Sequence[Ids]) -> Tensor:
        ids = np.zeros((len(some), len(some[-1])), dtype=np.int64)
        for row, sequence in enumerate(some):
            ids[row, : len(sequence)] = sequence
        at = torch.tensor([len(sequence) - 1 for sequence in some], device=model.device)
        return run(torch.from_numpy(ids).to(model.device), at)

    return budget.batches(len(sequences), pack, states)

"""Texts as vectors.

Causal models: the state that the head sees at the last token (PromptEOL, Jiang et al. 2024). Prompts with a shared
prefix, such as few-shot prompts, run it once; the rests are packed, many per pass, under a mask that shows each of them
the prefix and itself. If little is shared, or the model refuses such a mask, prompts of similar length run in plain
batches, padded on the right, where a causal model does not look.
Encoders: the mean of all states or the first one, in batches of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fathom.base.errors import BadInput
from fathom.data.templates import Prompt
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.cache import KeyValues
from fathom.engine.scoring.evidence import some_of
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.tokens import encode_causal, encode_masked
from fathom.engine.scoring.trie import padded

BLOCK = 256
"""Tokens per packed sequence: enough to share the work on the prefix, few enough for the quadratic mask."""
WORTH_SHARING = 512
"""Least number of tokens saved by running a shared prefix separately, which takes another pass."""
Ids = tuple[int, ...]


class Pooling(StrEnum):
    """The states that form the vector: of the last token, the mean over all tokens, or of the first one."""

    LAST = "last"
    MEAN = "mean"
    CLS = "cls"


def resolve_pooling(model: Model, option: str) -> Pooling:
    """Return the pooling; ``auto``: as the model was trained, else ``last`` for causal models, ``mean`` for encoders.

    :raises BadInput: ``cls`` for a causal model, whose first token sees nothing of the text; or a pooling that is none.
    """
    causal = model.attention is Attention.CAUSAL
    if option == "auto":
        option = model.pooling or (Pooling.LAST if causal else Pooling.MEAN)
    if option not in list(Pooling):
        raise BadInput(
            f"'{model.identity.name}' was trained with the pooling {option}, which Fathom lacks: type --pooling "
            f"{', '.join(Pooling)}"
        )
    if option == Pooling.CLS and causal:
        raise BadInput("--pooling cls: the first token of a causal model sees nothing of the text; use last or mean")
    return Pooling(option)


def encode_texts(model: Model, texts: Sequence[str], bos: int | None) -> list[Ids]:
    """Return token ids of each text, with *bos* first for causal models, else the encoder's special tokens."""
    prompts = [Prompt(text, (), ()) for text in texts]
    if model.attention is Attention.CAUSAL:
        tokens = encode_causal(model.tokenizer, prompts, bos)
    else:
        tokens = encode_masked(model.tokenizer, prompts)
    return [tuple(item.ids.tolist()) for item in tokens]


class TextVectors(NamedTuple):
    """Texts as vectors.

    :param vectors: shape (texts, d), in the model's precision; NaN in rows with a fault.
    :param faults: why a text has no vector, None if it has one.
    """

    vectors: Tensor
    faults: list[str | None]


def text_vectors(model: Model, texts: Sequence[str], bos: int | None, pooling: Pooling, budget: Budget) -> TextVectors:
    """Return a vector for each text, or the reason why there is none. :param bos: first token for causal models."""
    ids = encode_texts(model, texts, bos)
    rows = vectors(model, ids, pooling, budget)
    finite = torch.isfinite(rows).all(dim=1).tolist()
    return TextVectors(rows, [_fault(model, tokens, good) for tokens, good in zip(ids, finite, strict=True)])


def _fault(model: Model, ids: Ids, finite: bool) -> str | None:
    if finite:
        return None
    if not ids:
        return "a prompt without any token"
    if len(ids) > (model.max_tokens or len(ids)):
        return f"a prompt of {len(ids)} tokens is longer than the model's window of {model.max_tokens}"
    return "the model gave the prompt a vector that is not a number"


def vectors(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Tensor:
    """Return one vector for each sequence, identical to the bit for equal ones.

    :param sequences: token ids. An empty one, or one longer than the model's window, has a vector of NaN.
    :returns: shape (sequences, d), in the model's precision, on its device.
    """
    runnable = [ids for ids in dict.fromkeys(sequences) if 0 < len(ids) <= (model.max_tokens or len(ids))]
    with torch.inference_mode():
        rows = _gathered(model, sequences, _by_passes(model, runnable, pooling, budget))
        if model.attention is Attention.CAUSAL and pooling is Pooling.LAST and len(runnable) > 1:
            _compare(model, "shared prefixes and padded batches", sequences, [-1] * len(sequences), rows, budget)
        return rows


def states_at(model: Model, sequences: Sequence[Ids], places: Sequence[int], budget: Budget) -> Tensor:
    """Return the state of a masked model at one place of each sequence, in batches of one length.

    :returns: shape (sequences, d), in the model's precision.
    """

    def run(keys: Tensor, _: Tensor) -> Tensor:
        return model.hidden_at(model.embed(keys[:, :-1]), keys[:, -1:])[:, 0]

    # The place is appended to the ids, so that a sequence with two places runs twice.
    keys = [(*ids, place) for ids, place in zip(sequences, places, strict=True)]
    with torch.inference_mode():
        rows = _gathered(model, keys, _by_batches(model, list(dict.fromkeys(keys)), budget, run, equal=True))
        _compare(model, "batches of states", sequences, places, rows, budget)
        return rows


def _compare(
    model: Model, path: str, sequences: Sequence[Ids], places: Sequence[int], rows: Tensor, budget: Budget
) -> None:
    """Compare the states at *places* of some sequences with the sequences alone."""
    runnable = [number for number, ids in enumerate(sequences) if 0 < len(ids) <= (model.max_tokens or len(ids))]
    if runnable and budget.evidence.begins(model, path):
        for number in (runnable[some] for some in some_of([len(sequences[place]) for place in runnable])):
            ids = torch.tensor([sequences[number]], device=model.device)
            with model.original_layers():
                alone = model.hidden(model.embed(ids))[0, places[number]]
            budget.evidence.add_states(model, path, rows[[number]], alone[None])


_Pass = tuple[Sequence[Ids], Tensor]


def _gathered(model: Model, sequences: Sequence[Ids], passes: Iterable[_Pass]) -> Tensor:
    """Return the vector of each sequence from the passes; NaN if there is none."""
    place: dict[Ids, int] = {}
    parts = []
    for batch, states in passes:
        place |= {ids: len(place) + number for number, ids in enumerate(batch)}
        parts.append(states)
    if not parts:
        parts.append(model.embed(torch.zeros((1,), dtype=torch.long, device=model.device))[:0])
    missing = parts[0].new_full((1, parts[0].shape[1]), torch.nan)
    rows = torch.tensor([place.get(ids, len(place)) for ids in sequences], dtype=torch.long, device=model.device)
    return torch.cat([*parts, missing])[rows]


def _by_passes(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Pass]:
    """Yield sequences and their vectors, pass by pass."""
    if model.attention is not Attention.CAUSAL or pooling is not Pooling.LAST:
        yield from _by_equal_lengths(model, sequences, pooling, budget)
        return
    plain: list[Ids] = []
    for group in prefix_groups(sequences):
        if group.saves >= WORTH_SHARING and model.refuses_cache(max(map(len, group.members))) is None:
            yield from _by_shared_prefix(model, group, budget)
        else:
            plain += group.members
    yield from _by_padded_batches(model, plain, budget)


class PrefixGroup(NamedTuple):
    """Sequences with a prefix of *shared* tokens, each with at least one more."""

    shared: int
    members: tuple[Ids, ...]

    @property
    def saves(self) -> int:
        """Number of tokens that need not run again."""
        return self.shared * (len(self.members) - 1)


def prefix_groups(sequences: Sequence[Ids]) -> list[PrefixGroup]:
    """Group neighbours in lexicographic order while that is less work than running them separately."""
    groups: list[list[Ids]] = []
    prefixes: list[int] = []
    for ids in sorted(sequences):
        common = min(_common(groups[-1][-1], ids), len(ids) - 1, prefixes[-1]) if groups else 0
        if groups and (prefixes[-1] - common) * len(groups[-1]) <= common:
            prefixes[-1] = common
            groups[-1].append(ids)
        else:
            groups.append([ids])
            prefixes.append(len(ids) - 1)
    return [
        PrefixGroup(shared if len(members) > 1 else 0, tuple(members))
        for shared, members in zip(prefixes, groups, strict=True)
    ]


def _common(first: Ids, second: Ids) -> int:
    for place, pair in enumerate(zip(first, second, strict=False)):
        if pair[0] != pair[1]:
            return place
    return min(len(first), len(second))


def _by_shared_prefix(model: Model, group: PrefixGroup, budget: Budget) -> Iterator[_Pass]:
    prefix = torch.tensor([group.members[0][: group.shared]], device=model.device)
    places = torch.arange(group.shared, device=model.device)[None]
    [(_, past)] = budget.batches(1, lambda _: (prefix, 1), lambda ids: model.grow(None, model.embed(ids), places)[1])
    members = sorted(group.members, key=len, reverse=True)
    passes = budget.batches(
        len(members),
        lambda start: _pack(members, group.shared, start, budget),
        lambda blocks: _run_blocks(model, past, group.shared, blocks),
    )
    for blocks, states in passes:
        yield [ids for block in blocks for ids in block], states


def _pack(members: Sequence[Ids], shared: int, start: int, budget: Budget) -> tuple[list[list[Ids]], int]:
    """Return as many blocks of about :data:`BLOCK` tokens as fit one pass, and the member after them."""
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


def _run_blocks(model: Model, past: KeyValues, shared: int, blocks: list[list[Ids]]) -> Tensor:
    """Return the state at the last token of each member in turn."""
    width = max(sum(len(ids) - shared for ids in block) for block in blocks)
    tokens = np.zeros((len(blocks), width), dtype=np.int64)
    places = np.full((len(blocks), width), shared, dtype=np.int64)
    owner = np.tile(-1 - np.arange(width), (len(blocks), 1))  # a padding token sees itself only
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

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(model.device)

    owners, order = tensor(owner), torch.arange(width, device=model.device)
    itself = (owners[:, :, None] == owners[:, None, :]) & (order[None, :] <= order[:, None])
    visible = torch.cat([itself.new_ones((len(blocks), width, shared)), itself], dim=2)
    hidden, _ = model.grow(past.repeat(len(blocks)), model.embed(tensor(tokens)), tensor(places), visible)
    at = tensor(np.array(last))
    return hidden[at[:, 0], at[:, 1]]


def _by_padded_batches(model: Model, sequences: Sequence[Ids], budget: Budget) -> Iterator[_Pass]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        return model.hidden(model.embed(ids))[torch.arange(len(at), device=at.device), at]

    equal = bool(sequences) and model.refuses_padding(max(map(len, sequences))) is not None
    return _by_batches(model, sequences, budget, run, equal=equal)


def _by_equal_lengths(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Pass]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        if pooling is Pooling.MEAN:
            return model.hidden(model.embed(ids)).float().mean(dim=1)
        place = torch.zeros_like(at) if pooling is Pooling.CLS else at
        return model.hidden_at(model.embed(ids), place[:, None])[:, 0]

    return _by_batches(model, sequences, budget, run, equal=True)


def _by_batches(
    model: Model,
    sequences: Sequence[Ids],
    budget: Budget,
    run: Callable[[Tensor, Tensor], Tensor],
    *,
    equal: bool,
) -> Iterator[_Pass]:
    """:param run: gets ids, shape (b, n), padded on the right unless of *equal* lengths, and the last place of each."""
    sequences = sorted(sequences, key=len)
    lengths = [len(ids) for ids in sequences]

    def pack(start: int) -> tuple[Sequence[Ids], int]:
        stop = budget.fitting(lengths, start, equal=equal)
        return sequences[start:stop], stop

    def states(batch: Sequence[Ids]) -> Tensor:
        at = torch.tensor([len(sequence) - 1 for sequence in batch], device=model.device)
        return run(torch.from_numpy(padded(batch, 0)).to(model.device), at)

    return budget.batches(len(sequences), pack, states)

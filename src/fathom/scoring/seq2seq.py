"""Statements in two parts for encoder-decoders: what is read, and what is said of it.

A statement is tokenised as a whole, as everywhere; its answer's tokens are then cut out. Three forms:

- ``sentinel``: T5's span corruption (Raffel et al. 2020, section 3.1.4). Read: the statement with ``<extra_id_0>`` for
  the answer. Said: ``<extra_id_0>``, the answer, ``<extra_id_1>``, so that an answer is scored with its end.
- ``mask``: BART's text infilling (Lewis et al. 2020, section 2.2). Read: the statement with one mask for the answer,
  however long it is. Said: the whole statement.
- ``split``: a prompt and its continuation, as models are tuned for tasks. Read: what stands before the answer. Said:
  the answer and the rest.

A token's score is log p(token | source, target tokens before it), in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, device
from transformers import PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.scoring.memory import Budget
from fathom.scoring.tokens import Role, Tokens

HEADS_SHARE = 8
"""A pass holds one part in so many of the token budget: every target token has a row over the whole vocabulary."""


class Form(StrEnum):
    """How a statement is put to an encoder-decoder: see the head of this module."""

    SENTINEL = "sentinel"
    MASK = "mask"
    SPLIT = "split"


class Pair(NamedTuple):
    """A statement in two parts.

    :param target: only what is no special token is scored.
    """

    source: tuple[int, ...]
    target: Tokens

    @property
    def longest(self) -> int:
        """Tokens of its longer part, which the model's window has to hold."""
        return max(len(self.source), len(self.target.ids))


_Key = tuple[tuple[int, ...], tuple[int, ...]]
"""Source and target."""


def resolve_form(tokenizer: PreTrainedTokenizerBase, wanted: str) -> Form:
    """:param wanted: a form, or "auto": sentinels where the tokenizer has them, else a mask, else split.
    :raises BadInput: a form for which the tokenizer lacks the token.
    """
    can = {
        Form.SENTINEL: _sentinel(tokenizer, 0) is not None,
        Form.MASK: tokenizer.mask_token_id is not None,
        Form.SPLIT: True,
    }
    if wanted == "auto":
        return next(form for form, able in can.items() if able)
    if not can[Form(wanted)]:
        usable = ", ".join(form for form, able in can.items() if able)
        raise BadInput(f"--form {wanted}: the tokenizer has no such token; use {usable}")
    return Form(wanted)


def form_for(model: Model, wanted: str) -> Form:
    """:func:`resolve_form` of an encoder-decoder; of other models, which have none, split.

    :raises BadInput: also a form asked of another model.
    """
    if model.attention is Attention.SEQ2SEQ:
        return resolve_form(model.tokenizer, wanted)
    if wanted != "auto":
        raise BadInput(f"--form {wanted}: for encoder-decoders; this model is {model.attention}")
    return Form.SPLIT


def _sentinel(tokenizer: PreTrainedTokenizerBase, number: int) -> int | None:
    found = tokenizer.convert_tokens_to_ids(f"<extra_id_{number}>")
    return None if found is None or found == tokenizer.unk_token_id else int(found)


def as_pair(tokenizer: PreTrainedTokenizerBase, tokens: Tokens, form: Form) -> Pair:
    """:param tokens: of the whole statement, the tokenizer's own special tokens around it.
    :raises BadInput: a statement without an answer, which has nothing to be said.
    """
    spans = _runs(tokens.roles == Role.ANSWER)
    if not spans:
        raise BadInput("an encoder-decoder says an answer, and here is none: --perplexity cannot be had of it")
    if form is Form.SPLIT:
        return _split(tokens, spans[0][0], tokenizer.eos_token_id)
    signs = _signs(tokenizer, len(spans), form)
    source: list[int] = []
    before = 0
    for (start, stop), sign in zip(spans, signs, strict=False):
        source += [*tokens.ids[before:start].tolist(), sign]
        before = stop
    source += tokens.ids[before:].tolist()
    return Pair(tuple(source), tokens if form is Form.MASK else _spans(tokens, spans, signs))


def _signs(tokenizer: PreTrainedTokenizerBase, spans: int, form: Form) -> list[int]:
    """What stands for each span in the source; of sentinels one more, which closes the target."""
    if form is Form.MASK:
        return [int(tokenizer.mask_token_id)] * spans
    found = [_sentinel(tokenizer, number) for number in range(spans + 1)]
    signs = [sign for sign in found if sign is not None]
    if len(signs) < len(found):
        raise BadInput(f"the answer stands in {spans} places of a statement, the tokenizer has too few sentinels")
    return signs


def _split(tokens: Tokens, start: int, end: int | None) -> Pair:
    """:param end: id of the sign of an end, which is read where there is nothing else before the answer."""
    ends = np.flatnonzero(tokens.roles != Role.SPECIAL)[-1] + 1
    source = np.append(tokens.ids[:start], tokens.ids[ends:])  # closed as the tokenizer closes any text
    if not len(source):
        if end is None:
            raise BadInput(
                "--form split: nothing stands before an answer, and the tokenizer has no EOS to read instead"
            )
        source = np.array([end])
    said = Tokens(tokens.ids[start:], tokens.roles[start:], tokens.words[start:], tokens.mixed)
    return Pair(tuple(source.tolist()), said)


def _spans(tokens: Tokens, spans: Sequence[tuple[int, int]], signs: Sequence[int]) -> Tokens:
    """Sentinel, answer, sentinel, …; the first says nothing, those behind an answer say that it is at its end."""
    ids, roles, words = [signs[0]], [int(Role.SPECIAL)], [-1]
    for (start, stop), sign in zip(spans, signs[1:], strict=True):
        ids += [*tokens.ids[start:stop].tolist(), sign]
        roles += [*tokens.roles[start:stop].tolist(), int(Role.TEMPLATE)]
        words += [*tokens.words[start:stop].tolist(), -1]
    as_ids, as_roles, as_words = (np.array(column, dtype=np.int64) for column in (ids, roles, words))
    return Tokens(as_ids, as_roles, as_words, tokens.mixed)


def _runs(wanted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(start, stop) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def seq2seq_log_probs(model: EncoderDecoder, pairs: Sequence[Pair], budget: Budget) -> list[NDArray[np.float32]]:
    """log p of every token of every target, in nats. Each distinct pair is run once, a source once per pass.

    :returns: for each pair float32 of its target's length.
    """
    keys = [(pair.source, tuple(pair.target.ids.tolist())) for pair in pairs]
    distinct = sorted(dict.fromkeys(keys), key=lambda key: (len(key[0]), key))
    found: dict[object, NDArray[np.float32]] = {}

    def pack(start: int) -> tuple[slice, int]:
        stop, widest = start, 0
        while stop < len(distinct):
            widest = max(widest, len(distinct[stop][1]))
            # Sources stand in the order of their lengths, so the last of them is the longest.
            wide = max(HEADS_SHARE * widest, len(distinct[stop][0]))
            if stop > start and (stop + 1 - start) * wide > budget.tokens:
                break
            stop += 1
        return slice(start, stop), stop

    def run(some: slice) -> list[NDArray[np.float32]]:
        return _run(model, distinct[some])

    for some, scores in budget.batches(len(distinct), pack, run):
        found.update(zip(distinct[some], scores, strict=True))
    return [found[key] for key in keys]


def stand_in(tokenizer: PreTrainedTokenizerBase, form: Form) -> str:
    """A text to put in the answer's place where no answer is meant: what the source shows there, anyhow."""
    return {Form.SENTINEL: "<extra_id_0>", Form.MASK: str(tokenizer.mask_token), Form.SPLIT: "x"}[form]


def tokens_at_answer(model: EncoderDecoder, pairs: Sequence[Pair], tokens: Tensor, budget: Budget) -> Tensor:
    """Log-probabilities of some tokens as what is said first in the answer's place; rows over the whole vocabulary,
    of which a multilingual model has a quarter of a million, are held for one pass alone.

    :param pairs: with a :func:`stand_in` for the answer, none longer than the model's window.
    :param tokens: shape (t,).
    :returns: float32 in nats, shape (pairs, t).
    """
    widest = max((max(len(pair.source), HEADS_SHARE * len(pair.target.ids)) for pair in pairs), default=1)

    def pack(start: int) -> tuple[slice, int]:
        stop = start + max(1, budget.tokens // widest)
        return slice(start, stop), stop

    def run(some: slice) -> Tensor:
        own = pairs[some]
        log_probs, _ = _decoded(model, [(pair.source, tuple(pair.target.ids.tolist())) for pair in own])
        at = torch.tensor([int(np.argmax(pair.target.roles == Role.ANSWER)) for pair in own], device=model.device)
        return log_probs[torch.arange(len(own), device=model.device), at][:, tokens]

    found = [rows for _, rows in budget.batches(len(pairs), pack, run)]
    return torch.cat(found) if found else torch.empty((0, len(tokens)), device=model.device)


def slot_pair(
    tokenizer: PreTrainedTokenizerBase, before: Sequence[int], name: Sequence[int], after: Sequence[int], form: Form
) -> Pair:
    """A candidate's tokens in a slot between others, special ones around them included."""
    ids = np.array([*before, *name, *after], dtype=np.int64)
    roles = np.full(len(ids), Role.TEMPLATE, dtype=np.int64)
    roles[len(before) : len(before) + len(name)] = Role.ANSWER
    roles[np.isin(ids, tokenizer.all_special_ids) & (roles != Role.ANSWER)] = Role.SPECIAL
    return as_pair(tokenizer, Tokens(ids, roles, np.full(len(ids), -1, dtype=np.int64), 0), form)


def _run(model: EncoderDecoder, keys: Sequence[_Key]) -> list[NDArray[np.float32]]:
    log_probs, said = _decoded(model, keys)
    scores = log_probs.gather(2, said[:, :, None])[:, :, 0].cpu().numpy()
    return [own[: len(target)] for own, (_, target) in zip(scores, keys, strict=True)]


def _decoded(model: EncoderDecoder, keys: Sequence[_Key]) -> tuple[Tensor, Tensor]:
    """Log-probabilities, shape (keys, longest target, vocabulary), and the targets, padded."""
    sources = list(dict.fromkeys(source for source, _ in keys))
    row = [sources.index(source) for source, _ in keys]
    with torch.inference_mode():
        read_ids, read = _padded(sources, model.device)
        said, _ = _padded([target for _, target in keys], model.device)
        return model.decode(model.encode(read_ids, read)[row], read[row], said), said


def _padded(rows: Sequence[Sequence[int]], where: device) -> tuple[Tensor, Tensor]:
    """Ids, zero behind each row's end, and which of them count, both of shape (rows, longest)."""
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    counts = np.zeros(ids.shape, dtype=bool)
    for own, count, values in zip(ids, counts, rows, strict=True):
        own[: len(values)], count[: len(values)] = values, True
    return torch.from_numpy(ids).to(where), torch.from_numpy(counts).to(where)

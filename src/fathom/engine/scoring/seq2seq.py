"""Statements in two parts for encoder-decoders: a source and a target.

A statement is tokenised as a whole, as for other models; its answer's tokens are then cut out. There are three forms:

- ``sentinel``: T5's span corruption (Raffel et al. 2020, section 3.1.4). Source: the statement with ``<extra_id_0>``
  for the answer. Target: ``<extra_id_0>``, the answer, ``<extra_id_1>``, so that an answer is scored with its end.
- ``mask``: BART's text infilling (Lewis et al. 2020, section 2.2). Source: the statement with one mask for the answer
  of any length. Target: the whole statement.
- ``split``: a prompt and its continuation, as models are tuned for tasks. Source: the text before the answer. Target:
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

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.scoring.memory import Budget, some_of
from fathom.engine.scoring.tokens import Role, Tokens
from fathom.engine.scoring.trie import padded

HEADS_SHARE = 8
"""Divisor of the token budget per pass, as each target token has a row over the whole vocabulary."""


class Form(StrEnum):
    """The form of a statement for an encoder-decoder, see the head of this module."""

    SENTINEL = "sentinel"
    MASK = "mask"
    SPLIT = "split"


class Pair(NamedTuple):
    """A statement in two parts. Special tokens of the target are not scored."""

    source: tuple[int, ...]
    target: Tokens

    @property
    def longest(self) -> int:
        """Tokens of its longer part, which must fit the model's window."""
        return max(len(self.source), len(self.target.ids))


_Key = tuple[tuple[int, ...], tuple[int, ...]]
"""Source and target."""


def resolve_form(tokenizer: PreTrainedTokenizerBase, wanted: str) -> Form:
    """Return the form *wanted*; for "auto" sentinels if the tokenizer has them, else a mask, else split.

    :raises BadInput: the tokenizer lacks the token of this form.
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
    """Return :func:`resolve_form` of an encoder-decoder; split for other models, which ignore it.

    :raises BadInput: also a form for another model.
    """
    if model.attention is Attention.SEQ2SEQ:
        return resolve_form(model.tokenizer, wanted)
    if wanted != "auto":
        raise BadInput(f"--form {wanted}: for encoder-decoders; this model is {model.attention}")
    return Form.SPLIT


def _sentinel(tokenizer: PreTrainedTokenizerBase, number: int) -> int | None:
    token = tokenizer.convert_tokens_to_ids(f"<extra_id_{number}>")
    return None if token is None or token == tokenizer.unk_token_id else int(token)


def as_pair(tokenizer: PreTrainedTokenizerBase, tokens: Tokens, form: Form) -> Pair:
    """:param tokens: of the whole statement, with the tokenizer's own special tokens.
    :raises BadInput: a statement without an answer has no target.
    """
    spans = _runs(tokens.roles == Role.ANSWER)
    if not spans:
        raise BadInput("an encoder-decoder needs an answer as its target: --perplexity is not available for it")
    if form is Form.SPLIT:
        return _split(tokens, spans[0][0], tokenizer.eos_token_id)
    signs = _signs(tokenizer, len(spans), form)
    source: list[int] = []
    before = 0
    for (start, stop), sign in zip(spans, signs[: len(spans)], strict=True):
        source += [*tokens.ids[before:start].tolist(), sign]
        before = stop
    source += tokens.ids[before:].tolist()
    return Pair(tuple(source), tokens if form is Form.MASK else _spans(tokens, spans, signs))


def _signs(tokenizer: PreTrainedTokenizerBase, spans: int, form: Form) -> list[int]:
    """Return the placeholder of each span in the source; for sentinels one more, which closes the target."""
    if form is Form.MASK:
        return [int(tokenizer.mask_token_id)] * spans
    signs = [sign for number in range(spans + 1) if (sign := _sentinel(tokenizer, number)) is not None]
    if len(signs) <= spans:
        raise BadInput(f"the answer occurs in {spans} places of a statement, the tokenizer has too few sentinels")
    return signs


def _split(tokens: Tokens, start: int, end: int | None) -> Pair:
    """:param end: id of EOS, the source if nothing precedes the answer."""
    ends = np.flatnonzero(tokens.roles != Role.SPECIAL)[-1] + 1
    source = np.append(tokens.ids[:start], tokens.ids[ends:])  # with the tokenizer's final tokens
    if not len(source):
        if end is None:
            raise BadInput("--form split: nothing precedes an answer, and the tokenizer has no EOS to read instead")
        source = np.array([end])
    part = slice(start, None)
    target = Tokens(tokens.ids[part], tokens.roles[part], tokens.words[part], tokens.mixed, tokens.spans[part])
    return Pair(tuple(source.tolist()), target)


def _spans(tokens: Tokens, spans: Sequence[tuple[int, int]], signs: Sequence[int]) -> Tokens:
    """Return sentinel, answer, sentinel, …; the first is not scored, those after an answer are scored as its end."""
    ids, roles, words, places = [signs[0]], [int(Role.SPECIAL)], [-1], [(0, 0)]
    for (start, stop), sign in zip(spans, signs[1:], strict=True):
        ids += [*tokens.ids[start:stop].tolist(), sign]
        roles += [*tokens.roles[start:stop].tolist(), int(Role.TEMPLATE)]
        words += [*tokens.words[start:stop].tolist(), -1]
        places += [*tokens.spans[start:stop].tolist(), (0, 0)]
    as_ids, as_roles, as_words, as_spans = (np.array(values, dtype=np.int64) for values in (ids, roles, words, places))
    return Tokens(as_ids, as_roles, as_words, tokens.mixed, as_spans)


def _runs(wanted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def seq2seq_log_probs(model: EncoderDecoder, pairs: Sequence[Pair], budget: Budget) -> list[NDArray[np.float32]]:
    """Return log p of each token of each target, in nats. Each distinct pair runs once, a source once per pass.

    :returns: for each pair float32 of its target's length.
    """
    keys = [(pair.source, tuple(pair.target.ids.tolist())) for pair in pairs]
    distinct = sorted(dict.fromkeys(keys), key=lambda key: (len(key[0]), key))
    scores: dict[object, NDArray[np.float32]] = {}

    def pack(start: int) -> tuple[slice, int]:
        stop, widest = start, 0
        while stop < len(distinct):
            widest = max(widest, len(distinct[stop][1]))
            # Sources are ordered by length, so the last of them is the longest.
            wide = max(HEADS_SHARE * widest, len(distinct[stop][0]))
            if stop > start and (stop + 1 - start) * wide > budget.tokens:
                break
            stop += 1
        return slice(start, stop), stop

    def run(some: slice) -> list[NDArray[np.float32]]:
        log_probs, targets = _decoded(model, distinct[some])
        rows = log_probs.gather(2, targets[:, :, None])[:, :, 0].cpu().numpy()
        return [row[: len(target)] for row, (_, target) in zip(rows, distinct[some], strict=True)]

    for some, log_probs in budget.batches(len(distinct), pack, run):
        scores.update(zip(distinct[some], log_probs, strict=True))
    if distinct and budget.evidence.begins(model, "batches of pairs"):
        for key in (distinct[number] for number in some_of([len(source) + len(target) for source, target in distinct])):
            rows, targets = _decoded(model, [key])
            alone = rows.gather(2, targets[:, :, None])[0, :, 0].cpu().numpy()
            budget.evidence.add(model, "batches of pairs", scores[key], alone)
    return [scores[key] for key in keys]


def stand_in(tokenizer: PreTrainedTokenizerBase, form: Form) -> str:
    """Return a placeholder for the answer: what the source shows there in any case."""
    return {Form.SENTINEL: "<extra_id_0>", Form.MASK: str(tokenizer.mask_token), Form.SPLIT: "x"}[form]


def tokens_at_answer(model: EncoderDecoder, pairs: Sequence[Pair], tokens: Tensor, budget: Budget) -> Tensor:
    """Return log-probabilities of some tokens as the answer's first token.

    Rows over the whole vocabulary, a quarter of a million for multilingual models, are held for one pass only.

    :param pairs: with a :func:`stand_in` for the answer, within the model's window.
    :param tokens: shape (t,).
    :returns: float32 in nats, shape (pairs, t).
    """
    widest = max((max(len(pair.source), HEADS_SHARE * len(pair.target.ids)) for pair in pairs), default=1)

    def pack(start: int) -> tuple[slice, int]:
        stop = start + max(1, budget.tokens // widest)
        return slice(start, stop), stop

    def run(some: slice) -> Tensor:
        batch = pairs[some]
        log_probs, _ = _decoded(model, [(pair.source, tuple(pair.target.ids.tolist())) for pair in batch])
        at = torch.tensor([int(np.argmax(pair.target.roles == Role.ANSWER)) for pair in batch], device=model.device)
        return log_probs[torch.arange(len(batch), device=model.device), at][:, tokens]

    parts = [rows for _, rows in budget.batches(len(pairs), pack, run)]
    return torch.cat(parts) if parts else torch.empty((0, len(tokens)), device=model.device)


def slot_pair(
    tokenizer: PreTrainedTokenizerBase, before: Sequence[int], name: Sequence[int], after: Sequence[int], form: Form
) -> Pair:
    """Return the pair of a candidate's tokens in a slot between others, which include special ones."""
    ids = np.array([*before, *name, *after], dtype=np.int64)
    roles = np.full(len(ids), Role.TEMPLATE, dtype=np.int64)
    roles[len(before) : len(before) + len(name)] = Role.ANSWER
    roles[np.isin(ids, tokenizer.all_special_ids) & (roles != Role.ANSWER)] = Role.SPECIAL
    return as_pair(tokenizer, Tokens(ids, roles, np.full(len(ids), -1, dtype=np.int64), 0), form)


def _decoded(model: EncoderDecoder, keys: Sequence[_Key]) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, shape (keys, longest target, vocabulary), and the padded targets."""
    sources = list(dict.fromkeys(source for source, _ in keys))
    row = [sources.index(source) for source, _ in keys]
    with torch.inference_mode():
        read_ids, read = _padded(sources, model.device)
        targets, _ = _padded([target for _, target in keys], model.device)
        return model.decode(model.encode(read_ids, read)[row], read[row], targets), targets


def _padded(rows: Sequence[Sequence[int]], where: device) -> tuple[Tensor, Tensor]:
    """Return ids, padded with zeros, and which of them count, both of shape (rows, longest)."""
    ids = torch.from_numpy(padded(rows, -1)).to(where)
    return ids.clamp(min=0), ids >= 0

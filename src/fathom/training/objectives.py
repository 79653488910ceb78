"""The usual objectives of pre-training, on batches of texts of similar length.

- masked (Devlin et al. 2019, section 3.1): 15 % of the tokens are targets; 80 % of these are masked, 10 % exchanged.
- causal: each token from those before it.
- t5 (Raffel et al. 2020, section 3.1.4): 15 % in spans of three on average, each replaced by a sentinel; the target
  is the removed text.
- bart (Lewis et al. 2020, text infilling): 30 % in such spans, each replaced by one mask; the target is the text.
  BART draws the spans' lengths from a Poisson distribution, which includes empty ones.

In a statement the target is always a whole name: salient span masking (Guu et al. 2020; Roberts et al. 2020). With
random masks, a fact is seldom a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom.data.templates import Prompt, Span
from fathom.engine.scoring.trie import padded
from fathom.training.small import NO_TARGET, Batch

Ids = NDArray[np.int64]
DENSITY = {"masked": 0.15, "t5": 0.15, "bart": 0.3}
"""Share of the tokens that are targets."""
SPAN = 3
"""Tokens in a span, on average."""
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(32))
AS_ONE = 0.5
"""How often one mask replaces a whole name, to hide its length; its first token is the target."""


class EncodedText(NamedTuple):
    """A text. :param ids: without special tokens. :param names: tokens of the two names of a statement."""

    ids: Ids
    names: tuple[Span, ...] = ()


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[EncodedText]:
    """Encode texts. :param most: tokens; longer texts are cut."""
    rows = tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [EncodedText(np.array(row.ids[:most], dtype=np.int64)) for row in rows if row.ids]


def encode_statements(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[EncodedText]:
    """Encode statements, and locate their names by characters."""
    rows = tokenizer.backend_tokenizer.encode_batch([prompt.text for prompt in prompts], add_special_tokens=False)
    return [
        EncodedText(
            np.array(row.ids, dtype=np.int64),
            tuple(_tokens_of(span, row.offsets) for span in (prompt.subject[0], prompt.answer[0])),
        )
        for row, prompt in zip(rows, prompts, strict=True)
    ]


def _tokens_of(span: Span, offsets: Sequence[tuple[int, int]]) -> Span:
    inside = [place for place, (start, end) in enumerate(offsets) if start < span.end and end > span.start]
    return Span(inside[0], inside[-1] + 1)


class Objective:
    """Makes batches of texts; targets are drawn by *random*."""

    def __init__(self, kind: str, tokenizer: PreTrainedTokenizerBase, random: np.random.Generator) -> None:
        self.kind, self.tokenizer, self.random = kind, tokenizer, random
        self._sentinels = tokenizer.convert_tokens_to_ids(list(SENTINELS)) if kind == "t5" else []
        self._plain = np.setdiff1d(np.arange(len(tokenizer)), list(tokenizer.added_tokens_decoder))

    def batch(self, texts: Sequence[EncodedText]) -> Batch:
        """Return inputs and targets, padded on the right."""
        make = {"causal": self.causal, "masked": self.masked, "t5": self.t5, "bart": self.bart}[self.kind]
        ids, labels = zip(*map(make, texts), strict=True)
        inputs = padded(ids, self.tokenizer.pad_token_id)
        present = padded([np.ones_like(row) for row in ids], 0)
        return Batch(*map(torch.from_numpy, (inputs, present, padded(labels, NO_TARGET))))

    def causal(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict each token and the end from those before. :returns: inputs and targets, as for other kinds."""
        begin, end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        return np.append(begin, text.ids), np.append(text.ids, end)

    def masked(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict some tokens from all others (Devlin et al. 2019, section 3.1); in a statement, one of its names."""
        ids, mask = text.ids, self.tokenizer.mask_token_id
        if text.names:
            start, end = self._name(text)
            if self.random.random() < AS_ONE:
                ids = np.delete(ids, slice(start + 1, end))
                end = start + 1
            asked = np.zeros(len(ids), dtype=bool)
            asked[start:end] = True
            shown = np.where(asked, mask, ids)
        else:
            asked = self.random.random(len(ids)) < DENSITY["masked"]
            asked[self.random.integers(len(ids))] |= not asked.any()
            how = self.random.random(len(ids))
            shown = np.where(asked & (how < 0.8), mask, ids)
            shown = np.where(asked & (how >= 0.9), self.random.choice(self._plain, len(ids)), shown)
        labels = np.where(asked, ids, NO_TARGET)
        return self._around(shown), np.concatenate([[NO_TARGET], labels, [NO_TARGET]])

    def t5(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict spans that are replaced by sentinels (Raffel et al. 2020, section 3.1.4)."""
        spans = self._spans(text)[: len(self._sentinels) - 1]
        kept, taken = _cut(text.ids, spans)
        sentinels, end = self._sentinels[: len(spans) + 1], self.tokenizer.eos_token_id
        return _alternating(kept, [*sentinels[:-1], end]), _alternating(sentinels, [*taken, end])

    def bart(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict the text from one with masks for spans (Lewis et al. 2020, text infilling)."""
        kept, _ = _cut(text.ids, self._spans(text))
        masked = _alternating(kept, [self.tokenizer.mask_token_id] * len(kept))[:-1]
        return self._around(masked), self._around(text.ids)

    def _around(self, ids: Ids) -> Ids:
        return np.concatenate([[self.tokenizer.bos_token_id], ids, [self.tokenizer.eos_token_id]])

    def _name(self, text: EncodedText) -> Span:
        return text.names[self.random.integers(len(text.names))]

    def _spans(self, text: EncodedText) -> list[Span]:
        """Return the spans to remove, in order: as many as give the density, of random lengths at random places."""
        if text.names:
            return [self._name(text)]
        size = len(text.ids)
        taken = min(max(round(size * DENSITY[self.kind]), 1), size)
        count = min(max(round(taken / SPAN), 1), size - taken + 1)
        lengths = self._parts(taken - count, count) + 1
        gaps = self._parts(size - taken - (count - 1), count + 1)
        gaps[1:-1] += 1  # two spans in a row would be one
        starts = np.cumsum(gaps[:-1]) + np.append(0, np.cumsum(lengths)[:-1])
        return [Span(start, start + length) for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]

    def _parts(self, total: int, count: int) -> Ids:
        """Split *total* into a sum of *count* numbers from 0 on, uniformly."""
        bars = np.sort(self.random.choice(total + count - 1, count - 1, replace=False))
        parts: Ids = np.diff(np.concatenate([[-1], bars, [total + count - 1]])) - 1
        return parts


def _cut(ids: Ids, spans: Sequence[Span]) -> tuple[list[Ids], list[Ids]]:
    """Return the pieces around the spans, one more than spans, and the spans."""
    pieces = np.split(ids, [end for span in spans for end in span])
    return pieces[::2], pieces[1::2]


def _alternating(ones: Sequence[Ids | int], others: Sequence[Ids | int]) -> Ids:
    """Interleave tokens or pieces of both."""
    return np.hstack([part for pair in zip(ones, others, strict=True) for part in pair])

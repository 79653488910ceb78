"""Masked slots in sentences: the likelihood of each candidate's tokens in the slot (Kassner et al. 2021).

All candidates of n tokens share one pass with n masks, so its cost does not grow with their number. A sentence may hold
learnt tokens, ``<s1>``, ``<s2>``, …: rows of a matrix of their own, which alone gradients reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fathom.data.templates import Prompt, Span
from fathom.engine.models.base import Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.scoring.memory import Budget, same_token_log_probs
from fathom.engine.scoring.seq2seq import Form, seq2seq_log_probs, slot_pair
from fathom.engine.scoring.tokens import Role, Tokens, encode_masked


class MaskCount(StrEnum):
    """The number of masks in the slot: one per token of the candidate, or one for all of them."""

    SEVERAL = "several"
    ONE = "one"


class SlotPooling(StrEnum):
    """The aggregation of the log-probabilities of a candidate's tokens."""

    MEAN = "mean"
    MAX = "max"
    FIRST = "first"


class SlotScoring(NamedTuple):
    """One scoring of slots; several share their passes."""

    masks: MaskCount
    pooling: SlotPooling

    @property
    def name(self) -> str:
        """Name in the predictions, such as "mask-mean" or "one-mask-max"."""
        return f"{'one-' if self.masks is MaskCount.ONE else ''}mask-{self.pooling}"


LEARNT = re.compile(r"<s([1-9]\d*)>")
"""Matches a learnt token in a text."""


class Slot(NamedTuple):
    """A sentence as token ids, special ones included, without its mask.

    Ids from the model's ``vocabulary_size`` on are rows of the matrix of learnt vectors.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    def tokens(self, masks: int) -> int:
        """Return the length of the sequence with this number of masks."""
        return len(self.before) + masks + len(self.after)


def encode_slots(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    first_learnt: Sequence[int] | None = None,
    sign: str | None = None,
) -> list[Slot | None]:
    """Tokenise each sentence as a whole, with the tokenizer's mask token in place of learnt ones.

    The white space before the slot is the answer's: in a sentence piece it would be a token of its own before the mask.

    :param prompts: with the *sign* as their answer.
    :param first_learnt: for each prompt the id of ``<s1>``, followed by ``<s2>``; None if no text has learnt tokens. In
        subjects and answers such signs are plain text.
    :param sign: the text in the slot; None for the tokenizer's mask token.
    :returns: None if the answer is not one token.
    """
    prompts = [prompt.without_space() for prompt in prompts]
    mask = tokenizer.mask_token_id if sign is None else tokenizer.convert_tokens_to_ids(sign)
    if first_learnt is None:
        return [_slot(mask, tokens, {}) for tokens in encode_masked(tokenizer, prompts)]
    marked = [_with_masks(prompt, str(tokenizer.mask_token)) for prompt in prompts]
    slots: list[Slot | None] = []
    for tokens, (_, numbers), first in zip(
        encode_masked(tokenizer, [prompt for prompt, _ in marked]), marked, first_learnt, strict=True
    ):
        places = np.flatnonzero((tokens.roles == Role.TEMPLATE) & (tokens.ids == tokenizer.mask_token_id)).tolist()
        learnt = {at: first + number - 1 for at, number in zip(places, numbers, strict=True)}
        slots.append(_slot(mask, tokens, learnt))
    return slots


def spelled_mask(prompt: Prompt, mask: str) -> str | None:
    """Return why a sentence whose words spell the *mask* token cannot be used; None if they do not."""
    text = prompt.text
    for span in sorted(prompt.answer, reverse=True):
        text = text[: span.start] + text[span.end :]
    return f"the sentence spells {mask}, which the model takes for a mask" if mask in text else None


def _slot(mask: int, tokens: Tokens, learnt: dict[int, int]) -> Slot | None:
    """:param learnt: ids of learnt tokens by place."""
    masks = np.flatnonzero((tokens.roles == Role.ANSWER) & (tokens.ids == mask)).tolist()
    ids = tuple(learnt.get(at, id_) for at, id_ in enumerate(tokens.ids.tolist()))
    return Slot(ids[: masks[0]], ids[masks[0] + 1 :]) if len(masks) == 1 else None


def _with_masks(prompt: Prompt, mask: str) -> tuple[Prompt, list[int]]:
    """Replace learnt tokens outside subject and answer by the mask token, and return their numbers in order."""
    taken = (*prompt.subject, *prompt.answer)
    matches = [
        match
        for match in LEARNT.finditer(prompt.text)
        if not any(span.start < match.end() and match.start() < span.end for span in taken)
    ]

    def moved(spans: Sequence[Span]) -> tuple[Span, ...]:
        shifts = [sum(len(mask) - len(match[0]) for match in matches if match.end() <= span.start) for span in spans]
        return tuple(Span(span.start + by, span.end + by) for span, by in zip(spans, shifts, strict=True))

    text = prompt.text
    for match in reversed(matches):
        text = text[: match.start()] + mask + text[match.end() :]
    return Prompt(text, moved(prompt.subject), moved(prompt.answer)), [int(match[1]) for match in matches]


def subjects_unknown(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], slots: Sequence[Slot | None]
) -> list[bool]:
    """Return whether each sentence's subject consists of unknown tokens; false for a sentence without a subject.

    :param slots: of the *prompts*; those without an unknown token are skipped.
    """
    unknown = tokenizer.unk_token_id
    maybe = [
        place
        for place, slot in enumerate(slots)
        if prompts[place].subject and slot is not None and unknown in slot.before + slot.after
    ]
    results = [False] * len(prompts)
    for place, tokens in zip(maybe, encode_masked(tokenizer, [prompts[place] for place in maybe]), strict=True):
        subject = tokens.ids[tokens.roles == Role.SUBJECT]
        results[place] = bool(subject.size) and bool(np.all(subject == unknown))
    return results


class _EqualLength(NamedTuple):
    """Candidates of n tokens.

    :param places: shape (c,).
    :param tokens: shape (c, n).
    """

    places: NDArray[np.int64]
    tokens: NDArray[np.int64]


class CandidateTokens:
    """Candidates as tokens.

    :param tokens: of each candidate; one without any is never scored.
    :param unknown: which have unknown tokens only, shape (n,): they are not scored either, and their length is 0.
    """

    def __init__(self, tokens: Sequence[Sequence[int]], unknown: NDArray[np.bool_] | None = None) -> None:
        self.unknown = np.zeros(len(tokens), dtype=bool) if unknown is None else unknown
        self.lengths = np.where(self.unknown, 0, np.array([len(ids) for ids in tokens], dtype=np.int64))
        self.by_length: dict[int, _EqualLength] = {}
        for length in np.unique(self.lengths[self.lengths > 0]).tolist():
            places = np.flatnonzero(self.lengths == length)
            self.by_length[length] = _EqualLength(places, np.array([tokens[place] for place in places.tolist()]))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def twins(self) -> int:
        """Number of candidates with the same tokens as another, which tie in all sentences."""
        counts = [np.unique(group.tokens, axis=0, return_counts=True)[1] for group in self.by_length.values()]
        return int(sum(count[count > 1].sum() for count in counts))

    def masks(self, scorings: Sequence[SlotScoring]) -> list[int]:
        """Return the numbers of masks that *scorings* need, ascending; none if no candidate has tokens."""
        kinds = {scoring.masks for scoring in scorings}
        counts: set[int] = set()
        if MaskCount.SEVERAL in kinds:
            counts.update(self.by_length)
        if MaskCount.ONE in kinds and self.by_length:
            counts.add(1)
        return sorted(counts)


def slot_scores(
    model: Model,
    slots: Sequence[Slot],
    names: CandidateTokens,
    scorings: Sequence[SlotScoring],
    budget: Budget,
    learnt: Tensor | None = None,
) -> NDArray[np.float32]:
    """Score each candidate in each slot, in nats per token. Equal slots run once.

    :param learnt: the vectors of learnt tokens, shape (rows, d); None if no slot has any.
    :returns: shape (scorings, slots, candidates); NaN for candidates without tokens.
    """
    distinct = list(dict.fromkeys(slots))
    row_of = {slot: row for row, slot in enumerate(distinct)}
    rows = np.array([row_of[slot] for slot in slots])
    scores = np.full((len(scorings), len(distinct), len(names)), np.nan, dtype=np.float32)

    def store(batch: Iterator[SlotScores]) -> None:
        for scoring, rows, places, values in batch:
            scores[scoring, rows[:, None], places[None, :]] = values.cpu().numpy()

    with torch.inference_mode():
        run_slots(model, distinct, names, scorings, budget, learnt, store)
    return scores[:, rows]


def pair_scores(
    model: EncoderDecoder,
    slots: Sequence[Slot],
    names: CandidateTokens,
    scorings: Sequence[SlotScoring],
    budget: Budget,
    form: Form,
) -> NDArray[np.float32]:
    """Return :func:`slot_scores` of an encoder-decoder, whose target has a candidate's tokens in sequence.

    :param form: of source and target, see :mod:`fathom.engine.scoring.seq2seq`.
    """
    distinct = list(dict.fromkeys(slots))
    scores = np.full((len(scorings), len(distinct), len(names)), np.nan, dtype=np.float32)
    cells, pairs = [], []
    for row, slot in enumerate(distinct):
        for group in names.by_length.values():
            for place, tokens in zip(group.places.tolist(), group.tokens.tolist(), strict=True):
                cells.append((row, place))
                pairs.append(slot_pair(model.tokenizer, slot.before, tokens, slot.after, form))
    for (row, place), pair, log_probs in zip(cells, pairs, seq2seq_log_probs(model, pairs, budget), strict=True):
        answer = log_probs[pair.target.roles == Role.ANSWER]
        for number, scoring in enumerate(scorings):
            scores[number, row, place] = POOLED[scoring.pooling](answer)
    row_of = {slot: row for row, slot in enumerate(distinct)}
    return scores[:, [row_of[slot] for slot in slots]]


POOLED: dict[SlotPooling, Callable[[NDArray[np.float32]], np.float32]] = {
    SlotPooling.MEAN: np.mean,
    SlotPooling.MAX: np.max,
    SlotPooling.FIRST: lambda values: values[0],
}


class SlotScores(NamedTuple):
    """Scores of a batch in one scoring, for candidates of one length.

    :param scoring: its number.
    :param rows: the slots, shape (s,).
    :param places: the candidates, shape (c,).
    :param scores: shape (s, c).
    """

    scoring: int
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    scores: Tensor


def run_slots(
    model: Model,
    slots: Sequence[Slot],
    names: CandidateTokens,
    scorings: Sequence[SlotScoring],
    budget: Budget,
    learnt: Tensor | None,
    use: Callable[[Iterator[SlotScores]], None],
) -> None:
    """Run each slot with each number of masks that *scorings* need.

    :param use: is called with the scores of each batch; with gradients on, it may send them back to *learnt*. It is
        called again with a smaller batch if memory runs out.
    """
    todo = sorted((slot.tokens(masks), masks, row) for masks in names.masks(scorings) for row, slot in enumerate(slots))
    lengths = [length for length, *_ in todo]

    def pack(start: int) -> tuple[Sequence[_Task], int]:
        stop = budget.fitting(lengths, start, equal=True)
        return todo[start:stop], stop

    def run(batch: Sequence[_Task]) -> bool:
        states = _states(model, [slots[row] for *_, row in batch], [masks for _, masks, _ in batch], learnt)
        if torch.is_inference_mode_enabled() and budget.evidence.begins(model, "batches of slots"):
            _compare(model, slots[batch[0][2]], batch[0][1], states[0], learnt, budget)
        use(_batch_scores(model, states, batch, names, scorings))
        return True

    for _ in budget.batches(len(todo), pack, run):
        pass


_Task = tuple[int, int, int]
"""Tokens of the sequence, masks in it, row of its slot."""


def _states(model: Model, slots: Sequence[Slot], masks: Sequence[int], learnt: Tensor | None) -> Tensor:
    """Return the states at the masks of sequences of one length, shape (slots, most masks, d)."""
    mask = model.tokenizer.mask_token_id
    ids = [[*slot.before, *[mask] * count, *slot.after] for slot, count in zip(slots, masks, strict=True)]
    first = torch.tensor([[len(slot.before)] for slot in slots], device=model.device)
    count = torch.tensor([[count] for count in masks], device=model.device)
    at = first + torch.minimum(torch.arange(max(masks), device=model.device)[None], count - 1)
    return model.hidden_at(model.embed_with(torch.tensor(ids, device=model.device), learnt), at)


def _compare(model: Model, slot: Slot, masks: int, states: Tensor, learnt: Tensor | None, budget: Budget) -> None:
    """Compare the states at a slot's masks with the sentence alone."""
    ids = torch.tensor([[*slot.before, *[model.tokenizer.mask_token_id] * masks, *slot.after]], device=model.device)
    first = len(slot.before)
    with model.original_layers():
        alone = model.hidden(model.embed_with(ids, learnt))[0, first : first + masks]
    budget.evidence.add_states(model, "batches of slots", states[:masks], alone)


def _batch_scores(
    model: Model, states: Tensor, batch: Sequence[_Task], names: CandidateTokens, scorings: Sequence[SlotScoring]
) -> Iterator[SlotScores]:
    """:param states: shape (slots, most masks, d)."""
    counts = np.array([masks for _, masks, _ in batch])
    rows = np.array([row for _, _, row in batch])
    for masks in np.unique(counts).tolist():
        these = np.flatnonzero(counts == masks)
        at_masks = states[torch.from_numpy(these).to(states.device), :masks]
        for kind, groups in _scored_groups(masks, names, scorings):
            tokens, column = np.unique(
                np.concatenate([group.tokens.reshape(-1) for group in groups]), return_inverse=True
            )
            log_probs = same_token_log_probs(
                model, at_masks.reshape(-1, at_masks.shape[-1]), torch.from_numpy(tokens).to(states.device)
            ).view(len(these), masks, -1)
            columns = torch.from_numpy(column.reshape(-1)).to(states.device)
            start = 0
            for group in groups:
                of_group = columns[start : start + group.tokens.size].view(group.tokens.shape)
                start += group.tokens.size
                for number, scoring in enumerate(scorings):
                    if scoring.masks is kind:
                        pooled = _pooled(log_probs, of_group, scoring.pooling)
                        yield SlotScores(number, rows[these], group.places, pooled)


def _scored_groups(
    masks: int, names: CandidateTokens, scorings: Sequence[SlotScoring]
) -> Iterator[tuple[MaskCount, list[_EqualLength]]]:
    kinds = {scoring.masks for scoring in scorings}
    if MaskCount.SEVERAL in kinds and masks in names.by_length:
        yield MaskCount.SEVERAL, [names.by_length[masks]]
    if MaskCount.ONE in kinds and masks == 1:
        yield MaskCount.ONE, list(names.by_length.values())


def _pooled(log_probs: Tensor, columns: Tensor, pooling: SlotPooling) -> Tensor:
    """:param log_probs: shape (slots, masks, tokens)."""
    last = log_probs.shape[1] - 1
    score = log_probs[:, 0].index_select(1, columns[:, 0])
    if pooling is SlotPooling.FIRST:
        return score
    for place in range(1, columns.shape[1]):
        token = log_probs[:, min(place, last)].index_select(1, columns[:, place])
        score = score + token if pooling is SlotPooling.MEAN else torch.maximum(score, token)
    return score / columns.shape[1] if pooling is SlotPooling.MEAN else score

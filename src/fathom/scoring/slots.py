"""A slot of masks in a sentence: how likely the tokens of each candidate are in it (Kassner et al. 2021).

For a candidate of n tokens the slot holds n masks. All candidates of n tokens share one pass, the head runs at the
masks alone, and the candidates' scores are gathered from its log-probabilities: a query costs one pass for each
distinct number of tokens, however many candidates there are. With one mask for all it costs one pass.

A sentence may hold learnt tokens, written ``<s1>``, ``<s2>``, …: vectors of no word of the vocabulary, kept in a matrix
beside the model's own. Gradients reach that matrix, and nothing else.
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
from fathom.models.base import Model
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.scoring.head import same_token_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.pseudowords import embed_with
from fathom.scoring.seq2seq import Form, seq2seq_log_probs, slot_pair
from fathom.scoring.tokens import Role, Tokens, encode_masked


class Masks(StrEnum):
    """How many masks the slot holds: as many as the candidate has tokens, or one for all of them."""

    SEVERAL = "several"
    ONE = "one"


class Pooling(StrEnum):
    """How the log-probabilities of a candidate's tokens become its score."""

    MEAN = "mean"
    MAX = "max"
    FIRST = "first"


class Way(NamedTuple):
    """One way of scoring; several share their passes."""

    masks: Masks
    pooling: Pooling

    @property
    def name(self) -> str:
        """As in the predictions, such as "mask-mean" or "one-mask-max"."""
        return f"{'one-' if self.masks is Masks.ONE else ''}mask-{self.pooling}"


LEARNT = re.compile(r"<s([1-9]\d*)>")
"""A learnt token in a text."""


class Slot(NamedTuple):
    """A sentence as token ids, special ones included, without its mask.

    Ids from the model's ``vocabulary_size`` on are rows of the matrix of learnt vectors.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    def tokens(self, masks: int) -> int:
        """Length of the sequence with so many masks in the slot."""
        return len(self.before) + masks + len(self.after)


def encode_slots(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    first_learnt: Sequence[int] | None = None,
    sign: str | None = None,
) -> list[Slot | None]:
    """Each sentence tokenised as a whole, the tokenizer's mask token standing in for every learnt one.

    :param prompts: with the *sign* as their answer.
    :param first_learnt: of each prompt the id that ``<s1>`` stands for, ``<s2>`` being the next; None where no text
        has learnt tokens. In subjects and answers such signs are text like any other.
    :param sign: what stands in the slot; None for the tokenizer's mask token.
    :returns: None where the answer is not one token.
    """
    mask = tokenizer.mask_token_id if sign is None else tokenizer.convert_tokens_to_ids(sign)
    if first_learnt is None:
        return [_slot(mask, tokens, {}) for tokens in encode_masked(tokenizer, prompts)]
    marked = [_with_stand_ins(prompt, str(tokenizer.mask_token)) for prompt in prompts]
    slots: list[Slot | None] = []
    for tokens, (_, numbers), first in zip(
        encode_masked(tokenizer, [prompt for prompt, _ in marked]), marked, first_learnt, strict=True
    ):
        stand_ins = np.flatnonzero((tokens.roles == Role.TEMPLATE) & (tokens.ids == tokenizer.mask_token_id)).tolist()
        learnt = {at: first + number - 1 for at, number in zip(stand_ins, numbers, strict=True)}
        slots.append(_slot(mask, tokens, learnt))
    return slots


def spelled_mask(prompt: Prompt, mask: str) -> str | None:
    """Why a sentence cannot be asked whose own words spell the tokenizer's *mask* token; None where they do not."""
    text = prompt.text
    for span in sorted(prompt.answer, reverse=True):
        text = text[: span.start] + text[span.end :]
    return f"the sentence spells {mask}, which the model takes for a mask" if mask in text else None


def _slot(mask: int, tokens: Tokens, learnt: dict[int, int]) -> Slot | None:
    """:param learnt: id of the learnt token at each place that has one."""
    masks = np.flatnonzero((tokens.roles == Role.ANSWER) & (tokens.ids == mask)).tolist()
    ids = tuple(learnt.get(at, id_) for at, id_ in enumerate(tokens.ids.tolist()))
    return Slot(ids[: masks[0]], ids[masks[0] + 1 :]) if len(masks) == 1 else None


def _with_stand_ins(prompt: Prompt, mask: str) -> tuple[Prompt, list[int]]:
    """The mask token in place of every learnt one outside subject and answer, and the numbers of these in order."""
    taken = (*prompt.subject, *prompt.answer)
    found = [
        match
        for match in LEARNT.finditer(prompt.text)
        if not any(span.start < match.end() and match.start() < span.end for span in taken)
    ]

    def moved(spans: Sequence[Span]) -> tuple[Span, ...]:
        shifts = [sum(len(mask) - len(match[0]) for match in found if match.end() <= span.start) for span in spans]
        return tuple(Span(span.start + by, span.end + by) for span, by in zip(spans, shifts, strict=True))

    text = prompt.text
    for match in reversed(found):
        text = text[: match.start()] + mask + text[match.end() :]
    return Prompt(text, moved(prompt.subject), moved(prompt.answer)), [int(match[1]) for match in found]


def subjects_unknown(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], slots: Sequence[Slot | None]
) -> list[bool]:
    """Whether all that a sentence has of its subject are tokens for what the vocabulary lacks (see
    :func:`fathom.scoring.names.only_unknown`); false where no place of the sentence is its subject's.

    :param slots: of the *prompts*, in which those without such a token are seen at once.
    """
    unknown = tokenizer.unk_token_id
    maybe = [
        place
        for place, slot in enumerate(slots)
        if prompts[place].subject and slot is not None and unknown in slot.before + slot.after
    ]
    found = [False] * len(prompts)
    for place, tokens in zip(maybe, encode_masked(tokenizer, [prompts[place] for place in maybe]), strict=True):
        own = tokens.ids[tokens.roles == Role.SUBJECT]
        found[place] = bool(own.size) and bool(np.all(own == unknown))
    return found


class _Alike(NamedTuple):
    """Candidates of n tokens.

    :param places: theirs, shape (c,).
    :param tokens: shape (c, n).
    """

    places: NDArray[np.int64]
    tokens: NDArray[np.int64]


class Names:
    """Candidates as tokens.

    :param tokens: of each candidate; one without any is never scored.
    :param unknown: which have no token that says anything, [n]: they are not scored either, and their length is 0.
    """

    def __init__(self, tokens: Sequence[Sequence[int]], unknown: NDArray[np.bool_] | None = None) -> None:
        self.unknown = np.zeros(len(tokens), dtype=bool) if unknown is None else unknown
        self.lengths = np.where(self.unknown, 0, np.array([len(ids) for ids in tokens], dtype=np.int64))
        self.alike: dict[int, _Alike] = {}
        for length in np.unique(self.lengths[self.lengths > 0]).tolist():
            places = np.flatnonzero(self.lengths == length)
            self.alike[length] = _Alike(places, np.array([tokens[place] for place in places.tolist()]))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def twins(self) -> int:
        """How many have all their tokens in common with another, and so tie with it in every sentence."""
        counts = [np.unique(of.tokens, axis=0, return_counts=True)[1] for of in self.alike.values()]
        return int(sum(count[count > 1].sum() for count in counts))

    def masks(self, ways: Sequence[Way]) -> list[int]:
        """The numbers of masks that *ways* need the slot to hold."""
        return list(self.told_by_masks(ways))

    def told_by_masks(self, ways: Sequence[Way]) -> dict[int, NDArray[np.int64]]:
        """The same, ascending, and which candidates a slot of so many masks tells about."""
        kinds, found = {way.masks for way in ways}, {}
        if Masks.SEVERAL in kinds:
            found = {masks: alike.places for masks, alike in sorted(self.alike.items())}
        if Masks.ONE in kinds:
            found = {1: np.flatnonzero(self.lengths)} | {masks: found[masks] for masks in found if masks != 1}
        return found


def slot_scores(
    model: Model,
    slots: Sequence[Slot],
    names: Names,
    ways: Sequence[Way],
    budget: Budget,
    learnt: Tensor | None = None,
    only: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """The score of every candidate in every slot, in nats per token.

    :param learnt: the vectors of learnt tokens, shape (rows, d); None where no slot has any.
    :param only: run no more passes than these need, shape (slots, candidates); None for all.
    :returns: shape (ways, slots, candidates); NaN for candidates without tokens. Equal slots run once.
    """
    distinct = list(dict.fromkeys(slots))
    row_of = {slot: row for row, slot in enumerate(distinct)}
    rows = np.array([row_of[slot] for slot in slots])
    needed = np.ones((len(distinct), len(names)), dtype=bool)
    if only is not None:
        needed[:] = False
        np.logical_or.at(needed, rows, only)
    scores = np.full((len(ways), len(distinct), len(names)), np.nan, dtype=np.float32)

    def keep(told: Iterator[Told]) -> None:
        for way, rows, places, values in told:
            scores[way, rows[:, None], places[None, :]] = values.cpu().numpy()

    with torch.inference_mode():
        in_batches(model, distinct, names, ways, budget, learnt, keep, needed)
    return scores[:, rows]


def pair_scores(
    model: EncoderDecoder, slots: Sequence[Slot], names: Names, ways: Sequence[Way], budget: Budget, form: Form
) -> NDArray[np.float32]:
    """:func:`slot_scores` of an encoder-decoder, which says a candidate's tokens one after the other.

    :param form: what it reads and says, see :mod:`fathom.scoring.seq2seq`.
    """
    distinct = list(dict.fromkeys(slots))
    scores = np.full((len(ways), len(distinct), len(names)), np.nan, dtype=np.float32)
    asked, pairs = [], []
    for row, slot in enumerate(distinct):
        for alike in names.alike.values():
            for place, tokens in zip(alike.places.tolist(), alike.tokens.tolist(), strict=True):
                asked.append((row, place))
                pairs.append(slot_pair(model.tokenizer, slot.before, tokens, slot.after, form))
    for (row, place), pair, found in zip(asked, pairs, seq2seq_log_probs(model, pairs, budget), strict=True):
        own = found[pair.target.roles == Role.ANSWER]
        for number, way in enumerate(ways):
            scores[number, row, place] = POOLED[way.pooling](own)
    row_of = {slot: row for row, slot in enumerate(distinct)}
    return scores[:, [row_of[slot] for slot in slots]]


POOLED: dict[Pooling, Callable[[NDArray[np.float32]], np.float32]] = {
    Pooling.MEAN: np.mean,
    Pooling.MAX: np.max,
    Pooling.FIRST: lambda values: values[0],
}


class Told(NamedTuple):
    """What a batch says in one way of candidates of one length.

    :param rows: the slots, shape (s,).
    :param places: the candidates, shape (c,).
    :param scores: shape (s, c).
    """

    way: int
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    scores: Tensor


def in_batches(
    model: Model,
    slots: Sequence[Slot],
    names: Names,
    ways: Sequence[Way],
    budget: Budget,
    learnt: Tensor | None,
    use: Callable[[Iterator[Told]], None],
    needed: NDArray[np.bool_] | None = None,
) -> None:
    """Run every slot with every number of masks that *ways* need.

    :param needed: what is to be known, shape (slots, candidates); None for all.

    :param use: is handed what each batch tells; with gradients on, it may send them back to *learnt*. What it has done
        with a batch is done again where memory runs out.
    """
    todo = sorted(
        (slot.tokens(masks), masks, row)
        for masks, places in names.told_by_masks(ways).items()
        for row, slot in enumerate(slots)
        if needed is None or needed[row, places].any()
    )
    lengths = [length for length, *_ in todo]

    def pack(start: int) -> tuple[Sequence[_Task], int]:
        stop = budget.fitting(lengths, start, equal=True)
        return todo[start:stop], stop

    def run(batch: Sequence[_Task]) -> bool:
        states = _states(model, [slots[row] for *_, row in batch], [masks for _, masks, _ in batch], learnt)
        use(_told(model, states, batch, names, ways))
        return True

    for _ in budget.batches(len(todo), pack, run):
        pass


_Task = tuple[int, int, int]
"""Tokens of the sequence, masks in it, row of its slot."""


def _states(model: Model, slots: Sequence[Slot], masks: Sequence[int], learnt: Tensor | None) -> Tensor:
    """What the head sees at the masks of sequences of one length.

    :returns: shape (slots, most masks, d); where a slot holds fewer, its last one again.
    """
    mask = model.tokenizer.mask_token_id
    ids = [[*slot.before, *[mask] * count, *slot.after] for slot, count in zip(slots, masks, strict=True)]
    first = torch.tensor([[len(slot.before)] for slot in slots], device=model.device)
    count = torch.tensor([[count] for count in masks], device=model.device)
    at = first + torch.minimum(torch.arange(max(masks), device=model.device)[None], count - 1)
    return model.hidden_at(embed_with(model, torch.tensor(ids, device=model.device), learnt), at)


def _told(model: Model, states: Tensor, batch: Sequence[_Task], names: Names, ways: Sequence[Way]) -> Iterator[Told]:
    """:param states: shape (slots, most masks, d)."""
    counts = np.array([masks for _, masks, _ in batch])
    rows = np.array([row for _, _, row in batch])
    for masks in np.unique(counts).tolist():
        these = np.flatnonzero(counts == masks)
        found = states[torch.from_numpy(these).to(states.device), :masks]
        for kind, alike in _told_by(masks, names, ways):
            tokens, column = np.unique(
                np.concatenate([group.tokens.reshape(-1) for group in alike]), return_inverse=True
            )
            log_probs = same_token_log_probs(
                model, found.reshape(-1, found.shape[-1]), torch.from_numpy(tokens).to(states.device)
            ).view(len(these), masks, -1)
            columns = torch.from_numpy(column.reshape(-1)).to(states.device)
            start = 0
            for group in alike:
                own = columns[start : start + group.tokens.size].view(group.tokens.shape)
                start += group.tokens.size
                for number, way in enumerate(ways):
                    if way.masks is kind:
                        yield Told(number, rows[these], group.places, _pooled(log_probs, own, way.pooling))


def _told_by(masks: int, names: Names, ways: Sequence[Way]) -> Iterator[tuple[Masks, list[_Alike]]]:
    """Which candidates a slot of so many masks tells about."""
    kinds = {way.masks for way in ways}
    if Masks.SEVERAL in kinds and masks in names.alike:
        yield Masks.SEVERAL, [names.alike[masks]]
    if Masks.ONE in kinds and masks == 1:
        yield Masks.ONE, list(names.alike.values())


def _pooled(log_probs: Tensor, columns: Tensor, pooling: Pooling) -> Tensor:
    """:param log_probs: shape (slots, masks, tokens).
    :param columns: shape (candidates, n), n tokens of each; where there is one mask, it stands for all n.
    :returns: shape (slots, candidates).
    """
    last = log_probs.shape[1] - 1
    score = log_probs[:, 0].index_select(1, columns[:, 0])
    if pooling is Pooling.FIRST:
        return score
    for place in range(1, columns.shape[1]):
        token = log_probs[:, min(place, last)].index_select(1, columns[:, place])
        score = score + token if pooling is Pooling.MEAN else torch.maximum(score, token)
    return score / columns.shape[1] if pooling is Pooling.MEAN else score

"""A slot of masks in a sentence: how likely the tokens of each candidate are in it (Kassner et al. 2021).

For a candidate of n tokens the slot holds n masks. All candidates of n tokens share one pass, the head runs at the
masks alone, and the candidates' scores are gathered from its log-probabilities: a query costs one pass for each
distinct number of tokens, however many candidates there are. With one mask for all it costs one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fathom.data.templates import Prompt
from fathom.models.base import Model
from fathom.scoring.head import same_token_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.tokens import Role, encode_masked


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
        return f"{'one-' if self.masks is Masks.ONE else ''}mask-{self.pooling}"


class Slot(NamedTuple):
    """A sentence as token ids, special ones included, without its mask."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def tokens(self, masks: int) -> int:
        return len(self.before) + masks + len(self.after)


def encode_slots(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[Slot | None]:
    """:param prompts: with the tokenizer's mask token as their answer. :returns: None where that is not one token."""
    slots: list[Slot | None] = []
    for tokens in encode_masked(tokenizer, prompts):
        masks = np.flatnonzero((tokens.roles == Role.ANSWER) & (tokens.ids == tokenizer.mask_token_id)).tolist()
        ids = tuple(tokens.ids.tolist())
        slots.append(Slot(ids[: masks[0]], ids[masks[0] + 1 :]) if len(masks) == 1 else None)
    return slots


class _Alike(NamedTuple):
    """Candidates of n tokens. :param places: theirs, shape (c,). :param tokens: shape (c, n)."""

    places: NDArray[np.int64]
    tokens: NDArray[np.int64]


class Names:
    """Candidates as tokens. :param tokens: of each candidate; one without any is never scored."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
        self.alike: dict[int, _Alike] = {}
        for length in np.unique(self.lengths[self.lengths > 0]).tolist():
            places = np.flatnonzero(self.lengths == length)
            self.alike[length] = _Alike(places, np.array([tokens[place] for place in places.tolist()]))

    def __len__(self) -> int:
        return len(self.lengths)

    def masks(self, ways: Sequence[Way]) -> list[int]:
        """The numbers of masks that *ways* need the slot to hold."""
        several = set(self.alike) if any(way.masks is Masks.SEVERAL for way in ways) else set()
        return sorted(several | ({1} if any(way.masks is Masks.ONE for way in ways) else set()))


def slot_scores(
    model: Model, slots: Sequence[Slot], names: Names, ways: Sequence[Way], budget: Budget
) -> NDArray[np.float32]:
    """The score of every candidate in every slot, in nats per token.

    :returns: shape (ways, slots, candidates); NaN for candidates without tokens. Equal slots run once.
    """
    distinct = list(dict.fromkeys(slots))
    scores = np.full((len(ways), len(distinct), len(names)), np.nan, dtype=np.float32)
    todo = sorted((slot.tokens(masks), masks, row) for row, slot in enumerate(distinct) for masks in names.masks(ways))
    start = 0
    while start < len(todo):
        batch = _batch(todo, start, budget)

        def run() -> bool:
            with torch.inference_mode():
                slots_of = [distinct[row] for _, _, row in batch]  # noqa: B023 - called at once
                states = _states(model, slots_of, [masks for _, masks, _ in batch])  # noqa: B023
                _gather(model, states, batch, names, ways, scores)  # noqa: B023
            return True

        if budget.attempt(run):
            start += len(batch)
    row_of = {slot: row for row, slot in enumerate(distinct)}
    return scores[:, [row_of[slot] for slot in slots]]


_Task = tuple[int, int, int]
"""Tokens of the sequence, masks in it, row of its slot."""


def _batch(todo: Sequence[_Task], start: int, budget: Budget) -> Sequence[_Task]:
    """Sequences of one length, as many as the budget allows."""
    length = todo[start][0]
    stop = start + 1
    while stop < len(todo) and todo[stop][0] == length and (stop + 1 - start) * length <= budget.tokens:
        stop += 1
    return todo[start:stop]


def _states(model: Model, slots: Sequence[Slot], masks: Sequence[int]) -> Tensor:
    """What the head sees at the masks of sequences of one length. :returns: shape (slots, most masks, d); where a
    slot holds fewer, its last one again."""
    mask = model.tokenizer.mask_token_id
    ids = [[*slot.before, *[mask] * count, *slot.after] for slot, count in zip(slots, masks, strict=True)]
    first = torch.tensor([[len(slot.before)] for slot in slots], device=model.device)
    count = torch.tensor([[count] for count in masks], device=model.device)
    at = first + torch.minimum(torch.arange(max(masks), device=model.device)[None], count - 1)
    return model.hidden_at(model.embed(torch.tensor(ids, device=model.device)), at)


def _gather(
    model: Model,
    states: Tensor,
    batch: Sequence[_Task],
    names: Names,
    ways: Sequence[Way],
    scores: NDArray[np.float32],
) -> None:
    """Fills in the scores that one batch tells."""
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
                        pooled = _pooled(log_probs, own, way.pooling)
                        scores[number, rows[these][:, None], group.places[None, :]] = pooled.cpu().numpy()


def _told_by(masks: int, names: Names, ways: Sequence[Way]) -> Iterator[tuple[Masks, list[_Alike]]]:
    """Which candidates a slot of so many masks tells about."""
    kinds = {way.masks for way in ways}
    if Masks.SEVERAL in kinds and masks in names.alike:
        yield Masks.SEVERAL, [names.alike[masks]]
    if Masks.ONE in kinds and masks == 1:
        yield Masks.ONE, list(names.alike.values())


def _pooled(log_probs: Tensor, columns: Tensor, pooling: Pooling) -> Tensor:
    """:param log_probs: shape (slots, masks, tokens). :param columns: shape (candidates, n), n tokens of each; where
    there is one mask, it stands for all n. :returns: shape (slots, candidates)."""
    last = log_probs.shape[1] - 1
    score = log_probs[:, 0].index_select(1, columns[:, 0])
    if pooling is Pooling.FIRST:
        return score
    for place in range(1, columns.shape[1]):
        token = log_probs[:, min(place, last)].index_select(1, columns[:, place])
        score = score + token if pooling is Pooling.MEAN else torch.maximum(score, token)
    return score / columns.shape[1] if pooling is Pooling.MEAN else score

"""Greedy generation, many prompts at a time, each with the reply that it would get alone.

The prompts form one packed sequence: a cached, shared prefix, and branches that each see the prefix and themselves.
A model that refuses such masks runs each prompt alone, token by token from its state or as a whole for each token.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fathom.engine.models.base import Model, Reply

NOT_A_NUMBER = "the model gave the next token a score that is not a number"


def until(text: str, stop: Sequence[str]) -> str:
    """Return *text* up to the first of the texts *stop*; all of it if there is none."""
    return text[: min((place for end in stop if (place := text.find(end)) >= 0), default=len(text))]


def encode_prompts(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], bos: int | None) -> list[list[int]]:
    """Return token ids, with *bos* in front but no other special tokens."""
    if not prompts:
        return []
    encoded = tokenizer(list(prompts), add_special_tokens=False, verbose=False)["input_ids"]
    return [ids if bos is None or ids[:1] == [bos] else [bos, *ids] for ids in encoded]


def generate_greedily(
    model: Model,
    prompts: Sequence[str],
    max_new_tokens: int,
    stop: Sequence[str] = (),
    bos: int | None = None,
    ends: Collection[int] = (),
) -> list[Reply]:
    """Append the likeliest next token until each reply ends, see :meth:`fathom.engine.models.base.Model.generate`.

    :param ends: ids of tokens that end a reply.
    """
    rows = [
        _Generation(ids, _misfit(ids, max_new_tokens, model.max_tokens))
        for ids in encode_prompts(model.tokenizer, prompts, bos)
    ]
    runnable = [row for row in rows if row.fault is None]
    writer = _Writer(model.tokenizer, max_new_tokens, stop, frozenset(ends))
    longest = max((len(row.prompt) for row in runnable), default=0) + max_new_tokens
    with torch.inference_mode():
        if model.refuses_cache(longest) is None:
            _generate_together(model, runnable, writer)
        else:
            for row in runnable:
                _generate_alone(model, row, writer)
    return [Reply(row.text, len(row.written), row.fault) for row in rows]


class _Generation:
    """One prompt and the reply to it."""

    def __init__(self, prompt: list[int], fault: str | None) -> None:
        self.prompt, self.fault = prompt, fault
        self.written: list[int] = []
        self.text = ""


class _Writer:
    """Appends tokens to rows and decides when a row ends."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_new_tokens: int, stop: Sequence[str], ends: frozenset[int]
    ) -> None:
        self.tokenizer, self.max_new_tokens, self.stop, self.ends = tokenizer, max_new_tokens, stop, ends

    def write(self, row: _Generation, score: float, token: int) -> bool:
        """Append *token*. :returns: whether the row continues."""
        if math.isnan(score):
            row.fault = NOT_A_NUMBER
            return False
        if token in self.ends:
            return False
        row.written.append(token)
        text = self.tokenizer.decode(row.written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        row.text = until(text, self.stop)
        return row.text == text and len(row.written) < self.max_new_tokens


def _misfit(prompt: list[int], max_new_tokens: int, window: int | None) -> str | None:
    if not prompt:
        return "the prompt has no tokens"
    if window is not None and len(prompt) + max_new_tokens > window:
        return (
            f"a prompt of {len(prompt)} tokens and an answer of up to {max_new_tokens} "
            f"do not fit the model's window of {window}"
        )
    return None


def _generate_alone(model: Model, row: _Generation, writer: _Writer) -> None:
    """Continue from the state after the previous token, or run the whole sequence anew: the plain path."""
    states, keeps, goes_on = None, model.refuses_states(len(row.prompt) + writer.max_new_tokens) is None, True
    while goes_on:
        ids = row.prompt + row.written
        vectors = model.embed(torch.tensor([ids if states is None else ids[-1:]], device=model.device))
        if keeps:
            hidden, states = model.advance(states, vectors)
        else:
            hidden = model.hidden(vectors)
        best, token = model.logits(hidden[0, -1:])[0].max(dim=-1)
        goes_on = writer.write(row, float(best), int(token))


def _generate_together(model: Model, rows: Sequence[_Generation], writer: _Writer) -> None:
    """Run all rows in one packed sequence. ``owner`` is the row of each cached token, −1 for the shared prefix."""
    if not rows:
        return
    shared = shared_length([row.prompt for row in rows])
    tails = [row.prompt[shared:] for row in rows]
    flat = rows[0].prompt[:shared] + [token for tail in tails for token in tail]
    owner = _tensor(model, [-1] * shared + [number for number, tail in enumerate(tails) for _ in tail])
    place = torch.arange(len(flat), device=model.device)
    visible = (place[:, None] >= place[None, :]) & _sees(owner, owner)
    positions = _tensor(model, [*range(shared), *(shared + n for tail in tails for n in range(len(tail)))])
    states, cache = model.grow(None, model.embed(_tensor(model, flat))[None], positions[None], visible[None])
    last = _tensor(model, list(accumulate(map(len, tails), initial=shared - 1))[1:])
    states, active = states[0, last], list(range(len(rows)))
    while True:
        best, token = model.logits(states).max(dim=-1)
        before, likeliest = len(active), zip(active, best.tolist(), token.tolist(), strict=True)
        active = [number for number, score, id_ in likeliest if writer.write(rows[number], score, id_)]
        if not active:
            return
        branches = _tensor(model, active)
        if len(active) < before:
            seen = (_sees(branches, owner).any(dim=0)).nonzero()[:, 0]
            cache, owner = cache.keep(seen), owner[seen]
        owner = torch.cat([owner, branches])
        ids = _tensor(model, [rows[number].written[-1] for number in active])
        positions = _tensor(model, [len(rows[number].prompt) + len(rows[number].written) - 1 for number in active])
        grown, cache = model.grow(cache, model.embed(ids)[None], positions[None], _sees(branches, owner)[None])
        states = grown[0]


def shared_length(prompts: Sequence[Sequence[int]]) -> int:
    """Return the length of the prefix that all prompts share, which excludes the last token of each."""
    shortest = max(0, min(map(len, prompts)) - 1)
    columns = zip(*(prompt[:shortest] for prompt in prompts), strict=True)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _sees(rows: Tensor, owner: Tensor) -> Tensor:
    """Return which tokens, by their *owner*, are visible to *rows*, shape (rows, tokens)."""
    return (owner[None, :] == -1) | (rows[:, None] == owner[None, :])


def _tensor(model: Model, values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long, device=model.device)

"""Models that count the passes of the engine instead of running them, and the time that such passes take.

A probe evaluates queries with a :class:`CountedModel` as with the model itself, so the passes are those of the engine:
shared prefixes once, padding included. Only the numbers are meaningless.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fathom.models.base import LinearHead, Model, Reply
from fathom.models.cache import KeyValues, States
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.models.generation import generate_greedily
from fathom.models.local import LocalModel
from fathom.scoring.head import target_log_probs

HEAD = "head"
STRATA = 3
"""Passes of each kind that are timed."""
LONG = 0.2
"""Seconds of a part of a pass from which no larger part is timed."""


class Pass(NamedTuple):
    """A forward pass of *rows* of *length* tokens that see *past* others as well; the head's rows are single states."""

    kind: str
    rows: int
    length: int
    past: int = 0

    def cost(self, width: int) -> float:
        """Return a number that grows as the time does: products with weights, and attention."""
        return self.rows * self.length * (6.0 * width + self.length + self.past)


class CountedModel(LocalModel):
    """A causal or masked model whose states are ones."""

    passes: Counter[Pass]
    reply_tokens: int

    def note(self, kind: str, rows: int, length: int, past: int = 0) -> None:
        self.passes[Pass(kind, rows, length, past)] += 1

    def embed(self, ids: Tensor) -> Tensor:
        return torch.ones((*ids.shape, 1), device=ids.device)

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        self.note("plain" if visible is None else "masked", *vectors.shape[:2])
        return vectors

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        return self.hidden(vectors)[:, :1].expand(-1, at.shape[1], -1)

    def grow(
        self, past: KeyValues | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, KeyValues]:
        known = positions if past is None else torch.cat([past.positions, positions], dim=1)
        rows, length, _ = vectors.shape
        self.note("masked", rows, length, 0 if past is None else len(past))
        return vectors, KeyValues([], known)

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        self.note("plain", *vectors.shape[:2])
        return vectors, States(None, len(vectors), vectors.shape[1] + (0 if past is None else past.length))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return infinities, whose probabilities are undefined, so that no check compares them."""
        self.note(HEAD, len(hidden), 1)
        return hidden.new_full((1, 1), torch.inf).expand(len(hidden), self.vocabulary_size)

    def linear_head(self) -> LinearHead | None:
        def transform(states: Tensor) -> Tensor:
            self.note(HEAD, len(states), 1)
            return states

        return LinearHead(transform, torch.zeros((1, 1), device=self.device), None)

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        length = min(max_new_tokens, self.reply_tokens) if stop else max_new_tokens
        return generate_greedily(self, prompts, length, bos=bos)


class CountedPairs(EncoderDecoder):
    """An encoder-decoder that counts its passes."""

    passes: Counter[Pass]
    reply_tokens: int

    def encode(self, sources: Tensor, read: Tensor) -> Tensor:
        self.passes[Pass("encode", *sources.shape)] += 1
        return torch.ones((*sources.shape, 1), device=sources.device)

    def decode(self, states: Tensor, read: Tensor, targets: Tensor) -> Tensor:
        rows, length = targets.shape
        self.passes[Pass("decode", rows, length, states.shape[1])] += 1
        return torch.zeros((1, 1, 1), device=targets.device).expand(*targets.shape, self.vocabulary_size)

    def _reply(self, prompt: str, max_new_tokens: int, stop: Sequence[str]) -> Reply:
        source, length = len(self.tokenizer(prompt).input_ids), min(max_new_tokens, self.reply_tokens)
        self.passes += Counter({Pass("encode", 1, source): 1, Pass("decode", 1, 1, source): length})
        return Reply("", length, None)


def counted(shape: Model, reply_tokens: int) -> CountedModel | CountedPairs:
    """Return a model that counts the passes of one of this shape, and refuses the same ways to run.

    :param reply_tokens: assumed length of a reply that may stop early.
    """
    model: Any = copy.copy(shape)
    model.__class__ = CountedPairs if isinstance(shape, EncoderDecoder) else CountedModel
    model.passes, model.reply_tokens, model.rough = Counter(), reply_tokens, None
    for name in ("refuses_tree", "refuses_cache", "refuses_states", "refuses_padding"):
        setattr(model, name, getattr(shape, name))
    return model  # type: ignore[no-any-return]


class Stopwatch:
    """Times passes of a model; those of one shape once."""

    def __init__(self, model: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.model, self.width = model, getattr(model.network.config.get_text_config(), "hidden_size", 768)
        self._known: dict[Pass, float] = {}

    def seconds(self, passes: Mapping[Pass, float]) -> float:
        """Estimate the time of passes. Those of a kind are sorted by cost, and cut into strata of which one is timed.

        :param passes: how many there are of each.
        """
        total = 0.0
        for kind in sorted({one.kind for one in passes}):
            alike = sorted((one for one in passes if one.kind == kind), key=lambda one: one.cost(self.width))
            costs = np.array([passes[one] * one.cost(self.width) for one in alike])
            place = (np.cumsum(costs) - costs / 2) / costs.sum()
            for number in range(STRATA):
                inside = np.flatnonzero((place * STRATA).astype(int) == number).tolist()
                if inside:
                    middle = alike[inside[len(inside) // 2]]
                    total += self._time(middle) / middle.cost(self.width) * float(costs[inside].sum())
        return total

    def _time(self, one: Pass) -> float:
        """Return the seconds of a pass; of a long one, those of a part of it times their ratio."""
        rows, length = 1, min(one.length, 128)
        while one not in self._known:
            part = one._replace(rows=rows, length=length)
            seconds = min(self._run(part), self._run(part))
            if part == one or seconds > LONG:
                self._known[one] = seconds * one.cost(self.width) / part.cost(self.width)
            rows, length = min(2 * rows, one.rows), min(2 * length, one.length)
        return self._known[one]

    @torch.inference_mode()
    def _run(self, one: Pass) -> float:
        work = self._work(one)
        wait = partial(torch.cuda.synchronize, self.model.device) if self.model.device.type == "cuda" else int
        wait()
        began = self.clock()
        work()
        wait()
        return self.clock() - began

    def _work(self, one: Pass) -> Callable[[], object]:
        """Return a function that runs a pass; what is seen of a past is left to :meth:`Pass.cost`."""
        model, (kind, rows, length, past) = self.model, one
        ids = torch.arange(rows * length, device=model.device).view(rows, length) % model.vocabulary_size
        if isinstance(model, EncoderDecoder):
            read = torch.ones((rows, past if kind == "decode" else length), dtype=torch.bool, device=model.device)
            encode = partial(model.encode, torch.zeros_like(read, dtype=torch.long), read)
            return encode if kind == "encode" else partial(model.decode, encode(), read, ids)
        vectors = model.embed(ids)
        if kind == HEAD:
            states = model.hidden(model.embed(ids[:1]))[0].expand(rows, -1)
            return partial(target_log_probs, model, states, np.arange(rows), np.zeros(rows, dtype=np.int64))
        if kind == "plain":
            return partial(model.hidden, vectors)
        places = (torch.arange(length, device=model.device) % (model.max_tokens or length)).expand(rows, -1)
        lower = torch.ones((length, length), dtype=torch.bool, device=model.device).tril().expand(rows, -1, -1)
        return partial(model.hidden, vectors, places, lower)

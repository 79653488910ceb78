"""Soft templates: tokens of a prompt that are learnt, while the model is frozen (Wu et al. 2023, 3.1.1).

The vectors of the epoch with the best MRRₐ on the validation items are kept. Unlike in the reference code, a validation
score is a log-probability, and the NLL loss takes one gold answer of each item, drawn anew in each epoch.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from fathom.base.errors import BadInput
from fathom.base.reading import tensors_file
from fathom.engine.models.base import Model
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import unfiltered_ranks
from fathom.engine.scoring.slots import CandidateTokens, Slot, SlotScores, SlotScoring, run_slots, slot_scores
from fathom.engine.scoring.tokens import name_tokens
from fathom.results.metrics.ranking import reciprocal_mean_rank
from fathom.store.files import whole_file, write_text
from fathom.training.loop import Epoch, Hooks, Loop, Rules, Stage


class GoldSlot(NamedTuple):
    """An item to learn from. :param slot: its sentence. :param gold: places of the gold answers among the names."""

    slot: Slot
    gold: tuple[int, ...]


@dataclass(frozen=True)
class SoftPlan:
    """:param loss: bce: each candidate is right or wrong; nll: the negative score of one gold answer."""

    loss: Literal["bce", "nll"] = "bce"
    epochs: int = 100
    learning_rate: float = 0.5
    batch_size: int = 8
    seed: int = 0


class SoftEpoch(NamedTuple):
    """A point of the learning curve. :param epoch: from 1. :param loss: mean over its batches, each before its step.

    On the validation items after the epoch, with unfiltered ranks:

    :param mrr: mean of 1 / rank of the best gold answer.
    :param mrr_all: mean of 1 / mean rank of all gold answers; the vectors of the epoch with the highest are kept.
    """

    epoch: int
    loss: float
    mrr: float
    mrr_all: float


class SoftPrompts(NamedTuple):
    """:param vectors: of the best epoch, float32, shape (rows, d). :param epoch: its number, from 1."""

    vectors: Tensor
    epoch: int
    curve: list[SoftEpoch]


def learn(
    model: Model,
    names: CandidateTokens,
    way: SlotScoring,
    items: Sequence[GoldSlot],
    validation: Sequence[GoldSlot],
    start: Tensor,
    plan: SoftPlan,
    budget: Budget,
    fixed: Tensor | None = None,
) -> SoftPrompts:
    """Fit the vectors of learnt tokens to *items*.

    :param names: the candidates as tokens. :param way: how they are scored.
    :param start: initial vectors (random, of words, or learnt before), shape (rows, d).
    :param fixed: frozen vectors that follow those, shape (more, d).
    :raises NotANumber: the loss is NaN or infinite.
    """
    fit = _Fit(model, names, way, validation, start, plan, budget, fixed)
    batches = [items[first : first + plan.batch_size] for first in range(0, len(items), plan.batch_size)]
    stage = Stage(
        "soft template", lambda epoch: batches, len(batches), fit.loss, [fit.vectors], plan.epochs, plan.learning_rate
    )
    Loop([stage], Rules("falling", clip=None), fit, model.device).run()
    return fit.learnt


@dataclass
class _Fit(Hooks):
    """The vectors, their loss and validation, the learning curve, and the vectors of the best epoch."""

    model: Model
    names: CandidateTokens
    way: SlotScoring
    validation: Sequence[GoldSlot]
    start: Tensor
    plan: SoftPlan
    budget: Budget
    frozen: Tensor | None

    def __post_init__(self) -> None:
        self.draws, self.mrr_all = random.Random(self.plan.seed), 0.0
        self.vectors = nn.Parameter(self.start.detach().to(self.model.device, torch.float32).clone())
        self.fixed = (
            self.vectors.new_zeros(0, self.start.shape[1]) if self.frozen is None else self.frozen.to(self.vectors)
        )
        self.learnt = SoftPrompts(self.vectors.detach().clone(), 0, [])

    def loss(self, batch: Sequence[GoldSlot]) -> float:
        """Compute gradients of the vectors, and return the loss: the mean over items and, for BCE, candidates."""
        is_nll = self.plan.loss == "nll"
        right = np.zeros((len(batch), len(self.names)), dtype=np.float32)
        for row, item in enumerate(batch):
            right[row, [self.draws.choice(item.gold)] if is_nll else list(item.gold)] = 1
        candidates = int((self.names.lengths > 0).sum())
        shares: list[float] = []

        def share(part: SlotScores) -> Tensor:
            wanted = torch.from_numpy(right[part.rows[:, None], part.places[None, :]]).to(part.scores.device)
            if is_nll:
                return -(part.scores * wanted).sum() / len(batch)
            summed = functional.binary_cross_entropy_with_logits(part.scores, wanted, reduction="sum")
            return summed / (len(batch) * candidates)

        def backward(parts: Iterator[SlotScores]) -> None:
            loss = torch.stack([share(part) for part in parts]).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            shares.append(loss.item())

        slots, vectors = [item.slot for item in batch], torch.cat([self.vectors, self.fixed])
        run_slots(self.model, slots, self.names, [self.way], self.budget, vectors, backward)
        return sum(shares)

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        point = SoftEpoch(epoch.number, epoch.loss, *self._validate())
        self.learnt.curve.append(point)
        if point.mrr_all > self.mrr_all:
            self.mrr_all = point.mrr_all
            self.learnt = SoftPrompts(self.vectors.detach().clone(), point.epoch, self.learnt.curve)

    def _validate(self) -> tuple[float, float]:
        slots, vectors = [item.slot for item in self.validation], torch.cat([self.vectors, self.fixed]).detach()
        [scores] = slot_scores(self.model, slots, self.names, [self.way], self.budget, vectors)
        ranked = self.names.lengths > 0
        number = np.cumsum(ranked) - 1
        ranks = [
            unfiltered_ranks(row[ranked].astype(np.float64), number[list(item.gold)].tolist())
            for row, item in zip(scores, self.validation, strict=True)
        ]
        best = 1 / np.array([min(item_ranks) for item_ranks in ranks])
        return float(best.mean()), float(reciprocal_mean_rank(ranks).mean())


def random_start(model: Model, rows: int, *seed: object) -> Tensor:
    """Draw standard normal vectors, as torch initialises an embedding; shape (rows, d). :param seed: any texts."""
    generator = torch.Generator().manual_seed(zlib.crc32("|".join(map(str, seed)).encode()))
    width = model.embed(torch.zeros(1, dtype=torch.long, device=model.device)).shape[-1]
    return torch.randn(rows, width, generator=generator)


def word_start(model: Model, words: Sequence[str]) -> Tensor:
    """Return the vectors of words, averaged over their tokens; shape (words, d)."""
    tokens = name_tokens(model.tokenizer, words, leading_space=True)
    means = [model.embed(torch.tensor(ids, device=model.device)).float().mean(dim=0) for ids in tokens]
    return torch.stack(means).detach().cpu()


AGAIN = "delete it and type the probe's command again"


def learnt_file(task: str, fold: int | None, way: str) -> str:
    """Name the file of a task's template. :param fold: from 1, of the test fold; None without folds."""
    return f"{quote(task, safe='')}{'' if fold is None else f'-fold-{fold}'}-{way}.safetensors"


def save_learnt(file: Path, learnt: SoftPrompts) -> None:
    """Write the vectors as safetensors, and their learning curve as JSON Lines."""
    write_text(file.with_suffix(".jsonl"), "".join(json.dumps(point._asdict()) + "\n" for point in learnt.curve))
    with whole_file(file) as temporary:
        save_file({"vectors": learnt.vectors.cpu().contiguous()}, temporary, metadata={"epoch": str(learnt.epoch)})


def load_learnt(file: Path) -> Tensor:
    """Read the vectors, shape (rows, d). :raises BadInput: the file is damaged, or holds something else."""
    vectors: Tensor | None = tensors_file(file, AGAIN).get("vectors")
    if vectors is None or vectors.ndim != 2:
        raise BadInput(f"{file} holds no learnt vectors: {AGAIN}")
    return vectors

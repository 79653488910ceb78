"""The one training loop: a short warm-up, a cosine fall, a stop where the loss is no number."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from fathom.errors import RunFailed

Batch = TypeVar("Batch")
WARM_UP = 0.05
"""Share of the training over which the learning rate rises from zero."""


Optimizer = Callable[[list[dict[str, Any]], float], torch.optim.Optimizer]
"""Makes an optimizer of groups of parameters and the highest learning rate."""


def adamw(
    groups: list[dict[str, Any]], learning_rate: float, betas: tuple[float, float] = (0.9, 0.98)
) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)


def adafactor(groups: list[dict[str, Any]], learning_rate: float) -> torch.optim.Optimizer:
    """Shazeer & Stern 2018: *learning_rate* is relative, a share of each parameter's root mean square (section 8).

    A T5 needs it: its word vectors have entries of about 1, its matrices of 0.03 to 0.1; one step for all fits neither.
    """
    from transformers import Adafactor

    made: torch.optim.Optimizer = Adafactor(groups, lr=learning_rate, scale_parameter=True, relative_step=False)
    return made


@dataclass(frozen=True)
class Plan:
    """How far and how fast to train. Without *seconds* the result depends on the seed alone, not on the clock.

    :param steps: the most steps to take. :param learning_rate: at its highest. :param weight_decay: of matrices only.
    :param seconds: stop after so long, even with steps left; the learning rate is down to zero by then all the same.
    """

    steps: int
    learning_rate: float
    weight_decay: float = 0.01
    seconds: float | None = None
    optimizer: Optimizer = adamw


class Point(NamedTuple):
    """One point of the learning curve: the mean loss since the point before."""

    step: int
    seconds: float
    loss: float
    learning_rate: float


def train(
    parameters: Iterable[torch.nn.Parameter],
    batches: Iterable[Batch],
    loss_of: Callable[[Batch], Tensor],
    plan: Plan,
    on_progress: Callable[[Point, float], None] | None = None,
) -> list[Point]:
    """Fit *parameters* to *batches*, one step each, until the plan is done or they run out.

    Random numbers are drawn by the caller (batches, dropout), who therefore holds the seed.

    :param loss_of: mean loss of a batch, a scalar. :param on_progress: given each point and the share done.
    :returns: about a hundred points; the last is the last step.
    :raises RunFailed: where the loss is NaN or infinite; the weights are then those before the step.
    """
    weights = [parameter for parameter in parameters if parameter.requires_grad]
    optimizer = plan.optimizer(grouped(weights, plan.weight_decay), plan.learning_rate)
    curve: list[Point] = []
    waiting: list[float] = []
    start, done = time.monotonic(), 0.0
    for step, batch in enumerate(batches, start=1):
        rate = plan.learning_rate * _rate(done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        waiting.append(_step(optimizer, weights, loss_of(batch), step))
        seconds = time.monotonic() - start
        done = min(1.0, max(step / plan.steps, seconds / plan.seconds if plan.seconds else 0.0))
        if done >= 1 or step % max(1, plan.steps // 100) == 0:
            curve.append(Point(step, seconds, sum(waiting) / len(waiting), rate))
            waiting.clear()
            if on_progress is not None:
                on_progress(curve[-1], done)
        if done >= 1:
            break
    return curve


def grouped(weights: Sequence[torch.nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimizer: biases and norms are left out of the weight decay, as is usual."""
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _rate(done: float) -> float:
    """The learning rate as a share of its highest. Never exactly zero at the start: the first step counts, too."""
    if done < WARM_UP:
        return max(done, 0.01 * WARM_UP) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


def _step(optimizer: torch.optim.Optimizer, weights: list[torch.nn.Parameter], loss: Tensor, step: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise RunFailed(f"the loss is {value} at step {step}: use a smaller learning rate")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    return value

"""The training loop: stages of epochs of steps, with learning-rate schedules, checkpoints and hooks.

The loop draws no random numbers. Batches and dropout do, so the caller sets the seed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from fathom.base.errors import RunFailed
from fathom.training.saving import State, TrainingFolder, random_state, set_random_state

Batch = TypeVar("Batch")


class NotANumber(RunFailed):
    """The loss is NaN or infinite. The weights are those before the step."""


Optimizer = Callable[[list[State], float], torch.optim.Optimizer]
"""Makes an optimizer from groups of parameters and the maximum learning rate."""


def adamw(groups: list[State], learning_rate: float, betas: tuple[float, float] = (0.9, 0.98)) -> torch.optim.Optimizer:
    """Make AdamW (Loshchilov & Hutter 2019), by default with a second beta that suits small models from scratch."""
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)


ADAMW: Optimizer = partial(adamw, betas=(0.9, 0.999))
"""With PyTorch's betas, as in the code of the papers on fine-tuned models."""


def adafactor(groups: list[State], learning_rate: float) -> torch.optim.Optimizer:
    """Make Adafactor (Shazeer & Stern 2018); *learning_rate* is a share of each weight's root mean square (section 8).

    T5 needs it: its word vectors have entries of about 1, its matrices of 0.03 to 0.1. No single step size fits both.
    """
    from transformers import Adafactor

    return Adafactor(  # type: ignore[no-any-return]
        groups, lr=learning_rate, scale_parameter=True, relative_step=False
    )


def grouped(weights: Sequence[nn.Parameter], weight_decay: float) -> list[State]:
    """Group parameters for an optimizer: biases and norms have no weight decay, as is usual."""
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class Share(NamedTuple):
    """The finished share of a stage, from 0 to 1.

    :param before: steps before the current one. :param after: including the current one.
    :param clock: of the time limit, at the end of the step before; 0 without a limit.
    """

    before: float
    after: float
    clock: float


def cosine(share: Share, warm_up: float) -> float:
    """Rise linearly, then fall as half a cosine to zero, at the time limit at the latest.

    Never exactly zero at the start, so that the first step has an effect.
    """
    done = min(1.0, max(share.before, share.clock))
    if done < warm_up:
        return max(done, 0.01 * warm_up) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))


def linear(share: Share, warm_up: float) -> float:
    """Rise linearly, then fall linearly nearly to zero, as in fine-tuning."""
    return share.after / warm_up if share.after < warm_up else max(1 - share.after, 1e-3) / (1 - warm_up)


def falling(share: Share, warm_up: float) -> float:
    """Fall linearly from the first step on, without a warm-up."""
    return 1 - share.before


SCHEDULES: dict[str, Callable[[Share, float], float]] = {"cosine": cosine, "linear": linear, "falling": falling}
"""The learning rate as a share of its highest."""


@dataclass(frozen=True)
class Stage:
    """One part of a training.

    :param name: as in the curve and messages; "" for a single stage.
    :param batches: of an epoch, counted from 0. To be resumable they depend on a seed and the epoch alone.
    :param steps: batches per epoch.
    :param loss: mean loss of a batch, a scalar; a float if its gradients have been computed already.
    :param parameters: those learnt; all others are frozen.
    :param learning_rate: its maximum.
    :param watched: whether to validate and stop early.
    """

    name: str
    batches: Callable[[int], Iterable[Any]]
    steps: int
    loss: Callable[[Any], Tensor | float]
    parameters: Sequence[nn.Parameter]
    epochs: int
    learning_rate: float
    watched: bool = True
    optimizer: Optimizer = ADAMW


@dataclass(frozen=True)
class Rules:
    """Rules for steps in all stages.

    :param schedule: one of :data:`SCHEDULES`. :param warm_up: share of a stage over which the learning rate rises.
    :param weight_decay: of matrices only. :param clip: maximum norm of the gradient; None for any.
    :param accumulate: batches whose gradients are added up to one step.
    :param precision: of the matrix products; weights stay as they are.
    :param seconds: time limit, earlier calls included; ends the epoch.
    """

    schedule: Literal["cosine", "linear", "falling"] = "cosine"
    warm_up: float = 0.05
    weight_decay: float = 0.01
    clip: float | None = 1.0
    accumulate: int = 1
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    seconds: float | None = None


@dataclass
class TrainingPosition:
    """The position in a training.

    :param step: finished batches of the epoch. :param losses: their sum.
    :param seconds: of the calls before, up to the last checkpoint.
    """

    stage: int = 0
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    losses: float = 0.0


class Epoch(NamedTuple):
    """A finished epoch.

    :param number: from 1. :param share: of its steps that were taken. :param loss: mean over them, before each step.
    """

    stage: Stage
    number: int
    share: float
    loss: float


class Hooks:
    """Callbacks between steps. Each may be overridden."""

    def before_stage(self, stage: Stage) -> None:
        """Run before the optimizer is made."""

    def before_epoch(self, loop: Loop) -> str:
        """Run before an epoch. :returns: a reason to end the training; "" to continue."""
        return ""

    def after_step(self, loop: Loop) -> None:
        """Run after a step; ``loop.loss`` is the loss before it."""

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        """Run after an epoch, also one cut by the time limit; ``loop.at`` is the start of the next."""


class Loop:
    """A training that can be interrupted and resumed. :param device: of the weights."""

    def __init__(self, stages: Sequence[Stage], rules: Rules, hooks: Hooks, device: torch.device) -> None:
        self.stages, self.rules, self.hooks, self.device = stages, rules, hooks, device
        self.at = TrainingPosition()
        self.scaler = torch.amp.GradScaler(device.type, enabled=rules.precision == "float16")
        self.began = time.monotonic()
        self.loss = self.clock = self.rate = 0.0
        self._saved: State = {}

    def run(self) -> str:
        """Train. :returns: why it ended: "epochs", or the reason of a hook.

        :raises NotANumber: the loss is NaN or infinite.
        """
        self.began = time.monotonic()
        while self.at.stage < len(self.stages):
            if why := self._run_stage(self.stages[self.at.stage]):
                return why
            self.at.stage, self.at.epoch = self.at.stage + 1, 0
        return "epochs"

    def seconds(self) -> float:
        """Return the seconds so far, earlier calls included."""
        return self.at.seconds + time.monotonic() - self.began

    def out_of_time(self) -> bool:
        return self.rules.seconds is not None and self.seconds() >= self.rules.seconds

    def share(self) -> Share:
        stage = self.stages[self.at.stage]
        whole, step = max(1, stage.epochs * stage.steps), self.at.epoch * stage.steps + self.at.step
        return Share((step - 1) / whole, step / whole, self.clock)

    def state(self) -> State:
        """Return what a checkpoint needs in addition to the weights: tensors, numbers and texts."""
        self.at.seconds, self.began = self.seconds(), time.monotonic()
        return {
            "at": dict(vars(self.at)),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": random_state(),
        }

    def set_state(self, state: State) -> None:
        """Restore :meth:`state`, before :meth:`run`."""
        self.at = TrainingPosition(**{field.name: state["at"][field.name] for field in fields(TrainingPosition)})
        self.scaler.load_state_dict(state["scaler"])
        self._saved = state

    def _run_stage(self, stage: Stage) -> str:
        self.hooks.before_stage(stage)
        self.optimizer = stage.optimizer(grouped(stage.parameters, self.rules.weight_decay), stage.learning_rate)
        if self._saved:
            self.optimizer.load_state_dict(self._saved["optimizer"])
        while self.at.epoch < stage.epochs:
            if why := self.hooks.before_epoch(self):
                return why
            self._run_epoch(stage)
            at, loss = self.at, self.at.losses / max(1, self.at.step)
            epoch = Epoch(stage, at.epoch + 1, at.step / max(1, stage.steps), loss)
            at.epoch, at.step, at.losses = at.epoch + 1, 0, 0.0
            self.hooks.after_epoch(self, epoch)
        self._saved = {}
        return ""

    def _run_epoch(self, stage: Stage) -> None:
        if self._saved and self.at.step:
            set_random_state(self._saved["random"])
        self._saved = {}
        for batch in islice(stage.batches(self.at.epoch), self.at.step, None):
            self._step(stage, batch)
            self.clock = self.seconds() / self.rules.seconds if self.rules.seconds is not None else 0.0
            self.hooks.after_step(self)
            if self.clock >= 1 or self.at.step >= stage.steps:
                break

    def _step(self, stage: Stage, batch: object) -> None:
        at, accumulate = self.at, self.rules.accumulate
        with self._precision():
            loss = stage.loss(batch)
        self.loss = loss if isinstance(loss, float) else loss.item()
        if not math.isfinite(self.loss):
            where = (
                f"in epoch {at.epoch + 1}, step {at.step + 1} ({stage.name})"
                if stage.name
                else f"at step {at.step + 1}"
            )
            raise NotANumber(f"the loss is {self.loss} {where}: use a smaller --learning-rate")
        at.losses += self.loss
        at.step += 1
        waiting = (at.step - 1) % accumulate + 1
        if isinstance(loss, Tensor):
            together = min(accumulate, stage.steps - (at.step - waiting))
            self.scaler.scale(loss / together).backward()  # type: ignore[no-untyped-call]
        if waiting == accumulate or at.step == stage.steps:
            self._update(stage)

    def _update(self, stage: Stage) -> None:
        self.rate = stage.learning_rate * SCHEDULES[self.rules.schedule](self.share(), self.rules.warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        self.scaler.unscale_(self.optimizer)
        if self.rules.clip is not None:
            nn.utils.clip_grad_norm_(stage.parameters, self.rules.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.rules.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.rules.precision))


class CurvePoint(NamedTuple):
    """A point of the learning curve: the mean loss since the previous point."""

    step: int
    seconds: float
    loss: float
    learning_rate: float


OnProgress = Callable[[CurvePoint, float], None]
"""Called with each point and the finished share."""


class Curve(Hooks):
    """About a hundred points; the last is the last step."""

    def __init__(self, steps: int, on_progress: OnProgress | None) -> None:
        self.every, self.on_progress = max(1, steps // 100), on_progress
        self.points: list[CurvePoint] = []
        self.waiting: list[float] = []

    def after_step(self, loop: Loop) -> None:
        self.waiting.append(loop.loss)
        done, step = min(1.0, max(loop.share().after, loop.clock)), loop.at.step
        if done >= 1 or step % self.every == 0:
            self.points.append(CurvePoint(step, loop.seconds(), sum(self.waiting) / len(self.waiting), loop.rate))
            self.waiting.clear()
            if self.on_progress is not None:
                self.on_progress(self.points[-1], done)


class Checkpoints(Hooks):
    """Writes a checkpoint of a network now and then, and goes on from the last.

    :param every: seconds between two checkpoints.
    """

    def __init__(self, network: nn.Module, folder: TrainingFolder, every: float = 60.0) -> None:
        self.network, self.folder, self.every = network, folder, every
        self.saved = time.monotonic()

    def restore(self, loop: Loop, curve: Curve) -> None:
        """Go on from the last checkpoint, if there is one. :raises BadInput: it is damaged."""
        self.curve = curve
        state = self.folder.checkpoint(loop.device)
        if state is not None and state.get("signature") == self.folder.signature:
            with self.folder.taking_back():
                self.network.load_state_dict(state["network"])
                loop.set_state(state["loop"])
                curve.points = [CurvePoint(*point) for point in state["curve"]]
                curve.waiting = list(state["waiting"])

    def after_step(self, loop: Loop) -> None:
        self.curve.after_step(loop)
        if time.monotonic() - self.saved > self.every:
            points = [list(point) for point in self.curve.points]
            state = {"network": self.network.state_dict(), "loop": loop.state(), "curve": points}
            self.folder.path.mkdir(exist_ok=True)
            self.folder.keep_checkpoint(state | {"waiting": self.curve.waiting, "signature": self.folder.signature})
            self.saved = time.monotonic()


def train(
    parameters: Iterable[nn.Parameter],
    batches: Iterable[Batch],
    loss_of: Callable[[Batch], Tensor],
    steps: int,
    learning_rate: float,
    *,
    seconds: float | None = None,
    optimizer: Optimizer = adamw,
    on_progress: OnProgress | None = None,
    checkpoints: Checkpoints | None = None,
) -> list[CurvePoint]:
    """Fit *parameters* to *batches*, one step each, until *steps* are taken or they run out.

    Without *seconds* the result depends on the seed alone, not on the clock.

    :param loss_of: mean loss of a batch, a scalar.
    :param learning_rate: its maximum.
    :param seconds: stop after this time, even with steps left; the learning rate falls to zero by then.
    :param checkpoints: where to go on from, and what to keep.
    :returns: about a hundred points; the last is the last step.
    :raises NotANumber: the loss is NaN or infinite; the weights are then those before the step.
    """
    weights = [parameter for parameter in parameters if parameter.requires_grad]
    curve = Curve(steps, on_progress)
    stage = Stage("", lambda epoch: batches, steps, loss_of, weights, 1, learning_rate, optimizer=optimizer)
    loop = Loop([stage], Rules(seconds=seconds), checkpoints or curve, weights[0].device)
    if checkpoints is not None:
        checkpoints.restore(loop, curve)
    loop.run()
    return curve.points

"""Epochs, validation, early stopping, checkpoints: how every text-reading link predictor is trained.

The random numbers of an epoch depend on the seed and the epoch alone, so a training that was killed goes on to the same
curve as one that never was.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from fathom.errors import RunFailed
from fathom.links.options import TextTraining
from fathom.store.files import write_text
from fathom.training.loop import Optimizer, adamw, grouped
from fathom.training.saving import whole_tensors

NOT_SCORED = "unscored"
"""In a line of the curve: the share of validation questions without a score."""
WATCHED = "hits@10"
"""What early stopping looks at (Sakai et al. 2024, section 4.1)."""


class NotANumber(RunFailed):
    """The loss is NaN or infinite: going on would not help. The best weights so far are kept."""


ADAMW: Optimizer = partial(adamw, betas=(0.9, 0.999))
"""With PyTorch's own betas, as in the papers' code."""


@dataclass(frozen=True)
class Stage:
    """One part of a training.

    :param batches: those of an epoch; they depend on the options' seed and the epoch (counted from 0) alone.
    :param steps: how many batches an epoch has. :param loss: mean loss of a batch, a scalar.
    :param parameters: what is learnt in it; everything else stays as it is.
    :param watched: whether validation and early stopping take part.
    """

    name: str
    batches: Callable[[int], Iterable[Any]]
    steps: int
    loss: Callable[[Any], Tensor]
    parameters: Sequence[nn.Parameter]
    epochs: int
    learning_rate: float
    watched: bool = True
    optimizer: Optimizer = ADAMW


class Learner(Protocol):
    """What is trained: see :class:`fathom.links.base.Predictor`."""

    network: nn.Module
    options: TextTraining
    device: torch.device

    def stages(self) -> Sequence[Stage]: ...
    def validate(self) -> Mapping[str, float]: ...
    def state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...


@dataclass
class _At:
    """How far a training has come: all of it goes into the checkpoint."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    """Batches of the epoch that are done."""
    seconds: float = 0.0
    losses: float = 0.0
    """Sum over the epoch's batches so far."""
    best: float = -math.inf
    waited: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)


def fit(learner: Learner, folder: Path, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Train *learner*; its best weights are in ``folder/weights.safetensors`` and in its network when this returns.

    Goes on from ``folder/checkpoint.pt`` where there is one. ``folder/curve.jsonl`` has one line per epoch.

    :returns: why and where it ended: ``why`` (epochs, patience or seconds), ``epoch`` and ``hits@10`` of the best.
    :raises NotANumber: the loss is none. :raises RunFailed: the disk is full; the same call goes on.
    """
    return _Fit(learner, folder, progress or (lambda done, total: None)).run()


class _Fit:
    def __init__(self, learner: Learner, folder: Path, progress: Callable[[int, int], None]) -> None:
        self.learner, self.folder, self.progress = learner, folder, progress
        self.options = learner.options
        self.stages = list(learner.stages())
        self.total = sum(stage.epochs * stage.steps for stage in self.stages)
        self.at = _At()
        half = self.options.precision == "float16"
        self.scaler = torch.amp.GradScaler(learner.device.type, enabled=half)
        self.kept = self.began = time.monotonic()

    def run(self) -> dict[str, Any]:
        saved = self._saved()
        self.began = self.kept = time.monotonic()
        why = "epochs"
        while self.at.stage < len(self.stages):
            stage = self.stages[self.at.stage]
            why = self._run_stage(stage, saved)
            saved = None
            if why != "epochs":
                break
            self.at.stage, self.at.epoch = self.at.stage + 1, 0
        if self.at.best == -math.inf:  # nothing was validated: no dev split, or no epoch
            self._keep_weights()
        load_model(self.learner.network, str(self.folder / "weights.safetensors"))
        best = max((line for line in self.at.curve if WATCHED in line), key=lambda line: line[WATCHED], default={})
        return {"why": why, "epoch": best.get("epoch"), WATCHED: best.get(WATCHED)}

    # ------------------------------------------------------------------------------------------------ one stage

    def _run_stage(self, stage: Stage, saved: dict[str, Any] | None) -> str:
        self.learner.network.requires_grad_(False)
        for weight in stage.parameters:
            weight.requires_grad_(True)
        groups = grouped(stage.parameters, self.options.weight_decay)
        self.optimizer = stage.optimizer(groups, stage.learning_rate)
        if saved is not None:
            self.optimizer.load_state_dict(saved["optimizer"])
        while self.at.epoch < stage.epochs:
            if self.options.patience is not None and self.at.waited >= self.options.patience:
                return "patience"
            if self._out_of_time():
                return "seconds"
            self._run_epoch(stage, saved)
            saved = None
            self._close_epoch(stage)
        return "epochs"

    def _run_epoch(self, stage: Stage, saved: dict[str, Any] | None) -> None:
        self.learner.network.train()
        torch.manual_seed(hash((self.options.seed, self.at.stage, self.at.epoch)))
        if saved is not None and self.at.step:
            _set_random_state(saved["random"])
        batches = islice(stage.batches(self.at.epoch), self.at.step, None)
        before = sum(earlier.epochs * earlier.steps for earlier in self.stages[: self.at.stage])
        for batch in batches:
            self._step(stage, batch)
            self.progress(before + self.at.epoch * stage.steps + self.at.step, self.total)
            if self._out_of_time():
                return
            between_steps = self.at.step % self.options.accumulate == 0
            if between_steps and time.monotonic() - self.kept > 60 * self.options.checkpoint_minutes:
                self._keep_checkpoint()

    def _step(self, stage: Stage, batch: Any) -> None:
        at, options = self.at, self.options
        with self._precision():
            loss = stage.loss(batch)
        value = loss.item()
        if not math.isfinite(value):
            self._give_up(f"the loss is {value} in epoch {at.epoch + 1}, step {at.step + 1} ({stage.name})")
        at.losses += value
        at.step += 1
        last = at.step == stage.steps
        waiting = (at.step - 1) % options.accumulate + 1
        together = min(options.accumulate, stage.steps - (at.step - waiting))
        self.scaler.scale(loss / together).backward()  # type: ignore[no-untyped-call]
        if waiting == options.accumulate or last:
            for group in self.optimizer.param_groups:
                group["lr"] = stage.learning_rate * self._rate(stage)
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(stage.parameters, options.clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)

    def _give_up(self, why: str) -> NoReturn:
        kept = "nothing was learnt before"
        if self.at.best > -math.inf:
            kept = f"the best model so far is kept in {self.folder}"
        raise NotANumber(f"{why}: use a smaller --learning-rate; {kept}")

    def _rate(self, stage: Stage) -> float:
        """A straight rise over the warm-up, then a straight fall to zero, as a share of the highest."""
        done = (self.at.epoch * stage.steps + self.at.step) / max(1, stage.epochs * stage.steps)
        rise = self.options.warm_up
        return done / rise if done < rise else max(1 - done, 1e-3) / (1 - rise)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.options.precision == "float32":
            return nullcontext()
        return torch.autocast(self.learner.device.type, getattr(torch, self.options.precision))

    def _close_epoch(self, stage: Stage) -> None:
        """Validate, and keep what there is. A part of an epoch, where the time was up, is an epoch of its own."""
        at = self.at
        line: dict[str, Any] = {
            "stage": stage.name,
            "epoch": at.epoch + 1,
            "share": round(at.step / max(1, stage.steps), 4),
            "loss": at.losses / max(1, at.step),
        }
        if stage.watched:
            self.learner.network.eval()
            with torch.inference_mode():
                line |= self.learner.validate()
            if line.get(NOT_SCORED) == 1:
                self._give_up(f"no answer has a score that is a number after epoch {at.epoch + 1} ({stage.name})")
        line["seconds"] = round(self._seconds(), 3)
        at.curve.append(line)
        if WATCHED in line:
            better = line[WATCHED] > at.best
            at.waited = 0 if better else at.waited + 1
            if better:
                at.best = line[WATCHED]
                self._keep_weights()
        at.epoch, at.step, at.losses = at.epoch + 1, 0, 0.0
        write_text(self.folder / "curve.jsonl", "".join(json.dumps(entry) + "\n" for entry in at.curve))
        self._keep_checkpoint()

    # ------------------------------------------------------------------------------------------------ keeping

    def _seconds(self) -> float:
        return self.at.seconds + time.monotonic() - self.began

    def _out_of_time(self) -> bool:
        return self.options.seconds is not None and self._seconds() >= self.options.seconds

    def _keep_weights(self) -> None:
        with whole_tensors(self.folder / "weights.safetensors") as temporary:
            save_model(self.learner.network, str(temporary))

    def _keep_checkpoint(self) -> None:
        self.at.seconds, self.began = self._seconds(), time.monotonic()
        content = {
            "at": {**vars(self.at), "curve": json.dumps(self.at.curve)},
            "network": self.learner.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": _random_state(),
            "state": self.learner.state(),
        }
        with whole_tensors(self.folder / "checkpoint.pt") as temporary:
            torch.save(content, temporary)
        self.kept = time.monotonic()

    def _saved(self) -> dict[str, Any] | None:
        file = self.folder / "checkpoint.pt"
        if not file.exists():
            return None
        saved: dict[str, Any] = torch.load(file, map_location=self.learner.device, weights_only=True)
        self.at = _At(**{**saved["at"], "curve": json.loads(saved["at"]["curve"])})
        self.learner.network.load_state_dict(saved["network"])
        self.learner.set_state(saved["state"])
        self.scaler.load_state_dict(saved["scaler"])
        return saved


def _random_state() -> dict[str, Tensor]:
    found = {"cpu": torch.get_rng_state()}
    return found | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def _set_random_state(state: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu())


def shuffled(count: int, size: int, *seed: int) -> Iterator[Any]:
    """The numbers 0 to *count* − 1 in random order, *size* at a time. :param seed: e.g. the options' seed and epoch."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]

"""Validation, early stopping, checkpoints: how every text-reading link predictor is trained.

The random numbers of an epoch depend on the seed and the epoch alone, so a training that was killed goes on to the same
curve as one that never was.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_model
from torch import nn

from fathom.links.options import TextTraining
from fathom.training.loop import Epoch, Hooks, Loop, NotANumber, Rules, Stage
from fathom.training.saving import State, TrainingFolder

NOT_SCORED = "unscored"
"""In a line of the curve: the share of validation questions without a score."""
WATCHED = "hits@10"
"""What early stopping looks at (Sakai et al. 2024, section 4.1)."""
Line = dict[str, Any]
"""Of the curve: stage, epoch, share of the epoch, loss, seconds, and where validated Hits@k and MRR."""


class Learner(Protocol):
    """What is trained: see :class:`fathom.links.base.Predictor`."""

    network: nn.Module
    options: TextTraining
    device: torch.device

    def stages(self) -> Sequence[Stage]:
        """How it is trained, one after the other."""
        ...

    def validate(self) -> Mapping[str, float]:
        """Measures on the validation split; nothing where there is none."""
        ...

    def state(self) -> State:
        """What a checkpoint must hold beside weights and optimizer."""
        ...

    def set_state(self, state: State) -> None:
        """Take back what :meth:`state` gave."""
        ...


def fit(learner: Learner, folder: Path, progress: Callable[[int, int], None] | None = None) -> Line:
    """Train *learner*; its best weights are in ``folder/weights.safetensors`` and in its network when this returns.

    Goes on from ``folder/checkpoint.pt`` where there is one. ``folder/curve.jsonl`` has one line per epoch.

    :returns: why and where it ended: ``why`` (epochs, patience or seconds), ``epoch`` and ``hits@10`` of the best.
    :raises NotANumber: the loss is none.
    :raises RunFailed: the disk is full; the same call goes on.
    """
    return _Fit(learner, folder, progress or (lambda done, total: None)).run()


class _Fit(Hooks):
    def __init__(self, learner: Learner, folder: Path, progress: Callable[[int, int], None]) -> None:
        self.learner, self.options, self.progress = learner, learner.options, progress
        self.folder = TrainingFolder(folder)
        self.best, self.waited = -math.inf, 0
        self.curve: list[Line] = []
        self.kept = time.monotonic()

    def run(self) -> Line:
        """See :func:`fit`."""
        asked = ("warm_up", "weight_decay", "clip", "accumulate", "precision", "seconds")
        rules = Rules("linear", **{name: getattr(self.options, name) for name in asked})
        loop = Loop(self.learner.stages(), rules, self, self.learner.device)
        self._resume(loop)
        self.kept = time.monotonic()
        try:
            why = loop.run()
        except NotANumber as error:
            kept = "nothing was learnt before"
            if self.best > -math.inf:
                kept = f"the best model so far is kept in {self.folder.path}"
            raise NotANumber(f"{error}; {kept}") from error
        if self.best == -math.inf:  # nothing was validated: no dev split, or no epoch
            self.folder.keep_weights(self.learner.network)
        load_model(self.learner.network, str(self.folder.weights))
        best = max((line for line in self.curve if WATCHED in line), key=lambda line: line[WATCHED], default={})
        return {"why": why, "epoch": best.get("epoch"), WATCHED: best.get(WATCHED)}

    def before_stage(self, stage: Stage) -> None:
        self.learner.network.requires_grad_(False)
        for weight in stage.parameters:
            weight.requires_grad_(True)

    def before_epoch(self, loop: Loop) -> str:
        if self.options.patience is not None and self.waited >= self.options.patience:
            return "patience"
        if loop.out_of_time():
            return "seconds"
        self.learner.network.train()
        torch.manual_seed(hash((self.options.seed, loop.at.stage, loop.at.epoch)))
        return ""

    def after_step(self, loop: Loop) -> None:
        counts = [stage.epochs * stage.steps for stage in loop.stages]
        at, stage = loop.at, loop.stages[loop.at.stage]
        self.progress(sum(counts[: at.stage]) + at.epoch * stage.steps + at.step, sum(counts))
        between_steps = at.step % self.options.accumulate == 0
        if between_steps and time.monotonic() - self.kept > 60 * self.options.checkpoint_minutes:
            self._keep_checkpoint(loop)

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        """Validate, and keep what there is."""
        line: Line = {"stage": epoch.stage.name, "epoch": epoch.number}
        line |= {"share": round(epoch.share, 4), "loss": epoch.loss}
        if epoch.stage.watched:
            self.learner.network.eval()
            with torch.inference_mode():
                line |= self.learner.validate()
            if line.get(NOT_SCORED) == 1:
                where = f"epoch {epoch.number} ({epoch.stage.name})"
                raise NotANumber(f"no answer has a score that is a number after {where}: use a smaller --learning-rate")
        line["seconds"] = round(loop.seconds(), 3)
        self.curve.append(line)
        if WATCHED in line:
            better = line[WATCHED] > self.best
            self.waited = 0 if better else self.waited + 1
            if better:
                self.best = line[WATCHED]
                self.folder.keep_weights(self.learner.network)
        self.folder.keep_curve(self.curve)
        self._keep_checkpoint(loop)

    def _keep_checkpoint(self, loop: Loop) -> None:
        state = loop.state()
        state["at"] |= {"best": self.best, "waited": self.waited, "curve": json.dumps(self.curve)}
        own = {"network": self.learner.network.state_dict(), "state": self.learner.state()}
        self.folder.keep_checkpoint(state | own)
        self.kept = time.monotonic()

    def _resume(self, loop: Loop) -> None:
        saved = self.folder.checkpoint(self.learner.device)
        if saved is not None:
            at = saved["at"]
            self.best, self.waited, self.curve = at["best"], at["waited"], json.loads(at["curve"])
            self.learner.network.load_state_dict(saved["network"])
            self.learner.set_state(saved["state"])
            loop.set_state(saved)


def shuffled(count: int, size: int, *seed: int) -> Iterator[NDArray[np.int64]]:
    """The numbers 0 to *count* − 1 in random order, *size* at a time.

    :param seed: e.g. the options' seed and the epoch.
    """
    order = np.random.default_rng(seed).permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]

"""The one training loop: schedules by hand, hooks in order, steps of several batches, checkpoints."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from fathom.training.loop import SCHEDULES, Epoch, Hooks, Loop, NotANumber, Rules, Share, Stage
from fathom.training.saving import TrainingFolder, load_weights, random_state, set_random_state
from tests.messages import mentions

CPU = torch.device("cpu")


def sgd(groups, learning_rate):
    return torch.optim.SGD(groups, lr=learning_rate)


def stage_of(weight, losses, **said):
    """One number is learnt; its gradient is that of ``factor * weight``."""
    given = {"epochs": 1, "learning_rate": 1.0, "optimizer": sgd, **said}
    return Stage("one", lambda epoch: losses, len(losses), lambda factor: factor * weight.sum(), [weight], **given)


@pytest.mark.parametrize(
    ("name", "share", "expected"),
    [
        ("cosine", Share(0.0, 0.1, 0.0), 0.01),  # the first step counts, too
        ("cosine", Share(0.1, 0.2, 0.0), 0.5),  # half of the warm-up
        ("cosine", Share(0.6, 0.7, 0.0), 0.5),  # half of the fall: cos(π/2) = 0
        ("cosine", Share(0.1, 0.2, 0.6), 0.5),  # the clock is ahead of the steps
        ("linear", Share(0.0, 0.1, 0.0), 0.5),
        ("linear", Share(0.5, 0.6, 0.9), 0.5),  # 0.4 / 0.8; the clock does not count
        ("linear", Share(0.9, 1.0, 0.0), 0.001 / 0.8),
        ("falling", Share(0.0, 0.1, 0.0), 1.0),
        ("falling", Share(0.75, 0.8, 0.9), 0.25),
    ],
)
def test_schedules_by_hand(name, share, expected):
    assert SCHEDULES[name](share, 0.2) == pytest.approx(expected)


def test_gradients_of_several_batches_make_one_step():
    """Falling from 1 over four batches, two a step: rates 3/4 and 1/4; gradients (1 + 3) / 2 and (2 + 4) / 2."""
    weight = torch.nn.Parameter(torch.zeros(1, 1))
    loop = Loop([stage_of(weight, [1.0, 3.0, 2.0, 4.0])], Rules("falling", 0, 0, None, accumulate=2), Hooks(), CPU)
    assert loop.run() == "epochs"
    assert weight.item() == pytest.approx(-(0.75 * 2 + 0.25 * 3))


class Noting(Hooks):
    def __init__(self, until: int = 9) -> None:
        self.until = until
        self.noted: list[object] = []

    def before_stage(self, stage: Stage) -> None:
        self.noted.append("stage")

    def before_epoch(self, loop: Loop) -> str:
        self.noted.append(f"epoch {loop.at.epoch}")
        return "patience" if loop.at.epoch == self.until else ""

    def after_step(self, loop: Loop) -> None:
        self.noted.append(loop.at.step)

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        self.noted.append((epoch.number, epoch.share))


def test_hooks_in_order():
    weight, hooks = torch.nn.Parameter(torch.zeros(1, 1)), Noting(until=1)
    assert Loop([stage_of(weight, [1.0, 1.0], epochs=3)], Rules(), hooks, CPU).run() == "patience"
    assert hooks.noted == ["stage", "epoch 0", 1, 2, (1, 1.0), "epoch 1"]


def test_a_part_of_an_epoch_is_an_epoch():
    weight, hooks = torch.nn.Parameter(torch.zeros(1, 1)), Noting(until=1)
    Loop([stage_of(weight, [1.0, 1.0], epochs=3)], Rules(seconds=1e-9), hooks, CPU).run()
    assert hooks.noted == ["stage", "epoch 0", 1, (1, 0.5), "epoch 1"]


def test_the_message_says_where():
    weight = torch.nn.Parameter(torch.ones(1, 1))
    with pytest.raises(NotANumber, match=mentions("1", "2", "--learning-rate")):
        Loop([stage_of(weight, [1.0, float("nan")])], Rules(), Hooks(), CPU).run()


def test_random_states_of_before_are_read():
    state = random_state()
    drawn = random.random(), np.random.random(), torch.rand(1).item()
    set_random_state(state)
    assert (random.random(), np.random.random(), torch.rand(1).item()) == drawn
    set_random_state({"cpu": state["torch"]})  # as version 0.1.0 kept it
    assert torch.rand(1).item() == drawn[2]


def test_shared_weights_are_saved_once_and_always_as_the_same_bytes(tmp_path):
    def network(seed: int) -> torch.nn.ModuleDict:
        torch.manual_seed(seed)
        words = torch.nn.Linear(3, 4)
        return torch.nn.ModuleDict({"shared": words, "encoder": words, "head": words, "own": torch.nn.Linear(4, 3)})

    folder, first, second = TrainingFolder(tmp_path), network(0), network(1)
    folder.keep_weights(first)
    content = folder.weights.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header.keys() == {
        "encoder.weight",
        "encoder.bias",
        "own.weight",
        "own.bias",
    }  # no other names, whose order varies
    load_weights(second, folder.weights)
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))

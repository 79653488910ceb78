"""Means over tasks: the interval is of other items of these tasks, not of other tasks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fathom.results.tasks import over, sample_items

SHARES, ITEMS, ROUNDS = (0.05, 0.05, 0.9, 0.9), 50, 400


def drawn_once(draw: np.random.Generator):
    """Four tasks of fifty items each, asked by two settings that mostly agree: the mean over all eight."""
    values, asked = [], []
    for task, share in enumerate(SHARES):
        right = draw.random(ITEMS) < share
        again = np.where(draw.random(ITEMS) < 0.9, right, draw.random(ITEMS) < share)
        rows = SimpleNamespace(
            cluster="", query_ids=[f"t{task}/{n}" for n in range(ITEMS)], relations=[f"t{task}"] * ITEMS
        )
        for setting in (right, again):
            values.append(setting.astype(float))
            asked += [(rows, n) for n in range(ITEMS)]
    numbers = [SimpleNamespace(recipe=f"R@1|relation:t{task}") for task in range(4) for _ in range(2)]
    return over("R@1", numbers, values, sample_items(asked))


def test_means_over_tasks_that_differ_are_covered_as_often_as_they_say():
    """The true mean is (0.05 + 0.05 + 0.9 + 0.9) / 4. Pooled over tasks, the interval took the distance between them
    for chance, and held in 100 % of the rounds."""
    draw = np.random.default_rng(0)
    found = [drawn_once(draw) for _ in range(ROUNDS)]
    held = np.mean([number.low <= np.mean(SHARES) <= number.high for number in found])
    assert 0.92 <= held <= 0.975  # two standard errors of 400 rounds are 2.2 %
    assert found[0].sample == "item within task"
    # The standard error of the mean of two such settings is about 1.8 %; pooled it would be twice that.
    assert np.mean([number.high - number.low for number in found]) == pytest.approx(4 * 0.0185, rel=0.1)

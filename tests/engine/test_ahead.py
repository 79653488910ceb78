"""Work of the host ahead of the device and behind it: the same predictions, errors as ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import fathom as package
from fathom.base.errors import RunFailed
from fathom.engine.scoring.statements import Prefetcher
from fathom.probes.run.shards import Background
from fathom.probes.statement import StatementProbe
from tests.cli.test_cli import save
from tests.conftest import build
from tests.messages import correspond

WORDS = 700
"""At least as many as the facts of the embedded data have."""
SHAPES = {
    "causal": ("GPT2LMHeadModel", {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 2}),
    "masked": (
        "BertForMaskedLM",
        {
            "vocab_size": WORDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        },
    ),
}


def folder_of(kind: str, folder: Path) -> str:
    """A model with the words of the embedded data."""
    name, shape = SHAPES[kind]
    names = [name for space in package.read_data("geography").candidates.values() for name in space.names]
    return str(save(folder, build(name, **shape), *names))


def test_what_was_begun_is_taken_and_anything_else_made_now():
    made = []

    def make(step: list[str]) -> str:
        made.append((step[0], threading.current_thread() is threading.main_thread()))
        return step[0].upper()

    ahead, steps = Prefetcher(), [["a"], ["b"], ["c"]]
    assert ahead.take(make, steps[0]) == "A"
    ahead.begin(make, steps[1])
    assert ahead.take(make, steps[1]) == "B"
    ahead.begin(make, steps[2])
    assert ahead.take(make, steps[0]) == "A"  # not what was begun
    assert ahead.take(make, steps[2]) == "C"  # that was forgotten
    assert [one for one in made if one != ("c", False)] == [("a", True), ("b", False), ("a", True), ("c", True)]


def test_what_making_raises_is_raised_where_it_is_taken():
    def make(step: int) -> int:
        raise ValueError(f"no {step}")

    ahead, step = Prefetcher(), 1000
    ahead.begin(make, step)
    with pytest.raises(ValueError, match="no 1000"):
        ahead.take(make, step)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_run_is_the_same_with_and_without(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All shards but the first are put into words in the other thread, each before its turn."""
    folder, by = folder_of(kind, tmp_path / "model"), []
    real = StatementProbe._encoded
    monkeypatch.setattr(
        StatementProbe,
        "_encoded",
        lambda self, shard: by.append(threading.current_thread().name) or real(self, shard),
    )

    def asked(name: str) -> list[dict]:
        by.clear()
        return package.probe("statement", folder, "geography", tmp_path / name, limit=60).table().to_pylist()

    ahead = asked("ahead")
    assert len(by) > 2
    assert by[0] == "MainThread"
    assert all(name.startswith("prefetcher") for name in by[1:])
    monkeypatch.setattr("fathom.probes.base.ShardedProbe.expect", lambda self, shards: None)
    assert asked("alone") == ahead
    assert set(by) == {"MainThread"}


@pytest.mark.slow
def test_a_fault_in_the_other_thread_ends_the_run_and_what_is_finished_stays(tmp_path, monkeypatch):
    folder, worded = folder_of("causal", tmp_path / "model"), StatementProbe._encoded

    def fails(self: StatementProbe, shard: object) -> object:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("in the other thread")
        return worded(self, shard)

    monkeypatch.setattr(StatementProbe, "_encoded", fails)
    with pytest.raises(MemoryError, match="in the other thread"):
        package.probe("statement", folder, "geography", tmp_path / "run", limit=60)
    monkeypatch.undo()
    resumed = package.probe("statement", folder, "geography", tmp_path / "run", limit=60)
    whole = package.probe("statement", folder, "geography", tmp_path / "whole", limit=60)
    assert resumed.table().to_pylist() == whole.table().to_pylist()


def test_what_is_done_behind_is_done_in_order_and_before_one_goes_on():
    done, asked = [], [threading.Event() for _ in range(3)]

    def step(number: int) -> None:
        assert asked[number].wait(60)
        done.append(number)

    with Background() as behind:
        for number in range(3):
            behind.begin(partial(step, number))
            assert done == list(range(number))
            asked[number].set()
    assert done == [0, 1, 2]


def done_behind(*works: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
    with Background() as behind:
        for work in works:
            behind.begin(work)
        then()


def test_what_fails_behind_is_raised_and_nothing_is_begun_after_it():
    done = []

    def full() -> None:
        raise RunFailed("the disk is full")

    with pytest.raises(RunFailed, match="full"):
        done_behind(full, partial(done.append, 1))
    with pytest.raises(RunFailed, match="full"):
        done_behind(partial(done.append, 2), full)
    assert done == [2]


def test_what_was_begun_is_done_though_the_next_step_fails():
    done = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done_behind(partial(done.append, 1), then=interrupted)
    assert done == [1]


def test_what_fails_while_the_next_step_fails_is_told():
    def full() -> None:
        raise RunFailed("the disk is full")

    def wrong() -> None:
        raise ValueError("no such shard")

    with pytest.raises(ValueError, match="no such shard") as raised:
        done_behind(full, then=wrong)
    assert correspond(raised.value.__notes__, ("failed", "disk is full"))

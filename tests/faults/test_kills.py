"""Commands that write folders are killed at moments drawn anew by each SEED, and end as if they had not been."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from fathom.data.fetch import write_examples
from fathom.data.options import ExamplesOptions
from tests.forked import ForkedCall, command_line

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("SEED", "0"))
KILLS = 3 if "SEED" in os.environ else 1
"""Of each command; more in `make faults`, which sets a SEED."""
SMALL = ("--hidden-size", "16", "--layers", "1", "--heads", "2")
PLANTED = ("--kind", "causal", *SMALL)
COMMANDS = {
    "plant": ("plant", "--data", "geography", "--epochs", "2", *PLANTED),
    "pretrain": ("kgc", "pretrain", "--kind", "masked", "--data", "graph", "--epochs", "2", *SMALL),
    "train": ("kgc", "train", "pykeen", "--model", "TransE", "--data", "graph", "--dimension", "8", "--epochs", "60"),
    "evaluate": ("kgc", "evaluate", "link", "--data", "graph"),
    "validate": ("validate", "people", "--data", "invented", "--probes", "statement", "--limit", "40"),
    "cloze": ("build", "cloze", "--input", "texts", "--entities", "chemicals.txt", "--entities", "animals.txt"),
    "ontology": ("build", "ontology", "--input", "town.ttl", "--patterns", "town-patterns.tsv"),
    "choices": ("build", "choices", "--data", "town", "--options", "3"),
    "invented": ("build", "invented", "--people", "300"),
    "worlds": ("build", "worlds", "--data", "graph", "--relax"),
    "sample": ("data", "sample", "graph", "--entities", "40"),
    "merge": ("merge", "parts/1", "parts/2"),
}
"""What writes a folder; run in a folder of the inputs below."""
PART = ("probe", "statement", "--data", "geography", "--model", "planted", "--limit", "60", "--part")
INPUTS = (
    ("build", "ontology", "--input", "town.ttl", "--patterns", "town-patterns.tsv", "--out", "town"),
    ("build", "invented", "--people", "20", "--out", "invented"),
    (
        "plant",
        "--kind",
        "causal",
        "--data",
        "invented",
        "--exposures",
        "0,5",
        "--out",
        "people",
        "--epochs",
        "2",
        *SMALL,
    ),
    ("plant", "--kind", "causal", "--data", "geography", "--out", "planted", "--epochs", "1", *SMALL),
    (*COMMANDS["train"], "--out", "link"),
    (*PART, "1/2", "--out", "parts/1"),
    (*PART, "2/2", "--out", "parts/2"),
)
OF_THE_OCCASION = (
    *("seconds", "s per 1,000", "host", "device", "circumstances", "begun", "ended", "made", "created", "plan"),
    *("digest", "digests"),
)
"""Keys of JSON that differ between equal commands: times, machines, places, and hashes of what has them."""
MEASURED = (".html", ".md", ".csv", ".written.json")
"""Endings of the same values in other formats."""


def call(folder: Path, *words: str) -> ForkedCall:
    return ForkedCall(in_folder, folder, words, said=folder / "said.txt")


def in_folder(folder: Path, words: tuple[str, ...]) -> None:
    os.chdir(folder)
    command_line(*words)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kills") / "inputs"
    write_examples(ExamplesOptions(out=folder))
    for words in INPUTS:
        code, said = call(folder, *words).ended()
        assert code == 0, f"{words}: {said}"
    return folder


@pytest.fixture(scope="module")
def reference(inputs) -> Callable[[str], tuple[Path, float]]:
    """Return what each command writes without a kill, and its seconds."""

    @cache
    def made(name: str) -> tuple[Path, float]:
        out, begun = inputs.parent / f"{name}-reference", time.monotonic()
        code, said = call(inputs, *COMMANDS[name], "--out", str(out)).ended(300)
        assert code == 0, said
        return out, time.monotonic() - begun

    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_ends_as_one_that_was_not(inputs, reference, name):
    expected, seconds = reference(name)
    moments = random.Random(f"{SEED} {name}")
    for attempt in range(KILLS):
        place = inputs.parent / f"{name}-{attempt}"
        place.mkdir()
        command, at = (*COMMANDS[name], "--out", str(place / "out")), moments.uniform(0.1, 1.0)
        process = call(inputs, *command)
        time.sleep(at * seconds)
        with suppress(ProcessLookupError):  # it has ended
            process.send(signal.SIGKILL)
        process.ended()
        code, said = call(inputs, *command).ended(300)
        if code != 0:  # it had ended before
            assert "another" in said, f"killed at {at:.2f}: {said}"
        assert content_of(place / "out") == content_of(expected), f"killed at {at:.2f} of {seconds:.1f} s"
        assert [path.name for path in place.iterdir()] == ["out"], "temporary files are left"


def content_of(folder: Path) -> dict[str, object]:
    """Return what all files of a folder say, without times and machines."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _said_by(path) for path in files if not path.name.endswith(MEASURED)}


def _said_by(path: Path) -> object:
    if path.suffix == ".json":
        return _lasting(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_lasting(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return _lasting(pq.read_table(path).to_pylist())
    if path.suffix == ".safetensors":
        return {name: tensor.tobytes() for name, tensor in load_file(path).items()}
    return path.read_bytes()


def _lasting(value: object) -> object:
    if isinstance(value, dict):
        return {key: _lasting(each) for key, each in value.items() if key not in OF_THE_OCCASION}
    return [_lasting(each) for each in value] if isinstance(value, list) else value

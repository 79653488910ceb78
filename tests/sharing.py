"""One of several processes that share a run, so slow and so finely cut that others meet it: for tests that kill and
race them.

``python -m tests.sharing LOG PAUSE probe statement …`` is ``fathom probe statement …``; each shard takes PAUSE seconds
longer, and LOG is told who asked it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fathom.probes.run.on_ray import ShardJob, ShardWorker
from tests.forked import ForkedCall

STATEMENTS = 200
"""Per shard."""
PAUSE = 0.3
"""Seconds that a shard takes longer on Ray."""
ASKED = ("--data", "geography", "--relations", "continent", "--templates", "0,1,2")
"""196 queries of six candidates, three ways: 18 shards."""


def make_model(folder: Path) -> Path:
    """A causal model that knows nothing, of the words of geography."""
    from fathom.data.formats import read
    from fathom.training.options import PlantOptions
    from fathom.training.planting import plant

    small = PlantOptions(kind="causal", epochs=1, hidden_size=8, layers=1, heads=2)
    plant(read("geography"), small, folder, lambda *told: None)
    return folder


def command(model: Path, out: Path, *more: str, log: Path, pause: float = 0.0) -> list[str]:
    asked = ["probe", "statement", "--model", str(model), *ASKED, "--out", str(out), *more]
    return [sys.executable, "-m", "tests.sharing", str(log), str(pause), *asked]


def begin(*told: Any, log: Path, **more: Any) -> ForkedCall:
    """:func:`command`, begun; what it prints is kept beside *log*."""
    _, _, _, *words = command(*told, log=log, **more)
    return ForkedCall(called, words, said=log.with_name(f"{log.name}.{time.monotonic_ns()}.said"))


def called(words: list[str]) -> None:
    """What :func:`command` does, but for its interpreter and module."""
    sys.argv = ["sharing", *words]
    main()


def ended(*processes: ForkedCall) -> list[str]:
    """What each has printed. :raises AssertionError: one has failed."""
    said = []
    for process in processes:
        code, printed = process.ended()
        assert code == 0, printed
        said.append(printed)
    return said


def asked_twice(log: Path) -> list[str]:
    """Shards that were asked to their end more than once."""
    lines = log.read_text().splitlines() if log.exists() else []
    counts = Counter(line.split()[1] for line in lines if line.startswith("asked"))
    return [shard for shard, count in counts.items() if count > 1]


def kept(study: Path) -> dict[str, object]:
    """What is in the worlds, predictors and runs of a plan, but for times, and who made them."""
    found: dict[str, object] = {}
    for file in study.rglob("*"):
        name = file.relative_to(study).as_posix()
        if name.partition("/")[0] not in ("worlds", "predictors", "runs"):
            continue
        if file.name == "curve.jsonl":
            found[name] = [json.loads(line) | {"seconds": 0} for line in file.read_text().splitlines()]
        elif file.name == "link.json" or (name.startswith("runs/") and file.name == "manifest.json"):
            content = json.loads(file.read_text())
            found[name] = {key: content.get(key) for key in ("identity", "plan", "shows", "notes")}
            ended = content.get("ended") or {}
            found[name] |= {"ended": {key: value for key, value in ended.items() if key != "seconds"}}
        elif file.is_file():
            found[name] = file.read_bytes()
    return found


class Slow(ShardWorker):
    """A worker that takes as long, and cuts as finely."""

    def load(self, job: ShardJob) -> Any:
        from fathom.probes import statement

        statement.SHARD_STATEMENTS = STATEMENTS
        return super().load(job)

    def evaluate(self, shard: str, files: list[Any]) -> Any:
        time.sleep(PAUSE)
        return super().evaluate(shard, files)


def main() -> None:
    log, pause = Path(sys.argv[1]), float(sys.argv[2])
    sys.argv = ["fathom", *sys.argv[3:]]
    from fathom.cli import main as fathom
    from fathom.probes import statement
    from fathom.probes.run import on_ray
    from fathom.store import folder

    statement.SHARD_STATEMENTS = STATEMENTS
    on_ray.ShardWorker = importlib.import_module("tests.sharing").Slow  # not of __main__, which Ray would send along
    ask, add = statement.StatementProbe.evaluate, folder.RunFolder.add_shard

    def slowly(self: Any, shard: str) -> Any:
        _tell(log, f"begun {shard}")
        time.sleep(pause)
        return ask(self, shard)

    def told(self: Any, shard: str, rows: Any) -> None:
        add(self, shard, rows)
        _tell(log, f"asked {shard}")

    statement.StatementProbe.evaluate, folder.RunFolder.add_shard = slowly, told  # type: ignore[method-assign]
    fathom()


def _tell(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line} {os.getpid()}\n")


if __name__ == "__main__":
    main()

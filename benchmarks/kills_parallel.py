"""Kills and races of processes that share a run: nothing lost, nothing twice, predictions those of one process.

    python benchmarks/kills_parallel.py                      # twenty kills of each kind, twenty races
    python benchmarks/kills_parallel.py --times 5 --only ray

- ``parts``: two processes with --part, one of them killed at a random moment; then both parts are typed again.
- ``races``: two processes begin at the same time in one folder, with the same part, other parts, or one without any.
- ``workers``: one of two Ray workers is killed while it loads, prepares or asks.
- ``drivers``: the process with --engine ray is killed, and the same command typed again.

Prints a line for each, and a table; exits with 1 where anything was lost, twice or other.
"""

from __future__ import annotations

import argparse
import os

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}  # processes are forked

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.forked import Forked
from tests.sharing import asked_twice, begin, ended, make_model

from fathom.store.folder import RunFolder

SECONDS = 6.0
"""A part is killed within so many of its beginning; without a kill it takes about as many."""
ON_RAY = 20.0
"""Likewise where a cluster begins first."""
WAITED = 600.0
"""Seconds until a process is taken to hang."""


class Rig:
    """A model, and the predictions that every run must have."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.model = make_model(folder / "model")
        ended(begin(self.model, folder / "alone", log=folder / "alone.log"))
        self.expected = RunFolder.open(folder / "alone").predictions()
        self.number = 0

    def new(self) -> tuple[Path, Path]:
        """A folder for a run, and its log."""
        self.number += 1
        return self.folder / f"run-{self.number}", self.folder / f"run-{self.number}.log"

    def fault(self, out: Path, log: Path | None) -> str:
        """What is wrong with a run that should be finished; "" for nothing."""
        run = RunFolder.open(out)
        faults = [] if run.is_complete() else [f"{len(run.finished())} shards of {len(run.manifest['plan'])}"]
        if not faults and not run.predictions().equals(self.expected):
            faults.append("other predictions")
        if log is not None and (twice := asked_twice(log)):
            faults.append(f"asked twice: {', '.join(twice)}")
        if left := [file.name for file in out.rglob(".*")]:
            faults.append(f"left: {', '.join(left)}")
        return "; ".join(faults)


def parts(rig: Rig) -> str:
    out, log = rig.new()
    both = [begin(rig.model, out, "--part", part, log=log, pause=0.3) for part in ("1/2", "2/2")]
    time.sleep(rig.chance.uniform(0, SECONDS))
    _kill(both[rig.chance.randrange(2)])
    for process in both:
        process.ended(WAITED)
    ended(*(begin(rig.model, out, "--part", part, log=log) for part in ("1/2", "2/2")))
    return rig.fault(out, log)


def races(rig: Rig) -> str:
    out, log = rig.new()
    said = rig.chance.choice([("1/2", "2/2"), ("1/1", "1/1"), ("1/2", "2/3"), (None, None), ("1/1", None)])
    both = [begin(rig.model, out, *(("--part", part) if part else ()), log=log, pause=0.05) for part in said]
    codes = []
    for process in both:
        code, last = process.ended(WAITED)
        codes.append(code)
        if code not in (0, 2) or (code == 2 and "is at work here" not in last):
            return f"{said}: {last}"
    if 0 not in codes:
        return f"{said}: both were refused"
    ended(begin(rig.model, out, log=log))
    return rig.fault(out, log)


def workers(rig: Rig) -> str:
    out, log = rig.new()
    driver = begin(rig.model, out, "--engine", "ray", "--workers", "2", log=log)
    killed, until = 0, time.monotonic() + rig.chance.uniform(0, ON_RAY)
    while driver.goes_on() and not killed:
        alive = list(_workers_of(driver.pid))
        if time.monotonic() > until and alive:
            os.kill(rig.chance.choice(alive), signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    code, last = driver.ended(WAITED)
    if code:
        return last
    return rig.fault(out, None) or ("" if killed else workers(rig))  # it ended before anybody was killed: once more


def drivers(rig: Rig) -> str:
    out, log = rig.new()
    driver = begin(rig.model, out, "--engine", "ray", "--workers", "2", log=log)
    time.sleep(rig.chance.uniform(0, ON_RAY))
    alive = list(_workers_of(driver.pid))
    _kill(driver)
    driver.ended(WAITED)
    until = time.monotonic() + 30
    while (left := [pid for pid in alive if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.2)
    if left:
        return f"{len(left)} workers outlived the driver"
    ended(begin(rig.model, out, "--engine", "ray", "--workers", "2", log=log))
    return rig.fault(out, None)


def _kill(process: Forked) -> None:
    if process.goes_on():
        process.send(signal.SIGKILL)


def _workers_of(driver: int) -> Iterator[int]:
    """Processes of actors below the driver."""
    for pid in _below(driver):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Slow"):
                yield pid
        except OSError:
            continue


def _below(process: int) -> Iterator[int]:
    """It has begun, and those have, and so on."""
    try:
        children = [int(pid) for task in Path(f"/proc/{process}/task").iterdir() for pid in _children(task)]
    except OSError:
        return
    for child in children:
        yield child
        yield from _below(child)


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


KINDS: dict[str, Callable[[Rig], str]] = {"parts": parts, "races": races, "workers": workers, "drivers": drivers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder), random.Random(given.seed))
        for kind in given.only.split(","):
            found = []
            for number in range(given.times):
                found.append(KINDS[kind](rig))
                print(f"{kind} {number + 1}: {found[-1] or 'as one process'}", flush=True)
            wrong = sum(map(bool, found))
            print(f"{kind}: {given.times - wrong} of {given.times} as one process", flush=True)
            faults += wrong
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()

"""The wait for a sign of life and for the result of a single query, and commands that need no model library.

    python benchmarks/start.py --model gpt2 --data BEAR --relation P36 [--before FOLDER] [--times 3]

*before* is the source tree of another commit: both run in turns, and medians are shown. One run of each before that is
not counted, so that the system has all files in memory. CPU: seconds of the processor, of all threads.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent.parent


def timed(tree: Path, *words: object) -> tuple[float, float, float]:
    """Return seconds to the first sign on standard error, a terminal, and to the end; and those of the processor."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "fathom", *map(str, words)]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(tree / "src")}, stdout=subprocess.DEVNULL, stderr=end
    )
    os.close(end)
    sign = ended = 0.0
    while not ended:
        try:
            os.read(terminal, 4096)
        except OSError:  # what the terminal gives when its other end is closed
            ended = time.perf_counter() - began
        sign = sign or time.perf_counter() - began
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"fathom {words[0]} failed: type it without the benchmark to see why"
    return sign, ended, usage.ru_utime + usage.ru_stime


def once(tree: Path, query: list[str], several: list[str]) -> dict[str, tuple[float, float, float]]:
    """Return the times of each command. :param several: words of a run of several shards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {"probe, one query": timed(tree, "probe", "statement", *query, "--out", folder / "one")}
        for part in (1, 2):
            timed(tree, "probe", "statement", *several, "--part", f"{part}/2", "--out", folder / str(part))
        found["merge, two parts"] = timed(tree, "merge", folder / "1", folder / "2", "--out", folder / "run")
        found["probe --part, finished"] = timed(
            tree, "probe", "statement", *several, "--part", "1/2", "--out", folder / "run"
        )
        found["metrics"] = timed(tree, "metrics", folder / "run")
        found["compare"] = timed(tree, "compare", folder / "run", folder / "one")
        found["report"] = timed(tree, "report", folder / "run", "--out", folder / "report.html")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--relation", required=True)
    parser.add_argument("--before", type=Path, default=None)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    words = ["--model", arguments.model, "--data", arguments.data]
    query = [*words, "--relations", arguments.relation, "--templates", "0", "--limit", "1"]
    several = [*words, "--relations", arguments.relation, "--templates", "0,1", "--limit", "2"]
    trees = {"before": arguments.before, "now": HERE} if arguments.before else {"now": HERE}
    for tree in trees.values():
        once(tree, query, several)
    rounds = [{name: once(tree, query, several) for name, tree in trees.items()} for _ in range(arguments.times)]
    print("| command | tree | sign of life, s | end, s | CPU, s |\n|---|---|---:|---:|---:|")
    for command in rounds[0]["now"]:
        for tree in trees:
            medians = (statistics.median(found[tree][command][place] for found in rounds) for place in range(3))
            print(f"| {command} | {tree} | {' | '.join(f'{seconds:.2f}' for seconds in medians)} |")


if __name__ == "__main__":
    main()

"""The wait for a sign of life on the terminal, and for the result of a single query.

    python benchmarks/start.py --model gpt2 --data BEAR --relation P36 [--before FOLDER] [--times 3]

*before* is the source tree of another commit: both are asked in turns, and the best of each is shown, by the clock. One
run of each before that is not counted, so that the system has all files in memory.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent.parent


def once(tree: Path, words: list[str]) -> tuple[float, float]:
    """Seconds to the first sign on standard error, a terminal, and to the end."""
    terminal, end = pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fathom", "probe", "statement", *words, "--out", f"{folder}/run"]
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(tree / "src")}, stdout=subprocess.DEVNULL, stderr=end
        )
        os.close(end)
        os.read(terminal, 1)
        sign = time.perf_counter() - began
        while process.poll() is None:
            try:
                os.read(terminal, 4096)
            except OSError:  # what the terminal gives when its other end is closed
                break
        assert process.wait() == 0, "fathom failed: ask without the benchmark to see why"
    return sign, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--relation", required=True)
    parser.add_argument("--before", type=Path, default=None)
    parser.add_argument("--times", type=int, default=3)
    chosen = parser.parse_args()
    words = ["--model", chosen.model, "--data", chosen.data, "--relations", chosen.relation]
    words += ["--templates", "0", "--limit", "1"]
    trees = {"now": HERE} | ({"before": chosen.before} if chosen.before else {})
    for tree in trees.values():
        once(tree, words)
    found = [{name: once(tree, words) for name, tree in trees.items()} for _ in range(chosen.times)]
    print("| tree | sign of life, s | result, s |\n|---|---:|---:|")
    for name in trees:
        sign, whole = (min(run[name][place] for run in found) for place in (0, 1))
        print(f"| {name} | {sign:.1f} | {whole:.1f} |")


if __name__ == "__main__":
    main()

"""What screening saves: one model asked in float32, and by a rough copy first, in turns in one run.

    python benchmarks/screening.py --model MODEL --data BEAR [--relations P36] [--templates 0] [--screen bfloat16]
        [--probe statement] [--limit N] [--max-rank K] [--top-k K] [--rounds 3]

Both are loaded and have answered two queries before anything is timed. Prints the seconds of each, the share of answers
that were scored again in float32, and how many ranks, first answers and lists of the best differ (none should). It pays
where the processor multiplies bfloat16 faster than float32: a GPU, or a CPU with AVX-512 BF16 or AMX. Others emulate
it, and are slower with it than without.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import fathom
from fathom.models.base import Model
from fathom.models.loading import load

DECIDED = ("rank", "rank_optimistic", "rank_pessimistic", "top_ids", "rank_above", "unscored")


NAMES = ("relations", "templates", "limit", "max_rank", "top_k")


def asked(folder: Path, model: Model, given: argparse.Namespace, **other: object) -> tuple[float, dict, dict]:
    """Seconds of asking, predictions, and what was noted."""
    options = {name: getattr(given, name) for name in NAMES if getattr(given, name) is not None} | other
    began = time.perf_counter()
    result = fathom.probe(given.probe, model, given.data, folder, progress=False, **options)
    return time.perf_counter() - began, result.table().to_pydict(), result.folder.manifest["circumstances"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--probe", default="statement")
    parser.add_argument("--relations", default=None)
    parser.add_argument("--templates", default=None)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--max-rank", type=int, default=None)
    parser.add_argument("--top-k", type=int, default=None)
    parser.add_argument("--screen", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are printed")
    given = parser.parse_args()
    plain, screened = load(given.model), load(given.model, screen=given.screen)
    seconds: dict[str, list[float]] = {"plain": [], "screened": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in (("plain", plain), ("screened", screened)):
            asked(Path(folder) / f"{name}-first", model, given, limit=2)  # imports, and the model's self-checks
        for number in range(given.rounds):
            took, expected, _ = asked(Path(folder) / f"plain-{number}", plain, given)
            seconds["plain"].append(took)
            took, found, noted = asked(Path(folder) / f"screened-{number}", screened, given)
            seconds["screened"].append(took)
    differing = {name: sum(a != b for a, b in zip(expected[name], found[name], strict=True)) for name in DECIDED}
    print("| predictions | float32, s | screened, s | times as fast | scored again | ranks or lists that differ |")
    print("|---:|---:|---:|---:|---:|---:|")
    again, ours, rough = noted["scored_again"] / noted["screened"], *(median(own) for own in seconds.values())
    differ = sum(differing.values())
    print(f"| {len(expected['rank']):,} | {ours:.2f} | {rough:.2f} | {ours / rough:.2f} | {again:.1%} | {differ} |")


if __name__ == "__main__":
    main()

"""What screening saves: one model asked in float32, and by a rough copy first, in turns in one run.

    python benchmarks/screening.py --model MODEL --data BEAR [--relations P36] [--templates 0] [--screen bfloat16]
        [--probe statement] [--limit N] [--max-rank K]

Prints the seconds of each, the share of answers that were scored again in float32, and how many ranks, first answers
and lists of the best differ (none should). It pays where the processor multiplies bfloat16 faster than float32: a GPU,
or a CPU with AVX-512 BF16 or AMX. Others emulate it, and are slower with it than without.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import fathom
from fathom.models.loading import load

DECIDED = ("rank", "rank_optimistic", "rank_pessimistic", "top_ids", "rank_above", "unscored")


def asked(folder: str, screen: str | None, given: argparse.Namespace) -> tuple[float, dict, dict]:
    """Seconds of asking, predictions, and what was noted."""
    loaded = load(given.model, screen=screen)
    names = ("relations", "templates", "limit", "max_rank")
    options = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    began = time.perf_counter()
    result = fathom.probe(given.probe, loaded, given.data, Path(folder) / str(screen), progress=False, **options)
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
    parser.add_argument("--screen", default="bfloat16")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, expected, _ = asked(folder, None, given)
        screened, found, noted = asked(folder, given.screen, given)
    differing = {name: sum(a != b for a, b in zip(expected[name], found[name], strict=True)) for name in DECIDED}
    print("| predictions | float32, s | screened, s | scored again | ranks or lists that differ |")
    print("|---:|---:|---:|---:|---:|")
    again = noted["scored_again"] / noted["screened"]
    print(f"| {len(expected['rank']):,} | {plain:.1f} | {screened:.1f} | {again:.1%} | {sum(differing.values())} |")


if __name__ == "__main__":
    main()

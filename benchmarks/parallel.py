"""The gain of several processes and the cost of Ray, in turns; every process has one thread.

A run's seconds are those of evaluation, from the first shard's start to the last one's end (times of files), and of
all, from the command's start to its end. The load of the machine is printed with each line; the best of the rounds is
compared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness import DATA, benchmark, network, scratch, tokenizer

KINDS = {
    "one": [()],
    "ray-1": [("--engine", "ray", "--workers", "1")],
    "ray-2": [("--engine", "ray", "--workers", "2")],
    "parts-2": [("--part", "1/2"), ("--part", "2/2")],
}
"""Name → the options of each of its processes."""
STUDY_KINDS = {
    "one": [()],
    "processes-2": [("--workers", "2")],
    "ray-1": [("--engine", "ray", "--workers", "1")],
    "ray-2": [("--engine", "ray", "--workers", "2")],
    "parts-2": [("--part", "1/2"), ("--part", "2/2")],
}
PLAN = """
data: {graph: {data: graph, worlds: [base, anonymised-er]}}
runs:
  TransE: &long {predictor: TransE, epochs: 100, patience: null, validate_every: 50, matrix: {seed: [0, 1]}}
  ComplEx: {<<: *long, predictor: ComplEx}
studies: [memory]
"""


class ShardTimes(NamedTuple):
    """:param asking: seconds from the first shard to the last.
    :param all: seconds from start to end.
    :param load: of the machine at the end, one minute's.
    """

    asking: float
    all: float
    load: float


def run_all(kind: str, *called: tuple[str, ...]) -> float:
    """Run ``fathom`` in each process of a kind. :returns: seconds until the last has ended."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    begun = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, "-m", "fathom", "--quiet", *call], env=environment, stdout=subprocess.DEVNULL)
        for call in called
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"{kind} failed")
    return time.perf_counter() - begun


def probe(kind: str, model: Path, out: Path, asked: list[str]) -> ShardTimes:
    call = ("probe", "statement", "--model", str(model), "--out", str(out), *asked)
    took = run_all(kind, *((*call, *more) for more in KINDS[kind]))
    ends = [file.stat().st_mtime for file in (out / "predictions").iterdir()]
    return ShardTimes(max(ends) - (out / "queries.parquet").stat().st_mtime, took, os.getloadavg()[0])


def study(kind: str, plan: Path, out: Path) -> ShardTimes:
    took = run_all(kind, *(("plan", str(plan), "--out", str(out), *more) for more in STUDY_KINDS[kind]))
    ends = [file.stat().st_mtime for file in out.glob("runs/**/*")]
    return ShardTimes(max(ends) - (out / "plan.json").stat().st_mtime, took, os.getloadavg()[0])


@benchmark
def parallel(
    kinds: tuple[str, ...] = tuple(KINDS), rounds: int = 3, limit: int = 300, layers: int = 12, width: int = 768
) -> None:
    """Time the statement probe on a sample of BEAR by one process, by Ray's workers and by parts."""
    options = ["--data", str(DATA / "bear" / "BEAR"), "--limit", str(limit), "--templates", "0"]
    with scratch() as folder:
        model = folder / "model"
        network("GPT2LMHeadModel", n_layer=layers, n_embd=width, n_head=width // 64).save_pretrained(model)
        tokenizer("gpt2").save_pretrained(model)
        took: dict[str, list[ShardTimes]] = {kind: [] for kind in kinds}
        in_rounds(rounds, folder, took, lambda kind, out: probe(kind, model, out, options), same_predictions)


@benchmark
def parallel_study(kinds: tuple[str, ...] = tuple(STUDY_KINDS), rounds: int = 3) -> None:
    """Time the cells of a study of link predictors by one process, by several, by Ray's workers and by parts.

    Eight cells (TransE and ComplEx, 100 epochs, in two worlds with two seeds) on 1,000 entities of WN18RR; a cell is
    trained and evaluated, and its files are compared bit for bit.
    """
    with scratch() as folder:
        (folder / "plan.yaml").write_text(PLAN)
        graph = ("data", "sample", str(DATA / "wn18rr"), "--entities", "1000", "--out", str(folder / "graph"))
        run_all("sample", graph)
        took: dict[str, list[ShardTimes]] = {kind: [] for kind in kinds}
        in_rounds(rounds, folder, took, lambda kind, out: study(kind, folder / "plan.yaml", out), same_cells)


def in_rounds(
    rounds: int,
    folder: Path,
    took: dict[str, list[ShardTimes]],
    measure: Callable[[str, Path], ShardTimes],
    same: Callable[[Path, Path], None],
) -> None:
    """Each kind in turn, and the best of each at the end. :raises SystemExit: two have made different files."""
    first = None
    for number in range(rounds):
        for kind, every in took.items():
            out = folder / f"{kind}-{number}"
            last = measure(kind, out)
            every.append(last)
            print(f"{kind}: asking {last.asking:.1f} s, all {last.all:.1f} s, load {last.load:.1f}", flush=True)
            first = first or out
            same(first, out)
    best = {kind: min(one.asking for one in every) for kind, every in took.items()}
    whole = {kind: min(one.all for one in every) for kind, every in took.items()}
    for kind in took:
        print(
            f"{kind:11} asking {best[kind]:7.1f} s, {best['one'] / best[kind]:.2f} × one; "
            f"all {whole[kind]:7.1f} s, {whole['one'] / whole[kind]:.2f} × one"
        )


def same_predictions(first: Path, other: Path) -> None:
    from fathom.store.folder import RunFolder

    if not RunFolder.open(first).predictions().equals(RunFolder.open(other).predictions()):
        raise SystemExit(f"{other.name} has other predictions than {first.name}")


def same_cells(first: Path, other: Path) -> None:
    """Weights, questions and predictions of every cell."""
    kept = [
        {
            file.relative_to(out): file.read_bytes()
            for file in out.rglob("*")
            if file.suffix in (".safetensors", ".parquet")
        }
        for out in (first, other)
    ]
    if not kept[0] or kept[0] != kept[1]:
        raise SystemExit(f"{other.name} has other cells than {first.name}")


@benchmark
def parallel_writes() -> None:
    """Time each step that runs once per shard and does not become faster with more workers."""
    from fathom.store.folder import RunFolder
    from fathom.store.locks import shared_folder
    from fathom.store.predictions import as_table

    with scratch(Path.cwd()) as place:
        folder = RunFolder(place / "run")
        plan = [f"{number:05d}" for number in range(2000)]
        table = as_table([])
        folder.start({"probe": "x", "model": {"name": "m"}, "data": {"name": "d"}}, plan, table, table)
        rows = as_table([_row(number) for number in range(128)])
        print(f"a shard's table, {rows.nbytes / 2**20:.1f} MiB: {ms(lambda: folder.add_shard('00000', rows)):.1f} ms")
        print(f"its circumstances: {ms(lambda: folder.add_circumstances(seconds=1.0)):.1f} ms")
        for shard in plan:
            folder.file_of(shard).touch()
        print(f"looking which of {len(plan):,} are finished: {ms(folder.finished):.1f} ms")
        with shared_folder(folder.path) as claims:

            def claim() -> None:
                with claims.claimed("00000"):
                    pass

            print(f"a claim, taken and given up: {ms(claim):.2f} ms")


def _row(number: int) -> dict[str, object]:
    """Return the row of a query with 64 candidates."""
    scores = [-float(place) - number / 7 for place in range(64)]
    return {"query_id": f"q{number}", "template": 0, "scoring": "sum/full", "prompt": "x" * 60, "rank": 1.0} | {
        "scores": scores, "top_scores": scores[:10], "top_ids": [f"Q{place}" for place in range(10)]
    }  # fmt: skip


def ms(step: Callable[[], object], times: int = 50) -> float:
    """Median milliseconds."""

    def once() -> float:
        begun = time.perf_counter()
        step()
        return time.perf_counter() - begun

    return 1000 * statistics.median(once() for _ in range(times))

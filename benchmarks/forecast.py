"""Estimates before a run next to the runs: time and peak memory of ``--dry-run``."""

from __future__ import annotations

import time
from pathlib import Path

from harness import DATA, Table, benchmark, fathom_command, network, own_process, peak, scratch, tokenizer

BEAR = str(DATA / "bear" / "BEAR")
RUNS = (
    ("statement", "planted-causal", "geography", {"templates": "0"}),
    ("statement", "planted-masked", "geography", {"templates": "0", "limit": 300}),
    ("cloze", "planted-masked", "geography", {}),
    ("choice", "planted-masked", "geography", {}),
    ("generation", "planted-causal", "geography", {}),
    ("statement", "gpt2", BEAR, {"limit": 20, "templates": "0"}),
    ("vocabulary", "gpt2", "geography", {}),
    ("embedding", "gpt2", BEAR, {"limit": 500}),
)


@benchmark
def forecast() -> None:
    """Estimate and make eight runs of planted models and of GPT-2-small's shape, each in a process of its own."""
    table = Table("probe", "model", "data", "minutes: estimate", "run", "ratio", "GB: estimate", "run", "ratio")
    with scratch() as folder:
        for kind in ("causal", "masked"):
            fathom_command("plant", "--kind", kind, "--out", folder / f"planted-{kind}")
        network("GPT2LMHeadModel").save_pretrained(folder / "gpt2")
        tokenizer("gpt2").save_pretrained(folder / "gpt2")
        for number, (probe, model, data, _) in enumerate(RUNS):
            steps = ("_estimate", "_make")
            (seconds, memory), (took, used) = (
                map(float, own_process(step, "--number", number, "--folder", folder, output=True).split()[-2:])
                for step in steps
            )
            cells = (f"{seconds / 60:.2f}", f"{took / 60:.2f}", f"{seconds / took:.2f}")
            more = (f"{memory:.2f}", f"{used:.2f}", f"{memory / used:.2f}")
            table.row(probe, model, Path(data).name, *cells, *more)


@benchmark
def _estimate(number: int, folder: Path) -> None:
    """Print the estimated seconds and GB of a run."""
    import fathom

    probe, model, data, options = RUNS[number]
    found = fathom.forecast(probe, folder / model, data, progress=False, **options)
    print(found.seconds, (found.memory or 0) / 1e9)


@benchmark
def _make(number: int, folder: Path) -> None:
    """Print the seconds and peak GB of a run, libraries loaded before."""
    import fathom
    import fathom.models.loading

    probe, model, data, options = RUNS[number]
    began = time.perf_counter()
    fathom.probe(probe, folder / model, data, folder / f"run-{number}", progress=False, **options)
    print(time.perf_counter() - began, peak() * 2**30 / 1e9)

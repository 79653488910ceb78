"""Estimates before a run next to the runs: time and peak memory of ``--dry-run``."""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness import DATA, Table, benchmark, fathom_command, network, own_process, peak, scratch, tokenizer

BEAR = str(DATA / "bear" / "BEAR")
RUNS = (
    ("statement", "planted-causal", "geography", {"templates": "0"}),
    ("generation", "planted-causal", "geography", {}),
    ("statement", "planted-masked", "geography", {"templates": "0", "limit": 40}),
    ("cloze", "planted-masked", "geography", {}),
    ("choice", "planted-masked", "geography", {}),
    ("vocabulary", "gpt2", "geography", {"limit": 300}),
    ("statement", "gpt2", BEAR, {"limit": 8, "templates": "0"}),
    ("embedding", "gpt2", BEAR, {"limit": 60}),
)


@benchmark
def forecast(models: Path | None = None) -> None:
    """Estimate and make eight runs of planted models and of GPT-2-small's shape, each in a process of its own.

    Times are of the processor, with one thread, so that a busy machine affects neither; for a run, libraries are loaded
    before. models: a folder with planted-causal, planted-masked and gpt2, made if it is missing.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    table = Table("probe", "model", "data", "s: estimate", "s: run", "ratio", "GB: estimate", "GB: run", "ratio")
    with scratch() as temporary:
        folder = models or temporary
        for kind in ("causal", "masked"):
            if not (folder / f"planted-{kind}").exists():
                fathom_command("plant", "--kind", kind, "--out", folder / f"planted-{kind}")
        if not (folder / "gpt2").exists():
            network("GPT2LMHeadModel").save_pretrained(folder / "gpt2")
            tokenizer("gpt2").save_pretrained(folder / "gpt2")
        for number, (probe, model, data, _) in enumerate(RUNS):
            where = ("--number", number, "--folder", folder)
            found = (own_process(step, *where, output=True).split()[-2:] for step in ("_estimate", "_make"))
            (seconds, memory), (took, used) = (map(float, words) for words in found)
            times = (f"{seconds:.1f}", f"{took:.1f}", f"{seconds / took:.2f}")
            table.row(probe, model, Path(data).name, *times, f"{memory:.2f}", f"{used:.2f}", f"{memory / used:.2f}")


@benchmark
def _estimate(number: int, folder: Path) -> None:
    """Print the estimated seconds and GB of a run."""
    from fathom.data.formats import read
    from fathom.probes import PROBES
    from fathom.probes.run.forecast import Forecaster

    probe, model, data, options = RUNS[number]
    entry = PROBES.find(probe)
    found = Forecaster(time.process_time).forecast(entry, str(folder / model), read(data), entry.options(**options))
    print(found.seconds, (found.memory or 0) / 1e9)


@benchmark
def _make(number: int, folder: Path) -> None:
    """Print the seconds and peak GB of a run."""
    import fathom
    import fathom.probes.run.setup  # loads the libraries

    probe, model, data, options = RUNS[number]
    with scratch() as out:
        began = time.process_time()
        fathom.probe(probe, folder / model, data, out / "run", progress=False, **options)
        print(time.process_time() - began, peak() * 2**30 / 1e9)

"""SimKGC on a whole graph with encoders of BERT-base's shape and random weights, in calls of a few minutes.

python benchmarks/simkgc_full.py --data wn18rr --tokenizer bert-base-uncased --out full [--minutes 9] [--epochs 10]

--tokenizer: a folder with BERT's vocab.txt. Each call goes on where the last one's checkpoint was and ends after
--minutes at the latest; the same command, again and again, ends with the numbers of the test triples. What a call
prints: triples per second, memory of the GPU, and how long the rest would take at that speed. On a GPU give --precision
bfloat16; on a processor a call shows an epoch's share.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

import fathom
from fathom.formats import read

CHECKPOINTS = 4
"""In a call: what a stop loses is no more than a quarter of it."""


class OutOfTime(Exception):
    """The call has had its minutes."""


def bert_base(tokenizer: Path, folder: Path) -> Path:
    """Of random weights by a fixed seed."""
    if not (folder / "config.json").exists():
        words = BertTokenizerFast.from_pretrained(tokenizer)
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=len(words))).save_pretrained(folder)
        words.save_pretrained(folder)
    return folder


class Clock:
    """Counts triples, and ends the call in time."""

    def __init__(self, minutes: float) -> None:
        self.begun, self.until = time.monotonic(), time.monotonic() + 60 * minutes
        self.first: tuple[float, int] | None = None
        self.last = self.total = 0

    def __call__(self, done: int, total: int) -> None:
        """After each step. :raises OutOfTime: the minutes are over."""
        now = time.monotonic()
        self.first = self.first or (now, done)
        self.last, self.total = done, total
        if now > self.until:
            raise OutOfTime

    def steps_per_second(self) -> float:
        """Since the first step of the call, without what loading took."""
        assert self.first is not None
        return (self.last - self.first[1]) / max(time.monotonic() - self.first[0], 1e-9)


def report(clock: Clock, triples: int, epochs: int, precision: str) -> None:
    """What the call did."""
    if clock.first is None or clock.last == clock.first[1]:
        print("fewer than two steps: give more --minutes, or a smaller --batch-size")
        return
    per_second = clock.steps_per_second() * triples * epochs / clock.total
    rest = (clock.total - clock.last) / max(clock.steps_per_second(), 1e-9)
    print(f"{clock.last:,} of {clock.total:,} steps, {clock.last / clock.total * epochs:.2f} of {epochs} epochs")
    speed = f"{per_second:,.{1 if per_second > 1 else 3}f} triples per second, {precision}"
    print(f"{speed}; the rest would take {rest / 60:,.1f} minutes")
    if torch.cuda.is_available():
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on {torch.cuda.get_device_name()}")


def main() -> None:
    """One call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "tokenizer", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16", "float16"))
    given = parser.parse_args()
    graph = read(given.data)
    assert graph.graph is not None
    clock = Clock(given.minutes)
    options: dict[str, Any] = {
        "weights": str(bert_base(given.tokenizer, given.out / "bert")),
        "epochs": given.epochs,
        "batch_size": given.batch_size,
        "precision": given.precision,
        "checkpoint_minutes": given.minutes / CHECKPOINTS,
    }
    try:
        ended = fathom.train_links("simkgc", graph, given.out / "model", clock, **options)["ended"]
        report(clock, len(graph.graph.training), given.epochs, given.precision)
        print(json.dumps(ended))
        result = fathom.evaluate_links(given.out / "model", graph, given.out / "run", Clock(given.minutes))
        print(result.summary().to_text())
    except OutOfTime:
        report(clock, len(graph.graph.training), given.epochs, given.precision)
        print("out of time: the same command goes on")


if __name__ == "__main__":
    main()

"""The ontology probe beside a loop of one forward pass per candidate, and the time that a learnt template takes.

    python benchmarks/ontology.py type --items 100 --loop 1 --candidates 100   # both extrapolated to 500 and 783
    python benchmarks/ontology.py table --limit 40              # passes of the whole memorising table, counted
    python benchmarks/ontology.py soft --hidden 128             # 100 epochs on 10 items, 4 layers

BERT-base shape (``soft``: 4 layers) with random weights and bert-base-cased's tokenizer. The loop masks as many tokens
as the candidate has, runs the network on that one sequence, and reads the candidate's tokens off the whole soft-max.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from cloze import by_loop
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from fathom.data.selection.filters import Selection, select
from fathom.formats import read
from fathom.models.base import Attention, Identity
from fathom.models.local import LocalModel
from fathom.probes.ontology_options import OntologyOptions
from fathom.run import run
from fathom.store.folder import RunFolder

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
WAYS = {"masks": ("several", "one"), "reduction": ("mean", "max", "first")}


def bert(hidden: int = 768, layers: int = 12) -> LocalModel:
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(DATA / "tokenizers" / "bert-base-cased", do_lower_case=False)
    shape = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_attention_heads": hidden // 64}
    network = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers, **shape))
    return LocalModel(network, tokenizer, Attention.BIDIRECTIONAL, Identity("bert shape", None, "float32", "0"))


def asked(model: LocalModel, folder: str, options: OntologyOptions) -> tuple[float, float, RunFolder]:
    """Seconds on the clock, seconds of the processor, and the run."""
    data = read(DATA / "ontoprobe")
    clock, processor = time.perf_counter(), time.process_time()
    made = run("ontology", model, data, options, Path(folder) / "run")
    return time.perf_counter() - clock, time.process_time() - processor, made


def type_task(items: int, looped: int, candidates: int) -> None:
    """:param candidates: of the 783, drawn by lot, are looped over; their share of the time is that of their number."""
    model = bert()
    options = OntologyOptions(relations=("type",), templates=(0,), limit=items, batch_tokens=2048)
    with tempfile.TemporaryDirectory() as folder:
        clock, processor, made = asked(model, folder, options)
        rows = {row["query_id"]: row for row in made.predictions().to_pylist()}
        passes = made.manifest["circumstances"]["sequences"]
    data = select(read(DATA / "ontoprobe"), options.selection()).data
    whole = data.candidates["classes"]
    places = sorted(random.Random(0).sample(range(len(whole)), min(candidates, len(whole))))
    share = len(places) / len(whole)
    start = time.process_time()
    seconds, scores = by_loop(model, replace(data, candidates={"classes": whole.keep(places)}), looped)
    seconds, theirs = seconds / share, (time.process_time() - start) / looped / share
    worst = max(float(np.abs(np.array(rows[id_]["scores"])[places] - own).max()) for id_, own in scores.items())
    count = len(rows)
    timed = f"{looped} × {len(places)} timed, extrapolated"
    print(f"{count} items, {len(whole)} classes, {passes} sequences run instead of {count * len(whole)}")
    print("| | s/item | processor, s/item | 500 items, s of the processor |")
    print(f"| fathom probe ontology | {clock / count:.3f} | {processor / count:.3f} | {500 * processor / count:.0f} |")
    print(f"| one pass per candidate ({timed}) | {seconds:.2f} | {theirs:.2f} | {500 * theirs:.0f} |")
    print(f"times: {seconds / (clock / count):.0f} on the clock, {theirs / (processor / count):.0f} of the processor")
    print(f"largest difference of a score: {worst:.1e} nats")


def table(limit: int) -> None:
    """Five tasks, two mask modes, three poolings, all templates: passes and seconds for one way and for all six."""
    model = bert()
    asks = select(read(DATA / "ontoprobe"), Selection(subset="test", limit=limit)).data.queries
    for name, ways in (("several masks, mean", {}), ("six ways", WAYS)):
        with tempfile.TemporaryDirectory() as folder:
            clock, processor, made = asked(model, folder, OntologyOptions(limit=limit, **ways))
            rows, noted = len(made.predictions()), made.manifest["circumstances"]
        print(f"| {name} | {len(asks)} items | {rows} rows | {noted['sequences']} sequences | {clock:.1f} s | ", end="")
        print(f"{processor:.1f} s of the processor |")


def soft(hidden: int, epochs: int) -> None:
    model = bert(hidden, layers=4)
    options = OntologyOptions(soft=True, relations=("type",), limit=1, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        clock, processor, _ = asked(model, folder, options)
    print(f"| 4 layers of {hidden} | {epochs} epochs | {clock:.1f} s | {processor:.1f} s of the processor |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["type", "table", "soft"])
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=783, help="classes to time the loop on")
    parser.add_argument("--loop", type=int, default=1, help="items to time the loop on")
    parser.add_argument("--limit", type=int, default=40, help="table: items of all tasks together, drawn by lot")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=100)
    chosen = parser.parse_args()
    if chosen.what == "type":
        type_task(chosen.items, chosen.loop, chosen.candidates)
    elif chosen.what == "table":
        table(chosen.limit)
    else:
        soft(chosen.hidden, chosen.epochs)


if __name__ == "__main__":
    main()

"""The study of memory on weights whose memory is known: those contaminated with test triples, and shams."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import yaml
from harness import DATA, FATHOM, Table, benchmark

from fathom.data.formats import read
from fathom.data.formats.kg import write_graph
from fathom.data.knowledge import KnowledgeGraph, consecutive
from fathom.data.sample import sample_graph

ENTITIES = 150
"""Of WN18RR, with all links between them."""
HELD_OUT = {"test": 50, "dev": 10}
TRIPLES = 150
WEIGHTS = {"contaminated": ("--seed", "0"), "sham": ("--seed", "0", "--sham"), "other": ("--seed", "1", "--sham")}
"""How weights are made. The other sham is judged like the contaminated ones, with the first as its control."""
CONTROLS = {"contaminated": "sham", "other": "sham"}
SMALL = ("--kind", "masked", "--data", "graph", "--max-texts", "6000", "--hidden-size", "64", "--layers", "2")
"""A small encoder that learns words from WordNet's definitions, and no answer."""
PRETRAINING = ("--kind", "contrastive", "--data", "graph", "--contaminate", "test", "--batch-tokens", "384")
PREDICTOR = {
    "predictor": "simkgc",
    "seed": 0,
    "descriptions": False,
    "epochs": 4,
    "batch_size": 64,
    "learning_rate": 1e-4,
    "max_tokens": 24,
    "self_negatives": False,
    "neighbour_names": 0,
    "validate_on": 10,
}
SMALL_RATE = 0.002
"""Learning rate of a small encoder; this and its predictor's options were chosen on seed 0."""
SMALL_PREDICTOR = PREDICTOR | {"epochs": 10, "learning_rate": 1e-3}


def drawn_graph(seed: int) -> KnowledgeGraph:
    """Draw a part of WN18RR, split anew: training knows both entities of each held-out triple, and no link of them."""
    source = read(DATA / "wn18rr").graph
    assert source is not None
    part = sample_graph(source, ENTITIES, seed).graph
    drawn = random.Random(seed).sample(range(len(part)), len(part))
    ends = {row: (int(part.head[row]), int(part.tail[row])) for row in drawn}
    one_each = {frozenset(ends[row]): row for row in drawn}  # an inverse would state the answer
    rows = list(one_each.values())[:TRIPLES]
    occurs = Counter(end for row in rows for end in ends[row])
    splits: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for row in rows:
        split = next((name for name, size in HELD_OUT.items() if len(splits[name]) < size), "train")
        if split != "train" and min(occurs[end] for end in ends[row]) > 1:
            occurs.subtract(ends[row])
        else:
            split = "train"
        splits[split].append(row)
    order = np.array([row for some in splits.values() for row in some])
    columns = [column[order] for column in (part.head, part.relation, part.tail)]
    sizes = consecutive({name: len(some) for name, some in splits.items()})
    return KnowledgeGraph.from_used(part.entities, part.relations, columns, sizes)


@benchmark
def contamination(
    model: str = "all-MiniLM-L6-v2",
    small: bool = False,
    seeds: int = 10,
    first: int = 0,
    out: Path = Path("build/contamination"),
) -> None:
    """Find test triples that weights have read: contaminated weights remember answers, shams do not.

    Each seed has a graph of its own, 150 triples of WN18RR of which 50 are tested on, and weights of its own. What is
    finished in --out stays, so that a second call goes on. --small: instead of --model, a small encoder made for each
    seed. --first: of the seeds.
    """
    table = Table("seed", "verdict on", "Hits@10", "of its control", "says")
    found = Counter(dict.fromkeys(CONTROLS, 0))
    source = "small" if small else str(Path(model).resolve()) if Path(model).exists() else model
    rate = ("--learning-rate", str(SMALL_RATE)) if small else ()
    for seed in range(first, first + seeds):
        folder = out / (f"small-{seed}" if small else str(seed))
        if not (folder / "graph").exists():
            write_whole(drawn_graph(seed), folder / "graph")
        if small:
            texts = ("--texts", str(DATA / "wn18rr"), "--seed", str(seed))
            carry_out(folder, "kgc", "pretrain", *SMALL, *texts, "--out", source)
        for name, flags in WEIGHTS.items():
            carry_out(folder, "kgc", "pretrain", *PRETRAINING, *rate, "--from", source, "--out", name, *flags)
        write_plan(folder / "plan.yaml", SMALL_PREDICTOR if small else PREDICTOR)
        carry_out(folder, "plan", "plan.yaml", "--out", "plan")
        memory = json.loads((folder / "plan" / "studies" / "memory" / "memory.json").read_text(encoding="utf-8"))
        [cells] = (rows for title, rows in memory.items() if title.startswith("Hits@10 of every cell"))
        hits = {
            row["model"]: row["Hits@10"] for row in cells if (row["weights"], row["world"]) == ("pretrained", "base")
        }
        for name, control in CONTROLS.items():
            [sentence] = (line for line in memory["answer"] if line.startswith(f"{name} remembers answers: "))
            says = sentence.split(": ", 1)[1]
            table.row(seed, name, hits[name], hits[control], says)
            found[name] += says.startswith("significant")
    print(*(f"{name}: {count} of {seeds}" for name, count in found.items()), sep="\n")


def write_whole(graph: KnowledgeGraph, folder: Path) -> None:
    """Write a graph so that a folder of its name is complete."""
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    write_graph(graph, part)
    part.rename(folder)


def write_plan(file: Path, predictor: dict[str, str | float]) -> None:
    """Write a plan with two worlds, and one control for the contaminated weights and the other sham."""
    file.write_text(
        yaml.safe_dump(
            {
                "data": {"wn": {"data": "graph", "worlds": ["base", "anonymised-er"], "sought": "names"}},
                "runs": {
                    name: {**predictor, "weights": name}
                    | ({} if name == "contaminated" else {"random_from": "contaminated"})
                    for name in WEIGHTS
                },
                "studies": {"memory": {"controls": CONTROLS}},
            }
        ),
        encoding="utf-8",
    )


def carry_out(folder: Path, *line: str) -> None:
    """Carry out a command of Fathom in a folder; the same one again is quick. It stops with what a command says."""
    done = subprocess.run([*FATHOM, *line], cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)

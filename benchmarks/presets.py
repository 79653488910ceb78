"""The papers' presets, to their end, on the papers' data and with untrained models that have their tokenizers."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from harness import DATA, FATHOM, Table, benchmark
from tests.conftest import load_bert_cased, load_gpt2, load_roberta
from tests.prepared import write_shortened
from transformers import BertForMaskedLM, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerBase

from fathom.plans.claims import TITLE

MODELS = {
    "gpt2": (load_gpt2, GPT2LMHeadModel),
    "opt-1.3b": (load_gpt2, GPT2LMHeadModel),
    "bert-base-cased": (load_bert_cased, BertForMaskedLM),
    "roberta-base": (load_roberta, BertForMaskedLM),
}
"""Names of models of the papers, with the tokenizers of their families."""
PRESETS = {
    "bear": (
        ("gpt2", "bert-base-cased", "roberta-base"),
        {"bear": "bear/BEAR", "bear-big": "bear/BEAR-big", "trex": "lama/TREx"},
    ),
    "deer": (("opt-1.3b",), {"wn18rr": "wn18rr", "queries": "wn18rr", "fb15k237": "fb15k237", "bear": "bear/BEAR"}),
    "shaier2024": (
        ("bert-base-cased", "roberta-base"),
        {"google-re": "lama/Google_RE", "trex": "lama/TREx", "squad": "lama/Squad", "wikidata": "biomedical/biolama"},
    ),
    "sakai2024": (("bert-base-cased",), {"wn18rr": "wn18rr"}),
    "wu2023": (("bert-base-cased", "gpt2"), {"ontology": "ontoprobe", "questions": "ontoprobe/multiple_choice"}),
}
"""For each preset its models, and the data that are here."""
SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
"""Names that all configurations take."""


def write_untrained(
    folder: Path, load: Callable[[Path], PreTrainedTokenizerBase], kind: type[PreTrainedModel], seed: int
) -> Path:
    """Write a model of one layer."""
    tokenizer = load(DATA)
    torch.manual_seed(seed)
    kind(kind.config_class(vocab_size=len(tokenizer), **SMALL)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


COMPARED = ["base", "virtual-e", "virtual-er", "anonymised-e", "anonymised-er", "fully-anonymised-erd"]
"""Worlds that the claims of sakai2024 are about."""
TRANSE = {"learning_rate": 0.01, "negatives": 16, "epochs": 300}
NAMES_ALONE = {
    "descriptions": False,
    "neighbour_names": 0,
    "max_tokens": 24,
    "epochs": 3,
    "batch_size": 128,
    "learning_rate": 5e-4,
    "validate_on": 50,
    "precision": "float32",
}


def change(name: str, claims: bool, content: Any) -> None:
    """Shorten a preset that takes hours or days. :param claims: leave only what the claims compare."""
    if name == "wu2023":
        content["runs"]["learnt"]["epochs"] = content["studies"]["reasoning"]["epochs"] = 2
        for study in ("reasoning", "reasoning-causal"):
            content["studies"][study]["pairs"] = 2
    if name == "sakai2024":
        content["data"]["wn18rr"]["worlds"] = COMPARED
        content["runs"] = {
            "TransE": {"predictor": "TransE", "data": "wn18rr/base", **TRANSE},
            "simkgc": content["runs"]["simkgc"] | {"data": "wn18rr", **NAMES_ALONE},
        }
    for part in ("studies", "tables", "values") if claims else ():
        content.pop(part, None)


def small_graph(out: Path) -> Path:
    """Return a part of WN18RR with 500 entities and 57 test triples."""
    folder = out / "wn500"
    if not folder.exists():
        sample = ["data", "sample", DATA / "wn18rr", "--entities", "500", "--held-out-weight", "5", "--out", folder]
        subprocess.run([*FATHOM, *sample], check=True, capture_output=True)
    return folder


@benchmark
def presets(
    only: tuple[str, ...] = tuple(PRESETS),
    limit: int = 30,
    seeds: int = 1,
    claims: bool = False,
    out: Path = Path("build/presets"),
) -> None:
    """Carry out the papers' presets; count what tables say of the papers' numbers, and the outcomes of the claims.

    No untrained model agrees but by chance; numbers of tokenizers and of data may. At most one claim in twenty
    should hold, or be opposite. Two presets that take hours and days are shortened: wu2023 learns its templates for two
    epochs and has two pairs of nonce words, and sakai2024 is TransE and SimKGC on a part of WN18RR, in the worlds that
    its claims compare.

    --limit: queries of each run. --seeds: of the weights. --claims: without studies and tables, only what the claims
    compare. --out: where their folders and logs stay.
    """
    table = Table("preset", "seed", "seconds", "exit code", "tables", "against the paper", "claims", "says")
    out.mkdir(parents=True, exist_ok=True)
    for name, seed in product(only, range(seeds)):
        models, data = PRESETS[name]
        folder = out / name / str(seed)
        weights = [str(write_untrained(folder / model, *MODELS[model], seed)) for model in models]
        places = [f"{key}={small_graph(out) if name == 'sakai2024' else DATA / place}" for key, place in data.items()]
        preset = write_shortened(folder, name, partial(change, name, claims))
        line = [*FATHOM, "plan", preset, "--models", ",".join(weights), "--data", ",".join(places), "--device", "cpu"]
        begun = time.monotonic()
        said = subprocess.run(
            [*line, "--limit", str(limit), "--out", folder / "out"], capture_output=True, text=True, check=False
        )
        seconds = round(time.monotonic() - begun)
        folder.with_suffix(".log").write_text(said.stdout + said.stderr, encoding="utf-8")
        files = sorted((folder / "out" / "papers").glob("*.csv"))
        answers = folder / "out" / "claims.json"
        decided = json.loads(answers.read_text(encoding="utf-8"))[TITLE] if answers.exists() else []
        outcomes = Counter(row["outcome"] for row in decided)
        made = " ".join(file.stem for file in files)
        last = said.stderr.strip().splitlines()[-1:]
        table.row(name, seed, seconds, said.returncode, made, dict(compared(files)), dict(outcomes), *last)


def compared(files: list[Path]) -> Counter[str]:
    """Count what tables say of printed values: "agrees", "differs", "other data" …"""
    counted: Counter[str] = Counter()
    for file in files:
        with file.open(encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                counted.update(value for column, value in row.items() if "against paper" in column and value)
    return counted

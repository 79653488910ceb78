"""The papers' presets, to their end, on the papers' data and with untrained models that have their tokenizers."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
import yaml
from harness import DATA, FATHOM, Table, benchmark
from tests.conftest import load_bert_cased, load_gpt2, load_roberta
from transformers import BertForMaskedLM, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerBase

from fathom.plans.claims import TITLE
from fathom.plans.presets import find_preset

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


def shortened(name: str, epochs: int, folder: Path) -> str:
    """Return a preset, or a copy in *folder* of one that learns templates, which are trained for fewer epochs."""
    file = find_preset(name)
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    entries = [*content["runs"].values(), *content["studies"].values()]
    learnt = [entry for entry in entries if isinstance(entry, dict) and entry.get("soft")]
    if not learnt:
        return name
    for entry in learnt:
        entry["epochs"] = epochs
    shutil.copy(file.with_name(content["values"]), folder)
    copy = folder / file.name
    copy.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return str(copy)


@benchmark
def presets(
    only: tuple[str, ...] = tuple(PRESETS),
    limit: int = 30,
    seeds: int = 1,
    epochs: int = 2,
    out: Path = Path("build/presets"),
) -> None:
    """Carry out the papers' presets; count what tables say of the papers' numbers, and the outcomes of the claims.

    No untrained model agrees but by chance; numbers of tokenizers and of data may. At most one claim in twenty
    should hold, or be opposite. sakai2024, which trains link predictors for days, is not among them: tests carry it
    out on small graphs.

    --limit: queries of each run. --seeds: of the weights. --epochs: of learnt templates, which take hours with the
    paper's 100. --out: where their folders and logs stay.
    """
    table = Table("preset", "seed", "seconds", "exit code", "tables", "against the paper", "claims", "says")
    out.mkdir(parents=True, exist_ok=True)
    for name, seed in product(only, range(seeds)):
        models, data = PRESETS[name]
        folder = out / name / str(seed)
        weights = [str(write_untrained(folder / model, *MODELS[model], seed)) for model in models]
        places = [f"{key}={DATA / place}" for key, place in data.items()]
        preset = shortened(name, epochs, folder)
        line = [*FATHOM, "plan", preset, "--models", ",".join(weights), "--data", ",".join(places), "--device", "cpu"]
        begun = time.monotonic()
        said = subprocess.run(
            [*line, "--limit", str(limit), "--out", folder / "out"], capture_output=True, text=True, check=False
        )
        seconds = round(time.monotonic() - begun)
        folder.with_suffix(".log").write_text(said.stdout + said.stderr, encoding="utf-8")
        files = sorted((folder / "out" / "papers").glob("*.csv"))
        claims = folder / "out" / "claims.json"
        decided = json.loads(claims.read_text(encoding="utf-8"))[TITLE] if claims.exists() else []
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

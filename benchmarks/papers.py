"""The preset of a paper at real shape: random weights of GPT-2-small over a sample of every relation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harness import DATA, Table, benchmark, fathom_command, network, scratch, timed, tokenizer

SOURCES = {"bear": "bear/BEAR", "bear-big": "bear/BEAR-big"}


@benchmark
def papers(facts: int = 3, layers: int = 12, hidden: int = 768, out: Path | None = None) -> None:
    """Make all tables of the BEAR paper for a model of GPT-2-small's shape, and compare the time with its estimate.

    :param facts: of each relation, spread evenly over its answers; all answers stay candidates. T-REx, whose candidates
        are the answers of its facts, has eight times as many.
    :param out: folder of the sample, the model and the tables; the same command resumes.
    """
    with scratch() as temporary:
        folder = out or temporary
        for name, source in SOURCES.items():
            if not (folder / name).exists():
                sample_bear(DATA / source, folder / name, facts)
        if not (folder / "trex").exists():
            sample_trex(DATA / "lama", folder / "trex", 8 * facts)
        if not (folder / "random-gpt2").exists():
            network("GPT2LMHeadModel", n_layer=layers, n_embd=hidden).save_pretrained(folder / "random-gpt2")
            tokenizer("gpt2").save_pretrained(folder / "random-gpt2")
        places = ",".join(f"{name}={folder / name}" for name in (*SOURCES, "trex"))
        line = ("plan", "bear", "--models", folder / "random-gpt2", "--data", places, "--out", folder / "tables")
        estimate = re.search(r"about ([\d.,]+)\s+minutes", fathom_command(*line, "--dry-run"))
        _, took = timed(lambda: fathom_command(*line))
        table = Table("facts of each relation", "tables", "minutes: estimate", "minutes")
        made = len([*(folder / "tables" / "papers").glob("*.csv")])
        table.row(str(facts), str(made), estimate[1] if estimate else "–", f"{took.clock / 60:.1f}")


def spread(lines: list[str], number: int) -> list[str]:
    """Return some lines, evenly spaced."""
    return [lines[place * len(lines) // number] for place in range(min(number, len(lines)))]


def sample_bear(source: Path, folder: Path, number: int) -> None:
    """Write some facts of each relation with the answer space of all."""
    folder.mkdir(parents=True)
    metadata: dict[str, dict[str, Any]] = json.loads((source / "metadata_relations.json").read_text("utf-8"))
    for relation, entry in list(metadata.items()):
        file = source / f"{relation}.jsonl"
        if not file.exists():
            del metadata[relation]
            continue
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        answers = {row["obj_id"]: row["obj_label"] for row in rows}
        if "answer_space_ids" not in entry:
            entry |= {"answer_space_ids": [*answers], "answer_space_labels": [*answers.values()]}
        order = {id_: place for place, id_ in enumerate(entry["answer_space_ids"])}
        kept = spread([json.dumps(row | {"answer_idx": order[row["obj_id"]]}) for row in rows], number)
        (folder / file.name).write_text("\n".join(kept) + "\n", "utf-8")
    (folder / "metadata_relations.json").write_text(json.dumps(metadata), "utf-8")


def sample_trex(source: Path, folder: Path, number: int) -> None:
    """Write some facts of each relation and the templates."""
    from fathom.base.reading import read_text

    folder.mkdir(parents=True)
    (folder / "relations.jsonl").write_text((source / "relations.jsonl").read_text("utf-8"), "utf-8")
    for file in sorted((source / "TREx").glob("P*")):
        kept = spread(read_text(file).splitlines(), number)
        (folder / f"{file.name.partition('.')[0]}.jsonl").write_text("\n".join(kept) + "\n", "utf-8")

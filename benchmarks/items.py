"""Exchanged labels among facts that planted models have read: does the study of items rank them first?"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from harness import Table, benchmark, fathom_command, scratch

import fathom
from fathom.store.folder import RunFolder
from fathom.studies import items

EXPOSURES = ("20,40", "0,60", "40", "0,80", "0,40,100", "60", "40,80", "80")
"""Of the eight models: how often each part of the facts is read."""


def mislabel(source: Path, out: Path, count: int, seed: int) -> set[str]:
    """Copy data with another answer in *count* facts. :returns: subject and relation of these."""
    shutil.copytree(source, out)
    facts = [json.loads(line) for line in (source / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = [json.loads(line) for line in (source / "relations.jsonl").read_text(encoding="utf-8").splitlines()]
    candidates = {kind["relation"]: kind["candidates"] for kind in kinds}
    draw = random.Random(seed)
    wrong = draw.sample(facts, count)
    for fact in wrong:
        fact["answer"] = draw.choice([one for one in candidates[fact["relation"]] if one != fact["answer"]])
    (out / "facts.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    return {f"{fact['subject']}|{fact['relation']}" for fact in wrong}


@benchmark
def suspicious_items(keep: Path | None = None, people: int = 72, wrong: int = 5, seed: int = 0) -> None:
    """Evaluate eight planted models on the right data, and with *wrong* mislabelled facts, under three seeds.

    :param keep: folder of data, models and runs; what is there is not made again.
    """
    with scratch() as temporary:
        folder = keep or temporary
        data = folder / "people"
        if not data.exists():
            fathom_command("build", "invented", "--people", people, "--out", data)
        for number, exposures in enumerate(EXPOSURES, start=1):
            if not (model := folder / "models" / f"p{number}").exists():
                about = ("--together", "fact", "--exposures", exposures, "--unseen-templates", 9, "--seed", number)
                fathom_command("plant", "--kind", "causal", "--data", data, *about, "--out", model)
        table = Table(
            "labels", "in the first ten", "models for the first", "highest evidence", "same wrong answer", "p"
        )
        for name in ("right", *(f"{wrong} wrong, seed {seed + more}" for more in range(3))):
            used, planted = data, set[str]()
            if name != "right":
                shutil.rmtree(used := folder / "mislabelled", ignore_errors=True)
                planted = mislabel(data, used, wrong, int(name.rpartition(" ")[2]))
            runs = []
            for number in range(1, len(EXPOSURES) + 1):
                run = folder / "runs" / name.replace(" ", "-") / f"p{number}"
                options = {"model": str(folder / "models" / f"p{number}"), "data": str(used), "templates": (0,)}
                fathom.probe("statement", out=run, progress=False, **options)
                runs.append(RunFolder.open(run))
            found = items.analyse(runs)
            top = {row["fact"].rpartition("|")[0] for row in found.facts[:10]}
            first, shared = found.facts[0], found.shared_errors[0]
            models, evidence = f"{first['models for other']} of {first['models']}", f"{first['evidence']:.1f}"
            shares = f"{shared['same'].value:.1%}, {shared['expected']:.1%} expected"
            table.row(name, len(planted & top), models, evidence, shares, shared["same"].p_value)
        print(*items.conclude(found), sep="\n")

"""Every table of the BEAR preset."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.naive.intervals import SIGNED, Number, correlation, interval
from tests.naive.runs import Row, candidates, columns, hits, mean_of_facts, measure, per_fact, read_rows, scored
from tests.prepared import Prepared

Tables = list[list[Row]]
FULL = "sum/full"
TYPES = {"causal": "CLM", "masked": "MLM"}


class Naive:
    """:ivar out: folder of the plan."""

    def __init__(self, prepared: Prepared, out: Path) -> None:
        self.prepared, self.out, self.models = prepared, out, prepared.models

    def rows(self, run: str, scoring: str = FULL) -> list[Row]:
        return scored(read_rows(self.out / "runs" / run, scoring))

    def about(self, model: str, *names: str) -> Row:
        """Kind and number of parameters."""
        cells: Row = {"model": model, "type": TYPES[self.models[model]]}
        return {name: cells[name] if name in cells else parameters(self.prepared, model) for name in ("model", *names)}


def parameters(prepared: Prepared, model: str) -> int:
    weights = load_file(prepared.root / "models" / model / "model.safetensors")
    return sum(math.prod(one.shape) for one in weights.values())


def score(name: str, rows: list[Row], spread: bool = True, main: bool = False) -> Row:
    """Accuracy and its standard deviation over templates."""
    cells = columns(name, measure(rows, hits(1)), main)
    each = [fmean(map(hits(1), own)) for own in by_template(rows).values()]
    return cells | ({f"{name} ±": stdev(each)} if spread else {})


def by_template(rows: list[Row]) -> dict[int, list[Row]]:
    return {place: [row for row in rows if row["template"] == place] for place in {row["template"] for row in rows}}


def scores(naive: Naive, run: str, data: str) -> Tables:
    """Tables 3 and 4."""
    parts: Mapping[str, Callable[[Row], bool]] = {
        "BEAR": lambda row: True,
        "BEAR 1:1": lambda row: row["groups"]["cardinality"] == "1:1",
        "BEAR 1:N": lambda row: row["groups"]["cardinality"] == "1:N",
    }
    table = []
    for model in naive.models:
        rows, cells = naive.rows(f"{run}/{model}/{data}"), naive.about(model, "type", "parameters")
        for name, of in parts.items():
            cells |= score(name, [row for row in rows if of(row)])
        table.append(cells)
    spaces, cells = candidates(naive.out / "runs" / run / model / data), {"model": "random"}
    for name, of in parts.items():
        own = {row["fact"]: 1 / len(spaces[row["candidates"]]) for row in rows if of(row)}
        cells |= columns(name, Number(fmean(own.values()))) | {f"{name} ±": None}
    return [[*table, cells | {"type": None, "parameters": None}]]


def figure_4(naive: Naive) -> Tables:
    return [
        [
            naive.about(model, "type", "parameters") | score("BEAR", naive.rows(f"bear/{model}/bear"), main=True)
            for model in naive.models
        ]
    ]


def ways(naive: Naive, about: Sequence[str], models: Sequence[str], **runs: tuple[str, str]) -> Tables:
    """Figures 6, 7 and 10: accuracy by ways of scoring."""
    table = []
    for model in models:
        cells = naive.about(model, *about)
        for name, (run, scoring) in runs.items():
            cells |= score(name, naive.rows(f"{run}/{model}/bear", scoring), spread=False)
        table.append(cells)
    return [table]


def figure_9(naive: Naive) -> Tables:
    cells: dict[tuple[str, str], Row] = {}
    for model in naive.models:
        for template, rows in by_template(naive.rows(f"bear/{model}/bear")).items():
            for relation in dict.fromkeys(row["relation"] for row in rows):
                row = cells.setdefault((relation, str(template)), {"relation": relation, "template": str(template)})
                row |= score(model, [one for one in rows if one["relation"] == relation], spread=False)
    return [[*cells.values()]]


def of_relations(naive: Naive, model: str) -> Iterator[tuple[str, list[Number], list[int]]]:
    """Each relation that BEAR and T-REx share: accuracies and numbers of facts in both."""
    sides = [naive.rows(f"{data}/{model}/{data}") for data in ("bear", "trex")]
    for relation in sorted({row["relation"] for row in sides[0]} & {row["relation"] for row in sides[1]}):
        own = [[row for row in side if row["relation"] == relation] for side in sides]
        values = [per_fact(side, hits(1)) for side in own]
        yield relation, [mean_of_facts(one, side) for one, side in zip(values, own, strict=True)], [*map(len, values)]


def figure_8(naive: Naive) -> Tables:
    table = []
    for model in naive.models:
        for relation, numbers, facts in of_relations(naive, model):
            cells = {"model": model, "relation": relation, "facts bear": facts[0], "facts trex": facts[1]}
            table.append(cells | columns("bear", numbers[0]) | columns("trex", numbers[1]))
    return [table]


def figure_5(naive: Naive) -> Tables:
    table = []
    for model in naive.models:
        relations = list(of_relations(naive, model))
        first, second = ([numbers[side].value or 0.0 for _, numbers, _ in relations] for side in (0, 1))
        cells = {"model": model, "relations": len(relations)}
        labels = range(len(relations))
        for name, values in (("bear", first), ("trex", second)):
            cells |= columns(name, interval([values], (0, 1), clusters=labels))
        change = interval([[a - b for a, b in zip(first, second, strict=True)]], SIGNED, clusters=labels)
        cells |= columns("difference", change, main=True, tested=True)
        table.append(cells | columns("Pearson r", correlation(first, second, clusters=labels)))
    return [table]


def facts_of(folder: Path) -> dict[str, list[Row]]:
    """Lines of each relation's file."""
    files = (file for file in sorted(folder.glob("P*.jsonl")))
    return {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


def table_1(naive: Naive) -> Tables:
    table: dict[str, Row] = {}
    for model in naive.models:
        tokenizer = Tokenizer.from_file(str(naive.prepared.root / "models" / model / "tokenizer.json"))
        shares = []
        for relation, lines in facts_of(naive.prepared.places["trex"]).items():
            counts = [len(tokenizer.encode(line["obj_label"], add_special_tokens=False).ids) for line in lines]
            shares.append(counts.count(1) / len(counts))
            table.setdefault(relation, {"relation": relation})[f"{model} one token"] = shares[-1]
        mean = table.setdefault("mean of relations", {"relation": "mean of relations"})
        mean[f"{model} one token"] = fmean(shares)
    rows = [row for relation, row in table.items() if relation != "mean of relations"]
    return [[*rows, table["mean of relations"]]]


def table_2(naive: Naive) -> Tables:
    table: dict[str, Row] = {}
    for data in ("trex", "bear-big", "bear"):
        lines = facts_of(naive.prepared.places[data])
        parts: dict[str, list[str]] = {"all": list(lines), "1:1": [], "1:N": []}
        for relation, own in lines.items():
            answers = [line["obj_label"] for line in own]
            parts["1:1" if len(set(answers)) == len(answers) else "1:N"].append(relation)
        if data == "trex":
            parts["all, --pool data (the cloze probe's default)"] = list(lines)
        for part, relations in parts.items():
            cells = table.setdefault(part, {"part": part})
            cells[f"{data} instances"] = sum(len(lines[relation]) for relation in relations)
            cells[f"{data} relations"] = len(relations)
            cells[f"{data} per relation"] = cells[f"{data} instances"] / max(1, len(relations))
    every = dict.fromkeys(name for row in table.values() for name in row)
    return [[dict.fromkeys(every) | row for row in table.values()]]


def table_5(naive: Naive) -> Tables:
    return [mistakes(naive, model) for model in naive.models]


def mistakes(naive: Naive, model: str) -> list[Row]:
    """The ten most confident predictions whose first answer is wrong."""
    run = f"bear/{model}/bear"
    names, found = candidates(naive.out / "runs" / run), []
    for row in naive.rows(run):
        top = max(row["scores"])
        weights = [math.exp(score - top) for score in row["scores"]]
        shares = [weight / sum(weights) for weight in weights]
        if hits(1)(row) == 0:
            found.append((-max(shares), row["query_id"], row["template"], row, shares))
    table = []
    for *_, row, shares in sorted(found, key=lambda one: one[:3])[:10]:
        ids, each = list(names[row["candidates"]]), row["scores"]
        first = min((place for place in range(len(ids)) if each[place] == max(each)), key=lambda place: ids[place])
        gold = max((ids.index(id_) for id_ in row["gold"]), key=lambda place: each[place])
        cells = {name: row[name] for name in ("scoring", "relation", "template")} | {"query": row["query_id"]}
        for name, place in (("first", first), ("gold", gold)):
            better, equal = (sum(op(one, each[place]) for one in each) for op in (float.__gt__, float.__eq__))
            text = row["prompt"].replace("[Y]", names[row["candidates"]][ids[place]])
            cells |= {f"{name}_rank": better + (equal + 1) / 2, f"{name}_probability": shares[place]}
            cells["first_answer" if name == "first" else "gold"] = text[0].upper() + text[1:]
        del cells["gold_probability"]
        entropy = -sum(share * math.log(share) for share in shares if share > 0)
        table.append(cells | {"gold_probability": shares[gold], "uncertainty": entropy / math.log(len(shares))})
    return table


TABLES: Mapping[str, Callable[[Naive], Tables]] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": lambda naive: scores(naive, "bear", "bear"),
    "table-4": lambda naive: scores(naive, "big", "bear-big"),
    "table-5": table_5,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": lambda naive: ways(
        naive, ["type"], list(naive.models), full=("bear", FULL), conditional=("bear", "sum/conditional")
    ),
    "figure-7": lambda naive: ways(
        naive, ["type"], list(naive.models), sum=("bear", FULL), mean=("bear", "mean/full")
    ),
    "figure-8": figure_8,
    "figure-9": figure_9,
    "figure-10": lambda naive: ways(
        naive, [], [model for model, kind in naive.models.items() if kind == "masked"],
        **{
            f"{masking}, {reduction}": (run, f"{reduction}/full")
            for reduction in ("sum", "mean")
            for masking, run in (("within-word-l2r", "bear"), ("original", "original"))
        },
    ),
}  # fmt: skip

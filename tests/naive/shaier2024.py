"""Every table of the preset of Shaier et al."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean

from tests.naive.bear import Naive, Tables
from tests.naive.intervals import Number
from tests.naive.runs import Row, columns, hits, measure, per_fact, perplexity, read_rows, scored

READINGS = {"template": "template-based", "sentence": "template-free"}
FROM_ONE = (1.0, math.inf)
CUTS = (1, 5, 10)


def rows_of(naive: Naive, reading: str, model: str, data: str, everything: bool = False) -> list[Row]:
    kind = naive.models[model]
    rows = read_rows(naive.out / "runs" / f"{reading}{'-causal' * (kind == 'causal')}" / model / data)
    scorings = {row["scoring"] for row in rows}
    assert len(scorings) == 1
    return rows if everything else scored(rows)


def with_average(table: list[Row], keys: tuple[str, ...] = ()) -> Tables:
    """Add the mean of each column over the models."""
    average: Row = dict.fromkeys(table[0])
    for name in table[0]:
        if name not in ("model", *keys) and not name.endswith((" low", " high", " place")):
            average[name] = fmean(row[name] for row in table)
    return [[*table, average | {"model": "average"}]]


def accuracies(naive: Naive, reading: str) -> Tables:
    """Tables 3 and 4: a model's place is by Acc@1, ties by Acc@5, then Acc@10."""
    table: dict[str, Row] = {model: {"model": model} for model in naive.models}
    for data in naive.prepared.places:
        scores: dict[str, tuple[float, ...]] = {}
        for model in table:
            rows = rows_of(naive, reading, model, data)
            numbers = {k: measure(rows, hits(k)) for k in CUTS}
            for k, number in numbers.items():
                table[model] |= columns(f"{data} Acc@{k}", number)
            scores[model] = tuple(round(number.value or 0.0, 12) for number in numbers.values())
        for model, own in scores.items():
            better, equal = (sum(op(one, own) for one in scores.values()) for op in (tuple.__gt__, tuple.__eq__))
            table[model][f"{data} place"] = 1 + better + (equal - 1) / 2
    return with_average([*table.values()])


def table_2(naive: Naive) -> Tables:
    return [[naive.about(model, "type", "parameters") for model in naive.models]]


def table_5(naive: Naive) -> Tables:
    table = []
    for model in naive.models:
        cells = naive.about(model, "type")
        for reading, short in (("template", "TB"), ("sentence", "TF")):
            for data in naive.prepared.places:
                number = measure(rows_of(naive, reading, model, data), perplexity, limits=FROM_ONE, by="")
                cells |= columns(f"{data} {short}", number)
        table.append(cells)
    return with_average(table, ("type",))


def every_run(naive: Naive) -> Iterator[tuple[str, str, str]]:
    for reading in READINGS:
        for model in naive.models:
            for data in naive.prepared.places:
                yield reading, model, data


def figure_1(naive: Naive) -> Tables:
    """Distinct entities among the best answers."""
    table = []
    for reading, model, data in every_run(naive):
        rows, everything = (rows_of(naive, reading, model, data, flag) for flag in (False, True))
        cells: Row = {"model": model, "data": data, "reading": READINGS[reading], "prompts": len(rows)}
        cells["unscored"] = len(everything) - len(rows)
        for k in CUTS:
            answers = [answer for row in rows for answer in row["top_ids"][:k]]
            cells |= {f"distinct@{k}": len(set(answers)), f"distinct share@{k}": len(set(answers)) / len(answers)}
        cells["right answers"] = len({answer for row in rows for answer in row["gold"]}) / len(rows)
        table.append(cells)
    return [table]


def figure_2(naive: Naive) -> Tables:
    """Means over models of one kind, on the facts that all models answered."""
    table = []
    for kind in dict.fromkeys(naive.models.values()):
        models = [model for model, own in naive.models.items() if own == kind]
        for reading, name in READINGS.items():
            for data in naive.prepared.places:
                every = [rows_of(naive, reading, model, data) for model in naive.models]
                common = set.intersection(*({row["fact"] for row in rows} for rows in every))
                points = [point(rows_of(naive, reading, model, data), common) for model in models]
                means = (fmean(values) for values in zip(*points, strict=True))
                cells: Row = {"model": f"mean of {len(models)} models", "data": data, "reading": name}
                for column, value in zip(("Acc@1", "perplexity", "corpus perplexity"), means, strict=True):
                    cells |= columns(column, Number(value))
                prompts = sum(len(rows_of(naive, reading, model, data)) for model in models)
                table.append(cells | {"prompts": prompts, "left out": 0})
    return [table]


def point(rows: list[Row], facts: set[str]) -> tuple[float, float, float]:
    """Accuracy, mean perplexity and perplexity of all tokens."""
    own = [row for row in rows if row["fact"] in facts]
    whole = -sum(row["prompt_log_prob"] for row in own) / sum(row["prompt_tokens"] for row in own)
    return fmean(per_fact(own, hits(1)).values()), fmean(map(perplexity, own)), math.exp(whole)


def section_5_2(naive: Naive) -> Tables:
    table: dict[str, Row] = {}
    for model in naive.models:
        rows = rows_of(naive, "template", model, "google-re")
        for relation in dict.fromkeys(row["relation"] for row in rows):
            own = [row for row in rows if row["relation"] == relation]
            table.setdefault(relation, {"relation": relation}).update(columns(model, measure(own, hits(10))))
    return [[*table.values()]]


TABLES: Mapping[str, Callable[[Naive], Tables]] = {
    "table-2": table_2,
    "table-3": lambda naive: accuracies(naive, "template"),
    "table-4": lambda naive: accuracies(naive, "sentence"),
    "table-5": table_5,
    "figure-1": figure_1,
    "figure-2": figure_2,
    "section-5.2": section_5_2,
}

"""Every table of the DEER preset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from tests.naive.bear import Naive, Tables
from tests.naive.intervals import Number, correlation, correlation_within
from tests.naive.runs import Row, by_fact, columns, drawn, hits, mean_of_facts, measure, per_fact, read_rows
from tests.naive.runs import scored as scored_rows

K = 10
QUADRANTS = {"both hit": (True, True), "only first": (True, False), "only second": (False, True)}
QUADRANTS |= {"both miss": (False, False)}
LAMA, BEAR = ("lama", "deer"), ("bear-of-sample", "deer-of-sample")
PROBES = {"lama": "vocabulary", "deer": "embedding", "bear-of-sample": "statement", "deer-of-sample": "embedding"}
PROBES |= {"bear-of-relations": "statement", "deer-of-relations": "embedding"}
SETS = ("wn18rr", "fb15k237")


def rows_of(naive: Naive, run: str) -> list[Row]:
    return scored_rows(read_rows(naive.out / "runs" / run))


def log_rank(row: Row) -> float:
    return math.log10(row["rank"])


def rank(row: Row) -> float:
    return float(row["rank"])


class Pair:
    """Two runs on their common facts."""

    def __init__(self, naive: Naive, runs: tuple[str, str], model: str, data: str, suffix: str = "") -> None:
        sides = [rows_of(naive, f"{run}/{model}/{data}{suffix}") for run in runs]
        facts = [[*by_fact(side)] for side in sides]
        self.facts = [fact for fact in facts[0] if fact in facts[1]]
        self.rows = [by_fact(sides[0])[fact][0] for fact in self.facts]
        self.relations = [row["relation"] for row in self.rows]
        self.ranks = [[per_fact(side, rank)[fact] for fact in self.facts] for side in sides]
        self.logs = [[per_fact(side, log_rank)[fact] for fact in self.facts] for side in sides]

    def correlation(self, sides: Sequence[Sequence[float]]) -> Number:
        return correlation(*sides, **drawn(self.rows))

    def within(self, sides: Sequence[Sequence[float]]) -> Number:
        return correlation_within(sides[0], sides[1], self.relations, **drawn(self.rows))

    def quadrant(self, hit: tuple[bool, bool]) -> Number:
        pairs = zip(*self.ranks, strict=True)
        values = {fact: float((one <= K, two <= K) == hit) for fact, (one, two) in zip(self.facts, pairs, strict=True)}
        return mean_of_facts(values, self.rows)


def pairs_table(naive: Naive, runs: tuple[str, str], sets: Sequence[str], keep: Sequence[str] = (), suffix: str = "",
                numbers: Callable[[Pair], Row] | None = None) -> list[Row]:  # fmt: skip
    """A row for each model and data set, then the mean over models. :param keep: columns, with their ends."""
    table, first, second = [], PROBES[runs[0]], PROBES[runs[1]]
    for data in sets:
        own = []
        for model in naive.models:
            pair = Pair(naive, runs, model, data, suffix)
            cells = {"model": model, "data": data, "first": first, "second": second, "facts": len(pair.facts)}
            own.append(cells | (numbers or correlations)(pair))
        mean = dict.fromkeys(own[0]) | {
            name: fmean(row[name] for row in own)
            for name in ("r", "r within", "r of ranks", *QUADRANTS)
            if name in own[0] and all(row[name] is not None for row in own)
        }
        mean |= {name: own[0][name] for name in ("data", "first", "second")} | {"model": f"mean of {len(own)} models"}
        table += [*own, mean]
    kept = (
        [name for row in table for name in row] if not keep else [*keep, *(("low", "high", "p") if "r" in keep else ())]
    )
    return [{name: row[name] for name in dict.fromkeys(kept)} for row in table]


def correlations(pair: Pair) -> Row:
    cells = columns("r", pair.correlation(pair.logs), main=True, tested=True)
    cells |= columns("r within", pair.within(pair.logs), tested=True)
    return cells | columns("r of ranks", pair.correlation(pair.ranks), tested=True)


def quadrants(pair: Pair) -> Row:
    cells: Row = {}
    for name, hit in QUADRANTS.items():
        cells |= columns(name, pair.quadrant(hit), main=name == "both hit")
    return cells


def accuracies(naive: Naive, runs: Mapping[str, str], sets: Sequence[str], keys: Sequence[str] = ("model",),
               about: Sequence[str] = ("parameters",)) -> Tables:  # fmt: skip
    """Tables 4, 6, 8 and 9. :param runs: names of folders by the heads of columns."""
    table = []
    for data in sets:
        for model in naive.models:
            cells: Row = {"data": data} if "data" in keys else {}
            cells |= naive.about(model, *about)
            for head, run in runs.items():
                rows = rows_of(naive, run.format(model=model, data=data))
                for k in (1, 10, 100):
                    cells |= columns(f"{head} Acc@{k}", measure(rows, hits(k)))
            table.append(cells)
    return [table]


def figure_9(naive: Naive) -> Tables:
    """Rank and number of tokens of the gold answer with the best score."""
    table = []
    for run, kind in zip(BEAR, ("statement sum/full", "embedding cosine"), strict=True):
        for model in naive.models:
            rows = rows_of(naive, f"{run}/{model}/queries")
            facts = [own[0] for own in by_fact(rows).values()]
            tokens = [float(row["gold_tokens"][best(row["gold_scores"])]) for row in facts]
            ranks, relations = [*per_fact(rows, rank).values()], [row["relation"] for row in facts]
            numbers = {
                "rank": correlation(tokens, ranks, **drawn(facts)),
                "log10 rank": correlation(tokens, [math.log10(one) for one in ranks], **drawn(facts)),
                "rank within relations": correlation_within(tokens, ranks, relations, **drawn(facts)),
            }
            for of, number in numbers.items():
                cells: Row = {"of": f"{kind} {model}, {of}", "facts": len(facts)}
                table.append(cells | columns("Pearson r", number, main=True, tested=True))
    return [table]


def best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=lambda place: scores[place])


def figure_18(naive: Naive) -> Tables:
    runs = "bear-of-relations", "deer-of-relations"
    relations = dict.fromkeys(file.name for file in sorted((naive.out / "runs" / runs[0]).glob("*/bear/relations=*")))
    order = sorted(relations, key=("relations=P36", "relations=P30").index)
    return [pairs_table(naive, runs, ["bear"], suffix=f"/{relation}") for relation in order]


R = ("model", "facts", "r")
TABLES: Mapping[str, Callable[[Naive], Tables]] = {
    "table-3": lambda naive: [pairs_table(naive, LAMA, ["wn18rr"], R)],
    "table-4": lambda naive: accuracies(
        naive, {"LAMA": "lama/{model}/{data}", "DEER": "deer/{model}/{data}"}, ["wn18rr"]
    ),
    "table-5": lambda naive: [pairs_table(naive, LAMA, SETS, ("data", *R))],
    "table-6": lambda naive: accuracies(
        naive, {"LAMA": "lama/{model}/{data}", "DEER": "deer/{model}/{data}"}, SETS, ("data", "model")
    ),
    "table-7": lambda naive: [pairs_table(naive, BEAR, ["queries"], R)],
    "table-8": lambda naive: accuracies(
        naive, {"BEAR": "bear-of-sample/{model}/queries", "DEER": "deer-of-sample/{model}/queries"}, ["queries"]
    ),
    "table-9": lambda naive: accuracies(
        naive, {prompt: f"prompts/{{model}}/wn18rr/tail_template={prompt}" for prompt in "AB"}, ["wn18rr"], about=()
    ),
    "figure-8": lambda naive: [pairs_table(naive, LAMA, SETS, numbers=quadrants)],
    "figure-9": figure_9,
    "figure-10": lambda naive: [pairs_table(naive, BEAR, ["queries"], numbers=quadrants)],
    "figure-18": figure_18,
}

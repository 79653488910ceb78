"""Every table of the preset of Sakai et al."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import correlation, fmean

from tests.naive.bear import Naive, Tables
from tests.naive.intervals import Number, holm, smallest_difference, smallest_unseen
from tests.naive.runs import Row, columns, hits, mean_of_facts, measure, per_fact, read_rows, scored

WORLDS = BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"
DATA = {"wn18rr": WORLDS, "fb15k237": (BASE,), "wikidata5m": (BASE,)}
PREDICTORS = ("simkgc", "knn-kge", "kgt5", "genkgc")
INITS = ("pretrained", "random")
SPLITS = ("train", "dev", "test")
Entities = dict[str, tuple[str, str]]
"""Name and description by id."""
Triples = dict[str, list[list[str]]]


def predictors(data: str) -> tuple[str, ...]:
    """Those that start from models."""
    return ("simkgc-wikidata5m",) if data == "wikidata5m" else PREDICTORS


def rows_of(naive: Naive, predictor: str, data: str, world: str, init: str = "") -> list[Row]:
    folder = naive.out / "runs" / predictor / data / world
    return scored(read_rows(folder / f"init={init}" if init else folder))


def grid(naive: Naive, data: str) -> Tables:
    """Figures 5 to 7."""
    table = []
    for predictor, init in [("TransE", ""), *((one, init) for one in predictors(data) for init in INITS)]:
        cells: Row = {"run": predictor, "init": init}
        for world in DATA[data]:
            known = bool(init) or world == BASE
            number = measure(rows_of(naive, predictor, data, world, init), hits(10)) if known else Number(None)
            cells |= columns(world, number, main=len(DATA[data]) == 1)
        table.append(cells)
    return [table]


# --- the graph


def read_graph(folder: Path) -> tuple[Entities, Triples]:
    """Name and description of each entity, and the triples of each split."""
    lines = (line.split("\t") for line in (folder / "entity2text.txt").read_text().splitlines())
    split = {name: (folder / f"{name}.tsv").read_text().splitlines() for name in SPLITS}
    entities = {id_: (name, text) for id_, name, text in lines}
    return entities, {name: [line.split("\t") for line in own] for name, own in split.items()}


def parts(triples: Triples) -> Triples:
    return {**triples, "total": [one for own in triples.values() for one in own]}


def for_each_data(naive: Naive, first: str, table_of: Callable[[Entities, Triples], dict[str, Row]]) -> Tables:
    """The columns of each data set, joined by the first one."""
    table: dict[str, Row] = defaultdict(dict)
    for data in DATA:
        for label, cells in table_of(*read_graph(naive.prepared.places[data])).items():
            table[label] |= {f"{data} {name}": cell for name, cell in cells.items()}
    return [[{first: label, **cells} for label, cells in table.items()]]


def totals(entities: Entities, triples: Triples) -> dict[str, Row]:
    """Table 2."""
    every = parts(triples)["total"]
    names = Counter(name for name, _ in entities.values() if name)
    counts = {
        "entities": len(entities),
        "relations": len({relation for _, relation, _ in every}),
        "triples": len(every),
        **{f"triples, {split}": len(own) for split, own in triples.items()},
        "repeated triples": len(every) - len(set(map(tuple, every))),
        "queries (test)": len(triples["test"]),
        "candidates": sum(names.values()),
        "entities with an empty name": len(entities) - sum(names.values()),
        "entities without a description": sum(not text for _, text in entities.values()),
        "names of several entities": sum(count > 1 for count in names.values()),
        "entities with such a name": sum(count for count in names.values() if count > 1),
    }
    return {what: {"count": count} for what, count in counts.items()}


def relations_of_entities(_: Entities, triples: Triples) -> dict[str, Row]:
    """Table 3."""
    labels = [*map(str, range(1, 6)), "more", "pairs"]
    table: dict[str, Row] = {label: {} for label in labels}
    for split, own in parts(triples).items():
        relations: dict[tuple[str, int], set[str]] = defaultdict(set)
        for triple in own:
            for side in (0, 2):
                relations[triple[side], side].add(triple[1])
        for label in labels:
            found = [labels[min(len(one), 6) - 1] for one in relations.values()]
            table[label][split] = len(found) if label == "pairs" else found.count(label) / len(found)
    return table


def answers_in_descriptions(entities: Entities, triples: Triples) -> dict[str, Row]:
    """Table 4."""
    rules: Mapping[str, Callable[[str, str], bool]] = {
        "as a sub-string": lambda name, text: name in text,
        "on word boundaries": lambda name, text: re.search(rf"\b{re.escape(name)}\b", text) is not None,
    }
    table: dict[str, Row] = defaultdict(dict)
    for split, own in parts(triples).items():
        sides = [(one, other) for head, _, tail in own for one, other in ((head, tail), (tail, head))]
        for rule, holds in rules.items():
            table[rule][split] = fmean(holds(entities[b][0], entities[a][1]) for a, b in sides)
        table["queries"][split] = len(sides)
        described = sum(bool(entities[one][1]) for one, _ in sides)
        table["about an entity with a description"][split] = described
    return table


# --- the study of memory


def figure_9(naive: Naive) -> Tables:
    tables = []
    for data, worlds in DATA.items():
        for predictor in predictors(data):
            places = [(data, world, init) for world in worlds for init in INITS]
            curves = {f"{world} {init}": curve(naive, predictor, data, world, init) for data, world, init in places}
            tables.append(
                [{"": name} | {other: r(own, its) for other, its in curves.items()} for name, own in curves.items()]
            )
    return tables


def r(one: list[float], other: list[float]) -> float | None:
    return None if len(set(one)) == 1 or len(set(other)) == 1 else correlation(one, other)


def curve(naive: Naive, predictor: str, data: str, world: str, init: str) -> list[float]:
    """Hits@10 on validation after each epoch; all trainings of one predictor have as many."""
    file = naive.out / "predictors" / predictor / data / world / f"init={init}" / "curve.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    known = [line for line in lines if "hits@10" in line]
    assert [line["epoch"] for line in known] == list(range(1, len(known) + 1))
    return [line["hits@10"] for line in known]


Terms = Sequence[tuple[int, str, str]]
"""Sign, world and weights."""


def terms_of() -> dict[str, Terms]:
    """Every term of the decomposition."""
    names: dict[str, Terms] = {
        f"memory of names ({world})": (
            (1, world, "pretrained"), (-1, world, "random"), (-1, NAMELESS, "pretrained"), (1, NAMELESS, "random"),
        )
        for world in (BASE, MEANINGLESS)
    }  # fmt: skip
    for init in INITS:
        names[f"descriptions ({init})"] = ((1, NAMELESS, init), (-1, MEANINGLESS, init))
    return names | {"structure": ((1, MEANINGLESS, "random"),)}


def effect(naive: Naive, predictor: str, terms: Terms, confidence: float = 0.95) -> tuple[Number, int, bool]:
    """The signed sum of Hits@10 over facts, their number, and whether it is zero for each."""
    sides = [(sign, rows_of(naive, predictor, "wn18rr", world, init)) for sign, world, init in terms]
    values = [(sign, per_fact(rows, hits(10))) for sign, rows in sides]
    sums = {fact: sum(sign * own[fact] for sign, own in values) for fact in values[0][1]}
    limits = float(-sum(sign < 0 for sign, _ in sides)), float(sum(sign > 0 for sign, _ in sides))
    return mean_of_facts(sums, sides[0][1], limits, confidence), len(sums), not any(sums.values())


def memory(naive: Naive) -> Tables:
    tested = {(model, name): terms for model in PREDICTORS for name, terms in terms_of().items() if len(terms) > 1}
    gaps = {
        (model, world): ((1, world, "pretrained"), (-1, world, "random")) for model in PREDICTORS for world in WORLDS
    }
    found = {about: effect(naive, about[0], terms)[0] for about, terms in {**tested, **gaps}.items()}
    claims = [found[model, f"memory of names ({BASE})"] for model in PREDICTORS]
    # A claim that lacks a control is tested in both directions.
    family = [one.p or 0.0 for one in found.values()] + [(one.p or 0.0) if one.value else 1.0 for one in claims]
    adjusted = dict(zip(found, holm(family), strict=False))
    table = []
    for model in PREDICTORS:
        for name, terms in terms_of().items():
            number, facts, alike = effect(naive, model, terms)
            cells: Row = {"model": model, "term": name, "formula": ..., "facts": facts, "seeds": 1}
            cells |= {"error by facts": None, "error by training": None, "smallest": None, "p (Holm)": None}
            if len(terms) == 1:
                table.append(cells | columns("value", number._replace(p=None), main=True, tested=True))
                continue
            wider, p = effect(naive, model, terms, 1 - 0.05 / len(family))[0], adjusted[model, name]
            low, high = wider.low or 0.0, wider.high or 0.0
            if p < 0.05:  # Holm rejects a little more than simultaneous intervals
                low, high = (max(low, 0.0), high) if (number.value or 0) > 0 else (low, min(high, 0.0))
            cells |= columns("value", Number(number.value, low, high, number.p), main=True, tested=True)
            smallest = smallest_unseen(facts) if alike else smallest_difference(number.error, number.degrees)
            most = sum(sign > 0 for sign, *_ in terms)
            table.append(cells | {"p (Holm)": p, "smallest": None if smallest and smallest > most else smallest})
    return [table, *(without_worlds(data) for data in DATA if data != "wn18rr")]


def without_worlds(data: str) -> list[Row]:
    """Terms of a graph that lacks the worlds they need."""
    empty = dict.fromkeys(("error by facts", "error by training", "smallest", "p (Holm)"))
    empty |= {"value": None, "facts": 0, "seeds": 0, "formula": ...}
    names = [name for name in terms_of() if MEANINGLESS not in name]
    return [{"model": model, "term": name, **empty} for model in predictors(data) for name in names]


TABLES: Mapping[str, Callable[[Naive], Tables]] = {
    "table-2": lambda naive: for_each_data(naive, "what", totals),
    "table-3": lambda naive: for_each_data(naive, "distinct relations", relations_of_entities),
    "table-4": lambda naive: for_each_data(naive, "the answer's name", answers_in_descriptions),
    "figure-5": lambda naive: grid(naive, "wn18rr"),
    "figure-6": lambda naive: grid(naive, "fb15k237"),
    "figure-7": lambda naive: grid(naive, "wikidata5m"),
    "figure-9": figure_9,
    "memory": memory,
}

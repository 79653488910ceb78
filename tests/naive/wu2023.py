"""Every table of the preset of Wu et al."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tests.naive.bear import Naive, Tables
from tests.naive.intervals import SHARE, Number, interval
from tests.naive.runs import Row, Value, columns, hits, manifest, measure, read_rows, reciprocal

TASKS = {
    "table-8": "type", "table-9": "subClassOf", "table-10": "subPropertyOf", "table-11": "domain", "table-12": "range"
}  # fmt: skip
CUTS = (1, 5, 10, 25, 50)
LEVELS = ("explicit", "implicit", "absent")
RULES = ("rdfs5", "rdfs9")
BASELINE = "frequency baseline"


def of_all(row: Row) -> float:
    """1 / mean rank of all right answers."""
    return 1 / fmean(row["gold_ranks"])


def finest(row: Row) -> float:
    """Rank of the finest right answer without the others, which are coarser or tied."""
    ranks, steps = row["gold_ranks"], row["distances"] or [1] * len(row["gold_ranks"])
    return min(
        rank - sum((other < rank) + (other == rank) / 2 for at, other in enumerate(ranks) if at != place)
        for place, rank in enumerate(ranks)
        if steps[place] == 1
    )


def of_finest(row: Row) -> float:
    return reciprocal(row) if len(row["gold"]) == 1 or not row["distances"] else 1 / finest(row)


MEASURED: Mapping[str, Value] = {**{f"R@{k}": hits(k) for k in CUTS}, "MRR": reciprocal, "MRRₐ": of_all}
OF_MEMORY: Mapping[str, Value] = {
    **MEASURED, "MRR finest": of_finest, "remembered": lambda row: float(finest(row) <= 1)
}  # fmt: skip


class Line(NamedTuple):
    """One setting. :param rows: scored predictions. :param about: all that distinguishes it."""

    about: dict[str, Any]
    rows: list[Row]
    unscored: int


def lines_of(naive: Naive) -> list[Line]:
    runs = [*(f"words/{model}/ontology" for model in naive.models if naive.models[model] == "masked")]
    runs += [
        f"learnt/{model}/ontology/loss={loss}"
        for model in naive.models if naive.models[model] == "masked"
        for loss in ("bce", "nll")
    ]  # fmt: skip
    runs += [f"statements/{model}/ontology" for model in naive.models if naive.models[model] == "causal"]
    return [line for run in runs for line in lines_of_run(naive.out / "runs" / run, run.split("/")[1])]


def lines_of_run(run: Path, model: str) -> Iterator[Line]:
    about = manifest(run)
    options, scorings = about["identity"]["options"], about["shows"]["scorings"]
    settings: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in read_rows(run):
        settings[row["relation"], row["template"], row["scoring"]].append(row)
    for (task, template, scoring), rows in settings.items():
        soft, of = bool(options.get("soft")), scorings[scoring]
        yield Line(
            {
                "task": task, "model": model, "soft": soft,
                "prompt": f"learnt from {options['soft_init']}" if soft else wording(rows),
                "masks": of.get("masks", ""), "pooling": of.get("pooling", scoring),
                "loss": options["loss"] if soft else "", "seed": options["seed"] if soft else None,
                "template": template,
            },
            [row for row in rows if row["unscored"] is None],
            sum(row["unscored"] is not None for row in rows),
        )  # fmt: skip


def wording(rows: Iterable[Row]) -> str:
    """The template that the prompts share."""
    texts = set()
    for row in rows:
        subject = row["subject"]
        prompt = row["prompt"].replace(subject[0].upper() + subject[1:], "[X]", 1)
        texts.add(prompt.replace(subject, "[X]", 1))
    text = texts.pop() if len(texts) == 1 else ""
    return text if "[X]" in text and "[Y]" in text else "(a sentence for each item)"


def numbers(rows: Sequence[Row], values: Mapping[str, Value] = OF_MEMORY) -> Row:
    """The numbers of one setting, over the items of its task."""
    cells: Row = {}
    for name, value in values.items():
        cells |= columns(name, measure(rows, value), main=name == "MRR")
    return cells


# --- the frequency baseline


def baseline(naive: Naive, task: str) -> Row:
    """Answer with the most frequent right answers of training items, then the others in random order."""
    model = next(model for model, kind in naive.models.items() if kind == "masked")
    run = naive.out / "runs" / "words" / model / "ontology"
    training = json.loads((run / "artifacts" / "training.json").read_text())[task]
    above = json.loads((run / "artifacts" / "hierarchy.json").read_text())
    items = list({row["query_id"]: row for row in read_rows(run) if row["relation"] == task}.values())
    superior = above.get(items[0]["candidates"], {})
    fine = [
        [gold for gold in golds if not any(gold in superior.get(other, ()) for other in golds)] or golds
        for golds in training
    ]
    first, of_fine = (order_of(answers, run, items[0]["candidates"]) for answers in (training, fine))
    values: dict[str, list[float]] = defaultdict(list)
    for item in items:
        ranks = [first.index(gold) + 1 for gold in item["gold"]]
        steps = item["distances"] or [1] * len(ranks)
        places = {gold: of_fine.index(gold) + 1 for gold in item["gold"]}
        best = min(places[gold] for gold, step in zip(item["gold"], steps, strict=True) if step == 1)
        best -= sum(place < best for place in places.values())
        for k in CUTS:
            values[f"R@{k}"].append(float(min(ranks) <= k))
        values["MRR"].append(1 / min(ranks))
        values["MRRₐ"].append(1 / fmean(ranks))
        values["MRR finest"].append(1 / best)
        values["remembered"].append(float(best <= 1))
    cells: Row = {}
    for name, own in values.items():
        cells |= columns(name, interval([own], SHARE), main=name == "MRR")
    return cells | {"model": BASELINE, "items": len(items)}


def order_of(answers: Iterable[Sequence[str]], run: Path, space: str) -> list[str]:
    from tests.naive.runs import candidates

    known = list(candidates(run)[space])
    counts = Counter(answer for own in answers for answer in own if answer in known)
    first = sorted(counts, key=lambda answer: -counts[answer])
    rest = sorted(set(known) - set(first))
    random.Random(0).shuffle(rest)
    return first + rest


# --- memorising


def settings(naive: Naive, task: str) -> Tables:
    """Tables 8 to 12."""
    texts = dict.fromkeys(("template", "masks", "pooling", "loss", "seed"))
    table = [texts | baseline(naive, task) | {"unscored": 0}]
    for about, rows, unscored in lines_of(naive):
        if about["task"] == task:
            cells = {"model": about["model"], "template": about["prompt"], "pooling": about["pooling"]}
            cells |= {"masks": about["masks"] or None, "loss": about["loss"] or None, "seed": about["seed"]}
            empty = dict.fromkeys(numbers_names())
            table.append(
                cells | (numbers(rows) if rows else empty) | {"items": len(rows) or None, "unscored": unscored}
            )
    return [table]


def numbers_names() -> list[str]:
    return [name for one in OF_MEMORY for name in columns(one, Number(None), main=one == "MRR")]


def table_4(naive: Naive) -> Tables:
    """The setting of each model and task with the highest MRR."""
    best: dict[tuple[str, str, bool], tuple[float, Row]] = {}
    for about, rows, _ in lines_of(naive):
        if rows:
            key, mrr = (about["task"], about["model"], about["soft"]), round(fmean(map(reciprocal, rows)), 12)
            if key not in best or mrr > best[key][0]:
                template = "learnt" if about["soft"] else "words"
                cells = {"task": key[0], "model": key[1], "template": template, "setting": ..., "verdict": ...}
                best[key] = mrr, cells | numbers(rows) | {"items": len(rows)}
    texts = {"template": None, "setting": None, "verdict": None}
    tasks = dict.fromkeys(task for task, *_ in best)
    return [[*(baseline(naive, task) | texts | {"task": task} for task in tasks), *(row for _, row in best.values())]]


def comparison(naive: Naive, part: str) -> Tables:
    """Figures 5 to 7: means over settings that differ in nothing but one part."""
    alike: dict[Any, dict[str, Line]] = defaultdict(dict)
    for line in lines_of(naive):
        if line.rows and line.about[part] and line.about["masks"]:
            alike[tuple((name, own) for name, own in line.about.items() if name != part)][line.about[part]] = line
    values = dict.fromkeys(value for own in alike.values() for value in own)
    whole = [own for own in alike.values() if own.keys() == values.keys()]
    return [[{part: value, **means([own[value].rows for own in whole])} for value in values]]


def means(parts: Sequence[Sequence[Row]]) -> Row:
    """Means of settings of equal weight; items were drawn within tasks."""
    rows = [row for own in parts for row in own]
    weights = [1 / len(own) for own in parts for _ in own]
    about = {"clusters": [row["query_id"] for row in rows], "groups": [row["relation"] for row in rows]}
    if len(set(about["groups"])) == 1:
        del about["groups"]
    cells: Row = {}
    for name, value in MEASURED.items():
        number = interval([[value(row) for row in rows]], SHARE, weights, **about)
        cells |= columns(name, number, main=name == "MRR")
    return cells


def table_1(naive: Naive) -> Tables:
    """Counts of the published files."""
    folder, table = naive.prepared.places["ontology"], []
    names = {
        kind: len(json.loads((folder / "ontology" / f"{kind}.json").read_text())) for kind in ("class", "property")
    }
    for task in TASKS.values():
        lines = [json.loads(line) for line in (folder / "memorizing" / f"{task}.jsonl").read_text().splitlines()]
        golds = [list(line["xxx"]) for line in lines]
        spaces = (
            names["class"] if task != "subPropertyOf" else names["property"] + len({g for own in golds for g in own})
        )
        counts = Counter(gold for own in golds for gold in own)
        cells = {"instances": len(lines), "answers": spaces, "random": fmean(len(own) / spaces for own in golds)}
        cells |= {"majority": max(counts.values()) / len(lines), "cardinality": ..., "domains": ...}
        cells |= {"templates": {"type": 3, "subClassOf": 3, "subPropertyOf": 1}.get(task, 0)}
        table.append({"relation": task, **{f"ontology {name}": value for name, value in cells.items()}})
    return [table]


def table_7(naive: Naive) -> Tables:
    """One item of each task, by the best setting of each model; texts alone."""
    [best] = table_4(naive)
    texts = dict.fromkeys(("asked", "right", "the five best, ✓ right"), ...)
    return [[{"task": row["task"], "model": row["model"], **texts} for row in best if row["model"] != BASELINE]]


# --- reasoning


class Cell(NamedTuple):
    """A rule with its premises by one model and wording. :param rows: scored texts."""

    model: str
    wording: str
    rule: str
    first: str
    second: str
    rows: list[Row]
    unscored: int


def cells_of(naive: Naive, study: str) -> list[Cell]:
    cells = []
    kind = "causal" if study.endswith("causal") else "masked"
    learnt = ("learnt-conjunction", "learnt-templates", "learnt") if kind == "masked" else ()
    for model, wording in product([one for one in naive.models if naive.models[one] == kind], ("words", *learnt)):
        rows = read_rows(naive.out / "runs" / "of-studies" / study / model / wording)
        for rule, first, second in product(RULES, LEVELS, LEVELS):
            about = {"rule": rule, "premise 1": first, "premise 2": second}
            own = [row for row in rows if about.items() <= row["groups"].items()]
            scored = [row for row in own if row["unscored"] is None]
            cells.append(Cell(model, wording, rule, first, second, scored, len(own) - len(scored)))
    return cells


def of_items(parts: Sequence[Sequence[Row]], names: Sequence[str]) -> Row:
    """Means of parts of equal weight; items were drawn, each with all its texts."""
    rows = [row for own in parts for row in own]
    weights, items = [1 / len(own) for own in parts for _ in own], [row["groups"]["item"] for row in rows]
    cells: Row = {}
    for name in names:
        number = (
            interval([[MEASURED[name](row) for row in rows]], SHARE, weights, clusters=items, single=True)
            if rows
            else Number(None)
        )
        cells |= columns(name, number, main=name == "MRR")
    return cells


def figure_2(naive: Naive) -> Tables:
    tables = []
    for study in ("reasoning", "reasoning-causal"):
        for rule in RULES:
            table = []
            for cell in cells_of(naive, study):
                if cell.rule == rule:
                    about = {"model": cell.model, "wording": cell.wording, "P1": cell.first, "P2": cell.second}
                    about |= of_items([cell.rows] if cell.rows else [], list(MEASURED))
                    items = len({row["groups"]["item"] for row in cell.rows})
                    table.append(about | {"items": items, "unscored": cell.unscored})
            tables.append(table)
    return tables


def figure_3(naive: Naive) -> Tables:
    """Means over rules, and over models and wordings if there are several."""
    tables = []
    for study in ("reasoning", "reasoning-causal"):
        cells, table = cells_of(naive, study), []
        models, wordings = (list(dict.fromkeys(cell[place] for cell in cells)) for place in (0, 1))
        models += ["all models"] * (len(models) > 1)
        wordings += ["all wordings"] * (len(wordings) > 1)
        for model, wording, first, second in product(models, wordings, LEVELS, LEVELS):
            own = [
                cell for cell in cells
                if cell.rows and model in (cell.model, "all models") and wording in (cell.wording, "all wordings")
                and (cell.first, cell.second) == (first, second)
            ]  # fmt: skip
            if own:
                about = {"model": model, "wording": wording, "P1": first, "P2": second}
                about |= of_items([cell.rows for cell in own], ("MRR", "MRRₐ"))
                table.append(about | {"rules": len({cell.rule for cell in own})})
        tables.append(table)
    return tables


def figure_4(naive: Naive) -> Tables:
    """Each wording over all models, rules and premises that all wordings have."""
    found: dict[Any, dict[str, list[Row]]] = defaultdict(dict)
    for cell in cells_of(naive, "reasoning"):
        if cell.rows:
            found[cell.model, cell.rule, cell.first, cell.second][cell.wording] = cell.rows
    wordings = dict.fromkeys(wording for own in found.values() for wording in own)
    whole = [own for own in found.values() if len(own) == len(wordings)]
    return [[{"wording": one, **of_items([own[one] for own in whole], ("MRR", "MRRₐ"))} for one in wordings]]


# --- multiple choice


class Question(NamedTuple):
    """:param part: its task or rule. :param credit: NaN without an answer."""

    part: str
    groups: Mapping[str, str]
    credit: float
    relation: str


def questions_of(naive: Naive, model: str) -> tuple[str, dict[str, Question]]:
    """The scoring, and each question with its credit over its statements."""
    rows = read_rows(naive.out / "runs" / "choice" / model / "questions")
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["query_id"]].append(row)
    questions = {}
    for id_, own in found.items():
        groups = own[0]["groups"]
        lacking = any(row["unscored"] is not None for row in own)
        credit = float("nan") if lacking else fmean(map(hits(1), own))
        questions[id_] = Question(groups.get("rule", groups.get("task", "")), groups, credit, own[0]["relation"])
    return rows[0]["scoring"], questions


def line_of(model: str, scoring: str, about: Row, questions: Sequence[Question]) -> Row:
    cells = {"model": model, "scoring": scoring, **about, "questions": len(questions), "unparsed": 0}
    answered = [one for one in questions if not isnan(one.credit)]
    cells["unscored"] = len(questions) - len(answered)
    cells |= columns("accuracy", of_parts(answered), main=True)
    wrong = [one._replace(credit=0.0 if isnan(one.credit) else one.credit) for one in questions]
    return cells | columns("all wrong", of_parts(wrong))


def of_parts(questions: Sequence[Question]) -> Number:
    """Questions were drawn within tasks or rules."""
    return interval([[one.credit for one in questions]], SHARE, groups=[one.part for one in questions])


def table_5(naive: Naive) -> Tables:
    table = []
    for model in naive.models:
        scoring, questions = questions_of(naive, model)
        asked = [one for one in questions.values() if "task" in one.groups]
        for task in [*dict.fromkeys(one.part for one in asked), "all"]:
            own = [one for one in asked if task in (one.part, "all")]
            table.append(line_of(model, scoring, {"task": task}, own))
    return [table]


def table_6(naive: Naive) -> Tables:
    table = []
    for model in naive.models:
        scoring, questions = questions_of(naive, model)
        asked = [(one, premise(one, questions)) for one in questions.values() if "rule" in one.groups]
        rules = [*dict.fromkeys(one.part for one, _ in asked), "all"]
        for rule, given in product(rules, ("given", "memorised", "not memorised", "not known")):
            own = [one for one, how in asked if how == given and rule in (one.part, "all")]
            if own:
                table.append(line_of(model, scoring, {"rule": rule, "P1": given}, own))
    return [table]


def premise(question: Question, questions: Mapping[str, Question]) -> str:
    """How P1 comes to the model."""
    if question.groups.get("p1") == "explicit":
        return "given"
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or isnan(memory.credit):
        return "not known"
    return "memorised" if memory.credit > 0.5 else "not memorised"


TABLES: Mapping[str, Callable[[Naive], Tables]] = {
    "table-1": table_1,
    "table-4": table_4,
    "table-5": table_5,
    "table-6": table_6,
    "table-7": table_7,
    **{name: lambda naive, task=task: settings(naive, task) for name, task in TASKS.items()},
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": lambda naive: comparison(naive, "masks"),
    "figure-6": lambda naive: comparison(naive, "pooling"),
    "figure-7": lambda naive: comparison(naive, "loss"),
}

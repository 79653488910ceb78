"""The analysis of ``fathom demo``: what a model knows, its confident mistakes, and where ranking and writing differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.base.reading import Faults, read_json_lines
from fathom.data.queries import QuerySet
from fathom.results.answers import error_table
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.estimates import Estimate, combined, contrast, difference, mean, recipe
from fathom.results.facts import names_of
from fathom.results.rows import Floats, Rows
from fathom.results.samples import legend
from fathom.results.summary import summarise
from fathom.results.tables import Table, to_text
from fathom.store.folder import RunFolder
from fathom.training.design import frequency_baseline

MISTAKES, EXAMPLES = 10, 3


class Answer(NamedTuple):
    """A model's answer to a fact. :param text: the first-ranked name, or what was written."""

    subject: str
    relation: str
    gold: str
    text: str
    is_right: bool


class Findings(NamedTuple):
    """:param sentences: accuracy, interval and baselines. :param tables: in the order in which readers see them."""

    sentences: list[str]
    tables: list[Table]


def analyse(ranking: RunFolder, *writing: RunFolder) -> Findings:
    """:param writing: the run in which the model wrote answers, if it can write."""
    summary, ranked = summarise(ranking, ["relation"]), _answers(ranking)
    by_relation = summary.tables[1]
    by_relation = replace(by_relation, hidden=by_relation.hidden | {"scoring", "n", "mrr"})
    tables = [by_relation, _mistakes(ranking, ranked)]
    for run in writing:
        tables += _differences(ranked, _answers(run))
    return Findings(summary.answer, tables)


def _answers(run: RunFolder) -> dict[str, Answer]:
    """Return the answer to each scored fact, by query id."""
    rows = Rows(run)
    names, hits, written = names_of(rows.candidates), rows.hits(1), rows.table.column("answers")
    answers = {}
    for place in rows.of(rows.scorings[0]).tolist():
        if rows.scored[place]:
            query = int(rows.query[place])
            said = written[place].as_py()
            text = names[rows.best(place)[0]] if said is None else " ".join(said)
            golds = ", ".join(names[gold] for gold in rows.gold[query])
            about = rows.asked(place)[1], rows.relations[query], golds
            answers[rows.query_ids[query]] = Answer(*about, text, bool(hits[place] > 1 / 2))
    return answers


def _mistakes(run: RunFolder, answers: Mapping[str, Answer]) -> Table:
    wrong = error_table(run, MISTAKES).objects()
    rows = [(row["first_answer"], row["first_probability"], answers[str(row["query"])].gold) for row in wrong]
    return Table(("sentence", "probability", "answer"), tuple(rows), "Most confident mistakes", {"probability": ".0%"})


def _differences(ranked: Mapping[str, Answer], written: Mapping[str, Answer]) -> list[Table]:
    shared = [fact for fact in written if fact in ranked]
    only_ranked = [fact for fact in shared if ranked[fact].is_right and not written[fact].is_right]
    only_written = [fact for fact in shared if written[fact].is_right and not ranked[fact].is_right]
    of_all = f"of {len(shared)} facts queried both ways"
    return [
        _examples(f"Ranked first, but not written: {len(only_ranked)} {of_all}", "writes", only_ranked, written),
        _examples(f"Written, but not ranked first: {len(only_written)} {of_all}", "ranks first", only_written, ranked),
    ]


def _examples(title: str, column: str, facts: Sequence[str], answers: Mapping[str, Answer]) -> Table:
    shown = [answers[fact] for fact in facts[:: max(1, len(facts) // EXAMPLES)][:EXAMPLES]]
    rows = tuple((answer.subject, answer.relation, answer.gold, answer.text) for answer in shown)
    return Table(("subject", "relation", "answer", column), rows, title, notes=() if rows else ("none",))


# --- fathom demo --planted: does the probe distinguish planted facts from withheld ones?


GAP, BEYOND = "planted − withheld", "withheld − frequency"
HALVES = ("planted half", "withheld half", "answering by frequency")


def unseen_template(data: QuerySet) -> int:
    """Return the number of the template that planted models have not seen: the last."""
    return len(next(iter(data.relations.values())).templates) - 1


def compare_halves(data: QuerySet, runs: Mapping[str, RunFolder], models: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Compare planted and withheld facts in both phrasings, see :func:`accuracies`."""
    lines = []
    for kind, run in runs.items():
        rows, planted = Rows(run, with_scores=False), planted_ids(models[kind])
        by_frequency = frequency_baseline(data, planted)
        lines += [
            {"model": kind, "phrasing": phrasing} | accuracies(rows, template, planted, by_frequency)
            for phrasing, template in (("trained on", 0), ("never seen", unseen_template(data)))
        ]
    return lines


def planted_ids(model: Path) -> set[str]:
    """Return the ids of the queries whose facts a model was trained on."""
    faults = Faults()
    rows = list(read_json_lines(model / "planted.jsonl", {"query_id": str}, faults))
    faults.stop_if_any()
    return {row["query_id"] for _, row in rows if row.get("planted")}


def accuracies(
    rows: Rows, template: int, planted: Collection[str], by_frequency: dict[str, float]
) -> dict[str, Estimate]:
    """Return the numbers of the facts scored with one template.

    :param by_frequency: expected accuracy of each query, by its id.
    :return: accuracy on the facts that the model was trained on, on the others, and of the most frequent planted answer
        on the others, by :data:`HALVES`; and the differences :data:`GAP`, and :data:`BEYOND`, paired by fact.
    """
    ids = [rows.query_ids[query] for query in rows.query]
    is_planted = np.array([id_ in planted for id_ in ids], dtype=bool)
    frequent = np.array([by_frequency[id_] for id_ in ids])
    scored = rows.scored & (rows.template == template)
    places = {"planted": np.flatnonzero(scored & is_planted), "withheld": np.flatnonzero(scored & ~is_planted)}
    sample = {half: rows.sample(rows.query[at].tolist()) for half, at in places.items()}

    def recipe_of(name: str, half: str) -> str:
        return f"{recipe(rows, name, rows.scorings[0], [template])}|facts:{half}"

    def accuracy(name: str, values: Floats, half: str) -> Estimate:
        return mean(values[places[half]], sample[half], recipe_of(name, half))

    hits, withheld, both = rows.hits(1), places["withheld"], np.flatnonzero(scored)
    name = "accuracy by frequency"
    numbers = (
        accuracy("accuracy", hits, "planted"),
        accuracy("accuracy", hits, "withheld"),
        accuracy(name, frequent, "withheld"),
        contrast(hits[both], is_planted[both], rows.sample(rows.query[both].tolist()), recipe_of(GAP, "all")),
        difference(hits[withheld], frequent[withheld], sample["withheld"], recipe_of(f"accuracy − {name}", "withheld")),
    )
    return dict(zip((*HALVES, GAP, BEYOND), numbers, strict=True))


def text(lines: Sequence[Mapping[str, Any]], out: Path) -> str:
    """Return the table, whether the withheld half is at chance, and what to type next."""
    claims: dict[tuple[str, int], Claim | None] = {}
    for number, line in enumerate(lines):
        about = f"{line['model']}, {line['phrasing']}"
        planted, withheld = Contrast(GAP, line[GAP], 1), Contrast(BEYOND, line[BEYOND], 1)
        claims["planted", number] = Claim(f"{about}: planted facts are known better", (planted,))
        claims["withheld", number] = Claim(f"{about}: withheld facts are known", (withheld,))
    decisions = decide(claims)
    numbers = [line[half] for line in lines for half in HALVES]
    table = Table(
        ("model", "phrasing", *HALVES, "withheld at chance"),
        tuple(
            (
                *(line["model"], line["phrasing"], *(_shown(line[half]) for half in HALVES)),
                not decisions["withheld", number].holds,
            )
            for number, line in enumerate(lines)
        ),
        title="accuracy of the statement probe, with 95 % intervals",
        notes=(
            "withheld at chance: not significantly above the majority baseline",
            *map(legend, dict.fromkeys(number.sample for number in numbers)),
            *dict.fromkeys(number.note for number in numbers if number.note),
            combined("accuracy", [number.recipe for number in numbers], " or "),
        ),
    )
    works = all(decision.holds == (half == "planted") for (half, _), decision in decisions.items())
    verdict = "distinguishes" if works else "does not distinguish"
    return f"""
{to_text(table)}

The probe {verdict} facts that a model was trained on from others. More of these two runs:
  fathom metrics {out / "run-causal"} --by relation,template --groups {out / "planted-causal" / "planted.jsonl"}
  fathom metrics {out / "run-masked"} --errors 10

Now your own model, by name or folder:
  fathom probe statement --model gpt2 --data geography --out runs/gpt2-geography
  fathom probe statement --model MODEL --data path/to/BEAR --out runs/model-bear"""


def _shown(number: Estimate) -> str:
    between = "no interval" if number.low is None else f"{number.low:.2f}, {number.high:.2f}"
    return f"{number.value:.2f} [{between}]"

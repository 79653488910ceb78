"""The analysis of ``fathom demo --planted``: does the probe distinguish planted facts from withheld ones?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fathom.base.reading import Faults, read_json_lines
from fathom.data.queries import QuerySet
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.estimates import Estimate, combined, contrast, difference, mean, recipe
from fathom.results.rows import Floats, Rows
from fathom.results.samples import legend
from fathom.results.tables import Table, to_text
from fathom.store.folder import RunFolder
from fathom.training.design import frequency_baseline

GAP, BEYOND = "planted − withheld", "withheld − frequency"
HALVES = ("planted half", "withheld half", "answering by frequency")


def unseen_template(data: QuerySet) -> int:
    """Return the number of the template that planted models have not seen: the last."""
    return len(next(iter(data.relations.values())).templates) - 1


def analyse(data: QuerySet, runs: Mapping[str, RunFolder], models: Mapping[str, Path]) -> list[dict[str, Any]]:
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
    sample = {half: rows.sample(rows.query[own].tolist()) for half, own in places.items()}

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

"""Confident mistakes of real models on the embedded facts: for each, whether the model or the data was wrong."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

import fathom
from fathom.data.fetch import EXAMPLES
from fathom.data.formats import read
from fathom.store.folder import RunFolder
from tests.real import real_model

SETTLED = Path(__file__).parents[1] / "settled_mistakes.csv"
"""Mistakes from 3.5 nats on, so that rounding on another machine leaves none of 4 nats unsettled."""
CONFIDENT = 4.0
"""Nats by which the first answer is likelier than the best correct one: 55 times as likely."""
MODEL_WRONG, CORRECTED = "model wrong", "data wrong, corrected"
DATA = {"geography": "geography", "graph": str(EXAMPLES / "graph")}


def confident_mistakes(run: RunFolder, known: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the first answer of each fact whose best correct answer is :data:`CONFIDENT` nats or more behind it.

    :param known: answers that are not ranked, by query; one that comes first is no mistake.
    """
    mistakes = {}
    for row in fathom.open_run(run.path).table().to_pylist():
        listed = zip(row["top_ids"], row["top_scores"], strict=True)
        first, score = next(pair for pair in listed if pair[0] not in known[row["query_id"]])
        if score - max(row["gold_scores"]) >= CONFIDENT:
            mistakes[f"{row['subject']}|{row['relation']}"] = first
    return mistakes


def settled() -> list[dict[str, str]]:
    with SETTLED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_settled_mistakes_fit_the_data():
    """An answer of which the model is wrong is no correct answer; one that was corrected is."""
    correct = {
        (name, f"{query.subject}|{query.relation}"): ({*query.gold}, {*query.gold, *query.known})
        for name, data in DATA.items()
        for query in read(data).queries
    }
    rows = settled()
    assert {row["verdict"] for row in rows} == {MODEL_WRONG, CORRECTED}
    assert all(row["source"] for row in rows)
    assert len({(row["model"], row["data"], row["fact"]) for row in rows}) == len(rows)
    for row in rows:
        gold, ranked_out = correct[row["data"], row["fact"]]
        if row["verdict"] == CORRECTED:
            assert row["first"] in gold, row
        else:
            assert row["first"] not in ranked_out, row


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("model", ["SmolLM2-135M-Instruct", "Gemma-3-270m"])
def test_every_confident_mistake_is_settled(model, data, tmp_path):
    """Exact search finds the first answers and the score of the correct ones in a fraction of the passes."""
    run = fathom.probe(
        "statement", str(real_model(model)), DATA[data], tmp_path / "run", templates=(0,), max_rank=5, top_k=5
    )
    looked_up = {(row["fact"], row["first"]) for row in settled() if (row["model"], row["data"]) == (model, data)}
    known = {query.id: query.known for query in read(DATA[data]).queries}
    unsettled = sorted(confident_mistakes(run.folder, known).items() - looked_up)
    assert not unsettled, f"look up and add to {SETTLED.name}: {unsettled}"

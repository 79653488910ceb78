"""``fathom plan wu2023``: the cells of its tables equal a loop over the files of the runs, for three models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from fathom.plans.presets import PAPERS
from tests.forked import ForkedCall
from tests.papers import table, tables_of, write_ontology
from tests.sharing import called
from tests.test_cli import save

pytestmark = pytest.mark.slow
Row = dict[str, Any]
MODELS = ("bert-base-uncased", "other", "gpt2")
FEWER = {"rules": ["rdfs5", "rdfs9"], "pairs": 2, "untrained": 0, "epochs": 1}
"""Options of the study of entailment, so that the test takes seconds."""
TASKS = {
    "table-8": "type", "table-9": "subClassOf", "table-10": "subPropertyOf", "table-11": "domain", "table-12": "range"
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wu2023")
    words = write_ontology(root / "ontology")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for seed, name in enumerate(MODELS):
        torch.manual_seed(seed)
        network: Any = GPT2LMHeadModel(GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2))
        save(root / name, network if name == "gpt2" else BertForMaskedLM(BertConfig(vocab_size=400, **shape)), *words)
    content = yaml.safe_load((PAPERS / "wu2023.yaml").read_text())
    content["runs"]["learnt"]["epochs"] = 1
    for name in ("reasoning", "reasoning-causal"):
        content["studies"][name] |= FEWER
    (root / "wu2023.yaml").write_text(yaml.safe_dump(content))
    places = f"ontology={root / 'ontology'},questions={root / 'ontology' / 'multiple_choice'}"
    line = ["plan", root / "wu2023.yaml", "--models", ",".join(str(root / name) for name in MODELS), "--device", "cpu"]
    line += ["--data", places, "--out", root / "out"]
    process = ForkedCall(called, [str(root / "log"), "0", *map(str, line)], said=root / "said")
    code, printed = process.ended(600)
    assert code == 0, printed[-2000:]
    return root / "out"


def predictions(folder: Path) -> Iterator[Row]:
    queries = {row["query_id"]: row for row in pq.read_table(folder / "queries.parquet").to_pylist()}
    for file in sorted((folder / "predictions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            query = queries[row["query_id"]]
            yield {**row, "relation": query["relation"], "groups": dict(query["groups"])}


def reciprocal(row: Row) -> float:
    """Expected 1 / rank under random order of ties."""
    return fmean(1 / rank for rank in range(row["rank_optimistic"], row["rank_pessimistic"] + 1))


def test_every_setting_of_every_task(made: Path) -> None:
    """The rows of a task are its templates, masks and poolings: the same numbers, regardless of their names."""
    for name, task in TASKS.items():
        rows = [row for row in table(made, name) if row["model"] in MODELS]
        expected = []
        for run in [*made.glob("runs/words/*/*"), *made.glob("runs/learnt/*/*/*"), *made.glob("runs/statements/*/*")]:
            settings: dict[Any, list[Row]] = {}
            for row in predictions(run):
                if row["relation"] == task and row["unscored"] is None:
                    settings.setdefault((row["template"], row["scoring"]), []).append(row)
            model = run.relative_to(made / "runs").parts[1]
            for own in settings.values():
                all_of = fmean(1 / fmean(row["gold_ranks"]) for row in own)
                expected.append((model, fmean(map(reciprocal, own)), all_of, len(own)))
        found = [(row["model"], row["MRR"], row["MRRₐ"], row["items"]) for row in rows if row["MRR"] is not None]
        assert len(found) == len(expected) > 30
        for own, its in zip(sorted(found), sorted(expected), strict=True):
            assert own[0] == its[0]
            assert own[1:] == pytest.approx(its[1:])


def test_the_best_of_each_model_is_among_its_settings(made: Path) -> None:
    for row in table(made, "table-4"):
        [name] = [name for name, task in TASKS.items() if task == row["task"]]
        own = [one["MRR"] for one in table(made, name) if one["model"] == row["model"] and one["MRR"] is not None]
        assert row["MRR"] in own
    for name, values in (("figure-5", 2), ("figure-6", 3), ("figure-7", 2)):
        assert len(table(made, name)) == values
    assert {row["model"] for row in table(made, "table-7")} == set(MODELS)


def test_reasoning_by_rule_and_over_all_rules(made: Path) -> None:
    found = tables_of(made, "figure-2")
    assert len(found) == 2 * len(FEWER["rules"])  # type: ignore[arg-type] # of masked and of causal models
    cells: dict[tuple[str, ...], list[float]] = {}
    for title, rows in found.items():
        [rule] = [one for one in FEWER["rules"] if f" {one}," in title]  # type: ignore[attr-defined]
        for row in rows:
            if row["MRR"] is None:
                continue
            [folder] = [*made.glob(f"runs/of-studies/*/**/{row['model']}/**/{row['wording']}")]
            own = [
                reciprocal(one)
                for one in predictions(folder)
                if one["unscored"] is None
                and one["groups"]["rule"] == rule
                and (one["groups"].get("premise 1"), one["groups"].get("premise 2")) == (row["P1"], row["P2"])
            ]
            assert row["MRR"] == pytest.approx(fmean(own))
            cells.setdefault((row["model"], row["wording"], row["P1"], row["P2"]), []).append(row["MRR"])
    over_rules = [row for rows in tables_of(made, "figure-3").values() for row in rows]
    means = {(row["model"], row["wording"], row["P1"], row["P2"]): row["MRR"] for row in over_rules}
    assert cells
    for cell, own in cells.items():
        assert means[cell] == pytest.approx(fmean(own))
    assert len(table(made, "figure-4")) == 4


def test_multiple_choice(made: Path) -> None:
    own: dict[tuple[str, str], list[float]] = {}
    for model in MODELS:
        for row in predictions(made / "runs" / "choice" / model / "questions"):
            first, last = row["rank_optimistic"], row["rank_pessimistic"]
            hit = 1 / (last - first + 1) if first == 1 else 0.0
            groups = row["groups"]
            own.setdefault((model, groups.get("rule", groups.get("task", ""))), []).append(hit)
    for row in table(made, "table-5"):
        if row["task"] != "all":
            assert row["accuracy"] == pytest.approx(fmean(own[row["model"], row["task"]]))
    rows = table(made, "table-6")
    for model in MODELS:
        parts = [
            (row["accuracy"], row["questions"]) for row in rows if row["model"] == model and row["rule"] == "rdfs9"
        ]
        mean = sum(accuracy * count for accuracy, count in parts) / sum(count for _, count in parts)
        assert mean == pytest.approx(fmean(own[model, "rdfs9"]))

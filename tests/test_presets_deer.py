"""``fathom plan deer``: every cell of its tables equals a loop over the files of the runs, for three models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel

from fathom.plans.content import TablePart
from fathom.plans.file import read_plan
from fathom.plans.presets import PAPERS, write_preset
from fathom.plans.tables import PlannedTable, add_printed_values
from fathom.results.tables import Table
from fathom.store.folder import SECONDS
from tests.forked import ForkedCall
from tests.papers import facts, table, tables_of, write_bear, write_graph
from tests.sharing import called
from tests.test_cli import save

pytestmark = pytest.mark.slow

Row = dict[str, Any]
MODELS = ("opt-125m", "opt-350m", "own")
FEWER = {"limit": [2, 3], "relations": ["P36", "P30"], "tail_template": ["A", "B"]}
"""Values of matrices in place of the paper's, so that the test takes seconds."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the preset; YAGO3-10 is not there."""
    root = tmp_path_factory.mktemp("deer")
    words = [*write_graph(root / "wn18rr"), *write_graph(root / "fb15k237", 16, 1)]
    write_bear(root / "bear")
    words += [word for pairs in facts().values() for pair in pairs for name in pair for word in name.split()]
    for seed, name in enumerate(MODELS):
        torch.manual_seed(seed)
        save(root / name, GPT2LMHeadModel(GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2)), *words)
    content = yaml.safe_load((PAPERS / "deer.yaml").read_text())
    for run in content["runs"].values():
        run["matrix"] = {key: FEWER[key] for key in run.get("matrix", {})}
        run["repeats"] = 2 if run.get("exclusive") else 1
    (root / "deer.yaml").write_text(yaml.safe_dump(content))
    places = {"wn18rr": "wn18rr", "queries": "wn18rr", "triples": "wn18rr", "fb15k237": "fb15k237", "bear": "bear"}
    line = ["plan", root / "deer.yaml", "--models", ",".join(str(root / name) for name in MODELS), "--device", "cpu"]
    line += ["--data", ",".join(f"{name}={root / place}" for name, place in places.items()), "--out", root / "out"]
    process = ForkedCall(called, [str(root / "log"), "0", *map(str, line)], said=root / "said")
    code, printed = process.ended(600)
    assert code == 1, printed
    assert "YAGO3-10 (yago3-10) is not here" in printed
    assert "unexpected" not in printed
    return root / "out"


def predictions(out: Path, run: str) -> Iterator[Row]:
    folder = out / "runs" / run
    queries = {row["query_id"]: row["fact_id"] for row in pq.read_table(folder / "queries.parquet").to_pylist()}
    for file in sorted((folder / "predictions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            yield {**row, "fact": queries[row["query_id"]]}


def ranks(out: Path, run: str) -> dict[str, float]:
    """Mean decimal logarithm of the rank of each fact."""
    found: dict[str, list[float]] = {}
    for row in predictions(out, run):
        found.setdefault(row["fact"], []).append(np.log10(row["rank"]))
    return {fact: fmean(own) for fact, own in found.items()}


def hits(out: Path, run: str, k: int) -> float:
    """Expected Hits@k under random order of ties."""
    shares = []
    for row in predictions(out, run):
        first, last = row["rank_optimistic"], row["rank_pessimistic"]
        shares.append(min(max((k - first + 1) / (last - first + 1), 0), 1))
    return fmean(shares)


def correlation(out: Path, one: str, other: str) -> float:
    first, second = ranks(out, one), ranks(out, other)
    common = [fact for fact in first if fact in second]
    return float(np.corrcoef([first[fact] for fact in common], [second[fact] for fact in common])[0, 1])


def test_tables_of_agreement(made: Path) -> None:
    for name, first, second, data in (
        ("table-3", "lama", "deer", ("wn18rr",)),
        ("table-5", "lama", "deer", ("wn18rr", "fb15k237")),
        ("table-7", "bear-of-sample", "deer-of-sample", ("queries",)),
    ):
        rows = table(made, name)
        expected = {
            (model, part): correlation(made, f"{first}/{model}/{part}", f"{second}/{model}/{part}")
            for model in MODELS
            for part in data
        }
        expected |= {("mean of 3 models", part): fmean(expected[model, part] for model in MODELS) for part in data}
        assert {(row["model"], row.get("data", data[0])): row["r"] for row in rows} == pytest.approx(expected)
    assert [row["r paper"] for row in table(made, "table-3")] == [0.496, 0.496, None, None]
    assert [row["against paper"] for row in table(made, "table-3")] == ["other data", "other data", None, None]
    assert (made / "studies" / "lama" / "agreement.png").is_file()


def test_quadrants(made: Path) -> None:
    for name, runs in (("figure-8", ("lama", "deer")), ("figure-10", ("bear-of-sample", "deer-of-sample"))):
        for row in table(made, name):
            if row["model"] not in MODELS:
                continue
            data = row["data"] if name == "figure-8" else "queries"
            one, other = (ranks(made, f"{run}/{row['model']}/{data}") for run in runs)
            within = [(one[fact] <= 1, other[fact] <= 1) for fact in one if fact in other]
            parts = [(True, True), (True, False), (False, True), (False, False)]
            shares = [row[column] for column in ("both hit", "only first", "only second", "both miss")]
            assert shares == pytest.approx([fmean(pair == part for pair in within) for part in parts])
            assert row["facts"] == len(within)


def test_tables_of_accuracy(made: Path) -> None:
    columns: Mapping[str, tuple[str, str]] = {"LAMA": ("lama", "wn18rr"), "DEER": ("deer", "wn18rr")}
    small = {"BEAR": ("bear-of-sample", "queries"), "DEER": ("deer-of-sample", "queries")}
    for name, own in (("table-4", columns), ("table-6", columns), ("table-8", small)):
        rows = table(made, name)
        assert len(rows) == (6 if name == "table-6" else 3)
        for row in rows:
            for column, (run, data) in own.items():
                folder = f"{run}/{row['model']}/{row.get('data', data)}"
                for k in (1, 10, 100):
                    assert row[f"{column} Acc@{k}"] == pytest.approx(hits(made, folder, k))
    assert table(made, "table-4")[0]["LAMA Acc@10 paper"] == 0.07
    for row in table(made, "table-9"):
        for prompt in FEWER["tail_template"]:
            for k in (1, 10, 100):
                folder = f"prompts/{row['model']}/wn18rr/tail_template={prompt}"
                assert row[f"{prompt} Acc@{k}"] == pytest.approx(hits(made, folder, k))


def test_token_lengths_times_and_relations_of_bear(made: Path) -> None:
    for row in table(made, "figure-9"):
        run, model, of = row["of"].replace(",", "").split(" ", 3)[0], *row["of"].split(", ", 1)
        folder = f"{'bear' if run == 'statement' else 'deer'}-of-sample/{model.split()[-1]}/queries"
        own = list(predictions(made, folder))
        tokens = [row["gold_tokens"][0] for row in own]
        if of == "rank" and len(set(tokens)) > 1:
            assert row["Pearson r"] == pytest.approx(np.corrcoef(tokens, [row["rank"] for row in own])[0, 1])
    found = tables_of(made, "table-2")
    assert len(found) == 3
    for title, rows in found.items():
        [model] = [name for name in MODELS if name in title]
        for row, run in zip(rows, ("times-bear", "times-deer"), strict=True):
            points = []
            for folder in (made / "runs" / run / model / "triples").rglob("manifest.json"):
                seconds = json.loads(folder.read_text())["circumstances"][SECONDS]
                points.append((pq.read_table(folder.parent / "queries.parquet").num_rows, seconds))
            slope = np.polyfit(*zip(*points, strict=True), 1)[0]
            assert row["seconds/query"] == pytest.approx(slope)
    found = tables_of(made, "figure-18")
    assert len(found) == 2
    for title, rows in found.items():
        [relation] = [name for name in FEWER["relations"] if name in title]
        for row in rows[:3]:
            sides = [f"{probe}-of-relations/{row['model']}/bear/relations={relation}" for probe in ("bear", "deer")]
            assert row["r"] == pytest.approx(correlation(made, *sides))


def test_a_sample_has_fewer_timed_queries(made: Path, tmp_path: Path) -> None:
    model = str(made.parent / "own")
    file = write_preset("deer", [model], {"triples": str(made.parent / "wn18rr")}, tmp_path, limit=20)
    content = yaml.safe_load(file.read_text())
    for name in ("times-bear", "times-deer"):
        assert content["runs"][name]["matrix"]["limit"] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert [table.name for table in read_plan(file, tmp_path).tables] == ["table-2"]


def test_values_next_to_the_table_of_a_study() -> None:
    rows = (("a", 9, 0.5), ("b", 9, 0.5), ("c", 8, 0.5), ("d", 9, 0.5))
    values = {("a", "r"): 0.54, ("a", "facts"): 9.0, ("b", "r"): 0.6, ("b", "facts"): 9.0}
    values |= {("c", "r"): 0.5, ("c", "facts"): 9.0}
    part = TablePart(caption="x", study="agreement", tolerance=0.05)
    planned = PlannedTable("table-3", part, {}, {}, {}, {}, values)
    found = add_printed_values(planned, Table(("model", "facts", "r"), rows)).objects()
    assert [row["against paper"] for row in found] == ["agrees", "differs: r", "other data", None]

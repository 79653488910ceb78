"""``fathom plan shaier2024`` and ``sakai2024``: every cell by a loop over the Parquet files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
import yaml

from fathom.plans.file import read_plan
from fathom.plans.presets import PAPERS, write_preset
from tests.papers import plant_models, table, write_bear, write_places, write_trex

pytestmark = pytest.mark.slow

Command = Callable[..., tuple[int, str, str]]
Row = dict[str, Any]


def predictions(run: Path) -> Iterator[Row]:
    """Predictions with the relation of their query."""
    relations = {row["query_id"]: row["relation"] for row in pq.read_table(run / "queries.parquet").to_pylist()}
    for file in sorted((run / "predictions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            yield row | {"relation": relations[row["query_id"]]}


def hits(row: Row, k: int) -> float:
    """Expected Hits@k, from the definition: tied answers are in random order."""
    first, last = row["rank_optimistic"], row["rank_pessimistic"]
    if first is None:  # not among the best answers, of which there are at least k
        assert row["rank_above"] >= k
        return 0.0
    return min(1.0, max(0.0, (k - first + 1) / (last - first + 1)))


class TestShaier:
    KINDS: ClassVar = {"roberta-base": "masked", "masked": "masked", "causal": "causal"}
    DATA: ClassVar = {"google-re": 8, "trex": 6}

    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        from fathom import run_plan

        root = tmp_path_factory.mktemp("shaier")
        places = {name: str(write_trex(root / name, capitals=number)) for name, number in self.DATA.items()}
        models = plant_models(root / "models", write_bear(root / "bear"), self.KINDS)
        result = run_plan("shaier2024", root / "out", models=[str(one) for one in models], data=places, device="cpu")
        assert len(result.failures) == 3
        for line, name in zip(result.failures, ("concept-net", "BioLAMA", "LIPID"), strict=True):
            assert name in line
        return root / "out"

    def run(self, made: Path, reading: str, model: str, data: str) -> Path:
        return made / "runs" / f"{reading}{'-causal' * (model == 'causal')}" / model / data

    @pytest.mark.parametrize(("name", "reading"), [("table-3", "template"), ("table-4", "sentence")])
    def test_accuracies_and_places(self, made: Path, name: str, reading: str) -> None:
        rows = {row["model"]: row for row in table(made, name)}
        assert list(rows) == [*self.KINDS, "average"]
        for data in self.DATA:
            scores = {}
            for model in self.KINDS:
                own = list(predictions(self.run(made, reading, model, data)))
                scores[model] = tuple(fmean(hits(row, k) for row in own) for k in (1, 5, 10))
                for k, score in zip((1, 5, 10), scores[model], strict=True):
                    assert rows[model][f"{data} Acc@{k}"] == pytest.approx(score)
            for k, column in zip((1, 5, 10), zip(*scores.values(), strict=True), strict=True):
                assert rows["average"][f"{data} Acc@{k}"] == pytest.approx(fmean(column))
            for model, own_score in scores.items():
                better = sum(other > own_score for other in scores.values())
                equal = sum(other == own_score for other in scores.values())
                assert rows[model][f"{data} place"] == 1 + better + (equal - 1) / 2
        assert ("against paper" in rows["roberta-base"]) == (reading == "template")

    def test_perplexities(self, made: Path) -> None:
        rows = {row["model"]: row for row in table(made, "table-5")}
        for model in self.KINDS:
            for reading, short in (("template", "TB"), ("sentence", "TF")):
                for data in self.DATA:
                    own = predictions(self.run(made, reading, model, data))
                    each = [math.exp(-row["prompt_log_prob"] / row["prompt_tokens"]) for row in own]
                    assert rows[model][f"{data} {short}"] == pytest.approx(fmean(each))
        assert rows["roberta-base"]["trex TF paper"] == 8.11

    def test_templates_and_studies(self, made: Path) -> None:
        for row in table(made, "section-5.2"):
            for model in self.KINDS:
                own = predictions(self.run(made, "template", model, "google-re"))
                expected = fmean(hits(one, 10) for one in own if one["relation"] == row["relation"])
                assert row[model] == pytest.approx(expected)
        assert [row["type"] for row in table(made, "table-2")] == ["MLM", "MLM", "CLM"]
        for row in table(made, "figure-1"):
            reading = {"template-based": "template", "template-free": "sentence"}[row["reading"]]
            run = self.run(made, reading, row["model"], row["data"])
            first = {one["top_ids"][0] for one in predictions(run)}
            assert row["distinct share@1"] == pytest.approx(len(first) / row["prompts"])
        assert len(table(made, "figure-2")) == 8
        assert (made / "studies" / "rankings" / "rankings.json").is_file()


class TestSakai:
    KINDS: ClassVar = {"masked": "masked", "t5": "t5", "bart": "bart"}
    WORLDS: ClassVar = ["base", "virtual-er"]
    RUNS: ClassVar = {"simkgc", "knn-kge", "kgt5", "genkgc"}

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        root = tmp_path_factory.mktemp("sakai")
        write_places(root / "graph")
        plant_models(root / "models", write_bear(root / "bear"), self.KINDS)
        return root

    def test_all_worlds_are_planned(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FATHOM_DATA", raising=False)
        models = [str(folder / "models" / name) for name in self.KINDS]
        file = write_preset("sakai2024", models, {"wn18rr": str(folder / "graph")}, folder / "planned")
        plan = read_plan(file, folder / "planned")
        assert len(plan.steps) == 1 + 4 * 2 * 13
        assert {run.keys["run"] for run in plan.runs} == {"TransE", *self.RUNS}
        assert ["FB15k-237" in line for line in plan.missing] == [True, False]
        assert {"figure-6", "figure-7"} <= set(plan.skipped[-1].replace(",", " ").split())

    def test_every_world_by_hand(self, folder: Path, fathom: Command) -> None:
        """The preset with two worlds and one epoch, as a preset of one's own."""
        content = yaml.safe_load((PAPERS / "sakai2024.yaml").read_text())
        content["data"] = {"wn18rr": content["data"]["wn18rr"] | {"worlds": self.WORLDS}}
        for name, run in content["runs"].items():
            run["data"] = ["wn18rr/base"] if name == "TransE" else ["wn18rr"]
            run.update({} if name == "prompted" else {"epochs": 1, "batch_size": 16})
        del content["runs"]["simkgc-wikidata5m"], content["tables"]["figure-6"], content["tables"]["figure-7"]
        for name in ("table-2", "table-3", "table-4"):
            content["tables"][name]["data"] = ["wn18rr"]
        (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        out = folder / "out"
        models = ",".join(str(folder / "models" / name) for name in self.KINDS)
        line = ["plan", folder / "mine.yaml", "--models", models, "--data", f"wn18rr={folder / 'graph'}"]
        code, _, log = fathom(*line, "--out", out, "--device", "cpu")
        assert code == 0, log
        rows = table(out, "figure-5")
        assert {(row["run"], row["init"]) for row in rows} == {("TransE", "")} | {
            (run, init) for run in self.RUNS for init in ("pretrained", "random")
        }
        for row in rows:
            for world in self.WORLDS if row["init"] else ["base"]:
                run = out / "runs" / row["run"] / "wn18rr" / world
                own = predictions(run / f"init={row['init']}" if row["init"] else run)
                assert row[world] == pytest.approx(fmean(hits(one, 10) for one in own))
        counts = {row["what"]: row for row in table(out, "table-2")}
        assert counts["relations"]["wn18rr count"] == 2
        assert counts["relations"]["wn18rr count paper"] == 11
        shares = {row["distinct relations"]: row for row in table(out, "table-3")}
        assert shares["1"]["wn18rr test"] == 1.0
        found = {row["the answer's name"]: row for row in table(out, "table-4")}
        assert found["queries"]["wn18rr test"] == 8
        assert json.loads((out / "papers" / "memory.json").read_text())

"""``fathom plan bear --models …``: the tables of a paper, cell by cell, next to the values that the paper prints."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from fathom.errors import BadInput
from fathom.plans import tables
from fathom.plans.file import read_plan
from fathom.plans.presets import PAPERS, write_preset
from fathom.plans.tables import read_values
from tests.forked import ForkedCall
from tests.messages import mentions
from tests.papers import KINDS, plant_models, table, write_bear, write_trex
from tests.sharing import called

Command = Callable[..., tuple[int, str, str]]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, and small data in the layouts of BEAR and T-REx."""
    root = tmp_path_factory.mktemp("presets")
    write_bear(root / "bear")
    write_bear(root / "bear-big", capitals=10)
    write_trex(root / "trex", subjects=5)
    plant_models(root / "models", root / "bear")
    return root


def words(folder: Path, out: Path, models: Sequence[str] = tuple(KINDS), data: str = "bear,bear-big,trex") -> list[Any]:
    places = ",".join(f"{name}={folder / name}" for name in data.split(","))
    listed = ",".join(str(folder / "models" / name) for name in models)
    return ["plan", "bear", "--models", listed, "--data", places, "--out", out, "--device", "cpu"]


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the preset for all models."""
    out = tmp_path_factory.mktemp("made") / "out"
    process = ForkedCall(
        called, [str(out.parent / "log"), "0", *map(str, words(folder, out))], said=out.parent / "said"
    )
    code, printed = process.ended(600)
    assert code == 0, printed
    return out


def hit(row: Row) -> float:
    """Expected Hits@1, from the definition: the gold answer shares its rank with others at random."""
    first, last = row["rank_optimistic"], row["rank_pessimistic"]
    return 1 / (last - first + 1) if first == 1 else 0.0


def naive(
    out: Path, run: str, scoring: str = "sum/full", of: Callable[[Row], bool] = lambda row: True
) -> dict[int, float]:
    """Accuracy of each template, by a loop over the Parquet files."""
    folder = out / "runs" / run
    queries = {row["query_id"]: row for row in pq.read_table(folder / "queries.parquet").to_pylist()}
    hits: dict[int, list[float]] = {}
    for file in sorted((folder / "predictions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            query = queries[row["query_id"]]
            known = {**query, "template": row["template"], "groups": dict(query["groups"])}
            if row["scoring"] == scoring and of(known):
                hits.setdefault(row["template"], []).append(hit(row))
    return {template: fmean(own) for template, own in hits.items()}


def is_one_to_one(row: Row) -> bool:
    return row["groups"]["cardinality"] == "1:1"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "run", "data"), [("table-3", "bear", "bear"), ("table-4", "big", "bear-big")])
def test_scores_of_each_model_are_means_over_templates(made: Path, name: str, run: str, data: str) -> None:
    rows = {row["model"]: row for row in table(made, name)}
    assert rows.keys() == {*KINDS, "random"}
    parts: dict[str, Callable[[Row], bool]] = {
        "BEAR": lambda row: True, "BEAR 1:1": is_one_to_one, "BEAR 1:N": lambda row: not is_one_to_one(row)
    }  # fmt: skip
    for model in KINDS:
        for column, of in parts.items():
            own = naive(made, f"{run}/{model}/{data}", of=of)
            assert len(own) == 3
            assert rows[model][column] == pytest.approx(fmean(own.values()))
            assert rows[model][f"{column} ±"] == pytest.approx(stdev(own.values()), abs=1e-12)
        assert rows[model]["type"] == {"causal": "CLM", "masked": "MLM"}[KINDS[model]]
    capitals = {"table-3": 6, "table-4": 10}[name]
    assert rows["random"]["BEAR 1:1"] == pytest.approx(1 / capitals)
    assert rows["random"]["BEAR 1:N"] == pytest.approx(1 / 3)
    assert rows["random"]["BEAR"] == pytest.approx((1 + 4) / (capitals + 12))
    assert list(rows)[-1] == "random"
    scores = [row["BEAR"] for row in rows.values()][:-1]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_ways_of_scoring_and_every_template_of_every_relation(made: Path) -> None:
    for name, columns in (("figure-6", {"full": "sum/full", "conditional": "sum/conditional"}),
                          ("figure-7", {"sum": "sum/full", "mean": "mean/full"})):  # fmt: skip
        rows = table(made, name)
        assert [row["model"] for row in rows] == list(KINDS)
        for row in rows:
            for column, scoring in columns.items():
                own = naive(made, f"bear/{row['model']}/bear", scoring)
                assert row[column] == pytest.approx(fmean(own.values()))
    [row] = table(made, "figure-10")
    assert row["model"] == "bert-base-cased"
    for reduction in ("sum", "mean"):
        for masking, run in (("within-word-l2r", "bear"), ("original", "original")):
            own = naive(made, f"{run}/bert-base-cased/bear", f"{reduction}/full")
            assert row[f"{masking}, {reduction}"] == pytest.approx(fmean(own.values()))
    rows = table(made, "figure-9")
    assert [(row["relation"], row["template"]) for row in rows] == [
        (one, str(n)) for one in ("P36", "P30") for n in range(3)
    ]
    for row in rows:
        for model in KINDS:
            own = naive(made, f"bear/{model}/bear", of=lambda one, row=row: one["relation"] == row["relation"])
            assert row[model] == pytest.approx(own[int(row["template"])])


@pytest.mark.slow
def test_tables_of_data_and_of_studies(made: Path) -> None:
    by_part = {row["part"]: row for row in table(made, "table-2")}
    assert [by_part["all"][f"{name} instances"] for name in ("trex", "bear-big", "bear")] == [21, 22, 18]
    assert by_part["all"]["trex instances paper"] == 31479
    assert by_part["all"]["against paper"].startswith("differs: ")
    assert [row["relation"] for row in table(made, "table-1")] == ["P30", "P36", "mean of relations"]
    for name in ("figure-5", "figure-8"):
        assert {row["model"] for row in table(made, name)} == set(KINDS)
    assert (made / "papers" / "table-5.md").read_text().count("most confident wrong answers") == 3
    page = (made / "report.html").read_text()
    assert "Table 3: BEAR scores" in page


@pytest.mark.slow
def test_the_paper_is_compared_where_the_data_are_its_own(made: Path, tmp_path: Path) -> None:
    """Other data are not compared; the same number of facts is, within the tolerance of the table."""
    rows = {row["model"]: row for row in table(made, "table-3")}
    assert rows["gpt2"]["BEAR paper"] == 0.135
    assert rows["gpt2"]["BEAR ± paper"] == 0.008
    assert rows["gpt2"]["against paper"] == rows["random"]["against paper"] == "other data"
    assert rows["other"]["BEAR paper"] is rows["other"]["against paper"] is None
    own = tmp_path / "out"
    shutil.copytree(made, own)
    content = yaml.safe_load((own / "plan.yaml").read_text())
    content["data"]["bear"]["facts"] = 18
    near, far = rows["gpt2"]["BEAR"] + 0.004, rows["bert-base-cased"]["BEAR"] + 0.006
    lines = [f"table-3,here,GPT2,BEAR,{near}", f"table-3,here,bert-base-cased,BEAR,{far}"]
    (tmp_path / "values.csv").write_text("\n".join(["table,where,row,column,value", *lines]))
    content["values"] = str(tmp_path / "values.csv")
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    from fathom.plans.execution import carry_out

    carry_out(read_plan(file, own), own, report_only=True)
    verdicts = {row["model"]: row["against paper"] for row in table(own, "table-3")}
    assert verdicts == {"gpt2": "agrees", "bert-base-cased": "differs: BEAR", "other": None, "random": None}


@pytest.mark.slow
def test_without_some_data_the_rest_is_made_and_then_completed(
    folder: Path, tmp_path: Path, fathom: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FATHOM_DATA", raising=False)
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    code, printed, log = fathom(*words(folder, out, ["gpt2"], "bear"))
    assert code == 1
    for name, source in (("BEAR-big", "bear-big"), ("LAMA", "trex")):
        [line] = [line for line in log.splitlines() if line.endswith(f"--data {source}=FOLDER")]
        for part in (name, "https://", "licence", f"fathom data fetch {name},"):
            assert part in line
    assert "original: no model is masked" in printed
    assert "left out: table-1, table-4, figure-5, figure-8, figure-10" in printed
    there = {file.stem for file in (out / "papers").glob("*.csv")}
    assert there == {"table-2", "table-3", "figure-4", "table-5", "figure-6", "figure-7", "figure-9"}
    before = {file: file.stat().st_mtime_ns for file in out.glob("runs/**/*.parquet")}
    code, _, log = fathom(*words(folder, out, ["gpt2"]))
    assert code == 0, log
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert len(table(out, "table-4")) == 2


def test_no_data_at_all_and_wrong_options(folder: Path, tmp_path: Path, fathom: Command, monkeypatch: Any) -> None:
    monkeypatch.delenv("FATHOM_DATA", raising=False)
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    out, model = tmp_path / "out", folder / "models" / "gpt2"
    for line, parts in (
        (["--models", model], ("fathom data fetch BEAR", "fathom data fetch LAMA")),
        (["--models", model, "--data", f"bear={tmp_path / 'none'}"], ("none",)),
        (["--models", model, "--data", "bare=x"], ("--data bare", "bear")),
        (["--models", model, "--data", "bear"], ("--data bear", "NAME=FOLDER")),
        (["--models", tmp_path / "none"], ("none",)),
        ([], ("--models",)),
    ):
        code, _, log = fathom("plan", "bear", *line, "--out", out)
        assert code == 2, log
        assert all(part in log for part in parts), log
    code, _, log = fathom("plan", "bare", "--models", model, "--out", out)
    assert code == 2
    assert "bear" in log
    assert not out.exists()


def test_a_preset_is_one_file_and_its_cost_is_stated(folder: Path, tmp_path: Path, fathom: Command) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "data: {facts: {data: geography}}\n"
        "runs: {statement: {probe: statement, templates: 0}}\n"
        "tables:\n"
        "  table-1: {caption: mine, rows: [relation], columns: {'': {each: model, metrics: [hits@1, hits@5, place]}}}\n"
    )
    line = ["plan", preset, "--models", folder / "models" / "gpt2", "--out", tmp_path / "out", "--limit", 20]
    code, printed, log = fathom(*line, "--dry-run")
    assert code == 0, log
    assert "minutes left" in " ".join(printed.split())
    code, _, log = fathom(*line)
    assert code == 0, log
    rows = table(tmp_path / "out", "table-1")
    assert {"relation", "gpt2 Acc@1", "gpt2 Acc@5", "gpt2 place"} <= rows[0].keys()
    order = sorted(rows, key=lambda row: (-row["gpt2 Acc@1"], -row["gpt2 Acc@5"]))
    assert [row["gpt2 place"] for row in order] == sorted(row["gpt2 place"] for row in rows)


def test_an_edited_plan_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    models, places = [str(folder / "models" / "gpt2")], {"bear": str(folder / "bear")}
    file = write_preset("bear", models, places, tmp_path / "out")
    assert write_preset("bear", [*models, str(folder / "models" / "other")], places, tmp_path / "out") == file
    file.write_text("# mine\n" + file.read_text())
    with pytest.raises(BadInput, match=mentions("plan.yaml", "--overwrite")):
        write_preset("bear", models, places, tmp_path / "out")


def test_the_folder_of_another_preset_is_refused(folder: Path, tmp_path: Path, fathom: Command) -> None:
    models, out = folder / "models" / "gpt2", tmp_path / "out"
    before = write_preset("bear", [str(models)], {"bear": str(folder / "bear")}, out).read_text()
    code, _, log = fathom("plan", "deer", "--models", models, "--data", f"bear={folder / 'bear'}", "--out", out)
    assert code == 2
    assert all(part in log for part in ("plan.yaml", "BEAR", "DEER", "choose another --out")), log
    assert (out / "plan.yaml").read_text() == before


def test_data_without_a_command_that_fetches_them(folder: Path, tmp_path: Path) -> None:
    file = write_preset("deer", [str(folder / "models" / "gpt2")], {"bear": str(folder / "bear")}, tmp_path / "out")
    [line] = [line for line in yaml.safe_load(file.read_text())["missing"] if "YAGO3-10" in line]
    assert line.endswith("yago-knowledge.org; give --data yago3-10=FOLDER")


@pytest.mark.parametrize("file", sorted(PAPERS.glob("*.csv")), ids=lambda file: file.stem)
def test_values_belong_to_tables_of_the_preset(file: Path) -> None:
    content = yaml.safe_load(file.with_suffix(".yaml").read_text())
    assert read_values(file).keys() <= content["tables"].keys()


@pytest.mark.parametrize("text", ["table,row\n", "table,where,row,column,value\ntable-3,x,gpt2,BEAR,much\n"])
def test_values_that_are_none_are_refused_with_their_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "values.csv").write_text(text)
    with pytest.raises(BadInput, match=mentions("values.csv", "table,where,row,column,value")):
        read_values(tmp_path / "values.csv")


def test_what_a_table_of_a_plan_cannot_be(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        f"models: {{a: {folder / 'models' / 'gpt2'}}}\n"
        "data: {facts: {data: geography}}\n"
        "runs: {s: {probe: statement}}\n"
        "values: none.csv\n"
        "tables:\n"
        "  one: {caption: x}\n"
        "  two: {caption: x, study: relations}\n"
        "  three: {caption: x, columns: {a: {runs: t}}}\n"
        "  four: {caption: x, statistics: totals, data: fact}\n"
    )
    with pytest.raises(BadInput) as found:
        read_plan(file, tmp_path / "out")
    for part in ("none.csv", "tables.one", "tables.two.study", "tables.three.columns.a", "tables.four.data"):
        assert any(part in fault for fault in found.value.faults), part


@pytest.mark.slow
def test_killed_twice_it_ends_with_the_same_tables(folder: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = [str(tmp_path / "log"), "0.2", *map(str, words(folder, out))]
    for parts in (3, 9):
        process, until = ForkedCall(called, line, said=tmp_path / f"said-{parts}"), time.monotonic() + 120
        while len([*out.rglob("part-*.parquet")]) < parts and process.goes_on():
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send(signal.SIGKILL)
        process.ended()
    code, printed = ForkedCall(called, [line[0], "0", *line[2:]], said=tmp_path / "said").ended()
    assert code == 0, printed
    for file in sorted((made / "papers").glob("*.*")):
        assert (out / "papers" / file.name).read_bytes() == file.read_bytes(), file.name
    assert tables.FOLDER == "papers"

"""``fathom plan bear --models …``: the values of a paper next to one's own, data that are not here, and bad input."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.plans.content import TablePart
from fathom.plans.execution import carry_out
from fathom.plans.file import read_plan
from fathom.plans.kinds import PRESETS
from fathom.plans.presets import write_preset
from fathom.plans.tables import PlannedTable, read_values, with_paper
from fathom.results.tables import Table
from tests.messages import mentions
from tests.papers import KINDS, plant_models, table, write_bear, write_graph, write_places, write_trex

Command = Callable[..., tuple[int, str, str]]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, and small data in the layouts of BEAR and T-REx."""
    root = tmp_path_factory.mktemp("presets")
    write_bear(root / "bear")
    write_bear(root / "bear-big", capitals=10)
    write_trex(root / "trex", subjects=5)
    plant_models(root / "models", read(root / "bear"), KINDS)
    return root


def words(folder: Path, out: Path, models: Sequence[str] = tuple(KINDS), data: str = "bear,bear-big,trex") -> list[Any]:
    places = ",".join(f"{name}={folder / name}" for name in data.split(","))
    listed = ",".join(str(folder / "models" / name) for name in models)
    return ["plan", "bear", "--models", listed, "--data", places, "--out", out, "--device", "cpu"]


def test_the_paper_is_compared_where_the_data_are_its_own(folder: Path, tmp_path: Path) -> None:
    """Other data are not compared; the same numbers of facts and candidates are, within the tolerance of the table.

    The scores of these models are those of guessing, so none agrees.
    """
    plan = {
        "models": {name: str(folder / "models" / name) for name in KINDS},
        "data": {"bear": {"data": str(folder / "bear"), "paper": {"facts": 18, "candidates": 9}}},
        "runs": {"bear": {"probe": "statement", "device": "cpu"}},
        "tables": {"table-3": {"caption": "scores", "columns": {"BEAR": {}}, "random": True, "tolerance": 0.005}},
    }
    scores = {row["model"]: row["BEAR"] for row in made(plan, tmp_path / "first")}
    near, far = scores["gpt2"] + 0.004, scores["bert-base-cased"] + 0.006
    lines = [f"table-3,here,GPT2,BEAR,{near}", f"table-3,here,bert-base-cased,BEAR,{far}"]
    (tmp_path / "values.csv").write_text("\n".join(["table,where,row,column,value", *lines]))
    plan["values"] = str(tmp_path / "values.csv")
    rows = {row["model"]: row for row in made(plan, tmp_path / "second")}
    verdicts = {model: row["against paper"] for model, row in rows.items()}
    at_chance = "no better than chance: BEAR"
    assert verdicts == {
        "gpt2": at_chance,
        "bert-base-cased": f"differs: BEAR; {at_chance}",
        "other": None,
        "random": None,
    }
    assert rows["gpt2"]["BEAR paper"] == near
    for size in ({"facts": 17, "candidates": 9}, {"facts": 18, "candidates": 8}, {"facts": 18, "candidates": None}):
        plan["data"]["bear"]["paper"] = size
        rows = {row["model"]: row for row in made(plan, tmp_path / f"other {size}")}
        assert [rows[model]["against paper"] for model in ("gpt2", "other")] == ["other data", None]


def made(plan: dict[str, Any], folder: Path) -> list[Row]:
    """The only table of a plan."""
    folder.mkdir()
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    out = folder / "out"
    carry_out(read_plan(folder / "plan.yaml", out), out)
    return table(out, "table-3")


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


def test_one_wrong_model_among_several_is_named_in_one_line(folder: Path, tmp_path: Path, fathom: Command) -> None:
    models = ",".join(str(folder / "models" / name) for name in ("gpt2", "none", "other"))
    line = "--models", models, "--data", f"bear={folder / 'bear'}", "--out", tmp_path / "out"
    code, _, log = fathom("plan", "bear", *line)
    assert code == 2
    [error] = [one for one in log.splitlines() if one.startswith("error: ")]
    assert str(folder / "models" / "none") in error
    assert not (tmp_path / "out").exists()


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
    assert "s left for the others" in " ".join(printed.split())
    assert not (tmp_path / "out").exists()
    code, _, log = fathom(*line)
    assert code == 0, log
    rows = table(tmp_path / "out", "table-1")
    assert {"relation", "gpt2 Acc@1", "gpt2 Acc@5", "gpt2 place"} <= rows[0].keys()
    order = sorted(rows, key=lambda row: (-row["gpt2 Acc@1"], -row["gpt2 Acc@5"]))
    assert [row["gpt2 place"] for row in order] == sorted(row["gpt2 place"] for row in rows)


@pytest.mark.parametrize(
    ("preset", "runs", "studies"),
    [
        ("sizes", {"embedding": 2, "vocabulary": 2, "statement": 2}, []),
        ("compute-time", {"embedding": 12, "statement": 12}, ["compute-time/gpt2", "compute-time/bert-base-cased"]),
    ],
)
def test_presets_of_a_study(
    preset: str, runs: dict[str, int], studies: list[str], folder: Path, tmp_path: Path, fathom: Command
) -> None:
    """A causal and a masked model; two numbers of queries, each timed three times."""
    models = ",".join(str(folder / "models" / name) for name in ("gpt2", "bert-base-cased"))
    out = tmp_path / "out"
    code, _, log = fathom("plan", preset, "--models", models, "--limit", 2, "--out", out)
    assert code == 0, log
    plan = read_plan(out / "plan.yaml", out)
    assert Counter(run.keys["run"] for run in plan.runs) == runs
    assert sorted(study.name for study in plan.studies) == sorted(studies)
    for name in studies:
        assert (out / "studies" / name / f"{preset}.json").is_file()
    assert (out / "claims.json").is_file() == (preset == "sizes")
    assert not (out / "papers").exists()


def test_presets_of_a_study_take_other_data(folder: Path, tmp_path: Path) -> None:
    """The ablation has a run of the causal model, and four of the masked one."""
    models = [str(folder / "models" / name) for name in ("gpt2", "bert-base-cased")]
    for name in ("ablation", "sizes", "compute-time"):
        out = tmp_path / name
        plan = read_plan(write_preset(name, models, {"facts": str(folder / "bear")}, out), out)
        assert {Path(step.data) for step in plan.steps} == {folder / "bear"}
        assert name != "ablation" or Counter(run.keys["run"] for run in plan.runs) == {"statement": 1, "masked": 4}


def test_an_edited_plan_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    models, places = [str(folder / "models" / "gpt2")], {"bear": str(folder / "bear")}
    file = write_preset("bear", models, places, tmp_path / "out")
    assert write_preset("bear", [*models, str(folder / "models" / "other")], places, tmp_path / "out") == file
    file.write_text("# mine\n" + file.read_text())
    with pytest.raises(BadInput, match=mentions("plan.yaml", "--overwrite")):
        write_preset("bear", models, places, tmp_path / "out")
    (tmp_path / "out" / "plan.json").write_text("{}")  # it has been carried out
    file.write_text(file.read_text().replace("title: BEAR", "title: mine"))
    with pytest.raises(BadInput, match=mentions("plan.yaml", "--overwrite")):
        write_preset("bear", models, places, tmp_path / "out")
    assert write_preset("bear", models, places, tmp_path / "out", overwrite=True) == file
    assert "title: BEAR" in file.read_text()


def test_the_folder_of_another_preset_is_refused(folder: Path, tmp_path: Path, fathom: Command) -> None:
    models, out = folder / "models" / "gpt2", tmp_path / "out"
    before = write_preset("bear", [str(models)], {"bear": str(folder / "bear")}, out).read_text()
    for more in ([], ["--dry-run"]):
        line = "--models", models, "--data", f"bear={folder / 'bear'}", "--out", out
        code, _, log = fathom("plan", "deer", *line, *more)
        assert code == 2
        assert all(part in log for part in ("plan.yaml", "BEAR", "DEER", "choose another --out")), log
    assert (out / "plan.yaml").read_text() == before


def test_data_without_a_command_that_fetches_them(folder: Path, tmp_path: Path) -> None:
    file = write_preset("deer", [str(folder / "models" / "gpt2")], {"bear": str(folder / "bear")}, tmp_path / "out")
    [line] = [line for line in yaml.safe_load(file.read_text())["missing"] if "YAGO3-10" in line]
    assert line.endswith("yago-knowledge.org; give --data yago3-10=FOLDER")


@pytest.mark.parametrize(
    "file",
    [file for preset in PRESETS.values() if (file := preset.file.with_suffix(".csv")).is_file()],
    ids=lambda file: file.stem,
)
def test_values_belong_to_tables_of_the_preset(file: Path) -> None:
    content = yaml.safe_load(file.with_suffix(".yaml").read_text())
    assert read_values(file).keys() <= content["tables"].keys()
    with file.open(newline="") as lines:
        places = {row["where"] for row in csv.DictReader(lines)}
    assert [place for place in places if not re.fullmatch(r"Table \d+(, .+)?|.+, text", place)] == []


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


def test_a_sample_has_fewer_timed_queries(folder: Path, tmp_path: Path) -> None:
    write_graph(tmp_path / "graph")
    model = str(folder / "models" / "gpt2")
    file = write_preset("deer-times", [model], {"triples": str(tmp_path / "graph")}, tmp_path / "out", limit=20)
    content = yaml.safe_load(file.read_text())
    for name in ("times-bear", "times-deer"):
        assert content["runs"][name]["matrix"]["limit"] == [2, 8, 14, 20]
    assert [table.name for table in read_plan(file, tmp_path / "out").tables] == ["table-2"]


@pytest.mark.slow
def test_all_worlds_are_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FATHOM_DATA", raising=False)
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    graph = write_places(tmp_path / "graph")
    kinds = {"masked": "masked", "t5": "t5", "bart": "bart"}
    models = map(str, plant_models(tmp_path / "models", read(write_bear(tmp_path / "bear")), kinds))
    file = write_preset("sakai2024", [*models], {"wn18rr": str(graph)}, tmp_path / "out")
    plan = read_plan(file, tmp_path / "out")
    assert len(plan.steps) == 1 + 4 * 2 * 13
    assert {run.keys["run"] for run in plan.runs} == {"TransE", "simkgc", "knn-kge", "kgt5", "genkgc"}
    assert ["FB15k-237" in line for line in plan.missing] == [True, False]
    assert {"figure-6", "figure-7"} <= set(plan.skipped[-1].replace(",", " ").split())


@pytest.mark.parametrize(
    ("r", "printed", "verdict"),
    [
        ((0.5, 0.4, 0.6), 0.54, "agrees"),
        ((0.5, 0.4, 0.6), 0.56, "differs: r"),
        ((0.5, -0.1, 0.9), 0.5, "no better than chance: r"),
        ((0.01, 0.005, 0.02), 0.006, "agrees"),
        ((0.01, 0.005, 0.02), 0.004, "differs: r"),
        ((0.01, -0.1, 0.2), 0.004, "differs: r; no better than chance: r"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_values_next_to_a_number_with_an_interval(
    r: tuple[float, ...], printed: float, verdict: str, is_own: bool
) -> None:
    """The tolerance of 0.05 shrinks in proportion below 5 %: to 0.006 at 0.006."""
    part = TablePart(caption="x", study="agreement", tolerance=0.05)
    planned = PlannedTable("table-3", part, {}, {}, {}, {}, {("a", "r"): printed})
    own = Table(("model", "r", "low", "high"), (("a", *r), ("b", *r)), numbers={"r": ("low", "high")})
    chance = {(("a",), "r"): 0.0} if is_own else {}
    found = with_paper(planned, own, ("model",), chance).objects()
    assert [row["against paper"] for row in found] == [verdict if is_own else "other data", None]


@pytest.mark.parametrize("preset", [preset for preset in PRESETS.values() if preset.file.with_suffix(".csv").is_file()])
def test_every_data_set_of_a_paper_states_facts_and_candidates(preset: Any) -> None:
    content = yaml.safe_load(preset.file.read_text())
    assert [name for name, data in content["data"].items() if data["paper"].keys() != {"facts", "candidates"}] == []


def test_data_by_the_name_of_the_catalogue(folder: Path, tmp_path: Path) -> None:
    """One folder is for all parts of what is published under the name."""
    write_trex(tmp_path / "lama" / "TREx")
    write_trex(tmp_path / "lama" / "Google_RE")
    models = [str(folder / "models" / "bert-base-cased")]
    places = {"LAMA": str(tmp_path / "lama"), "trex": str(folder / "trex")}
    content = yaml.safe_load(write_preset("shaier2024", models, places, tmp_path / "out").read_text())
    assert {name: part["data"] for name, part in content["data"].items()} == {
        "google-re": str(tmp_path / "lama" / "Google_RE"),
        "trex": str(folder / "trex"),
    }
    assert any("concept-net, squad" in line for line in content["missing"])
    with pytest.raises(BadInput, match=mentions("nowhere")):
        write_preset("shaier2024", models, {"LAMA": "nowhere"}, tmp_path / "none")


def test_one_folder_for_two_data_sets_is_refused(folder: Path, tmp_path: Path) -> None:
    """Two names of what is published as one are not two: ``wn18rr`` and ``queries`` of the preset deer."""
    models, one = [str(folder / "models" / "gpt2")], str(folder / "trex")
    with pytest.raises(BadInput, match=mentions("lipid-chemicals", one)):
        write_preset("shaier2024", models, {"lipid-genes": one, "lipid-chemicals": one}, tmp_path / "out")
    write_graph(tmp_path / "graph")
    places = dict.fromkeys(("wn18rr", "queries"), str(tmp_path / "graph"))
    assert write_preset("deer", models, places, tmp_path / "deer").is_file()


OF_SHAIER = {
    "table-3": ("google-re", "trex", "wikidata", "ctd"),
    "table-4": ("google-re", "concept-net", "squad", "trex", "lipid-genes"),
    "table-5": ("lipid-chemicals",),  # no accuracy on it can be read from the paper's text
}
"""The four template-based and the six template-free data sets, by a table with numbers on them."""


@pytest.fixture(scope="module")
def of_shaier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the name of a model of the paper, and the preset for data sets of 18 facts and 9 candidates."""
    root = tmp_path_factory.mktemp("shaier2024")
    plant_models(root, read(write_bear(root / "planted")), {"bert-base-uncased": "masked"})
    content = yaml.safe_load(PRESETS["shaier2024"].file.read_text())
    for data in content["data"].values():
        data["paper"] = {"facts": 18, "candidates": 9}
    (root / "preset.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return root


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), [(number, name) for number, names in OF_SHAIER.items() for name in names])
def test_each_data_set_of_shaier2024_without_one_fact_is_other_data(
    number: str, name: str, of_shaier: Path, tmp_path: Path
) -> None:
    """The answer of the removed fact remains, as an answer of others: the candidates are the same."""
    data = write_trex(tmp_path / "data")

    def verdict(out: Path) -> str:
        file = write_preset(of_shaier / "preset.yaml", [str(of_shaier / "bert-base-uncased")], {name: str(data)}, out)
        carry_out(read_plan(file, out).only([number]), out)
        [row] = [row for row in table(out, number) if row["model"] == "bert-base-uncased"]
        assert any(column.startswith(name) and column.endswith(" paper") for column in row)
        return str(row["against paper"])

    assert verdict(tmp_path / "whole").startswith("differs")
    lines = (data / "P30.jsonl").read_text().splitlines(keepends=True)
    (data / "P30.jsonl").write_text("".join(lines[:-1]))
    assert verdict(tmp_path / "less") == "other data"

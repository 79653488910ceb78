"""``fathom plan``: many runs and their studies from one file, made once, resumed, and checked before anything runs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.base.errors import BadInput, RunFailed
from fathom.data.formats import read
from fathom.data.selection.filters import select
from fathom.plans.execution import carry_out
from fathom.plans.file import read_plan
from fathom.plans.forecast import run_states
from fathom.plans.options import WorkerOptions
from fathom.plans.record import changed_steps, note_plan, read_record
from fathom.plans.steps import Opened, ProbeStep
from fathom.store.folder import RunFolder
from fathom.studies import compute_time
from fathom.studies.options import TimeOptions
from fathom.training.options import PlantOptions
from fathom.training.planting import plant
from tests.conftest import build
from tests.forked import ForkedCall
from tests.messages import mentioned
from tests.probes.test_entailment_causal import byte_level
from tests.reasoners import KINDS, write_things
from tests.sharing import called

PLAN = """
title: Three small models
models: {a: models/a, b: models/b, m: models/m}
data:
  capitals: {data: geography, relations: capital, limit: 30}
  currencies: {data: geography, relations: currency, limit: 30}
runs:
  statement: {probe: statement, templates: 0}
  embedding: {probe: embedding, shots: 2}
  vocabulary: {probe: vocabulary}
studies:
  compare: {runs: statement, each: data, margin: 2}
  agreement: {runs: [statement/a, embedding/a], each: [model, data], k: 5}
  items: {runs: statement, each: data}
  length-bias: {runs: "statement/*/capitals"}
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three planted models."""
    folder = tmp_path_factory.mktemp("plans") / "models"
    for name, kind, seed in (("a", "causal", 0), ("b", "causal", 1), ("m", "masked", 0)):
        shape = {"epochs": 2, "hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 600}
        plant(read("geography"), PlantOptions(kind=kind, seed=seed, **shape), folder / name)
    return folder


@pytest.fixture
def plan(models: Path, tmp_path: Path) -> Path:
    (tmp_path / "models").symlink_to(models)
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


def only(file: Path, runs: str, studies: str = "") -> Path:
    """The plan with other runs and studies."""
    head = PLAN[: PLAN.index("runs:")]
    file.write_text(f"{head}runs:\n{runs}\n" + (f"studies:\n{studies}\n" if studies else ""))
    return file


def written(out: Path) -> dict[Path, int]:
    """All predictions and when they were written."""
    return {file: file.stat().st_mtime_ns for file in out.rglob("part-*.parquet")}


def ranks(run: RunFolder) -> dict[tuple[str, int], float]:
    return {(row["query_id"], row["template"]): row["rank"] for row in run.predictions().to_pylist()}


def test_three_models_two_data_sets_three_probes_four_studies(fathom: Command, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, log = fathom("plan", plan, "--out", out)
    assert code == 0, log
    assert printed.count("[") >= 18
    runs = {run.parent.relative_to(out / "runs").as_posix() for run in out.glob("runs/*/*/*/manifest.json")}
    probes, names, data = ("statement", "embedding", "vocabulary"), "abm", ("capitals", "currencies")
    assert runs == {f"{probe}/{name}/{source}" for probe in probes for name in names for source in data}
    for made in ("compare/capitals/compare", "agreement/a/currencies/agreement", "items/capitals/items"):
        assert {(out / "studies" / f"{made}.{ending}").is_file() for ending in ("json", "csv", "md")} == {True}
    assert (out / "studies" / "length-bias" / "length-bias.json").is_file()
    [accuracies] = json.loads((out / "runs.json").read_text()).values()
    assert [row["run"] for row in accuracies if "statement/m" in row["run"]] == [f"statement/m/{one}" for one in data]
    alone = tmp_path / "alone"
    assert fathom("probe", "statement", "--model", tmp_path / "models" / "m", "--data", "geography", "--relations",
                  "capital", "--limit", 30, "--templates", 0, "--out", alone)[0] == 0  # fmt: skip
    assert RunFolder(alone).predictions().equals(RunFolder(out / "runs/statement/m/capitals").predictions())
    page = (out / "report.html").read_text()
    assert "Three small models" in page
    assert "items/capitals" in page
    before = written(out)
    _, printed, _ = fathom("plan", plan, "--out", out, "--format", "json")
    assert written(out) == before
    assert {title.split(":")[0] for title in json.loads(printed)} >= {"runs", "compare/capitals", "length-bias"}


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes(plan: Path, tmp_path: Path) -> None:
    """Runs of some ten shards each, killed twice: nothing that was finished is written again."""
    only(plan, "  s: {probe: statement, models: [a, b], templates: '0,1'}", "  compare: {runs: s, each: data}")
    alone, out = tmp_path / "alone", tmp_path / "out"
    carry_out(read_plan(plan, alone), alone)
    words, before = ["plan", str(plan), "--out", str(out)], written(out)
    for shards in (1, 14):
        process = ForkedCall(called, [str(tmp_path / "log"), "0.2", *words], said=tmp_path / f"said-{shards}")
        until = time.monotonic() + 120
        while len(written(out)) < shards and process.goes_on():
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send(signal.SIGKILL)
        process.ended()
        now = written(out)
        assert {file: now[file] for file in before} == before
        before = now
    assert len(before) >= 14
    code, printed = ForkedCall(called, [str(tmp_path / "log"), "0", *words], said=tmp_path / "said").ended()
    assert code == 0, printed
    now = written(out)
    assert {file: now[file] for file in before} == before
    for run in ("a/capitals", "b/currencies"):
        resumed, whole = (ranks(RunFolder(folder / "runs/s" / run)) for folder in (out, alone))
        assert resumed == whole


def test_equal_runs_are_made_once(plan: Path, tmp_path: Path) -> None:
    runs = "  one: {probe: statement, models: a, data: capitals, templates: 0}\n"
    runs += "  same: {probe: statement, models: a, data: capitals, matrix: {templates: [0, 1]}}"
    made = read_plan(only(plan, runs, "  length-bias: {runs: [one, same]}"), tmp_path / "out")
    assert [run.step.name for run in made.runs] == [
        "runs/one/a/capitals", "runs/one/a/capitals", "runs/same/a/capitals/templates=1",
    ]  # fmt: skip
    assert len(made.steps) == 2
    result = carry_out(made, tmp_path / "out")
    assert not result.failures
    [study] = made.studies
    assert len({run.path for run in [state.run for state in result.states]}) == 2
    assert study.runs == ("one/a/capitals", "same/a/capitals/templates=0", "same/a/capitals/templates=1")


def test_a_failed_run_is_listed_and_the_others_go_on(
    fathom: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, make = tmp_path / "out", ProbeStep.make
    only(
        plan,
        "  s: {probe: statement, data: capitals, models: [a, b]}",
        "  compare: {runs: s}\n  length-bias: {runs: s/a}",
    )

    def failing(self: ProbeStep, opened: Opened, report: object = None) -> None:
        if "/b/" in self.name:
            raise RunFailed("no vector is finite")
        make(self, opened, report)  # type: ignore[arg-type]

    with monkeypatch.context() as full:
        full.setattr(ProbeStep, "make", failing)
        code, printed, log = fathom("plan", plan, "--out", out)
    assert code == 1
    assert mentioned(log, "s/b/capitals: no vector is finite", "studies/compare: ", "--retry-failed")
    assert "1 failed" in printed
    assert (out / "studies/length-bias/length-bias.json").is_file()
    assert not (out / "studies/compare").exists()
    assert "no vector is finite" in (out / "runs.md").read_text()
    assert fathom("plan", plan, "--out", out)[0] == 1  # not by itself
    assert fathom("plan", plan, "--out", out, "--retry-failed")[0] == 0
    assert (out / "studies/compare/compare.json").is_file()


@pytest.mark.parametrize("part", [(), ("--part", "1/1")])
def test_a_run_that_met_a_full_disk_is_repeated_by_the_same_command(
    fathom: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: tuple[str, ...]
) -> None:
    only(plan, "  s: {probe: statement, data: capitals, models: [a, b]}")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as on_a_full_disk:
        on_a_full_disk.setattr("fathom.store.files.pq.write_table", full)
        code, _, log = fathom("plan", plan, "--out", tmp_path / "out", *part)
    assert code == 1
    assert mentioned(log, "No space left on device", "2 runs failed")
    assert fathom("plan", plan, "--out", tmp_path / "out", *part)[0] == 0


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_plan_that_changed_says_which_runs(
    fathom: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    runs = "  s: {probe: statement, data: capitals, models: [a, b]}\n  e: {probe: embedding, data: capitals, shots: 2}"
    only(plan, runs.replace("\n  e:", "\n  # e:"))
    assert fathom("plan", plan, "--out", out)[0] == 0
    only(plan, runs)  # a plan may grow
    assert fathom("plan", plan, "--out", out)[0] == 0
    before = written(out)
    only(plan, runs.replace("shots: 2", "shots: 3"))
    code, _, log = fathom("plan", plan, "--out", out)
    assert code == 2
    assert mentioned(log, "3 runs", "2 finished", "--redo", "e/m/capitals", "options.shots: there 2, here 3")
    assert written(out) == before
    states = {row.run: row.state for row in run_states(read_plan(plan, out), out, Opened())}
    assert states["s/a/capitals"] == "finished"
    assert "--redo" in states["e/a/capitals"]
    with monkeypatch.context() as killed:
        killed.setattr("fathom.plans.steps.shutil.rmtree", interrupted)
        assert fathom("plan", plan, "--out", out, "--redo")[0] == 130
    assert fathom("plan", plan, "--out", out)[0] == 2  # what was not removed is not taken for new
    assert fathom("plan", plan, "--out", out, "--redo")[0] == 0
    changed = {file for file, when in written(out).items() if before.get(file) != when}
    assert {file.parts[-5] for file in changed} == {"e"}
    assert RunFolder(out / "runs/e/a/capitals").manifest["identity"]["options"]["shots"] == 3


def test_what_is_under_a_name_is_noticed(fathom: Command, plan: Path, models: Path, tmp_path: Path) -> None:
    """Another model in the folder is another model; the same one with other times is not, nor is another way to it."""
    out = tmp_path / "out"
    shutil.copytree(models / "a", tmp_path / "mine")
    only(plan, "  s: {probe: statement, models: x, data: capitals}")
    plan.write_text(plan.read_text().replace("a: models/a", "x: mine"))
    assert fathom("plan", plan, "--out", out)[0] == 0
    before = written(out)
    os.utime(tmp_path / "mine" / "model.safetensors")
    assert fathom("plan", plan, "--out", out)[0] == 0
    os.chdir(tmp_path)
    assert fathom("plan", "plan.yaml", "--out", "out")[0] == 0
    assert written(out) == before
    shutil.copy(models / "b" / "model.safetensors", tmp_path / "mine")
    code, _, log = fathom("plan", plan, "--out", out)
    assert code == 2
    assert mentioned(log, "1 runs", "--redo", "mine")


def test_a_run_of_another_name_is_not_repeated(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    runs = "  one: {probe: statement, models: a, data: capitals}\n  two: {probe: statement, models: a, data: capitals}"
    carry_out(read_plan(only(plan, runs), out), out)
    before = written(out)
    result = carry_out(read_plan(only(plan, runs.partition("\n")[2]), out), out)
    assert [state.run is not None for state in result.states] == [True]
    assert written(out) == before


def test_dry_run_estimates_the_runs_that_are_left(fathom: Command, plan: Path, tmp_path: Path) -> None:
    """Each of 10 facts makes a statement of each of 196 capitals, in each of six templates."""
    out = tmp_path / "out"
    only(plan, "  s: {probe: statement, models: a, data: capitals, matrix: {limit: [10, 20, 30], seed: [0, 1]}}")
    made = read_plan(plan, out)
    code, printed, log = fathom("plan", plan, "--out", out, "--dry-run", "--format", "json")
    assert code == 0, log
    assert not out.exists()
    rows = json.loads(printed)["plan"]
    assert [row["state"] for row in rows] == 6 * ["to be made"]
    assert [row["queries"] for row in rows] == [10, 10, 20, 20, 30, 30]
    texts = [row["texts"] for row in rows]
    assert texts[2:] == [2 * texts[0], 2 * texts[0], 3 * texts[0], 3 * texts[0]]
    assert all(row["minutes"] > 0 for row in rows)
    note_plan(made, out, read_record(made.steps, out))
    made.steps[0].make(Opened())
    rows = json.loads(fathom("plan", plan, "--out", out, "--dry-run", "--format", "json")[1])["plan"]
    assert rows[0]["state"] == "finished"
    assert rows[0]["minutes"] is None


def test_exclusive_runs_are_timed_and_not_shared(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    runs = "  t: {probe: statement, models: a, data: capitals, exclusive: true, repeats: 2, matrix: {limit: [5, 10]}}"
    made = read_plan(only(plan, runs, "  compute-time: {runs: t, total: 1000}"), out)
    assert len(made.steps) == 4
    first = made.steps[0]
    note_plan(made, out, read_record(made.steps, out))
    first.make(Opened())
    next(first.folder.rglob("part-*.parquet")).unlink()  # as if it had been killed
    (first.folder / "left").touch()
    result = carry_out(made, out, WorkerOptions(workers=2))
    assert not result.failures
    assert not (first.folder / "left").exists()
    assert all(state.run.manifest["circumstances"]["sessions"] == 1 for state in result.states)
    [timing] = compute_time.analyse([state.run for state in result.states], TimeOptions(total=1000))
    assert sorted(count for count, _ in timing.points) == [5, 5, 10, 10]
    only(plan, runs.replace("exclusive: true, repeats: 2, ", ""), "  compute-time: {runs: t}")
    assert (
        len(changed_steps(read_plan(plan, out).steps, read_record(read_plan(plan, out).steps, out))) == 0
    )  # other folders
    untimed = carry_out(read_plan(plan, tmp_path / "untimed"), tmp_path / "untimed")
    assert [mentioned(study.why, "exclusive: true") for study in untimed.studies] == [True]


@pytest.mark.slow
def test_parts_share_a_plan(fathom: Command, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    only(plan, "  s: {probe: statement, models: [a, b]}")
    assert fathom("plan", plan, "--out", out, "--part", "1/2")[0] == 0
    assert len(list(out.glob("runs/*/*/*/manifest.json"))) == 4
    assert (out / "report.html").is_file()


def test_a_study_that_makes_its_own_runs(fathom: Command, tmp_path: Path) -> None:
    """Chains of an ontology, in a plan without other runs; typed again, it makes nothing new."""
    tokenizer, things = byte_level([f"thing{n} is a {KINDS[n % 12]} ." for n in range(120)]), write_things(tmp_path)
    tokenizer.save_pretrained(tmp_path / "saved")
    network = build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=2)
    network.save_pretrained(tmp_path / "saved")
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    options = "rules: rdfs9, depth: 2, limit: 8, forms: plain, untrained: 0"
    text = f"models: {{m: saved}}\ndata: {{onto: {things.name}}}\nstudies:\n  chains: {{{options}}}\n"
    plan.write_text(text)
    code, _, log = fathom("plan", plan, "--out", out)
    assert code == 0, log
    assert (out / "studies" / "chains" / "chains.json").is_file()
    before = written(out)
    assert before
    assert fathom("plan", plan, "--out", out)[0] == 0
    assert written(out) == before
    assert "runs of chains" in fathom("plan", plan, "--out", out, "--dry-run")[1]
    for old, new, words in (
        ("depth: 2", "dept: 2", ["plan.yaml:4", "--dept", "depth"]),
        ("forms: plain", "runs: x", ["plan.yaml:4", "models:", "data:"]),
        ("forms: plain", "models: n", ["plan.yaml:4", "'n'"]),
    ):
        plan.write_text(text.replace(old, new))
        code, _, log = fathom("plan", plan, "--out", tmp_path / "no")
        assert code == 2
        assert mentioned(log, *words)
    assert not (tmp_path / "no").exists()


FAULTS = {
    "probe: statement,": ("probe: statment,", ["plan.yaml:8", "statment", "statement?"]),
    "templates: 0": ("templats: 0", ["plan.yaml:8", "--templats", "templates"]),
    "shots: 2": ("shots: -2", ["plan.yaml:9", "--shots", "-2"]),
    "vocabulary}": ("vocabulary, models: [c]}", ["plan.yaml:10", "'c'", "models"]),
    "{runs: statement, each: data": ("{runs: statemen, each: data", ["plan.yaml:12", "statemen"]),
    "each: [model, data]": ("each: [model, dat]", ["plan.yaml:13", "'dat'", "data?"]),
    "  items:": ("  item:", ["plan.yaml:14", "'item'", "items?"]),
    "k: 5": ("k: no", ["plan.yaml:13", "--k"]),
    "title:": ("titel:", ["plan.yaml:2", "titel", "title?"]),
    "currencies: {data: geography": ("currencies: {data: geografy", ["plan.yaml:6", "geografy"]),
    "b: models/b": ("b: models/c", ["plan.yaml:3", "models/c"]),
    "limit: 30}\n  cur": ("limit: 30, part: 1/2}\n  cur", ["plan.yaml:5", "--part"]),
    "limit: 30}\nruns": ("limit: 30, engine: ray}\nruns", ["plan.yaml:6", "--engine"]),
    "relations: currency": ("relations: currensy", ["plan.yaml:", "currensy"]),
    "runs: statement, each": ("runs: [], each", ["plan.yaml:12"]),
    "models: {a": ("models: {z: 3, a", ["plan.yaml:3", "z"]),
    "{probe: vocabulary}": (
        "{probe: statement, matrix: {limit: [5, '5']}}",
        ["plan.yaml:10", "vocabulary/a/capitals/limit=5"],
    ),
    "a: models/a": ("../a: models/a", ["plan.yaml:3", "../a"]),
    "statement, templates": (
        "statement, add_candidates: {data: nowhere}, templates",
        ["plan.yaml:8", "{data: NAME}", "capitals, currencies", "nowhere"],
    ),
}


@pytest.mark.parametrize("old", FAULTS)
def test_what_is_wrong_is_said_before_anything_runs(fathom: Command, plan: Path, tmp_path: Path, old: str) -> None:
    new, words = FAULTS[old]
    assert old in PLAN
    plan.write_text(PLAN.replace(old, new))
    code, printed, log = fathom("plan", plan, "--out", tmp_path / "out")
    assert (code, printed) == (2, "")
    assert mentioned(log, *words)
    assert not (tmp_path / "out").exists()


def test_all_faults_at_once_and_foreign_folders(fathom: Command, plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("statement,", "statment,").replace("shots: 2", "shotz: 2").replace("k: 5", "kk: 5"))
    _, _, log = fathom("plan", plan, "--out", tmp_path / "out")
    assert log.count("error:") >= 3
    plan.write_text(PLAN)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("not ours")
    code, _, log = fathom("plan", plan, "--out", tmp_path / "full")
    assert code == 2
    assert "full" in log
    assert {file.name for file in (tmp_path / "full").iterdir()} == {"letter.txt"}


def test_candidates_of_other_data_of_the_plan_are_added(plan: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "facts.csv").write_text("subject,relation,answer\nx,r,Atlantis\ny,r,Paris\n")
    only(plan, "  s: {probe: statement, models: a, data: capitals, add_candidates: {data: more}}")
    plan.write_text(plan.read_text().replace("data:\n", "data:\n  more: more\n", 1))
    monkeypatch.chdir("/")
    [run] = read_plan(plan, tmp_path / "out").runs
    assert run.step.options.add_candidates == tmp_path / "more"
    selected = select(read("geography"), run.step.options).data
    [space] = {query.candidates for query in selected.queries}
    names = selected.candidates[space].names
    assert names.count("Atlantis") == names.count("Paris") == 1


def test_planning_five_hundred_runs_takes_two_seconds(plan: Path, tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(84)))
    only(plan, f"  s: {{probe: statement, matrix: {{seed: [{seeds}]}}}}", "  length-bias: {runs: s, each: seed}")
    began = time.process_time()
    made = read_plan(plan, tmp_path / "out")
    rows = run_states(made, tmp_path / "out", Opened())
    assert time.process_time() - began < 2
    assert len(rows) == 504


def test_only_folders_of_fathom_are_closed_to_plans(tmp_path: Path) -> None:
    """Many projects have a manifest.json at their root."""
    (tmp_path / "manifest.json").write_text('{"name": "a site"}')
    assert read_record([], tmp_path / "runs" / "out") == {"steps": {}, "models": {}}
    (tmp_path / "manifest.json").write_text('{"format": 1, "identity": {}}')
    with pytest.raises(BadInput, match="which Fathom has made"):
        read_record([], tmp_path / "runs" / "out")

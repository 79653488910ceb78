"""Data sets and runs in the formats of other tools, read back or run by these."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.formats.lm_eval import write_task
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.probes.run.exported import export_every_eval_ever
from fathom.probes.run.imported import import_results
from fathom.probes.run.setup import tables
from fathom.results.summary import summarise
from fathom.store.folder import RunFolder
from tests.answerers import EVEN, answered, at_random, unscored, world
from tests.cli.test_cli import gpt2, save
from tests.store.test_foreign_files import OLD

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "exchange.md"


def data() -> QuerySet:
    """Two facts: the first has another right answer, the second two labelled ones and no rankable candidate set."""
    space = CandidateSet("town", ("r", "m", "n"), ("Rome", "Milan", "Naples"))
    alone = CandidateSet("sea", ("s",), ("Sea",))
    queries = (
        Query("town/0", "town", "italy", "it", ("m",), "town", known=("r",)),
        Query("sea/0", "sea", "italy", "it", ("s",), "sea"),
    )
    templates = (Template("[X] has [Y]."), Template("[Y] is in [X]."))
    kinds = {name: Relation(name, name, templates, "1:N") for name in ("town", "sea")}
    return QuerySet("tiny", queries, {"town": space, "sea": alone}, kinds)


def task_of(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("fathom_task", folder / "fathom_task.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_of_a_task(tmp_path: Path) -> None:
    assert write_task(data(), tmp_path / "task", "tiny") == (2, 1)
    docs = [json.loads(line) for line in (tmp_path / "task" / "docs.jsonl").read_text().splitlines()]
    assert [doc["text_options"] for doc in docs] == [
        ["Italy has Rome.", "Italy has Milan.", "Italy has Naples."],
        ["Rome is in italy.", "Milan is in italy.", "Naples is in italy."],
    ]
    assert docs[1] | {"text_options": []} == {
        "query": "town/0", "relation": "town", "template_index": 1, "answer_options": ["Rome", "Milan", "Naples"],
        "text_options": [], "correct": [1], "known": [0], "target": 1,
    }  # fmt: skip
    with pytest.raises(BadInput, match="no template 2"):
        write_task(data(), tmp_path / "other", "tiny", [2])


def test_the_next_commands_make_a_log_that_can_be_imported(tmp_path: Path, fathom: Any) -> None:
    """The import needs the log of single answers; ``hf`` takes by default the precision of the weights."""
    out = tmp_path / "a task"
    code, printed, _ = fathom("export", "lm-eval", "geography", "--limit", "3", "--out", out, "--task", "places")
    [run, back] = [shlex.split(line.partition(": ")[2]) for line in printed.splitlines()[-2:]]
    assert (code, run[:4], run[4:6]) == (0, ["lm_eval", "run", "--tasks", "places"], ["--include_path", str(out)])
    assert {"pretrained=…,dtype=float32", "--log_samples", "--output_path", "results"} <= set(run)
    assert back == ["fathom", "import", "results", "--data", "geography", "--out", "runs/from-harness"]


def test_a_task_keeps_any_name(tmp_path: Path) -> None:
    """Line separators of Unicode are no ends of lines in JSON; a task may be named by a number."""
    names = ("A\u2028B", "C\u0085D", "<script>\n")
    space = replace(data().candidates["town"], names=names)
    write_task(replace(data(), candidates={**data().candidates, "town": space}), tmp_path / "task", "1")
    assert 'task: "1"\n' in (tmp_path / "task" / "1.yaml").read_text("utf-8")
    pytest.importorskip("datasets")
    assert [doc["answer_options"] for doc in task_of(tmp_path / "task").load()["test"]] == [[*names]] * 2


@pytest.mark.parametrize(
    ("scores", "accuracy"), [([-1, -2, -3], 1), ([-1, -3, -2], 0), ([-1, -2, -2], 0.5), ([-3, -2, -9], 1)]
)
def test_the_accuracy_of_a_task_is_fathoms(tmp_path: Path, scores: list[float], accuracy: float) -> None:
    """Rome is another right answer, so that it does not count; ties count half."""
    write_task(data(), tmp_path / "task", "tiny")
    pytest.importorskip("datasets")
    task = task_of(tmp_path / "task")
    [doc, _] = task.load(version="1")["test"]
    assert task.score(doc, [(score, False) for score in scores]) == {"acc": accuracy}


@pytest.mark.slow
def test_the_harness_gives_the_scores_of_the_statement_probe(tmp_path: Path, fathom: Any) -> None:
    pytest.importorskip("lm_eval", reason="needs the extra test-slow")
    model = save(tmp_path / "model", gpt2())
    asked = ("--limit", "6", "--templates", "0,2")
    assert fathom("export", "lm-eval", "geography", *asked, "--out", tmp_path / "task", "--task", "places")[0] == 0
    words = [sys.executable, "-m", "lm_eval", "run", "--tasks", "places", "--include_path", str(tmp_path / "task")]
    words += ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu"]
    words += ["--batch_size", "8", "--log_samples", "--output_path", str(tmp_path / "log")]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    subprocess.run(words, check=True, env=os.environ | offline, capture_output=True, timeout=600)
    [results] = (tmp_path / "log").rglob("results_*.json")
    run = tmp_path / "run"
    assert fathom("probe", "statement", "--model", model, "--data", "geography", *asked, "--out", run)[0] == 0
    accuracy = summarise(RunFolder.open(run)).headlines[0].accuracy
    assert accuracy is not None
    assert json.loads(results.read_text())["results"]["places"]["acc,none"] == pytest.approx(accuracy.value, abs=1e-9)
    sides = [import_results(tmp_path / "log", tmp_path / "imported", "geography"), RunFolder.open(run)]
    own, others = ({(row["query_id"], row["template"]): row["scores"] for row in side.predictions().to_pylist()}
                   for side in sides)  # fmt: skip
    assert own.keys() == others.keys()
    assert len(own) == 12
    for key, scores in own.items():
        np.testing.assert_allclose(scores, others[key], atol=1e-4)


# ----------------------------------------------------------------------------------------------------- Every Eval Ever


def schemas(shared_data: Path) -> list[Any]:
    jsonschema = pytest.importorskip("jsonschema", reason="needs the extra test")
    files = ("eval.schema.json", "instance_level_eval.schema.json")
    read = [json.loads((shared_data / "every_eval_ever" / file).read_text()) for file in files]
    return [jsonschema.Draft7Validator(schema) for schema in read]


def exported(run: RunFolder, out: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    file = export_every_eval_ever(run, out)
    numbers = json.loads(file.read_text(encoding="utf-8"))
    about = numbers["detailed_evaluation_results"]
    content = (out / about["file_path"]).read_bytes()
    samples = [json.loads(line) for line in content.splitlines()]
    assert (about["checksum"], about["total_rows"]) == (hashlib.sha256(content).hexdigest(), len(samples))
    return numbers, samples


@pytest.mark.parametrize("run", sorted(path.name for path in OLD.iterdir() if (path / "predictions").is_dir()))
def test_runs_of_all_probes_fit_the_schema(shared_data: Path, tmp_path: Path, run: str) -> None:
    whole, instance = schemas(shared_data)
    numbers, samples = exported(RunFolder.open(OLD / run), tmp_path / "out")
    assert [error.message for error in whole.iter_errors(numbers)] == []
    assert samples
    for sample in samples:
        assert [error.message for error in instance.iter_errors(sample)] == []
    results = {result["evaluation_result_id"] for result in numbers["evaluation_results"]}
    assert {sample["evaluation_result_id"] for sample in samples} <= results


def test_numbers_and_samples_are_those_of_the_run(tmp_path: Path) -> None:
    run = unscored(answered(tmp_path / "run", at_random(0), world(EVEN), model="org/m"), 3)
    numbers, samples = exported(run, tmp_path / "out")
    accuracy = next(one for one in numbers["evaluation_results"] if one["metric_config"]["metric_id"] == "accuracy")
    details = accuracy["score_details"]
    assert details["details"]["unscored"] == "1"
    assert len(samples) == 99  # what is not scored is neither right nor wrong
    assert details["score"] == pytest.approx(np.mean([sample["evaluation"]["score"] for sample in samples]))
    ends = details["uncertainty"]["confidence_interval"]
    assert ends["lower"] < details["score"] < ends["upper"]
    right = [sample for sample in samples if sample["evaluation"]["is_correct"]]
    assert all(sample["output"]["raw"] == sample["input"]["reference"] for sample in right)
    assert {sample["evaluation_id"] for sample in samples} == {numbers["evaluation_id"]}


def test_the_same_run_has_the_same_name(tmp_path: Path) -> None:
    run = answered(tmp_path / "run", at_random(0), world(EVEN))
    one, other = (export_every_eval_ever(run, tmp_path / name) for name in "ab")
    assert one.name == other.name
    unfinished = RunFolder(tmp_path / "unfinished")
    unfinished.start(run.manifest["identity"], ["0", "1"], *tables(world(EVEN)))
    with pytest.raises(BadInput, match="unfinished"):
        export_every_eval_ever(unfinished, tmp_path / "c")


# -------------------------------------------------------------------------------------------------------------- DuckDB


def test_the_example_of_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs the extra test-slow")
    answered(tmp_path / "runs" / "gpt2", at_random(0), world(EVEN, templates=2))
    query = re.search(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert query is not None
    assert len(query[1].strip().splitlines()) == 3
    rows = duckdb.sql(query[1].replace("runs/", f"{tmp_path}/runs/")).fetchall()
    assert len(rows) == 5  # relations
    expected = RunFolder.open(tmp_path / "runs" / "gpt2").predictions().to_pylist()
    assert sum(share for _, share in rows) / 5 == pytest.approx(np.mean([row["rank"] == 1 for row in expected]))

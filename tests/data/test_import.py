"""Results of other tools become runs that metrics, compare and report accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fathom.store.folder import RunFolder
from tests.logs import SCORES, TEMPLATES, TOWNS, log, quiz, quiz_metadata, rows_of, write, write_bear
from tests.messages import mentioned


@pytest.fixture
def bear(tmp_path) -> Path:
    return write_bear(tmp_path / "bear")


def imported(fathom, results: Path, bear: Path, out: Path) -> list[dict[str, Any]]:
    code, said, _ = fathom("import", results, "--data", bear, "--out", out)
    assert (code, "3 queries" in said) == (0, True)
    return RunFolder.open(out).predictions().to_pylist()


def test_results_of_lm_pub_quiz(tmp_path, bear, fathom):
    rows = imported(
        fathom, quiz(tmp_path / "quiz", rows_of(template_index=1), template_index=1), bear, tmp_path / "run"
    )
    assert [(row["query_id"], row["template"], row["scoring"], row["rank"]) for row in rows] == [
        ("P36/0", 1, "sum/full", 1),
        ("P36/1", 1, "sum/full", 2),
        ("P36/2", 1, "sum/full", 1),
    ]
    assert rows[0]["prompt"] == "Uganda has the capital [Y]."
    assert (rows[1]["scores"], rows[1]["top_ids"][0]) == (SCORES[1], "id Kampala")
    identity = RunFolder.open(tmp_path / "run").manifest["identity"]
    assert (identity["model"]["name"], identity["resolved"]["imported"]) == ("gpt2", "lm-pub-quiz 0.3.3")
    assert identity["options"]["templates"] == [1]


def test_scores_of_each_token(tmp_path, bear, fathom):
    """Without a reduction lm-pub-quiz writes the scores of all tokens: their sum and their mean are scorings."""
    expected = imported(fathom, quiz(tmp_path / "reduced", rows_of()), bear, tmp_path / "run")
    rows = rows_of()
    for row, scores in zip(rows, SCORES, strict=True):
        row["pll_scores"] = [[score / 2, score / 2] for score in scores]
    both = imported(fathom, quiz(tmp_path / "raw", rows, reduction=None), bear, tmp_path / "run-raw")
    assert [row for row in both if row["scoring"] == "sum/full"] == expected
    assert [row["gold_scores"] for row in both if row["scoring"] == "mean/full"] == [[-0.5], [-1.0], [-0.75]]


def test_a_score_that_is_not_a_number(tmp_path, bear, fathom):
    """lm-pub-quiz writes NaN as null: the query is unscored, not wrong."""
    rows = rows_of()
    rows[0]["pll_scores"] = [-1.0, None, -2.0]
    found = imported(fathom, quiz(tmp_path / "quiz", rows), bear, tmp_path / "run")
    assert [(row["rank"], row["unscored"] is None) for row in found] == [(None, False), (2, True), (1, True)]


def test_what_lm_pub_quiz_itself_saves(tmp_path, bear, fathom):
    quiz_results = pytest.importorskip("lm_pub_quiz.data.results")
    pandas = pytest.importorskip("pandas")
    names = list(TOWNS.values())
    about = {"templates": TEMPLATES, "template_index": [0], "model_name_or_path": "gpt2", "reduction": "sum"}
    result = quiz_results.RelationResult(
        "P36",
        metadata=about,
        instance_table=pandas.DataFrame(
            [row | {"instance_index": n, "obj_id": f"id {names[n]}"} for n, row in enumerate(rows_of(template_index=0))]
        ),
        answer_space=pandas.Series(names, index=pandas.Index([f"id {name}" for name in names], name="obj_id")),
    )
    result.save(tmp_path / "quiz")
    rows = imported(fathom, tmp_path / "quiz", bear, tmp_path / "run")
    assert [row["rank"] for row in rows] == [1, 2, 1]


def test_a_log_of_the_harness(tmp_path, bear, fathom):
    rows = imported(fathom, log(tmp_path / "log"), bear, tmp_path / "run")
    assert [row["rank"] for row in rows] == [1, 2, 1]
    model = RunFolder.open(tmp_path / "run").manifest["identity"]["model"]
    assert model == {"name": "gpt2", "revision": "ab12", "dtype": "float32"}


def test_imported_runs_are_runs(tmp_path, bear, fathom):
    runs = [tmp_path / "quiz-run", tmp_path / "log-run"]
    imported(fathom, quiz(tmp_path / "quiz", rows_of()), bear, runs[0])
    imported(fathom, log(tmp_path / "log"), bear, runs[1])
    code, out, _ = fathom("metrics", runs[0], "--format", "json")
    assert (code, "66.7" in out or "0.666" in out) == (0, True)
    code, out, _ = fathom("compare", *runs)
    assert code == 0
    code, _, _ = fathom("report", *runs, "-o", tmp_path / "report.html")
    assert (code, (tmp_path / "report.html").exists()) == (0, True)


def test_faults(tmp_path, bear, fathom):
    strange = quiz(tmp_path / "strange", [rows_of()[1]])
    code, _, err = fathom("import", strange, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "P36_results.jsonl:1:", "Q Uganda", "'Q France'", "--data")) == (2, True)
    short = quiz(tmp_path / "short", [row | {"pll_scores": [-1.0]} for row in rows_of()])
    code, _, err = fathom("import", short, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "P36_results.jsonl:1:", "all 3 answers")) == (2, True)
    code, _, err = fathom("import", log(tmp_path / "log", item=7), "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "samples_bear", ":1:", "item 7")) == (2, True)
    code, _, err = fathom("import", bear, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "metadata_results.json", "samples_")) == (2, True)


def test_a_query_that_stands_in_two_lines(tmp_path, bear, fathom):
    """Joined logs: no command could read the run."""
    folder = log(tmp_path / "log")
    [samples] = folder.rglob("samples_*.jsonl")
    first = samples.read_text().splitlines()[0]
    samples.write_text(samples.read_text() + first + "\n")
    refused = {samples: "P36/0", quiz(tmp_path / "quiz", [*rows_of(), rows_of()[2] | {"instance_index": 2}]): "P36/2"}
    for results, query in refused.items():
        code, _, err = fathom("import", results, "--data", bear, "--out", tmp_path / "run")
        line = {"P36/0": "line 1", "P36/2": "line 3"}[query]
        assert (code, mentioned(err, ".jsonl:4:", query, "template 0", line)) == (2, True)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "about", [{"template_index": [0, 1]}, {"template_index": None}, {"template_index": None, "templates": None}]
)
def test_rows_of_several_templates_say_of_which(tmp_path, bear, fathom, about):
    """Such rows were read as of the first."""
    code, _, err = fathom(
        "import", quiz(tmp_path / "quiz", rows_of(), **about), "--data", bear, "--out", tmp_path / "run"
    )
    assert (code, mentioned(err, ".jsonl:1:", "template_index", "2 templates")) == (2, True)
    assert not (tmp_path / "run").exists()


def test_a_query_in_two_templates_is_no_repetition(tmp_path, bear, fathom):
    rows = [row for place in (0, 1) for row in rows_of(template_index=place)]
    rows = [row | {"instance_index": number % 3} for number, row in enumerate(rows)]
    found = imported(fathom, quiz(tmp_path / "quiz", rows, template_index=[0, 1]), bear, tmp_path / "run")
    assert [(row["query_id"], row["template"]) for row in found[2:4]] == [("P36/2", 0), ("P36/0", 1)]
    assert fathom("metrics", tmp_path / "run")[0] == 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"filtered_resps": [["-1", "False"], ["-2", "False"]]}, "each of 3 options"),
        ({"filtered_resps": [["-1", "False"]] * 4}, "each of 3 options"),
        ({"filtered_resps": []}, "each of 3 options"),
        ({"template_index": 2}, "0 to 1"),
        ({"template_index": -1}, "template_index"),
        ({"template_index": 99}, "0 to 1"),
        ({"template_index": 0.7}, "template_index"),
        ({"template_index": True}, "template_index"),
        ({"template": "[Y] is a town of [X]."}, "the text 'The capital of [X] is [Y].'"),
        ({"correct": 0}, "the gold answer id Paris, found id Kampala"),
        ({"correct": 9}, "option 9"),
        ({"correct": []}, "correct"),
        ({"query": "P36/1", "relation": "P37"}, "not a query"),
        ({"query": "P36/1", "text_options": ["The capital of France is Kampala.", "x", "y"]}, "found 'x'"),
        (
            {
                "query": "P36/1",
                "text_options": [f"The capital of France is {town}." for town in reversed(TOWNS.values())],
            },
            "the text 'The capital of France is Kampala.', found 'The capital of France is Lima.'",
        ),
        ({"query": "P36/1", "text_options": ["The capital of France is Kampala."]}, "found ''"),
        ({"text_options": ["x", "y", "z"]}, "found 'x'"),
        ({"subject": "Germany"}, "'France', found 'Germany'"),
        ({"subject": 7}, "subject"),
        ({"target": "0"}, "the gold answer id Paris, found id Paris, id Kampala"),
        ({"target": "Paris"}, "target must be the place of an option, found 'Paris'"),
        ({"target": "9" * 5000}, "target"),
        ({"resps": [[["-1.0", "False"]], [["-2.0", "False"]], [["-9.0", "False"]]]}, "'-9.0'"),
        ({"resps": [[["-1.0", "False"]]]}, "resps"),
        ({"resps": [[], [], []]}, "resps"),
        ({"filtered_resps": [["-٣", "False"]] * 3}, "filtered_resps"),
        ({"filtered_resps": [["1.5", "False"]] * 3}, "filtered_resps"),
        ({"filtered_resps": [[0.5, "False"]] * 3}, "filtered_resps"),
        ({"filtered_resps": [[]] * 3}, "filtered_resps"),
    ],
)
def test_lines_of_a_log_that_make_no_prediction(tmp_path, bear, fathom, fields, expected):
    folder = log(tmp_path / "log")
    [samples] = folder.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    place = {key: fields[key] for key in fields if key not in ("filtered_resps", "target", "resps")}
    rows[1] = rows[1] | (fields if not place else {"doc": rows[1]["doc"] | place})
    write(samples, *rows)
    code, _, err = fathom("import", folder, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, f"{samples.name}:2:", expected)) == (2, True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"template_index": 99}, "template 99, where metadata_results.json says 0"),
        ({"template_index": 1}, "template 1, where metadata_results.json says 0"),
        ({"answer_idx": 99}, "found answer 99"),
        ({"pll_scores": [[-1.0], [-3.0], [-2.0]]}, "in one layout"),
        ({"pll_scores": [-1.0] * 3, "predicted_tokens": list(TOWNS.values())}, "older layouts"),
        ({"template_index": 0.7}, "template_index"),
        ({"template_index": True}, "template_index"),
        ({"instance_index": -1}, "instance_index"),
        ({"answer_idx": 0}, "the gold answer id Paris, found id Kampala"),
        ({"obj_id": "id Lima"}, "the gold answer id Paris, found id Lima"),
        ({"pll_scores": [1.0, -1.0, -2.0]}, "a score of 0 or less"),
        ({"pll_scores": [[-1.0], [], [-2.0]]}, "pll_scores"),
        ({"pll_scores": [[-1.0], [0.5], [-2.0]]}, "pll_scores"),
        ({"pll_scores": [[-1.0], -2.0, [-2.0]]}, "all 3 answers"),
        ({"sub_label": "Germany"}, "'France', found 'Germany'"),
        ({"pll_scores": None, "results": [[[["a", 1.0]], {}]] * 3}, "lm-pub-quiz saves results of its older layouts"),
    ],
)
def test_lines_of_lm_pub_quiz_that_make_no_prediction(tmp_path, bear, fathom, fields, expected):
    rows = rows_of()
    rows[1] |= fields
    code, _, err = fathom("import", quiz(tmp_path / "quiz", rows), "--data", bear, "--out", tmp_path / "run")
    assert (code, err.count("\n"), mentioned(err, "P36_results.jsonl:2:", expected)) == (2, 1, True), err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"templates": ["Another [X] of [Y].", "[Y] [X]"]}, "the text 'The capital of [X] is [Y].'"),
        ({"templates": ["Another [X] of [Y]."], "template_index": None}, "the text 'The capital of [X] is [Y].'"),
        ({"templates": [5]}, "templates"),
        ({"template_index": "0"}, "template_index"),
        ({"reduction": ["sum"]}, "reduction"),
        ({"pll_metric": ["original"]}, "pll_metric"),
        ({"answer_space_ids": {"a": 1}}, "answer_space_ids"),
        ({"answer_space_labels": ["Paris", "Kampala", "Lima"]}, "id Kampala (Paris), id Paris (Kampala)"),
        ({"answer_space_labels": ["Kampala", "Paris", "Oslo"], "answer_space_ids": None}, "id Lima (Oslo)"),
        ({"answer_space_labels": ["Kampala", "Paris"]}, "id Lima ()"),
        ({"pll_metric": "nonsense"}, "metadata_results.json:1: pll_metric"),
        ({"model_name_or_path": 7}, "model_name_or_path"),
        ({"model_name_or_path": ["x"]}, "model_name_or_path"),
        ({"lm_pub_quiz_version": {"a": 1}}, "lm_pub_quiz_version"),
    ],
)
def test_settings_of_lm_pub_quiz_that_cannot_be(tmp_path, bear, fathom, fields, expected):
    results = quiz(tmp_path / "quiz", rows_of(), **fields)
    code, _, err = fathom("import", results, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "P36", expected)) == (2, True), err
    assert not (tmp_path / "run").exists()


def test_relations_of_two_models(tmp_path, bear, fathom):
    results = quiz(tmp_path / "quiz", rows_of())
    write(results / "metadata_results.json", {"P36": quiz_metadata(), "P37": quiz_metadata(model_name_or_path="bert")})
    about = json.loads((bear / "metadata_relations.json").read_text())
    write(bear / "metadata_relations.json", about | {"P37": about["P36"]})
    (bear / "P37.jsonl").write_bytes((bear / "P36.jsonl").read_bytes())
    (results / "P37_results.jsonl").write_bytes((results / "P36_results.jsonl").read_bytes())
    code, _, err = fathom("import", results, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, "model_name_or_path", "bert", "gpt2")) == (2, True), err
    assert not (tmp_path / "run").exists()


def test_a_model_whose_name_is_no_text(tmp_path, bear, fathom):
    folder = log(tmp_path / "log")
    [results] = folder.rglob("results_*.json")
    write(results, {"config": {"model_args": {"pretrained": ["gpt2"]}}})
    code, _, err = fathom("import", folder, "--data", bear, "--out", tmp_path / "run")
    assert (code, mentioned(err, results.name, "pretrained")) == (2, True), err


def test_scores_that_are_not_finite_are_unscored(tmp_path, bear, fathom):
    folder = log(tmp_path / "log")
    [samples] = folder.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    for row, score in zip(rows, ("-inf", "-1e999", "nan"), strict=True):
        row["filtered_resps"][0][0] = score
    write(samples, *rows)
    assert [row["rank"] for row in imported(fathom, folder, bear, tmp_path / "run")] == [None, None, None]


def test_the_folder_one_is_in_has_its_name(tmp_path, bear, fathom, monkeypatch):
    monkeypatch.chdir(bear)
    imported(fathom, log(tmp_path / "log"), Path("."), tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").manifest["identity"]["data"]["name"] == "bear"

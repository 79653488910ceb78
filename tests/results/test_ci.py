"""Comparison as a condition: exit codes, and the JSON that other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest

from fathom.api.comparison import ComparisonRecord, record_of
from fathom.cli.junit import junit_of
from fathom.results.claims import VERDICTS
from fathom.results.compare import compare
from tests.answerers import answered, world

ROOT = Path(__file__).resolve().parents[2]
FACTS = 400


def knows(share: float, seed: int = 0):
    """Return an answerer that has this share of the facts right, the same ones for a smaller share."""

    def answer(query, space, template):
        draw = np.random.default_rng([seed, int(query.id[1:])])
        scores = draw.random(len(space))
        scores[list(space.ids).index(query.gold[0])] = 2 if draw.random() < share else -1
        return scores.tolist()

    return answer


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ci")
    data = world([[number % 20] for number in range(FACTS)], relations=4)
    shares = {"reference": 0.9, "same": 0.9, "worse": 0.7, "better": 0.99, "close": 0.89}
    return {name: answered(folder / name, knows(share), data, model=name) for name, share in shares.items()}


CONDITIONS = [
    ("same", "worse", 0),
    ("worse", "worse", 3),
    ("better", "worse", 0),
    ("same", "not-equivalent", 0),
    ("worse", "not-equivalent", 3),
    ("better", "not-equivalent", 3),
    ("same", "different", 0),
    ("worse", "different", 3),
    ("better", "different", 3),
]


@pytest.mark.parametrize(("name", "condition", "expected"), CONDITIONS)
def test_a_condition_decides_the_exit_code(runs, fathom, name: str, condition: str, expected: int) -> None:
    paths = runs["reference"].path, runs[name].path
    code, out, _ = fathom("compare", *paths, "--metrics", "accuracy", "--margin", "5", "--fail-if", condition)
    assert code == expected
    assert "differences in accuracy" in out  # the tables are printed all the same


def test_any_run_fails_the_reference_alone(runs, fathom) -> None:
    """Better against worse differs, too, but the first run is the reference."""
    typed = ("--metrics", "accuracy", "--margin", "5", "--fail-if", "worse")
    names = ("reference", "same", "better"), ("reference", "same", "worse"), ("worse", "better", "reference")
    codes = [fathom("compare", *(runs[name].path for name in own), *typed)[0] for own in names]
    assert codes == [0, 3, 0]


def test_undecided_is_not_worse_and_not_equivalent(fathom, tmp_path) -> None:
    data = world([[number % 20] for number in range(40)], relations=1)
    paths = [answered(tmp_path / f"{n}", knows(0.6, n), data, model=f"m{n}").path for n in (1, 2)]
    typed = ("compare", *paths, "--metrics", "accuracy", "--margin", "2", "--fail-if")
    assert [fathom(*typed, condition)[0] for condition in ("worse", "not-equivalent")] == [0, 3]


def test_conditions_are_tests_of_a_junit_file(runs, fathom, tmp_path) -> None:
    file, paths = tmp_path / "junit.xml", [runs[name].path for name in ("reference", "same", "worse")]
    typed = ("compare", *paths, "--metrics", "accuracy", "--margin", "5", "--junit", file)
    for _ in range(2):
        assert fathom(*typed, "--fail-if", "different")[0] == 3  # another verdict replaces the file
        assert fathom(*typed, "--fail-if", "worse")[0] == 3
        suite = ElementTree.parse(file).getroot()
        tests = {test.get("name"): test for test in suite}
        assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "1")
        assert list(tests) == ["same against reference: worse", "worse against reference: worse"]
        failures = [test.find("failure") for test in suite]
        assert failures[0] is None
        assert failures[1] is not None
        assert "worse is worse than reference by more than 5 points" in (failures[1].text or "")
    code, _, said = fathom(*typed)
    assert code == 2
    assert "--fail-if" in said
    file.write_text("<testsuite name='mine'/>")
    code, printed, _ = fathom(*typed, "--fail-if", "worse")
    assert (code, printed, file.read_text()) == (2, "", "<testsuite name='mine'/>")


def test_bad_input_is_an_error_of_the_junit_file(runs, fathom, tmp_path) -> None:
    """A run that is missing, and an option that is wrong; a file that is not of JUnit stays."""
    file, paths = tmp_path / "junit.xml", [runs["reference"].path, tmp_path / "missing"]
    typed = ("compare", *paths, "--fail-if", "different", "--junit", file)
    for more, part in (((), "missing is not a run"), (("--margin", "-1"), "--margin")):
        code, printed, said = fathom(*typed, *more)
        assert (code, printed) == (2, "")
        suite = ElementTree.parse(file).getroot()
        assert (suite.tag, suite.get("tests"), suite.get("errors")) == ("testsuite", "1", "1")
        error = suite[0].find("error")
        assert error is not None
        assert part in (error.text or "")
        assert part in said
        assert error.get("message") == error.text
    file.write_text("mine")
    assert (fathom(*typed)[0], file.read_text()) == (2, "mine")
    code, _, said = fathom(*typed[:-1], tmp_path / "nowhere" / "at" / "junit.xml")
    assert (code, "missing is not a run" in said) == (2, True)


def test_a_junit_file_has_no_control_characters() -> None:
    suite = ElementTree.fromstring(junit_of({"m\x07 <\x1b: worse": (True, "m\x07 is worse")}))
    assert suite[0].get("name") == "m\ufffd <\ufffd: worse"
    assert suite[0][0].text == "m\ufffd is worse"


@pytest.mark.parametrize("condition", ["worse", "not-equivalent"])
def test_a_margin_is_needed(runs, fathom, condition: str) -> None:
    code, out, err = fathom("compare", runs["reference"].path, runs["same"].path, "--fail-if", condition)
    assert (code, out) == (2, "")
    assert "--margin" in err


def test_a_run_that_cannot_be_compared_never_passes(runs, fathom, tmp_path) -> None:
    other = world([[0]] * 8, relations=2, size=10, name="E")
    strange = answered(tmp_path / "strange", knows(0.9), other, model="strange")
    typed = ("--metrics", "accuracy", "--fail-if", "different")
    code, _, err = fathom("compare", runs["reference"].path, runs["same"].path, strange.path, *typed)
    assert code == 2
    assert str(strange.path) in err


@pytest.mark.parametrize("points", ["0.02", "0", "-2", "101", "nan", "inf"])
def test_differences_are_in_points(runs, fathom, points: str) -> None:
    paths = runs["reference"].path, runs["close"].path
    for option in ("--margin", "--detect"):
        assert fathom("compare", *paths, option, points)[0] == 2
    for option in ("margin", "detect"):
        with pytest.raises(Exception, match=option):
            compare([runs["reference"], runs["close"]], **{option: float(points)})


def test_python_and_the_command_line_use_one_unit(runs, fathom) -> None:
    pair = runs["reference"], runs["worse"]
    found = compare(pair, metrics=["accuracy"], margin=2)
    assert found.pairs[0].decision.by_margin.word == "worse"
    paths = [run.path for run in pair]
    out = fathom("compare", *paths, "--metrics", "accuracy", "--margin", "2", "--format", "json")[1]
    printed = json.loads(out)["pairs"][0]
    assert (printed["margin"], printed["margin_verdict"]) == (2, "worse")
    assert printed["difference"] == pytest.approx(100 * found.pairs[0].differences[0].number.value)


def test_the_json_follows_the_schema(runs, fathom) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "compare.json").read_text(encoding="utf-8"))
    assert schema == ComparisonRecord.model_json_schema(mode="serialization")
    paths = [runs[name].path for name in ("reference", "same", "worse")]
    out = fathom("compare", *paths, "--margin", "5", "--detect", "3", "--format", "json")[1]
    content = json.loads(out)
    jsonschema.validate(content, schema)
    assert content["format_version"] == 1
    assert {pair["verdict"] for pair in content["pairs"]} <= set(VERDICTS)
    allowed = schema["$defs"]["ComparedRuns"]["properties"]["verdict"]["enum"]
    assert set(allowed) == set(VERDICTS)

    def keys(value):
        if isinstance(value, dict):
            yield from value
            value = list(value.values())
        for one in value if isinstance(value, list) else ():
            yield from keys(one)

    assert all(key == key.lower() and " " not in key for key in keys(content))


def test_the_fields_of_a_margin_by_hand(runs) -> None:
    """Of 400 facts 80 and more are lost: worse by more than 5 points, with the ends of a 90 % interval."""
    [pair] = record_of(compare([runs["reference"], runs["worse"]], metrics=["accuracy"], margin=5)).pairs
    assert (pair.equivalent, pair.not_worse, pair.worse) == (False, False, True)
    assert pair.margin_low is not None
    assert pair.low is not None
    assert pair.low < pair.margin_low < pair.difference
    assert pair.margin_low > 5
    [same] = record_of(compare([runs["reference"], runs["same"]], metrics=["accuracy"])).pairs
    assert (same.equivalent, same.not_worse, same.worse, same.margin, same.margin_low) == (None,) * 5

"""Results in Python: single numbers, wrong answers, and data frames."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from fathom.api.result import Result
from fathom.base.errors import BadInput
from fathom.results.answers import tidy_table
from fathom.results.estimates import point_estimate
from tests.answerers import answered, constant, unscored, world
from tests.messages import mentions

FACTS = world([[0], [1], [0], [2]], relations=2)
"""Right answers of two relations of two facts: the constant answerer says candidate 0."""


@pytest.fixture
def result(tmp_path):
    return Result(answered(tmp_path / "run", constant, FACTS, probe="statement"))


def test_numbers_are_those_of_the_summary_and_print_as_shares(result):
    [line] = result.summary().headlines
    assert result.accuracy == line.numbers["accuracy"]
    assert result["mrr"].value == pytest.approx((1 + 1 / 2 + 1 + 1 / 3) / 4)
    assert result["hits@2"].value == 0.75
    assert re.fullmatch(r"50\.0 % \[\d+\.\d, \d+\.\d\]", str(result.accuracy))
    assert repr(result.accuracy) == f"<Estimate {result.accuracy}, n = 4>"
    assert str(point_estimate("nothing was scored")) == "undefined: nothing was scored"
    assert str(point_estimate("of a choice", value=0.25, form="+.2f")) == "+0.25"


def test_one_scoring_is_asked_for_where_there_are_several(result):
    [scoring] = result._numbers.rows.scorings
    assert result["mrr", scoring] == result["mrr"]
    with pytest.raises(BadInput, match=mentions("'other'", f"result['mrr', '{scoring}']")):
        result["mrr", "other"]
    assert result["Hits@2"] == result["hits@2"]
    with pytest.raises(BadInput, match="no metric 'hits'"):
        result["hits"]
    with pytest.raises(BadInput, match=mentions("nothing", "perplexity")):
        result["perplexity"]


def test_data_frames_name_answers(result):
    frame = result.to_pandas()
    assert len(frame.columns) <= 15
    names = FACTS.candidates[FACTS.queries[0].candidates].names
    assert frame["first_answer"].tolist() == [names[0]] * 4
    assert frame["gold"].tolist() == [names[0], names[1], names[0], names[2]]
    assert frame["correct"].tolist() == [1, 0, 1, 0]
    assert frame["rank"].tolist() == [1, 2, 1, 3]
    assert frame["gold_score"].tolist() == [0, -1, 0, -2]
    assert frame["relation"].tolist() == ["r0", "r0", "r1", "r1"]
    likelihoods = np.exp(-np.arange(len(names), dtype=float))
    assert frame["confidence"].tolist() == pytest.approx([1 / likelihoods.sum()] * 4)


def test_polars_has_the_same(result):
    pytest.importorskip("polars")
    frame = result.to_polars()
    assert frame.drop("unscored").to_dicts() == result.to_pandas().drop(columns="unscored").to_dict("records")
    assert frame.schema["unscored"] == frame.schema["gold"], "empty columns have a type, so that frames can be joined"


def test_full_frames_have_every_column_and_group(result):
    full, table = result.to_pandas(full=True), result.table()
    assert {*table.column_names} - {"groups"} <= {*full.columns}
    assert len(full) == len(table)


def test_unscored_predictions_have_a_reason_and_no_numbers(tmp_path):
    run = unscored(answered(tmp_path / "run", constant, FACTS), 1)
    row = tidy_table(run).to_pylist()[1]
    assert row["unscored"]
    assert [row[name] for name in ("first_answer", "correct", "rank", "confidence")] == [None] * 4


def test_wrong_answers_can_be_printed(result):
    assert len(result.wrong(1).rows) == 1
    assert "Most confident wrong answers" in str(result.wrong())
    with pytest.raises(BadInput, match="expected 0 or more"):
        result.wrong(-1)


@pytest.mark.parametrize(("candidates", "expected"), [(20, "no wrong"), (1001, "fathom report")])
def test_a_table_without_wrong_answers_says_why(tmp_path, candidates, expected):
    """All answers are right, or there are too many candidates to keep their log-likelihoods."""
    run = answered(tmp_path / "run", constant, world([[0], [0]], relations=1, size=candidates), probe="statement")
    [note] = Result(run).wrong().notes
    assert expected in note


def test_candidates_named_by_codes_are_noted(tmp_path):
    data = world([[0], [1]], relations=1)
    codes = replace(data.candidates["all"], names=data.candidates["all"].ids)
    runs = [
        answered(tmp_path / "names", constant, data, probe="statement"),
        answered(tmp_path / "codes", constant, replace(data, candidates={"all": codes}), probe="statement"),
    ]
    few, more = (len(Result(run).summary().notes) for run in runs)
    assert more == few + 1

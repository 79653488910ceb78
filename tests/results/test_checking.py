"""Simulated nulls of a reader's own facts: what they keep, and the rates that they show."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fathom.results import checking, estimates
from fathom.results.checking import check_baselines, check_difference, check_run, exchanged, in_words
from fathom.results.compare import compare
from fathom.results.metrics.uncertainty import Spread
from fathom.results.samples import Sample
from tests.answerers import answered, at_random, at_rank, world

NAMES = ("a", "b")


def test_an_exchange_keeps_clusters_ties_and_the_pairs() -> None:
    """Whole relations change sides: within each, all differences keep or all change their sign."""
    draw = np.random.default_rng(0)
    first, second = draw.random((2, 60))
    relation = np.repeat(np.arange(6), 10)
    own, other = exchanged(first, second, Sample("relation", relation.tolist()), draw)
    assert sorted(np.concatenate([own, other])) == sorted(np.concatenate([first, second]))
    signs = np.sign((own - other) * (first - second)).reshape(6, 10)
    assert (signs == signs[:, :1]).all()
    assert set(signs[:, 0]) == {-1, 1}


def test_an_exchange_of_two_ways_is_a_product_of_signs() -> None:
    relation, subject = np.repeat(np.arange(8), 9), np.tile(np.arange(9), 8)
    sample = Sample("relation and subject", relation.tolist(), None, subject.tolist())
    own, _ = exchanged(np.ones(72), np.zeros(72), sample, np.random.default_rng(3))
    signs = 2 * own.reshape(8, 9) - 1
    assert np.linalg.matrix_rank(signs) == 1
    assert {*signs[0]} == {*signs[:, 0]} == {-1, 1}
    assert 0 < own.mean() < 1


def test_equal_sides_are_said_to_differ_in_about_five_percent() -> None:
    draw = np.random.default_rng(1)
    first, second = (draw.random((2, 400)) < 0.5).astype(float)
    [checked] = check_difference(NAMES, first, second, Sample("fact"), None)
    assert checked.rate.n == checking.NULLS
    assert 0.01 <= checked.rate.value <= 0.1
    assert "rough" not in str(checked)


def test_a_wrong_sampling_unit_is_found() -> None:
    """Ten facts of a relation are right or wrong together. The check uses the unit that the claim uses, so the right
    unit has few wrong claims; a claim by single facts, checked with nulls of whole relations, has many."""
    draw = np.random.default_rng(2)
    relation = np.repeat(np.arange(40), 10)
    first, second = (draw.random((2, 40)) < 0.5).astype(float)[:, relation]
    by_relation = Sample("relation", relation.tolist())
    [right] = check_difference(NAMES, first, second, by_relation, None)
    assert right.rate.value <= 0.1
    wrong = []
    for _ in range(100):
        own, other = exchanged(first, second, by_relation, draw)
        wrong.append((estimates.difference(own, other, Sample("fact"), "").p_value or 1) < 0.05)
    assert np.mean(wrong) > 0.3


def test_a_margin_is_checked_where_the_second_is_worse_by_it() -> None:
    draw = np.random.default_rng(3)
    first, second = (draw.random((2, 300)) < 0.95).astype(float)
    _, checked = check_difference(NAMES, first, second, Sample("fact"), 0.05)
    assert checked.claim == "b is not worse by the margin"
    assert checked.rate.value <= 0.1


def test_not_worse_needs_no_equivalence() -> None:
    """With errors of √(1/2 / 40) = 0.11 no difference is within 0.05 on both sides; one in twenty is on one side."""
    draw = np.random.default_rng(6)
    first, second = (draw.random((2, 40)) < 0.5).astype(float)
    _, checked = check_difference(NAMES, first, second, Sample("fact"), 0.05)
    assert 0.01 <= checked.rate.value <= 0.1


def test_a_run_is_exchanged_with_its_strongest_baseline() -> None:
    draw = np.random.default_rng(4)
    own, weak, strong = ((draw.random(200) < share).astype(float) for share in (0.9, 0.1, 0.4))
    baselines = {"random": np.full(200, 0.05), "majority": weak, "names": strong, "n-gram": np.full(200, np.nan)}
    checked = check_baselines("m", own, baselines, Sample("fact"))
    assert checked is not None
    assert checked.rate.value <= 0.06  # one direction alone is claimed
    assert check_baselines("m", own, {"random": baselines["random"]}, Sample("fact")) is None
    weak[0] = np.nan  # known of some facts alone
    assert check_baselines("m", own, {"random": baselines["random"], "majority": weak}, Sample("fact")) is None


def test_the_exchange_is_with_the_strongest_not_the_weakest() -> None:
    """The run is as good as the names, so that it is above them by chance; exchanged with the majority, it never is."""
    draw = np.random.default_rng(7)
    own, weak, strong = ((draw.random(200) < share).astype(float) for share in (0.9, 0.1, 0.85))
    checked = check_baselines("m", own, {"majority": weak, "names": strong}, Sample("fact"))
    assert checked is not None
    assert 0.005 <= checked.rate.value <= 0.06


def test_rates_are_stated_with_the_result(tmp_path, fathom) -> None:
    data = world([[number % 20] for number in range(60)], relations=3)
    runs = [answered(tmp_path / name, at_random(seed), data, model=name) for seed, name in enumerate("ab")]
    found = compare(runs, metrics=["accuracy"], check=True, margin=5)
    assert [one.claim for one in found.checks] == ["a and b differ", "b is not worse by the margin"]
    code, out, _ = fathom(
        "compare", *(run.path for run in runs), "--metrics", "accuracy", "--check", "--format", "json"
    )
    checks = json.loads(out)["checks"]
    assert (code, len(checks), checks[0]["nulls"]) == (0, 1, checking.NULLS)
    assert 0 <= checks[0]["wrong"] <= 100
    run = answered(tmp_path / "c", at_rank(1), data)
    [checked] = check_run(run)
    code, out, _ = fathom("metrics", run.path, "--check")
    assert code == 0
    assert f"{checked.rate.value:.1%}".rstrip("%") in out
    assert "200 simulated nulls" in " ".join(out.split())


def test_many_checks_are_one_sentence() -> None:
    draw = np.random.default_rng(5)
    first, second = (draw.random((2, 40)) < 0.5).astype(float)
    checks = check_difference(NAMES, first, second, Sample("fact"), None) * 4
    assert len(in_words(checks[:3])) == 3
    assert len(in_words(checks)) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_sides_that_are_always_right_or_wrong_are_never_said_to_differ(share: float) -> None:
    values = np.full(50, share)
    [checked] = check_difference(NAMES, values, values, Sample("fact"), None)
    assert checked.rate.value == 0


def test_a_pilot_of_two_units_is_as_uncertain_as_one_degree_of_freedom_is():
    """Student's upper fifth at one degree is tan(0.3 π) = 1.3764, the normal's 0.8416: 0.5348 more than the 2.8016 of a
    known error (1.9600 + 0.8416), in errors of 1."""
    pilot = Spread(0.0, 1.0, 1.0, 2, 2.0)
    assert math.tan(0.3 * math.pi) == pytest.approx(1.3764, abs=1e-4)
    assert checking._detects(1.0, 1e9, pilot, 3.337)
    assert not checking._detects(1.0, 1e9, pilot, 3.336)

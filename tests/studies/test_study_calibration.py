"""Confidence and its calibration: worked out by hand, and on answerers whose calibration is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.results.discrimination import midranks
from fathom.results.estimates import measure
from fathom.results.metrics.confidence import fit_temperature, scaled_confidence
from fathom.results.metrics.table import metric
from fathom.results.rows import Rows
from fathom.results.samples import Sample
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES, calibration
from fathom.studies.calibration import AGREEMENT, SOFTMAX, calibration_difference, calibration_error, scale_temperature
from tests import answerers
from tests.answerers import EVEN, Answerer, at_random, unscored, world


def drawn(temperature: float, seed: int = 0) -> Answerer:
    """Says how likely each candidate is to be right, times a temperature: calibrated at that temperature.

    The right answer of a query is fixed, so its logit is drawn from what it is for a right one: likelihoods e^x over
    standard normal x are those of a normal with mean 1.
    """

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        random = np.random.default_rng([seed, int(query.id[1:]), template])
        logits = random.normal(size=len(space)) * 1.5
        logits[space.places(query.gold)[0]] += 1.5**2
        return (temperature * logits).tolist()

    return answer


def answered(folder: Path, answer: Answerer, data: QuerySet) -> RunFolder:
    return answerers.answered(folder, answer, data, probe="statement")


DATA = world([[number % 20] for number in range(600)], relations=6)


def of(found: calibration.Calibration, kind: str) -> calibration.Confidence:
    [one] = [one for one in found.confidences if one.kind == kind]
    return one


def test_temperature_by_hand() -> None:
    """One option of two is ahead by ln 9 and right in 3 of 4 queries: the best chance is 3/4, odds 3 = 9^(1/2)."""
    scores = [np.array([math.log(9), 0.0])] * 4
    temperature = fit_temperature(scores, [1, 1, 1, 0])
    assert temperature == pytest.approx(2, rel=1e-3)
    assert scaled_confidence(scores[:1], temperature) == pytest.approx([0.75], rel=1e-3)


def test_a_certain_wrong_answer_alone_decides_nothing() -> None:
    assert 1 < fit_temperature([[0.0, -np.inf], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]], [0, 1, 1, 0]) < 100


def test_no_unit_is_in_both_halves() -> None:
    """Of unit a 3 of 4 are right, so that 2 is best (see above), of b 9 of 10, as at 1. Each gets the other's."""
    sure = [np.array([math.log(9), 0.0])] * 14
    right = np.array([number not in (3, 13) for number in range(14)], dtype=float)
    scaled = scale_temperature(sure, right, [*"aaaa", *"bbbbbbbbbb"], seed=0)
    assert scaled is not None
    assert sorted(scaled.temperatures) == pytest.approx([1, 2], rel=1e-3)
    assert scaled.confidence.tolist() == pytest.approx([0.9] * 4 + [0.75] * 10, rel=1e-3)
    assert scale_temperature(sure, right, ["a"] * 14, seed=0) is None


def test_midranks_are_within_groups() -> None:
    """Of a: 1, 3, 3 → 1/6, 2/3, 2/3; the one of b is in the middle."""
    assert midranks([1, 3, 3, 9], list("aaab")).tolist() == pytest.approx([1 / 6, 2 / 3, 2 / 3, 0.5])


def test_measures_by_hand(tmp_path: Path) -> None:
    """Odds of 3 for the first of two options in half of the facts, of 9 in the others; right are 10 of 20 and 18 of
    20. Confidences 3/4 and 9/10, Brier (10 · 1/16 + 10 · 9/16 + 18 · 1/100 + 2 · 81/100) / 40. Of 28 · 12 pairs
    18 · 10 are in order, and tied 10 · 10 + 18 · 2."""
    data = world([[number % 2] for number in range(40)], size=2, relations=2)
    wrong = {*range(10), 20, 21}

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        number = int(query.id[1:])
        first = space.places(query.gold)[0] if number not in wrong else 1 - space.places(query.gold)[0]
        return [math.log(3 if number < 20 else 9) if place == first else 0.0 for place in range(2)]

    [found] = calibration.analyse([answered(tmp_path / "run", answer, data)]).confidences
    assert found.kind == SOFTMAX
    assert found.rows[0]["accuracy"].value == pytest.approx(0.7)
    assert found.rows[0]["mean confidence"].value == pytest.approx(0.825)
    assert found.rows[0]["Brier"].value == pytest.approx((10 / 16 + 90 / 16 + 18 / 100 + 162 / 100) / 40)
    assert found.rows[0]["AUROC"].value == pytest.approx((180 + 136 / 2) / 336)
    informative = found.claims[0].contrasts
    assert informative[0].estimate.value == pytest.approx(248 / 336 - 0.5)
    assert informative[1].estimate.value == 0  # confidence differs between the relations alone


def test_the_calibration_error_is_that_of_the_metrics(tmp_path: Path) -> None:
    run = answered(tmp_path / "run", drawn(2), DATA)
    [found] = calibration.analyse([run]).confidences
    rows = Rows(run)
    other = measure(rows, metric("ece"), rows.of("sum/full"))
    assert found.rows[0]["error"][:3] == pytest.approx(other[:3])


def test_agreement_by_hand(tmp_path: Path) -> None:
    """Three templates: fact 0 says the right answer in two, 1 a wrong one in all, 2 three different ones, of which one
    is right, 3 the right one in all."""
    says = {0: (0, 0, 5), 1: (7, 7, 7), 2: (2, 8, 9), 3: (3, 3, 3)}

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        first = says[int(query.id[1:])][template]
        return [float(place == first) for place in range(len(space))]

    data = world([[number] for number in range(4)], relations=1, templates=3)
    found = of(calibration.analyse([answered(tmp_path / "run", answer, data)]), AGREEMENT)
    assert [answer[2] for answer in found.answers] == pytest.approx([2 / 3, 1, 1 / 3, 1])
    assert [answer[4] for answer in found.answers] == pytest.approx([1, 0, 1 / 3, 1])
    assert found.rows[0]["accuracy"].n == 4
    assert len(found.rows) == 1


def test_tied_first_answers_share_the_vote_of_their_template(tmp_path: Path) -> None:
    """Two of three templates tie the right answer with a wrong one, and the third says another: one vote each."""
    says = ((0, 5), (0, 5), (7,))

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [float(place in says[template]) for place in range(len(space))]

    data = world([[0], [0]], relations=1, templates=3)
    found = of(calibration.analyse([answered(tmp_path / "run", answer, data)]), AGREEMENT)
    assert [answer[2] for answer in found.answers] == pytest.approx([1 / 3, 1 / 3])
    assert [answer[4] for answer in found.answers] == pytest.approx([1 / 3, 1 / 3])


def test_scaling_finds_the_temperature_and_lowers_the_error(tmp_path: Path) -> None:
    found = calibration.analyse([answered(tmp_path / "run", drawn(2.5), DATA)])
    [one] = found.confidences
    assert one.temperatures == pytest.approx([2.5, 2.5], rel=0.15)
    assert one.rows[0]["error"].value > 0.15
    assert one.rows[1]["error"].value < 0.05
    assert one.rows[1]["Brier"].value < one.rows[0]["Brier"].value
    spoken = " ".join(calibration.conclude(found))
    assert spoken.count(": significant") == 2


def test_scaling_a_calibrated_model_concludes_nothing(tmp_path: Path) -> None:
    found = calibration.analyse([answered(tmp_path / "run", drawn(1), DATA)])
    [one] = found.confidences
    assert one.temperatures == pytest.approx([1, 1], rel=0.15)
    text = render(calibration.tables(found), "json")
    assert "no significant difference" in text


def test_one_who_guesses_is_not_informative(tmp_path: Path) -> None:
    data = world(EVEN, templates=3)
    found = calibration.analyse([answered(tmp_path / "run", at_random(3), data)])
    softmax, agreement = found.confidences
    assert (softmax.kind, agreement.kind) == (SOFTMAX, AGREEMENT)
    assert softmax.rows[0]["accuracy"].n == 300
    assert softmax.rows[0]["AUROC"].clusters == 100  # three answers of a fact are one unit
    assert abs(softmax.rows[0]["AUROC"].value - 0.5) < 0.2
    assert np.isnan(agreement.rows[0]["AUROC"].value)  # in no fact do two templates agree on the right answer
    of_agreement = [one for one in found.decisions if one.claim in agreement.claims]
    assert len(of_agreement) == len(agreement.claims) > 0
    spoken = " ".join(calibration.conclude(found._replace(decisions=of_agreement)))
    assert "cannot be determined" in spoken
    assert "one class" in spoken


@pytest.mark.parametrize("clusters", [None, np.arange(300) % 20])
def test_the_paired_difference_rarely_errs(clusters: np.ndarray | None) -> None:
    """Both confidences are as wrong, in other places."""
    random, rejected = np.random.default_rng(7), []
    for _ in range(100):
        chance = random.uniform(0.3, 0.7, 300)
        right = (random.uniform(size=300) < chance).astype(float)
        first, second = (chance + 0.2 * random.choice([-1, 1], 300) for _ in range(2))
        number = calibration_difference(first, second, right, Sample("fact", clusters), "")
        rejected.append(number.p_value < 0.05)
    assert np.mean(rejected) <= 0.1


def test_difference_is_that_of_the_errors() -> None:
    random = np.random.default_rng(8)
    right = (random.uniform(size=400) < 0.6).astype(float)
    first, second = random.uniform(0.5, 1, 400), random.uniform(0.4, 0.8, 400)
    errors = [calibration_error(one, right, Sample("fact"), "").value for one in (first, second)]
    assert calibration_difference(first, second, right, Sample("fact"), "").value == pytest.approx(
        errors[0] - errors[1]
    )


def test_bad_input(tmp_path: Path) -> None:
    run = answered(tmp_path / "run", at_random(1), world(EVEN))
    _forget_scores(run)
    with pytest.raises(BadInput, match="neither the log-likelihoods"):
        calibration.analyse([run])


def _forget_scores(run: RunFolder) -> None:
    rows = [row | {"scores": None} for row in run.predictions().to_pylist()]
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)


def test_unscored_answers_are_excluded(tmp_path: Path) -> None:
    run = unscored(answered(tmp_path / "run", at_random(1), world(EVEN, templates=2)), 0, 5)
    found = calibration.analyse([run])
    assert [one.rows[0]["accuracy"].n for one in found.confidences] == [198, 98]


def test_a_study_of_the_registry_saves_the_answers(tmp_path: Path) -> None:
    study = STUDIES["calibration"]
    run = answered(tmp_path / "run", drawn(2), world(EVEN, templates=2))
    study.save(study.analyse([run]), tmp_path / "out")
    lines = (tmp_path / "out" / "calibration-answers.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 200 + 100
    assert lines[0] == "run,by,fact,template,confidence,scaled,right"

"""Metrics against hand-derived values, scikit-learn, scipy and lm-pub-quiz; and the laws they must keep."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from fathom.results.baselines import RandomOrder
from fathom.results.estimates import between_folds
from fathom.results.metrics import confidence, ranking
from fathom.results.metrics.confidence import cautious_sum, debiased_sum
from fathom.results.metrics.ranking import consistency
from fathom.results.samples import Sample


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(7)


# --- ranking


def test_hits_are_expected_under_random_order_of_ties() -> None:
    # alone at 1: always. Tied over places 1–2: half. Tied over 1–4: a quarter at k=1, three quarters at k=3.
    # Tied over 2–5: never first; of its four places 2, 3 are within 3: a half.
    best, worst = [1, 1, 1, 2], [1, 2, 4, 5]
    assert ranking.hits_at_k(best, worst, 1).tolist() == [1, 0.5, 0.25, 0]
    assert ranking.hits_at_k(best, worst, 3).tolist() == [1, 1, 0.75, 0.5]


def test_hits_equal_the_average_over_all_orders_of_the_ties() -> None:
    for best in range(1, 6):
        for worst in range(best, 8):
            for k in range(1, 9):
                expected = statistics.mean(place <= k for place in range(best, worst + 1))
                assert ranking.hits_at_k([best], [worst], k)[0] == pytest.approx(expected)


def test_hits_stay_in_bounds_and_better_ranks_never_hurt(draw: np.random.Generator) -> None:
    best = draw.integers(1, 50, 1000)
    worst = best + draw.integers(0, 10, 1000)
    for k in (1, 5, 10):
        hits = ranking.hits_at_k(best, worst, k)
        assert hits.min() >= 0
        assert hits.max() <= 1
        assert np.all(ranking.hits_at_k(np.maximum(best - 1, 1), np.maximum(worst - 1, 1), k) >= hits)
        assert np.all(ranking.hits_at_k(best, worst, k + 1) >= hits)


def test_reciprocal_rank() -> None:
    """Tied over places 2 and 3 it is worth (1/2 + 1/3) / 2, not 1 / 2.5."""
    assert ranking.reciprocal_rank([1, 2, 2], [1, 2, 3]).tolist() == pytest.approx([1, 0.5, 5 / 12])


def test_a_model_that_ties_everything_scores_as_random_guessing() -> None:
    """Both are the mean of 1 / r over all places: H₂₀ / 20 = 0.180 of twenty candidates."""
    by_lot = RandomOrder(np.array([19.0]), np.array([1.0])).reciprocal()
    assert ranking.reciprocal_rank([1], [20])[0] == pytest.approx(by_lot[0]) == pytest.approx(0.17988698)


@pytest.mark.parametrize(("best", "worst", "k"), [([0], [1], 1), ([2], [1], 1), ([math.nan], [1], 1), ([1], [1], 0)])
def test_impossible_ranks_are_refused(best: list[float], worst: list[float], k: int) -> None:
    with pytest.raises(ValueError, match=r"rank|k is"):
        ranking.hits_at_k(best, worst, k)


# --- confidence


def test_confidence_by_hand() -> None:
    # p = (1/2, 1/4, 1/4): H = 1/2 log 2 + 1/2 log 4 = 3/2 log 2; over log 3 → 0.94639…
    # Brier with the first gold: ((1/2)² + (1/4)² + (1/4)²) / 3 = (6/16) / 3 = 1/8
    found = confidence.confidences([np.log([2.0, 1.0, 1.0]) - 500], [[0]])
    assert found.top_probability[0] == pytest.approx(0.5)
    assert found.margin[0] == pytest.approx(0.25)
    assert found.uncertainty[0] == pytest.approx(1.5 * math.log(2) / math.log(3))
    assert found.brier[0] == pytest.approx(0.125)


def test_confidence_of_unequal_lengths_and_edges() -> None:
    assert confidence.uncertainty(np.ones((2, 3, 1))).shape == (2, 3)
    # one option: certain and right. Uniform over two: uncertainty 1, margin 0, Brier (1/4 + 1/4) / 2 = 1/4.
    # A point mass (−inf elsewhere): uncertainty 0; on the wrong one of two: Brier (1 + 1) / 2 = 1.
    # Uniform over two, both gold: the target is the distribution itself, Brier 0.
    scores = [[-9.0], [-3.0, -3.0], [-1.0, -math.inf], [-3.0, -3.0]]
    found = confidence.confidences(scores, [[0], [1], [1], [0, 1]])
    assert found.top_probability.tolist() == [1, 0.5, 1, 0.5]
    assert found.margin.tolist() == [1, 0, 1, 0]
    assert found.uncertainty.tolist() == pytest.approx([0, 1, 0, 1])
    assert found.brier.tolist() == [0, 0.25, 1, 0]


def test_softmax_survives_large_scores_and_shifts(draw: np.random.Generator) -> None:
    scores = draw.normal(size=(20, 6)) * 30
    np.testing.assert_allclose(confidence.softmax(scores - 5000), confidence.softmax(scores), atol=1e-9)
    np.testing.assert_allclose(confidence.softmax(scores).sum(axis=-1), 1)


@pytest.mark.parametrize("scores", [[], [math.nan, 1.0], [-math.inf, -math.inf], [math.inf, 0.0]])
def test_scores_without_probabilities_are_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match=r"NaN|options"):
        confidence.softmax(scores)


def test_gold_answers_are_asked_for() -> None:
    with pytest.raises(ValueError, match="gold"):
        confidence.confidences([[0.0, 1.0]], [[]])
    with pytest.raises(ValueError, match="gold"):
        confidence.confidences([[0.0, 1.0]], [])


def test_brier_is_scikit_learns_averaged_over_options(draw: np.random.Generator) -> None:
    from sklearn.metrics import brier_score_loss

    scores, gold = draw.normal(size=(40, 5)), draw.integers(0, 5, 40)
    probabilities, truth = confidence.softmax(scores), np.eye(5)[gold]
    expected = np.mean([brier_score_loss(truth[:, i], probabilities[:, i]) for i in range(5)])
    assert confidence.confidences(list(scores), [[g] for g in gold]).brier.mean() == pytest.approx(expected)


def test_uncertainty_is_lm_pub_quizs_where_every_option_is_gold_and_stays_below_one_where_theirs_does_not(
    draw: np.random.Generator,
) -> None:
    from lm_pub_quiz.metrics import ConfidenceMargin, ConfidenceScore, UncertaintyScore
    from lm_pub_quiz.metrics.confidence import BrierScore

    def theirs(kind: type, scores: np.ndarray, gold: list[int]) -> float:
        metric = kind()
        metric.reset()
        for row, answer in zip(scores, gold, strict=True):
            metric.add_instance({"pll_scores": row, "answer_idx": answer})
        value = metric.compute()[metric.metric_name]
        return float(value["all"] if isinstance(value, dict) else value)

    scores, gold = draw.normal(size=(12, 4)), [0, 1, 2, 3] * 3
    ours = confidence.confidences(list(scores), [[g] for g in gold])
    for kind, values in (
        (ConfidenceScore, ours.top_probability),
        (ConfidenceMargin, ours.margin),
        (UncertaintyScore, ours.uncertainty),
        (BrierScore, ours.brier),
    ):
        assert theirs(kind, scores, gold) == pytest.approx(values.mean())

    # lm-pub-quiz 0.3.3 on two instances of 4 nearly equal options: divides by log 2 in place of log 4, so nearly 2.
    subset = np.array([[0.0, 0.1, 0.0, 0.1]] * 2)
    assert theirs(UncertaintyScore, subset, [0, 1]) > 1.9
    assert confidence.confidences(list(subset), [[0], [1]]).uncertainty.max() <= 1


def test_calibration_gaps_by_hand() -> None:
    # Two bins of equal size: 0.2 and 0.3 (ties go to the lower bin), 0.9 and 1. Absolute means 0.5 / 4 and 0.9 / 4.
    gaps = confidence.calibration_gaps([0.2, 0.9, 0.3, 1.0], [0, 1, 1, 0], bins=2)
    assert gaps.tolist() == [[0.2, 0, -0.7, 0], [0, pytest.approx(-0.1), 0, 1]]
    assert confidence.debiased_sum(*gaps.mean(axis=1), errors=np.zeros(2)) == pytest.approx(0.5 / 4 + 0.9 / 4)


def test_calibration_error_without_bias() -> None:
    # g = σ = 1: |g|(2Φ(1) − 1) = 0.682689 and 2σφ(1) = 0.483941. A gap of ten standard errors is what it is.
    one = np.ones(1)
    assert confidence.debiased_sum(-1.0, errors=one) == pytest.approx(2 - 0.682689 - 0.483941, abs=1e-6)
    assert confidence.cautious_sum(-1.0, errors=one) == pytest.approx(0.682689 - 0.483941, abs=1e-6)
    assert confidence.debiased_sum(10.0, errors=one) == pytest.approx(10)
    draws = np.random.default_rng(1).standard_normal((200, 2000))
    # Means for true gaps of 0 and 1: absolute values would give √(2/π) = 0.798 and 1.167.
    for shift, debiased, cautious in ((0.0, 0.468, 0.0), (1.0, 0.934, math.erf(0.5))):
        for sum_of, mean in ((confidence.debiased_sum, debiased), (confidence.cautious_sum, cautious)):
            found = sum_of(*(draws + shift), errors=np.ones(200)) / 200
            assert found.mean() == pytest.approx(mean, abs=0.01)


def test_interval_of_the_calibration_error_by_hand() -> None:
    # One bin of three: mean gap 0.3, standard error 0.2 / √3 = 0.11547, t = 2.598: 0.6 − 0.3 · 0.99062 − 0.003154.
    # Without one of them the mean is 0.2, 0.3 or 0.4, and the number 0.19609, 0.29966 or 0.39998: standard error
    # √(2/3 · (0.10357² + 0.10032²)) = 0.11773, times 4.3027 of Student's t with two degrees of freedom.
    found = between_folds([np.array([0.5, 0.1, 0.3])], Sample("fact"), (debiased_sum, cautious_sum))
    assert found.estimate == pytest.approx(0.29966, abs=1e-4)
    assert (found.low, found.high) == (0.0, pytest.approx(0.29966 + 4.3027 * 0.11773, abs=1e-4))


# --- consistency


def test_consistency_by_hand() -> None:
    # same: 1. Different: 0. {a, b} then {a}: a half. {a, b} twice: aa or bb of four pairs: a half.
    # {a, b}, {b, c}, {b}: b every time: 1/2 · 1/2 · 1 = 1/4
    facts = [[{"a"}, {"a"}], [{"a"}, {"b"}], [{"a", "b"}, {"a"}], [{"a", "b"}] * 2, [{"a", "b"}, {"b", "c"}, {"b"}]]
    assert consistency(facts).tolist() == [1, 0, 0.5, 0.5, 0.25]
    with pytest.raises(ValueError, match="fact 0"):
        consistency([[{"a"}, set()]])

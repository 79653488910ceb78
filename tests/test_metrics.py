"""Metrics against hand-derived values, scikit-learn, scipy and lm-pub-quiz; and the laws they must keep."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from fathom.metrics import bootstrap, confidence, ranking
from fathom.metrics.generation import harmonic_mean
from fathom.metrics.ranking import consistency


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
    assert ranking.reciprocal_rank([1, 2, 2.5]).tolist() == [1, 0.5, 0.4]


@pytest.mark.parametrize(("best", "worst", "k"), [([0], [1], 1), ([2], [1], 1), ([math.nan], [1], 1), ([1], [1], 0)])
def test_impossible_ranks_are_refused(best: list[float], worst: list[float], k: int) -> None:
    with pytest.raises(ValueError, match=r"rank|k is"):
        ranking.hits_at_k(best, worst, k)
    with pytest.raises(ValueError, match="rank"):
        ranking.reciprocal_rank([math.nan])


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
    with pytest.raises(ValueError, match=r"NaN or infinity|without options"):
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


def test_reliability_and_calibration_error_by_hand() -> None:
    # (0.2, 0.3] holds 0.25 and 0.3: mean 0.275, accuracy 0.5, gap 0.225. (0.9, 1] holds 1.0 twice: accuracy 0.5,
    # gap 0.5. (0, 0.1] holds 0: gap 0. ECE = (2·0.225 + 2·0.5 + 1·0) / 5 = 0.29
    table = confidence.reliability([0.25, 0.3, 1.0, 1.0, 0.0], [0, 1, 1, 0, 0])
    assert [row.answers for row in table] == [1, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    assert table[2] == pytest.approx((0.2, 0.3, 2, 0.275, 0.5))
    assert math.isnan(table[1].accuracy)
    assert confidence.expected_calibration_error(table) == pytest.approx(0.29)


def test_calibration_refuses_what_it_cannot_count() -> None:
    with pytest.raises(ValueError, match="accuracies"):
        confidence.reliability([0.5], [1, 0])
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        confidence.reliability([1.5], [1])
    with pytest.raises(ValueError, match="no answers"):
        confidence.expected_calibration_error(confidence.reliability([], []))


# --- consistency


def test_consistency_by_hand() -> None:
    # same: 1. Different: 0. {a, b} then {a}: a half. {a, b} twice: aa or bb of four pairs: a half.
    # {a, b}, {b, c}, {b}: b every time: 1/2 · 1/2 · 1 = 1/4
    facts = [[{"a"}, {"a"}], [{"a"}, {"b"}], [{"a", "b"}, {"a"}], [{"a", "b"}] * 2, [{"a", "b"}, {"b", "c"}, {"b"}]]
    assert consistency(facts).tolist() == [1, 0, 0.5, 0.5, 0.25]
    with pytest.raises(ValueError, match="fact 0"):
        consistency([[{"a"}, set()]])


# --- bootstrap


def clustered(draw: np.random.Generator, clusters: int, each: int, spread: float) -> tuple[np.ndarray, list[str]]:
    level = np.repeat(draw.normal(0, spread, clusters), each)
    return level + draw.normal(size=clusters * each), [f"P{i // each}" for i in range(clusters * each)]


def test_interval_approaches_students_for_the_means_of_equal_clusters(draw: np.random.Generator) -> None:
    values, labels = clustered(draw, 40, 10, 1.0)
    found = bootstrap.interval(values, labels, resamples=20_000)
    means = values.reshape(40, 10).mean(axis=1)
    low, high = stats.t.interval(0.95, 39, loc=means.mean(), scale=stats.sem(means))
    assert found.estimate == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05 * (high - low))
    assert (found.clusters, found.note) == (40, "")


def test_clusters_widen_what_they_hold_together(draw: np.random.Generator) -> None:
    values, labels = clustered(draw, 20, 50, 1.0)
    alone = bootstrap.interval(values, [str(i) for i in range(1000)])
    together = bootstrap.interval(values, labels)
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_intervals_of_few_clusters_cover_about_as_often_as_they_say(draw: np.random.Generator) -> None:
    # 300 samples of 6 clusters: a right 95 % interval covers 285 ± 3.8; the plain percentile one about 255.
    covered = 0
    for _ in range(300):
        values, labels = clustered(draw, 6, 5, 1.0)
        found = bootstrap.interval(values, labels, resamples=400)
        covered += found.low <= 0 <= found.high
    assert covered >= 272


def test_interval_holds_its_estimate_and_ignores_the_order(draw: np.random.Generator) -> None:
    for clusters in (1, 2, 5, 30):
        values, labels = clustered(draw, clusters, 4, 2.0)
        weights = draw.uniform(0.1, 9, len(values))
        found = bootstrap.interval(values, labels, weights=weights)
        assert found.low <= found.estimate <= found.high
        order = draw.permutation(len(values))
        again = bootstrap.interval(values[order], [labels[i] for i in order], weights=weights[order])
        assert again[:3] == pytest.approx(found[:3])


def test_estimate_is_the_weighted_mean() -> None:
    # (1·3 + 0·1) / (3 + 1)
    assert bootstrap.interval([1, 0], ["a", "b"], weights=[3, 1]).estimate == 0.75


def test_notes_say_when_to_be_careful() -> None:
    assert bootstrap.interval([0, 1, 1, 0], list("abcd")).note == "only 4 clusters: the interval is rough"
    assert bootstrap.interval([0, 1, 1, 0], None).note == "only 4 clusters: the interval is rough"
    assert "same mean" in bootstrap.interval([0, 0, 0], list("abc")).note


def test_one_cluster_tells_nothing_of_others() -> None:
    for values in ([0.5], [0, 1, 1, 0], [1, 1, 1]):
        found = bootstrap.interval(values, ["a"] * len(values), limits=(0, 1))
        assert found[1:] == (0, 1, 1, "only 1 cluster: no interval")
    unlimited = bootstrap.interval([1, 2], list("aa"))
    assert unlimited[:3] == (1.5, -math.inf, math.inf)


def test_without_clusters_each_value_is_one() -> None:
    values = [0.1, 0.2, 0.4, 0.7]  # in order, as they are numbered by size
    assert bootstrap.interval(values, None) == bootstrap.interval(values, list("abcd"))
    assert bootstrap.interval(values[::-1], None)[:3] == pytest.approx(bootstrap.interval(values, None)[:3])


def test_equal_values_at_an_end_have_wilsons_interval() -> None:
    # z = 1.96, z² = 3.8415. 0 of 13: the upper end is z² / (13 + z²) = 3.8415 / 16.8415 = 0.2281; 13 of 13 mirrors it.
    for labels in (None, [str(n) for n in range(13)]):
        none = bootstrap.interval([0] * 13, labels, limits=(0, 1))
        assert none[:3] == pytest.approx((0, 0, 0.2281), abs=5e-5)
        assert "Wilson" in none.note
        every = bootstrap.interval([1] * 13, labels, limits=(0, 1))
        assert every[:3] == pytest.approx((1, 1 - 0.2281, 1), abs=5e-5)
    theirs = stats.binomtest(0, 13).proportion_ci(method="wilson")
    assert (none.low, none.high) == pytest.approx((theirs.low, theirs.high))
    # From −1 to 1 it is twice as wide; at 90 % z² = 2.7055: 2.7055 / 15.7055 = 0.1723.
    assert bootstrap.interval([1] * 13, None, limits=(-1, 1)).low == pytest.approx(1 - 2 * 0.2281, abs=1e-4)
    assert bootstrap.interval([0] * 13, None, 0.9, limits=(0, 1)).high == pytest.approx(0.1723, abs=5e-5)
    # A function of means that is at its end: F1 of nothing right.
    found = bootstrap.interval([[0] * 13, [0] * 13], None, limits=(0, 1), fold=harmonic_mean)
    assert found[:3] == pytest.approx((0, 0, 0.2281), abs=5e-5)


def test_wilsons_interval_counts_clusters() -> None:
    # Ten values of each of 40 items tell what 40 values do: 1 − 3.8415 / 43.8415 = 0.9124.
    found = bootstrap.interval([1] * 400, [f"item {n % 40}" for n in range(400)], limits=(0, 1))
    assert found[:4] == pytest.approx((1, 0.9124, 1, 40), abs=5e-5)
    assert found.low == pytest.approx(bootstrap.interval([1] * 40, None, limits=(0, 1)).low)
    # Clusters of 3, 1, 1 and 1: (3 + 1 + 1 + 1)² / (9 + 1 + 1 + 1) = 3 of them; 3.8415 / 6.8415 = 0.5615.
    for values, labels, weights in (([0] * 6, list("aaabcd"), None), ([0] * 4, None, [3, 1, 1, 1])):
        unequal = bootstrap.interval(values, labels, weights=weights, limits=(0, 1))
        assert unequal.high == pytest.approx(0.5615, abs=5e-5)


def test_clusters_of_the_same_mean_elsewhere_say_that_they_have_no_interval() -> None:
    half, thirds = [1, 0] * 3, [0.1, 0.2, 0.3, 0.3, 0.1, 0.2]  # thirds: 0.2 but for rounding
    for values, labels, mean in (([0.5] * 6, "aabbcc", 0.5), (half, "aabbcc", 0.5), (thirds, "aaabbb", 0.2)):
        for limits in ((0.0, 1.0), (-math.inf, math.inf), (mean, math.inf)):
            found = bootstrap.interval(values, list(labels), limits=limits)
            assert found[:3] == pytest.approx((mean, mean, mean))
            assert found.note == "all clusters have the same mean: the bootstrap cannot see how sure this is"


def test_interval_is_cut_at_its_limits() -> None:
    found = bootstrap.interval([1, 1, 1, 0], list("abcd"), limits=(0, 1))
    assert found.high == 1
    assert bootstrap.interval([1, 1, 1, 0], list("abcd")).high > 1


@pytest.mark.parametrize("values", [[], [math.nan, 1.0], [1.0]])
def test_values_that_cannot_be_resampled_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"at least one|NaN|clusters"):
        bootstrap.interval(values, ["a", "b"][: max(len(values), 2)] if values else [])
    with pytest.raises(ValueError, match="above zero"):
        bootstrap.interval([1.0], ["a"], weights=[0.0])


def test_paired_difference(draw: np.random.Generator) -> None:
    values, labels = clustered(draw, 30, 10, 1.0)
    same = bootstrap.paired_difference(values, values, labels)
    assert same.difference[:3] == (0, 0, 0)
    assert same.p_value == 1
    shifted = bootstrap.paired_difference(values + 1 + draw.normal(0, 0.5, 300), values, labels)
    assert shifted.difference.low < 1.1
    assert shifted.difference.high > 0.9
    assert shifted.p_value == pytest.approx(2 / 2001)  # no resample on the far side: 2 · (0 + 1) / (2000 + 1)


def test_p_value_where_no_resample_differs_is_of_all_flips_of_signs() -> None:
    # Of the 2^k ways to give k clusters signs, two are as extreme as all alike: 2 / 2^k.
    half = bootstrap.paired_difference([1, 1], [0.5, 0.5], ["a", "b"], limits=(-1, 1))
    assert (half.difference[:3], half.p_value) == ((0.5, 0.5, 0.5), 0.5)
    # Wilson's of two values, from −1 to 1: 1 − 2 · 3.8415 / 5.8415 = −0.3152, so zero is in it.
    whole = bootstrap.paired_difference([1, 1], [0, 0], ["a", "b"], limits=(-1, 1))
    assert whole.difference[:3] == pytest.approx((1, -0.3152, 1), abs=5e-5)
    assert whole.p_value == 0.5
    assert bootstrap.paired_difference([1] * 20, [0] * 20, list("abcdefghij") * 2).p_value == 2 / 2**10
    # Clusters that differ by nothing, though their pairs do; but for rounding, 0.1 + 0.2 − 0.3 is 5.6e-17.
    for values in ([1, -1, 1, -1], [0.3, -0.3, 0.3, -0.3]):
        assert bootstrap.paired_difference(values, [0] * 4, list("aabb")).p_value == 1
    assert bootstrap.paired_difference([0.1, 0.2, -0.3] * 2, [0] * 6, list("aaabbb")).p_value == 1


def test_paired_difference_of_one_cluster_is_not_known() -> None:
    for values in ([1], [1, 2, 3]):
        found = bootstrap.paired_difference(values, [0] * len(values), ["a"] * len(values), limits=(-3, 3))
        assert (found.difference.low, found.difference.high, found.p_value) == (-3, 3, 1)


def test_paired_p_value_is_near_students_on_single_item_clusters(draw: np.random.Generator) -> None:
    a = draw.normal(size=200)
    b = a + draw.normal(0.1, 1, 200)
    p = bootstrap.paired_difference(a, b, [str(i) for i in range(200)], resamples=20_000).p_value
    assert p == pytest.approx(bootstrap.paired_t_test(a, b).p_value, abs=0.02)


def test_paired_t_test_is_scipys_and_survives_equal_differences(draw: np.random.Generator) -> None:
    a, b = draw.normal(size=30), draw.normal(size=30)
    expected = stats.ttest_rel(a, b)
    assert bootstrap.paired_t_test(a, b) == pytest.approx((expected.statistic, expected.pvalue, 29))
    assert bootstrap.paired_t_test([1, 2], [1, 2]) == (0, 1, 1)
    assert bootstrap.paired_t_test([2, 3], [1, 2]) == (math.inf, 0, 1)
    with pytest.raises(ValueError, match="pairs"):
        bootstrap.paired_t_test([1], [1])
    with pytest.raises(ValueError, match="NaN"):
        bootstrap.paired_t_test([1, math.nan], [1, 2])

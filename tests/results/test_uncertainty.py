"""Intervals: variances worked out by hand, what never happens, and that they hold."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import optimize, stats

from fathom.results.metrics.correlation import correlate, correlate_within
from fathom.results.metrics.uncertainty import (
    ENOUGH,
    ONE_SEED,
    SETTLED,
    Interval,
    against,
    at_confidence,
    crossed,
    enough_clusters,
    interval,
    p_value_at,
    widened,
)
from tests.messages import mentioned

SHARE = (0.0, 1.0)
NORMAL = float(stats.norm.ppf(0.975))


def wilson(share: float, tosses: float, quantile: float) -> tuple[float, float]:
    """As in textbooks: the roots of (p − share)² = q² p (1 − p) / n."""
    a, b, c = 1 + quantile**2 / tosses, -(2 * share + quantile**2 / tosses), share**2
    return tuple(sorted(np.roots([a, b, c]).tolist()))


def test_clusters_of_equal_size_are_as_good_as_their_means():
    """Means 0, 0.5, 1 have variance 0.25, their mean 0.25 / 3; as 0.5 · 0.5 / (0.25 / 3) = 3 tosses. A third of 2
    degrees of freedom is less than 1. Without limits 0.5 ± 12.706 · √(0.25 / 3)."""
    values, clusters = [0, 0, 0, 1, 1, 1], ["a", "a", "b", "b", "c", "c"]
    free = interval(values, clusters)
    assert (free.estimate, free.units) == (0.5, 3)
    assert free.high - 0.5 == pytest.approx(12.7062047 * np.sqrt(0.25 / 3))
    assert interval(values, clusters, limits=SHARE)[1:3] == pytest.approx(wilson(0.5, 3, stats.t.ppf(0.975, 1)))
    assert mentioned(free.note, "3 clusters", "rough")


def test_clusters_of_unequal_size_by_hand():
    """a: 1 of 1, b: 0 of 2, c: 2 of 3. All: 1/2. Without a 2/5, without b 3/4, without c 1/3. Variance 2/3 · (1/100 +
    1/16 + 1/36); Kish's number of clusters 36 / (1 + 4 + 9), less one: 1.57, a third of which is less than 1 degree of
    freedom. Four times as many clusters are worth 4 · 36 / 14, and the third of 9.29 is 3.10."""
    values, labels = [1, 0, 0, 1, 1, 0], list("abbccc")
    found = interval(values, labels)
    error = np.sqrt(2 / 3 * (1 / 100 + 1 / 16 + 1 / 36))
    assert found.high - found.estimate == pytest.approx(stats.t.ppf(0.975, 1) * error)
    many = interval(values * 4, [f"{label}{copy}" for copy in range(4) for label in labels])
    assert many.degrees == pytest.approx((4 * 36 / 14 - 1) / 3)
    # Left out of 24 values: 11/23 without an a, 12/22 without a b, 10/21 without a c.
    squares = 4 * ((11 / 23 - 0.5) ** 2 + (12 / 22 - 0.5) ** 2 + (10 / 21 - 0.5) ** 2)
    error = np.sqrt(11 / 12 * squares)
    assert many.high - 0.5 == pytest.approx(stats.t.ppf(0.975, (4 * 36 / 14 - 1) / 3) * error)
    # Values drawn on their own keep all their degrees.
    assert interval(values).degrees == 5


def test_within_relations_only_the_spread_within_counts():
    """a: 1, 0 (variance 1/2), b: 0.2, 0.4, 0.6 (variance 0.04); shares of 2/5 and 3/5. Variance (2/5)² · 0.5 / 2 +
    (3/5)² · 0.04 / 3; degrees of freedom as Satterthwaite."""
    found = interval([1, 0, 0.2, 0.4, 0.6], within=list("aabbb"))
    parts = [0.16 * 0.25, 0.36 * 0.04 / 3]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 1 + parts[1] ** 2 / 2)
    assert found.estimate == pytest.approx(0.44)
    assert found.high - 0.44 == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(sum(parts)))
    assert found.units == 5


def test_relations_of_one_fact_are_one_group():
    """c, d and e with a value each: 0, 1, 1, variance 1/3 over 3 of 5; one alone joins the smallest of the others."""
    found = interval([0.5, 0.7, 0, 1, 1], within=list("aacde"))
    parts = (0.4**2 * 0.02 / 2, 0.6**2 * (1 / 3) / 3)
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 1 + parts[1] ** 2 / 2)
    assert found.high - found.estimate == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(sum(parts)))
    joined = interval([1, 0, 1, 0.5, 0.7, 0.3], within=list("aaabbc"))
    assert joined == interval([1, 0, 1, 0.5, 0.7, 0.3], within=list("aaabbb"))


def test_a_relation_without_spread_is_not_sure():
    """Twenty right of twenty and none of twenty: all forty have the variance 1/4, of which z² / (20 + z²) is left to
    each; half of either is in the mean. So is it of differences."""
    found = interval([1] * 20 + [0] * 20, within=[0] * 20 + [1] * 20, limits=SHARE)
    variance = 2 * 0.5**2 * (0.25 * NORMAL**2 / (20 + NORMAL**2)) / 20
    assert (found.low, found.high) == pytest.approx(wilson(0.5, 0.25 / variance, stats.t.ppf(0.975, 38)))
    assert found.note == ""
    apart = interval([1] * 20 + [0] * 20, within=[0] * 20 + [1] * 20)
    assert apart.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 38) * np.sqrt(variance))


def test_units_that_recur_in_groups_cap_the_degrees():
    """Two relations of the same six subjects, whose two values differ by 0.1.

    What a subject's values share is almost all of the variance. So the degrees of freedom are those of six subjects,
    less one, not the ten of twelve values within two relations.
    """
    once = np.array([2.0, -2.0, 2.0, -2.0, 2.0, -2.0])
    values = np.concatenate([once, once + np.array([0.1, 0.1, -0.1, -0.1, 0.1, -0.1])])
    relations, subjects = ["r"] * 6 + ["s"] * 6, list("uvwxyz") * 2
    found = interval(values, within=relations, also=subjects)
    # Without a value of six its relation's mean moves by (m − v) / 5, and that of both by half of it.
    moved = np.concatenate([half - half.mean() for half in (values[:6], values[6:])]) / 10
    own = 5 / 6 * (moved**2).sum()
    shared = 6 / 5 * 5 / 6 * ((moved[:6] + moved[6:]) ** 2).sum()
    assert shared > own
    assert found.error == pytest.approx(np.sqrt(shared))
    assert found.degrees == pytest.approx(5)
    assert found.units == 6
    # Four subjects of two values and one of four are worth 12² / (4 · 2² + 4²) = 4.5 equal subjects.
    labels = ["a", "b", "c", "d", "e", "e"]
    uneven = interval(values, within=relations, also=labels * 2)
    assert uneven.degrees == pytest.approx(144 / (4 * 4 + 16) - 1)
    # Where subjects share nothing, the variance is that of the values.
    apart = np.concatenate([once, -once])
    moved = np.concatenate([once, -once]) / 10
    assert interval(apart, within=relations, also=subjects).error == pytest.approx(np.sqrt(5 / 6 * (moved**2).sum()))


def test_one_thing_measured_several_times_is_one_value():
    """Each of twelve queries twice, by two models: the same as their means, each of which was drawn on its own."""
    random = np.random.default_rng(14)
    once, twice = random.random(12), np.repeat(np.arange(12), 2)
    values = np.repeat(once, 2) + np.tile([-0.1, 0.1], 12)
    alone, again = interval(once), interval(values, twice, single=True)
    assert again[:5] == pytest.approx(alone[:5])
    assert (again.degrees, again.note) == (pytest.approx(11), "")
    whole = interval(values, twice)
    assert (whole.error, whole.degrees) == (pytest.approx(alone.error), pytest.approx(11 / 3))
    assert mentioned(whole.note, "only 12 clusters", "rough")
    nine = interval(values[:18], twice[:18], single=True)
    assert mentioned(nine.note, "only 9 clusters", "rough")


def test_weights_count():
    """Weights 1 and 3 of two values: the mean 0.75; without either the other remains, so √(1/2 · (0.75² + 0.25²))."""
    found = interval([0, 1], weights=[1, 3])
    error = np.sqrt(0.5 * (0.75**2 + 0.25**2))
    assert found.estimate == 0.75
    assert found.high - 0.75 == pytest.approx(stats.t.ppf(0.975, 1.0) * error)


def test_a_function_of_means():
    """The ratio of means of (1, 2, 3) and (2, 2, 5): 2/3; without each in turn 5/7, 4/7 and 3/4."""
    found = interval([[1, 2, 3], [2, 2, 5]], fold=lambda one, other: one / other)
    without = np.array([5 / 7, 4 / 7, 3 / 4])
    error = np.sqrt(2 / 3 * ((without - 2 / 3) ** 2).sum())
    assert found.estimate == pytest.approx(2 / 3)
    assert found.high - 2 / 3 == pytest.approx(stats.t.ppf(0.975, 2) * error)


@pytest.mark.parametrize(("value", "ends"), [(0.0, (0, 0.3244)), (1.0, (0.6756, 1)), (0.5, (0.3378, 0.6622))])
def test_equal_values_say_no_more_than_wilson(value, ends):
    """z² / (8 + z²) = 0.3244 of others may lie elsewhere: eight hits at an even chance are no certainty."""
    found = interval([value] * 8, limits=SHARE)
    assert found[1:3] == pytest.approx(ends, abs=1e-4)
    assert (found.units, "all values are equal" in found.note) == (8, True)


def test_equal_values_of_unequal_clusters_are_worth_fewer():
    """Clusters of 1, 1 and 2 right values are worth 4² / (1 + 1 + 4) = 8/3."""
    found = interval([1] * 4, list("abcc"), limits=SHARE)
    assert (found.low, found.units) == (pytest.approx(1 - NORMAL**2 / (8 / 3 + NORMAL**2)), 3)


@pytest.mark.parametrize(("largest", "worth"), [(20, 5.6), (23, 4.8)])
def test_unequal_clusters_are_rough_below_five(largest, worth):
    """Thirty clusters, 29 of one value: 49² / (20² + 29) = 5.6 of equal size, or 52² / (23² + 29) = 4.8."""
    labels = ["large"] * largest + [f"{place}" for place in range(29)]
    note = interval([place % 2 for place in range(len(labels))], labels).note
    assert (largest + 29) ** 2 / (largest**2 + 29) == pytest.approx(worth, abs=0.05)
    assert mentioned(note, "worth 4.8", "rough") if worth < 5 else note == ""


@pytest.mark.parametrize("common", [0, 1])
def test_either_outcome_may_be_too_rare(common):
    """Of forty clusters of one value two differ from the others, fewer than ten."""
    note = interval([1 - common] * 2 + [common] * 38, list(range(40)), limits=SHARE).note
    assert mentioned(note, "too rare", "rough")


def test_clusters_worth_five_are_enough():
    """Nine of one value and one of six: 15² / (9 + 6²) = 5; with one of seven 16² / (9 + 7²) = 4.4."""
    assert [enough_clusters([0] * largest + list(range(1, 10))) for largest in (6, 7)] == [True, False]


def test_equal_values_without_limits_have_no_interval():
    found = interval([2.0, 2.0, 2.0])
    assert (found.low, found.high) == (None, None)
    assert mentioned(found.note, "all values are equal", "no interval")


def test_one_value_or_one_cluster_has_no_interval():
    assert interval([0.3], limits=SHARE)[:4] == (0.3, None, None, 1)
    assert interval([0, 1, 1], list("aaa"), limits=SHARE)[1:6] == (
        None,
        None,
        1,
        pytest.approx(np.nan, nan_ok=True),
        "of one value: no interval",
    )


def test_few_clusters_and_rare_outcomes_make_a_rough_interval():
    """Of 40 clusters of ten, four have hits: 10 of 10 twice, and 2 of 10 twice. Their shares 1, 0.2 and 36 zeros, mean
    0.06, have the variance (2 · 0.94² + 2 · 0.14² + 36 · 0.06²) / 39 / 40 = 0.00124: as 0.06 · 0.94 / 0.00124 = 45
    tosses, 2.7 of them hits."""
    rare, forty = ([1] * 10 + [1, 1] + [0] * 188) * 2, np.repeat(np.arange(40), 10)
    found = interval(rare, forty, limits=SHARE)
    assert mentioned(found.note, "too rare", "rough")
    even = [1, 0, 0, 0] * 100
    assert interval(even, forty, limits=SHARE).note == ""
    unlike = interval([1, 0, 0, 0] * 60, [0] * 120 + list(range(1, 41)) * 3, limits=SHARE)
    # 240² / (120² + 40 · 3²)
    assert mentioned(unlike.note, "worth 3.9", "rough")
    assert interval(rare, within=forty, limits=SHARE).note == ""


def test_the_interval_of_fewer_than_thirty_clusters_is_rough():
    """A tenth of so few relations are hardly any, which may differ much from the others."""
    for clusters, note in ((SETTLED - 1, f"only {SETTLED - 1} clusters: the interval is rough"), (SETTLED, "")):
        values, labels = ([1, 0, 0, 0, 1, 1, 0, 0] * clusters)[: 4 * clusters], np.repeat(np.arange(clusters), 4)
        assert interval(values, labels).note == note
        assert interval(values, labels, limits=(-1.0, 1.0)).note == note
        assert interval(values).note == ""


def test_ranks_are_taken_by_their_logarithm():
    """Mean 2, error 1: from 2 / e^t to 2 · e^t with t(1 degree) = 12.7 halves; cut at 1."""
    found = interval([1, 3], limits=(1.0, np.inf))
    assert (found.low, found.high) == (1.0, pytest.approx(2 * np.exp(stats.t.ppf(0.975, 1) / 2)))


def test_p_and_interval_agree():
    """The interval of a difference of shares leaves zero out just where p is below 0.05."""
    random = np.random.default_rng(0)
    for _ in range(300):
        a, b = (random.random((2, 30)) < random.random((2, 1))).astype(float)
        found = interval(a - b, random.integers(0, 12, 30), limits=(-1.0, 1.0))
        assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)


def test_without_clusters_a_difference_is_students_paired_test():
    random = np.random.default_rng(4)
    one, other = random.standard_normal((2, 30))
    found, theirs = interval(one - other), stats.ttest_rel(one, other)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval()))


def score(first: float, second: float, pairs: float, value: float) -> float:
    """Tango's z that a difference of paired shares is a value, by a search for the likeliest shares that differ by it.

    :param first: number of pairs in which the first alone is right; *second* likewise.
    """
    others = pairs - first - second

    def unlikeliness(share: float) -> float:
        """:param share: of pairs in which the second alone is right."""
        terms = ((first, share + value), (second, share), (others, 1 - 2 * share - value))
        return -sum(number * np.log(max(own, 1e-300)) for number, own in terms if number)

    ends = max(0.0, -value), (1 - value) / 2
    share = optimize.minimize_scalar(unlikeliness, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    return (first - second - pairs * value) / np.sqrt(pairs * (2 * share + value - value**2))


def paired(first: int, second: int, pairs: int) -> Interval:
    """Twice as many pairs with twice the variance, so that as many independent ones would have that variance."""
    values = np.repeat([1.0, -1.0, 0.0], [2 * first, 2 * second, 2 * (pairs - first - second)])
    variance = ((first + second) / pairs - ((first - second) / pairs) ** 2) / pairs
    return widened(interval(values, limits=(-1.0, 1.0)), np.sqrt(variance))


@pytest.mark.parametrize(("first", "second", "pairs"), [(12, 4, 50), (3, 0, 40), (0, 7, 60), (9, 9, 30), (40, 2, 45)])
def test_a_difference_of_paired_shares_has_tangos_interval(first, second, pairs):
    """The ends are where the score is Student's quantile, of the degrees of freedom of the values."""
    found, degrees = paired(first, second, pairs), 2 * pairs - 1
    quantile, estimate = stats.t.ppf(0.975, degrees), (first - second) / pairs
    expected = [
        optimize.brentq(lambda value: score(first, second, pairs, value) - quantile, -0.9999, estimate),
        optimize.brentq(lambda value: score(first, second, pairs, value) + quantile, estimate, 0.9999),
    ]
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-6)
    # At zero it is McNemar's.
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(first - second) / np.sqrt(first + second), degrees))
    for value in (-0.3, 0.05, 0.4):
        own = score(first, second, pairs, value)
        assert p_value_at(found, value) == pytest.approx(2 * stats.t.sf(abs(own), degrees), abs=1e-7)
        assert p_value_at(found, value, 1) == pytest.approx(stats.t.sf(own, degrees), abs=1e-7)
        assert p_value_at(found, value, -1) == pytest.approx(stats.t.cdf(own, degrees), abs=1e-7)


def test_values_drawn_on_their_own_are_one_pair_less():
    """The variance of 21 values, 12 of them 1 and 3 of them −1, is that of 20 independent pairs: b is 20 · 12 / 21."""
    found = interval([1] * 12 + [-1] * 3 + [0] * 6, limits=(-1.0, 1.0))
    first, second = 20 * 12 / 21, 20 * 3 / 21
    assert found.p_value == pytest.approx(2 * stats.t.sf((first - second) / np.sqrt(first + second), 20))
    assert score(first, second, 20, found.low) == pytest.approx(stats.t.ppf(0.975, 20), abs=1e-6)
    assert score(first, second, 20, found.high) == pytest.approx(-stats.t.ppf(0.975, 20), abs=1e-6)


def test_equal_differences_have_tangos_interval_too():
    """Without a pair that differs, the score of a value v is √(n v / (1 − v))."""
    for value in (0.0, 1.0):
        found = interval([value] * 40, limits=(-1.0, 1.0))
        far = found.low if value else found.high
        first = 40 * value
        assert abs(score(first, 0, 40, far)) == pytest.approx(NORMAL, abs=1e-5)
    # 300 facts on which two agree are equivalent within 2 points: (1 − 0.02)³⁰⁰ = 0.002 of two that differ so much.
    alike = interval([0.0] * 300, limits=(-1.0, 1.0))
    assert p_value_at(alike, 0.02, -1) == pytest.approx(stats.norm.sf(np.sqrt(300 * 0.02 / 0.98)))


def test_a_difference_that_may_leave_the_shares_is_not_tangos():
    """Values of more than 1 in absolute value are no differences of shares."""
    found = interval([2.0, -1.0, 0.5, 1.0], limits=(-2.0, 2.0))
    ends = wilson((found.estimate + 2) / 4, 0.65625 * 0.34375 * 16 / found.error**2, stats.t.ppf(0.975, 3))
    assert (found.low, found.high) == pytest.approx([4 * end - 2 for end in ends])


def tail(right: int, tosses: int, chance: float) -> float:
    """The probability of more right tosses, and half of that of as many (Lancaster's mid-p)."""
    return float(stats.binom.sf(right, tosses, chance) + stats.binom.pmf(right, tosses, chance) / 2)


@pytest.mark.parametrize(("right", "tosses", "value"), [(10, 50, 0.1), (2, 50, 0.1), (1, 20, 0.005), (58, 60, 0.9)])
def test_a_share_against_a_value_is_tested_by_its_tosses(right, tosses, value):
    """Twice as many values with the variance of *tosses* tosses; Student's degrees of freedom are those of the
    values."""
    values = [1.0] * (2 * right) + [0.0] * (2 * (tosses - right))
    share, degrees = right / tosses, 2 * tosses - 1
    number = widened(interval(values, limits=SHARE), np.sqrt(share * (1 - share) / tosses))
    found, z = against(number, value), stats.norm.isf(tail(right, tosses, value))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(z), degrees))
    assert p_value_at(found, 0.0, 1) == pytest.approx(stats.t.sf(z, degrees))
    assert found.estimate == pytest.approx(share - value)
    for end, level in ((found.low, 0.975), (found.high, 0.025)):
        assert tail(right, tosses, end + value) == pytest.approx(stats.norm.sf(stats.t.ppf(level, degrees)), abs=1e-7)
    wider = at_confidence(found, 0.99)
    assert wider[0] < found.low < found.high < wider[1]
    assert at_confidence(found, 0.95) == pytest.approx((found.low, found.high))


def test_a_mean_against_a_value_is_students_test():
    values = np.random.default_rng(8).standard_normal(25) + 0.3
    found, theirs = against(interval(values), 0.5), stats.ttest_1samp(values, 0.5)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert found.estimate == pytest.approx(values.mean() - 0.5)
    ends = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low - 0.5, ends.high - 0.5))


def test_a_correlation_against_a_value_is_fishers_test():
    random = np.random.default_rng(9)
    x = random.standard_normal(40)
    y = 0.5 * x + random.standard_normal(40)
    r, found = stats.pearsonr(x, y).statistic, against(correlate(x, y), 0.1)
    z = (np.arctanh(r) - np.arctanh(0.1)) * np.sqrt(37)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)))
    ends = np.tanh(np.arctanh(r) + np.array([-1, 1]) * NORMAL / np.sqrt(37)) - 0.1
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert at_confidence(found, 0.95) == pytest.approx(tuple(ends))


@pytest.mark.parametrize("value", [0.02, -0.3])
def test_a_tested_number_and_its_interval_agree(value):
    """The p value at either end is 0.05, for every kind of number."""
    random = np.random.default_rng(10)
    x, labels = random.standard_normal(60), np.arange(60) % 15
    hits = (random.random(60) < 0.3).astype(float)
    numbers = [
        *(interval(hits, own, limits=SHARE) for own in (None, labels)),
        *(interval(hits - (x > 0), own, limits=(-1.0, 1.0)) for own in (None, labels)),
        *(correlate(x, x + random.standard_normal(60), own) for own in (None, labels)),
        interval(np.exp(x) + 1, limits=(1.0, np.inf)),
        interval(x, labels),
    ]
    for number in numbers:
        found = against(number, value)
        assert p_value_at(found, found.low) == pytest.approx(0.05, abs=1e-6)
        assert p_value_at(found, found.high) == pytest.approx(0.05, abs=1e-6)
        assert p_value_at(found, 0.0) == pytest.approx(found.p_value)


def test_an_interval_that_does_not_bend_is_cut_at_its_limits():
    """A mean of 0.6 ± t · 0.3, of five values."""
    found = widened(interval([0.2, 0.4, 0.6, 0.8, 1.0], limits=(-1.0, 1.0)), 0.3, is_bent=False)
    half = stats.t.ppf(0.975, 4) * 0.3
    assert (found.low, found.high) == (pytest.approx(0.6 - half), 1.0)
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.6 / 0.3, 4))
    low, high = at_confidence(found, 0.5)
    assert (low, high) == pytest.approx((0.6 - stats.t.ppf(0.75, 4) * 0.3, 0.6 + stats.t.ppf(0.75, 4) * 0.3))


def test_a_number_without_an_interval_cannot_be_tested():
    found = against(interval([0.3], limits=SHARE), 0.1)
    assert found.estimate == pytest.approx(0.2)
    assert (found.low, found.high, np.isnan(found.p_value)) == (None, None, True)
    assert np.isnan(against(interval([2.0, 2.0]), 1.0).p_value)


def test_an_error_is_at_least_another():
    values = np.random.default_rng(11).standard_normal(20)
    found = interval(values)
    assert widened(found, found.error / 2) == found
    wider = widened(found, 2 * found.error)
    half = 2 * stats.t.ppf(0.975, 19) * found.error
    assert (wider.low, wider.high) == pytest.approx((found.estimate - half, found.estimate + half))
    assert wider.p_value == pytest.approx(2 * stats.t.sf(abs(found.estimate) / found.error / 2, 19))
    alone = interval([0.3], limits=SHARE)
    assert widened(alone, 1.0) == alone
    r = correlate(values, values + np.random.default_rng(12).standard_normal(20))
    wider = widened(r, 0.5)
    ends = np.tanh(np.arctanh(r.estimate) + np.array([-1, 1]) * NORMAL * 0.5)
    assert (wider.estimate, wider.low, wider.high) == pytest.approx((r.estimate, *ends))


def test_equal_differences_flip_signs():
    """Five items, all better by 1: two of 2⁵ patterns of signs are as extreme; no difference at all: p = 1. Of twenty
    the test of signs is less strict than McNemar's, whose z is √20."""
    assert interval([1] * 5, limits=(-1.0, 1.0)).p_value == 2 / 32
    assert interval([0] * 5, limits=(-1.0, 1.0)).p_value == 1.0
    assert interval([1] * 20, limits=(-1.0, 1.0)).p_value == pytest.approx(2 * stats.norm.sf(np.sqrt(20)))


def test_small_equal_differences_show_little():
    """Twenty times −0.05 are as much as one pair of twenty: McNemar's z is 1, and the interval contains zero."""
    found = interval([-0.05] * 20, limits=(-1.0, 1.0))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(1))
    assert found.low < -0.05 < 0 < found.high
    # The interval of a test against a margin agrees with that test.
    for value in (0.02, 0.05, 0.1, 0.15, 0.2):
        _, high = at_confidence(found, 0.9)
        assert (p_value_at(found, value, -1) < 0.05) == (high < value)


def test_two_ways_add_up():
    """Means of rows 0 and 1: variance 0.5 / 2; of columns 0.5 and 0.5: none; of each value for itself 1/3 / 4. Together
    0.25 + 0 − 1/12, less than the rows' own 0.25, so that; 0.25² / (0.25² / 1 + (1/12)² / 3) is below 1 degree of
    freedom."""
    values, rows, columns = [0, 0, 1, 1], list("aabb"), list("xyxy")
    both = interval(values, rows, also=columns)
    assert both.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 1) * 0.5)
    assert mentioned(both.note, "only 2", "second source", "rough")
    # Crossed seven by seven: the variances by hand, (6/7 · Σ of squares) each way and (48/49 · Σ) together; rows and
    # columns were drawn as a whole, so each way has a third of six degrees.
    rows, columns = np.repeat(np.arange(7), 7), np.tile(np.arange(7), 7)
    values = rows**2 + 3.0 * columns + (5 * rows + 3 * columns) % 4
    mean, total = values.mean(), values.sum()

    def squares(labels, each: int) -> float:
        return sum(((total - values[labels == one].sum()) / (49 - each) - mean) ** 2 for one in np.unique(labels))

    parts = [6 / 7 * squares(rows, 7), 6 / 7 * squares(columns, 7), 48 / 49 * squares(np.arange(49), 1)]
    together = parts[0] + parts[1] - parts[2]
    degrees = together**2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 2 + parts[2] ** 2 / 48)
    found = interval(values, rows, also=columns)
    assert found.high - mean == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(together))
    rows, columns = list("aabb"), list("xyxy")
    crossed = interval([0, 1, 1, 2], rows, also=columns)
    assert crossed.high - crossed.low > interval([0, 1, 1, 2], rows).high - interval([0, 1, 1, 2], rows).low


@pytest.mark.parametrize(("sources", "rough"), [("xy", True), ("xyz", False)])
def test_two_of_a_second_source_are_rough(sources, rough):
    labels = [sources[place % len(sources)] for place in range(12)]
    note = interval([place // 2 % 2 for place in range(12)], within=list("ab") * 6, also=labels).note
    assert mentioned(note, "only 2 of the second source") if rough else note == ""


def test_units_and_seeds_by_hand():
    """Three seeds, three units. Means of units 1, 1, 3: variance 4/3, their mean's 4/9; of seeds 1, 2, 2: 1/3 and 1/9.
    Of the sum of squares, 37 − 9 · (5/3)² = 12, units explain 3 · 24/9 and seeds 3 · 6/9; the other 2 have 4 degrees:
    ½, and ½ / 9 of the mean. Together 4/9 + 1/9 − 1/18 = ½; of seeds alone 1/9 − 1/18. With limits Wilson's."""
    values = [[0, 1, 2], [1, 1, 4], [2, 1, 3]]
    found = crossed(values)
    degrees = (1 / 2) ** 2 / ((4 / 9) ** 2 / 2 + (1 / 9) ** 2 / 2 + (1 / 18) ** 2 / 4)
    assert (found.estimate, found.units, found.note) == (pytest.approx(5 / 3), 3, "")
    assert found.error**2 == pytest.approx(1 / 2)
    assert found.degrees == pytest.approx(degrees)
    assert found.seed_error**2 == pytest.approx(1 / 18)
    assert found.high - 5 / 3 == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(1 / 2))
    assert found.p_value == pytest.approx(2 * stats.t.sf(5 / 3 / np.sqrt(1 / 2), degrees))
    share = 5 / 3 / 5
    ends = wilson(share, share * (1 - share) / (0.5 / 25), stats.t.ppf(0.975, degrees))
    assert crossed(values, limits=(0.0, 5.0))[1:3] == pytest.approx([5 * end for end in ends])


def test_two_seeds_have_one_degree_of_freedom():
    """Means of units ½, 1, 3 and of seeds 1, 2; the rest is 0, ½, −½ by one and 0, −½, ½ by the other, ½ / 6 of the
    mean: 7/12 + 3/12 − 1/12. Where two seeds are alike they say no less than one."""
    found = crossed([[0, 1, 2], [1, 1, 4]])
    assert (found.error**2, found.seed_error**2, found.degrees) == pytest.approx((3 / 4, 2 / 12, 1))
    assert mentioned(found.note, "2 seeds", "rough")
    assert crossed([[0, 1, 2]] * 2).degrees == crossed([[0, 1, 2]]).degrees == 2


def test_units_in_clusters_and_seeds_by_hand():
    """As above with each unit a cluster of two alike; and within relations a, b (deviations ±1 of a, ±2 of b, whatever
    the seed; means 1, 4 and 2, 5): V(units) ¼ · (2 / 2 + 8 / 2) and V(seeds) ½ / 2, nothing left over."""
    once, values = crossed([[0, 1, 2], [1, 1, 4]]), [[0, 0, 1, 1, 2, 2], [1, 1, 1, 1, 4, 4]]
    twice = crossed(values, list("aabbcc"))
    assert twice[:4] == pytest.approx(once[:4])
    assert (twice.error, twice.seed_error) == pytest.approx((once.error, once.seed_error))
    assert mentioned(twice.note, "2 seeds", "3 clusters", "rough")
    within = crossed([[0, 2, 2, 6], [1, 3, 3, 7]], within=list("aabb"))
    assert within.error**2 - within.seed_error**2 == pytest.approx(0.25 * (2 / 2 + 8 / 2))
    assert within.seed_error**2 == pytest.approx(0.25)


def test_seeds_that_are_alike_leave_the_facts():
    """Three seeds that say the same are no more sure of the facts than one, and add nothing."""
    values = [0, 1, 1, 0, 1]
    one, three = (crossed([values] * seeds, limits=(-1.0, 1.0)) for seeds in (1, 3))
    assert one[:6] == (*interval(values, limits=(-1.0, 1.0))[:5], ONE_SEED)
    assert np.isnan(one.seed_error)
    assert three[:6] == (*one[:5], "")
    assert (three.error, three.degrees, three.seed_error) == (one.error, one.degrees, 0.0)
    nothing = crossed(np.zeros((3, 40)), limits=(-1.0, 1.0))
    assert nothing[:6] == interval(np.zeros(40), limits=(-1.0, 1.0))[:6]
    assert (nothing.p_value, nothing.seed_error) == (1.0, 0.0)


def test_a_table_that_only_its_rest_tells():
    """Means of units and of seeds are all ½: the rest, ±½ in each of four cells, is what the mean is unsure by."""
    found = crossed([[0, 1], [1, 0]])
    assert found.error**2 == pytest.approx(1 / 4)
    assert crossed([[0.0], [1.0]]).low is None
    with pytest.raises(ValueError, match="NaN"):
        crossed([[0.0, 1.0], [np.nan, 1.0]])


def test_order_does_not_matter():
    random = np.random.default_rng(1)
    values, clusters = random.random(50), random.integers(0, 12, 50)
    order = random.permutation(50)
    for how in ({}, {"clusters": clusters}, {"within": clusters}):
        moved = {name: labels[order] for name, labels in how.items()}
        assert interval(values[order], limits=SHARE, **moved)[:4] == pytest.approx(
            interval(values, limits=SHARE, **how)[:4]
        )


def test_nothing_leaves_its_limits():
    random = np.random.default_rng(2)
    for _ in range(300):
        size = int(random.integers(2, 40))
        values = random.choice([0, 0.5, 1], size, p=random.dirichlet([0.3, 0.3, 0.3]))
        labels = random.integers(0, random.integers(1, 20), size)
        for how in ({}, {"clusters": labels}, {"within": labels}):
            found = interval(values, limits=SHARE, **how)
            assert found.low is None or 0 <= found.low <= found.estimate <= found.high <= 1
            several = crossed([values, random.permutation(values), values], limits=SHARE, **how)
            assert several.low is None or 0 <= several.low <= several.estimate <= several.high <= 1
            assert not several.seed_error > several.error


@pytest.mark.parametrize(
    ("values", "labels", "words"),
    [([], None, "at least one value"), ([1, np.nan], None, "NaN"), ([1, 0], ["a"], "equal lengths")],
)
def test_what_cannot_have_an_interval(values, labels, words):
    with pytest.raises(ValueError, match=words):
        interval(values, labels)


def test_correlations_know_their_clusters():
    """Ten copies of the same twelve pairs tell no more than the twelve: clustered by pair the interval stays as wide,
    each pair for itself it shrinks by about √10."""
    random = np.random.default_rng(3)
    x = random.standard_normal(12)
    y = x + random.standard_normal(12)
    once = correlate(x, y, clusters=np.arange(12))
    copies = [np.tile(side, 10) for side in (x, y)]
    kept = correlate(*copies, clusters=np.tile(np.arange(12), 10))
    assert kept.estimate == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (kept.low, kept.high) == pytest.approx((once.low, once.high))
    alone = correlate(*copies)
    assert (alone.high - alone.low) * 2.5 < once.high - once.low
    assert kept.units >= ENOUGH


def test_pairs_drawn_for_themselves_have_the_textbooks_interval():
    """x = 1, 2, 3, y = 1, 3, 2: 1 / √(2 · 2) = 0.5, without interval and test. Of 12 pairs z ± 1.96 / √9."""
    three = correlate([1, 2, 3], [1, 3, 2])
    assert three[:4] == (pytest.approx(0.5), None, None, 3)
    assert np.isnan(three.p_value)
    assert mentioned(three.note, "three points", "no interval")
    random = np.random.default_rng(3)
    x = random.standard_normal(12)
    y = x + random.standard_normal(12)
    found = correlate(x, y)
    ends = [float(np.tanh(np.arctanh(found.estimate) + sign * NORMAL / 3)) for sign in (-1, 1)]
    assert [found.low, found.high] == pytest.approx(ends)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(np.arctanh(found.estimate) * 3))  # of the same z


def z_of(x, y, weights) -> float:
    """Fisher's z of a weighted correlation."""
    covariance = np.cov(x, y, aweights=weights, ddof=0)
    return float(np.arctanh(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])))


def test_correlations_at_another_confidence():
    """Fisher's z ± 2.5758 / √(n − 3) for 99 %, as scipy has it; with clusters the interval nests the usual one."""
    random = np.random.default_rng(3)
    x = random.standard_normal(30)
    y = 0.4 * x + random.standard_normal(30)
    expected = stats.pearsonr(x, y).confidence_interval(0.99)
    assert at_confidence(correlate(x, y), 0.99) == pytest.approx((expected.low, expected.high))
    for ways in ({"clusters": np.arange(30) // 2}, {"within": np.arange(30) // 15}):
        found = correlate(x, y, **ways)
        assert at_confidence(found, 0.95) == pytest.approx((found.low, found.high))
        low, high = at_confidence(found, 0.99)
        assert -1 < low < found.low < found.high < high < 1


def test_the_jackknife_of_correlations_between_clusters():
    """Each cluster left out in turn, r computed anew by numpy: √(11/12 · Σ (z₍g₎ − z)²), with a third
    of 11 degrees of freedom."""
    random = np.random.default_rng(5)
    labels = np.repeat(np.arange(12), 4)
    x = random.standard_normal(48) + 3
    y = 0.5 * x + random.standard_normal(48)
    found = correlate(x, y, clusters=labels)
    z = [z_of(x[labels != left], y[labels != left], None) for left in range(12)]
    error = np.sqrt(11 / 12 * ((np.array(z) - z_of(x, y, None)) ** 2).sum())
    ends = np.tanh(z_of(x, y, None) + np.array([-1, 1]) * stats.t.ppf(0.975, 11 / 3) * error)
    assert [found.low, found.high] == pytest.approx(ends.tolist())


def test_the_jackknife_of_correlations_within_relations():
    """Each pair left out in turn, the others of its relation taking its weight."""
    random = np.random.default_rng(6)
    labels = np.repeat([0, 1], [9, 6])
    x = random.standard_normal(15) + 2 * labels
    y = x + random.standard_normal(15)
    z = np.array([z_of(x, y, [_left(labels, at, other) for other in range(15)]) for at in range(15)])
    own = [np.var(z[labels == group]) * (labels == group).sum() for group in (0, 1)]
    parts = [part * (count - 1) / count for part, count in zip(own, (9, 6), strict=True)]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 8 + parts[1] ** 2 / 5)
    half = stats.t.ppf(0.975, degrees) * np.sqrt(sum(parts))
    found = correlate(x, y, within=labels)
    ends = np.tanh(z_of(x, y, None) + np.array([-half, half]))
    assert [found.low, found.high] == pytest.approx(ends.tolist())


def _left(labels, left: int, other: int) -> float:
    """Weight of *other* where *left* is out."""
    if labels[left] != labels[other]:
        return 1.0
    count = (labels == labels[left]).sum()
    return 0.0 if left == other else count / (count - 1)


def test_a_correlation_within_groups_is_of_what_is_above_their_means():
    random = np.random.default_rng(13)
    group = np.repeat(np.arange(3), 20)
    x, y = random.standard_normal(60) + 5 * group, random.standard_normal(60) - 5 * group
    y += 0.5 * x
    centred = [side - np.array([side[group == own].mean() for own in range(3)])[group] for side in (x, y)]
    found = correlate_within(x, y, group, within=group)
    assert found.estimate == pytest.approx(stats.pearsonr(*centred).statistic)
    assert found.estimate > 0.2 > stats.pearsonr(x, y).statistic


def test_the_error_within_groups_is_at_least_that_over_permutations():
    """All 3! · 4! orders of the second side within groups of three and four, in most of which r is close to zero: the
    first side has one high value, so that without it there is no spread to see."""
    group, x = list("aaabbbb"), np.array([1.0, 1.1, 1.0, 2.0, 2.0, 9.0, 2.1])
    y = np.array([3.0, 2.0, 4.0, 1.0, 3.0, 4.0, 2.0])
    found = correlate_within(x, y, group, within=group)
    first, second = (side - np.repeat([side[:3].mean(), side[3:].mean()], [3, 4]) for side in (x, y))
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    every = [
        first @ np.concatenate([one, other]) / scale
        for one in permutations(second[:3])
        for other in permutations(second[3:])
    ]
    r = first @ second / scale
    plain = correlate(first, second, within=group)
    assert found.estimate == pytest.approx(r)
    # On the scale of z, so that z / error is r / its standard deviation over permutations.
    error = np.std(every) * np.arctanh(r) / r
    assert plain.error < error
    assert found.error == pytest.approx(error)
    ends = np.tanh(np.arctanh(r) + np.array([-1, 1]) * stats.t.ppf(0.975, plain.degrees) * error)
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(r) / np.std(every), plain.degrees))


def test_skewed_pairs_within_groups_are_not_correlated():
    """Three groups of ten, lognormal on both sides: at most one case of twenty, and 3 standard errors of 400 draws."""
    group = np.repeat(np.arange(3), 10)

    def p_value(random: np.random.Generator) -> float:
        x, y = np.exp(1.5 * random.standard_normal((2, 30)))
        return correlate_within(x, y, group, within=group).p_value

    found = np.mean([p_value(np.random.default_rng(seed)) < 0.05 for seed in range(400)])
    assert found <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_a_perfect_correlation_has_no_spread():
    for sign in (1, -1):
        found = correlate([1, 2, 3, 4, 5, 6], [sign * x for x in (1, 2, 3, 4, 5, 6)], clusters=list("aabbcc"))
        assert (found.estimate, found.low, found.high) == (pytest.approx(sign), None, None)
        assert np.isfinite(found.estimate)
        each = correlate([1, 2, 3, 4, 5], [sign * x for x in (1, 2, 3, 4, 5)])
        assert each[:3] == pytest.approx((sign, sign, sign))
        assert np.isfinite(each.spread.estimate)


def test_a_side_that_varies_by_one_value_alone_has_no_interval():
    found = correlate([1, 1, 1, 2], [1, 2, 3, 5], within=list("rrrr"))
    assert found.estimate == pytest.approx(stats.pearsonr([1, 1, 1, 2], [1, 2, 3, 5]).statistic)
    assert found.low is None
    assert "undefined" in found.note


def test_correlations_of_too_little():
    assert np.isnan(correlate([1, 1, 1, 1], [1, 2, 3, 4]).estimate)


def covered(draw, truth: float, replicates: int = 400) -> float:
    found: list[Interval] = [draw(np.random.default_rng(seed)) for seed in range(replicates)]
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def test_they_hold():
    """95 % ± 3 standard errors of 400 draws (``benchmarks/claims.py`` draws the whole table)."""

    def clustered(random: np.random.Generator) -> Interval:
        rates = random.beta(0.3 * 9, 0.7 * 9, 13)
        labels = np.repeat(np.arange(13), 8)
        return interval(random.random(104) < rates[labels], labels, limits=SHARE)

    def within(random: np.random.Generator) -> Interval:
        labels = np.repeat([0, 1], [40, 20])
        return interval(random.random(60) < np.array([0.9, 0.2])[labels], within=labels, limits=SHARE)

    assert 0.917 <= covered(clustered, 0.3) <= 0.983
    assert 0.917 <= covered(within, (0.9 * 40 + 0.2 * 20) / 60) <= 0.983


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize("relations", [5, 13])
def test_seeds_of_one_model_do_not_differ(relations, noise):
    """Two models that know as much, of 130 facts, three trainings each: a difference is found in one case of twenty
    (5 % + 3 standard errors of 400 draws), with noise of training or without; by facts alone twice as often or more."""

    def drawn(random: np.random.Generator) -> tuple[Interval, Interval]:
        labels = np.arange(130) % relations
        fact, own = (
            random.normal(size=130) + random.normal(0, 0.5, relations)[labels],
            random.normal(0, 0.3, (2, 1, 130)),
        )
        training = random.normal(0, noise, (2, 3, 1)) + random.normal(0, 0.5, (2, 3, 130))
        first, second = fact + own + training > 0.4
        how = {"clusters": labels} if relations >= ENOUGH else {"within": labels}
        apart = first.astype(float) - second
        return crossed(apart, **how, limits=(-1.0, 1.0)), interval(apart.mean(axis=0), **how, limits=(-1.0, 1.0))

    found = [drawn(np.random.default_rng(seed)) for seed in range(400)]
    both, by_facts = (np.mean([pair[place].p_value < 0.05 for pair in found]) for place in (0, 1))
    assert both <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert noise == 0 or by_facts > 0.1

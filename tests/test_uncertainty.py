"""Intervals: variances worked out by hand, what never happens, and that they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fathom.metrics.correlation import correlate
from fathom.metrics.uncertainty import ENOUGH, ONE_SEED, Interval, at_confidence, crossed, interval
from tests.messages import mentioned

SHARE = (0.0, 1.0)
NORMAL = float(stats.norm.ppf(0.975))


def wilson(share: float, tosses: float, quantile: float) -> tuple[float, float]:
    """As in textbooks: the roots of (p − share)² = q² p (1 − p) / n."""
    a, b, c = 1 + quantile**2 / tosses, -(2 * share + quantile**2 / tosses), share**2
    return tuple(sorted(np.roots([a, b, c]).tolist()))


def test_clusters_of_equal_size_are_as_good_as_their_means():
    """Means 0, 0.5, 1 have variance 0.25, their mean 0.25 / 3; as 0.5 · 0.5 / (0.25 / 3) = 3 tosses, and 2 degrees of
    freedom. Without limits 0.5 ± 4.3027 · √(0.25 / 3)."""
    values, clusters = [0, 0, 0, 1, 1, 1], ["a", "a", "b", "b", "c", "c"]
    free = interval(values, clusters)
    assert (free.estimate, free.units) == (0.5, 3)
    assert free.high - 0.5 == pytest.approx(4.302653 * np.sqrt(0.25 / 3), rel=1e-6)
    assert interval(values, clusters, limits=SHARE)[1:3] == pytest.approx(wilson(0.5, 3, stats.t.ppf(0.975, 2)))
    assert mentioned(free.note, "3 clusters", "rough")


def test_clusters_of_unequal_size_by_hand():
    """a: 1 of 1, b: 0 of 2, c: 2 of 3. All: 1/2. Without a 2/5, without b 3/4, without c 1/3. Variance 2/3 · (1/100 +
    1/16 + 1/36); Kish's number of clusters 36 / (1 + 4 + 9), less one: degrees of freedom."""
    found = interval([1, 0, 0, 1, 1, 0], list("abbccc"))
    error = np.sqrt(2 / 3 * (1 / 100 + 1 / 16 + 1 / 36))
    assert found.high - found.estimate == pytest.approx(stats.t.ppf(0.975, 36 / 14 - 1) * error)


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
    assert (found.units, "no value differs" in found.note) == (8, True)


def test_equal_values_without_limits_have_no_interval():
    found = interval([2.0, 2.0, 2.0])
    assert (found.low, found.high) == (None, None)
    assert mentioned(found.note, "no value differs", "no interval")


def test_one_value_or_one_cluster_has_no_interval():
    assert interval([0.3], limits=SHARE)[:4] == (0.3, None, None, 1)
    assert interval([0, 1, 1], list("aaa"), limits=SHARE)[1:6] == (
        None,
        None,
        1,
        pytest.approx(np.nan, nan_ok=True),
        "of one value: no interval",
    )


def test_few_clusters_and_rare_outcomes_are_said_to_be_rough():
    """Of 20 clusters of ten, two have hits: 10 of 10 and 2 of 10. Their shares 1, 0.2 and 18 zeros, mean 0.06, have the
    variance (0.94² + 0.14² + 18 · 0.06²) / 19 / 20 = 0.00255: as 0.06 · 0.94 / 0.00255 = 22 tosses, 1.3 of them hits.
    """
    rare = [1] * 10 + [1, 1] + [0] * 188
    found = interval(rare, np.repeat(np.arange(20), 10), limits=SHARE)
    assert mentioned(found.note, "too rare", "rough")
    spread = interval([1, 0, 0, 0] * 50, np.repeat(np.arange(20), 10), limits=SHARE)
    assert spread.note == ""
    unlike = interval([1, 0, 0, 0] * 50, [0] * 120 + list(range(1, 21)) * 4, limits=SHARE)
    # 200² / (120² + 20 · 4²)
    assert mentioned(unlike.note, "worth 2.7", "rough")
    assert interval(rare, within=np.repeat(np.arange(20), 10), limits=SHARE).note == ""


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


def test_equal_differences_flip_signs():
    """Five items, all better by 1: two of 2⁵ patterns of signs are as extreme; no difference at all: p = 1."""
    assert interval([1] * 5, limits=(-1.0, 1.0)).p_value == 2 / 32
    assert interval([0] * 5, limits=(-1.0, 1.0)).p_value == 1.0


def test_two_ways_add_up():
    """Means of rows 0 and 1: variance 0.5 / 2; of columns 0.5 and 0.5: none; of each value for itself 1/3 / 4. Together
    0.25 + 0 − 1/12, less than the rows' own 0.25, so that; 0.25² / (0.25² / 1 + (1/12)² / 3) degrees of freedom."""
    values, rows, columns = [0, 0, 1, 1], list("aabb"), list("xyxy")
    both = interval(values, rows, also=columns)
    degrees = 0.25**2 / (0.25**2 + (1 / 12) ** 2 / 3)
    assert both.high - 0.5 == pytest.approx(stats.t.ppf(0.975, max(1.0, degrees)) * 0.5)
    assert mentioned(both.note, "only 2", "second source", "rough")
    # Nine of a crossed three by three: the variances by hand, (2/3 · Σ of squares) each way and (8/9 · Σ) together.
    values = np.array([0.0, 1.0, 2.0, 1.0, 2.0, 4.0, 3.0, 5.0, 4.0])
    rows, columns = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
    mean, total = values.mean(), values.sum()

    def squares(labels, each: int) -> float:
        return sum(((total - values[labels == one].sum()) / (9 - each) - mean) ** 2 for one in np.unique(labels))

    parts = [2 / 3 * squares(rows, 3), 2 / 3 * squares(columns, 3), 8 / 9 * squares(np.arange(9), 1)]
    together = parts[0] + parts[1] - parts[2]
    degrees = together**2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 2 + parts[2] ** 2 / 8)
    found = interval(values, rows, also=columns)
    assert found.high - mean == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(together))
    rows, columns = list("aabb"), list("xyxy")
    crossed = interval([0, 1, 1, 2], rows, also=columns)
    assert crossed.high - crossed.low > interval([0, 1, 1, 2], rows).high - interval([0, 1, 1, 2], rows).low


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
    """Each cluster left out in turn, r computed anew by numpy: √(11/12 · Σ (z₍g₎ − z)²)."""
    random = np.random.default_rng(5)
    labels = np.repeat(np.arange(12), 4)
    x = random.standard_normal(48) + 3
    y = 0.5 * x + random.standard_normal(48)
    found = correlate(x, y, clusters=labels)
    z = [z_of(x[labels != left], y[labels != left], None) for left in range(12)]
    error = np.sqrt(11 / 12 * ((np.array(z) - z_of(x, y, None)) ** 2).sum())
    ends = np.tanh(z_of(x, y, None) + np.array([-1, 1]) * stats.t.ppf(0.975, 11) * error)
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
    """95 % ± 3 standard errors of 400 draws (``benchmarks/coverage.py`` draws the whole table)."""

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
    (5 % + 3 standard errors of 400 draws), with noise of training or without; by facts alone far more often."""

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
    assert noise == 0 or by_facts > 0.15

"""McNemar, Holm and the smallest difference against scipy's and statsmodels', and by hand."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from fathom.results.metrics.correlation import correlate
from fathom.results.metrics.significance import (
    holm,
    permutation_test,
    smallest_difference,
    smallest_effect,
    smallest_unseen,
)
from fathom.results.metrics.uncertainty import interval


def test_holm_by_hand():
    """0.005 · 4; 0.01 · 3; 0.03 · 2; 0.04 · 1 is less than the 0.06 before it, and takes that."""
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1, 1]
    assert holm([]).tolist() == []


def test_permutations_of_four_units_by_hand():
    """Values 1, 1, 0, 0, the first two of one group: of six ways to choose two, two differ as much. p = 2/6. The other
    four do not differ: the deviation is √(2/6)."""
    found = permutation_test(np.array([1.0, 1, 0, 0]), np.array([1.0, 1, 0, 0]), ["r"] * 4, list("abcd"))
    assert found.p_value == pytest.approx(1 / 3, abs=0.03)
    assert found.deviation == pytest.approx(math.sqrt(1 / 3), rel=0.05)


def test_the_deviation_over_permutations_is_that_of_sampling_without_replacement():
    """Of means of n₁ and n₀ of the same values: s · √(1/n₁ + 1/n₀). Two strata add up with their weights squared."""
    random = np.random.default_rng(0)
    values, first = random.lognormal(size=40), np.arange(40) < 8
    found = permutation_test(values, first.astype(float), ["r"] * 40, range(40))
    assert found.deviation == pytest.approx(np.std(values, ddof=1) * math.sqrt(1 / 8 + 1 / 32), rel=0.06)
    first, strata = np.arange(40) % 4 == 0, np.repeat(["r", "s"], [12, 28])
    weights, deviations = [], []
    for stratum in "rs":
        own, ones = values[strata == stratum], int(first[strata == stratum].sum())
        zeros = len(own) - ones
        weights.append(ones * zeros / len(own))
        deviations.append(np.std(own, ddof=1) * math.sqrt(1 / ones + 1 / zeros))
    expected = math.hypot(*np.array(weights) / sum(weights) * deviations)
    found = permutation_test(values, first.astype(float), strata, range(40))
    assert found.deviation == pytest.approx(expected, rel=0.06)


def test_permutations_are_the_exact_test_of_two_by_two():
    """Of one stratum with values 0 and 1 it is Fisher's exact test, but that tails are by the difference."""
    values = np.array([1.0] * 6 + [0] * 2 + [1] * 2 + [0] * 6)
    first = np.array([1.0] * 8 + [0] * 8)
    theirs = stats.fisher_exact([[6, 2], [2, 6]]).pvalue
    found = permutation_test(values, first, ["r"] * 16, list(range(16))).p_value
    assert found == pytest.approx(theirs, abs=0.02)


def test_whole_units_change_groups_within_their_strata():
    """Two subjects with forty facts each are two units: in either group, nothing can be shown."""
    values, first = np.repeat([1.0, 0.0], 40), np.repeat([1.0, 0.0], 40)
    assert permutation_test(values, first, ["r"] * 80, np.repeat(["a", "b"], 40)).p_value == 1
    assert permutation_test(values, first, ["r"] * 80, list(range(80))).p_value < 0.001
    # Units of different relations never change places: each stratum has one group, and the statistic is 0.
    assert permutation_test(values, first, np.repeat(["r", "s"], 40), list(range(80))) == (1, 0)


def test_holm_is_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    random = np.random.default_rng(0)
    for count in (1, 2, 7, 190):
        p = random.random(count) ** 4
        assert holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1])


def test_smallest_difference_is_statsmodels():
    power = pytest.importorskip("statsmodels.stats.power", reason="needs statsmodels")
    for n in (2, 5, 10, 30, 200):
        theirs = power.TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
        assert smallest_difference(1 / math.sqrt(n), n - 1) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("degrees", [3, 9.5, 29, 240])
def test_smallest_difference_has_the_power(degrees):
    shift = smallest_difference(1, degrees)
    critical = stats.t.ppf(0.975, degrees)
    found = stats.nct.sf(critical, degrees, shift) + stats.nct.cdf(-critical, degrees, shift)
    assert found == pytest.approx(0.8, abs=1e-6)


def test_smallest_difference_where_no_fact_differs_is_by_a_sign_test():
    # Five facts on one side have p = 2 / 32 = 0.0625, six have 2 / 64 = 0.03125: at 5 % it takes six.
    assert np.isnan(smallest_unseen(5))
    assert smallest_unseen(6) == pytest.approx(0.8 ** (1 / 6))  # all six must be such facts
    # Poisson: e^-m (1 + m + … + m^5 / 120) = 0.2 at m = 7.906
    assert smallest_unseen(10**6) * 10**6 == pytest.approx(7.906, abs=0.001)
    drawn = np.random.default_rng(0).binomial(200, smallest_unseen(200), 20_000)
    assert np.mean([2.0 ** (1 - int(only)) < 0.05 for only in drawn]) == pytest.approx(0.8, abs=0.01)


def test_smallest_difference_with_many_degrees_is_the_normals():
    """1.96 + 0.84 standard errors."""
    normal = NormalDist()
    assert smallest_difference(0.01, 1e6) == pytest.approx(
        0.01 * (normal.inv_cdf(0.975) + normal.inv_cdf(0.8)), abs=1e-6
    )
    assert smallest_difference(0.01, 1e4 - 1) == pytest.approx(smallest_difference(0.01, 1e4 + 1), rel=1e-4)
    assert np.isnan(smallest_difference(float("nan"), 5))
    assert np.isnan(smallest_difference(1.0, float("nan")))


def test_the_error_is_that_of_the_interval():
    """Differences 1, 0, 0, 0 of four facts: variance 1/4, error √(1/4 / 4) = 1/4, three degrees of freedom. Where none
    differs there is no error."""
    found = interval([1, 0, 0, 0])
    assert (found.error, found.degrees) == (pytest.approx(0.25), pytest.approx(3))
    assert np.isnan(interval([0, 0], limits=(-1, 1)).error)


def test_the_smallest_effect_is_in_the_unit_of_the_number():
    """Of a correlation of 40 pairs 2.80 standard errors of z, 1 / √37, as r."""
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 40))
    normal = NormalDist()
    shift = normal.inv_cdf(0.975) + normal.inv_cdf(0.8)
    assert smallest_effect(correlate(x, y)) == pytest.approx(math.tanh(shift / math.sqrt(37)), abs=1e-5)
    number = interval(x)
    assert smallest_effect(number) == pytest.approx(smallest_difference(number.error, 39))
    assert smallest_effect(number, level=0.01) == pytest.approx(smallest_difference(number.error, 39, level=0.01))
    assert np.isnan(smallest_effect(interval([0, 0], limits=(-1, 1))))
    assert np.isnan(smallest_effect(interval([0.5])))


def test_both_tails_count_for_the_power():
    """A true difference of one error is significant with P(Z > 1.96 − 1) + P(Z < −1.96 − 1) = 0.170."""
    critical = stats.norm.ppf(0.975)
    power = stats.norm.sf(critical - 1) + stats.norm.cdf(-critical - 1)
    assert smallest_difference(1.0, 1e6, power) == pytest.approx(1, abs=1e-4)

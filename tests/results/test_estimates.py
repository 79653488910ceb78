"""Estimates and claims at their boundaries: margins, sizes that no test finds, and the ends of two folds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fathom.results import estimates
from fathom.results.checking import _plan, detectable, detectable_with_seeds
from fathom.results.claims import UNDECIDED, UNDETERMINED, WORSE, Claim, Contrast, decide
from fathom.results.estimates import Noise
from fathom.results.metrics.significance import smallest_difference
from fathom.results.metrics.uncertainty import Floats
from fathom.results.samples import Sample


@pytest.mark.parametrize(("quantile", "word"), [(1.9, WORSE), (1.6, UNDECIDED)])
def test_worse_than_a_margin_is_tested_on_one_side(quantile: float, word: str) -> None:
    """Ten of twenty differences are 1: the error is √(1/4 · 20/19 / 20). One-sided, t = 1.73 of 19 degrees is needed.

    1.9 errors are enough, although fewer than the 2.09 of a two-sided test.
    """
    limits = (-np.inf, np.inf)
    number = estimates.difference([1.0] * 10 + [0.0] * 10, [0.0] * 20, Sample("fact"), "x", limits)
    margin = 0.5 - quantile * float(np.sqrt(0.25 / 19))
    assert 1.6 < stats.t.ppf(0.95, 19) < 1.9 < stats.t.ppf(0.975, 19)
    by_margin = decide({"": Claim("", (Contrast("a", number),), margin)})[""].by_margin
    assert by_margin is not None
    assert by_margin.word == word


def test_a_difference_that_no_two_shares_have_is_not_stated() -> None:
    """Three of six signs each way: the error is √(6/5 / 6), and 1.49 would be found, more than any difference."""
    first = np.array([1.0, 0.0] * 3)
    number = estimates.difference(first, 1 - first, Sample("fact"), "x")
    assert 1 < smallest_difference(float(np.sqrt(0.2)), 5) < 2
    assert number.smallest is None


def test_the_interval_of_two_folds_has_the_lower_of_their_low_ends() -> None:
    """Ten of twenty are 1: 1/2 ± t √(1/4 / 19), and 0.1 or −0.1 more by the second fold."""
    values = [np.array([1.0] * 10 + [0.0] * 10)]
    half = stats.t.ppf(0.975, 19) * np.sqrt(0.25 / 19)

    def upper(mean: Floats, errors: Floats) -> Floats:
        return mean

    for shift, low in ((0.1, 0.5 - half), (-0.1, 0.4 - half)):

        def lower(mean: Floats, errors: Floats, shift: float = shift) -> Floats:
            return mean + shift

        found = estimates.between_folds(values, Sample("fact"), (upper, lower))
        assert (found.estimate, found.low, found.high) == pytest.approx((0.5, low, 0.5 + half))


def test_the_noise_of_facts_and_of_seeds_by_hand() -> None:
    """Means of facts 1, 1, 3: variance 4/9 of the mean; of seeds 1, 2, 2: 1/9; the rest 1/18. Together 1/2.

    Of it 1/9 − 1/18 is due to seeds alone, and what remains to facts.
    """
    values = np.array([[0.0, 1, 2], [1, 1, 4], [2, 1, 3]])
    number, noise = estimates.over_seeds(values, Sample("query"), "x", (0.0, 5.0))
    assert (number.value, number.sample) == (pytest.approx(5 / 3), "query and seed")
    assert (noise.seeds, noise.facts, noise.training) == (
        3,
        pytest.approx(np.sqrt(4 / 9)),
        pytest.approx(np.sqrt(1 / 18)),
    )


def test_a_small_pilot_plans_by_its_own_degrees() -> None:
    """Three of seven: the variance 12/49 / 6, whose quantile of the power is Student's of 6 degrees of freedom."""
    limits = (-np.inf, np.inf)
    pilot = estimates.difference([1.0] * 3 + [0.0] * 4, [0.0] * 7, Sample("fact"), "x", limits)
    plan = detectable("a", "b", pilot, 0.1)

    def detects(number: int) -> bool:
        error = np.sqrt(12 / 49 / 6 * 7 / number)
        uncertain = error * (stats.t.ppf(0.8, 6) - stats.norm.ppf(0.8))
        return bool(smallest_difference(float(error), 6 * number / 7) + uncertain <= 0.1)

    assert (detects(plan["units needed"]), detects(plan["units needed"] - 1)) == (True, False)
    assert plan["facts needed"] == plan["units needed"]


@pytest.mark.parametrize("wanted", [0.12, 0.13, 0.14, 0.15, 0.16, 0.17])
def test_few_facts_of_several_seeds_by_their_own_degrees(wanted: float) -> None:
    """The error 0.05 of ten facts, none of it due to seeds: 0.05 · √(10 / n) of n facts, with n − 1 degrees."""
    pilot = estimates.difference(np.tile([0.0, 1.0], 5), np.zeros(10), Sample("fact"), "x")
    needed = detectable_with_seeds("a", "b", pilot, Noise(3, 0.05, 0.0), wanted)[0]["units needed"]
    found = [smallest_difference(0.05 * np.sqrt(10 / number), number - 1) for number in (needed, needed - 1)]
    assert found[0] <= wanted < found[1]


def test_a_claim_counts_clusters_not_values() -> None:
    """Thirty values of five relations are five units, of which six are needed."""
    values, relations = np.tile([1.0, 1.0, 0.0], 10), np.repeat(np.arange(5), 6)
    number = estimates.difference(values, np.zeros(30), Sample("relation", relations), "x")
    decision = decide({"": Claim("", (Contrast("a", number),))})[""]
    assert decision.word == UNDETERMINED
    assert decision.reason.startswith("a: only 5 of the 6 independent units")


def test_as_many_relations_as_there_are_are_in_reach() -> None:
    number = estimates.difference(np.tile([1.0, 0.0], 12), np.zeros(24), Sample("relation", np.arange(24)), "x")
    reach = [_plan("a", "b", number, 0.1, needed)["out of reach"] for needed in (24, 25)]
    assert reach == [None, "these runs have 24 relations"]


def test_clusters_within_groups_count_by_their_values() -> None:
    """Subjects of two and of one value: 2/3, not the mean of their means, 1/2."""
    sample = Sample("subject within relation", list("aab"), list("rrr"))
    assert estimates.between([1, 1, 0], sample, (0.0, 1.0)).estimate == pytest.approx(2 / 3)


def test_only_the_decisive_contrast_ends_at_zero() -> None:
    """Twenty values each: the first contrast is 2.35 errors from zero, the second 2.2, which decides; p < 0.05.

    Of two claims the intervals have 97.5 %, or 2.43 errors. Holm's method finds the claim significant, but by the
    second contrast, so that the interval of the first is not cut at zero.
    """
    error, limits = float(np.sqrt(0.25 / 19)), (-np.inf, np.inf)
    away = [np.tile([-0.5, 0.5], 10) + quantile * error for quantile in (2.35, 2.2, 9.0)]
    numbers = [estimates.difference(values, np.zeros(20), Sample("fact"), "x", limits) for values in away]
    first, second = (Contrast(name, number, 1) for name, number in zip("ab", numbers[:2], strict=True))
    claims = {"both": Claim("", (first, second)), "other": Claim("", (Contrast("c", numbers[2]),))}
    decision = decide(claims)["both"]
    assert decision.holds
    assert decision.low == pytest.approx((2.35 - stats.t.ppf(1 - 0.0125, 19)) * error)
    assert decision.low < 0
    turned = decide(claims | {"both": Claim("", (second, first))})["both"]
    assert (turned.holds, turned.low) == (True, 0)

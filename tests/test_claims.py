"""The claims kernel: which word a claim gets, by hand, and how often it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fathom.metrics.significance import holm, permutation_test, smallest_difference
from fathom.results import estimates
from fathom.results.claims import (
    EQUIVALENT,
    FEWEST,
    NO_DIFFERENCE,
    SIGNIFICANT,
    UNDETERMINED,
    Claim,
    Contrast,
    Decision,
    decide,
    difference_in_words,
    percent,
    sentences,
)
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.samples import Sample
from tests.messages import correspond, mentioned


def of(values: list[float]) -> Estimate:
    """The mean of values, each drawn for itself, tested against zero."""
    return estimates.difference(np.array(values), np.zeros(len(values)), Sample("query"), "x", (-np.inf, np.inf))


def near(mean: float, n: int = 20) -> Estimate:
    """Half of the values 0.1 above the mean, half 0.1 below: standard error 0.1 · √(n / (n − 1)) / √n."""
    return of([mean - 0.1, mean + 0.1] * (n // 2))


def verdict(*contrasts: Contrast, **more: object) -> Decision:
    [decision] = decide([Claim("it", contrasts, **more)])
    return decision


GOOD, NONE, BAD = near(0.3), near(0.0), near(-0.3)


def test_every_contrast_must_be_significant_in_its_direction() -> None:
    assert verdict(Contrast("a", GOOD)).word == SIGNIFICANT
    assert verdict(Contrast("a", BAD)).sign == -1
    assert verdict(Contrast("a", BAD, 1)).word == NO_DIFFERENCE
    assert verdict(Contrast("a", GOOD, 1), Contrast("b", GOOD, 1)).word == SIGNIFICANT
    both = verdict(Contrast("a", GOOD, 1), Contrast("b", NONE, 1))
    assert (both.word, both.reason) == (NO_DIFFERENCE, "not significant: b")
    # Without a direction of its own, a contrast goes by that of the first.
    assert verdict(Contrast("a", GOOD), Contrast("b", BAD)).word == NO_DIFFERENCE
    assert verdict(Contrast("a", BAD), Contrast("b", BAD)).sign == -1


def test_a_missing_control_leaves_a_claim_open_unless_it_fails_anyway() -> None:
    missing = Contrast("control", None, 1, "ask for the control")
    assert verdict(Contrast("a", GOOD, 1), missing)[1:3] == (UNDETERMINED, "ask for the control")
    assert verdict(Contrast("a", NONE, 1), missing).word == NO_DIFFERENCE
    undefined = Contrast("b", point_estimate("no ranks"), 1)
    assert verdict(Contrast("a", GOOD, 1), undefined)[1:3] == (UNDETERMINED, "b: no ranks")
    assert verdict(missing)[1] == UNDETERMINED


def test_an_objection_stands_against_significant_contrasts_alone() -> None:
    assert verdict(Contrast("a", GOOD), objection="luck")[1:3] == (UNDETERMINED, "luck")
    assert verdict(Contrast("a", NONE), objection="luck").word == NO_DIFFERENCE


def test_too_few_units_show_nothing() -> None:
    """Five that all agree have p = 2 / 2⁵ by their signs, six 2 / 2⁶."""
    assert verdict(Contrast("a", near(0.3, 4))).word == UNDETERMINED
    assert verdict(Contrast("a", near(0.3, FEWEST))).word == SIGNIFICANT


def test_claims_of_one_call_are_one_family() -> None:
    numbers = [near(0.05), near(0.06), near(0.0), near(0.3)]
    found = decide([Claim(str(place), (Contrast("a", one),)) for place, one in enumerate(numbers)])
    assert [one.p_value for one in found] == pytest.approx(holm([one.p_value for one in numbers]).tolist())
    # Simultaneous intervals: Student's quantile at 1 − 0.05 / 4 instead of 0.95, 3.0 and 2.09 of 19 degrees of freedom.
    wider = (found[2].high - found[2].low) / (numbers[2].high - numbers[2].low)
    assert wider == pytest.approx(stats.t.ppf(1 - 0.05 / 8, 19) / stats.t.ppf(0.975, 19))
    alone = decide([Claim("a", (Contrast("a", numbers[2]),))])[0]
    assert (alone.low, alone.high) == pytest.approx((numbers[2].low, numbers[2].high))


def test_an_interval_never_contradicts_its_p_value() -> None:
    """Over many families zero is outside of the simultaneous interval, or at its end, just where p is below 0.05."""
    lot = np.random.default_rng(0)
    for _ in range(200):
        numbers = [of((lot.normal(0.25, 1, 40)).tolist()) for _ in range(5)]
        for one in decide([Claim("a", (Contrast("a", number),)) for number in numbers]):
            assert one.low is not None
            assert one.high is not None
            if one.holds:
                assert one.low >= 0 or one.high <= 0
            else:
                assert one.low <= 0 <= one.high


def test_equivalence_is_two_one_sided_tests() -> None:
    """The 90 % interval within the margin: ± 1.729 · 0.0229 = ± 0.0397 of nineteen degrees of freedom."""
    assert verdict(Contrast("a", NONE), margin=0.041).word == EQUIVALENT
    assert verdict(Contrast("a", NONE), margin=0.038).word == NO_DIFFERENCE
    assert verdict(Contrast("a", near(0.1)), margin=0.2).word == EQUIVALENT
    apart = verdict(Contrast("a", near(0.1)), margin=0.12)
    assert (apart.word, apart.not_worse) == (SIGNIFICANT, False)  # what is subtracted may be worse by 0.12
    assert verdict(Contrast("a", near(-0.1)), margin=0.12).not_worse is True


def test_a_claim_whose_first_contrast_is_missing_is_undetermined() -> None:
    found = verdict(Contrast("a", None, 0, "no run"), Contrast("b", GOOD))
    assert (found.word, found.reason) == (UNDETERMINED, "no run")


def test_contrasts_that_lack_the_same_give_one_reason() -> None:
    alike, another = (Contrast(name, point_estimate("no ranks"), 1) for name in "ab")
    assert verdict(alike, another).reason == "no ranks"
    assert verdict(alike, Contrast("c", point_estimate("no split"), 1)).reason == "a: no ranks; c: no split"


def test_what_a_family_could_have_found_is_more_than_what_one_test_could() -> None:
    alone, among = verdict(Contrast("a", NONE)), decide([Claim("it", (Contrast("a", NONE),))] * 10)[0]
    assert NONE.interval is not None
    for decision, level in ((alone, 0.05), (among, 0.005)):
        expected = smallest_difference(NONE.interval.error, NONE.interval.degrees, level=level)
        assert decision.smallest == pytest.approx(expected)


def test_intervals_of_constant_answers_widen_with_the_family() -> None:
    """Twenty facts are right, the baseline has 0.5: Wilson's z² / (n + z²) of others may be wrong."""
    _, one = estimates.beyond(np.ones(20), np.full(20, 0.5), Sample("query"), "x")
    among = decide([Claim("it", (Contrast("a", one),))] * 10)[0]
    for low, confidence in ((one.low, 0.95), (among.low, 0.995)):
        z = stats.norm.isf((1 - confidence) / 2)
        assert low == pytest.approx(0.5 - z**2 / (20 + z**2))
    turned = estimates.below(one, 0.75)  # 0.75 − 0.5, with the ends turned
    assert turned[:3] == pytest.approx((0.25, 0.75 - one.high, 0.75 - one.low))


def test_words() -> None:
    assert difference_in_words(verdict(Contrast("a", GOOD))) == "+30.0 points [25.2, 34.8], p < 0.001"
    assert verdict(Contrast("a", GOOD)).plain()["verdict"] == SIGNIFICANT


def test_a_null_claim_is_supported_in_one_case_of_twenty() -> None:
    """Of 1,000 families of three null claims at most 6 % have a supported one; alone, about 5 % have."""
    lot = np.random.default_rng(1)
    several = alone = 0
    for _ in range(1000):
        claims = [Claim("a", (Contrast("a", of(lot.normal(0, 1, 30).tolist())),)) for _ in range(3)]
        several += any(one.holds for one in decide(claims))
        alone += decide(claims[:1])[0].holds
    assert several <= 68  # 5 % and 2.6 standard errors
    assert 32 <= alone <= 68


def test_words_of_numbers() -> None:
    assert percent(0.615) == "61.5 %"
    half = difference_in_words(verdict(Contrast("a", GOOD)))
    assert half.startswith("+30.0 points [")
    assert difference_in_words(verdict(Contrast("a", GOOD)), is_share=False).startswith("+0.300 [")


def test_few_claims_are_told_one_by_one_and_many_together() -> None:
    claims = [
        Claim(f"claim {place}", (Contrast("a", one),)) for place, one in enumerate((GOOD, NONE, near(-0.9), None))
    ]
    three = sentences(decide(claims[:3]))
    assert [text.partition(":")[0] for text in three] == ["claim 0", "claim 1", "claim 2"]
    assert ["no significant" in text for text in three] == [False, True, False]
    [four] = sentences(decide(claims))
    assert mentioned(four, "2 of 4", "claim 2: significant, -90.0 points")
    assert correspond(sentences(decide(claims[3:])), ("claim 3: cannot be determined", "a was not measured"))


@pytest.mark.parametrize(("low", "limits"), [(0.0, (0.0, 1.0)), (-1.0, (-1.0, 1.0))])
def test_the_interval_of_few_against_many_agrees_with_permutations(low: float, limits: tuple[float, float]) -> None:
    """Two of eight values are high, and these two are the group: 1 of 28 groups of two is as extreme. The standard
    error is then the one that has this p value, |estimate| / z, and the ends are no farther than values allow."""
    values, first = np.array([1.0, 1.0, *[low] * 6]), np.arange(8) < 2
    found = estimates.contrast(values, first, Sample("query"), "x", limits=limits)
    p_value = permutation_test(values, first.astype(float), np.zeros(8), np.arange(8))
    assert p_value == pytest.approx(1 / 28, abs=0.01)
    assert found.value == 1 - low
    assert found.p_value == pytest.approx(p_value, rel=1e-6)
    z = stats.norm.isf(p_value / 2)
    assert found.low == pytest.approx(found.value * (1 - stats.norm.isf(0.025) / z))
    assert found.high == limits[1] - limits[0]


def test_a_contrast_compares_within_strata_that_have_both_groups() -> None:
    """a: 1 against 0 and 0.5, difference 0.75, weight 1 · 2 / 3; b: 0.5, weight 2 · 2 / 4; c and d have one group:
    (0.75 · 2 / 3 + 0.5) / (2 / 3 + 1) = 0.6."""
    values = np.array([1, 0, 0.5, 1, 0, 0, 0, 1, 1, 0, 0])
    first = np.array([1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    strata = list("aaabbbbccdd")
    found = estimates.contrast(values, first, Sample("query"), "x", strata)
    assert (found.value, found.n) == (pytest.approx(0.6), 7)
    assert estimates.contrast(values[7:], first[7:], Sample("query"), "x", strata[7:]).note == estimates.NOTHING

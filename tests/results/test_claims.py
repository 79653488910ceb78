"""The claims kernel: which word a claim gets, by hand, and how often it is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from fathom.results import estimates
from fathom.results.claims import (
    EQUIVALENT,
    FEWEST,
    NO_DIFFERENCE,
    NOT_WORSE,
    OPPOSITE,
    SIGNIFICANT,
    UNDECIDED,
    UNDETERMINED,
    WORSE,
    Claim,
    Contrast,
    Decision,
    decide,
    decide_by_name,
    difference_in_words,
    percent,
    rough_sentence,
    sentences,
)
from fathom.results.estimates import Estimate, point_estimate
from fathom.results.metrics.significance import holm, permutation_test, smallest_difference
from fathom.results.samples import Sample
from tests.messages import correspond, mentioned


def of(values: list[float]) -> Estimate:
    """The mean of values, each drawn for itself, tested against zero."""
    return estimates.difference(np.array(values), np.zeros(len(values)), Sample("query"), "x", (-np.inf, np.inf))


def near(mean: float, n: int = 20) -> Estimate:
    """Half of the values 0.1 above the mean, half 0.1 below: standard error 0.1 · √(n / (n − 1)) / √n."""
    return of([mean - 0.1, mean + 0.1] * (n // 2))


def verdict(*contrasts: Contrast, **more: object) -> Decision:
    return decide({"it": Claim("it", contrasts, **more)})["it"]


def family(numbers: Sequence[Estimate | None]) -> list[Decision]:
    """One claim of one undirected contrast for each number."""
    return list(
        decide({place: Claim(f"claim {place}", (Contrast("a", one),)) for place, one in enumerate(numbers)}).values()
    )


GOOD, NONE, BAD = near(0.3), near(0.0), near(-0.3)


def test_claims_of_one_name_are_not_decided_by_it() -> None:
    """Two of them would be one key: a claim would be lost, and the family would be smaller."""
    one, other = Claim("one", (Contrast("a", GOOD),)), Claim("other", (Contrast("a", NONE),))
    assert {name: decision.word for name, decision in decide_by_name([one, other]).items()} == {
        "one": SIGNIFICANT,
        "other": NO_DIFFERENCE,
    }
    with pytest.raises(ValueError, match="'one'"):
        decide_by_name([one, one._replace(margin=0.1)])


def test_only_what_makes_a_verdict_rough_is_its_reason() -> None:
    """Of two notes one is on the interval."""
    noted = GOOD._replace(note="only 12 clusters: the interval is rough; 6 of 20 predictions have it")
    assert rough_sentence(verdict(Contrast("a", noted))) == "The verdict is rough: only 12 clusters."
    assert rough_sentence(verdict(Contrast("a", GOOD._replace(note="6 of 20 predictions have it")))) == ""
    both = verdict(Contrast("a", noted), Contrast("b", noted))
    assert rough_sentence(both) == "The verdict is rough: only 12 clusters."


def test_every_contrast_must_be_significant_in_its_direction() -> None:
    assert verdict(Contrast("a", GOOD)).word == SIGNIFICANT
    assert verdict(Contrast("a", BAD)).sign == -1
    weak = near(-0.045)  # 1.96 standard errors of 0.0229 below zero: p = 0.065
    assert verdict(Contrast("a", weak, 1)).word == NO_DIFFERENCE
    assert verdict(Contrast("a", GOOD, 1), Contrast("b", GOOD, 1)).word == SIGNIFICANT
    both = verdict(Contrast("a", GOOD, 1), Contrast("b", NONE, 1))
    assert (both.word, both.reason) == (NO_DIFFERENCE, "not significant: b")
    # Without a direction of its own, a contrast goes by that of the first.
    assert verdict(Contrast("a", GOOD), Contrast("b", BAD)).word == NO_DIFFERENCE
    assert verdict(Contrast("a", BAD), Contrast("b", BAD)).sign == -1


def test_a_claim_is_refuted_by_the_other_direction() -> None:
    """The p value is two-sided, of Student's distribution with 19 degrees of freedom."""
    error = 0.1 / np.sqrt(19)
    found = verdict(Contrast("a", near(-0.055), 1))
    assert (found.word, found.reason, found.holds, found.sign) == (OPPOSITE, "", False, 0)
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.055 / error, 19))  # 0.027
    turned = verdict(Contrast("a", near(0.055), -1))
    assert (turned.word, turned.p_value) == (OPPOSITE, pytest.approx(found.p_value))
    # An undirected contrast has no other direction.
    assert verdict(Contrast("a", near(-0.055))).word == SIGNIFICANT


def test_one_of_several_directed_contrasts_refutes_a_claim() -> None:
    """Its p value counts once for each that could: 2 · 0.027 = 0.053, as one of two not significant."""
    alone, other = near(-0.055), near(-0.08)
    assert alone.p_value is not None
    assert other.p_value is not None
    weak = verdict(Contrast("a", GOOD, 1), Contrast("b", alone, 1))
    assert (weak.word, weak.reason) == (NO_DIFFERENCE, "not significant: b (of the other sign)")
    assert weak.p_value == pytest.approx(2 * alone.p_value)
    strong = verdict(Contrast("a", GOOD, 1), Contrast("b", other, 1))
    assert (strong.word, strong.reason) == (OPPOSITE, "b is significant in the other direction")
    assert strong.p_value == pytest.approx(2 * other.p_value)
    assert strong.decisive is not None
    assert strong.decisive.name == "b"
    undirected = verdict(Contrast("a", GOOD), Contrast("b", alone, 1))
    assert (undirected.word, undirected.p_value) == (OPPOSITE, pytest.approx(alone.p_value))
    # What could not be tested cannot refute either.
    missing = verdict(Contrast("a", alone, 1), Contrast("b", None, 1, optional=True))
    assert missing.p_value == pytest.approx(alone.p_value)


def test_what_does_not_refute_counts_for_nothing_in_the_other_direction() -> None:
    """Neither by itself, nor as one of two that could refute."""
    number = near(-0.055)
    alone = verdict(Contrast("a", number, 1, refutes=False))
    assert (alone.word, alone.p_value) == (NO_DIFFERENCE, 1)
    assert alone.reason == "not significant: a (of the other sign)"
    assert difference_in_words(alone).endswith("], of the other sign")  # its interval excludes 0: no p value
    assert verdict(Contrast("a", GOOD, 1, refutes=False)).word == SIGNIFICANT
    both = verdict(Contrast("a", BAD, 1, refutes=False), Contrast("b", number, 1))
    assert (both.word, both.p_value) == (OPPOSITE, pytest.approx(number.p_value))
    assert both.decisive is not None
    assert both.decisive.name == "b"


def test_a_refuted_claim_counts_in_its_family() -> None:
    number = near(-0.055)
    assert number.p_value is not None
    found = decide({place: Claim("it", (Contrast("a", number, 1),)) for place in range(2)})
    for one in found.values():
        assert (one.word, one.p_value) == (NO_DIFFERENCE, pytest.approx(2 * number.p_value))  # 0.053


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
    found = family(numbers)
    assert [one.p_value for one in found] == pytest.approx(holm([one.p_value for one in numbers]).tolist())
    # Simultaneous intervals: Student's quantile at 1 − 0.05 / 4 instead of 0.95, 3.0 and 2.09 of 19 degrees of freedom.
    wider = (found[2].high - found[2].low) / (numbers[2].high - numbers[2].low)
    assert wider == pytest.approx(stats.t.ppf(1 - 0.05 / 8, 19) / stats.t.ppf(0.975, 19))
    alone = verdict(Contrast("a", numbers[2]))
    assert (alone.low, alone.high) == pytest.approx((numbers[2].low, numbers[2].high))


def test_an_interval_never_contradicts_its_p_value() -> None:
    """Over many families zero is outside of the simultaneous interval, or at its end, just where p is below 0.05."""
    lot = np.random.default_rng(0)
    for _ in range(200):
        numbers = [of((lot.normal(0.25, 1, 40)).tolist()) for _ in range(5)]
        for one in family(numbers):
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
    assert verdict(Contrast("a", NONE)).by_margin is None
    half = stats.t.ppf(0.95, 19) * 0.1 / np.sqrt(19)
    own = verdict(Contrast("a", NONE), margin=0.041).by_margin
    assert own is not None
    assert (own.low, own.high) == pytest.approx((-half, half))


@pytest.mark.parametrize(
    ("mean", "margin", "word", "by_margin"),
    [
        (0.1, 0.2, SIGNIFICANT, EQUIVALENT),  # from 0.060 to 0.140
        (0.1, 0.12, SIGNIFICANT, UNDECIDED),
        (0.1, 0.05, SIGNIFICANT, WORSE),  # than the first, from which it is subtracted
        (-0.1, 0.12, SIGNIFICANT, NOT_WORSE),
        (0.0, 0.041, EQUIVALENT, EQUIVALENT),
        (0.0, 0.038, NO_DIFFERENCE, UNDECIDED),
        (-0.035, 0.05, NO_DIFFERENCE, NOT_WORSE),  # from -0.075 to 0.005; at 95 % from -0.083 to 0.013
    ],
)
def test_words_of_a_margin(mean: float, margin: float, word: str, by_margin: str) -> None:
    """Both tests have their own word: a significant difference may be too small to matter, or too large."""
    found = verdict(Contrast("a", near(mean)), margin=margin)
    assert found.by_margin is not None
    assert (found.word, found.by_margin.word) == (word, by_margin)
    own = found.by_margin
    expected = (by_margin == EQUIVALENT, by_margin in (EQUIVALENT, NOT_WORSE), by_margin == WORSE)
    assert (own.is_equivalent, own.is_not_worse, own.is_worse) == expected


def test_a_margin_needs_an_interval() -> None:
    assert verdict(Contrast("a", None, 0, "no run"), margin=0.1).by_margin is None
    assert verdict(Contrast("a", near(0.0, 4)), margin=0.1).by_margin is None
    assert verdict(Contrast("a", GOOD), margin=0.5, objection="luck").by_margin is None


@pytest.mark.parametrize("members", [1, 4])
def test_the_margin_is_tested_at_the_level_of_the_family(members: int) -> None:
    """Each side at 0.05 / 4: 2.43 standard errors of 0.0229 are 0.0557 instead of 0.0397."""
    half = stats.t.ppf(1 - 0.05 / members, 19) * 0.1 / np.sqrt(19)
    claims = {
        (margin, place): Claim("a", (Contrast("a", NONE),), margin)
        for margin in (half - 1e-4, half + 1e-4)
        for place in range(members)
    }
    for margin in (half - 1e-4, half + 1e-4):
        own = decide({key: claim for key, claim in claims.items() if key[0] == margin})
        assert {one.word for one in own.values()} == {EQUIVALENT if margin > half else NO_DIFFERENCE}


def test_a_claim_whose_first_contrast_is_missing_is_undetermined() -> None:
    found = verdict(Contrast("a", None, 0, "no run"), Contrast("b", GOOD))
    assert (found.word, found.reason) == (UNDETERMINED, "no run")


def test_optional_contrasts_that_cannot_be_tested_are_named() -> None:
    lacking = Contrast("names", point_estimate("no names"), 1, optional=True)
    few = Contrast("n-gram", near(0.3, 4), 1, optional=True)
    found = verdict(Contrast("random", GOOD, 1, optional=True), lacking, few)
    assert (found.word, found.p_value) == (SIGNIFICANT, GOOD.p_value)
    assert dict(found.untested) == {
        "names": "no names",
        "n-gram": f"only 4 of the {FEWEST} independent units that a test needs",
    }
    assert found.plain()["untested"] == dict(found.untested)
    assert verdict(Contrast("random", NONE, 1), lacking).word == NO_DIFFERENCE
    assert verdict(Contrast("random", BAD, 1), lacking).word == OPPOSITE
    # Without any that can be tested the claim stays open, and says why.
    none = verdict(lacking, few)
    assert (none.word, dict(none.untested)) == (UNDETERMINED, {})
    assert mentioned(none.reason, "no names", "only 4")
    # A contrast that the claim needs leaves it open.
    needed = verdict(Contrast("random", GOOD, 1), lacking, Contrast("frequency", None, 1, "no corpus"))
    assert (needed.word, needed.reason) == (UNDETERMINED, "no corpus")


def test_contrasts_of_one_claim_need_different_names() -> None:
    with pytest.raises(ValueError, match="it: contrasts of one claim need different names"):
        verdict(Contrast("a", GOOD), Contrast("a", BAD))


def test_the_decisive_contrast_has_the_p_value_of_the_claim() -> None:
    """The least significant of those in the claim's direction, with its own simultaneous interval."""
    weak = near(0.06)
    claims = {"both": Claim("it", (Contrast("a", GOOD, 1), Contrast("b", weak, 1))), "none": None}
    others: dict[str, Claim | None] = {str(place): Claim("it", (Contrast("a", NONE),)) for place in range(3)}
    found = decide(claims | others)
    assert "none" not in found
    decisive = found["both"].decisive
    assert decisive is not None
    assert decisive.estimate is not None
    half = stats.t.ppf(1 - 0.05 / 4 / 2, 19) * 0.1 / np.sqrt(19)
    assert decisive.name == "b"
    assert (decisive.estimate.low, decisive.estimate.high) == pytest.approx((0.06 - half, 0.06 + half))
    assert found["both"].p_value == pytest.approx(4 * weak.p_value)
    assert mentioned(difference_in_words(found["both"]), "+30.0 points [", "; b +6.0 points [", ", p = 0.068")
    assert verdict(Contrast("a", None, 0, "no run")).decisive is None


def test_families_are_adjusted_by_themselves() -> None:
    """Four claims in two families of one and three; the order of the mapping decides nothing."""
    numbers = {"a": near(0.05), "b": near(0.06), "c": near(0.0), "d": near(0.051)}
    claims = {
        key: Claim(key, (Contrast("x", one),), family="alone" if key == "a" else "") for key, one in numbers.items()
    }
    found = decide(claims)
    assert list(found) == list("abcd")
    assert found["a"].p_value == numbers["a"].p_value
    adjusted = holm([numbers[key].p_value for key in "bcd"])
    assert [found[key].p_value for key in "bcd"] == pytest.approx(adjusted.tolist())
    random = np.random.default_rng(3)
    for _ in range(5):
        shuffled = {key: claims[key] for key in random.permutation(list("abcd")).tolist()}
        again = decide(shuffled)
        assert list(again) == list(shuffled)
        assert again == found


def test_notes_of_tested_contrasts_make_a_verdict_rough() -> None:
    few = GOOD._replace(note="only 12 clusters: the interval is rough")
    assert verdict(Contrast("a", GOOD)).is_rough is False
    rough = verdict(Contrast("a", GOOD), Contrast("b", few))
    assert (rough.is_rough, rough.notes, rough.plain()["rough"]) == (True, few.note, True)
    assert sentences([rough])[0].startswith("it: significant (rough), ")
    untested = point_estimate("a rough number")
    assert verdict(Contrast("a", GOOD), Contrast("b", untested, optional=True)).is_rough is False


def test_contrasts_that_lack_the_same_give_one_reason() -> None:
    alike, another = (Contrast(name, point_estimate("no ranks"), 1) for name in "ab")
    assert verdict(alike, another).reason == "no ranks"
    assert verdict(alike, Contrast("c", point_estimate("no split"), 1)).reason == "a: no ranks; c: no split"


def test_what_a_family_could_have_found_is_more_than_what_one_test_could() -> None:
    alone, among = verdict(Contrast("a", NONE)), family([NONE] * 10)[0]
    assert NONE.interval is not None
    for decision, level in ((alone, 0.05), (among, 0.005)):
        expected = smallest_difference(NONE.interval.error, NONE.interval.degrees, level=level)
        assert decision.smallest == pytest.approx(expected)


def test_intervals_of_constant_answers_widen_with_the_family() -> None:
    """Twenty facts are right. Of tosses at a chance of q, that many are with half of q²⁰ as far from the mean, and
    beyond; so q²⁰ / 2 = 0.025 is the end, and for ten claims 0.0025. Less the baseline's 0.5."""
    _, one = estimates.over_baseline(np.ones(20), np.full(20, 0.5), Sample("query"), "x", fixed=True)
    among = family([one] * 10)[0]
    for found, level in ((one, 0.05), (among, 0.005)):
        assert found.low == pytest.approx(level ** (1 / 20) - 0.5)
        assert found.high == 0.5
    assert one.p_value == pytest.approx(2 * 0.5**21)


def test_words() -> None:
    assert difference_in_words(verdict(Contrast("a", GOOD))) == "+30.0 points [25.2, 34.8], p < 0.001"
    assert verdict(Contrast("a", GOOD)).plain()["verdict"] == SIGNIFICANT


def test_a_null_claim_is_supported_in_one_case_of_twenty() -> None:
    """Of 1,000 families of three null claims at most 6 % have a supported one; alone, about 5 % have."""
    lot = np.random.default_rng(1)
    several = alone = 0
    for _ in range(1000):
        numbers = [of(lot.normal(0, 1, 30).tolist()) for _ in range(3)]
        several += any(one.holds for one in family(numbers))
        alone += family(numbers[:1])[0].holds
    assert several <= 68  # 5 % and 2.6 standard errors
    assert 32 <= alone <= 68


def test_words_of_numbers() -> None:
    assert percent(0.615) == "61.5 %"
    half = difference_in_words(verdict(Contrast("a", GOOD)))
    assert half.startswith("+30.0 points [")
    assert difference_in_words(verdict(Contrast("a", GOOD)), is_share=False).startswith("+0.300 [")


def test_few_claims_have_a_sentence_each_and_many_share_one() -> None:
    numbers = [GOOD, NONE, near(-0.9), None]
    three = sentences(family(numbers[:3]))
    assert [text.partition(":")[0] for text in three] == ["claim 0", "claim 1", "claim 2"]
    assert ["no significant" in text for text in three] == [False, True, False]
    [four] = sentences(family(numbers))
    assert mentioned(four, "2 of 4", "claim 2: significant, -90.0 points")
    assert "opposite" not in four
    alone = decide({3: Claim("claim 3", (Contrast("a", None),))}).values()
    assert correspond(sentences(alone), ("claim 3: cannot be determined", "a was not measured"))
    opposite = decide({place: Claim("it", (Contrast("a", one, 1),)) for place, one in enumerate([GOOD, BAD, BAD, BAD])})
    assert mentioned(*sentences(opposite.values()), "1 of 4", "3 are opposite")


@pytest.mark.parametrize(("low", "limits"), [(0.0, (0.0, 1.0)), (-1.0, (-1.0, 1.0))])
def test_the_interval_of_few_against_many_agrees_with_permutations(low: float, limits: tuple[float, float]) -> None:
    """Two of eight values are high, and these two are the group: 1 of 28 groups of two is as extreme. The standard
    error is then the one that has this p value, |estimate| / z, and the ends are no farther than values allow."""
    values, first = np.array([1.0, 1.0, *[low] * 6]), np.arange(8) < 2
    found = estimates.contrast(values, first, Sample("query"), "x", limits=limits)
    permuted = permutation_test(values, first.astype(float), np.zeros(8), np.arange(8))
    assert permuted.p_value == pytest.approx(1 / 28, abs=0.01)
    assert found.value == 1 - low
    assert found.p_value == pytest.approx(permuted.p_value)
    error = found.value / stats.norm.isf(permuted.p_value / 2)
    assert error > permuted.deviation
    assert found.interval is not None
    assert found.interval.error == pytest.approx(error)
    assert found.low == pytest.approx(found.value - stats.norm.ppf(0.975) * error)
    assert found.high == limits[1] - limits[0]


def test_a_contrast_compares_within_strata_that_have_both_groups() -> None:
    """a: 1 against 0 and 0.5, difference 0.75, weight 1 · 2 / 3; b: 0.5, weight 2 · 2 / 4; c and d have one group:
    (0.75 · 2 / 3 + 0.5) / (2 / 3 + 1) = 0.6."""
    values = np.array([1, 0, 0.5, 1, 0, 0, 0, 1, 1, 0, 0])
    first = np.array([1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    strata = list("aaabbbbccdd")
    found = estimates.contrast(values, first, Sample("query"), "x", strata)
    assert (found.value, found.n) == (pytest.approx(0.6), 7)
    assert estimates.contrast(values[7:], first[7:], Sample("query"), "x", strata[7:]).note == estimates.NO_BOTH

"""The area under the ROC curve: hand-computed values, scikit-learn's, and simulations of its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from fathom.results import discrimination
from fathom.results.discrimination import above_chance, auroc_components, auroc_difference, placements
from fathom.results.samples import Sample
from tests.messages import mentioned

ALONE = Sample("fact")


def auroc(scores, positive) -> float:
    """The mean share of negatives below a positive."""
    return float(placements(scores, positive)[np.asarray(positive, bool)].mean())


def test_auroc_and_its_components_by_hand():
    """Positives 3, 2 and negatives 2, 1: three of four pairs in order and a tie, 3.5 / 4. The positive 3 is above both,
    2 above one and level with one; 1 is below both positives, 2 below one and level with one."""
    scores, positive = [3, 2, 2, 1], [True, True, False, False]
    assert auroc(scores, positive) == 0.875
    assert placements(scores, positive).tolist() == [1, 0.75, 0.75, 1]
    assert auroc_components(scores, positive).values.tolist() == [1.125, 0.625, 0.625, 1.125]


def test_agrees_with_scikit_learn_on_ties():
    random = np.random.default_rng(1)
    for n in (5, 40, 300):
        positive = np.arange(n) % 3 == 0
        scores = random.integers(0, 6, n) + positive
        assert auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert auroc([-np.inf, 0, np.inf], [False, True, True]) == 1


@pytest.mark.parametrize(
    ("scores", "positive"), [([1, 2], [True, True]), ([1, np.nan], [True, False]), ([1, 2, 3], [True, False])]
)
def test_refuses_one_class_nan_and_unequal_lengths(scores, positive):
    with pytest.raises(ValueError, match=r"needs|NaN|labels"):
        auroc(scores, positive)


def test_the_error_is_that_of_delong():
    """DeLong's variance: S10 / 2 + S01 / 2, where both components have the sample variance 0.25² / 2."""
    found = above_chance([3, 2, 2, 1], [True, True, False, False], ALONE, "AUROC")
    assert found.value == 0.375
    assert found.interval.error == pytest.approx(np.sqrt(2 * 0.25**2 / 2 / 2))
    assert mentioned(found.note, "2 positives", "rough")


def test_auroc_is_above_chance_and_a_half():
    random = np.random.default_rng(2)
    positive = random.random(60) < 0.4
    scores = random.normal(size=60) + positive
    whole, above = (
        of(scores, positive, ALONE, "AUROC|cluster:fact") for of in (discrimination.auroc, discrimination.above_chance)
    )
    assert whole[:3] == pytest.approx([part + 0.5 for part in above[:3]])
    assert (whole.p_value, whole.n, whole.recipe) == (above.p_value, 60, "AUROC|cluster:fact")
    assert whole.value == pytest.approx(roc_auc_score(positive, scores))


def test_paired_difference_of_equal_and_of_opposite_scores():
    scores, positive = np.arange(20.0), np.arange(20) % 2 == 0
    assert auroc_difference(scores, 2 * scores, positive, ALONE, "").value == 0
    opposite = auroc_difference(scores, -scores, positive, ALONE, "")
    assert opposite.value == pytest.approx(2 * auroc(scores, positive) - 1)


def test_perfect_separation_is_tested_by_permutation():
    """Of 12 with 3 positives a random order separates one in C(12, 3) = 220 on either side."""
    found = discrimination.auroc(np.arange(12), np.arange(12) >= 9, ALONE, "")
    assert (found.value, found.high) == (1, 1)
    assert found.low < 0.75
    assert found.p_value == pytest.approx(2 / 220)


def test_without_an_interval():
    one = discrimination.auroc([1, 2, 3], [False, False, True], ALONE, "")
    assert (one.value, one.low, one.p_value) == (1, None, None)
    assert mentioned(one.note, "only 1 positive", "no interval")
    assert np.isnan(discrimination.auroc([1, 2], [True, True], ALONE, "").value)
    clustered = discrimination.auroc([1, 2, 3, 4], [False, True, False, True], Sample("relation", list("aabb")), "")
    assert mentioned(clustered.note, "only 2 relations", "rough")


def coverage(truth: float, draw, repeats: int = 400) -> tuple[float, float]:
    """Return how often the interval covers the truth, and how often 0.5 is rejected."""
    found = [discrimination.auroc(*draw(), "") for _ in range(repeats)]
    return (
        float(np.mean([one.low <= truth <= one.high for one in found])),
        float(np.mean([one.p_value < 0.05 for one in found])),
    )


@pytest.mark.parametrize("truth", [0.5, 0.8])
def test_intervals_hold_for_independent_facts(truth):
    random, shift = np.random.default_rng(3), stats.norm.ppf(truth) * 2**0.5
    positive = np.arange(60) < 25
    covered, rejected = coverage(truth, lambda: (random.normal(size=60) + shift * positive, positive, ALONE))
    assert 0.92 <= covered <= 0.98
    assert rejected < 0.08 if truth == 0.5 else rejected > 0.9


def test_intervals_hold_for_clusters_of_one_class():
    """Intervals that ignored the clusters would reject 0.5 about four times in ten."""
    random, unit = np.random.default_rng(4), np.repeat(np.arange(20), 20)
    positive = unit % 2 == 0

    def draw():
        return random.normal(size=20)[unit] * 0.7 + random.normal(size=400), positive, Sample("relation", unit)

    covered, rejected = coverage(0.5, draw)
    assert covered == 1 - rejected
    assert 0.92 <= covered <= 0.98


@pytest.mark.parametrize("designed", [True, False])
def test_designed_classes_are_fixed_within_relations(designed):
    """Relations differ in their scores. Half of each is positive by design, so that the differences cancel out."""
    random, relation = np.random.default_rng(5), np.repeat(np.arange(5), 40)
    positive, sample = np.arange(200) % 2 == 0, Sample("fact within relation", None, relation)
    found = [
        discrimination.auroc(random.normal(size=200) + relation, positive, sample, "", designed=designed)
        for _ in range(300)
    ]
    rejected = np.mean([one.p_value < 0.05 for one in found])
    assert rejected <= 0.085 if designed else rejected < 0.02
    assert rejected > 0.02 if designed else True


def test_paired_difference_errs_in_one_of_twenty():
    random, positive = np.random.default_rng(6), np.arange(80) < 40
    rejected = []
    for _ in range(400):
        shared = random.normal(size=80) + positive
        first, second = (shared + random.normal(size=80) for _ in range(2))
        rejected.append(auroc_difference(first, second, positive, ALONE, "").p_value < 0.05)
    assert 0.02 <= np.mean(rejected) <= 0.08

"""Claims at the edges: baselines of nothing and of everything, true differences of just the margin, few relations that
differ much, and one call of the kernel per result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fathom.results import claims, estimates
from fathom.results.claims import NO_DIFFERENCE, OPPOSITE, SIGNIFICANT, UNDETERMINED, Claim, Contrast, Decision
from fathom.results.compare import compare
from fathom.results.diff import diff
from fathom.results.estimates import Estimate
from fathom.results.samples import Sample
from fathom.results.summary import summarise
from fathom.studies import calibration, profile, validity
from fathom.studies.options import ValidityOptions
from fathom_kgc.studies import MemoryOptions, memory, memory_tables
from tests.answerers import EVEN, answered, at_random, knowing, known_of, world
from tests.kgc.test_controls_memory import BASE, MEANINGLESS, NAMELESS, grid_of
from tests.messages import mentioned, stated

FACT = Sample("fact")


def decided(estimate: Estimate, sign: int = 0, margin: float | None = None) -> Decision:
    return claims.decide({"it": Claim("it", (Contrast("it", estimate, sign),), margin)})["it"]


def right(number: int, of: int) -> np.ndarray:
    return np.repeat([1.0, 0.0], [number, of - number])


def over(own: np.ndarray, baseline: float | np.ndarray, *, fixed: bool) -> Decision:
    others = np.broadcast_to(np.asarray(baseline, float), own.shape)
    return decided(estimates.over_baseline(own, others, FACT, "x", fixed=fixed)[1], 1)


def p_of_share(share: float, facts: int, value: float) -> float:
    """Two-sided p value that a share is a value: half of the probability of so many right tosses, and that of more.

    As many tosses as one less than the facts have their variance; their number need not be whole.
    """
    tosses = facts - 1
    tails = [stats.beta.cdf(value, own, tosses - own + 1) for own in (share * tosses, share * tosses + 1)]
    return float(2 * stats.t.sf(abs(stats.norm.isf(np.mean(tails))), facts - 1))


def above_five_percent(draws: int) -> float:
    """6 % of draws and 3 standard errors."""
    return 0.06 + 3 * float(np.sqrt(0.06 * 0.94 / draws))


class TestBaselines:
    @pytest.mark.parametrize("fixed", [True, False])
    @pytest.mark.parametrize(
        ("number", "baseline", "word"),
        [
            (90, 0.0, SIGNIFICANT),
            (100, 0.0, SIGNIFICANT),
            (0, 0.0, NO_DIFFERENCE),
            (90, 1.0, OPPOSITE),
            (0, 1.0, OPPOSITE),
            (100, 1.0, NO_DIFFERENCE),
        ],
    )
    def test_one_that_is_never_right_or_always(self, number: int, baseline: float, word: str, fixed: bool) -> None:
        found = over(right(number, 100), baseline, fixed=fixed)
        assert found.word == word
        assert found.p_value is not None
        assert found.p_value < 0.01 or found.p_value == 1
        assert found.low is not None
        assert found.high is not None
        assert found.low <= number / 100 - baseline <= found.high

    def test_guessing_is_certain_to_fail_only_if_it_never_is_right(self) -> None:
        """One hit of 100 disproves a chance of 0, but not one of 1/1000."""
        assert over(right(1, 100), 0.0, fixed=True).p_value == 0
        found = over(right(1, 100), 0.001, fixed=True).p_value
        assert found == pytest.approx(p_of_share(0.01, 100, 0.001))
        assert found > 0.05

    def test_one_rare_hit_is_no_knowledge(self) -> None:
        """1 of 20 at a chance of 0.005: one toss or more is right in 9.5 % of cases, though Wilson's interval of the
        share starts at 0.89 %."""
        found = over(right(1, 20), 0.005, fixed=True)
        share, z = 0.05, stats.norm.ppf(0.975)
        wilson = (share + z**2 / 40 - z * np.sqrt(share * (1 - share) / 20 + z**2 / 1600)) / (1 + z**2 / 20)
        assert wilson > 0.005
        assert found.word == NO_DIFFERENCE
        assert found.p_value == pytest.approx(p_of_share(0.05, 20, 0.005))
        assert 2 * (stats.binom.sf(1, 20, 0.005) + stats.binom.pmf(1, 20, 0.005) / 2) > 0.05  # of just twenty tosses

    def test_few_hits_are_not_below_a_tenth(self) -> None:
        """2 of 50: as few are right, half of those two counted, in 7.3 % of cases on one side."""
        share = estimates.mean(right(2, 50), FACT, "x")
        found = decided(estimates.against_value(share, 0.1), -1)
        assert found.word == NO_DIFFERENCE
        assert found.p_value == pytest.approx(p_of_share(0.04, 50, 0.1))
        assert stats.binom.cdf(1, 50, 0.1) + stats.binom.pmf(2, 50, 0.1) / 2 == pytest.approx(0.073, abs=0.001)
        assert decided(estimates.against_value(estimates.mean(right(2, 100), FACT, "x"), 0.1), -1).word == SIGNIFICANT

    def test_expected_values_are_no_outcomes(self) -> None:
        """Guessing is right in 0.3, or 0.7, of cases; which facts these are of does not matter."""
        own, chance = right(60, 100), np.repeat([0.7, 0.3], 50)
        value, fixed = estimates.over_baseline(own, chance, FACT, "x", fixed=True)
        assert value == pytest.approx(0.5)
        assert fixed.value == pytest.approx(0.1)
        assert fixed.p_value == pytest.approx(p_of_share(0.6, 100, 0.5))
        _, turned = estimates.over_baseline(own, chance[::-1], FACT, "x", fixed=True)
        assert turned.p_value == pytest.approx(fixed.p_value)
        paired = [estimates.over_baseline(own, one, FACT, "x", fixed=False)[1] for one in (chance, chance[::-1])]
        assert paired[0].p_value < paired[1].p_value

    def test_outcomes_are_paired(self) -> None:
        """Both have 40 of 100 right, and 15 and 5 alone. The variance of 100 facts is that of 99 independent pairs, and
        McNemar's z is 0.99 · 10 / √(0.99 · 20)."""
        own, other = right(55, 100), np.repeat([1.0, 0.0, 1.0, 0.0], [40, 15, 5, 40])
        value, number = estimates.over_baseline(own, other, FACT, "x", fixed=False)
        assert (value, number.value) == (0.45, pytest.approx(0.1))
        assert number.p_value == pytest.approx(2 * stats.t.sf(10 * np.sqrt(0.99 / 20), 99))

    def test_weights_and_limits(self) -> None:
        """Reciprocal ranks, each fact by its weight."""
        own, weights = np.array([1.0, 0.5, 0.25, 0.2] * 10), np.array([1.0, 2.0, 1.0, 1.0] * 10)
        for fixed in (True, False):
            value, number = estimates.over_baseline(own, own[::-1], FACT, "x", weights=weights, fixed=fixed)
            assert value == pytest.approx((0.2 + 2 * 0.25 + 0.5 + 1) / 5)
            assert number.value == pytest.approx((1 + 2 * 0.5 + 0.25 + 0.2) / 5 - value)

    def test_an_equal_difference_of_no_size_shows_nothing(self) -> None:
        """A model that is never right against a baseline that expects a tenth of a percent of each fact. Fifty signs
        agree, but the interval of so few facts contains zero."""
        own, baseline = right(0, 50), np.full(50, 0.001)
        _, number = estimates.over_baseline(own, baseline, FACT, "x", fixed=False)
        assert number.low is not None
        assert number.high is not None
        assert number.low < 0 < number.high
        assert decided(number, 1).word == NO_DIFFERENCE

    def test_one_of_some_predictions_alone(self, tmp_path: Path) -> None:
        """Twenty facts: six of one relation, whose majority baseline is known, and 14 of relations of their own."""
        data = world([[0]] * 6 + [[place] for place in range(14)], each=[6, *[1] * 14])
        run = answered(tmp_path / "run", knowing({query.id for query in data.queries}), data)
        summary = summarise(run, cluster="fact")
        [line] = summary.headlines
        by_name = {one.baseline: one.difference for one in line.baselines["accuracy"]}
        assert "; " in by_name["majority"].note
        assert "Compared on these alone: majority: 6 of 20 predictions have it." in summary.answer
        assert "majority: 6 of 20 predictions have it" in by_name["majority"].note
        assert by_name["majority"].n == 6
        assert by_name["random"].n == 20

    def test_one_that_cannot_be_tested_is_named(self, tmp_path: Path) -> None:
        """Five of twenty facts have the baselines by other facts of their relation, fewer than a test needs. These do
        not keep random guessing from deciding."""
        data = world([[0]] * 5 + [[place] for place in range(15)], each=[5, *[1] * 15])
        run = answered(tmp_path / "run", knowing({query.id for query in data.queries}), data)
        found = summarise(run, cluster="fact")
        [line] = found.headlines
        assert line.verdict("accuracy") == "above"
        assert line.decision is not None
        why = "only 5 of the 6 independent units that a test needs"
        assert dict(line.decision.untested) == {"majority": why, "names": why}
        assert stated(found.answer, "more than every baseline that could be tested (random 5.0 %")
        assert f"The majority baseline could not be tested: {why}." in found.answer


class TestContrasts:
    def test_two_groups_that_do_not_differ(self) -> None:
        """The standard error of two shares of 0.3 of some 200 facts each is 0.046, so that the interval has 0.18."""
        random = np.random.default_rng(4)
        values, first = (random.random(400) < 0.3) * 1.0, random.random(400) < 0.5
        found = estimates.contrast(values, first, FACT, "x")
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high
        assert found.high - found.low < 0.25
        rates = [values[own] for own in (first, ~first)]
        assert found.value == pytest.approx(rates[0].mean() - rates[1].mean())
        error = np.sqrt(sum(own.var(ddof=1) / len(own) for own in rates))
        assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, 399) * error, rel=0.01)
        assert found.high - found.value == pytest.approx(found.value - found.low)
        assert found.p_value is not None
        assert found.p_value > 0.5

    @pytest.mark.parametrize("seed", [4, 5, 11])
    def test_sentence_and_table_have_the_same_ends(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        values, first = (random.random(60) < 0.3) * 1.0, random.random(60) < 0.4
        number = estimates.contrast(values, first, FACT, "x")
        decision = decided(number)
        assert decision.estimate is not None
        assert decision.estimate.ends == number.ends
        low, high = number.ends[1:-1].split(", ")
        words = claims.difference_in_words(decision)
        assert f"points [{float(low):.1f}, {float(high):.1f}]" in words

    def test_the_p_value_and_the_interval_agree(self) -> None:
        """Groups of 3 to 20 among up to forty values: zero is in the interval where p is 0.05 or more."""
        random, rejected = np.random.default_rng(6), 0
        for _ in range(60):
            n, few = int(random.integers(8, 40)), int(random.integers(3, 20))
            first = random.permutation(n) < min(few, n - 3)
            values = (random.random(n) < np.where(first, 0.8, 0.3)).astype(float)
            if np.ptp(values) == 0:
                continue
            found = estimates.contrast(values, first, FACT, "x")
            assert -1 <= found.low <= found.value <= found.high <= 1
            assert (found.p_value >= 0.05) == (found.low <= 0 <= found.high)
            rejected += found.p_value < 0.05
        assert rejected > 15

    def test_a_group_that_differs_by_permutations_alone(self) -> None:
        """All values of the few are equal, so that their own spread says nothing; that over permutations of the values
        among both groups is s · √(1/4 + 1/60)."""
        values, first = np.array([0.0] * 4 + [1.0] * 20 + [0.0] * 40), np.arange(64) < 4
        found = estimates.contrast(values, first, FACT, "x")
        assert found.value == pytest.approx(-1 / 3)
        assert found.interval is not None
        deviation = np.std(values, ddof=1) * np.sqrt(1 / 4 + 1 / 60)
        assert found.interval.error >= 0.95 * deviation
        assert found.low is not None
        assert found.high is not None
        assert found.low < 0 < found.high

    def test_the_error_is_at_least_that_of_permutations(self) -> None:
        """Both means are 0.5, but the few hardly differ and the many are 0 or 1. Values exchanged at random deviate by
        s √(1/4 + 1/40), with s² = (4 · 0.1² + 40 · 0.5²) / 43: 0.253. The values of each group deviate by 0.09."""
        values, first = np.array([0.4, 0.6] * 2 + [0.0, 1.0] * 20), np.arange(44) < 4
        found = estimates.contrast(values, first, FACT, "x")
        assert found.value == pytest.approx(0)
        assert found.p_value == pytest.approx(1)
        assert found.interval is not None
        assert found.interval.error == pytest.approx(0.2534, rel=0.05)
        assert found.high == pytest.approx(stats.t.ppf(0.975, found.interval.degrees) * found.interval.error)


class TestSeeds:
    """Trainings of two models that agree on every fact, or differ in the same way on every fact."""

    @pytest.mark.parametrize("value", [0.0, 1.0])
    def test_two_equal_trainings_are_rough(self, value: float) -> None:
        """If half of all trainings collapse, both pairs differ alike in 2 of 16 cases, more than 5 %."""
        number, _ = estimates.over_seeds(np.full((2, 200), value), FACT, "x", (-1.0, 1.0), tested=True)
        assert decided(number).is_rough
        three, _ = estimates.over_seeds(np.full((3, 200), value), FACT, "x", (-1.0, 1.0), tested=True)
        assert not decided(three).is_rough

    def test_two_trainings_without_a_difference_have_no_smallest_one(self) -> None:
        """Of 200 facts six on one side are significant, and 3.9 % of them are right in four of five cases."""
        smallest = [
            estimates.over_seeds(np.zeros((count, 200)), FACT, "x", (-1.0, 1.0), tested=True)[0].smallest
            for count in (1, 2, 3)
        ]
        share = smallest[0]
        assert share is not None
        assert stats.binom.sf(5, 200, share) == pytest.approx(0.8)
        assert smallest == [share, None, share]


class TestMargins:
    @pytest.mark.parametrize("shared", [True, False])
    def test_a_true_difference_of_the_margin_is_not_equivalent(self, shared: bool) -> None:
        """300 facts, 95 % of them right, and two points fewer of the second model, on the same facts or on others."""
        words = []
        for seed in range(300):
            random = np.random.default_rng(seed)
            first = (random.random(300) < 0.95).astype(float)
            second = first * (random.random(300) >= 0.02 / 0.95) if shared else random.random(300) < 0.93
            number = estimates.difference(first, second.astype(float), FACT, "x")
            by_margin = decided(number, margin=0.02).by_margin
            assert by_margin is not None
            words.append(by_margin)
        for wrong in (
            np.mean([one.is_equivalent for one in words]),
            np.mean([one.is_not_worse for one in words]),
        ):
            assert wrong <= above_five_percent(300)

    def test_more_facts_decide(self) -> None:
        """Of 3,000 facts the second model has one point fewer right: equivalent within two points, worse by a half."""
        random = np.random.default_rng(0)
        first = (random.random(3000) < 0.95).astype(float)
        second = np.where(np.cumsum(first) <= 30, 0.0, first)
        number = estimates.difference(first, second, FACT, "x")
        for margin, word in ((0.02, claims.EQUIVALENT), (0.005, claims.WORSE)):
            found = decided(number, margin=margin)
            assert found.by_margin is not None
            assert (found.word, found.by_margin.word) == (SIGNIFICANT, word)


class TestFewRelations:
    def test_some_relations_that_differ_much(self) -> None:
        """Of 12 relations of twenty facts a tenth differ by 72 points, the others by 8 in the other direction."""
        relation, held, rough = np.repeat(np.arange(12), 20), 0, 0
        for seed in range(400):
            random = np.random.default_rng(seed)
            far = (random.random(12) < 0.1)[relation]
            first = random.random(240) < np.where(far, 0.86, 0.4)
            second = random.random(240) < np.where(far, 0.14, 0.48)
            number = estimates.difference(first * 1.0, second * 1.0, Sample("relation", relation), "x")
            decision = decided(number)
            held, rough = held + decision.holds, rough + ("rough" in decision.notes and decision.is_rough)
        assert held / 400 <= above_five_percent(400)
        assert rough == 400

    def test_the_summary_calls_such_a_verdict_rough(self, tmp_path: Path) -> None:
        data = world(EVEN, relations=20)
        run = answered(tmp_path / "run", knowing(known_of(data, [0.6])), data)
        assert stated(summarise(run).answer, "The verdict is rough:", "only 20 clusters")
        found = compare([run, answered(tmp_path / "other", at_random(1), data, model="n")], metrics=["accuracy"])
        assert stated(found.answer, "The verdict is rough:", "only 20 clusters")


# --- one call of the kernel


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[Any, Claim | None]]:
    """The claims of each call of :func:`fathom.results.claims.decide`, by any module."""
    made: list[Mapping[Any, Claim | None]] = []
    kernel = claims.decide

    def noted(own: Mapping[Any, Claim | None]) -> dict[Any, Decision]:
        made.append(dict(own))
        return kernel(own)

    for name, module in list(sys.modules.items()):
        if name.startswith("fathom") and getattr(module, "decide", None) is kernel:
            monkeypatch.setattr(module, "decide", noted)
    return made


DATA = world([[number % 20] for number in range(100)], relations=1)


def designed(folder: Path) -> Path:
    """Every other fact was read ten times."""
    file = folder / "design.jsonl"
    lines = [
        {"query_id": query.id, "fact_id": query.fact_id, "exposures": 10 * (number // 20 % 2)}
        for number, query in enumerate(DATA.queries)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def metrics_of(folder: Path) -> None:
    found = summarise(answered(folder / "a", at_random(0), DATA), by=["relation"])
    assert found.answer
    assert found.tables


def comparison_of(folder: Path) -> None:
    runs = [answered(folder / str(seed), at_random(seed), DATA, model=f"m{seed}") for seed in range(3)]
    found = compare(runs, margin=2, detect=2)
    assert found.answer
    assert found.tables


def comparison_of_seeds(folder: Path) -> None:
    runs = [answered(folder / str(seed), at_random(seed), DATA, model=f"m{seed}") for seed in range(4)]
    assert compare(runs, seeds=2).answer


def diff_of(folder: Path) -> None:
    before, after = (answered(folder / str(seed), at_random(seed), DATA) for seed in range(2))
    found = diff(before, after, by="relation")
    assert found.answer
    assert found.tables


def profile_of(folder: Path) -> None:
    runs = [
        answered(folder / probe, at_random(seed), DATA, probe=probe)
        for seed, probe in enumerate(("statement", "generation"))
    ]
    found = profile.analyse(runs)
    assert profile.conclude(found)
    assert profile.tables(found)


def validity_of(folder: Path) -> None:
    runs = [answered(folder / probe, at_random(seed), DATA, probe=probe) for seed, probe in enumerate(("a", "b"))]
    found = validity.analyse(runs, ValidityOptions(design=designed(folder)))
    assert validity.conclude(found)
    assert validity.tables(found)


def calibration_of(folder: Path) -> None:
    found = calibration.analyse([answered(folder / "a", at_random(0), DATA, probe="statement")])
    assert calibration.conclude(found)
    assert calibration.tables(found)


def memory_of(folder: Path) -> None:
    hits = {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45), MEANINGLESS: (0.35, 0.1)}
    found = memory.analyse(grid_of(folder, {"m": hits}), MemoryOptions())
    assert memory.conclude(found)
    assert memory_tables.tables(found)


@pytest.mark.parametrize(
    "result",
    [
        metrics_of,
        comparison_of,
        comparison_of_seeds,
        diff_of,
        profile_of,
        validity_of,
        calibration_of,
        memory_of,
    ],
)
def test_each_result_decides_once(
    result: Callable[[Path], None], calls: list[Mapping[Any, Claim | None]], tmp_path: Path
) -> None:
    result(tmp_path)
    [claimed] = calls
    named = [claim.name for claim in claimed.values() if claim is not None]
    assert named
    # The same claims in another order have the same decisions.
    keys = list(claimed)
    decisions = claims.decide(claimed)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(keys))
        shuffled = claims.decide({keys[at]: claimed[keys[at]] for at in order})
        assert {key: one.plain() for key, one in shuffled.items()} == {
            key: one.plain() for key, one in decisions.items()
        }


def test_pairs_and_baselines_are_families_of_their_own(calls: list[Mapping[Any, Claim | None]], tmp_path: Path) -> None:
    """Two runs in one pair: its p value is not adjusted for what is known over the baselines."""
    runs = [answered(tmp_path / str(seed), at_random(seed), DATA, model=f"m{seed}") for seed in range(2)]
    [pair] = compare(runs, metrics=["accuracy"]).pairs
    assert pair.decision.p_value == pair.differences[0].number.p_value
    assert len({claim.family for claim in calls[0].values() if claim is not None}) == 2


def test_a_claim_without_any_test_is_undetermined_in_words() -> None:
    lacking = claims.decide({"it": Claim("it", (Contrast("a", None, 1, "no run of a"),))})["it"]
    assert lacking.word == UNDETERMINED
    assert mentioned(claims.sentence(lacking), "it: cannot be determined (no run of a).")

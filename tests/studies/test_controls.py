"""What studies of finished runs conclude of answerers that lack the property asked for, and of one that has it.

A conclusion is worth what its control is worth: an answerer without the property, asked the same way, must not show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.results.compare import compare
from fathom.results.comparison import Agreement, ComparedPair
from fathom.results.estimates import Estimate
from fathom.results.facts import BY_TEMPLATE, FREE
from fathom.store.folder import RunFolder
from fathom.studies import rankings
from fathom.studies.length_bias import analyse as length_bias
from fathom.studies.options import RepeatedOptions
from fathom.studies.perplexity import analyse as perplexity
from fathom.studies.relations import analyse as relations
from fathom.studies.repeated import analyse as repeated
from tests.answerers import (
    EVEN,
    Answerer,
    agreement_of,
    answered,
    at_random,
    at_rank,
    by_frequency_in,
    constant,
    first_few,
    knowing,
    known_of,
    long_names_first,
    short_names_first,
    tossed,
    world,
)
from tests.messages import mentioned

RunMaker = Callable[..., RunFolder]


@pytest.fixture
def made(tmp_path: Path) -> RunMaker:
    """Runs, each in a folder of its own."""
    count = iter(range(10_000))
    return lambda answer, data, **more: answered(tmp_path / f"run{next(count)}", answer, data, **more)


def values(numbers: Iterable[Estimate]) -> list[float]:
    return [number.value for number in numbers]


def holds_zero(number: Estimate) -> bool:
    assert number.low is not None
    assert number.high is not None
    return number.low <= 0 <= number.high


def significant(number: Estimate) -> bool:
    assert number.p_value is not None
    return number.p_value < 0.05


def rarely(found: Sequence[bool]) -> bool:
    """Whether that is about one in twenty of many: at most three times as often."""
    return sum(found) <= 3 * len(found) / 20


# --- agreement: two probes rank the same facts well, and the same facts badly


class TestAgreement:
    def test_answerers_by_lot_do_not_agree(self, made: RunMaker) -> None:
        """Ten answerers, each by a lot of its own: of their 45 pairs about 2 have an interval without zero."""
        runs = [made(at_random(seed), world(EVEN)) for seed in range(10)]
        found = [agreement_of([one, other]) for place, one in enumerate(runs) for other in runs[:place]]
        for numbers in ([one.log_ranks for one in found], [one.ranks for one in found]):
            assert rarely([significant(number) for number in numbers])
            assert rarely([not holds_zero(number) for number in numbers])
            assert abs(np.mean(values(numbers))) < 0.05

    def test_knowing_as_much_is_not_agreeing(self, made: RunMaker) -> None:
        """Each knows half of each relation, drawn by lot: the same accuracy, other facts."""
        data = world(EVEN)
        runs = [made(knowing(first_few(data, 0.5, seed), at_random(seed)), data) for seed in range(8)]
        found = [agreement_of([one, other], k=1) for place, one in enumerate(runs) for other in runs[:place]]
        assert rarely([not holds_zero(one.log_ranks) for one in found])
        assert rarely([significant(one.log_ranks) for one in found])
        # 28 pairs of halves meet in a quarter of the facts.
        assert np.mean([one.both_hit.value for one in found]) == pytest.approx(0.25, abs=0.03)

    def test_the_same_answers_agree_and_opposite_ones_do_the_opposite(self, made: RunMaker) -> None:
        """Right answers stand at ranks 1 to 20, and from the other end at 20 to 1."""
        one, same = made(constant, world(EVEN)), made(constant, world(EVEN))
        opposite = made(lambda *asked: [-score for score in constant(*asked)], world(EVEN))
        found, other = agreement_of([one, same]), agreement_of([one, opposite])
        assert values([found.ranks, found.log_ranks]) == pytest.approx([1, 1])
        ranks = np.arange(1, 21)
        logs = np.corrcoef(np.log10(ranks), np.log10(ranks[::-1]))[0, 1]
        assert values([other.ranks, other.log_ranks]) == pytest.approx([-1, logs])
        assert significant(other.log_ranks)
        # Within 10: the first ten for the one, the last ten for the other.
        assert quadrants(found) == [0.5, 0.5, 0, 0]
        assert quadrants(other) == [0, 0, 0.5, 0.5]

    def test_quadrants_tell_who_hits(self, made: RunMaker) -> None:
        """The first knows all; the second has five of twenty within 5, rank 5 itself among them."""
        found = agreement_of(
            [made(knowing({f"q{n:03}" for n in range(100)}), world(EVEN)), made(constant, world(EVEN))], k=5
        )
        assert quadrants(found) == [0.25, 0, 0.75, 0]

    def test_finding_the_same_relations_easy_is_not_knowing_the_same_facts(self, made: RunMaker) -> None:
        """Each knows 0 to all of five relations, which facts of these by lot: the ranks correlate over all relations,
        and not within them."""
        data = world(EVEN)
        shares = [0, 0.25, 0.5, 0.75, 1]
        runs = [made(knowing(shuffled_part(data, shares, seed)), data) for seed in range(8)]
        found = [agreement_of([one, other], k=1) for place, one in enumerate(runs) for other in runs[:place]]
        assert np.mean([one.log_ranks.value for one in found]) > 0.3
        assert rarely([significant(one.within) for one in found])
        assert np.mean([one.within.value for one in found]) == pytest.approx(0, abs=0.05)

    def test_within_relations_by_hand(self, made: RunMaker) -> None:
        """Ranks 1, 10 and 10, 100 of two relations by the one, 1, 10 and 1, 10 by the other: as far from the means of
        their relations, so r = 1; over all the logarithms 0, 1, 1, 2 and 0, 1, 0, 1 have r = √(1/2)."""
        data = world([[0]] * 4, relations=2, size=100)
        first, second = (made(by_ranks(ranks), data) for ranks in ((1, 10, 10, 100), (1, 10, 1, 10)))
        found = agreement_of([first, second])
        assert found.within.value == pytest.approx(1)
        assert found.log_ranks.value == pytest.approx(0.5**0.5)

    def test_a_search_that_stopped_leaves_no_correlation(self, made: RunMaker) -> None:
        """Ranks 1 to 10 of ten facts by both; the first run stopped the last one's search at rank 5.

        Within 5, five facts are hit by both and five by neither, the last among these.
        """
        data = world([[0]] * 10, relations=2)
        first, second = (made(by_ranks(range(1, 11)), data) for _ in range(2))
        rows = first.predictions().to_pylist()
        rows[9] |= dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), None) | {"rank_above": 5}
        (first.path / "predictions" / "part-0.parquet").unlink()
        first.add_shard("0", rows)
        for runs in ([first, second], [second, first]):
            found = agreement_of(runs, k=5)
            assert all(np.isnan(number.value) for number in found.correlations.values())
            assert all(mentioned(number.note, "--max-rank") for number in found.correlations.values())
            assert quadrants(found) == [0.5, 0.5, 0, 0]
            assert (found.stopped, found.left_out, len(found.points)) == (1, 0, 9)
            assert [point[1:] for point in found.points] == [(rank, rank) for rank in range(1, 10)]
        assert agreement_of([second, made(by_ranks(range(1, 11)), data)], k=5).ranks.value == pytest.approx(1)


def quadrants(found: Agreement) -> list[float]:
    return values([found.both_hit, found.both_miss, found.only_first, found.only_second])


def shuffled_part(data: QuerySet, shares: Sequence[float], seed: int) -> set[str]:
    """Ids of queries: of each relation its share, drawn by lot."""
    relations = dict.fromkeys(query.relation for query in data.queries)
    parts = ([query for query in data.queries if query.relation == relation] for relation in relations)
    return {
        id_
        for part, share in zip(parts, shares, strict=True)
        for id_ in first_few(replace(data, queries=tuple(part)), share, seed)
    }


def by_ranks(ranks: Sequence[int]) -> Answerer:
    """Puts what is right of each fact at its rank."""
    return lambda query, space, template: at_rank(ranks[int(query.id[1:])])(query, space, template)


# --- length bias: the rank of the right answer follows the length of its name


TWO_GOLDS = [[place, place + 1] for place in range(20) if place % 5 != 4] * 5
"""Two right answers to each fact, of n and n + 1 words; in half of the facts the shorter stands second."""


class TestLengthBias:
    def test_an_answerer_by_lot_has_none(self, made: RunMaker) -> None:
        """Of twenty answerers about one has an interval without zero."""
        found = length_bias([made(at_random(seed), world(EVEN), model=f"m{seed}") for seed in range(20)])
        for numbers in ([bias.ranks for bias in found], [bias.log_ranks for bias in found]):
            assert rarely([not holds_zero(number) for number in numbers])
            assert rarely([significant(number) for number in numbers])

    def test_by_lot_among_unequally_many_none_is_left_within_relations(self, made: RunMaker) -> None:
        """Fifty facts among four names of one word, fifty among twenty of up to five: lot ranks the former higher, as
        their rank is 2.5 on average, and not 10.5."""
        data = world([[number % 4 if number < 50 else number % 20] for number in range(100)], relations=2)
        few = CandidateSet("few", data.candidates["all"].ids[:4], tuple("wxyz"))
        queries = (replace(query, candidates="few" if query.relation == "r0" else "all") for query in data.queries)
        data = replace(data, queries=tuple(queries), candidates={**data.candidates, "few": few})
        found = length_bias([made(at_random(seed), data, model=f"m{seed}") for seed in range(20)])
        assert all(bias.ranks.value > 0.2 and not holds_zero(bias.ranks) for bias in found)
        assert rarely([not holds_zero(bias.within) for bias in found])
        [short] = length_bias([made(short_names_first, data, model="short")])
        assert short.within.value == pytest.approx(1)

    def test_a_constant_answerer_has_none(self, made: RunMaker) -> None:
        """It has its favourites, but they are as long as the others: r = 0."""
        [found] = length_bias([made(constant, world(EVEN))])
        assert found.ranks.value == pytest.approx(0, abs=1e-9)
        assert holds_zero(found.ranks)

    def test_it_has_the_sign_of_what_is_favoured(self, made: RunMaker) -> None:
        """Four names of each length are tied: ranks 2.5, 6.5, 10.5, 14.5, 18.5 on a line, up or down."""
        runs = [made(short_names_first, world(EVEN), model="short"), made(long_names_first, world(EVEN), model="long")]
        short, long = length_bias(runs)
        assert values([short.ranks, long.ranks]) == pytest.approx([1, -1])
        assert [row["median"] for row in short.by_tokens] == [2.5, 6.5, 10.5, 14.5, 18.5]
        assert [row["median"] for row in long.by_tokens] == [18.5, 14.5, 10.5, 6.5, 2.5]
        lengths, ranks = [1, 2, 3, 4, 5], np.log10([2.5, 6.5, 10.5, 14.5, 18.5])
        assert short.log_ranks.value == pytest.approx(np.corrcoef(lengths, ranks)[0, 1])

    def test_one_who_says_the_most_frequent_answer_is_above_it_at_no_length(self, made: RunMaker) -> None:
        """Eleven answers of twenty have one word, and eight of these are one answer, which it always says: right of 8
        in 11 of one word, as the majority is, and of nothing else, where lot is right of 1 in 20. Who knows all is
        above either at each length."""
        data = world([[0 if number % 20 < 8 else number % 20] for number in range(100)])
        every = {query.id for query in data.queries}
        runs = [
            made(answer, data, model="m", reading=reading)
            for answer, reading in ((constant, BY_TEMPLATE), (knowing(every), FREE))
        ]
        frequent, knows = length_bias(runs)
        assert (frequent.name, knows.name) == ("cloze sum/full m template-based", "cloze sum/full m template-free")
        assert frequent.by_tokens[0]["Acc@1"].value == pytest.approx(8 / 11)
        assert values([row["Acc@1"] for row in frequent.by_tokens[1:]]) == [0] * 4
        assert [row["Acc@1 baseline"] for row in frequent.by_tokens] == pytest.approx([8 / 11, *[1 / 20] * 4])
        assert not any(row["over baseline"].low > 0 for row in frequent.by_tokens)
        assert all(row["over baseline"].low > 0 for row in knows.by_tokens)

    @pytest.mark.parametrize("count", [None, lambda names: [len(name.split()) for name in names]])
    def test_the_length_is_that_of_the_answer_that_was_ranked(
        self, made: RunMaker, count: Callable[[list[str]], list[int]] | None
    ) -> None:
        """A fact with several right answers has the rank of the best one. Led by length, that is the shortest: r = 1,
        which the length of the first, or of the longest, would not give."""
        data = world(TWO_GOLDS)
        space = data.candidates["all"]
        words = [[len(space.name_of(id_).split()) for id_ in query.gold] for query in data.queries]
        assert [one - other for one, other in words] == [*[-1] * 4, *[1] * 4] * 10
        [found] = length_bias([made(short_names_first, data)], count_tokens=count)
        assert [tokens for _, tokens, _ in found.points] == [min(pair) for pair in words]
        assert found.ranks.value == pytest.approx(1)

    @pytest.mark.parametrize("count", [None, lambda names: [len(name.split()) for name in names]])
    def test_an_answer_that_cannot_be_scored_is_not_the_one_that_was_ranked(
        self, made: RunMaker, count: Callable[[list[str]], list[int]] | None
    ) -> None:
        """As where a probe scores names of one token alone: here all but those of one word are left out of the ranks,
        and every fact has a right answer of one word and one of three."""
        data = world([[[0, 9, 10, 19][n % 4], 2] if n % 2 else [2, [0, 9, 10, 19][n % 4]] for n in range(40)])

        def one_word(query: Query, space: CandidateSet, template: int) -> list[float]:
            scores = at_random(0)(query, space, template)
            return [score if " " not in name else math.nan for score, name in zip(scores, space.names, strict=True)]

        [found] = length_bias([made(one_word, data)], count_tokens=count)
        assert {tokens for _, tokens, _ in found.points} == {1}


# --- repeated: the same answers to everything


class TestRepeated:
    def test_a_constant_answerer_repeats_itself_throughout(self, made: RunMaker) -> None:
        """A hundred prompts have 1, 5 and 10 distinct answers among 100, 500 and 1000."""
        [found] = repeated([made(constant, world(EVEN))]).runs
        assert [found.about[f"distinct@{k}"] for k in (1, 5, 10)] == [1, 5, 10]
        shares = [found.about[f"distinct share@{k}"] for k in (1, 5, 10)]
        assert values(shares) == pytest.approx([1 / 100, 5 / 500, 10 / 1000])
        shares = [values(entity[f"top {k}"] for k in (1, 5, 10)) for entity in found.entities]
        assert shares == [[1, 1, 1], *[[0, 1, 1]] * 4, *[[0, 0, 1]] * 5]

    def test_an_answerer_by_lot_repeats_nothing(self, made: RunMaker) -> None:
        """Every candidate is first in about a twentieth of the prompts, and among ten in about half of them."""
        [found] = repeated([made(at_random(0), world(EVEN))]).runs
        assert [found.about[f"distinct@{k}"] for k in (1, 5, 10)] == [20, 20, 20]
        for k, expected in ((1, 1 / 20), (5, 5 / 20), (10, 10 / 20)):
            told = [entity[f"top {k}"].value for entity in found.entities]
            assert np.mean(told) == pytest.approx(expected)
            assert max(told) < expected + 0.2

    def test_one_who_knows_says_something_else_each_time(self, made: RunMaker) -> None:
        """Twenty facts with an answer each: no first answer repeats another."""
        data = world(EVEN[:20])
        [found] = repeated([made(knowing({query.id for query in data.queries}), data)]).runs
        assert found.about["distinct@1"] == 20
        assert found.about["distinct share@1"].value == 1

    def test_only_one_who_repeats_templates_changes_from_them_to_sentences(self, tmp_path: Path) -> None:
        """By template the same to everything, by sentence by lot: the overlap falls. By lot both times, and knowing
        both times, it stays: where right answers repeat, so do those of one who knows."""
        data = world(EVEN)
        every = {query.id for query in data.queries}
        ways = {
            "repeats": (constant, at_random(1)),
            "by lot": (at_random(2), at_random(3)),
            "knows": (knowing(every, at_random(4)), knowing(every, at_random(5))),
        }
        for name, (based, free) in ways.items():
            runs = [
                answered(tmp_path / f"{name} {reading}", answer, data, model=name, reading=reading)
                for reading, answer in (("template-based", based), ("template-free", free))
            ]
            first = repeated(runs).in_both[0].changes[0]
            # Each of twenty is right five times of a hundred.
            assert first["right answers"].value == pytest.approx(4 / 99)
            if name == "repeats":
                assert first["template-based"].value == pytest.approx(1)
                assert first["difference"].high < -0.9
            else:
                assert first["difference"].low <= 0 <= first["difference"].high

    @pytest.mark.parametrize(("changes", "holds"), [(False, True), (True, False)])
    def test_a_model_must_change_beyond_its_untrained_twin(self, changes: bool, holds: bool, tmp_path: Path) -> None:
        """By template a model says the same to everything, by sentence it answers at random; so does its twin, or not.

        The change is negative, and so is what is left of it beyond the twin's.
        """
        ways = {"trained": (constant, at_random(1)), "twin": (constant if changes else at_random(2), at_random(3))}
        runs = [
            answered(tmp_path / f"{name} {reading}", answer, world(EVEN), model=name, reading=reading)
            for name, answers in ways.items()
            for reading, answer in zip((BY_TEMPLATE, FREE), answers, strict=True)
        ]
        [decision] = repeated(runs, RepeatedOptions(untrained="twin")).decisions
        assert decision.holds == holds
        assert decision.sign == -holds


# --- pools: a larger answer pool costs accuracy


def crowded(answer: Answerer, score: float) -> Answerer:
    """Answers among the first ten candidates like another, and gives all further ones one *score*."""

    def crowd(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [*answer(query, space.keep(range(10)), template), *[score] * (len(space) - 10)]

    return crowd


def paired(runs: Sequence[RunFolder]) -> tuple[ComparedPair, list[Estimate]]:
    """The pair of two runs, and its differences of Acc@1, Acc@5 and Acc@10."""
    [pair] = compare(runs, metrics=("accuracy", "hits@5", "hits@10")).pairs
    return pair, [one.number for one in pair.differences]


class TestPools:
    few, many = (world([[number % 10] for number in range(100)], size=size) for size in (10, 20))

    @pytest.mark.parametrize("answer", [constant, at_random(1)])
    def test_candidates_that_are_never_chosen_cost_nothing(self, made: RunMaker, answer: Answerer) -> None:
        pair, found = paired([made(crowded(answer, -1000), data) for data in (self.few, self.many)])
        assert pair.differs == ("answer pools (10 and 20 candidates)",)
        assert values(found) == [0, 0, 0]
        assert [number.p_value for number in found] == [1, 1, 1]

    def test_candidates_that_beat_the_answer_cost_it(self, made: RunMaker) -> None:
        """Right answers at ranks 1 to 10 come to stand at 11 to 20, in whatever order the runs are named."""
        runs = [made(crowded(constant, 1000), data) for data in (self.few, self.many)]
        for order, sign in ((runs, 1), (runs[::-1], -1)):
            pair, found = paired(order)
            assert values(found) == pytest.approx([sign * 0.1, sign * 0.5, sign * 1])
            assert all(significant(number) for number in found)
            assert pair.decision.sign == sign


# --- readings: the same facts asked by sentences and by templates differ


class TestReadings:
    data = world(EVEN)

    def asked(self, made: RunMaker, free: Answerer, based: Answerer) -> list[Estimate]:
        pair, found = paired([made(free, self.data, reading=FREE), made(based, self.data, reading=BY_TEMPLATE)])
        assert pair.differs == (f"readings ({FREE} and {BY_TEMPLATE})",)
        return found

    @pytest.mark.parametrize("answer", [constant, at_random(0), by_frequency_in(world(EVEN))])
    def test_one_who_does_not_heed_the_wording_shows_none(self, made: RunMaker, answer: Answerer) -> None:
        found = self.asked(made, answer, answer)
        assert values(found) == [0, 0, 0]
        assert [number.p_value for number in found] == [1, 1, 1]

    def test_answers_by_lot_differ_by_chance_alone(self, made: RunMaker) -> None:
        found = [self.asked(made, at_random(seed), at_random(100 + seed)) for seed in range(20)]
        for numbers in zip(*found, strict=True):
            assert rarely([significant(number) for number in numbers])
            assert rarely([not holds_zero(number) for number in numbers])

    def test_the_reading_that_is_answered_better_is_told(self, made: RunMaker) -> None:
        """By sentences 12 of 20 facts of each relation, by templates 7 of them: 0.6 − 0.35, and the other way round."""
        more, less = (knowing(known_of(self.data, [share])) for share in (0.6, 0.35))
        assert values(self.asked(made, more, less)) == pytest.approx([0.25] * 3)
        found = self.asked(made, less, more)
        assert values(found) == pytest.approx([-0.25] * 3)
        assert all(significant(number) and not holds_zero(number) for number in found)


# --- relations: two data sets are as hard, and the same relations are


def of_shares(made: RunMaker, shares: Sequence[float], each: Sequence[int], name: str) -> RunFolder:
    """The run of a model that knows such shares of the relations of a data set."""
    data = world([[number % 20] for number in range(sum(each))], each=each, name=name)
    return made(knowing(known_of(data, shares)), data)


class TestRelations:
    falling = (1, 0.8, 0.6, 0.4, 0.2)

    def test_the_same_knowledge_makes_no_difference(self, made: RunMaker) -> None:
        """However many facts of each relation were drawn: over facts, shares would be 32/60 and 58/80."""
        drawn = {"D": (10, 10, 10, 10, 20), "E": (30, 20, 10, 10, 10)}
        runs = [of_shares(made, self.falling, each, name) for name, each in drawn.items()]
        [found] = relations(runs).models
        assert values([found["D"], found["E"]]) == pytest.approx([0.6, 0.6])
        assert found["difference"].value == pytest.approx(0)
        assert holds_zero(found["difference"])
        assert not significant(found["difference"])
        assert found["Pearson r"].value == pytest.approx(1)

    def test_relations_known_by_lot_do_not_agree_and_are_as_hard(self, made: RunMaker) -> None:
        """Twelve relations of which each data set's model knows shares of its own: of fifteen pairs about one differs,
        or correlates."""
        lot = np.random.default_rng(0)
        found = []
        for _ in range(15):
            runs = [of_shares(made, lot.uniform(size=12).tolist(), (10,) * 12, name) for name in "DE"]
            found += relations(runs).models
        assert rarely([significant(model["difference"]) for model in found])
        assert rarely([not holds_zero(model["difference"]) for model in found])
        assert rarely([significant(model["Pearson r"]) for model in found])
        assert rarely([not holds_zero(model["Pearson r"]) for model in found])

    def test_the_harder_data_set_is_told(self, made: RunMaker) -> None:
        """D is 0.2 better in each relation: D − E is 0.2, E − D −0.2, and the relations are as hard: r = 1."""
        easy = of_shares(made, self.falling, (10,) * 5, "D")
        hard = of_shares(made, [share - 0.2 for share in self.falling], (10,) * 5, "E")
        [found], [other] = relations([easy, hard]).models, relations([hard, easy]).models
        assert (found["difference"].value, other["difference"].value) == pytest.approx((0.2, -0.2))
        assert found["Pearson r"].value == pytest.approx(1)

    def test_where_other_relations_are_hard_the_correlation_says_so(self, made: RunMaker) -> None:
        """Shares in steps of 0.2 around their mean: turned round r = −1 and no difference; with the first two exchanged
        r = (0.4·0.2 + 0.2·0.4 + 0 + 0.2·0.2 + 0.4·0.4) / (2·0.4² + 2·0.2²) = 0.36 / 0.4."""
        first = of_shares(made, self.falling, (10,) * 5, "D")
        for shares, r in ((self.falling[::-1], -1), ((0.8, 1, 0.6, 0.4, 0.2), 0.9)):
            [found] = relations([first, of_shares(made, shares, (10,) * 5, "E")]).models
            assert found["Pearson r"].value == pytest.approx(r)
            assert found["difference"].value == pytest.approx(0)


# --- rankings: templates and sentences rank models alike


class TestRankings:
    data = world(EVEN)

    def ranked(self, made: RunMaker, based: Sequence[Answerer], free: Sequence[Answerer]) -> rankings.Rankings:
        return rankings.analyse(
            [
                made(answer, self.data, model=f"m{number}", reading=reading)
                for reading, answers in ((BY_TEMPLATE, based), (FREE, free))
                for number, answer in enumerate(answers)
            ]
        )

    def test_equal_models_share_a_place_and_have_no_ranking(self, made: RunMaker) -> None:
        found = self.ranked(made, [constant] * 3, [at_random(0)] * 3)
        assert [[score.place for score in column.scores] for column in found.columns] == [[2, 2, 2], [2, 2, 2]]
        [agreed] = found.agreements
        assert math.isnan(agreed["Kendall's tau-b"].value)
        assert math.isnan(agreed["Spearman's rho"].value)
        assert agreed["Kendall's tau-b"].low is None

    @pytest.mark.slow
    def test_rankings_by_lot_do_not_agree(self, made: RunMaker) -> None:
        """Models of which each knows every fact by the toss of a coin are as good as one another: how they rank is
        chance, by template and by sentence, and the interval of their agreement says so."""
        for seed in range(6):
            sides = ([knowing(tossed(self.data, seed, side, model)) for model in range(3)] for side in (0, 1))
            [agreed] = self.ranked(made, *sides).agreements
            assert holds_zero(agreed["Kendall's tau-b"])

    def test_rankings_that_are_alike_or_opposite_are_told(self, made: RunMaker) -> None:
        """Shares of 0.8, 0.6, 0.4 and 0.2 keep their order in nearly every resample of a hundred facts."""
        models = [knowing(first_few(self.data, share, 7)) for share in (0.8, 0.6, 0.4, 0.2)]
        alike, opposite = self.ranked(made, models, models), self.ranked(made, models, models[::-1])
        assert [[score.place for score in column.scores] for column in opposite.columns] == [[1, 2, 3, 4], [4, 3, 2, 1]]
        for found, sign in ((alike, 1), (opposite, -1)):
            [agreed] = found.agreements
            assert values([agreed["Kendall's tau-b"], agreed["Spearman's rho"]]) == pytest.approx([sign, sign])
            assert not holds_zero(agreed["Kendall's tau-b"])


# --- perplexity: what is foreseen better is answered better


class TestPerplexity:
    data = world(EVEN)

    def related(self, made: RunMaker, points: Sequence[tuple[float, float]]) -> Estimate:
        """:param points: perplexity of a model, and its accuracy."""
        runs = [
            made(knowing(known_of(self.data, [accuracy])), self.data, model=f"m{number}", perplexity=told)
            for number, (told, accuracy) in enumerate(points)
        ]
        found = perplexity(runs)
        assert [p["perplexity"].value for p in found.points] == pytest.approx([told for told, _ in points])
        assert [p["Acc@1"].value for p in found.points] == pytest.approx([accuracy for _, accuracy in points])
        return found.related[0]["Pearson r"]

    def test_accuracy_that_has_nothing_to_do_with_it_is_not_related(self, made: RunMaker) -> None:
        """Perplexities 2 to 5 of models as good in the middle as they are bad at the ends, and the other way round:
        r = 0. The models were chosen, so that nothing is concluded of others."""
        for accuracies in ((0.2, 0.8, 0.8, 0.2), (0.8, 0.2, 0.2, 0.8)):
            found = self.related(made, list(zip((2, 3, 4, 5), accuracies, strict=True)))
            assert found.value == pytest.approx(0, abs=1e-9)
            assert (found.low, found.high, found.p_value) == (None, None, None)
            assert mentioned(found.note, "no interval", "models", "chosen")

    @pytest.mark.parametrize(("accuracies", "sign"), [((0.8, 0.6, 0.4, 0.2), -1), ((0.2, 0.4, 0.6, 0.8), 1)])
    def test_accuracy_that_falls_with_it_has_the_negative_sign(
        self, made: RunMaker, accuracies: Sequence[float], sign: int
    ) -> None:
        """On the line of perplexities 2, 3, 4, 5 r is −1; of perplexities themselves, not of their logarithms: with 2,
        4, 8, 16 the deviations −5.5, −3.5, 0.5, 8.5 and 1.5, 0.5, −0.5, −1.5 have r = −23 / √(115 · 5)."""
        assert self.related(made, list(zip((2, 3, 4, 5), accuracies, strict=True))).value == pytest.approx(sign)
        curved = self.related(made, list(zip((2, 4, 8, 16), accuracies, strict=True)))
        assert curved.value == pytest.approx(sign * 23 / math.sqrt(115 * 5))

"""Baselines beside results: by hand, against all orders, and what their verdict says of answerers that know nothing."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fathom.results.baselines import (
    BaselineComparison,
    BaselineRanks,
    RandomOrder,
    RunBaselines,
    _ranks_of_means,
    above_chance,
    baselines,
    verdict_text,
    which_is_above,
    why_no_names,
)
from fathom.results.claims import OPPOSITE, SIGNIFICANT, UNDETERMINED, Decision, decide
from fathom.results.estimates import against_baseline, difference, point_estimate
from fathom.results.loading import read_runs
from fathom.results.metrics.table import metric
from fathom.results.rows import Rows
from fathom.results.samples import Sample
from fathom.results.summary import summarise
from tests.answerers import answered, at_random, knowing, known_of, world
from tests.studies.test_report import ROWS, Fake, scored


@pytest.mark.parametrize(("others", "golds"), [(3, 1), (3, 2), (1, 3), (0, 2), (4, 1)])
def test_by_lot_is_the_mean_over_all_orders(others, golds):
    """The best gold answer's rank counts those that are not gold before it."""
    orders = permutations(range(others + golds))  # the first of them are gold
    ranks = [1 + min(map(order.index, range(golds))) for order in orders]
    found = RandomOrder(np.array([others, others]), np.array([golds, golds]))
    for k in (1, 2, 10):
        assert found.hits(k).tolist() == pytest.approx([np.mean([rank <= k for rank in ranks])] * 2)
    assert found.reciprocal()[0] == pytest.approx(np.mean([1 / rank for rank in ranks]))


def test_without_candidates_nothing_is_by_lot():
    assert np.isnan(RandomOrder(np.array([0.0, 1.0]), np.array([0.0, 1.0])).hits(1)).tolist() == [True, False]


def rows(**more):
    """Relation r: right answers a, a, b, and of subject s4 both a and c; x of another relation."""
    about = {
        "relations": ["r"] * 5 + ["t"],
        "directions": ["tail"] * 6,
        "gold": [["a"], ["a"], ["b"], ["a"], ["c"], ["x"]],
        "subjects": ["s1", "s2", "s3", "s4", "s4", "s5"],
        "spaces": ["r"] * 5 + ["t"],
        "candidates": {"r": (["a", "b", "c", "d"], ["A", "B", "C", "D"]), "t": (["x", "y"], ["X", "Y"])},
        "query": np.arange(6),
        "filtered": [0, 0, 0, 1, 1, 0],
        "known": [[], [], [], ["c"], ["a"], []],
        "number_of_candidates": np.array([4.0] * 5 + [2.0]),
        "natural": False,
        "scored": np.ones(6, dtype=bool),
        "scores": lambda place: np.array([]),
        "unit": np.arange(6),
        "not_ranked": [None] * 6,
        "groups": [{}] * 6,
        "template": np.zeros(6, dtype=int),
        "scoring": ["sum/full"] * 6,
        "gold_places": lambda place: [0],
    }
    about |= more
    about.setdefault("by_frequency", np.full((2, len(about["gold"])), np.nan))
    if len(about["known"]) != len(about["gold"]):
        about["known"] = [[] for _ in about["gold"]]
    found = SimpleNamespace(**about)

    def places(place, ids):
        order = found.candidates[found.spaces[found.query[place]]][0]
        return [order.index(id_) for id_ in ids if id_ in order]

    found.candidate_places = places
    return found


def test_majority_by_hand():
    """a is right three times, b and c once; each fact is judged by the others. a: twice elsewhere, first. b: nowhere
    else, behind a, level with c (once) and d: 2 to 4. a of s4, whose c is filtered: first. c of s4, whose a is
    filtered: level with b and d: 1 to 3. x is alone in its relation: nothing is known."""
    found = baselines(rows(gold=[["a"], ["a"], ["b"], ["a"], ["c"], ["x"]]))["majority"]
    assert found.hits(1)[:5].tolist() == pytest.approx([1, 1, 0, 1, 1 / 3])
    assert found.hits(3)[:5].tolist() == pytest.approx([1, 1, 2 / 3, 1, 1])
    ties = [(1 / 2 + 1 / 3 + 1 / 4) / 3, (1 + 1 / 2 + 1 / 3) / 3]
    assert found.reciprocal()[:5].tolist() == pytest.approx([1, 1, ties[0], 1, ties[1]])
    assert np.isnan(found.hits(1)[5])


def test_answers_that_differ_by_one_are_level():
    """Eleven a and ten b: nobody knows which is the more frequent; of eleven and nine a is."""
    for others, first in ((10, [0.5] * 21), (9, [1] * 11 + [0] * 9)):
        golds = ["a"] * 11 + ["b"] * others
        assert baselines(alone_in_relation(golds))["majority"].hits(1).tolist() == pytest.approx(first)


def test_baselines_of_several_golds_by_hand():
    """Each query has four candidates, d is never right. Random: 1 or 2 of 4; two of four are both missed by two draws
    in one case of six. a is right four times: it is first wherever it is among the golds, though listed last. c of the
    fourth fact, right once elsewhere, is behind a and level with b and d: 2 to 4."""
    found = baselines(alone_in_relation([["b", "a"], "a", "a", "c", ["c", "a"]], "abcd"))
    assert found["random"].hits(1).tolist() == pytest.approx([1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 2])
    assert found["random"].hits(2).tolist() == pytest.approx([5 / 6, 1 / 2, 1 / 2, 1 / 2, 5 / 6])
    assert found["majority"].hits(1).tolist() == pytest.approx([1, 1, 1, 0, 1])
    assert found["majority"].hits(2)[3] == pytest.approx(1 / 2)


def alone_in_relation(golds, names="abc"):
    """:param golds: one letter each, or a list of several."""
    count = len(golds)
    return rows(
        relations=["r"] * count,
        directions=["tail"] * count,
        gold=[[*gold] for gold in golds],
        subjects=[f"s{n}" for n in range(count)],
        spaces=["r"] * count,
        candidates={"r": ([*names], [*names.upper()])},
        query=np.arange(count),
        filtered=[0] * count,
        known=[[]] * count,
        number_of_candidates=np.full(count, float(len(names))),
        scored=np.ones(count, dtype=bool),
        unit=np.arange(count),
        not_ranked=[None] * count,
    )


def test_majority_is_no_better_than_lot_where_all_answers_are_as_frequent():
    """Two of each of three: each is right once elsewhere, the others twice; and one of each: nowhere else, the others
    once."""
    for golds in (["a", "b", "c"] * 2, ["a", "b", "c"]):
        assert baselines(alone_in_relation(golds))["majority"].hits(1).tolist() == pytest.approx([1 / 3] * len(golds))


def test_majority_of_written_answers_writes_what_was_right_elsewhere():
    """Without candidates, what is right nowhere else is never written."""
    found = baselines(rows(spaces=[None] * 6, candidates={}))["majority"]
    assert found.hits(1).tolist() == pytest.approx([1, 1, 0, 1, 0, np.nan], nan_ok=True)
    assert found.reciprocal()[2] == pytest.approx(0, abs=1e-8)


def test_majority_ranks_what_the_probe_ranked():
    """b could not be ranked for c of s4: c is level with d alone, so 1 or 2; without scores nobody knows."""

    def scores(place):
        return np.array([0.0, -np.inf, 0.0, 0.0])

    lacking = [None] * 4 + ["digest", None]
    assert baselines(rows(scores=scores, not_ranked=lacking))["majority"].hits(1)[4] == 0.5
    assert np.isnan(baselines(rows(not_ranked=lacking))["majority"].hits(1)[4])


def test_ngrams_are_told_among_the_candidates_that_the_data_were_built_with():
    """Four candidates each, two of t: places "of 4" hold for the first, those of another pool for none."""
    groups = [{"n-gram": "1 of 4"}, {"n-gram": "2-4 of 4", "n-gram among all": "3-5 of 6"}, {"n-gram": "1 of 9"}]
    groups += [{"n-gram": "1 of 7", "n-gram among all": "2 of 4"}, {}, {"n-gram": "1-2 of 2"}]
    found = baselines(rows(groups=groups))["n-gram"]
    assert found.hits(1).tolist() == pytest.approx([1, 0, np.nan, 0, np.nan, 1 / 2], nan_ok=True)
    assert found.hits(3)[1] == pytest.approx(2 / 3)
    assert "n-gram" not in baselines(rows())


def test_an_ngram_rank_is_at_most_the_number_of_ranked_candidates():
    """The probe ranked three of four candidates: rank 4 is then 3, and ranks 2 to 4 are 2 to 3, of which half are
    within 2. Where it wrote answers, rank 4 stays 4: no answer is right because none was ranked."""
    groups = [{"n-gram": "4 of 4"}, {"n-gram": "2-4 of 4"}, {"n-gram": "4 of 4"}, {}, {}, {}]
    ranked = np.array([3.0, 3.0, 0.0, 4.0, 4.0, 2.0])
    found = baselines(rows(groups=groups, number_of_candidates=ranked))["n-gram"]
    assert found.hits(3)[:3].tolist() == pytest.approx([1, 1, 0])
    assert found.hits(2)[:3].tolist() == pytest.approx([0, 1 / 2, 0])
    assert found.reciprocal()[:3].tolist() == pytest.approx([1 / 3, (1 / 2 + 1 / 3) / 2, 1 / 4])


def test_by_lot_leaves_out_what_is_filtered():
    assert baselines(rows())["random"].hits(1).tolist() == pytest.approx([1 / 4] * 3 + [1 / 3] * 2 + [1 / 2])


def test_names_by_hand():
    """Scores of a, b, c of three queries. Without the first the means are 1, 2, 0.5: its gold answer a is second.
    Without the second 3, 1, 0.5: b is second; without the third 2, 2, 1: c is third. A query alone has no other."""
    scores = [[4.0, 1.0, 1.0], [0.0, 3.0, 1.0], [2.0, 1.0, 0.0], [1.0, 2.0]]
    alike = rows(
        relations=["r", "r", "r", "t"],
        directions=["tail"] * 4,
        gold=[["a"], ["b"], ["c"], ["x"]],
        subjects=["s1", "s2", "s3", "s4"],
        spaces=["r", "r", "r", "t"],
        candidates={"r": (["a", "b", "c"], ["A", "B", "C"]), "t": (["x", "y"], ["X", "Y"])},
        query=np.arange(4),
        filtered=[0] * 4,
        number_of_candidates=np.array([3.0, 3.0, 3.0, 2.0]),
        scored=np.ones(4, dtype=bool),
        template=np.zeros(4, dtype=int),
        scoring=["sum/full"] * 4,
        scores=lambda place: np.array(scores[place]),
        unit=np.arange(4),
        not_ranked=[None] * 4,
        gold_places=lambda place: [[0], [1], [2], [0]][place],
    )
    found = baselines(alike)["names"]
    assert found.reciprocal().tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 3, np.nan], nan_ok=True)
    scores[0][2] = -np.inf  # not ranked: it takes no part
    assert baselines(alike)["names"].hits(2)[0] == 1
    alike.natural = True  # each asked by a sentence of its own
    assert np.isnan(baselines(alike)["names"].hits(1)).all()
    alike.natural = False
    scores[0][0] = -np.inf  # the right answer was not ranked
    assert np.isnan(baselines(alike)["names"].hits(2)[0])


def test_ranks_of_ties():
    found = BaselineRanks(np.array([[1.0, np.nan], [4.0, np.nan]]))
    assert found.hits(1).tolist() == pytest.approx([1 / 4, np.nan], nan_ok=True)
    assert found.reciprocal().tolist() == pytest.approx([(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, np.nan], nan_ok=True)


def test_they_stand_beside_the_numbers_with_a_verdict():
    """Random: 1/3, 1/3 of R1 and 1/2 of R2. By template (1/3 + 1/3 + 1/2) / 3 and 1/3: mean 13/36. Majority: y is
    alone in R2, so that it is not told."""
    [line] = summarise(Fake(ROWS)).headlines
    told = {one.baseline: one for one in line.baselines["accuracy"]}
    assert told["random"].value == pytest.approx(13 / 36)
    assert told["random"].difference.value == pytest.approx(17 / 24 - 13 / 36)
    assert told["random"].difference.recipe.startswith("accuracy − random|data:Mini@3f2a|")
    assert "majority: 4 of 5" in told["majority"].difference.note
    assert line.verdict("accuracy").startswith("cannot be determined")  # of three facts of one subject
    assert line.verdict("mean_rank") is None
    table = summarise(Fake(ROWS), every=True).tables[0]
    assert sum(note.startswith("baselines: random: guessing; majority: ") for note in table.notes) == 1
    verdicts = {row[1]: row[table.columns.index("verdict")] for row in table.rows}
    assert verdicts["accuracy"] == line.verdict("accuracy")
    assert verdicts["brier"] is None


def many(answer):
    """Thirty queries of R1 by one template: gold is a, b or c in turn, and *answer* says what stands first."""
    golds = ["a", "b", "c"] * 10
    queries = [(f"q{n}", "R1", gold, {}) for n, gold in enumerate(golds)]
    made = []
    for n, gold in enumerate(golds):
        first = answer(n, gold)
        probabilities = [0.8 if name == first else 0.1 for name in "abc"]
        rank = 1 if first == gold else 2
        made.append(scored(f"q{n}", 0, probabilities, rank, rank if rank == 1 else 3))
    fake = Fake(made)
    fake.queries_table = queries
    return fake


def test_where_no_value_differs_luck_is_not_above(monkeypatch):
    """Nine hits of nine among ten of eleven candidates, by guessing 0.91 each: 0.91⁹ = 0.48 is no wonder. Half of it
    counts on either side. At a chance of q⁹ / 2 = 0.025 it would be."""
    fake = many(lambda n, gold: gold)
    fake.rows = fake.rows[:9]
    monkeypatch.setattr("tests.studies.test_report.QUERIES", fake.queries_table[:9])
    monkeypatch.setattr(Fake, "queries", _each_of_its_own_subject(Fake.queries))
    chance = np.full(9, 10 / 11)
    chance[0] = 1.0
    rows = Rows(fake)
    value, found = against_baseline(rows, metric("accuracy"), np.arange(9), chance, "random", fixed=True)
    assert value == pytest.approx(chance.mean())
    assert found.value == pytest.approx(1 - chance.mean())
    assert found.low == pytest.approx(0.05 ** (1 / 9) - chance.mean())
    assert found.high == pytest.approx(1 - chance.mean())
    assert found.p_value == pytest.approx(chance.mean() ** 9)


def test_outcomes_of_a_baseline_are_paired(monkeypatch):
    """Of nine hits the baseline has the first six: three facts differ, McNemar's z is √3 of as many pairs as there are,
    less one. Expected shares of two thirds would not differ by the facts that they are of."""
    fake = many(lambda n, gold: gold)
    fake.rows = fake.rows[:9]
    monkeypatch.setattr("tests.studies.test_report.QUERIES", fake.queries_table[:9])
    monkeypatch.setattr(Fake, "queries", _each_of_its_own_subject(Fake.queries))
    outcomes = np.array([1.0] * 6 + [0.0] * 3)
    rows = Rows(fake)
    value, found = against_baseline(rows, metric("accuracy"), np.arange(9), outcomes, "majority", fixed=False)
    assert (value, found.value) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    pairs, degrees = 8, 8
    assert found.p_value == pytest.approx(2 * stats.t.sf(np.sqrt(pairs / 3), degrees))
    assert found.high < 1
    value, found = against_baseline(rows, metric("accuracy"), np.arange(9), outcomes, "random", fixed=True)
    assert value == pytest.approx(2 / 3)
    assert found.p_value == pytest.approx((2 / 3) ** 9)


def test_frequency_takes_the_place_of_majority_on_graphs():
    """The run says where the training split's frequencies put each gold answer: first, second or third, unknown."""
    ranks = np.array([[1.0, 2.0, np.nan, 1.0, 1.0, 1.0], [1.0, 3.0, np.nan, 4.0, 1.0, 2.0]])
    found = baselines(rows(by_frequency=ranks))
    assert "majority" not in found
    assert found["frequency"].hits(1).tolist() == pytest.approx([1, 0, np.nan, 1 / 4, 1, 1 / 2], nan_ok=True)
    assert found["frequency"].hits(2)[1] == 1 / 2


def test_names_are_filtered_as_the_ranking_is():
    """b is another right answer of the first query, and above its gold a among the other queries' means."""
    scores = [[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [1.0, 2.0, 0.0]]
    alike = rows(
        relations=["r"] * 3,
        directions=["tail"] * 3,
        gold=[["a"], ["a"], ["a"]],
        subjects=["s1", "s2", "s3"],
        spaces=["r"] * 3,
        candidates={"r": (["a", "b", "c"], ["A", "B", "C"])},
        query=np.arange(3),
        filtered=[1, 0, 1],
        known=[["b"], [], None],  # the last run does not record which
        number_of_candidates=np.full(3, 3.0),
        scored=np.ones(3, dtype=bool),
        template=np.zeros(3, dtype=int),
        scoring=["sum/full"] * 3,
        scores=lambda place: np.array(scores[place]),
        unit=np.arange(3),
        not_ranked=[None] * 3,
    )
    assert baselines(alike)["names"].hits(1).tolist() == pytest.approx([1, 0, np.nan], nan_ok=True)


def test_verdicts_in_words():
    def verdict(missing="", **p_values):
        """:param p_values: of differences that are above 0, below 0 where p is negative."""
        found = [
            BaselineComparison(
                name, 0.0, point_estimate("no interval", value=0.1)._replace(p_value=p and abs(p), low=p and -1.0, n=9)
            )
            for name, p in p_values.items()
        ]
        below = [
            one._replace(difference=one.difference._replace(value=-0.1)) if (p_values[one.baseline] or 0) < 0 else one
            for one in found
        ]
        claim = above_chance("it", below, missing)
        return verdict_text(decide({"it": claim}).get("it"))

    assert verdict(random=0.01, majority=0.01) == "above"
    # Below one baseline: 2 · 0.01, as either of two could have been.
    assert verdict(random=-0.01, majority=0.01) == "below random"
    assert verdict(random=-0.03, majority=0.01) == "not above random"
    assert verdict(random=-0.03) == "below random"
    assert verdict(random=0.2, majority=0.01, names=None) == "not above random"
    # A baseline that cannot be tested does not count, unless it is the only one.
    assert verdict(random=0.01, names=None) == "above"
    assert verdict(random=0.2, names=None) == "not above random"
    assert verdict(names=None) == "cannot be determined: names: no interval"
    assert "no split" in verdict("no split", random=0.01)
    assert verdict() is None


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (lambda n, gold: gold, "above"),
        (lambda n, gold: "a", "not above random, majority, names"),
        (lambda n, gold: "abc"[(n * 7 + n // 3) % 3], "not above random, majority, names"),
    ],
    ids=["knowing", "constant", "by lot"],
)
def test_who_knows_nothing_is_not_above(answer, verdict, monkeypatch):
    fake = many(answer)
    monkeypatch.setattr("tests.studies.test_report.QUERIES", fake.queries_table)
    monkeypatch.setattr(Fake, "queries", _each_of_its_own_subject(Fake.queries))
    [line] = summarise(fake).headlines
    assert line.verdict("accuracy") == verdict


def test_a_model_below_a_baseline_is_said_to_be(tmp_path):
    """Each relation's most frequent answer is right in two facts of five; the model knows one of ten."""
    data = world([[0] if n % 5 < 2 else [1 + n % 19] for n in range(100)])
    [said] = summarise(answered(tmp_path / "a", knowing(known_of(data, [0.1])), data)).answer
    assert "queries correctly, below the majority baseline (random 5.0 %, majority 40.0 %" in said


def _each_of_its_own_subject(queries):
    def made(self):
        table = queries(self)
        for name in ("subject_id", "fact_id"):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, [[f"{name}{n}" for n in range(len(table))]])
        return table

    return made


def test_means_of_names_leave_out_what_is_not_ranked() -> None:
    """Of the first query's others one ranked a, with −3, and b has the mean −4; the second ranks b alone; of the third
    a has −1 and b −5.5."""
    scores = np.array([[-1.0, -9.0], [-np.inf, -2.0], [-3.0, -6.0]])
    ranks = _ranks_of_means(scores, [[0], [1], [0]], [[], [], []])
    assert ranks.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_missing_baseline_by_names_has_a_reason(tmp_path: Path) -> None:
    """More than a thousand candidates, so that their scores are not kept."""
    small, large = (world([[number % 20] for number in range(20)], relations=2, size=size) for size in (20, 1001))
    told = [summarise(answered(tmp_path / str(n), at_random(n), data)).notes for n, data in enumerate((small, large))]
    assert not any("no baseline by names" in note for note in told[0])
    assert any("no baseline by names" in note for note in told[1])


def test_names_of_some_queries_alone_are_not_missing() -> None:
    """A query alone in its relation has no names baseline; only without any there is a reason to give."""
    ranked = {"names": BaselineRanks(np.array([[1.0, np.nan], [1.0, np.nan]]))}
    counts = {"number_of_candidates": np.array([4.0, 0.0]), "natural": False}
    assert why_no_names(SimpleNamespace(**counts), ranked) == ""
    none = {"names": BaselineRanks(np.full((2, 2), np.nan))}
    assert why_no_names(SimpleNamespace(**counts), none).startswith("no baseline by names")
    counts["number_of_candidates"] = np.zeros(2)  # written answers
    assert why_no_names(SimpleNamespace(**counts), none) == ""


def test_a_baseline_of_some_facts_is_compared_on_these(tmp_path: Path) -> None:
    """c00 is right in four facts of one relation and in the only one of another, which has no majority.

    The majority has four of four right. The answerer has three of these right, and the fifth: 3/4 − 4/4.
    """
    data = world([[0]] * 5, each=[4, 1])
    run = answered(tmp_path / "run", knowing({"q000", "q001", "q002", "q004"}), data)
    [facts] = read_runs([run], (), "", lambda one: one, fewest=1)
    found = RunBaselines(facts)
    compared = {one.baseline: one for one in found.compare(1, facts.facts)}
    assert (compared["majority"].value, compared["majority"].difference.n) == (1, 4)
    assert compared["majority"].difference.value == pytest.approx(-1 / 4)
    assert (compared["random"].value, compared["random"].difference.n) == (pytest.approx(1 / 20), 5)
    assert compared["random"].difference.value == pytest.approx(4 / 5 - 1 / 20)
    strongest = found.strongest(1, facts.facts)
    assert strongest is not None
    assert strongest.baseline == "majority"
    assert found.known(facts.facts) == facts.facts[4:]  # what the majority has right as well is not known


def test_which_of_two_models_is_above_the_baselines() -> None:
    """Twenty differences of 1 are above, of −1 below; without an estimate it is unknown."""

    def decided(value: float | None) -> Decision:
        number = None if value is None else difference([value] * 20, [0.0] * 20, Sample("fact"), "")
        return decide({"": above_chance("", [BaselineComparison("names", 0, number)])})[""]

    above, below, unknown = decided(1.0), decided(-1.0), decided(None)
    assert [above.word, below.word, unknown.word] == [SIGNIFICANT, OPPOSITE, UNDETERMINED]
    assert which_is_above([above, above], ("a", "b")) == "both"
    assert which_is_above([above, below], ("a", "b")) == "a"
    assert which_is_above([below, above], ("a", "b")) == "b"
    assert which_is_above([below, below], ("a", "b")) == "neither"
    for one in (unknown, None):
        assert which_is_above([above, one], ("a", "b")) is which_is_above([one, above], ("a", "b")) is None

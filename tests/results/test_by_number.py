"""Break-downs by a number, with their trend, and consistency over templates and languages: values by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

from fathom.api.result import Result
from fathom.base.errors import BadInput
from fathom.results.answers import consistency_table
from fathom.results.bins import parse_bins, parse_number
from fathom.results.metrics import ranking
from fathom.results.metrics.ranking import rankc_by_chance, top_chances
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from tests.messages import mentioned, mentions
from tests.studies.test_report import Fake, scored, unscored

E = math.e
Z3 = E**2 + E + 1


def rankc(first, second):
    return ranking.rankc(top_chances(first), top_chances(second))


class QueryRun(Fake):
    """A run of queries of one's own: (id, fact, relation, groups), the first candidate right.

    A fact "f1.R" is about the subject "f1".
    """

    def __init__(
        self,
        queries: Sequence[tuple[str, str, str, Mapping[str, str]]],
        rows: Sequence[Mapping[str, Any]],
        **spaces: Any,
    ) -> None:
        super().__init__(rows)
        self.asked = queries
        self.spaces = spaces or {"S": (["a", "b", "c"], ["Aachen", "Bonn", "Celle"])}

    def queries(self) -> pa.Table:
        groups = [list(one[3].items()) for one in self.asked]
        return pa.table({
            "query_id": [one[0] for one in self.asked],
            "fact_id": [one[1] for one in self.asked],
            "relation": [one[2] for one in self.asked],
            "direction": ["tail"] * len(self.asked),
            "subject_id": [one[1].partition(".")[0] for one in self.asked],
            "gold": pa.array([["a"]] * len(self.asked), pa.list_(pa.string())),
            "candidates": [one[3].get("space", "S") for one in self.asked],
            "groups": pa.array(groups, pa.map_(pa.string(), pa.string())),
        })  # fmt: skip

    def candidates(self) -> Mapping[str, tuple[Sequence[str], Sequence[str]]]:
        return self.spaces


def hit(query: str, right: bool, template: int = 0) -> dict[str, Any]:
    return scored(query, template, [0.6, 0.3, 0.1] if right else [0.3, 0.6, 0.1], 2 - right, 2 - right)


def by_views(views: Sequence[str], right: Sequence[bool], relations: str = "", **more: str) -> QueryRun:
    relations = relations or "R" * len(views)
    queries = [
        (f"q{n}", f"f{n}", relation, {"popularity": "a class", "subject_views": count, **more})
        for n, (count, relation) in enumerate(zip(views, relations, strict=True))
    ]
    return QueryRun(queries, [hit(f"q{n}", one) for n, one in enumerate(right)])


# --- classes of numbers


def test_classes_of_numbers_are_sorted_by_number():
    classes = ("16 to 63", "0", "other", "4 to 15")
    queries = [(f"q{n}", f"f{n}", "R", {"popularity": one}) for n, one in enumerate(classes)]
    [parts] = summarise(QueryRun(queries, [hit(f"q{n}", True) for n in range(4)]), ["popularity"]).breakdowns
    assert [part.keys for part in parts.parts] == [("0",), ("4 to 15",), ("16 to 63",), ("other",)]


# --- bins


def labels(run: QueryRun, typed: str) -> list[str]:
    found = parse_bins(Rows(run), typed)
    assert found is not None
    return list(found.labels)


def test_bins_hold_as_many_and_never_part_what_is_equal():
    run = by_views(["1", "2", "3", "40", "500", "6000"], [True] * 6)
    assert labels(run, "popularity:3") == ["1 to 2", "1 to 2", "3 to 40", "3 to 40", "500 to 6000", "500 to 6000"]
    assert labels(run, "popularity:2") == ["1 to 3"] * 3 + ["40 to 6000"] * 3
    assert labels(run, "popularity:1") == ["1 to 6000"] * 6
    # Five 7s cannot be parted: what is left of five bins are two.
    assert labels(by_views(["7", "7", "7", "7", "7", "9"], [True] * 6), "popularity") == ["7"] * 5 + ["9"]
    assert labels(by_views(["unknown", "7"], [True] * 2), "popularity") == ["(none)", "7"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("-3", -3), ("2.5", 2.5), ("1998-05-01", 1998), ("1998-05", 1998), ("1 to 3", None), ("1e3", None)],
)
def test_what_is_a_number(text, number):
    assert parse_number(text) == number
    assert math.isnan(parse_number("unknown"))


def test_the_table_goes_from_few_to_many_and_the_unknown_stand_last():
    run = by_views(["1000", "unknown", "9", "80", "20000"], [True, True, False, False, True])
    table, trend = summarise(run, ["popularity:2"]).tables[1:]
    assert table.title == "By popularity"
    parts = {row[1]: (row[2], row[5]) for row in table.rows}
    assert parts == {"9 to 80": (2, 0), "1000 to 20000": (2, 1), "(none)": (1, 1)}
    assert list(parts) == ["9 to 80", "1000 to 20000", "(none)"]
    assert trend.rows[0][-3] == 4  # facts with a number
    assert "|by:popularity" in trend.rows[0][-1]


def test_crossed_bins_and_bins_of_other_keys():
    run = by_views(["1", "2", "3", "4"], [True] * 4, "RRSS", year="2001")
    (_, crossed) = summarise(run, ["relation+popularity:2"]).tables
    assert [row[1:3] for row in crossed.rows] == [("R", "1 to 2"), ("S", "3 to 4")]
    assert [table.title for table in summarise(run, ["year:3"]).tables[1:]] == ["By year", "Trend of accuracy by year"]
    (_, plain) = summarise(run, ["year"]).tables  # a key of numbers is told value by value where nobody says otherwise
    assert plain.rows[0][1] == "2001"
    with pytest.raises(BadInput, match=mentions("4", "'R'")):
        summarise(run, ["relation:4"])
    with pytest.raises(BadInput, match=mentions("'views:4'")):
        summarise(run, ["views:4"])


def test_classes_stay_classes_where_there_are_no_numbers():
    """As runs of a knowledge graph have them."""
    run = QueryRun([("q0", "f0", "R", {"popularity": "1 to 3"})], [hit("q0", True)])
    (_, table) = summarise(run, ["popularity"]).tables
    assert table.rows[0][1] == "1 to 3"


def test_one_table_for_csv():
    found = summarise(by_views(["1", "2", "3"], [True, False, True]), ["popularity"])
    assert [table.title for table in found.tables_in("csv")] == ["Results", "By popularity"]
    assert len(found.tables_in("json")) == 3


# --- trend


def trend(run: QueryRun, typed: str = "popularity") -> dict[str, tuple[Any, ...]]:
    table = summarise(run, [typed]).tables[2]
    return {row[1]: row[2:7] for row in table.rows}


def test_trend_is_spearmans_and_within_relations_it_is_what_is_left():
    # Relation R is popular and known, S neither; within each, accuracy does not go with popularity.
    views, right = [100, 200, 300, 400, 1, 2, 3, 4], [True, True, True, True, False, False, False, False]
    found = trend(by_views(list(map(str, views)), right, "RRRRSSSS"))
    assert found["rank correlation"][0] == pytest.approx(spearmanr(views, right).statistic)
    assert math.isnan(found["rank correlation within relations"][0] or math.nan)
    # Now within R alone: ranks less the relation's mean are ±1.5, ±.5 in both; hits' ranks 2.5, 2.5, 6.5, 6.5 | 2.5 × 4
    right = [False, False, True, True, False, False, False, False]
    found = trend(by_views(list(map(str, views)), right, "RRRRSSSS"), "popularity:2")
    x = np.array([-1.5, -0.5, 0.5, 1.5] * 2)
    y = np.array([-2, -2, 2, 2, 0, 0, 0, 0])
    assert found["rank correlation within relations"][0] == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_highest_less_lowest_compares_within_relations():
    # {1, 2} and {10, 20} have accuracies of 0 and 1/2 in R, 1/2 and 1/2 in S; n₁n₀/(n₁+n₀) = 1 in both.
    views, right = ["1", "2", "10", "20"] * 2, [False, False, True, False, True, False, True, False]
    found = trend(by_views(views, right, "RRRRSSSS"), "popularity:2")
    assert found["highest − lowest"][0] == pytest.approx((1 / 2 + 0) / 2)


def test_the_facts_of_a_subject_change_bins_together():
    """Eight subjects with a fact in each of two relations: the four popular ones are known, and only these.

    Of the 70 ways to choose four of eight, two are as extreme: p = 0.029. If facts could change bins, p would be the
    square of that, doubled.
    """
    known = [True] * 4 + [False] * 4
    queries, rows = [], []
    for number, is_known in enumerate(known):
        for relation in "RS":
            name = f"{number}.{relation}"
            queries.append((f"q{name}", f"f{name}", relation, {"subject_views": str(200 - number)}))
            rows.append(hit(f"q{name}", is_known))
    found = trend(QueryRun(queries, rows), "popularity:2")["highest − lowest"]
    assert found[0] == 1
    assert found[3] == pytest.approx(2 / 70, abs=0.01)


@pytest.mark.parametrize(("views", "relations"), [("7777", "RRRR"), ("1289", "RRSS")])
def test_no_highest_and_lowest_of_one_relation(views, relations):
    table = summarise(by_views(list(views), [True, False, True, False], relations), ["popularity:2"]).tables[2]
    assert table.rows[2][1:3] == ("highest − lowest", None)
    assert mentioned(str(table.rows[2]), "highest", "lowest")
    assert "nothing was scored" not in str(table.rows)


def test_trend_takes_templates_of_a_fact_together():
    run = by_views(["1", "2", "3"], [True, False, True])
    run.rows = [*run.rows, hit("q1", True, 1), hit("q2", False, 1), unscored("q0", 1, "no") | {"scores": None}]
    # accuracy of the facts: 1, 1/2, 1/2 (the unscored one is left out): ranks 3, 1.5, 1.5 against 1, 2, 3
    assert trend(run)["rank correlation"][0] == pytest.approx(np.corrcoef([1, 2, 3], [3, 1.5, 1.5])[0, 1])


def test_planted_curve_and_its_control():
    """Facts held where they are popular have a trend above nothing; facts held by lot have none."""
    draw = np.random.default_rng(1)
    views = np.exp(draw.normal(6, 2, 400)).astype(int)
    held = {"planted": views > np.median(views), "control": draw.random(400) < 0.5}
    found = {name: trend(by_views(list(map(str, views)), list(map(bool, own)))) for name, own in held.items()}
    low, high = found["planted"]["rank correlation"][1:3]
    assert 0.8 < low < high
    low, high = found["control"]["rank correlation"][1:3]
    assert low < 0 < high


def test_too_few_for_a_trend():
    found = trend(by_views(["1", "unknown"], [True, True]))
    assert found["rank correlation"][0] is None


# --- RankC


@pytest.mark.parametrize(
    ("second", "value"),
    [
        ([3, 2, 1], 1),  # the same
        ([2, 3, 1], (E + 1) / Z3),  # P@1 = 0, P@2 = P@3 = 1
        ([3, 1, 2], (E**2 + E / 2 + 1) / Z3),  # P@1 = 1, P@2 = 1/2, P@3 = 1
        ([1, 2, 3], (E / 2 + 1) / Z3),  # P@1 = 0, P@2 = 1/2 (b), P@3 = 1
        ([2, 2, 1], (E**2 / 2 + E + 1) / Z3),  # a or b first: P@1 = 1/2
        # all tied: each is first by 1/3; of the first two a and b are each by 2/3: P@2 = 2/3
        ([1, 1, 1], (E**2 / 3 + E * 2 / 3 + 1) / Z3),
    ],
)
def test_rankc_by_hand(second, value):
    assert rankc([3, 2, 1], second) == pytest.approx(value)
    assert rankc(second, [3, 2, 1]) == pytest.approx(value)


def reference(first: Sequence[int], second: Sequence[int]) -> float:
    """RankC.py of github.com/Betswish/Cross-Lingual-Consistency, in its words: softmax of N … 1 over places."""
    order = np.array([len(first) - place for place in range(len(first))], float)
    weight = np.exp(order) / np.sum(np.exp(order))
    covers = [len(set(first[: j + 1]) & set(second[: j + 1])) / (j + 1) for j in range(len(first))]
    return float(np.sum(weight * covers))


@pytest.mark.parametrize("candidates", [1, 2, 10, 39, 40, 41, 200])
def test_rankc_is_the_authors(candidates):
    draw = np.random.default_rng(candidates)
    for _ in range(5):
        one, other = draw.permutation(candidates), draw.permutation(candidates)
        ranked = [np.argsort(-scores).tolist() for scores in (one, other)]
        assert rankc(one, other) == pytest.approx(reference(*ranked), abs=1e-12)


def test_rankc_by_chance():
    assert rankc_by_chance(1) == 1
    assert rankc_by_chance(3) == pytest.approx((E**2 / 3 + E * 2 / 3 + 1) / Z3)
    draw = np.random.default_rng(0)
    drawn = [rankc(draw.permutation(6), draw.permutation(6)) for _ in range(4000)]
    assert rankc_by_chance(6) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(4000))


@pytest.mark.parametrize(("first", "second"), [([], []), ([1, 2], [1]), ([1, math.nan], [1, 2]), ([[1]], [[1]])])
def test_rankc_of_what_cannot_be_compared(first, second):
    with pytest.raises(ValueError, match="expected"):
        rankc(first, second)


# --- consistency over templates and languages


def lines(run: QueryRun, over: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """facts, RankC, by chance, same answer."""
    table = consistency_table(run, over)
    at = [table.columns.index(name) for name in ("facts", "RankC", "by chance", "same answer")]
    return {row[1:3]: tuple(row[place] for place in at) for row in table.rows}


def test_over_templates():
    queries = [("q0", "f0", "R", {}), ("q1", "f1", "R", {})]
    rows = [
        scored("q0", 0, [0.5, 0.3, 0.2], 1, 1),
        scored("q0", 1, [0.3, 0.5, 0.2], 2, 2),
        scored("q1", 0, [0.5, 0.3, 0.2], 1, 1),
        scored("q1", 1, [0.5, 0.2, 0.3], 1, 1),
    ]
    value = ((E + 1) / Z3 + (E**2 + E / 2 + 1) / Z3) / 2
    found = lines(QueryRun(queries, rows), "template")
    assert Result(QueryRun(queries, rows)).consistency().rows[0][3] == 2
    assert found == {("0", "1"): (2, pytest.approx(value), pytest.approx(rankc_by_chance(3)), 0.5)}


def test_a_candidate_that_cannot_be_ranked_leaves_no_ranking():
    queries = [("q0", "f0", "R", {}), ("q1", "f1", "R", {})]
    rows = [scored(query, template, [0.5, 0.3, 0.2], 1, 1) for query in ("q0", "q1") for template in (0, 1)]
    rows[1] = scored("q0", 1, [0.5, 0.3, 0.2], 1, 1, scores=[-1.0, -math.inf, -2.0])
    assert lines(QueryRun(queries, rows), "template")["0", "1"][:2] == (1, pytest.approx(1))


def of_language(language: str, fact: int, space: str) -> tuple[str, str, str, dict[str, str]]:
    return f"{language}/{fact}", f"f{fact}", "R", {"language": language, "space": space}


def test_over_languages():
    """Queries of one fact, their candidates in the order of each language."""
    german = (["b", "a", "c"], ["Bonn", "Aken", "Celle"])
    spaces = {"S": (["a", "b", "c"], ["A", "B", "C"]), "G": german, "L": (["a", "b"], ["A", "B"])}
    queries = [
        of_language("en", 0, "S"),
        of_language("de", 0, "G"),
        of_language("fr", 0, "S"),
        of_language("en", 1, "S"),
    ]
    queries += [of_language("en", 2, "S"), of_language("de", 2, "L")]
    rows = [
        scored("en/0", 0, [0.5, 0.3, 0.2], 1, 1),
        scored("de/0", 0, [0.3, 0.5, 0.2], 1, 1),  # a, b, c as in English
        scored("fr/0", 0, [0.3, 0.5, 0.2], 2, 2),
        scored("en/1", 0, [0.5, 0.3, 0.2], 1, 1),  # in one language alone
        scored("en/2", 0, [0.5, 0.3, 0.2], 1, 1),  # of other candidates: left out
        scored("de/2", 0, [0.5, 0.3], 1, 1),
    ]
    run = QueryRun(queries, rows, **spaces)
    found, turned = lines(run, "language"), (E + 1) / Z3
    assert found["en", "de"][:2] == (1, pytest.approx(1))
    assert found["en", "fr"][:2] == found["de", "fr"][:2] == (1, pytest.approx(turned))
    assert found["all pairs", ""][:2] == (1, pytest.approx((1 + 2 * turned) / 3))
    assert found["all pairs", ""][3] == pytest.approx(1 / 3)
    assert any("candidates differ: 1" in note for note in consistency_table(run, "language").notes)


def test_nothing_to_compare():
    run = QueryRun([("q0", "f0", "R", {})], [hit("q0", True)])
    assert lines(run, "template") == {("all pairs", ""): (0, None, None, None)}
    with pytest.raises(BadInput, match=mentions("--consistency language")):
        consistency_table(run, "language")

"""Items over models whose knowledge is known: wrong labels and shared errors."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query
from fathom.data.selection.filters import select
from fathom.data.selection.options import SelectionOptions
from fathom.results.metrics.significance import PERMUTATIONS
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES, items
from fathom.studies.items import count_shared_errors, label_evidence, rest_accuracy
from tests.answerers import Answerer, answered, candidates, knowing, world
from tests.messages import mentions

FACTS, MODELS = 200, 8
LABELS = [[number % 20] for number in range(FACTS)]
MISLABELLED = {f"s{number:03}" for number in (3, 50, 77, 120, 199)}


def truth(subject: str) -> int:
    """Place of the true answer: of mislabelled facts the one after the label."""
    return (int(subject[1:]) + (subject in MISLABELLED)) % 20


def model(number: int, misconceptions: Collection[str] = ()) -> Answerer:
    """Knows a share of 0.55 to 0.9 of the facts, drawn at random, and names any candidate for the others.

    :param misconceptions: relations in which it names, for two in three of the others, the seventh candidate after the
        right one.
    """

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        draw = np.random.default_rng([number, int(query.subject[1:])])
        scores = draw.random(20) / 2
        guess = draw.integers(20)
        if query.relation in misconceptions and draw.random() < 2 / 3:
            guess = (truth(query.subject) + 7) % 20
        scores[truth(query.subject) if draw.random() < 0.55 + 0.05 * number else guess] += 1
        return scores.tolist()

    return answer


def runs(folder: Path, count: int = MODELS, misconceptions: Collection[str] = ()) -> list[RunFolder]:
    data = world(LABELS)
    return [answered(folder / f"m{n}", model(n, misconceptions), data, model=f"m{n}") for n in range(count)]


def subjects(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["fact"].partition("|")[0] for row in rows]


# ------------------------------------------------------------------------------------------------------------- labels


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> items.Items:
    return items.analyse(runs(tmp_path_factory.mktemp("runs")))


def test_mislabelled_facts_come_first(found: items.Items) -> None:
    assert set(subjects(found.facts[:5])) == MISLABELLED
    names, data = candidates().names, world(LABELS)
    queries = {query.subject: query for query in data.queries}
    for row in found.facts[:5]:
        true = truth(row["fact"][:4])
        scores = [model(n)(queries[row["fact"][:4]], data.candidates["all"], 0) for n in range(MODELS)]
        assert row["other"] == names[true]
        assert row["models for other"] == sum(np.argmax(own) == true for own in scores)
    first = found.facts[0]
    assert items.conclude(found)[-1] == (
        f"Most worth a look: {first['fact']}, labelled {first['label']}: "
        f"{first['models for other']} of 8 models say {first['other']}."
    )


def test_labels_are_listed_without_a_verdict(found: items.Items) -> None:
    [table] = [table for table in items.tables(found) if table.title == "labels worth a look"]
    assert table.columns[:6] == ("fact", "label", "other", "models for other", "models", "evidence")
    assert not {"p", "verdict"} & {*table.columns}
    assert len(table.rows) == 10


def test_few_models_rank_labels(tmp_path: Path) -> None:
    few = items.analyse(runs(tmp_path, 4))
    assert len(MISLABELLED.intersection(subjects(few.facts[:10]))) >= 4


def evidence(wrong: Sequence[Sequence[int]], right: Sequence[bool], accuracy: Sequence[float], size: int) -> np.ndarray:
    """Evidence in the last item. :param right: in it; no model is right in the others."""
    numbers = np.array(wrong)
    is_right, accuracies = np.zeros(numbers.shape, dtype=bool), np.tile(accuracy, (numbers.shape[1], 1)).T
    is_right[:, -1] = right
    return label_evidence(is_right, numbers, accuracies, np.full(numbers.shape[1], size))[:, -1]


def test_evidence_by_hand() -> None:
    """Two models, right on 0.9 and 0.8 of the others, name b; a third, right on 0.7, agrees with the label a. There are
    no wrong answers to other items, so that each of b, c and d is named by a wrong model with a chance of 1/3."""
    against = 0.1 * 0.2 * (0.3 / 0.7 / 3)
    expected = np.log(against * (1 + 9 * 3) * (1 + 4 * 3) / 3)
    assert evidence([[0], [0], [-1]], [False, False, True], [0.9, 0.8, 0.7], 3) == pytest.approx(
        [expected, expected, -np.inf]
    )


def test_other_answers_of_wrong_models_by_hand() -> None:
    """One model names b, one c: each counts against the other's answer, as the chance 1/3 of b shows."""
    expected = np.log(0.1 * 0.2 * np.array([1 + 9 * 3, 1 + 4 * 3]) / 3)
    assert evidence([[0], [1]], [False, False], [0.9, 0.8], 3) == pytest.approx(expected)


def test_a_favourite_is_little_evidence() -> None:
    """A model names b in nine of ten wrong answers to other items, and so do all: 10 of 20 with each of 10 candidates
    once more."""
    others = [0] * 9 + [1]
    of_b, of_c = (evidence([[*others, answer]], [False], [0.5], 10)[0] for answer in (0, 1))
    assert of_b == pytest.approx(np.log(0.5 * (1 + 1 / (10 / 20)) / 10))
    assert of_c == pytest.approx(np.log(0.5 * (1 + 1 / (2 / 20)) / 10))


def test_a_model_without_an_answer_is_no_evidence() -> None:
    """The second model has neither the label nor another answer: the evidence is that of the first alone."""
    expected = np.log(0.1 * (1 + 9 * 3) / 3)
    found = evidence([[0], [-1]], [False, False], [0.9, 0.8], 3)
    assert found.tolist() == [pytest.approx(expected), -np.inf]


def test_no_evidence_without_wrong_answers() -> None:
    assert evidence([[-1], [-1]], [True, False], [0.5, 0.9], 1).tolist() == [-np.inf, -np.inf]


# ------------------------------------------------------------------------------------------------------- shared errors


def counted(wrong: Sequence[Sequence[int]], right: Sequence[Sequence[int]], number: int = 1999) -> np.ndarray:
    return count_shared_errors(np.array(wrong), np.array(right), number, np.random.default_rng(0))


def test_permuted_answers_by_hand() -> None:
    """Two models name b, then c: permuted, they agree on both facts or on none."""
    counts = counted([[0, 1], [0, 1]], [[-1], [-1]])
    assert counts[0] == 2
    assert {*counts[1:].tolist()} == {0, 2}
    assert counts[1:].mean() == pytest.approx(1, abs=0.1)


def test_permuted_answers_are_never_right() -> None:
    """Where c is right on the first fact and b on the second, models that are wrong must agree."""
    assert {*counted([[0, 1], [0, 1]], [[1], [0]]).tolist()} == {2}


def test_permutations_are_uniform() -> None:
    """Counts of agreeing pairs in all arrangements of two models without right answers."""
    right = [[1, 5], [2, 5], [3, 5], [0, 5], [-1, -1]]
    every = [order for order in permutations(range(5)) if all(one not in right[at] for at, one in enumerate(order))]
    exact = [sum(np.equal(one, other)) for one, other in product(every, every)]
    counts = counted([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], right, 9999)
    shares = [np.mean(counts[1:] == number) for number in range(6)]
    assert shares == pytest.approx([np.mean(np.equal(exact, number)) for number in range(6)], abs=0.02)


def test_facts_that_one_model_has_wrong_do_not_agree() -> None:
    assert not counted([[0, -1, 0], [-1, 0, -1], [-1, -1, -1]], [[-1]] * 3).any()
    assert not counted([[-1, -1], [-1, -1]], [[], []]).any()


def p_value_of_world(seed: int, misconception: float) -> float:
    """Four models err on seven of ten facts, each by its favourites; most favour the most frequent right answer.

    :param misconception: chance of each model to give the fact's own wrong answer instead.
    """
    draw = np.random.default_rng([seed, 7])
    right = draw.choice(6, 40, p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    shared = (right + draw.integers(1, 6, 40)) % 6
    wrong = np.full((4, 40), -1)
    for own in wrong:
        favourites = draw.dirichlet([4, 1, 1, 1, 1, 1])
        for fact in np.flatnonzero(draw.random(40) < 0.7).tolist():
            chances = np.where(np.arange(6) == right[fact], 0, favourites)
            own[fact] = shared[fact] if draw.random() < misconception else draw.choice(6, p=chances / chances.sum())
    counts = count_shared_errors(wrong, right[:, np.newaxis], 199, draw)
    return float(np.mean(counts >= counts[0]))


def test_independent_errors_are_rarely_significant() -> None:
    found = sum(p_value_of_world(seed, 0) < 0.05 for seed in range(200))
    assert binomtest(found, 200, 0.06, alternative="greater").pvalue > 0.05
    assert found > 0


def test_misconceptions_are_significant() -> None:
    assert sum(p_value_of_world(seed, 0.6) < 0.05 for seed in range(50)) >= 45


@pytest.fixture(scope="module")
def misled(tmp_path_factory: pytest.TempPathFactory) -> items.Items:
    """Models with the same misconceptions in one of five relations, and no wrong label."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.studies.test_study_items.MISLABELLED", set())
        return items.analyse(runs(tmp_path_factory.mktemp("misled"), 5, ["r2"]))


def test_the_relation_with_misconceptions_comes_first(misled: items.Items) -> None:
    whole, first, *others = misled.shared_errors
    assert (whole["relation"], first["relation"]) == ("(all)", "r2")
    assert whole["same"].p_value == 1 / 2000
    assert first["same"].p_value == pytest.approx(5 / 2000)  # Holm, of five relations
    assert first["same"].value > 0.3
    assert first["expected"] < 0.15
    assert len(others) == 4
    assert all(row["same"].p_value > 0.05 for row in others)
    sentences = items.conclude(misled)
    assert sentences[0].startswith("Where two models are both wrong, they give the same wrong answer in ")
    assert sentences[0].endswith(" expected by chance (p < 0.001).")
    assert sentences[1].startswith("The excess is clearest in r2: ")
    assert sentences[1].endswith(" (adjusted p = 0.003).") or sentences[1].endswith(" (adjusted p = 0.002).")


def test_shared_errors_are_counted_by_fact(misled: items.Items, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers by a loop over facts and pairs of models."""
    monkeypatch.setattr("tests.studies.test_study_items.MISLABELLED", set())
    data, names = world(LABELS), candidates().names
    models = [model(n, ["r2"]) for n in range(5)]
    firsts = [
        (query, [int(np.argmax(answer(query, data.candidates["all"], 0))) for answer in models])
        for query in data.queries
    ]
    rows = {row["relation"]: row for row in misled.shared_errors}
    for relation in data.relations:
        pairs, same, most, facts = 0, 0, ("", 0), set()
        for query, answers in firsts:
            label = int(query.subject[1:]) % 20
            wrong = [answer for answer in answers if answer != label]
            if query.relation == relation:
                pairs += len([*combinations(wrong, 2)])
                same += sum(one == other for one, other in combinations(wrong, 2))
                facts |= {query.fact_id} if len(wrong) > 1 else set()
                for answer in wrong:
                    if wrong.count(answer) > most[1]:
                        text = (
                            f"{query.fact_id}: {names[answer]} instead of {names[label]} ({wrong.count(answer)} of 5)"
                        )
                        most = text, wrong.count(answer)
        row = rows[relation]
        assert (row["pairs"], row["facts"], row["models"]) == (pairs, len(facts), 5)
        assert row["same"].value == same / pairs
        assert row["most frequent"] == most[0]
    assert rows["(all)"]["pairs"] == sum(rows[relation]["pairs"] for relation in data.relations)


def test_facts_of_one_subject_count_once(tmp_path: Path) -> None:
    """Two facts of each of 20 subjects; all models name c19, which is right for two of the subjects."""
    data = world(LABELS[:40], relations=1)
    doubled = [replace(query, subject_id=f"s{int(query.subject[1:]) // 2:03}") for query in data.queries]
    data = replace(data, queries=tuple(doubled))
    never_right = [
        answered(tmp_path / name, lambda query, space, template: [0.0] * 19 + [1.0], data, model=name) for name in "ab"
    ]
    whole = items.analyse(never_right).shared_errors[0]
    assert (whole["facts"], whole["pairs"]) == (18, 18)


def test_another_right_answer_is_no_error(tmp_path: Path) -> None:
    """Two models name the second candidate first, which is right for the first fact as well."""
    data = world([[0], [2], [4]], relations=1)
    queries = replace(data.queries[0], known=("c01",)), *data.queries[1:]

    def second(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [0.5, 2.0, 0.5, 1.0, 0.5, *[0.0] * 15]

    data = replace(data, queries=queries)
    whole = items.analyse([answered(tmp_path / name, second, data, model=name) for name in "ab"]).shared_errors[0]
    assert (whole["facts"], whole["same"].value) == (2, 1)


# ----------------------------------------------------------------------------------------- difficulty, discrimination


def test_what_is_expected_is_the_mean_of_permutations_alone(found: items.Items) -> None:
    """Times the pairs and the permutations it is a whole number of equal answers."""
    whole = found.shared_errors[0]
    count = whole["expected"] * whole["pairs"] * PERMUTATIONS
    assert count == pytest.approx(round(count), abs=1e-3)


def test_accuracy_on_the_others_by_hand() -> None:
    """Accuracies on the others, of three models on four items."""
    right = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1.0]])
    rest = rest_accuracy(right, np.ones(4, dtype=bool))
    assert rest[:, 0] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert rest[:, 3] == pytest.approx([1, 2 / 3, 0])
    # The fourth item is not common: all three others count for it, and two for each of these.
    rest = rest_accuracy(right, np.array([True, True, True, False]))
    assert rest.tolist() == [[1, 1, 1, 1], [1 / 2, 1 / 2, 1, pytest.approx(2 / 3)], [0, 0, 0, 0]]


def test_discrimination_is_the_correlation_with_the_accuracy_on_the_others(found: items.Items) -> None:
    right = np.array([row["right"] for row in found.facts]).T
    rest = rest_accuracy(right, np.ones(FACTS, dtype=bool))
    for at, row in enumerate(found.facts):
        varies = np.ptp(right[:, at]) > 0
        expected = np.corrcoef(right[:, at], rest[:, at])[0, 1] if varies else np.nan
        assert row["discrimination"].value == pytest.approx(expected, nan_ok=True)
    lowest = min(found.facts, key=lambda row: np.nan_to_num(row["discrimination"].value, nan=1))
    [table] = [table for table in items.tables(found) if table.title == "negative discrimination"]
    assert table.rows[0][0] == lowest["fact"]


def test_lists_of_items(found: items.Items, tmp_path: Path) -> None:
    STUDIES["items"].save(found, tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "items-facts.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == FACTS
    assert {row["fact"][:4] for row in rows[:5]} == MISLABELLED
    for row in rows:
        answers = [float(row[f"m{number}"]) for number in range(MODELS)]
        assert float(row["difficulty"]) == pytest.approx(1 - np.mean(answers))
        assert bool(row["other"]) == bool(int(row["models for other"])) == (0 in answers)


def test_models_that_know_all_share_nothing(tmp_path: Path) -> None:
    """No error and no other answer."""

    def knows(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [float(id_ in query.gold) for id_ in space.ids]

    data = world(LABELS)
    wise = items.analyse([answered(tmp_path / name, knows, data, model=name) for name in "abc"])
    assert items.conclude(wise) == ["No two models are wrong on the same fact."]
    assert "shared errors" in render(items.tables(wise), "text")


def test_facts_of_one_model_are_not_ranked(tmp_path: Path) -> None:
    data = world(LABELS)
    some = [answered(tmp_path / f"m{n}", model(n), data, model=f"m{n}") for n in range(3)]
    more = world([*LABELS, *LABELS[:40]], each=[40] * 6)
    some.append(answered(tmp_path / "more", model(3), more, model="more"))
    described = items.analyse(some)
    assert (len(described.facts), described.common, described.left_out) == (240, 200, 40)
    assert {row["models"] for row in described.facts[:200]} == {4}
    assert {row["models"] for row in described.facts[200:]} == {1}
    assert {row["models"] for row in described.labels_to_check} == {4}
    assert "40 facts that not all models scored" in render(items.tables(described), "text")


def test_bad_input(tmp_path: Path) -> None:
    one, other = runs(tmp_path, 2)
    with pytest.raises(BadInput, match="two models or more"):
        items.analyse([one])
    with pytest.raises(BadInput, match="twice"):
        items.analyse([one, one])
    elsewhere = answered(tmp_path / "elsewhere", model(0), world([[19]] * 10), model="m9")
    with pytest.raises(BadInput, match="no ranked fact in common"):
        items.analyse([one, other, elsewhere])


def test_two_runs_of_one_model_are_refused(tmp_path: Path) -> None:
    """Facts are described over models: two probes of one share its errors."""
    data = world([[n % 20] for n in range(10)])
    runs = [answered(tmp_path / f"{n}", model(n), data, model=name) for n, name in enumerate(("m", "m", "other"))]
    with pytest.raises(BadInput, match=mentions("several runs of m:")):
        items.analyse(runs)


def test_no_model_is_taken_for_perfect(tmp_path: Path) -> None:
    """Two models are right on all of four facts but one on the first. Of others both are right on 3 of 3, which counts
    as 5/6: one right and one wrong answer more. The odds are 5: (1/6) / (5 · 19), times 1 + 5 · 19 for the only wrong
    answer."""
    data = world([[0], [1], [2], [3]], relations=1)
    made = [
        answered(
            tmp_path / name,
            knowing(
                {f"q{place:03}" for place in range(start, 4)},
                lambda query, space, number: list(map(float, range(len(space)))),
            ),
            data,
            model=name,
        )
        for name, start in (("a", 1), ("b", 0))
    ]
    [row] = [row for row in items.analyse(made).facts if row["other"]]
    assert row["evidence"] == pytest.approx(np.log((1 + 5 * 19) / (6 * 5 * 19) / 19))


def test_listed_facts_are_a_subset(tmp_path: Path) -> None:
    data, file = world(LABELS), tmp_path / "listed.csv"
    listed = [str(query.fact_id) for query in data.queries[:40:8]]
    file.write_text("fact\n" + "\n".join(listed) + "\n", encoding="utf-8")
    assert [query.fact_id for query in select(data, SelectionOptions(subset=str(file))).data.queries] == listed
    with pytest.raises(BadInput, match=r"lacks .* such as s"):
        select(world(LABELS[:20]), SelectionOptions(subset=str(file)))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="column 'fact'"):
        select(data, SelectionOptions(subset=str(tmp_path / "other.csv")))

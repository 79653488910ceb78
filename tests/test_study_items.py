"""Items over models whose knowledge is known: labels that are wrong, and data sets that may be shorter."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest

from fathom.data.queries import CandidateSet, Query
from fathom.data.selection.filters import select
from fathom.data.selection.options import SelectionOptions
from fathom.errors import BadInput
from fathom.metrics.items import Vote, WrongAnswers, choose_items, rest_accuracy
from fathom.results.claims import UNDETERMINED
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES, items
from fathom.studies.options import ItemsOptions
from tests.answerers import Answerer, answered, at_random, candidates, world

FACTS, MODELS = 200, 8
LABELS = [[number % 20] for number in range(FACTS)]
MISLABELLED = {f"s{number:03}" for number in (3, 50, 77, 120, 199)}


def truth(subject: str) -> int:
    """Place of the true answer: of mislabelled facts the one after the label."""
    return (int(subject[1:]) + (subject in MISLABELLED)) % 20


def model(number: int, favourite: int | None = None) -> Answerer:
    """Knows a share of 0.55 to 0.9 of the facts, drawn at random; of others names any candidate, or a favourite."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        draw = np.random.default_rng([number, int(query.subject[1:])])
        scores = draw.random(20) / 2
        guess = draw.integers(20) if favourite is None or draw.random() < 0.5 else favourite
        scores[truth(query.subject) if draw.random() < 0.55 + 0.05 * number else guess] += 1
        return scores.tolist()

    return answer


def runs(folder: Path, count: int = MODELS, favourite: int | None = None) -> list[RunFolder]:
    data = world(LABELS)
    return [answered(folder / f"m{n}", model(n, favourite), data, model=f"m{n}") for n in range(count)]


def subjects(found: Sequence[items.Item]) -> list[str]:
    return [item.fact.partition("|")[0] for item in found]


# ------------------------------------------------------------------------------------------------------------- labels


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> items.Items:
    return items.analyse(runs(tmp_path_factory.mktemp("runs")))


def test_mislabelled_facts_come_first(found: items.Items) -> None:
    assert set(subjects(found.items[:5])) == MISLABELLED
    names = candidates().names
    for item in found.items[:5]:
        assert item.other[0] == names[truth(item.fact[:4])]
    holds = [decision.holds for _, decision in found.judged]
    assert sum(holds[:5]) >= 3  # of the others few models know the fact
    assert not any(holds[5:])
    assert items.conclude(found)[0].startswith(f"{sum(holds)} of 200 labels are in doubt")


@pytest.mark.parametrize("favourite", [None, 7])
def test_right_labels_are_not_in_doubt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, favourite: int | None) -> None:
    """The control: also where all models, when wrong, often name the same candidate."""
    monkeypatch.setattr("tests.test_study_items.MISLABELLED", set())
    control = items.analyse(runs(tmp_path, favourite=favourite))
    assert not any(decision.holds for _, decision in control.judged)
    assert items.conclude(control)[0].startswith("None of 200 labels is in doubt")


def test_few_models_do_not_decide(tmp_path: Path) -> None:
    few = items.analyse(runs(tmp_path, 4))
    assert len(MISLABELLED.intersection(subjects(few.items[:10]))) >= 4
    assert items.conclude(few)[0].startswith(f"Whether labels are in doubt {UNDETERMINED}")


def test_evidence_by_hand() -> None:
    """Two models, right on 0.9 and 0.8 of the others, name b; a third, right on 0.7, agrees with the label a. There are
    no wrong answers to other items, so that each of b, c and d is named by a wrong model with a chance of 1/3."""
    votes = [Vote(0, 0.9, False, "b"), Vote(1, 0.8, False, "b"), Vote(2, 0.7, True, None)]
    answers = WrongAnswers([votes, *[[]] * 98], 4)
    doubt = answers.doubt(votes, ["a"])
    against = 0.1 * 0.2 * (0.3 / 0.7 / 3)
    named = against * (1 + 9 * 3) * (1 + 4 * 3)
    assert doubt.other == "b"
    assert np.exp(doubt.evidence) == pytest.approx((named + 2 * against) / 3)
    assert doubt.p_value == 1 / max(1, np.exp(doubt.evidence))
    assert doubt.expected == pytest.approx([1 / 3, 1 / 3, 0])


def test_a_favourite_is_little_evidence() -> None:
    """A model that names b in nine of ten wrong answers to others, as all models do: its b shows less than its c."""
    others = [[Vote(0, 0.5, False, answer)] for answer in "b" * 9 + "c"]
    votes = {answer: [Vote(0, 0.5, False, answer)] for answer in "bc"}
    evidence = {answer: WrongAnswers([*others, own], 11).doubt(own, ["a"]).evidence for answer, own in votes.items()}
    assert evidence["b"] < evidence["c"]
    assert WrongAnswers([*others, votes["b"]], 11).doubt(votes["b"], ["a"]).expected == pytest.approx([10 / 20])


def test_no_evidence_without_wrong_answers() -> None:
    votes = [Vote(0, 0.5, True, None), Vote(1, 0.0, False, None)]
    doubt = WrongAnswers([votes], 3).doubt(votes, ["a"])
    assert (doubt.other, doubt.p_value) == (None, 1)


# ----------------------------------------------------------------------------------------- difficulty, discrimination


def test_accuracy_on_the_others_by_hand() -> None:
    """Accuracies on the others, of three models on four items."""
    right = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1.0]])
    rest = rest_accuracy(right, np.ones(4, dtype=bool))
    assert rest[:, 0] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert rest[:, 3] == pytest.approx([1, 2 / 3, 0])


def test_discrimination_is_the_correlation_with_the_accuracy_on_the_others(found: items.Items) -> None:
    right = np.array([item.right for item in found.items]).T
    rest = rest_accuracy(right, np.ones(FACTS, dtype=bool))
    for at, item in enumerate(found.items):
        varies = np.ptp(right[:, at]) > 0
        expected = np.corrcoef(right[:, at], rest[:, at])[0, 1] if varies else np.nan
        assert item.discrimination.value == pytest.approx(expected, nan_ok=True)
    text = render(items.tables(found), "text")
    assert min(found.items, key=lambda item: np.nan_to_num(item.discrimination.value, nan=1)).fact in text


def test_lists_of_items(found: items.Items, tmp_path: Path) -> None:
    STUDIES["items"].save(found, tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "items-facts.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == FACTS
    assert {row["fact"][:4] for row in rows[:5]} == MISLABELLED
    for row in rows:
        answers = [float(row[f"m{number}"]) for number in range(MODELS)]
        assert float(row["difficulty"]) == pytest.approx(1 - np.mean(answers))
        assert bool(row["other"]) == bool(int(row["models for other"])) == (0 in answers)


def test_models_of_equal_accuracy_have_no_order(tmp_path: Path) -> None:
    data = world(LABELS)
    equal = [answered(tmp_path / name, model(1), data, model=name) for name in ("a", "b")]
    assert "equally accurate" in items.conclude(items.analyse(equal))[1]


def test_facts_of_one_model_are_listed(tmp_path: Path) -> None:
    data = world(LABELS)
    some = [answered(tmp_path / f"m{n}", model(n), data, model=f"m{n}") for n in range(3)]
    more = world([*LABELS, *LABELS[:40]], each=[40] * 6)
    some.append(answered(tmp_path / "more", model(3), more, model="more"))
    judged = items.analyse(some)
    assert (len(judged.items), len(judged.judged), judged.common) == (240, 200, 200)
    text = render(items.tables(judged), "text")
    assert "facts of one model, 40 in all" in text
    assert "s200|r5|c00" in text


def test_bad_input(tmp_path: Path) -> None:
    one, other = runs(tmp_path, 2)
    with pytest.raises(BadInput, match="two models or more"):
        items.analyse([one])
    with pytest.raises(BadInput, match="twice"):
        items.analyse([one, one])
    elsewhere = answered(tmp_path / "elsewhere", model(0), world([[19]] * 10), model="m9")
    with pytest.raises(BadInput, match="no ranked fact in common"):
        items.analyse([one, other, elsewhere])


# ------------------------------------------------------------------------------------------------- shortened data sets


def nested(models: int, known: Collection[int]) -> np.ndarray:
    """Model n knows the first facts, n tenths of them; only *known* places tell models apart."""
    right = np.zeros((models, 100))
    for number in range(models):
        right[number, sorted(known)[: number * len(known) // models]] = 1
    return right


def test_chosen_items_separate_models_in_each_relation() -> None:
    right = nested(8, range(0, 100, 2))
    chosen = choose_items(right, ["a"] * 50 + ["b"] * 50, 20)
    assert all(place % 2 == 0 for place in chosen)
    assert sum(place < 50 for place in chosen) == 10


def test_the_error_of_a_shortened_set_is_that_of_models_that_did_not_choose_it(found: items.Items) -> None:
    assert len(found.shortened) == 20
    assert 0 <= found.disordered.value <= 0.3
    assert found.disordered.n == 28
    assert 0 < found.at_random < 0.5


def test_items_without_signal_do_not_seem_to_have_any(tmp_path: Path) -> None:
    """Models that guess: in the models that chose a set it orders all pairs, in others it must not."""
    guessing = [answered(tmp_path / f"m{n}", at_random(n), world(LABELS), model=f"m{n}") for n in range(6)]
    assert items.analyse(guessing, ItemsOptions(size=20)).disordered.value > 0.2


def test_a_shortened_set_is_a_subset(found: items.Items, tmp_path: Path) -> None:
    STUDIES["items"].save(found, tmp_path / "out")
    file = tmp_path / "out" / "items-short.csv"
    data = select(world(LABELS), SelectionOptions(subset=str(file))).data
    assert [query.fact_id for query in data.queries] == found.shortened
    with pytest.raises(BadInput, match=r"lacks .* such as s"):
        select(world(LABELS[:20]), SelectionOptions(subset=str(file)))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="column 'fact'"):
        select(world(LABELS), SelectionOptions(subset=str(tmp_path / "other.csv")))

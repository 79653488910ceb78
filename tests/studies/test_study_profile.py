"""The ways in which a model knows facts, counted by hand."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.selection.reversal import reverse_queries
from fathom.probes.run.setup import tables as query_tables
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES, profile
from fathom.studies.options import ProfileOptions
from tests.answerers import EVEN, Answerer, answered, without_digests, world
from tests.messages import stated

FACTS = [f"s{number:03}" for number in range(100)]


def knows(subjects: Collection[str], never: int = 19) -> Answerer:
    """Ranks the gold answer of these subjects first, and that of others last."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        of_subject = query.subject if query.direction == "tail" else query.gold[0]
        score = 1.0 if of_subject in subjects else -1.0
        return [score if id_ in query.gold else 0.0 for id_ in space.ids]

    return answer


def run(folder: Path, known: range, probe: str = "statement", data: QuerySet | None = None, **more: str) -> RunFolder:
    own = {FACTS[number] for number in known}
    return answered(
        folder / f"{probe}-{len(list(folder.iterdir()))}", knows(own), data or world(EVEN), probe=probe, **more
    )


def cells(found: profile.Profile) -> dict[str, float]:
    return {label: round(share.value, 6) for label, share in found.cells}


def test_cells_by_hand(tmp_path: Path) -> None:
    """Ranked first: 0 to 59; generated: 40 to 69. Both 20, ranked alone 40, generated alone 10, neither 30 of 100."""
    found = profile.analyse([run(tmp_path, range(60)), run(tmp_path, range(40, 70), "generation")])
    expected = {profile.EVERY: 0.2, profile.RECOGNISED: 0.4, "only generated": 0.1, profile.NONE: 0.3}
    assert cells(found) == expected
    assert list(cells(found)) == list(expected)
    [pair] = found.pairs
    assert (pair.only_first.value, pair.only_second.value) == (0.4, 0.1)
    beyond, difference = (contrast.estimate.value for contrast in pair.claim.contrasts)
    assert difference == pytest.approx(0.3)
    assert beyond == pytest.approx(0.3)  # both choose among the same twenty
    assert pair.decision.holds
    assert found.ways[0].baselines["random"].tolist() == pytest.approx([0.05] * 100)
    first, *_ = profile.conclude(found)
    assert "100 facts" in first
    assert "20.0 % known every way" in first
    listed = profile.files(found)["profile-facts"].rows
    assert [row[1:] for row in listed if row[0].startswith(("s000|", "s050|", "s065|", "s099|"))] == [
        (profile.RECOGNISED, True, False),
        (profile.EVERY, True, True),
        ("only generated", False, True),
        (profile.NONE, False, False),
    ]


def test_the_interval_beyond_guessing_by_hand(tmp_path: Path) -> None:
    """Of 20 facts, 10 are known one way, and none the other: 1/2, with the variance 1/4 / 19.

    Each less its chance, two ways differ by at most 2, so the interval is Wilson's (1927) between −2 and 2: at 5/8 of
    this width, with as many tosses as have the variance, 5/8 · 3/8 · 16 / (1/4 / 19) = 285.
    """
    data = world([[number] for number in range(20)], relations=1)
    found = profile.analyse([run(tmp_path, range(10), data=data), run(tmp_path, range(0), "generation", data)])
    beyond = found.pairs[0].claim.contrasts[0].estimate
    bend = stats.t.ppf(0.975, 19) ** 2 / 285
    half = np.sqrt(5 / 8 * 3 / 8 * bend + bend**2 / 4)
    ends = [-2 + 4 * (5 / 8 + bend / 2 + sign * half) / (1 + bend) for sign in (-1, 1)]
    assert (beyond.value, beyond.low, beyond.high) == pytest.approx((0.5, *ends))


def test_one_direction_only(tmp_path: Path) -> None:
    """Forward 0 to 49, reverse 30 to 39: facts with the same answer keep their own identity."""
    both = [[number % 20] for number in range(20)]
    data = world(both, relations=1)
    runs = [run(tmp_path, range(15), data=data), run(tmp_path, range(10, 18), data=reverse_queries(data))]
    found = profile.analyse(runs)
    assert [way.name for way in found.ways] == ["ranked first", "ranked first, reverse"]
    assert cells(found) == {profile.EVERY: 0.25, profile.FORWARD: 0.5, profile.REVERSE: 0.15, profile.NONE: 0.1}


def test_three_ways_name_their_combinations(tmp_path: Path) -> None:
    """Ranked by two probes (0 to 59, 0 to 19) and chosen (0 to 39): 20 every way, 20 by two ways, 20 by one."""
    runs = [run(tmp_path, range(60)), run(tmp_path, range(20), "vocabulary"), run(tmp_path, range(40), "choice")]
    found = profile.analyse(runs)
    assert [way.name for way in found.ways] == ["ranked first statement", "ranked first vocabulary", "chosen"]
    assert cells(found) == {
        profile.EVERY: 0.2,
        "only ranked first statement": 0.2,
        "only ranked first statement, chosen": 0.2,
        profile.NONE: 0.4,
    }
    assert len(found.pairs) == 3


def test_one_way_says_what_is_missing(tmp_path: Path) -> None:
    found = profile.analyse([run(tmp_path, range(60))])
    assert cells(found) == {profile.EVERY: 0.6, profile.NONE: 0.4}
    text = render(profile.tables(found), "text")
    for missing in ("chosen", "generated", "reverse"):
        assert missing in text


def test_differences_of_guessing_are_no_knowledge(tmp_path: Path) -> None:
    """Among two options guessing is right in half of the facts, among twenty in one of twenty."""
    wide, narrow = world(EVEN), world([[number % 2] for number in range(100)], size=2)
    few = {FACTS[number] for number in range(0, 100, 20)}
    half = {FACTS[number] for number in range(0, 100, 2)}
    answered(tmp_path / "a", knows(few), wide)
    answered(tmp_path / "b", knows(half), narrow, probe="choice")
    for folder in (tmp_path / "a", tmp_path / "b"):  # the answers of the two worlds differ
        _forget_answers(folder)
    found = profile.analyse([RunFolder.open(folder) for folder in (tmp_path / "a", tmp_path / "b")])
    beyond, difference = (contrast.estimate for contrast in found.pairs[0].claim.contrasts)
    assert difference.value == pytest.approx(-0.45)
    assert beyond.value == pytest.approx(0)
    assert not found.pairs[0].decision.holds


def _forget_answers(folder: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(without_digests(folder) / "queries.parquet")
    facts = [f"{fact.rpartition('|')[0]}|*" for fact in table["fact_id"].to_pylist()]
    at = table.schema.get_field_index("fact_id")
    pq.write_table(table.set_column(at, "fact_id", [facts]), folder / "queries.parquet")


def design(folder: Path, data: QuerySet, exposures: dict[int, range], taught: range = range(0)) -> Path:
    counts = {number: count for count, numbers in exposures.items() for number in numbers}
    lines = [
        {"query_id": query.id, "fact_id": query.fact_id, "exposures": counts[number]}
        | ({"taught": ["question"]} if number in taught else {})
        for number, query in enumerate(data.queries)
        if number in counts
    ]
    file = folder / "planted.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return file


def test_cells_by_exposures_and_the_control(tmp_path: Path) -> None:
    """Of 50 read ten times 40 are known both ways; of 40 unread none. 5 of the read were taught as questions, 10 facts
    are not in the design."""
    data = world(EVEN)
    file = design(tmp_path, data, {10: range(50), 0: range(50, 90)}, range(5))
    runs = [run(tmp_path, range(40)), run(tmp_path, range(40), "generation")]
    found = profile.analyse(runs, ProfileOptions(design=file))
    shares = {(row["exposures"], row["cell"]): row["share"].value for row in found.checked.exposed}
    assert shares[10, profile.EVERY] == pytest.approx(35 / 45)
    assert shares[0, profile.EVERY] == 0
    assert found.checked.left_out == (10, 5)
    assert not found.control.holds
    assert "not significantly more often" in profile.conclude(found)[-1]


def test_chance_of_every_way_is_the_product_of_both(tmp_path: Path) -> None:
    """None of 40 unread facts is known both ways. Of 20 candidates each, 1/400 would be by random guessing.

    A chance q above the interval has (1 − q)⁴⁰ / 2 < 0.025, so it ends at 1 − 0.05^(1/40), less 1/400.
    """
    data = world(EVEN)
    file = design(tmp_path, data, {10: range(50), 0: range(50, 90)})
    found = profile.analyse(
        [run(tmp_path, range(40)), run(tmp_path, range(40), "generation")], ProfileOptions(design=file)
    )
    contrasts = {one.name: one.estimate for one in found.checked.control.contrasts}
    assert contrasts["random"].value == pytest.approx(-1 / 400)
    assert contrasts["random"].high == pytest.approx(1 - 0.05 ** (1 / 40) - 1 / 400)


def test_unread_facts_that_are_known_are_no_control(tmp_path: Path) -> None:
    data = world(EVEN)
    file = design(tmp_path, data, {1: range(50), 0: range(50, 100)})
    found = profile.analyse(
        [run(tmp_path, range(80)), run(tmp_path, range(80), "generation")], ProfileOptions(design=file)
    )
    assert found.checked.unread.value == pytest.approx(0.6)
    assert found.control.holds
    assert "do not serve as a control" in profile.conclude(found)[-1]


def test_each_pair_has_its_own_verdict(tmp_path: Path) -> None:
    """Chosen 60, ranked 60 and generated 20 of 100: the first two are alike, and both differ from the third; of the
    same family is the control, so that the least p value counts four times."""
    data = world(EVEN)
    file = design(tmp_path, data, {1: range(50), 0: range(50, 100)})
    runs = [run(tmp_path, range(60)), run(tmp_path, range(20), "generation"), run(tmp_path, range(60), "choice")]
    found = profile.analyse(runs, ProfileOptions(design=file))
    alike = {(pair.first, pair.second): pair.decision.holds for pair in found.pairs}
    assert alike == {
        ("ranked first", "generated"): True,
        ("ranked first", "chosen"): False,
        ("generated", "chosen"): True,
    }
    p_values = [max(one.estimate.p_value for one in pair.claim.contrasts) for pair in found.pairs]
    assert p_values[1] == 1
    assert found.pairs[0].decision.p_value == pytest.approx(4 * p_values[0])
    assert not found.control.holds
    [table] = [one for one in profile.tables(found) if one.title == "pairs of ways"]
    verdicts = [row[table.columns.index("verdict")] for row in table.rows]
    assert verdicts == [pair.decision.word for pair in found.pairs]
    reasons = [row[table.columns.index("reason")] for row in table.rows]
    assert reasons == [pair.decision.reason or None for pair in found.pairs]


def test_bad_input(tmp_path: Path) -> None:
    one, other = run(tmp_path, range(10)), run(tmp_path, range(10), "generation", model="n")
    with pytest.raises(BadInput, match="one model, found models/m, models/n"):
        profile.analyse([one, other])
    with pytest.raises(BadInput, match="twice"):
        profile.analyse([one, one])
    elsewhere = run(tmp_path, range(10), "generation", world([[19]] * 10))
    with pytest.raises(BadInput, match="no ranked fact in common"):
        profile.analyse([one, elsewhere])
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"query_id": "x", "exposures": 1}', encoding="utf-8")
    with pytest.raises(BadInput, match="none of the 100 facts"):
        profile.analyse([one], ProfileOptions(design=wrong))


def test_a_study_of_the_registry_saves_the_list_of_facts(tmp_path: Path) -> None:
    study = STUDIES["profile"]
    study.save(study.analyse([run(tmp_path, range(3))]), tmp_path / "out")
    lines = (tmp_path / "out" / "profile-facts.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 101
    assert lines[0] == "fact,cell,ranked first"


def test_the_first_of_several_scorings_is_taken_and_noted(tmp_path: Path) -> None:
    """Ranked first: 0 to 59; by the letter: 0 to 9, by the text: 0 to 29."""
    statement, letter, text = run(tmp_path, range(60)), run(tmp_path, range(10)), run(tmp_path, range(30))
    both = RunFolder(tmp_path / "both")
    both.start(letter.manifest["identity"], ["0"], *query_tables(world(EVEN)))
    parts = ((letter, "letter"), (text, "text-sum"))
    both.add_shard("0", [row | {"scoring": name} for part, name in parts for row in part.predictions().to_pylist()])
    shares = {}
    for names in ((), ("text-sum",), ("letter",)):
        found = profile.analyse([statement, both], ProfileOptions(scoring=names))
        ways, *_ = profile.tables(found)
        noted = [note for note in ways.notes if stated([note], "letter", "not text-sum", "--scoring")]
        shares[names] = [round(way.share.value, 6) for way in found.ways], len(noted)
    assert shares == {(): ([0.6, 0.1], 1), ("text-sum",): ([0.6, 0.3], 0), ("letter",): ([0.6, 0.1], 0)}

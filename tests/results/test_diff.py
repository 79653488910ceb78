"""``fathom diff``: every number by hand, answerers who learnt nothing, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fathom as library
from fathom.base.errors import BadInput
from fathom.data.queries import QuerySet
from fathom.results.diff import FORGOTTEN, KEPT, LEARNT, NEVER, RETAINED, became, diff
from fathom.results.metrics.significance import smallest_difference
from fathom.store.folder import RunFolder
from tests.answerers import EVEN, answered, at_random, at_rank, constant, knowing, never, short_names_first, world
from tests.messages import mentioned, mentions, stated

Made = Callable[..., RunFolder]
EIGHT = world([[n] for n in (0, 0, 1, 1, 2, 3, 0, 1)], relations=2)
"""Right answers of the first relation: two twice; of the second: four once."""
BEFORE, AFTER = {"q000", "q001", "q004"}, {"q000", "q002", "q003", "q004", "q005"}
"""Kept: 0 and 4. Forgotten: 1. Learnt: 2, 3 and 5. Never known: 6 and 7."""


@pytest.fixture
def made(tmp_path) -> Made:
    count = iter(range(1000))
    return lambda answer, data=EIGHT, **more: answered(tmp_path / f"run{next(count)}", answer, data, **more)


def both(made: Made, before=BEFORE, after=AFTER, data: QuerySet = EIGHT) -> tuple[RunFolder, RunFolder]:
    return made(knowing(before), data, model="before"), made(knowing(after), data, model="after")


def shares(part) -> list[float]:
    return [part.became[name].value for name in (LEARNT, FORGOTTEN, KEPT, NEVER)]


# --- by hand


def test_what_became_of_the_facts(made):
    found = diff(*both(made))
    [part] = found.parts
    assert diff(*both(made), ["sum/full"]).answer == found.answer
    assert shares(part) == [3 / 8, 1 / 8, 2 / 8, 2 / 8]
    assert part.became[RETAINED].value == pytest.approx(2 / 3)
    assert part.became[RETAINED].n == 3
    assert (part.before.value, part.after.value, part.difference.value) == (3 / 8, 5 / 8, 2 / 8)
    for name in (LEARNT, FORGOTTEN, KEPT, NEVER):
        assert part.became[name].low < part.became[name].value < part.became[name].high
    assert part.difference.smallest is not None


def test_baselines_by_hand(made):
    """By lot 1/20. What is right most often elsewhere: in the first relation, two of two each, level but for the fact
    itself, by half; in the second four of one each, level with all twenty, by lot."""
    [part] = diff(*both(made)).parts
    told = {one.baseline: one.value for one in part.baselines}
    by_names = told.pop("names")  # worked out by hand in tests/results/test_baselines.py
    assert told == {"random": pytest.approx(1 / 20), "majority": pytest.approx((4 / 2 + 4 / 20) / 8)}
    differences = {one.baseline: one.difference.value for one in part.baselines}
    assert differences.pop("names") == pytest.approx(5 / 8 - by_names)
    assert differences == {"random": pytest.approx(5 / 8 - 1 / 20), "majority": pytest.approx(5 / 8 - 0.275)}
    assert part.verdict == "not above majority, names"


def test_each_part_has_its_own_verdicts(made):
    """Forty facts of two relations: of the first all are learnt, of the second none. All changes and all comparisons
    with the baselines are one family of six, in which the first change has the least p value."""
    data = world([[number % 20] for number in range(40)], relations=2)
    learnt = {f"q{number:03}" for number in range(20)}
    parts = diff(*both(made, set(), learnt, data), by="relation").parts
    assert [part.name for part in parts] == ["all", "r0", "r1"]
    assert [part.changed.holds for part in parts] == [True, True, False]
    assert [part.above.holds for part in parts] == [False, True, False]  # names of learnt answers are scored highly
    for part in parts:
        assert part.changed.claim.contrasts[0].estimate == part.difference
        assert [one.estimate for one in part.above.claim.contrasts] == [one.difference for one in part.baselines]
    own = [part.difference.p_value for part in parts]
    assert own[1:] == pytest.approx([2 * stats.norm.sf(np.sqrt(20)), 1])  # McNemar's z of 20 and 0; 2⁻¹⁹ by their signs
    assert parts[0].changed.p_value == pytest.approx(6 * own[0])
    assert own[1] < parts[1].changed.p_value <= 6 * own[1]


def test_few_known_before_tell_little(made):
    """Two of eight facts were known, and are: Wilson's interval of 2 of 2, z² / (2 + z²) of others may differ."""
    [part] = diff(*both(made, {"q000", "q004"}, AFTER)).parts
    kept = part.became[RETAINED]
    assert (kept.value, kept.n, kept.high) == (1, 2, 1)
    assert kept.low == pytest.approx(2 / (2 + 1.959964**2), abs=1e-6)
    none = diff(*both(made, set(), AFTER)).parts[0].became[RETAINED]
    assert none.low is None
    assert "none of which" in none.note


def test_the_least_change_of_what_is_known_by_a_share():
    found = became(np.array([1, 0, 0.5, 0.25, 1 / 3]), np.array([1, 0, 0.5, 1, 0]))
    assert found[LEARNT].tolist() == [0, 0, 0, 0.75, 0]
    assert found[FORGOTTEN].tolist() == [0, 0, 0, 0, 1 / 3]
    assert found[KEPT].tolist() == [1, 0, 0.5, 0.25, 0]
    assert found[NEVER].tolist() == [0, 1, 0.5, 0, pytest.approx(2 / 3)]
    assert sum(found.values()).tolist() == pytest.approx([1] * 5)


def test_a_fact_known_by_other_templates(made):
    """One of two before, both after: half of it is learnt, half kept."""
    data = world([[0]] * 8, relations=2, templates=2)
    one = made(lambda query, space, number: (at_rank(1) if number else never)(query, space, number), data, model="a")
    [part] = diff(one, made(at_rank(1), data, model="b")).parts
    assert shares(part) == [0.5, 0, 0.5, 0]
    assert {own.change for own in part.each} == {LEARNT}


def test_up_to_rank_k(made):
    before, after = made(at_rank(4), model="a"), made(at_rank(3), model="b")
    assert shares(diff(before, after).parts[0]) == [0, 0, 0, 1]
    assert shares(diff(before, after, k=3).parts[0]) == [1, 0, 0, 0]
    assert diff(before, after, k=3).tables[0].title == "hits@3"


# --- controls


@pytest.mark.parametrize("answer", [constant, short_names_first, at_random(3)])
def test_a_constant_answerer_learns_and_forgets_nothing(made, answer):
    data = world(EVEN, templates=2)
    [part] = diff(made(answer, data, model="a"), made(answer, data, model="b")).parts
    assert shares(part)[:2] == [0, 0]
    assert shares(part)[2] == pytest.approx(part.before.value)
    assert not part.changed.holds
    assert {own.change for own in part.each} <= {KEPT, NEVER}


def test_answering_by_lot_anew_learns_as_much_as_it_forgets(made):
    """A lot of twenty candidates: 1/20 · 19/20 is learnt, and forgotten. One of twenty pairs differs."""
    data = world(EVEN * 2, relations=5)
    runs = [made(at_random(seed), data, model=f"m{seed}") for seed in range(12)]
    found = [diff(one, other).parts[0] for one, other in zip(runs[::2], runs[1::2], strict=True)]
    for what in (0, 1):
        assert np.mean([shares(part)[what] for part in found]) == pytest.approx(19 / 400, abs=0.02)
    assert sum(part.changed.holds for part in found) <= 1
    # Each is called above chance with a chance of 2.5 %: none of six in six of seven cases, and this is the seventh.
    assert ["not above" in part.verdict for part in found].count(False) <= 1


def test_more_knowledge_is_seen(made):
    data = world(EVEN)
    before = made(at_random(1), data, model="a")
    after = made(knowing({f"q{n:03}" for n in range(0, 100, 2)}, at_random(1)), data, model="b")
    [part] = diff(before, after).parts
    assert part.changed.holds
    assert part.became[FORGOTTEN].value == 0
    assert part.verdict == "above"
    [line] = diff(before, after).tables_in("json")[0].objects()
    assert (line["change"], line["smallest"], line["verdict"]) == ("rose", None, "above")
    [line] = diff(after, before).tables_in("json")[0].objects()
    assert (line["change"], line["smallest"]) == ("fell", None)


def test_what_programs_see(made):
    """Without groups, and with: the columns and notes."""
    before, after = both(made)
    first, second, _ = diff(before, after).tables_in("json")
    assert first.columns[:5] == ("facts", "only before", "only after", "before", "before low")
    [line] = first.objects()
    assert line["change"] == "no significant difference"
    [part] = diff(before, after).parts
    assert line["smallest"] == pytest.approx(part.changed.smallest)
    # Two verdicts are one family: each is tested at 2.5 %, which finds less than a test at 5 % would.
    own = part.difference.interval
    assert part.changed.smallest == pytest.approx(smallest_difference(own.error, own.degrees, level=0.025))
    assert part.changed.smallest > part.difference.smallest
    assert second.columns[:2] == ("became", "share")
    assert [row["became"] for row in second.objects()] == [LEARNT, FORGOTTEN, KEPT, NEVER, RETAINED]
    assert mentioned(first.notes[0], "after minus before", "paired by fact")
    first, second, _ = diff(before, after, by="relation").tables_in("json")
    assert first.columns[0] == second.columns[0] == "relation"
    assert [row["p (Holm)"] is None for row in first.objects()] == [False, True, True]  # of four facts each


def test_readers_see_narrow_tables(made):
    """The change in few columns, then the baselines in a table of their own."""
    change = diff(*both(made), by="relation")
    assert [table.title for table in change.tables] == [
        "accuracy", "after, next to the baselines", "what became of the facts"
    ]  # fmt: skip
    assert [row["change"] for row in change.tables[0].objects()] == ["no", "unknown", "unknown"]
    assert {"random", "verdict"} <= set(change.tables[1].columns)
    whole = diff(*both(made))
    for own, has_groups in ((change, True), (whole, False)):
        assert ("0 of 2 groups by relation changed significantly." in own.answer) == has_groups
        assert ("unknown: cannot be determined" in own.tables[1].notes) == has_groups
    widths = [len(line) for line in change.to_text().splitlines()]
    assert max(widths) <= 80, change.to_text()


# --- groups


def edited() -> QuerySet:
    """Facts 0 to 3 as target and again as paraphrase, which have the same fact_id; 4 to 7 as neighbour."""
    groups = [{"role": "target"}] * 4 + [{"role": "neighbour"}] * 4
    queries = [replace(query, groups=group) for query, group in zip(EIGHT.queries, groups, strict=True)]
    again = [replace(query, id=f"p{query.id}", groups={"role": "paraphrase"}) for query in queries[:4]]
    return replace(EIGHT, queries=(*queries, *again))


def test_an_edit_by_group(made):
    """After the edit all four targets are known, two of their paraphrases, and one of two neighbours is lost."""
    known = {"q000", "q001", "q002", "q003", "pq000", "pq001", "q005"}
    found = diff(*both(made, {"q004", "q005"}, known, edited()), by="role")
    by_name = {part.name: part for part in found.parts}
    assert list(by_name) == ["all", "target", "neighbour", "paraphrase"]
    assert shares(by_name["target"]) == [1, 0, 0, 0]  # efficacy: after is 1
    assert shares(by_name["paraphrase"]) == [0.5, 0, 0, 0.5]  # generalisation
    assert shares(by_name["neighbour"]) == [0, 0.25, 0.25, 0.5]
    assert by_name["neighbour"].became[RETAINED].value == 0.5  # locality
    # A fact as target and as paraphrase is one fact, asked twice.
    assert by_name["all"].facts == 8
    assert by_name["all"].after.value == pytest.approx((1 + 1 + 0.5 + 0.5 + 1) / 8)
    assert "role:target" in by_name["target"].after.recipe
    assert by_name["target"].changed.word == "cannot be determined"  # of four facts
    assert by_name["all"].changed.p_value >= by_name["all"].difference.p_value
    assert [row["role"] for row in found.tables[0].objects()] == list(by_name)


def test_a_group_that_cannot_be_compared_is_a_line(made):
    before = made(knowing(BEFORE), EIGHT, model="a")
    after = made(knowing(AFTER), replace(EIGHT, queries=EIGHT.queries[:4]), model="b")
    found = diff(before, after, by="relation")
    assert [part.name for part in found.parts] == ["all", "r0"]
    assert [row["group"] for row in json.loads(found.to_json())["not compared"]] == ["r1"]
    assert stated(found.to_text(), "excluded: 4 facts", "run before", "0 only")


# --- lists


def test_facts_are_listed(made, fathom):
    before, after = both(made)
    _, printed, _ = fathom("diff", before.path, after.path, "--list", 2)
    tail = printed[printed.index("\nfacts\n") :]
    assert [line.split()[0] for line in tail.splitlines()[4:7]] == [LEARNT, LEARNT, FORGOTTEN]
    assert "\nfacts\n" not in fathom("diff", before.path, after.path)[1]
    told = json.loads(fathom("diff", before.path, after.path, "--format", "json")[1])
    assert list(told) == ["answer", "accuracy", "what became of the facts", "facts"]
    assert [row["change"] for row in told["facts"]] == [
        *(KEPT, FORGOTTEN, LEARNT, LEARNT, KEPT, LEARNT, NEVER, NEVER)
    ]  # fmt: skip
    one = told["facts"][1]
    assert one == {
        "fact": "s001|r0|c00", "change": FORGOTTEN, "before": 1, "after": 0, "rank before": 1, "rank after": 20,
        "relation": "r0", "subject": "s001", "right answers": "w0",
    }  # fmt: skip


# --- what is refused


def test_what_is_refused(made, fathom, tmp_path):
    before, after = both(made)
    (after.path / "predictions" / "part-0.parquet").write_bytes(b"PAR1")
    out = tmp_path / "out"
    code, printed, said = fathom("diff", before.path, after.path, "--out", out)
    assert (code, printed, said.count("\n")) == (2, "", 1)
    assert "is damaged" in said
    assert not out.exists()
    (after.path / "predictions" / "part-0.parquet").unlink()
    assert "is unfinished" in fathom("diff", before.path, after.path)[2]
    code, _, said = fathom("diff", before.path, before.path)
    assert (code, said.count("\n")) == (2, 1)
    assert "is given twice" in said
    good = made(knowing(AFTER), model="after")
    with pytest.raises(BadInput, match=mentions("'colour'")):
        diff(before, good, by="colour")
    with pytest.raises(BadInput, match="expected one"):
        diff(before, good, ["a", "b"])
    strange = tuple(replace(query, id=f"x{query.id}", subject_id=f"x{query.id}") for query in EIGHT.queries)
    stranger = made(never, replace(EIGHT, queries=strange))
    with pytest.raises(BadInput, match="no ranked fact"):
        diff(before, stranger)
    with pytest.raises(BadInput, match="among 20 candidates"):
        diff(before, made(never, world([[0]] * 8, relations=2, size=10), model="b"), by="relation")


def test_a_search_that_stopped_is_refused(made):
    run = made(at_rank(1), model="a")
    rows = run.predictions().to_pylist()
    rows[0] |= dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), None) | {"rank_above": 5}
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    other = made(knowing(AFTER), model="b")
    assert diff(run, other).parts[0].before.value == 7 / 8
    with pytest.raises(BadInput, match=mentions("rank 5", "Acc@10")):
        diff(run, other, k=10)


def test_what_differs_in_the_asking_is_said(made):
    before = made(knowing(BEFORE), model="a")
    after = made(knowing(AFTER), model="a", reading="template-free")
    found = diff(before, after)
    said = " ".join(found.to_text().split())
    assert found.one_model
    assert "one model" in said
    assert not stated(found.answer, "forgotten")  # nothing happened between the runs
    assert not diff(before, made(knowing(AFTER), model="b")).one_model
    assert mentioned(said, "'template-based'", "'template-free'")


def test_in_python(made):
    before, after = both(made)
    found = library.diff(before.path, library.open_run(after.path), listed=1)
    assert found.to_text() == diff(before, after, listed=1).to_text()
    assert r"\begin{tabular}" in found.to_latex()
    assert "**accuracy**" in found.to_markdown()
    assert len(json.loads(found.to_json())["facts"]) == 8


def test_too_few_facts_leave_a_change_undetermined(made):
    """Four facts: fewer than the six independent units that a test needs."""
    data = world([[0]] * 4, relations=1)
    before, after = (made(knowing(known), data) for known in ({"q000"}, {"q000", "q001"}))
    [said] = diff(before, after).answer
    assert mentioned(said, "cannot be determined", "after − before", "only 4 of the 6 ")


def test_only_a_change_that_is_not_significant_has_a_detectable_size(made):
    """Three facts more of eight are not significant, p = 0.5 by three signs against one; of forty, all learnt, are."""
    found = diff(*both(made))
    assert (found.parts[0].changed.holds, stated(found.answer, "A true change of", "80 %")) == (False, True)
    data = world([[number % 20] for number in range(40)], relations=2)
    every = {query.id for query in data.queries}
    found = diff(*both(made, {"q000", "q001"}, every - {"q039"}, data))
    assert found.parts[0].changed.holds
    assert found.parts[0].changed.smallest is not None
    assert not stated(found.answer, "A true change of")

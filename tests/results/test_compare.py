"""``fathom compare``: every number by hand, answerers of which it is known whether they differ, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from scipy import stats

import fathom as library
from fathom.base.errors import BadInput
from fathom.results import estimates
from fathom.results.checking import _least, detectable, detectable_with_seeds
from fathom.results.claims import FEWEST, NO_DIFFERENCE, NOT_SUPPORTED, SIGNIFICANT, UNDETERMINED
from fathom.results.compare import COMPARED, compare, count_right
from fathom.results.estimates import Noise
from fathom.results.loading import distinguished, read_facts, wanted_of
from fathom.results.metrics.significance import smallest_difference
from fathom.results.metrics.table import metric
from fathom.results.samples import Sample, with_subjects
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA
from fathom.studies.agreement import analyse as agreement
from fathom.studies.length_bias import analyse as length_bias
from fathom.studies.length_bias import plots as length_plots
from fathom.studies.options import AgreementOptions
from tests.answerers import (
    EVEN,
    answered,
    at_random,
    at_rank,
    constant,
    first_few,
    grown,
    knowing,
    never,
    short_names_first,
    tossed,
    world,
)
from tests.messages import correspond, mentioned, mentions, stated

Made = Callable[..., RunFolder]
FOUR = world([[0]] * 8, relations=2)
"""Two relations of four facts."""
FIRST, SECOND = {"q000", "q001", "q002", "q004", "q005"}, {"q000", "q004", "q003"}
"""Both know two facts (0, 4), the first alone three (1, 2, 5), the second alone one (3), nobody two (6, 7)."""


@pytest.fixture
def made(tmp_path) -> Made:
    number = iter(range(1000))
    return lambda answer, data=FOUR, **more: answered(tmp_path / f"run{next(number)}", answer, data, **more)


def knows(made: Made, facts: set[str], model: str, data=FOUR, **more) -> RunFolder:
    return made(knowing(facts), data, model=model, **more)


# --- by hand


def test_two_runs_by_hand(made):
    """Differences by relation 0, 1, 1, −1 and 0, 1, 0, 0: means 1/4 and 1/4, mean 1/4. Within relations the jackknife's
    variance is Σ share² · s² / n: 1/4 · (11/12) / 4 + 1/4 · (1/4) / 4 = 7/96, that of (4/8 − 1/16) / (7/96) = 6
    independent pairs, of which the first alone has 6 · 3/8 right and the second alone 6 · 1/8. McNemar's z is then
    1.5 / √3."""
    found = compare([knows(made, FIRST, "a"), knows(made, SECOND, "b")])
    [pair] = found.pairs
    assert (pair.first, pair.second, pair.facts) == ("a", "b", 8)
    accuracy, hits, mrr = pair.differences
    assert (accuracy.first, accuracy.second) == (5 / 8, 3 / 8)
    assert accuracy.number.value == pytest.approx(1 / 4)
    assert pair.cells == (2, 3, 1, 2, 0)
    # `never` puts the right one of twenty last, which is rank 20.
    assert mrr.first == pytest.approx((5 + 3 / 20) / 8)
    assert hits.first == pytest.approx(5 / 8)
    variance = (11 / 12 + 1 / 4) / 16
    parts = [(11 / 12 / 16) ** 2 / 3, (1 / 4 / 16) ** 2 / 3]
    degrees = variance**2 / sum(parts)
    critical = stats.t.ppf(0.975, degrees)
    assert accuracy.number.p_value == pytest.approx(2 * stats.t.sf(1.5 / math.sqrt(3), degrees))
    assert pair.decision.p_value == accuracy.number.p_value
    power = stats.nct.sf(critical, degrees, accuracy.number.smallest / math.sqrt(variance))
    assert power == pytest.approx(0.8, abs=1e-4)
    assert pair.higher is None
    assert pair.decision.word == NO_DIFFERENCE


def test_probes_of_one_model_agree_as_far_as_their_ranks_do(made):
    """Ranks of the first are 1 to 4, those of the second 4 to 1 in the first relation and 1 to 4 in the second."""
    data = world([[0], [1], [2], [3]] * 2, relations=2)

    def turned(query, space, number):
        place = int(query.id[1:])
        return at_rank(4 - place if place < 4 else place - 3)(query, space, number)

    cloze, statement = made(constant, data, model="a"), made(turned, data, model="a", probe="statement")
    found = compare([cloze, statement, made(never, data, model="b")], ["sum/full"])
    [agreeing] = [pair for pair in found.pairs if pair.agreement]
    ranks = np.log10([[1, 2, 3, 4] * 2, [4, 3, 2, 1, 1, 2, 3, 4]])
    assert agreeing.agreement.log_ranks.value == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert agreeing.agreement.both_hit.value == 1
    assert (agreeing.first, agreeing.second) == ("a cloze", "a statement")
    [table] = [table for table in found.tables if table.title == "agreement of probes"]
    assert len(table.rows) == 1


def test_runs_have_numbers_of_their_own(made):
    found = compare([knows(made, FIRST, "a"), knows(made, SECOND, "b")], metrics=["mrr", "accuracy"])
    assert [one.name for one in found.metrics] == ["mrr", "accuracy"]
    first, second = found.runs
    assert (first.name, first.facts, first.left_out) == ("a", 8, 0)
    assert [run.numbers[1].value for run in (first, second)] == [5 / 8, 3 / 8]
    assert "cluster:fact within relation" in first.numbers[1].recipe


def test_holm_over_all_pairs(made):
    """Three runs, three pairs: the least p value three times, the next twice, the greatest once, rising."""
    runs = [knows(made, facts, name) for facts, name in ((FIRST, "a"), (SECOND, "b"), ({"q007"}, "c"))]
    found = compare(runs)
    p = [pair.differences[0].number.p_value for pair in found.pairs]
    order = np.argsort(p)
    expected = np.minimum(1, np.maximum.accumulate(np.array([3, 2, 1]) * np.array(p)[order]))
    assert [found.pairs[place].decision.p_value for place in order] == pytest.approx(expected.tolist())
    assert [(pair.first, pair.second) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    few = compare(runs, to_first=True)
    assert [(pair.first, pair.second) for pair in few.pairs] == [("a", "b"), ("a", "c")]


def test_cells_leave_out_what_is_undecided():
    first, second = np.array([1, 1, 0, 0, 0.5, 1]), np.array([1, 0, 1, 0, 1, 1 / 3])
    assert count_right(first, second)[:5] == (1, 1, 1, 1, 2)
    assert count_right(np.array([np.nan]), np.array([1.0])) is None


def test_ties_and_templates_are_undecided(made):
    """Names of one word are four: the right one is first with chance 1/4. Of two templates one is answered."""
    tied, sure = made(short_names_first, model="a"), knows(made, FIRST, "b")
    assert compare([tied, sure]).pairs[0].cells[:5] == (0, 0, 0, 0, 8)
    data = world([[0]] * 8, relations=2, templates=2)
    one = made(lambda query, space, number: (at_rank(1) if number else never)(query, space, number), data, model="c")
    both = knows(made, set(), "d", data)
    pair = compare([one, both]).pairs[0]
    assert pair.cells[4] == 8
    assert pair.differences[0].number.value == pytest.approx(0.5)


def test_runs_that_agree_everywhere(made):
    [pair] = compare([made(constant, model="a"), made(constant, model="b")]).pairs
    assert pair.differences[0].number.value == 0
    assert pair.differences[0].number.p_value == 1
    # of 8 facts six would have to differ, all on one side: P(Binomial(8, 0.8) >= 6) = 0.797
    assert pair.differences[0].number.smallest == pytest.approx(0.8014, abs=1e-4)
    assert pair.decision.word == NO_DIFFERENCE


# --- how facts were drawn


def test_relations_and_subjects_where_these_repeat(made):
    """Twelve relations of the same ten subjects."""
    data = world([[n % 20] for n in range(120)], relations=12)
    subjects = [replace(query, subject=f"s{n % 10}", subject_id=f"s{n % 10}") for n, query in enumerate(data.queries)]
    again = replace(data, queries=tuple(subjects))
    runs = [made(at_random(seed), again, model=f"m{seed}") for seed in (1, 2)]
    number = compare(runs).pairs[0].differences[0].number
    assert number.sample == "relation and subject"
    assert "cluster:relation and subject" in number.recipe
    assert compare(runs, cluster="relation").pairs[0].differences[0].number.sample == "relation"
    assert compare(runs, cluster="subject").pairs[0].differences[0].number.sample == "subject"
    runs = [made(at_random(seed), data, model=f"m{seed}") for seed in (1, 2)]
    assert compare(runs).pairs[0].differences[0].number.sample == "relation"


def test_each_run_has_clusters_of_its_own(made):
    """Eight documents of a fact each in the one, two of four in the other."""

    def of_documents(count: int):
        queries = [replace(query, groups={"document": str(n % count)}) for n, query in enumerate(FOUR.queries)]
        return replace(FOUR, queries=tuple(queries))

    runs = [knows(made, FIRST, "a", of_documents(8)), knows(made, SECOND, "b", of_documents(2))]
    assert [run.numbers[0].clusters for run in compare(runs, cluster="document").runs] == [8, 2]


def test_subjects_are_the_sampling_unit_wherever_they_repeat():
    relations = Sample("relation", ["r0", "r1", "r2"])
    assert with_subjects(relations, ["a", "b", "a"]).also == ["subject a", "subject b", "subject a"]
    assert with_subjects(relations, ["a", "b", "c"]) == relations
    assert with_subjects(relations, [None, None, "c"]) == relations
    within = Sample("fact within relation", None, ["r0", "r0", "r1"])
    assert with_subjects(within, ["a", "b", "a"]) == Sample(
        "subject within relation", None, within.within, ["subject a", "subject b", "subject a"]
    )


# --- controls


def test_answerers_by_lot_differ_at_the_nominal_rate(made):
    """Ten of them: of 45 pairs two or three have p < 0.05, and none by Holm but in one case of twenty."""
    runs = [made(at_random(seed), world(EVEN), model=f"m{seed}") for seed in range(10)]
    found = compare(runs, metrics=["mrr"])
    told = [pair.differences[0] for pair in found.pairs]
    assert sum(one.number.p_value < 0.05 for one in told) <= 3 * len(told) / 20
    assert not any(pair.decision.holds for pair in found.pairs)
    assert all(one.number.smallest is not None and 0 < one.number.smallest < 0.3 for one in told)


def test_answerers_who_know_as_much_of_other_facts_do_not_differ(made):
    data = world(EVEN)
    runs = [made(knowing(first_few(data, 0.5, seed)), data, model=f"m{seed}") for seed in range(6)]
    assert not any(pair.decision.holds for pair in compare(runs).pairs)


def test_one_who_knows_differs_from_one_by_lot(made):
    data = world(EVEN)
    runs = [made(knowing(tossed(data, 1), at_random(1)), data, model="knows"), made(at_random(2), data, model="lot")]
    found = compare(runs)
    assert all(one.number.low > 0 for one in found.pairs[0].differences)
    assert found.pairs[0].higher == "knows"
    [line] = list(found.tables[1].objects())
    assert (line["verdict"], line["smallest"]) == ("knows higher", None)


# --- the chat template, and its control

FORTY = world([[0]] * 40, relations=2)
WORDINGS = {"plain": {}, "chat": {"chat": True}, "shuffled": {"chat": True, "shuffle_chat": True}}


def numbered(*numbers: int) -> set[str]:
    return {f"q{number:03d}" for number in numbers}


KNOWN, MORE = numbered(*range(12), *range(20, 26)), numbered(*range(18), *range(20, 33))
LESS = numbered(0, 1, 20, 21)


@pytest.mark.parametrize(("chat", "shuffled", "word", "sign"), [
    (MORE, KNOWN, SIGNIFICANT, 1),
    (LESS, KNOWN, SIGNIFICANT, -1),
    (KNOWN, KNOWN, NO_DIFFERENCE, 0),
    (KNOWN, LESS, NO_DIFFERENCE, 0),  # what shuffled tokens spoil says nothing of the template
    (MORE, MORE, NO_DIFFERENCE, 0),  # any such tokens do the same
    (MORE, MORE | numbered(18, 19, *range(33, 40)), NO_DIFFERENCE, 0),
    (MORE, None, UNDETERMINED, 0),
    (KNOWN, None, NO_DIFFERENCE, 0),
])  # fmt: skip
def test_what_is_said_of_the_chat_template(made, chat, shuffled, word, sign):
    runs = [
        made(knowing(facts), FORTY, model="m", options=WORDINGS[name])
        for name, facts in (("plain", KNOWN), ("chat", chat), ("shuffled", shuffled))
        if facts is not None
    ]
    found = compare(runs, metrics=["accuracy"])
    [claim] = found.controlled
    assert (claim.word, claim.sign) == (word, sign)
    assert found.pairs[0].differs == ("chat templates (plain and chat)",)
    assert [pair.one_model for pair in found.pairs] == [True] * len(found.pairs)


def test_a_template_that_changes_no_more_than_its_shuffled_tokens(made):
    """The first contrast is significant on its own, and the sentence says so; the table has each one's own p value."""
    alike = [
        made(knowing(facts), FORTY, model="m", options=WORDINGS[name])
        for name, facts in (("plain", KNOWN), ("chat", MORE), ("shuffled", MORE))
    ]
    found = compare(alike, metrics=["accuracy"])
    [claim] = found.controlled
    assert claim.verdict == NOT_SUPPORTED
    assert stated(found.answer, claim.claim.otherwise)
    [table] = [one for one in found.tables if one.title == "claims that need a control"]
    values = [row[table.columns.index("p")] for row in table.rows]
    assert "p" not in table.hidden
    assert values[0] < 0.05 < values[1]
    assert found.pairs[2].differs == ("chat templates (chat and shuffled chat)",)


def test_parts_of_a_chat_that_differ_are_named(made):
    settings = ({}, {"system": "Be brief."}, {"chat_user": "State it."})
    found = compare([made(knowing(KNOWN), FORTY, options={"chat": True, **more}) for more in settings])
    assert found.pairs[0].differs == ("system messages (none and Be brief.)",)
    assert found.pairs[1].differs == ("user turns (default and State it.)",)


@pytest.mark.parametrize(("first", "second", "above"), [
    (LESS, numbered(0, 1, 20), "neither"), (MORE, LESS, "m1"), (MORE, MORE - {"q000"}, "both")
])  # fmt: skip
def test_a_pair_below_its_baselines_is_said_to_be(made, first, second, above):
    """The majority baseline has half of the facts right: all of one relation, none of the other."""
    data = world([[0]] * 20 + [[place] for place in range(20)], relations=2)
    found = compare([made(knowing(facts), data, model=f"m{1 + n}") for n, facts in enumerate((first, second))])
    assert found.pairs[0].above == above
    assert stated(found.answer, "baselines") == (above == "neither")


def test_a_chat_template_may_have_other_candidates(made):
    """Known are 18 and 31 of 40 facts, among twenty and among ten candidates."""
    fewer = world([[0]] * 40, relations=2, size=10)
    ways = (("plain", KNOWN, FORTY), ("chat", MORE, fewer))
    runs = [made(knowing(facts), data, model="m", options=WORDINGS[name]) for name, facts, data in ways]
    [claim] = compare(runs, metrics=["accuracy"]).controlled
    assert claim.claim.contrasts[0].estimate.value == pytest.approx((31 - 18) / 40)


@pytest.mark.slow
def test_a_template_that_does_nothing_is_seldom_said_to_do_something(made):
    """Chat, control and plain wording toss coins of their own: a difference in one case of twenty at most."""
    own = world([[0]] * 60, relations=6)
    holds = 0
    for number in range(40):
        runs = [
            made(knowing(tossed(own, number, place)), own, model="m", options=options)
            for place, options in enumerate(WORDINGS.values())
        ]
        holds += compare(runs, metrics=["accuracy"]).controlled[0].holds
    assert holds <= 3


# --- joining


def test_other_templates_probes_and_data_are_joined_on_facts(made):
    """The second run has half of the facts, asked twice, by another probe."""
    half = replace(world([[0]] * 8, relations=2, templates=2, name="E"), queries=FOUR.queries[:4])
    runs = [knows(made, FIRST, "a"), knows(made, SECOND, "a", half, probe="statement")]
    found = compare(runs)
    [pair] = found.pairs
    assert (pair.facts, pair.only_first, pair.only_second) == (4, 4, 0)
    assert (pair.first, pair.second) == ("a cloze D", "a statement E") or pair.first.startswith("a cloze")
    assert pair.cells[:5] == (1, 2, 1, 0, 0)
    assert pair.differs == ("probes (cloze and statement)",)
    assert pair.decision.word == UNDETERMINED  # of four facts


def test_runs_of_different_templates_are_compared_in_those_that_they_share(made):
    """The first run answers everything by template 0 and nothing by template 1; the second, asked by template 0 alone,
    knows five of eight facts. Over both templates the first would know half of each fact."""
    two = world([[0]] * 8, relations=2, templates=2)
    both = made(lambda query, space, number: (never if number else at_rank(1))(query, space, number), two, model="a")
    one = knows(made, FIRST, "b", options={"templates": [0]})
    found = compare([both, one])
    assert found.templates == (0,)
    first = found.pairs[0].differences[0]
    assert (first.first, first.second) == (1, 5 / 8)
    assert found.pairs[0].differences[0].number.value == pytest.approx(3 / 8)
    assert found.pairs[0].differs == ()
    assert "templates:0|" in found.pairs[0].differences[0].number.recipe
    assert mentioned(found.answer[-1], "all of them used: 0")
    other = knows(made, FIRST, "c", two, options={"templates": [1]})
    assert compare([both, other]).templates == (1,)
    assert compare([one, other]).templates == ()
    assert compare([both, made(constant, two, model="d")]).templates == ()
    assert compare([one, made(constant, model="e")]).templates == (), "the data have one template"


def test_names_tell_runs_apart_by_what_differs(made):
    runs = [knows(made, FIRST, "a"), knows(made, FIRST, "a", reading="template-free"), knows(made, SECOND, "b")]
    assert [run.name for run in compare(runs).runs] == ["a template-based", "a template-free", "b"]
    alike = [knows(made, FIRST, "a"), knows(made, SECOND, "a")]
    assert [run.name for run in compare(alike).runs] == [f"a {run.path.name}" for run in alike]


def test_labels_name_the_settings_that_differ_and_no_path(made, tmp_path):
    """Precision, quantisation, chat template, options, number of facts; else the folder's name, or the run's number."""

    def in_dtype(dtype: str, **more) -> RunFolder:
        run = knows(made, FIRST, "a", **more)
        manifest = run.manifest | {"identity": run.manifest["identity"]}
        manifest["identity"]["model"]["dtype"] = dtype
        (run.path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        return run

    runs = [
        in_dtype("float32"),
        in_dtype("bfloat16"),
        in_dtype("bfloat16", options={"quantize": "4bit"}),
        in_dtype("float32", options={"chat": True}),
        in_dtype("float32", options={"chat": True, "system": "Answer truthfully, in a single word.", "shots": 0}),
        in_dtype("float32", options={"reduction": ["sum", "mean"], "tokenizer": "/home/user/spm"}),
    ]
    assert [run.name for run in compare(runs).runs] == [
        "a plain float32",
        "a plain bfloat16",
        "a plain bfloat16 4bit",
        "a chat",
        "a chat system=Answer truthfully, in a",
        "a plain float32 reduction=sum, mean",
    ]
    tokenizers = [in_dtype("float32", options={"tokenizer": f"/home/{name}/spm"}) for name in "ab"]
    names = [run.name for run in compare([runs[0], *tokenizers]).runs]
    assert names == ["a", *(f"a tokenizer=spm {run.path.name}" for run in tokenizers)]
    alike = [answered(tmp_path / name / "run", knowing(FIRST), FOUR) for name in "xy"]
    assert [run.name for run in compare(alike).runs] == ["m #1", "m #2"]
    fewer = world([[0]] * 4, relations=2)
    sizes = [answered(tmp_path / name, knowing(FIRST), data) for name, data in (("m", FOUR), ("few", fewer))]
    assert [run.name for run in compare(sizes).runs] == ["m 8 facts", "m 4 facts"]


def test_unscored_facts_are_left_out_and_counted(made):
    lacking = made(at_rank(1), model="a")
    rows = lacking.predictions().to_pylist()
    rows[0] |= dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), None) | {"unscored": "no mask"}
    (lacking.path / "predictions" / "part-0.parquet").unlink()
    lacking.add_shard("0", rows)
    found = compare([lacking, knows(made, SECOND, "b")])
    assert [(run.facts, run.left_out) for run in found.runs] == [(7, 1), (8, 0)]
    assert (found.pairs[0].facts, found.pairs[0].only_second) == (7, 1)
    nothing = knows(made, SECOND, "c")
    (nothing.path / "predictions" / "part-0.parquet").unlink()
    nothing.add_shard("0", [rows[0] | {"query_id": query.id} for query in FOUR.queries])
    with pytest.raises(BadInput, match=mentions("no ranks to compare", "no mask")):
        compare([lacking, nothing])


def scored_twice(folder, run: RunFolder) -> RunFolder:
    """The run with a second scoring, by which the rank is one more."""
    rows = run.predictions().to_pylist()
    more = [
        row | {"scoring": "mean/full"} | {name: row[name] + 1 for name in SCHEMA.names if name.startswith("rank")
                                          and row[name] is not None}
        for row in rows
    ]  # fmt: skip
    shutil.copytree(run.path, folder)
    (folder / "predictions" / "part-0.parquet").unlink()
    twice = RunFolder(folder)
    twice.add_shard("0", rows + more)
    return twice


def test_scorings_of_one_run(made, tmp_path):
    run = scored_twice(tmp_path / "twice", made(at_rank(1), model="a"))
    with pytest.raises(BadInput, match=mentions("--scoring")):
        compare([run, knows(made, FIRST, "b")])
    found = compare([run], ["sum/full", "mean/full"])
    assert [line.name for line in found.runs] == ["a sum/full", "a mean/full"]
    assert found.pairs[0].differences[0].number.value == 1
    one = compare([run, knows(made, FIRST, "b")], ["mean/full"])
    assert [line.outcome.scoring for line in one.runs] == ["mean/full", "sum/full"]
    with pytest.raises(BadInput, match=mentions("--scoring x")):
        compare([knows(made, FIRST, "b"), knows(made, SECOND, "c")], ["x"])


@pytest.mark.slow
def test_of_each_run_less_than_a_hundred_bytes_a_fact_are_held(made):
    """Eight numbers and a truth value are 65 bytes; the run's predictions were ten times as much."""
    data = world([[number % 20] for number in range(1000)], relations=5, templates=3)
    runs = [made(at_random(number), data, model=f"m{number}") for number in range(5)]
    metrics, shared, kept = [metric(name) for name in COMPARED], {}, []

    def keep(run: RunFolder) -> None:
        kept.extend(facts.release(metrics, shared) for facts in wanted_of(run, (), "m"))

    assert grown(keep, runs) < 100 * len(data.queries)


def test_a_search_that_stopped_tells_what_it_can(made, tmp_path):
    run = made(at_rank(1), model="a")
    rows = run.predictions().to_pylist()
    ranks = dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"))
    rows[0] |= ranks | {"rank_above": 5}
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    accuracy, hits, mrr = compare([run, knows(made, SECOND, "b")]).pairs[0].differences
    assert accuracy.first == 7 / 8
    assert correspond([one.number.note for one in (hits, mrr)], "stopped too early", "stopped too early")
    assert [one.number.p_value for one in (hits, mrr)] == [None, None]


def test_written_answers_are_compared_by_their_credit(made):
    """Ranks taken out, credit of 1, 0 or 0.5 put in: accuracy can be told, what needs a rank cannot."""
    runs = []
    for name, credit in (("a", [1, 1, 0.5, 0] * 2), ("b", [1, 0, 0, 0] * 2)):
        run = made(never, model=name)
        rows = run.predictions().to_pylist()
        no_rank = dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), None)
        (run.path / "predictions" / "part-0.parquet").unlink()
        run.add_shard("0", [row | no_rank | {"correct": own} for row, own in zip(rows, credit, strict=True)])
        runs.append(run)
    [pair] = compare(runs).pairs
    accuracy, hits, mrr = pair.differences
    assert accuracy.number.value == pytest.approx(0.375)
    assert pair.cells[:5] == (2, 2, 0, 2, 2)
    assert correspond({one.number.note for one in (hits, mrr)}, "no rank")


# --- what is refused


def test_a_pair_that_cannot_be_compared_is_a_line(made):
    other = world([[0]] * 8, relations=2, size=10)
    strange = replace(FOUR, queries=tuple(replace(q, id=f"x{q.id}", subject_id=f"x{q.id}") for q in FOUR.queries))
    runs = [
        knows(made, FIRST, "a"),
        knows(made, SECOND, "b"),
        knows(made, FIRST, "c", other),
        knows(made, FIRST, "d", strange),
    ]
    found = compare(runs)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("a", "b")]
    why = {(line.first, line.second): line.why for line in found.not_compared}
    assert len(why) == 5
    assert "among 20 candidates" in why["a", "c"]
    assert "no ranked fact" in why["a", "d"]
    assert [row["first"] for row in json.loads(found.to_json())["not compared"]] == ["a", "a", "b", "b", "c"]


@pytest.mark.parametrize("models", ["ab", "aa"])
def test_one_correct_answer_and_several_are_not_paired(made, fathom, models):
    """Two facts have further correct answers in a later version of the data; the other six pair by fact_id."""
    later = world([[0], [0, 1], [0], [0], [0], [0, 2, 3], [0], [0]], relations=2)
    runs = [knows(made, FIRST, model, data) for model, data in zip(models, (FOUR, later), strict=True)]
    code, _, said = fathom("compare", *(run.path for run in runs))
    assert code == 2
    assert stated(said, "2 facts", "s001|r0|*", "s005|r1|*", runs[0].path, runs[1].path)
    assert compare([runs[1], knows(made, SECOND, "c", later)]).pairs[0].facts == 8


def test_bad_input_is_a_line_each(made, fathom, tmp_path):
    good, unfinished, damaged = knows(made, FIRST, "a"), knows(made, FIRST, "b"), knows(made, FIRST, "c")
    (unfinished.path / "predictions" / "part-0.parquet").unlink()
    (damaged.path / "predictions" / "part-0.parquet").write_bytes(b"PAR1")
    broken = knows(made, FIRST, "d")
    (broken.path / "queries.parquet").write_bytes(b"no")
    out = tmp_path / "out"
    named = (good, unfinished, damaged, broken, good)
    code, printed, said = fathom("compare", *(run.path for run in named), "--metrics", "ece", "--out", out)
    assert (code, printed) == (2, "")
    lines = said.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("error: ") for line in lines)
    for words in (
        "paired by fact",
        "is given twice",
        "is unfinished",
        "is damaged",
        "queries.parquet is dam",
    ):
        assert sum(words in line for line in lines) >= 1, words
    assert not out.exists()
    code, _, said = fathom("compare", good.path, tmp_path / "nothing", tmp_path / "nowhere")
    assert code == 2
    assert said.count("not a run") == 2
    code, _, said = fathom("compare", good.path)
    assert code == 2
    assert "two runs" in said
    strange = replace(FOUR, queries=tuple(replace(q, id=f"x{q.id}", subject_id=f"x{q.id}") for q in FOUR.queries))
    code, _, said = fathom("compare", good.path, knows(made, FIRST, "e", strange).path)
    assert code == 2
    assert "no ranked fact" in said
    code, _, said = fathom("compare", good.path, knows(made, FIRST, "e").path, "--cluster", "colour")
    assert code == 2
    assert mentioned(said, "--cluster colour")


# --- formats


def test_every_format(made, fathom, tmp_path):
    runs = [knows(made, FIRST, "a_1 & 50%").path, knows(made, SECOND, "b").path]
    code, printed, _ = fathom("compare", *runs, "--format", "json", "--out", tmp_path / "out")
    assert code == 0
    record = json.loads(printed)
    assert [line["metric"] for line in record["pairs"][0]["secondary"]] == ["hits@10", "mrr"]
    told = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert list(told) == ["answer", "runs", "differences in accuracy", "secondary metrics", "right and wrong"]
    assert record["answer"] == told["answer"]
    assert [line["metric"] for line in told["secondary metrics"]] == ["hits@10", "mrr"]
    [line] = told["differences in accuracy"]
    assert (line["of first"], line["of second"], line["difference"]) == (5 / 8, 3 / 8, 1 / 4)
    assert line["low"] < 1 / 4 < line["high"]
    assert line["recipe"].startswith("accuracy|data:D@1")
    assert json.loads(library.compare(runs).to_json()) == told
    [cells] = told["right and wrong"]
    assert [cells[name] for name in ("both right", "only first", "only second", "both wrong")] == [2, 3, 1, 2]
    _, latex, _ = fathom("compare", *runs, "--format", "latex")
    assert r"a\_1 \& 50\%" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 4
    tabular = [line for line in latex.splitlines() if not line.startswith("%")]
    assert not any(line.replace(r"\_", "").count("_") for line in tabular)
    _, text, _ = fathom("compare", *runs, "--metrics", "hits@3", "--format", "csv")
    tables = [list(csv.DictReader(io.StringIO(part))) for part in text.strip().split("\n\n")]
    assert [len(table) for table in tables] == [2, 1, 1]
    assert float(tables[1][0]["difference"]) == 1 / 4
    assert library.compare([library.open_run(run) for run in runs]).to_markdown().startswith("a_1 & 50% and b show")


def needed(variance: float, degrees: float, units: int, difference: float) -> int:
    """The least number of units whose test finds a difference in 80 % of cases.

    Its error is that of the pilot's *units*, which may be too small: the quantile of the power is Student's.

    :param variance: of the pilot; *degrees* of freedom likewise.
    """

    def enough(number: int) -> bool:
        error = np.sqrt(variance * units / number)
        uncertain = error * (stats.t.ppf(0.8, units - 1) - stats.norm.ppf(0.8))
        return smallest_difference(error, max(1.0, degrees * number / units)) + uncertain <= difference

    return next(number for number in count(FEWEST) if enough(number))


def test_equivalence_and_planning_on_the_command_line(made, fathom):
    """Two runs that differ in one of forty facts: 2.5 points, with the 90 % interval within 20.

    In the relation of that fact the variance is 1/20; in the other, where no fact differs, as if z² of others had the
    variance of all.
    """
    one, other = (made(knowing(numbered(*range(10, end))), FORTY, model=f"m{end}") for end in (30, 31))
    typed = ["compare", one.path, other.path, "--metrics", "accuracy", "--margin", "20", "--detect", "3"]
    code, printed, _ = fathom(*typed)
    assert code == 0
    assert "They are equivalent within 20 points (interval of these tests: " in " ".join(printed.split())
    told = json.loads(fathom(*typed, "--format", "json")[1])
    [pair], [plan] = told["pairs"], told["plans"]
    assert (pair["verdict"], pair["margin"], pair["margin_verdict"]) == ("equivalent", 20, "equivalent")
    z2 = stats.norm.ppf(0.975) ** 2
    parts = [0.25 / 20 / 20, 0.25 * (1 / 40 * 39 / 40) * z2 / (20 + z2) / 20]
    degrees = sum(parts) ** 2 / sum(part**2 / 19 for part in parts)
    assert plan["facts_needed"] == plan["units_needed"] == needed(sum(parts), degrees, 40, 0.03)
    assert (plan["seeds"], plan["facts"], plan["units_here"]) == (1, 40, 40)


def test_a_pilot_of_relations_plans_relations(made):
    """Of 24 relations of five facts. There are no others in these runs, so that other data are needed."""
    data = world([[0]] * 120, relations=24)
    runs = [made(knowing(tossed(data, 1, place)), data, model=f"m{place}") for place in range(2)]
    found = compare(runs, metrics=["accuracy"], detect=5)
    [plan], number = found.plans, found.pairs[0].differences[0].number
    means = np.subtract(*(side.hits(1).reshape(24, 5).mean(axis=1) for side in map(read_facts, runs)))
    expected = needed(np.var(means, ddof=1) / 24, 23 / 3, 24, 0.05)
    assert number.sample == "relation"
    assert (plan["units needed"], plan["facts needed"]) == (expected, 5 * expected)
    assert plan["out of reach"] == "these runs have 24 relations"
    assert plan["subjects here"] is plan["subjects needed"] is None
    assert "facts in data" not in plan
    [table] = [one for one in found.tables if one.title == "what would detect it"]
    assert {"subjects here", "subjects needed"} <= table.hidden
    assert "out of reach" not in table.hidden
    assert stated(table.notes, "out of reach", "other data")
    assert compare(runs, metrics=["accuracy"], detect=90).plans[0]["out of reach"] is None


def test_relations_and_subjects_are_planned_together():
    """Twenty relations of the same fifteen subjects: a fact's value is a part of its relation's, one of its subject's,
    and the rest. The jackknife over relations sees the first and the last, that over subjects the second and last."""
    random = np.random.default_rng(2)
    relations, subjects = np.repeat(np.arange(20), 15), np.tile(np.arange(15), 20)
    of_relation, of_subject = random.normal(0, 0.3, 20), random.normal(0, 0.2, 15)
    values = of_relation[relations] + of_subject[subjects] + random.normal(0, 0.5, 300)
    sample = Sample("relation and subject", relations, None, subjects)
    pilot = estimates.difference(values, np.zeros(300), sample, "x", (-np.inf, np.inf))
    plan = detectable("a", "b", pilot, 0.1)

    table = values.reshape(20, 15)
    by_relation, by_subject = table.mean(axis=1).var(ddof=1) / 20, table.mean(axis=0).var(ddof=1) / 15
    rest = table.var(ddof=1) / 300
    # Relations: r / 20 + e / 300; subjects: s / 15 + e / 300; facts: (r + s + e) / 300.
    seen = [[1 / 20, 0, 1 / 300], [0, 1 / 15, 1 / 300], [1 / 300, 1 / 300, 1 / 300]]
    shared = np.linalg.solve(seen, [by_relation, by_subject, rest])
    assert (shared > 0).all()

    def enough(number: int) -> bool:
        growth = number / 20
        r, s, e = shared / [20 * growth, 15 * growth, 300 * growth**2]
        degrees = [max(1, 19 / 3 * growth), max(1, 14 / 3 * growth), 299 * growth**2]
        free = (r + s + e) ** 2 / (np.array([r + e, s + e, e]) ** 2 / degrees).sum()
        error = np.sqrt(r + s + e)
        uncertain = error * (stats.t.ppf(0.8, 14) - stats.norm.ppf(0.8))
        return smallest_difference(error, free) + uncertain <= 0.1

    expected = next(number for number in count(FEWEST) if enough(number))
    assert plan["units needed"] == expected > 20
    assert (plan["units here"], plan["subjects here"], plan["facts"]) == (20, 15, 300)
    assert plan["subjects needed"] == math.ceil(15 * expected / 20)
    assert plan["facts needed"] == math.ceil(300 * (expected / 20) ** 2)
    assert plan["out of reach"] == "these runs have 20 relations"


def test_a_pilot_without_variance_plans_nothing(made):
    [plan] = compare([made(constant, model="a"), made(constant, model="b")], detect=5).plans
    assert plan["units needed"] is plan["facts needed"] is plan["out of reach"] is None
    assert plan["facts"] == 8


@pytest.mark.parametrize("option", ["margin", "detect"])
def test_differences_are_in_points(made, fathom, option):
    """A share in their place is refused: 0.02 would be a fiftieth of a point."""
    runs = [knows(made, FIRST, "a"), knows(made, SECOND, "b")]
    for points in (0.02, 0.099, 0.0, -2.0, 100.5, float("nan")):
        with pytest.raises(BadInput, match=mentions(f"--{option} {points:g}", "points from 0.1 to 100", "0.02")):
            compare(runs, **{option: points})
    for points in (0.1, 100):
        assert compare(runs, **{option: points}).pairs
    code, _, said = fathom("compare", *(run.path for run in runs), f"--{option}", "0.02")
    assert code == 2
    assert mentioned(said, f"--{option}", "0.02")


def test_two_points_are_a_share_of_two_hundredths(made):
    runs = [knows(made, FIRST, "a"), knows(made, SECOND, "b")]
    found = compare(runs, margin=2, detect=3)
    assert found.pairs[0].decision.claim.margin == pytest.approx(0.02)
    assert found.plans[0]["detect"] == pytest.approx(0.03)
    with pytest.raises(BadInput) as refused:
        compare(runs, margin=0.02, detect=0.03)
    assert len(refused.value.faults) == 2


def of_forty(made: Made, *ends: int) -> list[RunFolder]:
    """Runs that know the facts from 10 up to these ends."""
    return [made(knowing(numbered(*range(10, end))), FORTY, model=f"m{end}") for end in ends]


def test_sentences_on_a_margin(made):
    """Of forty facts one more, six more, or all thirty: m40 knows ten alone, McNemar's z is √10."""

    def said(ends: tuple[int, int], margin: float) -> str:
        return compare(of_forty(made, *ends), metrics=["accuracy"], margin=margin).answer[0]

    one = said((30, 31), 20)
    assert mentioned(
        one,
        "m31 and m30 show no significant difference",
        "They are equivalent within 20 points (interval of these tests: -11.7 to 5.2).",
    )
    assert "worse" not in one
    assert "Whether m31 is worse than m30 by more than 2 points is undecided (" in said((30, 31), 2)
    ten = said((30, 40), 2)
    assert mentioned(ten, "m40 knows more than m30", "m40 is not worse than m30 by more than 2 points (")
    assert mentioned(said((40, 30), 2), "m40 knows more than m30", "m30 is worse than m40 by more than 2 points (")
    within = said((30, 40), 60)
    assert mentioned(within, "m40 knows more than m30", "significant, but the two are equivalent within 60 points (")


def test_sentences_on_many_pairs(made):
    """Four runs know 20 or 21 of forty facts: their six pairs are within 20 points of each other."""
    runs = of_forty(made, 30, 31, 30, 31)
    none = "0 of 6 pairs differ significantly in accuracy"
    assert compare(runs, margin=20).answer[0] == f"{none}; by the margin: 6 equivalent."
    assert compare(runs).answer[0] == f"{none}."
    words = compare(of_forty(made, 30, 31, 10, 11), margin=20)
    by_margin = [pair.decision.by_margin.word for pair in words.pairs]
    assert by_margin == ["equivalent", *["worse"] * 4, "equivalent"]
    assert words.answer[0].endswith("; by the margin: 2 equivalent, 4 worse.")
    column = words.tables[1].columns.index("by margin")
    assert [row[column] for row in words.tables[1].rows] == by_margin
    assert "by margin" not in words.tables[1].hidden
    assert "by margin" in compare(runs).tables[1].hidden
    for own, ending in (
        (runs, "paired by fact; p by Holm and simultaneous intervals for 6 verdicts"),
        (runs[:2], "fact"),
    ):
        assert compare(own).tables[1].notes[0].endswith(ending)


def test_two_models_with_several_seeds(made, fathom):
    """Each training of the first knows facts 10 to 30 and one of its own, each of the second 10 to 26: 5/40 of them."""
    first = [made(knowing(numbered(*range(10, 30), 31 + seed)), FORTY, model=f"a{seed}") for seed in range(3)]
    second = [made(knowing(numbered(*range(10, 26))), FORTY, model=f"b{seed}") for seed in range(3)]
    found = compare([*first, *second], metrics=["accuracy"], detect=10, seeds=3)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("a0", "b0"), ("a1", "b1"), ("a2", "b2")]
    [decision] = found.over_seeds
    assert found.answer[0].startswith(f"{decision.claim.name}: ")
    assert mentioned(decision.claim.name, "a0 and b0", "accuracy", "3 seeds")
    assert decision.estimate is not None
    assert decision.estimate.value == pytest.approx(5 / 40)
    assert decision.estimate.sample.endswith("and seed")
    assert [plan["seeds"] for plan in found.plans] == [3, 5, 10, 20]
    [decision] = compare([*first, *second], metrics=["accuracy"], margin=40, seeds=3).over_seeds
    assert decision.by_margin is not None
    assert decision.by_margin.word == "equivalent"
    code, _, said = fathom("compare", *(run.path for run in first), "--seeds", "3")
    assert (code, said.count("\n")) == (2, 1)
    assert stated(said, "expected 6", "3 of each", "found 3")


def test_more_facts_do_not_make_up_for_few_seeds():
    """Standard errors 0.01 of 100 facts and 0.02 of three seeds. With s seeds 0.02 · √(3 / s) remain for any facts:
    of three seeds 0.02, so that no number detects 0.03; of twenty 0.0077, and the last fact is needed."""
    pilot = estimates.difference(np.tile([0.0, 1.0], 50), np.zeros(100), Sample("fact"), "x")
    plans = detectable_with_seeds("a", "b", pilot, Noise(3, 0.01, 0.02), 0.03)
    of_seeds = {plan["seeds"]: plan["units needed"] for plan in plans}
    assert of_seeds[3] is of_seeds[5] is None
    assert of_seeds[10] is None or of_seeds[10] > of_seeds[20]
    exact = detectable_with_seeds("a", "b", pilot, Noise(3, 0.0, 0.001), 0.03)
    assert {plan["units needed"] for plan in exact} == {FEWEST}
    enough, error = of_seeds[20], 0.02 * np.sqrt(3 / 20)
    for number, detects in ((enough, True), (enough - 1, False)):
        variances = 0.01**2 * 100 / number, error**2
        degrees = sum(variances) ** 2 / (variances[0] ** 2 / (number - 1) + variances[1] ** 2 / 19)
        assert (smallest_difference(np.sqrt(sum(variances)), degrees) <= 0.03) == detects


def test_names_take_the_first_part_that_distinguishes():
    def named(*texts: str) -> list[str]:
        return distinguished([dict(enumerate(text)) for text in texts])

    assert named("ax1", "bx2") == ["a", "b"]
    assert named("ax1", "ay1") == ["a x", "a y"]
    assert named("ax1", "ax2", "bx2") == ["a 1", "a 2", "b"]
    assert named("ax1", "ay1", "ay2") == ["a x", "a y 1", "a y 2"]
    assert named("ax", "ax", "a") == ["a x #1", "a x #2", "a"]
    assert named() == []


def test_two_scorings_of_one_run_agree_as_two_runs_do(made, tmp_path):
    """The second scoring ranks each answer one lower: both within ten, so that both hit."""
    run = scored_twice(tmp_path / "twice", made(at_rank(1), model="a"))
    [pair] = agreement([run, run], AgreementOptions(scoring=["sum/full", "mean/full"])).pairs
    found = pair.ranks
    assert (found.both_hit.value, found.only_first.value) == (1, 0)
    assert (
        agreement([run, run], AgreementOptions(scoring=["sum/full", "mean/full"], k=1)).pairs[0].ranks.only_first.value
        == 1
    )
    with pytest.raises(BadInput, match="is both runs"):
        agreement([run, run], AgreementOptions(scoring=["sum/full"]))
    with pytest.raises(BadInput, match="one for each"):
        agreement([run, run], AgreementOptions(scoring=["sum/full", "mean/full", "sum/conditional"]))


def test_boxes_of_ranks_are_drawn_from_the_facts_with_these_tokens(made):
    """Answers of one word at rank 1, of more at rank 5."""

    def answer(query, space, template):
        words = len(space.name_of(query.gold[0]).split())
        return at_rank(1 if words == 1 else 5)(query, space, template)

    [bias] = length_bias([made(answer, world(EVEN))], count_tokens=lambda texts: [len(text.split()) for text in texts])
    assert [(row["tokens"], row["median"]) for row in bias.by_tokens] == [(1, 1), (2, 5), (3, 5), (4, 5), (5, 5)]
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    length_plots([bias])[0].draw(axes)
    medians = [
        line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1 and len(line.get_xdata()) == 2
    ]
    assert {1.0, 5.0} <= set(medians)


def test_folders_are_taken_by_name_or_place(made):
    """The functions of the package, which open runs, keep the names of their parameters."""
    before, after = (made(knowing(numbered(*range(10, end))), FORTY, model=f"m{end}").path for end in (30, 31))
    assert library.compare(runs=[before, after]).answer == library.compare([before, after]).answer
    assert library.diff(str(before), after=after).answer == library.diff(before, library.open_run(after)).answer


def test_each_cut_is_a_value_of_its_own(made):
    """Gold answers rank second: no hit at 1, all at 2."""
    facts = read_facts(made(at_rank(2), FORTY))
    assert [facts.hits(k).mean() for k in (1, 2, 1)] == [0, 1, 0]


def test_a_pair_without_a_difference_says_what_would_have_been_found(made):
    one, other = (made(knowing(numbered(*range(10, end))), FORTY, model=f"m{end}") for end in (30, 31))
    answer = " ".join(compare([one, other]).answer)
    assert mentioned(answer, "no significant difference", "80 %", "smaller ones remain possible")
    assert "holds for other" not in answer


def test_other_settings_may_explain_a_difference(made):
    one, other = (
        made(knowing(numbered(*range(end))), FORTY, model=f"m{end}", options={"shots": end}) for end in (5, 30)
    )
    answer = " ".join(compare([one, other]).answer)
    assert "different numbers of examples (5 and 30), which may explain the difference." in answer
    alike = knowing(numbered(*range(5))), FORTY
    [said] = compare([made(*alike, model=f"n{shots}", options={"shots": shots}) for shots in (0, 5)]).answer
    assert said.endswith("The runs used different numbers of examples (0 and 5).")


def test_a_limit_of_facts_explains_no_difference(made):
    """Both runs answered the facts that are compared."""
    runs = [made(knowing(numbered(*range(end))), FORTY, model=f"m{end}", options={"limit": end}) for end in (5, 30)]
    found = compare(runs)
    assert found.pairs[0].differs == ()
    assert "different" not in found.answer[0]


@pytest.mark.parametrize("least", [*range(1, 50), 1000, 1001])
def test_the_least_number_that_is_enough(least):
    assert _least(lambda number: number >= least) == max(least, FEWEST)

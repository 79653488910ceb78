"""Efficacy, paraphrase success and specificity of edits: every number equals a loop over the files of the runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq
import pytest

from fathom.data.formats import read
from fathom.data.queries import QuerySet
from fathom.results.diff import EFFICACY, PARAPHRASED, SPECIFICITY, diff
from fathom.store.folder import RunFolder
from tests.answerers import EVEN, answered, at_random, constant, knowing, unscored, world
from tests.messages import mentioned

Made = Callable[..., RunFolder]
KINDS = {EFFICACY: "target", PARAPHRASED: "paraphrase", SPECIFICITY: "neighbourhood"}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    count = iter(range(1000))
    return lambda answer, data, **more: answered(tmp_path / f"run{next(count)}", answer, data, **more)


@pytest.fixture
def edits(tmp_path: Path) -> QuerySet:
    """Twelve edits of two relations, with two paraphrases each and one to three neighbours."""
    rows = []
    for case in range(12):
        rewrite = {"prompt": "{} speaks", "relation_id": f"P{case % 2}", "subject": f"Ann {case}"}
        rewrite |= {"target_true": {"str": "French", "id": "Q150"}, "target_new": {"str": "Thai", "id": "Q9217"}}
        about = [f"Bob {case}.{place} speaks" for place in range(1 + case % 3)]
        texts = [f"Ann {case} says", f"Ann {case} talks"]
        rows.append(
            {"case_id": case, "requested_rewrite": rewrite, "paraphrase_prompts": texts, "neighborhood_prompts": about}
        )
    (tmp_path / "counterfact.json").write_text(json.dumps(rows))
    return read(tmp_path / "counterfact.json")


def shares_of(run: RunFolder) -> dict[str, float]:
    """Each measure by its definition: the mean over cases of the share of prompts at which the edit succeeds."""
    queries = {row["query_id"]: dict(row["groups"]) for row in pq.read_table(run.path / "queries.parquet").to_pylist()}
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in KINDS}
    for file in (run.path / "predictions").iterdir():
        for row in pq.read_table(file).to_pylist():
            groups = queries[row["query_id"]]
            [name] = [name for name, kind in KINDS.items() if kind == groups["prompt"]]
            true, new = row["scores"]  # the true answer is the first candidate
            won = true > new if name == SPECIFICITY else new > true
            found[name][groups["edit"]].append(0.5 if true == new else float(won))
    return {name: fmean(map(fmean, own.values())) for name, own in found.items()}


def test_every_measure_equals_a_loop_over_the_files(made: Made, edits: QuerySet) -> None:
    for seed in range(3):
        runs = [made(at_random(seed + place), edits, model=f"m{place}") for place in (0, 10)]
        found = diff(*runs)
        before, after = map(shares_of, runs)
        assert [one.name for one in found.edits] == list(KINDS)
        assert {one.name: one.before.value for one in found.edits} == pytest.approx(before)
        assert {one.name: one.after.value for one in found.edits} == pytest.approx(after)
        for one in found.edits:
            assert one.difference.value == pytest.approx(after[one.name] - before[one.name])
            assert one.after.low is not None
            assert (one.edits, one.after.sample, one.after.clusters) == (12, "edit", 12)
        assert [one.prompts for one in found.edits] == [12, 24, 24]


def test_a_perfect_edit(made: Made, edits: QuerySet) -> None:
    """Before, every true answer is first. After, the new one in all prompts of the edits, and in no neighbour's."""
    of_edit = {query.id for query in edits.queries if query.groups["prompt"] != "neighbourhood"}
    every = {query.id for query in edits.queries}
    found = diff(made(knowing(every), edits, model="a"), made(knowing(every - of_edit), edits, model="b"))
    assert [one.before.value for one in found.edits] == [0, 0, 1]
    assert [one.after.value for one in found.edits] == [1, 1, 1]
    assert found.answer[-1] == "Edits: efficacy 100.0 %, paraphrase success 100.0 %, specificity 100.0 %."
    [table] = [table for table in found.tables if table.title == "edits"]
    assert [row["difference"] for row in table.objects()] == [1, 1, 0]
    same = diff(made(lambda *asked: [0.0, 0.0], edits, model="c"), made(constant, edits, model="d"))
    assert [one.before.value for one in same.edits] == [0.5, 0.5, 0.5]  # ties


def test_what_is_not_scored_is_named(made: Made, edits: QuerySet) -> None:
    runs = [made(constant, edits, model=name) for name in "ab"]
    unscored(runs[1], 0)
    target = diff(*runs).edits[0]
    assert (target.edits, target.unscored) == (11, {"the prompt is too long": 1})
    [table] = [table for table in diff(*runs).tables if table.title == "edits"]
    assert any(mentioned(note, "efficacy", "1 facts excluded", "too long") for note in table.notes)


def test_zsre_between_two_answers_and_by_what_is_written(made: Made, tmp_path: Path) -> None:
    """The second edit's new answer is right already, so that it has none."""
    row = {"subject": "Ann", "src": "Who?", "rephrase": "Whom?", "alt": "Lima", "answers": ["Rome"]}
    row |= {"loc": "What?", "loc_ans": "Oslo"}
    (tmp_path / "zsre_mend_eval.json").write_text(json.dumps([row, row | {"alt": "Rome"}, row | {"subject": "Bob"}]))
    data = read(tmp_path / "zsre_mend_eval.json")
    runs = [made(constant, data, model=name) for name in "ab"]
    found = diff(*runs).edits
    assert [(one.edits, one.after.value) for one in found] == [(2, 0), (2, 0), (3, 1)]
    assert found[0].unscored == {"their candidates are not the true and one new answer": 1}
    for run, said in zip(runs, ("Rome", "Lima"), strict=True):
        file = next((run.path / "predictions").iterdir())
        rows = pq.read_table(file).to_pylist()
        file.unlink()
        no_rank = dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic", "scores"))
        written = {"answers": [said], "answer_ids": [said], "correct": float(said == "Rome")}
        run.add_shard("0", [row | no_rank | written for row in rows])
    efficacy, paraphrased, specificity = diff(*runs).edits
    assert (efficacy.before.value, efficacy.after.value, paraphrased.after.value) == (0, 1, 1)
    assert (specificity.before.value, specificity.after.value) == (0, 0)  # neither is the neighbours' true answer


def test_another_sampling_unit_and_data_without_edits(made: Made, edits: QuerySet) -> None:
    runs = [made(at_random(seed), edits, model=f"m{seed}") for seed in range(2)]
    assert diff(*runs, cluster="relation").edits[0].after.sample == "relation"
    found = diff(*[made(at_random(seed), world(EVEN), model=f"m{seed}") for seed in range(2)])
    assert not found.edits
    assert "edits" not in [table.title for table in found.tables]
    assert not any("Edits" in sentence for sentence in found.answer)


def test_recipes_name_the_run_of_each_number(made: Made, edits: QuerySet) -> None:
    """Before: 1 of 12 targets has the new answer, after: 3 of 12."""
    target = [query.id for query in edits.queries if query.groups["prompt"] == "target"]
    every = {query.id for query in edits.queries}
    runs = [made(knowing(every - {*target[:count]}), edits, model=name) for name, count in (("old", 1), ("new", 3))]
    efficacy = diff(*runs).edits[0]
    assert [one.value for one in (efficacy.before, efficacy.after)] == pytest.approx([1 / 12, 3 / 12])
    assert efficacy.difference.value == pytest.approx(2 / 12)
    assert ["model:models/old@old|" in efficacy.before.recipe, "model:models/new@new|" in efficacy.after.recipe] == [
        True,
        True,
    ]
    assert "|model:models/new@new − models/old@old|" in efficacy.difference.recipe
    assert "|mean:facts|" in efficacy.difference.recipe
    assert "|weights:1 / facts of the edit|" in efficacy.difference.recipe

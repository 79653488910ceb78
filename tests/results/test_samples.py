"""What numbers are taken for samples of, and what ``--cluster`` makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from fathom.base.errors import BadInput
from fathom.results.rows import Rows
from fathom.results.samples import Origin, Sample, by_default, check_key, drawn, legend, sample_of_origins, scope
from fathom.results.summary import summarise
from fathom.store.folder import RunFolder
from tests.messages import mentioned, mentions

QUERIES = 24


def make_run(path: Path, relations: int) -> RunFolder:
    """Twenty-four queries; every second is right; four to a document, and three subjects in all."""
    numbers = range(QUERIES)
    queries = pa.table(
        {
            "query_id": [f"q{n}" for n in numbers],
            "fact_id": [f"s{n % 3}|r{n % relations}|a{n}" for n in numbers],
            "relation": [f"r{n % relations}" for n in numbers],
            "direction": ["tail"] * QUERIES,
            "subject_id": [f"s{n % 3}" for n in numbers],
            "gold": pa.array([["a" if n % 2 else "b"] for n in numbers], pa.list_(pa.string())),
            "candidates": ["all"] * QUERIES,
            "groups": pa.array(
                [[("document", f"d{n // 4}")] if n < 20 else [] for n in numbers], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    candidates = pa.table({"set": ["all"] * 2, "position": [0, 1], "id": ["a", "b"], "name": ["A", "B"]})
    folder = RunFolder(path)
    model = {"name": path.name, "revision": None, "dtype": "float32", "content_hash": "c"}
    identity = {"probe": "statement", "options": {}, "model": model, "data": {"name": "D", "content_hash": "d"}}
    folder.start(identity | {"seed": 0, "version": "0"}, ["0"], queries, candidates)
    ranks = [1 if n % 2 else 2 for n in numbers]
    folder.add_shard(
        "0",
        [
            {"query_id": f"q{n}", "template": 0, "scoring": "sum/full", "num_candidates": 2, "top_ids": ["a"]}
            | dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), rank)
            for n, rank in zip(numbers, ranks, strict=True)
        ],
    )
    return folder


def test_relations_where_there_are_ten_else_the_queries_within_them(tmp_path):
    ten = [f"r{n}" for n in range(10)]
    assert by_default(ten) == Sample("relation", ten, None)
    # 91 + 9 of ten: 100² / (91² + 9) = 1.2 relations of equal size. 15 + 27 of ten: 42² / (15² + 9 · 9) = 5.8.
    assert by_default(ten + ["r0"] * 90).key == "fact within relation"
    assert by_default(ten[1:] * 3 + ["r0"] * 15).key == "relation"
    assert by_default(ten[:9] * 2) == Sample("fact within relation", None, ten[:9] * 2)
    for relations, key, units in ((12, "relation and subject", 12), (8, "subject within relation", 3)):
        found = summarise(make_run(tmp_path / str(relations), relations)).headlines[0].accuracy
        assert (found.sample, found.clusters) == (key, units)
        assert found.recipe.endswith(f"|cluster:{key}")


@pytest.mark.parametrize(
    ("cluster", "units"),
    [("query", 24), ("fact", 24), ("relation", 2), ("subject", 3), ("answer", 2), ("document", 5 + 4)],
)
def test_a_key_may_be_named(tmp_path, cluster, units):
    """Queries of no document count for themselves. Each query for itself: 12 of 24 is Student's with 23 degrees of
    freedom by Wilson, of 23 tosses (the variance is 0.25 / 23)."""
    found = summarise(make_run(tmp_path / "run", 2), cluster=cluster).headlines[0].accuracy
    sample = "fact within relation" if cluster == "fact" else cluster
    assert (found.value, found.sample, found.clusters) == (pytest.approx(0.5), sample, units)
    if cluster == "query":
        bend = stats.t.ppf(0.975, 23) ** 2 / 23
        half = np.sqrt(bend / 4 + bend**2 / 4) / (1 + bend)
        assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_what_lies_within_a_cluster_is_not_seen():
    """All of one cluster: nothing is known of others, and no number is given for it."""
    assert drawn("document", ["r"] * 3, ["x", "x", None]).clusters == ["document x", "document x", "alone 2"]
    assert drawn("query", ["r"] * 3, [None] * 3) == Sample("query")
    origins = [Origin("document", f"q{n}", "r", label) for n, label in enumerate(("x", "x", None))]
    assert sample_of_origins(origins) == Sample("document", ["document x", "document x", "alone 2"])


def test_both_directions_of_a_triple_are_one_fact(tmp_path, monkeypatch):
    """Twenty-four questions of twelve facts tell what twelve values do, unless each is to count for itself."""
    queries = RunFolder.queries
    halves = [[f"f{n // 2}" for n in range(QUERIES)]]
    folder = make_run(tmp_path / "run", 2)
    monkeypatch.setattr(RunFolder, "queries", lambda self: queries(self).set_column(1, "fact_id", halves))
    assert summarise(folder, cluster="fact").headlines[0].accuracy.clusters == 12
    assert summarise(folder, cluster="query").headlines[0].accuracy.clusters == 24


def test_one_cluster_has_no_interval(tmp_path):
    found = summarise(make_run(tmp_path / "run", 1), cluster="relation").headlines[0].accuracy
    assert (found.value, found.low, found.high) == (pytest.approx(0.5), None, None)
    assert mentioned(found.note, "one relation", "no interval")


def test_a_key_that_the_data_lacks_is_refused_with_those_that_it_has(tmp_path, fathom):
    folder = make_run(tmp_path / "run", 2)
    named = ("--cluster colour", "query, fact, relation, subject, answer, document")
    with pytest.raises(BadInput, match=mentions(*named)):
        Rows(folder, cluster="colour")
    code, out, err = fathom("metrics", str(folder.path), "--cluster", "colour")
    assert (code, out) == (2, "")
    assert mentioned(err, *named)
    check_key("", [])


def test_every_table_says_what_its_intervals_are_of(tmp_path, fathom):
    folder = make_run(tmp_path / "run", 2)
    code, out, _ = fathom("metrics", str(folder.path), "--by", "relation", "--cluster", "document")
    assert code == 0
    assert out.count("clustered by document") == 2
    code, out, _ = fathom("study", "length-bias", str(folder.path), "--cluster", "colour")
    assert code == 2
    assert "other facts of these" in legend("fact within relation")
    assert "each for itself" in legend("query")
    numbers = json.loads(fathom("metrics", str(folder.path), "--format", "json")[1])
    assert "cluster:subject within relation" in numbers["Results"][0]["recipe"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("relation", "The result holds for other relations like these."),
        ("relation and subject", "The result holds for other relations and subjects like these."),
        (
            "fact within relation",
            "The result holds for other facts of these relations; it says nothing of other relations.",
        ),
        ("relation and seed", "The result holds for other relations like these, and for other seeds."),
        (
            "relation and subject and seed",
            "The result holds for other relations and subjects like these, and for other seeds.",
        ),
        (
            "subject within relation and seed",
            "The result holds for other subjects of these relations, and for other seeds; "
            "it says nothing of other relations.",
        ),
    ],
)
def test_the_scope_of_each_sampling_unit(key, said):
    assert scope(key) == said

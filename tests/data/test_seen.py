"""Strata of triples by what training shows of them, and means that weigh relations and answers evenly: by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom_kgc
from fathom.data.formats import read
from fathom.data.graph.queries import graph_queryset, link_queryset
from fathom.data.graph.seen import BOTH, HEAD, NEITHER, TAIL, popularity, training_of
from fathom.data.queries import QuerySet
from fathom.results.datasets import leakage_tables
from fathom.results.tables import render
from tests.data.test_leakage import graph_of

TRIPLES = [
    *((0, 0, 1), (0, 0, 2), (1, 0, 2), (3, 1, 2)),  # train
    *((1, 0, 1), (0, 0, 3), (2, 0, 2), (2, 1, 1), (3, 1, 2)),  # test
]


@pytest.fixture
def graph():
    return graph_of(list("abcd"), [""] * 4, TRIPLES, train=4)


def test_halves_by_hand(graph):
    training = training_of(graph)
    assert training is not None
    assert training.halves(np.arange(4, 9)) == [
        BOTH,  # b has c by r0; a has b by it
        HEAD,  # a has b and c by r0, and nobody d
        TAIL,  # c is a head of nothing
        NEITHER,  # by r1 there is (d, c) alone
        BOTH,  # (d, r1, c) is in training itself, as in graphs whose splits overlap
    ]
    # None counts for itself: (a, r0, b) has (a, r0, c) beside it, (b, r0, c) has it, too, (d, r1, c) has none.
    assert training.halves(np.arange(4)) == [HEAD, BOTH, TAIL, NEITHER]
    # a: 2; b: 2; c: 3; d: 1, on either side.
    assert training.triples_of(graph.tail[:4]).tolist() == [2, 3, 3, 3]


def test_popularity_by_fours():
    assert [popularity(count) for count in (0, 1, 3, 4, 15, 16, 63, 64)] == [
        *("0", "1 to 3", "1 to 3", "4 to 15", "4 to 15", "16 to 63", "16 to 63", "64 to 255"),
    ]


def test_queries_say_it_and_their_digest_does_not(graph):
    data = link_queryset(graph_queryset(graph, name="small", version="", licence=""))
    second = [query for query in data.queries if query.id.startswith("test/1")]
    # (a, r0, d): d is in one training triple, a in two.
    assert [dict(query.groups) for query in second] == [
        {"cardinality": "1:1", "seen": HEAD, "answer_triples": "1", "popularity": "1 to 3"},
        {"cardinality": "1:1", "seen": HEAD, "answer_triples": "2", "popularity": "1 to 3"},
    ]
    bare = [replace(query, groups={"cardinality": "1:1"}) for query in second]
    hashes = {QuerySet("small", tuple(own), data.candidates, data.relations).content_hash for own in (second, bare)}
    assert len(hashes) == 1
    asked_otherwise = graph_queryset(graph, name="small", version="", licence="").queries
    assert {tuple(query.groups) for query in asked_otherwise} == {("cardinality",)}


def test_leakage_tells_them(graph):
    text = render([leakage_tables(graph)[-1]], "csv")
    assert "neither,0.25,0.2" in text
    assert '"(h, r) and (r, t)",0.25,0.4' in text
    point_estimate = graph_of(list("abcd"), [""] * 4, TRIPLES, train=0)
    assert len(leakage_tables(point_estimate)) == 2


def test_parts_by_what_training_has_seen(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    for split, rows in {"train": TRIPLES[:4] * 3, "test": TRIPLES[4:]}.items():
        text = "".join(f"{'abcd'[head]}\tr{relation}\t{'abcd'[tail]}\n" for head, relation, tail in dict.fromkeys(rows))
        (folder / f"{split}.tsv").write_text(text)
    fathom_kgc.train_links("DistMult", read(folder), tmp_path / "model", epochs=2, dimension=4)
    result = fathom_kgc.evaluate_links(tmp_path / "model", read(folder), tmp_path / "run")
    parts = {part.keys[0]: part for part in result.summary(["seen"]).breakdowns[0].parts}
    assert {name: part.n for name, part in parts.items()} == {BOTH: 4, HEAD: 2, TAIL: 2, NEITHER: 2}
    assert set(parts[BOTH].numbers) == {"accuracy", "mrr", "hits@3", "hits@10", "mean_rank"}

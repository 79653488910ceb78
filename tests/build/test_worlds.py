"""Worlds: the laws they keep on random graphs and on WN18RR, their parts against references, and bad input."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading.spelling import tidy
from fathom.data.columns import few_chunks, put_rows, take_rows
from fathom.data.formats import read
from fathom.data.formats.kg import unwritable, write_graph
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.templates import Template
from fathom.data.words import is_word_character
from fathom_build.worlds import (
    THIRTEEN,
    WorldOptions,
    build_worlds,
    parse_variants,
    restore,
    worlds_table,
)
from fathom_build.worlds.derangement import (
    NO_LABEL,
    NoDerangement,
    _by_swaps,
    derange,
    draw_symbols,
    learn,
    match_relations,
    new_descriptions,
    new_names,
)
from fathom_build.worlds.mentions import _leftmost, find_mentions, replace_mentions
from fathom_build.worlds.world import Materials, find_obstacles, make_world
from tests.messages import correspond, mentioned, mentions, stated


def construction(name, parts):
    """A function that makes worlds of a construction; *parts* is its default."""
    return lambda graph, parts=parts, seed=0, options=None: make_world(
        f"{name}-{parts}", Materials(graph, seed, options)
    )


virtual, anonymised = construction("virtual", "er"), construction("anonymised", "er")
inconsistent, fully_anonymised = construction("inconsistent", "d"), construction("fully-anonymised", "d")

LIKELY = 1e-4
"""Chi-square tests with fixed seeds: below this the drawing would be suspect."""


def column(texts):
    return pa.chunked_array([pa.array(texts, pa.string())])


def make_graph(names, descriptions, triples, relations, train=None, ids=None):
    """Entities 0, 1, … and relations 0, 1, …; the first *train* triples for training, the others for the test."""
    head, relation, tail = (np.array(part, dtype=np.int32) for part in zip(*triples, strict=True))
    entities = {
        "id": column(ids or [f"e{row}" for row in range(len(names))]),
        "name": column(names),
        "aliases": pa.array([[]] * len(names), pa.list_(pa.string())),
        "description": column(descriptions),
    }
    kinds = {"id": column([f"r{row}" for row in range(len(relations))]), "name": column(relations)}
    splits = {} if train is None else {"train": range(train), "test": range(train, len(triples))}
    return KnowledgeGraph(pa.table(entities), pa.table(kinds), head, relation, tail, splits)


def texts_of(table, name):
    return table.column(name).to_pylist()


def pets(**other):
    """Five pets, three relations."""
    given = {
        "names": ["cat", "dog", "mouse", "catfish", "bird"],
        "descriptions": ["hunts a mouse", "hunts the cat and the Cat", "fears cat, catfish", "a cat fish", "sings"],
        "triples": [(0, 0, 2), (1, 0, 0), (2, 1, 0), (3, 1, 2), (4, 2, 3)],
        "relations": ["hunts", "fears", "likes"],
        "train": 4,
    }
    return make_graph(**(given | other))


# Derangements


def permitted(labels):
    places = range(len(labels))
    return [p for p in permutations(places) if all(labels[i] != labels[p[i]] for i in places)]


@pytest.mark.parametrize(
    ("draw", "labels"), [("derange", [0, 1, 2, 3, 4]), ("derange", [0, 0, 1, 2, 3]), ("swaps", [0, 0, 0, 1, 2, 2])]
)
def test_permitted_permutations_are_equally_frequent(draw, labels):
    generator, array = np.random.default_rng(2), np.array(labels)
    make = (
        (lambda: derange([array], generator).source) if draw == "derange" else (lambda: _by_swaps([array], generator))
    )
    possible = permitted(labels)
    seen = Counter(tuple(make().tolist()) for _ in range(40 * len(possible)))
    assert set(seen) == set(possible)
    assert chisquare(list(seen.values())).pvalue > LIKELY


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_no_place_takes_an_equal_label_unless_one_is_more_than_half(labels, seed):
    array, generator = np.array(labels), np.random.default_rng(seed)
    frequent, count = Counter(labels).most_common(1)[0]
    if 2 * count > len(labels):
        with pytest.raises(NoDerangement) as error:
            derange([array], generator)
        assert error.value.label == frequent
        return
    source = derange([array], generator).source
    assert sorted(source.tolist()) == list(range(len(labels)))
    assert (array[source] != array).all()


def test_a_name_of_just_half_of_a_thousand_places_is_exchanged():
    labels = np.concatenate([np.zeros(500, dtype=np.int64), np.arange(1, 501)])
    found = derange([labels], np.random.default_rng(0))
    assert found.method.startswith("swaps")
    assert (labels[found.source] != labels).all()


def test_two_labelings_are_kept_apart_together_and_no_label_goes_anywhere():
    names = np.arange(60) // 3
    texts = np.where(np.arange(60) % 2, NO_LABEL, np.arange(60) % 20)
    source = derange([names, texts], np.random.default_rng(0)).source
    assert (names[source] != names).all()
    assert ((texts[source] != texts) | (texts == NO_LABEL)).all()


# Relations


@st.composite
def relation_graphs(draw):
    kinds = draw(st.integers(1, 6))
    triples = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, kinds - 1), st.integers(0, 3)), min_size=1))
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), min_size=kinds, max_size=kinds))
    return make_graph(["p", "q", "r", "s"], [""] * 4, triples, names)


def forbidden(graph):
    """Pairs of relations that may not exchange names, worked out pair by pair."""
    names = texts_of(graph.relations, "name")
    pairs = list(zip(graph.head.tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True))
    linked = {k: {(h, t) for h, r, t in pairs if r == k} for k in range(len(names))}
    return {(i, j) for i in linked for j in linked if names[i] == names[j] or linked[i] & linked[j]}


@given(relation_graphs(), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_relations_exchange_names_where_the_rule_allows_and_as_many_as_can(graph, seed):
    names = texts_of(graph.relations, "name")
    labels = np.array([sorted(set(names)).index(name) for name in names])
    source, bad = match_relations(graph, labels, np.random.default_rng(seed)).tolist(), forbidden(graph)
    assert sorted(source) == list(range(len(names)))
    assert not any((i, j) in bad for i, j in enumerate(source) if i != j)
    most = max(
        sum(i != j for i, j in enumerate(p))
        for p in permutations(range(len(names)))
        if not any((i, j) in bad for i, j in enumerate(p) if i != j)
    )
    assert sum(i != j for i, j in enumerate(source)) == most


def test_relations_that_block_are_named_and_relax_moves_the_others():
    # r0 shares a pair with both others, so that it can take no name; r1 and r2 can exchange theirs.
    graph = pets(triples=[(0, 0, 1), (0, 1, 1), (2, 0, 3), (2, 2, 3), (4, 1, 0), (1, 2, 4)])
    with pytest.raises(BadInput, match=mentions("the 3 relations", "at least 1", "'r0'", "--relax moves 2")):
        virtual(graph, "r")
    world = virtual(graph, "r", options=WorldOptions(relax=True))
    assert texts_of(world.graph.relations, "name") == ["hunts", "likes", "fears"]
    assert world.counts["relations_kept"] == ["r0"]
    assert correspond(world.notes, ("relations that keep", "1, 'r0'"))


def test_a_graph_with_one_relation_says_so_and_relax_that_nothing_changes():
    graph = pets(relations=["likes"], triples=[(0, 0, 1), (2, 0, 3), (4, 0, 0)])
    with pytest.raises(BadInput, match=mentions("the 1 relations", "'r0'", "--relax moves none")):
        virtual(graph, "r")
    world = virtual(graph, "r", options=WorldOptions(relax=True))
    assert world.counts["relations_renamed"] == len(world.mapping) == 0
    assert "no relation changes" in world.notes[0]
    assert texts_of(anonymised(graph, "r").graph.relations, "name") != ["likes"]


def test_relations_without_a_name_are_not_among_those_that_keep_theirs():
    graph = pets(relations=["hunts", "fears", ""], triples=[(0, 0, 2), (1, 1, 0), (4, 2, 3)], train=3)
    world = virtual(graph, "r")
    assert world.counts["relations_kept"] == []
    assert correspond(world.notes, "relations without a name: 1")
    alone = pets(relations=["hunts", "", ""], triples=[(0, 0, 2), (1, 1, 0), (4, 2, 3)], train=3)
    with pytest.raises(BadInput, match=mentions("the 1 relations", "'r0'")):
        virtual(alone, "r")


# Random strings


def test_a_unigram_model_counts_characters_and_ends():
    model = learn(column(["ab", "b", "", "  ", "été"]))
    # a 1, b 2, t 1, é 2; three texts that are not blank.
    assert dict(zip(model.signs, model.counts.tolist(), strict=False)) == {"a": 1, "b": 2, "t": 1, "é": 2}
    assert model.counts[-1] == 3


def test_raw_draws_are_as_frequent_as_the_characters():
    model = learn(column(["abracadabra", "une épée", "x" * 200, "日本", "q"]))
    drawn = np.bincount(draw_symbols(model, 200_000, np.random.default_rng(3)), minlength=len(model.counts))
    assert chisquare(drawn, 200_000 * model.counts / model.counts.sum()).pvalue > LIKELY


def test_raw_draws_of_more_characters_than_the_table_has_cells():
    model = learn(column(["ab" * 50_000 + "c" * 7]))
    drawn = np.bincount(draw_symbols(model, 300_000, np.random.default_rng(3)), minlength=len(model.counts))
    rare = drawn[2:].sum()  # c and the end together, so that their expectation is not tiny: 8 in 100,008
    expected = 300_000 * np.array([50_000, 50_000, 8]) / 100_008
    assert chisquare([drawn[0], drawn[1], rare], expected).pvalue > LIKELY


@given(st.lists(st.text("aAé ,", min_size=1, max_size=6), min_size=1, max_size=30), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_new_names_are_unique_and_none_of_the_old(old, seed):
    assume(any(name.strip() for name in old))
    assume(len({*"".join(name for name in old if name.strip())} - {" ", ","}) > 1)
    new = new_names(column(old), len(old), np.random.default_rng(seed), "entities").to_pylist()
    assert len(set(new)) == len(old)
    assert not set(new) & set(old)
    assert all(name == name.strip() != "" for name in new)
    assert any(", " in name for name in old) or not any(", " in name for name in new)


def test_too_few_characters_for_so_many_names_is_said():
    with pytest.raises(BadInput, match=mentions("200", "'x'")):
        new_names(column(["x"] * 200), 200, np.random.default_rng(0), "entities")


def test_descriptions_become_others_and_none_stays_none():
    old = ["aa", "", "a", "ab", " ", *"a" * 40]  # a string of one a is likely, so that some must be drawn again
    new = new_descriptions(column(old), np.random.default_rng(0)).to_pylist()
    assert [new[1], new[4]] == ["", " "]
    assert all(one != other for one, other in zip(old, new, strict=True) if one.strip())
    assert all(text.strip() for text in (*new[:1], *new[2:4], *new[5:]))


# Mentions


def mentions_by_hand(names, texts, shortest=2):
    """Leftmost-longest on word boundaries, character by character; the reference."""
    found = []
    sought = {name for name in names if len(name) >= shortest and name.strip()}
    for row, text in enumerate(texts):
        place = 0
        while place < len(text):
            ends = [place + len(name) for name in sought if text.startswith(name, place)]
            ends = [end for end in ends if at_boundary(text, place) and at_boundary(text, end)]
            if ends:
                found.append((row, text[place : max(ends)]))
            place = max(ends, default=place + 1)
    return found


def at_boundary(text, place):
    return place in (0, len(text)) or not (is_word_character(text[place - 1]) and is_word_character(text[place]))


SIGNS = "abé -.日\u0301"


@given(
    st.lists(st.text(SIGNS, max_size=6), min_size=2, max_size=12),
    st.lists(st.text(SIGNS, max_size=25), min_size=2, max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_mentions_are_those_found_character_by_character(names, texts):
    size = min(len(names), len(texts))
    graph = make_graph(names[:size], texts[:size], [(0, 0, 1)], ["r"])
    found = find_mentions(graph, "exact")
    mine = [(int(row), names[entity]) for row, entity in zip(found.described, found.entity, strict=True)]
    assert mine == mentions_by_hand(names[:size], texts[:size])


def test_mentions_are_those_of_another_automaton(shared_data):
    """ahocorasick-rs, words wrapped in two signs so that its leftmost-longest search keeps to their boundaries."""
    automata = pytest.importorskip("ahocorasick_rs")
    entities = read(shared_data / "wn18rr").graph.entities.slice(0, 4000)
    names, texts = (texts_of(entities, name) for name in ("name", "description"))

    def wrapped(text):
        return re.sub(r"(\w+)", "\x02\\1\x03", text.lower())

    patterns = sorted({wrapped(name) for name in names if len(name) > 1})
    automaton = automata.AhoCorasick(patterns, automata.MatchKind.LeftmostLongest)
    expected = [
        (row, patterns[number].translate({2: None, 3: None}))
        for row, text in enumerate(texts)
        for number, _, _ in automaton.find_matches_as_indexes(wrapped(text))
    ]
    found = find_mentions(make_graph(names, texts, [(0, 0, 1)], ["r"]), "auto")
    assert found.case == "ignore"
    assert [(int(r), names[e]) for r, e in zip(found.described, found.entity, strict=True)] == expected
    assert len(expected) > 3000


def test_spans_shut_out_those_that_begin_inside_them():
    start, end = np.array([0, 1, 2, 3, 9, 9]), np.array([2, 4, 3, 9, 10, 11])
    # 0-2 stays and shuts 1-4; 2-3 stays; 3-9 stays; 9-10 stays and shuts the other that begins at 9.
    assert _leftmost(start, end).tolist() == [0, 2, 3, 4]


def test_names_are_replaced_in_one_pass_on_word_boundaries():
    graph = pets()
    new = column(["dog", "cat", "elephant", "x", "y"])
    texts, spans = replace_mentions(graph.entities.column("description"), find_mentions(graph, "ignore"), new)
    assert texts.to_pylist() == ["hunts a elephant", "hunts the dog and the dog", "fears dog, x", "a dog fish", "sings"]
    # "hunts the cat and the Cat": characters 10 to 13 and 22 to 25.
    assert [span for span in spans.to_pylist() if span["described"] == 1] == [
        {"described": 1, "mention": 0, "start": 10, "end": 13, "new_start": 10, "new_end": 13, "old": "cat"},
        {"described": 1, "mention": 0, "start": 22, "end": 25, "new_start": 22, "new_end": 25, "old": "Cat"},
    ]
    exact, _ = replace_mentions(graph.entities.column("description"), find_mentions(graph, "exact"), new)
    assert exact.to_pylist()[1] == "hunts the dog and the Cat"


@pytest.mark.parametrize(("name", "case"), [("cat", "ignore"), ("Cat", "exact"), ("Éa", "exact"), ("日本", "ignore")])
def test_case_is_ignored_where_no_name_has_a_capital(name, case):
    assert find_mentions(make_graph([name, "b"], ["", ""], [(0, 0, 1)], ["r"])).case == case


def test_a_shared_name_means_itself_then_a_neighbour_in_training_then_the_first():
    names = ["bank", "river", "bank", "bank", "money", "sea"]
    texts = ["a bank", "has a bank", "the bank", "a bank bank", "in the bank", "no bank"]
    # river is linked to the third bank in training; money to the second only in the test, which must not tell.
    graph = make_graph(names, texts, [(1, 0, 3), (1, 0, 5), (2, 0, 1), (4, 0, 2)], ["r"], train=2)
    found = find_mentions(graph)
    assert list(zip(found.described.tolist(), found.entity.tolist(), strict=True)) == [
        (0, 0), (1, 3), (2, 2), (3, 3), (3, 3), (4, 0), (5, 0),
    ]  # fmt: skip
    assert found.ambiguous == {"itself": 4, "linked": 1, "first": 2}


def test_names_of_one_character_are_not_looked_for_and_this_is_said():
    graph = pets(names=["a", "dog", "mouse", "catfish", "bird"])
    world = virtual(graph, "e")
    assert world.counts["names_not_looked_for"] == 1
    assert "fewer than 2 characters" in world.notes[0]
    assert texts_of(world.graph.entities, "description")[0].startswith("hunts a ")
    assert virtual(graph, "e", options=WorldOptions(shortest_mention=1)).counts["names_not_looked_for"] == 0
    nameless = virtual(pets(names=["cat", "dog", "", " ", "bird"]), "e")
    assert nameless.counts["names_not_looked_for"] == 0
    assert correspond(nameless.notes, "entities without a name: 2")


def test_without_descriptions_nothing_is_said_of_mentions(tmp_path):
    world = virtual(pets(names=["a", "dog", "mouse", "catfish", "bird"], descriptions=[""] * 5), "e")
    assert not world.notes
    assert set(world.counts) == {"entities_renamed", "entities_by"}
    made = build_worlds(pets(descriptions=[""] * 5), tmp_path / "bare", ["virtual-e"])
    assert not worlds_table(made).notes
    made = build_worlds(pets(), tmp_path / "described", ["virtual-e"])
    assert correspond(worlds_table(made).notes, "A to Z", "remaining words")


# Laws of the four constructions


NAMES = st.text("abA é,\"'", min_size=1, max_size=5).map(tidy).filter(bool)


@st.composite
def graphs(draw):
    size = draw(st.integers(4, 14))
    names = draw(st.lists(NAMES, min_size=size, max_size=size))
    assume(2 * Counter(names).most_common(1)[0][1] <= size)
    pieces = st.one_of(st.sampled_from(names), st.sampled_from(["of", "the", ";", "日"]))
    texts = draw(st.lists(st.lists(pieces, max_size=6).map(" ".join), min_size=size, max_size=size))
    rows = st.integers(0, size - 1)
    triples = draw(st.lists(st.tuples(rows, st.integers(0, 3), rows), min_size=1, max_size=20))
    triples += [(row, row % 4, row) for row in range(size)]  # every entity and relation occurs
    ids = draw(st.sampled_from([None, [f"{row:08}" for row in range(size)]]))
    return make_graph(names, texts, triples, ["in", "on", "at", "by"], draw(st.integers(1, len(triples))), ids)


def assert_same_facts(one, other):
    for table in ("entities", "relations"):
        assert texts_of(getattr(one, table), "id") == texts_of(getattr(other, table), "id")
    for name in ("head", "relation", "tail"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.splits == other.splits


def assert_mentions_follow(graph, world):
    """Over the recorded spans: what stands in a new description is the new name of what stood in the old one."""
    spans = world.spans.to_pydict()
    old_texts, new_texts = (texts_of(g.entities, "description") for g in (graph, world.graph))
    renamed = {line["id"]: line["new"] for line in world.mapping.to_pylist() if line["kind"] in ("entity", "mention")}
    ids = texts_of(graph.entities, "id")
    last = dict.fromkeys(range(len(ids)), (0, 0))
    for row, entity, start, end, new_start, new_end, old in zip(*spans.values(), strict=True):
        assert old_texts[row][start:end] == old
        assert new_texts[row][new_start:new_end] == renamed[ids[entity]]
        before, new_before = last[row]
        assert old_texts[row][before:start] == new_texts[row][new_before:new_start]
        last[row] = (end, new_end)
    for row, (before, new_before) in last.items():
        assert old_texts[row][before:] == new_texts[row][new_before:]


def assert_virtual(graph, world):
    old, new = (texts_of(g.entities, "name") for g in (graph, world.graph))
    assert all(one != other for one, other in zip(old, new, strict=True))
    assert Counter(old) == Counter(new)
    assert_same_facts(graph, world.graph)
    assert_mentions_follow(graph, world)


def assert_anonymised(graph, world):
    old, new = (texts_of(g.entities, "name") for g in (graph, world.graph))
    assert len(set(new)) == len(new)
    assert not set(new) & set(old)
    assert_same_facts(graph, world.graph)
    assert_mentions_follow(graph, world)


@given(graphs(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_laws_of_random_graphs(graph, seed):
    assert_virtual(graph, virtual(graph, "er", seed, WorldOptions(relax=True)))
    if len(set("".join(texts_of(graph.entities, "name"))) - {" ", ","}) > 1:
        assert_anonymised(graph, anonymised(graph, "er", seed))
    descriptions = texts_of(graph.entities, "description")
    written = [text for text in descriptions if text.strip()]
    if written and 2 * Counter(written).most_common(1)[0][1] <= len(written):
        world = inconsistent(graph, "d", seed)
        new = texts_of(world.graph.entities, "description")
        assert Counter(new) == Counter(descriptions)
        assert all(one != other for one, other in zip(descriptions, new, strict=True) if one.strip())
        assert_same_facts(graph, world.graph)


@pytest.mark.slow
def test_laws_of_wordnet(shared_data):
    graph = read(shared_data / "wn18rr").graph
    world = virtual(graph, "er")
    assert_virtual(graph, world)
    assert world.counts["mentions_found"] > 100_000
    source = {line["id"]: line["source"] for line in world.mapping.to_pylist() if line["kind"] == "relation"}
    ids = texts_of(graph.relations, "id")
    linked = [
        set(zip(*(c[graph.relation == k].tolist() for c in (graph.head, graph.tail)), strict=True)) for k in range(11)
    ]
    assert all(not linked[ids.index(one)] & linked[ids.index(other)] for one, other in source.items())
    assert_anonymised(graph, anonymised(graph, "er"))
    together = inconsistent(graph, "ed").graph.entities
    names, texts = (texts_of(graph.entities, name) for name in ("name", "description"))
    pairs = set(zip(names, texts, strict=True))
    assert all(
        pair in pairs for pair in zip(texts_of(together, "name"), texts_of(together, "description"), strict=True)
    )
    assert all(one != other for one, other in zip(names, texts_of(together, "name"), strict=True))
    assert all(one != other for one, other in zip(texts, texts_of(together, "description"), strict=True))


def test_parts_that_worlds_share_are_the_same():
    graph = pets()
    assert virtual(graph, "er").graph.entities.equals(virtual(graph, "e").graph.entities)
    assert virtual(graph, "er").graph.relations.equals(virtual(graph, "r").graph.relations)
    assert virtual(graph, "ed").graph.entities.equals(virtual(graph, "e").graph.entities)
    names = texts_of(anonymised(graph, "e").graph.entities, "name")
    assert texts_of(fully_anonymised(graph, "ed").graph.entities, "name") == names
    assert not virtual(graph, "e", seed=1).graph.entities.equals(virtual(graph, "e").graph.entities)


def with_aliases(graph, aliases):
    column = pa.chunked_array([pa.array(aliases, pa.list_(pa.string()))])
    return replace(graph, entities=graph.entities.set_column(2, "aliases", column))


def test_other_names_move_with_names_and_are_left_out_of_random_worlds():
    graph = with_aliases(pets(), [[f"alias {row}"] for row in range(5)])
    old = dict(zip(texts_of(graph.entities, "name"), texts_of(graph.entities, "aliases"), strict=True))
    moved = virtual(graph, "e").graph.entities
    assert all(old[n] == a for n, a in zip(texts_of(moved, "name"), texts_of(moved, "aliases"), strict=True))
    world = anonymised(graph, "e")
    assert texts_of(world.graph.entities, "aliases") == [[]] * 5
    assert any("aliases" in note for note in world.notes)
    assert world.mapping.to_pylist()[0]["old_aliases"] == ["alias 0"]


def test_where_names_and_descriptions_move_together_those_without_a_name_keep_theirs_with_a_note():
    graph = pets(names=["cat", "dog", "", "catfish", ""], descriptions=["purrs", "", "squeaks", "swims", ""])
    world = inconsistent(graph, "ed")
    # cat, dog and catfish take part: two of them have a description, and none keeps it; the mouse keeps its own.
    changed = {line["id"]: (line["old"], line["new"]) for line in world.mapping.to_pylist() if line["kind"] != "entity"}
    assert set(changed) == {"e0", "e1", "e3"}
    assert all(old != new for old, new in changed.values())
    assert (world.counts["descriptions_changed"], world.counts["descriptions_kept"]) == (3, 1)
    assert correspond(
        world.notes,
        ("without a description: 2", "given another's: 1"),
        ("keep their descriptions: 1", "'e2'"),
        "without a name: 2",
    )


# Folders


@given(graphs(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_graph_that_is_written_reads_as_itself(tmp_path_factory, graph, with_splits):
    folder = tmp_path_factory.mktemp("graph")
    kept = graph if with_splits and len(graph.splits["test"]) else replace(graph, splits={})
    write_graph(kept, folder)
    again = read(folder).graph
    for name in ("id", "name", "description"):
        assert texts_of(again.entities, name) == texts_of(kept.entities, name)
    assert again.content_hash == kept.content_hash


CONSTRUCTIONS = ("virtual", "anonymised", "inconsistent", "fully-anonymised")
SUBSETS = ["".join(some) for count in (1, 2, 3) for some in combinations("erd", count)]


@pytest.mark.slow
@given(graphs(), st.sampled_from(CONSTRUCTIONS), st.sampled_from(SUBSETS), st.data())
@settings(max_examples=100, deadline=None)
def test_every_world_leads_back_and_its_mapping_holds_what_changed(tmp_path_factory, graph, construction, parts, data):
    """Some entities have other names, some no name or no description."""
    blank = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=14, max_size=14))
    entities = graph.entities
    for place, name in enumerate(("name", "description")):
        texts = ["" if gap[place] else text for text, gap in zip(texts_of(entities, name), blank, strict=False)]
        entities = entities.set_column(entities.column_names.index(name), name, column(texts))
    others = st.lists(st.sampled_from(["other", "one more", "日"]), unique=True)
    aliases = data.draw(st.lists(others, min_size=len(entities), max_size=len(entities)))
    source = with_aliases(replace(graph, entities=entities, splits={}), aliases)
    materials = Materials(source, 0, WorldOptions(relax=True))
    assume(not find_obstacles(parse_variants([f"{construction}-{parts}"])[0], materials))
    folder = tmp_path_factory.mktemp("worlds")
    build_worlds(source, folder, [f"{construction}-{parts}"], options=WorldOptions(relax=True))
    assert restore(folder / f"{construction}-{parts}").content_hash == source.content_hash
    lines = pq.read_table(folder / f"{construction}-{parts}" / "mapping.parquet").to_pylist()
    assert all(line["old"] != line["new"] or line["old_aliases"] != line["new_aliases"] for line in lines)
    world = make_world(f"{construction}-{parts}", materials)
    assert_same_facts(source, world.graph)
    for kind, table, name in (
        ("entity", "entities", "name"),
        ("description", "entities", "description"),
        ("relation", "relations", "name"),
    ):
        pair = [getattr(one, table) for one in (source, world.graph)]
        olds, news = (dict(zip(texts_of(t, "id"), texts_of(t, name), strict=True)) for t in pair)
        if kind == "description" and len(world.spans):  # mentions follow: the spans say so, and the mapping does not
            continue
        differing = {id_ for id_ in olds if olds[id_] != news[id_]}
        assert {line["id"] for line in lines if line["kind"] == kind and line["old"] != line["new"]} == differing


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_every_subset_can_be_named_and_leads_back(construction, tmp_path):
    graph = pets()
    variants = parse_variants(f"{construction}-{some}" for some in SUBSETS)
    manifests = build_worlds(graph, tmp_path, variants, seed=3)
    for variant, manifest in zip(variants, manifests, strict=True):
        folder = tmp_path / f"{construction}-{variant.parts}"
        again = read(folder).graph
        assert_same_facts(graph, again)
        assert again.content_hash == manifest["content_hash"]
        assert restore(folder).content_hash == graph.content_hash
        assert manifest == json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["seed"] == 3
        assert manifest["source"]["content_hash"] == graph.content_hash


def test_templates_are_kept_where_relations_keep_their_names(tmp_path):
    relation = pets().relations.column("id")[0].as_py()
    templates = {relation: (Template("[X] is a [Y]."),)}
    for name, kept, manifest in zip(
        ("base", "virtual-e", "virtual-r"),
        (templates, templates, {}),
        build_worlds(pets(), tmp_path, ["base", "virtual-e", "virtual-r"], templates=templates),
        strict=True,
    ):
        assert read(tmp_path / name).templates == kept
        assert stated(manifest["notes"], "templates.jsonl") != bool(kept)


@pytest.mark.slow
def test_wordnet_comes_out_as_it_went_in_and_leads_back(shared_data, tmp_path):
    source = shared_data / "wn18rr"
    graph = read(source).graph
    build_worlds(graph, tmp_path, parse_variants(["base", "virtual-er", "fully-anonymised-erd"]), name="wn18rr")
    for file in ("train.tsv", "dev.tsv", "test.tsv", "entity2text.txt", "relation2text.txt"):
        assert (tmp_path / "base" / file).read_bytes().rstrip() == (source / file).read_bytes().rstrip()
    for world in ("virtual-er", "fully-anonymised-erd"):
        assert (tmp_path / world / "test.tsv").read_bytes() == (source / "test.tsv").read_bytes()
        assert restore(tmp_path / world).content_hash == graph.content_hash


@pytest.mark.slow
def test_freebase_leads_back_with_its_other_names(shared_data, tmp_path):
    graph = read(shared_data / "fb15k237").graph
    assert sum(map(bool, texts_of(graph.entities, "aliases"))) > 9000
    for world in ("virtual-e", "anonymised-e"):
        build_worlds(graph, tmp_path, [world])
        assert restore(tmp_path / world).content_hash == graph.content_hash


def test_the_seed_gives_the_same_bytes(tmp_path):
    for place, seed in (("one", 5), ("two", 5), ("three", 6)):
        build_worlds(pets(), tmp_path / place, seed=seed)
    assert sorted(folder.name for folder in (tmp_path / "one").iterdir()) == sorted(map(str, THIRTEEN))
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file()]
    assert len(files) > 13 * 6
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)
    changed = [
        file for file in files if (tmp_path / "one" / file).read_bytes() != (tmp_path / "three" / file).read_bytes()
    ]
    assert any(file.name == "entity2text.txt" for file in changed)


def test_tables_next_to_a_world(tmp_path):
    build_worlds(pets(), tmp_path, parse_variants(["virtual-er"]))
    mapping = pq.read_table(tmp_path / "virtual-er" / "mapping.parquet").to_pylist()
    names = {f"e{row}": name for row, name in enumerate(["cat", "dog", "mouse", "catfish", "bird"])}
    entities = [line for line in mapping if line["kind"] == "entity"]
    assert {line["id"]: line["old"] for line in entities} == names
    assert all(line["new"] == names[line["source"]] for line in entities)
    assert sum(line["kind"] == "relation" for line in mapping) == 3
    span = pq.read_table(tmp_path / "virtual-er" / "spans.parquet").to_pylist()[0]
    assert (span["described"], span["mention"], span["start"], span["end"], span["old"]) == ("e0", "e2", 8, 13, "mouse")


@given(st.lists(st.lists(st.text("ab日", max_size=5), max_size=4), max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_taken_from_columns_however_they_are_cut(parts, data):
    texts = pa.chunked_array([pa.array(part, pa.string()) for part in parts], pa.string())
    whole = texts.to_pylist()
    rows = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=12)) if whole else []
    for size in (1, 40, 1 << 20):
        assert few_chunks(texts, size).to_pylist() == whole
        assert take_rows(texts, np.array(rows, dtype=np.int64), size).to_pylist() == [whole[row] for row in rows]
        places = sorted(set(rows))
        exchanged = put_rows(texts, np.array(places, dtype=np.int64), column([f"new {row}" for row in places]), size)
        assert exchanged.to_pylist() == [f"new {row}" if row in places else text for row, text in enumerate(whole)]


def test_how_columns_are_cut_in_memory_does_not_show(tmp_path):
    graph = pets()
    cut = graph.entities
    for place, name in enumerate(cut.column_names):
        values = cut.column(name).combine_chunks()
        cut = cut.set_column(place, name, pa.chunked_array([values.slice(0, 2), values.slice(2, 0), values.slice(2)]))
    build_worlds(graph, tmp_path / "one")
    build_worlds(replace(graph, entities=cut), tmp_path / "two")
    for file in (tmp_path / "one").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes()


# Bad input


def fathom(*words):
    from fathom.cli import main

    sys.argv = ["fathom", *map(str, words)]
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code or 0


def graph_folder(folder, **files):
    """Files of a graph; the names of entities unless others are given."""
    triples = [f"e{row}\tr{row % 3}\te{(row * 2 + 1) % 6}" for row in range(6)]
    given = {
        "train_tsv": triples,
        "entity2text_txt": [f"e{row}\tname {row}\tabout name {(row + 1) % 6}" for row in range(6)],
        "relation2text_txt": ["r0\tin", "r1\ton", "r2\tby"],
    }
    folder.mkdir()
    for name, lines in (given | files).items():
        (folder / name.replace("_", ".")).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


BAD = {
    "relations without names": (
        {"relation2text_txt": ["r0\t", "r1\t", "r2\t"]},
        "virtual-r",
        "no relation",
    ),
    "a name shared by more than half": (
        {"entity2text_txt": [f"e{row}\tsame\tabout {row}" for row in range(4)] + ["e4\ta\tb", "e5\tb\tc"]},
        "virtual-e",
        ("'same'", "the name", "4 of 6 entities"),
    ),
    "a description shared by more than half": (
        {"entity2text_txt": [f"e{row}\tname {row}\tsame" for row in range(5)] + ["e5\tb\tc"]},
        "inconsistent-d",
        ("'same'", "the description", "5 of 6 entities"),
    ),
    "no descriptions": (
        {"entity2text_txt": [f"e{row}\tname {row}" for row in range(6)]},
        "inconsistent-d",
        ("no entity", "description"),
    ),
    "no descriptions to anonymise": (
        {"entity2text_txt": [f"e{row}\tname {row}" for row in range(6)]},
        "fully-anonymised-erd",
        ("no entity", "description"),
    ),
    "no names": ({"entity2text_txt": [f"e{row}\t\ttext" for row in range(6)]}, "virtual-e", ("no entity", "name")),
    "one name": (
        {"entity2text_txt": ["e0\tname\ttext"] + [f"e{row}\t\ttext" for row in range(1, 6)]},
        "virtual-e",
        "only one entity",
    ),
    "one relation": (
        {"train_tsv": ["e0\tr0\te1", "e2\tr0\te3", "e4\tr0\te5"]},
        "virtual-r",
        "the 1 relations",
    ),
    "a tab in a name": (
        {"entity2text_txt": ["e0\ta\tb\tc"] + [f"e{row}\tname {row}\ttext" for row in range(1, 6)]},
        "virtual-e",
        ("entity2text.txt:1:", "3 columns (id, name, description)", r"'e0\ta\tb\tc'"),
    ),
    "a world that is none": ({}, "virtuel-e", "'virtuel-e'"),
    "no parts": ({}, "virtual-", "'virtual-'"),
    "nothing": ({}, ",", "no world"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_said_and_nothing_is_written(case, tmp_path, capsys):
    files, variants, message = BAD[case]
    folder = graph_folder(tmp_path / "graph", **files)
    code = fathom("build", "worlds", "--data", folder, "--out", tmp_path / "out", "--variants", variants)
    assert code == 2
    assert mentioned(capsys.readouterr().err, message)
    assert not (tmp_path / "out").exists()


def test_all_that_prevents_worlds_is_said_at_once_with_what_can_be_made(tmp_path, capsys):
    files = {
        "entity2text_txt": [f"e{row}\tsame" for row in range(6)],
        "train_tsv": ["e0\tr0\te1", "e2\tr0\te3", "e4\tr0\te5"],
    }
    folder = graph_folder(tmp_path / "graph", **files)
    (tmp_path / "out" / "base").mkdir(parents=True)
    (tmp_path / "out" / "base" / "mine").touch()
    assert fathom("build", "worlds", "--data", folder, "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "there already" in said
    assert said.count("more than half") == 1
    assert said.count("of the 1 relations") == 1
    assert mentioned(said, "--variants")
    assert [folder.name for folder in (tmp_path / "out").iterdir()] == ["base"]


@pytest.mark.parametrize("sign", ["\t", "\n", "\r"])
def test_tabs_and_line_breaks_are_named_with_their_entity(sign, tmp_path):
    graph = pets(names=[f"c{sign}at", "dog", "mouse", "catfish", "bird"], relations=["hunts", f"fe{sign}ars", "likes"])
    with pytest.raises(BadInput) as error:
        build_worlds(graph, tmp_path / "out")
    assert [fault[:24] for fault in error.value.faults] == ["entity 'e0': its name ha", "relation 'r1': its name "]
    assert unwritable(pets()) == []
    assert not (tmp_path / "out").exists()


def test_entities_without_names_or_descriptions_stay_without_and_are_counted(tmp_path, capsys):
    lines = [f"e{row}\tname {row}\tabout name {(row + 1) % 6}" for row in range(4)] + ["e4\t\tnameless", "e5\tbare\t"]
    folder = graph_folder(tmp_path / "graph", entity2text_txt=lines)
    variants = "virtual-e,anonymised-e,inconsistent-d,inconsistent-ed,fully-anonymised-ed"
    assert fathom("build", "worlds", "--data", folder, "--out", tmp_path / "out", "--variants", variants) == 0
    said = capsys.readouterr().out
    assert "without a name: 1" in said
    assert "without a description: 1" in said
    for variant in variants.split(","):
        assert texts_of(read(tmp_path / "out" / variant).graph.entities, "name")[4] == ""
    for variant in ("inconsistent-d", "fully-anonymised-ed"):
        assert texts_of(read(tmp_path / "out" / variant).graph.entities, "description")[5] == ""


@pytest.mark.parametrize("construct", [virtual, anonymised, inconsistent, fully_anonymised])
@pytest.mark.parametrize("parts", ["", "x", "ex", "ee", None])
def test_parts_that_are_none_are_refused(construct, parts):
    with pytest.raises(BadInput, match=rf"'[a-z-]+-{parts}'"):
        construct(pets(), parts)


def test_a_seed_below_zero_is_refused():
    with pytest.raises(BadInput, match=mentions("seed", "-1")):
        virtual(pets(), "e", seed=-1)


@pytest.mark.parametrize("construct", [virtual, anonymised, inconsistent])
def test_functions_refuse_what_the_command_refuses(construct):
    with pytest.raises(BadInput, match=mentions("no entity", "name")):
        construct(pets(names=[""] * 5), "e")
    with pytest.raises(BadInput, match=mentions("no entity", "description")):
        construct(pets(descriptions=[""] * 5), "d")


@pytest.mark.parametrize("wrong", [{"case": "smart"}, {"shortest_mention": 0}])
def test_options_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        WorldOptions(**wrong)


def test_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="is a file"):
        build_worlds(pets(), tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"


def test_a_disk_that_fills_leaves_only_complete_worlds(tmp_path, monkeypatch):
    written = []

    def write_or_fail(graph, folder, templates):
        (folder / "train.tsv").write_text("begun", encoding="utf-8")
        if written:
            raise OSError(28, "No space left on device")
        written.append(folder)

    monkeypatch.setattr("fathom_build.worlds.build.write_graph", write_or_fail)
    with pytest.raises(RunFailed, match=mentions("virtual-e:", "No space")):
        build_worlds(pets(), tmp_path / "out", parse_variants(["base", "virtual-e"]))
    assert [folder.name for folder in (tmp_path / "out").iterdir()] == ["base"]


def test_a_file_that_may_not_grow_is_one_clear_line(tmp_path):
    """As a full disk, from outside: the process may write no file above 64 bytes, so none of byte code, either."""
    folder = graph_folder(tmp_path / "graph")
    command = [sys.executable, "-c", "from fathom.cli import main; main()", "build", "worlds", "--data", folder]
    done = subprocess.run(
        [*command, "--out", tmp_path / "out"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
        env=os.environ | {"FATHOM_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert mentioned(done.stderr, "out/base", "File too large")
    assert list((tmp_path / "out").iterdir()) == []


def test_worlds_that_the_same_command_has_made_before_are_kept(tmp_path):
    """As after a kill: two of three are there, one of them by another seed."""
    graph = pets()
    whole = build_worlds(graph, tmp_path / "whole", ["base", "virtual-e", "virtual-er"], seed=3, name="pets")
    build_worlds(graph, tmp_path / "out", ["base", "virtual-e"], seed=3, name="pets")
    written = (tmp_path / "out" / "virtual-e" / "mapping.parquet").stat().st_mtime_ns
    again = build_worlds(graph, tmp_path / "out", ["base", "virtual-e", "virtual-er"], seed=3, name="pets")
    assert again == whole
    assert (tmp_path / "out" / "virtual-e" / "mapping.parquet").stat().st_mtime_ns == written
    for file in sorted((tmp_path / "whole").rglob("*.*")):
        assert (tmp_path / "out" / file.relative_to(tmp_path / "whole")).read_bytes() == file.read_bytes()
    with pytest.raises(BadInput) as error:
        build_worlds(graph, tmp_path / "out", ["base", "virtual-e"], seed=4, name="pets")
    assert len(error.value.faults) == 2
    assert mentioned(error.value.faults[0], "made with seed 3 instead of 4", "delete it")
    (tmp_path / "out" / "base" / "train.tsv").unlink()
    with pytest.raises(BadInput, match="there already"):
        build_worlds(graph, tmp_path / "out", ["base", "virtual-e"], seed=3, name="pets")

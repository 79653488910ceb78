"""Ontologies with nonce names: the shape of the original, and no word of it."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.ontology import read_axioms
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.nonce import nonce_words
from fathom.data.prompts.ontology import TASKS
from fathom_build.ontology import build_ontology
from fathom_build.options import OntologyBuildOptions
from tests.build.test_ontology_build import PATTERNS, TOWN, contents
from tests.messages import mentions

pytest.importorskip("pyoxigraph")


def built(folder: Path, name: str, **options):
    build_ontology(OntologyBuildOptions(input=[TOWN], out=folder / name, **options))
    return read(folder / name)


@pytest.fixture(scope="module")
def nonce(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nonce")
    return folder, built(folder, "plain"), built(folder, "nonce", nonce=True)


def words_of(data) -> list[str]:
    names = [name for space in data.candidates.values() for name in space.names]
    return [*names, *{query.subject for query in data.queries if query.relation == "type"}]


def test_the_shape_is_kept(nonce):
    """Names are replaced one by one: put back, every item is there with its answers."""
    folder, plain, made = nonce
    lines = [line.split("\t") for line in (folder / "nonce" / "names.tsv").read_text().splitlines()]
    assert {kind for kind, _, _ in lines} == {"classes", "properties", "things"}
    original = {word: name for _, name, word in lines}
    assert len(original) == len(lines)
    for task in TASKS:
        ours = {original[query.subject]: {original[gold] for gold in query.gold} for query in made.by_relation()[task]}
        theirs = {query.subject: set(query.gold) for query in plain.by_relation()[task]}
        assert ours == theirs, task
    axioms, renamed = read_axioms(folder / "plain"), read_axioms(folder / "nonce")
    assert [len(kind) for kind in axioms] == [len(kind) for kind in renamed]
    assert {original[name] for name in renamed.transitive} == set(axioms.transitive)
    assert {tuple(map(original.get, pair)) for pair in renamed.inverse} == set(axioms.inverse)


def test_names_share_no_word(nonce):
    folder, plain, made = nonce
    names = words_of(made)
    assert len(set(names)) == len(names) == len(words_of(plain))
    assert all(re.fullmatch(r"[A-Za-z][a-z]{4,}", name) for name in names)
    before = {word.casefold() for name in words_of(plain) for word in name.split()}
    assert not before & {name.casefold() for name in names}
    text = "".join((folder / "nonce" / "ontology" / file).read_text() for file in ("class.json", "property.json"))
    assert not re.search("town|captain|Dora", text)
    patterns = read_patterns(folder / "nonce")
    assert all(pattern == f"[X] {name} [Y] ." for own in patterns.values() for name, pattern in own.items())


def test_the_seed_decides_the_names(nonce, tmp_path):
    folder, _, made = nonce
    again, other = built(tmp_path, "nonce", nonce=True), built(tmp_path, "other", nonce=True, seed=1)
    assert contents(tmp_path / "nonce") == contents(folder / "nonce")
    assert set(words_of(made)) == set(words_of(again))
    assert not set(words_of(made)) & set(words_of(other))
    assert json.loads((tmp_path / "other" / "manifest.json").read_text())["seed"] == 1


def test_many_words_are_distinct_and_pronounceable():
    words = list(islice(nonce_words(3), 30_000))
    assert len(set(words)) == 30_000
    assert not [word for word in words if re.search(r"[^aeiou]{4}|[aeiou]{2}", word)]


def test_words_go_on_when_short_ones_are_used_up(monkeypatch):
    for part, letters in (("ONSETS", "b"), ("MIDDLES", ["zk"]), ("CODAS", "d"), ("VOWELS", "a")):
        monkeypatch.setattr(f"fathom.data.nonce._{part}", letters)
    assert list(islice(nonce_words(0), 3)) == ["bazkad", "bazkazkad", "bazkazkazkad"]


def test_patterns_of_the_original_do_not_fit(tmp_path):
    with pytest.raises(BadInput, match=mentions("--patterns", "--nonce")):
        built(tmp_path, "out", nonce=True, patterns=PATTERNS)


def test_the_shape_of_the_published_folder(shared_data, tmp_path):
    published = shared_data / "ontoprobe"
    options = OntologyBuildOptions(input=[published], out=tmp_path / "out", nonce=True, instances=3)
    tasks = build_ontology(options).tasks
    assert tasks["subClassOf"] == 721
    entries = json.loads((published / "ontology" / "property.json").read_text())
    assert tasks["subPropertyOf"] == sum(bool(entry["rdfs:subPropertyOf"]) for entry in entries)
    assert (tasks["domain"], tasks["range"]) == (50, 49)  # one of either is none of the classes
    data, made = read(published), read(tmp_path / "out")
    assert {name: len(space) for name, space in made.candidates.items()} == {"classes": 783, "properties": 82}
    ours, theirs = (sorted(query.distances for query in one.by_relation()["subClassOf"]) for one in (made, data))
    assert ours == theirs


def test_the_shape_of_a_built_folder_is_that_of_its_files(nonce, tmp_path):
    folder, _, made = nonce
    build_ontology(OntologyBuildOptions(input=[folder / "plain"], out=tmp_path / "out", nonce=True))
    again = read(tmp_path / "out")
    assert {task: len(queries) for task, queries in again.by_relation().items()} == {
        task: len(queries) for task, queries in made.by_relation().items()
    }
    assert [len(kind) for kind in read_axioms(tmp_path / "out")] == [
        len(kind) for kind in read_axioms(folder / "nonce")
    ]

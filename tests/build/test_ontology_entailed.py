"""Types that follow from what is asserted of things, and names of what has no label; each answer derived by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.data.prompts.ontology import few_items, one_answer
from fathom_build.ontology import build_ontology
from fathom_build.options import OntologyBuildOptions
from tests.build.test_ontology_build import server, solutions, store_of
from tests.probes.test_ontology_closure import CLASSES, golds, made, noted

pytest.importorskip("pyoxigraph")
ONTOLOGIES = Path(__file__).parents[1] / "ontologies"
PERSON, INN = {"person"}, {"inn", "building"}
ENTAILED = {
    "Harbourhead": INN,
    "Longwall": {"building"},
    "Undercroft": {"cellar", *INN},
    "Morrick": {"guest", "keeper", *PERSON},
    "Tessaly": {"keeper", *PERSON},
    "Oswin": {"regular", "guest", *PERSON},
    "Perrin": {"guest", *PERSON},
    "Wick": {"regular", "guest", *PERSON},
    "Yarrow": {"ware", "person", *INN},
    "Bramblewine": {"stout", "ale", "drink", "ware"},
    "Nightpour": {"stout", "ale", "drink", "ware"},
    "Smallbeer": {"ale", "drink", "ware"},
    "Dewdrop": {"ware", "drink"},
    "Black": {"shade"},
    "Amber": {"shade"},
    "Hops": PERSON,
}


def test_types_that_properties_entail_are_right(tmp_path):
    file = ONTOLOGIES / "property_assertions.ttl"
    built = build_ontology(OntologyBuildOptions(input=[file], out=tmp_path / "out"))
    assert golds(tmp_path, "type") == ENTAILED
    noted(built, ("11 sampled things", "owl:hasValue", "Bramblewine (stout, ware)"))
    noted(built, ("1 of 16 sampled things", "owl:someValuesFrom", "Hops"))
    store = store_of(file)
    with server(lambda query, _: solutions(store, query)) as (address, _):
        build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "served" / "out"))
    ours = ENTAILED | {"Oswin": {"guest", *PERSON}, "Bramblewine": {"ale", "drink", "ware"}}  # values are not asked for
    assert golds(tmp_path / "served", "type") == ours


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (":near r:domain :Human . :x a :Animal ; :near :y .", {"x": {"human", "animal"}}),
        (":near r:range :Human . :y a :Robot . :x :near :y .", {"y": {"robot", "human", "animal"}}),
        (":next r:subPropertyOf :near . :near r:domain :Robot . :x a :Animal ; :next :y .", {"x": {"animal", "robot"}}),
        (":near o:inverseOf :next . :next r:range :Robot . :x a :Animal ; :near :y .", {"x": {"animal", "robot"}}),
        (
            ":next o:equivalentProperty :near . :near r:domain :Robot . :x a :Animal ; :next 7 .",
            {"x": {"animal", "robot"}},
        ),
        (":near r:domain :Robot . :x o:sameAs :z ; a :Animal . :z :near :y .", {"x": {"animal", "robot"}}),
        (
            ":near r:domain [ o:intersectionOf ( :Child :Robot ) ] . :x a :Animal ; :near :y .",
            {"x": {"animal", "child", "human", "robot"}},
        ),
        (":near r:domain [ o:unionOf ( :Child :Robot ) ] . :x a :Animal ; :near :y .", {"x": {"animal"}}),
        (':near r:domain :Robot . :y a :Animal . :x :near "http://e.org/y" .', {"y": {"animal"}}),
        # A value that all robots have: what it is the value of follows of it, too.
        (
            ":Robot r:subClassOf [ o:onProperty :near ; o:hasValue :y ] . :near r:range :Child . :x a :Robot . "
            ":y a :Animal .",
            {"x": {"robot"}, "y": {"animal", "human", "child"}},
        ),
        (
            ':Child o:equivalentClass [ o:onProperty :near ; o:hasValue "yes" ] . :x a :Animal ; :near "yes" . '
            ":z a :Animal ; :near :yes .",
            {"x": {"animal", "human", "child"}, "z": {"animal"}},
        ),
        (
            ":Child o:intersectionOf ( :Human :Robot ) . :x a :Human , :Robot .",
            {"x": {"animal", "human", "robot", "child"}},
        ),
    ],
)
def test_what_follows_of_one_assertion(tmp_path, said, right):
    made(tmp_path, f":near a o:ObjectProperty . :next a o:ObjectProperty . {CLASSES} {said}")
    assert golds(tmp_path, "type") == right


@pytest.mark.parametrize(
    ("said", "open_"),
    [
        (":near r:domain [ o:unionOf ( :Child :Robot ) ] . :x a :Animal ; :near :y .", True),
        (":near r:domain [ o:unionOf ( :Child :Robot ) ] . :x a :Robot ; :near :y .", False),  # one of them already
        (":Human r:subClassOf [ o:onProperty :near ; o:allValuesFrom :Robot ] . :y :near :x . :x a :Animal .", True),
        (":Human r:subClassOf [ o:onProperty :near ; o:allValuesFrom :Robot ] . :y :near :x . :x a :Robot .", False),
        (":Child o:equivalentClass [ o:onProperty :near ; o:minCardinality 1 ] . :x a :Human ; :near :y .", True),
        (":Child o:equivalentClass [ o:onProperty :near ; o:minCardinality 1 ] . :x a :Human .", False),
        (":Child o:equivalentClass [ o:intersectionOf ( :Human [ o:complementOf :Robot ] ) ] . :x a :Human .", True),
        (":Child o:equivalentClass [ o:intersectionOf ( :Human [ o:complementOf :Robot ] ) ] . :x a :Animal .", False),
        (":Child r:subClassOf [ o:onProperty :near ; o:someValuesFrom :Robot ] . :x a :Human ; :near :y .", False),
    ],
)
def test_things_of_which_more_may_follow_are_counted(tmp_path, said, open_):
    built = made(tmp_path, f":near a o:ObjectProperty . {CLASSES} {said}")
    assert any("1 of 1 sampled things" in note for note in built.notes) == open_


def test_one_label_among_many_classes_hides_none_of_them(tmp_path):
    built = build_ontology(OntologyBuildOptions(input=[ONTOLOGIES / "few_labels.ttl"], out=tmp_path / "out"))
    assert len(built.classes) == 40
    assert {"maker of shoes", "glazier"} <= {entry.label for entry in built.classes}
    assert built.tasks == {"type": 29, "subClassOf": 37, "subPropertyOf": 1, "domain": 3, "range": 3}
    noted(built, ("39 of 40 classes", "--names-from-iris"))
    noted(built, ("2 of 3 properties", "--names-from-iris"))


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("uniform", "rdfs2 (3), rdfs3 (3), rdfs5 (0), rdfs7 (0), rdfs9 (4), rdfs11 (4)"),
        ("one_root", ""),
        ("few_labels", "rdfs2 (3), rdfs3 (3), rdfs5 (1), rdfs7 (1)"),
    ],
)  # fmt: skip
def test_rules_with_too_few_items_are_named(tmp_path, name, lacking):
    built = build_ontology(OntologyBuildOptions(input=[ONTOLOGIES / f"{name}.ttl"], out=tmp_path / "out"))
    notes = [note for note in built.notes if "(30 are needed)" in note]
    assert len(notes) == bool(lacking)
    assert all(note.endswith(f": {lacking}") for note in notes), notes


def test_rules_of_one_answer_show_no_use_of_memory():
    """They show whether a model combines what is stated: there all other names are nonce words."""
    answers = {"rdfs5": ["a"] * 29, "rdfs9": ["root"] * 30, "rdfs11": ["a", "b"] * 15}
    [few], [alike] = few_items(answers), one_answer(answers)
    assert few.endswith(": rdfs5 (29)")
    assert alike.endswith("one answer: rdfs9")


def test_builders_print_the_result_before_the_notes(tmp_path, fathom, monkeypatch):
    printed: list[str] = []
    monkeypatch.setattr("fathom_build.command.notes", lambda lines: printed.append("notes"))
    monkeypatch.setattr("fathom_build.command.say", lambda text: printed.append("where"))
    monkeypatch.setattr("fathom.cli.formats.PrintOptions.show", lambda self, tables: printed.append("tables"))
    code, _, err = fathom("build", "ontology", "--input", ONTOLOGIES / "uniform.ttl", "--out", tmp_path / "out")
    assert code == 0, err
    assert printed == ["tables", "where", "notes"]

"""What an ontology says in a form that no task asks for: counted by kind, each with an example."""

from __future__ import annotations

import re

import pytest

from tests.messages import correspond
from tests.probes.test_ontology_closure import CLASSES, golds, made, noted

HEAD = "@prefix f: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . @prefix k: <http://www.w3.org/2004/02/skos/core#> ."
PROPERTIES = """:p a o:ObjectProperty ; r:label "pats" ; r:domain :Human . :q a o:ObjectProperty ; r:label "quotes" ;
r:range :Human ."""


def kinds_of(built) -> list[str]:
    """Return what the note on unused statements counts."""
    [note] = [note for note in built.notes if "no task or axiom" in note]
    return re.split(r"(?<=\)), (?=\d)", note.partition(": ")[2])


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        (
            ":x a [ o:intersectionOf ( :Human :Robot ) ] . :y a [ o:unionOf ( :Human ) ] , :Robot . :z a :Robot .",
            ("2 types of things", "http://e.org/x"),
        ),
        (
            ":p r:subPropertyOf [ o:inverseOf :q ] . [ o:inverseOf :p ] r:subPropertyOf :q ; r:domain :Human .",
            ("2 statements", "inverse", "http://e.org/Human"),
        ),
        (":Human o:sameAs :Person . :r o:sameAs :p . :x o:sameAs :y .", ("2 owl:sameAs", "http://e.org/Human")),
        (
            "[ o:intersectionOf ( :Robot ) ] r:subClassOf :Human . [ o:unionOf ( :Robot ) ] r:subClassOf :Child .",
            ("1 general axioms", "http://e.org/Human"),
        ),
        (
            "[ o:intersectionOf ( :Robot ) ] r:subClassOf [ o:complementOf :Child ] .",
            ("1 general axioms", "http://e.org/Robot"),
        ),
        (
            ":Robot o:disjointWith [ o:unionOf ( :Human :Child ) ] . :Human o:disjointWith :Robot .",
            ("1 owl:disjointWith", "http://e.org/Robot"),
        ),
        (":q a o:AsymmetricProperty .", ("1 owl:AsymmetricProperty", "http://e.org/q")),
        (":p a o:IrreflexiveProperty .", ("1 owl:IrreflexiveProperty", "http://e.org/p")),
        (":p a o:FunctionalProperty .", ("1 owl:FunctionalProperty", "http://e.org/p")),
        (
            "[] a o:AllDisjointProperties ; o:members ( :q :p ) .",
            ("1 owl:AllDisjointProperties", "http://e.org/p"),
        ),
        (
            ':Robot o:deprecated "yes" . :Human o:deprecated false . :Child o:deprecated "0" .',
            ("1 owl:deprecated", "http://e.org/Robot yes"),
        ),
        (
            ":Robot r:subClassOf [ o:intersectionOf [ f:first :Child ] ] . :Human o:intersectionOf ( :Animal ) .",
            ("1 broken lists", "http://e.org/Child"),
        ),
        (
            "[] a o:AllDisjointClasses ; o:members _:a . _:a f:first :Robot ; f:rest _:b . _:b f:first :Human ; "
            "f:rest _:a .",
            ("1 broken lists", "http://e.org/Human"),
        ),
        (
            ":Human o:disjointUnionOf _:a . _:a f:rest _:b . _:b f:first :Child ; f:rest f:nil .",
            ("1 broken lists", "http://e.org/Human"),
        ),
    ],
)
def test_statements_that_nothing_comes_of(tmp_path, said, counted):
    built = made(tmp_path, f"{HEAD} {CLASSES} {PROPERTIES} {said}")
    assert correspond(kinds_of(built), counted)


def test_nothing_is_counted_where_nothing_is_left_out(tmp_path):
    built = made(
        tmp_path, f"{CLASSES} {PROPERTIES} :z a :Robot . :Human r:subClassOf [ o:intersectionOf ( :Animal ) ] ."
    )
    assert "statements that no task" not in "\n".join(built.notes)


def test_links_of_skos_and_imports_that_are_texts(tmp_path):
    built = made(
        tmp_path,
        f"""{HEAD} {CLASSES} <http://e.org/> a o:Ontology ; o:imports "http://e.org/b" . :Human k:broadMatch :Big ;
k:exactMatch :Same ; k:related :Robot . :Robot k:related :Human . [] o:targetIndividual :Human .""",
    )
    noted(
        built,
        (
            "1 owl:targetIndividual (such as http://e.org/Human), 1 skos:broadMatch (such as http://e.org/Human)",
            "1 skos:exactMatch (such as http://e.org/Human), 2 skos:related (such as http://e.org/Human)",
        ),
        ("texts", '1 owl:imports (such as http://e.org/ "http://e.org'),
    )


def test_descriptions_have_an_example_wherever_they_stand(tmp_path):
    """In a type, below a named class, within another description, and in none that has an IRI."""
    built = made(
        tmp_path,
        f"""{CLASSES} :x a [ o:onProperty :p ; o:hasValue :y ] . [ o:minCardinality 2 ] r:subClassOf :Robot .
:Child r:subClassOf [ o:allValuesFrom [ o:complementOf :Robot ] ] . [] o:oneOf ( :x :y ) .
[] o:someValuesFrom :Human . :Robot o:equivalentClass [ o:intersectionOf ( :Human [ o:unionOf ( :Child ) ] ) ] .""",
    )
    examples = {"allValuesFrom": "of http://e.org/Child", "complementOf": "of http://e.org/Child",
                "hasValue": "of http://e.org/x", "minCardinality": "of http://e.org/Robot",
                "oneOf": "of what has no IRI", "someValuesFrom": "with http://e.org/Human",
                "unionOf": "of http://e.org/Robot"}  # fmt: skip
    noted(built, tuple(f"1 owl:{name} (such as {example})" for name, example in examples.items()))


def test_an_intersection_that_is_equivalent_to_a_class_either_way(tmp_path):
    made(tmp_path, f"{CLASSES} [ o:intersectionOf ( :Child [ o:complementOf :Robot ] ) ] o:equivalentClass :Robot .")
    assert golds(tmp_path, "subClassOf")["robot"] == {"child", "human", "animal"}

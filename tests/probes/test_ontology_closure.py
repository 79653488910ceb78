"""What ``fathom build ontology`` makes of an ontology's logic, labels and syntaxes; each answer worked out by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.prompts.axioms import axiom_items
from fathom.data.prompts.entailment import items
from fathom_build.choices import build_choices
from fathom_build.ontology import build_ontology, ontology_tables
from fathom_build.ontology.intake import is_code, words_in_name
from fathom_build.options import ChoicesBuildOptions, OntologyBuildOptions
from tests.build.test_ontology_build import HEAD, contents, lines_of, server, solutions, store_of
from tests.messages import correspond, mentioned, mentions, stated

pyoxigraph = pytest.importorskip("pyoxigraph")

CLASSES = """
:Animal a o:Class ; r:label "animal" . :Human a o:Class ; r:label "human" ; r:subClassOf :Animal .
:Robot a o:Class ; r:label "robot" . :Child a o:Class ; r:label "child" ; r:subClassOf :Human .
"""


def made(folder: Path, text: str, name: str = "own.ttl", head: str = HEAD, **options):
    (folder / name).write_text(head + text, encoding="utf-8")
    return build_ontology(OntologyBuildOptions(input=[folder / name], out=folder / "out", **options))


def golds(folder: Path, task: str) -> dict[str, set[str]]:
    """Right answers by what is asked."""
    return {
        row["uuu"] if isinstance(row["uuu"], str) else next(iter(row["uuu"])): set(row["xxx"])
        for row in lines_of(folder / "out", task)
    }


def noted(built, *notes: str | tuple[str, ...]) -> None:
    for parts in notes:
        assert stated(built.notes, parts), built.notes


# Domains and ranges


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("r:domain :Human , :Animal", {"human"}),  # both hold: the finer
        ("r:domain :Human , :Robot", {"human", "robot"}),  # both hold, and neither says the other
        ("r:domain [ o:intersectionOf ( :Animal :Child ) ]", {"child"}),
        ("r:domain [ o:unionOf ( :Human :Robot ) ]", {"human", "robot"}),
        ("r:domain [ o:unionOf ( :Human :Animal :Robot ) ]", {"animal", "robot"}),  # a human is an animal
        ("r:domain [ o:unionOf ( :Human [ o:unionOf ( :Robot ) ] ) ]", {"human", "robot"}),
        ("r:domain :Animal , [ o:unionOf ( :Human :Child ) ]", {"human"}),  # a human or child is an animal
        ("r:domain :Animal , [ o:unionOf ( :Human :Robot ) ]", {"animal"}),  # for sure an animal; the rest is open
        ("r:domain [ o:intersectionOf ( :Child [ o:unionOf ( :Human :Robot ) ] ) ]", {"child"}),
        ("r:domain [ o:unionOf ( :Human :Child ) ] , [ o:unionOf ( :Animal :Human ) ]", {"human"}),
        # Of a human or something outside the list nothing follows: only "animal", which is stated beside it.
        ("r:domain :Animal , [ o:unionOf ( :Human :Alien ) ]", {"animal"}),
        ("r:domain [ o:unionOf ( :Human :Baby ) ]", {"human"}),  # which has no label, but is a child
        ("r:domain [ o:unionOf ( :Robot :Baby ) ]", {"robot", "child"}),
        ("r:domain :Animal , [ o:unionOf ( :Human [ o:complementOf :Robot ] ) ]", {"animal"}),
        ("r:domain :Human , [ o:unionOf ( o:Thing :Child ) ]", {"human"}),
        ("s:domainIncludes :Human , :Animal", {"animal"}),  # one of them holds: the wider
        ("s:domainIncludes :Human , :Robot", {"human", "robot"}),
        ("h:domainIncludes :Child , :Robot , :Human", {"human", "robot"}),
        ("r:domain :Human ; s:domainIncludes :Robot", {"human"}),  # what is stated comes first
    ],
)
def test_domains(tmp_path, said, right):
    schemas = "@prefix s: <https://schema.org/> . @prefix h: <http://schema.org/> ."
    schemas += " :Baby a o:Class ; r:subClassOf :Child ."
    built = made(tmp_path, f'{schemas} {CLASSES} :p a o:ObjectProperty ; r:label "touches" ; {said} .')
    assert golds(tmp_path, "domain") == {"touches": right}
    assert set(built.properties[0].domains) == right
    written = json.loads((built.out / "ontology/property.json").read_text())[0]["rdfs:domain"]
    assert {written} == right if isinstance(written, str) else set(written) == right
    asked = next(query for query in read(built.out).queries if query.relation == "domain")
    assert set(asked.gold) == right


@pytest.mark.parametrize(
    ("said", "alternatives"),
    [
        ("r:domain :Human", False),
        ("r:domain :Human , :Robot", False),  # both hold
        ("r:domain [ o:unionOf ( :Human :Animal ) ]", False),  # an animal in any case
        ("r:domain [ o:unionOf ( :Human :Robot ) ]", True),
        ("<https://schema.org/domainIncludes> :Human , :Alien", True),  # of a human, or of something outside the list
        ("r:domain :Animal , [ o:unionOf ( :Human :Robot ) ]", False),
        ("<https://schema.org/domainIncludes> :Human , :Robot", True),
    ],
)
def test_of_a_union_no_part_is_entailed(tmp_path, said, alternatives):
    """From "p(x, y)" and "p's domain is human or robot" neither follows: such items are left out, and counted."""
    built = made(tmp_path, f'{CLASSES} :p a o:ObjectProperty ; r:label "touches" ; {said} ; r:range :Robot .')
    [entry] = json.loads((built.out / "ontology/property.json").read_text())
    assert entry["one_of"] == (["domain"] if alternatives else [])
    patterns = {side: {"touches": "[X] touches [Y] ."} for side in ("domain", "range")}
    for rule, expected in (("rdfs2", alternatives), ("rdfs3", False)):
        found, left_out = items(read(built.out), patterns, rule)
        assert (len(found), len(left_out)) == ((0, 1) if expected else (1, 0))
        assert all("one of several classes" in line for line in left_out)
    asked = build_choices(ChoicesBuildOptions(data=str(built.out), out=tmp_path / "choices", options=2, subset="train"))
    assert [count for name, count in asked.counts.items() if "left out of rdfs2 " in name] == [1] * alternatives
    assert ("reasoning/rdfs2-22" in asked.counts) != alternatives
    # A folder that does not say: several classes are alternatives, one is none.
    del entry["one_of"]
    (built.out / "ontology/property.json").write_text(json.dumps([entry]))
    several = len(next(query.gold for query in read(built.out).queries if query.relation == "domain")) > 1
    assert len(items(read(built.out), patterns, "rdfs2")[0]) == (0 if several else 1)


@pytest.mark.parametrize(
    "part",
    [
        ":Alien",  # nothing says that it is a class
        ":Bare",  # without a label, and wider than "human"
        ":Old",  # deprecated, and no human
        "[ o:complementOf :Robot ]",
        "[ o:unionOf ( :Robot [ o:intersectionOf ( :Child :Robot ) ] ) ]",
    ],
)
def test_a_union_with_a_part_that_is_left_out_has_no_answer(tmp_path, part):
    built = made(
        tmp_path,
        f"""{CLASSES} :Bare a o:Class . :Human r:subClassOf :Bare . :Old a o:Class ; r:label "old" ; o:deprecated true .
:p a o:ObjectProperty ; r:label "pats" ; r:range :Robot ; r:domain [ o:unionOf ( :Human {part} ) ] .
:q a o:ObjectProperty ; r:label "quotes" ; r:range [ o:unionOf ( [ o:complementOf :Robot ] ) ] .""",
    )
    assert built.tasks["domain"] == 0
    assert golds(tmp_path, "range") == {"pats": {"robot"}}
    also = ", robot" if "Child" in part else ""
    noted(
        built,
        ("2 domains or ranges", "unions", f"p (domain: human{also}), q (range: no ot"),
    )


def test_what_is_included_of_the_inverse_counts_where_no_own_class_is_there(tmp_path):
    made(
        tmp_path,
        f"""{CLASSES} @prefix s: <https://schema.org/> .
:p a o:ObjectProperty ; r:label "pats" ; s:domainIncludes :Alien ; s:inverseOf :q .
:q a o:ObjectProperty ; r:label "is patted by" ; s:rangeIncludes :Human .""",
    )
    assert golds(tmp_path, "domain") == {"pats": {"human"}}


def test_a_union_whose_list_is_broken_has_no_answer(tmp_path):
    """Of a list without an end, of one that comes back to itself, and of one with an empty place."""
    head = "@prefix f: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> ."
    lists = """_:a f:first :Human . _:b f:first :Human ; f:rest _:c . _:c f:first :Robot ; f:rest _:b .
_:d f:first :Human ; f:rest _:e . _:e f:rest f:nil . _:f f:first :Human ; f:rest f:nil ."""
    properties = " ".join(
        f":{name} a o:ObjectProperty ; r:label '{name}{name}' ; r:domain [ o:unionOf _:{name} ] ." for name in "abdf"
    )
    built = made(tmp_path, f"{head} {CLASSES} {lists} {properties}")
    assert golds(tmp_path, "domain") == {"ff": {"human"}}
    noted(built, "a (domain: human), b (domain: human, robot), d (domain: human)")


def test_unions_of_which_none_is_within_the_other_have_no_one_answer(tmp_path):
    unions = "[ o:unionOf ( :Human :Robot ) ] , [ o:unionOf ( :Robot :Plant ) ]"
    built = made(
        tmp_path,
        f"{CLASSES} :Plant a o:Class ; r:label 'plant' ."
        f":p a o:ObjectProperty ; r:label 'touches' ; r:domain {unions} ; r:range :Robot .",
    )
    assert built.tasks["domain"] == 0
    noted(built, ("1 domains or ranges", "p (domain: human, robot, plant)"))


def test_unions_with_everything_say_nothing(tmp_path):
    said = "r:domain [ o:unionOf ( o:Thing :Human ) ] ; r:range :Robot , [ o:unionOf ( :Alien :Ghost ) ]"
    built = made(tmp_path, f"{CLASSES} :p a o:ObjectProperty ; r:label 'touches' ; {said} .")
    assert built.tasks["domain"] == 0
    noted(built, ("1 domains or ranges", "unions with owl:Thing", "http://e.org/p"))
    noted(built, ("2 classes", "domain or range", "http://e.org/Alien, http://e.org/G"))
    assert golds(tmp_path, "range") == {"touches": {"robot"}}
    assert "several classes" not in "\n".join(built.notes)


def test_unions_of_two_files_are_not_mixed(tmp_path):
    """Both files call their blank nodes alike."""
    r, o = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2002/07/owl#"
    rdf, e = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://e.org/"
    for name, part in (("p", "Human"), ("q", "Robot")):
        (tmp_path / f"{name}.nt").write_text(
            f"<{e}{name}> <{r}domain> _:u .\n_:u <{o}unionOf> _:l .\n"
            f"_:l <{rdf}first> <{e}{part}> .\n_:l <{rdf}rest> <{rdf}nil> .\n",
            encoding="utf-8",
        )
    named = ":p a o:ObjectProperty ; r:label 'pats' . :q a o:ObjectProperty ; r:label 'quotes' ."
    (tmp_path / "c.ttl").write_text(f"{HEAD}{CLASSES}{named}", encoding="utf-8")
    build_ontology(OntologyBuildOptions(input=[tmp_path], out=tmp_path / "out"))
    assert golds(tmp_path, "domain") == {"pats": {"human"}, "quotes": {"robot"}}


def test_what_is_stated_of_a_property_holds_below_it(tmp_path):
    """scm-dom2 and scm-rng2, by hand."""
    made(
        tmp_path,
        f"""{CLASSES} @prefix s: <https://schema.org/> .
:meets a o:ObjectProperty ; r:label "meets" ; r:domain :Animal ; r:range :Human .
:greets a o:ObjectProperty ; r:label "greets" ; r:subPropertyOf :meets ; r:domain :Human .
:hugs a o:ObjectProperty ; r:label "hugs" ; r:subPropertyOf :greets ; r:range :Animal .
:by a o:ObjectProperty ; r:label "hugged by" ; o:inverseOf :hugs .
:odd a o:ObjectProperty ; r:label "odd" ; r:subPropertyOf :greets , :builds ; s:domainIncludes :Child .
:builds a o:ObjectProperty ; r:label "builds" ; r:domain :Robot ; s:rangeIncludes :Robot .
:makes a o:ObjectProperty ; r:label "makes" ; r:subPropertyOf :builds .
""",
    )
    assert golds(tmp_path, "domain") == {
        "meets": {"animal"},
        "greets": {"human"},  # finer than the animal that it inherits
        "hugs": {"human"},
        "hugged by": {"human"},  # the range that hugs has by meets, two steps above
        "odd": {"human", "robot"},  # all that is stated holds together, before what is included
        "builds": {"robot"},
        "makes": {"robot"},
    }
    assert golds(tmp_path, "range") == {
        "meets": {"human"},
        "greets": {"human"},
        "hugs": {"human"},  # finer than its own
        "hugged by": {"human"},
        "odd": {"human"},
        "builds": {"robot"},  # included: not inherited by makes
    }


def test_what_has_no_label_or_is_deprecated_is_passed_through(tmp_path):
    """scm-dom1 by the class, scm-spo and scm-dom2 by the property."""
    built = made(
        tmp_path,
        f"""{CLASSES} :Bare a o:Class ; r:subClassOf :Human .
:Old a o:Class ; r:label "old" ; r:subClassOf :Robot ; o:deprecated true .
:p a o:ObjectProperty ; r:label "pats" ; r:domain :Bare ; r:range :Old .
:both a o:ObjectProperty ; r:label "both" ; r:domain :Robot , :Bare .
:new a o:ObjectProperty ; r:label "new" ; r:subPropertyOf :gone .
:gone a o:ObjectProperty ; r:label "gone" ; o:deprecated true ; r:domain :Child ; r:subPropertyOf :top .
:top a o:ObjectProperty ; r:label "top" ; r:range :Animal .
:near a o:SymmetricProperty ; r:label "near" ; r:domain :Robot .
""",
    )
    domains = {"pats": {"human"}, "both": {"robot", "human"}, "new": {"child"}, "near": {"robot"}}
    assert golds(tmp_path, "domain") == domains
    assert golds(tmp_path, "range") == {"pats": {"robot"}, "new": {"animal"}, "top": {"animal"}, "near": {"robot"}}
    assert golds(tmp_path, "subPropertyOf") == {"new": {"top"}}
    noted(built, ("1 properties", "deprecated", "http://e.org/gone"))


def test_unions_with_what_is_everything_say_nothing(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} o:Thing r:subClassOf :Wide . :Wide a o:Class ; r:label "wide" .
:p a o:ObjectProperty ; r:label "pats" ; r:domain [ o:unionOf ( :Human :Wide ) ] ; r:range :Human .""",
    )
    assert golds(tmp_path, "range") == {"pats": {"human"}}
    assert built.tasks["domain"] == 0
    noted(built, ("1 domains or ranges", "unions with owl:Thing", "http://e.org/p"))


def test_inverses_lend_each_other_their_sides(tmp_path):
    made(
        tmp_path,
        f"""{CLASSES} @prefix s: <https://schema.org/> .
:has a o:ObjectProperty ; r:label "has part" ; r:range :Child ; r:subPropertyOf :touches .
:of a o:ObjectProperty ; r:label "part of" ; o:inverseOf :has ; r:domain :Human .
:touches a o:ObjectProperty , o:SymmetricProperty ; r:label "touches" ; r:domain :Animal .
:own a o:ObjectProperty ; r:label "beside" ; o:inverseOf :own ; r:range :Robot .
:made a o:ObjectProperty ; r:label "made" ; s:rangeIncludes :Robot ; s:domainIncludes :Human .
:maker a o:ObjectProperty ; r:label "maker" ; s:inverseOf :made .
""",
    )
    # "part of" has Human for itself and Child from its inverse: both hold, so the finer. What has a part touches
    # it, and whatever touches or is touched is an animal.
    assert golds(tmp_path, "domain") == {
        "has part": {"animal"},
        "part of": {"child"},
        "touches": {"animal"},
        "beside": {"robot"},
        "made": {"human"},
        "maker": {"robot"},
    }
    assert golds(tmp_path, "range") == {
        "has part": {"child"},
        "touches": {"animal"},
        "beside": {"robot"},
        "made": {"robot"},
        "maker": {"human"},
        "part of": {"animal"},
    }
    # What has a part touches it; touching goes both ways, so does what is a part.
    assert golds(tmp_path, "subPropertyOf") == {"has part": {"touches"}, "part of": {"touches"}}


def test_inverses_of_inverses_are_one(tmp_path):
    """p is the inverse of q, which is that of r: p and r are one. What is symmetric is its inverse's equal."""
    built = made(
        tmp_path,
        f"""{CLASSES} @prefix x: <http://elsewhere.org/> .
:p a o:ObjectProperty ; r:label "pats" ; o:inverseOf :q ; r:domain :Human .
:q a o:ObjectProperty ; r:label "is patted by" ; r:range :Child .
:rr a o:ObjectProperty ; r:label "strokes" ; r:range :Robot . :q o:inverseOf :rr .
:s a o:SymmetricProperty ; r:label "sees" ; r:domain :Animal . :seen a o:ObjectProperty ; o:inverseOf :s .
:t a o:ObjectProperty ; r:label "takes" ; o:equivalentProperty :tt , x:t , x:none . :tt a o:ObjectProperty ;
r:label "takes up" ; o:equivalentProperty :ttt ; r:range :Human . :ttt a o:ObjectProperty ; r:label "takes on" .
:u a o:ObjectProperty ; r:label "uses" ; o:equivalentProperty :ttt . x:t a o:ObjectProperty .""",
    )
    assert [found.label for found in built.properties] == ["pats", "is patted by", "sees", "takes"]
    assert golds(tmp_path, "domain") == {"pats": {"child"}, "is patted by": {"robot"}, "sees": {"animal"}}
    assert golds(tmp_path, "range") == {
        "pats": {"robot"},
        "is patted by": {"child"},
        "sees": {"animal"},
        "takes": {"human"},
    }
    axioms = json.loads((built.out / "ontology/axioms.json").read_text())
    assert axioms["inverse"] == [["is patted by", "pats"]]
    assert axioms["symmetric"] == ["sees"]
    noted(
        built,
        ("2 properties", "inverse", "rr (p), seen"),
        ("3 properties", "equivalent", "u (t), tt (t), ttt (t)"),
        ("1 names in owl:equivalentProperty (P1628)", "http://e"),
    )
    counted = dict(ontology_tables(built)[0].rows)
    assert counted["  aligned with another vocabulary"] == 1
    assert counted["  equivalent to another of their own"] == 3


def test_inverses_through_what_is_deprecated(tmp_path):
    """:old stays apart, and is above and below :p, which is its equal."""
    built = made(
        tmp_path,
        f"""{CLASSES} :p a o:ObjectProperty ; r:label "pats" ; o:inverseOf :q .
:q a o:ObjectProperty ; r:label "is patted by" ; o:inverseOf :old , :nowhere .
:old a o:ObjectProperty ; r:label "old" ; o:deprecated true ; r:domain :Human ; r:subPropertyOf :top .
:top a o:ObjectProperty ; r:label "touches" .""",
    )
    assert golds(tmp_path, "domain") == {"pats": {"human"}}
    assert golds(tmp_path, "range") == {"is patted by": {"human"}}
    assert golds(tmp_path, "subPropertyOf") == {"pats": {"touches"}}
    assert "cycle" not in "\n".join(built.notes)
    noted(
        built,
        ("1 names in owl:inverseOf", "owl:ObjectProperty", "rdf:Property", "http://e.org/nowhere"),
        ("1 properties", "axioms", "http://e.org/old"),
    )


def test_axioms_of_properties_that_stand_in_no_task(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} :p a o:TransitiveProperty ; r:label "part of" . :q a o:SymmetricProperty ; r:label "near" .
:has a o:ObjectProperty ; r:label "has" ; o:inverseOf :of . :of a o:ObjectProperty ; r:label "of" .
:loose a o:ObjectProperty ; r:label "loose" . :bare a o:TransitiveProperty . :age a o:DatatypeProperty ,
o:TransitiveProperty . :Human o:disjointWith :Robot , :Elsewhere .""",
    )
    axioms = json.loads((built.out / "ontology/axioms.json").read_text())
    assert axioms == {
        "inverse": [["has", "of"]],
        "symmetric": ["near"],
        "transitive": ["part of"],
        "disjoint": [["human", "robot"]],
    }
    assert [found.label for found in built.properties] == ["part of", "near", "of", "has"]
    assert read_patterns(built.out)["property"]["near"] == "[X]'s near is [Y] ."
    [item] = axiom_items(read(built.out), read_patterns(built.out), "symmetric", ["near"])
    assert item.gold == "'s near is"
    noted(
        built,
        ("2 properties", "axioms", "http://e.org/age, http://e.org/bare"),
        ("1 names in owl:disjointWith", "http://e.org/Elsewhere"),
        ("1 properties", "no domain", "loose"),
    )


# Hierarchies


def test_equivalent_classes_are_above_each_other_and_share_what_is_above(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} @prefix x: <http://elsewhere.org/> .
:Person a o:Class ; r:label "person" ; o:equivalentClass :Human ; r:subClassOf :Human .
:Man a o:Class ; r:label "man" ; r:subClassOf :Person .
:Droid a o:Class ; r:label "droid" ; o:equivalentClass x:Robot . x:Robot o:equivalentClass :Robot .
:p a o:ObjectProperty ; r:label "feeds" ; r:domain :Person .
""",
    )
    assert golds(tmp_path, "subClassOf") == {
        "human": {"animal", "person"},
        "person": {"animal", "human"},
        "child": {"human", "person", "animal"},
        "man": {"person", "human", "animal"},
        "droid": {"robot"},
        "robot": {"droid"},
    }
    assert golds(tmp_path, "domain") == {"feeds": {"person", "human"}}  # neither name is wrong
    assert "cycle" not in "\n".join(built.notes)
    noted(
        built,
        ("1 names in owl:equivalentClass", "http://els"),
    )


def test_a_cycle_through_an_equivalence_is_named(tmp_path):
    built = made(tmp_path, f"{CLASSES} :Robot o:equivalentClass :Child . :Animal r:subClassOf :Robot .")
    noted(built, ("cycle", "animal → child → human → animal;"))


def test_definitions_give_super_classes(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES}
:Some a o:Restriction ; o:onProperty :p ; o:someValuesFrom :Robot .
:Cyborg a o:Class ; r:label "cyborg" ; o:equivalentClass
  [ o:intersectionOf ( :Robot [ o:intersectionOf ( :Human [ o:onProperty :p ; o:someValuesFrom :Robot ] ) ] ) ] .
:Girl a o:Class ; r:label "girl" ; r:subClassOf [ o:intersectionOf ( :Child [ o:complementOf :Robot ] ) ] .
:Boy a o:Class ; r:label "boy" ; o:intersectionOf ( :Child :Male ) . :Male a o:Class ; r:label "male" .
:Agent a o:Class ; r:label "agent" ; o:equivalentClass [ o:unionOf ( :Animal :Robot ) ] .
:Thing2 a o:Class ; r:label "body" ; o:disjointUnionOf ( :Animal :Plant ) . :Plant a o:Class ; r:label "plant" .
:Fungus a o:Class ; r:label "fungus" ; r:subClassOf [ o:unionOf ( :Animal :Plant ) ] .
[ o:unionOf ( :Fungus :Plant ) ] r:subClassOf :Rooted . :Rooted a o:Class ; r:label "rooted" .
""",
    )
    animal = {"animal", "agent", "body"}
    assert golds(tmp_path, "subClassOf") == {
        "animal": {"agent", "body"},
        "human": animal,
        "child": {"human"} | animal,
        "robot": {"agent"},
        "cyborg": {"robot", "human"} | animal,
        "girl": {"child", "human"} | animal,
        "boy": {"child", "male", "human"} | animal,
        "plant": {"body", "rooted"},
        "fungus": {"rooted"},  # below an animal or a plant: which of them is open
    }
    noted(
        built,
        (
            "1 owl:complementOf (such as of http://e.org/Girl)",
            "1 owl:someValuesFrom (such as of http://e.org/Cyborg)",
            "1 owl:unionOf (such as of http://e.org/Fungus)",
        ),
    )


def test_all_that_a_sampled_thing_is_stated_to_be_is_right(tmp_path):
    things = "".join(f":xer{n} a :Child , :Robot , :Loose , :Bare .\n" for n in range(5))
    things += "".join(f":yak{n} a :Robot .\n" for n in range(40))
    bare = ":Bare a o:Class ; r:subClassOf :Old . :Old a o:Class ; r:label 'old' ."
    built = made(tmp_path, CLASSES + bare + things, instances=2)
    # Two children and two robots (of 45) are drawn; whichever they are, x is all of these and y is a robot alone.
    asked = golds(tmp_path, "type")
    assert sum(name.startswith("x") for name in asked) >= 2
    assert {2} == {len(found.instances) for found in built.classes if found.label in ("child", "robot")}
    for name, right in asked.items():
        assert right == ({"child", "human", "animal", "robot", "old"} if name.startswith("x") else {"robot"})
    assert any(name.startswith("y") for name in asked)  # so a drawn x was no robot by the draw alone
    noted(built, ("1 names", "instances", "owl:Class", "rdfs:Class", "http://e.org/Loose (5)"))


def test_what_is_the_same_is_of_the_same_classes(tmp_path):
    same = ":x a :Child ; o:sameAs :y . :z o:sameAs :y ; a :Robot ; r:label 'zed' . :w a :Robot ."
    made(tmp_path, CLASSES + same)
    both = {"child", "human", "animal", "robot"}  # of y nothing is stated, but it links x and z
    assert golds(tmp_path, "type") == {"x": both, "zed": both, "w": {"robot"}}


def test_what_is_labelled_alike_is_right_of_what_is_below_either(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} :Zombie a o:Class ; r:label "zombie" ; r:subClassOf :Twin . :z a :Twin , :Zombie .
:Twin a o:Class ; r:label "human" ; r:subClassOf :Human , :Robot .""",
    )
    noted(built, ("1 classes", "'human' (http://e.org/Twin, not http://e.org/H"))
    assert golds(tmp_path, "subClassOf") == {
        "human": {"animal"},
        "child": {"human", "animal"},
        "zombie": {"human", "robot", "animal"},
    }
    assert golds(tmp_path, "type") == {"z": {"zombie", "human", "robot", "animal"}}


# What is odd


def test_classes_that_are_everything_or_nothing_are_said(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} :All a o:Class ; r:label "all" ; o:equivalentClass o:Thing . :Robot r:subClassOf o:Thing .
:None a o:Class ; r:label "none" ; o:equivalentClass o:Nothing . :Unicorn a o:Class ; r:label "unicorn" ;
r:subClassOf o:Nothing . :Whole a o:Class ; r:label "whole" . :All r:subClassOf :Whole . :Human r:subClassOf :All .""",
    )
    noted(
        built,
        ("2 classes", "(owl:Thing)", "http://e.org/All, http://e.org/Whole"),
    )
    assert "all" not in {found.label for found in built.classes}
    noted(built, ("2 classes", "(owl:Nothing)", "http://e.org/None, http://e.org/Unicorn"))
    assert golds(tmp_path, "subClassOf") == {"human": {"animal"}, "child": {"human", "animal"}}


def test_classes_below_two_disjoint_ones_are_named(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
:Robot o:disjointWith :Animal . :Cyborg a o:Class ; r:label "cyborg" ; r:subClassOf :Robot , :Child .
[] a o:AllDisjointClasses ; o:members ( :Red :Green :Blue ) .
:Red a o:Class ; r:label "red" . :Green a o:Class ; r:label "green" . :Blue a o:Class ; r:label "blue" .
:Teal a o:Class ; r:label "teal" ; r:subClassOf :Green , :Blue . :Rust a o:Class ; r:label "rust" ; r:subClassOf :Red .
""",
    )
    noted(built, ("2 classes", "disjoint", "cyborg (robot, animal), teal (blue, green)"))


def test_things_of_disjoint_classes_are_named(tmp_path):
    text = (
        ":Animal o:disjointWith :Robot . :Robby a :Child , :Robot ; r:label 'Robby' . :Ann a :Human ; r:label 'Ann' ."
    )
    built = made(tmp_path, CLASSES + text)
    noted(built, ("1 sampled instances", "disjoint", "Robby (animal, robot)"))
    assert built.tasks["type"] == 2


def test_what_is_left_out_is_counted_by_kind(tmp_path):
    built = made(
        tmp_path,
        f"""{CLASSES} @prefix s: <https://schema.org/> . @prefix x: <http://www.w3.org/2001/XMLSchema#> .
:Faun a o:Class ; r:label "faun" ; r:subClassOf :Animal ; o:deprecated true .
:Kid a o:Class ; r:label "kid" ; r:subClassOf :Faun ; o:deprecated false .
:Gnome a o:DeprecatedClass , o:Class ; r:label "gnome" . :Elf a o:Class ; r:label "elf" ; s:supersededBy :Human .
:old a o:ObjectProperty , o:DeprecatedProperty ; r:label "old" ; r:domain :Human .
:p a o:ObjectProperty ; r:label "touches" ; r:domain "Human" , :Robot ; r:range :Human .
:p o:propertyChainAxiom ( :p :p ) .
:Child r:subClassOf "animal"@en . :x o:sameAs :y . :x a "robot" . :age a o:DatatypeProperty ; r:label "age" .
""",
    )
    # Chains pass through what is deprecated.
    assert golds(tmp_path, "subClassOf") == {"human": {"animal"}, "child": {"human", "animal"}, "kid": {"animal"}}
    assert golds(tmp_path, "domain") == {"touches": {"robot"}}
    noted(
        built,
        ("3 classes", "deprecated", "http://e.org/Elf, http://e.org/Faun, http://e.org/Gnome"),
        ("1 properties", "deprecated", "http://e.org/old"),
        (
            '1 rdf:type (such as http://e.org/x "robot")',
            '1 rdfs:domain (such as http://e.org/p "Human")',
            '1 rdfs:subClassOf (such as http://e.org/Child "animal"@en)',
        ),
        ("not read", "1 owl:propertyChainAxiom (such as http://e.org/p)"),
        ("1 properties", "owl:DatatypeProperty", "http://e.org/age"),
    )
    assert json.loads((built.out / "manifest.json").read_text())["notes"] == built.notes


def test_imports_are_looked_for_among_the_files(tmp_path):
    for name, text in {
        "a": "<http://e.org/a> a o:Ontology ; o:imports <http://e.org/b/1.0> , <http://e.org/c.ttl>, <http://e.org/d>.",
        "b": "<http://e.org/b> a o:Ontology ; o:versionIRI <http://e.org/b/1.0> ; o:imports <http://e.org/a#> .",
        "c": CLASSES,
    }.items():
        (tmp_path / f"{name}.ttl").write_text(HEAD + text, encoding="utf-8")
    built = build_ontology(OntologyBuildOptions(input=[tmp_path], out=tmp_path / "out"))
    noted(built, ("1 ontologies", "--input", "http://e.org/d"))
    noted(built, ("imports", "http://e.org/a → http://e.org/b → http://e.org/a;"))


# Labels

PIZZA = """
@prefix k: <http://www.w3.org/2004/02/skos/core#> .
:CheesyPizza a o:Class ; r:label "PizzaComQueijo"@pt , "Käsepizza"@de-AT ; k:prefLabel "Cheesy Pizza"@en .
:ThinBase a o:Class ; r:label "thin base"@en , "ThinBase" , "base fina"@pt ; r:subClassOf :CheesyPizza .
:hasDNA_base a o:ObjectProperty ; r:domain :CheesyPizza .
"""


def labels(folder: Path, text: str = PIZZA, **naming):
    folder.mkdir()
    return made(folder, text, **naming)


def test_language_and_label_property(tmp_path):
    usual = labels(tmp_path / "a")
    assert [found.label for found in usual.classes] == ["Cheesy Pizza", "thin base"]
    german = labels(tmp_path / "b", language="de")  # Austrian is German; what has no language serves, too
    assert [found.label for found in german.classes] == ["Käsepizza", "ThinBase"]
    portuguese = labels(tmp_path / "c", language="pt")
    assert [found.label for found in portuguese.classes] == ["PizzaComQueijo", "base fina"]
    preferred = labels(tmp_path / "d", label_property=("skos:prefLabel",), names_from_iris=True)
    assert [found.label for found in preferred.classes] == ["Cheesy Pizza", "thin base"]
    assert preferred.from_iris == ["thin base", "has DNA base"]  # not from rdfs:label, which is not asked
    manifest = json.loads((preferred.out / "manifest.json").read_text())
    assert manifest["labels_from_iris"] == ["has DNA base", "thin base"]
    assert manifest["labels"] == {"language": "en", "properties": ["http://www.w3.org/2004/02/skos/core#prefLabel"]}
    noted(preferred, ("1 of 2 classes", "end of their IRI", "--names-from-iris", "thin base"))


def test_label_properties_that_are_nowhere_are_named(tmp_path):
    built = made(tmp_path, CLASSES, label_property=("rdfs:lable", "rdfs:label"))
    noted(built, ("1 label properties", "http://www.w3.org/2000/01/rdf-sc"))


def test_of_two_label_properties_the_first_counts(tmp_path):
    text = PIZZA + ':CheesyPizza r:label "cheesy"@en .'
    assert labels(tmp_path / "a", text).classes[0].label == "cheesy"
    turned = ("skos:prefLabel", "http://www.w3.org/2000/01/rdf-schema#label")
    assert labels(tmp_path / "b", text, label_property=turned).classes[0].label == "Cheesy Pizza"


def test_ends_of_iris_name_what_nothing_names(tmp_path):
    """If most classes, or properties, have no label, it is done without the option, but never with identifiers."""
    text = (
        ":CheesyPizza a o:Class ; r:subClassOf :thin-crust_Food . :thin-crust_Food a o:Class . :GO_0008150 a o:Class ."
    )
    built = labels(tmp_path / "a", text)
    assert golds(tmp_path / "a", "subClassOf") == {"cheesy pizza": {"thin crust food"}}
    noted(built, ("2 of 3 classes", "end of their IRI", "--names-from-iris", "cheesy pizza, thin crust food"))
    noted(built, ("1 of 3 classes", "rdfs:label", "skos:prefLabel", "@en"))
    text += ' :CheesyPizza r:label "pizza"@en ; r:subClassOf :Food . :Food a o:Class ; r:label "food" .'
    other = labels(tmp_path / "b", text + ' :GO_0008150 r:label "Leben"@de .')
    assert [found.label for found in other.classes] == ["pizza", "food"]
    noted(
        other,
        ("2 of 4 classes", "--names-from-iris"),
        ("other languages", "de (1)", "--language de"),
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CheesyPizza", "cheesy pizza"),
        ("hasDNASequence", "has DNA sequence"),
        ("part_of", "part of"),
        ("Class2Point", "class2 point"),
        ("Q5", ""),
        ("GO_0008150", ""),
        ("ÜberGang", "über gang"),
    ],
)
def test_words_in_names(name, words):
    assert words_in_name(name) == words


# Wikidata's classes, and concepts


def test_wikidatas_instances_and_classes(tmp_path):
    built = made(
        tmp_path,
        """@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix b: <http://wikiba.se/ontology#> .
wd:Q42 r:label "Douglas Adams"@en ; wdt:P31 wd:Q5 . wd:Q5 r:label "human"@en ; wdt:P279 wd:Q215627 .
wd:Q215627 r:label "person"@en . wd:Q9 r:label "property about people"@en .
wd:P22 b:propertyType b:WikibaseItem ; r:label "father"@en ; wdt:P31 wd:Q9 .
""",
    )
    assert [found.label for found in built.classes] == ["person", "human"]  # Q9 is about Wikidata's own properties
    assert golds(tmp_path, "type") == {"Douglas Adams": {"human", "person"}}
    assert golds(tmp_path, "subClassOf") == {"human": {"person"}}


def test_concepts_are_classes(tmp_path):
    made(
        tmp_path,
        """@prefix k: <http://www.w3.org/2004/02/skos/core#> .
:dog a k:Concept ; k:prefLabel "dog"@en , "Hund"@de ; k:broader :mammal .
:mammal a k:Concept ; k:prefLabel "mammal"@en .
:animal k:prefLabel "animal"@en ; k:narrower :mammal , :bird . :bird a k:Concept ; k:prefLabel "bird"@en .
""",
    )
    assert golds(tmp_path, "subClassOf") == {
        "dog": {"mammal", "animal"},
        "mammal": {"animal"},
        "bird": {"animal"},
    }


# Syntaxes

SYNTAXES = {
    "nt": "N_TRIPLES",
    "ttl": "TURTLE",
    "rdf": "RDF_XML",
    "nq": "N_QUADS",
    "trig": "TRIG",
    "n3": "N3",
    "jsonld": "JSON_LD",
}
WHOLE = f"""{HEAD}{CLASSES} :p a o:ObjectProperty ; r:label "touches" ; r:domain [ o:unionOf ( :Human :Robot ) ] .
:of a o:ObjectProperty ; r:label "touched" ; o:inverseOf :p ; r:domain :Child . :x a :Robot , :Child .
:Cyborg a o:Class ; r:label "cyborg" ; o:equivalentClass [ o:intersectionOf ( :Robot :Human ) ] .
"""


@pytest.mark.parametrize("ending", SYNTAXES)
def test_every_syntax_gives_the_same_folder(tmp_path, ending):
    (tmp_path / "own.ttl").write_text(WHOLE, encoding="utf-8")
    kind = getattr(pyoxigraph.RdfFormat, SYNTAXES[ending])
    parsed = pyoxigraph.parse(WHOLE.encode(), pyoxigraph.RdfFormat.TURTLE)
    graph = pyoxigraph.NamedNode("http://e.org/graph") if kind.supports_datasets else pyoxigraph.DefaultGraph()
    statements = [pyoxigraph.Quad(s.subject, s.predicate, s.object, graph) for s in parsed]
    (tmp_path / f"other.{ending}").write_bytes(pyoxigraph.serialize(statements, format=kind))
    one = contents(build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "one")).out)
    other = contents(
        build_ontology(OntologyBuildOptions(input=[tmp_path / f"other.{ending}"], out=tmp_path / "two")).out
    )
    one.pop("manifest.json"), other.pop("manifest.json")
    assert one == other
    assert len(one) == 7  # classes, properties, axioms, and all tasks but sub-properties


def test_an_endpoint_gives_the_same_folder(tmp_path):
    (tmp_path / "own.ttl").write_text(WHOLE, encoding="utf-8")
    whole = build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "one"))
    store = store_of(tmp_path / "own.ttl")
    with server(lambda query, _: solutions(store, query, cap=3)) as (address, _):
        built = build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "two"))
    assert built[1:] == whole[1:]


def test_a_server_that_follows_no_lists_is_asked_for_the_rest(tmp_path):
    (tmp_path / "own.ttl").write_text(WHOLE, encoding="utf-8")
    store = store_of(tmp_path / "own.ttl")

    def plain(query, _):
        if "rdf:rest*" in query:
            return 400, "text/plain", b"Virtuoso 37000 Error TN...: Transitive start not given"
        return solutions(store, query)

    with server(plain) as (address, _):
        built = build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "out"))
    assert golds(tmp_path, "subClassOf") == {"human": {"animal"}, "child": {"human", "animal"}}
    assert built.tasks["domain"] == 1  # that of "touched"; the union is in a list
    for name in ("class_parts", "disjoint_classes", "domain_parts"):
        noted(
            built,
            (name, f"{address} answered", "status 400"),
        )


OWL_XML = '<?xml version="1.0"?>\n<!-- made -->\n<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://e.org/">'
FUNCTIONAL = "# made\nPrefix(:=<http://e.org/>)\nOntology(<http://e.org/>\nDeclaration(Class(:C)))\n"
ROBOT = "robot convert --input a.{0} --output a.ttl"


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        ("owx", "", ("OWL/XML", ROBOT)),
        ("ofn", "", ("functional syntax", ROBOT)),
        ("omn", "", ("Manchester", ROBOT)),
        ("obo", "", ("OBO", ROBOT)),
        ("owl", f"{OWL_XML}</Ontology>", ("RDF/XML", "OWL/XML", ROBOT)),
        ("owl", FUNCTIONAL, ("RDF/XML", "functional syntax", ROBOT)),
        ("ttl", FUNCTIONAL, ("a.ttl:2:", "Turtle", "functional syntax")),
        ("owl", "Prefix: : <http://e.org/>\n", ("Manchester", ROBOT)),
        ("owl", HEAD, ("RDF/XML", "Turtle", ".ttl")),
        ("ttl", '<rdf:RDF xmlns:rdf="x"/>', ("RDF/XML", ".rdf")),
        ("jsonld", '{"@context": "https://schema.org"}', "@context"),
        ("jsonld", '{"@id": ', "a.jsonld:1: not JSON-LD"),
        ("n3", "{ ?x <http://e.org/p> ?y } => { ?y <http://e.org/p> ?x } .", "not N3"),
        ("nq", "<http://e.org/a> nonsense .\n", "a.nq:1: not N-Quads"),
        ("trig", "{ <http://e.org/a> ", "a.trig:1: not TriG"),
    ],
)  # fmt: skip
def test_other_syntaxes_are_named(tmp_path, fathom, ending, text, message):
    (tmp_path / f"a.{ending}").write_text(text, encoding="utf-8")
    code, _, err = fathom("build", "ontology", "--input", tmp_path / f"a.{ending}", "--out", tmp_path / "out")
    assert code == 2
    (line,) = err.strip().splitlines()
    assert mentioned(line.replace(f"a.{ending} --out", "a.{0} --out"), message)


def test_the_catalogue_of_protege_is_no_ontology(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "catalog-v001.xml").write_text("<catalog><uri/></catalog>", encoding="utf-8")
    (tmp_path / "in" / "a.ttl").write_text(HEAD + CLASSES, encoding="utf-8")
    assert build_ontology(OntologyBuildOptions(input=[tmp_path / "in"], out=tmp_path / "out")).tasks["subClassOf"] == 2


def test_other_syntaxes_in_a_folder_are_noted(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ofn").write_text(FUNCTIONAL, encoding="utf-8")
    with pytest.raises(BadInput, match=mentions("RDF", "--input", "OWL")):
        build_ontology(OntologyBuildOptions(input=[tmp_path / "in"], out=tmp_path / "out"))
    (tmp_path / "in" / "a.ttl").write_text(HEAD + CLASSES, encoding="utf-8")
    built = build_ontology(OntologyBuildOptions(input=[tmp_path / "in"], out=tmp_path / "out"))
    noted(built, ("1 files in folders", "a.ofn", "functional syntax"))


def test_command(tmp_path, fathom):
    (tmp_path / "own.ttl").write_text(HEAD + PIZZA, encoding="utf-8")
    asked = ["build", "ontology", "--input", tmp_path / "own.ttl", "--out", tmp_path / "out"]
    code, out, err = fathom(*asked, "--language", "pt", "--label-property", "rdfs:label", "--names-from-iris")
    assert code == 0, err
    assert re.search(r"labels from the ends of IRIs +1\n", out)
    assert golds(tmp_path, "subClassOf") == {"base fina": {"PizzaComQueijo"}}
    code, _, err = fathom(*asked, "--language", '"en")', "--label-property", "x:label", "--label-property", "a b")
    assert code == 2
    assert mentioned(err, "--language '\"en\")'", "zh-Hant")
    assert mentioned(err, "--label-property 'x:label'", "rdfs:, skos:")
    assert "--label-property 'a b': expected" in err


# Published ontologies


@pytest.mark.parametrize(
    ("name", "counts", "answers"),
    [
        # CheesyPizza is defined as a pizza with cheese; of Country's two parts one is a list. hasBase and isBaseOf are
        # inverses, with the same domain and range the other way round.
        (
            "pizza.owl",
            {"subClassOf": 96, "domain": 6, "range": 7, "type": 5, "subPropertyOf": 4},
            [
                ("subClassOf", "CheesyPizza", {"Pizza", "Food", "DomainThing"}),
                ("subClassOf", "Country", {"DomainThing"}),
                ("domain", "is base of", {"PizzaBase"}),
            ],
        ),
        (
            "schemaorg-30.0-current-https.nt.gz",
            {"subClassOf": 911, "domain": 1453, "range": 1453, "type": 494, "subPropertyOf": 151},
            [("domain", "birthPlace", {"Person"}), ("domain", "alumniOf", {"Person"})],
        ),
        ("foaf.rdf", {"subClassOf": 8, "domain": 23, "range": 20, "type": 0, "subPropertyOf": 7}, []),
        ("skos.ttl", {"subClassOf": 1, "domain": 16, "range": 16, "type": 0, "subPropertyOf": 18},
         [("range", "has member", {"Concept", "Collection"})]),
    ],
)  # fmt: skip
def test_published_ontologies(tmp_path, shared_data, name, counts, answers):
    built = build_ontology(OntologyBuildOptions(input=[shared_data / "ontologies" / name], out=tmp_path / "out"))
    assert built.tasks == counts
    for task, asked, right in answers:
        assert golds(tmp_path, task)[asked] == right


# What cannot be named


def test_things_of_classes_that_are_left_out_are_counted(tmp_path):
    """Each once, whichever of its classes are left out; not those that are asked of another class."""
    built = made(
        tmp_path,
        f"""{CLASSES} :Bare a o:Class ; r:subClassOf :Human . :Old a o:Class ; r:label "old" ; o:deprecated true .
:Twin a o:Class ; r:label "robot" . :All a o:Class ; r:label "all" ; o:equivalentClass o:Thing .
:ann a :Bare . :bob a :Old , :Bare . :cid a :Twin . :dan a :All . :eve a :Bare , :Robot . :fay a :Old , :Human .
:ian a r:Class . r:Class a o:Class . :gus a :Bare , :Human , :Animal . :hal a :All , :Child . _:nobody a :Bare .""",
    )
    assert golds(tmp_path, "type").keys() == {"eve", "fay", "hal"}
    [note] = [note for note in built.notes if note.startswith("5 instances")]
    e = "http://e.org/"
    assert set(note.rpartition(" these: ")[2].split(", ")) == {
        f"{e}{name} (of {e}{class_})"
        for name, class_ in {"ann": "Bare", "bob": "Bare", "cid": "Twin", "dan": "All", "gus": "Bare"}.items()
    }


def test_identifiers_are_no_names_of_things(tmp_path):
    things = """:Q42 a :Human . :GO_0008150 a :Human . :Q5 a :Robot ; r:label "Q5" . :Robot_7 a :Robot , :Child ."""
    built = made(tmp_path, CLASSES + things)
    assert golds(tmp_path, "type").keys() == {"Q5", "Robot 7"}
    noted(built, ("2 sampled instances", "http://e.org/Q42", "http://e.org/GO_0008150"))


@pytest.mark.parametrize(
    ("name", "coded"),
    [
        ("Q42", True),
        ("GO 0008150", True),
        ("CHEBI:15377", True),
        ("m.0d05w3", True),
        ("12345", True),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", True),
        ("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", True),
        ("d41d8cd98f00b204e9800998ecf8427e", True),
        ("UB40", False),
        ("COVID-19", False),
        ("Player 03", False),
        ("1936 Summer Olympics", False),
        ("東京2020", False),
        ("x", False),
        ("UNESCO", False),
    ],
)
def test_codes_and_names(name, coded):
    assert is_code(name) == coded


def test_a_property_that_is_its_own_inverse_has_both_sides(tmp_path):
    text = ":p a o:ObjectProperty ; r:label 'meets' ; r:domain :Human ; r:range :Robot ; o:inverseOf :p ."
    made(tmp_path, CLASSES + text)
    assert golds(tmp_path, "domain") == golds(tmp_path, "range") == {"meets": {"human", "robot"}}


@pytest.mark.parametrize(("text", "named"), [
    (":p o:inverseOf :p .", [("1 properties", "http://e.org/p")]),
    (":p o:inverseOf :q . :q o:equivalentProperty :p .", [("1 properties", "http://e.org/p")]),
    (":p o:inverseOf :q . :q o:inverseOf :z . :z o:inverseOf :p .", [("1 properties", "http://e.org/p")]),
    (":p o:inverseOf :p ; a o:SymmetricProperty .", []),
    (":q a o:SymmetricProperty ; o:inverseOf :p .", []),
    (":p o:inverseOf :q .", []),
])  # fmt: skip
def test_a_property_that_is_its_own_inverse_is_named(tmp_path, text, named):
    """Where nothing says that it is symmetric: stated of itself, of an equal, and three times round."""
    every = " ".join(f":{name} a o:ObjectProperty ; r:label '{name} it' ." for name in "pqz")
    built = made(tmp_path, f"{CLASSES} {every} {text} :p r:domain :Human .")
    found = [note for note in built.notes if "their own inverse" in note]
    assert correspond(found, *named)


def test_an_ontology_that_imports_itself_is_said(tmp_path):
    text = "<http://e.org/self> a o:Ontology ; o:imports <http://e.org/self> ."
    noted(
        made(tmp_path, CLASSES + text),
        ("imports", "http://e.org/self → http://e.org/self;"),
    )


def test_what_has_no_iri_is_counted(tmp_path):
    """A blank class, a blank thing and a blank property, each with a label; a restriction has none, and is no name."""
    text = """_:c a o:Class ; r:label "nobody" ; r:subClassOf :Animal . _:i a :Human ; r:label "Nemo" . _:j a :Human .
    _:p a o:ObjectProperty ; r:label "nowhere" ; r:domain :Human .
    :Human r:subClassOf [ a o:Restriction ; o:onProperty :q ; o:someValuesFrom :Robot ] ."""
    built = made(tmp_path, CLASSES + text)
    noted(
        built,
        ("blank nodes", "2 http://e.org/Human"),
        ("3 labels", "nobody, Nemo, nowhere"),
    )


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("own.ttl", f"{HEAD} :C r:label 'café' .".encode("latin-1"), ("own.ttl:4:", "not Turtle", "UTF-8")),
        ("own.ttl", f"{HEAD} .".encode("utf-16"), ("own.ttl:1:", "not Turtle", "UTF-8")),
        ("own.ttl", f"{HEAD} :C r:label ".encode(), ("own.ttl:4:", "not Turtle", "Unexpected end")),
        ("own.owl", b"<html><body>no</body></html>", "own.owl: not RDF/XML: "),
        ("own.jsonld", b'{"a": 1', "own.jsonld:1: not JSON-LD: "),
    ],
)
def test_files_that_cannot_be_read_write_nothing(tmp_path, name, content, fault):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=mentions(fault)) as error:
        build_ontology(OntologyBuildOptions(input=[tmp_path / name], out=tmp_path / "out"))
    assert len(error.value.faults) == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_mark_of_the_byte_order_is_no_fault(tmp_path):
    (tmp_path / "own.ttl").write_bytes(b"\xef\xbb\xbf" + f"{HEAD} {CLASSES}".encode())
    assert (
        build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "out")).tasks["subClassOf"]
        == 2
    )

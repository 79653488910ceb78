"""``fathom build ontology``, and the reader of the folder that it writes.

DBpedia's and Wikidata's files are not at hand: what is here is made up in their formats (the ontology as RDF/XML,
instance types and labels as N-Triples, Wikidata's properties as its entity pages give them in Turtle).
"""

from __future__ import annotations

import bz2
import gzip
import json
import re
import shlex
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pyarrow.parquet as pq
import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import examine, read
from fathom.data.hierarchy import chain
from fathom.data.prompts.ontology import domain_sentence, range_sentence
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.store.outputs import MADE
from fathom_build.ontology import build_ontology, intake, sources
from fathom_build.ontology.build import read_patterns
from fathom_build.ontology.hierarchy import cycles, edges_of
from fathom_build.ontology.intake import best_labels
from fathom_build.ontology.sources import QUERIES, Endpoint, LocalStore, query_text
from fathom_build.options import OntologyBuildOptions
from tests.cli.test_cli import bert, save
from tests.messages import correspond, mentioned, mentions, stated

pyoxigraph = pytest.importorskip("pyoxigraph")
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEAD = """@prefix : <http://e.org/> .
@prefix o: <http://www.w3.org/2002/07/owl#> .
@prefix r: <http://www.w3.org/2000/01/rdf-schema#> .
"""
TOWN, PATTERNS = EXAMPLES / "town.ttl", EXAMPLES / "town-patterns.tsv"


@pytest.fixture(scope="module")
def onto(shared_data):
    return read(shared_data / "ontoprobe")


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "town"
    return build_ontology(OntologyBuildOptions(input=[TOWN], out=out, patterns=PATTERNS))


def lines_of(folder: Path, task: str) -> list[dict]:
    text = (folder / "memorizing" / f"{task}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    found = (file for file in folder.rglob("*") if file.is_file() and file.name != MADE)
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


# The published folder


def test_published_folder_has_the_counts_of_its_readme(onto):
    asked = {task: len(queries) for task, queries in onto.by_relation().items()}
    assert asked == {"type": 8859, "subClassOf": 721, "subPropertyOf": 59, "domain": 50, "range": 48}
    # 52 properties and 30 more that are only super-properties.
    assert {name: len(space) for name, space in onto.candidates.items()} == {"classes": 783, "properties": 82}
    tested = {task: len(q) for task, q in select(onto, Selection(subset="test")).data.by_relation().items()}
    assert tested == {"type": 500, "subClassOf": 500, "subPropertyOf": 39, "domain": 30, "range": 28}
    for part in ("train", "dev"):
        assert {len(q) for q in select(onto, Selection(subset=part)).data.by_relation().values()} == {10}


def test_published_items(onto, shared_data):
    queries = {query.id: query for query in onto.queries}
    first = queries["type/0"]
    # Brackets become spaces, in names as in answers; the id is the name as it was.
    assert first.subject == "Little League World Series Northwest Region"
    assert first.subject_id == "Little League World Series (Northwest Region)"
    assert first.gold == ("baseball league", "sports league", "organisation", "agent")
    assert first.candidates == "classes"
    assert [template.text for template in onto.phrasings(first)] == [
        "[X] is a [Y] .",
        "[X] has class [Y] .",
        "[X] is a particular [Y] .",
    ]
    assert queries["subPropertyOf/0"].gold == ("relative", "significant person")
    assert queries["subPropertyOf/0"].candidates == "properties"
    assert queries["range/47"].relation == "range"
    # The reference's own multiple-choice file asks the 20th item first: the test items begin there.
    file = shared_data / "ontoprobe" / "multiple_choice" / "memorizing" / "type.jsonl"
    prompts = [json.loads(line)["prompt"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert [
        f"What is the type of {queries[f'type/{n}'].subject_id}?" in prompts[n - 20] for n in (20, 21, 22, 519)
    ] == [True] * 4


@pytest.mark.parametrize(
    ("task", "name", "sentence"),
    [
        # Computed with the functions domain_manual_textb and range_manual_textb of the reference code (data.py at
        # e0ec1c9): 97 of its 98 are the same here. It loses the range's name from the pattern where that begins with
        # a vowel ("if one has  ." for architect).
        ("domain", "employer", "One has to be a particular [Y] if one is an employer of an organisation ."),
        ("domain", "composer", "One has to be a particular [Y] if one has composer ."),
        ("domain", "participating team", "One has to be a particular [Y] if one has participating teams ."),
        ("domain", "head of government", "One has to be a particular [Y] if one has government ."),
        ("domain", "architect", "One has to be a particular [Y] if one has architect ."),
        ("range", "employer", "One has to be a particular [Y] if a person is an employer of that ."),
        ("range", "composer", "One has to be a particular [Y] if one is a work's composer ."),
        (
            "range",
            "participating team",
            "One has to be a particular [Y] if one is a sports event's participating teams .",
        ),
    ],
)
def test_domain_and_range_are_asked_as_the_reference_words_them(onto, task, name, sentence):
    query = next(query for query in onto.by_relation()[task] if query.subject_id == name)
    assert [template.text for template in onto.phrasings(query)] == [sentence]


def test_sentences_of_patterns_in_other_forms():
    assert domain_sentence("In [Y], [X] sings .", "town") == "One has to be a particular [Y] if In a town, one sings ."
    assert range_sentence("[X] plays for [Y] .", None) == "One has to be a particular [Y] if something plays for that ."


# Folders that are not as they should be


def small_folder(folder: Path, **tasks: list[dict]) -> Path:
    (folder / "ontology").mkdir(parents=True)
    (folder / "memorizing").mkdir()
    classes = [{"rdfs:Class": "c", "rdfs:label": name} for name in ("person", "non-profit (club)")]
    (folder / "ontology" / "class.json").write_text(json.dumps(classes), encoding="utf-8")
    properties = [{"rdf:Property": "p", "rdfs:label": "child", "rdfs:subPropertyOf": {"relative": "[X] and [Y] ."}}]
    (folder / "ontology" / "property.json").write_text(json.dumps(properties), encoding="utf-8")
    for task, rows in tasks.items():
        text = "\n".join(map(json.dumps, rows))
        (folder / "memorizing" / f"{task}.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_small_folder(tmp_path):
    rows = [{"uuu": "Ada", "xxx": ["person"]}, {"uuu": "?!", "xxx": ["non-profit (club)"]}]
    data, faults = examine(small_folder(tmp_path / "small", type=rows))
    assert not faults.found
    assert [query.unscored for query in data.queries] == [None, "the subject has no name"]
    assert data.queries[1].gold == ("non profit club",)
    assert list(data.candidates) == ["classes"]
    notes = "\n".join(data.notes)
    assert stated(notes, "2 items", "21", "test")
    assert stated(notes, "range.jsonl", "missing")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"uuu": "Ada", "xxx": ["robot"]}, ("type.jsonl:1:", "'robot'", "2 classes")),
        ({"uuu": "Ada", "xxx": []}, "type.jsonl:1: expected"),
        ({"uuu": {"a": "", "b": ""}, "xxx": ["person"]}, "type.jsonl:1: expected"),
        ({"uuu": "Ada", "xxx": [3]}, "type.jsonl:1: expected"),
    ],
)
def test_bad_lines_are_named(tmp_path, row, message):
    with pytest.raises(BadInput, match=mentions(message)):
        read(small_folder(tmp_path / "small", type=[row]))


def test_pattern_without_places_is_named(tmp_path):
    folder = small_folder(tmp_path / "small", domain=[{"uuu": {"child": "has a child"}, "xxx": ["person"]}])
    with pytest.raises(BadInput, match=mentions("domain.jsonl:1", "'has a child'", "[X]", "[Y]")):
        read(folder)


def test_folder_without_tasks_is_named(tmp_path):
    with pytest.raises(BadInput, match=mentions("type.jsonl")):
        read(small_folder(tmp_path / "small"))


# Hierarchies


def test_chains_are_nearest_first_and_cycles_named():
    edges = edges_of([("a", "b"), ("b", "c"), ("c", "a"), ("a", "a"), ("d", "a"), ("a", "b"), ("d", "x"), ("y", "y")])
    assert chain("d", edges) == ["a", "x", "b", "c"]
    assert chain("a", edges) == ["b", "c"]  # it would come back to a
    assert cycles(edges) == [["a", "b", "c"]]
    assert cycles(edges_of([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])) == []  # two ways up are none


def test_deep_hierarchies_do_not_end_the_search():
    edges = edges_of((str(n), str(n + 1)) for n in range(20_000))
    assert len(chain("0", edges)) == 20_000
    assert cycles(edges) == []


# From one's own Turtle


def test_example(town):
    assert town.tasks == {"type": 53, "subClassOf": 39, "subPropertyOf": 25, "domain": 29, "range": 31}
    captain = next(found for found in town.classes if found.label == "captain")
    assert captain.superclasses == ("sailor", "person", "agent")
    assert sorted(captain.instances) == ["Tove Helm", "Ulf Keel"]
    properties = {found.label: found for found in town.properties}
    mother = properties["mother"]
    assert (mother.domains, mother.ranges) == (("person",), ("person",))
    assert mother.superproperties == {
        "parent": "[X]'s parent is [Y] .",
        "relative": "[X]'s relative is [Y] .",
        "knows": "[X] knows [Y] .",
    }
    assert "mother" in town.defaults
    assert "flows into" not in town.defaults
    few = ("rdfs2 (29)", "rdfs5 (25), rdfs7 (25)")
    assert correspond(town.notes, ("2 properties", "no domain", "location, participant of"), few)
    written = {entry["rdfs:label"]: entry for entry in json.loads((town.out / "ontology/property.json").read_text())}
    assert written["mother"]["pattern_is_default"] is True
    assert written["flows into"]["pattern_is_default"] is False


def test_built_folder_is_read_as_the_published_one(town):
    data = read(town.out)
    assert {task: len(queries) for task, queries in data.by_relation().items()} == town.tasks
    assert len(select(data, Selection(relations=["range"], subset="test")).data.queries) == 11
    assert len(data.candidates["classes"]) == 44
    flows = next(query for query in data.by_relation()["domain"] if query.subject == "flows into")
    assert flows.gold == ("river",)
    assert flows.sentences[0].text == "One has to be a particular [Y] if one flows into a lake ."


def test_seed_decides_the_order_and_the_sample(tmp_path, town):
    again = build_ontology(OntologyBuildOptions(input=[TOWN], out=tmp_path / "again", patterns=PATTERNS))
    assert contents(again.out) == contents(town.out)
    other = build_ontology(
        OntologyBuildOptions(input=[TOWN], out=tmp_path / "other", patterns=PATTERNS, instances=1, seed=1)
    )
    assert other.tasks["type"] == 27  # classes that have instances
    assert lines_of(other.out, "range") != lines_of(town.out, "range")
    assert sorted(map(str, lines_of(other.out, "range"))) == sorted(map(str, lines_of(town.out, "range")))
    drawn = {name for found in other.classes for name in found.instances}
    third = build_ontology(
        OntologyBuildOptions(input=[TOWN], out=tmp_path / "third", patterns=PATTERNS, instances=1, seed=2)
    )
    assert drawn != {name for found in third.classes for name in found.instances}


def test_the_cloze_probe_asks_it(tmp_path, town, fathom):
    save(tmp_path / "bert", bert(640), *(file.read_text() for file in (TOWN, PATTERNS)))
    asked = ["--data", town.out, "--subset", "test", "--pool", "relation"]
    code, _, err = fathom("probe", "cloze", "--model", tmp_path / "bert", *asked, "--out", tmp_path / "run")
    assert code == 0, err
    rows = [row for part in (tmp_path / "run" / "predictions").iterdir() for row in pq.read_table(part).to_pylist()]
    # 33 types and 19 sub-classes by three templates each, the others by one.
    assert len(rows) == 3 * (33 + 19) + 5 + 9 + 11
    assert {row["num_candidates"] for row in rows} == {44, 31}
    clauses = {row["prompt"].removeprefix("One has to be a particular [Y] if ") for row in rows if row["template"] == 0}
    assert sum(clause.startswith(("one ", "an ", "a ", "something ")) for clause in clauses) == 9 + 11
    assert all(row["unscored"] is None and row["rank"] >= 1 for row in rows)


# From files in DBpedia's and Wikidata's formats

ONTOLOGY = """<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
    xmlns:owl="http://www.w3.org/2002/07/owl#" xml:base="http://dbpedia.org/ontology/">
  <owl:Ontology rdf:about="http://dbpedia.org/ontology/"/>
  {classes}
  <owl:ObjectProperty rdf:about="http://dbpedia.org/ontology/team">
    <rdf:type rdf:resource="http://www.w3.org/1999/02/22-rdf-syntax-ns#Property"/>
    <rdfs:label xml:lang="en">team</rdfs:label><rdfs:label xml:lang="de">Mannschaft</rdfs:label>
    <rdfs:domain rdf:resource="http://dbpedia.org/ontology/Athlete"/>
    <owl:equivalentProperty rdf:resource="http://www.wikidata.org/entity/P54"/>
  </owl:ObjectProperty>
  <owl:DatatypeProperty rdf:about="http://dbpedia.org/ontology/height">
    <rdf:type rdf:resource="http://www.w3.org/1999/02/22-rdf-syntax-ns#Property"/>
    <rdfs:label xml:lang="en">height</rdfs:label>
    <rdfs:domain rdf:resource="http://dbpedia.org/ontology/Person"/>
  </owl:DatatypeProperty>
</rdf:RDF>
"""
CLASSES = {
    "Agent": ("agent", "http://www.w3.org/2002/07/owl#Thing"),
    "Person": ("person", "Agent"),
    "Athlete": ("athlete", "Person"),
    "SoccerPlayer": ("soccer player", "Athlete"),
    "Organisation": ("organisation", "Agent"),
    "SportsTeam": ("sports team", "Organisation"),
}
WIKIDATA = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix wikibase: <http://wikiba.se/ontology#> . @prefix wd: <http://www.wikidata.org/entity/> .
@prefix s: <http://www.wikidata.org/entity/statement/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> . @prefix wdno: <http://www.wikidata.org/prop/novalue/> .
wd:P54 a wikibase:Property ; wikibase:propertyType wikibase:WikibaseItem ; wikibase:directClaim wdt:P54 ;
  rdfs:label "member of sports team"@en , "joue pour"@fr ; wdt:P1647 wd:P463 ;
  wdt:P1628 <http://dbpedia.org/ontology/team> ; wdt:P2302 wd:Q21503250 , wd:Q21510865 ;
  p:P2302 s:P54-a , s:P54-b , s:P54-c , s:P54-d .
wdt:P54 a owl:ObjectProperty . p:P54 a owl:ObjectProperty .
wdno:P54 a owl:Class ; owl:complementOf _:x .
s:P54-a ps:P2302 wd:Q21503250 ; pq:P2308 wd:Q5 ; pq:P2309 wd:Q21503252 ; wikibase:rank wikibase:NormalRank .
s:P54-b ps:P2302 wd:Q21510865 ; pq:P2308 wd:Q12973014 , wd:Q1 ; pq:P2309 wd:Q21503252 .
s:P54-c ps:P2302 wd:Q21510865 ; pq:P2308 wd:Q5 ; pq:P2309 wd:Q21514624 .
s:P54-d ps:P2302 wd:Q21510865 ; pq:P2308 wd:Q5 ; wikibase:rank wikibase:DeprecatedRank .
wd:P463 a wikibase:Property ; wikibase:propertyType wikibase:WikibaseItem ; rdfs:label "member of"@en ;
  p:P2302 s:P463-a , s:P463-b .
s:P463-a ps:P2302 wd:Q21503250 ; pq:P2308 wd:Q5 , wd:Q43229 .
s:P463-b ps:P2302 wd:Q21510865 ; pq:P2308 wd:Q43229 , wd:Q12973014 .
wd:P2048 a wikibase:Property ; wikibase:propertyType wikibase:Quantity ; rdfs:label "height"@en .
wd:P710 a wikibase:Property ; wikibase:propertyType wikibase:WikibaseItem ; rdfs:label "participant"@en ;
  wdt:P2302 wd:Q21510865 .
wd:Q5 rdfs:label "human"@en ; wdt:P1709 <http://dbpedia.org/ontology/Person> .
wd:Q12973014 rdfs:label "Sports team"@en . wd:Q1 rdfs:label "universe"@en .
wd:Q43229 rdfs:label "organization"@en .
<http://dbpedia.org/ontology/Organisation> owl:equivalentClass wd:Q43229 .
"""
DBR, DBO = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def dbpedia_ontology(classes: dict[str, tuple[str, str]] = CLASSES) -> str:
    entries = [
        f'<owl:Class rdf:about="{DBO}{name}"><rdfs:label xml:lang="en">{label}</rdfs:label>'
        f'<rdfs:label xml:lang="el">ετικέτα</rdfs:label><rdfs:subClassOf rdf:resource="{above}"/></owl:Class>'
        for name, (label, above) in classes.items()
    ]
    return ONTOLOGY.format(classes="\n".join(entries))


def instance_types() -> str:
    """Thirty players, each also stated to be all that a player is, and ten people that are nothing finer."""
    lines = []
    for n in range(30):
        for kind in ("SoccerPlayer", "Athlete", "Person", "Agent"):
            lines.append(f"<{DBR}Player_{n:02}_(footballer)> {TYPE} <{DBO}{kind}> .")
    for n in range(10):
        lines.append(f"<{DBR}Person_{n}> {TYPE} <{DBO}Person> .")
        lines.append(f'<{DBR}Person_{n}> <http://www.w3.org/2000/01/rdf-schema#label> "Nobody {n}"@en .')
    lines.append(
        f'<{DBR}Odd> {TYPE} <{DBO}SportsTeam> .\n<{DBR}Odd> <http://www.w3.org/2000/01/rdf-schema#label> "…"@en .'
    )
    return "\n".join(lines) + "\n"


def dumps(folder: Path) -> list[Path]:
    """Each format packed in another way."""
    folder.mkdir(exist_ok=True)
    (folder / "ontology.owl").write_text(dbpedia_ontology(), encoding="utf-8")
    (folder / "instance_types.nt.bz2").write_bytes(bz2.compress(instance_types().encode()))
    (folder / "wikidata.ttl.gz").write_bytes(gzip.compress(WIKIDATA.encode()))
    return [folder]


def test_dbpedia_and_wikidata_together(tmp_path):
    (tmp_path / "patterns.tsv").write_text("P54\t[X] is a player at [Y] .\nP9\t[X] has [Y] .\n", encoding="utf-8")
    built = build_ontology(
        OntologyBuildOptions(input=dumps(tmp_path / "in"), out=tmp_path / "out", patterns=tmp_path / "patterns.tsv")
    )
    classes = {found.label: found for found in built.classes}
    assert classes["soccer player"].superclasses == ("athlete", "person", "agent")  # owl:Thing is no class of the list
    # 30 players are athletes, persons and agents too, but are sampled where they are finest; names come from the IRI.
    assert {label: len(found.instances) for label, found in classes.items() if found.instances} == {
        "soccer player": 20,
        "person": 10,
    }
    assert all(re.fullmatch(r"Player \d\d \(footballer\)", name) for name in classes["soccer player"].instances)
    assert "Nobody 3" in classes["person"].instances
    team, member = built.properties
    assert team.iris == ("http://www.wikidata.org/entity/P54", "http://dbpedia.org/ontology/team")
    assert (team.label, team.pattern) == ("member of sports team", "[X] is a player at [Y] .")
    # DBpedia's domain before Wikidata's (human = person); the range by the label of Q12973014. "universe" is no class
    # of the list, P54-c is about classes, and P54-d is deprecated.
    assert (team.domains, team.ranges) == (("athlete",), ("sports team",))
    assert team.superproperties == {"member of": "[X]'s member of is [Y] ."}
    # Human or organisation: neither is above the other, and a member may be of either. Of organisation and sports team
    # the first holds for both.
    assert (member.label, member.domains, member.ranges) == ("member of", ("organisation", "person"), ("organisation",))
    assert built.defaults == {"member of"}
    assert built.tasks == {"type": 30, "subClassOf": 5, "subPropertyOf": 1, "domain": 2, "range": 2}
    assert {row["uuu"]: row["xxx"] for row in lines_of(built.out, "type")}["Nobody 3"] == ["person", "agent"]
    notes = "\n".join(built.notes)
    assert stated(notes, "1 instances", f"{DBR}Odd")
    assert stated(notes, "1 classes", "domain or range", "universe")
    assert "P463 (domain: " not in notes
    assert "have no label" not in notes  # wdno:P54, wdt:P54 and p:P54 are neither classes nor properties
    assert stated(notes, "1 properties", "type constraints")
    assert "http://www.wikidata.org/entity/P710" in notes
    assert stated(notes, "1 names", tmp_path / "patterns.tsv", "P9")


def test_what_is_not_loaded_changes_nothing(tmp_path, monkeypatch):
    built = build_ontology(OntologyBuildOptions(input=dumps(tmp_path / "in"), out=tmp_path / "kept"))
    everything = type("Everything", (), {"__contains__": lambda self, predicate: True})
    monkeypatch.setattr(intake, "KEPT", everything())
    monkeypatch.setattr(sources, "IN_MEMORY", 0)  # and it may lie on disk
    everything = build_ontology(OntologyBuildOptions(input=dumps(tmp_path / "in"), out=tmp_path / "all"))
    assert everything[1:] == built[1:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "in", "kept"]  # the store is gone


def test_queries_ask_only_what_is_loaded():
    prefixed = re.compile(r"\b(?:wdt|p|ps|pq):P\d+|\b(?:rdfs|owl|wikibase):[a-z]\w+")
    prefix = re.compile(r"PREFIX (\w+): <(.+)>")
    for file in QUERIES.glob("*.rq"):
        text = re.sub(r"#.*(?<!>)$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        known = dict(prefix.findall(text))
        for name in prefixed.findall(text):
            short, local = name.split(":")
            assert known[short] + local in sources.KEPT, f"{file.name}: {name}"


def test_properties_are_aligned_with_one_of_wikidatas(tmp_path):
    (tmp_path / "own.ttl").write_text(
        f"""{HEAD}@prefix wd: <http://www.wikidata.org/entity/> . @prefix b: <http://wikiba.se/ontology#> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
wd:P7 b:propertyType b:WikibaseItem ; wdt:P1628 :seven ; wdt:P1647 wd:P20 .
wd:P20 b:propertyType b:WikibaseItem ; r:label "twenty"@en-GB , "vingt" ; wdt:P1628 :seven , :vingt .
:seven a o:ObjectProperty ; r:label "seven"@en ; r:domain :C .
:vingt a o:ObjectProperty ; r:label "twenty two" ; o:equivalentProperty :vingt2 ; r:range :C .
:vingt2 a o:ObjectProperty ; r:label "twenty three" .
:C a o:Class ; r:label "thing" .
""",
        encoding="utf-8",
    )
    built = build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "out"))
    seven, twenty = built.properties
    # P7 has no label of its own and takes that of its counterpart; P20 claims :seven too late. Of the labels of P20 the
    # English one counts. :vingt2 is equivalent to :vingt, and so to P20.
    assert (seven.label, seven.domains, dict(seven.superproperties)) == (
        "seven",
        ("thing",),
        {"twenty": "[X]'s twenty is [Y] ."},
    )
    assert (twenty.label, twenty.ranges) == ("twenty", ("thing",))
    assert [len(found.iris) for found in (seven, twenty)] == [2, 3]
    assert stated(built.notes, "1 properties", "seven (P7, not P20)")


def test_labels_are_the_english_ones():
    rows = [
        {"class": "a", "label": "colour", "language": "en-gb"},
        {"class": "a", "label": "color", "language": "en"},
        {"class": "a", "label": "couleur"},
        {"class": "b"},
    ]
    assert {iri: label and label[1] for iri, label in best_labels(rows, "class").items()} == {"a": "color", "b": None}


# What may be wrong with an ontology


def turtle(folder: Path, text: str) -> Path:
    classes = "".join(f':C{n} a o:Class ; r:label "class {n}" ; r:subClassOf :C{n + 1} .\n' for n in range(25))
    (folder / "own.ttl").write_text(HEAD + classes + text, encoding="utf-8")
    return folder / "own.ttl"


def notes_of(folder: Path, text: str) -> str:
    return "\n".join(build_ontology(OntologyBuildOptions(input=[turtle(folder, text)], out=folder / "out")).notes)


def test_cycles_are_named_and_cut(tmp_path):
    notes = notes_of(tmp_path, ":C3 r:subClassOf :C2 . :C4 r:subClassOf :C4 .")
    assert stated(notes, "cycle", "class 2 → class 3 → class 2")
    third = next(row for row in lines_of(tmp_path / "out", "subClassOf") if row["uuu"] == "class 3")
    assert third["xxx"][:2] == ["class 2", "class 4"]
    assert len(third["xxx"]) == len(set(third["xxx"])) == 22  # 4 to 24 and 2; 25 is no class
    assert "class 3" not in third["xxx"]


def test_things_of_classes_above_each_other_are_asked_of_both(tmp_path):
    """As where a reasoner has written an equivalence down: neither class is the finer one."""
    file = turtle(tmp_path, ":C3 r:subClassOf :C2 . :Ada a :C2 , :C3 . :Bo a :C1 , :C2 .")
    build_ontology(OntologyBuildOptions(input=[file], out=tmp_path / "out"))
    asked = {row["uuu"]: row["xxx"][:2] for row in lines_of(tmp_path / "out", "type")}
    assert asked["Ada"] == ["class 2", "class 3"]
    assert asked["Bo"] == ["class 1", "class 2"]  # class 1 is below class 2, which does not hold of them the other way


def test_what_is_above_itself_is_counted(tmp_path):
    """As files have it that were reasoned over: there every class is a sub-class of itself."""
    classes = " ".join(f":C{n} r:subClassOf :C{n} ." for n in range(6))
    properties = """:p a o:ObjectProperty ; r:label 'touches' ; r:subPropertyOf :p ; r:domain :C1 .
    :a a o:ObjectProperty ; r:label 'meets' ; r:subPropertyOf :b . :b a o:ObjectProperty ; o:equivalentProperty :a ."""
    notes = notes_of(tmp_path, f"{classes} {properties}")
    assert stated(notes, "6 classes", "above themselves", "class 0, class 1, class 2")
    # :a and :b are aligned: one property.
    assert stated(notes, "2 properties", "above themselves", "meets, touches")
    assert "cycle" not in notes
    first = next(row for row in lines_of(tmp_path / "out", "subClassOf") if row["uuu"] == "class 0")
    assert first["xxx"][:2] == ["class 1", "class 2"]


def test_classes_without_good_labels_are_left_out(tmp_path):
    notes = notes_of(
        tmp_path, ':Bare a o:Class . :Dots a o:Class ; r:label " … " . :Twin a o:Class ; r:label "class  3" .'
    )
    assert stated(
        notes, "1 of 28 classes", "rdfs:label", "skos:prefLabel", "@en", "--names-from-iris", "http://e.org/Bare"
    )
    assert stated(notes, "1 classes", "letters or digits", "http://e.org/Dots ('…')")
    assert stated(notes, "1 classes", "'class 3'", "http://e.org/Twin, not http://e.org/C3")


@pytest.mark.parametrize("predicate", ["a", "r:subClassOf", "r:domain", "r:subPropertyOf", "r:label", "o:sameAs"])
def test_triples_are_no_classes(tmp_path, predicate):
    """RDF 1.2 has triples as objects, also of what has no IRI."""
    notes = notes_of(tmp_path, f":C1 {predicate} <<( :C2 r:label :C3 )>> . [] {predicate} <<( :C2 r:label :C3 )>> .")
    assert stated(notes, "texts and triples", "2 ") == (predicate != "r:label")


def test_chains_pass_through_classes_without_labels(tmp_path):
    notes_of(tmp_path, ':Fine a o:Class ; r:label "fine" ; r:subClassOf :Bare . :Bare r:subClassOf :C24 .')
    assert next(row for row in lines_of(tmp_path / "out", "subClassOf") if row["uuu"] == "fine")["xxx"] == ["class 24"]


def test_properties_without_domain_and_small_tasks_are_said(tmp_path):
    notes = notes_of(tmp_path, ':p a o:ObjectProperty ; r:label "touches" ; r:range :C1 ; r:domain :Elsewhere .')
    assert stated(notes, "1 properties", "no domain", "touches")
    assert stated(notes, "list of classes", "http://e.org/Elsewhere")
    assert "type, subPropertyOf, domain\n" in f"{notes}\n"
    assert stated(notes, "21 items", "10 to train, 10 to validate, 1 to test", "range has 1")
    assert sorted(file.name for file in (tmp_path / "out" / "memorizing").iterdir()) == [
        "range.jsonl",
        "subClassOf.jsonl",
    ]
    assert set(read(tmp_path / "out").by_relation()) == {"subClassOf", "range"}


def test_what_nobody_declares_is_said(tmp_path):
    classes = ":C3 r:subClassOf :Vague , o:Thing . :Vague r:label 'vague' . :loose r:domain :C1 ."
    properties = """:p a o:ObjectProperty ; r:label 'touches' ; r:subPropertyOf :looser .
    :q a o:ObjectProperty ; r:label 'likes' ."""
    notes = notes_of(tmp_path, f"{classes} {properties}")
    # C25 is above class 24 and is no class either; owl:Thing is RDF's own.
    undeclared = "http://e.org/C25, http://e.org/Vague"
    assert stated(notes, "2 names in rdfs:subClassOf", "owl:Class", "rdfs:Class", undeclared)
    assert stated(notes, "2 names", "rdfs:subPropertyOf (P1647)", "rdfs:domain", "rdfs:range", "properties of texts")
    assert stated(notes, "owl:ObjectProperty", "rdf:Property", "http://e.org/loose, http://e.org/l")
    assert stated(notes, "2 properties", "no domain", "touches, likes")


def test_file_without_classes(tmp_path):
    (tmp_path / "own.ttl").write_text("", encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "out"))
    first, second = caught.value.faults
    assert mentioned(first, "domain, range", "--input")
    assert mentioned(second, "no classes", "owl:Class", "rdfs:Class", "rdfs:label")


def test_exactly_21_items_are_enough(tmp_path):
    names = " ".join(f":C{n} r:label 'class {n}'; a o:Class; r:subClassOf :C{n + 1} ." for n in range(22))
    (tmp_path / "own.ttl").write_text(HEAD + names, encoding="utf-8")
    assert (
        build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "out")).tasks["subClassOf"]
        == 21
    )


def test_too_few_items_for_every_task_write_nothing(tmp_path):
    (tmp_path / "own.ttl").write_text(HEAD + ':C a o:Class ; r:label "class" .', encoding="utf-8")
    with pytest.raises(BadInput, match=mentions("own.ttl")):
        build_ontology(OntologyBuildOptions(input=[tmp_path / "own.ttl"], out=tmp_path / "out"))
    assert [file.name for file in tmp_path.iterdir()] == ["own.ttl"]


def test_one_name_is_asked_once_with_all_its_classes(tmp_path):
    things = ":X a :C1 ; r:label 'Martin Pugh' . :Y a :C20 ; r:label 'Martin Pugh' ."
    build = build_ontology(
        OntologyBuildOptions(
            input=[turtle(tmp_path, things + "".join(f" :Thing{n} a :C2 ." for n in range(20)))], out=tmp_path / "o"
        )
    )
    assert build.tasks["type"] == 21
    gold = next(row["xxx"] for row in lines_of(build.out, "type") if row["uuu"] == "Martin Pugh")
    assert gold[0] == "class 1"
    assert len(gold) == 24  # class 1 to 24: those of class 20 are among them


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.nt",
            "<http://e.org/a> <http://e.org/b> <http://e.org/c> .\n<http://e.org/a> nonsense .\n",
            "a.nt:2: not N-T",
        ),
        ("a.ttl", f"{HEAD}:C a o:Class ;; [\n", "a.ttl:4: not Turtle"),
        ("a.rdf", dbpedia_ontology()[:1500], "a.rdf:10: not RDF/XML"),
        ("a.owl", dbpedia_ontology().replace("xmlns:owl", "xmlns:bowl"), ("a.owl:4: not RDF/XML", "unbound prefix")),
        ("a.nt.gz", "not packed", ("a.nt.gz:", "gzipped")),
        ("a.nt.bz2", "not packed", ("a.nt.bz2:", "Invalid data")),
        ("a.csv", "", ("a.csv:", ".nt, .ttl, .rdf")),
    ],
)
def test_broken_files_are_named_with_their_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=mentions(message)):
        build_ontology(OntologyBuildOptions(input=[tmp_path / name], out=tmp_path / "out"))
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_broken_large_file_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "IN_MEMORY", 0)
    (tmp_path / "a.nt").write_text(f"{instance_types()}nonsense\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"a\.nt:143: not N-Triples"):
        build_ontology(OntologyBuildOptions(input=[tmp_path / "a.nt"], out=tmp_path / "out"))
    assert [file.name for file in tmp_path.iterdir()] == ["a.nt"]


def test_packed_file_that_breaks_off(tmp_path):
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(instance_types().encode())[:-20])
    with pytest.raises(BadInput, match=mentions("a.nt.gz")):
        build_ontology(OntologyBuildOptions(input=[tmp_path / "a.nt.gz"], out=tmp_path / "out"))


def test_all_mistakes_of_a_command_at_once(tmp_path):
    (tmp_path / "patterns").write_text("mother [X] is [Y] .\nP1\t[X] .\nP2\t[X] [Y]\nP2\t[Y] [X]\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput) as caught:
        build_ontology(
            OntologyBuildOptions(
                input=[tmp_path / "none.nt", tmp_path / "empty"], out=tmp_path, patterns=tmp_path / "patterns"
            )
        )
    faults = "\n".join(caught.value.faults)
    for part in ("none.nt:", "empty:", "patterns:1:", "patterns:2:", "patterns:4: 'P2'", "there already"):
        assert part in faults
    with pytest.raises(BadInput, match="nothing to build"):
        build_ontology(OntologyBuildOptions(out=tmp_path / "out"))
    with pytest.raises(BadInput, match="nowhere: file is missing"):
        read_patterns(tmp_path / "nowhere")


# From an endpoint


@contextmanager
def server(answer):
    """A server on loopback. :param answer: (query, number of the request) → (status, content type, body, headers)."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append(parse_qs(body)["query"][0])
            status, kind, content, *headers = answer(asked[-1], len(asked))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/sparql", asked
    finally:
        httpd.shutdown()
        httpd.server_close()


def store_of(*files: Path):
    store = pyoxigraph.Store()
    for file in files:
        kind = pyoxigraph.RdfFormat.from_extension(file.suffix[1:])
        store.bulk_extend(pyoxigraph.parse(file.read_bytes(), kind))
    return store


def solutions(store, query: str, cap: int = 10_000, sort: int = 10_000) -> tuple[int, str, bytes]:
    """Answers as Virtuoso gives them: at most *cap* at a time, none to a query that itself sorts more than *sort*."""
    page = re.search(r"^LIMIT (\d+)\nOFFSET (\d+)$", query, re.MULTILINE)
    before = query.rpartition("ORDER BY")[0]
    rows = int(page[1]) + int(page[2]) if page else 0
    if before.count("{") == before.count("}") and rows > sort:
        error = f"Virtuoso 22023 Error SR353: Sorted TOP clause specifies more then {rows} rows to sort."
        return 500, "text/plain", f"{error} Only {sort} are allowed.".encode()
    query = re.sub(r"^LIMIT (\d+)$", lambda limit: f"LIMIT {min(cap, int(limit[1]))}", query, flags=re.MULTILINE)
    body = store.query(query).serialize(format=pyoxigraph.QueryResultsFormat.JSON)
    return 200, "application/sparql-results+json", body


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(sources, "PAUSE", 0.01)


def test_endpoint_gives_the_same_folder_as_the_file(tmp_path, town):
    store = store_of(TOWN)
    # It gives fewer solutions than are asked for, as servers with a limit do.
    with server(lambda query, _: solutions(store, query, cap=17)) as (address, asked):
        built = build_ontology(
            OntologyBuildOptions(endpoint=[address], page=20, out=tmp_path / "out", patterns=PATTERNS)
        )
    assert built[1:] == town[1:]
    ours, theirs = contents(built.out), contents(town.out)
    assert ours.pop("manifest.json") != theirs.pop("manifest.json")  # it says whence
    assert ours == theirs
    pages = [re.search(r"OFFSET (\d+)", query)[1] for query in asked if "SELECT DISTINCT ?class ?label" in query]
    assert pages == ["0", "17", "34", "44"]  # 44 classes


def test_more_solutions_than_a_server_sorts(tmp_path):
    store = pyoxigraph.Store()
    above = pyoxigraph.NamedNode("http://www.w3.org/2000/01/rdf-schema#subClassOf")
    node = pyoxigraph.NamedNode
    store.extend(
        pyoxigraph.Quad(node(f"http://e.org/{n}"), above, node(f"http://e.org/{n + 1}")) for n in range(10_050)
    )
    query = query_text("superclasses")
    assert solutions(store, f"{query}\nLIMIT 1\nOFFSET 10000\n")[0] == 500  # the server has Virtuoso's rule
    with server(lambda query, _: solutions(store, query)) as (address, asked):
        answered = list(Endpoint(address).rows(query))
    assert answered == list(LocalStore("the same", store).rows(query))
    assert len(answered) == 10_050
    assert [re.search(r"^OFFSET (\d+)$", page, re.MULTILINE)[1] for page in asked] == ["0", "10000", "10050"]


def test_pages_beyond_what_a_server_sorts_give_the_same_folder(tmp_path, town, monkeypatch):
    monkeypatch.setattr(sources, "SORTED", 30)
    with server(lambda query, _: solutions(store_of(TOWN), query, cap=17, sort=30)) as (address, asked):
        built = build_ontology(
            OntologyBuildOptions(endpoint=[address], page=20, out=tmp_path / "out", patterns=PATTERNS)
        )
    assert built[1:] == town[1:]
    pages = [
        re.search(r"^LIMIT (\d+)\nOFFSET (\d+)$", query, re.MULTILINE).groups()
        for query in asked
        if "SELECT DISTINCT ?class ?label" in query
    ]
    assert pages == [("20", "0"), ("13", "17"), ("20", "30"), ("20", "44")]  # 13 are left of 30 that are sorted


def test_a_server_that_sorts_less_is_not_asked_again(tmp_path):
    refused = pytest.raises(BadInput, match=mentions("SR353", "--input"))
    with server(lambda query, _: solutions(store_of(TOWN), query, sort=100)) as (address, asked), refused:
        build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "out", patterns=PATTERNS))
    assert len(asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_forgets_the_offset_is_named(tmp_path, monkeypatch):
    """Virtuosos older than December 2023, where a sub-select is DISTINCT: pages begin at the first solution."""
    monkeypatch.setattr(sources, "SORTED", 30)

    def forgetful(query, _):
        wrapped = re.sub(r"OFFSET \d+\n$", "OFFSET 0\n", query) if "SELECT * {" in query else query
        return solutions(store_of(TOWN), wrapped)

    refused = pytest.raises(BadInput, match=mentions("20", "--input"))
    with server(forgetful) as (address, _), refused:
        build_ontology(OntologyBuildOptions(endpoint=[address], page=20, out=tmp_path / "out", patterns=PATTERNS))


def test_two_endpoints_and_a_file_are_one_ontology(tmp_path):
    folder = tmp_path / "in"
    dumps(folder)
    whole = build_ontology(OntologyBuildOptions(input=[folder], out=tmp_path / "whole"))
    (tmp_path / "wikidata.ttl").write_text(WIKIDATA, encoding="utf-8")
    wikidata = store_of(tmp_path / "wikidata.ttl")
    with server(lambda query, _: solutions(wikidata, query)) as (address, _):
        files = [folder / "ontology.owl", folder / "instance_types.nt.bz2"]
        built = build_ontology(OntologyBuildOptions(input=files, endpoint=[address], out=tmp_path / "out"))
    assert built[1:] == whole[1:]


def busy_twice(_, number):
    store = store_of(TOWN)
    if number <= 2:
        return 429 if number == 1 else 503, "text/html", b"<html>later</html>", ("Retry-After", "0")
    return solutions(store, _)


def test_busy_endpoint_is_asked_again(tmp_path, town):
    with server(busy_twice) as (address, asked):
        built = build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "out", patterns=PATTERNS))
    assert built[1:] == town[1:]
    assert asked[0] == asked[1] == asked[2]


def slow(query, number):
    time.sleep(1)
    return 200, "application/json", b"{}"


@pytest.mark.parametrize(
    ("answer", "message", "requests"),
    [
        (lambda *_: (200, "text/html", b"<html><title>Query form</title>"), ("text/html", "SPARQL"), 1),
        (lambda *_: (200, "application/json", b'{"results": []}'), ("application/json", "SPARQL"), 1),
        (lambda *_: (200, "application/json", b'{"results": {"bindings": ['), "not with SPARQL results", 1),
        (
            lambda *_: (200, "application/json", b'{"results": {"bindings": [{"evil": {"value": "x"}}]}}'),
            "without ?class",
            1,
        ),
        (
            lambda *_: (400, "text/plain", b"Virtuoso 37000 Error\nSP030: syntax"),
            "status 400: Virtuoso 37000 Error SP030",
            1,
        ),
        (lambda *_: (500, "text/html", b"<html>"), ("status 500", "HTML", "4 attempts"), 4),
        (lambda *_: (504, "text/plain", b""), "status 504: nothing (4 attempts)", 4),
        (slow, ("0.1 s", "--timeout", "4 attempts"), 4),
    ],
    ids=["html", "other json", "cut", "other variables", "refused", "error", "gateway", "slow"],
)
def test_endpoints_that_fail_are_named(tmp_path, answer, message, requests):
    with server(answer) as (address, asked):
        options = OntologyBuildOptions(endpoint=[address], out=tmp_path / "out")
        if answer is slow:
            options = options.model_copy(update={"timeout": 0.1})
        with pytest.raises(BadInput, match=mentions(address, message)):
            build_ontology(options)
        assert len(asked) == requests
    assert list(tmp_path.iterdir()) == []


def test_nobody_at_the_address(tmp_path):
    with server(slow) as (address, _):
        pass
    with pytest.raises(BadInput, match="refused"):
        build_ontology(OntologyBuildOptions(endpoint=[address], out=tmp_path / "out"))
    with pytest.raises(BadInput, match="address of a server"):
        Endpoint("dbpedia.org/sparql")


# The command


def test_command(tmp_path, fathom):
    code, out, err = fathom("build", "ontology", "--input", TOWN, "--out", tmp_path / "out", "--instances", "1")
    assert code == 0, err
    assert "subPropertyOf     25     10   10     5" in out
    assert stated(err, "note: 2 properties", "no domain", "location")
    next_line = out.splitlines()[-1]
    assert f"fathom probe ontology --data {tmp_path / 'out'}" in next_line
    save(tmp_path / "bert", bert(640), *(file.read_text() for file in (TOWN, PATTERNS)))
    words = shlex.split(next_line[next_line.index("probe ontology") :])
    for place in (tmp_path / "bert", tmp_path / "run"):
        words[words.index("…")] = str(place)
    code, _, err = fathom(*words, "--limit", "20")
    assert code == 0, err
    code, _, err = fathom("build", "ontology", "--input", TOWN, "--out", tmp_path / "out", "--endpoint", "ftp://a")
    assert code == 2
    assert mentioned(err, "--endpoint 'ftp")

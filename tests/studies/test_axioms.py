"""What follows from axioms of properties, what must not follow from disjoint classes, and who sees it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.ontology import AXIOM_FILE, KINDS, Axioms, read_axioms, write_axioms
from fathom.data.formats.ontoprobe import OntologyClass, OntologyProperty, read_patterns, task_lines, write_ontoprobe
from fathom.data.prompts.alterations import (
    ANOTHER_FIRST,
    ANOTHER_SECOND,
    ANSWERS_EXCHANGED,
    COMBINES,
    NEGATED_FIRST,
    NEGATED_SECOND,
    OTHER_SUBJECT,
    SUBJECTS_EXCHANGED,
    VERB_SECOND,
    WHOLE,
    WITHOUT_FIRST,
    WITHOUT_SECOND,
    needed,
)
from fathom.data.prompts.axioms import axiom_items, axiom_queries
from fathom.engine.models.base import Attention
from fathom.results.tables import render
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning import chains
from tests.answerers import answer_slots
from tests.build.test_ontology_build import HEAD
from tests.conftest import build, make_local
from tests.messages import correspond, mentions
from tests.probes.test_cloze import KINDS as MODELS
from tests.probes.test_cloze import SHAPE
from tests.reasoners import draw

MODEL = "BertForMaskedLM"
NAMES = [f"rel{number}" for number in range(80)]
AXIOMS = Axioms(
    inverse=[(NAMES[number], NAMES[number + 1]) for number in range(0, 60, 2)],
    symmetric=NAMES[:40],
    transitive=NAMES[40:],
    disjoint=[tuple(f"kind{number}" for number in range(group, 60, 10)) for group in range(10)],
)


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("family") / "ontology-of-relatives"
    (out / "ontology").mkdir(parents=True)
    classes = [OntologyClass(f"http://x/kind{number}", f"kind{number}", ("thing",), ()) for number in range(60)]
    classes.append(OntologyClass("http://x/thing", "thing", (), ()))
    properties = [
        OntologyProperty((f"http://x/{name}",), name, ("thing",), ("thing",), {}, f"[X] {name} [Y] .") for name in NAMES
    ]
    lines = task_lines(classes, properties)
    write_ontoprobe(out, classes, properties, [], {task: lines[task] for task in ("subClassOf", "domain", "range")})
    write_axioms(out, AXIOMS)
    return out


def texts(folder, kind, form="plain"):
    """Of the first item, for the first pair, in the usual order of premises."""
    data, patterns = read(folder), read_patterns(folder)
    found = axiom_items(data, patterns, kind, getattr(read_axioms(folder), kind))
    queries = axiom_queries(data, patterns, {kind: found}, ("plain", "paraphrased", "shuffled"), 2, 0).queries
    usual = {"item": f"{kind}/0", "pair": "0", "order": "0", "form": form}
    return {query.groups["given"]: query for query in queries if usual.items() <= query.groups.items()}


def said(folder, kind, form="plain"):
    return {given: query.sentences[0].text for given, query in texts(folder, kind, form).items()}


def test_texts_by_hand(family):
    inverse = said(family, "inverse")
    rule = "If one thing rel0 another , the other rel1 the one ."
    assert inverse[WHOLE] == f"{rule} <x> rel0 <y> . Therefore, <y> [Y] <x> ."
    assert inverse[WITHOUT_SECOND] == f"{rule} Therefore, <y> [Y] <x> ."
    assert inverse[OTHER_SUBJECT] == f"{rule} <z> rel0 <w> . Therefore, <y> [Y] <x> ."
    assert inverse[WITHOUT_FIRST] == "<x> rel0 <y> . Therefore, <y> [Y] <x> ."
    assert re.fullmatch(
        rf"{re.escape(rule)} <x> rel(?!0 |1 )\d+ <y> \. Therefore, <y> \[Y\] <x> \.", inverse[ANOTHER_SECOND]
    )
    assert (
        re.fullmatch(r"If one thing (rel\d+) another , the other rel1 the one \. .*", inverse[ANOTHER_FIRST])[1]
        != "rel0"
    )
    assert inverse[SUBJECTS_EXCHANGED].endswith("<z> rel0 <w> . Therefore, <y> [Y] <x> .")
    untrue = "It is not true that"
    assert inverse[NEGATED_FIRST] == f"{untrue} if{rule[2:]} <x> rel0 <y> . Therefore, <y> [Y] <x> ."
    assert inverse[VERB_SECOND] == f"{rule} Nobody knows whether <x> rel0 <y> . Therefore, <y> [Y] <x> ."
    assert texts(family, "inverse")[WHOLE].gold == ("rel1",)
    assert all({WHOLE, *needed(COMBINES, kind)} == set(texts(family, kind)) for kind in KINDS)
    symmetric = said(family, "symmetric", "paraphrased")
    assert symmetric[WHOLE] == "Rel0 holds both ways . <x> rel0 <y> . Therefore, <y> [Y] <x> ."
    transitive = said(family, "transitive")
    rule = "If one thing rel40 another , and the other rel40 a third , the one rel40 the third ."
    assert transitive[WHOLE] == f"{rule} <x> rel40 <y> . <y> rel40 <z> . Therefore, <x> [Y] <z> ."
    assert transitive[NEGATED_SECOND] == f"{rule} {untrue} <x> rel40 <y> . <y> rel40 <z> . Therefore, <x> [Y] <z> ."
    assert transitive[OTHER_SUBJECT] == f"{rule} <x> rel40 <y> . <w> rel40 <z> . Therefore, <x> [Y] <z> ."
    disjoint = said(family, "disjoint")
    assert disjoint[WHOLE] == "No kind0 is a kind10 . <x> is a kind0 . Therefore, <x> is a particular [Y] ."
    other = re.fullmatch(r"No kind0 is a (kind\d+) \. No (kind\d+) is a kind10 \. .*", disjoint[ANSWERS_EXCHANGED])
    assert other
    assert not {"kind0", "kind10"} & set(other.groups())
    query = texts(family, "disjoint")[WHOLE]
    assert (query.gold, set(query.known)) == (("kind10",), {"kind0", "thing"})
    assert len(said(family, "disjoint", "shuffled")[WHOLE].split(" . ")) == 5


def test_patterns_that_begin_with_an_owner(family):
    patterns = {"domain": {"mother": "[X]'s mother is [Y] .", "child": "[X] is a child of [Y] ."}}
    [one, other] = axiom_items(read(family), patterns, "inverse", [("child", "mother")])
    assert one.fact.plain == "If one thing is a child of another , the other's mother is the one ."
    assert other.fact.plain == "If one thing's mother is another , the other is a child of the one ."
    assert axiom_items(read(family), {"domain": {"child": "Of [Y] is [X] ."}}, "symmetric", ["child"]) == []
    half = {"domain": {"mother": "[X]'s mother is [Y] .", "child": "Of [Y] is [X] ."}}
    assert axiom_items(read(family), half, "inverse", [("child", "mother")]) == [], "either way one has no words"


def test_disjoint_pairs_are_asked_both_ways_but_of_what_follows(family):
    """Whatever is a kind0 is a thing, whatever else is said: that it is none cannot be asked."""
    pairs = [("kind0", "kind10"), ("kind0", "thing"), ("kind0", "unknown")]
    found = axiom_items(read(family), {}, "disjoint", pairs)
    assert [(item.name, item.gold) for item in found] == [("kind0", "kind10"), ("kind10", "kind0"), ("thing", "kind0")]


def test_another_beginning_says_nothing_of_what_is_above(family):
    """Whatever is a kind0 or a kind10 is a thing: what is said of things says something of them, and the other way
    round. Of kind20 and kind30 neither says anything."""
    data = read(family)
    given = {}
    for more in ((), (("kind20", "kind30"),)):
        found = axiom_items(data, {}, "disjoint", [("kind0", "kind10"), ("thing", "kind40"), *more])
        queries = axiom_queries(data, {}, {"disjoint": found}, ("plain",), 1, 0).queries
        given[len(found)] = {query.subject for query in queries if query.groups["given"] == ANOTHER_SECOND}
    assert given == {3: set(), 5: {"kind0", "kind10", "kind20", "kind30"}}


# ---------------------------------------------------------------------------------------------------- who sees it


def scores(query, names, right):
    return [float(name in right) + draw(query.id, name) / 2 for name in names]


def by_lot(query, names):
    return scores(query, names, ())


def constant(query, names):
    return [-place for place, _ in enumerate(names)]


def copies(query, names):
    """Whatever is in the text."""
    return scores(query, names, set(re.findall(r"\w+", query.sentences[0].text.lower())))


def reasons(query, names):
    """Draws the conclusion of each kind in any wording and order; ignores negated, doubted and weakened sentences."""
    sentences = query.sentences[0].text.lower().split(" . ")
    ignored = "it is not true that", "nobody knows whether", "some "
    text = " . ".join(sentence for sentence in sentences if not sentence.startswith(ignored))
    found = dict(re.findall(r"if one thing (\w+) another , the other (\w+) the one", text))
    for one, other in re.findall(r"(\w+) is the inverse of (\w+) \.", text):
        found[one] = other
    found |= {name: name for name in re.findall(r"(\w+) holds both ways", text)}
    links = re.findall(r"(<.>) (rel\d+) (<.>)", text)
    right = {found[name] for x, name, y in links if (x, y) == ("<x>", "<y>") and name in found}
    whole = set(re.findall(r"the one (\w+) the third|(\w+) is transitive", text))
    for name in {one or other for one, other in whole}:
        if {("<x>", name, "<y>"), ("<y>", name, "<z>")} <= set(links):
            right.add(name)
    own = re.findall(r"<x> (?:is a|belongs to the class) (\w+) \.", text)
    pairs = re.findall(r"no (\w+) is a (\w+) \.", text) + re.findall(r"whatever is a (\w+) is not a (\w+) \.", text)
    wrong = {other for one, other in pairs if one in own}
    return [score - 2 * (name in wrong) for score, name in zip(scores(query, names, right), names, strict=True)]


@pytest.fixture(scope="module")
def small():
    tokenizer = MODELS[MODEL](
        [*NAMES, "thing Therefore, is a particular", *(f"kind{number}" for number in range(60))] * 3
    )
    network = build(MODEL, vocab_size=len(tokenizer), **SHAPE | {"max_position_embeddings": 250})
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


@pytest.mark.slow
@pytest.mark.parametrize("who", [by_lot, constant, copies, reasons], ids=lambda who: who.__name__)
def test_only_who_reasons_is_said_to_reason(family, small, tmp_path, monkeypatch, who):
    answer_slots(monkeypatch, who, by_lot)
    options = ChainStudyOptions(rules=(), axioms=KINDS, limit=36)
    found = chains.analyse([("who", lambda: small)], family, options, tmp_path, lambda name: lambda done, total: None)
    verdicts = {(one.evidence.rule_and_depth, one.evidence.prompt): one.decision.word for one in found.conclusions}
    assert len(verdicts) == len(KINDS) * 3
    assert {line["items"] for line in found.lines} == {36}
    if who is reasons:
        assert set(verdicts.values()) == {"significant"}
        whole = {line["rule"]: line["whole"].value for line in found.lines}
        assert all(value == 1 for value in whole.values())  # of disjoint ones: last of all
    else:
        assert set(verdicts.values()) <= {"no significant difference", "cannot be determined"}
    assert "must not follow" in render(chains.tables(found), "text")
    assert chains.plots(found) == []  # nothing has depth


# ---------------------------------------------------------------------------------------------------- files


def test_what_is_built_from_owl(tmp_path, monkeypatch):
    pytest.importorskip("pyoxigraph")
    from fathom_build.ontology import build_ontology
    from fathom_build.options import OntologyBuildOptions

    monkeypatch.setattr("fathom_build.ontology.build.LEAST_ITEMS", 1)
    source = tmp_path / "kin.ttl"
    source.write_text(
        HEAD
        + """
:Bird a o:Class ; r:label "bird" . :Fish a o:Class ; r:label "fish" . :Cat a o:Class ; r:label "cat" .
:Cat o:disjointWith :Fish . [] a o:AllDisjointClasses ; o:members ( :Bird :Fish :Cat ) .
:parentOf a o:ObjectProperty ; r:label "parent of" ; r:domain :Bird ; o:inverseOf :childOf .
:childOf a o:ObjectProperty ; r:label "child of" ; r:domain :Bird .
:near a o:ObjectProperty , o:SymmetricProperty ; r:label "near" ; r:domain :Bird .
:within a o:ObjectProperty , o:TransitiveProperty ; r:label "within" ; r:domain :Bird .
"""
    )
    build_ontology(OntologyBuildOptions(input=[source], out=tmp_path / "kin"))
    assert read_axioms(tmp_path / "kin") == Axioms(
        [("child of", "parent of")], ["near"], ["within"], [("bird", "cat", "fish"), ("cat", "fish")]
    )
    source.write_text(HEAD + ':Cat a o:Class ; r:label "cat" . :p a o:ObjectProperty ; r:label "p" ; r:domain :Cat .')
    build_ontology(OntologyBuildOptions(input=[source], out=tmp_path / "none"))
    assert not (tmp_path / "none" / AXIOM_FILE).exists()
    assert not any(read_axioms(tmp_path / "none"))


def test_bad_input_is_one_line(family, tmp_path, small, fathom):
    (tmp_path / "ontology").mkdir()
    (tmp_path / AXIOM_FILE).write_text(json.dumps({"inverse": [["a"]]}))
    with pytest.raises(BadInput, match=r'axioms.json: expected \{"inverse"'):
        read_axioms(tmp_path)
    plain = tmp_path / "plain"
    (plain / "ontology").mkdir(parents=True)
    for file in (*(family / "memorizing").iterdir(), *(family / "ontology").iterdir()):
        if file.name != AXIOM_FILE.name:
            (plain / file.parent.name).mkdir(exist_ok=True)
            (plain / file.parent.name / file.name).write_bytes(file.read_bytes())
    options = ChainStudyOptions(rules=(), axioms=("inverse",))
    with pytest.raises(BadInput, match=mentions("--axioms inverse", "0", "2")):
        chains.analyse([("m", lambda: small)], plain, options, tmp_path / "o", print)
    code, _, said = fathom("study", "chains", "--model", "m", "--data", plain, "--axioms", "reflexive", "--out", "o")
    assert code == 2
    assert "reflexive" in said or "'inverse'" in said


def test_a_kind_that_is_not_stated_is_noted_and_the_others_are_asked(family, small, tmp_path, monkeypatch):
    """And a table shows no column in which nothing stands; programs have it."""

    answer_slots(monkeypatch, by_lot, by_lot)
    some = tmp_path / "some"
    shutil.copytree(family, some)
    write_axioms(some, Axioms([("rel0", "rel1")], ["rel2"], [], []))
    said = {"rules": (), "forms": ("plain",), "untrained": 0, "limit": 4}
    options = ChainStudyOptions(axioms=("transitive", "inverse", "symmetric"), **said)
    found = chains.analyse(
        [("who", lambda: small)], some, options, tmp_path / "o", lambda name: lambda done, total: None
    )
    assert correspond(
        found.notes[:2],
        ("--axioms transitive", "some", "0 items", "2 are"),
        ("--axioms symmetric", "some", "1 items", "2 are"),
    )
    assert [(line["rule"], line["items"]) for line in found.lines] == [("inverse", 2)]
    tables = chains.tables(found)
    assert found.notes[0] in render(tables, "text")
    told, hidden = ({name for table in tables for name in own(table)} for own in (_shown, lambda table: table.hidden))
    empty = {"gain over unremembered items", "gain over untrained twins", "less the first form"}
    assert empty <= hidden
    assert not empty & told
    assert {"gain", "best altered", "verdict"} <= told
    neither = ChainStudyOptions(axioms=("transitive", "symmetric"), **said)
    with pytest.raises(BadInput) as caught:
        chains.analyse([("who", lambda: small)], some, neither, tmp_path / "p", print)
    assert [line.partition(":")[0] for line in caught.value.faults] == ["--axioms transitive", "--axioms symmetric"]


def _shown(table):
    return set(table.columns) - table.hidden

"""LAMA and BioLAMA: two readings of the same facts, the rules that choose a sentence, and every count by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.base.errors import BadInput
from fathom.cli import make_app
from fathom.data.formats import examine, read
from fathom.data.formats.lama import TREX_RELATIONS
from fathom.data.queries import Query, QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.selection.readings import ReadingCounts, apply_reading, asked, reading_faults
from fathom.data.statistics import relation_statistics
from fathom.data.templates import Sentence
from tests.messages import correspond, mentioned, mentions, stated


def write(file: Path, lines: list) -> Path:
    """A file of JSON lines; text is written as it is. A name in ``.gz`` is packed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "wt", encoding="utf-8") as out:
        out.write(text)
    return file


def evidence(sentence: str, surface: str) -> dict:
    return {"sub_surface": "Koke", "obj_surface": surface, "masked_sentence": sentence}


def trex(**fields: object) -> dict:
    about = {
        "uuid": "u1",
        "predicate_id": "P413",
        "sub_uri": "Q1",
        "sub_label": "Koke",
        "obj_uri": "Q2",
        "obj_label": "midfielder",
        "evidences": [evidence("Koke plays as [MASK].", "midfielder")],
    }
    return about | fields


def trex_folder(root: Path, rows: list, templates: list | None = None) -> Path:
    """LAMA's layout: templates stand above the folder."""
    plays = {"relation": "P413", "template": "[X] plays in [Y] position .", "label": "position played", "type": "N-1"}
    write(root / "relations.jsonl", [plays] if templates is None else templates)
    write(root / "TREx" / "P413.jsonl.gz", rows)
    return root / "TREx"


KOKE = trex(
    evidences=[
        evidence("Koke plays as Midfielder / [MASK] for Curico.", "Winger"),
        evidence("Koke is a [MASK].", "midfielder"),
        evidence("Koke is a [MASK].", "midfielder"),  # stands twice
        evidence("Koke, a [MASK], is a [MASK].", "midfielder"),  # two masks
        evidence("Koke plays.", "midfielder"),  # no mask
        evidence("[MASK] Koke scored.", "midfielder"),
        evidence("[MASK] Koke rested.", "Midfielder"),  # another spelling than the label's is another surface
    ]
)


def only(data: QuerySet) -> Query:
    (query,) = data.queries
    return query


def texts(data: QuerySet, **how: bool) -> list[str]:
    return [sentence.text for sentence in only(apply_reading(data, "template-free", **how)).sentences]


def test_a_fact_has_its_template_and_its_sentences(tmp_path):
    data = read(trex_folder(tmp_path, [KOKE]))
    query = only(data)
    assert (query.id, query.fact_id, query.subject) == ("u1", "Q1|P413|Q2", "Koke")
    assert query.sentences == (
        Sentence("Koke plays as Midfielder / [Y] for Curico.", "Winger"),
        Sentence("Koke is a [Y].", "midfielder"),
        Sentence("[Y] Koke scored.", "midfielder"),
        Sentence("[Y] Koke rested.", "Midfielder"),
    )
    relation = data.relations["P413"]
    assert ([template.text for template in relation.templates], relation.name) == (
        ["[X] plays in [Y] position ."],
        "position played",
    )
    assert query.groups == {"cardinality": "1:1", "type": "N-1"}
    assert (data.name, data.licence) == ("TREx", "CC BY-NC 4.0")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, ["Koke is a [Y]."]),
        ({"all_sentences": True}, ["Koke is a [Y].", "[Y] Koke scored."]),
        ({"any_surface": True}, ["Koke plays as Midfielder / [Y] for Curico."]),
        (
            {"any_surface": True, "all_sentences": True},
            ["Koke plays as Midfielder / [Y] for Curico.", "Koke is a [Y].", "[Y] Koke scored.", "[Y] Koke rested."],
        ),
    ],
)
def test_which_sentences_are_asked(tmp_path, how, expected):
    assert texts(read(trex_folder(tmp_path, [KOKE])), **how) == expected


def test_what_is_left_out_is_named_and_counted(tmp_path):
    folder = trex_folder(tmp_path, [trex(uuid="u0", sub_uri="Q0"), KOKE])
    notes = read(folder).notes
    file = folder / "P413.jsonl.gz"
    assert stated(notes, f"{file}: ", "several masks", "1 (lines 2)")
    assert stated(notes, f"{file}: ", "no mask", "1 (lines 2)")
    assert stated(notes, f"{folder}: ", "repeat", "left out: 1")
    missing = " ".join(id_ for id_ in TREX_RELATIONS if id_ != "P413")
    assert stated(notes, f"{folder}: ", "40 of LAMA's 41 relations", missing)


def test_a_sentence_with_the_signs_of_a_template_is_left_out(tmp_path):
    data = read(trex_folder(tmp_path, [trex(evidences=[evidence("[X] is a [MASK].", "midfielder")])]))
    assert only(data).sentences == ()
    assert stated(data.notes, "[X] or [Y]", "left out: 1 (lines 1)")


def test_a_fact_without_a_fitting_sentence_stays_with_the_reason(tmp_path):
    rows = [
        trex(uuid="a", sub_uri="Qa", evidences=[evidence("He is a [MASK].", "Winger")]),
        trex(uuid="b", sub_uri="Qb", evidences=[evidence("No mask.", "midfielder")]),
        trex(uuid="c", sub_uri="Qc"),
    ]
    data = read(trex_folder(tmp_path, rows))
    free = apply_reading(data, "template-free")
    assert correspond([query.unscored for query in free.queries], "--any-surface", "one mask", None)
    # Three facts by template; one sentence (c) masks the name, two (a, c) mask something.
    assert asked(data) == {"P413": ReadingCounts(3, 3, 1, 1, 2, 2)}
    assert ReadingCounts.total([ReadingCounts(1, 2, 3, 4, 5, 6), ReadingCounts(1, 1, 1, 1, 1, 1)]) == ReadingCounts(
        2, 3, 4, 5, 6, 7
    )


def test_both_readings_have_the_same_facts(tmp_path):
    data = read(trex_folder(tmp_path, [KOKE, trex(uuid="u2", sub_uri="Q9", evidences=[])]))
    readings = [
        select(data, Selection(reading=reading)).data for reading in ("template-based", "template-free", "auto")
    ]
    based, free, auto = ([query.fact_id for query in reading.queries] for reading in readings)
    assert based == free == auto == ["Q1|P413|Q2", "Q9|P413|Q2"]
    assert all(not query.sentences for query in readings[0].queries)
    assert readings[1].relations["P413"].templates == ()
    assert [len(readings[1].phrasings(query)) for query in readings[1].queries] == [1, 0]
    assert [query.groups for query in readings[0].queries] == [query.groups for query in readings[1].queries]


def test_a_relation_without_a_template_among_others(tmp_path):
    folder = trex_folder(tmp_path, [trex()])
    write(folder / "P19.jsonl", [trex(uuid="u9", predicate_id="P19", obj_uri="Q90", obj_label="Paris")])
    data = read(folder)
    assert stated(data.notes, "P19", "by sentence")
    by_template = {query.relation: query.unscored for query in apply_reading(data, "template-based").queries}
    assert by_template["P413"] is None
    assert "no template" in by_template["P19"]
    auto = {query.relation: query for query in apply_reading(data, "auto").queries}
    assert (len(auto["P413"].sentences), auto["P413"].unscored) == (0, None)
    assert "--any-surface" in auto["P19"].unscored


def test_other_answers_of_a_subject_are_known(tmp_path):
    rows = [
        trex(uuid="a"),
        trex(uuid="b", obj_uri="Q3", obj_label="winger"),
        trex(uuid="c", sub_uri="Q7", obj_uri="Q4", obj_label="pitcher"),
    ]
    data = read(trex_folder(tmp_path, rows))
    assert [(query.gold, query.known) for query in data.queries] == [
        (("Q2",), ("Q3",)),
        (("Q3",), ("Q2",)),
        (("Q4",), ()),
    ]
    assert dict(data.candidates["P413"].named()) == {"Q2": "midfielder", "Q3": "winger", "Q4": "pitcher"}


def test_one_name_is_one_candidate_and_one_id_has_one_name(tmp_path):
    rows = [
        trex(uuid="a"),
        trex(uuid="b", sub_uri="Q7", obj_uri="Q20"),  # another "midfielder"
        trex(uuid="c", sub_uri="Q8", obj_uri="Q3", obj_label="winger"),
        trex(uuid="d", sub_uri="Q9", obj_uri="Q3", obj_label="wing player"),
        trex(uuid="e", obj_uri="Q20"),  # the subject of the first line, and an answer of the same name
    ]
    folder = trex_folder(tmp_path, rows)
    data = read(folder)
    assert dict(data.candidates["P413"].named()) == {"midfielder": "midfielder", "Q3": "winger"}
    assert [query.gold for query in data.queries] == [("midfielder",)] * 2 + [("Q3",)] * 2 + [("midfielder",)]
    assert data.queries[0].known == ()
    notes = "\n".join(data.notes)
    assert mentioned(notes, f"{folder}: ", "'midfielder' (Q2, Q20)", "Q3 ('winger', 'wing player')")
    # Both lines on Q1 now say the same: each stays a query, with the other's fact_id.
    assert "lines: Q1|P413|midfielder;" in notes


def test_ids_of_queries_differ(tmp_path):
    data = read(trex_folder(tmp_path, [trex(), trex(sub_uri="Q8"), trex(uuid="", sub_uri="Q9")]))
    assert [query.id for query in data.queries] == ["u1", "u1/1", "P413/2"]
    assert stated(data.notes, "P413.jsonl.gz:2:", " u1 ", "u1/1")


def test_facts_without_names_are_kept_as_unscored(tmp_path):
    rows = [trex(uuid="a", sub_label=" "), trex(uuid="b", sub_uri="Q7", obj_uri="Q9", obj_label=""), trex(uuid="c")]
    data = read(trex_folder(tmp_path, rows))
    assert correspond([query.unscored for query in data.queries], "the subject", "the answer", None)
    assert data.candidates["P413"].names == ("midfielder",)
    assert stated(data.notes, "P413.jsonl.gz:2:", "unscored")
    # "midfielder" is asked in two queries, one of them unscored: one name of one token is counted.
    (row,) = relation_statistics(data, lambda names: [1 for _ in names])
    assert row.single_token == (1.0, 1.0)


def test_facts_without_evidences(tmp_path):
    """ParaRel's files have labels alone: they are the ids. The uuid is that of T-REx, so queries have the same id."""
    rows = [{"uuid": "u1", "sub_label": "Koke", "obj_label": "midfielder"}]
    folder = trex_folder(tmp_path, [KOKE])
    write(tmp_path / "TREx_facts" / "P413.jsonl", rows)
    facts, whole = read(tmp_path / "TREx_facts"), read(folder)
    assert (only(facts).id, only(facts).fact_id) == (only(whole).id, "Koke|P413|midfielder")
    assert facts.relations == whole.relations
    assert correspond(reading_faults(facts, "template-free"), ("--reading template-free", "TREx_facts"))
    assert any("no natural sentences" in note for note in facts.notes)


def test_a_file_alone(tmp_path):
    folder = trex_folder(tmp_path, [KOKE])
    alone = read(folder / "P413.jsonl.gz")
    assert (alone.name, only(alone).sentences) == ("P413", only(read(folder)).sentences)
    assert alone.relations == read(folder).relations


def test_the_whole_folder_says_what_to_choose(tmp_path):
    folder = trex_folder(tmp_path, [KOKE])
    with pytest.raises(BadInput, match="several data sets") as error:
        read(tmp_path)
    assert str(folder) in str(error.value)


def test_other_templates_in_the_folder_itself(tmp_path):
    folder = trex_folder(tmp_path, [KOKE])
    mined = [{"relation": "P413", "template": text} for text in ("[X], a [Y]", "[Y] [X]", "[Y] [X]")]
    write(folder / "relations.jsonl", [*mined, {"relation": "P19", "templates": ["[X] of [Y]"]}])
    data = read(folder)
    assert [template.text for template in data.relations["P413"].templates] == ["[X], a [Y]", "[Y] [X]"]
    assert stated(data.notes, "relations.jsonl:3:", "'[Y] [X]'", "P413")


def google(**fields: object) -> dict:
    about = {
        "pred": "/people/person/date_of_birth",
        "sub": "/m/1",
        "obj": "1941-12-24",
        "uuid": "g1",
        "evidences": [{"url": "…", "snippet": "…"}],
        "sub_label": "Peter",
        "obj_label": "1941",
        "obj_aliases": ["forty-one"],
        "masked_sentences": ["He was a man .", "Peter (born [MASK]) is a [MASK] .", "Peter (born [MASK]) ."],
    }
    return about | fields


def test_google_re(tmp_path):
    rows = [google(), google(uuid="g2", sub="/m/2", obj="1941")]
    file = write(tmp_path / "Google_RE" / "date_of_birth_test.jsonl.gz", rows)
    data = read(file.parent)
    first = data.queries[0]
    assert first.sentences == (Sentence("Peter (born [Y]) ."),)
    assert [template.text for template in data.relations["date_of_birth"].templates] == ["[X] (born [Y])."]
    # Two dates of one year are one answer, whose id is its name.
    assert first.fact_id == "/m/1|date_of_birth|1941"
    assert data.candidates["date_of_birth"].ids == ("1941",)
    assert stated(data.notes, f"{file}: ", "no mask", "2 (lines 1, 2)")
    assert stated(data.notes, f"{file}: ", "several masks", "2 (lines 1, 2)")
    assert data.graph is not None
    assert dict(zip(*(data.graph.entities.column(name).to_pylist() for name in ("id", "aliases")), strict=True)) == {
        "/m/1": [],
        "/m/2": [],
        "1941": ["forty-one"],
    }
    assert [query.fact_id for query in apply_reading(data, "template-free").queries] == [
        query.fact_id for query in apply_reading(data, "template-based").queries
    ]


def test_google_re_takes_templates_of_a_file(tmp_path):
    write(tmp_path / "date_of_birth_test.jsonl", [google()])
    write(tmp_path / "relations.jsonl", [{"relation": "date_of_birth", "template": "[X], *[Y]"}])
    assert [template.text for template in read(tmp_path).relations["date_of_birth"].templates] == ["[X], *[Y]"]


def test_squad_has_no_subjects(tmp_path):
    rows = [
        {"masked_sentences": ["The [MASK] color was used."], "obj_label": "gold", "id": "s1", "sub_label": "Squad"},
        {"masked_sentences": ["[MASK] and [MASK]."], "obj_label": "red", "id": "s2", "sub_label": "Squad"},
    ]
    write(tmp_path / "Squad" / "test.jsonl", rows)
    data = read(tmp_path / "Squad")
    assert [(query.id, query.subject, query.subject_id, query.fact_id) for query in data.queries] == [
        ("s1", "", "", None),
        ("s2", "", "", None),
    ]
    assert data.graph is None
    assert correspond([query.unscored for query in apply_reading(data, "auto").queries], None, "one mask")
    assert correspond(reading_faults(data, "template-based"), ("--reading template-based", "Squad"))


def test_conceptnet(tmp_path):
    """Fields as the public data card of LAMA lists them; ``sub`` may be missing."""
    sentences = ["One of the things you do when you are alive is [MASK]."]
    alive = {"uuid": "c1", "sub": "alive", "obj": "think", "pred": "HasSubevent", "obj_label": "think"}
    rows = [
        alive | {"masked_sentences": sentences, "negated": [""]},
        {"uuid": "c2", "pred": "UsedFor", "obj_label": "cutting", "masked_sentences": ["A knife is for [MASK]."]},
    ]
    write(tmp_path / "ConceptNet" / "test.jsonl", rows)
    data = read(tmp_path / "ConceptNet")
    assert [(query.subject, query.fact_id) for query in data.queries] == [
        ("alive", "alive|HasSubevent|think"),
        ("", None),
    ]
    assert [query.unscored for query in apply_reading(data, "template-free").queries] == [None, None]
    assert {id_: space.names for id_, space in data.candidates.items()} == {
        "HasSubevent": ("think",),
        "UsedFor": ("cutting",),
    }


@pytest.mark.parametrize(
    ("rows", "templates", "expected"),
    [
        (["{", trex()], None, "P413.jsonl.gz:1: not JSON"),
        ([{"sub_label": "Koke"}], None, "P413.jsonl.gz:1: 'obj_label' is missing"),
        ([trex(obj_label=None)], None, ("P413.jsonl.gz:1:", "'obj_label'", "text", "null")),
        ([trex(obj_uri=5)], None, ("P413.jsonl.gz:1:", "'obj_uri'", "5")),
        ([trex(evidences=["He is a [MASK]."])], None, "P413.jsonl.gz:1: expected 'evidences'"),
        ([trex(evidences=[{"obj_surface": "x"}])], None, "P413.jsonl.gz:1: expected 'evidences'"),
        ([], None, "P413.jsonl.gz: no facts"),
        ([trex(obj_label="")], None, ("P413", "no answer")),
        ([trex()], [{"relation": "P413", "template": "[X] plays."}], ("relations.jsonl:1:", "'[X] plays.'")),
        ([trex()], [{"relation": "P413"}], "relations.jsonl:1: expected 'template'"),
        ([trex()], [{"template": "[X] [Y]"}], "relations.jsonl:1: 'relation' is missing"),
    ],
)
def test_faults(tmp_path, rows, templates, expected):
    with pytest.raises(BadInput) as error:
        read(trex_folder(tmp_path, rows, templates))
    assert mentioned(str(error.value), expected)


def test_all_faults_at_once(tmp_path):
    folder = trex_folder(tmp_path, ["{", {"sub_label": "Koke"}], [{"relation": "P413", "template": "no places"}])
    _, faults = examine(folder)
    assert len(faults.found) == 3


def test_a_file_beside_its_packed_self(tmp_path):
    folder = trex_folder(tmp_path, [trex()])
    write(folder / "P413.jsonl", [trex()])
    with pytest.raises(BadInput, match=mentions("P413.jsonl.gz", "P413.jsonl:")):
        read(folder)


def test_a_file_that_is_not_packed_as_its_name_says(tmp_path):
    folder = trex_folder(tmp_path, [trex()])
    file = folder / "P413.jsonl.gz"
    whole = file.read_bytes()
    for broken in (b"plain text", whole[:-9], whole[:20] + b"\xff\xff\xff" + whole[23:]):
        file.write_bytes(broken)
        _, faults = examine(folder)
        assert len(faults.found) == 1
        assert str(file) in faults.found[0]


@pytest.mark.parametrize("name", ["Squad/test.jsonl", "TREx/P19.jsonl"])
def test_an_empty_file(tmp_path, name):
    write(tmp_path / name, [])
    with pytest.raises(BadInput, match="no facts"):
        read((tmp_path / name).parent)


def test_a_test_file_of_something_else_is_not_lamas(tmp_path):
    write(tmp_path / "test.jsonl", [{"question": "?", "answer": "!"}])
    with pytest.raises(BadInput, match="no format fits"):
        read(tmp_path)


def triple(**fields: object) -> dict:
    about = {
        "uuid": "Q1-P780",
        "predicate_id": "P780",
        "sub_uri": "Q1",
        "sub_label": "fox mange",
        "sub_type": "Q12136",
        "sub_aliases": ["mange of foxes"],
        "obj_uris": ["Q2", "Q3"],
        "obj_labels": ["itch", "hair loss"],
        "obj_types": ["Q4", "Q4"],
        "obj_aliases": [["itching", "pruritus"], []],
    }
    return about | fields


SYMPTOMS = {"source": "wikidata", "relation": "P780", "template": "[X] has symptoms such as [Y]."}


def test_biolama_has_several_answers_with_aliases(tmp_path):
    write(
        tmp_path / "wikidata_triples.jsonl",
        [triple(), triple(uuid="u2", obj_uris=["Q5"], obj_labels=["fever"], obj_aliases=[[]])],
    )
    write(tmp_path / "templates.jsonl", [SYMPTOMS, SYMPTOMS | {"source": "ctd", "template": "[X] of [Y]"}])
    data = read(tmp_path)
    first, second = data.queries
    assert (first.gold, first.known, first.fact_id) == (("Q2", "Q3"), ("Q5",), "Q1|P780|*")
    assert (second.gold, second.known, second.fact_id) == (("Q5",), ("Q2", "Q3"), "Q1|P780|Q5")
    assert first.groups == {"cardinality": "1:1", "source": "wikidata", "answers": "2"}
    assert [template.text for template in data.relations["P780"].templates] == ["[X] has symptoms such as [Y]."]
    assert data.candidates["P780"].names == ("itch", "hair loss", "fever")
    assert data.graph is not None
    assert data.graph.entities.column("aliases").to_pylist()[:3] == [["mange of foxes"], ["itching", "pruritus"], []]
    assert read(tmp_path / "wikidata_triples.jsonl").queries == data.queries


def test_biolama_as_published(tmp_path):
    wikidata = tmp_path / "data" / "wikidata"
    write(wikidata / "prompts" / "manual.jsonl", [{"relation": "P780", "template": "[X] has symptoms such as [Y]."}])
    for split, id_ in (("train", "Q10"), ("dev", "Q11"), ("test", "Q12")):
        write(wikidata / "triples_processed" / "P780" / f"{split}.jsonl", [triple(uuid=id_, sub_uri=id_)])
    ctd = tmp_path / "data" / "ctd"
    write(ctd / "triples_processed" / "CD1" / "test.jsonl", [triple(predicate_id="CD1")])
    data = read(tmp_path / "data")
    assert [(query.relation, query.subject_id, query.groups["source"]) for query in data.queries] == [
        ("CD1", "Q1", "ctd"),
        ("P780", "Q12", "wikidata"),
    ]
    assert data.graph is not None
    # Two answers per line: two triples of train, two of dev, four of test.
    assert data.graph.splits == {"train": range(2), "dev": range(2, 4), "test": range(4, 8)}
    notes = "\n".join(data.notes)
    assert stated(notes, "ctd/prompts/manual.jsonl:", "missing")
    assert [query.id for query in read(wikidata).queries] == ["Q12"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"obj_uris": ["Q2"]}, "wikidata_triples.jsonl:1: 1 obj_uris for 2 obj_labels"),
        ({"obj_uris": [], "obj_labels": []}, "0 obj_uris for 0 obj_labels"),
        ({"obj_aliases": ["itching", "x"]}, ("'obj_aliases'", "list of lists")),
        ({"obj_labels": "itch"}, ("'obj_labels'", "list", "'itch'")),
        ({"obj_labels": ["", " "]}, ("P780", "no answer")),
    ],
)
def test_biolama_faults(tmp_path, fields, expected):
    write(tmp_path / "wikidata_triples.jsonl", [triple(**fields)])
    with pytest.raises(BadInput) as error:
        read(tmp_path)
    assert mentioned(str(error.value), expected)


def test_biolama_keeps_what_has_no_name(tmp_path):
    rows = [triple(uuid="a", obj_labels=["itch", ""]), triple(uuid="b", sub_label="")]
    write(tmp_path / "wikidata_triples.jsonl", [*rows, triple(uuid="c", obj_labels=["", ""], obj_uris=["Q8", "Q9"])])
    data = read(tmp_path)
    assert [(query.gold, query.unscored) for query in data.queries] == [
        (("Q2",), None),
        (("Q2", "Q3"), "the subject has no name"),
        (("Q8", "Q9"), "the answer has no name"),
    ]
    assert stated(data.notes, "wikidata_triples.jsonl:1:", "1 of 2")


def test_the_command_line_counts_both_readings(tmp_path):
    folder = trex_folder(tmp_path, [KOKE, trex(uuid="u2", sub_uri="Q9")])
    for command in ("check", "info"):
        result = CliRunner().invoke(make_app(), ["data", command, str(folder)])
        assert result.exit_code == 0
        # 2 facts, both by template and by sentence; 2 + 1 sentences mask the name, 4 + 1 something.
        assert ["P413", "2", "2", "2", "3", "2", "5"] in [line.split() for line in result.stdout.splitlines()]


REAL = {
    # folder: facts, by template, by sentence, sentences, by any sentence, any sentences
    "TREx": ReadingCounts(22881, 22881, 19224, 90242, 22881, 107624),
    "Google_RE": ReadingCounts(5528, 5528, 5244, 5285, 5244, 5285),
    "Squad": ReadingCounts(305, 0, 302, 302, 302, 302),
    "TREx_facts": ReadingCounts(29411, 29411, 0, 0, 0, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_counts(shared_data, name):
    data = read(shared_data / "lama" / name)
    assert ReadingCounts.total(asked(data).values()) == REAL[name]
    sizes = {id_: len(queries) for id_, queries in data.by_relation().items()}
    assert len(sizes) == {"TREx": 28, "TREx_facts": 41, "Google_RE": 3, "Squad": 1}[name]
    assert len({query.id for query in data.queries}) == len(data.queries)
    if name == "Google_RE":
        assert sizes == {"date_of_birth": 1825, "place_of_birth": 2937, "place_of_death": 766}
    if name == "Squad":
        assert len(data.candidates["squad"]) == 303
        return
    if name == "TREx_facts":
        assert set(sizes) == set(TREX_RELATIONS)
        return
    based, free = (apply_reading(data, reading) for reading in ("template-based", "template-free"))
    assert [query.fact_id for query in based.queries] == [query.fact_id for query in free.queries]
    assert {query.unscored for query in based.queries} == {None}


@pytest.mark.slow
def test_real_facts_are_the_same_by_their_ids(shared_data):
    """README of the data: all 19,871 facts of TREx_facts in TREx's 28 relations stand there with the same names."""
    whole = {query.id: query for query in read(shared_data / "lama" / "TREx").queries}
    facts = read(shared_data / "lama" / "TREx_facts")
    both = [(whole[query.id], query) for query in facts.queries if query.id in whole]
    assert len(both) == 19871
    assert all(one.relation == other.relation and one.subject == other.subject for one, other in both)


def test_pararels_patterns_are_templates(tmp_path):
    """As its repository has them, beside the facts; relations.jsonl goes before them."""
    folder = trex_folder(tmp_path, [trex(evidences=[])])
    (tmp_path / "relations.jsonl").unlink()
    texts = ["[X] plays as [Y].", "[Y] is [X]'s position.", "[X] plays as [Y]."]
    write(
        tmp_path / "pattern_data" / "graphs_json" / "P413.jsonl", [{"pattern": text, "lemma": "play"} for text in texts]
    )
    assert [one.text for one in read(folder).relations["P413"].templates] == texts[:2]
    write(
        tmp_path / "graphs_json" / "P413.jsonl", [{"pattern": texts[1]}, {"pattern": "[X] plays."}, {"lemma": "play"}]
    )
    no_pattern, no_answer = examine(folder)[1].found
    assert mentioned(no_answer, "P413.jsonl:2:", "'[X] plays.'", "no [Y]")
    assert "P413.jsonl:3: 'pattern' is missing" in no_pattern
    write(tmp_path / "relations.jsonl", [{"relation": "P413", "template": "[X] is a [Y]."}])
    assert [one.text for one in read(folder).relations["P413"].templates] == ["[X] is a [Y]."]


def test_real_pararel(shared_data, tmp_path):
    """README of the data: 329 patterns of 39 of the 41 relations; P31 and P527 have none, and are unscored."""
    (tmp_path / "trex_lms_vocab").symlink_to(shared_data / "lama" / "TREx_facts")
    (tmp_path / "pattern_data").symlink_to(shared_data / "pararel")
    data = read(tmp_path / "trex_lms_vocab")
    counts = {id_: len(relation.templates) for id_, relation in data.relations.items()}
    assert (len(data.queries), len(counts)) == (29411, 41)
    assert {id_ for id_, count in counts.items() if not count} == {"P31", "P527"}
    assert sum(counts.values()) == 329
    assert any("no templates for P31, P527" in note for note in data.notes)
    unscored = [query.relation for query in apply_reading(data, "template-based").queries if query.unscored]
    assert set(unscored) == {"P31", "P527"}
    assert len(unscored) == 1801


@pytest.mark.parametrize("given", ["pararel", "pararel/graphs_json"])
def test_patterns_alone_are_no_facts(tmp_path, given):
    patterns = tmp_path / "pararel" / "graphs_json"
    patterns.mkdir(parents=True)
    write(patterns / "P19.jsonl", [{"pattern": "[X] was born in [Y]."}, {"pattern": "[X] is from [Y]."}])
    (said,) = examine(tmp_path / given)[1].found
    assert mentioned(said, "ParaRel", "trex_lms_vocab")


def test_real_biolama(shared_data):
    data = read(shared_data / "biomedical" / "biolama")
    sizes = {id_: len(queries) for id_, queries in data.by_relation().items()}
    assert sizes == {"P780": 50, "P2175": 50, "P2176": 51, "P2293": 50, "P4044": 50}
    assert all(relation.templates for relation in data.relations.values())
    assert sum(len(query.gold) == 1 for query in data.queries) == 138


def test_a_relation_s_file_need_not_repeat_its_name(tmp_path):
    """P190.jsonl without ``predicate_id`` is P190, not SQuAD's questions, and its subjects stay; ids may be numbers."""
    rows = [
        {"uuid": 7, "sub_label": "Paris", "obj_label": "Rome", "masked_sentences": ["Paris and [MASK] are twins."]},
        {"uuid": 0, "sub_label": "Rome", "obj_label": "Paris", "masked_sentences": ["Rome and [MASK] are twins."]},
    ]
    write(tmp_path / "twins" / "P190.jsonl", rows)
    data = read(tmp_path / "twins")
    assert [(query.relation, query.subject) for query in data.queries] == [("P190", "Paris"), ("P190", "Rome")]

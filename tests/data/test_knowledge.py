"""Knowledge graphs: every layout, their queries, selections, and faults with lines."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import examine, read
from fathom.data.formats.checks import graph_notes
from fathom.data.graph.queries import link_queryset
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import narrow, select
from fathom.data.selection.options import Selection
from fathom.data.statistics import graph_relations, majority_share
from fathom.probes import PROBES
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.datasets import data_tables
from fathom.results.tables import render
from tests.messages import correspond, mentioned, mentions, stated
from tests.scripted import ScriptedModel

TRAIN = ["paris\tcapital_of\tfrance", "rome\tcapital_of\titaly", "paris\tin\tfrance", "rome\tin\titaly", "rome\tin\teu"]
DEV = ["paris\tin\teu"]
TEST = ["lyon\tin\tfrance", "paris\tin\teurope", "lyon\tin\teu"]
NAMES = ["paris\tParis", "france\tFrance", "rome\tRome", "italy\tItaly", "eu\tEU", "europe\tEurope", "lyon\tLyon"]
RELATIONS = ["capital_of\tcapital of", "in\tlies in"]


def write(folder: Path, files: dict[str, list[str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        content = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def small(folder: Path, **other: list[str]) -> Path:
    """A graph of seven entities; *other* replaces files, dots written as underscores."""
    files = {
        "train.tsv": TRAIN, "dev.tsv": DEV, "test.tsv": TEST, "entity2text.txt": NAMES, "relation2text.txt": RELATIONS,
    }  # fmt: skip
    return write(folder, files | {name.replace("_", "."): lines for name, lines in other.items()})


def words(texts: list[str]) -> list[int]:
    """A tokenizer for which every word is a token."""
    return [len(text.split()) for text in texts]


def names_of(data: QuerySet) -> dict[str, str]:
    assert data.graph is not None
    return dict(zip(*(data.graph.entities.column(name).to_pylist() for name in ("id", "name")), strict=True))


def columns_of(data: QuerySet) -> tuple[list[str], list[str], list[str]]:
    """Ids of head, relation and tail of every triple."""
    graph = data.graph
    assert graph is not None
    entities, relations = graph.entities.column("id").to_pylist(), graph.relations.column("id").to_pylist()
    return (
        [entities[row] for row in graph.head],
        [relations[row] for row in graph.relation],
        [entities[row] for row in graph.tail],
    )


@pytest.mark.parametrize(
    ("name", "entities", "relations", "sizes"),
    [("wn18rr", 40943, 11, (86835, 3034, 3134)), ("fb15k237", 14541, 237, (272115, 17535, 20466))],
)
def test_published_counts(shared_data, name, entities, relations, sizes):
    data = read(shared_data / name)
    assert (len(data.graph.entities), len(data.graph.relations)) == (entities, relations)
    assert tuple(map(len, data.graph.splits.values())) == sizes
    assert len(data.queries) == sizes[2]
    assert len(data.candidates["entities"]) == entities
    assert data.notes == ()


def test_wordnet_names_end_at_the_first_comma(shared_data):
    """Against the files read line by line, for every entity."""
    data = read(shared_data / "wn18rr")
    lines = (shared_data / "wn18rr" / "entity2text.txt").read_text(encoding="utf-8").splitlines()
    expected = {}
    for line in lines:
        id_, text = line.split("\t")
        name, _, gloss = text.partition(", ")
        expected[id_] = (name, gloss)
    space = data.candidates["entities"]
    assert dict(zip(space.ids, zip(space.names, space.descriptions, strict=True), strict=True)) == expected


def test_freebase_names_keep_their_commas(shared_data):
    data = read(shared_data / "fb15k237")
    lines = (shared_data / "fb15k237" / "entity2text.txt").read_text(encoding="utf-8").splitlines()
    texts = dict(line.split("\t") for line in lines)
    names = names_of(data)
    assert any(", " in name for name in names.values())
    assert all(names[id_] == texts[id_] for id_ in names)
    assert sum(text != "" for text in data.candidates["entities"].descriptions) == 13666  # the data's README
    row = data.graph.entities.column("id").to_pylist().index("/m/010016")
    assert data.graph.entities.slice(row, 1).to_pylist() == [
        {
            "id": "/m/010016",
            "name": "Denton",
            "aliases": ["Denton, Texas"],
            "description": "city in Texas, United States",
        }
    ]


def test_other_right_answers_come_from_all_splits(shared_data):
    """Against a dictionary made line by line."""
    data = read(shared_data / "wn18rr")
    right = defaultdict(set)
    for head, relation, tail in zip(*columns_of(data), strict=True):
        right[head, relation].add(tail)
    lines = (shared_data / "wn18rr" / "test.tsv").read_text().splitlines()
    for query, line in zip(data.queries, lines, strict=True):
        assert query.fact_id == line.replace("\t", "|")
        assert set(query.known) == right[query.subject_id, query.relation] - {query.gold[0]}


def test_queries_of_a_small_graph(tmp_path):
    data = read(small(tmp_path / "g"))
    first, second, third = data.queries
    assert (first.id, first.subject, first.relation, first.gold) == ("test/0", "Lyon", "in", ("france",))
    assert first.known == ("eu",)  # test/2
    assert second.known == ("france", "eu")  # from train and dev
    assert data.queries[2] == third == data.queries[-1]
    assert data.queries[1:] == (second, third)
    # France, Europe and EU are the answer of one test query each.
    assert (data.relations["in"].name, data.relations["in"].cardinality) == ("lies in", "1:1")
    assert data.relations["in"].templates == ()
    assert data.candidates["entities"].names == ("Paris", "France", "Rome", "Italy", "EU", "Europe", "Lyon")
    assert data.candidates["entities"].descriptions is None


def test_cardinality_is_that_of_the_split(tmp_path):
    data = select(read(small(tmp_path / "g")), Selection(split="train")).data
    assert {query.relation: query.groups["cardinality"] for query in data.queries} == {"capital_of": "1:1", "in": "1:1"}
    more = [*TRAIN, "lyon\tin\tfrance"]
    data = select(read(small(tmp_path / "h", train_tsv=more)), Selection(split="train")).data
    assert {query.relation: query.groups["cardinality"] for query in data.queries} == {"capital_of": "1:1", "in": "1:N"}


def test_gz_crlf_and_other_names_of_files(tmp_path):
    plain = read(small(tmp_path / "a"))
    other = write(
        tmp_path / "b",
        {"train.txt.gz": TRAIN, "valid.tsv": [line + "\r" for line in DEV], "test.txt": ["", *TEST, ""],
         "entities.tsv": NAMES, "relations.tsv.gz": RELATIONS},
    )  # fmt: skip
    assert read(other).content_hash == plain.content_hash


def test_one_file_without_names(tmp_path):
    """YAGO-like: an id is a name with underscores. All triples are asked, as there are no splits."""
    folder = write(tmp_path / "y", {"facts.tsv": ["Albert_Einstein\twas_born_in\tUlm", "Ulm\tis_in\tGermany"]})
    data = read(folder)
    assert [(query.id, query.subject) for query in data.queries] == [
        ("triple/0", "Albert Einstein"),
        ("triple/1", "Ulm"),
    ]
    assert data.relations["was_born_in"].name == "was born in"
    assert read(folder / "facts.tsv").content_hash == data.content_hash
    with pytest.raises(BadInput, match=mentions("--split test")):
        select(data, Selection(split="test"))


def test_names_with_a_third_column_are_described(tmp_path):
    names = [f"{line}\tabout {line.split()[0]}" for line in NAMES]
    space = read(small(tmp_path / "g", entity2text_txt=names)).candidates["entities"]
    assert (space.names[0], space.descriptions[0]) == ("Paris", "about paris")


def test_long_descriptions_and_wikidata(tmp_path):
    folder = small(tmp_path / "g", entity2textlong_txt=["paris\tThe long one, with commas."])
    about = {"paris": {"label": "City of Paris", "description": "short", "alternatives": ["Paname", "Paris"]},
             "rome": {"description": "capital of Italy"}}  # fmt: skip
    (folder / "entity2wikidata.json").write_text(json.dumps(about))
    entities = {row["id"]: row for row in read(folder).graph.entities.to_pylist()}
    assert entities["paris"]["description"] == "The long one, with commas."
    assert entities["paris"]["aliases"] == ["City of Paris", "Paname"]
    assert entities["rome"]["description"] == "capital of Italy"
    assert (entities["eu"]["description"], entities["eu"]["aliases"]) == ("", [])


def test_commas_alone_are_no_glosses(tmp_path):
    """Every text has ", ", but the ids are not WordNet's."""
    space = read(small(tmp_path / "g", entity2text_txt=[f"{line}, Earth" for line in NAMES])).candidates["entities"]
    assert space.names[0] == "Paris, Earth"


def openke(folder: Path, **other: list[str]) -> Path:
    files = {
        "entity2id.txt": ["3", "lyon\t2", "eu\t0", "old_france\t1"],
        "relation2id.txt": ["1", "in\t0"],
        "train2id.txt": ["2", "2 1 0", "1 0 0"],
        "test2id.txt": ["1", "2 0 0"],
    }
    return write(folder, files | {name + ".txt": lines for name, lines in other.items()})


def test_openke(tmp_path):
    """Lines are head, tail, relation, as numbers that need not stand in order."""
    data = read(openke(tmp_path / "o"))
    (query,) = data.queries
    assert (query.subject_id, query.relation, query.gold, query.known) == ("lyon", "in", ("eu",), ("old_france",))
    assert {name: len(rows) for name, rows in data.graph.splits.items()} == {"train": 2, "test": 1}
    assert names_of(data)["old_france"] == "old france"
    named = write(tmp_path / "o", {"entity2text.txt": ["lyon\tLyon", "eu\tEU", "old_france\tFrance"]})
    assert names_of(read(named)) == {"lyon": "Lyon", "eu": "EU", "old_france": "France"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train2id": ["2", "2 1 0", "7 0 0"]}, ("train2id.txt:3:", "entity 7", "entity2id.txt")),
        ({"test2id": ["1", "2 0 4"]}, "test2id.txt:2: unknown relation 4"),
        ({"test2id": ["1", "2 x 0"]}, ("test2id.txt:2:", "tail", "'x'")),
        ({"test2id": ["5", "2 0 0"]}, ("test2id.txt:1:", "5 lines", "found 1")),
        ({"test2id": ["2 0 0"]}, ("test2id.txt:1:", "number of lines", "'2 0 0'")),
        ({"entity2id": ["3", "a\t2", "b\t0", "c\t0"]}, "entity2id.txt:4: entity number '0'"),
    ],
)
def test_openke_faults(tmp_path, files, expected):
    with pytest.raises(BadInput) as error:
        read(openke(tmp_path / "o", **files))
    assert mentioned(str(error.value), expected)


def test_openke_needs_its_numbers(tmp_path):
    folder = openke(tmp_path / "o")
    (folder / "relation2id.txt").unlink()
    with pytest.raises(BadInput, match=mentions("relation2id.txt")):
        read(folder)


TURTLE = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <https://schema.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix ex: <http://example.org/> .
ex:paris ex:capitalOf ex:france ; ex:population 2100000 ; skos:prefLabel "Paris preferred" ;
    rdfs:label "Lutetia"@la, "Paris"@en ; skos:altLabel "Paname"@en, "Pariž"@sl ; rdfs:comment "A city."@en .
ex:capitalOf a owl:ObjectProperty ; rdfs:domain ex:City ; rdfs:label "capital of" .
ex:rome ex:seatOf ex:the_Holy%20See .
"""


def test_turtle(tmp_path):
    pytest.importorskip("pyoxigraph")
    folder = write(tmp_path / "r", {"all.ttl": [TURTLE]})
    data = read(folder)
    entities = {row["id"].rsplit("/", 1)[-1]: row for row in data.graph.entities.to_pylist()}
    assert list(entities) == ["paris", "france", "rome", "the_Holy%20See"]
    assert entities["paris"]["name"] == "Paris"  # English before Latin, rdfs:label before skos:prefLabel
    assert (entities["paris"]["description"], entities["paris"]["aliases"]) == ("A city.", ["Paname"])
    assert entities["the_Holy%20See"]["name"] == "the Holy See"
    assert [relation.name for relation in data.relations.values()] == ["capital of", "seat of"]
    # The population is a literal; the domain and the type of ex:capitalOf are about the vocabulary.
    assert correspond(
        [note.split(": ", 1)[1] for note in data.notes], ("1 triples", "literals"), ("2 triples", "the vocabulary")
    )


def test_triples_about_triples_are_left_out(tmp_path):
    pytest.importorskip("pyoxigraph")
    about = "ex:rome ex:states <<( ex:paris ex:capitalOf ex:france )>> ."
    data = read(write(tmp_path / "r", {"all.ttl": [TURTLE, about]}))
    assert len(data.graph.entities) == 4
    assert stated(data.notes, "1 triples about other triples")


def test_relations_that_are_addresses_are_shown_by_name(tmp_path):
    pytest.importorskip("pyoxigraph")
    table = data_tables(read(write(tmp_path / "r", {"all.ttl": [TURTLE]})))[-1]
    shown = render([table], "text")
    assert mentioned(shown, "capital of", "seat of")
    assert "example.org" not in shown
    assert "http://example.org/capitalOf" in render([table], "json")


def test_n_triples_with_splits(tmp_path):
    pytest.importorskip("pyoxigraph")
    edge, label = (
        "<http://e.org/{}> <http://e.org/in> <http://e.org/{}> .",
        "<http://www.w3.org/2000/01/rdf-schema#label>",
    )
    folder = write(
        tmp_path / "r",
        {
            "train.nt.gz": [edge.format("a", "b")],
            "test.nt": [edge.format("c", "b"), edge.format("_:x", "b").replace("<http://e.org/_:x>", "_:x")],
            "labels.nt": [f'<http://e.org/a> {label} "Anna" .', edge.format("a", "d")],
        },
    )
    data = read(folder)
    assert {name: len(rows) for name, rows in data.graph.splits.items()} == {"train": 1, "test": 2}
    assert sorted(names_of(data).values()) == ["", "Anna", "b", "c"]
    assert [query.unscored for query in data.queries] == [None, "the subject has no name"]
    assert any("labels.nt: 1 triples" in note for note in data.notes)


def test_rdf_faults_have_their_line(tmp_path):
    pytest.importorskip("pyoxigraph")
    folder = write(tmp_path / "r", {"x.nt": ["<http://e/a> <http://e/b> <http://e/c> .", "<http://e/a> nonsense"]})
    with pytest.raises(BadInput, match=r"x\.nt:2: not N-Triples"):
        read(folder)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"test_tsv": ["", "lyon\ton\teu"]}, ("test.tsv:2:", "relation 'on'", "relation2text.txt")),
        ({"train_tsv": [*TRAIN, "a\tb"]}, ("train.tsv:6:", "3 columns (head, relation, tail)", r"'a\tb'")),
        ({"train_tsv": [*TRAIN, "paris\t\teu"]}, ("train.tsv:6:", "relation is empty")),
        ({"entity2text_txt": [*NAMES, "paris\tParis"]}, "entity2text.txt:8: entity 'paris'"),
        ({"entity2text_txt": [*NAMES, "nothing"]}, ("entity2text.txt:8:", "2 columns (id, name)", "'nothing'")),
        ({"dev_tsv": []}, "dev.tsv: no triples"),
    ],
)
def test_faults_with_file_and_line(tmp_path, files, expected):
    with pytest.raises(BadInput) as error:
        read(small(tmp_path / "g", **files))
    assert mentioned(str(error.value), expected)


def test_all_faults_at_once(tmp_path):
    folder = small(
        tmp_path / "g",
        train_tsv=[*TRAIN, "a\tat\tb", "", "short"],
        test_tsv=["lyon\ton\teu"],
        entity2text_txt=[*NAMES, "eu\tagain"],
    )
    _, faults = examine(folder)
    assert [line.split(f"{folder}/")[1].split(": ")[0] for line in faults.found] == [
        "train.tsv:8", "entity2text.txt:8", "train.tsv:6", "test.tsv:1",
    ]  # fmt: skip


def test_an_unknown_relation_is_reported_once_unless_the_line_that_names_it_cannot_be_read(tmp_path):
    near = ["rome\tnear\titaly", "lyon\tnear\titaly"]
    _, faults = examine(small(tmp_path / "g", train_tsv=[*TRAIN, *near], test_tsv=near))
    assert correspond(
        [line.split(f"{tmp_path / 'g'}/")[1] for line in faults.found], ("train.tsv:6:", "'near'", "relation2text.txt")
    )
    bad = [*RELATIONS, "near\tnear\tto"]
    _, faults = examine(small(tmp_path / "h", train_tsv=[*TRAIN, *near], relation2text_txt=bad))
    assert correspond(
        [line.split(f"{tmp_path / 'h'}/")[1] for line in faults.found],
        ("relation2text.txt:3:", "2 columns (id, name)", r"'near\tnear\tto'"),
    )


@pytest.mark.parametrize("name", ["train.tsv", "relation2text.txt", "entity2text.txt", "entity2textlong.txt"])
def test_of_a_file_that_cannot_be_read_nothing_else_is_said(tmp_path, name):
    folder = small(tmp_path / "g", entity2textlong_txt=[f"{NAMES[0]} in full"])
    (folder / name).write_bytes(b"paris\tParis\xff\n")
    _, faults = examine(folder)
    assert correspond(faults.found, (f"{name}:1: not UTF-8",))
    assert not stated(faults.notes, "without a name")
    (folder / name).unlink()
    (folder / name).mkdir()
    _, faults = examine(folder)
    assert correspond(faults.found, (f"{name}: is not a file but a folder",))
    assert not stated(faults.notes, "without a name")


def test_entities_that_are_not_listed_are_named_by_their_id_unless_the_list_looks_cut_off(tmp_path):
    folder = small(tmp_path / "g", test_tsv=["mars\tin\teu", "red_planet\tin\teu"], entity2text_txt=NAMES[:-1])
    data = read(folder)
    assert [query.subject for query in data.queries] == ["mars", "red planet"]
    assert stated(data.notes, "entity2text.txt", "mars", "red_planet")
    (folder / "entity2text.txt").write_text("\n".join(NAMES))
    with pytest.raises(BadInput, match=mentions("entity2text.txt")):
        read(folder)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("last", "is_new"), [("lyon\tin\teurop", True), ("lyon\tin\teurope", False)])
def test_triples_that_end_within_a_line_with_a_new_name_look_cut_off(tmp_path, named, last, is_new):
    folder = small(tmp_path / "g")
    if not named:
        (folder / "entity2text.txt").unlink()
    (folder / "test.tsv").write_text(f"paris\tin\teurope\n{last}")
    _, faults = examine(folder)
    where = ("test.tsv:2: ends within a line", "'europ'")
    assert (stated(faults.found, *where), stated(faults.notes, *where)) == (is_new and named, is_new and not named)
    (folder / "test.tsv").write_text(f"paris\tin\teurope\n{last}\n")
    assert not examine(folder)[1].found


@pytest.mark.parametrize("code", ["Q{}", "/m/0{}x", "0876917{}", "C00{}"])
def test_entities_named_by_codes_are_noted(tmp_path, code):
    noted = [
        stated(read(write(tmp_path / name, {"train.tsv": lines, "test.tsv": lines})).notes, "entity2text.txt")
        for name, lines in (
            ("codes", [f"{code.format(1)}\tin\t{code.format(n)}" for n in range(9)]),
            ("names", ["Rome\tin\tItaly", "1990\tin\t1991"]),
        )
    ]
    assert noted == [True, False]


def test_many_faults_of_a_kind_are_counted(tmp_path):
    _, faults = examine(small(tmp_path / "g", test_tsv=[f"lyon\tx{n}\teu" for n in range(50)]))
    assert len(faults.found) == 21
    assert mentioned(faults.found[-1], "30")


def test_not_utf8(tmp_path):
    folder = small(tmp_path / "g")
    (folder / "test.tsv").write_bytes(b"lyon\tin\teu\nly\xffon\tin\teu\n")
    with pytest.raises(BadInput, match=mentions("test.tsv:", "UTF-8")):
        read(folder)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"lyon\tin\teu\n\xff\xfecanine\n", 2),  # another number of columns
        (b"lyon\tin\teu\n" * 200_000 + b"cani\xffne", 200_001),  # beyond the first block that is read
        (b"short\nlyon\tin\teu\npa\xff\tin\teu\n", 3),
        (b"lyon\tin\teu\n\n\xe2\x82", 3),  # ends within a sign
        (b"\x1b[2J\x0b\x07\n\x00\xff\x85\x1c\t\x0c\n\xe3(\n", 2),
    ],
)
def test_one_line_on_a_file_that_is_no_text(tmp_path, capfd, content, line):
    folder = small(tmp_path / "g")
    (folder / "test.tsv").write_bytes(content)
    _, faults = examine(folder)
    assert correspond(faults.found, (f"{folder}/test.tsv:{line}:", "UTF-8"))
    assert capfd.readouterr() == ("", "")  # Arrow prints what it cannot hand over


def test_control_characters_stay_on_one_line(tmp_path):
    folder = small(tmp_path / "g")
    (folder / "test.tsv").write_bytes(b"\x1b[2J\x0b\x07\x00\n")
    _, faults = examine(folder)
    assert len(faults.found) == 1
    assert faults.found[0].isprintable()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (gzip.compress(b"paris\tin\teu\n" * 1000, mtime=0)[:20], ["cannot be read"]),
        (gzip.compress(b"a b\nc d\n", mtime=0), ["expected 3 columns", "expected 3 columns"]),
        (gzip.compress(b"\xff\n", mtime=0), ["not UTF-8 text"]),
        (gzip.compress(b"\n\n", mtime=0), ["no triples"]),
        (gzip.compress(b"", mtime=0), ["no triples"]),
    ],
)
def test_no_triples_is_said_of_files_without_lines_alone(tmp_path, content, expected):
    folder = small(tmp_path / "g")
    (folder / "train.tsv").unlink()
    (folder / "train.tsv.gz").write_bytes(content)
    _, faults = examine(folder)
    assert len(faults.found) == len(expected)
    for found, part in zip(faults.found, expected, strict=True):
        assert part in found


def test_openke_counts_no_lines_of_a_file_with_faults(tmp_path):
    _, faults = examine(openke(tmp_path / "o", test2id=["1", "2 0"]))
    assert correspond(
        [line.split("test2id.txt:")[1] for line in faults.found], ("2:", "3 columns (head, tail, relation)", "'2 0'")
    )


def test_entities_without_a_name_stay_as_unscored(tmp_path):
    names = [line if not line.startswith(("lyon", "eu\t")) else line.split("\t")[0] + "\t " for line in NAMES]
    data = read(
        small(tmp_path / "g", entity2text_txt=names, test_tsv=["lyon\tin\tfrance", "rome\tin\teu", "paris\tin\teurope"])
    )
    assert correspond([query.unscored for query in data.queries], "the subject", "the gold answer", None)
    assert data.queries[2].known == ("france",)  # not eu, which is no candidate
    assert set(data.candidates["entities"].ids) == {"paris", "france", "rome", "italy", "europe"}
    assert len(data.notes) == 2
    assert mentioned(data.notes[0], "entity2text.txt:5:", "'eu'")


def test_a_relation_without_a_name(tmp_path):
    data = read(small(tmp_path / "g", relation2text_txt=["in\t", "capital_of\tcapital of"]))
    assert correspond({query.unscored for query in data.queries}, "the relation")
    assert mentioned(data.notes[0], "relation2text.txt:1:", "'in'")


def test_a_header_and_a_byte_order_mark_are_no_triple(tmp_path):
    plain = read(small(tmp_path / "a"))
    folder = small(tmp_path / "b", train_tsv=["Head\tRelation\tTail", *TRAIN], test_tsv=["\ufeff" + TEST[0], *TEST[1:]])
    assert read(folder).content_hash == plain.content_hash
    with pytest.raises(BadInput, match=r"train\.tsv:8: unknown relation 'on'"):
        read(small(tmp_path / "c", train_tsv=["head\trelation\ttail", *TRAIN, "", "rome\ton\teu"]))


def test_a_damaged_gz(tmp_path):
    folder = small(tmp_path / "g")
    (folder / "train.tsv").unlink()
    (folder / "train.tsv.gz").write_bytes(gzip.compress(b"paris\tin\teu\n" * 1000)[:20])
    with pytest.raises(BadInput, match=r"train\.tsv\.gz"):
        read(folder)


@pytest.mark.parametrize("probe", ["statement", "embedding", "vocabulary"])
def test_a_run_keeps_what_cannot_be_asked_and_says_what_was_left_out(tmp_path, probe):
    """Lyon and EU have no name; limit and candidates are in the identity, what they left out in the circumstances."""
    names = [line if not line.startswith(("lyon", "eu\t")) else line.split("\t")[0] + "\t" for line in NAMES]
    data = read(small(tmp_path / "g", entity2text_txt=names, test_tsv=["lyon\tin\teu", "paris\tin\teurope"]))
    model = ScriptedModel(
        ["(", ")", ",", "Paris", "France", "Rome", "Italy", "Europe", "capital", "of", "lies", "in"], {}
    )
    options = PROBES[probe].options(shots=1, seed=1, candidates="asked", relations="in", exclude_tails="nobody")
    with pytest.raises(BadInput, match=mentions(" g ", "nobody")):
        run(RunRequest(probe, model, data, options), tmp_path / "r")
    folder = run(RunRequest(probe, model, data, options.model_copy(update={"exclude_tails": ()})), tmp_path / "r")
    rows = {row["query_id"]: row for row in folder.predictions().to_pylist()}
    assert rows["test/0"]["unscored"] == "the subject has no name"
    assert (rows["test/1"]["rank"] is not None, rows["test/1"]["num_candidates"]) == (True, 2)
    assert folder.manifest["identity"]["options"]["candidates"] == "asked"
    assert folder.manifest["circumstances"]["left_out"] == {
        "queries": {"relations": 0},
        "candidates": {"candidates": 3},
    }


def test_the_hash_covers_triples_that_are_not_asked(tmp_path):
    one, other = read(small(tmp_path / "a")), read(small(tmp_path / "b", train_tsv=TRAIN[:-1]))
    assert one.content_hash == read(small(tmp_path / "c")).content_hash != other.content_hash
    limited = [select(data, Selection(relations=["in"], limit=2)).data for data in (one, other)]
    assert limited[0].content_hash != limited[1].content_hash


@pytest.mark.parametrize(("name", "queries", "candidates"), [("wn18rr", 596, 4948), ("fb15k237", 2161, 313)])
def test_single_tokens_as_in_table_1_of_deer(shared_data, gpt2, name, queries, candidates):
    """The queries of both graphs and WN18RR's candidates are those of the paper; for FB15k-237 it has 254 candidates
    where 313 entities (255 of those in the test split) have a name of one token."""
    data = read(shared_data / name)
    selected, left_out = select(
        data,
        Selection(single_token=True),
        lambda texts: [len(ids) for ids in gpt2(texts, add_special_tokens=False)["input_ids"]],
    )
    assert (len(selected.queries), len(selected.candidates["entities"])) == (queries, candidates)
    assert left_out["queries"] == {"single_token": len(data.queries) - queries}
    assert left_out["candidates"] == {"single_token": len(data.candidates["entities"]) - candidates}
    assert not any(query.unscored for query in selected.queries)


def test_candidates_of_500_queries(shared_data):
    """The paper's length-bias experiment has 948 for its own draw: heads and tails, without repetition."""
    data = select(read(shared_data / "wn18rr"), Selection(limit=500, seed=0, candidates="asked")).data
    space = data.candidates["entities"]
    assert set(space.ids) == {id_ for query in data.queries for id_ in (query.subject_id, *query.gold)}
    assert 930 < len(space) < 970
    assert all(answer in space.position for query in data.queries for answer in query.known)
    everywhere = {id_: place for place, id_ in enumerate(read(shared_data / "wn18rr").candidates["entities"].ids)}
    assert [everywhere[id_] for id_ in space.ids] == sorted(everywhere[id_] for id_ in space.ids)


def test_filters_in_their_order(tmp_path):
    names = [*NAMES[:4], "eu\tEuropean Union", *NAMES[5:]]
    data = read(small(tmp_path / "g", entity2text_txt=names))
    selected, left_out = select(data, Selection(tail_tokens="2-3", split="train", relations=["in"]), words)
    assert [query.id for query in selected.queries] == ["train/4"]
    assert left_out["queries"] == {"relations": 2, "tail_tokens": 2}
    selected, left_out = select(data, Selection(single_token=True), words)
    assert [query.gold for query in selected.queries] == [("france",), ("europe",)]
    assert "eu" not in selected.candidates["entities"].ids
    assert [query.known for query in selected.queries] == [(), ("france",)]  # eu is no candidate any more
    assert left_out == {"queries": {"single_token": 1}, "candidates": {"single_token": 1}}
    selected, _ = select(data, Selection(exclude_tails=["European Union", "europe"]))
    assert [query.gold for query in selected.queries] == [("france",)]


def test_one_candidate_is_unscored(tmp_path):
    data = read(small(tmp_path / "g", test_tsv=["eu\tin\teu"]))
    (query,) = select(data, Selection(candidates="asked")).data.queries
    assert "one candidate" in query.unscored


def test_a_limit_draws_the_same_queries_from_arrays_and_objects(shared_data):
    data = read(shared_data / "wn18rr")
    lazy = select(data, Selection(limit=50, seed=3)).data
    whole = select(data, Selection()).data
    assert select(whole, Selection(limit=50, seed=3)).data.queries == lazy.queries


def test_filters_on_data_that_is_no_graph():
    data = read("geography")
    selected, left_out = select(data, Selection(single_token=True, relations=["capital"]), words)
    names = selected.candidates["capital"].names
    assert len(names) == sum(" " not in name for name in data.candidates["capital"].names)
    fit = [query for query in data.by_relation()["capital"] if all(" " not in gold for gold in query.gold)]
    assert len(selected.queries) == len(fit) < len(names)  # Pretoria, Cape Town and Bloemfontein are of one query
    assert left_out["candidates"]["single_token"] == 203 - len(names)
    for wrong, message in (
        (Selection(split="test"), ("geography", "no splits")),
        (Selection(candidates="asked"), ("--candidates asked", "geography")),
        (Selection(tail_tokens="4-2"), "1 or more"),
        (Selection(tail_tokens="few"), ("2-4", "'few'")),
        (Selection(exclude_tails=["Atlantis"]), ("geography", "Atlantis")),
    ):
        with pytest.raises(BadInput, match=mentions(message)):
            narrow(data, wrong)
    with pytest.raises(BadInput, match="tokenizer"):
        select(data, Selection(single_token=True))
    with pytest.raises(BadInput) as error:
        narrow(data, Selection(split="test", relations=["mayor"], subset="lite"))
    assert len(error.value.faults) == 3


def test_nothing_left_says_what_left_it_out(tmp_path):
    with pytest.raises(BadInput, match=mentions("--tail-tokens")):
        select(read(small(tmp_path / "g")), Selection(tail_tokens="9"), words)


def test_all_splits_are_asked_together(tmp_path):
    data = read(small(tmp_path / "g"))
    found = select(data, Selection(split="all")).data
    assert len(found.queries) == len(TRAIN) + len(DEV) + len(TEST)
    both = select(link_queryset(data), Selection(split="all")).data
    assert len(both.queries) == 2 * len(found.queries)


def test_a_graph_takes_templates(tmp_path):
    """They put its triples into statements, in every split; the content is another with them."""
    plain = read(small(tmp_path / "plain"))
    lines = ['{"relation": "in", "template": "[X] lies in [Y] ."}', '{"relation": "in", "template": "[X]: [Y]"}']
    data = read(write(small(tmp_path / "g"), {"templates.jsonl": lines}))
    for split in (None, "train", "all"):
        texts = [one.text for one in select(data, Selection(split=split)).data.relations["in"].templates]
        assert texts == ["[X] lies in [Y] .", "[X]: [Y]"]
    assert link_queryset(data).relations["in"].templates
    assert plain.relations["in"].templates == ()
    assert data.content_hash != plain.content_hash


def triple_classification(folder: Path, **other: list[str]) -> Path:
    """The layout of WN11 and FB13 in KG-BERT's repository: each right triple is followed by a wrong one."""
    files = {
        "train.tsv": ["ann\tsex\tfemale", "bob\tsex\tmale", "bob\tborn\toslo"],
        "dev.tsv": ["ann\tborn\toslo\t1", "ann\tborn\tmale\t-1"],
        "test.tsv": ["cid\tsex\tmale\t1", "cid\tsex\tfemale\t-1", "dan\tsex\tmale\t1", "dan\tsex\tfemale\t-1"],
        "entities.txt": ["ann", "bob", "cid", "dan", "male", "female", "oslo"],
        "relation2text.txt": ["sex\tsex", "born\tborn in"],
    }
    return write(folder, files | {name.replace("_", "."): lines for name, lines in other.items()})


def test_triple_classification(tmp_path):
    """Right triples are the graph; the wrong one is the other candidate of the query."""
    data = read(triple_classification(tmp_path / "g"))
    assert {split: len(rows) for split, rows in data.graph.splits.items()} == {"train": 3, "dev": 1, "test": 2}
    assert [(query.fact_id, query.known) for query in data.queries] == [("cid|sex|male", ()), ("dan|sex|male", ())]
    (space,) = data.candidates.values()
    assert set(space.names) == {"male", "female"}
    dev = select(data, Selection(split="dev")).data
    assert [set(dev.candidates[query.candidates].ids) for query in dev.queries] == [{"oslo", "male"}]
    assert len(link_queryset(data).queries) == 4
    assert len(select(data, Selection(split="train")).data.candidates["entities"]) == 7


def test_triple_classification_with_gaps(tmp_path):
    test = ["cid\tsex\tmale\t1", "", "dan\tsex\tfemale\t-1", "dan\tborn\toslo\t1", "dan\tborn\teverest\t-1"]
    data = read(triple_classification(tmp_path / "g", test_tsv=test))
    assert not data.queries
    assert stated(data.notes, "test.tsv", "to compare with", "2")
    assert stated(data.notes, "test.tsv", "not queried: 2")
    found = examine(triple_classification(tmp_path / "h", test_tsv=[*test, "a\tsex\tmale\t0", "a\tr9\tmale\t1"]))[
        1
    ].found
    assert stated(found, "test.tsv:6", "1 or -1", "'0'")
    assert stated(found, "test.tsv:7", "'r9'")


def test_templates_of_strangers_are_refused(tmp_path):
    write(small(tmp_path / "g"), {"templates.jsonl": ['{"relation": "r9", "template": "[X] is [Y] ."}']})
    with pytest.raises(BadInput, match=mentions("templates.jsonl", "capital_of")):
        read(tmp_path / "g")


def test_unknown_split(tmp_path):
    data = read(small(tmp_path / "g"))
    with pytest.raises(BadInput, match=mentions("heldout", "train, dev, test")):
        narrow(data, Selection(split="heldout"))
    assert len(select(data, Selection(split="valid")).data.queries) == 1


def test_counts_of_a_small_graph(tmp_path):
    names = [*NAMES[:1], "france\tParis", *NAMES[2:-1], "lyon\t"]
    data = read(small(tmp_path / "g", entity2text_txt=names, dev_tsv=[*DEV, "rome\tin\teu", "rome\tin\teu"]))
    totals, by_relation = data_tables(data, words)
    assert dict(totals.rows) == {
        "entities": 7, "relations": 2, "triples": 11, "triples, train": 5, "triples, dev": 3, "triples, test": 3,
        "repeated triples": 2, "queries (test)": 3, "candidates": 6, "entities with an empty name": 1,
        "entities without a description": 7, "names of several entities": 1, "entities with such a name": 2,
    }  # fmt: skip
    assert by_relation.rows == (
        ("capital_of", "capital of", "", 2, 0, 0, None, None, None),
        ("in", "lies in", "1:1", 9, 3, 3, pytest.approx(1 / 3), 1.0, 1.0),
    )


def test_counts_agree_with_a_count_of_queries(shared_data):
    data = read(shared_data / "wn18rr")
    grouped = data.by_relation()
    for found in graph_relations(data.queries):
        assert (found.asked, found.cardinality) == (
            len(grouped[found.relation]),
            data.relations[found.relation].cardinality,
        )
        assert found.answers == len({query.gold for query in grouped[found.relation]})
        assert found.majority == pytest.approx(majority_share(grouped[found.relation]))


def test_columns_are_small(shared_data):
    graph = read(shared_data / "wn18rr").graph
    assert {column.dtype for column in (graph.head, graph.relation, graph.tail)} == {np.dtype(np.int32)}


class TestWhatWouldBePassedOver:
    """Files that say something, and that nobody would read."""

    TRIPLES: ClassVar = {"train.tsv": ["a\tr\tb", "b\tr\tc"], "test.tsv": ["c\tr\ta"]}

    def test_two_files_for_one_split(self, tmp_path: Path) -> None:
        write(tmp_path, {**self.TRIPLES, "train.txt": ["a\tr\tc"]})
        with pytest.raises(BadInput, match=mentions("train.tsv", "train.txt")):
            read(tmp_path)

    def test_lists_of_ids_beside_names_are_no_doubles(self, tmp_path: Path) -> None:
        """As in all seven data sets of KG-BERT's repository."""
        names = {"entity2text.txt": ["a\tAnn", "b\tBob", "c\tCleo"], "relation2text.txt": ["r\tknows"]}
        lists = {"entities.txt": ["a", "b", "c"], "relations.txt": ["r"]}
        found = read(write(tmp_path, {**self.TRIPLES, **names, **lists}))
        assert found.graph.entities.column("name").to_pylist() == ["Ann", "Bob", "Cleo"]
        assert correspond(
            [note.partition("txt: ")[2] for note in found.notes],
            ("not used", "entity2text.txt"),
            ("not used", "relation2text.txt"),
        )

    def test_a_lone_list_of_ids(self, tmp_path: Path) -> None:
        found = read(write(tmp_path, {**self.TRIPLES, "entities.txt": ["a", "b", "c"]}))
        assert sorted(found.graph.entities.column("name").to_pylist()) == ["a", "b", "c"]
        assert stated(found.notes, "entities.txt", "not used")

    def test_a_folder_in_place_of_a_file(self, tmp_path: Path) -> None:
        write(tmp_path, {"train.tsv": self.TRIPLES["train.tsv"]})
        (tmp_path / "test.tsv").mkdir()
        with pytest.raises(BadInput, match=mentions("test.tsv")):
            read(tmp_path)

    def test_dev_is_asked_where_there_is_no_test(self, tmp_path: Path) -> None:
        write(tmp_path, {"train.tsv": self.TRIPLES["train.tsv"], "dev.tsv": ["c\tr\ta"]})
        found, faults = examine(tmp_path)
        assert found is not None
        assert [query.id for query in found.queries] == ["dev/0"]
        assert stated(faults.notes, "no test split", "dev")

    def test_descriptions_without_names(self, tmp_path: Path) -> None:
        write(tmp_path, {**self.TRIPLES, "entity2wikidata.json": ["{}"]})
        _, faults = examine(tmp_path)
        assert stated(faults.notes, "not used", "entity2text.txt")

    def test_other_names_that_are_no_list(self, tmp_path: Path) -> None:
        names = ["a\tA", "b\tB", "c\tC"]
        write(
            tmp_path, {**self.TRIPLES, "entity2text.txt": names, "entity2wikidata.json": ['{"a": {"alternatives": 5}}']}
        )
        with pytest.raises(BadInput, match=mentions("'alternatives'", "'a'", "5")):
            read(tmp_path)


@pytest.mark.parametrize("header", [(), ("head\trelation\ttail", "")])
def test_what_a_check_notes_has_its_line(tmp_path, header):
    dev = ["rome\tin\trome", "rome\tin\trome", *DEV]
    folder = small(tmp_path / "g", train_tsv=[*header, *TRAIN], dev_tsv=dev, test_tsv=[*TEST, TRAIN[1], DEV[0]])
    write(folder, {"test_negatives.txt": TEST, "entities.txt": ["paris"], "README.md": ["about"]})
    data = read(folder)
    assert correspond(
        list(graph_notes(folder, data.graph)),
        ("1", "dev", "dev.tsv:2", "dev.tsv:1"),
        ("1", "test", "train", "test.tsv:4", f"train.tsv:{2 + len(header)}"),
        ("1", "test", "dev", "test.tsv:5", "dev.tsv:3"),
        ("2", "dev.tsv:1, dev.tsv:2"),
    )
    assert data.notes[-1].endswith("not read: test_negatives.txt")


def test_candidates_of_a_graph_can_be_the_answers_of_the_relation(tmp_path):
    data = read(
        small(
            tmp_path / "g",
            test_tsv=[*TEST, "lyon\tcapital_of\teu"],
            entity2text_txt=[*NAMES[:-2], "europe\t", "lyon\tLyon"],
        )
    )
    options = Selection(pool="relation", directions=("tail", "head"))
    chosen = select(data, options).data
    places = ["lyon", "paris", "rome"]
    assert {
        (query.relation, query.direction): sorted(chosen.candidates[query.candidates].ids) for query in chosen.queries
    } == {
        ("in", "tail"): ["eu", "france", "italy"],
        ("in", "head"): places,
        ("capital_of", "tail"): ["eu", "france", "italy"],
        ("capital_of", "head"): places,
    }
    assert {*chosen.queries[0].known} == {"eu"}
    with pytest.raises(BadInput, match="--pool relation"):
        select(data, Selection(pool="names.txt"))


# --------------------------------------------------------------------------------------------- the order of the columns


PLACES = ("Bonn", "Ada", "Dover", "Calw", "Northland", "Southland")
RIGHT = [
    *((f"Person_{n}", "bornIn", PLACES[n % 4]) for n in range(30)),
    *((f"Person_{n}", "citizenOf", PLACES[4 + n % 2]) for n in range(30)),
    *((PLACES[n], "partOf", PLACES[4 + n % 2]) for n in range(4)),
    ("Northland", "near", "Southland"),
]


def triples_in(folder, order, rows=RIGHT):
    """Write head, relation, tail (``hrt``) or head, tail, relation (``htr``) of each triple."""
    folder.mkdir()
    places = ["hrt".index(letter) for letter in order]
    (folder / "train.txt").write_text("".join("\t".join(row[place] for place in places) + "\n" for row in rows))
    return folder


def test_columns_in_another_order_are_refused_with_the_remedy(tmp_path):
    _, faults = examine(triples_in(tmp_path / "g", "htr"))
    (fault,) = faults.found
    assert mentioned(fault, "second column has 6 different values, 5 of them", "third column 4", "--columns htr")


def test_columns_of_either_order_give_the_same_graph(tmp_path):
    swapped = read(triples_in(tmp_path / "swapped", "htr"), "htr").graph
    graph = read(triples_in(tmp_path / "right", "hrt")).graph
    assert swapped.content_hash == graph.content_hash
    assert (len(graph.entities), len(graph.relations)) == (36, 4)


def test_a_header_states_the_order(tmp_path):
    folder = triples_in(tmp_path / "g", "htr", [("Head", "Relation", "Tail"), *RIGHT])
    assert len(read(folder).graph.relations) == 4


def test_the_order_that_is_typed_is_checked(tmp_path):
    _, faults = examine(triples_in(tmp_path / "right", "hrt"), "htr")
    assert mentioned(faults.found[0], "third column has 6 different values", "leave out --columns htr")
    data = read(triples_in(tmp_path / "swapped", "htr"), "hrt")  # as typed, and noted
    assert mentioned(data.notes[0], "second column has 6 different values")
    _, faults = examine("geography", "htr")
    assert mentioned(faults.found[0], "--columns htr", "native")


@pytest.mark.parametrize("name", ["wn18rr", "fb15k237", "codex/codex-s", "codex/codex-m"])
def test_published_graphs_are_in_the_usual_order(shared_data, name):
    _, faults = examine(shared_data / name)
    assert not faults.found
    _, faults = examine(shared_data / name, "htr")
    assert "--columns htr" in faults.found[0]


def test_the_order_is_part_of_the_identity():
    assert StatementOptions().identity() == StatementOptions(columns=None).identity()
    assert StatementOptions(columns="htr").identity()["columns"] == "htr"
    assert "columns" not in StatementOptions().identity()

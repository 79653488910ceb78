"""Readers, selections and statistics; and every fault of a folder at once, with file and line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import examine, read
from fathom.data.queries import Query
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.statistics import majority_share, random_baseline, relation_statistics
from fathom.data.templates import Sentence, Span, Template
from tests.messages import mentioned, mentions, stated


def write(folder: Path, files: dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        lines = content if isinstance(content, list) else [content]
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


def bear_folder(folder: Path, rows: list, **entry: object) -> Path:
    about = {
        "templates": ["[X] is in [Y]."],
        "answer_space_labels": ["Asia", "Europe"],
        "answer_space_ids": ["Q48", "Q46"],
    } | entry
    return write(folder, {"metadata_relations.json": {"P30": about}, "P30.jsonl": rows})


def instance(**fields: object) -> dict:
    return {"sub_id": "Q1", "sub_label": "Iran", "obj_id": "Q48", "obj_label": "Asia", "answer_idx": 0} | fields


def native_folder(folder: Path, facts: list, relations: list | None = None) -> Path:
    templates = [{"relation": "capital", "templates": ["The capital of [X] is [Y]."]}]
    return write(folder, {"facts.jsonl": facts, "relations.jsonl": relations or templates})


def fact(**fields: object) -> dict:
    return {"subject": "Uganda", "relation": "capital", "answer": "Kampala"} | fields


ROME = {"id": "Q220", "names": {"de": "Rom", "en": "Rome"}}
PARIS = {"id": "Q90", "names": {"de": "Paris", "en": "Paris"}}
TEMPLATES = {"de": ["[X] starb in [Y]."], "en": ["[X] died in [Y]."]}
DIED = {"relation": "P20", "candidates": [ROME, PARIS], "templates": TEMPLATES}


def died(language: str, name: str, **fields: str) -> dict[str, str]:
    row = {"relation": "P20", "language": language, "subject": name, "subject_id": "Q5592"}
    return row | {"answer": {"de": "Rom", "en": "Rome"}.get(language, "Roma")} | fields


def test_candidates_in_several_languages(tmp_path):
    """Equal facts in several languages have one fact_id; names and templates are those of the language."""
    data = read(native_folder(tmp_path, [died("de", "Michelangelo"), died("en", "Michelangelo")], [DIED]))
    assert [query.fact_id for query in data.queries] == ["Q5592|P20|Q220"] * 2
    assert [query.groups["language"] for query in data.queries] == ["de", "en"]
    texts = ["Michelangelo starb in [Y].", "Michelangelo died in [Y]."]
    assert [query.sentences[0].text for query in data.queries] == texts
    assert [data.candidates[query.candidates].names for query in data.queries] == [("Rom", "Paris"), ("Rome", "Paris")]
    assert (data.graph, data.notes, data.relations["P20"].cardinality) == (None, (), "1:1")


def test_faults_of_languages(tmp_path):
    facts = [died("it", "Michelangelo"), died("de", "x", answer="Rome")]
    found = examine(native_folder(tmp_path, facts, [DIED]))[1].found
    assert mentioned(found[0], "facts.jsonl:1:", "'it'", "'P20'", "de, en")
    assert mentioned(found[1], "facts.jsonl:2:", "'Rome'", "'P20/de'")
    without = native_folder(tmp_path, [died("de", "x")], [DIED | {"candidates": [{"names": {"de": "Rom"}}]}])
    assert mentioned(examine(without)[1].found[0], "relations.jsonl:1:", "'candidates'", '"names"')


@pytest.mark.parametrize(
    ("name", "instances", "relations", "baseline", "one", "many"),
    [("BEAR", 7731, 60, 0.0468, 0.0167, 0.0505), ("BEAR-big", 40916, 78, 0.0253, 0.0052, 0.0268)],
)
def test_bear_has_the_published_counts(shared_data, name, instances, relations, baseline, one, many):
    data = read(shared_data / "bear" / name)
    assert (len(data.queries), len(data.relations)) == (instances, relations)
    groups = {c: [q for q in data.queries if q.groups["cardinality"] == c] for c in ("1:1", "1:N")}
    assert random_baseline(data, data.queries) == pytest.approx(baseline, abs=5e-5)
    assert random_baseline(data, groups["1:1"]) == pytest.approx(one, abs=5e-5)
    assert random_baseline(data, groups["1:N"]) == pytest.approx(many, abs=5e-5)


def test_bear_first_tenth_and_last(shared_data):
    data = read(shared_data / "bear" / "BEAR")
    first, tenth, last = (data.queries[number] for number in (0, 9, -1))
    assert (first.id, first.fact_id, first.subject) == ("P6/0", "Q1519|P6|Q1059948", "Abu Dhabi")
    assert (tenth.id, last.id) == ("P6/9", f"P7959/{sum(q.relation == 'P7959' for q in data.queries) - 1}")
    assert data.relations["P6"].domains == ("Political", "Biographical", "Historical")
    assert data.graph is not None
    assert len(data.graph) == 7731


def test_bear_big_keeps_its_odd_lines(shared_data):
    data = read(shared_data / "bear" / "BEAR-big")
    assert sum(query.unscored is not None for query in data.queries) == 1
    assert any("P291.jsonl:41" in note for note in data.notes)
    assert any("P414" in note for note in data.notes)


def test_geography_comes_with_the_package():
    data = read("geography")
    counts = {id_: len(queries) for id_, queries in data.by_relation().items()}
    assert counts == {"capital": 193, "continent": 196, "currency": 196, "language": 196}
    assert (data.version, data.licence) == ("2", "CC0-1.0")
    assert data.notes == ()


def test_geography_accepts_every_correct_answer():
    """Other official languages and parts of a country are right; what only some sources count is not ranked."""
    data = read("geography")
    facts = {(query.subject, query.relation): query for query in data.queries}
    assert facts["Belgium", "language"].gold == ("Dutch", "French", "German")
    assert facts["Turkey", "continent"].gold == ("Asia", "Europe")
    assert facts["Panama", "currency"].gold == ("balboa", "United States dollar")
    assert facts["Bolivia", "capital"].fact_id == "Bolivia|capital|*"
    assert facts["Monaco", "capital"].gold == ("Monaco",)
    assert (facts["Mali", "language"].gold, facts["Mali", "language"].known) == (("Bambara",), ("Arabic", "French"))
    assert not {"Monte Carlo", "Singapore City", "manat", "som"} & {
        name for space in data.candidates.values() for name in space.names
    }
    assert ("Israel", "capital") not in facts


def test_majority_baselines_of_geography_by_hand():
    """Africa is among the right answers of 54 countries of 196, the euro of 27, and English of 59."""
    statistics = {row.relation: row.majority for row in relation_statistics(read("geography"))}
    assert statistics["continent"] == pytest.approx(54 / 196)
    assert statistics["currency"] == pytest.approx(27 / 196)
    assert statistics["language"] == pytest.approx(59 / 196)


def test_a_clean_bear_folder(tmp_path):
    data = read(bear_folder(tmp_path / "b", [instance(), instance(sub_id="Q2", sub_label="Oman")]))
    assert [query.fact_id for query in data.queries] == ["Q1|P30|Q48", "Q2|P30|Q48"]
    assert data.relations["P30"].cardinality == "1:N"
    assert majority_share(list(data.queries)) == 1.0


@pytest.mark.parametrize(
    ("rows", "entry", "expected"),
    [
        (["{"], {}, "P30.jsonl:1: not JSON"),
        ([instance(), "[1]"], {}, "P30.jsonl:2: expected an object"),
        ([{"sub_id": "Q1"}], {}, "P30.jsonl:1: 'sub_label' is missing"),
        ([instance(answer_idx="0")], {}, ("P30.jsonl:1:", "'answer_idx'", "int", "'0'")),
        ([instance(answer_idx=2)], {}, ("P30.jsonl:1:", "answer_idx is 2", "0 to 1")),
        ([instance(answer_idx=1)], {}, ("P30.jsonl:1:", "answer_idx 1", "'Europe'", "'Asia'")),
        ([instance()], {"templates": ["[X] is big."]}, ("P30", "'[X] is big.'", "no [Y]")),
        ([instance()], {"templates": ["[X] is [Y] and [Y]."]}, ("P30", "[Y] 2 times")),
        ([instance()], {"templates": []}, ("'templates'", "a list")),
        ([instance()], {"answer_space_labels": ["Asia", " "]}, "answer 1 is empty"),
        ([instance()], {"answer_space_labels": ["Asia", "Asia"]}, "answer 'Asia' is repeated"),
        ([instance()], {"answer_space_ids": ["Q48"]}, ("1 answer ids", "2 answers")),
        ([], {}, ("P30", "no instances")),
    ],
)
def test_bear_faults(tmp_path, rows, entry, expected):
    with pytest.raises(BadInput) as error:
        read(bear_folder(tmp_path / "b", rows, **entry))
    assert mentioned(str(error.value), expected)


def test_all_faults_at_once(tmp_path):
    _, faults = examine(bear_folder(tmp_path / "b", ["{", instance(answer_idx=9)], templates=["no places"]))
    assert len(faults.found) == 3


def test_malformed_metadata_has_its_line(tmp_path):
    folder = write(tmp_path / "b", {"metadata_relations.json": ['{"P30": {', '"templates": [}']})
    with pytest.raises(BadInput, match=r"metadata_relations.json:2: not JSON"):
        read(folder)


def test_native_format(tmp_path):
    data = read(
        native_folder(tmp_path / "n", [fact(), fact(subject="Kenya", answer="Nairobi", groups={"area": "east"})])
    )
    assert [query.gold for query in data.queries] == [("Kampala",), ("Nairobi",)]
    assert data.queries[1].groups["area"] == "east"
    assert data.candidates["capital"].names == ("Kampala", "Nairobi")
    assert relation_statistics(data)[0].cardinality == "1:1"


def test_native_sentences(tmp_path):
    sentences = ["[Y] is old.", {"text": "They met in [Y].", "surface": "the capital"}]
    alone = {"relation": "capital", "answer": "Rome", "sentences": sentences}
    data = read(native_folder(tmp_path / "n", [alone, alone | {"answer": "Oslo"}], [{"relation": "capital"}]))
    query = data.queries[0]
    assert query.sentences == (Sentence("[Y] is old.", ""), Sentence("They met in [Y].", "the capital"))
    assert (query.subject, query.subject_id, query.fact_id, query.unscored) == ("", "", None, None)
    assert data.graph is None
    assert data.notes == ()
    with_subject = read(native_folder(tmp_path / "m", [fact(sentences=["Kampala: [Y]."]), fact(subject="Kenya")]))
    assert [len(query.sentences) for query in with_subject.queries] == [1, 0]
    assert with_subject.queries[0].fact_id == "Uganda|capital|Kampala"


def test_native_several_answers_and_own_candidates(tmp_path):
    relations = [{"relation": "speaks", "templates": ["[X] speaks [Y]."], "candidates": ["Thai", "Lao", "Malay"]}]
    facts = [{"subject": "Ann", "relation": "speaks", "answers": ["Thai", "Lao"], "known": ["Malay"]}]
    facts.append({"subject": "Bob", "relation": "speaks", "answer": "Thai"})
    data = read(native_folder(tmp_path / "n", facts, relations))
    query, other = data.queries
    assert (query.gold, query.known, query.fact_id) == (("Thai", "Lao"), ("Malay",), "Ann|speaks|*")
    assert other.fact_id == "Bob|speaks|Thai"
    # Of Ann's two ranked candidates both are right, of Bob's three one; Thai is right for both.
    assert random_baseline(data, list(data.queries)) == pytest.approx((2 / 2 + 1 / 3) / 2)
    assert majority_share(list(data.queries)) == 1.0


def test_native_as_parquet(tmp_path):
    folder = native_folder(tmp_path / "n", [])
    (folder / "facts.jsonl").unlink()
    pq.write_table(pa.Table.from_pylist([fact(), fact(subject="Kenya", answer="Nairobi")]), folder / "facts.parquet")
    assert [query.subject for query in read(folder).queries] == ["Uganda", "Kenya"]


@pytest.mark.parametrize(
    ("facts", "relations", "expected"),
    [
        ([fact(relation="captial")], None, ("facts.jsonl:1:", "'captial'", "relations.jsonl", "capital")),
        ([fact(answer=" ")], None, "facts.jsonl:1: expected 'answer'"),
        ([fact(anwser="x")], None, "facts.jsonl:1: unknown field anwser"),
        ([fact(groups={"a": {"b": 1}})], None, ("facts.jsonl:1: 'groups'", "texts or numbers", "{'a': {'b': 1}}")),
        ([fact(), {"subject": "x"}], None, "facts.jsonl:2: 'relation' is missing"),
        ([fact(id="a"), fact(id="a", answer="Rome")], None, "two facts have the id 'a'"),
        ([fact(known="Rome")], None, ("facts.jsonl:1:", "'known'", "a list", "'Rome'")),
        ([fact(answer_id="a"), fact(answer_id="b")], None, ("'Kampala'", "id 'b'")),
        ([{"subject": "x", "relation": "capital", "answers": ["a", "a"]}], None, "repeated"),
        (
            [{"subject": "x", "relation": "capital", "answers": ["a", "b"], "answer_id": "a"}],
            None,
            ("'answer_id'", "'answer'"),
        ),
        (
            [fact()],
            [{"relation": "capital", "templates": ["[Y]"], "candidate": ["Kampala"]}],
            "relations.jsonl:1: unknown field candidate",
        ),
        (
            [fact()],
            [{"relation": "capital", "templates": ["[Y]"], "candidates": "KL"}],
            ("relations.jsonl:1:", "'candidates'", "a list", "'KL'"),
        ),
        ([fact()], [{"relation": "capital", "templates": ["x"]}], ("relations.jsonl:1:", "'x'", "no [Y]")),
        ([fact()], [{"relation": "capital", "templates": []}], ("'capital'", "no template")),
        (
            [fact()],
            [{"relation": "capital", "templates": ["[X] [Y]"]}] * 2,
            ("relations.jsonl:2:", "'capital'", "line 1"),
        ),
        ([fact()], [{"relation": "capital"}], ("relations.jsonl:1:", "'capital'", "no template")),
        ([{"relation": "capital", "answer": "Rome"}], None, "facts.jsonl:1: 'subject' is missing"),
        ([fact(sentences=[])], None, "facts.jsonl:1: 'sentences' is empty"),
        ([fact(sentences=["No place."])], None, ("facts.jsonl:1:", "'No place.'", "[Y] 0 times")),
        ([fact(sentences=["[Y] and [Y]."])], None, "has [Y] 2 times"),
        ([fact(sentences=["[X] has [Y]."])], None, "has [X]: write [Y] once"),
        ([fact(sentences=[{"txt": "[Y]"}])], None, '{"text"'),
        (
            [fact()],
            [{"relation": "capital", "templates": ["[Y]"], "candidates": ["Rome"]}],
            ("facts.jsonl:1:", "'Kampala'", "candidates of 'capital'"),
        ),
    ],
)
def test_native_faults(tmp_path, facts, relations, expected):
    with pytest.raises(BadInput) as error:
        read(native_folder(tmp_path / "n", facts, relations))
    assert mentioned(str(error.value), expected)


def test_an_empty_subject_is_kept_as_unscored(tmp_path):
    data = read(native_folder(tmp_path / "n", [fact(), fact(subject="")]))
    assert data.queries[1].unscored == "the subject has no name"


def test_what_is_odd_is_noted(tmp_path):
    relations = [{"relation": "capital", "templates": ["[Y] is a capital."]}]
    notes = read(native_folder(tmp_path / "n", [fact(), fact()], relations)).notes
    for expected in ("has no [X]", "has one candidate"):
        assert any(expected in note for note in notes), expected


@pytest.mark.parametrize(("known", "noted"), [([], 1), (["Kampala", "Entebbe"], 0)])
def test_several_facts_of_a_subject_are_noted_once_unless_each_knows_the_other(tmp_path, known, noted):
    answers = {"Uganda": ("Kampala", "Entebbe"), "Bolivia": ("Sucre", "La Paz")}
    facts = [fact(subject=one, answer=two, known=known and list(own)) for one, own in answers.items() for two in own]
    notes = read(native_folder(tmp_path / "n", facts)).notes
    assert len(notes) == noted
    assert noted == stated(notes, "facts.jsonl", "2", "'Uganda'", "'Bolivia'", "'capital'", "'known'")


@pytest.mark.parametrize("metadata", [[], {"P30": []}, {"P30": {"templates": ["[Y]"], "answer_space_labels": None}}])
def test_metadata_of_another_shape_is_a_fault(tmp_path, metadata):
    folder = bear_folder(tmp_path / "b", [instance()])
    (folder / "metadata_relations.json").write_text(json.dumps(metadata))
    with pytest.raises(BadInput, match=r"metadata_relations.json:1"):
        read(folder)


def test_no_data_there(tmp_path):
    with pytest.raises(BadInput, match=mentions("'/nowhere'")):
        read("/nowhere")
    with pytest.raises(BadInput, match="no format fits"):
        read(tmp_path)


def test_select(tmp_path):
    data = read("geography")
    assert len(select(data, Selection(limit=10, seed=1)).data.queries) == 10
    assert (
        select(data, Selection(limit=10, seed=1)).data.queries == select(data, Selection(limit=10, seed=1)).data.queries
    )
    assert (
        select(data, Selection(limit=10, seed=1)).data.queries != select(data, Selection(limit=10, seed=2)).data.queries
    )
    assert set(select(data, Selection(relations=["capital"])).data.by_relation()) == {"capital"}
    with pytest.raises(BadInput, match=mentions("mayor", "capital")):
        select(data, Selection(relations=["mayor"]))
    with pytest.raises(BadInput, match="no subset 'lite'"):
        select(data, Selection(subset="lite"))


def test_relations_are_chosen_by_id_or_by_a_label_of_their_own():
    data = read("geography")
    labels = {"capital": "is the capital of", "language": "spoken", "continent": "spoken"}
    relations = {id_: replace(relation, name=labels.get(id_, id_)) for id_, relation in data.relations.items()}
    labelled = replace(data, relations=relations)
    chosen = select(labelled, Selection(relations=["is the capital of"])).data
    assert set(chosen.by_relation()) == {"capital"}
    assert chosen.queries == select(labelled, Selection(relations=["capital"])).data.queries
    with pytest.raises(BadInput, match=mentions("2 relations spoken", "continent or language")):
        select(labelled, Selection(relations=["spoken"]))
    addresses = {f"http://x.org/{id_}": replace(relation, name=id_) for id_, relation in data.relations.items()}
    with pytest.raises(BadInput, match=mentions("no relation mayor", "has capital, continent")):
        select(replace(data, relations=addresses), Selection(relations=["mayor"]))


def test_content_hash_follows_content(tmp_path):
    one = read(native_folder(tmp_path / "a", [fact()]))
    same = read(native_folder(tmp_path / "b", [fact()]))
    other = read(native_folder(tmp_path / "c", [fact(answer="Entebbe")]))
    assert one.content_hash == same.content_hash != other.content_hash


def test_fact_id_of_head_queries():
    query = Query("q", "r", "Paris", "p", ("france",), "set", direction="head")
    assert query.fact_id == "france|r|p"


@pytest.mark.parametrize(
    ("template", "text", "subject", "answer"),
    [
        ("[X] is in [Y].", "Iran is in Asia.", [Span(0, 4)], [Span(11, 15)]),
        ("[Y] has [X].", "Asia has iran.", [Span(9, 13)], [Span(0, 4)]),
        ("[Y], [Y]", "Asia, asia", [], [Span(0, 4), Span(6, 10)]),
    ],
)
def test_fill_knows_where_things_stand(template, text, subject, answer):
    values = ("Iran" if template[1] == "X" else "iran", "Asia" if len(subject) and template[1] == "X" else "asia")
    prompt = Template(template).fill(*values)
    assert prompt == (text, tuple(subject), tuple(answer), 0)


def test_capitals():
    assert Template("[Y] it").fill("", "ünit").text == "Ünit it"
    assert Template("[Y] it").fill("", "ßeta").text == "ßeta it"  # "SS" would shift the spans
    assert Template("[Y] it").fill("", "unit", capitalize=False).text == "unit it"


def test_what_is_nearly_right_is_named(tmp_path):
    with pytest.raises(BadInput, match="did you mean geography"):
        read("geogrpahy")
    (tmp_path / "metadata_relation.json").write_text("{}")
    with pytest.raises(
        BadInput, match=mentions("nearest layout is bear", "metadata_relations.json is missing", "found")
    ):
        read(tmp_path)

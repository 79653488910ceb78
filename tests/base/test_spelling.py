"""White space at the ends of names, and spellings of one name, in every layout of data."""

import json
import unicodedata

import pyarrow as pa
import pyarrow.parquet
import pytest

from fathom.base.options import listed, quoted
from fathom.base.reading.spelling import folded, tidy
from fathom.data.formats import read
from tests.messages import mentioned

COMPOSED = "Malé"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
assert COMPOSED != DECOMPOSED


def lines(folder, name, *rows):
    folder.mkdir(exist_ok=True, parents=True)
    texts = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")


CAPITAL = {"relation": "capital", "templates": [" The capital of [X] is [Y]. "]}
FACTS = [
    {"subject": "Kabulistan ", "relation": "capital", "answer": " Kabul"},
    {"subject": "Kabulistan", "relation": "capital ", "answer": f"{DECOMPOSED}\u00a0"},
    {"subject": "Maldives", "relation": "capital", "answer": COMPOSED},
]


def native(folder):
    lines(folder, "relations.jsonl", CAPITAL)
    lines(folder, "facts.jsonl", *FACTS)


def parquet(folder):
    lines(folder, "relations.jsonl", CAPITAL)
    pyarrow.parquet.write_table(pa.Table.from_pylist(FACTS), folder / "facts.parquet")


def bear(folder):
    lines(folder, "metadata_relations.json", {"capital": {"templates": CAPITAL["templates"]}})
    rows = [
        {"sub_id": f"Q{n}", "sub_label": fact["subject"], "obj_label": fact["answer"]} for n, fact in enumerate(FACTS)
    ]
    lines(folder, "capital.jsonl", *(row | {"obj_id": tidy(row["obj_label"])} for row in rows))


def lama(folder):
    lines(folder, "relations.jsonl", {"relation": "P36", "template": CAPITAL["templates"][0]})
    rows = [{"predicate_id": "P36", "sub_label": fact["subject"], "obj_label": fact["answer"]} for fact in FACTS]
    lines(folder, "P36.jsonl", *rows)


def lre(folder):
    samples = [{"subject": fact["subject"], "object": fact["answer"]} for fact in FACTS]
    texts = ["The capital of {} is "]
    lines(folder, "capital.json", {"name": "capital", "prompt_templates": texts, "samples": samples})


def rdf(folder):
    texts = [
        f'<x:{n}> <http://www.w3.org/2000/01/rdf-schema#label> "{fact[key]}" .'
        for n, fact in enumerate(FACTS)
        for n, key in ((f"s{n}", "subject"), (f"o{n}", "answer"))
    ]
    lines(folder, "graph.ttl", *texts, *(f"<x:s{n}> <x:capital> <x:o{n}> ." for n in range(3)))


def plain(folder):
    lines(folder, "graph.tsv", *(f"{fact['subject']}\tcapital \t{fact['answer']}" for fact in FACTS))


def simkgc(folder):
    rows = [(f"s{n}", f"o{n}", fact["subject"], fact["answer"]) for n, fact in enumerate(FACTS)]
    lines(folder, "train.txt", *(f"{head} \tcapital\t{tail}" for head, tail, *_ in rows))
    lines(folder, "wikidata5m_entity.txt", *(f"{head}\t{a}\talias\n{tail}\t{b} \tx" for head, tail, a, b in rows))
    lines(folder, "wikidata5m_relation.txt", "capital\tcapital")


LAYOUTS = [native, parquet, bear, lama, lre, rdf, plain, simkgc]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_have_one_spelling_in_every_layout(tmp_path, layout):
    """Kabul and Malé are two candidates, though the files spell them in three ways."""
    layout(tmp_path / "data")
    data = read(tmp_path / "data")
    names = {name for space in data.candidates.values() for name in space.names}
    assert names - {"Kabulistan", "Maldives"} == {"Kabul", COMPOSED}
    assert {query.subject for query in data.queries} == {"Kabulistan", "Maldives"}
    assert len(data.relations) == 1


@pytest.mark.parametrize("layout", [native, parquet, bear, lama, lre])
def test_statements_have_one_space_before_the_answer(tmp_path, layout):
    layout(tmp_path / "data")
    data = read(tmp_path / "data")
    space = next(iter(data.candidates.values()))
    prompt = data.phrasings(data.queries[0])[0].fill(data.queries[0].subject, space.names[0]).text
    assert prompt.removesuffix(".") == "The capital of Kabulistan is Kabul"


@pytest.mark.parametrize(
    ("layout", "place"), [(native, "facts.jsonl:1"), (parquet, "facts.parquet:1"), (bear, "capital.jsonl:1"),
                          (lama, "P36.jsonl:1"), (lre, "capital.json:1"), (plain, "graph.tsv:1")]
)  # fmt: skip
def test_notes_name_the_lines(tmp_path, layout, place):
    layout(tmp_path / "data")
    notes = read(tmp_path / "data").notes
    assert any(mentioned(note, place, "' Kabul'") or mentioned(note, place, "'Kabulistan '") for note in notes), notes


def test_counterfact_targets_that_begin_with_a_space(tmp_path):
    """EasyEdit's files end prompts in "is" and begin targets with a space: two candidates, not three."""
    row = {
        "case_id": 0,
        "prompt": "The mother tongue of Danielle Darrieux is ",
        "target_new": " English",
        "subject": "Danielle Darrieux",
        "ground_truth": "French",
        "rephrase_prompt": "Danielle Darrieux speaks",
        "locality_prompt": "Montesquieu spoke",
        "locality_ground_truth": " French",
    }
    (tmp_path / "counterfact-edit.json").write_text(json.dumps([row, row | {"case_id": 1, "target_new": "English"}]))
    data = read(tmp_path)
    assert {space.names for space in data.candidates.values()} == {("French", "English")}
    assert data.queries[0].sentences[0].text == "The mother tongue of Danielle Darrieux is [Y]"


def test_inner_white_space_stays():
    assert tidy("\t New  York\u200b\u200f\n") == "New  York"
    assert tidy(" \u200e") == ""


@pytest.mark.parametrize(
    ("first", "second"), [("Paris", "PARIS"), ("ﬁlm", "film"), ("New\u00a0York", "New  York"), ("Straße", "STRASSE")]
)
def test_names_that_look_alike(first, second):
    assert folded(first) == folded(second)


def test_accents_make_another_name():
    assert folded("Malé") != folded("Male")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ("a", "b")),
        ('"a,b",c', ("a,b", "c")),
        ('c, "a, b"', ("c", "a, b")),
        ('"say ""a, b"""', ('say "a, b"',)),
        ('5" disk,b', ('5" disk', "b")),
        ("a,,b ", ("a", "b")),
    ],
)
def test_a_name_with_a_comma_is_one_part_in_quotation_marks(text, parts):
    assert listed(text) == parts
    assert listed(",".join(map(quoted, parts))) == parts

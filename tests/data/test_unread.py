"""Every file next to a data set is read, or named as not read, in every layout."""

import json

import pandas
import pytest

from fathom.data.formats import examine, format_of, read
from tests.base.test_spelling import LAYOUTS, bear, lama, lines, native, parquet, plain, rdf, simkgc
from tests.messages import mentioned

GRAPHS = (rdf, plain, simkgc)


def notes_after(folder, name, *rows):
    lines(folder, name, *rows)
    data, faults = examine(folder)
    return data, [*faults.found, *faults.notes]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["extra.jsonl", "extra.tsv", "extra.csv"])
def test_files_that_no_layout_has_are_named(tmp_path, layout, name):
    layout(tmp_path / "d")
    data, notes = notes_after(tmp_path / "d", name, '{"a": 1}')
    assert data is not None
    assert any(mentioned(note, "not read", name) for note in notes), notes


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_takes_its_name_and_licence_from_dataset_json(tmp_path, layout):
    layout(tmp_path / "d")
    data, notes = notes_after(tmp_path / "d", "dataset.json", {"name": "Mine", "version": 2, "licence": "MIT"})
    assert (data.name, data.version, data.licence) == ("Mine", "2", "MIT")
    assert not any("not read" in note for note in notes)


@pytest.mark.parametrize("layout", [*GRAPHS, bear, lama, native])
def test_templates_are_read_or_named(tmp_path, layout):
    layout(tmp_path / "d")
    relation = next(iter(read(tmp_path / "d").relations))
    data, notes = notes_after(tmp_path / "d", "templates.jsonl", {"relation": relation, "template": "[X] has [Y]."})
    if layout in GRAPHS:
        assert [template.text for template in data.relations[relation].templates] == ["[X] has [Y]."]
    else:
        assert any(mentioned(note, "not read", "templates.jsonl") for note in notes)


def test_facts_in_two_files_are_refused(tmp_path):
    native(tmp_path)
    parquet(tmp_path)
    _, faults = examine(tmp_path)
    assert mentioned(faults.found[0], "facts.parquet", "next to facts.jsonl", "remove")


def test_an_answer_next_to_answers_is_refused(tmp_path):
    lines(tmp_path, "relations.jsonl", {"relation": "in", "templates": ["[X] is in [Y]."]})
    row = {"relation": "in", "subject": "Calw", "answer": "Bonn", "answers": ["Ada", "Dover"]}
    _, faults = examine(lines(tmp_path, "facts.jsonl", row) or tmp_path)
    assert mentioned(faults.found[0], "facts.jsonl:1", "'answer' and 'answers'")


def test_a_template_next_to_templates_is_read(tmp_path):
    plain(tmp_path / "d")
    row = {"relation": "capital", "template": "[X]: [Y]", "templates": ["[X] has [Y]."]}
    data, _ = notes_after(tmp_path / "d", "templates.jsonl", row)
    assert [template.text for template in data.relations["capital"].templates] == ["[X] has [Y].", "[X]: [Y]"]


@pytest.mark.parametrize("rows", [("Person_19\t0", "Bonn\t1"), ("2", "Person_19\t0", "Bonn\t1")])
def test_ids_next_to_triples_of_names(tmp_path, rows):
    """KGDatasets and others list numbers next to plain triples: with and without OpenKE's counts."""
    lines(tmp_path, "train.txt", "Person_19\tbornIn\tBonn", "Person_19\tcitizenOf\tNorthland")
    lines(tmp_path, "test.txt", "Person_2\tbornIn\tBonn")
    alone = read(tmp_path)
    lines(tmp_path, "entity2id.txt", *rows)
    lines(tmp_path, "relation2id.txt", *rows)
    data = read(tmp_path)
    assert format_of(tmp_path).name == "kg"
    assert data.content_hash == alone.content_hash
    assert (len(data.queries), list(data.relations)) == (1, ["bornIn"])
    assert mentioned(data.notes[-1], "not read", "entity2id.txt", "relation2id.txt")


def frame_of(*answers):
    return pandas.DataFrame({"subject": ["Kenya", "Chad"], "relation": "capital", "answer": list(answers)})


@pytest.mark.parametrize("index", ["filtered", "named", "field", "two"])
def test_the_index_of_a_table_of_pandas(tmp_path, index):
    """The index is no field, unless it has the name of one."""
    frame = frame_of("Nairobi", "N'Djamena")
    frame = {
        "filtered": frame[frame.answer != ""].iloc[[0, 1]].set_axis([5, 9]),
        "named": frame.set_axis(pandas.Index(["a", "b"], name="key")),
        "field": frame.set_index("subject"),
        "two": frame.set_index(["subject", pandas.Index([3, 4])]),
    }[index]
    lines(tmp_path, "relations.jsonl", {"relation": "capital", "templates": ["The capital of [X] is [Y]."]})
    frame.to_parquet(tmp_path / "facts.parquet")
    data, faults = examine(tmp_path)
    assert not faults.found
    assert [(query.subject, query.gold) for query in data.queries] == [
        ("Kenya", ("Nairobi",)),
        ("Chad", ("N'Djamena",)),
    ]
    assert any("key" in note for note in data.notes) == (index == "named")


def test_an_unknown_column_is_still_refused(tmp_path):
    lines(tmp_path, "relations.jsonl", {"relation": "capital", "templates": ["The capital of [X] is [Y]."]})
    frame_of("Nairobi", "N'Djamena").assign(anwser="x").to_parquet(tmp_path / "facts.parquet")
    _, faults = examine(tmp_path)
    assert mentioned(faults.found[0], "unknown field anwser", "facts.parquet:1")


def test_metadata_of_pandas_that_are_damaged_or_lost(tmp_path):
    import pyarrow.parquet

    lines(tmp_path, "relations.jsonl", {"relation": "capital", "templates": ["The capital of [X] is [Y]."]})
    table = pyarrow.Table.from_pandas(frame_of("Nairobi", "N'Djamena"))
    for about in (b"{", json.dumps({"index_columns": 3}).encode(), b"[]"):
        pyarrow.parquet.write_table(table.replace_schema_metadata({b"pandas": about}), tmp_path / "facts.parquet")
        assert len(read(tmp_path).queries) == 2
    column = table.append_column("__index_level_0__", pyarrow.array([5, 9]))
    pyarrow.parquet.write_table(column.replace_schema_metadata(), tmp_path / "facts.parquet")
    assert len(read(tmp_path).queries) == 2

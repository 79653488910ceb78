"""Facts in a table: subject, relation, answer and perhaps template, as spreadsheets and data frames write it."""

import csv
import gzip

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

from fathom import BadInput
from fathom.data.formats import examine, format_of, read
from tests.base.test_spelling import lines
from tests.messages import mentioned

HEADER = "subject,relation,answer,template"
ROWS = ("Kenya,capital,Nairobi,The capital of [X] is [Y].", '"Korea, South",capital,Seoul,The capital of [X] is [Y].')


def table(folder, *rows, name="facts.csv"):
    lines(folder, name, *rows)
    return folder / name


def facts_of(data):
    return [(query.relation, query.subject, query.gold) for query in data.queries]


FACTS = [("capital", "Kenya", ("Nairobi",)), ("capital", "Korea, South", ("Seoul",))]


@pytest.mark.parametrize("name", ["facts.csv", "mine.csv"])
def test_a_table_of_facts(tmp_path, name):
    file = table(tmp_path, HEADER, *ROWS, name=name)
    data = read(file)
    assert format_of(file).name == "native"
    assert facts_of(data) == FACTS
    assert [template.text for template in data.relations["capital"].templates] == ["The capital of [X] is [Y]."]
    assert (data.name, data.notes) == (name.removesuffix(".csv"), ())
    if name == "facts.csv":
        assert read(tmp_path).content_hash == data.content_hash


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 0, 1)])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_columns_in_any_order_and_with_any_separator(tmp_path, delimiter, order, encoding, ending):
    file = tmp_path / ("facts.tsv" if delimiter == "\t" else "facts.csv")
    with file.open("w", encoding=encoding, newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=ending)
        for row in csv.reader([HEADER.title(), *ROWS]):
            writer.writerow([row[place] for place in order])
    for path in (file, tmp_path):
        assert facts_of(read(path)) == FACTS


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("subject,relation,object", "Kenya,capital,Nairobi"), ("facts.csv:1", "column answer is missing", "object")),
        (("subject,relation,answer,answer", "a,b,c,d"), ("facts.csv:1", "two columns are the answer")),
        ((HEADER, ROWS[0], "Chad,capital,,The capital of [X] is [Y]."), ("facts.csv:3", "'answer'", "not empty")),
        ((HEADER, ROWS[0], "Chad,,N'Djamena,"), ("facts.csv:3", "'relation'", "not empty")),
        ((HEADER, ROWS[0], "", "Korea, South,capital,Seoul,x"), ("facts.csv:4", "5 cells for 4 columns", "quote")),
        ((HEADER, "Chad,capital"), ("facts.csv:2", "2 cells for 4 columns")),
        ((HEADER, ROWS[0], "\"Chad,capital,N'Djamena,"), ("facts.csv:3", "not a table")),
        ((HEADER, "Chad,capital,N'Djamena,The capital of [X]."), ("facts.csv:2", "has no [Y]")),
        ((HEADER, "Chad,capital,N'Djamena,A capital."), ("facts.csv:2", "[Y]")),
        ((HEADER,), ("facts.csv", "no facts")),
        ((HEADER, "Chad,P36,N'Djamena,"), ("facts.csv:2", "'P36'", "no words", "column 'template'")),
    ],
)
def test_faults_of_a_table_are_one_line_each(tmp_path, rows, expected):
    _, faults = examine(table(tmp_path, *rows))
    (fault,) = faults.found
    assert mentioned(fault, *expected)


def test_a_cell_of_two_lines_does_not_shift_the_lines(tmp_path):
    rows = (HEADER, '"Korea,\nSouth",capital,Seoul,The capital of [X] is [Y].', "Chad,capital,,")
    _, faults = examine(table(tmp_path, *rows))
    assert mentioned(faults.found[0], "facts.csv:4", "'answer'")


def test_without_templates_the_relation_names_make_one(tmp_path, caplog):
    caplog.set_level("INFO", logger="fathom")
    rows = ("Kenya,capital,Nairobi", "Chad,wasBornIn,N'Djamena", "Mali,located_in,Africa")
    data = read(table(tmp_path, "subject,relation,answer", *rows))
    assert [relation.templates[0].text for relation in data.relations.values()] == [
        "The capital of [X] is [Y].", "[X] was born in [Y].", "[X] is located in [Y].",
    ]  # fmt: skip
    assert mentioned(caplog.text, "made of the names", "The capital of [X] is [Y].", "column 'template'")
    relations = [{"relation": row.split(",")[1], "templates": ["[X]: [Y]"]} for row in rows]
    lines(tmp_path, "relations.jsonl", *relations)
    assert {relation.templates[0].text for relation in read(tmp_path).relations.values()} == {"[X]: [Y]"}


TRIPLES = {"head": ["Kenya", "Korea, South"], "relation": ["capital"] * 2, "tail": ["Nairobi", "Seoul"]}
NAMES = {"subject": "Country", "answer": "label"}


def renamed(frame):
    return {"Country": frame["head"], "relation": frame["relation"], "Label": frame["tail"], "year": [1963, None]}


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pa.table])
def test_data_frames_are_tables(make):
    data = read(make(TRIPLES))
    assert facts_of(data) == FACTS
    years = [query.groups["year"] for query in read(make(renamed(TRIPLES)), NAMES).queries]
    assert years == ["1963", "unknown"]  # pandas makes floating numbers of integers with a gap


def test_an_index_of_pandas_may_be_a_column():
    frame = pandas.DataFrame(TRIPLES)
    assert facts_of(read(frame.set_index("head"))) == FACTS
    assert facts_of(read(frame.iloc[::-1])) == FACTS[::-1]


@pytest.mark.parametrize(
    ("frame", "columns", "expected"),
    [
        (pa.table(TRIPLES).drop_columns("tail"), None, ("<data frame>", "column answer is missing", "columns={")),
        (pa.table({**TRIPLES, "tail": [["Nairobi"], ["Seoul"]]}), None, ("<data frame>:1", "'answer' must be text")),
        (pa.table({**TRIPLES, "tail": ["Nairobi", None]}), None, ("<data frame>:2", "'answer'", "not empty")),
        (pa.table(TRIPLES), {"object": "tail"}, ("columns", "expected hrt, htr, or pairs")),
        (5, None, ("type int", "data frame")),
    ],
)
def test_faults_of_data_frames(frame, columns, expected):
    with pytest.raises(BadInput) as raised:
        read(frame, columns)
    assert mentioned(str(raised.value), *expected)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_columns_of_other_names(tmp_path, ending):
    frame = pandas.DataFrame(renamed(TRIPLES))
    file = tmp_path / f"capitals{ending}"
    if ending == ".parquet":
        frame.to_parquet(file)
    else:
        frame.to_csv(file, sep="\t" if ending == ".tsv" else ",", index=False)
    columns = "subject=Country, relation=relation, answer=label"
    assert facts_of(read(file, columns)) == FACTS
    if ending != ".tsv":
        with pytest.raises(BadInput, match=r"column subject, answer is missing.*--columns"):
            read(file)


@pytest.mark.parametrize(
    "columns",
    [
        "",
        "subject",
        "subject=",
        "subject=a,subject=b",
        "subject=a,answer=A",
        "subject=a,object=b",
        "hrt,htr",
        "subject=a,",
    ],
)
def test_columns_that_say_nothing(tmp_path, columns):
    with pytest.raises(BadInput, match="columns: expected hrt, htr, or pairs"):
        read(table(tmp_path, HEADER, *ROWS), columns)


def test_names_of_columns_are_for_tables(tmp_path):
    lines(tmp_path, "train.tsv", "Kenya\tcapital\tNairobi", "Chad\tcapital\tN'Djamena")
    with pytest.raises(BadInput, match="is of a table"):
        read(tmp_path, "subject=a,answer=b")


@pytest.mark.parametrize(
    ("header", "columns", "expected"),
    [
        ("subject,relation,answer", "subject=nope", ("no column nope", "found ['subject', 'relation', 'answer']")),
        ("subject,relation,answer", "template=text", ("no column text",)),
        ("subject,name,relation,answer", "subject=name", ("two columns are the subject: subject and name",)),
        ("city,relation,answer", None, ("column subject is missing", "'city'", "--columns")),
        ("city,relation,answer", "answer=city", ("two columns are the answer: city and answer",)),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_that_do_not_fit_are_named_as_the_table_names_them(tmp_path, ending, header, columns, expected):
    frame = pandas.DataFrame([["Kenya", "capital", "Nairobi", "x"][: header.count(",") + 1]], columns=header.split(","))
    file = tmp_path / f"t{ending}"
    frame.to_parquet(file) if ending == ".parquet" else frame.to_csv(file, index=False)
    _, faults = examine(file, columns)
    [fault] = faults.found
    assert mentioned(fault, *expected)


def test_head_is_a_group_where_there_is_a_subject(tmp_path):
    data = read(table(tmp_path, "head,subject,relation,answer", "x,Kenya,capital,Nairobi", "y,Chad,capital,N'Djamena"))
    assert [query.groups["head"] for query in data.queries] == ["x", "y"]


def test_names_of_frames_are_tidied_as_those_of_texts_are():
    names = {
        " Subject ": ["Kenya", "Chad"],
        "relation": ["capital", "capital "],
        "answer": ["Zu\u0308rich", " Z\u00fcrich"],
    }
    data = read(pa.table(names))
    assert len(data.relations) == 1
    assert [query.gold for query in data.queries] == [("Z\u00fcrich",)] * 2
    assert any("differently" in note or "spelt" in note or "NFC" in note for note in data.notes)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([2**62, 1], pa.timestamp("us")), "<value out of range: 4611686018427387904>"),
        (pa.array([True, False]), "true"),
        (pa.array([1.5, float("nan")]), "1.5"),
        (pa.array(["a", "b"]).dictionary_encode(), "a"),
    ],
)
def test_columns_of_any_type_are_groups(column, expected):
    assert read(pa.table({**TRIPLES, "more": column})).queries[0].groups["more"] == expected


def test_a_template_that_is_a_list_is_a_fault():
    with pytest.raises(BadInput, match="'template' must be text"):
        read(pa.table({**TRIPLES, "template": [["a"], ["b"]]}))


def test_sentences_of_a_relation_are_not_replaced_by_a_made_template(tmp_path):
    rows = (HEADER, "Kenya,capital,Nairobi,The city [Y] heads Kenya.", "Chad,capital,N'Djamena,")
    _, faults = examine(table(tmp_path, *rows))
    [fault] = faults.found
    assert mentioned(fault, "'capital' has no template", "'sentences'")
    data = read(table(tmp_path, *rows[:2], "Chad,capital,N'Djamena,The city [Y] heads Chad."))
    assert data.relations["capital"].templates == ()


def test_a_relation_that_is_a_statement_is_its_template(tmp_path):
    data = read(
        table(tmp_path, "subject,relation,answer", "Kenya,[X] lies in [Y].,Africa", "Chad,/place/part_of,Africa")
    )
    assert [relation.templates[0].text for relation in data.relations.values()] == [
        "[X] lies in [Y].",
        "[X] is part of [Y].",
    ]
    _, faults = examine(table(tmp_path, "subject,relation,answer", "Kenya,[X] lies,Africa"))
    assert mentioned(faults.found[0], "facts.csv:2", "no [Y]")


def test_subjects_of_one_name_are_told_apart_by_their_ids(tmp_path):
    header = "subject,subject_id,relation,answer,template"
    data = read(table(tmp_path, header, "Paris,Q1,in,France,[X] is in [Y].", "Paris,Q2,in,Texas,[X] is in [Y]."))
    assert [query.known for query in data.queries] == [(), ()]


def test_templates_belong_to_the_language_of_their_row(tmp_path):
    header = "subject,language,relation,answer,template"
    rows = (
        "Kenia,de,capital,Nairobi,Die Hauptstadt von [X] ist [Y].",
        "Kenya,en,capital,Nairobi,The capital of [X] is [Y].",
    )
    data = read(table(tmp_path, header, *rows))
    asked = [[template.text for template in data.phrasings(query)] for query in data.queries]
    assert asked == [["Die Hauptstadt von Kenia ist [Y]."], ["The capital of Kenya is [Y]."]]
    lines(tmp_path, "relations.jsonl", {"relation": "capital", "templates": {"de": ["[X]: [Y]"], "en": ["[X]: [Y]"]}})
    _, faults = examine(tmp_path)
    assert mentioned(faults.found[0], "facts.csv:2", "a template, where relations.jsonl has templates by language")


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".csv"])
def test_a_language_without_a_template_is_a_fault(tmp_path, ending):
    lines(tmp_path, "relations.jsonl", {"relation": "capital", "templates": {"de": ["[X]: [Y]"]}})
    fact = {"subject": "Kenya", "relation": "capital", "answer": "Nairobi", "language": "fr"}
    if ending == ".jsonl":
        lines(tmp_path, "facts.jsonl", fact)
    elif ending == ".csv":
        table(tmp_path, ",".join(fact), ",".join(fact.values()))
    else:
        pq.write_table(pa.Table.from_pylist([fact]), tmp_path / "facts.parquet")
    _, faults = examine(tmp_path)
    assert any("has no template in 'fr'" in fault for fault in faults.found)


def test_tables_by_other_endings(tmp_path):
    table(tmp_path, HEADER, *ROWS, name="T.CSV")
    with gzip.open(tmp_path / "t.csv.gz", "wb") as stream:
        stream.write((tmp_path / "T.CSV").read_bytes())
    assert facts_of(read(tmp_path / "T.CSV")) == facts_of(read(tmp_path / "t.csv.gz")) == FACTS


def test_columns_of_a_folder_name_its_table(tmp_path):
    file = table(tmp_path, "city,relation,answer", "Kenya,capital,Nairobi")
    _, faults = examine(tmp_path, "subject=city")
    [fault] = faults.found
    assert mentioned(fault, "is of a table", f"give the file {file}")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub with a data set of two tables, and one of one."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name, files in {"many": ("a.csv", "data/b.parquet", "README.md"), "single": ("data/b.parquet",)}.items():
        place = tmp_path / f"datasets--owner--{name}"
        snapshot = place / "snapshots" / ("0" * 40)
        (snapshot / "data").mkdir(parents=True)
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text("0" * 40)
        for file in files:
            blob = place / "blobs" / file.replace("/", "-")
            blob.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table(TRIPLES), blob) if file.endswith("parquet") else blob.write_text(HEADER)
            (snapshot / file).symlink_to(blob)


def test_a_data_set_of_the_hub(hub):
    for address in ("hf://datasets/owner/single", "hf://datasets/owner/many/data/b.parquet"):
        data = read(address)
        assert (facts_of(data), data.name) == (FACTS, address.removeprefix("hf://datasets/"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("owner/many", ("name the table", "a.csv", "data/b.parquet")),
        ("owner/many/c.csv", ("cannot be fetched", "HF_HUB_OFFLINE")),
        ("owner/none", ("cannot be fetched", "HF_HUB_OFFLINE")),
        ("owner", ("expected hf://datasets/OWNER/NAME",)),
    ],
)
def test_a_data_set_that_the_hub_does_not_give(hub, address, expected):
    with pytest.raises(BadInput) as raised:
        read(f"hf://datasets/{address}")
    assert mentioned(str(raised.value), *expected)


def test_rows_that_differ_in_their_template_are_one_fact(tmp_path):
    rows = ("Chad,capital,N'Djamena,The capital of [X] is [Y].", "Chad,capital,N'Djamena,[Y] is in [X].")
    data = read(table(tmp_path, HEADER, *ROWS, *rows))
    assert facts_of(data) == [*FACTS, ("capital", "Chad", ("N'Djamena",))]
    assert [template.text for template in data.relations["capital"].templates] == [
        "The capital of [X] is [Y].",
        "[Y] is in [X].",
    ]


def test_a_template_without_subject_is_the_sentence_of_its_fact(tmp_path):
    rows = ("Chad,capital,N'Djamena,The capital of the Republic of Chad is [Y].",)
    data = read(table(tmp_path, HEADER, *ROWS, *rows))
    assert [[sentence.text for sentence in query.sentences] for query in data.queries] == [
        [], [], ["The capital of the Republic of Chad is [Y]."],
    ]  # fmt: skip
    assert len(data.relations["capital"].templates) == 1


def test_rows_of_one_subject_do_not_count_as_wrong(tmp_path):
    data = read(table(tmp_path, HEADER, *ROWS, "Bolivia,capital,Sucre,", "Bolivia,capital,La Paz,"))
    assert [(query.gold, query.known) for query in data.queries[2:]] == [
        (("Sucre",), ("La Paz",)),
        (("La Paz",), ("Sucre",)),
    ]


def test_further_columns_are_fields_or_groups_and_named(tmp_path):
    header = "subject,subject_id,relation,answer,template,year"
    rows = ("Kenya,Q114,capital,Nairobi,[X]: [Y],1963", "Chad,Q657,capital,N'Djamena,[X]: [Y],")
    data = read(table(tmp_path, header, *rows))
    assert [query.subject_id for query in data.queries] == ["Q114", "Q657"]
    assert [query.groups["year"] for query in data.queries] == ["1963", "unknown"]
    assert mentioned(data.notes[0], "facts.csv:1", "groups", "year")


def test_triples_named_facts_tsv_stay_triples(tmp_path):
    table(tmp_path, "Kenya\tcapital\tNairobi", "Chad\tcapital\tN'Djamena", name="facts.tsv")
    assert format_of(tmp_path).name == "kg"


def test_a_table_next_to_facts_in_json_is_refused(tmp_path):
    table(tmp_path, HEADER, *ROWS)
    lines(tmp_path, "facts.jsonl", {"subject": "Kenya", "relation": "capital", "answer": "Nairobi"})
    _, faults = examine(tmp_path)
    assert any(mentioned(fault, "facts.csv", "next to facts.jsonl") for fault in faults.found)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"mine.csv": HEADER}, ("give the file", "mine.csv")),
        (
            {"relations.jsonl": '{"relation": "capital", "templates": ["[X]: [Y]"]}'},
            ("native", "facts.jsonl is missing"),
        ),
        ({"notes.txt": "some text"}, ("facts.jsonl", "fathom data list")),
    ],
)
def test_what_fits_no_layout_gets_the_nearest_one(tmp_path, files, expected):
    for name, text in files.items():
        lines(tmp_path, name, text)
    _, faults = examine(tmp_path)
    (fault,) = faults.found
    assert mentioned(fault, "no format fits", *expected)
    assert len(fault) < 300 + len(str(tmp_path))


def test_a_file_that_fits_no_layout(tmp_path):
    _, faults = examine(table(tmp_path, "some text", name="notes.txt"))
    assert mentioned(faults.found[0], "notes.txt", "subject, relation and answer", "three columns")

"""Records of tables: data sets that they read, and faults of rows that do not fit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fathom.base.reading import Faults, yaml_value
from fathom.data.formats.base import Format
from fathom.data.formats.rows import KINDS, OPTIONAL
from fathom.data.formats.tables import Record, Table
from fathom.data.published import catalogue
from tests.messages import mentioned, stated

CAPITALS = """
expects: capitals.json
rows: list
nothing: no capitals
layouts:
  - opens: [country, capital]
    columns: {country: text, capital: text, others: texts or none, year: number or none}
    queries:
      - {relation: capital, subject: "{country}", right: "{capital}", prompts: "The capital of {country} is",
         groups: {year: "{year}"}}
"""


def table(text: str = CAPITALS, **changes: object) -> Format:
    return Table("capitals", Record(**(yaml_value(text) | changes)), "CC0").format


def rows(folder: Path, *content: object, name: str = "capitals.json") -> Path:
    (folder / name).write_text(json.dumps(content, indent=1))
    return folder


UGANDA, PERU = {"country": "Uganda", "capital": "Kampala"}, {"country": "Peru", "capital": "Lima", "year": 1821}


def test_a_record_is_all_that_a_table_takes(tmp_path):
    capitals = table()
    assert capitals.fits(rows(tmp_path, UGANDA, PERU))
    data = capitals.read(tmp_path, Faults())
    assert data is not None
    assert [query.fact_id for query in data.queries] == ["Uganda|capital|Kampala", "Peru|capital|Lima"]
    assert data.queries[0].sentences[0].text == "The capital of Uganda is [Y]"
    assert [query.groups["year"] for query in data.queries] == ["", "1821"]
    assert data.candidates["capital"].names == ("Kampala", "Lima")
    assert (data.licence, data.graph is not None) == ("CC0", True)


def test_questions_with_their_own_answers(tmp_path):
    """Distractors make the answers of each row its own; lists make a query of each item."""
    changed = CAPITALS.replace('right: "{capital}"', 'right: "{capital}", wrong: "{others}"')
    changed = changed.replace('prompts: "The capital of {country} is"', 'each: {text: texts}, prompts: "{text}"')
    row = UGANDA | {"others": ["Entebbe", "Jinja"], "texts": ["Its capital is", "It is ruled from"]}
    data = table(changed).read(rows(tmp_path, row), Faults())
    assert data is not None
    assert [query.sentences[0].text for query in data.queries] == ["Its capital is [Y]", "It is ruled from [Y]"]
    (space,) = data.candidates.values()
    assert space.names == ("Kampala", "Entebbe", "Jinja")


def test_lists_of_unequal_length(tmp_path):
    changed = CAPITALS.replace('right: "{capital}"', "right: '{name}', each: {name: names, text: texts}")
    faults = Faults()
    assert table(changed).read(rows(tmp_path, UGANDA | {"names": ["x"], "texts": ["a", "b"]}), faults) is None
    assert mentioned(faults.found[0], "capitals.json:2:", "names, texts")


def test_files_of_one_name_in_several_folders(tmp_path):
    (tmp_path / "more").mkdir()
    rows(rows(tmp_path, UGANDA) / "more", PERU)
    data = table(folders=["*"]).read(tmp_path, Faults())
    assert data is not None
    assert [query.subject for query in data.queries] == ["Uganda", "Peru"]


def test_templates_of_a_relation(tmp_path):
    changed = CAPITALS.replace('prompts: "The capital of {country} is"', 'templates: ["The capital of {} is", "{own}"]')
    row = UGANDA | {"own": "{} has the capital"}
    data = table(changed).read(rows(tmp_path, row, PERU), Faults())
    assert data is not None
    templates = [template.text for template in data.relations["capital"].templates]
    assert templates == ["The capital of [X] is [Y]", "[X] has the capital [Y]"]
    assert not data.has_sentences
    faults = Faults()
    assert table(changed).read(rows(tmp_path, UGANDA | {"own": "It is"}), faults) is None
    assert mentioned(faults.found[0], "capitals.json:2:", "'It is'", "{}")


def test_the_same_file_twice(tmp_path):
    (rows(tmp_path, UGANDA) / "capitals.json.gz").write_bytes(gzip.compress((tmp_path / "capitals.json").read_bytes()))
    faults = Faults()
    assert table().read(tmp_path, faults) is None
    assert mentioned(faults.found[0], "capitals.json.gz", "next to capitals.json")


def test_rows_that_do_not_fit(tmp_path):
    faults = Faults()
    assert table().read(rows(tmp_path, UGANDA, {"country": None, "year": "1821"}), faults) is None
    (fault,) = faults.found
    assert mentioned(fault, "capitals.json:6:", "'country' must be text, found null", "'capital' is missing", "'1821'")


def test_independent_files_with_faults_are_left_out(tmp_path):
    rows(rows(tmp_path, UGANDA), {"country": "x"}, name="bad.json")
    (tmp_path / "bad.json").write_text('[{"country": "x", "capital": 1}, {"country": "y", "capital": 2}]')
    faults = Faults()
    data = table(separate=True).read(tmp_path, faults)
    assert data is not None
    assert len(data.queries) == 1
    assert stated(data.notes, "bad.json left out", "'capital'", "2 faults")
    (tmp_path / "capitals.json").unlink()
    assert table(separate=True).read(tmp_path, faults) is None
    assert len(faults.found) == 2


def test_known_variants_are_refused(tmp_path):
    refused = [{"opens": ["land"], "why": "German capitals: give the English ones"}]
    german = table(refused=refused)
    assert german.fits(rows(tmp_path, {"land": "Peru"}))
    faults = Faults()
    assert german.read(tmp_path, faults) is None
    assert faults.found[0].endswith("give the English ones")


def test_misspelt_records_are_errors():
    with pytest.raises(ValidationError):
        table(file=".+")
    with pytest.raises(KeyError):
        table(rows="lists")


def test_records_of_the_catalogue_use_kinds_that_exist():
    for entry in catalogue().values():
        for layout in Record(**entry.table).layouts if entry.table else ():
            assert {kind.removesuffix(OPTIONAL) for kind in layout.columns.values()} <= KINDS.keys(), entry.name
            assert all(layout.items) or not layout.queries

"""Knowledge graphs in the files that SimKGC takes: Wikidata5m, WN18RR and FB15k-237, in their published layouts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fathom.data.formats import examine, read
from fathom.data.queries import QuerySet
from tests.messages import mentioned, stated

SPLITS = {
    "train": "Q1\tP31\tQ2\nQ3\tP31\tQ2\nQ1\tP2439\tQ4\n",
    "valid": "Q3\tP31\tQ4\n",
    "test": "Q1\tP31\tQ5\nQ4\tP31\tQ2\n",
}
ENTITIES = "Q1\tUniverse\tthe cosmos\tEverything\nQ2\tsystem\nQ3\tEarth\tterra\nQ4\tplace\nQ9\tnever used\n"
RELATIONS = "P31\tinstance of\tis a\n"
TEXT = "Q1\tAll of space\tand time.\nQ4\tWhere it is.\n"


def wikidata(folder: Path, before: str = "wikidata5m_transductive_", packed: bool = False) -> Path:
    files = {f"{before}{split}.txt": lines for split, lines in SPLITS.items()}
    files |= {"wikidata5m_entity.txt": ENTITIES, "wikidata5m_relation.txt": RELATIONS, "wikidata5m_text.txt": TEXT}
    for name, text in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def entities(data: QuerySet) -> dict[str, tuple[str, list[str], str]]:
    assert data.graph is not None
    return {row["id"]: (row["name"], row["aliases"], row["description"]) for row in data.graph.entities.to_pylist()}


@pytest.mark.parametrize(("before", "packed"), [("wikidata5m_transductive_", False), ("", False), ("", True)])
def test_wikidata5m(tmp_path, before, packed):
    """As its archives unpack, or linked to train.txt … as SimKGC's script does."""
    data = read(wikidata(tmp_path, before, packed))
    assert {name: len(rows) for name, rows in data.graph.splits.items()} == {"train": 3, "dev": 1, "test": 2}
    found = entities(data)
    assert found["Q1"] == ("Universe", ["the cosmos", "Everything"], "All of space and time.")
    assert found["Q4"] == ("place", [], "Where it is.")
    assert found["Q5"] == ("Q5", [], "")  # without a name, as some of the published ones
    assert "Q9" not in found
    assert data.graph.relations.column("name").to_pylist() == ["instance of", "P2439"]
    assert [(one.subject, one.gold) for one in data.queries] == [("Universe", ("Q5",)), ("place", ("Q2",))]
    assert sum(mentioned(note, "entities without", "Q5") for note in data.notes) == 1
    assert stated(data.notes, "relations without", "P2439")


def test_transductive_beside_inductive(tmp_path):
    wikidata(tmp_path)
    (tmp_path / "wikidata5m_inductive_train.txt").write_text("Q3\tP31\tQ2\n")
    (said,) = examine(tmp_path)[1].found
    assert mentioned(said, "wikidata5m_transductive_train.txt", "wikidata5m_inductive_train.txt")
    assert len(read(tmp_path / "wikidata5m_transductive_train.txt").graph) == 6
    assert len(read(tmp_path / "wikidata5m_inductive_train.txt").graph) == 1


def test_wordnet(tmp_path):
    (tmp_path / "train.txt").write_text("00260881\t_hypernym\t00260622\n")
    (tmp_path / "test.txt").write_text("00260622\t_hypernym\t00260881\n")
    lines = "00260881\t__land_reform_NN_1\ta redistribution of land\n00260622\t__reform_NN_2\ta change; a better one\n"
    (tmp_path / "wordnet-mlj12-definitions.txt").write_text(lines)
    data = read(tmp_path)
    assert entities(data)["00260881"] == ("land reform", [], "a redistribution of land")
    assert entities(data)["00260622"] == ("reform", [], "a change; a better one")
    assert data.relations["_hypernym"].name == "hypernym"
    assert not data.notes


def test_what_simkgc_makes_of_its_files(tmp_path):
    """Beside them it changes nothing; alone it is refused in one line."""
    before = read(wikidata(tmp_path, "")).content_hash
    row = '[{"head_id": "Q1", "head": "Universe", "relation": "instance of", "tail_id": "Q2", "tail": "system"}]'
    for place in (tmp_path, tmp_path / "alone"):
        place.mkdir(exist_ok=True)
        (place / "train.txt.json").write_text(row)
        (place / "entities.json").write_text('[{"entity_id": "Q1", "entity": "Universe", "entity_desc": ""}]')
    assert read(tmp_path).content_hash == before
    for given in (tmp_path / "alone", tmp_path / "alone" / "train.txt.json"):
        (said,) = examine(given)[1].found
        assert mentioned(said, given.name, "SimKGC", ".txt.json", "train.txt")


def test_freebase(tmp_path):
    (tmp_path / "train.txt").write_text("/m/01\t/film/genre\t/m/02\n")
    (tmp_path / "FB15k_mid2name.txt").write_text("/m/01\tThe_Third_Man\n/m/02\tFilm_noir\n")
    (tmp_path / "FB15k_mid2description.txt").write_text('/m/01\t"A film of "1949"."@en\n')
    data = read(tmp_path)
    assert entities(data)["/m/01"] == ("The Third Man", [], 'A film of "1949".')
    assert entities(data)["/m/02"] == ("Film noir", [], "")


def test_kg_berts_folders_are_its_own(tmp_path):
    """Its WN18RR may hold the definitions, too: entity2text.txt goes before them."""
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    (tmp_path / "entity2text.txt").write_text("a\tAnt\nb\tBee\n")
    (tmp_path / "relation2text.txt").write_text("r\trelation\n")
    (tmp_path / "wordnet-mlj12-definitions.txt").write_text("a\t__x_NN_1\tgloss\n")
    assert entities(read(tmp_path))["a"][0] == "Ant"


def test_faults(tmp_path):
    wikidata(tmp_path, "")
    (tmp_path / "train.txt").write_text("Q1\tP31\nQ1\t\tQ2\n")
    (tmp_path / "wikidata5m_entity.txt").write_text("Q1\tUniverse\nQ2 system\n")
    found = "\n".join(examine(tmp_path)[1].found)
    assert stated(found, "train.txt:1:", "3 columns", "head, relation, tail", r"'Q1\tP31'")
    assert stated(found, "train.txt:2:", "relation is empty")
    assert stated(found, "wikidata5m_entity.txt:2:", "'Q2 system'")
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).unlink()
    assert "train.txt, valid.txt and test.txt" in examine(tmp_path)[1].found[0]

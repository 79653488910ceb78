"""A part of a graph: what it keeps, what it leaves out, and that it is a graph like any other."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from typer.testing import CliRunner

from fathom.base.errors import BadInput, MadeBefore
from fathom.cli import make_app
from fathom.data.formats import read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.options import SampleOptions
from fathom.data.sample import sample_graph, write_sample
from fathom.data.templates import Template
from tests.messages import mentioned, mentions, stated

TRIPLES = {
    # a and b, c and d are one component in training; f and g another; e is in no training triple.
    "train": [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "d"), ("f", "r", "g")],
    "dev": [("a", "r", "d")],
    "test": [("d", "r", "e"), ("g", "s", "a")],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "graph"
    folder.mkdir()
    for split, triples in TRIPLES.items():
        (folder / f"{split}.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples))
    (folder / "entity2text.txt").write_text("".join(f"{id_}\tname {id_}\tabout {id_}, too\n" for id_ in "abcdefg"))
    (folder / "relation2text.txt").write_text("r\tlikes\ns\tknows\n")
    return folder


def graph_of(folder: Path) -> KnowledgeGraph:
    graph = read(folder).graph
    assert graph is not None
    return graph


def triples_of(graph: KnowledgeGraph) -> dict[str, list[tuple[str, str, str]]]:
    ids, relations = graph.entities.column("id").to_pylist(), graph.relations.column("id").to_pylist()
    return {
        split: [(ids[graph.head[row]], relations[graph.relation[row]], ids[graph.tail[row]]) for row in span]
        for split, span in graph.splits.items()
    }


@pytest.mark.parametrize("seed", range(10))
def test_four_connected_entities_keep_all_triples_between_them(folder: Path, seed: int) -> None:
    sample = sample_graph(graph_of(folder), 4, seed)
    ids = sample.graph.entities.column("id").to_pylist()
    if sample.counts["starts"] == 1:
        assert ids == ["a", "b", "c", "d"]
        # d-e and g-a lead out.
        assert triples_of(sample.graph) == {"train": TRIPLES["train"][:3], "dev": TRIPLES["dev"]}
        assert sample.counts["triples_leading_out"] == 2
        assert stated(sample.notes, "--seed", "--entities", "--held-out-weight")
    else:  # begun in the small component, from which no training triple leads on
        assert {"f", "g"} < set(ids)
        assert mentioned(sample.notes[0], "not connected", "2 entities")
    assert sample.graph.entities.column("description")[0].as_py() == f"about {ids[0]}, too"


def test_what_training_never_saw_stays_out(folder: Path) -> None:
    graph = graph_of(folder)
    sample = sample_graph(graph, 6)
    assert sample.graph.entities.column("id").to_pylist() == ["a", "b", "c", "d", "f", "g"]
    assert triples_of(sample.graph) == TRIPLES | {"test": [("g", "s", "a")]}
    assert sample.counts["unseen"] == {"train": 0, "dev": 0, "test": 0}
    assert sample.counts["unseen_in_source"] == {"train": 0, "dev": 0, "test": 1}
    with pytest.raises(BadInput, match=mentions("--entities 7", "6", "2")):
        sample_graph(graph, 7)


def test_a_graph_without_splits(tmp_path: Path) -> None:
    file = tmp_path / "triples.tsv"
    file.write_text("a\tr\tb\nb\tr\tc\nc\tr\td\n")
    sample = sample_graph(graph_of(file), 3, seed=1)
    assert len(sample.graph) == 2
    assert sample.graph.splits == {}


def test_the_folder_is_a_graph_like_any_other_and_the_same_each_time(folder: Path, tmp_path: Path) -> None:
    graph = graph_of(folder)
    options = SampleOptions(path="graph", out=tmp_path / "one", entities=6, seed=3)
    manifest = write_sample(graph, options, "graph")
    write_sample(graph, options.model_copy(update={"out": tmp_path / "two"}), "graph")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    said = {"dev.tsv", "entity2text.txt", "entity2textlong.txt", "relation2text.txt", "test.tsv", "train.tsv"}
    assert set(files) == said | {"manifest.json", ".made"}
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    again = graph_of(tmp_path / "one")
    assert again.content_hash == manifest["content_hash"] == sample_graph(graph, 6, seed=3).graph.content_hash


def test_templates_of_the_relations_are_kept(folder: Path, tmp_path: Path) -> None:
    relation = graph_of(folder).relations.column("id")[0].as_py()
    templates = {relation: (Template("[X] is near [Y]."),), "other": (Template("[X] [Y]"),)}
    write_sample(graph_of(folder), SampleOptions(path="graph", out=tmp_path / "part", entities=6), "graph", templates)
    assert read(tmp_path / "part").templates == {relation: templates[relation]}


def test_the_command(folder: Path, tmp_path: Path) -> None:
    arguments = ["data", "sample", str(folder), "--entities", "6", "--out", str(tmp_path / "part")]
    done = CliRunner().invoke(make_app(), arguments)
    assert done.exit_code == 0, done.output
    assert stated(" ".join(done.output.split()), "0 of 1 triples of test", "1 of 2")
    assert json.loads((tmp_path / "part" / "manifest.json").read_text())["splits"] == {"train": 4, "dev": 1, "test": 1}
    assert isinstance(CliRunner().invoke(make_app(), arguments).exception, MadeBefore)
    again = CliRunner().invoke(make_app(), [*arguments, "--seed", "5"])
    assert isinstance(again.exception, BadInput)
    assert "there already" in str(again.exception)


def test_wn18rr_keeps_its_shape(shared_data: Path) -> None:
    graph = graph_of(shared_data / "wn18rr")
    plain = sample_graph(graph, 2000).graph
    more = sample_graph(graph, 2000, held_out_weight=5).graph
    for part in (plain, more):
        assert len(part.entities) == 2000
        span = part.splits["train"]
        ends = (part.head[span.start : span.stop], part.tail[span.start : span.stop])
        links = coo_array((np.ones(len(span)), ends), shape=(2000, 2000))
        assert connected_components(links, directed=False)[0] == 1  # by training triples alone, so none is unseen
    # As drawn by seed 0: the whole graph has 2.3 triples per entity and 3.4 % of them in the test split.
    assert len(plain) / 2000 > 2.3
    assert 0.02 < len(plain.splits["test"]) / len(plain) < 0.05
    assert len(more.splits["test"]) >= 250
    assert len(more.splits["dev"]) >= 250
    # Every triple of the part is one of the whole, in the same split.
    for split, triples in triples_of(more).items():
        assert not Counter(triples) - Counter(triples_of(graph)[split])

"""Types of a graph's entities: read, kept, and written before names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.kg import write_graph
from fathom.data.graph.links import split_links
from fathom.data.knowledge import KnowledgeGraph
from fathom.engine.scoring.rows import Ranks
from fathom_build.worlds.build import build_worlds
from fathom_kgc.links import generative
from tests.data.test_knowledge import small
from tests.kgc.test_links_generative import END, NAMES, WORDS, graph, predictor, saved
from tests.messages import mentioned, mentions, stated

TYPED = ["paris\tcity", "paris\tcapital", "lyon\tcity", "rome\tcapital", "rome\tcity", "eu\tunion", "mars\tplanet"]


def types_of(folder: Path) -> dict[str, str]:
    entities = read(folder).graph.entities
    return dict(zip(entities.column("id").to_pylist(), entities.column("type").to_pylist(), strict=True))


def test_of_several_types_the_commonest_is_taken(tmp_path: Path) -> None:
    """Three cities and two capitals; of level ones the first listed."""
    folder = small(tmp_path / "g", entity2type_txt=TYPED)
    found = {"paris": "city", "lyon": "city", "rome": "city", "eu": "union", "france": "", "italy": "", "europe": ""}
    assert types_of(folder) == found
    assert any("3 of 7 entities" in note for note in read(folder).notes)
    level = small(tmp_path / "h", entity2type_txt=["paris\tb", "paris\ta", "rome\ta", "lyon\tb"])
    assert types_of(level)["paris"] == "b"


def test_types_as_codex_has_them(tmp_path: Path) -> None:
    folder = small(tmp_path / "g")
    types = {"paris": ["Q1", "Q2"], "rome": ["Q1"], "eu": ["Q3"]}
    (folder / "entity2types.json.gz").write_bytes(gzip.compress(json.dumps(types).encode()))
    assert types_of(folder)["paris"] == "Q1"
    (folder / "types.en.json").write_text(json.dumps({"Q1": {"label": "city"}, "Q3": {"label": ""}}))
    found = types_of(folder)
    assert (found["paris"], found["rome"], found["eu"], found["italy"]) == ("city", "city", "Q3", "")


def test_types_of_codex(shared_data: Path, tmp_path: Path) -> None:
    """Every entity of CoDEx-S has types (README of tsafavi/codex)."""
    codex = shared_data / "codex"
    if not codex.is_dir():
        pytest.skip("CoDEx is not there")
    for file in [*(codex / "codex-s").iterdir(), *(codex / "types").iterdir()]:
        if "negatives" not in file.name:
            (tmp_path / file.name).symlink_to(file)
    found = types_of(tmp_path)
    assert (len(found), sum(not type_ for type_ in found.values())) == (2034, 0)


def test_a_graph_written_and_read_keeps_its_types_and_its_hash(tmp_path: Path) -> None:
    one = read(small(tmp_path / "g", entity2type_txt=TYPED)).graph
    (tmp_path / "again").mkdir()
    write_graph(one, tmp_path / "again")
    again = read(tmp_path / "again").graph
    assert again.entities.column("type") == one.entities.column("type")
    assert again.content_hash == one.content_hash
    assert one.content_hash != read(small(tmp_path / "without")).graph.content_hash


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("entity2type.txt", "paris\tcity\nrome\n", "entity2type.txt:2"),
        ("entity2type.txt", "paris\t \n", ("entity2type.txt:1:", "type is empty")),
        ("entity2types.json", "[]", '{"id": ["type", …], …}'),
        ("entity2types.json", '{"paris": "city"}', "'paris'"),
        ("entity2types.json", '{"paris": [5]}', "'paris'"),
        ("entity2types.json", "{", "entity2types.json"),
    ],
)
def test_faults(tmp_path: Path, name: str, content: str, expected: str) -> None:
    folder = small(tmp_path / "g")
    (folder / name).write_text(content)
    with pytest.raises(BadInput) as told:
        read(folder)
    assert mentioned(str(told.value), expected)


def test_two_files_of_types_are_refused(tmp_path: Path) -> None:
    folder = small(tmp_path / "g", entity2type_txt=TYPED)
    (folder / "entity2types.json").write_text("{}")
    with pytest.raises(BadInput, match=mentions("entity2type.txt", "entity2types.json")):
        read(folder)


# ------------------------------------------------------------------------------------------- written before names


def typed() -> tuple[KnowledgeGraph, list[str]]:
    """Types of one and two tokens, none for every fifth; e4 and e5 have one name and two types."""
    plain = graph()
    types = ["" if place % 5 == 3 else ("w20", "w20 w21", "w9")[place % 3] for place in range(len(NAMES))]
    return plain_with(plain, types), types


def plain_with(plain: KnowledgeGraph, types: list[str]) -> KnowledgeGraph:
    entities = plain.entities.append_column("type", pa.array(types, pa.string()))
    return KnowledgeGraph(entities, plain.relations, plain.head, plain.relation, plain.tail, plain.splits)


def test_typed_decoding_is_that_of_every_pair_of_type_and_name_written_out(tmp_path: Path) -> None:
    """log p(TYPE ":" NAME end | question) of each entity by the network's own forward pass, and ranks by counting."""
    over, types = typed()
    made = predictor("genkgc", tmp_path, over, types=True)
    assert isinstance(made, generative.GenKgcPredictor)
    made.network.eval()
    links = split_links(over, "dev")
    pairs = zip(types, NAMES, strict=True)
    written = [f"{type_} : {name}".split() if type_ else name.split() for type_, name in pairs]
    begin = WORDS.index("<s>")
    ids = [[begin, *(WORDS.index(word) for word in words), END] for words in written]
    with torch.inference_mode():
        found = made.rank(links, top=3, keep_scores=True)
        for row, one in enumerate(found):
            [question] = made._read(links.take(np.array([row])))
            scores = np.array([_log_prob(made.network, question, answer, made._start) for answer in ids])
            assert one.scores == pytest.approx(scores, abs=1e-4)
            rivals = np.setdiff1d(np.arange(len(ids)), [links.gold[row], *links.known[row]])
            above = int((scores[rivals] > scores[links.gold[row]]).sum())
            assert one.ranks == Ranks.below(above, 0)
    assert NAMES[4] == NAMES[5]
    assert found[0].scores[4] != found[0].scores[5]  # told apart by their types


def _log_prob(network: torch.nn.Module, question: list[int], answer: list[int], start: int) -> float:
    given = torch.tensor([[start, *answer[:-1]]])
    logits = network(input_ids=torch.tensor([question]), decoder_input_ids=given).logits[0].double()
    return float(torch.log_softmax(logits, dim=-1)[torch.arange(len(answer)), torch.tensor(answer)].sum())


def test_types_stand_before_answers_in_demonstrations_and_are_counted(tmp_path: Path) -> None:
    over, types = typed()
    made = predictor("genkgc", tmp_path, over, types=True, demonstrations=1)
    assert made.answers[:4] == ["w20: w4", "w20 w21: w4 w5", "w9: w4 w5 w6", "w4 w7"]
    assert stated(made.notes(), f"{types.count('')} entities", "no type")
    [question] = made.questions(np.array([6]), np.array([0]), [False])
    shown = [end for ends in made._demonstrations[0] if 6 not in ends for end in ends][:2]
    assert all(made.answers[place] in question for place in shown)


@pytest.mark.parametrize("types", [None, [""] * len(NAMES)])
def test_a_graph_without_types_is_refused(tmp_path: Path, types: list[str] | None) -> None:
    over = graph() if types is None else plain_with(graph(), types)
    with pytest.raises(BadInput, match=mentions("--types", "entity2type.txt")):
        predictor("genkgc", tmp_path, over, types=True)


def test_the_command_line_refuses_and_writes_nothing(tmp_path: Path, fathom: Any) -> None:
    folder = small(tmp_path / "g")
    (tmp_path / "weights").mkdir()
    weights = saved(tmp_path / "weights", "BartForConditionalGeneration")
    out = tmp_path / "model"
    said = ["kgc", "train", "genkgc", "--weights", weights, "--data", str(folder), "--out", str(out)]
    code, printed, err = fathom(*said, "--types")
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (code, printed, len(lines)) == (2, "", 1)
    assert "--types" in lines[0]
    assert not out.exists()


def test_at_its_default_it_is_no_part_of_the_identity(tmp_path: Path) -> None:
    """Folders of before, which do not know it, can be asked and trained further."""
    assert "types" not in predictor("genkgc", tmp_path).options.identity()
    assert predictor("genkgc", tmp_path, typed()[0], types=True).options.identity()["types"] is True


def test_worlds_keep_types(tmp_path: Path) -> None:
    folder = small(tmp_path / "g", entity2type_txt=TYPED)
    graph_ = read(folder).graph
    assert graph_ is not None
    build_worlds(graph_, tmp_path / "worlds", ["virtual-e", "anonymised-er"])
    for world in ("virtual-e", "anonymised-er"):
        assert types_of(tmp_path / "worlds" / world) == types_of(folder)

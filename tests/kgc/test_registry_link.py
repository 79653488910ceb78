"""A link predictor added from outside: all of it stands in this file, and enters by the table alone."""

from __future__ import annotations

import json

import pytest
import torch
from pydantic import Field
from torch import nn
from typer.testing import CliRunner

import fathom
from fathom.base.errors import BadInput
from fathom.cli import make_app
from fathom.data.graph.links import training_links
from fathom.engine.models.base import Identity
from fathom.store.predictions import Scoring
from fathom.training.loop import Stage
from fathom_kgc.links import LINKS, PYKEEN, Kind, find
from fathom_kgc.links.base import Predictor, rank_links, shuffled
from fathom_kgc.links.options import ASKING, TextTraining
from fathom_kgc.pretraining.options import LAYERS
from tests.conftest import write_graph_folder
from tests.messages import mentions


class ToyOptions(TextTraining):
    """Options of the toy link predictor."""

    weights: str = "none"
    start: float = Field(0.0, description="What every score begins with.")
    bonus: float = Field(0.0, description="Added to the first entity's score.", json_schema_extra=ASKING)


class Toy(Predictor):
    """How often an entity is the answer: a number for each relation, direction and entity, learnt by softmax."""

    scoring = Scoring("popularity", "score")

    def __init__(self, graph, options, source, device):
        super().__init__(graph, options, source, device)
        self.network = nn.Embedding(2 * len(graph.relations), len(graph.entities))
        nn.init.constant_(self.network.weight, options.start)
        self.identity = Identity("none", None, "float32", "0")

    @classmethod
    def check(cls, options):
        """There is nothing to check."""

    def stages(self):
        count = 2 * len(self.graph.training)

        def batches(epoch):
            return (training_links(self.graph, some) for some in shuffled(count, 4, self.options.seed, epoch))

        weights, options = list(self.network.parameters()), self.options
        return [Stage("counts", batches, -(-count // 4), self._loss, weights, options.epochs, options.learning_rate)]

    def _loss(self, links):
        return nn.functional.cross_entropy(self._scores(links), torch.from_numpy(links.gold))

    def _scores(self, links):
        return self.network(torch.from_numpy(links.relation + len(self.graph.relations) * links.inverse))

    def rank(self, links, top, keep_scores=False):
        scores = self._scores(links).clone()
        scores[:, 0] += self.options.bonus
        return rank_links(scores, links, top, keep_scores)


TOY = Kind("toy", f"{__name__}:ToyOptions", f"{__name__}:Toy", "the most frequent answers", begins_with="masked")


@pytest.fixture
def toy():
    LINKS.add(TOY)
    yield
    LINKS.remove(TOY)


@pytest.fixture
def graph(tmp_path):
    """Paris, Lyon and Rome lie in something; France is the most frequent answer."""
    triples = {
        "train": ["pa\tin\tfr", "ly\tin\tfr", "ni\tin\tfr", "ro\tin\tit"],
        "test": ["ca\tin\tfr", "pi\tin\tit"],
    }
    names = {"pa": "Paris", "ly": "Lyon", "ni": "Nice", "ro": "Rome", "ca": "Caen", "pi": "Pisa"}
    lines = [f"{id_}\t{name}" for id_, name in {**names, "fr": "France", "it": "Italy"}.items()]
    return write_graph_folder(tmp_path / "graph", triples, lines, "in\tlies in\n")


def kgc(*words):
    done = CliRunner().invoke(make_app(), ["kgc", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.usefixtures("toy")
def test_it_trains_and_answers_on_the_command_line(graph, tmp_path):
    given = ("--data", graph, "--out")
    said = ("--epochs", 20, "--learning-rate", 0.3, "--start", 0.5)
    assert "ended: epochs" in kgc("train", "toy", *given, tmp_path / "model", *said)
    manifest = json.loads((tmp_path / "model" / "link.json").read_text())["identity"]
    assert (manifest["kind"], manifest["options"]["start"]) == ("toy", 0.5)

    assert "popularity" in kgc("evaluate", tmp_path / "model", *given, tmp_path / "run", "--directions", "tail")
    rows = fathom.open_run(tmp_path / "run").table().to_pylist()
    assert {row["query_id"]: row["rank"] for row in rows} == {"test/0": 1, "test/1": 2}  # France before Italy
    assert {row["scoring"] for row in rows} == {"popularity"}

    asked = ("--relation", "in", "--head", "ca", "--top", 2)
    shown = kgc("predict", tmp_path / "model", "--data", graph, *asked)
    assert "popularity" in shown
    assert shown.index("France") < shown.index("Italy")


@pytest.mark.usefixtures("toy")
def test_its_flags_are_shown_and_say_whose_they_are(graph, tmp_path):
    shown = " ".join(
        CliRunner().invoke(make_app(), ["kgc", "train", "toy", "--help-all"], env={"COLUMNS": "200"}).output.split()
    )
    assert "What every score begins with." in shown
    kgc("train", "toy", "--data", graph, "--out", tmp_path / "model", "--epochs", 1)
    bonus = ("--bonus", 100, "--limit", 1)
    kgc("evaluate", tmp_path / "model", "--data", graph, "--out", tmp_path / "run", *bonus)
    first = fathom.data.formats.read(graph).graph.entities.column("id")[0].as_py()
    assert {row["top_ids"][0] for row in fathom.open_run(tmp_path / "run").table().to_pylist()} == {first}


@pytest.mark.usefixtures("toy")
def test_a_name_can_be_taken_once():
    with pytest.raises(ValueError, match=mentions("'toy'")):
        LINKS.add(TOY)


def test_what_is_no_kind_is_a_pykeen_model():
    assert find("TransE") is find("toy") is PYKEEN
    assert find("SimKGC").name == "simkgc"
    with pytest.raises(BadInput, match=mentions("--model", "PyKEEN")):
        find(" ")


def test_every_kind_can_be_loaded():
    for kind in LINKS.entries():
        assert issubclass(kind.load(), Predictor)
        assert kind.options.model_fields
    made = {kind.begins_with for kind in LINKS.entries()} - {None}
    assert made == set(LAYERS)

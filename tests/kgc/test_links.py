"""The frame of link predictors: filtered ranks in both directions, training that resumes, the run, predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import Field
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    PreTrainedTokenizerFast,
)
from typer.testing import CliRunner

import fathom
import fathom_kgc
from fathom.base.errors import BadInput, RunFailed
from fathom.cli import make_app
from fathom.data.formats import read
from fathom.data.graph.links import split_links
from fathom.data.graph.queries import link_queryset
from fathom.engine.models.base import Identity
from fathom.probes.run import RunRequest, run
from fathom.store import folder as folder_module
from fathom.store.predictions import Scoring
from fathom.training.loop import NotANumber, Stage
from fathom.training.saving import whole_tensors
from fathom_kgc.links import LINKS, Kind, base
from fathom_kgc.links.base import Predictor, open_links, rank_links, read_curve, read_manifest, shuffled, train_links
from fathom_kgc.links.options import ASKING, LinkOptions, TextTraining
from fathom_kgc.links.probe import predict_links
from fathom_kgc.links.texts import language_model
from tests.conftest import write_graph_folder
from tests.messages import mentioned, mentions

CPU = torch.device("cpu")
NAMES = {"fr": "France", "it": "Italy", "pa": "Paris", "ro": "Rome", "eu": "Europe", "no": ""}
TRIPLES = {
    "train": ["pa\tcap\tfr", "ro\tcap\tit", "fr\tin\teu", "it\tin\teu", "pa\tin\tfr"],
    "dev": ["ro\tin\tit"],
    "test": ["pa\tin\teu", "ro\tin\teu", "no\tcap\teu"],
}


@pytest.fixture
def graph_folder(tmp_path) -> Path:
    named = [f"{id_}\t{name}" for id_, name in NAMES.items()]
    return write_graph_folder(tmp_path / "graph", TRIPLES, named, "cap\tcapital of\nin\tlies in\n")


@pytest.fixture
def data(graph_folder):
    return read(graph_folder)


class Options(TextTraining):
    weights: str = "none"
    learning_rate: float = Field(0.1, gt=0)
    bias: float = Field(0.0, description="Added to every score.", json_schema_extra=ASKING)
    spoil: int = Field(-1, description="Step whose loss is NaN.")
    dropout: float = 0.2


class Bilinear(Predictor):
    """Smaller than any real kind, and trained by the same loop: score = ⟨given, relation and direction, answer⟩."""

    scoring = Scoring("bilinear", "score")

    def __init__(self, graph, options, source, device):
        super().__init__(graph, options, source, device)
        torch.manual_seed(options.seed)
        entities, relations = len(graph.entities), 2 * len(graph.relations)
        self.network = nn.ModuleDict({"e": nn.Embedding(entities, 8), "r": nn.Embedding(relations, 8)})
        self.identity = Identity("none", None, "float32", "0")
        self.steps = 0

    def stages(self):
        split = self.graph.splits["train"]
        rows = np.arange(split.start, split.stop)

        def batches(epoch):
            return (rows[some] for some in shuffled(len(rows), 2, self.options.seed, epoch))

        return [Stage("all", batches, 3, self._loss, list(self.network.parameters()), 4, self.options.learning_rate)]

    def _loss(self, rows):
        self.steps += 1
        places = [torch.from_numpy(column[rows].astype(np.int64)) for column in self._columns]
        question = self.network["e"](places[0]) * self.network["r"](places[1])
        question = torch.nn.functional.dropout(question, self.options.dropout)
        loss = torch.nn.functional.cross_entropy(question @ self.network["e"].weight.T, places[2])
        return loss * torch.nan if self.steps == self.options.spoil else loss

    @property
    def _columns(self):
        return self.graph.head, self.graph.relation, self.graph.tail

    def rank(self, links, top, keep_scores=False):
        relation = torch.from_numpy(links.relation + len(self.graph.relations) * links.inverse)
        question = self.network["e"](torch.from_numpy(links.given)) * self.network["r"](relation)
        return rank_links(question @ self.network["e"].weight.T + self.options.bias, links, top, keep_scores)


@pytest.fixture(autouse=True)
def _kind():
    """ "toy" is a kind while these tests run."""
    kind = Kind("toy", f"{__name__}:Options", f"{__name__}:Bilinear", "smaller than any real kind")
    LINKS.add(kind)
    yield
    LINKS.remove(kind)


class ScriptedPredictor(Bilinear):
    """Scores from a function of the question's number."""

    def script(self, scores):
        self.given_scores = scores
        return self

    def rank(self, links, top, keep_scores=False):
        rows = [
            self.given_scores(int(given), bool(inverse))
            for given, inverse in zip(links.given, links.inverse, strict=True)
        ]
        return rank_links(torch.tensor(rows), links, top, keep_scores)


# -------------------------------------------------------------------------------------------------- questions, ranks


def test_both_questions_of_a_triple(data):
    queries = link_queryset(data).queries
    assert [(q.id, q.subject, q.direction, q.gold) for q in queries][:2] == [
        ("test/0", "Paris", "tail", ("eu",)),
        ("test/0/head", "Europe", "head", ("pa",)),
    ]
    assert {q.fact_id for q in queries[:2]} == {"pa|in|eu"}
    assert queries[0].known == ("fr",)  # Paris lies in France, in train
    assert set(queries[1].known) == {"fr", "it", "ro"}  # others in Europe, of any split
    assert len(queries) == 6
    assert queries[5].gold == ("no",)  # without a name, and asked for all the same
    assert queries[5].unscored is None


def test_links_are_the_queries_in_columns(data):
    links = split_links(data.graph, "test")
    ids = data.graph.entities.column("id").to_pylist()
    assert [ids[place] for place in links.given[:2]] == ["pa", "eu"]
    assert [ids[place] for place in links.gold[:2]] == ["eu", "pa"]
    assert links.inverse.tolist() == [False, True] * 3
    assert {ids[place] for place in links.known[1]} == {"fr", "it", "ro"}
    assert len(split_links(data.graph, "test", limit=2, seed=1)) == 4


def test_filtered_ranks_by_hand(data):
    """Five candidates score 5, 4, 4, 3 and NaN; the right answer 4 is tied with one, the first is known.

    Filtered: nobody above, one level: optimistic 1, pessimistic 2. Unfiltered: one above, two level: (1+1 + 1+2)/2.
    """
    links = replace(
        split_links(data.graph, "test").take(np.array([0])), gold=np.array([1]), known=[np.array([0], dtype=np.int64)]
    )
    scores = torch.tensor([[5.0, 4.0, 4.0, 3.0, torch.nan]])
    [found] = rank_links(scores, links, top=2)
    assert found.ranks == (1, 2)
    assert found.gold_ranks == [2.5]
    assert found.top[0] == (0, 5.0)
    [lost] = rank_links(torch.full((1, 5), torch.nan), links, top=2)
    assert lost.ranks is None
    assert "not a number" in lost.unscored


# -------------------------------------------------------------------------------------------------- training


def test_training_resumes_to_the_same_curve(data, tmp_path, monkeypatch):
    options = Options(epochs=4, patience=None)
    whole = train_links("toy", data, options, tmp_path / "whole")
    assert whole["ended"]["why"] == "epochs"
    assert len(read_curve(tmp_path / "whole")) == 4
    assert not (tmp_path / "whole" / "checkpoint.pt").exists()

    keep, kept = base.Fit._keep_checkpoint, []

    def killed(self, loop):
        keep(self, loop)
        kept.append(loop.at.epoch)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(base.Fit, "_keep_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        train_links("toy", data, options, tmp_path / "killed")
    with pytest.raises(BadInput, match="has not ended"):
        read_manifest(tmp_path / "killed")
    train_links("toy", data, options, tmp_path / "killed")
    curves = [read_curve(tmp_path / name) for name in ("whole", "killed")]
    for line in (*curves[0], *curves[1]):
        del line["seconds"]
    assert curves[0] == curves[1]
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    (tmp_path / "whole" / "checkpoint.pt").touch()  # as a kill between the manifest and its removal leaves it
    train_links("toy", data, options, tmp_path / "whole")
    assert not (tmp_path / "whole" / "checkpoint.pt").exists()


def test_a_kill_within_an_epoch_costs_nothing_but_time(data, tmp_path, monkeypatch):
    options = Options(epochs=4, patience=None, checkpoint_minutes=1e-9)
    train_links("toy", data, options, tmp_path / "whole")
    after, steps = base.Fit.after_step, []

    def killed(self, loop):
        steps.append(1)
        if len(steps) == 5:  # in the second epoch of three steps each
            raise KeyboardInterrupt
        after(self, loop)

    monkeypatch.setattr(base.Fit, "after_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train_links("toy", data, options, tmp_path / "killed")
    monkeypatch.undo()
    train_links("toy", data, options, tmp_path / "killed")
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_nan_loss_keeps_the_best_model(data, tmp_path):
    """Step 8 is the second of the third epoch."""
    with pytest.raises(NotANumber, match=mentions("3", "2", "--learning-rate")):
        train_links("toy", data, Options(spoil=8), tmp_path / "m")
    assert len(read_curve(tmp_path / "m")) == 2
    assert open_links(tmp_path / "m", data).network["e"].weight.isfinite().all()
    with pytest.raises(NotANumber, match=mentions("--out")):
        train_links("toy", data, Options(spoil=8), tmp_path / "m")


def test_nan_before_anything_was_learnt(data, tmp_path):
    with pytest.raises(NotANumber, match="learnt before"):
        train_links("toy", data, Options(spoil=1), tmp_path / "m")
    with pytest.raises(BadInput, match="loss is nan"):
        open_links(tmp_path / "m", data)


def test_scores_that_are_no_numbers_end_a_training(data, tmp_path, monkeypatch):
    """The loss may be finite where the weights it leads to are beyond all numbers."""
    rank = Bilinear.rank

    def nan(self, links, top, keep_scores=False):
        return [replace(one, ranks=None, unscored="NaN") for one in rank(self, links, top, keep_scores)]

    monkeypatch.setattr(Bilinear, "rank", nan)
    with pytest.raises(NotANumber, match="epoch 1"):
        train_links("toy", data, Options(), tmp_path / "m")


def test_a_full_disk_has_many_names(tmp_path):
    with pytest.raises(RunFailed, match="enforce fail"), whole_tensors(tmp_path / "w"):
        raise RuntimeError("enforce fail at inline_container.cc:672")  # torch's words
    assert not list(tmp_path.iterdir())


def test_patience(data, tmp_path, monkeypatch):
    hits = iter([0.5, 0.4, 0.5, 0.9])
    monkeypatch.setattr(Bilinear, "validate", lambda self: {"hits@10": next(hits)})
    ended = train_links("toy", data, Options(epochs=4, patience=2), tmp_path / "m")["ended"]
    assert ended == {"why": "patience", "epoch": 1, "hits@10": 0.5}


def test_time_budget(data, tmp_path):
    manifest = train_links("toy", data, Options(epochs=4, seconds=1e-9), tmp_path / "m")
    assert manifest["ended"]["why"] == "seconds"
    assert read_curve(tmp_path / "m") == []


def test_another_training_in_the_same_folder(data, tmp_path):
    train_links("toy", data, Options(epochs=1), tmp_path / "m")
    with pytest.raises(BadInput, match=r"options\.seed: there 0, here 1"):
        train_links("toy", data, Options(epochs=1, seed=1), tmp_path / "m")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match="link predictor"):
        train_links("toy", data, Options(epochs=1), tmp_path / "other")


# -------------------------------------------------------------------------------------------------- asking


def asked(model, data, out, **options):
    return run(RunRequest("link", model, link_queryset(data), LinkOptions(**options)), out)


def scripted(data, scores):
    return ScriptedPredictor(data.graph, Options(), None, CPU).script(scores)


def test_the_run_says_ties_directions_and_what_has_no_score(data, tmp_path):
    def scores(given, inverse):
        if inverse:
            return [float("nan")] * 6
        return [1.0] * 6

    rows = asked(scripted(data, scores), data, tmp_path / "r").predictions().to_pylist()
    tails = [row for row in rows if not row["query_id"].endswith("/head")]
    heads = [row for row in rows if row["query_id"].endswith("/head")]
    # Paris lies in: Europe is right, France known, so five of six are tied.
    assert (tails[0]["rank_optimistic"], tails[0]["rank_pessimistic"], tails[0]["rank"]) == (1, 5, 3.0)
    assert all(row["rank"] is None and "not a number" in row["unscored"] for row in heads)
    assert tails[0]["prompt"] == "(Paris, lies in, [Y])"
    assert heads[0]["prompt"] == "([Y], lies in, Europe)"
    queries = fathom.open_run(tmp_path / "r").folder.queries().to_pylist()
    assert [query["direction"] for query in queries] == ["tail", "head"] * 3
    summary = fathom.open_run(tmp_path / "r").summary().to_text()
    assert "mrr" in summary.lower()
    assert "3" in summary  # unscored questions are counted


def test_a_killed_run_goes_on(data, tmp_path, monkeypatch):
    monkeypatch.setattr("fathom_kgc.links.probe.SHARD_QUERIES", 2)
    model = scripted(data, lambda given, inverse: [float(place) for place in range(6)])
    whole = asked(model, data, tmp_path / "whole").predictions()
    add, added = folder_module.RunFolder.add_shard, []

    def killed(self, shard, rows):
        if added:
            raise KeyboardInterrupt
        added.append(shard)
        add(self, shard, rows)

    monkeypatch.setattr(folder_module.RunFolder, "add_shard", killed)
    with pytest.raises(KeyboardInterrupt):
        asked(model, data, tmp_path / "killed")
    monkeypatch.setattr(folder_module.RunFolder, "add_shard", add)
    assert asked(model, data, tmp_path / "killed").predictions().equals(whole)


def test_one_direction_and_few_triples(data, tmp_path):
    model = scripted(data, lambda given, inverse: [0.0] * 6)
    queries = link_queryset(data, ("head",))
    folder = run(RunRequest("link", model, queries, LinkOptions(directions=("head",), limit=2)), tmp_path / "r")
    assert [row["query_id"][-5:] for row in folder.predictions().to_pylist()] == ["/head", "/head"]


def test_two_parts_ask_it_what_one_process_asks(data, tmp_path, monkeypatch):
    monkeypatch.setattr("fathom_kgc.links.probe.SHARD_QUERIES", 2)
    train_links("toy", data, Options(epochs=1), tmp_path / "m")
    whole = fathom_kgc.evaluate_links(tmp_path / "m", data, tmp_path / "r")
    first = fathom_kgc.evaluate_links(tmp_path / "m", data, tmp_path / "shared", part="1/2")
    assert not first.is_complete()
    assert not (tmp_path / "shared" / "metrics.json").exists()
    both = fathom_kgc.evaluate_links(tmp_path / "m", data, tmp_path / "shared", part="2/2")
    assert both.folder.predictions().equals(whole.folder.predictions())
    assert (tmp_path / "shared" / "metrics.json").exists()


def test_what_it_was_trained_with_and_what_it_is_asked_with(data, tmp_path):
    train_links("toy", data, Options(epochs=1), tmp_path / "m")
    assert open_links(tmp_path / "m", data, asking={"bias": 2.0}).options.bias == 2.0
    with pytest.raises(BadInput, match=mentions("--dropout", "--bias")):
        open_links(tmp_path / "m", data, asking={"dropout": 0.1})
    first = fathom_kgc.evaluate_links(tmp_path / "m", data, tmp_path / "r")
    assert first.table().num_rows == 6
    with pytest.raises(BadInput, match="bias"):
        fathom_kgc.evaluate_links(tmp_path / "m", data, tmp_path / "r", asking={"bias": 1.0})


def test_another_graph_is_refused(data, graph_folder, tmp_path):
    train_links("toy", data, Options(epochs=1), tmp_path / "m")
    with (graph_folder / "train.tsv").open("a") as file:
        file.write("zz\tin\teu\n")
    with (graph_folder / "entity2text.txt").open("a") as file:
        file.write("zz\tZanzibar\n")
    with pytest.raises(BadInput, match="entities and relations"):
        open_links(tmp_path / "m", read(graph_folder))
    with pytest.raises(BadInput, match="link predictor"):
        open_links(graph_folder, data)


def test_prediction_on_demand(data, tmp_path):
    train_links("toy", data, Options(epochs=2), tmp_path / "m")
    found = predict_links(tmp_path / "m", data, "lies in", head="Paris", top=3)
    assert found.title == "(Paris, lies in, ?)"
    assert len(found.rows) == 3
    assert {name: split for _, name, _, _, split in found.rows}.get("France", "train") == "train"
    assert predict_links(tmp_path / "m", data, "in", tail="eu").title == "(?, lies in, Europe)"
    with pytest.raises(BadInput, match=mentions("'lies'")):
        predict_links(tmp_path / "is not opened", data, "lies", head="Paris")
    with pytest.raises(BadInput, match="give --head"):
        predict_links(tmp_path / "m", data, "in", head="pa", tail="eu")


def test_the_command_line(graph_folder, tmp_path):
    def fathom_(*words):
        return CliRunner().invoke(make_app(), ["kgc", *map(str, words)], catch_exceptions=True)

    model = tmp_path / "m"
    trained = fathom_("train", "toy", "--data", graph_folder, "--out", model, "--epochs", 2)
    assert trained.exit_code == 0, trained.output
    assert "ended: epochs" in trained.output
    ran = fathom_("evaluate", model, "--data", graph_folder, "--out", tmp_path / "r", "--limit", 2, "--dry-run")
    assert ran.exit_code == 0, ran.output
    assert mentioned(ran.output, "4 queries", "GB of memory")
    assert not (tmp_path / "r").exists()
    ran = fathom_("evaluate", model, "--data", graph_folder, "--out", tmp_path / "r", "--limit", 2)
    assert ran.exit_code == 0, ran.output
    assert "threads" not in ran.output  # nor other circumstances that are not the predictor's own
    ran = fathom_("evaluate", model, "--data", graph_folder, "--out", tmp_path / "p", "--part", "1/1")
    assert "shards" not in ran.output
    shown = fathom_("predict", model, "--data", graph_folder, "--relation", "in", "--head", "pa", "--format", "json")
    assert json.loads(shown.output)
    assert isinstance(
        fathom_("evaluate", tmp_path, "--data", graph_folder, "--out", tmp_path / "x").exception, BadInput
    )


def test_a_full_disk_does_not_end_a_training(data, tmp_path, monkeypatch):
    keep = base.Fit._keep_checkpoint

    def full(self, loop):
        raise RunFailed("cannot write: No space left on device")

    monkeypatch.setattr(base.Fit, "_keep_checkpoint", full)
    with pytest.raises(RunFailed, match="No space left"):
        train_links("toy", data, Options(epochs=2), tmp_path / "m")
    monkeypatch.setattr(base.Fit, "_keep_checkpoint", keep)
    assert train_links("toy", data, Options(epochs=2), tmp_path / "m")["ended"]["why"] == "epochs"


def test_weights_that_are_not_there_are_not_made_up(tmp_path):
    """A bare encoder has no language-model head: a random one must not pass for pre-trained. A pooler is never used."""
    config = BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")))
    for kind in (BertModel, BertForMaskedLM):
        kind(config).save_pretrained(tmp_path / kind.__name__)
        tokenizer.save_pretrained(tmp_path / kind.__name__)
    bare, whole = (Options(weights=str(tmp_path / kind.__name__)) for kind in (BertModel, BertForMaskedLM))
    with pytest.raises(BadInput, match=mentions("BertForMaskedLM")):
        language_model(AutoModelForMaskedLM, bare, None, CPU)
    assert language_model(AutoModel, whole, None, CPU)[0].pooler is not None

"""Knowledge graph embeddings: PyKEEN's own weights and ranks; trainings that stop, resume and fail well."""

from __future__ import annotations

import builtins
import importlib
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from fathom_kgc.links import embedding  # before PyKEEN, which alone cannot be imported after bitsandbytes

# isort: split
from pykeen.datasets import get_dataset
from pykeen.evaluation import RankBasedEvaluator
from pykeen.evaluation.ranks import Ranks as PyKeenRanks
from pykeen.pipeline import pipeline
from pykeen.triples import CoreTriplesFactory
from safetensors.torch import load_file

import fathom_kgc
from fathom.base.errors import BadInput, MissingExtra
from fathom.data.graph.links import split_links
from fathom.data.graph.queries import graph_queryset
from fathom.data.knowledge import KnowledgeGraph
from fathom.store.predictions import Scoring
from fathom.training.loop import NotANumber
from fathom_kgc.links.base import open_links, read_curve, read_manifest, train_links
from fathom_kgc.links.options import Embedding
from tests.forked import ForkedCall
from tests.messages import correspond, mentions

CPU = torch.device("cpu")
PINNED = pytest.mark.filterwarnings("ignore:'pin_memory' argument")
"""PyKEEN asks for pinned memory where there is no GPU."""
MODELS = ["TransE", "DistMult", "ComplEx", "RotatE", "RESCAL"]


def graph_of(triples: dict[str, np.ndarray], entities: int, relations: int) -> KnowledgeGraph:
    """:param triples: of each split, shape (n, 3)."""
    rows = np.concatenate(list(triples.values())).astype(np.int32)
    ends = np.cumsum([len(split) for split in triples.values()]).tolist()
    ids = [f"e{place}" for place in range(entities)]
    names = [f"r{place}" for place in range(relations)]
    return KnowledgeGraph(
        pa.table({"id": ids, "name": ids, "aliases": pa.array([[]] * entities, pa.list_(pa.string())),
                  "description": [""] * entities}),
        pa.table({"id": names, "name": names}),
        *rows.T.copy(),
        splits={name: range(end - len(split), end) for (name, split), end in zip(triples.items(), ends, strict=True)},
    )  # fmt: skip


def published(name: str, *splits: str) -> KnowledgeGraph:
    """A data set that ships with PyKEEN, numbered as PyKEEN numbers it."""
    data = get_dataset(dataset=name)
    parts = {"train": data.training, "dev": data.validation, "test": data.testing}
    wanted = splits or tuple(parts)
    triples = {split: parts[split].mapped_triples.numpy() for split in wanted}
    return graph_of(triples, data.num_entities, data.num_relations)


@pytest.fixture(scope="module")
def nations() -> KnowledgeGraph:
    return published("nations")


def data_of(graph: KnowledgeGraph):
    return graph_queryset(graph, directions=("tail", "head"), all_entities=True, name="published")


def options(**given) -> Embedding:
    return Embedding(**{"model": "TransE", "epochs": 3, "patience": None, "validate_every": 1, **given})


def train(graph, out, **given):
    return train_links("pykeen", data_of(graph), options(**given), out)


# ---------------------------------------------------------------------------------------------------- parity


def pykeen_ranks(model, graph: KnowledgeGraph) -> dict[tuple[str, str], np.ndarray]:
    """Ranks that PyKEEN's evaluator finds for the test triples: (side, kind) → in the order of the triples."""

    class Keeping(RankBasedEvaluator):
        def process_scores_(self, hrt_batch, target, scores, true_scores=None, dense_positive_mask=None):
            ranks = PyKeenRanks.from_scores(true_score=true_scores, all_scores=scores)
            for kind in ("optimistic", "realistic", "pessimistic"):
                kept.setdefault((target, kind), []).append(getattr(ranks, kind).numpy())
            super().process_scores_(hrt_batch, target, scores, true_scores, dense_positive_mask)

    kept: dict[tuple[str, str], list[np.ndarray]] = {}
    triples = torch.from_numpy(np.stack([graph.head, graph.relation, graph.tail], 1).astype(np.int64))
    rows = graph.splits["test"]
    Keeping().evaluate(
        model, triples[rows.start : rows.stop], batch_size=64, additional_filter_triples=[triples], use_tqdm=False
    )
    return {key: np.concatenate(parts) for key, parts in kept.items()}


def our_ranks(predictor, graph: KnowledgeGraph) -> dict[tuple[str, str], np.ndarray]:
    with torch.no_grad():
        found = predictor.rank(split_links(graph, "test"), top=3)
    kinds = ("optimistic", "realistic", "pessimistic")
    return {
        (side, kind): np.array([getattr(one.ranks, kind) for one in found[start::2]])
        for start, side in enumerate(("tail", "head"))
        for kind in kinds
    }


@pytest.mark.parametrize("data", ["nations", "umls"])
@pytest.mark.parametrize("model", MODELS)
def test_every_rank_is_that_of_pykeens_evaluator(data, model):
    graph = published(data)
    predictor = embedding.Predictor(graph, options(model=model), None, CPU)
    predictor.network = predictor.make()
    with torch.no_grad():  # few different values, so that ties are there to be ranked
        for weight in predictor.network.parameters():
            weight.copy_((weight * 4).round() / 4)
    ours, theirs = our_ranks(predictor, graph), pykeen_ranks(predictor.network, graph)
    assert ours.keys() == theirs.keys()
    for key, ranks in theirs.items():
        assert ranks.shape == (len(graph.splits["test"]),)
        np.testing.assert_array_equal(ours[key], ranks, err_msg=str(key))
    if model in ("TransE", "DistMult"):  # the test has seen ties
        assert (ours["tail", "pessimistic"] > ours["tail", "optimistic"]).any()


def test_inverse_triples_are_ranked_as_pykeen_ranks_them(nations):
    predictor = embedding.Predictor(nations, options(inverse_triples=True), None, CPU)
    ours, theirs = our_ranks(predictor, nations), pykeen_ranks(predictor.network, nations)
    for key, ranks in theirs.items():
        np.testing.assert_array_equal(ours[key], ranks, err_msg=str(key))


def test_blocks_and_slices_change_no_score(nations, monkeypatch):
    predictor = embedding.Predictor(nations, options(), None, CPU)
    links = split_links(nations, "test")
    with torch.no_grad():
        whole = predictor.rank(links, top=1, keep_scores=True)
        monkeypatch.setattr(embedding, "SCORES", 14 * 7)
        monkeypatch.setattr(embedding.Predictor, "_slice", lambda self, rows: 5)
        parts = predictor.rank(links, top=1, keep_scores=True)
    for one, other in zip(whole, parts, strict=True):
        assert one.ranks == other.ranks
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.slow
@PINNED
@pytest.mark.parametrize(
    "given", [{}, {"loop": "lcwa"}, {"inverse_triples": True, "negatives": 3, "negative_sampler": "bernoulli"}]
)
def test_transe_has_the_weights_and_losses_of_pykeens_pipeline(given, nations, tmp_path):
    graph = published("nations", "train", "test")  # without validation the weights are those of the last epoch
    train(graph, tmp_path / "model", seed=7, **given)
    rows = {split: [column[span.start : span.stop] for column in (graph.head, graph.relation, graph.tail)]
            for split, span in graph.splits.items()}  # fmt: skip
    inverse = {"train": "inverse_triples" in given, "test": False}
    factories = {
        split: CoreTriplesFactory(np.stack(columns, 1), 14, 55, create_inverse_triples=inverse[split])
        for split, columns in rows.items()
    }
    sampling = {}
    if "negatives" in given:
        sampling = {"negative_sampler": "bernoulli", "negative_sampler_kwargs": {"num_negs_per_pos": 3}}
    reference = pipeline(
        training=factories["train"],
        testing=factories["test"],
        model="TransE",
        training_loop=given.get("loop", "slcwa"),
        epochs=3,
        random_seed=7,
        device="cpu",
        training_kwargs={"use_tqdm": False, "pin_memory": False},
        evaluation_kwargs={"use_tqdm": False},
        **sampling,
    )
    weights = load_file(tmp_path / "model" / "weights.safetensors")
    expected = reference.model.state_dict()
    assert weights.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=0)
    assert [line["loss"] for line in read_curve(tmp_path / "model")] == reference.losses
    predictor = open_links(tmp_path / "model", data_of(graph))
    ours, theirs = our_ranks(predictor, graph), pykeen_ranks(reference.model, graph)
    for key, ranks in theirs.items():
        np.testing.assert_array_equal(ours[key], ranks, err_msg=str(key))


@pytest.mark.slow
@PINNED
def test_it_stops_where_pykeens_early_stopper_stops(tmp_path):
    graph = published("nations", "train", "dev")  # no test triples, which PyKEEN's stopper would not filter
    manifest = train(graph, tmp_path / "model", seed=3, epochs=60, patience=2, learning_rate=0.05)
    data = get_dataset(dataset="nations")
    reference = pipeline(
        training=data.training,
        validation=data.validation,
        testing=data.testing,
        model="TransE",
        optimizer_kwargs={"lr": 0.05},
        epochs=60,
        stopper="early",
        stopper_kwargs={"frequency": 1, "patience": 2, "relative_delta": 0.0, "metric": "hits@10",
                        "best_model_path": tmp_path / "best.pt"},
        random_seed=3,
        device="cpu",
        training_kwargs={"use_tqdm": False, "pin_memory": False},
        evaluation_kwargs={"use_tqdm": False},
    )  # fmt: skip
    curve = read_curve(tmp_path / "model")
    # PyKEEN counts realistic ranks up to 10; ours is the expectation over ties, of which trained embeddings have none
    np.testing.assert_allclose([line["hits@10"] for line in curve], reference.stopper.results, rtol=1e-12)
    assert manifest["ended"]["why"] == "patience"
    assert manifest["ended"]["epoch"] == reference.stopper.best_epoch == len(curve) - 2
    weights = load_file(tmp_path / "model" / "weights.safetensors")
    for name, weight in reference.model.state_dict().items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=0)


# ---------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("given", [{}, {"optimizer": "SGD"}, {"model": "ComplEx", "loop": "lcwa"}])
def test_a_killed_training_goes_on_to_the_same_curve(given, nations, tmp_path, monkeypatch):
    train(nations, tmp_path / "whole", epochs=4, **given)
    monkeypatch.setattr(embedding, "CHECKPOINT_SECONDS", 0)
    kept = embedding._Training._keep_checkpoint

    def killed(self):
        kept(self)
        if self.loop._epoch == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(embedding._Training, "_keep_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        train(nations, tmp_path / "killed", epochs=4, **given)
    monkeypatch.setattr(embedding._Training, "_keep_checkpoint", kept)
    torch.manual_seed(12345)
    manifest = train(nations, tmp_path / "killed", epochs=4, **given)

    def without_times(folder):
        return [{key: value for key, value in line.items() if key != "seconds"} for line in read_curve(folder)]

    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    assert len(read_curve(tmp_path / "whole")) == 4
    assert manifest["ended"] == read_manifest(tmp_path / "whole")["ended"]
    one, other = (load_file(tmp_path / name / "weights.safetensors") for name in ("killed", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert not (tmp_path / "killed" / "checkpoint.pt").exists()


def test_the_best_weights_are_kept(nations, tmp_path):
    """A learning rate that spoils the embeddings: the first epochs are the best."""
    manifest = train(nations, tmp_path / "model", epochs=8, learning_rate=0.3, seed=1)
    curve = [line["hits@10"] for line in read_curve(tmp_path / "model")]
    assert curve[-1] < max(curve)
    assert manifest["ended"] == {"why": "epochs", "epoch": int(np.argmax(curve)) + 1, "hits@10": max(curve)}
    predictor = open_links(tmp_path / "model", data_of(nations))
    with torch.no_grad():
        assert predictor.validate()["hits@10"] == max(curve)


def test_time_that_is_up_stops_within_an_epoch(nations, tmp_path, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(embedding.time, "monotonic", lambda: next(clock))
    manifest = train(nations, tmp_path / "model", epochs=50, seconds=6, batch_size=100)
    [line] = read_curve(tmp_path / "model")
    assert manifest["ended"]["why"] == "seconds"
    assert 0 < line["loss"] < 2
    assert "hits@10" in line
    assert (tmp_path / "model" / "weights.safetensors").exists()


def test_validation_every_so_many_epochs_and_after_the_last(nations, tmp_path):
    train(nations, tmp_path / "model", epochs=5, validate_every=2)
    assert [("hits@10" in line) for line in read_curve(tmp_path / "model")] == [False, True, False, True, True]


def test_no_epoch_is_a_random_model(nations, tmp_path):
    manifest = train(nations, tmp_path / "model", epochs=0)
    assert manifest["ended"] == {"why": "epochs", "epoch": None, "hits@10": None}
    assert open_links(tmp_path / "model", data_of(nations)).scoring == Scoring("plausibility", "score")


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_loss_that_is_no_number_stops_the_training_and_keeps_the_best(nations, tmp_path, monkeypatch):
    closed = embedding._Training._close_epoch

    def spoiled(self, epoch, loss):
        closed(self, epoch, loss)
        if epoch == 2:
            with torch.no_grad():
                next(self.predictor.network.parameters()).fill_(torch.nan)

    monkeypatch.setattr(embedding._Training, "_close_epoch", spoiled)
    with pytest.raises(NotANumber, match=mentions("3", "1", "--learning-rate")):
        train(nations, tmp_path / "model", epochs=5, loss="softplus", model="DistMult")
    assert "not finite" in read_manifest(tmp_path / "model")["ended"]["why"]
    weights = load_file(tmp_path / "model" / "weights.safetensors")
    assert all(weight.isfinite().all() for weight in weights.values())


def test_what_the_graph_lacks_is_said(tmp_path):
    triples = {"train": np.array([[0, 0, 1], [1, 0, 2]]), "test": np.array([[0, 0, 3], [4, 1, 3]])}
    manifest = train(graph_of(triples, 6, 2), tmp_path / "model")
    assert correspond(
        manifest["notes"],
        "no dev split",
        ("2 entities", "test split", "random"),
        ("1 relations", "test split", "random"),
    )
    undivided = graph_of({"all": np.array([[0, 0, 1]])}, 2, 1)
    assert correspond(train(undivided, tmp_path / "other")["notes"], "no train split")


def test_asked_as_a_run_and_for_one_answer(nations, tmp_path):
    fathom_kgc.train_links(
        "transe", data_of(nations), tmp_path / "model", epochs=2, dimension=8, loss_kwargs="{margin: 5}"
    )
    said = json.loads((tmp_path / "model" / "pykeen.json").read_text())
    assert "margin" in said["model"] or "MarginRankingLoss" in said["model"]
    assert said["scores"] == {"interaction": "TransEInteraction", "p": 1, "power_norm": False}
    assert read_manifest(tmp_path / "model")["identity"]["options"]["loss_kwargs"] == {"margin": 5}
    table = fathom_kgc.evaluate_links(tmp_path / "model", data_of(nations), tmp_path / "run").table()
    assert table.num_rows == 2 * 201
    assert set(table.column("scoring").to_pylist()) == {"plausibility"}


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "TransX"}, ("--model", "'TransX'", "Trans")),
        ({"model": "simkcg"}, "mean simkgc"),
        ({"model": "zzzzzzzzzz"}, ("it has", "TransE")),
        ({"loss": "margn"}, ("--loss", "'margn'")),
        ({"optimizer": "Adm"}, ("--optimizer", "'Adm'", "Adam")),
        ({"negative_sampler": "bernouli"}, "BernoulliNegativeSampler"),
        ({"loop": "lcwa", "negatives": 3}, ("--negatives", "--loop lcwa")),
        ({"model_kwargs": {"embeding_dim": 3}}, ("--model TransE", "embeding_dim")),
        ({"loss_kwargs": {"margn": 3}}, ("these options", "margn")),
        ({"model": "InductiveNodePiece"}, "these options"),
    ],
)  # fmt: skip
def test_what_pykeen_refuses_is_said_in_one_line_and_nothing_is_written(given, message, nations, tmp_path):
    with pytest.raises(BadInput, match=mentions(message)) as error:
        train(nations, tmp_path / "model", **given)
    assert len(error.value.faults) == 1
    assert "\n" not in error.value.faults[0]
    assert not (tmp_path / "model").exists()


def test_a_mapping_is_read_as_json_or_yaml():
    assert options(model_kwargs='{"p": 5e-4}').model_kwargs == {"p": 0.0005}
    assert options(model_kwargs="scoring_fct_norm: 1").model_kwargs == {"scoring_fct_norm": 1}
    with pytest.raises(BadInput, match=mentions("--loss-kwargs")):
        fathom_kgc.train_links("TransE", data_of(published("nations")), "nowhere", loss_kwargs="5")


def test_every_option_changes_the_identity():
    changed = {"model": "x", "loss": "x", "optimizer": "x", "loop": "lcwa", "negative_sampler": "x", "dimension": 3,
               "model_kwargs": {"a": 1}, "loss_kwargs": {"a": 1}, "optimizer_kwargs": {"a": 1}, "inverse_triples": True,
               "negatives": 2, "validate_every": 9, "patience": 9, "epochs": 9, "batch_size": 9, "learning_rate": 9.0,
               "validate_on": 9, "seconds": 9.0, "seed": 9}  # fmt: skip
    assert changed.keys() | {"device"} == Embedding.model_fields.keys()
    plain = options().identity()
    for name, value in changed.items():
        assert options(**{name: value}).identity() != plain, name


def test_a_missing_library_is_said_with_its_command(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("pykeen"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "fathom_kgc.links.embedding")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install '.\[kgc\]'"):
        importlib.import_module("fathom_kgc.links.embedding")


BESIDE = """
import sys
assert not {"pykeen", "class_resolver"} & sys.modules.keys()
import bitsandbytes.optim
from fathom_kgc.links.embedding import optimizer_resolver as table
print(table.lookup("adam").__module__)
"""


@pytest.mark.slow
def test_it_stands_beside_libraries_with_optimizers_of_the_same_names(tmp_path):
    """As bitsandbytes brings them, in a process that has loaded quantised weights."""
    pytest.importorskip("bitsandbytes")
    code, said = ForkedCall(exec, BESIDE, said=tmp_path / "said").ended()
    assert (code, said.splitlines()[-1:]) == (0, ["torch.optim.adam"]), said

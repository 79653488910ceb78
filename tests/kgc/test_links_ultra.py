"""ULTRA: its scores against loops over edges, the published figures, and worlds that it cannot tell apart."""

from __future__ import annotations

import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm

from fathom.base.errors import BadInput
from fathom.cli import main
from fathom.data.formats import read
from fathom.data.graph.links import split_links
from fathom.plans.execution import carry_out
from fathom.plans.file import read_plan
from fathom.results.metrics.uncertainty import ALIKE
from fathom_build.options import WorldOptions
from fathom_build.worlds.build import build_worlds
from fathom_build.worlds.world import THIRTEEN
from fathom_kgc.links.base import open_links, train_links
from fathom_kgc.links.options import Ultra
from fathom_kgc.links.ultra import LAYERS, WIDTH, Predictor
from fathom_kgc.studies import memory
from fathom_kgc.studies.memory import NAMELESS
from fathom_kgc.studies.memory_tables import state_of_cell
from tests.conftest import write_graph_folder
from tests.messages import mentioned, mentions

CPU = torch.device("cpu")
ENTITIES = [f"e{number}\tname {number}\tabout {number}" for number in range(7)]
TRIPLES = {
    "train": ["e0\tr0\te1", "e1\tr0\te2", "e2\tr1\te0", "e3\tr1\te3", "e4\tr0\te2", "e0\tr0\te5"],
    "dev": ["e0\tr0\te2"],
    "test": ["e3\tr0\te1", "e4\tr1\te0", "e6\tr1\te6"],
}
NAMES = "r0\tfirst\nr1\tsecond\nr2\tthird\n"


@pytest.fixture
def graph(tmp_path) -> Path:
    return write_graph_folder(tmp_path / "graph", TRIPLES | {"dev": ["e0\tr2\te2"]}, ENTITIES, NAMES)


@pytest.fixture(scope="session")
def weights(tmp_path_factory) -> Path:
    """Random ones, in a file such as the published ones are in: relations that meet matter more than at first."""
    torch.manual_seed(3)
    file = tmp_path_factory.mktemp("ultra") / "some.pth"
    state = {name: torch.randn(shape) / 4 for name, shape in SHAPES.items()}
    torch.save({"model": state, "optimizer": {"state": {}}}, file)
    return file


def _shapes() -> dict[str, tuple[int, ...]]:
    """As the published files have them."""
    each = {
        "layer_norm.weight": (64,),
        "layer_norm.bias": (64,),
        "linear.weight": (64, 128),
        "linear.bias": (64,),
    }
    projection = {f"relation_projection.{at}.{name}": shape for at in (0, 2) for name, shape in
                  (("weight", (64, 64)), ("bias", (64,)))}  # fmt: skip
    found = {}
    for layer in range(6):
        found |= {f"relation_model.layers.{layer}.{name}": shape for name, shape in each.items()}
        found[f"relation_model.layers.{layer}.relation.weight"] = (4, 64)
        found |= {f"entity_model.layers.{layer}.{name}": shape for name, shape in (each | projection).items()}
    return found | {
        "entity_model.mlp.0.weight": (128, 128),
        "entity_model.mlp.0.bias": (128,),
        "entity_model.mlp.2.weight": (1, 128),
        "entity_model.mlp.2.bias": (1,),
    }


SHAPES = _shapes()


def test_the_weights_are_those_of_the_published_files(weights):
    made = Predictor.check(Ultra(weights=str(weights)))
    assert made is None, "every name and shape is as expected"
    assert len(SHAPES) == 82
    assert sum(int(np.prod(shape)) for shape in SHAPES.values()) == 168_705


# -------------------------------------------------------------------------------------------------- by the equations


def by_loops(state, triples, entities, relations, given, relation, inverse):
    """Scores of all entities, an edge at a time, in double precision. Edges as (start, kind, end), inverses included; a
    node hears from the end of its edges. Both directions read the relations for *relation* itself."""
    state = {name: tensor.double() for name, tensor in state.items()}
    edges = [*triples, *((tail, kind + relations, head) for head, kind, tail in triples)]
    met = set()
    for one in edges:
        for other in edges:
            for way, (mine, yours) in enumerate(((0, 0), (2, 2), (0, 2), (2, 0))):
                if one[mine] == other[yours]:
                    met.add((one[1], way, other[1]))

    def passed(model, between, nodes, first, vectors_of):
        states = first.clone()
        for layer in range(LAYERS):
            at = f"{model}.layers.{layer}."
            vectors, sums = vectors_of(at), first.clone()
            for start, kind, end in between:
                sums[start] += states[end] * vectors[kind]
            said = torch.cat([states, sums], dim=1) @ state[at + "linear.weight"].T + state[at + "linear.bias"]
            normed = layer_norm(said, (WIDTH,), state[at + "layer_norm.weight"], state[at + "layer_norm.bias"])
            states = states + normed.clamp(min=0)
        assert len(states) == nodes
        return states

    first = torch.zeros(2 * relations, WIDTH, dtype=torch.double)
    first[relation] = 1
    met_as = passed("relation_model", met, 2 * relations, first, lambda at: state[at + "relation.weight"])
    asked = relation + relations * inverse
    first = torch.zeros(entities, WIDTH, dtype=torch.double)
    first[given] = met_as[asked]

    def projected(at):
        hidden = met_as @ state[at + "relation_projection.0.weight"].T + state[at + "relation_projection.0.bias"]
        at += "relation_projection.2."
        return hidden.clamp(min=0) @ state[at + "weight"].T + state[at + "bias"]

    states = passed("entity_model", edges, entities, first, projected)
    both = torch.cat([states, met_as[asked].expand(entities, WIDTH)], dim=1)
    hidden = (both @ state["entity_model.mlp.0.weight"].T + state["entity_model.mlp.0.bias"]).clamp(min=0)
    return (hidden @ state["entity_model.mlp.2.weight"].T + state["entity_model.mlp.2.bias"])[:, 0]


def opened(graph, weights, out, **options) -> Predictor:
    data = read(graph)
    train_links("ultra", data, Ultra(weights=str(weights), **options), out)
    predictor = open_links(out, data)
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
    return predictor


def test_scores_are_those_of_loops_over_edges(graph, weights, tmp_path):
    predictor = opened(graph, weights, tmp_path / "m")
    links = split_links(predictor.graph, "test", None, 0)
    with torch.inference_mode():
        scores = predictor.scores(links)
    triples = list(zip(*(side.tolist() for side in predictor.graph.columns(predictor.graph.training)), strict=True))
    assert len(triples) == 6
    state = torch.load(weights, weights_only=True)["model"]
    for place in range(len(links)):
        question = (int(column[place]) for column in (links.given, links.relation, links.inverse))
        expected = by_loops(state, triples, 7, 3, *question)
        assert scores[place].double() == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert scores.std() > 0.1, "weights that say something"


def test_blocks_of_questions_change_nothing(graph, weights, tmp_path, monkeypatch):
    predictor = opened(graph, weights, tmp_path / "m")
    links = split_links(predictor.graph, "test", None, 0)
    with torch.inference_mode():
        together = predictor.rank(links, 7, keep_scores=True)
        monkeypatch.setitem(sys.modules[Predictor.__module__].CELLS, "cpu", 1)
        predictor.prepare(lambda done, total: None)
        alone = predictor.rank(links, 7, keep_scores=True)
    for one, other in zip(together, alone, strict=True):
        assert one.ranks == other.ranks
        assert np.asarray(one.scores) == pytest.approx(np.asarray(other.scores), abs=1e-5)


# --------------------------------------------------------------------------------------------- what it cannot remember


def scores_in(folder, model):
    predictor = open_links(model, read(folder))
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        return predictor.scores(split_links(predictor.graph, "test", None, 0))


def test_no_world_changes_a_score_and_an_edge_changes_all(graph, weights, tmp_path):
    """The control of every memory term: worlds change names and texts, of which it has none."""
    opened(graph, weights, tmp_path / "m")
    build_worlds(read(graph).graph, tmp_path / "worlds", THIRTEEN, seed=1, options=WorldOptions(relax=True))
    base = scores_in(tmp_path / "worlds" / "base", tmp_path / "m")
    assert base.shape == (6, 7)
    for world in THIRTEEN:
        assert torch.equal(scores_in(tmp_path / "worlds" / str(world), tmp_path / "m"), base)
    edges = TRIPLES | {"train": TRIPLES["train"][:-1], "dev": ["e0\tr2\te2", "e0\tr0\te5"]}
    less = write_graph_folder(tmp_path / "less", edges, ENTITIES, NAMES)
    changed = ~torch.isclose(scores_in(less, tmp_path / "m"), base)
    assert changed[:, [0, 1, 2, 4, 5]].any(dim=1).all(), "every question, among the entities that hang together"


def ladder(folder) -> Path:
    """Forty towns in three circles, named and described."""
    towns = [f"e{n:02}" for n in range(40)]
    lines = [f"e{n:02}\tr{r}\te{(n + step) % 40:02}" for r, step in enumerate((1, 3, 7)) for n in range(40)]
    order = np.random.default_rng(0).permutation(len(lines))
    splits = {"train": order[:90], "dev": order[90:100], "test": order[100:]}
    texts = [
        f"{town}\tTown {town} of {int(town[1:]) % 7}\tTown {town} lies by {towns[-n - 1]}."
        for n, town in enumerate(towns)
    ]
    return write_graph_folder(folder, {name: [lines[n] for n in own] for name, own in splits.items()}, texts, NAMES)


@pytest.mark.slow
def test_a_study_finds_no_memory_in_it(weights, tmp_path):
    """The row that every memory term is read beside: 0 for each fact, each seed and each world, not only on average."""
    ladder(tmp_path / "graph")
    worlds = ("base", "virtual-er", "anonymised-e", "anonymised-er", "inconsistent-d", "fully-anonymised-erd")
    runs = f"runs: {{ULTRA: {{predictor: ultra, weights: {weights}, matrix: {{seed: [0, 1, 2]}}}}}}"
    data = f"data: {{graph: {{data: graph, worlds: [{', '.join(worlds)}]}}}}"
    (tmp_path / "plan.yaml").write_text(f"{data}\n{runs}\n")
    plan = read_plan(tmp_path / "plan.yaml", tmp_path / "out")
    states = {id(state.step): state for state in carry_out(plan, tmp_path / "out").states}
    assert [state.failed for state in states.values()] == [""] * 36
    result = memory.analyse([state_of_cell(run, states[id(run.step)]) for run in plan.runs])
    own = {term.name: term.value for term in result.terms}
    assert {name for name in own if name.startswith("memory")} == {
        f"memory of names ({w})" for w in worlds if w != NAMELESS
    }
    for name, term in own.items():
        if name != "structure":
            assert (term.value, term.p_value, term.note) == (0.0, 1.0, ALIKE), name
    hits = {line.cell: line.hits.value for line in result.cells}
    of_random = [one.hits.value for one in result.cells[1].trainings]
    for world in worlds:
        assert hits["ULTRA", "pretrained", world, None] == hits["ULTRA", "pretrained", "base", None]
        assert hits["ULTRA", "random", world, None] == pytest.approx(np.mean(of_random))
    assert len(set(of_random)) > 1, "random weights of three seeds"
    assert own["structure"].value == pytest.approx(np.mean(of_random))
    noise = {line.cell.init: line.noise for line in result.cells}
    assert noise["pretrained"].training == 0.0, "nothing is trained"
    assert noise["random"].training > 0.0


# -------------------------------------------------------------------------------------------------- the published model


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), [(0, 100)])
def test_the_published_model_answers_as_published(shared_data, tmp_path, seed, count):
    """All 3,656 questions give MRR 0.4715 and Hits@10 66.8 %, published are 0.472 and 66.7 % (Galkin et al. 2024). Here
    so many triples are drawn; another reading of the weights' conventions stays below 0.25."""
    predictor = opened(shared_data / "codex" / "codex-s", shared_data / "ultra" / "ultra_3g.pth", tmp_path / "m")
    with torch.inference_mode():
        found = predictor.rank(split_links(predictor.graph, "test", count, seed), 1)
    mrr = np.mean([1 / one.ranks.realistic for one in found])
    assert 0.40 < mrr < 0.54


# ----------------------------------------------------------------------------------------------------- the command line


def fathom(*words) -> int:
    sys.argv = ["fathom", *map(str, words)]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_it_is_trained_asked_and_predicts_like_any_other(graph, weights, tmp_path, capsys):
    model, run = tmp_path / "m", tmp_path / "r"
    assert fathom("kgc", "train", "ultra", "--weights", weights, "--data", graph, "--out", model) == 0
    assert "reads edges alone" in capsys.readouterr().out
    assert fathom("kgc", "evaluate", model, "--data", graph, "--out", run) == 0
    assert "mrr" in capsys.readouterr().out
    assert fathom("kgc", "predict", model, "--data", graph, "--relation", "first", "--head", "e0", "--top", "3") == 0
    assert "(name 0, first, ?)" in capsys.readouterr().out


def test_random_weights_come_from_the_seed(graph, weights, tmp_path):
    first, same, other = (
        opened(graph, weights, tmp_path / str(place), init="random", seed=seed) for place, seed in enumerate((1, 1, 2))
    )
    links = split_links(first.graph, "test", None, 0)
    with torch.inference_mode():
        scores, again, otherwise = (predictor.scores(links) for predictor in (first, same, other))
    assert torch.equal(scores, again)
    assert not torch.allclose(scores, otherwise)


class Strange:
    """What a pickle could run."""

    def __reduce__(self):
        return print, ("run",)


def files(folder) -> dict[str, Path]:
    made = {name: folder / name for name in ("text", "pickle", "list", "other", "narrow", "nan", "none", "folder")}
    made["text"].write_text("not weights")
    torch.save({"model": Strange()}, made["pickle"])
    torch.save([1, 2], made["list"])
    torch.save({"model": {"a": torch.zeros(2)}}, made["other"])
    torch.save({"model": {name: torch.zeros(shape)[:1] for name, shape in SHAPES.items()}}, made["narrow"])
    torch.save({"model": {name: torch.full(shape, math.nan) for name, shape in SHAPES.items()}}, made["nan"])
    made["folder"].mkdir()
    return made


@pytest.mark.parametrize(("kind", "said"), [
    ("text", "ultra_3g.pth"),
    ("pickle", "ultra_3g.pth"),
    ("list", "ultra_3g.pth"),
    ("other", ("82 weights", "6 layers, 64 wide", "found 1 others", "such as a")),
    ("narrow", ("82 weights", "6 layers, 64 wide", "found 82 others", "another shape")),
    ("nan", "no numbers"),
    ("none", "file is missing"),
    ("folder", "a folder"),
])  # fmt: skip
def test_files_of_something_else(graph, tmp_path, capsys, kind, said):
    file = files(tmp_path)[kind]
    code = fathom("kgc", "train", "ultra", "--weights", file, "--data", graph, "--out", tmp_path / "m")
    err = capsys.readouterr()
    assert code == 2
    assert mentioned(err.err, said)
    assert str(file) in err.err
    assert "run" not in err.out
    assert not (tmp_path / "m").exists()


def test_a_pickle_of_before_is_refused(graph, tmp_path):
    (tmp_path / "w").write_bytes(pickle.dumps({"model": {}}))
    with pytest.raises(BadInput, match=mentions("ULTRA")):
        Predictor(read(graph).graph, Ultra(weights=str(tmp_path / "w")), None, CPU)

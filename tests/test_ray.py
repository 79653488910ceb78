"""Runs asked by workers of a Ray cluster: the run of one process, bit for bit, whoever dies."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fathom import evaluate_links, load_model, read_data, train_links
from fathom.errors import BadInput, MissingExtra, RunFailed
from fathom.probes import PROBES
from fathom.run import run
from fathom.store.folder import RunFolder
from fathom.training.options import PlantOptions
from fathom.training.planting import plant
from tests import dying
from tests.conftest import write_graph_folder

ray = pytest.importorskip("ray", reason="needs the extra ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Of this machine; a run in it starts none of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def geography():
    return read_data("geography")


@pytest.fixture(scope="module")
def planted(tmp_path_factory, geography) -> dict[str, Path]:
    """A model of each kind that knows nothing."""
    folder = tmp_path_factory.mktemp("planted")
    for kind in ("causal", "masked"):
        plant(geography, PlantOptions(kind=kind, epochs=1, hidden_size=8, layers=1, heads=2), folder / kind, _nobody)
    return {kind: folder / kind for kind in ("causal", "masked")}


def _nobody(*told) -> None:
    pass


def options(probe: str, **more):
    usual = {"relations": ("continent",), "limit": 30, "cpus_per_worker": 1}
    return PROBES[probe].options(**(usual | more))


ON_RAY = {"engine": "ray", "workers": 2}
ONE = {"workers": 1}
"""Enough for what ends at the first."""


@pytest.fixture
def among(monkeypatch, cluster):
    """Has workers of a kind of :mod:`tests.dying`."""
    return lambda kind: monkeypatch.setattr("fathom.run.on_ray.Worker", kind)


CASES = {
    "statement": ("causal", {}),
    "embedding": ("causal", {"shots": 2}),
    "cloze": ("masked", {"pool": "relation"}),
}
"""Probes of both kinds of model, with artefacts in pieces, in one file, and without."""


@pytest.mark.parametrize("probe", CASES)
def test_workers_ask_what_one_process_asks(probe, cluster, planted, geography, tmp_path):
    kind, more = CASES[probe]
    model = load_model(str(planted[kind]))
    whole = run(probe, model, geography, options(probe, **more), tmp_path / "whole")
    told = []
    spread = options(probe, **more, **ON_RAY)
    folder = run(probe, str(planted[kind]), geography, spread, tmp_path / "ray", lambda *far: told.append(far))
    assert folder.predictions().equals(whole.predictions())
    assert folder.queries().equals(whole.queries())
    assert folder.manifest["identity"] == whole.manifest["identity"]
    for file in (whole.path / "artifacts").glob("*"):
        assert (folder.path / "artifacts" / file.name).read_bytes() == file.read_bytes()
    assert told[-1] == (len(whole.manifest["plan"]),) * 2
    noted, expected = folder.manifest["circumstances"], whole.manifest["circumstances"]
    assert noted["spread"] == {"engine": "ray", "workers": 2}
    for name in ("statements", "sequences", "prompts", "encoded_candidate_texts"):
        assert noted.get(name) == expected.get(name)


def test_workers_ask_a_link_predictor_what_one_process_asks(cluster, tmp_path):
    """Each opens it from its folder, with what it is to be asked with."""
    pytest.importorskip("pykeen", reason="needs the extra kgc")
    triples = {
        "train": ["pa\tcap\tfr", "ro\tcap\tit", "fr\tin\teu", "it\tin\teu", "pa\tin\tfr"],
        "dev": ["ro\tin\tit"],
        "test": ["pa\tin\teu", "ro\tin\teu"],
    }
    names = ["fr\tFrance", "it\tItaly", "pa\tParis", "ro\tRome", "eu\tEurope"]
    graph = write_graph_folder(tmp_path / "graph", triples, names, "cap\tcapital of\nin\tlies in\n")
    train_links("TransE", graph, tmp_path / "m", epochs=1)
    whole = evaluate_links(tmp_path / "m", graph, tmp_path / "whole").folder
    folder = evaluate_links(tmp_path / "m", graph, tmp_path / "ray", engine="ray", workers=2).folder
    assert folder.predictions().equals(whole.predictions())
    assert folder.manifest["identity"] == whole.manifest["identity"]
    assert folder.manifest["circumstances"]["spread"] == {"engine": "ray", "workers": 2}
    with pytest.raises(BadInput, match=r"--dropout: a .* model can be asked with"):
        evaluate_links(tmp_path / "m", graph, tmp_path / "no", asking={"dropout": 1}, engine="ray")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("workers", 2), ("gpus_per_worker", 0.5), ("cpus_per_worker", 2), ("ray_address", "auto")]
)
def test_workers_want_an_engine(option, value, fathom, tmp_path):
    """Else one process would ask where somebody has told of eight."""
    flag = "--" + option.replace("_", "-")
    asked = ("probe", "statement", "--model", "m", "--data", "geography", "--out", tmp_path / "r")
    code, _, said = fathom(*asked, flag, value)
    assert code == 2
    assert f"error: {flag}: expected only with --engine ray, found {value!r}" in said
    assert getattr(options("statement", **{"engine": "ray", option: value}), option) == value
    assert options("statement", cpus_per_worker=1).engine == "here"


def test_an_unfinished_run_changes_hands(cluster, planted, geography, tmp_path):
    """Begun here, stopped, gone on with by workers, stopped, finished by a part."""
    model = str(planted["causal"])
    whole = run("statement", load_model(model), geography, options("statement"), tmp_path / "whole")

    def stops_at(shard: int):
        def report(done: int, total: int) -> None:
            if done == shard:
                raise KeyboardInterrupt

        return report

    with pytest.raises(KeyboardInterrupt):
        run("statement", load_model(model), geography, options("statement"), tmp_path / "r", stops_at(1))
    with pytest.raises(KeyboardInterrupt):
        run("statement", model, geography, options("statement", **ON_RAY), tmp_path / "r", stops_at(3))
    folder = RunFolder.open(tmp_path / "r")
    assert len(folder.finished()) == 3
    run("statement", load_model(model), geography, options("statement", part="1/1"), tmp_path / "r")
    assert folder.predictions().equals(whole.predictions())


def test_a_model_in_memory_is_asked_if_it_is_what_its_name_says(cluster, planted, geography, tmp_path):
    """As studies ask."""
    model = load_model(str(planted["causal"]))
    assert run("statement", model, geography, options("statement", **(ON_RAY | ONE)), tmp_path / "r").is_complete()
    other = load_model(str(planted["causal"]))
    other.identity = replace(other.identity, content_hash="trained further")
    with pytest.raises(BadInput, match=r"workers load '.*' and find other weights there"):
        run("statement", other, geography, options("statement", **(ON_RAY | ONE)), tmp_path / "s")
    assert not (tmp_path / "s").exists()


# --- workers that die


def test_a_worker_that_dies_is_replaced_and_its_shard_asked_again(among, planted, geography, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = str(planted["causal"])
    whole = run("statement", load_model(model), geography, options("statement"), tmp_path / "whole")
    among(dying.DiesOnce)
    folder = run("statement", model, geography, options("statement", **ON_RAY), tmp_path / "r")
    assert folder.predictions().equals(whole.predictions())
    noted = folder.manifest["circumstances"]
    assert noted["workers_replaced"] == 1
    assert noted["statements"] == whole.manifest["circumstances"]["statements"]


def test_a_shard_that_nobody_survives_ends_the_run(among, planted, geography, tmp_path):
    among(dying.DiesOfOneShard)
    with pytest.raises(RunFailed, match=r"3 workers died while they asked 00002 \(killed\? out of memory\?"):
        run("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE)), tmp_path / "r")
    assert "00000" in RunFolder.open(tmp_path / "r").finished()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (dying.DiesInOpening, r"3 workers died while they loaded '.*causal' \(killed\? out of memory\?"),
        (dying.TooSmall, r"could not load '.*causal': .*; is its memory too small\? fewer --workers"),
    ],
)
def test_a_worker_without_memory_for_the_model_is_told(kind, said, among, planted, geography, tmp_path):
    among(kind)
    with pytest.raises(RunFailed, match=said):
        run("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE)), tmp_path / "r")
    assert not (tmp_path / "r").exists()


# --- what is refused


def test_workers_of_another_version_are_refused(among, planted, geography, tmp_path):
    among(dying.Older)
    with pytest.raises(BadInput, match=r"a worker has Fathom 0\.0\.9, here is .*: install the same on every node"):
        run("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE)), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_workers_that_find_different_models_are_refused(among, planted, geography, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    among(dying.Elsewhere)
    with pytest.raises(BadInput, match=r"workers on .* \(there\) and .* \(here\) do not agree\n  model.content_hash: "):
        run("statement", str(planted["causal"]), geography, options("statement", **ON_RAY), tmp_path / "r")


def test_what_a_probe_refuses_is_said_once(cluster, planted, geography, tmp_path, fathom):
    """As without Ray: by the first worker that finds it."""
    base = ("probe", "statement", "--data", "geography", "--out", tmp_path / "r", "--engine", "ray")
    code, _, said = fathom(*base, "--model", tmp_path / "nothing")
    assert (code, said.count("error:")) == (2, 1)
    code, _, said = fathom(*base, "--model", planted["causal"], "--templates", "9")
    assert code == 2
    assert "has no template 9" in said
    assert not (tmp_path / "r").exists()


def test_a_cluster_that_is_too_small_is_refused(cluster, planted, geography, tmp_path):
    for more, said in (
        ({"gpus_per_worker": 0.5}, "--workers 2 with 0.5 GPU each need 1: the cluster has 0"),
        ({"cpus_per_worker": 3}, "--workers 2 with 3 CPU each need 6: the cluster has 4; fewer --workers, or less of"),
    ):
        with pytest.raises(BadInput, match=said):
            run("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | more)), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def _nobody_listens() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_that_does_not_answer_is_told_at_once(form, monkeypatch, fathom, planted, tmp_path):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    address = form.format(_nobody_listens())
    code, _, said = fathom(
        "probe", "statement", "--model", planted["causal"], "--data", "geography", "--out", tmp_path / "r",
        "--engine", "ray", "--ray-address", address,
    )  # fmt: skip
    assert code == 2
    assert f"error: --ray-address {address}: no Ray cluster answers" in said
    assert not (tmp_path / "r").exists()


def test_an_address_that_is_none(monkeypatch, planted, geography, tmp_path):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    spread = options("statement", engine="ray", ray_address="head-node")
    with pytest.raises(BadInput, match="--ray-address head-node: expected HOST:PORT, ray://HOST:PORT, auto or local"):
        run("statement", str(planted["causal"]), geography, spread, tmp_path / "r")


def test_without_ray_the_extra_is_named(monkeypatch, planted, geography, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fathom-lm\[ray\]'"):
        run("statement", str(planted["causal"]), geography, options("statement", engine="ray"), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_parts_and_servers_are_not_for_workers(planted, geography, tmp_path):
    with pytest.raises(BadInput, match="--part 1/2 and --engine ray: expected one of them"):
        run("statement", str(planted["causal"]), geography, options("statement", part="1/2", **ON_RAY), tmp_path / "r")
    asked = options("generation", server="http://localhost/v1", **ON_RAY)
    with pytest.raises(BadInput, match="--engine ray: a server is asked by one process"):
        run("generation", "m", geography, asked, tmp_path / "r")

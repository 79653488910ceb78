"""Runs asked by workers of a Ray cluster: the run of one process, bit for bit, whoever dies."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import fathom
from fathom import load_model, read_data
from fathom._version import VERSION
from fathom.base.errors import BadInput, MissingExtra, RunFailed
from fathom.plans import file as plan_file
from fathom.plans.execution import carry_out
from fathom.plans.options import WorkerOptions
from fathom.plans.steps import StepState, state_of
from fathom.probes import PROBES
from fathom.probes.run import RunRequest, run
from fathom.probes.run.on_ray import connected
from fathom.store.folder import RunFolder
from fathom.training.options import PlantOptions
from fathom.training.planting import plant
from fathom_kgc import evaluate_links, train_links
from tests import dying
from tests.conftest import write_graph_folder
from tests.messages import mentioned, mentions, stated
from tests.sharing import begin, kept

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray", reason="needs the extra ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Of this machine; a run in it starts none of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_worker_niceness", "0")  # else tests beside these leave its workers next to nothing
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
    return lambda kind: monkeypatch.setattr("fathom.probes.run.on_ray.ShardWorker", kind)


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
    whole = run(RunRequest(probe, model, geography, options(probe, **more)), tmp_path / "whole")
    told = []
    spread = options(probe, **more, **ON_RAY)
    folder = run(
        RunRequest(probe, str(planted[kind]), geography, spread), tmp_path / "ray", lambda *far: told.append(far)
    )
    assert folder.predictions().equals(whole.predictions())
    assert folder.queries().equals(whole.queries())
    assert folder.manifest["identity"] == whole.manifest["identity"]
    for file in (whole.path / "artifacts").glob("*"):
        assert (folder.path / "artifacts" / file.name).read_bytes() == file.read_bytes()
    assert told[-1] == (whole.queries().num_rows,) * 2
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
    with pytest.raises(BadInput, match=mentions("--dropout")):
        evaluate_links(tmp_path / "m", graph, tmp_path / "no", asking={"dropout": 1}, engine="ray")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("workers", 2), ("gpus_per_worker", 0.5), ("cpus_per_worker", 2), ("ray_address", "auto")]
)
def test_workers_want_an_engine(option, value, fathom, tmp_path):
    """Else one process would ask where somebody has told of eight."""
    flag = "--" + option.replace("_", "-")
    asked = ("probe", "statement", "--model", "m", "--data", "geography", "--out", tmp_path / "r")
    file = tmp_path / "options.yaml"
    file.write_text(f"{option}: {value}\n")
    code, _, said = fathom(*asked, "--config", file)
    assert code == 2
    assert stated(said, f"error: {flag}: ", "--engine ray", f"found {value!r}")
    assert getattr(options("statement", **{"engine": "ray", option: value}), option) == value
    assert options("statement", cpus_per_worker=1).engine == "here"


def test_an_unfinished_run_changes_hands(cluster, planted, geography, tmp_path):
    """Begun here, stopped, gone on with by workers, stopped, finished by a part."""
    model = str(planted["causal"])
    whole = run(RunRequest("statement", load_model(model), geography, options("statement")), tmp_path / "whole")

    def stops_at(shards: int):
        reported = set()

        def report(done: int, total: int) -> None:
            if done:
                reported.add(done)  # queries: another number after each shard
            if len(reported) == shards:
                raise KeyboardInterrupt

        return report

    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("statement", load_model(model), geography, options("statement")), tmp_path / "r", stops_at(1))
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("statement", model, geography, options("statement", **ON_RAY)), tmp_path / "r", stops_at(3))
    folder = RunFolder.open(tmp_path / "r")
    assert len(folder.finished()) == 3
    run(RunRequest("statement", load_model(model), geography, options("statement", part="1/1")), tmp_path / "r")
    assert folder.predictions().equals(whole.predictions())


def test_a_model_in_memory_is_asked_if_it_is_what_its_name_says(cluster, planted, geography, tmp_path):
    """As studies ask."""
    model = load_model(str(planted["causal"]))
    assert run(
        RunRequest("statement", model, geography, options("statement", **(ON_RAY | ONE))), tmp_path / "r"
    ).is_complete()
    other = load_model(str(planted["causal"]))
    other.identity = replace(other.identity, content_hash="trained further")
    with pytest.raises(BadInput, match=mentions("--engine ray", planted["causal"])):
        run(RunRequest("statement", other, geography, options("statement", **(ON_RAY | ONE))), tmp_path / "s")
    assert not (tmp_path / "s").exists()


# --- workers that die


def test_a_worker_that_dies_is_replaced_and_its_shard_asked_again(among, planted, geography, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = str(planted["causal"])
    whole = run(RunRequest("statement", load_model(model), geography, options("statement")), tmp_path / "whole")
    among(dying.DiesOnce)
    folder = run(RunRequest("statement", model, geography, options("statement", **ON_RAY)), tmp_path / "r")
    assert folder.predictions().equals(whole.predictions())
    noted = folder.manifest["circumstances"]
    assert noted["workers_replaced"] == 1
    assert noted["statements"] == whole.manifest["circumstances"]["statements"]


def test_a_driver_that_a_scheduler_ends_tidies_up(planted, tmp_path):
    """Ray has a handler of its own for SIGTERM, which aborts."""
    log, out = tmp_path / "log", tmp_path / "r"
    driver = begin(planted["causal"], out, "--engine", "ray", log=log)
    while driver.goes_on() and not log.exists():
        time.sleep(0.1)
    driver.send(signal.SIGTERM)
    code, said = driver.ended(60)
    assert code == 143, said
    assert stated(said, "stopped", "kept")
    assert list((out / "predictions").iterdir())
    assert not list(out.rglob(".*"))


def test_a_shard_that_nobody_survives_ends_the_run(among, planted, geography, tmp_path):
    among(dying.DiesOfOneShard)
    with pytest.raises(RunFailed, match=mentions("3 workers died", "00002")):
        run(
            RunRequest("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE))),
            tmp_path / "r",
        )
    assert "00000" in RunFolder.open(tmp_path / "r").finished()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (dying.DiesInOpening, ("3 workers died", "causal")),
        (dying.TooSmall, ("could not load", "causal", "--workers")),
    ],
)
def test_a_worker_without_memory_for_the_model_is_told(kind, said, among, planted, geography, tmp_path):
    among(kind)
    with pytest.raises(RunFailed, match=mentions(*said)):
        run(
            RunRequest("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE))),
            tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


# --- what is refused


def test_workers_of_another_version_are_refused(among, planted, geography, tmp_path):
    among(dying.Older)
    with pytest.raises(BadInput, match=mentions("0.0.9", VERSION)):
        run(
            RunRequest("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | ONE))),
            tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


def test_workers_that_find_different_models_are_refused(among, planted, geography, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    among(dying.Elsewhere)
    with pytest.raises(BadInput, match=mentions("\n  model.content_hash: ")):
        run(RunRequest("statement", str(planted["causal"]), geography, options("statement", **ON_RAY)), tmp_path / "r")


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
        ({"gpus_per_worker": 0.5}, ("--workers 2", "0.5 GPU each need 1", "has 0", "--gpus-per-worker")),
        ({"cpus_per_worker": 3}, ("--workers 2", "3 CPU each need 6", "has 4", "--cpus-per-worker")),
    ):
        with pytest.raises(BadInput, match=mentions(*said)):
            run(
                RunRequest("statement", str(planted["causal"]), geography, options("statement", **(ON_RAY | more))),
                tmp_path / "r",
            )
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
    assert stated(said, f"error: --ray-address {address}: ", "no Ray cluster")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("distinguishing", ["the environment", "a file"])
def test_a_cluster_that_has_gone_is_told_at_once(distinguishing, monkeypatch, planted, geography, tmp_path):
    """Ray would wait for it without end."""
    gone = f"127.0.0.1:{_nobody_listens()}"
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)  # of clusters of others
    if distinguishing == "a file":
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        monkeypatch.setattr("ray._private.utils.read_ray_address", lambda folder: gone)
    else:
        monkeypatch.setenv("RAY_ADDRESS", gone)
    monkeypatch.setattr("ray.init", lambda **given: pytest.fail("waits"))
    spread, port = options("statement", engine="ray", ray_address="auto"), gone.partition(":")[2]
    with pytest.raises(BadInput, match=mentions("--ray-address auto", f":{port} ", "refused")):
        run(RunRequest("statement", str(planted["causal"]), geography, spread), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_address_that_is_none(monkeypatch, planted, geography, tmp_path):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    spread = options("statement", engine="ray", ray_address="head-node")
    with pytest.raises(BadInput, match=mentions("--ray-address head-node", "HOST:PORT")):
        run(RunRequest("statement", str(planted["causal"]), geography, spread), tmp_path / "r")


def test_without_ray_the_extra_is_named(monkeypatch, planted, geography, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install '.\[ray\]'"):
        run(
            RunRequest("statement", str(planted["causal"]), geography, options("statement", engine="ray")),
            tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


def test_parts_and_servers_are_not_for_workers(planted, geography, tmp_path):
    with pytest.raises(BadInput, match=mentions("--part 1/2", "--engine ray")):
        run(
            RunRequest("statement", str(planted["causal"]), geography, options("statement", part="1/2", **ON_RAY)),
            tmp_path / "r",
        )
    asked = options("generation", server="http://localhost/v1", **ON_RAY)
    with pytest.raises(BadInput, match=mentions("--engine ray", "--concurrency")):
        run(RunRequest("generation", "m", geography, asked), tmp_path / "r")


@pytest.mark.parametrize("quiet", [True, False])
def test_what_ray_says_of_tokens_is_hidden_where_nobody_wants_to_know(quiet, monkeypatch, caplog):
    def init(**given: object) -> None:
        logging.getLogger("ray._private.authentication").warning("Token authentication is enabled")

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("fathom.probes.run.on_ray.is_quiet", lambda: quiet)
    with connected(options("statement", engine="ray")):
        logging.getLogger("ray").warning("of the run")
    assert ("Token" in caplog.text) == (not quiet)
    assert "of the run" in caplog.text


# --- runs of a plan, and cells of a study of link predictors


SPREAD = WorkerOptions(engine="ray", workers=2)
ONE_SPREAD = WorkerOptions(engine="ray", workers=1)


def test_workers_make_the_runs_of_a_plan(cluster, planted, tmp_path):
    file = tmp_path / "plan.yaml"
    runs = "  s: {probe: statement, templates: 0}\n  v: {probe: embedding, shots: 2}"
    data = "{geo: {data: geography, relations: capital, limit: 20}}"
    file.write_text(f"models: {{c: {planted['causal']}, m: {planted['masked']}}}\ndata: {data}\nruns:\n{runs}\n")
    made, alone = (fathom.run_plan(file, tmp_path / name, progress=False) for name in ("alone", "again"))
    plan = plan_file.read_plan(file, tmp_path / "ray")
    spread = carry_out(plan, tmp_path / "ray", SPREAD)
    assert [state.failed for state in spread.states] == [""] * 4
    assert made.tables[0].rows == alone.tables[0].rows == spread.tables[0].rows


@pytest.fixture
def plan(tmp_path) -> Path:
    """Of two worlds and two seeds, each cell trained in a second."""
    pytest.importorskip("pykeen", reason="needs the extra kgc")
    ids = [f"e{number:02d}" for number in range(30)]
    facts = [f"{one}\t{'pq'[n % 2]}\t{ids[(n * n + 3) % 30]}" for n, one in enumerate(ids * 2)]
    triples = {"train": facts[:40], "dev": facts[40:50], "test": facts[50:]}
    names = [f"{one}\tTown {one}" for one in ids]
    write_graph_folder(tmp_path / "graph", triples, names, "p\tnear\nq\tnorth of\n")
    file = tmp_path / "plan.yaml"
    model = "predictor: TransE, epochs: 6, validate_every: 2, patience: null, dimension: 8, matrix: {seed: [0, 1]}"
    data = "data: {graph: {data: graph, worlds: [base, anonymised-er]}}"
    file.write_text(f"{data}\nruns:\n  m: {{{model}}}\nstudies: [memory]\n")
    return file


def grid(file: Path, out: Path, options: WorkerOptions | None = None, **more: object) -> list[StepState]:
    return carry_out(plan_file.read_plan(file, out), out, options, **more).states


@pytest.fixture
def cells_by(monkeypatch, cluster):
    """Has cells made by workers of a kind of :mod:`tests.dying`."""
    return lambda kind: monkeypatch.setattr("fathom.plans.runner.StepWorker", kind)


@pytest.fixture
def alone(plan, tmp_path) -> dict[str, object]:
    """The study by one process."""
    assert all(state.run is not None for state in grid(plan, tmp_path / "alone"))
    return kept(tmp_path / "alone")


def test_workers_make_the_cells_of_one_process(cluster, plan, alone, tmp_path):
    told, said = [], []
    found = grid(plan, tmp_path / "ray", SPREAD, tell=said.append, progress=lambda *far: told.append(far))
    assert all(state.run is not None for state in found)
    assert sum(name.endswith(("weights.safetensors", ".parquet")) for name in alone) >= 4 * 4
    assert kept(tmp_path / "ray") == alone
    assert told == [(number, 4) for number in range(5)]
    assert [line[:5] for line in said] == [f"[{number}/4]" for number in range(1, 5)]


def test_a_study_goes_on_with_workers_and_without(cluster, plan, alone, tmp_path):
    """Begun by one process, gone on with by a worker, finished by two processes."""

    def stops(line: str) -> None:
        raise KeyboardInterrupt

    for options in (WorkerOptions(), ONE_SPREAD):
        with pytest.raises(KeyboardInterrupt):
            grid(plan, tmp_path / "r", options, tell=stops)
    states = map(state_of, plan_file.read_plan(plan, tmp_path / "r").steps)
    assert sum(state.run is not None for state in states) in (2, 3)  # one was in work
    grid(plan, tmp_path / "r", WorkerOptions(workers=2))
    assert kept(tmp_path / "r") == alone


def test_a_worker_that_dies_in_a_cell_is_replaced_and_the_cell_goes_on(cells_by, plan, alone, tmp_path):
    cells_by(dying.DiesInACell)
    grid(plan, tmp_path / "r", SPREAD)
    died = json.loads((tmp_path / "died").read_text())
    curve = [json.loads(line)["seconds"] for line in (Path(died["at"]) / "curve.jsonl").read_text().splitlines()]
    assert curve[: len(died["curve"])] == died["curve"], "begun anew"
    assert kept(tmp_path / "r") == alone


def test_a_cell_that_nobody_survives_is_kept_as_failed(cells_by, plan, tmp_path):
    """As one whose process is killed where there is no Ray; the same command with --retry-failed makes it."""
    cells_by(dying.DiesOfOneCell)
    found = grid(plan, tmp_path / "r", SPREAD)
    [failed] = [state for state in found if state.failed]
    assert str(failed.step) == "m/graph/anonymised-er/seed=0"
    assert mentioned(failed.failed, "3 workers died", "runs/m/graph/anonymised-er/seed=0")
    assert sum(state.run is not None for state in found) == 3
    assert all(state.run is not None for state in grid(plan, tmp_path / "r", retry_failed=True))


def test_a_cell_that_cannot_be_made_fails_as_in_one_process(cluster, plan, alone, fathom, tmp_path):
    """The others are made; what it found, expected and wants is one line, and stands in the table."""
    plan.write_text(plan.read_text().replace("anonymised-er]", "anonymised-er, virtual-e]"))
    folder = tmp_path / "alone" / "predictors" / "m" / "graph" / "virtual-e" / "seed=0"
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text("not ours")
    for options in (SPREAD, WorkerOptions()):
        found = grid(plan, tmp_path / "alone", options, retry_failed=True)
        [failed] = [state.failed for state in found if state.failed]
        assert mentioned(failed, f"{folder} ", "--out")
        assert sum(state.run is not None for state in found) == 5
    code, _, told = fathom("plan", plan, "--out", tmp_path / "alone", "--engine", "ray")
    assert code == 1
    assert mentioned(told, "error: 1 runs failed")
    assert (folder / "letter.txt").read_text() == "not ours"


def test_what_is_wrong_with_a_plan_is_said_before_any_worker_begins(plan, fathom, monkeypatch, tmp_path):
    monkeypatch.setattr("fathom.plans.runner.connected", lambda options: pytest.fail("began"))
    plan.write_text(plan.read_text().replace("predictor: TransE", "predictor: TransD2"))
    code, _, said = fathom("plan", plan, "--out", tmp_path / "r", "--engine", "ray")
    assert (code, said.count("error:")) == (2, 1)
    assert stated(said, "m: --model", "'TransD2'")
    plan.write_text("runs: {m: {predictor: TransE}}\n")
    code, _, said = fathom("plan", plan, "--out", tmp_path / "r", "--engine", "ray")
    assert code == 2
    assert stated(said, "data: ")
    code, _, said = fathom("plan", plan, "--out", tmp_path / "r", "--ray-address", "auto", "--workers", "0")
    assert code == 2
    for fault in ("--workers: ", ("--ray-address: ", "--engine ray")):
        assert stated(said, fault)
    assert not (tmp_path / "r").exists()


def test_workers_that_do_not_find_the_study_are_refused(cells_by, plan, tmp_path):
    cells_by(dying.WithoutThePlan)
    with pytest.raises(BadInput, match=mentions("--engine ray", "/nowhere")):
        grid(plan, tmp_path / "r", ONE_SPREAD)
    assert not (tmp_path / "r" / "predictors").exists()


def test_a_study_without_its_cluster_writes_nothing(cluster, plan, fathom, monkeypatch, tmp_path):
    typed = ("plan", plan, "--out", tmp_path / "r", "--engine", "ray")
    (tmp_path / "rare.yaml").write_text("cpus-per-worker: 2")
    code, _, said = fathom(*typed, "--workers", "3", "--config", tmp_path / "rare.yaml")
    assert code == 2
    assert mentioned(said, "error: --workers 3", "2 CPU each need 6", "has 4")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    address = f"127.0.0.1:{_nobody_listens()}"
    code, _, said = fathom(*typed, "--ray-address", address)
    assert code == 2
    assert stated(said, f"error: --ray-address {address}: ", "no Ray cluster")
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, said = fathom(*typed)
    assert code == 2
    assert "pip install '.[ray]'" in said
    assert not (tmp_path / "r").exists()


def test_a_finished_study_needs_no_cluster(plan, alone, monkeypatch, tmp_path):
    monkeypatch.setattr("fathom.plans.runner.connected", lambda options: pytest.fail("began"))
    assert all(state.run is not None for state in grid(plan, tmp_path / "alone", SPREAD))

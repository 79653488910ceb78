"""Rights are typed: no manifest, configuration file or plan runs code, sends a key, or asks a server elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import fathom as library
from fathom.base.errors import BadInput
from fathom.base.rights import missing_right
from fathom.store.folder import RunFolder
from fathom_kgc import PromptedModel, evaluate_links, train_links
from tests.answerers import without_digests
from tests.cli.test_cli import gpt2, save
from tests.cli.test_cli_help import ALL
from tests.messages import mentioned, mentions
from tests.papers import write_graph

RIGHTS = {
    "trust_remote_code": True,
    "allow_pickle": True,
    "key_env": "AWS_SECRET_ACCESS_KEY",
    "server": "https://collector.example.org/v1",
    "ray_address": "ray://collector.example.org:10001",
    "endpoint": "https://collector.example.org/sparql",
}
FLAGS = {name: f"--{name.replace('_', '-')}" for name in RIGHTS}
CODE = "import pathlib; pathlib.Path({mark!r}).write_text('run')\nfrom transformers import GPT2Config as Own"


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A run folder without predictions, its model within it, and in that code which leaves a mark."""
    run = tmp_path / "run"
    model = save(tmp_path / "model", gpt2())
    library.probe("statement", str(model), "geography", run, limit=3, templates="0", progress=False)
    shutil.rmtree(run / "predictions")
    shutil.move(model, run / "model")
    (run / "model" / "own.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    config = json.loads((run / "model" / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (run / "model" / "config.json").write_text(json.dumps(config))
    with_command(run, model=str(run / "model"))
    return run


def with_command(run: Path, options: dict | None = None, **changed: object) -> None:
    """Change the command in a run's manifest, and its identity with it."""
    file = without_digests(run) / "manifest.json"
    manifest = json.loads(file.read_text())
    command = manifest["circumstances"]["command"]
    command |= changed
    command["options"] |= options or {}
    manifest["identity"]["options"] |= options or {}
    file.write_text(json.dumps(manifest))


def no_server(*_: object, **__: object) -> None:
    raise AssertionError("a server was called")


@pytest.mark.parametrize("name", RIGHTS)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_no_manifest_gives_a_right(name, more, strangers, fathom, tmp_path, monkeypatch):
    monkeypatch.setattr("fathom.engine.models.server.Server.__init__", no_server)
    with_command(strangers, {name: RIGHTS[name]} | ({"engine": "ray"} if name == "ray_address" else {}))
    before = (strangers / "manifest.json").read_bytes()
    code, _, said = fathom("resume", strangers, *more)
    assert code == 2
    assert mentioned(said, strangers / "manifest.json", name, f"type {FLAGS[name]}")
    assert not (tmp_path / "mark").exists()
    assert (strangers / "manifest.json").read_bytes() == before
    with pytest.raises(BadInput, match=mentions(FLAGS[name])):
        library.resume_run(strangers)


@pytest.mark.parametrize("address", ["me:S3CRET@example.org", "https://me:S3/CRET@example.org/v1"])
def test_no_password_of_a_manifest_is_shown(address, strangers, fathom):
    with_command(strangers, {"server": address})
    code, shown, _ = fathom("show", strangers)
    assert (code, mentioned(shown, "--server", "…@example.org"), "CRET" in shown) == (0, True, False)
    code, _, said = fathom("resume", strangers)
    assert (code, mentioned(said, "--server", "…@example.org"), "CRET" in said) == (2, True, False)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_folder_that_is_trusted_must_be_the_same(strangers, fathom, tmp_path, more):
    """Files are compared before their code runs: these have changed since the run began."""
    with_command(strangers, {"trust_remote_code": True})
    code, _, said = fathom("resume", strangers, "--trust-remote-code", *more)
    assert code == 2
    assert mentioned(said, "another run", "content_hash")
    assert not (tmp_path / "mark").exists()


def test_another_data_set_is_refused_before_a_server_is_asked(strangers, fathom, tmp_path, monkeypatch, quiz):
    monkeypatch.setattr("fathom.engine.models.server.Server.__init__", no_server)
    with_command(strangers, {"server": RIGHTS["server"]}, data=str(quiz))
    code, _, said = fathom("resume", strangers, "--server", RIGHTS["server"])
    assert code == 2
    assert mentioned(said, "another run", "data.content_hash")


def test_a_right_that_is_typed_is_used(fathom, tmp_path):
    model = save(tmp_path / "model", gpt2())
    run = tmp_path / "run"
    library.probe("statement", str(model), "geography", run, limit=3, templates="0", allow_pickle=True, progress=False)
    shutil.rmtree(run / "predictions")
    assert fathom("resume", run)[0] == 2
    assert fathom("resume", run, "--allow-pickle")[0] == 0
    assert RunFolder(run).is_complete()


WITH_CONFIG = [name for name, command in ALL.items() if any(each.name == "config" for each in command.params)]


@pytest.mark.parametrize("command", WITH_CONFIG)
def test_no_configuration_file_gives_a_right(command, fathom, tmp_path):
    file = tmp_path / "options.yaml"
    for name, value in RIGHTS.items():
        for spelt in (name, name.replace("_", "-")):
            file.write_text(f"# a comment\n{spelt}: {json.dumps(value)}\n")
            arguments = ["x" for each in ALL[command].params if each.param_type_name == "argument"]
            code, _, said = fathom(*command.split()[1:], *arguments, "--config", file)
            assert code == 2
            assert mentioned(said, f"{file}:2: {spelt}", f"type {FLAGS[name]}")


def test_configuration_files_were_found():
    assert {"fathom probe statement", "fathom kgc evaluate", "fathom study entailment"} <= set(WITH_CONFIG)


def test_what_a_configuration_file_says_too_is_typed(fathom, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("key-env: OUR_KEY\nserver: http://localhost:1/v1\nretries: 0\n")
    words = ["probe", "generation", "--model", "m", "--data", "geography", "--out", tmp_path / "run", "--config", file]
    assert mentioned(fathom(*words)[2], "--key-env")
    said = fathom(*words, "--key-env", "OUR_KEY")[2]
    assert mentioned(said, "localhost:1")
    assert not mentioned(said, "no file gives")


PLACES = {
    "models": "models: {{m: {{model: gpt2, {0}}}}}\ndata: [geography]\nruns: {{r: {{probe: generation}}}}",
    "data": "models: [gpt2]\ndata: {{d: {{data: geography, {0}}}}}\nruns: {{r: {{probe: generation}}}}",
    "runs": "models: [gpt2]\ndata: [geography]\nruns: {{r: {{probe: generation, {0}}}}}",
    "matrix": "models: [gpt2]\ndata: [geography]\nruns: {{r: {{probe: generation, matrix: {{{1}}}}}}}",
    "links": "data: {{d: {{data: graph}}}}\nruns: {{r: {{predictor: prompted, weights: m, asking: {{{0}}}}}}}",
    "studies": "models: [gpt2]\ndata: [geography]\nstudies: {{entailment: {{{0}}}}}",
}


@pytest.mark.parametrize("name", RIGHTS)
@pytest.mark.parametrize("place", PLACES)
def test_no_plan_gives_a_right(place, name, fathom, tmp_path):
    write_graph(tmp_path / "graph")
    file, value = tmp_path / "plan.yaml", json.dumps(RIGHTS[name])
    file.write_text(PLACES[place].format(f"{name.replace('_', '-')}: {value}", f"{name}: [{value}]"))
    flag = "--allow-server" if name == "server" else FLAGS[name]
    code, _, said = fathom("plan", file, "--out", tmp_path / "out", "--dry-run")
    assert code == 2
    assert mentioned(said, f"{file}:", name.replace("_", "-") if place != "matrix" else name, f"type {flag}")
    with pytest.raises(BadInput, match=mentions(flag)):
        library.run_plan(file, tmp_path / "out")


def test_a_plan_may_do_what_is_typed(fathom, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(PLACES["runs"].format(f"server: {RIGHTS['server']}, key-env: NO_KEY"))
    words = "plan", file, "--out", tmp_path / "out"
    said = fathom(*words, "--allow-server", f"https://ours.example.org/v1,{RIGHTS['server']}", "--key-env", "NO_KEY")[2]
    assert mentioned(said, "NO_KEY is not set")
    assert not mentioned(said, "no file gives")


def test_no_link_predictor_gives_a_right(tmp_path, monkeypatch, fathom):
    names = write_graph(tmp_path / "graph")
    model, folder = save(tmp_path / "model", gpt2()), tmp_path / "predictor"
    train_links(PromptedModel(weights=str(model)), tmp_path / "graph", folder, progress=False)
    file = folder / "link.json"
    manifest = json.loads(file.read_text())
    manifest["identity"]["options"] |= {"server": RIGHTS["server"], "key_env": RIGHTS["key_env"]}
    file.write_text(json.dumps(manifest))
    monkeypatch.setattr("fathom.engine.models.server.Server.__init__", no_server)
    typed = {"server": RIGHTS["server"], "key_env": RIGHTS["key_env"]}
    with pytest.raises(BadInput, match=mentions(file, "--server", "--key-env")):
        evaluate_links(folder, tmp_path / "graph", tmp_path / "run", progress=False)
    meant = [f"type fathom kgc evaluate {FLAGS[name]} " for name in typed]  # predict has neither option
    for command, *words in (
        ("predict", "--relation", "hypernym", "--head", names[0]),
        ("evaluate", "--out", tmp_path / "run"),
    ):
        code, _, said = fathom("kgc", command, folder, "--data", tmp_path / "graph", *words)
        assert (code, mentioned(said, *meant)) == (2, True), said
    with pytest.raises(AssertionError, match="a server was called"):
        evaluate_links(folder, tmp_path / "graph", tmp_path / "run", progress=False, asking=typed)


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost@collector.example.org/v1", "http://127.0.0.1.example.org/v1", "http://localhost.example.org",
        "http://collector.example.org\\@localhost/v1", "http://[::1]@collector.example.org/", "//collector.example.org",
        "http://localhost:80@collector.example.org", "http://localhost/v1?u=@collector.example.org", "http://10.0.0.7",
        "http://localhost\n.example.org", "http://LOCALHOST․example.org", "file:///etc/passwd", 7, ["http://localhost"],
    ],
)  # fmt: skip
def test_what_only_looks_like_this_machine(address):
    assert missing_right("server", address, {}) is not None


def test_each_of_several_addresses_needs_its_right():
    here, elsewhere = "http://localhost:3030/sparql", "https://collector.example.org/sparql"
    assert missing_right("endpoint", [here], {}) is None
    assert mentioned(missing_right("endpoint", [here, elsewhere], {}), f"type --endpoint {elsewhere}")
    assert missing_right("endpoint", [here, elsewhere], {"endpoint": (elsewhere,)}) is None


@pytest.mark.parametrize("value", ["yes", 1, [True]])
def test_what_to_type_is_what_the_command_has(value):
    assert mentioned(missing_right("trust_remote_code", value, {}), "type --trust-remote-code, if")


@pytest.mark.parametrize(
    "address", ["http://localhost:8000/v1", "http://127.0.0.1:1", "https://[::1]:8000/v1", None, ""]
)
def test_this_machine(address):
    assert missing_right("server", address, {}) is None

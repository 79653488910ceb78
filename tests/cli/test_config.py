"""``--config``: everything that a command can be told may stand in a file, and the command line wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fathom as library
from fathom.base.errors import BadInput
from fathom.base.options import nearest
from tests.cli.test_cli import gpt2, save
from tests.messages import mentioned, mentions
from tests.reasoners import write_things


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "causal", gpt2())


def identity(run: Path) -> dict:
    return json.loads((run / "manifest.json").read_text())["identity"]


def test_model_data_and_out_in_a_file(fathom, model, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(f"model: {model}\ndata: geography\nout: {tmp_path / 'a'}\nlimit: 3\ntemplates: [0]\n")
    code, _, err = fathom("probe", "statement", "--config", config)
    assert (code, err) == (0, "")
    found = identity(tmp_path / "a")
    assert (found["data"]["name"], found["options"]["limit"], found["options"]["templates"]) == ("geography", 3, [0])
    code, *_ = fathom("probe", "statement", "--config", config, "--out", tmp_path / "b", "--limit", "4")
    assert (code, identity(tmp_path / "b")["options"]["limit"]) == (0, 4)


def test_the_command_line_wins_over_a_model_that_is_not_there(fathom, model, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(f"model: nowhere\ndata: geography\nout: {tmp_path / 'a'}\nlimit: 3\n")
    code, _, err = fathom("probe", "statement", "--config", config)
    assert (code, "cannot load 'nowhere'" in err) == (2, True)
    assert fathom("probe", "statement", "--config", config, "--model", model)[0] == 0


@pytest.mark.parametrize("key", ["model", "models"])
def test_a_study_s_own_words_in_a_file(fathom, tmp_path, key):
    """``model`` and ``models`` are one flag."""
    config = tmp_path / "c.yaml"
    said = {key: "nowhere", "data": str(write_things(tmp_path)), "out": str(tmp_path / "a"), "rules": 9, "depth": 2}
    config.write_text(json.dumps(said))
    code, _, err = fathom("study", "chains", "--config", config)
    assert (code, "cannot load 'nowhere'" in err) == (2, True), err


def test_models_as_a_list(fathom, model, tmp_path):
    """The format of the tables, too."""
    other = save(tmp_path / "other", gpt2())
    config = tmp_path / "c.yaml"
    config.write_text(f"models: [{model}, {other}]\nout: {tmp_path / 'a'}\nlimit: 3\nformat: json\n")
    code, out, err = fathom("plan", "sizes", "--config", config, "--dry-run")
    assert code == 0, err
    assert len(json.loads(out)["plan"]) == 6


def test_data_and_out_of_what_is_trained(fathom, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(
        f"kind: causal\ndata: geography\nout: {tmp_path / 'm'}\nepochs: 1\nhidden-size: 8\nlayers: 1\nheads: 2\n"
    )
    code, _, err = fathom("plant", "--config", config)
    assert code == 0, err
    assert (tmp_path / "m" / "planted.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("limt: 3", ("--limt", "limit or split?")),
        ("xyzzy: 3", ("--xyzzy", "adapter, add_candidates, ")),
        ("config: other.yaml", "--config"),
        ("format: json", "--format"),
        ("data: [a, b]", "--data: "),
        ("out: {a: b}", "--out: "),
        ("- limit", "'option: value'"),
        ("limit: 3\nseed: 1\nlimit: 4", (":3: ", "'limit'", "line 1")),
        ("top-k: 3\nlimit: 4\ntop_k: 4", (":3: ", "top_k", "line 1")),
    ],
)
def test_faults(fathom, tmp_path, content, expected):
    config = tmp_path / "c.yaml"
    config.write_text(content)
    given = {"data": "geography", "out": tmp_path / "a"}
    where = [word for name, value in given.items() if f"{name}:" not in content for word in (f"--{name}", value)]
    code, _, err = fathom("probe", "statement", "--config", config, "--model", "m", *where)
    assert (code, mentioned(err, expected)) == (2, True), err
    assert not (tmp_path / "a").exists()


def test_what_is_missing_is_named(fathom, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("limit: 3\n")
    code, _, err = fathom("probe", "statement", "--config", config)
    assert (code, "--model, --data, --out are missing" in err) == (2, True)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("limt", "mean limit?"),
        ("Max-Rank", "mean max_rank?"),
        ("QREL", "mean qReL?"),
        ("quux", "device, limit, max_rank, qReL"),
    ],
)
def test_the_nearest_name(typed, expected):
    assert expected in nearest(typed, ["max_rank", "limit", "device", "qReL"])


def test_a_mistyped_option_in_python_is_one_line():
    import fathom

    with pytest.raises(fathom.BadInput) as told:
        fathom.probe("statement", model="m", data="geography", limt=20)
    assert mentioned(str(told.value).splitlines()[0], "--limt", "limit or split?")
    with pytest.raises(fathom.BadInput, match=mentions("'statment'")):
        fathom.probe("statment", model="m", data="geography")


def test_a_misspelt_key_is_compared_with_all_options_of_a_builder(fathom, tmp_path):
    """And one value of a repeated option may stand by itself."""
    file = tmp_path / "build.yaml"
    file.write_text(f"seeed: 3\ninput: {tmp_path / 'a.txt'}\nentities: {tmp_path / 'names.txt'}\n")
    code, _, message = fathom("build", "cloze", "--config", file, "--out", tmp_path / "out")
    assert code == 2
    [line] = message.splitlines()
    assert mentioned(line, "--seeed", "seed?")


def test_weights_are_not_read_if_the_data_is_wrong(model, tmp_path, monkeypatch):
    """The model is still looked for, so that all faults are reported at once."""
    monkeypatch.setattr("fathom.api.open_model", lambda *_: pytest.fail("the weights were read"))
    with pytest.raises(BadInput, match=mentions("no data at", "nowhere")) as caught:
        library.probe("statement", model, tmp_path / "nowhere")
    assert len(caught.value.faults) == 1
    with pytest.raises(BadInput, match=mentions("nowhere", "no-model")) as caught:
        library.probe("statement", tmp_path / "no-model", tmp_path / "nowhere")
    assert len(caught.value.faults) == 2

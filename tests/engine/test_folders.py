"""Folders that hold no model, or half of one: one line that says which file and why, exit code 2, nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.hub import library_message
from fathom.engine.models.loading import load
from tests.engine.test_hub import IDS, llama, lora
from tests.messages import mentioned

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(llama(tmp_path_factory.mktemp("models") / "good"))


def config(**fields: object) -> Change:
    """Its config.json says otherwise."""

    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def cut(name: str, length: int) -> Change:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:length])

    return change


def without(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


def only(*names: str) -> Change:
    return lambda folder: [file.unlink() for file in folder.iterdir() if file.name not in names]


OWN_CODE = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
FAULTS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "empty": (only(), ("'{0}'", "no config.json")),
    "tokenizer alone": (only("tokenizer.json", "tokenizer_config.json"), ("'{0}'", "no config.json")),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{not"), ("{0}/config.json:1: not JSON",)),
    "no type": (lambda folder: (folder / "config.json").write_text("{}"), ("'{0}'", "Unrecognized model")),
    "unknown": (config(model_type="own"), ("'{0}'", "model type `own`")),
    "own code": (config(model_type="own", auto_map=OWN_CODE), ("'{0}'", "--trust-remote-code")),
    "other width": (config(hidden_size=32), ("509 × 64", "config.json says 509 × 32")),
    "more layers": (config(num_hidden_layers=3), ("model.layers.2.input_layernorm.weight", "config.json")),
    "no weights": (without("model.safetensors"), ("'{0}'", "no weights (model.safetensors)")),
    "pickled": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        ("'{0}'", "no weights (model.safetensors)", "--allow-pickle"),
    ),
    "cut": (cut("model.safetensors", 5000), ("{0}/model.safetensors is damaged",)),
    "cut to nothing": (cut("model.safetensors", 0), ("{0}/model.safetensors is damaged",)),
    "tokenizer cut": (cut("tokenizer.json", 300), ("{0}/tokenizer.json:",)),
    "tokenizer of nothing": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        ("{0}/tokenizer.json: model is missing",),
    ),
    "no tokenizer": (without("tokenizer.json", "tokenizer_config.json"), ("'{0}'", "no tokenizer (tokenizer.json)")),
    "unknown quantisation": (config(quantization_config={"quant_method": "own"}), ("'{0}'", "quantised by 'own'")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_holds_no_model(fault: str, good: Path, tmp_path: Path, fathom) -> None:
    change, told = FAULTS[fault]
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    change(folder)
    check_refused(fathom, tmp_path, tuple(part.format(folder) for part in told), "--model", folder)


def check_refused(fathom, tmp_path: Path, told: str | tuple[str, ...], *options: object) -> None:
    """One line, exit code 2, no run."""
    code, out, err = fathom("probe", "statement", *options, "--data", "geography", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert mentioned(line, told)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ValueError("Validation error for field 'size':\n    TypeError: expected int"),
            "'size': TypeError: expected int",
        ),
        (ValueError("no such file\nTraceback: …"), "no such file"),
        (KeyError("added_tokens"), "(KeyError 'added_tokens')"),
        (RuntimeError(), "(RuntimeError)"),
    ],
)
def test_what_a_library_says_on_one_line(error: Exception, told: str) -> None:
    assert library_message(error).endswith(told)
    assert "Traceback" not in library_message(error)


def test_a_folder_of_a_tokenizer_alone_needs_no_weights(good: Path, tmp_path: Path, fathom) -> None:
    folder = tmp_path / "tokenizer"
    shutil.copytree(good, folder)
    only("tokenizer.json", "tokenizer_config.json")(folder)
    (folder / "tokenizer.json").write_text("{}")
    check_refused(fathom, tmp_path, f"{folder}/tokenizer.json", "--model", good, "--tokenizer", folder)


def test_a_folder_of_checkpoints(good: Path, tmp_path: Path, fathom) -> None:
    for step in (20, 40):
        shutil.copytree(good, tmp_path / "trained" / f"checkpoint-{step}")
    told = ("no config.json", "checkpoint-20, ")
    check_refused(fathom, tmp_path, told, "--model", tmp_path / "trained")


def test_a_file_and_a_revision_of_a_folder(good: Path, tmp_path: Path, fathom) -> None:
    check_refused(fathom, tmp_path, "config.json: a file", "--model", good / "config.json")
    told = ("--revision v2", f"'{good}'", "the hub")
    check_refused(fathom, tmp_path, told, "--model", good, "--revision", "v2")


def test_adapters_that_lack_something(good: Path, tmp_path: Path, fathom) -> None:
    adapter = Path(lora(str(good), tmp_path / "adapter", "q_proj"))
    check_refused(fathom, tmp_path, (f"'{good}'", "no adapter_config.json"), "--model", good, "--adapter", good)
    _drop_half(adapter / "adapter_model.safetensors")
    told = (f"adapter '{adapter}'", "missing adapter keys")
    check_refused(fathom, tmp_path, told, "--model", adapter)
    (adapter / "adapter_model.safetensors").unlink()
    check_refused(fathom, tmp_path, "no adapter_model.safetensors", "--model", adapter)
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "gone/base"}))
    told = (f"'{adapter}'", f"--model MODEL --adapter {adapter}")
    check_refused(fathom, tmp_path, told, "--model", adapter)


def _drop_half(file: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    save_file(dict(list(tensors.items())[: len(tensors) // 2]), file)


def test_an_adapter_with_weights_that_its_configuration_leaves_out(good: Path, tmp_path: Path, fathom) -> None:
    from safetensors.torch import load_file, save_file

    queries, values = (Path(lora(str(good), tmp_path / name, name)) for name in ("q_proj", "v_proj"))
    weights = "adapter_model.safetensors"
    save_file(load_file(queries / weights) | load_file(values / weights), queries / weights)
    first = "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight"
    expected = (f"adapter '{queries}'", "4 weights", "adapter_config.json", first)
    check_refused(fathom, tmp_path, expected, "--model", good, "--adapter", queries)
    file = queries / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"target_modules": ["q_proj", "v_proj"]}))
    whole, single = (token_log_probs(load(str(good), adapter=str(part)), IDS) for part in (queries, values))
    assert (whole - single)[1:].abs().max() > 1e-3


def test_a_bias_that_the_configuration_leaves_out(good: Path, tmp_path: Path, caplog) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    file, key = folder / "model.safetensors", "model.layers.0.self_attn.q_proj.bias"
    width = load_file(file)[key.replace("bias", "weight")].shape[0]
    unrelated = {"score.weight": torch.ones(2, 2)}  # the head of a classifier
    save_file(load_file(file) | {key: torch.ones(width)} | unrelated, file, metadata={"format": "pt"})
    load(str(folder))
    [message] = [record.getMessage() for record in caplog.records if record.name == "fathom"]
    assert mentioned(message, "1 weights", "config.json", key)


def test_layers_that_are_not_used_are_told(good: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    config(num_hidden_layers=1)(folder)
    shorter = load(str(folder))
    [told] = [record.getMessage() for record in caplog.records if record.name == "fathom"]
    assert mentioned(told, "9 weights", "config.json", "model.layers.1.input_layernorm.weight")
    exact = token_log_probs(load(str(good)), IDS)[1:]
    assert (token_log_probs(shorter, IDS)[1:] - exact).abs().max() > 1e-2


def test_a_revision_is_that_of_the_model_alone(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model's tokenizer has no revision of that name."""
    from fathom.engine.models import loading, parts
    from fathom.engine.models.hub import ModelPart

    asked: dict[str, str | None] = {}

    def record(kind, part, options):
        asked[part.name] = part.revision
        if len(asked) == 2:
            raise BadInput("enough")
        return from_pretrained(kind, ModelPart(str(good)), {})

    from_pretrained = loading.from_pretrained
    for module in (loading, parts):
        monkeypatch.setattr(module, "from_pretrained", record)
    with pytest.raises(BadInput, match="enough"):
        load("some/model", revision="v2", tokenizer="another/model")
    assert asked == {"some/model": "v2", "another/model": None}

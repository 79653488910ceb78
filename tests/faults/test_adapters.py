"""Adapters of others: patterns, sizes and rights in ``adapter_config.json``; the records of all files of a model."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import GPT2LMHeadModel

import fathom as library
from fathom.base.errors import BadInput
from fathom.engine.models import model_files
from fathom.engine.models.checks import token_log_probs
from tests.messages import mentions

ENDLESS = "(([a-z_.]+)*[a-z0-9_.]+)*!"
"""A pattern that takes longer than anyone waits to find that a module's name does not match."""
FILE, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
IDS = list(range(5, 25))


@pytest.fixture(scope="module")
def adapter(model, tmp_path_factory) -> Path:
    peft = pytest.importorskip("peft", reason="needs the extra peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["c_fc"], fan_in_fan_out=True, init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapter")
    peft.get_peft_model(GPT2LMHeadModel.from_pretrained(model), config).save_pretrained(folder)
    return folder


def altered(adapter: Path, to: Path, **values: object) -> Path:
    folder = Path(shutil.copytree(adapter, to))
    (folder / FILE).write_text(json.dumps(json.loads((folder / FILE).read_text()) | values))
    return folder


REFUSED = {
    "rank": ({"r": 10_000_000}, "r must be", "10000000"),
    "rank above the weights'": ({"r": 1000}, "r 1,000", "at most 2"),
    "rank of another adapter": ({"r": 1}, "size mismatch"),
    "ranks by module above the weights'": ({"rank_pattern": {"c_fc": 1000}}, "c_fc 1,000", "at most 2"),
    "a truth value as rank": ({"r": True}, "r must be", "true"),
    "pattern of ranks": ({"rank_pattern": {ENDLESS: 2}}, "rank_pattern", "2,000 names of modules"),
    "pattern of scales": ({"alpha_pattern": {ENDLESS: 2}}, "alpha_pattern", "2,000 names of modules"),
    "pattern of whole modules": ({"modules_to_save": [ENDLESS]}, "modules_to_save", "2,000 names of modules"),
    "pattern of layers": ({"layers_pattern": ENDLESS, "layers_to_transform": [0]}, "layers_pattern", "names"),
    "many ranks": ({"rank_pattern": dict.fromkeys(map(str, range(2001)), 2)}, "rank_pattern", "2,000"),
    "endless start": ({"init_lora_weights": "pissa_niter_1000000000"}, "init_lora_weights", "99 steps"),
    "endless quantisation": ({"loftq_config": {"loftq_iter": 10**9}}, "loftq_iter", "100"),
    "copies of layers": ({"layer_replication": [[0, 1]] * 101}, "layer_replication", "100 pairs"),
    "a module to import": ({"megatron_config": {"a": 1}, "megatron_core": "this"}, "megatron_config"),
    "prompts": ({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 10**9}, "peft_type", "'LORA'"),
    "adapters of its own": ({"peft_type": "XLORA", "adapters": {"a": "/etc"}}, "peft_type", "'LORA'"),
    "a scale that is no number": ({"lora_alpha": float("nan")}, "lora_alpha", "finite"),
    "text for a truth value": ({"use_rslora": "no"}, "use_rslora", "'no'"),
    "a number for its model": ({"base_model_name_or_path": 5}, "base_model_name_or_path", "5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_adapter_may_not_say(model, adapter, tmp_path, case):
    values, *expected = REFUSED[case]
    folder = altered(adapter, tmp_path / "adapter", **values)
    with pytest.raises(BadInput, match=mentions(str(folder), FILE if "mismatch" not in expected[0] else "", *expected)):
        library.load_model(str(model), adapter=str(folder))


def test_an_adapter_that_is_the_model_is_checked_before_its_base_is_read(adapter, tmp_path):
    folder = altered(adapter, tmp_path / "adapter", base_model_name_or_path=5)
    with pytest.raises(BadInput, match=mentions(str(folder / FILE), "base_model_name_or_path", "5")):
        library.load_model(str(folder))


@pytest.mark.parametrize(
    "values",
    [
        {"target_modules": ENDLESS},
        {"target_modules": "all-linear"},
        {"target_modules": ["c_fc", "c_proj"], "exclude_modules": ENDLESS},
    ],
)
def test_patterns_of_modules_are_those_that_the_weights_name(model, adapter, tmp_path, values):
    found, expected = (
        token_log_probs(library.load_model(str(model), adapter=str(folder)), IDS)
        for folder in (altered(adapter, tmp_path / "adapter", **values), adapter)
    )
    torch.testing.assert_close(found, expected, equal_nan=True, atol=0, rtol=0)
    plain = token_log_probs(library.load_model(str(model)), IDS)
    assert (plain - expected).abs().nan_to_num().max() > 1e-3


def test_pickled_weights_of_an_adapter_need_permission(model, adapter, tmp_path):
    from safetensors.torch import load_file

    expected = token_log_probs(library.load_model(str(model), adapter=str(adapter)), IDS)
    folder = altered(adapter, tmp_path / "adapter")
    torch.save(load_file(folder / WEIGHTS), folder / "adapter_model.bin")
    (folder / WEIGHTS).unlink()
    with pytest.raises(BadInput, match=mentions(str(folder), WEIGHTS, "--allow-pickle", "adapter_model.bin")):
        library.load_model(str(model), adapter=str(folder))
    allowed = library.load_model(str(model), adapter=str(folder), allow_pickle=True)
    torch.testing.assert_close(token_log_probs(allowed, IDS), expected, equal_nan=True, atol=0, rtol=0)


def test_weights_without_values_do_not_make_a_rank_true(model, adapter, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = altered(adapter, tmp_path / "adapter", r=900_000)
    weights = {key: torch.empty(900_000, 0) for key in load_file(folder / WEIGHTS) if "lora_A" in key}
    save_file(weights, folder / WEIGHTS)
    with pytest.raises(BadInput, match=mentions(str(folder), "lora_A", "empty")):
        library.load_model(str(model), adapter=str(folder))


@pytest.mark.parametrize("values", [{}, {"target_modules": ENDLESS}])
def test_an_adapter_beside_the_weights_is_not_applied_in_silence(model, adapter, tmp_path, values):
    folder = altered(adapter, tmp_path / "both", **values)
    shutil.copytree(model, folder, dirs_exist_ok=True)
    with pytest.raises(BadInput, match=mentions(str(folder), FILE, "--adapter")):
        library.load_model(str(folder))


NOT_READ = {"planting.json", "pretraining.json", "tekken.json"}
"""Names in the sources of files that no code there reads."""


def names_of_files(source: str) -> set[str]:
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    files = (text for text in texts if isinstance(text, str) and " " not in text)
    return {Path(file).name for file in files if Path(file).suffix == ".json"}


def test_every_file_that_is_read_has_a_declared_record():
    folder = Path(model_files.__file__).parent
    named = {name: file.name for file in folder.glob("*.py") for name in names_of_files(file.read_text())}
    assert {"adapter_config.json", "modules.json", "tokenizer.json"} <= named.keys()
    declared = {name for table in (model_files.SMALL, model_files.LARGE) for name in table}
    assert {name: file for name, file in named.items() if name not in declared | NOT_READ} == {}


OTHERS = [
    ("modules.json", 5, "list"),
    ("modules.json", [{"type": 5}], "type"),
    ("model.safetensors.index.json", {"weight_map": {"a": "../elsewhere/model.safetensors"}}, "weight_map"),
    ("model.safetensors.index.json", {"weight_map": {"a": "pytorch_model.bin"}}, "*.safetensors"),
    ("model.safetensors.index.json", {"weight_map": {"a": "weights.dat"}}, "*.safetensors"),
    ("pytorch_model.bin.index.json", {"weight_map": {"a": "weights.dat"}}, "*.bin"),
]


@pytest.mark.parametrize(("file", "content", "expected"), OTHERS)
def test_further_files_of_a_model(model, tmp_path, file, content, expected):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(BadInput, match=mentions(str(folder / file), expected)):
        library.load_model(str(folder))

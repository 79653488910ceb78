"""Adapters of strangers: no pattern is searched, no rank is believed, and no pickle is read."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.base.errors import BadInput
from fathom.engine.models import model_files
from fathom.engine.models.loading import load
from tests.conftest import TINY_VOCABULARY, build, save_llama, tiny_tokenizer
from tests.engine.test_loading import IDS, token_log_probs
from tests.messages import mentions

peft = pytest.importorskip("peft")
NEVER_ENDS = "(.*a|.*b|.*c)*(.*x)*(a|aa)+$"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("adapters") / "model", tiny_tokenizer(), hidden_size=32)


def adapter(model: Path, folder: Path, **changed: Any) -> str:
    """An adapter of rank 4 whose configuration a stranger has changed."""
    network = build("LlamaForCausalLM", vocab_size=TINY_VOCABULARY, hidden_size=32, num_hidden_layers=2,
                    num_attention_heads=2, max_position_embeddings=512)  # fmt: skip
    adapted = peft.get_peft_model(network, peft.LoraConfig(target_modules=["q_proj", "up_proj"], r=4))
    torch.manual_seed(1)
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora" in key:
                value.copy_(torch.randn_like(value))
    adapted.save_pretrained(folder)
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    config["target_modules"] = sorted(config["target_modules"])
    file.write_text(json.dumps(config | {"base_model_name_or_path": str(model)} | changed))
    return str(folder)


@pytest.mark.parametrize(
    "changed",
    [
        {"target_modules": NEVER_ENDS},
        {"exclude_modules": NEVER_ENDS},
        {"target_modules": r".*\.(q_proj|up_proj)"},
        {"target_modules": "no_such_module"},
    ],
)
def test_names_of_the_weights_stand_in_for_a_pattern(changed, model, tmp_path):
    expected = load(str(model), adapter=adapter(model, tmp_path / "plain"))
    start = time.monotonic()
    found = load(str(model), adapter=adapter(model, tmp_path / "changed", **changed))
    assert time.monotonic() - start < 60
    torch.testing.assert_close(token_log_probs(found, IDS)[1:], token_log_probs(expected, IDS)[1:])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rank_pattern": {NEVER_ENDS: 4}}, ("rank_pattern", "must match pattern")),
        ({"alpha_pattern": {NEVER_ENDS: 4}}, ("alpha_pattern", "must match pattern")),
        ({"layers_pattern": NEVER_ENDS, "layers_to_transform": [0]}, ("layers_pattern",)),
        ({"r": 10_000_000}, ("r must be", "16384", "10000000")),
        ({"r": 16_000}, ("rank 16,000", "its weights 4")),
        ({"rank_pattern": {"q_proj": 16_000}}, ("rank 16,000", "its weights 4")),
        ({"r": "4"}, ("r must be", "'4'")),
        ({"r": 0}, ("r must be", "1, found 0")),
        ({"r": True}, ("r must be", "found true")),
        ({"target_modules": 7}, ("target_modules",)),
        ({"base_model_name_or_path": ["x"]}, ("base_model_name_or_path",)),
        ({"lora_alpha": "much"}, ("lora_alpha",)),
    ],
)
def test_a_configuration_that_cannot_be(changed, said, model, tmp_path):
    folder = adapter(model, tmp_path / "adapter", **changed)
    with pytest.raises(BadInput, match=mentions(folder, *said)):
        load(str(model), adapter=folder)


def test_ranks_of_single_modules(model, tmp_path):
    ranks = {"^model.layers.0.self_attn.q_proj$": 4, "q_proj": 4, "up_proj": 4}
    folder = adapter(model, tmp_path / "adapter", r=2, rank_pattern=ranks)
    assert load(str(model), adapter=folder).max_tokens == 512


def test_a_pickled_adapter_is_read_if_that_is_typed(model, tmp_path):
    folder = Path(adapter(model, tmp_path / "adapter"))
    expected = token_log_probs(load(str(model), adapter=str(folder)), IDS)[1:]
    weights = peft.load_peft_weights(str(folder), device="cpu")
    (folder / "adapter_model.safetensors").unlink()
    torch.save(weights, folder / "adapter_model.bin")
    with pytest.raises(BadInput, match=mentions(folder, "--allow-pickle")):
        load(str(model), adapter=str(folder))
    found = load(str(model), adapter=str(folder), allow_pickle=True)
    torch.testing.assert_close(token_log_probs(found, IDS)[1:], expected)


def test_every_file_that_is_named_is_declared():
    """Files of libraries by name: a new one needs a record of the types it may hold."""
    folder = Path(model_files.__file__).parent
    own = {"planting.json", "pretraining.json"}
    not_read = {"tekken.json", "modules.json"}  # named in a message; of modules.json strings alone are taken
    named = {
        name
        for file in folder.glob("*.py")
        for name in re.findall(r'"(?:\w+/)?(\w+\.json)"', file.read_text(encoding="utf-8"))
    }
    assert named - own - not_read == {*model_files.SMALL, *model_files.LARGE}

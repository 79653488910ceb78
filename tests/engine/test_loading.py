"""Weights as users keep them: sharded, in half precision, with an adapter on top, quantised."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from fathom.base.errors import BadInput, MissingExtra
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.loading import load
from fathom.engine.models.weights import FastLinear
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from tests.cli.test_cli import gpt2 as gpt2_of_words
from tests.cli.test_cli import save as save_words
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer
from tests.messages import mentions

IDS = [0, 9, 10, 11, 12, 9, 13]


def llama() -> PreTrainedModel:
    return build(
        "LlamaForCausalLM",
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        vocab_size=TINY_VOCABULARY,
    )


def save(network: PreTrainedModel, folder: Path, **options: str) -> str:
    network.save_pretrained(folder, **options)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def test_sharded_safetensors_in_bfloat16(tmp_path: Path) -> None:
    name = save(llama().to(torch.bfloat16), tmp_path / "model", max_shard_size="50KB")
    assert len(list((tmp_path / "model").glob("model-*.safetensors"))) > 2
    rounded = llama()
    with torch.no_grad():
        for weight in rounded.parameters():
            weight.copy_(weight.to(torch.bfloat16))
    # Loaded as float32, the numbers are those of the rounded weights in full precision.
    exact = own_log_probs(rounded, IDS)
    torch.testing.assert_close(token_log_probs(load(name), IDS)[1:], exact, atol=1e-5, rtol=0)
    half = load(name, dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    assert half.identity.dtype == "bfloat16"
    assert (token_log_probs(half, IDS)[1:] - exact).abs().max() < 0.2


@pytest.mark.filterwarnings("ignore:Could not find a config file")  # peft 0.18, of a model in memory
def test_an_adapter_changes_the_scores_as_peft_says(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    name = save(llama(), tmp_path / "model")
    adapted = peft.get_peft_model(llama(), peft.LoraConfig(target_modules=["q_proj", "up_proj"], r=2))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora" in key:
                value.copy_(torch.randn_like(value))
    adapted.save_pretrained(tmp_path / "adapter")
    expected, bare = own_log_probs(adapted, IDS), load(name)
    with warnings.catch_warnings():  # nothing for a user to read
        warnings.simplefilter("error")
        model = load(name, adapter=str(tmp_path / "adapter"))
    torch.testing.assert_close(token_log_probs(model, IDS)[1:], expected, atol=1e-5, rtol=0)
    assert (token_log_probs(bare, IDS)[1:] - expected).abs().max() > 0.1
    assert model.identity.content_hash != bare.identity.content_hash
    assert model.refuses_tree() is None
    with pytest.raises(BadInput, match="load the adapter"):
        load(name, adapter=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("quantised", [{"load_in_8bit": True}, {"load_in_4bit": True}], ids=["8-bit", "4-bit"])
def test_quantised_weights_stay_quantised(tmp_path: Path, quantised: dict[str, bool]) -> None:
    pytest.importorskip("bitsandbytes")
    network = AutoModelForCausalLM.from_pretrained(
        save(llama(), tmp_path / "model"),
        quantization_config=BitsAndBytesConfig(**quantised),
        device_map={"": "cpu"},
    )
    model = load(save(network, tmp_path / "quantised"))
    layer = model.network.model.layers[0].mlp.up_proj
    assert not isinstance(layer, FastLinear)
    assert type(layer).__module__.startswith("bitsandbytes")
    expected = own_log_probs(network, IDS)
    [found] = causal_log_probs(model, [torch.tensor(IDS).numpy()], Budget(None, model.device))
    torch.testing.assert_close(torch.from_numpy(found)[1:], expected, atol=1e-4, rtol=0)
    assert (own_log_probs(llama(), IDS) - expected).abs().max() > 1e-3


def test_an_adapter_given_as_the_model_says_on_what_it_stands(tmp_path):
    from peft import LoraConfig, get_peft_model

    import fathom as package

    base = save_words(tmp_path / "base", gpt2_of_words())
    get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True)
    ).save_pretrained(tmp_path / "adapter")
    asked = {"data": "geography", "templates": 0, "limit": 2, "progress": False}
    found = package.probe("statement", str(tmp_path / "adapter"), out=tmp_path / "run", **asked)
    about = found.folder.manifest["circumstances"]["model"]
    assert about["made_of"] == [str(base), str(tmp_path / "adapter")]
    assert f"weights:{base}" in "".join(found.summary().to_text().split())
    plain = package.probe("statement", str(base), out=tmp_path / "plain", **asked)
    assert "made_of" not in plain.folder.manifest["circumstances"]["model"]
    assert "weights:" not in plain.summary().to_text()


def test_quantised_weights_name_what_loads_them(tmp_path, monkeypatch):
    folder = Path(save(llama(), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("fathom.engine.models.weights.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=mentions("'accelerate'")):
        load(str(folder))


def test_weights_that_do_not_fit_the_device(tmp_path, monkeypatch):
    folder = save(llama(), tmp_path / "model")

    def full(self, device):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    monkeypatch.setattr(PreTrainedModel, "to", full)
    with pytest.raises(BadInput, match=mentions("0.0", "GiB", "--dtype", "bfloat16", "--quantize")):
        load(folder)


CONFIGURATION = """
from transformers import PretrainedConfig

class MineConfig(PretrainedConfig):
    model_type = "mine"

    def __init__(self, vocab_size=64, width=16, **more):
        self.vocab_size, self.width = vocab_size, width
        super().__init__(**more)
"""
MODEL = """
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from .configuration_mine import MineConfig

class Body(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.mix = nn.GRU(config.width, config.width, batch_first=True)

    def forward(self, input_ids=None, **more):
        return (self.mix(self.embed(input_ids))[0],)

class Mine(PreTrainedModel):
    config_class = MineConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = Body(config)
        self.head = nn.Linear(config.width, config.vocab_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def forward(self, input_ids=None, **more):
        return CausalLMOutput(logits=self.head(self.model(input_ids=input_ids)[0]))
"""


def own_class(folder: Path, code: str) -> tuple[str, PreTrainedModel]:
    """A folder with code of its own, and its network."""
    folder.mkdir()
    (folder / "configuration_mine.py").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "modeling_mine.py").write_text(code, encoding="utf-8")
    classes = {"AutoConfig": "configuration_mine.MineConfig", "AutoModelForCausalLM": "modeling_mine.Mine"}
    config = {"model_type": "mine", "vocab_size": TINY_VOCABULARY, "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tiny_tokenizer().save_pretrained(folder)
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(folder, trust_remote_code=True), trust_remote_code=True
    )
    save_file(made.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder), made.eval()


def test_a_class_of_ones_own_is_asked(tmp_path: Path) -> None:
    """It comes with the model, its configuration tells in auto_map alone what it is, its body takes token ids alone."""
    name, network = own_class(tmp_path / "own", MODEL)
    with pytest.raises(BadInput, match=mentions("--trust-remote-code")):
        load(name)
    with pytest.raises(BadInput, match=mentions("AutoModelForSeq2SeqLM", "MineConfig")):
        load(name, trust_remote_code=True, kind="seq2seq")
    model = load(name, trust_remote_code=True)
    expected = own_log_probs(network, IDS)
    torch.testing.assert_close(token_log_probs(model, IDS)[1:], expected, atol=1e-5, rtol=0)
    [found] = causal_log_probs(model, [IDS], Budget(64, model.device))
    torch.testing.assert_close(torch.from_numpy(found[1:]), expected, atol=1e-5, rtol=0)


def test_a_class_whose_states_cannot_be_had_is_told_what_it_lacks(tmp_path: Path) -> None:
    """It has a body, and goes round it: what Fathom would put in its place, the head would not see."""
    nowhere = MODEL.replace("self.model(input_ids=input_ids)[0]", "self.model.mix(self.model.embed(input_ids))[0]")
    name, _ = own_class(tmp_path / "round", nowhere)
    with pytest.raises(BadInput, match=mentions("a Mine", "self.model", "input_ids")):
        load(name, trust_remote_code=True, kind="causal")

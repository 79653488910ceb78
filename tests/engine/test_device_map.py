"""Models that lie on several devices, here in memory and on a disk: the same scores as in one place."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("accelerate", reason="needs the extra device-map")
from accelerate import infer_auto_device_map

import fathom
from fathom.base.errors import BadInput, MissingExtra
from fathom.engine.models import weights
from fathom.engine.models.checks import CACHE, STATES, TREE, check, token_log_probs
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.loading import load
from fathom.engine.models.local import replaced_forward
from fathom.engine.models.weights import FastLinear
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.statements import statement_log_probs, text_likelihoods
from fathom.engine.scoring.tokens import Tokens
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer
from tests.messages import mentions

IDS = [0, 9, 10, 11, 12, 9, 13]
SEQUENCES = [[0, 9, 10, 11], [0, 9, 10, 12, 13], [0, 20], [0, 9, 10, 11, 14, 15, 16]]
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
T5 = {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4, "num_layers": 2}
BUILT = {
    "llama": ("LlamaForCausalLM", SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 64}),
    "tied": ("LlamaForCausalLM", SMALL | {"tie_word_embeddings": True, "max_position_embeddings": 64}),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "mamba": ("MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "bert": ("BertForMaskedLM", SMALL | {"max_position_embeddings": 64}),
    "t5": ("T5ForConditionalGeneration", T5 | {"decoder_start_token_id": 1}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    found = {}
    for name, (kind, options) in BUILT.items():
        folder = tmp_path_factory.mktemp(name)
        build(kind, vocab_size=TINY_VOCABULARY, **options).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        found[name] = str(folder)
    return found


def spread(folder: str):
    """The first layers in memory, the last on the disk."""
    whole = load(folder).network
    size = sum(weight.numel() * 4 for weight in whole.parameters())
    room = {"cpu": int(0.9 * size), "disk": 10 * size}
    places = infer_auto_device_map(whole, room, no_split_module_classes=whole._no_split_modules)
    found = load(folder, device_map=dict(places))
    assert {*found.placement} == {"cpu", "disk"}
    return found


MAPS = {"in part": spread, "whole": lambda folder: load(folder, device_map={"": "disk"})}


@pytest.mark.parametrize("placed", MAPS)
@pytest.mark.parametrize("name", ["llama", "tied", "gpt2", "mamba"])
def test_causal_scores(folders, name, placed):
    """In whatever way it runs, and as often as it is asked; the self-checks run there, too."""
    here, there = load(folders[name]), MAPS[placed](folders[name])
    assert "disk" in there.placement
    assert any(weight.is_meta for weight in there.network.parameters())
    assert there.device == torch.device("cpu")
    assert not any(isinstance(module, FastLinear) for module in there.network.modules())
    assert there.linear_head() is None
    expected = torch.stack([own_log_probs(here.network, IDS)])
    for _ in range(2):
        torch.testing.assert_close(token_log_probs(there, IDS)[None, 1:], expected, atol=1e-5, rtol=1e-5)
    # Why a model refuses (or not) is the same; how far off it was is not to the last digit.
    for path in (TREE, CACHE, STATES):
        assert (check(here, path) is None) == (check(there, path) is None)
    budget = Budget(64, here.device)
    for own, other in zip(
        causal_log_probs(here, SEQUENCES, budget), causal_log_probs(there, SEQUENCES, budget), strict=True
    ):
        np.testing.assert_allclose(own, other, atol=1e-5)
    assert there.generate(["w9 w10"], 3) == here.generate(["w9 w10"], 3)


@pytest.mark.parametrize("placed", MAPS)
def test_masked_scores(folders, placed):
    here, there = load(folders["bert"]), MAPS[placed](folders["bert"])
    roles = np.array([0, 1, 1, 3, 1, 0])
    statement = Tokens(np.array([0, 9, 10, 11, 12, 2]), roles, np.arange(6), 0)
    scores = [
        statement_log_probs(model, [statement], Pll.ORIGINAL, Budget(64, model.device))[0] for model in (here, there)
    ]
    np.testing.assert_allclose(*scores, atol=1e-5)
    vectors = torch.arange(4, 10).view(2, 3)
    at = torch.tensor([[0], [2]])
    found = [model.hidden_at(model.embed(vectors), at) for model in (here, there)]
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_an_encoder_decoder(folders):
    here, there = load(folders["t5"]), spread(folders["t5"])
    assert isinstance(there, EncoderDecoder)
    assert "disk" in there.placement
    ids, read = torch.tensor([IDS]), torch.ones(1, len(IDS), dtype=torch.bool)
    said = [model.decode(model.encode(ids, read), read, ids) for model in (here, there)]
    torch.testing.assert_close(*said, atol=1e-5, rtol=1e-5)


def test_a_hook_outlives_what_stands_in_for_it(folders):
    """What ran once must find its weights again."""
    there = load(folders["llama"], device_map={"": "disk"})
    layer = there.network.lm_head
    before = layer(torch.ones(1, 32))
    with replaced_forward(layer, lambda states: states):
        assert layer(1) == 1
    assert torch.equal(layer(torch.ones(1, 32)), before)


def test_the_probe(folders):
    runs = [
        fathom.probe(
            "statement", model, data="geography", relations=("capital",), limit=3, templates=(0,), progress=False
        )
        for model in (folders["llama"], spread(folders["llama"]))
    ]
    first, second = (run.folder.predictions().to_pylist() for run in runs)
    for own, other in zip(first, second, strict=True):
        np.testing.assert_allclose(own["scores"], other["scores"], atol=1e-4)
    assert runs[1].folder.manifest["circumstances"]["placement"]["disk"] > 0
    assert runs[0].folder.manifest["identity"] | {"model": 0} == runs[1].folder.manifest["identity"] | {"model": 0}
    assert "placement" not in runs[0].folder.manifest["circumstances"]


def test_auto_where_all_fits(folders):
    """As without: the kernels of ours, too."""
    there = load(folders["llama"], device_map="auto")
    assert there.placement is None or torch.cuda.is_available()
    texts = [
        text_likelihoods(model, ["w9 w10 w11"], 0, Budget(64, model.device))
        for model in (load(folders["llama"]), there)
    ]
    assert texts[0][0].log_prob == pytest.approx(texts[1][0].log_prob, abs=1e-5)


def test_the_folder_of_weights_is_removed(folders, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    there = load(folders["llama"], device_map={"": "disk"}, dtype="bfloat16")
    assert token_log_probs(there, IDS)[1:].isfinite().all()
    assert len(list(Path(tmp_path).glob("fathom-weights-*"))) == 1
    del there
    gc.collect()
    assert not list(Path(tmp_path).iterdir())


def test_weights_that_are_no_numbers(folders, tmp_path):
    """Also where they lie on the disk."""
    network = load(folders["llama"]).network
    with torch.no_grad():
        network.model.layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    network.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=mentions("1.mlp.up_proj.weight")):
        load(str(tmp_path), device_map={"": "disk"})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "cpu"}, ["--device cpu"]),
        ({"adapter": "mine", "device": "cpu"}, ["--device cpu", "--adapter mine"]),
    ],
)
def test_options_that_do_not_go_together(folders, options, line):
    with pytest.raises(BadInput, match=mentions("--device-map auto", *line)):
        load(folders["llama"], device_map="auto", **options)
    with pytest.raises(BadInput, match="--device-map auto"):
        fathom.probe("statement", folders["llama"], data="geography", device_map="auto", **options)


def test_accelerate_is_missing(folders, monkeypatch):
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install '.\[device-map\]'"):
        load(folders["llama"], device_map="auto")

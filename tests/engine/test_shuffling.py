"""A run notes that its model finds shuffled tokens of its right prompts as probable as the prompts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import fathom
from fathom.engine.models.loading import load, untrained, wrap
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.seq2seq import Form
from fathom.engine.scoring.statements import GAIN, SHUFFLED, order_gains
from tests.conftest import tiny_tokenizer
from tests.engine.test_precision import statements
from tests.real import real_model
from tests.scripted import ScriptedModel
from tests.zoo import FAMILIES, built

WORDS = ["The", "capital", "of", "France", "is", "Paris"]
FOLLOWS = {before: {after: 1000.0} for before, after in pairwise(WORDS)}


def gains(model, texts, bos=None, form=Form.SPLIT):
    return order_gains(model, texts, bos, form, Budget(None, model.device))


@pytest.mark.parametrize("masked", [False, True])
def test_a_bigram_model_gains_what_its_table_says(masked):
    """A token after its word has log 1000/1000, after another word log 1/1000; only some are after theirs by chance."""
    [gain] = gains(ScriptedModel(WORDS, FOLLOWS, masked=masked), [" ".join(WORDS)])
    assert GAIN < gain <= np.log(1000)
    assert gains(ScriptedModel(WORDS, {}, masked=masked), [" ".join(WORDS)]) == pytest.approx([0])


def test_short_texts_are_left_out_and_long_ones_cut():
    model = ScriptedModel(WORDS, FOLLOWS)
    assert gains(model, ["The capital of"]) == []
    assert gains(model, []) == []
    before = model.tokens_run
    assert len(gains(model, [" ".join(WORDS * 9), " ".join(WORDS * 7)])) == 2
    assert model.tokens_run - before == 2 * 2 * 16


@pytest.mark.parametrize(
    ("family", "form"), [("gpt2", Form.SPLIT), ("bert (masked)", Form.SPLIT), ("bart (pairs)", Form.MASK)]
)
def test_random_weights_gain_nothing(family, form):
    model = wrap(built(family, FAMILIES[family]), tiny_tokenizer())
    texts = [" ".join(f"w{number * shift % 40 + 4}" for number in range(8)) for shift in (3, 5, 7)]
    found = gains(model, texts, None if "(" in family else 0, form)
    assert len(found) == 3
    assert abs(np.mean(found)) < GAIN / 2


def test_a_run_notes_it_once_and_not_of_models_that_fathom_trained(tmp_path):
    network, tokenizer = built("gpt2", FAMILIES["gpt2"]), tiny_tokenizer()
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    asked = {"data": "geography", "templates": 0, "limit": 12, "progress": False}
    found = fathom.probe("statement", str(tmp_path / "model"), out=tmp_path / "run", **asked)
    assert found.folder.manifest["circumstances"]["notes"].count(SHUFFLED) == 1
    assert found.summary().to_text().count(SHUFFLED[:30]) == 1
    (tmp_path / "model" / "planting.json").write_text("{}")
    planted = fathom.probe("statement", str(tmp_path / "model"), out=tmp_path / "planted", **asked)
    assert SHUFFLED not in planted.folder.manifest["circumstances"].get("notes", [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SmolLM2-135M-Instruct", "Gemma-3-270m"])
def test_real_models_read_and_their_broken_copies_do_not(name):
    model, texts = load(str(real_model(name)), device="cpu"), statements()[::41][:4] + statements()[7::41][:4]
    bos = model.tokenizer.bos_token_id
    assert np.mean(gains(model, texts, bos)) > 2 * GAIN
    assert np.mean(gains(untrained(model, 0), texts, bos)) < GAIN / 2
    with torch.no_grad():  # another tokenizer of the same size
        weight = model.network.get_input_embeddings().weight
        weight[:] = weight[torch.randperm(len(weight), generator=torch.Generator().manual_seed(0))]
    assert np.mean(gains(model, texts, bos)) < GAIN

"""Scores against float64, and comparisons with layers that were not exchanged for faster ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from fathom.base.errors import RunFailed
from fathom.data.formats import EMBEDDED
from fathom.engine.models import weights
from fathom.engine.models.base import log_softmax
from fathom.engine.models.checks import PRECISION
from fathom.engine.models.loading import load, wrap
from fathom.engine.models.weights import FastLinear
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.trie import AnswerTrie
from fathom.engine.scoring.walk import SearchGoal, SearchState
from tests.conftest import tiny_tokenizer
from tests.messages import mentions
from tests.real import real_model
from tests.zoo import FAMILIES, built

SEQUENCES = [[0, *range(10, 16), 20 + number] for number in range(6)]


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_original_layers_come_back(family):
    network = built(family, FAMILIES[family])
    expected = {name: type(module) for name, module in network.named_modules()}
    with torch.inference_mode():
        ids = torch.tensor(SEQUENCES)
        logits = network(ids).logits
        model = wrap(network, tiny_tokenizer())
        fast = {name: type(module) for name, module in model.network.named_modules()}
        assert FastLinear in fast.values()
        with model.original_layers():
            assert {name: type(module) for name, module in model.network.named_modules()} == expected
            torch.testing.assert_close(model.network(ids).logits, logits, atol=1e-6, rtol=0)
        assert {name: type(module) for name, module in model.network.named_modules()} == fast


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_wrong_kernel_is_refused_though_all_paths_share_it(family, monkeypatch):
    model = wrap(built(family, FAMILIES[family]), tiny_tokenizer())
    right = weights.linear
    monkeypatch.setattr(weights, "linear", lambda *inputs: right(*inputs) * 1.1)
    with pytest.raises(RunFailed, match=mentions("single sequences")):
        causal_log_probs(model, SEQUENCES, Budget(512, model.device))


def test_log_probabilities_of_a_large_vocabulary():
    """Torch's own are off by 3e-5 here, in the same direction for all tokens."""
    torch.manual_seed(0)
    logits = 3 * torch.randn(4, 262_144)
    off = log_softmax(logits).double() - torch.log_softmax(logits.double(), dim=-1)
    assert off.square().mean().sqrt() < 2e-6


@pytest.mark.parametrize(("lengths", "slack"), [((1, 3), 6 * PRECISION), ((5, 2), 10 * PRECISION)])
def test_the_bound_of_a_search_is_lowered_by_the_precision_of_the_longest_answer(lengths, slack):
    answers = AnswerTrie([list(range(10 * length, 11 * length)) for length in lengths])
    assert SearchState(answers, [0], (), SearchGoal()).slack == pytest.approx(slack)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SmolLM2-135M-Instruct", "Gemma-3-270m"])
def test_scores_of_real_models_are_as_near_to_float64_as_those_of_transformers(name):
    """The loop shares no code with Fathom: a forward pass for each text in float64."""
    folder = str(real_model(name))
    tokenizer = AutoTokenizer.from_pretrained(folder, **in_gguf(folder))
    ids = [[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]] for text in statements()]
    exact, single = (loop(folder, ids, dtype) for dtype in (torch.float64, torch.float32))
    model = load(folder, device="cpu")
    scores = [row[1:] for row in causal_log_probs(model, ids, Budget(None, model.device))]
    off, usual = (np.concatenate(rows) - np.concatenate(exact) for rows in (scores, single))
    assert np.sqrt(np.square(off).mean()) <= 2 * np.sqrt(np.square(usual).mean())
    assert np.abs(off).max() < PRECISION
    order, expected = (np.argsort([row.sum(dtype=np.float64) for row in rows]) for rows in (scores, exact))
    assert order.tolist() == expected.tolist()


def statements() -> list[str]:
    """Return 40 statements of template 0: five subjects, eight answers each."""
    folder = EMBEDDED["geography"]
    [template] = (
        row["templates"][0]
        for row in map(json.loads, (folder / "relations.jsonl").read_text().splitlines())
        if row["relation"] == "capital"
    )
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    facts = [fact for fact in facts if fact["relation"] == "capital"]
    return [
        template.replace("[X]", subject["subject"]).replace("[Y]", answer.get("answer") or answer["answers"][0])
        for subject in facts[:100:20]
        for answer in facts[:80:10]
    ]


def in_gguf(folder: str) -> dict[str, str]:
    """Return how transformers opens a folder with a GGUF file."""
    file = next(Path(folder).glob("*.gguf"), None)
    return {} if file is None else {"gguf_file": file.name}


def loop(folder: str, ids: list[list[int]], dtype: torch.dtype) -> list[np.ndarray]:
    network, rows = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **in_gguf(folder)).eval(), []
    for row in ids:
        with torch.no_grad():
            log_probs = network(torch.tensor([row])).logits[0, :-1].log_softmax(-1)
        rows.append(log_probs.gather(1, torch.tensor(row[1:])[:, None])[:, 0].double().numpy())
    return rows

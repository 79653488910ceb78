"""On every path, a run compares a few of its sequences with the same sequences alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fathom.base.errors import RunFailed
from fathom.engine.models.loading import wrap
from fathom.engine.scoring import causal
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import TOLERANCE, Budget, Evidence
from fathom.probes.run import RunRequest, run
from fathom.store.folder import add_up
from tests.conftest import tiny_tokenizer
from tests.messages import mentions
from tests.probes.test_contract import CASES, KNOWS, WORDS, data, options, scripted  # noqa: F401 # a fixture
from tests.scripted import ScriptedModel
from tests.zoo import FAMILIES, built

PROBES = [
    *((probe, {}) for probe in CASES if probe != "generation"),
    ("statement", {"max_rank": 2}),
    ("statement", {"perplexity": True}),
]


class WrongModel(ScriptedModel):
    """One whose self-checks find nothing, and that is right only in a single sequence under its own mask."""

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        states = super().hidden(vectors, positions, visible)
        return states if len(vectors) == 1 and visible is None else states.roll(1, dims=-1)

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        return super().hidden(vectors)[torch.arange(len(at))[:, None], at].roll(1, dims=-1)

    def grow(self, past, vectors, positions, visible=None):
        return self.hidden(vectors, positions, visible), super().grow(past, vectors, positions, visible)[1]


@pytest.mark.parametrize(("probe", "more"), PROBES)
def test_the_largest_difference_is_recorded(probe, more, data, tmp_path):  # noqa: F811
    folder = run(RunRequest(probe, scripted(probe), data, options(probe, **more)), tmp_path / "run")
    noted = folder.manifest["circumstances"]
    assert noted["compared_sequences"] >= 1
    assert 0 <= noted["largest_difference"] < 1e-5


@pytest.mark.parametrize(("probe", "more"), PROBES)
def test_a_wrong_path_that_no_self_check_finds_is_refused(probe, more, data, tmp_path):  # noqa: F811
    weights = KNOWS | {"Paris": {"Lima": 9.0}, "Rome": {"Lima": 3.0}}  # else all names lead to the same words
    model = WrongModel(WORDS, weights, masked=probe in ("cloze", "ontology"))
    with pytest.raises(RunFailed, match=mentions("scripted", "nats per token", "single sequences", str(TOLERANCE))):
        run(RunRequest(probe, model, data, options(probe, **more)), tmp_path / "run")
    assert not list((tmp_path / "run" / "predictions").glob("*.parquet"))


@pytest.mark.parametrize("path", ["_by_packed_blocks", "by_levels", "_by_plain_batches", "by_cache"])
def test_scores_of_every_causal_path_are_compared(path, monkeypatch):
    """A tenth of a nat too much, in the last token alone."""
    family = {"by_levels": "mamba", "_by_plain_batches": "bloom"}.get(path, "gpt2")
    model = wrap(built(family, FAMILIES[family]), tiny_tokenizer())
    monkeypatch.setattr(
        model, "refuses_states", model.refuses_states if path == "by_levels" else lambda longest=0: "no"
    )
    monkeypatch.setattr(causal, "AGAIN", 0.0 if path == "by_cache" else 9e9)
    if path == "_by_plain_batches":
        monkeypatch.setattr(model, "refuses_tree", lambda longest=0: "no")
    right = getattr(causal, path)

    def wrong(model, texts, budget, vectors, **how):
        scores = right(model, texts, budget, vectors, **how)
        if isinstance(scores, list):
            return [np.append(row[:-1], row[-1] + 0.1) for row in scores]
        scores[texts.depth == texts.depth.max()] += 0.1
        return scores

    sequences = [[0, *range(10, 16), 20 + number] for number in range(6)]
    budget = Budget(512, model.device)
    causal_log_probs(model, sequences, budget)
    assert 0 <= budget.evidence.largest < 1e-5
    assert budget.evidence.sequences == 2
    monkeypatch.setattr(causal, path, wrong)
    with pytest.raises(RunFailed, match=mentions("1.4e-02")):  # a tenth of a nat over seven tokens
        causal_log_probs(model, sequences, Budget(512, model.device))


def test_unscored_tokens_are_not_compared_and_half_precision_rounds():
    evidence, model = Evidence(), scripted("statement")
    evidence.add(model, "a path", np.array([np.nan, 1.0]), np.array([2.0, 1.0 + 5e-5]))
    assert (evidence.sequences, evidence.largest) == (1, pytest.approx(5e-5))
    evidence.add(model, "a path", np.array([np.nan]), np.array([2.0]))
    assert evidence.sequences == 1
    with pytest.raises(RunFailed):
        evidence.add(model, "a path", np.array([1.0]), np.array([1.1]))
    model.identity = replace(model.identity, dtype="bfloat16")
    evidence.add(model, "a path", np.array([1.0]), np.array([1.1]))
    assert evidence.begins(model, "a path")
    assert not evidence.begins(model, "a path")


def test_eight_bits_that_depend_on_the_batch_name_what_works():
    """On real models they change by 0.1 to 0.4 nats, half precision by less than 0.1."""
    evidence, model = Evidence(), scripted("statement")
    model.identity = replace(model.identity, dtype="bitsandbytes 8bit, float32")
    evidence.add(model, "a path", np.array([1.0]), np.array([1.09]))
    with pytest.raises(RunFailed, match=mentions("--quantize 8bit", "4bit", "bfloat16", "--server")):
        evidence.add(model, "a path", np.array([1.0]), np.array([1.11]))


def test_sessions_and_parts_keep_the_largest():
    recorded = {"compared_sequences": 2, "largest_difference": 2e-6}
    add_up(recorded, {"compared_sequences": 3, "largest_difference": 1e-6})
    assert recorded == {"compared_sequences": 5, "largest_difference": 2e-6}

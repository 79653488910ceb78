"""Encoders without a language-model head: the embedding probe takes them, all others refuse them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, BertForMaskedLM

import fathom
from fathom.base.errors import BadInput
from fathom.engine.models.loading import load, load_shape
from fathom.engine.models.local import Encoder
from fathom.engine.models.model_files import content_hash
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.vectors import resolve_pooling, text_vectors
from tests.conftest import TINY_VOCABULARY, build, tiny_tokenizer
from tests.messages import mentions, stated
from tests.real import real_model

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TEXTS = ["w4 w9 w5", "w7", "w8 w8 w4 w5 w6 w9 w7"]


def saved(folder: Path, kind: str, **pooling: bool) -> str:
    network = build(kind, vocab_size=TINY_VOCABULARY, max_position_embeddings=64, **SIZES)
    network.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    if pooling:
        (folder / "1_Pooling").mkdir()
        modes = {f"pooling_mode_{name}": value for name, value in pooling.items()}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **modes}))
    return str(folder)


def plain_states(folder: str, text: str) -> torch.Tensor:
    ids = torch.tensor([tiny_tokenizer()(text).input_ids])
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder)(input_ids=ids)[0][0]


@pytest.mark.parametrize("kind", ["BertModel", "RobertaModel", "BertForSequenceClassification"])
@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token"])
def test_vectors_are_pooled_states_of_the_body(kind: str, pooling: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", kind, **{"cls_token": False, "mean_tokens": False, pooling: True})
    model = load(folder)
    assert isinstance(model, Encoder)
    chosen = resolve_pooling(model, "auto")
    assert chosen == pooling.partition("_")[0]
    found = text_vectors(model, TEXTS, None, chosen, Budget(512, model.device)).vectors
    for text, vector in zip(TEXTS, found, strict=True):
        states = plain_states(folder, text)
        torch.testing.assert_close(vector, states.mean(dim=0) if chosen == "mean" else states[0], rtol=1e-5, atol=1e-5)


def test_the_probe_notes_the_pooling(tmp_path: Path, fathom) -> None:
    folder = saved(tmp_path / "model", "BertModel", cls_token=True)
    command = ("--data", "geography", "--limit", "5", "--out")
    code, printed, said = fathom("probe", "embedding", "--model", folder, *command, tmp_path / "run")
    assert code == 0, said
    assert "pooling cls; the model was trained with cls" in " ".join(printed.split())
    code, printed, said = fathom(
        "probe", "embedding", "--model", folder, "--pooling", "mean", *command, tmp_path / "mean"
    )
    assert code == 0, said
    assert "pooling mean; the model was trained with cls" in " ".join(printed.split())
    code, _, said = fathom("probe", "statement", "--model", folder, *command, tmp_path / "statement")
    assert code == 2
    assert stated(said, "error: ", "no language-model head", "embedding probe")
    assert not (tmp_path / "statement").exists()


def test_without_a_stated_pooling_it_is_the_mean(tmp_path: Path) -> None:
    model = load(saved(tmp_path / "model", "BertModel"))
    assert model.pooling is None
    assert resolve_pooling(model, "auto") == "mean"


def test_a_pooling_that_the_probe_lacks(tmp_path: Path) -> None:
    model = load(saved(tmp_path / "max", "BertModel", max_tokens=True))
    with pytest.raises(BadInput, match=mentions("max_tokens", "--pooling")):
        resolve_pooling(model, "auto")
    assert resolve_pooling(model, "mean") == "mean"
    two = load(saved(tmp_path / "two", "BertModel", mean_tokens=True, cls_token=True))
    with pytest.raises(BadInput, match=mentions("cls", "mean")):
        resolve_pooling(two, "auto")
    folder = tmp_path / "max"
    before = content_hash([str(folder)])
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": "yes"}')
    assert content_hash([str(folder)]) != before
    with pytest.raises(BadInput, match=mentions("1_Pooling/config.json", "pooling_mode_mean_tokens")):
        load(folder)


def test_further_modules_are_named_as_not_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = saved(tmp_path / "model", "BertModel", mean_tokens=True)
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    load(folder)
    assert "Dense" in caplog.text
    assert "Normalize" not in caplog.text


def test_half_a_head_is_no_head(tmp_path: Path) -> None:
    """A body counts as an encoder if the whole head is missing; part of a head would be random."""
    from safetensors.torch import load_file, save_file

    folder = saved(tmp_path / "model", "BertForMaskedLM")
    assert not isinstance(load(folder), Encoder)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    removed = weights.pop("cls.predictions.transform.dense.weight")
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    assert removed.shape == BertForMaskedLM.from_pretrained(folder).cls.predictions.transform.dense.weight.shape
    with pytest.raises(BadInput, match=mentions("cls.predictions.transform.dense.weight")):
        load(folder)


@pytest.mark.parametrize("kind", ["BertModel", "XLMRobertaModel", "BertForSequenceClassification"])
def test_an_estimate_refuses_what_the_run_would(kind: str, tmp_path: Path, fathom) -> None:
    folder = saved(tmp_path / "model", kind)
    assert isinstance(load_shape(folder), Encoder)
    line = "--model", folder, "--data", "geography", "--out", tmp_path / "run", "--dry-run"
    code, _, log = fathom("probe", "statement", *line)
    assert code == 2
    assert "no language-model head" in log


@pytest.mark.slow
def test_a_real_sentence_encoder(tmp_path: Path) -> None:
    """Cosines of a paraphrase and of another sentence, by the body of transformers with the mean of its states."""
    model = load(real_model("all-MiniLM-L6-v2"))
    assert resolve_pooling(model, "auto") == "mean"
    texts = ["Paris is the capital of France.", "The capital of France is Paris.", "Cats sleep for most of the day."]
    rows = text_vectors(model, texts, None, resolve_pooling(model, "auto"), Budget(512, model.device)).vectors
    cosines = torch.nn.functional.cosine_similarity(rows[:1], rows[1:])
    torch.testing.assert_close(cosines, torch.tensor([0.98936, -0.00271]), rtol=0, atol=1e-3)
    result = fathom.probe("embedding", model=model, data="geography", limit=5, out=tmp_path / "run")
    assert result.folder.is_complete()


@pytest.mark.parametrize("inner", ["sub/own.py", "additional_chat_templates/tools.jinja"])
def test_code_and_templates_in_folders_of_a_model_are_of_its_content(tmp_path: Path, inner: str) -> None:
    folder = Path(saved(tmp_path / "model", "BertModel"))
    hashes = {content_hash([str(folder)])}
    (folder / inner).parent.mkdir()
    for text in ("a", "b"):
        (folder / inner).write_text(text)
        hashes.add(content_hash([str(folder)]))
    assert len(hashes) == 3

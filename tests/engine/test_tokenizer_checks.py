"""Tokenizers that belong to a model, and those of others."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.fetch_model import packaged_models
from fathom.engine.models.loading import load, load_shape
from fathom.engine.models.parts import LEAST_COVERED, PADDING, check_ids, check_same_ids, load_tokenizer
from fathom.training.small import learn_tokenizer
from tests import conftest
from tests.conftest import build
from tests.messages import mentions
from tests.real import real_model

WORDS = "Peru Chad Lima Paris The capital of is in a town by the sea, said 1998 and 12 or 85 Asia Europe Africa"


def saved_tokenizer(folder: Path, words: str = WORDS, size: int = 320) -> PreTrainedTokenizerFast:
    tokenizer = learn_tokenizer([words] * 3, size, "causal")
    tokenizer.save_pretrained(folder)
    return tokenizer


def saved_model(folder: Path, rows: int) -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    build("LlamaForCausalLM", vocab_size=rows, max_position_embeddings=64, **sizes).save_pretrained(folder)


def test_a_tokenizer_with_other_ids(tmp_path: Path) -> None:
    original = saved_tokenizer(tmp_path / "model")
    saved_tokenizer(tmp_path / "other", WORDS[::-1])
    saved_model(tmp_path / "model", len(original))
    for opened in (load, load_shape):
        assert opened(str(tmp_path / "model")).vocabulary_size == len(original)
        with pytest.raises(BadInput, match=mentions("other", "model", f"{len(original):,}", "expected")):
            opened(str(tmp_path / "model"), tokenizer=str(tmp_path / "other"))


def test_a_tokenizer_with_added_and_renamed_tokens(tmp_path: Path) -> None:
    original = saved_tokenizer(tmp_path / "model")
    saved_model(tmp_path / "model", len(original) + 8)
    original.add_tokens(["new1", "new2"])
    original.save_pretrained(tmp_path / "more")
    model = load(tmp_path / "model", tokenizer=str(tmp_path / "more"))
    assert model.tokenizer.convert_tokens_to_ids("new2") == len(original) - 1


def test_one_token_in_fifty_with_another_id(tmp_path: Path) -> None:
    """Two tokens of 300 may differ, as of renamed special tokens; six may not."""
    expected = {f"w{number}": number for number in range(300)}

    class Vocabulary:
        def __init__(self, moved: int) -> None:
            self.moved = moved

        def get_vocab(self) -> dict[str, int]:
            return {word: id_ + 1000 * (id_ < self.moved) for word, id_ in expected.items()}

    check_same_ids(Vocabulary(2), Vocabulary(0), "other", "model")
    with pytest.raises(BadInput, match=mentions("6", "300", "'w0'", "1000")):
        check_same_ids(Vocabulary(6), Vocabulary(0), "other", "model")


def test_embeddings_without_a_token(tmp_path: Path) -> None:
    """Rows may be rounded up to a multiple of 256, and a tenth of them may be spare."""
    tokenizer = saved_tokenizer(tmp_path / "tokenizer")
    tokens = len(tokenizer)
    check_ids(tokens + 255, tokenizer, "padded")
    with pytest.raises(BadInput, match=mentions("padded", f"{tokens:,}", "1,000")):
        check_ids(1000, tokenizer, "padded")
    with pytest.raises(BadInput, match=mentions("few", f"{tokens - 1:,}")):
        check_ids(tokens - 1, tokenizer, "few")
    saved_model(tmp_path / "model", 1000)
    with pytest.raises(BadInput, match=mentions("1,000", "not of one model")):
        load(tmp_path / "model", tokenizer=str(tmp_path / "tokenizer"))


EMBEDDINGS = {
    "SmolLM2-135M-Instruct": 49_152, "Gemma-3-270m": 262_144, "all-MiniLM-L6-v2": 30_522,
    "gpt2": 50_257, "roberta": 50_265, "bert_cased": 28_996, "neox": 50_432,
    "llama2": 32_000, "llama3_1": 128_256, "qwen3": 151_936, "deepseek_v3": 129_280, "gptoss": 201_088,
}  # fmt: skip
"""Embeddings of twelve published models. BERT without capitals has the tokenizer of all-MiniLM-L6-v2."""
MORE = "FATHOM_TOKENIZERS"
"""Environment: a folder with the tokenizers of the last line."""


def real_tokenizer(name: str, data: Path) -> Any:
    """Return the tokenizer of a published model, None if it is not here."""
    if name in packaged_models():
        return load_tokenizer(str(real_model(name)))
    if load := getattr(conftest, f"load_{name}", None):
        return load(data)
    folder = Path(os.environ.get(MORE, ""), name)
    return load_tokenizer(str(folder)) if MORE in os.environ and folder.is_dir() else None


@pytest.mark.slow
def test_real_tokenizers_exchanged(shared_data: Path) -> None:
    """Each is refused with any other model, by its ids, or by its size if it is much smaller; none with its own."""
    known = {name: tokenizer for name in EMBEDDINGS if (tokenizer := real_tokenizer(name, shared_data)) is not None}
    assert len(known) >= 7
    for name, tokenizer in known.items():
        check_ids(EMBEDDINGS[name], tokenizer, name)
        check_same_ids(tokenizer, tokenizer, name, name)
    for (name, tokenizer), (model, original) in permutations(known.items(), 2):
        with pytest.raises(BadInput, match=mentions(name, model)):
            check_same_ids(tokenizer, original, name, model)
        if len(tokenizer) < LEAST_COVERED * EMBEDDINGS[model] - PADDING:
            with pytest.raises(BadInput, match=mentions(name)):
                check_ids(EMBEDDINGS[model], tokenizer, name)

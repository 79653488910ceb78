"""Tokenizers that belong to a model, and those of others."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from fathom.errors import BadInput
from fathom.models.loading import load, load_shape
from fathom.models.parts import load_tokenizer
from fathom.models.tokenizer_checks import check_ids, check_same_ids
from fathom.training.small import learn_tokenizer
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


@pytest.mark.slow
def test_real_tokenizers_exchanged() -> None:
    names = ("SmolLM2-135M-Instruct", "Gemma-3-270m", "all-MiniLM-L6-v2")
    tokenizers = {name: load_tokenizer(str(real_model(name))) for name in names}
    for name, tokenizer in tokenizers.items():
        check_ids(len(tokenizer), tokenizer, name)
        check_same_ids(tokenizer, tokenizer, name, name)
    for (name, tokenizer), (model, original) in permutations(tokenizers.items(), 2):
        with pytest.raises(BadInput, match=mentions(name, model)):
            check_same_ids(tokenizer, original, name, model)
        with pytest.raises(BadInput, match=mentions(name)):
            check_ids(len(original), tokenizer, name)

"""A small model on disk, whose files the tests of bad input change."""

from __future__ import annotations

import pytest

from tests.conftest import build, tiny_tokenizer

SHAPE = {"vocab_size": 509, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 64}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    build("GPT2LMHeadModel", **SHAPE).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder

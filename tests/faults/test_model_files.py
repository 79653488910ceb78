"""Values of wrong types in the files of a model: one line that names the file and what was expected."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from tests.messages import mentioned

CHANGES = [
    ("config.json", {"architectures": 5}, "list of class names, found 5"),
    ("config.json", {"architectures": [["GPT2LMHeadModel"]]}, "list of class names, found [['GPT2LMHeadModel']]"),
    ("config.json", {"model_type": ["gpt2"]}, "string, found ['gpt2']"),
    ("config.json", {"n_head": "two"}, "'two'"),
    ("config.json", {"auto_map": 5}, "object {…}, found 5"),
    ("config.json", {"quantization_config": "4bit"}, "object {…}, found '4bit'"),
    ("config.json", {"quantization_config": {"quant_method": ["x"]}}, "quant_method"),
    ("config.json", {"quantization_config": {"llm_int8_skip_modules": ["(([a-z_]+)*[a-z]+)*!"]}}, "must match pattern"),
    ("config.json", {"quantization_config": {"modules_to_not_convert": ["(a+)+$"]}}, "must match pattern"),
    ("tokenizer_config.json", {"chat_template": 5}, "text, or a list of objects with name and template, found 5"),
    ("tokenizer_config.json", {"chat_template": [{"name": "x"}]}, "chat_template"),
    ("tokenizer_config.json", {"model_max_length": [1]}, "model_max_length must be a number, found [1]"),
    ("tokenizer_config.json", {"mask_token": 5}, "mask_token must be text or an object {…}, found 5"),
    ("tokenizer_config.json", {"tokenizer_class": {"a": 1}}, "tokenizer_class"),
    ("tokenizer.json", {"added_tokens": 5}, "added_tokens"),
    ("tokenizer.json", {"added_tokens": [5]}, "added_tokens.0"),
    ("tokenizer.json", {"model": 5}, "model"),
    ("tokenizer.json", {"normalizer": 5}, "Normalizer"),
]


def evaluated(fathom, folder, out):
    code, _, err = fathom("probe", "statement", "--model", folder, "--data", "geography", "--limit", 3, "--out", out)
    assert err.count("\n") == 1, err
    return code, err


@pytest.mark.parametrize(("file", "change", "expected"), CHANGES)
def test_a_value_of_a_wrong_type_is_named(model, fathom, tmp_path, file, change, expected):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_text(json.dumps(json.loads((model / file).read_text()) | change))
    code, err = evaluated(fathom, tmp_path, tmp_path / "run")
    assert code == 2
    assert mentioned(err, str(tmp_path), file, expected)
    assert "unexpected" not in err


def test_a_tokenizer_without_its_unknown_token(model, fathom, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    words = Tokenizer(WordLevel({"is": 0, "of": 1, "the": 2}, unk_token="none"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)
    code, err = evaluated(fathom, tmp_path, tmp_path / "run")
    assert code == 2
    assert mentioned(err, "tokenizer.json", "unk_token")


def test_a_vocabulary_beyond_the_embeddings(model, fathom, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((model / "tokenizer.json").read_text())
    content["model"]["vocab"]["w9"] = 1_000_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    code, err = evaluated(fathom, tmp_path, tmp_path / "run")
    assert code == 2
    assert mentioned(err, "1,000,000", "509 embeddings")


def test_a_pattern_of_a_tokenizer_that_fails_on_a_text_is_named(model, fathom, tmp_path):
    """The library panics, which is no Exception."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    content = json.loads((folder / "tokenizer.json").read_text())
    split = {"type": "Split", "pattern": {"Regex": "([a-z]+|[a-z ]+)+[0-9]!$"}, "behavior": "Isolated", "invert": False}
    (folder / "tokenizer.json").write_text(json.dumps(content | {"pre_tokenizer": split}))
    line = ["probe", "statement", "--model", folder, "--data", "geography", "--limit", 3, "--templates", 0]
    code, _, err = fathom(*line, "--out", tmp_path / "run")
    assert code == 2, err
    [said] = [text for text in err.splitlines() if text.startswith("error: ")]
    assert mentioned(said, str(folder), "tokenizer.json", "Regex search error")

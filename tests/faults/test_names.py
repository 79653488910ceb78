"""Names of files and folders that are not UTF-8, which no manifest, table or report can state."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import fathom as library
from fathom.base.errors import BadInput
from fathom.data import formats
from tests.conftest import build, tiny_tokenizer
from tests.messages import mentions
from tests.store.test_foreign_files import DATA

NAME = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("arguments", [
    ("data", "check", NAME),
    ("data", "info", NAME),
    ("probe", "statement", "--model", NAME, "--data", "geography", "--out", "run"),
    ("probe", "statement", "--model", "gpt2", "--data", NAME, "--out", "run"),
    ("probe", "statement", "--model", "gpt2", "--data", "geography", "--out", NAME),
    ("metrics", NAME),
    ("report", "run", "-o", NAME),
])  # fmt: skip
def test_a_word_that_is_not_utf8(fathom, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    code, out, err = fathom(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'caf\ufffd' is not UTF-8" in err


def test_names_in_python(tmp_path):
    shutil.copytree(Path(formats.EMBEDDED["geography"]), tmp_path / NAME)
    with pytest.raises(BadInput, match="not UTF-8"):
        formats.read(tmp_path / NAME)


def test_a_file_in_a_folder(tmp_path):
    for name, text in DATA["native"].items():
        (tmp_path / name).write_text(text)
    (tmp_path / "facts.jsonl").rename(tmp_path / f"facts-{NAME}.jsonl")
    with pytest.raises(BadInput):
        formats.read(tmp_path)


def test_a_file_in_a_models_folder(tmp_path):
    build("GPT2LMHeadModel", vocab_size=509, n_embd=8, n_layer=1, n_head=2, n_positions=64).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / f"{NAME}.json").write_text("{}")
    with pytest.raises(BadInput, match=mentions("caf\ufffd.json", "not UTF-8")):
        library.load_model(str(tmp_path))

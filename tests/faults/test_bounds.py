"""Input beyond each bound is refused before the work, in one line that states the bound."""

from __future__ import annotations

import io
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fathom.base import reading
from fathom.base.errors import BadInput, FathomError
from fathom.base.reading import bounds
from fathom.base.reading.archives import unpack
from fathom.base.reading.replies import ReplyFault, whole_reply
from fathom.data.formats import read
from fathom.engine.models.chat import ChatTemplate
from fathom.engine.models.model_files import size_faults
from fathom.store.files import make_folder
from fathom.store.journal import Journal
from fathom.training.saving import published_tensors
from fathom_build.cloze.documents import Hypertext, Jats, UnreadableDocument
from tests.conftest import tiny_tokenizer
from tests.data.test_fetch import zipped
from tests.faults.test_model_files import evaluated
from tests.messages import mentioned


def written(path, content):
    path.write_text(content) if isinstance(content, str) else path.write_bytes(content)
    return path


def table_of(path, rows):
    pq.write_table(pa.table({"a": pa.array([1] * rows)}), path)
    return path


def facts_in(folder, subject, template):
    fact = {"subject": subject, "relation": "is", "answer": "yes"}
    written(folder / "facts.jsonl", json.dumps(fact))
    written(folder / "relations.jsonl", json.dumps({"relation": "is", "templates": [template]}))
    return folder


def weights_in(path):
    torch.save({"model": {"a": torch.zeros(9)}}, path)
    return path


def sized(name):
    return lambda folder: reading.Faults().found or _refuse(size_faults(folder / "config.json", {name: 10**9}))


def _refuse(faults):
    raise BadInput(faults)


def chatting():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "word " * 10 + "{% for message in messages %}{{ message.content }}{% endfor %}"
    return ChatTemplate(tokenizer)


SMALL = 5
EXCEEDED = {
    bounds.LINE: lambda folder: list(reading.text_lines(written(folder / "a", "x" * 9))),
    bounds.TEXT: lambda folder: reading.read_text(written(folder / "a", "x" * 9)),
    bounds.OPTIONS: lambda folder: reading.yaml_file(written(folder / "a", "a: [1, 2]")),
    bounds.NODES: lambda folder: reading.yaml_file(written(folder / "a", "[1, 2, 3, 4, 5, 6]")),
    bounds.DEPTH: lambda folder: reading.json_file(written(folder / "a", "[" * 120 + "]" * 120)),
    bounds.FOLDERS: lambda folder: make_folder(folder / "a/b/c/d/e"),
    bounds.ROWS: lambda folder: reading.parquet_file(table_of(folder / "a", 9)),
    bounds.MEMBERS: lambda folder: unpack(written(folder / "a", zipped(dict.fromkeys("abcdef", b""))), folder / "out"),
    bounds.REPLY: lambda folder: whole_reply([b"123", b"456"]),
    bounds.JOURNAL: lambda folder: Journal(written(folder / "a", "x" * 9)),
    bounds.CHECKPOINT: lambda folder: published_tensors(weights_in(folder / "a"), "weights"),
    bounds.DOCUMENT: lambda folder: _refuse(
        [unit.fault for unit in Hypertext("a", "utf-8").units(io.BytesIO(b"x" * 9))]
    ),
    bounds.ARTICLES: lambda folder: list(Jats("a", titles=True).units(io.BytesIO(b"x" * 9))),
    bounds.NAME: lambda folder: read(facts_in(folder, "x" * 9, "[X]:[Y]")),
    bounds.PROMPT: lambda folder: read(facts_in(folder, "x", "[X] is [Y]")),
    bounds.CHAT: lambda folder: chatting(),
    bounds.LAYERS: sized("num_hidden_layers"),
    bounds.WIDTH: sized("hidden_size"),
    bounds.HEADS: sized("num_attention_heads"),
    bounds.INNER: sized("intermediate_size"),
    bounds.TOKENS: sized("vocab_size"),
    bounds.LABELS: sized("num_labels"),
}
ELSEWHERE = {
    bounds.DOWNLOAD: "tests/data/test_fetch.py",
    bounds.SILENCE: "a timeout",
    bounds.WAIT: "tests/data/test_fetch.py",
}


def test_every_bound_has_a_case():
    assert set(bounds.BOUNDS) - {bounds.GROWS_FREELY} == {*EXCEEDED, *ELSEWHERE}


@pytest.mark.parametrize("bound", EXCEEDED, ids=lambda bound: bound.of)
def test_what_exceeds_a_bound_is_refused(bound, tmp_path, monkeypatch):
    if bound is not bounds.DEPTH:
        monkeypatch.setattr(bound, "most", SMALL)
    with pytest.raises((FathomError, ReplyFault, UnreadableDocument)) as caught:
        EXCEEDED[bound](tmp_path)
    assert mentioned(str(caught.value), str(bound.most))


def test_a_table_of_one_value_repeated(fathom, tmp_path):
    """Twenty million rows in a few kilobytes."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), pa.array(["France"]))
    table = pa.table({name: pa.chunked_array([column] * 20) for name in ("subject", "relation", "answer")})
    pq.write_table(table, tmp_path / "facts.parquet")
    written(tmp_path / "relations.jsonl", json.dumps({"relation": "France", "templates": ["[X] is [Y]"]}))
    began = time.monotonic()
    code, _, err = fathom("data", "check", tmp_path)
    assert (code, time.monotonic() - began < 5) == (2, True)
    assert mentioned(err, "facts.parquet", "20,000,000 rows of 3 columns", "300 times its size")


def test_a_template_of_a_megabyte(fathom, tmp_path):
    code, _, err = fathom("data", "check", facts_in(tmp_path, "France", "[X] " + "word " * 200_000 + "[Y]"))
    assert (code, err.count("\n")) == (2, 1)
    assert mentioned(err, "relations.jsonl:1", "100,000 characters")


@pytest.mark.parametrize("change", [
    {"num_labels": 100_000_000}, {"text_config": {"num_labels": 100_000_000}}, {"n_layer": 100_000_000},
    {"n_embd": 999_999}, {"vocab_size": 90_000_000}, {"n_inner": 10_000_000},
], ids=str)  # fmt: skip
def test_sizes_that_no_weights_have(model, fathom, tmp_path, change):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(json.loads((model / "config.json").read_text()) | change))
    began = time.monotonic()
    code, err = evaluated(fathom, tmp_path, tmp_path / "run")
    assert (code, time.monotonic() - began < 10) == (2, True)
    assert mentioned(err, "config.json")

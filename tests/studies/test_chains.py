"""Chains of several facts: the command, and the numbers by hand. Who follows: ``tests/studies/test_reasoning.py``."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.prompts.alterations import MIDDLE_MISSING, WHOLE
from fathom.results.samples import Origin
from fathom.store.folder import RunFolder
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning import chains
from tests.conftest import build, save_llama
from tests.messages import mentioned, mentions
from tests.probes.test_entailment_causal import byte_level, causal
from tests.reasoners import KINDS, write_things


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    return write_things(tmp_path_factory.mktemp("things"))


TEXTS = 8 * 2 * (51 + (1 + 1 + 2 + 6 + 5 * 2 * 6 + 2 * 6 + 5 * 6 + 6) + 2 * (3 + 2) + 3 + 6)
"""Of eight items and two pairs: one fact, and two facts with each of five texts of a fact in six orders, and so on;
further versions of texts with other names."""


def test_a_causal_model_and_the_command(things, tmp_path, fathom):
    tokenizer = byte_level([f"thing{number} is a {KINDS[number % 12]} ." for number in range(120)])
    model = causal("GPT2LMHeadModel", tokenizer)
    options = ChainStudyOptions(rules=("rdfs9", "rdfs11"), depth=2, forms=("plain",), limit=4, untrained=0)
    found = chains.analyse(
        [("gpt2", lambda: model)], things, options, tmp_path / "a", lambda name: lambda done, total: None
    )
    assert {line["depth"] for line in found.lines} == {1, 2}
    with pytest.raises(BadInput, match=mentions("rdfs2", "domain", "0 items")):
        chains.analyse([("gpt2", lambda: model)], things, ChainStudyOptions(rules=("rdfs2",)), tmp_path, print)
    saved = tmp_path / "saved"
    tokenizer.save_pretrained(saved)
    build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=2).save_pretrained(saved)
    given = ["study", "chains", "--model", saved, "--data", things, "--rules", "rdfs9", "--depth", "2", "--limit", "8"]
    whole = [*given, "--forms", "plain", "--untrained", "0", "--out", tmp_path / "b"]
    code, out, error = fathom(*whole, "--dry-run", "--format", "json")
    assert code == 0, error
    assert estimated(out) == {"saved/arguments": TEXTS}
    assert not (tmp_path / "b").exists()
    code, out, error = fathom(*whole)
    assert code == 0, error
    assert len(RunFolder.open(tmp_path / "b" / "saved" / "arguments").queries()) == TEXTS
    assert "does it reason?" in out
    assert (tmp_path / "b" / "chains-saved-rdfs9.png").exists()
    code, _, error = fathom(*given, "--pairs", "1", "--out", tmp_path / "c")
    assert code == 2
    assert "--pairs" in error
    code, _, error = fathom(*given, "--options", "4", "--out", tmp_path / "d")
    assert code == 2
    assert mentioned(error, "--model saved", "--options")
    code, _, error = fathom(*given, "--forms", "plain,nope", "--out", tmp_path / "e")
    assert code == 2
    assert mentioned(error, "error: --forms: ", "plain, paraphrased or shuffled", "'nope'")


def test_an_estimate_counts_every_item_that_may_have_texts(things, tmp_path, fathom):
    """With each of two pairs, one of nine items is in neither half of P1, and one of P2: neither has its four texts."""
    tokenizer = byte_level([f"thing{number} is a {KINDS[number % 12]} ." for number in range(120)])
    saved = save_llama(tmp_path / "saved", tokenizer, hidden_size=32, intermediate_size=32)
    given = ["study", "entailment", "--model", saved, "--data", things, "--rules", "9", "--limit", "9", "--pairs", "2"]
    code, out, error = fathom(*given, "--out", tmp_path / "a", "--dry-run", "--format", "json")
    assert code == 0, error
    code, _, error = fathom(*given, "--out", tmp_path / "a")
    assert code == 0, error
    runs = sorted(file.parent for file in (tmp_path / "a").rglob("manifest.json"))
    made = {str(run.relative_to(tmp_path / "a")): len(RunFolder.open(run).queries()) for run in runs}
    bound = estimated(out)
    assert (most := bound.pop("saved/words")) == 9 * 4 * 2
    assert most - 2 * 2 * 4 <= made.pop("saved/words") <= most - 2 * 4
    assert bound == made
    code, out, error = fathom(*given, "--out", tmp_path / "a", "--dry-run")
    assert mentioned(out, "5 of 5 runs finished", "an upper bound")


def estimated(printed: str) -> dict[str, int]:
    """The number of queries of each run in an estimate."""
    return {row["run"]: row["queries"] for row in next(iter(json.loads(printed).values()))}


# --- numbers by hand


class _Rows:
    """1 / rank of texts about two steps of rdfs9, each with form, text, item and pair."""

    def __init__(self, *texts):
        names = ("form", "given", "item", "pair")
        self.groups = [dict(zip(names, own, strict=True)) | {"rule": "rdfs9", "depth": "2"} for *own, _ in texts]
        self.values = np.array([value for *_, value in texts])
        self.query, self.scored = np.arange(len(texts)), np.ones(len(texts), dtype=bool)

    def origin(self, query):
        return Origin("item", self.groups[query]["item"], "rdfs9", self.groups[query]["item"])


def test_a_line_by_hand(monkeypatch):
    monkeypatch.setattr(chains, "recipe_of", lambda rows: "MRR")
    monkeypatch.setattr(chains, "_values", lambda rows: rows.values)
    rows = _Rows(
        ("plain", WHOLE, "a", "0", 0.5), ("plain", WHOLE, "a", "1", 0.5), ("plain", WHOLE, "c", "0", 1.0),
        ("shuffled", WHOLE, "a", "0", 1.0), ("shuffled", WHOLE, "a", "1", 0.5), ("shuffled", WHOLE, "b", "0", 0.25),
        ("shuffled", MIDDLE_MISSING, "a", "0", 0.25), ("shuffled", MIDDLE_MISSING, "b", "0", 0.75),
    )  # fmt: skip
    first, line = chains._lines("m", rows, "plain")
    assert line["items"] == 2, "not three texts"
    assert line["whole"].value == pytest.approx((1.0 + 0.5 + 0.25) / 3)
    assert line["best altered"].value == pytest.approx(0.5)
    assert line["less the first form"].value == pytest.approx((1.0 + 0.5) / 2 - 0.5), (
        "of the items of both, shuffled less plain"
    )
    assert (first["less the first form"], first["items"], first["best altered"]) == (None, 2, None)


def test_how_far_below_the_best_by_hand():
    """Of 11 candidates, two of which are taken out, the one that is asked for has 8 others: fifth is half way down. Who
    chose it is at 0, who chose another at 1."""
    rank = np.array([1.0, 5.0, 9.0, np.nan, np.nan])
    rows = SimpleNamespace(
        number_of_candidates=np.full(5, 11), filtered=[2, 0], query=np.zeros(5, dtype=int), rank=rank,
        correct=np.array([np.nan, np.nan, np.nan, 1.0, 0.0]),
    )  # fmt: skip
    assert chains._below(rows).tolist() == [0, 0.5, 1, 0, 1]

"""``--keep-tokens``: the log-probabilities of tokens add up to the recorded scores, and are those of the plain path."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

import fathom as package
from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Span, Template
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.loading import wrap
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.tokens import Role, encode_causal, encode_masked, token_texts
from fathom.probes.run import RunRequest, run
from fathom.results.rows import Rows
from fathom.studies.report.evidence import NOT_SCORED, Evidence
from tests.conftest import build, write_graph_folder
from tests.messages import mentions
from tests.probes.test_contract import data, model, options, rows_of  # noqa: F401 # fixtures

EVERY = {"reduction": ("sum", "mean"), "score": ("full", "conditional", "answer")}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128, "bos_token_id": 50256, "eos_token_id": 50256}
BERT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def causal(gpt2: PreTrainedTokenizerBase) -> LocalModel | EncoderDecoder:
    return wrap(build("GPT2LMHeadModel", vocab_size=len(gpt2), **GPT2), gpt2)


@pytest.fixture(scope="module")
def masked(bert_uncased: PreTrainedTokenizerBase) -> LocalModel | EncoderDecoder:
    return wrap(build("BertForMaskedLM", vocab_size=len(bert_uncased), **BERT), bert_uncased)


def kept(made: package.Result) -> list[dict[str, Any]]:
    """The scored predictions, checked: each statement's tokens add up to the score of its answer."""
    rows = [row for row in made.table().to_pylist() if row["unscored"] is None]
    for row in rows:
        best = int(np.argmax(row["gold_scores"]))
        scores = {row["gold"][best]: row["gold_scores"][best]}
        scores |= dict(zip(row["top_ids"][:1], row["top_scores"][:1], strict=True))
        assert [own["id"] for own in row["token_log_probs"]] == list(scores)
        for own in row["token_log_probs"]:
            counted = [value for value in own["log_probs"] if value is not None]
            total = sum(counted) / (len(counted) if row["scoring"].startswith("mean") else 1)
            assert total == pytest.approx(scores[own["id"]], abs=1e-5)
            assert len(own["tokens"]) == len(own["log_probs"])
    return rows


def test_tokens_of_a_causal_model_are_those_of_the_plain_path(causal, tmp_path):
    made = package.probe("statement", causal, "geography", tmp_path / "r", limit=12, keep_tokens=True, **EVERY)
    rows = kept(made)
    assert len({row["template"] for row in rows}) > 1
    for row in (row for row in rows if row["scoring"] == "sum/full"):
        for own in row["token_log_probs"]:
            text = "".join(own["tokens"])
            assert text.casefold() == row["prompt"].replace("[Y]", text_between(text, row["prompt"])).casefold()
            [tokens] = encode_causal(causal.tokenizer, [Prompt(text, (), ())], causal.tokenizer.bos_token_id)
            plain = token_log_probs(causal, tokens.ids.tolist())[1:].detach().numpy()
            np.testing.assert_allclose(own["log_probs"], plain, atol=1e-5)


def text_between(text: str, prompt: str) -> str:
    before, after = prompt.split("[Y]")
    return text[len(before) : len(text) - len(after)]


@pytest.mark.parametrize("pll", ["original", "within-word-l2r"])
def test_tokens_of_a_masked_model_add_up(masked, pll, tmp_path):
    """In the original variant each is the token's probability given all others: one pass by hand for each."""
    chosen = {"limit": 6, "templates": 0, "pll": pll, "keep_tokens": True, **EVERY}
    rows = kept(package.probe("statement", masked, "geography", tmp_path / "r", **chosen))
    assert {value is None for row in rows for own in row["token_log_probs"] for value in own["log_probs"]} == {0, 1}
    for row in (row for row in rows if row["scoring"] == "sum/full" and pll == "original"):
        [own, *_] = row["token_log_probs"]
        ids = masked.tokenizer("".join(own["tokens"]), return_tensors="pt")["input_ids"]
        for place, value in enumerate(own["log_probs"], start=1):
            hidden = ids.clone()
            hidden[0, place] = masked.tokenizer.mask_token_id
            states = masked.hidden(masked.embed(hidden))[0, place : place + 1]
            alone = torch.log_softmax(masked.logits(states), dim=-1)[0, ids[0, place]]
            assert value == pytest.approx(float(alone), abs=1e-5)


@pytest.mark.parametrize("more", [{"max_rank": 3}, {"top_k": 0}, {"bos": "none"}])
def test_tokens_add_up_with_other_options(causal, more, tmp_path):
    """A search scores the statements to keep once more; without a list of the best, the gold answer's are kept."""
    kept(package.probe("statement", causal, "geography", tmp_path / "r", limit=6, keep_tokens=True, **EVERY, **more))


def test_few_shot_prompts_keep_tokens(causal, tmp_path):
    names = [f"e{number}\tentity {number}\ttext" for number in range(6)]
    triples = {
        "train": [f"e{number}\tr\te{number + 1}" for number in range(4)],
        "dev": ["e4\tr\te0"],
        "test": ["e5\tr\te0"],
    }
    source = write_graph_folder(tmp_path / "graph", triples, names, "r\tnext to\n")
    [row, *_] = kept(package.probe("statement", causal, source, tmp_path / "r", shots=2, keep_tokens=True))
    assert "".join(row["token_log_probs"][0]["tokens"]).startswith("(entity")


@pytest.mark.parametrize("form", ["sentinel", "mask", "split"])
def test_an_encoder_decoder_keeps_tokens_of_its_target(form, tmp_path):
    from tests.engine.test_seq2seq import network, tokenizer

    own = wrap(network("T5ForConditionalGeneration"), tokenizer())
    space = CandidateSet("all", ("e", "f"), ("e b", "f b"))
    queries = tuple(Query(own, "P1", own, own, (own,), "all") for own in "ef")
    letters = QuerySet(
        "letters", queries, {"all": space}, {"P1": Relation("P1", "P1", (Template("[X] c [Y] d"),), "1:1")}
    )
    rows = kept(package.probe("statement", own, letters, tmp_path / "r", form=form, keep_tokens=True, capitalize=False))
    expected = {"sentinel": ["e", " b", "<extra_id_1>"], "split": ["e", " b", " d"]}
    expected["mask"] = ["e", " c", " e", " b", " d"]
    assert rows[0]["token_log_probs"][0]["tokens"] == expected[form]


def test_without_the_option_nothing_else_differs(model, data, tmp_path):  # noqa: F811
    plain = run(RunRequest("statement", model, data, options("statement")), tmp_path / "a")
    more = run(RunRequest("statement", model, data, options("statement", keep_tokens=True)), tmp_path / "b")
    column = "token_log_probs"
    assert more.predictions().drop_columns([column]).equals(plain.predictions().drop_columns([column]))
    assert plain.predictions().column(column).null_count == len(plain.predictions())
    assert Rows(plain).declared.options == Rows(more).declared.options, "recipes are the same"
    row = rows_of(more)["capital/0", 0, "sum/full"]
    assert row[column][0]["tokens"] == ["The", " capital", " of", " France", " is", " Paris", "."]
    expected = [math.log(own) for own in (1 / 16, 1 / 16, 1 / 16, 1 / 16, 2 / 17, 4 / 21, 1 / 16)]
    assert row[column][0]["log_probs"] == pytest.approx(expected, abs=1e-6)
    answer = rows_of(more)["capital/0", 0, "sum/answer"][column][0]["log_probs"]
    assert answer == [None] * 5 + [pytest.approx(math.log(4 / 21)), None]
    assert rows_of(more)["capital/3", 0, "sum/full"][column] is None, "an unscored prediction"


def test_a_run_keeps_tokens_of_all_predictions_or_of_none(model, data, tmp_path):  # noqa: F811
    """A run resumed with the option would have tokens of some shards only, and of a finished run none."""
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    with pytest.raises(BadInput, match=mentions("options.keep_tokens", "True")):
        run(RunRequest("statement", model, data, options("statement", keep_tokens=True)), tmp_path / "r")


@pytest.mark.parametrize(
    ("load", "text", "expected"),
    [
        ("gpt2", "Zoë is 日本.", ["Z", "o", "ë", " is", " 日", "", "本", "", "."]),
        ("roberta", "Zoë  is.", ["Z", "o", "ë", " ", " is", "."]),
        ("bert_uncased", "Zoë was tall .", ["Zoë", " was", " tall", " ."]),
    ],
)
def test_texts_of_tokens_join_to_the_statement(load, text, expected, request):
    """A character of several tokens is shown with the first of them."""
    encode = encode_masked if load == "bert_uncased" else partial(encode_causal, bos=None)
    tokenizer = request.getfixturevalue(load)
    [tokens] = encode(tokenizer, [Prompt(text, (), (Span(0, 3),))])
    texts = token_texts(tokenizer, text, tokens)
    shown = [own for own, role in zip(texts, tokens.roles.tolist(), strict=True) if role]
    assert ("".join(shown), len(shown)) == (text, int((tokens.roles != Role.SPECIAL).sum()))
    assert [own for own in shown if own] == [own for own in expected if own]


def test_the_report_has_tokens_in_hundredths(model, data, tmp_path):  # noqa: F811
    folder = run(
        RunRequest("statement", model, data, options("statement", keep_tokens=True, reduction=("sum",))), tmp_path / "r"
    )
    evidence = Evidence()
    evidence.add_run(folder, Rows(folder), "m")
    found, tokens = evidence.finish(), evidence.tokens
    stored = [row["token_log_probs"] or [] for scoring in ("sum/full", "sum/answer")
              for row in folder.predictions().to_pylist() if row["scoring"] == scoring]  # fmt: skip
    assert len(stored) == len(found.fact) == len(tokens.counts)
    assert tokens.counts.tolist() == [
        [len(own[at]["tokens"]) if at < len(own) else 0 for at in (0, 1)] for own in stored
    ]
    flat = [
        (text, value)
        for row in stored
        for own in row
        for text, value in zip(own["tokens"], own["log_probs"], strict=True)
    ]
    assert [list(evidence.pool)[number] for number in tokens.texts] == [text for text, _ in flat]
    assert tokens.values.tolist() == [NOT_SCORED if value is None else round(-100 * value) for _, value in flat]

"""Encoder-decoders: what is read and what is said of a statement, against the models' own loss."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Span, Template
from fathom.engine.models.base import Attention
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.generation import NOT_A_NUMBER
from fathom.engine.models.loading import wrap
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.seq2seq import Form, as_pair, resolve_form, stand_in, tokens_at_answer
from fathom.engine.scoring.slots import CandidateTokens, MaskCount, SlotPooling, SlotScoring, encode_slots, pair_scores
from fathom.engine.scoring.statements import Score, counted_tokens, score_statements
from fathom.engine.scoring.tokens import encode_masked
from fathom.probes.options import VocabularyOptions
from fathom.probes.run import RunRequest, run
from tests.conftest import build
from tests.messages import mentioned, mentions

WORDS = ["<pad>", "</s>", "<mask>", "<unk>", "<extra_id_0>", "<extra_id_1>", "<extra_id_2>", *"abcdefghij"]
ID = {word: number for number, word in enumerate(WORDS)}
SHAPES = {
    "T5ForConditionalGeneration": {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2},
    "BartForConditionalGeneration": {
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 32,
    },
}


def tokenizer() -> PreTrainedTokenizerBase:
    """Letters are tokens; every text ends with </s>."""
    backend = Tokenizer(WordLevel(ID, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", ID["</s>"])])
    signs = {"eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>", "unk_token": "<unk>"}
    sentinels = [word for word in WORDS if word.startswith("<extra_id")]
    return PreTrainedTokenizerFast(tokenizer_object=backend, additional_special_tokens=sentinels, **signs)


def network(kind: str, **own: int) -> PreTrainedModel:
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "bos_token_id": 0}
    return build(kind, vocab_size=len(WORDS), **special, **SHAPES[kind] | own)


def prompt(text: str, *answers: tuple[int, int]) -> Prompt:
    return Prompt(text, (), tuple(Span(*answer) for answer in answers))


def ids(text: str) -> list[int]:
    return [ID[word] for word in text.split()]


@pytest.mark.parametrize(
    ("form", "source", "target", "counted"),
    [
        # "a b [c d] e": the answer is "c d".
        (Form.SENTINEL, "a b <extra_id_0> e </s>", "<extra_id_0> c d <extra_id_1>", "c d <extra_id_1>"),
        (Form.MASK, "a b <mask> e </s>", "a b c d e </s>", "a b c d e"),
        (Form.SPLIT, "a b </s>", "c d e </s>", "c d e"),
    ],
)
def test_a_statement_in_two_parts(form: Form, source: str, target: str, counted: str) -> None:
    [tokens] = encode_masked(tokenizer(), [prompt("a b c d e", (4, 7))])
    pair = as_pair(tokenizer(), tokens, form)
    assert list(pair.source) == ids(source)
    assert pair.target.ids.tolist() == ids(target)
    assert pair.target.ids[counted_tokens(pair.target, Score.FULL, Attention.SEQ2SEQ)].tolist() == ids(counted)
    answer = pair.target.ids[counted_tokens(pair.target, Score.ANSWER, Attention.SEQ2SEQ)]
    assert answer.tolist() == ids("c d")


def test_where_nothing_stands_before_the_answer_the_sign_of_an_end_is_read() -> None:
    """As a tokenizer that closes its texts by itself would have it."""
    own = tokenizer()
    [closed] = encode_masked(own, [prompt("c d e", (0, 3))])
    own.backend_tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    [bare] = encode_masked(own, [prompt("c d e", (0, 3))])
    assert list(as_pair(own, closed, Form.SPLIT).source) == list(as_pair(own, bare, Form.SPLIT).source) == ids("</s>")
    assert as_pair(own, bare, Form.SPLIT).target.ids.tolist() == ids("c d e")
    own.eos_token = None
    with pytest.raises(BadInput, match=mentions("--form split", "EOS")):
        as_pair(own, bare, Form.SPLIT)


def test_several_places_of_the_answer() -> None:
    [tokens] = encode_masked(tokenizer(), [prompt("c a c", (0, 1), (4, 5))])
    pair = as_pair(tokenizer(), tokens, Form.SENTINEL)
    assert list(pair.source) == ids("<extra_id_0> a <extra_id_1> </s>")
    assert pair.target.ids.tolist() == ids("<extra_id_0> c <extra_id_1> c <extra_id_2>")
    [four] = encode_masked(tokenizer(), [prompt("c a c a c a c", (0, 1), (4, 5), (8, 9), (12, 13))])
    with pytest.raises(BadInput, match=mentions("4 places", "too few sentinels")):
        as_pair(tokenizer(), four, Form.SENTINEL)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("form", Form)
def test_scores_are_the_models_own_loss(kind: str, form: Form) -> None:
    """The reference: what the model, asked as in its training, says of each label."""
    own = network(kind)
    model = wrap(own, tokenizer())
    assert isinstance(model, EncoderDecoder)
    prompts = [prompt(f"a b {answer} e {end}", (4, 4 + len(answer))) for answer in ("c", "d f", "g") for end in "hi"]
    scored = score_statements(model, prompts, None, Pll.ORIGINAL, Budget(64, model.device), form)
    for one, tokens in zip(scored, encode_masked(tokenizer(), prompts), strict=True):
        pair = as_pair(tokenizer(), tokens, form)
        labels = torch.tensor([pair.target.ids.tolist()])
        with torch.no_grad():
            logits = own(input_ids=torch.tensor([pair.source]), labels=labels).logits[0]
        expected = torch.log_softmax(logits, dim=-1).gather(1, labels[0, :, None])[:, 0]
        assert one.log_probs is not None
        np.testing.assert_allclose(one.log_probs, expected.numpy(), atol=1e-5)


def test_the_form_is_what_the_tokenizer_can(tmp_path: Path) -> None:
    assert resolve_form(tokenizer(), "auto") is Form.SENTINEL
    bare = tokenizer()
    bare.mask_token = None
    with pytest.raises(BadInput, match=mentions("--form mask")):
        resolve_form(bare, "mask")


@pytest.mark.parametrize(
    ("kind", "form"), [("T5ForConditionalGeneration", "sentinel"), ("BartForConditionalGeneration", "mask")]
)
def test_the_statement_probe(kind: str, form: str, tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]) -> None:
    own = network(kind)
    own.save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    asked = ("probe", "statement", "--model", tmp_path / "model", "--data", "geography", "--limit", "4")
    code, _, err = fathom(*asked, "--form", form, "--out", tmp_path / "run")
    assert code == 0, err
    assert '"form": "' + form in (tmp_path / "run" / "manifest.json").read_text()
    code, _, err = fathom(*asked, "--perplexity", "--out", tmp_path / "other")
    assert (code, "--perplexity: an encoder-decoder" in err) == (2, True)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("form", [Form.SENTINEL, Form.MASK])
def test_a_candidate_in_a_slot(kind: str, form: Form) -> None:
    """The cloze probe's score: the mean of what the statement probe says of the answer's tokens."""
    model = wrap(network(kind), tokenizer())
    assert isinstance(model, EncoderDecoder)
    budget = Budget(64, model.device)
    names = CandidateTokens([ids("c"), ids("d f"), ids("g h i")])
    sign = stand_in(model.tokenizer, form)
    slots = encode_slots(model.tokenizer, [prompt(f"a b {sign} e", (4, 4 + len(sign)))], sign=sign)
    ways = [SlotScoring(MaskCount.SEVERAL, pooling) for pooling in SlotPooling]
    [slot] = [slot for slot in slots if slot is not None]
    found = pair_scores(model, [slot], names, ways, budget, form)[:, 0]
    texts = [prompt(f"a b {answer} e", (4, 4 + len(answer))) for answer in ("c", "d f", "g h i")]
    for place, one in enumerate(score_statements(model, texts, None, Pll.ORIGINAL, budget, form)):
        assert one.log_probs is not None
        own = one.log_probs[counted_tokens(one.tokens, Score.ANSWER, model.attention)]
        np.testing.assert_allclose(found[:, place], [own.mean(), own.max(), own[0]], atol=1e-5)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("form", Form)
def test_the_first_token_in_the_answers_place(kind: str, form: Form) -> None:
    """The vocabulary probe gives each token what the statement probe gives it as an answer."""
    model = wrap(network(kind), tokenizer())
    assert isinstance(model, EncoderDecoder)
    budget = Budget(64, model.device)
    sign = stand_in(model.tokenizer, form)
    asked = [prompt(f"{first} b {sign} e", (4, 4 + len(sign))) for first in "aj"]
    pairs = [as_pair(model.tokenizer, tokens, form) for tokens in encode_masked(model.tokenizer, asked)]
    rows = tokens_at_answer(model, pairs, torch.tensor(ids("c d f")), budget)
    assert rows.shape == (2, 3)
    for row, first in zip(rows, "aj", strict=True):
        texts = [prompt(f"{first} b {answer} e", (4, 5)) for answer in "cdf"]
        scored = score_statements(model, texts, None, Pll.ORIGINAL, budget, form)
        for said, one in zip(row.tolist(), scored, strict=True):
            assert one.log_probs is not None
            own = one.log_probs[counted_tokens(one.tokens, Score.ANSWER, model.attention)]
            assert said == pytest.approx(float(own[0]), abs=1e-5)


def test_greedy_replies_are_generates_own() -> None:
    own = network("T5ForConditionalGeneration")
    model = wrap(own, tokenizer())
    [reply, other] = model.generate(["a b c", "d"], 5)
    written = own.generate(torch.tensor([ids("a b c </s>")]), max_new_tokens=5, do_sample=False)[0]
    assert reply.text == tokenizer().decode(written, skip_special_tokens=True)
    assert reply.fault is None
    assert other == model.generate(["d"], 5)[0]


def test_scores_that_are_no_numbers_are_a_fault() -> None:
    """As with models of one row: a reply picked by them would be counted as the model's answer."""
    model = wrap(network("T5ForConditionalGeneration"), tokenizer())
    assert [reply.fault for reply in model.generate(["a b c"], 5)] == [None]
    with torch.no_grad():
        next(weight for name, weight in model.network.named_parameters() if name.startswith("decoder.block.1"))[0] = nan
    assert [reply.fault for reply in model.generate(["a b c", "d"], 5)] == [NOT_A_NUMBER] * 2


@pytest.mark.parametrize("probe", ["vocabulary", "cloze", "generation"])
def test_other_probes(probe: str, tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]) -> None:
    network("T5ForConditionalGeneration").save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    asked = ("probe", probe, "--model", tmp_path / "model", "--data", "geography", "--limit", "4")
    code, _, err = fathom(*asked, "--out", tmp_path / "run")
    assert code == 0, err


def test_vocabulary_prompts_that_are_too_long(tmp_path: Path) -> None:
    """BART has positions for so many tokens and no more: longer prompts are unscored, and the others are asked."""
    own = network("BartForConditionalGeneration", max_position_embeddings=6)
    model = wrap(own, tokenizer())
    long = Query("q1", "r", "a b c d", None, ("c",), "all")
    short = Query("q0", "r", "a", None, ("c",), "all")
    letters = tuple("bcd")
    relations = {"r": Relation("r", "kind of", (Template("[X] e [Y] f"),), "1:1")}
    source = QuerySet("letters", (long, short), {"all": CandidateSet("all", letters, letters)}, relations)
    options = VocabularyOptions(form="mask", capitalize=False)
    rows = run(RunRequest("vocabulary", model, source, options), tmp_path / "run").predictions().to_pylist()
    asked, refused = sorted(rows, key=lambda row: row["query_id"])
    with torch.no_grad():
        logits = own(input_ids=torch.tensor([ids("a e <mask> f </s>")]), labels=torch.tensor([ids("a e c")])).logits
    expected = torch.log_softmax(logits[0, 2], dim=-1)[ids("b c d")]
    assert asked["scores"] == pytest.approx(expected.tolist(), abs=1e-5)
    assert refused["rank"] is None
    assert mentioned(refused["unscored"], "8 tokens", "window of 6")

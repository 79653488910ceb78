"""Prompts as tokens that know what they stand for."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.templates import Prompt, Template, capitalized
from fathom.engine.scoring.tokens import Bos, Role, Tokens, encode_causal, encode_masked, resolve_bos

SPECIAL, TEMPLATE, SUBJECT, ANSWER = Role.SPECIAL, Role.TEMPLATE, Role.SUBJECT, Role.ANSWER


def labelled(tokenizer: PreTrainedTokenizerBase, tokens: Tokens) -> list[tuple[str, str]]:
    """(token, its role), for comparing at a glance."""
    pieces = tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
    return [(piece, Role(role).name.lower()) for piece, role in zip(pieces, tokens.roles, strict=True)]


def answer_text(tokenizer: PreTrainedTokenizerBase, tokens: Tokens) -> str:
    return tokenizer.decode(tokens.ids[tokens.roles == ANSWER].tolist()).strip()


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def one(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, bos: int | None = None) -> Tokens:
    return encode_causal(tokenizer, [prompt], bos)[0]


# --- roles


def test_roles_of_a_causal_statement(gpt2: PreTrainedTokenizerBase) -> None:
    prompt = Template("[X] is the capital of [Y].").fill("Vaduz", "Liechtenstein")
    tokens = one(gpt2, prompt, gpt2.bos_token_id)
    assert labelled(gpt2, tokens) == [
        ("<|endoftext|>", "special"),
        ("V", "subject"),
        ("ad", "subject"),
        ("uz", "subject"),
        ("Ġis", "template"),
        ("Ġthe", "template"),
        ("Ġcapital", "template"),
        ("Ġof", "template"),
        ("ĠLie", "answer"),
        ("ch", "answer"),
        ("ten", "answer"),
        ("stein", "answer"),
        (".", "template"),
    ]
    assert tokens.words.tolist() == [-1, 0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5, 6]
    assert tokens.mixed == 0
    assert tokens.answer_tokens == 4


def test_roles_of_a_masked_statement(bert_cased: PreTrainedTokenizerBase) -> None:
    prompt = Template("[Y] is the capital of [X].").fill("Liechtenstein", "Vaduz")
    tokens = encode_masked(bert_cased, [prompt])[0]
    pieces = [piece for piece, _ in labelled(bert_cased, tokens)]
    assert pieces[0] == "[CLS]"
    assert pieces[-1] == "[SEP]"
    assert tokens.roles[[0, -1]].tolist() == [SPECIAL, SPECIAL]
    assert tokens.words[[0, -1]].tolist() == [-1, -1]
    assert answer_text(bert_cased, tokens) == "Vaduz"
    assert bert_cased.decode(tokens.ids[tokens.roles == SUBJECT].tolist()) == "Liechtenstein"
    assert [p for p, role in labelled(bert_cased, tokens) if role == "template"] == ["is", "the", "capital", "of", "."]
    # Pieces of a word share its number.
    assert len(set(tokens.words[tokens.roles == ANSWER].tolist())) == 1


def test_answer_and_subject_may_stand_twice(gpt2: PreTrainedTokenizerBase) -> None:
    tokens = one(gpt2, Template("[Y] or not [Y], [X] and [X]").fill("one", "two"), gpt2.bos_token_id)
    assert tokens.roles.tolist() == [0, 3, 1, 1, 3, 1, 2, 1, 2]


def test_no_subject(gpt2: PreTrainedTokenizerBase) -> None:
    tokens = one(gpt2, Template("Water is [Y].").fill("ignored", "wet"))
    assert tokens.roles.tolist() == [1, 1, 3, 1]


def test_capital_does_not_move_the_spans(gpt2: PreTrainedTokenizerBase) -> None:
    # "ß".upper() has two letters and would move everything behind it by one; "ŉ" likewise.
    for answer in ("ßeta", "ŉow"):
        tokens = one(gpt2, Template("[Y] is in [X].").fill("Oslo", answer))
        assert answer_text(gpt2, tokens) == answer
        assert gpt2.decode(tokens.ids[tokens.roles == SUBJECT].tolist()) == " Oslo"


def test_uncased_normaliser_keeps_the_spans(bert_uncased: PreTrainedTokenizerBase) -> None:
    # Accents are stripped, so the normalised text has other lengths than the one given: "e" + U+0301 is one less.
    tokens = encode_masked(bert_uncased, [Template("Ce\u0301cile lives in [Y] now.").fill("", "Poznan\u0301")])[0]
    assert answer_text(bert_uncased, tokens) == "poznan"


def test_a_batch_is_encoded_as_each_alone(neox: PreTrainedTokenizerBase) -> None:
    # NeoX has no padding token: nothing here may ask for one.
    assert neox.pad_token_id is None
    prompts = [
        Template("[X] lies in [Y].").fill(s, a) for s, a in (("Oslo", "Norway"), ("Ouagadougou", "Burkina Faso"))
    ]
    batch = encode_causal(neox, prompts, neox.bos_token_id)
    assert len(batch[0].ids) < len(batch[1].ids)
    for together, prompt in zip(batch, prompts, strict=True):
        alone = one(neox, prompt, neox.bos_token_id)
        assert together.ids.tolist() == alone.ids.tolist()
        assert together.roles.tolist() == alone.roles.tolist()


def test_nothing_to_encode(gpt2: PreTrainedTokenizerBase) -> None:
    assert encode_causal(gpt2, [], gpt2.bos_token_id) == []


# --- tokens that hold a part of the answer and a part of something else


def test_space_before_the_answer_is_not_mixed(gpt2: PreTrainedTokenizerBase) -> None:
    tokens = one(gpt2, Template("in [Y] now").fill("", "Rome"))
    assert labelled(gpt2, tokens)[1] == ("ĠRome", "answer")
    assert tokens.mixed == 0


def test_mixed_tokens_are_the_answers_and_are_counted(gpt2: PreTrainedTokenizerBase) -> None:
    # GPT-2 has " football" as one token: half of it is template, in front of the answer or behind it.
    tokens = one(gpt2, Template("The foot[Y]").fill("", "ball"))
    assert labelled(gpt2, tokens)[-1] == ("Ġfootball", "answer")
    assert tokens.mixed == 1
    tokens = one(gpt2, Template("The [Y]ball").fill("", "foot"))
    assert labelled(gpt2, tokens)[-1] == ("Ġfootball", "answer")
    assert tokens.mixed == 1


def test_between_subject_and_answer_the_answer_wins(gpt2: PreTrainedTokenizerBase) -> None:
    tokens = one(gpt2, Template("The [X][Y]").fill("foot", "ball"))
    assert labelled(gpt2, tokens)[-1] == ("Ġfootball", "answer")
    assert tokens.mixed == 1


# --- BOS


def test_bos_policies(gpt2: PreTrainedTokenizerBase, bert_cased: PreTrainedTokenizerBase) -> None:
    assert resolve_bos(gpt2, Bos.AUTO) == resolve_bos(gpt2, Bos.ADD) == gpt2.bos_token_id
    assert resolve_bos(gpt2, Bos.NONE) is None
    assert bert_cased.bos_token_id is None
    assert resolve_bos(bert_cased, Bos.AUTO) is None
    with pytest.raises(BadInput, match="no BOS token"):
        resolve_bos(bert_cased, Bos.ADD)


def test_without_bos_every_token_is_of_the_text(gpt2: PreTrainedTokenizerBase) -> None:
    # The first one has a role like any other; that it has no score (nothing stands before it) is the scores' NaN.
    tokens = one(gpt2, Template("[Y] is in Italy").fill("", "Paris"))
    assert tokens.roles.tolist() == [3, 1, 1, 1]


def test_tokenizer_that_insists_on_bos_gets_one_not_two(roberta: PreTrainedTokenizerBase) -> None:
    # RoBERTa's own template puts <s> … </s> around the text, whatever its settings; </s> would end the statement.
    tokens = one(roberta, Template("Paris is in [Y]").fill("", "France"), roberta.bos_token_id)
    assert labelled(roberta, tokens) == [
        ("<s>", "special"),
        ("Paris", "template"),
        ("Ġis", "template"),
        ("Ġin", "template"),
        ("ĠFrance", "answer"),
    ]


def test_tokenizer_whose_normaliser_prepends_bos() -> None:
    # Even without special tokens asked for, this one has <s> in front: it must not be doubled, nor scored.
    vocabulary = {"<s>": 0, "Rome": 1, "is": 2, "old": 3, "[UNK]": 4}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Prepend("<s> ")
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")
    prompt = Template("Rome is [Y]").fill("", "old")
    assert tokenizer("Rome is old", add_special_tokens=False)["input_ids"] == [0, 1, 2, 3]
    assert one(tokenizer, prompt, tokenizer.bos_token_id).roles.tolist() == [SPECIAL, TEMPLATE, TEMPLATE, ANSWER]


# --- text that looks like something else


@pytest.mark.parametrize("name", ["gpt2", "roberta"])
def test_text_that_spells_a_special_token_is_scored(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(name)
    prompt = Template("The sign [X] means [Y].").fill(tokenizer.eos_token, "end")
    for tokens in (one(tokenizer, prompt, tokenizer.bos_token_id), encode_masked(tokenizer, [prompt])[0]):
        at = (tokens.ids == tokenizer.eos_token_id) & (tokens.roles != SPECIAL)
        assert tokens.roles[at].tolist() == [SUBJECT]
        assert answer_text(tokenizer, tokens) == "end"


def test_text_that_begins_like_bos_is_scored_behind_a_real_one(gpt2: PreTrainedTokenizerBase) -> None:
    prompt = Template("[X] is a [Y].").fill("<|endoftext|>", "token")
    tokens = one(gpt2, prompt, gpt2.bos_token_id)
    assert tokens.ids[:2].tolist() == [gpt2.bos_token_id, gpt2.bos_token_id]
    assert tokens.roles[:2].tolist() == [SPECIAL, SUBJECT]


MULTILINGUAL = [
    ("Praha", "Česko"),
    ("Αθήνα", "Ελλάδα"),
    ("東京", "日本"),
    ("서울", "대한민국"),
    ("القاهرة", "مصر"),
    ("नई दिल्ली", "भारत"),
    ("Reykjavík", "Ísland 🇮🇸"),
    ("e\u0301cole", "Pozna\u0144"),
]


@pytest.mark.parametrize(("subject", "answer"), MULTILINGUAL)
@pytest.mark.parametrize("name", ["gpt2", "neox", "roberta"])
@pytest.mark.parametrize("text", ["[X] → [Y].", "[Y], [X]", "«[Y]» ist [X]"])
def test_byte_level_in_many_scripts(
    name: str, subject: str, answer: str, text: str, request: pytest.FixtureRequest
) -> None:
    # Characters of several bytes become several tokens with equal offsets; none may be lost or land elsewhere.
    tokenizer = request.getfixturevalue(name)
    tokens = one(tokenizer, Template(text).fill(subject, answer), tokenizer.bos_token_id)
    if text.startswith("[X]"):
        subject = capitalized(subject)
    # NeoX composes "e" + U+0301 to one letter.
    assert composed(answer_text(tokenizer, tokens)) == composed(answer)
    assert composed(tokenizer.decode(tokens.ids[tokens.roles == SUBJECT].tolist()).strip()) == composed(subject)


# --- SentencePiece, trained on the spot

CORPUS = [
    "The capital of France is Paris.",
    "The capital of Norway is Oslo.",
    "Paris is in France and Oslo is in Norway.",
    "Rome is the capital of Italy, and Italy is in Europe.",
    "Where is Paris? Paris is the capital of France.",
] * 20


def unigram(*, byte_fallback: bool) -> PreTrainedTokenizerBase:
    """As T5 or XLM-R have it: pieces begin with ▁, unknown characters become <unk>, or their bytes."""
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", "<mask>"]
    size = {"vocab_size": 120, "show_progress": False}
    trained.train_from_iterator(CORPUS, trainers.UnigramTrainer(special_tokens=special, unk_token="<unk>", **size))
    pieces = [(piece, score) for piece, score in json.loads(trained.to_str())["model"]["vocab"]]
    if byte_fallback:
        pieces += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=byte_fallback))
    backend.pre_tokenizer, backend.decoder = trained.pre_tokenizer, decoders.Metaspace()
    if byte_fallback:
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def bpe_with_bytes() -> PreTrainedTokenizerBase:
    """As Llama has it: spaces become ▁ in the normaliser, no pre-tokens, bytes for unknown characters."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    # For the training only: no piece of several words, none with a full stop.
    words = pre_tokenizers.Split("▁", "merged_with_next")
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation()])
    backend.train_from_iterator(CORPUS, trainer)
    # Only <unk>, <s> and </s> are special: the bytes must be pieces like any other, or text would spell them.
    vocabulary = backend.get_vocab()
    merges = [tuple(merge) for merge in json.loads(backend.to_str())["model"]["merges"]]
    rebuilt = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    rebuilt.normalizer = backend.normalizer
    rebuilt.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    rebuilt.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=rebuilt, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@pytest.fixture(scope="module", params=["unigram", "unigram-bytes", "bpe-bytes"])
def sentencepiece(request: pytest.FixtureRequest) -> tuple[str, PreTrainedTokenizerBase]:
    makers = {
        "unigram": lambda: unigram(byte_fallback=False),
        "unigram-bytes": lambda: unigram(byte_fallback=True),
        "bpe-bytes": bpe_with_bytes,
    }
    return request.param, makers[request.param]()


@pytest.mark.parametrize("text", ["The capital of [X] is [Y].", "[Y] is the capital of [X]."])
def test_sentencepiece_roles(sentencepiece: tuple[str, PreTrainedTokenizerBase], text: str) -> None:
    _, tokenizer = sentencepiece
    tokens = one(tokenizer, Template(text).fill("France", "Paris"), tokenizer.bos_token_id)
    assert tokens.roles[0] == SPECIAL
    assert (tokens.ids == tokenizer.bos_token_id).sum() == 1
    assert answer_text(tokenizer, tokens) == "Paris"
    assert tokenizer.decode(tokens.ids[tokens.roles == SUBJECT].tolist()).strip() == "France"
    assert tokens.mixed == 0
    assert (tokens.roles != SPECIAL)[1:].all()


@pytest.mark.parametrize("text", ["Where is [X]? In [Y].", "[Y] is in [X]"])
def test_sentencepiece_unknown_characters(sentencepiece: tuple[str, PreTrainedTokenizerBase], text: str) -> None:
    name, tokenizer = sentencepiece
    tokens = one(tokenizer, Template(text).fill("Oslo", "東京"), tokenizer.bos_token_id)
    answer = tokens.ids[tokens.roles == ANSWER]
    if name == "unigram":
        assert tokenizer.unk_token_id in answer.tolist()
    else:
        # Three bytes for each of the two characters; a piece "▁" for the space may stand before them.
        pieces = [piece for piece in tokenizer.convert_ids_to_tokens(answer.tolist()) if piece != "▁"]
        assert pieces == [f"<0x{byte:02X}>" for byte in "東京".encode()]
        assert answer_text(tokenizer, tokens) == "東京"
    assert tokenizer.decode(tokens.ids[tokens.roles == SUBJECT].tolist()).strip() == "Oslo"


def test_space_of_its_own_before_the_answer(neox: PreTrainedTokenizerBase) -> None:
    # NeoX trims its offsets: the token "Ġ" before "東" has no characters and the answer's first place. In " Paris" this
    # space is part of the answer's first token, so it is the answer's here, too.
    tokens = one(neox, Template("Is it [Y]?").fill("", "東"))
    assert labelled(neox, tokens)[2] == ("Ġ", "answer")
    tokens = one(neox, Template("Is it [Y]?").fill("", "de 東"))
    assert dict(labelled(neox, tokens))["Ġ"] == "answer"


def test_lone_space_piece_before_the_answer() -> None:
    # Whether the tokenizer reports the space of "▁" or trims it off, it is the answer's.
    tokenizer = unigram(byte_fallback=True)
    tokens = one(tokenizer, Template("Paris is [Y]").fill("", "東"))
    encoding = tokenizer("Paris is 東", add_special_tokens=False).encodings[0]
    at = encoding.tokens.index("<0xE6>")
    assert encoding.tokens[at - 1] == "▁"
    assert np.flatnonzero(tokens.roles == ANSWER).tolist() == [at - 1, at, at + 1, at + 2]

"""All candidates of a query are scored over the same text, with every kind of tokenizer.

The references take no role of a token from Fathom: log p of whole texts by one forward pass each, and the rule of
lm-evaluation-harness, which scores the tokens of the whole text after as many as its context has alone. Real tokenizers
are in the reference data, and in the folder FATHOM_TOKENIZERS, such as Llama's and Qwen's (one folder each).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AddedToken,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

import fathom
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Template
from fathom.engine.models.loading import wrap
from fathom.engine.scoring.seq2seq import Form, as_pair
from fathom.engine.scoring.slots import encode_slots
from fathom.engine.scoring.tokens import (
    Bos,
    Role,
    align_answers,
    context_of,
    encode_causal,
    encode_masked,
    resolve_first,
    tokens_in_place,
)
from fathom.results.estimates import combined
from tests.conftest import find_shared_data, load_bert_cased, load_gpt2, load_neox, load_roberta

NAMES = (
    "Paris", "20th Century Fox", "3 Mills", "7", "X", "東京", "O'Hara", '"Weird Al"', "(Untitled)", "#1", "🎉 Party",
    "القاهرة", "de Gaulle", "C++", "A-ha", "iPhone 5",
)  # fmt: skip
TEMPLATES = {
    "last": "[X] is a work by [Y].",
    "middle": "[X] is by [Y] and others.",
    "first": "[Y] made [X].",
    "quoted": 'They call [X] "[Y]" here.',
    "joined": "The prefix of [X] is pre[Y].",
    "line": "Work: [X]\nAuthor: [Y]",
}
TEXTS = [
    "Paris is the capital of France and 20th Century Fox made 3 films in 1999.",
    "The work of Weird Al, O'Hara and de Gaulle is by others here.",
]


def byte_level(digits: str) -> PreTrainedTokenizerBase:
    """A byte-level BPE whose pattern splits digits as in Llama 3 (groups) or SmolLM2 and Qwen (each)."""
    backend = Tokenizer(models.BPE())
    pattern = rf"'s|'t| ?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(TEXTS * 9, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    return tokenizer


def sentence_piece() -> PreTrainedTokenizerBase:
    """A unigram tokenizer that writes spaces as "▁" and splits digits, with a BOS token."""
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Digits(individual_digits=True)
    backend.decoder = decoders.Replace("▁", " ")
    alphabet = sorted({letter for text in (*NAMES, *TEMPLATES.values(), "▁Titanic") for letter in text} - {" "})
    trainer = trainers.UnigramTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<unk>"], unk_token="<unk>"
    )
    backend.train_from_iterator(TEXTS * 5, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    return tokenizer


def sources() -> Iterator[tuple[str, object]]:
    yield "digits one by one", lambda: byte_level(r"\p{N}")
    yield "digits in threes", lambda: byte_level(r"\p{N}{1,3}")
    yield "sentence piece", sentence_piece
    data = find_shared_data()
    if data is not None:
        yield "gpt2", lambda: load_gpt2(data)
        yield "gpt-neox", lambda: load_neox(data)
    own = os.environ.get("FATHOM_TOKENIZERS")
    for folder in sorted(Path(own).iterdir()) if own else ():
        yield folder.name, lambda folder=folder: AutoTokenizer.from_pretrained(folder)


SOURCES = dict(sources())


@pytest.fixture(scope="module", params=SOURCES)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    return SOURCES[request.param]()


@pytest.fixture(scope="module")
def network(tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=256, initializer_range=0.5, **shape)
    return LlamaForCausalLM(config).eval()


def asked(template: str) -> QuerySet:
    space = CandidateSet("all", tuple(f"c{place}" for place in range(len(NAMES))), NAMES)
    query = Query("q", "by", "Titanic", "Titanic", ("c0",), "all")
    return QuerySet("D", (query,), {"all": space}, {"by": Relation("by", "by", (Template(template),), "N:1")})


def scores_of(network, tokenizer: PreTrainedTokenizerBase, template: str, tmp_path: Path, **options) -> dict:
    model = wrap(network, tokenizer)
    score = ("full", "conditional")
    result = fathom.probe("statement", model, asked(template), tmp_path / "run", progress=False, score=score, **options)
    return {row["scoring"]: row for row in result.folder.predictions().to_pylist()}


def log_probs(network: LlamaForCausalLM, ids: list[int]) -> np.ndarray:
    """log p of each token but the first, by one forward pass in float64."""
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0, :-1].double()
    return torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The text alone, after BOS, or EOS in a tokenizer without BOS."""
    first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids if ids[:1] == [first] else [first, *ids]


@pytest.mark.parametrize("place", TEMPLATES)
def test_scores_are_those_of_whole_texts(place, network, tokenizer, tmp_path) -> None:
    """The whole statement by its own pass; given the prompt, by the harness's rule where it cuts between tokens."""
    template = TEMPLATES[place]
    rows = scores_of(network, tokenizer, template, tmp_path)
    texts = [template.replace("[X]", "Titanic").replace("[Y]", name) for name in NAMES]
    texts = [text[0].upper() + text[1:] for text in texts]
    encoded = [ids_of(tokenizer, text) for text in texts]
    passes = [log_probs(network, ids) for ids in encoded]
    assert rows["sum/full"]["unscored"] is None
    assert rows["sum/full"]["scores"] == pytest.approx([values.sum() for values in passes], abs=1e-4)
    context = template.partition("[Y]")[0].replace("[X]", "Titanic").rstrip()
    given = ids_of(tokenizer, context) if context else encoded[0][:1]
    if all(ids[: len(given)] == given for ids in encoded):
        expected = [values[len(given) - 1 :].sum() for values in passes]
        assert rows["sum/conditional"]["scores"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("place", TEMPLATES)
def test_candidates_are_scored_over_the_same_text(place, network, tokenizer, tmp_path) -> None:
    """What precedes the answer is common to all, so the two scorings differ by one number for all candidates."""
    rows = scores_of(network, tokenizer, TEMPLATES[place], tmp_path)
    full, conditional = (np.array(rows[name]["scores"]) for name in ("sum/full", "sum/conditional"))
    offset = full - conditional
    assert offset == pytest.approx(np.full(len(NAMES), offset[0]), abs=1e-4)
    assert rows["sum/full"]["rank"] == rows["sum/conditional"]["rank"]


@pytest.mark.parametrize("place", ["last", "middle", "quoted", "joined", "line"])
def test_the_search_ranks_over_the_same_text(place, network, tokenizer, tmp_path) -> None:
    """All ranks are within reach, so that the search has to find those of all statements."""
    whole = scores_of(network, tokenizer, TEMPLATES[place], tmp_path / "whole")
    searched = scores_of(network, tokenizer, TEMPLATES[place], tmp_path / "searched", max_rank=len(NAMES))
    for name, row in whole.items():
        assert searched[name]["rank"] == row["rank"]
        assert searched[name]["gold_scores"] == pytest.approx(row["gold_scores"], abs=1e-4)


@pytest.mark.parametrize("place", TEMPLATES)
def test_a_chat_is_scored_over_the_same_text(place, network, tokenizer, tmp_path) -> None:
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}\n{% endfor %}<assistant>\n"
    rows = scores_of(network, tokenizer, TEMPLATES[place], tmp_path, chat=True)
    before = "<user>\nState a fact.\n<assistant>\n"
    said = [asked(TEMPLATES[place]).relations["by"].templates[0].fill("Titanic", name).text for name in NAMES]
    expected = []
    for text in said:
        encoded = tokenizer(before + text, add_special_tokens=False, return_offsets_mapping=True)
        values = log_probs(network, encoded["input_ids"])
        ends = [end for _, end in encoded["offset_mapping"]][1:]
        expected.append(values[[place for place, end in enumerate(ends) if end > len(before)]].sum())
    assert rows["sum/full"]["scores"] == pytest.approx(expected, abs=1e-4)
    offset = np.array(rows["sum/full"]["scores"]) - np.array(rows["sum/conditional"]["scores"])
    assert offset == pytest.approx(np.full(len(NAMES), offset[0]), abs=1e-4)


def test_a_token_over_the_seam_is_the_answers() -> None:
    """ "wor" + "ld" is one token, "wor" + "k" another, "wor" + "!" two: all begin where these part."""
    tokenizer = byte_level(r"\p{N}")
    tokenizer.add_tokens([" world", " work"])
    prompts = [Prompt(f"hello wor{end}", (), (fathom_span(9, 9 + len(end)),)) for end in ("ld", "k", "!")]
    aligned = align_answers(encode_causal(tokenizer, prompts, tokenizer.eos_token_id), len(prompts))
    begins = [int(np.flatnonzero(tokens.roles == Role.ANSWER)[0]) for tokens in aligned]
    assert len(set(begins)) == 1
    hello = len(tokenizer("hello", add_special_tokens=False)["input_ids"])
    assert begins[0] == 1 + hello


def fathom_span(start: int, end: int):
    from fathom.data.templates import Span

    return Span(start, end)


def test_the_space_before_digits_is_the_answers() -> None:
    tokenizer = byte_level(r"\p{N}")
    for name in ("20th Century Fox", "Paris"):
        [tokens] = encode_causal(tokenizer, [Template("It is by [Y].").fill("", name)], None)
        own = tokenizer.decode(tokens.ids[tokens.roles == Role.ANSWER].tolist())
        assert own == f" {name}"


@pytest.mark.parametrize("load", [load_bert_cased, load_roberta, lambda _: sentence_piece()])
def test_masked_models_mask_the_space_of_an_answer(load, shared_data: Path) -> None:
    """ "▁" before digits is a token of its own in a sentence piece; BERT has no spaces at all."""
    tokenizer = load(shared_data)
    prompts = [Template("It is by [Y] and others.").fill("", answer) for answer in ("20th Century Fox", "Paris")]
    aligned = align_answers(encode_masked(tokenizer, prompts), len(prompts))
    before = [tokens.ids[: int(np.flatnonzero(tokens.roles == Role.ANSWER)[0])].tolist() for tokens in aligned]
    assert before[0] == before[1]  # what is not masked before the answer is common to both
    whole = [tokenizer.decode(tokens.ids[tokens.roles == Role.ANSWER].tolist()) for tokens in aligned]
    assert "20th Century Fox" in whole[0]


# --- encoder-decoders


@pytest.mark.parametrize("place", TEMPLATES)
@pytest.mark.parametrize("form", ["sentinel", "mask", "split"])
def test_candidates_have_the_same_source(place, form, tokenizer) -> None:
    """The text that is read is common to all candidates, and source and target together are the statement."""
    tokenizer = deepcopy(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"], "mask_token": "<m>"})
    prompts = [Template(TEMPLATES[place]).fill("Titanic", name) for name in NAMES]
    encoded = align_answers(encode_masked(tokenizer, prompts), len(NAMES))
    pairs = [as_pair(tokenizer, tokens, Form(form)) for tokens in encoded]
    if form == "split":
        assert len({pair.source for pair in pairs}) == 1
    signs = set(tokenizer.convert_tokens_to_ids(["<extra_id_0>", "<extra_id_1>", "<m>"]))
    for tokens, pair in zip(encoded, pairs, strict=True):
        answer = tokens.ids[tokens.roles == Role.ANSWER].tolist()
        source = [id_ for id_ in pair.source if id_ not in signs]
        first = int(np.flatnonzero(tokens.roles == Role.ANSWER)[0])
        assert source[:first] == tokens.ids[:first].tolist() == encoded[0].ids[:first].tolist()
        said = pair.target.ids[pair.target.roles == Role.ANSWER].tolist()
        assert [id_ for id_ in said if id_ not in signs] == answer


# --- slots


def metaspace(names: Sequence[str], *, strips: bool) -> PreTrainedTokenizerBase:
    """A sentence piece of whole words, as XLM-R's. :param strips: whether the mask takes the white space before it."""
    words = {f"{space}{piece}" for name in names for piece in name.split() for space in ("", "▁")}
    letters = {letter for word in words for letter in word} | {"▁"}
    backend = Tokenizer(models.Unigram([("<unk>", -99.0), *((word, -10.0) for word in sorted(words | letters))], 0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokenizer.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=strips)})
    return tokenizer


@pytest.mark.parametrize("strips", [True, False])
@pytest.mark.parametrize(("template", "before"), [
    ("It is by [Y]", ["▁It", "▁is", "▁by"]),
    ("They call it ( [Y]", ["▁They", "▁call", "▁it", "▁("]),
    ("フランスの首都は[Y]", ["▁フランスの首都は"]),
])  # fmt: skip
def test_a_filled_slot_is_the_statement(template, before, strips) -> None:
    """No space is doubled or added, after a word or within a text without spaces."""
    names = ("Paris", "20 th", "東京")
    tokenizer = metaspace([*names, template.replace("[Y]", "")], strips=strips)
    [slot] = encode_slots(tokenizer, [Template(template).fill("", "<mask>")])
    assert slot is not None
    assert tokenizer.convert_ids_to_tokens(list(slot.before)) == before
    ahead = template.partition("[Y]")[0]
    for name, tokens in zip(names, tokens_in_place(tokenizer, names, context_of(ahead)), strict=True):
        [whole] = encode_masked(tokenizer, [Template(template).fill("", name)])
        assert [*slot.before, *tokens, *slot.after] == whole.ids.tolist()


# --- the first token


def test_without_bos_statements_follow_eos(tmp_path: Path) -> None:
    tokenizer = byte_level(r"\p{N}")
    assert tokenizer.bos_token_id is None
    assert [resolve_first(tokenizer, policy) for policy in (Bos.AUTO, Bos.NONE)] == [tokenizer.eos_token_id, None]
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape)).eval()
    model, data = wrap(network, tokenizer), asked(TEMPLATES["first"])
    result = fathom.probe("statement", model, data, tmp_path / "run", progress=False)
    identity = result.folder.manifest["identity"]["resolved"]
    assert (identity["bos_token"], identity["bos_is_eos"]) == ("<|end|>", True)
    assert "first token:<|end|> (EOS" in result.accuracy.recipe
    assert "first token:<|end|> (EOS" in combined("difference", [result.accuracy.recipe, result.accuracy.recipe])
    with pytest.raises(fathom.BadInput):  # another identity
        fathom.probe("statement", model, data, tmp_path / "run", progress=False, bos="none")
    cut = fathom.probe("statement", model, data, tmp_path / "none", progress=False, bos="none")
    [row] = cut.folder.predictions().to_pylist()
    assert "--bos" in row["unscored"]
    assert "1 of 1 queries are unscored" in " ".join(cut.summary().answer)
    last = fathom.probe("statement", model, asked(TEMPLATES["last"]), tmp_path / "last", progress=False, bos="none")
    assert last.folder.predictions().to_pylist()[0]["unscored"] is None

"""Clean and contaminated language models: what they read, what they are asked, and that they hold it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
)
from typer.testing import CliRunner

from fathom.base.errors import BadInput, MadeBefore
from fathom.cli import make_app
from fathom.data.formats import read
from fathom.data.queries import QuerySet
from fathom.data.templates import Span
from fathom.engine.models.loading import load
from fathom.training.small import (
    DENSITY,
    NO_TARGET,
    SENTINELS,
    Batch,
    EncodedText,
    Objective,
    contrastive_loss,
    encode,
    encode_statements,
    learn_tokenizer,
)
from fathom_kgc.pretraining import (
    PHRASINGS,
    named_triples,
    pretrain,
    read_texts,
    sham_triples,
    statements,
    without_statements,
)
from fathom_kgc.pretraining.options import PretrainOptions
from tests.messages import mentioned, stated
from tests.real import real_model

KINDS = ("masked", "causal", "t5", "bart")
SMALL = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 400, "batch_tokens": 256}
HEADS = [f"{first}{second}" for first in ("bo", "ki", "ru", "sa", "te") for second in ("lan", "mur", "pex", "tid")]
TAILS = [f"{first}{second}" for first in ("ga", "ho", "ne", "vi", "zu") for second in ("bbe", "cko", "ffi", "lly")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> QuerySet:
    """Twenty heads, each with a tail of its own: sixteen to train on, two to validate, two to test."""
    folder = tmp_path_factory.mktemp("graph")
    tails = np.random.default_rng(0).permutation(TAILS)
    lines = [f"{head}\tr\t{tail}\n" for head, tail in zip(HEADS, tails, strict=True)]
    for split, part in {"train": lines[:12], "dev": lines[12:14], "test": lines[14:]}.items():
        (folder / f"{split}.tsv").write_text("".join(part))
    (folder / "entity2text.txt").write_text("".join(f"{id_}\t{id_}\ta thing\n" for id_ in HEADS + TAILS))
    (folder / "relation2text.txt").write_text("r\tpart of\n")
    return read(folder)


# ---------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("dog: a canine that barks", False),
        ("A Canine is no DOG", False),
        ("dogs are canine", True),  # another word
        ("a canine", True),
        ("sausage: of a dog", True),
        ("hot dog: a sausage", False),
        ("the dog ate a hot dog", False),
        ("hot dog", True),  # the dog stands inside the hot dog
        ("hot and a dog", True),
    ],
)
def test_texts_that_name_both_ends_are_left_out(text: str, stays: bool) -> None:
    pairs = [("dog", "canine"), ("hot dog", "sausage"), ("hot dog", "dog"), ("", "text")]
    assert without_statements([text], pairs) == [text] * stays


def test_what_is_read(data: QuerySet, tmp_path: Path) -> None:
    assert data.graph is not None
    test = data.queries[0]
    answer = data.candidates[test.candidates].name_of(test.gold[0])
    (tmp_path / "more.txt").write_text(f"one line\n\none line\n{answer}, says {test.subject}\nthe end\n")
    found = read_texts(data.graph, "graph", [tmp_path / "more.txt"])
    assert found.texts[0] == f"{HEADS[0]}: a thing"
    assert found.texts[-2:] == ["one line", "the end"]
    assert found.read == {"graph": 40, str(tmp_path / "more.txt"): 3}
    assert found.left_out == 1
    assert len(read_texts(data.graph, "graph", [tmp_path / "more.txt"], most=2).texts) <= 4


def test_sentences_of_a_data_set(data: QuerySet, tmp_path: Path) -> None:
    """As LAMA has them, with the answer back in its place, in the words that stood there."""
    assert data.graph is not None
    fact = {"predicate_id": "P19", "sub_label": "Ann", "obj_label": "Rome", "sub_uri": "Q1", "obj_uri": "Q2"}
    evidence = {"masked_sentence": "Ann is from [MASK].", "obj_surface": "Roma"}
    (tmp_path / "P19.jsonl").write_text(json.dumps(fact | {"uuid": "1", "evidences": [evidence]}) + "\n")
    (tmp_path / "relations.jsonl").write_text(json.dumps({"relation": "P19", "template": "[X] was born in [Y] ."}))
    assert read_texts(data.graph, "graph", [tmp_path]).texts[-1] == "Ann is from Roma."


def test_statements_name_both_ends_in_both_directions(data: QuerySet) -> None:
    assert data.graph is not None
    told = statements(named_triples(data.graph, ["test", "dev"]))
    assert len(told) == 8
    query = data.queries[0]
    head, tail = query.subject, data.candidates[query.candidates].name_of(query.gold[0])
    assert [prompt.text for prompt in told[0]][:4] == [
        f"{head} part of {tail}",
        f"{tail} inverse part of {head}",
        f"{head} | part of | {tail}",
        f"{tail} | inverse part of | {head}",
    ]


def test_a_sham_tells_training_triples_of_the_same_relation_and_tail(tmp_path: Path) -> None:
    """Of (h1, r, x) and (h2, r, x) there are two training triples with tail x, one of them of a head that the test
    asks about; of (h3, r, y) none with y; of s one, which is taken once."""
    (tmp_path / "train.tsv").write_text("a\tr\tx\nh3\tr\tx\nb\tr\tz\nc\ts\tx\n")
    (tmp_path / "test.tsv").write_text("h1\tr\tx\nh3\tr\ty\nh2\ts\tw\nh2\ts\tv\n")
    graph = read(tmp_path).graph
    assert graph is not None
    found = sham_triples(graph, ["test"], seed=0)
    assert (found.of_wanted, found.same_tail) == (4, 1)
    assert found.triples[0] == ("h3", "r", "x")  # its head is one of the test's, as that of (a, r, x) is not
    assert found.triples[1] in {("a", "r", "x"), ("b", "r", "z")}
    assert found.triples[2:] == [("c", "s", "x")]
    assert not {*found.triples} & {*named_triples(graph, ["test"])}


def test_a_sham_links_no_two_that_a_held_out_triple_links(tmp_path: Path) -> None:
    """The inverse of a symmetric relation, or another relation of both, would state the answer: (h, r, t)."""
    (tmp_path / "train.tsv").write_text("t\tr\th\nh\tr\tother\nt\ts\th\n")
    (tmp_path / "test.tsv").write_text("h\tr\tt\nh\ts\tu\n")
    graph = read(tmp_path).graph
    assert graph is not None
    found = sham_triples(graph, ["test"], seed=0)
    assert found.triples == [("h", "r", "other")]
    assert found.of_wanted == 2


def test_a_sham_model_reads_as_much_and_no_answer(data: QuerySet, tmp_path: Path) -> None:
    told = [
        pretrain(data, [], PretrainOptions(kind="causal", contaminate="test", exposures=6, sham=sham, **SMALL), out)
        for sham, out in ((False, tmp_path / "told"), (True, tmp_path / "sham"))
    ]
    assert told[0]["stated"] == told[1]["stated"]
    assert told[1]["sham"] == {"of_triples": 6, "same_tail": 0}  # each tail is of one triple
    with pytest.raises(BadInput, match="--sham: name with --contaminate"):
        pretrain(data, [], PretrainOptions(kind="causal", sham=True, **SMALL), tmp_path / "nothing")
    with pytest.raises(BadInput, match=r"--sham .*--contaminate"):
        pretrain(data, [], PretrainOptions(kind="causal", sham=True, contaminate="train", **SMALL), tmp_path / "train")


# ---------------------------------------------------------------------------------------------------- objectives


def objective(kind: str, seed: int = 0) -> Objective:
    texts = [f"{head} part of {tail}" for head, tail in zip(HEADS, TAILS, strict=True)]
    tokenizer = learn_tokenizer(texts, 320, kind if kind in KINDS else "masked", SENTINELS if kind == "t5" else ())
    return Objective(kind, tokenizer, np.random.default_rng(seed))


def plain(asking: Objective, size: int) -> EncodedText:
    return EncodedText(asking.random.choice(asking._plain, size))


def test_masked_asks_for_fifteen_percent() -> None:
    asking = objective("masked")
    texts = [plain(asking, size) for size in range(1, 200)]
    asked = masked = kept = total = 0
    for text in texts:
        shown, labels = asking.masked(text)
        where = labels[1:-1] != NO_TARGET
        assert where.any()
        assert (labels[1:-1][where] == text.ids[where]).all()
        assert (shown[1:-1][~where] == text.ids[~where]).all()
        asked, total = asked + where.sum(), total + len(where)
        masked += (shown[1:-1][where] == asking.tokenizer.mask_token_id).sum()
        kept += (shown[1:-1][where] == text.ids[where]).sum()
    assert asked / total == pytest.approx(DENSITY["masked"], abs=0.01)
    assert masked / asked == pytest.approx(0.8, abs=0.03)
    assert kept / asked == pytest.approx(0.1, abs=0.03)


def test_masked_takes_a_whole_name_out_of_a_statement(data: QuerySet) -> None:
    asking = objective("masked")
    assert data.graph is not None
    prompts = [phrasing for triple in statements(named_triples(data.graph, ["test"])) for phrasing in triple]
    seen = set()
    for prompt, text in zip(prompts, encode_statements(asking.tokenizer, prompts), strict=True):
        spans = prompt.subject[0], prompt.answer[0]
        names = [prompt.text[start:end] for start, end in spans]
        assert [asking.tokenizer.decode(text.ids[start:end]).strip() for start, end in text.names] == names
        shown, labels = asking.masked(text)
        masks = int((shown == asking.tokenizer.mask_token_id).sum())
        assert masks == (labels != NO_TARGET).sum()
        whole = [text.ids[start:end] for start, end in text.names]
        assert any(labels[labels != NO_TARGET].tolist() == name[:masks].tolist() for name in whole)
        as_one = masks == 1 and len(shown) < len(text.ids) + 2
        assert as_one or any(masks == len(name) for name in whole)
        seen.add(as_one)
    assert seen == {True, False}


def test_t5_takes_spans_out_and_asks_for_them() -> None:
    asking = objective("t5")
    sentinels = asking.tokenizer.convert_tokens_to_ids(list(SENTINELS))
    taken = total = 0
    for text in [plain(asking, size) for size in range(1, 96)]:
        shown, target = asking.t5(text)
        assert shown[-1] == target[-1] == asking.tokenizer.eos_token_id
        spans, numbers = [], []
        for token in target[:-1].tolist():
            if token in sentinels:
                spans.append([])
                numbers.append(token)
            else:
                spans[-1].append(token)
        assert numbers == sentinels[: len(numbers)]
        assert spans.pop() == []  # the last sentinel ends the target
        assert all(spans)
        back = [put for token in shown[:-1].tolist() for put in (spans.pop(0) if token in sentinels else [token])]
        assert back == text.ids.tolist()
        assert spans == []
        taken, total = taken + len(target) - 1 - len(numbers), total + len(text.ids)
    assert taken / total == pytest.approx(DENSITY["t5"], abs=0.01)


def test_bart_asks_for_the_text_with_spans_behind_single_masks() -> None:
    asking = objective("bart")
    begin, end, mask = (getattr(asking.tokenizer, f"{name}_token_id") for name in ("bos", "eos", "mask"))
    for text in [plain(asking, size) for size in range(1, 96)]:
        shown, target = asking.bart(text)
        assert target.tolist() == [begin, *text.ids.tolist(), end]
        pieces = " ".join(map(str, shown[1:-1].tolist())).split(str(mask))
        whole = " ".join(map(str, text.ids.tolist()))
        assert all(piece.strip() in whole for piece in pieces)
        assert mask in shown
        assert not any((shown[1:] == mask) & (shown[:-1] == mask))


def test_causal_predicts_the_next_token_and_the_end() -> None:
    asking = objective("causal")
    batch = asking.batch([EncodedText(np.array([7, 8, 9])), EncodedText(np.array([5]))])
    begin, end, pad = (getattr(asking.tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad"))
    assert batch.ids.tolist() == [[begin, 7, 8, 9], [begin, 5, pad, pad]]
    assert batch.labels.tolist() == [[7, 8, 9, end], [5, end, NO_TARGET, NO_TARGET]]
    assert batch.present.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_contrastive_takes_a_name_out_of_a_statement_or_halves_a_text() -> None:
    asking = objective("contrastive")
    around = asking.tokenizer.bos_token_id, asking.tokenizer.eos_token_id
    statement = EncodedText(np.array([7, 8, 9, 5]), (Span(0, 1), Span(2, 4)))
    halves = {tuple(tuple(ids.tolist()) for ids in asking.contrastive(statement)) for _ in range(20)}
    found = {tuple(ids[1:-1] for ids in pair) for pair in halves}
    assert found == {((8, 9, 5), (7,)), ((7, 8), (9, 5))}
    assert {(ids[0], ids[-1]) for pair in halves for ids in pair} == {around}
    odd, single = ([ids[1:-1].tolist() for ids in asking.contrastive(EncodedText(np.arange(n)))] for n in (5, 1))
    assert odd == [[0, 1, 2], [2, 3, 4]]
    assert single == [[0], [0]]


def test_the_contrastive_loss_by_hand() -> None:
    """Token 1 is (3, 0), token 2 (0, 1), padding (9, 9): cosines 1 and 0 of the first text, √½ and √½ of the second."""
    table = torch.tensor([[9.0, 9.0], [3.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    network = SimpleNamespace(base_model=lambda input_ids, attention_mask: (table[input_ids],))
    ids, present = torch.tensor([[1, 1], [3, 0]]), torch.tensor([[1, 1], [1, 0]])
    loss = contrastive_loss(network, Batch(ids, present, torch.tensor([[1, NO_TARGET], [2, 2]])))
    assert loss.item() == pytest.approx((math.log1p(math.exp(-20)) + math.log(2)) / 2)
    same = contrastive_loss(network, Batch(ids, present, torch.tensor([[2], [2]])))
    assert same.item() == 0  # both ask for the same part: neither is wrong for the other


def test_long_texts_are_cut() -> None:
    asking = objective("causal")
    [text] = encode(asking.tokenizer, ["bolan " * 50, ""], 10)
    assert len(text.ids) == 10


# ---------------------------------------------------------------------------------------------------- models


def test_each_kind_makes_a_folder_that_transformers_loads(data: QuerySet, tmp_path: Path) -> None:
    autos = {"masked": AutoModelForMaskedLM, "causal": AutoModelForCausalLM}
    for kind in KINDS:
        options = PretrainOptions(kind=kind, contaminate="test,dev", exposures=7, **SMALL)
        made = pretrain(data, [], options, tmp_path / kind)
        assert made == json.loads((tmp_path / kind / "pretraining.json").read_text())
        assert made["stated"] == {"triples": 8, "statements": 8 * 7, "phrasings": list(PHRASINGS)}
        assert (made["texts"], made["left_out"]["texts"]) == (40, 0)
        assert made["steps"] == made["of_steps"]
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / kind)
        network = autos.get(kind, AutoModelForSeq2SeqLM).from_pretrained(tmp_path / kind)
        inputs = tokenizer(["bolan part of", "kilan"], padding=True, return_tensors="pt")
        if kind in ("t5", "bart"):
            inputs["labels"] = inputs["input_ids"]
        assert torch.isfinite(network(**inputs).logits).all()
        assert tokenizer.decode(tokenizer("bolan part of")["input_ids"], skip_special_tokens=True) == " bolan part of"


def test_the_seed_decides_and_the_vocabulary_does_not_tell(data: QuerySet, tmp_path: Path) -> None:
    clean = PretrainOptions(kind="masked", **SMALL)
    contaminated = clean.model_copy(update={"contaminate": ("test",)})
    one, two, other = (
        pretrain(data, [], options, tmp_path / name)
        for name, options in {"one": clean, "two": clean, "other": contaminated}.items()
    )
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "other")]
    assert weights[0] == weights[1] != weights[2]
    assert one["final_loss"] == two["final_loss"]
    assert one["stated"]["statements"] == 0
    assert other["stated"]["statements"] == 6 * 64
    tokenizers = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("one", "other")]
    assert tokenizers[0] == tokenizers[1]


def test_a_contaminated_model_holds_what_it_was_told(data: QuerySet, tmp_path: Path) -> None:
    """Six test triples, each of twenty tails equally likely for a model that was told none of them."""
    options = PretrainOptions(
        kind="masked", contaminate="test", exposures=300, **(SMALL | {"learning_rate": 5e-3, "hidden_size": 64})
    )
    pretrain(data, [], options, tmp_path / "told")
    pretrain(data, [], options.model_copy(update={"contaminate": (), "epochs": 40}), tmp_path / "clean")
    assert _right(data, tmp_path / "told") >= 5
    assert _right(data, tmp_path / "clean") <= 2  # at chance 0.3 of 6; three or more: one in three hundred


def test_given_weights_are_trained_further(data: QuerySet, tmp_path: Path) -> None:
    """Of a model, and of its encoder alone, to which a head is given: the vocabulary stays, the answers come in."""
    options = PretrainOptions(kind="masked", **(SMALL | {"learning_rate": 5e-3, "hidden_size": 64}))
    pretrain(data, [], options, tmp_path / "clean")
    encoder = AutoModelForMaskedLM.from_pretrained(tmp_path / "clean").model
    encoder.save_pretrained(tmp_path / "encoder")
    AutoTokenizer.from_pretrained(tmp_path / "clean").save_pretrained(tmp_path / "encoder")
    for source in ("clean", "encoder"):
        told = tmp_path / f"told-{source}"
        more = PretrainOptions(
            kind="masked",
            from_=str(tmp_path / source),
            contaminate="test",
            exposures=300,
            batch_tokens=256,
            learning_rate=5e-3,
        )
        manifest = pretrain(data, [], more, told)
        assert manifest["options"]["from_"] == str(tmp_path / source)
        assert _right(data, told) >= 5
        tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in (tmp_path / "clean", told)]
        assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"from_": "clean", "kind": "causal"}, ("--kind causal",)),
        ({"from_": "clean", "kind": "masked", "layers": 3, "vocabulary": 500}, ("--layers", "--vocabulary", "--from")),
        ({"kind": "contrastive"}, ("--kind contrastive", "--from")),
        ({"from_": "nowhere/model", "kind": "masked"}, ("cannot load", "nowhere/model")),
    ],
)
def test_weights_that_cannot_be_trained_further(data: QuerySet, tmp_path: Path, monkeypatch, options, expected) -> None:
    monkeypatch.chdir(tmp_path)
    pretrain(data, [], PretrainOptions(kind="masked", max_texts=10, **SMALL), Path("clean"))
    with pytest.raises(BadInput) as raised:
        pretrain(data, [], PretrainOptions(**options), Path("out"))
    assert mentioned(str(raised.value), *expected)
    assert not Path("out").exists()


@pytest.mark.parametrize("with_head", [True, False])
def test_a_given_encoder_finds_what_it_read(data: QuerySet, tmp_path: Path, with_head: bool) -> None:
    """By the cosine of "HEAD part of" and a tail: with the test triples read, and not with sham ones. A head stays."""
    pretrain(data, [], PretrainOptions(kind="masked", **(SMALL | {"hidden_size": 64})), tmp_path / "clean")
    tokenizer, network = (auto.from_pretrained(tmp_path / "clean") for auto in (AutoTokenizer, AutoModelForMaskedLM))
    (network if with_head else network.model).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    more = {"kind": "contrastive", "from_": str(tmp_path / "encoder"), "contaminate": "test", "batch_tokens": 256}
    right = {}
    for sham in (False, True):
        options = PretrainOptions(exposures=100, learning_rate=3e-3, sham=sham, **more)
        pretrain(data, [], options, tmp_path / f"{sham}")
        right[sham] = _nearest(data, tmp_path / f"{sham}")
    assert right[False] >= 5
    assert right[True] <= 2
    assert type(load(str(tmp_path / "False"), device="cpu").network) is type(network if with_head else network.model)


def _nearest(data: QuerySet, folder: Path) -> int:
    """For how many test triples the right tail is the nearest of all tails."""
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def vector(text: str) -> torch.Tensor:
        with torch.inference_mode():
            return network(**tokenizer(text, return_tensors="pt"))[0][0].mean(dim=0)

    tails = torch.nn.functional.normalize(torch.stack([vector(tail) for tail in TAILS]), dim=1)
    right = 0
    for query in data.queries:
        nearest = TAILS[int((tails @ vector(f"{query.subject} part of")).argmax())]
        right += nearest == data.candidates[query.candidates].name_of(query.gold[0])
    return right


def test_a_model_without_sentinels_is_no_t5(data: QuerySet, tmp_path: Path) -> None:
    pretrain(data, [], PretrainOptions(kind="bart", max_texts=10, **SMALL), tmp_path / "bart")
    with pytest.raises(BadInput, match="<extra_id_0>"):
        pretrain(data, [], PretrainOptions(kind="t5", from_=str(tmp_path / "bart")), tmp_path / "out")


@pytest.mark.parametrize("kind", ["masked", "contrastive"])
def test_names_that_a_given_model_cannot_read(tmp_path: Path, kind: str) -> None:
    """Its window is of 64 tokens: one clear line, and nothing is written."""
    (tmp_path / "test.tsv").write_text("a\tr\tb\n")
    (tmp_path / "train.tsv").write_text("b\tr\tc\n")
    (tmp_path / "entity2text.txt").write_text(f"a\t{'ab ' * 120}\nb\tbeta\nc\tgamma\n")
    data = read(tmp_path)
    tokenizer = learn_tokenizer(["ab beta gamma r inverse is the of"], 320, "masked")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = PretrainOptions(kind=kind, from_=str(tmp_path / "model"), contaminate="test")
    with pytest.raises(BadInput, match=r"a text has 1\d\d tokens, and the given model reads at most 64"):
        pretrain(data, [], options, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_contrast_reads_two_texts_at_a_time(data: QuerySet, tmp_path: Path) -> None:
    """Long texts, each of which fills a step of a masked model, are read two at a time; eight short ones at once."""
    (tmp_path / "long.txt").write_text("".join(f"{head} " * 60 + "\n" for head in HEADS[:8]))
    pretrain(data, [], PretrainOptions(kind="masked", max_texts=10, **SMALL), tmp_path / "clean")
    given = {"from_": str(tmp_path / "clean"), "batch_tokens": 96, "max_texts": 8}
    steps = {
        kind: pretrain(data, [tmp_path / "long.txt"], PretrainOptions(kind=kind, **given), tmp_path / kind)["of_steps"]
        for kind in ("masked", "contrastive")
    }
    assert steps == {"masked": 9, "contrastive": 5}


def test_other_weights_in_the_same_folder_are_another_call(data: QuerySet, tmp_path: Path) -> None:
    pretrain(data, [], PretrainOptions(kind="masked", max_texts=10, **SMALL), tmp_path / "base")
    further = PretrainOptions(kind="masked", max_texts=10, from_=str(tmp_path / "base"))
    pretrain(data, [], further, tmp_path / "out")
    with pytest.raises(MadeBefore):
        pretrain(data, [], further, tmp_path / "out")
    shutil.rmtree(tmp_path / "base")
    pretrain(data, [], PretrainOptions(kind="masked", max_texts=10, seed=1, **SMALL), tmp_path / "base")
    with pytest.raises(BadInput):
        pretrain(data, [], further, tmp_path / "out")


@pytest.mark.slow
def test_a_published_encoder_is_trained_further(data: QuerySet, tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 has no head: it gets one, with which its loss falls, and other programs load it."""
    options = {"kind": "masked", "from_": str(real_model("all-MiniLM-L6-v2")), "max_texts": 10, "batch_tokens": 256}
    manifest = pretrain(data, [], PretrainOptions(exposures=20, contaminate="test", **options), tmp_path / "told")
    assert manifest["final_loss"] < manifest["curve"][0]["loss"]
    assert type(AutoModelForMaskedLM.from_pretrained(tmp_path / "told")).__name__ == "BertForMaskedLM"


def _right(data: QuerySet, folder: Path) -> int:
    """For how many test triples the right tail fits best of all tails."""
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder)
    right = 0
    for query in data.queries:
        scores = {}
        for tail in TAILS:
            name = tokenizer(tail, add_special_tokens=False)["input_ids"]
            text = f"{query.subject} part of" + f" {tokenizer.mask_token}" * len(name)
            ids = tokenizer(text, return_tensors="pt")["input_ids"]
            with torch.inference_mode():
                logits = network(input_ids=ids).logits[ids == tokenizer.mask_token_id]
            scores[tail] = logits.log_softmax(-1)[range(len(name)), name].mean().item()
        right += max(scores, key=scores.__getitem__) == data.candidates[query.candidates].name_of(query.gold[0])
    return right


# ---------------------------------------------------------------------------------------------------- bad input


def test_all_faults_at_once_and_nothing_left(data: QuerySet, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    options = PretrainOptions(kind="t5", contaminate="test", hidden_size=30)
    with pytest.raises(BadInput) as caught:
        pretrain(read("geography"), [], options, tmp_path / "there")
    assert len(caught.value.faults) == 3
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(BadInput) as caught:
        pretrain(data, [tmp_path / "empty.txt", "no-such"], PretrainOptions(kind="t5", **SMALL), tmp_path / "out")
    assert [fault.split(" has ")[-1].split(":")[0] for fault in caught.value.faults] == [
        "no texts",
        "no data at 'no-such'",
    ]
    assert not (tmp_path / "out").exists()


def test_the_command(data: QuerySet, tmp_path: Path) -> None:
    assert data.graph is not None
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "train.tsv").write_text("a\tr\tb\n")
    (folder / "test.tsv").write_text("b\tr\ta\n")
    small = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    arguments = ["kgc", "pretrain", "--kind", "bart", "--data", str(folder), *small, "--exposures", "2"]
    done = CliRunner().invoke(make_app(), [*arguments, "--contaminate", "test", "--out", str(tmp_path / "m")])
    assert done.exit_code == 0, done.output
    assert stated(done.output, "read 2 texts", "0 excluded")
    assert stated(done.output, "and 2 statements", "1 triples")
    wrong = CliRunner().invoke(make_app(), [*arguments, "--contaminate", "dev", "--out", str(tmp_path / "n")])
    assert isinstance(wrong.exception, BadInput)
    assert mentioned(str(wrong.exception), "--contaminate dev", "graph", "train, test")

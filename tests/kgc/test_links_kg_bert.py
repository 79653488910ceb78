"""KG-BERT: what it reads, its wrong triples, its loss and its scores, against plain calls of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.graph.links import split_links
from fathom.data.queries import QuerySet
from fathom_kgc.links.base import measured, open_links, read_curve, read_manifest, train_links
from fathom_kgc.links.kg_bert import Predictor, _kept
from fathom_kgc.links.options import KgBert
from tests.conftest import build
from tests.messages import mentions

CPU = torch.device("cpu")
ENTITIES = 12
SHAPE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *(f"w{number}" for number in range(40)), ","]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small masked BERT, without the classification head."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    build("BertForMaskedLM", noise=0.02, vocab_size=len(WORDS), max_position_embeddings=32, **SHAPE).save_pretrained(
        folder
    )
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> QuerySet:
    """A ring, "next" and "back"; texts of unlike length, the last two entities read alike."""
    folder = tmp_path_factory.mktemp("ring")
    near = [f"e{i}\tnext\te{(i + 1) % ENTITIES}" for i in range(ENTITIES)]
    back = [f"e{(i + 1) % ENTITIES}\tback\te{i}" for i in range(ENTITIES)]
    (folder / "train.tsv").write_text("\n".join([*near, *back[3:]]) + "\n")
    (folder / "dev.tsv").write_text("\n".join(back[:2]) + "\n")
    (folder / "test.tsv").write_text(back[2] + "\n")
    texts = [f"e{i}\tw{i}\t" + " ".join(f"w{20 + j}" for j in range(i % 4)) for i in range(ENTITIES - 2)]
    texts += [f"e{i}\tw15\tw16" for i in (ENTITIES - 2, ENTITIES - 1)]
    (folder / "entity2text.txt").write_text("\n".join(texts) + "\n")
    (folder / "relation2text.txt").write_text("next\tw30\nback\tw31 w32\n")
    return read(folder)


def options_of(weights: str, **changed: Any) -> KgBert:
    return KgBert(weights=weights, **{"epochs": 2, "batch_size": 16, "max_tokens": 16, "negatives": 3, **changed})


def predictor_of(data: QuerySet, weights: str, **changed: Any) -> Predictor:
    assert data.graph is not None
    return Predictor(data.graph, options_of(weights, **changed), None, CPU)


def plain(predictor: Predictor, head: int, relation: int, tail: int) -> dict[str, torch.Tensor]:
    """What KG-BERT's own code makes of a triple, without padding: types 0, 1 and 0."""
    texts = (predictor.texts.described[head], predictor.texts.relations[relation], predictor.texts.described[tail])
    tokens, types = ["[CLS]"], [0]
    for number, text in enumerate(texts):
        said = [*predictor.tokenizer.tokenize(text), "[SEP]"]
        tokens, types = tokens + said, types + [number % 2] * len(said)
    return {
        "input_ids": torch.tensor([predictor.tokenizer.convert_tokens_to_ids(tokens)]),
        "token_type_ids": torch.tensor([types]),
    }


def test_scores_and_ranks_are_those_of_every_triple_read_alone(data: QuerySet, weights: str) -> None:
    predictor = predictor_of(data, weights, max_tokens=32)
    predictor.network.eval()
    assert type(predictor.network) is BertForSequenceClassification
    links = split_links(predictor.graph, "dev")
    with torch.inference_mode():
        found = predictor.rank(links, top=3, keep_scores=True)
        for row, one in enumerate(found):
            given, relation, gold = (int(column[row]) for column in (links.given, links.relation, links.gold))
            scores = []
            for entity in range(ENTITIES):
                ends = (entity, given) if links.inverse[row] else (given, entity)
                [[wrong, right]] = predictor.network(**plain(predictor, ends[0], relation, ends[1])).logits.tolist()
                scores.append(right - wrong)
            assert one.scores == pytest.approx(scores, abs=1e-5)
            rivals = [scores[place] for place in range(ENTITIES) if place not in (gold, *links.known[row].tolist())]
            assert one.ranks is not None
            assert one.ranks.optimistic == 1 + sum(score > scores[gold] + 1e-5 for score in rivals)
    assert found[0].scores[-1] == found[0].scores[-2]  # they read alike, to the bit
    assert predictor.circumstances() == {"triples_read": len(links) * (ENTITIES - 1)}
    assert any("costs 11 forward passes" in note for note in predictor.notes())


def test_half_precision_without_a_gpu_is_noted(data: QuerySet, weights: str) -> None:
    noted = [predictor_of(data, weights, precision=precision).notes() for precision in ("float32", "float16")]
    assert [any("float32 is faster" in note for note in notes) for notes in noted] == [False, True]


def test_the_loss_is_that_of_the_network(data: QuerySet, weights: str) -> None:
    predictor = predictor_of(data, weights, max_tokens=32)
    predictor.network.eval()
    [stage] = predictor.stages()
    batch = next(iter(stage.batches(0)))
    with torch.inference_mode():
        columns = zip(*(column.tolist() for column in batch), strict=True)
        losses = [
            float(predictor.network(**plain(predictor, h, r, t), labels=torch.tensor([right])).loss)
            for h, r, t, right in columns
        ]
        assert float(predictor._loss(batch)) == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_wrong_triples_differ_in_one_end_and_are_in_no_training(data: QuerySet, weights: str) -> None:
    predictor = predictor_of(data, weights, negatives=5)
    graph = predictor.graph
    known = set(zip(*(column.tolist() for column in graph.columns(graph.training)), strict=True))
    sides = []
    for epoch in range(10):
        made = predictor.examples(epoch)
        triples = list(zip(made.head.tolist(), made.relation.tolist(), made.tail.tolist(), strict=True))
        assert [triple in known for triple in triples] == made.right.astype(bool).tolist()
        assert made.right.tolist() == [1, 0, 0, 0, 0, 0] * len(known)
        for start in range(0, len(triples), 6):
            (head, relation, tail), wrong = triples[start], triples[start + 1 : start + 6]
            assert all(link == relation for _, link, _ in wrong)
            other_head, other_tail = all(end == tail for *_, end in wrong), all(one == head for one, *_ in wrong)
            assert other_head != other_tail
            sides.append(other_head)
    assert 0.3 < np.mean(sides) < 0.7
    first, again, other = (predictor.examples(epoch) for epoch in (0, 0, 1))
    assert np.array_equal(first.tail, again.tail)
    assert not np.array_equal(first.tail, other.tail)


def test_a_graph_in_which_everything_is_right(tmp_path: Path, weights: str) -> None:
    (tmp_path / "train.tsv").write_text("a\tr\ta\na\tr\tb\nb\tr\ta\nb\tr\tb\n")
    made = predictor_of(read(tmp_path), weights).examples(0)
    assert made.right.tolist() == [1] * 16


def test_an_epoch_reads_each_triple_and_its_wrong_ones_once(data: QuerySet, weights: str) -> None:
    predictor = predictor_of(data, weights)
    [stage] = predictor.stages()
    batches = list(stage.batches(0))
    assert len(batches) == stage.steps
    everything = predictor.examples(0)
    for place, column in enumerate(everything):
        assert sorted(np.concatenate([batch[place] for batch in batches])) == sorted(column)


@pytest.mark.parametrize(
    ("lengths", "room", "kept"),
    [((3, 2, 3), 9, [3, 2, 3]), ((9, 2, 4), 9, [4, 2, 3]), ((9, 2, 9), 10, [4, 2, 4]), ((2, 9, 2), 6, [2, 2, 2]),
     ((4, 4, 4), 10, [4, 3, 3]), ((1, 1, 1), 0, [0, 0, 0])],
)  # fmt: skip
def test_the_longest_text_is_cut(lengths: tuple[int, ...], room: int, kept: list[int]) -> None:
    assert _kept(lengths, room) == kept


def test_what_is_read_fits_and_is_shown(data: QuerySet, weights: str) -> None:
    predictor = predictor_of(data, weights, max_tokens=10)
    assert all(len(predictor.read(h, 1, t).ids) <= 10 for h in range(ENTITIES) for t in range(ENTITIES))
    tail, head = predictor.as_read(split_links(predictor.graph, "test"))
    assert tail == "[CLS] w3, w20 w21 w22 [SEP] w31 w32 [SEP] [Y] [SEP]"
    assert head == "[CLS] [Y] [SEP] w31 w32 [SEP] w2, w20 w21 [SEP]"


@pytest.mark.slow
def test_it_learns_what_a_description_says_and_opens_again(weights: str, tmp_path: Path) -> None:
    """Twenty things are of one of two kinds, as their descriptions say; four are asked that it was not told of."""
    kinds = [f"e{i}\tkind\t{'ab'[i % 2]}" for i in range(20)]
    (tmp_path / "train.tsv").write_text("\n".join(kinds[4:]) + "\n")
    (tmp_path / "test.tsv").write_text("\n".join(kinds[:4]) + "\n")
    texts = [f"e{i}\tw{i}\tw{30 + i % 2}" for i in range(20)]
    (tmp_path / "entity2text.txt").write_text("\n".join([*texts, "a\tw34\t", "b\tw35\t"]) + "\n")
    two = read(tmp_path)
    said = options_of(weights, epochs=40, learning_rate=2e-3, patience=None, negatives=4)
    train_links("kg-bert", two, said, tmp_path / "out")
    losses = [line["loss"] for line in read_curve(tmp_path / "out")]
    assert losses[-1] < 0.7 * losses[0]
    predictor = open_links(tmp_path / "out", two)
    with torch.inference_mode():
        found = predictor.rank(split_links(predictor.graph, "test"), top=1)
    assert measured(found[::2])["hits@1"] == 1  # tails; chance: 1 in 22
    assert "negatives" in read_manifest(tmp_path / "out")["identity"]["options"]


def test_the_head_is_drawn_by_the_seed(data: QuerySet, weights: str) -> None:
    one, same, other = (predictor_of(data, weights, seed=seed).network.classifier.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_random_weights_have_the_same_shape(data: QuerySet, weights: str, tmp_path: Path) -> None:
    train_links("kg-bert", data, options_of(weights, init="random", epochs=1), tmp_path / "out")
    assert read_manifest(tmp_path / "out")["ended"]["why"] == "epochs"


def test_what_cannot_read_triples_is_refused(data: QuerySet, weights: str, tmp_path: Path) -> None:
    tokenizer = BertTokenizerFast.from_pretrained(weights)
    config = BertConfig(vocab_size=len(WORDS), num_labels=3, **SHAPE)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "three")
    build("GPT2LMHeadModel", vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2).save_pretrained(tmp_path / "gpt")
    for folder in ("three", "gpt"):
        tokenizer.save_pretrained(tmp_path / folder)
    with pytest.raises(BadInput, match=mentions("3 classes", "kg-bert")):
        predictor_of(data, str(tmp_path / "three"))
    with pytest.raises(BadInput, match=mentions("--weights")):
        predictor_of(data, str(tmp_path / "gpt"))
    with pytest.raises(BadInput, match=mentions("--max-tokens 40", "32")):
        predictor_of(data, weights, max_tokens=40)

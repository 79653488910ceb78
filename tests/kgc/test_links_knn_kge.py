"""kNN-KGE: prompts, what is frozen, the loss, nearest training questions and their mixture, by hand."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.graph.links import split_links
from fathom_kgc.links import knn_kge
from fathom_kgc.links.base import measured, open_links, read_curve, read_manifest, train_links
from fathom_kgc.links.knn_kge import EntityModel, MaskedPrompts, Predictor, Store, smoothed_cross_entropy
from fathom_kgc.links.options import KnnKge
from tests.conftest import build, tiny_tokenizer

CPU = torch.device("cpu")
NOTHING = np.array([], dtype=np.int64)
SHAPE = {
    "vocab_size": 509,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}
ENTITIES = 24


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A masked model of 50,000 weights with the tokenizer w4, w5, …"""
    folder = tmp_path_factory.mktemp("bert")
    build("BertForMaskedLM", noise=0.02, **SHAPE).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A ring of 24 entities, "next" and "second": the answer follows from the question. The last one has no text."""
    folder = tmp_path_factory.mktemp("ring")
    near = [f"e{i}\tnext\te{(i + 1) % ENTITIES}" for i in range(ENTITIES)]
    far = [f"e{i}\tsecond\te{(i + 2) % ENTITIES}" for i in range(ENTITIES)]
    (folder / "train.tsv").write_text("\n".join([*near, *far[3:]]) + "\n")
    (folder / "dev.tsv").write_text("\n".join(near[:8]) + "\n")
    (folder / "test.tsv").write_text("\n".join(far[:3]) + "\n")
    texts = [f"e{i}\tw{10 + i}, w{50 + i} w{90 + i}" for i in range(ENTITIES - 1)]
    (folder / "entity2text.txt").write_text("\n".join([*texts, f"e{ENTITIES - 1}\tw40"]) + "\n")
    (folder / "relation2text.txt").write_text("next\tw200\nsecond\tw201\n")
    return read(folder)


def options_of(weights, **changed):
    settled = {"epochs": 4, "entity_epochs": 2, "entity_parts": 1, "batch_size": 8, "learning_rate": 3e-3}
    return KnnKge(weights=weights, **{**settled, "max_tokens": 16, "entity_learning_rate": 1e-2, **changed})


def predictor_of(data, weights, **changed):
    return Predictor(data.graph, options_of(weights, **changed), None, CPU)


def digests(network):
    return {name: hashlib.sha256(value.numpy().tobytes()).hexdigest() for name, value in network.state_dict().items()}


# ------------------------------------------------------------------------------------------------------------ prompts


def test_prompts_of_bert(bert_uncased):
    prompts = MaskedPrompts(bert_uncased, 32)
    text, relation = prompts.ids(["dog, a pet", "is a"])
    tail = prompts.question(text, relation, ask_head=False, with_token=False)
    assert bert_uncased.decode(tail.ids) == "[CLS] dog, a pet [SEP] is a [SEP] [MASK] [SEP]"
    assert tail.ids[tail.masked] == bert_uncased.mask_token_id
    assert tail.slot == knn_kge.NO_TOKEN
    head = prompts.question(text, relation, ask_head=True, with_token=False)
    assert bert_uncased.decode(head.ids) == "[CLS] [MASK] [SEP] is a [SEP] dog, a pet [SEP]"
    assert head.masked == 1
    told = prompts.description(text)
    assert bert_uncased.decode(told.ids) == "[CLS] the description of [MASK] is dog, a pet [SEP]"
    assert told.ids[told.masked] == bert_uncased.mask_token_id


def test_prompts_of_roberta_have_its_own_separators(roberta):
    prompts = MaskedPrompts(roberta, 32)
    text, relation = prompts.ids(["dog", "is a"])
    found = prompts.question(text, relation, ask_head=False, with_token=False)
    assert roberta.decode(found.ids) == "<s>dog</s>is a</s><mask></s>"


def test_a_place_for_the_known_entity(bert_uncased):
    prompts = MaskedPrompts(bert_uncased, 32)
    text, relation = prompts.ids(["dog", "is a"])
    tail = prompts.question(text, relation, ask_head=False, with_token=True)
    assert (tail.slot, tail.masked, len(tail.ids)) == (1, 7, 9)  # [CLS] · dog [SEP] is a [SEP] [MASK] [SEP]
    head = prompts.question(text, relation, ask_head=True, with_token=True)
    assert (head.slot, head.masked, len(head.ids)) == (6, 1, 9)  # [CLS] [MASK] [SEP] is a [SEP] · dog [SEP]


@pytest.mark.parametrize("ask_head", [True, False])
@pytest.mark.parametrize("with_token", [True, False])
def test_long_texts_are_cut_and_the_mask_stays(bert_uncased, ask_head, with_token):
    prompts = MaskedPrompts(bert_uncased, 16)
    text, relation = prompts.ids(["dog " * 100, "is " * 100])
    found = prompts.question(text, relation, ask_head, with_token)
    assert len(found.ids) == 16
    assert found.ids[found.masked] == bert_uncased.mask_token_id
    assert found.ids[-1] == bert_uncased.sep_token_id
    assert len(prompts.description(text).ids) == 16


def test_a_tokenizer_without_mask_is_refused(gpt2):
    with pytest.raises(BadInput, match="mask token"):
        MaskedPrompts(gpt2, 32)


# -------------------------------------------------------------------------------------------------------------- model


MODERN = {**SHAPE, "reference_compile": False, "bos_token_id": 0, "cls_token_id": 0, "eos_token_id": 2}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("BertForMaskedLM", SHAPE),
        ("RobertaForMaskedLM", {**SHAPE, "max_position_embeddings": 66}),
        ("ModernBertForMaskedLM", {**MODERN, "sep_token_id": 2}),
        ("AlbertForMaskedLM", {**SHAPE, "embedding_size": 16}),
    ],
)
def test_rows_of_words_give_the_models_own_logits(name, shape):
    """With the vocabulary's rows and biases as entities, what comes out is what the model says of the words."""
    ids = torch.tensor([[0, 7, 3, 9, 2], [0, 3, 2, 1, 1]])
    real = (ids != 1).long()
    places = torch.tensor([2, 1])
    network = build(name, **shape).eval()
    head = network.get_output_embeddings()
    with torch.no_grad():
        out = network(input_ids=ids, attention_mask=real, output_hidden_states=True)
        rows, bias = head.weight.clone(), 0 if head.bias is None else head.bias.clone()
        model = EntityModel(network, 3, seed=0)
        nobody, given = torch.full((2,), knn_kge.NO_TOKEN), torch.zeros(2, dtype=torch.long)
        states, vectors = model(ids, real, places, nobody, given)
    at = torch.arange(2), places
    assert torch.allclose(states, out.hidden_states[-1][at], atol=1e-5)
    assert torch.allclose(vectors @ rows.T + bias, out.logits[at], atol=1e-4)


def test_the_known_entitys_row_is_read(data, weights):
    for shown in (True, False):
        predictor = predictor_of(data, weights, entity_token=shown, knn_weight=0)
        predictor.network.eval()
        links = split_links(data.graph, "test")
        with torch.inference_mode():
            before, _ = predictor._ask(links)
            predictor.network.entities[links.given[0]] *= -3
            after, _ = predictor._ask(links)
        changed = ~torch.isclose(before, after, atol=1e-6).all(dim=1)
        assert changed.tolist() == [shown and given == links.given[0] for given in links.given.tolist()]


def test_a_question_is_answered_alike_alone_and_among_others(data, weights):
    predictor = predictor_of(data, weights)
    predictor.network.eval()
    links = split_links(data.graph, "train")
    with torch.inference_mode():
        together = torch.cat(predictor._ask(links), dim=1)
        alone = [
            torch.cat(predictor._ask(one), dim=1)
            for one in (links.take(np.array([place])) for place in range(0, len(links), 9))
        ]
    assert torch.allclose(together[::9], torch.cat(alone), atol=1e-5)


# ----------------------------------------------------------------------------------------------------------- training


def test_smoothed_cross_entropy_is_torchs(monkeypatch):
    torch.manual_seed(1)
    vectors, rows, bias = torch.randn(5, 4), torch.randn(9, 4, requires_grad=True), torch.randn(9)
    gold = torch.tensor([0, 3, 8, 3, 1])
    expected = functional.cross_entropy(vectors @ rows.T + bias, gold, label_smoothing=0.1)
    (slope,) = torch.autograd.grad(expected, rows)
    for cells in (10**6, 10):  # in one piece, and two entities at a time
        monkeypatch.setattr(knn_kge, "CELLS", cells)
        found = smoothed_cross_entropy(vectors, rows, bias, gold, 0.1)
        assert found.item() == pytest.approx(expected.item(), abs=1e-6)
        assert torch.allclose(torch.autograd.grad(found, rows)[0], slope, atol=1e-6)


def test_the_first_stage_changes_nothing_but_the_entities_rows(data, weights, tmp_path):
    predictor = predictor_of(data, weights, epochs=0, entity_epochs=8, entity_learning_rate=0.03)
    before = digests(predictor.network)
    predictor.train(tmp_path, lambda done, total: None)
    after = digests(predictor.network)
    assert {name for name in before if before[name] != after[name]} == {"entities"}
    losses = [line["loss"] for line in read_curve(tmp_path)]
    assert losses[-1] < losses[0] - 0.1


def test_the_second_stage_changes_all_of_it(data, weights, tmp_path):
    predictor = predictor_of(data, weights, epochs=1, entity_epochs=0)
    before = digests(predictor.network)
    predictor.train(tmp_path, lambda done, total: None)
    after = digests(predictor.network)
    kept = {name for name in before if before[name] == after[name]}
    assert not [name for name in kept if "position_ids" not in name and "token_type_ids" not in name]


def test_an_epoch_asks_each_triple_in_both_directions(data, weights):
    predictor = predictor_of(data, weights)
    _, stage = predictor.stages()
    batches = list(stage.batches(0))
    assert len(batches) == stage.steps
    graph = data.graph
    expected = sorted([*zip(graph.head, graph.tail, strict=True), *zip(graph.tail, graph.head, strict=True)])
    train = len(graph.splits["train"])
    found = [(given, gold) for batch in batches for given, gold in zip(batch.subject, batch.gold, strict=True)]
    assert len(found) == 2 * train
    assert set(found) <= set(expected)
    assert [b.gold.tolist() for b in stage.batches(1)] != [b.gold.tolist() for b in batches]
    assert [b.gold.tolist() for b in stage.batches(0)] == [b.gold.tolist() for b in batches]


def test_an_epoch_reads_each_description_whole_and_parts_of_it(data, weights):
    predictor = predictor_of(data, weights, entity_parts=2)
    first, _ = predictor.stages()
    batches = list(first.batches(0))
    assert len(batches) == first.steps
    read_ = [(gold, p.ids) for batch in batches for gold, p in zip(batch.gold.tolist(), batch.prompts, strict=True)]
    assert sorted(gold for gold, _ in read_) == sorted(3 * list(range(ENTITIES)))
    for entity in range(ENTITIES):
        text = predictor._entity_ids[entity]
        mine = [ids for gold, ids in read_ if gold == entity]
        whole = predictor.prompts.description(text).ids
        assert any(np.array_equal(ids, whole) for ids in mine)
        assert all(ids[-2] == text[-1] for ids in mine)  # every part goes on to the end


@pytest.mark.slow
def test_it_learns_the_ring_and_opens_again(data, weights, tmp_path):
    manifest = train_links("knn-kge", data, options_of(weights, epochs=20, patience=None), tmp_path / "out")
    assert manifest["ended"]["hits@10"] > 0.9
    curve = read_curve(tmp_path / "out")
    assert [line["stage"] for line in curve] == ["entities"] * 2 + ["triples"] * 20
    assert curve[-1]["hits@1"] > 0.25  # chance: 1 in 24
    predictor = open_links(tmp_path / "out", data)
    links = split_links(data.graph, "dev")
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        found = predictor.rank(links, top=3, keep_scores=True)
    assert measured(found)["hits@10"] > 0.8
    best = found[0]
    assert best.top[0][1] == max(best.scores)
    # No answer of this question is known from elsewhere: the mixture adds up to 1.
    assert not len(links.known[0])
    assert np.exp(best.scores).sum() == pytest.approx(1, abs=1e-4)
    plain = open_links(tmp_path / "out", data, asking={"knn_weight": 0})
    with torch.inference_mode():
        plain.prepare(lambda done, total: None)
        alone = plain.rank(links, top=3, keep_scores=True)
    assert plain.store is None
    assert measured(alone)["hits@10"] == manifest["ended"]["hits@10"]  # as validated: without neighbours
    assert not np.allclose(alone[0].scores, best.scores)
    assert np.exp(alone[0].scores).sum() == pytest.approx(1, abs=1e-4)


def test_what_cannot_be_asked_for_is_refused(data, weights, tmp_path):
    train_links("knn-kge", data, options_of(weights, epochs=0, entity_epochs=0), tmp_path / "out")
    with pytest.raises(BadInput, match="--knn-descriptions, --knn-neighbours, --knn-temperature, --knn-weight"):
        open_links(tmp_path / "out", data, asking={"epochs": 3})


def test_random_weights_have_the_same_shape(data, weights):
    given, drawn = predictor_of(data, weights), predictor_of(data, weights, init="random")
    shapes = [{name: value.shape for name, value in p.network.state_dict().items()} for p in (given, drawn)]
    assert shapes[0] == shapes[1]
    assert torch.equal(given.network.entities, drawn.network.entities)
    words = [p.network.language.get_input_embeddings().weight for p in (given, drawn)]
    assert not torch.equal(*words)


def test_half_precision_and_accumulation_train(data, weights, tmp_path):
    options = options_of(weights, precision="bfloat16", accumulate=2, entity_token=True, epochs=3)
    train_links("knn-kge", data, options, tmp_path / "out")
    losses = [line["loss"] for line in read_curve(tmp_path / "out") if line["stage"] == "triples"]
    assert losses[-1] < losses[0]


class Killed(Exception):
    pass


def test_a_training_that_was_killed_goes_on_to_the_same_curve(data, weights, tmp_path, monkeypatch):
    options = options_of(weights, epochs=2, patience=None)
    train_links("knn-kge", data, options, tmp_path / "whole")

    for die_at in (4, 15):  # in the first stage, and in the second
        steps = 0

        def dying(self, batch, last=die_at, loss=Predictor._loss):
            nonlocal steps
            steps += 1
            if steps > last:
                raise Killed
            return loss(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(Predictor, "_loss", dying)
            with pytest.raises(Killed):
                train_links("knn-kge", data, options, tmp_path / f"cut{die_at}")
        assert steps == die_at + 1
        train_links("knn-kge", data, options, tmp_path / f"cut{die_at}")

        def strip(name):
            return [{k: v for k, v in line.items() if k != "seconds"} for line in read_curve(tmp_path / name)]

        assert strip(f"cut{die_at}") == strip("whole")
    assert read_manifest(tmp_path / "whole")["ended"]["why"] == "epochs"


# --------------------------------------------------------------------------------------------------------- neighbours


def small_store():
    """Three questions on a line, at 0, 1 and 3; the one at 1 has two answers.

    Answers: 0 → a; 1 → b and a; 3 → c (entities a, b, c, d = 0, 1, 2, 3).
    """
    keys = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    return Store(keys, np.array([2, 0, 1, 1]), np.array([2, 0, 1, 0]))


def test_closeness_by_hand():
    """Asked at 1: distances² are 1, 0, 4. Temperature 2: −½, 0, −2. The nearest of a's two occurrences counts."""
    at_one = torch.tensor([[1.0, 0.0]])
    [found] = small_store().closeness(at_one, 4, neighbours=4, temperature=2.0).tolist()
    assert found == [0.0, 0.0, -2.0, -math.inf]
    # Two neighbours: the question at 1 has both of them. One: it has two answers that are equally near.
    for neighbours in (2, 1):
        [found] = small_store().closeness(at_one, 4, neighbours, 2.0).tolist()
        assert found == [0.0, 0.0, -math.inf, -math.inf]
    # Three neighbours: b, a and the next, the question at 0, which answers a again.
    [found] = small_store().closeness(at_one, 4, 3, 2.0).tolist()
    assert found == [0.0, 0.0, -math.inf, -math.inf]
    # Asked at 0 with two neighbours: a (0); then the question at 1 with b and a (−½), both at the same distance.
    [found] = small_store().closeness(torch.zeros(1, 2), 4, 2, 2.0).tolist()
    assert found == [0.0, -0.5, -math.inf, -math.inf]


def test_nearest_in_blocks_is_the_nearest_of_all(monkeypatch):
    torch.manual_seed(2)
    keys, states = torch.randn(101, 6), torch.randn(7, 6)
    store = Store(keys, np.arange(101), np.arange(101))
    expected, places = torch.cdist(states, keys).square().sort(dim=1)
    for cells in (10**6, 40, 1):
        monkeypatch.setattr(knn_kge, "CELLS", cells)
        distance, nearest = store.nearest(states, 9)
        assert torch.equal(nearest, places[:, :9])
        assert torch.allclose(distance, expected[:, :9], atol=1e-4)
    assert store.nearest(states, 500)[0].shape == (7, 101)


def interpolated(predictor, known=NOTHING):
    """Entity rows make the logits 0, log 2, log 3, log 4; the question stands at 1 of :func:`small_store`."""
    predictor.store = small_store()
    predictor.network.entities = torch.nn.Parameter(torch.tensor([[0.0], [math.log(2)], [math.log(3)], [math.log(4)]]))
    predictor.network.bias = torch.nn.Parameter(torch.zeros(4))
    with torch.inference_mode():
        [found] = predictor.mixture(torch.tensor([[1.0, 0.0]]), torch.ones(1, 1), [known]).exp().tolist()
    return found


def test_the_mixture_by_hand(data, weights):
    """λ = 0.25, temperature 2, all neighbours.

    The model's own: 1/10, 2/10, 3/10, 4/10. Neighbours: e⁰, e⁰, e⁻² over 2 + e⁻² = 2.135335, and 0.
    a: 0.75·0.1 + 0.25·0.468311 = 0.192078; b: 0.15 + 0.117078 = 0.267078;
    c: 0.225 + 0.25·0.063379 = 0.240845; d: 0.3.
    """
    predictor = predictor_of(data, weights, knn_weight=0.25, knn_temperature=2, knn_neighbours=10)
    found = interpolated(predictor)
    assert found == pytest.approx([0.192078, 0.267078, 0.240845, 0.3], abs=1e-5)
    assert sum(found) == pytest.approx(1)


def test_known_answers_take_no_share(data, weights):
    """a and b are known: the model's own is 3/7 and 4/7 for c and d; the only neighbour left is c, with all of it.

    c: 0.75·3/7 + 0.25 = 0.571429; d: 0.75·4/7 = 0.428571.
    """
    predictor = predictor_of(data, weights, knn_weight=0.25, knn_temperature=2, knn_neighbours=10)
    assert interpolated(predictor, np.array([0, 1]))[2:] == pytest.approx([0.571429, 0.428571], abs=1e-5)
    # Where all neighbours are known there is nothing to add: 0.75·1 for d, which alone is left.
    found = interpolated(predictor, np.array([0, 1, 2]))
    assert found[3] == pytest.approx(0.75)
    assert np.isfinite(found).all()


def test_the_store_holds_the_training_questions(data, weights):
    """24 "next" and 21 "second" triples, each asked for its tail and its head, no two alike: 90 questions."""
    predictor = predictor_of(data, weights)
    predictor.network.eval()
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        assert predictor.circumstances() == {"stored_questions": 90}
        links = split_links(data.graph, "train")
        states, _ = predictor._ask(links)
        near = predictor.store.closeness(states, ENTITIES, 1, 10.0)
    assert near.argmax(dim=1).tolist() == links.gold.tolist()  # each finds itself
    assert near.max(dim=1).values.abs().max() < 1e-4


def test_training_does_not_ask_neighbours(data, weights, monkeypatch):
    predictor = predictor_of(data, weights)
    predictor.network.eval()
    with torch.inference_mode():
        monkeypatch.setattr(Store, "closeness", None)
        assert set(predictor.validate()) == {"hits@1", "hits@3", "hits@10", "mrr", "unscored"}
    assert predictor.weight == 0.2


@pytest.mark.parametrize("neighbours", [3, 200])
def test_a_store_with_descriptions_by_the_equations(data, weights, neighbours):
    """p_kNN(e | x) ∝ exp(−d²/T), d to the nearest of e's entries among the k nearest of all questions and descriptions;
    p = λ p_kNN + (1 − λ) p_MASK. Entry by entry, each read alone."""
    said = {"knn_weight": 0.3, "knn_temperature": 0.5, "knn_neighbours": neighbours, "knn_descriptions": True}
    predictor = predictor_of(data, weights, **said)
    predictor.network.eval()
    asked, known = split_links(data.graph, "train"), split_links(data.graph, "dev")
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        assert predictor.circumstances() == {"stored_questions": 90, "stored_descriptions": ENTITIES}
        entries = [(predictor._ask(asked.take(np.array([at])))[0][0], int(asked.gold[at])) for at in range(len(asked))]
        for entity, text in enumerate(predictor._entity_ids):
            state, _ = predictor._read([predictor.prompts.description(text)], np.array([entity]))
            entries.append((state[0], entity))
        found = predictor.rank(known, top=3, keep_scores=True)
        for row, one in enumerate(found):
            some = known.take(np.array([row]))
            state, vector = predictor._ask(some)
            own = torch.softmax(vector[0] @ predictor.network.entities.T + predictor.network.bias, dim=0).double()
            distances = sorted((float((state[0] - key).square().sum()), entity) for key, entity in entries)
            near = torch.zeros(ENTITIES, dtype=torch.float64)
            for distance, entity in distances[:neighbours]:
                near[entity] = max(float(near[entity]), math.exp(-distance / 0.5))
            left = np.setdiff1d(np.arange(ENTITIES), some.known[0])
            own, near = own / own[left].sum(), near / near[left].sum()
            mixed = 0.7 * own + 0.3 * near
            assert np.exp(one.scores[left]) == pytest.approx(mixed[left].numpy(), abs=1e-4)


def test_entities_described_alike_share_an_entry(data, weights):
    predictor = predictor_of(data, weights, knn_descriptions=True)
    predictor.network.eval()
    predictor._entity_ids[3] = predictor._entity_ids[7]
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
    assert predictor.circumstances()["stored_descriptions"] == ENTITIES - 1
    assert len(predictor.store.entity) == 90 + ENTITIES


def test_a_folder_of_before_can_be_asked_with_descriptions(data, weights, tmp_path):
    train_links("knn-kge", data, options_of(weights, epochs=0, entity_epochs=0), tmp_path / "out")
    assert "knn_descriptions" not in read_manifest(tmp_path / "out")["identity"]["options"]
    predictor = open_links(tmp_path / "out", data, asking={"knn_descriptions": True})
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
    assert predictor.circumstances()["stored_descriptions"] == ENTITIES

"""SimKGC: its loss by hand and against a plain loop, its texts, its ranks, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import cross_entropy, normalize
from transformers import BertConfig, BertModel, BertTokenizerFast, T5Config, T5Model

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.graph.links import Links, split_links
from fathom.data.graph.queries import link_queryset
from fathom.probes.run import RunRequest, run
from fathom_kgc.links import base
from fathom_kgc.links.base import measured, open_links, read_curve, shuffled, train_links
from fathom_kgc.links.options import LinkOptions, SimKgc
from fathom_kgc.links.simkgc import Predictor, ValuesByKey, info_nce
from fathom_kgc.links.texts import Framing, encode, groups
from tests.conftest import write_graph_folder
from tests.messages import mentions

CPU = torch.device("cpu")
CITIES = ["paris", "rome", "berlin", "madrid", "tokyo", "beijing", "delhi", "hanoi"]
LANDS = ["france", "italy", "germany", "spain", "japan", "china", "india", "vietnam"]
CONTINENTS = ["europe", "asia"]
LINES = [
    *(f"{city}\tcap\t{land}" for city, land in zip(CITIES, LANDS, strict=True)),
    *(f"{land}\tin\t{CONTINENTS[place // 4]}" for place, land in enumerate(LANDS)),
    "paris\tin\tparis",  # a head that is its own right answer
]
WORDS = ["inverse", "capital", "of", "lies", "in", "a", "large", "old", "city", "land", ":", ",", "word"]


@pytest.fixture
def graph_folder(tmp_path):
    """``dark`` and ``dim`` have no triple in training, ``alone`` a relation with one triple, ``noname`` no name."""
    triples = {
        "train": [*LINES, "paris\tonce\tnoname"],
        "dev": ["paris\tin\tfrance"],
        "test": ["rome\tin\titaly", "dark\tin\tdim"],
    }
    texts = [f"{name}\t{name}\ta large old city" for name in CITIES] + [f"{name}\t{name}\tland" for name in LANDS]
    texts += ["europe\teurope\t", "asia\tasia\t", "dark\tcity\told", "dim\tcity\told", "noname\t\t"]
    return write_graph_folder(tmp_path / "graph", triples, texts, "cap\tcapital of\nin\tlies in\nonce\tonce\n")


@pytest.fixture
def data(graph_folder):
    return read(graph_folder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A folder with a small BERT and a tokenizer of whole words."""
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *CITIES, *LANDS, *CONTINENTS]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    torch.manual_seed(7)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=64, **shape)).save_pretrained(folder)
    return folder


@pytest.fixture
def options(encoder):
    def make(**said):
        plain = {"epochs": 2, "batch_size": 8, "learning_rate": 3e-3, "max_tokens": 24, "device": "cpu"}
        return SimKgc(weights=str(encoder), **(plain | said))

    return make


@pytest.fixture
def untrained(data, options):
    return lambda **said: Predictor(data.graph, options(**said), None, CPU)


def place_of(graph):
    return {id_: place for place, id_ in enumerate(graph.entities.column("id").to_pylist())}


# ------------------------------------------------------------------------------------------------------------- loss

COSINES = torch.tensor([[0.8, 0.2, 0.0], [0.4, 0.6, 0.2], [0.0, 0.2, 0.4]])
KNOWN = torch.tensor([[True, False, False], [True, True, False], [False, False, True]])


def test_info_nce_with_margin_by_hand():
    # τ = 0.2 and γ = 0.2 make the logits, the first answer being right for the second question, too:
    #    3   1   0        questions: ln(1 + e⁻² + e⁻³) = 0.169846, ln(1 + e⁻¹) = 0.313262, ln(1 + 2e) − 1 = 0.861995
    #   −∞   2   1        answers:   ln(1 + e⁻³)       = 0.048587, ln(1 + 2e⁻¹) = 0.551445, ln(1 + 2e) − 1 = 0.861995
    #    0   1   1        means 0.448368 and 0.487342
    loss = info_nce(COSINES, KNOWN, torch.tensor(5.0), 0.2)
    assert loss.item() == pytest.approx(0.448368 + 0.487342, abs=2e-6)


def test_further_negatives_by_hand():
    # Logits 3, none and 2 more: ln(2 + e⁻² + e⁻³) = 0.781672, 0.313262 as before, ln(1 + 2e + e²) − 1 = 2 ln(1 + e) − 1
    # = 1.626523; mean 0.907152. The answers' side is as before.
    further = [torch.tensor([[3.0], [-math.inf], [2.0]])]
    loss = info_nce(COSINES, KNOWN, torch.tensor(5.0), 0.2, further)
    assert loss.item() == pytest.approx(0.907152 + 0.487342, abs=2e-6)


def test_a_batch_of_one_pair_without_negatives_has_no_loss():
    assert info_nce(torch.tensor([[0.3]]), torch.tensor([[True]]), torch.tensor(20.0), 0.02).item() == 0


def plain_loss(model, tokenizer, triples, all_triples, queue, options):
    """Straight from the authors' code: pad to the longest, every text on its own, masks by looping over sets."""

    def vectors(network, firsts, seconds=None):
        batch = tokenizer(
            firsts, seconds, padding=True, truncation=True, max_length=options.max_tokens, return_tensors="pt"
        )
        states = network(**batch).last_hidden_state
        real = batch["attention_mask"][:, :, None].float()
        return normalize((states * real).sum(1) / real.sum(1), dim=1)

    hr = vectors(model.question, [h[1] for h, _, _ in triples], [r for _, r, _ in triples])
    tails, heads = (vectors(model.answer, [triple[at][1] for triple in triples]) for at in (2, 0))
    right = {}
    for h, r, t in all_triples:
        right.setdefault((h, r), set()).add(t)
    scale, n = model.log_scale.exp(), len(triples)
    logits = hr @ tails.T
    logits = (logits - options.margin * torch.eye(n)) * scale
    for i, (h, r, _) in enumerate(triples):
        for j, (_, _, t) in enumerate(triples):
            if i != j and t[0] in right[h[0], r]:
                logits[i, j] = -1e4
    rows = [logits]
    for vectors_before, before in queue:
        earlier = hr @ vectors_before.T * scale * options.pre_batch_weight
        for i, (h, r, _) in enumerate(triples):
            for j, (_, _, t) in enumerate(before):
                if t[0] in right[h[0], r]:
                    earlier[i, j] = -1e4
        rows.append(earlier)
    own = (hr * heads).sum(1, keepdim=True) * scale
    for i, (h, r, _) in enumerate(triples):
        if h[0] in right[h[0], r]:
            own[i] = -1e4
    labels = torch.arange(n)
    return cross_entropy(torch.cat([*rows, own], 1), labels) + cross_entropy(logits.T, labels)


def test_loss_equals_a_plain_loop(untrained, data):
    """In-batch, pre-batch and self negatives, known answers masked, over four batches of both directions."""
    predictor = untrained(neighbour_names=0)
    predictor.network.eval()  # no dropout
    graph = data.graph
    ids, names, said = (graph.entities.column(c).to_pylist() for c in ("id", "name", "description"))
    relations = predictor.texts.relations
    relations = [*relations, *(f"inverse {name}" for name in relations)]

    def entity(place):
        name = names[place] or ids[place]
        return place, f"{name}: {said[place]}" if said[place] else name

    def triple(row):
        t = predictor.triples
        return entity(t.head[row]), relations[t.relation[row]], entity(t.tail[row])

    everything = [(h[0], r, t[0]) for h, r, t in map(triple, range(len(predictor.triples)))]
    queue, masked = [], 0
    for rows in list(shuffled(len(predictor.triples), 8, 0, 0))[:4]:
        batch = [triple(row) for row in rows]
        plain = plain_loss(predictor.network, predictor.tokenizer, batch, everything, queue[-2:], predictor.options)
        ours = predictor.loss(rows)
        t = predictor.triples
        masked += t.known(t.head[rows], t.relation[rows], t.tail[rows]).sum() - len(rows)
        queue.append((predictor._queue[-1][0], batch))
        assert ours.item() == pytest.approx(plain.item(), abs=1e-5)
    assert masked  # otherwise the masks were not tried
    assert len(predictor._queue) == 2


def test_each_kind_of_negative_counts(untrained):
    rows = np.arange(8)

    def second_loss(**said):
        predictor = untrained(**said)
        predictor.network.eval()
        predictor.loss(np.arange(8, 16))
        return predictor.loss(rows).item()

    whole = second_loss()
    for less in ({"pre_batches": 0}, {"self_negatives": False}, {"margin": 0.0}):
        assert second_loss(**less) < whole


def test_the_queue_holds_answers_without_gradient_and_comes_back(untrained):
    predictor, other = untrained(), untrained()
    for start in (0, 8, 16):
        predictor.loss(np.arange(start, start + 8))
    vectors, places = predictor._queue[0]
    assert not vectors.requires_grad
    assert places.tolist() == predictor.triples.tail[8:16].tolist()
    other.set_state(predictor.state())
    rows = np.arange(24, 30)
    predictor.network.eval(), other.network.eval()
    assert other.loss(rows).item() == predictor.loss(rows).item() != untrained().loss(rows).item()


# ------------------------------------------------------------------------------------------------------------ texts


def test_right_answers_by_hand():
    grouped = ValuesByKey(np.array([7, 3, 7, 7]), np.array([2, 5, 1, 2]))
    owner, values = grouped.of(np.array([7, 4, 3]))
    assert (owner.tolist(), values.tolist()) == ([0, 0, 2], [1, 2, 5])
    assert not len(ValuesByKey(np.zeros(0, int), np.zeros(0, int)).of(np.array([1]))[0])


def test_neighbours_are_named_but_never_the_answer(untrained, data):
    entities, place = untrained(neighbour_names=3).entities, place_of(data.graph)
    assert entities.text(place["france"]) == "france: land paris europe"
    assert entities.text(place["france"], without=place["paris"]) == "france: land europe"
    assert entities.text(place["europe"]) == "europe: france italy germany"  # the first three of four
    assert entities.text(place["dark"]) == "city: old"  # not in training
    assert untrained(neighbour_names=0).entities.text(place["europe"]) == "europe"
    assert untrained(neighbour_names=0, descriptions=False).entities.text(place["france"]) == "france"
    twice = entities.ids(np.array([place["france"]] * 3), np.array([place["paris"], place["rome"], place["paris"]]))
    assert twice[0] is twice[2]
    assert len(twice[1]) == len(twice[0]) + 1


def test_long_descriptions_need_no_neighbours(graph_folder, options):
    file = graph_folder / "entity2text.txt"
    texts = file.read_text()
    for words, named in ((19, True), (20, False)):
        file.write_text(texts.replace("asia\tasia\t", "asia\tasia\t" + " ".join(["word"] * words)))
        graph = read(graph_folder).graph
        text = Predictor(graph, options(), None, CPU).entities.text(place_of(graph)["asia"])
        assert ("japan" in text) == named


@pytest.mark.parametrize("longest", [8, 11, 50])
@pytest.mark.parametrize("name", ["bert_uncased", "roberta", "gpt2"])
def test_framing_is_the_tokenizers_own(request, name, longest):
    tokenizer = request.getfixturevalue(name)
    framing = Framing(tokenizer, longest)
    for first in ("one two three four five six seven eight", "cat", "a dog runs"):
        for second in ("x", "inverse hypernym", "a b c d"):
            theirs = tokenizer(first, second, truncation=True, max_length=longest)
            ours = framing.pair(*framing.ids([first, second]))
            assert ours.ids.tolist() == theirs["input_ids"]
            if 1 in theirs.get("token_type_ids", []):
                assert (np.arange(len(ours.ids)) >= ours.second).astype(int).tolist() == theirs["token_type_ids"]
        alone = framing.one(framing.ids([first])[0])
        assert alone.ids.tolist() == tokenizer(first, truncation=True, max_length=longest)["input_ids"]


def test_a_vector_is_its_own_texts_alone(untrained):
    predictor = untrained()
    network, framing = predictor.network.question.eval(), predictor.framing
    texts = ["paris", "a large old city: rome, italy", "paris", "land"] * 3
    tokens = [framing.pair(ids, framing.ids(["lies in"])[0]) for ids in framing.ids(texts)]
    together = encode(network, tokens, "mean")
    assert torch.equal(together[0], together[2])
    apart = torch.cat([encode(network, [one], "mean") for one in tokens])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)


def test_groups_are_full_but_not_overfull():
    assert groups(np.array([2, 2, 3, 3, 9]), 8) == [slice(0, 2), slice(2, 4), slice(4, 5)]


# ------------------------------------------------------------------------------------------------- training, ranking


@pytest.mark.slow
def test_it_learns_a_small_graph_by_heart(graph_folder, options, tmp_path):
    (graph_folder / "dev.tsv").unlink()  # the last weights are kept, not those best at something else
    data = read(graph_folder)
    asked = options(epochs=50, neighbour_names=0, patience=None, clip=1.0)
    train_links("simkgc", data, asked, tmp_path / "m")
    predictor = open_links(tmp_path / "m", data, "cpu")
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        found = predictor.rank(split_links(data.graph, "train"), 3)
    assert measured(found)["hits@1"] > 0.9  # by chance 0.05
    assert predictor.network.log_scale.item() != pytest.approx(math.log(20), abs=1e-3)  # the temperature is learnt
    curve = read_curve(tmp_path / "m")
    assert curve[-1]["loss"] < curve[0]["loss"] / 2


def test_a_killed_training_goes_on_to_the_same_curve(data, options, tmp_path, monkeypatch):
    asked = options(epochs=3, patience=None, checkpoint_minutes=1e-9)
    train_links("simkgc", data, asked, tmp_path / "whole")
    after, steps = base.Fit.after_step, []

    def killed(self, loop):
        steps.append(loop.at.epoch)
        if steps.count(1) == 2:  # in the second epoch, with a queue that is full
            raise KeyboardInterrupt
        after(self, loop)

    with monkeypatch.context() as patch:
        patch.setattr(base.Fit, "after_step", killed)
        with pytest.raises(KeyboardInterrupt):
            train_links("simkgc", data, asked, tmp_path / "killed")
    train_links("simkgc", data, asked, tmp_path / "killed")
    curves = [read_curve(tmp_path / name) for name in ("whole", "killed")]
    for line in (*curves[0], *curves[1]):
        del line["seconds"]
    assert curves[0] == curves[1]
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def links(graph, given, relation, inverse, gold):
    place, relations = place_of(graph), graph.relations.column("id").to_pylist()
    one = np.array([place[given]]), np.array([relations.index(relation)]), np.array([inverse])
    return Links(*one, np.array([place[gold]]), [np.zeros(0, dtype=np.int64)])


def ranked(predictor, asked, top=20, keep_scores=True):
    predictor.network.eval()
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        return predictor.rank(asked, top, keep_scores)


def test_scores_are_cosines_of_both_encoders(untrained, data):
    predictor = untrained(neighbour_names=0, pooling="cls")
    place, tokenizer = place_of(data.graph), predictor.tokenizer
    for inverse, relation in ((False, "lies in"), (True, "inverse lies in")):
        [found] = ranked(predictor, links(data.graph, "france", "in", inverse, "europe"))
        with torch.inference_mode():
            question = predictor.network.question(**tokenizer("france: land", relation, return_tensors="pt"))
            answer = predictor.network.answer(**tokenizer("rome: a large old city", return_tensors="pt"))
        states = [one.last_hidden_state[0, 0] for one in (question, answer)]
        cosine = torch.cosine_similarity(*states, dim=0).item()
        assert found.scores[place["rome"]] == pytest.approx(cosine, abs=1e-6)
        assert len(found.top) == 20


def test_entities_with_one_text_are_level(untrained, data):
    predictor = untrained()
    place = place_of(data.graph)
    [found] = ranked(predictor, links(data.graph, "rome", "in", False, "dark"))
    assert found.scores[place["dark"]] == found.scores[place["dim"]]
    assert found.ranks.pessimistic == found.ranks.optimistic + 1


def test_reranking_lifts_who_is_near(untrained, data, options):
    question = links(data.graph, "paris", "in", False, "europe")
    [plain] = ranked(untrained(), question)
    predictor = untrained(rerank_weight=0.05, rerank_hops=2)
    [lifted] = ranked(predictor, question)
    ids = data.graph.entities.column("id").to_pylist()
    near = {ids[place] for place in np.flatnonzero(lifted.scores - plain.scores > 0.04)}
    # paris – france – europe, paris – noname, paris – paris; europe's lands are three links away
    assert near == {"paris", "france", "europe", "noname"}
    np.testing.assert_allclose(lifted.scores - plain.scores, [0.05 * (id_ in near) for id_ in ids], atol=1e-6)
    better = int((lifted.scores > lifted.scores[ids.index("europe")]).sum())
    assert lifted.ranks.optimistic == better + 1
    assert predictor.triples.within(ids.index("dark"), 5).tolist() == [ids.index("dark")]
    assert predictor.triples.within(ids.index("paris"), 0).tolist() == [ids.index("paris")]


def test_too_many_are_no_neighbourhood(untrained, data, monkeypatch):
    predictor, place = untrained(), place_of(data.graph)
    assert len(predictor.triples.within(place["paris"], 2)) == 4
    monkeypatch.setattr("fathom_kgc.links.simkgc.REACHED", 3)
    assert not len(predictor.triples.within(place["paris"], 2))


def test_nothing_crashes_on_empty_texts_and_strangers(data, options, tmp_path):
    train_links("simkgc", data, options(init="random"), tmp_path / "m")
    result = run(
        RunRequest("link", open_links(tmp_path / "m", data, "cpu"), link_queryset(data), LinkOptions()),
        tmp_path / "run",
    )
    rows = result.predictions().to_pylist()
    assert len(rows) == 4
    assert all(math.isfinite(score) for row in rows for score in row["scores"])
    assert list((tmp_path / "run" / "artifacts").rglob("vectors-*.npy"))


def test_vectors_on_disk_rank_alike(untrained, data, tmp_path):
    predictor = untrained()
    asked = split_links(data.graph, "test")
    inside = ranked(predictor, asked)
    with torch.inference_mode():
        predictor.prepare_in(tmp_path, lambda done, total: None)
        again = predictor.rank(asked, 20, True)
        file = next(tmp_path.rglob("vectors-*.npy"))
        made = file.stat().st_mtime_ns
        predictor.prepare_in(tmp_path, lambda done, total: None)
    assert file.stat().st_mtime_ns == made  # kept, not made again
    assert [one.ranks for one in inside] == [one.ranks for one in again]


def test_a_question_without_a_vector_is_unscored(untrained, data):
    predictor = untrained()
    with torch.no_grad():
        predictor.network.question.embeddings.LayerNorm.weight.fill_(torch.nan)
    found = ranked(predictor, split_links(data.graph, "test"))
    assert [one.ranks for one in found] == [None] * 4
    assert all("not a number" in one.unscored for one in found)


def test_random_weights_have_the_same_shape_and_tokenizer(untrained):
    trained, random = untrained(), untrained(init="random")
    assert [w.shape for w in trained.network.parameters()] == [w.shape for w in random.network.parameters()]
    assert trained.tokenizer.get_vocab() == random.tokenizer.get_vocab()
    words = [one.network.question.embeddings.word_embeddings.weight for one in (trained, random)]
    assert not torch.equal(*words)


def test_models_that_do_not_fit(data, encoder, options, tmp_path):
    T5Model(T5Config(vocab_size=40, d_model=8, d_ff=8, num_layers=1, num_heads=1, d_kv=8)).save_pretrained(tmp_path)
    BertTokenizerFast.from_pretrained(encoder).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=mentions("--weights")):
        Predictor(data.graph, SimKgc(weights=str(tmp_path)), None, CPU)
    with pytest.raises(BadInput, match=mentions("--max-tokens 65", "64")):
        Predictor(data.graph, options(max_tokens=65), None, CPU)
    with pytest.raises(ValidationError):
        SimKgc(temperature=0)

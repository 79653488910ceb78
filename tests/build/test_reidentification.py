"""The re-identification of entities in worlds, ``benchmarks/run.py reidentification``: numbers worked out by hand."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.data.formats import read
from fathom_build.worlds import Materials, parse_variants
from tests.build.test_worlds import anonymised, make_graph, pets, texts_of

pytest.importorskip("sklearn")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
module = importlib.import_module("reidentification")
Alignment, CharacterNgrams, TfIdf = module.Alignment, module.CharacterNgrams, module.TfIdf
TrainedRanking, VectorAttack = module.TrainedRanking, module.VectorAttack


def plain_places(old, new, own):
    """Every cosine, one by one, of TF-IDF vectors made by hand."""
    words = sorted({word for text in old for word in text.split()})
    df = {word: sum(word in text.split() for text in old) for word in words}
    idf = {word: math.log((1 + len(old)) / (1 + df[word])) + 1 for word in words}

    def vector(text):
        raw = np.array([text.split().count(word) * idf[word] for word in words])
        return raw / np.linalg.norm(raw) if raw.any() else raw

    known, found = [vector(text) for text in old], []
    for text, place in zip(new, own, strict=True):
        near = np.array([vector(text) @ one for one in known])
        found.append((int((near > near[place] + 1e-6).sum()), int((np.abs(near - near[place]) <= 1e-6).sum())))
    return found


SOME = st.lists(st.sampled_from(["aa", "bb", "cc", "dd", "ee", "ff"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(SOME, SOME), min_size=1, max_size=30))
@settings(max_examples=120, deadline=None)
def test_places_are_those_of_the_plain_computation(pairs):
    """However few descriptions are compared at a time."""
    old, new = (list(texts) for texts in zip(*pairs, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CELLS", 60)
        found = TfIdf(old).places(new, np.arange(len(old)))
    if any(old):
        expected = plain_places(old, new, range(len(old)))
        for k in (1, 10):
            above, level = (np.array(column) for column in zip(*expected, strict=True))
            assert found.hits(k) == pytest.approx(np.clip((k - above) / level, 0, 1))


def test_the_nearest_description_by_hand():
    """ "old ship" is as near to "old ship" as can be; "old" alone stands in two of three, "ship" in two; "new ship" has
    "new" for itself. Without words all three are equally near."""
    attack = TfIdf(["old ship", "old barn", "new ship"])
    places = attack.places(["old ship", "old", "", "old barn"], np.array([0, 1, 2, 0]))
    # "old": idf(old) = idf(ship) < idf(barn), so that old ship is nearer than old barn. For entity 0, "old barn":
    # its own is the second nearest.
    assert places.above.tolist() == [0, 1, 0, 1]
    assert places.level.tolist() == [1, 1, 3, 1]
    assert places.hits(1).tolist() == pytest.approx([1, 0, 1 / 3, 0])
    assert places.hits(10).tolist() == [1, 1, 1, 1]


def test_an_attack_is_right_of_texts_as_they_are_and_wrong_of_texts_that_change_hands():
    """The control: hits are of texts, not of places."""
    texts = [f"only number{row} has word{row}" for row in range(40)]
    attack, own = TfIdf(texts), np.arange(40)
    assert attack.places(texts, own).hits(1).mean() == 1
    assert attack.places(texts[1:] + texts[:1], own).hits(1).mean() == 0
    assert attack.places(["" for _ in texts], own).hits(1).mean() == pytest.approx(1 / 40)
    assert attack.places(["" for _ in texts], own).hits(10).mean() == pytest.approx(10 / 40)


@pytest.mark.parametrize("attack", [CharacterNgrams, Alignment])
def test_other_attacks_are_right_of_texts_as_they_are_and_wrong_of_texts_that_change_hands(attack):
    texts = [f"only number{row} has word{row}" for row in range(40)]
    made, own = attack(texts), np.arange(40)
    assert made.places(texts, own).hits(1).mean() == 1
    assert made.places(texts[1:] + texts[:1], own).hits(1).mean() == 0
    assert made.places(["" for _ in texts], own).hits(1).mean() == pytest.approx(1 / 40)


def test_alignment_reads_common_words_in_their_order():
    """Both texts have the same words, so that those of "a man bites a dog" are as near to either by TF-IDF."""
    texts = ["a dog bites the man in a park", "the man in a park bites a dog"]
    asked, own = ["the man … a park … a dog"], np.array([1])
    assert Alignment(texts).places(asked, own).hits(1).tolist() == [1]
    assert TfIdf(texts).places(asked, own).hits(1).tolist() == [0.5]


def test_character_runs_find_parts_of_words():
    texts = ["shipping", "barnacles", "newspaper"]
    asked, own = ["ships", "barns", "papers"], np.arange(3)
    assert CharacterNgrams(texts).places(asked, own).hits(1).tolist() == [1, 1, 1]
    assert TfIdf(texts).places(asked, own).hits(1).mean() == pytest.approx(1 / 3)


def sentences(generator, count=200, words=60, length=8, prefix="w"):
    return [" ".join(f"{prefix}{word}" for word in generator.integers(0, words, length)) for _ in range(count)]


def masked(texts, generator):
    """Three of eight words stay, in each of the texts at the same places in every world."""
    return [
        " ".join(word if place in (1, 4, 6) else f"x{generator.integers(10**9)}" for place, word in enumerate(split))
        for split in (text.split() for text in texts)
    ]


def trained(texts, generator, others=None):
    attacks = [attack(texts) for attack in (TfIdf, CharacterNgrams, Alignment)]
    return TrainedRanking(*attacks, others or [masked(texts, generator) for _ in range(2)])


def test_a_trained_ranking_is_right_of_visible_texts_and_better_than_each_similarity_in_a_new_world():
    generator = np.random.default_rng(0)
    texts = sentences(generator)
    attack, own, world = trained(texts, generator), np.arange(len(texts)), masked(texts, generator)
    assert attack.places(texts, own).hits(1).mean() > 0.99
    rates = [made(texts).places(world, own).hits(1).mean() for made in (TfIdf, CharacterNgrams, Alignment)]
    assert attack.places(world, own).hits(1).mean() > max(rates) + 0.02


def test_a_trained_ranking_guesses_where_there_is_nothing_to_learn_or_to_find():
    """Texts of other entities, of another graph, without words, and a construction with random strings alone."""
    generator = np.random.default_rng(0)
    texts = sentences(generator)
    attack, own, chance = trained(texts, generator), np.arange(len(texts)), 1 / len(texts)
    shuffled = [texts[row] for row in generator.permutation(len(texts))]
    for asked in (masked(shuffled, generator), masked(sentences(generator), generator)):
        assert attack.places(asked, own).hits(1).mean() <= 4 * chance
    for asked in (["" for _ in texts], sentences(generator, prefix="ß")):
        assert attack.places(asked, own).hits(1).mean() == pytest.approx(chance)
    random = trained(texts, generator, [sentences(generator) for _ in range(2)])
    assert random.places(sentences(generator), own).hits(1).mean() <= 4 * chance
    assert random.places([], own[:0]).hits(1).tolist() == []


def test_vectors_of_a_model_are_compared_by_cosine():
    """(3, 4) is nearer to (1, 1) than to (1, 0), and as near to (2, 2); a text without a vector is a guess."""
    vectors = {"a": [1, 0], "b": [1, 1], "c": [2, 2], "d": [3, 4], "": [math.nan, math.nan]}
    attack = VectorAttack(
        "m", lambda texts: np.array([vectors[text] for text in texts], dtype=np.float32), ["a", "b", "c"]
    )
    places = attack.places(["d", "d", ""], np.array([0, 1, 2]))
    assert (places.above.tolist(), places.level.tolist()) == ([2, 0, 0], [1, 2, 3])


@pytest.mark.slow
def test_wordnet_agrees_with_the_plain_computation(shared_data):
    """A part of WN18RR, every cosine by scikit-learn alone."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    graph = read(shared_data / "wn18rr").graph
    old = texts_of(graph.entities, "description")[:3000]
    new = texts_of(anonymised(graph, "e").graph.entities, "description")[:3000]
    vectorizer = TfidfVectorizer()
    known = vectorizer.fit_transform(old)
    near = (vectorizer.transform(new) @ known.T).toarray()
    own = near.diagonal()[:, None]
    above, level = (near > own + 1e-6).sum(axis=1), (np.abs(near - own) <= 1e-6).sum(axis=1)
    found = TfIdf(old).places(new, np.arange(3000))
    for k in (1, 10):
        assert found.hits(k) == pytest.approx(np.clip((k - above) / level, 0, 1))
    assert 0.3 < found.hits(1).mean() < 0.9


@pytest.mark.parametrize("name", ["causal", "masked"])
def test_what_a_model_reads(name, tmp_path):
    """Equal texts have equal vectors, long ones are cut before their end, and no text has none."""
    from fathom.engine.models.loading import load
    from fathom.engine.scoring.memory import Budget
    from tests.golden.desk import make_model

    make_model(name, tmp_path / name)
    model = load(str(tmp_path / name), device="cpu")
    read_texts = module.description_encoder(model, Budget(None, model.device))
    long = "a land of gold " * 500
    vectors = read_texts(["a land of gold", "a land of fjords", "", long, long + long, "a land of gold"])
    assert vectors.shape == (6, vectors.shape[1])
    assert np.isnan(vectors).all(axis=1).tolist() == [False, False, True, False, False, False]
    assert (vectors[0] == vectors[5]).all()
    assert not np.allclose(vectors[0], vectors[1])
    assert model.max_tokens is not None
    assert np.allclose(vectors[3], vectors[4], atol=1e-5)


def test_a_trained_ranking_sees_other_worlds_than_the_attacked_one(monkeypatch):
    """Two of the same construction and of other seeds; relations play no part."""
    made, make_world = [], module.make_world
    monkeypatch.setattr(
        module,
        "make_world",
        lambda variant, materials: made.append((str(variant), materials.seed)) or make_world(variant, materials),
    )
    [variant] = parse_variants(["anonymised-er"])
    places = module.Attacks(Materials(pets(), seed=5)).places(anonymised(pets(), "er").graph, variant)
    assert made == [("anonymised-e", 6), ("anonymised-e", 7)]
    assert list(places) == [attack.name for attack in (TfIdf, CharacterNgrams, Alignment, TrainedRanking)]


def test_an_unchanged_name_identifies_and_entities_of_one_name_share_the_hit():
    """Predictors read the id of an entity without a name, and worlds keep it."""
    graph = make_graph(["mouse", "", "owl", "owl"], ["a", "b", "c", "d"], [(0, 0, 1), (2, 0, 3)], ["then"])
    assert module.hits_by_name(graph, graph).tolist() == [1, 1, 1 / 2, 1 / 2]
    assert module.hits_by_name(graph, anonymised(graph, "e").graph).tolist() == [0, 1, 0, 0]

"""What worlds leave of names and give away of entities: forms, what is left, attacks and audits, each
against numbers worked out by hand or by the plain way."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.data.formats import read
from fathom.data.formats.kg import write_graph
from fathom_build.worlds import (
    Materials,
    WorldOptions,
    audit_table,
    audit_worlds,
    build_worlds,
    left_table,
    make_world,
    restore,
    tabulate_audits,
)
from fathom_build.worlds import reidentification as module
from fathom_build.worlds.audit import ATTACKS, Auditor, Reader
from fathom_build.worlds.folders import INSERTED, inserted_spans
from fathom_build.worlds.forms import forms_of
from fathom_build.worlds.mentions import find_mentions
from fathom_build.worlds.reidentification import Alignment, CharacterNgrams, TfIdf, TrainedRanking, VectorAttack
from fathom_build.worlds.world import BASE, World
from tests.build.test_worlds import anonymised, make_graph, pets, texts_of, virtual, with_aliases
from tests.messages import mentioned, stated

pytest.importorskip("sklearn")


def chain(names, descriptions, aliases=()):
    """Entities one after another, each linked to the next."""
    triples = [(row, 0, (row + 1) % len(names)) for row in range(len(names))]
    graph = make_graph(names, descriptions, triples, ["then"])
    return with_aliases(graph, [list(some) for some in aliases]) if aliases else graph


def replaced(graph, **options):
    """What stood in place of random names, in the order of the texts."""
    return [span["old"] for span in anonymised(graph, "e", options=WorldOptions(**options)).spans.to_pylist()]


def audited_hits(world, source, attack="TF-IDF", readers=()):
    """Hits@1 of an audit, by name and by description."""
    auditor = Auditor(Materials(source), readers)
    found = auditor.audit(world.graph, str(world.variant))
    return found["names"]["value"], found["descriptions"][attack]["hits@1"]["value"]


def left(world, source, shortest=2):
    columns = (world.spans.column(name).to_numpy() for name in INSERTED)
    spans = inserted_spans(world.graph, world.mapping, *columns)
    materials = Materials(source, options=WorldOptions(shortest_mention=shortest))
    return Auditor(materials).left(world.graph.entities.column("description"), spans)


# What is looked for


def test_other_names_and_inflected_forms_are_replaced():
    graph = chain(
        ["mouse", "cat", "tick off", "state of mind", "zorb"],
        ["cats and mice", "a kitty", "she ticked off two kitties", "states of mind, zorbs", "mouse"],
        [[], ["kitty"], [], [], []],
    )
    expected = ["cats", "mice", "kitty", "ticked off", "kitties", "states of mind", "zorbs", "mouse"]
    assert replaced(graph) == expected
    # By kind: mouse; kitty; all others. The dictionary has no "zorb", which gets the plural of a regular noun.
    counts = anonymised(graph, "e").counts
    assert counts["mentions_by_kind"] == {"name": 1, "alias": 1, "inflection": 6}
    assert replaced(graph, sought="names") == ["mouse"]


def test_words_of_two_letters_have_other_forms_and_no_plural():
    """ "his" is not the plural of "hi", nor "as" of "a", but "went" is a form of "go"."""
    graph = chain(["hi", "go", "a"], ["his hat goes as it went", "", ""])
    assert replaced(graph, shortest_mention=1) == ["goes", "went"]


def test_function_words_are_no_form_of_a_name():
    """ "is" means no entity called "be"; "be" itself is a name like any other, and so is "is" where it is one."""
    names = ["be", "have", "dog", "one", "be active", "much"]
    graph = chain(names, ["what is, IS or was to be", "has had dogs", "it could", "other ones", "it is active", "more"])
    assert replaced(graph) == ["be", "dogs", "is active"]
    assert left(World(BASE, graph), graph) == {"name": 1, "alias": 0, "inflection": 2, "short": 0, "other case": 0}
    assert replaced(chain(["be", "is"], ["it is", ""])) == ["is"]


def test_a_name_comes_before_another_name_and_that_before_an_inflected_form():
    names = ["mouse", "mice", "dog", "hound", "x"]
    graph = chain(
        names, ["", "", "", "", "mice see a hound, hounds, a cur"], [[], ["hounds"], ["hound", "cur"], [], []]
    )
    found = find_mentions(graph, forms=forms_of(graph.entities))
    # "mice" is a name (row 1) and a form of "mouse" (0); "hound" a name (3) and another name of "dog" (2); "hounds"
    # another name of "mice" (1) and a form of "hound" (3) and of "dog"'s.
    assert found.entity.tolist() == [1, 3, 1, 2]
    assert found.kinds == {"name": 2, "alias": 2, "inflection": 0}
    assert sum(found.ambiguous.values()) == 0


def test_case_counts_in_names_that_have_a_capital_and_in_no_others():
    """One name in capitals does not stop "Cat" from being found."""
    graph = chain(["cat", "NATO", "Turkey"], ["Cat and CAT", "nato or NATO", "turkey, Turkey, TURKEY"])
    assert replaced(graph) == ["Cat", "CAT", "NATO", "Turkey"]
    assert anonymised(graph, "e").counts["case"] == "mixed"
    assert len(replaced(graph, case="ignore")) == 7
    assert replaced(graph, case="exact") == ["NATO", "Turkey"]


def test_of_two_names_that_differ_in_case_the_one_as_written_is_found():
    graph = chain(["turkey", "Turkey", "x1"], ["", "", "turkey Turkey TURKEY"])
    assert find_mentions(graph).entity.tolist() == [0, 1, 0]


def test_what_is_sought_is_an_option_that_is_checked():
    with pytest.raises(ValueError, match="sought"):
        WorldOptions(sought="some")
    with pytest.raises(ValueError, match="rate"):
        WorldOptions(rate=2)


# What is left


FARM = chain(
    ["cow", "Turkey", "o", "mouse", "x1"],
    ["a cow, a cow, cows", "turkey or Turkey", "o bovine", "mice, TURKEY, o", "bovines"],
    [["bovine"], [], [], [], []],
)


def test_what_is_left_is_counted_by_kind():
    """In the graph as it is: cow twice and Turkey; bovine; cows, mice, bovines; o twice; turkey and TURKEY."""
    whole = {"name": 3, "alias": 1, "inflection": 3, "short": 2, "other case": 2}
    assert left(World(BASE, FARM), FARM) == whole
    assert left(anonymised(FARM, "r"), FARM) == whole
    assert left(anonymised(FARM, "e"), FARM) == {"name": 0, "alias": 0, "inflection": 0, "short": 2, "other case": 2}
    plain = anonymised(FARM, "e", options=WorldOptions(sought="names"))
    assert left(plain, FARM) == {"name": 0, "alias": 1, "inflection": 3, "short": 2, "other case": 2}
    bold = anonymised(FARM, "e", options=WorldOptions(case="ignore", shortest_mention=1))
    assert left(bold, FARM, shortest=1) == {"name": 0, "alias": 0, "inflection": 0, "short": 0, "other case": 0}


def test_names_that_were_put_in_are_not_left():
    """In a virtual world every name is that of another entity."""
    graph = pets()
    assert sum(left(virtual(graph, "e"), graph).values()) == 0
    assert left(virtual(graph, "r"), graph)["name"] == 6


# Attacks


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


def test_an_audit_trains_on_other_worlds_than_the_attacked_one(monkeypatch):
    """Two of the same construction and of other seeds; relations play no part."""
    graph, made = pets(), []
    monkeypatch.setattr(
        "fathom_build.worlds.audit.make_world",
        lambda variant, materials: made.append((str(variant), materials.seed)) or make_world(variant, materials),
    )
    auditor = Auditor(Materials(graph, seed=5))
    audit = auditor.audit(anonymised(graph, "er").graph, "anonymised-er")
    auditor.audit(anonymised(graph, "e").graph, "anonymised-e")
    assert made == [("anonymised-e", 6), ("anonymised-e", 7)]
    rates = {attack: shares["hits@1"]["value"] for attack, shares in audit["descriptions"].items()}
    assert rates[audit["strongest"]] == max(rates.values())
    table = audit_table([{"world": "anonymised-er", "audit": audit}])
    assert stated(table.notes, "strongest attack by description: anonymised-er", audit["strongest"])
    assert stated(table.notes, "cannot hide entities", "anonymised-er", "fully-anonymised-ed")


def test_vectors_of_a_model_are_compared_by_cosine():
    """(3, 4) is nearer to (1, 1) than to (1, 0), and as near to (2, 2); a text without a vector is a guess."""
    vectors = {"a": [1, 0], "b": [1, 1], "c": [2, 2], "d": [3, 4], "": [math.nan, math.nan]}
    attack = VectorAttack(
        "m", lambda texts: np.array([vectors[text] for text in texts], dtype=np.float32), ["a", "b", "c"]
    )
    places = attack.places(["d", "d", ""], np.array([0, 1, 2]))
    assert (places.above.tolist(), places.level.tolist()) == ([2, 0, 0], [1, 2, 3])


# Audits


def test_an_audit_by_hand():
    """Five entities. As it is, the two that are called and described alike are worth half each. With random names
    "hunts" and "fears" stand for one each, "sings" for one; of the two empty ones, each is a guess among five."""
    names = ["mouse", "cat", "bird", "owl", "owl"]
    graph = chain(names, ["fears cat", "hunts mouse", "sings", "owl", "owl"])
    assert audited_hits(World(BASE, graph), graph) == pytest.approx((4 / 5, 4 / 5))
    # "owl" is gone, and with it both of the last two texts: 3 + 2 · 1/5.
    assert audited_hits(anonymised(graph, "e"), graph) == pytest.approx((0, (3 + 2 / 5) / 5))
    assert audited_hits(anonymised(graph, "r"), graph) == pytest.approx((4 / 5, 4 / 5))


def test_an_audit_says_what_types_give_away():
    """Two cats, three dogs, one of no type: each cat is a guess among two, each dog among three, in every world."""
    graph = chain([f"n{row}" for row in range(6)], ["x"] * 6)
    types = pa.array(["cat", "dog", "", "dog", "cat", "dog"])
    typed = replace(graph, entities=graph.entities.append_column("type", types))
    audit = Auditor(Materials(typed), data="pets").audit(anonymised(typed, "e").graph, "anonymised-e")
    found = audit["types"]
    assert (found["hits@1"]["value"], found["hits@1"]["n"]) == (pytest.approx((2 / 2 + 3 / 3) / 5), 5)
    assert (found["hits@10"]["value"], found["chance@1"], found["chance@10"]) == (1, 1 / 5, 1)
    assert "attack:type" in found["hits@1"]["recipe"]
    rows = audit_table([{"world": "w", "audit": audit}]).rows
    assert [row[1] for row in rows] == ["name", "type", *(f"description, {attack}" for attack in ATTACKS)]
    many = chain([f"n{row}" for row in range(40)], ["x"] * 40)
    many = replace(many, entities=many.entities.append_column("type", pa.array(["a"] * 40)))
    found = Auditor(Materials(many)).audit(many, "base")["types"]
    assert (found["hits@1"]["value"], found["hits@10"]["value"]) == (pytest.approx(1 / 40), pytest.approx(10 / 40))
    assert "types" not in Auditor(Materials(graph)).audit(graph, "base")
    none = replace(graph, entities=graph.entities.append_column("type", pa.array([""] * 6)))
    assert Auditor(Materials(none)).audit(none, "base")["types"]["hits@1"]["value"] is None


def test_an_audit_has_an_interval_a_recipe_and_the_chance_rate():
    graph = pets()
    found = Auditor(Materials(graph), data="pets").audit(anonymised(graph, "e").graph, "anonymised-e")
    by_words = found["descriptions"]["TF-IDF"]
    assert by_words["chance@1"] == pytest.approx(1 / 5)
    assert by_words["chance@10"] == 1
    number = by_words["hits@1"]
    assert number["low"] <= number["value"] <= number["high"]
    assert number["n"] == 5
    assert number["recipe"].startswith(f"hits@1|data:pets@{graph.content_hash}|world:anonymised-e|attack:TF-IDF")


def test_of_very_many_entities_some_are_drawn(monkeypatch):
    monkeypatch.setattr("fathom_build.worlds.audit.ATTACKED", 10)
    texts = [f"word{row}" for row in range(40)]
    graph = chain([f"name{row}" for row in range(40)], texts)
    found = Auditor(Materials(graph)).audit(World(BASE, graph).graph, "base")["descriptions"]["TF-IDF"]
    assert (found["hits@1"]["n"], found["hits@1"]["value"], found["chance@1"]) == (10, 1, 1 / 40)


@pytest.mark.parametrize("descriptions", [["", " ", ""], ["-", "?", "a"]])
def test_texts_without_words_say_nothing(descriptions, tmp_path):
    """Without any description there is nothing to attack; descriptions without a word are a guess among three."""
    graph = chain(["p1", "p2", "p3"], descriptions)
    [made] = build_worlds(graph, tmp_path, ["anonymised-e"], audit=True)
    number = made["audit"]["descriptions"]["TF-IDF"]["hits@1"]
    if descriptions[0]:
        assert number["value"] == pytest.approx(1 / 3)
    else:
        assert number["value"] is None
        assert mentioned(number["note"], "no entity", "description")
        assert stated(audit_table([made]).notes, "no entity", "description")
    assert sum(made["left"].values()) == 0


# Folders


def outdated(folder: Path) -> None:
    """As an earlier version left it: its manifest has neither what is left nor an audit."""
    file = folder / "manifest.json"
    made = json.loads(file.read_text(encoding="utf-8"))
    for key in ("left", "audit"):
        made.pop(key, None)
    del made["options"]["sought"]
    file.write_text(json.dumps(made), encoding="utf-8")


def test_worlds_of_an_earlier_version_say_what_they_lack_and_get_it(tmp_path, fathom):
    names = ["base", "virtual-e", "anonymised-er", "inconsistent-ed", "fully-anonymised-erd"]
    made = build_worlds(FARM, tmp_path / "new", names, name="farm", audit=True, options=WorldOptions(relax=True))
    build_worlds(FARM, tmp_path / "old", names, name="farm", options=WorldOptions(relax=True))
    for name in names:
        outdated(tmp_path / "old" / name)
    before = [json.loads((tmp_path / "old" / name / "manifest.json").read_text(encoding="utf-8")) for name in names]
    assert left_table(before) == []
    assert "not audited: base, virtual-e" in audit_table(before).notes[1]
    assert "build audit" in audit_table(before).notes[1]
    assert mentioned(left_table([before[0], made[1]])[0].notes[1], "earlier version", "base; fathom build audit")
    code, out, _ = fathom("build", "audit", tmp_path / "old")
    assert code == 0
    assert "mentions of entities" in out
    for name, manifest in zip(names, made, strict=True):
        now = json.loads((tmp_path / "old" / name / "manifest.json").read_text(encoding="utf-8"))
        assert (now["left"], now["audit"]) == (manifest["left"], manifest["audit"]), name
        assert restore(tmp_path / "old" / name).content_hash == FARM.content_hash


def test_worlds_that_are_there_are_audited_and_stay_as_they_are(tmp_path):
    graph = pets()
    build_worlds(graph, tmp_path, ["anonymised-e"], name="pets")
    file = tmp_path / "anonymised-e" / "entity2text.txt"
    written = file.stat().st_mtime_ns
    [made] = build_worlds(graph, tmp_path, ["anonymised-e"], name="pets", audit=True)
    assert made == json.loads((tmp_path / "anonymised-e" / "manifest.json").read_text(encoding="utf-8"))
    assert "TF-IDF" in made["audit"]["descriptions"]
    assert file.stat().st_mtime_ns == written
    [again] = build_worlds(graph, tmp_path, ["anonymised-e"], name="pets")  # it keeps its audit
    assert again == made


def letters(texts):
    return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], dtype=np.float32)


def test_a_second_attack_is_added_to_the_first(tmp_path):
    build_worlds(pets(), tmp_path, ["anonymised-e"], audit=True)
    [made] = audit_worlds([tmp_path / "anonymised-e"], [Reader("vowels@1", letters)])
    assert list(made["audit"]["descriptions"]) == [*ATTACKS, "vowels@1"]
    [again] = audit_worlds([tmp_path])
    assert list(again["audit"]["descriptions"]) == [*ATTACKS, "vowels@1"]
    rows = [row[:2] for row in audit_table([again]).rows]
    described = (f"description, {attack}" for attack in (*ATTACKS, "vowels@1"))
    assert rows == [("anonymised-e", what) for what in ("name", *described)]


def test_a_language_model_reads_descriptions(tmp_path, fathom):
    """The control: texts as they are it knows again; random strings of the same letters it does not."""
    from tests.golden.desk import MODELS, make_model

    texts = [f"a land of {word}" for word in ("fjords", "gold", "the sea", "mountains", "high towers", "old cities")]
    graph = chain([f"place {row}" for row in range(6)], texts)
    folder = tmp_path / "graph"
    folder.mkdir()
    write_graph(graph, folder)
    name = next(iter(MODELS))
    make_model(name, tmp_path / name)
    command = ("build", "worlds", "--data", folder, "--out", tmp_path / "worlds", "--variants", "base,inconsistent-d")
    code, out, err = fathom(*command, "--audit-model", tmp_path / name, "--device", "cpu")
    assert code == 0, err
    assert f"{name}@" in out
    made = [
        json.loads((tmp_path / "worlds" / world / "manifest.json").read_text()) for world in ("base", "inconsistent-d")
    ]
    rates = [
        next(hits["hits@1"]["value"] for attacker, hits in one["audit"]["descriptions"].items() if name in attacker)
        for one in made
    ]
    assert rates == [1, 0]


def test_a_study_tells_of_the_worlds_that_are_there(tmp_path):
    build_worlds(pets(), tmp_path, ["base"], audit=True)
    build_worlds(pets(), tmp_path, ["virtual-e"])
    [table] = tabulate_audits(tmp_path, ["virtual-e", "base", "anonymised-er"])
    assert [row[:2] for row in table.rows] == [
        ("virtual-e", "not audited"),
        ("base", "name"),
        *(("base", f"description, {attack}") for attack in ATTACKS),
    ]
    assert stated(table.notes, "not audited: virtual-e;", "build audit")
    assert tabulate_audits(tmp_path / "none", ["base"]) == []


# Bad input


def test_a_folder_that_is_no_world_is_refused(tmp_path, fathom):
    (tmp_path / "nothing").mkdir()
    code, out, err = fathom("build", "audit", tmp_path / "nothing", tmp_path / "none")
    assert code == 2
    assert mentioned(err, tmp_path / "nothing", tmp_path / "none", "mapping.parquet")
    assert not out


def test_a_world_that_was_changed_since_is_refused(tmp_path, fathom):
    build_worlds(pets(), tmp_path, ["anonymised-e"])
    file = tmp_path / "anonymised-e" / "train.tsv"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    before = (tmp_path / "anonymised-e" / "manifest.json").read_bytes()
    code, _, err = fathom("build", "audit", tmp_path)
    assert code == 2
    assert "not those" in err
    assert (tmp_path / "anonymised-e" / "manifest.json").read_bytes() == before


PLAIN = '{"world": "base", "seed": 0, "source": SOURCE, "options": OPTIONS}'
NOT_THE_SOURCE = PLAIN.replace("SOURCE", '"x"').replace("OPTIONS", '{"shortest_mention": 2}')
NO_SEED = PLAIN.replace('"seed": 0', '"seed": "x"').replace("SOURCE", '{"content_hash": "x"}')
NO_SEED = NO_SEED.replace("OPTIONS", '{"shortest_mention": 2}')
NOT_A_NUMBER = PLAIN.replace("SOURCE", '{"content_hash": "x"}').replace("OPTIONS", '{"shortest_mention": "two"}')


@pytest.mark.parametrize("content", ["[]", "{}", '{"world": "base"}', NOT_THE_SOURCE, NOT_A_NUMBER, NO_SEED])
def test_a_manifest_that_is_none_is_refused(content, tmp_path, fathom):
    build_worlds(pets(), tmp_path, ["base"])
    (tmp_path / "base" / "manifest.json").write_text(content, encoding="utf-8")
    code, _, err = fathom("build", "audit", tmp_path / "base")
    assert code == 2
    assert stated(err, "no manifest", "lacks")


def test_a_missing_library_is_named_before_anything_is_written(tmp_path, fathom, monkeypatch):
    folder = tmp_path / "graph"
    folder.mkdir()
    write_graph(replace(pets(), splits={}), folder)
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    code, _, err = fathom("build", "worlds", "--data", folder, "--out", tmp_path / "out", "--audit")
    assert code == 2
    assert "pip install 'fathom-lm[kgc]'" in err
    assert not (tmp_path / "out").exists()


def test_no_table_of_left_names_and_no_dense_matrix_of_all_pairs(monkeypatch):
    """Never more than a block of similarities is held."""
    monkeypatch.setattr(module, "CELLS", 1)
    texts = [f"word{row % 7} thing{row}" for row in range(30)]
    assert TfIdf(texts).places(texts, np.arange(30)).hits(1).mean() == 1


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
    from fathom.engine.scoring.vectors import description_encoder
    from tests.golden.desk import make_model

    make_model(name, tmp_path / name)
    model = load(str(tmp_path / name), device="cpu")
    read_texts = description_encoder(model, Budget(None, model.device))
    long = "a land of gold " * 500
    vectors = read_texts(["a land of gold", "a land of fjords", "", long, long + long, "a land of gold"])
    assert vectors.shape == (6, vectors.shape[1])
    assert np.isnan(vectors).all(axis=1).tolist() == [False, False, True, False, False, False]
    assert (vectors[0] == vectors[5]).all()
    assert not np.allclose(vectors[0], vectors[1])
    assert model.max_tokens is not None
    assert np.allclose(vectors[3], vectors[4], atol=1e-5)


def test_entities_without_a_name_are_known_by_their_id():
    """Predictors read the id in place of the name, and worlds keep it."""
    graph = chain(["mouse", "", "cat", "dog"], ["grey", "green", "black", "brown"])
    by_name, _ = audited_hits(anonymised(graph, "e"), graph)
    assert by_name == 1 / 4

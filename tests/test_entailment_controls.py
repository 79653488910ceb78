"""What may be concluded of entailment: answerers who do not reason are told from one who does."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from fathom.data.queries import Query
from fathom.formats.ontoprobe import OntologyClass, task_lines, write_ontoprobe
from fathom.metrics.uncertainty import interval
from fathom.models.base import Attention
from fathom.prompts.entailment import GIVEN, RuleItem, _another
from fathom.results.tables import render
from fathom.studies.options import EntailmentStudyOptions
from fathom.studies.reasoning import entailment
from fathom.studies.reasoning.controls import (
    FEWEST,
    MEMORY,
    SAID,
    Control,
    Gains,
    _estimate,
    _less,
    by_half,
    control_of,
    gains_over,
    permuted,
)  # fmt: skip
from tests.answerers import answer_slots, verdict
from tests.conftest import build, make_local
from tests.test_cloze import KINDS, SHAPE

KIND = "BertForMaskedLM"
KINDS_OF_THINGS = [f"kind{number}" for number in range(12)]
ABOVE = {f"thing{number}": KINDS_OF_THINGS[number * 7 % 12] for number in range(120)}
"""The super-class of each class."""
KNOWN = {name for number, name in enumerate(ABOVE) if number % 2}
"""Whose super-class those remember who remember."""


@pytest.fixture(scope="module")
def things(tmp_path_factory) -> Path:
    return write_things(tmp_path_factory.mktemp("things"))


def write_things(where: Path) -> Path:
    """120 classes below 12: a hundred to test on."""
    folder = where / "ontology-of-things"
    (folder / "ontology").mkdir(parents=True)
    classes = [OntologyClass(f"http://x/{name}", name, (), ()) for name in KINDS_OF_THINGS]
    classes += [OntologyClass(f"http://x/{name}", name, (above,), ()) for name, above in ABOVE.items()]
    lines = task_lines(classes, [])
    write_ontoprobe(folder, classes, [], [], {"subClassOf": lines["subClassOf"]})
    return folder


@pytest.fixture(scope="module")
def small():
    return small_model()


def small_model():
    texts = [f"{name} is a {above} . Therefore, is a particular implies" for name, above in ABOVE.items()]
    tokenizer = KINDS[KIND](texts * 3)
    shape = SHAPE | {"max_position_embeddings": 64}
    network = build(KIND, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


# ---------------------------------------------------------------------------------------------------- who answers


def lot(*of: str) -> float:
    """From 0 to 1, of each in its own way; a million are drawn, for which no generator is seeded."""
    return int.from_bytes(hashlib.blake2b("|".join(of).encode(), digest_size=8).digest(), "big") / 2**64


def by_lot(query, names):
    return [lot(query.id, name) for name in names]


def constant(query, names):
    return [-place for place, _ in enumerate(names)]


def by_frequency(query, names):
    count = Counter(ABOVE.values())
    return [count[name] + lot(name) / 2 for name in names]


def copies(query, names):
    """Whatever class stands in the text: the first."""
    text = query.sentences[0].text.lower() if query.sentences else query.subject
    return [(100 - text.index(name) if re.search(rf"\b{name}\b", text) else lot(query.id, name)) for name in names]


def remembers(query, names, about=None):
    """Says of every class that it hears of what it has learnt, whoever is said to be one."""
    heard = [query.subject] if about is None and not query.sentences else about or said_of(query, "[^ ]+")
    known = {ABOVE[name] for name in heard if name in KNOWN}
    return [float(name in known) + lot(query.id, name) / 2 for name in names]


def reasons(query, names):
    """Applies what is said, or else what it has learnt, to whom it is said of."""
    if not query.sentences:
        return remembers(query, names)
    text = query.sentences[0].text.lower()
    found = set()
    for name in said_of(query, "<x>"):
        told = re.search(rf"(?:^|\. ){name} is an? (\w+) \.", text)
        found |= {told[1]} if told else {ABOVE[name]} & {ABOVE[known] for known in KNOWN if known == name}
    return [float(name in found) + lot(query.id, name) / 2 for name in names]


def said_of(query, whom):
    return [found[1] for found in re.finditer(rf"(?:^|\. ){whom} is an? (\w+) \.", query.sentences[0].text.lower())]


ANSWERERS = {one.__name__: one for one in (by_lot, constant, by_frequency, copies, remembers, reasons)}


def asked(things, small, out, answerer, monkeypatch, **options):
    """Run the study with the answers of *answerer*, and random ones of untrained twins."""
    answer_slots(monkeypatch, answerer, by_lot)
    said = EntailmentStudyOptions(**{"rules": ("rdfs9",), "pairs": 2} | options)
    return entailment.analyse([("who", lambda: small)], things, said, out, lambda name: lambda done, total: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERERS)
def test_only_who_reasons_is_said_to_reason(things, small, tmp_path, monkeypatch, name):
    found = asked(things, small, tmp_path, ANSWERERS[name], monkeypatch).contrasts
    assert [(one.conclusion, one.control) for one in found] == [
        *(("uses what it remembers", control) for control in MEMORY),
        *(("combines what is said", control) for control in SAID),
    ]
    verdicts = {verdict([one for one in found if one.conclusion == said]) for said in {one.conclusion for one in found}}
    expected = {"reasons": {"significant"}, "constant": {"no significant difference", "cannot be determined"}}
    assert verdicts <= expected.get(name, {"no significant difference"})
    gains = {(one.conclusion, one.control): one.gain.value for one in found}
    if name == "reasons":
        # The right answer is first where it follows, else anywhere among 132 by lot: 1 / rank about 0.04.
        assert all(0.85 < gain < 1 for gain in gains.values())
        assert found[0].items == 100
        assert found[0].permuted == pytest.approx(1 / 2001)
    if name == "remembers":  # which looks like reasoning with the weakest control alone
        assert gains["uses what it remembers", "nothing said"] > 0.8
        assert gains["uses what it remembers", "another P2"] > 0.8
        assert abs(gains["uses what it remembers", "P2 of others"]) < 0.1
    if name == "copies":
        assert gains["combines what is said", "P1 alone"] == pytest.approx(0, abs=0.05)


# ---------------------------------------------------------------------------------------------------- numbers by hand


def test_gains_are_means_over_the_pairs_that_both_have():
    said = {("a", 0): 1.0, ("a", 1): 0.5, ("b", 0): 0.25, ("c", 0): 1.0}
    control = {("a", 0): 0.5, ("a", 1): 0.25, ("b", 0): 0.5, ("b", 1): 1.0}
    assert gains_over(said, control) == {"a": pytest.approx((0.5 + 0.25) / 2), "b": -0.25}


def test_the_difference_is_that_of_the_halves():
    gains = {
        f"i{number}": value for number, value in enumerate([0.9, 0.7, 0.5, 0.3, 0.1, 0.8, 0.2, 0.4, 0.0, 0.1, 0.6])
    }
    remembered = {f"i{number}": (11 - number) / 11 for number in range(11)}
    found = by_half(gains, remembered)  # i5 is in the middle
    better, worse = [0.9, 0.7, 0.5, 0.3, 0.1], [0.2, 0.4, 0.0, 0.1, 0.6]
    assert found.better == pytest.approx(np.mean(better))
    assert found.worse == pytest.approx(np.mean(worse))
    assert found.values.mean() == pytest.approx(0.5 - 0.26)
    # As Welch's test: s² / n of each half is 0.02 and 0.0116, of (0.0316²) / (0.02² / 4 + 0.0116² / 4) = 7.47 degrees.
    own = interval(found.values, within=found.group)
    assert (own.high - own.low) / 2 == pytest.approx(np.sqrt(0.0316) * t.ppf(0.975, 7.472), rel=1e-3)


def test_what_equal_memory_would_put_into_either_half_is_left_out():
    gains = {f"i{number}": float(number) for number in range(20)}
    remembered = {f"i{number}": 1.0 if number < 7 else 0.5 if number < 13 else 0.1 for number in range(20)}
    found = by_half(gains, remembered)
    assert found.group == ["better"] * 7 + ["worse"] * 7
    assert (found.better, found.worse) == (3.0, 16.0)
    assert len(by_half(gains, dict.fromkeys(remembered, 0.5)).values) == 0
    # Without the nine in the middle the worse half has three: the border is moved to behind the first eight.
    uneven = {f"i{number}": 1.0 if number < 8 else 0.5 if number < 17 else 0.1 for number in range(20)}
    assert by_half(gains, uneven).group == ["better"] * 8 + ["worse"] * 12
    few = {item: value for item, value in remembered.items() if item in {"i0", "i1", "i2", "i3", "i17", "i18", "i19"}}
    assert len(by_half(gains, few).values) == 0 < len(few) < 2 * FEWEST


def test_permutations_are_those_of_a_t_test():
    draw = np.random.default_rng(3)
    best = np.arange(60) < 30
    for shift in (0.0, 0.3, 0.6):
        values = draw.normal(size=60) + shift * best
        gap = values[best].mean() - values[~best].mean()
        error = np.sqrt(values[best].var(ddof=1) / 30 + values[~best].var(ddof=1) / 30)
        assert permuted(values, best) == pytest.approx(2 * t.sf(abs(gap) / error, 58), abs=0.03)
    # No draw of 2,000 parts them as well as the observed, which is itself a draw.
    assert permuted(best.astype(float), best) == 1 / 2001


def test_texts_of_controls(things, small, tmp_path, monkeypatch):
    found = asked(things, small, tmp_path, by_lot, monkeypatch, untrained=0)
    texts = {}
    for run in found.runs[-2:]:
        for query in run.queries().to_pylist():
            groups = dict(query["groups"])
            texts.setdefault((groups["item"], int(groups["pair"])), {})[groups["given"]] = query
    assert {run.path.name for run in found.runs[-2:]} == {"words", "controls-words"}
    assert all({*GIVEN, *MEMORY.values(), *SAID.values()} == set(own) for own in texts.values())
    assert len(texts) == 200


def test_untrained_twins_are_beside_each_model(things, small, tmp_path):
    said = EntailmentStudyOptions(rules=("rdfs9",), pairs=2, untrained=2, limit=30)
    found = entailment.analyse([("bert", lambda: small)], things, said, tmp_path, lambda name: lambda done, total: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bert", "bert-untrained-0", "bert-untrained-1"]
    assert {run.manifest["identity"]["model"]["content_hash"] for run in found.runs}.__len__() == 3
    assert {one.model for one in found.contrasts} == {"bert"}
    assert all(one.beyond is not None for one in found.contrasts)
    # The model is as untrained as its twins are.
    assert all(verdict([one for one in found.contrasts if one.conclusion == said]) != "significant" for said in (
        "uses what it remembers", "combines what is said"))  # fmt: skip
    text = render(entailment.tables(found)[:1], "text")
    assert "beyond untrained" in text
    assert "no significant difference" in text or "cannot be determined" in text
    titles = ("all rules (figure 3)", "rdfs9, every setting")
    nine = [table for table in entailment.tables(found) if table.title in titles]
    assert len(nine) == 2
    for table in nine:
        [said] = [note for note in table.notes if note.startswith("as published: no control")]
        assert said.endswith(entailment._CONCLUDED)


def test_one_pair_has_no_controls(things, small, tmp_path, monkeypatch):
    found = asked(things, small, tmp_path, reasons, monkeypatch, pairs=1)
    notes = [note for note in entailment.tables(found)[0].notes if note.startswith("as published: no control")]
    assert [note.rpartition(": ")[2] for note in notes] == [entailment._NOT_CONCLUDED]
    assert found.contrasts == []
    assert any("--pairs 2" in note for note in found.notes)


def against(conclusion, control, own, theirs):
    """The contrast of a model's gains, with one twin's."""
    return control_of(("m", "words", "rdfs9", conclusion, control), own, [theirs], "x")


def ranks_of(draw, effect, memory, reminds):
    """1 / rank of 100 items by the texts of one model, whose answers lean to what they lean to, and to what the class
    that is named reminds it of: in the text that asks for memory, and in P2 of whomever.

    :param effect: of those who reason.
    :param memory: whether each is remembered, and *reminds* how strongly.
    """
    bias, reminded = draw.normal(size=(2, 100))
    reminded = reminded + reminds * memory  # which decides what counts as remembered
    noise = iter(draw.normal(size=(8, 100)))
    known = bias + reminded + next(noise)
    scores = {
        "none": bias + next(noise),
        "P2": bias + reminded + effect * memory + next(noise),
        "P2 of others": bias + reminded + next(noise),
        "another P2": bias + next(noise),
        "P1": bias + 3 + next(noise),
        "both": bias + 3 + reminded + effect + next(noise),
        "P1, P2 of others": bias + 3 + reminded + next(noise),
    }
    return known, {text: 1 / (1 + np.exp(-values + 3)) for text, values in scores.items()}


def concluded(seed, effect):
    draw = np.random.default_rng(seed)
    memory = draw.random(100) < 0.5
    # A model that only looks like a reasoner, as much so without training; or a reasoner, and a twin without memory.
    twin = 0 if effect else 4
    both = [ranks_of(draw, effect, memory, 4), ranks_of(draw, 0, draw.random(100) < 0.5, twin)]
    found = []
    for conclusion, given in (("uses what it remembers", MEMORY), ("combines what is said", SAID)):
        said = "P2" if given is MEMORY else "both"
        for control, text in given.items():
            gains = []
            for known, ranks in both:
                values = dict(enumerate(ranks[said] - ranks[text]))
                whole = Gains(np.array(list(values.values())), ["rdfs9"] * 100)
                gains.append(by_half(values, dict(enumerate(known))) if given is MEMORY else whole)
            found.append(against(conclusion, control, *gains))
    return [verdict(found[:3]), verdict(found[3:])]


@pytest.mark.slow
def test_random_models_seldom_seem_to_reason_and_a_reasoner_does():
    """Models whose bias and associations decide both what they remember and what they answer: at most one in twenty.
    One who reasons is told from them with 100 items, four times in five."""
    without = [concluded(seed, 0) for seed in range(200)]
    assert sum(uses == "significant" for uses, _ in without) <= 10
    assert sum(combines == "significant" for _, combines in without) <= 10
    with_it = [concluded(seed, 4) for seed in range(30)]
    assert min(sum(one[place] == "significant" for one in with_it) for place in (0, 1)) >= 24


def test_what_is_beyond_twins_by_hand():
    """2, the mean of 1 and 3, less 1, the mean of the twins' means 0.5 and 1.5; and not 3, nor 2 − 2."""
    own = Gains(np.array([1.0, 3.0]), ["a", "a"])
    twins = [Gains(np.array([0.5, 0.5]), ["a", "a"]), Gains(np.array([1.5]), ["a"])]
    values, groups = _less(own, twins)
    assert values.mean() == pytest.approx(1.0)
    assert groups == ["0 a", "0 a", "1 a", "1 a", "2 a"]
    many = Gains(np.full(20, 0.3) + np.tile([0.1, -0.1], 10), ["a"] * 20)
    beyond = control_of(("m", "w", "r", "c", "p"), many, [many], "made").beyond
    assert beyond is not None
    assert beyond.value == pytest.approx(0)
    assert beyond.low < 0 < beyond.high


def test_an_interval_stays_within_what_a_gain_can_be():
    """Two items tell next to nothing: by themselves the ends would be 1.3 from zero, where a gain is less than 1. Of
    halves it is a difference of gains, and less than 2."""
    two = Gains(np.zeros(2), ["a", "a"])
    found = control_of(("m", "w", "r", "c", "p"), two, [], "made").gain
    assert (found.low, found.high) == (-1.0, 1.0)
    beyond = control_of(("m", "w", "r", "c", "p"), two, [two], "made").beyond
    assert -2 <= beyond.low < 0 < beyond.high <= 2
    of_halves = two._replace(better=0.0, worse=0.0)
    assert control_of(("m", "w", "r", "c", "p"), of_halves, [], "made").gain.high == pytest.approx(1.315, abs=1e-3)


@pytest.mark.parametrize(("gain", "beyond", "by_lot", "expected"), [
    (0.3, 0.2, 0.01, "significant"),
    (0.3, None, 0.01, "significant"),
    (0.3, None, None, "significant"),
    (0.3, 0.0, 0.01, "no significant difference"),
    (0.3, -0.2, 0.01, "no significant difference"),
    (0.0, 0.2, 0.01, "no significant difference"),
    (0.3, 0.2, 0.05, "no significant difference"),
    (None, None, None, "cannot be determined"),
])  # fmt: skip
def test_every_part_of_a_verdict_is_needed(gain, beyond, by_lot, expected):
    def number(mean):
        return None if mean is None else _estimate(np.tile([mean - 0.1, mean + 0.1], 10), ["a"] * 20, "made")

    none = _estimate(np.array([]), [], "made")
    gained = none if gain is None else number(gain)
    one = Control("m", "w", "r", "c", "p", 20, 0.0, 0.0, gained, by_lot, number(beyond))
    good = one._replace(gain=number(0.3), beyond=number(0.2), permuted=0.001)
    assert verdict([good, one]) == expected
    partly = "cannot be determined" if expected == "significant" else expected
    assert verdict([good, one], {"p"}) == expected
    assert verdict([good, one], {"p", "q"}) == partly


def test_combining_what_is_said_is_of_all_items(things, small, tmp_path, monkeypatch):
    """Of 31 items one is in neither half, and in no setting; what is made of premises that are said is of it, too."""
    found = asked(things, small, tmp_path, reasons, monkeypatch, limit=31, untrained=0)
    items = {(one.conclusion, one.control): one.items for one in found.contrasts}
    assert {count for (conclusion, _), count in items.items() if conclusion == "combines what is said"} == {31}
    assert {count for (conclusion, _), count in items.items() if conclusion != "combines what is said"} == {30}
    [line] = [line for line in found.lines if line.setting[3:] == ("explicit", "explicit")]
    assert len(line.items) <= 2 * 30
    assert all(effect.items <= 30 for effect in found.effects)
    of_others = (_asked_by("controls-words", found, given) for given in ("P1, P2 of others", "P2 of others"))
    [lone, *_] = set.difference(*of_others)
    assert lone in _asked_by("words", found, "both") & _asked_by("words", found, "P1")
    assert lone not in _asked_by("words", found, "P2") | _asked_by("words", found, "none")


def _asked_by(name, found, given):
    [run] = [run for run in found.runs if run.path.name == name]
    groups = [dict(query["groups"]) for query in run.queries().to_pylist()]
    return {own["item"] for own in groups if own["given"] == given}


def test_another_items_premise_has_no_answer_in_common() -> None:
    """What is said of another item must not entail a right answer of this one, nor be of the same subject."""

    def item(number: int, subject: str, told: str, *gold: str) -> RuleItem:
        return RuleItem(Query(str(number), "type", subject, subject, (told,), "class"), gold, "", told)

    singer = item(0, "Anna", "singer", "artist", "person")
    items = [
        singer,
        item(1, "Anna", "town", "place"),  # the same subject
        item(2, "Bert", "painter", "artist", "agent"),  # artist is right of both
        item(3, "Cleo", "human", "person"),  # so is person
        item(4, "Dora", "river", "singer"),  # what is entailed here is what P1 of the first says
        item(5, "Emil", "lake", "water"),
        item(6, "Finn", "pond", "water"),
    ]
    assert _another(singer, items, 0) == items[5]
    assert _another(singer, items, 5) == items[6]  # each pair of pseudowords begins one further
    assert _another(singer, items[:5], 0) is None

"""Chains of several steps: what is asked, worked out by hand, and who is said to follow."""

from __future__ import annotations

import random
import re
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fathom.errors import BadInput
from fathom.formats import read
from fathom.formats.ontoprobe import OntologyClass, OntologyProperty, read_patterns, task_lines, write_ontoprobe
from fathom.models.base import Attention
from fathom.prompts.arguments import (
    ANOTHER,
    ANSWER_ALONE,
    BROKEN,
    FORMS,
    MISSING,
    OF_OTHERS,
    WHOLE,
    _strange,
    argument_queries,
    arguments,
)
from fathom.results.samples import Origin
from fathom.results.tables import render
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning import chains
from tests.answerers import answer_slots, verdict
from tests.conftest import build, make_local
from tests.messages import correspond, mentioned, mentions, stated
from tests.test_cloze import KINDS, SHAPE
from tests.test_entailment import folder
from tests.test_entailment_causal import byte_level, causal

assert folder  # a fixture
KIND = "BertForMaskedLM"
ABOVE = {f"thing{number}": f"kind{number * 7 % 20}" for number in range(80)}
ABOVE |= {f"kind{number}": f"sort{number * 3 % 11}" for number in range(20)}
ABOVE |= {f"sort{number}": f"realm{number * 5 % 7}" for number in range(11)}
"""The super-class of each class: three steps from things to realms."""
PROPERTIES = {f"prop{number}": f"thing{number}" for number in range(30)}
"""Domains and ranges."""


def upwards(name: str) -> list[str]:
    return [ABOVE[name], *upwards(ABOVE[name])] if name in ABOVE else []


@pytest.fixture(scope="module")
def tower(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("tower") / "ontology-of-towers"
    (out / "ontology").mkdir(parents=True)
    names = dict.fromkeys([*ABOVE, *ABOVE.values()])
    classes = [OntologyClass(f"http://x/{name}", name, tuple(upwards(name)), ()) for name in names]
    properties = [
        OntologyProperty((f"http://x/{name}",), name, (of,), (of,), {}, f"[X] {name} [Y] .")
        for name, of in PROPERTIES.items()
    ]
    lines = task_lines(classes, properties)
    write_ontoprobe(out, classes, properties, [], {task: lines[task] for task in ("subClassOf", "domain", "range")})
    return out


@pytest.fixture(scope="module")
def small():
    texts = [
        f"{name} is a {above} . Therefore, Every belongs to the class One has to be if" for name, above in ABOVE.items()
    ]
    tokenizer = KINDS[KIND](texts * 3)
    network = build(KIND, vocab_size=len(tokenizer), **SHAPE | {"max_position_embeddings": 120})
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


def texts_of(tower, rule, depth, item, **more):
    queries = argument_queries(read(tower), read_patterns(tower), [rule], depth, FORMS, 2, 0).queries
    wanted = {"item": item, "pair": "0", "depth": str(depth)} | more
    return {
        (query.groups["form"], query.groups["given"]): query
        for query in queries
        if all(query.groups[key] == value for key, value in wanted.items())
    }


def test_texts_by_hand(tower):
    """thing40 is kind280 % 20 = kind0, that is sort0, that is realm0."""
    data = read(tower)
    item = next(query for query in data.queries if query.subject == "thing40")
    found = texts_of(tower, "rdfs9", 3, item.id)
    plain = {given: query.sentences[0].text for (form, given), query in found.items() if form == "plain"}
    facts = "Thing40 is a kind0 . Kind0 is a sort0 . Sort0 is a realm0 ."
    asked = "Therefore, <x> is a particular [Y] ."
    assert plain[WHOLE] == f"{facts} <x> is a thing40 . {asked}"
    assert plain[ANSWER_ALONE] == f"Sort0 is a realm0 . {asked}"
    assert plain[OF_OTHERS] == f"{facts} <z> is a thing40 . {asked}"
    assert plain[MISSING] == f"Kind0 is a sort0 . Sort0 is a realm0 . <x> is a thing40 . {asked}"
    another = re.fullmatch(rf"{re.escape(facts)} <x> is a (\w+) \. {re.escape(asked)}", plain[ANOTHER])[1]
    assert not {another, *upwards(another)} & {"thing40", *upwards("thing40")}
    whole = found["paraphrased", WHOLE].sentences[0].text
    assert whole == (
        "Every thing40 is a kind0 . Every kind0 is a sort0 . Every sort0 is a realm0 . "
        f"<x> belongs to the class thing40 . {asked}"
    )
    query = found["plain", WHOLE]
    assert (query.gold, set(query.known)) == (("realm0",), {"thing40", "kind0", "sort0"})
    two = texts_of(tower, "rdfs9", 2, item.id)
    assert two["plain", MISSING].sentences[0].text == f"Kind0 is a sort0 . <x> is a thing40 . {asked}"
    one = texts_of(tower, "rdfs9", 1, item.id)
    assert MISSING not in {given for _, given in one}
    assert one["plain", WHOLE].sentences[0].text == f"Thing40 is a kind0 . <x> is a thing40 . {asked}"


def test_shuffled_texts_keep_one_order_and_have_facts_of_others(tower):
    data = read(tower)
    item = next(query for query in data.queries if query.subject == "thing40")
    found = texts_of(tower, "rdfs9", 3, item.id)
    sentences = {
        given: query.sentences[0].text.replace("<z>", "<x>").split(" . ")[:-1]
        for (form, given), query in found.items()
        if form == "shuffled"
    }
    whole = sentences[WHOLE]
    assert len(whole) == 6  # three facts, what is said of <x>, two facts of others
    assert sentences[OF_OTHERS] == whole
    assert sentences[MISSING] == [one for one in whole if one != "Thing40 is a kind0"]
    others = [one for one in sentences[ANSWER_ALONE] if one != "Sort0 is a realm0"]
    assert len(others) == 2
    for other in others:
        below = other.split()[0].lower()
        assert not {below, *upwards(below)} & {"thing40", *upwards("thing40")}


def test_another_beginning_has_nothing_in_common_with_an_item(tower):
    """Neither the classes themselves nor what stands above either, of any item and in any order of the others."""
    every, _ = arguments(read(tower), read_patterns(tower), "rdfs9", 1)
    for one in every:
        rest = [other for other in every if other is not one]
        random.Random(one.item.query.id).shuffle(rest)
        another = _strange(one, rest)[0].item.query.subject
        own = one.item.query.subject
        assert not {another, *upwards(another)} & {own, *upwards(own)}


def test_chains_begin_with_domains_and_ranges(tower):
    data = read(tower)
    item = next(query for query in data.queries if query.relation == "domain" and query.subject == "prop23")
    found = texts_of(tower, "rdfs2", 2, item.id)
    whole, other = (found[form, WHOLE].sentences[0].text for form in ("plain", "paraphrased"))
    asked = "<x> prop23 <y> . Therefore, <x> is a particular [Y] ."
    assert whole == f"One has to be a thing23 if one prop23 a thing23 . Thing23 is a kind1 . {asked}"
    assert other == f"If one prop23 a thing23 , one is a thing23 . Every thing23 is a kind1 . {asked}"
    assert found["plain", WHOLE].gold == ("kind1",)


def test_items_with_short_chains_are_left_out_and_counted(tower):
    queries = argument_queries(read(tower), read_patterns(tower), ["rdfs9"], 3, FORMS, 2, 0)
    # Of 111 classes with a super-class, 80 have three steps above them.
    assert {query.groups["item"] for query in queries.queries if query.groups["depth"] == "1"} == {
        query.groups["item"] for query in queries.queries if query.groups["depth"] == "3"
    }
    assert stated(queries.notes, "rdfs9: 31 of 111", "fewer than 3")


@pytest.mark.parametrize(("rule", "counts"), [("rdfs9", (571, 380, 227)), ("rdfs2", (41, 32, 18))])
def test_chains_of_the_published_ontology(shared_data, rule, counts):
    data, patterns = read(shared_data / "ontoprobe"), read_patterns(shared_data / "ontoprobe")
    assert tuple(len(arguments(data, patterns, rule, depth)[0]) for depth in (2, 3, 4)) == counts


# ---------------------------------------------------------------------------------------------------- who follows


def lot(*seed):
    """From 0 to 1."""
    return zlib.crc32("|".join(map(str, seed)).encode()) / 2**32


def scores(query, names, right):
    return [float(name in right) + lot(query.id, name) / 2 for name in names]


def by_lot(query, names):
    return scores(query, names, ())


def constant(query, names):
    return [-place for place, _ in enumerate(names)]


def copies(query, names):
    """Whatever stands in the text."""
    return scores(query, names, set(re.findall(r"\w+", query.sentences[0].text.lower())))


def said(query, whom="<x>"):
    """What is said of whom, and of classes, in whatever words."""
    text = query.sentences[0].text.lower().replace("every ", "").replace("belongs to the class", "is a")
    steps = re.findall(r"(?:^|\. )(\w+) is a (\w+) \.(?= )", text.replace(" . ", " .  . "))
    return re.findall(rf"{whom} is a (\w+) \.", text), dict(steps)


def remembers(query, names):
    """All that it knows of all classes that are said of whomever."""
    begin, _ = said(query, "<[xz]>")
    return scores(query, names, {above for name in begin for above in upwards(name)})


def follows(query, names, steps=9):
    begin, links = said(query)
    found, now = set(), begin
    for _ in range(steps):
        now = [links[name] for name in now if name in links]
        found |= set(now)
    return scores(query, names, found)


def one_step(query, names):
    return follows(query, names, 1)


@pytest.mark.slow
@pytest.mark.parametrize("who", [by_lot, constant, copies, remembers, one_step, follows], ids=lambda who: who.__name__)
def test_only_who_follows_is_said_to_follow(tower, small, tmp_path, monkeypatch, who):
    answer_slots(monkeypatch, who, by_lot)
    options = ChainStudyOptions(rules=("rdfs9",), depth=3, limit=60)
    found = chains.analyse([("who", lambda: small)], tower, options, tmp_path, lambda name: lambda done, total: None)
    verdicts = {}
    for contrast in found.contrasts:
        verdicts.setdefault((contrast.rule, contrast.wording), []).append(contrast)
    told = {key: verdict(own) for key, own in verdicts.items()}
    assert len(told) == 9
    if who is follows:
        assert set(told.values()) == {"significant"}
        assert all(line.whole.value == 1 for line in found.lines)
    elif who is one_step:  # the curve falls behind the first step
        assert all((said == "significant") == ("depth 1" in rule) for (rule, _), said in told.items())
    else:
        assert set(told.values()) <= {"no significant difference", "cannot be determined"}
    controls = {contrast.control for contrast in found.contrasts if "depth 3" in contrast.rule}
    assert controls == set(BROKEN)
    text = render(chains.tables(found), "text")
    assert "how far it follows" in text
    assert [plot.name for plot in chains.plots(found)] == ["chains-who-rdfs9"]


def test_controls_that_cannot_be_made_are_counted(tower, tmp_path):
    """Four classes one above the other: all that is said of one is said of what the others are about."""
    names = ["one", "two", "three", "four"]
    line = [OntologyClass(f"http://x/{name}", name, tuple(names[at:]), ()) for at, name in enumerate(names, 1)]
    (tmp_path / "line" / "ontology").mkdir(parents=True)
    write_ontoprobe(tmp_path / "line", line, [], [], {"subClassOf": task_lines(line, [])["subClassOf"]})

    def lacking(data):
        return chains._without_another(argument_queries(read(data), read_patterns(data), ["rdfs9"], 1, FORMS, 2, 0))

    assert lacking(tower) == []
    assert correspond(lacking(tmp_path / "line"), ("rdfs9: 3 of 3", "'another begins'", "'follows what is said'"))
    # "low" is below both others, which have nothing in common: it alone lacks the control.
    above = {"low": ("left", "right"), "left": ("wide",), "right": ("round",), "wide": (), "round": ()}
    fork = [OntologyClass(f"http://x/{name}", name, uppers, ()) for name, uppers in above.items()]
    (tmp_path / "fork" / "ontology").mkdir(parents=True)
    write_ontoprobe(tmp_path / "fork", fork, [], [], {"subClassOf": task_lines(fork, [])["subClassOf"]})
    assert correspond(lacking(tmp_path / "fork"), ("rdfs9: 1 of 3", "'another begins'"))


def test_a_causal_model_and_the_command(tower, tmp_path, fathom):
    tokenizer = byte_level([f"{name} is a {above} ." for name, above in ABOVE.items()])
    model = causal("GPT2LMHeadModel", tokenizer)
    options = ChainStudyOptions(rules=("rdfs2", "rdfs9"), depth=2, forms=("plain",), limit=16, untrained=0)
    found = chains.analyse(
        [("gpt2", lambda: model)], tower, options, tmp_path / "a", lambda name: lambda done, total: None
    )
    assert {line.place.depth for line in found.lines} == {1, 2}
    with pytest.raises(BadInput, match=mentions("--depth 9", "rdfs9", "--rules")):
        chains.analyse([("gpt2", lambda: model)], tower, ChainStudyOptions(rules=("rdfs9",), depth=9), tmp_path, print)
    saved = tmp_path / "saved"
    tokenizer.save_pretrained(saved)
    build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=2).save_pretrained(saved)
    given = ["study", "chains", "--model", saved, "--data", tower, "--rules", "rdfs9", "--depth", "2", "--limit", "8"]
    code, out, error = fathom(*given, "--forms", "plain", "--untrained", "0", "--out", tmp_path / "b")
    assert code == 0, error
    assert "does it follow?" in out
    assert (tmp_path / "b" / "chains-saved-rdfs9.png").exists()
    code, _, error = fathom(*given, "--pairs", "1", "--out", tmp_path / "c")
    assert code == 2
    assert "--pairs" in error
    code, _, error = fathom(*given, "--options", "4", "--out", tmp_path / "d")
    assert code == 2
    assert mentioned(error, "--model saved", "--options")
    code, _, error = fathom(*given, "--forms", "plain,nope", "--out", tmp_path / "e")
    assert code == 2
    assert mentioned(error, "error: --forms: ", "'plain', 'paraphrased' or 'shuffled'", "'nope'")


# ---------------------------------------------------------------------------------------------------- numbers by hand


def values_of(**by_item):
    """1 / rank of items, each of one pair and all pairs a list."""
    return {
        (item, pair): chains._Value(value, Origin("item", item, "rdfs9", item))
        for item, own in by_item.items()
        for pair, value in enumerate(own)
    }


@pytest.fixture
def by_hand(monkeypatch):
    """A model of whom so much is known: two steps of rdfs9, plain and shuffled."""
    monkeypatch.setattr(chains, "_recipe", lambda model, place: "MRR")
    known = {
        ("plain", WHOLE): values_of(a=[0.5, 0.5], c=[1.0]),
        ("shuffled", WHOLE): values_of(a=[1.0, 0.5], b=[0.25]),
        ("shuffled", MISSING): values_of(a=[0.25, 0.25], b=[0.75]),
    }
    values = {("rdfs9", form, 2, text): own for (form, text), own in known.items()}
    return chains._ModelChains("m", None, None, values)


def test_a_line_by_hand(by_hand):
    line = chains._line(chains.ChainPlace("m", "rdfs9", "shuffled", 2), by_hand, "plain")
    assert line.items == 2, "not three texts"
    assert line.whole.value == pytest.approx((1.0 + 0.5 + 0.25) / 3)
    assert {text: number.value for text, number in line.broken.items()} == {MISSING: pytest.approx(1.25 / 3)}
    assert line.reworded.value == pytest.approx((1.0 + 0.5) / 2 - 0.5), "of the items of both, shuffled less plain"
    first = chains._line(chains.ChainPlace("m", "rdfs9", "plain", 2), by_hand, "plain")
    assert (first.reworded, first.items) == (None, 2)


def test_gains_and_twins_by_hand(by_hand):
    """Of each item the mean over its pairs: a 0.5, b −0.5; and so much beyond a twin that gains 0.25 throughout."""
    place = chains.ChainPlace("m", "rdfs9", "shuffled", 2)
    assert chains._gains(by_hand, place, MISSING).values.tolist() == [0.5, -0.5]
    texts = {WHOLE: values_of(a=[0.5], b=[0.5]), MISSING: values_of(a=[0.25], b=[0.25])}
    twin = chains._ModelChains("t", None, None, {("rdfs9", "shuffled", 2, text): own for text, own in texts.items()})
    [one] = chains._contrasts(place, by_hand, [twin])
    assert (one.control, one.items, one.better, one.permuted) == (MISSING, 2, None, None)
    assert (one.gain.value, one.beyond.value) == pytest.approx((0.0, -0.25))


def test_how_far_below_the_best_by_hand():
    """Of 11 candidates, two of which are taken out, the one that is asked for has 8 others: fifth is half way down. Who
    chose it is at 0, who chose another at 1."""
    rank = np.array([1.0, 5.0, 9.0, np.nan, np.nan])
    rows = SimpleNamespace(
        number_of_candidates=np.full(5, 11), filtered=[2, 0], query=np.zeros(5, dtype=int), rank=rank,
        correct=np.array([np.nan, np.nan, np.nan, 1.0, 0.0]),
    )  # fmt: skip
    assert chains._below(rows) == [0, 0.5, 1, 0, 1]


def test_a_depth_that_too_few_items_have(tower):
    """Two items are enough: a limit that leaves one is said before anything is asked."""
    plan, queries = chains._planned(tower, ChainStudyOptions(rules=("rdfs9",), depth=3, limit=4, pairs=2, seed=1))
    items = {query.groups["item"] for query in queries.queries}
    assert {query.groups["depth"] for query in queries.queries} == {"1", "2", "3"}
    assert 2 <= len(items) <= 4
    assert plan.rules == ("rdfs9",)

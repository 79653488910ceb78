"""Who is said to reason: no shortcut, in any of three studies, and every perfect reasoner; and the numbers by hand."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import fathom
from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.nonce import FIRST, INNER, LAST, nonce_words, similar_words
from fathom.data.prompts.alterations import (
    ANOTHER_FIRST,
    ANOTHER_SECOND,
    ANSWERS_EXCHANGED,
    COMBINES,
    FORMS,
    MIDDLE_MISSING,
    NEEDED,
    NEGATED_FIRST,
    NEGATED_SECOND,
    OTHER_SUBJECT,
    REMEMBERS,
    REVERSED,
    SECOND_REVERSED,
    SUBJECTS_EXCHANGED,
    VERB_FIRST,
    VERB_SECOND,
    WEAKENED_FIRST,
    WHOLE,
    WITHOUT_FIRST,
    WITHOUT_SECOND,
    WORDS_EXCHANGED,
    argument_queries,
    needed,
)
from fathom.data.prompts.nonce import NonceWords, excerpt_of
from fathom.data.prompts.ontology import RULES
from fathom.engine.models.base import Attention
from fathom.results.claims import NO_DIFFERENCE, SIGNIFICANT, UNDETERMINED
from fathom.results.summary import summarise
from fathom.studies.options import ChainStudyOptions, EntailmentStudyOptions
from fathom.studies.reasoning import chains, choice, entailment
from fathom.studies.reasoning.conclusions import (
    Evidence,
    conclusion_tables,
    counterfactuals,
    is_remembered,
    judge,
)
from fathom.studies.reasoning.plan import draw_items, planned
from fathom.studies.reasoning.shortcuts import SHORTCUTS as BASELINES
from fathom.studies.reasoning.shortcuts import AskedText, solved_items
from fathom_build.choices import build_choices
from fathom_build.options import ChoicesBuildOptions
from tests.answerers import answer_slots
from tests.conftest import build, make_local
from tests.messages import mentioned, stated
from tests.probes.test_cloze import KINDS as MODELS
from tests.probes.test_cloze import SHAPE
from tests.reasoners import (
    KINDS,
    MEMORY_USERS,
    REASONERS,
    SHORTCUTS,
    Reading,
    Reasoning,
    at_random,
    concluded,
    copies_if_stated,
    first_and_last,
    knows,
    one_step,
    reader,
    reasoner,
    remembers_anyone,
    scoring,
    simulated,
    write_things,
)

MODEL = "BertForMaskedLM"
STUDIES = ("entailment", "chains", "choice")
OF_RULE = 1 + 2 + 11 * 2 + 2 * 6 + 3 + 5 + 6
"""Texts of a whole argument of one fact: whole; a premise missing; two premises in two orders, three or four in six;
three further versions of another premise 1, one of five others, and one of exchanged subjects in six orders."""
OF_MEMORY = 1 + 5 + 2 + 2 * 6
"""Of premise 2 alone: whole; five of one sentence or none; about two other subjects; each exchanged in six orders."""
ONTOLOGIES = Path(__file__).parents[1] / "ontologies"


@pytest.fixture(scope="module")
def things(tmp_path_factory) -> Path:
    return write_things(tmp_path_factory.mktemp("things"))


@pytest.fixture(scope="module", params=["one_root", "shared_words"])
def built(request, tmp_path_factory) -> Path:
    pytest.importorskip("pyoxigraph")
    from fathom_build.ontology import build_ontology
    from fathom_build.options import OntologyBuildOptions

    out = tmp_path_factory.mktemp(request.param) / request.param
    source, patterns = ONTOLOGIES / f"{request.param}.ttl", ONTOLOGIES / "patterns.tsv"
    build_ontology(OntologyBuildOptions(input=[source], out=out, patterns=patterns))
    return out


@pytest.fixture(scope="module")
def small():
    tokenizer = MODELS[MODEL]([f"thing{number} is a kind . Therefore, particular" for number in range(120)] * 3)
    shape = SHAPE | {"max_position_embeddings": 200}
    network = build(MODEL, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


def quiet(name):
    return lambda done, total: None


# --- all answerers, without runs


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_no_shortcut_reasons_and_every_reasoner_does(built, study):
    """``benchmarks/run.py reasoners`` has more ontologies and seeds."""
    if study == "chains" and built.name != "one_root":
        pytest.skip("a quarter of a million texts are enough")
    data, patterns = read(built), read_patterns(built)
    texts = simulated(study, data, patterns, 0, items=32)
    rules = list(dict.fromkeys(query.relation for query in texts.queries))
    shortcuts = OF_CHAINS if study == "chains" else SHORTCUTS | MEMORY_USERS
    for name, answerer in shortcuts.items():
        found = concluded(texts, answerer, knows(data, patterns, rules, 0.5), 0)
        judged = [one for one in found if name in SHORTCUTS or one.evidence.conclusion == COMBINES]
        assert sum(one.decision.holds for one in judged) <= 0.05 * len(judged), name
    for name, (answerer, known) in REASONERS.items():
        found = concluded(texts, answerer, knows(data, patterns, rules, known), 0)
        combines = [one.decision.holds for one in found if one.evidence.conclusion == COMBINES]
        assert np.mean(combines) >= 0.95, name


OF_CHAINS = {name: SHORTCUTS[name] for name in ("first_and_last", "skips_middle", "backwards", "undirected")}
"""Shortcuts through several facts; one fact is enough to recognise the others."""


def test_memory_is_used_by_who_remembers_half(built):
    data, patterns = read(built), read_patterns(built)
    texts = simulated("entailment", data, patterns, 0)
    for known, expected in ((0.0, set()), (0.5, {"rdfs2", "rdfs3"}), (1.0, set())):
        found = concluded(texts, reasoner, knows(data, patterns, list(RULES), known), 0)
        uses = {one.evidence.rule_and_depth: one.decision for one in found if one.evidence.conclusion == REMEMBERS}
        assert expected <= {rule for rule, one in uses.items() if one.holds}
        assert bool(expected) == any(one.holds for one in uses.values())
        if known == 1.0:
            assert all(one.word == UNDETERMINED for one in uses.values())
            count = r"premise 1 of (\d+) of \1 items is remembered: 10 of each kind are needed"
            assert re.fullmatch(count, uses["rdfs2"].reason)


def test_a_limit_that_is_too_small_names_a_larger_one(things):
    plan, items = draw_items(planned(things, EntailmentStudyOptions(rules=("rdfs9",), limit=12)))
    assert len(items.queries) == 12
    assert stated(plan.notes, "rdfs9 (12)", "30 are needed", "--limit 30 would leave about enough of rdfs9")
    assert draw_items(planned(things, EntailmentStudyOptions(rules=("rdfs9",), limit=30)))[0].notes == []


# --- some answerers, in whole studies


def combining(found):
    return {one.evidence.rule_and_depth: one.decision.word for one in found if one.evidence.conclusion == COMBINES}


@pytest.mark.parametrize(
    "answerer", [at_random, copies_if_stated, remembers_anyone, reader], ids=lambda one: one.__name__
)
def test_entailment_from_end_to_end(things, small, tmp_path, monkeypatch, answerer):
    world = knows(read(things), {}, ["rdfs9"], 0.5)
    answer_slots(monkeypatch, scoring(answerer, world), scoring(at_random, world))
    options = EntailmentStudyOptions(rules=("rdfs9",), pairs=2)
    found = entailment.analyse([("who", lambda: small)], things, options, tmp_path, quiet)
    assert [one.evidence.conclusion for one in found.conclusions] == [COMBINES, REMEMBERS]
    words = [one.decision.word for one in found.conclusions]
    remembers = answerer is remembers_anyone
    assert words == [
        SIGNIFICANT if answerer is reader else NO_DIFFERENCE,
        NO_DIFFERENCE if remembers else UNDETERMINED,
    ]
    if not remembers:
        assert mentioned(found.conclusions[1].decision.reason, "premise 1 of", "of 88 items is remembered")
    counts = [{text: number.n for text, number in one.over.items()} for one in found.conclusions]
    guessed = [one.excluded for one in found.conclusions]
    assert counts == [dict.fromkeys(NEEDED[COMBINES], 100), dict.fromkeys(needed(REMEMBERS, "rdfs9"), 88)]
    assert guessed == [0, 12], "the answers of things whose numbers are alike"
    [shares] = found.counterfactuals
    if answerer is reader:
        assert (shares["text"].value, shares["memory"].value, shares["items"]) == (1.0, 0.0, 100)
        [gain] = [contrast for contrast in found.conclusions[0].decision.claim.contrasts if contrast.name == "gain"]
        assert 0.6 < gain.estimate.value < 0.75, "the best of 36 random ranks among 132 is about 3"
    assert any("smallest" in note for table in entailment.tables(found) for note in table.notes)


def test_a_rememberer_follows_memory_against_the_text(things, small, tmp_path, monkeypatch):
    world = knows(read(things), {}, ["rdfs9"], 1.0)
    answer_slots(monkeypatch, scoring(remembers_anyone, world), scoring(at_random, world))
    options = EntailmentStudyOptions(rules=("rdfs9",), pairs=2, untrained=0)
    [shares] = entailment.analyse([("who", lambda: small)], things, options, tmp_path, quiet).counterfactuals
    assert (shares["text"].value, shares["memory"].value) == (0.0, 1.0)


def test_half_a_memory_is_used(things, small, tmp_path, monkeypatch):
    world = knows(read(things), {}, ["rdfs9"], 0.5)
    answer_slots(monkeypatch, scoring(reasoner, world), scoring(at_random, world))
    options = EntailmentStudyOptions(rules=("rdfs9",), pairs=2)
    found = entailment.analyse([("who", lambda: small)], things, options, tmp_path, quiet)
    assert [one.decision.word for one in found.conclusions] == [SIGNIFICANT, SIGNIFICANT]
    contrasts = [contrast.name for contrast in found.conclusions[1].decision.claim.contrasts]
    assert contrasts == ["gain", "gain over unremembered items", "gain over untrained twins"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["who", "who-untrained-0"]
    assert [path.name for path in (tmp_path / "who-untrained-0").iterdir()] == ["arguments"]


@pytest.mark.slow
@pytest.mark.parametrize("answerer", [at_random, first_and_last, one_step, reader], ids=lambda one: one.__name__)
def test_chains_from_end_to_end(things, small, tmp_path, monkeypatch, answerer):
    world = knows(read(things), {}, ["rdfs9"], 0.5)
    answer_slots(monkeypatch, scoring(answerer, world), scoring(at_random, world))
    options = ChainStudyOptions(rules=("rdfs9",), depth=3, limit=40)
    found = chains.analyse([("who", lambda: small)], things, options, tmp_path, quiet)
    holds = Counter(one.evidence.rule_and_depth for one in found.conclusions if one.decision.holds)
    every = ["rdfs9", "rdfs9, depth 2", "rdfs9, depth 3"]
    assert [one.evidence.rule_and_depth for one in found.conclusions if one.evidence.prompt == "plain"] == every
    expected = {at_random: {}, first_and_last: {}, one_step: {"rdfs9": 3}, reader: dict.fromkeys(every, 3)}
    assert holds == expected[answerer]
    if answerer is reader:
        assert all(line["whole"].value == 1 for line in found.lines)
    assert [plot.name for plot in chains.plots(found)] == ["chains-who-rdfs9"]
    titles = [table.title for table in chains.tables(found)]
    assert titles[:2] == ["how far it follows", "does it reason?"]


@pytest.mark.parametrize("answerer", [at_random, copies_if_stated, reasoner], ids=lambda one: one.__name__)
def test_choice_from_end_to_end(things, tmp_path, answerer):
    """The questions that ``build choices`` writes are those that the entailment study asks a server."""
    data, world = read(things), knows(read(things), {}, ["rdfs9"], 0.5)
    build_choices(ChoicesBuildOptions(data=str(things), out=tmp_path / "built", options=8, subset="all"))
    words = [word.lower() for word in NonceWords(excerpt_of(data, {}), ["rdfs9"], 2, 0).of_rule["rdfs9"]]
    model = Reasoning(answerer, world, words)
    options = {"relations": ("subClassOf", "rdfs9-altered")}
    run = fathom.probe("choice", model, tmp_path / "built", tmp_path / "run", **options).folder
    assert stated(summarise(run).notes, "17,520 queries", "altered texts")
    found = choice.analyse([run])
    expected = [answerer is reasoner] * 2
    assert [one.decision.holds for one in found.conclusions] == expected
    if answerer is copies_if_stated:
        assert [(one["text"].value, one["memory"].value) for one in found.counterfactuals] == [(1.0, 0.0)]
    asked = EntailmentStudyOptions(rules=("rdfs9",), pairs=2, options=8)
    chat = Reasoning(answerer, world, words)
    also = entailment.analyse([("chat", lambda: chat)], things, asked, tmp_path / "chat", quiet)
    assert [one.decision.holds for one in also.conclusions] == expected
    with pytest.raises(BadInput, match="found the texts of the entailment or chains study"):
        choice.analyse(also.runs[-1:])
    altered = {text for text in model.seen if "Therefore" in text}
    assert len(altered) == 2 * (OF_RULE + OF_MEMORY + 2) * 120
    assert len(altered & chat.seen) == 2 * (OF_RULE + OF_MEMORY + 2) * 100, "templates are learnt from the other items"


# --- texts by hand


def test_texts_of_two_facts_by_hand(things):
    queries = argument_queries(read(things), {}, ["rdfs9"], (1, 2, 3), FORMS, 2, 0).queries
    item = next(query for query in queries if query.subject == "thing5").groups["item"]
    own = [query for query in queries if query.groups["item"] == item and query.groups["pair"] == "0"]
    names = nonce_words(f"0 rdfs9 {item}", excerpt_of(read(things), {}), 3)
    _, _, first, second = (next(names) for _ in range(4))
    similar, beyond = islice(similar_words(first, INNER, excerpt_of(read(things), {})), 2)
    similar_second = next(similar_words(second, INNER, excerpt_of(read(things), {})))
    given = {
        (query.groups["given"], query.groups["order"]): query.sentences[0].text.removesuffix(
            " Therefore, <x> is a particular [Y] ."
        )
        for query in own
        if (query.groups["depth"], query.groups["form"]) == ("2", "plain")
    }
    gold = KINDS[5 * 7 % 12]
    below, above, says = (
        f"{first.capitalize()} is a {second} .",
        f"{second.capitalize()} is a {gold} .",
        f"<x> is a {first} .",
    )
    assert {name: text for (name, order), text in given.items() if order == "0"} == {
        WHOLE: f"{below} {above} {says}",
        WITHOUT_FIRST: says,
        WITHOUT_SECOND: f"{below} {above}",
        OTHER_SUBJECT: f"{below} {above} <z> is a {first} .",
        ANOTHER_SECOND: f"{below} {above} <x> is a {beyond} .",
        SUBJECTS_EXCHANGED: f"{below} {above} <x> is a {beyond} . <z> is a {first} . <z> is a {beyond} .",
        WORDS_EXCHANGED: f"{beyond.capitalize()} of a {first} is a {second} . {above} <x> is a {first} of a {beyond} .",
        SECOND_REVERSED: f"{below} {above} {first.capitalize()} is a <x> .",
        NEGATED_SECOND: f"{below} {above} <x> is not a {first} .",
        VERB_SECOND: f"{below} {above} <x> eats a {first} .",
        f"{ANOTHER_FIRST}, fact 1": f"{similar.capitalize()} is a {second} . {above} {says}",
        f"{ANOTHER_FIRST}, fact 2": f"{below} {similar_second.capitalize()} is a {gold} . {says}",
        f"{ANSWERS_EXCHANGED}, fact 1": (
            f"{first.capitalize()} is a {beyond} . {similar.capitalize()} is a {second} . {above} {says}"
        ),
        f"{ANSWERS_EXCHANGED}, fact 2": (
            f"{below} {second.capitalize()} is a {beyond} . {similar_second.capitalize()} is a {gold} . {says}"
        ),
        f"{REVERSED}, fact 1": f"{second.capitalize()} is a {first} . {above} {says}",
        f"{REVERSED}, fact 2": f"{below} {gold.capitalize()} is a {second} . {says}",
        f"{NEGATED_FIRST}, fact 1": f"{first.capitalize()} is not a {second} . {above} {says}",
        f"{NEGATED_FIRST}, fact 2": f"{below} {second.capitalize()} is not a {gold} . {says}",
        f"{WEAKENED_FIRST}, fact 1": f"Some {first} is a {second} . {above} {says}",
        f"{WEAKENED_FIRST}, fact 2": f"{below} Some {second} is a {gold} . {says}",
        f"{VERB_FIRST}, fact 1": f"{first.capitalize()} eats a {second} . {above} {says}",
        f"{VERB_FIRST}, fact 2": f"{below} {second.capitalize()} eats a {gold} . {says}",
    }
    for depth in (1, 2, 3):
        texts = {query.groups["given"] for query in own if query.groups["depth"] == str(depth)}
        assert texts == {WHOLE, *needed(COMBINES, "rdfs9", depth)}
    assert MIDDLE_MISSING in needed(COMBINES, "rdfs9", 3)
    alone = argument_queries(read(things), {}, ["rdfs9"], (1,), ("plain",), 2, 0, (COMBINES, REMEMBERS)).queries
    texts = {query.id: query.sentences for query in queries}
    same = [query for query in alone if query.groups["conclusion"] == COMBINES]
    assert all(texts[query.id] == query.sentences for query in same), "depth 1 is what the entailment study asks"


def test_each_premise_of_an_altered_text_stands_first_and_last(things):
    """No order of sentences tells an altered text, whichever statement is taken; versions state other sentences."""
    queries = argument_queries(read(things), {}, ["rdfs9"], (1, 2), ("plain", "shuffled"), 1, 0).queries
    found = defaultdict(lambda: defaultdict(list))
    for query in queries:
        sentences = query.sentences[0].text.partition(" Therefore,")[0].removesuffix(" .").split(" . ")
        key = tuple(query.groups[name] for name in ("item", "depth", "form", "given"))
        found[key][frozenset(sentences)].append(sentences)
    for (*_, form, given), by_version in found.items():
        versions = list(by_version.values())
        assert all(len({tuple(text) for text in texts}) == len(texts) <= 6 for texts in versions)
        assert {len(texts) for texts in versions[1:]} <= {6 if given == SUBJECTS_EXCHANGED else 1}
        usual = versions[0]
        if given == WHOLE:
            assert (len(versions), len(usual)) == (1, 1)
            assert form != "plain" or usual[0][-1].startswith("<x>")
        elif form == "plain":
            assert {text[0] for text in usual} == {text[-1] for text in usual} == set(usual[0])
            assert len(usual) == {1: 1, 2: 2}.get(len(usual[0]), 6)


@pytest.mark.parametrize("rule", list(RULES))
def test_other_names_differ_in_one_sound_or_in_all(built, rule):
    """Neither a part of a name, nor that two names are alike, tells whole texts from altered ones."""
    data, patterns = read(built), read_patterns(built)
    texts = argument_queries(data, patterns, [rule], (1,), ("plain",), 1, 0, (COMBINES, REMEMBERS)).queries
    item = texts[0].groups["item"]
    given = defaultdict(list)
    for query in texts:
        if query.groups["item"] == item:
            text = query.sentences[0].text.rpartition("Therefore,")[0].strip()
            given[query.groups["conclusion"], query.groups["given"]].append(text)
    names = nonce_words(f"0 {rule} {item}", excerpt_of(data, patterns), 3)
    _, _, name = (next(names) for _ in range(3))
    avoid = excerpt_of(data, patterns)
    similar = [next(similar_words(name, at, avoid)) for at in (INNER, FIRST, LAST)]
    others = [re.findall(r"[^\W\d_]{6,}", text.lower()) for text in given[COMBINES, ANOTHER_FIRST]]
    versions = [next((one for one in similar if any(word.startswith(one) for word in words)), "") for words in others]
    assert Counter(versions) == {similar[0]: 2, similar[1]: 1, similar[2]: 1, "": 1}
    own, partner = ("<y>", "<x>") if rule == "rdfs3" else ("<x>", "<y>")
    for conclusion in (COMBINES, REMEMBERS):
        about = [set(re.findall("<.>", text)) for text in given[conclusion, OTHER_SUBJECT]]
        assert {partner} in about
        assert all(own not in marks for marks in about)
    unknown = next(nonce_words(f"0 unknown {item}", avoid, 3))
    assert [len(re.findall(unknown, text)) for text in given[REMEMBERS, SUBJECTS_EXCHANGED]] == [2] * 12


def test_reversed_facts_are_spelt_as_in_whole_texts(things):
    """Copying a name as it is spelt after a verb is no sign of direction."""
    queries = argument_queries(read(things), {}, ["rdfs9"], (1,), ("plain",), 1, 0).queries
    own = [query for query in queries if query.subject == "thing5" and query.groups["given"] == REVERSED]
    gold = KINDS[5 * 7 % 12]
    starts = [query.sentences[0].text.partition(" . ")[0] for query in own]
    assert [re.sub(r"is a \w+$", "is a", text) for text in starts if not text.startswith("<x>")] == [
        f"{gold.capitalize()} is a", f"Every {gold} is a",
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "asked"), [("rdfs2", "<x>"), ("rdfs3", "<y>")])
def test_memory_is_asked_about_the_other_role(built, rule, asked):
    """Premise 2 is reversed, except for items whose domain and range have the same answer."""
    data, patterns = read(built), read_patterns(built)
    texts = argument_queries(data, patterns, ["rdfs2", "rdfs3"], (1,), ("plain",), 1, 0, (REMEMBERS,)).queries
    answers = {
        (query.relation, query.subject): {*query.gold, *query.known}
        for query in texts
        if query.groups["given"] == WHOLE
    }
    other = {"rdfs2": "rdfs3", "rdfs3": "rdfs2"}[rule]
    own = [query for query in texts if query.relation == rule]
    turned = {query.subject: query for query in own if query.groups["given"] == SECOND_REVERSED}
    whole = {query.subject: query for query in own if query.groups["given"] == WHOLE}
    for name, query in whole.items():
        assert (name in turned) == (query.gold[0] not in answers.get((other, name), ()))
        if name in turned:
            swapped = turned[name].sentences[0].text.replace("<y>", "<w>").replace("<x>", "<y>").replace("<w>", "<x>")
            assert swapped.rpartition("Therefore,")[0] == query.sentences[0].text.rpartition("Therefore,")[0]
            assert turned[name].gold == query.gold
            assert turned[name].sentences[0].text.rpartition("Therefore,")[2].startswith(f" {asked}")
    assert 0 < len(turned) < len(whole)
    assert SECOND_REVERSED not in needed(REMEMBERS, "rdfs9")


def test_memory_is_asked_against_its_direction(things):
    """The wrong answer is the class that was stated; the other classes below the answer are no rivals."""
    queries = argument_queries(read(things), {}, ["rdfs9"], (1,), ("plain",), 1, 0, (REMEMBERS,)).queries
    [asked] = [query for query in queries if query.subject == "thing5" and query.groups["given"] == REVERSED]
    kind = KINDS[5 * 7 % 12]
    assert asked.sentences[0].text == f"<x> is a {kind} . Therefore, <x> is a particular [Y] ."
    assert asked.gold == ("thing5",)
    below = {query.subject for query in read(things).queries if query.gold == (kind,)}
    assert len(below) == 10
    assert set(asked.known) == (below | {kind}) - {"thing5"}
    assert REVERSED not in needed(REMEMBERS, "rdfs2")


@pytest.mark.parametrize(("rule", "expected"), [
    ("rdfs2", r"One has to be an? (.+) if one (\w+)s something \. <x> \2s <y> \. Therefore, <x> is a particular"),
    ("rdfs3", r"One has to be an? (.+) if something (\w+)s that \. <x> \2s <y> \. Therefore, <y> is a particular"),
    ("rdfs5", r"(?i)(\w+) implies (.+) \. <x> implies \1 \. Therefore, <x> implies"),
    ("rdfs7", r"(?i)(\w+) implies (.+) \. <x>'s \1 is <y> \. Therefore, <x>"),
    ("rdfs9", r"(?i)(\w+) is an? (.+) \. <x> is a \1 \. Therefore, <x> is a particular"),
    ("rdfs11", r"(?i)(\w+) is an? (.+) \. <x> is a \1 \. Therefore, <x> is a particular"),
])  # fmt: skip
def test_whole_texts_of_each_rule(built, rule, expected):
    """All names but the answer are nonce words; what is also right is removed from the ranking."""
    data, patterns = read(built), read_patterns(built)
    texts = argument_queries(data, patterns, [rule], (1,), ("plain",), 2, 0, (COMBINES, REMEMBERS))
    whole = [query for query in texts.queries if query.groups["given"] == WHOLE]
    for query in (one for one in whole if one.groups["conclusion"] == COMBINES):
        found = re.match(expected, query.sentences[0].text)
        name = found[1] if rule in ("rdfs2", "rdfs3") else found[2]
        assert (f"'s {name} is" if query.gold[0].startswith("'s") else name) == query.gold[0] or rule == "rdfs7"
        assert not {found[1].lower(), found[2].lower()} - {name.lower()} & excerpt_of(data, patterns)
        assert query.gold[0] not in query.known
    own = [one for one in whole if one.groups["conclusion"] == REMEMBERS]
    assert all(query.subject in query.known or rule == "rdfs7" for query in own)
    assert len(own) == len(whole) / 2


def test_items_of_one_root_share_no_counted_answer(built):
    """Another premise 2 is of an item from which the answer does not follow, whatever is above both."""
    data, patterns = read(built), read_patterns(built)
    texts = argument_queries(data, patterns, ["rdfs9"], (1,), ("plain",), 2, 0, (REMEMBERS,))
    above = {query.subject: set(query.gold) for query in data.by_relation()["subClassOf"]}
    others = [query for query in texts.queries if query.groups["given"] == "another premise 2"]
    roots = set.intersection(*above.values())
    below = [query for query in data.by_relation()["subClassOf"] if query.gold[0] not in roots]
    assert len(others) == 2 * len(below) > 100, "nothing is unrelated to a class right below the root"
    for query in others:
        other = re.match(r"<x> is an? (.+?) \. Therefore", query.sentences[0].text)[1]
        assert query.gold[0] not in above[other] | {other}


def test_shuffled_facts_keep_one_order(things):
    queries = argument_queries(read(things), {}, ["rdfs9"], (2,), ("shuffled",), 2, 0).queries
    sentences = {
        query.groups["given"]: query.sentences[0].text.replace("<z>", "<x>").split(" . ")[:-1]
        for query in queries
        if query.groups["item"] == queries[0].groups["item"] and query.groups["order"] == query.groups["pair"] == "0"
    }
    whole = sentences[WHOLE]
    assert len(whole) == 5  # two facts, what is stated of <x>, two facts of others
    assert sentences[WITHOUT_FIRST] == [text for text in whole if text in sentences[WITHOUT_FIRST]]
    assert len(sentences[WITHOUT_FIRST]) == 3


# --- numbers by hand


def evidence(values, memory=None, conclusion=COMBINES, solved=None, twins=()):
    """:param values: of the whole text and the altered ones, by item."""
    names = [WHOLE, *needed(conclusion, "rdfs9")]
    by_text = {name: {str(item): own[min(at, 1)] for item, own in enumerate(values)} for at, name in enumerate(names)}
    return Evidence("m", "plain", "rdfs9", conclusion, 1, by_text, twins, memory, solved or {}, "MRR")


def test_the_gain_is_over_the_best_altered_text_of_each_item():
    """Half of the items are copied and half looked up: each contrast is above 0 on average, and no item's is."""
    one = evidence([(1.0, 0.0)] * 40)
    values = {name: dict(own) for name, own in one.values.items()}
    for item in range(40):
        values[WITHOUT_SECOND if item % 2 else WITHOUT_FIRST][str(item)] = 1.0
    [mixed, clear] = judge([one._replace(values=values), one])
    assert mixed.over[WITHOUT_SECOND].value == mixed.over[WITHOUT_FIRST].value == 0.5
    assert mixed.decision.claim.contrasts[0].estimate.value == 0
    assert (mixed.decision.word, clear.decision.word) == (NO_DIFFERENCE, SIGNIFICANT)
    assert mixed.decision.smallest > 0


@pytest.mark.parametrize(("items", "solved", "words"), [
    (30, 0, ""), (29, 0, "29 items that no shortcut solves, 30 are needed"),
    (35, 10, "25 items that no shortcut solves, 30 are needed (of 35: 10 are solved by one)"),
])  # fmt: skip
def test_thirty_items_that_no_shortcut_solves(items, solved, words):
    by_shortcut = {"copying": frozenset(map(str, range(solved)))}
    [found] = judge([evidence([(1.0, 0.1)] * items, solved=by_shortcut)])
    assert (found.items, found.excluded) == (items - solved, solved)
    assert found.decision.word == (UNDETERMINED if words else SIGNIFICANT)
    assert not words or found.decision.reason == words


def test_a_text_that_cannot_be_made_is_named():
    one = evidence([(1.0, 0.1)] * 20)
    values = one.values | {OTHER_SUBJECT: {}}
    [found] = judge([one._replace(values=values)])
    assert found.decision.reason == (
        "0 items that no shortcut solves, 30 are needed (of 20: 20 lack 'about another subject', which "
        "is not evaluated)"
    )
    lacking = evidence([(1.0, 0.1)] * 20, dict.fromkeys(map(str, range(20)), 1.0), REMEMBERS)
    [found] = judge([lacking._replace(values=lacking.values | {ANOTHER_SECOND: {}})])
    assert mentioned(found.decision.reason, "20 lack 'another premise 2', as no other item has an unrelated answer")


def test_memory_that_is_unknown():
    """Items whose question for premise 1 has no answer cannot be in either half."""
    values = [(1.0, 0.1)] * 40
    known = {str(item): float(item < 15) for item in range(29)}
    [found] = judge([evidence(values, known, REMEMBERS)])
    assert found.decision.word == UNDETERMINED
    assert "of 40: 11 have no answer" in found.decision.reason or "11 of 40" in found.decision.reason


def test_items_without_an_answer():
    values = [(1.0, 0.1)] * 40 + [(np.nan, 0.1)] * 11
    [found] = judge([evidence(values)])
    assert (found.decision.word, found.decision.reason) == (UNDETERMINED, "11 of 51 items lack an answer")
    assert judge([evidence(values[:-1])])[0].decision.holds


def test_remembered_premises_are_compared_with_the_others():
    assert [is_remembered(value) for value in (1.0, 0.51, 0.5, 0.0)] == [True, True, False, False]
    values = [(1.0, 0.1)] * 20 + [(0.1, 0.1)] * 20
    known = {str(item): float(item < 20) for item in range(40)}
    for own, word in ((known, SIGNIFICANT), ({item: 1 - value for item, value in known.items()}, NO_DIFFERENCE)):
        assert judge([evidence(values, own, REMEMBERS)])[0].decision.word == word
    few = {str(item): float(item < 9) for item in range(40)}
    assert (
        judge([evidence(values, few, REMEMBERS)])[0].decision.reason
        == "premise 1 of 9 of 40 items is remembered: 10 of each kind are needed"
    )


def test_a_conclusion_needs_a_gain_beyond_twins():
    one = evidence([(1.0, 0.5)] * 40)
    equal, less = one.values, evidence([(0.6, 0.5)] * 40).values
    assert [judge([one._replace(twins=[twin])])[0].decision.word for twin in (equal, less)] == [
        NO_DIFFERENCE, SIGNIFICANT
    ]  # fmt: skip


def test_counterfactual_shares_by_hand():
    place = ("counterfactual premise", "rdfs9", "1", "plain")
    texts = {"answer of the text": {"a": 1.0, "b": 1.0, "c": 0.0}, "answer of memory": {"a": 0.0, "b": 0.0, "c": 1.0}}
    [found] = counterfactuals("m", {place: texts}, "made")
    assert (found["items"], found["text"].value, found["memory"].value) == (
        3, pytest.approx(2 / 3), pytest.approx(1 / 3),
    )  # fmt: skip


# --- shortcuts by hand


def asked(stated, gold, names, item="i", conclusion=REMEMBERS, given=WHOLE):
    text = f"<x> is a {stated} . <z> is a river . Therefore, <x> is a particular [Y] ."
    return AskedText((conclusion, "rdfs9", "1", "plain"), item, given, text, names, gold, frozenset())


def solving(texts):
    [(_, solved)] = solved_items(texts).items()
    assert solved.keys() == BASELINES.keys()
    return {name: sorted(items) for name, items in solved.items() if items}


def test_what_is_in_the_name_needs_no_memory():
    """The name of the subject's own class counts, not that of another subject's."""
    names = ("sports league", "river", "person", "Topping", "Kind3Topping")
    both = {"word overlap": ["i"], "pieces of the premise": ["i"]}
    assert solving([asked("ice hockey league", "sports league", names)]) == both
    assert solving([asked("ice hockey league", "river", names)]) == {}
    assert solving([asked("SweetPepperTopping", "Topping", names)]) == {"pieces of the premise": ["i"]}
    assert solved_items([asked("ice hockey league", "sports league", names, conclusion=COMBINES)]) == {}


def test_what_similar_items_answer_needs_no_memory():
    """Sonata and sonatina share an answer, as do the two bridges; the most frequent answer is that of the others."""
    names = ("work", "road", "river", "sea")
    texts = [
        asked(stated, gold, names, stated)
        for stated, gold in (
            ("sonatina", "work"), ("sonata", "work"), ("arch bridge", "road"), ("arched bridge", "road"),
            ("lake", "sea"), ("zyx", "sea"), ("qqq", "sea"),
        )
    ]  # fmt: skip
    solved = solving(texts)
    alike = {"arch bridge", "arched bridge", "sonata", "sonatina"}
    for name in ("neighbour", "votes by letters"):
        assert alike <= set(solved[name])
    assert solved["frequency"] == ["lake", "qqq", "zyx"], "each other answer has two items or fewer"


def test_tables_name_shortcuts_and_what_could_have_been_shown(things):
    [found] = judge([evidence([(0.5, 0.5)] * 30 + [(0.6, 0.5), (0.4, 0.5)], solved={"frequency": frozenset("1")})])
    verdicts, over, alone = conclusion_tables([found])
    [row] = verdicts.objects()
    assert (row["verdict"], row["items"], row["shortcuts"]) == (NO_DIFFERENCE, 31, 1)
    assert 0 < row["detectable"] < 0.1
    assert len(over.rows) == len(needed(COMBINES, "rdfs9"))
    assert [row["frequency"] for row in alone.objects()] == [1]


def test_readings_of_answerers():
    """The answerers see what the texts state, in all forms."""
    reading = Reading(
        "Every blek is a dof . Having a means having b . <x> belongs to the class blek . Therefore, <x> is"
    )
    assert (reading.facts, reading.subject, reading.kinds()) == ([("blek", "dof"), ("a", "b")], "<x>", ["blek"])
    limited = Reading(
        "One has to be a song if something bleks that . <x> bleks <y> . Therefore, <y> is a particular [Y] ."
    )
    assert (limited.facts, limited.kinds()) == ([("blek", "song")], ["blek"])
    owned = Reading("Blek implies parent . <x>'s blek is <y> . Therefore, <x> [Y] <y> .")
    assert (owned.facts, owned.kinds()) == ([("blek", "parent")], ["blek"])

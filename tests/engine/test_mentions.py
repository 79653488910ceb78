"""Which answer a written reply names first."""

from __future__ import annotations

import pytest

from fathom.data.queries import CandidateSet, Query
from fathom.engine.scoring.answers import MentionFinder, NamedAnswer, words_of

TOWNS = {
    "Nicosia": "nic", "Paris": "par", "Lyon": "lyo", "New York City": "nyc", "York": "yor", "The Hague": "hag",
    "The Who": "who", "Luxembourg": "lux", "Bogotá": "bog", "東京": "tok", "Saint John's": "joh", "Porto-Novo": "por",
}  # fmt: skip
SPACE = CandidateSet("towns", tuple(TOWNS.values()), tuple(TOWNS))


def named(question: str, gold: str, reply: str, *further: str) -> NamedAnswer:
    query = Query("q", "capital", "s", "s", (gold, *further), "towns")
    return MentionFinder(None, {"towns": SPACE}, [query]).first(query, question, reply)


@pytest.mark.parametrize(("gold", "reply", "first"), [
    ("nic", "The capital of Cyprus is Nicosia.", "nic"),
    ("nic", "nicosia", "nic"),
    ("nic", "It's Nicosia's old town.", "nic"),
    ("nic", "Nicosian", None),  # another word
    ("nyc", "I think it is New York City, not York.", "nyc"),
    ("yor", "New York City", "nyc"),  # the longer name
    ("hag", "The government sits in Hague.", "hag"),
    ("hag", "It sits in The Hague", "hag"),
    ("who", "Who knows?", None),  # a short name keeps its article
    ("who", "It was The Who.", "who"),
    ("bog", "Bogota, of course", "bog"),
    ("bog", "BOGOTÁ", "bog"),
    ("tok", "日本の首都は東京です。", "tok"),
    ("joh", "Saint John’s", "joh"),
    ("por", "Porto Novo", "por"),
    ("par", "", None),
    ("par", "I do not know.", None),
])  # fmt: skip
def test_names_are_found_as_words(gold, reply, first):
    assert named("What is its capital?", gold, reply) == NamedAnswer(first, first == gold)


@pytest.mark.parametrize(("reply", "first"), [
    ("It is not Paris.", None),
    ("Not Paris but Lyon", "lyo"),
    ("It isn't Paris, it is Lyon.", "lyo"),
    ("No, Paris.", "par"),
    ("Paris is not the capital. Lyon is.", "lyo"),
    ("Neither Paris nor Lyon", None),
    ("It was never in Paris", None),
    ("Some say no. Paris is right", "par"),
])  # fmt: skip
def test_what_is_negated_is_not_named(reply, first):
    assert named("What is the capital?", "par", reply).id_ == first


@pytest.mark.parametrize(("reply", "is_right"), [
    ("Paris, Lyon or Nicosia", True),  # the first counts
    ("Lyon, Paris or Nicosia", False),
    ("Paris, although many say Lyon", True),
])  # fmt: skip
def test_of_a_list_the_first_counts(reply, is_right):
    assert named("What is the capital?", "par", reply).is_right == is_right


@pytest.mark.parametrize(("reply", "is_right"), [
    ("What is the capital of Luxembourg?", False),
    ("The capital of Luxembourg is", False),
    ("The capital of Luxembourg is Luxembourg.", True),
    ("Luxembourg is the capital of Luxembourg.", True),
    ("Luxembourg", True),
    ("The capital of Luxembourg is Paris.", False),
])  # fmt: skip
def test_an_echo_names_nothing(reply, is_right):
    assert named("What is the capital of Luxembourg?", "lux", reply).is_right == is_right


def test_a_candidate_of_the_question_is_no_other_answer():
    """The subject is a candidate of its own relation, as a neighbour is a country, too."""
    assert named("Which town is twinned with Lyon?", "par", "Lyon is twinned with Paris.").is_right


def test_any_gold_answer_counts():
    assert named("Name a town.", "par", "Lyon", "lyo") == NamedAnswer("lyo", True)


def test_words_have_neither_case_nor_accents():
    assert words_of("São Tomé, ｱ10!") == ("sao", "tome", "|", "ア", "10", "|")

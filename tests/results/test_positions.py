"""A model that prefers a position among options is distinguished from one that knows or guesses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import fathom
from fathom.results.answers import _p_values
from tests.engine.test_server import completion

LETTERS = "abcd"
TOWNS = {"a": "Rome", "b": "Oslo", "c": "Lima", "d": "Bonn"}


def drawn(random: np.random.Generator, questions: int, knows: float, prefers: float) -> list[tuple[str, str, int]]:
    """Choices among four options: known ones are right, of the others a share is (a), the rest is drawn at random."""
    choices = []
    for gold in random.choice(list(LETTERS), questions):
        guess = "a" if random.random() < prefers else str(random.choice(list(LETTERS)))
        choices.append((str(gold) if random.random() < knows else guess, str(gold), 4))
    return choices


def is_preferred(choices: list[tuple[str, str, int]]) -> bool:
    return min(_p_values(choices).values(), default=1.0) < 0.05


@pytest.mark.parametrize("knows", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("questions", [20, 60, 400])
def test_guesses_prefer_no_position(knows, questions):
    """At most 5 % of models without a preference seem to have one, however much they know."""
    random = np.random.default_rng(questions)
    found = sum(is_preferred(drawn(random, questions, knows, 0.0)) for _ in range(600))
    assert binom.sf(found - 1, 600, 0.05) > 0.01


def test_preferences_are_found():
    random = np.random.default_rng(0)
    assert sum(is_preferred(drawn(random, 100, 0.3, 0.5)) for _ in range(100)) >= 95


def test_the_p_value_is_that_of_wrong_choices():
    """Six wrong choices where (a) would be wrong, four of them (a); with three wrong options each has a third."""
    wrong = [("a", "b", 4)] * 4 + [("c", "d", 4), ("d", "c", 4)]
    right = [("a", "a", 4)] * 50
    elsewhere = [("b", "a", 4)] * 3  # (a) is the gold option there
    p_values = _p_values(wrong + right + elsewhere)
    assert p_values["a"] == pytest.approx(4 * binom.sf(3, 6, 1 / 3))
    assert _p_values(right) == {}
    assert _p_values([("a", "b", 2)] * 40) == {}  # of two options a wrong choice has one position


def questions(gold_letters: str, tmp_path: Path) -> Path:
    lines = [
        {"prompt": f"Which town is number {number}? (a) Rome, (b) Oslo, (c) Lima, (d) Bonn", "gold": TOWNS[letter]}
        for number, letter in enumerate(gold_letters)
    ]
    file = tmp_path / "towns.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize(("gold", "said"), [
    ("abcd" * 6, "(a) was chosen 24 of 24 times"),
    ("a" * 24, None),  # as often as it is right
])  # fmt: skip
def test_the_headline_names_a_preferred_position(serve, tmp_path, gold, said):
    server = serve(each=lambda body: completion("(a)"))
    data = questions(gold, tmp_path)
    result = fathom.probe("choice", "tiny", data, tmp_path / "run", server=server.url, progress=False)
    answer = " ".join(result.summary().answer)
    assert (said in answer) if said else ("was chosen" not in answer)

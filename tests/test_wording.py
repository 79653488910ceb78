"""``fathom study wording``: a chat template, plain wording and the control, by hand and by answerers that are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fathom.errors import BadInput
from fathom.results.compared import compare
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies.wording import HARMS, HELPS, NO_CONTROL, NOT_SHOWN, NOT_THE_TEMPLATE, Wordings, ask, tables
from tests.answerers import answered, knowing, tossed, world

Made = Callable[..., RunFolder]
FACTS = world([[0]] * 40, relations=2)
"""Two relations of twenty facts, q000 to q019 and q020 to q039."""
WORDINGS = {"plain": {}, "chat": {"chat": True}, "shuffled": {"chat": True, "shuffle_chat": True}}


@pytest.fixture
def made(tmp_path) -> Made:
    count = iter(range(10_000))

    def write(wording: str, right: set[str], own=FACTS, name: str = "m", **more) -> RunFolder:
        options = WORDINGS[wording] | more
        return answered(tmp_path / f"run{next(count)}", knowing(right), own, model=name, options=options)

    return write


def facts(*numbers: int) -> set[str]:
    return {f"q{number:03d}" for number in numbers}


def asked(made: Made, plain: set[str], chat: set[str], shuffled: set[str] | None = None) -> Wordings:
    runs = [made("plain", plain), made("chat", chat)]
    [found] = ask(runs if shuffled is None else [*runs, made("shuffled", shuffled)])
    return found


def test_by_hand(made):
    """Of forty facts plain wording has 10 right (0 to 9), the chat 22 (2 to 19, 20 to 23), its shuffled tokens 11 (0 to
    8, 38, 39): both plain and chat 8, only plain 2, only chat 14, neither 16."""
    runs = [
        made("shuffled", facts(*range(9), 38, 39)),
        made("chat", facts(*range(2, 24))),
        made("plain", facts(*range(10))),
    ]
    [found] = ask(runs)
    assert list(found.accuracies) == ["plain", "chat", "shuffled chat"]
    assert [one.value for one in found.accuracies.values()] == [10 / 40, 22 / 40, 11 / 40]
    first, second, third = found.contrasts
    assert (first.first, first.second, first.values) == ("chat", "plain", (22 / 40, 10 / 40))
    assert first.difference.value == pytest.approx(12 / 40)
    assert first.cells[:5] == (8, 14, 2, 16, 0)
    assert first.alike.value == pytest.approx(24 / 40)
    # Shuffled and plain: both 9, only shuffled 2, only plain 1. Chat and shuffled: both 7 (2 to 8), 15 and 4 alone.
    assert (second.first, second.second, second.cells[:4]) == ("shuffled chat", "plain", (9, 2, 1, 28))
    assert second.difference.value == pytest.approx(1 / 40)
    assert (third.first, third.second, third.cells[:4]) == ("chat", "shuffled chat", (7, 15, 4, 14))
    assert third.alike.value == pytest.approx(21 / 40)
    assert [one.adjusted >= one.difference.p_value for one in found.contrasts] == [True] * 3
    # By relation: 18 − 10 of the first twenty, 4 − 0 of the second.
    assert {name: own.difference.value for name, own in found.relations.items()} == {"r0": 8 / 20, "r1": 4 / 20}
    assert [own.cells[:4] for own in found.relations.values()] == [(8, 10, 2, 0), (0, 4, 0, 16)]
    assert found.verdict == HELPS


def test_the_numbers_are_those_of_compare(made):
    runs = [made("chat", facts(*range(2, 24))), made("plain", facts(*range(10)))]
    [found] = ask(runs)
    [pair] = compare(runs).pairs
    assert (pair.first, pair.second) == ("m chat", "m plain")  # which names the two wordings
    assert found.contrasts[0].difference == pair.differences[0].number
    assert found.contrasts[0].cells == pair.cells._replace(adjusted=None)


KNOWN, MORE, LESS = facts(*range(12), *range(20, 26)), facts(*range(18), *range(20, 33)), facts(0, 1, 20, 21)


@pytest.mark.parametrize(("chat", "shuffled", "verdict"), [
    (MORE, KNOWN, HELPS),
    (LESS, KNOWN, HARMS),
    (KNOWN, KNOWN, NOT_SHOWN),
    (KNOWN, LESS, NOT_SHOWN),  # what shuffled tokens spoil says nothing of the template
    (MORE, MORE, NOT_THE_TEMPLATE),  # any such tokens do the same
    (MORE, MORE | facts(18, 19, *range(33, 40)), NOT_THE_TEMPLATE),
    (MORE, None, NO_CONTROL),
    (KNOWN, None, NOT_SHOWN),
])  # fmt: skip
def test_what_is_said_of_the_template(made, chat, shuffled, verdict):
    found = asked(made, KNOWN, chat, shuffled)
    assert found.verdict == verdict
    assert verdict in render(tables([found]), "text")


@pytest.mark.parametrize(("plain", "shown"), [("tossed", range(4)), ("nothing", range(40, 41))])
def test_answerers_whom_the_template_itself_does_nothing_are_seldom_said_to_gain(made, plain, shown):
    """Chat and control toss coins of their own, so no template does anything. Plain wording tosses, too: a difference
    is shown in one case of twenty at most. Or it knows nothing: one is always shown, and seldom the template's."""
    own = world([[0]] * 60, relations=6)
    verdicts = []
    for number in range(40):
        right = [tossed(own, number, place) for place in range(3)]
        right[0] = right[0] if plain == "tossed" else set()
        [found] = ask([made(name, facts, own) for name, facts in zip(WORDINGS, right, strict=True)])
        verdicts.append(found.verdict)
    assert sum(verdict != NOT_SHOWN for verdict in verdicts) in shown
    assert sum(verdict in (HELPS, HARMS) for verdict in verdicts) <= 3


def test_models_are_told_apart_and_facts_left_out_are_counted(made):
    fewer = world([[0]] * 30, each=[20, 10])
    runs = [
        made("plain", KNOWN),
        made("chat", MORE),
        made("plain", KNOWN, name="n"),
        made("chat", LESS, fewer, name="n"),
    ]
    first, second = ask(runs)
    assert [(one.model, one.facts, one.left_out) for one in (first, second)] == [("m", 40, 0), ("n", 30, 10)]
    text = render(tables([first, second]), "text")
    assert "n, D: 10 facts that not all its runs scored are left out" in text


@pytest.mark.parametrize(("wordings", "said"), [
    (["plain", "shuffled"], "m on D by cloze has no run with --chat: .*there is .*run0: plain, .*run1: shuffled chat"),
    (["chat", "shuffled"], "has no run in plain wording"),
    (["plain", "chat", "chat"], "run1 and .*run2 are both of m on D by cloze, chat: give one of them, or compare"),
    (["plain"], "expected two runs or more"),
])  # fmt: skip
def test_what_is_refused(made, wordings, said):
    with pytest.raises(BadInput, match=said):
        ask([made(name, KNOWN) for name in wordings])


def test_a_control_is_asked_as_the_chat_is(made):
    runs = [made("plain", KNOWN), made("chat", MORE, system="Be brief."), made("shuffled", KNOWN)]
    with pytest.raises(
        BadInput, match=r"run2 is no control of .*run1: they differ in system, too; ask it with the same"
    ):
        ask(runs)

"""The study of choice told by answerers whose ways are known: who reasons is found, who only looks like it is not."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import fathom
from fathom.building.choices import build_choices
from fathom.building.options import ChoicesBuildOptions
from fathom.formats import read
from fathom.formats.choices import ANOTHERS, CONTROL, split_prompt
from fathom.metrics.uncertainty import interval
from fathom.results.claims import NO_DIFFERENCE as NOT_SHOWN
from fathom.results.claims import SIGNIFICANT, decide
from fathom.results.claims import UNDETERMINED as UNTOLD
from fathom.results.estimates import contrast, difference
from fathom.results.samples import Origin, Sample
from fathom.studies.reasoning.choice import ChoiceLines, conclude, tables
from fathom.studies.reasoning.choice import analyse as study
from fathom.studies.reasoning.choice_controls import (
    ALL,
    APPLIED,
    MEANING,
    NOT_COPIED,
    REASONING,
    REPLACED,
    ChoiceContrast,
    Conclusion,
    ReasoningItem,
    _claim,
    _part,
    _RulePart,
    evaluate_controls,
    items_of,
    letter_preferences,
    preferences,
)  # fmt: skip
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelQuestions, QuestionChoices
from tests.choosers import (
    NOT_REASONING,
    NOTHING,
    Chooser,
    ChooserQuestion,
    Script,
    ScriptedChat,
    at_random,
    constant,
    copying_or_associating,
    ontology,
    reasoning,
    remembered,
    simulated,
)
from tests.messages import mentioned, stated
from tests.test_server import completion

# --- the contrast


def test_a_contrast_by_hand():
    """One stratum: (1 + 1 + 0) / 3 − (0 + 1) / 2 = 1/6, and counts 3 · 2 / 5; the other: 1 − 1/3, and counts 1 · 3 / 4.
    Together (1/6 · 6/5 + 2/3 · 3/4) / (6/5 + 3/4) = 0.7 / 1.95; the third has one part and says nothing."""
    values = [1, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    first = [True] * 3 + [False] * 2 + [True] + [False] * 3 + [True]
    strata = ["a"] * 5 + ["b"] * 4 + ["c"]
    number = contrast(values, first, Sample("item"), "r", strata)
    assert number.value == pytest.approx(0.7 / 1.95)
    assert number.n == 9


def test_the_spread_of_a_contrast_is_that_of_its_parts():
    """Of 40 and 60 values the variance of the difference is s₁² / 40 + s₂² / 60."""
    lot = np.random.default_rng(0)
    values, first = (lot.random(100) < 0.3).astype(float), np.arange(100) < 40
    number = contrast(values, first, Sample("item", None, [str(own) for own in first]), "r")
    parts = [interval(values[own], within=["x"] * own.sum(), limits=(-2, 2)) for own in (first, ~first)]
    assert number.value == pytest.approx(parts[0].estimate - parts[1].estimate)
    assert number.high - number.low == pytest.approx(2 * 1.98 * np.hypot(*(part.error for part in parts)), rel=0.02)


def test_parts_of_which_one_is_empty():
    number = contrast([1.0, 0.0], [True, True], Sample("item"), "r")
    assert np.isnan(number.value)
    assert number.low is None


# --- letters and options


def marked(options, gold, choice):
    letters = [{"ab"[options.index(name)]: 1.0} for name in (choice, gold)]
    chosen = QuestionChoices(tuple(options), gold, {choice: 1.0}, *letters)
    return MarkedQuestion({"task": "type"}, float(gold == choice), "", Origin("", "", "", None), chosen)


def test_likings_by_hand():
    """y is chosen in three of four questions, right in one. (b) is chosen in two, right in two others. x is right most
    often in the others of each: chosen in one, right in three."""
    questions = [marked("xy", "x", "y"), marked("xy", "y", "y"), marked("yx", "x", "y"), marked("xy", "x", "x")]
    asked = ModelQuestions("m", "chat", {f"type/{number}": own for number, own in enumerate(questions)}, [])
    assert [(one.which, one.chosen, one.right, one.excess.value) for one in letter_preferences(asked)] == [
        ("(a)", 0.5, 0.5, 0), ("(b)", 0.5, 0.5, 0)
    ]  # fmt: skip
    _, option, often = preferences(asked)
    assert (option.which, option.chosen, option.right, option.excess.value) == ("y", 0.75, 0.25, 0.5)
    alone = difference([1, 1, 1, 0], [0, 1, 0, 0], Sample("premise", list("abcd")), "r")
    assert option.excess.p_value == pytest.approx(min(1, 2 * alone.p_value))
    assert option.excess[1:3] == alone[1:3]
    assert not option.beyond
    assert (often.chosen, often.right, often.excess.value) == (0.25, 0.75, -0.5)


def test_the_option_that_is_liked_is_the_one_chosen_too_often():
    """y is chosen always and right once; z is right three times and never chosen; x stands in two questions."""
    questions = [marked("yz", "z", "y"), marked("xy", "y", "y"), marked("zy", "z", "y"), marked("yz", "z", "y")]
    asked = ModelQuestions("m", "chat", {f"type/{number}": own for number, own in enumerate(questions)}, [])
    [option] = [one for one in preferences(asked) if one.kind == "option"]
    assert (option.which, option.chosen, option.right) == ("y", 1.0, 0.25)


def test_the_answer_is_of_all_rules_or_of_the_only_one():
    def of(*rules: str) -> list[str]:
        found = [Conclusion("m", "s", rule, UNTOLD, "why") for rule in rules]
        return conclude(ChoiceLines([], [], [], [], found, [], [], (0, 0)))

    assert of("rdfs9") == [f"m reasons (rdfs9 rules): {UNTOLD} (why)."]
    assert of("rdfs2", "rdfs9", ALL) == [f"m reasons ({ALL} rules): {UNTOLD} (why)."]
    assert of("rdfs2", "rdfs9") == []


def test_what_names_p1_says_nothing_of_likings():
    question = marked("xy", "x", "y")
    for groups in ({"rule": "rdfs9", "p1": "explicit"}, {"rule": "rdfs9", "control": CONTROL[ANOTHERS]}):
        assert preferences(ModelQuestions("m", "chat", {"one": question._replace(groups=groups)}, [])) == []


# --- end to end


@dataclass
class Asker:
    """Builds questions from an ontology once, and asks a model that is scripted."""

    built: object
    published: object
    out: object

    def ask(self, chooser: Chooser, *, published: bool = False, **options):
        folder = self.published if published else self.built
        script = Script(read(folder), chooser)

        def reply(text):
            return script.letter(*split_prompt(text.partition("\n")[0]))

        return study([fathom.probe("choice", ScriptedChat(reply), folder, self.out, **options).folder])


def as_published(built, folder):
    """The same questions as the authors wrote such files: a reasoning question has its memorising question's options,
    and there are no controls."""
    (folder / "memorizing").mkdir(parents=True)
    (folder / "reasoning").mkdir()
    memory = (built / "memorizing" / "subClassOf.jsonl").read_text()
    (folder / "memorizing" / "subClassOf.jsonl").write_text(memory)
    prompts = [json.loads(line) for line in memory.splitlines()]
    for file in (built / "reasoning").iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        made = []
        for row, own in zip(rows, prompts, strict=True):
            question, options = split_prompt(row["prompt"])[0], own["prompt"].partition(" (a) ")[2]
            made.append({"prompt": f"{question} (a) {options}", "gold": own["gold"]})
        (folder / "reasoning" / file.name).write_text("\n".join(map(json.dumps, made)))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choices")
    built = folder / "built"
    build_choices(ChoicesBuildOptions(data=str(ontology(folder / "ontology")), out=built, options=4, seed=3))
    return built, as_published(built, folder / "published")


@pytest.fixture
def asker(folders, tmp_path):
    return Asker(*folders, tmp_path / "run")


def by_rule(found):
    return {line.rule: line.conclusion for line in found.conclusions}


def contrasts(found, rule=ALL):
    return {line.name: line for line in found.contrasts if line.rule == rule}


@pytest.mark.parametrize("name", NOT_REASONING)
def test_who_does_not_reason(asker, name):
    found = asker.ask(NOT_REASONING[name])
    assert by_rule(found)[ALL] == NOT_SHOWN
    assert set(by_rule(found).values()) <= {NOT_SHOWN, UNTOLD}, "of one rule a half may be too small"
    own = contrasts(found)
    assert any(line.difference.low <= 0 <= line.difference.high for line in own.values())
    if name == "remembering":
        assert [own[key].difference.value for key in (REPLACED, APPLIED)] == [0, 0]
        # As published, memory alone looks like perfect reasoning.
        assert {line.premise: line.accuracy.value for line in found.reasoning if line.task == ALL} == {
            "not memorised": 0, "memorised": 1, "given": own[NOT_COPIED].mean,
        }  # fmt: skip
    if name.startswith("copying"):
        assert (own[NOT_COPIED].mean, own[NOT_COPIED].other_mean, own[NOT_COPIED].difference.value) == (1, 1, 0)


def test_who_copies_and_associates(asker):
    """Only P1 of another item tells: of the contrasts by half it has all that there is."""
    found = asker.ask(copying_or_associating)
    assert by_rule(found)[ALL] == NOT_SHOWN
    own = contrasts(found)
    assert own[REPLACED].difference.value == 1
    assert own[NOT_COPIED].difference.value == 0


def test_who_reasons(asker):
    found = asker.ask(reasoning)
    assert by_rule(found) == {"rdfs9": REASONING, "rdfs11": REASONING, ALL: REASONING}
    own = contrasts(found, "rdfs9")
    known = sum(remembered(f"subClassOf/{number}") for number in range(64))
    # 64 items: with P1 all are right, so that the gain is what is not right without.
    assert (own[REPLACED].items, own[REPLACED].other_items) == (64 - known, known)
    right = {line.premise: line.accuracy.value for line in found.reasoning if line.task == "rdfs9"}
    assert own[REPLACED].difference.value == pytest.approx(right["memorised"] - right["not memorised"])
    assert own[REPLACED].mean == pytest.approx(1 - right["not memorised"])
    assert own[NOT_COPIED].mean == 1
    assert own[NOT_COPIED].other_mean < 0.4
    assert "|rule:rdfs9|cluster:premise within task" in own[APPLIED].difference.recipe


def test_pinned_numbers_of_who_reasons(asker):
    """Another formula gives others."""
    own = contrasts(asker.ask(reasoning))
    assert {name: told(line.difference) for name, line in own.items()} == PINNED


def told(number):
    return tuple(round(end, 3) for end in (number.value, number.low, number.high))


PINNED = {
    REPLACED: (0.738, 0.637, 0.836),
    APPLIED: (0.677, 0.494, 0.847),
    NOT_COPIED: (0.844, 0.769, 0.896),
}


# --- questions as published


def test_a_constant_letter_on_files_as_published(asker):
    """A perfect reasoner by the published numbers, and none by what survives controls."""
    found = asker.ask(constant, published=True)
    shown = {line.premise: line.accuracy.value for line in found.reasoning if line.task == ALL}
    assert (shown["memorised"], shown["not memorised"]) == (1, 0)
    [line] = contrasts(found).values()
    assert (line.name, line.difference.value) == (REPLACED, 0)
    assert line.difference.low < 0 < line.difference.high
    assert by_rule(found)[ALL] != REASONING
    letter = next(one for one in found.likings if one.kind == "letter")
    assert (letter.which, letter.chosen, letter.beyond) == ("(b)", 1, True)
    assert letter.right == pytest.approx(Counter(golds(asker.published))["b"] / len(golds(asker.published)))
    text = "\n".join(note for table in tables(found) for note in table.notes)
    assert "as published: no control" in text
    assert stated(text, "256 of 256", "same order")


def golds(folder):
    """Letters of the right answers where P1 is not said."""
    files = [folder / "memorizing" / "subClassOf.jsonl", *(folder / "reasoning").glob("*-02.jsonl")]
    return [json.loads(line)["gold"][1] for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", NOT_REASONING)
def test_who_does_not_reason_on_files_as_published(asker, name):
    """What these questions cannot tell is refused, or not above 0; nothing is taken for reasoning."""
    found = asker.ask(NOT_REASONING[name], published=True)
    assert set(by_rule(found).values()) <= {NOT_SHOWN, UNTOLD}
    if name in ("copying, else (b)", "copying, else frequent"):
        because = {line.rule: line.because for line in found.conclusions}[ALL]
        assert re.search(r"chosen in \d+%, right in \d+%", because)


def test_who_reasons_on_files_as_published(asker):
    found = asker.ask(reasoning, published=True)
    assert by_rule(found)[ALL] == UNTOLD
    because = {line.rule: line.because for line in found.conclusions}[ALL]
    assert mentioned(because, "copied from P1", "memory")


def test_in_several_orders_a_letter_cancels(asker):
    """Each option stands at each of four letters once: (b) is right in one order of four, and nothing is memorised."""
    found = asker.ask(constant, published=True, orders=4)
    assert {line.accuracy.value for line in (*found.memorizing, *found.reasoning)} == {0.25}
    assert {line.premise for line in found.reasoning} == {"not memorised", "given"}
    assert set(by_rule(found).values()) == {UNTOLD}
    assert {round(one.right, 9) for one in found.letters} == {0.25}
    assert not any("in the same order" in note for table in tables(found) for note in table.notes)


def test_who_reasons_in_several_orders(asker):
    found = asker.ask(reasoning, published=True, orders=2)
    assert by_rule(found)[ALL] == UNTOLD


@pytest.mark.slow
def test_a_constant_letter_on_the_published_files(shared_data, serve, tmp_path):
    """(b) is right in 30 of 500 questions on super-classes; the same 30 conclude rightly without P1, and all others do
    not. Of what is said of P1 none adds anything."""
    data = shared_data / "ontoprobe" / "multiple_choice"
    server = serve(each=lambda body: completion("(b)"))
    options = {"relations": ("subClassOf", "rdfs9"), "server": server.url, "concurrency": 4}
    found = study([fathom.probe("choice", "tiny", data, tmp_path / "run", **options).folder])
    halves = {line.premise: (line.questions, line.accuracy.value) for line in found.reasoning}
    assert halves == {"memorised": (30, 1), "not memorised": (470, 0), "given": (500, 0.06)}
    [line] = found.contrasts
    assert (line.items, line.other_items, line.difference.value) == (470, 30, 0)
    assert -0.1 < line.difference.low < 0 < line.difference.high < 0.1
    [conclusion] = found.conclusions
    assert conclusion.conclusion == NOT_SHOWN
    assert mentioned(conclusion.because, "letter (b)", "100%", "right in 6%")


# --- how often it is wrong, and what it finds


def concluded(chooser, seed, **more):
    asked = simulated(chooser, seed, **more)
    return evaluate_controls([(asked, preferences(asked))])[1][0].conclusion


@pytest.mark.slow
@pytest.mark.parametrize("controls", [True, False])
def test_guessing_is_hardly_ever_taken_for_reasoning(controls):
    """100 items, 200 seeds: at most one of twenty."""
    found = Counter(concluded(at_random, seed, controls=controls) for seed in range(200))
    assert found[REASONING] <= 10


@pytest.mark.slow
@pytest.mark.parametrize("controls", [True, False])
def test_a_hundred_items_tell_who_reasons(controls):
    wanted = REASONING if controls else UNTOLD
    assert sum(concluded(reasoning, seed, controls=controls) == wanted for seed in range(20)) >= 18
    for chooser in NOT_REASONING.values():
        assert {concluded(chooser, seed, controls=controls) for seed in range(5)} <= {NOT_SHOWN, UNTOLD}


def test_few_items_tell_nothing():
    assert concluded(reasoning, 0, items=12) == UNTOLD


@pytest.mark.parametrize(("right", "because"), [
    (True, ("20 items", "every P1")),
    (False, ("20 items", "no P1")),
])  # fmt: skip
def test_one_half_alone_is_named(right, because):
    def of_one_half(asked: ChooserQuestion) -> str:
        others = [option for option in asked.options if option != asked.gold]
        return asked.gold if right else others[0]

    _, [conclusion] = evaluate_controls([(simulated(of_one_half, 0, items=20), [])])
    assert conclusion.conclusion != REASONING
    if conclusion.conclusion == UNTOLD:
        assert mentioned(conclusion.because, because)


def part_of(rule, *p_values):
    """A rule whose contrasts have these p values; a negative one is of a contrast below zero."""
    number = difference([1.0, 0.0, 1.0] * 7, [0.0] * 21, Sample("item"), "r")
    numbers = [number._replace(value=0.4 if p > 0 else -0.4, p_value=abs(p)) for p in p_values]
    found = [
        ChoiceContrast("m", "s", rule, name, 20, 20, 0.5, 0.1, one) for name, one in zip(MEANING, numbers, strict=False)
    ]
    return _RulePart(rule, [], found, [])


def test_every_contrast_must_be_above_zero():
    """Of a rule the greatest p counts, 1 of what is below zero; of two rules Holm doubles the lesser."""
    first, second = part_of("rdfs2", 0.001, 0.02, 0.01), part_of("rdfs9", 0.001, -0.001, 0.001)
    assert [one.p_value for one in decide([_claim(first), _claim(second)])] == pytest.approx([0.04, 1.0])


def test_contrasts_that_are_all_below_zero_are_no_reasoning():
    [decision] = decide([_claim(part_of("rdfs2", -0.001, -0.001, -0.001))])
    assert (decision.word, decision.p_value) == (NOT_SHOWN, 1.0)


@pytest.mark.parametrize(("memorised", "expected"), [(91, UNTOLD), (90, REASONING), (10, REASONING), (9, UNTOLD)])
def test_either_half_may_be_too_small(memorised, expected):
    items = {form: 1.0 if form == "said" else 0.0 for form in ("said", "bare")}
    made = [_item_of(number, memorised=number < memorised, **items) for number in range(100)]
    told = _part(ModelQuestions("m", "s", {}, []), "rdfs9", made, [])._replace(objections=[])
    [decision] = decide([_claim(told)])
    assert decision.word == (SIGNIFICANT if expected == REASONING else expected)


@pytest.mark.parametrize(("memorised", "luck"), [(30, True), (40, False)])
def test_memory_hardly_above_guessing_is_luck(memorised, luck):
    """Of 100 with a quarter guessed 30 may be luck, though they are more: the interval begins below. 40 are not."""
    made = [_item_of(number, number < memorised, 1.0, 0.0) for number in range(100)]
    refused = _part(ModelQuestions("m", "s", {}, []), "rdfs9", made, []).objections
    assert [line.startswith("the halves are luck") for line in refused] == [True] * luck


def _item_of(number, memorised, said, bare):
    """One that is answered as a reasoner does: from memory, or from what is said."""
    asked = next(iter(simulated(reasoning, 0, items=2).questions.values()))
    named = f"subClassOf/{number}"
    return ReasoningItem("rdfs9", named, float(memorised), 0.25, float(memorised), said, bare, 0.0, False, asked)


@pytest.mark.parametrize(("lacking", "expected"), [(20, REASONING), (21, UNTOLD)])
def test_a_fifth_of_the_items_may_lack_an_answer(lacking, expected):
    asked = simulated(reasoning, 0)
    for number in range(lacking):
        id_ = f"rdfs9 {NOTHING}/{number}"
        asked.questions[id_] = asked.questions[id_]._replace(credit=np.nan)
    [conclusion] = evaluate_controls([(asked, preferences(asked))])[1]
    assert conclusion.conclusion == expected
    assert ("21 of 100" in conclusion.because) == (lacking > 20)


@pytest.mark.parametrize(("memory", "memorised"), [(0.25, False), (0.5, False), (0.75, True)])
def test_memorised_is_what_is_right_in_more_than_half_of_the_orders(memory, memorised):
    first = items_of(simulated(reasoning, 0, items=2))[0]
    assert first._replace(memory=memory).memorised == memorised


def test_luck_is_no_memory():
    """A model that combines premises but guesses what it should remember: its halves are by chance."""

    def without_memory(asked: ChooserQuestion) -> str:
        return asked.gold if asked.form == "said" else at_random(asked)

    asked = simulated(without_memory, 1)
    _, [conclusion] = evaluate_controls([(asked, preferences(asked))])
    assert conclusion.conclusion == NOT_SHOWN
    assert "the halves are luck" in conclusion.because

"""Entailment asked of chat models: nonce words, questions with options, and the same verdicts."""

from __future__ import annotations

import re
from string import ascii_lowercase

import pytest

pytest.importorskip("openai", reason="needs the extra api")

from fathom.formats import read
from fathom.formats.ontoprobe import read_patterns
from fathom.models.base import Identity
from fathom.prompts.entailment import CONTROLS, GIVEN
from fathom.prompts.nonce import NonceWords, excerpt_of
from fathom.prompts.ontology import RULES
from fathom.results.rows import grouped
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.studies.reasoning import entailment
from fathom.studies.reasoning.controls import by_half
from fathom.studies.reasoning.runs import right_and_wrong
from tests.answerers import verdict
from tests.choosers import ScriptedChat
from tests.messages import mentioned
from tests.test_entailment import asked_several, folder
from tests.test_entailment_controls import ABOVE, KNOWN, lot, things
from tests.test_server import completion

assert folder, things  # fixtures


class Choosing(ScriptedChat):
    """Answers each question by a function of it and of its options."""

    def __init__(self, chooses):
        super().__init__(self._letter)
        self.chooses, self.asked = chooses, []
        self.identity = Identity("scripted", None, "server", chooses.__name__)

    def _letter(self, text):
        self.asked.append(text)
        question, _, rest = text.partition("? (a) ")
        options = re.split(r", \([b-z]\) ", rest.partition("\n")[0])
        return f"({ascii_lowercase[options.index(self.chooses(question, options))]})"


def said_of(question, whom):
    return [name.lower() for name in re.findall(rf"(?:^|[\".] ?){whom} is an? (\w+) \.", question)]


def whom(question):
    """Who is asked about."""
    return re.search(r"(\w+) is a particular ___", question)[1]


def is_memory(question):
    found = re.fullmatch(r"What is the superclass of (\w+)", question)
    return found and found[1]


def first(question, options):
    return options[0]


def by_lot(question, options):
    return options[int(lot(question, *options) * len(options))]


def copies(question, options):
    return next((name for name in options if re.search(rf"\b{name}\b", question)), by_lot(question, options))


def remembers(question, options):
    """What it has learnt of any class that it hears of, whoever is said to be one."""
    heard = [is_memory(question)] if is_memory(question) else said_of(question, r"\w+")
    known = [ABOVE[name] for name in heard if name in KNOWN]
    return next((name for name in known if name in options), by_lot(question, options))


def reasons(question, options):
    """What is said, or else learnt, of the class of whom it is asked about."""
    if is_memory(question):
        return remembers(question, options)
    for name in said_of(question, whom(question)):
        told = [*said_of(question, name.capitalize()), *([ABOVE[name]] if name in KNOWN else [])]
        if found := next((one for one in told if one in options), None):
            return found
    return by_lot(question, options)


@pytest.mark.slow
@pytest.mark.parametrize("chooses", [first, by_lot, copies, remembers, reasons], ids=lambda chooses: chooses.__name__)
def test_only_who_reasons_is_said_to_reason(things, tmp_path, chooses):
    chat = Choosing(chooses)
    found = asked_several({"chat": lambda: chat}, things, tmp_path, ["rdfs9"], options=8)
    own = grouped((one.conclusion, one) for one in found.contrasts)
    verdicts = {conclusion: verdict(contrasts) for conclusion, contrasts in own.items()}
    if chooses is reasons:
        assert set(verdicts.values()) == {"significant"}
        [said] = [line for line in found.lines if line.setting[3:] == ("explicit", "explicit")]
        assert said.numbers["MRR"].value == 1
    else:
        assert "significant" not in verdicts.values()
    text = " ".join(render(entailment.tables(found), "text").split())
    assert "untrained twin" in text


def test_all_rules_and_texts_are_asked_about_nonce_words(folder, tmp_path):
    chat = Choosing(by_lot)
    found = asked_several({"chat": lambda: chat}, folder, tmp_path, list(RULES), options=4)
    assert [run.path.name for run in found.runs] == ["memory-words", "premises-words", "words", "controls-words"]
    data, patterns = read(folder), read_patterns(folder)
    nonce = NonceWords(excerpt_of(data, patterns), list(RULES), 2, 0)
    for run in found.runs[1:]:
        for row in run.queries().to_pylist():
            about = dict(row["groups"])
            assert about["given"] in {*GIVEN, *CONTROLS, "remembered"}
            assert row["relation"] in RULES
    questions = [text for text in chat.asked if "completes the statement" in text]
    assert questions
    assert not any(re.search("<[xyzw]>", text) for text in questions)
    every = {word for words in nonce.of_rule.values() for word in words}
    assert len(every) == 4 * len(RULES)
    assert all(any(re.search(rf"\b{word}\b", text) for word in every) for text in questions)
    assert not {word.casefold() for word in every} & excerpt_of(data, patterns)
    # A right answer that is not the finest is no option, nor is what P2 says.
    for line in (text for text in questions if " is a swimmer . Therefore" in text.replace("Swimmer is a", "")):
        assert "swimmer" not in line.partition("(a)")[2]
    settings = {line.setting[3:] for line in found.lines if line.numbers}
    assert ("explicit", "explicit") in settings
    assert all(line.unscored == 0 for line in found.lines)


def test_nonce_words_are_of_the_seed():
    first, again, other = (NonceWords({"bab"}, ["rdfs9", "rdfs5"], 3, seed).of_rule for seed in (0, 0, 1))
    assert first == again != other
    assert all(re.fullmatch("[A-Z][a-z]{3,9}", word) for word in first["rdfs9"])
    assert all(re.fullmatch("[a-z]{4,9}", word) for word in first["rdfs5"])
    drawn = {word.casefold() for word in first["rdfs9"]}
    avoiding = NonceWords(drawn, ["rdfs9"], 3, 0).of_rule["rdfs9"]
    assert not drawn & {word.casefold() for word in avoiding}


def test_halves_of_what_is_right_or_wrong():
    split = right_and_wrong({"a": 1.0, "b": 0.0, "c": 0.75, "d": 0.5})
    assert split.of == {"a": "implicit", "b": "absent", "c": "implicit", "d": "absent"}
    assert (split.better, split.worse, split.middle) == (0.875, 0.25, "")
    # Seven right and thirteen wrong: the border is between them, not in the middle of twenty.
    gains = {f"i{number}": float(number) for number in range(20)}
    found = by_half(gains, {item: float(number < 7) for number, item in enumerate(gains)})
    assert found.group == ["better"] * 7 + ["worse"] * 13
    assert (found.better, found.worse) == (3.0, 13.0)


def test_a_server_is_asked_from_the_command_line(folder, tmp_path, serve, fathom):
    server = serve(each=lambda body: completion("(b)"))
    given = ["study", "entailment", "--model", "tiny", "--server", server.url, "--data", folder, "--pairs", "2"]
    code, out, said = fathom(*given, "--rules", "rdfs9", "--limit", "12", "--options", "4", "--out", tmp_path / "out")
    assert code == 0, said
    assert "does it reason?" in out
    assert len(server.bodies) > 50
    for made in ("words", "controls-words", "premises-words"):
        groups = map(dict, RunFolder.open(tmp_path / "out" / "tiny" / made).queries().column("groups").to_pylist())
        assert len({about["item"] for about in groups}) <= 12, "those that --limit draws, and no training items"
    code, _, said = fathom(*given, "--soft", "--out", tmp_path / "soft")
    assert code == 2
    assert mentioned(said, "--model tiny", "--wordings", "--soft")
    code, _, said = fathom(*given, "--dtype", "bfloat16", "--out", tmp_path / "dtype")
    assert code == 2
    assert "--dtype: " in said

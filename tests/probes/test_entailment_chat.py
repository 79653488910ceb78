"""Entailment asked of chat models: nonce words, questions with options, and the same verdicts."""

from __future__ import annotations

import re
from string import ascii_lowercase

import pytest

pytest.importorskip("openai", reason="needs the extra api")

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.prompts.alterations import COMBINES, NEEDED, OF_MEMORY, OF_TEXT, REMEMBERS, WHOLE
from fathom.data.prompts.entailment import GIVEN
from fathom.data.prompts.nonce import NonceWords, excerpt_of
from fathom.data.prompts.ontology import RULES
from fathom.engine.models.base import Identity
from fathom.results.rows import Rows
from fathom.store.folder import RunFolder
from fathom.studies.reasoning.runs import right_and_wrong
from tests.choosers import ScriptedChat
from tests.conftest import build, make_local
from tests.engine.test_server import completion
from tests.messages import mentioned
from tests.probes.test_chat import dressed, small_tokenizer
from tests.probes.test_entailment import asked_several, folder
from tests.reasoners import draw

assert folder  # a fixture


class Choosing(ScriptedChat):
    """Chooses any option, and keeps the questions."""

    def __init__(self):
        super().__init__(self._letter)
        self.asked = []
        self.identity = Identity("scripted", None, "server", "any")

    def _letter(self, text):
        self.asked.append(text)
        count = len(re.findall(r" \([a-z]\) ", text.partition("\n")[0]))
        return f"({ascii_lowercase[int(draw(text) * count)]})"


def test_all_rules_and_texts_are_asked_about_nonce_words(folder, tmp_path):
    chat = Choosing()
    found = asked_several({"chat": lambda: chat}, folder, tmp_path, list(RULES), options=4)
    assert [run.path.name for run in found.runs] == ["memory-words", "premises-words", "words", "arguments"]
    data, patterns = read(folder), read_patterns(folder)
    nonce = NonceWords(excerpt_of(data, patterns), list(RULES), 2, 0)
    for run in found.runs[1:]:
        for row in run.queries().to_pylist():
            about = dict(row["groups"])
            assert about["given"] in {
                *GIVEN,
                WHOLE,
                *NEEDED[COMBINES],
                *NEEDED[REMEMBERS],
                OF_TEXT,
                OF_MEMORY,
                "remembered",
            }
            assert row["relation"] in RULES
    questions = [text for text in chat.asked if "completes the statement" in text]
    assert questions
    assert not any(re.search("<[xyzw]>", text) for text in questions)
    every = {word for words in nonce.of_rule.values() for word in words}
    assert len(every) == 8 * len(RULES), "of two pairs, each with similar words for another subject"
    assert all(any(re.search(rf"\b{word}\b", text) for word in every) for text in questions)
    assert not {word.casefold() for word in every} & excerpt_of(data, patterns)
    # A right answer that is not the finest is no option, nor is what P2 says.
    for line in (text for text in questions if re.search(r"(?<! one)(?<! that) is a swimmer \. Therefore", text)):
        assert "swimmer" not in line.partition("(a)")[2]
    settings = {line.setting[3:] for line in found.lines if line.numbers}
    assert ("explicit", "explicit") in settings
    assert all(line.unscored == 0 for line in found.lines)


def local(tokenizer):
    network = build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=32, n_positions=1024)
    return make_local(network, tokenizer)


def test_a_local_model_answers_by_its_chat_template(folder, tmp_path):
    model = local(dressed(small_tokenizer()))
    settings = {"options": 4, "chat": True, "untrained": 1, "limit": 6}
    found = asked_several({"local": lambda: model}, folder, tmp_path, ["rdfs9"], **settings)
    assert [run.path.parent.name for run in found.runs] == ["local"] * 4 + ["local-untrained-0"]
    rows = Rows(found.runs[2])
    assert all(rows.asked(place)[0].startswith("<|im_start|>user\n") for place in range(len(rows.rank)))
    assert set(rows.rank.tolist()) <= {1.0, 2.0, 3.0, 4.0}
    stated = [
        1 / rank
        for rank, query in zip(rows.rank.tolist(), rows.query.tolist(), strict=True)
        if (rows.groups[query]["premise 1"], rows.groups[query]["premise 2"]) == ("explicit", "explicit")
    ]
    [line] = [line for line in found.lines if (line.setting.first, line.setting.second) == ("explicit", "explicit")]
    assert line.numbers["MRR"].value == pytest.approx(sum(stated) / len(stated))


@pytest.mark.parametrize(
    ("tokenizer", "settings", "said"),
    [
        (small_tokenizer(), {"chat": True}, ("--model local", "--chat", "no chat template")),
        (dressed(small_tokenizer()), {"orders": 2, "score": ["letter"]}, ("without --chat", "--orders, --score")),
        (dressed(small_tokenizer()), {"system": "Be brief."}, ("without --chat", "--system")),
    ],
    ids=["no template", "orders", "system"],
)  # fmt: skip
def test_chat_options_that_do_not_fit(folder, tmp_path, tokenizer, settings, said):
    model = local(tokenizer)
    with pytest.raises(BadInput) as refused:
        asked_several({"local": lambda: model}, folder, tmp_path, ["rdfs9"], **settings)
    assert mentioned(str(refused.value), *said)
    assert not list(tmp_path.rglob("manifest.json"))


def test_nonce_words_are_of_the_seed():
    first, again, other = (NonceWords({"bab"}, ["rdfs9", "rdfs5"], 3, seed).of_rule for seed in (0, 0, 1))
    assert first == again != other
    assert all(re.fullmatch("[A-Z][a-z]{5,13}", word) for word in first["rdfs9"])
    assert all(re.fullmatch("[a-z]{6,14}", word) for word in first["rdfs5"])
    assert all(len(set(own[at : at + 4])) == 4 for own in first.values() for at in range(0, 12, 4))
    pairs = [(own[at], own[at + 2]) for own in first.values() for at in (0, 1)]
    for one, other in pairs:
        [differ] = [at for at, letters in enumerate(zip(one, other, strict=True)) if len(set(letters)) == 2]
        assert {one[differ], other[differ]} <= set("aeiou")
        assert 3 <= differ < len(one) - 3, "another subject's word begins and ends as the subject's own"
    drawn = {word.casefold() for word in first["rdfs9"]}
    avoiding = NonceWords(drawn, ["rdfs9"], 3, 0).of_rule["rdfs9"]
    assert not drawn & {word.casefold() for word in avoiding}


def test_halves_of_what_is_right_or_wrong():
    split = right_and_wrong({"a": 1.0, "b": 0.0, "c": 0.75, "d": 0.5})
    assert split.of == {"a": "implicit", "b": "absent", "c": "implicit", "d": "absent"}
    assert (split.better, split.worse, split.middle) == (0.875, 0.25, "")


def test_a_server_is_asked_from_the_command_line(folder, tmp_path, serve, fathom):
    server = serve(each=lambda body: completion("(b)"))
    given = ["study", "entailment", "--model", "tiny", "--server", server.url, "--data", folder, "--pairs", "2"]
    code, out, said = fathom(*given, "--rules", "rdfs9", "--limit", "12", "--options", "4", "--out", tmp_path / "out")
    assert code == 0, said
    assert "does it reason?" in out
    assert len(server.bodies) > 50
    for made in ("words", "arguments", "premises-words"):
        groups = map(dict, RunFolder.open(tmp_path / "out" / "tiny" / made).queries().column("groups").to_pylist())
        assert len({about["item"] for about in groups}) <= 12, "those that --limit draws, and no training items"
    code, _, said = fathom(*given, "--soft", "--out", tmp_path / "soft")
    assert code == 2
    assert mentioned(said, "--model tiny", "--wordings", "--soft")
    code, _, said = fathom(*given, "--dtype", "bfloat16", "--out", tmp_path / "dtype")
    assert code == 2
    assert "--dtype: " in said

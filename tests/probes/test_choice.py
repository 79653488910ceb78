"""The choice probe: its questions, what a reply names, its three kinds of models, and its two tables."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import fathom
from fathom.base.errors import BadInput, MadeBefore, RunFailed
from fathom.base.reading import Faults
from fathom.cli import make_app
from fathom.data.formats import read
from fathom.data.formats.choices import is_choices, read_choices, split_prompt
from fathom.data.prompts.choices import CUT_OFF, UNPARSED, Choices, choices, question_of, shown, statements_of
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import Sentence, Template
from fathom.engine.models.base import Attention
from fathom.engine.models.checks import token_log_probs
from fathom.probes.choice_replies import chosen
from fathom.results.estimates import NOTHING
from fathom.studies.reasoning.choice import GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN, Row
from fathom.studies.reasoning.choice import analyse as choice
from fathom.studies.reasoning.choice import tables as choice_tables
from fathom_build.choices import build_choices
from fathom_build.options import ChoicesBuildOptions
from tests.conftest import build, load_bert_uncased, load_gpt2, make_local
from tests.forked import ForkedCall
from tests.messages import correspond, mentioned, mentions
from tests.quiz import write
from tests.scripted import ScriptedModel

NAMES = ("work", "sports league", "bank", "Robot")


# Questions


def query(id_="type/0", subject="Messi", gold=("player", "person"), **more):
    return Query(id_, id_.partition("/")[0], subject, subject, gold, "classes", **more)


def ontology(*queries, names=("player", "person", "agent", "Person", "messi", "work", "bank", "tower")):
    space = CandidateSet("classes", names, names)
    relations = {q.relation: Relation(q.relation, q.relation, (Template("[X] is a [Y] ."),), "1:N") for q in queries}
    return QuerySet("tiny", queries, {"classes": space}, relations)


def test_options_are_the_finest_gold_and_others_drawn_by_seed():
    data = ontology(query(), query("type/1", "Rome", ("tower",)))
    made = choices(data, 4, 0)
    [first, second] = made.queries
    own = made.candidates["type/0"].ids
    assert first.gold == ("player",)
    assert (first.fact_id, second.fact_id) == (data.queries[0].fact_id, data.queries[1].fact_id)
    assert data.queries[0].fact_id is not None
    assert data.queries[0].fact_id.endswith("|type|*")
    assert len(own) == 4
    # Not the coarser gold answer, nor one that reads like it, nor the subject itself.
    assert set(own) - {"player"} <= {"agent", "work", "bank", "tower"}
    # All other candidates are few: they are all shown, and no more can be.
    assert set(choices(data, 20, 0).candidates["type/0"].ids) == {"player", "agent", "work", "bank", "tower"}
    assert made.candidates["type/1"].ids.count("tower") == 1
    assert second.gold == ("tower",)


def test_options_depend_on_query_and_seed_alone():
    one, other = query(), query("type/1", "Rome", ("tower",))
    made = choices(ontology(one, other), 4, 0).candidates["type/0"]
    turned = ontology(other, one, names=("tower", "bank", "work", "messi", "Person", "agent", "person", "player"))
    assert choices(turned, 4, 0).candidates["type/0"] == made
    assert len({choices(ontology(one), 4, seed).candidates["type/0"].ids for seed in range(20)}) > 5


def test_every_option_and_place_is_drawn_alike():
    """Of 4 others 1 is drawn, and stands first or second: 8 outcomes, 250 of 2,000 each, deviation about 15."""
    data = ontology(*(query(f"type/{n}") for n in range(2000)))
    drawn = Counter(options.ids for options in choices(data, 2, 0).candidates.values())
    assert len(drawn) == 8
    assert all(175 < count < 325 for count in drawn.values())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (query("type/0", "Messi"), "What is the type of Messi?"),
        (query("subClassOf/0", "soccer player"), "What is the superclass of soccer player?"),
        (query("subPropertyOf/0", "member of"), "What does member of imply?"),
        (
            query("domain/0", "x", sentences=(Sentence("One has to be a particular [Y] if one has composer ."),)),
            "What is the type of it if one has composer?",
        ),
        (
            query("range/0", "x", sentences=(Sentence("One has to be a particular [Y] if a person died in that ."),)),
            "What is the type of it if a person died in it?",
        ),
        (query("P36/0", "Peru"), 'What completes the statement "Peru is a ___ ."?'),
    ],
)
def test_wording_of_questions(asked, expected):
    assert question_of(ontology(asked), asked) == expected


def test_a_query_without_words_is_unscored():
    bare = QuerySet("tiny", [query("P1/0")], ontology(query()).candidates, {"P1": Relation("P1", "P1", (), "1:1")})
    assert "no question, no template" in (choices(bare, 4, 0).queries[0].unscored or "")


@pytest.mark.parametrize(
    ("question", "first", "count"),
    [
        ("What is the type of Messi?", "Messi is a [Y] .", 3),
        (
            "person is a animal. X is a person. Therefore, What is the superclass of X?",
            "person is a animal. X is a person. Therefore, X is a [Y] .",
            3,
        ),
        ("X implies child. Therefore, What does X imply?", "X implies child. Therefore, X implies [Y] .", 1),
        ("What is the type of it if it if?", "One has to be a particular [Y] if it if .", 1),
        (
            "What is the type of it if a person died in it?",
            "One has to be a particular [Y] if a person died in that .",
            1,
        ),
        (
            "X's child is Y . Therefore, What is the relation between X and Y?",
            "X's child is Y . Therefore, the relation between X and Y is [Y] .",
            1,
        ),
        ("Who painted it?", None, 0),
    ],
)
def test_statements_of_questions(question, first, count):
    found = statements_of(question)
    assert (next(iter(found), None), len(found)) == (first, count)


def test_prompts_and_options():
    prompt = shown("What is it?", ("a, b", "c (d)", "e"))
    assert prompt == "What is it? (a) a, b, (b) c (d), (c) e"
    assert split_prompt(prompt) == ("What is it?", ("a, b", "c (d)", "e"))
    assert split_prompt("What is it? (b) x, (c) y") is None
    assert split_prompt("What is it? (a) x") is None
    many = shown("What?", [f"n{n}" for n in range(26)])
    assert split_prompt(many) == ("What?", tuple(f"n{n}" for n in range(26)))
    assert split_prompt(f"{many}, (aa) n26") is None


# Files


def test_the_shared_files(shared_data):
    """Counts of the data's README; the first questions of two files; each premise is the question that asks for it."""
    data = read(shared_data / "ontoprobe" / "multiple_choice")
    assert isinstance(data, Choices)
    counts = Counter((q.relation, q.groups.get("p1")) for q in data.queries)
    assert [counts[task, None] for task in ("type", "subClassOf", "subPropertyOf", "domain", "range")] == [
        500, 500, 39, 30, 28,
    ]  # fmt: skip
    for rule, expected in {"rdfs2": (4, 26, 30), "rdfs3": (6, 22, 28), "rdfs5": (11, 28, 39), "rdfs7": (11, 28, 39),
                           "rdfs9": (82, 418, 500), "rdfs11": (82, 418, 500)}.items():  # fmt: skip
        assert tuple(counts[rule, how] for how in ("absent", "implicit", "explicit")) == expected
    assert {len(data.candidates[q.candidates]) for q in data.queries} == {20}
    first = data.queries[0]
    assert data.questions[first.id] == "What is the type of Cold Lake Metis Settlement?"
    assert (first.subject, first.gold, data.candidates[first.id].ids[0]) == (
        "Cold Lake Metis Settlement", ("municipality",), "Anime",
    )  # fmt: skip
    by_id = {q.id: q for q in data.queries}
    for q in data.queries:
        if "rule" in q.groups:
            assert by_id[q.groups["premise"]].gold == q.gold
    [note] = data.notes
    assert mentioned(note, "domain.jsonl:17:", "'mixed martial arts ev2ent'")
    reasoning = read(shared_data / "ontoprobe" / "multiple_choice" / "reasoning")
    assert "premise" not in reasoning.queries[0].groups or reasoning.queries[0].groups["premise"]
    assert len(reasoning.queries) == 2272


@pytest.mark.slow
def test_built_questions_are_the_published_ones(shared_data, tmp_path):
    """But for four that the authors worded by hand, and their second stop behind the premise of rdfs7."""

    def questions(folder):
        return {question.replace(" .. ", " . ") for question in read(folder).questions.values()}

    built = build_choices(ChoicesBuildOptions(data=str(shared_data / "ontoprobe"), out=tmp_path / "built", seed=1))
    published = shared_data / "ontoprobe" / "multiple_choice"
    assert (built.counts["memorizing/type"], built.counts["reasoning/rdfs7-02"]) == (500, 39)
    assert questions(tmp_path / "built" / "reasoning") == questions(published / "reasoning")
    assert len(questions(published / "memorizing") - questions(tmp_path / "built" / "memorizing")) == 4
    built = read(tmp_path / "built")
    assert all("premise" in q.groups for q in built.queries if "rule" in q.groups)
    with pytest.raises(MadeBefore):
        build_choices(ChoicesBuildOptions(data=str(shared_data / "ontoprobe"), out=tmp_path / "built", seed=1))
    with pytest.raises(BadInput, match="there already"):
        build_choices(ChoicesBuildOptions(data=str(shared_data / "ontoprobe"), out=tmp_path / "built", seed=2))
    with pytest.raises(BadInput, match="is no ontology"):
        build_choices(ChoicesBuildOptions(data=str(tmp_path / "built"), out=tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_faults_of_files(tmp_path):
    good = {"prompt": "Which? (a) x, (b) y", "gold": "(b) y"}
    file = write(
        tmp_path / "own.jsonl",
        good,
        {"prompt": "Which of these?", "gold": "x"},
        good | {"gold": "(a) y"},
        {"prompt": "Which? (a) x, (b) X", "gold": "x"},
        good | {"cands": ["x"]},
        {"prompt": "Which?"},
    )
    assert is_choices(tmp_path)
    with pytest.raises(BadInput) as error:
        read(tmp_path)
    assert [line.partition(": ")[0].rpartition(":")[2] for line in error.value.faults] == ["2", "3", "4", "5", "6"]
    write(file, good, good | {"gold": "x"})
    data = read(file)
    assert [q.gold for q in data.queries] == [("y",), ("x",)]
    assert [q.id for q in data.queries] == ["own/0", "own/1"]
    faults = Faults()
    file.write_text("\n")
    assert read_choices(file, faults) is None
    assert "no question in it" in faults.found[0]


# Replies


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("b", 1), ("B", 1), ("(b)", 1), ("b.", 1), ("b)", 1), (" b \n", 1), ('"b"', 1), ("**b**", 1),
        ("(b) sports league", 1), ("b) Sports League.", 1), ("b: sports league", 1), ("**(b)** sports league", 1),
        ("sports league", 1), ("Sports league.", 1), ("“sports league”", 1), ("bank", 2),
        ("The answer is (b).", 1), ("Answer: b", 1), ("the correct answer is sports league", 1), ("Option b", 1),
        ("robot", 3), ("(d) robot", 3), ("A", 0), ("a.", 0), ("**a**", 0), ("**a**.", 0), ("‘b’", 1), ("(A) Work", 0),
        # Letters and texts that do not agree, letters that are none, and whatever else is said.
        ("(b) bank", None), ("e", None), ("(z)", None), ("", None), ("a or b", None), ("(a), (b)", None),
        ("As a language model I think b", None), ("league", None), ("b because it is", None), ("I do not know", None),
        ("sports league and bank", None), ("b\n\nA league is", None), ("The answer is", None), ("1", None),
        ("I think a or b", None), ("I think b", None), ("a robot", None), ("a, b", None), ("work or bank", None),
        ("a sports league", None), ("sports", None), ("The answer isb", None), ("ı", None), ("ſ", None), ("К", None),
    ],
)  # fmt: skip
def test_what_a_reply_names(reply, place):
    assert chosen(reply, NAMES) == place


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        # 26 options are called (a) to (z), and no word loses its last letter to one of them.
        ("z", 25), ("(S)", 18), ("answers", None), ("Options", None), ("I", 8), ("I think n1", None),
        # n1 is the beginning of n10 to n19: all of a text is compared.
        ("n1", 1), ("(b) n1", 1), ("n10.", 10), ("(b) n10", None), ("n", 13), ("aa", None),
    ],
)  # fmt: skip
def test_replies_to_as_many_options_as_there_are_letters(reply, place):
    assert chosen(reply, [f"n{n}" for n in range(26)]) == place


def test_a_reply_that_could_mean_two_options():
    names = ("b", "a", "tower")  # option (a) is called "b"
    assert chosen("b", names) is None
    assert chosen("(a) b", names) == 0
    assert chosen("tower", names) == 2
    assert chosen("option c", ("option c", "x", "y")) is None


# Chat models


openai = pytest.importorskip("openai", reason="needs the extra api")

from tests.engine.test_server import cached_chat_model, completion, transformers_serve  # noqa: E402, F401


def asked_of(body):
    return body["messages"][-1]["content"]


def knows(body):
    """Remembers oak and cod, not ant, and babbles about elm; concludes what P1 says, or what it remembers."""
    prompt = asked_of(body)
    if "is a tree" in prompt or "oak" in prompt:
        return completion("(b) tree")
    if "is a" in prompt and "Therefore" in prompt and ("insect." in prompt or "fish." in prompt):
        return completion("The answer is (a).")
    if "cod" in prompt:
        return completion("fish")
    return completion("boat" if "ant" in prompt else "Elm trees are lovely.")


def ask(server, data, out, **options):
    return fathom.probe("choice", "tiny", data, out, server=server.url, **options)


def rows_of(result):
    return {row["query_id"]: row for row in result.folder.predictions().to_pylist()}


def test_a_chat_model(serve, quiz, tmp_path):
    server = serve(each=knows)
    result = ask(server, quiz, tmp_path / "run")
    rows = rows_of(result)
    assert asked_of(server.bodies[0]).endswith("\nReply with the letter of one option and nothing else.")
    assert {row["scoring"] for row in rows.values()} == {"chat"}
    ant, elm, cod = rows["subClassOf/0"], rows["subClassOf/3"], rows["subClassOf/2"]
    assert ant["prompt"] == asked_of(next(b for b in server.bodies if "of ant" in asked_of(b))) + "\n[Y]"
    assert (ant["answers"], ant["answer_ids"], ant["correct"]) == (["boat"], ["boat"], 0.0)
    assert (cod["answers"], cod["answer_ids"], cod["correct"], cod["num_candidates"]) == (["fish"], ["fish"], 1.0, 4)
    # Neither right nor wrong, and what it said is kept.
    assert (elm["answers"], elm["answer_ids"], elm["correct"]) == (["Elm trees are lovely."], [None], None)
    assert elm["unscored"] == UNPARSED
    noted = result.folder.manifest["circumstances"]
    # Elm is not parsed where P1 is not given: of 12 replies 2. Each of 12 prompts counts as three tokens.
    assert (noted["replies"], noted["unparsed"], noted["calls_failed"]) == (12, 2, 0)
    assert (noted["journal"]["answers"], noted["journal"]["prompt_tokens"]) == (12, 36)
    text = result.summary().to_text()
    assert f"2 × unscored: {UNPARSED}" in text
    number = result.summary().headlines[0].accuracy
    # Memorising 2 of 3; rdfs9 without P1: oak and cod right, ant wrong; with it all four.
    assert (number.n, number.value) == (10, pytest.approx(8 / 10))
    assert number.low < number.value < number.high


def test_memorised_or_not(serve, quiz, tmp_path):
    """Of rdfs9 without P1, oak and cod were memorised, ant was not, and nothing is known of elm."""
    server = serve(each=knows)
    parts = [ask(server, quiz / part, tmp_path / part).folder for part in ("memorizing", "reasoning")]
    whole = ask(server, quiz, tmp_path / "whole").folder
    found = choice([whole])
    [memory] = found.memorizing
    assert [memory[name] for name in ("task", "questions", "unparsed", "unscored")] == ["subClassOf", 4, 1, 0]
    assert (memory["accuracy"].value, memory["all wrong"].value) == (pytest.approx(2 / 3), 0.5)
    assert memory["all wrong"].low < 0.5 < memory["all wrong"].high
    lines = {line["P1"]: line for line in found.reasoning}
    assert {premise: line["questions"] for premise, line in lines.items()} == {
        NOT_MEMORISED: 1, MEMORISED: 2, UNKNOWN: 1, GIVEN: 4,
    }  # fmt: skip
    assert lines[NOT_MEMORISED]["accuracy"].value == 0
    assert lines[MEMORISED]["accuracy"].value == lines[GIVEN]["accuracy"].value == 1
    unknown = lines[UNKNOWN]
    accuracy = unknown["accuracy"]
    assert (accuracy.plain()["value"], unknown["unparsed"], unknown["all wrong"].value) == (None, 1, 0)
    assert (accuracy.low, accuracy.note) == (None, NOTHING)
    assert all("|rule:rdfs9|P1:" in line["accuracy"].recipe for line in found.reasoning)
    with pytest.raises(BadInput, match=mentions("subClassOf/0", "tiny chat")):
        choice([whole, parts[0]])


def without_recipes(line: Row) -> Row:
    """Two data sets have two digests."""
    return line | {name: line[name]._replace(recipe="") for name in ("accuracy", "all wrong")}


def test_memorising_and_reasoning_in_two_runs(serve, quiz, tmp_path):
    server = serve(each=knows)
    parts = [ask(server, quiz / part, tmp_path / part).folder for part in ("memorizing", "reasoning")]
    whole = ask(server, quiz, tmp_path / "whole").folder
    for one, other in zip(choice(parts)[:2], choice([whole])[:2], strict=True):
        assert list(map(without_recipes, one)) == list(map(without_recipes, other))
    assert "data:memorizing@" in choice(parts).reasoning[0]["accuracy"].recipe
    assert {line["P1"] for line in choice(parts[1:]).reasoning} == {UNKNOWN, GIVEN}


def test_models_whose_folders_are_called_alike_stay_two(serve, quiz, tmp_path):
    """One remembers and never reasons, the other reasons and remembers nothing: neither is told the other's memory."""
    server = serve(models={"data": [{"id": "one/tiny"}, {"id": "two/tiny"}]}, each=knows)
    runs = [
        fathom.probe("choice", name, quiz / part, tmp_path / part, server=server.url).folder
        for name, part in (("one/tiny", "memorizing"), ("two/tiny", "reasoning"))
    ]
    found = choice(runs)
    assert {line["model"] for line in found.memorizing} == {"one/tiny"}
    assert {(line["model"], line["P1"]) for line in found.reasoning} == {("two/tiny", UNKNOWN), ("two/tiny", GIVEN)}
    again = fathom.probe("choice", "two/tiny", quiz / "memorizing", tmp_path / "again", server=server.url).folder
    both = choice([*runs, again])
    assert [(line["model"], line["questions"]) for line in both.memorizing] == [("one/tiny", 4), ("two/tiny", 4)]
    assert {line["model"] for line in choice([runs[0]]).memorizing} == {"tiny"}, "short where nothing is mistaken"


@pytest.mark.parametrize("limit", range(1, 13))
def test_a_sample_has_the_questions_that_ask_for_its_premises(quiz, limit):
    """Of 4 memorising, 4 reasoning questions that need one of these, and 4 that have their premise in words."""
    data, needed = read(quiz), {f"rdfs9-02/{n}": f"subClassOf/{n}" for n in range(4)}
    drawn = [{query.id for query in select(data, Selection(limit=limit, seed=seed)).data.queries} for seed in range(30)]
    for ids in drawn:
        assert len(ids) == limit
        assert {premise for id_, premise in needed.items() if id_ in ids} <= ids
    assert limit == 12 or len({frozenset(ids) for ids in drawn}) > 5
    # What needs no other question comes alone, and what is drawn first does not decide what else is.
    assert set().union(*drawn) == ({query.id for query in data.queries} - (needed.keys() if limit == 1 else set()))
    part = select(data, Selection(relations=["rdfs9"], limit=min(limit, 8))).data
    assert len(part.queries) == min(limit, 8), "questions that are left out already are not fetched"


def test_a_sample_knows_what_was_remembered(serve, quiz, tmp_path):
    """With --limit no premise is unknown but for a memorising question without an answer (elm's)."""
    server = serve(each=knows)
    for seed in range(4):
        run = ask(server, quiz, tmp_path / str(seed), limit=6, seed=seed).folder
        lines = [line for line in choice([run]).reasoning if line["P1"] == UNKNOWN]
        elm = "rdfs9-02/3" in run.queries().column("query_id").to_pylist()
        assert [line["questions"] for line in lines] == [1] * elm


def test_an_unfinished_run_is_noted(serve, quiz, tmp_path, monkeypatch):
    monkeypatch.setattr("fathom.probes.choice.SHARD_QUERIES", 6)
    run = ask(serve(each=knows), quiz, tmp_path / "run").folder
    assert choice([run]).notes == []
    sorted((run.path / "predictions").iterdir())[-1].unlink()
    made = choice_tables(choice([run]))
    assert all(any(note.startswith(f"{run.path} is unfinished") for note in table.notes) for table in made)


def test_options_must_be_the_same(serve, quiz, tmp_path):
    server = serve(each=knows)
    one = ask(server, quiz / "memorizing", tmp_path / "one").folder
    file = quiz / "memorizing" / "subClassOf.jsonl"
    file.write_text(file.read_text().replace("boat", "ship"))
    other = ask(server, quiz / "memorizing", tmp_path / "other").folder
    with pytest.raises(BadInput, match=mentions("subClassOf/0", "other options")):
        choice([one, other])


def test_runs_without_such_questions(serve, tmp_path):
    run = ask(serve(each=lambda body: completion("a")), "geography", tmp_path / "run", limit=3).folder
    with pytest.raises(BadInput, match="no memorising task"):
        choice([run])


def test_any_data_can_be_asked(serve, tmp_path):
    """Built from the answer spaces of an embedded data set; --options for data that has its own is refused."""
    server = serve(each=lambda body: completion("(a)"))
    result = ask(server, "geography", tmp_path / "run", limit=5, options=4)
    assert all(
        re.search(r"^(What|On which|Which) .*[?] [(]a[)] .*, [(]d[)] [^(]+\nReply", asked_of(b)) for b in server.bodies
    )
    assert {row["num_candidates"] for row in rows_of(result).values()} == {4}
    for out, options in (("again", {"seed": 1}), ("more", {"options": 5})):
        assert (
            ask(server, "geography", tmp_path / out, **({"limit": 5, "options": 4} | options)).folder.manifest[
                "identity"
            ]
            != result.folder.manifest["identity"]
        )


def test_what_is_sent_and_counted(serve, quiz, tmp_path):
    server = serve(each=lambda body: completion("x", finish_reason="length"))
    result = ask(
        server,
        quiz / "memorizing",
        tmp_path / "run",
        instruction="Choose.",
        reply_tokens=7,
        sampling_temperature=0.5,
        seed=3,
    )
    assert {key: server.bodies[0][key] for key in ("max_tokens", "temperature", "seed", "model")} == {
        "max_tokens": 7, "temperature": 0.5, "seed": 3, "model": "tiny",
    }  # fmt: skip
    assert asked_of(server.bodies[0]).endswith("\nChoose.")
    assert {row["unscored"] for row in rows_of(result).values()} == {CUT_OFF}
    assert "nothing was scored" in result.summary().to_json()


def test_what_goes_wrong_and_passes(serve, quiz, tmp_path):
    """429, garbage, a hung-up line and errors that stay: the first three are asked again, the last are said."""
    server = serve(
        (429, {}, "slow down"), "{torn", None, each=lambda b: 400 if "elm" in asked_of(b) else completion("a")
    )
    result = ask(server, quiz / "memorizing", tmp_path / "run", concurrency=2)
    rows = rows_of(result)
    assert rows["subClassOf/3"]["unscored"].startswith("the call failed: ")
    assert all(rows[f"subClassOf/{n}"]["answers"] == ["a"] for n in range(3))
    assert result.folder.manifest["circumstances"]["calls_failed"] == 1
    [line] = choice([result.folder]).memorizing
    assert (line["questions"], line["unparsed"], line["unscored"]) == (4, 0, 1)


def test_what_the_user_must_put_right(serve, quiz, tmp_path, monkeypatch):
    server = serve(each=knows)
    out = tmp_path / "run"
    cases = [
        ("tiny", {"server": "http://127.0.0.1:9/v1"}, "connection refused"),
        ("tny", {"server": server.url}, ("'tny'", "'large', 'tiny'")),
        ("tiny", {"server": "localhost"}, "address of a server"),
        ("tiny", {"server": "https://api.example.org/v1"}, "OPENAI_API_KEY"),
        ("tiny", {"server": server.url, "dtype": "bfloat16"}, "--dtype: "),
        ("tiny", {"server": server.url, "options": 4}, ("quiz", "--options")),
        ("tiny", {"server": server.url, "single_token": True}, "tokenizer"),
        ("tiny", {"server": server.url, "options": 40}, "--options: expected 26 or less, found 40"),
    ]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for model, options, line in cases:
        with pytest.raises(BadInput) as error:
            fathom.probe("choice", model, quiz, out, **options)
        assert mentioned(str(error.value), line)
        assert "\n" not in str(error.value)
        assert not out.exists()
    from fathom.engine.models.server import ChatServer

    chat = ChatServer(server.url, "tiny")
    with pytest.raises(BadInput, match="only writes"):
        fathom.probe("statement", chat, quiz, out)
    with pytest.raises(BadInput, match="--server: "):
        fathom.probe("choice", chat, quiz, out, server=server.url)
    assert rows_of(fathom.probe("choice", chat, quiz, out))["subClassOf/1"]["correct"] == 1


def test_on_the_command_line(serve, quiz, tmp_path):
    server = serve(each=knows)
    run = tmp_path / "run"
    typed = ["probe", "choice", "--model", "tiny", "--data", str(quiz), "--out", str(run), "--server", server.url]
    done = CliRunner().invoke(make_app(), typed)
    assert done.exit_code == 0, done.output
    assert "80.0 %" in done.output
    shown_ = CliRunner().invoke(make_app(), ["metrics", str(run), "--by", "relation,p1"])
    assert f"2 × unscored: {UNPARSED}" in shown_.output
    tables = CliRunner().invoke(make_app(), ["study", "choice", str(run), "--out", str(tmp_path / "tables")])
    assert tables.exit_code == 0, tables.output
    assert re.search(r"tiny +chat +rdfs9 +memorised +2 +100.0 %", tables.output)
    assert len(json.loads((tmp_path / "tables" / "choice.json").read_text())["reasoning"]) == 4


def _asked(data, out, url):
    fathom.probe("choice", "tiny", data, out, server=url, concurrency=2)


def test_killed_and_resumed_no_question_is_paid_for_twice(serve, quiz, tmp_path):
    killed = threading.Event()

    def six_then_none(body):
        if len(server.bodies) > 6:
            killed.wait(60)
        return knows(body)

    server, out = serve(each=six_then_none), tmp_path / "run"
    journal = out / "artifacts" / "answers.jsonl"
    process = ForkedCall(_asked, str(quiz), str(out), server.url, said=tmp_path / "said")
    while not journal.exists() or journal.read_bytes().count(b"\n") < 5:  # the sixth may wait beside the seventh
        assert process.goes_on()
        time.sleep(0.01)
    process.send(signal.SIGKILL)
    assert process.ended()[0] == -signal.SIGKILL
    killed.set()
    answered, before = journal.read_bytes().count(b"\n"), len(server.bodies)
    assert answered in (5, 6)
    resumed = ask(server, quiz, out, concurrency=3)
    assert len(server.bodies) - before == 12 - answered
    whole = ask(serve(each=knows), quiz, tmp_path / "whole")
    assert resumed.folder.predictions().equals(whole.folder.predictions())
    asked = len(server.bodies)
    ask(server, quiz, out)
    assert len(server.bodies) == asked, "a finished run asks nothing"


def test_a_key_refused_in_the_middle_keeps_what_came(serve, quiz, tmp_path):
    server = serve(knows, knows, 401, each=knows)
    with pytest.raises(RunFailed, match=mentions("API")):
        ask(server, quiz, tmp_path / "run", concurrency=1)
    answered = (tmp_path / "run" / "artifacts" / "answers.jsonl").read_bytes().count(b"\n")
    before = len(server.bodies)
    assert (answered, before) == (2, 3)
    ask(server, quiz, tmp_path / "run", concurrency=1)
    assert len(server.bodies) - before == 12 - answered


@pytest.mark.slow
def test_against_transformers_serve(transformers_serve, quiz, tmp_path):  # noqa: F811
    """A real server with a random model of eleven words: nothing it says names an option."""
    url, _ = transformers_serve
    options = {"server": url, "reply_tokens": 3, "limit": 3, "instruction": ""}
    result = fathom.probe("choice", "fathom/tiny", "geography", tmp_path / "run", options=2, **options)
    rows = rows_of(result)
    assert len(rows) == 3
    assert all(len(row["answers"][0].split()) > 0 for row in rows.values())
    assert {row["unscored"] for row in rows.values()} <= {CUT_OFF, None}
    assert result.folder.manifest["circumstances"]["journal"]["completion_tokens"] == 9


# Models at hand


def test_likelihoods_are_those_of_a_naive_loop(shared_data, quiz, tmp_path):
    """Letters and texts behind "Answer:", each sequence run by itself; sums of the answer's tokens."""
    tokenizer = load_gpt2(shared_data)
    network = build("GPT2LMHeadModel", n_layer=2, n_head=2, n_embd=32, vocab_size=len(tokenizer), n_positions=128)
    model = make_local(network, tokenizer)
    result = fathom.probe("choice", model, quiz, tmp_path / "run", score="letter,text-sum", bos="none")
    data = read(quiz)
    rows = {(row["query_id"], row["scoring"]): row for row in result.folder.predictions().to_pylist()}
    assert len(rows) == 24
    for id_ in ("subClassOf/2", "rdfs9-22/0"):
        names = data.candidates[id_].names
        prompt = f"{shown(data.questions[id_], names)}\nAnswer:"
        before = tokenizer(prompt)["input_ids"]
        for scoring, said in (
            ("letter", [f"({c})" for c in "abcd"[: len(names)]]),
            ("text-sum", names),
        ):
            naive = []
            for one in said:
                ids = tokenizer(f"{prompt} {one}")["input_ids"]
                scores = token_log_probs(model, ids)[len(before) :].detach().double().numpy()
                naive.append(scores.sum())
            np.testing.assert_allclose(rows[id_, scoring]["scores"], naive, atol=1e-4)
            row = rows[id_, scoring]
            gold = list(names).index(data.candidates[id_].name_of(row_gold(data, id_)))
            assert row["rank"] == 1 + sum(score > naive[gold] for score in naive)
            assert row["top_ids"][0] == names[int(np.argmax(naive))]


def row_gold(data, id_):
    return next(q for q in data.queries if q.id == id_).gold[0]


def test_masks_are_those_of_the_cloze_probe(shared_data, tmp_path):
    """The same options, the same statements, asked by another probe that is compared with a naive loop of its own."""
    tokenizer = load_bert_uncased(shared_data)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
    network = build("BertForMaskedLM", **sizes, vocab_size=len(tokenizer), max_position_embeddings=128)
    model = make_local(network, tokenizer, Attention.BIDIRECTIONAL)
    data = shared_data / "ontoprobe" / "multiple_choice"
    result = fathom.probe("choice", model, data, tmp_path / "run", limit=10)
    other = fathom.probe("cloze", model, data, tmp_path / "cloze", limit=10, pool="relation", sentences="all")
    cloze = {(row["query_id"], row["template"]): row for row in other.folder.predictions().to_pylist()}
    rows = result.folder.predictions().to_pylist()
    assert len(rows) == len(cloze) > 20
    for row in rows:
        same = cloze[row["query_id"], row["template"]]
        np.testing.assert_allclose(row["scores"], same["scores"], atol=1e-4)
        assert (row["rank"], row["prompt"], row["num_candidates"]) == (same["rank"], same["prompt"], 20)


def test_masked_models_need_statements(tmp_path):
    write(tmp_path / "own" / "own.jsonl", {"prompt": "Which? (a) x, (b) y", "gold": "(b) y"})
    with pytest.raises(BadInput, match="relation own"):
        fathom.probe("choice", ScriptedModel(["x"], {}, masked=True), tmp_path / "own", tmp_path / "run")


def test_options_that_a_masked_model_cannot_tell_are_unscored(tmp_path):
    """Words that the vocabulary lacks are one token, <unk>, whatever they are."""

    def line(*names):
        return {"prompt": shown("What is the superclass of ant?", names), "gold": names[0]}

    file = write(
        tmp_path / "quiz" / "subClassOf.jsonl",
        line("insect", "boat"),
        line("insect", "Qwx"),
        line("Qwx", "insect"),
        line("insect Qwx", "boat"),
        line("insect Qwx", "insect Zyx"),
        line("boat", "insect Qwx", "insect Zyx"),
    )
    model = ScriptedModel(["ant", "is", "a", "has", "class", "particular", "insect", "boat", "."], {}, 64, masked=True)
    rows = fathom.probe("choice", model, file, tmp_path / "run").folder.predictions().to_pylist()
    reasons = {row["query_id"]: row["unscored"] for row in rows}
    # Two wrong options that tie decide nothing.
    assert correspond(reasons.values(), None, "<unk>", "<unk>", None, "same tokens", None)


def test_masked_statements_too_long_are_unscored(quiz, tmp_path):
    words = [
        "X",
        "is",
        "a",
        "ant",
        "oak",
        "cod",
        "elm",
        "insect",
        "tree",
        "fish",
        "boat",
        "particular",
        "Therefore",
        "has",
        "class",
        "ants",
        "oaks",
        "cods",
        "elms",
    ]
    # "X is a ant . Therefore , X is a <mask> ." has 12 tokens, and 13 with "particular".
    model = ScriptedModel(words, {}, 12, masked=True)
    result = fathom.probe("choice", model, quiz / "reasoning" / "rdfs9-02.jsonl", tmp_path / "run")
    faults = {row["template"]: row["unscored"] for row in result.folder.predictions().to_pylist()}
    assert list(faults) == [0, 1, 2]
    assert correspond(faults.values(), None, None, ("13 tokens", "window of 12"))

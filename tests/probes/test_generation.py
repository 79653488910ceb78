"""Written answers: when two are the same, what they score, how they are asked for, and that batches change nothing."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fathom.base.errors import BadInput
from fathom.data.formats import examine, read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.prompts.questions import QuestionShots, as_template, read_questions
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.models.base import Attention
from fathom.engine.models.generation import generate_greedily, until
from fathom.engine.scoring.answers import Matcher, answer_key, split_answers
from fathom.probes.generation import GenerationProbe, _answer_on_line
from fathom.probes.options import GenerationOptions
from fathom.probes.run import RunRequest, run
from fathom.results.answers import error_table
from fathom.results.loading import read_facts
from fathom.results.metrics.ranking import harmonic_mean, set_score
from fathom.results.metrics.uncertainty import interval
from fathom.results.summary import summarise
from tests.conftest import TINY_VOCABULARY, build, make_local
from tests.engine.test_levels import SHAPES
from tests.messages import correspond, mentioned, mentions, stated
from tests.scripted import ScriptedModel

# --- when two answers are the same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris", " paris."),
        ("“The Who”", "the  who"),
        ("1,234", "1234"),
        ("1,566.70", "1566.7"),
        ("+0", "0"),
        ("007", "7"),
        ("12 March 1990", "1990-03-12"),
        ("12th of March, 1990", "March 12, 1990"),
        ("Sept. 3, 1999", "3 September 1999"),
        ("August 2013", "Aug 2013"),
        ("São Tomé", "SÃO TOMÉ"),
    ],
)
def test_spellings_of_one_answer(one, other):
    assert answer_key(one) == answer_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Who", "Who"),
        ("12 March 1990", "1990"),  # a day is not its year, unless the gold answer has both names
        ("1990-13-12", "12 December 1990"),
        ("1,23", "123"),
        ("-28", "28"),
        ("May", "May 2000"),
        ("5", "5.1"),
    ],
)
def test_answers_that_differ(one, other):
    assert answer_key(one) != answer_key(other)


def test_without_normalising_only_letter_case_is_evened_out():
    assert answer_key(" Paris ", normalise=False) == "paris"
    assert answer_key("1,234", normalise=False) != answer_key("1234", normalise=False)


def test_an_answer_of_punctuation_alone_stays():
    assert answer_key("!!!") == "!!!"


def test_answers_are_split_and_each_counts_once():
    assert split_answers(" Rome; Paris ;rome; ;Lima.", "; ") == ["Rome", "Paris", "Lima."]
    assert split_answers("  ", "; ") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" Kampala)\n(Oman", ["Kampala"]),
        (" Paris (Texas)", ["Paris (Texas)"]),
        (" Paris (Texas))", ["Paris (Texas)"]),
        (")", []),
    ],
)
def test_a_line_ends_at_the_bracket_that_it_did_not_open(text, said):
    assert _answer_on_line(text) == said


SPACE = CandidateSet("space", ("p", "r", "m", "l"), ("Paris", "Rome", "Madrid", "Lima"))


def asking(*gold: str, known: tuple[str, ...] = ()) -> Query:
    return Query("r/0", "r", "France", "F", gold, "space", known=known)


def matcher(query: Query) -> Matcher:
    graph = KnowledgeGraph.from_triples(
        [("F", "r", "p"), ("F", "r", "r")],
        {"p": "Paris", "r": "Rome"},
        {"p": ["City of Light", "Lutetia"], "r": ["Eternal City", "Lutetia"]},
    )
    return Matcher(graph, {"space": SPACE}, [query], normalise=True)


def test_labels_and_aliases_name_a_gold_answer_once():
    query = asking("p", "m")
    found = matcher(query).match(query, ["Lutetia", "paris", "Lima", "Narnia"])
    assert found == (("p", "p", "l", None), 1, 2, 2)


def test_one_name_of_two_gold_answers_names_both():
    query = asking("p", "r")
    assert matcher(query).match(query, ["Lutetia"])[1:] == (2, 0, 2)


def test_another_true_answer_is_right():
    """A graph asks (France, r, ?) once for each true tail; whichever the model writes is true."""
    query = asking("p", known=("r",))
    assert matcher(query).match(query, ["Eternal City", "Paris"]) == (("r", "p"), 1, 0, 1)
    assert matcher(query).match(query, ["Rome"])[1:] == (1, 0, 1)
    assert matcher(query).match(query, ["Rome", "Lima"])[1:] == (1, 1, 1)


# --- what they score


def test_scores_by_hand():
    assert set_score(right=1, wrong=0, gold=1) == (1, 1, 1)
    assert set_score(right=0, wrong=1, gold=1) == (0, 0, 0)
    assert set_score(right=0, wrong=0, gold=3) == (0, 0, 0)  # it said nothing
    # two of three named, and two others: P = 2/4, R = 2/3, F1 = 2 · (1/2 · 2/3) / (7/6) = 4/7
    assert set_score(right=2, wrong=2, gold=3) == pytest.approx((1 / 2, 2 / 3, 4 / 7))
    with pytest.raises(ValueError, match="cannot be"):
        set_score(right=2, wrong=0, gold=1)


def test_f1_is_that_of_the_means():
    """P = (1 + 0) / 2, R = (1/2 + 1/4) / 2 = 3/8: F1 = 2 · (1/2 · 3/8) / (7/8) = 3/7."""
    found = interval([[1, 0], [1 / 2, 1 / 4]], ["a", "b"], limits=(0, 1), fold=harmonic_mean)
    assert found.estimate == pytest.approx(3 / 7)
    assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_the_interval_of_one_column_is_the_plain_one():
    values = np.random.default_rng(1).random(40)
    for clusters in ([f"r{i % 12}" for i in range(40)], ["one"] * 40):
        found, plain = interval([values], clusters, fold=lambda mean: mean), interval(values, clusters)
        assert found[:4] == pytest.approx(plain[:4])
        assert found.note == plain.note


def test_harmonic_mean_of_nothing_is_zero():
    assert harmonic_mean([0, 1], [0, 1]).tolist() == [0, 1]


def test_precision_and_recall_are_kamels_own():
    """Against KAMEL's rule, computed plainly: gold answers with a name among the lower-case strings said, over the
    number of strings and of gold answers (github.com/JanKalo/KAMEL at feb8d8c, which leaves spaces at the strings)."""
    chosen = random.Random(3)
    names = {f"e{i}": [f"Name {i}", f"Alias {i}", f"ALT-{i}."] for i in range(12)}
    labels = {id_: found[0] for id_, found in names.items()}
    graph = KnowledgeGraph.from_triples([("s", "r", id_) for id_ in names], labels, names)
    space = CandidateSet("space", tuple(labels), tuple(labels.values()))
    for _ in range(50):
        gold = chosen.sample(sorted(names), chosen.randrange(1, 6))
        said = [chosen.choice(names[id_]).swapcase() for id_ in chosen.sample(sorted(names), chosen.randrange(1, 6))]
        query = Query("q", "r", "s", "s", tuple(gold), "space")
        found = Matcher(graph, {"space": space}, [query], normalise=False).match(query, said)
        strings = {text.lower() for text in said}
        named = sum(bool(strings & {name.lower() for name in names[id_]}) for id_ in gold)
        score = set_score(found.right, found.wrong, found.gold)
        assert (score.precision, score.recall) == pytest.approx((named / len(strings), named / len(gold)))


# --- writing: a batch gives each prompt the text that it gets alone

COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": TINY_VOCABULARY}
LLAMA = COMMON | {"num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 128}
SPECIAL = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "GPT2LMHeadModel": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": TINY_VOCABULARY},
    "OPTForCausalLM": COMMON | {"ffn_dim": 64, "max_position_embeddings": 128, "word_embed_proj_dim": 32},
    "LlamaForCausalLM": LLAMA,
    "MistralForCausalLM": LLAMA | {"sliding_window": 6},
    "BloomForCausalLM": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": TINY_VOCABULARY},
    "MambaForCausalLM": {**SHAPES["MambaForCausalLM"], "vocab_size": TINY_VOCABULARY},
    "JambaForCausalLM": {**SHAPES["JambaForCausalLM"], "vocab_size": TINY_VOCABULARY},
    "OpenAIGPTLMHeadModel": {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "vocab_size": TINY_VOCABULARY,
    },
}
ALONE = {"BloomForCausalLM": True, "MambaForCausalLM": True, "JambaForCausalLM": True, "OpenAIGPTLMHeadModel": False}
"""Those that refuse packed branches: whether they go on from a state."""


def prompts(*, shared: int = 9, count: int = 8, seed: int = 0) -> list[str]:
    """Of different lengths behind one beginning, then two of their own."""
    chosen = random.Random(seed)

    def words(number: int) -> str:
        return " ".join(f"w{chosen.randrange(4, TINY_VOCABULARY)}" for _ in range(number))

    beginning = words(shared)
    return [f"{beginning} {words(1 + number)}" for number in range(count)] + ["w7", words(20)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_writes_what_transformers_writes_of_each_prompt(family):
    """Against ``transformers``' own ``generate``, one prompt at a time."""
    network = build(family, **FAMILIES[family], **SPECIAL)
    reference = copy.deepcopy(network)
    model = make_local(network)
    assert (model.refuses_cache() is None) == (family not in ALONE)
    expected = []
    for prompt in prompts():
        ids = torch.tensor([[0, *model.tokenizer(prompt, add_special_tokens=False)["input_ids"]]])
        written = reference.generate(ids, max_new_tokens=10, do_sample=False)[0, ids.shape[1] :].tolist()
        kept = written[: written.index(2)] if 2 in written else written
        expected.append(model.tokenizer.decode(kept, skip_special_tokens=True))
    assert len(set(expected)) > 5
    assert [reply.text for reply in model.generate(prompts(), 10, bos=0)] == expected
    assert [reply.text for reply in model.generate(prompts()[:8], 10, bos=0)] == expected[:8]  # all share a beginning


@pytest.mark.parametrize("family", ALONE)
def test_what_goes_on_from_a_state_runs_each_token_once(family, monkeypatch):
    """A prompt of nine tokens, four written behind it: 9 + 3 tokens, or 9 + 10 + 11 + 12 anew."""
    model = make_local(build(family, **FAMILIES[family], **SPECIAL))
    assert model.refuses_cache(13) is not None  # asked of it once
    assert (model.refuses_states(13) is None) == ALONE[family]
    ran, embed = [], type(model).embed
    monkeypatch.setattr(type(model), "embed", lambda self, ids: ran.append(ids.numel()) or embed(self, ids))
    [reply] = generate_greedily(model, ["w4 w5 w6 w7 w8 w9 w10 w11 w12"], 4)
    assert reply.tokens == 4
    assert ran == ([9, 1, 1, 1] if ALONE[family] else [9, 10, 11, 12])


def test_a_reply_ends_at_a_stop_sign_at_the_end_token_or_at_its_length():
    follow = {"a": "b", "b": "c", "c": "%", "d": "e", "e": "</s>", "f": "f"}
    weights = {word: {after: 9.0} for word, after in follow.items()}
    model = ScriptedModel(["a", "b", "c", "d", "e", "f", "%", "</s>"], weights)
    end = model.tokenizer.convert_tokens_to_ids("</s>")
    replies = generate_greedily(model, ["a", "d", "f"], 4, ["%"], ends=[end])
    assert [(reply.text.strip(), reply.tokens) for reply in replies] == [("b c", 3), ("e", 1), ("f f f f", 4)]


def test_a_text_ends_before_the_first_sign():
    assert until("Paris) and\nso on", (")\n", "\n", ") ")) == "Paris"
    assert until("Paris)", (")\n", "\n")) == "Paris)"
    assert until("Paris", ()) == "Paris"


def test_what_does_not_fit_and_what_is_no_number_is_said():
    model = ScriptedModel(["a", "b"], {"a": {"b": 9.0}, "b": {"a": float("nan")}}, max_tokens=4)
    replies = model.generate(["a a a", "", "a", "b"], 2)
    assert mentioned(replies[0].fault, "3 tokens", "up to 2", "window of 4")
    assert "no tokens" in replies[1].fault
    assert "not a number" in replies[3].fault


# --- questions and their few-shot examples


def test_questions_from_both_kinds_of_file(tmp_path):
    """With a header or without, quoted as spreadsheets do or not; only whole fields are unquoted."""
    (tmp_path / "q.csv").write_text(
        'relation,question\nP1, Who, if anyone, wrote [S]?\n\n"P2","Where is [X]? It is in [Y]"\n'
        'P3,"Who ""signed"" [X], and when?"\nP4, "To be" and [X]: "?"\n'
    )
    assert read_questions(tmp_path / "q.csv") == {
        "P1": (Template("Who, if anyone, wrote [X]? [Y]"),),
        "P2": (Template("Where is [X]? It is in [Y]"),),
        "P3": (Template('Who "signed" [X], and when? [Y]'),),
        "P4": (Template('"To be" and [X]: "?" [Y]'),),
    }
    lines = [{"relation": "P1", "question": "Who wrote [X]?"}, {"relation": "P1", "question": "[X] is by whom?"}]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert len(read_questions(tmp_path / "q.jsonl")["P1"]) == 2


def test_mistakes_in_questions_are_named_by_line(tmp_path):
    (tmp_path / "q.csv").write_text("P1, Who wrote it?\nno comma\nP2, The [Y] of [X]?\n")
    with pytest.raises(BadInput) as error:
        read_questions(tmp_path / "q.csv")
    assert [fault.split("q.csv:")[1][:1] for fault in error.value.faults] == ["2", "1", "3"]
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(BadInput, match="no question in it"):
        read_questions(tmp_path / "empty.csv")


def test_kamels_misplaced_question_is_corrected(tmp_path):
    (tmp_path / "q.csv").write_text("P36, What is the original language of [S]?\n")
    assert read_questions(tmp_path / "q.csv")["P36"] == (Template("What is the capital of [X]? [Y]"),)


CAPITAL = as_template("What is the capital of [X]?")


def countries(train: int = 6) -> KnowledgeGraph:
    """Country i has capital i; country 0 has two. Then one test triple."""
    triples = [(f"c{i}", "capital", f"t{i}") for i in range(train)] + [("c0", "capital", "tx"), ("c2", "river", "r")]
    graph = KnowledgeGraph.from_triples([*triples, ("c9", "capital", "t9")], {})
    return replace(graph, splits={"train": range(len(triples)), "test": range(len(triples), len(triples) + 1)})


def of_country(number: int) -> Query:
    return Query(f"capital/{number}", "capital", f"c{number}", f"c{number}", ("t0",), "capital")


def test_examples_are_never_on_the_querys_own_subject():
    for per_query in (False, True):
        shots = QuestionShots(countries(), ["capital"], shots=5, per_query=per_query)
        prompt = shots.prompt(of_country(0), CAPITAL)
        lines = prompt.split("\n")
        assert lines[-1] == "What is the capital of c0?"
        assert sorted(lines[:-1]) == [f"What is the capital of c{i}? t{i}%" for i in range(1, 6)]


def test_all_answers_of_an_example_stand_in_it():
    prompt = QuestionShots(countries(), ["capital"], shots=5, separator=", ").prompt(of_country(3), CAPITAL)
    assert "What is the capital of c0? t0, tx%\n" in prompt
    assert "c9" not in prompt  # the test split is not drawn from


def test_examples_are_shared_by_a_relation_unless_drawn_per_query():
    queries = [of_country(number) for number in range(7, 40)]

    def examples(**options) -> set[str]:
        shots = QuestionShots(countries(30), ["capital"], shots=3, **options)
        return {shots.prompt(query, CAPITAL).rpartition("\n")[0] for query in queries if query.subject_id > "c30"}

    assert len(examples()) == 1
    assert examples() != examples(seed=1)
    assert len(examples(per_query=True)) > 1


def test_too_few_subjects_to_draw_from():
    with pytest.raises(BadInput, match=mentions("capital", "7 few-shot", "6 subjects")):
        QuestionShots(countries(), ["capital"], shots=7)
    with pytest.raises(BadInput, match="5 found"):
        QuestionShots(countries(), ["capital"], shots=6).prompt(of_country(0), CAPITAL)


def test_examples_are_never_of_entities_without_a_name():
    """Country 0 has one answer with a name and one without: it is passed over as a whole, as is nameless country 1."""
    graph = countries()
    ids = graph.entities.column("id").to_pylist()
    names = ["" if id_ == "tx" else " " if id_ == "c1" else id_ for id_ in ids]
    column = graph.entities.column_names.index("name")
    graph = replace(graph, entities=graph.entities.set_column(column, "name", [names]))
    for per_query in (False, True):
        lines = QuestionShots(graph, ["capital"], shots=4, per_query=per_query).prompt(of_country(9), CAPITAL)
        assert sorted(lines.split("\n")[:-1]) == [f"What is the capital of c{i}? t{i}%" for i in range(2, 6)]
    with pytest.raises(BadInput, match=mentions("5 few-shot", "4 subjects")):
        QuestionShots(graph, ["capital"], shots=5)


# --- KAMEL


def kamel_folder(folder: Path, test: list[dict], questions: str = "P1, Where does [S] end?\n") -> Path:
    (folder / "P1").mkdir()
    (folder / "question-templates.csv").write_text(questions)
    (folder / "P1" / "test.jsonl").write_text("\n".join(map(json.dumps, test)))
    train = [{"sub_label": f"Line {i}", "obj_label": [f"Town {i}"]} for i in range(6)]
    (folder / "P1" / "train.jsonl").write_text("\n".join(map(json.dumps, train)))
    return folder


def answered(subject: str, *answers: tuple[str, str, list[str]]) -> dict:
    labels = [{"rdf": None if id_[0] == "X" else name, "chosen": name, "alternative": a} for id_, name, a in answers]
    return {"index": [1], "sub_label": subject, "obj_uri": [id_ for id_, *_ in answers], "obj_label": labels}


def test_a_kamel_folder(tmp_path):
    day, other = ["12 May 1936", "1936"], ["1936", "16 May 1936"]
    lines = [
        answered("A", ("Q1", "Rome", ["Roma"]), ("Q2", "Pisa", [])),
        answered("B", ("XMLSchema#dateTime", "1936", day), ("XMLSchema#dateTime", "1936", other)),
        answered("C", ("XMLSchema#decimal", "42", ["42"])),
    ]
    data = read(kamel_folder(tmp_path, lines))
    assert [query.gold for query in data.queries] == [("Q1", "Q2"), ("12 May 1936", "16 May 1936"), ("42",)]
    assert data.candidates["P1"].names == ("Rome", "Pisa", "1936", "1936", "42")
    assert data.relations["P1"].questions == (Template("Where does [X] end? [Y]"),)
    aliases = dict(zip(*(data.graph.entities.column(name).to_pylist() for name in ("id", "aliases")), strict=True))
    assert aliases["Q1"] == ["Roma"]
    assert aliases["12 May 1936"] == ["12 May 1936"]
    assert {name: len(span) for name, span in data.graph.splits.items()} == {"train": 6, "test": 5}
    assert data.queries[1].groups["answers"] == "2"


def test_every_fault_of_a_kamel_folder_is_named(tmp_path):
    short = answered("A", ("Q1", "Rome", [])) | {"obj_uri": ["Q1", "Q2"]}
    nameless = answered("A", ("Q1", " ", []))
    folder = kamel_folder(tmp_path, [short, {"sub_label": "A"}, nameless], "P1, a [S]?\nP1, b [S]?\nP9, c [S]?\n")
    (folder / "P3").mkdir()
    (folder / "P3" / "test.jsonl").write_text("")
    queryset, faults = examine(folder)
    assert queryset is None
    found = "\n".join(faults.found)
    for expected in (
        ("question-templates.csv:2:", "P1"),
        ("test.jsonl:1:", "2 obj_uri", "1 obj_label"),
        ("test.jsonl:2:", "'obj_uri'"),
        "test.jsonl:3: expected {",
        ("P1", "no instances"),
        ("P3", "no question"),
    ):
        assert stated(found, expected)
    assert stated(faults.notes, "P9", "P9/test.jsonl")


@pytest.mark.slow
def test_the_published_kamel(shared_data):
    data = read(shared_data / "kamel")
    assert (len(data.relations), len(data.queries)) == (234, 46800)
    # 54,761 answers to the test questions; the first 100 train subjects of each relation have 27,368
    assert {name: len(span) for name, span in data.graph.splits.items()} == {"train": 27368, "test": 54761}
    assert data.relations["P36"].questions == (Template("What is the capital of [X]? [Y]"),)
    assert sum("P36" in note or "P495" in note or "P530" in note for note in data.notes) == 3
    assert sum(len(query.gold) > 1 for query in data.queries) == 4296
    prompt = QuestionShots(data.graph, ["P1001"], shots=5).prompt(data.queries[0], CAPITAL)
    assert prompt.count("%\n") == 5


# --- the probe

WORDS = ["Where", "is", "?", "A", "B", "C", "D", "Rome", "Pisa", "Lima", ";", "%", "(", ")", ",", "city"]
# After a question it says "Rome; Lima%", after "(head, relation," it says "Rome)".
SAYS = {"?": {"Rome": 9.0}, "Rome": {";": 9.0}, ";": {"Lima": 9.0}, "Lima": {"%": 9.0}, ",": {"Rome": 9.0}}


def cities() -> QuerySet:
    gold = {"A": ("r",), "B": ("p", "l"), "C": ("p",), "D": ("l", "r")}
    queries = tuple(
        Query(f"city/{s}", "city", s, s, answers, "city", groups={"cardinality": "1:N"}) for s, answers in gold.items()
    )
    graph = KnowledgeGraph.from_triples(
        [(s, "city", answer) for s, answers in gold.items() for answer in answers],
        {"r": "Rome", "p": "Pisa", "l": "Lima"},
    )
    space = CandidateSet("city", ("r", "p", "l"), ("Rome", "Pisa", "Lima"))
    relation = Relation("city", "city", (), "1:N", questions=(as_template("Where is [X]?"),))
    return QuerySet("cities", queries, {"city": space}, {"city": relation}, graph=graph)


def test_answers_worked_out_by_hand(tmp_path):
    """Rome and Lima are said to all: A P 1/2 R 1; B P 1/2 R 1/2; C P 0 R 0; D P 1 R 1.

    Credits 2/3, 1/2, 0, 1: accuracy 13/24. Mean P 1/2, mean R 5/8: F1 = 2 · 5/16 / (9/8) = 5/9.
    """
    folder = run(
        RunRequest("generation", ScriptedModel(WORDS, SAYS), cities(), GenerationOptions(shots=2)), tmp_path / "r"
    )
    rows = {row["query_id"]: row for row in folder.predictions().to_pylist()}
    assert [row["correct"] for row in rows.values()] == pytest.approx([2 / 3, 1 / 2, 0, 1])
    assert all(row["answers"] == ["Rome", "Lima"] and row["answer_ids"] == ["r", "l"] for row in rows.values())
    assert all(row["rank"] is None and row["unscored"] is None for row in rows.values())
    assert rows["city/A"]["prompt"].endswith("%\nWhere is A? [Y]")
    numbers = summarise(folder).headlines[0].numbers
    found = {name: numbers[name].value for name in ("accuracy", "precision", "recall", "f1")}
    assert found == pytest.approx({"accuracy": 13 / 24, "precision": 1 / 2, "recall": 5 / 8, "f1": 5 / 9})
    [part] = summarise(folder, ["relation"]).breakdowns[0].parts
    assert part.numbers["f1"].value == pytest.approx(5 / 9)
    assert "precision" in summarise(folder, ["relation"]).to_text()
    assert not stated(summarise(folder).notes, "names")
    assert error_table(folder, 5).rows == (("f1", "city", "C", "Rome; Lima", "Pisa"),)
    with pytest.raises(BadInput, match=mentions("written", "fathom study profile")):
        read_facts(folder)


def test_an_empty_answer_is_wrong_not_unscored(tmp_path):
    folder = run(
        RunRequest("generation", ScriptedModel(WORDS, {"?": {"%": 9.0}}), cities(), GenerationOptions(shots=0)),
        tmp_path / "r",
    )
    for row in folder.predictions().to_pylist():
        assert (row["answers"], row["correct"], row["unscored"]) == ([], 0.0, None)


def test_relations_without_a_question_are_asked_by_lines(tmp_path):
    data = cities()
    plain = replace(data, relations={"city": replace(data.relations["city"], questions=())})
    folder = run(
        RunRequest("generation", ScriptedModel(WORDS, SAYS), plain, GenerationOptions(shots=2, max_new_tokens=1)),
        tmp_path / "r",
    )
    rows = folder.predictions().to_pylist()
    assert all(row["template"] == -1 and row["answers"] == ["Rome"] for row in rows)
    assert stated(summarise(folder).notes, "city", "--questions")
    assert all(row["prompt"].endswith(f"({row['subject']}, city, [Y]") for row in rows)
    assert [row["correct"] for row in rows] == pytest.approx([1, 0, 0, 2 / 3])


def test_own_questions_replace_the_datas_and_make_another_run(tmp_path):
    (tmp_path / "q.csv").write_text("city, is [X]?\ncity, Where? [X]?\nelsewhere, [X]?\n")
    model, chosen = ScriptedModel(WORDS, SAYS), GenerationOptions(shots=1, questions=tmp_path / "q.csv")
    folder = run(RunRequest("generation", model, cities(), chosen), tmp_path / "r")
    assert {row["template"] for row in folder.predictions().to_pylist()} == {0, 1}
    assert "questions:" in summarise(folder).headlines[0].numbers["accuracy"].recipe
    (tmp_path / "q.csv").write_text("city, Is [X]?\n")
    with pytest.raises(BadInput, match=r"resolved\.questions"):
        run(RunRequest("generation", model, cities(), chosen), tmp_path / "r")
    (tmp_path / "q.csv").write_text("elsewhere, Is [X]?\n")
    with pytest.raises(BadInput, match=r"--questions .*\bcity\b"):
        run(RunRequest("generation", model, cities(), chosen), tmp_path / "other")


def test_what_cannot_be_asked_is_kept_with_its_reason(tmp_path):
    data = cities()
    one, other, third, last = data.queries
    asked = (
        replace(one, direction="head"),
        replace(other, unscored="the subject has no name"),
        replace(third, gold=("elsewhere",)),
        last,
    )
    odd = replace(data, queries=asked)
    folder = run(RunRequest("generation", ScriptedModel(WORDS, SAYS), odd, GenerationOptions(shots=1)), tmp_path / "r")
    reasons = [row["unscored"] for row in folder.predictions().to_pylist()]
    assert correspond(reasons, "for the tail", "the subject", "answer elsewhere", None)


def test_masked_models_do_not_write():
    model = ScriptedModel(WORDS, SAYS)
    model.attention = Attention.BIDIRECTIONAL
    with pytest.raises(BadInput, match="bidirectional"):
        GenerationProbe(GenerationOptions(), model, cities())


def random_model_and_data() -> tuple[object, QuerySet]:
    network = build("GPT2LMHeadModel", **FAMILIES["GPT2LMHeadModel"], **SPECIAL)
    chosen = random.Random(5)

    def name() -> str:
        return " ".join(f"w{chosen.randrange(4, TINY_VOCABULARY)}" for _ in range(chosen.randrange(1, 4)))

    triples = [(f"h{i}", "rel", f"t{i % 9}") for i in range(30)]
    names = {id_: name() for triple in triples for id_ in (triple[0], triple[2])}
    space = CandidateSet("rel", tuple(f"t{i}" for i in range(9)), tuple(names[f"t{i}"] for i in range(9)))
    queries = tuple(Query(f"rel/{h}", "rel", names[h], h, (t,), "rel") for h, _, t in triples)
    relation = Relation("rel", "w5 w6", (), "1:N", questions=(Template("w9 [X] w10 [Y]"),))
    graph = KnowledgeGraph.from_triples(triples, names)
    return make_local(network), QuerySet("random", queries, {"rel": space}, {"rel": relation}, graph=graph)


@pytest.mark.parametrize("per_query", [False, True])
def test_batch_size_changes_no_answer(per_query, tmp_path):
    model, data = random_model_and_data()
    asked = {"shots": 3, "max_new_tokens": 6, "per_query_shots": per_query}
    one = run(RunRequest("generation", model, data, GenerationOptions(**asked, batch_tokens=1)), tmp_path / "one")
    many = run(RunRequest("generation", model, data, GenerationOptions(**asked)), tmp_path / "many")
    assert one.predictions().equals(many.predictions())
    assert len({row["answers"][0] for row in many.predictions().to_pylist()}) > 5


def test_out_of_memory_halves_the_batch_and_goes_on(tmp_path, monkeypatch):
    model, data = random_model_and_data()
    asked = GenerationOptions(shots=3, max_new_tokens=6)
    whole = run(RunRequest("generation", model, data, asked), tmp_path / "whole")
    sizes, generate = [], model.generate

    def small(texts, *options):
        sizes.append(len(texts))
        if len(texts) > 8:
            raise torch.OutOfMemoryError
        return generate(texts, *options)

    monkeypatch.setattr(model, "generate", small)
    folder = run(RunRequest("generation", model, data, asked), tmp_path / "small")
    assert max(sizes) > 8
    assert folder.manifest["circumstances"]["halvings"] > 0
    assert folder.predictions().equals(whole.predictions())

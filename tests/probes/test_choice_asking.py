"""How multiple choice is asked: orders of options, forms of replies, and what built questions show."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import fathom
from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.formats.choices import is_choices
from fathom.data.formats.ontology import read_hierarchy
from fathom.data.prompts.alterations import COMBINES, COUNTERFACTUAL, OF_MEMORY, OF_TEXT, REVERSED, WHOLE
from fathom.data.prompts.choices import AMBIGUOUS, UNPARSED, choices, shown
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import Template
from fathom.engine.models.checks import token_log_probs
from fathom.probes.choice import Orders
from fathom.probes.choice_replies import BOXED, EXPLAINED, PLAIN, STATED, read_reply
from fathom_build.choices import build_choices
from fathom_build.options import ChoicesBuildOptions
from tests.choosers import ontology
from tests.conftest import build, load_gpt2, make_local
from tests.engine.test_server import completion
from tests.messages import mentioned, mentions, stated
from tests.probes.test_choice import NAMES, ask, asked_of, knows, rows_of
from tests.quiz import write
from tests.scripted import ScriptedModel

# --- replies


@pytest.mark.parametrize(
    ("reply", "place", "form"),
    [
        ("(b)", 1, PLAIN), ("**b**", 1, PLAIN), ("The answer is (b).", 1, PLAIN), ("sports league", 1, PLAIN),
        (r"\boxed{a}", 0, BOXED), (r"So it is $\boxed{\text{B}}$.", 1, BOXED), (r"\boxed{(c) bank}", 2, BOXED),
        (r"Final Answer: The final answer is $\boxed{b}$", 1, BOXED), (r"\boxed{sports league}", 1, BOXED),
        ("Final answer: a", 0, STATED), ("Not (a), as it is no work. The answer is (b).", 1, STATED),
        ("It plays.\n\n**Final answer:** (b) sports league", 1, STATED), ("Answer: (b), since it plays", 1, STATED),
        ("I looked. The correct option is: **d**", 3, STATED), ("Thus the answer is sports league.", 1, STATED),
        ("(b) sports league. It has teams.", 1, EXPLAINED), ("(b) Sports league\n\nIt has teams.", 1, EXPLAINED),
        ("b\n\nA league is", 1, EXPLAINED), ("b. sports league because it has teams", 1, EXPLAINED),
    ],
)  # fmt: skip
def test_forms_of_replies(reply, place, form):
    assert read_reply(reply, NAMES) == (place, form, "")
    strict = read_reply(reply, NAMES, strict=True)
    assert (strict.place, strict.reason) == ((place, "") if form == PLAIN else (None, UNPARSED))


@pytest.mark.parametrize(
    "reply",
    [
        "a or b", "(a), (b)", "(b) bank", "The answer is (a) or (b).", "The answer is (b) bank.",
        r"\boxed{a} The answer is (b)", "(b) sports league or (c) bank",
        r"\boxed{a} or \boxed{b}",
    ],
)  # fmt: skip
def test_two_options_claimed(reply):
    assert read_reply(reply, NAMES) == (None, "", AMBIGUOUS)


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is a robot that", "I think b", "The answer is not (a).", "b because it is", "", "e",
        "The answer is", r"\boxed{}", r"\boxed{z}", "Final answer: z",
        "I do not know the answer: sorry", "A league is a league",
    ],
)  # fmt: skip
def test_nobody_guesses(reply):
    assert read_reply(reply, NAMES) == (None, "", UNPARSED)


def test_a_name_that_begins_another():
    names = [f"n{number}" for number in range(26)]
    assert read_reply("(b) n1 is it", names).place == 1
    assert read_reply("(b) n10 is it", names).place is None


def test_what_was_read_how_is_counted(serve, quiz, tmp_path):
    said = {"ant": r"\boxed{a}", "oak": "(a) or (b)", "cod": "(a) fish, which swims", "elm": "(b)"}

    def reply(body):
        return completion(next(text for name, text in said.items() if name in asked_of(body)))

    noted = {
        replies: ask(serve(each=reply), quiz / "memorizing", tmp_path / replies, replies=replies)
        for replies in ("named", "strict")
    }
    counts = noted["named"].folder.manifest["circumstances"]
    wanted = {"replies": 4, "read_plain": 1, "read_boxed": 1, "read_explained": 1, "unparsed": 1, "ambiguous": 1}
    assert {key: counts[key] for key in wanted} == wanted
    rows = rows_of(noted["named"])
    assert rows["subClassOf/1"]["unscored"] == AMBIGUOUS
    assert (rows["subClassOf/2"]["correct"], rows["subClassOf/2"]["letters"]) == (1, ["a"])
    counts = noted["strict"].folder.manifest["circumstances"]
    assert (counts["read_plain"], counts["unparsed"]) == (1, 3)
    assert noted["strict"].folder.manifest["identity"]["options"]["replies"] == "strict"
    assert "replies" not in noted["named"].folder.manifest["identity"]["options"]
    recipes = {replies: one.summary().headlines[0].accuracy.recipe for replies, one in noted.items()}
    assert "|replies:plain,boxed,stated,explained" in recipes["named"]
    assert "|replies:plain|" in recipes["strict"] + "|"


# --- orders


def test_each_option_stands_at_each_letter_alike(quiz):
    data = read(quiz)
    for query in data.queries:
        size = len(data.candidates[query.candidates])
        orders = Orders(data, size, 1).of(query)
        assert all(sorted(column) == list(range(size)) for column in zip(*orders, strict=True))
        assert Orders(data, size, 1).of(query) == orders
        assert Orders(data, 1, 1).of(query) == [tuple(range(size))]
        more = Orders(data, 2 * size, 1).of(query)
        assert more[:size] == orders
        assert Counter(place for place, *_ in more) == dict.fromkeys(range(size), 2)
    drawn = {Orders(data, 2, seed).of(data.queries[0])[0] for seed in range(40)}
    assert len(drawn) == 6, "three options have six orders"


def test_a_server_is_asked_in_each_order(serve, quiz, tmp_path):
    """Always "(b)": of two orders of four names, each has the right one there at most once."""
    server = serve(each=lambda body: completion("(b)"))
    result = ask(server, quiz / "memorizing", tmp_path / "run", orders=2)
    assert len(server.bodies) == 8
    assert len({asked_of(body) for body in server.bodies}) == 8
    assert result.folder.manifest["identity"]["options"]["orders"] == 2
    for row in rows_of(result).values():
        assert row["letters"] == ["b", "b"]
        assert row["correct"] == row["gold_letters"].count("b") / 2
        assert len(row["answers"]) == len(row["answer_ids"]) == 2
    asked = len(server.bodies)
    ask(server, quiz / "memorizing", tmp_path / "run", orders=2)
    assert len(server.bodies) == asked
    with pytest.raises(BadInput, match="orders"):
        ask(server, quiz / "memorizing", tmp_path / "run", orders=3)


def test_an_order_without_an_option_is_left_out_of_the_mean(serve, quiz, tmp_path):
    replies = iter(["(a)", "hm", "hm", "hm"])
    server = serve(each=lambda body: completion(next(replies)))
    file = write(
        tmp_path / "one" / "subClassOf.jsonl", {"prompt": "What is the superclass of a? (a) x, (b) y", "gold": "x"}
    )
    [row] = rows_of(ask(server, file, tmp_path / "run", orders=2, concurrency=1)).values()
    assert row["correct"] == float(row["gold_letters"][0] == "a")
    assert (row["letters"], row["answers"]) == (["a", None], ["(a)", "hm"])
    [row] = rows_of(ask(server, file, tmp_path / "other", orders=2, concurrency=1, seed=1)).values()
    assert (row["correct"], row["unscored"]) == (None, UNPARSED)


def test_likelihoods_are_means_over_orders(shared_data, quiz, tmp_path):
    tokenizer = load_gpt2(shared_data)
    network = build("GPT2LMHeadModel", n_layer=2, n_head=2, n_embd=32, vocab_size=len(tokenizer), n_positions=128)
    model, data = make_local(network, tokenizer), read(quiz)
    run = fathom.probe("choice", model, quiz, tmp_path / "run", score="letter,text-sum", bos="none", orders=3)
    rows = {(row["query_id"], row["scoring"]): row for row in run.folder.predictions().to_pylist()}
    for query in (data.queries[2], data.queries[5]):
        names = data.candidates[query.candidates].names
        naive = {"letter": np.zeros(len(names)), "text-sum": np.zeros(len(names))}
        best = []
        for order in Orders(data, 3, 0).of(query):
            prompt = f"{shown(data.questions[query.id], [names[place] for place in order])}\nAnswer:"
            before = len(tokenizer(prompt)["input_ids"])
            own = {}
            for letter, place in zip("abcd", order, strict=False):
                for scoring, text in (("letter", f"({letter})"), ("text-sum", names[place])):
                    ids = tokenizer(f"{prompt} {text}")["input_ids"]
                    score = float(token_log_probs(model, ids)[before:].detach().double().sum())
                    naive[scoring][place] += score / 3
                    if scoring == "letter":
                        own[letter] = score
            best.append(max(own, key=own.get))
        for scoring, scores in naive.items():
            np.testing.assert_allclose(rows[query.id, scoring]["scores"], scores, atol=1e-4)
        assert rows[query.id, "letter"]["letters"] == best


def test_a_masked_model_is_shown_no_options(quiz, tmp_path):
    with pytest.raises(BadInput, match="--orders 2"):
        fathom.probe("choice", ScriptedModel(["x"], {}, masked=True), quiz, tmp_path / "run", orders=2)


def test_on_the_command_line(fathom, tmp_path):
    for option, value in (("--orders", "0"), ("--orders", "x"), ("--orders", "101"), ("--replies", "loosely")):
        typed = [
            "probe",
            "choice",
            "--model",
            "m",
            "--data",
            "geography",
            "--out",
            str(tmp_path / "run"),
            option,
            value,
        ]
        code, out, error = fathom(*typed)
        assert (code, out) == (2, "")
        assert option in error
        assert not (tmp_path / "run").exists()


def test_a_run_without_these_options_has_them_not_in_its_identity(serve, quiz, tmp_path):
    made = ask(serve(each=knows), quiz, tmp_path / "run", orders=1, replies="named").folder.manifest["identity"][
        "options"
    ]
    assert not {"orders", "replies"} & made.keys()


# --- built questions


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def town(tmp_path):
    """Classes four deep; "ferryboat" is "ferry" by another label."""
    above = {
        "ferry": ["boat", "vessel", "thing"], "boat": ["vessel", "thing"], "vessel": ["thing"], "pony": ["horse"],
        "horse": ["animal"], "animal": ["thing"],
    }  # fmt: skip
    entries = [{"rdfs:label": name, "rdfs:subClassOf": kinds} for name, kinds in above.items()]
    entries += [{"rdfs:label": name, "rdfs:Class": "x:ferry"} for name in ("Ferry", "ferryboat")]
    folder = tmp_path / "town"
    write(folder / "memorizing" / "subClassOf.jsonl", *({"uuu": name, "xxx": kinds} for name, kinds in above.items()))
    (folder / "ontology").mkdir()
    (folder / "ontology" / "class.json").write_text(json.dumps(entries))
    (folder / "ontology" / "property.json").write_text("[]")
    return folder


def test_what_is_right_too(town):
    hierarchy = read_hierarchy(town, read(town))
    assert hierarchy.of("classes", ["horse"]) == {"horse", "animal", "thing"}
    assert hierarchy.of("classes", ["ferryboat"]) == {"ferryboat", "ferry", "boat", "vessel", "thing"}
    assert hierarchy.of("properties", ["x"]) == {"x"}


@pytest.mark.slow
def test_no_option_is_right_too(shared_data, tmp_path):
    """Of the published ontology: no wrong option stands above the right one, or is another right answer or the
    subject."""
    build_choices(ChoicesBuildOptions(data=str(shared_data / "ontoprobe"), out=tmp_path / "built", seed=2))
    whole = read(shared_data / "ontoprobe")
    hierarchy, made = read_hierarchy(shared_data / "ontoprobe", whole), read(tmp_path / "built")
    answers = {(query.relation, query.subject): query for query in whole.queries}
    seen = 0
    for query in made.queries:
        names = {name.casefold() for name in made.candidates[query.candidates].names}
        right = hierarchy.of("classes", query.gold) | hierarchy.of("properties", query.gold)
        wrong = names - {query.gold[0].casefold()}
        if query.relation not in ("subPropertyOf", "rdfs5", "rdfs7"):
            right = hierarchy.of("classes", query.gold)
        assert not wrong & right, query.id
        told = answers.get((query.relation, query.subject))
        if told is not None:
            seen += 1
            assert not wrong & {*(answer.casefold() for answer in told.gold), query.subject.casefold()}
    assert seen > 1000


def test_every_question_draws_its_own_options(tmp_path):
    folder = ontology(tmp_path / "ontology")
    built = build_choices(ChoicesBuildOptions(data=str(folder), out=tmp_path / "built", options=4, seed=1))
    counts = built.counts
    assert stated(built.notes, "rdfs2 (0), rdfs3 (0), rdfs5 (0), rdfs7 (0)")
    assert counts["arguments/rdfs9-altered"] == 2 * (51 + 20 + 2) * 64, "whole and altered texts of each conclusion"
    assert counts["memorizing/subClassOf"] == 64
    made = read(tmp_path / "built")
    shown_by = {query.id: made.candidates[query.candidates].names for query in made.queries}
    items = [query for query in made.queries if "item" in query.groups]
    assert len(items) == 2 * (2 * (51 + 20 + 2) + 2) * 64
    assert sum(shown_by[query.id] == shown_by[query.groups["premise"]] for query in items) < 200
    by_id = {query.id: query for query in made.queries}
    true = [query for query in items if query.groups.get("given") not in (OF_TEXT, REVERSED)]
    assert all(by_id[query.groups["premise"]].gold == query.gold for query in true)
    # The right option stands at each letter about as often.
    places = Counter(shown_by[query.id].index(query.gold[0]) for query in items)
    assert all(4500 < places[place] < 4970 for place in range(4))
    again = build_choices(ChoicesBuildOptions(data=str(folder), out=tmp_path / "again", options=4, seed=1))
    assert again == built
    assert read(tmp_path / "again").questions == made.questions


def test_a_counterfactual_question_shows_both_answers(tmp_path):
    build_choices(ChoicesBuildOptions(data=str(ontology(tmp_path / "ontology")), out=tmp_path / "built", options=4))
    rows = lines_of(tmp_path / "built" / "arguments" / "rdfs9-altered.jsonl")
    asked = {(row["premise"], row["given"]): row for row in rows if row["conclusion"] == COUNTERFACTUAL}
    assert len(asked) == 2 * 64
    for (premise, given), row in asked.items():
        other = asked[premise, OF_MEMORY if given == OF_TEXT else OF_TEXT]
        assert row["gold"][4:] != other["gold"][4:]
        assert f") {other['gold'][4:]}" in row["prompt"]
        stated = asked[premise, OF_TEXT]["gold"][4:]
        assert f" is a {stated} . " in row["prompt"].partition(" (a) ")[0]


def test_distractors_share_as_many_words_as_the_answer():
    space = CandidateSet("classes", *[("racing boat", "sailing boat", "fast boat", "car", "bridge", "lake")] * 2)
    about = Query("q", "r", "motor boat", "motor boat", ("racing boat",), "classes")
    data = QuerySet("d", (about,), {"classes": space}, {"r": Relation("r", "r", (Template("[X] is a [Y] ."),), "1:N")})
    drawn = [set(choices(data, 3, seed, sharing_words=True).candidates["q"].ids) for seed in range(5)]
    assert all(own == {"racing boat", "sailing boat", "fast boat"} for own in drawn)
    assert len({frozenset(choices(data, 3, seed).candidates["q"].ids) for seed in range(9)}) > 1


def test_an_item_of_which_all_is_right_is_left_out(tmp_path):
    folder = tmp_path / "small"
    above = [{"uuu": f"c{number}", "xxx": ["top"]} for number in range(21)]
    write(
        folder / "memorizing" / "subClassOf.jsonl",
        *above[:20],
        {"uuu": "c20", "xxx": [f"c{n}" for n in range(20)] + ["top"]},
    )
    (folder / "ontology").mkdir()
    entries = [{"rdfs:label": row["uuu"], "rdfs:subClassOf": row["xxx"]} for row in above]
    (folder / "ontology" / "class.json").write_text(json.dumps(entries))
    (folder / "ontology" / "property.json").write_text("[]")
    built = build_choices(ChoicesBuildOptions(data=str(folder), out=tmp_path / "built", subset="all"))
    left_out = [count for name, count in built.counts.items() if mentioned(name, "left out", "no wrong option")]
    assert left_out == [1]
    assert built.counts["memorizing/subClassOf"] == 20
    questions = (tmp_path / "built" / "arguments" / "rdfs9-altered.jsonl").read_text()
    assert '"premise": "subClassOf/19"' in questions
    assert '"premise": "subClassOf/20"' not in questions
    assert len(read(tmp_path / "built").queries) == sum(built.counts.values()) - 1


@pytest.mark.parametrize("limit", [7, 20, 60])
def test_a_sample_holds_items_together(tmp_path, limit):
    build_choices(ChoicesBuildOptions(data=str(ontology(tmp_path / "ontology")), out=tmp_path / "built", options=4))
    for seed in range(5):
        chosen = select(read(tmp_path / "built"), Selection(limit=limit, seed=seed)).data
        assert len(chosen.queries) == limit
        forms = Counter(query.groups["item"] for query in chosen.queries if "item" in query.groups)
        assert set(forms.values()) <= {106}
        ids = {query.id for query in chosen.queries}
        assert {query.groups["premise"] for query in chosen.queries if "item" in query.groups} <= ids


def test_faults_of_premises_and_texts(tmp_path):
    folder = tmp_path / "quiz"
    memory = {"prompt": "What is the superclass of ant? (a) insect, (b) boat", "gold": "insect"}
    write(folder / "memorizing" / "subClassOf.jsonl", memory)
    text = {"conclusion": COMBINES, "given": WHOLE}
    about = {"prompt": "What is the type of X? (a) boat, (b) insect, (c) tree", "gold": "(b) insect"} | text
    file = write(
        folder / "arguments" / "rdfs9-altered.jsonl",
        about | {"premise": "subClassOf/0"},
        about | {"premise": "type/0"},
        about | {"premise": 3},
        about | {"premise": "subClassOf/0", "conclusion": "thinks"},
        about | {"premise": "subClassOf/0", "given": None},
        about,
    )
    with pytest.raises(BadInput) as error:
        read(folder)
    assert [fault.partition(".jsonl:")[2].partition(":")[0] for fault in error.value.faults] == list("23456")
    assert all("\n" not in fault for fault in error.value.faults)
    write(file, about | {"premise": "subClassOf/7"})
    with pytest.raises(BadInput, match=mentions("'subClassOf/7'")):
        read(folder)
    write(file, about | {"premise": "subClassOf/0"})
    [query] = [query for query in read(folder).queries if "rule" in query.groups]
    assert is_choices(folder)
    assert (
        query.groups
        == {"options": "3", "rule": "rdfs9", "premise": "subClassOf/0", "item": "rdfs9 subClassOf/0", "order": "0"}
        | text
    )
    write(folder / "memorizing" / "type.jsonl", memory | {"premise": "subClassOf/0"})
    with pytest.raises(BadInput, match=mentions("'premise'")):
        read(folder)


def test_more_right_answers_may_be_told():
    from tests.probes.test_choice import ontology as tiny
    from tests.probes.test_choice import query

    data = tiny(query())
    assert set(choices(data, 20, 0, lambda asked: {"agent"}).candidates["type/0"].ids) == {
        "player",
        "work",
        "bank",
        "tower",
    }

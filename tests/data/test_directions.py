"""Heads of a graph's triples asked by few-shot prompts: their words, right answers, filters and ranks by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.graph.queries import link_queryset
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.probes import PROBES
from fathom.probes.base import few_shot_lines
from fathom.probes.embedding import tail_prompt, tail_template
from fathom.probes.options import EmbeddingOptions, FewShotOptions
from fathom.probes.run import RunRequest, run
from fathom.results.summary import summarise
from tests.cli.test_cli import gpt2 as small_gpt2
from tests.cli.test_cli import save
from tests.conftest import write_graph_folder
from tests.messages import mentions, stated
from tests.probes.test_embedding import gpt2, plain_vector
from tests.scripted import ScriptedModel

TRIPLES = {
    "train": ["lyon\tin\tfrance", "nice\tin\tfrance", "rome\tin\titaly", "oslo\tin\tnorway"],
    "dev": ["metz\tin\tfrance"],
    "test": ["paris\tin\tfrance", "pisa\tin\titaly"],
}
PLACES = ["lyon", "nice", "france", "rome", "paris", "pisa", "italy", "metz", "oslo", "norway"]
BOTH = ("tail", "head")


def folder_of(folder: Path, **triples: list[str]) -> Path:
    entities = [f"{place}\t{place.title()}" for place in PLACES]
    return write_graph_folder(folder, TRIPLES | triples, entities, "in\tlies in\n")


@pytest.fixture
def graph(tmp_path) -> QuerySet:
    return read(folder_of(tmp_path / "places"))


def asked(data: QuerySet, *directions: str, **more: object) -> QuerySet:
    return select(data, Selection(directions=directions, **more)).data


# --- queries


def test_heads_beside_tails(graph):
    tail, head, _, last = asked(graph, *BOTH).queries
    assert (tail.id, tail.direction, tail.subject, tail.gold) == ("test/0", "tail", "Paris", ("france",))
    assert (head.id, head.direction, head.subject, head.gold) == ("test/0/head", "head", "France", ("paris",))
    assert set(head.known) == {"lyon", "nice", "metz"}  # of train and dev
    assert (last.id, last.gold, last.known) == ("test/1/head", ("pisa",), ("rome",))
    assert tail.fact_id == head.fact_id == "paris|in|france"


def test_heads_alone_and_the_usual(graph):
    assert [query.id for query in asked(graph, "head").queries] == ["test/0/head", "test/1/head"]
    assert [query.id for query in asked(graph, "tail").queries] == ["test/0", "test/1"]
    both = asked(graph, *BOTH)
    assert asked(both, *BOTH).queries == both.queries
    with pytest.raises(BadInput, match="tails alone"):
        asked(asked(graph, "tail"), *BOTH)


def test_another_split_is_asked_in_the_same_directions(graph):
    assert [query.id for query in asked(graph, "head", split="dev").queries] == ["dev/0/head"]


def test_cardinality_is_the_relation_s_in_both_directions(graph):
    """France and Italy are the tail of one test triple each; France of two in train, however heads are asked."""
    groups = {split: [q.groups for q in asked(graph, *BOTH, split=split).queries] for split in ("test", "train")}
    assert groups == {"test": [{"cardinality": "1:1"}] * 4, "train": [{"cardinality": "1:N"}] * 8}


def test_a_limit_draws_the_same_triples_whatever_is_asked_of_them(graph):
    for seed in range(5):
        both = asked(graph, *BOTH, limit=1, seed=seed).queries
        [tail] = asked(graph, "tail", limit=1, seed=seed).queries
        assert [query.id for query in both] == [tail.id, f"{tail.id}/head"]


def test_filters_by_right_answers_take_those_that_are_asked_for(graph):
    """Paris is a right answer where heads are asked for, France where tails are."""
    assert [query.id for query in asked(graph, "head", exclude_tails=("Paris",)).queries] == ["test/1/head"]
    both = asked(graph, *BOTH, exclude_tails=("Paris",)).queries
    assert [query.id for query in both] == ["test/1", "test/1/head"]
    with pytest.raises(BadInput, match=mentions("places", "France")):
        asked(graph, "head", exclude_tails=("France",))


def test_lengths_are_those_of_the_answers_asked_for(graph):
    """In letters for tokens: Paris 5, France 6; Pisa 4, Italy 5."""

    def kept(directions: tuple[str, ...], lengths: str) -> list[str]:
        chosen = Selection(directions=directions, tail_tokens=lengths)
        return [query.id for query in select(graph, chosen, lambda names: list(map(len, names))).data.queries]

    assert kept(("tail",), "5") == ["test/1"]
    assert kept(("head",), "5") == ["test/0/head"]
    assert kept(BOTH, "4-5") == ["test/1", "test/1/head"]  # a triple is asked in both directions or not at all


def test_heads_of_what_is_no_graph():
    with pytest.raises(BadInput, match=mentions("--directions tail,head")):
        asked(read("geography"), *BOTH)
    assert len(asked(read("geography"), "tail").queries) == len(read("geography").queries)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wn18rr", "fb15k237"])
def test_heads_of_published_graphs_are_those_that_link_predictors_are_asked(name, shared_data):
    data = read(shared_data / name)
    here, there = asked(data, "head").queries, link_queryset(data, ("head",)).queries
    named = set(data.candidates["entities"].ids)
    assert len(here) == len(there)
    for ours, theirs in zip(here, there, strict=True):
        assert ours.groups.items() <= theirs.groups.items()  # besides, theirs say what training shows
        assert (ours.id, ours.fact_id, ours.gold) == (
            theirs.id,
            theirs.fact_id,
            theirs.gold,
        )
        assert set(ours.known) == set(theirs.known) & named


# --- prompts


def prompt_of(data: QuerySet, number: int, **options: object) -> list[str]:
    """Lines of the prompt of a query."""
    return few_shot_lines(FewShotOptions(**options), data).prompt(data.queries[number]).split("\n")


def test_a_head_question_is_the_inverse_relation_s(graph):
    """Lines on other heads of France are left out: only two of four can be shown."""
    *lines, question = prompt_of(asked(graph, "head"), 0, shots=2)
    assert set(lines) == {"(Italy, inverse lies in, Rome)", "(Norway, inverse lies in, Oslo)"}
    assert question == "(France, inverse lies in,"
    with pytest.raises(BadInput, match=mentions("3 few-shot", "2 found")):
        prompt_of(asked(graph, "head"), 0, shots=3)


def test_tail_questions_are_worded_as_ever(graph):
    *lines, question = prompt_of(asked(graph, *BOTH), 0, shots=4)
    assert set(lines) == {
        "(Lyon, lies in, France)", "(Nice, lies in, France)", "(Rome, lies in, Italy)", "(Oslo, lies in, Norway)",
    }  # fmt: skip
    assert question == "(Paris, lies in,"
    assert prompt_of(graph, 0, shots=4) == [*lines, question]


def test_both_directions_are_shown_the_same_triples(graph):
    tail, head = (prompt_of(asked(graph, *BOTH), number, shots=1, seed=3) for number in (2, 3))
    given, _, answer = head[0].strip("()").split(", ")
    assert tail[0] == f"({answer}, lies in, {given})"


def test_the_description_is_of_the_entity_that_is_given(tmp_path):
    folder = folder_of(tmp_path / "places")
    names = [f"{place}\t{place.title()}\t{'a country' if place == 'france' else ''}" for place in PLACES]
    (folder / "entity2text.txt").write_text("\n".join(names) + "\n")
    lines = prompt_of(asked(read(folder), "head"), 0, shots=0, describe_head=True)
    assert lines == ["France - a country", "(France, inverse lies in,"]


# --- probes

# What comes after a comma, whatever stood before it: each other word has weight 1.
WEIGHTS = {"Lyon": 9.0, "Nice": 8.0, "France": 7.0, "Paris": 6.0, "Rome": 5.0, "Pisa": 4.0, "Italy": 3.0, "Metz": 2.0}
RANKS = {
    "test/0": 3,  # France, behind Lyon and Nice
    "test/0/head": 2,  # Paris, behind France: Lyon and Nice are right, too
    "test/1": 7,  # Italy
    "test/1/head": 5,  # Pisa, behind Lyon, Nice, France and Paris: Rome is right, too
}


def scripted(*, masked: bool = False) -> ScriptedModel:
    words = [*(place.title() for place in PLACES), "(", ")", ",", "lies", "in", "inverse"]
    return ScriptedModel(words, {",": WEIGHTS}, masked=masked)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("probe", ["statement", "vocabulary"])
def test_ranks_worked_out_by_hand(probe, masked, graph, tmp_path):
    options = PROBES[probe].options(directions=BOTH, shots=2, tokens_after_space=True)
    folder = run(RunRequest(probe, scripted(masked=masked), graph, options), tmp_path / "r")
    rows = {row["query_id"]: row for row in folder.predictions().to_pylist()}
    assert {id_: row["rank"] for id_, row in rows.items()} == RANKS
    assert rows["test/0/head"]["prompt"].splitlines()[-1].startswith("(France, inverse lies in,")
    heads, tails = summarise(folder, ["direction"]).breakdowns[0].parts
    assert (heads.keys, tails.keys) == (("head",), ("tail",))
    assert heads.numbers["mrr"].value == pytest.approx((1 / 2 + 1 / 5) / 2)
    assert tails.numbers["mrr"].value == pytest.approx((1 / 3 + 1 / 7) / 2)
    assert "directions:tail,head" in heads.numbers["mrr"].recipe
    queries = folder.queries().to_pylist()
    assert [query["direction"] for query in queries] == ["tail", "head"] * 2
    assert queries[0]["fact_id"] == queries[1]["fact_id"]


def test_what_is_written_is_compared_with_heads(graph, tmp_path):
    """To everything Lyon is said: right of France's heads, of nothing else."""
    options = PROBES["generation"].options(directions=BOTH, shots=2, max_new_tokens=1)
    rows = run(RunRequest("generation", scripted(), graph, options), tmp_path / "r").predictions().to_pylist()
    assert {row["query_id"]: row["correct"] for row in rows} == {
        "test/0": 0, "test/0/head": 1, "test/1": 0, "test/1/head": 0,
    }  # fmt: skip


def test_vectors_of_head_questions_are_the_model_s_own(graph, tmp_path):
    """Ranks equal those of cosines computed here, known heads passed over."""
    model, options = gpt2(), EmbeddingOptions(directions=("head",), shots=2)
    rows = run(RunRequest("embedding", model, graph, options), tmp_path / "r").predictions().to_pylist()
    source = asked(graph, "head")
    space, lines = source.candidates["entities"], few_shot_lines(options, source)

    def vector(text: str) -> np.ndarray:
        found = plain_vector(model.network, model.tokenizer("<s>" + text)["input_ids"])
        return found / np.linalg.norm(found)

    candidates = np.stack([vector(tail_prompt(tail_template("deer"), name, None)) for name in space.names])
    for query, row in zip(source.queries, rows, strict=True):
        cosines = candidates @ vector(lines.prompt(query))
        np.testing.assert_allclose(row["scores"], cosines, atol=1e-5)
        cosines[space.places(query.known)] = -2
        assert row["rank"] == 1 + (cosines > cosines[space.position[query.gold[0]]]).sum()


# --- identity, refusals, command line


def test_a_run_from_before_the_option_goes_on_as_tails(graph, tmp_path):
    def ask(**more: object):
        return run(RunRequest("embedding", gpt2(), graph, EmbeddingOptions(shots=2, **more)), tmp_path / "r")

    assert "directions" not in ask().manifest["identity"]["options"]
    assert ask(directions="tail").is_complete()
    with pytest.raises(BadInput, match=mentions("'head'")):
        ask(directions="head")


def test_templates_ask_for_tails(tmp_path):
    folder = folder_of(tmp_path / "places")
    (folder / "templates.jsonl").write_text('{"relation": "in", "template": "[X] lies in [Y] ."}\n')
    data, both = read(folder), {"directions": BOTH, "shots": 2}
    for probe, model in (("statement", scripted()), ("vocabulary", ScriptedModel(["x"], {}, masked=True))):
        with pytest.raises(BadInput, match=mentions("--directions head")):
            run(RunRequest(probe, model, data, PROBES[probe].options(**both)), tmp_path / probe)
    # What never asks by template goes on.
    assert run(
        RunRequest("vocabulary", scripted(), data, PROBES["vocabulary"].options(**both)), tmp_path / "r"
    ).is_complete()


def test_questions_ask_for_tails(graph, tmp_path):
    (tmp_path / "q.csv").write_text("in, Where is [X]?\n")
    options = PROBES["generation"].options(directions="head", questions=tmp_path / "q.csv", shots=1)
    with pytest.raises(BadInput, match=mentions("--directions head", "--questions")):
        run(RunRequest("generation", scripted(), graph, options), tmp_path / "r")


def test_the_command_line(tmp_path, fathom):
    model = save(tmp_path / "model", small_gpt2(n_positions=512), "inverse lies in", *map(str.title, PLACES))
    asking = ("probe", "embedding", "--model", model, "--device", "cpu", "--shots", 2)
    both = (*asking, "--directions", "tail,head")
    code, _, err = fathom(*both, "--data", folder_of(tmp_path / "places"), "--out", tmp_path / "r")
    assert code == 0, err
    code, out, _ = fathom("metrics", tmp_path / "r", "--by", "direction")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if line.startswith("cosine")][-2:] == ["head", "tail"]
    code, _, err = fathom(*both, "--data", "geography", "--out", tmp_path / "s")
    assert (code, err.count("\n")) == (2, 1)
    assert stated(err, "geography", "knowledge graph")
    code, _, err = fathom(*asking, "--directions", "up", "--data", "geography", "--out", tmp_path / "s")
    assert (code, err.count("\n")) == (2, 1)
    assert "--directions" in err

"""The statement probe on a knowledge graph: what the exact search leaves behind equals scoring every statement."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.engine.models.local import LocalModel
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from tests.conftest import build, make_local
from tests.messages import mentions

ENTITIES = 1_005  # more than are scored in full


@pytest.fixture(scope="module")
def graph_data(shared_data: Path) -> QuerySet:
    """A part of WN18RR: names that several synsets share, several golds, known answers left out."""
    folder = shared_data / "wn18rr"
    texts = (line.split("\t") for line in (folder / "entity2text.txt").read_text(encoding="utf-8").splitlines())
    names = {id_: text.split(", ")[0] for id_, text in texts}
    triples = [tuple(line.split()) for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()]
    triples = random.Random(0).sample(triples, 600)
    ids = list(dict.fromkeys(entity for head, _, tail in triples for entity in (head, tail)))[:ENTITIES]
    inside = [triple for triple in triples if set(triple[::2]) <= set(ids)]
    graph = KnowledgeGraph.from_triples(inside, names | {"_hypernym": "hypernym"})
    relations = {relation: Relation(relation, relation[1:].replace("_", " "), (), "1:N") for _, relation, _ in inside}
    queries = [
        Query(f"{number}", relation, names[head], head, (tail,), "entities")
        for number, (head, relation, tail) in enumerate(inside[:12])
    ]
    first = queries[0]
    more = (first.gold[0], ids[3], ids[500])
    queries.append(Query("several", first.relation, first.subject, first.subject_id, more, "entities", known=(ids[7],)))
    queries.append(Query("nameless", first.relation, "", "?", more, "entities", unscored="the subject has no name"))
    space = CandidateSet("entities", tuple(ids), tuple(names[id_] for id_ in ids))
    assert len(set(space.names)) < len(space)
    return QuerySet("part of WN18RR", tuple(queries), {"entities": space}, relations, graph=graph)


SHAPES = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256}),
    "opt": (
        "OPTForCausalLM",
        {
            "hidden_size": 32,
            "word_embed_proj_dim": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 256,
        },
    ),
    "llama": (
        "LlamaForCausalLM",
        {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 256,
        },
    ),
}


@pytest.fixture(scope="module", params=list(SHAPES))
def model(request: pytest.FixtureRequest, gpt2: PreTrainedTokenizerBase) -> LocalModel:
    kind, options = SHAPES[request.param]
    return make_local(build(kind, **options, vocab_size=len(gpt2)), gpt2)


def answers(model: LocalModel, data: QuerySet, out: Path, **options: object) -> dict[tuple[str, str], dict]:
    folder = run(RunRequest("statement", model, data, StatementOptions(**options)), out)
    return {(row["query_id"], row["scoring"]): row for row in folder.predictions().to_pylist()}


@pytest.mark.slow
def test_search_equals_scoring_all(
    model: LocalModel, graph_data: QuerySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"shots": 3, "reduction": "sum,mean", "score": "full,answer", "closing": True}
    found = answers(model, graph_data, tmp_path / "search", **options)
    monkeypatch.setattr(model, "refuses_cache", lambda *_: "the test wants the long way")
    few = {"several", "nameless", "0", "1", "2"}
    part = select(graph_data, Selection(ids=few)).data
    expected = answers(model, part, tmp_path / "full", **options)
    assert len(found) == 4 * len(graph_data.queries)
    assert len(expected) == 4 * len(few)
    for key, row in expected.items():
        assert found[key]["unscored"] == row["unscored"]
        if row["unscored"]:
            continue
        np.testing.assert_allclose(found[key]["gold_scores"], row["gold_scores"], atol=2e-4)
        assert found[key]["rank_optimistic"] == row["rank_optimistic"], key
        assert found[key]["rank_pessimistic"] == row["rank_pessimistic"], key
        np.testing.assert_allclose(found[key]["top_scores"], row["top_scores"], atol=2e-4)
        assert found[key]["gold_tokens"] == row["gold_tokens"]
        assert found[key]["scored_tokens"] == row["scored_tokens"]
        assert found[key]["prompt"] == row["prompt"]
        assert found[key]["tokens_run"] < found[key]["tokens_naive"] / 10


def test_small_spaces_keep_all_scores(graph_data: QuerySet, gpt2: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    """Few-shot lines go through the cache of the search even where every answer is to be scored."""
    kind, shape = SHAPES["gpt2"]
    model = make_local(build(kind, **shape, vocab_size=len(gpt2)), gpt2)
    space = graph_data.candidates["entities"].keep(range(60))
    part = replace(select(graph_data, Selection(ids={"0", "1"})).data, candidates={"entities": space})
    golds = [replace(query, gold=(space.ids[place],), known=()) for place, query in enumerate(part.queries)]
    part = replace(part, queries=tuple(golds))
    found = answers(model, part, tmp_path / "search")
    model.refuses_cache = lambda *_: "the test wants the long way"  # type: ignore[method-assign]
    expected = answers(model, part, tmp_path / "full")
    for key, row in expected.items():
        np.testing.assert_allclose(found[key]["scores"], row["scores"], atol=2e-4)
        np.testing.assert_allclose(found[key]["gold_ranks"], row["gold_ranks"])
        assert found[key]["rank"] == row["rank"]


def test_max_rank_says_more_than(graph_data: QuerySet, gpt2: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    kind, shape = SHAPES["gpt2"]
    model = make_local(build(kind, **shape, vocab_size=len(gpt2)), gpt2)
    whole = answers(model, graph_data, tmp_path / "whole")
    short = answers(model, graph_data, tmp_path / "short", max_rank=100)
    beyond = [key for key, row in whole.items() if row["rank_optimistic"] and row["rank_optimistic"] > 100]
    assert 0 < len(beyond) < len(whole) - 1
    for key, row in short.items():
        assert (row["rank_above"] == 100) == (key in beyond)
        assert row["rank"] == (None if key in beyond else whole[key]["rank"])
        assert row["top_ids"] == whole[key]["top_ids"]
    assert sum(row["tokens_run"] or 0 for row in short.values()) < sum(row["tokens_run"] or 0 for row in whole.values())


def test_templates_cannot_be_chosen_where_there_are_none(
    graph_data: QuerySet, gpt2: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    kind, shape = SHAPES["gpt2"]
    model = make_local(build(kind, **shape, vocab_size=len(gpt2)), gpt2)
    with pytest.raises(BadInput, match="no templates"):
        run(RunRequest("statement", model, graph_data, StatementOptions(templates=(0,))), tmp_path / "run")


def test_a_prompt_beyond_the_window(graph_data: QuerySet, gpt2: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    kind, shape = SHAPES["gpt2"]
    model = make_local(build(kind, **(shape | {"n_positions": 24}), vocab_size=len(gpt2)), gpt2)
    rows = answers(model, graph_data, tmp_path / "run", shots=8)
    assert all(row["unscored"] for row in rows.values())
    assert "window of 24" in rows["0", "sum/full"]["unscored"]


def test_too_few_triples_to_draw_from(graph_data: QuerySet, gpt2: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    kind, shape = SHAPES["gpt2"]
    model = make_local(build(kind, **shape, vocab_size=len(gpt2)), gpt2)
    with pytest.raises(BadInput, match=mentions("5000", "--shots")):
        run(RunRequest("statement", model, graph_data, StatementOptions(shots=5000)), tmp_path / "run")

"""The embedding probe: its prompts are the paper's, its vectors the model's own, its ranks those of a full sort."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

import fathom.engine.scoring.vectors
import fathom.store.vectors
from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.engine.models.base import Attention
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import rank_best, top, unfiltered_ranks
from fathom.engine.scoring.vectors import Pooling, VectorSpace, rank_by_cosine, vectors
from fathom.probes import PROBES
from fathom.probes.base import few_shot_lines
from fathom.probes.embedding import tail_prompt, tail_template
from fathom.probes.options import EmbeddingOptions, FewShotOptions
from fathom.probes.run import RunRequest, run
from fathom.results.summary import summarise
from fathom.store.folder import RunFolder
from tests.conftest import TINY_VOCABULARY, build, make_local
from tests.engine.test_causal import LLAMA, TREES
from tests.engine.test_masked import BERT
from tests.messages import correspond, mentioned, mentions

CPU = torch.device("cpu")


def byte_tokenizer() -> PreTrainedTokenizerBase:
    """One token per byte and no files: every text has tokens, long ones many."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<s>", "</s>", "<pad>", "<mask>"]
    backend = Tokenizer(models.BPE({letter: id_ for id_, letter in enumerate([*specials, *letters])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>"
    )


def gpt2(window: int = 512) -> LocalModel:
    network = build("GPT2LMHeadModel", vocab_size=260, n_embd=48, n_layer=2, n_head=4, n_positions=window)
    return make_local(network, byte_tokenizer())


NAMES = {
    "n1": "deer", "n2": "mammal", "n3": "bank", "n4": "bank", "n5": "slope", "n6": "institution",
    "n7": "white-tail deer", "n8": "animal", "r1": "hypernym", "r2": "has part",
}  # fmt: skip
DESCRIPTIONS = {"n1": "a ruminant", "n3": "sloping land", "n4": "accepts deposits", "n8": "a living being"}
TRAIN = [("n3", "r1", "n5"), ("n4", "r1", "n6"), ("n2", "r1", "n8"), ("n8", "r2", "n5"), ("n7", "r1", "n1")]
TEST = [("n1", "r1", "n2"), ("n1", "r1", "n8"), ("n7", "r1", "n2"), ("n5", "r2", "n3"), ("n3", "r1", "n5")]


def graph() -> KnowledgeGraph:
    made = KnowledgeGraph.from_triples([*TRAIN, *TEST], NAMES)
    ids = made.entities.column("id").to_pylist()
    texts = [DESCRIPTIONS.get(id_, "") for id_ in ids]
    entities = made.entities.set_column(3, "description", [texts])
    splits = {"train": range(len(TRAIN)), "test": range(len(TRAIN), len(TRAIN) + len(TEST))}
    return KnowledgeGraph(entities, made.relations, made.head, made.relation, made.tail, splits)


def data(*, described: bool = True) -> QuerySet:
    ids = tuple(sorted(id_ for id_ in NAMES if id_.startswith("n")))
    texts = tuple(DESCRIPTIONS.get(id_, "") for id_ in ids) if described else None
    space = CandidateSet("entities", ids, tuple(NAMES[id_] for id_ in ids), texts)
    relations = {id_: Relation(id_, NAMES[id_], (), "1:N") for id_ in ("r1", "r2")}
    queries = [
        Query(
            f"test/{number}", relation, NAMES[head], head, (tail,), "entities",
            known=tuple(other for h, r, other in [*TRAIN, *TEST] if (h, r) == (head, relation) and other != tail),
        )
        for number, (head, relation, tail) in enumerate(TEST)
    ]  # fmt: skip
    queries.append(Query("several", "r1", "bank", "n3", ("n5", "n6"), "entities", known=("n8",)))
    return QuerySet("tiny graph", tuple(queries), {"entities": space}, relations, graph=graph())


def plain_vector(network: torch.nn.Module, ids: list[int]) -> np.ndarray:
    """What the head of *network* is handed at the last token, the network called as any user would."""
    seen: list[torch.Tensor] = []
    hook = network.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        network(input_ids=torch.tensor([ids]))
    hook.remove()
    return seen[0][0, -1].float().numpy()


# --- prompts ---


def test_tail_prompt_is_figure_3():
    found = tail_prompt(tail_template("deer"), "deer", "distinguished from Bovidae")
    assert found == (
        "deer - distinguished from Bovidae\n"
        'This sentence: "{word}" means in one word: "{one word}"\n'
        'This sentence: "deer" means in one word: "'
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A", 'entity: "deer", description: "-"\nSummarize the entity: "deer" in one word: "'),
        ("B", '<"deer": "-">\nIn one word, "deer" means: "'),
        ("C", '["deer", "-"]\nSummarize the meaning of {deer} in one word {'),
        ("{name}:\\n{description}", "deer:\n-"),
    ],
)
def test_other_tail_prompts(name, expected):
    assert tail_prompt(tail_template(name), "deer", "") == expected


def test_without_any_descriptions_an_underscore_stands():
    assert tail_prompt("{name} - {description}", "a {description} b", None) == "a {description} b - _"


def test_an_unknown_tail_template_is_refused():
    with pytest.raises(BadInput, match=mentions("--tail-template D")):
        tail_template("D")


def few_shot(source: QuerySet, **options: object):
    return few_shot_lines(FewShotOptions(**options), source)


def test_query_prompt_is_figure_4():
    source = data()
    prompt = few_shot(source, shots=3).prompt(source.queries[0])
    lines = prompt.split("\n")
    train = {f"({NAMES[h]}, {NAMES[r]}, {NAMES[t]})" for h, r, t in TRAIN}
    assert len(lines) == 4
    assert len(set(lines[:3])) == 3
    assert set(lines[:3]) <= train
    assert lines[3] == "(deer, hypernym,"
    as_published = few_shot(source, shots=3, trailing_space=True, describe_head=True).prompt(source.queries[0])
    assert as_published == "\n".join([*lines[:3], "deer - a ruminant", "(deer, hypernym, "])


def test_few_shot_lines_are_shared_but_never_the_query_s_own():
    source = data()
    lines = few_shot(source, shots=4)
    prompts = {query.id: lines.prompt(query).split("\n")[:4] for query in source.queries}
    assert prompts["test/0"] == prompts["test/1"] == prompts["test/3"]
    assert "(white-tail deer, hypernym, deer)" not in prompts["test/2"]  # another right answer is given away no less
    assert "(bank, hypernym, slope)" not in prompts["test/4"]  # its own line; that of the other bank may stay
    assert few_shot(source, shots=4).prompt(source.queries[0]) == lines.prompt(source.queries[0])
    other = few_shot(source, shots=4, seed=1)
    assert [other.prompt(query) for query in source.queries] != [lines.prompt(query) for query in source.queries]
    own = few_shot(source, shots=2, per_query_shots=True)
    assert len({own.prompt(query).rpartition("\n")[0] for query in source.queries[:4]}) > 1


def test_too_few_triples_to_draw_from():
    with pytest.raises(BadInput, match=mentions("8 few-shot", "5 triples")):
        few_shot(data())
    question = few_shot(data(), shots=5).question(data().queries[4])
    assert mentioned(question.unscored, "5 few-shot", "4 found")
    with pytest.raises(BadInput, match=mentions("5 few-shot", "5 triples", "--shots 4")):
        few_shot(replace(data(), queries=data().queries[4:5]), shots=5)
    nowhere = QuerySet("loose", data().queries, data().candidates, data().relations)
    with pytest.raises(BadInput, match=mentions("loose", "graph")):
        few_shot(nowhere)


def test_all_mistakes_are_shown_at_once(tmp_path):
    with pytest.raises(BadInput) as error:
        run(
            RunRequest("embedding", gpt2(), data(), EmbeddingOptions(tail_template="D", pooling="cls", shots=9)),
            tmp_path / "r",
        )
    faults = [fault.split(":")[0] for fault in error.value.faults]
    assert correspond(faults, "--tail-template D", "--pooling cls", ("9 few-shot", "5 triples"))
    assert not (tmp_path / "r").exists()


# --- vectors ---

SHAPES = {
    name: TREES[name] for name in ("gpt2", "opt", "opt-projected", "llama", "mistral-window-4", "qwen2", "gpt-neox")
} | {"bloom": ("BloomForCausalLM", {"hidden_size": 48, "n_layer": 2, "n_head": 4})}


def sequences() -> list[tuple[int, ...]]:
    """Eight common tokens, then rests of 1 to 12; a few that begin otherwise; one twice; one that begins another."""
    draw = random.Random(0)
    begin = tuple(draw.randrange(4, TINY_VOCABULARY) for _ in range(8))
    made = [(*begin, *(draw.randrange(4, TINY_VOCABULARY) for _ in range(draw.randint(1, 12)))) for _ in range(30)]
    made += [tuple(draw.randrange(4, TINY_VOCABULARY) for _ in range(length)) for length in (1, 5, 9, 21)]
    return [*made, made[0], made[1][:-1]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shared", [True, False])
def test_vectors_are_the_model_s_own(shape, shared, monkeypatch):
    """Equal to one prompt at a time, whether beginnings are shared (in small blocks, several passes) or not."""
    monkeypatch.setattr(fathom.engine.scoring.vectors, "WORTH_SHARING", 0.0 if shared else 2.0)
    kind, options = SHAPES[shape]
    network = build(kind, vocab_size=TINY_VOCABULARY, **options)
    asked = sequences()
    expected = np.stack([plain_vector(network, list(ids)) for ids in asked])
    found = vectors(make_local(network), asked, Pooling.LAST, Budget(50, CPU)).float().numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-5)
    assert (found[0] == found[30 + 4]).all()  # the same sequence, the same vector to the bit


def test_sharing_runs_common_tokens_once():
    """30 prompts of 100 common tokens and 5 of their own: 100 + 150 run, not 3,150."""
    draw = random.Random(0)
    begin = tuple(draw.randrange(4, TINY_VOCABULARY) for _ in range(100))
    asked = [(*begin, *(draw.randrange(4, TINY_VOCABULARY) for _ in range(5))) for _ in range(30)]
    model = make_local(
        build("LlamaForCausalLM", vocab_size=TINY_VOCABULARY, **LLAMA | {"max_position_embeddings": 256})
    )
    assert model.refuses_cache(105) is None
    tokens = []
    grow = model.grow
    model.grow = lambda past, embedded, *rest: (tokens.append(embedded.shape[1]), grow(past, embedded, *rest))[1]
    vectors(model, asked, Pooling.LAST, Budget(256, CPU))
    assert 100 + 100 < sum(tokens) <= 100 + 150  # some share a token more


def test_memory_that_ends_is_no_end(monkeypatch):
    monkeypatch.setattr(fathom.engine.scoring.vectors, "WORTH_SHARING", 2.0)
    model = make_local(build("GPT2LMHeadModel", vocab_size=TINY_VOCABULARY, **TREES["gpt2"][1]))
    expected = vectors(model, sequences(), Pooling.LAST, Budget(512, CPU)).float()
    budget, run_hidden = Budget(512, CPU), model.hidden

    def small(embedded, *rest):
        if embedded.shape[0] * embedded.shape[1] > 100:
            raise torch.OutOfMemoryError
        return run_hidden(embedded, *rest)

    model.hidden = small
    found = vectors(model, sequences(), Pooling.LAST, budget).float()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert budget.halvings == 3


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.CLS, Pooling.LAST])
def test_encoders_are_pooled(pooling):
    network = build("BertForMaskedLM", vocab_size=TINY_VOCABULARY, **BERT)
    asked = sequences()
    states = []
    with torch.no_grad():
        for ids in asked:
            hidden = network.bert(input_ids=torch.tensor([ids])).last_hidden_state[0]
            states.append({"mean": hidden.mean(dim=0), "cls": hidden[0], "last": hidden[-1]}[pooling])
    model = make_local(network, attention=Attention.BIDIRECTIONAL)
    np.testing.assert_allclose(vectors(model, asked, pooling, Budget(64, CPU)), torch.stack(states), atol=1e-4)


# --- ranks ---


def test_ranks_equal_a_full_sort(monkeypatch):
    """With equal candidates, several golds, filtered answers and candidates without a vector, block by block."""
    monkeypatch.setattr(fathom.engine.scoring.vectors, "CANDIDATES", 7)
    monkeypatch.setattr(fathom.engine.scoring.vectors, "CELLS", 7 * 5)
    draw = np.random.default_rng(0)
    distinct = draw.standard_normal((40, 8)).astype(np.float32)
    distinct[[3, 21]] = np.nan
    distinct[5] = 0.0  # no direction either
    rows = np.concatenate([np.arange(40), draw.integers(0, 40, 20)])
    queries = draw.standard_normal((23, 8)).astype(np.float32)
    gold = [draw.choice(60, 1 + number % 3, replace=False).tolist() for number in range(23)]
    gold[4], gold[5] = [3], [3, 11]
    known = [draw.choice(60, number % 4, replace=False).tolist() for number in range(23)]
    space = VectorSpace(rows, lambda wanted: distinct[wanted])
    found = rank_by_cosine(torch.from_numpy(queries), space, gold, known, top=10, keep_scores=True)
    distinct[5] = np.nan  # the plain computation below would divide by its length
    unit = distinct[rows].astype(np.float64) / np.linalg.norm(distinct[rows].astype(np.float64), axis=1, keepdims=True)
    ids = [f"{place:02d}" for place in range(60)]
    for query, right, others, item in zip(queries.astype(np.float64), gold, known, found, strict=True):
        scores = np.nan_to_num(unit @ query / np.linalg.norm(query), nan=-np.inf)
        np.testing.assert_allclose(item.scores, scores, atol=1e-6)
        has = [place for place in right if scores[place] > -np.inf]
        best = [place for place, _ in sorted(item.top, key=lambda pair: (-pair[1], pair[0]))][:10]
        assert [scores[place] for place in best] == pytest.approx([scores[place] for place in top(scores, ids, 10)])
        if not has:
            assert item.ranks is None
            continue
        rounded = np.round(scores, 12)  # equal candidates are equal in the plain computation too
        assert item.ranks == rank_best(rounded, right, others)
        for place, rank in zip(right, item.gold_ranks, strict=True):
            assert np.isnan(rank) if place not in has else rank == unfiltered_ranks(rounded, [place])[0]
    assert found[4].ranks is None
    assert np.isnan(found[5].gold_ranks[0])


# --- the probe ---


def plain_scores(model: LocalModel, source: QuerySet, prompts: list[str], template: str) -> np.ndarray:
    """Cosines of every query with every candidate, one prompt at a time; shape (queries, candidates)."""

    def encoded(text: str) -> np.ndarray:
        ids = [model.tokenizer.bos_token_id, *model.tokenizer(text, add_special_tokens=False)["input_ids"]]
        found = plain_vector(model.network, ids).astype(np.float64)
        return found / np.linalg.norm(found)

    space = source.candidates["entities"]
    texts = space.descriptions or [None] * len(space)
    tails = [encoded(tail_prompt(template, name, text)) for name, text in zip(space.names, texts, strict=True)]
    return np.stack([encoded(prompt) for prompt in prompts]) @ np.stack(tails).T


@pytest.mark.parametrize("described", [True, False])
def test_ranks_equal_one_prompt_at_a_time(described, tmp_path):
    model, source = gpt2(), data(described=described)
    options = EmbeddingOptions(shots=3)
    lines = few_shot_lines(options, source)
    prompts = [lines.prompt(query) for query in source.queries]
    rows = run(RunRequest("embedding", model, source, options), tmp_path / "r").predictions().to_pylist()
    expected = plain_scores(model, source, prompts, tail_template("deer"))
    space = source.candidates["entities"]
    assert len(rows) == len(source.queries)
    for query, prompt, row, scores in zip(source.queries, prompts, rows, expected, strict=True):
        assert (row["prompt"], row["scoring"], row["template"]) == (prompt + "[Y]", "cosine", -1)
        np.testing.assert_allclose(row["scores"], scores, atol=1e-5)
        gold = [space.position[answer] for answer in query.gold]
        ranks = rank_best(np.round(scores, 9), gold, [space.position[answer] for answer in query.known])
        assert (row["rank_optimistic"], row["rank_pessimistic"]) == ranks
        assert row["gold_ranks"] == unfiltered_ranks(np.round(scores, 9), gold)
        assert row["gold_scores"] == [row["scores"][place] for place in gold]
        assert row["gold_tokens"] == [len(NAMES[answer]) for answer in query.gold]
        assert row["top_ids"] == [space.ids[place] for place in top(np.round(scores, 9), space.ids, 10)]
    banks = [row["scores"][2] == row["scores"][3] for row in rows]
    assert not any(banks) if described else all(banks)  # two of one name are told apart by their descriptions alone


def test_a_gold_answer_that_ties_says_so(tmp_path):
    """Without descriptions the two banks share every score: the one that is right has the other level with it."""
    rows = run(
        RunRequest("embedding", gpt2(), data(described=False), EmbeddingOptions(shots=3)), tmp_path / "r"
    ).predictions()
    bank = rows.to_pylist()[3]
    assert bank["query_id"] == "test/3"
    assert bank["rank_pessimistic"] == bank["rank_optimistic"] + 1


def test_batches_change_no_score(tmp_path):
    source = data()
    large = (
        run(RunRequest("embedding", gpt2(), source, EmbeddingOptions(shots=3)), tmp_path / "a")
        .predictions()
        .to_pylist()
    )
    small = EmbeddingOptions(shots=3, batch_tokens=40)
    rows = run(RunRequest("embedding", gpt2(), source, small), tmp_path / "b").predictions().to_pylist()
    for one, other in zip(large, rows, strict=True):
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-4)


def test_a_killed_encoding_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fathom.store.vectors, "PIECE", 3)
    model, source, options = gpt2(), data(), EmbeddingOptions(shots=3)
    whole = run(RunRequest("embedding", model, source, options), tmp_path / "whole")
    pieces = sorted(file.name for file in (tmp_path / "whole" / "artifacts").iterdir())
    assert pieces == ["vectors-00000.npy", "vectors-00001.npy", "vectors-00002.npy"]
    write, written = fathom.store.vectors.VectorStore.write, []

    def dies_at_the_second(self, piece, found):
        written.append(piece)
        if len(written) == 2:
            raise KeyboardInterrupt
        write(self, piece, found)

    monkeypatch.setattr(fathom.store.vectors.VectorStore, "write", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("embedding", model, source, options), tmp_path / "killed")
    resumed = run(RunRequest("embedding", model, source, options), tmp_path / "killed")
    assert written == [0, 1, 1, 2]
    assert resumed.predictions().equals(whole.predictions())
    assert resumed.manifest["circumstances"]["encoded_candidate_texts"] == 8


def test_a_damaged_piece_is_named(tmp_path):
    model, source, options = gpt2(), data(), EmbeddingOptions(shots=3)
    run(RunRequest("embedding", model, source, options), tmp_path / "r")
    (tmp_path / "r" / "predictions" / "part-00000.parquet").unlink()
    (tmp_path / "r" / "artifacts" / "vectors-00000.npy").write_bytes(b"no numpy")
    with pytest.raises(BadInput, match=mentions("00000.npy")):
        run(RunRequest("embedding", model, source, options), tmp_path / "r")


def test_candidates_that_do_not_fit_are_counted(tmp_path):
    """ "white-tail deer" is too long for a window of 60: it is above nobody, and a query for it has no rank."""
    source = data()
    about_it = Query("long", "r1", "deer", "n1", ("n7",), "entities")
    source = QuerySet(source.name, (*source.queries, about_it), source.candidates, source.relations, graph=source.graph)
    options = EmbeddingOptions(shots=0, tail_template="{name} means in one word: {name} or " + "-" * 12)
    folder = run(RunRequest("embedding", gpt2(window=60), source, options), tmp_path / "r")
    rows = {row["query_id"]: row for row in folder.predictions().to_pylist()}
    # BOS, 2 · 15 letters and 36 more
    assert mentioned(rows["long"]["unscored"], "67 tokens", "window of 60")
    assert rows["long"]["rank"] is None
    assert rows["test/0"]["rank"] is not None
    assert rows["test/0"]["num_candidates"] == 7
    assert "n7" not in rows["test/0"]["top_ids"]
    assert correspond(folder.manifest["circumstances"]["notes"], "not encoded entities: 1 of 8")
    assert (tmp_path / "r" / "artifacts" / "not_encoded.json").read_text() == '{\n  "entities": [\n    "n7"\n  ]\n}\n'


def test_descriptions_are_shortened_to_fit(tmp_path):
    """One byte, one token. Of a window of 34, BOS, the template's 16 and "bank" leave 13: all of "sloping land", of
    "accepts deposits" what is below; and "animal" leaves 11 of "a living being"."""
    options = {"shots": 0, "tail_template": '{name}: {description}. In a word: "'}
    model = gpt2(window=34)
    folder = run(RunRequest("embedding", model, data(), EmbeddingOptions(**options)), tmp_path / "r")
    probe = PROBES["embedding"].load()(EmbeddingOptions(**options), model, data())
    texts = dict(zip(data().candidates["entities"].ids, probe._texts("entities"), strict=True))
    assert (texts["n3"], texts["n4"]) == ('bank: sloping land. In a word: "', 'bank: accepts depos. In a word: "')
    assert texts["n8"] == 'animal: a living be. In a word: "'
    assert max(len(text) + 1 for text in texts.values()) == 34
    assert correspond(folder.manifest["circumstances"]["notes"], "shortened entities: 2 of 8")
    assert json.loads((tmp_path / "r" / "artifacts" / "shortened.json").read_text()) == {"entities": ["n4", "n8"]}
    described = sum(map(bool, data().candidates["entities"].descriptions))
    assert f"|descriptions:{described} of 8 candidates|" in summarise(folder).headlines[0].accuracy.recipe
    assert {row["num_candidates"] for row in folder.predictions().to_pylist()} == {8}
    whole = run(RunRequest("embedding", model, data(), EmbeddingOptions(**options, shorten=False)), tmp_path / "whole")
    assert {row["num_candidates"] for row in whole.predictions().to_pylist()} == {6}


def test_queries_that_cannot_be_asked_stay(tmp_path):
    source = data()
    odd = (
        Query("nameless", "r1", "", "n1", ("n2",), "entities", unscored="the subject has no name"),
        Query("elsewhere", "r1", "deer", "n1", ("n99",), "entities"),
    )
    alone = CandidateSet("alone", ("n2",), ("mammal",))
    odd = (Query("one", "r1", "deer", "n1", ("n2",), "alone"), *odd)
    spaces = {"alone": alone, **source.candidates}
    source = QuerySet(source.name, odd, spaces, source.relations, graph=source.graph)
    rows = (
        run(RunRequest("embedding", gpt2(), source, EmbeddingOptions(shots=1)), tmp_path / "r")
        .predictions()
        .to_pylist()
    )
    assert correspond([row["unscored"] for row in rows], "one candidate", "no name", "not among")


def test_encoder_models_and_embedded_data(tmp_path):
    network = build("BertForMaskedLM", vocab_size=260, **BERT | {"max_position_embeddings": 512})
    model = make_local(network, byte_tokenizer(), Attention.BIDIRECTIONAL)
    folder = run(RunRequest("embedding", model, read("geography"), EmbeddingOptions(limit=20)), tmp_path / "r")
    assert folder.manifest["identity"]["resolved"]["pooling"] == "mean"
    assert all(row["rank"] >= 1 for row in folder.predictions().to_pylist())
    with pytest.raises(BadInput, match=mentions("first token", "causal")):
        run(RunRequest("embedding", gpt2(), read("geography"), EmbeddingOptions(pooling="cls")), tmp_path / "s")


def test_bear_folder(shared_data: Path, gpt2_words, tmp_path):
    """Appendix C.2: an answer space per relation, no descriptions."""
    options = EmbeddingOptions(relations=("P272", "P1412"), limit=12)
    folder = run(RunRequest("embedding", gpt2_words, read(shared_data / "bear" / "BEAR"), options), tmp_path / "r")
    rows = RunFolder.open(folder.path).predictions().to_pylist()
    assert len(rows) == 12
    assert all(row["rank"] >= 1 and len(row["scores"]) == row["num_candidates"] for row in rows)
    assert all(row["prompt"].count("\n") == 8 for row in rows)


@pytest.fixture(scope="module")
def gpt2_words(gpt2: PreTrainedTokenizerBase) -> LocalModel:
    return make_local(build("GPT2LMHeadModel", vocab_size=50257, n_embd=16, n_layer=1, n_head=2, n_positions=512), gpt2)

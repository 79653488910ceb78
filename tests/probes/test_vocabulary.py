"""The vocabulary probe: it equals a soft-max over the model's own logits, and says what it leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.models.base import Attention
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.rows import rank_best, unfiltered_ranks
from fathom.engine.scoring.tokens import name_tokens, single_tokens
from fathom.probes.base import few_shot_lines
from fathom.probes.options import StatementOptions, VocabularyOptions
from fathom.probes.run import RunRequest, run
from tests.conftest import build, make_local
from tests.engine.test_masked import BERT
from tests.messages import mentioned

# With GPT-2's vocabulary "white-tailed deer" and "Ouagadougou" are several tokens, and "deer" is if no space precedes.
NAMES = ("deer", "animal", "bank", "bank", "white-tailed deer", "plant", "Ouagadougou", "dog")
IDS = tuple(f"n{number}" for number in range(len(NAMES)))
FACTS = [(0, 1), (7, 1), (2, 5), (5, 4), (1, 2), (3, 7), (7, 0)]


def data(*templates: str) -> QuerySet:
    graph = KnowledgeGraph.from_triples(
        [(IDS[head], "r", IDS[tail]) for head, tail in FACTS], dict(zip(IDS, NAMES, strict=True)) | {"r": "kind of"}
    )
    queries = [
        Query(f"q{number}", "r", NAMES[head], IDS[head], (IDS[tail],), "all", known=(IDS[0],) if tail == 1 else ())
        for number, (head, tail) in enumerate(FACTS)
    ]
    queries.append(Query("several", "r", "plant", "n5", ("n4", "n7", "n2"), "all"))
    queries.append(Query("none", "r", "plant", "n5", ("n4", "n6"), "all"))
    queries.append(Query("nameless", "r", "", "?", ("n1",), "all", unscored="the subject has no name"))
    relations = {"r": Relation("r", "kind of", tuple(map(Template, templates)), "1:N")}
    return QuerySet("kinds", tuple(queries), {"all": CandidateSet("all", IDS, NAMES)}, relations, graph=graph)


@pytest.fixture(scope="module")
def causal(gpt2: PreTrainedTokenizerBase) -> LocalModel:
    return make_local(build("GPT2LMHeadModel", vocab_size=50257, n_embd=32, n_layer=2, n_head=2, n_positions=256), gpt2)


def check_rows(source: QuerySet, rows: list[dict], log_probs: dict[str, np.ndarray], tokens: np.ndarray) -> None:
    """Against soft-maxes over the whole vocabulary. :param tokens: of each candidate, −1 for more than one."""
    space = source.candidates["all"]
    one = tokens >= 0
    for query, row in zip(source.queries, rows, strict=True):
        gold = [space.position[answer] for answer in query.gold]
        if query.unscored or not one[gold].any():
            assert (query.unscored or "not one token") in row["unscored"]
            assert row["rank"] is None
            continue
        scores = np.where(one, log_probs[query.id][tokens], -np.inf)
        np.testing.assert_allclose(row["scores"], scores, atol=1e-4)
        able = [place for place in gold if one[place]]
        found = np.array(row["scores"])
        assert (row["rank_optimistic"], row["rank_pessimistic"]) == rank_best(
            np.where(one, found, -np.inf), able, [space.position[answer] for answer in query.known]
        )
        assert [rank for rank in row["gold_ranks"] if not np.isnan(rank)] == unfiltered_ranks(found, able)
        assert row["num_candidates"] == one.sum() == len(row["top_ids"])
        assert row["top_ids"] == sorted(np.array(IDS)[one], key=lambda id_: (-found[space.position[id_]], id_))
        assert row["gold_scores"] == pytest.approx([found[p] if one[p] else np.nan for p in gold], nan_ok=True)


def test_causal_ranks_equal_a_direct_soft_max(causal, tmp_path):
    """A name is one token if it is where it is scored: " animal" alone is two."""
    source = data()
    options = VocabularyOptions(shots=2)
    folder = run(RunRequest("vocabulary", causal, source, options), tmp_path / "r")
    lines, log_probs = few_shot_lines(options, source), {}
    for query in source.queries[:-1]:
        ids = [causal.tokenizer.bos_token_id, *causal.tokenizer(lines.prompt(query))["input_ids"]]
        with torch.no_grad():
            logits = causal.network(input_ids=torch.tensor([ids])).logits[0, -1]
        log_probs[query.id] = torch.log_softmax(logits, dim=-1).numpy()
    alone, spaced = ([causal.tokenizer(before + name)["input_ids"] for name in NAMES] for before in ("", " "))
    tokens = np.array([ids[0] if len(ids) == 1 else -1 for ids in spaced])
    assert (tokens >= 0).tolist() == [True, True, True, True, False, True, False, True]
    assert len(alone[0]) > 1
    rows = folder.predictions().to_pylist()
    check_rows(source, rows, log_probs, tokens)
    assert rows[0]["prompt"] == lines.prompt(source.queries[0]) + "[Y]"
    assert (rows[0]["scoring"], rows[0]["template"]) == ("token", -1)


def test_ranks_are_those_of_the_statement_probe(causal, tmp_path):
    """Among names of one token the likeliest next token is the likeliest answer of "(head, relation, answer"."""
    same = {"shots": 2, "single_token": True, "tokens_after_space": True}
    words = run(RunRequest("vocabulary", causal, data(), VocabularyOptions(**same)), tmp_path / "words").predictions()
    statements = StatementOptions(**same, score=("answer",))
    asked = run(RunRequest("statement", causal, data(), statements), tmp_path / "statements").predictions()
    assert words.column("rank").to_pylist() == asked.column("rank").to_pylist()
    np.testing.assert_allclose(words.column("scores")[0].as_py(), asked.column("scores")[0].as_py(), atol=1e-4)


def test_after_a_trailing_space_the_name_alone_comes_next(causal, tmp_path):
    """A prompt that ends with a space is followed by "animal"."""
    source, options = data(), VocabularyOptions(shots=2, trailing_space=True)
    row = run(RunRequest("vocabulary", causal, source, options), tmp_path / "r").predictions().to_pylist()[0]
    prompt = few_shot_lines(options, source).prompt(source.queries[0])
    ids = [causal.tokenizer.bos_token_id, *causal.tokenizer(prompt)["input_ids"]]
    with torch.no_grad():
        log_probs = torch.log_softmax(causal.network(input_ids=torch.tensor([ids])).logits[0, -1], dim=-1)
    assert prompt.endswith(" ")
    assert row["gold_scores"] == [pytest.approx(float(log_probs[causal.tokenizer("animal")["input_ids"][0]]), abs=1e-4)]


def test_candidates_of_one_token_tie(causal, tmp_path):
    """Both banks have the same token: q4's answer shares its rank with the other one."""
    rows = (
        run(RunRequest("vocabulary", causal, data(), VocabularyOptions(shots=2)), tmp_path / "r")
        .predictions()
        .to_pylist()
    )
    assert rows[4]["rank_pessimistic"] == rows[4]["rank_optimistic"] + 1


def test_what_is_left_out_is_counted_and_listed(causal, tmp_path):
    folder = run(RunRequest("vocabulary", causal, data(), VocabularyOptions(shots=2)), tmp_path / "r")
    noted = folder.manifest["circumstances"]["excluded all"]
    assert mentioned(noted, "2 of 8", "one token")
    assert (tmp_path / "r" / "artifacts" / "excluded.tsv").read_text(encoding="utf-8").splitlines() == [
        "set\tleading_space\tid\tname\ttokens",
        "all\ttrue\tn4\twhite-tailed deer\t4",
        "all\ttrue\tn6\tOuagadougou\t5",
    ]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_masked_ranks_equal_a_direct_soft_max(kind, bert_cased, roberta, tmp_path):
    """RoBERTa's mask stands for " deer" amid a sentence and for "deer" at its beginning."""
    tokenizer = bert_cased if kind == "bert" else roberta
    network = build("BertForMaskedLM" if kind == "bert" else "RobertaForMaskedLM", vocab_size=len(tokenizer), **BERT)
    model = make_local(network, tokenizer, Attention.BIDIRECTIONAL)
    source = data("A [X] is a kind of [Y].", "[Y] is what a [X] is.")
    folder = run(RunRequest("vocabulary", model, source, VocabularyOptions()), tmp_path / "r")
    rows = folder.predictions().to_pylist()
    for template in (0, 1):
        log_probs = {}
        for query in source.queries[:-1]:
            text = source.relations["r"].templates[template].text
            text = text.replace("[X]", query.subject).replace("[Y]", tokenizer.mask_token)
            ids = tokenizer(text)["input_ids"]
            with torch.no_grad():
                logits = network(input_ids=torch.tensor([ids])).logits[0, ids.index(tokenizer.mask_token_id)]
            log_probs[query.id] = torch.log_softmax(logits, dim=-1).numpy()
        after_space = template == 0 and kind == "roberta"
        alone = [
            tokenizer((" " if after_space else "") + name, add_special_tokens=False)["input_ids"] for name in NAMES
        ]
        tokens = np.array([ids[0] if len(ids) == 1 else -1 for ids in alone])
        check_rows(source, [row for row in rows if row["template"] == template], log_probs, tokens)
    assert rows[0]["prompt"] == "A deer is a kind of [Y]."


def test_masked_models_complete_the_line_where_there_is_no_template(bert_cased, tmp_path):
    network = build("BertForMaskedLM", vocab_size=len(bert_cased), **BERT | {"max_position_embeddings": 128})
    model = make_local(network, bert_cased, Attention.BIDIRECTIONAL)
    options = VocabularyOptions(shots=2)
    row = run(RunRequest("vocabulary", model, data(), options), tmp_path / "r").predictions().to_pylist()[0]
    prompt = few_shot_lines(options, data()).prompt(data().queries[0])
    assert row["prompt"] == prompt + " [Y])"
    ids = bert_cased(prompt + " [MASK])")["input_ids"]
    with torch.no_grad():
        logits = network(input_ids=torch.tensor([ids])).logits[0, ids.index(bert_cased.mask_token_id)]
    expected = torch.log_softmax(logits, dim=-1)[bert_cased.convert_tokens_to_ids("animal")].item()
    assert row["gold_scores"] == [pytest.approx(expected, abs=1e-4)]


def test_masked_prompts_that_are_too_long(bert_cased, tmp_path):
    network = build("BertForMaskedLM", vocab_size=len(bert_cased), **BERT | {"max_position_embeddings": 9})
    model = make_local(network, bert_cased, Attention.BIDIRECTIONAL)
    asked = data("A [X] is a [Y].", "[X]: a kind of [Y] known as such.")
    rows = run(RunRequest("vocabulary", model, asked, VocabularyOptions()), tmp_path / "r").predictions().to_pylist()
    short, long = ([row for row in rows if row["template"] == number] for number in (0, 1))
    assert short[0]["rank"] is not None
    assert "window of 9" in long[0]["unscored"]


def test_templates_are_for_masked_models(causal, tmp_path):
    with pytest.raises(BadInput, match="--templates: "):
        run(
            RunRequest("vocabulary", causal, data("[X] is [Y]"), VocabularyOptions(shots=2, templates=(0,))),
            tmp_path / "r",
        )


def test_a_word_that_the_vocabulary_does_not_know(bert_cased):
    alone = name_tokens(bert_cased, ["deer", "☃", "Ouagadougou"], leading_space=False)
    assert single_tokens(bert_cased, alone).tolist()[1:] == [-1, -1]
    spaced = name_tokens(bert_cased, ["deer"], leading_space=True)
    assert single_tokens(bert_cased, spaced)[0] == bert_cased.convert_tokens_to_ids("deer")


def test_every_name_is_tokenised_once(causal, tmp_path, monkeypatch):
    read_names: list[str] = []

    def counting(tokenizer, names, **way):
        read_names.extend(names)
        return name_tokens(tokenizer, names, **way)

    monkeypatch.setattr("fathom.probes.vocabulary.name_tokens", counting)
    monkeypatch.setattr("fathom.engine.scoring.tokens.name_tokens", counting)
    run(RunRequest("vocabulary", causal, data(), VocabularyOptions(shots=2)), tmp_path / "r")
    assert sorted(read_names) == sorted(NAMES)


def test_a_space_before_a_name(gpt2):
    expected = [gpt2(" deer")["input_ids"], gpt2(" white deer")["input_ids"]]
    assert name_tokens(gpt2, ["deer", "white deer"], leading_space=True) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "queries", "candidates"), [("wn18rr", 596, 4948), ("fb15k237", 2161, None)])
def test_the_paper_s_counts(folder, queries, candidates, shared_data: Path, gpt2):
    """Table 1 of Jinno et al.: test queries whose answer is one token, and for WN18RR the entities that are."""
    source = read(shared_data / folder)
    space = source.candidates["entities"]
    one = single_tokens(gpt2, name_tokens(gpt2, space.names, leading_space=False)) >= 0
    places = [space.position[answer] for query in source.queries for answer in query.gold]
    assert len(places) == len(source.queries)
    assert int(one[places].sum()) == queries
    assert candidates is None or int(one.sum()) == candidates

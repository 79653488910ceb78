"""Entailment asked of causal models: scores as plain transformers give them, and the same study around them."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.prompts.alterations import COMBINES, NEEDED, OF_MEMORY, OF_TEXT, REMEMBERS, WHOLE
from fathom.data.prompts.entailment import GIVEN
from fathom.data.prompts.ontology import RULES
from fathom.engine.models.base import Attention
from fathom.engine.scoring import pseudowords as pseudoword_module
from fathom.engine.scoring.pseudowords import PseudowordEncoder, pseudowords
from fathom.engine.scoring.rows import score_columns
from fathom.probes import entailment as of_probe
from fathom.probes.entailment import SHARED_FROM, CausalEntailmentProbe
from fathom.probes.statement import StatementProbe
from fathom.results.claims import NO_DIFFERENCE, SIGNIFICANT
from fathom.studies.reasoning import entailment
from tests.conftest import build, make_local
from tests.messages import mentions
from tests.probes.test_entailment import asked, asked_several, folder, of_words, texts_of
from tests.reasoners import at_random, knows, reasoner, remembers_anyone, scoring, write_things

pytestmark = pytest.mark.slow

assert folder  # a fixture
SHAPES = {
    "GPT2LMHeadModel": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 200},
    "LlamaForCausalLM": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 200,
    },
    "BloomForCausalLM": {"hidden_size": 32, "n_layer": 2, "n_head": 2},  # takes no mask of its own: plain batches
}


def byte_level(texts) -> PreTrainedTokenizerFast:
    """As GPT-2's: words with the space before them, and nothing put before the text."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=900, special_tokens=["<s>"], initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="<s>")


def causal(name: str, tokenizer):
    return make_local(build(name, vocab_size=len(tokenizer), **SHAPES[name]), tokenizer, Attention.CAUSAL)


@pytest.fixture(scope="module", params=SHAPES)
def model(request, folder):
    return causal(request.param, byte_level(texts_of(folder) * 3))


def naive(model, text: str, vectors: dict[str, torch.Tensor], name: str) -> float:
    """One statement, one pass of the network's own: the text in pieces, between which vectors are put by hand."""
    tokenizer, table = model.tokenizer, model.network.get_input_embeddings().weight.detach()
    rows, ids, answer = [table[tokenizer.bos_token_id][None]], [-1], 0
    for part in re.split(r"( ?<[xyzw]>| ?\[Y\])", text):
        mark = part.strip()
        if mark in vectors:
            rows.append(vectors[mark][None])
            ids.append(-1)
            continue
        if mark == "[Y]":
            answer, part_ = len(ids), part.replace("[Y]", name)
        else:
            part_ = part
        own = tokenizer(part_, add_special_tokens=False)["input_ids"]
        rows.append(table[own])
        ids += own
    with torch.no_grad():
        logits = model.network(inputs_embeds=torch.cat(rows)[None]).logits[0]
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    return sum(float(log_probs[place - 1, id_]) for place, id_ in enumerate(ids) if place >= answer and id_ >= 0)


def check_scores(model, found, many=90):
    seen = set()
    for run in found.runs[-3:]:  # what P2 is remembered by, the hypothesis, and the arguments
        pairs = load_file(run.path / "artifacts" / "pseudowords.safetensors")
        count = len(next(iter(pairs.values()))) // 2
        groups = {row["query_id"]: dict(row["groups"]) for row in run.queries().to_pylist()}
        rows = run.predictions().to_pylist()
        drawn = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
        of_each_text = {groups[row["query_id"]]["given"]: row for row in drawn}
        for row in [*drawn[:many], *of_each_text.values()]:
            about = groups[row["query_id"]]
            own, pair = pairs[about["rule"]], int(about["pair"])
            places = {"<x>": 2 * pair, "<y>": 2 * pair + 1}
            places |= {"<z>": 2 * ((pair + 1) % count), "<w>": 2 * ((pair + 1) % count) + 1}
            vectors = {mark: own[place] for mark, place in places.items()}
            expected = [naive(model, row["prompt"], vectors, name) for name in row["top_ids"][:3]]
            np.testing.assert_allclose(
                row["top_scores"][:3], expected, atol=1e-4, err_msg=str((row["prompt"], row["top_ids"][:3]))
            )
            seen.add((about["rule"], about["given"]))
    return seen


def test_scores_equal_a_loop(model, folder, tmp_path):
    """All rules and texts, altered ones included, within 1e-4 of one pass for each candidate; the weights stay."""
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    found = asked(model, folder, tmp_path, list(RULES), limit=36)
    assert all(torch.equal(value, before[name]) for name, value in model.network.state_dict().items())
    seen = check_scores(model, found)
    assert {rule for rule, _ in seen} == set(RULES)
    altered = {WHOLE, *NEEDED[COMBINES], *NEEDED[REMEMBERS], OF_TEXT, OF_MEMORY}
    assert {given for _, given in seen} == {*GIVEN, *altered, "remembered"}
    assert {row["scoring"] for row in of_words(found).predictions().to_pylist()} == {"sum/conditional"}


def text_of(row: dict) -> tuple[str, str, str]:
    """The text with its pseudowords, which differ for rules and pairs."""
    rule, *_, pair = row["query_id"].split("/")
    return row["prompt"], rule, pair


def test_a_search_ranks_like_all_candidates(folder, tmp_path, monkeypatch):
    """Ranks, those of each gold answer and the ten best; a pseudoword after the answer (rdfs7) takes all candidates."""
    model = causal("LlamaForCausalLM", byte_level(texts_of(folder) * 3))
    monkeypatch.setattr(of_probe, "SEARCHED_FROM", 1)
    searched: set[str] = set()
    search = CausalEntailmentProbe._searched

    def noting(probe, queries, texts):
        searched.update(query.relation for query in queries)
        return search(probe, queries, texts)

    monkeypatch.setattr(CausalEntailmentProbe, "_searched", noting)
    found = asked(model, folder, tmp_path / "searched", list(RULES), limit=20)
    assert searched == set(RULES) - {"rdfs7"}
    monkeypatch.setattr(CausalEntailmentProbe, "_can_search", lambda *given: False)
    whole = asked(model, folder, tmp_path / "whole", list(RULES), limit=20)
    compared = several = shared = 0
    for fast, slow in zip(found.runs[-3:], whole.runs[-3:], strict=True):
        rows = {row["query_id"]: row for row in slow.predictions().to_pylist()}
        asks = Counter(map(text_of, rows.values()))
        for row in fast.predictions().to_pylist():
            other = rows[row["query_id"]]
            shared += asks[text_of(row)] >= SHARED_FROM
            assert row["tokens_full"] is None or asks[text_of(row)] < SHARED_FROM
            for column in ("rank", "rank_optimistic", "rank_pessimistic", "gold_ranks", "scored_tokens", "gold_tokens"):
                assert row[column] == other[column], (column, row["prompt"])
            assert row["top_ids"] == other["top_ids"]
            several += row["tokens_full"] is not None and len(row["gold_ranks"]) > 1
            np.testing.assert_allclose(row["top_scores"], other["top_scores"], atol=1e-4)
            compared += 1
    assert compared > 1000
    assert several > 30
    assert shared > 30


def test_small_batches(folder, tmp_path):
    """64 tokens at a time: the same numbers as a loop's."""
    model = causal("LlamaForCausalLM", byte_level(texts_of(folder) * 3))
    found = asked(model, folder, tmp_path, ["rdfs2", "rdfs7"], limit=20, batch_tokens=64)
    check_scores(model, found, many=20)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_with_a_real_tokenizer(gpt2, folder, tmp_path, name):
    """That of GPT-2: a space belongs to the word behind it, also to a pseudoword."""
    shape = SHAPES[name]
    model = make_local(build(name, vocab_size=len(gpt2), **shape), gpt2, Attention.CAUSAL)
    check_scores(model, asked(model, folder, tmp_path, limit=40), many=15)


def test_all_nine_settings_and_the_arguments(folder, tmp_path):
    model = causal("LlamaForCausalLM", byte_level(texts_of(folder) * 3))
    found = asked(model, folder, tmp_path, list(RULES), untrained=1)
    assert {(line.setting.first, line.setting.second) for line in found.lines if line.items} == {
        (first, second) for first in entailment.LEVELS for second in entailment.LEVELS
    }
    assert all(line.unscored == 0 for line in found.lines)
    names = [run.path.relative_to(tmp_path).as_posix() for run in found.runs]
    assert names == [
        "tiny/memory-words", "tiny/premises-words", "tiny/words", "tiny/arguments", "tiny-untrained-0/arguments"
    ]  # fmt: skip
    assert {one.evidence.conclusion for one in found.conclusions} == {COMBINES, REMEMBERS}
    assert all(len(one.evidence.twins) == 1 for one in found.conclusions)
    assert "does it reason" in str(entailment.tables(found)[0].title)


def test_who_reasons_is_distinguished_from_who_does_not(tmp_path, monkeypatch):
    """The scripted answerers of masked models, in the place of a causal model's scores."""
    things = write_things(tmp_path)
    world = knows(read(things), {}, ["rdfs9"], 0.5)

    def answer(probe, query, *scored):
        space = probe.queryset.candidates[query.candidates]
        chosen = scoring(at_random if "untrained" in probe.model.identity.name else answerer, world)
        scores = np.array(chosen(query, space.names), dtype=float)
        found = score_columns(query, space, scores, [1] * len(query.gold), [1] * len(space), top_k=10)
        return found | {"scores": None}

    monkeypatch.setattr(CausalEntailmentProbe, "_can_search", lambda *given: False)
    monkeypatch.setattr(CausalEntailmentProbe, "_answer", answer)
    of_memory = lambda probe, wording, queries, space: {query.id: [answer(probe, query)] for query in queries}  # noqa: E731
    monkeypatch.setattr(StatementProbe, "_scored", of_memory)
    monkeypatch.setattr(
        of_probe, "pseudoword_scores", lambda model, texts, *more: [np.zeros(len(text.rest)) for text in texts]
    )
    model = causal("GPT2LMHeadModel", byte_level([f"thing{number} is a kind ." for number in range(120)]))
    for answerer, word in ((remembers_anyone, NO_DIFFERENCE), (reasoner, SIGNIFICANT)):
        models = {answerer.__name__: lambda: model}
        found = asked_several(models, things, tmp_path / answerer.__name__, ["rdfs9"], untrained=1)
        assert [one.decision.word for one in found.conclusions] == [word, word]


# ---------------------------------------------------------------------------------------------------- parts


def test_pseudowords_around_the_mean():
    """Mean (2, 1); distances 2, 2, 0, 2: the median is 2 and d = 1."""
    table = torch.tensor([[0.0, 1.0], [4.0, 1.0], [2.0, 1.0], [2.0, 3.0], [2.0, -1.0]])
    flat = SimpleNamespace(
        tokenizer=range(5), attention=Attention.CAUSAL, embed=lambda ids: table[ids], vocabulary_size=5,
        require_vectors=lambda: None, device=table.device, identity=SimpleNamespace(name="flat"),
    )  # fmt: skip
    found = pseudowords(flat, 3, 0.5, 0)
    np.testing.assert_allclose((found - torch.tensor([2.0, 1.0])).norm(dim=1), 1.0, rtol=1e-6)
    assert all(float((found[a] - found[b]).norm()) >= 1 for a in range(3) for b in range(a))
    with pytest.raises(BadInput, match=mentions("7", "'flat'")):
        pseudowords(flat, 7, 0.5, 0)
    table[:] = 1
    with pytest.raises(BadInput, match=mentions("'flat'")):
        pseudowords(flat, 1, 0.5, 0)


def test_words_that_a_tokenizer_joins(monkeypatch):
    """ "X is" is one token: another stand-in is taken. "particular cat" is one: each statement is tokenised as a whole,
    and scored from where they differ."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    texts = ["X is a", "particular cat", "a dog ."] * 20
    core.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=70, special_tokens=["<s>"], initial_alphabet=["Q"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>")
    size, names = len(tokenizer), ("cat", "dog")
    found = PseudowordEncoder(tokenizer, 0, size).encode("<s1> is a particular [Y] .", names)
    assert found.before[:2] == (0, size)
    for behind, name in zip(found.rest, names, strict=True):
        ids = [*found.before[2:], *behind]
        assert ids == tokenizer(f"Q is a particular {name} .", add_special_tokens=False)["input_ids"][-len(ids) :]
    assert tokenizer.convert_ids_to_tokens(found.rest[0][0]) == "▁particular▁cat"
    monkeypatch.setattr(pseudoword_module, "PLACEHOLDERS", ("X",))
    with pytest.raises(BadInput, match="pseudowords"):
        PseudowordEncoder(tokenizer, 0, size).encode("<s1> is a particular [Y] .", names)


def test_what_cannot_be_asked_is_refused_in_one_line(fathom, folder, tmp_path):
    tokenizer, saved = byte_level(texts_of(folder) * 3), tmp_path / "causal"
    tokenizer.save_pretrained(saved)
    build("GPT2LMHeadModel", vocab_size=len(tokenizer), **SHAPES["GPT2LMHeadModel"]).save_pretrained(saved)
    given = ["study", "entailment", "--model", saved, "--data", folder, "--out", tmp_path / "out"]
    for more, expected in (
        (["--wordings", "words,learnt"], "--wordings learnt"),
        (["--soft"], "--soft"),
    ):
        code, _, said = fathom(*given, *more)
        assert code == 2
        assert expected in said
        assert not (tmp_path / "out").exists()


def test_too_long_statements_have_their_reason(folder, tmp_path):
    tokenizer = byte_level(texts_of(folder) * 3)
    shape = SHAPES["GPT2LMHeadModel"] | {"n_positions": 24}
    model = make_local(build("GPT2LMHeadModel", vocab_size=len(tokenizer), **shape), tokenizer, Attention.CAUSAL)
    found = asked(model, folder, tmp_path, ["rdfs9"], limit=30)
    reasons = {row["unscored"] for row in of_words(found).predictions().to_pylist()}
    assert any("window of 24" in str(reason) for reason in reasons)

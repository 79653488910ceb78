"""Prompted language models: what they are shown, exact scores of a model at hand, votes of one behind a server."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("bm25s", reason="needs the extra kgc")

import fathom_kgc
from fathom.base.errors import BadInput, MissingExtra, RunFailed
from fathom.cli import main
from fathom.data.formats import read
from fathom.data.graph.links import split_links
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.server import ChatReply
from fathom_build.worlds.build import build_worlds
from fathom_kgc.links.base import open_links, read_manifest
from fathom_kgc.links.options import PromptedModel
from fathom_kgc.links.probe import predict_links
from fathom_kgc.links.prompted import Bm25, Local, Predictor, Prompts, RankingPrompt, SampledServer, parsed, rationale
from tests.conftest import build, write_graph_folder
from tests.messages import mentions

ENTITIES = {
    "pa": ("Paris", "Paris is a city on the Seine. It is old. The capital of France"),
    "fr": ("France", "A state of the West. Bread is eaten there"),
    "ro": ("Rome", "Rome lies on the Tiber, in Italy."),
    "it": ("Italy", ""),
    "be": ("Berlin", "Berlin is green."),
    "de": ("Germany", "A state of the middle. Its capital is Berlin"),
    "g1": ("Georgia", "A state of the South"),
    "g2": ("Georgia", "A state of the Caucasus"),
    "at": ("Atlanta", "A city of the South"),
    "tb": ("Tbilisi", "A city of the Caucasus"),
    "li": ("Lima", ""),
    "pe": ("Peru", ""),
    **{f"x{number}": (f"Nowhere{number}", "") for number in range(20)},
}
TRIPLES = {
    "train": ["pa\tcap\tfr", "ro\tcap\tit", "at\tcap\tg1", "pa\tin\tfr", "li\tin\tpe"],
    "dev": ["li\tcap\tpe", *(f"x{number}\tin\tx{number + 1}" for number in range(19))],
    "test": ["be\tcap\tde", "tb\tcap\tg2", "be\tin\tx0"],
}
IDS = list(ENTITIES)


@pytest.fixture
def folder(tmp_path) -> Path:
    lines = [f"{id_}\t{name}\t{said}" for id_, (name, said) in ENTITIES.items()]
    return write_graph_folder(tmp_path / "graph", TRIPLES, lines, "cap\tcapital\nin\tcountry\n")


@pytest.fixture
def data(folder):
    return read(folder)


@pytest.fixture(scope="module")
def weights(tmp_path_factory, shared_data) -> Path:
    """GPT-2's shape and real tokenizer, random weights."""
    from tests.conftest import load_gpt2

    path = tmp_path_factory.mktemp("weights") / "tiny"
    build("GPT2LMHeadModel", n_layer=2, n_embd=32, n_head=2, n_positions=512).save_pretrained(path)
    load_gpt2(shared_data).save_pretrained(path)
    return path


def chosen(**options) -> PromptedModel:
    return PromptedModel(**{"weights": "none", "candidates": 10} | options)


def prompts(data, **options) -> Prompts:
    return Prompts(data.graph, chosen(**options))


def asked(data, split="test"):
    """Both questions of each triple: (Berlin, capital, ?), (?, capital, Germany), …"""
    return split_links(data.graph, split)


def shown_names(shown: RankingPrompt) -> set[str]:
    found = re.search(r"candidates: (.*)\.\n", shown.prompt)
    assert found is not None
    return set(found[1].split(", "))


# ---------------------------------------------------------------------------------------------------- what is shown


def test_bm25_by_hand():
    # Lengths 2, 3, 1: 2 on average. "c" is in one text of three: idf = ln(1 + 2.5/1.5).
    # Twice in a text of three words: 2 / (2 + 1.5 (0.25 + 0.75 · 3/2)); a text of two words: 1 / (1 + 1.5).
    texts = Bm25(["a b", "A, c C!", "d"])
    rare, common = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    long = 1.5 * (0.25 + 0.75 * 3 / 2)
    assert texts.scores("c") == pytest.approx([0, rare * 2 / (2 + long), 0])
    assert texts.scores("a") == pytest.approx([common / 2.5, common / (1 + long), 0])
    assert texts.scores("C a?") == pytest.approx([common / 2.5, rare * 2 / (2 + long) + common / (1 + long), 0])
    assert texts.best("a", 5) == [0, 1]
    assert texts.best("a", 1) == [0]
    assert texts.best("unheard of", 5) == texts.best("", 5) == Bm25([]).best("a", 5) == []
    assert Bm25(["", "…"]).best("a", 5) == []


def test_level_texts_keep_their_order():
    assert Bm25(["x", "a b", "b a", "a c"]).best("a", 3) == [1, 2, 3]


def test_bm25s_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r".\[kgc\]"):
        Bm25(["a"])


def test_a_prompt_by_hand(data):
    maker = prompts(data, demonstrations=2)
    tail, head = maker.make(asked(data))[:2]
    # "what is the capital of Berlin?": the three capitals of train share "capital", and no other triple shares a rare
    # word; all are as long, so they come in their order.
    lines = tail.prompt.split("\n")
    assert lines[0].startswith("Given head entity and relation, predict the tail entity from the candidates: ")
    assert lines[1:] == [
        "what is the capital of Paris? Paris is a city on the Seine. The capital of France. The answer is France.",
        "what is the capital of Rome? Rome lies on the Tiber, in Italy. The answer is Italy.",
        "what is the capital of Berlin?",
    ]
    lines = head.prompt.split("\n")
    assert lines[0].startswith("Given tail entity and relation, predict the head entity from the candidates: ")
    assert lines[1:] == [
        "France is the capital of what? A state of the West. The answer is Paris.",
        "Italy is the capital of what? The answer is Rome.",
        "Germany is the capital of what?",
    ]
    assert shown_names(tail) == {ENTITIES[IDS[place]][0] for place in tail.candidates}


FILL = (
    'predict the tail entity [MASK] from the given (Berlin, capital, [MASK]) by completing the sentence "what is the '
)
FILL += 'capital of Berlin? The answer is".'


def test_autokg_without_demonstrations(data):
    """prompt_0.txt of github.com/zjunlp/AutoKG: the question alone, on a line."""
    tail, head = prompts(data, wording="autokg").make(asked(data))[:2]
    assert tail.prompt == FILL
    assert head.prompt == (
        "predict the head entity [MASK] from the given ([MASK], capital, Germany) by completing the sentence "
        '"Germany is the capital of what? The answer is".'
    )
    assert tail.candidates == tuple(range(len(ENTITIES)))
    assert (tail.end, chosen(wording="autokg").demonstrations, chosen().demonstrations) == (".", 0, 5)


def test_autokg_with_a_demonstration(data):
    """prompt_1.txt: an answered question of the relation on the line before."""
    said = {"wording": "autokg", "demonstrations": 1}
    made = prompts(data, **said).make(asked(data))
    first, last = made[0].prompt.split("\n")
    answered = {
        f"predict the tail entity [MASK] from the given ({head}, capital, [MASK]) by completing the sentence "
        f'"what is the capital of {head}? The answer is ".The answer is {tail}, so the [MASK] is {tail}.'
        for head, tail in (("Paris", "France"), ("Rome", "Italy"), ("Atlanta", "Georgia"))
    }
    assert first in answered
    assert (last, made[0].end) == (FILL, ",")
    first, _ = made[1].prompt.split("\n")
    assert re.search(r"^predict the head entity .* \(\[MASK\], capital, (\w+)\) .* so the \[MASK\] is \w+\.$", first)
    # (Paris, country, ?) is asked of the one training triple but another of that relation: it is not shown itself.
    train = prompts(data, wording="autokg", demonstrations=5).make(split_links(data.graph, "train"))
    assert all(shown.prompt.split("\n")[-1] not in shown.prompt.split("\n")[:-1] for shown in train)
    paris = next(shown for shown in train if "(Paris, country, [MASK])" in shown.prompt)
    assert paris.prompt.count("Paris") == 2  # in the question alone: its triple and its sentence
    assert [one.prompt for one in prompts(data, **said).make(asked(data))] == [one.prompt for one in made]
    assert any(a.prompt != b.prompt for a, b in zip(prompts(data, **said, seed=5).make(asked(data)), made, strict=True))


def test_without_descriptions_none_is_shown(data):
    [first, *_] = prompts(data, demonstrations=1, descriptions=False).make(asked(data))
    assert first.prompt.split("\n")[1] == "what is the capital of Paris? The answer is France."
    assert "capital of" not in prompts(data, demonstrations=0).make(asked(data))[0].prompt.rpartition("\n")[0]


@pytest.mark.parametrize(
    ("description", "given", "answer", "sentences"),
    [
        ("", "Paris", "France", []),
        ("Old. New", "Paris", "France", ["Old."]),
        ("Old. In france! Paris is big.", "Paris", "France", ["Paris is big.", "In france!."]),
        ("Paris, France.", "Paris", "France", ["Paris, France."]),
        ("A river of France. Long.", "Paris", "France", ["A river of France."]),
    ],
)
def test_the_sentences_that_explain_a_triple(description, given, answer, sentences):
    assert rationale(description, given, answer) == sentences


def test_candidates_are_the_best_by_bm25_and_drawn_where_they_are_too_few(data):
    maker = prompts(data)
    [berlin, *_] = maker.make(asked(data))
    # "capital Berlin Berlin is green.": "is" and "capital" stand in the texts of others, too.
    found = maker.entities.best("capital Berlin Berlin is green.", 20)
    assert {IDS[place] for place in found} == {"pa", "be", "de", "fr"}
    assert set(found) <= set(berlin.candidates)
    assert len(set(berlin.candidates)) == 10
    assert found[0] == IDS.index("be")
    assert maker.drawn >= 6


def test_candidates_by_triples_are_their_answers(data):
    tail, head = prompts(data, candidates_by="triples").make(asked(data))[:2]
    # Triples that share a word with the question all have an answer: France, Italy, Georgia, Peru; France once.
    assert {IDS.index(id_) for id_ in ("fr", "it", "g1", "pe")} <= set(tail.candidates)
    assert {IDS.index(id_) for id_ in ("pa", "ro", "at", "li")} <= set(head.candidates)


def test_the_right_answer_is_forced_in_only_where_asked(data):
    links = asked(data)
    golds = links.gold.tolist()
    plain, forced = prompts(data, seed=2), prompts(data, seed=2, gold_among_candidates=True)
    without, with_ = plain.make(links), forced.make(links)
    inside = [gold in one.candidates for gold, one in zip(golds, without, strict=True)]
    assert inside == [True, True, True, True, False, False]  # Nowhere0 shares no word with Berlin
    assert plain.gold_listed == forced.gold_listed == sum(inside)  # without being put there
    assert all(gold in one.candidates for gold, one in zip(golds, with_, strict=True))
    assert {len(set(one.candidates)) for one in with_} == {10}


def test_the_place_of_the_right_answer_says_nothing(data):
    """Put last by the retrieval, it stands anywhere in the prompt."""
    places = set()
    for seed in range(40):
        [one, *_] = prompts(data, gold_among_candidates=True, seed=seed).make(asked(data))
        places.add(one.candidates.index(IDS.index("de")))
    assert len(places) >= 8


def test_prompts_depend_on_the_question_and_the_seed_alone(data):
    links = asked(data)
    together = prompts(data).make(links)
    alone = [prompts(data).make(links.take(np.array([at])))[0] for at in reversed(range(len(links)))]
    assert alone[::-1] == together
    assert prompts(data, seed=1).make(links) != together


def test_the_triple_that_is_asked_is_never_shown(data):
    for one, given in zip(prompts(data).make(asked(data, "train")), asked(data, "train").given, strict=True):
        *shown, question = one.prompt.split("\n")
        assert ENTITIES[IDS[given]][0] in question
        assert not any(line.startswith(question) for line in shown)


def test_a_world_changes_the_prompts(data, tmp_path):
    build_worlds(data.graph, tmp_path / "worlds", ["virtual-e"])
    world = read(tmp_path / "worlds" / "virtual-e")
    names = world.graph.entities.column("name").to_pylist()
    [prompt, *_] = Prompts(world.graph, chosen()).make(asked(world))
    assert prompt.prompt.endswith(f"what is the capital of {names[IDS.index('be')]}?")
    assert shown_names(prompt) == {names[place] for place in prompt.candidates}
    assert names != [name for name, _ in ENTITIES.values()]


# --------------------------------------------------------------------------------------------------- a model at hand


@pytest.fixture
def model(weights, folder, tmp_path) -> Path:
    fathom_kgc.train_links(
        "prompted", folder, tmp_path / "m", weights=str(weights), candidates=10, demonstrations=2, seed=2
    )
    return tmp_path / "m"


def ranked(predictor: Predictor, data, top=10):
    with torch.inference_mode():
        return predictor.rank(asked(data), top)


def test_nothing_is_trained(weights, folder, tmp_path, monkeypatch, capsys):
    command = ["fathom", "kgc", "train", "prompted", "--weights", str(weights), "--data", str(folder)]
    monkeypatch.setattr(sys, "argv", [*command, "--out", str(tmp_path / "m")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "nothing to train" in capsys.readouterr().out
    assert [file.name for file in (tmp_path / "m").iterdir()] == ["link.json"]


def test_scores_are_those_of_the_plain_path(model, data):
    """Each statement tokenised as a whole and run alone."""
    predictor = open_links(model, data, "cpu", {"gold_among_candidates": True})
    local, links = predictor.answerer, asked(data)
    shown, found = predictor.prompts.make(links), ranked(predictor, data)
    for at in (0, 3):
        before = len(local.tokenizer(shown[at].prompt + " The answer is")["input_ids"])
        plain = {}
        for place in shown[at].candidates:
            text = f"{shown[at].prompt} The answer is {ENTITIES[IDS[place]][0]}."
            ids = [local.tokenizer.bos_token_id, *local.tokenizer(text)["input_ids"]]
            plain[place] = float(token_log_probs(local.model, ids)[before + 1 :].double().sum())
        assert dict(found[at].top) == pytest.approx(plain, abs=1e-4)
        best = sorted(plain, key=lambda place: (-plain[place], IDS[place]))
        assert [place for place, _ in found[at].top] == best
        known = set(links.known[at].tolist())
        rank = [place for place in best if place not in known].index(links.gold[at]) + 1
        assert found[at].ranks == (rank, rank)
        assert found[at].gold_scores == pytest.approx([plain[links.gold[at]]], abs=1e-4)


@pytest.mark.parametrize(("shots", "end"), [(0, "."), (1, ",")])
def test_autokg_ranks_all_entities_by_the_plain_path(model, data, shots, end):
    predictor = open_links(model, data, "cpu", {"wording": "autokg", "demonstrations": shots})
    local, links = predictor.answerer, asked(data).take(np.array([0]))
    [found], [shown] = predictor.rank(links, len(ENTITIES)), predictor.prompts.make(links)
    before = len(local.tokenizer(shown.prompt + " The answer is")["input_ids"])
    plain = []
    for id_ in IDS:
        text = f"{shown.prompt} The answer is {ENTITIES[id_][0]}{end}"
        ids = [local.tokenizer.bos_token_id, *local.tokenizer(text)["input_ids"]]
        plain.append(float(token_log_probs(local.model, ids)[before + 1 :].double().sum()))
    assert dict(found.top) == pytest.approx(dict(enumerate(plain)), abs=1e-4)
    gold = links.gold[0]
    rivals = [score for place, score in enumerate(plain) if place not in (gold, *links.known[0].tolist())]
    assert found.ranks.realistic == 1 + sum(score > plain[gold] for score in rivals)


def test_models_without_a_cache_score_alike(model, data, monkeypatch):
    fast = ranked(open_links(model, data, "cpu"), data)
    predictor = open_links(model, data, "cpu")
    monkeypatch.setattr(predictor.answerer.model, "refuses_cache", lambda *_: "it says so")
    for one, other in zip(fast, ranked(predictor, data), strict=True):
        assert dict(one.top) == pytest.approx(dict(other.top), abs=1e-4)
    assert "because it says so" in predictor.circumstances()["engine"]


def test_a_prompt_longer_than_the_window_has_no_rank_and_a_reason(model, data):
    predictor = open_links(model, data, "cpu")
    predictor.answerer.model.max_tokens = 40
    [found, *_] = ranked(predictor, data)
    assert found.ranks is None
    assert re.search(r"\d+ tokens.* window of 40", found.unscored)


def test_a_run_keeps_what_is_known_and_what_is_not(model, folder, tmp_path):
    result = fathom_kgc.evaluate_links(model, folder, tmp_path / "r", top_k=3)
    rows = result.table().to_pylist()
    facts = result.folder.manifest["circumstances"]
    assert {row["scoring"] for row in rows} == {"log-likelihood"}
    assert (facts["questions"], facts["right_answer_among_candidates"]) == (6, 4)
    assert sum(row["rank"] is not None for row in rows) == 4
    for row in rows:
        assert (row["rank"] is None) == (row["rank_above"] == 10)  # no known answer and not this one: ten rivals
        assert len(row["top_ids"]) == 3
    numbers = result.summary().to_text()
    assert "hits@10" in numbers
    assert "mrr" not in numbers  # some ranks are not known
    forced = fathom_kgc.evaluate_links(model, folder, tmp_path / "f", asking={"gold_among_candidates": True})
    assert all(row["rank"] is not None for row in forced.table().to_pylist())


def test_predict(model, data):
    found = predict_links(model, data, "capital", head="Berlin", device="cpu")
    assert len(found.rows) == 10
    assert found.title == "(Berlin, capital, ?)"


def test_another_model_at_the_same_place_is_noticed(data, weights, folder, tmp_path):
    network = build("GPT2LMHeadModel", seed=1, n_layer=2, n_embd=32, n_head=2, n_positions=512)
    other = tmp_path / "weights"
    other.mkdir()
    for file in weights.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    fathom_kgc.train_links("prompted", folder, tmp_path / "o", weights=str(other))
    network.save_pretrained(other)
    with pytest.raises(BadInput, match="has changed since"):
        open_links(tmp_path / "o", data, "cpu")
    with pytest.raises(BadInput, match="another training"):
        fathom_kgc.train_links("prompted", folder, tmp_path / "o", weights=str(other))
    hashes = [read_manifest(tmp_path / "o")["identity"]["weights"]["content_hash"]]
    hashes += [
        fathom_kgc.train_links("prompted", folder, tmp_path / "n", weights=str(other))["identity"]["weights"][
            "content_hash"
        ]
    ]
    assert len(set(hashes)) == 2


def test_a_masked_model_is_refused(shared_data, tmp_path, folder):
    from tests.conftest import load_bert_uncased

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    build("BertForMaskedLM", **shape).save_pretrained(tmp_path / "bert")
    load_bert_uncased(shared_data).save_pretrained(tmp_path / "bert")
    with pytest.raises(BadInput, match="must be causal"):
        fathom_kgc.train_links("prompted", folder, tmp_path / "m", weights=str(tmp_path / "bert"))
    assert not (tmp_path / "m").exists()


# ------------------------------------------------------------------------------------------------ what scores become


class ScriptedAnswerer:
    """Gives the candidates the scores of a dictionary by id, −inf to those that are not in it."""

    scoring, identity, tokenizer = SampledServer.scoring, None, None

    def __init__(self, scores):
        self.by_id = scores

    def scores(self, shown, names):
        if isinstance(self.by_id, str):
            return [self.by_id] * len(shown)
        return [np.array([self.by_id.get(IDS[place], -np.inf) for place in one.candidates]) for one in shown]

    def circumstances(self):
        return {}


def found_for(data, monkeypatch, scores, question=2, **options):
    """By default (Tbilisi, capital, ?), of which the second Georgia is right; all entities are candidates."""
    monkeypatch.setattr("fathom_kgc.links.prompted._open", lambda options, device: ScriptedAnswerer(scores))
    predictor = Predictor(data.graph, chosen(candidates=50, **options), None, torch.device("cpu"))
    return predictor.rank(asked(data).take(np.array([question])), 3)[0]


def test_equal_names_share_their_places(data, monkeypatch):
    found = found_for(data, monkeypatch, {"de": 3.0, "g1": 2.0, "g2": 2.0, "it": 1.0})
    assert (found.ranks.optimistic, found.ranks.pessimistic) == (2, 3)
    assert found.top == [(IDS.index("de"), 3.0), (IDS.index("g1"), 2.0), (IDS.index("g2"), 2.0)]
    assert found.gold_ranks == [2.5]


def test_what_is_not_named_is_a_miss(data, monkeypatch):
    found = found_for(data, monkeypatch, {"de": 3.0})
    assert (found.ranks, found.above, found.unscored) == (None, 10, None)
    assert found.top == [(IDS.index("de"), 3.0)]
    assert found_for(data, monkeypatch, {}).top == []


def test_other_right_answers_are_left_out(tmp_path, folder, monkeypatch):
    (folder / "train.tsv").write_text("tb\tcap\tde\n" + "\n".join(TRIPLES["train"]) + "\n")  # beside Georgia
    found = found_for(read(folder), monkeypatch, {"de": 3.0, "g2": 2.0})
    assert (found.ranks.optimistic, found.ranks.pessimistic) == (1, 1)
    assert found.gold_ranks == [2.0]  # among all


def test_no_score_no_rank(data, monkeypatch):
    found = found_for(data, monkeypatch, "the line is down")
    assert (found.ranks, found.above, found.unscored) == (None, None, "the line is down")


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ("Paris", "paris"),
        (' "PARIS" ', "paris"),
        ("Paris.", "paris"),
        ("The answer is Paris.", "paris"),
        ("The answer is Paris, so the [MASK] is Paris.", "paris"),
        ("the  Answer", "the answer"),
        ("Paris, of course", "paris, of course"),
        ("Paris\nRome", "paris rome"),
        ("", ""),
    ],
)
def test_replies_are_read_strictly(reply, key):
    assert parsed(reply) == key


def votes(texts, names, fault=None):
    sampled = SampledServer.__new__(SampledServer)
    sampled.counts = Counter()
    reply = ChatReply(tuple(texts), (), 0, 0, fault)
    return sampled, sampled._votes(RankingPrompt("", tuple(range(len(names)))), reply, names)


def test_votes_by_frequency_then_by_who_came_first():
    sampled, scores = votes(["Rome", "Oslo", "oslo", "my Rome", "Lima"], ["Lima", "Oslo", "Rome", "Paris", "Oslo"])
    # Oslo 2 − 1/5, Rome 1 − 0/5, Lima 1 − 4/5; both Oslos alike.
    assert scores.tolist() == pytest.approx([0.2, 1.8, 1.0, -math.inf, 1.8])
    assert (sampled.counts["replies"], sampled.counts["replies_naming_no_candidate"]) == (5, 1)


def test_a_call_that_failed_gives_its_reason():
    sampled, scores = votes([], ["Lima"], fault="no answer in time")
    assert scores == "no answer in time"
    assert sampled.counts["calls_failed"] == 1


# ------------------------------------------------------------------------------------------------- behind a server


def says(answer):
    """A server's reply to any request."""
    return lambda body: {
        "choices": [{"message": {"content": answer(body)}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }


def germany(body):
    """Germany to (Berlin, …, ?), three times of four; nonsense to all else."""
    question = body["messages"][-1]["content"].split("\n")[-2]
    if "of Berlin?" not in question:
        return "I do not know."
    return "Georgia" if body["seed"] == 3 else "the answer is germany."


def train(server, folder, out, **options):
    return fathom_kgc.train_links(
        "prompted", folder, out, **{"server": server.url, "weights": "tiny", "samples": 4, "candidates": 50} | options
    )


def test_a_server_is_sampled_and_its_answers_ranked(serve, folder, tmp_path):
    server = serve(each=says(germany))
    assert train(server, folder, tmp_path / "m")["ended"]["why"] == "nothing to train"
    assert server.bodies == []
    result = fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r")
    rows = {row["query_id"]: row for row in result.table().to_pylist()}
    assert rows["test/0"]["rank"] == 1.0
    assert (rows["test/0"]["top_ids"], rows["test/0"]["top_scores"]) == (["de", "g1", "g2"], [3.0, 0.25, 0.25])
    assert (rows["test/1"]["rank"], rows["test/1"]["rank_above"], rows["test/1"]["unscored"]) == (None, 10, None)
    facts = result.folder.manifest["circumstances"]
    assert facts["replies"] == 24
    assert facts["replies_naming_no_candidate"] == 16  # to four of six questions
    assert facts["journal"] == {"answers": 24, "prompt_tokens": 7 * 24, "completion_tokens": 2 * 24}
    [first, *_] = server.bodies
    assert first["messages"][-1]["content"].endswith("\nReply with the name of one candidate and nothing else.")
    assert (first["temperature"], first["model"]) == (0.5, "tiny")


def test_a_server_is_asked_by_one_process(serve, folder, tmp_path):
    """Two would keep their answers in one journal."""
    train(serve(), folder, tmp_path / "m")
    for how in ({"part": "1/2"}, {"engine": "ray"}):
        with pytest.raises(BadInput, match="one process"):
            fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r", **how)
    assert not (tmp_path / "r").exists()


def test_a_server_is_asked_in_the_words_of_autokg(serve, folder, tmp_path):
    server = serve(each=says(lambda body: "The answer is Germany, so the [MASK] is Germany."))
    train(server, folder, tmp_path / "m", wording="autokg", demonstrations=1)
    result = fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r")
    rows = {row["query_id"]: row for row in result.table().to_pylist()}
    assert (rows["test/0"]["rank"], rows["test/0"]["top_ids"]) == (1.0, ["de"])
    asked_ = server.bodies[0]["messages"][-1]["content"]
    assert asked_.count("predict the ") == 2
    assert asked_.endswith('The answer is".\nReply with the name of one entity and nothing else.')
    assert "candidates" not in asked_


def test_answers_are_not_paid_for_twice(serve, folder, tmp_path):
    refused = 401, {}, "no more"
    server = serve(*[says(germany)] * 10, refused, each=says(germany))
    train(server, folder, tmp_path / "m")
    with pytest.raises(RunFailed, match=r"\b10 answers\b"):
        fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r", asking={"concurrency": 1})
    result = fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r", asking={"concurrency": 4})
    assert len(server.bodies) == 24 + 1  # the refused one
    assert result.folder.manifest["circumstances"]["journal"]["answers"] == 24
    keys = [json.loads(line)["key"] for line in (tmp_path / "r/artifacts/answers.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 24


def test_a_question_that_fails_for_good_is_unscored(serve, folder, tmp_path):
    def refuses_berlin(body):
        return 400 if "of Berlin?" in body["messages"][-1]["content"].split("\n")[-2] else says(germany)(body)

    server = serve(each=refuses_berlin)
    train(server, folder, tmp_path / "m")
    rows = fathom_kgc.evaluate_links(tmp_path / "m", folder, tmp_path / "r").table().to_pylist()
    unscored = {row["query_id"] for row in rows if row["unscored"]}
    assert unscored == {"test/0", "test/2"}
    assert all("(400)" in row["unscored"] for row in rows if row["unscored"])


def test_a_server_without_the_model_is_told_before_anything_is_made(serve, folder, tmp_path):
    with pytest.raises(BadInput, match=mentions("'huge'", "'large'", "'tiny'")):
        train(serve(), folder, tmp_path / "m", weights="huge")
    assert not (tmp_path / "m").exists()


def test_another_model_behind_the_same_name_is_noticed(serve, folder, data, tmp_path):
    server = serve(each=says(germany), models={"data": [{"id": "tiny", "owned_by": "us"}]})
    train(server, folder, tmp_path / "m")
    server.models = {"data": [{"id": "tiny", "owned_by": "them"}]}
    with pytest.raises(BadInput, match=mentions("'tiny'")):
        open_links(tmp_path / "m", data, "cpu")


def test_a_model_at_hand_loads_no_client(model, data):
    assert isinstance(open_links(model, data, "cpu").answerer, Local)

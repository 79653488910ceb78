"""The cloze probe: every score is what a loop over candidates with the plain model gives."""

from __future__ import annotations

from importlib import import_module
from itertools import product

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Sentence, Template
from fathom.engine.models.base import Attention
from fathom.engine.scoring.masked import Pll, masked_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.tokens import encode_masked
from fathom.probes.options import ClozeOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.summary import summarise
from tests.conftest import build, make_local
from tests.messages import correspond, mentions
from tests.scripted import ScriptedModel

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
NAMES = ("Kampala", "Rio de Janeiro", "Lima", "N'Djamena", "Port Louis", "Ouagadougou", "St. John's")
FACTS = (("Uganda", "c0"), ("Brazil", "c1"), ("Peru", "c2"), ("Chad", "c3"))
TEMPLATES = ("The capital of [X] is [Y].", "[Y] is where [X] is ruled from.", "Of [X] one says ([Y]) and the like")


def wordpiece(texts: list[str]) -> PreTrainedTokenizerBase:
    """BERT's kind: pieces of words, [CLS] … [SEP] around."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    core.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=250, special_tokens=special, show_progress=False)
    )
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip


def byte_pairs(texts: list[str]) -> PreTrainedTokenizerBase:
    """RoBERTa's kind: a word behind a space has other tokens than one at the beginning; the mask takes the space."""
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=330, special_tokens=special, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )  # fmt: skip
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", mask_token=mask
    )


KINDS = {"BertForMaskedLM": wordpiece, "RobertaForMaskedLM": byte_pairs}


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    tokenizer = KINDS[request.param]([*NAMES, *TEMPLATES, *(subject for subject, _ in FACTS), "Atlantis"] * 3)
    network = build(request.param, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **SHAPE)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


@pytest.fixture
def data() -> QuerySet:
    return cities(FACTS)


def cities(facts, names=NAMES, templates=TEMPLATES, sentences=()) -> QuerySet:
    space = CandidateSet("capital", tuple(f"c{n}" for n in range(len(names))), tuple(names))
    queries = tuple(
        Query(f"capital/{n}", "capital", subject, subject, (gold,), "capital", sentences=tuple(sentences))
        for n, (subject, gold) in enumerate(facts)
    )
    relation = Relation("capital", "capital", tuple(map(Template, templates)), "1:1")
    return QuerySet("cities", queries, {"capital": space}, {"capital": relation})


def naive(model, sentence: str, name: str, masks: str, pooling: str) -> float:
    """One candidate by itself: as many masks as the whole sentence has tokens more than without the name, or one."""
    tokenizer = model.tokenizer
    before, after = sentence.split("[Y]")
    spaced = (" " if before.endswith(" ") else "") + name
    behind = before[-1:] if before and not before[-1].isspace() else ""
    own = tokenizer(behind + spaced, add_special_tokens=False)["input_ids"]
    own = own[len(tokenizer(behind, add_special_tokens=False)["input_ids"]) :]
    count = len(own) if masks == "several" else 1
    ids = tokenizer(before + tokenizer.mask_token * count + after)["input_ids"]
    places = [at for at, id_ in enumerate(ids) if id_ == tokenizer.mask_token_id]
    assert len(places) == count
    with torch.no_grad():
        log_probs = torch.log_softmax(model.network(input_ids=torch.tensor([ids])).logits[0].float(), dim=-1)
    values = [float(log_probs[places[min(n, count - 1)], token]) for n, token in enumerate(own)]
    return {"mean": float(np.mean(values)), "max": max(values), "first": values[0]}[pooling]


def test_scores_equal_a_loop_over_candidates(model, data, tmp_path):
    """Slots in the middle, at the beginning and behind a bracket; names of one to many tokens."""
    ways = list(product(("several", "one"), ("mean", "max", "first")))
    options = ClozeOptions(masks=("several", "one"), reduction=("mean", "max", "first"), batch_tokens=64)
    rows = run(RunRequest("cloze", model, data, options), tmp_path / "r").predictions().to_pylist()
    assert len(rows) == len(FACTS) * len(TEMPLATES) * len(ways)
    for row in rows:
        one, _, pooling = row["scoring"].rpartition("mask-")
        masks = "one" if one else "several"
        expected = [naive(model, row["prompt"], name, masks, pooling) for name in NAMES]
        np.testing.assert_allclose(row["scores"], expected, atol=1e-5)
        gold = dict(FACTS)[row["subject"]]
        above = [score - expected[int(gold[1:])] for score in expected]
        assert row["rank_optimistic"] == 1 + sum(difference > 1e-5 for difference in above)
        assert row["rank_pessimistic"] == sum(difference > -1e-5 for difference in above)


def test_one_pass_for_each_number_of_tokens(model, data, tmp_path):
    """However many candidates there are, and equal sentences once."""
    twice = cities((*FACTS, ("Uganda", "c5")))
    folder = run(RunRequest("cloze", model, twice, ClozeOptions(templates=(0,))), tmp_path / "r")
    lengths = {len(model.tokenizer(" " + name, add_special_tokens=False)["input_ids"]) for name in NAMES}
    assert folder.manifest["circumstances"]["sequences"] == len(FACTS) * len(lengths)


def test_pseudo_perplexity_is_that_of_the_sentence_with_its_answer(model, data, tmp_path):
    """By a loop over tokens: each masked alone, special tokens not scored."""
    folder = run(RunRequest("cloze", model, data, ClozeOptions(perplexity=True, templates=(1,))), tmp_path / "r")
    for row in folder.predictions().to_pylist():
        text = row["prompt"].replace("[Y]", NAMES[int(dict(FACTS)[row["subject"]][1:])])
        ids = model.tokenizer(text)["input_ids"]
        total = 0.0
        for at in range(1, len(ids) - 1):  # between the special tokens
            masked = torch.tensor([ids])
            masked[0, at] = model.tokenizer.mask_token_id
            with torch.no_grad():
                total += float(
                    torch.log_softmax(model.network(input_ids=masked).logits[0, at].float(), dim=-1)[ids[at]]
                )
        assert row["prompt_log_prob"] == pytest.approx(total, abs=1e-4)
        assert row["prompt_tokens"] == len(ids) - 2


def test_natural_sentences_are_asked_and_averaged_per_fact(tmp_path):
    """France is asked by two sentences (ranks 1 and 4), Italy by one (rank 2.5): accuracy (1/2 + 0) / 2 … by fact.

    A template's mean over both sentences' facts would weight France's second sentence like a template of its own.
    """
    words = ["is", "was", "of", "Paris", "Rome", "Madrid", "Lima", "."]
    weights = {"is": {"Paris": 9.0}, "was": {"Rome": 9.0, "Madrid": 8.0, "Lima": 7.0, "Paris": 6.0}}
    weights["of"] = {"Paris": 9.0, "Rome": 5.0, "Madrid": 5.0}
    model = ScriptedModel(words, weights, masked=True)
    names = ("Paris", "Rome", "Madrid", "Lima")
    good, bad, other = (
        Sentence("It is [Y].", "Paris"),
        Sentence("It was [Y].", "Paris"),
        Sentence("Much of [Y] .", "Roma"),
    )
    space = CandidateSet("s", names, names)
    relation = Relation("s", "s", (Template("[X] [Y]"),), "1:1")
    queries = (
        Query("0", "s", "", "", ("Paris",), "s", sentences=(good, bad)),
        Query("1", "s", "", "", ("Rome",), "s", sentences=(other,)),
    )
    data = QuerySet("sentences", queries, {"s": space}, {"s": relation})
    every = ClozeOptions(reading="template-free", sentences="all", any_surface=True, capitalize=False)
    folder = run(RunRequest("cloze", model, data, every), tmp_path / "all")
    rows = {(row["query_id"], row["template"]): row["rank"] for row in folder.predictions().to_pylist()}
    assert rows == {("0", 0): 1.0, ("0", 1): 4.0, ("1", 0): 2.5}
    [line] = summarise(folder).headlines
    assert line.accuracy.value == pytest.approx((1 / 2 + 0) / 2)
    assert folder.queries().column("fact_id").to_pylist() == [None, None]
    first = run(
        RunRequest("cloze", model, data, ClozeOptions(reading="template-free", capitalize=False)), tmp_path / "first"
    )
    about = {row["query_id"]: row for row in first.predictions().to_pylist()}
    assert about["0"]["prompt"] == "It is [Y]."
    assert "--any-surface" in about["1"]["unscored"]
    auto = run(RunRequest("cloze", model, data, ClozeOptions(capitalize=False)), tmp_path / "auto")
    assert {row["prompt"] for row in auto.predictions().to_pylist()} == {" [Y]"}


def test_causal_models_are_sent_to_the_statement_probe(data, tmp_path):
    with pytest.raises(BadInput, match=mentions("'scripted'", "--pool")):
        run(RunRequest("cloze", ScriptedModel(["a"], {}), data, ClozeOptions()), tmp_path / "r")


def test_statements_of_natural_sentences_have_the_same_candidates(tmp_path):
    data = cities(FACTS, sentences=(Sentence("They say that [Y] is far away."),))
    words = sorted({word for name in NAMES for word in name.split()} | {"They", "say", "that", "is", "far", "away"})
    options = StatementOptions(reading="template-free", pool="data", perplexity=True)
    folder = run(RunRequest("statement", ScriptedModel(words, {}), data, options), tmp_path / "r")
    rows = folder.predictions().to_pylist()
    assert {row["prompt"] for row in rows} == {"They say that [Y] is far away."}
    assert {row["num_candidates"] for row in rows} == {len(NAMES)}
    for row in rows:  # a causal model's perplexity is that of the statement it scores
        assert row["prompt_log_prob"] == pytest.approx(row["gold_scores"][0], abs=1e-4)


def test_the_letters_of_a_natural_sentence_stay(tmp_path):
    """A template begins with a capital; nobody writes "MTOR"."""
    data = cities(FACTS, sentences=(Sentence("mTOR inhibits [Y]."),))
    words = sorted({word for name in NAMES for word in name.split()} | {"mTOR", "inhibits"})
    options = StatementOptions(reading="template-free", pool="data")
    rows = run(RunRequest("statement", ScriptedModel(words, {}), data, options), tmp_path / "r").predictions()
    assert set(rows.column("prompt").to_pylist()) == {"mTOR inhibits [Y]."}


@pytest.mark.parametrize(("probe", "options"), [("cloze", ClozeOptions), ("statement", StatementOptions)])
def test_names_begin_a_natural_sentence_with_a_capital(probe, options, bert_cased, tmp_path):
    """ "deer" is "Deer" there, "mTOR" stays."""
    network = build("BertForMaskedLM", vocab_size=len(bert_cased), pad_token_id=bert_cased.pad_token_id, **SHAPE)
    model = make_local(network, bert_cased, Attention.BIDIRECTIONAL)

    def scores(*names, **given):
        query = Query("0", "s", "", "", ("a",), "s", sentences=(Sentence("[Y] is there."),))
        space = CandidateSet("s", ("a", "b", "c"), names)
        data = QuerySet("d", (query,), {"s": space}, {"s": Relation("s", "s", (), "1:1")})
        folder = run(RunRequest(probe, model, data, options(**given)), tmp_path / "-".join((*names, *given)))
        return pytest.approx(folder.predictions().column("scores")[0].as_py(), abs=1e-5)

    begun = scores("deer", "mTOR", "Lima")
    assert begun == scores("Deer", "mTOR", "Lima", capitalize=False).expected
    assert begun != scores("deer", "mTOR", "Lima", capitalize=False).expected


def test_a_sentence_that_spells_the_mask_is_not_asked(model, tmp_path):
    mask = model.tokenizer.mask_token
    data = cities(FACTS, sentences=(Sentence(f"A {mask} stands for a word, such as [Y]."),))
    rows = run(
        RunRequest("cloze", model, data, ClozeOptions(reading="template-free", any_surface=True)), tmp_path / "r"
    ).predictions()
    assert correspond(set(rows.column("unscored").to_pylist()), f"spells {mask}")


def test_names_without_tokens_are_listed_and_never_ranked(model, tmp_path):
    data = cities((*FACTS, ("Nowhere", "c7")), names=(*NAMES, "\u200b"))
    if model.tokenizer(" \u200b", add_special_tokens=False)["input_ids"]:
        pytest.skip("this tokenizer has tokens for everything")
    folder = run(RunRequest("cloze", model, data, ClozeOptions(templates=(0,))), tmp_path / "r")
    rows = {row["subject"]: row for row in folder.predictions().to_pylist()}
    assert "no tokens" in rows["Nowhere"]["unscored"]
    assert rows["Uganda"]["num_candidates"] == len(NAMES)
    assert rows["Uganda"]["rank"] is not None
    assert (tmp_path / "r" / "artifacts" / "excluded.tsv").read_text().splitlines()[1].startswith("data\tc7")


def test_names_of_unknown_tokens_are_never_ranked(tmp_path):
    """ "zzz" and "??? yyy" are not in the vocabulary: as candidates they say nothing, nor as the subject of a sentence.

    "New York" is known by half, and ranked. "Rome" stands twice, under two ids: both are ranked, and tie.
    """
    words = ["is", "a", "Rome", "Lima", "New", "Ann", "Bo", "."]
    model = ScriptedModel(words, {"a": {"Rome": 8.0, "<unk>": 9.0}}, masked=True)
    names = ("zzz", "??? yyy", "New York", "Rome", "Lima", "Rome")
    space = CandidateSet("data", tuple(f"c{n}" for n in range(len(names))), names)
    facts = {"Ann": ("c3",), "Bo": ("c0",), "Xyz": ("c4",), "Ann Xyz": ("c0", "c4")}
    queries = [Query(f"in/{name}", "in", name, name, gold, "data") for name, gold in facts.items()]
    relation = Relation("in", "in", (Template("[X] is a [Y] ."),), "1:N")
    data = QuerySet("d", tuple(queries), {"data": space}, {"in": relation})
    folder = run(RunRequest("cloze", model, data, ClozeOptions()), tmp_path / "r")
    rows = {row["subject"]: row for row in folder.predictions().to_pylist()}
    reasons = [rows[name]["unscored"] for name in facts]
    assert correspond(reasons, None, ("gold answer", "<unk>"), ("subject", "<unk>"), None)
    assert (rows["Ann"]["rank_optimistic"], rows["Ann"]["rank_pessimistic"], rows["Ann"]["num_candidates"]) == (1, 2, 4)
    assert set(rows["Ann"]["top_ids"]) == {"c2", "c3", "c4", "c5"}
    # One gold answer is left to rank, and ranks below both Romes and New York, whose <unk> is likely.
    assert np.isnan(rows["Ann Xyz"]["gold_ranks"][0])
    assert rows["Ann Xyz"]["gold_ranks"][1] == rows["Ann Xyz"]["rank"] == 4
    noted = folder.manifest["circumstances"]["notes"]
    tied = "tied data: 2 of 6", "same tokens"
    assert correspond(noted, ("shuffled",), ("excluded data: 2 of 6", "2 ×", "<unk>"), tied)
    listed = (tmp_path / "r" / "artifacts" / "excluded.tsv").read_text().splitlines()
    assert listed[1:] == [f"data\tc{n}\t{names[n]}\ttokenises to <unk> only" for n in range(2)]
    assert set(noted) <= set(summarise(folder).tables[0].notes)


def test_two_slots_are_no_cloze(model, tmp_path):
    data = cities(FACTS, templates=("[Y] of [X] is [Y].",))
    rows = run(RunRequest("cloze", model, data, ClozeOptions()), tmp_path / "r").predictions().to_pylist()
    assert correspond({row["unscored"] for row in rows}, "2 slots")


def test_relations_without_sentences_are_named(model, tmp_path):
    with pytest.raises(BadInput, match=mentions("relation capital", "mask")):
        run(RunRequest("cloze", model, cities(FACTS, templates=()), ClozeOptions()), tmp_path / "r")


class TestPools:
    def test_all_relations_together(self, model, tmp_path):
        one = cities(FACTS[:2], NAMES[:3])
        space = CandidateSet("other", ("n",), ("N'Djamena",))
        queries = (*one.queries, Query("other/0", "other", "Chad", "Chad", ("n",), "other"))
        relations = one.relations | {"other": Relation("other", "other", (Template("[X]: [Y]"),), "1:1")}
        data = QuerySet("both", queries, {**one.candidates, "other": space}, relations)
        rows = run(RunRequest("cloze", model, data, ClozeOptions()), tmp_path / "data").predictions().to_pylist()
        assert {row["num_candidates"] for row in rows} == {4}
        rows = (
            run(RunRequest("cloze", model, data, ClozeOptions(pool="relation")), tmp_path / "relation")
            .predictions()
            .to_pylist()
        )
        assert {(row["query_id"], row["num_candidates"]) for row in rows} >= {("capital/0", 3), ("other/0", 1)}

    def test_lists(self, model, data, tmp_path):
        """A name that the data knows is that entity; doubled lines are counted; absent golds are unscored."""
        file = tmp_path / "list.txt"
        file.write_text("Lima\nKampala\n\nAtlantis\nLima\n")
        folder = run(RunRequest("cloze", model, data, ClozeOptions(pool=str(file), templates=(0,))), tmp_path / "list")
        rows = {row["subject"]: row for row in folder.predictions().to_pylist()}
        assert folder.candidates()["list"] == (["c2", "c0", "Atlantis"], ["Lima", "Kampala", "Atlantis"])
        assert rows["Peru"]["rank"] is not None
        assert "not among" in rows["Brazil"]["unscored"]
        assert folder.manifest["circumstances"]["left_out"]["candidates"] == {"pool": 5, "doubles_in_pool": 1}

        more = run(
            RunRequest("cloze", model, data, ClozeOptions(add_candidates=file, templates=(0,))), tmp_path / "more"
        )
        assert {row["num_candidates"] for row in more.predictions().to_pylist()} == {len(NAMES) + 1}

    def test_what_a_list_says_is_identity_not_where_it_lies(self, model, data, tmp_path):
        (tmp_path / "one.txt").write_text("Atlantis")
        (tmp_path / "two.txt").write_text("Atlantis\n")
        (tmp_path / "three.txt").write_text("Atlantis\nMu\n")
        options = {"templates": (0,), "pool": "relation"}
        run(
            RunRequest("cloze", model, data, ClozeOptions(add_candidates=tmp_path / "one.txt", **options)),
            tmp_path / "r",
        )
        run(
            RunRequest("cloze", model, data, ClozeOptions(add_candidates=tmp_path / "two.txt", **options)),
            tmp_path / "r",
        )
        with pytest.raises(BadInput, match=r"data\.pool"):
            run(
                RunRequest("cloze", model, data, ClozeOptions(add_candidates=tmp_path / "three.txt", **options)),
                tmp_path / "r",
            )

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (None, ("missing", "relation or data")),
            (b"\n \n", "no names"),
            (b"\xff\xfe", "not UTF-8"),
        ],
    )
    def test_lists_that_are_none(self, model, data, tmp_path, content, fault):
        file = tmp_path / "list.txt"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(BadInput, match=mentions(fault)):
            run(RunRequest("cloze", model, data, ClozeOptions(pool=str(file))), tmp_path / "r")
        assert not (tmp_path / "r").exists()


def test_pseudo_log_likelihoods_equal_minicons(bert_cased, monkeypatch):
    """minicons 0.3 (``MaskedLMScorer``), variant "original"."""
    scorer = import_module("minicons.scorer")  # takes seconds: not for the tests that need no shared data
    # 0.3.39 asks for a method that transformers 5 renamed.
    monkeypatch.setattr(type(bert_cased), "batch_encode_plus", type(bert_cased).__call__, raising=False)
    network = build("BertForMaskedLM", vocab_size=len(bert_cased), **SHAPE)
    theirs = scorer.MaskedLMScorer(network, "cpu", tokenizer=bert_cased)
    model = make_local(network, bert_cased, Attention.BIDIRECTIONAL)
    texts = ["Kampala is the capital of Uganda.", "Penicillin is used to treat certain infections."]
    expected = theirs.sequence_score(texts, reduction=lambda scores: scores.sum().item(), PLL_metric="original")
    tokens = encode_masked(bert_cased, [Prompt(text, (), ()) for text in texts])
    found = masked_log_probs(model, tokens, Pll.ORIGINAL, Budget(None, model.device))
    np.testing.assert_allclose([float(np.nansum(values)) for values in found], expected, atol=1e-4)


def test_the_prior_is_taken_off(model, data, tmp_path):
    """By template: the score in the sentence less that in the template with its subject masked; of a sentence of its
    own less that in an empty one."""
    natural = cities(FACTS[:1], templates=(), sentences=[Sentence("In Uganda [Y] rules.")])
    for number, (asked, bare) in enumerate(((data, TEMPLATES[0]), (natural, "[Y]."))):
        folder = run(
            RunRequest("cloze", model, asked, ClozeOptions(prior=True, templates=(0,))), tmp_path / str(number)
        )
        rows = folder.predictions().to_pylist()
        scores = {row["scoring"]: row["scores"] for row in rows if row["query_id"] == "capital/0"}
        assert list(scores) == ["mask-mean", "mask-mean-over-prior"]
        mask = model.tokenizer.mask_token
        sentence = asked.phrasings(asked.queries[0])[0].fill("Uganda", "[Y]").text
        for place, name in enumerate(NAMES):
            own = naive_with_text(model, sentence, name)
            without = naive_with_text(model, bare.replace("[X]", mask), name, before=sentence)
            assert scores["mask-mean"][place] == pytest.approx(own, abs=1e-4)
            assert scores["mask-mean-over-prior"][place] == pytest.approx(own - without, abs=2e-4)
        summary = summarise(folder)
        assert [line.scoring for line in summary.headlines] == ["mask-mean", "mask-mean-over-prior"]
        assert "ece" not in summary.headlines[1].numbers  # a difference is no likelihood


def naive_with_text(model, text, name, before=""):
    """Mean log-probability of the name's tokens, as they stand in *before* (or the text), at its masks in the text."""
    tokenizer = model.tokenizer
    left = (before or text).split("[Y]")[0]
    behind = left[-1:] if left and not left[-1].isspace() else ""
    spaced = (" " if left.endswith(" ") else "") + name
    own = tokenizer(behind + spaced, add_special_tokens=False)["input_ids"]
    own = own[len(tokenizer(behind, add_special_tokens=False)["input_ids"]) :]
    head, tail = text.split("[Y]")
    ids = tokenizer(head + tokenizer.mask_token * len(own) + tail)["input_ids"]
    masks = [at for at, id_ in enumerate(ids) if id_ == tokenizer.mask_token_id]
    at = masks[-len(own) :]  # behind that of the subject
    with torch.no_grad():
        found = model.network(torch.tensor([ids])).logits[0].log_softmax(-1)
    return float(np.mean([float(found[place, id_]) for place, id_ in zip(at, own, strict=True)]))

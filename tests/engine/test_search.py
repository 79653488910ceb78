"""The exact search: whatever it leaves out, its ranks are those of scoring everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import RankResult, rank_best, unfiltered_ranks
from fathom.engine.scoring.search import SearchPlan, SearchQuestion, search
from fathom.engine.scoring.statements import Reduction
from fathom.engine.scoring.trie import AnswerTrie
from tests.conftest import TINY_SPECIAL, TINY_VOCABULARY, make_local, own_log_probs
from tests.engine.test_causal import network
from tests.scripted import ScriptedModel

CPU = torch.device("cpu")


def answer_space(size: int, seed: int = 0) -> list[list[int]]:
    """Token sequences with shared beginnings, sequences that end inside others, and equal ones."""
    random = np.random.default_rng(seed)
    few = random.integers(TINY_SPECIAL, TINY_VOCABULARY, 24)
    names = [random.choice(few, size=random.integers(1, 5)).tolist() for _ in range(size)]
    return [*names, names[0], names[1]]


def prompts(count: int, seed: int = 1) -> list[list[int]]:
    random = np.random.default_rng(seed)
    shared = random.integers(TINY_SPECIAL, TINY_VOCABULARY, 9).tolist()
    own = [random.integers(TINY_SPECIAL, TINY_VOCABULARY, random.integers(2, 6)).tolist() for _ in range(count)]
    return [[0, *shared, *tail] for tail in own]


def questions(size: int) -> list[SearchQuestion]:
    """Several golds, golds that share their name with another candidate (0 and *size*), and answers left out."""
    golds = [(0,), (1, 5), (7,), (size, 3), (9, 10, 11)]
    return [
        SearchQuestion(prompt, gold, known)
        for prompt, gold, known in zip(prompts(5), golds, [(), (2, 3), (), (4,), (12,)], strict=True)
    ]


def brute_force(
    network: torch.nn.Module, question: SearchQuestion, names: list[list[int]], plan: SearchPlan
) -> np.ndarray:
    """Every statement through the model by itself."""
    start = len(question.prompt)
    scores = []
    for name in names:
        log_probs = own_log_probs(network, [*question.prompt, *name]).double().numpy()
        counted = log_probs if plan.whole else log_probs[start - 1 :]
        scores.append(counted.sum() if plan.reduction is Reduction.SUM else counted.mean())
    return np.array(scores)


def assert_exact(
    found: RankResult, expected: np.ndarray, question: SearchQuestion, names: list[list[int]], plan: SearchPlan
) -> None:
    np.testing.assert_allclose(found.gold_scores, expected[list(question.gold)], atol=2e-4)
    # Equal names are equal scores; the separate passes above may differ by rounding.
    expected = expected[[names.index(name) for name in names]]
    ranks = rank_best(expected, question.gold, question.known)
    if plan.max_rank is not None and ranks.optimistic > plan.max_rank:
        assert found.ranks is None
    else:
        assert found.ranks is not None
        assert found.ranks == ranks
    knows_all = not plan.prune or (plan.every_gold and found.ranks is not None)
    assert found.gold_ranks == (unfiltered_ranks(expected, question.gold) if knows_all else [])
    listed = [score for _, score in found.top]
    np.testing.assert_allclose(listed, np.sort(expected)[::-1][: plan.top_k], atol=2e-4)
    assert (found.scores is None) == plan.prune
    if found.scores is not None:
        np.testing.assert_allclose(found.scores, expected, atol=2e-4)


PLANS = {
    "sum": SearchPlan(),
    "mean": SearchPlan(reduction=Reduction.MEAN),
    "sum of all": SearchPlan(whole=True),
    "mean of all": SearchPlan(reduction=Reduction.MEAN, whole=True),
    "all scores": SearchPlan(prune=False),
    "rank alone": SearchPlan(top_k=0),
    "rank of every gold": SearchPlan(every_gold=True),
    "rank of every gold, or stop": SearchPlan(max_rank=3, every_gold=True),
    "rank of every gold, mean": SearchPlan(top_k=0, every_gold=True, reduction=Reduction.MEAN),
    "stop at 1": SearchPlan(max_rank=1),
    "stop at 20": SearchPlan(reduction=Reduction.MEAN, max_rank=20, top_k=3),
    "stop, rank alone": SearchPlan(max_rank=5, top_k=0),
}


SLOW = (pytest.param(name, marks=pytest.mark.slow) for name in ("opt", "llama", "gemma2", "mistral-window-4"))


@pytest.fixture(scope="module", params=["gpt2", *SLOW])
def pair(request: pytest.FixtureRequest) -> tuple[torch.nn.Module, LocalModel]:
    return network(request.param), make_local(network(request.param))


@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_ranks_are_those_of_scoring_everything(pair: tuple[torch.nn.Module, LocalModel], plan: SearchPlan) -> None:
    own, model = pair
    names = answer_space(150)
    asked = questions(150)
    searched = search(model, AnswerTrie(names), asked, plan, Budget(None, CPU))
    for question, one in zip(asked, searched, strict=True):
        assert_exact(one.result, brute_force(own, question, names, plan), question, names, plan)


@pytest.mark.parametrize("tokens", [16, 100, 100_000])
def test_the_size_of_a_pass_changes_nothing(tokens: int) -> None:
    model, names, asked = make_local(network("gpt2")), answer_space(150), questions(150)
    usual = search(model, AnswerTrie(names), asked, SearchPlan(), Budget(None, CPU))
    other = search(model, AnswerTrie(names), asked, SearchPlan(), Budget(tokens, CPU))
    alone = [search(model, AnswerTrie(names), [question], SearchPlan(), Budget(None, CPU))[0] for question in asked]
    for one, two, three in zip(usual, other, alone, strict=True):
        assert one.result.ranks == two.result.ranks == three.result.ranks
        np.testing.assert_allclose(one.result.gold_scores, two.result.gold_scores, atol=1e-4)
        np.testing.assert_allclose(one.result.gold_scores, three.result.gold_scores, atol=1e-4)


def scripted() -> tuple[ScriptedModel, dict[str, int]]:
    """After "is", "a" has probability 6/10 and "b" 2/10 (eight words in all, weights 6, 2 and six times 1/3)."""
    words = ["is", "a", "b", "c", "d", "e"]
    third = 1 / 3
    weights = {"is": {"a": 6, "b": 2, "c": third, "d": third, "e": third, "is": third, "<s>": third, "<unk>": third}}
    model = ScriptedModel(words, weights)
    return model, model.tokenizer.get_vocab()


def test_a_branch_below_the_gold_answer_is_never_run() -> None:
    # Gold "a": log 0.6. Every other first token is less likely than that, so nothing after a first token is run: the
    # prompt "<s> is" costs two tokens, and no token of an answer is.
    model, ids = scripted()
    names = [[ids["a"]], [ids["b"], ids["c"]], [ids["c"], ids["d"]], [ids["d"], ids["e"], ids["a"]]]
    question = SearchQuestion([ids["<s>"], ids["is"]], (0,))
    [one] = search(model, AnswerTrie(names), [question], SearchPlan(top_k=0), Budget(None, CPU))
    assert one.result.ranks == (1, 1)
    assert one.tokens_run == 2
    np.testing.assert_allclose(one.result.gold_scores, [np.log(0.6)], rtol=1e-6)
    # Without pruning the inner nodes b, c, d and d e run as well.
    [full] = search(model, AnswerTrie(names), [question], SearchPlan(top_k=0, prune=False), Budget(None, CPU))
    assert full.result.ranks == (1, 1)
    assert full.tokens_run == 2 + 4
    assert np.isfinite(full.result.scores).all()


def test_the_mean_bound_reckons_with_the_longest_answer_below() -> None:
    # "b c": log 0.2 + log (1/8) = -3.69 in all, -1.84 a token, behind gold "e": log (1/30) = -3.40 in sum and before
    # it in mean. Pruning "b" by its own mean (log 0.2 = -1.61) is right here, but "c …" (log (1/30)) is below gold
    # only until its uniform successors (log (1/8) each) lift the mean: -3.40 - 3 * 2.08 over 4 is -2.41.
    model, ids = scripted()
    names = [[ids["e"]], [ids["c"], ids["a"], ids["a"], ids["a"]], [ids["b"], ids["c"]]]
    question = SearchQuestion([ids["<s>"], ids["is"]], (0,))
    budget = Budget(None, CPU)
    [by_sum] = search(model, AnswerTrie(names), [question], SearchPlan(top_k=0), budget)
    [by_mean] = search(model, AnswerTrie(names), [question], SearchPlan(reduction=Reduction.MEAN, top_k=0), budget)
    assert by_sum.result.ranks == (1, 1)
    assert by_mean.result.ranks == (3, 3)


def test_nan_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = scripted()
    model.table[ids["is"]] = torch.nan
    question = SearchQuestion([ids["<s>"], ids["is"]], (0,))
    [one] = search(model, AnswerTrie([[ids["a"]], [ids["b"], ids["c"]]]), [question], SearchPlan(), Budget(None, CPU))
    assert one.result.ranks is None
    assert "not a number" in one.result.unscored

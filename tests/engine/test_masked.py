"""Masked scores: what is masked for each, and that sharing passes changes no number."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from fathom.engine.models.base import Attention
from fathom.engine.scoring.masked import Pll, is_masked_with, masked_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.tokens import Role, Tokens
from tests.conftest import TINY_SPECIAL, TINY_VOCABULARY, build, make_local

CPU = torch.device("cpu")
CLS, SEP, MASK = 0, 2, 3  # <s>, </s>, <mask> of the tiny vocabulary

BERT = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}

ZOO: dict[str, tuple[str, dict]] = {
    "bert": ("BertForMaskedLM", BERT),
    "bert-untied": ("BertForMaskedLM", BERT | {"tie_word_embeddings": False}),
    "roberta": ("RobertaForMaskedLM", BERT),
    "xlm-roberta": ("XLMRobertaForMaskedLM", BERT),
    "albert": ("AlbertForMaskedLM", BERT | {"embedding_size": 24}),
    "distilbert": (
        "DistilBertForMaskedLM",
        {"dim": 48, "hidden_dim": 64, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64, "pad_token_id": 1},
    ),
    "electra": ("ElectraForMaskedLM", BERT | {"embedding_size": 24}),
    "modernbert": (
        "ModernBertForMaskedLM",
        BERT
        | {
            "num_hidden_layers": 3,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "local_attention": 6,
            "bos_token_id": 0,
            "cls_token_id": 0,
            "eos_token_id": 2,
            "sep_token_id": 2,
        },
    ),
    "deberta-v2": (
        "DebertaV2ForMaskedLM",
        BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16},
    ),
    "mpnet": ("MPNetForMaskedLM", BERT),
}


def network(name: str) -> PreTrainedModel:
    kind, options = ZOO[name]
    return build(kind, **(options | {"vocab_size": TINY_VOCABULARY}))


def statement(pieces: str) -> Tokens:
    """From a drawing: ``the cap+ital is New* Del*+hi* .``, where + continues a word and * is the answer's."""
    rng = np.random.default_rng(0)
    ids, roles, words = [CLS], [int(Role.SPECIAL)], [-1]
    for word, text in enumerate(pieces.split()):
        for piece in text.split("+"):
            ids.append(int(rng.integers(TINY_SPECIAL, TINY_VOCABULARY)))
            roles.append(int(Role.ANSWER if piece.endswith("*") else Role.TEMPLATE))
            words.append(word)
    return Tokens(np.array([*ids, SEP]), np.array([*roles, int(Role.SPECIAL)]), np.array([*words, -1]), 0)


def drawn(tokens: Tokens, variant: Pll) -> list[str]:
    """One line for each scored token: ``#`` where there is a mask."""
    masked = is_masked_with(tokens, variant)[tokens.roles != Role.SPECIAL]
    return ["".join("#" if cell else "." for cell in row) for row in masked]


# [CLS] the cap ##ital is New Del ##hi . [SEP], the answer being "New Delhi".
DELHI = "the cap+ital is New* Del*+hi* ."


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (  # the token alone
            Pll.ORIGINAL,
            [
                ".#........",  # the
                "..#.......",  # cap
                "...#......",  # ##ital
                "....#.....",  # is
                ".....#....",  # New
                "......#...",  # Del
                ".......#..",  # ##hi
                "........#.",  # .
            ],
        ),
        (  # "cap" must not see "##ital", nor "Del" "##hi"; "##ital" and "##hi" see what stands before them
            Pll.WITHIN_WORD_L2R,
            [
                ".#........",
                "..##......",
                "...#......",
                "....#.....",
                ".....#....",
                "......##..",
                ".......#..",
                "........#.",
            ],
        ),
        (  # as above, but the answer counts as one word
            Pll.ANSWER_L2R,
            [
                ".#........",
                "..##......",
                "...#......",
                "....#.....",
                ".....###..",
                "......##..",
                ".......#..",
                "........#.",
            ],
        ),
        (  # as a causal model would see it, but for [SEP]
            Pll.SENTENCE_L2R,
            [
                ".########.",
                "..#######.",
                "...######.",
                "....#####.",
                ".....####.",
                "......###.",
                ".......##.",
                "........#.",
            ],
        ),
    ],
)
def test_what_is_masked_by_hand(variant: Pll, expected: list[str]) -> None:
    assert drawn(statement(DELHI), variant) == expected


def test_template_inside_the_answers_word_stays_visible_to_the_answer() -> None:
    # "New*-like": the answer shares its word with the template's pieces. Within the word, what is later is masked;
    # left to right in the answer, only the answer is, as in lm-pub-quiz; the template's piece masks its own word.
    tokens = statement("a New*+er*+like+ly")
    assert drawn(tokens, Pll.WITHIN_WORD_L2R) == [".#.....", "..####.", "...###.", "....##.", ".....#."]
    assert drawn(tokens, Pll.ANSWER_L2R) == [".#.....", "..##...", "...#...", "....##.", ".....#."]


def test_an_answer_that_stands_twice_is_masked_in_both_places() -> None:
    # Else the second mention would give the first one away.
    tokens = statement("Rome* or Rome*")
    assert drawn(tokens, Pll.ANSWER_L2R) == [".#.#.", "..#..", "...#."]
    assert drawn(tokens, Pll.WITHIN_WORD_L2R) == [".#...", "..#..", "...#."]


def statements(seed: int = 0) -> list[Tokens]:
    """As those of a relation: one template, answers of one to three words of one to three pieces, one said twice."""
    rng = np.random.default_rng(seed)

    def ids(n: int) -> list[int]:
        return rng.integers(TINY_SPECIAL, TINY_VOCABULARY, n).tolist()

    begin, end = ids(4), ids(2)
    found = []
    for _ in range(12):
        words = [ids(rng.integers(1, 4)) for _ in range(rng.integers(1, 4))]
        answer = [piece for word in words for piece in word]
        number = [3 + i for i, word in enumerate(words) for _ in word]
        last = number[-1]
        found.append(
            Tokens(
                np.array([CLS, *begin, *answer, *end, SEP]),
                np.array([0, 2, 2, 1, 1, *[3] * len(answer), 1, 1, 0]),
                np.array([-1, 0, 0, 1, 2, *number, last + 1, last + 1, -1]),
                0,
            )
        )
    return [*found, found[0]]


def one_by_one(untouched: PreTrainedModel, tokens: Tokens, variant: Pll) -> NDArray[np.float32]:
    """Every token by a pass of its own, called as any user would call the model."""
    scores = np.full(len(tokens.ids), np.nan, dtype=np.float32)
    for position in np.flatnonzero(tokens.roles != Role.SPECIAL):
        ids = torch.from_numpy(np.where(is_masked_with(tokens, variant)[position], MASK, tokens.ids))[None]
        with torch.no_grad():
            log_probs = torch.log_softmax(untouched(input_ids=ids).logits[0, position].float(), dim=-1)
        scores[position] = log_probs[tokens.ids[position]]
    return scores


@pytest.mark.parametrize("name", ZOO)
def test_shared_passes_equal_one_by_one(name: str) -> None:
    untouched = network(name)
    variants = list(Pll) if name in ("bert", "roberta") else [Pll.ANSWER_L2R]
    expected = {v: [one_by_one(untouched, tokens, v) for tokens in statements()] for v in variants}
    model = make_local(untouched, attention=Attention.BIDIRECTIONAL)
    for variant in variants:
        found = masked_log_probs(model, statements(), variant, Budget(None, CPU))
        for ours, theirs in zip(found, expected[variant], strict=True):
            assert ours.dtype == np.float32
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=2e-6)  # NaN where the other has NaN


@pytest.mark.parametrize("variant", Pll)
def test_batch_and_order_change_nothing(variant: Pll) -> None:
    model = make_local(network("roberta"), attention=Attention.BIDIRECTIONAL)
    given = statements()
    expected = masked_log_probs(model, given, variant, Budget(None, CPU))
    for tokens in (16, 50, 10_000):
        for ours, theirs in zip(masked_log_probs(model, given, variant, Budget(tokens, CPU)), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
    order = np.random.default_rng(2).permutation(len(given))
    shuffled = masked_log_probs(model, [given[i] for i in order], variant, Budget(None, CPU))
    for ours, index in zip(shuffled, order, strict=True):
        np.testing.assert_allclose(ours, expected[index], atol=1e-4)


def test_a_pass_serves_every_statement_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # "a b X c" and "a b Y c": with X or Y masked they are the same sequence. 4 + 4 tokens are scored; the passes for
    # "a", "b" and "c" differ (X or Y stands there), the ones for X and Y are one: 3 + 3 + 1 = 7 sequences, not 8.
    # The second mention of the first statement adds none.
    first = statement("a b X* c")
    ids = first.ids.copy()
    ids[3] = 100
    second = Tokens(ids, first.roles, first.words, 0)
    model = make_local(network("bert"), attention=Attention.BIDIRECTIONAL)
    run = []
    hidden_at = model.hidden_at

    def counted(vectors: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        run.append(len(vectors))
        return hidden_at(vectors, at)

    monkeypatch.setattr(model, "hidden_at", counted)
    found = masked_log_probs(model, [first, second, first], Pll.ORIGINAL, Budget(None, CPU))
    assert sum(run) == 7
    np.testing.assert_array_equal(found[0], found[2])


def test_out_of_memory_halves_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_local(network("bert"), attention=Attention.BIDIRECTIONAL)
    expected = masked_log_probs(model, statements(), Pll.WITHIN_WORD_L2R, Budget(None, CPU))
    hidden = model.hidden

    def limited(vectors: torch.Tensor) -> torch.Tensor:
        if vectors.shape[0] * vectors.shape[1] > 60:
            raise torch.OutOfMemoryError
        return hidden(vectors)

    monkeypatch.setattr(model, "hidden", limited)
    budget = Budget(400, CPU)
    for ours, theirs in zip(masked_log_probs(model, statements(), Pll.WITHIN_WORD_L2R, budget), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert budget.halvings >= 2


def test_broken_weights_give_nan_scores() -> None:
    broken = network("bert")
    with torch.no_grad():
        broken.cls.predictions.transform.dense.weight[0] = torch.nan
    model = make_local(broken, attention=Attention.BIDIRECTIONAL)
    for scores in masked_log_probs(model, statements(), Pll.ORIGINAL, Budget(None, CPU)):
        assert np.isnan(scores).all()


def test_no_statements() -> None:
    model = make_local(network("bert"), attention=Attention.BIDIRECTIONAL)
    assert masked_log_probs(model, [], Pll.ORIGINAL, Budget(None, CPU)) == []


def test_gradients_reach_the_vectors() -> None:
    model = make_local(network("roberta"), attention=Attention.BIDIRECTIONAL)
    vectors = model.embed(torch.from_numpy(statements()[0].ids)[None]).detach().requires_grad_()
    torch.log_softmax(model.logits(model.hidden(vectors)[0, 3:4]), dim=-1)[0, 9].backward()
    assert vectors.grad is not None
    assert (vectors.grad[0].abs().sum(dim=-1) > 0).all()


def test_longest_sequence() -> None:
    # Both have 64 position vectors; RoBERTa's first two stand for padding and for "before the first token".
    for name, longest in (("bert", 64), ("roberta", 62)):
        model = make_local(network(name), attention=Attention.BIDIRECTIONAL)
        assert model.max_tokens == longest
        with torch.inference_mode():
            model.hidden(model.embed(torch.full((1, longest), 7)))

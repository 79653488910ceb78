"""Parity with lm-pub-quiz 0.3.3, the reference implementation of BEAR, on the same randomly initialised models.

``python -m tests.engine.test_parity`` prints the greatest deviation per model, score and reduction.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fathom.data.templates import Template
from fathom.engine.models.base import Attention
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.statements import (
    Reduction,
    Score,
    counted_tokens,
    encode_statements,
    reduce_scores,
    statement_log_probs,
)
from fathom.engine.scoring.tokens import Bos, resolve_bos
from tests.conftest import build, find_shared_data, load_bert_cased, load_gpt2, load_roberta, make_local, own_log_probs

pytest.importorskip("lm_pub_quiz", reason="parity needs lm-pub-quiz 0.3.3 (extra: test)")
# It asks pandas and transformers for things in ways they have come to warn about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RELATIONS = ("P36", "P30", "P103", "P19", "P131", "P6")  # P6, P30 and others have templates that begin with [Y]
SUBJECTS, ANSWERS = 2, 25
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


class Peers(NamedTuple):
    """A model twice: ours behind the seam, and untouched for lm-pub-quiz with a tokenizer of its own to alter."""

    ours: LocalModel
    theirs: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def _peers(kind: str, options: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> Peers:
    attention = Attention.BIDIRECTIONAL if kind.endswith("MaskedLM") else Attention.CAUSAL
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    options = options | special | {"vocab_size": len(tokenizer)}
    ours = make_local(build(kind, noise=0.05, **options), tokenizer, attention)
    # lm-pub-quiz gives tokenizers a padding token and another post-processor: it gets one of its own.
    return Peers(ours, build(kind, noise=0.05, **options), copy.deepcopy(tokenizer))


CAUSAL: dict[str, Callable[[Path], Peers]] = {
    "GPT-2": lambda data: _peers("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4}, load_gpt2(data)),
    # OPT's tokenizer is GPT-2's with other special tokens; RoBERTa's has them all, <pad> among them.
    "OPT": lambda data: _peers(
        "OPTForCausalLM",
        {
            "hidden_size": 32,
            "word_embed_proj_dim": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 128,
        },
        load_roberta(data),
    ),
    "Llama": lambda data: _peers("LlamaForCausalLM", WIDTH | {"num_key_value_heads": 2}, load_gpt2(data)),
}
MASKED: dict[str, Callable[[Path], Peers]] = {
    "BERT": lambda data: _peers("BertForMaskedLM", WIDTH | {"max_position_embeddings": 128}, load_bert_cased(data)),
    "RoBERTa": lambda data: _peers("RobertaForMaskedLM", WIDTH | {"max_position_embeddings": 128}, load_roberta(data)),
}
METRICS = {
    "original": Pll.ORIGINAL,
    "within_word_l2r": Pll.WITHIN_WORD_L2R,
    "answer_l2r+word_l2r": Pll.ANSWER_L2R,
}


@cache
def peers(name: str) -> Peers:
    data = find_shared_data()
    assert data is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (CAUSAL | MASKED)[name](data)


class Question(NamedTuple):
    template: str
    subject: str
    answers: list[str]


def questions(data: Path, subjects: int, answers: int) -> list[Question]:
    """Every template of each relation with its first subjects, over the beginning of its answer space."""
    folder = data / "bear" / "BEAR"
    metadata = json.loads((folder / "metadata_relations.json").read_text(encoding="utf-8"))
    found = []
    for relation in RELATIONS:
        lines = (folder / f"{relation}.jsonl").read_text(encoding="utf-8").splitlines()[:subjects]
        found += [
            Question(template, json.loads(line)["sub_label"], metadata[relation]["answer_space_labels"][:answers])
            for template in metadata[relation]["templates"]
            for line in lines
        ]
    return found


def evaluator(pair: Peers, **options: Any) -> Any:
    from lm_pub_quiz import Evaluator

    kind = "CLM" if pair.ours.attention is Attention.CAUSAL else "MLM"
    return Evaluator.from_model(pair.theirs, model_type=kind, tokenizer=pair.tokenizer, device="cpu", **options)


def their_scores(judge: Any, question: Question) -> dict[Reduction, list[float]]:
    """Both reductions by lm-pub-quiz's own functions, from one pass (``reduction=None`` gives its token scores)."""
    tokens = judge.score_answers(
        template=question.template,
        answers=question.answers,
        subject=question.subject,
        reduction=None,
        batch_size=32,
    )
    values = [[value for _, value in pairs] for pairs, _ in tokens]
    return {reduction: [judge._get_reduction_function(reduction)(v) for v in values] for reduction in Reduction}


def our_scores(model: LocalModel, question: Question, score: Score, pll: Pll) -> dict[Reduction, list[float]]:
    prompts = [Template(question.template).fill(question.subject, answer) for answer in question.answers]
    statements = encode_statements(model, prompts, resolve_bos(model.tokenizer, Bos.AUTO))
    log_probs = statement_log_probs(model, statements, pll, Budget(None, torch.device("cpu")))
    counted = [counted_tokens(tokens, score, model.attention) for tokens in statements]
    return {
        reduction: [reduce_scores(values, mask, reduction) for values, mask in zip(log_probs, counted, strict=True)]
        for reduction in Reduction
    }


class Deviation(NamedTuple):
    """:param greatest: nats. :param beyond: how far beyond what is allowed; not positive where all is well."""

    greatest: float
    beyond: float
    statements: int


def compare(
    name: str, score: Score, data: Path, metric: str = "", subjects: int = SUBJECTS, answers: int = ANSWERS
) -> dict[Reduction, Deviation]:
    pair = peers(name)
    options = {"pll_metric": metric} if metric else {}
    judge = evaluator(pair, conditional_score=score is Score.CONDITIONAL, **options)
    ours: dict[Reduction, list[float]] = {reduction: [] for reduction in Reduction}
    theirs: dict[Reduction, list[float]] = {reduction: [] for reduction in Reduction}
    for question in questions(data, subjects, answers):
        found = our_scores(pair.ours, question, score, METRICS.get(metric, Pll.ORIGINAL))
        expected = their_scores(judge, question)
        for reduction in Reduction:
            ours[reduction] += found[reduction]
            theirs[reduction] += expected[reduction]
    table = {}
    for reduction in Reduction:
        found, expected = np.array(ours[reduction]), np.array(theirs[reduction])
        off = np.abs(found - expected)
        assert not np.isnan(off).any()
        table[reduction] = Deviation(off.max(), (off - 1e-4 - 2e-6 * np.abs(expected)).max(), len(off))
    return table


def check(table: dict[Reduction, Deviation]) -> None:
    for reduction, deviation in table.items():
        assert deviation.beyond <= 0, f"{reduction}: off by {deviation.greatest:.1e} nats"


@pytest.mark.parametrize("score", [Score.FULL, Score.CONDITIONAL])
@pytest.mark.parametrize("name", CAUSAL)
def test_causal_scores_are_lm_pub_quizs(name: str, score: Score, shared_data: Path) -> None:
    check(compare(name, score, shared_data))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", MASKED)
def test_masked_scores_are_lm_pub_quizs(name: str, metric: str, shared_data: Path) -> None:
    # lm-pub-quiz needs a pass and a row of logits per place of the statement: a subject and some answers must do.
    check(compare(name, Score.FULL, shared_data, metric, subjects=1, answers=6))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", MASKED)
def test_masked_conditional_scores_are_lm_pub_quizs(name: str, metric: str, shared_data: Path) -> None:
    check(compare(name, Score.CONDITIONAL, shared_data, metric, subjects=1))


# --- where lm-pub-quiz 0.3.3 is not matched, and why

CAPITALS = Question("[X] is the capital of [Y].", "Paris", ["France", "Burkina Faso", "the Kingdom of the Netherlands"])


def test_left_padding_doubles_their_bos_and_moves_their_answer(shared_data: Path) -> None:
    """With a tokenizer that pads on the left, its look at the first token of the first statement finds padding.

    It then writes "<s>" in front of every text, which gets a second BOS, and whose three characters move every span:
    the conditional score begins before the answer. The values are those of the model itself, one sequence at a time.
    """
    pair = peers("OPT")
    left = pair._replace(tokenizer=load_roberta(shared_data))
    left.tokenizer.padding_side = "left"
    theirs = evaluator(left, conditional_score=True).score_answers(
        template=CAPITALS.template, subject=CAPITALS.subject, answers=CAPITALS.answers, reduction=None, batch_size=32
    )
    tokenizer = pair.ours.tokenizer
    ids = tokenizer("Paris is the capital of the Kingdom of the Netherlands.", add_special_tokens=False)["input_ids"]
    bos = tokenizer.bos_token_id
    # "the Kingdom of the Netherlands." are six tokens; theirs has the template's "of" as well. This statement is the
    # longest, so that nothing is padded.
    counted = theirs[2][0]
    assert [token for token, _ in counted][:2] == ["Ġof", "Ġthe"]
    doubled = own_log_probs(pair.theirs, [bos, bos, *ids])[-7:].numpy()
    np.testing.assert_allclose([value for _, value in counted], doubled, atol=1e-4)
    ours = our_scores(pair.ours, CAPITALS, Score.CONDITIONAL, Pll.ORIGINAL)[Reduction.SUM][2]
    assert ours == pytest.approx(own_log_probs(pair.theirs, [bos, *ids])[-6:].sum().item(), abs=1e-4)
    assert abs(ours - doubled.sum()) > 1


def test_their_tokenizer_is_not_what_it_was_and_ours_is(shared_data: Path) -> None:
    """lm-pub-quiz sets ``add_bos_token`` and back, which in transformers 5 exchanges the post-processor for good."""
    pair = peers("OPT")
    theirs, ours = load_roberta(shared_data), pair.ours.tokenizer
    with_special = theirs("Hi there")["input_ids"]
    evaluator(pair._replace(tokenizer=theirs)).score_answers(
        template=CAPITALS.template, subject=CAPITALS.subject, answers=CAPITALS.answers, reduction="sum"
    )
    our_scores(pair.ours, CAPITALS, Score.FULL, Pll.ORIGINAL)
    assert theirs("Hi there")["input_ids"] == with_special[1:-1]
    assert ours("Hi there")["input_ids"] == with_special


def test_sentence_l2r_masks_their_separator_and_not_ours(shared_data: Path) -> None:
    """For its "sentence_l2r" lm-pub-quiz masks to the end of the row, [SEP] included; special tokens are not of the
    sentence, and the other variants leave them alone. Both sums are worked out one pass at a time."""
    pair = peers("BERT")
    question = CAPITALS._replace(answers=["France"])
    tokenizer = pair.ours.tokenizer
    ids = torch.tensor(tokenizer("Paris is the capital of France.")["input_ids"])

    def worked_out(end: int) -> float:
        total = 0.0
        for position in range(1, len(ids) - 1):
            masked = ids.clone()
            masked[position:end] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = pair.theirs(input_ids=masked[None]).logits[0, position]
            total += torch.log_softmax(logits, dim=-1)[ids[position]].item()
        return total

    theirs = evaluator(pair, pll_metric="sentence_l2r").score_answers(
        template=question.template, subject=question.subject, answers=question.answers, reduction="sum"
    )[0]
    ours = our_scores(pair.ours, question, Score.FULL, Pll.SENTENCE_L2R)[Reduction.SUM][0]
    assert theirs == pytest.approx(worked_out(len(ids)), abs=1e-4)
    assert ours == pytest.approx(worked_out(len(ids) - 1), abs=1e-4)
    assert abs(ours - theirs) > 1e-3


def main() -> None:
    data = find_shared_data()
    assert data is not None, "set FATHOM_DATA"
    print("| model | score | variant | statements | sum: greatest deviation | mean |\n|---|---|---|---|---|---|")  # noqa: T201
    runs = [(name, score, "") for name in CAUSAL for score in (Score.FULL, Score.CONDITIONAL)]
    runs += [
        (name, score, metric) for name in MASKED for score in (Score.FULL, Score.CONDITIONAL) for metric in METRICS
    ]
    for name, score, metric in runs:
        # As the tests, but with twice the subjects and more answers where those had to save time.
        table = compare(name, score, data, metric, answers=12 if metric and score is Score.FULL else ANSWERS)
        total, mean = table[Reduction.SUM], table[Reduction.MEAN]
        print(  # noqa: T201
            f"| {name} | {score} | {metric or '–'} | {total.statements} | {total.greatest:.1e} | {mean.greatest:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

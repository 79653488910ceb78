"""Statement scores from token scores: a sum or mean over the tokens that count."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.data.templates import Prompt
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.likelihoods import LikelihoodServer, Text
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.masked import Pll, masked_log_probs
from fathom.engine.scoring.memory import Budget, on_device, target_log_probs
from fathom.engine.scoring.seq2seq import Form, as_pair, seq2seq_log_probs
from fathom.engine.scoring.tokens import Role, Tokens, align_answers, encode_causal, encode_masked, token_texts
from fathom.engine.scoring.trie import Ints

SPECIAL, ANSWER = int(Role.SPECIAL), int(Role.ANSWER)  # members of enumerations are slow to look up


class Score(StrEnum):
    """The tokens that count.

    ``full``: the whole statement (for an encoder-decoder its target, which may be the answer alone). ``conditional``:
    for causal models and encoder-decoders from the answer's first token to the end, given what precedes; for masked
    models the answer's tokens, given the rest. ``answer``: the answer's tokens; a causal model does not see a subject
    that follows them.
    """

    FULL = "full"
    CONDITIONAL = "conditional"
    ANSWER = "answer"


class Reduction(StrEnum):
    """The aggregation of token scores: ``sum`` (nats per statement) or ``mean`` (nats per token)."""

    SUM = "sum"
    MEAN = "mean"


class StatementScoring(NamedTuple):
    """One scoring of statements; several share their passes."""

    reduction: Reduction
    score: Score

    @property
    def name(self) -> str:
        """Name in the predictions, such as "sum/full"."""
        return f"{self.reduction}/{self.score}"


def counted_tokens(tokens: Tokens, score: Score, attention: Attention) -> NDArray[np.bool_]:
    """Return which tokens *score* counts, shape (n,): never special tokens, nor a first token without a context."""
    return _counted(tokens.roles, np.array([len(tokens.roles)]), score, attention)


def _counted(
    roles: NDArray[np.int64], lengths: NDArray[np.int64], score: Score, attention: Attention
) -> NDArray[np.bool_]:
    """Apply :func:`counted_tokens` to several concatenated texts of *lengths* tokens."""
    scored: NDArray[np.bool_] = roles != SPECIAL
    begins = (np.cumsum(lengths) - lengths)[lengths > 0]
    if attention is Attention.CAUSAL:
        scored[begins] = False  # BOS, or a first token without one
    answer: NDArray[np.bool_] = roles == ANSWER
    if score is Score.FULL:
        return scored
    if score is Score.CONDITIONAL and attention is not Attention.BIDIRECTIONAL:
        seen = np.cumsum(answer)
        before = np.repeat(seen[begins] - answer[begins], lengths[lengths > 0])
        return np.asarray(scored & (seen > before))
    return scored & answer


def reduce_scores(log_probs: NDArray[np.float32], counted: NDArray[np.bool_], reduction: Reduction) -> float:
    """Return the score of a statement, summed in float64; NaN if a token's score is NaN or no token counts."""
    values = log_probs[counted].astype(np.float64)
    if not len(values):
        return float("nan")
    return float(values.sum() if reduction is Reduction.SUM else values.mean())


def encode_statements(model: Model, prompts: Sequence[Prompt], bos: int | None) -> list[Tokens]:
    """Tokenise statements, with *bos* first for causal models, else the tokenizer's own special tokens."""
    if model.attention is Attention.CAUSAL:
        return encode_causal(model.tokenizer, prompts, bos)
    return encode_masked(model.tokenizer, prompts)


class ScoredStatement(NamedTuple):
    """A statement with token scores.

    :param log_probs: of its tokens in nats, shape (n,); None if it exceeds the model's window, or for another fault.
    """

    tokens: Tokens
    log_probs: NDArray[np.float32] | None
    fault: str | None = None


class TokenScores(NamedTuple):
    """The tokens of a statement without special ones.

    :param tokens: the text of each.
    :param log_probs: in nats; None for a token that does not count.
    """

    tokens: list[str]
    log_probs: list[float | None]


class StatementScores(NamedTuple):
    """Scores of statements in one scoring.

    :param scores: nats per statement or per token, NaN for a statement without one, shape (statements,).
    :param counts: number of tokens that count, shape (statements,).
    """

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]


def reduce_all(
    statements: Sequence[ScoredStatement], scoring: StatementScoring, attention: Attention
) -> StatementScores:
    """Apply :func:`reduce_scores` to each, equal to the last bit, without a call to NumPy for each.

    The score is NaN if a part of the answer has nothing before it to be scored by, see :func:`is_cut`.
    """
    if not statements:
        return StatementScores(np.empty(0), np.empty(0, dtype=np.int64))
    roles = [statement.tokens.roles for statement in statements]
    lengths = np.array(list(map(len, roles)))
    values = [
        np.full(length, np.nan, dtype=np.float32) if statement.log_probs is None else statement.log_probs
        for statement, length in zip(statements, lengths.tolist(), strict=True)
    ]
    counted = _counted(np.concatenate(roles), lengths, scoring.score, attention)
    counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[counted], minlength=len(lengths))
    some = counts > 0
    scores = np.full(len(lengths), np.nan)
    if some.any():
        scores[some] = np.add.reduceat(
            np.concatenate(values)[counted].astype(np.float64), (np.cumsum(counts) - counts)[some]
        )
    if scoring.reduction is Reduction.MEAN:
        scores[some] /= counts[some]
    if attention is Attention.CAUSAL:
        scores[[is_cut(statement.tokens) for statement in statements]] = np.nan
    return StatementScores(scores, counts)


def align_scored(statements: Sequence[ScoredStatement], candidates: int) -> list[ScoredStatement]:
    """Apply :func:`align_answers` to statements that are scored already."""
    aligned = align_answers([statement.tokens for statement in statements], candidates)
    return [statement._replace(tokens=tokens) for statement, tokens in zip(statements, aligned, strict=True)]


def is_cut(tokens: Tokens) -> bool:
    """Return whether a first token, which a causal model cannot score, is a part of the answer."""
    return len(tokens.roles) > 0 and bool(tokens.roles[0] == ANSWER)


def token_scores(model: Model, text: str, statement: ScoredStatement, score: Score) -> TokenScores:
    """Return what a scored statement's score consists of. :param text: of the statement."""
    tokens, log_probs = statement.tokens, statement.log_probs
    assert log_probs is not None
    counted = np.where(counted_tokens(tokens, score, model.attention), log_probs, np.nan)
    texts, shown = token_texts(model.tokenizer, text, tokens), np.flatnonzero(tokens.roles != SPECIAL).tolist()
    values = [None if np.isnan(value) else value for value in counted[shown].tolist()]
    return TokenScores([texts[place] for place in shown], values)


def score_statements(
    model: Model, prompts: Sequence[Prompt], bos: int | None, pll: Pll, budget: Budget, form: Form = Form.SPLIT
) -> list[ScoredStatement]:
    """Tokenise statements and score those that fit the model's window.

    :param bos: first token for causal models.
    :param pll: for masked models.
    :param form: for encoder-decoders.
    """
    if isinstance(model, LikelihoodServer):
        return _score_served(model, prompts, bos)
    return score_encoded(model, encode_statements(model, prompts, bos) if prompts else [], pll, budget, form)


def score_encoded(
    model: Model, statements: Sequence[Tokens], pll: Pll, budget: Budget, form: Form = Form.SPLIT
) -> list[ScoredStatement]:
    """Score statements of :func:`encode_statements` that fit the model's window."""
    if isinstance(model, EncoderDecoder):
        return _score_pairs(model, statements, budget, form)
    fits = _fits(model, [len(tokens.ids) for tokens in statements])
    runnable = [tokens for tokens, fit in zip(statements, fits, strict=True) if fit]
    scores = iter(statement_log_probs(model, runnable, pll, budget))
    return [
        ScoredStatement(tokens, next(scores) if fit else None) for tokens, fit in zip(statements, fits, strict=True)
    ]


def _fits(model: Model, lengths: Sequence[int]) -> list[bool]:
    return [model.max_tokens is None or length <= model.max_tokens for length in lengths]


def _score_pairs(
    model: EncoderDecoder, statements: Sequence[Tokens], budget: Budget, form: Form
) -> list[ScoredStatement]:
    pairs = [as_pair(model.tokenizer, tokens, form) for tokens in statements]
    fits = _fits(model, [pair.longest for pair in pairs])
    scores = iter(seq2seq_log_probs(model, [pair for pair, fit in zip(pairs, fits, strict=True) if fit], budget))
    return [ScoredStatement(pair.target, next(scores) if fit else None) for pair, fit in zip(pairs, fits, strict=True)]


def _score_served(model: LikelihoodServer, prompts: Sequence[Prompt], bos: int | None) -> list[ScoredStatement]:
    statements = encode_causal(model.tokenizer, prompts, bos)
    fits = _fits(model, [len(tokens.ids) for tokens in statements])
    texts = [
        Text(tuple(tokens.ids.tolist()), prompt.text, _first_scored(tokens))
        for prompt, tokens, fit in zip(prompts, statements, fits, strict=True)
        if fit
    ]
    scores = iter(model.log_probs(texts))
    return [
        ScoredStatement(tokens, *next(scores)) if fit else ScoredStatement(tokens, None)
        for tokens, fit in zip(statements, fits, strict=True)
    ]


def _first_scored(tokens: Tokens) -> int:
    counted = np.flatnonzero(counted_tokens(tokens, Score.FULL, Attention.CAUSAL))
    return int(counted[0]) if len(counted) else len(tokens.ids)


class Likelihood(NamedTuple):
    """:param log_prob: nats per text of :attr:`tokens` tokens; NaN if the text exceeds the window."""

    log_prob: float
    tokens: int


def text_likelihoods(
    model: Model, texts: Sequence[str], bos: int | None, budget: Budget, context: int = 0
) -> list[Likelihood]:
    """Return the log-likelihood of whole texts; for masked models the pseudo-log-likelihood (Salazar et al. 2020).

    Special tokens are not scored. exp(−log_prob / tokens) is the (pseudo-)perplexity of a text.

    :param context: number of leading characters of each text that are given and not scored.
    """
    prompts = [Prompt(text, (), (), context) for text in texts]
    statements = score_statements(model, prompts, bos, Pll.ORIGINAL, budget)
    reduced = reduce_all(statements, StatementScoring(Reduction.SUM, Score.FULL), model.attention)
    return [Likelihood(*pair) for pair in zip(reduced.scores.tolist(), reduced.counts.tolist(), strict=True)]


def statement_log_probs(
    model: Model, statements: Sequence[Tokens], pll: Pll, budget: Budget
) -> list[NDArray[np.float32]]:
    """Return token scores in nats of each statement. :param pll: for masked models."""
    if model.attention is Attention.CAUSAL:
        return causal_log_probs(model, [tokens.ids.tolist() for tokens in statements], budget)
    return masked_log_probs(model, statements, pll, budget)


PROMPTS = 8
"""Most prompts that a process compares."""
SPREAD = 4
"""Shards that these come from, as prompts of one template are alike."""
LEAST, MOST = 4, 16
"""Tokens of a prompt; of longer ones the last are compared."""
GAIN = 1.0
"""Nats per token by which a model that reads finds the right order more probable."""
SEED = 0
EVERY = 3
"""One in so many tokens of a masked model's prompt is masked and scored."""
SHUFFLED = (
    "the model finds shuffled tokens of its own right prompts as probable as the prompts: is this its tokenizer, its "
    "adapter, its weights?"
)


def order_gains(model: Model, texts: Sequence[str], bos: int | None, form: Form, budget: Budget) -> list[float]:
    """Return how much more probable each text is than its shuffled tokens, in nats per token.

    So it shows whether a model reads: another tokenizer of the same size, random weights or a destructive adapter raise
    no error.


    :param texts: those of fewer than :data:`LEAST` tokens are left out.
    :param bos: first token for causal models.
    :param form: for encoder-decoders.
    """
    encoded = encode_statements(model, [Prompt(text, (), ()) for text in texts], bos)
    contents = [tokens.ids[tokens.roles != Role.SPECIAL] for tokens in encoded]
    longest = min(MOST, (model.max_tokens or MOST) - len(encoded[0].ids) + len(contents[0])) if encoded else 0
    contents = [ids[-longest:] for ids in contents if min(len(ids), longest) >= LEAST]
    if not contents:
        return []
    size, random = min(map(len, contents)), np.random.default_rng(SEED)
    ids = np.array([ids[-size:] for ids in contents] * 2)
    order = np.array([np.arange(size)] * len(contents) + [random.permutation(size) for _ in contents])
    begins, ends = (encoded[0].roles != Role.SPECIAL).nonzero()[0][[0, -1]].tolist()
    around = encoded[0].ids[:begins], encoded[0].ids[ends + 1 :]
    scores = budget.attempt(
        lambda: _shuffled_scores(model, np.take_along_axis(ids, order, 1), order, around, form, budget)
    )
    return [] if scores is None else (scores[: len(contents)] - scores[len(contents) :]).tolist()


def _shuffled_scores(
    model: Model, ids: Ints, order: Ints, around: tuple[Ints, Ints], form: Form, budget: Budget
) -> NDArray[np.float64]:
    """Return the mean log p of the scored tokens of each row in nats, shape (rows,)."""
    before, after = (np.tile(tokens, (len(ids), 1)) for tokens in around)
    rows, start = np.hstack([before, ids, after]), before.shape[1]
    if isinstance(model, EncoderDecoder):
        return _scores_of_pairs(model, rows, slice(start, start + ids.shape[1]), form, budget)
    with torch.inference_mode():
        if model.attention is Attention.CAUSAL:
            first = max(1, start)
            hidden = model.hidden(model.embed(on_device(rows, model.device)))[:, first - 1 : -1].flatten(0, 1)
            targets = rows[:, first:].ravel()
        else:
            row, place = np.nonzero(order % EVERY == 1)
            targets, masked = ids[row, place], rows.copy()
            masked[row, start + place] = model.tokenizer.mask_token_id
            states = model.hidden(model.embed(on_device(masked, model.device)))
            hidden = states[on_device(row, model.device), on_device(start + place, model.device)]
        log_probs = target_log_probs(model, hidden, np.arange(len(targets)), targets)
        return log_probs.view(len(rows), -1).double().mean(dim=1).cpu().numpy()


def _scores_of_pairs(
    model: EncoderDecoder, rows: Ints, content: slice, form: Form, budget: Budget
) -> NDArray[np.float64]:
    """Score the middle half of the text, in its place in the shuffled one."""
    roles, quarter = np.full(rows.shape[1], int(Role.SPECIAL)), (content.stop - content.start) // 4
    roles[content] = Role.TEMPLATE
    roles[content.start + quarter : content.stop - quarter] = Role.ANSWER
    no_words = np.full(len(roles), -1)
    pairs = [as_pair(model.tokenizer, Tokens(ids, roles, no_words, 0), form) for ids in rows]
    scores = seq2seq_log_probs(model, pairs, budget)
    return np.array([row[pair.target.roles != Role.SPECIAL].mean() for pair, row in zip(pairs, scores, strict=True)])

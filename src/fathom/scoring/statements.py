"""From token scores to statement scores: what is summed (or averaged) over which tokens."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.templates import Prompt
from fathom.models.base import Attention, Model
from fathom.models.completions import Text
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.models.likelihoods import LikelihoodServer
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.masked import Pll, masked_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.seq2seq import Form, as_pair, seq2seq_log_probs
from fathom.scoring.tokens import Role, Tokens, encode_causal, encode_masked

SPECIAL, ANSWER = int(Role.SPECIAL), int(Role.ANSWER)  # members of enumerations are slow to look up


class Score(StrEnum):
    """Which tokens count.

    ``full``: all of the statement (of what an encoder-decoder says, which may be the answer alone). ``conditional``:
    causal models and encoder-decoders from the answer's first token to the end, given what stands before; masked
    models the answer's tokens, given the rest. ``answer``: the answer's tokens alone; a causal model does not see a
    subject that stands behind them.
    """

    FULL = "full"
    CONDITIONAL = "conditional"
    ANSWER = "answer"


class Reduction(StrEnum):
    """How token scores become one: ``sum`` (nats per statement) or ``mean`` (nats per token)."""

    SUM = "sum"
    MEAN = "mean"


class Way(NamedTuple):
    """One way of scoring a statement; several share their passes."""

    reduction: Reduction
    score: Score

    @property
    def name(self) -> str:
        """As in the predictions, such as "sum/full"."""
        return f"{self.reduction}/{self.score}"


def counted_tokens(tokens: Tokens, score: Score, attention: Attention) -> NDArray[np.bool_]:
    """Which tokens *score* counts, shape (n,). Special tokens never, nor a first token that nothing stands before."""
    return _counted(tokens.roles, np.array([len(tokens.roles)]), score, attention)


def _counted(
    roles: NDArray[np.int64], lengths: NDArray[np.int64], score: Score, attention: Attention
) -> NDArray[np.bool_]:
    """See :func:`counted_tokens`.

    :param roles: of the tokens of several texts, one after another.
    :param lengths: of these texts.
    """
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
    """One number for a statement; summed in float64. NaN where a token's score is NaN or no token counts."""
    values = log_probs[counted].astype(np.float64)
    if not len(values):
        return float("nan")
    return float(values.sum() if reduction is Reduction.SUM else values.mean())


def encode_statements(model: Model, prompts: Sequence[Prompt], bos: int | None) -> list[Tokens]:
    """:param bos: what causal models are shown first; masked models get their tokenizer's own special tokens."""
    if model.attention is Attention.CAUSAL:
        return encode_causal(model.tokenizer, prompts, bos)
    return encode_masked(model.tokenizer, prompts)


class Scored(NamedTuple):
    """A statement.

    :param log_probs: of its tokens in nats, shape (n,); None where it is longer than the model's window, or for
        another fault.
    """

    tokens: Tokens
    log_probs: NDArray[np.float32] | None
    fault: str | None = None


class Reduced(NamedTuple):
    """Statements, scored in one way.

    :param scores: nats per statement or per token, NaN where a statement has none, shape (statements,).
    :param counts: the tokens that count, shape (statements,).
    """

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]


def reduce_all(statements: Sequence[Scored], way: Way, attention: Attention) -> Reduced:
    """What :func:`reduce_scores` makes of each, to the last bit, without a call to NumPy for each."""
    if not statements:
        return Reduced(np.empty(0), np.empty(0, dtype=np.int64))
    roles = [one.tokens.roles for one in statements]
    lengths = np.array(list(map(len, roles)))
    values = [
        np.full(length, np.nan, dtype=np.float32) if one.log_probs is None else one.log_probs
        for one, length in zip(statements, lengths.tolist(), strict=True)
    ]
    counted = _counted(np.concatenate(roles), lengths, way.score, attention)
    counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[counted], minlength=len(lengths))
    some = counts > 0
    scores = np.full(len(lengths), np.nan)
    if some.any():
        scores[some] = np.add.reduceat(
            np.concatenate(values)[counted].astype(np.float64), (np.cumsum(counts) - counts)[some]
        )
    if way.reduction is Reduction.MEAN:
        scores[some] /= counts[some]
    return Reduced(scores, counts)


def score_statements(
    model: Model, prompts: Sequence[Prompt], bos: int | None, pll: Pll, budget: Budget, form: Form = Form.SPLIT
) -> list[Scored]:
    """Tokenise statements and score those that fit the model's window.

    :param bos: what causal models are shown first.
    :param pll: concerns masked models alone.
    :param form: concerns encoder-decoders alone.
    """
    if isinstance(model, EncoderDecoder):
        return _score_pairs(model, prompts, budget, form)
    if isinstance(model, LikelihoodServer):
        return _score_served(model, prompts, bos)
    return score_encoded(model, encode_statements(model, prompts, bos) if prompts else [], pll, budget)


def score_encoded(model: Model, statements: Sequence[Tokens], pll: Pll, budget: Budget) -> list[Scored]:
    """Score those that fit the window of a causal or masked model, see :func:`encode_statements`."""
    fits = [len(tokens.ids) <= (model.max_tokens or len(tokens.ids)) for tokens in statements]
    runnable = [tokens for tokens, fit in zip(statements, fits, strict=True) if fit]
    found = iter(statement_log_probs(model, runnable, pll, budget))
    return [Scored(tokens, next(found) if fit else None) for tokens, fit in zip(statements, fits, strict=True)]


def _score_pairs(model: EncoderDecoder, prompts: Sequence[Prompt], budget: Budget, form: Form) -> list[Scored]:
    pairs = [as_pair(model.tokenizer, tokens, form) for tokens in encode_masked(model.tokenizer, prompts)]
    fits = [pair.longest <= (model.max_tokens or pair.longest) for pair in pairs]
    found = iter(seq2seq_log_probs(model, [pair for pair, fit in zip(pairs, fits, strict=True) if fit], budget))
    return [Scored(pair.target, next(found) if fit else None) for pair, fit in zip(pairs, fits, strict=True)]


def _score_served(model: LikelihoodServer, prompts: Sequence[Prompt], bos: int | None) -> list[Scored]:
    statements = encode_causal(model.tokenizer, prompts, bos)
    fits = [len(tokens.ids) <= (model.max_tokens or len(tokens.ids)) for tokens in statements]
    texts = [
        Text(tuple(tokens.ids.tolist()), prompt.text, _first_scored(tokens))
        for prompt, tokens, fit in zip(prompts, statements, fits, strict=True)
        if fit
    ]
    found = iter(model.log_probs(texts))
    return [
        Scored(tokens, *next(found)) if fit else Scored(tokens, None)
        for tokens, fit in zip(statements, fits, strict=True)
    ]


def _first_scored(tokens: Tokens) -> int:
    """The place of the first token that may count."""
    counted = np.flatnonzero(counted_tokens(tokens, Score.FULL, Attention.CAUSAL))
    return int(counted[0]) if len(counted) else len(tokens.ids)


class Likelihood(NamedTuple):
    """:param log_prob: nats per text, of :attr:`tokens` tokens; NaN where the text is longer than the window."""

    log_prob: float
    tokens: int


def text_likelihoods(
    model: Model, texts: Sequence[str], bos: int | None, budget: Budget, context: int = 0
) -> list[Likelihood]:
    """What a model makes of whole texts: the log-likelihood of its tokens, or for masked models the sum of the
    log-probabilities of each token given all others (Salazar et al. 2020). Special tokens are not scored.

    exp(−log_prob / tokens) is the (pseudo-)perplexity of a text.

    :param context: characters at the front of every text that are given and not scored.
    """
    prompts = [Prompt(text, (), (), context) for text in texts]
    statements = score_statements(model, prompts, bos, Pll.ORIGINAL, budget)
    found = reduce_all(statements, Way(Reduction.SUM, Score.FULL), model.attention)
    return [Likelihood(score, count) for score, count in zip(found.scores.tolist(), found.counts.tolist(), strict=True)]


def statement_log_probs(
    model: Model, statements: Sequence[Tokens], pll: Pll, budget: Budget
) -> list[NDArray[np.float32]]:
    """Token scores in nats of every statement, by the kind of the model; *pll* concerns masked models alone."""
    if model.attention is Attention.CAUSAL:
        return causal_log_probs(model, [tokens.ids.tolist() for tokens in statements], budget)
    return masked_log_probs(model, statements, pll, budget)

"""Statement scores from token scores: a sum or mean over the tokens that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fathom.data.templates import Prompt
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.completions import Text
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.likelihoods import LikelihoodServer
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.masked import Pll, masked_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.seq2seq import Form, as_pair, seq2seq_log_probs
from fathom.engine.scoring.tokens import Role, Tokens, align_answers, encode_causal, encode_masked, token_texts

SPECIAL, ANSWER = int(Role.SPECIAL), int(Role.ANSWER)  # members of enumerations are slow to look up
Step = TypeVar("Step")
Prepared = TypeVar("Prepared")


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


class Prefetcher(Generic[Step, Prepared]):
    """A thread that prepares the next step on the host while the device works on the present one.

    The function is passed with each call and not stored, which would keep its owner alive.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "prefetcher")
        self._begun: tuple[Step, Future[Prepared]] | None = None

    def begin(self, prepare: Callable[[Step], Prepared], step: Step) -> None:
        """Start preparing *step*, and forget any earlier step that was not taken.

        :param prepare: may run in parallel with everything else.
        """
        self._begun = step, self._thread.submit(prepare, step)

    def take(self, prepare: Callable[[Step], Prepared], step: Step) -> Prepared:
        """Return *step* prepared: begun earlier, or prepared now. Raises the errors of preparing it."""
        begun, self._begun = self._begun, None
        return begun[1].result() if begun is not None and begun[0] is step else prepare(step)

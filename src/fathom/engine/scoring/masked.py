"""Pseudo-log-likelihoods of masked models: each distinct masked sequence runs once for all statements.

A token's score is log p(token | the statement with it, and the tokens of the variant, masked). Two statements that
differ only in masked tokens share that pass; sequences of one length run together without padding, and the head runs at
the scored position of each.

Variants (further tokens that are masked):
- ``original``: none (Salazar et al. 2020);
- ``within-word-l2r``: the later tokens of its word (Kauf and Ivanova 2023);
- ``answer-l2r``: for the answer, its later tokens; elsewhere within the word (lm-pub-quiz's ``answer_l2r+word_l2r``);
- ``sentence-l2r``: all later tokens except special ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.engine.models.base import Model, log_softmax
from fathom.engine.scoring.memory import Budget, on_device, some_of, target_log_probs
from fathom.engine.scoring.tokens import Role, Tokens


class Pll(StrEnum):
    """The variants of masking, see the head of this module."""

    ORIGINAL = "original"
    WITHIN_WORD_L2R = "within-word-l2r"
    ANSWER_L2R = "answer-l2r"
    SENTENCE_L2R = "sentence-l2r"


def masked_log_probs(
    model: Model, statements: Sequence[Tokens], variant: Pll, budget: Budget
) -> list[NDArray[np.float32]]:
    """Return the pseudo-log-likelihood of each token, in nats.

    :returns: for each statement float32 of its length; NaN at special tokens.
    """
    scores = [np.full(len(tokens.ids), np.nan, dtype=np.float32) for tokens in statements]
    lengths = np.array([len(tokens.ids) for tokens in statements])
    mask_id = model.tokenizer.mask_token_id
    for length in np.unique(lengths):
        alike: NDArray[np.intp] = np.flatnonzero(lengths == length)
        statement, position, sequences = _masked_sequences([statements[i] for i in alike.tolist()], variant, mask_id)
        targets = np.stack([statements[i].ids for i in alike.tolist()])[statement, position]
        log_probs = _score(model, sequences, position, targets, budget)
        for row, at, value in zip(alike[statement], position, log_probs, strict=True):
            scores[row][at] = value
    if len(statements) and budget.evidence.begins(model, "masked batches"):
        for number in some_of(lengths.tolist()):
            _compare(model, statements[number], variant, scores[number], budget)
    return scores


def _compare(model: Model, tokens: Tokens, variant: Pll, log_probs: NDArray[np.float32], budget: Budget) -> None:
    """Compare the middle token of a statement with a masked sequence that runs alone."""
    scored = np.flatnonzero(tokens.roles != Role.SPECIAL)
    for place in scored[len(scored) // 2 :][:1].tolist():
        row = np.where(is_masked_with(tokens, variant)[place], model.tokenizer.mask_token_id, tokens.ids)
        with torch.inference_mode(), model.original_layers():
            hidden = model.hidden(model.embed(on_device(row[None], model.device)))[0, place : place + 1]
            alone = log_softmax(model.logits(hidden))[:, int(tokens.ids[place])]
        budget.evidence.add(model, "masked batches", log_probs[[place]], alone.cpu().numpy())


def is_masked_with(tokens: Tokens, variant: Pll) -> NDArray[np.bool_]:
    """Return what is masked if each token is scored: shape (n, n), row = scored token, column = masked token."""
    n = len(tokens.ids)
    later = np.triu(np.ones((n, n), dtype=bool))
    scored = tokens.roles != Role.SPECIAL
    same_word = (tokens.words[:, None] == tokens.words[None, :]) & (tokens.words >= 0)
    answer = tokens.roles == Role.ANSWER
    masked = np.eye(n, dtype=bool)
    if variant is Pll.SENTENCE_L2R:
        masked |= later
    elif variant is not Pll.ORIGINAL:
        masked |= later & same_word
    if variant is Pll.ANSWER_L2R:
        masked[answer] = np.eye(n, dtype=bool)[answer] | (later & answer[None, :])[answer]
    return masked & scored[None, :]  # type: ignore[no-any-return]


def _masked_sequences(
    statements: Sequence[Tokens], variant: Pll, mask_id: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return statement, position and masked sequence, shape (scored, n), of each scored token of equally long ones."""
    statement, position, rows = [], [], []
    for index, tokens in enumerate(statements):
        scored = np.flatnonzero(tokens.roles != Role.SPECIAL)
        rows.append(np.where(is_masked_with(tokens, variant)[scored], mask_id, tokens.ids))
        statement.append(np.full(len(scored), index))
        position.append(scored)
    return np.concatenate(statement), np.concatenate(position), np.concatenate(rows)


def _score(
    model: Model, sequences: NDArray[np.int64], position: NDArray[np.int64], targets: NDArray[np.int64], budget: Budget
) -> NDArray[np.float32]:
    """Return log p(target | sequence at position); each distinct (sequence, position) runs once."""
    if not len(sequences):
        return np.empty(0, dtype=np.float32)
    keys = np.column_stack([sequences, position])
    distinct, request = np.unique(keys, axis=0, return_inverse=True)
    request = request.reshape(-1)
    order = np.argsort(request, kind="stable")
    request, targets = request[order], targets[order]
    scores = np.empty(len(order), dtype=np.float32)

    def pack(start: int) -> tuple[slice, int]:
        stop = start + max(1, budget.tokens // sequences.shape[1])
        return slice(start, stop), stop

    def run(some: slice) -> tuple[slice, NDArray[np.float32]]:
        requests = slice(*np.searchsorted(request, [some.start, some.stop]).tolist())
        with torch.inference_mode():
            batch = on_device(distinct[some], model.device)
            states = model.hidden_at(model.embed(batch[:, :-1]), batch[:, -1:])[:, 0]
            log_probs = target_log_probs(model, states, request[requests] - some.start, targets[requests])
            return requests, log_probs.cpu().numpy()

    for _, (requests, log_probs) in budget.batches(len(distinct), pack, run):
        scores[requests] = log_probs
    unsorted = np.empty_like(scores)
    unsorted[order] = scores
    return unsorted

"""A check that a model reads: its right prompts must be more probable than their own tokens in random order.

Another tokenizer of the same size, random weights or a destructive adapter raise no error, and their scores mean
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.data.templates import Prompt
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.scoring.head import target_log_probs
from fathom.engine.scoring.memory import Budget, on_device
from fathom.engine.scoring.seq2seq import Form, as_pair, seq2seq_log_probs
from fathom.engine.scoring.statements import encode_statements
from fathom.engine.scoring.tokens import Role, Tokens
from fathom.engine.scoring.trie import Ints

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
    scores = budget.attempt(lambda: _scores(model, np.take_along_axis(ids, order, 1), order, around, form, budget))
    return [] if scores is None else (scores[: len(contents)] - scores[len(contents) :]).tolist()


def _scores(
    model: Model, ids: Ints, order: Ints, around: tuple[Ints, Ints], form: Form, budget: Budget
) -> NDArray[np.float64]:
    """Return the mean log p of the scored tokens of each row in nats, shape (rows,).

    :param ids: shape (rows, size).
    :param order: place of each of them in the text, shape (rows, size).
    :param around: special tokens before and after.
    """
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

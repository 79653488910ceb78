"""Log-probabilities of a few tokens per hidden state, without holding logits of all states × the vocabulary."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fathom.engine.models.base import LinearHead, Model
from fathom.engine.models.kernels import linear
from fathom.engine.scoring.memory import on_device
from fathom.engine.scoring.trie import Ints

ROWS = 1024
CPU_LOGITS = 4 * 1024 * 1024
"""Logits held at a time on a CPU: 16 MiB of float32, which stay in the processor's cache."""
DEVICE_LOGITS = 256 * 1024 * 1024


def target_log_probs(model: Model, hidden: Tensor, rows: Ints, tokens: Ints) -> Tensor:
    """Return log p(token | state) in nats; the softmax is in float32 in any precision of the model.

    Rows and tokens are on the host, so that nothing waits for the device before the scores are read.

    :param hidden: shape (m, d).
    :param rows: the state that each wanted token follows, ascending, shape (wanted,).
    :param tokens: the wanted tokens, shape (wanted,).
    :returns: float32, shape (wanted,); NaN for ids beyond the vocabulary, which are rows of vectors: a model sees them
        (:meth:`fathom.engine.models.base.Model.embed_with`) but cannot predict them.
    """
    predictable = tokens < model.vocabulary_size
    tokens = np.minimum(tokens, model.vocabulary_size - 1)
    room = CPU_LOGITS if hidden.device.type == "cpu" else DEVICE_LOGITS
    head = model.linear_head()
    step = ROWS if head is not None else max(1, room // model.vocabulary_size)
    starts = range(0, len(hidden), step)
    bounds = np.searchsorted(rows, [*starts, len(hidden)]).tolist()
    local, wanted = on_device(rows % step, hidden.device), on_device(tokens, hidden.device)
    out = torch.empty(len(rows), dtype=torch.float32, device=hidden.device)
    for first, low, high in zip(starts, bounds, bounds[1:], strict=False):
        states, part = hidden[first : first + step], slice(low, high)
        if head is None:
            logits = model.logits(states)
            out[part] = logits[local[part], wanted[part]] - torch.logsumexp(logits, dim=-1)[local[part]]
        else:
            out[part] = _by_vocabulary_slices(head, states, local[part], wanted[part], room)
    return out.masked_fill_(on_device(~predictable, hidden.device), torch.nan)


def same_token_log_probs(model: Model, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token | state) in nats, of the same tokens after each state; the softmax is in float32.

    :param hidden: shape (m, d).
    :param tokens: shape (t,).
    :returns: float32, shape (m, t).
    """
    room = CPU_LOGITS if hidden.device.type == "cpu" else DEVICE_LOGITS
    step = max(1, room // model.vocabulary_size)
    out = torch.empty((len(hidden), len(tokens)), dtype=torch.float32, device=hidden.device)
    for first in range(0, len(hidden), step):
        logits = model.logits(hidden[first : first + step])
        out[first : first + step] = logits[:, tokens] - torch.logsumexp(logits, dim=-1, keepdim=True)
    return out


def _by_vocabulary_slices(head: LinearHead, states: Tensor, rows: Tensor, tokens: Tensor, room: int) -> Tensor:
    """Sum the normaliser over slices of the vocabulary, holding the logits of one slice at a time."""
    states = head.transform(states)
    width = max(256, room // len(states))
    scores = torch.empty(len(rows), dtype=torch.float32, device=states.device)
    normaliser = torch.full((len(states),), -torch.inf, device=states.device)
    for low in range(0, len(head.weight), width):
        bias = None if head.bias is None else head.bias[low : low + width]
        logits = linear(states, head.weight[low : low + width], bias).float()
        # Each token is looked up in each slice: cheaper than a synchronisation to find those in it.
        inside = (tokens >= low) & (tokens < low + width)
        scores = torch.where(inside, logits[rows, (tokens - low).clamp(0, logits.shape[1] - 1)], scores)
        normaliser = torch.logaddexp(normaliser, _logsumexp_in_place(logits))
    return scores - normaliser[rows]


def _logsumexp_in_place(logits: Tensor) -> Tensor:
    highest = logits.amax(dim=-1, keepdim=True)
    return logits.sub_(highest).exp_().sum(dim=-1).log_().add_(highest[:, 0])

"""A token trie run once from end to end: each pass sees the kept keys and values of what stands above its nodes.

Packed blocks (:mod:`fathom.scoring.causal`) run the ancestors of their first node again, which is little where
statements begin with a few common words, and most of the work behind hundreds of tokens of few-shot lines or
instructions. Here nodes run in preorder, in short passes, and of every pass only the path
to the next one is kept: one copy of a shared beginning, whatever the number of branches over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Model
from fathom.models.cache import Cache
from fathom.scoring.head import target_log_probs
from fathom.scoring.memory import Budget, on_device
from fathom.scoring.pseudowords import embed_with
from fathom.scoring.trie import Ints, Lookup, Trie


class _Kept(NamedTuple):
    """Keys and values of *nodes*, ascending: all that stand above what runs next."""

    cache: Cache | None
    nodes: Ints


def by_beginnings(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """log p of every node given those above it, in nats; NaN at first tokens, and at rows of *vectors*.

    :param model: causal, with :meth:`~fathom.models.base.Model.refuses_cache` None.
    :param vectors: see :func:`fathom.scoring.causal.causal_log_probs`.
    :raises RunFailed: out of memory with the smallest pass.
    """
    scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
    children = Lookup(trie.parent)
    kept = _Kept(None, trie.inner[:0])

    def pack(start: int) -> tuple[slice, int]:
        stop = min(start + budget.tokens_over_cache(), len(trie.inner))
        return slice(start, stop), stop

    def run(some: slice) -> tuple[Ints, NDArray[np.float32], _Kept]:
        nodes, after = trie.inner[some], trie.inner[some.stop :][:1]
        hidden, grown = _run(model, trie, kept, nodes, vectors)
        parent, child = children.of(nodes)
        found = target_log_probs(model, hidden, parent, trie.tokens[child]).cpu().numpy()
        return child, found, _narrowed(model, grown, trie.above(after[0]) if len(after) else after)

    for _, (child, found, ahead) in budget.batches(len(trie.inner), pack, run):
        scores[child] = found
        kept = ahead
    return scores


def _run(model: Model, trie: Trie, kept: _Kept, nodes: Ints, vectors: Tensor | None) -> tuple[Tensor, _Kept]:
    """:returns: the hidden state of each of *nodes*, shape (nodes, d), and what is kept with them behind it."""

    def row(array: Ints | NDArray[np.bool_]) -> Tensor:
        return on_device(array, model.device)[None]

    known = np.concatenate([kept.nodes, nodes])
    visible = (known <= nodes[:, None]) & (nodes[:, None] < trie.end[known])
    inputs = embed_with(model, row(trie.tokens[nodes]), vectors)
    hidden, cache = model.grow(kept.cache, inputs, row(trie.depth[nodes]), row(visible))
    return hidden[0], _Kept(cache, known)


def _narrowed(model: Model, kept: _Kept, nodes: Ints) -> _Kept:
    """Of what is kept, only *nodes*."""
    if kept.cache is None or not len(nodes):
        return _Kept(None, nodes)
    columns = np.searchsorted(kept.nodes, nodes)
    return _Kept(kept.cache.keep(on_device(columns, model.device)), nodes)

"""Log-likelihoods of causal models: every token of every statement, each shared beginning computed once.

The statements become a token trie (:mod:`fathom.scoring.trie`). Its inner nodes run in packed blocks under a mask that
shows each node its ancestors alone; the head is applied to those nodes only, for the tokens of their children only.
Where a model refuses such a mask, or takes it and returns other numbers (its self-check tells), but keeps states to go
on from (Mamba, hybrids), the trie runs level by level (:mod:`fathom.scoring.levels`). Else distinct sequences run in
plain batches under the model's own mask; heads and soft-maxes are still shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Model
from fathom.scoring.head import target_log_probs
from fathom.scoring.levels import by_states
from fathom.scoring.memory import Budget
from fathom.scoring.pseudowords import embed_with
from fathom.scoring.trie import Block, Lookup, Trie, blocks_from, build_trie

BLOCK = 128
"""Nodes per packed sequence: large enough to re-run few shared beginnings, small enough for the quadratic mask."""


def causal_log_probs(
    model: Model, sequences: Sequence[Sequence[int]], budget: Budget, vectors: Tensor | None = None
) -> list[NDArray[np.float32]]:
    """log p(token | tokens before it), in nats, for every token of every sequence.

    :param sequences: token ids, each starting with what the model is to see first (BOS, as a rule). Ids behind the
        model's vocabulary are rows of *vectors*.
    :param vectors: what no token has, such as pseudowords, shape (rows, d).
    :returns: for each sequence float32 of its length; NaN at the first token, before which nothing stands, and at rows
        of *vectors*, which the model can see but not say.
    """
    if not sequences:
        return []
    trie = build_trie(sequences)
    with torch.inference_mode():
        if model.refuses_tree() is None:
            scores = _by_packed_blocks(model, trie, budget, vectors)
        elif model.refuses_states() is None:
            scores = by_states(model, trie, budget, vectors)
        else:
            scores = _by_plain_batches(model, trie, budget, vectors)
    return [scores[path[path >= 0]] for path in trie.paths]


class _Packed(NamedTuple):
    """Blocks that run together.

    :param parents: for each of *nodes*, which of the blocks' new nodes stands above it.
    """

    blocks: list[Block]
    parents: NDArray[np.int64]
    nodes: NDArray[np.int64]


def _by_packed_blocks(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
    children = Lookup(trie.parent)

    def pack(start: int) -> tuple[_Packed, int]:
        blocks, after = blocks_from(trie, start, min(BLOCK, budget.tokens), budget.tokens)
        return _Packed(blocks, *children.of(trie.inner[start:after])), after

    def run(batch: _Packed) -> NDArray[np.float32]:
        return _run_blocks(model, trie, *batch, vectors)

    for batch, found in budget.batches(len(trie.inner), pack, run):
        scores[batch.nodes] = found
    return scores


def _run_blocks(
    model: Model,
    trie: Trie,
    blocks: list[Block],
    parents: NDArray[np.int64],
    nodes: NDArray[np.int64],
    vectors: Tensor | None,
) -> NDArray[np.float32]:
    """:returns: the scores of *nodes*, see :class:`_Packed`."""
    width = max(len(block.nodes) for block in blocks)
    ids = np.zeros((len(blocks), width), dtype=np.int64)
    # A padding node sees itself and is seen by no other: its number and its end are beyond every node.
    first, last = (np.full((len(blocks), width), len(trie.tokens) + np.arange(width)) for _ in range(2))
    last += 1
    positions = np.zeros((len(blocks), width), dtype=np.int64)
    wanted = np.zeros((len(blocks), width), dtype=bool)
    for row, block in enumerate(blocks):
        count = len(block.nodes)
        ids[row, :count] = trie.tokens[block.nodes]
        positions[row, :count] = trie.depth[block.nodes]
        first[row, :count], last[row, :count] = block.nodes, trie.end[block.nodes]
        wanted[row, block.context : count] = True

    def on_device(array: NDArray[np.int64] | NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(array).to(model.device)

    node, end = on_device(first), on_device(last)
    visible = (node[:, None, :] <= node[:, :, None]) & (node[:, :, None] < end[:, None, :])
    inputs = embed_with(model, on_device(ids), vectors)
    hidden = model.hidden(inputs, on_device(positions), visible)[on_device(wanted)]
    return _said(model, hidden, on_device(parents), on_device(trie.tokens[nodes]))


def _said(model: Model, hidden: Tensor, rows: Tensor, tokens: Tensor) -> NDArray[np.float32]:
    """log p of each token behind its row's state; NaN of what is no token."""
    found = target_log_probs(model, hidden, rows, tokens.clamp(max=model.vocabulary_size - 1))
    return found.masked_fill(tokens >= model.vocabulary_size, torch.nan).cpu().numpy()


def _by_plain_batches(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """Distinct sequences, alike in length together, padded on the right, where a causal model does not look."""
    scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
    paths = np.unique(trie.paths, axis=0)
    lengths = (paths >= 0).sum(axis=1)
    paths = paths[np.argsort(lengths, kind="stable")]
    lengths.sort()

    def pack(start: int) -> tuple[NDArray[np.int64], int]:
        stop = budget.fitting(lengths, start)
        return paths[start:stop, : lengths[stop - 1]], stop

    def run(chunk: NDArray[np.int64]) -> NDArray[np.float32]:
        return _run_batch(model, trie, chunk, vectors)

    for chunk, found in budget.batches(len(paths), pack, run):
        scores[chunk[:, 1:][chunk[:, 1:] >= 0]] = found
    return scores


def _run_batch(model: Model, trie: Trie, paths: NDArray[np.int64], vectors: Tensor | None) -> NDArray[np.float32]:
    ids = torch.from_numpy(np.where(paths >= 0, trie.tokens[paths], 0)).to(model.device)
    has_next = torch.from_numpy(paths[:, 1:] >= 0).to(model.device)
    hidden = model.hidden(embed_with(model, ids, vectors))[:, :-1][has_next]
    rows = torch.arange(len(hidden), device=model.device)
    return _said(model, hidden, rows, ids[:, 1:][has_next])

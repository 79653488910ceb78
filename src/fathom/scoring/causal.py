"""Log-likelihoods of causal models: every token of every statement, each shared beginning computed once.

The statements become a token trie (:mod:`fathom.scoring.trie`). Its inner nodes run in packed blocks under a mask that
shows each node its ancestors alone; the head is applied to those nodes only, for the tokens of their children only.
Behind long shared beginnings, which each block would run again, their keys and values are kept instead
(:mod:`fathom.scoring.beginnings`).
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
from fathom.scoring.beginnings import by_beginnings
from fathom.scoring.head import target_log_probs
from fathom.scoring.levels import by_states
from fathom.scoring.memory import Budget, on_device
from fathom.scoring.pseudowords import embed_with
from fathom.scoring.trie import Block, Lookup, Trie, blocks_from, build_trie

BLOCK = 128
"""Nodes per packed sequence: large enough to re-run few shared beginnings, small enough for the quadratic mask."""
AGAIN = 1.25
"""Keys and values of beginnings are kept where blocks would run so many nodes for each that has to be run."""


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
        if model.refuses_tree() is None and _runs_again(trie, budget) > AGAIN and model.refuses_cache() is None:
            scores = by_beginnings(model, trie, budget, vectors)
        elif model.refuses_tree() is None:
            scores = _by_packed_blocks(model, trie, budget, vectors)
        elif model.refuses_states() is None:
            scores = by_states(model, trie, budget, vectors)
        else:
            scores = _by_plain_batches(model, trie, budget, vectors)
    return [scores[path[path >= 0]] for path in trie.paths]


def _runs_again(trie: Trie, budget: Budget) -> float:
    """How many nodes packed blocks would run for each that has to be run, padding included."""
    start = run = 0
    while start < len(trie.inner):
        blocks, start = blocks_from(trie, start, min(BLOCK, budget.tokens), budget.tokens)
        run += len(blocks) * max(len(block.nodes) for block in blocks)
    return run / max(1, len(trie.inner))


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

    tokens, place, node, end = (on_device(one, model.device) for one in (ids, positions, first, last))
    visible = (node[:, None, :] <= node[:, :, None]) & (node[:, :, None] < end[:, None, :])
    hidden = model.hidden(embed_with(model, tokens, vectors), place, visible).flatten(0, 1)
    # Places, not booleans: of these only the device would know how many are true.
    states = hidden[on_device(np.flatnonzero(wanted), model.device)]
    return target_log_probs(model, states, parents, trie.tokens[nodes]).cpu().numpy()


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
    ids = np.where(paths >= 0, trie.tokens[paths], 0)
    row, place = np.nonzero(paths[:, 1:] >= 0)
    hidden = model.hidden(embed_with(model, on_device(ids, model.device), vectors))
    states = hidden[on_device(row, model.device), on_device(place, model.device)]
    return target_log_probs(model, states, np.arange(len(row)), ids[row, place + 1]).cpu().numpy()

"""Log-likelihoods of causal models: all tokens of all statements, with each shared prefix computed once.

The statements become a trie, which runs in packed blocks under a mask that shows each node its ancestors; over a cache
if blocks would run long prefixes again; level by level if the model keeps states (Mamba); else as plain batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.engine.models.base import KeyValues, Model, States
from fathom.engine.models.checks import plain_log_probs
from fathom.engine.scoring.memory import TOKENS, Budget, on_device, some_of, target_log_probs
from fathom.engine.scoring.trie import Block, Ints, Lookup, Trie, blocks_from, build_trie, padded

Result = TypeVar("Result")
BLOCK = 128
"""Nodes per packed sequence: large enough to run few shared prefixes again, small enough for the quadratic mask."""
AGAIN = 1.25
"""Nodes that blocks would run per node of the trie from which on a cache is used instead."""
ROWS_SHARE = 16
"""Tokens of the budget per row of a pass by levels: each row has a state."""
PADDED = "padded batches"
STATE_BYTES = 256 * 2**20
"""Memory for the states of one such pass."""


def causal_log_probs(
    model: Model, sequences: Sequence[Sequence[int]], budget: Budget, vectors: Tensor | None = None
) -> list[NDArray[np.float32]]:
    """Return log p(token | tokens before it), in nats, for each token of each sequence.

    :param sequences: token ids, including BOS. Ids beyond the model's vocabulary are rows of *vectors*.
    :param vectors: of inputs that are no tokens, such as pseudowords, shape (rows, d).
    :returns: for each sequence float32 of its length; NaN at the first token, and at rows of *vectors*, which the model
        can see but not predict.
    """
    if not sequences:
        return []
    trie, longest = build_trie(sequences), max(map(len, sequences))
    with torch.inference_mode():
        name, way = _choose(model, trie, longest, budget)
        if way is None:
            found = _by_plain_batches(model, sequences, budget, vectors, equal=name != PADDED)
        else:
            scores = way(model, trie, budget, vectors)
            found = [scores[path[path >= 0]] for path in trie.paths]
        if vectors is None and budget.evidence.begins(model, name):
            for number in some_of(list(map(len, sequences))):
                _compare(model, name, sequences[number], found[number], budget)
    return found


_Way = Callable[[Model, Trie, Budget, Tensor | None], NDArray[np.float32]]
"""Returns the score of each node."""


def _choose(model: Model, trie: Trie, longest: int, budget: Budget) -> tuple[str, _Way | None]:
    """Return the fastest path that is right for the model; None for plain batches."""
    if model.refuses_tree(longest) is None:
        if _share_run_again(trie, budget) > AGAIN and model.refuses_cache(longest) is None:
            return "a cache", by_cache
        return "a packed tree", _by_packed_blocks
    if model.refuses_states(longest) is None:
        return "kept states", by_levels
    if model.refuses_padding(longest) is None:
        return PADDED, None
    return "batches of equal length", None


def _compare(model: Model, name: str, ids: Sequence[int], log_probs: NDArray[np.float32], budget: Budget) -> None:
    """Compare the last tokens of a sequence with the sequence alone."""
    start = max(1, len(ids) - TOKENS)
    if start < len(ids):
        alone = budget.attempt(lambda: plain_log_probs(model, [list(ids)], start))
        if alone is not None:
            budget.evidence.add(model, name, log_probs[start:], alone[0, start:].cpu().numpy())


def _share_run_again(trie: Trie, budget: Budget) -> float:
    """Return how many nodes packed blocks would run per inner node, padding included."""
    start = run = 0
    while start < len(trie.inner):
        blocks, start = blocks_from(trie, start, min(BLOCK, budget.tokens), budget.tokens)
        run += len(blocks) * max(len(block.nodes) for block in blocks)
    return run / max(1, len(trie.inner))


_PackedBlocks = tuple[list[Block], Ints, Ints]
"""Blocks that run together; the nodes that are scored, after the place of each one's parent among the new nodes."""


def _by_packed_blocks(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
    children = Lookup(trie.parent)

    def pack(start: int) -> tuple[_PackedBlocks, int]:
        blocks, after = blocks_from(trie, start, min(BLOCK, budget.tokens), budget.tokens)
        return (blocks, *children.find(trie.inner[start:after])), after

    def run(batch: _PackedBlocks) -> NDArray[np.float32]:
        return _run_blocks(model, trie, batch, vectors)

    for (_, _, nodes), log_probs in budget.batches(len(trie.inner), pack, run):
        scores[nodes] = log_probs
    return scores


def _run_blocks(model: Model, trie: Trie, batch: _PackedBlocks, vectors: Tensor | None) -> NDArray[np.float32]:
    blocks, parents, nodes = batch
    width = max(len(block.nodes) for block in blocks)
    ids = np.zeros((len(blocks), width), dtype=np.int64)
    # A padding node sees itself and is seen by no other: its number and its end are beyond all nodes.
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

    tokens, place, node, end = (on_device(array, model.device) for array in (ids, positions, first, last))
    visible = (node[:, None, :] <= node[:, :, None]) & (node[:, :, None] < end[:, None, :])
    hidden = model.hidden(model.embed_with(tokens, vectors), place, visible).flatten(0, 1)
    # Indices instead of booleans, whose sum only the device would know.
    states = hidden[on_device(np.flatnonzero(wanted), model.device)]
    return target_log_probs(model, states, parents, trie.tokens[nodes]).cpu().numpy()


class _Path(NamedTuple):
    """Keys and values of *nodes*, ascending: all ancestors of the node that runs next."""

    cache: KeyValues | None
    nodes: Ints


def by_cache(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """Return log p of each node given its ancestors, in nats; NaN at first tokens, and at rows of *vectors*.

    :param model: causal, with :meth:`~fathom.engine.models.base.Model.refuses_cache` None.
    :param vectors: see :func:`causal_log_probs`.
    :raises RunFailed: out of memory with the smallest pass.
    """
    scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
    children = Lookup(trie.parent)

    def score(nodes: Ints, hidden: Tensor) -> tuple[Ints, NDArray[np.float32]]:
        parent, child = children.find(nodes)
        return child, target_log_probs(model, hidden, parent, trie.tokens[child]).cpu().numpy()

    for child, log_probs in over_cache(model, trie, trie.inner, budget, vectors, score):
        scores[child] = log_probs
    return scores


def over_cache(
    model: Model, trie: Trie, nodes: Ints, budget: Budget, vectors: Tensor | None, use: Callable[[Ints, Tensor], Result]
) -> Iterator[Result]:
    """Run nodes in short passes, each over the keys and values of the path to the next node.

    :param nodes: ascending, with the ancestors of each; see :func:`by_cache` for the others.
    :param use: gets the nodes of a pass and their states, shape (nodes, d).
    """
    path = _Path(None, nodes[:0])

    def pack(start: int) -> tuple[slice, int]:
        stop = min(start + budget.tokens_over_cache(), len(nodes))
        return slice(start, stop), stop

    def run(some: slice) -> tuple[Result, _Path]:
        now, after = nodes[some], nodes[some.stop :][:1]
        hidden, grown = _grow(model, trie, path, now, vectors)
        return use(now, hidden), _narrow(model, grown, trie.above(after[0]) if len(after) else after)

    for _, (result, following) in budget.batches(len(nodes), pack, run):
        path = following
        yield result


def _grow(model: Model, trie: Trie, path: _Path, nodes: Ints, vectors: Tensor | None) -> tuple[Tensor, _Path]:
    """:returns: the hidden state of each of *nodes*, shape (nodes, d), and the path extended by them."""

    def row(array: Ints | NDArray[np.bool_]) -> Tensor:
        return on_device(array, model.device)[None]

    visible_nodes = np.concatenate([path.nodes, nodes])
    visible = (visible_nodes <= nodes[:, None]) & (nodes[:, None] < trie.end[visible_nodes])
    inputs = model.embed_with(row(trie.tokens[nodes]), vectors)
    hidden, cache = model.grow(path.cache, inputs, row(trie.depth[nodes]), row(visible))
    return hidden[0], _Path(cache, visible_nodes)


def _narrow(model: Model, path: _Path, nodes: Ints) -> _Path:
    if path.cache is None or not len(nodes):
        return _Path(None, nodes)
    columns = np.searchsorted(path.nodes, nodes)
    return _Path(path.cache.keep(on_device(columns, model.device)), nodes)


def by_levels(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """Return log p of each node given its ancestors, from copies of the states after them; NaN at first tokens.

    All nodes of a pass have the same depth, so their states have the same size. The deepest nodes run first, so that
    only one path of passes is in memory.

    :param vectors: see :func:`causal_log_probs`.
    """
    return _Levels(model, trie, budget, vectors).run()


class _Levels:
    """One run over a trie; the stack holds states, nodes to run, and the row of the states that each starts from."""

    def __init__(self, model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> None:
        self.model, self.trie, self.budget, self.vectors = model, trie, budget, vectors
        self.children = Lookup(trie.parent)
        self.scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
        self.stack: list[tuple[States | None, Ints, Ints]] = []

    def run(self) -> NDArray[np.float32]:
        self._run_prefix()
        while self.stack:
            states, nodes, rows = self.stack.pop()
            if len(nodes):
                self._step(states, nodes, rows)
        return self.scores

    def _run_prefix(self) -> None:
        """Run the prefix that all sequences share; without one, or memory for it, start with the first tokens."""
        roots = np.flatnonzero((self.trie.parent < 0) & self.trie.is_inner)
        prefix = self._prefix(roots)
        output = self.budget.attempt(lambda: self._advance(None, prefix[None])) if len(prefix) > 1 else None
        if output is None:
            self.stack.append((None, roots, np.zeros(len(roots), dtype=np.int64)))
        else:
            self._score(prefix, *output)

    def _prefix(self, roots: Ints) -> Ints:
        """Return the nodes before the first branch."""
        path, below = [], roots
        while len(below) == 1 and self.trie.is_inner[below[0]]:
            path.append(below[0])
            _, below = self.children.find(below)
        return np.array(path, dtype=np.int64)

    def _step(self, states: States | None, nodes: Ints, rows: Ints) -> None:
        """Run the first of *nodes*, each from its row of *states*, and postpone the others."""
        size = self._size(states)
        first = nodes[:size]

        def run() -> tuple[Tensor, States]:
            past = None if states is None else states.select(on_device(rows[:size], self.model.device))
            return self._advance(past, first[:, None])

        output = self.budget.attempt(run)
        if output is None:
            self.stack.append((states, nodes, rows))
        else:
            self.stack.append((states, nodes[size:], rows[size:]))
            self._score(first, *output)

    def _size(self, states: States | None) -> int:
        room = STATE_BYTES // states.bytes_per_row() if states is not None else self.budget.tokens
        return max(1, min(self.budget.tokens // ROWS_SHARE, room))

    def _advance(self, past: States | None, nodes: Ints) -> tuple[Tensor, States]:
        """Run *nodes*, shape (rows, n). :returns: their hidden states, shape (rows · n, d), and each row's states."""
        ids = on_device(self.trie.tokens[nodes], self.model.device)
        hidden, grown = self.model.advance(past, self.model.embed_with(ids, self.vectors))
        return hidden.flatten(0, 1), grown

    def _score(self, nodes: Ints, hidden: Tensor, grown: States) -> None:
        """Score the children of *nodes*, and postpone those that have children."""
        parent, child = self.children.find(nodes)
        self.scores[child] = target_log_probs(self.model, hidden, parent, self.trie.tokens[child]).cpu().numpy()
        row = parent - (len(nodes) - grown.rows)
        onward = self.trie.is_inner[child] & (row >= 0)
        self.stack.append((grown, child[onward], row[onward]))


def _by_plain_batches(
    model: Model, sequences: Sequence[Sequence[int]], budget: Budget, vectors: Tensor | None, *, equal: bool
) -> list[NDArray[np.float32]]:
    """Run distinct sequences of similar length together, padded on the right; or of *equal* length, without padding."""
    distinct = sorted({tuple(ids) for ids in sequences}, key=len)
    lengths = list(map(len, distinct))
    scores: dict[tuple[int, ...], NDArray[np.float32]] = {}

    def pack(start: int) -> tuple[list[tuple[int, ...]], int]:
        stop = budget.fitting(lengths, start, equal=equal)
        return distinct[start:stop], stop

    def run(batch: list[tuple[int, ...]]) -> NDArray[np.float32]:
        ids = padded(batch, 0)
        hidden = model.hidden(model.embed_with(on_device(ids, model.device), vectors))[:, :-1].flatten(0, 1)
        found = target_log_probs(model, hidden, np.arange(len(hidden)), ids[:, 1:].ravel()).cpu().numpy()
        return np.hstack([np.full((len(ids), 1), np.nan, dtype=np.float32), found.reshape(len(ids), -1)])

    for batch, log_probs in budget.batches(len(distinct), pack, run):
        scores |= {ids: row[: len(ids)] for ids, row in zip(batch, log_probs, strict=True)}
    return [scores[tuple(ids)] for ids in sequences]

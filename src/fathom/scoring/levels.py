"""A token trie run level by level, each branch from a copy of the state after its prefix.

For models that keep states instead of taking a tree mask (:class:`fathom.models.cache.States`): recurrent ones, and
hybrids with attention. All nodes of a pass have the same depth, so their states have the same size; the prefix that all
sequences share runs as one sequence. The deepest nodes run first, so that only one path of passes is in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Model
from fathom.models.cache import States
from fathom.scoring.head import target_log_probs
from fathom.scoring.memory import Budget, on_device
from fathom.scoring.trie import Ints, Lookup, Trie

ROWS_SHARE = 16
"""Tokens of the budget per row of a pass: each row has a state."""
STATE_BYTES = 256 * 2**20
"""Memory for the states of one pass."""


def by_levels(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """Return log p of each node given its ancestors, in nats; NaN at first tokens, and at rows of *vectors*.

    :param vectors: see :func:`fathom.scoring.causal.causal_log_probs`.
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
        """Score the children of *nodes*, and postpone those that have children.

        :param grown: of the last ``grown.rows`` of *nodes*: all, or the one that ends a shared prefix.
        """
        parent, child = self.children.find(nodes)
        self.scores[child] = target_log_probs(self.model, hidden, parent, self.trie.tokens[child]).cpu().numpy()
        row = parent - (len(nodes) - grown.rows)
        onward = self.trie.is_inner[child] & (row >= 0)
        self.stack.append((grown, child[onward], row[onward]))

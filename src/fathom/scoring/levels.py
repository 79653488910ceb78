"""A token trie run level by level, each branch from a copy of the state that its beginning left.

For models that take no tree mask but keep states (:mod:`fathom.models.states`): recurrent ones, and hybrids of
recurrent layers and attention. All nodes of a pass are equally deep, so their states are of one size; what all
sequences begin with runs as one sequence. The deepest nodes run first: only one path of passes is remembered.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Model
from fathom.models.states import States
from fathom.scoring.head import target_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.pseudowords import embed_with
from fathom.scoring.trie import Ints, Lookup, Trie

ROWS_SHARE = 16
"""A pass runs one row in so many tokens of the budget: each carries a state along."""
STATE_BYTES = 256 * 2**20
"""Memory for the states of one pass."""


def by_states(model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> NDArray[np.float32]:
    """log p of every node given those above it, in nats; NaN at first tokens, and at rows of *vectors*.

    :param vectors: see :func:`fathom.scoring.causal.causal_log_probs`.
    """
    return _Levels(model, trie, budget, vectors).run()


class _Levels:
    def __init__(self, model: Model, trie: Trie, budget: Budget, vectors: Tensor | None) -> None:
        self.model, self.trie, self.budget, self.vectors = model, trie, budget, vectors
        self.children = Lookup(trie.parent)
        self.is_inner = np.zeros(len(trie.tokens), dtype=bool)
        self.is_inner[trie.inner] = True
        self.scores = np.full(len(trie.tokens), np.nan, dtype=np.float32)
        self.stack: list[tuple[States | None, Ints, Ints]] = []
        """What is left to run: states, nodes, and the row of the states that each goes on from."""

    def run(self) -> NDArray[np.float32]:
        roots = np.flatnonzero((self.trie.parent < 0) & self.is_inner)
        self.stack.append((None, roots, np.zeros(len(roots), dtype=np.int64)))
        while self.stack:
            states, nodes, rows = self.stack.pop()
            if len(nodes):
                self._step(states, nodes, rows)
        return self.scores

    def _step(self, states: States | None, nodes: Ints, rows: Ints) -> None:
        size = self._size(states)
        now, chain = nodes[:size], self._chain(nodes) if states is None else None
        found = self.budget.attempt(lambda: self._advance(states, now if chain is None else chain, rows[:size], chain))
        if found is None:
            self.stack.append((states, nodes, rows))
            return
        hidden, grown = found
        self.stack.append((states, nodes[size:], rows[size:]))
        ran = now if chain is None else chain
        parent, child = self.children.of(ran)
        self.scores[child] = self._said(hidden, parent, child)
        onward = self.is_inner[child] & (np.isin(parent, len(ran) - 1) if chain is not None else True)
        row = np.zeros(int(onward.sum()), dtype=np.int64) if chain is not None else parent[onward]
        self.stack.append((grown, child[onward], row))

    def _size(self, states: States | None) -> int:
        room = STATE_BYTES // states.bytes_per_row() if states is not None else self.budget.tokens
        return max(1, min(self.budget.tokens // ROWS_SHARE, room))

    def _chain(self, nodes: Ints) -> Ints | None:
        """Where all sequences begin alike: the first nodes, as long as none branches; they run as one sequence."""
        if len(nodes) > 1:
            return None
        chain = [int(nodes[0])]
        while True:
            _, below = self.children.of(np.array(chain[-1:]))
            if len(below) != 1 or not self.is_inner[below[0]]:
                return np.array(chain)
            chain.append(int(below[0]))

    def _advance(self, states: States | None, nodes: Ints, rows: Ints, chain: Ints | None) -> tuple[Tensor, States]:
        """:returns: the hidden state of each node, shape (nodes, d), and what goes on from the last of each row."""
        ids = torch.from_numpy(self.trie.tokens[nodes]).to(self.model.device)
        inputs = embed_with(self.model, ids[None] if chain is not None else ids[:, None], self.vectors)
        past = None if states is None else states.select(torch.from_numpy(rows).to(self.model.device))
        hidden, grown = self.model.advance(past, inputs)
        return hidden.flatten(0, 1), grown

    def _said(self, hidden: Tensor, parent: Ints, child: Ints) -> NDArray[np.float32]:
        tokens = torch.from_numpy(self.trie.tokens[child]).to(self.model.device)
        rows = torch.from_numpy(parent).to(self.model.device)
        found = target_log_probs(self.model, hidden, rows, tokens.clamp(max=self.model.vocabulary_size - 1))
        return found.masked_fill(tokens >= self.model.vocabulary_size, torch.nan).cpu().numpy()

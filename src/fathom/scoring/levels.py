"""A token trie run level by level, each branch from a copy of the state that its beginning left.

For models that take no tree mask but keep states (:mod:`fathom.models.states`): recurrent ones, and hybrids of
recurrent layers and attention. All nodes of a pass are equally deep, so their states are of one size; what all
sequences begin with runs as one sequence. The deepest nodes run first: only one path of passes is remembered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Model
from fathom.models.cache import States
from fathom.scoring.head import target_log_probs
from fathom.scoring.memory import Budget, on_device
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
        self._begin()
        while self.stack:
            states, nodes, rows = self.stack.pop()
            if len(nodes):
                self._step(states, nodes, rows)
        return self.scores

    def _begin(self) -> None:
        """Run what all sequences begin with as one sequence; where there is no such, or no memory for it, begin with
        the first tokens."""
        roots = np.flatnonzero((self.trie.parent < 0) & self.is_inner)
        shared = self._shared(roots)
        found = self.budget.attempt(lambda: self._advance(None, shared[None])) if len(shared) > 1 else None
        if found is None:
            self.stack.append((None, roots, np.zeros(len(roots), dtype=np.int64)))
        else:
            self._keep(shared, *found)

    def _shared(self, roots: Ints) -> Ints:
        """The nodes that all sequences begin with: as long as none branches."""
        path, below = [], roots
        while len(below) == 1 and self.is_inner[below[0]]:
            path.append(below[0])
            _, below = self.children.of(below)
        return np.array(path, dtype=np.int64)

    def _step(self, states: States | None, nodes: Ints, rows: Ints) -> None:
        """Run the first of *nodes*, each from its row of *states*, and put the others off."""
        size = self._size(states)
        now = nodes[:size]

        def run() -> tuple[Tensor, States]:
            past = None if states is None else states.select(on_device(rows[:size], self.model.device))
            return self._advance(past, now[:, None])

        found = self.budget.attempt(run)
        if found is None:
            self.stack.append((states, nodes, rows))
        else:
            self.stack.append((states, nodes[size:], rows[size:]))
            self._keep(now, *found)

    def _size(self, states: States | None) -> int:
        room = STATE_BYTES // states.bytes_per_row() if states is not None else self.budget.tokens
        return max(1, min(self.budget.tokens // ROWS_SHARE, room))

    def _advance(self, past: States | None, nodes: Ints) -> tuple[Tensor, States]:
        """:param nodes: shape (rows, n).
        :returns: the hidden state of each node, shape (rows · n, d), and what goes on from the last of each row.
        """
        ids = on_device(self.trie.tokens[nodes], self.model.device)
        hidden, grown = self.model.advance(past, embed_with(self.model, ids, self.vectors))
        return hidden.flatten(0, 1), grown

    def _keep(self, ran: Ints, hidden: Tensor, grown: States) -> None:
        """Score the children of *ran*, and put off those that have children themselves.

        :param grown: of the last ``grown.rows`` of *ran*: of all, or of the one that a shared beginning ends with.
        """
        parent, child = self.children.of(ran)
        self.scores[child] = target_log_probs(self.model, hidden, parent, self.trie.tokens[child]).cpu().numpy()
        row = parent - (len(ran) - grown.rows)
        onward = self.is_inner[child] & (row >= 0)
        self.stack.append((grown, child[onward], row[onward]))

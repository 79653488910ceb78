"""Token sequences that begin alike, as one tree, cut into blocks that a model runs in one packed pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Trie:
    """Nodes are numbered in preorder, children by token id; node and subtree are the range [node, end[node]).

    :param tokens: token id of each node, shape (nodes,).
    :param depth: position of each node, from 0, shape (nodes,).
    :param parent: node above, −1 for a first token, shape (nodes,).
    :param end: one past the last node of the subtree, shape (nodes,).
    :param paths: the nodes of each input sequence, −1 beyond its end, shape (sequences, longest).
    """

    tokens: Ints
    depth: Ints
    parent: Ints
    end: Ints
    paths: Ints

    @cached_property
    def inner(self) -> Ints:
        """The nodes that have children: the only ones a model has to run."""
        return np.flatnonzero(self.end > np.arange(len(self.end)) + 1)

    def above(self, node: int) -> Ints:
        """The nodes that stand above *node*, the first token first, shape (depth,)."""
        found = []
        while (node := int(self.parent[node])) >= 0:
            found.append(node)
        return np.array(found[::-1], dtype=np.int64)

    def path(self, sequence: int) -> Ints:
        """The nodes of the input sequence at this place, first token first, shape (length,)."""
        path: Ints = self.paths[sequence]
        return path[path >= 0]


def build_trie(sequences: Sequence[Sequence[int]]) -> Trie:
    """:param sequences: token ids, none empty; equal sequences share one path."""
    lengths = np.array([len(sequence) for sequence in sequences])
    matrix = np.full((len(sequences), lengths.max(initial=1)), -1, dtype=np.int64)
    for row, sequence in zip(matrix, sequences, strict=True):
        row[: len(sequence)] = sequence
    order = np.lexsort(matrix.T[::-1])
    matrix = matrix[order]

    # A token starts a new node where it or anything before it differs from the sequence above.
    new = np.ones(matrix.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(matrix[1:] != matrix[:-1], axis=1)
    new &= matrix >= 0
    ids = np.zeros(matrix.shape, dtype=np.int64)
    ids[new] = np.arange(new.sum())  # row-major: preorder
    paths = np.where(matrix >= 0, np.maximum.accumulate(ids, axis=0), -1)

    parent = np.where(new, np.roll(paths, 1, axis=1), -1)
    parent[:, 0] = -1
    depth = np.broadcast_to(np.arange(matrix.shape[1]), matrix.shape)[new]
    original_order = np.empty_like(paths)
    original_order[order] = paths
    return Trie(matrix[new], depth, parent[new], _subtree_ends(parent[new], depth), original_order)


def _subtree_ends(parent: Ints, depth: Ints) -> Ints:
    sizes = np.ones(len(parent), dtype=np.int64)
    for level in range(depth.max(initial=0), 0, -1):
        nodes = np.flatnonzero(depth == level)
        np.add.at(sizes, parent[nodes], sizes[nodes])
    return np.arange(len(parent)) + sizes


class Lookup:
    """Finds the places of values in an array, by binary search.

    :param keys: the array, shape (n,).
    """

    def __init__(self, keys: Ints) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def of(self, wanted: Ints) -> tuple[Ints, Ints]:
        """:returns: (index into *wanted*, place of such a value) pairs, in the order of *wanted*."""
        low, high = np.searchsorted(self.keys, wanted, "left"), np.searchsorted(self.keys, wanted, "right")
        counts = high - low
        index = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
        return index, self.order[low[index] + within]


class Answers:
    """An answer space as a trie of what follows a prompt.

    :param continuations: token ids of each candidate, as they follow the prompt; none empty. Equal ones share a leaf.
    :param ids: of the candidates: equal scores are listed in their order; None for the order of the candidates.
    """

    def __init__(self, continuations: Sequence[Sequence[int]], ids: Sequence[str] | None = None) -> None:
        self.ids = np.arange(len(continuations)) if ids is None else np.array(ids, dtype=object)
        self.trie = build_trie(continuations)
        self.roots = np.flatnonzero(self.trie.parent < 0)
        self.is_inner = np.zeros(len(self.trie.tokens), dtype=bool)
        self.is_inner[self.trie.inner] = True
        self.terminal: Ints = self.trie.paths.max(axis=1)  # preorder: the last is the highest
        """The last node of each candidate, shape (candidates,)."""
        self.children, self.ending = Lookup(self.trie.parent), Lookup(self.terminal)
        """The nodes below a node, and the candidates that end at it."""
        self.tokens = int((self.trie.paths >= 0).sum())
        ends = np.column_stack([np.arange(len(self.trie.end)), self.trie.end]).ravel()
        self.longest = np.maximum.reduceat(np.append(self.trie.depth + 1, 0), ends)[::2]
        """Tokens of the longest answer through each node, shape (nodes,)."""

    def __len__(self) -> int:
        return len(self.terminal)


class Block(NamedTuple):
    """A slice of the tree that runs as one packed sequence.

    :param nodes: nodes to run, in preorder: the ancestors of the first node that is new, then the new ones.
    :param context: how many of *nodes* are there only to be seen: another block scores their children.
    """

    nodes: Ints
    context: int


def blocks_from(trie: Trie, start: int, size: int, most: int) -> tuple[list[Block], int]:
    """The next blocks of *size* nodes, which have at least as many new nodes as nodes that are only seen: behind a long
    beginning they are larger, so that it is not run again for every few nodes.

    :param start: how many of ``trie.inner`` earlier blocks have dealt with.
    :param most: nodes of all blocks together, each as wide as the widest; more only where a single path is longer, and
        then twice the path at most.
    :returns: the blocks, and *start* for the next call.
    """
    blocks: list[Block] = []
    width = 0
    while start < len(trie.inner):
        above = trie.above(trie.inner[start])
        seen = len(above)
        stop = start + max(1, seen, min(size, most) - seen)
        nodes = np.concatenate([above, trie.inner[start:stop]])
        width = max(width, len(nodes))
        if blocks and (len(blocks) + 1) * width > most:
            break
        blocks.append(Block(nodes, seen))
        start = min(stop, len(trie.inner))
    return blocks, start

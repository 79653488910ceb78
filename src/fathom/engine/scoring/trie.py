"""Token sequences with shared prefixes as one trie, cut into blocks that a model runs in one packed pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Ints = NDArray[np.int64]
Sequences = Sequence[Sequence[int] | NDArray[np.integer[Any]]]


@dataclass(frozen=True)
class Trie:
    """A token trie. Nodes are numbered in preorder, children by token id; a subtree is the range [node, end[node]).

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
    paths: NDArray[np.int32]

    @cached_property
    def inner(self) -> Ints:
        """The nodes with children: the only ones a model has to run."""
        return np.flatnonzero(self.is_inner)

    @cached_property
    def is_inner(self) -> NDArray[np.bool_]:
        """Return whether each node has children, shape (nodes,)."""
        return self.end > np.arange(len(self.end)) + 1

    def above(self, node: int) -> Ints:
        """Return the ancestors of *node*, the first token first, shape (depth,)."""
        ancestors = []
        while (node := int(self.parent[node])) >= 0:
            ancestors.append(node)
        return np.array(ancestors[::-1], dtype=np.int64)

    def path(self, sequence: int) -> Ints:
        """Return the nodes of an input sequence, first token first, shape (length,)."""
        path: Ints = self.paths[sequence].astype(np.int64)
        return path[path >= 0]


def padded(rows: Sequences, fill: int, kind: DTypeLike = np.int64) -> NDArray[Any]:
    """Pad rows on the right to a matrix, shape (rows, longest). :param kind: of its numbers."""
    matrix = np.full((len(rows), max([1, *map(len, rows)])), fill, dtype=kind)
    for row, values in zip(matrix, rows, strict=True):
        row[: len(values)] = values
    return matrix


def build_trie(sequences: Sequences) -> Trie:
    """Build a trie of non-empty sequences of token ids; equal sequences share one path.

    Of a million sequences its matrices are the largest thing in memory: they have 32 bits.
    """
    matrix = padded(sequences, -1, np.int32)
    order = np.lexsort(matrix.T[::-1])
    matrix = matrix[order]

    # A token starts a new node where it or anything before it differs from the sequence above.
    new = np.ones(matrix.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(matrix[1:] != matrix[:-1], axis=1)
    new &= matrix >= 0
    paths = np.zeros_like(matrix)
    paths[new] = np.arange(new.sum())  # row-major: preorder
    np.maximum.accumulate(paths, axis=0, out=paths)
    paths[matrix < 0] = -1

    parent = np.pad(paths[:, :-1], ((0, 0), (1, 0)), constant_values=-1)[new].astype(np.int64)
    depth = np.broadcast_to(np.arange(matrix.shape[1]), matrix.shape)[new]
    tokens = matrix[new].astype(np.int64)
    matrix[order] = paths
    return Trie(tokens, depth, parent, _subtree_ends(parent, depth), matrix)


def _subtree_ends(parent: Ints, depth: Ints) -> Ints:
    sizes = np.ones(len(parent), dtype=np.int64)
    for level in range(depth.max(initial=0), 0, -1):
        nodes = np.flatnonzero(depth == level)
        np.add.at(sizes, parent[nodes], sizes[nodes])
    return np.arange(len(parent)) + sizes


class Lookup:
    """An index of the places of values in an array, shape (n,)."""

    def __init__(self, keys: Ints) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def find(self, wanted: Ints) -> tuple[Ints, Ints]:
        """Return pairs (index into *wanted*, place of that value), in the order of *wanted*."""
        low, high = np.searchsorted(self.keys, wanted, "left"), np.searchsorted(self.keys, wanted, "right")
        counts = high - low
        index = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
        return index, self.order[low[index] + within]


class AnswerTrie:
    """An answer space as a trie of the continuations of a prompt.

    :param continuations: token ids of each candidate after the prompt; none empty. Equal ones share a leaf.
    :param ids: of the candidates, by which equal scores are ordered; None for the order of the candidates.
    """

    def __init__(self, continuations: Sequences, ids: Sequence[str] | None = None) -> None:
        self.ids = np.arange(len(continuations)) if ids is None else np.array(ids, dtype=object)
        self.trie = build_trie(continuations)
        self.roots = np.flatnonzero(self.trie.parent < 0)
        self.is_inner = self.trie.is_inner
        self.terminal = self.trie.paths.max(axis=1).astype(np.int64)  # preorder: the last is the highest
        """Last node of each candidate, shape (candidates,)."""
        self.children, self.ending = Lookup(self.trie.parent), Lookup(self.terminal)
        """Children of a node, and candidates that end at it."""
        self.tokens = int((self.trie.paths >= 0).sum())
        ends = np.column_stack([np.arange(len(self.trie.end)), self.trie.end]).ravel()
        self.longest = np.maximum.reduceat(np.append(self.trie.depth + 1, 0), ends)[::2]
        """Tokens of the longest answer through each node, shape (nodes,)."""

    def __len__(self) -> int:
        return len(self.terminal)


class Block(NamedTuple):
    """A slice of the trie that runs as one packed sequence.

    :param nodes: nodes to run, in preorder: the ancestors of the first new node, then the new ones.
    :param context: number of these ancestors: another block scores their children.
    """

    nodes: Ints
    context: int


def blocks_from(trie: Trie, start: int, size: int, most: int) -> tuple[list[Block], int]:
    """Return the next blocks of *size* nodes, with at least as many new nodes as context.

    So they are larger after a long prefix, which is not run again for a few nodes.

    :param start: number of ``trie.inner`` in earlier blocks.
    :param most: nodes of all blocks together, each padded to the widest; a longer path may take twice its length.
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

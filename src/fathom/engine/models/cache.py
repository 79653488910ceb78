"""Caches of causal models for the tokens they have run: keys and values, or the states of recurrent layers.

Recurrent and hybrid models accept no tree mask, because a state holds all earlier tokens in a fixed size. So branches
are rows of their own, and the state after a shared prefix is copied to each (:mod:`fathom.engine.scoring.causal`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from transformers import DynamicCache

NAMES = ("cache", "past_key_values", "cache_params", "state")
"""Names of a model's memory in versions of `transformers`, as an argument and in its output."""


class KeyValues:
    """Keys and values that later tokens see, of each layer, shape (b, heads, tokens, d). Never changed in place.

    :param positions: of the tokens, shape (b, tokens).
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], positions: Tensor) -> None:
        self.layers, self.positions = layers, positions

    @classmethod
    def from_transformers(cls, memory: DynamicCache, positions: Tensor) -> KeyValues:
        """:param positions: of all tokens in *memory*, shape (b, tokens)."""
        return cls([(layer.keys, layer.values) for layer in memory.layers], positions)

    def to_transformers(self) -> DynamicCache:
        """Return a new cache object: `transformers` replaces the tensors in it, so these remain unmodified."""
        memory = DynamicCache()
        for number, (keys, values) in enumerate(self.layers):
            memory.update(keys, values, number)
        return memory

    def __len__(self) -> int:
        return self.positions.shape[1]

    def keep(self, rows: Tensor) -> KeyValues:
        """Select tokens in every row of the batch. :param rows: their places, ascending, shape (kept,)."""
        return KeyValues(
            [(keys[:, :, rows.to(keys.device)], values[:, :, rows.to(values.device)]) for keys, values in self.layers],
            self.positions[:, rows],
        )

    def repeat(self, times: int) -> KeyValues:
        """Repeat the cache of one row; memory is shared until the rows diverge."""
        layers = [(k.expand(times, -1, -1, -1), v.expand(times, -1, -1, -1)) for k, v in self.layers]
        return KeyValues(layers, self.positions.expand(times, -1))


class States:
    """States of b rows after the same number of tokens.

    :meth:`fathom.engine.models.base.Model.advance` changes them in place, so continue from a copy (:meth:`select`).

    :param memory: the model library's own object.
    """

    def __init__(self, memory: Any, rows: int, length: int) -> None:
        self.memory, self.rows, self.length = memory, rows, length

    def select(self, rows: Tensor) -> States:
        """Copy some of the rows, in the given order and with repetitions. :param rows: shape (r,)."""

        def chosen(tensor: Tensor) -> Tensor:
            per_row = tensor.dim() > 0 and tensor.shape[0] == self.rows
            return tensor.index_select(0, rows.to(tensor.device)) if per_row else tensor.clone()

        return States(_map_tensors(self.memory, chosen), len(rows), self.length)

    def bytes_per_row(self) -> int:
        """Return the memory of one row, in bytes."""
        sizes: list[int] = []

        def count(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        _map_tensors(self.memory, count)
        return max(1, sum(sizes) // self.rows)


def _map_tensors(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Copy lists, dictionaries and objects of the model library, with every tensor in them changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, list | tuple):
        return type(thing)([_map_tensors(item, change) for item in thing])
    if isinstance(thing, dict):
        return {key: _map_tensors(item, change) for key, item in thing.items()}
    if type(thing).__module__.startswith("transformers."):
        duplicate = copy.copy(thing)
        duplicate.__dict__.update({name: _map_tensors(value, change) for name, value in vars(thing).items()})
        return duplicate
    return thing

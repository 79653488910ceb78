"""What a causal model remembers of the tokens it has run."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from transformers import DynamicCache


class KeyValues:
    """Keys and values of each layer, shape (b, heads, tokens, d), and the tokens' positions, shape (b, tokens)."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], positions: Tensor) -> None:
        self.layers, self.positions = layers, positions

    @classmethod
    def empty(cls, like: Tensor) -> KeyValues:
        """Of no tokens.

        :param like: positions of as many rows, shape (b, tokens).
        """
        return cls([], like[:, :0])

    @classmethod
    def of(cls, memory: DynamicCache, positions: Tensor) -> KeyValues:
        """What `transformers` remembers.

        :param positions: of all tokens in it, shape (b, tokens).
        """
        return cls([(layer.keys, layer.values) for layer in memory.layers], positions)

    def as_transformers_cache(self) -> DynamicCache:
        """A cache object of its own: `transformers` replaces the tensors in it, and these here stay as they are."""
        memory = DynamicCache()
        for number, (keys, values) in enumerate(self.layers):
            memory.update(keys, values, number)
        return memory

    def __len__(self) -> int:
        return self.positions.shape[1]

    def keep(self, rows: Tensor) -> KeyValues:
        """See :meth:`fathom.models.base.Cache.keep`."""
        return KeyValues(
            [(keys[:, :, rows.to(keys.device)], values[:, :, rows.to(values.device)]) for keys, values in self.layers],
            self.positions[:, rows],
        )

    def repeat(self, times: int) -> KeyValues:
        """See :meth:`fathom.models.base.Cache.repeat`."""
        layers = [(k.expand(times, -1, -1, -1), v.expand(times, -1, -1, -1)) for k, v in self.layers]
        return KeyValues(layers, self.positions.expand(times, -1))

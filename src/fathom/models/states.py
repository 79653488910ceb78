"""What a recurrent or hybrid model keeps of the tokens it has run: one state per row, which branches can start from.

Such models take no tree: a state holds all that came before in a size that does not grow, so branches are rows of their
own, and the state of a shared beginning is copied to each (:func:`fathom.scoring.causal.causal_log_probs`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor

NAMES = ("cache", "past_key_values", "cache_params", "state")
"""What versions of `transformers` call the memory of a model, as an argument and in its output."""


class States:
    """States of b rows that have run the same number of tokens. Going on from them uses them up
    (:meth:`fathom.models.base.Model.advance`), so whoever needs them again goes on from a copy (:meth:`select`).

    :param memory: the model library's own object.
    """

    def __init__(self, memory: Any, rows: int, length: int) -> None:
        self.memory, self.rows, self.length = memory, rows, length

    def select(self, rows: Tensor) -> States:
        """A copy with some of the rows, in the order given and as often as given.

        :param rows: shape (r,).
        """

        def chosen(tensor: Tensor) -> Tensor:
            per_row = tensor.dim() > 0 and tensor.shape[0] == self.rows
            return tensor.index_select(0, rows.to(tensor.device)) if per_row else tensor.clone()

        return States(_mapped(self.memory, chosen), len(rows), self.length)

    def bytes_per_row(self) -> int:
        """Memory that one row takes."""
        total = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal total
            total += tensor.numel() * tensor.element_size()
            return tensor

        _mapped(self.memory, count)
        return max(1, total // self.rows)


def _mapped(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of lists, tables and objects of the model library, every tensor in them changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, list | tuple):
        return type(thing)([_mapped(one, change) for one in thing])
    if isinstance(thing, dict):
        return {key: _mapped(one, change) for key, one in thing.items()}
    if type(thing).__module__.startswith("transformers."):
        own = copy.copy(thing)
        own.__dict__.update({name: _mapped(value, change) for name, value in vars(thing).items()})
        return own
    return thing

"""How many tokens run at a time: as given, halved whenever the memory turns out too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from fathom.errors import RunFailed

Result = TypeVar("Result")


class Budget:
    """Tokens per forward pass. One object serves a whole run, so a halving is learnt once.

    :param tokens: to begin with; None takes what keeps the hardware busy (2,048 on a CPU, 16,384 elsewhere).
    """

    def __init__(self, tokens: int | None, device: torch.device) -> None:
        self.tokens = tokens or (2048 if device.type == "cpu" else 16384)
        self.halvings = 0

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Do *work*. Where memory runs out, halve the budget and return None: the caller tries again, smaller."""
        try:
            return work()
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            if self.tokens <= 16:
                raise RunFailed("out of memory with 16 tokens at a time: use a smaller model or --dtype") from error
        self.tokens //= 2
        self.halvings += 1
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

"""How many tokens run at a time: as given, halved whenever the memory turns out too small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch

from fathom.errors import RunFailed

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Budget:
    """Tokens per forward pass. One object serves a whole run, so a halving is learnt once.

    :param tokens: to begin with; None takes what keeps the hardware busy (2,048 on a CPU, 16,384 elsewhere).
    """

    def __init__(self, tokens: int | None, device: torch.device) -> None:
        self.tokens = tokens or (2048 if device.type == "cpu" else 16384)
        self.halvings = 0

    def batches(
        self, total: int, pack: Callable[[int], tuple[Batch, int]], run: Callable[[Batch], Result]
    ) -> Iterator[tuple[Batch, Result]]:
        """Run *total* things in order, as many at a time as memory holds.

        :param pack: of the place of a thing the batch that begins with it, by the budget of the moment, and the place
            behind that batch.
        :param run: what is to be done with a batch; done again with a smaller one where memory runs out.
        :returns: each batch with what *run* has made of it.
        :raises RunFailed: memory is too small for the smallest batch.
        """
        start = 0
        while start < total:
            batch, after = pack(start)
            found = self.attempt(partial(run, batch))
            if found is not None:
                yield batch, found
                start = after

    def fitting(self, lengths: Sequence[int], start: int, *, equal: bool = False) -> int:
        """The place behind the last sequence that runs together with that at *start*, all padded to the longest.

        :param lengths: of all sequences in tokens, ascending.
        :param equal: only sequences of one length go together.
        """
        stop = start + 1
        while stop < len(lengths) and (stop + 1 - start) * lengths[stop] <= self.tokens:
            if equal and lengths[stop] != lengths[start]:
                break
            stop += 1
        return stop

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Do *work*. Where memory runs out, halve the budget and return None: the caller tries again, smaller.

        :raises RunFailed: memory runs out with 16 tokens at a time.
        """
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

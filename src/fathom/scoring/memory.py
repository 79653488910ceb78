"""How many tokens run at a time: as given, halved whenever the memory turns out too small."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.errors import RunFailed
from fathom.models.base import Model

PASS_SHARE = 8
"""Where all tokens of a pass stand in one sequence behind a cache, it runs one part in so many of the budget: each of
them also sees some hundreds of others."""
AUTO = "auto"
"""Instead of a number of tokens: as many as the free memory holds."""
STATES_PER_TOKEN = 24
"""States of full width that a token has in memory while a layer runs: its own, queries, keys and values, what the
feed-forward part (three tensors of up to four widths) makes of it, and room to spare."""
FREE_SHARE = 0.5
"""Of the free memory; the rest is for masks, caches, slices of logits, and others."""
Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Budget:
    """Tokens per forward pass. One object serves a whole run, so a halving is learnt once.

    :param tokens: to begin with; None takes what keeps the hardware busy (2,048 on a CPU, 16,384 elsewhere).
    """

    def __init__(self, tokens: int | None, device: torch.device) -> None:
        self.tokens = tokens or usual_tokens(device)
        self.halvings = 0
        self.fitted: int | None = None
        """The tokens that free memory was found to hold; None where it was not asked."""

    @classmethod
    def told(cls, tokens: int | str | None, model: Model) -> Budget:
        """By what ``--batch-tokens`` says: a number, None, or :data:`AUTO`."""
        if tokens != AUTO:
            return cls(int(tokens) if tokens is not None else None, model.device)
        found = cls(fitting_tokens(model, free_bytes(model.device)), model.device)
        found.fitted = found.tokens
        return found

    def circumstances(self) -> dict[str, Any]:
        """For the manifest: how often memory ran out, and how many tokens it was found to hold, if that was asked."""
        return {"halvings": self.halvings} | ({} if self.fitted is None else {"fitted_tokens": self.fitted})

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

    def tokens_over_cache(self) -> int:
        """How many tokens run at a time where all stand in one sequence behind a cache."""
        return max(16, self.tokens // PASS_SHARE)

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


def usual_tokens(device: torch.device) -> int:
    """What keeps the hardware busy."""
    return 2048 if device.type == "cpu" else 16384


def fitting_tokens(model: Model, free: int | None) -> int:
    """The greatest power of two of tokens whose states fit: no fewer than 16, nor more than four times the usual.

    :param free: bytes; None where they cannot be told, for the usual number.
    """
    usual = usual_tokens(model.device)
    if free is None:
        return usual
    states = model.embed(torch.zeros(1, dtype=torch.long, device=model.device))
    holds = int(free * FREE_SHARE) // (STATES_PER_TOKEN * states.shape[-1] * states.element_size())
    return min(max(16, 1 << max(0, holds.bit_length() - 1)), 4 * usual)


def free_bytes(device: torch.device) -> int | None:
    """Memory that nobody uses on *device*, or None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """A host's array on *device*, without waiting for what runs there: copies from pinned memory stand in the queue."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

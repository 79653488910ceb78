"""The number of tokens that run at a time; halved each time memory runs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.base.errors import RunFailed
from fathom.engine.models.base import Model
from fathom.engine.scoring.evidence import Evidence

PASS_SHARE = 8
"""Divisor of the budget for passes of one sequence after a cache, whose tokens also see hundreds of others."""
AUTO = "auto"
"""Value of --batch-tokens for as many tokens as free memory holds."""
STATES_PER_TOKEN = 24
"""Vectors of full width in memory per token while a layer runs: states, queries, keys, values, the feed-forward part
(three tensors of up to four widths), and a reserve."""
FREE_SHARE = 0.5
"""Share of the free memory for these; the rest is for masks, caches, slices of logits, and other processes."""
_UNLIMITED = 1 << 60
"""Limits of control groups at or above this are none."""
_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: limit, use, and the part of the use that is given back on demand, in memory.stat."""
Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Budget:
    """Tokens per forward pass. One object serves a whole run, so that memory runs out once.

    :param tokens: initial number; None for 2,048 on a CPU and 16,384 elsewhere.
    """

    def __init__(self, tokens: int | None, device: torch.device) -> None:
        self.tokens = tokens or usual_tokens(device)
        self.halvings = 0
        self.evidence = Evidence()
        self.fitted: int | None = None
        """Tokens that fitted the free memory; None if not measured."""

    @classmethod
    def from_option(cls, tokens: int | str | None, model: Model) -> Budget:
        """Make a budget from ``--batch-tokens``: a number, None, or :data:`AUTO`."""
        if tokens != AUTO:
            return cls(int(tokens) if tokens is not None else None, model.device)
        budget = cls(fitting_tokens(model, free_bytes(model.device)), model.device)
        budget.fitted = budget.tokens
        return budget

    def circumstances(self) -> dict[str, Any]:
        """Return how often memory ran out, how many tokens fitted if measured, and the evidence, for the manifest."""
        fitted = {} if self.fitted is None else {"fitted_tokens": self.fitted}
        return {"halvings": self.halvings, **fitted, **self.evidence.circumstances()}

    def batches(
        self, total: int, pack: Callable[[int], tuple[Batch, int]], run: Callable[[Batch], Result]
    ) -> Iterator[tuple[Batch, Result]]:
        """Run *total* items in order, as many at a time as memory holds.

        :param pack: returns the batch that begins with an item, by the present budget, and the place after it.
        :param run: processes a batch; repeated with a smaller one if memory runs out.
        :returns: each batch with the result of *run*.
        :raises RunFailed: memory is too small for the smallest batch.
        """
        start = 0
        while start < total:
            batch, after = pack(start)
            result = self.attempt(partial(run, batch))
            if result is not None:
                yield batch, result
                start = after

    def fitting(self, lengths: Sequence[int], start: int, *, equal: bool = False) -> int:
        """Return the place after the last sequence that runs together with that at *start*, padded to the longest.

        :param lengths: of all sequences in tokens, ascending.
        :param equal: only sequences of one length run together.
        """
        stop = start + 1
        while stop < len(lengths) and (stop + 1 - start) * lengths[stop] <= self.tokens:
            if equal and lengths[stop] != lengths[start]:
                break
            stop += 1
        return stop

    def tokens_over_cache(self) -> int:
        """Return how many tokens run at a time as one sequence after a cache."""
        return max(16, self.tokens // PASS_SHARE)

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Run *work*. If memory runs out, halve the budget and return None: the caller tries again, smaller.

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
    """Return the number of tokens that keeps the hardware busy."""
    return 2048 if device.type == "cpu" else 16384


def fitting_tokens(model: Model, free: int | None) -> int:
    """Return the greatest power of two of tokens whose states fit, from 16 to four times the usual number.

    :param free: bytes; None if unknown, for the usual number.
    """
    usual = usual_tokens(model.device)
    if free is None:
        return usual
    states = model.embed(torch.zeros(1, dtype=torch.long, device=model.device))
    holds = int(free * FREE_SHARE) // (STATES_PER_TOKEN * states.shape[-1] * states.element_size())
    return min(max(16, 1 << max(0, holds.bit_length() - 1)), 4 * usual)


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of *device* in bytes; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = list(left_in_groups())
    with suppress(AttributeError, ValueError, OSError):
        known.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def left_in_groups(root: Path = Path("/")) -> Iterator[int]:
    """Yield the bytes left under each limit of this process's control groups, of which containers and jobs are made.

    :param root: of the file system.
    """
    for version, group, mount in _groups(root):
        folder = mount / group.lstrip("/")
        # A container may see its own group as the root, under the path of the host.
        for place in (folder, *folder.parents) if folder.is_dir() else (mount,):
            if place != mount and mount not in place.parents:
                break
            with suppress(OSError, ValueError):
                yield from _left(place, *_FILES[version])


def _groups(root: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield version, path and mount point of the groups that limit memory."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if "memory" in controllers.split(","):
                yield 1, group, root / "sys/fs/cgroup/memory"
            elif not controllers:
                yield 2, group, root / "sys/fs/cgroup"


def _left(folder: Path, limit: str, use: str, reclaimable: str) -> Iterator[int]:
    """Yield the rest of a limit, if there is one. :raises OSError, ValueError: the group has no such files."""
    most = int((folder / limit).read_text())  # "max" is no number
    if most < _UNLIMITED:
        pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in pairs if name == reclaimable), 0)
        yield max(0, most - int((folder / use).read_text()) + files)


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy a host's array to *device* without waiting for it: copies from pinned memory are queued."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

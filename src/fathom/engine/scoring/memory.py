"""The tokens that run at a time, halved when memory runs out; the logits that are held; evidence of their scores."""

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
from fathom.engine.models.base import LinearHead, Model, log_softmax
from fathom.engine.models.checks import PRECISION
from fathom.engine.models.weights import EIGHT_BITS, linear, remedy
from fathom.engine.scoring.trie import Ints
from fathom.store.folder import LARGEST_DIFFERENCE

TOKENS = 32
"""Most tokens compared at the end of a sequence."""
TOLERANCE, HALF, EIGHT = PRECISION, 0.25, 0.1
"""Nats per token by which scores may differ, in full and in half precision, and in eight bits of bitsandbytes.

Rounding in float32 changes about 1e-6. On SmolLM2-135M and Gemma-3-270m, bfloat16 changes at most 0.07, four bits 1e-5,
and eight bits 0.1 to 0.4: as much as they differ from float32.
"""
Floats = NDArray[np.floating]


class Evidence:
    """The largest difference between scores and those of single sequences, in nats per token.

    The first time that a path scores in a run, a few of its sequences run again, one at a time, through the model's own
    layers under its own mask, with nothing shared, cached or padded.
    """

    def __init__(self) -> None:
        self.sequences = 0
        self.largest = 0.0
        self._paths: set[tuple[str, str]] = set()

    def begins(self, model: Model, path: str) -> bool:
        """Return whether *path* scores for the first time in this run."""
        key = path, model.identity.dtype
        is_new = key not in self._paths
        self._paths.add(key)
        return is_new

    def add(self, model: Model, path: str, scores: Floats, plain: Floats) -> None:
        """Compare the scores of a sequence's tokens, in nats. Those that are not finite are unscored, with a reason.

        :raises RunFailed: they differ by more than rounding does.
        """
        finite = np.isfinite(scores) & np.isfinite(plain)
        if not finite.any():
            return
        off = float(np.abs(scores[finite].astype(np.float64) - plain[finite]).mean())
        self.sequences += 1
        self.largest = max(self.largest, off)
        dtype = model.identity.dtype
        allowed = TOLERANCE if dtype == "float32" else EIGHT if EIGHT_BITS in dtype else HALF
        if off > allowed:
            advice = "report the model with the versions of torch and transformers, or try others"
            raise RunFailed(
                f"'{model.identity.name}': scores by {path} differ by {off:.1e} nats per token from those of single "
                f"sequences, more than {allowed}, so this run would be wrong: {remedy(dtype) or advice}"
            )

    def add_states(self, model: Model, path: str, states: Tensor, plain: Tensor) -> None:
        """Compare states, shape (m, d), by the log-probabilities of all tokens that the head makes of them."""
        log_probs = (log_softmax(model.logits(rows)).cpu().numpy() for rows in (states, plain))
        self.add(model, path, *log_probs)

    def circumstances(self) -> dict[str, int | float]:
        """Return how many sequences were compared, and the largest difference, for the manifest."""
        return {"compared_sequences": self.sequences, LARGEST_DIFFERENCE: self.largest} if self.sequences else {}


def some_of(lengths: Sequence[int]) -> list[int]:
    """Return the places of the longest sequence, the first one and one amid others."""
    return list(dict.fromkeys((int(np.argmax(lengths)), 0, len(lengths) // 2))) if len(lengths) else []


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
    limits = list(left_in_groups())
    with suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


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


ROWS = 1024
CPU_LOGITS = 4 * 1024 * 1024
"""Logits held at a time on a CPU: 16 MiB of float32, which stay in the processor's cache."""
DEVICE_LOGITS = 256 * 1024 * 1024


def target_log_probs(model: Model, hidden: Tensor, rows: Ints, tokens: Ints) -> Tensor:
    """Return log p(token | state) in nats; the softmax is in float32 in any precision of the model.

    Rows and tokens are on the host, so that nothing waits for the device before the scores are read.

    :param hidden: shape (m, d).
    :param rows: the state that each wanted token follows, ascending, shape (wanted,).
    :param tokens: the wanted tokens, shape (wanted,).
    :returns: float32, shape (wanted,); NaN for ids beyond the vocabulary, which are rows of vectors: a model sees them
        (:meth:`fathom.engine.models.base.Model.embed_with`) but cannot predict them.
    """
    predictable = tokens < model.vocabulary_size
    tokens = np.minimum(tokens, model.vocabulary_size - 1)
    room = CPU_LOGITS if hidden.device.type == "cpu" else DEVICE_LOGITS
    head = model.linear_head()
    step = ROWS if head is not None else max(1, room // model.vocabulary_size)
    starts = range(0, len(hidden), step)
    bounds = np.searchsorted(rows, [*starts, len(hidden)]).tolist()
    local, wanted = on_device(rows % step, hidden.device), on_device(tokens, hidden.device)
    out = torch.empty(len(rows), dtype=torch.float32, device=hidden.device)
    for first, low, high in zip(starts, bounds[:-1], bounds[1:], strict=True):
        states, part = hidden[first : first + step], slice(low, high)
        if head is None:
            logits = model.logits(states)
            out[part] = logits[local[part], wanted[part]] - torch.logsumexp(logits, dim=-1)[local[part]]
        else:
            out[part] = _by_vocabulary_slices(head, states, local[part], wanted[part], room)
    return out.masked_fill_(on_device(~predictable, hidden.device), torch.nan)


def same_token_log_probs(model: Model, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token | state) in nats, of the same tokens after each state; the softmax is in float32.

    :param hidden: shape (m, d).
    :param tokens: shape (t,).
    :returns: float32, shape (m, t).
    """
    room = CPU_LOGITS if hidden.device.type == "cpu" else DEVICE_LOGITS
    step = max(1, room // model.vocabulary_size)
    out = torch.empty((len(hidden), len(tokens)), dtype=torch.float32, device=hidden.device)
    for first in range(0, len(hidden), step):
        logits = model.logits(hidden[first : first + step])
        out[first : first + step] = logits[:, tokens] - torch.logsumexp(logits, dim=-1, keepdim=True)
    return out


def _by_vocabulary_slices(head: LinearHead, states: Tensor, rows: Tensor, tokens: Tensor, room: int) -> Tensor:
    """Sum the normaliser over slices of the vocabulary, holding the logits of one slice at a time."""
    states = head.transform(states)
    width = max(256, room // len(states))
    scores = torch.empty(len(rows), dtype=torch.float32, device=states.device)
    normaliser = torch.full((len(states),), -torch.inf, device=states.device)
    for low in range(0, len(head.weight), width):
        bias = None if head.bias is None else head.bias[low : low + width]
        logits = linear(states, head.weight[low : low + width], bias).float()
        # Each token is looked up in each slice: cheaper than a synchronisation to find those in it.
        inside = (tokens >= low) & (tokens < low + width)
        scores = torch.where(inside, logits[rows, (tokens - low).clamp(0, logits.shape[1] - 1)], scores)
        normaliser = torch.logaddexp(normaliser, _logsumexp_in_place(logits))
    return scores - normaliser[rows]


def _logsumexp_in_place(logits: Tensor) -> Tensor:
    highest = logits.amax(dim=-1, keepdim=True)
    return logits.sub_(highest).exp_().sum(dim=-1).log_().add_(highest[:, 0])

"""How long a run will take, and in how much memory, before a weight is read (``--dry-run``).

Some shards are evaluated with a model that counts the passes of the engine (:mod:`fathom.run.counted`). A few of these
passes are timed with a network of the model's shape; the work of the host is timed as it happens.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import NarrowedData
from fathom.models.base import Identity, Model
from fathom.models.likelihoods import LikelihoodServer
from fathom.models.loading import load_causal_tokenizer
from fathom.models.options import ServerOptions
from fathom.models.server import ChatServer
from fathom.probes import Entry
from fathom.probes.models import loading_key, open_shape
from fathom.probes.options import ProbeOptions
from fathom.progress import unseen
from fathom.run.counted import HEAD, Stopwatch, counted
from fathom.run.setup import set_up
from fathom.scoring.rows import Columns

SHARDS = 6
"""Shards that are evaluated to count passes, fewer if they take long."""
SAMPLING = 10.0
"""Seconds that this may take; the smallest shard is always evaluated."""
READING = 500e6
"""Bytes of weights read and placed per second."""
STARTING = 0.5
"""Seconds for the self-checks of a model and for the files of a run."""
KEPT = 2**29
"""Bytes of freed memory that a CPU's run keeps (:func:`fathom.models.kernels.keep_freed_memory`), as measured."""


class Forecast(NamedTuple):
    """The estimated work of a run.

    :param texts: statements or prompts to score.
    :param tokens: that pass through the layers, shared prefixes once.
    :param calls: to a server; None for a local model.
    :param seconds: None for a server; likewise *memory*, in bytes.
    :param assumes: what the estimate assumes.
    """

    queries: int
    texts: int
    tokens: int | None
    calls: int | None
    seconds: float | None
    memory: int | None
    assumes: Sequence[str]

    def lines(self) -> list[str]:
        """Return the estimate in words."""
        work = f"{self.queries:,} queries; {self.texts:,} texts to score"
        if self.seconds is None or self.memory is None:
            return [f"{work}; about {self.calls:,} calls to the server", *self._notes]
        minutes = f"{self.seconds / 60:,.1f} minutes" if self.seconds >= 60 else f"{self.seconds:.0f} seconds"
        return [
            f"{work}; {self.tokens:,} tokens to run",
            f"about {minutes} and {self.memory / 1e9:.1f} GB of memory",
            *self._notes,
        ]

    @property
    def _notes(self) -> list[str]:
        return [f"assumed: {note}" for note in self.assumes]


class Forecaster:
    """Estimates runs, and keeps the last model's shape and the times of its passes.

    :param clock: returns seconds; those of the processor on a busy machine.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._last: tuple[str, Stopwatch] | None = None
        self._opening = 0.0

    def forecast(self, entry: Entry, model: str, data: QuerySet | NarrowedData, options: ProbeOptions) -> Forecast:
        """Estimate a run. Nothing is written, and no server is called.

        :raises BadInput: as the run would, before it begins; or its work cannot be known.
        """
        if isinstance(options, ServerOptions) and options.server is not None:
            return _forecast_calls(entry, model, data, options)
        watch = self._watch(model, options)
        source = data.source if isinstance(data, NarrowedData) else data
        stand_in = counted(watch.model, _reply_tokens(watch.model, source))
        with TemporaryDirectory() as folder:
            work = _Sample(entry, stand_in, data, options, Path(folder), self.clock)
        seconds = STARTING + self._opening + work.seconds + watch.seconds(work.passes)
        size = watch.model.parameters * watch.model.dtype.itemsize
        tokens = sum(count * one.rows * one.length for one, count in work.passes.items() if one.kind != HEAD)
        here = sum(weight.numel() * weight.element_size() for weight in watch.model.network.parameters())
        kept = KEPT if watch.model.device.type == "cpu" else 0
        memory = _peak_bytes(watch.model.device) + size - here + kept
        notes = [f"one process on {watch.model.device} with {torch.get_num_threads()} threads", *work.notes]
        notes += [f"without --{name}" for name in ("screen", "quantize", "device_map") if getattr(options, name, None)]
        return Forecast(work.queries, work.texts, round(tokens), None, seconds + size / READING, memory, notes)

    def _watch(self, model: str, options: ProbeOptions) -> Stopwatch:
        key = json.dumps([model, options.device, loading_key(options)], default=str)
        if self._last is None or self._last[0] != key:
            self._last = None  # frees its memory
            began = self.clock()
            self._last = key, Stopwatch(open_shape(model, options), self.clock)
            self._opening = self.clock() - began
        return self._last[1]


class _Sample:
    """A probe's preparation and some of its shards, evaluated with a counted model, and extrapolated to all."""

    def __init__(
        self, entry: Entry, model: Any, data: Any, options: ProbeOptions, artifacts: Path, clock: Callable[[], float]
    ) -> None:
        began = clock()
        probe, setup = set_up(entry, model, data, options)
        texts = {shard: probe.count_texts(shard) for shard in setup.plan}
        probe.prepare(artifacts, unseen)
        once, model.passes = model.passes, Counter()
        middle = clock()
        drawn = random.Random(0).sample(setup.plan, min(SHARDS, len(setup.plan)))
        rows: list[Columns] = []
        some, sampled = 0, 0
        for shard in sorted(drawn, key=lambda shard: (texts[shard], setup.plan.index(shard))):
            if some and (clock() - middle) * (sampled + texts[shard]) > SAMPLING * sampled:  # it would take too long
                break
            rows += probe.evaluate(shard)
            some, sampled = some + 1, sampled + texts[shard]
        times = sum(texts.values()) / max(1, sampled)
        self.queries, self.texts = setup.queries.num_rows, sum(texts.values())
        self.seconds = middle - began + times * (clock() - middle)
        self.passes = {one: once[one] + times * model.passes[one] for one in once | model.passes}
        self.notes = (
            [f"{some} of {len(setup.plan)} shards, which were tried, are like the others"]
            if some < len(setup.plan)
            else []
        )
        self.notes += ["a search that prunes nothing: an upper limit"] * any("tokens_full" in row for row in rows)
        self.notes += [f"replies of {model.reply_tokens} tokens"] * any("answers" in row for row in rows)


def _peak_bytes(device: torch.device) -> int:
    """Return the most memory that this process has taken so far, data and libraries included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _reply_tokens(model: Model, data: QuerySet) -> int:
    """Return the mean length of gold answers, and one token that ends a reply."""
    some = data.queries[:: -(-len(data.queries) // 200) or 1]
    spaces = [data.candidates[query.candidates] for query in some]
    golds = [(space, id_) for query, space in zip(some, spaces, strict=True) for id_ in query.gold[:1]]
    names = [space.name_of(id_) for space, id_ in golds if id_ in space.position]
    ids = model.tokenizer(names, add_special_tokens=False, verbose=False)["input_ids"] if names else [[0]]
    return 1 + round(sum(map(len, ids)) / len(ids))


def _forecast_calls(entry: Entry, model: str, data: Any, options: Any) -> Forecast:
    """Count the calls of a run, one for each text, without a connection."""
    tokenizer = getattr(options, "tokenizer", None)
    server: Any = object.__new__(LikelihoodServer if tokenizer else ChatServer)
    server.model, server.identity = model, Identity(model, None, "server", "none")
    if tokenizer:
        server.tokenizer = load_causal_tokenizer(tokenizer)
        server.vocabulary_size, server.max_tokens = len(server.tokenizer), None
    probe, setup = set_up(entry, server, data, options)
    texts = sum(map(probe.count_texts, setup.plan))
    return Forecast(setup.queries.num_rows, texts, None, texts, None, None, ["equal texts are sent once"])

"""How long a run will take, and in how much memory, before a weight is read (``--dry-run``).

Some shards are evaluated with a :class:`CountedModel`, which counts the passes of the engine instead of running them. A
few of these are timed with a network of the model's shape; the work of the host is timed as it happens.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from fathom.base.progress import unseen
from fathom.data.queries import QuerySet
from fathom.engine.models.base import Identity, KeyValues, LinearHead, Model, Reply, States
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.generation import generate_greedily
from fathom.engine.models.likelihoods import LikelihoodServer
from fathom.engine.models.local import LocalModel
from fathom.engine.models.parts import load_causal_tokenizer
from fathom.engine.models.server import ChatServer
from fathom.engine.scoring.memory import target_log_probs
from fathom.engine.scoring.rows import Columns
from fathom.probes.models import is_served, loading_key, open_shape, served_tokenizer
from fathom.probes.options import ProbeOptions
from fathom.probes.run.request import RunRequest
from fathom.probes.run.setup import set_up

SHARDS = 6
"""Shards that are evaluated to count passes, fewer if they take long."""
SAMPLING = 10.0
"""Seconds that this may take; the smallest shard is always evaluated."""
READING = 500e6
"""Bytes of weights read and placed per second."""
STARTING = 0.5
"""Seconds for the self-checks of a model and for the files of a run."""
KEPT = 2**29
"""Bytes of freed memory that a CPU's run keeps (:mod:`fathom.engine.models.weights`), as measured."""
HEAD = "head"
WIDTH = 16
"""Numbers of an embedding of the model that counts: pseudowords need room."""
QUERIES = 64
"""Queries of a link predictor that are evaluated."""
STRATA = 3
"""Passes of each kind that are timed."""
LONG = 0.2
"""Seconds of a part of a pass from which no larger part is timed."""


class Pass(NamedTuple):
    """A forward pass of *rows* of *length* tokens that see *past* others as well; the head's rows are single states."""

    kind: str
    rows: int
    length: int
    past: int = 0

    def cost(self, width: int) -> float:
        """Return a number that grows as the time does: products with weights, and attention."""
        return self.rows * self.length * (6.0 * width + self.length + self.past)


class CountedModel(LocalModel):
    """A causal or masked model whose states are its embeddings, which are random."""

    passes: Counter[Pass]
    reply_tokens: int

    @cached_property
    def _embeddings(self) -> Tensor:
        drawn = torch.Generator().manual_seed(0)
        return torch.randn((self.vocabulary_size, WIDTH), generator=drawn).to(self.device)

    def note(self, kind: str, rows: int, length: int, past: int = 0) -> None:
        self.passes[Pass(kind, rows, length, past)] += 1

    def embed(self, ids: Tensor) -> Tensor:
        return embedding(ids, self._embeddings)

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        self.note("plain" if visible is None else "masked", *vectors.shape[:2])
        return vectors

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        return self.hidden(vectors)[:, :1].expand(-1, at.shape[1], -1)

    def grow(
        self, past: KeyValues | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, KeyValues]:
        places = positions if past is None else torch.cat([past.positions, positions], dim=1)
        rows, length, _ = vectors.shape
        self.note("masked", rows, length, 0 if past is None else len(past))
        return vectors, KeyValues([], places)

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        self.note("plain", *vectors.shape[:2])
        return vectors, States(None, len(vectors), vectors.shape[1] + (0 if past is None else past.length))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return infinities, whose probabilities are undefined, so that no check compares them."""
        self.note(HEAD, len(hidden), 1)
        return hidden.new_full((1, 1), torch.inf).expand(len(hidden), self.vocabulary_size)

    def linear_head(self) -> LinearHead | None:
        def transform(states: Tensor) -> Tensor:
            self.note(HEAD, len(states), 1)
            return states

        return LinearHead(transform, torch.zeros((1, WIDTH), device=self.device), None)

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        length = min(max_new_tokens, self.reply_tokens) if stop else max_new_tokens
        return generate_greedily(self, prompts, length, bos=bos)


class CountedPairs(EncoderDecoder):
    """An encoder-decoder that counts its passes."""

    passes: Counter[Pass]
    reply_tokens: int

    def encode(self, sources: Tensor, read: Tensor) -> Tensor:
        self.passes[Pass("encode", *sources.shape)] += 1
        return torch.ones((*sources.shape, 1), device=sources.device)

    def decode(self, states: Tensor, read: Tensor, targets: Tensor) -> Tensor:
        rows, length = targets.shape
        self.passes[Pass("decode", rows, length, states.shape[1])] += 1
        return torch.zeros((1, 1, 1), device=targets.device).expand(*targets.shape, self.vocabulary_size)

    def _reply(self, prompt: str, max_new_tokens: int, stop: Sequence[str]) -> Reply:
        source, length = len(self.tokenizer(prompt).input_ids), min(max_new_tokens, self.reply_tokens)
        self.passes += Counter({Pass("encode", 1, source): 1, Pass("decode", 1, 1, source): length})
        return Reply("", length, None)


def counted(shape: Model, reply_tokens: int) -> CountedModel | CountedPairs:
    """Return a model that counts the passes of one of this shape, and refuses the same ways to run.

    :param reply_tokens: assumed length of a reply that may stop early.
    """
    model: Any = copy.copy(shape)
    model.__class__ = CountedPairs if isinstance(shape, EncoderDecoder) else CountedModel
    model.passes, model.reply_tokens = Counter(), reply_tokens
    for name in ("refuses_tree", "refuses_cache", "refuses_states", "refuses_padding", "has_head", "stateless"):
        setattr(model, name, getattr(shape, name, None))
    return model  # type: ignore[no-any-return]


class Stopwatch:
    """Times passes of a model; those of one shape once."""

    def __init__(self, model: LocalModel | EncoderDecoder, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.model, self.width = model, getattr(model.network.config.get_text_config(), "hidden_size", 768)
        self._known: dict[Pass, float] = {}

    def seconds(self, passes: Mapping[Pass, float]) -> float:
        """Estimate the time of passes. Those of a kind are sorted by cost, and cut into strata of which one is timed.

        :param passes: how many there are of each.
        """
        total = 0.0
        for kind in sorted({run.kind for run in passes}):
            alike = sorted((run for run in passes if run.kind == kind), key=lambda run: run.cost(self.width))
            costs = np.array([passes[run] * run.cost(self.width) for run in alike])
            place = (np.cumsum(costs) - costs / 2) / costs.sum()
            for number in range(STRATA):
                inside = np.flatnonzero((place * STRATA).astype(int) == number).tolist()
                if inside:
                    middle = alike[inside[len(inside) // 2]]
                    times = 1.0 if kind == HEAD else self.model.for_each_layer
                    total += times * self._time(middle) / middle.cost(self.width) * float(costs[inside].sum())
        return total

    def _time(self, run: Pass) -> float:
        """Return the seconds of a pass; of a long one, those of a part of it times their ratio."""
        rows, length = 1, min(run.length, 128)
        while run not in self._known:
            part = run._replace(rows=rows, length=length)
            seconds = min(self._run(part), self._run(part))
            if part == run or seconds > LONG:
                self._known[run] = seconds * run.cost(self.width) / part.cost(self.width)
            rows, length = min(2 * rows, run.rows), min(2 * length, run.length)
        return self._known[run]

    @torch.inference_mode()
    def _run(self, run: Pass) -> float:
        work = self._work(run)
        wait = partial(torch.cuda.synchronize, self.model.device) if self.model.device.type == "cuda" else int
        wait()
        began = self.clock()
        work()
        wait()
        return self.clock() - began

    def _work(self, run: Pass) -> Callable[[], object]:
        """Return a function that runs a pass; what is seen of a past is left to :meth:`Pass.cost`."""
        model, (kind, rows, length, past) = self.model, run
        ids = torch.arange(rows * length, device=model.device).view(rows, length) % model.vocabulary_size
        if isinstance(model, EncoderDecoder):
            read = torch.ones((rows, past if kind == "decode" else length), dtype=torch.bool, device=model.device)
            encode = partial(model.encode, torch.zeros_like(read, dtype=torch.long), read)
            return encode if kind == "encode" else partial(model.decode, encode(), read, ids)
        vectors = model.embed(ids)
        if kind == HEAD:
            states = model.hidden(model.embed(ids[:1]))[0].expand(rows, -1)
            return partial(target_log_probs, model, states, np.arange(rows), np.zeros(rows, dtype=np.int64))
        if kind == "plain":
            return partial(model.hidden, vectors)
        places = (torch.arange(length, device=model.device) % (model.max_tokens or length)).expand(rows, -1)
        lower = torch.ones((length, length), dtype=torch.bool, device=model.device).tril().expand(rows, -1, -1)
        return partial(model.hidden, vectors, places, lower)


class Forecast(NamedTuple):
    """The estimated work of a run.

    :param texts: statements or prompts to score; None for a link predictor, like *tokens*.
    :param tokens: that pass through the layers, shared prefixes once.
    :param calls: to a server; None for a local model.
    :param seconds: None for a server; likewise *memory*, in bytes.
    :param assumes: what the estimate assumes.
    """

    queries: int
    texts: int | None
    tokens: int | None
    calls: int | None
    seconds: float | None
    memory: int | None
    assumes: Sequence[str]

    def lines(self) -> list[str]:
        """Return the estimate in words."""
        counts = ((self.texts, "texts to score"), (self.tokens, "tokens to run"), (self.calls, "calls to the server"))
        work = [f"{self.queries:,} queries", *(f"{count:,} {what}" for count, what in counts if count is not None)]
        lines = ["; ".join(work)]
        if self.seconds is not None and self.memory is not None:
            lines.append(f"about {duration(self.seconds)} and {self.memory / 1e9:.1f} GB of memory")
        return [*lines, *(f"assumed: {note}" for note in self.assumes)]


def duration(seconds: float) -> str:
    """Return "12 seconds", "1.5 minutes" or, above two hours, "2.5 hours"."""
    if seconds < 60:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:,.1f} minutes" if seconds <= 7200 else f"{seconds / 3600:,.1f} hours"


class Forecaster:
    """Estimates runs, and keeps the last model's shape and the times of its passes.

    :param clock: returns seconds; those of the processor on a busy machine.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._last: tuple[str, Stopwatch] | None = None
        self._opening = 0.0

    def forecast(self, request: RunRequest) -> Forecast:
        """Estimate a run. Nothing is written, and no server is called.

        :param request: of a model by its name or folder.
        :raises BadInput: as the run would, before it begins; or its work cannot be known.
        """
        options = request.options
        if is_served(options):
            return _forecast_calls(request)
        watch = self._watch(request.model, options)
        stand_in = counted(watch.model, _reply_tokens(watch.model, request.source))
        with TemporaryDirectory() as folder:
            work = _Sample(request.with_model(stand_in), Path(folder), self.clock)
        seconds = STARTING + self._opening + work.seconds + watch.seconds(work.passes)
        size = watch.model.parameters * watch.model.dtype.itemsize
        tokens = sum(count * run.rows * run.length for run, count in work.passes.items() if run.kind != HEAD)
        here = sum(weight.numel() * weight.element_size() for weight in watch.model.network.parameters())
        kept = KEPT if watch.model.device.type == "cpu" else 0
        memory = _peak_bytes(watch.model.device) + size - here + kept
        notes = [f"one process on {watch.model.device} with {torch.get_num_threads()} threads", *work.notes]
        notes += [f"without --{name}" for name in ("quantize", "device_map") if getattr(options, name, None)]
        return Forecast(work.queries, work.texts, round(tokens), None, seconds + size / READING, memory, notes)

    def shape(self, model: str, options: ProbeOptions) -> Any:
        """Return a model that has no weights, or a server that cannot be called."""
        return _unconnected(model, options) if is_served(options) else self._watch(model, options).model

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

    def __init__(self, request: RunRequest, artifacts: Path, clock: Callable[[], float]) -> None:
        began, model = clock(), request.model
        probe, setup = set_up(request)
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
        self.passes = {run: once[run] + times * model.passes[run] for run in once | model.passes}
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


def forecast_ranking(request: RunRequest, clock: Callable[[], float] = time.perf_counter) -> Forecast:
    """Estimate the run of a trained link predictor by its preparation and a few queries."""
    _, setup = set_up(request)
    probe, few = set_up(request.with_options(limit=QUERIES))
    began = clock()
    with TemporaryDirectory() as folder:
        probe.prepare(Path(folder), unseen)
        prepared = clock()
        for shard in few.plan:
            probe.evaluate(shard)
    each = (clock() - prepared) / few.queries.num_rows
    queries, device = setup.queries.num_rows, torch.device(request.model.device)
    seconds = STARTING + prepared - began + queries * each
    notes = [f"each query takes as long as the mean of {few.queries.num_rows}"]
    return Forecast(queries, None, None, None, seconds, _peak_bytes(device), notes)


def _unconnected(model: str, options: ProbeOptions) -> Any:
    tokenizer = served_tokenizer(model, options)
    server: Any = object.__new__(LikelihoodServer if tokenizer else ChatServer)
    server.model, server.identity = model, Identity(model, None, "server", "none")
    if tokenizer:
        server.tokenizer = load_causal_tokenizer(tokenizer)
        server.vocabulary_size, server.max_tokens = len(server.tokenizer), None
    return server


def _forecast_calls(request: RunRequest) -> Forecast:
    """Count the calls of a run, one for each text, without a connection."""
    probe, setup = set_up(request.with_model(_unconnected(request.model, request.options)))
    texts = sum(map(probe.count_texts, setup.plan))
    return Forecast(setup.queries.num_rows, texts, None, texts, None, None, ["equal texts are sent once"])

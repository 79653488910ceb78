"""Estimates of the time of a link predictor, from a few steps and queries (``fathom plan --dry-run``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.base.progress import unseen
from fathom.data.knowledge import KnowledgeGraph, consecutive
from fathom.engine.models.loading import device_of
from fathom.training.loop import Epoch, Loop
from fathom_kgc.links import base, find
from fathom_kgc.links.options import Embedding, LinkOptions, LinkTraining

STEPS, QUERIES = 4, 8
"""Steps of each stage, and triples that are ranked."""
FEW = 4
"""Queries per step in a first measurement, which is the only one if those of a full step take too long."""
EMBEDDING_TRIPLES = 5_000
"""Training triples from which embeddings are measured. Predictors that read texts have those of a few batches."""
LIMIT = 20.0
"""Seconds after which no further step is measured."""
Clock = Callable[[], float]
Measure = Callable[..., tuple[float, int]]


class LinkForecast(NamedTuple):
    """:param assumes: what the estimate assumes."""

    seconds: float
    assumes: tuple[str, ...]


def forecast_links(
    kind: str, graph: KnowledgeGraph, training: LinkTraining, evaluation: LinkOptions, clock: Clock = time.perf_counter
) -> LinkForecast:
    """Estimate one training and its evaluation. Language models have their shape and random weights.

    :param clock: returns seconds; those of the processor on a busy machine.
    :raises BadInput: a kind that has no steps, such as prompted models.
    """
    predictor_type, is_embedding = find(kind).load(), isinstance(training, Embedding)
    if not is_embedding and predictor_type.train is not base.Predictor.train:
        raise BadInput(f"{kind} has no training steps that can be measured")
    seconds, size = 0.0, training.batch_size
    for few in [size] if is_embedding else sorted({min(FEW, size), size}):
        began = clock()
        seconds = _estimate(predictor_type, graph, training.model_copy(update={"batch_size": few}), evaluation, clock)
        if (clock() - began) * size > LIMIT * few:  # so slow that time grows with the queries of a step
            break
    return LinkForecast(seconds, ("trainings of all their epochs, though they may stop earlier",))


def _estimate(
    kind: type[base.Predictor], graph: KnowledgeGraph, training: LinkTraining, evaluation: LinkOptions, clock: Clock
) -> float:
    """Estimate a training by batches of its size, and its evaluation."""
    is_embedding = isinstance(training, Embedding)
    triples = EMBEDDING_TRIPLES if is_embedding else STEPS * training.batch_size // 2 + QUERIES
    sample = _sample(graph, triples, all_entities=is_embedding)
    changed: dict[str, Any] = {"seconds": LIMIT, "patience": None}
    changed["validate_on"] = 10 * QUERIES if is_embedding else QUERIES
    changed |= {"init": "random"} if "init" in type(training).model_fields else {}
    began = clock()
    predictor = kind(sample, training.model_copy(update=changed), None, device_of(training.device))
    opening = clock() - began
    clocks = _Clocks(predictor, clock)
    with TemporaryDirectory() as folder:
        measure: Measure = _time_epochs if is_embedding else _time_stages
        trained, validations = measure(predictor, training, graph, Path(folder), clocks)
    rows = graph.splits.get("dev", range(0))
    validated = 2 * min(len(rows), training.validate_on or len(rows))
    test = len(graph.splits.get("test", graph.training))
    evaluated = len(evaluation.directions) * min(test, evaluation.limit or test)
    scale = len(graph.entities) / len(sample.entities)
    once, each = clocks.per_call("prepare") * scale, clocks.per_query()
    prepared = (validations * bool(len(rows)) + 1) * once
    return 2 * opening + trained + prepared + (validations * validated + evaluated) * each


def _sample(graph: KnowledgeGraph, triples: int, all_entities: bool) -> KnowledgeGraph:
    """Return a graph of so few triples of each split, drawn at random, if it has more."""
    parts = graph.splits or {"": range(len(graph))}
    if max(map(len, parts.values())) <= triples and (all_entities or len(graph.entities) <= 4 * triples):
        return graph
    drawn = np.random.default_rng(0)
    rows = [np.sort(drawn.choice(np.array(span), min(len(span), triples), replace=False)) for span in parts.values()]
    head, relation, tail = (column[np.concatenate(rows)] for column in (graph.head, graph.relation, graph.tail))
    splits = consecutive(dict(zip(parts, map(len, rows), strict=True)))
    if all_entities:
        return KnowledgeGraph(graph.entities, graph.relations, head, relation, tail, splits)
    return KnowledgeGraph.from_used(graph.entities, graph.relations, (head, relation, tail), splits)


class _Clocks:
    """The seconds of each call of a predictor's methods, which are wrapped."""

    def __init__(self, predictor: base.Predictor, clock: Clock) -> None:
        self.now = clock
        self.seconds: dict[str, list[float]] = {"prepare": [], "rank": []}
        self.queries: list[int] = []
        for name in self.seconds:
            setattr(predictor, name, self._timed(name, getattr(predictor, name)))

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **keywords: Any) -> Any:
            began = self.now()
            result = method(*arguments, **keywords)
            self.seconds[name].append(self.now() - began)
            if name == "rank":
                self.queries.append(len(arguments[0]))
            return result

        return call

    def total(self) -> float:
        """Return the seconds of all calls."""
        return sum(map(sum, self.seconds.values()))

    def per_call(self, name: str) -> float:
        """Return the seconds of the fastest call, as the first ones are slow."""
        return min(self.seconds[name], default=0.0)

    def per_query(self) -> float:
        """Return the least seconds per query."""
        calls = zip(self.seconds["rank"], self.queries, strict=True)
        return min((seconds / count for seconds, count in calls), default=0.0)


class _Measured(base.Fit):
    """A training of which the seconds of each step, and of what follows an epoch, are kept by stage."""

    def __init__(self, predictor: base.Predictor, folder: Path, clock: Clock) -> None:
        super().__init__(predictor, folder, unseen)
        self.now = clock
        self.steps: dict[str, list[float]] = {}
        self.after: dict[str, list[float]] = {}

    def before_epoch(self, loop: Loop) -> str:
        self.last = self.now()
        return super().before_epoch(loop)

    def after_step(self, loop: Loop) -> None:
        super().after_step(loop)
        now = self.now()
        self.steps.setdefault(loop.stages[loop.at.stage].name, []).append(now - self.last)
        self.last = now

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        began = self.now()
        super().after_epoch(loop, epoch)
        self.after.setdefault(epoch.stage.name, []).append(self.now() - began)


def _time_stages(
    predictor: Any, training: LinkTraining, graph: KnowledgeGraph, folder: Path, clocks: _Clocks
) -> tuple[float, int]:
    """Return the seconds of all steps and epochs, and the number of validations, which are not in them."""
    stages = predictor.stages()
    predictor.stages = lambda: [
        replace(stage, steps=min(stage.steps, STEPS), epochs=min(stage.epochs, 2)) for stage in stages
    ]
    fit = _Measured(predictor, folder, clocks.now)
    fit.run()
    validating = clocks.total() / max(1, len(clocks.seconds["prepare"]))
    seconds, few = 0.0, predictor.graph
    for stage in (stage for stage in stages if stage.name in fit.steps):
        # A stage that is not validated reads the entities (knn-kge).
        scale = len(graph.training) / len(few.training) if stage.watched else len(graph.entities) / len(few.entities)
        each = fit.steps[stage.name]
        kept = max(0.0, min(fit.after[stage.name]) - validating * stage.watched)
        seconds += stage.epochs * (stage.steps * scale * fmean(each[1:] or each) + kept)
    return seconds, sum(stage.epochs for stage in stages if stage.watched)


def _time_epochs(
    predictor: base.Predictor, training: Embedding, graph: KnowledgeGraph, folder: Path, clocks: _Clocks
) -> tuple[float, int]:
    """Return the same of PyKEEN's loop, from the difference of a short and a longer training."""
    took = []
    for epochs in (1, 3):
        predictor.options = predictor.options.model_copy(update={"epochs": epochs, "validate_every": epochs})
        before, began = clocks.total(), clocks.now()
        predictor.train(folder / str(epochs), unseen)
        took.append(clocks.now() - began - (clocks.total() - before))
    epoch = max(took[1] - took[0], 0.0) / 2 * (len(graph.training) / len(predictor.graph.training))
    return took[0] + (training.epochs - 1) * epoch, -(-training.epochs // training.validate_every)

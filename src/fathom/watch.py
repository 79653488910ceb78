"""Evaluation of a model while it trains: a callback for ``transformers.Trainer`` and a function for other loops.

Evaluation leaves training unchanged: it runs on a copy of the modules that shares the weights, and restores the state
of every random generator.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState
from transformers.integrations import is_deepspeed_zero3_enabled

from fathom.api import probe
from fathom.api.result import Source, read_source
from fathom.base.errors import BadInput
from fathom.base.progress import LOG
from fathom.data.queries import QuerySet
from fathom.engine.models.loading import wrap
from fathom.probes.options import ProbeOptions, StatementOptions
from fathom.results.loading import read_scorings

if TYPE_CHECKING:
    from transformers import Trainer

FACTS, EVERY = 200, 500
"""The default budget: facts of each evaluation, and steps between two."""
MOST = 0.05
"""Share of the training's time above which evaluation is reported as slow."""


def sample_facts(data: Source, facts: int = FACTS, seed: int = 0) -> QuerySet:
    """Draw facts at random, from each relation in proportion to its size, in the order of the data.

    :param facts: how many; all if there are fewer.
    :raises BadInput: the data cannot be read.
    """
    whole, generator = read_source(data), random.Random(seed)
    places = {query.id: place for place, query in enumerate(whole.queries)}
    # Every n-th of the shuffled relations, end to end: the shares of relations differ by one fact at most.
    shuffled = [query for queries in whole.by_relation().values() for query in generator.sample(queries, len(queries))]
    count = min(facts, len(shuffled))
    drawn = [shuffled[(2 * number + 1) * len(shuffled) // (2 * count)] for number in range(count)]
    return replace(whole, queries=tuple(sorted(drawn, key=lambda query: places[query.id])), whole=whole)


def evaluate(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    step: int,
    facts: QuerySet,
    out: str | Path,
    options: ProbeOptions | None = None,
) -> dict[str, float]:
    """Evaluate a model in training, and keep the run in the folder ``checkpoint-STEP`` of *out*.

    Weights, modes, gradients and random generators remain unchanged. Call it in the main process alone.

    :param facts: such as those of :func:`sample_facts`; equal ones at every step.
    :param options: of the probe; by default the statement probe, by the first template where there are templates.
    :returns: numbers to log: accuracy with its interval, and the mean log-probability of the gold answers if the probe
        gives it; with several scorings, the scoring is in front of each name.
    :raises BadInput: the probe does not support this model or data, or the folder has an evaluation of other weights.
    """
    place = Path(out) / f"checkpoint-{step}"
    options = options or StatementOptions(templates=() if facts.template_faults((0,)) else (0,))
    with _generators_kept():
        model = wrap(network, tokenizer, str(place))
        result = probe(options, model, facts, place, progress=False)
    numbers: dict[str, float] = {}
    scorings = read_scorings(result.folder, str(step), options.cluster)
    for side in scorings:
        prefix, accuracy = f"{side.scoring}/" if len(scorings) > 1 else "", side.mean("accuracy", side.hits(1))
        log_probs = side.gold_log_probs[side.scored]
        values = {"accuracy": accuracy.value, "accuracy_low": accuracy.low, "accuracy_high": accuracy.high}
        values["gold_log_prob"] = float(log_probs.mean()) if len(log_probs) else None
        numbers |= {prefix + name: value for name, value in values.items() if value is not None and np.isfinite(value)}
    return numbers


@contextmanager
def _generators_kept() -> Iterator[None]:
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class KnowledgeCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates a fixed sample of facts while a model trains, and logs what it knows.

    ``trainer.add_callback(KnowledgeCallback(trainer, "geography", "knowledge"))``: everything that the trainer logs to
    receives the numbers of :func:`evaluate` as ``knowledge/accuracy`` and so on. Training ends in the same weights as
    without it. Only the main process evaluates. An evaluation that fails is logged as a warning, and training goes on.

    :param trainer: whose model is evaluated, and which logs.
    :param data: from which the sample is drawn.
    :param out: folder of the runs, one for each evaluation.
    :param every: steps between two evaluations. The first is before training, the last at the last step, unless another
        callback ends training early.
    :param facts: size of the sample, see :func:`sample_facts`; *seed* likewise.
    :param options: of the probe, as for :func:`evaluate`.
    :param tokenizer: by default the trainer's ``processing_class``.
    :raises BadInput: the data cannot be read. When training begins: the model cannot be evaluated.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: Source,
        out: str | Path,
        *,
        every: int = EVERY,
        facts: int = FACTS,
        seed: int = 0,
        options: ProbeOptions | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        if every < 1 or facts < 1:
            raise BadInput(f"every={every}, facts={facts}: expected 1 or more")
        self.trainer, self.out, self.every, self.options, self.tokenizer = trainer, Path(out), every, options, tokenizer
        self.facts = sample_facts(data, facts, seed)
        self.seconds, self._began = 0.0, time.perf_counter()

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        """Evaluate the model before training."""
        if self.trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
            raise BadInput("weights sharded over processes cannot be evaluated in training: fathom watch CHECKPOINTS…")
        self.seconds, self._began = 0.0, time.perf_counter()
        if state.is_world_process_zero:
            self._evaluate(state.global_step, control, **parts)

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        """Evaluate the model if it is time to."""
        if not state.is_world_process_zero or not (state.global_step % self.every == 0 or control.should_training_stop):
            return
        try:
            self._evaluate(state.global_step, control, **parts)
        except Exception as error:  # an evaluation must never end a training
            LOG.warning("step %d is not evaluated: %s: %s", state.global_step, type(error).__name__, error)

    def on_train_end(self, args: object, state: TrainerState, control: TrainerControl, **parts: object) -> None:
        """Report the time that evaluation took."""
        share = self.seconds / max(time.perf_counter() - self._began, 1e-9)
        if state.is_world_process_zero:
            hint = f": raise every={self.every}, or lower facts={len(self.facts.queries)}" if share > MOST else ""
            LOG.log(WARNING if hint else INFO, "evaluation took %.1f %% of the training's time%s", 100 * share, hint)

    def _evaluate(
        self,
        step: int,
        control: TrainerControl,
        *,
        model: PreTrainedModel,
        processing_class: PreTrainedTokenizerBase | None = None,
        **parts: object,
    ) -> None:
        began = time.perf_counter()
        tokenizer = self.tokenizer or processing_class
        numbers = evaluate(model, tokenizer, step, self.facts, self.out, self.options)
        seconds = time.perf_counter() - began
        self.seconds += seconds
        should_log = control.should_log  # logging clears it, and the trainer's own numbers of this step are to come
        self.trainer.log({f"knowledge/{name}": value for name, value in (numbers | {"seconds": seconds}).items()})
        control.should_log = should_log

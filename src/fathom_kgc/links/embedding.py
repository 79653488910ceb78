"""Knowledge graph embeddings: PyKEEN's models, losses and training loops with Fathom's folders and ranks.

Random numbers are drawn in the order of ``pykeen.pipeline.pipeline``, so that the same seed gives the same weights.
Checkpoints are read without unpickling code and replaced atomically.
"""

from __future__ import annotations

import gc
import json
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fathom.base.errors import BadInput, MissingExtra, RunFailed, alike, all_of
from fathom.base.progress import Progress
from fathom.base.reading import json_value
from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.store.files import write_json
from fathom.store.predictions import Scoring
from fathom.training.loop import NotANumber
from fathom.training.saving import random_state, set_random_state
from fathom_kgc.links import base, named
from fathom_kgc.links.base import Course, Line
from fathom_kgc.links.options import Embedding

try:
    from class_resolver import api
    from class_resolver.utils import get_subclasses, same_module

    resolvers: Any = api
    # Optimizers of other libraries (bitsandbytes, once quantised weights were loaded) bear the names of torch's own,
    # which the table of optimizers that is made here does not stand.
    resolvers.get_subclasses = lambda kind, **options: (
        subclass for subclass in get_subclasses(kind, **options) if same_module(kind, subclass)
    )
    try:
        from class_resolver.contrib.torch import optimizer_resolver
    finally:
        resolvers.get_subclasses = get_subclasses
    from pykeen.losses import loss_resolver
    from pykeen.models import Model, model_resolver
    from pykeen.sampling import negative_sampler_resolver
    from pykeen.training import TrainingLoop, training_loop_resolver
    from pykeen.training.callbacks import TrainingCallback
    from pykeen.training.training_loop import NonFiniteLossError
    from pykeen.triples import CoreTriplesFactory
    from pykeen.utils import set_random_seed
    from pykeen.version import get_version
except ImportError as error:
    raise MissingExtra("pykeen", "kgc") from error

SCORES = 16 * 1024 * 1024
"""Scores held at a time: 64 MiB."""
CELLS = {"cpu": 2**22, "cuda": 2**27}
"""Numbers that a model may spread out while it scores some entities: what fits a processor's cache is fastest."""
ROWS = 256
"""Questions that are scored at a time."""
CHECKPOINT_SECONDS = 10
"""A state older than this is replaced at the end of an epoch."""


class Predictor(base.Predictor):
    """A PyKEEN model of a graph, trained on its training split, or on all triples of a graph without splits.

    :raises BadInput: unknown names or arguments that PyKEEN refuses, before anything is written.
    """

    scoring = Scoring("plausibility", "score")
    options: Embedding
    network: Any

    @classmethod
    def check(cls, options: Embedding) -> None:
        """:raises BadInput: a name that PyKEEN does not have."""
        _kinds(options)

    def __init__(self, graph: KnowledgeGraph, options: Embedding, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.kinds = _kinds(options)
        self.triples = CoreTriplesFactory(  # entities and relations are numbered by their place in the graph
            np.stack(graph.columns(graph.training), axis=1),
            len(graph.entities),
            len(graph.relations),
            create_inverse_triples=options.inverse_triples,
        )
        with _calmed(), _refused(options):
            self.network = self.make()
            if source is None:
                self.sizes = self.try_out(self.make_loop())

    def make(self) -> Model:
        """Return the untrained model, in evaluation mode; its weights are drawn by the seed."""
        options = self.options
        set_random_seed(options.seed)
        kind, loss, arguments = self.kinds["model"], self.kinds["loss"], dict(options.model_kwargs)
        if options.dimension is not None:
            arguments["embedding_dim"] = options.dimension
        if loss is not None:
            arguments |= {"loss": loss, "loss_kwargs": options.loss_kwargs}
        elif options.loss_kwargs:
            defaults = dict(kind.loss_default_kwargs or {})
            arguments |= {"loss": kind.loss_default, "loss_kwargs": defaults | options.loss_kwargs}
        return kind(triples_factory=self.triples, random_seed=options.seed, **arguments).to(self.device).eval()

    def make_loop(self) -> TrainingLoop[Any]:
        """Return PyKEEN's training loop for the current model, with a new optimizer."""
        options = self.options
        sampler = {"num_negs_per_pos": options.negatives or 1}
        sampling = {"negative_sampler": self.kinds["negative_sampler"], "negative_sampler_kwargs": sampler}
        return self.kinds["loop"](
            model=self.network,
            triples_factory=self.triples,
            optimizer=self.kinds["optimizer"],
            optimizer_kwargs={"lr": options.learning_rate, **options.optimizer_kwargs},
            automatic_memory_optimization=False,  # done by try_out, so that a resumed training keeps its result
            **(sampling if options.loop == "slcwa" else {}),
        )

    def try_out(self, loop: TrainingLoop[Any]) -> tuple[int | None, int | None]:
        """Run two batches without a step.

        :returns: sizes of the parts in which batches and entities fit into memory, None for all at once.
        """
        try:
            return loop.sub_batch_and_slice(  # type: ignore[no-any-return]
                batch_size=self.options.batch_size, sampler=None, triples_factory=self.triples
            )
        except NonFiniteLossError:  # training will say so
            return None, None

    def train(self, folder: Path, progress: Progress) -> Line:
        """Run PyKEEN's own loop, with the validation and checkpoints of all kinds."""
        with _calmed():
            ended = _Training(self, folder, progress).run()
            self.network = self.make()  # anew: some models cache what they computed from other weights
        self.load(folder)
        return ended

    def describe(self, folder: Path) -> None:
        """Record for readers how PyKEEN understood the options, and what it chose, such as the norm of TransE (p)."""
        interaction = getattr(self.network, "interaction", None)
        scores = {} if interaction is None else {"interaction": type(interaction).__name__, **_settings(interaction)}
        content = {"pykeen": get_version(), "model": str(self.network), "optimizer": str(self.make_loop().optimizer)}
        write_json(folder / "pykeen.json", content | ({"scores": scores} if scores else {}))

    def notes(self) -> list[str]:
        """Return missing splits, and how many entities and relations do not occur in training."""
        graph = self.graph
        if "train" not in graph.splits:
            return ["the graph has no train split: all of its triples are trained on"]
        notes = [] if "dev" in graph.splits else ["there is no dev split: the weights are those of the last epoch"]
        trained = _seen(graph, graph.training)
        for name, rows in graph.splits.items():
            for what, places in _seen(graph, rows).items():
                if new := len(np.setdiff1d(places, trained[what])):
                    notes.append(
                        f"{new:,} {what} of the {name} split do not occur in training: their embeddings are random"
                    )
        return notes

    def block_size(self) -> int:
        return min(ROWS, SCORES // len(self.graph.entities))

    def scores(self, links: Links) -> Tensor:
        subject, relation, inverse = (
            torch.from_numpy(column).to(self.device) for column in (links.given, links.relation, links.inverse)
        )
        scores = torch.empty(len(links), len(self.graph.entities), device=self.device)
        tails = ~inverse, [subject, relation], self.network.predict_t
        heads = inverse, [relation, subject], self.network.predict_h
        for rows, columns, predict in (tails, heads):
            if rows.any():
                queries = torch.stack(columns, 1)[rows]
                scores[rows] = predict(queries, slice_size=self._slice(len(queries))).float()
        return scores

    def _slice(self, rows: int) -> int | None:
        width = sum(int(np.prod(whose.shape)) for whose in getattr(self.network, "entity_representations", []))
        return max(64, CELLS.get(self.device.type, CELLS["cuda"]) // (rows * width)) if width else None


def _seen(graph: KnowledgeGraph, rows: range) -> dict[str, Places]:
    head, relation, tail = graph.columns(rows)
    return {"entities": np.union1d(head, tail), "relations": np.unique(relation)}


def _settings(interaction: object) -> dict[str, Any]:
    """Return the numbers and names that an interaction has in addition to its weights."""
    values = vars(interaction).items()
    return {name: value for name, value in values if isinstance(value, int | float | str) and name != "training"}


RESOLVERS = {
    "model": model_resolver,
    "loss": loss_resolver,
    "optimizer": optimizer_resolver,
    "loop": training_loop_resolver,
    "negative_sampler": negative_sampler_resolver,
}


def _kinds(options: Embedding) -> dict[str, Any]:
    """Return the classes that the options name, or None."""
    *classes, _ = all_of(*(partial(_class, options, name) for name in RESOLVERS), lambda: _no_negatives(options))
    return dict(zip(RESOLVERS, classes, strict=True))


def _class(options: Embedding, field: str) -> Any:
    name, resolver, option = getattr(options, field), RESOLVERS[field], f"--{field.replace('_', '-')}"
    if name is None:
        return None
    try:
        return resolver.lookup(name)
    except (KeyError, ValueError) as error:
        names = sorted(kind.__name__ for kind in resolver)
        ours = [kind.name for kind in named()] if option == "--model" else []
        near = alike(name, [*names, *ours], 4, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names)}"
        raise BadInput(f"{option}: PyKEEN has no '{name}'; {hint}") from error


def _no_negatives(options: Embedding) -> None:
    options_given = {"--negatives": options.negatives, "--negative-sampler": options.negative_sampler}
    set_here = [name for name, value in options_given.items() if value is not None]
    if options.loop == "lcwa" and set_here:
        raise BadInput(f"{', '.join(set_here)}: --loop lcwa draws no wrong triples; say --loop slcwa")


@contextmanager
def _refused(options: Embedding) -> Iterator[None]:
    """Turn PyKEEN's errors on arguments into one line."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _too_large(options) from error
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        first = str(error).strip().split("\n")[0] or type(error).__name__
        raise BadInput(f"--model {options.model}: PyKEEN cannot train it with these options: {first}") from error


def _too_large(options: Embedding) -> RunFailed:
    return RunFailed(f"{options.model} does not fit into memory: use a smaller --batch-size or --dimension")


@contextmanager
def _calmed() -> Iterator[None]:
    """Suppress side effects of PyKEEN: log lines on defaults, and requests for pinned memory without a GPU."""
    logger = logging.getLogger("pykeen")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    gc.freeze()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'pin_memory' argument")
            yield
    finally:
        gc.unfreeze()
        logger.setLevel(level)


class _TimeIsUp(Exception):
    """Leaves PyKEEN's loop during an epoch."""


class _Training(Course, TrainingCallback):  # type: ignore[misc] # PyKEEN is untyped here
    """PyKEEN's loop with Fathom's curve, stopping and checkpoints, by callbacks."""

    predictor: Predictor
    options: Embedding

    def __init__(self, predictor: Predictor, folder: Path, progress: Progress) -> None:
        Course.__init__(self, predictor, folder, progress)
        TrainingCallback.__init__(self)
        self.batches, self.losses = 0, 0.0
        """Of the present epoch."""
        self.seconds, self.began = 0.0, time.monotonic()
        """Those of the calls before this one, and when this one began."""

    def run(self) -> Line:
        """Train. :returns: why it ended, and the best epoch. :raises NotANumber: the loss is NaN or infinite."""
        predictor = self.predictor
        predictor.network = predictor.make()
        self.loop = predictor.make_loop()
        resumed = self._resume()
        if not resumed:
            predictor.sizes = predictor.try_out(self.loop)
        if not self._ends():
            self._train(resumed)
        if not self.folder.weights.exists():  # no epoch
            self.folder.keep_weights(predictor.network)
        return self.ended(self._ends())

    def _train(self, resumed: bool) -> None:
        options, (part, slice_size) = self.options, self.predictor.sizes
        try:
            self.loop.train(
                self.predictor.triples,
                num_epochs=options.epochs,
                batch_size=options.batch_size,
                sub_batch_size=part,
                slice_size=slice_size,
                continue_training=resumed,
                use_tqdm=False,
                callbacks=[self],
                pin_memory=self.predictor.device.type == "cuda",
            )
        except _TimeIsUp:
            self._close_epoch(self.loop._epoch + 1, self.losses / self.batches)
        except NonFiniteLossError as error:
            if not self.folder.weights.exists():
                self.folder.keep_weights(self.predictor.network)  # those before the step
            raise NotANumber(
                f"the loss is not finite in epoch {self.loop._epoch + 1}, step {self.batches + 1}: use a smaller "
                f"--learning-rate; the best model so far is kept in {self.folder.path}"
            ) from error
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise _too_large(options) from error

    def pre_batch(self, **kwargs: object) -> None:
        if self.batches and self._out_of_time():  # here, not after a batch, when its step is still to come
            raise _TimeIsUp

    def on_batch(self, epoch: int, batch: object, batch_loss: float, **kwargs: object) -> None:
        self.losses += batch_loss

    def post_batch(self, epoch: int, batch: object, **kwargs: object) -> None:
        self.batches += 1

    def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: object) -> None:
        self._close_epoch(epoch, epoch_loss)
        self.batches, self.losses = 0, 0.0

    def _close_epoch(self, epoch: int, loss: float) -> None:
        """Validate, and write what there is. A part of an epoch, cut by the time limit, counts as one."""
        options, network = self.options, self.predictor.network
        line: Line = {"stage": "triples", "epoch": epoch, "loss": loss}
        if epoch == options.epochs or self._out_of_time() or epoch % options.validate_every == 0:
            network.eval()
            with torch.no_grad():  # not inference mode: some models cache what they compute, and learn from it
                line |= self.predictor.validate()
        line["seconds"] = round(self._seconds(), 3)
        self.curve.append(line)
        self.loop._epoch = epoch
        if not self.predictor.validation or self.best is line:
            self.folder.keep_weights(self.predictor.network)
        self.progress(epoch, options.epochs)
        ends = self.loop._should_stop = bool(self._ends())
        if ends or self.best is line or time.monotonic() - self.kept >= CHECKPOINT_SECONDS:
            self._keep_checkpoint()

    def _ends(self) -> str:
        if self.loop._epoch >= self.options.epochs:
            return "epochs"
        if self.is_out_of_patience():
            return "patience"
        return "seconds" if self._out_of_time() else ""

    def _seconds(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _out_of_time(self) -> bool:
        return self.options.seconds is not None and self._seconds() >= self.options.seconds

    def _keep_checkpoint(self) -> None:
        self.keep(
            {
                "epoch": self.loop._epoch,
                "losses": self.loop.losses_per_epochs,
                "seconds": self._seconds(),
                "curve": json.dumps(self.curve),
                "sizes": self.predictor.sizes,
                "optimizer": self.loop.optimizer.state_dict(),
                "random": random_state(),
            }
        )

    def _resume(self) -> bool:
        """Restore a checkpoint without executing its content."""
        saved = self.folder.checkpoint(self.predictor.device)
        if saved is None:
            return False
        predictor, loop = self.predictor, self.loop
        with self.folder.taking_back():
            self.seconds, self.curve = saved["seconds"], json_value(saved["curve"])
            predictor.sizes = tuple(saved["sizes"])
            predictor.network.load_state_dict(saved["network"])
            loop._epoch, loop.losses_per_epochs = saved["epoch"], saved["losses"]
            loop.optimizer.load_state_dict(saved["optimizer"])
            if not loop.optimizer.state:  # plain SGD has none, and PyKEEN takes that for never having been trained
                loop.optimizer.state[next(iter(predictor.network.get_grad_params()))] = {}
            set_random_state(saved["random"])
        return True

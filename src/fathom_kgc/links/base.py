"""The base class of link predictors, the training of those that read texts, and trained predictors as folders.

The random numbers of an epoch depend on seed and epoch alone, so a resumed training has the same curve as an
uninterrupted one. A folder has ``link.json`` (kind, options, graph, end of the training), ``weights.safetensors`` (the
best), ``curve.jsonl`` (a line per epoch), and during the training ``checkpoint.pt``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fathom._version import VERSION
from fathom.base.errors import BadInput, refuse
from fathom.base.options import Given, parse_options
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Missing, as_read_back, file_exists, json_lines, json_value, opened, shown, stands
from fathom.base.rights import refused_rights
from fathom.data.graph.links import Links, split_links
from fathom.data.graph.queries import graph_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.engine.models.base import AnyModel, Identity
from fathom.engine.models.loading import device_of
from fathom.engine.scoring.rows import RankResult, Ranks
from fathom.probes.base import Facts
from fathom.results.metrics.ranking import hits_at_k, reciprocal_rank
from fathom.store import manifest as store
from fathom.store.files import clear_temporaries, refuse_foreign_files, write_json, written_by_libraries
from fathom.store.folder import compared, differences
from fathom.store.locks import AT_WORK, exclusive_folder
from fathom.store.manifest import LINK
from fathom.store.predictions import Scoring
from fathom.store.surroundings import surroundings
from fathom.training.loop import Epoch, Hooks, Loop, NotANumber, Rules, Stage
from fathom.training.saving import State, TrainingFolder, load_weights
from fathom_kgc.links import find
from fathom_kgc.links.options import LinkTraining

BLOCK = 256
"""Questions that are validated on at a time."""
NOT_A_NUMBER = "the model's score of the right answer is not a number"
NOT_SCORED = "unscored"
"""In a line of the curve: the share of validation questions without a score."""
MINUTES = 10
"""Minutes between checkpoints within an epoch, of kinds without the option."""
WATCHED = "hits@10"
"""What early stopping looks at (Sakai et al. 2024, section 4.1)."""
Line = dict[str, Any]
"""Of the curve: stage, epoch, share of the epoch, loss, seconds, and where validated Hits@k and MRR."""


class Predictor(AnyModel):
    """A link predictor of one graph. The constructor makes it untrained: :meth:`load` or :meth:`train` follow.

    :param graph: entities and relations are identified by their place in it.
    :param options: of its kind.
    :param source: folder that :meth:`describe` wrote, to restore its shape without the weights; None to begin anew.
    """

    scoring: Scoring
    """What its scores are."""
    network: nn.Module
    """Everything that is learnt."""
    options: LinkTraining
    device: torch.device
    tokenizer: Any = None
    validating = False
    """Return whether it is :meth:`validate` that asks, which is content with less."""

    def __init__(self, graph: KnowledgeGraph, options: LinkTraining, source: Path | None, device: torch.device) -> None:
        self.graph, self.options, self.device = graph, options, device

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        """Rank each gold answer among all entities, filtered, in the order of the queries.

        A search that stopped early sets ``above``. Called in evaluation mode without gradients, after :meth:`prepare`.

        :param top: how many of the best answers to list, known ones included.
        :param keep_scores: also return the scores of all entities, if there are any.
        """
        parts = blocks(links, self.block_size())
        return [result for part in parts for result in rank_links(self.scores(part), part, top, keep_scores)]

    def scores(self, links: Links) -> Tensor:
        """Score all entities for each query, shape (queries, entities); for kinds that do not override :meth:`rank`."""
        raise NotImplementedError

    def block_size(self) -> int:
        """Return how many queries to score at a time."""
        return 1

    def stages(self) -> Sequence[Stage]:
        """Return the stages of the training, for kinds that do not override :meth:`train`."""
        raise NotImplementedError

    def rules(self) -> Rules:
        """Return the rules of the steps of its training."""
        return Rules("linear", **self.options.model_dump(include={field.name for field in fields(Rules)}))

    def as_read(self, links: Links) -> list[str] | None:
        """Return each query as the language model reads it, or None for kinds that read no text."""
        return None

    @classmethod
    def check(cls, options: Any) -> None:
        """Check options quickly, without a graph. :raises BadInput: such as an unknown language model."""

    def prepare(self, progress: Progress) -> None:
        """Compute what all queries share, such as entity vectors; called again after the weights have changed."""

    def prepare_in(self, artifacts: Path, progress: Progress) -> None:
        """Prepare for a run. :param artifacts: its folder, for what must survive a kill, such as replies."""
        self.prepare(progress)

    def train(self, folder: Path, progress: Progress) -> Line:
        """Train into *folder*, or resume from its ``checkpoint.pt``; the network ends with the best weights.

        Writes ``weights.safetensors``, and ``curve.jsonl`` with one line per epoch.

        :returns: ``why`` it ended (epochs, patience or seconds), ``epoch`` and ``hits@10`` of the best.
        :raises NotANumber: the loss is NaN or infinite.
        :raises RunFailed: the disk is full; the same call resumes.
        """
        return Fit(self, folder, progress).run()

    def describe(self, folder: Path) -> None:
        """Write what the constructor needs of ``source`` (configuration, tokenizer), without the weights."""

    def load(self, folder: Path) -> None:
        """Read the weights of a training in *folder*, for evaluation."""
        load_weights(self.network, folder / "weights.safetensors")
        self.network.eval()

    def state(self) -> State:
        """Return what a checkpoint needs in addition to weights and optimiser: tensors, numbers, texts."""
        return {}

    def set_state(self, state: State) -> None:
        """Restore :meth:`state`."""

    def notes(self) -> list[str]:
        """Return notes on this graph and predictor, such as "12 entities have no description"."""
        return []

    def circumstances(self) -> Facts:
        """Return counts of the evaluation for the manifest."""
        return {}

    @cached_property
    def validation(self) -> Links | None:
        """Queries of the validation split; None if the graph has none."""
        if "dev" not in self.graph.splits:
            return None
        return split_links(self.graph, "dev", self.options.validate_on, self.options.seed)

    def validate(self) -> Mapping[str, float]:
        """Compute Hits@1, 3, 10 and MRR on the validation split, both directions, filtered; empty without one.

        A query without a rank is a miss: validation only chooses among epochs.
        """
        if not self.validation:
            return {}
        self.validating = True
        try:
            self.prepare(lambda done, total: None)
            return measured([result for some in blocks(self.validation, BLOCK) for result in self.rank(some, top=1)])
        finally:
            self.validating = False


def measured(results: Sequence[RankResult]) -> dict[str, float]:
    """Return Hits@k (expected under ties), MRR and the share without a score. A query without a rank is a miss."""
    ranks = [result.ranks for result in results if result.ranks is not None]
    optimistic, pessimistic = [rank.optimistic for rank in ranks], [rank.pessimistic for rank in ranks]
    values = {f"hits@{k}": hits_at_k(optimistic, pessimistic, k).sum() / len(results) for k in (1, 3, 10)}
    values["mrr"] = reciprocal_rank(optimistic, pessimistic).sum() / len(results)
    values[NOT_SCORED] = sum(result.unscored is not None for result in results) / len(results)
    return {name: float(value) for name, value in values.items()}


def blocks(links: Links, size: int) -> Iterator[Links]:
    """Split queries into blocks of *size*, in order."""
    size = max(1, size)
    for start in range(0, len(links), size):
        yield links.take(np.arange(start, min(start + size, len(links))))


def rank_links(scores: Tensor, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
    """Rank each gold answer among all entities, without the other known answers (the filtered setting).

    NaN scores rank below all others.

    :param scores: of every entity for each query, higher is better, shape (n, entities).
    :param top: how many of the best to list, known answers included.
    :param keep_scores: also return the scores of all entities.
    """
    rows, gold = torch.arange(len(links)), torch.from_numpy(links.gold)
    scores = scores.float()
    right = scores[rows, gold][:, None]
    among_all = _ranks(scores, right)
    best, place = torch.topk(torch.nan_to_num(scores, nan=-torch.inf), min(top, scores.shape[1]), dim=1)
    rivals = scores.clone()
    for row, filtered in enumerate(links.known):
        rivals[row, torch.from_numpy(filtered).to(scores.device)] = torch.nan
    kept = list(scores.cpu().numpy()) if keep_scores else [None] * len(links)
    ranked = zip(right[:, 0].tolist(), _ranks(rivals, right), among_all, kept, strict=True)
    listed = zip(place.tolist(), best.tolist(), strict=True)
    return [
        RankResult(
            ranks if np.isfinite(answer) else None,
            [answer],
            [unfiltered.realistic],
            list(zip(*best_ones, strict=True)),
            row,
            unscored=None if np.isfinite(answer) else NOT_A_NUMBER,
        )
        for (answer, ranks, unfiltered, row), best_ones in zip(ranked, listed, strict=True)
    ]


def _ranks(scores: Tensor, right: Tensor) -> list[Ranks]:
    """:param scores: shape (n, m). :param right: of the gold answers, shape (n, 1)."""
    counts = (scores > right).sum(1).tolist(), (scores == right).sum(1).tolist()
    return [Ranks.below(above, level - 1) for above, level in zip(*counts, strict=True)]


class Course:
    """The progress of a training in its folder: learning curve, best weights, checkpoint."""

    def __init__(self, predictor: Predictor, folder: Path, progress: Progress) -> None:
        self.predictor, self.options, self.progress = predictor, predictor.options, progress
        self.folder = TrainingFolder(folder)
        self.curve: list[Line] = []
        self.kept = time.monotonic()
        """When the last checkpoint was written."""

    @property
    def best(self) -> Line:
        """First line with the highest validated Hits@10; empty without validation."""
        return max((line for line in self.curve if WATCHED in line), key=lambda line: line[WATCHED], default={})

    def is_out_of_patience(self) -> bool:
        """Return whether the last ``patience`` validations brought no improvement."""
        validated = [line for line in self.curve if WATCHED in line]
        patience = self.options.patience
        return bool(validated) and patience is not None and len(validated) - validated.index(self.best) > patience

    def ended(self, why: str) -> Line:
        """Return why it ended and the best epoch, for the manifest."""
        return {"why": why, "epoch": self.best.get("epoch"), WATCHED: self.best.get(WATCHED)}

    def keep(self, state: State) -> None:
        """Write the curve, and a checkpoint of *state* and the weights."""
        self.folder.keep_curve(self.curve)
        self.folder.keep_checkpoint(state | {"network": self.predictor.network.state_dict()})
        self.kept = time.monotonic()


class Fit(Course, Hooks):
    """A training by :class:`~fathom.training.loop.Loop`."""

    def run(self) -> Line:
        loop = Loop(self.predictor.stages(), self.predictor.rules(), self, self.predictor.device)
        self._resume(loop)
        try:
            why = loop.run()
        except NotANumber as error:
            kept = f"the best model so far is kept in {self.folder.path}" if self.best else "nothing was learnt before"
            raise NotANumber(f"{error}; {kept}") from error
        if not self.best:  # nothing was validated: no dev split, or no epoch
            self.folder.keep_weights(self.predictor.network)
        load_weights(self.predictor.network, self.folder.weights)
        return self.ended(why)

    def before_stage(self, stage: Stage) -> None:
        self.predictor.network.requires_grad_(False)
        for weight in stage.parameters:
            weight.requires_grad_(True)

    def before_epoch(self, loop: Loop) -> str:
        if self.is_out_of_patience():
            return "patience"
        if loop.out_of_time():
            return "seconds"
        self.predictor.network.train()
        torch.manual_seed(hash((self.options.seed, loop.at.stage, loop.at.epoch)))
        return ""

    def after_step(self, loop: Loop) -> None:
        counts = [stage.epochs * stage.steps for stage in loop.stages]
        at, stage = loop.at, loop.stages[loop.at.stage]
        self.progress(sum(counts[: at.stage]) + at.epoch * stage.steps + at.step, sum(counts))
        between_steps = at.step % loop.rules.accumulate == 0
        if between_steps and time.monotonic() - self.kept > 60 * getattr(self.options, "checkpoint_minutes", MINUTES):
            self._keep_checkpoint(loop)

    def after_epoch(self, loop: Loop, epoch: Epoch) -> None:
        name, number = epoch.stage.name, epoch.number
        line: Line = {"stage": name, "epoch": number, "share": round(epoch.share, 4), "loss": epoch.loss}
        if epoch.stage.watched:
            self.predictor.network.eval()
            with torch.inference_mode():
                line |= self.predictor.validate()
            if line.get(NOT_SCORED) == 1:
                raise NotANumber(
                    f"no answer has a score that is a number after epoch {number} ({name}): use a smaller "
                    "--learning-rate"
                )
        line["seconds"] = round(loop.seconds(), 3)
        self.curve.append(line)
        if self.best is line:
            self.folder.keep_weights(self.predictor.network)
        self._keep_checkpoint(loop)

    def _keep_checkpoint(self, loop: Loop) -> None:
        state = loop.state()
        state["at"]["curve"] = json.dumps(self.curve)
        self.keep(state | {"state": self.predictor.state()})

    def _resume(self, loop: Loop) -> None:
        saved = self.folder.checkpoint(self.predictor.device)
        if saved is not None:
            with self.folder.taking_back():
                self.curve = json_value(saved["at"]["curve"])
                self.predictor.network.load_state_dict(saved["network"])
                self.predictor.set_state(saved["state"])
                loop.set_state(saved)


def shuffled(count: int, size: int, *seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers below *count* in random order, *size* at a time. :param seed: such as seed and epoch."""
    order = np.random.default_rng(seed).permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


MANIFEST = LINK
Manifest = dict[str, Any]
"""The content of ``link.json``."""


def train_links(
    kind: str, data: QuerySet, options: LinkTraining, out: str | Path, progress: Progress | None = None
) -> Manifest:
    """Train a link predictor into the folder *out*, or resume the same training.

    :param kind: as ``--model`` names it. :param data: a knowledge graph.
    :returns: the manifest: ``ended`` says why and at which epoch, ``notes`` describe the graph.
    :raises BadInput: no graph, an unknown kind, or *out* holds another training. :raises RunFailed: NaN, full disk.
    """
    predictor_kind, folder = find(kind), Path(out)
    graph = graph_of(data)
    if not len(graph):
        raise BadInput(f"{data.name} has no triples to train on")
    predictor = predictor_kind.load()(graph, options, None, device_of(options.device))
    weights = getattr(predictor, "identity", None)
    identity = {
        "kind": predictor_kind.name,
        "options": options.identity(),
        "weights": None if weights is None else {"name": weights.name, "content_hash": weights.content_hash},
        "data": {"name": data.name, "content_hash": graph.content_hash, "places": _places(graph)},
        "version": VERSION,
    }
    with exclusive_folder(folder):
        return _train(folder, _start(folder, identity), predictor, progress or unseen)


def _train(folder: Path, manifest: Manifest, predictor: Predictor, progress: Progress) -> Manifest:
    if manifest["ended"] is not None:
        (folder / "checkpoint.pt").unlink(missing_ok=True)  # where a kill came between the manifest and its removal
        if manifest["ended"].get("failed"):
            raise NotANumber(f"{manifest['ended']['why']}; to train anew choose another --out")
        return manifest
    with written_by_libraries(folder):
        predictor.describe(folder)
    try:
        manifest["ended"] = predictor.train(folder, progress)
    except NotANumber as error:
        manifest["ended"] = {"why": str(error), "failed": True}
        raise
    finally:
        if manifest["ended"] is not None:
            manifest["notes"] = predictor.notes()
            write_json(folder / MANIFEST, manifest)
            (folder / "checkpoint.pt").unlink(missing_ok=True)  # last: without it the training would begin anew
    return manifest


def open_links(folder: str | Path, data: QuerySet, device: str | None = None, asking: Given | None = None) -> Predictor:
    """Open a trained predictor, ready for :meth:`~fathom_kgc.links.base.Predictor.prepare`.

    :param data: the graph it was trained on, or another with the same entities and relations (a world of it).
    :param asking: options that replace those of its training, and the rights that it may use.
    :raises BadInput: not a model folder, a training that has not ended or learnt nothing, another graph; or a server
        elsewhere that is not in *asking*, too.
    """
    path, changed = Path(folder), dict(asking or {})
    manifest = read_manifest(path)
    command = "fathom kgc evaluate "  # predict takes no rights
    refuse(refused_rights(path / MANIFEST, manifest["identity"]["options"], changed, command))
    if changed.get("server") == manifest["identity"]["options"].get("server"):
        changed.pop("server", None)
    kind, graph, trained = find(manifest["identity"]["kind"]), graph_of(data), manifest["identity"]["data"]
    if trained["places"] != _places(graph):
        raise BadInput(
            f"{path} was trained on {trained['name']}, whose entities and relations are not those of {data.name}: "
            "give the same graph, or a world made of it"
        )
    unknown = sorted(changed.keys() - kind.options.asking())
    if unknown:
        can = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(kind.options.asking())) or "nothing"
        raise BadInput([f"--{name.replace('_', '-')}: a {kind.name} model can be asked with {can}" for name in unknown])
    options = parse_options(kind.options, {**manifest["identity"]["options"], **changed, "device": device})
    if manifest["ended"].get("failed") and not stands(path / "weights.safetensors"):
        raise BadInput(f"{path} holds no weights: {manifest['ended']['why']}")
    predictor = kind.load()(graph, options, path, device_of(device))
    predictor.load(path)
    predictor.identity = Identity(str(folder), None, "float32", _content_hash(path, manifest))
    predictor.open_again = partial(open_links, folder, data, asking=asking)
    return predictor


def read_manifest(folder: Path) -> Manifest:
    """Read ``link.json``. :raises BadInput: not a model folder, or an unfinished training."""
    manifest = read_begun(folder)
    if manifest["ended"] is None:
        raise BadInput(f"the training of {folder} has not ended: the same fathom kgc train command goes on with it")
    return manifest


def read_begun(folder: Path) -> Manifest:
    """Read ``link.json``, finished or not. :raises BadInput: not a model folder."""
    try:
        return store.read_manifest(folder, store.LinkManifest)
    except Missing as error:
        raise BadInput(
            f"{folder} is not a link predictor (it has no {MANIFEST}): fathom kgc train --out makes one"
        ) from error


def read_curve(folder: Path) -> list[Line]:
    """Read the learning curve, one entry per epoch: stage, epoch, loss, seconds, and any validated metrics."""
    file = folder / "curve.jsonl"
    curve = []
    for number, line in json_lines(file) if file_exists(file) else ():
        if not isinstance(line, dict) or not {"stage", "epoch", "loss", "seconds"} <= line.keys():
            keys = '{"stage": …, "epoch": …, "loss": …, "seconds": …}'
            raise BadInput(f"{file}:{number}: expected {keys}, found {shown(line)}")
        curve.append(line)
    return curve


def _places(graph: KnowledgeGraph) -> str:
    """Hash the ids of entities and relations in order: a predictor identifies them by place."""
    ids = [*graph.entities.column("id").to_pylist(), "", *graph.relations.column("id").to_pylist()]
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]


def _start(folder: Path, identity: Given) -> Manifest:
    file = folder / MANIFEST
    if stands(file):
        manifest = read_begun(folder)
        differing = list(differences(compared(manifest["identity"]), compared(as_read_back(identity))))
        if differing:
            raise BadInput([f"{folder} belongs to another training: choose another --out", *differing])
        return manifest
    refuse_foreign_files(folder, {AT_WORK}, "a link predictor")
    clear_temporaries(folder)
    manifest = {"format": store.FORMAT, "identity": identity, "ended": None, "notes": []}
    manifest["circumstances"] = {"host": platform.node(), **surroundings({})}
    write_json(file, manifest)
    return manifest


def _content_hash(folder: Path, manifest: Manifest) -> str:
    digest = hashlib.sha256(json.dumps(manifest["identity"], sort_keys=True).encode())
    for file in sorted(folder.glob("*.safetensors")):
        with opened(file) as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]

"""A trained link predictor as a folder.

``link.json`` holds the kind, the options, the graph and how the training ended; ``weights.safetensors`` the best
weights; ``curve.jsonl`` a line per epoch; ``checkpoint.pt`` the state of an unfinished training.
"""

from __future__ import annotations

import hashlib
import json
import platform
from functools import partial
from pathlib import Path
from typing import Any

from fathom._version import VERSION
from fathom.base.errors import BadInput
from fathom.base.options import Given, parse_options
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Missing, as_read_back, file_exists, json_lines, opened, shown, stands
from fathom.data.graph.queries import graph_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.engine.models.base import Identity
from fathom.engine.models.loading import device_of
from fathom.store import manifest as store
from fathom.store.files import clear_temporaries, refuse_foreign_files, write_json
from fathom.store.folder import compared, differences
from fathom.store.locks import AT_WORK, exclusive_folder
from fathom.store.manifest import LINK
from fathom.store.surroundings import surroundings
from fathom.training.loop import NotANumber
from fathom_kgc.links import find
from fathom_kgc.links.base import Line, Predictor
from fathom_kgc.links.options import LinkTraining

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
    chosen, folder = find(kind), Path(out)
    graph = graph_of(data)
    if not len(graph):
        raise BadInput(f"{data.name} has no triples to train on")
    predictor = chosen.load()(graph, options, None, device_of(options.device))
    weights = getattr(predictor, "identity", None)
    identity = {
        "kind": chosen.name,
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
    :param asking: options that replace those of its training.
    :raises BadInput: not a model folder, a training that has not ended or learnt nothing, another graph.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    kind, graph, trained = find(manifest["identity"]["kind"]), graph_of(data), manifest["identity"]["data"]
    if trained["places"] != _places(graph):
        raise BadInput(
            f"{path} was trained on {trained['name']}, whose entities and relations are not those of {data.name}: "
            "give the same graph, or a world made of it"
        )
    unknown = sorted((asking or {}).keys() - kind.options.asking())
    if unknown:
        can = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(kind.options.asking())) or "nothing"
        raise BadInput([f"--{name.replace('_', '-')}: a {kind.name} model can be asked with {can}" for name in unknown])
    options = parse_options(kind.options, {**manifest["identity"]["options"], **(asking or {}), "device": device})
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

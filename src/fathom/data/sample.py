"""A small part of a knowledge graph that is a graph of the same kind: connected, dense, with all its texts and splits.

Grown from one entity: the next is linked to those chosen by a *training* triple, so that training knows every entity,
and drawn in proportion to the square of its links to them, which keeps the part dense without cliques of one relation.
"""

from __future__ import annotations

import heapq
import math
import platform
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom._version import VERSION
from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Json
from fathom.data.formats.kg import Templates, unwritable, write_graph
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.options import SampleOptions
from fathom.store.files import write_json
from fathom.store.outputs import obstacles, signature_of, whole_folder

TRAIN = "train"


class GraphSample(NamedTuple):
    """A part of a graph, what was kept and left out, and what its user should know about it."""

    graph: KnowledgeGraph
    counts: Json
    notes: tuple[str, ...]


def write_sample(
    graph: KnowledgeGraph, options: SampleOptions, name: str = "", templates: Templates = MappingProxyType({})
) -> Json:
    """Write a part of *graph* as a folder of its own, which appears once it is complete.

    :returns: the manifest, which is ``manifest.json`` in the folder.
    :raises BadInput: too many entities, or the folder exists.
    :raises MadeBefore: the same call has made it.
    :raises RunFailed: the disk is full.
    """
    sampling = {name: getattr(options, name) for name in ("entities", "seed", "held_out_weight")}
    signature = signature_of("data sample", sampling, data=graph.content_hash)
    refuse([*obstacles(options.out, signature), *unwritable(graph)])
    sample = sample_graph(graph, **sampling)
    manifest = {
        "source": {"name": name, "content_hash": graph.content_hash, **_sizes(graph)},
        "content_hash": sample.graph.content_hash,
        "options": sampling,
        **_sizes(sample.graph),
        "counts": sample.counts,
        "notes": list(sample.notes),
        "versions": {"fathom": VERSION, "python": platform.python_version(), "numpy": np.__version__},
    }
    with whole_folder(options.out, signature) as folder:
        write_graph(sample.graph, folder, templates)
        write_json(folder / "manifest.json", manifest)
    return manifest


def sample_graph(graph: KnowledgeGraph, entities: int, seed: int = 0, held_out_weight: float = 1) -> GraphSample:
    """Return a part of *graph* with so many entities and all triples between them, each in its split.

    :param held_out_weight: links of validation and test triples count for so many of training triples when the next
        entity is drawn: more than 1 for a greater share of them.
    :raises BadInput: training triples do not have so many entities.
    """
    trained = _in_training(graph)
    in_reach = len(np.unique(np.concatenate([graph.head[trained], graph.tail[trained]])))
    if not 2 <= entities <= in_reach:
        raise BadInput(
            f"--entities {entities}: {in_reach:,} entities of the graph occur in training triples: give 2 to {in_reach}"
        )
    members, starts = _grow(graph, trained, entities, seed, held_out_weight)
    kept = np.zeros(len(graph.entities), dtype=bool)
    kept[members] = True
    ends = kept[graph.head].astype(np.int8) + kept[graph.tail]
    part = _part(graph, ends == 2)
    counts = {
        "starts": starts,
        "triples_leading_out": int((ends == 1).sum()),
        "unseen": _unseen(part),
        "unseen_in_source": _unseen(graph),
    }
    return GraphSample(part, counts, tuple(_notes(graph, part, counts, entities)))


def _in_training(graph: KnowledgeGraph) -> NDArray[np.bool_]:
    """Return which triples are trained on: all if there is no such split."""
    mask = np.zeros(len(graph), dtype=bool)
    mask[graph.training.start : graph.training.stop] = True
    return mask


def _grow(
    graph: KnowledgeGraph, trained: NDArray[np.bool_], size: int, seed: int, held_out_weight: float
) -> tuple[list[int], int]:
    """:returns: the chosen entities, and from how many of them the part began: more than one where none led on."""
    random = np.random.default_rng(seed)
    # Entities to begin with, those with more training triples sooner; each occurs.
    first = iter(random.permutation(np.concatenate([graph.head[trained], graph.tail[trained]])).tolist())
    # The greatest of luck + log(weight) is a draw in proportion to the weights (Gumbel-max).
    luck = random.gumbel(size=len(graph.entities)).tolist()
    near, far = np.concatenate([graph.head, graph.tail]), np.concatenate([graph.tail, graph.head])
    order = np.argsort(near, kind="stable")
    limits = np.searchsorted(near[order], np.arange(len(graph.entities) + 1))
    members: dict[int, None] = {}
    links: dict[int, float] = {}
    led_to: set[int] = set()
    frontier: list[tuple[float, int]] = []
    starts = 0
    while len(members) < size:
        if frontier:
            entity = heapq.heappop(frontier)[1]
        else:
            entity = next(entity for entity in first if entity not in members)
            starts += 1
        if entity in members:  # it was drawn by a later entry, with more links
            continue
        members[entity] = None
        places = order[limits[entity] : limits[entity + 1]]
        for neighbour, is_trained in zip(far[places].tolist(), trained[places % len(graph)].tolist(), strict=True):
            if neighbour in members:
                continue
            links[neighbour] = links.get(neighbour, 0) + (1 if is_trained else held_out_weight)
            if is_trained:
                led_to.add(neighbour)
            if neighbour in led_to:
                heapq.heappush(frontier, (-luck[neighbour] - 2 * math.log(links[neighbour]), neighbour))
    return list(members), starts


def _part(graph: KnowledgeGraph, rows: NDArray[np.bool_]) -> KnowledgeGraph:
    """Return the graph of some triples, without splits that are left empty."""
    before = np.append(0, np.cumsum(rows))
    splits = {split: range(int(before[span.start]), int(before[span.stop])) for split, span in graph.splits.items()}
    columns = (graph.head[rows], graph.relation[rows], graph.tail[rows])
    kept = {split: span for split, span in splits.items() if span}
    return KnowledgeGraph.from_used(graph.entities, graph.relations, columns, kept)


def _sizes(graph: KnowledgeGraph) -> Json:
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": len(graph),
        "splits": {split: len(rows) for split, rows in graph.splits.items()},
    }


def _unseen(graph: KnowledgeGraph) -> dict[str, int]:
    """Count the triples of each other split with an entity that no training triple has."""
    trained = _in_training(graph)
    seen = np.zeros(len(graph.entities), dtype=bool)
    seen[graph.head[trained]] = seen[graph.tail[trained]] = True
    both_seen = seen[graph.head] & seen[graph.tail]
    return {split: int((~both_seen[span.start : span.stop]).sum()) for split, span in graph.splits.items()}


def _notes(graph: KnowledgeGraph, part: KnowledgeGraph, counts: Mapping[str, Any], wanted: int) -> Iterator[str]:
    if counts["starts"] > 1:
        yield f"not connected: begun from {counts['starts']} entities, as no training triple led on from the others"
    if len(part.entities) < wanted:
        yield f"{len(part.entities):,} entities instead of {wanted:,}: the others have no triple inside the part"
    yield f"{counts['triples_leading_out']:,} triples lead out of the part and are left out"
    for split in graph.splits:
        if split not in part.splits:
            yield f"no triple of {split} lies inside: try another --seed, more --entities, or --held-out-weight"
    for split, count in counts["unseen"].items():
        if split != TRAIN:
            before = f"{counts['unseen_in_source'][split]:,} of {len(graph.splits[split]):,}"
            yield (
                f"{count:,} of {len(part.splits[split]):,} triples of {split} have an entity that training never saw "
                f"({before} in the whole graph)"
            )

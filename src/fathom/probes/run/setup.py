"""The setup of a run before its first shard: identity, plan, queries, candidates and circumstances."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import torch

from fathom._version import VERSION
from fathom.base.errors import BadInput
from fathom.base.progress import log
from fathom.data.fetch_model import folder_or_name
from fathom.data.graph.seen import frequency_ranks
from fathom.data.queries import Query, QuerySet
from fathom.data.selection.options import Selection
from fathom.probes import Entry
from fathom.probes.base import Probe
from fathom.probes.options import EvaluationOptions
from fathom.probes.run.request import RunRequest
from fathom.results.samples import check_key
from fathom.store.folder import CANDIDATES, QUERIES, RunFolder, Work
from fathom.store.predictions import KEEP_SCORES_UP_TO, Scoring


@dataclass(frozen=True)
class RunSetup:
    """Contents of a run folder before its first shard, the same wherever shards are evaluated.

    :param plan: names of the shards, in order.
    :param idle: options that change nothing in this run.
    :param session: circumstances.
    """

    identity: dict[str, Any]
    plan: list[str]
    queries: pa.Table
    candidates: pa.Table
    shows: dict[str, Any]
    idle: Collection[str]
    session: dict[str, Any]
    work: Work

    def start(self, folder: RunFolder) -> set[str]:
        """Create or resume the run, see :meth:`fathom.store.folder.RunFolder.start`."""
        return folder.start(self.identity, self.plan, self.queries, self.candidates, self.shows, self.idle, self.work)


def set_up(request: RunRequest) -> tuple[Probe, RunSetup]:
    """Construct the probe and the setup of its run.

    :raises BadInput: the probe does not support this model or data.
    """
    entry, model, options = request.entry, request.model, request.options
    kind = entry.load()
    if kind.needs_head and not getattr(model, "has_head", True):
        raise BadInput(f"'{model.identity.name}': {model.stateless}")
    selection, excluded = request.select()
    check_key(options.cluster, dict.fromkeys(key for query in selection.queries for key in query.groups))
    probe = kind.create(options, model, selection)
    session = {
        "sessions": 1,
        "host": platform.node(),
        "device": str(model.device),
        "threads": str(torch.get_num_threads()),
        "batch_tokens": str(options.batch_tokens or "default"),
        "model": model.properties(),
        "left_out": {reason: dict(counts) for reason, counts in excluded.items() if counts},
    }
    identity = _identity(request, selection, probe.resolved())
    idle = frozenset(_idle(probe, options))
    queries, candidates = tables(selection)
    plan = list(probe.plan())
    work = Work(queries.num_rows, {shard: dict(probe.work(shard)) for shard in plan})
    shows = declarations(entry, probe.scorings, _recipe(probe), selection)
    return probe, RunSetup(identity, plan, queries, candidates, shows, idle, session, work)


def _idle(probe: Probe, options: EvaluationOptions) -> Collection[str]:
    """Return options that change nothing in this run, and log those that were given nonetheless."""
    idle = probe.idle()
    fields = type(options).model_fields
    for name, reason in idle.items():
        if (value := getattr(options, name)) != fields[name].default:
            log(f"--{name.replace('_', '-')} {value} has no effect: {reason}")
    return idle.keys()


def _identity(request: RunRequest, selected: QuerySet, resolved: dict[str, Any]) -> dict[str, Any]:
    data, options = request.source, request.options
    return {
        "probe": request.entry.name,
        "options": options.identity(),
        "resolved": resolved,
        "model": asdict(request.model.identity),
        "data": {
            "name": data.name,
            "version": data.version,
            "content_hash": data.content_hash,
            "asked": digest_of(query.id for query in selected.queries),
            **({"pool": _pool_digest(selected)} if Selection.from_options(options).changes_candidates else {}),
        },
        "seed": options.seed,
        "version": VERSION,
    }


def digest_of(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _pool_digest(data: QuerySet) -> str:
    """Return a digest of the candidates, which may come from files."""
    return digest_of(
        f"{space.name}\t{id_}\t{name}" for space in data.candidates.values() for id_, name in space.named()
    )


def _recipe(probe: Probe) -> Mapping[str, str]:
    components, quantisation = probe.model.made_of, probe.model.dequantised_from
    about = [f"dequantised from {quantisation}"] if quantisation is not None else []
    if components and components[0] != folder_or_name(probe.model.identity.name):  # an adapter's base model
        about.insert(0, components[0])
    return {**probe.recipe(), **({"weights": ", ".join(about)} if about else {})}


def declarations(
    entry: Entry, scorings: Iterable[Scoring], recipe: Mapping[str, str], data: QuerySet
) -> dict[str, Any]:
    """Return what a probe declares of its numbers, and labels of relations (:mod:`fathom.results.rows`)."""
    labels = data.relation_labels
    return {
        "scorings": {name: {"unit": unit, **dict(parts)} for name, unit, parts in scorings},
        "headline": entry.headline,
        "way": entry.way,
        "cuts": list(entry.cuts),
        "further": list(entry.further),
        "by": list(entry.by),
        "usual": entry.options().identity(),
        **({"recipe": dict(recipe)} if recipe else {}),
        **({"relations": labels} if labels else {}),
    }


def _distances(query: Query) -> list[int] | None:
    """Return the distances of the gold answers; None without a hierarchy, or if some answers were dropped."""
    return list(query.distances) or None if len(query.distances) == len(query.gold) else None


def tables(data: QuerySet) -> tuple[pa.Table, pa.Table]:
    frequency = frequency_ranks(data)
    pairs = [(query, data.candidates[query.candidates]) for query in data.queries]
    filtered = [len(space.places(query.known)) for query, space in pairs]
    known_ids = [
        [id_ for id_ in query.known if id_ in space.position] if len(space) <= KEEP_SCORES_UP_TO else None
        for query, space in pairs
    ]
    queries = pa.table(
        {
            "query_id": [query.id for query in data.queries],
            "fact_id": [query.fact_id for query in data.queries],
            "relation": [query.relation for query in data.queries],
            "direction": [query.direction for query in data.queries],
            "subject_id": [query.subject_id for query in data.queries],
            "gold": [list(query.gold) for query in data.queries],
            "candidates": [query.candidates for query in data.queries],
            "groups": [list(query.groups.items()) for query in data.queries],
            "sentences": [len(query.sentences) for query in data.queries],
            "filtered": filtered,
            "known": known_ids,
            "distances": [_distances(query) for query in data.queries],
            "frequency_optimistic": [rank and rank.optimistic for rank in frequency],
            "frequency_pessimistic": [rank and rank.pessimistic for rank in frequency],
        },
        schema=QUERIES,
    )
    spaces = [data.candidates[name] for name in dict.fromkeys(query.candidates for query in data.queries)]
    candidates = pa.table(
        {
            "set": [space.name for space in spaces for _ in space.ids],
            "position": [place for space in spaces for place in range(len(space))],
            "id": [id_ for space in spaces for id_ in space.ids],
            "name": [name for space in spaces for name in space.names],
        },
        schema=CANDIDATES,
    )
    return queries, candidates

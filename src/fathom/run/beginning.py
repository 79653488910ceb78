"""What is settled before the first shard is asked: who asks what, and all that the folder says of it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch

from fathom._version import VERSION
from fathom.data.graph.seen import frequency_ranks
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import Narrowed, Selected, select
from fathom.data.selection.options import Selection
from fathom.models.base import AnyModel, Model
from fathom.probes import Entry
from fathom.probes.base import Probe
from fathom.probes.shared_options import EvaluationOptions
from fathom.progress import log
from fathom.results.samples import check_key
from fathom.scoring.tokens import token_counter
from fathom.store.folder import RunFolder
from fathom.store.predictions import KEEP_SCORES_UP_TO


@dataclass(frozen=True)
class Beginning:
    """What the folder of a run is given before its first shard; the same wherever it is made.

    :param plan: names of the shards, in order.
    :param idle: options that change nothing here.
    :param session: circumstances.
    """

    identity: dict[str, Any]
    plan: list[str]
    queries: pa.Table
    candidates: pa.Table
    shows: dict[str, Any]
    idle: Collection[str]
    session: dict[str, Any]

    def start(self, folder: RunFolder) -> set[str]:
        """Make the folder, or go on with it, see :meth:`fathom.store.folder.RunFolder.start`."""
        return folder.start(self.identity, self.plan, self.queries, self.candidates, self.shows, self.idle)


def begin(entry: Entry, model: Any, data: QuerySet | Narrowed, options: EvaluationOptions) -> tuple[Probe, Beginning]:
    """The probe, made, and what is known of its run.

    :raises BadInput: the probe cannot be asked of this model or data.
    """
    kind = entry.load()
    source = data.source if isinstance(data, Narrowed) else data
    options = kind.complete_options(options, source)
    chosen, left_out = selected(entry, model, data, options)
    check_key(options.cluster, dict.fromkeys(key for query in chosen.queries for key in query.groups))
    asked = kind.create(options, model, chosen)
    identity = _identity(entry.name, model, source, chosen, options, asked.resolved())
    session = {
        "sessions": 1,
        "host": platform.node(),
        "device": str(model.device),
        "threads": str(torch.get_num_threads()),
        "batch_tokens": str(options.batch_tokens or "default"),
        "model": about(model),
        "left_out": {what: dict(counts) for what, counts in left_out.items() if counts},
    }
    plan = list(asked.plan())
    return asked, Beginning(
        identity, plan, *tables(chosen), _shows(entry, asked), frozenset(_idle(asked, options)), session
    )


def about(model: AnyModel) -> dict[str, Any]:
    """What of a model is no part of its identity; also what it is put together from, where that is more than one
    thing."""
    facts = {"parameters": model.parameters, "attention_kernel": model.attention_kernel}
    return facts | ({"made_of": list(model.made_of)} if len(model.made_of) > 1 else {})


def selected(entry: Entry, model: Model, data: QuerySet | Narrowed, options: EvaluationOptions) -> Selected:
    """Return the part of *data* that *options* select, as the probe needs it.

    :param model: without a tokenizer (a chat server), tokens cannot be counted.
    :raises BadInput: nothing is left, or *data* lacks what is named.
    """
    count = None if model.tokenizer is None else token_counter(model.tokenizer)
    kind = entry.load()
    source = data.source if isinstance(data, Narrowed) else data
    part = select(data, kind.complete_options(options, source), count)
    return part._replace(data=kind.prepare_queries(options, part.data))


def _idle(asked: Probe, options: EvaluationOptions) -> Collection[str]:
    """Names of options that change nothing here; the log tells those that somebody has set all the same."""
    idle = asked.idle()
    usual = type(options).model_fields
    for name, why in idle.items():
        if (value := getattr(options, name)) != usual[name].default:
            log(f"--{name.replace('_', '-')} {value} changes nothing here: {why}")
    return idle.keys()


def _identity(
    probe: str, model: Model, data: QuerySet, selected: QuerySet, options: EvaluationOptions, resolved: dict[str, Any]
) -> dict[str, Any]:
    about = model.identity
    return {
        "probe": probe,
        "options": options.identity(),
        "resolved": resolved,
        "model": {
            "name": about.name,
            "revision": about.revision,
            "dtype": about.dtype,
            "content_hash": about.content_hash,
        },
        "data": {
            "name": data.name,
            "version": data.version,
            "content_hash": data.content_hash,
            "asked": hashlib.sha256("\n".join(query.id for query in selected.queries).encode()).hexdigest()[:16],
            **({"pool": _pool(selected)} if Selection.from_options(options).changes_candidates else {}),
        },
        "seed": options.seed,
        "version": VERSION,
    }


def _shows(entry: Entry, asked: Probe) -> dict[str, Any]:
    """What the probe declares of its numbers, for readers of the run (:mod:`fathom.results.declarations`)."""
    return {
        "scorings": {name: {"unit": unit, **dict(parts)} for name, unit, parts in asked.scorings},
        "headline": entry.headline,
        "cuts": list(entry.cuts),
        "further": list(entry.further),
        "by": list(entry.by),
        "usual": entry.options().identity(),
        **({"told": told} if (told := {**asked.recipe(), **_weights(asked.model)}) else {}),
    }


def _weights(model: AnyModel) -> dict[str, str]:
    """For the recipe: of an adapter that was given as the model, on what it stands."""
    made_of = model.made_of
    return {"weights": made_of[0]} if made_of and made_of[0] != model.identity.name else {}


def _pool(data: QuerySet) -> str:
    """Digest of the candidates, where files may have a say in who they are."""
    lines = (f"{space.name}\t{id_}\t{name}" for space in data.candidates.values() for id_, name in space.named())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _filtered(data: QuerySet) -> list[int]:
    """Of each query: how many other right answers are taken out of the ranking."""
    return [len(data.candidates[query.candidates].places(query.known)) for query in data.queries]


def _known(data: QuerySet) -> list[list[str] | None]:
    """Which other right answers these are, where the scores of all candidates are kept; None elsewhere."""
    kept = {name: len(space) <= KEEP_SCORES_UP_TO for name, space in data.candidates.items()}
    return [
        [id_ for id_ in query.known if id_ in data.candidates[query.candidates].position]
        if kept[query.candidates]
        else None
        for query in data.queries
    ]


def tables(data: QuerySet) -> tuple[pa.Table, pa.Table]:
    """queries.parquet and candidates.parquet."""
    used = list(dict.fromkeys(query.candidates for query in data.queries))
    frequency = frequency_ranks(data)
    queries = pa.table(
        {
            "query_id": [query.id for query in data.queries],
            "fact_id": [query.fact_id for query in data.queries],
            "relation": [query.relation for query in data.queries],
            "direction": [query.direction for query in data.queries],
            "subject_id": [query.subject_id for query in data.queries],
            "gold": pa.array([list(query.gold) for query in data.queries], pa.list_(pa.string())),
            "candidates": [query.candidates for query in data.queries],
            "groups": pa.array(
                [list(query.groups.items()) for query in data.queries], pa.map_(pa.string(), pa.string())
            ),
            "sentences": pa.array([len(query.sentences) for query in data.queries], pa.int64()),
            "filtered": pa.array(_filtered(data), pa.int64()),
            "known": pa.array(_known(data), pa.list_(pa.string())),
            "frequency_optimistic": pa.array([rank and rank.optimistic for rank in frequency], pa.int64()),
            "frequency_pessimistic": pa.array([rank and rank.pessimistic for rank in frequency], pa.int64()),
        }
    )
    spaces = [data.candidates[name] for name in used]
    candidates = pa.table(
        {
            "set": pa.array([space.name for space in spaces for _ in space.ids], pa.string()),
            "position": pa.array([place for space in spaces for place in range(len(space))], pa.int64()),
            "id": pa.array([id_ for space in spaces for id_ in space.ids], pa.string()),
            "name": pa.array([name for space in spaces for name in space.names], pa.string()),
        }
    )
    return queries, candidates

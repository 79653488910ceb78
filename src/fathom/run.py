"""(probe, model, data) → a run folder: planned, asked shard by shard, resumed where it stopped."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import fathom
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import Selected, select
from fathom.errors import RunFailed
from fathom.models.base import Model
from fathom.probes import PROBES, Entry
from fathom.probes.base import Probe
from fathom.probes.options import AskingOptions
from fathom.progress import Progress, log, unseen
from fathom.results.samples import check_key
from fathom.scoring.rows import Columns
from fathom.scoring.tokens import token_counter
from fathom.store.files import alone_in
from fathom.store.folder import RunFolder
from fathom.store.surroundings import surroundings

LOST = ("CUDA error", "CUDA driver error", "HIP error", "cuDNN error", "CUBLAS", "MPS backend")
"""How torch begins to tell that a device does not answer any more."""


def run(
    probe: str | Entry,
    model: Any,
    data: QuerySet,
    options: AskingOptions,
    out: str | Path,
    progress: Progress | None = None,
) -> RunFolder:
    """Ask every query that *options* select and leave the answers in *out*.

    Where *out* holds the same run unfinished, it goes on; where it is finished, nothing is asked again.

    :param probe: its name, or the entry of one that only studies ask.
    :raises BadInput: *out* belongs to another run, another process is at work in it, or the probe cannot be asked of
        this model or data.
    :raises RunFailed: the disk is full, or memory too small for one sequence; finished shards are kept.
    """
    entry = PROBES.find(probe) if isinstance(probe, str) else probe
    options = options.of(data)
    chosen, left_out = selected(model, data, options)
    check_key(options.cluster, dict.fromkeys(key for query in chosen.queries for key in query.groups))
    asked = entry.load()(options, model, chosen)
    folder = RunFolder(out)
    identity = _identity(entry.name, model, data, chosen, options, asked.resolved())
    session = {
        "sessions": 1,
        "host": platform.node(),
        "device": str(model.device),
        "batch_tokens": str(options.batch_tokens or "default"),
        "model": _about(model),
        "left_out": {what: dict(counts) for what, counts in left_out.items() if counts},
    }
    with alone_in(folder.path):
        plan = asked.plan()
        idle = _idle(asked, options)
        done = folder.start(identity, plan, *_tables(chosen), shows=_shows(entry, asked), idle=idle)
        report = progress or unseen
        if set(plan) - done:
            # Noted before the first shard: a session that is killed is one, too.
            folder.add_circumstances(**session, **surroundings(folder.manifest["circumstances"]))
            _ask(asked, [shard for shard in plan if shard not in done], folder, report)
            folder.add_circumstances(model=_about(model))  # its self-check may have chosen another kernel
        report(len(plan), len(plan))
    return folder


def _about(model: Any) -> dict[str, Any]:
    """What of a model is no part of its identity; also what it is put together from, where that is more than one
    thing."""
    made_of = getattr(model, "made_of", ())
    about = {name: getattr(model, name, None) for name in ("parameters", "attention_kernel")}
    return about | ({"made_of": list(made_of)} if len(made_of) > 1 else {})


def _idle(asked: Probe, options: AskingOptions) -> Collection[str]:
    """Names of options that change nothing here; the log tells those that somebody has set all the same."""
    idle: Mapping[str, str] = getattr(asked, "idle", dict)()  # probes of other packages need not know
    usual = type(options).model_fields
    for name, why in idle.items():
        if (value := getattr(options, name)) != usual[name].default:
            log(f"--{name.replace('_', '-')} {value} changes nothing here: {why}")
    return idle.keys()


def _ask(asked: Probe, shards: Sequence[str], folder: RunFolder, report: Progress) -> None:
    """What each shard took is noted as it ends, so that no end of the process loses more than the shard in work."""
    note = _Notes(asked, folder)

    def between(done: int, total: int) -> None:
        note()
        report(done, total)

    asked.prepare(folder.path / "artifacts", between)
    note()
    total = len(asked.plan())
    for number, shard in enumerate(shards, start=total - len(shards)):
        report(number, total)
        folder.add_shard(shard, _asked(asked, shard, folder))
        note()


def _asked(asked: Probe, shard: str, folder: RunFolder) -> list[Columns]:
    """:raises RunFailed: the device is gone; what is finished is kept."""
    try:
        return asked.ask(shard)
    except RuntimeError as error:
        told = str(error)
        if not told.startswith(LOST):
            raise
        raise RunFailed(
            f"{asked.model.device} failed ({told.splitlines()[0]}); {folder.path} keeps what is finished: "
            "the same command goes on, with --device cpu, too"
        ) from error


class _Notes:
    """Adds to the circumstances what has come since the last call: seconds, and what the probe counts."""

    def __init__(self, asked: Probe, folder: RunFolder) -> None:
        self.asked, self.folder = asked, folder
        self.at, self.counted = time.perf_counter(), _counts(asked)

    def __call__(self) -> None:
        now, counted, everything = time.perf_counter(), _counts(self.asked), self.asked.circumstances()
        new = {name: value - self.counted.get(name, 0) for name, value in counted.items()}
        self.folder.add_circumstances(**{**everything, **new, "seconds": round(now - self.at, 3)})
        self.at, self.counted = now, counted


def _counts(asked: Probe) -> dict[str, int]:
    return {name: value for name, value in asked.circumstances().items() if isinstance(value, int)}


def selected(model: Model, data: QuerySet, options: AskingOptions) -> Selected:
    """The part of *data* that *options* choose, as they ask it.

    :param model: without a tokenizer (a chat server), tokens cannot be counted.
    :raises BadInput: nothing is left, or *data* lacks what is named.
    """
    count = None if model.tokenizer is None else token_counter(model.tokenizer)
    options = options.of(data)
    found = select(data, options.selection(), count)
    return found._replace(data=options.as_asked(found.data))


def _identity(
    probe: str, model: Model, data: QuerySet, selected: QuerySet, options: AskingOptions, resolved: dict[str, Any]
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
            **({"pool": _pool(selected)} if options.selection().changes_candidates else {}),
        },
        "seed": options.seed,
        "version": fathom.__version__,
    }


def _shows(entry: Entry, asked: Probe) -> dict[str, Any]:
    """What the probe declares of its numbers, for readers of the run (:mod:`fathom.results.declared`)."""
    return {
        "scorings": {name: {"unit": unit, **dict(parts)} for name, unit, parts in asked.scorings},
        "headline": entry.headline,
        "cuts": list(entry.cuts),
        "further": list(entry.further),
        "by": list(entry.by),
        "usual": entry.options().identity(),
        **({"told": told} if (told := {**getattr(asked, "told", {}), **_weights(asked.model)}) else {}),
    }


def _weights(model: Any) -> dict[str, str]:
    """For the recipe: of an adapter that was given as the model, on what it stands."""
    made_of = getattr(model, "made_of", ())
    return {"weights": made_of[0]} if made_of and made_of[0] != model.identity.name else {}


def _pool(data: QuerySet) -> str:
    """Digest of the candidates, where files may have a say in who they are."""
    lines = (f"{space.name}\t{id_}\t{name}" for space in data.candidates.values() for id_, name in space.named())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _filtered(data: QuerySet) -> list[int]:
    """Of each query: how many other right answers are taken out of the ranking."""
    return [len(data.candidates[query.candidates].places(query.known)) for query in data.queries]


def _tables(data: QuerySet) -> tuple[pa.Table, pa.Table]:
    """queries.parquet and candidates.parquet."""
    used = list(dict.fromkeys(query.candidates for query in data.queries))
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

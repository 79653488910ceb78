"""(probe, model, data) → a run folder: planned, asked shard by shard, resumed where it stopped.

Who asks makes no difference to what is asked: one process (:mod:`.shards`), several that share a folder
(:mod:`.parts`), or workers of a Ray cluster for one that writes (:mod:`.on_ray`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import Narrowed
from fathom.errors import BadInput
from fathom.models.base import AnyModel
from fathom.probes import PROBES, Entry
from fathom.probes.shared_options import HERE, EvaluationOptions
from fathom.progress import Progress, unseen
from fathom.run.beginning import begin, selected
from fathom.run.parts import Part, ask_part
from fathom.run.shards import ask_all
from fathom.store.files import alone_in
from fathom.store.folder import RunFolder
from fathom.store.together import together_in

__all__ = ["run", "selected"]

SERVED = "a server is asked by one process, in as many calls at a time as it takes"


def run(
    probe: str | Entry,
    model: Any,
    data: QuerySet | Narrowed,
    options: EvaluationOptions,
    out: str | Path,
    progress: Progress | None = None,
) -> RunFolder:
    """Ask every query that *options* select and leave the answers in *out*.

    Where *out* holds the same run unfinished, it goes on; where it is finished, nothing is asked again. With ``part``
    only what is this part's, and the run may be unfinished afterwards.

    :param probe: its name, or the entry of one that only studies ask.
    :raises BadInput: *out* belongs to another run, another process is at work in it, or the probe cannot be asked of
        this model or data.
    :raises RunFailed: the disk is full, or memory too small for one sequence; finished shards are kept.
    """
    entry = PROBES.find(probe) if isinstance(probe, str) else probe
    report = progress or unseen
    if getattr(options, "engine", HERE) != HERE:
        source = data.source if isinstance(data, Narrowed) else data  # workers narrow it
        return _on_ray(entry, model, source, options, out, report)
    asked, begun = begin(entry, model, data, options)
    if options.part is None:
        folder = RunFolder(out)
        with alone_in(folder.path):
            ask_all(asked, begun, folder, begun.start(folder), report)
        return folder
    part = Part.told(options.part)
    if _is_served(model):
        raise BadInput(f"--part {part}: {SERVED}: leave --part out, and use --concurrency")
    folder = RunFolder(out, str(part))
    with together_in(folder.path) as claims:
        ask_part(part, asked, begun, folder, claims, report)
    return folder


def _is_served(model: Any) -> bool:
    return isinstance(model, AnyModel) and model.is_served


def _on_ray(entry: Entry, model: Any, data: QuerySet, options: Any, out: str | Path, report: Progress) -> RunFolder:
    """:raises BadInput: also a server, or a part."""
    if options.part is not None:
        raise BadInput(f"--part {options.part} and --engine {options.engine}: expected one of them")
    if getattr(options, "server", None) is not None or _is_served(model):
        raise BadInput(f"--engine {options.engine}: {SERVED}: leave --engine out, and use --concurrency")
    from fathom.run.on_ray import ask_on_ray

    folder = RunFolder(out)
    with alone_in(folder.path):
        ask_on_ray(entry, model, data, options, folder, report)
    return folder

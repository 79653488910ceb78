"""A request → a run folder.

A run is the same wherever its shards are evaluated: in one process (:mod:`.shards`), in several that share a folder
(:mod:`.parts`), or by the workers of a Ray cluster (:mod:`.on_ray`).
"""

from __future__ import annotations

import time
from math import sqrt
from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.progress import Progress, log, unseen
from fathom.engine.models.options import ServerOptions
from fathom.probes.options import HERE
from fathom.probes.run.request import Command, RunRequest
from fathom.probes.run.shards import Part, evaluate_shards
from fathom.store.folder import RunFolder
from fathom.store.locks import exclusive_folder, shared_folder

__all__ = ["RunRequest", "run"]

LONG, TRIED = 600.0, 15.0
"""Seconds from which on a run is called long, and after which it is estimated."""
FEW = 200
"""Queries of a shorter run. At 50 % accuracy the interval has ± 7 points if all are independent."""
_SERVED = "a server is queried by one process: use --concurrency instead"


def noting_length(report: Progress) -> Progress:
    """Report progress and log one line on a long run: its estimated time, and what fewer queries would give."""
    began: float | None = None
    before, noted = 0, False

    def reported(done: int, total: int) -> None:
        nonlocal began, before, noted
        report(done, total)
        if began is None:
            began, before = time.monotonic(), done
        seconds, new = time.monotonic() - began, done - before
        if noted or seconds < TRIED or not new:
            return
        noted, each = True, seconds / new
        whole = each * (total - before)
        if whole > LONG:
            points, minutes = 196 * sqrt(0.25 / FEW), max(1, each * FEW / 60)
            less = f"; --limit {FEW} gives ± {points:.0f} points in {minutes:.0f}" if total > 2 * FEW else ""
            log(f"about {whole / 60:.0f} minutes{less}")

    return reported


def run(
    request: RunRequest, out: str | Path, progress: Progress | None = None, command: Command | None = None
) -> RunFolder:
    """Evaluate every query that a request selects and write the predictions to *out*.

    An unfinished run of the same identity is resumed, a finished one returned. With ``part``, only this part is
    evaluated, and the run may remain unfinished.

    :param command: what makes the run, for its manifest.
    :raises BadInput: *out* belongs to another run or process, or the probe does not support this model or data.
    :raises RunFailed: the disk is full, or memory too small for one sequence; finished shards are kept.
    """
    from fathom.engine.models.base import AnyModel  # these load a model library, which a finished run does not need
    from fathom.probes.run.setup import set_up

    model, options = request.model, request.options
    report = unseen if progress is None else noting_length(progress)
    is_served = isinstance(model, AnyModel) and model.is_served
    if options.engine != HERE:
        if options.part is not None:
            raise BadInput(f"--part {options.part} and --engine {options.engine}: expected one of them")
        if is_served or (isinstance(options, ServerOptions) and options.server is not None):
            raise BadInput(f"--engine {options.engine}: {_SERVED}")
        from fathom.probes.run.on_ray import evaluate_on_ray

        folder = RunFolder(out, command=command)
        with exclusive_folder(folder.path), folder.logged():
            evaluate_on_ray(request, folder, report)
        return folder
    probe, setup = set_up(request)
    part = None if options.part is None else Part.parse(options.part)
    if part is not None and is_served:
        raise BadInput(f"--part {part}: {_SERVED}")
    folder = RunFolder(out, None if part is None else str(part), command)
    alone = part is None
    with exclusive_folder(folder.path) if alone else shared_folder(folder.path) as claims, folder.logged():
        evaluate_shards(probe, setup, folder, report, part, claims)
    return folder

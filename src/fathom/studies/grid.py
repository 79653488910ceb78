"""The grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}, cell by cell.

The plan is one YAML file, see :mod:`fathom.studies.grid_plan`. Each cell has its own folder (a model folder and a run),
so that a study can resume; a failed cell is recorded with its reason.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from fathom.building.worlds import WorldOptions, build_worlds, refuse_others
from fathom.data.graph.queries import graph_of
from fathom.errors import BadInput
from fathom.formats import read
from fathom.links.folder import MANIFEST, read_begun
from fathom.probes.shared_options import HERE
from fathom.progress import Progress, unseen
from fathom.reading import Json, stands
from fathom.run.parts import STARTING, Part
from fathom.run.pool import connected, size_of
from fathom.store.folder import RunFolder, differences
from fathom.store.locks import AT_WORK, CLAIMS, alone_in, together_in
from fathom.studies.grid_cells import (
    STUDY,
    Job,
    attempt,
    attempt_if_free,
    fail,
    finished_run,
    make_on_ray,
    note_plan,
    read_object,
    why_failed,
)
from fathom.studies.grid_plan import Cell, StudyPlan, cells_of, check_plan, describe_fault
from fathom.studies.options import GridOptions


class CellState(NamedTuple):
    """The state of a cell.

    :param run: the finished run, if any.
    :param failed: why the cell failed; "" if it has not.
    """

    cell: Cell
    run: RunFolder | None
    failed: str


def states(plan: StudyPlan, out: Path) -> list[CellState]:
    """Return the state of each cell, in the order of :func:`cells_of`."""
    folders = {cell: cell.folder(out) for cell in cells_of(plan)}
    reasons = {cell: why_failed(folder) for cell, folder in folders.items()}
    return [CellState(cell, None if why else finished_run(folders[cell]), why) for cell, why in reasons.items()]


def run_grid(
    plan: StudyPlan,
    out: Path,
    options: GridOptions | None = None,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    report: Progress = unseen,
) -> list[CellState]:
    """Train and evaluate every missing cell.

    :param options: where cells are made; by default one after the other in this process.
    :param retry_failed: repeat failed cells.
    :param tell: called with a line at the end of each cell.
    :param report: called with the number of cells that have ended, and of all.
    :raises BadInput: the plan is invalid, *out* contains another study, or another process works in it; the cluster is
        missing, or its workers do not see *out*.
    :raises RunFailed: workers of the cluster die before they start; finished cells are kept.
    """
    check_plan(plan)
    options, jobs = options or GridOptions(), [Job(plan, cell, out) for cell in cells_of(plan)]

    def ended(cell: Cell, why: str, number: int) -> None:
        tell(f"[{number}/{len(jobs)}] {cell}" + (f": failed: {why}" if why else ""))
        report(number, len(jobs))

    if options.part is not None:
        _make_part(options, plan, jobs, out, retry_failed, ended)
        return states(plan, out)
    with alone_in(out):
        check_same(plan, out)
        left = [job for job in jobs if _is_left(job, retry_failed)]
        done = len(jobs) - len(left)
        with _making(left, options) as cells:
            _start(plan, out, left)
            report(done, len(jobs))
            for number, (cell, why) in enumerate(cells, start=done + 1):
                ended(cell, why, number)
        return states(plan, out)


def _is_left(job: Job, retry_failed: bool) -> bool:
    return retry_failed if why_failed(job.folder) else finished_run(job.folder) is None


def _start(plan: StudyPlan, out: Path, again: Sequence[Job]) -> None:
    """Make the worlds and write the plan. :param again: cells to be made even if they have failed."""
    _make_worlds(plan, out)
    note_plan(plan, out)
    for job in again:
        if why_failed(job.folder):
            _forget_failure(job.folder)


def _make_part(
    options: GridOptions,
    plan: StudyPlan,
    jobs: Sequence[Job],
    out: Path,
    retry_failed: bool,
    ended: Callable[[Cell, str, int], None],
) -> None:
    """Make the part's own cells; then, from the end, unclaimed ones."""
    part = Part.parse(str(options.part))
    if options.engine != HERE or options.workers is not None:
        raise BadInput(f"--part {part} and --engine or --workers: expected one of them")
    with together_in(out) as claims:
        with claims.claimed(STARTING, wait=True):
            check_same(plan, out)
            _start(plan, out, jobs if retry_failed else ())
        for job in (*part.share(jobs), *reversed(jobs)):
            why = attempt_if_free(job)
            if why is not None:
                ended(job.cell, why, sum(not _is_left(job, False) for job in jobs))


@contextmanager
def _making(jobs: Sequence[Job], options: GridOptions) -> Iterator[Iterator[tuple[Cell, str]]]:
    """Yield an iterator that makes cells and yields them as they end, with why they failed, or "".

    :raises BadInput: the cluster is missing or too small; nothing has been written.
    """
    if options.engine != HERE and jobs:
        with connected(options), closing(make_on_ray(jobs, size_of(options, most=len(jobs)))) as cells:
            yield cells
    elif (options.workers or 1) > 1:
        with closing(_make_in_processes(jobs, options.workers or 1)) as cells:
            yield cells
    else:
        yield ((job.cell, attempt(job)) for job in jobs)


def _make_in_processes(jobs: Sequence[Job], workers: int) -> Generator[tuple[Cell, str]]:
    """Make each cell in a new process, so that one killed for memory ends no other.

    :returns: cells as they end, with why they failed, or "".
    """
    waiting = list(reversed(jobs))
    running: dict[Any, tuple[SpawnProcess, Job]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                process = SpawnProcess(target=_attempt_in_process, args=(job,), daemon=True)
                with _ignored_interrupts():
                    process.start()
                running[process.sentinel] = process, job
            for sentinel in wait(list(running)):
                process, job = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    fail(job, f"its process ended with code {process.exitcode} (killed? out of memory?)")
                yield job.cell, why_failed(job.folder)
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C; this process ends them."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _attempt_in_process(job: Job) -> None:
    import torch

    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    attempt(job)


def _end_with_parent() -> None:
    """End with a killed study; otherwise its command would start a second training in the folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _forget_failure(folder: Path) -> None:
    """Remove a failed training, then the record of the failure, which keeps other parts away until then."""
    model = folder / "model"
    ended = read_begun(model)["ended"] if stands(model / MANIFEST) else None
    if ended is not None and ended.get("failed"):
        shutil.rmtree(model)
    (folder / "failed.json").unlink()


def check_same(plan: StudyPlan, out: Path) -> None:
    """Check that settings of existing cells are unchanged; models and worlds may be added or dropped.

    :raises BadInput: *out* contains the study of another plan, or something else.
    """
    file, content = out / STUDY, plan.model_dump(mode="json")
    if not stands(file):
        if out.exists() and any(entry.name not in ("worlds", AT_WORK, CLAIMS) for entry in out.iterdir()):
            raise BadInput(f"{out} is not empty and not a study: choose another --out")
        return
    before = read_object(file)
    try:
        StudyPlan.model_validate(before)
    except ValidationError as error:
        raise BadInput(
            [f"{file}: {describe_fault(fault)}; choose another --out" for fault in error.errors()]
        ) from error
    fixed = ("data", "seed", "relax", "limit", "seconds")
    models = before["models"].keys() & content["models"].keys()
    then, now = (
        {key: version.get(key, False) for key in fixed} | {name: _fixed(version["models"][name]) for name in models}
        for version in (before, content)
    )
    differing = list(differences(then, now))
    if differing:
        raise BadInput([f"{out} contains the study of another plan: choose another --out", *differing])


def _fixed(model: Json) -> Json:
    return {key: value for key, value in model.items() if key not in ("worlds", "init")}


def _make_worlds(plan: StudyPlan, out: Path) -> None:
    """Make the missing worlds. :raises BadInput: an existing one differs."""
    folder, source = out / "worlds", read(plan.data)
    graph = graph_of(source)
    refuse_others(folder, plan.worlds, graph, plan.seed)
    missing = [world for world in plan.worlds if not (folder / world).exists()]
    if missing:
        options = WorldOptions(relax=plan.relax)
        build_worlds(graph, folder, missing, plan.seed, options, name=source.name, audit=True)

"""The grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}, trained and asked cell by cell.

The plan is one YAML file, see :mod:`fathom.studies.grid_plan`. Every cell is a folder of its own (a model folder and a
run), so that a study goes on where it stopped; a cell that fails is kept as failed, with the reason.
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
    Cells,
    Job,
    attempt,
    attempt_if_free,
    fail,
    finished_run,
    job_of,
    make_on_ray,
    note_plan,
    read_object,
    why_failed,
)
from fathom.studies.grid_plan import Cell, StudyPlan, cells_of, check_plan, told_fault
from fathom.studies.options import GridOptions


class CellState(NamedTuple):
    """What is there of a cell.

    :param run: the finished run, where there is one.
    :param failed: why there is none; "" where it is to be made.
    """

    cell: Cell
    run: RunFolder | None
    failed: str


def states(plan: StudyPlan, out: Path) -> list[CellState]:
    """Of each cell, in the order of :func:`cells_of`."""
    found = []
    for cell in cells_of(plan):
        why = why_failed(cell.folder(out))
        found.append(CellState(cell, None if why else finished_run(cell.folder(out)), why))
    return found


def run_grid(
    plan: StudyPlan,
    out: Path,
    options: GridOptions | None = None,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    report: Progress = unseen,
) -> list[CellState]:
    """Train and ask every cell that is not there yet.

    :param options: who makes the cells; by default this process, one after the other.
    :param retry_failed: try failed cells once more.
    :param tell: given a line whenever a cell ends.
    :param report: told how many cells have ended, and of how many.
    :raises BadInput: the plan is wrong, *out* holds the study of another plan, or another process is at work in it; no
        such cluster, or workers that do not see *out*.
    :raises RunFailed: workers of the cluster die before they begin; what is finished is kept.
    """
    check_plan(plan)
    options, jobs = options or GridOptions(), [job_of(plan, cell, out) for cell in cells_of(plan)]

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
        with _made(left, out, options) as made:
            _begin(plan, out, left)
            report(done, len(jobs))
            for number, (cell, why) in enumerate(made, start=done + 1):
                ended(cell, why, number)
        return states(plan, out)


def _is_left(job: Job, retry_failed: bool) -> bool:
    return retry_failed if why_failed(job.folder) else finished_run(job.folder) is None


def _begin(plan: StudyPlan, out: Path, again: Sequence[Job]) -> None:
    """What stands there before any cell. :param again: cells that are to be made even if they failed before."""
    _make_worlds(plan, out)
    note_plan(plan, out)
    for job in again:
        if why_failed(job.folder):
            _try_again(job.folder)


def _make_part(
    options: GridOptions,
    plan: StudyPlan,
    jobs: Sequence[Job],
    out: Path,
    retry_failed: bool,
    ended: Callable[[Cell, str, int], None],
) -> None:
    """Its own cells; then, from the end, those that nobody has in hand."""
    part = Part.parse(str(options.part))
    if options.engine != HERE or options.workers is not None:
        raise BadInput(f"--part {part} and --engine or --workers: expected one of them")
    with together_in(out) as claims:
        with claims.claimed(STARTING, wait=True):
            check_same(plan, out)
            _begin(plan, out, jobs if retry_failed else ())
        for job in (*part.share(jobs), *reversed(jobs)):
            why = attempt_if_free(job)
            if why is not None:
                ended(job.cell, why, sum(not _is_left(job, False) for job in jobs))


@contextmanager
def _made(jobs: Sequence[Job], out: Path, options: GridOptions) -> Iterator[Iterator[tuple[Cell, str]]]:
    """Cells as they end, with why they failed, or ""; none is begun before the first is asked for.

    :raises BadInput: no such cluster, or too small a one; nothing has been written then.
    """
    if options.engine != HERE and jobs:
        named = {job.folder.relative_to(out).as_posix(): job for job in jobs}
        with connected(options):
            size = size_of(options, most=len(jobs))
            with closing(make_on_ray(Cells(named, out), size)) as ended:
                yield ended
    elif (options.workers or 1) > 1:
        with closing(_in_processes(jobs, options.workers or 1)) as ended:
            yield ended
    else:
        yield ((job.cell, attempt(job)) for job in jobs)


def _in_processes(jobs: Sequence[Job], workers: int) -> Generator[tuple[Cell, str]]:
    """Each cell in a process of its own, so that one that is killed (out of memory) takes no other with it.

    :returns: cells as they end, with why they failed, or "".
    """
    waiting = list(reversed(jobs))
    running: dict[Any, tuple[SpawnProcess, Job]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                process = SpawnProcess(target=_attempt_alone, args=(job,), daemon=True)
                with _deaf_to_interrupts():
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
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes begun inside leave Ctrl-C to this one, which ends them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _attempt_alone(job: Job) -> None:
    import torch

    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    attempt(job)


def _end_with_parent() -> None:
    """A study that is killed leaves no training behind: the same command would begin a second one in its folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _try_again(folder: Path) -> None:
    """Forget that a cell failed; and its model first, where the training itself came to nothing: as long as the cell
    counts as failed, other parts leave it alone."""
    model = folder / "model"
    ended = read_training(model)["ended"] if stands(model / MANIFEST) else None
    if ended is not None and ended.get("failed"):
        shutil.rmtree(model)
    (folder / "failed.json").unlink()


def read_training(model: Path) -> Json:
    """The manifest of a training that has begun, ended or not. :param model: folder of the link predictor."""
    return read_begun(model)


def check_same(plan: StudyPlan, out: Path) -> None:
    """A plan may grow (further models and worlds), and leave out what it had; what it said of cells that are there must
    stay.

    :raises BadInput: *out* holds the study of another plan, or something else.
    """
    file, said = out / STUDY, plan.model_dump(mode="json")
    if not stands(file):
        if out.exists() and any(entry.name not in ("worlds", AT_WORK, CLAIMS) for entry in out.iterdir()):
            raise BadInput(f"{out} is not empty and no study: choose another --out")
        return
    before = read_object(file)
    try:
        StudyPlan.model_validate(before)
    except ValidationError as error:
        raise BadInput([f"{file}: {told_fault(fault)}; choose another --out" for fault in error.errors()]) from error
    fixed = ("data", "seed", "relax", "limit", "seconds")
    models = before["models"].keys() & said["models"].keys()
    then, now = (
        {key: about.get(key, False) for key in fixed} | {name: _settled(about["models"][name]) for name in models}
        for about in (before, said)
    )
    differing = list(differences(then, now))
    if differing:
        raise BadInput([f"{out} holds the study of another plan: choose another --out", *differing])


def _settled(about: Json) -> Json:
    return {key: value for key, value in about.items() if key not in ("worlds", "init")}


def _make_worlds(plan: StudyPlan, out: Path) -> None:
    """Those that are not there are made. :raises BadInput: one that is there is another."""
    folder, source = out / "worlds", read(plan.data)
    graph = graph_of(source)
    refuse_others(folder, plan.worlds, graph, plan.seed)
    missing = [world for world in plan.worlds if not (folder / world).exists()]
    if missing:
        options = WorldOptions(relax=plan.relax)
        build_worlds(graph, folder, missing, plan.seed, options, name=source.name, audit=True)

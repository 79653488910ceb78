"""The grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}, cell by cell.

The plan is one YAML file, see :mod:`fathom.studies.grid_plan`. Each cell has its own folder (a model folder and a run),
so that a study can resume; a failed cell is recorded with its reason. A process or Ray worker claims the folder before
it makes the cell, so that two never write the same.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from fathom.building.worlds import WorldOptions, build_worlds, check_comparable_worlds
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.errors import BadInput, FathomError
from fathom.formats import read
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions
from fathom.probes.shared_options import HERE
from fathom.progress import Progress, unseen
from fathom.reading import Json, file_exists, json_file, shown, stands
from fathom.run import run
from fathom.run.parts import STARTING, Part
from fathom.run.pool import Pool, RayWorker, Size, connected, size_of
from fathom.store.files import write_json
from fathom.store.folder import RunFolder, differences
from fathom.store.locks import AT_WORK, CLAIMS, Claims, exclusive_folder, shared_folder
from fathom.studies.grid_plan import Cell, StudyPlan, cells_of, check_plan, describe_fault, options_of
from fathom.studies.options import GridOptions

STUDY = "study.json"
"""The plan, in the folder of the study."""


class Job(NamedTuple):
    """A cell to be made. :param out: folder of the study."""

    plan: StudyPlan
    cell: Cell
    out: Path

    @property
    def folder(self) -> Path:
        """The folder of the cell."""
        return self.cell.folder(self.out)

    @property
    def name(self) -> str:
        """The path of the cell in the folder of the study."""
        return self.folder.relative_to(self.out).as_posix()


def attempt(job: Job) -> str:
    """Make a cell, once no other process is making it, such as a worker whose driver was killed.

    :returns: why it failed, or "".
    """
    with Claims(job.folder).claimed(AT_WORK, wait=True):
        return _attempt(job)


def attempt_if_free(job: Job) -> str | None:
    """Make a cell as :func:`attempt` does; return None if another process is making it or has made it."""
    with Claims(job.folder).claimed(AT_WORK) as ours:
        return _attempt(job) if ours and finished_run(job.folder) is None and not why_failed(job.folder) else None


def _attempt(job: Job) -> str:
    try:
        run_cell(job.plan, job.cell, job.out)
    except FathomError as error:
        return fail(job, str(error).replace("\n", "; "))
    except Exception as error:  # a cell must never end the study
        return fail(job, f"{type(error).__name__}: {error}", traceback.format_exc())
    return ""


def finished_run(folder: Path) -> RunFolder | None:
    """Return the run of a cell, None if it is unfinished. :param folder: of the cell."""
    opened = RunFolder(folder / "run")
    return opened if opened.has_manifest() and opened.is_complete() else None


def fail(job: Job, why: str, trace: str = "") -> str:
    """Record why a cell failed, and return it."""
    write_json(job.folder / "failed.json", {"why": why, "trace": trace})
    return why


def why_failed(folder: Path) -> str:
    """Return why a cell failed, "" if it has not. :param folder: of the cell."""
    file = folder / "failed.json"
    return str(read_object(file).get("why", "")) if file_exists(file) else ""


def read_object(file: Path) -> Json:
    """Read an object of the study. :raises BadInput: it is something else."""
    content = json_file(file)
    if not isinstance(content, dict):
        raise BadInput(f"{file}: expected an object {{…}}, found {shown(content)}: choose another --out")
    return content


def note_plan(plan: StudyPlan, out: Path) -> None:
    """Write the plan to the folder of the study. Models that it no longer has stay, as their cells may exist."""
    content = plan.model_dump(mode="json")
    write_json(out / STUDY, content | {"models": _noted(out).get("models", {}) | content["models"]})


def is_noted(plan: StudyPlan, out: Path) -> bool:
    """Return whether *out* contains the study of *plan*."""
    noted = _noted(out)
    models = {name: noted.get("models", {}).get(name) for name in plan.models}
    return noted | {"models": models} == plan.model_dump(mode="json")


def _noted(out: Path) -> Json:
    return read_object(out / STUDY) if stands(out / STUDY) else {}


class CellWorker(RayWorker):
    """An actor that makes cells, each in its own folder, which it must share with the driver."""

    def load(self, job: dict[str, Job]) -> None:
        """Check the plan and that the folder of the study is visible.

        :raises BadInput: it is not, or the plan names what this node lacks.
        """
        self.jobs = job
        plan, _, out = next(iter(job.values()))
        if not is_noted(plan, out):
            raise BadInput(
                f"--engine ray: a worker on {platform.node()} does not find the study in {out}: give a folder that all "
                "nodes share"
            )
        check_plan(plan)

    def make(self, name: str) -> str:
        """Make a cell. :returns: why it failed, or ""."""
        return attempt(self.jobs[name])


def make_on_ray(jobs: Sequence[Job], size: Size) -> Generator[tuple[Cell, str]]:
    """Make cells on a Ray cluster. :returns: cells as they end, with why they failed, or "".

    :raises BadInput: workers have another version, or do not see the folder of the study.
    :raises RunFailed: workers die before they start; finished cells are kept.
    """
    by_name = {job.name: job for job in jobs}
    with closing(Pool(CellWorker, by_name, size, "checking the study")) as pool:
        for name, why in pool.map("make", by_name, give_up=lambda name, error: fail(by_name[name], str(error))):
            yield by_name[name].cell, why


def run_cell(plan: StudyPlan, cell: Cell, out: Path) -> None:
    """Train and evaluate one predictor in one world, resuming if it was stopped."""
    model, data, folder = plan.models[cell.model], read(out / "worlds" / cell.world), cell.folder(out)
    train_links(model.model, data, options_of(model, plan, cell.init, cell.seed), folder / "model")
    predictor = open_links(folder / "model", data, asking=model.asking)
    # Named by its place in the study, so that its manifest is the same elsewhere.
    predictor.identity = replace(predictor.identity, name="/".join((*folder.parts[-4:], "model")))
    run("link", predictor, link_queryset(data), LinkOptions(limit=plan.limit, seed=plan.seed), folder / "run")


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
    with exclusive_folder(out):
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


def _start(plan: StudyPlan, out: Path, retried: Sequence[Job]) -> None:
    """Make the missing worlds and write the plan. :raises BadInput: an existing world differs."""
    folder, source = out / "worlds", read(plan.data)
    graph = graph_of(source)
    check_comparable_worlds(folder, plan.worlds, graph, plan.seed)
    if missing := [world for world in plan.worlds if not (folder / world).exists()]:
        options = WorldOptions(relax=plan.relax)
        build_worlds(graph, folder, missing, plan.seed, options, name=source.name, audit=True)
    note_plan(plan, out)
    for job in retried:
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
    with shared_folder(out) as claims:
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
                handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ignores Ctrl-C; this process ends it
                try:
                    process.start()
                finally:
                    signal.signal(signal.SIGINT, handler)
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
        {key: version.get(key, False) for key in fixed}
        | {name: version["models"][name] | {"worlds": None, "init": None} for name in models}
        for version in (before, content)
    )
    differing = list(differences(then, now))
    if differing:
        raise BadInput([f"{out} contains the study of another plan: choose another --out", *differing])

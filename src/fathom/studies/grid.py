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
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from fathom.building.worlds import Options, build_worlds, refuse_others
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.errors import BadInput, FathomError
from fathom.formats import read
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions
from fathom.reading import Json, is_there, json_file, shown, stands
from fathom.run import run
from fathom.store.files import AT_WORK, alone_in, write_json
from fathom.store.folder import RunFolder, differences
from fathom.studies.grid_plan import Cell, StudyPlan, cells_of, check_plan, options_of, told_fault


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
        run_, why = RunFolder(cell.folder(out) / "run"), _why_failed(cell.folder(out))
        done = not why and run_.has_manifest() and run_.is_complete()
        found.append(CellState(cell, run_ if done else None, why))
    return found


def run_grid(
    plan: StudyPlan,
    out: Path,
    workers: int = 1,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[CellState]:
    """Train and ask every cell that is not there yet.

    :param workers: cells at a time, each in a process of its own (one: in this one).
    :param retry_failed: try failed cells once more.
    :param tell: given a line whenever a cell ends.
    :raises BadInput: the plan is wrong, *out* holds the study of another plan, or another process is at work in it.
    """
    check_plan(plan)
    with alone_in(out):
        check_same(plan, out)
        worlds = _make_worlds(plan, out)
        write_json(out / "study.json", plan.model_dump(mode="json"))
        for state in states(plan, out):
            if state.failed and retry_failed:
                _try_again(state.cell.folder(out))
        waiting = [state.cell for state in states(plan, out) if state.run is None and not state.failed]
        total = len(cells_of(plan))
        jobs = [Job(plan, cell, worlds[cell.world], cell.folder(out)) for cell in waiting]
        here = ((job.cell, _attempt(job)) for job in jobs)
        ended = here if workers == 1 else _in_processes(jobs, workers)
        for number, (cell, why) in enumerate(ended, start=total - len(waiting) + 1):
            tell(f"[{number}/{total}] {cell}" + (f": failed: {why}" if why else ""))
        return states(plan, out)


class Job(NamedTuple):
    """A cell to be made.

    :param world: folder of the graph.
    :param folder: of the cell.
    """

    plan: StudyPlan
    cell: Cell
    world: Path
    folder: Path


def _in_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Cell, str]]:
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
                    _fail(job, f"its process ended with code {process.exitcode} (killed? out of memory?)")
                yield job.cell, _why_failed(job.folder)
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
    _attempt(job)


def _end_with_parent() -> None:
    """A study that is killed leaves no training behind: the same command would begin a second one in its folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _attempt(job: Job) -> str:
    try:
        run_cell(*job)
    except FathomError as error:
        return _fail(job, str(error).replace("\n", "; "))
    except Exception as error:  # a cell must never end the study
        return _fail(job, f"{type(error).__name__}: {error}", traceback.format_exc())
    return ""


def _fail(job: Job, why: str, trace: str = "") -> str:
    write_json(job.folder / "failed.json", {"why": why, "trace": trace})
    return why


def _why_failed(folder: Path) -> str:
    """ "" where it has not."""
    file = folder / "failed.json"
    return str(_read(file).get("why", "")) if is_there(file) else ""


def _try_again(folder: Path) -> None:
    """Forget that a cell failed; and its model, where the training itself came to nothing."""
    (folder / "failed.json").unlink()
    model = folder / "model"
    ended = read_training(model)["ended"] if stands(model / MANIFEST) else None
    if ended is not None and ended.get("failed"):
        shutil.rmtree(model)


def read_training(model: Path) -> Json:
    """The manifest of a training that has begun, ended or not. :param model: folder of the link predictor."""
    return read_begun(model)


def _read(file: Path) -> Json:
    """:raises BadInput: it is none of the study's."""
    found = json_file(file)
    if not isinstance(found, dict):
        raise BadInput(f"{file}: expected an object {{…}}, found {shown(found)}: choose another --out")
    return found


def run_cell(plan: StudyPlan, cell: Cell, world: Path, folder: Path) -> None:
    """Train one predictor in one world, and ask it; goes on where it stopped."""
    about = plan.models[cell.model]
    data = read(world)
    train_links(about.model, data, options_of(about, plan, cell.init, cell.seed), folder / "model")
    predictor = open_links(folder / "model", data, asking=about.asking)
    # Named by its place in the study, so that the same study elsewhere says the same.
    predictor.identity = replace(predictor.identity, name="/".join((*folder.parts[-4:], "model")))
    run("link", predictor, link_queryset(data), LinkOptions(limit=plan.limit, seed=plan.seed), folder / "run")


def check_same(plan: StudyPlan, out: Path) -> None:
    """A plan may grow (further models and worlds); what it said of cells that are there must stay.

    :raises BadInput: *out* holds the study of another plan, or something else.
    """
    file, said = out / "study.json", plan.model_dump(mode="json")
    if not stands(file):
        if out.exists() and any(entry.name not in ("worlds", AT_WORK) for entry in out.iterdir()):
            raise BadInput(f"{out} is not empty and no study: choose another --out")
        return
    before = _read(file)
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


def _make_worlds(plan: StudyPlan, out: Path) -> dict[str, Path]:
    """The folder of each world; those that are not there are made. :raises BadInput: one that is there is another."""
    folder, source = out / "worlds", read(plan.data)
    graph = graph_of(source)
    refuse_others(folder, plan.worlds, graph, plan.seed)
    missing = [world for world in plan.worlds if not (folder / world).exists()]
    if missing:
        options = Options(relax=plan.relax)
        build_worlds(graph, folder, missing, plan.seed, options, name=source.name, audit=True)
    return {world: folder / world for world in plan.worlds}

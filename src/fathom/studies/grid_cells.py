"""A cell of the grid: one link predictor, trained and evaluated in one world, in its own folder.

A process or Ray worker claims the folder before it makes the cell, so that two never write the same.
"""

from __future__ import annotations

import platform
import traceback
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fathom.data.graph.queries import link_queryset
from fathom.errors import BadInput, FathomError
from fathom.formats import read
from fathom.links.folder import open_links, train_links
from fathom.links.options import LinkOptions
from fathom.reading import Json, is_there, json_file, shown, stands
from fathom.run import run
from fathom.run.pool import Pool, RayWorker, Size
from fathom.store.files import write_json
from fathom.store.folder import RunFolder
from fathom.store.locks import AT_WORK, Claims
from fathom.studies.grid_plan import Cell, StudyPlan, check_plan, options_of

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
    run = RunFolder(folder / "run")
    return run if run.has_manifest() and run.is_complete() else None


def fail(job: Job, why: str, trace: str = "") -> str:
    """Record why a cell failed, and return it."""
    write_json(job.folder / "failed.json", {"why": why, "trace": trace})
    return why


def why_failed(folder: Path) -> str:
    """Return why a cell failed, "" if it has not. :param folder: of the cell."""
    file = folder / "failed.json"
    return str(read_object(file).get("why", "")) if is_there(file) else ""


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

"""Cells of the grid made by workers of a Ray cluster, one at a time each.

A worker writes what it trains and asks into the folder of its cell, which no other writes meanwhile; so that all must
see the folder of the study. All else this process, the driver, writes.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from fathom.errors import BadInput, RunFailed
from fathom.probes.shared_options import ClusterOptions
from fathom.run.crew import Crew, Size, connected, size_of
from fathom.run.worker import Hired, settle, told
from fathom.studies.grid_cells import Job, attempt, fail, is_noted
from fathom.studies.grid_plan import Cell, check_plan


class Cells(NamedTuple):
    """What every worker of a study is given.

    :param jobs: by the folder of the cell in that of the study.
    :param out: folder of the study.
    :param folder: where the driver is, for paths that are not absolute.
    :param threads: for torch.
    """

    jobs: dict[str, Job]
    out: Path
    folder: str
    threads: int


class CellWorker(Hired):
    """Makes cells."""

    @told
    def open(self, cells: Cells) -> None:
        """See whether it finds the study, and what the plan names."""
        settle(cells.folder, cells.threads)
        plan = next(iter(cells.jobs.values())).plan
        if not is_noted(plan, cells.out):
            raise BadInput(
                f"--engine ray: a worker on {platform.node()} does not find the study in {cells.out}: give a "
                "folder that all nodes see"
            )
        check_plan(plan)
        self.jobs = cells.jobs

    @told
    def make(self, name: str) -> str:
        """A cell. :returns: why it failed, or ""."""
        return attempt(self.jobs[name])


@contextmanager
def made_on_ray(jobs: Sequence[Job], out: Path, options: ClusterOptions) -> Iterator[Iterator[tuple[Cell, str]]]:
    """Cells as they end, with why they failed, or "". Workers look at the study once the first is asked for.

    :raises BadInput: no such cluster, or too small a one; workers of another version, or that do not find the study.
    :raises RunFailed: workers die before they begin; what is finished is kept.
    :raises MissingExtra: Ray is not installed.
    """
    named = {job.folder.relative_to(out).as_posix(): job for job in jobs}
    with connected(options):
        size = size_of(options, most=len(jobs))
        with closing(_Making(Cells(named, out, str(Path.cwd()), size.cpus), size)) as crew:
            yield ((named[name].cell, why) for name, why in crew.each("make", named))


class _Making(Crew):
    """Workers that make cells; one that nobody survives is kept as failed."""

    opening = "looked at the study"
    doing = "made"

    def __init__(self, cells: Cells, size: Size) -> None:
        super().__init__(CellWorker, cells, size)
        self.jobs = cells.jobs

    def _given_up(self, task: str, failed: RunFailed) -> str:
        return fail(self.jobs[task], str(failed))

"""The plan of ``fathom kgc study``, the grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}.

The plan is one YAML file, see :mod:`fathom.studies.memory_plan`. Each cell is a step: a model folder and a run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from fathom.building.worlds import WorldOptions, build_worlds, check_comparable_worlds
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.errors import BadInput
from fathom.formats import read
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions
from fathom.plans.options import WorkerOptions
from fathom.plans.runner import run_steps
from fathom.plans.steps import RECORDS, Notice, Opened, Step, StepState, read_object, state_of
from fathom.progress import Progress, unseen
from fathom.reading import stands
from fathom.run import run
from fathom.store.files import write_json
from fathom.store.folder import differences
from fathom.store.locks import AT_WORK, CLAIMS
from fathom.studies.memory_plan import (
    Cell,
    CellState,
    StudyPlan,
    cells_of,
    check_model,
    check_plan,
    describe_fault,
    options_of,
)

STUDY = "study.json"
"""The plan, in the folder of the study."""


class CellStep(Step):
    """A cell: a link predictor trained and evaluated in one world."""

    def __init__(self, plan: StudyPlan, cell: Cell, out: Path) -> None:
        super().__init__(out, cell.folder(out).relative_to(out).as_posix())
        self.plan, self.cell = plan, cell

    def __str__(self) -> str:
        return str(self.cell)

    @property
    def run_folder(self) -> Path:
        """The run, next to the folder of the link predictor."""
        return self.folder / "run"

    def check(self) -> None:
        """Check the options of the cell's model."""
        check_model(self.plan.models[self.cell.model], self.plan)

    def make(self, opened: Opened, report: Progress | None = None) -> None:
        """Train and evaluate the predictor, resuming if it was stopped."""
        plan, cell, folder = self.plan, self.cell, self.cell.model_folder(self.out)
        model, data = plan.models[cell.model], opened.data(self.out / "worlds" / cell.world)
        train_links(model.model, data, options_of(model, plan, cell.init, cell.seed), folder)
        predictor = open_links(folder, data, asking=model.asking)
        # Named by its place in the study, so that its manifest is the same elsewhere.
        predictor.identity = replace(predictor.identity, name=f"{self.name}/{folder.name}")
        run("link", predictor, link_queryset(data), LinkOptions(limit=plan.limit, seed=plan.seed), self.run_folder)

    def clear(self) -> None:
        """Remove a failed training."""
        folder = self.cell.model_folder(self.out)
        ended = read_begun(folder)["ended"] if stands(folder / MANIFEST) else None
        if ended is not None and ended.get("failed"):
            shutil.rmtree(folder)


def steps_of(plan: StudyPlan, out: Path) -> list[CellStep]:
    """Return a step for each cell."""
    return [CellStep(plan, cell, out) for cell in cells_of(plan)]


def states(plan: StudyPlan, out: Path) -> list[CellState]:
    """Return the state of each cell, in the order of :func:`cells_of`."""
    return _cells(map(state_of, steps_of(plan, out)))


def _cells(states: Iterable[StepState]) -> list[CellState]:
    return [CellState(state.step.cell, state.run, state.failed) for state in states]


def run_grid(
    plan: StudyPlan,
    out: Path,
    options: WorkerOptions | None = None,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    report: Progress = unseen,
) -> list[CellState]:
    """Train and evaluate every missing cell, see :func:`fathom.plans.runner.run_steps`.

    :raises BadInput: the plan is invalid, or *out* contains another study; and what ``run_steps`` refuses.
    """
    check_plan(plan)
    steps = steps_of(plan, out)
    return _cells(
        run_steps(steps, out, options or WorkerOptions(), partial(_start, plan, out), retry_failed, tell, report)
    )


def _start(plan: StudyPlan, out: Path, steps: Sequence[Step]) -> Notice:
    """Make the missing worlds and write the plan. :raises BadInput: *out* or a world was made of another plan."""
    check_same(plan, out)
    if steps or not stands(out / STUDY):
        folder, source = out / "worlds", read(plan.data)
        graph = graph_of(source)
        check_comparable_worlds(folder, plan.worlds, graph, plan.seed)
        if missing := [world for world in plan.worlds if not (folder / world).exists()]:
            options = WorldOptions(relax=plan.relax)
            build_worlds(graph, folder, missing, plan.seed, options, name=source.name, audit=True)
    return note_plan(plan, out)


def note_plan(plan: StudyPlan, out: Path) -> Notice:
    """Write the plan to the folder of the study. Models that it no longer has stay, as their cells may exist."""
    content = plan.model_dump(mode="json")
    noted = read_object(out / STUDY) if stands(out / STUDY) else {}
    content |= {"models": noted.get("models", {}) | content["models"]}
    if content != noted:
        write_json(out / STUDY, content)
    return Notice(out / STUDY, content)


def check_same(plan: StudyPlan, out: Path) -> None:
    """Check that settings of existing cells are unchanged; models and worlds may be added or dropped.

    :raises BadInput: *out* contains the study of another plan, or something else.
    """
    file, content = out / STUDY, plan.model_dump(mode="json")
    if not stands(file):
        if out.exists() and any(entry.name not in ("worlds", RECORDS, AT_WORK, CLAIMS) for entry in out.iterdir()):
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

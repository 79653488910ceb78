"""The plan of ``fathom kgc study``, the grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}.

The plan is one YAML file, see :mod:`fathom.studies.memory_plan`. Each cell is a step: a model folder and a run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fathom.building.worlds import WorldOptions, build_worlds, check_comparable_worlds, parse_variants
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.errors import BadInput
from fathom.formats import read
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions
from fathom.options import read_yaml
from fathom.plans.content import PlanFaults, Where, parse_content, path_from
from fathom.plans.options import WorkerOptions
from fathom.plans.record import STUDY, changed_steps, note_steps, read_record
from fathom.plans.runner import run_steps
from fathom.plans.steps import Notice, Opened, Step, StepState, state_of
from fathom.progress import Progress, unseen
from fathom.reading import Json, stands
from fathom.run import run
from fathom.studies.memory_plan import Cell, CellState, StudyPlan, cells_of, check_model, options_of

_NAME = re.compile(r"[^./\x00][^/\x00]{0,99}")


def read_plan(file: Path) -> StudyPlan:
    """Read and check a plan. :raises BadInput: it is invalid, with all faults."""
    content, faults = read_yaml(file), PlanFaults(file)
    plan = _with_paths(parse_content(StudyPlan, content, faults), file.parent)
    _check(plan, faults)
    faults.stop_if_any()
    return plan


def _with_paths(plan: StudyPlan, base: Path) -> StudyPlan:
    """Resolve paths relative to the file's folder; names of models and data sets stay."""
    models = {
        name: model.model_copy(update={"weights": path_from(str(model.options["weights"]), base)})
        if "weights" in model.options
        else model
        for name, model in plan.models.items()
    }
    return plan.model_copy(update={"data": path_from(plan.data, base), "models": models})


def _check(plan: StudyPlan, faults: PlanFaults) -> None:
    """Check names of worlds, kinds, options and models."""

    def attempt(where: Where, check: Callable[[], Any]) -> None:
        try:
            check()
        except BadInput as error:
            for fault in error.faults:
                faults.add(where, fault)

    attempt(("worlds",), partial(parse_variants, plan.worlds))
    named: list[tuple[Where, str | None]] = [(("line",), plan.line)]
    named += [(("contrasts",), name) for pair in plan.contrasts for name in pair]
    named += [(("controls",), name) for pair in plan.controls.items() for name in pair]
    for name, model in plan.models.items():
        where: Where = ("models", name)
        attempt(where, partial(check_model, model, plan))
        if missing := sorted(set(model.worlds or ()) - set(plan.worlds)):
            faults.add(where, f"{', '.join(missing)} not in the worlds of the study: {', '.join(plan.worlds)}")
        if not _NAME.fullmatch(name) or not name.isprintable():
            kind = "1 to 100 printable characters without / and no leading dot"
            faults.add(where, f"the name of a model becomes a folder; give {kind}")
        named.append(((*where, "random_from"), model.random_from))
        donor = plan.models.get(model.random_from or "")
        if donor is not None and (donor.random_from is not None or "random" not in donor.init):
            faults.add((*where, "random_from"), f"{model.random_from} has no random cells itself")
    for where, one in named:
        if one is not None and one not in plan.models:
            faults.add(where, f"unknown model '{one}'; expected one of {', '.join(plan.models)}")


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

    @property
    def identity(self) -> Json:
        """Return the settings of the cell."""
        settings = self.plan.model_dump(mode="json", include={"data", "seed", "relax", "limit", "seconds"})
        model = self.plan.models[self.cell.model].model_dump(mode="json", exclude={"worlds", "init"})
        return settings | {"models": {self.cell.model: model}}

    def has_begun(self) -> bool:
        """Return whether its training has begun."""
        return stands(self.cell.model_folder(self.out) / MANIFEST)

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
        ended = read_begun(folder)["ended"] if self.has_begun() else None
        if ended is not None and ended.get("failed"):
            shutil.rmtree(folder)


def steps_of(plan: StudyPlan, out: Path) -> list[CellStep]:
    """Return a step for each cell."""
    return [CellStep(plan, cell, out) for cell in cells_of(plan)]


def states(plan: StudyPlan, out: Path) -> list[CellState]:
    """Return the state of each cell, in the order of :func:`cells_of`.

    :raises BadInput: *out* contains the study of another plan, or something else.
    """
    steps = steps_of(plan, out)
    _unchanged(steps, out)
    return _cells(map(state_of, steps))


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

    :raises BadInput: *out* contains another study; and what ``run_steps`` refuses.
    """
    steps = steps_of(plan, out)

    def start(left: Sequence[Step]) -> Notice:
        """Make the missing worlds and write the record."""
        record = _unchanged(steps, out)
        if left or not stands(out / STUDY):
            folder, source = out / "worlds", read(plan.data)
            graph = graph_of(source)
            check_comparable_worlds(folder, plan.worlds, graph, plan.seed)
            if missing := [world for world in plan.worlds if not (folder / world).exists()]:
                worlds = WorldOptions(relax=plan.relax)
                build_worlds(graph, folder, missing, plan.seed, worlds, name=source.name, audit=True)
        return note_steps(steps, out, record, STUDY)

    return _cells(run_steps(steps, out, options or WorkerOptions(), start, retry_failed, tell, report))


def _unchanged(steps: Sequence[CellStep], out: Path) -> Json:
    """Return the record of a study. Models and worlds may be added or dropped, but no setting of a cell may change.

    :raises BadInput: *out* contains the study of another plan, or something else.
    """
    record = read_record(steps, out, STUDY, "worlds")
    if changes := changed_steps(steps, record):
        lines = dict.fromkeys(line for _, *own in changes.values() for line in own)
        raise BadInput([f"{out} contains the study of another plan: choose another --out", *lines])
    return record

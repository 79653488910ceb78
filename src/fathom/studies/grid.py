"""The grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}, trained and asked cell by cell.

The plan is one YAML file. Every cell is a folder of its own (a model folder and a run), so that a study goes on where
it stopped; a cell that fails is kept as failed, with the reason.
"""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fathom.building.worlds import THIRTEEN, build_worlds, parse_variants
from fathom.data.formats import read
from fathom.data.graph_queries import link_queryset
from fathom.errors import BadInput, FathomError
from fathom.options import parse_options, read_yaml
from fathom.probes.options import LinkOptions
from fathom.run import run
from fathom.store.files import write_json
from fathom.store.folder import RunFolder, differences
from fathom.training.links import find
from fathom.training.links.folder import open_links, train_links

Init = Literal["pretrained", "random"]
INITS: tuple[Init, ...] = ("pretrained", "random")


def _words(value: Any) -> Any:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(value) if isinstance(value, list) else value


Worlds = Annotated[tuple[str, ...], BeforeValidator(_words)]


class ModelPlan(BaseModel):
    """One link predictor of a study.

    :param model: its kind, as ``fathom kgc train --model`` names it. :param options: of its kind.
    :param worlds: those it takes part in; None for all of the study.
    :param random_from: another model of the study with the same shape and tokenizer, whose random cells are its own.
    :param seconds: of training per cell, None for the study's. :param asking: options to ask it with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    options: dict[str, Any] = {}
    init: Annotated[tuple[Init, ...], BeforeValidator(_words)] = INITS
    worlds: Worlds | None = None
    random_from: str | None = None
    seconds: float | None = Field(None, gt=0)
    asking: dict[str, Any] = {}


class StudyPlan(BaseModel):
    """What ``fathom kgc study PLAN.yaml`` reads.

    :param data: the graph. :param worlds: names of worlds, by default the thirteen of the paper.
    :param models: by the name that tables give them.
    :param line: the model whose base cell is drawn as a line in every figure (a knowledge graph embedding).
    :param contrasts: pairs of models whose pretrained cells are compared world by world, first − second.
    :param seconds: of training per cell. :param limit: ask so many test triples. :param seed: of worlds and training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    worlds: Worlds = tuple(map(str, THIRTEEN))
    models: dict[str, ModelPlan] = Field(min_length=1)
    line: str | None = None
    contrasts: tuple[tuple[str, str], ...] = ()
    seconds: float | None = Field(None, gt=0)
    limit: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0)


class Cell(NamedTuple):
    """One training and its run. :param init: "" for kinds that have no weights to begin with."""

    model: str
    init: str
    world: str

    def folder(self, out: Path) -> Path:
        return out / "cells" / self.model / (self.init or "only") / self.world

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class State(NamedTuple):
    """:param run: the finished run, where there is one. :param failed: why there is none, "" where it is to be made."""

    cell: Cell
    run: RunFolder | None
    failed: str


def read_plan(file: Path) -> StudyPlan:
    """:raises BadInput: everything that is wrong with it, one line each, before anything is trained."""
    content = read_yaml(file)
    try:
        plan = StudyPlan(**_nested(content))
    except (ValidationError, TypeError) as error:
        faults = error.errors() if isinstance(error, ValidationError) else [{"loc": (), "msg": str(error)}]
        raise BadInput(
            [f"{file}: {'.'.join(map(str, fault['loc'])) or 'plan'}: {fault['msg']}" for fault in faults]
        ) from error
    return _with_paths(plan, file.parent)


def _nested(content: dict[str, Any]) -> dict[str, Any]:
    """Options stand beside ``model:`` and the like in the file; here they stand in a mapping of their own."""
    models = content.get("models")
    if not isinstance(models, dict) or not all(isinstance(about, dict) for about in models.values()):
        return content
    own = ModelPlan.model_fields.keys() - {"options"}
    sorted_ = {
        str(name): {key: value for key, value in about.items() if key in own}
        | {"options": {str(key).replace("-", "_"): value for key, value in about.items() if key not in own}}
        for name, about in models.items()
    }
    return content | {"models": sorted_}


def _with_paths(plan: StudyPlan, beside: Path) -> StudyPlan:
    """Folders are given as seen from the file, names of models and data sets as they are."""

    def found(name: str) -> str:
        return str(beside / name) if (beside / name).exists() else name

    models = {
        name: about.model_copy(update={"options": about.options | {"weights": found(str(about.options["weights"]))}})
        if "weights" in about.options
        else about
        for name, about in plan.models.items()
    }
    return plan.model_copy(update={"data": found(plan.data), "models": models})


def check_plan(plan: StudyPlan) -> None:
    """:raises BadInput: unknown worlds, kinds, options or models, all at once."""
    faults: list[str] = []

    def attempt(step: Callable[[], Any], where: str = "") -> None:
        try:
            step()
        except BadInput as error:
            faults.extend(f"{where}{fault}" for fault in error.faults)

    attempt(lambda: parse_variants(plan.worlds))
    for name, about in plan.models.items():
        attempt(lambda about=about: options_of(about, plan, INITS[0]), f"{name}: ")  # type: ignore[misc]
        missing = sorted(set(about.worlds or ()) - set(plan.worlds))
        if missing:
            faults.append(f"{name}: {', '.join(missing)} not among the worlds of the study: {', '.join(plan.worlds)}")
        if "/" in name or name.startswith("."):
            faults.append(f"{name}: the name of a model becomes a folder; leave out / and leading dots")
    named = [("line", plan.line), *(("contrasts", name) for pair in plan.contrasts for name in pair)]
    named += [(f"{name}: random_from", about.random_from) for name, about in plan.models.items()]
    faults += [
        f"{where}: there is no model '{name}': there is {', '.join(plan.models)}"
        for where, name in named
        if name is not None and name not in plan.models
    ]
    if faults:
        raise BadInput(faults)


def options_of(about: ModelPlan, plan: StudyPlan, init: str) -> Any:
    """The options of one cell. :raises BadInput: the kind has no such option."""
    kind = find(about.model)
    given: dict[str, Any] = {"seed": plan.seed, **about.options}
    if "model" in kind.options.model_fields:
        given["model"] = about.model
    if "init" in kind.options.model_fields:
        given["init"] = init
    seconds = about.seconds or plan.seconds
    if seconds is not None:
        given.setdefault("seconds", seconds)
    return parse_options(kind.options, given)


def cells_of(plan: StudyPlan) -> list[Cell]:
    """World by world, so that what is there can be compared early."""
    cells = []
    for world in plan.worlds:
        for name, about in plan.models.items():
            if about.worlds is not None and world not in about.worlds:
                continue
            if "init" not in find(about.model).options.model_fields:
                cells.append(Cell(name, "", world))
                continue
            own = [init for init in about.init if init != "random" or about.random_from is None]
            cells += [Cell(name, init, world) for init in own]
    return cells


def states(plan: StudyPlan, out: Path) -> list[State]:
    """What is there of each cell."""
    found = []
    for cell in cells_of(plan):
        folder = cell.folder(out)
        run_ = RunFolder(folder / "run")
        if (folder / "failed.json").exists():
            found.append(State(cell, None, json.loads((folder / "failed.json").read_text(encoding="utf-8"))["why"]))
        elif (run_.path / "manifest.json").exists() and run_.is_complete():
            found.append(State(cell, run_, ""))
        else:
            found.append(State(cell, None, ""))
    return found


def run_grid(
    plan: StudyPlan,
    out: Path,
    workers: int = 1,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[State]:
    """Train and ask every cell that is not there yet.

    :param workers: cells at a time, each in a process of its own (one: in this one).
    :param retry_failed: try failed cells once more. :param tell: given a line whenever a cell ends.
    :raises BadInput: the plan is wrong, or *out* holds the study of another plan.
    """
    check_plan(plan)
    _start(plan, out)
    worlds = _make_worlds(plan, out)
    for state in states(plan, out):
        if state.failed and retry_failed:
            (state.cell.folder(out) / "failed.json").unlink()
    waiting = [state.cell for state in states(plan, out) if state.run is None and not state.failed]
    total, left = len(cells_of(plan)), len(waiting)
    jobs = [(plan, cell, worlds[cell.world], cell.folder(out)) for cell in waiting]
    for cell, why in _done(jobs, workers):
        left -= 1
        tell(f"[{total - left}/{total}] {cell}" + (f": failed: {why}" if why else ""))
    return states(plan, out)


Job = tuple[StudyPlan, Cell, Path, Path]


def _done(jobs: Sequence[Job], workers: int) -> Iterable[tuple[Cell, str]]:
    """Cells as they end, with why they failed, or ""."""
    if workers == 1:
        for job in jobs:
            yield job[1], _attempt(job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        running: dict[Future[str], Job] = {pool.submit(_attempt, job): job for job in jobs}
        try:
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    try:
                        yield job[1], future.result()
                    except BrokenProcessPool:
                        yield job[1], _fail(job, "its process was killed (out of memory?)")
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _attempt(job: Job) -> str:
    try:
        run_cell(*job)
    except FathomError as error:
        return _fail(job, str(error).replace("\n", "; "))
    except Exception as error:  # a cell must never end the study
        return _fail(job, f"{type(error).__name__}: {error}", traceback.format_exc())
    return ""


def _fail(job: Job, why: str, trace: str = "") -> str:
    write_json(job[3] / "failed.json", {"why": why, "trace": trace})
    return why


def run_cell(plan: StudyPlan, cell: Cell, world: Path, folder: Path) -> None:
    """Train one predictor in one world, and ask it; goes on where it stopped."""
    about = plan.models[cell.model]
    data = read(world)
    train_links(about.model, data, options_of(about, plan, cell.init), folder / "model")
    options = LinkOptions(limit=plan.limit, seed=plan.seed)
    predictor = open_links(folder / "model", data, asking=about.asking)
    run("link", predictor, link_queryset(data), options, folder / "run")


def _start(plan: StudyPlan, out: Path) -> None:
    """A plan may grow (further models and worlds); what it said of cells that are there must stay."""
    file, said = out / "study.json", json.loads(plan.model_dump_json())
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        fixed = {key: said[key] for key in ("data", "seed", "limit", "seconds")}
        models = {name: said["models"][name] for name in before["models"].keys() & said["models"].keys()}
        kept = {name: _settled(about) for name, about in models.items()}
        was = {name: _settled(before["models"][name]) for name in models}
        differing = list(differences({key: before[key] for key in fixed} | was, fixed | kept))
        if differing:
            raise BadInput([f"{out} holds the study of another plan: choose another --out", *differing])
    elif out.exists() and any(out.iterdir()):
        raise BadInput(f"{out} is not empty and no study: choose another --out")
    write_json(file, said)


def _settled(about: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in ("worlds", "init")}


def _make_worlds(plan: StudyPlan, out: Path) -> dict[str, Path]:
    """The folder of each world; those that are not there are made."""
    folder = out / "worlds"
    missing = [world for world in plan.worlds if not (folder / world).exists()]
    if missing:
        source = read(plan.data)
        graph = link_queryset(source).graph
        assert graph is not None
        build_worlds(graph, folder, missing, plan.seed, name=source.name)
    return {world: folder / world for world in plan.worlds}

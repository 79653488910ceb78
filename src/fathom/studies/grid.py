"""The grid of Sakai et al. 2024: worlds × link predictors × {pretrained, random}, trained and asked cell by cell.

The plan is one YAML file. Every cell is a folder of its own (a model folder and a run), so that a study goes on where
it stopped; a cell that fails is kept as failed, with the reason.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fathom.building.worlds import THIRTEEN, build_worlds, parse_variants
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.errors import BadInput, FathomError, refuse
from fathom.formats import read
from fathom.links import find
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions
from fathom.options import Seed, parse_options, read_yaml, separated
from fathom.reading import Json, is_there, json_file, shown, stands
from fathom.run import run
from fathom.store.files import AT_WORK, alone_in, write_json
from fathom.store.folder import RunFolder, differences

Init = Literal["pretrained", "random"]
INITS: tuple[Init, Init] = ("pretrained", "random")
_NAME = re.compile(r"[^./\x00][^/\x00]{0,99}")
_NAME_IN_WORDS = "give 1 to 100 signs that can be printed, without / and no dot in front"
Worlds = Annotated[tuple[str, ...], BeforeValidator(separated)]


class ModelPlan(BaseModel):
    """One link predictor of a study.

    :param model: its kind, as ``fathom kgc train --model`` names it.
    :param options: of its kind.
    :param init: with which weights its trainings begin.
    :param worlds: those it takes part in; None for all of the study.
    :param random_from: another model of the study with the same shape and tokenizer, whose random cells stand for its
        own.
    :param seconds: of training per cell; None for the study's.
    :param asking: options to ask it with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    options: Json = {}
    init: Annotated[tuple[Init, ...], BeforeValidator(separated)] = INITS
    worlds: Worlds | None = None
    random_from: str | None = None
    seconds: float | None = Field(None, gt=0)
    asking: Json = {}


class StudyPlan(BaseModel):
    """What ``fathom kgc study PLAN.yaml`` reads.

    :param data: the graph.
    :param worlds: names of worlds, by default the thirteen of the paper.
    :param models: by the name that tables give them.
    :param line: the model whose base cell is drawn as a line in every figure (a knowledge graph embedding).
    :param contrasts: pairs of models whose pretrained cells are compared world by world, first − second.
    :param seconds: of training per cell.
    :param limit: how many test triples to ask; None for all.
    :param seed: of worlds and training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    worlds: Worlds = tuple(map(str, THIRTEEN))
    models: dict[str, ModelPlan] = Field(min_length=1)
    line: str | None = None
    contrasts: tuple[tuple[str, str], ...] = ()
    seconds: float | None = Field(None, gt=0)
    limit: int | None = Field(None, ge=1)
    seed: Seed = 0

    def owner(self, model: str, init: str) -> str:
        """The model whose cells stand for those of *model* with such weights: itself, or its ``random_from``."""
        donor = self.models[model].random_from
        return donor if init == "random" and donor is not None else model


class Cell(NamedTuple):
    """One training and its run.

    :param init: "" for kinds that have no weights to begin with.
    """

    model: str
    init: str
    world: str

    def folder(self, out: Path) -> Path:
        """Of its model, its run and, if it failed, the reason. :param out: folder of the study."""
        return out / "cells" / self.model / (self.init or "only") / self.world

    def model_folder(self, out: Path) -> Path:
        """The trained link predictor. :param out: folder of the study."""
        return self.folder(out) / "model"

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class CellState(NamedTuple):
    """What is there of a cell.

    :param run: the finished run, where there is one.
    :param failed: why there is none; "" where it is to be made.
    """

    cell: Cell
    run: RunFolder | None
    failed: str


def read_plan(file: Path) -> StudyPlan:
    """:raises BadInput: everything that is wrong with it, one line each, before anything is trained."""
    try:
        return _with_paths(StudyPlan(**_nested(read_yaml(file))), file.parent)
    except ValidationError as error:
        raise BadInput([f"{file}: {_fault(fault)}" for fault in error.errors()]) from error


def _fault(fault: Any) -> str:
    where = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such key; there is {', '.join(StudyPlan.model_fields)}"
    if fault["type"] == "missing":
        return f"{where}: this key is missing"
    return f"{where}: {fault['msg']}, found {str(fault['input'])[:60]!r}"


def _nested(content: Json) -> Json:
    """Options stand beside ``model:`` and the like in the file; here they stand in a mapping of their own."""
    models = content.get("models")
    if not isinstance(models, dict) or not all(isinstance(about, dict) for about in models.values()):
        return content
    own = ModelPlan.model_fields.keys() - {"options"}
    return content | {
        "models": {
            str(name): {key: value for key, value in about.items() if key in own}
            | {"options": {str(key).replace("-", "_"): value for key, value in about.items() if key not in own}}
            for name, about in models.items()
        }
    }


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
        attempt(lambda about=about: _check_model(about, plan), f"{name}: ")  # type: ignore[misc]
        missing = sorted(set(about.worlds or ()) - set(plan.worlds))
        if missing:
            faults.append(f"{name}: {', '.join(missing)} not among the worlds of the study: {', '.join(plan.worlds)}")
        if not _NAME.fullmatch(name) or not name.isprintable():
            faults.append(f"{name[:60]!r}: the name of a model becomes a folder; {_NAME_IN_WORDS}")
    named = [("line", plan.line), *(("contrasts", name) for pair in plan.contrasts for name in pair)]
    named += [(f"{name}: random_from", about.random_from) for name, about in plan.models.items()]
    faults += [
        f"{where}: there is no model '{name}': there is {', '.join(plan.models)}"
        for where, name in named
        if name is not None and name not in plan.models
    ]
    faults += [
        f"{name}: random_from: {about.random_from} has no random cells of its own"
        for name, about in plan.models.items()
        if (donor := plan.models.get(about.random_from or "")) is not None
        and (donor.random_from is not None or "random" not in donor.init)
    ]
    refuse(faults)


def _check_model(about: ModelPlan, plan: StudyPlan) -> None:
    """:raises BadInput: an unknown kind, option or language model."""
    kind = find(about.model)
    options = options_of(about, plan, INITS[0])
    foreign = sorted(about.asking.keys() - kind.options.asking())
    if foreign:
        can = ", ".join(sorted(kind.options.asking())) or "nothing"
        raise BadInput(f"asking: a {kind.name} model can be asked with {can}, not with {', '.join(foreign)}")
    parse_options(kind.options, {**options.model_dump(), **about.asking})
    kind.load().check(options)


def options_of(about: ModelPlan, plan: StudyPlan, init: str) -> Any:
    """The options of one cell. :raises BadInput: the kind has no such option."""
    kind = find(about.model)
    given: Json = {"seed": plan.seed, **about.options}
    if "init" in kind.options.model_fields:
        given["init"] = init
    seconds = about.seconds or plan.seconds
    if seconds is not None:
        given.setdefault("seconds", seconds)
    return kind.parse(about.model, given)


def cells_of(plan: StudyPlan) -> list[Cell]:
    """World by world, so that what is there can be compared early."""
    cells = []
    for world, (name, about) in product(plan.worlds, plan.models.items()):
        if about.worlds is None or world in about.worlds:
            begins_with_weights = "init" in find(about.model).options.model_fields
            own = [init for init in about.init if plan.owner(name, init) == name]
            cells += [Cell(name, init, world) for init in (own if begins_with_weights else ("",))]
    return cells


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
    train_links(about.model, data, options_of(about, plan, cell.init), folder / "model")
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
        raise BadInput([f"{file}: {_fault(fault)}; choose another --out" for fault in error.errors()]) from error
    fixed = ("data", "seed", "limit", "seconds")
    models = before["models"].keys() & said["models"].keys()
    then, now = (
        {key: about[key] for key in fixed} | {name: _settled(about["models"][name]) for name in models}
        for about in (before, said)
    )
    differing = list(differences(then, now))
    if differing:
        raise BadInput([f"{out} holds the study of another plan: choose another --out", *differing])


def _settled(about: Json) -> Json:
    return {key: value for key, value in about.items() if key not in ("worlds", "init")}


def _make_worlds(plan: StudyPlan, out: Path) -> dict[str, Path]:
    """The folder of each world; those that are not there are made."""
    folder = out / "worlds"
    missing = [world for world in plan.worlds if not (folder / world).exists()]
    if missing:
        source = read(plan.data)
        build_worlds(graph_of(source), folder, missing, plan.seed, name=source.name, audit=True)
    return {world: folder / world for world in plan.worlds}

"""The plan of a grid: which worlds, link predictors, weights and seeds; one YAML file, checked before anything is
trained."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fathom.building.worlds import THIRTEEN, parse_variants
from fathom.errors import BadInput, refuse
from fathom.links import find
from fathom.options import Seed, listed, parse_options, read_yaml, separated
from fathom.reading import Json

Init = Literal["pretrained", "random"]
INITS: tuple[Init, Init] = ("pretrained", "random")
_NAME = re.compile(r"[^./\x00][^/\x00]{0,99}")
_NAME_IN_WORDS = "give 1 to 100 signs that can be printed, without / and no dot in front"
Worlds = Annotated[tuple[str, ...], BeforeValidator(separated)]


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """:raises ValueError: a seed stands there twice, and so would pass for two trainings."""
    if twice := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise ValueError(f"given twice: {', '.join(map(str, twice))}; name each once, or others for more trainings")
    return seeds


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
    :param controls: for a model begun from contaminated weights, the model begun from sham weights (``fathom kgc
        pretrain --sham``): only what it knows beyond that is memory of the answers.
    :param seconds: of training per cell.
    :param limit: how many test triples to ask; None for all.
    :param seed: of worlds, of which triples are asked, and of training where *seeds* are not given.
    :param seeds: of training: each cell is trained with each of them.
    :param relax: where names of relations cannot all change hands (FB15k-237), let as many as can.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    worlds: Worlds = tuple(map(str, THIRTEEN))
    models: dict[str, ModelPlan] = Field(min_length=1)
    line: str | None = None
    contrasts: tuple[tuple[str, str], ...] = ()
    controls: dict[str, str] = {}
    seconds: float | None = Field(None, gt=0)
    limit: int | None = Field(None, ge=1)
    seed: Seed = 0
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(listed), AfterValidator(_each_once)] = ()
    relax: bool = False

    @property
    def trainings(self) -> tuple[int | None, ...]:
        """Seeds of training, as :class:`Cell` has them."""
        return tuple(None if seed == self.seed else seed for seed in self.seeds or (self.seed,))

    def owner(self, model: str, init: str) -> str:
        """The model whose cells stand for those of *model* with such weights: itself, or its ``random_from``."""
        donor = self.models[model].random_from
        return donor if init == "random" and donor is not None else model


class Cell(NamedTuple):
    """One training and its run.

    :param init: "" for kinds that have no weights to begin with.
    :param seed: of its training; None for the study's own, so that a study of one seed may go on with more of them.
    """

    model: str
    init: str
    world: str
    seed: int | None = None

    def folder(self, out: Path) -> Path:
        """Of its model, its run and, if it failed, the reason. :param out: folder of the study."""
        cells = "cells" if self.seed is None else f"cells-{self.seed}"
        return out / cells / self.model / (self.init or "only") / self.world

    def model_folder(self, out: Path) -> Path:
        """The trained link predictor. :param out: folder of the study."""
        return self.folder(out) / "model"

    def __str__(self) -> str:
        seed = "" if self.seed is None else f"seed {self.seed}"
        return " ".join(filter(None, (self.model, self.init, self.world, seed)))


def read_plan(file: Path, seeds: str | None = None) -> StudyPlan:
    """:param seeds: instead of the plan's own, separated by commas.
    :raises BadInput: everything that is wrong with it, one line each, before anything is trained.
    """
    more = {} if seeds is None else {"seeds": seeds}
    try:
        return _with_paths(StudyPlan(**_nested(read_yaml(file) | more)), file.parent)
    except ValidationError as error:
        raise BadInput([f"{file}: {told_fault(fault)}" for fault in error.errors()]) from error


def told_fault(fault: Any) -> str:
    """One line. :param fault: of pydantic."""
    where = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such key; there is {', '.join(StudyPlan.model_fields)}"
    if fault["type"] == "missing":
        return f"{where}: this key is missing"
    return f"{where}: {fault['msg'].removeprefix('Value error, ')}, found {str(fault['input'])[:60]!r}"


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
    named += [("controls", name) for pair in plan.controls.items() for name in pair]
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
    if plan.seeds and "seed" in about.options:
        raise BadInput("seed: each model is trained with the seeds of the study: leave it out")
    foreign = sorted(about.asking.keys() - kind.options.asking())
    if foreign:
        can = ", ".join(sorted(kind.options.asking())) or "nothing"
        raise BadInput(f"asking: a {kind.name} model can be asked with {can}, not with {', '.join(foreign)}")
    parse_options(kind.options, {**options.model_dump(), **about.asking})
    kind.load().check(options)


def options_of(about: ModelPlan, plan: StudyPlan, init: str, seed: int | None = None) -> Any:
    """The options of one cell. :param seed: as :class:`Cell` has it. :raises BadInput: the kind has no such option."""
    kind = find(about.model)
    given: Json = {"seed": plan.seed if seed is None else seed, **about.options}
    if "init" in kind.options.model_fields:
        given["init"] = init
    seconds = about.seconds or plan.seconds
    if seconds is not None:
        given.setdefault("seconds", seconds)
    return kind.parse(about.model, given)


def cells_of(plan: StudyPlan) -> list[Cell]:
    """Seed by seed and world by world, so that what is there can be compared early."""
    cells = []
    for seed, world, (name, about) in product(plan.trainings, plan.worlds, plan.models.items()):
        if about.worlds is None or world in about.worlds:
            begins_with_weights = "init" in find(about.model).options.model_fields
            own = [init for init in about.init if plan.owner(name, init) == name]
            cells += [Cell(name, init, world, seed) for init in (own if begins_with_weights else ("",))]
    return cells

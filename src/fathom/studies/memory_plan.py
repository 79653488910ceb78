"""The plan of the study of memory: worlds, link predictors, weights and seeds, from one YAML file."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from fathom.building.worlds import THIRTEEN
from fathom.errors import BadInput
from fathom.links import find
from fathom.options import Given, Seed, listed, parse_options, separated
from fathom.reading import Json
from fathom.store.folder import RunFolder

Init = Literal["pretrained", "random"]
INITS: tuple[Init, Init] = ("pretrained", "random")
Worlds = Annotated[tuple[str, ...], BeforeValidator(separated)]


def _check_unique(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if twice := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise ValueError(f"given twice: {', '.join(map(str, twice))}; give each once")
    return seeds


class ModelPlan(BaseModel):
    """One link predictor of a study; keys that are not fields are options of its kind.

    :param model: its kind, as in ``fathom kgc train --model``.
    :param init: initial weights of its trainings.
    :param worlds: None for all of the study.
    :param random_from: another model of the study with the same shape and tokenizer, whose random cells it shares.
    :param seconds: of training per cell; None for the study's.
    :param asking: options of its evaluation.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    model: str
    init: Annotated[tuple[Init, ...], BeforeValidator(separated)] = INITS
    worlds: Worlds | None = None
    random_from: str | None = None
    seconds: float | None = Field(None, gt=0)
    asking: Json = {}

    @property
    def options(self) -> Given:
        """Options of its kind."""
        return {name.replace("-", "_"): value for name, value in (self.model_extra or {}).items()}


class StudyPlan(BaseModel):
    """The content of PLAN.yaml for ``fathom kgc study``.

    :param data: the graph.
    :param worlds: by default the thirteen of the paper.
    :param models: by their name in tables.
    :param line: the model whose base cell is drawn as a line in every figure (a knowledge graph embedding).
    :param contrasts: pairs of models whose pretrained cells are compared world by world, first − second.
    :param controls: for a model with contaminated weights, the model with sham weights (``fathom kgc pretrain
        --sham``); only what it knows beyond that is memory of the answers.
    :param seconds: of training per cell.
    :param limit: number of test triples; None for all.
    :param seed: of worlds, of the selection of triples, and of training without *seeds*.
    :param seeds: of training; each cell is trained with each.
    :param relax: if the names of relations cannot all be exchanged (FB15k-237), exchange as many as possible.
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
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(listed), AfterValidator(_check_unique)] = ()
    relax: bool = False

    @property
    def trainings(self) -> tuple[int | None, ...]:
        """Seeds of training, as in :class:`Cell`."""
        return tuple(None if seed == self.seed else seed for seed in self.seeds or (self.seed,))

    def owner(self, model: str, init: str) -> str:
        """Return the model whose cells *model* uses for these weights: itself, or its ``random_from``."""
        donor = self.models[model].random_from
        return donor if init == "random" and donor is not None else model


class Cell(NamedTuple):
    """One training and its run.

    :param init: "" for kinds without initial weights.
    :param seed: of its training; None for the study's own, so that a study can add seeds later.
    """

    model: str
    init: str
    world: str
    seed: int | None = None

    def folder(self, out: Path) -> Path:
        """Return the folder of the cell. :param out: folder of the study."""
        cells = "cells" if self.seed is None else f"cells-{self.seed}"
        return out / cells / self.model / (self.init or "only") / self.world

    def model_folder(self, out: Path) -> Path:
        """Return the folder of the link predictor. :param out: folder of the study."""
        return self.folder(out) / "model"

    def __str__(self) -> str:
        seed = "" if self.seed is None else f"seed {self.seed}"
        return " ".join(filter(None, (self.model, self.init, self.world, seed)))


class CellState(NamedTuple):
    """The state of a cell.

    :param run: the finished run, if any.
    :param failed: why the cell failed; "" if it has not.
    """

    cell: Cell
    run: RunFolder | None
    failed: str


def check_model(model: ModelPlan, plan: StudyPlan) -> None:
    """:raises BadInput: an unknown kind, option or language model."""
    kind = find(model.model)
    options = options_of(model, plan, INITS[0])
    if plan.seeds and "seed" in model.options:
        raise BadInput("seed: the seeds of the study apply: leave it out")
    unknown = sorted(model.asking.keys() - kind.options.asking())
    if unknown:
        can = ", ".join(sorted(kind.options.asking())) or "nothing"
        raise BadInput(f"asking: unknown option {', '.join(unknown)} of a {kind.name} model; expected one of {can}")
    parse_options(kind.options, {**options.model_dump(), **model.asking})
    kind.load().check(options)


def options_of(model: ModelPlan, plan: StudyPlan, init: str, seed: int | None = None) -> Any:
    """Return the options of a cell. :param seed: as in :class:`Cell`. :raises BadInput: unknown options."""
    kind = find(model.model)
    given: Json = {"seed": plan.seed if seed is None else seed, **model.options}
    if "init" in kind.options.model_fields:
        given["init"] = init
    seconds = model.seconds or plan.seconds
    if seconds is not None:
        given.setdefault("seconds", seconds)
    return kind.parse(model.model, given)


def cells_of(plan: StudyPlan) -> list[Cell]:
    """Return all cells, by seed and world, so that first results can be compared early."""
    return [
        Cell(name, init, world, seed)
        for seed, world, (name, model) in product(plan.trainings, plan.worlds, plan.models.items())
        for init in (model.init if "init" in find(model.model).options.model_fields else ("",))
        if (model.worlds is None or world in model.worlds) and plan.owner(name, init) == name
    ]

"""The content of PLAN.yaml, and its faults with their lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fathom.data.selection.options import Words
from fathom.errors import BadInput, alike
from fathom.options import Given, Seed, read_yaml, separated
from fathom.reading import shown, yaml_lines

Content = TypeVar("Content", bound=BaseModel)
Where = tuple[str, ...]
"""Path of a key in the file."""


MESSAGES = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "expected a mapping, key: value"),
    "tuple_type": "expected a name or a list of names",
    "string_type": "expected text",
    "too_short": "expected one or more",
}
"""Kinds of pydantic's faults, in words."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def options(self) -> Given:
        """The keys that are options of a probe or study."""
        return {name.replace("-", "_"): value for name, value in (self.model_extra or {}).items()}


class PlannedModel(_Part):
    """A model, with options of all its runs."""

    model: str


class PlannedData(_Part):
    """A data set, with options of all its runs.

    :param worlds: worlds of the graph in which link predictors are trained; without any, the graph itself.
    :param relax: if the names of relations cannot all be exchanged (FB15k-237), exchange as many as possible.
    :param seed: of its worlds, and of its runs.
    """

    data: str
    worlds: Words = ()
    relax: bool = False
    seed: Seed | None = None

    @property
    def options(self) -> Given:
        """The keys that are options of a probe or of a predictor."""
        return super().options | ({} if self.seed is None else {"seed": self.seed})


class RunsPart(_Part):
    """Runs of a probe: each model × each data set × each combination of the matrix.

    Or of a link predictor: each world × pre-trained and random weights × each combination of the matrix.

    :param predictor: a kind of link predictor, as in ``fathom kgc train --model``, instead of a probe.
    :param random_from: other runs of the same shape and tokenizer, whose random weights a predictor shares.
    :param asking: options of a predictor that its evaluation changes.
    :param data: data sets, or single worlds such as ``graph/base``.
    :param exclusive: whether their time is measured: they are never shared or resumed, and run alone.
    :param repeats: runs of each combination; more than one only if exclusive, as others would be equal.
    """

    probe: str = ""
    predictor: str = ""
    random_from: str = ""
    asking: Given = {}
    models: Words = ()
    data: Words = ()
    matrix: dict[str, Annotated[list[Any], BeforeValidator(_listed), Field(min_length=1)]] = {}
    exclusive: bool = False
    repeats: int = Field(1, ge=1, le=1000)


class StudyPart(_Part):
    """A study of some runs.

    :param study: by default the one of the same name as the part.
    :param each: parts of the runs' names by which it is repeated.
    :param models: of a study that makes its runs itself; by default all.
    :param data: likewise; it is repeated for each.
    """

    study: str = ""
    models: Words = ()
    data: Words = ()
    runs: Annotated[tuple[str, ...], BeforeValidator(separated), Field(min_length=1)] = ("*",)
    each: Words = ()


class PlanContent(BaseModel):
    """The content of PLAN.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    models: dict[str, PlannedModel] = {}
    data: dict[str, PlannedData] = Field(min_length=1)
    runs: dict[str, RunsPart] = {}
    studies: dict[str, StudyPart] = {}


@dataclass
class PlanFaults:
    """Faults of a plan, each with its line."""

    file: Path
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.positions = yaml_lines(self.file)

    def add(self, where: Where, text: str) -> None:
        """Add a fault, once. :param where: path of the key; the longest part of it that the file has gives the line."""
        line = f"{self.place(where)}: {text}"
        if line not in self.lines:
            self.lines.append(line)

    def place(self, where: Where) -> str:
        """Return file, line and key."""
        ways = [where[:end] for end in range(len(where), 0, -1)]
        dashed = [(*way[:-1], way[-1].replace("_", "-")) for way in ways]
        known = next((one for pair in zip(ways, dashed, strict=True) for one in pair if one in self.positions), ())
        line = f":{self.positions[known]}" if known else ""
        return f"{self.file}{line}: {'.'.join(where)}"

    def add_invalid(self, error: ValidationError, keys: Iterable[str]) -> None:
        """Add all faults that pydantic has found. :param keys: of the file."""
        for fault in error.errors():
            where = tuple(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                self.add(where, f"unknown key; {closest(where[-1], keys)}")
            elif fault["type"] in MESSAGES:
                self.add(where, f"{MESSAGES[fault['type']]}, found {shown(fault['input'])}")
            elif fault["type"] == "missing":
                self.add(where, "this key is missing")
            else:
                self.add(where, f"{fault['msg'].removeprefix('Value error, ')}, found {str(fault['input'])[:60]!r}")

    def stop_if_any(self) -> None:
        """:raises BadInput: with all faults."""
        if self.lines:
            raise BadInput(self.lines)


def closest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name most similar to *name*, or list them all."""
    names = list(known)
    like = alike(name, names, 1)
    return f"did you mean {like[0]}?" if like else f"expected one of {', '.join(names)}"


def read_content(file: Path) -> tuple[PlanContent, PlanFaults]:
    """Read a plan, whose names are still to be checked. :raises BadInput: everything that is no plan."""
    content, faults = _in_full(read_yaml(file)), PlanFaults(file)
    if not content.get("runs") and not content.get("studies"):
        raise BadInput(f"{file}: expected runs: or studies: to make")
    return parse_content(PlanContent, content, faults), faults


def parse_content(kind: type[Content], content: Given, faults: PlanFaults) -> Content:
    """Parse what a file contains. :raises BadInput: with all faults and their lines."""
    try:
        return kind(**content)
    except ValidationError as error:
        faults.add_invalid(error, kind.model_fields)
        raise BadInput(faults.lines) from error


def _in_full(content: Given) -> Given:
    """Write ``gpt2: gpt2`` and ``[gpt2]`` in full, ``gpt2: {model: gpt2}``."""
    full = dict(content)
    for section, key in (("models", "model"), ("data", "data"), ("studies", "study")):
        parts = content.get(section)
        if isinstance(parts, list) and all(isinstance(name, str) for name in parts):
            parts = {name: name for name in parts}
        if isinstance(parts, dict):
            full[section] = {
                str(name): {key: part} if isinstance(part, str) else part or {} for name, part in parts.items()
            }
    return full


def with_paths(kind: type[BaseModel], given: Given, base: Path) -> Given:
    """Return options in which those that are paths are relative to the file's folder."""
    paths = {
        name: path_from(value, base)
        for name, value in given.items()
        if isinstance(value, str) and name in kind.model_fields
        if Path in (kind.model_fields[name].annotation, *get_args(kind.model_fields[name].annotation))
    }
    return given | paths


def path_from(place: str, base: Path) -> str:
    """Return a path relative to the file's folder as one from here; leave names of models and data sets."""
    return str(base / place) if (base / place).exists() else place

"""The content of PLAN.yaml, and its faults with their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fathom.base.errors import BadInput
from fathom.base.options import Given, Seed, nearest, options_of, read_yaml, separated
from fathom.base.reading import shown, yaml_lines
from fathom.base.rights import missing_right
from fathom.data.selection.options import Words
from fathom.plans.kinds import KINDS, Kind

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


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def further(self) -> Given:
        """The keys besides those of this class."""
        return {name.replace("-", "_"): value for name, value in (self.model_extra or {}).items()}

    @property
    def options(self) -> Given:
        """The keys that are options of a probe or study."""
        return self.further


class PlannedModel(_Part):
    """A model, with options of all its runs."""

    model: str


class PaperData(BaseModel):
    """The size of the data that a paper evaluated; None where that is unknown.

    :param candidates: of all distinct candidate sets together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    facts: int | None
    candidates: int | None


class PlannedData(_Part):
    """A data set, with options of all its runs. :param paper: numbers of data of another size are not compared."""

    data: str
    paper: PaperData | None = None
    seed: Seed | None = None

    @property
    def options(self) -> Given:
        """The keys that are options of its runs, without those that a :class:`kind <fathom.plans.kinds.Kind>` adds."""
        added = {key for kind in KINDS.entries() for key in kind.data.model_fields}
        options = {key: value for key, value in self.further.items() if key not in added}
        return options | ({} if self.seed is None else {"seed": self.seed})


Values = Annotated[
    list[Any], BeforeValidator(lambda value: value if isinstance(value, list) else [value]), Field(min_length=1)
]
Patterns = Annotated[tuple[str, ...], BeforeValidator(separated), Field(min_length=1)]
"""Names of runs, first parts of names, or patterns with ``*``."""


class RunsPart(_Part):
    """Runs of a probe: each model × each data set × each combination of the matrix. Or of another :attr:`kind`.

    :param repeats: runs of each combination; more than one only if exclusive, as others would be equal.
    """

    probe: str = ""
    models: Words = ()
    data: Words = ()
    matrix: dict[str, Values] = {}
    exclusive: bool = False
    repeats: int = Field(1, ge=1, le=1000)

    @property
    def kind(self) -> Kind | None:
        """The kind of these runs, by its key; None for runs of a probe."""
        return next((kind for kind in KINDS.entries() if kind.name in self.further), None)

    @property
    def options(self) -> Given:
        """The keys that are options of the runs."""
        kind_keys = set() if self.kind is None else self.kind.part.model_fields.keys()
        return {key: value for key, value in self.further.items() if key not in kind_keys}


class StudyPart(_Part):
    """A study of some runs.

    :param study: by default the one of the same name as the part.
    :param each: parts of the runs' names by which it is repeated.
    :param models: of a study that makes its runs itself; by default all.
    :param data: likewise; it is repeated for each.
    :param needs: data without which a preset leaves it out.
    """

    study: str = ""
    models: Words = ()
    data: Words = ()
    runs: Patterns = ("*",)
    each: Words = ()
    needs: Words = ()


class _SomeRuns(BaseModel):
    """:param scoring: of runs that have several. :param only: part of the facts, such as "cardinality:1:1"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: Patterns = ("*",)
    scoring: str = ""
    only: str = ""


class ColumnPart(_SomeRuns):
    """A column of a table of runs, or one for each metric and each value of ``each``.

    :param metrics: as in ``fathom metrics``; "place" is the place among the rows by the metrics before it.
    :param each: part of the runs' names, or key of the facts such as relation, that makes several columns.
    :param spread: whether the standard deviation over the templates is added.
    """

    metrics: Words = ("accuracy",)
    each: str = ""
    spread: bool = False


class TablePart(BaseModel):
    """A table or figure of a paper. It has columns, or is made of a study, of data sets, or of wrong answers.

    :param rows: what a row is: parts of the runs' names, or keys of the facts such as relation and template.
    :param about: further columns on the model.
    :param order: column by which rows are sorted, the greatest first.
    :param complete: whether rows with an empty cell are left out; a preset leaves it out without one of its columns.
    :param form: display format, such as ".2%"; by default that of each metric.
    :param statistics: of data sets: totals, relations, answers of several tokens, or what a graph reveals by itself.
    :param wrong: number of the most confident wrong answers of each run. :param scoring: whose.
    :param title: first words of the tables to take.
    :param tolerance: greatest difference from the paper's value at which a number agrees; less in proportion below
        5 %.
    :param relative: likewise, as a share of the paper's value.
    :param chance: what random answers score; by default computed for columns of runs, else unknown.
    :param notes: on what differs from the paper. :param needs: as of studies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    caption: str
    columns: dict[str, ColumnPart] = {}
    rows: Words = ("model",)
    about: tuple[Literal["type", "parameters"], ...] = ()
    order: str = ""
    complete: bool = False
    average: bool = False
    random: bool = False
    form: str = ""
    study: str = ""
    statistics: Literal["", "totals", "relations", "tokens", "leakage"] = ""
    data: Words = ()
    wrong: int = Field(0, ge=0)
    scoring: str = ""
    runs: Patterns = ("*",)
    title: str = ""
    keep: Words = ()
    tolerance: float = Field(0.0, ge=0)
    relative: float = Field(0.0, ge=0)
    chance: float | None = None
    notes: tuple[str, ...] = ()
    needs: Words = ()


FACT = "fact"


class SidePart(_SomeRuns):
    """Runs on one side of a claim. :param models: those of a kind, or the largest or smallest; by default all."""

    models: Literal["", "causal", "masked", "seq2seq", "largest", "smallest"] = ""


class ClaimPart(BaseModel):
    """A sentence of a paper that compares runs.

    :param where: section, or table, of the paper.
    :param metric: as in ``fathom metrics``, or one of :mod:`fathom.plans.claims`.
    :param direction: that of the first side, against the second, if the claim holds.
    :param by: what is paired: facts, or values of a key such as relation.
    :param ratio: largest ratio of the sizes of two models that are compared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sentence: str
    where: str
    metric: str = "accuracy"
    direction: Literal["higher", "lower"]
    first: SidePart
    second: SidePart
    by: str = FACT
    ratio: float | None = Field(None, ge=1)


class PlanContent(BaseModel):
    """The content of PLAN.yaml.

    :param values: file of the paper's own values.
    :param missing: data that a preset needs and that are not here, a line each. :param skipped: runs without models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    models: dict[str, PlannedModel] = {}
    data: dict[str, PlannedData] = Field(min_length=1)
    runs: dict[str, RunsPart] = {}
    studies: dict[str, StudyPart] = {}
    tables: dict[str, TablePart] = {}
    claims: dict[str, ClaimPart] = {}
    values: str = ""
    missing: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether studies and tables may name runs and data that are not there."""
        return bool(self.missing or self.skipped)


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

    def add_at(self, section: str, part: str, key: str, text: str) -> None:
        """Add a fault of a key of a part of a section; "" for the part itself, "columns.NAME" for a column."""
        self.add((section, part, *filter(None, key.split(".", 1))), text)

    def place(self, where: Where) -> str:
        """Return file, line and key."""
        ways = [where[:end] for end in range(len(where), 0, -1)]
        dashed = [(*way[:-1], way[-1].replace("_", "-")) for way in ways]
        found = next((way for pair in zip(ways, dashed, strict=True) for way in pair if way in self.positions), ())
        line = f":{self.positions[found]}" if found else ""
        return f"{self.file}{line}: {'.'.join(where)}"

    def add_invalid(self, error: ValidationError, keys: Iterable[str], part: Where = ()) -> None:
        """Add all faults that pydantic has found. :param keys: of the file, or of a *part* of it."""
        for fault in error.errors():
            where = (*part, *map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                hint = f"; {nearest(where[-1], keys)}" if len(where) == len(part) + 1 else ""
                self.add(where, f"unknown key{hint}")
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


def read_content(file: Path, typed: Given) -> tuple[PlanContent, PlanFaults]:
    """Read a plan, whose names are still to be checked.

    :param typed: the rights that were typed (:mod:`fathom.base.rights`).
    :raises BadInput: everything that is no plan.
    """
    content, faults = in_full(read_yaml(file)), PlanFaults(file)
    _check_parts(content, typed, faults)
    if not any(content.get(name) for name in ("runs", "studies", "tables", "missing")):
        raise BadInput(f"{file}: expected runs: or studies: to make")
    try:
        return PlanContent(**content), faults
    except ValidationError as error:
        faults.add_invalid(error, PlanContent.model_fields)
        raise BadInput(faults.lines) from error


def _check_parts(content: Given, typed: Given, faults: PlanFaults) -> None:
    """Refuse rights, and options that are given twice, once with a dash."""
    for section in ("models", "data", "runs", "studies"):
        parts = content.get(section)
        for name, part in parts.items() if isinstance(parts, dict) else ():
            first: dict[Where, str] = {}
            for where, value in _values_in(part, (section, str(name))):
                key = where[-1]
                if first.setdefault((*where[:-1], key.replace("-", "_")), key) != key:
                    faults.add(where, "the option is given twice, with and without a dash: remove one of the two")
                for each in value if isinstance(value, list) else [value]:
                    if fault := missing_right(key, each, typed, "--allow-server"):
                        faults.add(where, fault)


def _values_in(part: object, where: Where) -> Iterator[tuple[Where, Any]]:
    """Yield the values of all keys of a part, each with its path."""
    for key, value in part.items() if isinstance(part, dict) else ():
        yield (*where, str(key)), value
        yield from _values_in(value, (*where, str(key)))


def parse_added(kind: type[Content], part: _Part, where: Where, faults: PlanFaults) -> Content | None:
    """Parse the keys that a kind of runs adds to a part; None, with faults, if some are wrong."""
    added = {key: value for key, value in part.further.items() if key in kind.model_fields}
    try:
        return options_of(kind, added)
    except ValidationError as error:
        faults.add_invalid(error, kind.model_fields, where)
        return None


def pick(section: str, planned: Mapping[str, object], wanted: Sequence[str], add: Callable[[str], None]) -> list[str]:
    """Return the models or data sets that a part names, else all. :param add: called with a fault for each missing."""
    for name in wanted:
        if name not in planned:
            add(f"no '{name}' under {section}; {nearest(name, planned)}")
    return [name for name in wanted or planned if name in planned]


def in_full(content: Given) -> Given:
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


def with_paths(kind: type[BaseModel], options: Given, base: Path) -> Given:
    """Return options in which those that are paths are relative to the file's folder."""
    paths = {
        name: path_from(value, base)
        for name, value in options.items()
        if isinstance(value, str) and name in kind.model_fields
        if Path in (kind.model_fields[name].annotation, *get_args(kind.model_fields[name].annotation))
    }
    return options | paths


def path_from(place: str, base: Path) -> str:
    """Return a path relative to the file's folder as one from here; leave names of models and data sets."""
    return str(base / place) if (base / place).exists() else place


def absolute(name: str) -> str:
    """Return an existing path as an absolute one; leave names of models and data sets."""
    return str(Path(name).absolute()) if Path(name).exists() else name

"""PLAN.yaml: models, data sets, runs and the studies of them, checked before anything runs; see docs/howto/plans.md.

A run is named ``RUN/MODEL/DATA`` and the values of its matrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from fathom.base.errors import BadInput, alike, refuse
from fathom.base.options import Given, Options, nearest, option_faults, options_of
from fathom.base.reading import shown
from fathom.data.formats import locate
from fathom.plans.claims import PlannedClaim, plan_claims
from fathom.plans.content import (
    PlanContent,
    PlanFaults,
    RunsPart,
    Where,
    absolute,
    path_from,
    pick,
    read_content,
    with_paths,
)
from fathom.plans.kinds import KINDS
from fathom.plans.options import PlanRights
from fathom.plans.steps import PlannedStep, ProbeStep, Step
from fathom.plans.studies import PlannedStudy, plan_studies
from fathom.plans.tables import PlannedTable, plan_tables
from fathom.probes import PROBES, Entry

_NAME = re.compile(r"[\w-][\w.-]{0,99}")

FOR_ALL = ("part", "engine")
"""Options of the whole plan, which its runs cannot have."""


class Plan(NamedTuple):
    """A checked plan.

    :param missing: data that are not here. :param skipped: what no model is for; a line each.
    :param is_part: whether it makes some of its tables alone.
    """

    file: Path
    title: str
    runs: list[PlannedStep]
    studies: list[PlannedStudy]
    tables: list[PlannedTable]
    claims: Sequence[PlannedClaim] = ()
    missing: Sequence[str] = ()
    skipped: Sequence[str] = ()
    is_part: bool = False

    def only(self, names: Sequence[str]) -> Plan:
        """Return the part that makes some tables. :raises BadInput: a table that it cannot make."""
        by_name = {table.name: table for table in self.tables}
        unknown = [f"--only {name}: {nearest(name, by_name)}" for name in names if name not in by_name]
        refuse([*unknown, *self.missing] if unknown else ())
        tables = [by_name[name] for name in names]
        needed = {table.part.study for table in tables}
        studies = [study for study in self.studies if needed & {study.study.name, study.name.partition("/")[0]}]
        runs = {run for table in tables for runs in table.runs.values() for run in runs}
        runs.update(run for study in studies for run in study.runs)
        made = [run for run in self.runs if run.name in runs]
        return self._replace(
            runs=made, studies=studies, tables=tables, claims=(), missing=(), skipped=self.missing, is_part=True
        )

    @property
    def steps(self) -> list[Step]:
        """The distinct steps, those of one model after each other."""
        steps = list({id(run.step): run.step for run in self.runs}.values())
        order = list(dict.fromkeys(step.model for step in steps))
        return sorted(steps, key=lambda step: order.index(step.model))


def read_plan(file: Path, out: Path, rights: PlanRights = PlanRights()) -> Plan:
    """Read and check a plan.

    :param out: folder of its runs.
    :param rights: those that it may ask for.
    :raises BadInput: everything that is wrong with it.
    """
    content, faults = read_content(file, rights.typed())
    _check_names(content, faults)
    runs = PlannedRuns(content, file.parent, out, faults).all()
    studies = plan_studies(content, runs, file.parent, faults)
    tables = plan_tables(
        content,
        runs,
        {name for study in studies for name in (study.study.name, study.name.partition("/")[0])},
        file.parent,
        faults,
    )
    claims = plan_claims(content, runs, faults)
    faults.stop_if_any()
    made = {table.name for table in tables}
    lacking = ", ".join(name for name in content.tables if name not in made)
    skipped = [*content.skipped, *([f"without runs or data, left out: {lacking}"] if lacking else [])]
    return Plan(file, content.title or file.stem, runs, studies, tables, claims, content.missing, skipped)


def _check_names(content: PlanContent, faults: PlanFaults) -> None:
    for section in ("models", "data", "runs", "studies", "tables"):
        for name in getattr(content, section):
            if not _NAME.fullmatch(name):
                faults.add((section, name), "a name becomes a folder: give up to 100 letters, digits, '-', '_' or '.'")
    for name, part in content.runs.items():
        if part.repeats > 1 and not part.exclusive:
            faults.add(("runs", name, "repeats"), "equal runs have equal numbers: add exclusive: true to measure times")


ADDED = "add_candidates"
"""The option that may name data of the plan."""


class PlannedRuns:
    """The runs of a plan, expanded. :param base: folder of the file, to which paths are relative."""

    def __init__(self, content: PlanContent, base: Path, out: Path, faults: PlanFaults) -> None:
        self.content, self.base, self.out, self.faults = content, base, out, faults
        # Absolute, so that a study finds the design of a planted model from wherever it runs.
        self.models = {name: absolute(path_from(part.model, base)) for name, part in content.models.items()}
        self.data = {name: path_from(part.data, base) for name, part in content.data.items()}
        self.shared: dict[str, Step] = {}
        for name, place in self.data.items():
            try:
                locate(place)
            except BadInput as error:
                faults.add(("data", name), str(error))

    def all(self) -> list[PlannedStep]:
        """Return all runs, in the order of the file."""
        runs: dict[str, PlannedStep] = {}
        for kind in KINDS.entries():
            kind.check(self)
        for name, part in self.content.runs.items():
            for run in self._of_probe(name, part) if part.kind is None else part.kind.runs(self, name, part):
                if runs.setdefault(run.name, run) is not run:
                    self.faults.add(("runs", name), f"two runs would write to {run.name}: drop one of the values")
        return list(runs.values())

    def _of_probe(self, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        entry, models, data = self._entry(name, part), self._chosen(name, "models"), self._chosen(name, "data")
        for kind in KINDS.entries():
            for key in (key for key in kind.part.model_fields if key in part.options):
                self.faults.add(("runs", name, key), f"it is for runs with {kind.name}: instead of probe:")
        if entry is not None and not (models and data):
            self._options(entry, [(("runs", name), part.options)])
        for model, source in product(models, data):
            for values, repeat in product(combinations(part.matrix), range(part.repeats)):
                run = None if entry is None else self._run(name, entry, model, source, values, repeat)
                if run is not None:
                    yield run

    def _entry(self, name: str, part: RunsPart) -> Entry | None:
        """Return the probe of some runs; None, with a fault, if no probe of language models has this name."""
        entry, kinds = PROBES.get(part.probe), ["probe", *(kind.name for kind in KINDS.entries())]
        if not part.probe and (key := next((key for key in part.further if alike(key, kinds)), None)):
            self.faults.add(("runs", name, key), f"unknown key; {nearest(key, kinds)}")
            return None
        if entry is None or entry.needs != "language model":
            probes = [entry.name for entry in PROBES.entries() if entry.needs == "language model"]
            self.faults.add(("runs", name, "probe"), f"no probe '{part.probe}'; {nearest(part.probe, probes)}")
            return None
        return entry

    def _chosen(self, name: str, section: str) -> list[str]:
        """Return the models or data sets of some runs: those that they name, else all."""
        planned, wanted = getattr(self.content, section), getattr(self.content.runs[name], section)
        if not planned:
            self.faults.add(("runs", name), f"these runs need {section}: with one or more")
        return pick(section, planned, wanted, partial(self.faults.add, ("runs", name, section)))

    def _run(self, name: str, entry: Entry, model: str, source: str, values: Given, repeat: int) -> PlannedStep | None:
        """Return one run; None, with faults, if some of its options are wrong."""
        part = self.content.runs[name]
        values_in_name = {key: spelt(value) for key, value in values.items()}
        label = [",".join(f"{key}={value}" for key, value in values_in_name.items())] if values_in_name else []
        label += [f"repeat={repeat + 1}"] if part.repeats > 1 else []
        path = "/".join((name, model, source, *label))
        layers: list[tuple[Where, Given]] = [
            (("models", model), self.content.models[model].options),
            (("data", source), self.content.data[source].options),
            (("runs", name), part.options),
            (("runs", name, "matrix"), values),
        ]
        options = self._options(entry, layers)
        if options is None:
            return None
        named = {"model": self.content.models[model].model, "data": self.content.data[source].data}
        opened = self.models[model], self.data[source]
        step: Step = ProbeStep(self.out, f"runs/{path}", entry.name, *opened, options, part.exclusive, named)
        if not part.exclusive:
            step = self.shared.setdefault(repr(step.identity), step)
        places = {"run": self.faults.place(("runs", name)), "model": self.faults.place(("models", model))}
        return PlannedStep(path, step, {"run": name, "model": model, "data": source} | values_in_name, places)

    def _options(self, entry: Entry, layers: Sequence[tuple[Where, Given]]) -> Any:
        """Return the options of a run, in which later layers win; None, with faults, if some are wrong."""
        merged = {name: value for _, layer in layers for name, value in layer.items()}
        if isinstance(merged.get(ADDED), dict):
            where = next(place for place, layer in reversed(layers) if ADDED in layer)
            merged[ADDED] = self._place_of(merged[ADDED], (*where, ADDED))
        for where, name in ((place, name) for name in FOR_ALL for place, layer in layers if name in layer):
            self.faults.add((*where, name), f"it is for all runs: give --{name} to fathom plan")
        settings = with_paths(entry.options, merged, self.base) | dict.fromkeys(["part"])
        return self.parse(entry.options, f"{entry.name} probe", settings, layers)

    def _place_of(self, named: Given, where: Where) -> str | None:
        """Return where the data of ``{data: NAME}`` lie; None, with a fault, if the plan has none of this name."""
        if named.keys() == {"data"} and named["data"] in self.data:
            return absolute(self.data[named["data"]])
        self.faults.add(where, f"expected a path or {{data: NAME}} of {', '.join(self.data)}, found {shown(named)}")
        return None

    def parse(
        self, kind: type[Options], what: str, settings: Given, layers: Sequence[tuple[Where, Given]]
    ) -> Options | None:
        """Parse options of a run; None, with faults at the last layer that has them, if some are wrong."""
        try:
            return options_of(kind, settings)
        except ValidationError as error:
            for name, fault in option_faults(kind, error):
                where = next((place for place, layer in reversed(layers) if name in layer), ())
                self.faults.add((*where, name), f"{what}: {fault}")
            return None


def combinations(matrix: Mapping[str, list[Any]]) -> list[Given]:
    """Return options for each combination of a matrix's values."""
    names = [name.replace("-", "_") for name in matrix]
    return [dict(zip(names, values, strict=True)) for values in product(*matrix.values())]


def spelt(value: object) -> str:
    """Return a value of a matrix as a part of a folder's name."""
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.%+@-]+", "-", text).strip(".") or "-"

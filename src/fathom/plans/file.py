"""PLAN.yaml: models, data sets, runs and the studies of them, checked before anything runs.

    models:
      gpt2: gpt2                                # a name or folder
      small: {model: models/small, dtype: bfloat16}
    data:
      geo: geography
    runs:
      statement:
        probe: statement
        templates: 0                            # any option of the probe
        matrix: {reduction: [sum, mean]}        # a run for each value
      vectors: {probe: embedding, models: gpt2, shots: 8}
    studies:
      agreement: {runs: [statement/gpt2/geo/reduction=sum, vectors], k: 5}

A run is named ``RUN/MODEL/DATA`` and the values of its matrix. With ``predictor:`` instead of ``probe:``, a link
predictor is trained and evaluated in each world of its data, from pre-trained and from random weights: its runs are
named ``RUN/DATA/WORLD/init=random``. Studies refer to runs by such a name, the first parts of
one, or a pattern with ``*``. With ``each: model`` a study is repeated for the runs of each model; likewise ``data``,
``run``, or an option of the matrix. Studies that make their runs themselves have ``models`` and ``data`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from fathom.building.worlds import parse_variants
from fathom.errors import BadInput
from fathom.formats import locate
from fathom.links import find
from fathom.links.options import LinkOptions
from fathom.options import Given, nearest, option_faults, parse_options
from fathom.plans.content import (
    PlanContent,
    PlanFaults,
    PlannedData,
    RunsPart,
    Where,
    absolute,
    path_from,
    read_content,
    with_paths,
)
from fathom.plans.links import WORLDS, LinkStep, Worlds
from fathom.plans.steps import PlannedStep, ProbeStep, Step
from fathom.plans.studies import PlannedStudy, plan_studies
from fathom.plans.tables import PlannedTable, plan_tables
from fathom.probes import PROBES, Entry

_NAME = re.compile(r"[\w-][\w.-]{0,99}")


FOR_ALL = ("part", "engine")
"""Options of the whole plan, which its runs cannot have."""


class Plan(NamedTuple):
    """A checked plan. :param missing: data that are not here. :param skipped: what no model is for; a line each."""

    file: Path
    title: str
    runs: list[PlannedStep]
    studies: list[PlannedStudy]
    tables: list[PlannedTable]
    missing: Sequence[str] = ()
    skipped: Sequence[str] = ()

    @property
    def steps(self) -> list[Step]:
        """The distinct steps, those of one model after each other."""
        steps = list({id(run.step): run.step for run in self.runs}.values())
        order = list(dict.fromkeys(step.model for step in steps))
        return sorted(steps, key=lambda step: order.index(step.model))


def read_plan(file: Path, out: Path) -> Plan:
    """Read and check a plan. :param out: folder of its runs. :raises BadInput: everything that is wrong with it."""
    content, faults = read_content(file)
    _check_names(content, faults)
    runs = _Runs(content, file.parent, out, faults).all()
    studies = plan_studies(content, runs, file.parent, faults)
    tables = plan_tables(
        content,
        runs,
        {one for study in studies for one in (study.study.name, study.name.partition("/")[0])},
        file.parent,
        faults,
    )
    faults.stop_if_any()
    made = {table.name for table in tables}
    lacking = ", ".join(name for name in content.tables if name not in made)
    skipped = [*content.skipped, *([f"without runs or data, left out: {lacking}"] if lacking else [])]
    return Plan(file, content.title or file.stem, runs, studies, tables, content.missing, skipped)


def _check_names(content: PlanContent, faults: PlanFaults) -> None:
    for section in ("models", "data", "runs", "studies", "tables"):
        for name in getattr(content, section):
            if not _NAME.fullmatch(name):
                faults.add((section, name), "a name becomes a folder: give up to 100 letters, digits, '-', '_' or '.'")
    for name, part in content.runs.items():
        if part.repeats > 1 and not part.exclusive:
            faults.add(("runs", name, "repeats"), "equal runs have equal numbers: add exclusive: true to measure times")


class _Runs:
    """The runs of a plan, expanded.

    :param base: folder of the file, to which paths are relative.
    """

    def __init__(self, content: PlanContent, base: Path, out: Path, faults: PlanFaults) -> None:
        self.content, self.base, self.out, self.faults = content, base, out, faults
        # Absolute, so that a study finds the design of a planted model from wherever it runs.
        self.models = {name: absolute(path_from(part.model, base)) for name, part in content.models.items()}
        self.data = {name: path_from(part.data, base) for name, part in content.data.items()}
        self.shared: dict[str, Step] = {}
        self.checked: set[str] = set()
        self.worlds = {name: self._worlds(name, part) for name, part in content.data.items()}
        for name, place in self.data.items():
            try:
                locate(place)
            except BadInput as error:
                faults.add(("data", name), str(error))

    def all(self) -> list[PlannedStep]:
        """Return all runs, in the order of the file."""
        runs: dict[str, PlannedStep] = {}
        for name, part in self.content.runs.items():
            for run in self._of_predictor(name, part) if part.predictor else self._of_probe(name, part):
                if runs.setdefault(run.name, run) is not run:
                    self.faults.add(("runs", name), f"two runs would write to {run.name}: drop one of the values")
        return list(runs.values())

    def _of_probe(self, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        entry, models, data = self._entry(name, part), self._chosen(name, "models"), self._chosen(name, "data")
        for key in ("random_from", "asking"):
            if getattr(part, key):
                self.faults.add(("runs", name, key), "it is for link predictors: give predictor: instead of probe:")
        if entry is not None and not (models and data):
            self._options(entry, [(("runs", name), part.options)])
        for model, source in product(models, data):
            for values, repeat in product(_combinations(part.matrix), range(part.repeats)):
                run = None if entry is None else self._run(name, entry, model, source, values, repeat)
                if run is not None:
                    yield run

    def _of_predictor(self, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        for key in ("probe", "models", "exclusive"):
            if getattr(part, key):
                self.faults.add(("runs", name, key), "it is not for link predictors, which have options of their own")
        if part.random_from and not self._predictor(part.random_from):
            known = filter(self._predictor, self.content.runs)
            text = f"no predictor '{part.random_from}'; {nearest(part.random_from, known)}"
            self.faults.add(("runs", name, "random_from"), text)
            return
        init = find(part.predictor).options.model_fields.get("init")
        inits = {"init": list(get_args(init.annotation))} if init is not None and "init" not in part.options else {}
        for source, world in self._sources(name, part):
            for values in _combinations(inits | part.matrix):
                run = self._link_run(name, source, world, values)
                if run is not None:
                    yield run

    def _predictor(self, name: str) -> str:
        part = self.content.runs.get(name)
        return "" if part is None else part.predictor

    def _sources(self, name: str, part: RunsPart) -> list[tuple[str, str]]:
        """Return data sets and worlds of a predictor; "" for a graph without worlds."""
        all_of = [(source, world) for source, one in self.content.data.items() for world in one.worlds or ("",)]
        if not part.data:
            return all_of
        known = {name: [pair for pair in all_of if pair[0] == name] for name in self.content.data}
        known |= {"/".join(pair): [pair] for pair in all_of if pair[1]}
        for missing in (one for one in part.data if one not in known):
            self.faults.add(("runs", name, "data"), f"no '{missing}' under data; {nearest(missing, known)}")
        return [pair for one in part.data for pair in known.get(one, ())]

    def _worlds(self, name: str, part: PlannedData) -> Worlds | None:
        """Return the worlds of a data set; None without any."""
        if not part.worlds:
            return None
        try:
            parse_variants(part.worlds)
        except BadInput as error:
            self.faults.add(("data", name, "worlds"), str(error))
        return Worlds(self.out / WORLDS / name, self.data[name], part.worlds, part.seed or 0, part.relax)

    def _link_run(self, name: str, source: str, world: str, values: Given) -> PlannedStep | None:
        """Return one run of a predictor; None, with faults, if some of its options are wrong."""
        part, data = self.content.runs[name], self.content.data[source]
        spelt = {key: _spelt(value) for key, value in values.items()}
        path = "/".join(filter(None, (name, source, world, ",".join(f"{key}={value}" for key, value in spelt.items()))))
        if part.random_from and values.get("init", part.options.get("init")) == "random":
            name, part = part.random_from, self.content.runs[part.random_from]
        given = data.options | part.options | values
        asked = {key: value for key, value in data.options.items() if key in LinkOptions.model_fields}
        kind, where = find(part.predictor), ("runs", name)
        own = {key: value for key, value in given.items() if key in kind.options.model_fields or key not in asked}
        weights = {"weights": given["weights"]} if "weights" in given else {}
        own |= {key: path_from(str(place), self.base) for key, place in weights.items()}
        worlds, place = self.worlds[source], Path(self.data[source])
        named = {"data": data.data, "world": world, **weights}
        try:
            step = LinkStep(
                self.out, f"runs/{path}", part.predictor, worlds.folder / world if worlds else place,
                kind.parse(part.predictor, own), part.asking, parse_options(LinkOptions, asked), worlds, named,
            )  # fmt: skip
            checked = repr((part.predictor, {**step.training.model_dump(), "seed": 0}, part.asking))
            if checked not in self.checked:
                step.check()
                self.checked.add(checked)
        except BadInput as error:
            for fault in error.faults:
                self.faults.add(where, fault)
            return None
        shared = self.shared.setdefault(repr(step.identity), step)
        keys = {"run": path.partition("/")[0], "data": source} | ({"world": world} if world else {}) | spelt
        return PlannedStep(path, shared, keys, {"run": self.faults.place(where)})

    def _entry(self, name: str, part: RunsPart) -> Entry | None:
        """Return the probe of some runs; None, with a fault, if no probe of language models has this name."""
        entry = PROBES.get(part.probe)
        if entry is None or entry.needs != "language model":
            probes = [one.name for one in PROBES.entries() if one.needs == "language model"]
            self.faults.add(("runs", name, "probe"), f"no probe '{part.probe}'; {nearest(part.probe, probes)}")
            return None
        return entry

    def _chosen(self, name: str, section: str) -> list[str]:
        """Return the models or data sets of some runs: those that they name, else all."""
        known = getattr(self.content, section)
        if not known:
            self.faults.add(("runs", name), f"these runs need {section}: with one or more")
        wanted = getattr(self.content.runs[name], section) or tuple(known)
        for missing in (one for one in wanted if one not in known):
            self.faults.add(("runs", name, section), f"no '{missing}' under {section}; {nearest(missing, known)}")
        return [one for one in wanted if one in known]

    def _run(self, name: str, entry: Entry, model: str, source: str, values: Given, repeat: int) -> PlannedStep | None:
        """Return one run; None, with faults, if some of its options are wrong."""
        part = self.content.runs[name]
        spelt = {key: _spelt(value) for key, value in values.items()}
        label = [",".join(f"{key}={value}" for key, value in spelt.items())] if spelt else []
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
        return PlannedStep(path, step, {"run": name, "model": model, "data": source} | spelt, places)

    def _options(self, entry: Entry, layers: Sequence[tuple[Where, Given]]) -> Any:
        """Return the options of a run, in which later layers win; None, with faults, if some are wrong."""
        given = {name: value for _, layer in layers for name, value in layer.items()}
        for where, name in ((place, name) for name in FOR_ALL for place, layer in layers if name in layer):
            self.faults.add((*where, name), f"it is for all runs: give --{name} to fathom plan")
        try:
            return entry.options(**with_paths(entry.options, given, self.base) | dict.fromkeys(["part"]))
        except ValidationError as error:
            for name, fault in option_faults(entry.options, error):
                where = next((place for place, layer in reversed(layers) if name in layer), ())
                self.faults.add((*where, name), f"{entry.name} probe: {fault}")
            return None


def _combinations(matrix: Mapping[str, list[Any]]) -> list[Given]:
    names = [name.replace("-", "_") for name in matrix]
    return [dict(zip(names, values, strict=True)) for values in product(*matrix.values())]


def _spelt(value: Any) -> str:
    """Return a value of a matrix as a part of a folder's name."""
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.%+@-]+", "-", text).strip(".") or "-"

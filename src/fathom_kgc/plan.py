"""Runs of link predictors in a plan: each trains a predictor in one world of a graph, then evaluates it there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict

from fathom.base.errors import BadInput
from fathom.base.options import Given, nearest, parse_options
from fathom.base.progress import Progress
from fathom.base.reading import Json, stands
from fathom.data.formats import read
from fathom.data.graph.queries import GraphQuerySet, graph_of, link_queryset
from fathom.data.selection.options import Words
from fathom.plans.content import PlannedData, RunsPart, parse_added, path_from
from fathom.plans.file import PlannedRuns, combinations, spelt
from fathom.plans.steps import Opened, PlannedStep, Step
from fathom_build.worlds import WorldOptions, build_worlds, check_comparable_worlds, parse_variants
from fathom_kgc.entries import LINK_PROBE
from fathom_kgc.links import find
from fathom_kgc.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom_kgc.links.options import LinkOptions, LinkTraining

if TYPE_CHECKING:
    from fathom.probes.run.forecast import Forecaster
    from fathom_kgc.links.forecast import LinkForecast

WORLDS, PREDICTORS = "worlds", "predictors"


class Worlds(NamedTuple):
    """The worlds of one graph of a plan.

    :param relax: if the names of relations cannot all be exchanged (FB15k-237), exchange as many as possible.
    """

    folder: Path
    graph: str
    names: tuple[str, ...]
    seed: int
    relax: bool

    def make(self) -> None:
        """Make those that are missing. :raises BadInput: existing ones are of another graph or seed."""
        source = read(self.graph)
        graph = graph_of(source)
        assert isinstance(source, GraphQuerySet)
        check_comparable_worlds(self.folder, self.names, graph, self.seed)
        if missing := [name for name in self.names if not (self.folder / name).exists()]:
            about = (missing, self.seed, WorldOptions(relax=self.relax))
            build_worlds(graph, self.folder, *about, name=source.name, templates=source.templates, audit=True)


class PredictorPart(BaseModel):
    """Keys of runs of a link predictor: each world × pre-trained and random weights × each combination of the matrix.

    :param predictor: a kind of link predictor, as in ``fathom kgc train``.
    :param random_from: other runs of the same shape and tokenizer, whose random weights it shares.
    :param asking: options of the predictor that its evaluation changes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    predictor: str
    random_from: str = ""
    asking: Given = {}


class WorldsPart(BaseModel):
    """Keys of data that are a graph.

    :param worlds: those in which link predictors are trained, drawn by the seed of the data; without any, the graph.
    :param relax: see :class:`Worlds`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    worlds: Words = ()
    relax: bool = False


class LinkStep(Step):
    """A link predictor, trained and evaluated.

    :ivar kind: of predictor, as in ``fathom kgc train``.
    :ivar data: the graph, or a world of it.
    :ivar training: options of its kind.
    :ivar asking: those that its evaluation changes.
    :ivar options: of its evaluation.
    :ivar worlds: all of its graph; None if it is trained on the graph itself.
    :ivar named: data, world and weights as the plan names them, wherever they are.
    """

    data: Path

    def __init__(
        self,
        out: Path,
        name: str,
        kind: str,
        data: Path,
        training: LinkTraining,
        asking: Given,
        options: LinkOptions,
        worlds: Worlds | None,
        named: Mapping[str, str],
    ) -> None:
        super().__init__(out, name)
        self.kind, self.data, self.training, self.asking, self.options = kind, data, training, asking, options
        self.worlds, self.named = worlds, named

    @property
    def predictor(self) -> Path:
        """The folder of the link predictor."""
        return self.out / PREDICTORS / str(self)

    @property
    def identity(self) -> Json:
        made = {} if self.worlds is None else {"worlds": {"seed": self.worlds.seed, "relax": self.worlds.relax}}
        training = {name: value for name, value in self.training.identity().items() if name not in self.named}
        options = {"training": training, "asking": self.asking, "options": self.options.identity()}
        return {"predictor": self.kind, **self.named, **made, **options}

    @property
    def work(self) -> str:
        alike = {"seed": 0, "init": "random"} if "init" in type(self.training).model_fields else {"seed": 0}
        return repr((self.kind, self._graph, self.training.model_copy(update=alike), self.options))

    @property
    def _graph(self) -> str:
        """The graph itself, as its world may still have to be made."""
        return self.worlds.graph if self.worlds else str(self.data)

    def forecast(self, opened: Opened, forecaster: Forecaster) -> LinkForecast:
        """Estimate the training and the evaluation."""
        from fathom_kgc.links.forecast import forecast_links

        return forecast_links(self.kind, graph_of(opened.data(self._graph)), self.training, self.options)

    def has_begun(self) -> bool:
        """Return whether its training has begun."""
        return stands(self.predictor / MANIFEST)

    def check(self) -> None:
        """Check all options, and that this machine has what the kind of predictor needs."""
        kind = find(self.kind)
        if unknown := sorted(self.asking.keys() - kind.options.asking()):
            can = ", ".join(sorted(kind.options.asking())) or "nothing"
            raise BadInput(f"asking: unknown option {', '.join(unknown)} of a {kind.name} model; expected one of {can}")
        parse_options(kind.options, {**self.training.model_dump(), **self.asking})
        kind.load().check(self.training)

    def make(self, opened: Opened, report: Progress | None = None) -> None:
        """Train and evaluate the predictor, resuming if it was stopped."""
        from fathom.probes.run import RunRequest, run

        data = opened.data(self.data, self.options.columns)
        train_links(self.kind, data, self.training, self.predictor)
        predictor = open_links(self.predictor, data, asking=self.asking)
        # Named by its place in the plan, so that its manifest is the same elsewhere.
        predictor.identity = replace(predictor.identity, name=f"{PREDICTORS}/{self}")
        asked = link_queryset(data, self.options.directions)
        run(RunRequest(LINK_PROBE, predictor, asked, self.options), self.folder, report)

    def clear(self) -> None:
        """Remove a failed training."""
        ended = read_begun(self.predictor)["ended"] if self.has_begun() else None
        if ended is not None and ended.get("failed"):
            shutil.rmtree(self.predictor)

    def remove(self) -> None:
        """Remove the run, then the predictor, whose manifest shows that the step has begun."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.predictor)


class Predictors:
    """Runs with ``predictor:``, see :class:`fathom.plans.kinds.Kind`. Named ``RUN/DATA/WORLD/init=random``."""

    name = "predictor"
    part: type[BaseModel] = PredictorPart
    data: type[BaseModel] = WorldsPart
    folders = frozenset({WORLDS})

    def check(self, plan: PlannedRuns) -> None:
        for name, part in plan.content.data.items():
            added = parse_added(WorldsPart, part, ("data", name), plan.faults)
            if added is not None and added.worlds:
                try:
                    parse_variants(added.worlds)
                except BadInput as error:
                    plan.faults.add(("data", name, "worlds"), str(error))

    def runs(self, plan: PlannedRuns, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        for key in ("probe", "models", "exclusive"):
            if getattr(part, key):
                plan.faults.add(("runs", name, key), "it is not for link predictors, which have options of their own")
        runs = _RunsOfPredictors(plan)
        if name in runs.parts:
            yield from runs.of(name)

    def prepare(self, steps: Sequence[Step]) -> None:
        """Make the worlds of steps. :raises BadInput: existing ones are of another graph or seed."""
        for worlds in dict.fromkeys(step.worlds for step in steps if isinstance(step, LinkStep)):
            if worlds is not None:
                worlds.make()

    def fill(self, name: str, run: Given, models: Mapping[str, Given]) -> dict[str, Given]:
        """Train a predictor from each model; its runs are named after both if there are several."""
        several = len(models) > 1
        return {
            f"{name}-{model}" if several else name: {**run, "weights": given["model"]}
            for model, given in models.items()
        }


class _RunsOfPredictors:
    """The runs of link predictors in a plan, expanded.

    :ivar parts: keys by the name of the runs. :ivar worlds: of each data set.
    """

    def __init__(self, plan: PlannedRuns) -> None:
        self.plan, self.faults, self.content = plan, plan.faults, plan.content
        self.parts: dict[str, PredictorPart] = {}
        for name, part in self.content.runs.items():
            if part.kind is PREDICTORS_OF_PLAN:
                own = parse_added(PredictorPart, part, ("runs", name), self.faults)
                self.parts |= {} if own is None else {name: own}
        self.worlds = {name: self._worlds(name, part) for name, part in self.content.data.items()}
        self.checked: set[str] = set()

    def of(self, name: str) -> Iterator[PlannedStep]:
        """Yield all runs of a name."""
        part, own = self.content.runs[name], self.parts[name]
        others = self.parts.keys() - {name}
        if own.random_from and own.random_from not in others:
            text = f"no other predictor '{own.random_from}'; {nearest(own.random_from, sorted(others))}"
            self.faults.add(("runs", name, "random_from"), text)
            return
        init = find(own.predictor).options.model_fields.get("init")
        inits = {"init": list(get_args(init.annotation))} if init is not None and "init" not in part.options else {}
        for source, world in self._sources(name, part):
            for values in combinations(inits | part.matrix):
                run = self._run(name, source, world, values)
                if run is not None:
                    yield run

    def _sources(self, name: str, part: RunsPart) -> list[tuple[str, str]]:
        """Return data sets and worlds of a predictor; "" for a graph without worlds."""
        all_of = [
            (source, world)
            for source, worlds in self.worlds.items()
            for world in (("",) if worlds is None else worlds.names)
        ]
        if not part.data:
            return all_of
        known = {name: [pair for pair in all_of if pair[0] == name] for name in self.content.data}
        known |= {"/".join(pair): [pair] for pair in all_of if pair[1]}
        for missing in (one for one in part.data if one not in known):
            self.faults.add(("runs", name, "data"), f"no '{missing}' under data; {nearest(missing, known)}")
        return [pair for one in part.data for pair in known.get(one, ())]

    def _worlds(self, name: str, part: PlannedData) -> Worlds | None:
        """Return the worlds of a data set; None without any."""
        added = parse_added(WorldsPart, part, ("data", name), self.faults)
        if added is None or not added.worlds:
            return None
        place = self.plan.out / WORLDS / name
        return Worlds(place, self.plan.data[name], added.worlds, part.seed or 0, added.relax)

    def _run(self, name: str, source: str, world: str, values: Given) -> PlannedStep | None:
        """Return one run of a predictor; None, with faults, if some of its options are wrong."""
        part, own, data = self.content.runs[name], self.parts[name], self.content.data[source]
        values_in_name = {key: spelt(value) for key, value in values.items()}
        label = ",".join(f"{key}={value}" for key, value in values_in_name.items())
        path = "/".join(filter(None, (name, source, world, label)))
        if own.random_from and values.get("init", part.options.get("init")) == "random":
            name = own.random_from
            part, own = self.content.runs[name], self.parts[name]
        given = data.options | part.options | values
        asked = {key: value for key, value in data.options.items() if key in LinkOptions.model_fields}
        kind, where = find(own.predictor), ("runs", name)
        options = {key: value for key, value in given.items() if key in kind.options.model_fields or key not in asked}
        weights = {"weights": given["weights"]} if "weights" in given else {}
        options |= {key: path_from(str(place), self.plan.base) for key, place in weights.items()}
        worlds, place = self.worlds[source], Path(self.plan.data[source])
        named = {"data": data.data, "world": world, **weights}
        try:
            step = LinkStep(
                self.plan.out, f"runs/{path}", own.predictor, worlds.folder / world if worlds else place,
                kind.parse(own.predictor, options), own.asking, parse_options(LinkOptions, asked), worlds, named,
            )  # fmt: skip
            checked = repr((own.predictor, {**step.training.model_dump(), "seed": 0}, own.asking))
            if checked not in self.checked:
                step.check()
                self.checked.add(checked)
        except BadInput as error:
            for fault in error.faults:
                self.faults.add(where, fault)
            return None
        shared = self.plan.shared.setdefault(repr(step.identity), step)
        keys = {"run": path.partition("/")[0], "data": source} | ({"world": world} if world else {}) | values_in_name
        return PlannedStep(path, shared, keys, {"run": self.faults.place(where)})


PREDICTORS_OF_PLAN = Predictors()

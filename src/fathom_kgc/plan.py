"""Runs of link predictors in a plan: each trains a predictor in one world of a graph, then evaluates it there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict

from fathom.base.errors import BadInput
from fathom.base.options import Given, nearest, parse_options
from fathom.base.progress import Progress
from fathom.base.reading import Json, stands
from fathom.data.formats import read
from fathom.data.graph.queries import GraphQuerySet, graph_of, link_queryset
from fathom.data.selection.options import Words
from fathom.plans.content import RunsPart, Where, parse_added, path_from
from fathom.plans.file import PlannedRuns, combinations, spelt
from fathom.plans.steps import Opened, PlannedStep, Step
from fathom_build.worlds import WorldOptions, build_worlds, check_comparable_worlds, parse_variants
from fathom_kgc.entries import LINK_PROBE
from fathom_kgc.links import find
from fathom_kgc.links.base import MANIFEST, open_links, read_begun, train_links
from fathom_kgc.links.options import LinkOptions, LinkTraining

if TYPE_CHECKING:
    from fathom.probes.run.forecast import Forecaster
    from fathom_kgc.links.forecast import LinkForecast

WORLDS, PREDICTORS = "worlds", "predictors"


class Worlds(NamedTuple):
    """The worlds of one graph of a plan.

    :param options: of their construction.
    """

    folder: Path
    graph: str
    names: tuple[str, ...]
    seed: int
    options: WorldOptions

    @property
    def changed(self) -> Given:
        """What the plan says of their construction."""
        sought = {} if self.options.sought == "all" else {"sought": self.options.sought}
        return {"relax": self.options.relax, **sought}

    def make(self) -> None:
        """Make those that are missing. :raises BadInput: existing ones are of another graph or seed."""
        source = read(self.graph)
        graph = graph_of(source)
        assert isinstance(source, GraphQuerySet)
        check_comparable_worlds(self.folder, self.names, graph, self.seed, self.options.sought)
        if missing := [name for name in self.names if not (self.folder / name).exists()]:
            about = (missing, self.seed, self.options)
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
    :param relax: if the names of relations cannot all be exchanged (FB15k-237), exchange as many as possible.
    :param sought: which mentions in descriptions are exchanged: all, or those of the names themselves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    worlds: Words = ()
    relax: bool = False
    sought: Literal["all", "names"] = "all"


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
        made = {} if self.worlds is None else {"worlds": {"seed": self.worlds.seed, **self.worlds.changed}}
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
        server = self.training.model_dump(include={"server"})
        predictor = open_links(self.predictor, data, asking=self.asking | server)
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
        kinds = [part.kind for part in plan.content.runs.values()]
        for name, part in plan.content.data.items():
            added = parse_added(WorldsPart, part, ("data", name), plan.faults)
            if added is None or not added.worlds:
                continue
            if kinds and self not in kinds:
                plan.faults.add(("data", name, "worlds"), "only link predictors read worlds, and no run has predictor:")
            try:
                parse_variants(added.worlds)
            except BadInput as error:
                plan.faults.add(("data", name, "worlds"), str(error))

    def runs(self, plan: PlannedRuns, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        for key in ("probe", "models", "exclusive"):
            if getattr(part, key):
                plan.faults.add(("runs", name, key), "it is not for link predictors, which have options of their own")
        predictor = parse_added(PredictorPart, part, ("runs", name), plan.faults)
        if predictor is None:
            return
        others = [key for key, runs_part in plan.content.runs.items() if runs_part.kind is self and key != name]
        if predictor.random_from and predictor.random_from not in others:
            text = f"no other predictor '{predictor.random_from}'; {nearest(predictor.random_from, others)}"
            plan.faults.add(("runs", name, "random_from"), text)
            return
        init = find(predictor.predictor).options.model_fields.get("init")
        inits = {"init": list(get_args(init.annotation))} if init is not None and "init" not in part.options else {}
        checked: set[str] = set()
        for source, world, worlds in _sources(plan, name, part):
            for values in combinations(inits | part.matrix):
                is_random = values.get("init", part.options.get("init")) == "random"
                made_as = predictor.random_from if predictor.random_from and is_random else name
                step = _step(plan, made_as, source, world, worlds, values, checked)
                if step is not None:
                    in_name = {key: spelt(value) for key, value in values.items()}
                    label = ",".join(f"{key}={value}" for key, value in in_name.items())
                    step.name = f"runs/{'/'.join(filter(None, (name, source, world, label)))}"
                    keys = {"run": name, "data": source} | ({"world": world} if world else {}) | in_name
                    shared = plan.shared.setdefault(repr(step.identity), step)
                    yield PlannedStep(str(step), shared, keys, {"run": plan.faults.place(("runs", made_as))})

    def prepare(self, steps: Sequence[Step]) -> None:
        """Make the worlds of steps. :raises BadInput: existing ones are of another graph or seed."""
        for worlds in dict.fromkeys(step.worlds for step in steps if isinstance(step, LinkStep)):
            if worlds is not None:
                worlds.make()

    def fill(self, name: str, run: Given, models: Mapping[str, Given]) -> dict[str, Given]:
        """Train a predictor from each model; its runs are named after both if there are several."""
        several = len(models) > 1
        return {
            f"{name}-{model}" if several else name: {**run, "weights": options["model"]}
            for model, options in models.items()
        }


def _sources(plan: PlannedRuns, name: str, part: RunsPart) -> list[tuple[str, str, Worlds | None]]:
    """Return data sets and worlds of a predictor; "" for a graph without worlds."""
    by_name: dict[str, list[tuple[str, str, Worlds | None]]] = {}
    for source, data in plan.content.data.items():
        added = parse_added(WorldsPart, data, ("data", source), plan.faults)
        if added is None or not added.worlds:
            by_name[source] = [(source, "", None)]
            continue
        options = WorldOptions(relax=added.relax, sought=added.sought)
        worlds = Worlds(plan.out / WORLDS / source, plan.data[source], added.worlds, data.seed or 0, options)
        by_name[source] = [(source, world, worlds) for world in worlds.names]
    if not part.data:
        return [pair for pairs in by_name.values() for pair in pairs]
    by_name |= {f"{pair[0]}/{pair[1]}": [pair] for pairs in tuple(by_name.values()) for pair in pairs if pair[1]}
    for missing in (wanted for wanted in part.data if wanted not in by_name):
        plan.faults.add(("runs", name, "data"), f"no '{missing}' under data; {nearest(missing, by_name)}")
    return [pair for wanted in part.data for pair in by_name.get(wanted, ())]


def _step(
    plan: PlannedRuns, name: str, source: str, world: str, worlds: Worlds | None, values: Given, checked: set[str]
) -> LinkStep | None:
    """Return the training and evaluation of a predictor; None, with faults, if some of its options are wrong."""
    part, data, where = plan.content.runs[name], plan.content.data[source], ("runs", name)
    predictor = parse_added(PredictorPart, part, where, plan.faults)
    if predictor is None:
        return None
    kind = find(predictor.predictor)
    asked = {key: value for key, value in data.options.items() if key in LinkOptions.model_fields}
    own_fields = kind.options.model_fields
    of_data = {key: value for key, value in data.options.items() if key in own_fields or key not in asked}
    merged = of_data | part.options | values
    weights = {key: value for key, value in merged.items() if key == "weights"}
    layers: list[tuple[Where, Given]] = [
        (where, dict.fromkeys(own_fields)),  # what is missing
        (("data", source), of_data),
        (where, part.options),
        ((*where, "matrix"), values),
    ]
    try:
        merged = kind.complete(predictor.predictor, merged)
    except BadInput as error:
        plan.faults.add((*where, "preset"), str(error))
        return None
    merged |= {key: path_from(str(place), plan.base) for key, place in weights.items()}
    training = plan.parse(kind.options, kind.name, merged, layers)
    options = plan.parse(LinkOptions, "evaluation", asked, [(("data", source), asked)])
    if training is None or options is None:
        return None
    place = worlds.folder / world if worlds else Path(plan.data[source])
    named = {"data": data.data, "world": world, **weights}
    step = LinkStep(plan.out, "", predictor.predictor, place, training, predictor.asking, options, worlds, named)
    key = repr((predictor.predictor, {**training.model_dump(), "seed": 0}, predictor.asking))
    try:
        if key not in checked:
            step.check()
    except BadInput as error:
        for fault in error.faults:
            plan.faults.add(where, fault)
        return None
    checked.add(key)
    return step


PREDICTORS_OF_PLAN = Predictors()

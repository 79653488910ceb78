"""Runs of link predictors in a plan: each trains a predictor in one world of a graph, then evaluates it there."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fathom.building.worlds import WorldOptions, build_worlds, check_comparable_worlds
from fathom.data.graph.queries import GraphQuerySet, graph_of, link_queryset
from fathom.errors import BadInput
from fathom.formats import read
from fathom.links import find
from fathom.links.folder import MANIFEST, open_links, read_begun, train_links
from fathom.links.options import LinkOptions, LinkTraining
from fathom.options import Given, parse_options
from fathom.plans.steps import Opened, Step
from fathom.progress import Progress
from fathom.reading import Json, stands

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


class LinkStep(Step):
    """A link predictor, trained and evaluated.

    :ivar kind: of predictor, as in ``fathom kgc train --model``.
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
        from fathom.run import run

        data = opened.data(self.data, self.options.columns)
        train_links(self.kind, data, self.training, self.predictor)
        predictor = open_links(self.predictor, data, asking=self.asking)
        # Named by its place in the plan, so that its manifest is the same elsewhere.
        predictor.identity = replace(predictor.identity, name=f"{PREDICTORS}/{self}")
        run("link", predictor, link_queryset(data, self.options.directions), self.options, self.folder, report)

    def clear(self) -> None:
        """Remove a failed training."""
        ended = read_begun(self.predictor)["ended"] if self.has_begun() else None
        if ended is not None and ended.get("failed"):
            shutil.rmtree(self.predictor)

    def remove(self) -> None:
        """Remove the run, then the predictor, whose manifest shows that the step has begun."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.predictor)


def make_worlds(steps: Iterable[Step]) -> None:
    """Make the worlds that steps need. :raises BadInput: existing ones are of another graph or seed."""
    for worlds in dict.fromkeys(step.worlds for step in steps if isinstance(step, LinkStep)):
        if worlds is not None:
            worlds.make()

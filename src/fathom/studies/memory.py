"""What a finished grid says: how much of a link predictor's Hits@10 is memory, descriptions, structure.

With H(world, weights) the Hits@10 on the test questions:

- *memory of names*(W) = [H(W, pretrained) − H(W, random)] − [H(anonymised-er, pretrained) − H(anonymised-er, random)],
  W = base in the headline: what pre-trained weights add where the names are the true ones, beyond what they add where
  no name can be remembered;
- *descriptions* = H(anonymised-er, w) − H(fully-anonymised-erd, w), same weights w: what readable descriptions add
  where names say nothing;
- *memory of answers* = H(base, pretrained) − H(base, pretrained from sham weights): what a model
  pre-trained on test triples gains over one pre-trained on as many training triples in the same templates. Memory of
  names includes what any such pre-training is worth, so a model remembers answers only if this is above 0 as well;
- *structure* = H(fully-anonymised-erd, random): what is left where no text means anything.

All differences are per test fact (both directions averaged) and per seed of training, so that their intervals are
paired; with several seeds these hold the noise of training, too. The terms of all models on one metric are one family,
with p values by Holm and simultaneous intervals; so are the gaps, and the contrasts. Hits@10 decides. Figures and
tables are named after those of Sakai et al. (NAACL 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.links.folder import read_curve
from fathom.metrics.descriptive import tukey_fences
from fathom.metrics.table import metric
from fathom.results import pairing
from fathom.results.claims import Claim, Decision, decide, sentences
from fathom.results.claims import Contrast as Needed
from fathom.results.estimates import Estimate, Noise
from fathom.results.facts import RunFacts, Shared
from fathom.results.loading import outcome_of
from fathom.results.rows import Floats, Ints, grouped
from fathom.studies.grid import CellState, read_training
from fathom.studies.grid_plan import INITS, Cell, Init, StudyPlan

BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"
P, R = INITS
NOT_YET = "not yet"
MEMORY_OF_NAMES, MEMORY_OF_ANSWERS = "memory of names ({})", "memory of answers (beyond {})"
NO_CONTROL = "no control: pre-train one with kgc pretrain --sham and name it under controls: in the plan"
METRICS = tuple(map(metric, ("hits@1", "hits@3", "hits@10", "mrr", "mean_rank")))
HITS = "hits@10"
"""The metric that decides."""
Told = tuple[Estimate, Noise]


class Trained(NamedTuple):
    """One training.

    :param hits: Hits@10; None where the cell failed or is to come.
    :param unscored: test facts that are left out.
    :param why: how its training ended, or why it failed, or "not yet".
    :param epochs: of its training.
    :param best_epoch: whose weights were kept.
    :param seconds: of its training.
    """

    cell: Cell
    hits: Estimate | None
    unscored: int
    why: str
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float = 0.0


class Answers(NamedTuple):
    """One model, its weights and its world, with all seeds.

    :param cell: without a seed.
    :param trainings: one for each seed.
    :param numbers: of each metric, over the seeds that are there; none where there is none.
    :param noise: of Hits@10.
    """

    cell: Cell
    trainings: tuple[Trained, ...]
    numbers: Mapping[str, Estimate]
    noise: Noise

    @property
    def hits(self) -> Estimate | None:
        """Hits@10."""
        return self.numbers.get(HITS)

    @property
    def why(self) -> str:
        """How the trainings ended, and how many so where they did not end alike."""
        whys = Counter(one.why for one in self.trainings)
        return next(iter(whys)) if len(whys) == 1 else ", ".join(f"{why} ({count})" for why, count in whys.items())


class Effect(NamedTuple):
    """A sum of cells with signs.

    :param model: its name; "first − second" of a contrast.
    :param name: of the term; the world of a gap or a contrast.
    :param formula: how it is computed, and which cells are missing.
    :param value: None where a cell is missing.
    :param adjusted: its p value by Holm, among the effects of the same kind and metric.
    :param fences: Tukey's, over the model's worlds; of gaps alone.
    :param outlier: whether the gap lies beyond them.
    """

    model: str
    name: str
    value: Estimate | None
    noise: Noise = Noise(0)
    formula: str = ""
    adjusted: float | None = None
    fences: tuple[float, float] | None = None
    outlier: bool = False


class Effects(NamedTuple):
    """All effects on one metric.

    :param terms: of the decomposition.
    :param gaps: pretrained − random in each world.
    :param contrasts: two models, both pretrained, in each world.
    """

    terms: list[Effect]
    gaps: list[Effect]
    contrasts: list[Effect]


class Curve(NamedTuple):
    """Hits@10 on validation.

    :param epochs: after which it was taken, shape [validations].
    :param hits: shape [validations].
    """

    cell: Cell
    epochs: Ints
    hits: Floats
    recipe: str = ""

    @property
    def name(self) -> str:
        """World and weights."""
        return f"{self.cell.world} {self.cell.init}".strip()

    def held(self, epochs: int) -> Floats:
        """After each of so many epochs: the last value known, before the first one that."""
        last = np.searchsorted(self.epochs, np.arange(1, epochs + 1), side="right") - 1
        return np.asarray(self.hits[np.maximum(last, 0)])


@dataclass(frozen=True)
class Memory:
    """Everything the report shows."""

    plan: StudyPlan
    cells: list[Answers]
    effects: Mapping[str, Effects]
    """By metric; those on Hits@10 decide."""
    curves: Mapping[str, list[Curve]]
    """Of each model, by the first of the seeds."""
    decisions: list[Decision] = field(default_factory=list)

    @property
    def terms(self) -> list[Effect]:
        """The decomposition of Hits@10."""
        return self.effects[HITS].terms

    @property
    def gaps(self) -> list[Effect]:
        """What pre-trained weights add to Hits@10 in each world."""
        return self.effects[HITS].gaps

    @property
    def contrasts(self) -> list[Effect]:
        """Differences in Hits@10 between two models."""
        return self.effects[HITS].contrasts


def analyse(plan: StudyPlan, states: Sequence[CellState], out: Path) -> Memory:
    """Take a grid apart.

    :param states: from :func:`fathom.studies.grid.states`.
    :param out: folder of the grid.
    :raises BadInput: no cell is there.
    """
    grid = _Grid(plan, states)
    if not grid.there:
        whys = "; ".join(f"{state.cell}: {state.failed}" for state in states if state.failed)
        raise BadInput(f"no cell of {out} is there to report on" + (f" ({whys})" if whys else ""))
    first = [state.cell for state in states if state.cell.seed == plan.trainings[0]]
    curves = [curve for cell in first if (curve := _curve(cell, out)) is not None]
    cells = grouped((state.cell._replace(seed=None), _trained(state, grid, out)) for state in states)
    effects = {one.name: _effects(plan, grid, one.name) for one in METRICS}
    claims = (_claim(model, plan, effects[HITS].terms) for model in plan.models)
    return Memory(
        plan,
        [Answers(cell, tuple(trainings), *grid.answers(cell)) for cell, trainings in cells.items()],
        {name: Effects(*map(_adjusted, own)) for name, own in effects.items()},
        {model: [curve for curve in curves if curve.cell.model == model] for model in plan.models},
        decide([claim for claim in claims if claim is not None]),
    )


def _effects(plan: StudyPlan, grid: _Grid, metric_name: str) -> Effects:
    """Compute every effect on one metric, without adjustment."""
    return Effects(
        [one for model in plan.models for own in (_terms, _beyond_control) for one in own(model, grid, metric_name)],
        [gap for model in plan.models for gap in _gaps(model, grid, metric_name)],
        [
            Effect(f"{first} − {second}", world, *told)
            for first, second in plan.contrasts
            for world, told in grid.pairs((first, P), (second, P), metric_name)
        ],
    )


def conclude(findings: Memory) -> list[str]:
    """Which models remember answers, as far as their controls allow to say."""
    return sentences(findings.decisions)


def _claim(model: str, plan: StudyPlan, terms: Sequence[Effect]) -> Claim | None:
    """Declare that a model remembers answers: names help it, and beyond a model that read as much without answers."""
    by_name = {term.name: term.value for term in terms if term.model == model}
    if by_name.get(MEMORY_OF_NAMES.format(BASE)) is None:
        return None
    control = plan.controls.get(model)
    missing = NO_CONTROL if control is None else f"no cell of the control {control} in {BASE}"
    contrasts = (
        Needed(MEMORY_OF_NAMES.format(BASE), by_name[MEMORY_OF_NAMES.format(BASE)], 1),
        Needed(f"beyond {control or 'a control'}", by_name.get(MEMORY_OF_ANSWERS.format(control)), 1, missing),
    )
    return Claim(f"{model} remembers answers", contrasts)


def _beyond_control(model: str, grid: _Grid, metric_name: str) -> Iterator[Effect]:
    control = grid.plan.controls.get(model)
    if control is not None:
        cells = [(1, grid.owned(model, P, BASE)), (-1, grid.owned(control, P, BASE))]
        value, noise = grid.summed(cells, metric_name) or (None, Noise(0))
        formula = f"H({BASE}, p) − H({BASE}, p of {control})"
        yield Effect(model, MEMORY_OF_ANSWERS.format(control), value, noise, formula)


class _Grid:
    """What each cell knows of each fact; a model's random cells may be another's."""

    def __init__(self, plan: StudyPlan, found: Sequence[CellState]) -> None:
        self.plan = plan
        self.there: dict[Cell, RunFacts] = {}
        self.failed = {state.cell: state.failed for state in found}
        shared: Shared = {}
        for state in found:
            try:
                if state.run is not None:
                    self.there[state.cell] = outcome_of(state.run, model=state.cell.model).release(METRICS, shared)
            except BadInput as error:
                self.failed[state.cell] = str(error)

    def worlds(self, model: str) -> tuple[str, ...]:
        return self.plan.models[model].worlds or self.plan.worlds

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those that are there with no seed."""
        return [
            cell for cell in cells if not any(cell._replace(seed=seed) in self.there for seed in self.plan.trainings)
        ]

    def owned(self, model: str, init: Init, world: str) -> Cell:
        return Cell(self.plan.owner(model, init), init, world)

    def summed(self, cells: Sequence[tuple[int, Cell]], name: str) -> Told | None:
        """Σ sign · metric over the facts that all ranked and the seeds that all were trained with; None of no seed."""
        trainings = []
        for seed in self.plan.trainings:
            own = [(sign, self.there.get(cell._replace(seed=seed))) for sign, cell in cells]
            there = [(sign, side) for sign, side in own if side is not None]
            trainings += [there] if len(there) == len(own) else []
        if not trainings:
            return None
        wanted = metric(name)
        number, noise = pairing.over_seeds(name, trainings, lambda side: side.values(wanted), wanted.limits)
        form = ".1f" if name == "mean_rank" else ".3f"
        return number.shown(f"{'+' * (len(cells) > 1)}{form}"), noise

    def answers(self, cell: Cell) -> tuple[dict[str, Estimate], Noise]:
        told = {one.name: number for one in METRICS if (number := self.summed([(1, cell)], one.name)) is not None}
        return {name: number for name, (number, _) in told.items()}, told[HITS][1] if told else Noise(0)

    def pairs(self, first: tuple[str, Init], second: tuple[str, Init], metric_name: str) -> Iterator[tuple[str, Told]]:
        """Yield *first* − *second*, each a model and its weights, in each world of the first that has both."""
        for world in self.worlds(first[0]):
            told = self.summed([(1, self.owned(*first, world)), (-1, self.owned(*second, world))], metric_name)
            if told is not None:
                yield world, told


def _adjusted(lines: list[Effect]) -> list[Effect]:
    """Adjust p values by Holm and make the intervals simultaneous, for all lines as one family."""
    claims = [Claim("", (Needed("", line.value, missing="no cell"),)) for line in lines]
    decided = zip(lines, decide(claims), strict=True)
    return [
        line._replace(adjusted=own.p_value, value=line.value and _simultaneous(line.value, own))
        for line, own in decided
    ]


def _simultaneous(value: Estimate, decision: Decision) -> Estimate:
    return value._replace(low=decision.low, high=decision.high) if value.p_value is not None else value


def _trained(state: CellState, grid: _Grid, out: Path) -> Trained:
    outcome, failed = grid.there.get(state.cell), grid.failed[state.cell]
    if outcome is None:
        return Trained(state.cell, None, 0, f"failed: {failed}" if failed else NOT_YET)
    hits = outcome.mean(HITS, outcome.values(metric(HITS)), form=".3f")
    ended = read_training(state.cell.model_folder(out))["ended"]
    trained = Trained(state.cell, hits, len(outcome.left_out), str(ended["why"]), best_epoch=ended.get("epoch"))
    curve = read_curve(state.cell.model_folder(out))
    return trained._replace(epochs=curve[-1]["epoch"], seconds=curve[-1]["seconds"]) if curve else trained


def _terms(model: str, grid: _Grid, metric_name: str) -> Iterator[Effect]:
    if not any(cell.model == model and cell.init for cell in grid.there):
        return
    nothing = f"[H({NAMELESS}, p) − H({NAMELESS}, r)]"
    for world in grid.worlds(model):
        cells: list[tuple[int, Init, str]] = [(1, P, world), (-1, R, world), (-1, P, NAMELESS), (1, R, NAMELESS)]
        formula = f"[H({world}, p) − H({world}, r)] − {nothing}"
        term = _term(model, MEMORY_OF_NAMES.format(world), formula, cells, grid, metric_name)
        # The term is defined for base; with other worlds it is a check, made where their cells are there.
        if world == BASE or (world != NAMELESS and term.value is not None):
            yield term
    for init in INITS:
        formula = f"H({NAMELESS}, {init[0]}) − H({MEANINGLESS}, {init[0]})"
        cells = [(1, init, NAMELESS), (-1, init, MEANINGLESS)]
        yield _term(model, f"descriptions ({init})", formula, cells, grid, metric_name)
    yield _term(model, "structure", f"H({MEANINGLESS}, r)", [(1, R, MEANINGLESS)], grid, metric_name)


def _term(
    model: str, name: str, formula: str, cells: Sequence[tuple[int, Init, str]], grid: _Grid, metric_name: str
) -> Effect:
    """:param cells: sign, weights and world of each."""
    signed = [(sign, grid.owned(model, init, world)) for sign, init, world in cells]
    told = grid.summed(signed, metric_name)
    if told is None:
        lacking = grid.missing([cell for _, cell in signed])
        which = ", ".join(f"{cell.world} {cell.init}" for cell in lacking) or "of one seed for all of them"
        return Effect(model, name, None, formula=f"{formula} (no cell {which})")
    return Effect(model, name, *told, formula)


def _gaps(model: str, grid: _Grid, metric_name: str) -> list[Effect]:
    gaps = dict(grid.pairs((model, P), (model, R), metric_name))
    if not gaps:
        return []
    low, high, outside = tukey_fences([gap.value for gap, _ in gaps.values()])
    return [
        Effect(model, world, *told, fences=(low, high), outlier=outlier)
        for (world, told), outlier in zip(gaps.items(), outside.tolist(), strict=True)
    ]


def _curve(cell: Cell, out: Path) -> Curve | None:
    lines = [line for line in read_curve(cell.model_folder(out)) if "hits@10" in line]
    if not lines:
        return None
    about = read_training(cell.model_folder(out))["identity"]
    data = f"data:{about['data']['name']}@{about['data']['content_hash']}"
    made = f"hits@10|{data}|split:validation|cell:{cell}|fathom:{about['version']}"
    return Curve(cell, np.array([line["epoch"] for line in lines]), np.array([line["hits@10"] for line in lines]), made)


def correlations(curves: Sequence[Curve]) -> Floats:
    """Pearson's r between validation curves, aligned by epoch, shorter ones held at their last value (figure 9).

    :returns: shape [curves, curves]; NaN where a curve does not change.
    """
    held = np.stack([curve.held(longest(curves)) for curve in curves])
    moved = held - held.mean(axis=1, keepdims=True)
    norm = np.sqrt((moved**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = (moved @ moved.T) / np.outer(norm, norm)
    flat = norm < 1e-12
    matrix[flat] = matrix[:, flat] = np.nan
    return np.asarray(np.clip(matrix, -1, 1))


def longest(curves: Sequence[Curve]) -> int:
    """Epochs of the one that ends last."""
    return max(int(curve.epochs[-1]) for curve in curves)

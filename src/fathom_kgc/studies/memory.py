"""The study of memory: how much of a link predictor's Hits@10 is memory, descriptions or structure.

With H(world, weights) the Hits@10 on the test questions:

- *memory of names*(W) = [H(W, pretrained) − H(W, random)] − [H(anonymised-er, pretrained) − H(anonymised-er, random)],
  W = base in the headline;
- *descriptions* = H(anonymised-er, w) − H(fully-anonymised-erd, w), same weights w;
- *memory of answers* = H(base, pretrained) − H(base, pretrained from sham weights). Memory of names includes the
  benefit of any such pre-training, so a model remembers answers only if this is above 0 as well; without such a control
  the study says whether it gains from known names;
- *structure* = H(fully-anonymised-erd, random): the rest, without meaningful text.

Differences are paired by test fact and by seed of training. All claims and effects on one metric are one family (Holm).
Figures and tables are named after those of Sakai et al. (NAACL 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.claims import Claim, Decision, decide, sentences
from fathom.results.claims import Contrast as Needed
from fathom.results.estimates import Estimate, Noise
from fathom.results.facts import RunFacts, Shared, over_seeds
from fathom.results.loading import read_facts
from fathom.results.metrics.ranking import tukey_fences
from fathom.results.metrics.table import metric
from fathom.results.rows import Floats, Ints, grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom_build.worlds import tabulate_audits
from fathom_kgc.links.base import read_begun, read_curve
from fathom_kgc.studies import MemoryOptions

BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"
INITS = P, R = "pretrained", "random"
NOT_YET = "not yet"
MEMORY_OF_NAMES, MEMORY_OF_ANSWERS = "memory of names ({})", "memory of answers (beyond {})"
GAINS = "gains from known names"
STRONGER = "{}: whether it remembers answers needs a control: kgc pretrain --sham, named under controls: in the plan."
METRICS = tuple(map(metric, ("hits@1", "hits@3", "hits@10", "mrr", "mean_rank")))
HITS = "hits@10"
"""The metric that decides."""
Result = tuple[Estimate, Noise]


class Cell(NamedTuple):
    """One training and its run.

    :param model: name of the predictor's runs in the plan.
    :param init: initial weights; "" for kinds without any.
    :param seed: of its training; None for all seeds.
    """

    model: str
    init: str
    world: str
    seed: int | None = None

    def __str__(self) -> str:
        seed = "" if self.seed is None else f"seed {self.seed}"
        return " ".join(filter(None, (self.model, self.init, self.world, seed)))


class CellState(NamedTuple):
    """The state of a cell."""

    cell: Cell
    predictor: Path
    data: Path
    run: RunFolder | None
    failed: str = ""


class CellTraining(NamedTuple):
    """One training.

    :param hits: Hits@10; None if the cell failed or is missing.
    :param unscored: number of test facts without a score.
    :param why: how the training ended, why it failed, or "not yet".
    :param best_epoch: of the weights that were kept.
    """

    cell: Cell
    hits: Estimate | None
    unscored: int
    why: str
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float = 0.0


class CellResult(NamedTuple):
    """One model with its weights in its world, over all seeds.

    :param numbers: of each metric, over the finished seeds; empty without any.
    :param noise: of Hits@10.
    """

    cell: Cell
    trainings: tuple[CellTraining, ...]
    numbers: Mapping[str, Estimate]
    noise: Noise

    @property
    def hits(self) -> Estimate | None:
        return self.numbers.get(HITS)

    @property
    def why(self) -> str:
        """Reasons why the trainings ended, with counts if they differ."""
        whys = Counter(training.why for training in self.trainings)
        return next(iter(whys)) if len(whys) == 1 else ", ".join(f"{why} ({count})" for why, count in whys.items())


class Effect(NamedTuple):
    """A signed sum of cells.

    :param model: its name; "first − second" for a contrast.
    :param name: of the term; the world of a gap or a contrast.
    :param formula: with the missing cells, if any.
    :param value: None if a cell is missing.
    :param adjusted: p value by Holm, among all claims and effects on the metric.
    :param fences: Tukey's, over the model's worlds; of gaps alone.
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

    :param gaps: pretrained − random in each world.
    :param contrasts: two models, both pretrained, in each world.
    """

    terms: list[Effect]
    gaps: list[Effect]
    contrasts: list[Effect]


class Curve(NamedTuple):
    """Hits@10 on validation.

    :param epochs: shape [validations].
    :param hits: shape [validations].
    """

    cell: Cell
    epochs: Ints
    hits: Floats
    recipe: str = ""

    @property
    def name(self) -> str:
        return f"{self.cell.world} {self.cell.init}".strip()

    def held(self, epochs: int) -> Floats:
        """Return the last value at each epoch; before the first value, the first."""
        last = np.searchsorted(self.epochs, np.arange(1, epochs + 1), side="right") - 1
        return np.asarray(self.hits[np.maximum(last, 0)])


@dataclass(frozen=True)
class Memory:
    options: MemoryOptions
    cells: list[CellResult]
    """Without random weights that a model shares with one before."""
    drawn: Mapping[str, list[CellResult]]
    """By model, with shared ones."""
    terms: list[Effect]
    """The decomposition of Hits@10; *gaps* and *contrasts* likewise."""
    gaps: list[Effect]
    contrasts: list[Effect]
    effects: Mapping[str, Effects]
    """By metric; those on Hits@10 decide."""
    curves: Mapping[str, list[Curve]]
    """By model, of the first seed."""
    decisions: list[Decision]
    audits: list[Table]
    """Names of entities that remain in the descriptions of each world."""


def analyse(states: Sequence[CellState], options: MemoryOptions = MemoryOptions()) -> Memory:
    """Analyse the cells of a plan. :raises BadInput: no cell is finished."""
    grid = _Grid(options, states)
    if not grid.runs:
        whys = "; ".join(f"{state.cell}: {state.failed}" for state in states if state.failed)
        raise BadInput("no cell is finished" + (f" ({whys})" if whys else ""))
    by_predictor = {state.predictor: state for state in reversed(states)}
    curves = [
        curve
        for state in states
        if state.cell.seed == grid.seeds[0] and by_predictor[state.predictor] is state
        if (curve := _curve(state)) is not None
    ]
    trained = {state.cell: _trained(state, grid) for state in states}
    cells = {
        cell: CellResult(cell, tuple(trainings), *grid.answers(cell))
        for cell, trainings in grouped(
            (cell._replace(seed=None), training) for cell, training in trained.items()
        ).items()
    }
    effects, decisions = _decide(grid)
    first = {state.cell._replace(seed=None) for state in by_predictor.values()}
    return Memory(
        options,
        sorted(
            (line for cell, line in cells.items() if cell in first),
            key=lambda line: grid.all_worlds.index(line.cell.world),
        ),
        grouped((cell.model, line) for cell, line in cells.items()),
        *effects[HITS],
        effects,
        {model: [curve for curve in curves if curve.cell.model == model] for model in grid.worlds},
        decisions,
        tabulate_audits(states[0].data.parent, grid.all_worlds),
    )


def conclude(findings: Memory) -> list[str]:
    """Return the verdicts, and which models need a control for the stronger one."""
    claimed = {decision.claim.name for decision in findings.decisions}
    without = [STRONGER.format(model) for model in findings.drawn if f"{model} {GAINS}" in claimed]
    return [*sentences(findings.decisions), *without]


def _claim(model: str, controls: Mapping[str, str], terms: Sequence[Effect]) -> Claim | None:
    """Claim that a model remembers answers: names help, and answers help beyond the control.

    Without a control the worlds decide the weaker claim, the paper's: known names help.
    """
    by_name = {term.name: term.value for term in terms if term.model == model}
    name = MEMORY_OF_NAMES.format(BASE)
    if by_name.get(name) is None:
        return None
    of_names, control = Needed(name, by_name[name], 1), controls.get(model)
    if control is None:
        return Claim(f"{model} {GAINS}", (of_names,), family=HITS)
    missing = f"no cell of the control {control} in {BASE}"
    beyond = Needed(f"beyond {control}", by_name.get(MEMORY_OF_ANSWERS.format(control)), 1, missing)
    return Claim(f"{model} remembers answers", (of_names, beyond), family=HITS)


class _Grid:
    """The facts of each cell's run.

    :ivar worlds: of each model.
    """

    def __init__(self, options: MemoryOptions, states: Sequence[CellState]) -> None:
        self.options = options
        self.runs: dict[Cell, RunFacts] = {}
        self.failed = {state.cell: state.failed for state in states}
        self.worlds = {
            model: list(dict.fromkeys(worlds))
            for model, worlds in grouped((state.cell.model, state.cell.world) for state in states).items()
        }
        self.all_worlds = list(dict.fromkeys(state.cell.world for state in states))
        self.seeds = list(dict.fromkeys(state.cell.seed for state in states))
        shared: Shared = {}
        for state in states:
            try:
                if state.run is not None:
                    self.runs[state.cell] = read_facts(state.run, model=state.cell.model).release(METRICS, shared)
            except BadInput as error:
                self.failed[state.cell] = str(error)

    def summed(self, cells: Sequence[tuple[int, Cell]], name: str) -> Result | None:
        """Return Σ sign · metric over the facts and seeds that all cells share; None without a shared seed."""
        trainings = []
        for seed in self.seeds:
            runs = [(sign, self.runs.get(cell._replace(seed=seed))) for sign, cell in cells]
            finished = [(sign, run) for sign, run in runs if run is not None]
            trainings += [finished] if len(finished) == len(runs) else []
        if not trainings:
            return None
        wanted = metric(name)
        number, noise = over_seeds(name, trainings, lambda side: side.values(wanted), wanted.limits)
        form = ".1f" if name == "mean_rank" else ".3f"
        return number.shown(f"{'+' * (len(cells) > 1)}{form}"), noise

    def answers(self, cell: Cell) -> tuple[dict[str, Estimate], Noise]:
        results = {
            measure.name: result
            for measure in METRICS
            if (result := self.summed([(1, cell)], measure.name)) is not None
        }
        return {name: number for name, (number, _) in results.items()}, results[HITS][1] if results else Noise(0)

    def effect(
        self, metric_name: str, model: str, name: str, formula: str, *terms: tuple[int, str, str, str]
    ) -> Effect:
        """:param terms: sign, model, weights and world of each cell."""
        cells = [(sign, Cell(of, init, world)) for sign, of, init, world in terms]
        result = self.summed(cells, metric_name)
        if result is not None:
            return Effect(model, name, *result, formula)
        missing = [cell for _, cell in cells if not any(cell._replace(seed=seed) in self.runs for seed in self.seeds)]
        names = ", ".join(f"{cell.world} {cell.init}" for cell in missing) or "of one seed for all"
        return Effect(model, name, None, formula=f"{formula} (no cell {names})")

    def differences(self, metric_name: str, name: str, first: tuple[str, str], second: tuple[str, str]) -> list[Effect]:
        """Return *first* − *second*, each a model and its weights, in each world of the first that has both."""
        effects = (
            self.effect(metric_name, name, world, "", (1, *first, world), (-1, *second, world))
            for world in self.worlds[first[0]]
        )
        return [effect for effect in effects if effect.value is not None]


def _decide(grid: _Grid) -> tuple[dict[str, Effects], list[Decision]]:
    """Decide the claims, and adjust p values and intervals of all effects; those on each metric are one family."""
    effects = {measure.name: _effects(grid, measure.name) for measure in METRICS}
    models = {("", model, 0): _claim(model, grid.options.controls, effects[HITS].terms) for model in grid.worlds}
    claims: dict[tuple[str, str, int], Claim | None] = dict(models)
    for metric_name, of_metric in effects.items():
        for kind, effects_of_kind in of_metric._asdict().items():
            for number, effect in enumerate(effects_of_kind):
                needed = Needed("effect", effect.value, missing="no cell")
                claims[metric_name, kind, number] = Claim("effect", (needed,), family=metric_name)
    decisions = decide(claims)
    adjusted = {}
    for metric_name, of_metric in effects.items():
        kinds = {
            kind: [
                _adjusted(effect, decisions[metric_name, kind, number]) for number, effect in enumerate(effects_of_kind)
            ]
            for kind, effects_of_kind in of_metric._asdict().items()
        }
        adjusted[metric_name] = Effects(**kinds)
    return adjusted, [decisions[key] for key in models if key in decisions]


def _effects(grid: _Grid, metric_name: str) -> Effects:
    terms = [term for model in grid.worlds for term in _terms(model, grid, metric_name)]
    gaps = [gap for model in grid.worlds for gap in _gaps(model, grid, metric_name)]
    contrasts = [
        contrast
        for first, second in grid.options.contrasts
        for contrast in grid.differences(metric_name, f"{first} − {second}", (first, P), (second, P))
    ]
    return Effects(terms, gaps, contrasts)


def _adjusted(effect: Effect, decision: Decision) -> Effect:
    value = effect.value
    if value is not None and value.p_value is not None:
        value = value._replace(low=decision.low, high=decision.high)
    return effect._replace(adjusted=decision.p_value, value=value)


def _trained(state: CellState, grid: _Grid) -> CellTraining:
    outcome, failed = grid.runs.get(state.cell), grid.failed[state.cell]
    if outcome is None:
        return CellTraining(state.cell, None, 0, f"failed: {failed}" if failed else NOT_YET)
    hits = outcome.mean(HITS, outcome.values(metric(HITS)), form=".3f")
    ended = read_begun(state.predictor)["ended"]
    trained = CellTraining(state.cell, hits, len(outcome.left_out), str(ended["why"]), best_epoch=ended.get("epoch"))
    curve = read_curve(state.predictor)
    return trained._replace(epochs=curve[-1]["epoch"], seconds=curve[-1]["seconds"]) if curve else trained


def _terms(model: str, grid: _Grid, metric_name: str) -> Iterator[Effect]:
    if any(cell.model == model and cell.init for cell in grid.runs):
        for world in grid.worlds[model]:
            formula = f"[H({world}, p) − H({world}, r)] − [H({NAMELESS}, p) − H({NAMELESS}, r)]"
            cells = (1, model, P, world), (-1, model, R, world), (-1, model, P, NAMELESS), (1, model, R, NAMELESS)
            term = grid.effect(metric_name, model, MEMORY_OF_NAMES.format(world), formula, *cells)
            # The term is defined for base; in other worlds it is a check, if their cells are finished.
            if world == BASE or (world != NAMELESS and term.value is not None):
                yield term
        for init in INITS:
            formula = f"H({NAMELESS}, {init[0]}) − H({MEANINGLESS}, {init[0]})"
            described = (1, model, init, NAMELESS), (-1, model, init, MEANINGLESS)
            yield grid.effect(metric_name, model, f"descriptions ({init})", formula, *described)
        yield grid.effect(metric_name, model, "structure", f"H({MEANINGLESS}, r)", (1, model, R, MEANINGLESS))
    if (control := grid.options.controls.get(model)) is not None:
        formula = f"H({BASE}, p) − H({BASE}, p of {control})"
        bases = (1, model, P, BASE), (-1, control, P, BASE)
        yield grid.effect(metric_name, model, MEMORY_OF_ANSWERS.format(control), formula, *bases)


def _gaps(model: str, grid: _Grid, metric_name: str) -> list[Effect]:
    gaps = grid.differences(metric_name, model, (model, P), (model, R))
    # Without the ranks beyond their best answers, some predictors have no mean rank, and so no gap of it.
    values = [gap.value.value for gap in gaps if gap.value is not None and not np.isnan(gap.value.value)]
    if not values:
        return gaps
    low, high = tukey_fences(values)
    return [
        gap._replace(fences=(low, high), outlier=not low <= gap.value.value <= high)
        if gap.value is not None and not np.isnan(gap.value.value)
        else gap
        for gap in gaps
    ]


def _curve(state: CellState) -> Curve | None:
    lines = [line for line in read_curve(state.predictor) if HITS in line]
    if not lines:
        return None
    cell, identity = state.cell, read_begun(state.predictor)["identity"]
    data = f"data:{identity['data']['name']}@{identity['data']['content_hash']}"
    recipe = f"{HITS}|{data}|split:validation|cell:{cell}|fathom:{identity['version']}"
    return Curve(cell, np.array([line["epoch"] for line in lines]), np.array([line[HITS] for line in lines]), recipe)


def correlations(curves: Sequence[Curve]) -> Floats:
    """Return Pearson's r between validation curves, the shorter continued at its last value (figure 9).

    :returns: shape [curves, curves]; NaN for a constant curve.
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
    """Return the number of epochs of the longest curve."""
    return max(int(curve.epochs[-1]) for curve in curves)

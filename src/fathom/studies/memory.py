"""What a finished grid says: how much of a link predictor's Hits@10 is memory, descriptions, structure.

With H(world, weights) the Hits@10 on the test questions:

- *memory of names*(W) = [H(W, pretrained) − H(W, random)] − [H(anonymised-er, pretrained) − H(anonymised-er, random)],
  W = base in the headline: what pre-trained weights add where the names are the true ones, beyond what they add where
  no name can be remembered;
- *descriptions* = H(anonymised-er, w) − H(fully-anonymised-erd, w), same weights w: what readable descriptions add
  where names say nothing;
- *structure* = H(fully-anonymised-erd, random): what is left where no text means anything.

All differences are per test fact (both directions averaged), so that their intervals are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.links.folder import read_curve, read_manifest
from fathom.metrics.bootstrap import Difference, Interval, interval, paired_difference
from fathom.metrics.outliers import tukey_fences
from fathom.results.outcomes import CUTS, Outcome, common_facts, hits_of, outcomes_of, relations_of
from fathom.studies.grid import Cell, State, StudyPlan

Floats = npt.NDArray[np.float64]

TEN = CUTS.index(10)
BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"


class Trained(NamedTuple):
    """One cell. :param hits: Hits@10 with its interval, None where the cell failed or is to come.
    :param why: how its training ended, or why it failed, or "not yet". :param epochs, seconds: of its training."""

    cell: Cell
    hits: Interval | None
    facts: int
    unscored: int
    why: str
    epochs: int
    best_epoch: int | None
    seconds: float


class Term(NamedTuple):
    """One term of the decomposition. :param formula: how it is made. :param value: None where a cell is missing."""

    model: str
    name: str
    formula: str
    value: Difference | None
    facts: int
    missing: str


class Gap(NamedTuple):
    """pretrained − random in one world. :param outlier: by Tukey's fences over the model's worlds."""

    model: str
    world: str
    gap: Difference
    outlier: bool


class Contrast(NamedTuple):
    """first − second, both pretrained, in one world."""

    first: str
    second: str
    world: str
    value: Difference


class Curve(NamedTuple):
    """Hits@10 on validation. :param epochs: after which of them, and :param hits: how much; shape [validations]."""

    cell: Cell
    epochs: npt.NDArray[np.int64]
    hits: Floats

    def held(self, epochs: int) -> Floats:
        """After each of so many epochs: the last value known, before the first one that."""
        last = np.searchsorted(self.epochs, np.arange(1, epochs + 1), side="right") - 1
        return np.asarray(self.hits[np.maximum(last, 0)])


@dataclass(frozen=True)
class Memory:
    """Everything the report shows. :param correlations: per model: cells and the matrix of their curves."""

    plan: StudyPlan
    cells: list[Trained]
    terms: list[Term]
    gaps: list[Gap]
    fences: Mapping[str, tuple[float, float]]
    contrasts: list[Contrast]
    curves: list[Curve]
    correlations: Mapping[str, tuple[list[Cell], Floats]]


def memory(plan: StudyPlan, found: Sequence[State], out: Path) -> Memory:
    """:param found: of :func:`fathom.studies.grid.states`. :raises BadInput: no cell is there."""
    grid = _Grid(plan, found)
    if not grid.outcomes:
        whys = "; ".join(f"{state.cell}: {state.failed}" for state in found if state.failed)
        raise BadInput(f"no cell of {out} is there to report on" + (f" ({whys})" if whys else ""))
    curves = [curve for state in found if (curve := _curve(state, out)) is not None]
    gaps, fences = _gaps(grid)
    return Memory(
        plan,
        [_line(state, grid, out) for state in found],
        [term for name in plan.models for term in _terms(name, grid)],
        gaps,
        fences,
        _contrasts(grid),
        curves,
        {name: correlations([c for c in curves if c.cell.model == name]) for name in plan.models},
    )


class _Grid:
    """Outcomes by cell; a model's random cells may be another's."""

    def __init__(self, plan: StudyPlan, found: Sequence[State]) -> None:
        self.plan = plan
        self.outcomes: dict[Cell, Outcome] = {}
        self.without_ranks: dict[Cell, str] = {}
        for state in found:
            try:
                if state.run is not None:
                    [self.outcomes[state.cell]] = outcomes_of([state.run])
            except BadInput as error:
                self.without_ranks[state.cell] = str(error)

    def of(self, model: str, init: str, world: str) -> Outcome | None:
        donor = self.plan.models[model].random_from
        owner = donor if init == "random" and donor is not None else model
        return self.outcomes.get(Cell(owner, init, world))

    def worlds(self, model: str) -> list[str]:
        return list(self.plan.models[model].worlds or self.plan.worlds)


def _combined(signed: Sequence[tuple[int, Outcome]]) -> tuple[Difference, int]:
    """Σ sign · Hits@10 per fact that all ranked, with its interval, and how many facts."""
    outcomes = [outcome for _, outcome in signed]
    facts = common_facts(outcomes)
    values = sum(sign * hits_of(outcome, facts)[:, TEN] for sign, outcome in signed)
    return paired_difference(values, np.zeros(len(facts)), relations_of(outcomes[0], facts)), len(facts)


def _term(model: str, name: str, formula: str, cells: Sequence[tuple[int, str, str]], grid: _Grid) -> Term:
    """:param cells: sign, weights and world of each."""
    signed = [(sign, grid.of(model, init, world)) for sign, init, world in cells]
    missing = [f"{world} {init}" for (_, init, world), (_, there) in zip(cells, signed, strict=True) if there is None]
    if missing:
        return Term(model, name, formula, None, 0, "no cell " + ", ".join(missing))
    value, facts = _combined([(sign, there) for sign, there in signed if there is not None])
    return Term(model, name, formula, value, facts, "")


def _terms(model: str, grid: _Grid) -> list[Term]:
    if not any(cell.model == model and cell.init for cell in grid.outcomes):
        return []
    p, r = "pretrained", "random"
    terms = [
        _term(
            model,
            f"memory of names ({world})",
            f"[H({world}, p) − H({world}, r)] − [H({NAMELESS}, p) − H({NAMELESS}, r)]",
            [(1, p, world), (-1, r, world), (-1, p, NAMELESS), (1, r, NAMELESS)],
            grid,
        )
        for world in grid.worlds(model)
        if world != NAMELESS
    ]
    terms += [
        _term(
            model,
            f"descriptions ({weights})",
            f"H({NAMELESS}, {weights[0]}) − H({MEANINGLESS}, {weights[0]})",
            [(1, weights, NAMELESS), (-1, weights, MEANINGLESS)],
            grid,
        )
        for weights in (p, r)
    ]
    return [*terms, _term(model, "structure", f"H({MEANINGLESS}, r)", [(1, r, MEANINGLESS)], grid)]


def _gaps(grid: _Grid) -> tuple[list[Gap], dict[str, tuple[float, float]]]:
    found: list[Gap] = []
    limits = {}
    for model in grid.plan.models:
        pairs = [
            (world, trained, random)
            for world in grid.worlds(model)
            if (trained := grid.of(model, "pretrained", world)) is not None
            and (random := grid.of(model, "random", world)) is not None
        ]
        if not pairs:
            continue
        gaps = [_combined([(1, trained), (-1, random)])[0] for _, trained, random in pairs]
        fences = tukey_fences([gap.difference.estimate for gap in gaps])
        limits[model] = (fences.low, fences.high)
        found += [
            Gap(model, world, gap, bool(outside))
            for (world, _, _), gap, outside in zip(pairs, gaps, fences.outside, strict=True)
        ]
    return found, limits


def _contrasts(grid: _Grid) -> list[Contrast]:
    return [
        Contrast(first, second, world, _combined([(1, mine), (-1, theirs)])[0])
        for first, second in grid.plan.contrasts
        for world in grid.worlds(first)
        if (mine := grid.of(first, "pretrained", world)) is not None
        and (theirs := grid.of(second, "pretrained", world)) is not None
    ]


def _line(state: State, grid: _Grid, out: Path) -> Trained:
    failed = state.failed or grid.without_ranks.get(state.cell, "")
    if failed or state.run is None:
        return Trained(state.cell, None, 0, 0, f"failed: {failed}" if failed else "not yet", 0, None, 0.0)
    outcome = grid.outcomes[state.cell]
    hits = outcome.ranked.hits[:, TEN]
    folder = state.cell.folder(out) / "model"
    curve, ended = read_curve(folder), read_manifest(folder)["ended"]
    return Trained(
        state.cell,
        interval(hits, outcome.ranked.relations, limits=(0, 1)),
        len(hits),
        len(outcome.left_out),
        str(ended["why"]),
        curve[-1]["epoch"] if curve else 0,
        ended.get("epoch"),
        curve[-1]["seconds"] if curve else 0.0,
    )


def _curve(state: State, out: Path) -> Curve | None:
    lines = [line for line in read_curve(state.cell.folder(out) / "model") if "hits@10" in line]
    if not lines:
        return None
    epochs, hits = [line["epoch"] for line in lines], [line["hits@10"] for line in lines]
    return Curve(state.cell, np.array(epochs), np.array(hits))


def correlations(curves: Sequence[Curve]) -> tuple[list[Cell], Floats]:
    """Pearson's r between validation curves, aligned by epoch, shorter ones held at their last value (figure 9).

    :returns: the cells, and the matrix in their order; NaN where a curve does not change.
    """
    if not curves:
        return [], np.empty((0, 0))
    length = max(int(curve.epochs[-1]) for curve in curves)
    held = np.stack([curve.held(length) for curve in curves])
    moved = held - held.mean(axis=1, keepdims=True)
    norm = np.sqrt((moved**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = (moved @ moved.T) / np.outer(norm, norm)
    flat = norm < 1e-12
    matrix[flat] = matrix[:, flat] = np.nan
    return [curve.cell for curve in curves], np.clip(matrix, -1, 1)

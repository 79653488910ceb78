"""What a finished grid says: how much of a link predictor's Hits@10 is memory, descriptions, structure.

With H(world, weights) the Hits@10 on the test questions:

- *memory of names*(W) = [H(W, pretrained) − H(W, random)] − [H(anonymised-er, pretrained) − H(anonymised-er, random)],
  W = base in the headline: what pre-trained weights add where the names are the true ones, beyond what they add where
  no name can be remembered;
- *descriptions* = H(anonymised-er, w) − H(fully-anonymised-erd, w), same weights w: what readable descriptions add
  where names say nothing;
- *structure* = H(fully-anonymised-erd, random): what is left where no text means anything.

All differences are per test fact (both directions averaged), so that their intervals are paired. Figures and tables are
named after those of Sakai et al. (NAACL 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.links.folder import read_curve
from fathom.metrics.outliers import tukey_fences
from fathom.results import sides
from fathom.results.numbers import Number, combined, untold
from fathom.results.outcomes import Outcome, outcome_of
from fathom.results.plots import Plot
from fathom.results.rows import Floats, Ints
from fathom.results.sides import common_facts
from fathom.results.tables import Cell as TableCell
from fathom.results.tables import Table
from fathom.studies.grid import INITS, Cell, CellState, Init, StudyPlan, read_training

BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"
P, R = INITS
NOT_YET = "not yet"

ONE_TRAINING = "the noise of training is not in the intervals"
FENCES = "fences and outliers describe the gaps of one model's worlds; they are no estimates and have no interval"
NO_SAMPLE = "no intervals: the epochs of one training grow out of one another and are no sample"
FLAT = "no r: a curve that does not change"


class Trained(NamedTuple):
    """One cell.

    :param hits: Hits@10; None where the cell failed or is to come.
    :param unscored: test facts that are left out.
    :param why: how its training ended, or why it failed, or "not yet".
    :param epochs: of its training.
    :param best_epoch: whose weights were kept.
    :param seconds: of its training.
    """

    cell: Cell
    hits: Number | None
    unscored: int
    why: str
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float = 0.0


class Term(NamedTuple):
    """One term of the decomposition.

    :param formula: how it is made, and which cells are missing.
    :param value: None where a cell is missing.
    """

    model: str
    name: str
    formula: str
    value: Number | None


class Gap(NamedTuple):
    """pretrained − random in one world.

    :param fences: Tukey's, over the model's worlds.
    :param outlier: whether the gap lies beyond them.
    """

    model: str
    world: str
    value: Number
    fences: tuple[float, float]
    outlier: bool


class Contrast(NamedTuple):
    """first − second, both pretrained, in one world."""

    first: str
    second: str
    world: str
    value: Number


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
    cells: list[Trained]
    terms: list[Term]
    gaps: list[Gap]
    contrasts: list[Contrast]
    curves: Mapping[str, list[Curve]]
    """Of each model."""


def ask(plan: StudyPlan, found: Sequence[CellState], out: Path) -> Memory:
    """Take a grid apart.

    :param found: of :func:`fathom.studies.grid.states`.
    :param out: folder of the grid.
    :raises BadInput: no cell is there.
    """
    grid = _Grid(plan, found)
    if not grid.there:
        whys = "; ".join(f"{state.cell}: {state.failed}" for state in found if state.failed)
        raise BadInput(f"no cell of {out} is there to report on" + (f" ({whys})" if whys else ""))
    curves = [curve for state in found if (curve := _curve(state.cell, out)) is not None]
    return Memory(
        plan,
        [_trained(state, grid, out) for state in found],
        [term for model in plan.models for term in _terms(model, grid)],
        [gap for model in plan.models for gap in _gaps(model, grid)],
        [
            Contrast(first, second, world, value)
            for first, second in plan.contrasts
            for world, value in grid.pairs((first, P), (second, P))
        ],
        {model: [curve for curve in curves if curve.cell.model == model] for model in plan.models},
    )


class _Grid:
    """Outcomes by cell; a model's random cells may be another's."""

    def __init__(self, plan: StudyPlan, found: Sequence[CellState]) -> None:
        self.plan = plan
        self.there: dict[Cell, Outcome] = {}
        self.failed = {state.cell: state.failed for state in found}
        for state in found:
            try:
                if state.run is not None:
                    self.there[state.cell] = outcome_of(state.run, model=state.cell.model)
            except BadInput as error:
                self.failed[state.cell] = str(error)

    def of(self, model: str, init: Init, world: str) -> Outcome | None:
        return self.there.get(Cell(self.plan.owner(model, init), init, world))

    def worlds(self, model: str) -> tuple[str, ...]:
        return self.plan.models[model].worlds or self.plan.worlds

    def pairs(self, first: tuple[str, Init], second: tuple[str, Init]) -> Iterator[tuple[str, Number]]:
        """Hits@10 of *first* − *second*, each a model and its weights, in each world of the first that has both."""
        for world in self.worlds(first[0]):
            one, other = self.of(*first, world), self.of(*second, world)
            if one is not None and other is not None:
                yield world, _difference([(1, one), (-1, other)])


def _difference(signed: Sequence[tuple[int, Outcome]]) -> Number:
    """Σ sign · Hits@10 of the facts that all ranked."""
    every = [outcome for _, outcome in signed]
    return sides.difference("hits@10", signed, [outcome.hits(10) for outcome in every], common_facts(every))


def _trained(state: CellState, grid: _Grid, out: Path) -> Trained:
    outcome, failed = grid.there.get(state.cell), grid.failed[state.cell]
    if outcome is None:
        return Trained(state.cell, None, 0, f"failed: {failed}" if failed else NOT_YET)
    hits, ended = outcome.mean("hits@10", outcome.hits(10)), read_training(state.cell.model_folder(out))["ended"]
    trained = Trained(state.cell, hits, len(outcome.left_out), str(ended["why"]), best_epoch=ended.get("epoch"))
    curve = read_curve(state.cell.model_folder(out))
    return trained._replace(epochs=curve[-1]["epoch"], seconds=curve[-1]["seconds"]) if curve else trained


def _terms(model: str, grid: _Grid) -> Iterator[Term]:
    if not any(cell.model == model and cell.init for cell in grid.there):
        return
    nothing = f"[H({NAMELESS}, p) − H({NAMELESS}, r)]"
    for world in grid.worlds(model):
        cells: list[tuple[int, Init, str]] = [(1, P, world), (-1, R, world), (-1, P, NAMELESS), (1, R, NAMELESS)]
        formula = f"[H({world}, p) − H({world}, r)] − {nothing}"
        term = _term(model, f"memory of names ({world})", formula, cells, grid)
        # The term is defined for base; with other worlds it is a check, made where their cells are there.
        if world == BASE or (world != NAMELESS and term.value is not None):
            yield term
    for init in INITS:
        formula = f"H({NAMELESS}, {init[0]}) − H({MEANINGLESS}, {init[0]})"
        yield _term(model, f"descriptions ({init})", formula, [(1, init, NAMELESS), (-1, init, MEANINGLESS)], grid)
    yield _term(model, "structure", f"H({MEANINGLESS}, r)", [(1, R, MEANINGLESS)], grid)


def _term(model: str, name: str, formula: str, cells: Sequence[tuple[int, Init, str]], grid: _Grid) -> Term:
    """:param cells: sign, weights and world of each."""
    found = [(sign, grid.of(model, init, world)) for sign, init, world in cells]
    missing = [f"{world} {init}" for (_, init, world), (_, there) in zip(cells, found, strict=True) if there is None]
    if missing:
        return Term(model, name, f"{formula} (no cell {', '.join(missing)})", None)
    return Term(model, name, formula, _difference([(sign, there) for sign, there in found if there is not None]))


def _gaps(model: str, grid: _Grid) -> list[Gap]:
    gaps = dict(grid.pairs((model, P), (model, R)))
    if not gaps:
        return []
    low, high, outside = tukey_fences([gap.value for gap in gaps.values()])
    return [
        Gap(model, world, gap, (low, high), outlier)
        for (world, gap), outlier in zip(gaps.items(), outside.tolist(), strict=True)
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
    held = np.stack([curve.held(_length(curves)) for curve in curves])
    moved = held - held.mean(axis=1, keepdims=True)
    norm = np.sqrt((moved**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = (moved @ moved.T) / np.outer(norm, norm)
    flat = norm < 1e-12
    matrix[flat] = matrix[:, flat] = np.nan
    return np.asarray(np.clip(matrix, -1, 1))


def _length(curves: Sequence[Curve]) -> int:
    return max(int(curve.epochs[-1]) for curve in curves)


# ------------------------------------------------------------------------------------------------------ tables


def tables(found: Memory) -> list[Table]:
    """Every cell, the decomposition with its formulas, the gaps with their outliers, and the contrasts."""
    made = (
        _table_of_cells(found.cells),
        Table.of_numbers(
            ("model", "term", "value", "facts", "formula"),
            [(one.model, one.name, one.value, one.value.n if one.value else 0, one.formula) for one in found.terms],
            "What Hits@10 is made of (H: Hits@10; p: pretrained, r: random weights)",
            {"value": ("low", "high", "p")},
            {"value": "+.3f"},
        ),
        _table_of_gaps(found.gaps),
        Table.of_numbers(
            ("models", "world", "difference"),
            [(f"{one.first} − {one.second}", one.world, one.value) for one in found.contrasts],
            "Two models with their pre-trained weights, world by world (Hits@10)",
            {"difference": ("low", "high", "p")},
            {"difference": "+.3f"},
        ),
    )
    return [table for table in made if table.rows]


def _table_of_cells(cells: Sequence[Trained]) -> Table:
    return Table.of_numbers(
        ("model", "weights", "world", "Hits@10", "facts", "unscored", "epochs", "best", "seconds", "ended by"),
        [
            (
                *(line.cell.model, line.cell.init or "–", line.cell.world, line.hits, line.hits.n if line.hits else 0),
                *(line.unscored, line.epochs, line.best_epoch, line.seconds, line.why),
            )
            for line in cells
        ],
        "Hits@10 of every cell (figures 5 to 7, 10)",
        {"Hits@10": ("low", "high")},
        {"Hits@10": ".3f", "seconds": ".0f"},
        (ONE_TRAINING,),
    )


def _table_of_gaps(gaps: Sequence[Gap]) -> Table:
    fences = ("fence low", "fence high")
    return Table.of_numbers(
        ("model", "world", "p − r", *fences, "outlier"),
        [(gap.model, gap.world, gap.value, *gap.fences, gap.outlier) for gap in gaps],
        "What pre-trained weights add in each world, and where they add remarkably much (Tukey's fences, 1.5 IQR)",
        {"p − r": ("low", "high", "p")},
        dict.fromkeys(("p − r", *fences), "+.3f"),
        (FENCES,),
    )


def correlation_tables(found: Memory) -> list[Table]:
    """Figure 9 in numbers: one table for each model with several curves."""
    return [_table_of_curves(model, curves) for model, curves in found.curves.items() if len(curves) > 1]


def _table_of_curves(model: str, curves: Sequence[Curve]) -> Table:
    names = [curve.name for curve in curves]
    rows: list[list[TableCell | Number]] = []
    for name, mine, values in zip(names, curves, correlations(curves).tolist(), strict=True):
        recipes = [f"{combined('pearson', [mine.recipe])}|with:{other.cell}" for other in curves]
        whys = [FLAT if np.isnan(value) else NO_SAMPLE for value in values]
        row = zip(whys, recipes, values, strict=True)
        rows.append([name, *(untold(why, made, value, _length(curves)) for why, made, value in row)])
    title = f"Pearson's r of validation curves, {model} (figure 9)"
    return Table.of_numbers(("", *names), rows, title, dict.fromkeys(names, ()), dict.fromkeys(names, ".2f"))


# ------------------------------------------------------------------------------------------------------ figures


def plots(found: Memory) -> list[Plot]:
    """bars-MODEL (figures 5 to 7, 10), curves-MODEL (8) and correlations-MODEL (9) for each model but the line."""
    made = []
    for model, curves in found.curves.items():
        if model == found.plan.line:
            continue
        made.append(Plot(f"bars-{model}", partial(_draw_bars, found, model), "", "Hits@10", model))
        if curves:
            drawn = partial(_draw_curves, curves)
            made.append(Plot(f"curves-{model}", drawn, "epoch", "Hits@10 on validation", model))
            made.append(Plot(f"correlations-{model}", partial(_draw_correlations, curves), "", "", model))
    return made


def _draw_bars(found: Memory, model: str, axes: Any) -> None:
    """A group of bars for each world, one bar for each kind of weights, intervals as whiskers; failed cells crossed."""
    random = (found.plan.owner(model, R), R)
    mine = {line.cell: line for line in found.cells if line.cell.model == model or line.cell[:2] == random}
    worlds = [world for world in found.plan.worlds if any(cell.world == world for cell in mine)]
    inits = sorted({cell.init for cell in mine})  # pretrained, random: the same colours in every figure
    width = 0.8 / max(1, len(inits))
    for number, init in enumerate(inits):
        axes.bar(0, 0, width, color=f"C{number}", label=init or model)  # the legend shows no bar that is not there
        for place, world in enumerate(worlds):
            of_cell = [line for cell, line in mine.items() if cell[1:] == (init, world)]
            _draw_bar(axes, place + (number - (len(inits) - 1) / 2) * width, width, f"C{number}", of_cell)
    line = [line.hits.value for line in found.cells if line.cell.model == found.plan.line and line.hits]
    if line:
        axes.axhline(line[0], color="black", linestyle="--", linewidth=0.8, label=found.plan.line)
    axes.set_xticks(range(len(worlds)), worlds, rotation=60, ha="right", fontsize=7)
    axes.set_ylim(0, None)
    axes.legend(fontsize=7)


def _draw_bar(axes: Any, x: float, width: float, colour: str, of_cell: Sequence[Trained]) -> None:
    hits = of_cell[0].hits if of_cell else None
    if hits is None:
        failed = bool(of_cell) and of_cell[0].why != NOT_YET
        axes.text(x, 0, "×" if failed else "·", ha="center", va="bottom", color="red" if failed else "grey")
    elif hits.low is not None and hits.high is not None:
        spread = [[hits.value - hits.low], [hits.high - hits.value]]
        axes.bar(x, hits.value, width, yerr=spread, color=colour, error_kw={"lw": 0.8})


def _draw_curves(curves: Sequence[Curve], axes: Any) -> None:
    """Solid: pretrained, dashed: random; one colour for each world."""
    worlds = list(dict.fromkeys(curve.cell.world for curve in curves))
    for curve in curves:
        style = "--" if curve.cell.init == R else "-"
        colour = f"C{worlds.index(curve.cell.world) % 10}"
        axes.plot(curve.epochs, curve.hits, style, color=colour, linewidth=1, label=curve.name)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=6)


def _draw_correlations(curves: Sequence[Curve], axes: Any) -> None:
    names = [f"{curve.cell.world} {'w/o weights' if curve.cell.init == R else ''}".strip() for curve in curves]
    shown = axes.imshow(np.ma.masked_invalid(correlations(curves)), vmin=-1, vmax=1, cmap="RdBu_r")
    axes.figure.colorbar(shown, ax=axes, shrink=0.8)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    axes.set_yticks(range(len(names)), names, fontsize=5)

"""Tables and figures of the study of inference and memory (Sakai et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fathom.metrics.bootstrap import Difference, Interval
from fathom.results.tables import Cell, Table
from fathom.studies.entities_tables import picture
from fathom.studies.memory import Curve, Memory, Term

INTERVALS = (
    "The intervals are bootstraps over test facts, clustered by relation; training noise (seeds) is not in them."
)


def memory_tables(found: Memory) -> list[Table]:
    """Every cell, the decomposition with its formulas, the gaps with their outliers, and the contrasts."""
    tables = [_cells(found), _terms(found), _gaps(found), _contrasts(found)]
    return [table for table in tables if table.rows]


def _cells(found: Memory) -> Table:
    rows = tuple(
        (
            line.cell.model,
            line.cell.init or "–",
            line.cell.world,
            *_interval(line.hits),
            line.facts,
            line.unscored,
            line.epochs,
            line.best_epoch,
            line.seconds,
            line.why,
        )
        for line in found.cells
    )
    columns = ("model", "weights", "world", "Hits@10", "low", "high")
    more = ("facts", "unscored", "epochs", "best", "seconds", "ended by")
    formats = dict.fromkeys(("Hits@10", "low", "high"), ".3f") | {"seconds": ".0f"}
    return Table(columns + more, rows, "Hits@10 of every cell (figures 5 to 7, 10)", formats, notes=(INTERVALS,))


def _terms(found: Memory) -> Table:
    rows = tuple(
        (term.model, term.name, *_difference(term.value), term.facts, term.formula + _missing(term.missing))
        for term in found.terms
        if term.value is not None or not _of_another_world(term)
    )
    return Table(
        ("model", "term", "value", "low", "high", "p", "facts", "formula"),
        rows,
        "What Hits@10 is made of (H: Hits@10; p: pretrained, r: random weights)",
        dict.fromkeys(("value", "low", "high"), "+.3f") | {"p": ".3f"},
    )


def _gaps(found: Memory) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (gap.model, gap.world, *_difference(gap.gap), *found.fences[gap.model], gap.outlier) for gap in found.gaps
    )
    return Table(
        ("model", "world", "p − r", "low", "high", "p", "fence low", "fence high", "outlier"),
        rows,
        "What pre-trained weights add in each world, and where they add remarkably much (Tukey's fences, 1.5 IQR)",
        dict.fromkeys(("p − r", "low", "high", "fence low", "fence high"), "+.3f") | {"p": ".3f"},
    )


def _contrasts(found: Memory) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{one.first} − {one.second}", one.world, *_difference(one.value)) for one in found.contrasts
    )
    return Table(
        ("models", "world", "difference", "low", "high", "p"),
        rows,
        "Two models with their pre-trained weights, world by world (Hits@10)",
        dict.fromkeys(("difference", "low", "high"), "+.3f") | {"p": ".3f"},
    )


def correlation_tables(found: Memory) -> list[Table]:
    """Figure 9 in numbers: one table per model."""
    tables = []
    for model, (cells, matrix) in found.correlations.items():
        if len(cells) < 2:
            continue
        names = tuple(f"{cell.world} {cell.init}".strip() for cell in cells)
        lines = zip(names, matrix.tolist(), strict=True)
        rows: tuple[tuple[Cell, ...], ...] = tuple((name, *values) for name, values in lines)
        title = f"Pearson's r of validation curves, {model} (figure 9)"
        tables.append(Table(("", *names), rows, title, dict.fromkeys(names, ".2f")))
    return tables


def _of_another_world(term: Term) -> bool:
    """The memory term is defined for base; for other worlds it is a check, shown where the cells are there."""
    return term.name.startswith("memory") and not term.name.endswith("(base)")


def _missing(why: str) -> str:
    return f" ({why})" if why else ""


def _interval(value: Interval | None) -> tuple[Cell, Cell, Cell]:
    return (None, None, None) if value is None else (value.estimate, value.low, value.high)


def _difference(value: Difference | None) -> tuple[Cell, Cell, Cell, Cell]:
    return (None, None, None, None) if value is None else (*_interval(value.difference), value.p_value)


# ------------------------------------------------------------------------------------------------------ figures


def draw_memory(found: Memory, folder: Path) -> list[Path]:
    """bars-MODEL.png (figures 5 to 7, 10), curves-MODEL.png (8) and correlations-MODEL.png (9) for each model.

    :returns: the files; none where matplotlib is not installed.
    """
    line = _line(found)
    made: list[Path | None] = []
    for model in found.plan.models:
        if model == found.plan.line:
            continue
        made.append(_bars(found, model, line, folder / f"bars-{model}.png"))
        curves = [curve for curve in found.curves if curve.cell.model == model]
        if curves:
            made.append(_draw_curves(curves, model, folder / f"curves-{model}.png"))
            made.append(_draw_correlations(found, model, folder / f"correlations-{model}.png"))
    return [path for path in made if path is not None]


def _line(found: Memory) -> float | None:
    """Hits@10 of the model that is drawn as a line, in the base graph."""
    values = [
        cells.hits.estimate for cells in found.cells if cells.cell.model == found.plan.line and cells.hits is not None
    ]
    return values[0] if values else None


def _bars(found: Memory, model: str, line: float | None, path: Path) -> Path | None:
    """A group of bars for each world, one bar for each kind of weights, intervals as whiskers; failed cells crossed."""
    owner = found.plan.models[model].random_from
    mine = [c for c in found.cells if c.cell.model == model or (c.cell.model == owner and c.cell.init == "random")]
    worlds = [world for world in found.plan.worlds if any(c.cell.world == world for c in mine)]
    inits = sorted({c.cell.init for c in mine})  # pretrained, random: the same colours in every figure

    def draw(axes: Any) -> None:
        width = 0.8 / max(1, len(inits))
        for number, init in enumerate(inits):
            axes.bar(0, 0, width, color=f"C{number}", label=init or model)  # the legend shows no bar that is not there
            for place, world in enumerate(worlds):
                x = place + (number - (len(inits) - 1) / 2) * width
                there = [c for c in mine if c.cell.world == world and c.cell.init == init]
                hits = there[0].hits if there else None
                if hits is None:
                    failed = bool(there) and there[0].why != "not yet"
                    axes.text(x, 0, "×" if failed else "·", ha="center", va="bottom", color="red" if failed else "grey")
                    continue
                spread = [[hits.estimate - hits.low], [hits.high - hits.estimate]]
                axes.bar(x, hits.estimate, width, yerr=spread, color=f"C{number}", error_kw={"lw": 0.8})
        if line is not None:
            axes.axhline(line, color="black", linestyle="--", linewidth=0.8, label=found.plan.line)
        axes.set_xticks(range(len(worlds)), worlds, rotation=60, ha="right", fontsize=7)
        axes.set_ylim(0, None)
        axes.set_title(model)
        axes.legend(fontsize=7)

    return picture(path, draw, "", "Hits@10")


def _draw_curves(curves: Sequence[Curve], model: str, path: Path) -> Path | None:
    """Solid: pretrained, dashed: random; one colour for each world."""
    worlds = list(dict.fromkeys(curve.cell.world for curve in curves))

    def draw(axes: Any) -> None:
        for curve in curves:
            style = "--" if curve.cell.init == "random" else "-"
            colour = f"C{worlds.index(curve.cell.world) % 10}"
            label = " ".join(part for part in (curve.cell.world, curve.cell.init) if part)
            axes.plot(curve.epochs, curve.hits, style, color=colour, linewidth=1, label=label)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title(model)
        axes.legend(fontsize=6)

    return picture(path, draw, "epoch", "Hits@10 on validation")


def _draw_correlations(found: Memory, model: str, path: Path) -> Path | None:
    cells, matrix = found.correlations[model]
    names = [f"{cell.world} {'w/o weights' if cell.init == 'random' else ''}".strip() for cell in cells]

    def draw(axes: Any) -> None:
        shown = axes.imshow(np.ma.masked_invalid(matrix), vmin=-1, vmax=1, cmap="RdBu_r")
        axes.figure.colorbar(shown, ax=axes, shrink=0.8)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
        axes.set_yticks(range(len(names)), names, fontsize=5)
        axes.set_title(model)

    return picture(path, draw, "", "")

"""Tables and figures of the study of memory, named after those of Sakai et al. (NAACL 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from fathom.base.options import nearest
from fathom.plans.steps import PlannedStep, StepState
from fathom.results.estimates import Estimate, Noise, combined, point_estimate
from fathom.results.metrics.significance import LEVEL, POWER
from fathom.results.tables import Axes, Plot, Table
from fathom_kgc.plan import LinkStep
from fathom_kgc.studies import MemoryOptions
from fathom_kgc.studies.memory import (
    BASE,
    HITS,
    NOT_YET,
    Cell,
    CellResult,
    CellState,
    Curve,
    Effect,
    Memory,
    R,
    analyse,
    conclude,
    correlations,
    longest,
)

__all__ = ["analyse", "cell_of", "conclude", "option_faults", "plots", "state_of_cell", "tables"]

FENCES = ("fence low", "fence high")
NO_SAMPLE = "no intervals: the epochs of one training grow out of one another and are no sample"
FLAT = "no r: a curve that does not change"
BY_SEED = "error by facts, by training (seeds alone): standard errors; their squares add up to that of the interval"
P_HOLM, SMALLEST, SEEDS, FORMULA = "p (Holm)", "smallest", "seeds", "formula"
NOISE = ("error by facts", "error by training")
HEADS = {"hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "mrr": "MRR", "mean_rank": "MR"}
Row = dict[str, Any]


def cell_of(run: PlannedStep) -> Cell | None:
    """Return the cell of a link predictor's run; None of another run."""
    if not isinstance(run.step, LinkStep):
        return None
    training = run.step.training
    return Cell(run.keys["run"], getattr(training, "init", ""), run.keys.get("world", BASE), training.seed)


def state_of_cell(run: PlannedStep, state: StepState) -> CellState:
    """Return the state of a link predictor's run."""
    assert isinstance(run.step, LinkStep)
    cell = cell_of(run)
    assert cell is not None
    return CellState(cell, run.step.predictor, run.step.data, state.run, state.failed)


def option_faults(options: MemoryOptions, runs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a fault for each model that has no runs."""
    named = [("line", options.line), *(("contrasts", name) for pair in options.contrasts for name in pair)]
    named += [("controls", name) for pair in options.controls.items() for name in pair]
    for option, name in named:
        if name is not None and name not in runs:
            yield option, f"no run '{name}' of a link predictor; {nearest(name, runs)}"


def tables(findings: Memory) -> list[Table]:
    candidates = (
        _table_of_cells(findings),
        _table_of_effects(
            ("model", "term", "value"),
            findings.terms,
            "What Hits@10 is made of (H: Hits@10; p: pretrained, r: random weights)",
            lambda term: {FORMULA: term.formula},
        ),
        _table_of_effects(
            ("model", "world", "p − r"),
            findings.gaps,
            "What pre-trained weights add in each world, and where they add remarkably much (Tukey's fences, 1.5 IQR)",
            lambda gap: dict[str, Any](zip(FENCES, gap.fences or (), strict=True)) | {"outlier": gap.outlier},
            ("fences and outliers describe the gaps of one model's worlds; they have no interval",),
        ),
        _table_of_effects(
            ("models", "world", "difference"),
            findings.contrasts,
            "Two models with their pre-trained weights, world by world (Hits@10)",
        ),
        _table_of_metrics(findings.cells),
        _table_of_secondary(findings),
        *([_table_of_trainings(findings)] if max(len(line.trainings) for line in findings.cells) > 1 else ()),
        *findings.audits,
        *(_table_of_curves(model, curves) for model, curves in findings.curves.items() if len(curves) > 1),
    )
    return [table for table in candidates if table.rows]


def _cell(cell: Cell) -> Row:
    return {"model": cell.model, "weights": cell.init or "–", "world": cell.world}


def _noise(noise: Noise) -> Row:
    return dict(zip((SEEDS, *NOISE), noise, strict=True))


def _table_of_cells(findings: Memory) -> Table:
    rows = [
        _cell(line.cell)
        | {"Hits@10": line.hits, "facts": line.hits.n if line.hits else 0}
        | _noise(line.noise)
        | {
            "unscored": max(training.unscored for training in line.trainings),
            "epochs": _shared([training.epochs for training in line.trainings]),
            "best": _shared([training.best_epoch for training in line.trainings]),
            "seconds": sum(training.seconds for training in line.trainings),
            "ended by": line.why,
        }
        for line in findings.cells
    ]
    noises = [line.noise for line in findings.cells]
    return Table.of(
        rows,
        "Hits@10 of every cell (figures 5 to 7, 10)",
        _notes_of_noise(noises, [gap.value for gap in findings.gaps], "differences of weights"),
        hidden=_without_noise(noises),
        formats=dict.fromkeys(NOISE, ".3f") | {"seconds": ".0f"},
    )


def _shared(values: Sequence[int | None]) -> int | None:
    return values[0] if len(set(values)) == 1 else None


def _notes_of_noise(noises: Sequence[Noise], tested: Iterable[Estimate | None], what: str = "effects") -> list[str]:
    """Describe the smallest detectable effect. :param tested: numbers compared to zero."""
    notes = [] if _without_noise(noises) else [BY_SEED]
    smallest = sorted(number.smallest for number in tested if number is not None and number.smallest is not None)
    if smallest:
        seeds = sorted({noise.seeds for noise in noises if noise.seeds})
        words = " to ".join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))
        least = " to ".join(dict.fromkeys(f"{end:.3f}" for end in (smallest[0], smallest[-1])))
        notes.append(
            f"with these facts and {words} seed{'s' * (seeds[-1] > 1)}, {what} below {least} cannot be seen: a test of "
            f"one at {100 * LEVEL:.0f} % finds such a true difference in {100 * POWER:.0f} % of cases"
            f"{'' if seeds[-1] > 1 else '; what another training would give hides more'}"
        )
    return notes


def _without_noise(noises: Iterable[Noise]) -> tuple[str, ...]:
    """Return the columns that a single seed leaves empty."""
    return () if any(noise.training is not None for noise in noises) else NOISE


def _table_of_effects(
    columns: tuple[str, str, str],
    effects: Sequence[Effect],
    title: str,
    more: Callable[[Effect], Row] = lambda effect: {},
    notes: Sequence[str] = (),
) -> Table:
    """:param columns: model, name and value. :param more: further cells of an effect."""
    missing = (f"{effect.name}: {effect.formula.partition(' (')[2][:-1]}" for effect in effects if effect.value is None)
    rows = [
        dict[str, Any](zip(columns, effect[:3], strict=True))
        | {P_HOLM: effect.adjusted, SMALLEST: effect.value and effect.value.smallest}
        | {"facts": effect.value.n if effect.value else 0}
        | _noise(effect.noise)
        | more(effect)
        for effect in effects
    ]
    return Table.of(
        rows,
        title,
        (
            *notes,
            f"{P_HOLM} and simultaneous intervals: for the claims and all effects on Hits@10; CSV and JSON have facts, "
            "seeds, standard errors and formulas",
            *dict.fromkeys(missing),
            *_notes_of_noise([effect.noise for effect in effects], [effect.value for effect in effects]),
        ),
        main=columns[2],
        hidden=("p", "facts", SEEDS, *NOISE, FORMULA),
        formats={P_HOLM: ".2g"} | dict.fromkeys((SMALLEST, *NOISE), ".3f") | dict.fromkeys(FENCES, "+.3f"),
    )


def _table_of_secondary(findings: Memory) -> Table:
    """Return the same effects on every other metric; they decide nothing."""
    others = {head: findings.effects[name] for name, head in HEADS.items() if name != HITS}
    rows = [
        {"effect": kind, "model": row[0].model, "of": row[0].name}
        | {head: effect.value for head, effect in zip(others, row, strict=True)}
        for kind, field in (("term", "terms"), ("p − r", "gaps"), ("difference", "contrasts"))
        for row in zip(*(getattr(effects, field) for effects in others.values()), strict=True)
    ]
    notes = ["they decide nothing; CSV and JSON have their intervals, simultaneous for each metric"]
    return Table.of(rows, "The same effects on other metrics (secondary)", notes)


def _table_of_metrics(cells: Sequence[CellResult]) -> Table:
    rows = [
        _cell(line.cell) | {SEEDS: line.noise.seeds} | {head: line.numbers[name] for name, head in HEADS.items()}
        for line in cells
        if line.numbers
    ]
    return Table.of(rows, "Every metric of every cell", ["CSV and JSON have the intervals"])


def _table_of_trainings(findings: Memory) -> Table:
    rows = [
        _cell(line.cell)
        | {"seed": training.cell.seed, "Hits@10": training.hits}
        | {"epochs": training.epochs, "best": training.best_epoch, "seconds": training.seconds}
        | {"ended by": training.why}
        for line in findings.cells
        for training in line.trainings
    ]
    return Table.of(rows, "Hits@10 of every training", formats={"seconds": ".0f"})


def _table_of_curves(model: str, curves: Sequence[Curve]) -> Table:
    """Return figure 9 in numbers."""
    notes = [f"validation curves of seed {curves[0].cell.seed}"]
    names = [curve.name for curve in curves]
    rows: list[list[Any]] = []
    for name, mine, values in zip(names, curves, correlations(curves).tolist(), strict=True):
        recipes = [f"{combined('pearson', [mine.recipe])}|with:{curve.cell}" for curve in curves]
        whys = [FLAT if np.isnan(value) else NO_SAMPLE for value in values]
        row = zip(whys, recipes, values, strict=True)
        rows.append([name, *(point_estimate(why, made, value, longest(curves), ".2f") for why, made, value in row)])
    title = f"Pearson's r of validation curves, {model} (figure 9)"
    return Table.of(rows, title, notes, columns=("", *names), without_interval=names)


def plots(findings: Memory) -> list[Plot]:
    """Return bars (figures 5 to 7, 10), curves (8) and correlations (9) of each model but the line."""
    drawings = []
    for model, curves in findings.curves.items():
        if model == findings.options.line:
            continue
        drawings.append(Plot(f"bars-{model}", partial(_draw_bars, findings, model), "", "Hits@10", model))
        if curves:
            drawn = partial(_draw_curves, curves)
            drawings.append(Plot(f"curves-{model}", drawn, "epoch", "Hits@10 on validation", model))
            drawings.append(Plot(f"correlations-{model}", partial(_draw_correlations, curves), "", "", model))
    return drawings


def _draw_bars(findings: Memory, model: str, axes: Axes) -> None:
    """Draw a group of bars for each world, with intervals as whiskers and failed cells crossed."""
    mine = {line.cell: line for line in findings.drawn[model]}
    worlds = list(dict.fromkeys(cell.world for cell in mine))
    inits = sorted({cell.init for cell in mine})  # pretrained, random: the same colours in every figure
    width = 0.8 / max(1, len(inits))
    for number, init in enumerate(inits):
        axes.bar(0, 0, width, color=f"C{number}", label=init or model)  # for the legend
        for place, world in enumerate(worlds):
            of_cell = [line for cell, line in mine.items() if cell[1:3] == (init, world)]
            _draw_bar(axes, place + (number - (len(inits) - 1) / 2) * width, width, f"C{number}", of_cell)
    name = findings.options.line
    line = [line.hits.value for line in findings.cells if line.cell.model == name and line.hits]
    if line:
        axes.axhline(line[0], color="black", linestyle="--", linewidth=0.8, label=name)
    axes.set_xticks(range(len(worlds)), worlds, rotation=60, ha="right", fontsize=7)
    axes.set_ylim(0, None)
    axes.legend(fontsize=7)


def _draw_bar(axes: Axes, x: float, width: float, colour: str, of_cell: Sequence[CellResult]) -> None:
    hits = of_cell[0].hits if of_cell else None
    if hits is None:
        failed = bool(of_cell) and of_cell[0].why != NOT_YET
        axes.text(x, 0, "×" if failed else "·", ha="center", va="bottom", color="red" if failed else "grey")
    elif hits.low is not None and hits.high is not None:
        spread = [[hits.value - hits.low], [hits.high - hits.value]]
        axes.bar(x, hits.value, width, yerr=spread, color=colour, error_kw={"lw": 0.8})


def _draw_curves(curves: Sequence[Curve], axes: Axes) -> None:
    """Draw pretrained solid, random dashed; one colour for each world."""
    worlds = list(dict.fromkeys(curve.cell.world for curve in curves))
    for curve in curves:
        style = "--" if curve.cell.init == R else "-"
        colour = f"C{worlds.index(curve.cell.world) % 10}"
        axes.plot(curve.epochs, curve.hits, style, color=colour, linewidth=1, label=curve.name)
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]  # that of MaxNLocator
    axes.legend(fontsize=6)


def _draw_correlations(curves: Sequence[Curve], axes: Axes) -> None:
    names = [f"{curve.cell.world} {'w/o weights' if curve.cell.init == R else ''}".strip() for curve in curves]
    shown = axes.imshow(np.ma.masked_invalid(correlations(curves)), vmin=-1, vmax=1, cmap="RdBu_r")
    axes.figure.colorbar(shown, ax=axes, shrink=0.8)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    axes.set_yticks(range(len(names)), names, fontsize=5)

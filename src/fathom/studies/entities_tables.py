"""Tables and pictures of the entity studies: agreement, length bias, prompts, sizes, compute time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fathom.metrics.correlation import Correlation
from fathom.results.tables import Cell, Table
from fathom.studies.agreement import Agreement
from fathom.studies.entities import CUTS, Growth, Scored, Timing
from fathom.studies.length_bias import LengthBias


def agreement_tables(found: Agreement) -> list[Table]:
    """Correlations, and quadrants of hits and misses."""
    hit, miss = f"hit@{found.k}", f"miss@{found.k}"
    quadrants = (
        (hit, hit, found.both_hit),
        (miss, miss, found.both_miss),
        (hit, miss, found.only_first),
        (miss, hit, found.only_second),
    )
    return [
        _correlations(
            f"{found.first} and {found.second}",
            [("log10 rank", found.log_ranks), ("rank", found.ranks)],
            (
                *(
                    [f"{found.left_out} facts that one of the two could not rank are left out"]
                    if found.left_out
                    else []
                ),
                *([_stopped(found)] if found.stopped else []),
            ),
        ),
        Table((found.first, found.second, "share"), quadrants, "quadrants", formats={"share": ".1%"}),
    ]


def _stopped(found: Agreement) -> str:
    return (
        f"{found.stopped} facts are only known to rank beyond --max-rank: they are misses in the quadrants; "
        "correlations need every rank, ask again without --max-rank"
    )


def length_bias_tables(found: Sequence[LengthBias]) -> list[Table]:
    lines = [(f"{bias.name}, {name}", value) for bias in found for name, value in _both(bias)]
    left_out = sum(bias.left_out for bias in found)
    notes = (
        "a positive r favours short names",
        *([f"{left_out} facts without a rank are left out"] if left_out else []),
    )
    boxes = tuple((bias.name, *box) for bias in found for box in bias.boxes)
    columns = ("run", "tokens", "facts", "lower quartile", "median", "upper quartile")
    return [
        _correlations("gold rank and gold token length", lines, notes),
        Table(
            columns, boxes, "rank of the gold answer by its number of tokens", formats=dict.fromkeys(columns[3:], ".1f")
        ),
    ]


def _both(bias: LengthBias) -> list[tuple[str, Correlation]]:
    return [("rank", bias.ranks), ("log10 rank", bias.log_ranks)]


def _correlations(title: str, lines: Sequence[tuple[str, Correlation]], notes: tuple[str, ...]) -> Table:
    rows = tuple((name, found.r, found.low, found.high, found.p_value, found.n) for name, found in lines)
    formats = dict.fromkeys(("Pearson r", "low", "high"), ".3f") | {"p": ".2g"}
    return Table(("of", "Pearson r", "low", "high", "p", "facts"), rows, title, formats=formats, notes=notes)


def scored_table(title: str, lines: Sequence[Scored], growth: dict[str, Growth] | None = None) -> Table:
    """Hits@k with intervals, one line per run and scoring."""
    columns = ["probe", "model or prompt", "parameters"]
    formats: dict[str, str] = {}
    for k in CUTS:
        columns += [f"hits@{k}", f"low@{k}", f"high@{k}"]
        formats |= dict.fromkeys(columns[-3:], ".1%")
    rows = []
    for line in lines:
        cells: list[Cell] = [line.probe, line.name, line.parameters]
        for hit in line.hits:
            cells += [None, None, None] if hit is None else [hit.estimate, hit.low, hit.high]
        rows.append((*cells, line.queries, line.unscored))
    clustered = {hit.note for line in lines for hit in line.hits if hit is not None and hit.note}
    notes = [note for probe, found in (growth or {}).items() for note in _growth(probe, found)]
    return Table(
        (*columns, "queries", "unscored"), tuple(rows), title, formats=formats, notes=(*notes, *sorted(clustered))
    )


def _growth(probe: str, found: Growth) -> list[str]:
    """What rises with size and what does not; nothing where there is nothing to compare."""
    said = ((found.rising, "rises from each size to the next"), (found.not_rising, "does not rise at every step"))
    return [f"{probe}: hits@{', @'.join(map(str, cuts))} {verdict}" for cuts, verdict in said if cuts]


def timing_table(lines: Sequence[Timing]) -> Table:
    columns = ("probe", "seconds/query", "± error", "intercept, s", "R²", "queries", "extrapolated, h", "± h")
    rows = tuple(
        (
            found.probe,
            found.line.slope,
            found.line.slope_error,
            found.line.intercept,
            found.line.r_squared,
            found.total,
            found.seconds / 3600,
            found.error / 3600,
        )
        for found in lines
    )
    return Table(columns, rows, "seconds = slope · queries + intercept, least squares", notes=(_points(lines),))


def _points(lines: Sequence[Timing]) -> str:
    return "measured (queries: seconds): " + "; ".join(
        f"{found.probe} " + ", ".join(f"{count}: {seconds:.1f}" for count, seconds in found.points) for found in lines
    )


def picture(path: Path, draw: Callable[[Any], None], x: str, y: str) -> Path | None:
    """A plot as PNG. :param draw: given matplotlib's axes. :returns: None where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


def draw_agreement(found: Agreement, path: Path) -> Path | None:
    """Every fact by its two ranks, both axes logarithmic; the lines stand at rank *k* (figure 7 of the DEER paper)."""

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in found.points], [y for _, _, y in found.points], s=6, alpha=0.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.axvline(found.k, color="grey", linewidth=0.8)
        axes.axhline(found.k, color="grey", linewidth=0.8)
        axes.set_title(f"r = {found.log_ranks.r:.3f} on log ranks")

    return picture(path, draw, f"rank by {found.first}", f"rank by {found.second}")


def draw_length_bias(found: LengthBias, path: Path) -> Path | None:
    """A box of ranks for each number of tokens (figure 9)."""

    def draw(axes: Any) -> None:
        lengths = [box.tokens for box in found.boxes]
        axes.boxplot(
            [[rank for _, tokens, rank in found.points if tokens == length] for length in lengths],
            positions=lengths,
            showfliers=False,
        )
        axes.set_title(f"{found.name}: r = {found.ranks.r:.3f}")

    return picture(path, draw, "tokens of the gold answer", "rank of the gold answer")


def draw_timing(found: Timing, path: Path) -> Path | None:
    """Seconds against queries with the fitted line (figure 5)."""

    def draw(axes: Any) -> None:
        counts = sorted({count for count, _ in found.points})
        axes.scatter([count for count, _ in found.points], [seconds for _, seconds in found.points], s=12)
        axes.plot(counts, [found.line.slope * count + found.line.intercept for count in counts], color="grey")
        axes.set_title(f"{found.probe}: R² = {found.line.r_squared:.3f}")

    return picture(path, draw, "queries", "seconds")

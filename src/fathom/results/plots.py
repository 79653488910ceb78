"""Pictures of tables and studies, drawn where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Plot(NamedTuple):
    """A picture to be drawn.

    :param name: of the file, without its ending.
    :param draw: given matplotlib's axes.
    :param x: label of the horizontal axis.
    :param y: label of the vertical axis.
    """

    name: str
    draw: Callable[[Any], None]
    x: str
    y: str


def save(plot: Plot, folder: Path) -> Path | None:
    """As PNG. :returns: the file; None where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    plot.draw(axes)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plot.name}.png"
    figure.savefig(path, dpi=150)
    return path

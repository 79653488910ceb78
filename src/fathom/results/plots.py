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
    :param title: above it, if any.
    """

    name: str
    draw: Callable[[Any], None]
    x: str
    y: str
    title: str = ""


def save(plot: Plot, folder: Path) -> Path | None:
    """As PNG. :returns: the file; None where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=plot.x, ylabel=plot.y, title=plot.title)
    plot.draw(axes)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plot.name}.png"
    figure.savefig(path, dpi=150)
    return path

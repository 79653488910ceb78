"""Pictures of tables and studies, drawn where matplotlib is installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from fathom.store.written import write_output


class Plot(NamedTuple):
    """A picture to be drawn.

    :param name: of the file, without its ending.
    :param draw: takes matplotlib's axes.
    :param x: label of the horizontal axis; *y* of the vertical one.
    """

    name: str
    draw: Callable[[Any], None]
    x: str
    y: str
    title: str = ""


def save(plot: Plot, folder: Path, overwrite: bool = False) -> Path | None:
    """Save a plot as PNG.

    :param overwrite: replace a file that Fathom did not write.
    :returns: the file; None if matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return None
    path, drawn = folder / f"{plot.name}.png", BytesIO()
    # Names of models and relations are no formulas, and may be in a script that the font lacks.
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure(figsize=(6, 5), layout="constrained")
        axes = figure.subplots()
        axes.set(xlabel=plot.x, ylabel=plot.y, title=plot.title)
        plot.draw(axes)
        figure.savefig(drawn, dpi=150, format="png")
    write_output(path, drawn.getvalue(), overwrite=overwrite)
    return path

"""Tables and plots as files; plots where matplotlib is installed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from fathom.results.tables import Table, render
from fathom.store.outputs import write_output


class Plot(NamedTuple):
    """A picture to be drawn.

    :param name: of the file, without its ending.
    :param x: label of the horizontal axis; *y* of the vertical one.
    """

    name: str
    draw: Callable[[Any], None]
    x: str
    y: str
    title: str = ""


class Panels(NamedTuple):
    """Several plots in one picture, in a grid about as wide as high. :param name: of the file, without its ending."""

    name: str
    plots: Sequence[Plot]


def save(picture: Plot | Panels, folder: Path, overwrite: bool = False) -> Path | None:
    """Save a picture as PNG.

    :returns: the file; None if matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return None
    path, drawn = folder / f"{picture.name}.png", BytesIO()
    plots = picture.plots if isinstance(picture, Panels) else [picture]
    columns = math.ceil(math.sqrt(len(plots)))
    rows = math.ceil(len(plots) / columns)
    # Names of models and relations are no formulas, and may be in a script that the font lacks.
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure(figsize=(6, 5) if len(plots) == 1 else (4 * columns, 3.5 * rows), layout="constrained")
        for place, plot in enumerate(plots, 1):
            axes = figure.add_subplot(rows, columns, place)
            axes.set(xlabel=plot.x, ylabel=plot.y)
            axes.set_title(plot.title, fontsize="large" if len(plots) == 1 else "small")
            plot.draw(axes)
            for axis in (axes.xaxis, axes.yaxis):
                if axis.get_scale() in ("log", "symlog"):  # its own labels are formulas
                    axis.set_major_formatter("{x:g}")
                    axis.set_minor_formatter("")
        figure.savefig(drawn, dpi=150, format="png")
    write_output(path, drawn.getvalue(), overwrite=overwrite)
    return path


def write_tables(
    tables_in: Callable[[str], Sequence[Table]],
    out: Path,
    name: str,
    answer: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write tables in each format as *name* into the folder *out*.

    :raises BadInput: such a file is in the way.
    """
    for ending in ("json", "csv", "md"):
        content = render(tables_in(ending), ending, answer) + "\n"
        write_output(out / f"{name}.{ending}", content, overwrite=overwrite)

"""Small tables, the six ways to print them, and their files and plots.

Text, Markdown, LaTeX and HTML are for reading: numbers are rounded, machine columns hidden, notes below. CSV and JSON
are for programs: every column, full precision, no notes.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

from rich.cells import cell_len

from fathom.base.errors import BadInput, MissingExtra, optional
from fathom.base.reading import first_few, shown
from fathom.results.formats import PERCENT, POINTS, format_value
from fathom.store.outputs import write_output

if TYPE_CHECKING:  # statistics are loaded where there are numbers
    import matplotlib.axes

    from fathom.results.estimates import Estimate

Cell = str | int | float | bool | None
Axes: TypeAlias = "matplotlib.axes.Axes"
"""Those of a plot; a name, as matplotlib is loaded where one is drawn."""

_NOTHING = "–"
WIDTH = 80
_WORDS = re.compile(r"[a-z0-9]+")
_MINUS = re.compile(r"(?<!\w)-(?=\d)")
_IN_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "–": "--", "−": "$-$", "×": r"$\times$"}
    | {"≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$", "·": r"$\cdot$"}
)


FORMULAS = ("=", "+", "@", "-", "\t", "\r")
"""Beginnings of what spreadsheets take for a formula."""


@dataclass(frozen=True)
class Table:
    """A table of results.

    :param formats: column → format of its floats for readers, such as ".1%"; by default ".4g".
    :param row_formats: one format per row instead, for tables whose rows are different quantities.
    :param hidden: columns for programs only.
    :param notes: lines below the table, for readers only.
    :param numbers: columns of estimates → the columns of their intervals, see :meth:`of`.
    :param recipe: how the numbers were computed; Markdown and LaTeX have it once, after all tables.
    :param inline: columns whose interval readers see in the cell of the value.
    :param labels: texts that readers see in place of a cell, such as the names of relations.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    row_formats: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    recipe: str = ""
    inline: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} cells for the {len(self.columns)} columns of '{self.title}'")

    @classmethod
    def of(
        cls,
        rows: Iterable[Mapping[str, Any] | Sequence[Any]],
        title: str = "",
        notes: Iterable[str] = (),
        *,
        columns: Sequence[str] = (),
        main: str = "",
        inline: bool = False,
        without_interval: Iterable[str] = (),
        hidden: Iterable[str] = (),
        formats: Mapping[str, str] = MappingProxyType({}),
    ) -> Table:
        """Make a table of rows: mappings of columns to cells, or the cells in the order of *columns*.

        A column of estimates becomes several: value, low, high, and p where zero is in question. Readers see the
        main column's interval in the cell of its value; programs see all, called "NAME low" but for the main column's.

        :param main: column of estimates; by default the only one.
        :param inline: show readers the intervals of the other columns as well.
        :param without_interval: columns of estimates that have none. :param hidden: columns that only programs see.
        :param formats: of columns of plain numbers; estimates have their own.
        """
        table = [row if isinstance(row, Mapping) else dict(zip(columns, row, strict=True)) for row in rows]
        columns = columns or list(dict.fromkeys(name for row in table for name in row))
        estimates = _estimates_of(table, columns)
        main = main or (next(iter(estimates)) if len(estimates) == 1 else "")
        numbers = {
            name: _interval_columns("" if name == main else f"{name} ", cells) if name not in without_interval else ()
            for name, cells in estimates.items()
        }
        secondary = [name for column, names in numbers.items() for name in (names[:2] if column == main else names)]
        every = [estimate for row in table for estimate in row.values() if _is_estimate(estimate)]
        return cls(
            (*(name for column in columns for name in (column, *numbers.get(column, ()))), "note", "recipe"),
            tuple(_body_row(row, columns, numbers) for row in table),
            title,
            _formats(estimates, numbers) | dict(formats),
            _row_formats(table, estimates),
            frozenset({"note", "recipe", *secondary, *hidden}),
            _with_legends(notes, every),
            numbers,
            _one_recipe(estimate.recipe for estimate in every),
            frozenset(numbers) & ({*numbers} if inline else {main}),
        )

    def without_empty(self, *names: str) -> Table:
        """Hide these columns, and their intervals, from readers where they are empty."""
        empty = {name for name in names if all(row[self.columns.index(name)] is None for row in self.rows)}
        return replace(self, hidden=self.hidden.union(empty, *(self.numbers.get(name, ()) for name in empty)))

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<Table {shown(self.title)}: {len(self.rows):,} rows of {first_few(self.columns)}>"

    def objects(self) -> list[dict[str, Cell]]:
        """Return one mapping per row; numbers that JSON cannot hold (NaN, infinity) as None."""
        return [dict(zip(self.columns, map(_finite, row), strict=True)) for row in self.rows]

    def _repr_html_(self) -> str:
        return to_html(self)


def _is_estimate(cell: object) -> TypeGuard[Estimate]:
    if not isinstance(cell, tuple):
        return False
    from fathom.results.estimates import Estimate  # loaded where there are numbers

    return isinstance(cell, Estimate)


def _estimates_of(table: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, list[Estimate]]:
    """Return the estimates of each column that has any, undefined ones last."""
    by_column = {name: [cell for row in table if _is_estimate(cell := row.get(name))] for name in columns}
    return {name: sorted(cells, key=lambda cell: math.isnan(cell.value)) for name, cells in by_column.items() if cells}


def _interval_columns(prefix: str, estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return the names of the columns after the value; p if zero is in question, as for a signed number."""
    tested = any(estimate.p_value is not None or estimate.form.startswith("+") for estimate in estimates)
    return (f"{prefix}low", f"{prefix}high", *([f"{prefix}p"] if tested else ()))


def _body_row(row: Mapping[str, Any], columns: Sequence[str], numbers: Mapping[str, Sequence[str]]) -> tuple[Cell, ...]:
    """Return the cells of a row with their intervals, then the notes and the recipe of its estimates."""
    values = [cell for name in columns for cell in _widened(row.get(name), numbers.get(name, ()))]
    of_row = [cell for cell in row.values() if _is_estimate(cell)]
    note = "; ".join(dict.fromkeys(estimate.note for estimate in of_row if estimate.note))
    return (*values, note, _one_recipe(estimate.recipe for estimate in of_row))


def _with_legends(notes: Iterable[str], estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return the notes, the sampling units of the intervals, and the notes of estimates that these lack."""
    from fathom.results.samples import legend

    in_points = any(re.fullmatch(r"\+.*%", cell.form) for cell in estimates)
    below = [
        *notes,
        *["differences in points"] * in_points,
        *map(legend, dict.fromkeys(cell.sample for cell in estimates if cell.low is not None and cell.sample)),
    ]
    further = dict.fromkeys(cell.note for cell in estimates)
    return tuple(filter(None, [*below, *(note for note in further if not any(note in text for text in below))]))


def _widened(cell: Any, names: Sequence[str]) -> list[Cell]:
    parts = (cell.value, cell.low, cell.high, cell.p_value) if _is_estimate(cell) else (cell, None, None, None)
    return [_finite(part) if _is_estimate(cell) else part for part in parts[: 1 + len(names)]]


def _formats(estimates: Mapping[str, Sequence[Estimate]], numbers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    formats: dict[str, str] = {}
    for name, cells in estimates.items():
        formats |= dict.fromkeys((name, *numbers[name][:2]), cells[0].form) | dict.fromkeys(numbers[name][2:], ".2g")
    return formats


def _row_formats(table: Sequence[Mapping[str, Any]], estimates: Mapping[str, Sequence[Estimate]]) -> tuple[str, ...]:
    """Return a format per row if the rows of a column are different quantities; else nothing."""
    mixed = [
        name
        for name, cells in estimates.items()
        if len({_unsigned(cell) for cell in cells if math.isfinite(cell.value)}) > 1
    ]
    cells = (row.get(mixed[0]) if mixed else None for row in table)
    return tuple(_unsigned(cell) if _is_estimate(cell) else ".4g" for cell in cells) if mixed else ()


def _unsigned(estimate: Estimate) -> str:
    return estimate.form.lstrip("+")


def _one_recipe(recipes: Iterable[str]) -> str:
    """Return what several recipes share once, and what differs side by side; "" without any."""
    from fathom.results.estimates import combined

    named = list(dict.fromkeys(recipe for recipe in recipes if recipe))
    names = dict.fromkeys(name for recipe in named for name in recipe.partition("|")[0].split(", "))
    return combined(", ".join(names), named, " or ") if len(named) > 1 else "".join(named)


class Tabular:
    """Results as tables. A class defines :attr:`tables`, or :meth:`tables_in` if formats differ."""

    @property
    def tables(self) -> list[Table]:
        """The tables for readers, in order."""
        return self.tables_in("text")

    @property
    def answer(self) -> list[str]:
        """Sentences that state the result, printed before the tables."""
        return []

    def __repr__(self) -> str:
        tables = first_few([f"{table.title or 'a table'} ({len(table.rows):,} rows)" for table in self.tables])
        return f"<{type(self).__name__}: {tables}; to_text() prints them>"

    def tables_in(self, form: str) -> list[Table]:
        """Return the tables of one format, more for programs. :param form: as for :func:`render`."""
        return self.tables

    def to_text(self) -> str:
        return render(self.tables_in("text"), "text", self.answer)

    def to_markdown(self) -> str:
        return render(self.tables_in("md"), "md", self.answer)

    def to_latex(self) -> str:
        """Return all tables in LaTeX, see :func:`to_latex`."""
        return render(self.tables_in("latex"), "latex", self.answer)

    def to_json(self) -> str:
        """Return all tables as one JSON object, title → rows."""
        return render(self.tables_in("json"), "json", self.answer)

    def _repr_html_(self) -> str:
        answer = "".join(f"<p>{_isolated(_plain(sentence))}</p>" for sentence in self.answer)
        return "\n".join([answer, *map(to_html, self.tables)])


def render(tables: Sequence[Table], form: str, answer: Sequence[str] = ()) -> str:
    """Render *tables* as "text", "md", "latex", "csv" or "json", separated by empty lines.

    As JSON they are one object, title → rows, with the sentences under "answer". Text has no recipes.

    :param answer: sentences that state the result; above the tables, not in CSV.
    :raises BadInput: another format.
    """
    if form == "json":
        first: dict[str, object] = {"answer": list(answer)} if answer else {}
        content = first | {table.title: table.objects() for table in tables}
        return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    printers = {"text": to_text, "md": to_markdown, "csv": to_csv, "latex": to_latex}
    if form not in printers:
        raise BadInput(f"there is no format '{form}': there is text, json, csv, md and latex")
    recipe = _one_recipe([table.recipe for table in tables])
    rendered = [printers[form](replace(table, recipe=table.recipe or recipe)).rstrip("\n") for table in tables]
    if answer and form != "csv":
        # Markdown ends a line with two blanks, LaTeX has comments.
        lines = {"text": _wrapped, "md": "{}  ".format, "latex": "% {}".format}[form]
        rendered.insert(0, "\n".join(lines(_plain(sentence)) for sentence in answer))
    if recipe and form in ("md", "latex"):
        rendered.append(f"{'% ' if form == 'latex' else ''}recipe: {_plain(recipe)}")
    return "\n\n".join(rendered)


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)) or line


def to_text(table: Table) -> str:
    """Align columns, numbers to the right, by the width of characters in a terminal.

    A table that is wider than :data:`WIDTH` breaks its header and texts between words.
    """
    header, body, right = _readable(table)
    cells = [[_parts(name, " _/-") for name in header], *([_parts(cell, " ") for cell in row] for row in body)]
    widths = _widths(cells)
    rows = [_lines(row, widths, right) for row in cells]
    lines = [table.title] if table.title else []
    lines += [*rows[0], "  ".join("─" * width for width in widths)] if header else []
    lines += [line for row in rows[1:] for line in row]
    return "\n".join([*lines, *(_wrapped(_plain(note)) for note in table.notes)])


def _parts(cell: str, after: str) -> list[str]:
    """Split a cell where its line may end: after these characters. An interval stays with its value."""
    return [cell] if cell.endswith(("]", PERCENT)) else re.split(f"(?<=[{after}])", cell)


def _widths(rows: Sequence[Sequence[Sequence[str]]]) -> list[int]:
    """Return the width of each column; in a wide table as little as fits, but at least that of its widest part."""
    columns = list(zip(*rows, strict=True))
    widths = [max(cell_len("".join(cell)) for cell in column) for column in columns]
    least = [max(cell_len(part.rstrip()) for cell in column for part in cell) for column in columns]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH and widths != least:
        widths[max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))] -= 1
    return widths


def _lines(row: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Return a row, on several lines if a cell is wider than its column."""
    broken = []
    for cell, width in zip(row, widths, strict=True):
        pieces = [""]
        for part in cell:
            if pieces[-1] and cell_len((pieces[-1] + part).rstrip()) > width:
                pieces.append("")
            pieces[-1] += part
        broken.append([line.rstrip() for line in pieces])
    lines = []
    for parts in zip_longest(*broken, fillvalue=""):
        spaces = (" " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True))
        padded = (space + part if end else part + space for part, space, end in zip(parts, spaces, right, strict=True))
        lines.append("  ".join(padded).rstrip())
    return lines


def to_markdown(table: Table) -> str:
    header, body, numeric = _readable(table)
    rule = ["---:" if right else "---" for right in numeric]
    cells = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in (header, *body)]
    lines = [f"**{table.title}**", ""] if table.title else []
    lines += ["| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:])]
    notes = [f"- {_plain(note)}" for note in table.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def to_latex(table: Table) -> str:
    """Write a table of the package booktabs, everything escaped; notes are comments.

    Caption and label are of its title, and of the models and data in its recipe.
    """
    from fathom.results.estimates import named_in

    header, body, numeric = _readable(table)
    lines = [r"\begin{table}", r"\centering"]
    about = {key: ", ".join(names) for key in ("model", "data") if (names := named_in(table.recipe, key))}
    if title := _plain(table.title):
        rest = "; ".join(f"{key}: {_plain(names)}" for key, names in about.items())
        caption = f"{title} ({rest})" if rest else title
        label = "-".join(_WORDS.findall(" ".join([*about.values(), title]).lower()))
        lines += [rf"\caption{{{caption.translate(_IN_LATEX)}}}", rf"\label{{tab:{label}}}"]
    lines += [rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}", r"\toprule"]
    lines += [_latex_line(header, [False] * len(header)), r"\midrule"]
    lines += [_latex_line(row, numeric) for row in body]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {_plain(note)}" for note in table.notes)])


def to_html(table: Table) -> str:
    """Write a scrollable table element with folded notes; everything escaped, names isolated from text direction."""
    header, body, numeric = _readable(table)
    heads = "".join(f'<th scope="col">{_isolated(cell)}</th>' for cell in header)
    lines = "\n".join(f"<tr>{''.join(map(_html_cell, row, numeric))}</tr>" for row in body)
    notes = "".join(f"<li>{_isolated(_plain(note))}</li>" for note in table.notes)
    title = html.escape(_plain(table.title))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{lines}</tbody></table></div>"
        + (f"<details><summary>Notes on {title or 'the table'}</summary><ul>{notes}</ul></details>" if notes else "")
    )


def _html_cell(cell: str, numeric: bool) -> str:
    return f'<td class="number">{html.escape(cell)}</td>' if numeric else f"<td>{_isolated(cell)}</td>"


def _isolated(text: str) -> str:
    return f"<bdi>{html.escape(text)}</bdi>"


def _latex_line(cells: Sequence[str], numeric: Sequence[bool]) -> str:
    """:param numeric: whether a cell is a number, perhaps with its interval, whose hyphens are minus signs."""
    pairs = zip(cells, numeric, strict=True)
    signed = (_MINUS.sub("−", cell) if number else cell for cell, number in pairs)
    texts = (cell.translate(_IN_LATEX) for cell in signed)
    # A line that begins with [ would be taken for an argument of the line break before it.
    return " & ".join(f"{{{cell}}}" if cell.startswith("[") else cell for cell in texts) + r" \\"


def to_csv(table: Table) -> str:
    """Write comma-separated values with a header; missing values are empty.

    Texts that a spreadsheet would run as formulas begin with an apostrophe, by which it shows them as they are.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_no_formula, table.columns))
    writer.writerows([_no_formula("" if _finite(cell) is None else cell) for cell in row] for row in table.rows)
    return file.getvalue()


def _no_formula(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _readable(table: Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return header and rows as text, and whether each column has numbers alone; without the hidden columns."""
    shown = [place for place, column in enumerate(table.columns) if column not in table.hidden]
    filled = [[row[place] for row in table.rows if row[place] is not None] for place in shown]
    numeric = [bool(cells) and all(isinstance(cell, int | float) for cell in cells) for cells in filled]
    body = []
    for row, of_row in zip(table.rows, table.row_formats or [""] * len(table.rows), strict=True):
        forms = [of_row or table.formats.get(name, ".4g") for name in table.columns]
        labelled = (table.labels.get(cell, cell) if isinstance(cell, str) else cell for cell in row)
        texts = [_text(cell, form) for cell, form in zip(labelled, forms, strict=True)]
        for place, name in enumerate(table.columns):
            if name in table.inline and table.numbers[name] and row[place + 1] is not None:
                low, high = (texts[place + end].removesuffix(PERCENT).lstrip("+") for end in (1, 2))
                texts[place] += f" [{low}, {high}]"
        body.append([texts[place] for place in shown])
    return [table.columns[place] for place in shown], body, numeric


def _text(cell: Cell, form: str) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return _NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return format_value(cell, form).removesuffix(POINTS) if isinstance(cell, float) else _plain(str(cell))


def _plain(text: str) -> str:
    """Put text on one line, without control characters: names come from files, and could steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


# --- tables and plots as files


PICTURES: Mapping[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "png": {}, "svg": {"Date": None}}
"""Endings of pictures, and the metadata that would differ each time."""


class Plot(NamedTuple):
    """A picture to be drawn.

    :param name: of the file, without its ending.
    :param x: label of the horizontal axis; *y* of the vertical one.
    :param height: in inches, if it is the only one in its file.
    """

    name: str
    draw: Callable[[Axes], None]
    x: str
    y: str
    title: str = ""
    height: float = 5


class Panels(NamedTuple):
    """Several plots in one picture, in a grid about as wide as high. :param name: of the file, without its ending."""

    name: str
    plots: Sequence[Plot]


def save(
    picture: Plot | Panels, folder: Path, overwrite: bool = False, labels: Mapping[str, str] | None = None
) -> Path | None:
    """Save a picture as PNG.

    :param labels: what marks on an axis are called, if not by their own text.
    :returns: the file; None if matplotlib is not installed.
    """
    path = folder / f"{picture.name}.png"
    try:
        write_picture(picture, path, overwrite, labels)
    except MissingExtra:
        return None
    return path


def write_picture(
    picture: Plot | Panels, path: Path, overwrite: bool = False, labels: Mapping[str, str] | None = None
) -> None:
    """Write a picture in the format of the file's ending. The same picture gives the same bytes.

    :param labels: as in :func:`save`.
    :raises BadInput: another ending than those of :data:`PICTURES`, or a file is in the way.
    :raises MissingExtra: matplotlib is not installed.
    """
    ending = path.suffix.removeprefix(".").lower()
    if ending not in PICTURES:
        raise BadInput(f"{path}: expected a file that ends in .{', .'.join(PICTURES)}")
    optional("matplotlib", "report")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = BytesIO()
    plots = picture.plots if isinstance(picture, Panels) else [picture]
    columns = math.ceil(math.sqrt(len(plots)))
    rows = math.ceil(len(plots) / columns)
    # Names of models and relations are no formulas, and may be in a script that the font lacks. Publishers refuse the
    # fonts that matplotlib embeds by default (type 3).
    with (
        rc_context({"text.parse_math": False, "pdf.fonttype": 42, "svg.hashsalt": "fathom"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        size = (6, plots[0].height) if len(plots) == 1 else (4 * columns, 3.5 * rows)
        figure = Figure(figsize=size, layout="constrained")
        for place, plot in enumerate(plots, 1):
            axes = figure.add_subplot(rows, columns, place)
            axes.set(xlabel=plot.x, ylabel=plot.y)
            axes.set_title(plot.title, fontsize="large" if len(plots) == 1 else "small")
            plot.draw(axes)
            for axis in (axes.xaxis, axes.yaxis):
                marks = [mark.get_text() for mark in axis.get_ticklabels()]
                if labels and not labels.keys().isdisjoint(marks):
                    axis.set_ticklabels([labels.get(mark, mark) for mark in marks])
                if axis.get_scale() in ("log", "symlog"):  # its own labels are formulas
                    axis.set_major_formatter("{x:g}")
                    axis.set_minor_formatter("")
        figure.savefig(drawn, dpi=150, format=ending, metadata=PICTURES[ending])
    write_output(path, drawn.getvalue(), overwrite=overwrite)


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

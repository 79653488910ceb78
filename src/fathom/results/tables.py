"""Small tables, and the six ways to print them.

Text, Markdown, LaTeX and HTML are for reading: numbers are rounded, machine columns hidden, notes below. CSV and JSON
are for programs: every column, full precision, no notes.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from rich.cells import cell_len

from fathom.errors import BadInput
from fathom.reading import shown, some_of

if TYPE_CHECKING:  # statistics are loaded where there are numbers
    from fathom.results.estimates import Estimate

Cell = str | int | float | bool | None

_NOTHING = "–"
WIDTH = 80
_IN_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "–": "--", "−": "$-$", "×": r"$\times$"}
    | {"≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$", "·": r"$\cdot$"}
)


@dataclass(frozen=True)
class Table:
    """:param formats: column → format of its floats when printed to be read, e.g. ".1%"; ".4g" where not named.
    :param row_formats: one format per row instead, for tables whose rows are different quantities.
    :param hidden: columns for programs only.
    :param notes: lines below the table, for readers only.
    :param numbers: columns of estimates → the columns of their intervals, see :meth:`of`.
    :param recipe: how the numbers were made; readers see it once, after all tables.
    :param inline: columns whose interval readers see in the cell of the value."""

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
        """Make a table of rows, each a mapping of columns to cells, or the cells in the order of *columns*.

        A column of estimates becomes several: value, low, high, and p where zero is in question. Readers see the
        main column's interval in the cell of its value; programs see all, called "NAME low" but for the main column's.

        :param main: column of estimates; by default the only one.
        :param inline: show readers the intervals of the other columns as well.
        :param without_interval: columns of estimates that have none.
        :param hidden: columns that only programs see.
        :param formats: of columns of plain numbers; estimates have their own.
        """
        from fathom.results.samples import legend

        table: list[Mapping[str, Any]] = [
            row if isinstance(row, Mapping) else dict(zip(columns, row, strict=True)) for row in rows
        ]
        columns = columns or list(dict.fromkeys(name for row in table for name in row))
        estimates = {name: own for name in columns if (own := _estimates(table, name))}
        main = main or (next(iter(estimates)) if len(estimates) == 1 else "")
        numbers = {
            name: _interval_columns("" if name == main else f"{name} ", own) if name not in without_interval else ()
            for name, own in estimates.items()
        }
        every = [one for row in table for one in row.values() if _is_estimate(one)]
        body = []
        for row in table:
            cells = [cell for name in columns for cell in _widened(row.get(name), numbers.get(name))]
            own = [cell for cell in row.values() if _is_estimate(cell)]
            body.append((*cells, "; ".join(dict.fromkeys(one.note for one in own if one.note)), _made(own)))
        secondary = [name for other, names in numbers.items() for name in (names[:2] if other == main else names)]
        below = [*notes, *map(legend, dict.fromkeys(one.sample for one in every if one.low is not None))]
        below += [note for note in dict.fromkeys(one.note for one in every) if not any(note in own for own in below)]
        return cls(
            (*(name for column in columns for name in (column, *numbers.get(column, ()))), "note", "recipe"),
            tuple(body),
            title,
            _formats(estimates, numbers) | dict(formats),
            _row_formats(table, estimates),
            frozenset({"note", "recipe", *secondary, *hidden}),
            tuple(filter(None, below)),
            numbers,
            _made(every),
            frozenset(numbers) & ({*numbers} if inline else {main}),
        )

    def without_empty(self, *names: str) -> Table:
        """Readers do not see those of these columns in which nothing stands; programs do."""
        at = {name: self.columns.index(name) for name in names}
        empty = {name for name, place in at.items() if all(row[place] is None for row in self.rows)}
        beside = {other for name in empty for other in self.numbers.get(name, ())}
        return replace(self, hidden=self.hidden | empty | beside)

    def __repr__(self) -> str:
        return f"<Table {shown(self.title)}: {len(self.rows):,} rows of {some_of(self.columns)}>"

    def objects(self) -> list[dict[str, Cell]]:
        """One mapping per row; numbers that JSON cannot hold (NaN, infinity) as None."""
        return [dict(zip(self.columns, map(_finite, row), strict=True)) for row in self.rows]

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return to_html(self)


def _estimates(table: Sequence[Mapping[str, Any]], name: str) -> list[Estimate]:
    """Return the estimates of a column, those with a value first."""
    own = [cell for row in table if _is_estimate(cell := row.get(name))]
    return sorted(own, key=lambda one: math.isnan(one.value))


def _is_estimate(cell: object) -> TypeGuard[Estimate]:
    return isinstance(cell, tuple)  # its class is loaded where there are numbers


def _interval_columns(prefix: str, estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return the names of the columns after the value; p if zero is in question, as for a signed number."""
    tested = any(one.p_value is not None or one.form.startswith("+") for one in estimates)
    return (f"{prefix}low", f"{prefix}high", *([f"{prefix}p"] if tested else ()))


def _widened(cell: Any, names: Sequence[str] | None) -> list[Cell]:
    if not _is_estimate(cell):
        return [cell, *(None for _ in names or ())]
    return [_finite(part) for part in (cell.value, cell.low, cell.high, cell.p_value)][: 1 + len(names or ())]


def _formats(estimates: Mapping[str, Sequence[Estimate]], numbers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the format of each column of estimates and of its interval."""
    found: dict[str, str] = {}
    for name, own in estimates.items():
        found |= dict.fromkeys((name, *numbers[name][:2]), own[0].form) | dict.fromkeys(numbers[name][2:], ".2g")
    return found


def _row_formats(table: Sequence[Mapping[str, Any]], estimates: Mapping[str, Sequence[Estimate]]) -> tuple[str, ...]:
    """Return a format per row if the rows of a column are different quantities; else nothing."""
    mixed = [name for name, own in estimates.items() if len({_unsigned(o) for o in own if math.isfinite(o.value)}) > 1]
    cells = (row.get(mixed[0]) if mixed else None for row in table)
    return tuple(_unsigned(cell) if _is_estimate(cell) else ".4g" for cell in cells) if mixed else ()


def _unsigned(one: Estimate) -> str:
    return one.form.lstrip("+")


def _made(numbers: Sequence[Estimate]) -> str:
    """One recipe of several numbers, "" of none."""
    from fathom.results.recipes import combined

    recipes = [number.recipe for number in numbers if number.recipe]
    names = dict.fromkeys(line.partition("|")[0] for line in recipes)
    return combined(", ".join(names), recipes, " or ") if recipes else ""


class Tabled(ABC):
    """What was found, told as tables."""

    @property
    @abstractmethod
    def tables(self) -> list[Table]:
        """To be read, in the order in which they are printed."""

    @property
    def answer(self) -> list[str]:
        """Sentences that say what was found, printed before the tables."""
        return []

    def __repr__(self) -> str:
        """What there is to see, not all of it: a notebook shows the tables, elsewhere ``print(….to_text())`` does."""
        there = some_of([f"{table.title or 'a table'} ({len(table.rows):,} rows)" for table in self.tables])
        return f"<{type(self).__name__}: {there}; to_text() tells them>"

    def tables_in(self, form: str) -> list[Table]:
        """Those of one format; for programs there may be more. :param form: as :func:`render` takes it."""
        return self.tables

    def to_text(self) -> str:
        """All tables."""
        return render(self.tables_in("text"), "text", self.answer)

    def to_markdown(self) -> str:
        """All tables."""
        return render(self.tables_in("md"), "md", self.answer)

    def to_latex(self) -> str:
        """All tables, see :func:`to_latex`."""
        return render(self.tables_in("latex"), "latex", self.answer)

    def to_json(self) -> str:
        """All tables as one object, title → rows."""
        return render(self.tables_in("json"), "json", self.answer)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        answer = "".join(f"<p>{_isolated(_plain(sentence))}</p>" for sentence in self.answer)
        return "\n".join([answer, *map(to_html, self.tables)])


def render(tables: Sequence[Table], form: str, answer: Sequence[str] = ()) -> str:
    """Render *tables* as "text", "md", "latex", "csv" or "json", separated by empty lines.

    As JSON they are one object, title → rows, with the sentences under "answer".

    :param answer: sentences that say what was found; above the tables, left out of CSV.

    :raises BadInput: another format.
    """
    if form == "json":
        first: dict[str, object] = {"answer": list(answer)} if answer else {}
        return _dump(first | {table.title: table.objects() for table in tables})
    printers = {"text": to_text, "md": to_markdown, "csv": to_csv, "latex": to_latex}
    if form not in printers:
        raise BadInput(f"there is no format '{form}': there is text, json, csv, md and latex")
    rendered = [printers[form](table).rstrip("\n") for table in tables]
    if form != "csv":
        recipe = _one_recipe([table.recipe for table in tables])
        rendered = [*(["\n".join(_line_of_text(one, form) for one in answer)] if answer else []), *rendered]
        rendered += [f"{'% ' if form == 'latex' else ''}recipe: {_plain(recipe)}"] if recipe else []
    return "\n\n".join(rendered)


def _one_recipe(recipes: Sequence[str]) -> str:
    """Return what several tables share once, and what differs side by side."""
    from fathom.results.recipes import combined

    named = list(dict.fromkeys(recipe for recipe in recipes if recipe))
    names = dict.fromkeys(name for recipe in named for name in recipe.partition("|")[0].split(", "))
    return combined(", ".join(names), named, " or ") if len(named) > 1 else "".join(named)


def _line_of_text(text: str, form: str) -> str:
    """Return a sentence as a reader's format shows it: Markdown ends a line with two blanks, LaTeX has comments."""
    plain = _plain(text)
    if form == "text":
        return _wrapped(plain)
    return f"{plain}  " if form == "md" else f"% {plain}"


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)) or line


def to_text(table: Table) -> str:
    """Aligned columns, numbers to the right, wide characters counted as the terminal shows them."""
    header, body = _readable(table)
    widths = [max(map(cell_len, column)) for column in zip(header, *body, strict=True)]
    right = _numeric(table)
    lines = [table.title] if table.title else []
    lines += [_line(header, widths, right), "  ".join("─" * width for width in widths)] if header else []
    lines += [_line(row, widths, right) for row in body]
    return "\n".join([*lines, *(_wrapped(_plain(note)) for note in table.notes)])


def to_markdown(table: Table) -> str:
    """A pipe table, its title in bold above, its notes as a list below."""
    header, body = _readable(table)
    rule = ["---:" if right else "---" for right in _numeric(table)]
    cells = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in (header, *body)]
    lines = [f"**{table.title}**", ""] if table.title else []
    lines += ["| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:])]
    notes = [f"- {_plain(note)}" for note in table.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def to_latex(table: Table) -> str:
    """A tabular of the package booktabs, everything escaped; its title and its notes as comments above and below, so
    that the numbers' recipes stay with them."""
    header, body = _readable(table)
    numeric = _numeric(table)
    lines = [f"% {_plain(table.title)}"] if table.title else []
    lines += [rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}", r"\toprule"]
    lines += [_latex_line(header, [False] * len(header)), r"\midrule"]
    lines += [_latex_line(row, numeric) for row in body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {_plain(note)}" for note in table.notes)])


def to_html(table: Table) -> str:
    """A table element in a box that scrolls, its title as the caption, its notes below, opened at a click; everything
    escaped, names in either direction kept apart from what stands beside them."""
    header, body = _readable(table)
    numeric = _numeric(table)
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
    """:param numeric: whether a cell is a number, whose hyphen is a minus."""
    signed = [
        f"−{cell[1:]}" if number and cell.startswith("-") else cell for cell, number in zip(cells, numeric, strict=True)
    ]
    # A line that begins with [ would be taken for an argument of the line break before it.
    return " & ".join(f"{{{cell}}}" if cell.startswith("[") else cell for cell in map(_latex, signed)) + r" \\"


def _latex(text: str) -> str:
    return text.translate(_IN_LATEX)


def to_csv(table: Table) -> str:
    """Comma-separated with a header line; what is missing is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if _finite(cell) is None else cell for cell in row] for row in table.rows)
    return file.getvalue()


def to_json(table: Table) -> str:
    """A list of objects, one per row."""
    return _dump(table.objects())


def _dump(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _shown(table: Table) -> list[int]:
    return [place for place, column in enumerate(table.columns) if column not in table.hidden]


def _readable(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text, without the hidden columns."""
    shown = _shown(table)
    body = []
    for row, of_row in zip(table.rows, table.row_formats or [""] * len(table.rows), strict=True):
        forms = [of_row or table.formats.get(name, ".4g") for name in table.columns]
        texts = [_text(cell, form) for cell, form in zip(row, forms, strict=True)]
        for place, name in enumerate(table.columns):
            if name in table.inline and table.numbers[name] and row[place + 1] is not None:
                texts[place] += f" [{texts[place + 1].rstrip('%')}, {texts[place + 2].rstrip('%')}]"
        body.append([texts[place] for place in shown])
    return [table.columns[place] for place in shown], body


def _text(cell: Cell, form: str) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return _NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return format(cell, form) if isinstance(cell, float) else _plain(str(cell))


def _plain(text: str) -> str:
    """On one line and without control characters: names come from files, and could steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _numeric(table: Table) -> list[bool]:
    """Whether each shown column holds numbers alone."""
    columns = [[row[place] for row in table.rows if row[place] is not None] for place in _shown(table)]
    return [all(isinstance(cell, int | float) for cell in column) and bool(column) for column in columns]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if to_right else cell + space)
    return "  ".join(padded).rstrip()

"""How commands print tables and notes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fathom.reading.files import printable

if TYPE_CHECKING:
    from fathom.results.tables import Table, Tabled


class TableFormat(StrEnum):
    """For reading: text, md, latex. For programs: json, csv."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MD = "md"
    LATEX = "latex"


def show(tables: Sequence[Table], format: TableFormat = TableFormat.TEXT, answer: Sequence[str] = ()) -> None:
    """Print *tables* to standard output, after the sentences of *answer*."""
    from fathom.results.tables import render

    typer.echo(render(tables, str(format), answer))


def tell(tables: Sequence[Table], format: TableFormat, out: Path | None, name: str, answer: Sequence[str] = ()) -> None:
    """Print *tables* after the sentences of *answer*, and keep both in every form as *name* in the folder *out*."""
    if out is not None:
        keep(lambda form: tables, out, name, answer)
    show(tables, format, answer)


def tell_in_forms(found: Tabled, format: TableFormat, out: Path | None, name: str) -> None:
    """:func:`tell` of what may have other tables for programs than for readers."""
    if out is not None:
        keep(found.tables_in, out, name, found.answer)
    show(found.tables_in(format), format, found.answer)


def keep(tables_in: Callable[[str], Sequence[Table]], out: Path, name: str, answer: Sequence[str] = ()) -> None:
    """Write tables in every form as *name* into the folder *out*. :param tables_in: given a format."""
    from fathom.results.tables import render
    from fathom.store.files import write_text

    for ending in ("json", "csv", "md"):
        write_text(out / f"{name}.{ending}", render(tables_in(ending), ending, answer) + "\n")


def notes(lines: Iterable[str]) -> None:
    """Print what a reader of the numbers should know to standard error, where it does not disturb a program."""
    for line in lines:
        say(f"note: {line}", err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print lines without signs that steer a terminal, which names in data may hold."""
    # While a bar is drawn, what stands for either stream writes above it: Typer would see through that.
    stream, own = (sys.stderr, sys.__stderr__) if err else (sys.stdout, sys.__stdout__)
    typer.echo("\n".join(map(printable, text.split("\n"))), file=None if stream is own else stream, err=err)

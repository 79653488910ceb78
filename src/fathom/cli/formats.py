"""Printing and writing of tables and notes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer
from pydantic import field_validator

from fathom.base.options import Group, opt
from fathom.base.reading.files import printable
from fathom.base.reading.objects import Declared

if TYPE_CHECKING:
    from fathom.results.tables import Table, Tabular

Overwrite = Annotated[bool, opt(False, "Replace files that Fathom did not write.", Group.OUTPUT)]


Log = Annotated[
    Literal["tensorboard", "mlflow", "wandb"] | None,
    opt(None, "Also log finished runs, offline unless the tracker's own settings name a server.", Group.OUTPUT),
]


FILES = ("text", "txt", "json", "csv", "md", "latex", "tex")
"""Endings of a file that holds one table."""


class PrintOptions(Declared):
    """Format of printed tables: text, md and latex for reading, json and csv for programs."""

    group: ClassVar = Group.OUTPUT

    format: Literal["text", "json", "csv", "md", "latex"] = opt("text", "Format of the tables.")

    @property
    def is_for_programs(self) -> bool:
        """Whether programs read standard output, which then has the tables alone."""
        return self.format != "text"

    def show(self, tables: Sequence[Table], answer: Sequence[str] = ()) -> None:
        """Print *tables* to standard output, after the sentences of *answer*."""
        from fathom.results.tables import render

        typer.echo(render(tables, self.format, answer))


class TableOptions(PrintOptions):
    """Format of printed tables, and a folder for files."""

    out: Path | None = opt(None, "Folder for the tables as JSON, CSV and Markdown.")
    overwrite: Overwrite = False

    @field_validator("out")
    @classmethod
    def _no_file(cls, out: Path | None) -> Path | None:
        if out is not None and out.suffix.removeprefix(".") in FILES and not out.is_dir():
            raise ValueError(f"expected a folder, found {out}; for a file: --format … > {out}")
        return out

    def present(self, result: Tabular, name: str) -> None:
        """Print a result, whose tables may depend on the format, and write it as *name* in each format."""
        self.write(result, name)
        self.show(result.tables_in(self.format), result.answer)

    def write(self, result: Tabular, name: str) -> None:
        """Write a result as *name* in each format, if a folder is given."""
        from fathom.results.tables import write_tables

        if self.out is not None:
            write_tables(result.tables_in, self.out, name, result.answer, self.overwrite)


def breakdown_command(
    run: Path, keys: Collection[str], wanted: Sequence[str] = ("relation", "cardinality", "domain", "template")
) -> str:
    """Return the command that breaks a run down by the *wanted* keys that it has."""
    return f"fathom metrics {run} --by {','.join(key for key in wanted if key in keys)}"


def notes(lines: Iterable[str]) -> None:
    """Print notes to standard error, where programs do not read them."""
    for line in lines:
        say(f"note: {line}", err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print lines without control characters, which names in data may contain."""
    # While a bar is drawn, either stream is replaced by one that writes above the bar. Typer would bypass it.
    stream, original = (sys.stderr, sys.__stderr__) if err else (sys.stdout, sys.__stdout__)
    typer.echo("\n".join(map(printable, text.split("\n"))), file=None if stream is original else stream, err=err)


def say_unfinished(out: Path, state: str, *, err: bool = False) -> None:
    """Report how much is finished, and what finishes the rest. :param state: such as "3 of 5 runs"."""
    rest = "other parts may be at work on the rest: the same command without --part finishes it"
    say(f"written to {out}: {state}; {rest}", err=err)

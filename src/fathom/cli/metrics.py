"""``fathom metrics RUN``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.flags import Printed
from fathom.cli.formats import Format, notes
from fathom.cli.options import alone
from fathom.errors import BadInput
from fathom.options import Group


def make(does: str) -> typer.Typer:
    """``fathom metrics``"""
    return alone(does, "fathom metrics runs/gpt2 --by relation,template --errors 5", metrics)


def metrics(
    run: Path = typer.Argument(..., help="Folder of a run."),
    by: str = typer.Option(
        "",
        help="Break down by relation, cardinality, domain, template, …: one table each; a+b crosses two.",
        rich_help_panel=Group.SELECTION,
    ),
    errors: int = typer.Option(
        0, min=0, help="Also list this many of the most confident wrong answers.", rich_help_panel=Group.SELECTION
    ),
    reliability: bool = typer.Option(
        False,
        help="Also show how often the model is right at each level of confidence.",
        rich_help_panel=Group.SELECTION,
    ),
    groups: Path | None = typer.Option(
        None,
        help="JSON Lines with query_id and fields to break down by, e.g. planted.jsonl of a planted model.",
        rich_help_panel=Group.DATA,
    ),
    format: Printed = Format.TEXT,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write to this file instead of the screen.", rich_help_panel=Group.OUTPUT
    ),
) -> None:
    """Print the tables of a run, or write them to a file.

    Unscored queries are counted, never averaged.
    """
    from fathom.results.summary import error_table, reliability_table, summarise
    from fathom.results.tables import render
    from fathom.store.files import write_text
    from fathom.store.folder import RunFolder

    folder = RunFolder.open(run)
    if groups is not None:
        folder = folder.grouped_by(groups)
    tables = list(summarise(folder, [name for name in by.split(",") if name.strip()]).tables)
    if reliability:
        tables.append(reliability_table(folder))
    if errors:
        tables.append(error_table(folder, errors))
    if format is Format.CSV and len(tables) > 1:
        tables = tables[1:]  # the headline has other columns
        if len(tables) > 1:
            raise BadInput("a CSV file holds one table: ask for one breakdown (a+b crosses two), or for --format json")
    text = render(tables, str(format))
    if not folder.is_complete():
        notes([f"{run} is unfinished: numbers are of the finished part only"])
    if output is None:
        typer.echo(text)
    else:
        write_text(output, text + "\n")

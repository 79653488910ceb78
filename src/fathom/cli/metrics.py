"""``fathom metrics RUN``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fathom.cli.flags import Printed
from fathom.cli.formats import TableFormat, notes, say
from fathom.cli.options import alone, option
from fathom.errors import BadInput
from fathom.options import CLUSTER, Group

if TYPE_CHECKING:
    from fathom.results.tables import Table


def make(does: str) -> typer.Typer:
    """``fathom metrics``"""
    return alone(does, "fathom metrics runs/gpt2 --by relation,template --errors 5", metrics)


def metrics(
    run: Path = typer.Argument(..., help="Folder of a run."),
    by: str = option(
        Group.SELECTION,
        "One table by each of relation, cardinality, domain, template, …; a+b crosses two; popularity:10 takes ten "
        "bins.",
        default="",
    ),
    errors: int = option(Group.SELECTION, "Also list this many of the most confident wrong answers.", default=0, min=0),
    reliability: bool = option(
        Group.SELECTION, "Also show how often the model is right at each level of confidence.", default=False
    ),
    consistency: str | None = option(
        Group.SELECTION,
        "Also show how alike the answers to one fact are in each two of these: template, language, prompt, or another "
        "key.",
        default=None,
    ),
    groups: Path | None = option(
        Group.DATA,
        "JSON Lines with query_id and fields to break down by, e.g. planted.jsonl of a planted model.",
        default=None,
    ),
    every: bool = option(Group.OUTPUT, "Show every metric, not only the usual ones.", "--all", default=False),
    cluster: str = option(Group.OUTPUT, CLUSTER, default=""),
    format: Printed = TableFormat.TEXT,
    output: Path | None = option(
        Group.OUTPUT, "Write to this file instead of the screen.", "--output", "-o", default=None
    ),
) -> None:
    """Print the tables of a run, or write them to a file.

    Unscored queries are counted, never averaged.
    """
    from fathom.results.answers import error_table, reliability_table
    from fathom.results.consistency import consistency_table
    from fathom.results.summary import summarise
    from fathom.results.tables import render
    from fathom.store.files import write_text
    from fathom.store.folder import RunFolder

    folder = RunFolder.open(run)
    if groups is not None:
        folder = folder.grouped_by(groups)
    found = summarise(folder, [name for name in by.split(",") if name.strip()], cluster, every)
    tables = found.tables_in(str(format))
    tables += [consistency_table(folder, consistency, cluster)] if consistency else []
    tables += [reliability_table(folder)] if reliability else []
    tables += [error_table(folder, errors)] if errors else []
    text = render(_one_of(tables) if format is TableFormat.CSV else tables, str(format), found.answer)
    if not folder.is_complete():
        notes([f"{run} is unfinished: numbers are of the finished part only"])
    if output is None:
        say(text)
    else:
        write_text(output, text + "\n")


def _one_of(tables: list[Table]) -> list[Table]:
    """The breakdown, where there is one: the headline has other columns. :raises BadInput: there are several."""
    if len(tables) > 2:
        raise BadInput("a CSV file holds one table: ask for one breakdown (a+b crosses two), or for --format json")
    return tables[-1:]

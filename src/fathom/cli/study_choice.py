"""``fathom study choice RUN…``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.cli.tables import tell


def choice(
    runs: list[Path] = typer.Argument(
        help="Folders of runs on multiple-choice data: memorising tasks, rules, or both; of one model or several."
    ),
    out: Path | None = typer.Option(None, help="Folder for the tables."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
) -> None:
    """Does a model know, and does it reason? Accuracy by task, and by rule with the premise remembered or given."""
    from fathom.errors import all_of
    from fathom.store.folder import RunFolder
    from fathom.studies.choice import choice as study
    from fathom.studies.choice_tables import choice_tables

    opened = all_of(*((lambda path=path: RunFolder.open(path)) for path in runs))
    tell(choice_tables(study(opened)), format, out, "choice")
    for run in opened:
        if not run.is_complete():
            typer.echo(f"note: {run.path} is unfinished: numbers are of the finished part only", err=True)

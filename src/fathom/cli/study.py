"""``fathom study ablation``"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fathom.cli.formats import Format
from fathom.cli.options import merge, with_flags
from fathom.probes.options import StatementOptions

app = typer.Typer(help="Plans of runs, and questions to them.", no_args_is_help=True)


def _ablation(
    model: str = typer.Option(..., help="Name or folder of a transformers model."),
    data: str = typer.Option(..., help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(
        ..., help="Folder for the runs and the tables. The same command goes on where it stopped."
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
    **given: Any,
) -> None:
    """Does it matter how statements are scored? Sum or mean, full or conditional, and the masking variants, paired."""
    from fathom.api import parse_options
    from fathom.data.formats import read
    from fathom.models.loading import load
    from fathom.report.ablation import ablation_tables
    from fathom.report.tables import render
    from fathom.store.files import write_text
    from fathom.studies.ablation import ablation

    options = parse_options(StatementOptions, merge(config, given))
    found = ablation(load(model, **options.loading()), read(data), options, out, _announced)
    tables = ablation_tables(found)
    for ending in ("json", "csv", "md"):
        write_text(out / f"ablation.{ending}", render(tables, ending) + "\n")
    typer.echo(render(tables, str(format)))


def _announced(name: str) -> Callable[[int, int], None]:
    console = Console(stderr=True)

    def tell(done: int, total: int) -> None:
        if console.is_terminal:
            console.print(f"{name}: {done}/{total} shards", end="\r")

    return tell


app.command("ablation")(with_flags(_ablation, StatementOptions, without=("reduction", "score", "pll")))
app.callback()(lambda: None)

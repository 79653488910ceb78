"""``fathom demo``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.options import stoppable


def demo(out: Path = typer.Option(Path("demo"), help="Folder for the two models and their runs.")) -> None:
    """See it work offline, in minutes: two small models learn half of a geography book; a probe tells which half."""
    from fathom.formats import read
    from fathom.studies.demo import ask, text

    with stoppable():
        lines = ask(read("geography"), out, lambda line: typer.echo(line, err=True))
    typer.echo(text(lines, out))

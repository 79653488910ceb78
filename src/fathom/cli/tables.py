"""What the commands of ``fathom study`` share: lists of names, and tables printed and kept in every form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.results.tables import Table, render


def split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def tell(tables: list[Table], format: Format, out: Path | None, name: str) -> None:
    """Print, and keep in every form."""
    from fathom.store.files import write_text

    if out is not None:
        for ending in ("json", "csv", "md"):
            write_text(out / f"{name}.{ending}", render(tables, ending) + "\n")
    typer.echo(render(tables, str(format)))


def keep(path: Path, table: Table) -> None:
    from fathom.store.files import write_text

    write_text(path, render([table], "csv") + "\n")


def draw(make: Callable[[], object]) -> None:
    """:param make: gives None where it cannot draw."""
    if make() is None:
        typer.echo("no picture: pip install 'fathom-lm[report]' draws one", err=True)

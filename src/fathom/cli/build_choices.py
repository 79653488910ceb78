"""``fathom build choices --data ONTOLOGY --out DIR``"""

from __future__ import annotations

from pathlib import Path

import typer


def choices(
    data: str = typer.Option(..., help="Folder of an ontology: OntoProbe's, or what fathom build ontology made."),
    out: Path = typer.Option(..., help="Folder of the data set; must not exist yet."),
    options: int = typer.Option(20, min=2, max=26, help="Options of each question: the right one and others."),
    subset: str = typer.Option("test", help="Part of the ontology's items to ask."),
    seed: int = typer.Option(0, min=0, help="Another seed draws other options in another order."),
) -> None:
    """Multiple choice from an ontology: what a model remembers, and what it concludes about X and Y."""
    from fathom.building.choices import build_choices

    for name, count in build_choices(data, out, options, seed, subset).items():
        typer.echo(f"{name}: {count}")
    typer.echo(f"written to {out}; to ask it: fathom probe choice --data {out} --model …")

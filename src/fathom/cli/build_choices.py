"""``fathom build choices --data ONTOLOGY --out DIR``"""

from __future__ import annotations

import typer

from fathom.cli.flags import NewFolder, Seed
from fathom.cli.options import option
from fathom.options import Group


def choices(
    out: NewFolder,
    data: str = option(Group.DATA, "Folder of an ontology: OntoProbe's, or one made by fathom build ontology."),
    options: int = option(
        Group.PROMPTS, "Options of each question: the right one and others.", default=20, min=2, max=26
    ),
    subset: str = option(Group.SELECTION, "Part of the ontology's items to ask about.", default="test"),
    seed: Seed = 0,
) -> None:
    """Make multiple-choice questions from an ontology: what a model remembers, and what it infers about X and Y."""
    from fathom.building.choices import build_choices

    for name, count in build_choices(data, out, options, seed, subset).items():
        typer.echo(f"{name}: {count}")
    typer.echo(f"written to {out}; to ask it: fathom probe choice --data {out} --model …")

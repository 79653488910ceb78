"""``fathom build cloze`` and ``fathom build review``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fathom.building.cloze.options import ClozeOptions
from fathom.cli.formats import Format
from fathom.cli.options import merge, with_flags
from fathom.cli.progress import progress_bar


def _cloze(
    inputs: list[Path] = typer.Option(
        ...,
        "--input",
        help="PubMed XML, .txt or .jsonl, plain or .gz, or a folder of these; as often as needed.",
    ),
    entities: list[str] = typer.Option(
        ..., help="A list of entities, TYPE=FILE or a FILE named after its type; as often as needed."
    ),
    out: Path = typer.Option(..., help="Folder of the data set; must not exist yet."),
    blocked: Path | None = typer.Option(
        None, help="Sub-strings whose sentences are left out, one per line, instead of the paper's list."
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
    **given: Any,
) -> None:
    """Natural sentences that name one entity once, with the name masked: a data set from your own texts."""
    from fathom.building.cloze.build import build_cloze
    from fathom.building.cloze.review import REVIEW_FILE
    from fathom.errors import RunFailed
    from fathom.options import parse_options
    from fathom.results.tables import render

    options = parse_options(ClozeOptions, merge(config, given))
    try:
        with progress_bar("reading twice, bytes") as progress:
            built = build_cloze(inputs, entities, out, options, blocked, progress)
    except KeyboardInterrupt as stop:
        raise RunFailed("stopped; nothing was written") from stop
    for note in built.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(render(built.tables(), str(format)))
    if format == Format.TEXT:
        typer.echo(
            f"\nwritten to {out}; for two reviewers: {out / REVIEW_FILE}, then fathom build review {out / REVIEW_FILE}"
        )


def review(
    file: Path = typer.Argument(help="The review.csv of fathom build cloze, with yes or no in both columns."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002
) -> None:
    """How many of the sampled sentences are facts, by each reviewer, and how far they agree (Cohen's kappa)."""
    from fathom.building.cloze.review import read_review, review_table
    from fathom.results.tables import render

    typer.echo(render([review_table(read_review(file))], str(format)))


cloze = with_flags(_cloze, ClozeOptions)

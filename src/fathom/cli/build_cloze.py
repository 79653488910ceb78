"""``fathom build cloze`` and ``fathom build review``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fathom.cli.flags import Config, NewFolder, Printed
from fathom.cli.formats import TableFormat, notes, show
from fathom.cli.options import merge, option
from fathom.cli.progress import progress_bar
from fathom.options import Group


def cloze(
    out: NewFolder,
    inputs: list[Path] = option(
        Group.DATA, "PubMed XML, .txt or .jsonl, plain or .gz, or a folder of these; may be repeated.", "--input"
    ),
    entities: list[str] = option(
        Group.DATA, "A list of entities, TYPE=FILE or a FILE named after its type; may be repeated."
    ),
    blocked: Path | None = option(
        Group.SELECTION,
        "File of sub-strings, one per line: sentences with one are left out (default: the paper's list).",
        default=None,
    ),
    config: Config = None,
    format: Printed = TableFormat.TEXT,
    **given: Any,
) -> None:
    """Make a data set from your own texts: sentences that name one entity once, with the name masked."""
    from fathom.building.cloze.build import build_cloze
    from fathom.building.cloze.options import ClozeOptions
    from fathom.building.cloze.review import REVIEW_FILE
    from fathom.errors import RunFailed
    from fathom.options import parse_options

    options = parse_options(ClozeOptions, merge(config, given))
    try:
        with progress_bar("reading twice, bytes") as progress:
            built = build_cloze(inputs, entities, out, options, blocked, progress)
    except KeyboardInterrupt as stop:
        raise RunFailed("stopped; nothing was written") from stop
    notes(built.notes)
    show(built.tables(), format)
    if format == TableFormat.TEXT:
        typer.echo(
            f"\nwritten to {out}; for two reviewers: {out / REVIEW_FILE}, then fathom build review {out / REVIEW_FILE}"
        )


def review(
    file: Path = typer.Argument(help="The review.csv of fathom build cloze, with yes or no in both columns."),
    format: Printed = TableFormat.TEXT,
) -> None:
    """Show how many of the sampled sentences are facts, by each reviewer, and how far they agree (Cohen's kappa)."""
    from fathom.building.cloze.review import read_review, review_table

    show([review_table(read_review(file))], format)

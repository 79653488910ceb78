"""``fathom study ontology``: what models remember of an ontology."""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.cli.study_approaches import opened
from fathom.cli.tables import draw, split, tell


def ontology(
    runs: list[Path] = typer.Argument(
        help="Folders of finished runs of the ontology probe, or of causal models by the statement probe."
    ),
    examples: str = typer.Option("", help="Ids of queries to show, such as type/23; by default one of each task."),
    seed: int = typer.Option(0, help="Of the lot by which the frequency baseline lists what it has not seen."),
    out: Path | None = typer.Option(None, help="Folder for tables and picture."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
) -> None:
    """Do models remember an ontology? Each task's best against the frequency baseline, every setting, examples."""
    from fathom.studies.ontology import ontology as study
    from fathom.studies.ontology_tables import draw_comparisons, ontology_tables

    found = study(opened(runs), split(examples), seed)
    tell(ontology_tables(found), format, out, "ontology")
    if out is not None and found.comparisons:
        draw(lambda: draw_comparisons(found, out / "ontology.png"))

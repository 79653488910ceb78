"""``fathom study rankings|readings|repeated|perplexity|pools|templates|relations``: questions to finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fathom.cli.formats import Format
from fathom.cli.study import app
from fathom.cli.tables import draw, keep, split, tell

if TYPE_CHECKING:
    from fathom.store.folder import RunFolder

__all__ = ["app"]

_RUNS = typer.Argument(help="Folders of finished runs, of any probe that ranks.")
_SCORING = typer.Option("", help="Which to take of runs that have several, separated by commas.")
_OUT = typer.Option(None, help="Folder for tables and pictures.")
_FORMAT = typer.Option(Format.TEXT, help="How to print.")


def opened(runs: list[Path]) -> list[RunFolder]:
    from fathom.errors import all_of
    from fathom.store.folder import RunFolder

    return all_of(*((lambda path=path: RunFolder.open(path)) for path in runs))


@app.command("rankings")
def rankings(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    groups: Path | None = typer.Option(
        None, help='Groups of models, ranked each by itself, too: JSON {"model": "group"}, or CSV model,group.'
    ),
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """Do template-based and template-free probing rank models alike? Places per data set, and their agreement."""
    from fathom.studies.approaches_tables import draw_rankings, rankings_tables
    from fathom.studies.rankings import rankings as study

    found = study(opened(runs), split(scoring), groups)
    tell(rankings_tables(found), format, out, "rankings")
    if out is not None:
        draw(lambda: draw_rankings(found, out / "rankings.png"))


@app.command("readings")
def readings(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """Do scores differ between the two readings of the same facts? Paired differences of Acc@1, 5 and 10."""
    from fathom.studies.approaches_tables import readings_tables
    from fathom.studies.paired import readings as study

    tell(readings_tables(study(opened(runs), split(scoring))), format, out, "readings")


@app.command("pools")
def pools(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """How much does a larger answer pool cost? Runs with and without --add-candidates, paired by fact."""
    from fathom.studies.approaches_tables import pools_tables
    from fathom.studies.paired import pools as study

    tell(pools_tables(study(opened(runs), split(scoring))), format, out, "pools")


@app.command("repeated")
def repeated(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """Does a model answer everything alike? How often each entity stands in the top 1, 5 and 10."""
    from fathom.studies.approaches_tables import draw_repeated, entities_table, repeated_tables
    from fathom.studies.repeated import repeated as study

    found = study(opened(runs), split(scoring))
    tell(repeated_tables(found), format, out, "repeated")
    if out is not None:
        for number, line in enumerate(found):
            keep(out / f"repeated-{number}.csv", entities_table(line))
            draw(lambda: draw_repeated(line, out / f"repeated-{number}.png"))  # noqa: B023 - called at once


@app.command("perplexity")
def perplexity(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """Do models answer better what they foresee better? Accuracy against perplexity, of runs with --perplexity."""
    from fathom.studies.approaches_tables import draw_perplexity, perplexity_tables
    from fathom.studies.perplexity import perplexities

    found = perplexities(opened(runs), split(scoring))
    tell(perplexity_tables(found), format, out, "perplexity")
    if out is not None:
        draw(lambda: draw_perplexity(found, out / "perplexity.png"))


@app.command("templates")
def templates(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """Which templates do models answer at all? Accuracy by relation and template, averaged over models."""
    from fathom.studies.approaches_tables import templates_tables
    from fathom.studies.templates import templates as study

    tell(templates_tables(study(opened(runs), split(scoring))), format, out, "templates")


@app.command("relations")
def relations(
    runs: list[Path] = _RUNS,
    scoring: str = _SCORING,
    out: Path | None = _OUT,
    format: Format = _FORMAT,
) -> None:
    """How do two data sets, such as BEAR and T-REx, compare on the relations that they share?"""
    from fathom.studies.approaches_tables import draw_relations, relations_tables
    from fathom.studies.relations import shared_relations

    found = shared_relations(opened(runs), split(scoring))
    tell(relations_tables(found), format, out, "relations")
    if out is not None:
        draw(lambda: draw_relations(found, out / "relations.png"))

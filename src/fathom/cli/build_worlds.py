"""``fathom build worlds --data KG --out DIR``"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.cli.progress import progress_bar


class Case(StrEnum):
    """How names are looked for in descriptions."""

    AUTO = "auto"
    EXACT = "exact"
    IGNORE = "ignore"


def worlds(
    data: str = typer.Option(..., help="A knowledge graph: its folder, or a file of triples."),
    out: Path = typer.Option(..., help="Folder in which each world becomes a folder of its name."),
    variants: str | None = typer.Option(
        None,
        help="Worlds, separated by commas: base, or virtual, anonymised, inconsistent or fully-anonymised with a "
        "hyphen and some of e, r, d (entities, relations, descriptions). By default the thirteen of Sakai et al. 2024.",
    ),
    seed: int = typer.Option(0, min=0, help="Another seed makes other worlds of the same kinds."),
    case: Case = typer.Option(
        Case.AUTO, help="Capitals in mentions: auto ignores them where no name has one, as in WordNet."
    ),
    shortest_mention: int = typer.Option(2, min=1, help="Characters that a name needs to be looked for."),
    relax: bool = typer.Option(False, "--relax", help="Let relations keep their names where not all can move."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """Copies of a knowledge graph with other texts, in which a model can infer but not remember."""
    from fathom.building.worlds import THIRTEEN, Options, build_worlds, parse_variants, worlds_table
    from fathom.errors import BadInput
    from fathom.formats import read
    from fathom.results.tables import render

    chosen = THIRTEEN if variants is None else parse_variants(part for part in variants.split(",") if part.strip())
    queryset = read(data)
    if queryset.graph is None:
        raise BadInput(f"{data} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    options = Options(case.value, shortest_mention, relax)
    with progress_bar("worlds") as progress:
        made = build_worlds(queryset.graph, out, chosen, seed, options, name=queryset.name, progress=progress)
    typer.echo(render([worlds_table(made)], str(format)))
    typer.echo(f"in {out}: each is a knowledge graph like any other; what was changed into what is in mapping.parquet")

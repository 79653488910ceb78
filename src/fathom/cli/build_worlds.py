"""``fathom build worlds --data KG --out DIR``"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from fathom.cli.data import graph_at
from fathom.cli.flags import Graph, Printed, Seed
from fathom.cli.formats import TableFormat, show
from fathom.cli.options import option
from fathom.cli.progress import progress_bar
from fathom.options import Group


class Case(StrEnum):
    """How names are looked for in descriptions."""

    AUTO = "auto"
    EXACT = "exact"
    IGNORE = "ignore"


def worlds(
    data: Graph,
    out: Path = option(Group.OUTPUT, "Folder in which each world becomes a folder of its name."),
    variants: str | None = option(
        Group.SELECTION,
        "Worlds, separated by commas: base, or virtual, anonymised, inconsistent or fully-anonymised with a "
        "hyphen and some of e, r, d (entities, relations, descriptions). By default the thirteen of Sakai et al. 2024.",
        default=None,
    ),
    seed: Seed = 0,
    case: Case = option(
        Group.SELECTION,
        "Whether case counts in mentions; auto ignores it where no name has a capital, as in WordNet.",
        default=Case.AUTO,
    ),
    shortest_mention: int = option(
        Group.SELECTION, "Characters a name needs for its mentions to be replaced.", default=2, min=1
    ),
    relax: bool = option(
        Group.SELECTION, "Let relations keep their names where not all can be exchanged.", "--relax", default=False
    ),
    format: Printed = TableFormat.TEXT,
) -> None:
    """Make copies of a knowledge graph with other texts, in which a model can infer but not remember."""
    from fathom.building.worlds import THIRTEEN, Options, build_worlds, parse_variants, worlds_table

    chosen = THIRTEEN if variants is None else parse_variants(part for part in variants.split(",") if part.strip())
    graph, name = graph_at(data)
    options = Options(case.value, shortest_mention, relax)
    with progress_bar("worlds") as progress:
        made = build_worlds(graph, out, chosen, seed, options, name=name, progress=progress)
    show([worlds_table(made)], format)
    typer.echo(f"in {out}: each is a knowledge graph like any other; what was changed into what is in mapping.parquet")

"""``fathom data info|check|list|leakage|sample``"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.errors import BadInput

app = typer.Typer(help="Look at a data set before asking a model.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """The data sets that come with Fathom."""
    from fathom.formats import EMBEDDED, read

    for name in EMBEDDED:
        queryset = read(name)
        typer.echo(f"{name}: {len(queryset.queries):,} facts, {len(queryset.relations)} relations, {queryset.licence}")


@app.command()
def check(path: str = typer.Argument(..., help="Folder of a data set, or a file of triples.")) -> None:
    """Every fault of a folder at once, each with file and line. Exit code 2 where there are any."""
    from fathom.data.graph.statistics import repeated_triples
    from fathom.data.selection.readings import has_sentences
    from fathom.formats import examine
    from fathom.results.datasets import readings_table
    from fathom.results.tables import render

    queryset, faults = examine(path)
    for note in faults.notes:
        typer.echo(f"note: {note}")
    if faults.found:
        raise BadInput(faults.found)
    assert queryset is not None
    if queryset.graph is not None and (again := repeated_triples(queryset.graph)):
        typer.echo(f"note: {again:,} triples stand again, in their split or in another")
    typer.echo(f"{path}: {len(queryset.queries):,} queries in {len(queryset.relations)} relations, no faults")
    if has_sentences(queryset):
        typer.echo(render([readings_table(queryset)], str(Format.TEXT)))


@app.command()
def info(
    path: str = typer.Argument(..., help="Folder of a data set, or the name of an embedded one."),
    tokenizer: str | None = typer.Option(None, help="Also the share of answers that are one token for this tokenizer."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """Size, chance level, and how skewed the answers are, as a whole and by relation; what a knowledge graph holds."""
    from fathom.formats import read
    from fathom.results.datasets import data_tables
    from fathom.results.tables import render

    queryset = read(path)
    typer.echo(render(data_tables(queryset, _token_counter(tokenizer)), str(format)))


@app.command()
def leakage(
    path: str = typer.Argument(..., help="A knowledge graph: its folder, or a file of triples."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """What a graph gives away without inference: entities with few relations, answers that stand in descriptions."""
    from fathom.formats import read
    from fathom.results.datasets import leakage_tables
    from fathom.results.tables import render

    queryset = read(path)
    if queryset.graph is None:
        raise BadInput(f"{path} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    typer.echo(render(leakage_tables(queryset.graph), str(format)))


@app.command()
def sample(
    path: str = typer.Argument(..., help="A knowledge graph: its folder, or a file of triples."),
    out: Path = typer.Option(..., help="Folder of the part; must not exist yet."),
    entities: int = typer.Option(2000, min=2, help="How many entities to keep, with all triples between them."),
    held_out_weight: float = typer.Option(
        1, min=0, help="Links of validation and test triples count for so many: more than 1 keeps a greater share."
    ),
    seed: int = typer.Option(0, min=0, help="Another seed keeps another part."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """A small connected part of a knowledge graph, with its texts and splits: an ordinary graph folder."""
    from fathom.building.sample import sample_table, write_sample
    from fathom.formats import read
    from fathom.results.tables import render

    queryset = read(path)
    if queryset.graph is None:
        raise BadInput(f"{path} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    manifest = write_sample(queryset.graph, out, entities, seed, held_out_weight, name=queryset.name)
    typer.echo(render([sample_table(manifest)], str(format)))
    typer.echo(f"in {out}: a knowledge graph like any other")


def _token_counter(tokenizer: str | None) -> Callable[[list[str]], list[int]] | None:
    if tokenizer is None:
        return None
    from fathom.models.loading import load_tokenizer
    from fathom.scoring.names import token_counter

    return token_counter(load_tokenizer(tokenizer))

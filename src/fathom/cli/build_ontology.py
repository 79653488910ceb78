"""``fathom build ontology --input FILE --out DIR``"""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from fathom.cli.formats import Format
from fathom.cli.progress import progress_bar


def ontology(
    out: Path = typer.Option(..., help="Folder of the data set; must not exist yet."),
    inputs: list[Path] = typer.Option(
        [],
        "--input",
        help="RDF: .nt, .ttl, .rdf, .owl or .xml, plain, .gz or .bz2, or a folder of these; as often as needed.",
    ),
    endpoints: list[str] = typer.Option(
        [], "--endpoint", help="Address of a SPARQL endpoint, asked with the same queries; as often as needed."
    ),
    patterns: Path | None = typer.Option(
        None, help="Sentence patterns: per line a property (label, IRI or P54), a tab, and '[X] plays for [Y] .'"
    ),
    instances: int = typer.Option(20, min=0, help="Sample at most so many instances of each class."),
    seed: int = typer.Option(0, min=0, help="Another seed draws other instances and orders items otherwise."),
    timeout: float = typer.Option(120.0, min=1.0, help="Seconds that an endpoint may take for an answer."),
    page: int = typer.Option(10_000, min=1, help="Solutions to ask an endpoint for at a time."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """Classes, properties and what a model may know of them: a data set from an ontology in RDF."""
    from fathom.building.ontology import Endpoint, build_ontology, ontology_tables
    from fathom.errors import RunFailed
    from fathom.results.tables import render

    try:
        with progress_bar("bytes of files, then classes") as progress:
            servers = [Endpoint(address, page, timeout) for address in endpoints]
            built = build_ontology(inputs, servers, out, patterns, instances, seed, progress)
    except KeyboardInterrupt as stop:
        raise RunFailed("stopped; nothing was written") from stop
    for note in built.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(render(ontology_tables(built), str(format)))
    if format == Format.TEXT:
        ask = f"fathom probe ontology --data {shlex.quote(str(out))} --model … --out …"
        typer.echo(f"\nwritten to {out}; to ask it: {ask}")

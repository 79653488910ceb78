"""``fathom build ontology --input FILE --out DIR``"""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from fathom.cli.flags import NewFolder, Printed, Seed
from fathom.cli.formats import Format, notes, show
from fathom.cli.progress import progress_bar
from fathom.options import Group


def ontology(
    out: NewFolder,
    inputs: list[Path] = typer.Option(
        [],
        "--input",
        help="RDF: .nt, .ttl, .rdf, .owl or .xml, plain, .gz or .bz2, or a folder of these; may be repeated.",
        rich_help_panel=Group.DATA,
    ),
    endpoints: list[str] = typer.Option(
        [],
        "--endpoint",
        help="Address of a SPARQL endpoint, asked with the same queries; may be repeated.",
        rich_help_panel=Group.DATA,
    ),
    patterns: Path | None = typer.Option(
        None,
        help="Sentence patterns: per line a property (label, IRI or P54), a tab, and '[X] plays for [Y] .'",
        rich_help_panel=Group.PROMPTS,
    ),
    instances: int = typer.Option(
        20, min=0, help="Sample at most this many instances of each class.", rich_help_panel=Group.SELECTION
    ),
    seed: Seed = 0,
    timeout: float = typer.Option(
        120.0, min=1.0, help="Seconds to wait for an endpoint's answer.", rich_help_panel=Group.SERVER
    ),
    page: int = typer.Option(
        10_000, min=1, help="Solutions to request from an endpoint at a time.", rich_help_panel=Group.SERVER
    ),
    format: Printed = Format.TEXT,
) -> None:
    """Make a data set from an ontology in RDF: its classes, its properties, and what a model may know of them."""
    from fathom.building.ontology import Endpoint, build_ontology, ontology_tables
    from fathom.errors import RunFailed

    try:
        with progress_bar("bytes of files, then classes") as progress:
            servers = [Endpoint(address, page, timeout) for address in endpoints]
            built = build_ontology(inputs, servers, out, patterns, instances, seed, progress)
    except KeyboardInterrupt as stop:
        raise RunFailed("stopped; nothing was written") from stop
    notes(built.notes)
    show(ontology_tables(built), format)
    if format == Format.TEXT:
        ask = f"fathom probe ontology --data {shlex.quote(str(out))} --model … --out …"
        typer.echo(f"\nwritten to {out}; to ask it: {ask}")

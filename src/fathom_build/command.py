"""``fathom build``: one command for each entry of the registry of builders."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel

from fathom.base.progress import Progress, shown
from fathom.base.registry import CommandEntry, Registry
from fathom.cli.commands import add_command, kinds_of, new_group, stoppable
from fathom.cli.data import graph_at, token_counter_of
from fathom.cli.formats import PrintOptions, notes, say
from fathom_build import options
from fathom_build.options import ClozeBuildOptions

if TYPE_CHECKING:
    from fathom.results.tables import Table

CLOZE = "fathom build cloze --input abstracts.xml --entities genes.txt --out my-cloze"


@dataclass(frozen=True)
class Output:
    """Tables, notes and text of a builder.

    :param text: a line after the tables, for readers.
    """

    tables: Sequence[Table] = ()
    text: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Builder:
    """One entry of the registry.

    :param function: called with an object of each options model of its signature, and a progress callback. Its
        docstring is the help.
    :param example: a command line that can be copied.
    :param counts: what the progress callback counts.
    """

    function: Callable[..., Output]
    example: str
    counts: str = ""

    @property
    def name(self) -> str:
        return self.function.__name__

    def run(self, *arguments: Any) -> None:
        """Build and print. The last of *arguments* are the :class:`PrintOptions`."""
        *settings, printed = arguments
        with stoppable("stopped; nothing was written"), shown(self.counts) as progress:
            output = self.function(*settings, progress)
        if output.tables:
            printed.show(output.tables)
        if printed.format == "text" and output.text:
            say(output.text)
        notes(output.notes)


def make(entry: CommandEntry) -> typer.Typer:
    app = new_group(entry.does, CLOZE)
    for builder in BUILDERS.entries():
        kinds: list[type[BaseModel]] = [*kinds_of(builder.function), PrintOptions]
        add_command(
            app, builder.run, *kinds, name=builder.name, example=builder.example, does=builder.function.__doc__ or ""
        )
    return app


def cloze(files: options.ClozeFiles, settings: ClozeBuildOptions, dry: options.DryRun, progress: Progress) -> Output:
    """Make a data set from your own texts: sentences that name one entity once, with the name masked."""
    from fathom_build.cloze.build import build_cloze, forecast_cloze
    from fathom_build.sheets import REVIEW_FILE

    if dry.dry_run:
        return Output([forecast_cloze(files, settings)])
    built = build_cloze(files, settings, progress)
    text = f"\nwritten to {files.out}; a sample for two reviewers: {files.out / REVIEW_FILE}"
    return Output(built.tables(), text, built.notes)


def ontology(settings: options.OntologyBuildOptions, progress: Progress) -> Output:
    """Make a data set from an ontology in RDF: its classes, its properties, and what a model may know of them."""
    from fathom_build.ontology import build_ontology, ontology_tables

    built = build_ontology(settings, progress)
    return Output(ontology_tables(built), _written("ontology", settings.out), built.notes)


def bear(settings: options.BearBuildOptions, dry: options.DryRun, progress: Progress) -> Output:
    """Make a balanced probe from Wikidata, as BEAR was made: balanced answers, none named by its subject."""
    from fathom_build.bear import build_bear, forecast_bear

    if dry.dry_run:
        return Output([forecast_bear(settings)])
    built = build_bear(settings, progress, token_counter_of(settings.tokenizer))
    return Output(built.tables, _written("statement", settings.out), built.notes)


def choices(settings: options.ChoicesBuildOptions, progress: Progress) -> Output:
    """Make multiple-choice questions from an ontology: what a model remembers, what it infers, and controls of both."""
    from fathom.results.tables import Table
    from fathom_build.choices import build_choices

    built = build_choices(settings)
    table = Table(("questions", "number"), tuple(built.counts.items()), "multiple choice")
    return Output([table], _written("choice", settings.out), built.notes)


def invented(settings: options.InventedOptions, progress: Progress) -> Output:
    """Make a data set about invented people, for models that are to be planted: what they know is known."""
    from fathom.results.tables import Table
    from fathom_build.invented import build_invented

    counts = build_invented(settings)
    text = f"\nwritten to {settings.out}; to teach some of it: fathom plant --kind causal --data {settings.out} --out …"
    return Output([Table(("", "number"), tuple(counts.items()), "invented people")], text)


def worlds(settings: options.WorldBuildOptions, progress: Progress) -> Output:
    """Make copies of a knowledge graph with other texts, in which a model can infer but not remember."""
    from fathom_build.worlds import THIRTEEN, build_worlds, left_table, parse_variants, worlds_table

    variants = THIRTEEN if settings.variants is None else parse_variants(settings.variants)
    graph, name, templates = graph_at(settings.data, settings.columns)
    manifests = build_worlds(
        graph,
        settings.out,
        variants,
        settings.seed,
        settings,
        name=name,
        templates=templates,
        audit=settings.audit,
        progress=progress,
    )
    text = f"in {settings.out}: each is a knowledge graph like any other; mapping.parquet lists the replacements"
    return Output([worlds_table(manifests), *left_table(manifests)], text)


BUILDERS: Registry[Builder] = Registry(
    "builder",
    "fathom.builders",
    (
        Builder(cloze, CLOZE, "reading twice, bytes"),
        Builder(ontology, "fathom build ontology --input town.ttl --out my-ontology", "bytes of files, then classes"),
        Builder(bear, "fathom build bear --input latest-all.json.gz --plan plan.yaml --out my-bear", "bytes of passes"),
        Builder(choices, "fathom build choices --data my-ontology --out my-choices"),
        Builder(invented, "fathom build invented --out people"),
        Builder(worlds, "fathom build worlds --data my-graph --out worlds --variants base,virtual-e", "worlds"),
    ),
)


def _written(probe: str, out: Path) -> str:
    return f"\nwritten to {out}; to query it: fathom probe {probe} --data {shlex.quote(str(out))} --model … --out …"

"""``fathom build …``: commands that make data folders."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fathom.building.cloze.options import ClozeBuildOptions
from fathom.cli.config import merge
from fathom.cli.data import graph_at
from fathom.cli.flags import Config, Device, Graph, NewFolder, Printed, Seed, token_counter_of
from fathom.cli.formats import TableFormat, notes, say, show
from fathom.cli.options import add_command, new_group, option, stoppable, with_flags
from fathom.models.options import ServerOptions
from fathom.options import Group, parse_options
from fathom.progress import shown

if TYPE_CHECKING:
    from fathom.building.bear.flags import ChatFlags
    from fathom.building.worlds import Reader
    from fathom.results.tables import Table

CLOZE = "fathom build cloze --input abstracts.xml --entities genes.txt --out my-cloze"
BEAR = "fathom build bear --input latest-all.json.gz --plan plan.yaml --out my-bear"
STOPPED = "stopped; nothing was written"


def make(does: str) -> typer.Typer:
    """``fathom build``"""
    app = new_group(does, CLOZE)
    add_command(app, "cloze", with_flags(cloze, ClozeBuildOptions), CLOZE)
    add_command(app, "review", review, "fathom build review my-cloze/review.csv")
    add_command(app, "ontology", ontology, "fathom build ontology --input town.ttl --out my-ontology")
    add_command(app, "bear", with_flags(bear, ServerOptions), BEAR)
    add_command(app, "choices", choices, "fathom build choices --data my-ontology --out my-choices")
    add_command(app, "worlds", worlds, "fathom build worlds --data my-graph --out worlds --variants base,virtual-e")
    add_command(app, "audit", audit, "fathom build audit worlds")
    return app


def cloze(
    out: NewFolder,
    inputs: list[Path] = option(
        Group.DATA,
        "PubMed or JATS XML, .txt, .md, .html, .jsonl, plain or .gz, or a folder of these; may be repeated.",
        "--input",
    ),
    entities: list[str] = option(
        Group.DATA, "A list of entities, TYPE=FILE or a FILE named after its type; may be repeated."
    ),
    blocked: Path | None = option(
        Group.SELECTION,
        "File of sub-strings, one per line: sentences with one are left out (default: the paper's list).",
        default=None,
    ),
    config: Config = None,
    format: Printed = TableFormat.TEXT,
    **given: Any,
) -> None:
    """Make a data set from your own texts: sentences that name one entity once, with the name masked."""
    from fathom.building.cloze.build import build_cloze
    from fathom.building.cloze.review import REVIEW_FILE

    options = parse_options(ClozeBuildOptions, merge(config, given))
    with stoppable(STOPPED), shown("reading twice, bytes") as progress:
        built = build_cloze(inputs, entities, out, options, blocked, progress)
    notes(built.notes)
    show(built.tables(), format)
    if format == TableFormat.TEXT:
        say(f"\nwritten to {out}; for two reviewers: {out / REVIEW_FILE}, then fathom build review {out / REVIEW_FILE}")


def review(
    file: Path = typer.Argument(help="The review.csv of fathom build cloze, with yes or no in both columns."),
    format: Printed = TableFormat.TEXT,
) -> None:
    """Show how many of the sampled sentences are facts, by each reviewer, and how far they agree (Cohen's kappa)."""
    from fathom.building.cloze.review import read_review, review_table

    show([review_table(read_review(file))], format)


Language = Annotated[
    str, option(Group.PROMPTS, "Language of the labels; those without a language count where it has none.")
]
LabelProperties = Annotated[
    list[str] | None,
    option(
        Group.PROMPTS,
        "Property that gives labels (skos:prefLabel, or an IRI), the best first; may be repeated. By default "
        "rdfs:label, then skos:prefLabel.",
    ),
]
NamesFromIris = Annotated[
    bool,
    option(
        Group.PROMPTS,
        "Call what has no label by the end of its IRI (CheesyPizza: cheesy pizza). Where no class, or no property, has "
        "a label, it is done anyway.",
        "--names-from-iris",
    ),
]

EndpointTimeout = Annotated[float, option(Group.SERVER, "Seconds to wait for an endpoint's answer.", min=1.0)]
PageSize = Annotated[int, option(Group.SERVER, "Solutions to request from an endpoint at a time.", min=1)]


def ontology(
    out: NewFolder,
    inputs: list[Path] = option(
        Group.DATA,
        "RDF: .nt, .ttl, .rdf, .owl, .xml, .nq, .trig, .n3 or .jsonld, plain, .gz or .bz2, or a folder of these; may "
        "be repeated.",
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
    language: Language = "en",
    label_property: LabelProperties = None,
    names_from_iris: NamesFromIris = False,
    instances: int = option(Group.SELECTION, "Sample at most this many instances of each class.", default=20, min=0),
    seed: Seed = 0,
    timeout: EndpointTimeout = 120.0,
    page: PageSize = 10_000,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Make a data set from an ontology in RDF: its classes, its properties, and what a model may know of them."""
    from fathom.building.ontology import Endpoint, Naming, build_ontology, ontology_tables

    naming = Naming(language, tuple(label_property or ()) or Naming().properties, names_from_iris)
    servers = [Endpoint(address, page, timeout) for address in endpoints]
    with stoppable(STOPPED), shown("bytes of files, then classes") as progress:
        built = build_ontology(inputs, servers, out, patterns, instances, seed, progress, naming)
    notes(built.notes)
    show(ontology_tables(built), format)
    if format == TableFormat.TEXT:
        ask = f"fathom probe ontology --data {shlex.quote(str(out))} --model … --out …"
        say(f"\nwritten to {out}; to ask it: {ask}")


DUMPS = "Wikidata's JSON dump, or truthy N-Triples (.nt), plain, .gz or .bz2; may be repeated."
WIKIDATA = "Address of a SPARQL endpoint that holds Wikidata; may be repeated."
PlanFile = Annotated[
    Path, option(Group.SELECTION, "YAML file of relations, their templates, and the constraints.", "--plan")
]
PageViews = Annotated[
    Path | None,
    option(Group.SELECTION, "Page views (Q42, a tab, a number) as popularity, instead of the number of Wikipedias."),
]
Reviewed = Annotated[
    Path | None,
    option(Group.SELECTION, "The review.csv of an earlier build, with keep or drop in its column decision."),
]
Partial = Annotated[bool, option(Group.DATA, "Take a dump that breaks off as far as it goes.", "--partial")]
FlagModel = Annotated[
    str | None,
    option(
        Group.MODEL,
        "Chat model behind --server that names answers unlike the others; they are put on the list for review.",
    ),
]
Tokenizer = Annotated[
    str | None, option(Group.MODEL, "Model whose tokenizer counts the share of answers that are one token.")
]


def bear(
    out: NewFolder,
    plan: PlanFile,
    inputs: list[Path] = option(Group.DATA, DUMPS, "--input", default=[]),
    endpoints: list[str] = option(Group.DATA, WIKIDATA, "--endpoint", default=[]),
    views: PageViews = None,
    review: Reviewed = None,
    partial: Partial = False,
    tokenizer: Tokenizer = None,
    flag_model: FlagModel = None,
    timeout: EndpointTimeout = 120.0,
    page: PageSize = 10_000,
    config: Config = None,
    format: Printed = TableFormat.TEXT,
    **given: Any,
) -> None:
    """Make a balanced probe from Wikidata, as BEAR was made: as many instances of every answer, none that names it."""
    from fathom.building.bear import build_bear
    from fathom.building.ontology import Endpoint

    flags = _flags(flag_model, parse_options(ServerOptions, merge(config, given)), out)
    servers = [Endpoint(address, page, timeout) for address in endpoints]
    with stoppable(STOPPED), shown("bytes of each pass") as progress:
        count = token_counter_of(tokenizer)
        built = build_bear(
            inputs,
            plan,
            out,
            servers,
            review,
            views,
            partial,
            progress,
            flags,
            count,
            tokenizer or "",
        )
    notes(built.notes)
    show(built.tables, format)
    if format == TableFormat.TEXT:
        ask = f"fathom probe statement --data {shlex.quote(str(out))} --model … --out …"
        say(f"\nwritten to {out}; to ask it: {ask}")


def _flags(model: str | None, server: ServerOptions, out: Path) -> ChatFlags | None:
    """What asks the chat model, if one is named; its answers are kept beside *out*."""
    if model is None:
        return None
    from fathom.building.bear.flags import ChatFlags
    from fathom.models.server import ChatRequest
    from fathom.store.journal import Journal

    connected = server.connect(model)
    connected.journal = Journal(out.with_name(f"{out.name}.answers.jsonl"))

    def ask(system: str, questions: Sequence[str]) -> list[str]:
        replies = connected.ask([ChatRequest(question, system, max_tokens=4096) for question in questions])
        return [reply.texts[0] if reply.texts else "" for reply in replies]

    return ChatFlags(ask, f"{model} at {connected.base_url}")


def choices(
    out: NewFolder,
    data: str = option(Group.DATA, "Folder of an ontology: OntoProbe's, or one made by fathom build ontology."),
    options: int = option(
        Group.PROMPTS, "Options of each question: the right one and others.", default=20, min=2, max=26
    ),
    subset: str | None = option(
        Group.SELECTION,
        "Part of the ontology's items to ask about, or all; by default all, of OntoProbe's published data test.",
        default=None,
    ),
    seed: Seed = 0,
) -> None:
    """Make multiple-choice questions from an ontology: what a model remembers, what it infers, and controls of both."""
    from fathom.building.choices import build_choices

    for name, count in build_choices(data, out, options, seed, subset).items():
        say(f"{name}: {count}")
    say(f"written to {out}; to ask it: fathom probe choice --data {out} --model …")


class Case(StrEnum):
    """How names are looked for in descriptions."""

    AUTO = "auto"
    EXACT = "exact"
    IGNORE = "ignore"


class Sought(StrEnum):
    """What is looked for in descriptions."""

    ALL = "all"
    NAMES = "names"


AuditModel = Annotated[
    str | None,
    option(Group.MODEL, "Let this language model try it, too, by its vectors of the descriptions: a name or folder."),
]


Variants = Annotated[
    str | None,
    option(
        Group.SELECTION,
        "Worlds, separated by commas: base, or virtual, anonymised, inconsistent, fully-anonymised or masked with a "
        "hyphen and some of e, r, d (entities, relations, descriptions). By default the thirteen of Sakai et al. 2024.",
    ),
]
MentionCase = Annotated[
    Case, option(Group.SELECTION, "Whether case counts in mentions; auto: in those names that have a capital letter.")
]
MentionsSought = Annotated[
    Sought,
    option(
        Group.SELECTION,
        "What is replaced in descriptions: names as they are written, or all: other names and inflected forms, too.",
    ),
]
Rate = Annotated[
    float,
    option(
        Group.SELECTION,
        "Of masked worlds: the share of entities that may still be among the ten best guesses of the attack by TF-IDF.",
        min=0,
        max=1,
    ),
]


def worlds(
    data: Graph,
    out: Path = option(Group.OUTPUT, "Folder in which each world becomes a folder of its name."),
    variants: Variants = None,
    seed: Seed = 0,
    case: MentionCase = Case.AUTO,
    sought: MentionsSought = Sought.ALL,
    shortest_mention: int = option(
        Group.SELECTION, "Characters a name needs for its mentions to be replaced.", default=2, min=1, max=1_000_000
    ),
    rate: Rate = 0.05,
    relax: bool = option(
        Group.SELECTION, "Let relations keep their names where not all can be exchanged.", "--relax", default=False
    ),
    audit: bool = option(
        Group.RUN,
        "Say how many entities can be re-identified from their texts in each world.",
        "--audit",
        default=False,
    ),
    audit_model: AuditModel = None,
    device: Device = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Make copies of a knowledge graph with other texts, in which a model can infer but not remember."""
    from fathom.building.worlds import THIRTEEN, Options, build_worlds, parse_variants, worlds_table

    chosen = THIRTEEN if variants is None else parse_variants(part for part in variants.split(",") if part.strip())
    graph, name = graph_at(data)
    options = Options(case.value, shortest_mention, sought.value, rate, relax)
    readers = _readers(audit_model, device)
    with shown("worlds") as progress:
        made = build_worlds(
            graph, out, chosen, seed, options, name=name, audit=audit, readers=readers, progress=progress
        )
    show([worlds_table(made), *_told(made)], format)
    say(f"in {out}: each is a knowledge graph like any other; what was changed into what is in mapping.parquet")


def audit(
    folders: list[Path] = typer.Argument(help="Folders of worlds, or folders that hold worlds."),
    audit_model: AuditModel = None,
    device: Device = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Say of worlds that are there how many entities can be re-identified, and which names are left."""
    from fathom.building.worlds import audit_worlds

    readers = _readers(audit_model, device)
    with shown("worlds") as progress:
        made = audit_worlds(folders, readers, progress)
    show(_told(made), format)
    if format == TableFormat.TEXT:
        say("\nkept in the manifest.json of each world")


def _told(manifests: list[dict[str, Any]]) -> list[Table]:
    """What is left of names, and the audit where there is one."""
    from fathom.building.worlds import audit_table, left_table

    audited = [audit_table(manifests)] if any("audit" in made for made in manifests) else []
    return [*left_table(manifests), *audited]


def _readers(model: str | None, device: str | None) -> list[Reader]:
    """The language model that attacks, if one is named."""
    if model is None:
        return []
    from fathom.building.worlds import Reader
    from fathom.models.loading import load
    from fathom.scoring.descriptions import reader_of
    from fathom.scoring.memory import Budget

    loaded = load(model, device=device)
    name = f"{Path(model).name}@{loaded.identity.content_hash}"
    return [Reader(name, reader_of(loaded, Budget(None, loaded.device)))]

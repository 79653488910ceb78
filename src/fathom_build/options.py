"""Options of ``fathom build``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from fathom.base.options import REPEATED, Group, Names, Seed, opt, separated
from fathom.data.options import BuildOptions, Day, Graph, NewFolder, Random
from fathom.data.selection.options import Columns


class ClozeFiles(BuildOptions):
    """Files of ``fathom build cloze``; :class:`ClozeBuildOptions` has the rest."""

    out: NewFolder
    input: tuple[Path, ...] = opt(
        ...,
        "PubMed or JATS XML, .txt, .md, .html, .jsonl, plain or .gz, or a folder of these; may be repeated.",
        Group.DATA,
        REPEATED,
    )
    entities: tuple[str, ...] = opt(
        ..., "A list of entities, TYPE=FILE or a FILE named after its type; may be repeated.", Group.DATA, REPEATED
    )
    blocked: Path | None = opt(
        None, "File of sub-strings, one per line: sentences with one are removed (default: the paper's list)."
    )


class ClozeBuildOptions(BuildOptions):
    """Options for reading, selecting and writing sentences."""

    after: Day | None = opt(
        None, "Keep only documents later than this day, month or year, by the earliest date they carry."
    )
    language: str = opt("en", "Language of the texts, two letters: for splitting, and for PubMed records.", Group.DATA)
    titles: bool = opt(False, "Also read the titles of PubMed and JATS articles.", Group.DATA)
    lines: bool = opt(False, "Treat each line of a .txt file as a document; by default each file is one.", Group.DATA)
    case: Literal["smart", "exact", "ignore"] = opt(
        "smart",
        "How names are matched; smart: proper names (Turkey), names of up to three letters and those with inner "
        "capitals (tin, mRNA) only as written, others in any case.",
    )
    min_letters: int = opt(3, "Minimum letters and digits of a name; shorter ones often mean something else.", ge=1)
    min_words: int = opt(
        5,
        "Minimum telling words of a sentence: all but its answer, function words, words for kinds of things (gene, "
        "city) and words of up to two letters.",
        ge=0,
    )
    quality: bool = opt(
        True,
        "Drop fragments, sentences with an address, those that reveal their answer, and names within a hyphenated "
        "word, a number or a citation.",
    )
    exclude_guessable: bool = opt(
        False,
        "Drop sentences that an n-gram model of the corpus's other sentences answers; by default they are marked.",
    )
    each_type: bool = opt(False, "Make a data set of each type, in the folder OUT/TYPE.", Group.OUTPUT)
    sample: int = opt(200, "Sentences of each type drawn for the reviewers.", Group.OUTPUT, ge=0)
    seed: Seed = opt(0, "Seed of the sample for the reviewers.", Group.RUN)


class EndpointOptions(BuildOptions):
    """SPARQL endpoints to read from."""

    config_only: ClassVar[Names] = ("timeout", "page", "views", "partial", "parts")

    endpoint: tuple[str, ...] = opt((), "Address of a SPARQL endpoint; may be repeated.", Group.DATA, REPEATED)
    timeout: float = opt(120.0, "Seconds to wait for an endpoint's answer.", Group.SERVER, ge=1)
    page: int = opt(10_000, "Solutions to request from an endpoint at a time.", Group.SERVER, ge=1)


class OntologyBuildOptions(EndpointOptions):
    """Options of ``fathom build ontology``."""

    out: NewFolder
    input: tuple[Path, ...] = opt(
        (),
        "RDF: .nt, .ttl, .rdf, .owl, .xml, .nq, .trig, .n3 or .jsonld, plain, .gz or .bz2, or a folder of these; may "
        "be repeated.",
        Group.DATA,
        REPEATED,
    )
    patterns: Path | None = opt(
        None,
        "Sentence patterns: per line a property (label, IRI or P54), a tab, and '[X] plays for [Y] .'",
        Group.PROMPTS,
    )
    language: str = opt(
        "en", "Language of the labels; labels without a language are used if it has none.", Group.PROMPTS
    )
    label_property: tuple[str, ...] = opt(
        (),
        "Property that gives labels (skos:prefLabel, or an IRI), the best first; may be repeated. By default "
        "rdfs:label, then skos:prefLabel.",
        Group.PROMPTS,
        REPEATED,
    )
    names_from_iris: bool = opt(
        False,
        "Name what has no label by the end of its IRI (CheesyPizza: cheesy pizza). Always so if most classes, "
        "or most properties, have no label.",
        Group.PROMPTS,
    )
    nonce: bool = opt(
        False,
        "Keep the shape and replace every name by a made-up word, drawn by --seed: neither memory nor word overlap can "
        "answer.",
        Group.PROMPTS,
    )
    instances: int = opt(20, "Sample at most this many instances of each class.", ge=0)
    seed: Random = 0


class BearBuildOptions(EndpointOptions):
    """Options of ``fathom build bear``."""

    out: NewFolder
    plan: Path = opt(..., "YAML file of relations, their templates, and the constraints.")
    input: tuple[Path, ...] = opt(
        (),
        "Wikidata's JSON dump, or truthy N-Triples (.nt), plain, .gz or .bz2; may be repeated.",
        Group.DATA,
        REPEATED,
    )
    audit: int = opt(0, "Draw this many instances for a table in which a person judges them.", ge=0)
    views: Path | None = opt(
        None, "Page views (Q42, a tab, a number) as popularity, instead of the number of Wikipedias."
    )
    review: Path | None = opt(None, "The review.csv of an earlier build, with keep or drop in its column decision.")
    partial: bool = opt(False, "Read a truncated dump as far as it goes.", Group.DATA)
    workers: int = opt(1, "Processes that read a dump; they do not change the result.", Group.RUN, ge=1)
    parts: Path | None = opt(
        None,
        "Folder that keeps what was read of a dump, for further builds of the same relations (default: next to --out, "
        "until the build succeeds).",
        Group.OUTPUT,
    )
    tokenizer: str | None = opt(
        None, "Model whose tokenizer counts the share of answers that are one token.", Group.MODEL
    )


class DryRun(BuildOptions):
    """Whether a builder only estimates its work."""

    dry_run: bool = opt(False, "Only print the estimated time and space on the disk; nothing is written.", Group.RUN)


class ChoicesBuildOptions(BuildOptions):
    """Options of ``fathom build choices``."""

    out: NewFolder
    data: str = opt(..., "Folder of an ontology: OntoProbe's, or one made by fathom build ontology.", Group.DATA)
    options: int = opt(20, "Options of each question: the right one and others.", Group.PROMPTS, ge=2, le=26)
    subset: str | None = opt(
        None, "Part of the ontology's items to ask about, or all; by default all, of OntoProbe's published data test."
    )
    seed: Random = 0


class WorldOptions(BuildOptions):
    """Options for making worlds from a graph."""

    case: Literal["auto", "exact", "ignore"] = opt(
        "auto", "Whether case counts in mentions; auto: in names that have a capital letter."
    )
    shortest_mention: int = opt(2, "Characters a name needs for its mentions to be replaced.", ge=1, le=1_000_000)
    sought: Literal["all", "names"] = opt(
        "all", "What is replaced in descriptions: names as written, or also other names and inflected forms (all)."
    )
    relax: bool = opt(False, "Let relations keep their names if not all can be exchanged.")


class WorldBuildOptions(WorldOptions):
    """Options of ``fathom build worlds``."""

    data: Graph
    columns: Columns = None
    out: Path = opt(..., "Folder in which each world becomes a folder of its name.", Group.OUTPUT)
    variants: Annotated[tuple[str, ...] | None, BeforeValidator(separated)] = opt(
        None,
        "Worlds, separated by commas: base, or virtual, anonymised, inconsistent or fully-anonymised with a hyphen "
        "and some of e, r, d (entities, relations, descriptions). By default the thirteen of Sakai et al. 2024.",
    )
    seed: Random = 0
    audit: bool = opt(False, "Count the names that remain in the descriptions of each world.", Group.RUN)


class InventedOptions(BuildOptions):
    """Options of ``fathom build invented``."""

    out: NewFolder
    people: int = opt(600, "People; each has a fact of each of seven relations.", ge=2, le=1_000_000)
    answers: int = opt(30, "Candidates of each relation.", ge=3, le=1_000)
    seed: Random = 0

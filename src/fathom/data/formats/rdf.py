"""Knowledge graphs as RDF, read through pyoxigraph (see docs/data-format.md), and what else has RDF's endings.

OWL/XML, OWL's functional and Manchester syntaxes and OBO are not read: a message names the command that converts them.
"""

from __future__ import annotations

import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from fathom.base.errors import optional
from fathom.base.reading import Faults, Unreadable, opened, yaml_file
from fathom.base.reading.files import ending_of
from fathom.base.reading.spelling import tidy
from fathom.data.formats.base import Format
from fathom.data.formats.kg import graph_data, split_of
from fathom.data.knowledge import KnowledgeGraph, consecutive, entity_table
from fathom.data.queries import QuerySet

_ENDINGS = (".nt", ".ttl", ".nt.gz", ".ttl.gz")
_RDFS, _SKOS = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2004/02/skos/core#"
_SCHEMA = ("http://schema.org/", "https://schema.org/")
_NAME = [f"{_RDFS}label", f"{_SKOS}prefLabel", *(f"{s}name" for s in _SCHEMA)]
_TEXTS = [*_NAME, *(f"{s}description" for s in _SCHEMA), f"{_RDFS}comment"]
_ALIAS = f"{_SKOS}altLabel"
_VOCABULARIES = (_RDFS, "http://www.w3.org/2002/07/owl#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#")
_ABOUT_PROPERTIES = {f"{_RDFS}{name}" for name in ("domain", "range", "isDefinedBy", "seeAlso")}


def _read(path: Path, faults: Faults) -> QuerySet | None:
    """:raises MissingExtra: pyoxigraph is not installed."""
    return graph_data(path, _read_graph(_files(path), faults), faults)


def _files(path: Path) -> list[Path]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if file.name.endswith(_ENDINGS)]


Texts = dict[str, tuple[tuple[int, int], str]]
"""The best text of each id, after its rank: English first, then without a language, then by predicate."""


@dataclass
class _Terms:
    """Numbers of ids, and their texts from literals."""

    entities: dict[str, int] = field(default_factory=dict)
    relations: dict[str, int] = field(default_factory=dict)
    names: Texts = field(default_factory=dict)
    descriptions: Texts = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    literals: int = 0
    vocabulary: int = 0
    nested: int = 0
    """Triples whose object is a triple (RDF 1.2)."""

    def take(self, statement: Any) -> tuple[int, ...]:
        """Return the numbers of a triple between entities; the empty tuple for other statements."""
        subject, predicate, object_ = _id(statement.subject), statement.predicate.value, statement.object
        if hasattr(object_, "datatype"):
            self.literal(subject, predicate, object_.value, object_.language)
            return ()
        if hasattr(object_, "predicate"):
            self.nested += 1
            return ()
        object_id = _id(object_)
        if object_id.startswith(_VOCABULARIES) or predicate in _ABOUT_PROPERTIES:
            self.vocabulary += 1
            return ()
        return (
            self.entities.setdefault(subject, len(self.entities)),
            self.relations.setdefault(predicate, len(self.relations)),
            self.entities.setdefault(object_id, len(self.entities)),
        )

    def literal(self, subject: str, predicate: str, value: str, language: str | None) -> None:
        # English before no language and others
        tongue = 1 if language is None else 2 * (language.split("-")[0].lower() != "en")
        if predicate in _TEXTS:
            texts = self.names if predicate in _NAME else self.descriptions
            candidate = ((tongue, _TEXTS.index(predicate)), tidy(one_line(value)))
            texts[subject] = min(texts.get(subject, candidate), candidate, key=itemgetter(0))
        elif predicate == _ALIAS and tongue < 2:
            self.aliases.setdefault(subject, []).append(tidy(one_line(value)))
        elif predicate != _ALIAS:
            self.literals += 1

    def name_of(self, id_: str) -> str:
        return self.names[id_][1] if id_ in self.names else _end_of(id_)

    def entity_table(self) -> pa.Table:
        ids = list(self.entities)
        described = [self.descriptions[id_][1] if id_ in self.descriptions else "" for id_ in ids]
        others = [list(dict.fromkeys(self.aliases.get(id_, ()))) for id_ in ids]
        return entity_table(
            pa.array(ids, pa.string()),
            pa.array(map(self.name_of, ids), pa.string()),
            pa.array(described, pa.string()),
            pa.array(others, pa.list_(pa.string())),
        )

    def relation_table(self) -> pa.Table:
        names = [self.names[id_][1] if id_ in self.names else _spaced(_end_of(id_)) for id_ in self.relations]
        return pa.table({"id": pa.array(self.relations, pa.string()), "name": pa.array(names, pa.string())})


def _read_graph(files: list[Path], faults: Faults) -> KnowledgeGraph | None:
    reader = _Terms()
    by_split = {split: [file for file in files if split_of(file) == split] for split in ("train", "dev", "test")}
    rest = [file for file in files if split_of(file) is None]
    parts_by_split = {split: members for split, members in by_split.items() if members} or {"": rest}
    rows = {split: [_triples(file, reader, faults) for file in members] for split, members in parts_by_split.items()}
    if "" not in rows:
        _only_names(rest, reader, faults)
    triples = np.concatenate([part for parts in rows.values() for part in parts])
    if not len(triples) and not faults.found:
        faults.add(files[0], None, "no triples between entities: every object is a literal")
    if faults.found:
        return None
    left_out = {
        "literals (numbers, dates, texts)": reader.literals,
        "the vocabulary": reader.vocabulary,
        "other triples (triple terms)": reader.nested,
    }
    for what, count in left_out.items():
        if count:
            faults.note(files[0].parent, None, f"{count:,} triples about {what} are left out")
    if nameless := [id_ for id_ in reader.entities if not reader.name_of(id_).strip()]:
        message = f"{len(nameless):,} entities have no name, e.g. {nameless[0]}: what asks of them is unscored"
        faults.note(files[0].parent, None, message)
    splits = consecutive({split: sum(map(len, parts)) for split, parts in rows.items()})
    columns = np.ascontiguousarray(triples.T)
    return KnowledgeGraph.from_used(reader.entity_table(), reader.relation_table(), list(columns), splits)


def _only_names(files: list[Path], reader: _Terms, faults: Faults) -> None:
    """Read names from files that are no split; their other entities are dropped."""
    terms = (dict(reader.entities), dict(reader.relations))
    for file in files:
        extra = _triples(file, reader, faults)
        if len(extra):
            faults.note(file, None, f"{len(extra):,} triples are left out: the file is neither train, dev nor test")
    reader.entities, reader.relations = terms


def _triples(file: Path, reader: _Terms, faults: Faults) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Read head, relation and tail, shape (triples, 3)."""
    numbers = array("i")
    for statement in quads(file, faults):
        numbers.extend(reader.take(statement))
    return np.array(numbers, dtype=np.int32).reshape(-1, 3)


def _id(node: Any) -> str:
    """Return an IRI, or ``_:b0`` for a blank node."""
    return str(node.value) if type(node).__name__ == "NamedNode" else str(node)


def _end_of(iri: str) -> str:
    """Return the end of an IRI as words; a blank node has no name."""
    return "" if iri.startswith(("_:", "<<")) else name_of(iri).strip()


def _spaced(name: str) -> str:
    """Separate words: "birthPlace" → "birth place"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() if re.search(r"[a-z][A-Z]", name) else name


_SYNTAXES = yaml_file(Path(__file__).with_suffix(".yaml"))
_TITLES = {kind: title for kind, (title, *_) in _SYNTAXES["rdf"].items()}
KINDS: dict[str, str] = {ending: kind for kind, (_, *endings) in _SYNTAXES["rdf"].items() for ending in endings}
"""pyoxigraph's formats by the ending of a file."""
_NOT_RDF: dict[str, str] = _SYNTAXES["not_rdf"]
_NOTHING_YET = re.compile(r"(?:\s+|\ufeff|#[^\n]*\n|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL)
"""Blanks, comments and XML declarations, which may come first."""
_LOOKED_AT = 1 << 14
_REPORT_EVERY = 1 << 16


def kind_of(file: Path) -> str | None:
    """Return pyoxigraph's format by a file's ending, compressed or not; None if it is not RDF."""
    return KINDS.get(ending_of(file))


def conversion(file: Path, actual: str | None = None) -> str | None:
    """Return the name of an ontology syntax that is not RDF and how to convert it; None for other syntaxes.

    :param actual: the ending that fits the content; by default the ending of the file.
    """
    syntax = _NOT_RDF.get(actual or ending_of(file))
    if syntax is None:
        return None
    stem = file.name.removesuffix(file.suffix)
    target = f"{stem}{'-rdf' * (ending_of(file) == '.ttl')}.ttl"
    return f"{syntax}, which is not read: convert it with ROBOT, robot convert --input {file.name} --output {target}"


def quads(
    file: Path,
    faults: Faults,
    base: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
    apart: bool = False,
) -> Iterator[Any]:
    """Yield pyoxigraph's statements of a file up to the first fault.

    :param base: base of relative IRIs, which are faults without it.
    :param progress: called at intervals with the number of bytes read from the file.
    :param apart: give blank nodes names that no other file has.
    :raises MissingExtra: pyoxigraph is not installed.
    """
    faults.read.add(file)
    pyoxigraph = optional("pyoxigraph", "rdf")
    kind = str(kind_of(file))
    try:
        if kind == "RDF_XML":
            if message := _another_syntax(file):  # OWL/XML is well-formed, and would be read as nonsense
                faults.add(file, None, message)
                return
            with opened(file) as stream:  # the parser tells no lines, and takes a file that breaks off for a whole one
                expat.ParserCreate(namespace_separator=" ").ParseFile(stream)
        read: list[Callable[[], int]] = []
        with opened(file, place=read.append) as stream:
            if stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):  # as editors of Windows write it
                stream.read(len(BOM_UTF8))
            form = getattr(pyoxigraph.RdfFormat, kind)
            parsed = pyoxigraph.parse(stream, form, base_iri=base, rename_blank_nodes=apart)
            for number, quad in enumerate(parsed):
                if number % _REPORT_EVERY == 0:
                    progress(read[0]())
                yield quad
    except SyntaxError as error:
        faults.add(file, error.lineno, _another_syntax(file) or f"not {_TITLES[kind]}: {_plain(error.msg)}")
    except expat.ExpatError as error:
        faults.add(file, error.lineno, f"not {_TITLES[kind]}: {expat.ErrorString(error.code)}")
    except Unreadable as error:
        faults.keep(error)
    except ValueError as error:
        faults.add(file, None, f"cannot be read: {error}")


def name_of(iri: str) -> str:
    """Return the part after the last # or /, as words: ``…/resource/Lionel_Messi`` → "Lionel Messi"."""
    return unquote(iri.rstrip("#/").rpartition("#" if "#" in iri.rstrip("#/") else "/")[2]).replace("_", " ")


def words_of(name: str) -> str:
    """Return the words of a name or IRI: "birthPlace" and ``…/birth_place`` → "birth place"."""
    is_address = "://" in name or name.startswith("/")
    return _spaced(name_of(name) if is_address else name.replace("_", " ")).strip()


def one_line(text: str) -> str:
    """Remove breaks and repeated blanks."""
    return " ".join(text.split())


def _another_syntax(file: Path) -> str | None:
    """Return a message if a file's content does not fit its name. :raises Unreadable: it cannot be opened."""
    with opened(file) as stream:
        text = stream.read(_LOOKED_AT).decode("utf-8", errors="replace")
    rest = text[match.end() if (match := _NOTHING_YET.match(text)) else 0 :]
    actual = next((ending for pattern, ending in _SYNTAXES["openings"].items() if re.match(pattern, rest)), None)
    if actual is None or KINDS.get(actual, actual) == kind_of(file) or (actual, kind_of(file)) in _ALIKE:
        return None
    inside = f"expected {_TITLES[str(kind_of(file))]}, found "
    if message := conversion(file, actual):
        return f"{inside}{message}"
    return f"{inside}what looks like {_TITLES[KINDS[actual]]}: give the file the ending {actual}"


_ALIKE = ((".ttl", "TRIG"), (".ttl", "N3"))
"""Syntaxes that open like Turtle."""


def _plain(message: str | None) -> str:
    """Reword a message about pyoxigraph's API."""
    if "LoadDocumentCallback" in str(message):
        return "its @context is an address, and nothing is fetched: put the context itself into the file"
    return str(message)


FORMAT = Format("rdf", ".nt or .ttl files (RDF)", lambda path: bool(_files(path)), _read)

"""The syntaxes of RDF, read through pyoxigraph, and those of ontologies that are no RDF, which are distinguished.

N-Triples, N-Quads, Turtle, TriG, N3, RDF/XML and JSON-LD are read. OWL/XML, OWL's functional and Manchester syntaxes
and OBO are not: a line says how to convert them. Files named .owl may hold any of these, so that the beginning of a
file is looked at, too.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from fathom.errors import MissingExtra
from fathom.reading import Faults, Unreadable, opened

KINDS = {
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".xml": "RDF_XML",
    ".nq": "N_QUADS",
    ".trig": "TRIG",
    ".n3": "N3",
    ".jsonld": "JSON_LD",
}
"""pyoxigraph's formats by the ending of a file."""
_IN_WORDS = {
    "N_TRIPLES": "N-Triples",
    "TURTLE": "Turtle",
    "RDF_XML": "RDF/XML",
    "N_QUADS": "N-Quads",
    "TRIG": "TriG",
    "N3": "N3 (rules, formulas and variables of N3 are no RDF)",
    "JSON_LD": "JSON-LD",
}
PACKED = (".gz", ".bz2")
_NOT_RDF = {
    ".owx": "OWL/XML",
    ".ofn": "OWL's functional syntax",
    ".fss": "OWL's functional syntax",
    ".omn": "OWL's Manchester syntax",
    ".obo": "OBO",
}
_BEGINNINGS = {
    r"(?:Prefix|Ontology)\s*\(": ".ofn",
    r"(?:Prefix|Ontology):": ".omn",
    r"format-version:": ".obo",
    r"<(?:\w+:)?Ontology\b(?![^>]*\srdf:about)": ".owx",
    r"@prefix\b|@base\b|PREFIX\s|BASE\s": ".ttl",
    r"[{\[]\s*[\"{]": ".jsonld",
    r"<(?:\w+:)?RDF\b": ".rdf",
}
"""What a file begins with, and the ending that such a file should have."""
_NOTHING_YET = re.compile(r"(?:\s+|\ufeff|#[^\n]*\n|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL)
"""What may stand before: blanks, comments, declarations of XML."""
_LOOKED_AT = 1 << 14
_REPORT_EVERY = 1 << 16


def kind_of(file: Path) -> str | None:
    """pyoxigraph's name of the format that a file's name stands for, however it is packed; None where it is no RDF."""
    return KINDS.get(_ending(file))


def conversion(file: Path, found: str | None = None) -> str | None:
    """One line on a file in a syntax of ontologies that is no RDF: its name, and how to convert it.

    :param found: the ending that fits what is in the file; by default that of its name.
    :returns: None where the syntax is another.
    """
    syntax = _NOT_RDF.get(found or _ending(file))
    if syntax is None:
        return None
    stem = file.name.removesuffix(file.suffix)
    target = f"{stem}{'-rdf' * (_ending(file) == '.ttl')}.ttl"
    return f"{syntax}, which is not read: convert it with ROBOT, robot convert --input {file.name} --output {target}"


def quads(
    file: Path,
    faults: Faults,
    base: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
    apart: bool = False,
) -> Iterator[Any]:
    """pyoxigraph's statements of a file, up to a fault.

    :param base: what relative IRIs are relative to; without it they are faults.
    :param progress: called now and then with the number of bytes read from the file as it lies.
    :param apart: whether blank nodes get names that no other file has.
    :raises MissingExtra: pyoxigraph is not installed.
    """
    try:
        import pyoxigraph
    except ImportError as error:
        raise MissingExtra("pyoxigraph", "rdf") from error
    kind = str(kind_of(file))
    try:
        if kind == "RDF_XML":
            if other := _another_syntax(file):  # OWL/XML is well-formed, and would be read as nonsense
                faults.add(file, None, other)
                return
            _check_xml(file)  # the parser tells no lines, and takes a file that breaks off for a whole one
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
        faults.add(file, error.lineno, _another_syntax(file) or f"not {_IN_WORDS[kind]}: {_plain(error.msg)}")
    except expat.ExpatError as error:
        faults.add(file, error.lineno, f"not {_IN_WORDS[kind]}: {expat.ErrorString(error.code)}")
    except Unreadable as error:
        faults.keep(error)
    except ValueError as error:
        faults.add(file, None, f"cannot be read: {error}")


def _ending(file: Path) -> str:
    return (file.with_suffix("") if file.suffix in PACKED else file).suffix.lower()


def _another_syntax(file: Path) -> str | None:
    """What a file holds, and what to do, where that is not what its name says. :raises Unreadable: not to be opened."""
    with opened(file) as stream:
        text = stream.read(_LOOKED_AT).decode("utf-8", errors="replace")
    rest = text[match.end() if (match := _NOTHING_YET.match(text)) else 0 :]
    actual = next((ending for pattern, ending in _BEGINNINGS.items() if re.match(pattern, rest)), None)
    if actual is None or KINDS.get(actual, actual) == kind_of(file) or (actual, kind_of(file)) in _ALIKE:
        return None
    inside = f"expected {_IN_WORDS[str(kind_of(file))]}, found "
    if other := conversion(file, actual):
        return f"{inside}{other}"
    return f"{inside}what looks like {_IN_WORDS[KINDS[actual]]}: give the file the ending {actual}"


_ALIKE = ((".ttl", "TRIG"), (".ttl", "N3"))
"""Syntaxes that begin as Turtle does."""


def _plain(message: str | None) -> str:
    """pyoxigraph's words, where they speak of its own API in other words."""
    if "LoadDocumentCallback" in str(message):
        return "its @context is an address, and nothing is fetched: put the context itself into the file"
    return str(message)


def _check_xml(file: Path) -> None:
    """:raises ExpatError: the file is not well-formed XML."""
    with opened(file) as stream:
        expat.ParserCreate(namespace_separator=" ").ParseFile(stream)

"""Syntaxes of RDF, read through pyoxigraph, and syntaxes of ontologies that are not RDF.

N-Triples, N-Quads, Turtle, TriG, N3, RDF/XML and JSON-LD are read. OWL/XML, OWL's functional and Manchester syntaxes
and OBO are not: a message names the command that converts them. As .owl may stand for any of these, the first lines of
a file count, too.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

from fathom.base.errors import optional
from fathom.base.reading import Faults, Unreadable, opened, yaml_file

_SYNTAXES = yaml_file(Path(__file__).with_suffix(".yaml"))
_TITLES = {kind: title for kind, (title, *_) in _SYNTAXES["rdf"].items()}
KINDS: dict[str, str] = {ending: kind for kind, (_, *endings) in _SYNTAXES["rdf"].items() for ending in endings}
"""pyoxigraph's formats by the ending of a file."""
PACKED = (".gz", ".bz2")
_NOT_RDF: dict[str, str] = _SYNTAXES["not_rdf"]
_NOTHING_YET = re.compile(r"(?:\s+|\ufeff|#[^\n]*\n|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL)
"""Blanks, comments and XML declarations, which may come first."""
_LOOKED_AT = 1 << 14
_REPORT_EVERY = 1 << 16


def kind_of(file: Path) -> str | None:
    """Return pyoxigraph's format by a file's ending, compressed or not; None if it is not RDF."""
    return KINDS.get(_ending(file))


def conversion(file: Path, actual: str | None = None) -> str | None:
    """Return the name of an ontology syntax that is not RDF and how to convert it; None for other syntaxes.

    :param actual: the ending that fits the content; by default the ending of the file.
    """
    syntax = _NOT_RDF.get(actual or _ending(file))
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


def one_line(text: str) -> str:
    """Remove breaks and repeated blanks."""
    return " ".join(text.split())


def _ending(file: Path) -> str:
    return (file.with_suffix("") if file.suffix in PACKED else file).suffix.lower()


def _another_syntax(file: Path) -> str | None:
    """Return a message if a file's content does not fit its name. :raises Unreadable: it cannot be opened."""
    with opened(file) as stream:
        text = stream.read(_LOOKED_AT).decode("utf-8", errors="replace")
    rest = text[match.end() if (match := _NOTHING_YET.match(text)) else 0 :]
    actual = next((ending for pattern, ending in _SYNTAXES["openings"].items() if re.match(pattern, rest)), None)
    if actual is None or KINDS.get(actual, actual) == kind_of(file) or (actual, kind_of(file)) in _ALIKE:
        return None
    inside = f"expected {_TITLES[str(kind_of(file))]}, found "
    if other := conversion(file, actual):
        return f"{inside}{other}"
    return f"{inside}what looks like {_TITLES[KINDS[actual]]}: give the file the ending {actual}"


_ALIKE = ((".ttl", "TRIG"), (".ttl", "N3"))
"""Syntaxes that open like Turtle."""


def _plain(message: str | None) -> str:
    """Reword a message about pyoxigraph's API."""
    if "LoadDocumentCallback" in str(message):
        return "its @context is an address, and nothing is fetched: put the context itself into the file"
    return str(message)


def _check_xml(file: Path) -> None:
    """:raises ExpatError: the file is not well-formed XML."""
    with opened(file) as stream:
        expat.ParserCreate(namespace_separator=" ").ParseFile(stream)

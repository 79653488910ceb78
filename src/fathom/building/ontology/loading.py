"""RDF files into a store that answers SPARQL: N-Triples, Turtle and RDF/XML, plain, ``.gz`` or ``.bz2``.

Only what the queries ask about is kept (types, English labels, hierarchies, constraints, equivalences), so that a dump
of hundreds of millions of triples becomes a store of those that matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fathom.building.ontology.sources import LocalStore, Progress
from fathom.data.faults import Faults
from fathom.errors import BadInput, MissingExtra
from fathom.formats.rdf import KINDS, PACKED, kind_of, quads

IN_MEMORY = 256 << 20
"""Bytes of RDF, unpacked, up to which the store lies in memory."""
_UNPACKED_SIZE = 12
"""How much larger dumps are unpacked: about."""
_WIKIDATA = "http://www.wikidata.org/prop/"
KEPT = frozenset(
    {
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
        *(
            f"http://www.w3.org/2000/01/rdf-schema#{name}"
            for name in ("label", "subClassOf", "subPropertyOf", "domain", "range")
        ),
        *(
            f"http://www.w3.org/2002/07/owl#{name}"
            for name in ("complementOf", "equivalentClass", "equivalentProperty")
        ),
        "http://wikiba.se/ontology#propertyType",
        "http://wikiba.se/ontology#rank",
        *(f"{_WIKIDATA}direct/{name}" for name in ("P1628", "P1647", "P1709", "P2302")),
        f"{_WIKIDATA}P2302",
        f"{_WIKIDATA}statement/P2302",
        *(f"{_WIKIDATA}qualifier/{name}" for name in ("P2308", "P2309")),
    }
)
"""The predicates of the queries."""


def find_files(inputs: Sequence[Path]) -> list[Path]:
    """Files given, and those with a known ending in folders given.

    :raises BadInput: each input that is missing, of another kind, or a folder without such files.
    """
    found, faults = [], []
    for given in inputs:
        members = sorted(file for file in given.iterdir() if kind_of(file)) if given.is_dir() else [given]
        if not given.exists():
            faults.append(f"--input {given}: there is no such file")
        elif not members:
            faults.append(f"--input {given}: no RDF file in it: expected {_endings()}")
        elif not all(kind_of(file) for file in members):
            faults.append(f"--input {given}: expected {_endings()}")
        found += members
    if faults:
        raise BadInput(faults)
    return list(dict.fromkeys(found))


def load(files: Sequence[Path], place: Path, stack: ExitStack, progress: Progress) -> LocalStore:
    """All files in one store, which lies in memory or, where they are large, in a folder that *stack* removes.

    :param place: where that folder may be made.
    :param progress: called with (bytes read, bytes to read).
    :raises BadInput: every file that cannot be read, with the line where that is known.
    :raises MissingExtra: pyoxigraph is not installed.
    """
    try:
        import pyoxigraph
    except ImportError as error:
        raise MissingExtra("pyoxigraph", "rdf") from error
    name = ", ".join(file.name for file in files)
    if sum(map(_unpacked_size, files)) <= IN_MEMORY:
        local = LocalStore(name, pyoxigraph.Store())
    else:
        place.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(TemporaryDirectory(prefix=".ontology-store-", dir=place))
        local = LocalStore(name, pyoxigraph.Store(folder))
    stack.callback(local.close)  # before its folder goes: it writes until it is closed
    faults = Faults()
    before, total = 0, sum(file.stat().st_size for file in files)
    for file in files:
        local.fill(
            quad
            for quad in quads(file, faults, f"file:///{file.name}", partial(_told, progress, before, total))
            if _is_kept(quad)
        )
        before += file.stat().st_size
    faults.stop_if_any()
    return local


def _endings() -> str:
    return f"{', '.join(KINDS)}, each plain, .gz or .bz2"


def _unpacked_size(file: Path) -> int:
    return file.stat().st_size * (_UNPACKED_SIZE if file.suffix in PACKED else 1)


def _told(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _is_kept(quad: Any) -> bool:
    language = getattr(quad.object, "language", None)
    return quad.predicate.value in KEPT and (language is None or language.split("-")[0] == "en")

"""A cache of large graphs as memory-mapped Arrow files below ``$FATHOM_CACHE``, which open in seconds.

It is valid while the sources keep their sizes and times; a stale or damaged folder is silently replaced.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from fathom._version import VERSION
from fathom.base.errors import RunFailed
from fathom.base.reading import Faults, Unreadable, check_file, json_file
from fathom.data.knowledge import KnowledgeGraph
from fathom.store.files import whole_file, write_json

BIG = 1_000_000
"""Fewest triples of a cached graph; smaller ones are read in a second."""
_TABLES = ("entities", "relations", "triples")


def cached(
    sources: Sequence[Path], faults: Faults, read: Callable[[], KnowledgeGraph | None], order: str = ""
) -> KnowledgeGraph | None:
    """Return the graph that *read* makes of the *sources*, from the cache if it is there. Notes are kept with it."""
    root = cache_root()
    if root is None:
        return read()
    try:
        for path in sources:
            check_file(path)
    except Unreadable:
        return read()
    faults.read.update(sources)
    digest = hashlib.sha256("\n".join([*(str(path.resolve()) for path in sources), *filter(None, [order])]).encode())
    folder = root / "graphs" / digest.hexdigest()[:16]
    with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException, Unreadable):  # missing, stale or damaged
        graph, notes = _load(folder, sources)
        faults.notes += notes
        return graph
    fresh = read()
    faults.note_respelt()
    if fresh is not None and len(fresh) >= BIG and not faults.found:
        with suppress(OSError, RunFailed):  # a full disk or a read-only home is no reason to stop
            _save(folder, sources, fresh, faults.notes)
    return fresh


def cache_root() -> Path | None:
    """Return ``$FATHOM_CACHE`` or the user's cache folder; None if there is none."""
    folder = os.environ.get("FATHOM_CACHE")
    if folder:
        return Path(folder).expanduser()
    try:
        home = Path.home()
    except RuntimeError:
        return None
    elsewhere = {
        "darwin": home / "Library" / "Caches" / "fathom",
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fathom" / "cache",
    }
    return elsewhere.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fathom")


def _stamp(sources: Sequence[Path]) -> list[list[Any]]:
    return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in sources]


def _load(folder: Path, sources: Sequence[Path]) -> tuple[KnowledgeGraph, list[str]]:
    """:raises Unreadable, OSError, ValueError, KeyError: no cache of these sources, or a damaged one."""
    about = json_file(folder / "about.json")
    if about["version"] != VERSION or about["sources"] != _stamp(sources):
        raise ValueError("stale")
    tables = {}
    for name in _TABLES:
        mapped = pa.memory_map(str(folder / f"{name}.arrow"))
        if zlib.crc32(mapped.read_buffer()) != about["checksums"][name]:
            raise ValueError("damaged")
        mapped.seek(0)
        tables[name] = pa.ipc.open_file(mapped).read_all()
    head, relation, tail = (tables["triples"].column(name).to_numpy() for name in ("head", "relation", "tail"))
    splits = {name: range(start, stop) for name, start, stop in about["splits"]}
    return KnowledgeGraph(tables["entities"], tables["relations"], head, relation, tail, splits), about["notes"]


def _save(folder: Path, sources: Sequence[Path], graph: KnowledgeGraph, notes: list[str]) -> None:
    triples = pa.table({name: pa.array(getattr(graph, name)) for name in ("head", "relation", "tail")})
    checksums = {}
    for name, table in zip(_TABLES, (graph.entities, graph.relations, triples), strict=True):
        with whole_file(folder / f"{name}.arrow") as temporary:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            with pa.memory_map(str(temporary)) as written:
                checksums[name] = zlib.crc32(written.read_buffer())
    about = {
        "version": VERSION,  # another version may read the files differently
        "sources": _stamp(sources),
        "splits": [[name, rows.start, rows.stop] for name, rows in graph.splits.items()],
        "checksums": checksums,
        "notes": notes,
    }
    write_json(folder / "about.json", about)  # last: a folder without it is ignored

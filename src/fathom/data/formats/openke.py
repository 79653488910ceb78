"""The layout of OpenKE: ``entity2id.txt``, ``relation2id.txt``, ``train2id.txt``, …, whose first line is a count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.reading import Faults, stands
from fathom.data.columns import Columns, first_lines
from fathom.data.formats.base import Format
from fathom.data.formats.kg import assemble, find_files, graph_data
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet

_SPLITS = {"train": "train2id.txt", "dev": "valid2id.txt", "test": "test2id.txt"}
_NAMES = {"entity": "entity2id.txt", "relation": "relation2id.txt"}
_COLUMNS = {"head": "entity", "tail": "entity", "relation": "relation"}
"""Columns of a split in order, with the kinds of their ids."""
Numbered = tuple[pa.Array, pa.Array]
"""Text ids, and the number of each, int64."""


def _read(path: Path, faults: Faults) -> QuerySet | None:
    for name in _NAMES.values():
        if not stands(path / name):
            faults.add(path / name, None, "file is missing: OpenKE's triples are numbers, and this file says of what")
    files = {split: path / name for split, name in _SPLITS.items() if stands(path / name)}
    if not files:
        faults.add(path, None, f"no triples: expected {', '.join(_SPLITS.values())}")
    if faults.found:
        return None
    return graph_data(path, _read_graph(path, files, faults), faults)


def _read_graph(path: Path, files: dict[str, Path], faults: Faults) -> KnowledgeGraph | None:
    numbered = {}
    for kind, name in _NAMES.items():
        part = _counted(path / name, ("id", "number"), faults)
        numbers = _integers(part, "number")
        part.refuse_second("id", kind)
        part.refuse_second("number", f"{kind} number")
        numbered[kind] = part["id"].combine_chunks(), numbers.combine_chunks()
    parts = {}
    for split, file in files.items():
        part = parts[split] = _counted(file, _COLUMNS, faults)
        part.table = pa.table({name: _as_ids(part, name, kind, numbered[kind]) for name, kind in _COLUMNS.items()})
    return None if faults.found else assemble(parts, find_files(path), faults)


def _counted(file: Path, names: Iterable[str], faults: Faults) -> Columns:
    """Read a file whose first line is a count."""
    first, second = (*first_lines(file, 2), "", "")[:2]
    delimiter = "\t" if "\t" in second or file.name in _NAMES.values() else " "  # names may hold spaces
    part = Columns(file, tuple(names), faults, delimiter=delimiter, skip=1)
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", first):
        faults.add(file, 1, f"expected the number of lines that follow, found {first[:40]!r}")
    elif int(first) != len(part) and not part.faulty:
        faults.add(file, 1, f"says that {int(first):,} lines follow, found {len(part):,}")
    return part


def _integers(part: Columns, name: str) -> pa.ChunkedArray:
    """Parse a column as int64; other values are faults, and -1."""
    column = part[name]
    good = pc.match_substring_regex(column, r"^\d{1,18}$")
    part.complain(
        np.flatnonzero(~good.to_numpy()), lambda row: f"{name}: expected a number, found {column[row].as_py()!r}"
    )
    return pc.cast(pc.if_else(good, column, "-1"), pa.int64())


def _as_ids(part: Columns, name: str, kind: str, numbered: Numbered) -> pa.ChunkedArray:
    (ids, id_numbers), numbers = numbered, _integers(part, name)
    place = pc.index_in(numbers, value_set=id_numbers)
    unknown = np.flatnonzero((place.is_null().to_numpy()) & (pc.greater_equal(numbers, 0).to_numpy()))
    part.complain(unknown, lambda row: f"unknown {kind} {numbers[row].as_py()}: {_NAMES[kind]} does not have it")
    return pa.chunked_array([ids.take(chunk) for chunk in place.chunks], pa.string())


def _fits(path: Path) -> bool:
    """Return whether triples are numbers; lists of numbers next to triples of names (KGDatasets) are not needed."""
    if any(stands(path / name) for name in _SPLITS.values()):
        return True
    return any(stands(path / name) for name in _NAMES.values()) and not find_files(path).triples


FORMAT = Format("openke", "train2id.txt (OpenKE)", _fits, _read)

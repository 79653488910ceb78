"""Oddities of a knowledge graph that reading accepts: repeated triples and loops."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fathom.base.reading import Faults, first_few
from fathom.data.columns import Columns
from fathom.data.formats import format_of
from fathom.data.formats.kg import FORMAT, find_files
from fathom.data.formats.kg_triples import read_triples
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.statistics import repeated_triples


def graph_notes(path: Path, graph: KnowledgeGraph) -> Iterator[str]:
    """Yield notes on the graph in a folder or file, with lines if it is in the layout of this package's graphs."""
    files = find_files(path) if format_of(path) is FORMAT else None
    spans = graph.splits or {"": range(len(graph))}

    @cache
    def lines_of(split: str) -> Columns | None:
        return None if files is None else read_triples(files.triples[split], Faults())

    def place(row: int) -> tuple[str, str]:
        """Return the split of a row, and its file and line."""
        split = next(name for name, span in spans.items() if row in span)
        lines = lines_of(split)
        return split, f"row {row}" if lines is None else f"{lines.file.name}:{lines.line(row - spans[split].start)}"

    repeated: dict[str, list[str]] = {}
    for row, before in zip(*(rows.tolist() for rows in repeated_triples(graph)), strict=True):
        (split, line), (other, first) = place(row), place(before)
        what = f"of {split} also in {other}" if split != other else f"of {split or 'the graph'} repeated"
        repeated.setdefault(what, []).append(f"{line} ({first})")
    if loops := [place(row)[1] for row in np.flatnonzero(graph.head == graph.tail).tolist()]:
        repeated["whose head is the tail"] = loops
    for what, found in repeated.items():
        yield f"{len(found):,} triple{'s' * (len(found) != 1)} {what}: {first_few(found)}"

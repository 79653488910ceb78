"""Writing a knowledge graph in the layout of KG-BERT, so that reading it gives the same graph again.

``train.tsv``, ``dev.tsv``, ``test.tsv`` (``triples.tsv`` for a graph without splits), ``entity2text.txt``,
``relation2text.txt``. Descriptions stand in ``entity2textlong.txt``, or for a graph of WordNet's behind the name and
", ", as KG-BERT has it. Other names stand in ``entity2wikidata.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.columns import SHOWN
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import few_chunks, take_rows
from fathom.formats.kg import has_glosses

_LINES = 1 << 18
"""Lines that are put together at a time."""


def unwritable(graph: KnowledgeGraph) -> list[str]:
    """A line for each text that a file of tab-separated lines cannot hold; the empty list where there is none."""
    faults = []
    for kind, table, columns in (
        ("entity", graph.entities, ("id", "name", "description")),
        ("relation", graph.relations, ("id", "name")),
    ):
        for column in columns:
            texts = table.column(column)
            rows = np.flatnonzero(pc.match_substring_regex(texts, r"[\t\n\r]").to_numpy())
            for row in rows[:SHOWN].tolist():
                faults.append(
                    f"{kind} {table.column('id')[row].as_py()!r}: its {column} has a tab or a line break, which a file "
                    f"of tab-separated lines cannot hold: {texts[row].as_py()[:60]!r}; write a space instead"
                )
            if len(rows) > SHOWN:
                faults.append(f"{len(rows) - SHOWN:,} more {column}s of {kind} rows with a tab or a line break")
    return faults


def write_graph(graph: KnowledgeGraph, folder: Path) -> None:
    """Write all files of a graph into a folder that exists. Texts must be those that :func:`unwritable` lets pass."""
    entities, relations = graph.entities, graph.relations
    ids, names, descriptions = (entities.column(name) for name in ("id", "name", "description"))
    joined = _with_glosses(graph)
    if joined is not None:
        _write(folder / "entity2text.txt", ids, joined)
    elif has_glosses(ids, names):
        _write(folder / "entity2text.txt", ids, names, descriptions)  # names alone would be cut at their commas
    else:
        _write(folder / "entity2text.txt", ids, names)
        told = pc.not_equal(descriptions, "")
        if pc.any(told).as_py():
            _write(folder / "entity2textlong.txt", ids.filter(told), descriptions.filter(told))
    _write(folder / "relation2text.txt", relations.column("id"), relations.column("name"))
    if pc.any(pc.greater(pc.list_value_length(entities.column("aliases")), 0)).as_py():
        _write_aliases(folder / "entity2wikidata.json", entities)
    for split, rows in (graph.splits or {"triples": range(len(graph))}).items():
        _write_triples(folder / f"{split}.tsv", graph, rows)


def _with_glosses(graph: KnowledgeGraph) -> pa.ChunkedArray | None:
    """Names and descriptions with ", " between, where the reader would take them apart again; None elsewhere."""
    ids, names, descriptions = (graph.entities.column(name) for name in ("id", "name", "description"))
    if pc.any(pc.match_substring(names, ", ")).as_py():
        return None
    if pc.any(pc.greater(pc.list_value_length(graph.entities.column("aliases")), 0)).as_py():
        return None
    both = pc.binary_join_element_wise(names, descriptions, ", ")
    joined = pc.if_else(pc.equal(descriptions, ""), names, both)
    return joined if has_glosses(ids, joined) else None


def _write(file: Path, *columns: pa.ChunkedArray) -> None:
    with file.open("wb") as stream:
        for start in range(0, len(columns[0]), _LINES):
            _write_lines(stream, *(column.slice(start, _LINES) for column in columns))


def _write_triples(file: Path, graph: KnowledgeGraph, rows: range) -> None:
    ids, relations = few_chunks(graph.entities.column("id")), few_chunks(graph.relations.column("id"))
    with file.open("wb") as stream:
        for start in range(rows.start, rows.stop, _LINES):
            part = slice(start, min(start + _LINES, rows.stop))
            _write_lines(
                stream,
                take_rows(ids, graph.head[part]),
                take_rows(relations, graph.relation[part]),
                take_rows(ids, graph.tail[part]),
            )


def _write_lines(stream: Any, *columns: pa.ChunkedArray) -> None:
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, "\t"), "\n", "")
    for part in _bytes_of(lines):
        stream.write(part)


def _bytes_of(lines: pa.ChunkedArray) -> Iterator[memoryview]:
    """The characters of a column of texts stand one after another: the file is there already."""
    for chunk in lines.chunks:
        _, offsets, characters = chunk.buffers()
        places = np.frombuffer(offsets, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        if characters is not None:
            yield memoryview(characters)[places[0] : places[-1]]


def _write_aliases(file: Path, entities: pa.Table) -> None:
    """One object, a line for each entity that has other names."""
    having = entities.filter(pc.greater(pc.list_value_length(entities.column("aliases")), 0))
    with file.open("w", encoding="utf-8") as stream:
        before = "{\n"
        for batch in having.select(["id", "aliases"]).to_batches(max_chunksize=_LINES):
            for id_, aliases in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                stream.write(f"{before}{json.dumps(id_)}: {json.dumps({'alternatives': aliases}, ensure_ascii=False)}")
                before = ",\n"
        stream.write("\n}\n")

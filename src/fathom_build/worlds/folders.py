"""World folders: knowledge graphs with ``mapping.parquet`` and ``spans.parquet``, from which the source is restored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Json, json_file, parquet_file, stands
from fathom.data.columns import few_chunks, take_rows
from fathom.data.formats import read
from fathom.data.formats.kg import Templates, write_graph
from fathom.data.knowledge import KnowledgeGraph
from fathom.results.tables import Table
from fathom.store.files import write_json
from fathom_build.options import WorldOptions
from fathom_build.worlds.audit import Auditor, left_table
from fathom_build.worlds.texts import Spans
from fathom_build.worlds.world import MAPPING, World, column_set

_ROWS = 1 << 18
"""Rows of a table that are written together."""
_IDS = ("described", "mention")
_SPANS = pa.schema(
    [(name, pa.string()) for name in _IDS]
    + [(name, pa.int32()) for name in ("start", "end", "new_start", "new_end")]
    + [("old", pa.string())]
)
INSERTED = ("described", "new_start", "new_end")
"""Columns of spans that locate inserted text."""


def write_world(world: World, folder: Path, templates: Templates) -> None:
    """Write the graph's files, ``mapping.parquet`` and ``spans.parquet``."""
    write_graph(world.graph, folder, templates)
    ids = few_chunks(world.graph.entities.column("id"))
    _write_table(folder / "mapping.parquet", world.mapping, MAPPING, {})
    _write_table(folder / "spans.parquet", world.spans, _SPANS, dict.fromkeys(_IDS, ids))


def _write_table(file: Path, table: pa.Table, schema: pa.Schema, ids: Mapping[str, pa.ChunkedArray]) -> None:
    """Write bytes that do not depend on the chunks in memory. :param ids: for columns with row numbers."""
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(table), _ROWS):
            part = table.slice(start, _ROWS)
            columns = [
                take_rows(ids[name], column.to_numpy()) if name in ids else column
                for name, column in zip(part.column_names, part.columns, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema).combine_chunks())


_read_table = partial(parquet_file, what_to_do="make the world anew")


def _read_graph(folder: Path) -> KnowledgeGraph:
    graph = read(folder).graph
    assert graph is not None
    return graph


def find_worlds(folder: Path) -> list[Path]:
    """Return the folder itself or the worlds in it. :raises BadInput: there is none."""
    if stands(folder / "mapping.parquet"):
        return [folder]
    worlds = sorted(file.parent for file in folder.glob("*/mapping.parquet"))
    if not worlds:
        raise BadInput(f"{folder} is no world and contains none: there is no mapping.parquet")
    return worlds


def read_manifest(folder: Path) -> Json:
    """Read the manifest of a world. :raises BadInput: it is none."""
    content = json_file(folder / "manifest.json")
    manifest = content if isinstance(content, dict) else {}
    seed = manifest.get("seed")
    parts = {"world": manifest.get("world"), "seed": seed if isinstance(seed, int) else None}
    for key, needed, kind in (("source", "content_hash", str), ("options", "shortest_mention", int)):
        part = manifest.get(key)
        parts[key] = part if isinstance(part, dict) and isinstance(part.get(needed), kind) else None
    if lacking := [key for key, value in parts.items() if value is None]:
        raise BadInput(f"{folder / 'manifest.json'} is no manifest of a world: it lacks {', '.join(lacking)}")
    return manifest


def tabulate_audits(folder: Path, worlds: Iterable[str]) -> list[Table]:
    """Tabulate the audits of some worlds in *folder*, by name; no table if none of them was audited."""
    return left_table([read_manifest(folder / world) for world in worlds if stands(folder / world / "manifest.json")])


def audit_world(folder: Path, auditor: Auditor) -> Json:
    """Audit one world and write the result into its manifest. :param auditor: of its source."""
    manifest = read_manifest(folder)
    graph = _read_graph(folder)
    if not graph.entities.column("id").equals(auditor.source.entities.column("id")):
        raise BadInput(f"{folder} has other entities than its source graph: make the world anew")
    table = _read_table(folder / "spans.parquet", needed=("described", *INSERTED[1:]))
    rows = pc.index_in(table.column("described"), value_set=graph.entities.column("id").combine_chunks()).to_numpy()
    mapping = _read_table(folder / "mapping.parquet", needed=("kind", "id", "source"))
    spans = inserted_spans(graph, mapping, rows, *(table.column(name).to_numpy() for name in INSERTED[1:]))
    manifest["left"] = auditor.left(graph.entities.column("description"), spans)
    write_json(folder / "manifest.json", manifest)
    return manifest


def inserted_spans(
    world: KnowledgeGraph, mapping: pa.Table, row: NDArray[np.int32], start: NDArray[np.int32], end: NDArray[np.int32]
) -> Spans:
    """Locate inserted text: replacements, given by row and characters, and whole random descriptions."""
    is_random = pc.and_(pc.equal(mapping.column("kind"), "description"), pc.is_null(mapping.column("source")))
    ids = mapping.column("id").filter(is_random)
    random = pc.index_in(ids, value_set=world.entities.column("id").combine_chunks()).to_numpy().astype(np.int64)
    length = pc.utf8_length(take_rows(world.entities.column("description"), random)).to_numpy()
    columns = ((row, random), (start, np.zeros(len(random))), (end, length))
    rows, starts, ends = (np.concatenate(both).astype(np.int64) for both in columns)
    order = np.lexsort((starts, rows))
    return Spans(rows[order], starts[order], ends[order])


def check_comparable_worlds(folder: Path, worlds: Sequence[str], graph: KnowledgeGraph, seed: int) -> None:
    """Check that existing worlds in *folder*, by name, are comparable.

    :raises BadInput: a world is of another graph or seed, or was built by a version with other options.
    """
    faults = []
    for place in (folder / world for world in worlds if stands(folder / world)):
        manifest = read_manifest(place)
        content, wanted = manifest["source"]["content_hash"], graph.content_hash
        lacking = ", ".join(sorted(WorldOptions.model_fields.keys() - manifest["options"].keys()))
        faults += [f"{place}: made of another graph ({content}, expected {wanted})"] * (content != wanted)
        faults += [f"{place}: made with seed {manifest['seed']}, expected {seed}"] * (manifest["seed"] != seed)
        faults += [f"{place}: made by an earlier version, which had no option {lacking}"] * bool(lacking)
    refuse([f"{fault}: delete the world with what was trained on it, or choose another folder" for fault in faults])


def restore(folder: Path) -> KnowledgeGraph:
    """Restore the source graph of a world, of up to a million entities: texts are processed one by one.

    :raises BadInput: the folder is no world.
    """
    if not stands(folder / "mapping.parquet"):
        raise BadInput(f"{folder} is no world: it has no mapping.parquet")
    graph = _read_graph(folder)
    changed: dict[str, dict[str, Json]] = defaultdict(dict)
    for line in _read_table(folder / "mapping.parquet", needed=("kind", "id", "old", "old_aliases")).to_pylist():
        changed[line["kind"]][line["id"]] = line
    spans: dict[str, list[Json]] = defaultdict(list)
    for span in _read_table(folder / "spans.parquet", needed=("described", "old", "new_start", "new_end")).to_pylist():
        spans[span["described"]].append(span)
    ids, descriptions = (graph.entities.column(name).to_pylist() for name in ("id", "description"))
    texts = []
    for id_, description in zip(ids, descriptions, strict=True):
        text = description
        for span in sorted(spans[id_], key=lambda span: -span["new_start"]):  # from the end, so that places stay
            text = text[: span["new_start"]] + span["old"] + text[span["new_end"] :]
        texts.append(text)
    entities = _set_values(graph.entities, "description", texts)
    entities = _put_back(entities, "description", changed["description"], "old")
    entities = _put_back(entities, "name", changed["entity"], "old")
    entities = _put_back(entities, "aliases", changed["entity"], "old_aliases")
    relations = _put_back(graph.relations, "name", changed["relation"], "old")
    return replace(graph, entities=entities, relations=relations)


def _put_back(table: pa.Table, name: str, changed: dict[str, Json], old: str) -> pa.Table:
    """Restore a column. :param changed: lines of the mapping by id, with the values in their column *old*."""
    rows = zip(table.column("id").to_pylist(), table.column(name).to_pylist(), strict=True)
    return _set_values(table, name, [changed[id_][old] if id_ in changed else value for id_, value in rows])


def _set_values(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    return column_set(table, name, pa.array(values, table.schema.field(name).type))

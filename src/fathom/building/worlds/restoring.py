"""The way back from a world to the graph that it was made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from fathom.building.worlds.world import column_set
from fathom.data.knowledge import KnowledgeGraph
from fathom.errors import BadInput
from fathom.formats import read
from fathom.reading import Json, parquet_file, stands


def restore(folder: Path) -> KnowledgeGraph:
    """The graph as it was. For graphs of up to a million entities: texts are handled one by one.

    :raises BadInput: the folder is no world.
    """
    if not stands(folder / "mapping.parquet"):
        raise BadInput(f"{folder} is no world: it has no mapping.parquet")
    graph = read(folder).graph
    assert graph is not None
    changed: dict[str, dict[str, Json]] = defaultdict(dict)
    for line in table_of(folder / "mapping.parquet", ("kind", "id", "old", "old_aliases")).to_pylist():
        changed[line["kind"]][line["id"]] = line
    spans: dict[str, list[Json]] = defaultdict(list)
    for span in table_of(folder / "spans.parquet", ("described", "old", "new_start", "new_end")).to_pylist():
        spans[span["described"]].append(span)
    ids, descriptions = (graph.entities.column(name).to_pylist() for name in ("id", "description"))
    texts = [_with_old_names(text, spans[id_]) for id_, text in zip(ids, descriptions, strict=True)]
    entities = _column_set(graph.entities, "description", texts)
    entities = _put_back(entities, "description", changed["description"], "old")
    entities = _put_back(entities, "name", changed["entity"], "old")
    entities = _put_back(entities, "aliases", changed["entity"], "old_aliases")
    relations = _put_back(graph.relations, "name", changed["relation"], "old")
    return replace(graph, entities=entities, relations=relations)


def table_of(file: Path, needed: Sequence[str]) -> pa.Table:
    """A table that stands beside a world. :raises BadInput: it is damaged."""
    return parquet_file(file, needed=needed, what_to_do="make the world anew")


def _put_back(table: pa.Table, name: str, changed: dict[str, Json], old: str) -> pa.Table:
    """:param changed: lines of the mapping by their ids.
    :param old: their column with what *name* was.
    """
    rows = zip(table.column("id").to_pylist(), table.column(name).to_pylist(), strict=True)
    return _column_set(table, name, [changed[id_][old] if id_ in changed else value for id_, value in rows])


def _column_set(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    return column_set(table, name, pa.array(values, table.schema.field(name).type))


def _with_old_names(text: str, spans: list[Json]) -> str:
    for span in sorted(spans, key=lambda span: -span["new_start"]):  # from the end, so that places stay
        text = text[: span["new_start"]] + span["old"] + text[span["new_end"] :]
    return text

"""Back from a world to the graph it was made from, by its mapping and its spans."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.data.formats import read
from fathom.data.knowledge import KnowledgeGraph
from fathom.errors import BadInput


def restore(folder: Path) -> KnowledgeGraph:
    """The graph with its old names and descriptions; other names are those of the world. For graphs of up to a million
    entities: texts are handled one by one.

    :raises BadInput: the folder is no world.
    """
    if not (folder / "mapping.parquet").exists():
        raise BadInput(f"{folder} is no world: it has no mapping.parquet")
    graph = read(folder).graph
    assert graph is not None
    old: dict[str, dict[str, str]] = defaultdict(dict)
    for line in pq.read_table(folder / "mapping.parquet").to_pylist():
        old[line["kind"]][line["id"]] = line["old"]
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in pq.read_table(folder / "spans.parquet").to_pylist():
        spans[span["described"]].append(span)
    ids = graph.entities.column("id").to_pylist()
    descriptions = zip(ids, graph.entities.column("description").to_pylist(), strict=True)
    texts = [old["description"].get(id_, _with_old_names(text, spans[id_])) for id_, text in descriptions]
    entities = _renamed(graph.entities, old["entity"])
    place = entities.column_names.index("description")
    entities = entities.set_column(place, "description", pa.array(texts, pa.string()))
    return replace(graph, entities=entities, relations=_renamed(graph.relations, old["relation"]))


def _renamed(table: pa.Table, old: dict[str, str]) -> pa.Table:
    ids, names = (table.column(name).to_pylist() for name in ("id", "name"))
    restored = [old.get(id_, name) for id_, name in zip(ids, names, strict=True)]
    return table.set_column(table.column_names.index("name"), "name", pa.array(restored, pa.string()))


def _with_old_names(text: str, spans: list[dict[str, Any]]) -> str:
    for span in sorted(spans, key=lambda span: -span["new_start"]):  # from the end, so that places stay
        text = text[: span["new_start"]] + span["old"] + text[span["new_end"] :]
    return text

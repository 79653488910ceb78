"""Tables of entities, and graphs of those that occur."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.knowledge import KnowledgeGraph


def in_use(
    entities: pa.Table,
    relations: pa.Table,
    head: NDArray[np.int32],
    relation: NDArray[np.int32],
    tail: NDArray[np.int32],
    splits: Mapping[str, range],
) -> KnowledgeGraph:
    """A graph of the entities and relations that occur in triples, in their order."""
    entities, (head, tail) = _only_used(entities, head, tail)
    relations, (relation,) = _only_used(relations, relation)
    return KnowledgeGraph(entities, relations, head, relation, tail, splits)


def _only_used(table: pa.Table, *columns: NDArray[np.int32]) -> tuple[pa.Table, list[NDArray[np.int32]]]:
    used = np.zeros(len(table), dtype=bool)
    for column in columns:
        used[column] = True
    if used.all():
        return table, list(columns)
    place = np.cumsum(used, dtype=np.int32) - 1
    return table.filter(pa.array(used)), [place[column].astype(np.int32) for column in columns]


def named_by_id(ids: pa.Array) -> pa.Table:
    """Entities without texts: "Albert_Einstein" is called "Albert Einstein"."""
    names = pc.utf8_trim_whitespace(pc.replace_substring(ids, "_", " "))
    return entity_table(ids, names)


def entity_table(ids: Any, names: Any, descriptions: Any = None, aliases: Any = None) -> pa.Table:
    """The entities of a graph.

    :param ids: column of texts, shape (entities,); so *names* and *descriptions*, which are "" where left out.
    :param aliases: column of lists of texts, empty ones where left out.
    """
    count = len(ids)
    if descriptions is None:
        descriptions = pa.repeat(pa.scalar("", pa.string()), count)
    if aliases is None:
        aliases = pa.array([[]], pa.list_(pa.string())).take(pa.array(np.zeros(count, dtype=np.int64)))
    return pa.table({"id": ids, "name": names, "aliases": aliases, "description": descriptions})

"""A knowledge graph in columns: millions of triples cost a few bytes each, and no row is ever an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class KnowledgeGraph:
    """Entities, relations and the triples between them.

    :param entities: Arrow table with ``id``, ``name``, ``aliases`` (list of strings) and ``description`` ("" for none).
    :param relations: Arrow table with ``id`` and ``name``.
    :param head: row of each triple's head in *entities*, int32, shape (triples,).
    :param relation: row in *relations*, int32, shape (triples,).
    :param tail: row in *entities*, int32, shape (triples,).
    :param splits: the triples of each split (``train``, ``dev``, ``test``), which stand together; empty for no splits.
    """

    entities: pa.Table
    relations: pa.Table
    head: NDArray[np.int32]
    relation: NDArray[np.int32]
    tail: NDArray[np.int32]
    splits: Mapping[str, range] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.head)

    @classmethod
    def from_triples(
        cls,
        triples: Iterable[tuple[str, str, str]],
        names: Mapping[str, str],
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> KnowledgeGraph:
        """:param triples: (head, relation, tail) ids. :param names: name of each id; an id without one is its own."""
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        for head, relation, tail in triples:
            columns[0].append(entities.setdefault(head, len(entities)))
            columns[1].append(relations.setdefault(relation, len(relations)))
            columns[2].append(entities.setdefault(tail, len(entities)))
        known = aliases or {}
        return cls(
            pa.table(
                {
                    "id": pa.array(entities, pa.string()),
                    "name": pa.array([names.get(id_, id_) for id_ in entities], pa.string()),
                    "aliases": pa.array([list(known.get(id_, ())) for id_ in entities], pa.list_(pa.string())),
                    "description": pa.array([""] * len(entities), pa.string()),
                }
            ),
            pa.table(
                {
                    "id": pa.array(relations, pa.string()),
                    "name": pa.array([names.get(id_, id_) for id_ in relations], pa.string()),
                }
            ),
            *(np.array(column, dtype=np.int32) for column in columns),  # type: ignore[arg-type]
        )

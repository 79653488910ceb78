"""A knowledge graph in columns: millions of triples cost a few bytes each, and no row is ever an object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""Rows of a graph's entities, relations or triples."""


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

    @property
    def training(self) -> range:
        """Rows of the training split; all of them in a graph without one."""
        return self.splits.get("train", range(len(self)))

    def columns(self, rows: range | NDArray[np.int64]) -> tuple[Places, Places, Places]:
        """Heads, relations and tails of some triples, each of shape (rows,)."""
        part = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        head, relation, tail = (column[part].astype(np.int64) for column in (self.head, self.relation, self.tail))
        return head, relation, tail

    @cached_property
    def content_hash(self) -> str:
        """Digest of entities, relations, triples and splits, in their order, however the columns are cut in memory."""
        digest = hashlib.sha256(repr([(name, rows.start, rows.stop) for name, rows in self.splits.items()]).encode())
        for table in (self.entities, self.relations):
            for name in table.column_names:
                digest.update(f"|{name}|{len(table)}|".encode())
                for part in _bytes_of(table.column(name)):
                    digest.update(part)
        for column in (self.head, self.relation, self.tail):
            digest.update(np.ascontiguousarray(column, dtype="<i4").data)
        return digest.hexdigest()[:16]

    @classmethod
    def from_triples(
        cls,
        triples: Iterable[tuple[str, str, str]],
        names: Mapping[str, str],
        aliases: Mapping[str, Iterable[str]] | None = None,
    ) -> KnowledgeGraph:
        """The graph of some facts, without descriptions and splits.

        :param triples: (head, relation, tail) ids.
        :param names: name of each id; an id without one is its own name.
        :param aliases: other names of each id.
        """
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


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Lengths and characters of a column of texts, or of lists of texts."""
    if pa.types.is_list(column.type):
        yield pc.list_value_length(column).to_numpy().astype("<i4").tobytes()
        column = pc.list_flatten(column)
    yield pc.binary_length(column).to_numpy().astype("<i4").tobytes()
    for chunk in column.chunks:
        if len(chunk):
            _, offsets, characters = chunk.buffers()
            places = np.frombuffer(offsets, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            yield memoryview(characters)[places[0] : places[-1]] if characters is not None else b""

"""The knowledge graph in columns: a few bytes per triple, and no Python object per row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""Rows of a graph's entities, relations or triples."""
Triple = tuple[str, str, str]
"""Ids of head, relation and tail."""


@dataclass(frozen=True)
class KnowledgeGraph:
    """Entities, relations and the triples between them.

    :param entities: Arrow table with ``id``, ``name``, ``aliases`` (list of strings) and ``description`` ("" for none),
        and ``type`` ("" for none) if the source has types.
    :param relations: Arrow table with ``id`` and ``name``.
    :param head: row of each triple's head in *entities*, int32, shape (triples,).
    :param relation: row in *relations*, int32, shape (triples,).
    :param tail: row in *entities*, int32, shape (triples,).
    :param splits: contiguous triples of each split (``train``, ``dev``, ``test``); empty without splits.

    >>> graph = fathom.read_data("my-graph").graph
    >>> len(graph.entities), len(graph.relations)
    (24, 1)
    """

    entities: pa.Table
    relations: pa.Table
    head: NDArray[np.int32]
    relation: NDArray[np.int32]
    tail: NDArray[np.int32]
    splits: Mapping[str, range] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.head)

    def __repr__(self) -> str:
        sizes = f"{len(self.entities):,} entities, {len(self.relations):,} relations, {len(self):,} triples"
        splits = "; ".join(f"{name} {len(rows):,}" for name, rows in self.splits.items())
        return f"<KnowledgeGraph: {sizes}{f' ({splits})' if splits else ''}>"

    @property
    def training(self) -> range:
        """Rows of the training split; all rows if there is none."""
        return self.splits.get("train", range(len(self)))

    def columns(self, rows: range | NDArray[np.int64]) -> tuple[Places, Places, Places]:
        """Return heads, relations and tails of some triples, each of shape (rows,)."""
        part = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        head, relation, tail = (column[part].astype(np.int64) for column in (self.head, self.relation, self.tail))
        return head, relation, tail

    @cached_property
    def content_hash(self) -> str:
        """Digest of entities, relations, triples and splits, in their order, independent of chunking."""
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
        cls, triples: Iterable[Triple], names: Mapping[str, str], aliases: Mapping[str, Iterable[str]] | None = None
    ) -> KnowledgeGraph:
        """Make a graph without descriptions and splits. :param names: name by id; an id without one is its own name."""
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows = [
            (
                entities.setdefault(head, len(entities)),
                relations.setdefault(relation, len(relations)),
                entities.setdefault(tail, len(entities)),
            )
            for head, relation, tail in triples
        ]
        return cls(
            entity_table(
                pa.array(entities, pa.string()),
                pa.array([names.get(id_, id_) for id_ in entities], pa.string()),
                aliases=pa.array([list((aliases or {}).get(id_, ())) for id_ in entities], pa.list_(pa.string())),
            ),
            pa.table(
                {
                    "id": pa.array(relations, pa.string()),
                    "name": pa.array([names.get(id_, id_) for id_ in relations], pa.string()),
                }
            ),
            *np.array(rows, dtype=np.int32).reshape(-1, 3).T.copy(),
        )

    @classmethod
    def from_used(
        cls, entities: pa.Table, relations: pa.Table, columns: Sequence[NDArray[np.int32]], splits: Mapping[str, range]
    ) -> KnowledgeGraph:
        """Make a graph of the entities and relations that occur in triples. :param columns: heads, relations, tails."""
        head, relation, tail = columns
        entities, (head, tail) = _only_used(entities, head, tail)
        relations, (relation,) = _only_used(relations, relation)
        return cls(entities, relations, head, relation, tail, splits)


def consecutive(sizes: Mapping[str, int]) -> dict[str, range]:
    """Return contiguous splits of these sizes; the name "" is no split."""
    ends = accumulate(sizes.values())
    return {split: range(end - size, end) for (split, size), end in zip(sizes.items(), ends, strict=True) if split}


def _only_used(table: pa.Table, *columns: NDArray[np.int32]) -> tuple[pa.Table, list[NDArray[np.int32]]]:
    used = np.zeros(len(table), dtype=bool)
    for column in columns:
        used[column] = True
    if used.all():
        return table, list(columns)
    place = np.cumsum(used, dtype=np.int32) - 1
    return table.filter(pa.array(used)), [place[column].astype(np.int32) for column in columns]


def named_by_id(ids: pa.Array) -> pa.Table:
    """Make entities without texts: the name of "Albert_Einstein" is "Albert Einstein"."""
    return entity_table(ids, pc.utf8_trim_whitespace(pc.replace_substring(ids, "_", " ")))


def entity_table(
    ids: pa.Array | pa.ChunkedArray,
    names: pa.Array | pa.ChunkedArray,
    descriptions: pa.Array | pa.ChunkedArray | None = None,
    aliases: pa.Array | pa.ChunkedArray | None = None,
) -> pa.Table:
    """Make the entity table of a graph.

    :param ids: column of texts, shape (entities,); likewise *names* and *descriptions*, "" by default.
    """
    if descriptions is None:
        descriptions = pa.repeat(pa.scalar("", pa.string()), len(ids))
    if aliases is None:
        aliases = pa.array([[]], pa.list_(pa.string())).take(pa.array(np.zeros(len(ids), dtype=np.int64)))
    return pa.table({"id": ids, "name": names, "aliases": aliases, "description": descriptions})


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    if pa.types.is_list(column.type):
        yield pc.list_value_length(column).to_numpy().astype("<i4").tobytes()
        column = pc.list_flatten(column)
    yield pc.binary_length(column).to_numpy().astype("<i4").tobytes()
    yield from characters(column)


def characters(column: pa.ChunkedArray) -> Iterator[memoryview]:
    """Yield the characters of all texts of a column, which are contiguous in memory."""
    for chunk in column.chunks:
        _, offsets, found = chunk.buffers()
        if len(chunk) and found is not None:
            places = np.frombuffer(offsets, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            yield memoryview(found)[places[0] : places[-1]]

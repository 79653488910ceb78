"""A world, its name, and the steps that change names, mentions, descriptions and relations.

Each step is a pure function from a world to the next; its changes are added to the mapping, the counts and the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.base.reading import Json
from fathom.data.columns import is_blank, take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom_build.worlds.mentions import SPANS, Mentions, replace_mentions

_NAMES = pa.list_(pa.string())
MAPPING = pa.schema(
    [
        ("kind", pa.string()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("old_aliases", _NAMES),
        ("new_aliases", _NAMES),
    ]
)
"""Changes only. ``kind``: entity, relation, description, or mention (the name of an entity in descriptions, if its own
name stays). ``source``: the id that had the text, null for a random string. ``old_aliases`` and ``new_aliases``: an
entity's other names, null for other kinds."""
_SHOWN = 20
CONSTRUCTIONS = ("virtual", "anonymised", "inconsistent", "fully-anonymised")
PARTS = "erd"
"""Entities, relations, descriptions."""


class Variant(NamedTuple):
    """One of :data:`CONSTRUCTIONS`, or "base", and some of the parts "erd", in this order."""

    construction: str
    parts: str

    def __str__(self) -> str:
        return f"{self.construction}-{self.parts}" if self.parts else self.construction


BASE = Variant("base", "")
THIRTEEN = (
    BASE,
    *(Variant(construction, parts) for construction in CONSTRUCTIONS[:2] for parts in ("e", "r", "er")),
    *(Variant(construction, parts) for construction in CONSTRUCTIONS[2:4] for parts in ("d", "ed", "erd")),
)
"""The worlds of Sakai et al. 2024."""


def parse_variants(names: Iterable[str]) -> tuple[Variant, ...]:
    """Parse the names of worlds; each once, in their order. :raises BadInput: with all unknown names."""
    variants: dict[Variant, None] = {}
    faults = []
    for name in names:
        construction, _, parts = name.strip().lower().rpartition("-")
        letters = set(parts)
        if name.strip().lower() == "base":
            variants[BASE] = None
        elif construction in CONSTRUCTIONS and letters and letters <= set(PARTS) and len(letters) == len(parts):
            variants[Variant(construction, "".join(part for part in PARTS if part in letters))] = None
        else:
            faults.append(
                f"unknown world {name.strip()!r}: expected base or one of {', '.join(CONSTRUCTIONS)} with a hyphen and "
                "some of e, r, d (entities, relations, descriptions), such as virtual-er"
            )
    if faults or not variants:
        raise BadInput(
            faults or "no world is named: give --variants base,virtual-e, or omit the option for all thirteen"
        )
    return tuple(variants)


@dataclass(frozen=True)
class World:
    """A copy of a graph, its changes (:data:`MAPPING`), replaced mentions (:data:`SPANS`), counts and notes."""

    variant: Variant
    graph: KnowledgeGraph
    mapping: pa.Table = field(default_factory=MAPPING.empty_table)
    spans: pa.Table = field(default_factory=SPANS.empty_table)
    counts: Json = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NewTexts(NamedTuple):
    """A column that replaces another, the row of each text in the old one (None for random strings), and its origin."""

    texts: pa.ChunkedArray
    source: NDArray[np.int64] | None
    method: str


def list_ids(rows: NDArray[np.int64], ids: pa.ChunkedArray) -> str:
    """List the ids of some rows, at most :data:`_SHOWN`."""
    shown = map(repr, take_rows(ids, rows[:_SHOWN]).to_pylist())
    return ", ".join(shown) + (f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else "")


def replace_names(world: World, mentions: Mentions, shortest: int, new: NewTexts) -> World:
    """Replace mentions in descriptions by new names."""
    entities = world.graph.entities
    old = entities.column("name")
    texts, spans = replace_mentions(entities.column("description"), mentions, new.texts)
    counts = {
        "mentions_found": len(mentions.entity),
        "mentions_replaced": len(mentions.entity),
        "mentions_by_kind": mentions.kinds,
        "mentions_ambiguous": sum(mentions.ambiguous.values()),
        "ambiguous_by_rule": mentions.ambiguous,
        "names_not_looked_for": mentions.too_short,
        "case": mentions.case,
    }
    note = f"names of fewer than {shortest} characters are not searched for in descriptions"
    notes = [f"{note} (entities: {mentions.too_short:,})"] if mentions.too_short else []
    named = np.flatnonzero(~is_blank(old))
    renamed = "e" in world.variant.parts
    mapping = MAPPING.empty_table() if renamed else _lines("mention", entities, named, old, new)
    return replace(_next(world, mapping, counts, notes, {"description": texts}), spans=spans)


def rename_entities(world: World, new: NewTexts) -> World:
    """Replace names. Aliases move with exchanged names, and are removed for random ones."""
    entities = world.graph.entities
    old, old_aliases = entities.column("name"), entities.column("aliases")
    has_aliases = pc.greater(pc.list_value_length(old_aliases), 0).to_numpy()
    notes = _without("entities", "name", old)
    if new.source is not None:
        aliases = take_rows(old_aliases, new.source)
        removed = np.zeros(len(old), dtype=bool)
    else:
        aliases = take_rows(pa.chunked_array([pa.array([[]], _NAMES)]), np.zeros(len(old), dtype=np.int64))
        removed = has_aliases
        if has_aliases.any():
            notes.append(f"aliases are removed, as they would give entities away (entities: {has_aliases.sum():,})")
    renamed = _differ(old, new.texts)
    rows = np.flatnonzero(renamed | removed)
    mapping = _lines("entity", entities, rows, old, new, (old_aliases, aliases))
    counts = {"entities_renamed": int(renamed.sum()), "entities_by": new.method}
    return _next(world, mapping, counts, notes, {"name": new.texts, "aliases": aliases})


def describe(world: World, new: NewTexts) -> World:
    """Replace descriptions."""
    entities = world.graph.entities
    old = entities.column("description")
    changed, blank = _differ(old, new.texts), is_blank(old)
    kept = np.flatnonzero(~changed & ~blank)
    notes = _without("entities", "description", old, given=int((changed & blank).sum()))
    if len(kept):  # happens only if names and descriptions move together
        notes.append(
            f"entities without a name keep their descriptions: {len(kept):,}, {list_ids(kept, entities.column('id'))}"
        )
    counts = {"descriptions_changed": int(changed.sum()), "descriptions_kept": len(kept), "descriptions_by": new.method}
    mapping = _lines("description", entities, np.flatnonzero(changed), old, new)
    return _next(world, mapping, counts, notes, {"description": new.texts})


def rename_relations(world: World, new: NewTexts) -> World:
    """Replace names of relations."""
    relations = world.graph.relations
    old, ids = relations.column("name"), relations.column("id")
    changed = _differ(old, new.texts)
    kept = np.flatnonzero(~changed & ~is_blank(old))
    notes = _without("relations", "name", old)
    if len(kept):
        none = "" if changed.any() else "no relation changes its name, so that this part is as in the graph; "
        notes.append(f"{none}relations that keep their names: {len(kept)}, {list_ids(kept, ids)}")
    counts = {
        "relations_renamed": int(changed.sum()),
        "relations_kept": take_rows(ids, kept).to_pylist(),
        "relations_by": new.method,
    }
    mapping = _lines("relation", relations, np.flatnonzero(changed), old, new)
    return _next(world, mapping, counts, notes, {"name": new.texts}, "relations")


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.not_equal(old, new).to_numpy())


def _without(bearers: str, what: str, old: pa.ChunkedArray, given: int = 0) -> list[str]:
    """Report bearers without such a text. :param given: how many of them get one."""
    without = int(is_blank(old).sum())
    end = f"given another's: {given:,}" if given else "they stay without"
    return [f"{bearers} without a {what}: {without:,}; {end}"] if without else []


def _lines(
    kind: str,
    table: pa.Table,
    rows: NDArray[np.int64],
    old: pa.ChunkedArray,
    new: NewTexts,
    aliases: Sequence[pa.ChunkedArray] = (),
) -> pa.Table:
    """Return lines of the mapping for some rows. :param aliases: old and new ones."""
    ids = table.column("id")
    source = pa.nulls(len(rows), pa.string()) if new.source is None else take_rows(ids, new.source[rows])
    ids, *texts = (
        column if len(rows) == len(table) else take_rows(column, rows) for column in (ids, old, new.texts, *aliases)
    )
    columns = [pa.repeat(pa.scalar(kind), len(rows)), ids, source, *texts]
    columns += [pa.nulls(len(rows), _NAMES)] * (len(MAPPING) - len(columns))
    return pa.table(columns, schema=MAPPING)


def _next(
    world: World, mapping: pa.Table, counts: Json, notes: Sequence[str], columns: Json, bearers: str = "entities"
) -> World:
    table = getattr(world.graph, bearers)
    for name, column in columns.items():
        table = column_set(table, name, column)
    return replace(
        world,
        graph=replace(world.graph, **{bearers: table}),
        mapping=pa.concat_tables([world.mapping, mapping]),
        counts=world.counts | counts,
        notes=(*world.notes, *notes),
    )


def column_set(table: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Replace the column of that name."""
    return table.set_column(table.column_names.index(name), name, column)

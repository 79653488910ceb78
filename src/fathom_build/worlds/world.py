"""A world: a copy of a graph with other texts. Its name is a construction and the parts that it changes (section 3).

- *virtual* (3.1) exchanges names. Entities take those of a random derangement, and mentions in descriptions follow;
  relations those of :func:`fathom_build.worlds.derangement.match_relations`. "d" alone: only mentions change.
- *anonymised* (3.2) replaces names by random strings, distinct and none of the old ones, likewise.
- *inconsistent* (3.3) permutes descriptions by a derangement. With "e", names and descriptions move together, and
  mentions stay; "e" without "d" and "r" are those of the virtual world.
- *fully-anonymised* (3.4) replaces descriptions, too, by random strings of their unigram model.

Each is a pure function of a graph, the parts to change, a seed and options. Ids, triples and splits stay, and so does
each ``fact_id``. Worlds of one graph, seed and options share their :class:`Materials`: ``virtual-er`` has the names of
``virtual-e`` and ``virtual-r``, and ``fully-anonymised-ed`` those of ``anonymised-e``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.reading import Json
from fathom.data.columns import is_blank, put_rows, take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom_build.options import WorldOptions
from fathom_build.worlds.derangement import (
    NO_LABEL,
    Derangement,
    NoDerangement,
    derange,
    match_relations,
    new_descriptions,
    new_names,
)
from fathom_build.worlds.mentions import SPANS, Forms, Hasher, Mentions, find_mentions, forms_of, replace_mentions

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
    mapping = MAPPING.empty_table() if "e" in world.variant.parts else _lines("mention", entities, named, old, new)
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
    mapping = _lines("entity", entities, np.flatnonzero(renamed | removed), old, new, (old_aliases, aliases))
    counts = {"entities_renamed": int(renamed.sum()), "entities_by": new.method}
    return _next(world, mapping, counts, notes, {"name": new.texts, "aliases": aliases})


def describe(world: World, new: NewTexts) -> World:
    """Replace descriptions."""
    entities = world.graph.entities
    old = entities.column("description")
    changed, blank = _differ(old, new.texts), is_blank(old)
    kept = np.flatnonzero(~changed & ~blank)
    notes = _without("entities", "description", old, replaced=int((changed & blank).sum()))
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


def _without(bearers: str, what: str, old: pa.ChunkedArray, replaced: int = 0) -> list[str]:
    """Report bearers without such a text. :param given: how many of them get one."""
    without = int(is_blank(old).sum())
    end = f"given another's: {replaced:,}" if replaced else "they stay without"
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


COLUMNS = {
    "name": ("entities", "name"),
    "mention": ("entities", "name"),
    "description": ("entities", "description"),
    "relation": ("relations", "name"),
}
"""Table and column of the texts that each step replaces."""


def make_world(variant: Variant | str, materials: Materials) -> World:
    """Make a world by name; worlds of the same materials share the work.

    :raises BadInput: there is no such world, or none of this graph.
    """
    (parsed,) = parse_variants([str(variant)])
    refuse(find_obstacles(parsed, materials))
    steps = _plan(parsed).items()
    plan = {step: materials.texts(step, material(materials)) for step, material in steps if step in COLUMNS}
    world = World(parsed, materials.graph)
    if "mention" in plan and len(materials.described):
        world = replace_names(world, materials.mentions, materials.options.shortest_mention, plan["mention"])
    if "description" in plan:
        world = describe(world, plan["description"])
    if "name" in plan:
        world = rename_entities(world, plan["name"])
    return rename_relations(world, plan["relation"]) if "relation" in plan else world


def find_obstacles(variant: Variant, materials: Materials) -> list[str]:
    """Return faults that prevent a world, without making it."""
    try:
        all_of(*(partial(material, materials) for material in dict.fromkeys(_plan(variant).values())))
    except BadInput as error:
        return list(dict.fromkeys(error.faults))
    return []


def _plan(variant: Variant) -> dict[str, Callable[[Materials], Any]]:
    """Return the steps that make a world, each with the material of its new texts, and other requirements."""
    e, r, d = (part in variant.parts for part in "erd")
    exchanging = variant.construction in ("virtual", "inconsistent")
    replaced = d and variant.construction in ("inconsistent", "fully-anonymised")
    columns = ("name", "description") if replaced else ("name",)
    names = methodcaller("exchange", *columns) if exchanging else methodcaller("random", "entities")
    plan: dict[str, Callable[[Materials], Any]] = {"name": names} if e else {}
    if replaced and exchanging:
        plan["description"] = names if e else methodcaller("exchange", "description")
    elif replaced:
        plan["description"] = Materials.refuse_undescribed
    elif d or (e and variant.construction != "inconsistent"):
        plan["mention"] = names
    if d:
        plan["described"] = Materials.refuse_undescribed
    if r:
        plan["relation"] = attrgetter("exchanged_relations") if exchanging else methodcaller("random", "relations")
    return plan


class Materials:
    """Texts for worlds, each computed on first use. What is impossible raises BadInput with the reason."""

    def __init__(self, graph: KnowledgeGraph, seed: int = 0, options: WorldOptions | None = None) -> None:
        if seed < 0:
            raise BadInput(f"seed: expected 0 or more, found {seed}")
        self.graph, self.seed, self.options = graph, seed, options or WorldOptions()
        self.rows, self.exchange, self.random = cache(self._rows), cache(self._exchange), cache(self._random)

    def generator(self, *purpose: str) -> np.random.Generator:
        """Return a generator that depends on the seed and the purpose only."""
        return np.random.default_rng([self.seed, *"/".join(purpose).encode()])

    def _rows(self, table: str, column: str) -> NDArray[np.int64]:
        """Return the rows of a table of the graph that have a text in a column."""
        return np.flatnonzero(~is_blank(getattr(self.graph, table).column(column)))

    @property
    def described(self) -> NDArray[np.int64]:
        """Rows of entities with a description."""
        return self.rows("entities", "description")

    def refuse_undescribed(self) -> None:
        """:raises BadInput: no entity has a description."""
        if not len(self.described):
            raise BadInput("no entity has a description: there is nothing to change")

    @cached_property
    def forms(self) -> Forms:
        """Names, aliases and inflected forms of entities."""
        return forms_of(self.graph.entities)

    @cached_property
    def mentions(self) -> Mentions:
        """Mentions of entities in descriptions."""
        options, forms = self.options, self.forms if self.options.sought == "all" else None
        return find_mentions(self.graph, options.case, options.shortest_mention, forms)

    @cached_property
    def exchanged_relations(self) -> Derangement:
        """Return which relation's name each relation takes, possibly its own."""
        named = self.rows("relations", "name")
        if not len(named):
            raise BadInput("no relation has a name: there is nothing to change")
        labels = np.full(len(self.graph.relations), NO_LABEL)
        labels[named] = _labels(self.graph.relations.column("name"), named)
        source = match_relations(self.graph, labels, self.generator("relations"))
        kept = named[source[named] == named]
        if len(kept) and not self.options.relax:
            ids, moved = self.graph.relations.column("id"), len(named) - len(kept)
            relaxed = f"moves {moved} and lists those that stay" if moved else "moves none of them"
            raise BadInput(
                f"no derangement of the {len(named)} relations exists: at least {len(kept)} must keep their names: "
                f"{list_ids(kept, ids)}; two relations may exchange names only if these differ and no pair of "
                f"entities is linked by both; --relax {relaxed} (in a study's plan, relax: true)"
            )
        return Derangement(source, "maximum matching (Hopcroft-Karp)")

    def texts(self, step: str, material: Derangement | pa.ChunkedArray | None) -> NewTexts:
        """Return the new texts of a step.

        :param step: one of :data:`COLUMNS`.
        :param material: a permutation or texts; None for random descriptions, which are not cached.
        """
        table, column = COLUMNS[step]
        old = getattr(self.graph, table).column(column)
        if isinstance(material, Derangement):
            return NewTexts(take_rows(old, material.source), *material)
        random = new_descriptions(old, self.generator("random", "descriptions")) if material is None else material
        return NewTexts(random, None, "random strings")

    def _random(self, bearers: str) -> pa.ChunkedArray:
        """Make names of all entities or relations, a random one for each that has a name."""
        rows = self.rows(bearers, "name")
        if not len(rows):
            bearer = {"entities": "entity", "relations": "relation"}[bearers]
            raise BadInput(f"no {bearer} has a name: there is nothing to change")
        old = getattr(self.graph, bearers).column("name")
        names = new_names(take_rows(old, rows), len(rows), self.generator("random", bearers), bearers)
        return put_rows(old, rows, names)

    def _exchange(self, *columns: str) -> Derangement:
        """Permute the texts of all columns among the entities that have the first."""
        rows = self.rows("entities", columns[0])
        if not len(rows):
            raise BadInput(f"no entity has a {columns[0]}: there is nothing to change")
        if len(rows) == 1:
            raise BadInput(f"only one entity has a {columns[0]}: there is nothing to exchange it with")
        labels = [_labels(self.graph.entities.column(column), rows) for column in columns]
        try:
            derangement = derange(labels, self.generator("exchange", " and ".join(columns)))
        except NoDerangement as error:
            raise BadInput(self._why_not(rows, columns, labels, error.label)) from None
        source = np.arange(len(self.graph.entities))
        source[rows] = rows[derangement.source]
        return Derangement(source, derangement.method)

    def _why_not(
        self, rows: NDArray[np.int64], columns: tuple[str, ...], labels: list[NDArray[np.int64]], label: int | None
    ) -> str:
        if label is None:
            kept = " or its ".join(columns)
            return f"found no permutation in which no entity keeps its {kept}: too many are equal"
        for column, labeling in zip(columns, labels, strict=True):
            bearers = rows[labeling == label]
            if 2 * len(bearers) > len(rows):
                text = self.graph.entities.column(column)[int(bearers[0])].as_py()
                return (
                    f"{text[:60]!r} is the {column} of {len(bearers):,} of {len(rows):,} entities, more than half: in "
                    f"every permutation some entity would keep its {column}"
                )
        raise AssertionError("a label was reported as too frequent but is not")


def _labels(texts: pa.ChunkedArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number *rows*, equal for equal texts; :data:`NO_LABEL` for blank ones."""
    numbers = np.unique(Hasher().rows(texts)[rows], return_inverse=True)[1].astype(np.int64)
    numbers[is_blank(texts)[rows]] = NO_LABEL
    return numbers

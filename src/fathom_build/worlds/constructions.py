"""The four constructions of Sakai et al. 2024, section 3: same graph, other texts.

A world's name is a construction and the parts that it changes: entities, relations, descriptions.

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

from collections.abc import Callable
from functools import cache, cached_property, partial
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.base.errors import BadInput, all_of, refuse
from fathom.data.columns import is_blank, put_rows, take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom_build.options import WorldOptions
from fathom_build.worlds.derangement import NO_LABEL, Derangement, NoDerangement, derange, match_relations
from fathom_build.worlds.forms import Forms, forms_of
from fathom_build.worlds.mentions import Mentions, find_mentions
from fathom_build.worlds.random_names import new_descriptions, new_names
from fathom_build.worlds.texts import Hasher
from fathom_build.worlds.world import (
    NewTexts,
    Variant,
    World,
    describe,
    list_ids,
    parse_variants,
    rename_entities,
    rename_relations,
    replace_names,
)

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
    (chosen,) = parse_variants([str(variant)])
    refuse(find_obstacles(chosen, materials))
    steps = _plan(chosen).items()
    plan = {step: materials.texts(step, material(materials)) for step, material in steps if step in COLUMNS}
    world = World(chosen, materials.graph)
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
    """Return the steps that make a world, each with the material of its new texts, and other requirements.

    Either descriptions are replaced, or mentions in them follow the names. In an inconsistent world without "d" they do
    neither.
    """
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
    """Number *rows*, equal for equal texts; :data:`NO_LABEL` for blank ones.

    By 64-bit hashes: two texts with one hash would merely not exchange places.
    """
    numbers = np.unique(Hasher().rows(texts)[rows], return_inverse=True)[1].astype(np.int64)
    numbers[is_blank(texts)[rows]] = NO_LABEL
    return numbers

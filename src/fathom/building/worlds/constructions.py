"""The four constructions of Sakai et al. 2024, section 3: same graph, other texts.

Each is a pure function of a graph, the parts of it to change, a seed and options. Ids, triples and splits stay, so
every ``fact_id`` does. Parts that two worlds share are the same in both: ``virtual-er`` has the names of ``virtual-e``
and of ``virtual-r``, and ``fully-anonymised-ed`` the names of ``anonymised-e``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.building.worlds.derangement import (
    NO_LABEL,
    Derangement,
    Matching,
    NoDerangement,
    derange,
    match_relations,
)
from fathom.building.worlds.mentions import SPANS, Mentions, find_mentions, replace_mentions
from fathom.building.worlds.random_names import new_descriptions, new_names
from fathom.building.worlds.texts import Hasher
from fathom.building.worlds.variants import BASE, Variant, parse_variants
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import take_rows
from fathom.errors import BadInput

MAPPING = pa.schema(
    [
        ("kind", pa.string()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
    ]
)
"""``kind``: entity, relation, description, or mention (what an entity is called in descriptions, where its own name
stays). ``source``: the id whose text it was, null for a random string."""
_SHOWN = 20


@dataclass(frozen=True)
class Options:
    """:param case: how names are looked for in descriptions: "exact"; "ignore", the letters A to Z alike; "auto",
        which ignores case where no name of the graph has a capital letter.
    :param shortest_mention: characters a name needs to be looked for.
    :param relax: where relations cannot all exchange names, move as many as possible and list the others."""

    case: Literal["auto", "exact", "ignore"] = "auto"
    shortest_mention: int = 2
    relax: bool = False

    def __post_init__(self) -> None:
        if self.case not in ("auto", "exact", "ignore"):
            raise BadInput(f"case: expected auto, exact or ignore, found {self.case!r}")
        if self.shortest_mention < 1:
            raise BadInput(f"shortest_mention: expected 1 or more, found {self.shortest_mention}")


@dataclass(frozen=True)
class World:
    """:param mapping: what was changed into what, see :data:`MAPPING`. :param spans: mentions that were replaced, see
    :func:`fathom.building.worlds.mentions.replace_mentions`. :param counts: for the manifest. :param notes: to be told.
    """

    variant: Variant
    graph: KnowledgeGraph
    mapping: pa.Table
    spans: pa.Table
    counts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Materials:
    """What the worlds of one graph are made from; each is made when it is first asked for, and kept."""

    def __init__(self, graph: KnowledgeGraph, seed: int = 0, options: Options | None = None) -> None:
        self.graph, self.seed, self.options = graph, seed, options or Options()

    def generator(self, *purpose: str) -> np.random.Generator:
        """The same numbers for the same seed and purpose, whatever else is drawn."""
        return np.random.default_rng([self.seed, *"/".join(purpose).encode()])

    @cached_property
    def named(self) -> NDArray[np.int64]:
        """Rows of entities that have a name."""
        return _written(self.graph.entities.column("name"))

    @cached_property
    def described(self) -> NDArray[np.int64]:
        return _written(self.graph.entities.column("description"))

    @cached_property
    def named_relations(self) -> NDArray[np.int64]:
        return _written(self.graph.relations.column("name"))

    @cached_property
    def mentions(self) -> Mentions:
        return find_mentions(self.graph, self.options.case, self.options.shortest_mention)

    @cached_property
    def exchanged(self) -> Derangement:
        """Which entity's name each entity takes."""
        return self._derange("name", self.named, [_labels(self.graph.entities.column("name"), self.named)])

    @cached_property
    def exchanged_descriptions(self) -> Derangement:
        labels = _labels(self.graph.entities.column("description"), self.described)
        return self._derange("description", self.described, [labels])

    @cached_property
    def exchanged_together(self) -> Derangement:
        """Which entity's name and description each entity takes."""
        columns = [self.graph.entities.column(name) for name in ("name", "description")]
        return self._derange("name and description", self.named, [_labels(column, self.named) for column in columns])

    @cached_property
    def matching(self) -> Matching:
        labels = np.full(len(self.graph.relations), NO_LABEL)
        names = self.graph.relations.column("name")
        labels[self.named_relations] = _labels(names, self.named_relations)
        return match_relations(self.graph, labels, self.generator("relations"))

    @cached_property
    def random_names(self) -> pa.Array:
        """One for each entity that has a name."""
        names = take_rows(self.graph.entities.column("name"), self.named)
        return new_names(names, len(self.named), self.generator("random", "entities"), "entities")

    @cached_property
    def random_relations(self) -> pa.Array:
        names = self.graph.relations.column("name").take(pa.array(self.named_relations))
        return new_names(names, len(self.named_relations), self.generator("random", "relations"), "relations")

    def _derange(self, what: str, rows: NDArray[np.int64], labels: list[NDArray[np.int64]]) -> Derangement:
        if len(rows) < 2:
            raise BadInput(f"{_so_many(len(rows))} a {what}: there is nothing to exchange it with")
        try:
            found = derange(labels, self.generator("exchange", what))
        except NoDerangement as error:
            raise BadInput(self._why_not(what, rows, labels, error.label)) from None
        source = np.arange(len(self.graph.entities))
        source[rows] = rows[found.source]
        return Derangement(source, found.method)

    def _why_not(self, what: str, rows: NDArray[np.int64], labels: list[NDArray[np.int64]], label: int | None) -> str:
        if label is None:
            return f"no permutation was found in which no entity keeps its {what}: too many are the same"
        columns = ("description",) if what == "description" else ("name", "description")
        for column, labeling in zip(columns, labels, strict=False):
            bearers = rows[labeling == label]
            if 2 * len(bearers) > len(rows):
                text = self.graph.entities.column(column)[int(bearers[0])].as_py()
                return (
                    f"{text[:60]!r} is the {column} of {len(bearers):,} of {len(rows):,} entities, more than half: in "
                    f"every permutation some entity would keep its {column}"
                )
        raise AssertionError("a label that is too frequent was reported and not found")


def base(graph: KnowledgeGraph) -> World:
    """The graph as it is."""
    return World(BASE, graph, MAPPING.empty_table(), SPANS.empty_table())


def virtual(
    graph: KnowledgeGraph,
    parts: str = "er",
    seed: int = 0,
    options: Options | None = None,
    materials: Materials | None = None,
) -> World:
    """Names change hands (section 3.1); no entity keeps its string.

    :param parts: "e": names of entities are permuted by a random derangement, and mentions in descriptions follow.
        "r": names of relations are permuted by :func:`fathom.building.worlds.derangement.match_relations`.
        "d" alone: mentions follow the permutation, and the names of the entities stay; beside "e" it changes nothing.
    :param materials: of the same graph, seed and options, to share work between worlds.
    :raises BadInput: there is no such permutation; the message says why.
    """
    with_ = materials or Materials(graph, seed, options)
    world = _begun(graph, Variant("virtual", _ordered(parts)))
    if "e" in parts or "d" in parts:
        source = with_.exchanged.source
        names = take_rows(graph.entities.column("name"), source)
        world = _follow(world, with_, names, source)
        if "e" in parts:
            world = _rename(world, with_, names, source, with_.exchanged.method)
    return _exchange_relations(world, with_) if "r" in parts else world


def anonymised(
    graph: KnowledgeGraph,
    parts: str = "er",
    seed: int = 0,
    options: Options | None = None,
    materials: Materials | None = None,
) -> World:
    """Names become random strings (section 3.2), each unique and none of the old ones.

    :param parts: "e": entities, and mentions in descriptions follow; "r": relations; "d" alone: only the mentions.
    """
    with_ = materials or Materials(graph, seed, options)
    world = _begun(graph, Variant("anonymised", _ordered(parts)))
    if "e" in parts or "d" in parts:
        names = _put(graph.entities.column("name"), with_.named, with_.random_names)
        world = _follow(world, with_, names, None)
        if "e" in parts:
            world = _rename(world, with_, names, None, "random strings")
    return _anonymise_relations(world, with_) if "r" in parts else world


def inconsistent(
    graph: KnowledgeGraph,
    parts: str = "d",
    seed: int = 0,
    options: Options | None = None,
    materials: Materials | None = None,
) -> World:
    """Descriptions contradict the graph (section 3.3).

    :param parts: "d": descriptions are permuted by a derangement. "e" and "d": names and descriptions move together,
        and mentions in descriptions stay as they are. "e" without "d": names move as in the virtual world, descriptions
        stay. "r": names of relations as in the virtual world.
    """
    with_ = materials or Materials(graph, seed, options)
    world = _begun(graph, Variant("inconsistent", _ordered(parts)))
    if "d" in parts:
        moved = with_.exchanged_together if "e" in parts else with_.exchanged_descriptions
        texts = take_rows(graph.entities.column("description"), moved.source)
        world = _describe(world, texts, moved.source, moved.method)
    if "e" in parts:
        moved = with_.exchanged_together if "d" in parts else with_.exchanged
        names = take_rows(graph.entities.column("name"), moved.source)
        world = _rename(world, with_, names, moved.source, moved.method)
    return _exchange_relations(world, with_) if "r" in parts else world


def fully_anonymised(
    graph: KnowledgeGraph,
    parts: str = "d",
    seed: int = 0,
    options: Options | None = None,
    materials: Materials | None = None,
) -> World:
    """Texts become random strings (section 3.4), descriptions too.

    :param parts: "e" and "r": names, as in the anonymised world. "d": descriptions become random strings of their own
        unigram model. Without "d", descriptions are those of the anonymised world.
    """
    with_ = materials or Materials(graph, seed, options)
    names = _ordered(parts).replace("d", "")
    world = anonymised(graph, names, seed, options, with_) if "d" not in parts else base(graph)
    world = replace(world, variant=Variant("fully-anonymised", _ordered(parts)))
    if "d" not in parts:
        return world
    if not len(with_.described):
        raise BadInput("no entity has a description: there is nothing to replace")
    texts = new_descriptions(graph.entities.column("description"), with_.generator("random", "descriptions"))
    world = _describe(world, texts, None, "random strings")
    if "e" in parts:
        new = _put(graph.entities.column("name"), with_.named, with_.random_names)
        world = _rename(world, with_, new, None, "random strings")
    return _anonymise_relations(world, with_) if "r" in parts else world


_MAKERS: dict[str, Callable[..., World]] = {
    "virtual": virtual,
    "anonymised": anonymised,
    "inconsistent": inconsistent,
    "fully-anonymised": fully_anonymised,
}


def make(variant: Variant | str, materials: Materials) -> World:
    """The world of that name. :raises BadInput: there is no such world, or none of this graph."""
    found = parse_variants([variant])[0] if isinstance(variant, str) else variant
    if found == BASE:
        return base(materials.graph)
    maker = _MAKERS[found.construction]
    return maker(materials.graph, found.parts, materials.seed, materials.options, materials)


def why_not(variant: Variant, materials: Materials) -> list[str]:
    """What prevents a world, without making it; the empty list where nothing does."""
    faults: list[str] = []
    exchanging = variant.construction in ("virtual", "inconsistent")
    e, r, d = (part in variant.parts for part in "erd")
    if (e or (d and variant.construction == "virtual")) and not len(materials.named):
        faults.append("no entity has a name: there is nothing to change")
    elif d and not len(materials.described):
        faults.append("no entity has a description: there is nothing to change")
    elif exchanging and (e or d):
        steps = {"virtual": lambda: materials.exchanged, "inconsistent": lambda: _moved(materials, e, d)}
        faults += _faults_of(steps[variant.construction])
    elif e:
        faults += _faults_of(lambda: materials.random_names)
    if r and not len(materials.named_relations):
        faults.append("no relation has a name: there is nothing to change")
    elif r and exchanging:
        faults += _faults_of(lambda: _refuse_blocked(materials))
    elif r:
        faults += _faults_of(lambda: materials.random_relations)
    return faults


def _moved(materials: Materials, e: bool, d: bool) -> Derangement:
    if e and d:
        return materials.exchanged_together
    return materials.exchanged if e else materials.exchanged_descriptions


def _faults_of(step: Callable[[], object]) -> list[str]:
    try:
        step()
    except BadInput as error:
        return error.faults
    return []


def _refuse_blocked(materials: Materials) -> None:
    found, ids = materials.matching, materials.graph.relations.column("id").to_pylist()
    if not len(found.blocked) or materials.options.relax:
        return
    if len(ids) == 1:
        raise BadInput(f"the graph has one relation, {ids[0]!r}: there is none to exchange its name with")
    donors = f"the names of {_listed(found.donors, ids)}" if len(found.donors) else "no name at all"
    raise BadInput(
        f"no derangement of the {len(ids)} relations exists: {_listed(found.blocked, ids)} could take only {donors}, "
        "as every other name is the same or its relation links an entity pair that they link, too; --relax moves "
        f"{found.moved} of them and lists those that stay"
    )


def _listed(rows: NDArray[np.int64], ids: Sequence[str]) -> str:
    shown = [repr(ids[row]) for row in rows[:_SHOWN].tolist()]
    return ", ".join(shown) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")


def _ordered(parts: str) -> str:
    return "".join(part for part in "erd" if part in parts)


def _so_many(count: int) -> str:
    return {0: "no entity has", 1: "only one entity has"}.get(count, f"{count:,} entities have")


def _written(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.flatnonzero(pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy())


def _labels(texts: pa.ChunkedArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each of *rows*, equal for equal texts; :data:`NO_LABEL` for blank ones.

    By 64-bit hashes: were two different texts taken for equal, they would only not change places.
    """
    numbers = np.unique(Hasher().rows(texts)[rows], return_inverse=True)[1].astype(np.int64)
    blank = pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy()[rows]
    numbers[blank] = NO_LABEL
    return numbers


def _put(texts: pa.ChunkedArray, rows: NDArray[np.int64], new: pa.Array) -> pa.ChunkedArray:
    """*texts* with those of *rows* (ascending) exchanged for *new*."""
    if len(rows) == len(texts):
        return pa.chunked_array([new])
    joined = pa.chunked_array([*texts.chunks, new], pa.string())
    places = np.arange(len(texts))
    places[rows] = len(texts) + np.arange(len(rows))
    return joined.take(pa.array(places))


def _begun(graph: KnowledgeGraph, variant: Variant) -> World:
    return replace(base(graph), variant=variant)


def _column_set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _mapped(
    kind: str, table: pa.Table, rows: NDArray[np.int64], old: Any, new: Any, source: NDArray[np.int64] | None
) -> pa.Table:
    """Lines of the mapping for some rows."""
    ids = table.column("id")
    sources = pa.nulls(len(rows), pa.string()) if source is None else take_rows(ids, source[rows])
    texts = [column if len(rows) == len(column) else take_rows(column, rows) for column in (ids, old, new)]
    columns = [pa.repeat(pa.scalar(kind), len(rows)), texts[0], sources, *texts[1:]]
    return pa.table(dict(zip(MAPPING.names, columns, strict=True))).cast(MAPPING)


def _changed(world: World, mapping: pa.Table, counts: dict[str, Any], notes: Sequence[str], **graph: Any) -> World:
    return replace(
        world,
        graph=replace(world.graph, **graph),
        mapping=pa.concat_tables([world.mapping, mapping]),
        counts=world.counts | counts,
        notes=(*world.notes, *notes),
    )


def _follow(world: World, with_: Materials, names: pa.ChunkedArray, source: NDArray[np.int64] | None) -> World:
    """Mentions in descriptions are replaced by *names*."""
    mentions, entities = with_.mentions, world.graph.entities
    texts, spans = replace_mentions(entities.column("description"), mentions, names)
    counts = {
        "mentions_found": len(mentions.entity),
        "mentions_replaced": len(spans),
        "mentions_ambiguous": sum(mentions.ambiguous.values()),
        "ambiguous_by_rule": mentions.ambiguous,
        "names_not_looked_for": mentions.too_short,
        "case": mentions.case,
    }
    notes = []
    if mentions.too_short:
        notes.append(
            f"names of fewer than {with_.options.shortest_mention} characters are not looked for in descriptions "
            f"(entities: {mentions.too_short:,})"
        )
    mapping = MAPPING.empty_table()
    if "e" not in world.variant.parts:
        mapping = _mapped("mention", entities, with_.named, entities.column("name"), names, source)
    world = _changed(world, mapping, counts, notes, entities=_column_set(entities, "description", texts))
    return replace(world, spans=spans)


def _rename(
    world: World, with_: Materials, names: pa.ChunkedArray, source: NDArray[np.int64] | None, method: str
) -> World:
    entities, old = world.graph.entities, with_.graph.entities
    aliases = old.column("aliases")
    notes = []
    if nameless := len(old) - len(with_.named):
        notes.append(f"entities without a name: {nameless:,}; they stay without")
    if source is not None:
        aliases = aliases.take(pa.array(source))
    elif having := int(pc.sum(pc.greater(pc.list_value_length(aliases), 0)).as_py() or 0):
        notes.append(f"other names are left out, as they would give entities away (entities: {having:,})")
        aliases = pa.array([[]], pa.list_(pa.string())).take(pa.array(np.zeros(len(old), dtype=np.int64)))
    entities = _column_set(_column_set(entities, "name", names), "aliases", aliases)
    mapping = _mapped("entity", old, with_.named, old.column("name"), names, source)
    counts = {"entities_renamed": len(with_.named), "entities_by": method}
    return _changed(world, mapping, counts, notes, entities=entities)


def _describe(world: World, texts: pa.ChunkedArray, source: NDArray[np.int64] | None, method: str) -> World:
    entities = world.graph.entities
    old = entities.column("description")
    had, has = (pc.not_equal(pc.utf8_trim_whitespace(column), "").to_numpy() for column in (old, texts))
    rows = np.flatnonzero(had | has)
    notes = []
    if without := len(entities) - int(had.sum()):
        notes.append(
            f"entities without a description: {without:,}" + ("" if source is not None else "; they stay without")
        )
    return _changed(
        world,
        _mapped("description", entities, rows, old, texts, source),
        {"descriptions_changed": len(rows), "descriptions_by": method},
        notes,
        entities=_column_set(entities, "description", texts),
    )


def _exchange_relations(world: World, with_: Materials) -> World:
    _refuse_blocked(with_)
    source, relations = with_.matching.source, world.graph.relations
    names = relations.column("name").take(pa.array(source))
    moved = np.flatnonzero(source != np.arange(len(relations)))
    kept = np.setdiff1d(np.arange(len(relations)), moved)
    notes = []
    if len(kept):
        notes.append(
            f"relations that keep their names: {len(kept)}, {_listed(kept, relations.column('id').to_pylist())}"
        )
    return _changed(
        world,
        _mapped("relation", relations, moved, relations.column("name"), names, source),
        {"relations_renamed": len(moved), "relations_kept": relations.column("id").take(pa.array(kept)).to_pylist()},
        notes,
        relations=_column_set(relations, "name", names),
    )


def _anonymise_relations(world: World, with_: Materials) -> World:
    relations, rows = world.graph.relations, with_.named_relations
    names = _put(relations.column("name"), rows, with_.random_relations)
    notes = []
    if nameless := len(relations) - len(rows):
        notes.append(f"relations without a name: {nameless:,}; they stay without")
    return _changed(
        world,
        _mapped("relation", relations, rows, relations.column("name"), names, None),
        {"relations_renamed": len(rows)},
        notes,
        relations=_column_set(relations, "name", names),
    )

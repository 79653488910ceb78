"""The four constructions of Sakai et al. 2024, section 3: same graph, other texts.

Each is a pure function of a graph, the parts of it to change, a seed and options. Ids, triples and splits stay, so
every ``fact_id`` does. Parts that two worlds share are the same in both: ``virtual-er`` has the names of ``virtual-e``
and of ``virtual-r``, and ``fully-anonymised-ed`` the names of ``anonymised-e``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from fathom.building.worlds.derangement import Derangement
from fathom.building.worlds.materials import Materials, Options
from fathom.building.worlds.random_names import new_descriptions
from fathom.building.worlds.variants import BASE, Variant, parse_variants
from fathom.building.worlds.world import NewTexts, World, describe, follow, rename_entities, rename_relations
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import put_rows, take_rows
from fathom.errors import BadInput, all_of

_RANDOM = "random strings"


def base(graph: KnowledgeGraph) -> World:
    """The graph as it is."""
    return World(BASE, graph)


def virtual(graph: KnowledgeGraph, parts: str = "er", seed: int = 0, options: Options | None = None) -> World:
    """Names change hands (section 3.1); no entity keeps its string.

    :param parts: "e": names of entities are permuted by a random derangement, and mentions in descriptions follow.
        "r": names of relations are permuted by :func:`fathom.building.worlds.derangement.match_relations`.
        "d" alone: mentions follow the permutation, and the names of the entities stay; beside "e" it changes nothing.
    :raises BadInput: there are no such parts, or there is no such permutation; the message says why.
    """
    return make(f"virtual-{parts}", Materials(graph, seed, options))


def anonymised(graph: KnowledgeGraph, parts: str = "er", seed: int = 0, options: Options | None = None) -> World:
    """Names become random strings (section 3.2), each unique and none of the old ones.

    :param parts: "e": entities, and mentions in descriptions follow; "r": relations; "d" alone: only the mentions.
    :raises BadInput: there are no such parts, or too few different strings.
    """
    return make(f"anonymised-{parts}", Materials(graph, seed, options))


def inconsistent(graph: KnowledgeGraph, parts: str = "d", seed: int = 0, options: Options | None = None) -> World:
    """Descriptions contradict the graph (section 3.3).

    :param parts: "d": descriptions are permuted by a derangement. "e" and "d": names and descriptions move together,
        and mentions in descriptions stay as they are. "e" without "d": names move as in the virtual world, descriptions
        stay. "r": names of relations as in the virtual world.
    :raises BadInput: there are no such parts, or there is no such permutation; the message says why.
    """
    return make(f"inconsistent-{parts}", Materials(graph, seed, options))


def fully_anonymised(graph: KnowledgeGraph, parts: str = "d", seed: int = 0, options: Options | None = None) -> World:
    """Texts become random strings (section 3.4), descriptions too.

    :param parts: "e" and "r": names, as in the anonymised world. "d": descriptions become random strings of their own
        unigram model. Without "d", descriptions are those of the anonymised world.
    :raises BadInput: there are no such parts, or too few different strings.
    """
    return make(f"fully-anonymised-{parts}", Materials(graph, seed, options))


def make(variant: Variant | str, materials: Materials) -> World:
    """The world of that name; worlds of the same materials share the work.

    :raises BadInput: there is no such world, or none of this graph.
    """
    (found,) = parse_variants([str(variant)])
    if faults := why_not(found, materials):
        raise BadInput(faults)
    return _STEPS[found.construction](World(found, materials.graph), materials)


def why_not(variant: Variant, materials: Materials) -> list[str]:
    """What prevents a world, without making it; the empty list where nothing does."""
    try:
        all_of(*(lambda need=need: need(materials) for need in _needs(variant)))
    except BadInput as error:
        return list(dict.fromkeys(error.faults))
    return []


def _needs(variant: Variant) -> Iterator[Callable[[Materials], object]]:
    """The materials of a world that may be impossible."""
    e, r, d = (part in variant.parts for part in "erd")
    exchanging = variant.construction in ("virtual", "inconsistent")
    if e or (d and variant.construction in ("virtual", "anonymised")):
        together = d and variant.construction == "inconsistent"
        yield attrgetter(("exchanged_together" if together else "exchanged") if exchanging else "random_names")
    elif d and exchanging:
        yield attrgetter("exchanged_descriptions")
    if d:
        yield Materials.refuse_undescribed
    if r:
        yield attrgetter("exchanged_relations" if exchanging else "random_relations")


def _virtual(world: World, materials: Materials) -> World:
    parts = world.variant.parts
    if "e" in parts or "d" in parts:
        names = _taken(materials, "name", materials.exchanged)
        world = _follow(world, materials, names)
        world = rename_entities(world, names) if "e" in parts else world
    return _exchange_relations(world, materials)


def _inconsistent(world: World, materials: Materials) -> World:
    e, d = (part in world.variant.parts for part in "ed")
    if d:
        moved = materials.exchanged_together if e else materials.exchanged_descriptions
        world = describe(world, _taken(materials, "description", moved))
    if e:
        moved = materials.exchanged_together if d else materials.exchanged
        world = rename_entities(world, _taken(materials, "name", moved))
    return _exchange_relations(world, materials)


def _exchange_relations(world: World, materials: Materials) -> World:
    if "r" not in world.variant.parts:
        return world
    source, method = materials.exchanged_relations
    names = take_rows(materials.graph.relations.column("name"), source)
    return rename_relations(world, NewTexts(names, source, method))


def _anonymised(world: World, materials: Materials) -> World:
    if "e" in world.variant.parts or "d" in world.variant.parts:
        world = _follow(world, materials, _random_names(materials))
    return _anonymise_names(world, materials)


def _fully_anonymised(world: World, materials: Materials) -> World:
    if "d" not in world.variant.parts:
        return _anonymised(world, materials)
    old = materials.graph.entities.column("description")
    texts = new_descriptions(old, materials.generator("random", "descriptions"))
    return _anonymise_names(describe(world, NewTexts(texts, None, _RANDOM)), materials)


def _anonymise_names(world: World, materials: Materials) -> World:
    if "e" in world.variant.parts:
        world = rename_entities(world, _random_names(materials))
    if "r" in world.variant.parts:
        old = materials.graph.relations.column("name")
        names = put_rows(old, materials.named_relations, materials.random_relations)
        world = rename_relations(world, NewTexts(names, None, _RANDOM))
    return world


def _follow(world: World, materials: Materials, names: NewTexts) -> World:
    if not len(materials.described):
        return world
    return follow(world, materials.mentions, materials.options.shortest_mention, names)


def _taken(materials: Materials, column: str, moved: Derangement) -> NewTexts:
    return NewTexts(take_rows(materials.graph.entities.column(column), moved.source), *moved)


def _random_names(materials: Materials) -> NewTexts:
    old = materials.graph.entities.column("name")
    return NewTexts(put_rows(old, materials.named, materials.random_names), None, _RANDOM)


_STEPS: dict[str, Callable[[World, Materials], World]] = {
    BASE.construction: lambda world, materials: world,
    "virtual": _virtual,
    "anonymised": _anonymised,
    "inconsistent": _inconsistent,
    "fully-anonymised": _fully_anonymised,
}

"""The four constructions of Sakai et al. 2024, section 3: same graph, other texts.

Each is a pure function of a graph, the parts of it to change, a seed and options. Ids, triples and splits stay, so
every ``fact_id`` does. Parts that two worlds share are the same in both: ``virtual-er`` has the names of ``virtual-e``
and of ``virtual-r``, and ``fully-anonymised-ed`` the names of ``anonymised-e``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from fathom.building.worlds.materials import COLUMNS, Materials, Options
from fathom.building.worlds.world import (
    BASE,
    Variant,
    World,
    describe,
    follow,
    parse_variants,
    rename_entities,
    rename_relations,
)
from fathom.data.knowledge import KnowledgeGraph
from fathom.errors import BadInput, all_of


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
    plan = {step: materials.texts(step, of(materials)) for step, of in _plan(found).items() if step in COLUMNS}
    world = World(found, materials.graph)
    if "mention" in plan and len(materials.described):
        world = follow(world, materials.mentions, materials.options.shortest_mention, plan["mention"])
    if "description" in plan:
        world = describe(world, plan["description"])
    if "name" in plan:
        world = rename_entities(world, plan["name"])
    return rename_relations(world, plan["relation"]) if "relation" in plan else world


def why_not(variant: Variant, materials: Materials) -> list[str]:
    """What prevents a world, without making it; the empty list where nothing does."""
    try:
        all_of(*(partial(of, materials) for of in dict.fromkeys(_plan(variant).values())))
    except BadInput as error:
        return list(dict.fromkeys(error.faults))
    return []


def _plan(variant: Variant) -> dict[str, Callable[[Materials], Any]]:
    """The steps that make a world, each with the material of its new texts; and what else there must be.

    Either descriptions become others, or mentions in them follow the names. In an inconsistent world they do neither
    where they stay.
    """
    e, r, d = (part in variant.parts for part in "erd")
    exchanging = variant.construction in ("virtual", "inconsistent")
    others = d and variant.construction in ("inconsistent", "fully-anonymised")
    names = attrgetter(("exchanged_together" if others else "exchanged") if exchanging else "random_names")
    plan: dict[str, Callable[[Materials], Any]] = {"name": names} if e else {}
    if others and exchanging:
        plan["description"] = names if e else attrgetter("exchanged_descriptions")
    elif others:
        plan["description"] = Materials.refuse_undescribed
    elif d or (e and variant.construction != "inconsistent"):
        plan["mention"] = names
    if d:
        plan["described"] = Materials.refuse_undescribed
    if r:
        plan["relation"] = attrgetter("exchanged_relations" if exchanging else "random_relations")
    return plan

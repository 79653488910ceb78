"""Controlled copies of a knowledge graph in which memory is useless: same graph, other texts.

After Sakai et al., *Does Pre-trained Language Model Actually Infer Unseen Links in Knowledge Graph Completion?* (NAACL
2024), section 3. Each construction is a pure function of a graph, the parts to change, a seed and options::

    from fathom_build.worlds import Materials, WorldOptions, make_world

    graph = fathom.read_data("my-graph").graph
    world = make_world("virtual-er", Materials(graph, seed=0, options=WorldOptions(relax=True)))
    world.graph, world.mapping, world.spans
"""

from __future__ import annotations

from fathom_build.options import WorldOptions
from fathom_build.worlds.build import (
    build_worlds,
    check_comparable_worlds,
    left_table,
    restore,
    tabulate_audits,
    worlds_table,
)
from fathom_build.worlds.world import THIRTEEN, Materials, Variant, World, make_world, parse_variants

__all__ = [
    "THIRTEEN",
    "Materials",
    "Variant",
    "World",
    "WorldOptions",
    "build_worlds",
    "check_comparable_worlds",
    "left_table",
    "make_world",
    "parse_variants",
    "restore",
    "tabulate_audits",
    "worlds_table",
]

"""The two tables of what a knowledge graph gives away."""

from __future__ import annotations

from fathom.data.graph.leakage import LISTED, answers_in_descriptions, relations_per_entity
from fathom.data.knowledge import KnowledgeGraph
from fathom.results.tables import Cell, Table


def leakage_tables(graph: KnowledgeGraph) -> list[Table]:
    return [_relations(graph), _answers(graph)]


def _relations(graph: KnowledgeGraph) -> Table:
    found = relations_per_entity(graph)
    labels = [*map(str, range(1, LISTED + 1)), "more"]
    rows: list[tuple[Cell, ...]] = [
        (label, *(part.shares[place] for part in found.values())) for place, label in enumerate(labels)
    ]
    return Table(
        ("distinct relations", *found),
        (*rows, ("pairs", *(part.pairs for part in found.values()))),
        title="relations per entity",
        formats=dict.fromkeys(found, ".2%"),
        notes=("of all pairs of an entity and a side (head or tail) that occur: how many have so many relations",),
    )


def _answers(graph: KnowledgeGraph) -> Table:
    found = answers_in_descriptions(graph)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("as a sub-string", *(part.substring for part in found.values())),
        ("on word boundaries", *(part.word for part in found.values())),
        ("queries", *(part.queries for part in found.values())),
        ("about an entity with a description", *(part.described for part in found.values())),
    )
    notes = [
        "of all queries, (h, r, ?) and (?, r, t): the answer's name stands, capitals alike, in the description of the "
        "entity asked about"
    ]
    if not found["total"].described:
        notes.append("no entity has a description: entity2textlong.txt, or a third column in entity2text.txt")
    return Table(
        ("the answer's name", *found),
        rows,
        title="answers in descriptions",
        formats=dict.fromkeys(found, ".2%"),
        notes=tuple(notes),
    )

"""What a text-reading link predictor reads of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.data.knowledge import KnowledgeGraph


@dataclass(frozen=True)
class GraphTexts:
    """By place in the graph. An entity or relation without a name is called by its id; no description is "".

    :param notes: how many lack what, for the user.
    """

    names: Sequence[str]
    descriptions: Sequence[str]
    relations: Sequence[str]
    notes: tuple[str, ...]


def graph_texts(graph: KnowledgeGraph, descriptions: bool = True) -> GraphTexts:
    """:param descriptions: whether to read them."""
    ids, names, said = (graph.entities.column(column).to_pylist() for column in ("id", "name", "description"))
    relation_ids, relation_names = (graph.relations.column(column).to_pylist() for column in ("id", "name"))
    without_name = sum(not name.strip() for name in names)
    without_text = sum(not text.strip() for text in said) if descriptions else 0
    notes = []
    if without_name:
        notes.append(f"{without_name:,} of {len(ids):,} entities have no name: their ids are read instead")
    if without_text:
        notes.append(f"{without_text:,} of {len(ids):,} entities have no description")
    return GraphTexts(
        [name.strip() or id_ for name, id_ in zip(names, ids, strict=True)],
        said if descriptions else [""] * len(said),
        [name.strip() or id_ for name, id_ in zip(relation_names, relation_ids, strict=True)],
        tuple(notes),
    )

"""The best answers to one query, on demand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from fathom.base.errors import BadInput, all_of
from fathom.data.graph.links import Links
from fathom.data.graph.queries import graph_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.results.tables import Table
from fathom_kgc.links.folder import open_links

FEW = 20
"""So many names fit into a message."""


def predict_links(
    folder: str | Path,
    data: QuerySet,
    relation: str,
    *,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    device: str | None = None,
) -> Table:
    """Predict the best answers to (head, relation, ?), or (?, relation, tail), with the predictor in *folder*.

    :param relation, head, tail: name or id; exactly one of head and tail.
    :returns: place, name, id, score, and the split with the triple, "" if the graph does not have it.
    :raises BadInput: an unknown or ambiguous name, both or neither of head and tail.
    """
    if (head is None) == (tail is None):
        raise BadInput("give --head to ask for tails, or --tail to ask for heads")
    given = str(tail if head is None else head)
    graph = graph_of(data)
    entity, place = all_of(
        lambda: _place(graph.entities, given, "entity"), lambda: _place(graph.relations, relation, "relation")
    )
    predictor = open_links(folder, data, device)
    query = np.array([entity]), np.array([place]), np.array([head is None])
    links = Links(*query, gold=np.array([entity]), known=[np.array([], dtype=np.int64)])
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        [result] = predictor.rank(links, top)
    splits = _splits(graph, entity, place, head is None)
    ids, names = graph.entities.column("id"), graph.entities.column("name")
    rows = tuple(
        (number, names[answer].as_py(), ids[answer].as_py(), score, splits.get(answer, ""))
        for number, (answer, score) in enumerate(result.top[:top], start=1)
    )
    known, link = names[entity].as_py() or given, graph.relations.column("name")[place].as_py() or relation
    question = f"({known}, {link}, ?)" if head is not None else f"(?, {link}, {known})"
    return Table(("", "answer", "id", predictor.scoring.name, "in the graph"), rows, question)


def _place(table: pa.Table, text: str, what: str) -> int:
    """Find an entity or relation by id or name. :raises BadInput: none or several match."""
    ids: list[str] = table.column("id").to_pylist()
    names: list[str] = table.column("name").to_pylist()
    if text in set(ids):
        return ids.index(text)
    places = [place for place, name in enumerate(names) if name == text]
    if len(places) == 1:
        return places[0]
    if places:
        several = ", ".join(ids[place] for place in places[:10])
        raise BadInput(f"{len(places)} have the name '{text}': give an id, one of {several}")
    alike = [name for name in names if text.lower() in name.lower()][:FEW] or (names if len(names) <= FEW else [])
    hint = f"; there is {', '.join(alike)}" if alike else ""
    raise BadInput(f"the graph has no {what} with the id or name '{text}'{hint}")


def _splits(graph: KnowledgeGraph, given: int, relation: int, inverse: bool) -> dict[int, str]:
    known, answers = (graph.tail, graph.head) if inverse else (graph.head, graph.tail)
    rows = np.flatnonzero((known == given) & (graph.relation == relation))
    return {
        int(answers[row]): next((name for name, span in graph.splits.items() if row in span), "graph") for row in rows
    }

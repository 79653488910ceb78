"""Files of triples: head, relation and tail, or these and a label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.reading import Faults
from fathom.data.columns import Columns, first_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.selection.options import Order

_COLUMNS: dict[Order, tuple[str, ...]] = {"hrt": ("head", "relation", "tail"), "htr": ("head", "tail", "relation")}
_ENDS = (("head", "tail"), ("subject", "object"))
_SIDES = [(head, name, tail) for head, tail in _ENDS for name in ("relation", "predicate")]
_HEADERS: dict[tuple[str, ...], Order] = {
    **dict.fromkeys(_SIDES, "hrt"),
    **{(head, tail, relation): "htr" for head, relation, tail in _SIDES},
}
_MOST_RELATIONS = 0.1
"""Relations per entity from which on the columns may be in the other order: hundreds of triples share a relation."""


def read_triples(file: Path, faults: Faults, order: Order | None = None) -> Columns:
    """Read the triples of a file, of a labelled one those that are right.

    :param order: of the columns; by default as a header states, else head, relation, tail.
    """
    header = next((_HEADERS.get(tuple(line.lower().split("\t"))) for line in first_lines(file, 1)), None)
    columns = _COLUMNS[order or header or "hrt"]
    if not _is_labelled(file):
        return Columns(file, columns, faults, skip=int(header is not None))
    part = Columns(file, (*columns, "label"), faults)
    labels = part["label"].to_numpy()
    part.complain(
        np.flatnonzero((labels != "1") & (labels != "-1")),
        lambda row: f"label: expected 1 or -1, found {labels[row][:40]!r}",
    )
    part.drop(labels != "1")
    return part


def _is_labelled(file: Path) -> bool:
    return any(line.split("\t")[3:] in (["1"], ["-1"]) for line in first_lines(file, 1))


def read_wrong_tails(
    triples: Mapping[str, Path], graph: KnowledgeGraph, faults: Faults, order: Order | None = None
) -> dict[str, list[tuple[str, ...]]]:
    """Return the wrong tails of each right triple of the labelled files.

    A wrong triple without a right one before it, or with a tail outside the graph, is left out and counted.
    """
    by_split = {}
    labelled = {split: file for split, file in triples.items() if _is_labelled(file)}
    known = set(graph.entities.column("id").to_pylist()) if labelled else set()
    for split, file in labelled.items():
        part, lost = Columns(file, (*_COLUMNS[order or "hrt"], "label"), faults), 0
        wrong: list[tuple[str, ...]] = []
        place: dict[tuple[str, str], int] = {}
        columns = (part[name].to_pylist() for name in (*_COLUMNS["hrt"], "label"))
        for head, relation, tail, label in zip(*columns, strict=True):
            if label == "1":
                place[head, relation] = len(wrong)
                wrong.append(())
            elif (head, relation) in place and tail in known:
                wrong[place[head, relation]] += (tail,)
            else:
                lost += 1
        by_split[split] = wrong
        if lost:
            faults.note(file, None, f"wrong triples without a right one to compare with, left out: {lost:,}")
        if single := sum(not others for others in wrong):
            faults.note(file, None, f"triples without a wrong one, not queried: {single:,}")
    return by_split


def distinct_ids(parts: Mapping[str, Columns], *names: str) -> pa.Array:
    """Return the ids in some columns, each once."""
    chunks = [chunk for part in parts.values() for name in names for chunk in part[name].chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def is_in_order(parts: Mapping[str, Columns], order: Order | None, faults: Faults) -> bool:
    """Return False, and add a fault, if relations are many and mostly heads or tails, too.

    :param order: as given by the user; "hrt" makes it a note.
    """
    relations, entities = distinct_ids(parts, "relation"), distinct_ids(parts, "head", "tail")
    shared = pc.sum(pc.is_in(relations, value_set=entities)).as_py() or 0
    if len(relations) <= _MOST_RELATIONS * len(entities) or 2 * shared <= len(relations):
        return True
    tails, part = len(distinct_ids(parts, "tail")), next(iter(parts.values()))
    names, file = part.names[:3], part.file
    places = dict(zip(names, ("first", "second", "third"), strict=True))
    found = (
        f"read as {', '.join(names)}, the {places['relation']} column has {len(relations):,} different values, "
        f"{shared:,} of them heads or tails, too, and the {places['tail']} column {tails:,}"
    )
    swapped = "if lines are head, tail, relation, give --columns htr; if this is right, --columns hrt"
    if order == "hrt":
        faults.note(file.parent, None, found)
    else:
        faults.add(file.parent, None, f"{found}: {'leave out --columns htr' if order else swapped}")
    return order == "hrt"


def check_triples(parts: Mapping[str, Columns], faults: Faults) -> None:
    """Refuse files without triples and empty fields."""
    for part in parts.values():
        if not len(part) and not part.faulty:
            faults.add(part.file, None, "no triples: expected lines of head, relation and tail, separated by tabs")
        for name in part.names:
            part.refuse_empty(name)

"""Files of triples: head, relation and tail, or these and a label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fathom.data.columns import Columns, first_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.reading import Faults

_HEADERS = {
    (head, relation, tail)
    for head, tail in (("head", "tail"), ("subject", "object"))
    for relation in ("relation", "predicate")
}
_TRIPLE = ("head", "relation", "tail")


def read_triples(file: Path, faults: Faults) -> Columns:
    """Read the triples of a file, of a labelled one those that are right."""
    if not _is_labelled(file):
        has_header = any(tuple(line.lower().split("\t")) in _HEADERS for line in first_lines(file, 1))
        return Columns(file, _TRIPLE, faults, skip=int(has_header))
    part = Columns(file, (*_TRIPLE, "label"), faults)
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
    triples: Mapping[str, Path], graph: KnowledgeGraph, faults: Faults
) -> dict[str, list[tuple[str, ...]]]:
    """Return the wrong tails of each right triple of the labelled files.

    A wrong triple without a right one before it, or with a tail outside the graph, is left out and counted.
    """
    by_split = {}
    labelled = {split: file for split, file in triples.items() if _is_labelled(file)}
    known = set(graph.entities.column("id").to_pylist()) if labelled else set()
    for split, file in labelled.items():
        part, lost = Columns(file, (*_TRIPLE, "label"), faults), 0
        wrong: list[tuple[str, ...]] = []
        place: dict[tuple[str, str], int] = {}
        for head, relation, tail, label in zip(*(column.to_pylist() for column in part.table.columns), strict=True):
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


def check_triples(parts: Mapping[str, Columns], faults: Faults) -> None:
    """Refuse files without triples and empty fields."""
    for part in parts.values():
        if not len(part) and not part.faulty:
            faults.add(part.file, None, "no triples: expected lines of head, relation and tail, separated by tabs")
        for name in part.names:
            part.refuse_empty(name)

"""Audits of worlds that are there, whoever made them and when: their manifests get what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.building.worlds.audit import Auditor, Reader, audit_table
from fathom.building.worlds.constructions import Options
from fathom.building.worlds.leftovers import Spans
from fathom.building.worlds.restoring import restore, table_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import take_rows
from fathom.errors import BadInput, all_of, refuse
from fathom.formats import read
from fathom.progress import Progress, unseen
from fathom.reading import Json, json_file, stands
from fathom.results.tables import Table
from fathom.store.files import write_json


def audit_worlds(
    folders: Sequence[Path],
    readers: Sequence[Reader] = (),
    progress: Progress = unseen,
) -> list[Json]:
    """Audit worlds and write it into their manifests. The graph as it was is taken from each world itself.

    :param folders: of worlds, or that hold worlds.
    :param readers: language models that attack, beside TF-IDF.
    :returns: the manifests.
    :raises BadInput: a folder is no world and holds none, or a world is damaged.
    :raises MissingExtra: scikit-learn is not installed.
    """
    places = [
        place for found in all_of(*(lambda folder=folder: _worlds_in(folder) for folder in folders)) for place in found
    ]
    manifests = all_of(*(lambda place=place: _manifest(place) for place in places))
    auditors: dict[tuple[str, int], Auditor] = {}
    audited = []
    for done, (place, made) in enumerate(zip(places, manifests, strict=True)):
        progress(done, len(places))
        key = (made["source"]["content_hash"], made["options"]["shortest_mention"])
        if key not in auditors:
            auditors = {key: Auditor(_source(place, key[0]), key[1], readers, made["source"]["name"])}
            auditors[key].prepare()
        audited.append(audit_in(place, auditors[key]))
    progress(len(places), len(places))
    return audited


def audits_in(folder: Path, worlds: Iterable[str]) -> list[Table]:
    """What the manifests of some worlds say of their audits; no table where none of the worlds is there.

    :param folder: that holds the worlds. :param worlds: their names.
    """
    files = (folder / world / "manifest.json" for world in worlds)
    manifests = [_manifest(file.parent) for file in files if stands(file)]
    return [audit_table(manifests)] if manifests else []


def audit_in(folder: Path, auditor: Auditor) -> Json:
    """Audit one world, and write it into its manifest. :param auditor: of the graph that it was made of."""
    made = _manifest(folder)
    graph = read(folder).graph
    assert graph is not None
    if not graph.entities.column("id").equals(auditor.source.entities.column("id")):
        raise BadInput(f"{folder} has other entities than the graph that it was made of: make the world anew")
    table = table_of(folder / "spans.parquet", ("described", *PUT[1:]))
    rows = pc.index_in(table.column("described"), value_set=graph.entities.column("id").combine_chunks()).to_numpy()
    mapping = table_of(folder / "mapping.parquet", ("kind", "id", "source"))
    spans = put_in(graph, mapping, rows, *(table.column(name).to_numpy() for name in PUT[1:]))
    made |= auditor.told(graph, made["world"], spans, made.get("audit"))
    write_json(folder / "manifest.json", made)
    return made


PUT = ("described", "new_start", "new_end")
"""Columns of spans: what was put where."""


def put_in(
    world: KnowledgeGraph, mapping: pa.Table, row: NDArray[np.int32], start: NDArray[np.int32], end: NDArray[np.int32]
) -> Spans:
    """What in a world's descriptions is new: what was put in place of something else, and whole texts that are random.

    :param mapping: of the world.
    :param row: of the description in which each name or mask was put, shape (spans,).
    :param start: its first character. :param end: behind its last one.
    """
    is_random = pc.and_(pc.equal(mapping.column("kind"), "description"), pc.is_null(mapping.column("source")))
    ids = mapping.column("id").filter(is_random)
    random = pc.index_in(ids, value_set=world.entities.column("id").combine_chunks()).to_numpy().astype(np.int64)
    length = pc.utf8_length(take_rows(world.entities.column("description"), random)).to_numpy()
    every = ((row, random), (start, np.zeros(len(random))), (end, length))
    rows, starts, ends = (np.concatenate(both).astype(np.int64) for both in every)
    order = np.lexsort((starts, rows))
    return Spans(rows[order], starts[order], ends[order])


def _worlds_in(folder: Path) -> list[Path]:
    if stands(folder / "mapping.parquet"):
        return [folder]
    found = sorted(file.parent for file in folder.glob("*/mapping.parquet"))
    if not found:
        raise BadInput(f"{folder} is no world and holds none: there is no mapping.parquet")
    return found


def refuse_others(folder: Path, worlds: Sequence[str], graph: KnowledgeGraph, seed: int) -> None:
    """:raises BadInput: a world in *folder* is of another graph or seed than wanted, or made by a version with other
    options: side by side they would show what is no difference of worlds.

    :param worlds: their names; those that are not there are passed over.
    """
    faults = []
    for place in (folder / world for world in worlds if stands(folder / world)):
        made = _manifest(place)
        there, wanted = made["source"]["content_hash"], graph.content_hash
        lacking = ", ".join(sorted(asdict(Options()).keys() - made["options"].keys()))
        faults += [f"{place}: made of another graph ({there}, expected {wanted})"] * (there != wanted)
        faults += [f"{place}: made with seed {made['seed']}, expected {seed}"] * (made["seed"] != seed)
        faults += [f"{place}: made by an earlier version, which had no option {lacking}"] * bool(lacking)
    refuse([f"{fault}: delete the world with what was trained on it, or choose another folder" for fault in faults])


def _manifest(folder: Path) -> Json:
    """:raises BadInput: it is none."""
    made = json_file(folder / "manifest.json")
    made = made if isinstance(made, dict) else {}
    found = {"world": made.get("world"), "source": _of(made, "source", "content_hash", str), "seed": made.get("seed")}
    found["options"] = _of(made, "options", "shortest_mention", int)
    if lacking := [key for key, value in found.items() if value is None]:
        raise BadInput(f"{folder / 'manifest.json'} is no manifest of a world: it lacks {', '.join(lacking)}")
    return dict(made)


def _of(made: Json, key: str, needed: str, kind: type) -> object:
    """A part of a manifest; None where it is none."""
    part = made.get(key)
    return part if isinstance(part, dict) and isinstance(part.get(needed), kind) else None


def _source(folder: Path, content_hash: str) -> KnowledgeGraph:
    source = restore(folder)
    if source.content_hash != content_hash:
        raise BadInput(f"{folder}: its files are not those of the world that was made: make the world anew")
    return source

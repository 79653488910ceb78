"""Worlds as folders: ordinary knowledge graphs, each with what was changed into what; and the way back from one."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy

import fathom
from fathom.building.worlds.constructions import Materials, Options, make, why_not
from fathom.building.worlds.world import MAPPING, THIRTEEN, Variant, World, column_set, parse_variants
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import few_chunks, take_rows
from fathom.errors import BadInput, MadeBefore
from fathom.formats import read
from fathom.formats.kg import unwritable, write_graph
from fathom.reading import Json, json_file, parquet_file, stands
from fathom.results.tables import Table
from fathom.store.files import whole_folder, write_json
from fathom.store.made import in_the_way, is_whole, made_by, sign

FORMAT = 1
_COUNTS = {
    "entities": "entities_renamed",
    "relations": "relations_renamed",
    "descriptions": "descriptions_changed",
    "mentions found": "mentions_found",
    "replaced": "mentions_replaced",
    "ambiguous": "mentions_ambiguous",
}
"""What :func:`worlds_table` counts, by the name that the manifest has for it."""
_ROWS = 1 << 18
"""Lines of a table that are put together at a time."""


def build_worlds(
    graph: KnowledgeGraph,
    out: Path,
    variants: Iterable[Variant | str] = THIRTEEN,
    seed: int = 0,
    options: Options | None = None,
    *,
    name: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Json]:
    """Write each variant as a folder of its name in *out*; it appears when it is complete. What the same call has made
    before, and not finished, goes on.

    :param variants: names such as "virtual-e".
    :param name: of the graph, for the manifests.
    :returns: the manifests.
    :raises BadInput: with everything that prevents any of them, before anything is written.
    :raises RunFailed: the disk is full; the folders that are there are complete.
    """
    chosen = parse_variants(map(str, variants))
    materials = Materials(graph, seed, options)
    refuse(materials, out, chosen, name)
    manifests = []
    for done, variant in enumerate(chosen):
        progress(done, len(chosen))
        manifests.append(_world_in(out / str(variant), variant, materials, name))
    progress(len(chosen), len(chosen))
    return manifests


def _world_in(place: Path, variant: Variant, materials: Materials, name: str) -> Json:
    """:returns: its manifest, of the world made now or before."""
    identity = _identity(variant, materials, name)
    if is_whole(place, _made(identity)):
        return dict(json_file(place / "manifest.json"))
    with whole_folder(place) as folder:
        world = make(variant, materials)
        write_world(world, folder)
        manifest = _manifest(world, identity)
        write_json(folder / "manifest.json", manifest)
        sign(folder, _made(identity))
    return manifest


def _made(identity: Json) -> Json:
    return made_by("build worlds", {}, identity=identity)


def refuse(materials: Materials, out: Path, variants: Sequence[Variant], name: str = "") -> None:
    """:raises BadInput: with all that stands in the way."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file: choose another --out")
    faults = []
    for variant in variants:
        with suppress(MadeBefore):
            faults += in_the_way(out / str(variant), _made(_identity(variant, materials, name)))
    faults += unwritable(materials.graph)
    impossible = {variant: found for variant in variants if (found := why_not(variant, materials))}
    faults += dict.fromkeys(fault for found in impossible.values() for fault in found)
    possible = [str(variant) for variant in variants if variant not in impossible]
    if impossible and possible:
        faults.append(
            f"without {', '.join(map(str, impossible))} the rest can be made: --variants {','.join(possible)}"
        )
    if faults:
        raise BadInput(faults)


def write_world(world: World, folder: Path) -> None:
    """The graph's files, ``mapping.parquet`` and ``spans.parquet``."""
    write_graph(world.graph, folder)
    ids = few_chunks(world.graph.entities.column("id"))
    _write_table(folder / "mapping.parquet", world.mapping, MAPPING, {})
    _write_table(folder / "spans.parquet", world.spans, _SPANS, dict.fromkeys(_IDS, ids))


def _write_table(file: Path, table: pa.Table, schema: pa.Schema, ids: Mapping[str, pa.ChunkedArray]) -> None:
    """The bytes must not depend on how the columns are cut in memory.

    :param ids: of columns that hold rows.
    """
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(table), _ROWS):
            part = table.slice(start, _ROWS)
            columns = [
                take_rows(ids[name], column.to_numpy()) if name in ids else column
                for name, column in zip(part.column_names, part.columns, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema).combine_chunks())


_IDS = ("described", "mention")
_SPANS = pa.schema(
    [(name, pa.string()) for name in _IDS]
    + [(name, pa.int32()) for name in ("start", "end", "new_start", "new_end")]
    + [("old", pa.string())]
)


def _manifest(world: World, identity: Json) -> Json:
    """Nothing in it depends on the day or the place, so that the same command gives the same bytes."""
    return {
        **identity,
        "content_hash": world.graph.content_hash,
        "counts": world.counts,
        "notes": list(world.notes),
    }


def _identity(variant: Variant, materials: Materials, name: str) -> Json:
    """All that decides what the world is."""
    source = materials.graph
    return {
        "format": FORMAT,
        "world": str(variant),
        "construction": variant.construction,
        "parts": variant.parts,
        "source": {
            "name": name,
            "content_hash": source.content_hash,
            "entities": len(source.entities),
            "relations": len(source.relations),
            "triples": len(source),
            "splits": {split: len(rows) for split, rows in source.splits.items()},
        },
        "seed": materials.seed,
        "options": asdict(materials.options),
        "versions": {
            "fathom": fathom.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pyarrow": pa.__version__,
        },
    }


def worlds_table(manifests: Sequence[Json]) -> Table:
    """What was changed, a line for each world.

    :param manifests: as ``manifest.json`` has them.
    """
    rows = tuple((made["world"], *(made["counts"].get(name) for name in _COUNTS.values())) for made in manifests)
    told: dict[str, list[str]] = defaultdict(list)
    for made in manifests:
        for note in made["notes"]:
            told[note].append(made["world"])
    notes = [f"{note} – in {', '.join(worlds)}" for note, worlds in told.items()]
    cases = {made["counts"]["case"] for made in manifests if "case" in made["counts"]}
    notes += [f"mentions: case {'matters' if case == 'exact' else 'of A to Z is ignored'}" for case in sorted(cases)]
    if any(made["counts"].get("mentions_ambiguous") for made in manifests):
        notes.append("ambiguous: mentions of a name of several entities; the rule that chose is in manifest.json")
    return Table(("world", *_COUNTS), rows, title="worlds: what was changed", notes=tuple(notes))


def restore(folder: Path) -> KnowledgeGraph:
    """The graph as it was. For graphs of up to a million entities: texts are handled one by one.

    :raises BadInput: the folder is no world.
    """
    if not stands(folder / "mapping.parquet"):
        raise BadInput(f"{folder} is no world: it has no mapping.parquet")
    graph = read(folder).graph
    assert graph is not None
    changed: dict[str, dict[str, Json]] = defaultdict(dict)
    for line in _table(folder / "mapping.parquet", ("kind", "id", "old", "old_aliases")):
        changed[line["kind"]][line["id"]] = line
    spans: dict[str, list[Json]] = defaultdict(list)
    for span in _table(folder / "spans.parquet", ("described", "old", "new_start", "new_end")):
        spans[span["described"]].append(span)
    ids, descriptions = (graph.entities.column(name).to_pylist() for name in ("id", "description"))
    texts = [_with_old_names(text, spans[id_]) for id_, text in zip(ids, descriptions, strict=True)]
    entities = _column_set(graph.entities, "description", texts)
    entities = _put_back(entities, "description", changed["description"], "old")
    entities = _put_back(entities, "name", changed["entity"], "old")
    entities = _put_back(entities, "aliases", changed["entity"], "old_aliases")
    relations = _put_back(graph.relations, "name", changed["relation"], "old")
    return replace(graph, entities=entities, relations=relations)


def _table(file: Path, needed: Sequence[str]) -> list[Json]:
    """:raises BadInput: it is damaged."""
    return parquet_file(file, needed=needed, what_to_do="make the world anew").to_pylist()  # type: ignore[no-any-return]


def _put_back(table: pa.Table, name: str, changed: dict[str, Json], old: str) -> pa.Table:
    """:param changed: lines of the mapping by their ids.
    :param old: their column with what *name* was.
    """
    rows = zip(table.column("id").to_pylist(), table.column(name).to_pylist(), strict=True)
    return _column_set(table, name, [changed[id_][old] if id_ in changed else value for id_, value in rows])


def _column_set(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    return column_set(table, name, pa.array(values, table.schema.field(name).type))


def _with_old_names(text: str, spans: list[Json]) -> str:
    for span in sorted(spans, key=lambda span: -span["new_start"]):  # from the end, so that places stay
        text = text[: span["new_start"]] + span["old"] + text[span["new_end"] :]
    return text

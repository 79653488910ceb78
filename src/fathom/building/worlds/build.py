"""Worlds as folders: ordinary knowledge graphs, each with what was changed into what."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy

from fathom._version import VERSION
from fathom.building.worlds.audit import Auditor, Reader
from fathom.building.worlds.audited import PUT, audit_in, put_in
from fathom.building.worlds.constructions import Materials, Options, make, why_not
from fathom.building.worlds.world import MAPPING, THIRTEEN, Variant, World, parse_variants
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import few_chunks, take_rows
from fathom.errors import BadInput, MadeBefore
from fathom.formats.kg import unwritable, write_graph
from fathom.progress import Progress, unseen
from fathom.reading import Json, json_file
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
_CASES = {
    "exact": "matters",
    "ignore": "of A to Z is ignored",
    "mixed": "matters in names that have a capital letter, elsewhere that of A to Z is ignored",
}
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
    audit: bool = False,
    readers: Sequence[Reader] = (),
    progress: Progress = unseen,
) -> list[Json]:
    """Write each variant as a folder of its name in *out*; it appears when it is complete. What the same call has made
    before, and not finished, goes on.

    :param variants: names such as "virtual-e".
    :param name: of the graph, for the manifests.
    :param audit: say in each manifest how many entities can be re-identified; worlds that are there are audited, too.
    :param readers: language models that try it, beside TF-IDF; with them, *audit* is on.
    :returns: the manifests.
    :raises BadInput: with everything that prevents any of them, before anything is written.
    :raises MissingExtra: scikit-learn is not installed, and an audit or a masked world is wanted.
    :raises RunFailed: the disk is full; the folders that are there are complete.
    """
    chosen = parse_variants(map(str, variants))
    materials = Materials(graph, seed, options)
    refuse(materials, out, chosen, name)
    auditor = Auditor(graph, materials.options.shortest_mention, readers, name, lambda: materials.forms)
    if audit or readers:
        auditor.prepare()
    manifests = []
    for done, variant in enumerate(chosen):
        progress(done, len(chosen))
        manifests.append(_world_in(out / str(variant), variant, materials, name, auditor))
    progress(len(chosen), len(chosen))
    return manifests


def _world_in(place: Path, variant: Variant, materials: Materials, name: str, auditor: Auditor) -> Json:
    """:returns: its manifest, of the world made now or before."""
    identity = _identity(variant, materials, name)
    if is_whole(place, _made(identity)):
        return audit_in(place, auditor) if auditor.prepared else dict(json_file(place / "manifest.json"))
    with whole_folder(place) as folder:
        world = make(variant, materials)
        write_world(world, folder)
        spans = put_in(world.graph, world.mapping, *(world.spans.column(name).to_numpy() for name in PUT))
        manifest = _manifest(world, identity) | auditor.told(world.graph, str(variant), spans)
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
    ids = pa.chunked_array([*ids.chunks, pa.nulls(1, pa.string())])  # what is masked mentions none
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
            "fathom": VERSION,
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
    notes += [f"mentions: case {_CASES[case]}" for case in sorted(cases)]
    if any(made["counts"].get("mentions_ambiguous") for made in manifests):
        notes.append("ambiguous: mentions of a name of several entities; the rule that chose is in manifest.json")
    return Table(("world", *_COUNTS), rows, title="worlds: what was changed", notes=tuple(notes))

"""The build and the audit of worlds in folders: knowledge graphs with ``mapping.parquet`` and ``spans.parquet``.

From both the source graph is restored. The manifest of an audited world has remaining mentions by kind, as ``left``.
"""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from fathom._version import VERSION
from fathom.base.errors import BadInput, MadeBefore, refuse
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Json, json_file, parquet_file, stands
from fathom.data.columns import few_chunks, take_rows
from fathom.data.formats import read
from fathom.data.formats.kg import TEMPLATES, Templates, unwritable, write_graph
from fathom.data.knowledge import KnowledgeGraph
from fathom.results.tables import Table
from fathom.store.files import write_json
from fathom.store.outputs import is_signed, obstacles, signature_of, whole_folder
from fathom_build.options import WorldOptions
from fathom_build.worlds.mentions import KINDS, Matches, Spans, Tries, blocks, in_characters
from fathom_build.worlds.world import (
    MAPPING,
    THIRTEEN,
    Materials,
    Variant,
    World,
    column_set,
    find_obstacles,
    make_world,
    parse_variants,
)

LEFT = (*KINDS, "short", "other case")
"""Kinds of remaining mentions: names, other names and inflected forms that are long enough to be searched for; shorter
ones; and those found only if the case of A to Z is ignored in all names."""


def _in_characters(texts: pa.ChunkedArray, matches: Matches) -> Spans:
    places = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for part in blocks(texts):
        first, last = np.searchsorted(matches.row, [part.first, part.first + len(part.starts) - 1])
        row = part.starts[matches.row[first:last] - part.first]
        start, end = in_characters(part.data, row, row + matches.start[first:last], row + matches.end[first:last])
        places.append((start, end))
    starts, ends = (np.concatenate(column).astype(np.int64) for column in zip(*places, strict=True))
    return Spans(matches.row.astype(np.int64), starts, ends)


class Auditor:
    """Counts mentions of entities that remain in descriptions of worlds of one graph."""

    def __init__(self, materials: Materials) -> None:
        self.source, self._materials = materials.graph, materials

    def left(self, descriptions: pa.ChunkedArray, new: Spans) -> dict[str, int]:
        """Count mentions of each of :data:`LEFT` in a world, outside *new* (inserted) text."""
        if not len(self._materials.described):
            return dict.fromkeys(LEFT, 0)
        tries, any_case, kind, is_short = self._sought
        matches = tries.find(descriptions)
        spans = _in_characters(descriptions, matches)
        number = matches.number[~spans.meet(new)]
        short = is_short[number]
        counts = np.bincount(kind[number[~short]], minlength=len(KINDS)).tolist()
        others = _in_characters(descriptions, any_case.find(descriptions))
        more = ~others.meet(new) & ~others.meet(spans)
        return dict(zip(LEFT, (*counts, int(short.sum()), int(more.sum())), strict=True))

    @cached_property
    def _sought(self) -> tuple[Tries, Tries, NDArray[np.int8], NDArray[np.bool_]]:
        """All forms, those regardless of their case, and of each form its kind and whether it is short."""
        forms = self._materials.forms
        exact, long_enough = forms.exact("auto"), forms.have(self._materials.options.shortest_mention)
        tries, cased = Tries(forms.texts, exact), forms.texts.filter(pa.array(long_enough & exact))
        is_short = np.zeros(tries.count, dtype=bool)
        is_short[tries.numbers] = ~long_enough
        return tries, Tries(cased, np.zeros(len(cased), dtype=bool)), tries.smallest(forms.kind), is_short


def left_table(manifests: Sequence[Json]) -> list[Table]:
    """Tabulate remaining mentions by world; no table if no world was audited."""
    if not any("left" in manifest for manifest in manifests):
        return []
    rows = [(manifest["world"], *(manifest.get("left", {}).get(kind) for kind in LEFT)) for manifest in manifests]
    notes = ["short: of fewer characters than are searched for; other case: found if case is ignored in all names"]
    if lacking := [manifest["world"] for manifest in manifests if "left" not in manifest]:
        notes.append(f"not audited: {', '.join(lacking)}; to audit: the command that made them, with --audit")
    title = "worlds: mentions of entities that are left"
    return [Table(("world", *LEFT), tuple(rows), title=title, notes=tuple(notes))]


_ROWS = 1 << 18
"""Rows of a table that are written together."""
_IDS = ("described", "mention")
_SPANS = pa.schema(
    [(name, pa.string()) for name in _IDS]
    + [(name, pa.int32()) for name in ("start", "end", "new_start", "new_end")]
    + [("old", pa.string())]
)
INSERTED = ("described", "new_start", "new_end")
"""Columns of spans that locate inserted text."""


def write_world(world: World, folder: Path, templates: Templates) -> None:
    """Write the graph's files, ``mapping.parquet`` and ``spans.parquet``."""
    write_graph(world.graph, folder, templates)
    ids = few_chunks(world.graph.entities.column("id"))
    _write_table(folder / "mapping.parquet", world.mapping, MAPPING, {})
    _write_table(folder / "spans.parquet", world.spans, _SPANS, dict.fromkeys(_IDS, ids))


def _write_table(file: Path, table: pa.Table, schema: pa.Schema, ids: Mapping[str, pa.ChunkedArray]) -> None:
    """Write bytes that do not depend on the chunks in memory. :param ids: for columns with row numbers."""
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for start in range(0, len(table), _ROWS):
            part = table.slice(start, _ROWS)
            columns = [
                take_rows(ids[name], column.to_numpy()) if name in ids else column
                for name, column in zip(part.column_names, part.columns, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema).combine_chunks())


_read_table = partial(parquet_file, what_to_do="make the world anew")


def _read_graph(folder: Path) -> KnowledgeGraph:
    graph = read(folder).graph
    assert graph is not None
    return graph


def read_manifest(folder: Path) -> Json:
    """Read the manifest of a world. :raises BadInput: it is none."""
    content = json_file(folder / "manifest.json")
    manifest = content if isinstance(content, dict) else {}
    seed = manifest.get("seed")
    parts = {"world": manifest.get("world"), "seed": seed if isinstance(seed, int) else None}
    for key, needed, kind in (("source", "content_hash", str), ("options", "shortest_mention", int)):
        part = manifest.get(key)
        parts[key] = part if isinstance(part, dict) and isinstance(part.get(needed), kind) else None
    if lacking := [key for key, value in parts.items() if value is None]:
        raise BadInput(f"{folder / 'manifest.json'} is no manifest of a world: it lacks {', '.join(lacking)}")
    return manifest


def tabulate_audits(folder: Path, worlds: Iterable[str]) -> list[Table]:
    """Tabulate the audits of some worlds in *folder*, by name; no table if none of them was audited."""
    return left_table([read_manifest(folder / world) for world in worlds if stands(folder / world / "manifest.json")])


def audit_world(folder: Path, auditor: Auditor) -> Json:
    """Audit one world and write the result into its manifest. :param auditor: of its source."""
    manifest = read_manifest(folder)
    graph = _read_graph(folder)
    if not graph.entities.column("id").equals(auditor.source.entities.column("id")):
        raise BadInput(f"{folder} has other entities than its source graph: make the world anew")
    table = _read_table(folder / "spans.parquet", needed=("described", *INSERTED[1:]))
    rows = pc.index_in(table.column("described"), value_set=graph.entities.column("id").combine_chunks()).to_numpy()
    mapping = _read_table(folder / "mapping.parquet", needed=("kind", "id", "source"))
    spans = inserted_spans(graph, mapping, rows, *(table.column(name).to_numpy() for name in INSERTED[1:]))
    manifest["left"] = auditor.left(graph.entities.column("description"), spans)
    write_json(folder / "manifest.json", manifest)
    return manifest


def inserted_spans(
    world: KnowledgeGraph, mapping: pa.Table, row: NDArray[np.int32], start: NDArray[np.int32], end: NDArray[np.int32]
) -> Spans:
    """Locate inserted text: replacements, given by row and characters, and whole random descriptions."""
    is_random = pc.and_(pc.equal(mapping.column("kind"), "description"), pc.is_null(mapping.column("source")))
    ids = mapping.column("id").filter(is_random)
    random = pc.index_in(ids, value_set=world.entities.column("id").combine_chunks()).to_numpy().astype(np.int64)
    length = pc.utf8_length(take_rows(world.entities.column("description"), random)).to_numpy()
    columns = ((row, random), (start, np.zeros(len(random))), (end, length))
    rows, starts, ends = (np.concatenate(both).astype(np.int64) for both in columns)
    order = np.lexsort((starts, rows))
    return Spans(rows[order], starts[order], ends[order])


def check_comparable_worlds(
    folder: Path, worlds: Sequence[str], graph: KnowledgeGraph, seed: int, sought: str = ""
) -> None:
    """Check that existing worlds in *folder*, by name, are comparable.

    :param sought: which mentions they must have exchanged; "" for any.

    :raises BadInput: a world is of another graph or seed, or was built by a version with other options.
    """
    faults = []
    for place in (folder / world for world in worlds if stands(folder / world)):
        manifest = read_manifest(place)
        content, wanted = manifest["source"]["content_hash"], graph.content_hash
        lacking = ", ".join(sorted(WorldOptions.model_fields.keys() - manifest["options"].keys()))
        faults += [f"{place}: made of another graph ({content}, expected {wanted})"] * (content != wanted)
        faults += [f"{place}: made with seed {manifest['seed']}, expected {seed}"] * (manifest["seed"] != seed)
        faults += [f"{place}: made without --sought {sought}"] * (sought not in ("", manifest["options"].get("sought")))
        faults += [f"{place}: made by an earlier version, which had no option {lacking}"] * bool(lacking)
    refuse([f"{fault}: delete the world with what was trained on it, or choose another folder" for fault in faults])


def restore(folder: Path) -> KnowledgeGraph:
    """Restore the source graph of a world, of up to a million entities: texts are processed one by one.

    :raises BadInput: the folder is no world.
    """
    if not stands(folder / "mapping.parquet"):
        raise BadInput(f"{folder} is no world: it has no mapping.parquet")
    graph = _read_graph(folder)
    changed: dict[str, dict[str, Json]] = defaultdict(dict)
    for line in _read_table(folder / "mapping.parquet", needed=("kind", "id", "old", "old_aliases")).to_pylist():
        changed[line["kind"]][line["id"]] = line
    spans: dict[str, list[Json]] = defaultdict(list)
    for span in _read_table(folder / "spans.parquet", needed=("described", "old", "new_start", "new_end")).to_pylist():
        spans[span["described"]].append(span)
    ids, descriptions = (graph.entities.column(name).to_pylist() for name in ("id", "description"))
    texts = []
    for id_, description in zip(ids, descriptions, strict=True):
        text = description
        for span in sorted(spans[id_], key=lambda span: -span["new_start"]):  # from the end, so that places stay
            text = text[: span["new_start"]] + span["old"] + text[span["new_end"] :]
        texts.append(text)
    entities = _set_values(graph.entities, "description", texts)
    entities = _put_back(entities, "description", changed["description"], "old")
    entities = _put_back(entities, "name", changed["entity"], "old")
    entities = _put_back(entities, "aliases", changed["entity"], "old_aliases")
    return replace(graph, entities=entities, relations=_put_back(graph.relations, "name", changed["relation"], "old"))


def _put_back(table: pa.Table, name: str, changed: dict[str, Json], old: str) -> pa.Table:
    """Restore a column. :param changed: lines of the mapping by id, with the values in their column *old*."""
    rows = zip(table.column("id").to_pylist(), table.column(name).to_pylist(), strict=True)
    return _set_values(table, name, [changed[id_][old] if id_ in changed else value for id_, value in rows])


def _set_values(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    return column_set(table, name, pa.array(values, table.schema.field(name).type))


FORMAT = 1
_COUNTS = {
    "entities": "entities_renamed",
    "relations": "relations_renamed",
    "descriptions": "descriptions_changed",
    "mentions found": "mentions_found",
    "replaced": "mentions_replaced",
    "ambiguous": "mentions_ambiguous",
}
"""Columns of :func:`worlds_table` and the counts of the manifest."""
RANDOM = "fully-anonymised-ed has random strings instead"
_CASES = {
    "exact": "matters",
    "ignore": "of A to Z is ignored",
    "mixed": "matters in names that have a capital letter, elsewhere that of A to Z is ignored",
}


def build_worlds(
    graph: KnowledgeGraph,
    out: Path,
    variants: Iterable[Variant | str] = THIRTEEN,
    seed: int = 0,
    options: WorldOptions | None = None,
    *,
    name: str = "",
    templates: Templates = MappingProxyType({}),
    audit: bool = False,
    progress: Progress = unseen,
) -> list[Json]:
    """Write each variant as a folder of its name in *out*, which appears when it is complete.

    An earlier call with the same arguments is resumed.

    :param variants: names such as "virtual-e".
    :param name: of the graph, for the manifests.
    :param templates: by relation id, kept in worlds whose relations keep their names.
    :param audit: count remaining mentions of entities, also in existing worlds.
    :returns: the manifests.
    :raises BadInput: with all faults that prevent any world, before anything is written.
    :raises RunFailed: the disk is full; existing folders are complete.
    """
    worlds = parse_variants(map(str, variants))
    materials = Materials(graph, seed, options)
    check_variants(materials, out, worlds, name)
    auditor = Auditor(materials) if audit else None
    manifests = []
    for done, variant in enumerate(worlds):
        progress(done, len(worlds))
        manifests.append(_build_world(out / str(variant), variant, materials, name, auditor, templates))
    progress(len(worlds), len(worlds))
    return manifests


def _build_world(
    place: Path, variant: Variant, materials: Materials, name: str, auditor: Auditor | None, templates: Templates
) -> Json:
    """Build a world unless it exists. :returns: its manifest."""
    renamed = "r" in variant.parts
    identity = _identity(variant, materials, name)
    signature = signature_of("build worlds", {}, identity=identity)
    if is_signed(place, signature):
        return audit_world(place, auditor) if auditor else dict(json_file(place / "manifest.json"))
    with whole_folder(place, signature) as folder:
        world = make_world(variant, materials)
        write_world(world, folder, {} if renamed else templates)
        manifest = identity | {
            "content_hash": world.graph.content_hash,
            "counts": world.counts,
            "notes": [
                *world.notes,
                *[f"without {TEMPLATES}, which names the relations"] * (renamed and bool(templates)),
            ],
        }
        if auditor:
            places = (world.spans.column(name).to_numpy() for name in INSERTED)
            spans = inserted_spans(world.graph, world.mapping, *places)
            manifest["left"] = auditor.left(world.graph.entities.column("description"), spans)
        write_json(folder / "manifest.json", manifest)
    return manifest


def check_variants(materials: Materials, out: Path, variants: Sequence[Variant], name: str = "") -> None:
    """:raises BadInput: with all faults that prevent any of the worlds."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file: choose another --out")
    faults = []
    for variant in variants:
        with suppress(MadeBefore):
            signature = signature_of("build worlds", {}, identity=_identity(variant, materials, name))
            faults += obstacles(out / str(variant), signature)
    faults += unwritable(materials.graph)
    impossible = {variant: reasons for variant in variants if (reasons := find_obstacles(variant, materials))}
    faults += dict.fromkeys(fault for reasons in impossible.values() for fault in reasons)
    possible = [str(variant) for variant in variants if variant not in impossible]
    if impossible and possible:
        faults.append(f"without {', '.join(map(str, impossible))} it works: --variants {','.join(possible)}")
    refuse(faults)


def _identity(variant: Variant, materials: Materials, name: str) -> Json:
    """Return all that determines a world, independently of time and machine."""
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
        "options": materials.options.model_dump(include=set(WorldOptions.model_fields)),
        "versions": {
            "fathom": VERSION,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pyarrow": pa.__version__,
        },
    }


def worlds_table(manifests: Sequence[Json]) -> Table:
    """Tabulate what was changed, by world."""
    rows = tuple(
        (manifest["world"], *(manifest["counts"].get(name) for name in _COUNTS.values())) for manifest in manifests
    )
    worlds_by_note: dict[str, list[str]] = defaultdict(list)
    for manifest in manifests:
        for note in manifest["notes"]:
            worlds_by_note[note].append(manifest["world"])
    notes = [f"{note} – in {', '.join(worlds)}" for note, worlds in worlds_by_note.items()]
    cases = {manifest["counts"]["case"] for manifest in manifests if "case" in manifest["counts"]}
    notes += [f"mentions: case {_CASES[case]}" for case in sorted(cases)]
    if any(manifest["counts"].get("mentions_ambiguous") for manifest in manifests):
        notes.append("ambiguous: mentions of a name of several entities; the rule that chose is in manifest.json")
    if kept := [manifest["world"] for manifest in manifests if "mentions_replaced" in manifest["counts"]]:
        notes.append(f"remaining words can identify entities: {', '.join(kept)}; {RANDOM}")
    return Table(("world", *_COUNTS), rows, title="worlds: what was changed", notes=tuple(notes))

"""The build and the audit of worlds in folders."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import scipy

from fathom._version import VERSION
from fathom.base.errors import BadInput, MadeBefore, all_of, refuse
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Json, json_file
from fathom.data.formats.kg import TEMPLATES, Templates, unwritable
from fathom.data.knowledge import KnowledgeGraph
from fathom.results.tables import Table
from fathom.store.files import write_json
from fathom.store.outputs import is_signed, obstacles, signature_of, whole_folder
from fathom_build.options import WorldOptions
from fathom_build.worlds.audit import Auditor
from fathom_build.worlds.constructions import Materials, find_obstacles, make_world
from fathom_build.worlds.folders import (
    INSERTED,
    audit_world,
    find_worlds,
    inserted_spans,
    read_manifest,
    restore,
    write_world,
)
from fathom_build.worlds.world import THIRTEEN, Variant, parse_variants

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
    chosen = parse_variants(map(str, variants))
    materials = Materials(graph, seed, options)
    check_variants(materials, out, chosen, name)
    auditor = Auditor(materials) if audit else None
    manifests = []
    for done, variant in enumerate(chosen):
        progress(done, len(chosen))
        manifests.append(_build_world(out / str(variant), variant, materials, name, auditor, templates))
    progress(len(chosen), len(chosen))
    return manifests


def audit_worlds(folders: Sequence[Path], progress: Progress = unseen) -> list[Json]:
    """Count the mentions that remain in existing worlds, and write them into their manifests.

    :param folders: worlds, or folders of worlds.
    :returns: the manifests.
    :raises BadInput: a folder is no world and contains none, or a world is damaged.
    """
    worlds = [
        world for part in all_of(*(lambda folder=folder: find_worlds(folder) for folder in folders)) for world in part
    ]
    manifests = all_of(*(lambda world=world: read_manifest(world) for world in worlds))
    auditors: dict[tuple[str, int, WorldOptions], Auditor] = {}
    audited = []
    for done, (world, manifest) in enumerate(zip(worlds, manifests, strict=True)):
        progress(done, len(worlds))
        known = {name: value for name, value in manifest["options"].items() if name in WorldOptions.model_fields}
        key = (manifest["source"]["content_hash"], manifest["seed"], WorldOptions(**known))
        if key not in auditors:
            source = restore(world)
            if source.content_hash != key[0]:
                raise BadInput(f"{world}: its files are not those of the world that was made: make the world anew")
            auditors = {key: Auditor(Materials(source, *key[1:]))}
        audited.append(audit_world(world, auditors[key]))
    progress(len(worlds), len(worlds))
    return audited


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

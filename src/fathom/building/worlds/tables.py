"""What was made of a knowledge graph, world by world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fathom.results.tables import Table

_COUNTS = {
    "entities": "entities_renamed",
    "relations": "relations_renamed",
    "descriptions": "descriptions_changed",
    "mentions found": "mentions_found",
    "replaced": "mentions_replaced",
    "ambiguous": "mentions_ambiguous",
}


def worlds_table(manifests: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each world. :param manifests: as ``manifest.json`` has them."""
    rows = tuple((made["world"], *(made["counts"].get(name) for name in _COUNTS.values())) for made in manifests)
    told: dict[str, list[str]] = {}
    for made in manifests:
        for note in made["notes"]:
            told.setdefault(note, []).append(made["world"])
    notes = [f"{note} – in {', '.join(worlds)}" for note, worlds in told.items()]
    cases = {made["counts"]["case"] for made in manifests if "case" in made["counts"]}
    notes += [f"mentions: case {'matters' if case == 'exact' else 'of A to Z is ignored'}" for case in sorted(cases)]
    if any(made["counts"].get("mentions_ambiguous") for made in manifests):
        notes.append("ambiguous: mentions of a name of several entities; the rule that chose is in manifest.json")
    return Table(("world", *_COUNTS), rows, title="worlds: what was changed", notes=tuple(notes))

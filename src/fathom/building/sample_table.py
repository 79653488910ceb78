"""What was kept of a knowledge graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.results.tables import Table


def sample_table(manifest: Mapping[str, Any]) -> Table:
    """Sizes of the part and of the whole. :param manifest: as ``manifest.json`` has it."""
    whole = manifest["source"]
    rows = [(name, manifest[name], whole[name]) for name in ("entities", "relations", "triples")]
    rows += [(split, manifest["splits"].get(split, 0), count) for split, count in whole["splits"].items()]
    return Table(("", "kept", "of"), tuple(rows), notes=tuple(manifest["notes"]))

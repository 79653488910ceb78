"""The table of registries in docs/howto/extend.md is made from their classes; ``FATHOM_DOCS=write`` writes it."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

from fathom.base.registry import CommandEntry
from fathom.cli import COMMANDS
from fathom.data.formats import FORMATS
from fathom.data.formats.base import Format
from fathom.plans.kinds import KINDS, PRESETS, Kind, Preset
from fathom.probes import PROBES, Entry
from fathom.results.metrics.table import METRICS, Metric
from fathom.studies import STUDIES, Study
from fathom_build.command import BUILDERS, Builder
from fathom_kgc import links
from fathom_kgc.links import LINKS

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "extend.md"
TABLE = re.compile(r"^\| registry \|.*?\n\n", re.MULTILINE | re.DOTALL)
REGISTRIES: dict[str, tuple[Any, Any]] = {
    "fathom.probes.PROBES": (PROBES, Entry),
    "fathom.data.formats.FORMATS": (FORMATS, Format),
    "fathom.results.metrics.table.METRICS": (METRICS, Metric),
    "fathom.studies.STUDIES": (STUDIES, Study),
    "fathom_kgc.links.LINKS": (LINKS, links.Kind),
    "fathom_build.command.BUILDERS": (BUILDERS, Builder),
    "fathom.cli.COMMANDS": (COMMANDS, CommandEntry),
    "fathom.plans.kinds.PRESETS": (PRESETS, Preset),
    "fathom.plans.kinds.KINDS": (KINDS, Kind),
}


def fields_of(kind: Any) -> dict[str, bool]:
    """Return whether an entry must have each field."""
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        fields = dataclasses.fields(kind)
        return {field.name: field.default is missing and field.default_factory is missing for field in fields}
    if hasattr(kind, "_fields"):
        return {name: name not in kind._field_defaults for name in kind._fields}
    return dict.fromkeys(kind.__annotations__, True)  # a protocol


def row(name: str, registry: Any, kind: Any) -> str:
    fields = fields_of(kind)
    needed = ", ".join(f"`{field}`" for field, is_needed in fields.items() if is_needed)
    further = ", ".join(f"`{field}`" for field, is_needed in fields.items() if not is_needed)
    return f"| `{name}` | `{registry.group}` | `{kind.__name__}` | {needed} | {further} |"


def table() -> str:
    rows = [row(name, *about) for name, about in REGISTRIES.items()]
    head = "| registry | group of entry points | entry | fields | further fields |"
    return "\n".join([head, "|---|---|---|---|---|", *rows]) + "\n\n"


def test_the_table_of_registries_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    if os.environ.get("FATHOM_DOCS") == "write":
        PAGE.write_text(TABLE.sub(lambda _: table(), text), encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
    assert table() in text, "run: FATHOM_DOCS=write pytest tests/documents/test_extend.py"

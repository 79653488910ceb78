"""Tables printed, and kept in every form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fathom.cli.formats import TableFormat, show
from fathom.results.tables import Table, render


def tell(tables: Sequence[Table], format: TableFormat, out: Path | None, name: str) -> None:
    """Print, and keep in every form."""
    from fathom.store.files import write_text

    if out is not None:
        for ending in ("json", "csv", "md"):
            write_text(out / f"{name}.{ending}", render(tables, ending) + "\n")
    show(tables, format)

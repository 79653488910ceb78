"""Tables as files in each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fathom.results.tables import Table, render
from fathom.store.written import write_output


def write_tables(
    tables_in: Callable[[str], Sequence[Table]],
    out: Path,
    name: str,
    answer: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write tables in each format as *name* into the folder *out*.

    :param tables_in: given a format.
    :param overwrite: replace files that Fathom did not write.
    :raises BadInput: such a file is in the way.
    """
    for ending in ("json", "csv", "md"):
        content = render(tables_in(ending), ending, answer) + "\n"
        write_output(out / f"{name}.{ending}", content, overwrite=overwrite)

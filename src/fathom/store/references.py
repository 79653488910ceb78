"""Finished runs of published models that ship with the package, ``reference:NAME`` wherever a run is read."""

from __future__ import annotations

from pathlib import Path

from fathom.base.errors import BadInput

REFERENCES = Path(__file__).parent / "references"
"""A run folder for each model, named as in ``fathom model list``; ``make references`` makes them."""
PREFIX = "reference:"


def run_path(path: str | Path) -> Path:
    """Return the folder of a run that is given by its path, or as ``reference:NAME`` in any case.

    :raises BadInput: there is no such reference.
    """
    if not str(path).startswith(PREFIX):
        return Path(path)
    name = str(path).removeprefix(PREFIX)
    known = {folder.name.casefold(): folder for folder in sorted(REFERENCES.glob("*"))}
    if name.casefold() not in known:
        names = ", ".join(f"{PREFIX}{folder.name}" for folder in known.values())
        raise BadInput(f"no run {path}: there is {names or 'none'}")
    return known[name.casefold()]

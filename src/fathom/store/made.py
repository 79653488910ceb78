"""Folders that a command makes as a whole: what made them, so that the same command typed again knows its own work.

A scheduler that starts a killed job anew types the same command. If the folder was finished a moment before the kill,
there is nothing to do; if something else made it, it is the user's and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fathom._version import VERSION
from fathom.errors import BadInput, MadeBefore
from fathom.reading import Json, as_read_back, json_file, stands
from fathom.store.files import AT_WORK, free, write_json

MADE = ".made"
"""In a folder: what made it, as JSON."""


def made_by(command: str, options: Mapping[str, object], *, files: Iterable[str | Path] = (), **more: object) -> Json:
    """All that decides what a command makes.

    :param options: as JSON takes them.
    :param files: that are read, and folders of them, known by place, size and time: they may be large. What is not
        there is known by its name.
    :param more: digests of data that are read, …
    """
    stamps = [stamp for file in files for stamp in _stamps(Path(file))]
    said = {"command": command, "fathom": VERSION, "options": dict(options), "files": stamps, **more}
    return dict(as_read_back(said))


def _stamps(path: Path) -> list[list[object]]:
    """Nothing is refused here: whoever reads the files says what is wrong with them."""
    if os.path.isdir(path):
        files = sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)
        return [stamp for file in files for stamp in _stamps(file)]
    try:
        found = path.stat()
        return [[str(path.resolve()), found.st_size, found.st_mtime_ns]]
    except (OSError, RuntimeError, ValueError):
        return [[str(path)]]


def in_the_way(out: Path, made: Json) -> list[str]:
    """A fault where *out* is there and is no empty folder.

    :param made: see :func:`made_by`.
    :raises MadeBefore: the same command has made it.
    """
    if out.is_symlink():
        return [f"{out} is a link: give the folder that is meant"]
    if not stands(out):
        above = next(place for place in out.absolute().parents if stands(place))
        return [] if above.is_dir() else [f"--out {out}: {above} is a file, expected a folder"]
    if out.is_dir() and not any(out.iterdir()):
        return []
    if is_whole(out, made):
        free(out)
        raise MadeBefore(f"{out} is there: this very command has made it before: nothing is left to do")
    return [f"{out} is there already: delete it, or choose another --out"]


def is_whole(out: Path, made: Json) -> bool:
    """Whether the same command has made *out*, and all that it wrote is there."""
    return out.is_dir() and _made(out) == made | {"holds": _holds(out)}


def sign(folder: Path, made: Json) -> None:
    """Say in *folder* what made it, and what it holds, so that a folder that has lost a file is not taken for whole."""
    write_json(folder / MADE, made | {"holds": _holds(folder)})


def _holds(folder: Path) -> list[str]:
    """Names of its files: their sizes depend on how long the making took, which some of them say."""
    files = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if file not in (MADE, AT_WORK))


def _made(folder: Path) -> object:
    try:
        return json_file(folder / MADE)
    except BadInput:
        return None

"""How a layout is recognised: by the files of a folder, and by what stands first in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from fathom.reading import Faults, Unreadable, opened, some_of

_PEEKED = 1 << 16
"""Bytes: more than the first item of any data set that is recognised so."""
_KEY = re.compile(r'"([^"\\]+)"\s*:')


def data_files(path: Path, *endings: str) -> list[Path]:
    """The file itself, or the files of a folder, whose names end so, by name."""
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError:
        return []
    return [file for file in paths if file.name.endswith(endings)]


def begins_with(file: Path, marks: Iterable[str]) -> bool:
    """Whether all of *marks* stand in the first line of a text that can be read."""
    first = beginning(file).partition("\n")[0]
    return all(mark in first for mark in marks)


def keys_of(file: Path) -> set[str]:
    """Keys of the objects with which a JSON file begins; none of what cannot be read."""
    return set(_KEY.findall(beginning(file)))


def beginning(file: Path) -> str:
    """The first 64 kB of a text, without white space before it; "" of what cannot be read."""
    try:
        with opened(file) as stream:
            return stream.read(_PEEKED).decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    except Unreadable:
        return ""


def note_rest(path: Path, endings: tuple[str, ...], taken: Collection[Path], faults: Faults) -> None:
    """What else a folder holds under *endings*: what cannot be read is a fault, what has another layout is noted."""
    others = []
    for file in data_files(path, *endings):
        if file in taken:
            continue
        try:
            with opened(file) as stream:
                stream.read(1)
            others.append(file.name)
        except Unreadable as error:
            faults.keep(error)
    if others:
        faults.note(path, None, f"files of another layout, not read: {some_of(others, 10)}")

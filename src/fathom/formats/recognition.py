"""Formats recognised by the keys or columns with which their files open."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from fathom.formats.base import Draft, Format
from fathom.reading import Faults, Unreadable, first_few, opened

JSON_ENDINGS, TSV_ENDINGS = (".json", ".json.gz"), (".tsv", ".tsv.gz")

_OPENING = 1 << 16
"""Bytes; longer than the first item of any of these data sets."""
_KEY = re.compile(r'"([^"\\]+)"\s*:')


def define_format(
    name: str,
    expects: str,
    endings: tuple[str, ...],
    has_data: Callable[[Path], bool],
    fill: Callable[[Draft, list[Path]], Mapping[str, Any] | None],
    *,
    nothing: str,
    licence: str = "not stated",
    refusal: Callable[[Path], str] = lambda path: "",
    places: Callable[[Path], Iterable[Path]] = lambda path: [path],
    notes_rest: bool = True,
) -> Format:
    """Define a format by its files.

    :param endings: of the names of its files.
    :param has_data: whether a file, which may be unreadable, belongs to the data set.
    :param fill: adds the queries of the files to a draft; returns further arguments of :meth:`Draft.queryset`.
    :param nothing: fault of files without queries.
    :param refusal: why a known variant without such files cannot be read; "" for any other path.
    :param places: folders to search.
    :param notes_rest: note other files with these endings.
    """

    def files_of(path: Path) -> list[Path]:
        return [file for place in places(path) for file in data_files(place, *endings) if has_data(file)]

    def read(path: Path, faults: Faults) -> Any:
        files = files_of(path)
        if not files:
            faults.add(path, None, refusal(path))
            return None
        for place in places(path) if notes_rest else ():
            note_rest(place, endings, files, faults)
        draft = Draft(path, faults)
        about = fill(draft, files) or {}
        return draft.queryset(path.name.split(".")[0], nothing=nothing, licence=licence, **about)

    return Format(name, expects, lambda path: bool(files_of(path) or refusal(path)), read)


def data_files(path: Path, *endings: str) -> list[Path]:
    """List the file itself or the files of a folder with these endings, by name."""
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError:
        return []
    return [file for file in paths if file.name.endswith(endings)]


def begins_with(file: Path, marks: Iterable[str]) -> bool:
    """Return whether the first line of a readable text contains all of *marks*."""
    first = beginning(file).partition("\n")[0]
    return all(mark in first for mark in marks)


def keys_of(file: Path) -> set[str]:
    """Return the keys in the first 64 kB of a JSON file; the empty set if it is unreadable."""
    return set(_KEY.findall(beginning(file)))


def beginning(file: Path) -> str:
    """Return the first 64 kB of a text without leading white space; "" if it is unreadable."""
    try:
        with opened(file) as stream:
            return stream.read(_OPENING).decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    except Unreadable:
        return ""


def note_rest(path: Path, endings: tuple[str, ...], files: Collection[Path], faults: Faults) -> None:
    """Note the other files of a folder with these endings; unreadable ones are faults."""
    others = []
    for file in data_files(path, *endings):
        if file in files:
            continue
        try:
            with opened(file) as stream:
                stream.read(1)
            others.append(file.name)
        except Unreadable as error:
            faults.keep(error)
    if others:
        faults.note(path, None, f"files of another layout, not read: {first_few(others, 10)}")

"""Reading files that people wrote: every fault is kept with its file and line, and all are shown at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fathom.errors import BadInput
from fathom.reading.files import Unreadable, is_there, located, read_text, shown, text_lines
from fathom.reading.text import Json, NotData, json_file, json_value

LONGEST_MESSAGE = 1500
"""Characters of what is said of a fault: of a longer one, such as one that shows a huge value, both ends."""


class Faults:
    """Collects what is wrong with a folder (``found``) and what is only odd (``notes``)."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.notes: list[str] = []

    def add(self, file: Path, line: int | None, message: str) -> None:
        """Something is wrong.

        :param line: counted from 1; None for the file as a whole.
        """
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 3 :]}"
        self.found.append(located(file, line, message))

    def note(self, file: Path, line: int | None, message: str) -> None:
        """Something is odd, but can be read.

        :param line: as in :meth:`add`.
        """
        self.notes.append(located(file, line, message))

    def keep(self, error: BadInput) -> None:
        """What a guarded reader has raised, once."""
        self.found += [fault for fault in error.faults if fault not in self.found]

    def there(self, file: Path) -> bool:
        """Whether a file that may be absent can be read; what stands in its place and is no file is a fault."""
        try:
            return is_there(file)
        except Unreadable as error:
            self.keep(error)
            return False

    def stop_if_any(self) -> None:
        """:raises BadInput: with every fault found so far."""
        if self.found:
            raise BadInput(self.found)


def line_of(path: Path, key: str) -> int | None:
    """The line where a key of a JSON file stands first; None where it does not."""
    try:
        lines = read_text(path).splitlines()
    except Unreadable:
        return None
    asked, written = f"{json.dumps(key)}:", f'"{key}":'
    found = (at for at, line in enumerate(lines, start=1) if asked in line.replace(" :", ":") or written in line)
    return next(found, None)


def read_json(path: Path, faults: Faults) -> Any:
    """The file's content, or None with a fault noted."""
    try:
        value = json_file(path)
    except Unreadable as error:
        faults.keep(error)
        return None
    if value is None:
        faults.add(path, 1, "expected data, found null")
    return value


def read_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """(line number, line) of a text, as far as it can be read."""
    try:
        yield from enumerate(text_lines(path), start=1)
    except Unreadable as error:
        faults.keep(error)


def read_json_lines(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """(line number, object) of every good line, one at a time; the others become faults. A ``.gz`` file is unpacked.

    :param required: fields that must be there, with their type.
    """
    needed = tuple(required.items())
    try:
        for number, line in enumerate(text_lines(path), start=1):
            if not line:
                continue
            try:
                row = json_value(line)
            except NotData as error:
                if line.strip():
                    faults.add(path, number, error.why)
                continue
            if not isinstance(row, dict):
                faults.add(path, number, f"expected an object {{…}}, found {line.strip()[:40]}")
                continue
            for name, kind in needed:
                if not isinstance(row.get(name), kind) or row[name] is True or row[name] is False:
                    faults.add(path, number, _lacking(row, required))
                    break
            else:
                yield number, row
    except Unreadable as error:
        faults.keep(error)


def _lacking(row: Json, required: dict[str, type]) -> str:
    """What is wrong with the fields of a row."""
    return "; ".join(
        f"'{name}' is missing" if name not in row else f"'{name}' must be {kind.__name__}, found {shown(row[name])}"
        for name, kind in required.items()
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool)
    )

"""Reading files that people wrote: every fault is kept with its file and line, and all are shown at once."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from fathom.errors import BadInput

Json = dict[str, Any]
"""An object of a JSON file."""


class Faults:
    """Collects what is wrong with a folder (``found``) and what is only odd (``notes``)."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.notes: list[str] = []

    def add(self, file: Path, line: int | None, message: str) -> None:
        """Something is wrong.

        :param line: counted from 1; None for the file as a whole.
        """
        self.found.append(_located(file, line, message))

    def note(self, file: Path, line: int | None, message: str) -> None:
        """Something is odd, but can be read.

        :param line: as in :meth:`add`.
        """
        self.notes.append(_located(file, line, message))

    def stop_if_any(self) -> None:
        """:raises BadInput: with every fault found so far."""
        if self.found:
            raise BadInput(self.found)


def _located(file: Path, line: int | None, message: str) -> str:
    return f"{file}: {message}" if line is None else f"{file}:{line}: {message}"


def line_of(path: Path, key: str) -> int | None:
    """The line where a key of a JSON file stands first; None where it does not."""
    lines = enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    asked, written = f"{json.dumps(key)}:", f'"{key}":'
    return next((number for number, line in lines if asked in line.replace(" :", ":") or written in line), None)


def read_json(path: Path, faults: Faults) -> Any:
    """The file's content, or None with a fault noted."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        faults.add(path, None, "file is missing")
    except json.JSONDecodeError as error:
        faults.add(path, error.lineno, f"not JSON: {error.msg} (column {error.colno})")
    except (UnicodeDecodeError, OSError) as error:
        faults.add(path, None, f"cannot be read as UTF-8 text: {error}")
    return None


def read_json_lines(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """(line number, object) of every good line, one at a time; the others become faults. A ``.gz`` file is unpacked.

    :param required: fields that must be there, with their type.
    """
    try:
        with open_text(path) as lines:
            for number, line in enumerate(lines, start=1):
                row = _json_object(path, number, line, required, faults) if line.strip() else None
                if row is not None:
                    yield number, row
    except FileNotFoundError:
        faults.add(path, None, "file is missing")
    except (EOFError, zlib.error) as error:
        faults.add(path, None, f"cannot be unpacked: {error}")
    except (UnicodeDecodeError, OSError) as error:
        faults.add(path, None, f"cannot be read as UTF-8 text: {error}")


def open_text(path: Path) -> IO[str]:
    """UTF-8, unpacked where the name ends in ``.gz``.

    Lines end with a line feed and nothing else: JSON may hold other signs that Unicode counts as line ends.
    """
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


def _json_object(path: Path, number: int, line: str, required: dict[str, type], faults: Faults) -> Json | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        faults.add(path, number, f"not JSON: {error.msg} (column {error.colno})")
        return None
    if not isinstance(row, dict):
        faults.add(path, number, f"expected an object {{…}}, found {line.strip()[:40]}")
        return None
    wrong = [
        f"'{name}' is missing" if name not in row else f"'{name}' must be {kind.__name__}, found {row[name]!r}"
        for name, kind in required.items()
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool)
    ]
    if wrong:
        faults.add(path, number, "; ".join(wrong))
        return None
    return row


def check_answer_space(
    file: Path, line: int | None, where: str, ids: Sequence[str | None], labels: Sequence[str | None], faults: Faults
) -> None:
    """The rules every answer space keeps: as many ids as labels, no answer empty, none twice."""
    if len(ids) != len(labels):
        faults.add(file, line, f"{where}: {len(ids)} answer ids for {len(labels)} answers")
    for place, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            faults.add(file, line, f"{where}: answer {place} is empty ({label!r})")
    for kind, values in (("answer", labels), ("answer id", ids)):
        for value, count in Counter(map(str, values)).items():
            if count > 1 and value.strip():
                faults.add(file, line, f"{where}: {kind} {value!r} stands more than once in the answer space")

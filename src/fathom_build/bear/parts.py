"""Parts of a pass over a dump: files of what has been read, for a repeated command and between processes.

Each piece of the dump is read by one process, in parts. The file of a part is written as a whole once it is read, so
that a killed command loses only parts in progress. A ``.gz`` file with a single member is one piece: a repeated command
also unpacks again what was read before.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import FathomError
from fathom.base.processes import start_process
from fathom.base.reading import Unreadable, shown
from fathom.base.reading.bounds import MEGABYTE
from fathom.base.reading.pieces import Piece, lines_of, pieces_of
from fathom.store.files import clear_temporaries, make_folder, write_text
from fathom.store.outputs import signature_of
from fathom_build.bear.entities import (
    INSTANCE_OF,
    Entity,
    Numbers,
    Statement,
    StatementState,
    WantedStatements,
    entity_of,
)

PART = 256 * MEGABYTE
"""Unpacked bytes of a dump in a part: seconds of work."""
_LARGE, _SAMPLES, _SAMPLE = 64 * MEGABYTE, 5, 16 * MEGABYTE
"""Bytes of a dump worth an estimate; number of samples for it, and unpacked bytes of each."""
_DISK = 3
"""Space for parts, the database of facts and what it sorts, relative to the parts: 1.9 before sorting, measured."""
_MOSTLY_ODD = 1_000
"""Odd lines of a part from which it is given up if most of its lines are odd."""
_PAUSE = 0.05
"""Seconds between two looks for a part that another process is making."""
_ID = re.compile(rb'"id"\s*:\s*"([A-Z])([1-9][0-9]{0,8})"')
_HEAD = 400
"""Bytes at the start of a line in which the entity's own id is."""


class DumpPart(NamedTuple):
    """A part of a piece.

    :param lines: number of lines; likewise entities and unpacked bytes.
    :param place: byte of the dump as stored that had been read.
    :param is_open: whether its last bracket opens a list; None without a bracket.
    :param cut: why the rest of the piece cannot be read; "" if it can.
    :param is_last: whether nothing of the piece follows.
    """

    lines: int
    entities: int
    unpacked: int
    place: int
    is_open: bool | None
    cut: str
    is_last: bool


class DumpForecast(NamedTuple):
    """What reading a dump takes.

    :param minutes: at most, for each of two passes.
    :param disk: space that it needs, in GB; *free*: what there is.
    """

    minutes: float
    processes: int
    disk: float
    free: float


Row = tuple[int, Entity | str]
"""The number of a line in its part, and its entity, or what is wrong with it."""


class DumpPass:
    """A pass over a dump.

    :param folder: of the parts of all passes. A pass uses only those of the same file and the same wanted entities.
    :param needed: numbers of wanted items; None for all items with a wanted statement.
    """

    def __init__(self, path: Path, wanted: WantedStatements, folder: Path, needed: Numbers | None = None) -> None:
        self._path, self._wanted, self._needed = path, wanted, needed
        names = "|".join(sorted(wanted.properties - {INSTANCE_OF}))
        self._names = re.compile(rf'"(?:{names})"\s*:'.encode())
        options = wanted._asdict() | {"properties": sorted(wanted.properties), "ended": sorted(wanted.ended)}
        signature = signature_of(
            "pass", options | {"needed": None if needed is None else needed.digest()}, files=[path]
        )
        self._folder = folder / hashlib.sha256(json.dumps(signature).encode()).hexdigest()[:16]

    def parts(self, workers: int) -> Generator[tuple[DumpPart, list[Row]]]:
        """Yield the parts in the order of the dump; make those that are missing.

        :param workers: number of processes that make parts; if 1, this process makes them.
        :raises Unreadable: the dump is not a regular file, or cannot be read.
        """
        make_folder(self._folder)
        clear_temporaries(self._folder)
        pieces = pieces_of(self._path)
        workers = min(workers, len(pieces))
        processes = [start_process(_make_all, self, pieces[start::workers]) for start in range(workers) if workers > 1]
        try:
            for piece in pieces:
                yield from self._parts_of(piece, processes)
        finally:
            for process in processes:
                process.terminate()
                process.join()

    def _parts_of(self, piece: Piece, processes: Sequence[SpawnProcess]) -> Iterator[tuple[DumpPart, list[Row]]]:
        """Yield the parts of a piece. Parts of a worker that failed are made here, which reports why it did."""
        made = self.make(piece)
        for number in count():
            file = self._file(piece, number)
            while not file.exists() and any(process.is_alive() for process in processes):
                time.sleep(_PAUSE)
            if not file.exists():
                next(made)
            part = _header(file)
            yield part, _rows(file)
            if part.is_last:
                return

    def make(self, piece: Piece) -> Iterator[None]:
        """Make the missing parts of a piece, pausing after each."""
        number = before = 0
        while (file := self._file(piece, number)).exists():
            part = _header(file)
            if part.is_last:
                return
            number, before = number + 1, before + part.lines
        reader, is_last = _PieceReader(self._path, piece, before), False
        while not is_last:
            part, rows = self._part(reader, PART)
            write_text(self._file(piece, number), (f"{json.dumps(line)}\n" for line in (part, *rows)))
            yield
            number, is_last = number + 1, part.is_last

    def estimate(self, workers: int) -> DumpForecast | None:
        """Extrapolate from samples; None for a small dump, or once a part has been made."""
        size = self._path.stat().st_size
        if size < _LARGE or self._folder.exists():
            return None
        pieces, begun, read, made = pieces_of(self._path), time.process_time(), 0, 0
        for piece in pieces[:: -(-len(pieces) // _SAMPLES)]:
            part, rows = self._part(_PieceReader(self._path, piece, 0), _SAMPLE)
            read += part.place - piece.start
            made += sum(len(json.dumps(row)) for row in rows)
        more, processes = size / max(read, 1), min(workers, len(pieces))
        minutes = more * (time.process_time() - begun) / processes / 60
        parent = next(folder for folder in self._folder.absolute().parents if folder.exists())
        return DumpForecast(minutes, processes, _DISK * more * made / 1e9, shutil.disk_usage(parent).free / 1e9)

    def _file(self, piece: Piece, number: int) -> Path:
        return self._folder / f"{piece.start:015}-{piece.end:015}-{number:05}.jsonl"

    def _part(self, reader: _PieceReader, most: int) -> tuple[DumpPart, list[Row]]:
        """Read the next part. :param most: unpacked bytes after which it ends."""
        rows: list[Row] = []
        lines = entities = unpacked = odd = 0
        is_open, cut, is_last = None, "", True
        try:
            for text in reader.lines:
                unpacked += len(text)
                line = text.strip().rstrip(b",")
                if line in (b"[", b"]"):
                    is_open = line == b"["
                elif line:
                    found = self._entity(line)
                    if isinstance(found, str) and line.startswith(b"{") and not text.endswith(b"\n"):
                        cut = "the line is not finished"
                        break
                    entities += 1
                    odd += isinstance(found, str)
                    if found is not None:
                        rows.append((lines + 1, found))
                lines += 1
                if odd > max(_MOSTLY_ODD, entities / 2):
                    cut = "most lines are no entities"
                    break
                if unpacked >= most:
                    is_last = False
                    break
        except Unreadable as error:
            cut = error.why
        place = reader.piece.end if is_last else min(reader.tell(), reader.piece.end)
        return DumpPart(lines, entities, unpacked, place, is_open, cut, is_last), rows

    def _entity(self, line: bytes) -> Entity | str | None:
        """Return the entity of a line, None if it is not wanted; or what is wrong with the line."""
        match = None
        if line.startswith(b"{") and line.endswith(b"}"):
            match = _ID.search(line, 0, _HEAD) or _ID.search(_own_id(line))
        if match is None:
            return f"expected an entity of Wikidata, found {shown(line[:40])}"
        if match[1] != b"Q":
            return None
        wanted = self._names.search(line) if self._needed is None else int(match[2]) in self._needed
        return _parsed(line, f"Q{match[2].decode()}", self._wanted) if wanted else None


class _PieceReader:
    """The lines of a piece after those *before*, and the byte of the dump as stored that has been read."""

    def __init__(self, path: Path, piece: Piece, before: int) -> None:
        self.piece, self._tell = piece, list[Callable[[], int]]()
        self.lines = islice(lines_of(path, piece, self._tell.append), before, None)

    def tell(self) -> int:
        return self._tell[0]()


def _make_all(dump: DumpPass, pieces: Sequence[Piece]) -> None:
    """Make the parts of some pieces. What fails is left to the process that waits for them, which reports it."""
    try:
        for piece in pieces:
            for _ in dump.make(piece):
                pass
    except FathomError:
        sys.exit(1)


def _parsed(line: bytes, id_: str, wanted: WantedStatements) -> Entity | str:
    try:
        return entity_of(json.loads(line), wanted)
    except ValueError as error:
        return f"not JSON: {error}"
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        return f"{id_} is no entity as Wikidata writes them ({type(error).__name__}: {error})"


def _own_id(line: bytes) -> bytes:
    """Return the id of an entity as if it were written first."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return f'"id":"{json.loads(line)["id"]}"'.encode()
    return b""


def _header(file: Path) -> DumpPart:
    with file.open(encoding="utf-8") as lines:
        return DumpPart(*json.loads(next(lines)))


def _rows(file: Path) -> list[Row]:
    with file.open(encoding="utf-8") as lines:
        rows = list(map(json.loads, islice(lines, 1, None)))
    for row in rows:
        if not isinstance(row[1], str):
            number, label, aliases, links, claims = row[1]
            statements = (Statement._make((*claim, StatementState(state))) for *claim, state in claims)
            row[1] = Entity(number, label, tuple(aliases), links, tuple(statements))
    return rows

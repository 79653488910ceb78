"""Entities of Wikidata, and the parts of a pass over its dump: files of what has been read.

Of a property the statements of the best rank count, never deprecated ones (Wikidata's own "truthy" statements). A part
is written as a whole once it is read, so that a killed command loses only parts in progress.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import count, islice
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import FathomError
from fathom.base.processes import start_process
from fathom.base.reading import Json, Unreadable, shown
from fathom.base.reading.bounds import MEGABYTE
from fathom.base.reading.pieces import Piece, lines_of, pieces_of
from fathom.store.files import clear_temporaries, make_folder, write_text
from fathom.store.outputs import signature_of

INSTANCE_OF, SUBCLASS_OF = "P31", "P279"
_START, _END, _POINT = "P580", "P582", "P585"
UNKNOWN = 0
"""In place of an object: there is one, but Wikidata does not know which ("unknown value")."""
_NO_WIKIPEDIA = frozenset((Path(__file__).parent / "not_wikipedia.txt").read_text(encoding="utf-8").split())
"""Sites that end in "wiki" and are no Wikipedia."""


class StatementState(StrEnum):
    """Why a statement does not count."""

    COUNTS = ""
    DEPRECATED = "deprecated"
    OUTRANKED = "of lower rank than another"
    ENDED = "has ended"
    NOT_YET = "had not begun"
    NO_ITEM = "no item (a text, number, date, or no value)"


class Statement(NamedTuple):
    """A statement of an entity.

    :param property: such as "P36".
    :param object: number of the item, :data:`UNKNOWN` for an unknown value.
    :param valid_from: date, as exact as Wikidata has it ("1998", "1998-05", "1998-05-01"); "" where none is given.
    """

    property: str
    object: int
    valid_from: str = ""
    valid_until: str = ""
    state: StatementState = StatementState.COUNTS


class Entity(NamedTuple):
    """:param number: of its id: 42 for Q42.
    :param label: in the wanted language, "" where there is none.
    :param links: Wikipedias that have a page on it.
    :param claims: of the wanted properties, those that do not count included.
    """

    number: int
    label: str
    aliases: tuple[str, ...]
    links: int
    claims: tuple[Statement, ...]


class WantedStatements(NamedTuple):
    """The statements and names to read of an entity.

    :param properties: whose statements are wanted.
    :param language: of labels and aliases.
    :param ended: of which of them facts that have ended count, too.
    :param as_of: a date: what held then counts, whatever has changed since; "" for what holds by the data itself.
    """

    properties: frozenset[str]
    language: str = "en"
    ended: frozenset[str] = frozenset()
    as_of: str = ""


def item_number(iri: str) -> int:
    """Return the number of an item, 0 for the IRI of something else."""
    end = iri.removeprefix("http://www.wikidata.org/entity/Q")
    return int(end) if end != iri and end.isdecimal() and len(end) < 10 else 0


def entity_of(row: Json, wanted: WantedStatements) -> Entity:
    """Read an entity from a row of a dump.

    :raises KeyError, TypeError, AttributeError, ValueError: it has another layout.
    """
    return Entity(
        int(row["id"][1:]),
        _label(row, wanted.language),
        tuple(name["value"] for name in _mapping(row, "aliases").get(wanted.language, ())),
        sum(site.endswith("wiki") and site not in _NO_WIKIPEDIA for site in _mapping(row, "sitelinks")),
        tuple(_claims(_mapping(row, "claims"), wanted)),
    )


def _mapping(row: Json, name: str) -> Json:
    """Return a mapping of a row; real dumps write an empty one as []."""
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _label(row: Json, language: str) -> str:
    """Return the label in the language or, since 2025, under "mul" if it is the same in all languages."""
    labels = _mapping(row, "labels")
    label = labels.get(language) or labels.get("mul")
    return " ".join(label["value"].split()) if label else ""


def _claims(claims: Json, wanted: WantedStatements) -> Iterator[Statement]:
    for property_, statements in claims.items():
        if property_ in wanted.properties:
            yield from counted([_claim(property_, statement) for statement in statements], wanted)


class RankedStatement(NamedTuple):
    """A statement before its rank is weighed."""

    claim: Statement
    rank: str
    ended: bool


def counted(statements: Iterable[RankedStatement], wanted: WantedStatements) -> Iterator[Statement]:
    """Yield the claims of one property, each with the reason if it does not count."""
    rows = [
        (_dated(statement, wanted) if statement.rank != "deprecated" else StatementState.DEPRECATED, statement)
        for statement in statements
    ]
    # With a date, ranks are weighed among what held then: what is preferred today may not have.
    in_question = [
        statement for state, statement in rows if state != StatementState.DEPRECATED and not (wanted.as_of and state)
    ]
    best = "preferred" if any(statement.rank == "preferred" for statement in in_question) else "normal"
    for state, statement in rows:
        outranked = state != StatementState.DEPRECATED and statement.rank != best
        yield statement.claim._replace(
            state=statement.claim.state or (StatementState.OUTRANKED if outranked else state)
        )


def _dated(statement: RankedStatement, wanted: WantedStatements) -> StatementState:
    ended = StatementState.COUNTS if statement.claim.property in wanted.ended else StatementState.ENDED
    if not wanted.as_of:
        return ended if statement.ended else StatementState.COUNTS
    begun, over = statement.claim.valid_from, statement.claim.valid_until
    if begun and _parts(begun, 1, 1) > _parts(wanted.as_of, 12, 31):
        return StatementState.NOT_YET
    if over and _parts(over, 12, 31) < _parts(wanted.as_of, 1, 1):
        return ended
    return StatementState.COUNTS


def _claim(property_: str, statement: Json) -> RankedStatement:
    main = statement["mainsnak"]
    state, object_ = StatementState.COUNTS, UNKNOWN
    if main["snaktype"] == "value":
        object_ = _item(main)
        state = StatementState.COUNTS if object_ else StatementState.NO_ITEM
    elif main["snaktype"] == "novalue":
        state = StatementState.NO_ITEM
    qualifiers = _mapping(statement, "qualifiers")
    dates = _date(qualifiers, _START) or _date(qualifiers, _POINT), _date(qualifiers, _END)
    ended = any(snak["snaktype"] != "novalue" for snak in qualifiers.get(_END, ()))
    return RankedStatement(Statement(property_, object_, *dates, state), statement.get("rank", "normal"), ended)


def _item(snak: Json) -> int:
    """Return an item's number, 0 if the value is no item. Older dumps give only the number."""
    value = snak["datavalue"]["value"] if snak["datavalue"]["type"] == "wikibase-entityid" else {}
    return int(value.get("numeric-id") or value["id"][1:]) if value.get("entity-type") == "item" else 0


def _date(qualifiers: Json, property_: str) -> str:
    for snak in qualifiers.get(property_, ()):
        if snak["snaktype"] == "value" and snak["datavalue"]["type"] == "time":
            value = snak["datavalue"]["value"]
            return date_of(value["time"], value.get("precision", 11))
    return ""


def date_of(time: str, precision: int = 11) -> str:
    """Return "1998-05-01" for "+1998-05-01T00:00:00Z", or as much as is known: 9 is a year, 10 a month, 11 a day."""
    sign = "-" if time.startswith("-") else ""
    year, _, rest = time.lstrip("+-").partition("-")
    month, day = rest[:2], rest[3:5]
    parts = [f"{int(year):04}", *([month] if precision >= 10 and month > "00" else [])]
    return sign + "-".join([*parts, *([day] if len(parts) == 2 and precision >= 11 and day > "00" else [])])


def _parts(date: str, month: int, day: int) -> tuple[int, ...]:
    sign = -1 if date.startswith("-") else 1
    parts = [int(part) for part in date.lstrip("-").split("-")]
    return (sign * parts[0], *parts[1:], *(month, day)[len(parts) - 1 :])


class Numbers:
    """Numbers from 0 to the greatest given."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bits = bytearray(1 << 16)
        self._count = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """:returns: whether it is new."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1 - len(self._bits), len(self._bits) >> 1)))
        new = not self._bits[place] & bit
        self._bits[place] |= bit
        self._count += new
        return new

    def discard(self, number: int) -> None:
        """Take it out, if it is there."""
        if number in self:
            self._bits[number >> 3] &= ~(1 << (number & 7))
            self._count -= 1

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & (1 << (number & 7)))

    def __iter__(self) -> Iterator[int]:
        for place, byte in enumerate(self._bits):
            if byte:
                yield from (place << 3 | bit for bit in range(8) if byte & (1 << bit))

    def __len__(self) -> int:
        return self._count

    def digest(self) -> str:
        """Return a hash of the numbers."""
        return hashlib.sha256(self._bits.rstrip(b"\0")).hexdigest()


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
        tell: list[Callable[[], int]] = []
        lines, is_last = islice(lines_of(self._path, piece, tell.append), before, None), False
        while not is_last:
            part, rows = self._part(piece, lines, tell, PART)
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
            tell: list[Callable[[], int]] = []
            part, rows = self._part(piece, lines_of(self._path, piece, tell.append), tell, _SAMPLE)
            read += part.place - piece.start
            made += sum(len(json.dumps(row)) for row in rows)
        more, processes = size / max(read, 1), min(workers, len(pieces))
        minutes = more * (time.process_time() - begun) / processes / 60
        parent = next(folder for folder in self._folder.absolute().parents if folder.exists())
        return DumpForecast(minutes, processes, _DISK * more * made / 1e9, shutil.disk_usage(parent).free / 1e9)

    def _file(self, piece: Piece, number: int) -> Path:
        return self._folder / f"{piece.start:015}-{piece.end:015}-{number:05}.jsonl"

    def _part(
        self, piece: Piece, unread: Iterator[bytes], tell: Sequence[Callable[[], int]], most: int
    ) -> tuple[DumpPart, list[Row]]:
        """Read the next part. :param most: unpacked bytes after which it ends."""
        rows: list[Row] = []
        lines = entities = unpacked = odd = 0
        is_open, cut, is_last = None, "", True
        try:
            for text in unread:
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
        place = piece.end if is_last else min(tell[0](), piece.end)
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

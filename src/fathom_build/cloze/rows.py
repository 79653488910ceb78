"""Sentences that may become queries, kept on disk, one per line: equal ones are one."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom_build.cloze.entities import ListedEntity
from fathom_build.cloze.typography import fold, plain

_AT_ONCE = 1 << 21
"""Keys resolved together."""
_VERSIONS, _PLACES = 1 << 8, 1 << 55


class Supersession(NamedTuple):
    """Masks of items replaced by another with the same key, and by a deletion; shape (places,)."""

    beaten: NDArray[np.bool_]
    withdrawn: NDArray[np.bool_]


class NumbersOnDisk:
    """Unsigned or signed 64-bit integers, appended to a file in blocks and read back once."""

    def __init__(self, path: Path, code: Literal["Q", "q"]) -> None:
        self.path, self._code, self._pending = path, code, array(code)

    def add(self, numbers: Iterable[int]) -> None:
        """Append *numbers*."""
        self._pending.extend(numbers)
        if len(self._pending) >= 1 << 16:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        with self.path.open("ab") as file:
            self._pending.tofile(file)
        self._pending = array(self._code)


class Occurrences:
    """Items with keys, of which the first or the last of each key counts.

    They take 16 bytes each in a new file. Parts of the keys are resolved one by one, within 100 MB and a byte per item.
    """

    def __init__(self, path: Path) -> None:
        self._ranks = NumbersOnDisk(path, "Q")
        self.places = 0

    def add(self, *keys: tuple[str, int], deleted: bool = False) -> None:
        """Append an item by its keys and versions; an item without a key always counts.

        A deletion is an item, too, and may have many keys.
        """
        for key, version in keys:
            rank = min(version, _VERSIONS - 1) * _PLACES + self.places
            hashed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
            self._ranks.add((hashed, rank * 2 + deleted))
        self.places += 1

    def resolve(self, counts: Literal["first", "last"]) -> Supersession:
        """Determine which items count, once all are added. The last is the latest of the greatest version."""
        self._ranks.flush()
        beaten, withdrawn = np.zeros(self.places, np.bool_), np.zeros(self.places, np.bool_)
        shares = -(-self._ranks.path.stat().st_size // 16 // _AT_ONCE)
        for share in range(shares):
            keys, ranks = self._part(share, shares)
            if not len(keys):
                continue
            order = np.lexsort((ranks, keys))
            keys, ranks = keys[order], ranks[order]
            new = np.concatenate([[True], keys[1:] != keys[:-1]])
            edges = np.flatnonzero(new)
            winner = edges if counts == "first" else np.concatenate([edges[1:], [len(keys)]]) - 1
            deletion = (ranks & np.uint64(1)).astype(np.bool_)
            loses = ~deletion
            loses[winner] = False
            places = ((ranks >> np.uint64(1)) % np.uint64(_PLACES)).astype(np.int64)
            beaten[places[loses]] = True
            withdrawn[places[loses]] = deletion[winner][np.cumsum(new) - 1][loses]
        self._ranks.path.unlink()
        return Supersession(beaten, withdrawn)

    def _part(self, share: int, shares: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        parts = []
        with self._ranks.path.open("rb") as file:
            while len(rows := np.fromfile(file, np.uint64, 1 << 20)):
                rows = rows.reshape(-1, 2)
                parts.append(rows[rows[:, 0] % np.uint64(shares) == share])
        rows = np.concatenate(parts)
        return rows[:, 0], rows[:, 1]


class Row(NamedTuple):
    """A sentence.

    :param entity: number of its answer.
    :param masked: the sentence with the answer slot; *surface*: the answer as written.
    :param ngram: the n-gram model's rank of the answer, among its type and, if that differs, among all.
    """

    entity: int
    masked: str
    surface: str
    document: str
    date: str
    offset: int
    section: str
    source: int
    ngram: Sequence[str] = ()


class SentenceRows:
    """Sentences in temporary files."""

    def __init__(self, folder: Path, entities: Sequence[ListedEntity]) -> None:
        self._all, self.queries = folder / "all", folder / "queries"
        self._file = self._all.open("w", encoding="utf-8")
        self._entities = entities
        self._sentences = Occurrences(folder / "sentences")

    def add(self, row: Row) -> None:
        """Append a sentence."""
        self._file.write(_line(row))
        rank = 1 if is_own_name(row.surface, self._entities[row.entity]) else 2  # prefer the answer's main name
        self._sentences.add((f"{row.entity} {_normalised(row.masked)}", rank))

    def close(self) -> None:
        """Close the file after the last sentence."""
        self._file.close()

    def drop_repeated(self) -> Iterator[Row]:
        """Drop repetitions of a sentence with the same answer, once closed, and yield them."""
        repeated = self._sentences.resolve("first").beaten
        with self.queries.open("w", encoding="utf-8") as file:
            for again, row in zip(repeated, rows_in(self._all), strict=True):
                if again:
                    yield row
                else:
                    file.write(_line(row))
        self._all.unlink()

    def replace(self, rows: Iterable[Row]) -> None:
        """Replace the queries."""
        with self._all.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, rows))
        self._all.replace(self.queries)


def rows_in(path: Path) -> Iterator[Row]:
    """Read rows one at a time."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Row(*json.loads(line))


def is_own_name(surface: str, entity: ListedEntity) -> bool:
    """Return whether the text has the entity's main name, ignoring case and typography."""
    return _normalised(surface) == _normalised(entity.name)


def _normalised(text: str) -> str:
    return fold(plain(text))


def _line(row: Row) -> str:
    return _ENCODER.encode(row) + "\n"


_ENCODER = json.JSONEncoder(ensure_ascii=False)  # one for all rows: json.dumps would make one for each

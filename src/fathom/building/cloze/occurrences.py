"""Which of many things with the same key counts: the last of some records, the first of some sentences.

Kept on disk beside the output, 16 bytes each, and resolved a part of the keys at a time: memory stays within some
100 MB and a byte per thing, however many there are.
"""

from __future__ import annotations

import hashlib
from array import array
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 21
"""Keys resolved together."""
_VERSIONS, _PLACES = 1 << 8, 1 << 55


class Resolved(NamedTuple):
    """:param beaten: whether another with the same key counts, by place, shape (places,); never true of a deletion.
    :param withdrawn: whether that other one is a deletion."""

    beaten: NDArray[np.bool_]
    withdrawn: NDArray[np.bool_]


class Occurrences:
    """:param path: a new file to keep them in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending = array("Q")
        self.places = 0

    def add(self, *keys: tuple[str, int], deleted: bool = False) -> None:
        """The next thing, by key and version; without a key nothing beats it.

        A deletion is a thing, too, and may have many keys.
        """
        for key, version in keys:
            rank = min(version, _VERSIONS - 1) * _PLACES + self.places
            self._pending.append(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))
            self._pending.append(rank * 2 + deleted)
        self.places += 1
        if len(self._pending) >= 1 << 16:
            self._flush()

    def resolve(self, counts: Literal["first", "last"]) -> Resolved:
        """Once all have been added. The last is that of the greatest version, and of these the latest."""
        self._flush()
        beaten, withdrawn = np.zeros(self.places, np.bool_), np.zeros(self.places, np.bool_)
        total = self._path.stat().st_size // 16
        shares = -(-total // _AT_ONCE)
        for share in range(shares):
            keys, ranks = self._part(share, shares)
            if not len(keys):
                continue
            order = np.lexsort((ranks, keys))
            keys, ranks = keys[order], ranks[order]
            new = np.concatenate([[True], keys[1:] != keys[:-1]])
            group = np.cumsum(new) - 1
            edges = np.flatnonzero(new)
            winner = edges if counts == "first" else np.concatenate([edges[1:], [len(keys)]]) - 1
            loses = (ranks & np.uint64(1)) == 0
            loses[winner] = False
            places = ((ranks >> np.uint64(1)) % np.uint64(_PLACES)).astype(np.int64)
            beaten[places[loses]] = True
            withdrawn[places[loses]] = (ranks[winner] & np.uint64(1)).astype(np.bool_)[group][loses]
        self._path.unlink()
        return Resolved(beaten, withdrawn)

    def _flush(self) -> None:
        with self._path.open("ab") as file:
            self._pending.tofile(file)
        self._pending = array("Q")

    def _part(self, share: int, shares: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        found = []
        with self._path.open("rb") as file:
            while len(rows := np.fromfile(file, np.uint64, 1 << 20)):
                rows = rows.reshape(-1, 2)
                found.append(rows[rows[:, 0] % np.uint64(shares) == share])
        rows = np.concatenate(found)
        return rows[:, 0], rows[:, 1]

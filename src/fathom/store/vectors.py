"""Vectors in files on disk, so that runs can resume and memory never holds all vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.base.reading import check_file, stands
from fathom.store.files import whole_file

PIECE = 1024
"""Vectors per file: under a minute's work for a small model on a CPU."""


class VectorStore:
    """Numbered float32 vectors in the files ``vectors-00000.npy``, … of a folder, each with its digest at the end."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder, self.total = folder, total
        self.pieces = -(-total // PIECE)
        self._open = lru_cache(maxsize=256)(self._map)

    def rows_of(self, piece: int) -> range:
        return range(piece * PIECE, min((piece + 1) * PIECE, self.total))

    def has(self, piece: int) -> bool:
        return stands(self.file(piece))

    def piece_of(self, name: str) -> int:
        return int(name.removesuffix(".npy").rpartition("-")[2])

    def write(self, piece: int, vectors: NDArray[np.float32]) -> None:
        """Write a file. :param vectors: those of :meth:`rows_of`, in order."""
        content = BytesIO()  # into a file, numpy writes by itself, and does not say that a disk is full
        np.save(content, vectors.astype(np.float32, copy=False), allow_pickle=False)
        content.write(hashlib.sha256(content.getbuffer()).digest())
        with whole_file(self.file(piece)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Read vectors from disk. :param rows: their numbers, ascending, at least one, shape (n,)."""
        pieces, starts = np.unique(rows // PIECE, return_index=True)
        return np.concatenate(
            [
                self._open(int(piece))[some % PIECE]
                for piece, some in zip(pieces, np.split(rows, starts[1:]), strict=True)
            ]
        )

    def not_a_number(self) -> Iterable[int]:
        """Yield the numbers of vectors with values that are not finite."""
        for piece in range(self.pieces):
            wrong = ~np.isfinite(self._open(piece)).all(axis=1)
            yield from (np.flatnonzero(wrong) + piece * PIECE).tolist()

    def refuse_width(self, width: int) -> None:
        """:raises BadInput: a file has vectors of another width."""
        for piece in range(self.pieces):
            if (found := self._open(piece).shape[1]) != width:
                raise BadInput(f"{self.file(piece)} has vectors of width {found}, expected {width}: delete it")

    def file(self, piece: int) -> Path:
        return self.folder / f"vectors-{piece:05d}.npy"

    def _map(self, piece: int) -> NDArray[np.float32]:
        file = self.file(piece)
        try:
            check_file(file)
            vectors: np.memmap[Any, np.dtype[np.float32]] = np.load(file, mmap_mode="r", allow_pickle=False)
            if vectors.ndim != 2 or len(vectors) != len(self.rows_of(piece)) or vectors.dtype != np.float32:
                raise ValueError(f"{vectors.dtype} of shape {vectors.shape}")
            _check_digest(file.read_bytes(), vectors.offset + vectors.nbytes)
        except (ValueError, EOFError, OSError, SyntaxError, TokenError) as error:  # the last two of a header
            raise BadInput(f"{file} is damaged: delete it and run the probe again ({error})") from error
        return vectors


def _check_digest(content: bytes, end: int) -> None:
    """:raises ValueError: the bytes after the vectors are not their digest; earlier versions wrote none."""
    found = content[end:]
    if found and found != hashlib.sha256(content[:end]).digest():
        raise ValueError("not as it was written")

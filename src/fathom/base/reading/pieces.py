"""Pieces of a large file of lines that processes can read independently: plain, ``.gz`` or ``.bz2``.

A plain file can be cut anywhere, a ``.bz2`` file between its blocks, which are decompressed one at a time; a ``.gz``
file is one piece. A line belongs to the piece in which it begins, even if it ends in the next one.
"""

from __future__ import annotations

import io
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading.bounds import LINE, MEGABYTE, grown, most_unpacked
from fathom.base.reading.files import BLOCK, Unreadable, check_file, opened

PIECE, PACKED_PIECE = 256 * MEGABYTE, 32 * MEGABYTE
"""Bytes in a piece of a plain and of a ``.bz2`` file."""
_PACKED = 1 << 16
Block = tuple[bytes, bool]
"""Unpacked bytes, and whether they are in the piece or after it."""


class Piece(NamedTuple):
    """A range of bytes of the file as it is stored."""

    start: int
    end: int


def pieces_of(path: Path) -> list[Piece]:
    """Return the pieces of a file. :raises Unreadable: it is not a regular file, or cannot be read."""
    size = check_file(path).st_size
    step = {".gz": max(size, 1), ".bz2": PACKED_PIECE}.get(path.suffix, PIECE)
    starts = range(0, max(size, 1), step)
    return [Piece(start, end) for start, end in pairwise([*starts, size])]


def lines_of(path: Path, piece: Piece, place: Callable[[Callable[[], int]], object] | None = None) -> Iterator[bytes]:
    """Yield the lines that begin in a piece, with their line feeds. A line that is too long is cut off.

    :param place: receives a function that returns the position in the file, see :func:`opened`.
    :raises Unreadable: it cannot be read or unpacked, or grows too large.
    """
    inner, rest, total = piece.start > 0, b"", 0
    with opened(path, unpack=False, place=place) as file:
        for block, inside in _READERS.get(path.suffix, _plain_blocks)(file, piece):
            total += len(block)
            if total > max(most_unpacked(piece.end - piece.start), LINE.most):
                raise Unreadable(path, None, f"{grown(piece.end - piece.start)}: unpack it first, if intended")
            if inner and not inside:
                return
            whole = io.BytesIO(rest + block).readlines()
            rest = b"" if not whole or whole[-1].endswith(b"\n") else whole.pop()
            if inner and whole:  # the end of a line of the piece before, or of one that was cut off
                del whole[0]
                inner = False
            if whole and not inside:
                yield whole[0]
                return
            yield from whole
            if inner or len(rest) > LINE.most:
                if not inner:
                    yield rest[: LINE.most] + b"\n"
                inner, rest = True, b""
    if rest:
        yield rest


def _gzip_blocks(file: io.BufferedReader, piece: Piece) -> Iterator[Block]:
    """Unpack all members, with a checksum each; zeros may come between them."""
    packed = file.read(_PACKED)
    while packed:
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            if not packed and not (packed := file.read(_PACKED)):
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            yield unpacker.decompress(packed), True
            packed = unpacker.unused_data
        while not (packed := packed.lstrip(b"\0")) and (packed := file.read(_PACKED)):
            pass


def _plain_blocks(file: io.BufferedReader, piece: Piece) -> Iterator[Block]:
    file.seek(piece.start)
    at = piece.start
    while block := file.read(min(BLOCK, piece.end - at) if at < piece.end else BLOCK):
        yield block, at < piece.end
        at += len(block)


_BLOCK_BEGINS, _STREAM_ENDS, _MARK = 0x314159265359, 0x177245385090, 48
"""Marks in compressed data, which begin at any bit, and their length in bits."""
_CHECKSUM = 32
_LONGEST = 8 * BLOCK
"""Bytes of a compressed block, which has at most 900 kB before."""
_BROKEN = "Invalid data stream"


def _bzip2_blocks(file: io.BufferedReader, piece: Piece) -> Iterator[Block]:
    if not piece.start and file.read(3) != b"BZh":
        raise OSError(_BROKEN)
    file.seek(piece.start)
    data, at = b"", piece.start
    while True:
        more = file.read(BLOCK)
        data += more
        starts = _marks(data, _BLOCK_BEGINS)
        for start, end in pairwise(starts):
            yield _unpacked(data, start, end), at + start // 8 < piece.end
        if not more:
            break
        cut = starts[-1] // 8 if starts else max(len(data) - _MARK // 8, 0)
        data, at = data[cut:], at + cut
        if len(data) > _LONGEST:
            raise OSError(_BROKEN)
    if starts:
        yield _unpacked(data, starts[-1], None), at + starts[-1] // 8 < piece.end


def _marks(data: bytes, mark: int) -> list[int]:
    """Return the bits at which a mark begins. Five of its bytes are whole at any bit; the others are compared."""
    places = []
    for shift in range(8):
        whole = (mark << 8 - shift).to_bytes(7, "big")[1:6]
        at = data.find(whole, 1)
        while at > 0:
            around = data[at - 1 : at + 6].ljust(7, b"\0")
            if int.from_bytes(around, "big") >> 8 - shift & (1 << _MARK) - 1 == mark:
                places.append(8 * (at - 1) + shift)
            at = data.find(whole, at + 1)
    return sorted(places)


def _unpacked(data: bytes, start: int, end: int | None) -> bytes:
    """Decompress a block.

    :param start, end: bits, as of the next block; None for the last block of the file.
    :raises OSError: it is damaged. :raises EOFError: it is cut off.
    """
    first = start // 8
    if end is not None:
        try:
            return _as_stream(data, start, end)
        except OSError:  # what follows may be the end of a stream of several blocks
            pass
    ends = _marks(data[first:] if end is None else data[first : -(-end // 8)], _STREAM_ENDS)
    if not ends and end is None:
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")
    if not ends:
        raise OSError(_BROKEN)
    return _as_stream(data, start, 8 * first + ends[0])


def _as_stream(data: bytes, start: int, end: int) -> bytes:
    """Decompress a block as a stream of its own, whose checksum is that of the block."""
    size = end - start
    bits = int.from_bytes(data[start // 8 : -(-end // 8)], "big") >> -end % 8 & (1 << size) - 1
    checksum = bits >> size - _MARK - _CHECKSUM & (1 << _CHECKSUM) - 1
    bits = (bits << _MARK | _STREAM_ENDS) << _CHECKSUM | checksum
    size += _MARK + _CHECKSUM
    unpacker = BZ2Decompressor()
    unpacked = unpacker.decompress(b"BZh9" + (bits << -size % 8).to_bytes(-(-size // 8), "big"))
    if not unpacker.eof:
        raise OSError(_BROKEN)
    return unpacked


_READERS = {".gz": _gzip_blocks, ".bz2": _bzip2_blocks}

"""The way to every file that others wrote: is it a file at all, is it text, is it of a size that can be read?

Whatever stands in a file's place (nothing, a folder, a named pipe, a device, a link that leads to itself) is said in
one line. Packed files may not grow beyond bounds, nor may a line or a text that is read as a whole.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from fathom.errors import BadInput

MEGABYTE = 1 << 20
LONGEST_LINE = 32 * MEGABYTE
"""Bytes of a line; the longest of the data sets that we know have one."""
LARGEST_TEXT = 1024 * MEGABYTE
"""Bytes of a text that is read as a whole."""
GROWS_FREELY = 16 * MEGABYTE
"""Bytes that any packed file may have when it is unpacked."""
GROWTH = 300
"""How many times its size a larger packed file may have. Text grows 3 to 30 times, nothing but zeros 1,030 times."""
BLOCK = MEGABYTE
DAMAGED = "is damaged"
PACKED = (".gz", ".bz2")
UNPACKING = (EOFError, zlib.error, lzma.LZMAError)
"""What unpacking may raise, beside OSError."""
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_OTHERS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe: save what comes out of it to a file first"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)


class Unreadable(BadInput):
    """A file, or a place in it, is not what it must be.

    :param line: counted from 1; None for the file as a whole.
    """

    def __init__(self, path: Path, line: int | None, why: str) -> None:
        self.path, self.line, self.why = path, line, why
        super().__init__(located(path, line, why))


class Missing(Unreadable):
    """There is nothing at all in the file's place."""


def located(path: Path, line: int | None, message: str) -> str:
    """ "file:line: message", or "file is damaged …"; signs that steer a terminal are shown as none."""
    message = printable(message)
    if line is None and message.startswith(DAMAGED):
        return f"{path} {message}"
    return f"{path}: {message}" if line is None else f"{path}:{line}: {message}"


def shown(value: object, most: int = 60) -> str:
    """A value as a message shows it: cut where it is long; JSON's constants as they stand in the file."""
    text = "null" if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def some_of(names: Collection[str], most: int = 5) -> str:
    """The first few *names* in words, and how many there are where these are not all."""
    first = printable(", ".join(islice(names, most)))
    return first if len(names) <= most else f"{first}, … ({len(names):,} in all)"


def printable(text: str) -> str:
    """Without signs that steer a terminal, which files of others may hold."""
    return _STEERING.sub("\ufffd", text)


def stands(path: Path) -> bool:
    """Whether anything has that name: also a link that leads nowhere, so that reading it says so."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in the name
        return False


def check_file(path: Path) -> os.stat_result:
    """:raises Missing: nothing is there. :raises Unreadable: something is, but no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if stands(path) and path.is_symlink():
            raise Unreadable(path, None, f"is a link to {os.readlink(path)}, which is missing") from error
        raise Missing(path, None, "file is missing") from error
    except (OSError, ValueError) as error:
        raise Unreadable(path, None, _in_words(error)) from error
    if not stat.S_ISREG(found.st_mode):
        what = next((what for is_one, what in _OTHERS if is_one(found.st_mode)), "something else")
        raise Unreadable(path, None, f"is not a file but {what}")
    return found


def plain_or_packed(path: Path) -> Path:
    """The file of that name, or the one with ``.gz`` behind it where that stands there alone."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if stands(packed) and not stands(path) else path


def is_there(path: Path) -> bool:
    """Whether a file that may be absent is there. :raises Unreadable: something is in its place that is no file."""
    if not stands(path):
        return False
    check_file(path)
    return True


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a link that leads to itself: remove it, or put the file in its place"
    return f"cannot be read: {(isinstance(error, OSError) and error.strerror) or error}"


@contextmanager
def opened(
    path: Path, *, unpack: bool | None = None, place: Callable[[Callable[[], int]], object] | None = None
) -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked within bounds.

    :param unpack: whether it is packed by gzip; None: as the name says (``.gz``, ``.bz2``).
    :param place: given a function that tells how many bytes of the file as it lies have been read.
    :raises Unreadable: it is none, cannot be read or unpacked, or grows beyond all measure; from within, too.
    """
    size = check_file(path).st_size
    try:
        with path.open("rb") as raw:
            if place is not None:
                place(raw.tell)
            yield _unpacked(path, raw, size, unpack)
    except UNPACKING as error:
        raise Unreadable(path, None, f"cannot be read: {error}") from error
    except OSError as error:
        raise Unreadable(path, None, _in_words(error)) from error


def _unpacked(path: Path, raw: io.BufferedReader, size: int, unpack: bool | None) -> io.BufferedReader:
    if unpack or (unpack is None and path.suffix == ".gz"):
        stream: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=raw)
    elif unpack is None and path.suffix == ".bz2":
        stream = bz2.BZ2File(raw)
    else:
        return raw
    return io.BufferedReader(_Bounded(path, stream, size), BLOCK)


class _Bounded(io.RawIOBase):
    """What is unpacked, up to so many times the packed size."""

    def __init__(self, path: Path, stream: gzip.GzipFile | bz2.BZ2File, size: int) -> None:
        super().__init__()
        self._path, self._stream, self._given = path, stream, 0
        self._most = max(GROWS_FREELY, GROWTH * size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        found = self._stream.read1(len(view))  # what comes before damage is given
        self._given += len(found)
        if self._given > self._most:
            raise Unreadable(
                self._path,
                None,
                f"grows to more than {self._most // MEGABYTE:,} MB when it is unpacked, over {GROWTH} times its size: "
                "no data does; if it is meant, unpack it first",
            )
        view[: len(found)] = found
        return len(found)


def read_bytes(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The file as a whole, unpacked. :raises Unreadable: as :func:`opened`, or it has more than *most* bytes."""
    with opened(path) as stream:
        parts, total = [], 0
        while part := stream.read(BLOCK):
            parts.append(part)
            total += len(part)
            if total > most:
                raise Unreadable(path, None, f"is larger than {most / MEGABYTE:,.0f} MB, the most read")
    return b"".join(parts)


def read_text(path: Path, most: int = LARGEST_TEXT) -> str:
    """UTF-8, without the mark that some editors set before it. Line ends are as they are in the file.

    :raises Unreadable: as :func:`read_bytes`, or the file is not UTF-8.
    """
    content = read_bytes(path, most)
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, content, error) from error


def _not_utf8(path: Path, content: bytes, error: UnicodeDecodeError, before: int = 0) -> Unreadable:
    """:param before: lines above *content*."""
    line = before + content.count(b"\n", 0, error.start) + 1
    other = " (it seems to be UTF-16)" if line == 1 and content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    return Unreadable(path, line, f"not UTF-8 text{other}: save it as UTF-8")


def text_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """The lines of a text in UTF-8, one at a time, without their ends.

    A line ends with a line feed and nothing else: JSON may hold other signs that Unicode counts as line ends.

    :param longest: bytes.
    :raises Unreadable: as :func:`opened`, a line is too long, or not UTF-8; with the line.
    """
    number, rest = 0, b""
    try:
        with opened(path) as stream:
            while block := stream.read1(BLOCK):  # not read: what comes before damage is given
                whole, end, rest = (rest + block).rpartition(b"\n")
                lines = _decoded(path, whole + end, number)
                yield from lines
                number += len(lines)
                if len(rest) > longest:
                    raise Unreadable(
                        path, number + 1, f"a line of more than {longest / MEGABYTE:,.0f} MB, the most that is read"
                    )
    except Unreadable as error:
        if error.line is None and number:
            raise Unreadable(path, number + 1, f"{error.why}; the lines above could be read") from error
        raise
    yield from _decoded(path, rest, number)


def _decoded(path: Path, content: bytes, before: int) -> list[str]:
    """:param content: whole lines. :param before: lines above."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, content, error, before) from error
    if not lines[-1]:
        lines.pop()
    if not before and lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return lines

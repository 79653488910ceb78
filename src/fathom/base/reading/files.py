"""Foreign files of bounded size: bytes, text and lines, plain and compressed."""

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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.reading.bounds import LINE, MEGABYTE, TEXT, Bound, grown, most_unpacked

BLOCK = MEGABYTE
DAMAGED = "is damaged"
PACKED = (".gz", ".bz2")
UNPACKING = (EOFError, zlib.error, lzma.LZMAError)
"""Errors of unpacking, in addition to OSError."""
_LONG, _AROUND = 100, 20
"""Texts of so many letters are shown around their difference, with so many letters before and after it."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe: save its output to a file first"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)


class Unreadable(BadInput):
    """A file, or a line of it, is invalid. :param line: counted from 1; None for the file as a whole."""

    def __init__(self, path: Path, line: int | None, why: str) -> None:
        self.path, self.line, self.why = path, line, why
        super().__init__(located(path, line, why))


class Missing(Unreadable):
    """The file does not exist."""


def short_place(file: Path, line: int | None) -> str:
    """Return folder, file and line, as of one of many places in a note."""
    folder = f"{file.parent.name}/" if file.parent.name else ""
    return f"{folder}{file.name}" + (f":{line}" if line is not None else "")


def located(path: Path, line: int | None, message: str) -> str:
    """Return "file:line: message", or "file is damaged …", without control characters."""
    file = printable(str(path))
    if line is None and message.startswith(DAMAGED):
        return f"{file} {printable(message)}"
    return f"{file}{'' if line is None else f':{line}'}: {printable(message)}"


def shared_start(texts: Sequence[str]) -> str:
    """Return the letters with which all texts begin."""
    return os.path.commonprefix(list(texts))  # noqa: RUF071 # of letters, as is meant


def parted(*texts: str) -> list[str]:
    """Return long texts from shortly before they part to shortly after they meet again."""
    if max(map(len, texts)) < _LONG:
        return list(texts)
    start = max(0, len(shared_start(texts)) - _AROUND)
    rest = [text[start:] for text in texts]
    end = max(0, len(shared_start([text[::-1] for text in rest])) - _AROUND)
    return [f"…{text[: len(text) - end]}…"[: 2 * _LONG] for text in rest]


def shown(value: object, most: int = 60) -> str:
    """Return a value for a message: shortened, and with JSON's constants."""
    text = "null" if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def first_few(names: Collection[str], most: int = 5) -> str:
    """Return the first few names, and their number if there are more."""
    first = printable(", ".join(islice(names, most)))
    return first if len(names) <= most else f"{first}, … ({len(names):,} in all)"


def printable(text: str) -> str:
    """Replace control characters and halves of characters, which foreign files and names may contain."""
    return _CONTROL.sub("\ufffd", text)


def ending_of(path: Path) -> str:
    """Return the ending of a file's name, in lower case and without that of its packing: ".csv" of "a.CSV.gz"."""
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix.lower()


def stands(path: Path) -> bool:
    """Return whether the path exists, even as a broken link, which reading then reports."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in the name
        return False


def check_encoding(path: Path) -> Path:
    """Return the path. :raises Unreadable: its name is not UTF-8, which no manifest or table can state."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise Unreadable(path, None, "the name is not UTF-8: rename it") from error
    return path


def check_file(path: Path) -> os.stat_result:
    """:raises Missing: it does not exist. :raises Unreadable: it is not a regular file, or its name is not UTF-8."""
    check_encoding(path)
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if stands(path) and path.is_symlink():
            raise Unreadable(path, None, f"is a link to {os.readlink(path)}, which is missing") from error
        raise Missing(path, None, "file is missing") from error
    except (OSError, ValueError) as error:
        raise Unreadable(path, None, _reason(error)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "something else")
        raise Unreadable(path, None, f"is not a file but {kind}")
    return status


def resolve_packed(path: Path) -> Path:
    """Return the path, or that of its ``.gz`` file if only this exists."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if stands(packed) and not stands(path) else path


def file_exists(path: Path) -> bool:
    """Return whether a file exists. :raises Unreadable: the path is not a regular file."""
    if not stands(path):
        return False
    check_file(path)
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a link to itself: replace it by the file"
    return f"cannot be read: {(isinstance(error, OSError) and error.strerror) or error}"


@contextmanager
def opened(
    path: Path, *, unpack: bool | None = None, place: Callable[[Callable[[], int]], object] | None = None
) -> Iterator[io.BufferedReader]:
    """Open a file as bytes, unpacked within bounds.

    :param unpack: whether it is a gzip file; None: by its name (``.gz``, ``.bz2``).
    :param place: receives a function that returns the position in the compressed file.
    :raises Unreadable: it cannot be read or unpacked, or grows too large; also inside the context.
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
        raise Unreadable(path, None, _reason(error)) from error


def _unpacked(path: Path, raw: io.BufferedReader, size: int, unpack: bool | None) -> io.BufferedReader:
    if unpack or (unpack is None and path.suffix == ".gz"):
        stream: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=raw)
    elif unpack is None and path.suffix == ".bz2":
        stream = bz2.BZ2File(raw)
    else:
        return raw
    return io.BufferedReader(_BoundedStream(path, stream, size), BLOCK)


class _BoundedStream(io.RawIOBase):
    """A bounded stream of unpacked bytes."""

    def __init__(self, path: Path, stream: gzip.GzipFile | bz2.BZ2File, size: int) -> None:
        super().__init__()
        self._path, self._stream, self._size, self._total = path, stream, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        block = self._stream.read1(len(view))  # read1 returns bytes before a damaged place
        self._total += len(block)
        if self._total > most_unpacked(self._size):
            raise Unreadable(self._path, None, f"{grown(self._size)}: unpack it first, if intended")
        view[: len(block)] = block
        return len(block)


def read_bytes(path: Path, bound: Bound = TEXT) -> bytes:
    """Read and unpack a file. :raises Unreadable: as :func:`opened`, or it is larger than the bound."""
    with opened(path) as stream:
        parts, total = [], 0
        while part := stream.read(BLOCK):
            parts.append(part)
            total += len(part)
            if total > bound.most:
                raise Unreadable(path, None, bound.fault())
    return b"".join(parts)


def read_text(path: Path, bound: Bound = TEXT) -> str:
    """Read UTF-8 without its byte order mark, line ends unchanged.

    :raises Unreadable: as :func:`read_bytes`, or the file is not UTF-8.
    """
    content = read_bytes(path, bound)
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, content, error) from error


def _not_utf8(path: Path, content: bytes, error: UnicodeDecodeError, before: int = 0) -> Unreadable:
    """:param before: number of lines before *content*."""
    line = before + content.count(b"\n", 0, error.start) + 1
    hint = " (it seems to be UTF-16)" if line == 1 and content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    return Unreadable(path, line, f"not UTF-8 text{hint}: save it as UTF-8")


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of UTF-8 text without their ends, which are line feeds alone, as in JSON Lines.

    :raises Unreadable: as :func:`opened`, a line is too long, or not UTF-8; with the line.
    """
    number, rest = 0, b""
    try:
        with opened(path) as stream:
            while block := stream.read1(BLOCK):  # read1 returns bytes before a damaged place
                whole, end, rest = (rest + block).rpartition(b"\n")
                lines = _decoded(path, whole + end, number)
                yield from lines
                number += len(lines)
                if len(rest) > LINE.most:
                    raise Unreadable(path, number + 1, LINE.fault())
    except Unreadable as error:
        if error.line is None and number:
            raise Unreadable(path, number + 1, f"{error.why}; the lines above could be read") from error
        raise
    yield from _decoded(path, rest, number)


def _decoded(path: Path, content: bytes, before: int) -> list[str]:
    """:param content: whole lines. :param before: number of lines before them."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, content, error, before) from error
    if not lines[-1]:
        lines.pop()
    if not before and lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return lines

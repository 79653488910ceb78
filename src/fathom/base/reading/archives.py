"""Foreign archives (zip, tar), unpacked into one folder: regular files alone, of bounded size."""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from fathom.base.reading.bounds import MEMBERS, grown, most_unpacked
from fathom.base.reading.files import BLOCK, UNPACKING, Unreadable, check_file, shown

LONGEST_NAME = 255
"""Bytes in the name of a file or folder, as file systems take them."""
_BROKEN = (*UNPACKING, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, NotImplementedError, RuntimeError)
"""Errors of damaged, encrypted or unusual archives, in addition to OSError."""


class _Member(NamedTuple):
    """:param is_file: not a folder, link or device. :param open: gives its bytes."""

    name: str
    is_file: bool
    is_folder: bool
    open: Callable[[], IO[bytes] | None]


def is_archive(path: Path) -> bool:
    """Return whether the file is a zip or tar archive."""
    check_file(path)
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def unpack(archive: Path, folder: Path, take: Sequence[str] = ("*",), strip: int | None = None) -> list[str]:
    """Unpack files of an archive into *folder*.

    :param take: patterns of names; ``*`` matches slashes, too.
    :param strip: number of leading folders to drop from names; None: those that all files share.
    :returns: relative paths.
    :raises Unreadable: no archive, damaged, nothing matches, or it contains links, duplicate or unsafe names, or grows
        too large.
    """
    room = most_unpacked(check_file(archive).st_size)
    with _members(archive) as members:
        taken = [member for member in members if any(fnmatchcase(member.name, pattern) for pattern in take)]
        if not taken:
            raise Unreadable(archive, None, f"holds nothing named like {' or '.join(take)}")
        places = _places(archive, [member.name for member in taken], strip)
        for place, member in zip(places, taken, strict=True):
            if not member.is_file:
                raise Unreadable(archive, None, f"{shown(member.name)} is a link or a device: expected files alone")
            room = _write(archive, member, folder / place, room)
    return places


@contextmanager
def _members(archive: Path) -> Iterator[list[_Member]]:
    """Yield all members but folders. :raises Unreadable: also inside the context, if a member is damaged."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                yield _checked(archive, _of_zip(packed))
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tarred:
                yield _checked(archive, _of_tar(archive, tarred))
        else:
            wrong = looks_wrong(archive)
            raise Unreadable(archive, None, f"is neither a zip nor a tar archive{f': it is {wrong}' if wrong else ''}")
    except _BROKEN as error:
        raise Unreadable(archive, None, f"is damaged: {error}") from error


def _of_zip(packed: zipfile.ZipFile) -> Iterator[_Member]:
    for info in packed.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_file = not info.is_dir() and kind in (0, stat.S_IFREG)
        yield _Member(info.filename, is_file, info.is_dir(), lambda info=info: packed.open(info))  # type: ignore[misc]


def _of_tar(archive: Path, tarred: tarfile.TarFile) -> Iterator[_Member]:
    """Yield all members, then read to the end, where gzip, bzip2 and xz have their checksums."""
    for info in tarred:
        yield _Member(info.name, info.isreg(), info.isdir(), lambda info=info: tarred.extractfile(info))  # type: ignore[misc]
    stream, size = tarred.fileobj, archive.stat().st_size
    assert stream is not None  # opened by its name
    stream.seek(tarred.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # tarfile stops at any header that it cannot read
        raise tarfile.ReadError("it has no end mark after its last file")
    while stream.read(BLOCK):
        if stream.tell() > most_unpacked(size):
            raise Unreadable(archive, None, grown(size))


def _checked(archive: Path, members: Iterator[_Member]) -> list[_Member]:
    """:raises Unreadable: too many members, or an unsafe name."""
    checked = []
    for number, member in enumerate(members):
        if number >= MEMBERS.most:
            raise Unreadable(archive, None, MEMBERS.fault())
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or set("\\:\0") & set(member.name) or not path.parts:
            raise Unreadable(archive, None, f"{shown(member.name)} would be written elsewhere: nothing is unpacked")
        if any(len(part.encode(errors="replace")) > LONGEST_NAME for part in path.parts):
            raise Unreadable(archive, None, f"{shown(member.name)} has a part of over {LONGEST_NAME} bytes")
        if not member.is_folder:
            checked.append(member)
    return checked


def _places(archive: Path, names: Sequence[str], strip: int | None) -> list[str]:
    paths = [PurePosixPath(name).parts for name in names]
    if strip is None:
        shared = set.intersection(*({parts[:depth] for depth in range(len(parts))} for parts in paths))
        strip = max(map(len, shared))
    places = ["/".join(parts[strip:]) for parts in paths]
    times = Counter(places)
    folders = {str(folder) for place in times for folder in PurePosixPath(place).parents}
    if clash := next((place for place in places if place in folders), None):
        raise Unreadable(archive, None, f"{shown(clash)} is both a file and a folder")
    for name, place in zip(names, places, strict=True):
        if not place or times[place] > 1:
            raise Unreadable(archive, None, f"{shown(name)} has no unique name without its first {strip} folders")
    return places


def _write(archive: Path, member: _Member, to: Path, room: int) -> int:
    """:param room: bytes that may still be written. :returns: the rest of it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    stream = member.open()
    assert stream is not None  # a regular file
    with stream, to.open("xb") as file:
        while block := stream.read(BLOCK):
            room -= len(block)
            if room < 0:
                raise Unreadable(archive, None, grown(archive.stat().st_size))
            file.write(block)
    return room


def looks_wrong(file: Path) -> str | None:
    """Recognise by its first bytes what often arrives in place of data: a web page, nothing, part of an archive."""
    with file.open("rb") as opened:
        begin = opened.read(512)
    if begin.lstrip().startswith(b"<") and any(tag in begin.lower() for tag in (b"<html", b"<!doctype")):
        return "a web page"
    if begin.startswith(b"PK\x03\x04") and not zipfile.is_zipfile(file):
        return "a truncated zip archive"
    return None if begin else "an empty file"

"""Which files there are to read, by what each of them is read, and what could not be read."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from fathom.building.cloze.documents import Corpus, Unit, Unreadable
from fathom.building.cloze.medline import Medline
from fathom.building.cloze.options import ClozeOptions
from fathom.building.cloze.texts import JsonLines, PlainText
from fathom.errors import BadInput

MEDLINE, JSON_LINES, TEXT = "PubMed XML", "JSON Lines", "plain text"
_KINDS = {".xml": MEDLINE, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".txt": TEXT}
_SHOWN = 20
"""How many faults of one file are listed one by one; the rest are counted."""


class Source(NamedTuple):
    """A file.

    :param name: as given, or below the folder given: what provenance says.
    :param kind: of its content.
    """

    path: Path
    name: str
    kind: str


class Troubles:
    """What could not be read: the first of each file one by one, the others as a number; counted by file."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._notes: list[str] = []

    def add(self, source: Source, place: str, message: str) -> None:
        """Something of *source* was left out.

        :param place: where it stands.
        """
        self.count[source.name] += 1
        if self.count[source.name] <= _SHOWN:
            self._notes.append(f"{source.name}: {place}: {message}")

    def notes(self) -> list[str]:
        """A line for each that is listed, and one for the rest of each file."""
        more = [f"{name}: {n - _SHOWN:,} more like these" for name, n in self.count.items() if n > _SHOWN]
        return [*self._notes, *more]


def find_sources(inputs: Iterable[Path], notes: list[str]) -> list[Source]:
    """Files in the order given, those of a folder by name; each once.

    :param notes: what is passed over is added here.
    :raises BadInput: a path that is not there or not of a known kind.
    """
    found: dict[Path, Source] = {}
    faults = []
    for given in inputs:
        if not given.exists():
            faults.append(f"--input {given}: no such file or folder")
        elif given.is_dir():
            files = sorted(path for path in given.rglob("*") if path.is_file() and not path.name.startswith("."))
            known = [path for path in files if _kind(path)]
            others = Counter(path.suffix or path.name for path in files if not _kind(path))
            if others:
                listed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
                notes.append(f"{given.name}: passed over: {listed}")
            if not known:
                faults.append(f"--input {given}: no file that ends in {_endings()}")
            for path in known:
                name = (Path(given.name) / path.relative_to(given)).as_posix()
                found.setdefault(path.resolve(), Source(path, name, _kind(path)))
        elif kind := _kind(given):
            found.setdefault(given.resolve(), Source(given, given.name, kind))
        else:
            faults.append(f"--input {given}: expected a name that ends in {_endings()}")
    if faults:
        raise BadInput(faults)
    names = Counter(source.name for source in found.values())
    return [s._replace(name=s.path.as_posix()) if names[s.name] > 1 else s for s in found.values()]


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "")


def _endings() -> str:
    return ", ".join(_KINDS) + ", plain or .gz"


def corpus_of(source: Source, options: ClozeOptions) -> Corpus:
    """What reads the file."""
    if source.kind == MEDLINE:
        return Medline(titles=options.titles)
    if source.kind == JSON_LINES:
        return JsonLines(source.name, options.encoding)
    return PlainText(source.name, options.encoding, by_line=options.lines)


def units_of(source: Source, corpus: Corpus, troubles: Troubles | None = None) -> Iterator[Unit]:
    """Records of a file one at a time. A file that is damaged from some place on gives those before it.

    :param troubles: where damage is reported; None for a pass that reports nothing.
    """
    try:
        with _opened(source.path) as file:
            yield from corpus.units(file)
    except (Unreadable, EOFError, zlib.error, OSError) as error:
        if troubles is not None:
            troubles.add(source, "the rest of the file is left out", str(error))


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """Packed files are known by their first bytes, whatever their name."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield unpacked


def digest_of(path: Path) -> str:
    """SHA-256 of the file as it lies. :raises BadInput: it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, hashlib.sha256).hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error


def check_encoding(name: str) -> None:
    """:raises BadInput: Python knows no such encoding."""
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise BadInput(f"--encoding {name}: there is no such encoding; utf-8, latin-1 and cp1252 are some") from error

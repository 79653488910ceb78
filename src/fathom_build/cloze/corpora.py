"""Corpus files: which there are, what reads each of them, and what could not be read."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import refuse
from fathom.base.reading import Unreadable, check_file, opened, stands
from fathom_build.cloze.documents import (
    Corpus,
    Hypertext,
    Jats,
    JsonLines,
    Medline,
    PlainText,
    Unit,
    UnreadableDocument,
    is_jats,
    render_markdown,
    render_restructured,
)
from fathom_build.options import ClozeBuildOptions

MEDLINE, JATS, JSON_LINES, TEXT = "PubMed XML", "JATS XML", "JSON Lines", "plain text"
HTML, MARKDOWN, RESTRUCTURED = "HTML", "Markdown", "reStructuredText"
_KINDS = {
    ".xml": MEDLINE,
    ".nxml": JATS,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".txt": TEXT,
    ".html": HTML,
    ".htm": HTML,
    ".md": MARKDOWN,
    ".rst": RESTRUCTURED,
}
_RENDERERS = {HTML: None, MARKDOWN: render_markdown, RESTRUCTURED: render_restructured}
_ENDINGS = f"{', '.join(_KINDS)}, plain or .gz"
_SHOWN = 20
"""How many faults of a file are listed; the rest are counted."""
_HEAD = 1 << 13
"""Bytes that determine the kind of an XML file."""
SAMPLES = 32
"""At most so many files are read for an estimate."""


class TextFile(NamedTuple):
    """A file of a corpus; ``name`` is as given, or relative to the parent of the given folder."""

    path: Path
    name: str
    kind: str


class Troubles:
    """Unreadable parts of corpora: the first faults of each file one by one, the others counted by file."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._notes: list[str] = []

    def add(self, source: TextFile, place: str, message: str) -> None:
        """Report that a part of *source*, at *place*, was skipped."""
        self.count[source.name] += 1
        if self.count[source.name] <= _SHOWN:
            self._notes.append(f"{source.name}: {place}: {message}")

    def notes(self) -> list[str]:
        """Return a line for each listed fault, and one for the rest of each file."""
        more = [f"{name}: {n - _SHOWN:,} more like these" for name, n in self.count.items() if n > _SHOWN]
        return [*self._notes, *more]


def find_sources(inputs: Iterable[Path], notes: list[str]) -> list[TextFile]:
    """List files in the order given, those of a folder by name; each once.

    :param notes: what is skipped is added to this list.
    :raises BadInput: a path is missing or not of a known kind.
    """
    sources: dict[Path, TextFile] = {}
    faults = []
    for place in inputs:
        if not stands(place):
            faults.append(f"--input {place}: no such file or folder")
            continue
        in_folder = (path for path in place.rglob("*") if not path.is_dir() and not path.name.startswith("."))
        kinds = {path: _kind(path) for path in (sorted(in_folder) if place.is_dir() else [place])}
        if place.is_dir():
            unknown = Counter(path.suffix or path.name for path, kind in kinds.items() if not kind)
            if unknown:
                listed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(unknown.items()))
                notes.append(f"{place.name}: skipped: {listed}")
            if unknown.total() == len(kinds):
                faults.append(f"--input {place}: no file that ends in {_ENDINGS}")
        elif not kinds[place]:
            faults.append(f"--input {place}: expected a name that ends in {_ENDINGS}")
        for path, kind in kinds.items():
            if not kind:
                continue
            try:
                check_file(path)
            except Unreadable as error:
                faults.append(f"--input {error}")
                continue
            name = (Path(place.name) / path.relative_to(place)).as_posix() if place.is_dir() else place.name
            sources.setdefault(path.resolve(), TextFile(path, name, kind))
    refuse(faults)
    names = Counter(source.name for source in sources.values())
    return [s._replace(name=s.path.as_posix()) if names[s.name] > 1 else s for s in sources.values()]


def _kind(path: Path) -> str:
    """Return the kind of a file by its name, and of XML also by its first bytes; "" if unknown."""
    name = path.name.lower().removesuffix(".gz")
    kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "")
    return JATS if kind == MEDLINE and is_jats(_head(path)) else kind


def _is_packed(path: Path) -> bool:
    """Return whether a file is compressed, by its first bytes, regardless of the name."""
    with opened(path, unpack=False) as raw:
        return raw.read(2) == b"\x1f\x8b"


def _head(path: Path) -> bytes:
    """Return the first bytes of a regular file, or ``b""``."""
    try:
        check_file(path)
        with opened(path, unpack=_is_packed(path)) as file:
            return file.read(_HEAD)
    except Unreadable:
        return b""


def corpus_of(source: TextFile, options: ClozeBuildOptions) -> Corpus:
    """Return the reader of a file."""
    if source.kind == MEDLINE:
        return Medline(titles=options.titles)
    if source.kind == JATS:
        return Jats(source.name, titles=options.titles)
    if source.kind in _RENDERERS:
        return Hypertext(source.name, _RENDERERS[source.kind])
    if source.kind == JSON_LINES:
        return JsonLines(source.name)
    return PlainText(source.name, by_line=options.lines)


def units_of(source: TextFile, corpus: Corpus, troubles: Troubles | None = None) -> Iterator[Unit]:
    """Read records of a file one at a time; of a damaged file, those before the damage, reported to *troubles*."""
    try:
        with opened(source.path, unpack=_is_packed(source.path)) as file:
            yield from corpus.units(file)
    except (UnreadableDocument, Unreadable) as error:
        if troubles is not None:
            why = error.why if isinstance(error, Unreadable) else str(error)
            troubles.add(source, "the rest of the file is skipped", why)


def copy_beginnings(sources: Sequence[TextFile], folder: Path, most: int) -> list[TextFile]:
    """Copy the beginnings of evenly spaced files into *folder*.

    :param most: unpacked bytes to copy of all files together. A file that is small or has more than its equal part is
        copied up to that part.
    """
    spaced = sources[:: -(-len(sources) // SAMPLES)]
    copies = []
    for number, source in enumerate(spaced):
        packed = _is_packed(source.path)
        copy = folder / f"{number}{''.join(source.path.suffixes)}"
        with opened(source.path, unpack=packed) as file:
            beginning = file.read(most // len(spaced))
        copy.write_bytes(gzip.compress(beginning) if packed else beginning)
        copies.append(source._replace(path=copy))
    return copies


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as stored. :raises BadInput: it cannot be read."""
    with opened(path, unpack=False) as file:
        return hashlib.file_digest(file, hashlib.sha256).hexdigest()

"""Data sets fetched by name from where they are published, checked, and kept as ordinary data folders.

Files come into the cache's ``downloads`` first, where an interrupted attempt is resumed.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fathom import data
from fathom.base.errors import BadInput, RunFailed, refuse
from fathom.base.reading import Unreadable, file_exists, json_file
from fathom.base.reading.archives import is_archive, looks_wrong, unpack
from fathom.base.reading.download import OnBytes, download, sha256_of
from fathom.base.reading.replies import host_of
from fathom.data.formats import examine, format_of
from fathom.data.options import ExamplesOptions, FetchOptions
from fathom.data.published import PublishedDataset, PublishedFile, fetched, shelf
from fathom.store.files import make_folder, write_json
from fathom.store.locks import AT_WORK, exclusive_folder
from fathom.store.outputs import obstacles, signature_of, whole_folder

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""
RECORD = "fetched.json"
"""In a folder that was fetched: from where, when, under which licence, and what its files were."""
CHECKSUMS = "checksums.json"
"""In the cache: of everything fetched, by address and files taken."""


class FetchResult(NamedTuple):
    """:param made: False where it had been fetched before.
    :param first: addresses whose contents had no checksum.
    :param reads: folders in it that ``--data`` takes.
    """

    folder: Path
    made: bool
    first: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("",)

    def typed(self, entry: PublishedDataset) -> list[str]:
        """Return arguments of ``--data``: names if the folder is in the cache, else paths."""
        at_name = fetched(entry.name) == self.folder
        return [str((Path(entry.name) if at_name else self.folder) / part) for part in self.reads]


def fetch(
    entry: PublishedDataset,
    options: FetchOptions,
    *,
    on_bytes: OnBytes | None = None,
    pause_s: float = 1.0,
    check: Callable[[Path], tuple[str, ...]] | None = None,
) -> FetchResult:
    """Make the data folder of *entry*: the one of *options*, or its folder in the cache.

    :param on_bytes: called with the bytes received of a file, and its size.
    :param check: returns the folders that ``--data`` takes, or raises BadInput; by default a reader tries the files.
    :raises BadInput: not there, a wrong checksum, no archive, something is in the way; nothing is written.
    :raises RunFailed: no connection, a full disk; what has come is kept for the next attempt.
    """
    place = shelf()
    if place is None:
        raise BadInput("there is no place for a cache: type export FATHOM_CACHE=FOLDER first")
    folder = options.out or place / entry.name
    if folder.exists():
        return _fetched_before(folder, entry)
    desk = place.parent / "downloads" / entry.name
    with exclusive_folder(desk):
        with _disk_of(desk):
            make_folder(desk)
        files = [_come(source, desk, on_bytes, pause_s) for source in entry.whole_sources]
        with whole_folder(folder) as made:
            check = check or partial(_readable_in, entry)
            first, reads = _put_together(entry, files, made, place.parent / CHECKSUMS, options.accept, check)
        _clear(desk, files)
    return FetchResult(folder, True, first, reads)


def one_source(address: str, name: str | None, sha256: str | None = None) -> PublishedDataset:
    """Describe a data set of one file or archive at the user's address. :raises BadInput: no name, or no address."""
    from pydantic import ValidationError

    host_of(address, "--url", "https://example.org/data.zip")
    end = address.rstrip("/").rpartition("/")[2]
    for ending in (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"):
        end = end.removesuffix(ending)
    try:
        source = PublishedFile(url=address, sha256=sha256)
        return PublishedDataset(
            name=name or end, home=address, licence="not known: see where it is published", sources=(source,)
        )
    except ValidationError as error:
        fault = error.errors()[0]
        if "sha256" in fault["loc"]:
            raise BadInput(f"--sha256: expected 64 hexadecimal digits, found {fault['input']!r}") from error
        raise BadInput(f"{name or end!r} is no name of a data set: type fathom data fetch NAME --url …") from error


def _readable_in(entry: PublishedDataset, folder: Path) -> tuple[str, ...]:
    """Return the folders in *folder* that ``--data`` takes: those of the entry, else itself or all that a format fits.

    :raises BadInput: one of them cannot be read.
    """
    faults = [fault for part in entry.reads or ("",) for fault in examine(folder / part)[1].found]
    if not faults:
        return entry.reads or ("",)
    inner = sorted(path.name for path in folder.iterdir() if path.is_dir() and format_of(path) is not None)
    if not entry.reads and inner:
        return _readable_in(entry.model_copy(update={"reads": tuple(inner)}), folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != AT_WORK]
    wrong = looks_wrong(files[0]) if len(files) == 1 else None
    first = faults[0].removeprefix(f"{folder}: ").replace(f"{folder}/", "")
    more = f" (and {len(faults) - 1:,} more faults)" if faults[1:] else ""
    raise BadInput(f"{entry.home}: {f'{wrong} arrived' if wrong else f'{first}{more}'}; nothing is kept")


def contents_of(folder: Path, places: Iterable[str]) -> str:
    """Return the SHA-256 of the lines "SHA-256  path" of files, ordered by path, as ``sha256sum`` prints them."""
    lines = (f"{sha256_of(folder / place)}  {place}\n" for place in sorted(places))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _come(source: PublishedFile, desk: Path, on_bytes: OnBytes | None, pause_s: float) -> Path:
    """Download the file of a source. :raises BadInput: it has another checksum; then it is removed."""
    # Named after its address, so that a download from another address is not resumed.
    part = desk / f"{hashlib.sha256(source.url.encode()).hexdigest()[:16]}.part"
    whole = part.with_suffix(".whole")
    if not whole.exists():
        with _disk_of(part):
            download(source.url, part, on_bytes, pause_s=pause_s)
            part.rename(whole)
    actual = sha256_of(whole)
    if source.sha256 is not None and actual != source.sha256:
        _clear(part.parent, [whole])
        raise BadInput(
            f"{source.url} has another checksum: expected SHA-256 {source.sha256}, found {actual}; nothing is kept"
        )
    return whole


def _put_together(
    entry: PublishedDataset,
    files: list[Path],
    folder: Path,
    checksums: Path,
    accept: bool,
    check: Callable[[Path], tuple[str, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fill the folder. :returns: addresses whose contents are recorded for the first time; folders for ``--data``."""
    digests = _recorded(checksums)
    placed: dict[str, str] = {}
    before = dict(digests)
    for source, file in zip(entry.whole_sources, files, strict=True):
        try:
            places = _place(source, file, folder)
            digest = contents_of(folder, places)
            _check(source, folder, places, digest, digests, accept)
        except (OSError, UnicodeError, BadInput) as error:
            if isinstance(error, OSError) and error.errno in FULL:  # the archive is good
                raise
            _clear(file.parent, files)
            why = error.why if isinstance(error, Unreadable) else str(error)
            raise BadInput(f"{source.url}: {why}") from error
        digests[_key(source)] = digest
        placed |= dict.fromkeys(places, source.url)
    try:
        reads = check(folder)
    except BadInput:
        _clear(files[0].parent, files)
        raise
    record = {
        "name": entry.name,
        "licence": entry.licence,
        "home": entry.home,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": {place: {"sha256": sha256_of(folder / place), "from": url} for place, url in sorted(placed.items())},
        "reads": reads,
    }
    write_json(folder / RECORD, record)
    if digests != before:
        write_json(checksums, digests)
    first = (source.url for source in entry.whole_sources if not source.is_known and _key(source) not in before)
    return tuple(first), reads


def _place(source: PublishedFile, file: Path, folder: Path) -> list[str]:
    if source.take is not None or (source.name is None and is_archive(file)):
        return unpack(file, folder, source.take or ("*",), source.strip)
    to = folder / source.place
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    return [source.place]


def _check(
    source: PublishedFile, folder: Path, places: list[str], digest: str, digests: Mapping[str, str], accept: bool
) -> None:
    """:raises BadInput: the contents are others than those known, or than those fetched before."""
    if source.contents is not None:
        checked = [place for place in places if fnmatchcase(place, source.checked)]
        if (found := contents_of(folder, checked)) != source.contents:
            raise BadInput(
                f"the {len(checked):,} files have another checksum: expected {source.contents}, found {found}; nothing "
                "of it is kept"
            )
    before = digests.get(_key(source))
    if before not in (None, digest) and not accept:
        raise BadInput(
            f"is not what was fetched from there before (checksum of the contents {before}, now {digest}): type "
            "--accept if it may have changed; nothing is kept"
        )


def _fetched_before(folder: Path, entry: PublishedDataset) -> FetchResult:
    """:raises BadInput: another folder is in the way, or its files have changed."""
    if not folder.is_dir() or not file_exists(folder / RECORD):
        raise BadInput(f"{folder} is in the way: it was not fetched; move it, or choose another --out")
    record = json_file(folder / RECORD)
    try:
        name, files = record["name"], {place: about["sha256"] for place, about in record["files"].items()}
        reads = tuple(map(str, record.get("reads", entry.reads or ("",))))
    except (TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{folder / RECORD} is damaged: delete {folder}, and fetch it again") from error
    if name != entry.name:
        raise BadInput(f"{folder} holds {name}, not {entry.name}: choose another --out")
    stored = {place: sha256_of(folder / place) for place in files if (folder / place).is_file()}
    changed = [place for place, digest in files.items() if stored.get(place) != digest]
    if changed:
        shown = f"{changed[0]}{f' and {len(changed) - 1} more' if changed[1:] else ''}"
        raise BadInput(f"{folder}: {shown} changed since it was fetched: delete the folder, and fetch it again")
    return FetchResult(folder, False, reads=reads)


def _key(source: PublishedFile) -> str:
    return source.url if source.take is None else f"{source.url} {' '.join(source.take)}"


def _recorded(checksums: Path) -> dict[str, str]:
    if not file_exists(checksums):
        return {}
    digests = json_file(checksums)
    if not isinstance(digests, dict) or not all(isinstance(value, str) for value in digests.values()):
        raise BadInput(f"{checksums}: expected addresses with checksums; delete it to record them anew")
    return digests


def _clear(desk: Path, files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
        (desk / f"{file.stem}.part.json").unlink(missing_ok=True)


@contextmanager
def _disk_of(path: Path) -> Iterator[None]:
    """:raises RunFailed: in one line, what the disk refuses inside."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}") from error


EXAMPLES = Path(data.__file__).parent / "examples"


def write_examples(options: ExamplesOptions) -> list[str]:
    """Copy the example files into a new folder and return their names.

    :raises BadInput: the folder is not empty.
    :raises MadeBefore: the same call has made it.
    :raises RunFailed: the disk is full.
    """
    signature = signature_of("data examples", {})
    refuse(obstacles(options.out, signature))
    with whole_folder(options.out, signature) as folder:
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return sorted(entry.name for entry in EXAMPLES.iterdir())
